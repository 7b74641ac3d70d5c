"""A judge that follows a daemon by its journal and reports each safety rule that a drive breaks,
whatever is injected."""

from collections import Counter, deque
from math import isfinite

from msgspec import Struct

from sim_backend.connection import START_NS
from vehicled.core.messages import (
    ActuatorCommand,
    Event,
    Fault,
    GroundTruth,
    Message,
    Mode,
    OperatorAction,
    OperatorCommand,
    Reaction,
    StateEstimate,
)
from vehicled.core.vehicle import STANDSTILL_MPS
from vehicled.safety.reason import ReasonCode
from vehicled.safety.supervisor import ARM_REQUEST_VALID_NS, Supervisor

SECOND_NS = 1_000_000_000
DRIVING = (Mode.AUTO, Mode.TELEOP, Mode.ALIGN)
WANTED = {
    Mode.AUTO: OperatorAction.DRIVE,
    Mode.TELEOP: OperatorAction.TELEOP,
    Mode.ALIGN: OperatorAction.ALIGN,
}
BRAKED = (Mode.STOPPING, Mode.FAULT)
ROLLING_MPS = 0.3
"""True speed above which the vehicle surely moves, even if the estimate says standstill."""
CHANGES_PER_S = 4
"""Limit of mode changes beyond those that were requested."""
RECORDS_PER_S = 3
"""Limit of records about one fault."""
ASKED = "asked for"
"""Code of a stop that the operator requested."""
FINISHED = "course finished"
ALIGNED = "heading known"
REPORT_NS = 30_000_000
"""Time within which a device's report passes ingestion and the next tick of actuation."""
KEPT = 64


class Stop(Struct, frozen=True):
    """The end of one drive."""

    t_s: float
    why: str
    codes: tuple[str, ...]
    """Codes that tripped or were reported during the drive; also ``asked for``, ``course finished``
    and ``heading known``."""


