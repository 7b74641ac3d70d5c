"""A path-following controller: steers towards a point of the course ahead (pure pursuit).

    vehicled sim --controller ./template_file.py:TemplateClass

Add --set controller.TemplateClass.lookahead_m=1.2 to change a parameter for one drive.

The base class does the rest: it finds the vehicle's place on the course, predicts the pose at which
a command will act, controls the speed, slows down for bends and stops at the end. The safety gate
limits every command, whatever this file computes.
"""

from math import atan2, cos, hypot, sin
from typing import ClassVar

from msgspec import Struct, field

from vehicled.control.path_follower import FollowerState, PathFollower, SteeringDemand
from vehicled.control.speed import SpeedParams
from vehicled.core.vehicle import Limits, Positive, Vehicle
from vehicled.paths.course import Course


class TemplateClassParams(Struct, frozen=True):
    """Parameters: the table [controller.TemplateClass] of the profile, which checks them."""

    lookahead_m: Positive = 1.0
    """Distance of the point along the course. Shorter follows bends more closely and is less
    damped."""
    speed: SpeedParams = field(default_factory=SpeedParams)


class TemplateClass(PathFollower):
    """The steering law; one method has to be written."""

    Params: ClassVar[type[TemplateClassParams]] = TemplateClassParams

    def __init__(
        self,
        params: TemplateClassParams,
        vehicle: Vehicle,
        limits: Limits,
        course: Course,
        period_s: float,
    ) -> None:
        """Take what the profile says. ``period_s`` is the time between two steps."""
        super().__init__(params.speed, vehicle, limits, course, period_s)
        self._params = params

    def steer(self, state: FollowerState) -> SteeringDemand:
        """Return the angle of the front wheels in rad, positive to the left.

        ``state.estimate`` is the newest estimate, ``state.here`` its place on the course,
        ``state.ahead`` the pose at which this command will act (``x_m``, ``y_m``, ``yaw_rad``,
        ``speed_mps``), ``state.dt_s`` the time since the last step.
        """
        ahead = state.ahead
        place = self.tracker.locate(ahead.x_m, ahead.y_m, ahead.yaw_rad)
        target = self.tracker.point_at(place.s_m + self._params.lookahead_m)
        # The point in axes of the vehicle: forward, left.
        dx, dy = target.x_m - ahead.x_m, target.y_m - ahead.y_m
        forward_m = cos(ahead.yaw_rad) * dx + sin(ahead.yaw_rad) * dy
        left_m = -sin(ahead.yaw_rad) * dx + cos(ahead.yaw_rad) * dy
        # The arc through it has this curvature; a single-track vehicle drives it with this angle.
        curvature_per_m = 2.0 * left_m / max(hypot(forward_m, left_m), 0.1) ** 2
        return SteeringDemand(atan2(self.vehicle.wheelbase_m * curvature_per_m, 1.0))
