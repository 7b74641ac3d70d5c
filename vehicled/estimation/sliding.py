"""Detector of a vehicle that slides on wheels which do not roll: locked by the brake on a slope, or
on ice.

Wheels that stand read 0 and a brake command predicts a standstill, so a filter that believes both
confirms one. While a live GNSS velocity shows more, fix after fix, neither counts.
"""

from collections import deque
from math import hypot, inf, sqrt

from vehicled.core.messages import GnssFix, Message, MotorStatus, WheelSpeed
from vehicled.core.vehicle import Vehicle
from vehicled.estimation.measurements import UNKNOWN_SIGMA_MPS

LEAST_MPS = 0.15
"""Speed beyond its noise from which a GNSS velocity shows motion, m/s."""
WHEEL_RATIO = 0.5
"""Speed of wheels, relative to that of GNSS, below which they do not roll."""
FIXES, LASTS_NS = 3, 1_000_000_000
"""Number of consecutive fixes that prove it, and the time for which the last one counts, ns."""
MOST_MPS2 = 10.0
"""Deceleration that no tyre exceeds, m/s^2."""
MOST_APART_NS = 100_000_000
"""Longest time between a fix and the speed of the wheels that it is compared with, ns."""


class SlidingDetector:
    """Compares every GNSS velocity with the speed of wheels or motor at its time of validity."""

    def __init__(self, vehicle: Vehicle) -> None:
        self._metres_per_rad = vehicle.drive.wheel_radius_m * vehicle.drive.gear_ratio
        self._wheels: deque[tuple[int, float]] = deque(maxlen=128)
        """Times and magnitudes of the last speeds of wheels or motor, ns and m/s."""
        self._velocity_mps = (0.0, 0.0)
        self._in_a_row = 0
        self._fix_ns = 0
        self._proven_mps = 0.0
        self._until_ns = 0

    def observe(self, message: Message) -> None:
        """Record a speed of the wheels, or compare a fix with them."""
        if isinstance(message, WheelSpeed | MotorStatus):
            self._wheels.append((message.t_ns, self._wheel_mps(message)))
        elif isinstance(message, GnssFix):
            self._compare(message)

    def slides(self, t_ns: int) -> bool:
        """Return True while the vehicle slides, so that a brake command explains nothing."""
        return t_ns < self._until_ns

    def refuses(self, message: Message) -> bool:
        """Return True for a speed of wheels that do not roll: while the vehicle slides, and where
        no friction slows it down so fast since the last fix."""
        if not isinstance(message, WheelSpeed | MotorStatus):
            return False
        wheel_mps = self._wheel_mps(message)
        if not wheel_mps < WHEEL_RATIO * self._proven_mps:
            return False
        since_s = max(message.t_ns - self._fix_ns, 0) * 1e-9
        return self.slides(message.t_ns) or wheel_mps < self._proven_mps - MOST_MPS2 * since_s

    def _wheel_mps(self, message: WheelSpeed | MotorStatus) -> float:
        if isinstance(message, WheelSpeed):
            return abs(message.speed_mps)
        return abs(message.motor_speed_radps * self._metres_per_rad)

    def _compare(self, fix: GnssFix) -> None:
        velocity_mps = fix.velocity_enu_mps[0], fix.velocity_enu_mps[1]
        # A receiver that repeats its velocity is stuck and shows nothing.
        alive = velocity_mps != self._velocity_mps
        self._velocity_mps = velocity_mps
        variance = max(fix.velocity_covariance_m2ps2[0], fix.velocity_covariance_m2ps2[4])
        sigma_mps = sqrt(variance) if 0.0 < variance < inf else UNKNOWN_SIGMA_MPS
        self._proven_mps = hypot(*velocity_mps) - 3.0 * sigma_mps
        if not alive:
            self._proven_mps = 0.0
        self._fix_ns = fix.t_ns
        stands = self._at(fix.t_ns) < WHEEL_RATIO * self._proven_mps
        slides = stands and self._proven_mps > LEAST_MPS
        self._in_a_row = self._in_a_row + 1 if slides else 0
        self._until_ns = fix.t_ns + LASTS_NS if self._in_a_row >= FIXES else 0

    def _at(self, t_ns: int) -> float:
        """Return the speed of the wheels at a time, m/s; infinite if none was measured then."""
        apart_ns, speed_mps = min(
            ((abs(t_ns - at_ns), speed_mps) for at_ns, speed_mps in self._wheels),
            default=(0, inf),
        )
        return speed_mps if apart_ns <= MOST_APART_NS else inf
