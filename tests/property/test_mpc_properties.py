"""Whatever the estimate and whatever is identified, the predictive controllers' commands are finite
and inside the limits."""

import math
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from msgspec.structs import replace

from tests.examples import examples
from tests.strategies import near, near_count
from vehicled.control.fallback_chain import FallbackChain, FallbackParams, PlannerResult
from vehicled.control.mpc.controller import Mpc, MpcParams
from vehicled.control.mpc.follower import CurvatureScale, WheelHistory
from vehicled.control.mpc.path import legs
from vehicled.control.mpc.plan import PlanLimits, PlanStart, SteeringPlanner
from vehicled.control.mpc.qp import CostWeights, HorizonQp
from vehicled.control.mpc.qp_solver import OsqpSolver
from vehicled.control.speed import SpeedParams, SpeedProfile
from vehicled.core.messages import (
    NAN,
    ControlCommand,
    ControlLevel,
    ControlReason,
    EstimatorStatus,
    StateEstimate,
)
from vehicled.core.vehicle import Steering, Vehicle
from vehicled.offline.replications.published.mpc import MpcPublished, MpcPublishedParams
from vehicled.paths.catalog import load_course
from vehicled.paths.course import course_from_waypoints
from vehicled.profile import load_profile

PROFILE = load_profile("art")
VEHICLE, LIMITS = PROFILE.vehicle, PROFILE.limits
REVERSING = replace(VEHICLE, drive=replace(VEHICLE.drive, reverse_share=0.5))
PARKING = course_from_waypoints(
    "park",
    [0.0, 2.0, 4.0, 3.0, 1.0],
    [0.0, 0.0, 0.5, 0.3, -0.4],
    speed=[0.8, 0.8, -0.5, -0.5, -0.5],
    closed=False,
)
COURSES = {name: load_course(name) for name in ("lot17", "straight_20m", "circle_r2_ccw")} | {
    "park": PARKING
}
PERIOD_NS = 10_000_000

wild = st.one_of(st.floats(), st.sampled_from([NAN, math.inf, -math.inf, 1e300, -1e300, 1e6, 0.0]))
coordinate = st.one_of(st.floats(-40, 80), wild)
small = st.one_of(st.floats(-4, 4), wild)
poses = st.tuples(coordinate, coordinate, small, small)
steerings = st.builds(
    Steering,
    gain_rad=st.floats(0.01, 1.4),
    offset_rad=st.floats(-0.5, 0.5),
    max_wheel_rad=st.floats(0.05, 1.4),
    rate_radps=st.floats(0.01, 50.0),
    delay_s=st.floats(0.0, 2.0),
    dead_zone=st.floats(0.0, 0.8),
)
vehicles = st.builds(
    lambda steering, wheelbase, delay: replace(
        REVERSING,
        steering=steering,
        wheelbase_m=wheelbase,
        drive=replace(REVERSING.drive, delay_s=delay),
    ),
    steerings,
    st.floats(0.1, 5.0),
    st.floats(0.0, 2.0),
)
ticks = st.tuples(
    poses,
    st.one_of(st.just(PERIOD_NS), st.integers(-(10**8), 10**12)),
    st.integers(-(10**9), 10**12),
)


def build(kind: str, name: str, vehicle: Vehicle = REVERSING) -> Any:
    if kind == "published":
        return MpcPublished(MpcPublishedParams(), vehicle, LIMITS, COURSES[name], 0.01)
    return Mpc(MpcParams(backend=kind), vehicle, LIMITS, COURSES[name], 0.01)  # type: ignore[arg-type]


def estimate(pose: tuple[float, float, float, float], t_ns: int) -> StateEstimate:
    return StateEstimate(t_ns, t_ns, *pose, NAN, (NAN,) * 16, EstimatorStatus.RUNNING)


def sound(command: ControlCommand, vehicle: Vehicle) -> None:
    assert abs(command.wheel_angle_rad) <= vehicle.steering.max_wheel_rad
    assert -vehicle.drive.reverse_share <= command.throttle <= 1.0
    assert 0.0 <= command.brake <= 1.0
    assert command.throttle == 0.0 or command.brake == 0.0


