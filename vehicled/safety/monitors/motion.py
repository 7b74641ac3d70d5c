"""Whether the vehicle moves as it is told to."""

from math import hypot, isfinite
from typing import TYPE_CHECKING

from vehicled.messages import GnssFix, ImuSample, Message, MotorStatus, WheelSpeed
from vehicled.vehicle import Vehicle

if TYPE_CHECKING:
    from vehicled.safety.situation import Situation

MOVING_MPS = 0.15
"""Slower than this is standing, within what the estimate can tell."""
SPEED_FRESH_NS = 300_000_000
MISMATCH_SHARE = 0.3
MISMATCH_MPS = 0.4


class MotionMonitor:
    """Commanded and not moving; moving and not commanded; wheels against the rest. Durations in ns, 0 while all is well."""

    def __init__(self, vehicle: Vehicle) -> None:
        self._vehicle = vehicle
        self._before_ns: int | None = None
        self.not_moving_ns = 0
        """Drive enough to move has been commanded for so long, and nothing moves."""
        self.uncommanded_ns = 0
        """It moves faster than braking or coasting explains, for so long."""
        self.mismatch_ns = 0
        """Wheels or motor and the estimate have disagreed for so long."""
        self.wheel_mps = float("nan")
        """Newest speed by wheels or motor."""
        self._wheel_ns = 0
        self.gnss_mps = float("nan")
        self._explained_mps = 0.0
        """Highest speed that the commands of the past still explain."""

    def reset(self) -> None:
        """A drive begins."""
        self.not_moving_ns = self.uncommanded_ns = self.mismatch_ns = 0
        self._explained_mps = 0.0

    def hear(self, message: Message, now_ns: int) -> None:
        """A measurement of speed."""
        if isinstance(message, WheelSpeed):
            self.wheel_mps, self._wheel_ns = message.speed_mps, message.t_rx_ns
        elif isinstance(message, MotorStatus):
            if isfinite(message.motor_speed_radps):
                drive = self._vehicle.drive
                self.wheel_mps = message.motor_speed_radps * drive.wheel_radius_m * drive.gear_ratio
                self._wheel_ns = message.t_rx_ns
        elif isinstance(message, GnssFix):
            self.gnss_mps = hypot(message.velocity_enu_mps[0], message.velocity_enu_mps[1])
        elif isinstance(message, ImuSample):
            pass

    def look(self, s: "Situation") -> None:
        """Compare the last command with the motion since."""
        dt_ns = 0 if self._before_ns is None else s.now_ns - self._before_ns
        self._before_ns = s.now_ns
        sent, speed = s.sent, s.speed_mps
        if sent is None or not isfinite(speed) or dt_ns <= 0:
            return
        drive, magnitude = self._vehicle.drive, abs(speed)
        least = drive.steady_throttle(0.0) + 0.1
        driven = abs(sent.throttle) >= least and sent.brake == 0.0
        self.not_moving_ns = self.not_moving_ns + dt_ns if driven and magnitude < MOVING_MPS else 0

        # A margin of half the braking covers slopes and what the drive model does not know.
        braking = 0.5 * sent.brake * drive.brake_deceleration_mps2 - 0.5 * min(drive.acceleration_mps2(0.0, 0.0), 0.0)
        if sent.throttle != 0.0:
            self._explained_mps = max(self._explained_mps, magnitude)
        else:
            self._explained_mps = max(self._explained_mps - braking * dt_ns * 1e-9, 0.0)
        unexplained = sent.throttle == 0.0 and magnitude > self._explained_mps + 2.0 * MOVING_MPS
        self.uncommanded_ns = self.uncommanded_ns + dt_ns if unexplained else 0

        fresh = isfinite(self.wheel_mps) and s.now_ns - self._wheel_ns <= SPEED_FRESH_NS
        apart = fresh and abs(abs(self.wheel_mps) - magnitude) > max(MISMATCH_MPS, MISMATCH_SHARE * magnitude)
        self.mismatch_ns = self.mismatch_ns + dt_ns if apart else 0
