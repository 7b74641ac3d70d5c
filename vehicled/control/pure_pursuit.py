"""Pure pursuit with adaptive look-ahead, on the pose predicted over the actuation delay.

From the HMMWV study of Michigan Tech 2022 comes the adaptive look-ahead: it starts short and is lengthened while the angle to the
look-ahead point stays below a turn threshold. Mended: the look-ahead is counted in seconds and metres instead of samples, so that
it does not change with the control rate; the wheel angle follows from the arc through the point (Coulter 1992:
curvature = 2 y / L^2 in the frame of the rear axle), not from a mean of bearings; and the pose is the one at which the command will
act. Added: the curvature of the course as feed-forward, the turn into corners tighter than the vehicle can turn, and reverse: the
rear axle leads then, so it is the same pursuit in the frame of the motion (yaw + pi), where a wheel to the left bends to the right.
"""

from math import atan, pi
from typing import Annotated, ClassVar

from msgspec import Meta, Struct, field

from vehicled.control.corners import Corners, arc_to, turn_in
from vehicled.control.path_follower import FollowerState, PathFollower, SteeringDemand
from vehicled.control.preview import Preview
from vehicled.control.speed import SpeedParams
from vehicled.paths.course import Course
from vehicled.vehicle import Limits, Positive, Vehicle


class PurePursuitParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Tuning. The look-ahead is time x speed within the bounds in metres.

    Shorter is closer to the course while gain and delay of the steering are as believed, and swings when they are not: at 0.6 s and
    1 m/s a wheel that turns 1.4 times too far, 0.1 s too late, leaves the course by 0.45 m in the mean, at 1.0 s by 0.04 m.
    """

    look_ahead_min_s: Positive = 1.0
    look_ahead_max_s: Positive = 1.5
    look_ahead_min_m: Positive = 0.6
    look_ahead_max_m: Positive = 20.0
    turn_threshold_rad: Annotated[float, Meta(ge=0.0, le=1.5)] = 0.035
    """The look-ahead is lengthened while the bearing of its point stays below this."""
    candidates: Annotated[int, Meta(ge=1, le=20)] = 3
    """Look-ahead distances tried, evenly spaced from the shortest to the longest."""
    feed_forward: bool = True
    """Steer the curvature of the course at the predicted pose, and let pursuit answer for the error only."""
    turn_in_share: Annotated[float, Meta(ge=0.1, le=10.0)] = 0.9
    """Share of the tightest curvature at which the turn into a corner tighter than that begins; larger is later and wider."""
    speed: SpeedParams = field(default_factory=SpeedParams)


class PurePursuit(PathFollower):
    """Adapter of the pure functions to the :class:`~vehicled.control.interface.Controller` protocol."""

    Params: ClassVar[type[PurePursuitParams]] = PurePursuitParams

    def __init__(self, params: PurePursuitParams, vehicle: Vehicle, limits: Limits, course: Course, period_s: float) -> None:
        self._params = params
        super().__init__(params.speed, vehicle, limits, course, period_s)
        self._corners = Corners(course)

    def _steer(self, state: FollowerState) -> SteeringDemand:
        return SteeringDemand(atan(self.vehicle.turning_base_m(state.ahead.speed_mps) * self._pursue(state.ahead)))

    def _pursue(self, ahead: Preview) -> float:
        """Curvature to steer at the predicted pose."""
        p, tracker = self._params, self.tracker
        size = abs(ahead.speed_mps)
        shortest = min(max(p.look_ahead_min_s * size, p.look_ahead_min_m), p.look_ahead_max_m)
        longest = min(max(p.look_ahead_max_s * size, shortest), p.look_ahead_max_m)
        step_m = (longest - shortest) / max(p.candidates - 1, 1)
        foot = tracker.locate(ahead.x_m, ahead.y_m, ahead.yaw_rad)
        sign, turned = (1.0, 0.0) if foot.direction > 0 else (-1.0, pi)
        ahead = ahead._replace(yaw_rad=ahead.yaw_rad + turned)
        start_m = foot.s_m
        s_m = start_m + shortest
        place = tracker.point_at(s_m)
        curvature, bearing = arc_to(ahead, place.x_m, place.y_m)
        for _ in range(p.candidates - 1):
            if abs(bearing) >= p.turn_threshold_rad:
                break
            further = tracker.point_at(s_m + step_m)
            arc, bearing = arc_to(ahead, further.x_m, further.y_m)
            if abs(bearing) >= p.turn_threshold_rad:
                break
            s_m, place, curvature = s_m + step_m, further, arc

        radius_m = self.vehicle.min_turn_radius_m
        corner_m = self._corners.next_m(start_m, radius_m)
        if self._corners.near(start_m, radius_m):
            return sign * turn_in(tracker.point_at, ahead, start_m, curvature, radius_m, p.turn_in_share)
        if not p.feed_forward or corner_m <= s_m:
            return sign * curvature
        # What pursuit would steer without any error is not the curvature of the line, but that of its chord: it cuts every bend.
        # Taking the difference leaves the feedback as it is.
        chord, _ = arc_to(Preview(foot.x_m, foot.y_m, foot.yaw_rad + turned, 0.0, 0.0), place.x_m, place.y_m)
        return sign * (curvature + sign * foot.curvature_per_m - chord)