@examples(40)
@given(
    st.sampled_from(["osqp", "daqp", "published"]),
    st.sampled_from(sorted(COURSES)),
    st.lists(st.one_of(ticks, vehicles), max_size=12),
)
def test_any_estimate_and_any_vehicle_give_a_sound_command(
    kind: str, name: str, steps: list[Any]
) -> None:
    controller, now_ns, vehicle = build(kind, name), 10**12, REVERSING
    for step in steps:
        if isinstance(step, Vehicle):
            vehicle = step
            controller.adapt(vehicle)
            continue
        pose, pause_ns, age_ns = step
        now_ns += pause_ns
        command = controller.step(estimate(pose, now_ns - age_ns), now_ns)
        sound(command, vehicle)
        if not all(map(math.isfinite, pose)):
            assert (command.throttle, command.brake, command.level) == (0.0, 1.0, ControlLevel.STOP)


@given(
    st.lists(
        st.tuples(st.floats(-3, 3), st.floats(-3, 3), st.floats(-7, 7), st.floats(0, 3)),
        min_size=2,
        max_size=20,
    )
)
def test_wheel_and_throttle_are_limited_in_rate(
    steps: list[tuple[float, float, float, float]],
) -> None:
    controller, wheel, throttle = build("osqp", "lot17"), 0.0, 0.0
    for k, pose in enumerate(steps):
        command = controller.step(estimate(pose, k * PERIOD_NS), k * PERIOD_NS)
        assert abs(command.wheel_angle_rad - wheel) <= VEHICLE.steering.rate_radps * 0.01 + 1e-12
        assert command.throttle - throttle <= MpcParams().throttle_rate_per_s * 0.01 + 1e-12
        wheel, throttle = command.wheel_angle_rad, command.throttle


@given(steerings, steerings, st.floats(-1.4, 1.4))
def test_commands_on_their_way_are_read_with_what_is_believed_now(
    before: Steering, after: Steering, wheel_rad: float
) -> None:
    history = WheelHistory(before, 10**9)
    history.append(5, wheel_rad)
    history.steering = after
    lock = after.max_wheel_rad
    sent = before.command(wheel_rad)
    assert history.at(5) == history.latest() == min(max(after.wheel_angle_rad(sent), -lock), lock)


@pytest.mark.parametrize("kind", ["osqp", "published"])
def test_two_runs_are_the_same_to_the_bit(kind: str) -> None:
    runs = []
    for _ in range(2):
        controller = build(kind, "lot17")
        poses = [(0.01 * k, 0.1 * math.sin(k), 0.01 * (k % 7), 1.0) for k in range(60)]
        runs.append(
            [
                controller.step(estimate(pose, k * PERIOD_NS), k * PERIOD_NS)
                for k, pose in enumerate(poses)
            ]
        )
    assert runs[0] == runs[1]


@pytest.mark.parametrize("kind", ["osqp", "published"])
def test_reset_begins_anew(kind: str) -> None:
    controller = build(kind, "lot17")
    poses = [(0.01 * k, 0.1, 0.0, 1.0) for k in range(30)]
    first = [
        controller.step(estimate(pose, k * PERIOD_NS), k * PERIOD_NS)
        for k, pose in enumerate(poses)
    ]
    controller.reset()
    again = [
        controller.step(estimate(pose, k * PERIOD_NS), k * PERIOD_NS)
        for k, pose in enumerate(poses)
    ]
    assert [c.wheel_angle_rad for c in first] == pytest.approx(
        [c.wheel_angle_rad for c in again], abs=1e-5
    )
    assert [c.throttle for c in first] == pytest.approx([c.throttle for c in again], abs=1e-5)


@given(
    st.lists(
        st.tuples(
            st.floats(-2, 2), st.one_of(st.floats(-20, 20), wild), st.one_of(st.floats(-5, 5), wild)
        ),
        max_size=50,
    ),
    st.floats(0.1, 10.0),
)
def test_the_turn_scale_stays_in_its_bounds(
    seen: list[tuple[float, float, float]], ratio: float
) -> None:
    scale = CurvatureScale(4.0)
    for model, rate, speed in seen:
        scale.observe(model, rate, speed if math.isfinite(speed) else 1.0, 0.01)
        assert CurvatureScale.LOWEST <= scale.value <= CurvatureScale.HIGHEST
    scale.rebase(ratio)
    assert CurvatureScale.LOWEST <= scale.value <= CurvatureScale.HIGHEST


