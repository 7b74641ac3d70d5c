"""The anytime ladder: a planner that fails is answered by the next best thing, and every row of the log says which.

    PRIMARY        the plan of this tick
    SHIFTED_PLAN   the last plan, read at the time since, for a bounded number of ticks
    PURE_PURSUIT   an arc to a point ahead: no solver, nothing remembered
    STOP           brake, wheels as they are

A solver that ends by its bound of iterations, a program that is not finite and a control task that came late all end up here; what
differs is the reason. The planner may be any: it hands over its attempt, the ladder says what to steer.
"""

from collections.abc import Callable
from math import atan, cos, isfinite, sin
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct

from vehicled.control.qp import Array
from vehicled.messages import NAN, ControlLevel, ControlReason
from vehicled.paths.tracking import PathTracker

MIN_LOOK_AHEAD_M = 0.3
"""Nearer points make an arc of every millimetre."""


class LadderParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How long each rung carries."""

    shifted_ticks: Annotated[int, Meta(ge=0, le=1000)] = 20
    """Ticks in a row that the last plan is driven on. 0.2 s at 100 Hz: what the vehicle does in the meantime was predicted from a
    state that is no older than that."""
    pursuit_ticks: Annotated[int, Meta(ge=0, le=100_000)] = 200
    """Ticks in a row that are then driven by pure pursuit, before the vehicle is stopped for want of a plan."""
    look_ahead_s: Annotated[float, Meta(gt=0.0, le=10.0)] = 1.0
    look_ahead_min_m: Annotated[float, Meta(ge=MIN_LOOK_AHEAD_M, le=100.0)] = 0.6


class Attempt(NamedTuple):
    """What a planner found in one tick: wheel angles (n,), the first in force when the command begins to act, ``dt_s`` apart; or
    None and the reason. The array is copied when it is needed later.
    """

    wheel_rad: Array | None
    dt_s: float
    reason: ControlReason = ControlReason.NONE
    iterations: int = 0


class Rung(NamedTuple):
    """What to steer, and why. On STOP the angle is NaN: hold the wheels and brake."""

    wheel_rad: float
    level: ControlLevel
    reason: ControlReason
    iterations: int


class Ladder:
    """Remembers the last good plan and how many ticks ago it was."""

    def __init__(self, params: LadderParams) -> None:
        self._params = params
        self.reset()

    def reset(self) -> None:
        """Nothing remembered."""
        self._plan: Array | None = None
        self._dt_s = 1.0
        self._age_s = 0.0
        self._ticks = 0
        """Ticks in a row without a plan."""

    def choose(self, attempt: Attempt, pursue: Callable[[], float], elapsed_s: float, reach_s: float) -> Rung:
        """The highest rung that holds.

        ``pursue`` gives the wheel angle of the pursuit rung, not finite when it knows none; it is called only when needed.
        ``elapsed_s`` has passed since the last tick; the command holds for ``reach_s``, so the plan is read at the end of that.
        """
        plan, reason, iterations = attempt.wheel_rad, attempt.reason, attempt.iterations
        if plan is not None:
            wheel = sample(plan, reach_s / attempt.dt_s)
            if isfinite(wheel):
                self._plan, self._dt_s, self._age_s, self._ticks = plan, attempt.dt_s, 0.0, 0
                return Rung(wheel, ControlLevel.PRIMARY, ControlReason.NONE, iterations)
            reason = ControlReason.NOT_FINITE
        if self._ticks == 0 and self._plan is not None:
            # The planner may go on writing into the array that it handed over.
            self._plan = self._plan.copy()
        self._ticks += 1
        self._age_s += elapsed_s
        if self._plan is not None:
            if self._ticks <= self._params.shifted_ticks:
                wheel = sample(self._plan, (self._age_s + reach_s) / self._dt_s)
                return Rung(wheel, ControlLevel.SHIFTED_PLAN, reason, iterations)
            reason = ControlReason.PLAN_USED_UP
        if self._ticks <= self._params.shifted_ticks + self._params.pursuit_ticks:
            wheel = pursue()
            if isfinite(wheel):
                return Rung(wheel, ControlLevel.PURE_PURSUIT, reason, iterations)
        return Rung(NAN, ControlLevel.STOP, reason, iterations)

    def stop(self, reason: ControlReason) -> Rung:
        """The last rung at once: there is no state to plan from. What was planned before it is not driven afterwards."""
        self.reset()
        return Rung(NAN, ControlLevel.STOP, reason, 0)


def sample(plan: Array, at: float) -> float:
    """Plan (n,) at a place in it, counted in entries, linear in between; held beyond its end."""
    last = len(plan) - 1
    if not at < last:
        return float(plan[last])
    k = int(at)
    here = float(plan[k])
    return here + (at - k) * (float(plan[k + 1]) - here)


def pursuit_wheel_rad(
    params: LadderParams, tracker: PathTracker, wheelbase_m: float, x_m: float, y_m: float, yaw_rad: float, speed_mps: float
) -> float:
    """Wheel angle of the arc from a pose through a point ahead on the course (Coulter 1992: curvature = 2 left / distance^2).

    ``speed_mps`` is signed: backward, the point lies behind and the same arc leads to it. NaN when the pose is not finite.
    """
    distance_m = max(params.look_ahead_s * abs(speed_mps), params.look_ahead_min_m)
    foot = tracker.locate(x_m, y_m, yaw_rad)
    point = tracker.point_at(foot.s_m + distance_m)
    dx, dy = point.x_m - x_m, point.y_m - y_m
    left = cos(yaw_rad) * dy - sin(yaw_rad) * dx
    square = max(dx * dx + dy * dy, MIN_LOOK_AHEAD_M * MIN_LOOK_AHEAD_M)
    return atan(wheelbase_m * 2.0 * left / square)
