"""Modes, arming and reactions: one fold over what the operator asks and what the rules see.

The rules are data: each has a code, a reaction, a text, and a predicate over the :class:`Situation`. The most severe active rule
wins. A rule must hold for its ``persist_ns`` before it trips; every trip and every clearance is one :class:`Fault` record.
"""

from collections.abc import Callable, Sequence
from math import isfinite

from msgspec import Struct

from vehicled.messages import EstimatorStatus, Fault, Mode, OperatorAction, OperatorCommand, Reaction, StateEstimate
from vehicled.vehicle import Limits

STANDSTILL_MPS = 0.05
ARM_REQUEST_VALID_NS = 10 * 10**9
"""An arming request waits this long for its checks to pass, then it is refused with what was missing."""


class Situation(Struct, frozen=True, gc=False):
    """Everything the rules may look at, at one instant. Ages are in ns, ``ports.NEVER_NS`` when nothing ever came."""

    now_ns: int
    estimate: StateEstimate | None
    silent: Sequence[str]
    """Sources that are past their silence limit."""
    gnss_silent: bool
    imu_silent: bool
    estimate_age_ns: int
    actuator_lost: str
    """Why the actuator's port cannot be written; empty when it can."""
    cross_track_m: float
    heading_error_rad: float
    course_finished: bool
    missing_in_a_row: int
    """Largest number of deadlines that a critical task has missed in a row."""


class Rule(Struct, frozen=True, kw_only=True):
    """One row: when ``holds`` for ``persist_ns``, ``reaction`` applies while in a driving mode."""

    code: str
    reaction: Reaction
    reason: Callable[[Situation, Limits], str]
    holds: Callable[[Situation, Limits], bool]
    persist_ns: int = 0
    latched: bool = True
    """Cleared by re-arming only; a rule that is not latched clears itself when it no longer holds."""


def _finite(estimate: StateEstimate) -> bool:
    return isfinite(estimate.x_m) and isfinite(estimate.y_m) and isfinite(estimate.yaw_rad) and isfinite(estimate.speed_mps)


RULES: tuple[Rule, ...] = (
    Rule(
        code="actuator_lost",
        reaction=Reaction.BRAKE,
        holds=lambda s, limits: bool(s.actuator_lost),
        reason=lambda s, limits: f"the actuator cannot be reached: {s.actuator_lost}",
    ),
    Rule(
        code="estimate_not_finite",
        reaction=Reaction.BRAKE,
        holds=lambda s, limits: s.estimate is not None and not _finite(s.estimate),
        reason=lambda s, limits: "the state estimate is not finite",
    ),
    Rule(
        code="estimate_stale",
        reaction=Reaction.BRAKE,
        holds=lambda s, limits: s.estimate_age_ns > limits.estimate_silence_s * 1e9,
        reason=lambda s, limits: (
            f"no state estimate for {s.estimate_age_ns / 1e6:.0f} ms (limit {limits.estimate_silence_s * 1e3:.0f} ms)"
        ),
    ),
    Rule(
        code="corridor_left",
        reaction=Reaction.BRAKE,
        holds=lambda s, limits: abs(s.cross_track_m) > limits.corridor_m,
        reason=lambda s, limits: f"{s.cross_track_m:+.2f} m off the course (corridor {limits.corridor_m:.2f} m)",
        persist_ns=50_000_000,
    ),
    Rule(
        code="estimator_diverged",
        reaction=Reaction.CONTROLLED_STOP,
        holds=lambda s, limits: s.estimate is not None and s.estimate.status is EstimatorStatus.DIVERGED,
        reason=lambda s, limits: "the estimator has diverged",
        persist_ns=50_000_000,
    ),
    Rule(
        code="imu_silent",
        reaction=Reaction.CONTROLLED_STOP,
        holds=lambda s, limits: s.imu_silent,
        reason=lambda s, limits: f"no IMU sample for {limits.imu_silence_s * 1e3:.0f} ms",
        persist_ns=30_000_000,
    ),
    Rule(
        code="gnss_silent",
        reaction=Reaction.CAP_SPEED,
        holds=lambda s, limits: s.gnss_silent,
        reason=lambda s, limits: f"no GNSS fix for {limits.gnss_silence_s:.1f} s: predicting",
        latched=False,
        persist_ns=50_000_000,
    ),
    Rule(
        code="deadlines_missed",
        reaction=Reaction.CAP_SPEED,
        holds=lambda s, limits: s.missing_in_a_row >= 3,
        reason=lambda s, limits: f"{s.missing_in_a_row} deadlines missed in a row",
        latched=False,
    ),
)
"""The rules in force, most severe first."""