@pytest.mark.parametrize("true_scale", [0.5, 1.0, 1.8])
def test_the_turn_scale_finds_the_scale_in_a_bend_and_forgets_it_on_a_straight(
    true_scale: float,
) -> None:
    scale = CurvatureScale(4.0)
    for _ in range(400):
        scale.observe(0.4, 0.4 * true_scale, 1.0, 0.01)
    assert scale.value == pytest.approx(true_scale, rel=0.03)
    scale.rebase(true_scale)
    assert scale.value == pytest.approx(1.0, abs=0.05), (
        "a belief that is put right leaves nothing to scale"
    )
    for _ in range(4000):
        scale.observe(0.0, 0.0, 1.0, 0.01)
    assert scale.value == pytest.approx(1.0, abs=0.01)


ENVELOPE = PlanLimits(
    wheelbase_m=0.5, lowest_wheel_rad=-0.3, highest_wheel_rad=0.4, rate_radps=0.7, lateral_mps2=2.0,
    lateral_wheelbase_m=0.5, acceleration_mps2=1.0, deceleration_mps2=1.0, corridor_m=0.5,
)  # fmt: skip
LEG = legs(COURSES["lot17"], SpeedProfile(SpeedParams(), VEHICLE, LIMITS, COURSES["lot17"]), 20.0)[
    0
]
GRIP_MPS = math.sqrt(2.0 * 0.5 / math.tan(0.4))
"""Speed from which the lateral acceleration is the limit, and no longer the lock."""
STAGES, STAGE_S = 20, 0.125


@examples(40)
@given(
    near(0.1, GRIP_MPS, 2.5, 4.0, low=0.0, high=6.0), near(-0.3, 0.4, 0.0, low=-0.6, high=0.6),
    st.floats(-1.0, 1.0), near(0.0, 1.2, signed=True, low=-1.5, high=1.5),
    st.floats(0.0, 150.0),
)  # fmt: skip
def test_a_plan_keeps_to_lock_slew_rate_and_grip(
    speed: float, wheel: float, left: float, yaw: float, s_m: float
) -> None:
    """An angle beyond its limits comes back at the slew rate. Within the tolerance of the
    solver."""
    program = HorizonQp(STAGES, CostWeights(1.0, 0.2, 100.0, 5.0))
    planner = SteeringPlanner(program, OsqpSolver(program, 4000, 2.0), STAGE_S)
    course = COURSES["lot17"]
    k = min(int(s_m / course.length_m * len(course.x_m)), len(course.x_m) - 1)
    heading = float(course.yaw_rad[k])
    x = float(course.x_m[k]) - left * math.sin(heading)
    y = float(course.y_m[k]) + left * math.cos(heading)
    start = PlanStart(x, y, heading + yaw, speed, wheel)
    for _ in range(2):
        plan = planner.step(LEG, float(course.s_m[k]), start, ENVELOPE, 0.01)
        if plan.wheel_rad is None:
            assert plan.reason is not ControlReason.NONE
            continue
        assert plan.wheel_rad[0] == wheel
        for stage in range(STAGES):
            before, after = plan.wheel_rad[stage : stage + 2].tolist()
            assert abs(after - before) <= 0.7 * STAGE_S + 2e-4
            planned_mps = float(planner._speed[stage])
            assert planned_mps >= 0.1
            assert planned_mps <= max(speed + 1.0 * STAGE_S * (stage + 1), 0.1) + 1e-9
            assert planned_mps >= speed - 1.0 * STAGE_S * (stage + 1) - 1e-9
            grip = math.atan(2.0 * 0.5 / planned_mps**2)
            back = 0.7 * STAGE_S * (stage + 1)
            assert after <= max(min(grip, 0.4), wheel - back) + 2e-4
            assert after >= min(max(-grip, -0.3), wheel + back) - 2e-4


