"""Drift angle between heading and motion, from a heading error or a cross slope.

A steering law that relies on heading keeps a cross-track error of heading error times look-ahead:
half a degree is ten centimetres at 15 m/s. The positions show the true direction of motion.
"""

from math import cos, hypot, isfinite, remainder, sin, tau

from vehicled.core.clamp import clamp

MAX_STEP_M = 5.0
"""Largest step between two positions; a longer one is a jump of the estimate."""


class DriftAngle:
    """Mean angle from the assumed direction of motion to that of the positions, over the last
    seconds.

    Exponential forgetting, with a prior of 0 worth ``PRIOR_S`` of driving, so that a few noisy
    positions have little effect.
    """

    MEMORY_S = 4.0
    PRIOR_S = 1.0
    LIMIT_RAD = 0.1
    SUDDEN_S = 0.3
    """Sideways motion beyond twice the limit over this time is a correction of the estimate, or
    noise at low speed."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Assume no drift."""
        self._left_m = self._distance_m = self._prior_m = self._recent_left_m = (
            self._recent_distance_m
        ) = 0.0
        self._last: tuple[int, float, float, float] | None = None

    def observe(
        self, t_ns: int, x_m: float, y_m: float, motion_yaw_rad: float, speed_mps: float
    ) -> None:
        """Add a finite pose with the assumed direction of forward motion. Older times are
        ignored."""
        last = self._last
        if last is not None and t_ns <= last[0]:
            return
        self._last = (t_ns, x_m, y_m, motion_yaw_rad)
        if last is None:
            return
        dx, dy = x_m - last[1], y_m - last[2]
        if not hypot(dx, dy) <= MAX_STEP_M:
            return
        dt_s = (t_ns - last[0]) * 1e-9
        yaw = last[3] + 0.5 * remainder(motion_yaw_rad - last[3], tau)
        keep = max(0.0, 1.0 - dt_s / self.MEMORY_S)
        sign = 1.0 if speed_mps >= 0.0 else -1.0
        left_m, distance_m = sign * (cos(yaw) * dy - sin(yaw) * dx), abs(speed_mps) * dt_s
        recent = max(0.0, 1.0 - dt_s / self.SUDDEN_S)
        self._recent_left_m = recent * self._recent_left_m + left_m
        self._recent_distance_m = recent * self._recent_distance_m + distance_m
        if abs(self._recent_left_m) > 2.0 * self.LIMIT_RAD * self._recent_distance_m:
            return
        self._left_m = keep * self._left_m + left_m
        self._distance_m = keep * self._distance_m + distance_m
        self._prior_m = self.PRIOR_S * max(abs(speed_mps), 0.1)

    @property
    def angle_rad(self) -> float:
        """Drift angle within its limits, positive if the vehicle moves to the left of its
        heading."""
        distance_m = self._distance_m + self._prior_m
        if not distance_m > 0.0 or not isfinite(self._left_m):
            return 0.0
        return clamp(self._left_m / distance_m, -self.LIMIT_RAD, self.LIMIT_RAD)
