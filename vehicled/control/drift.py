"""By how much a vehicle moves beside where it points: a heading that is read a little wrong, a road that falls to one side.

A law that steers by a heading stands beside the line by the error of that heading times its look-ahead, for as long as it drives:
half a degree is ten centimetres at 15 m/s. The positions tell it: who points along the line and leaves it moves elsewhere.
"""

from math import cos, hypot, isfinite, remainder, sin, tau

MAX_STEP_M = 5.0
"""A longer step is a jump of the estimate."""


class Drift:
    """Mean angle from the direction believed to that of the positions, over the way of the last seconds.

    Forgets exponentially, and holds on to 0 with the weight of ``PRIOR_S`` of the way, so that a few noisy positions
    count little.
    """

    MEMORY_S = 4.0
    PRIOR_S = 1.0
    MOST_RAD = 0.1
    SUDDEN_S = 0.3
    """Who moves aside by more than twice the bound over this time is an estimate that is corrected, or noise at a crawl."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """It moves where it points."""
        self._left_m = self._way_m = self._prior_m = self._lately_left_m = self._lately_way_m = 0.0
        self._last: tuple[int, float, float, float] | None = None

    def observe(self, t_ns: int, x_m: float, y_m: float, motion_yaw_rad: float, speed_mps: float) -> None:
        """Pose at a time; the yaw is that in which it is believed to move, forward. All finite; older times are ignored."""
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
        left_m, way_m = sign * (cos(yaw) * dy - sin(yaw) * dx), abs(speed_mps) * dt_s
        lately = max(0.0, 1.0 - dt_s / self.SUDDEN_S)
        self._lately_left_m = lately * self._lately_left_m + left_m
        self._lately_way_m = lately * self._lately_way_m + way_m
        if abs(self._lately_left_m) > 2.0 * self.MOST_RAD * self._lately_way_m:
            return
        self._left_m = keep * self._left_m + left_m
        self._way_m = keep * self._way_m + way_m
        self._prior_m = self.PRIOR_S * max(abs(speed_mps), 0.1)

    @property
    def angle_rad(self) -> float:
        """The drift, within its bounds; positive when the vehicle moves to the left of where it points."""
        way = self._way_m + self._prior_m
        if not way > 0.0 or not isfinite(self._left_m):
            return 0.0
        return min(max(self._left_m / way, -self.MOST_RAD), self.MOST_RAD)