@examples(10)
@given(st.sampled_from([-0.52, 0.52]), st.floats(0.1, 0.8), st.floats(20.0, 100.0))
def test_wheels_that_were_left_at_their_lock_turn_back_to_the_course(
    lock: float, yaw: float, s_m: float
) -> None:
    """The vehicle stands on its course, turned to the side to which its wheels point, and begins a
    drive."""
    program = HorizonQp(STAGES, CostWeights(1.0, 0.2, 100.0, 5.0))
    planner = SteeringPlanner(program, OsqpSolver(program, 4000, 2.0), STAGE_S)
    course = COURSES["straight_20m"]
    leg = legs(course, SpeedProfile(SpeedParams(), VEHICLE, LIMITS, course), 20.0)[0]
    limits = ENVELOPE._replace(
        wheelbase_m=0.33,
        lowest_wheel_rad=-0.52,
        highest_wheel_rad=0.52,
        rate_radps=3.0,
        acceleration_mps2=3.0,
    )
    x_m, wheel = s_m / 10.0, lock
    for _ in range(50):
        start = PlanStart(x_m, 0.0, math.copysign(yaw, lock), 0.0, wheel)
        plan = planner.step(leg, x_m, start, limits, 0.02)
        if plan.wheel_rad is not None:
            wheel += (float(plan.wheel_rad[1]) - wheel) * 0.02 / STAGE_S
    assert wheel * lock < 0.0


@pytest.mark.parametrize("field", ["x_m", "y_m", "yaw_rad", "speed_mps", "wheel_rad"])
@pytest.mark.parametrize("bad", [NAN, math.inf, -math.inf])
def test_a_start_that_is_no_number_gives_a_reason_and_spoils_nothing(
    field: str, bad: float
) -> None:
    program = HorizonQp(STAGES, CostWeights(1.0, 0.2, 100.0, 5.0))
    planner = SteeringPlanner(program, OsqpSolver(program, 4000, 2.0), STAGE_S)
    start = PlanStart(0.0, 0.0, 0.3, 1.0, 0.0)
    plan = planner.step(LEG, 0.0, start._replace(**{field: bad}), ENVELOPE, 0.01)
    assert plan.wheel_rad is None
    assert plan.reason is ControlReason.NOT_FINITE
    assert planner.step(LEG, 0.0, start, ENVELOPE, 0.01).wheel_rad is not None


@given(
    near_count(3, low=0, high=8),
    near_count(4, low=0, high=8),
    st.sampled_from([NAN, math.inf, 0.1]),
)
def test_each_level_of_the_fallback_lasts_exactly_its_ticks(
    shifted: int, pursuit: int, wheel: float
) -> None:
    chain = FallbackChain(FallbackParams(shifted_ticks=shifted, pursuit_ticks=pursuit))
    plan = PlannerResult(np.linspace(0.0, 0.2, 21), 0.125)
    assert chain.choose(plan, lambda: wheel, 0.01, 0.01).level is ControlLevel.PRIMARY
    for tick in range(1, shifted + pursuit + 3):
        found = chain.choose(
            PlannerResult(None, 0.125, ControlReason.NOT_CONVERGED), lambda: wheel, 0.01, 0.01
        )
        if tick <= shifted:
            assert found.level is ControlLevel.SHIFTED_PLAN
            assert found.wheel_rad == pytest.approx(0.2 / 20 * (0.01 * tick + 0.01) / 0.125)
        elif tick <= shifted + pursuit and math.isfinite(wheel):
            assert (found.level, found.wheel_rad) == (ControlLevel.PURE_PURSUIT, wheel)
        else:
            assert found.level is ControlLevel.STOP
            assert math.isnan(found.wheel_rad)
    again = chain.choose(plan, lambda: wheel, 0.01, 0.01)
    assert again.level is ControlLevel.PRIMARY


@given(near(0.3, signed=True), near(0.3, 4.0, garbage=True))
def test_the_turn_scale_uses_only_finite_readings_of_a_moving_vehicle(
    speed: float, rate: float
) -> None:
    scale = CurvatureScale(4.0)
    for _ in range(50):
        scale.observe(0.4, rate, speed, 0.01)
    used = abs(speed) > 0.3 and math.isfinite(rate)
    if not used:
        assert scale.value == 1.0
    elif abs(rate / speed - 0.4) > 1e-3:
        assert scale.value != 1.0
    assert 0.4 <= scale.value <= 2.5
