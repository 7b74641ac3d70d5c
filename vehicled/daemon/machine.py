"""The machine: the daemon without an operating system. It takes bytes and a time, and returns bytes
and the time of its next run.

It never reads a clock, never waits and never touches a file. Two pumps drive it: the wall clock and
lockstep. Nothing else differs between vehicle and simulation. Its inputs are the verbs of the
journal: :meth:`Machine.on_rx`, :meth:`Machine.on_port`, :meth:`Machine.on_message`,
:meth:`Machine.on_time`.

``on_rx`` passes bytes to the port's device. The resulting messages wait in the inbox of the
:class:`~vehicled.daemon.pipeline.Pipeline`. *Ingestion* checks them, *fusion* steps the estimator,
*control* steps the controller, *actuation* asks the supervisor for mode and reaction and passes the
command through the gate to the actuator's device. ``docs/flow_of_a_fix.md`` follows one fix.
"""

from binascii import crc32
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from math import isfinite

import msgspec
from msgspec import Struct

from vehicled.core.attribution import EvidenceSource
from vehicled.core.error_text import error_trace
from vehicled.core.executive import Executive, Stopwatch, TaskSpec
from vehicled.core.journal import Digest, Sink
from vehicled.core.messages import (
    ALL,
    ActuatorCommand,
    Corrections,
    CourseCommand,
    Direction,
    Event,
    Fault,
    GearReport,
    GnssFix,
    GroundTruth,
    MachineCall,
    Message,
    Mode,
    MotorStatus,
    ObstacleContact,
    OperatorCommand,
    ParameterCommand,
    PlannedMotion,
    PortEvent,
    PortState,
    ReferenceState,
    StateEstimate,
    TaskTick,
    Verb,
    WheelSpeed,
    WireChunk,
)
from vehicled.core.observers import Observers
from vehicled.core.plain_text import printable
from vehicled.core.ports import NEVER_NS, NO_USAGE, Action, Device, Send
from vehicled.core.tasks import PIPELINE
from vehicled.core.wire.usage import UsageRow
from vehicled.core.wire.usage import rows as usage_rows
from vehicled.daemon.actuation import Actuation, ActuatorRole
from vehicled.daemon.live_changes import CHANGES, Prepared
from vehicled.daemon.pipeline import Pipeline
from vehicled.daemon.recognition import UnreadBytes
from vehicled.paths.waits import Wait
from vehicled.profile import plugins
from vehicled.safety.supervisor import Supervisor


class Outgoing(Struct, frozen=True, gc=False):
    """Action for a port, taken at ``t_ns``."""

    t_ns: int
    port: str
    action: Action


class RateRow(Struct, frozen=True, kw_only=True):
    """Timing of one pipeline task: a row of the rate table without its function."""

    rate_hz: float
    deadline_ns: int
    phase_ns: int = 0
    catch_up: bool = False
    declared_ns: int = 0


CONTROL = PIPELINE.index("control")
ACTUATION = PIPELINE.index("actuation")


_TEXTS = {
    kind: names
    for kind in ALL
    if kind is not Event
    and (names := [field.name for field in msgspec.structs.fields(kind) if field.type is str])
}
"""Text fields by type of message, but for JSON: a device, or a simulator in its place, may have
chosen them."""


_TRUTH = frozenset((GroundTruth, ObstacleContact, GearReport))
"""Messages of the simulator that no task receives."""
_TELEMETRY = frozenset((MotorStatus, WheelSpeed))
"""Messages of several actuators that become one."""


def _shown(message: Message) -> Message:
    """Return a message of a device with its texts printable: people will read them on a
    terminal."""
    odd = {
        name: printable(text)
        for name in _TEXTS[type(message)]
        if not (text := getattr(message, name)).isprintable()
    }
    return msgspec.structs.replace(message, **odd) if odd else message


MEASURE_NS = 10**9
"""Period of the measurement of the daemon's own reaction time."""
RAISE_LIMIT = 2
"""Exceptions that tasks may raise within the window; one more brakes and ends the run."""
RAISE_WINDOW_NS = 10 * 10**9


