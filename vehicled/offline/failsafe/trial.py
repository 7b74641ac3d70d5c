"""One failsafe trial in lockstep: a drive, one injection, and its result."""

from collections.abc import Sequence
from math import nan
from random import Random

from sim_backend.connection import START_NS
from sim_backend.emulators.failures import Failure, parse_failure
from sim_backend.emulators.registry import emulator
from vehicled.core.messages import (
    ActuatorCommand,
    Direction,
    Fault,
    Message,
    Mode,
    Reaction,
    WireChunk,
)
from vehicled.core.vehicle import STANDSTILL_MPS
from vehicled.offline.failsafe.injections import Injection
from vehicled.offline.failsafe.report import TrialResult
from vehicled.offline.failsafe.stage import SECOND_NS, InjectionScene, TrialStage
from vehicled.paths.catalog import load_course
from vehicled.paths.course import Course
from vehicled.profile import load_profile
from vehicled.profile.schema import Profile
from vehicled.safety.matrix import MATRIX
from vehicled.safety.rule import Row, Rule

DRIVE_S = 2.0
"""Driving time before the injection, s; a random part of up to one second is added."""
BEGIN_S = 1.0
"""Time from the start until the vehicle drives, s."""
REFUSAL_S = 1.5
"""Observation time in which arming must stay refused, s."""
NOT_SHOWN = "the fault did not show: the vehicle never did what its rule watches for"
STOP_NS = 8_000_000_000
"""Longest time from the reaction to the standstill, ns."""
LINE_NS = 5_000_000
"""Longest transmission time of a frame on any line."""


class _TrialRecorder:
    """Listener of the journal that collects detected faults and actuator frames."""

    def __init__(self, profile: Profile, link: str, seed: int) -> None:
        actuator = next(
            name for name, device in profile.devices.items() if device.capabilities is not None
        )
        device = profile.devices[actuator]
        self._actuator = actuator
        # A second, fault-free actuator decodes the same frames, which shows what they command.
        self._ear = emulator(actuator, device, seed, START_NS, wires=link == "wires")
        self.has_brake = device.capabilities is not None and device.capabilities.brake
        self.since_ns: int | None = None
        self.faults: list[Fault] = []
        self.command: ActuatorCommand | None = None
        self.frames: list[tuple[int, ActuatorCommand | None, float, float]] = []
        """Time, command, and decoded throttle and brake, since the injection."""

    def record(self, message: Message, log_time_ns: int) -> None:
        if isinstance(message, Fault):
            if self.since_ns is not None and message.active:
                self.faults.append(message)
        elif isinstance(message, ActuatorCommand):
            self.command = message
        elif (
            isinstance(message, WireChunk)
            and message.direction is Direction.TX
            and message.port == self._actuator
        ):
            self._ear.on_rx(message.data, log_time_ns)
            # Allow for the transmission time of the frame.
            self._ear.on_time(log_time_ns + LINE_NS)
            understood = self._ear.take_commands()
            if self.since_ns is not None and understood:
                self.frames.append(
                    (log_time_ns, self.command, understood[-1].throttle, understood[-1].brake)
                )


def run_trial(
    injection: Injection, link: str, seed: int, course: Course | None = None
) -> TrialResult:
    """Drive, inject at a random phase and observe; on the injection's course if no other is
    given."""
    at_s = injection_s(injection, link, seed)
    drive = TrialDrive(
        profile_of(injection),
        course or _course(injection.course),
        injection.scene,
        link,
        failures_of(injection, at_s),
        seed,
    )
    if injection.prepare is not None:
        injection.prepare(drive.stage)
    return drive.inject(injection, at_s)


def injection_s(injection: Injection, link: str, seed: int) -> float:
    """Return the time from the start to the injection, s."""
    return BEGIN_S + DRIVE_S + Random(f"{seed} {injection.key} {link}").random()


def failures_of(injection: Injection, at_s: float) -> list[Failure]:
    """Return the failures of devices that the injection needs, at that time from the start."""
    return [
        parse_failure(f"{failure}@{at_s:.6f}+{injection.fail_s:g}")
        for failure in injection.fail.split()
    ]


