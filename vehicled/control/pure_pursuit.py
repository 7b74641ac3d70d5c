"""Pure pursuit with adaptive look-ahead, on the pose predicted over the actuation delay.

The adaptive look-ahead follows the HMMWV study of Michigan Tech 2022: it starts short and grows
while the bearing of the look-ahead point stays below a threshold. Differences: the look-ahead is in
seconds and metres instead of samples, so it does not depend on the control rate; the wheel angle
follows from the arc through the point (Coulter 1992: curvature = 2 y / L^2), not from a mean of
bearings; the pose is predicted. Added: curvature feed-forward, the turn into corners tighter than
the vehicle can turn, and reverse. In reverse the rear axle leads, so pursuit works in the frame of
the motion (yaw + pi), where left wheels bend the path to the right.
"""

from collections.abc import Mapping
from math import atan, pi
from typing import Annotated, ClassVar

from msgspec import Meta, Struct, field

from vehicled.control.corners import Corners, arc_to, turn_in
from vehicled.control.path_follower import SPEED_RANGES, FollowerState, PathFollower, SteeringDemand
from vehicled.control.preview import Preview
from vehicled.control.speed import SpeedParams
from vehicled.core.clamp import clamp
from vehicled.core.vehicle import Limits, Positive, Vehicle
from vehicled.paths.course import Course
from vehicled.paths.tracking import CoursePoint, PathPoint


class PurePursuitParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Tuning. The look-ahead is time x speed, within the bounds in metres.

    A shorter look-ahead tracks closer but oscillates when steering gain and delay are wrong: with
    1.4 times the gain and 0.1 s more delay at 1 m/s, the mean error is 0.45 m at 0.6 s and 0.04 m
    at 1.0 s.
    """

    look_ahead_min_s: Positive = 1.0
    """Least look-ahead as time at the present speed, s."""
    look_ahead_max_s: Positive = 1.5
    """Largest look-ahead as time at the present speed, s."""
    look_ahead_min_m: Positive = 0.6
    """Least look-ahead, m."""
    look_ahead_max_m: Positive = 20.0
    """Largest look-ahead, m."""
    turn_threshold_rad: Annotated[float, Meta(ge=0.0, le=1.5)] = 0.035
    """Bearing of the look-ahead point below which the look-ahead grows, rad."""
    candidates: Annotated[int, Meta(ge=1, le=20)] = 3
    """Number of look-ahead distances tried, evenly spaced from shortest to longest."""
    feed_forward: bool = True
    """Steer the curvature of the course at the predicted pose, so that pursuit corrects only the
    error."""
    turn_in_share: Annotated[float, Meta(ge=0.1, le=10.0)] = 0.9
    """Fraction of the tightest curvature at which the turn into a tighter corner begins; larger is
    later and wider."""
    speed: SpeedParams = field(default_factory=SpeedParams)
    """Speed control."""


class PurePursuit(PathFollower):
    """Path follower with pure pursuit."""

    Params: ClassVar[type[PurePursuitParams]] = PurePursuitParams
    CHANGEABLE: ClassVar[Mapping[str, tuple[float, float]]] = {
        **SPEED_RANGES,
        "look_ahead_min_s": (0.2, 5.0),
        "look_ahead_max_s": (0.2, 5.0),
        "look_ahead_min_m": (0.1, 20.0),
        "look_ahead_max_m": (0.5, 50.0),
        "turn_in_share": (0.1, 10.0),
    }

    def __init__(
        self,
        params: PurePursuitParams,
        vehicle: Vehicle,
        limits: Limits,
        course: Course,
        period_s: float,
    ) -> None:
        self._params = params
        super().__init__(params.speed, vehicle, limits, course, period_s)
        self._corners = Corners(course)

    def steer(self, state: FollowerState) -> SteeringDemand:
        return SteeringDemand(
            atan(
                self.vehicle.effective_wheelbase_m(state.ahead.speed_mps)
                * self._pursue(state.ahead)
            )
        )

    def point_at(self, s_m: float) -> CoursePoint:
        """Return the point to pursue at an arc length: that of the course."""
        return self.tracker.point_at(s_m)

    def projected(self, on_course: PathPoint) -> PathPoint:
        """Return the projection on the pursued path for the one on the course: the same."""
        return on_course

    def _pursue(self, ahead: Preview) -> float:
        """Return the curvature to steer at the predicted pose."""
        p, tracker = self._params, self.tracker
        speed_mps = abs(ahead.speed_mps)
        shortest = clamp(p.look_ahead_min_s * speed_mps, p.look_ahead_min_m, p.look_ahead_max_m)
        longest = clamp(p.look_ahead_max_s * speed_mps, shortest, p.look_ahead_max_m)
        step_m = (longest - shortest) / max(p.candidates - 1, 1)
        projection = self.projected(tracker.locate(ahead.x_m, ahead.y_m, ahead.yaw_rad))
        sign, turned = (1.0, 0.0) if projection.direction > 0 else (-1.0, pi)
        ahead = ahead.turned(turned)
        start_m = projection.s_m
        s_m = start_m + shortest
        place = self.point_at(s_m)
        curvature, bearing = arc_to(ahead, place.x_m, place.y_m)
        for _ in range(p.candidates - 1):
            if abs(bearing) >= p.turn_threshold_rad:
                break
            further = self.point_at(s_m + step_m)
            arc, bearing = arc_to(ahead, further.x_m, further.y_m)
            if abs(bearing) >= p.turn_threshold_rad:
                break
            s_m, place, curvature = s_m + step_m, further, arc

        radius_m = self.vehicle.min_turn_radius_m
        corner_m = self._corners.next_m(start_m, radius_m)
        if self._corners.near(start_m, radius_m):
            return sign * turn_in(
                self.point_at, ahead, start_m, curvature, radius_m, p.turn_in_share
            )
        if not p.feed_forward or corner_m <= s_m:
            return sign * curvature
        # Pursuit without error steers the chord, which cuts every bend. The difference to it leaves
        # the feedback unchanged.
        chord, _ = arc_to(
            Preview(projection.x_m, projection.y_m, projection.yaw_rad + turned, 0.0, 0.0),
            place.x_m,
            place.y_m,
        )
        return sign * (curvature + sign * projection.curvature_per_m - chord)
