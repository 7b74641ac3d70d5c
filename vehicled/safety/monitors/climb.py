"""Monitor that separates a slope from an IMU that is not mounted as the profile says: the heights
of the fixes show the slope.

The force along the vehicle does the work of lifting and accelerating it. What is left over a way of
some metres is gravity along an axis that is not the vehicle's.
"""

from collections import deque
from math import asin, cos, hypot, inf, isfinite, nan, sin

from vehicled.core.clamp import clamp
from vehicled.core.messages import FixType, GnssFix
from vehicled.core.messages.units import STANDARD_GRAVITY_MPS2
from vehicled.safety.inputs import SafetyInputs
from vehicled.safety.monitors.inertial import InertialMonitor, Mounting, rotation_to_write

LEAST_M, LEAST_S = 5.0, 2.0
"""Shortest way that is judged, m, and the same as a time at the present speed, s."""
MOST_M = 100.0
SPACING_M = 0.25
"""Distance between the fixes that are compared, m."""
FIXES = 5
"""Number of consecutive ones that must show it."""
TILTED_RAD = 0.2
"""Angle that springs, lever arms and the model of the motion explain, rad."""
SIGMAS = 6.0
SPEED_DOUBT_MPS = 0.5
GAP_NS = 200_000_000
"""Gap between ticks after which the way begins anew, ns."""


class ClimbMonitor:
    """Work of the measured force along the way, against the heights of the fixes."""

    def __init__(self, mounting: Mounting, inertial: InertialMonitor) -> None:
        self._mounting, self._inertial = mounting, inertial
        self.tilted_rad = 0.0
        """Pitch of the IMU against the vehicle at the newest fix, rad, nose up; 0 before the way is
        long enough."""
        self.tilted_in_a_row = 0
        self._way_m = self._work_m2ps2 = self._speed_mps = 0.0
        self._force_mps2 = nan
        """Newest force along the vehicle; an IMU may be slower than the ticks."""
        self._updated_ns: int | None = None
        self._heights: deque[tuple[float, float, float]] = deque(maxlen=round(MOST_M / SPACING_M))
        """Way, height that the work explains minus that of the fix, and its standard deviation,
        m."""

    @property
    def remedy(self) -> str:
        """Text with the lines of the profile that would turn the IMU level."""
        return rotation_to_write(self._mounting, (sin(self.tilted_rad), 0.0, cos(self.tilted_rad)))

    def update(self, s: SafetyInputs) -> None:
        """Add the work since the last tick."""
        dt_ns = inf if self._updated_ns is None else s.now_ns - self._updated_ns
        self._updated_ns = s.now_ns
        if isfinite(self._inertial.forward_mps2):
            self._force_mps2 = self._inertial.forward_mps2
        if not isfinite(s.speed_mps + self._force_mps2) or dt_ns > GAP_NS:
            self._heights.clear()
            self.tilted_rad, self.tilted_in_a_row, self._force_mps2 = 0.0, 0, nan
            return
        step_m = s.speed_mps * dt_ns * 1e-9
        self._speed_mps = s.speed_mps
        self._way_m += step_m
        self._work_m2ps2 += self._force_mps2 * step_m

    def on_message(self, fix: GnssFix, now_ns: int) -> None:
        """Compare the height of a fix with the work up to the last tick."""
        variance = fix.position_covariance_m2[8]
        if fix.fix_type < FixType.FIX_3D or not isfinite(fix.height_m) or not 0.0 < variance < inf:
            return
        heights, v = self._heights, self._speed_mps
        if heights and abs(self._way_m - heights[-1][0]) < SPACING_M:
            return
        sigma_m = variance**0.5
        lifted_m = (self._work_m2ps2 - 0.5 * v * v) / STANDARD_GRAVITY_MPS2
        newest = self._way_m, lifted_m - fix.height_m, sigma_m
        heights.append(newest)
        while abs(newest[0] - heights[0][0]) > MOST_M:
            heights.popleft()
        way_m = newest[0] - heights[0][0]
        if abs(way_m) < max(LEAST_M, LEAST_S * abs(v)):
            return
        self.tilted_rad = asin(clamp((newest[1] - heights[0][1]) / way_m, -1.0, 1.0))
        unknown_m = (
            SIGMAS * hypot(sigma_m, heights[0][2])
            + SPEED_DOUBT_MPS * abs(v) / STANDARD_GRAVITY_MPS2
        )
        tilted = abs(self.tilted_rad) > TILTED_RAD + unknown_m / abs(way_m)
        self.tilted_in_a_row = self.tilted_in_a_row + 1 if tilted else 0