class TrialDrive:
    """Drive up to the injection, and what is recorded of it."""

    def __init__(
        self,
        profile: Profile,
        course: Course,
        scene: InjectionScene,
        link: str,
        failures: Sequence[Failure],
        seed: int,
    ) -> None:
        self._link, self._seed = link, seed
        self._evidence_source = _TrialRecorder(profile, link, seed)
        self.stage = TrialStage(profile, course, scene, link, failures, self._evidence_source, seed)

    def until(self, at_s: float) -> None:
        """Drive up to a time from the start."""
        at_ns = START_NS + round(at_s * SECOND_NS)
        while self.stage.now_ns < at_ns:
            self.stage.step()

    def inject(self, injection: Injection, at_s: float) -> TrialResult:
        """Drive up to the injection, inject and observe."""
        stage, evidence_source = self.stage, self._evidence_source
        self.until(at_s)
        judge = _Judge(injection, self._link, self._seed, stage, evidence_source)
        command = evidence_source.command
        if not stage.ready or command is None or command.reaction > Reaction.WARN:
            machine = stage.pair.machine
            return judge.trial(
                f"the vehicle was not in the required state: {machine.mode.name}, {machine.why}"
            )
        at_ns = START_NS + round(at_s * SECOND_NS)
        evidence_source.since_ns = at_ns
        judge.begin(at_ns)
        if injection.act is not None:
            injection.act(stage)
        return judge.watch()


