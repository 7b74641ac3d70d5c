"""Monitor that compares the wheels with the accelerometer while GNSS is silent.

Without fixes an estimate follows the wheels, so it cannot contradict them. A speed that changes and
an acceleration that is not felt can: wheels that begin to spin or slide, a motor whose reported
speed jumps.
"""

from math import isfinite, nan

from vehicled.safety.monitors.inertial import InertialMonitor
from vehicled.safety.monitors.speed import SpeedMonitor

FOLLOWS_S = 0.5
"""Time constant with which the felt speed follows the wheels while both agree, s: slopes and the
bias of the accelerometer change more slowly."""
HOLDS_NS = 1_200_000_000
"""Time for which the accelerometer alone is believed, ns: what a slope adds meanwhile is less than
the difference that counts."""
WHEEL_DOUBT = 0.03
"""Standard deviation of a way by the wheels, as a fraction: their radius, slip, and what no
estimate shows of both."""


class FeltSpeed:
    """Speed that the accelerometer makes of the last wheel speed that it agreed with."""

    def __init__(self, speed: SpeedMonitor, inertial: InertialMonitor, agrees_mps: float) -> None:
        """``agrees_mps``: difference within which wheels and accelerometer agree."""
        self._speed, self._inertial, self._agrees_mps = speed, inertial, agrees_mps
        self.mps = nan
        """Felt speed, m/s, negative backward; NaN without wheels or accelerometer, and while GNSS
        measures the speed."""
        self.unplaced_m = 0.0
        """Way by the wheels since the last fix of a receiver that had fixes, m."""
        self._bias_mps2 = 0.0
        self._apart_ns = 0
        self._felt_mps = nan
        self._newest_mps2 = 0.0

    def update(self, now_ns: int, dt_ns: int) -> None:
        """Carry the speed on by what was felt since the last tick."""
        wheel_mps, felt_mps2 = self._speed.fresh_wheel_mps(now_ns), self._inertial.forward_mps2
        silent = self._speed.gnss_silent(now_ns)
        dt_s = dt_ns * 1e-9
        self.unplaced_m = (
            self.unplaced_m + (abs(wheel_mps) * dt_s if isfinite(wheel_mps) else 0.0)
            if silent
            else 0.0
        )
        if not isfinite(wheel_mps) or self._inertial.stuck or not self._inertial.has_force:
            self._felt_mps = self.mps = nan
            return
        if isfinite(felt_mps2):
            self._newest_mps2 = felt_mps2
        if not isfinite(self._felt_mps):
            self._felt_mps, self._bias_mps2, self._apart_ns = wheel_mps, self._newest_mps2, 0
        self._felt_mps += (self._newest_mps2 - self._bias_mps2) * dt_s
        apart_mps = wheel_mps - self._felt_mps
        self._apart_ns = self._apart_ns + dt_ns if abs(apart_mps) > self._agrees_mps else 0
        if self._apart_ns > HOLDS_NS:
            self._felt_mps, self._apart_ns = wheel_mps, 0
        elif not self._apart_ns:
            share = min(dt_s / FOLLOWS_S, 1.0)
            self._felt_mps += 2.0 * share * apart_mps
            self._bias_mps2 -= share / FOLLOWS_S * apart_mps
        self.mps = self._felt_mps if silent else nan
