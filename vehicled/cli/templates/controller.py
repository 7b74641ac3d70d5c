"""A path-following controller: steers by the curvature of the course, its heading error and its cross-track error.

    vehicled sim --controller ./template_file.py:TemplateClass
    vehicled sim --controller ./template_file.py:TemplateClass --set controller.TemplateClass.gain_per_m=1.5

The base class does the rest: it finds the vehicle's place on the course, predicts the pose at which a command will act, controls
the speed, slows down for bends and stops at the end. The safety gate limits every command, whatever this file computes.
"""

from math import atan
from typing import ClassVar

from msgspec import Struct, field

from vehicled.control.path_follower import FollowerState, PathFollower, SteeringDemand
from vehicled.control.speed import SpeedParams
from vehicled.paths.course import Course
from vehicled.vehicle import Limits, NonNegative, Vehicle


class TemplateClassParams(Struct, frozen=True):
    """Parameters, checked with the profile: the table [controller.TemplateClass], or --set controller.TemplateClass.NAME=VALUE."""

    gain_per_m: NonNegative = 1.0
    """Steering per cross-track error. Larger is faster and less damped."""
    speed: SpeedParams = field(default_factory=SpeedParams)


class TemplateClass(PathFollower):
    """The steering law; one method has to be written."""

    Params: ClassVar[type[TemplateClassParams]] = TemplateClassParams

    def __init__(self, params: TemplateClassParams, vehicle: Vehicle, limits: Limits, course: Course, period_s: float) -> None:
        """Take what the profile says. ``period_s`` is the time between two steps."""
        super().__init__(params.speed, vehicle, limits, course, period_s)
        self._params = params

    def steer(self, state: FollowerState) -> SteeringDemand:
        """Return the angle of the front wheels in rad, positive to the left.

        ``state.estimate`` is the newest estimate, ``state.here`` its place on the course, ``state.ahead`` the pose at which this
        command will act (``x_m``, ``y_m``, ``yaw_rad``, ``speed_mps``), ``state.dt_s`` the time since the last step.
        """
        ahead = state.ahead
        place = self.tracker.locate(ahead.x_m, ahead.y_m, ahead.yaw_rad)
        # A vehicle exactly on the course needs the angle of its curvature.
        feedforward_rad = atan(self.vehicle.wheelbase_m * place.curvature_per_m)
        # The cross-track error is positive left of the course; the heading error is the course's heading minus the vehicle's.
        correction_rad = place.heading_error_rad - atan(self._params.gain_per_m * place.cross_track_m)
        return SteeringDemand(feedforward_rad + correction_rad)