class _Judge:
    """Evaluates one trial."""

    def __init__(
        self,
        injection: Injection,
        link: str,
        seed: int,
        stage: TrialStage,
        evidence_source: _TrialRecorder,
    ) -> None:
        self._injection = injection
        self._link = link
        self._seed = seed
        self._stage = stage
        self._evidence_source = evidence_source
        row = row_of(injection)
        rule = rule_of(injection)
        self._reaction = (
            rule.reaction
            if rule is not None
            else Reaction.DISABLE
            if injection.row == 4
            else Reaction.BRAKE
        )
        self._releases = rule is not None and rule.releases_brake
        self._own = injection.row == 1
        self.limit_ms = row.outside_ms if rule is None or self._own else rule.react_ms
        self._at_ns = 0
        self._origin_ns: int | None = None
        self._reacted_ns: int | None = None
        self._stood_ns: int | None = None
        self._way_m = self._stop_m = nan
        self._seen = 0

    def begin(self, at_ns: int) -> None:
        """Note the time of the injection."""
        self._at_ns, self._way_m = at_ns, self._stage.way_m
        if self._injection.since is None:
            self._origin_ns = at_ns + round(
                self._injection.grace_s(self._stage.profile.limits) * SECOND_NS
            )

    def watch(self) -> TrialResult:
        """Run until the vehicle has reacted and stopped, or the time is up."""
        injection, stage = self._injection, self._stage
        if injection.refused:
            return self._watch_refusal()
        end_ns = self._at_ns + round(injection.timeout_s * SECOND_NS)
        while True:
            self._update()
            stops = self._reaction >= Reaction.CONTROLLED_STOP
            detected = self._detected()
            if (
                detected
                and self._reacted_ns is not None
                and (not stops or self._stood_ns is not None or injection.row == 29)
            ):
                break
            if stage.now_ns >= (
                end_ns if self._reacted_ns is None else max(end_ns, self._reacted_ns + STOP_NS)
            ):
                break
            stage.step()
        return self.trial(self._verdict(stops))

    def _update(self) -> None:
        injection, stage, evidence_source = self._injection, self._stage, self._evidence_source
        if self._origin_ns is None and injection.since is not None and injection.since(stage):
            self._origin_ns = stage.now_ns + round(
                injection.grace_s(stage.profile.limits) * SECOND_NS
            )
        if self._own:
            self._reacted_ns = stage.actuator_neutral_ns
        elif self._reaction is Reaction.WARN:
            self._reacted_ns = next(
                (fault.t_ns for fault in evidence_source.faults if fault.code == injection.code),
                None,
            )
        else:
            for t_ns, command, throttle, brake in evidence_source.frames[self._seen :]:
                if self._reacted_ns is None and self._answers(command, throttle, brake):
                    self._reacted_ns = t_ns
            self._seen = len(evidence_source.frames)
        if (
            self._stood_ns is None
            and self._reacted_ns is not None
            and stage.speed_mps < STANDSTILL_MPS
        ):
            self._stood_ns, self._stop_m = stage.now_ns, stage.way_m - self._way_m

    def _answers(self, command: ActuatorCommand | None, throttle: float, brake: float) -> bool:
        """Return True if a frame is the expected reaction, both by the daemon's command and by the
        decoded bytes."""
        if command is None:
            return False
        if rule_of(self._injection) is not None and command.reaction < self._reaction:
            return False
        if self._reaction is Reaction.CAP_SPEED:
            supervisor = self._stage.pair.machine.supervisor
            estimate = self._stage.pair.machine.estimate
            over = estimate is not None and abs(estimate.speed_mps) > supervisor.speed_cap_mps
            return throttle <= 0.0 or not over
        if throttle > 0.0:
            return False
        if not self._evidence_source.has_brake or self._releases:
            return True
        return brake > (0.4 if self._reaction is Reaction.CONTROLLED_STOP else 0.99)

    def _detected(self) -> bool:
        accepted = (self._injection.code, *self._injection.also)
        return not self._injection.code or any(
            fault.code in accepted for fault in self._evidence_source.faults
        )

    def _verdict(self, stops: bool) -> str:
        if not self._detected():
            if self._injection.since is not None and self._origin_ns is None:
                return NOT_SHOWN
            return (
                f"not detected by {self._injection.code}; reported: "
                f"{', '.join(self._reported()) or 'nothing'}"
            )
        if self._reacted_ns is None:
            return "no frame to the actuator changed"
        react_ms = self._react_ms()
        if react_ms > self.limit_ms:
            return f"reacted after {react_ms:.0f} ms (limit {self.limit_ms:.0f} ms)"
        if stops and self._stood_ns is None and self._injection.row != 29:
            return "reacted, but the vehicle did not stop"
        return ""

    def _watch_refusal(self) -> TrialResult:
        stage, injection = self._stage, self._injection
        machine = stage.pair.machine
        end_ns = stage.now_ns + round(REFUSAL_S * SECOND_NS)
        said = False
        while stage.now_ns < end_ns:
            stage.step()
            said = said or injection.refused in " ".join((machine.why, *machine.supervisor.waiting))
            if machine.mode in (Mode.AUTO, Mode.TELEOP) or stage.speed_mps > STANDSTILL_MPS:
                return self.trial(f"arming was not refused: {machine.mode.name}, {machine.why}")
        self._reacted_ns, self.limit_ms = self._origin_ns, 0.0
        return self.trial("" if said else f"refused for another reason: {machine.why}")

    def _react_ms(self) -> float:
        if self._reacted_ns is None:
            return nan
        # A reaction before the time origin counts as immediate.
        return (
            max(0.0, (self._reacted_ns - self._origin_ns) / 1e6)
            if self._origin_ns is not None
            else 0.0
        )

    def _reported(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(fault.code for fault in self._evidence_source.faults))

    def trial(self, problem: str) -> TrialResult:
        """Return the result with all measurements so far."""
        stops = self._reaction >= Reaction.CONTROLLED_STOP and not self._injection.refused
        injection = self._injection
        return TrialResult(
            row=injection.row,
            code=injection.code,
            how=injection.how,
            simulated=injection.simulated,
            clock="lockstep",
            link=self._link,
            profile=injection.profile,
            seed=self._seed,
            problem=problem,
            react_ms=self._react_ms(),
            limit_ms=self.limit_ms,
            stop_m=self._stop_m if stops else nan,
            reported=self._reported(),
        )


def row_of(injection: Injection) -> Row:
    """Return the injection's row of the matrix."""
    return next(row for row in MATRIX if row.number == injection.row)


def rule_of(injection: Injection) -> Rule | None:
    """Return the rule that must trip; None if a reaction outside the daemon is expected."""
    return next((rule for rule in row_of(injection).rules if rule.code == injection.code), None)


_PROFILES: dict[tuple[str, tuple[str, ...]], Profile] = {}
_COURSES: dict[str, Course] = {}


def profile_of(injection: Injection) -> Profile:
    """Return the injection's profile with its overrides, cached."""
    key = injection.profile, injection.overrides
    if key not in _PROFILES:
        _PROFILES[key] = load_profile(*key)
    return _PROFILES[key]


def _course(name: str) -> Course:
    if name not in _COURSES:
        _COURSES[name] = load_course(name)
    return _COURSES[name]
