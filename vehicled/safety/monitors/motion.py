"""Whether the vehicle moves as it is told to."""

from collections import deque
from math import copysign, hypot, isfinite
from typing import TYPE_CHECKING

from vehicled.messages import ActuatorCommand, GnssFix, Message, Mode, MotorStatus, WheelSpeed
from vehicled.vehicle import Vehicle

if TYPE_CHECKING:
    from vehicled.safety.situation import Situation

MOVING_MPS = 0.15
"""Slower than this is standing, within what the estimate can tell."""
SPEED_FRESH_NS = 300_000_000
GROUND_FRESH_NS = 500_000_000
GROUND_FIXES = 3
MISMATCH_SHARE = 0.3
MISMATCH_MPS = 0.4


class MotionMonitor:
    """Commanded and not moving; moving and not commanded; wheels against the rest. Durations in ns, 0 while all is well."""

    def __init__(self, vehicle: Vehicle) -> None:
        self._vehicle = vehicle
        self._before_ns: int | None = None
        self.not_moving_ns = 0
        """Drive enough to move has been commanded for so long, and nothing moves."""
        self.stalled_ns = 0
        """The same of a vehicle that was under way and came to rest without being told to."""
        self.uncommanded_ns = 0
        """It moves faster than braking or coasting explains, or against its drive, for so long."""
        self.mismatch_ns = 0
        """Wheels or motor and the estimate have disagreed for so long."""
        self.wheel_mps = float("nan")
        """Newest speed by wheels or motor."""
        self._wheel_ns = 0
        self._ground: deque[tuple[float, float]] = deque(maxlen=GROUND_FIXES)
        self._ground_mps = 0.0
        """Size of their mean vector: the mean of sizes would take noise for motion."""
        self._ground_ns = 0
        self._explained_mps = 0.0
        """Highest speed that the commands of the past still explain."""
        self._under_way = 0.0
        """Sign of the drive that has kept it moving, 0 when none has."""

    def reset(self) -> None:
        """A drive begins."""
        self.not_moving_ns = self.stalled_ns = self.uncommanded_ns = self.mismatch_ns = 0
        self._explained_mps = self._under_way = 0.0

    def hear(self, message: Message, now_ns: int) -> None:
        """A measurement of speed."""
        if isinstance(message, GnssFix):
            east, north = message.velocity_enu_mps[0], message.velocity_enu_mps[1]
            # A fix of long ago, whenever it arrives, is no witness of how fast it moves now.
            if isfinite(east + north) and now_ns - message.t_ns <= GROUND_FRESH_NS:
                if now_ns - self._ground_ns > GROUND_FRESH_NS:
                    self._ground.clear()
                self._ground.append((east, north))
                self._ground_mps = hypot(*(sum(axis) / GROUND_FIXES for axis in zip(*self._ground, strict=True)))
                self._ground_ns = min(message.t_rx_ns, now_ns)
            return
        if isinstance(message, WheelSpeed):
            self.wheel_mps, self._wheel_ns = message.speed_mps, min(message.t_rx_ns, now_ns)
        elif isinstance(message, MotorStatus) and isfinite(message.motor_speed_radps):
            drive = self._vehicle.drive
            self.wheel_mps = message.motor_speed_radps * drive.wheel_radius_m * drive.gear_ratio
            self._wheel_ns = min(message.t_rx_ns, now_ns)

    def look(self, s: "Situation") -> None:
        """Compare the last command with the motion since."""
        dt_ns = 0 if self._before_ns is None else s.now_ns - self._before_ns
        self._before_ns = s.now_ns
        sent, speed = s.sent, s.speed_mps
        if sent is None or not isfinite(speed) or dt_ns <= 0:
            return
        fresh = isfinite(self.wheel_mps) and s.now_ns - self._wheel_ns <= SPEED_FRESH_NS
        self._look_for_standing(s, sent, speed, dt_ns)
        self._look_for_motion(s, sent, speed, self.wheel_mps if fresh else 0.0, dt_ns)
        # It fades instead of ending: on the way from one speed to another a late witness agrees by chance.
        apart = fresh and self._apart(s, abs(speed))
        self.mismatch_ns = self.mismatch_ns + dt_ns if apart else max(self.mismatch_ns - dt_ns // 2, 0)

    def _apart(self, s: "Situation", magnitude: float) -> bool:
        """Whether the wheels contradict estimate or GNSS: an estimate that believes the wheels is no witness against them."""
        others = [magnitude]
        if self._ground and s.now_ns - self._ground_ns <= GROUND_FRESH_NS:
            others.append(hypot(*self._ground[-1]))
        return any(abs(abs(self.wheel_mps) - other) > max(MISMATCH_MPS, MISMATCH_SHARE * other) for other in others)

    def _slowest_mps(self, s: "Situation", speed: float) -> float:
        """Size of the speed by the witness that sees the least: an estimate predicts by the very drive that may not obey."""
        if len(self._ground) < GROUND_FIXES or s.now_ns - self._ground_ns > GROUND_FRESH_NS:
            return abs(speed)
        return min(abs(speed), self._ground_mps)

    def measured_mps(self, now_ns: int, *, gnss_unheard: bool) -> float:
        """Largest speed that wheels and GNSS measure now, 0 without either: a witness beside the estimate."""
        speed = 0.0
        if not gnss_unheard and len(self._ground) == GROUND_FIXES and now_ns - self._ground_ns <= GROUND_FRESH_NS:
            speed = self._ground_mps
        if isfinite(self.wheel_mps) and now_ns - self._wheel_ns <= SPEED_FRESH_NS:
            speed = max(speed, abs(self.wheel_mps))
        return speed

    def fresh_wheel_mps(self, now_ns: int) -> float:
        """Newest speed by wheels or motor; NaN when there is none of the last moments."""
        return self.wheel_mps if now_ns - self._wheel_ns <= SPEED_FRESH_NS else float("nan")

    def signed_mps(self, now_ns: int, throttle: float) -> float:
        """Measured speed where no estimate exists: the larger of wheels and GNSS, with the sign of the wheels, else of the
        throttle; NaN without either."""
        wheel_mps = self.fresh_wheel_mps(now_ns)
        if not isfinite(wheel_mps) and (len(self._ground) < GROUND_FIXES or now_ns - self._ground_ns > GROUND_FRESH_NS):
            return float("nan")
        forward = wheel_mps if isfinite(wheel_mps) and wheel_mps != 0.0 else throttle
        return copysign(self.measured_mps(now_ns, gnss_unheard=False), forward)

    def _look_for_standing(self, s: "Situation", sent: ActuatorCommand, speed: float, dt_ns: int) -> None:
        magnitude = self._slowest_mps(s, speed)
        # Creeping up to the end of a course is slower than an estimate can tell from standing.
        wanted = s.mode is not Mode.AUTO or s.control is None or not abs(s.control.target_speed_mps) < 2.0 * MOVING_MPS
        driven = abs(sent.throttle) >= self._vehicle.drive.steady_throttle(0.0) + 0.1 and sent.brake == 0.0 and wanted
        stands = driven and magnitude < MOVING_MPS
        self.not_moving_ns = self.not_moving_ns + dt_ns if stands else 0
        if sent.throttle * self._under_way <= 0.0:
            self._under_way = 0.0
        if sent.throttle * speed > 0.0 and magnitude > 2.0 * MOVING_MPS:
            self._under_way = copysign(1.0, sent.throttle)
        self.stalled_ns = self.stalled_ns + dt_ns if stands and self._under_way else 0

    def _look_for_motion(self, s: "Situation", sent: ActuatorCommand, speed: float, wheel_mps: float, dt_ns: int) -> None:
        drive, magnitude = self._vehicle.drive, abs(speed)
        # A margin of half the braking covers slopes and what the drive model does not know.
        braking = 0.5 * sent.brake * drive.brake_deceleration_mps2 - 0.5 * min(drive.acceleration_mps2(0.0, 0.0), 0.0)
        if sent.throttle != 0.0:
            self._explained_mps = max(self._explained_mps, magnitude)
        else:
            self._explained_mps = max(self._explained_mps - braking * dt_ns * 1e-9, 0.0)
            target = s.control.target_speed_mps if s.mode is Mode.AUTO and s.control is not None else 0.0
            if sent.brake == 0.0 and target * speed > 0.0:
                # A vehicle that rolls freely, or downhill, holds the wanted speed without any throttle.
                self._explained_mps = max(self._explained_mps, min(magnitude, abs(target)))
        unexplained = sent.throttle == 0.0 and magnitude > self._explained_mps + 2.0 * MOVING_MPS
        # The gate turns the drive round at a crawl only: whatever moves against it rolls back.
        against = any(sent.throttle * v < 0.0 and abs(v) > 2.0 * MOVING_MPS for v in (speed, wheel_mps))
        self.uncommanded_ns = self.uncommanded_ns + dt_ns if unexplained or against else 0