def _consumers(
    devices: Mapping[str, Device], corrections: Mapping[str, Collection[str]] | None
) -> dict[tuple[str, type[Message]], list[str]]:
    """Return the ports that consume a message type of another port, by (origin, type). Commands
    only come from the gate.

    A caster receives the position of the receivers that use its corrections.
    """
    routes = {
        (source, receiver)
        for receiver, sources in (corrections or {}).items()
        for source in sources
    }
    served = {source for source, receiver in routes if GnssFix in devices[receiver].produces}
    found: dict[tuple[str, type[Message]], list[str]] = {}
    for port, device in devices.items():
        for kind in device.consumes:
            for origin in devices:
                if origin == port or kind is ActuatorCommand:
                    continue
                if corrections is not None:
                    if kind is Corrections and (origin, port) not in routes:
                        continue
                    if kind is GnssFix and port in served and (port, origin) not in routes:
                        continue
                found.setdefault((origin, kind), []).append(port)
    return found


class Machine:
    """Runs devices, pipeline and executive of one vehicle."""

    def __init__(
        self,
        *,
        devices: Mapping[str, Device],
        actuator: str | Actuation,
        pipeline: Pipeline,
        rates: Mapping[str, RateRow],
        stopwatch: Stopwatch,
        sink: Sink,
        evidence_source: EvidenceSource | None = None,
        virtual: bool = False,
        corrections: Mapping[str, Collection[str]] | None = None,
        references: Mapping[str, Callable[[ReferenceState], GroundTruth]] | None = None,
        truth_port: str = "",
        observers: Observers | None = None,
        unread: Mapping[str, UnreadBytes] | None = None,
    ) -> None:
        """``devices`` by port name; ``actuator`` is the port of the actuator, or those of several;
        ``rates`` by task name of ``PIPELINE``. ``corrections``: ports of the correction sources by
        receiver port; None routes every source to every receiver. ``references``: conversion to
        ground truth by port of a reference system; a simulator's own truth at ``truth_port`` takes
        its place. ``unread``: for ports whose bytes are described while their driver cannot read
        them. ``observers`` counts the failures of what only explains."""
        self.observers = observers or pipeline.observers
        self._devices = dict(devices)
        self._usage_rows = self.observers.guard(
            "message counts", self._made_usage, [], lasting=True
        )
        for port, device in devices.items():
            if device.usage is not NO_USAGE:
                device.usage.on_failure = partial(
                    self.observers.failed, f"message counts of {port}", lasting=True
                )
        self._actuation = (
            actuator
            if isinstance(actuator, Actuation)
            else Actuation(devices, {actuator: ActuatorRole()})
        )
        self._actuators = self._actuation.ports
        self.pipeline = pipeline
        """State of the tasks: estimate, command, monitors, supervisor, gate."""
        self._sink = sink
        self.port_states: dict[str, tuple[PortState | None, str]] = dict.fromkeys(
            devices, (None, "not open yet")
        )
        """Newest state of every port, with its detail."""
        self._raised_ns: list[int] = []
        self._measure_ns = 0
        self._pending: list[str] = []
        self._references = dict(references or {})
        self._truth_port = truth_port
        self._consumers = _consumers(devices, corrections)
        self._shows = [
            port
            for port, device in devices.items()
            if port not in self._actuators and StateEstimate in device.consumes
        ]
        self._plan_readers = [
            port for port, device in devices.items() if PlannedMotion in device.consumes
        ]
        pipeline.broadcasts_plan = bool(self._plan_readers)
        # Drivers of one kind report the same faults: under one name, the end of one would end that
        # of the other.
        self._named = frozenset(self._actuators if len(self._actuators) > 1 else ())
        self._unread = dict(unread or {})
        pipeline.monitors.sources.unread = self._unread
        self._outgoing: list[Outgoing] = []
        self._device_due_ns = NEVER_NS
        self._command_only_ports = frozenset(
            port for port, device in devices.items() if device.command_only
        )
        self._all_command_only = len(self._command_only_ports) == len(devices)
        self.digest = Digest()
        """Digest of all output frames."""
        runs: Mapping[str, Callable[[int], None]] = {
            "ingestion": pipeline.ingest,
            "fusion": pipeline.fuse,
            "control": pipeline.control,
            "actuation": self._actuate,
        }
        table = [
            TaskSpec(
                name=name,
                rate_hz=rates[name].rate_hz,
                deadline_ns=rates[name].deadline_ns,
                phase_ns=rates[name].phase_ns,
                catch_up=rates[name].catch_up,
                declared_ns=rates[name].declared_ns,
                run=self._guarded(name, runs[name]),
            )
            for name in PIPELINE
        ]
        self.executive = Executive(
            table,
            stopwatch,
            self._on_tick,
            evidence_source,
            virtual=virtual,
            observers=self.observers,
        )
        self._reaction_s = self.observers.guard(
            "reaction time", self._measured_reaction_s, None, lasting=True
        )
        self._accounts = [(name, self.executive.stats(i)) for i, name in enumerate(PIPELINE)]

    # ---------------------------------------------------------------- verbs

    def start(self, now_ns: int) -> None:
        """Start the rate table at ``now_ns``."""
        self._sink.record(MachineCall(now_ns, Verb.START), now_ns)
        self.executive.start(now_ns)

    def on_port(self, port: str, state: PortState, detail: str, now_ns: int) -> None:
        """Handle a port that opened, was lost or failed."""
        self._sink.record(PortEvent(now_ns, port, state, detail), now_ns)
        self.port_states[port] = state, detail
        self._actuation.on_port(port, state, detail)
        device = self._devices.get(port)
        if device is not None:
            self._dispatch(port, device.on_port(state, detail, now_ns), now_ns)
            self._after_device(port, device)

    def on_rx(self, port: str, data: bytes, t_rx_ns: int) -> None:
        """Take bytes received on a port at ``t_rx_ns``. Bytes of an unknown port are only
        logged."""
        self._sink.record(WireChunk(t_rx_ns, port, Direction.RX, data, crc32(data)), t_rx_ns)
        device = self._devices.get(port)
        if device is not None:
            messages = device.on_rx(data, t_rx_ns)
            unread = self._unread.get(port)
            if unread is not None:
                unread.on_rx(data, messages)
            self._dispatch(port, messages, t_rx_ns)
            self._after_device(port, device, may_send=port not in self._command_only_ports)

    def on_message(self, message: Message, now_ns: int, prepared: Prepared | None = None) -> str:
        """Take a message that came by no port: a request, a teleop reading, the health of the host.

        Return why a change of course, parameter or speed limit is refused; empty otherwise.
        ``prepared``: what another thread has made of the change.
        """
        # Devices produce the same types: without this record a replay would not know which messages
        # came from outside.
        self._sink.record(MachineCall(now_ns, Verb.MESSAGE), now_ns)
        self._sink.record(message, now_ns)
        if isinstance(message, OperatorCommand):
            # Immediately: a stop must not wait for ingestion.
            self.pipeline.supervisor.on_operator(message, now_ns)
        elif isinstance(message, CHANGES):
            return self.pipeline.change(message, now_ns, prepared)
        else:
            self.pipeline.inbox.put(message)
        return ""

    def fits(self, message: CourseCommand | ParameterCommand, prepared: Prepared) -> bool:
        """Return True if :meth:`on_message` takes this change as it was prepared; otherwise it
        prepares it again on the loop."""
        return self.pipeline.fits(message, prepared)

    def on_time(self, now_ns: int) -> None:
        """Run what is due: devices first, then tasks."""
        if self._device_due_ns <= now_ns:
            self._sink.record(MachineCall(now_ns, Verb.TIME), now_ns)
            for port, device in self._devices.items():
                if device.next_due_ns() <= now_ns:
                    self._dispatch(port, device.on_time(now_ns), now_ns)
                    self._pending.append(port)
            self._collect(now_ns)
            self._device_due_ns = min(device.next_due_ns() for device in self._devices.values())
        self.executive.run(now_ns)

    def next_due_ns(self) -> int:
        """Return when :meth:`on_time` must be called next."""
        due = self.executive.next_due_ns()
        return due if due < self._device_due_ns else self._device_due_ns

    def next_output_ns(self) -> int:
        """Return the earliest stamp of the next output, whatever arrives until then."""
        return (
            self.executive.release_ns(ACTUATION) if self._all_command_only else self.next_due_ns()
        )

    def take_tx(self) -> Sequence[Outgoing]:
        """Drain pending port actions, in digest order."""
        if not self._outgoing:
            return ()
        outgoing, self._outgoing = self._outgoing, []
        return outgoing

    def brake_now(self, now_ns: int) -> Sequence[Outgoing]:
        """Return the brake frame without running any task, for crashes."""
        self._sink.record(MachineCall(now_ns, Verb.BRAKE), now_ns)
        self._send(self.pipeline.safe_command(now_ns), now_ns)
        self._collect(now_ns)
        return self.take_tx()

    # ---------------------------------------------------------------- queries

    @property
    def ports(self) -> Sequence[str]:
        """Names of the ports with a device."""
        return tuple(self._devices)

    def device(self, port: str) -> Device:
        """Return the device of a port."""
        return self._devices[port]

    def _made_usage(self) -> list[UsageRow]:
        return [
            row for port, device in self._devices.items() for row in usage_rows(port, device.usage)
        ]

    @property
    def usage(self) -> list[UsageRow]:
        """Messages that arrived on each port: used, and not used with the reason."""
        return self._usage_rows()

    @property
    def supervisor(self) -> Supervisor:
        """Supervisor: mode, reaction and reason."""
        return self.pipeline.supervisor

    def waiting_for(self, now_ns: int) -> list[str]:
        """Return what arming waits for now; empty if it would succeed or the vehicle is armed."""
        actuation = self._actuation
        refusal = actuation.refusal
        for port, reason in actuation.refusals.items():
            if (
                reason
                and (unread := self._unread.get(port)) is not None
                and (text := unread.described())
            ):
                refusal += f"; {text}"
        return self.pipeline.waiting_for(now_ns, actuation.unreachable or refusal)

    @property
    def mode(self) -> Mode:
        """Current mode."""
        return self.pipeline.supervisor.mode

    @property
    def why(self) -> str:
        """Text of the reason of the current mode."""
        return self.pipeline.supervisor.why

    @property
    def course_driven(self) -> bool:
        """True once the end of the course was reached."""
        return self.pipeline.supervisor.course_driven

    @property
    def estimate(self) -> StateEstimate | None:
        """Newest state estimate."""
        return self.pipeline.estimate.value

    def wait(self, now_ns: int) -> tuple[Wait, float] | None:
        """Return the wait of the course at which the vehicle is to stand now, with the time waited,
        s; None while there is none."""
        waits = self.pipeline.waits
        if waits is None or waits.present is None:
            return None
        return waits.present, waits.waited_s(now_ns)

    def over(self, now_ns: int) -> bool:
        """True if a drive has ended and the vehicle is known to stand, or waiting for that has
        timed out: see :attr:`coasting`."""
        return self.pipeline.over(now_ns)

    @property
    def coasting(self) -> bool:
        """True while the vehicle drives, or has driven and is not yet known to be at standstill."""
        return self.pipeline.coasting

    # ---------------------------------------------------------------- plumbing

    def _guarded(self, name: str, run: Callable[[int], None]) -> Callable[[int], None]:
        """Wrap a task: an exception costs one tick and brakes; repeated exceptions of ingestion or
        actuation end the run."""

        def guarded(now_ns: int) -> None:
            try:
                run(now_ns)
            except Exception as error:
                self._raised_ns = [t for t in self._raised_ns if now_ns - t < RAISE_WINDOW_NS] + [
                    now_ns
                ]
                self.pipeline.raised = f"{name} raised {plugins.describe(error)}"
                if len(self._raised_ns) <= RAISE_LIMIT + 1:
                    self._sink.record(
                        Event.of(
                            now_ns, "error", "task_raised", task=name, trace=error_trace(error)
                        ),
                        now_ns,
                    )
                # Without an estimate or a control command the vehicle still brakes to a standstill.
                if len(self._raised_ns) > RAISE_LIMIT and name not in ("fusion", "control"):
                    raise
                if name == PIPELINE[-1]:
                    self._send(self.pipeline.safe_command(now_ns), now_ns)

        return guarded

    def _actuate(self, now_ns: int) -> None:
        self.pipeline.monitors.deadlines.update(now_ns, self._accounts)
        if now_ns >= self._measure_ns:
            self._measure_ns = now_ns + MEASURE_NS
            # Without it the last one stays.
            if (reaction_s := self._reaction_s()) is not None:
                self.pipeline.monitors.stopping.measured(reaction_s, self.pipeline.age_s(now_ns))
        actuation = self._actuation
        self.pipeline.monitors.motor.awaited = actuation.awaited
        self._send(
            self.pipeline.actuate(now_ns, actuation.unreachable or actuation.refusal), now_ns
        )

    def _measured_reaction_s(self) -> float | None:
        return self.executive.stats(ACTUATION).response.quantiles_ns((0.999,))[0] * 1e-9

    def _dispatch(self, origin: str, messages: Sequence[Message], t_ns: int) -> None:
        for message in messages:
            kind = type(message)
            if kind in _TEXTS:
                message = _shown(message)
            if kind is Fault and origin in self._named:
                message = msgspec.structs.replace(message, origin=origin)
            if kind in _TELEMETRY:
                record, joined = self._actuation.joined(origin, message)
                if record is not None:
                    self._sink.record(record, t_ns)
                if joined is None:
                    continue
                if joined is not record:
                    self._sink.record(joined, t_ns)
                message = joined
            else:
                self._sink.record(message, t_ns)
            if isinstance(message, ReferenceState):
                self._refer(origin, message, t_ns)
            elif kind not in _TRUTH:
                self.pipeline.inbox.put(message)
            for port in self._consumers.get((origin, kind), ()):
                device = self._devices[port]
                device.on_command(message, t_ns)
                self._after_device(port, device)

    def _refer(self, origin: str, state: ReferenceState, t_ns: int) -> None:
        """Record the ground truth by a reference system, unless a simulator gives the true one."""
        simulated, _ = self.port_states.get(self._truth_port, (None, ""))
        known = isfinite(
            state.latitude_rad + state.longitude_rad + state.yaw_rad + sum(state.velocity_enu_mps)
        )
        if origin in self._references and known and simulated is not PortState.OPENED:
            self._sink.record(self._references[origin](state), t_ns)

    def _send(self, command: ActuatorCommand, now_ns: int) -> None:
        self._sink.record(command, now_ns)
        for port in self._actuators:
            self._devices[port].on_command(command, now_ns)
            self._pending.append(port)
        for port in self._shows:
            if (estimate := self.pipeline.estimate.value) is not None:
                self._devices[port].on_command(estimate, now_ns)
            self._devices[port].on_command(command, now_ns)
        for port in self._plan_readers:
            if (plan := self.pipeline.planned_motion.value) is not None:
                self._devices[port].on_command(plan, now_ns)

    def _after_device(self, port: str, device: Device, *, may_send: bool = True) -> None:
        due = device.next_due_ns()
        if due < self._device_due_ns:
            self._device_due_ns = due
        if may_send and port not in self._pending:
            self._pending.append(port)

    def _on_tick(self, tick: TaskTick) -> None:
        self._sink.record(tick, tick.end_ns)
        if tick.missed and tick.task == CONTROL:
            self.pipeline.late()
        if self._pending:
            self._collect(tick.end_ns)

    def _collect(self, t_ns: int) -> None:
        """Collect the devices' bytes; they leave at ``t_ns``, the end of the task that produced
        them."""
        for port in self._pending:
            for action in self._devices[port].take_tx():
                if isinstance(action, Send):
                    try:
                        self.digest.add(t_ns, port, action.journal)
                    except Exception as error:  # noqa: BLE001 - the digest only explains
                        self.observers.failed("digest", error, lasting=True)
                        self.digest.complete = False
                    self._sink.record(WireChunk(t_ns, port, Direction.TX, action.journal), t_ns)
                self._outgoing.append(Outgoing(t_ns, port, action))
        self._pending.clear()
