"""The predictive controllers against independent solutions: other solvers, finite differences,
recorded commands."""

import csv
from pathlib import Path
from typing import Any

import daqp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.stand_ins.published_program import uncondensed
from vehicled.control.error_state import ErrorState
from vehicled.control.mpc.path import Leg, legs
from vehicled.control.mpc.plan import PlanLimits, PlanStart, SteeringPlanner
from vehicled.control.mpc.qp import (
    BOUNDS,
    DYNAMICS,
    KINDS,
    LEFT,
    WHEEL,
    YAW,
    CostWeights,
    HorizonQp,
)
from vehicled.control.mpc.qp_solver import DaqpSolver, OsqpSolver
from vehicled.control.speed import SpeedParams, SpeedProfile
from vehicled.core.messages import ControlReason
from vehicled.offline.replications.published.mpc import (
    PublishedQp,
    condensed,
    dynamics,
    published_speed_mps,
)
from vehicled.paths.catalog import load_course
from vehicled.profile import load_profile

PROFILE = load_profile("art")
WEIGHTS = CostWeights(left=1.0, yaw=0.2, slack=100.0, last=5.0)
STAGES, STAGE_S = 20, 0.125
ENVELOPE = PlanLimits(
    wheelbase_m=0.5, lowest_wheel_rad=-0.31, highest_wheel_rad=0.335, rate_radps=0.67,
    lateral_mps2=2.5, lateral_wheelbase_m=0.5, acceleration_mps2=1.0, deceleration_mps2=0.5,
    corridor_m=0.15,
)  # fmt: skip


def setting(course_name: str = "sine_tight") -> tuple[Leg, HorizonQp, OsqpSolver, SteeringPlanner]:
    course = load_course(course_name)
    leg = legs(course, SpeedProfile(SpeedParams(), PROFILE.vehicle, PROFILE.limits, course), 10.0)[
        0
    ]
    program = HorizonQp(STAGES, WEIGHTS)
    solver = OsqpSolver(program, 4000, 1.0)
    return leg, program, solver, SteeringPlanner(program, solver, STAGE_S)


def thrown_off(leg: Leg, random: np.random.Generator) -> tuple[float, PlanStart]:
    s_m = float(random.uniform(1.0, leg.end_m - 1.0))
    row = leg.row(s_m)
    place = leg.place[row] + leg.origin
    dx, dy, dyaw = random.normal(0.0, (0.15, 0.15, 0.15))
    speed = float(random.uniform(0.2, 2.0))
    return s_m, PlanStart(
        place.real + dx,
        place.imag + dy,
        float(leg.yaw_rad[row]) + dyaw,
        speed,
        float(random.uniform(-0.3, 0.3)),
    )


def exact(program: HorizonQp) -> Any:
    """Solution by daqp on the program as it stands: nothing eliminated, equalities as such."""
    a, n = program.dense(), DYNAMICS * program.stages
    lower, upper = program.lower.copy(), program.upper.copy()
    sense = np.zeros(len(lower), dtype=np.int32)
    sense[:n] = 5
    # Strictly convex, as daqp wants it; the change is far below what is compared.
    hessian = np.diag(program.p_diagonal + 1e-7)
    x, _, flag, _ = daqp.solve(
        hessian, program.q, a, upper, lower, sense, primal_tol=1e-9, dual_tol=1e-9
    )
    assert flag >= 1
    return x


@pytest.mark.parametrize("course", ["sine_tight", "lot17"])
def test_osqp_finds_what_an_exact_solver_finds(course: str) -> None:
    leg, program, solver, planner = setting(course)
    condensed_solver = DaqpSolver(program, 1000)
    random = np.random.default_rng(3)
    for _ in range(15):
        planner.forget()
        s_m, start = thrown_off(leg, random)
        found = planner.step(leg, s_m, start, ENVELOPE, 0.01)
        assert found.reason is ControlReason.NONE
        again = solver.solve()
        want = exact(program).reshape(KINDS, -1)
        x = again.x
        assert x is not None
        assert_allclose(x, want, atol=2e-3)
        assert_allclose(x[WHEEL], want[WHEEL], atol=5e-4)
        other = condensed_solver.solve().x
        assert other is not None
        assert_allclose(other, want, atol=1e-4)


