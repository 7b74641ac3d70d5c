"""The supervisor: it decides mode, arming and reaction from operator requests and the rules of the
failsafe matrix.

The most severe reaction in force wins. The condition of a rule must hold for ``persist_ms`` before
the rule trips, and be false for ``clear_ms`` before it clears. Every trip and every clearance is
one :class:`Fault` record. The vehicle never arms or resumes without a request.
"""

from collections.abc import Callable, Sequence

from vehicled.core.messages import Fault, Mode, OperatorAction, OperatorCommand, Reaction
from vehicled.core.vehicle import Limits
from vehicled.safety.arming import missing
from vehicled.safety.entry import Entry
from vehicled.safety.matrix import RULES
from vehicled.safety.modes import (
    DRIVES,
    DRIVES_OR_ARM,
    DRIVING,
    MOVING,
    MOVING_OR_ARMED,
    Trigger,
    after,
    refusal,
)
from vehicled.safety.monitors.rc import ORIGIN
from vehicled.safety.reason import Reason, ReasonCode, TrippedValue
from vehicled.safety.rule import Clear, Rule, RuleInputs, Sense
from vehicled.safety.standstill import StandstillDetector
from vehicled.safety.trip import CauseLink, Trip

ARM_REQUEST_VALID_NS = 10 * 10**9
"""Time for which a request waits for its checks, ns; then it is refused with the failed checks as
the reason."""
CHAIN_LIMIT = 16
NO_REASON = Reason("")
STUCK, UNBRAKED = "gnss_stuck", "uncommanded_motion_lasts"
"""Rules under which GNSS speed does not count as evidence of motion, and the brake is known not to
act."""


_Upper = tuple[str, Callable[[RuleInputs], float], float]
"""Code, value and constant limit."""
_Bound = tuple[str, Callable[[RuleInputs], float], float, Callable[[float, float], bool]]
"""Code, value, constant limit and comparison."""


