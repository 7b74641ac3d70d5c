"""Each rung of the anytime ladder, and the reason given for it."""

import math

import numpy as np
import pytest

from vehicled.control.fallback_chain import (
    FallbackChain,
    FallbackParams,
    PlannerResult,
    pursuit_wheel_rad,
    sample,
)
from vehicled.control.mpc.controller import Mpc, MpcParams
from vehicled.control.mpc.qp_solver import QpSolution
from vehicled.core.messages import NAN, ControlLevel, ControlReason, EstimatorStatus, StateEstimate
from vehicled.paths.catalog import load_course
from vehicled.paths.tracking import PathTracker
from vehicled.profile import load_profile

PARAMS = FallbackParams(shifted_ticks=3, pursuit_ticks=2)
PLAN = np.array([0.0, 0.1, 0.2, 0.3, 0.3])
PERIOD_NS = 10_000_000


def never() -> float:
    raise AssertionError("pure pursuit was asked although a plan was there")


def test_a_plan_is_read_at_the_end_of_the_tick() -> None:
    rung = FallbackChain(PARAMS).choose(PlannerResult(PLAN, 0.1, iterations=7), never, 0.02, 0.02)
    assert rung == (pytest.approx(0.02), ControlLevel.PRIMARY, ControlReason.NONE, 7)


@pytest.mark.parametrize(
    "reason", [ControlReason.NOT_CONVERGED, ControlReason.INFEASIBLE, ControlReason.LATE]
)
def test_without_a_plan_the_fallback_chain_descends_level_by_level(reason: ControlReason) -> None:
    ladder = FallbackChain(PARAMS)
    ladder.choose(PlannerResult(PLAN, 0.1), never, 0.05, 0.05)
    failed = PlannerResult(None, 0.1, reason, 400)
    for tick in range(1, 4):
        rung = ladder.choose(failed, never, 0.05, 0.05)
        assert rung == (pytest.approx(0.05 + 0.05 * tick), ControlLevel.SHIFTED_PLAN, reason, 400)
    for _ in range(2):
        assert ladder.choose(failed, lambda: -0.2, 0.05, 0.05) == (
            -0.2,
            ControlLevel.PURE_PURSUIT,
            ControlReason.PLAN_USED_UP,
            400,
        )
    rung = ladder.choose(failed, lambda: -0.2, 0.05, 0.05)
    assert math.isnan(rung.wheel_rad)
    assert rung[1:] == (ControlLevel.STOP, ControlReason.PLAN_USED_UP, 400)
    assert (
        ladder.choose(PlannerResult(PLAN, 0.1), never, 0.05, 0.05).level is ControlLevel.PRIMARY
    ), "a new plan leads back to the top"


def test_without_any_plan_so_far_pursuit_carries_with_the_reason_of_the_failure() -> None:
    rung = FallbackChain(PARAMS).choose(
        PlannerResult(None, 0.1, ControlReason.NOT_CONVERGED, 400), lambda: 0.1, 0.01, 0.01
    )
    assert rung == (0.1, ControlLevel.PURE_PURSUIT, ControlReason.NOT_CONVERGED, 400)


def test_pursuit_that_knows_no_angle_is_a_stop() -> None:
    rung = FallbackChain(PARAMS).choose(
        PlannerResult(None, 0.1, ControlReason.NOT_FINITE), lambda: NAN, 0.01, 0.01
    )
    assert rung.level is ControlLevel.STOP
    assert rung.reason is ControlReason.NOT_FINITE


def test_a_plan_that_is_not_finite_is_none() -> None:
    ladder = FallbackChain(PARAMS)
    ladder.choose(PlannerResult(PLAN, 0.1), never, 0.05, 0.05)
    rung = ladder.choose(PlannerResult(np.full(5, NAN), 0.1), never, 0.05, 0.05)
    assert rung[:3] == (pytest.approx(0.1), ControlLevel.SHIFTED_PLAN, ControlReason.NOT_FINITE)


def test_the_plan_may_be_overwritten_by_its_owner_once_it_is_old() -> None:
    ladder, plan = FallbackChain(PARAMS), PLAN.copy()
    ladder.choose(PlannerResult(plan, 0.1), never, 0.05, 0.05)
    ladder.choose(PlannerResult(None, 0.1, ControlReason.LATE), never, 0.05, 0.05)
    plan[:] = NAN
    assert ladder.choose(
        PlannerResult(None, 0.1, ControlReason.LATE), never, 0.05, 0.05
    ).wheel_rad == pytest.approx(0.15)


def test_what_was_planned_before_a_stop_is_not_driven_after_it() -> None:
    ladder = FallbackChain(PARAMS)
    ladder.choose(PlannerResult(PLAN, 0.1), never, 0.05, 0.05)
    assert ladder.stop(ControlReason.STATE_UNUSABLE)[1:] == (
        ControlLevel.STOP,
        ControlReason.STATE_UNUSABLE,
        0,
    )
    rung = ladder.choose(PlannerResult(None, 0.1, ControlReason.LATE), lambda: 0.1, 0.05, 0.05)
    assert rung.level is ControlLevel.PURE_PURSUIT


