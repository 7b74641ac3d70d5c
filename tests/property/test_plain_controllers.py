"""Every controller without a solver, for any state: a sound command, the brake for nonsense, the
same again after a reset."""

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.vehicles import make_drive, make_steering, make_vehicle
from vehicled.control.interface import Controller
from vehicled.core.messages import NAN, ControlCommand, EstimatorStatus, StateEstimate
from vehicled.core.vehicle import Limits, Vehicle
from vehicled.paths.catalog import load_course
from vehicled.profile.registry import resolve

NAMES = (
    "linear",
    "pure_pursuit",
    "pure_pursuit_published",
    "flat",
    "regulated_pure_pursuit",
    "stanley",
)
STEERING = make_steering(offset_rad=0.018)
DRIVE = make_drive(brake_deceleration_mps2=3.0, reverse_share=0.5)
VEHICLE = make_vehicle(steering=STEERING, drive=DRIVE)
FORWARD_ONLY = msgspec.structs.replace(
    VEHICLE, drive=msgspec.structs.replace(DRIVE, reverse_share=0.0)
)
LIMITS = Limits(max_speed_mps=2.5, max_lateral_acceleration_mps2=3.0, corridor_m=1.0)
COURSES = {
    name: load_course(name)
    for name in ("lot17", "straight_20m", "circle_r2_ccw", "parallel_parking")
}
PERIOD_NS = 10_000_000

wild = st.one_of(st.floats(), st.sampled_from([NAN, math.inf, -math.inf, 1e300, -1e300, 1e6, 0.0]))
coordinate = st.one_of(st.floats(-40, 80), wild)
small = st.one_of(st.floats(-4, 4), wild)
poses = st.tuples(coordinate, coordinate, small, small)
each = pytest.mark.parametrize("name", NAMES)


def _controller(name: str, course: str, vehicle: Vehicle = VEHICLE) -> Controller:
    kind = resolve("controller", name)
    controller: Controller = kind(kind.Params(), vehicle, LIMITS, COURSES[course], 0.01)
    return controller


def _estimate(pose: tuple[float, ...], t_ns: int) -> StateEstimate:
    x, y, yaw, speed = pose
    return StateEstimate(t_ns, t_ns, x, y, yaw, speed, NAN, (NAN,) * 16, EstimatorStatus.RUNNING)


def _sound(command: ControlCommand, vehicle: Vehicle) -> None:
    assert abs(command.wheel_angle_rad) <= STEERING.max_wheel_rad
    assert -vehicle.drive.reverse_share <= command.throttle <= 1.0
    assert 0.0 <= command.brake <= 1.0
    assert command.throttle == 0.0 or command.brake == 0.0


@each
@examples(30)
@given(
    st.sampled_from(sorted(COURSES)),
    st.booleans(),
    st.lists(
        st.tuples(
            poses,
            st.one_of(st.just(PERIOD_NS), st.integers(-(10**8), 10**12)),
            st.integers(-(10**9), 10**12),
        ),
        max_size=15,
    ),
)
def test_any_estimate_gives_a_sound_command(
    name: str,
    course: str,
    reverses: bool,
    steps: list[tuple[tuple[float, float, float, float], int, int]],
) -> None:
    vehicle = VEHICLE if reverses else FORWARD_ONLY
    controller = _controller(name, course, vehicle)
    now_ns, wheel = 10**12, 0.0
    for pose, pause_ns, age_ns in steps:
        now_ns += pause_ns
        command = controller.step(_estimate(pose, now_ns - age_ns), now_ns)
        _sound(command, vehicle)
        if not all(map(math.isfinite, pose)):
            assert (command.throttle, command.brake, command.wheel_angle_rad) == (0.0, 1.0, wheel)
        wheel = command.wheel_angle_rad


@each
def test_a_bad_state_brakes_and_the_next_good_one_drives(name: str) -> None:
    controller = _controller(name, "circle_r2_ccw")
    course = COURSES["circle_r2_ccw"]
    pose = (float(course.x_m[0]), float(course.y_m[0]), float(course.yaw_rad[0]), 0.3)
    for k in range(20):
        before = controller.step(_estimate(pose, k * PERIOD_NS), k * PERIOD_NS)
    assert before.throttle > 0.0
    assert before.wheel_angle_rad > 0.02
    bad = controller.step(_estimate((NAN, *pose[1:]), 20 * PERIOD_NS), 20 * PERIOD_NS)
    assert (bad.throttle, bad.brake, bad.wheel_angle_rad) == (0.0, 1.0, before.wheel_angle_rad)
    assert controller.step(_estimate(pose, 21 * PERIOD_NS), 21 * PERIOD_NS).throttle > 0.0


@each
def test_reset_forgets_everything_and_other_parameters_are_taken_over(name: str) -> None:
    def drive(controller: Controller) -> list[ControlCommand]:
        steps = range(50)
        return [
            controller.step(_estimate((0.02 * k, 0.02, 0.0, 0.8), k * PERIOD_NS), k * PERIOD_NS)
            for k in steps
        ]

    controller = _controller(name, "straight_20m")
    first = drive(controller)
    controller.reset()
    assert drive(controller) == first
    steering = msgspec.structs.replace(STEERING, gain_rad=0.2, offset_rad=-0.02, delay_s=0.1)
    other = msgspec.structs.replace(VEHICLE, steering=steering)
    controller.reset()
    controller.adapt(other)
    adapted = drive(controller)
    assert [c.progress_m for c in adapted] == [c.progress_m for c in first]
    assert [c.wheel_angle_rad for c in adapted] != [c.wheel_angle_rad for c in first]


@each
def test_backward_it_drives_backward(name: str) -> None:
    """Behind a cusp: the throttle is negative, once the vehicle stands and the wheels are
    turned."""
    controller = _controller(name, "parallel_parking")
    course = COURSES["parallel_parking"]
    end_m = float(course.s_m[course.cusps[0]])
    commands = []
    for k in range(400):
        # Driven to the cusp in 2 s, then left standing there.
        x = min(end_m, 0.02 * k)
        speed = 0.5 if x < end_m else 0.0
        commands.append(
            controller.step(_estimate((x, 0.0, 0.0, speed), k * PERIOD_NS), k * PERIOD_NS)
        )
    assert max(c.throttle for c in commands[100:]) > 0.0
    assert commands[-1].throttle < 0.0
    assert commands[-1].target_speed_mps < 0.0
    turned = next(k for k, c in enumerate(commands) if c.throttle < 0.0)
    assert commands[turned - 1].brake == 1.0, "from the brake, not from the drive"
