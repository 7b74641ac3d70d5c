"""Cost of a step of the predictive controller, and the solver's share of it.

    python bench/mpc.py [--steps 400] [--json]

The work is that of ``mpc`` with N = 20 on the car-park lap. Two kinds of steps, both from the plan
of the step before:

* disturbed: at places all along the lap the vehicle is thrown off its plan, by 0.5 m, 0.2 rad and
  0.1 rad of wheel angle (standard deviations), as when a lost RTK fix comes back: the solver has to
  work. The promises are about these
* tracking: the closed loop 10 ms after 10 ms with the noise of a good estimate, 1 cm and 0.01 rad.
  The warm start leaves the solver so little to do that most of the step is the linearisation

In turns within one process, on the same states and programs:

* full step: linearise, update, solve, extract, as the controller calls it; and the whole controller
  step with its predictions
* OSQP's own clock (``info.run_time``, update and solve) inside that step, at eps 1e-5
* the same program with OSQP's default settings (adaptive step size, scaling), at eps 1e-5
* the same program through casadi's OSQP interface
* do-mpc with its default solver (IPOPT) on the same nonlinear problem

A competitor that is not installed is left out with a sentence. Exit status 1 when a promise is
broken.
"""

import argparse
import contextlib
import gc
import io
import json
import math
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from vehicled.control.mpc.controller import Mpc, MpcParams
from vehicled.control.mpc.plan import PlanLimits, PlanStart
from vehicled.control.mpc.qp_solver import CompressedColumns, OsqpSolver
from vehicled.control.speed import SpeedParams
from vehicled.core.messages import EstimatorStatus, StateEstimate
from vehicled.paths.catalog import load_course
from vehicled.profile import load_profile

RATIO_LIMIT = 1.4
P99_LIMIT_US = 1000.0
DO_MPC_FACTOR = 10.0
PERIOD_S = 0.01
DO_MPC_EVERY = 10
"""Steps of the others for each step of do-mpc, which is slow."""


class Case(NamedTuple):
    """A state to plan from, with the arguments of the planner."""

    projection_m: float
    start: PlanStart


class Bench:
    """The controller under test and the disturbances it meets."""

    def __init__(self, steps: int) -> None:
        profile = load_profile("art")
        self.vehicle, limits = profile.vehicle, profile.limits
        self.course = load_course("lot17")
        self.params = MpcParams(speed=SpeedParams(p=1.5))
        self.controller = Mpc(self.params, self.vehicle, limits, self.course, PERIOD_S)
        self.planner = self.controller._planner
        solver = self.planner._solver
        assert isinstance(solver, OsqpSolver)
        self.solver = solver
        self.program = self.planner._program
        self.envelope: PlanLimits = self.controller._envelope
        self.leg = self.controller._legs[0]
        self.random = np.random.default_rng(1)
        self.places = self.random.uniform(5.0, self.course.length_m - 10.0, steps)

    def on_line(self, s_m: float) -> PlanStart:
        """Return a state on the line, with the wheel angle of its curvature."""
        k = int(np.searchsorted(self.course.s_m, s_m)) - 1
        curvature = float(np.clip(self.course.curvature_per_m[k], -0.6, 0.6))
        wheel = math.atan(self.vehicle.wheelbase_m * curvature)
        return PlanStart(
            float(self.course.x_m[k]),
            float(self.course.y_m[k]),
            float(self.course.yaw_rad[k]),
            1.0,
            wheel,
        )

    def disturb(self, start: PlanStart) -> PlanStart:
        """Return a disturbed state."""
        noise = self.random.normal(0.0, (0.5, 0.5, 0.2, 0.1))
        low, high = self.envelope.lowest_wheel_rad, self.envelope.highest_wheel_rad
        wheel = float(np.clip(start.wheel_rad + noise[3], low, high))
        return PlanStart(
            start.x_m + noise[0],
            start.y_m + noise[1],
            start.yaw_rad + noise[2],
            start.speed_mps,
            wheel,
        )

    def plan(self, case: Case) -> int:
        """Run one step of the planner; return its iterations."""
        return self.planner.step(
            self.leg, case.projection_m, case.start, self.envelope, PERIOD_S
        ).iterations


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    """Return the time of a call (us) and its result."""
    begin = time.perf_counter_ns()
    result = run()
    return (time.perf_counter_ns() - begin) * 1e-3, result


