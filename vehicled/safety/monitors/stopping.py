"""Monitor of the stopping distance, of the fence at its end, and of the speed from which the vehicle still stops in time.

A stop begins after the reaction time: the daemon's own p99.9 response, the age of the estimate's measurements, the delay of the
drive. It then takes v^2 / 2a with the certain deceleration: half the brake, or coasting if there is no brake.
"""

from array import array
from math import cos, inf, isfinite, sin, sqrt

import numpy as np

from vehicled.paths.course import Course
from vehicled.safety.fence import Fence
from vehicled.safety.inputs import SafetyInputs
from vehicled.safety.monitors.alignment import AlignmentMonitor
from vehicled.safety.monitors.lane import Body
from vehicled.vehicle import Limits, Vehicle

STOP_SHARE = 0.5
"""Brake command of a controlled stop, 0..1; equals ``CONTROLLED_STOP_BRAKE`` of the gate."""
CURVATURE_AHEAD_M = 3.0
"""Distance ahead of the vehicle in which the largest curvature counts, m."""
MIN_REACTION_S = 0.05
STEPS = 4


class StoppingMonitor:
    """Monitor of the stopping distance, of the fence that a stop would leave, and of the speed cap from the corridor."""

    def __init__(
        self, limits: Limits, vehicle: Vehicle, course: Course | None, fence: Fence | None, alignment: AlignmentMonitor
    ) -> None:
        self._limits = limits
        self._fence = fence
        self._alignment = alignment
        self._body = Body(vehicle, 0.0)
        self.adapt(vehicle)
        self.reaction_s = MIN_REACTION_S + vehicle.drive.delay_s
        """Time from an event to the first braking, s, at p99.9."""
        self.distance_m = 0.0
        """Stopping distance from the present speed, m."""
        self.leaves = ""
        """Text that names the fence that a stop would leave; empty if none."""
        self.outside = ""
        """Text that names the fence whose wrong side the vehicle is on; empty if none."""
        self.cap_mps = inf
        """Speed from which a stop with straight wheels ends within the corridor, m/s."""
        self._sharpest = array("d")
        self._spacing_m = 1.0
        if course is not None:
            self.follow(course)

    def adapt(self, vehicle: Vehicle) -> None:
        """Replace the vehicle parameters, which may have been identified while driving."""
        drive = vehicle.drive
        at_hand = STOP_SHARE * drive.brake_deceleration_mps2 - drive.acceleration_mps2(0.0, 0.0)
        self._deceleration_mps2 = max(at_hand, 0.05)
        self._delay_s = drive.delay_s

    def follow(self, course: Course) -> None:
        """Use a course: store the largest curvature within ``CURVATURE_AHEAD_M`` of each sample of the course."""
        curvature = np.abs(course.curvature_per_m)
        count = len(curvature)
        self._spacing_m = course.length_m / count
        reach = max(1, round(CURVATURE_AHEAD_M / self._spacing_m))
        beyond = np.resize(curvature, reach) if course.closed else np.zeros(reach)
        sharpest, covered = np.concatenate((curvature, beyond)), 1
        while covered < reach:
            # Maxima over a window by doubling its length.
            step = min(covered, reach - covered)
            sharpest = np.maximum(sharpest[:-step], sharpest[step:])
            covered += step
        self._sharpest = array("d", sharpest[:count].tobytes())

    def measured(self, response_s: float, age_s: float) -> None:
        """Set the reaction time from the daemon's measured p99.9 response and the age of the measurements behind its commands."""
        self.reaction_s = max(MIN_REACTION_S, response_s + age_s) + self._delay_s

    def way_m(self, speed_mps: float) -> float:
        """Return the distance from an event to standstill, from a speed >= 0."""
        return speed_mps * self.reaction_s + speed_mps * speed_mps / (2.0 * self._deceleration_mps2)

    def speed_mps(self, way_m: float, share: float = 1.0) -> float:
        """Return the speed from which a stop ends within a distance >= 0, at a fraction ``share`` of the certain deceleration."""
        deceleration = share * self._deceleration_mps2
        lag_m = deceleration * self.reaction_s
        return sqrt(lag_m * lag_m + 2.0 * deceleration * way_m) - lag_m

    def update(self, s: SafetyInputs) -> None:
        """Predict the stop from the newest estimate."""
        estimate, control, alignment = s.estimate, s.control, self._alignment
        if alignment.active or alignment.without_heading:
            if isfinite(s.speed_mps):
                self.distance_m = self.way_m(abs(s.speed_mps))
            self._look_round(alignment.antenna_m, alignment.reach_m(self._body.reach_m))
            return
        if estimate is None or not isfinite(estimate.x_m + estimate.y_m + estimate.yaw_rad + estimate.speed_mps):
            self.leaves = self.outside = ""
            return
        self.distance_m = self.way_m(abs(estimate.speed_mps))
        if self._fence is not None:
            self._look_at_fence(estimate.x_m, estimate.y_m, estimate.yaw_rad, estimate.speed_mps, estimate.yaw_rate_radps)
        if control is not None and isfinite(control.progress_m) and self._sharpest:
            index = int(control.progress_m / self._spacing_m) % len(self._sharpest)
            room_m = max(self._limits.corridor_m - abs(control.cross_track_m), 0.1)
            # On a straight line beside a path of curvature k the cross-track error is k d^2 / 2 after the distance d.
            way_m = sqrt(2.0 * room_m / max(self._sharpest[index], 1e-3))
            self.cap_mps = max(self.speed_mps(way_m), self._limits.capped_speed_mps)

    def room_around(self, antenna_m: tuple[float, float] | None, radius_m: float) -> str:
        """Return why a circle round the GNSS antenna does not lie inside the fence; empty if it does."""
        if self._fence is None:
            return ""
        if antenna_m is None:
            return "the fence is known and the position is not"
        if wrong := self._fence.violated(*antenna_m):
            return f"the vehicle is {wrong}"
        clear_m = self._fence.clear_m(*antenna_m)
        return "" if clear_m > radius_m else f"the fence is {clear_m:.1f} m away, and {radius_m:.1f} m are needed either way"

    def _look_round(self, antenna_m: tuple[float, float] | None, reach_m: float) -> None:
        """Check the fence for a vehicle of unknown heading: the stop must end inside it in every direction."""
        self.outside = "" if self._fence is None or antenna_m is None else self._fence.violated(*antenna_m)
        near = bool(self.room_around(antenna_m, self.distance_m + reach_m))
        self.leaves = "beyond the fence if it points that way" if near else ""

    @property
    def body_m(self) -> float:
        """Distance of the vehicle's farthest corner from the rear axle, m."""
        return self._body.reach_m

    def _look_at_fence(self, x_m: float, y_m: float, yaw_rad: float, speed_mps: float, yaw_rate_radps: float) -> None:
        assert self._fence is not None
        self.outside = self._fence.violated(x_m, y_m)
        self.leaves = ""
        if not self.outside and self._fence.clear_m(x_m, y_m) > self.distance_m + self._body.reach_m:
            return
        forward = 1.0 if speed_mps >= 0.0 else -1.0
        ahead_m = self._body.front_m if speed_mps >= 0.0 else -self._body.rear_m
        bend = yaw_rate_radps / speed_mps if abs(speed_mps) > 0.1 and isfinite(yaw_rate_radps) else 0.0
        step_m = forward * self.distance_m / STEPS
        _, depth_m = self._beyond(x_m, y_m, yaw_rad, ahead_m)
        for _ in range(STEPS):
            yaw_rad += 0.5 * bend * step_m
            x_m += step_m * cos(yaw_rad)
            y_m += step_m * sin(yaw_rad)
            yaw_rad += 0.5 * bend * step_m
            wrong, deeper_m = self._beyond(x_m, y_m, yaw_rad, ahead_m)
            # A vehicle that is already outside may drive back in, so only a deeper violation counts.
            if wrong and deeper_m > depth_m:
                self.leaves = wrong
                return

    def _beyond(self, x_m: float, y_m: float, yaw_rad: float, ahead_m: float) -> tuple[str, float]:
        """Return the fence that the leading end of the vehicle violates, with its middle or a corner, and the largest depth."""
        assert self._fence is not None
        c, s = cos(yaw_rad), sin(yaw_rad)
        wrong, depth_m = "", 0.0
        for left_m in (0.0, self._body.half_m, -self._body.half_m):
            corner = x_m + ahead_m * c - left_m * s, y_m + ahead_m * s + left_m * c
            if found := self._fence.violated(*corner):
                wrong, depth_m = found, max(depth_m, self._fence.depth_m(*corner))
        return wrong, depth_m
