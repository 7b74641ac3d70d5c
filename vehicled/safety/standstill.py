"""Standstill detection: seen by wheels and GNSS beside the estimate, or assumed by half of the
brake where nothing measures."""

from math import inf, isfinite

from vehicled.core.messages import ImuSample, Mode, MotorStatus
from vehicled.core.vehicle import STANDSTILL_MPS
from vehicled.safety.modes import DRIVING, MOVING
from vehicled.safety.monitors.speed import StandstillEvidence
from vehicled.safety.rule import RuleInputs

REPEATS_NS = 3 * 10**9
"""Time for which a GNSS receiver that repeats one velocity still counts, ns."""
SOLE_NS = 10**9
"""Time for which measured speeds must show the standstill of a stop without a finite estimate, ns:
it is no second witness, and a receiver whose fixes contradict each other shows 0 for moments."""
UNREST_NS = 3 * 10**9
"""Time after which a stop that has not ended reports why, ns."""
MARGIN_NS = 10**9
"""Time beyond the stopping time of half the brake after which a standstill that nothing measures is
assumed, ns."""
MOVED_NS = 3 * 10**9
"""Time after a late reading that showed motion, before which no standstill is assumed, ns: it
measures no present speed, and says that the brake does not act."""

FELT_RATIO = 0.6
"""Part of its speed that the accelerometer must have felt a vehicle lose, before its standstill is
assumed."""