class DefaultOsqp:
    """The same program with OSQP's default settings except the tolerance."""

    def __init__(self, bench: Bench) -> None:
        from osqp import ext_builtin

        program = bench.program
        settings = ext_builtin.OSQPSettings()
        ext_builtin.osqp_set_default_settings(settings)
        settings.verbose, settings.eps_abs, settings.eps_rel = 0, 1e-5, 1e-5
        n, m = program.unknowns, program.constraints
        each = np.arange(n + 1, dtype=np.int32)
        p = CompressedColumns(program.p_diagonal, each[:-1], each, (n, n))
        a = CompressedColumns(program.values(), program.rows, program.column_starts, (m, n))
        self._program = program
        self._solver = ext_builtin.OSQPSolver(
            ext_builtin.CSC(p),
            program.q,
            ext_builtin.CSC(a),
            program.lower,
            program.upper,
            m,
            n,
            settings,
        )

    def __call__(self) -> Any:
        program, solver = self._program, self._solver
        solver.update_data_vec(program.q, program.lower, program.upper)
        solver.update_data_mat(None, None, program.varying, program.varying_at)
        solver.solve()
        return solver.solution.x

    @property
    def iterations(self) -> int:
        """Iterations of the last solution."""
        return int(self._solver.info.iter)


class CasadiOsqp:
    """The same program through casadi's interface to OSQP, as its users call it: matrices by their
    nonzeros, warm start given."""

    def __init__(self, bench: Bench) -> None:
        import casadi

        if not casadi.has_conic("osqp"):
            raise ImportError("this casadi comes without its OSQP plugin")
        program = self._program = bench.program
        n, m = program.unknowns, program.constraints
        self._h = casadi.DM(casadi.Sparsity.diag(n), program.p_diagonal)
        self._pattern = casadi.Sparsity(m, n, program.column_starts.tolist(), program.rows.tolist())
        options: Any = {
            "error_on_fail": False,
            "print_time": False,
            "osqp": {"verbose": False, "eps_abs": 1e-5, "eps_rel": 1e-5},
        }
        self._conic = casadi.conic(
            "mpc", "osqp", {"h": self._h.sparsity(), "a": self._pattern}, options
        )
        self._casadi = casadi
        self._x: Any = 0

    def __call__(self) -> Any:
        program = self._program
        a = self._casadi.DM(self._pattern, program.values())
        found = self._conic(
            h=self._h, g=program.q, a=a, lba=program.lower, uba=program.upper, x0=self._x
        )
        self._x = found["x"]
        return self._x.full()


class DoMpc:
    """The same vehicle, horizon, limits and weights as a nonlinear program in do-mpc, warm-started
    by it."""

    def __init__(self, bench: Bench) -> None:
        warnings.simplefilter("ignore")
        import casadi
        import do_mpc

        p, envelope, wheelbase_m = bench.params, bench.envelope, bench.vehicle.wheelbase_m
        model = do_mpc.model.Model("continuous")
        _x, _y, yaw, wheel = (model.set_variable("_x", name) for name in ("x", "y", "yaw", "wheel"))
        rate = model.set_variable("_u", "rate")
        path_x, path_y, path_yaw = (
            model.set_variable("_tvp", name) for name in ("path_x", "path_y", "path_yaw")
        )
        model.set_rhs("x", casadi.cos(yaw))
        model.set_rhs("y", casadi.sin(yaw))
        model.set_rhs("yaw", casadi.tan(wheel) / wheelbase_m)
        model.set_rhs("wheel", rate)
        model.setup()
        mpc = do_mpc.controller.MPC(model)
        mpc.settings.n_horizon, mpc.settings.t_step = p.stages, p.stage_s
        mpc.settings.store_full_solution = False
        mpc.settings.supress_ipopt_output()
        left = casadi.cos(path_yaw) * (_y - path_y) - casadi.sin(path_yaw) * (_x - path_x)
        cost = p.weight_left * left**2 + p.weight_yaw * (yaw - path_yaw) ** 2
        mpc.set_objective(mterm=p.weight_last * cost, lterm=cost)
        # Their term is on the change of the input, ours on the turn during the stage; the size is
        # the same.
        mpc.set_rterm(rate=p.stage_s**2)
        mpc.bounds["lower", "_u", "rate"] = -envelope.rate_radps
        mpc.bounds["upper", "_u", "rate"] = envelope.rate_radps
        mpc.bounds["lower", "_x", "wheel"] = envelope.lowest_wheel_rad
        mpc.bounds["upper", "_x", "wheel"] = envelope.highest_wheel_rad
        self._template = mpc.get_tvp_template()
        mpc.set_tvp_fun(lambda _: self._template)
        mpc.setup()
        self._mpc, self._bench = mpc, bench

    def begin(self, case: Case) -> None:
        """Reference of the horizon and first guess; not counted."""
        bench = self._bench
        for k in range(bench.params.stages + 1):
            at = bench.on_line(case.projection_m + k * bench.params.stage_s)
            self._template["_tvp", k] = [at.x_m, at.y_m, at.yaw_rad]
        self._state = np.array(
            [case.start.x_m, case.start.y_m, case.start.yaw_rad, case.start.wheel_rad]
        )
        on_line = bench.on_line(case.projection_m)
        self._mpc.x0 = np.array([on_line.x_m, on_line.y_m, on_line.yaw_rad, on_line.wheel_rad])
        self._mpc.set_initial_guess()
        self._mpc.make_step(self._mpc.x0.cat.full())

    def __call__(self) -> Any:
        return self._mpc.make_step(self._state)