def test_the_solution_obeys_every_limit() -> None:
    leg, _, _, planner = setting()
    random = np.random.default_rng(4)
    for _ in range(30):
        planner.forget()
        s_m, start = thrown_off(leg, random)
        plan = planner.step(leg, s_m, start, ENVELOPE, 0.01).wheel_rad
        assert plan is not None
        assert np.abs(np.diff(plan)).max() <= ENVELOPE.rate_radps * STAGE_S + 1e-4
        assert plan.min() >= ENVELOPE.lowest_wheel_rad - 1e-4
        assert plan.max() <= ENVELOPE.highest_wheel_rad + 1e-4


def test_an_angle_beyond_the_limits_is_led_back_at_the_rate() -> None:
    leg, _, _, planner = setting()
    start = thrown_off(leg, np.random.default_rng(5))[1]._replace(wheel_rad=0.6)
    plan = planner.step(leg, 5.0, start, ENVELOPE, 0.01).wheel_rad
    assert plan is not None
    turn = ENVELOPE.rate_radps * STAGE_S
    assert_allclose(np.diff(plan)[:3], -turn, atol=1e-3)
    assert plan[5:].max() <= ENVELOPE.highest_wheel_rad + 1e-3


def roll_out(start: PlanStart, wheel: Any, speed: Any) -> Any:
    """Single track, midpoint rule, written out once more; (N, 3)."""
    x, y, yaw, poses = start.x_m, start.y_m, start.yaw_rad, []
    for k, v in enumerate(speed):
        turn = v * STAGE_S * np.tan(0.5 * (wheel[k] + wheel[k + 1])) / ENVELOPE.wheelbase_m
        x += v * STAGE_S * np.cos(yaw + 0.5 * turn)
        y += v * STAGE_S * np.sin(yaw + 0.5 * turn)
        yaw += turn
        poses.append((x, y, yaw))
    return np.array(poses)


def test_the_linearisation_is_that_of_the_rolled_out_motion() -> None:
    """The matrix A agrees with central differences of the nonlinear model for a small change of the
    wheel angle."""
    leg, program, _, planner = setting()
    random = np.random.default_rng(6)
    for _ in range(5):
        planner.forget()
        s_m, start = thrown_off(leg, random)
        program.fill(planner._linearise(leg, s_m, start, ENVELOPE, 0.01))
        states = slice(STAGES, (WHEEL + 1) * STAGES)
        a = program.dense()
        gain = np.linalg.solve(a[: DYNAMICS * STAGES, states], -a[: DYNAMICS * STAGES, :STAGES])
        nominal, speed, feet = planner._wheel.copy(), planner._speed.copy(), planner._projections
        back = leg.back_tangent[feet]
        for stage in (0, 4, 15):
            change = np.zeros(STAGES + 1)
            change[stage + 1 :] = 1e-5
            difference = (
                roll_out(start, nominal + change, speed) - roll_out(start, nominal - change, speed)
            ) / 2e-5
            left = ((difference[:, 0] + 1j * difference[:, 1]) * back).imag
            assert_allclose(gain[(LEFT - 1) * STAGES : LEFT * STAGES, stage], left, atol=2e-3)
            assert_allclose(
                gain[(YAW - 1) * STAGES : YAW * STAGES, stage], difference[:, 2], atol=1e-6
            )


def test_errors_of_the_nominal_motion_are_those_of_the_tracker() -> None:
    from vehicled.paths.tracking import PathTracker

    course = load_course("circle_r5_ccw")
    leg, program, _, planner = setting("circle_r5_ccw")
    tracker = PathTracker(course, start_region_m=8.0)
    here = tracker.point_at(6.0)
    x, y = here.x_m - 0.2 * np.sin(here.yaw_rad), here.y_m + 0.2 * np.cos(here.yaw_rad)
    start = PlanStart(x, y, here.yaw_rad + 0.1, 1.0, 0.1)
    planner._linearise(leg, 6.0, start, ENVELOPE, 0.01)
    poses = roll_out(start, planner._wheel, planner._speed)
    for k, (px, py, yaw) in enumerate(poses):
        point = tracker.update(px, py, yaw)
        assert program.motion.left_m[k] == pytest.approx(point.cross_track_m, abs=1e-3)
        assert program.motion.yaw_rad[k] == pytest.approx(-point.heading_error_rad, abs=2e-3)


