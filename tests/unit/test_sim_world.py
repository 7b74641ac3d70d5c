"""The world: what arrives when, the scenario, and that nothing depends on when it is asked."""

from collections import Counter
from math import hypot, pi, remainder

import pytest

from drivers.msglink.codec import MsglinkDecoder, encode
from sim_backend.emulators.msglink import MsgLinkEmulator
from sim_backend.plant.registry import UnknownPlantError
from sim_backend.world import SIMULATED_UTC_NS, Arrival, World, port_names
from vehicled.core.messages import (
    ActuatorCommand,
    GnssFix,
    GroundTruth,
    Heading,
    ImuSample,
    Message,
    MotorStatus,
    OperatorAction,
    OperatorCommand,
)
from vehicled.paths.catalog import load_course
from vehicled.paths.course import Course
from vehicled.profile import Profile, load_profile

MS = 1_000_000
START = 1_000_000_000
SECOND = 1_000_000_000


@pytest.fixture(scope="module")
def profile() -> Profile:
    return load_profile("art_published")


@pytest.fixture(scope="module")
def course() -> Course:
    return load_course("circle_r5_ccw")


def command(throttle: float, steering: float, brake: float = 0.0) -> bytes:
    return encode(ActuatorCommand(0, 0, throttle, brake, steering, 0.0))


def drive(
    world: World, profile: Profile, instants: list[int], until_ns: int = START + 3 * SECOND
) -> list[Arrival]:
    """Advance by ``instants`` with commands at 50 Hz, off the physics grid, each delivered before
    time passes it."""
    port = port_names(profile).index("drive")
    commands = [
        (START + 20 * MS * k + 300_000, command(0.6, 0.1 * (k % 7 - 3))) for k in range(150)
    ]
    arrivals = []
    for to_ns in [*instants, until_ns]:
        while commands and commands[0][0] < to_ns:
            t_ns, data = commands.pop(0)
            world.on_frame(port, t_ns, data)
        arrivals += world.advance(to_ns)
    return arrivals


def every(interval_ns: int) -> list[int]:
    return list(range(START, START + 3 * SECOND, interval_ns))


def decoded(arrivals: list[Arrival]) -> list[tuple[int, int, Message]]:
    return [
        (t_rx_ns, port, message)
        for t_rx_ns, port, data in arrivals
        for message in MsglinkDecoder().feed(data)
    ]


def test_ports_are_the_devices_then_operator_and_truth_each_once(profile: Profile):
    names = port_names(profile)
    assert names[: len(profile.devices)] == list(profile.devices)
    assert set(names) == {*profile.devices, "operator", "truth"}
    assert len(names) == len(set(names))


def test_it_starts_at_rest_on_the_first_point_and_stays_without_commands(profile: Profile):
    course = load_course("lot17")
    world = World(profile, course, 1, START)
    for to_ns in (START, START + 2 * SECOND):
        world.advance(to_ns)
        motion = world.motion
        assert (motion.x_m, motion.y_m, motion.yaw_rad, motion.speed_mps) == (
            course.x_m[0],
            course.y_m[0],
            course.yaw_rad[0],
            0.0,
        )


def test_the_operator_arms_and_drives(profile: Profile, course: Course):
    operator = port_names(profile).index("operator")
    arrivals = decoded(World(profile, course, 1, START).advance(START + SECOND))
    asked = [
        (t_rx_ns, port, message)
        for t_rx_ns, port, message in arrivals
        if isinstance(message, OperatorCommand)
    ]
    assert asked == [
        (
            START + 300 * MS,
            operator,
            OperatorCommand(START + 300 * MS, 0, OperatorAction.ARM, "scenario"),
        ),
        (
            START + 500 * MS,
            operator,
            OperatorCommand(START + 500 * MS, 0, OperatorAction.DRIVE, "scenario"),
        ),
    ]


