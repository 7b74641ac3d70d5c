"""A convoy: each vehicle follows the one before by what that broadcasts, at a gap that grows with
the speed.

vehicled sim --fleet convoy.toml --plot convoy.png

The law is constant time headway: the speed is that of the predecessor plus a part of the error of
the gap, whose set value is ``gap_m + headway_s * speed``. With ``headway_s = 0`` the spacing is
constant. The speed of the predecessor is the one that it plans for ``preview_s`` from now
(cooperative adaptive cruise control). The vehicle never drives faster than its course asks, and
stops when nothing arrives.
"""

from math import inf
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta, Struct, field

from vehicled.control.path_follower import FollowerState, SteeringDemand
from vehicled.control.pure_pursuit import PurePursuit, PurePursuitParams
from vehicled.core.messages import NeighbourState, StateEstimate
from vehicled.core.vehicle import Limits, NonNegative, Positive, Vehicle
from vehicled.paths.course import Course

STAND_MPS, LEAVE_MPS = 0.1, 0.25
"""Speeds by the law at which the vehicle comes to a stand, and leaves again."""
WINDOW_M = 40.0
"""Part of the course ahead on which the predecessor is looked for."""
SILENT_NS = 1_000_000_000
"""Time without a message after which the vehicle stops."""


class ConvoyParams(Struct, frozen=True):
    """Spacing; a profile sets it in the table [controller.Convoy]."""

    predecessor: str = ""
    """Name of the vehicle to follow."""
    gap_m: Positive = 3.0
    """Gap from the front of this vehicle to the rear of its predecessor at standstill, m."""
    headway_s: NonNegative = 1.0
    """Further gap as time at the present speed, s; 0: constant spacing."""
    gain_ps: Annotated[float, Meta(gt=0.0, le=5.0)] = 1.0
    """Speed for each metre of error of the gap, 1/s."""
    smoothing_s: NonNegative = 0.25
    """Time constant by which the speed follows the law, s; 0: at once."""
    preview_s: NonNegative = 0.5
    """Time from now for which the planned speed of the predecessor is taken, s; 0: its present
    speed."""
    predecessor_rear_m: NonNegative = 0.085
    """Distance from the predecessor's rear axle to its rear end, m."""
    pursuit: PurePursuitParams = field(default_factory=PurePursuitParams)
    """Steering and speed control."""


class Convoy(PurePursuit):
    """Pure pursuit along the course, with the speed of a convoy."""

    Params: ClassVar[type[ConvoyParams]] = ConvoyParams  # type: ignore[assignment]

    def __init__(
        self,
        params: ConvoyParams,
        vehicle: Vehicle,
        limits: Limits,
        course: Course,
        period_s: float,
    ) -> None:
        """Keep the spacing."""
        self._spacing = params
        self._course = course
        self._received: NeighbourState | None = None
        self._now_ns = 0
        self._holds = True
        self._period_s = period_s
        self._smooth_mps = 0.0
        super().__init__(params.pursuit, vehicle, limits, course, period_s)

    def on_neighbour(self, state: NeighbourState) -> None:
        """Keep the newest state of the predecessor."""
        if state.sender == self._spacing.predecessor:
            self._received = state

    def step(self, estimate: StateEstimate, now_ns: int):  # type: ignore[no-untyped-def]
        """Note the time, then step as the base class does."""
        self._now_ns = now_ns
        return super().step(estimate, now_ns)

    def steer(self, state: FollowerState) -> SteeringDemand:
        """Steer along the course, no faster than the spacing allows."""
        demand = super().steer(state)
        cap_mps = self.speed_cap_mps(state.here.s_m)
        # Below a walking pace the vehicle stands, held by its brake, until it may drive again.
        self._holds = cap_mps < (LEAVE_MPS if self._holds else STAND_MPS)
        return SteeringDemand(demand.wheel_rad, self._smoothed_mps(cap_mps), hold=self._holds)

    def _smoothed_mps(self, cap_mps: float) -> float:
        """Follow the law with a lag: the drive would amplify the errors of the received speed."""
        if cap_mps == inf:
            return inf
        p, period_s = self._spacing, self._period_s
        self._smooth_mps += (cap_mps - self._smooth_mps) * period_s / (period_s + p.smoothing_s)
        return self._smooth_mps

    def speed_cap_mps(self, s_m: float) -> float:
        """Return the speed by the law; 0 without news, infinite with a predecessor out of sight
        ahead."""
        received, p = self._received, self._spacing
        if received is None or self._now_ns - received.t_ns > SILENT_NS:
            return 0.0
        ahead_m = self._ahead_m(s_m, received)
        if ahead_m is None:
            return inf
        # The predecessor has moved on since it was at that place.
        age_s = (self._now_ns - received.t_ns) * 1e-9
        ahead_m += received.speed_mps * age_s
        gap_m = ahead_m - self.vehicle.outline.front_m - p.predecessor_rear_m
        # The law v = v_predecessor + gain (gap - gap_m - headway v), solved for v. With the present
        # speed on its right side the delay of the drive would make it oscillate.
        speed_mps = received.speed_mps
        if received.plan_time_s and p.preview_s:
            speed_mps = np.interp(
                age_s + p.preview_s, received.plan_time_s, received.plan_speed_mps
            )
        wanted_mps = speed_mps + p.gain_ps * (gap_m - p.gap_m)
        return float(max(wanted_mps / (1.0 + p.gain_ps * p.headway_s), 0.0))

    def _ahead_m(self, s_m: float, received: NeighbourState) -> float | None:
        """Return how far ahead along the course the predecessor is; None if it is not there."""
        course = self._course
        rows = np.flatnonzero((course.s_m >= s_m) & (course.s_m <= s_m + WINDOW_M))
        if not len(rows):
            return None
        away = np.hypot(course.x_m[rows] - received.x_m, course.y_m[rows] - received.y_m)
        nearest = int(away.argmin())
        if nearest == len(rows) - 1:
            return None
        row = rows[nearest]
        dx, dy = received.x_m - course.x_m[row], received.y_m - course.y_m[row]
        beyond_m = dx * np.cos(course.yaw_rad[row]) + dy * np.sin(course.yaw_rad[row])
        return float(course.s_m[row] + beyond_m - s_m)
