"""Monitor of the motion against the commands."""

from collections import deque
from math import asin, copysign, isfinite

from vehicled.core.messages import ActuatorCommand
from vehicled.core.messages.units import STANDARD_GRAVITY_MPS2
from vehicled.core.ports import NEVER_NS
from vehicled.core.vehicle import Limits, Vehicle, standing_below_mps
from vehicled.safety.inputs import SafetyInputs
from vehicled.safety.modes import DRIVING, MOVING
from vehicled.safety.monitors.felt import FeltSpeed
from vehicled.safety.monitors.inertial import InertialMonitor
from vehicled.safety.monitors.speed import SIGMAS, SLOPE_MPS2, SpeedMonitor

MISMATCH_RATIO = 0.3
MISMATCH_MPS = 0.4
MISMATCH_TOP_RATIO = 0.5
"""Difference of speeds that is always tolerated, m/s, and its largest fraction of the top speed: a
small vehicle is slower."""
LOCKS_MPS2 = 2.0
"""Deceleration from which drive and brake may lock the wheels of one axle: that of half the weight
on gravel, m/s^2."""
DELAYS = 2.0
"""Number of drive delays for which a command may still act; the delay is a model value and may be
wrong."""
SETTLE_NS = 100_000_000
"""Additional time for drive and brake to build up and the estimate to follow, ns."""
CERTAIN_RATIO = 0.5
"""Fraction of the model's deceleration that is certain."""
SLOPE_TIME_S = 1.0
ASKED_RATIO = 1.2
"""Speed that the brake certainly keeps down a slope, relative to what is asked for."""
FASTER_RATIO = 1.5
"""Speed that no drive needs, relative to what is asked for."""
FASTER_S = 1.5
"""Longest time above that speed, s: an engine may push on for a second."""
RISE_RATIO = 2.0
"""Rise of the speed asked for that counts, relative to the full drive: no vehicle follows a faster
one."""
LEAST_GAIN_MPS2 = 0.5
"""Acceleration that every drive is believed to have, whatever its model says, m/s^2."""
PUSH = 0.1
"""Throttle beyond friction that moves any vehicle, as a fraction of full drive."""


LEAST_CLIMB_RAD = 0.2
"""Slope on which any vehicle may stand, whatever the model of its drive says, rad: 20 %."""


