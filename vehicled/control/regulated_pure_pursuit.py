"""Regulated pure pursuit: pursuit of one point, slower in bends and near the end.

Macenski, Singh, Martin and Gines 2023, "Regulated pure pursuit for robot path tracking", as in
Nav2: the look-ahead grows with the speed; the speed falls in proportion where the arc is tighter
than ``min_radius_m``, and in proportion to the distance to the end. Their obstacle proximity needs
a cost map and is omitted. Added: the pose is predicted over the delay, cusps count as ends, and
reverse works in the frame of the motion.
"""

from collections.abc import Mapping
from math import atan, pi, sqrt
from typing import ClassVar

from msgspec import Struct, field

from vehicled.control.corners import arc_to
from vehicled.control.path_follower import SPEED_RANGES, FollowerState, PathFollower, SteeringDemand
from vehicled.control.speed import SpeedParams
from vehicled.core.vehicle import Limits, NonNegative, Positive, Vehicle
from vehicled.paths.course import Course


class RegulatedPurePursuitParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Tuning, with Nav2's values except for the look-ahead bounds.

    Nav2's robots turn on the spot; a car with 0.5 m wheelbase and 1 s from lock to lock oscillates
    at 0.3 m look-ahead.
    """

    look_ahead_s: Positive = 1.5
    """Look-ahead time, s; less where the corridor is narrow, see :func:`look_ahead_s`."""
    look_ahead_min_m: Positive = 0.6
    """Least look-ahead, m."""
    look_ahead_max_m: Positive = 20.0
    """Largest look-ahead, m."""
    min_radius_m: NonNegative = 0.9
    """Radius below which the speed falls in proportion, m; 0 disables this."""
    approach_m: NonNegative = 0.6
    """Distance before the end and before cusps over which the speed falls in proportion, m."""
    approach_min_mps: Positive = 0.05
    """Least speed on the approach to the end, m/s."""
    regulated_min_mps: Positive = 0.25
    """Lowest speed to which bends reduce the target, m/s."""
    speed: SpeedParams = field(default_factory=SpeedParams)
    """Speed control."""


CUT_FRACTION = 0.5
"""Largest part of the corridor by which the chord to the look-ahead point may cut a bend."""


def look_ahead_s(params: RegulatedPurePursuitParams, limits: Limits) -> float:
    """Return the look-ahead time that keeps to the corridor in the tightest bend that the lateral
    limit allows at any speed, s.

    A chord of length v t cuts a bend of radius v^2 / a by a t^2 / 8.
    """
    return min(
        params.look_ahead_s,
        sqrt(8.0 * CUT_FRACTION * limits.corridor_m / limits.max_lateral_acceleration_mps2),
    )


def regulated_mps(
    params: RegulatedPurePursuitParams, target_mps: float, curvature_per_m: float, left_m: float
) -> float:
    """Return the lesser speed of equations 3 and 5, for a target (>= 0) on an arc, ``left_m``
    before the end."""
    p = params
    by_bend = target_mps
    if p.min_radius_m * abs(curvature_per_m) > 1.0:
        by_bend = max(
            target_mps / (p.min_radius_m * abs(curvature_per_m)),
            min(p.regulated_min_mps, target_mps),
        )
    by_end = target_mps
    if left_m < p.approach_m:
        by_end = max(
            target_mps * max(left_m, 0.0) / p.approach_m, min(p.approach_min_mps, target_mps)
        )
    return min(by_bend, by_end)


class RegulatedPurePursuit(PathFollower):
    """Path follower with regulated pure pursuit."""

    Params: ClassVar[type[RegulatedPurePursuitParams]] = RegulatedPurePursuitParams
    CHANGEABLE: ClassVar[Mapping[str, tuple[float, float]]] = {
        **SPEED_RANGES,
        "look_ahead_s": (0.2, 5.0),
        "look_ahead_min_m": (0.1, 20.0),
        "look_ahead_max_m": (0.5, 50.0),
        "min_radius_m": (0.0, 50.0),
        "regulated_min_mps": (0.05, 5.0),
    }

    def __init__(
        self,
        params: RegulatedPurePursuitParams,
        vehicle: Vehicle,
        limits: Limits,
        course: Course,
        period_s: float,
    ) -> None:
        self._params, self._look_ahead_s = params, look_ahead_s(params, limits)
        super().__init__(params.speed, vehicle, limits, course, period_s)

    def steer(self, state: FollowerState) -> SteeringDemand:
        p, tracker, ahead = self._params, self.tracker, state.ahead
        projection = tracker.locate(ahead.x_m, ahead.y_m, ahead.yaw_rad)
        reach_m = min(
            max(self._look_ahead_s * abs(ahead.speed_mps), p.look_ahead_min_m), p.look_ahead_max_m
        )
        point = tracker.point_at(projection.s_m + reach_m)
        sign, turned = (1.0, 0.0) if projection.direction > 0 else (-1.0, pi)
        curvature, _ = arc_to(ahead.turned(turned), point.x_m, point.y_m)
        target_mps = abs(self.target(projection.s_m).speed_mps)
        cap_mps = regulated_mps(p, target_mps, curvature, tracker.leg_end_m - projection.s_m)
        return SteeringDemand(
            atan(self.vehicle.effective_wheelbase_m(ahead.speed_mps) * sign * curvature), cap_mps
        )
