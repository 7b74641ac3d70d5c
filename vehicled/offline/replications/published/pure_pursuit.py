"""Pure pursuit as published in the low-rate study on the HMMWV (Michigan Tech 2022), for
comparison.

The look-ahead is counted in samples of a recorded trace, from ``reached_m`` ahead: in the study a
waypoint counts as reached inside a square of 1 m around the vehicle. It grows from k = 10 while the
bearing of its point stays below 2 degrees, to at most 200. The command is the mean bearing of the
next K = 10 points, 45 degrees for full lock. Speed: PID, P 6.0, I 0.25, D 0, without feed-forward.

Its faults are kept where the study defines them: a mean of bearings is no pursuit curvature, and a
look-ahead in samples depends on the rate. The trace has 400 Hz; ``sample_hz = 0`` counts at the
control rate, which would explain errors that grow with 1 / rate. The sample spacing is the target
speed over the rate. Without prediction. Reverse legs are pursued in the frame of the motion, by the
rear axle.

Bearings are those of the middle of the vehicle (``reference_wheelbases``), by assumption: the frame
of Chrono's HMMWV lies midway between the axles, and a trace recorded by driving is the line of that
same point. A point ahead of the rear axle adds the heading error to the bearing, by its distance
over the look-ahead, and so damps the law. From the rear axle it swings off bends at 400 Hz, on
tyres that slip.
"""

from math import atan2, cos, hypot, pi, radians, sin
from typing import Annotated, ClassVar

from msgspec import Meta, Struct, field

from vehicled.control.path_follower import FollowerState, PathFollower, SteeringDemand
from vehicled.control.preview import Preview
from vehicled.control.speed import SpeedParams
from vehicled.core.vehicle import Limits, NonNegative, Positive, Share, Vehicle
from vehicled.paths.course import Course
from vehicled.paths.tracking import PathTracker

Samples = Annotated[int, Meta(ge=1, le=2000)]


class PurePursuitPublishedParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Parameters, by default the published ones."""

    sample_hz: NonNegative = 400.0
    """Sample rate of the trace, Hz; 0 uses the control rate."""
    reached_m: NonNegative = 0.0
    """Half the side of the square in which a waypoint counts as reached; 0.5 in the study. Samples
    count from beyond it."""
    reference_wheelbases: Share = 0.5
    """Distance of the pursuing point ahead of the rear axle, in wheelbases. It pursues the line
    that it draws while the rear axle follows the course."""
    first_samples: Samples = 10
    """Points of the path to the first one that is looked at."""
    most_samples: Samples = 200
    """Largest number of points to it."""
    mean_of: Samples = 10
    """Number of points whose bearings are averaged."""
    turn_threshold_rad: NonNegative = radians(2.0)
    """Bearing beyond which no point farther ahead is taken, rad."""
    full_lock_rad: Positive = radians(45.0)
    """Mean bearing that commands full steering, rad."""
    speed: SpeedParams = field(default_factory=lambda: SpeedParams(feed_forward=False))
    """Speed control."""


def mean_bearing(
    params: PurePursuitPublishedParams,
    tracker: PathTracker,
    pose: Preview,
    start_m: float,
    spacing_m: float,
    arm_m: float = 0.0,
) -> tuple[float, int]:
    """Return the mean bearing (rad) of the pursued points, and the look-ahead in samples.

    ``pose`` is that of the rear axle and faces the motion; points ``arm_m`` ahead of it and of the
    course pursue and are pursued.
    """
    c, s = cos(pose.yaw_rad), sin(pose.yaw_rad)
    x, y = pose.x_m + arm_m * c, pose.y_m + arm_m * s

    def polar(sample: int) -> tuple[float, float]:
        place = tracker.point_at(start_m + sample * spacing_m)
        dx = place.x_m + arm_m * cos(place.yaw_rad) - x
        dy = place.y_m + arm_m * sin(place.yaw_rad) - y
        return atan2(c * dy - s * dx, c * dx + s * dy), hypot(dx, dy)

    samples = params.first_samples
    while samples < params.most_samples:
        bearing, distance_m = polar(samples)
        spare_rad = params.turn_threshold_rad - abs(bearing)
        if spare_rad <= 0.0:
            break
        # A step turns the bearing by step / distance at most, so none is missed; the half is for
        # bends of the line of the point.
        samples += max(1, int(0.5 * spare_rad * distance_m / max(spacing_m, 1e-6)))
    samples = min(samples, params.most_samples)
    return sum(polar(samples + k)[0] for k in range(params.mean_of)) / params.mean_of, samples


class PurePursuitPublished(PathFollower):
    """Path follower with the published pure pursuit.

    It commands fractions of full steering, so other vehicle parameters change only the wheel angle
    attributed to a command.
    """

    Params: ClassVar[type[PurePursuitPublishedParams]] = PurePursuitPublishedParams
    predicts: ClassVar[bool] = False

    def __init__(
        self,
        params: PurePursuitPublishedParams,
        vehicle: Vehicle,
        limits: Limits,
        course: Course,
        period_s: float,
    ) -> None:
        self._params = params
        self._sample_s = 1.0 / params.sample_hz if params.sample_hz else period_s
        super().__init__(params.speed, vehicle, limits, course, period_s)

    def steer(self, state: FollowerState) -> SteeringDemand:
        here = state.here
        pose = state.ahead if here.direction > 0 else state.ahead.turned(pi)
        start_m = here.s_m + here.direction * self._params.reached_m
        # In reverse a point behind the axle that leads would take the damping away.
        arm_m = (
            self._params.reference_wheelbases * self.vehicle.wheelbase_m
            if here.direction > 0
            else 0.0
        )
        bearing, _ = mean_bearing(
            self._params, self.tracker, pose, start_m, abs(here.speed_mps) * self._sample_s, arm_m
        )
        steering = min(max(here.direction * bearing / self._params.full_lock_rad, -1.0), 1.0)
        return SteeringDemand(self.vehicle.steering.wheel_angle_rad(steering))