class MotionMonitor:
    """Monitor of commanded but missing motion, uncommanded motion, and wheel speed mismatch.
    Durations in ns, 0 without fault."""

    def __init__(
        self,
        vehicle: Vehicle,
        limits: Limits,
        speed: SpeedMonitor,
        inertial: InertialMonitor | None = None,
    ) -> None:
        self._vehicle = vehicle
        self._speed = speed
        self._mismatch_mps = min(MISMATCH_MPS, MISMATCH_TOP_RATIO * limits.max_speed_mps)
        self.felt = FeltSpeed(speed, inertial or InertialMonitor(), self._mismatch_mps)
        """Speed by the accelerometer while GNSS is silent, and the way since the last fix."""
        self._lag_ns = round(DELAYS * vehicle.drive.delay_s * 1e9) + SETTLE_NS
        self._before_ns: int | None = None
        self.ceiling_mps = limits.max_speed_mps
        """Highest speed that is still possible, m/s: by the fixes of a receiver that is alive;
        without it, the highest since, which falls as half of the brake does."""
        self.not_moving_ns = 0
        """Time for which the vehicle has stood although enough throttle to move is commanded,
        ns."""
        self._commanded_ns = 0
        """Time for which enough throttle to move has been commanded without a break, ns."""
        self.stalled_ns = 0
        """Time for which a vehicle that was moving has stood although throttle is commanded, ns."""
        self.uncommanded_ns = 0
        """Time for which it has moved faster than braking or coasting explains, or against its
        drive, ns."""
        self.faster_ns = 0
        """Time for which it has moved faster than was asked for, ns."""
        self.rolling_ns = 0
        """Time for which wheels or GNSS have shown motion in a mode in which it should stand, and
        which rolling out does not explain, ns."""
        self._rollout_mps = 0.0
        """Speed that rolling out of the last drive still explains, m/s."""
        drive = vehicle.drive
        slows_mps2 = CERTAIN_RATIO * (
            0.5 * drive.brake_deceleration_mps2 - drive.acceleration_mps2(0.0, 0.0)
        )
        self._slows_mps2 = max(slows_mps2, 0.1)
        self._gains_mps2 = RISE_RATIO * max(drive.acceleration_mps2(1.0, 0.0), LEAST_GAIN_MPS2)
        self._asked_mps = 0.0
        """Highest speed that was asked for long enough to reach it, and from which it had no time
        yet to slow down, m/s."""
        self.mismatch_ns = 0
        """Time for which the speed of wheels or motor has disagreed with the estimate or GNSS, ns;
        it decays and is not reset."""
        self._explained_mps = 0.0
        """Highest speed that past commands still explain, m/s."""
        self.braking_mps2 = 0.0
        """Deceleration that the commands of now certainly give, m/s^2."""
        self._driven_ns = -NEVER_NS
        """Time at which throttle was last commanded."""
        self.driven = False
        """True if throttle that was commanded may still act."""
        self._sense = 0.0
        """Sign of that throttle; 0 before the first of a drive."""
        self._brakes: deque[tuple[int, float]] = deque()
        """Times and values of the brake commands that may still act, weakest first."""
        self._speed_mps = float("nan")
        self._surplus_mps2 = 0.0
        """Mean acceleration in the direction of motion that drive and brake do not explain,
        m/s^2."""
        self._slope_mps2 = 0.0
        """Part of that acceleration that a slope may cause, m/s^2, >= 0."""
        self.unbraked_ns = 0
        """Time for which uncommanded motion has been faster than the brake against it explains,
        ns."""
        self._braked_mps: float | None = None
        """Highest speed that this brake still explains, m/s; None while it is not applied for that
        reason."""
        self._under_way = 0.0
        """Sign of the throttle that keeps the vehicle moving; 0 if none does."""

    @property
    def sense(self) -> float:
        """Sign of the last throttle; 0 before the first of a drive."""
        return self._sense

    @property
    def climb_rad(self) -> float:
        """Steepest slope that the drive can climb by its model, rad, and at least
        ``LEAST_CLIMB_RAD``."""
        ratio = self._vehicle.drive.acceleration_mps2(1.0, 0.0) / STANDARD_GRAVITY_MPS2
        return max(asin(min(ratio, 1.0)), LEAST_CLIMB_RAD)

    @property
    def surplus_mps2(self) -> float:
        """Acceleration in the direction of motion that drive and brake did not explain while the
        speed was measured, as far as a slope may cause it, m/s^2."""
        return min(max(self._surplus_mps2, -SLOPE_MPS2), SLOPE_MPS2)

    def reset(self) -> None:
        """Begin a drive: forget all faults and explained speeds."""
        self.not_moving_ns = self.stalled_ns = self.uncommanded_ns = self.mismatch_ns = (
            self._commanded_ns
        ) = 0
        self._explained_mps = self._under_way = self._asked_mps = self._sense = 0.0
        self.faster_ns = 0
        self.unbraked_ns, self._braked_mps = 0, None

    def update(self, s: SafetyInputs) -> None:
        """Compare the last command with the motion since then."""
        dt_ns = 0 if self._before_ns is None else s.now_ns - self._before_ns
        self._before_ns = s.now_ns
        self.felt.update(s.now_ns, dt_ns)
        self._look_for_rollaway(s, dt_ns)
        sent, speed = s.sent, s.speed_mps
        if sent is None or dt_ns <= 0:
            self._limit(s, abs(speed), driven=False, fall_mps=0.0)
            return
        self.braking_mps2 = self._certain_mps2(self._weakest_brake(sent, s.now_ns))
        self.driven = driven = s.now_ns - self._driven_ns <= self._lag_ns
        if isfinite(speed):
            wheel_mps = self._speed.fresh_wheel_mps(s.now_ns)
            self._look_for_standing(s, sent, speed, dt_ns)
            self._learn_slope(sent, speed, dt_ns)
            self._look_for_motion(
                s, sent, speed, wheel_mps, dt_ns, self.braking_mps2, driven=driven
            )
            self._compare_with_asked(s, abs(speed), dt_ns)
            # The count decays and is not reset: while the speed changes, a late measurement agrees
            # by chance.
            apart = (
                isfinite(wheel_mps)
                and self._apart(s, abs(wheel_mps), abs(speed))
                and not self._may_lock(sent, abs(wheel_mps), abs(speed))
            )
            self.mismatch_ns = (
                self.mismatch_ns + dt_ns if apart else max(self.mismatch_ns - dt_ns // 2, 0)
            )
        self._limit(
            s,
            abs(speed),
            driven=driven,
            fall_mps=0.0 if driven else self.braking_mps2 * dt_ns * 1e-9,
        )

    def _limit(self, s: SafetyInputs, magnitude: float, *, driven: bool, fall_mps: float) -> None:
        """Update the highest speed that is still possible."""
        ground, wheels = self._speed.ground(s.now_ns), self._speed.wheels(s.now_ns)
        if ground is not None and ground.independent:
            self.ceiling_mps = ground.mps + SIGMAS * ground.sigma_mps
            return
        least = [self.ceiling_mps - fall_mps, 0.0]
        if wheels is not None:
            least.append(wheels.mps)
        if driven:
            least.append(magnitude if isfinite(magnitude) else s.limits.max_speed_mps)
        self.ceiling_mps = max(least)

    def _may_lock(self, sent: ActuatorCommand, wheel_mps: float, magnitude: float) -> bool:
        """Return True if drive and brake slow the vehicle down so much that wheels which are slower
        than it may be locked."""
        drive = self._vehicle.drive
        return (
            wheel_mps < magnitude
            and drive.acceleration_mps2(abs(sent.throttle), magnitude, sent.brake) < -LOCKS_MPS2
        )

    def _apart(self, s: SafetyInputs, wheel_mps: float, magnitude: float) -> bool:
        """Return True if the wheels contradict the estimate, GNSS or the accelerometer; an estimate
        that uses the wheels cannot contradict them."""
        others = (magnitude, self._speed.newest_ground_mps(s.now_ns), abs(self.felt.mps))
        return any(
            abs(wheel_mps - other) > max(self._mismatch_mps, MISMATCH_RATIO * other)
            for other in others
        )

    def faster_mps(self, now_ns: int, speed_mps: float) -> float:
        """Return the speed over ground that the fixes prove, m/s, where it contradicts a slower
        estimate; else 0."""
        ground, proven_mps = self._speed.ground(now_ns), self.proven_mps(now_ns)
        if ground is None:
            return 0.0
        return (
            proven_mps
            if proven_mps > abs(speed_mps) + max(self._mismatch_mps, MISMATCH_RATIO * ground.mps)
            else 0.0
        )

    def proven_mps(self, now_ns: int) -> float:
        """Return the speed over ground that the fixes prove beyond their noise, m/s; 0 without
        fresh ones."""
        ground = self._speed.ground(now_ns)
        return 0.0 if ground is None else max(0.0, ground.mps - SIGMAS * ground.sigma_mps)

    def _slowest(self, s: SafetyInputs, magnitude: float) -> tuple[float, float]:
        """Return the slowest of the speeds that can separate the speed asked for from standstill,
        and its noise, m/s.

        The estimate predicts with the very drive that may not obey, so a measured speed counts
        beside it: GNSS, or the wheels where GNSS is too noisy for so slow a drive.
        """
        wheels, ground = self._speed.wheels(s.now_ns), self._speed.ground(s.now_ns)
        measured = ground
        if wheels is not None and (ground is None or 2.0 * SIGMAS * ground.sigma_mps > s.asked_mps):
            measured = wheels
        if measured is None:
            return magnitude, self._speed.moving_mps
        return min(magnitude, measured.mps), SIGMAS * measured.sigma_mps

    def _look_for_standing(
        self, s: SafetyInputs, sent: ActuatorCommand, speed: float, dt_ns: int
    ) -> None:
        asked_mps, drive = s.asked_mps, self._vehicle.drive
        magnitude, noise_mps = self._slowest(s, abs(speed))
        least_mps = standing_below_mps(asked_mps, noise_mps, self._speed.moving_mps)
        pushing = drive.steady_throttle(0.0) + PUSH
        enough = (
            min(pushing, drive.steady_throttle(0.5 * asked_mps)) if isfinite(asked_mps) else pushing
        )
        driven = abs(sent.throttle) >= enough and sent.brake == 0.0 and asked_mps != 0.0
        self._commanded_ns = self._commanded_ns + dt_ns if driven else 0
        stands = driven and magnitude < least_mps
        if stands:
            self.not_moving_ns += dt_ns
        elif magnitude < 2.0 * least_mps:
            # Noise may look like motion for a moment, and take the throttle away.
            self.not_moving_ns = max(self.not_moving_ns - dt_ns, 0)
        else:
            self.not_moving_ns = 0
        if sent.throttle * self._under_way <= 0.0:
            self._under_way = 0.0
        # A speed that noise hides at half of what was asked for shows no stall within a moment,
        # only over seconds.
        if (
            sent.throttle * speed > 0.0
            and magnitude > 2.0 * least_mps
            and not noise_mps > 0.5 * asked_mps
        ):
            self._under_way = copysign(1.0, sent.throttle)
        if stands and abs(sent.throttle) < pushing:
            # It came to rest because the throttle is too little for this ground: no stall.
            self._under_way = 0.0
        # A brake that was applied just now still acts, and may bring the vehicle to rest before the
        # throttle does anything.
        stalls = stands and self._under_way and self._commanded_ns > self._lag_ns
        self.stalled_ns = self.stalled_ns + dt_ns if stalls else 0

    def _look_for_motion(
        self,
        s: SafetyInputs,
        sent: ActuatorCommand,
        speed: float,
        wheel_mps: float,
        dt_ns: int,
        certain_mps2: float,
        *,
        driven: bool,
    ) -> None:
        # A filter that believes in a standstill follows late; wheels that turn are motion at once.
        magnitude, moving_mps = (
            max(abs(speed), abs(wheel_mps) if isfinite(wheel_mps) else 0.0),
            self._speed.moving_mps,
        )
        slower_mps = certain_mps2 * dt_ns * 1e-9
        if driven:
            # A drive may be stronger than its model, and a gear change releases energy stored in
            # the engine.
            self._explained_mps = max(self._explained_mps, magnitude)
        elif magnitude < moving_mps:
            self._explained_mps = 0.0
        else:
            self._explained_mps = max(self._explained_mps - slower_mps, 0.0)
        if (
            s.mode in DRIVING
            and speed * self._sense > 0.0
            and ASKED_RATIO * s.asked_mps > self._explained_mps
        ):
            # Down a slope the brake holds the speed that was asked for.
            self._explained_mps = ASKED_RATIO * s.asked_mps
        unexplained = not driven and magnitude > self._explained_mps + 2.0 * moving_mps
        # The gate reverses the drive only at a crawl, so faster motion against it is rolling back.
        against = any(
            sent.throttle * v < 0.0 and abs(v) > 2.0 * moving_mps for v in (speed, wheel_mps)
        )
        self.uncommanded_ns = self.uncommanded_ns + dt_ns if unexplained or against else 0
        if self._braked_mps is not None:
            self._braked_mps = max(self._braked_mps - slower_mps, 0.0)
        elif self.uncommanded_ns > s.limits.uncommanded_s * 1e9:
            self._braked_mps = magnitude
        lasts = self._braked_mps is not None and magnitude > self._braked_mps + 2.0 * moving_mps
        self.unbraked_ns = self.unbraked_ns + dt_ns if lasts else 0

    def _look_for_rollaway(self, s: SafetyInputs, dt_ns: int) -> None:
        """Count the time for which a vehicle that is braked rolls, by measured speeds alone: a
        filter without a start has none, and a running one believes in the brake."""
        proven_mps = 0.0
        for each in self._speed.fresh(s.now_ns):
            proven_mps = max(proven_mps, each.mps - SIGMAS * each.sigma_mps)
        if s.mode in MOVING:
            self._rollout_mps, self.rolling_ns = proven_mps, 0
            return
        self._rollout_mps = max(self._rollout_mps - self._slows_mps2 * dt_ns * 1e-9, 0.0)
        rolls = proven_mps > self._rollout_mps + self._speed.moving_mps
        self.rolling_ns = self.rolling_ns + dt_ns if rolls else 0

    def _compare_with_asked(self, s: SafetyInputs, magnitude: float, dt_ns: int) -> None:
        """Count the time for which a drive is faster than it was asked to be, however it is
        driven."""
        asked_mps = s.asked_mps if s.mode in DRIVING else float("nan")
        if not isfinite(asked_mps):
            self.faster_ns, self._asked_mps = 0, magnitude
            return
        # A controller that names a high speed for a moment now and then asks for the lower one.
        self._asked_mps = max(
            min(asked_mps, self._asked_mps + self._gains_mps2 * dt_ns * 1e-9),
            min(self._asked_mps, magnitude) - self._slows_mps2 * dt_ns * 1e-9,
        )
        faster = magnitude > FASTER_RATIO * self._asked_mps + self._speed.moving_mps
        self.faster_ns = self.faster_ns + dt_ns if faster else 0

    def _weakest_brake(self, sent: ActuatorCommand, now_ns: int) -> float:
        """Return the deceleration of the weakest brake command that may still act, and note the
        time of the last throttle."""
        if sent.throttle != 0.0:
            self._driven_ns, self._sense = now_ns, copysign(1.0, sent.throttle)
        brakes = self._brakes
        while brakes and brakes[-1][1] >= sent.brake:
            brakes.pop()
        brakes.append((now_ns, sent.brake))
        while now_ns - brakes[0][0] > self._lag_ns:
            brakes.popleft()
        return brakes[0][1] * self._vehicle.drive.brake_deceleration_mps2

    def _certain_mps2(self, brake_mps2: float) -> float:
        """Return the deceleration that brake and rolling resistance certainly give on the present
        slope."""
        drive = self._vehicle.drive
        if drive.brake_deceleration_mps2 > 0.0 and brake_mps2 == 0.0:
            # It may coast downhill without limit; a drive behind that shows once it is braked.
            return 0.0
        # Tyres limit the deceleration to about 1 g, whatever the model of the brake says.
        braking = min(brake_mps2, STANDARD_GRAVITY_MPS2) - min(
            drive.acceleration_mps2(0.0, 0.0), 0.0
        )
        return max(CERTAIN_RATIO * braking - self._slope_mps2, 0.0)

    def _learn_slope(self, sent: ActuatorCommand, speed: float, dt_ns: int) -> None:
        """Update the acceleration that drive and brake do not explain."""
        before, self._speed_mps = self._speed_mps, speed
        drive, dt_s, sense = self._vehicle.drive, dt_ns * 1e-9, copysign(1.0, speed)
        # A coasting vehicle that does not slow down may be driven by a fault, so it is no evidence
        # of a slope.
        coasts = sent.throttle == 0.0 and sent.brake * drive.brake_deceleration_mps2 == 0.0
        # A speed that is predicted by the model of the drive shows no error of that model.
        if (
            not isfinite(before)
            or abs(speed) < self._speed.moving_mps
            or coasts
            or self._speed.unmeasured
        ):
            return
        brake = sent.brake * (
            STANDARD_GRAVITY_MPS2 / max(drive.brake_deceleration_mps2, STANDARD_GRAVITY_MPS2)
        )
        surplus = sense * (
            (speed - before) / dt_s - drive.acceleration_mps2(sent.throttle, before, brake)
        )
        self._surplus_mps2 += min(dt_s / SLOPE_TIME_S, 1.0) * (surplus - self._surplus_mps2)
        # A larger acceleration than a slope gives is a fault and explains nothing.
        self._slope_mps2 = self._surplus_mps2 if 0.0 < self._surplus_mps2 <= SLOPE_MPS2 else 0.0
