"""Modes, arming and reactions: one fold over what the operator asks and what the rules of the matrix see.

The most severe reaction in force wins. A rule must hold for its ``persist_ms`` before it trips and be gone for its ``clear_ms``
before it clears; every trip and every clearance is one :class:`Fault` record. Nothing arms or resumes by itself.
"""

from collections.abc import Sequence

from vehicled.messages import Fault, Mode, OperatorAction, OperatorCommand, Reaction
from vehicled.safety.arming import missing
from vehicled.safety.entry import Entry
from vehicled.safety.inputs import SafetyInputs
from vehicled.safety.matrix import RULES
from vehicled.safety.modes import DRIVING, MOVING, Trigger, after, refusal
from vehicled.safety.rule import Clear, Rule
from vehicled.safety.standstill import StandstillDetector
from vehicled.safety.trip import Link, Trip
from vehicled.vehicle import STANDSTILL_MPS

ARM_REQUEST_VALID_NS = 10 * 10**9
"""A request waits this long for its checks to pass, then it is refused with what was missing."""
CHAIN_LIMIT = 16
STUCK, REFUSED = "gnss_stuck", "gnss_refused"
"""Rules after which the receiver is no witness, and one in doubt."""


class Supervisor:
    """Decides mode, reaction and speed cap, once per actuation tick."""

    def __init__(self, rules: Sequence[Rule] = RULES) -> None:
        self._rules = {mode: [(rule, mode in rule.modes) for rule in rules] for mode in Mode}
        self._trips: dict[str, Trip] = {}
        self._arm_requested_ns: int | None = None
        self._wanted: OperatorAction | None = None
        self._wanted_ns, self._wanted_by = 0, ""
        self._rest = StandstillDetector()
        self._ignored: tuple[OperatorAction, Mode] | None = None
        self._seen = Mode.INIT
        """Mode at the end of the last step."""
        self.mode, self.reaction = Mode.INIT, Reaction.NONE
        self.why = "waiting for the vehicle to stand still"
        """Reason of the present mode, in words."""
        self.speed_cap_mps = float("inf")
        """Speed allowed now."""
        self.releases_brake = False
        """Neither drive nor brake: a motor that would only heat."""
        self.waiting: list[str] = []
        """What a request waits for, while it does, or what a stop that does not end."""
        self.chain: list[Link] = []
        """Everything that tripped since the vehicle was armed, in order: why it stopped, with what led to it."""
        self.faults: list[Fault] = []
        """Trips and clearances since they were last taken."""
        self.situation: SafetyInputs | None = None
        """What the last step looked at, for those who show it."""
        self.entry = Entry()
        """Where the newest drive along the course began."""
        self.course_driven = False
        self.stopped = False
        """A drive has ended, whatever the reason, and the vehicle stands; an alignment that succeeded is the beginning of one."""
        self.disarmed_by = ""
        """Who asked for disarming since the vehicle was armed; empty when nobody did."""

    # ---------------------------------------------------------------- requests

    def on_operator(self, command: OperatorCommand, now_ns: int) -> None:
        """A request: takes effect at the next :meth:`step`. Stopping needs no check and no mode."""
        who = command.origin or "the operator"
        refused = self.refusal(command.action)
        ignored = (command.action, self.mode) if refused else None
        if ignored is not None and ignored != self._ignored:
            # Once, however often it is asked for. An answer, and no fault: nothing is in force.
            self._record("request_refused", command.origin, Reaction.NONE, True, refused, now_ns)
        self._ignored = ignored
        match command.action:
            case OperatorAction.ARM:
                # Out of FAULT arming leads by way of a reset: one explicit request, the same checks.
                if self.mode in (Mode.INIT, Mode.STANDBY, Mode.FAULT):
                    self._arm_requested_ns = now_ns
                if self.mode is Mode.STANDBY:
                    # At once: who looks before the next tick must not take the refusal of the last request for that of this one.
                    self.why = "arming waits for its checks"
            case OperatorAction.DRIVE | OperatorAction.TELEOP | OperatorAction.ALIGN:
                self._wanted, self._wanted_ns, self._wanted_by = command.action, now_ns, command.origin
                aligns = command.action is OperatorAction.ALIGN
                if aligns and self.mode in (Mode.INIT, Mode.STANDBY, Mode.FAULT):
                    self._arm_requested_ns = now_ns
                if self.mode is Mode.ARMED or (aligns and self.mode is Mode.STANDBY):
                    self.why = "driving waits for its checks"
            case OperatorAction.STOP:
                self._call_off(who)
                self._stop(Trigger.STOP, f"stopped by {who}", Reaction.BRAKE, now_ns, "operator")
            case OperatorAction.DISARM:
                self._call_off(who)
                self.disarmed_by = who
                if self.mode in MOVING:
                    self._stop(Trigger.DISARM, f"disarmed by {who}", Reaction.BRAKE, now_ns, "operator")
                else:
                    self._go(Trigger.DISARM, f"disarmed by {who}")
            case OperatorAction.EMERGENCY_STOP:
                why = f"emergency stop by {who}"
                self._chain(now_ns, "emergency_stop", Reaction.DISABLE, why)
                self._record("emergency_stop", command.origin, Reaction.DISABLE, True, why, now_ns)
                self._latch(None, why)
                self.why, self.reaction = why, Reaction.DISABLE
            case OperatorAction.RESET:
                self._wanted, self._wanted_ns = command.action, now_ns
            case OperatorAction.NONE:
                pass

    def refusal(self, action: OperatorAction) -> str:
        """Why a request leads nowhere in this mode, in words; empty when it is followed, or waits for its checks."""
        lasts = self.situation.watch.disables if self.situation is not None else ""
        return refusal(action, self.mode, self.why, arms=self._arm_requested_ns is not None, lasts=lasts)

    def _cancel_requests(self) -> None:
        self._arm_requested_ns = None
        self._wanted = None

    def _call_off(self, who: str) -> None:
        """Nothing waits any more, and nothing says that it does."""
        if self._arm_requested_ns is not None and self.mode is Mode.STANDBY:
            self.why = f"arming called off by {who}"
        elif self._wanted is not None and self.mode is Mode.ARMED:
            self.why = f"driving called off by {who}"
        self._cancel_requests()

    # ---------------------------------------------------------------- the fold

    def step(self, s: SafetyInputs) -> None:
        """Update mode, reaction and cap for this instant."""
        s.watch.update(s)
        self._follow_requests(s)
        rule, reaction, reason = self._worst(s)
        if self.mode in DRIVING:
            self._react(s, rule, reaction, reason)
        elif self.mode is Mode.STOPPING:
            if reaction is Reaction.DISABLE:
                self._latch(rule, f"{self.why}; then {reason}")
            elif reaction > self.reaction:
                self.reaction, self.why = reaction, f"{self.why}; then {reason}"
        elif self.mode is Mode.ARMED:
            self.reaction = reaction
            if reaction >= Reaction.CONTROLLED_STOP:
                self._go(Trigger.REACTION, f"disarmed: {reason}")
        elif self.releases_brake and s.watch.motion.uncommanded_ns > s.limits.uncommanded_s * 1e9:
            # Without current it rolls: on a slope the brake must hold what the drive could not move.
            self.releases_brake = False
            self.why = f"{self.why}; then it rolled at {s.speed_mps:.2f} m/s: braked"
            self._chain(s.now_ns, "rolls_released", Reaction.BRAKE, self.why)
            self._record("rolls_released", "", Reaction.BRAKE, True, self.why, s.now_ns)
        stands = self._stands(s)
        if self.mode is Mode.STOPPING and not stands:
            self.waiting = self._rest.unrest(s)
        else:
            self._rest.ended()
        if stands:
            if self.mode is Mode.INIT:
                self._go(Trigger.STANDS, "waiting to be armed")
            elif self.mode is Mode.STOPPING:
                self._go(Trigger.STANDS, self.why)
                self.stopped = not s.watch.alignment.known
            elif self.mode is Mode.FAULT:
                self.stopped = True
        if self.mode is Mode.FAULT and self._seen is not Mode.FAULT:
            # What was asked for before FAULT reached the wheels was asked for in another situation.
            self._cancel_requests()
        self._seen = self.mode
        self.situation = s
        s.watch.host.answered()

    def _react(self, s: SafetyInputs, rule: Rule | None, reaction: Reaction, reason: str) -> None:
        if reaction is Reaction.DISABLE:
            self._latch(rule, reason)
        elif reaction >= Reaction.CONTROLLED_STOP:
            self._stop(Trigger.REACTION, reason, reaction, s.now_ns, rule.code if rule is not None else "device")
        else:
            self.reaction = reaction
            if self.mode is Mode.ALIGN and self._seen is Mode.ALIGN:
                self._follow_alignment(s)
            # A drive that begins in this step has not begun its course anew yet.
            if self.mode is Mode.AUTO and self._seen is Mode.AUTO and s.course_finished:
                self.course_driven = True
                self._stop(Trigger.STOP, "the course is finished", Reaction.CONTROLLED_STOP, s.now_ns, "course_finished")

    def _follow_alignment(self, s: SafetyInputs) -> None:
        """Stop an alignment that has found the heading, or cannot."""
        alignment = s.watch.alignment
        if alignment.failed:
            why, code = f"alignment failed: {alignment.failed}", "alignment_failed"
            self._record(code, "", Reaction.CONTROLLED_STOP, True, why, s.now_ns)
            self._stop(Trigger.REACTION, why, Reaction.CONTROLLED_STOP, s.now_ns, code)
        elif alignment.known:
            self._stop(Trigger.STOP, alignment.known, Reaction.CONTROLLED_STOP, s.now_ns, "heading_known")

    def _latch(self, rule: Rule | None, why: str) -> None:
        """S4: no drive any more until somebody arms anew."""
        self._cancel_requests()
        self.releases_brake = rule is not None and rule.releases_brake
        self._go(Trigger.DISABLE, why)
        self.reaction = Reaction.DISABLE

    def _expire(self, s: SafetyInputs) -> None:
        """What has waited for too long, through a mode that does not allow it or a loop that stood still, does not come true."""
        waited, self.waiting = self.waiting, []
        if s.watch.host.woke_s > 0.0:
            # The monotonic clock did not count the sleep: what was asked for before it was asked for in another situation.
            self._cancel_requests()
        late_ns = s.now_ns - ARM_REQUEST_VALID_NS
        if self._arm_requested_ns is not None and self._arm_requested_ns < late_ns and self.mode is not Mode.STANDBY:
            self._arm_requested_ns = None
            self._record("arming_refused", "", Reaction.WARN, True, "arming refused: the vehicle does not stand", s.now_ns)
        # While arming waits its refusal ends both, and says what was missing for this very request.
        if self._wanted is not None and self._wanted_ns < late_ns and self._arm_requested_ns is None:
            self._wanted = None
            if self.mode is Mode.ARMED:
                self.why = "driving refused: " + ("; ".join(waited) or "the daemon stood still meanwhile, ask again")
                self._record("driving_refused", "", Reaction.NONE, True, self.why, s.now_ns)

    def _follow_requests(self, s: SafetyInputs) -> None:
        self._expire(s)
        asked = self._arm_requested_ns is not None or self._wanted is OperatorAction.RESET
        # Not while the vehicle still rolls: the request waits.
        if self.mode is Mode.FAULT and asked and self._seen is Mode.FAULT and self._stands(s):
            self._reset(s)
        if self._arm_requested_ns is not None and self.mode is Mode.STANDBY:
            self._arm(s, self._arm_requested_ns)
        if self._wanted is OperatorAction.DRIVE and self.mode is Mode.ARMED:
            # It may have been armed for a hand, anywhere, or long ago.
            self._wait_for(missing(s))
            if not self.waiting:
                self._wanted = None
                s.watch.alignment.reset()
                self.entry = Entry() if s.entry is None else s.entry.choose(s.estimate)
                self._go(Trigger.DRIVE, ", ".join(("driving the course", *filter(None, (self.entry.said,)))))
        elif self._wanted is OperatorAction.ALIGN and self.mode is Mode.ARMED:
            self._wait_for(missing(s, aligning=True))
            if not self.waiting:
                self._wanted = None
                s.watch.alignment.begin(s)
                self._go(Trigger.ALIGN, "driving straight ahead to learn the heading")
        elif self._wanted is OperatorAction.TELEOP and self.mode in (Mode.ARMED, Mode.AUTO, Mode.ALIGN):
            self._take_by_hand(s)
        # What a mode does not allow must not come true later, out of the blue.
        if self._wanted is not None and self._arm_requested_ns is None and self.mode not in (Mode.ARMED, Mode.AUTO, Mode.ALIGN):
            resets = self.mode is Mode.FAULT and self._wanted is OperatorAction.RESET
            self._wanted = self._wanted if resets else None

    def _take_by_hand(self, s: SafetyInputs) -> None:
        """A hand takes the vehicle over: out of a drive at any time, from a standstill when nothing is missing."""
        hand = s.watch.hand
        lacking = [f"driving by hand waits: {text}" for text in (hand.missing(self._wanted_by, s.now_ns),) if text]
        if self.mode is Mode.ARMED:
            self._wait_for(lacking + missing(s, by_hand=True))
        else:
            self.waiting = lacking
        if hand.command is not None and not self.waiting:
            self._wanted = None
            hand.driver = hand.command.origin
            s.watch.alignment.begin_by_hand(s)
            self._go(Trigger.TELEOP, f"driven by hand: {hand.command.origin}")

    def _wait_for(self, lacking: list[str]) -> None:
        """What a vehicle that is armed still waits for before it drives."""
        self.waiting = lacking
        if lacking:
            self.why = "driving waits: " + "; ".join(lacking)

    def _arm(self, s: SafetyInputs, requested_ns: int) -> None:
        wanted = self._wanted
        self.waiting = missing(s, by_hand=wanted is OperatorAction.TELEOP, aligning=wanted is OperatorAction.ALIGN)
        late = s.now_ns - requested_ns > ARM_REQUEST_VALID_NS
        if late and not self.waiting:
            self.waiting = ["the daemon stood still meanwhile: ask again"]
        if not self.waiting:
            self._arm_requested_ns = None
            self._trips.clear()
            self.chain.clear()
            s.watch.reset()
            self.stopped = self.course_driven = False
            self.disarmed_by = ""
            self.reaction = Reaction.NONE
            self._go(Trigger.ARM, "armed")
            return
        self.why = "arming waits: " + "; ".join(self.waiting)
        if late:
            self._cancel_requests()
            self._record("arming_refused", "", Reaction.WARN, True, self.why, s.now_ns)
            self.why = "arming refused: " + "; ".join(self.waiting)

    def _reset(self, s: SafetyInputs) -> None:
        """Leave FAULT, unless what led there lasts."""
        if self._wanted is OperatorAction.RESET:
            self._wanted = None
        self._trips.clear()
        _, reaction, reason = self._worst(s)
        if reaction >= Reaction.DISABLE:
            self._arm_requested_ns = None
            self._record("reset_refused", "", Reaction.WARN, True, f"the cause lasts: {reason}", s.now_ns)
            return
        self.releases_brake = False
        self.reaction = Reaction.NONE
        self._go(Trigger.RESET, "reset: waiting to be armed")

    def in_force(self, code: str) -> str:
        """Why a rule is in force, in words; empty while it is not."""
        trip = self._trips.get(code)
        return trip.reason if trip is not None and trip.tripped else ""

    def _worst(self, s: SafetyInputs) -> tuple[Rule | None, Reaction, str]:
        """The most severe reaction in force, with its reason and rule; the speed cap as a by-product."""
        worst: tuple[Rule | None, Reaction, str] = (None, Reaction.NONE, "")
        cap = s.watch.stopping.cap_mps if self.mode is Mode.AUTO else float("inf")
        for rule, applies in self._rules[self.mode]:
            holds = applies and rule.holds(s)
            # Half a hundred rules at every tick, and nearly all the time none of them has anything to follow.
            if not holds and rule.code not in self._trips:
                continue
            trip = self._follow(rule, s, holds=holds)
            if trip is None:
                continue
            if rule.reaction is Reaction.CAP_SPEED:
                cap = min(cap, rule.cap_mps(s))
            if rule.reaction > worst[1]:
                worst = rule, rule.reaction, trip.reason
        for fault in s.watch.told.values():
            if fault.reaction is Reaction.CAP_SPEED:
                cap = min(cap, s.limits.capped_speed_mps)
            if fault.reaction > worst[1]:
                worst = None, fault.reaction, f"{fault.origin}: {fault.reason}"
        self.speed_cap_mps = cap
        return worst

    def _follow(self, rule: Rule, s: SafetyInputs, *, holds: bool) -> Trip | None:
        """Follow one rule; its trip while it is in force. What tripped once stays in force however the mode changes."""
        trip = self._trips.get(rule.code)
        if holds:
            if trip is None:
                trip = self._trips[rule.code] = Trip(s.now_ns)
            trip.gone_ns = None
            if not trip.tripped and s.now_ns - trip.since_ns >= rule.persist_ms * 1e6:
                trip.tripped, trip.reason = True, rule.reason(s)
                self._chain(s.now_ns, rule.code, rule.reaction, trip.reason)
                self._record(rule.code, "", rule.reaction, True, trip.reason, s.now_ns)
        elif trip is not None:
            if not trip.tripped:
                del self._trips[rule.code]
            elif rule.clear is Clear.ITSELF:
                if trip.gone_ns is None:
                    trip.gone_ns = s.now_ns
                if s.now_ns - trip.gone_ns >= rule.clear_ms * 1e6:
                    del self._trips[rule.code]
                    self._record(rule.code, "", rule.reaction, False, f"cleared: {trip.reason}", s.now_ns)
                    return None
        return trip if trip is not None and trip.tripped else None

    # ---------------------------------------------------------------- ways between modes

    def _go(self, trigger: Trigger, why: str) -> bool:
        """Take the way of the table, if there is one from here."""
        mode = after(self.mode, trigger)
        if mode is None:
            return False
        self.mode, self.why = mode, why
        return True

    def _stop(self, trigger: Trigger, why: str, reaction: Reaction, now_ns: int, code: str) -> None:
        if self._go(trigger, why):
            self.reaction = reaction
            if all(link.reason != why for link in self.chain):
                self._chain(now_ns, code, reaction, why)
        elif self.mode is Mode.STOPPING and reaction > self.reaction:
            # Whoever asks for a stop does not mean the gentle one that is under way.
            self.reaction, self.why = reaction, f"{self.why}; then {why}"
            self._chain(now_ns, code, reaction, why)

    def _stands(self, s: SafetyInputs) -> bool:
        # Without a trustworthy speed the brake stays on: STOPPING does not end by itself. INIT may: nothing has driven it yet.
        if self.mode is Mode.INIT:
            return s.estimate is not None and not abs(s.estimate.speed_mps) >= STANDSTILL_MPS
        return self._rest.stands(s, gnss_stuck=bool(self.in_force(STUCK)), gnss_refused=bool(self.in_force(REFUSED)))

    # ---------------------------------------------------------------- records

    def _chain(self, now_ns: int, code: str, reaction: Reaction, reason: str) -> None:
        if len(self.chain) >= CHAIN_LIMIT:
            # A cap that comes and goes must not push out what stopped the vehicle.
            mildest = min(link.reaction for link in self.chain)
            if mildest > reaction:
                return
            del self.chain[next(k for k, link in enumerate(self.chain) if link.reaction is mildest)]
        self.chain.append(Link(now_ns, code, reaction, reason))

    def _record(self, code: str, origin: str, reaction: Reaction, active: bool, reason: str, now_ns: int) -> None:
        self.faults.append(Fault(now_ns, code, origin, reaction, active, reason))

    def take_faults(self) -> list[Fault]:
        """Trips and clearances since the last call."""
        if not self.faults:
            return []
        faults, self.faults = self.faults, []
        return faults
