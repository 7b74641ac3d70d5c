"""Monitor of the motion against the commands."""

from collections import deque
from math import copysign, hypot, isfinite

from vehicled.messages import ActuatorCommand, GnssFix, Message, Mode, MotorStatus, WheelSpeed
from vehicled.messages.units import STANDARD_GRAVITY_MPS2
from vehicled.ports import NEVER_NS
from vehicled.safety.inputs import SafetyInputs
from vehicled.vehicle import Vehicle

MOVING_MPS = 0.15
"""Speed below which the vehicle counts as standing, m/s; the estimate resolves no less."""
SPEED_FRESH_NS = 300_000_000
GROUND_FRESH_NS = 500_000_000
GROUND_FIXES = 3
MISMATCH_SHARE = 0.3
MISMATCH_MPS = 0.4
DELAYS = 2.0
"""Number of drive delays for which a command may still act; the delay is a model value and may be wrong."""
SETTLE_NS = 100_000_000
"""Additional time for drive and brake to build up and the estimate to follow, ns."""
CERTAIN_RATIO = 0.5
"""Fraction of the model's deceleration that is certain."""
SLOPE_MPS2 = 0.08 * STANDARD_GRAVITY_MPS2
"""Largest acceleration that a slope can explain, m/s^2."""
SLOPE_TIME_S = 1.0


