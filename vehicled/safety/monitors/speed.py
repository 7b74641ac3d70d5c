"""Monitor of the measured speed: wheels or motor, and GNSS, each with its noise. The estimate is
not used."""

from collections import deque
from enum import Enum
from math import copysign, cos, hypot, inf, isfinite, sqrt

from msgspec import Struct

from vehicled.core.messages import FixType, GnssFix, Message, MotorStatus, WheelSpeed
from vehicled.core.messages.units import STANDARD_GRAVITY_MPS2
from vehicled.core.vehicle import MOVING_MPS, STANDSTILL_MPS, Limits, Vehicle

SPEED_FRESH_NS = 300_000_000
"""Age up to which a speed of wheels or motor counts, ns."""
GROUND_FRESH_NS = 500_000_000
"""Age up to which a GNSS velocity counts, ns; a receiver that may be silent for longer counts for
as long."""
FIXES = 3
"""Number of fixes whose mean velocity is used; a frozen receiver shows by as many equal ones."""
WHEEL_SIGMA_MPS = 0.01
"""Standard deviation of a motor speed, m/s: its resolution; wheel speeds declare theirs."""
GROUND_SIGMA_MPS = 0.1
"""Standard deviation of a GNSS velocity that declares none, m/s."""
SIGMAS = 3.0
"""Number of standard deviations that noise does not exceed."""
FIX_SIGMAS = 6.0
"""The same for one of several fixes: at the end of a stop the older ones still show the motion."""
STANDING_MPS = 0.25
"""Largest measured speed that may count as standstill, m/s, however noisy the sensor."""
SLOPE_MPS2 = 0.08 * STANDARD_GRAVITY_MPS2
"""Largest acceleration that a slope can explain, m/s^2."""
DOUBT_RATIO = 0.5
"""Largest error of a speed that only the model of the drive predicts, as a fraction of it."""
MOVING_RATIO = 0.3
"""Speed at which the vehicle certainly moves, as a fraction of its top speed; at most
``MOVING_MPS``. A small vehicle is slower."""
CHORD_NS = 2_000_000_000
"""Time over which positions give a speed, ns, if the receiver gives none."""
SHORTEST_CHORD_NS = 700_000_000
PLACE_SIGMA_M = 0.1
"""Largest change of a position from fix to fix by noise, m: the slow part of a large error does not
matter within a chord."""
LEAST_PLACE_SIGMA_M = 0.02
"""Smallest standard deviation of a position, m, whatever the receiver declares."""
EARTH_RADIUS_M = 6_371_000.0


class StandstillEvidence(Enum):
    """Result of the question whether the vehicle stands, by measured speeds alone."""

    NONE = "no wheel or GNSS speed is fresh"
    MOVES = "a fresh speed is above its noise"
    UNCONFIRMED = (
        "the wheels, or a receiver that repeats itself, read 0 earlier than the brake can have "
        "stopped the vehicle"
    )
    STANDS = "every fresh speed is within its noise of 0"


class SpeedMeasurement(Struct, frozen=True, gc=False):
    """One measured speed."""

    source: str
    mps: float
    """Magnitude."""
    sigma_mps: float
    independent: bool
    """True if it measures the motion over ground and is alive. Locked wheels and a frozen receiver
    read 0 at any speed."""
    t_ns: int
    """Time of validity."""
    contradicted: bool = False
    """True if a fix, or the change from the first to the last, shows more motion than noise
    explains: the mean may be near 0."""

    @property
    def standing_mps(self) -> float:
        """Largest reading that its noise explains at standstill, m/s."""
        return min(STANDSTILL_MPS + SIGMAS * self.sigma_mps, STANDING_MPS)

    @property
    def moves(self) -> bool:
        """True if it is above its noise."""
        return self.mps > self.standing_mps or self.contradicted