def test_the_pattern_holds_every_entry_once() -> None:
    program = HorizonQp(5, WEIGHTS)
    program.varying[:] = np.arange(1.0, len(program.varying) + 1)
    dense = program.dense()
    assert np.count_nonzero(dense) == len(program.a_values)
    assert np.all(np.diff(program.column_starts) >= 1)
    assert dense.shape == ((DYNAMICS + BOUNDS) * 5, KINDS * 5)


# ---- the published controller

GOLDEN = [
    # Errors and the wheel angle before.
    (ErrorState(1.0, 0.0, 0.0, 1.0), 0.0),
    (ErrorState(0.93359, 0.28841, 0.343015, 0.99999), 0.0),
    (ErrorState(0.98, -0.12, -0.2, 0.1), -0.15),
    (ErrorState(1.05, 0.02, 0.05, -0.1), 0.1),
    (ErrorState(0.8, 0.5, 0.6, 0.3), 0.55),
]


@pytest.mark.parametrize(("errors", "previous_rad"), GOLDEN)
def test_published_program_against_an_exact_solver(errors: ErrorState, previous_rad: float) -> None:
    throttle, wheel, iterations = PublishedQp(4000).solve(errors, previous_rad, 1.0)
    assert (throttle, wheel) == pytest.approx(uncondensed(errors, previous_rad), abs=1e-4)
    assert iterations > 0


def test_published_program_has_the_published_numbers() -> None:
    """Entries worked out by hand from the paper's matrices: v 0.9, wheel 0.1 before, errors (1,
    0.2, 0.3, 0.1)."""
    a, b = dynamics(ErrorState(1.0, 0.2, 0.3, 0.1), 0.1, 1.0)
    assert_allclose(a[0], [1.0, 0.018060, -0.029552, 0.0], atol=1e-6)
    assert_allclose(a[1], [-0.018060, 1.0, 0.095534, 0.0], atol=1e-6)
    assert_allclose(a[2], [0.0, 0.0, 1.0, 0.0])
    assert_allclose(a[3], [0.0, 0.0, 0.0, 1.0 - 0.1 * (0.0161185 + 0.558365)], atol=1e-6)
    assert_allclose(b[:, 1], [0.036362, -0.181812, -0.181812, 0.0], atol=1e-6)
    assert_allclose(b[:, 0], [0.0, 0.0, 0.0, -0.253559], atol=1e-6)
    hessian, _ = condensed(ErrorState(1.0, 0.2, 0.3, 0.1), a, b)
    assert_allclose(hessian, hessian.T)


def _rows(path: Path) -> Any:
    with path.open(newline="") as file:
        return np.array([[float(value) for value in row] for row in list(csv.reader(file))[1:]])


def test_published_program_gives_the_recorded_commands(shared_data: Path) -> None:
    """Every logged row of every run: its errors and the command before it are all that goes in."""
    files = sorted((shared_data / "path_following_2024").glob("*/*/mpc*.csv"))
    assert files
    program = PublishedQp(4000)
    for path in files:
        simulated = "sim" in path.parts
        # Their simulation limited the change of the steering command; the first rows have no
        # command before them.
        rows = _rows(path)[1::4], _rows(path)[0::4]
        differences = []
        for row, before in zip(rows[0], rows[1], strict=False):
            throttle, wheel, _ = program.solve(ErrorState(*row[4:8]), 0.6 * before[9], 1.0)
            steering = 1.6667 * wheel
            if simulated:
                steering = min(max(steering, before[9] - 0.25), before[9] + 0.25)
            differences.append((abs(throttle - row[8]), abs(steering - row[9])))
        assert np.percentile(differences, 90, axis=0).max() <= 2e-3, path.name


def test_published_speed_is_the_logged_one(shared_data: Path) -> None:
    """The speed that the real runs fed back follows from their throttle alone."""
    rows = _rows(shared_data / "path_following_2024/real/lot17/mpc_1.csv")
    speed = 1.0 - rows[:, 7]
    throttle = np.clip(rows[:, 8], 0.0, 1.0)
    predicted = [
        published_speed_mps(v, t, 0.1) for v, t in zip(speed[1:-1], throttle[:-2], strict=True)
    ]
    assert np.percentile(np.abs(np.array(predicted) - speed[2:]), 95) < 1e-4
