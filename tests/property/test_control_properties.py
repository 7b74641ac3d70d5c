"""Whatever the estimate, the command is finite and inside the limits of the vehicle."""

import math

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from tests.examples import examples
from tests.vehicles import DRIVE, make_steering, make_vehicle
from vehicled.control.corners import arc_to
from vehicled.control.preview import Preview, predict_pose
from vehicled.control.pure_pursuit import PurePursuit, PurePursuitParams
from vehicled.control.stop import brake_command
from vehicled.core.messages import NAN, ControlCommand, EstimatorStatus, StateEstimate
from vehicled.core.vehicle import Limits
from vehicled.estimation.history import CommandHistory
from vehicled.paths.catalog import load_course

STEERING = make_steering(offset_rad=0.018)
VEHICLE = make_vehicle(steering=STEERING, drive=DRIVE)
LIMITS = Limits(max_speed_mps=2.5, max_lateral_acceleration_mps2=3.0, corridor_m=1.0)
COURSES = {name: load_course(name) for name in ("lot17", "straight_20m", "circle_r2_ccw")}
PERIOD_NS = 10_000_000

wild = st.one_of(st.floats(), st.sampled_from([NAN, math.inf, -math.inf, 1e300, -1e300, 1e6, 0.0]))
coordinate = st.one_of(st.floats(-40, 80), wild)
small = st.one_of(st.floats(-4, 4), wild)
poses = st.tuples(coordinate, coordinate, small, small)


def _controller(name: str) -> PurePursuit:
    return PurePursuit(PurePursuitParams(), VEHICLE, LIMITS, COURSES[name], 0.01)


def _estimate(pose: tuple[float, float, float, float], t_ns: int) -> StateEstimate:
    return StateEstimate(t_ns, t_ns, *pose, NAN, (NAN,) * 16, EstimatorStatus.RUNNING)


def _sound(command: ControlCommand) -> None:
    assert abs(command.wheel_angle_rad) <= STEERING.max_wheel_rad
    assert 0.0 <= command.throttle <= 1.0
    assert 0.0 <= command.brake <= 1.0
    assert command.throttle == 0.0 or command.brake == 0.0


@examples(60)
@given(
    st.sampled_from(sorted(COURSES)),
    st.lists(
        st.tuples(
            poses,
            st.one_of(st.just(PERIOD_NS), st.integers(-(10**8), 10**12)),
            st.integers(-(10**9), 10**12),
        ),
        max_size=20,
    ),
)
def test_any_estimate_gives_a_sound_command(
    name: str, steps: list[tuple[tuple[float, float, float, float], int, int]]
) -> None:
    controller = _controller(name)
    now_ns = 10**12
    wheel = 0.0
    for pose, pause_ns, age_ns in steps:
        now_ns += pause_ns
        before = wheel
        command = controller.step(_estimate(pose, now_ns - age_ns), now_ns)
        _sound(command)
        wheel = command.wheel_angle_rad
        if not all(map(math.isfinite, pose)):
            assert (command.throttle, command.brake, command.wheel_angle_rad) == (0.0, 1.0, before)


@given(
    st.lists(
        st.tuples(st.floats(-3, 3), st.floats(-3, 3), st.floats(-7, 7), st.floats(0, 3)),
        min_size=2,
        max_size=30,
    )
)
def test_wheel_angle_is_limited_in_rate(steps: list[tuple[float, float, float, float]]) -> None:
    controller, last = _controller("lot17"), 0.0
    for k, pose in enumerate(steps):
        command = controller.step(_estimate(pose, k * PERIOD_NS), k * PERIOD_NS)
        assert abs(command.wheel_angle_rad - last) <= STEERING.rate_radps * 0.01 + 1e-12
        last = command.wheel_angle_rad


@pytest.mark.parametrize("field", ["x_m", "y_m", "yaw_rad", "speed_mps"])
@pytest.mark.parametrize("bad", [NAN, math.inf, -math.inf, 1e300])
def test_bad_state_brakes_with_the_wheels_as_they_were_and_recovers(field: str, bad: float) -> None:
    controller = _controller("circle_r2_ccw")
    course = COURSES["circle_r2_ccw"]
    pose = {
        "x_m": float(course.x_m[0]),
        "y_m": float(course.y_m[0]),
        "yaw_rad": float(course.yaw_rad[0]),
        "speed_mps": 0.4,
    }
    wheel = 0.0
    for k in range(20):
        wheel = controller.step(
            _estimate(tuple(pose.values()), k * PERIOD_NS),  # type: ignore[arg-type]
            k * PERIOD_NS,
        ).wheel_angle_rad
    assert wheel > 0.05
    soiled = pose | {field: bad}
    command = controller.step(_estimate(tuple(soiled.values()), 20 * PERIOD_NS), 20 * PERIOD_NS)  # type: ignore[arg-type]
    assert (command.throttle, command.brake, command.wheel_angle_rad) == (0.0, 1.0, wheel)
    after = controller.step(_estimate(tuple(pose.values()), 21 * PERIOD_NS), 21 * PERIOD_NS)  # type: ignore[arg-type]
    assert after.brake == 0.0
    assert after.throttle > 0.0


