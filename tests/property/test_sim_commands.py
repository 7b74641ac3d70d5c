"""No command, however absurd, makes the world anything but finite."""

from math import isfinite

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from drivers.msglink.codec import MsglinkDecoder, encode
from sim_backend.plant.actuators import HORIZON_NS
from sim_backend.world import World, port_names
from vehicled.core.messages import ActuatorCommand, GnssFix, GroundTruth, Heading, ImuSample
from vehicled.paths.catalog import load_course
from vehicled.profile import load_profile

START = 1_000_000_000
PROFILE = load_profile(
    "art_published", ["sim.steering.dead_zone=0.1", "sim.drive.brake_deceleration_mps2=5"]
)
COURSE = load_course("circle_r5_ccw")
PORT = port_names(PROFILE).index("drive")

absurd = st.one_of(
    st.floats(),
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.5, 1e308, -1e308, 5e-324, float("nan"), float("inf")]),
)
# Clear of the horizon, which moves with the world while these runs last less than a second.
near = st.integers(START - 10**9, START + HORIZON_NS - 1)
far = st.one_of(st.integers(START + 10**10, 2**63 - 1), st.integers(-(2**63), 0))
stamps = st.one_of(near, far)
commands = st.lists(
    st.tuples(stamps, absurd, absurd, absurd, st.integers(0, 60_000_000)), max_size=15
)


@given(commands)
def test_the_world_stays_finite_and_within_its_stops(
    sent: list[tuple[int, float, float, float, int]],
):
    drive, steers = PROFILE.sim.drive, PROFILE.sim.steering
    assert drive is not None
    assert steers is not None
    world, now_ns, arrivals, ignored = World(PROFILE, COURSE, 5, START), START, [], 0
    for stamp_ns, throttle, brake, steering, pause_ns in sent:
        refused = (
            not (isfinite(throttle) and isfinite(brake) and isfinite(steering))
            or stamp_ns >= START + 10**10
        )
        world.on_frame(
            PORT, stamp_ns, encode(ActuatorCommand(0, 0, throttle, brake, steering, float("nan")))
        )
        ignored += refused
        now_ns += pause_ns
        arrivals += world.advance(now_ns)
        motion, actuators = world.motion, world.actuators
        *numbers, wheels_radps = msgspec.structs.astuple(motion)
        assert all(isfinite(value) for value in (*numbers, *wheels_radps))
        assert 0.0 <= motion.speed_mps <= 1.2 * drive.top_speed_mps
        assert abs(actuators.wheel_angle_rad) <= steers.max_wheel_rad
        assert 0.0 <= actuators.duty <= 1.0
        assert 0.0 <= actuators.brake <= 1.0
    assert world.actuators.ignored_commands == ignored
    for _, _, data in arrivals:
        (message,) = MsglinkDecoder().feed(data)
        match message:
            case GnssFix():
                values = [
                    message.latitude_rad,
                    message.longitude_rad,
                    message.height_m,
                    *message.velocity_enu_mps,
                ]
            case ImuSample():
                values = [*message.specific_force_mps2, *message.angular_rate_radps]
            case Heading():
                values = [message.yaw_rad]
            case GroundTruth():
                values = list(msgspec.structs.astuple(message))
            case _:
                values = []
        assert all(map(isfinite, values))


@given(st.lists(st.binary(max_size=120), max_size=12))
def test_any_bytes_on_any_port_leave_the_vehicle_alone(chunks: list[bytes]):
    world = World(PROFILE, COURSE, 5, START)
    for number, chunk in enumerate(chunks):
        world.on_frame(number % 8, START + number, chunk)
    world.advance(START + 300_000_000)
    assert world.motion.speed_mps == 0.0


@given(st.lists(st.integers(0, 40_000_000), max_size=25))
def test_any_grants_give_the_same_bytes(pauses: list[int]):
    end_ns = START + 400_000_000
    data = encode(ActuatorCommand(0, 0, 0.8, 0.0, 0.5, 0.0))

    def run(instants: list[int]) -> list[tuple[int, int, bytes]]:
        world, arrivals = World(PROFILE, COURSE, 5, START), []
        stamps = list(range(START + 123_456, end_ns, 90_000_001))
        for to_ns in instants:
            while stamps and stamps[0] < to_ns:
                world.on_frame(PORT, stamps.pop(0), data)
            arrivals += world.advance(to_ns)
        return arrivals

    instants, now_ns = [], START
    for pause_ns in pauses:
        now_ns = min(now_ns + pause_ns, end_ns)
        instants.append(now_ns)
    assert run([*instants, end_ns]) == run([end_ns])