class StandstillDetector:
    """Detector of the standstill at the start and at the end of a stop. Without evidence there is
    no standstill.

    The estimate predicts with brake commands that may not have acted, so a measured speed must
    confirm it. Wheels may be locked and a receiver may repeat itself: they count once the vehicle
    has stopped by half of its brake as well.
    """

    def __init__(self) -> None:
        self._seen_since_ns: int | None = None
        """Time since which the measured speeds show standstill; None while they do not."""
        self._stopped_since_ns: int | None = None
        """Time since which half the brake has certainly stopped the vehicle; None before."""
        self._moves_since_ns: int | None = None
        """Start of the present stop; None while there is none."""
        self._repeats_since_ns: int | None = None
        """Time since which the receiver repeats one velocity during a stop; None while it does
        not."""
        self._evidence = StandstillEvidence.NONE
        self._now_ns: int | None = None
        self._fast_mps = self._felt_mps = 0.0
        """Last measured speed and what the accelerometer has felt come since, and the part of both
        that it has felt go."""
        self._gained_mps = 0.0
        """Speed that the accelerometer has felt come in a drive since the last measurement."""
        self.assumed_s = 0.0
        """Time after which the standstill was assumed, s; 0 if it is seen."""

    def stands(self, s: RuleInputs, *, gnss_stuck: bool, brake_fails: bool) -> bool:
        """Return True at standstill; called once per tick. ``gnss_stuck`` and ``brake_fails``:
        these rules are in force."""
        estimate, motion = s.estimate, s.monitors.motion
        self.assumed_s = 0.0
        s.monitors.speed.gnss_ignored = self._ignored(s, gnss_stuck=gnss_stuck)
        self._feel(s)
        # How far the brake has slowed the vehicle is known only if it gets its commands and obeys
        # them.
        ceiling_mps = inf if brake_fails or _unreachable(s) else motion.ceiling_mps
        stopped = ceiling_mps <= 0.0 and not self._unfelt(s) and not _moved(s)
        self._stopped_since_ns = None if not stopped else self._stopped_since_ns or s.now_ns
        moves = (
            estimate is not None
            and isfinite(estimate.speed_mps)
            and abs(estimate.speed_mps) >= STANDSTILL_MPS
        )
        # Throttle that was commanded just now has yet to act, while everything still shows
        # standstill.
        if estimate is None or moves or not _fresh(s) or motion.driven:
            self._seen_since_ns = None
            return False
        self._evidence = s.monitors.speed.standstill(s.now_ns, ceiling_mps)
        if (
            self._evidence is StandstillEvidence.STANDS
            and self._gained_mps > s.monitors.speed.moving_mps
        ):
            # A receiver that has repeated itself since before the start shows a standstill that the
            # accelerometer contradicts.
            self._evidence = StandstillEvidence.NONE
        if self._evidence is not StandstillEvidence.STANDS:
            self._seen_since_ns = None
        elif self._seen_since_ns is None:
            self._seen_since_ns = s.now_ns
        if self._seen_since_ns is not None:
            stops = s.mode in (Mode.STOPPING, Mode.FAULT)
            return (
                isfinite(estimate.speed_mps)
                or not stops
                or s.now_ns - self._seen_since_ns >= SOLE_NS
            )
        if self._evidence is not StandstillEvidence.NONE:
            return False
        if self._stopped_since_ns is None or s.now_ns - self._stopped_since_ns < MARGIN_NS:
            return False
        began_ns = self._stopped_since_ns if self._moves_since_ns is None else self._moves_since_ns
        self.assumed_s = (s.now_ns - began_ns) * 1e-9
        return True

    def _ignored(self, s: RuleInputs, *, gnss_stuck: bool) -> bool:
        """Return True during a stop in which the receiver is stuck: its place repeats, or its
        velocity has for a while.

        A live receiver counts even where its fixes contradict the estimate, which may trust a brake
        that does not act.
        """
        stops = s.mode in (Mode.STOPPING, Mode.FAULT)
        if not stops or not s.monitors.speed.gnss_repeats:
            self._repeats_since_ns = None
        elif self._repeats_since_ns is None:
            self._repeats_since_ns = s.now_ns
        repeats = (
            self._repeats_since_ns is not None and s.now_ns - self._repeats_since_ns >= REPEATS_NS
        )
        return stops and ((gnss_stuck and s.monitors.gnss.repeats) or repeats)

    def _feel(self, s: RuleInputs) -> None:
        """Add up what the accelerometer feels while nothing measures the speed.

        In a stop, less than the brake certainly gives is a slope, or a vehicle that rolls out: its
        drive or brake may not obey.
        """
        before_ns, self._now_ns = self._now_ns, s.now_ns
        speed, speed_mps = s.monitors.speed, abs(s.speed_mps)
        wheels, ground = speed.wheels(s.now_ns), speed.ground(s.now_ns)
        # A receiver that repeats itself measures nothing.
        alive = [
            each
            for each in (wheels, ground)
            if each is not None and (each is wheels or each.independent)
        ]
        measured = [each.mps for each in alive if speed.is_current(each)]
        if measured or before_ns is None:
            known = [*measured, speed_mps] if isfinite(speed_mps) else measured
            self._fast_mps, self._felt_mps, self._gained_mps = (
                max(known, default=speed.held_mps),
                0.0,
                0.0,
            )
            return
        if s.mode not in MOVING and s.mode is not Mode.FAULT:
            self._gained_mps = 0.0
        inertial, motion = s.monitors.inertial, s.monitors.motion
        felt_mps2 = inertial.rest_mps2 - inertial.forward_mps2
        felt_mps = (
            (motion.sense * felt_mps2 if motion.sense else abs(felt_mps2))
            * (s.now_ns - before_ns)
            * 1e-9
        )
        if s.mode in (Mode.STOPPING, Mode.FAULT):
            if felt_mps >= motion.braking_mps2 * (s.now_ns - before_ns) * 1e-9:
                self._felt_mps += felt_mps
        elif felt_mps > 0.0:
            self._felt_mps += felt_mps
        elif felt_mps < 0.0:
            self._fast_mps -= felt_mps
            self._gained_mps -= felt_mps if s.mode in DRIVING and _feels(s) else 0.0

    def _unfelt(self, s: RuleInputs) -> bool:
        """Return True if an accelerometer that is alive has not felt the brake take the speed."""
        return (
            _feels(s)
            and self._fast_mps > s.monitors.speed.moving_mps
            and self._felt_mps < FELT_RATIO * self._fast_mps
        )

    def ended(self) -> None:
        """Note that no stop is in progress."""
        self._moves_since_ns = None

    def unrest(self, s: RuleInputs) -> list[str]:
        """Return why a stop has not ended, once it takes too long; the vehicle accepts no other
        request until it ends."""
        if self._moves_since_ns is None:
            self._moves_since_ns = s.now_ns
        if s.now_ns - self._moves_since_ns < UNREST_NS:
            return []
        estimate = s.estimate
        if estimate is None or not _fresh(s):
            said = "there is no fresh estimate: look after the sensors"
        elif abs(estimate.speed_mps) >= STANDSTILL_MPS:
            said = f"the estimate says {estimate.speed_mps:.2f} m/s: hold the vehicle"
        elif self._evidence is StandstillEvidence.MOVES:
            speed = s.monitors.speed.measured_mps(s.now_ns)
            said = (
                f"wheels or GNSS measure {speed:.2f} m/s and the estimate does not: hold the "
                "vehicle, look at both"
            )
        elif self._evidence is StandstillEvidence.UNCONFIRMED:
            said = (
                "only wheels, or a receiver that repeats itself, say that it stands: they "
                "count once half the brake has stopped it"
            )
            if lost := _unreachable(s):
                said += f" ({lost})"
        elif lost := _unreachable(s):
            said = (
                f"no wheel or GNSS speed is fresh, and {lost}: hold the vehicle, look after "
                "the sensors"
            )
        elif _moved(s):
            age_s = (s.now_ns - s.monitors.speed.moved_ns) * 1e-9
            said = (
                f"no wheel or GNSS speed is fresh, and late readings showed motion {age_s:.1f} "
                "s ago: hold the vehicle"
            )
        elif self._unfelt(s):
            lost = f"the accelerometer has felt {self._felt_mps:.2f} of {self._fast_mps:.2f} m/s go"
            said = (
                f"no wheel or GNSS speed is fresh, and {lost}: the drive may not obey, hold "
                "the vehicle"
            )
        else:
            said = (
                "no wheel or GNSS speed is fresh: braked until half of the brake has stopped "
                "it; look after the sensors"
            )
        return [f"it is not known to stand: {said}"]


def _fresh(s: RuleInputs) -> bool:
    return s.estimate_age_ns <= s.limits.estimate_silence_s * 1e9


def _feels(s: RuleInputs) -> bool:
    """Return True if the accelerometer is alive, and knows its reading at rest."""
    alive = s.monitors.sources.age_ns(ImuSample, s.now_ns) <= s.limits.imu_silence_s * 1e9
    return alive and s.monitors.inertial.has_force and isfinite(s.monitors.inertial.rest_mps2)


def _moved(s: RuleInputs) -> bool:
    """Return True if a late fix or wheel speed shows motion a short time ago."""
    speed = s.monitors.speed
    return not speed.gnss_ignored and s.now_ns - speed.moved_ns < MOVED_NS


def _unreachable(s: RuleInputs) -> str:
    """Return why the brake command is not known to arrive; empty if nothing speaks against it."""
    if s.actuator_lost:
        return f"the actuator cannot be reached ({s.actuator_lost})"
    silence_ns = s.limits.telemetry_silence_s * 1e9
    if s.monitors.telemetry and s.monitors.sources.age_ns(MotorStatus, s.now_ns) > silence_ns:
        return "the actuator sends no telemetry"
    return ""
