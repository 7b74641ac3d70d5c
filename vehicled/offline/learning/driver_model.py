"""Model of a person who drives by keyboard: aims at a point ahead, a reaction time late, with
noise, by strokes of a key.

The person looks at the point of the course that the vehicle reaches in ``preview_s``, and wants the
wheel angle of the arc to it (the single preview point of MacAdam 1981). What is seen is
``reaction_s`` old; the aim wanders by first-order noise (the remnant of McRuer 1967). A key changes
the command by one stroke, at most one every ``stroke_s``, and no key is pressed for less than a
stroke. The person knows about which throttle a speed takes, and corrects it by strokes, too, where
the speed is off by more than ``speed_tolerance_mps``. Strokes of .05 and their range are those of
the published data of a person (2023); reaction time, noise and preview are assumed. The person
knows the delay of the vehicle, as people learn it in minutes.
"""

from collections import deque
from math import atan, copysign, sqrt
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta, Struct, field

from vehicled.control.corners import arc_to
from vehicled.control.path_follower import FollowerState, PathFollower, SteeringDemand
from vehicled.control.preview import Preview
from vehicled.control.speed import SpeedParams
from vehicled.core.vehicle import Limits, NonNegative, Positive, Vehicle
from vehicled.paths.course import Course

SHRINKING_MPS = 0.02
"""Change of the speed error between two looks from which it is seen to shrink."""


class DriverModelParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The person."""

    preview_s: Positive = 1.5
    """Time ahead of the point that the person aims at, s."""
    preview_min_m: Positive = 1.2
    """Least distance of that point, m."""
    reaction_s: NonNegative = 0.2
    """Age of what the person sees, s."""
    noise_rad: NonNegative = 0.015
    """Standard deviation of the wanted wheel angle's noise."""
    noise_s: Positive = 0.5
    """Correlation time of the noise."""
    steering_stroke: Positive = 0.05
    """Change of the steering by one stroke, as a fraction of full lock."""
    throttle_stroke: Positive = 0.05
    """Change of the throttle by one stroke, of 1."""
    stroke_s: Positive = 0.05
    """Least time between two strokes of the steering."""
    throttle_stroke_s: Positive = 0.2
    """Time between two looks at the speed, each with a stroke at most."""
    speed_tolerance_mps: NonNegative = 0.1
    """Error of the speed that is not corrected."""
    seed: Annotated[int, Meta(ge=0)] = 1
    """Seed of the noise."""
    speed: SpeedParams = field(default_factory=SpeedParams)
    """Speed profile; the person has no other speed control."""


class DriverModel(PathFollower):
    """See the module."""

    Params: ClassVar[type[DriverModelParams]] = DriverModelParams

    def __init__(
        self,
        params: DriverModelParams,
        vehicle: Vehicle,
        limits: Limits,
        course: Course,
        period_s: float,
    ) -> None:
        self._p = params
        self._draws = np.random.default_rng(params.seed)
        super().__init__(params.speed, vehicle, limits, course, period_s)
        self._begin()

    def reset(self, s_m: float | None = None, wheel_rad: float = 0.0) -> None:
        super().reset(s_m, wheel_rad)
        self._begin()

    def _begin(self) -> None:
        self._seen: deque[tuple[float, float, float, float]] = deque()
        """Time, wanted steering, speed error and usual throttle of what is not perceived yet."""
        self._t_s = self._next_steering_s = self._next_throttle_s = 0.0
        self._noise_rad = self._steering = self._more = self._slow_mps = 0.0

    def steer(self, state: FollowerState) -> SteeringDemand:
        p, steering = self._p, self.vehicle.steering
        self._t_s += state.dt_s
        kept = max(1.0 - state.dt_s / p.noise_s, 0.0)
        self._noise_rad = kept * self._noise_rad + sqrt(1.0 - kept * kept) * p.noise_rad * float(
            self._draws.standard_normal()
        )
        target_mps = self.target(state.here.s_m).speed_mps
        aimed = steering.command(self._aim(state.ahead) + self._noise_rad)
        error_mps = state.here.direction * (target_mps - state.ahead.speed_mps)
        self._seen.append(
            (self._t_s, aimed, error_mps, self.vehicle.drive.steady_throttle(abs(target_mps)))
        )
        while len(self._seen) > 1 and self._seen[1][0] <= self._t_s - p.reaction_s:
            self._seen.popleft()
        _, wanted, slow_mps, usual = self._seen[0]
        if self._t_s >= self._next_steering_s and abs(wanted - self._steering) >= p.steering_stroke:
            self._steering = _stroke(
                self._steering, wanted - self._steering, p.steering_stroke, -1.0
            )
            self._next_steering_s = self._t_s + p.stroke_s
        if self._t_s >= self._next_throttle_s:
            # Nobody presses a key while the error goes away by itself.
            shrinks = abs(slow_mps) < abs(self._slow_mps) - SHRINKING_MPS
            if abs(slow_mps) > p.speed_tolerance_mps and not shrinks:
                self._more = _stroke(self._more, slow_mps, p.throttle_stroke, -1.0)
            self._slow_mps, self._next_throttle_s = slow_mps, self._t_s + p.throttle_stroke_s
        throttle = p.throttle_stroke * round(usual / p.throttle_stroke) + self._more
        return SteeringDemand(
            steering.wheel_angle_rad(self._steering), throttle=min(max(throttle, 0.0), 1.0)
        )

    def _aim(self, ahead: Preview) -> float:
        """Return the wheel angle of the arc to the point that the person looks at."""
        here = self.tracker.locate(ahead.x_m, ahead.y_m, ahead.yaw_rad)
        distance_m = max(self._p.preview_s * abs(ahead.speed_mps), self._p.preview_min_m)
        there = self.tracker.point_at(here.s_m + distance_m)
        curvature, _ = arc_to(ahead, there.x_m, there.y_m)
        return atan(self.vehicle.effective_wheelbase_m(ahead.speed_mps) * curvature)


def _stroke(value: float, error: float, size: float, least: float) -> float:
    """Return the value after one stroke towards less error, within its range."""
    return min(max(value + copysign(size, error), least), 1.0)