class MotionMonitor:
    """Monitor of commanded but missing motion, uncommanded motion, and wheel speed mismatch. Durations in ns, 0 without fault."""

    def __init__(self, vehicle: Vehicle) -> None:
        self._vehicle = vehicle
        self._lag_ns = round(DELAYS * vehicle.drive.delay_s * 1e9) + SETTLE_NS
        self._before_ns: int | None = None
        self.not_moving_ns = 0
        """Time for which the vehicle has stood although enough throttle to move is commanded, ns."""
        self._commanded_ns = 0
        """Time for which enough throttle to move has been commanded without a break, ns."""
        self.stalled_ns = 0
        """Time for which a vehicle that was moving has stood although throttle is commanded, ns."""
        self.uncommanded_ns = 0
        """Time for which it has moved faster than braking or coasting explains, or against its drive, ns."""
        self.mismatch_ns = 0
        """Time for which the speed of wheels or motor has disagreed with the estimate or GNSS, ns; it decays and is not reset."""
        self.wheel_mps = float("nan")
        """Newest speed of wheels or motor, m/s."""
        self._wheel_ns = 0
        self._ground: deque[tuple[float, float]] = deque(maxlen=GROUND_FIXES)
        self._ground_mps = 0.0
        """Magnitude of the mean GNSS velocity, m/s; the mean of the magnitudes would count noise as motion."""
        self._ground_ns = 0
        self._explained_mps = 0.0
        """Highest speed that past commands still explain, m/s."""
        self._driven_ns = -NEVER_NS
        """Time at which throttle was last commanded."""
        self._brakes: deque[tuple[int, float]] = deque()
        """Times and values of the brake commands that may still act, weakest first."""
        self._speed_mps = float("nan")
        self._surplus_mps2 = 0.0
        """Mean acceleration in the direction of motion that drive and brake do not explain, m/s^2."""
        self._slope_mps2 = 0.0
        """Part of that acceleration that a slope may cause, m/s^2, >= 0."""
        self.unbraked_ns = 0
        """Time for which uncommanded motion has been faster than the brake against it explains, ns."""
        self._braked_mps: float | None = None
        """Highest speed that this brake still explains, m/s; None while it is not applied for that reason."""
        self._under_way = 0.0
        """Sign of the throttle that keeps the vehicle moving; 0 if none does."""

    def reset(self) -> None:
        """Begin a drive: forget all faults and explained speeds."""
        self.not_moving_ns = self.stalled_ns = self.uncommanded_ns = self.mismatch_ns = self._commanded_ns = 0
        self._explained_mps = self._under_way = 0.0
        self.unbraked_ns, self._braked_mps = 0, None

    def on_message(self, message: Message, now_ns: int) -> None:
        """Update from a speed measurement of GNSS, wheels or motor."""
        if isinstance(message, GnssFix):
            east, north = message.velocity_enu_mps[0], message.velocity_enu_mps[1]
            # A fix with an old time of validity says nothing about the present speed, however late it arrives.
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

    def update(self, s: SafetyInputs) -> None:
        """Compare the last command with the motion since then."""
        dt_ns = 0 if self._before_ns is None else s.now_ns - self._before_ns
        self._before_ns = s.now_ns
        sent, speed = s.sent, s.speed_mps
        if sent is None or not isfinite(speed) or dt_ns <= 0:
            return
        fresh = isfinite(self.wheel_mps) and s.now_ns - self._wheel_ns <= SPEED_FRESH_NS
        self._look_for_standing(s, sent, speed, dt_ns)
        self._look_for_motion(s, sent, speed, self.wheel_mps if fresh else 0.0, dt_ns)
        # The count decays and is not reset: while the speed changes, a late measurement agrees by chance.
        apart = fresh and self._apart(s, abs(speed))
        self.mismatch_ns = self.mismatch_ns + dt_ns if apart else max(self.mismatch_ns - dt_ns // 2, 0)

    def _apart(self, s: SafetyInputs, magnitude: float) -> bool:
        """Return True if the wheels contradict the estimate or GNSS; an estimate that uses the wheels cannot contradict them."""
        others = [magnitude]
        if self._ground and s.now_ns - self._ground_ns <= GROUND_FRESH_NS:
            others.append(hypot(*self._ground[-1]))
        return any(abs(abs(self.wheel_mps) - other) > max(MISMATCH_MPS, MISMATCH_SHARE * other) for other in others)

    def _slowest_mps(self, s: SafetyInputs, speed: float) -> float:
        """Return the lower speed of estimate and GNSS: the estimate predicts with the very drive that may not obey."""
        if len(self._ground) < GROUND_FIXES or s.now_ns - self._ground_ns > GROUND_FRESH_NS:
            return abs(speed)
        return min(abs(speed), self._ground_mps)

    def measured_mps(self, now_ns: int, *, gnss_unheard: bool) -> float:
        """Return the larger speed of wheels and GNSS, 0 without either. The estimate is not used."""
        speed = 0.0
        if not gnss_unheard and len(self._ground) == GROUND_FIXES and now_ns - self._ground_ns <= GROUND_FRESH_NS:
            speed = self._ground_mps
        if isfinite(self.wheel_mps) and now_ns - self._wheel_ns <= SPEED_FRESH_NS:
            speed = max(speed, abs(self.wheel_mps))
        return speed

    def fresh_wheel_mps(self, now_ns: int) -> float:
        """Return the newest speed of wheels or motor; NaN if it is not fresh."""
        return self.wheel_mps if now_ns - self._wheel_ns <= SPEED_FRESH_NS else float("nan")

    def signed_mps(self, now_ns: int, throttle: float) -> float:
        """Return the measured speed, for use without an estimate; NaN without a measurement.

        It is the larger of wheels and GNSS, with the sign of the wheels, else of the throttle.
        """
        wheel_mps = self.fresh_wheel_mps(now_ns)
        if not isfinite(wheel_mps) and (len(self._ground) < GROUND_FIXES or now_ns - self._ground_ns > GROUND_FRESH_NS):
            return float("nan")
        forward = wheel_mps if isfinite(wheel_mps) and wheel_mps != 0.0 else throttle
        return copysign(self.measured_mps(now_ns, gnss_unheard=False), forward)

    def _look_for_standing(self, s: SafetyInputs, sent: ActuatorCommand, speed: float, dt_ns: int) -> None:
        magnitude = self._slowest_mps(s, speed)
        # At the end of a course the vehicle creeps, and the estimate cannot distinguish that from standstill.
        wanted = s.mode is not Mode.AUTO or s.control is None or not abs(s.control.target_speed_mps) < 2.0 * MOVING_MPS
        driven = abs(sent.throttle) >= self._vehicle.drive.steady_throttle(0.0) + 0.1 and sent.brake == 0.0 and wanted
        self._commanded_ns = self._commanded_ns + dt_ns if driven else 0
        stands = driven and magnitude < MOVING_MPS
        self.not_moving_ns = self.not_moving_ns + dt_ns if stands else 0
        if sent.throttle * self._under_way <= 0.0:
            self._under_way = 0.0
        if sent.throttle * speed > 0.0 and magnitude > 2.0 * MOVING_MPS:
            self._under_way = copysign(1.0, sent.throttle)
        # A brake that was applied just now still acts, and may bring the vehicle to rest before the throttle does anything.
        stalls = stands and self._under_way and self._commanded_ns > self._lag_ns
        self.stalled_ns = self.stalled_ns + dt_ns if stalls else 0

    def _look_for_motion(self, s: SafetyInputs, sent: ActuatorCommand, speed: float, wheel_mps: float, dt_ns: int) -> None:
        magnitude = abs(speed)
        brake = self._weakest_brake(sent, s.now_ns)
        driven = s.now_ns - self._driven_ns <= self._lag_ns
        self._learn_slope(sent, speed, dt_ns)
        slower_mps = self._certain_mps2(brake) * dt_ns * 1e-9
        if driven:
            # A drive may be stronger than its model, and a gear change releases energy stored in the engine.
            self._explained_mps = max(self._explained_mps, magnitude)
        elif magnitude < MOVING_MPS:
            self._explained_mps = 0.0
        else:
            self._explained_mps = max(self._explained_mps - slower_mps, 0.0)
        unexplained = not driven and magnitude > self._explained_mps + 2.0 * MOVING_MPS
        # The gate reverses the drive only at a crawl, so faster motion against it is rolling back.
        against = any(sent.throttle * v < 0.0 and abs(v) > 2.0 * MOVING_MPS for v in (speed, wheel_mps))
        self.uncommanded_ns = self.uncommanded_ns + dt_ns if unexplained or against else 0
        if self._braked_mps is not None:
            self._braked_mps = max(self._braked_mps - slower_mps, 0.0)
        elif self.uncommanded_ns > s.limits.uncommanded_s * 1e9:
            self._braked_mps = magnitude
        lasts = self._braked_mps is not None and magnitude > self._braked_mps + 2.0 * MOVING_MPS
        self.unbraked_ns = self.unbraked_ns + dt_ns if lasts else 0

    def _weakest_brake(self, sent: ActuatorCommand, now_ns: int) -> float:
        """Return the deceleration of the weakest brake command that may still act, and note the time of the last throttle."""
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
        """Return the deceleration that brake and rolling resistance certainly give on the present slope."""
        drive = self._vehicle.drive
        if drive.brake_deceleration_mps2 > 0.0 and brake_mps2 == 0.0:
            # It may coast downhill without limit; a drive behind that shows once it is braked.
            return 0.0
        # Tyres limit the deceleration to about 1 g, whatever the model of the brake says.
        braking = min(brake_mps2, STANDARD_GRAVITY_MPS2) - min(drive.acceleration_mps2(0.0, 0.0), 0.0)
        return max(CERTAIN_RATIO * braking - self._slope_mps2, 0.0)

    def _learn_slope(self, sent: ActuatorCommand, speed: float, dt_ns: int) -> None:
        """Update the acceleration that drive and brake do not explain."""
        before, self._speed_mps = self._speed_mps, speed
        drive, dt_s, sense = self._vehicle.drive, dt_ns * 1e-9, copysign(1.0, speed)
        # A coasting vehicle that does not slow down may be driven by a fault, so it is no evidence of a slope.
        coasts = sent.throttle == 0.0 and sent.brake * drive.brake_deceleration_mps2 == 0.0
        if not isfinite(before) or abs(speed) < MOVING_MPS or coasts:
            return
        brake = sent.brake * min(1.0, STANDARD_GRAVITY_MPS2 / max(drive.brake_deceleration_mps2, STANDARD_GRAVITY_MPS2))
        surplus = sense * ((speed - before) / dt_s - drive.acceleration_mps2(sent.throttle, before, brake))
        self._surplus_mps2 += min(dt_s / SLOPE_TIME_S, 1.0) * (surplus - self._surplus_mps2)
        # A larger acceleration than a slope gives is a fault and explains nothing.
        self._slope_mps2 = self._surplus_mps2 if 0.0 < self._surplus_mps2 <= SLOPE_MPS2 else 0.0
