"""Fallback chain of the model-predictive controllers: what to steer when the planner fails. The log
has the level of every tick.

    PRIMARY        the plan of this tick
    SHIFTED_PLAN   the last plan, shifted by the elapsed time, for a limited number of ticks
    PURE_PURSUIT   an arc to a point ahead: no solver, no memory
    STOP           brake, wheels held

The iteration limit of the solver, a program that is not finite and a late control task all lead
here, with different reasons. Any planner may use it.
"""

from collections.abc import Callable
from math import atan, cos, isfinite, sin
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct

from vehicled.core.arrays import Array
from vehicled.core.messages import NAN, ControlLevel, ControlReason
from vehicled.paths.tracking import PathTracker

MIN_LOOK_AHEAD_M = 0.3
"""Shortest look-ahead, m; a nearer point would turn millimetres of error into full lock."""


class FallbackParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Durations of the fallback levels."""

    shifted_ticks: Annotated[int, Meta(ge=0, le=1000)] = 20
    """Consecutive ticks on the last plan; 0.2 s at 100 Hz, as long as its predictions stay
    valid."""
    pursuit_ticks: Annotated[int, Meta(ge=0, le=100_000)] = 200
    """Consecutive ticks of pure pursuit after that, before the vehicle is stopped."""
    look_ahead_s: Annotated[float, Meta(gt=0.0, le=10.0)] = 1.0
    """Look-ahead of the pure pursuit, as time at the present speed, s."""
    look_ahead_min_m: Annotated[float, Meta(ge=MIN_LOOK_AHEAD_M, le=100.0)] = 0.6
    """Least look-ahead of the pure pursuit, m."""


class PlannerResult(NamedTuple):
    """Result of a planner in one tick: wheel angles (n,) ``dt_s`` apart, the first for the time the
    command takes effect; or None and the reason.

    The array is copied if it is needed later.
    """

    wheel_rad: Array | None
    dt_s: float
    reason: ControlReason = ControlReason.NONE
    iterations: int = 0


class FallbackLevel(NamedTuple):
    """Selected level, its wheel angle and the reason. On STOP the angle is NaN: hold the wheels and
    brake."""

    wheel_rad: float
    level: ControlLevel
    reason: ControlReason
    iterations: int


class FallbackChain:
    """Fallback chain; keeps the last valid plan and its age in ticks."""

    def __init__(self, params: FallbackParams) -> None:
        self._params = params
        self.reset()

    def reset(self) -> None:
        """Forget the last plan."""
        self._plan: Array | None = None
        self._dt_s = 1.0
        self._age_s = 0.0
        self._ticks = 0
        """Consecutive ticks without a plan."""

    def choose(
        self, attempt: PlannerResult, pursue: Callable[[], float], elapsed_s: float, reach_s: float
    ) -> FallbackLevel:
        """Return the best level that is available.

        ``pursue`` returns the wheel angle of pure pursuit, not finite if unavailable; it is called
        only if needed. ``elapsed_s`` is the time since the last tick. The command holds for
        ``reach_s``, so the plan is read at the end of that time.
        """
        plan, reason, iterations = attempt.wheel_rad, attempt.reason, attempt.iterations
        if plan is not None:
            wheel = sample(plan, reach_s / attempt.dt_s)
            if isfinite(wheel):
                self._plan, self._dt_s, self._age_s, self._ticks = plan, attempt.dt_s, 0.0, 0
                return FallbackLevel(wheel, ControlLevel.PRIMARY, ControlReason.NONE, iterations)
            reason = ControlReason.NOT_FINITE
        if self._ticks == 0 and self._plan is not None:
            # The planner may reuse its array.
            self._plan = self._plan.copy()
        self._ticks += 1
        self._age_s += elapsed_s
        if self._plan is not None:
            if self._ticks <= self._params.shifted_ticks:
                wheel = sample(self._plan, (self._age_s + reach_s) / self._dt_s)
                return FallbackLevel(wheel, ControlLevel.SHIFTED_PLAN, reason, iterations)
            reason = ControlReason.PLAN_USED_UP
        if self._ticks <= self._params.shifted_ticks + self._params.pursuit_ticks:
            wheel = pursue()
            if isfinite(wheel):
                return FallbackLevel(wheel, ControlLevel.PURE_PURSUIT, reason, iterations)
        return FallbackLevel(NAN, ControlLevel.STOP, reason, iterations)

    def stop(self, reason: ControlReason) -> FallbackLevel:
        """Return the STOP level, because no state is available to plan from, and drop the last
        plan."""
        self.reset()
        return FallbackLevel(NAN, ControlLevel.STOP, reason, 0)


def sample(plan: Array, at: float) -> float:
    """Return plan (n,) at a fractional index, linearly interpolated; held after its end."""
    last = len(plan) - 1
    if not at < last:
        return float(plan[last])
    k = int(at)
    here = float(plan[k])
    return here + (at - k) * (float(plan[k + 1]) - here)


def pursuit_wheel_rad(
    params: FallbackParams,
    tracker: PathTracker,
    wheelbase_m: float,
    x_m: float,
    y_m: float,
    yaw_rad: float,
    speed_mps: float,
) -> float:
    """Return the wheel angle of the arc from a pose through a point ahead on the course (Coulter
    1992: curvature = 2 left / distance^2).

    ``speed_mps`` is signed: in reverse the point lies behind, and the same arc leads to it. NaN if
    the pose is not finite.
    """
    distance_m = max(params.look_ahead_s * abs(speed_mps), params.look_ahead_min_m)
    projection = tracker.locate(x_m, y_m, yaw_rad)
    point = tracker.point_at(projection.s_m + distance_m)
    dx, dy = point.x_m - x_m, point.y_m - y_m
    left = cos(yaw_rad) * dy - sin(yaw_rad) * dx
    square = max(dx * dx + dy * dy, MIN_LOOK_AHEAD_M * MIN_LOOK_AHEAD_M)
    return atan(wheelbase_m * 2.0 * left / square)