class Supervisor:
    """Decides mode and reaction, once per actuation tick."""

    def __init__(self, limits: Limits, rules: Sequence[Rule] = RULES) -> None:
        self._limits = limits
        self._rules = tuple(rules)
        self._since: dict[str, int] = {}
        self._active: dict[str, str] = {}
        self._told: dict[tuple[str, str], Fault] = {}
        self._armed_request_ns: int | None = None
        self._drive_requested = False
        self.mode = Mode.STANDBY
        self.reaction = Reaction.NONE
        self.why = "waiting to be armed"
        """Reason of the present mode, in words."""
        self.faults: list[Fault] = []
        """Trips and clearances since they were last taken."""
        self.course_driven = False
        self.stopped = False
        """A drive has ended, whatever the reason, and the vehicle stands."""

    def on_operator(self, command: OperatorCommand, now_ns: int) -> None:
        """A request: takes effect at the next :meth:`step`. Stopping needs no check and no mode."""
        match command.action:
            case OperatorAction.ARM:
                if self.mode is Mode.STANDBY:
                    self._armed_request_ns = now_ns
            case OperatorAction.DRIVE:
                self._drive_requested = self.mode in (Mode.STANDBY, Mode.ARMED)
            case OperatorAction.STOP | OperatorAction.DISARM:
                self._cancel_requests()
                if self.mode in (Mode.AUTO, Mode.TELEOP):
                    self._stop(f"stopped by {command.origin or 'the operator'}", Reaction.BRAKE)
                elif self.mode is Mode.ARMED:
                    self.mode, self.why = Mode.STANDBY, f"disarmed by {command.origin or 'the operator'}"
            case OperatorAction.EMERGENCY_STOP:
                self._cancel_requests()
                self.mode, self.reaction = Mode.FAULT, Reaction.DISABLE
                self.why = f"emergency stop by {command.origin or 'the operator'}"
                self._record("emergency_stop", command.origin, Reaction.DISABLE, True, self.why, now_ns)
            case OperatorAction.NONE:
                pass

    def on_fault(self, fault: Fault) -> None:
        """A device began or ended an episode; what it asks for counts like a rule for as long as the episode lasts."""
        key = (fault.origin, fault.code)
        if fault.active:
            self._told[key] = fault
        else:
            self._told.pop(key, None)

    def _cancel_requests(self) -> None:
        self._armed_request_ns = None
        self._drive_requested = False

    def step(self, situation: Situation) -> None:
        """Update mode and reaction for this instant."""
        self._check_arming(situation)
        worst = self._check_rules(situation)
        if self.mode in (Mode.AUTO, Mode.TELEOP):
            if worst is not None and worst[0] >= Reaction.CONTROLLED_STOP:
                self._stop(worst[1], worst[0])
            else:
                self.reaction = worst[0] if worst is not None else Reaction.NONE
                if situation.course_finished:
                    self.course_driven = True
                    self._stop("the course is finished", Reaction.CONTROLLED_STOP)
        elif self.mode is Mode.STOPPING and worst is not None and worst[0] > self.reaction:
            self.reaction, self.why = worst[0], f"{self.why}; then {worst[1]}"
        if self.mode is Mode.STOPPING and self._stands(situation):
            self.mode = Mode.STANDBY
            self.stopped = True

    def waiting_for(self, situation: Situation) -> list[str]:
        """What arming still waits for, in words; empty when it may proceed."""
        missing = [f"{name} is silent" for name in situation.silent]
        estimate = situation.estimate
        if estimate is None or estimate.status is not EstimatorStatus.RUNNING:
            status = "has not started" if estimate is None else estimate.status.name.lower()
            missing.append(f"the estimator is not running ({status})")
        elif not _finite(estimate):
            missing.append("the state estimate is not finite")
        elif abs(situation.cross_track_m) > self._limits.corridor_m:
            missing.append(f"the vehicle stands {abs(situation.cross_track_m):.1f} m off the course: move it into the corridor")
        elif abs(situation.heading_error_rad) > 1.6:
            missing.append("the vehicle points backwards along the course: turn it round")
        if situation.actuator_lost:
            missing.append(f"the actuator cannot be reached: {situation.actuator_lost}")
        stopping = [fault for fault in self._told.values() if fault.reaction >= Reaction.CONTROLLED_STOP]
        missing += [f"{fault.origin}: {fault.reason}" for fault in stopping]
        return missing

    def _check_arming(self, situation: Situation) -> None:
        if self._armed_request_ns is not None:
            missing = self.waiting_for(situation)
            if not missing:
                self._armed_request_ns = None
                self._active.clear()
                self._since.clear()
                self.mode, self.reaction, self.why = Mode.ARMED, Reaction.NONE, "armed"
                self.stopped = False
            else:
                self.why = "arming waits: " + "; ".join(missing)
                if situation.now_ns - self._armed_request_ns > ARM_REQUEST_VALID_NS:
                    self._armed_request_ns = None
                    self._record("arming_refused", "", Reaction.WARN, True, self.why, situation.now_ns)
                    self.why = "arming refused: " + "; ".join(missing)
        if self.mode is Mode.ARMED and self._drive_requested:
            self._drive_requested = False
            self.mode, self.why = Mode.AUTO, "driving the course"

    def _check_rules(self, situation: Situation) -> tuple[Reaction, str] | None:
        """The most severe reaction in force and its reason. Rules come before devices where both ask for the same."""
        worst: tuple[Reaction, str] | None = None
        driving = self.mode in (Mode.AUTO, Mode.TELEOP, Mode.STOPPING)
        for rule in self._rules:
            if driving and rule.holds(situation, self._limits):
                since = self._since.setdefault(rule.code, situation.now_ns)
                if rule.code not in self._active and situation.now_ns - since >= rule.persist_ns:
                    reason = rule.reason(situation, self._limits)
                    self._active[rule.code] = reason
                    self._record(rule.code, "", rule.reaction, True, reason, situation.now_ns)
            else:
                self._since.pop(rule.code, None)
                if not rule.latched and rule.code in self._active:
                    reason = self._active.pop(rule.code)
                    self._record(rule.code, "", rule.reaction, False, f"cleared: {reason}", situation.now_ns)
            if rule.code in self._active and (worst is None or rule.reaction > worst[0]):
                worst = rule.reaction, self._active[rule.code]
        for fault in self._told.values():
            if worst is None or fault.reaction > worst[0]:
                worst = fault.reaction, f"{fault.origin}: {fault.reason}"
        return worst

    def _stop(self, why: str, reaction: Reaction) -> None:
        self.mode, self.reaction, self.why = Mode.STOPPING, reaction, why

    def _stands(self, situation: Situation) -> bool:
        # Without a trustworthy speed the brake stays on: STOPPING does not end by itself.
        estimate = situation.estimate
        fresh = situation.estimate_age_ns <= self._limits.estimate_silence_s * 1e9
        return fresh and estimate is not None and abs(estimate.speed_mps) < STANDSTILL_MPS

    def _record(self, code: str, origin: str, reaction: Reaction, active: bool, reason: str, now_ns: int) -> None:
        self.faults.append(Fault(now_ns, code, origin, reaction, active, reason))

    def take_faults(self) -> list[Fault]:
        """Trips and clearances since the last call."""
        if not self.faults:
            return []
        faults, self.faults = self.faults, []
        return faults