def test_every_sensor_comes_at_its_rate_on_its_port(course: Course):
    profile = load_profile(
        "art_published",
        [
            "sim.imu.rate_hz=300",
            "sim.motor_status.rate_hz=50",
            'devices.drive.messages=["ActuatorCommand", "MotorStatus"]',
        ],
    )
    names = port_names(profile)
    arrivals = decoded(World(profile, course, 1, START).advance(START + 10 * SECOND + 200 * MS))
    assert all(message.t_rx_ns == 0 for _, _, message in arrivals if hasattr(message, "t_rx_ns"))
    up_to = START + 10 * SECOND
    counted = Counter(
        (names[port], type(message))
        for _, port, message in arrivals
        if getattr(message, "t_ns", 0) <= up_to
    )
    del counted["operator", OperatorCommand]
    assert counted == {
        ("gnss", GnssFix): 100,
        ("imu", ImuSample): 3000,
        ("heading", Heading): 100,
        ("drive", MotorStatus): 500,
        ("truth", GroundTruth): 1000,
    }
    stamps = [message.t_ns for _, _, message in arrivals if isinstance(message, ImuSample)]
    assert stamps[:3] == [START + 3_333_333, START + 6_666_667, START + 10 * MS]


def test_a_device_without_a_model_is_silent(course: Course):
    profile = load_profile(
        "art_published",
        ['devices.heading.messages=["WheelSpeed", "SteeringFeedback", "MotorStatus"]'],
    )
    heading = port_names(profile).index("heading")
    assert profile.sim.motor_status is None
    assert not [
        port
        for _, port, _ in World(profile, course, 1, START).advance(START + SECOND)
        if port == heading
    ]


def test_same_seed_same_bytes_other_seed_other_bytes(profile: Profile, course: Course):
    runs = [
        drive(World(profile, course, seed, START), profile, every(10 * MS)) for seed in (7, 7, 8)
    ]
    assert runs[0] == runs[1]
    assert [entry[:2] for entry in runs[0] if entry[1] != 0] == [
        entry[:2] for entry in runs[2] if entry[1] != 0
    ]
    assert runs[0] != runs[2]
    assert not {data for _, port, data in runs[0] if port == 1} & {
        data for _, port, data in runs[2] if port == 1
    }


@pytest.mark.parametrize("interval_ns", [2_500_000, 1_000_000, 700_001, 33_333_333, 900 * MS])
def test_the_bytes_do_not_depend_on_the_instants_of_asking(
    profile: Profile, course: Course, interval_ns: int
):
    at_100_hz = World(profile, course, 7, START)
    expected = drive(at_100_hz, profile, every(10 * MS))
    other = World(profile, course, 7, START)
    # Even long grants get their commands first: they are stamped, and act at their stamps.
    assert drive(other, profile, every(interval_ns)) == expected
    assert other.motion == at_100_hz.motion
    assert other.motion.speed_mps > 0.5


def test_one_sensor_s_noise_does_not_depend_on_the_others(profile: Profile, course: Course):
    def imu(*overrides: str) -> list[bytes]:
        other = load_profile("art_published", overrides)
        port = port_names(other).index("imu")
        return [
            data
            for _, number, data in World(other, course, 7, START).advance(START + SECOND)
            if number == port
        ]

    assert (
        imu("sim.gnss.rate_hz=5", "sim.heading.rate_hz=100", "sim.heading.sigma_rad=0.2") == imu()
    )


def test_arrivals_come_in_order_and_in_their_turn(profile: Profile, course: Course):
    world = World(profile, course, 3, START)
    before_ns = START
    for to_ns in every(1_700_000):
        wake_ns = world.next_wake_ns()
        arrivals = world.advance(to_ns)
        times = [t_rx_ns for t_rx_ns, _, _ in arrivals]
        assert times == sorted(times)
        # Nothing turns up after time has passed it, and nothing before the promised wake-up.
        assert all(max(before_ns, wake_ns - 1) < t_rx_ns <= to_ns for t_rx_ns in times)
        before_ns = to_ns


def test_time_never_goes_back(profile: Profile, course: Course):
    world = World(profile, course, 3, START)
    world.advance(START + SECOND)
    motion, grid_ns = world.motion, world.grid_ns
    assert world.advance(START) == []
    assert (world.motion, world.grid_ns) == (motion, grid_ns)


@pytest.mark.parametrize("step_ms", [0.5, 1.0, 3.0, 20.0])
def test_the_grid_is_a_parameter_and_hardly_matters(
    profile: Profile, course: Course, step_ms: float
):
    reference = World(profile, course, 3, START)
    drive(reference, profile, every(10 * MS))
    world = World(load_profile("art_published", [f"sim.step_ms={step_ms}"]), course, 3, START)
    drive(world, profile, every(10 * MS))
    assert 0 <= world.grid_ns - (START + 3 * SECOND) < step_ms * MS
    assert (
        hypot(world.motion.x_m - reference.motion.x_m, world.motion.y_m - reference.motion.y_m)
        < 0.1
    )


