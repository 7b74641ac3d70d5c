"""Whether the vehicle moves as it is told to."""

from collections import deque
from math import copysign, hypot, isfinite
from typing import TYPE_CHECKING

from vehicled.messages import ActuatorCommand, GnssFix, Message, Mode, MotorStatus, WheelSpeed
from vehicled.messages.units import STANDARD_GRAVITY_MPS2
from vehicled.ports import NEVER_NS
from vehicled.vehicle import Vehicle

if TYPE_CHECKING:
    from vehicled.safety.inputs import SafetyInputs

MOVING_MPS = 0.15
"""Slower than this is standing, within what the estimate can tell."""
SPEED_FRESH_NS = 300_000_000
GROUND_FRESH_NS = 500_000_000
GROUND_FIXES = 3
MISMATCH_SHARE = 0.3
MISMATCH_MPS = 0.4
DELAYS = 2.0
"""A command may still act after so many delays of the drive, which is believed and not known."""
SETTLE_NS = 100_000_000
"""Further time in which drive and brake build up, and the estimate follows."""
CERTAIN_RATIO = 0.5
"""Ratio of the believed deceleration that is certain."""
SLOPE_MPS2 = 0.08 * STANDARD_GRAVITY_MPS2
"""Largest push of a slope. More is no slope."""
SLOPE_TIME_S = 1.0


class MotionMonitor:
    """Commanded and not moving; moving and not commanded; wheels against the rest. Durations in ns, 0 while all is well."""

    def __init__(self, vehicle: Vehicle) -> None:
        self._vehicle = vehicle
        self._lag_ns = round(DELAYS * vehicle.drive.delay_s * 1e9) + SETTLE_NS
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
        self._driven_ns = -NEVER_NS
        """When drive was last commanded."""
        self._brakes: deque[tuple[int, float]] = deque()
        """Times and brake commands that may still act, the weakest first."""
        self._speed_mps = float("nan")
        self._surplus_mps2 = 0.0
        """Mean acceleration in the direction of motion that drive and brake do not explain."""
        self._slope_mps2 = 0.0
        """The same as far as a slope may be its cause, 0 and above."""
        self.unbraked_ns = 0
        """How long an uncommanded motion has been faster than the brake applied against it explains."""
        self._braked_mps: float | None = None
        """Highest speed that this brake still explains; None while nothing is braked for that reason."""
        self._under_way = 0.0
        """Sign of the drive that has kept it moving, 0 when none has."""

    def reset(self) -> None:
        """A drive begins."""
        self.not_moving_ns = self.stalled_ns = self.uncommanded_ns = self.mismatch_ns = 0
        self._explained_mps = self._under_way = 0.0
        self.unbraked_ns, self._braked_mps = 0, None

    def on_message(self, message: Message, now_ns: int) -> None:
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

    def update(self, s: "SafetyInputs") -> None:
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

    def _apart(self, s: "SafetyInputs", magnitude: float) -> bool:
        """Whether the wheels contradict estimate or GNSS: an estimate that believes the wheels is no witness against them."""
        others = [magnitude]
        if self._ground and s.now_ns - self._ground_ns <= GROUND_FRESH_NS:
            others.append(hypot(*self._ground[-1]))
        return any(abs(abs(self.wheel_mps) - other) > max(MISMATCH_MPS, MISMATCH_SHARE * other) for other in others)

    def _slowest_mps(self, s: "SafetyInputs", speed: float) -> float:
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

    def _look_for_standing(self, s: "SafetyInputs", sent: ActuatorCommand, speed: float, dt_ns: int) -> None:
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

    def _look_for_motion(self, s: "SafetyInputs", sent: ActuatorCommand, speed: float, wheel_mps: float, dt_ns: int) -> None:
        magnitude = abs(speed)
        brake = self._weakest_brake(sent, s.now_ns)
        driven = s.now_ns - self._driven_ns <= self._lag_ns
        self._learn_slope(sent, speed, dt_ns)
        slower_mps = self._certain_mps2(brake) * dt_ns * 1e-9
        if driven:
            # A drive may be stronger than believed, and a gear change gives back what the engine has stored.
            self._explained_mps = max(self._explained_mps, magnitude)
        elif magnitude < MOVING_MPS:
            self._explained_mps = 0.0
        else:
            self._explained_mps = max(self._explained_mps - slower_mps, 0.0)
        unexplained = not driven and magnitude > self._explained_mps + 2.0 * MOVING_MPS
        # The gate turns the drive round at a crawl only: whatever moves against it rolls back.
        against = any(sent.throttle * v < 0.0 and abs(v) > 2.0 * MOVING_MPS for v in (speed, wheel_mps))
        self.uncommanded_ns = self.uncommanded_ns + dt_ns if unexplained or against else 0
        if self._braked_mps is not None:
            self._braked_mps = max(self._braked_mps - slower_mps, 0.0)
        elif self.uncommanded_ns > s.limits.uncommanded_s * 1e9:
            self._braked_mps = magnitude
        lasts = self._braked_mps is not None and magnitude > self._braked_mps + 2.0 * MOVING_MPS
        self.unbraked_ns = self.unbraked_ns + dt_ns if lasts else 0

    def _weakest_brake(self, sent: ActuatorCommand, now_ns: int) -> float:
        """Deceleration by the weakest brake command that may still act; notes when drive was commanded."""
        if sent.throttle != 0.0:
            self._driven_ns = now_ns
        brakes = self._brakes
        while brakes and brakes[-1][1] >= sent.brake:
            brakes.pop()
        brakes.append((now_ns, sent.brake))
        while now_ns - brakes[0][0] > self._lag_ns:
            brakes.popleft()
        return brakes[0][1] * self._vehicle.drive.brake_deceleration_mps2

    def _certain_mps2(self, brake_mps2: float) -> float:
        """Deceleration that a brake and rolling resistance certainly give, on the ground that it drives on."""
        drive = self._vehicle.drive
        if drive.brake_deceleration_mps2 > 0.0 and brake_mps2 == 0.0:
            # It may coast downhill for as long as it likes: what drives it then is seen once it is braked.
            return 0.0
        # No tyre holds more than about gravity, whatever a brake is believed to do.
        braking = min(brake_mps2, STANDARD_GRAVITY_MPS2) - min(drive.acceleration_mps2(0.0, 0.0), 0.0)
        return max(CERTAIN_RATIO * braking - self._slope_mps2, 0.0)

    def _learn_slope(self, sent: ActuatorCommand, speed: float, dt_ns: int) -> None:
        """Follow the acceleration that drive and brake do not explain."""
        before, self._speed_mps = self._speed_mps, speed
        drive, dt_s, sense = self._vehicle.drive, dt_ns * 1e-9, copysign(1.0, speed)
        # A vehicle that coasts and does not slow down may be driven by a fault: it is no witness of a slope.
        coasts = sent.throttle == 0.0 and sent.brake * drive.brake_deceleration_mps2 == 0.0
        if not isfinite(before) or abs(speed) < MOVING_MPS or coasts:
            return
        brake = sent.brake * min(1.0, STANDARD_GRAVITY_MPS2 / max(drive.brake_deceleration_mps2, STANDARD_GRAVITY_MPS2))
        surplus = sense * ((speed - before) / dt_s - drive.acceleration_mps2(sent.throttle, before, brake))
        self._surplus_mps2 += min(dt_s / SLOPE_TIME_S, 1.0) * (surplus - self._surplus_mps2)
        # More than a slope gives is another fault, and no excuse.
        self._slope_mps2 = self._surplus_mps2 if 0.0 < self._surplus_mps2 <= SLOPE_MPS2 else 0.0