@pytest.mark.parametrize(
    ("at", "value"), [(0.0, 0.0), (1.5, 0.15), (4.0, 0.3), (1e9, 0.3), (NAN, 0.3)]
)
def test_a_plan_is_linear_between_its_entries_and_held_beyond(at: float, value: float) -> None:
    assert sample(PLAN, at) == pytest.approx(value)


def test_pursuit_steers_the_arc_through_the_point_ahead() -> None:
    tracker = PathTracker(load_course("straight_20m"))
    place = tracker.point_at(2.0)
    tracker.update(place.x_m, place.y_m, place.yaw_rad)
    x, y = place.x_m - 0.5 * math.sin(place.yaw_rad), place.y_m + 0.5 * math.cos(place.yaw_rad)
    angle = pursuit_wheel_rad(FallbackParams(), tracker, 0.5, x, y, place.yaw_rad, 2.0)
    assert math.tan(angle) / 0.5 == pytest.approx(2.0 * -0.5 / (4.0 + 0.25))
    assert math.isnan(pursuit_wheel_rad(FallbackParams(), tracker, 0.5, NAN, y, place.yaw_rad, 2.0))


# ---- in the controller


def controller(**params: object) -> Mpc:
    profile = load_profile("art")
    ladder = FallbackParams(shifted_ticks=3, pursuit_ticks=2)
    return Mpc(
        MpcParams(ladder=ladder, **params),  # type: ignore[arg-type]
        profile.vehicle,
        profile.limits,
        load_course("circle_r5_ccw"),
        0.01,
    )


def at_start(k: int) -> StateEstimate:
    course = load_course("circle_r5_ccw")
    x, y, yaw = float(course.x_m[0]), float(course.y_m[0]), float(course.yaw_rad[0])
    return StateEstimate(
        k * PERIOD_NS, k * PERIOD_NS, x, y, yaw, 0.5, 0.0, (0.0,) * 16, EstimatorStatus.RUNNING
    )


class Failing:
    """A solver that finds nothing."""

    def __init__(self, reason: ControlReason) -> None:
        self._reason = reason

    def solve(self) -> QpSolution:
        return QpSolution(None, self._reason, 11)

    def forget(self) -> None:
        pass


def test_the_controller_fills_level_reason_and_iterations() -> None:
    mpc = controller()
    for k in range(5):
        command = mpc.step(at_start(k), k * PERIOD_NS)
        assert (command.level, command.reason) == (ControlLevel.PRIMARY, ControlReason.NONE)
        assert command.iterations > 0
    solver = mpc._planner._solver
    mpc._planner._solver = Failing(ControlReason.NOT_CONVERGED)
    seen = [mpc.step(at_start(k), k * PERIOD_NS) for k in range(5, 11)]
    assert [c.level for c in seen] == [1, 1, 1, 2, 2, 3]
    assert [c.reason for c in seen[:3]] == [ControlReason.NOT_CONVERGED] * 3
    assert [c.reason for c in seen[3:]] == [ControlReason.PLAN_USED_UP] * 3
    assert {c.iterations for c in seen} == {11}
    assert (seen[-1].throttle, seen[-1].brake) == (0.0, 1.0)
    mpc._planner._solver = solver
    assert mpc.step(at_start(11), 11 * PERIOD_NS).level is ControlLevel.PRIMARY


def test_a_bound_of_iterations_that_is_too_low_is_reported() -> None:
    mpc = controller(iterations=10, step_size=1e-4)
    command = mpc.step(at_start(0), 0)
    assert (command.level, command.reason) == (
        ControlLevel.PURE_PURSUIT,
        ControlReason.NOT_CONVERGED,
    )
    assert command.iterations == 10


def test_after_a_missed_deadline_nothing_is_computed_once() -> None:
    mpc = controller()
    mpc.step(at_start(0), 0)
    mpc.on_deadline_miss()
    command = mpc.step(at_start(1), PERIOD_NS)
    assert (command.level, command.reason, command.iterations) == (
        ControlLevel.SHIFTED_PLAN,
        ControlReason.LATE,
        0,
    )
    assert mpc.step(at_start(2), 2 * PERIOD_NS).level is ControlLevel.PRIMARY


def test_a_state_that_is_not_finite_stops_with_its_reason() -> None:
    mpc = controller()
    for k in range(20):
        wheel = mpc.step(at_start(k), k * PERIOD_NS).wheel_angle_rad
    bad = StateEstimate(1, 1, NAN, 0.0, 0.0, 0.0, 0.0, (0.0,) * 16, EstimatorStatus.RUNNING)
    command = mpc.step(bad, 20 * PERIOD_NS)
    assert (command.throttle, command.brake, command.wheel_angle_rad) == (
        0.0,
        1.0,
        pytest.approx(wheel),
    )
    assert (command.level, command.reason) == (ControlLevel.STOP, ControlReason.STATE_UNUSABLE)
    assert mpc.step(at_start(21), 21 * PERIOD_NS).level is ControlLevel.PRIMARY
