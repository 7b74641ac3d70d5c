"""Where the vehicle would come to rest if it were stopped now, and the speed from which it still stops in time.

A stop begins after the reaction time: the daemon's own p99.9 response, the age of what the estimate rests on, the delay of the
drive. It then takes v^2 / 2a with the deceleration that is certain: half the brake, or coasting where there is none.
"""

from math import cos, inf, isfinite, sin, sqrt
from typing import TYPE_CHECKING

from vehicled.paths.course import Course
from vehicled.safety.fence import Fence
from vehicled.safety.monitors.lane import Body
from vehicled.vehicle import Limits, Vehicle

if TYPE_CHECKING:
    from vehicled.safety.inputs import SafetyInputs

STOP_SHARE = 0.5
"""Share of the brake that a controlled stop uses; see the gate."""
CURVATURE_AHEAD_M = 3.0
"""How far ahead of the vehicle the sharpest bend is looked for."""
MIN_REACTION_S = 0.05
STEPS = 4


class StoppingMonitor:
    """Stop distance, what it would leave, and the speed cap that follows from the corridor."""

    def __init__(self, limits: Limits, vehicle: Vehicle, course: Course | None, fence: Fence | None) -> None:
        self._limits = limits
        self._fence = fence
        self._body = Body(vehicle, 0.0)
        self.adapt(vehicle)
        self.reaction_s = MIN_REACTION_S + self._delay_s
        """From an event to the first braking, at p99.9."""
        self.distance_m = 0.0
        """Way that a stop would take now."""
        self.leaves = ""
        """What would be left before the vehicle stands, in words; empty when nothing."""
        self.outside = ""
        """What the vehicle is on the wrong side of already."""
        self.cap_mps = inf
        """Speed from which a stop, begun blind, ends within the corridor."""
        self._sharpest: list[float] = []
        self._spacing_m = 1.0
        if course is not None:
            self._learn(course)

    def adapt(self, vehicle: Vehicle) -> None:
        """Reckon with what is believed of the vehicle now."""
        drive = vehicle.drive
        at_hand = STOP_SHARE * drive.brake_deceleration_mps2 - drive.acceleration_mps2(0.0, 0.0)
        self._deceleration_mps2 = max(at_hand, 0.05)
        self._delay_s = drive.delay_s

    def _learn(self, course: Course) -> None:
        """Largest curvature within the next metres, by sample."""
        curvature = [abs(float(c)) for c in course.curvature_per_m]
        count = len(curvature)
        self._spacing_m = course.length_m / count
        reach = max(1, round(CURVATURE_AHEAD_M / self._spacing_m))
        if course.closed:
            curvature += curvature[:reach]
        self._sharpest = [max(curvature[k : k + reach]) for k in range(count)]

    def measured(self, response_s: float, age_s: float) -> None:
        """The daemon's own p99.9 response and the age of what commands rest on, as measured while it runs."""
        self.reaction_s = max(MIN_REACTION_S, response_s + age_s) + self._delay_s

    def way_m(self, speed_mps: float) -> float:
        """Way from an event to the standstill, from a speed >= 0."""
        return speed_mps * self.reaction_s + speed_mps * speed_mps / (2.0 * self._deceleration_mps2)

    def speed_mps(self, way_m: float, share: float = 1.0) -> float:
        """Speed from which a stop ends within a way >= 0, with a share of the deceleration that is certain."""
        deceleration = share * self._deceleration_mps2
        lag_m = deceleration * self.reaction_s
        return sqrt(lag_m * lag_m + 2.0 * deceleration * way_m) - lag_m

    def update(self, s: "SafetyInputs") -> None:
        """Predict the stop from the newest estimate."""
        estimate, control, alignment = s.estimate, s.control, s.watch.alignment
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
            # Going on straight while the path bends away by k leaves it by k d^2 / 2 after the way d.
            way_m = sqrt(2.0 * room_m / max(self._sharpest[index], 1e-3))
            self.cap_mps = max(self.speed_mps(way_m), self._limits.capped_speed_mps)

    def room_around(self, antenna_m: tuple[float, float] | None, radius_m: float) -> str:
        """Why a circle round the GNSS antenna does not lie inside the fence, in words; empty when it does."""
        if self._fence is None:
            return ""
        if antenna_m is None:
            return "the fence is known and the position is not"
        if wrong := self._fence.violated(*antenna_m):
            return f"the vehicle is {wrong}"
        clear_m = self._fence.clear_m(*antenna_m)
        return "" if clear_m > radius_m else f"the fence is {clear_m:.1f} m away, and {radius_m:.1f} m are needed either way"

    def _look_round(self, antenna_m: tuple[float, float] | None, reach_m: float) -> None:
        """Without a heading the vehicle may point anywhere: the stop must end inside the fence in any direction."""
        self.outside = "" if self._fence is None or antenna_m is None else self._fence.violated(*antenna_m)
        near = bool(self.room_around(antenna_m, self.distance_m + reach_m))
        self.leaves = "beyond the fence if it points that way" if near else ""

    @property
    def body_m(self) -> float:
        """Distance of the farthest corner of the vehicle from its rear axle."""
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
            # Whoever is outside already may drive back in.
            if wrong and deeper_m > depth_m:
                self.leaves = wrong
                return

    def _beyond(self, x_m: float, y_m: float, yaw_rad: float, ahead_m: float) -> tuple[str, float]:
        """What the end of the vehicle that leads, its middle and its corners, is on the wrong side of, and how far."""
        assert self._fence is not None
        c, s = cos(yaw_rad), sin(yaw_rad)
        wrong, depth_m = "", 0.0
        for left_m in (0.0, self._body.half_m, -self._body.half_m):
            corner = x_m + ahead_m * c - left_m * s, y_m + ahead_m * s + left_m * c
            if found := self._fence.violated(*corner):
                wrong, depth_m = found, max(depth_m, self._fence.depth_m(*corner))
        return wrong, depth_m
