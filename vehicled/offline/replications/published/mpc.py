"""Published error-state MPC of Unjhawala et al. 2023, as it ran on the ART and in the
path-following study of 2024.

"Using simulation to design an MPC policy for field navigation using GPS sensing", with the
constants and weights that reproduce the commands logged in 2024. It serves for comparison, so its
faults are kept:

* one error at one point 1.0 m ahead, nearest waypoint of the whole course: jumps at crossings and
  at the end of a lap;
* A lacks the distance covered (A14 = dt) and the turn of the reference (theta_r' dt);
* A44 as it ran, c1 omega0 + tau0 / (I omega0), where the paper has (c1 omega0 + tau0) / (I omega0);
* no delay; speed from a model without measurements if ``speed`` is ``"published"``;
* forward only: it ignores legs in reverse.

Error state e = (ahead, left, heading, speed), reference minus vehicle, positions in the frame of
the vehicle.
"""

from math import cos, isfinite, sin, tan
from typing import Annotated, ClassVar, Literal

import numpy as np
from msgspec import Meta, Struct
from msgspec.structs import replace

from vehicled.control.error_state import ErrorState, error_state
from vehicled.control.interface import Controller
from vehicled.control.mpc.qp_solver import CompressedColumns
from vehicled.control.stop import brake_command, is_drivable
from vehicled.core.arrays import Array
from vehicled.core.messages import ControlCommand, ControlLevel, ControlReason, StateEstimate
from vehicled.core.vehicle import Limits, Vehicle
from vehicled.paths.course import Course
from vehicled.paths.tracking import PathPoint, PathTracker

STAGES = 10
STAGE_S = 0.1
WHEELBASE_M = 0.5
WHEEL_RADIUS_M = 0.08451952624
INERTIA_KGM2 = 1e-3
GEAR_RATIO = 1.0 / 3.0
VISCOUS_NMS = 1e-4
STALL_TORQUE_NM = 0.09
NO_LOAD_RADPS = 161.185
MAX_WHEEL_RAD = 0.6
COMMAND_PER_RAD = 1.6667
"""Steering command -1..1 per wheel angle, 1/rad."""
LOOK_AHEAD_M = 1.0
STEP_SIZE = 0.1
"""OSQP's rho at the start of every program."""
ERROR_WEIGHTS = (0.0, 5500.0, 3500.0, 300.0)
INPUT_WEIGHTS = (10.0, 1000.0)

ESTIMATOR_STALL_TORQUE_NM = 0.3
ESTIMATOR_NO_LOAD_RADPS = 30.0
ESTIMATOR_FRICTION_NM = 0.02
"""Friction in the published speed filter, N m; its constants contradict those above and the vehicle
(0.78, 3.85 and 1.75 m/s at full throttle)."""


class MpcPublishedParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings that differed between the published runs."""

    speed: Literal["published", "estimate"] = "published"
    """Speed fed back: the published function of the throttle, or the estimate."""
    steering_step: Annotated[float, Meta(gt=0.0, le=2.0)] = 2.0
    """Largest change of the steering command in one step of 0.1 s: 0.25 in the published
    simulations, unlimited on the vehicle."""
    iterations: Annotated[int, Meta(ge=10, le=100_000)] = 4000
    """Iteration limit of the solver; the vehicle stops when it is reached."""


def dynamics(
    errors: ErrorState, previous_wheel_rad: float, reference_mps: float
) -> tuple[Array, Array]:
    """Return A (4, 4), B (4, 2) of e+ = A e + B u, u = (throttle, wheel angle), at the present
    errors and the last wheel angle."""
    v = reference_mps - errors.speed_mps
    turn = v * tan(previous_wheel_rad) / WHEELBASE_M
    per_wheel = v / (WHEELBASE_M * cos(previous_wheel_rad) ** 2)
    damping = VISCOUS_NMS * NO_LOAD_RADPS + STALL_TORQUE_NM / (INERTIA_KGM2 * NO_LOAD_RADPS)
    a = np.eye(4)
    a[0, 1] = STAGE_S * turn
    a[0, 2] = -STAGE_S * reference_mps * sin(errors.heading_rad)
    a[1, 0] = -STAGE_S * turn
    a[1, 2] = STAGE_S * reference_mps * cos(errors.heading_rad)
    a[3, 3] -= STAGE_S * damping
    b = np.zeros((4, 2))
    b[0, 1] = STAGE_S * per_wheel * errors.left_m
    b[1, 1] = -STAGE_S * per_wheel * errors.ahead_m
    b[2, 1] = -STAGE_S * per_wheel
    b[3, 0] = -STAGE_S * GEAR_RATIO * WHEEL_RADIUS_M * STALL_TORQUE_NM / INERTIA_KGM2
    return a, b


def condensed(errors: ErrorState, a: Array, b: Array) -> tuple[Array, Array]:
    """Return Hessian (20, 20) and gradient (20,) over all inputs, for half the sum of e'Qe + u'Ru
    with constant A, B."""
    n = 2 * STAGES
    q = np.array(ERROR_WEIGHTS)
    hessian = np.diag(np.tile(INPUT_WEIGHTS, STAGES))
    gradient = np.zeros(n)
    gain = np.zeros((4, n))
    free = np.array(errors)
    for k in range(STAGES):
        gain = a @ gain
        gain[:, 2 * k : 2 * k + 2] += b
        free = a @ free
        weighted = q[:, None] * gain
        hessian += gain.T @ weighted
        gradient += weighted.T @ free
    return hessian, gradient


class PublishedQp:
    """OSQP problem with 0 <= throttle <= 1 and |wheel| <= 0.6 rad."""

    def __init__(self, iterations: int) -> None:
        # Imported here, so that other controllers do not load a solver.
        from osqp import ext_builtin

        settings = ext_builtin.OSQPSettings()
        ext_builtin.osqp_set_default_settings(settings)
        # OSQP's scaling is on, because the cost has entries of 1e5. Rho adapts by iteration count,
        # not by time.
        chosen = {
            "verbose": 0,
            "eps_abs": 1e-7,
            "eps_rel": 1e-7,
            "max_iter": iterations,
            "adaptive_rho_interval": 50,
        }
        for name, value in chosen.items():
            setattr(settings, name, value)
        n = 2 * STAGES
        self._column, self._row = np.tril_indices(n)
        start = np.zeros(n)
        hessian, gradient = condensed(
            ErrorState(0.0, 0.0, 0.0, 0.0), *dynamics(ErrorState(1.0, 0.0, 0.0, 0.0), 0.0, 1.0)
        )
        starts = np.concatenate(([0], np.cumsum(np.arange(1, n + 1)))).astype(np.int32)
        # Upper triangle, by columns.
        p = CompressedColumns(
            hessian[self._column, self._row], self._row.astype(np.int32), starts, (n, n)
        )
        each = np.arange(n + 1, dtype=np.int32)
        identity = CompressedColumns(np.ones(n), each[:-1], each, (n, n))
        lower, upper = np.tile([0.0, -MAX_WHEEL_RAD], STAGES), np.tile([1.0, MAX_WHEEL_RAD], STAGES)
        self._solver = ext_builtin.OSQPSolver(
            ext_builtin.CSC(p), gradient, ext_builtin.CSC(identity), lower, upper, n, n, settings
        )
        self._start = start
        self._solved = int(ext_builtin.osqp_status_type.OSQP_SOLVED)

    def solve(
        self, errors: ErrorState, previous_wheel_rad: float, reference_mps: float
    ) -> tuple[float, float, int]:
        """Return first throttle, wheel angle (rad) and iterations; NaN without a solution. Depends
        on the arguments only."""
        hessian, gradient = condensed(errors, *dynamics(errors, previous_wheel_rad, reference_mps))
        solver = self._solver
        if not isfinite(hessian.sum() + gradient.sum()):
            return float("nan"), float("nan"), 0
        solver.update_data_vec(gradient, None, None)
        solver.update_data_mat(hessian[self._column, self._row], None, None, None)
        solver.update_rho(STEP_SIZE)
        solver.warm_start(self._start, self._start)
        solver.solve()
        info = solver.info
        if info.status_val != self._solved:
            return float("nan"), float("nan"), info.iter
        x = solver.solution.x
        throttle, wheel = float(x[0]), float(x[1])
        return (
            min(max(throttle, 0.0), 1.0),
            min(max(wheel, -MAX_WHEEL_RAD), MAX_WHEEL_RAD),
            info.iter,
        )


def published_speed_mps(speed_mps: float, throttle: float, dt_s: float) -> float:
    """Return the speed fed back: the filter's drive model integrated over ``dt_s`` under the
    throttle. Never below 0."""
    reduced = WHEEL_RADIUS_M * GEAR_RATIO
    drive = ESTIMATOR_STALL_TORQUE_NM * (throttle - speed_mps / (ESTIMATOR_NO_LOAD_RADPS * reduced))
    loss = VISCOUS_NMS * speed_mps / reduced + ESTIMATOR_FRICTION_NM
    return max(0.0, speed_mps + dt_s * reduced / INERTIA_KGM2 * (drive - loss))


class MpcPublished(Controller):
    """Published error-state controller. It solves every 0.1 s, at any control rate."""

    Params: ClassVar[type[MpcPublishedParams]] = MpcPublishedParams

    def __init__(
        self,
        params: MpcPublishedParams,
        vehicle: Vehicle,
        limits: Limits,
        course: Course,
        period_s: float,
    ) -> None:
        self._params, self._course = params, course
        self._limit_mps = limits.max_speed_mps
        self._half_period_ns = int(0.5e9 * period_s)
        self._tracker = PathTracker(course)
        self._qp = PublishedQp(params.iterations)
        self.adapt(vehicle)
        self.reset()

    def adapt(self, vehicle: Vehicle) -> None:
        """Replace the vehicle parameters; commands are fractions of full steering, so only the
        attributed wheel angle changes."""
        self._vehicle = vehicle

    def reset(self, s_m: float | None = None, wheel_rad: float = 0.0) -> None:
        self._tracker.reset(s_m)
        self._steering = 0.0 if s_m is None else self._vehicle.steering.command(wheel_rad)
        self._throttle = self._throttle_before = 0.0
        self._speed_mps = 0.0
        self._iterations = 0
        self._solved = True
        self._due_ns: int | None = None

    @property
    def finished(self) -> bool:
        return self._tracker.finished

    def errors(
        self, x_m: float, y_m: float, yaw_rad: float, speed_mps: float
    ) -> tuple[ErrorState, float]:
        """Return the error state of a pose, and the reference speed."""
        course = self._course
        c, s = cos(yaw_rad), sin(yaw_rad)
        dx, dy = course.x_m - (x_m + LOOK_AHEAD_M * c), course.y_m - (y_m + LOOK_AHEAD_M * s)
        nearest = int(np.argmin(dx * dx + dy * dy))
        reference = (
            float(course.x_m[nearest]),
            float(course.y_m[nearest]),
            float(course.yaw_rad[nearest]),
        )
        reference_mps = abs(float(course.speed_mps[nearest]))
        return error_state(x_m, y_m, yaw_rad, speed_mps, *reference, reference_mps), reference_mps

    def step(self, estimate: StateEstimate, now_ns: int) -> ControlCommand:
        if not is_drivable(estimate):
            return self._stop(estimate, now_ns, ControlReason.STATE_UNUSABLE)
        here = self._tracker.update(
            estimate.x_m, estimate.y_m, estimate.yaw_rad, estimate.speed_mps
        )
        if self._due_ns is None or abs(now_ns - self._due_ns) > 10 * STAGE_S * 1e9:
            self._due_ns = now_ns
        if now_ns >= self._due_ns - self._half_period_ns:
            self._due_ns += int(STAGE_S * 1e9)
            self._solve(estimate)
        if not self._solved:
            return self._stop(estimate, now_ns, ControlReason.NOT_CONVERGED)
        return self._command(estimate, now_ns, here)

    def _solve(self, estimate: StateEstimate) -> None:
        p = self._params
        # The filter lagged one row: in the logs it responds to the throttle of the row before the
        # last.
        self._speed_mps = published_speed_mps(self._speed_mps, self._throttle_before, STAGE_S)
        self._throttle_before = self._throttle
        speed = self._speed_mps if p.speed == "published" else estimate.speed_mps
        errors, reference_mps = self.errors(estimate.x_m, estimate.y_m, estimate.yaw_rad, speed)
        throttle, wheel, self._iterations = self._qp.solve(
            errors, MAX_WHEEL_RAD * self._steering, reference_mps
        )
        self._solved = isfinite(throttle) and isfinite(wheel)
        if not self._solved:
            return
        demand = COMMAND_PER_RAD * wheel
        demand = min(
            max(demand, self._steering - p.steering_step), self._steering + p.steering_step
        )
        self._steering, self._throttle = min(max(demand, -1.0), 1.0), throttle

    def _wheel_rad(self) -> float:
        """Return the wheel angle that makes the gate send this command."""
        steering = self._vehicle.steering
        lock = steering.max_wheel_rad
        return min(max(steering.wheel_angle_rad(self._steering), -lock), lock)

    def _command(self, estimate: StateEstimate, now_ns: int, here: PathPoint) -> ControlCommand:
        throttle, brake = (0.0, 1.0) if self._tracker.finished else (self._throttle, 0.0)
        return ControlCommand(
            now_ns, estimate.newest_input_ns, self._wheel_rad(), throttle, brake,
            min(here.speed_mps, self._limit_mps), here.s_m, here.cross_track_m,
            here.heading_error_rad, here.curvature_per_m, iterations=self._iterations,
        )  # fmt: skip

    def _stop(self, estimate: StateEstimate, now_ns: int, reason: ControlReason) -> ControlCommand:
        self._throttle = 0.0
        command = brake_command(now_ns, estimate.newest_input_ns, self._wheel_rad())
        return replace(command, level=ControlLevel.STOP, reason=reason, iterations=self._iterations)
