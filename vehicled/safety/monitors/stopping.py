"""Monitor of the stopping distance, of the fence at its end, and of the speed from which the
vehicle still stops in time.

A stop begins after the reaction time: the daemon's own p99.9 response, the age of the estimate's
measurements, the delay of the drive. It then takes v^2 / 2a with the certain deceleration: half the
brake, or coasting if there is no brake.
"""

from array import array
from math import copysign, hypot, inf, isfinite, nan, sqrt

import numpy as np

from vehicled.core.vehicle import Limits, Vehicle
from vehicled.paths.arc import on_arc
from vehicled.paths.course import Course
from vehicled.safety.fence import Fence, Flags, swept_on_arc
from vehicled.safety.inputs import SafetyInputs
from vehicled.safety.monitors.alignment import AlignmentMonitor
from vehicled.safety.monitors.lane import LaneBody
from vehicled.safety.monitors.place import PlaceMonitor

STOP_SHARE = 0.5
"""Brake command of a controlled stop, 0..1; equals ``CONTROLLED_STOP_BRAKE`` of the gate."""
CURVATURE_AHEAD_M = 3.0
"""Distance ahead of the vehicle in which the largest curvature counts, m."""
MIN_REACTION_S = 0.05
STEPS = 4
FARTHEST_M = 1e4
"""Longest stop whose way is computed, m."""
DEEPER_M = 0.02
"""Depth of a violation that a vehicle which drives back in may add, m: its corners swing when it
turns."""