class SpeedMonitor:
    """Newest speed of wheels or motor, and the mean velocity of the last fixes."""

    def __init__(self, vehicle: Vehicle, limits: Limits) -> None:
        self._metres_per_rad = vehicle.drive.wheel_radius_m * vehicle.drive.gear_ratio
        self.moving_mps = min(MOVING_MPS, MOVING_RATIO * limits.max_speed_mps)
        """Speed above which an estimate shows motion for certain, m/s."""
        self.ground_fresh_ns = max(GROUND_FRESH_NS, round(limits.gnss_silence_s * 1e9))
        self.wheel_mps = float("nan")
        """Newest speed of wheels or motor, m/s, negative backward."""
        self._wheel_ns = 0
        self._wheels: SpeedMeasurement | None = None
        self._fixes: deque[tuple[float, float, float]] = deque(maxlen=FIXES)
        """East and north velocity of the last fixes, m/s, and their variance."""
        self._fixes_ns = 0
        self._motion_ns = 0
        """Newest time of validity of a speed of wheels or motor that showed motion."""
        self._places: deque[tuple[int, float, float]] = deque(maxlen=64)
        """Time, east and north of the last fixes without a velocity, ns and m."""
        self._ground: SpeedMeasurement | None = None
        self.moved_ns = 0
        """Newest time of validity of a reading that came too late to measure the speed, and showed
        motion, ns."""
        self.gnss_ignored = False
        """True during a stop in which the receiver is known to be wrong; the supervisor sets it."""
        self.ground_enu_mps = (float("nan"), float("nan"))
        """Mean velocity of the last fixes, east and north, m/s."""
        self.unmeasured = False
        """True if wheels or GNSS have measured the speed before, and neither is fresh now."""
        self.held_mps = inf
        """Speed that is not exceeded while it is not measured, m/s: the last measured one, or
        ``moving_mps`` if that is more."""
        self.doubt_m = 0.0
        """Distance by which the place along the course may be wrong because the speed is not
        measured, m."""
        self._doubt_mps = 0.0
        self._updated_ns = 0

    def on_message(self, message: Message, now_ns: int) -> None:
        """Update from a fix, a wheel speed or the telemetry of the motor."""
        if isinstance(message, GnssFix):
            self._on_fix(message, now_ns)
        elif isinstance(message, WheelSpeed) and isfinite(message.speed_mps):
            sigma = message.sigma_mps
            self._on_wheel(
                message.speed_mps, sigma if 0.0 < sigma < inf else WHEEL_SIGMA_MPS, message, now_ns
            )
        elif isinstance(message, MotorStatus) and isfinite(message.motor_speed_radps):
            self._on_wheel(
                message.motor_speed_radps * self._metres_per_rad, WHEEL_SIGMA_MPS, message, now_ns
            )

    def _on_wheel(
        self, speed_mps: float, sigma_mps: float, message: WheelSpeed | MotorStatus, now_ns: int
    ) -> None:
        self.wheel_mps, self._wheel_ns = speed_mps, _valid_ns(message, now_ns)
        self._wheels = reading = SpeedMeasurement(
            "wheels", abs(speed_mps), sigma_mps, False, self._wheel_ns
        )
        if not reading.moves:
            return
        self._motion_ns = max(self._motion_ns, self._wheel_ns)
        if now_ns - self._wheel_ns > SPEED_FRESH_NS:
            self.moved_ns = max(self.moved_ns, self._wheel_ns)

    def _on_fix(self, fix: GnssFix, now_ns: int) -> None:
        variance = max(fix.velocity_covariance_m2ps2[0], fix.velocity_covariance_m2ps2[4])
        variance = variance if 0.0 <= variance < inf else GROUND_SIGMA_MPS**2
        # A fix with an old time of validity says nothing about the present speed, however late it
        # arrives.
        if now_ns - fix.t_ns > self.ground_fresh_ns:
            if hypot(
                fix.velocity_enu_mps[0], fix.velocity_enu_mps[1]
            ) > STANDSTILL_MPS + FIX_SIGMAS * sqrt(variance):
                self.moved_ns = max(self.moved_ns, fix.t_ns)
            return
        if now_ns - self._fixes_ns > self.ground_fresh_ns:
            self._fixes.clear()
            self._places.clear()
        east, north = fix.velocity_enu_mps[0], fix.velocity_enu_mps[1]
        if isfinite(east + north):
            self._places.clear()
            self._fixes.append((east, north, variance))
            self._average(_valid_ns(fix, now_ns))
        elif fix.fix_type >= FixType.FIX_2D:
            self._fixes.clear()
            self._along_chord(fix, _valid_ns(fix, now_ns))
        else:
            return
        self._fixes_ns = min(fix.t_rx_ns, now_ns)

    def _average(self, t_ns: int) -> None:
        """Average the velocities: a mean of magnitudes would count noise as motion."""
        fixes = self._fixes
        if len(fixes) < FIXES:
            self._ground = None
            return
        east, north = sum(fix[0] for fix in fixes) / FIXES, sum(fix[1] for fix in fixes) / FIXES
        sigma = sqrt(max(fix[2] for fix in fixes) / FIXES)
        alive = any(fix[:2] != fixes[0][:2] for fix in fixes)
        self.ground_enu_mps = east, north
        contradicted = any(
            hypot(fix[0], fix[1]) > STANDSTILL_MPS + FIX_SIGMAS * sqrt(fix[2]) for fix in fixes
        )
        # A vehicle that passes through 0 on its way backward has a mean near 0 as well.
        (east_0, north_0, variance_0), (east_1, north_1, variance_1) = fixes[0], fixes[-1]
        change_mps = hypot(east_1 - east_0, north_1 - north_0)
        contradicted |= change_mps > STANDSTILL_MPS + SIGMAS * sqrt(variance_0 + variance_1)
        self._ground = SpeedMeasurement(
            "GNSS", hypot(east, north), sigma, alive, t_ns, contradicted
        )

    def _along_chord(self, fix: GnssFix, t_ns: int) -> None:
        """Fit a line to the positions of the last seconds. ``t_ns``: time of validity, not in the
        future."""
        places = self._places
        if places and fix.t_ns <= places[-1][0]:
            return
        east = EARTH_RADIUS_M * fix.longitude_rad * cos(fix.latitude_rad)
        places.append((fix.t_ns, east, EARTH_RADIUS_M * fix.latitude_rad))
        while fix.t_ns - places[0][0] > CHORD_NS:
            places.popleft()
        span_ns, count = fix.t_ns - places[0][0], len(places)
        if span_ns < SHORTEST_CHORD_NS or count < FIXES:
            self._ground = None
            return
        middle_s = sum(place[0] - places[0][0] for place in places) * 1e-9 / count
        times_s = [(place[0] - places[0][0]) * 1e-9 - middle_s for place in places]
        square = sum(t_s * t_s for t_s in times_s)
        east_mps, north_mps = (
            sum(
                t_s * (place[axis] - places[0][axis])
                for t_s, place in zip(times_s, places, strict=True)
            )
            / square
            for axis in (1, 2)
        )
        variance = max(fix.position_covariance_m2[0], fix.position_covariance_m2[4])
        sigma_m = min(sqrt(variance), PLACE_SIGMA_M) if 0.0 <= variance < inf else PLACE_SIGMA_M
        alive = any(place[1:] != places[0][1:] for place in places)
        self.ground_enu_mps = east_mps, north_mps
        # The line is level, too, where the vehicle passes through 0 on its way backward, and its
        # places are far from it.
        middle = [sum(place[axis] for place in places) / count for axis in (1, 2)]
        away_m = max(
            hypot(place[1] - middle[0] - east_mps * t_s, place[2] - middle[1] - north_mps * t_s)
            for t_s, place in zip(times_s, places, strict=True)
        )
        apart = away_m > FIX_SIGMAS * max(sigma_m, LEAST_PLACE_SIGMA_M)
        self._ground = SpeedMeasurement(
            "GNSS", hypot(east_mps, north_mps), sigma_m / sqrt(square), alive, t_ns, apart
        )

    def update(self, now_ns: int, estimated_mps: float) -> None:
        """Note whether the speed is measured, and for how long it is not; called once per tick."""
        measured_mps, dt_s = self.measured_mps(now_ns), (now_ns - self._updated_ns) * 1e-9
        if not isfinite(measured_mps):
            # Sparse fixes have no mean, and each of them measures the speed all the same.
            measured_mps = self.newest_ground_mps(now_ns)
        self._updated_ns = now_ns
        self.unmeasured = not isfinite(measured_mps) and self.held_mps < inf
        if not self.unmeasured:
            self.doubt_m = self._doubt_mps = 0.0
            if isfinite(measured_mps):
                self.held_mps = max(measured_mps, self.moving_mps)
            return
        # The throttle is held, so a slope or a drive stronger than its model change the speed, as
        # far as friction lets them.
        most_mps = DOUBT_RATIO * max(
            self.held_mps, abs(estimated_mps) if isfinite(estimated_mps) else 0.0
        )
        self._doubt_mps = min(self._doubt_mps + SLOPE_MPS2 * dt_s, most_mps)
        self.doubt_m += self._doubt_mps * dt_s

    # ---------------------------------------------------------------- what is fresh

    def ground(self, now_ns: int) -> SpeedMeasurement | None:
        """Return the speed over ground; None without fresh fixes, and while the receiver is
        ignored."""
        fresh = now_ns - self._fixes_ns <= self.ground_fresh_ns
        return self._ground if fresh and not self.gnss_ignored else None

    @property
    def gnss_repeats(self) -> bool:
        """True if the newest fixes repeat one velocity, whether it is used or not."""
        return self._ground is not None and not self._ground.independent

    def gnss_silent(self, now_ns: int) -> bool:
        """Return True if a receiver that had fixes has no fresh one."""
        return self._fixes_ns > 0 and now_ns - self._fixes_ns > self.ground_fresh_ns

    def newest_ground_mps(self, now_ns: int) -> float:
        """Return the speed of the newest fix with a velocity; NaN if it is not fresh."""
        if not self._fixes or now_ns - self._fixes_ns > self.ground_fresh_ns:
            return float("nan")
        return hypot(*self._fixes[-1][:2])

    def wheels(self, now_ns: int) -> SpeedMeasurement | None:
        """Return the speed of wheels or motor; None if it is not fresh."""
        return self._wheels if now_ns - self._wheel_ns <= SPEED_FRESH_NS else None

    def fresh(self, now_ns: int) -> list[SpeedMeasurement]:
        """Return the fresh speeds."""
        return [speed for speed in (self.wheels(now_ns), self.ground(now_ns)) if speed is not None]

    def is_current(self, speed: SpeedMeasurement) -> bool:
        """Return False for evidence of standstill older than the last motion of the wheels: fixes
        come later than wheel speeds."""
        return speed.moves or speed.t_ns >= self._motion_ns

    def fresh_wheel_mps(self, now_ns: int) -> float:
        """Return the newest speed of wheels or motor, negative backward; NaN if it is not fresh."""
        return self.wheel_mps if now_ns - self._wheel_ns <= SPEED_FRESH_NS else float("nan")

    def measured_mps(self, now_ns: int) -> float:
        """Return the larger speed of wheels and GNSS; NaN without either."""
        wheels, ground = self.wheels(now_ns), self.ground(now_ns)
        if wheels is None:
            return float("nan") if ground is None else ground.mps
        return wheels.mps if ground is None else max(wheels.mps, ground.mps)

    def signed_mps(self, now_ns: int, throttle: float) -> float:
        """Return the measured speed, for use without an estimate; NaN without a measurement.

        It is the larger of wheels and GNSS, with the sign of the wheels, else of the throttle.
        """
        measured, wheel_mps = self.measured_mps(now_ns), self.fresh_wheel_mps(now_ns)
        return copysign(
            measured, wheel_mps if isfinite(wheel_mps) and wheel_mps != 0.0 else throttle
        )

    def standstill(self, now_ns: int, ceiling_mps: float) -> StandstillEvidence:
        """Return what the fresh speeds say about standstill. ``ceiling_mps``: highest speed that
        the brake leaves possible."""
        speeds = self.fresh(now_ns)
        if any(speed.moves for speed in speeds):
            return StandstillEvidence.MOVES
        speeds = [speed for speed in speeds if self.is_current(speed)]
        if not speeds:
            return StandstillEvidence.NONE
        if any(speed.independent for speed in speeds) or ceiling_mps <= STANDSTILL_MPS:
            return StandstillEvidence.STANDS
        return StandstillEvidence.UNCONFIRMED


def _valid_ns(message: GnssFix | WheelSpeed | MotorStatus, now_ns: int) -> int:
    """Return the time of validity of a message, which is never in the future, whatever its device
    says."""
    return min(message.t_ns, message.t_rx_ns, now_ns)