def competitors(bench: Bench) -> tuple[dict[str, Any], list[str]]:
    """Return the installed competitors, and a sentence for each missing one."""
    found: dict[str, Any] = {}
    missing = []
    for name, build in (
        ("osqp default", DefaultOsqp),
        ("casadi osqp", CasadiOsqp),
        ("do-mpc", DoMpc),
    ):
        try:
            found[name] = build(bench)
        except ImportError as error:
            missing.append(f"{name} is left out: {error}")
    return found, missing


def disturbed(bench: Bench, rivals: dict[str, Any]) -> dict[str, list[float]]:
    """Return times (us) by name, and iterations."""
    rows: dict[str, list[float]] = {}
    for number, projection_m in enumerate(bench.places):
        on_line = Case(float(projection_m), bench.on_line(float(projection_m)))
        for _ in range(3):
            bench.plan(on_line)
        case = Case(float(projection_m), bench.disturb(on_line.start))
        full_us, iterations = timed(partial(bench.plan, case))
        add(rows, "full step", full_us)
        add(rows, "solver's clock", bench.solver.run_time_s * 1e6)
        add(rows, "iterations", iterations)
        # Update, solve and extract alone: what the rivals below are given. The program of a
        # disturbance, after that of the line.
        for name in [n for n in ("osqp default", "casadi osqp") if n in rivals]:
            rivals[name]()
        bench.plan(on_line)
        for name in [n for n in ("osqp default", "casadi osqp") if n in rivals]:
            rivals[name]()
        case = Case(float(projection_m), bench.disturb(on_line.start))
        bench.planner._linearise(bench.leg, case.projection_m, case.start, bench.envelope, PERIOD_S)
        turned = bench.planner._linearise(
            bench.leg, case.projection_m, case.start, bench.envelope, PERIOD_S
        )
        bench.planner._bound(case.start, bench.envelope)
        bench.program.fill(turned)
        add(rows, "solve", timed(bench.solver.solve)[0])
        for name in [n for n in ("osqp default", "casadi osqp") if n in rivals]:
            add(rows, name, timed(rivals[name])[0])
        if "osqp default" in rivals:
            add(rows, "iterations, osqp default", rivals["osqp default"].iterations)
        if "do-mpc" in rivals and number % DO_MPC_EVERY == 0:
            with contextlib.redirect_stdout(io.StringIO()):
                rivals["do-mpc"].begin(case)
                add(rows, "do-mpc", timed(rivals["do-mpc"])[0])
    return rows


