"""Stanley controller: steers the front axle along its line, from heading error and cross-track
error.

Hoffmann, Tomlin, Montemerlo and Thrun 2007, "Autonomous automobile trajectory tracking for off-road
driving":

    wheel = psi + atan(k e / (k_soft + v)) + k_d (r_path - r)

with psi the path's direction minus the vehicle's, e the cross-track error of the front axle and r
the yaw rate. Differences: the course is meant for the rear axle, so the front axle follows the line
it draws while the rear axle is on the course, one wheelbase ahead and turned by atan(wheelbase
curvature); ``line = "course"`` is the original, whose rear axle cuts bends. The predicted pose
compensates the steering delay, instead of k_steer. Corners tighter than the vehicle can turn:
:mod:`vehicled.control.corners`.

In reverse the rear axle leads, so the law differs: cross-track and heading error obey e'' = -(v /
l)^2 c e - (v / l) e' over the distance, with wheel = -(psi + atan(c e / l)) in the direction of
motion; c = 1 / (4 zeta^2).
"""

from collections.abc import Mapping
from math import atan, cos, sin, tan
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct, field

from vehicled.control.corners import Corners, turn_in
from vehicled.control.path_follower import SPEED_RANGES, FollowerState, PathFollower, SteeringDemand
from vehicled.control.preview import Preview
from vehicled.control.speed import SpeedParams
from vehicled.core.vehicle import Limits, NonNegative, Positive, Vehicle
from vehicled.paths.course import Course
from vehicled.paths.tracking import PathPoint


class StanleyParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Tuning of the Stanley controller."""

    gain_per_s: Positive = 1.0
    """k, 1/s: a small error decays at this rate. Times the uncertain part of the delay it should
    stay well below 0.5."""
    softening_mps: Positive = 0.5
    """k_soft, m/s; limits the response to position noise at low speed."""
    yaw_damping_s: NonNegative = 0.05
    """k_d, rad per rad/s, on the yaw rate of the predicted wheel angle."""
    line: Literal["axle", "course"] = "axle"
    """Line of the front axle: its own (``axle``), or the course itself as published."""
    reverse_damping: Annotated[float, Meta(ge=0.5, le=3.0)] = 1.0
    """Damping ratio zeta in reverse."""
    turn_in_share: Annotated[float, Meta(ge=0.1, le=10.0)] = 0.9
    """Fraction of the tightest curvature at which the turn into a tighter corner begins; larger is
    later and wider."""
    speed: SpeedParams = field(default_factory=SpeedParams)
    """Speed control."""


def front_axle_error(
    x_m: float,
    y_m: float,
    yaw_rad: float,
    projection: PathPoint,
    wheelbase_m: float,
    turned_rad: float,
) -> float:
    """Return the cross-track offset (m, left positive) of the pose's front axle.

    It is measured across the wheel direction, from a vehicle at ``projection`` with the wheel angle
    ``turned_rad``.
    """
    dx = x_m + wheelbase_m * cos(yaw_rad) - projection.x_m - wheelbase_m * cos(projection.yaw_rad)
    dy = y_m + wheelbase_m * sin(yaw_rad) - projection.y_m - wheelbase_m * sin(projection.yaw_rad)
    rolling_rad = projection.yaw_rad + turned_rad
    return dy * cos(rolling_rad) - dx * sin(rolling_rad)


class Stanley(PathFollower):
    """Path follower with Stanley's law."""

    Params: ClassVar[type[StanleyParams]] = StanleyParams
    CHANGEABLE: ClassVar[Mapping[str, tuple[float, float]]] = {
        **SPEED_RANGES,
        "gain_per_s": (0.1, 10.0),
        "softening_mps": (0.05, 5.0),
        "yaw_damping_s": (0.0, 1.0),
        "reverse_damping": (0.5, 3.0),
        "turn_in_share": (0.1, 10.0),
    }

    def __init__(
        self,
        params: StanleyParams,
        vehicle: Vehicle,
        limits: Limits,
        course: Course,
        period_s: float,
    ) -> None:
        self._params = params
        super().__init__(params.speed, vehicle, limits, course, period_s)
        self._corners = Corners(course)

    def steer(self, state: FollowerState) -> SteeringDemand:
        ahead, vehicle, tracker = state.ahead, self.vehicle, self.tracker
        projection = tracker.locate(ahead.x_m, ahead.y_m, ahead.yaw_rad)
        lock = vehicle.steering.max_wheel_rad
        # At a corner the curvature is concentrated in one point.
        bend_rad = min(
            max(
                atan(vehicle.effective_wheelbase_m(ahead.speed_mps) * projection.curvature_per_m),
                -lock,
            ),
            lock,
        )
        if projection.direction < 0:
            reach_m = 4.0 * self._params.reverse_damping**2 * vehicle.wheelbase_m
            return SteeringDemand(
                bend_rad - projection.heading_error_rad - atan(projection.cross_track_m / reach_m)
            )
        wheel = min(max(self._forward(ahead, projection, bend_rad), -lock), lock)
        if self._corners.near(projection.s_m, vehicle.min_turn_radius_m):
            curvature = tan(wheel) / vehicle.wheelbase_m
            fraction, radius_m = self._params.turn_in_share, vehicle.min_turn_radius_m
            wheel = atan(
                vehicle.wheelbase_m
                * turn_in(tracker.point_at, ahead, projection.s_m, curvature, radius_m, fraction)
            )
        return SteeringDemand(wheel)

    def _forward(self, ahead: Preview, projection: PathPoint, bend_rad: float) -> float:
        """Return the wheel angle of the published law; ``bend_rad`` is that of a vehicle on the
        course."""
        p, wheelbase_m = self._params, self.vehicle.wheelbase_m
        speed = abs(ahead.speed_mps)
        if p.line == "course":
            front_x = ahead.x_m + wheelbase_m * cos(ahead.yaw_rad)
            front_y = ahead.y_m + wheelbase_m * sin(ahead.yaw_rad)
            front = self.tracker.locate(front_x, front_y, ahead.yaw_rad)
            heading_rad, error_m = front.heading_error_rad, front.cross_track_m
        else:
            heading_rad = projection.heading_error_rad + bend_rad
            error_m = front_axle_error(
                ahead.x_m, ahead.y_m, ahead.yaw_rad, projection, wheelbase_m, bend_rad
            )
        wheel = heading_rad - atan(p.gain_per_s * error_m / (p.softening_mps + speed))
        return (
            wheel + p.yaw_damping_s * speed * (tan(bend_rad) - tan(ahead.wheel_rad)) / wheelbase_m
        )