class Judge:
    """Journal listener that checks the safety rules."""

    def __init__(self, begun_s: float = 0.0) -> None:
        """Create a judge that adds ``begun_s`` to all times it reports."""
        self._begun_s = begun_s
        self.supervisor: Supervisor | None = None
        """Supervisor of the daemon, set before judging starts."""
        self._estimated_mps = float("nan")
        self.broken: Counter[str] = Counter()
        """Text of each broken rule with the time it first broke."""
        self.stops: deque[Stop] = deque(maxlen=KEPT)
        """Latest stops."""
        self.stopped = 0
        self.truth: GroundTruth | None = None
        self.command: ActuatorCommand | None = None
        self.raises_expected = False
        self._asked_ns: dict[OperatorAction, int] = {}
        self._requests: deque[int] = deque(maxlen=KEPT)
        self._changes: deque[int] = deque(maxlen=KEPT)
        self._records: dict[tuple[str, str], deque[int]] = {}
        self._active: dict[tuple[str, str], tuple[Reaction, int]] = {}
        """Active faults with their reaction and start."""
        self._codes: dict[str, None] = {}
        self._cut_ns = 0
        """Time of the last stop, disarming or emergency stop, which voids earlier requests."""
        self._reset_ns = 0

    def since_begin_s(self, now_ns: int) -> float:
        """Return the time since the beginning, as reported."""
        return self._begun_s + (now_ns - START_NS) / SECOND_NS

    # ---------------------------------------------------------------- messages

    def record(self, message: Message, log_time_ns: int) -> None:
        """See :class:`vehicled.core.journal.Sink`."""
        if isinstance(message, ActuatorCommand):
            self._on_command(message, log_time_ns)
        elif isinstance(message, OperatorCommand):
            self._on_request(message, log_time_ns)
        elif isinstance(message, Fault):
            self._on_fault(message, log_time_ns)
        elif isinstance(message, Event):
            if message.name == "task_raised" and not (
                self.raises_expected and "on purpose" in message.fields
            ):
                self._broke(f"a task raised: {message.fields[-300:]}", log_time_ns)
        elif isinstance(message, StateEstimate):
            self._estimated_mps = message.speed_mps
        elif isinstance(message, GroundTruth):
            self.truth = message
            if not isfinite(message.x_m + message.y_m + message.yaw_rad + message.speed_mps):
                self._broke("the twin is not finite", log_time_ns)

    def _on_request(self, request: OperatorCommand, now_ns: int) -> None:
        self._requests.append(now_ns)
        self._asked_ns[request.action] = now_ns

    def _on_fault(self, fault: Fault, now_ns: int) -> None:
        key = fault.origin, fault.code
        if not fault.reason:
            self._broke(f"the fault {fault.code} has no reason", now_ns)
        if not fault.active:
            self._active.pop(key, None)
            return
        self._active[key] = fault.reaction, now_ns
        self._codes[fault.code] = None
        times = self._records.setdefault(key, deque(maxlen=RECORDS_PER_S + 1))
        times.append(now_ns)
        # Who asks again is answered again.
        answers = fault.code in (
            "emergency_stop",
            "reset_refused",
            "arming_refused",
            "driving_refused",
            "request_refused",
        )
        if len(times) > RECORDS_PER_S and now_ns - times[0] < SECOND_NS and not answers:
            self._broke(f"{fault.code} began {len(times)} times within a second", now_ns)

    def _on_command(self, command: ActuatorCommand, now_ns: int) -> None:
        before, self.command = self.command, command
        self._look_at_frame(command, now_ns)
        armed = Mode.ARMED, *DRIVING
        if command.mode in armed and (before is None or before.mode not in armed):
            # Arming anew clears what tripped before; the fault of a device lasts until the device
            # clears it.
            reported = {key for key in self._active if key[0] and key[1] != "emergency_stop"}
            self._active = {
                key: on for key, on in self._active.items() if key in reported or on[1] >= now_ns
            }
        self._look_for_the_worst(command, now_ns)
        if before is None:
            return
        if before.mode in BRAKED and command.mode in BRAKED and command.reaction < before.reaction:
            self._broke(
                (
                    f"{command.mode.name}: {before.reaction.name} became {command.reaction.name} "
                    "before it stood"
                ),
                now_ns,
            )
        if before.mode is not command.mode:
            self._on_mode(before.mode, command, now_ns)

    # ---------------------------------------------------------------- what must hold

    def _look_at_frame(self, command: ActuatorCommand, now_ns: int) -> None:
        values = command.throttle, command.brake, command.steering, command.wheel_angle_rad
        if not all(isfinite(value) for value in values):
            self._broke("a frame is not finite", now_ns)
        elif not (
            abs(command.throttle) <= 1.0
            and 0.0 <= command.brake <= 1.0
            and abs(command.steering) <= 1.0
        ):
            self._broke("a frame is out of range", now_ns)
        if command.throttle != 0.0 and (
            command.mode not in DRIVING or command.reaction >= Reaction.CONTROLLED_STOP
        ):
            self._broke(
                (
                    f"throttle {command.throttle:.2f} in {command.mode.name} under "
                    f"{command.reaction.name}"
                ),
                now_ns,
            )
        releases = self.supervisor is not None and self.supervisor.releases_brake
        if command.brake == 0.0 and command.mode not in DRIVING and not releases:
            self._broke(f"no brake in {command.mode.name} under {command.reaction.name}", now_ns)

    def _look_for_the_worst(self, command: ActuatorCommand, now_ns: int) -> None:
        """Check that the most severe active reaction wins, whatever else happens at the same
        time."""
        if command.mode not in (*DRIVING, Mode.STOPPING):
            return
        for (_, code), (reaction, since_ns) in self._active.items():
            if reaction > command.reaction and now_ns - since_ns > REPORT_NS:
                self._broke(
                    (
                        f"{command.mode.name} under {command.reaction.name} although {code} asks "
                        f"for {reaction.name}"
                    ),
                    now_ns,
                )

    def _on_mode(self, before: Mode, command: ActuatorCommand, now_ns: int) -> None:
        mode = command.mode
        self._changes.append(now_ns)
        recent = sum(now_ns - t < SECOND_NS for t in self._changes)
        # A request may change the mode twice: out of FAULT arming leads by way of a reset.
        allowed = CHANGES_PER_S + 2 * sum(now_ns - t < SECOND_NS for t in self._requests)
        if recent > allowed:
            self._broke(f"{recent} changes of mode within a second", now_ns)
        if before in DRIVING and mode not in DRIVING:
            self._on_stop(mode, command, now_ns)
        if mode in DRIVING and mode is not before:
            self._on_start(mode, now_ns)
        if before in (*BRAKED, *DRIVING) and mode not in (*BRAKED, *DRIVING):
            self._on_release(before, mode, now_ns)
        if mode is Mode.ARMED and not any(
            self._is_fresh(action, now_ns, self._cut_ns)
            for action in (OperatorAction.ARM, OperatorAction.ALIGN)
        ):
            self._broke("armed, and nobody asked for it since the last stop", now_ns)
        if mode in BRAKED or (mode is Mode.STANDBY and before is Mode.ARMED):
            self._cut_ns = now_ns

    def _on_start(self, mode: Mode, now_ns: int) -> None:
        wanted = WANTED[mode]
        # A request to align arms, too.
        armed_ns = max(
            self._asked_ns.get(action, 0) for action in (OperatorAction.ARM, OperatorAction.ALIGN)
        )
        if armed_ns < self._cut_ns:
            self._broke(f"{mode.name} without arming since the last stop", now_ns)
        void_ns = max(self._cut_ns, self._asked_ns.get(OperatorAction.STOP, 0))
        if not self._is_fresh(wanted, now_ns, void_ns):
            self._broke(f"{mode.name}, and nobody asked for it since the last stop", now_ns)
        self._codes = {code: None for _, code in self._active}

    def _is_fresh(self, action: OperatorAction, now_ns: int, void_ns: int) -> bool:
        asked_ns = self._asked_ns.get(action, -SECOND_NS)
        # A tick of actuation lies between a limit and its consequence.
        return asked_ns >= void_ns and now_ns - asked_ns <= ARM_REQUEST_VALID_NS + SECOND_NS // 10

    def _on_stop(self, mode: Mode, command: ActuatorCommand, now_ns: int) -> None:
        supervisor = self.supervisor
        assert supervisor is not None
        codes = dict(self._codes)
        ends = OperatorAction.STOP, OperatorAction.DISARM, OperatorAction.EMERGENCY_STOP
        recent = (self._asked_ns.get(action, 0) for action in ends)
        if now_ns - max(recent) < SECOND_NS // 20:
            codes[ASKED] = None
        if supervisor.course_driven:
            codes[FINISHED] = None
        if supervisor.reason.code == ReasonCode.HEADING_KNOWN:
            codes[ALIGNED] = None
        self.stopped += 1
        self.stops.append(Stop(self.since_begin_s(now_ns), supervisor.why, tuple(codes)))
        if not supervisor.why:
            self._broke("a stop without a reason", now_ns)
        if not codes:
            self._broke(f"a stop without a reported fault: {supervisor.why}", now_ns)
        if not supervisor.chain:
            self._broke(f"a stop with an empty chain: {supervisor.why}", now_ns)
        if mode in BRAKED and command.reaction < Reaction.CONTROLLED_STOP:
            self._broke(f"{mode.name} under {command.reaction.name}", now_ns)

    def _on_release(self, before: Mode, mode: Mode, now_ns: int) -> None:
        supervisor = self.supervisor
        assert supervisor is not None
        if before is Mode.FAULT:
            asked_ns = max(
                self._asked_ns.get(action, -1)
                for action in (OperatorAction.ARM, OperatorAction.RESET)
            )
            if asked_ns < self._cut_ns:
                self._broke("FAULT was left, and nobody asked for it", now_ns)
        # Without a finite estimate the measured speeds decide; whether they were right the truth
        # says.
        if isfinite(self._estimated_mps) and not abs(self._estimated_mps) < 4.0 * STANDSTILL_MPS:
            self._broke(
                f"{before.name} became {mode.name} at {self._estimated_mps:.1f} m/s as estimated",
                now_ns,
            )
        truth = self.truth
        if truth is not None and abs(truth.speed_mps) > ROLLING_MPS:
            self._broke(
                (
                    f"{before.name} became {mode.name} while it truly moves at "
                    f"{truth.speed_mps:.1f} m/s"
                ),
                now_ns,
            )

    def _broke(self, rule: str, now_ns: int) -> None:
        known = next((text for text in self.broken if text.endswith(f": {rule}")), None)
        if known is None and len(self.broken) < KEPT:
            known = f"at {self.since_begin_s(now_ns):.2f} s: {rule}"
        if known is not None:
            self.broken[known] += 1