def tracking(bench: Bench, steps: int) -> dict[str, list[float]]:
    """Run the closed loop on the bare model; return times (us) by name, and iterations."""
    rows: dict[str, list[float]] = {}
    controller, vehicle = bench.controller, bench.vehicle
    controller.reset()
    start = bench.on_line(0.2)
    x, y, yaw, v, wheel = start.x_m, start.y_m, start.yaw_rad, 1.0, 0.0
    waiting = [0.0] * round(vehicle.steering.delay_s / PERIOD_S)
    for k in range(steps):
        now_ns = k * 10_000_000
        seen = bench.random.normal(0.0, 0.01, 3)
        turn = v * math.tan(wheel) / vehicle.wheelbase_m
        seen_x, seen_y, seen_yaw = x + seen[0], y + seen[1], yaw + seen[2]
        estimate = StateEstimate(
            now_ns, now_ns, seen_x, seen_y, seen_yaw, v, turn, (0.0,) * 16, EstimatorStatus.RUNNING
        )
        us, command = timed(partial(controller.step, estimate, now_ns))
        add(rows, "controller step", us)
        add(rows, "solver's clock", bench.solver.run_time_s * 1e6)
        add(rows, "iterations", command.iterations)
        waiting.append(command.wheel_angle_rad)
        most = vehicle.steering.rate_radps * PERIOD_S
        wheel += min(max(waiting.pop(0) - wheel, -most), most)
        yaw += v * PERIOD_S * math.tan(wheel) / vehicle.wheelbase_m
        x, y = x + v * PERIOD_S * math.cos(yaw), y + v * PERIOD_S * math.sin(yaw)
    return rows


def add(rows: dict[str, list[float]], name: str, value: float) -> None:
    """Append a value to a row of the table."""
    rows.setdefault(name, []).append(value)


def summary(rows: dict[str, list[float]]) -> dict[str, dict[str, float]]:
    """Return p50, p99 and n of each row."""
    return {
        n: {"p50": float(np.median(r)), "p99": float(np.percentile(r, 99)), "n": len(r)}
        for n, r in rows.items()
    }


def promises(rows: dict[str, dict[str, float]]) -> list[tuple[str, float, str, bool]]:
    """Return the promises about the disturbed steps: name, value, limit, True if kept."""
    full, solve = rows["full step"], rows["solve"]
    ratio = full["p50"] / rows["solver's clock"]["p50"]
    found = [
        (
            "full step over the solver's own time, p50",
            ratio,
            f"<= {RATIO_LIMIT}",
            ratio <= RATIO_LIMIT,
        ),
        ("full step, p99, us", full["p99"], f"< {P99_LIMIT_US:.0f}", full["p99"] < P99_LIMIT_US),
    ]
    for name in ("osqp default", "casadi osqp"):
        if name in rows:
            share = solve["p50"] / rows[name]["p50"]
            found.append(
                (f"update, solve, extract over that of {name}, p50", share, "<= 1", share <= 1.0)
            )
    if "do-mpc" in rows:
        times = rows["do-mpc"]["p50"] / full["p50"]
        found.append(
            (
                "times as fast as do-mpc, p50",
                times,
                f">= {DO_MPC_FACTOR:.0f}",
                times >= DO_MPC_FACTOR,
            )
        )
    return found


def main() -> int:
    """Run the benchmark, print and judge."""
    parser = argparse.ArgumentParser(description="what a step of the predictive controller costs")
    parser.add_argument(
        "--steps", type=int, default=400, help="disturbed steps; ten times as many of tracking"
    )
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    bench = Bench(arguments.steps)
    rivals, missing = competitors(bench)
    gc.collect()
    gc.freeze()
    gc.disable()
    disturbed_rows = summary(disturbed(bench, rivals))
    tracking_rows = summary(tracking(bench, 10 * arguments.steps))
    kept = promises(disturbed_rows)
    if arguments.json:
        found = {"disturbed": disturbed_rows, "tracking": tracking_rows, "missing": missing}
        print(
            json.dumps(
                found
                | {"promises": {name: {"value": value, "kept": ok} for name, value, _, ok in kept}},
                indent=2,
            )
        )
    else:
        for title, rows in (("disturbed", disturbed_rows), ("tracking", tracking_rows)):
            print(f"{title:28s} {'p50':>10s} {'p99':>10s} {'n':>7s}   (us, but for the iterations)")
            for name, row in rows.items():
                print(f"  {name:26s} {row['p50']:10.1f} {row['p99']:10.1f} {row['n']:7.0f}")
        for sentence in missing:
            print(sentence)
        for name, value, limit, ok in kept:
            print(f"{'kept  ' if ok else 'BROKEN'}  {name}: {value:.2f} ({limit})")
    return 0 if all(ok for *_, ok in kept) else 1


if __name__ == "__main__":
    sys.exit(main())
