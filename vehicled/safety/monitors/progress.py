"""Monitor of the progress of a drive: whether a vehicle that is asked to go on does so, and whether
it rolls back instead."""

from math import copysign, cos, isfinite, nan, sin, tau

from vehicled.core.clamp import clamp
from vehicled.core.messages import Mode
from vehicled.core.vehicle import STANDSTILL_MPS, Vehicle
from vehicled.paths.course import Course
from vehicled.safety.inputs import SafetyInputs
from vehicled.safety.modes import DRIVING, MOVING
from vehicled.safety.monitors.place import PlaceMonitor
from vehicled.safety.monitors.speed import SIGMAS, SpeedMonitor

PROGRESS_RATIO = 0.2
"""Fraction of the distance asked for that counts as progress."""
FORGET_NS = 30 * 10**9
"""Time constant with which a distance rolled at standstill is forgotten, ns; noise would add up."""
LEAST_M, MOST_M = 0.05, 0.5
"""Bounds of the distance that counts as progress, m: noise is smaller, and a fast vehicle need not
go far to show that it goes."""


class ProgressMonitor:
    """Monitor of the distance travelled in the direction of the drive, by GNSS, wheels or else the
    estimate."""

    def __init__(self, vehicle: Vehicle, speed: SpeedMonitor, place: PlaceMonitor) -> None:
        self._speed, self._place = speed, place
        self._moving_throttle = vehicle.drive.steady_throttle(0.0)
        self._before_ns: int | None = None
        self.standing_ns = 0
        """Time since the last progress of a vehicle that is asked to go on, ns; 0 while it is
        not."""
        self._travelled_m = self._asked_m = 0.0
        self._course: Course | None = None
        self._from_m = nan
        """Arc length of the course at the last gain, m; NaN while it is unknown."""
        self._wandered_m = 0.0
        """Distance driven since then, m."""
        self._turn_m = max(tau * vehicle.min_turn_radius_m, 2.0 * MOST_M)
        self.rolled_back_m = 0.0
        """Distance rolled back from the farthest point of the present direction, m, >= 0."""
        self._direction = 0.0
        """Sign of the last throttle; 0 before the first of a drive."""
        self.rolled_m = 0.0
        """Distance rolled within the last half minute while nothing drives, m, negative
        backward."""

    def reset(self) -> None:
        """Begin a drive."""
        self._count_anew()
        self._from_m, self._wandered_m = nan, 0.0
        self.rolled_back_m = self._direction = 0.0

    def update(self, s: SafetyInputs) -> None:
        """Add the distance of the last tick."""
        dt_ns = 0 if self._before_ns is None else s.now_ns - self._before_ns
        self._before_ns = s.now_ns
        if s.sent is None or dt_ns <= 0:
            return
        forward_mps = self._forward_mps(s)
        way_m = forward_mps * dt_ns * 1e-9 if isfinite(forward_mps) else 0.0
        self.rolled_m = (
            0.0 if s.mode in MOVING else self.rolled_m * (1.0 - dt_ns / FORGET_NS) + way_m
        )
        throttle = s.sent.throttle
        if throttle != 0.0 and throttle * self._direction <= 0.0:
            self._direction, self.rolled_back_m = copysign(1.0, throttle), 0.0
        step_m = self._direction * way_m
        # The brake against rolling back does not end it; releasing the throttle in teleop, or a
        # halt that is asked for, does.
        released = throttle == 0.0 and s.sent.brake == 0.0 and s.mode is Mode.TELEOP
        drives = s.mode in DRIVING and s.asked_mps != 0.0 and not released
        self.rolled_back_m = max(self.rolled_back_m - step_m, 0.0) if drives else 0.0
        if not self._goes_on(s):
            self._count_anew()
            self._from_m, self._wandered_m = nan, 0.0
            return
        self._travelled_m += step_m
        self._asked_m += s.asked_mps * dt_ns * 1e-9 if isfinite(s.asked_mps) else 0.0
        self.standing_ns += dt_ns
        self._follow_course(s, abs(way_m))
        least_m = clamp(PROGRESS_RATIO * self._asked_m, LEAST_M, MOST_M)
        if self._travelled_m >= least_m and self._wandered_m <= self._turn_m:
            self._count_anew()

    def _count_anew(self) -> None:
        self.standing_ns, self._travelled_m, self._asked_m = 0, 0.0, 0.0

    def _follow_course(self, s: SafetyInputs, way_m: float) -> None:
        """Add up the distance driven since the vehicle last gained some along its course.

        A vehicle that drives to and fro, or in circles, travels and gains nothing; one that turns
        round gains nothing for a circle at most.
        """
        place = self._place
        s_m = place.signed_s_m(s.estimate) if s.mode is Mode.AUTO else nan
        if place.course is self._course and s_m - self._from_m < MOST_M:
            self._wandered_m += way_m
        else:
            # NaN where no course is followed, or the place is unknown.
            self._course, self._from_m, self._wandered_m = place.course, s_m, 0.0

    def _goes_on(self, s: SafetyInputs) -> bool:
        """Return True if the vehicle is asked to go on.

        Along a course it is, whatever the controller says of itself, unless the course waits or the
        speed is capped to a halt. Every other drive states its speed, or its throttle.
        """
        if s.mode is Mode.AUTO and self._place.course is not None:
            return not s.waiting and s.cap_mps > STANDSTILL_MPS
        if s.mode not in DRIVING or s.sent is None:
            return False
        if isfinite(s.asked_mps):
            return s.asked_mps > 0.0
        return abs(s.sent.throttle) > self._moving_throttle and s.sent.brake == 0.0

    def _forward_mps(self, s: SafetyInputs) -> float:
        """Return the speed along the vehicle, m/s, negative backward: signed, so that noise cancels
        out; NaN without one."""
        if s.mode is Mode.ALIGN:
            # The heading is not known yet.
            return s.measured_speed_mps
        ground, wheel_mps, estimate = (
            self._speed.ground(s.now_ns),
            self._speed.fresh_wheel_mps(s.now_ns),
            s.estimate,
        )
        yaw_rad = estimate.yaw_rad if estimate is not None else float("nan")
        noisy = ground is not None and 2.0 * SIGMAS * ground.sigma_mps > s.asked_mps
        if ground is not None and isfinite(yaw_rad) and not (isfinite(wheel_mps) and noisy):
            east, north = self._speed.ground_enu_mps
            return east * cos(yaw_rad) + north * sin(yaw_rad)
        return wheel_mps if isfinite(wheel_mps) else s.speed_mps