def test_without_noise_the_sensors_agree_with_the_truth(course: Course):
    quiet = ["sim.gnss.sigma_m=0", "sim.gnss.walk_sigma_m=0", "sim.gnss.velocity_sigma_mps=0",
        "sim.heading.sigma_rad=0",
             "devices.gnss.lever_arm_m=[0.0, 0.0, 0.0]"]  # fmt: skip
    profile = load_profile("art_published", quiet)
    arrivals = decoded(drive(World(profile, course, 1, START), profile, every(5 * MS)))
    truth = {
        message.t_ns: message for _, _, message in arrivals if isinstance(message, GroundTruth)
    }
    compared = 0
    for _, _, message in arrivals:
        if isinstance(message, GnssFix):
            at = truth[message.t_ns]
            assert course.datum.to_enu(
                message.latitude_rad, message.longitude_rad, message.height_m
            ) == pytest.approx((at.x_m, at.y_m, 0.0), abs=1e-6)
            assert hypot(*message.velocity_enu_mps) == pytest.approx(at.speed_mps, abs=1e-12)
            assert message.utc_ns == SIMULATED_UTC_NS + message.t_ns - START
            compared += 1
        elif isinstance(message, Heading):
            assert remainder(
                message.yaw_rad - truth[message.t_ns].yaw_rad, 2 * pi
            ) == pytest.approx(0.0, abs=1e-12)
            compared += 1
    assert compared > 50


def test_integrated_gyro_and_accelerometer_give_the_motion(course: Course):
    """Samples between grid points carry the motion between them: what is integrated from the IMU is
    what happened."""
    noises = ["density", "bias_walk"]
    silent = [f"sim.imu.{part}_{noise}=0" for part in ("accelerometer", "gyro") for noise in noises]
    silent += [
        f"sim.imu.{name}=0"
        for name in ("accelerometer_bias_mps2", "gyro_bias_radps", "vibration_mps2")
    ]
    profile = load_profile("art_published", [*silent, "devices.imu.lever_arm_m=[0.0, 0.0, 0.0]"])
    world = World(profile, course, 1, START)
    yaw_rad = world.motion.yaw_rad
    samples = [
        message
        for _, _, message in decoded(drive(world, profile, every(10 * MS)))
        if isinstance(message, ImuSample)
    ]
    turned = sum(sample.angular_rate_radps[2] for sample in samples) / 400.0
    gained = sum(sample.specific_force_mps2[0] for sample in samples) / 400.0
    assert abs(turned) > 0.01
    assert turned == pytest.approx(world.motion.yaw_rad - yaw_rad, abs=2e-3)
    assert gained == pytest.approx(world.motion.speed_mps, abs=0.02)


def test_bytes_for_no_actuator_move_nothing(profile: Profile, course: Course):
    world = World(profile, course, 1, START)
    names = port_names(profile)
    world.on_frame(names.index("gnss"), START, command(0.9, 0.0))
    world.on_frame(200, START, b"1234")
    world.on_frame(names.index("drive"), START, encode(OperatorCommand(0, 0, OperatorAction.ARM)))
    world.on_frame(names.index("drive"), START, b"noise" + command(0.5, 0.0))
    gnss, drive = (world.emulator(names.index(name)) for name in ("gnss", "drive"))
    assert isinstance(gnss, MsgLinkEmulator)
    assert isinstance(drive, MsgLinkEmulator)
    assert (gnss.dropped_bytes, drive.dropped_bytes) == (0, 5)
    world.advance(START + 150 * MS)
    assert world.actuators.duty == 0.5


def test_commands_cut_in_two_on_the_port_still_act(profile: Profile, course: Course):
    world = World(profile, course, 1, START)
    port, data = port_names(profile).index("drive"), command(0.5, 0.0)
    world.on_frame(port, START, data[:9])
    world.on_frame(port, START + MS, data[9:])
    world.advance(START + 200 * MS)
    assert world.actuators.duty == 0.5


def test_an_unknown_plant_is_named(course: Course):
    with pytest.raises(UnknownPlantError, match="double_trak"):
        World(load_profile("art_published", ["sim.plant=double_trak"]), course, 1, START)
