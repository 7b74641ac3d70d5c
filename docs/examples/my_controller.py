"""A controller of your own: turns the wheels in proportion to the distance from the course and to
the error of the heading.

vehicled sim --course circle_r5_ccw --controller ./my_controller.py:Proportional
vehicled sim --course circle_r2_ccw --controller ./my_controller.py:Proportional \
    --set controller.Proportional.per_m=0.8
"""

from typing import ClassVar

from msgspec import Struct, field

from vehicled.control.path_follower import FollowerState, PathFollower, SteeringDemand
from vehicled.control.speed import SpeedParams
from vehicled.core.vehicle import Limits, Positive, Vehicle
from vehicled.paths.course import Course


class ProportionalParams(Struct, frozen=True):
    """Gains of the law; a profile sets them in the table [controller.Proportional]."""

    per_m: Positive = 0.5
    """Wheel angle for each metre of distance, rad/m."""
    per_rad: Positive = 1.2
    """Wheel angle for each radian of heading error."""
    speed: SpeedParams = field(default_factory=SpeedParams)


class Proportional(PathFollower):
    """The base class controls the speed, predicts the pose at which a command acts, and stops at
    the end."""

    Params: ClassVar[type[ProportionalParams]] = ProportionalParams

    def __init__(
        self,
        params: ProportionalParams,
        vehicle: Vehicle,
        limits: Limits,
        course: Course,
        period_s: float,
    ) -> None:
        """Keep the gains."""
        super().__init__(params.speed, vehicle, limits, course, period_s)
        self._params = params

    def steer(self, state: FollowerState) -> SteeringDemand:
        """Return the angle of the front wheels, rad, positive to the left."""
        ahead = state.ahead
        place = self.tracker.locate(ahead.x_m, ahead.y_m, ahead.yaw_rad)
        bend_rad = self.vehicle.wheelbase_m * place.curvature_per_m
        return SteeringDemand(
            bend_rad
            - self._params.per_m * place.cross_track_m
            + self._params.per_rad * place.heading_error_rad
        )