class StoppingMonitor:
    """Monitor of the stopping distance, of the fence that a stop would leave, and of the speed cap
    from the corridor."""

    def __init__(
        self,
        limits: Limits,
        vehicle: Vehicle,
        fence: Fence | None,
        alignment: AlignmentMonitor,
        place: PlaceMonitor,
    ) -> None:
        self._limits = limits
        self._fence = fence
        self._alignment, self._place = alignment, place
        self._body = LaneBody(vehicle, 0.0)
        self._known_of: object = None
        """Polygons for which the next three hold: a point, its distance from the nearest edge, and
        its wrong sides."""
        self._known_at, self._known_m = (nan, nan), 0.0
        self._known: Flags = np.zeros(0, dtype=np.bool_)
        self._known_wrong = False
        self._clear_m = 0.0
        """Least distance of the reference point from the nearest edge of the fence."""
        self._profile_mps2 = self._certain_mps2(vehicle, STOP_SHARE)
        self._full_profile_mps2 = self._certain_mps2(vehicle, 1.0)
        self.adapt(vehicle)
        self.reaction_s = MIN_REACTION_S + vehicle.drive.delay_s
        """Time from an event to the first braking, s, at p99.9."""
        self.distance_m = self.emergency_m = 0.0
        """Stopping distances from the present speed, m: of a controlled stop, and with the full
        brake."""
        self.leaves = ""
        """Text that names the fence that a stop would leave; empty if none."""
        self.outside = ""
        """Text that names the fence whose wrong side the vehicle is on; empty if none."""
        self.cap_mps = inf
        """Speed from which a stop with straight wheels ends within the corridor, m/s."""
        self._sharpest = array("d")
        self._spacing_m = 1.0
        if place.course is not None:
            self.follow(place.course)

    def adapt(self, vehicle: Vehicle) -> None:
        """Replace the vehicle parameters, which may have been identified while driving. A stop is
        never expected to be shorter than by the profile: friction that an identifier reports may
        not last."""
        self._deceleration_mps2 = min(self._certain_mps2(vehicle, STOP_SHARE), self._profile_mps2)
        self._full_mps2 = min(self._certain_mps2(vehicle, 1.0), self._full_profile_mps2)
        self._delay_s = vehicle.drive.delay_s

    def _certain_mps2(self, vehicle: Vehicle, brake: float) -> float:
        drive = vehicle.drive
        return max(brake * drive.brake_deceleration_mps2 - drive.acceleration_mps2(0.0, 0.0), 0.05)

    def follow(self, course: Course) -> None:
        """Use a course: store the largest curvature within ``CURVATURE_AHEAD_M`` of each sample of
        the course."""
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
        """Set the reaction time from the daemon's measured p99.9 response and the age of the
        measurements behind its commands."""
        self.reaction_s = max(MIN_REACTION_S, response_s + age_s) + self._delay_s

    def way_m(self, speed_mps: float) -> float:
        """Return the distance from an event to standstill, from a speed >= 0."""
        return speed_mps * self.reaction_s + speed_mps * speed_mps / (2.0 * self._deceleration_mps2)

    def time_s(self, speed_mps: float) -> float:
        """Return the time from an event to standstill, s, from a speed >= 0."""
        return self.reaction_s + speed_mps / self._deceleration_mps2

    def speed_mps(self, way_m: float, share: float = 1.0) -> float:
        """Return the speed from which a stop ends within a distance >= 0, at a fraction ``share``
        of the certain deceleration."""
        deceleration = share * self._deceleration_mps2
        lag_m = deceleration * self.reaction_s
        return sqrt(lag_m * lag_m + 2.0 * deceleration * way_m) - lag_m

    def update(self, s: SafetyInputs) -> None:
        """Predict the stop from the newest estimate."""
        estimate, alignment, place = s.estimate, self._alignment, self._place
        if alignment.active or alignment.without_heading:
            if isfinite(s.speed_mps):
                self.distance_m = self.way_m(abs(s.speed_mps))
            self._look_round(alignment.antenna_m, alignment.reach_m(self._body.reach_m))
            return
        if estimate is None or not isfinite(
            estimate.x_m + estimate.y_m + estimate.yaw_rad + estimate.speed_mps
        ):
            self.leaves = self.outside = ""
            return
        speed_mps = abs(estimate.speed_mps)
        self.distance_m = self.way_m(speed_mps)
        self.emergency_m = speed_mps * (self.reaction_s + speed_mps / (2.0 * self._full_mps2))
        if self._fence is not None:
            pose = estimate.x_m, estimate.y_m, estimate.yaw_rad
            self._look_at_fence(self._fence, pose, estimate.speed_mps, estimate.yaw_rate_radps)
        if place.point is not None and self._sharpest:
            index = int(place.point.s_m / self._spacing_m) % len(self._sharpest)
            room_m = max(self._limits.corridor_m - abs(place.off_m), 0.1)
            # On a straight line beside a path of curvature k the cross-track error is k d^2 / 2
            # after the distance d.
            way_m = sqrt(2.0 * room_m / max(self._sharpest[index], 1e-3))
            self.cap_mps = max(self.speed_mps(way_m), self._limits.capped_speed_mps)

    def room_around(self, antenna_m: tuple[float, float] | None, radius_m: float) -> str:
        """Return why a circle round the GNSS antenna does not lie inside the fence; empty if it
        does."""
        if self._fence is None:
            return ""
        if antenna_m is None:
            return "the fence is known and the position is not"
        if wrong := self._fence.violated(*antenna_m):
            return f"the vehicle is {wrong}"
        clear_m = self._fence.clear_m(*antenna_m)
        return (
            ""
            if clear_m > radius_m
            else f"the fence is {clear_m:.1f} m away, and {radius_m:.1f} m are needed either way"
        )

    def _look_round(self, antenna_m: tuple[float, float] | None, reach_m: float) -> None:
        """Check the fence for a vehicle of unknown heading: the stop must end inside it in every
        direction."""
        self.outside = (
            "" if self._fence is None or antenna_m is None else self._fence.violated(*antenna_m)
        )
        near = bool(self.room_around(antenna_m, self.distance_m + reach_m))
        self.leaves = "beyond the fence if it points that way" if near else ""

    @property
    def body_m(self) -> float:
        """Distance of the vehicle's farthest corner from the rear axle, m."""
        return self._body.reach_m

    def _look_at_fence(
        self,
        fence: Fence,
        pose: tuple[float, float, float],
        speed_mps: float,
        yaw_rate_radps: float,
    ) -> None:
        """Check the body where it is, and all that it sweeps until it stands."""
        outline = self._body.outline
        now = later = self._wrong_side(fence, pose[0], pose[1])
        bend = (
            yaw_rate_radps / speed_mps if abs(speed_mps) > 0.1 and isfinite(yaw_rate_radps) else 0.0
        )
        way_m = copysign(min(self.distance_m, FARTHEST_M), speed_mps)
        if self._clear_m <= self.distance_m + outline.reach_m:
            now, later = fence.breached(swept_on_arc(outline, pose, bend, way_m))
        elif not self._known_wrong:
            self.outside = self.leaves = ""
            return
        self.outside, self.leaves = fence.named(now), fence.named(later & ~now)
        if self.leaves:
            return
        # A vehicle that is already outside may drive back in, so only a deeper violation counts.
        for number in np.flatnonzero(now).tolist():
            depth_m = fence.depth_m(number, outline, *pose) + DEEPER_M
            stops = zip(*on_arc(*pose, bend, np.linspace(way_m / STEPS, way_m, STEPS)), strict=True)
            if any(fence.depth_m(number, outline, *stop) > depth_m for stop in stops):
                self.leaves = fence.named(now)

    def _wrong_side(self, fence: Fence, x_m: float, y_m: float) -> Flags:
        """Return a flag per polygon: the reference point is on its wrong side. Also update the
        distance to the nearest edge: until the vehicle has moved that far, both are known without
        looking at the edges."""
        moved_m = hypot(x_m - self._known_at[0], y_m - self._known_at[1])
        if self._known_of is not fence.polygons or not moved_m < self._known_m:
            self._known_of, self._known_at, self._known_m = (
                fence.polygons,
                (x_m, y_m),
                fence.clear_m(x_m, y_m),
            )
            self._known = fence.wrong_side(x_m, y_m)
            self._known_wrong = bool(self._known.any())
            moved_m = 0.0
        self._clear_m = self._known_m - moved_m
        return self._known