class Supervisor:
    """State machine that decides mode, reaction and speed cap once per actuation tick."""

    def __init__(self, rules: Sequence[Rule] = RULES) -> None:
        self._rules = tuple(rules)
        # Kept apart by kind: at every tick each comparison is made here, without a function of its
        # own.
        self._flags = {
            mode: [
                (rule.code, rule.value)
                for rule in rules
                if rule.limit is None and mode in rule.modes
            ]
            for mode in Mode
        }
        self._limits: Limits | None = None
        self._upper: dict[Mode, list[_Upper]] = {}
        """Rules that hold above a constant limit, by mode."""
        self._bounds: dict[Mode, list[_Bound]] = {}
        """Rules with another comparison with a constant limit."""
        self._moving: dict[Mode, list[Rule]] = {}
        """Rules whose limit changes from tick to tick."""
        self._trips: dict[str, Trip] = {}
        self._arm_requested_ns: int | None = None
        self._wanted: OperatorAction | None = None
        self._wanted_ns, self._wanted_by = 0, ""
        self._rest = StandstillDetector()
        self._ignored: tuple[OperatorAction, Mode] | None = None
        self._seen = Mode.INIT
        """Mode at the end of the last step."""
        self.mode, self.reaction = Mode.INIT, Reaction.NONE
        self.reason = Reason(ReasonCode.MUST_STAND)
        """Reason of the present mode."""
        self.driver = ""
        """Origin of the person who drives in TELEOP, or of the program in OFFBOARD; empty in every
        other mode."""
        self._rc_drives = False
        """True while the RC operator drives in TELEOP."""
        self.speed_cap_mps = float("inf")
        """Speed limit that applies now, m/s."""
        self.releases_brake = False
        """True if the brake is released as well as the drive, because current would only heat a
        blocked motor."""
        self.waiting: list[str] = []
        """Texts of what a pending request waits for, or of why a stop does not end."""
        self.chain: list[CauseLink] = []
        """Trips since the vehicle was armed, in order: the reason of a stop with its history."""
        self.faults: list[Fault] = []
        """Trips and clearances since the last :meth:`take_faults`."""
        self.inputs: RuleInputs | None = None
        """Inputs of the last step, for display; None before the first."""
        self.entry = Entry()
        """Entry point of the newest drive along the course."""
        self.course_driven = False
        self.stopped = False
        """True if a drive has ended, for any reason, and the vehicle stands; a successful alignment
        does not count as an end."""
        self.disarmed_by = ""
        """Origin of the last disarm request since the vehicle was armed; empty if none."""

    # ---------------------------------------------------------------- requests

    def on_operator(self, command: OperatorCommand, now_ns: int, *, rc: bool = False) -> None:
        """Accept a request, which takes effect at the next :meth:`step`. A stop needs no check and
        works in every mode.

        ``rc``: it is of the RC operator, who outranks all others while he has control.
        """
        who = command.origin or "the operator"
        refused = self.refusal(command.action, rc=rc)
        ignored = (command.action, self.mode) if refused else None
        if ignored is not None and ignored != self._ignored:
            # A repeated request is answered once. The record is an answer, not a fault, so it
            # carries no reaction.
            self._record("request_refused", command.origin, Reaction.NONE, True, refused, now_ns)
        self._ignored = ignored
        if self._rc_refuses(command.action, rc=rc):
            return
        match command.action:
            case OperatorAction.ARM:
                # In FAULT an arming request includes the reset: one explicit request, the same
                # checks.
                if self.mode in (Mode.INIT, Mode.STANDBY, Mode.FAULT):
                    self._arm_requested_ns = now_ns
                if self.mode is Mode.STANDBY:
                    # Set at once, so that a reader before the next tick does not see the refusal of
                    # the last request.
                    self.reason = Reason(ReasonCode.ARMING_CHECKS)
            case (
                OperatorAction.DRIVE
                | OperatorAction.TELEOP
                | OperatorAction.ALIGN
                | OperatorAction.OFFBOARD
            ):
                self._wanted, self._wanted_ns, self._wanted_by = (
                    command.action,
                    now_ns,
                    command.origin,
                )
                aligns = command.action is OperatorAction.ALIGN
                if aligns and self.mode in (Mode.INIT, Mode.STANDBY, Mode.FAULT):
                    self._arm_requested_ns = now_ns
                if self.mode is Mode.ARMED or (aligns and self.mode is Mode.STANDBY):
                    self.reason = Reason(ReasonCode.DRIVING_CHECKS)
            case OperatorAction.STOP:
                self._call_off(who)
                self._stop(
                    Trigger.STOP, Reason(ReasonCode.STOP_REQUESTED, who), Reaction.BRAKE, now_ns
                )
            case OperatorAction.DISARM:
                self._call_off(who)
                self.disarmed_by = who
                reason = Reason(ReasonCode.DISARM_REQUESTED, who)
                if self.mode in MOVING:
                    self._stop(Trigger.DISARM, reason, Reaction.BRAKE, now_ns)
                else:
                    self._go(Trigger.DISARM, reason)
            case OperatorAction.EMERGENCY_STOP:
                reason = Reason(ReasonCode.EMERGENCY_STOP, who)
                self._chain(now_ns, Reaction.DISABLE, reason)
                self._record(
                    reason.code, command.origin, Reaction.DISABLE, True, reason.text(), now_ns
                )
                self._latch(None, reason)
                self.reason, self.reaction = reason, Reaction.DISABLE
                # A FAULT that is stopped again is a new one: what is asked for within this step
                # does not end it.
                self._seen = Mode.INIT
            case OperatorAction.RESET:
                if (
                    self.mode is not Mode.FAULT
                    and self.mode not in MOVING
                    and self.inputs is not None
                ):
                    # In FAULT a reset answers the fault; the place is another question.
                    self.inputs.monitors.consistency.accept_place()
                self._wanted, self._wanted_ns = command.action, now_ns
            case OperatorAction.NONE:
                pass

    def refusal(self, action: OperatorAction, *, rc: bool = False) -> str:
        """Return why a request is refused in this mode; empty if it is accepted or waits for its
        checks."""
        if held := self._rc_refuses(action, rc=rc):
            return held
        lasts = self.inputs.monitors.disables if self.inputs is not None else ""
        return refusal(
            action, self.mode, self.why, arms=self._arm_requested_ns is not None, lasts=lasts
        )

    def _rc_refuses(self, action: OperatorAction, *, rc: bool) -> str:
        """Return why the RC operator's switches refuse a request to arm or drive, of others or his
        own; empty if they do not."""
        s = self.inputs
        if s is None or action not in DRIVES_OR_ARM:
            return ""
        if s.monitors.rc.killed:
            return "the kill switch of the RC handset is on: switch it off, and ask again"
        if rc or action is OperatorAction.ARM or not s.monitors.rc.holds(s.now_ns):
            return ""
        return (
            "the RC operator has control: ask again when the handset's mode switch has given "
            "it back"
        )

    def _cancel_requests(self) -> None:
        self._arm_requested_ns = None
        self._wanted = None

    def _call_off(self, who: str) -> None:
        """Cancel all pending requests, and say so in the reason of the mode."""
        if self._arm_requested_ns is not None and self.mode is Mode.STANDBY:
            self.reason = Reason(ReasonCode.ARMING_WITHDRAWN, who)
        elif self._wanted is not None and self.mode is Mode.ARMED:
            self.reason = Reason(ReasonCode.DRIVING_WITHDRAWN, who)
        self._cancel_requests()

    # ---------------------------------------------------------------- step

    def step(self, s: RuleInputs) -> None:
        """Update mode, reaction and cap for this instant."""
        s.monitors.update(s)
        if s.monitors.rc.fitted:
            self._follow_rc(s)
        self._follow_requests(s)
        rule, reaction, reason = self._worst(s)
        if rule is None and reaction >= Reaction.CONTROLLED_STOP and self.mode in MOVING_OR_ARMED:
            # A rule is linked when it trips; a fault that a device reports is linked here.
            self._link(s.now_ns, reaction, reason)
        if self.mode in DRIVING:
            self._react(s, rule, reaction, reason)
        elif self.mode is Mode.STOPPING:
            if reaction is Reaction.DISABLE:
                self._latch(rule, self.reason.then(reason))
            elif reaction > self.reaction:
                self.reaction, self.reason = reaction, self.reason.then(reason)
        elif self.mode is Mode.ARMED:
            self.reaction = reaction
            if reaction >= Reaction.CONTROLLED_STOP:
                self._go(
                    Trigger.REACTION,
                    Reason(ReasonCode.DISARMED_BY_FAULT, reason.by, (reason.text(),)),
                )
        elif self.releases_brake and self._rolls(s):
            # Without current the vehicle rolls on a slope, so the brake must hold it.
            self.releases_brake = False
            self.reason = self.reason.then(
                Reason(ReasonCode.ROLLS_RELEASED, details=(f"{s.speed_mps:.2f}",))
            )
            self._chain(s.now_ns, Reaction.BRAKE, self.reason)
            self._record(self.reason.code, "", Reaction.BRAKE, True, self.why, s.now_ns)
        stands = self._stands(s)
        if self.mode is Mode.STOPPING and not stands:
            self.waiting = self._rest.unrest(s)
        else:
            self._rest.ended()
        if stands:
            if self.mode is Mode.INIT:
                # What a request was refused for is still what lacks.
                reason = (
                    self.reason
                    if self.reason.code == ReasonCode.ARMING_REFUSED
                    else Reason(ReasonCode.STANDS)
                )
                self._go(Trigger.STANDS, self._assumed(reason, s.now_ns))
            elif self.mode is Mode.STOPPING:
                self._go(Trigger.STANDS, self._assumed(self.reason, s.now_ns))
                self.stopped = not s.monitors.alignment.known
            elif self.mode is Mode.FAULT and not self.stopped:
                self.reason = self._assumed(self.reason, s.now_ns)
                self.stopped = True
        if self.mode is Mode.FAULT and self._seen is not Mode.FAULT:
            # A request from before the FAULT was made in another situation.
            self._cancel_requests()
        self._seen = self.mode
        self.inputs = s
        s.monitors.host.answered()

    def _rolls(self, s: RuleInputs) -> bool:
        """Return True if a vehicle whose brake is released rolls: fast, or on and on."""
        fast = s.monitors.motion.uncommanded_ns > s.limits.uncommanded_s * 1e9
        return fast or abs(s.monitors.progress.rolled_m) > s.limits.roll_back_m

    def _react(self, s: RuleInputs, rule: Rule | None, reaction: Reaction, reason: Reason) -> None:
        if reaction is Reaction.DISABLE:
            self._latch(rule, reason)
        elif reaction >= Reaction.CONTROLLED_STOP:
            self._stop(Trigger.REACTION, reason, reaction, s.now_ns)
        else:
            self.reaction = reaction
            if self.mode is Mode.ALIGN and self._seen is Mode.ALIGN:
                self._follow_alignment(s)
            # A drive that begins in this step has not restarted its course yet. The report of the
            # controller ends a drive, but the course is finished only where it ends: see
            # course_cut_short.
            at_end = s.controller_finished and s.monitors.place.ended
            if self.mode is Mode.AUTO and self._seen is Mode.AUTO and at_end:
                self.course_driven = True
                self._stop(
                    Trigger.STOP,
                    Reason(ReasonCode.COURSE_FINISHED),
                    Reaction.CONTROLLED_STOP,
                    s.now_ns,
                )

    def _follow_alignment(self, s: RuleInputs) -> None:
        """Stop an alignment drive that has succeeded or failed."""
        alignment = s.monitors.alignment
        if alignment.failed:
            reason = Reason(ReasonCode.ALIGNMENT_FAILED, details=(alignment.failed,))
            self._record(reason.code, "", Reaction.CONTROLLED_STOP, True, reason.text(), s.now_ns)
            self._stop(Trigger.REACTION, reason, Reaction.CONTROLLED_STOP, s.now_ns)
        elif alignment.known:
            reason = Reason(ReasonCode.HEADING_KNOWN, details=(alignment.known,))
            self._stop(Trigger.STOP, reason, Reaction.CONTROLLED_STOP, s.now_ns)

    def _latch(self, rule: Rule | None, reason: Reason) -> None:
        """Enter FAULT (S4): the drive stays disabled until the vehicle is armed again."""
        self._cancel_requests()
        self.releases_brake = rule is not None and rule.releases_brake
        self._go(Trigger.DISABLE, reason)
        self.reaction = Reaction.DISABLE

    def _expire(self, s: RuleInputs) -> None:
        """Refuse requests older than ``ARM_REQUEST_VALID_NS``, and cancel all requests after a
        suspend."""
        waited, self.waiting = self.waiting, []
        if s.monitors.host.woke_s > 0.0:
            # The monotonic clock does not count a suspend, and a request from before it was made in
            # another situation.
            self._cancel_requests()
        late_ns = s.now_ns - ARM_REQUEST_VALID_NS
        if (
            self._arm_requested_ns is not None
            and self._arm_requested_ns < late_ns
            and self.mode is not Mode.STANDBY
        ):
            self._arm_requested_ns = None
            lacking = missing(s, self._wanted) if self.mode is Mode.INIT else []
            refused = Reason(
                ReasonCode.ARMING_REFUSED, details=tuple(lacking) or ("the vehicle does not stand",)
            )
            self.reason = refused if self.mode is Mode.INIT else self.reason
            self._record(refused.code, "", Reaction.WARN, True, refused.text(), s.now_ns)
        # A pending arming request expires with its own refusal, which also ends this request and
        # names the failed checks.
        if (
            self._wanted is not None
            and self._wanted_ns < late_ns
            and self._arm_requested_ns is None
        ):
            self._wanted = None
            if self.mode is Mode.ARMED:
                details = tuple(waited) or ("the daemon stood still meanwhile, ask again",)
                self.reason = Reason(ReasonCode.DRIVING_REFUSED, details=details)
                self._record(self.reason.code, "", Reaction.NONE, True, self.why, s.now_ns)

    def _follow_requests(self, s: RuleInputs) -> None:
        self._expire(s)
        asked = self._arm_requested_ns is not None or self._wanted is OperatorAction.RESET
        # The request waits while the vehicle still rolls.
        if self.mode is Mode.FAULT and asked and self._seen is Mode.FAULT and self._stands(s):
            self._reset(s)
        if self._arm_requested_ns is not None and self.mode is Mode.STANDBY:
            self._arm(s, self._arm_requested_ns)
        if self._wanted is OperatorAction.DRIVE and self.mode is Mode.ARMED:
            # The vehicle may have been armed for TELEOP, elsewhere, or long ago, so all checks run
            # again.
            self._wait_for(missing(s))
            if not self.waiting:
                self._wanted = None
                s.monitors.alignment.reset()
                self.entry = s.monitors.place.choose(s.estimate)
                s.monitors.place.begin(self.entry, s.estimate)
                details = (self.entry.said,) if self.entry.said else ()
                self._go(Trigger.DRIVE, Reason(ReasonCode.DRIVES_COURSE, self._wanted_by, details))
        elif self._wanted is OperatorAction.ALIGN and self.mode is Mode.ARMED:
            self._wait_for(missing(s, OperatorAction.ALIGN))
            if not self.waiting:
                self._wanted = None
                s.monitors.alignment.begin(s)
                self._go(Trigger.ALIGN, Reason(ReasonCode.ALIGNS, self._wanted_by))
        elif self._wanted is OperatorAction.TELEOP and self.mode in (
            Mode.ARMED,
            Mode.AUTO,
            Mode.ALIGN,
            Mode.OFFBOARD,
        ):
            self._take_by_hand(s)
        elif self._wanted is OperatorAction.OFFBOARD and self.mode in (Mode.ARMED, Mode.AUTO):
            self._take_offboard(s)
        # A request that the mode does not allow must not take effect later by surprise.
        waits = self._arm_requested_ns is not None or self.mode in (
            Mode.ARMED,
            Mode.AUTO,
            Mode.ALIGN,
            Mode.OFFBOARD,
        )
        if self._wanted is not None and not waits:
            resets = self.mode is Mode.FAULT and self._wanted is OperatorAction.RESET
            self._wanted = self._wanted if resets else None

    def _take_by_hand(self, s: RuleInputs) -> None:
        """Enter TELEOP: from a drive at any time, from ARMED once all checks pass."""
        teleop = s.monitors.teleop
        lacking = [
            f"driving by hand waits: {text}"
            for text in (teleop.missing(self._wanted_by, s.now_ns),)
            if text
        ]
        if self.mode is Mode.ARMED:
            self._wait_for(lacking + missing(s, OperatorAction.TELEOP))
        else:
            self.waiting = lacking
        if teleop.command is not None and not self.waiting:
            self._wanted = None
            teleop.driver = teleop.command.origin
            s.monitors.alignment.begin_by_hand(s)
            if self._go(Trigger.TELEOP, Reason(ReasonCode.TELEOP, teleop.command.origin)):
                self.driver, self._rc_drives = teleop.command.origin, teleop.by_rc

    def _follow_rc(self, s: RuleInputs) -> None:
        """Do what the RC operator switched, and let him drive while he has control, whatever drove
        before."""
        rc, now_ns = s.monitors.rc, s.now_ns
        if rc.killed:
            # What was asked for before must not take effect as the switch is moved back.
            self._cancel_requests()
        by_rc = self.mode is Mode.TELEOP and s.monitors.teleop.by_rc
        for action in rc.take_requests():
            # Back to AUTO leads through a stop.
            self._ask_for_rc(
                OperatorAction.STOP if by_rc and action is OperatorAction.DRIVE else action, now_ns
            )
        takes_over = rc.take_takeover()
        if rc.holds(now_ns) and self._wanted in DRIVES:
            # Others may have asked before he took control, and wait for a check.
            self._wanted = None
        if not rc.holds(now_ns):
            if by_rc and rc.alive(now_ns):
                self._ask_for_rc(OperatorAction.STOP, now_ns)
        elif self.mode is Mode.ARMED:
            self._wanted, self._wanted_ns, self._wanted_by = OperatorAction.TELEOP, now_ns, ORIGIN
        elif self.mode in DRIVING and not (self.mode is Mode.TELEOP and self._rc_drives):
            self._take_by_rc(s)
        elif self.mode is Mode.STOPPING and takes_over:
            lasts = self._lasting(s)
            if lasts:
                self._record(
                    "request_refused",
                    ORIGIN,
                    Reaction.NONE,
                    True,
                    f"the cause of the stop lasts: {lasts}",
                    now_ns,
                )
            else:
                self._take_by_rc(s)
        if self.mode in (Mode.INIT, Mode.STANDBY):
            rc.disarmed()

    def _ask_for_rc(self, action: OperatorAction, now_ns: int) -> None:
        self.on_operator(OperatorCommand(now_ns, now_ns, action, ORIGIN), now_ns, rc=True)

    def _lasting(self, s: RuleInputs) -> str:
        """Return what would stop the vehicle again if the RC operator drove it now; empty if
        nothing would."""
        rules = [
            rule.reason(s)
            for rule in self._rules
            if Mode.TELEOP in rule.modes
            and rule.reaction >= Reaction.CONTROLLED_STOP
            and rule.holds(s)
        ]
        return "; ".join(
            rules
            + [
                f.reason
                for f in s.monitors.device_faults.values()
                if f.reaction >= Reaction.CONTROLLED_STOP
            ]
        )

    def _take_by_rc(self, s: RuleInputs) -> None:
        """Enter TELEOP, or take it from another stick, without waiting for a neutral stick."""
        before, teleop = self.driver or self.mode.name, s.monitors.teleop
        if not teleop.by_rc or not teleop.held:
            return
        if self.mode is Mode.STOPPING:
            # What still holds in TELEOP was asked before.
            for rule in self._rules:
                if rule.reaction >= Reaction.CONTROLLED_STOP:
                    self._trips.pop(rule.code, None)
        self._go(Trigger.RC, Reason(ReasonCode.TELEOP, ORIGIN))
        teleop.driver, self.driver, self._rc_drives = ORIGIN, ORIGIN, True
        s.monitors.alignment.begin_by_hand(s)
        self._record(
            "rc_takeover",
            ORIGIN,
            Reaction.NONE,
            True,
            f"the RC operator took over from {before}",
            s.now_ns,
        )

    def _take_offboard(self, s: RuleInputs) -> None:
        """Enter OFFBOARD: from a drive along the course at once, from ARMED once all checks
        pass."""
        setpoints = s.monitors.setpoints
        lacking = [text for text in (setpoints.missing(self._wanted_by, s.now_ns),) if text]
        if self.mode is Mode.ARMED:
            self._wait_for(lacking + missing(s, OperatorAction.OFFBOARD))
        else:
            self.waiting = lacking
        if not self.waiting:
            self._wanted = None
            s.monitors.alignment.reset()
            setpoints.drives = self._go(
                Trigger.OFFBOARD, Reason(ReasonCode.OFFBOARD, setpoints.holder)
            )
            self.driver = setpoints.holder

    def _wait_for(self, lacking: list[str]) -> None:
        """Store what an armed vehicle still waits for before it drives."""
        self.waiting = lacking
        if lacking:
            self.reason = Reason(ReasonCode.DRIVING_WAITS, details=tuple(lacking))

    def _arm(self, s: RuleInputs, requested_ns: int) -> None:
        wanted = self._wanted
        self.waiting = missing(s, wanted)
        late = s.now_ns - requested_ns > ARM_REQUEST_VALID_NS
        if late and not self.waiting:
            self.waiting = ["the daemon stood still meanwhile: ask again"]
        if not self.waiting:
            self._arm_requested_ns = None
            self._trips.clear()
            self.chain.clear()
            s.monitors.reset()
            self.stopped = self.course_driven = False
            self.disarmed_by = ""
            self.reaction = Reaction.NONE
            self._go(Trigger.ARM, Reason(ReasonCode.ARMED))
            return
        self.reason = Reason(
            ReasonCode.ARMING_REFUSED if late else ReasonCode.ARMING_WAITS,
            details=tuple(self.waiting),
        )
        if late:
            self._cancel_requests()
            self._record(self.reason.code, "", Reaction.WARN, True, self.why, s.now_ns)

    def _reset(self, s: RuleInputs) -> None:
        """Leave FAULT, unless its cause is still present."""
        if self._wanted is OperatorAction.RESET:
            self._wanted = None
        self._trips.clear()
        _, reaction, reason = self._worst(s)
        if reaction >= Reaction.DISABLE:
            self._arm_requested_ns = None
            self._record(
                "reset_refused", "", Reaction.WARN, True, f"the cause lasts: {reason}", s.now_ns
            )
            return
        self.releases_brake = False
        self.reaction = Reaction.NONE
        self._go(Trigger.RESET, Reason(ReasonCode.RESET))

    @property
    def why(self) -> str:
        """Text of :attr:`reason`, for people."""
        return self.reason.text()

    def in_force(self, code: str) -> Reason | None:
        """Return why a rule is in force; None while it is not."""
        trip = self._trips.get(code)
        return trip.reason if trip is not None and trip.tripped else None

    def _arrange(self, limits: Limits) -> None:
        """Evaluate every limit that reads nothing but these, once instead of at every tick. Most
        of them are upper ones, which need no call to compare."""
        self._limits = limits
        compared = [(rule, rule.constant_limit(limits)) for rule in self._rules if rule.limit]
        for mode in Mode:
            here = [(rule, limit) for rule, limit in compared if mode in rule.modes]
            self._upper[mode] = [
                (rule.code, rule.value, limit)
                for rule, limit in here
                if limit is not None and rule.sense is Sense.OVER
            ]
            self._bounds[mode] = [
                (rule.code, rule.value, limit, rule.sense.compare)
                for rule, limit in here
                if limit is not None and rule.sense is not Sense.OVER
            ]
            self._moving[mode] = [rule for rule, limit in here if limit is None]

    def _worst(self, s: RuleInputs) -> tuple[Rule | None, Reaction, Reason]:
        """Return the most severe reaction in force, with its rule and reason. This also sets the
        speed cap."""
        if s.limits is not self._limits:
            self._arrange(s.limits)
        worst: tuple[Rule | None, Reaction, Reason] = (None, Reaction.NONE, NO_REASON)
        cap = s.monitors.stopping.cap_mps if self.mode is Mode.AUTO else float("inf")
        holding = [code for code, flag in self._flags[self.mode] if flag(s)]
        holding += [code for code, value, limit in self._upper[self.mode] if value(s) > limit]
        holding += [
            code
            for code, value, limit, compare in self._bounds[self.mode]
            if compare(value(s), limit)
        ]
        holding += [rule.code for rule in self._moving[self.mode] if rule.holds(s)]
        # About fifty rules run at every tick, and nearly always none of them has a trip to update.
        for rule in self._rules if holding or self._trips else ():
            holds = rule.code in holding
            if not holds and rule.code not in self._trips:
                continue
            trip = self._follow(rule, s, holds=holds)
            if trip is None:
                continue
            if rule.reaction is Reaction.CAP_SPEED:
                cap = min(cap, rule.cap_mps(s))
            if rule.reaction > worst[1]:
                worst = rule, rule.reaction, trip.reason
        for fault in s.monitors.device_faults.values():
            if fault.reaction is Reaction.CAP_SPEED:
                cap = min(cap, s.limits.capped_speed_mps)
            if fault.reaction > worst[1]:
                worst = None, fault.reaction, Reason(fault.code, fault.origin, (fault.reason,))
        self.speed_cap_mps = cap
        return worst

    def _follow(self, rule: Rule, s: RuleInputs, *, holds: bool) -> Trip | None:
        """Update the trip of one rule and return it while it is in force. A mode change does not
        clear a trip."""
        trip = self._trips.get(rule.code)
        if holds:
            if trip is None:
                trip = self._trips[rule.code] = Trip(s.now_ns)
            trip.gone_ns = None
            if not trip.tripped and s.now_ns - trip.since_ns >= rule.persist_ms * 1e6:
                trip.tripped, trip.reason = True, rule.reason_now(s)
                self._chain(s.now_ns, rule.reaction, trip.reason)
                self._record(
                    rule.code,
                    "",
                    rule.reaction,
                    True,
                    trip.reason.text(),
                    s.now_ns,
                    trip.reason.measured,
                )
        elif trip is not None:
            if not trip.tripped:
                del self._trips[rule.code]
            elif rule.clear is Clear.ITSELF:
                if trip.gone_ns is None:
                    trip.gone_ns = s.now_ns
                if s.now_ns - trip.gone_ns >= rule.clear_ms * 1e6:
                    del self._trips[rule.code]
                    self._record(
                        rule.code,
                        "",
                        rule.reaction,
                        False,
                        trip.reason.text(),
                        s.now_ns,
                        rule.reason_now(s).measured,
                    )
                    return None
        return trip if trip is not None and trip.tripped else None

    # ---------------------------------------------------------------- transitions between modes

    def _go(self, trigger: Trigger, reason: Reason) -> bool:
        """Make the transition of the table and return True; return False if the present mode has
        none."""
        mode = after(self.mode, trigger)
        if mode is None:
            return False
        if self.mode is Mode.OFFBOARD and self.inputs is not None:
            self.inputs.monitors.setpoints.drives = False
        self.mode, self.reason, self.driver = mode, reason, ""
        return True

    def _stop(self, trigger: Trigger, reason: Reason, reaction: Reaction, now_ns: int) -> None:
        if self._go(trigger, reason):
            self.reaction = reaction
            self._link(now_ns, reaction, reason)
        elif self.mode is Mode.STOPPING and reaction > self.reaction:
            # A harder stop replaces the gentle one in progress.
            self.reaction, self.reason = reaction, self.reason.then(reason)
            self._chain(now_ns, reaction, reason)

    def _stands(self, s: RuleInputs) -> bool:
        # Without a trustworthy speed the brake stays on, and neither STOPPING nor INIT ends: the
        # daemon may restart on the move.
        return self._rest.stands(
            s,
            gnss_stuck=self.in_force(STUCK) is not None,
            brake_fails=self.in_force(UNBRAKED) is not None,
        )

    def _assumed(self, reason: Reason, now_ns: int) -> Reason:
        """Return the reason of a standstill with a mark, and record the mark, if nothing measured
        that standstill."""
        if self._rest.assumed_s == 0.0:
            return reason
        mark = Reason(ReasonCode.STANDSTILL_ASSUMED, details=(f"{self._rest.assumed_s:.1f}",))
        self._chain(now_ns, Reaction.WARN, mark)
        self._record(mark.code, "", Reaction.WARN, True, mark.text(), now_ns)
        return reason.then(mark)

    # ---------------------------------------------------------------- records

    def _link(self, now_ns: int, reaction: Reaction, reason: Reason) -> None:
        """Chain a cause, unless the chain has it with this reaction or a harder one."""
        key = reason.code, reason.by
        if all(
            (link.reason.code, link.reason.by) != key or link.reaction < reaction
            for link in self.chain
        ):
            self._chain(now_ns, reaction, reason)

    def _chain(self, now_ns: int, reaction: Reaction, reason: Reason) -> None:
        if len(self.chain) >= CHAIN_LIMIT:
            # An intermittent cap must not displace the cause of the stop.
            mildest = min(link.reaction for link in self.chain)
            if mildest > reaction:
                return
            del self.chain[next(k for k, link in enumerate(self.chain) if link.reaction is mildest)]
        self.chain.append(CauseLink(now_ns, reaction, reason))

    def _record(
        self,
        code: str,
        origin: str,
        reaction: Reaction,
        active: bool,
        reason: str,
        now_ns: int,
        measured: TrippedValue | None = None,
    ) -> None:
        numbers = () if measured is None else (measured.value, measured.limit, measured.unit)
        self.faults.append(Fault(now_ns, code, origin, reaction, active, reason, *numbers))

    def take_faults(self) -> list[Fault]:
        """Drain the trips and clearances since the last call."""
        if not self.faults:
            return []
        faults, self.faults = self.faults, []
        return faults