@pytest.mark.parametrize("bad", [NAN, math.inf, -math.inf])
def test_brake_command_is_finite_even_without_a_wheel_angle(bad: float) -> None:
    command = brake_command(5, 3, bad)
    assert (command.t_ns, command.newest_input_ns) == (5, 3)
    assert (command.throttle, command.brake, command.wheel_angle_rad) == (0.0, 1.0, 0.0)
    assert brake_command(5, 3, 0.2).wheel_angle_rad == 0.2


def test_reset_forgets_everything() -> None:
    def drive(controller: PurePursuit) -> list[ControlCommand]:
        steps = range(50)
        return [
            controller.step(_estimate((0.02 * k, 0.1, 0.2, 0.8), k * PERIOD_NS), k * PERIOD_NS)
            for k in steps
        ]

    controller = _controller("lot17")
    first = drive(controller)
    controller.reset()
    assert drive(controller) == first


@given(
    st.floats(-5, 5), st.floats(-5, 5), st.floats(-3, 3), st.floats(0.5, 5), st.floats(-0.3, 0.3)
)
def test_arc_goes_through_the_point(
    x: float, y: float, yaw: float, along: float, curvature: float
) -> None:
    turn = min(max(curvature * along, -1.5), 1.5)
    reach = turn / curvature if abs(curvature) > 1e-6 else along
    chord = reach * (math.sin(turn / 2) / (turn / 2) if abs(turn) > 1e-9 else 1.0)
    px, py = x + chord * math.cos(yaw + turn / 2), y + chord * math.sin(yaw + turn / 2)
    found, bearing = arc_to(Preview(x, y, yaw, 1.0, 0.0), px, py)
    assert found == pytest.approx(curvature, abs=1e-5)
    assert bearing == pytest.approx(turn / 2, abs=1e-6)


def test_a_point_behind_is_steered_to_and_not_away_from() -> None:
    here = Preview(0.0, 0.0, 0.0, 1.0, 0.0)
    assert arc_to(here, -1.0, 0.1)[0] > 0.5
    assert arc_to(here, -1.0, -0.1)[0] < -0.5
    assert all(map(math.isfinite, arc_to(here, 0.0, 0.0)))


@given(
    st.lists(st.floats(-0.335, 0.335), min_size=41, max_size=41),
    st.floats(0.2, 2.0),
    st.floats(-0.335, 0.335),
)
def test_predicted_pose_is_that_of_a_fine_integration(
    wheels: list[float], speed: float, wheel: float
) -> None:
    """Against Euler steps of 0.1 ms, with commands every 10 ms over the delay of 0.4 s."""
    history: CommandHistory[float] = CommandHistory(0.0, 10**9)
    # A controller's commands are limited in rate like the actuator.
    smooth = wheels[0]
    for k, each in enumerate(wheels):
        smooth += min(max(each - smooth, -0.0067), 0.0067)
        history.append(k * PERIOD_NS, smooth)
    now_ns = 40 * PERIOD_NS
    predicted = predict_pose(
        VEHICLE, history, Preview(1.0, 2.0, 0.5, speed, wheel), now_ns, 400_000_000
    )
    x, y, yaw, angle = 1.0, 2.0, 0.5, wheel
    for k in range(4000):
        angle += min(max(history.at(k * 100_000) - angle, -0.67e-4), 0.67e-4)
        x += speed * math.cos(yaw) * 1e-4
        y += speed * math.sin(yaw) * 1e-4
        yaw += speed * math.tan(angle) / 0.5 * 1e-4
    assert predicted.speed_mps == speed
    np.testing.assert_allclose(
        (predicted.x_m, predicted.y_m, predicted.yaw_rad), (x, y, yaw), atol=0.012 * speed
    )
    assert predicted.wheel_rad == pytest.approx(angle, abs=0.04)
