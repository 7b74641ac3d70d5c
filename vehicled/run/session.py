"""Builds and runs one run of the daemon: profile, course, link, log, machine, pump. Used by every
command that drives."""

import gc
import os
import platform
import secrets
import socket
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy
from msgspec import Struct

from vehicled import __version__
from vehicled.core.attribution import HOLDERS, EvidenceSource
from vehicled.core.error_text import error_text
from vehicled.core.executive import Stopwatch
from vehicled.core.journal import Router
from vehicled.core.link import LinkError
from vehicled.core.messages import Event, Message
from vehicled.core.plain_text import printable
from vehicled.core.ports import NEVER_NS, TakesSecret
from vehicled.core.tasks import PIPELINE
from vehicled.core.wire.usage import encode_rows
from vehicled.daemon.app import build
from vehicled.daemon.machine import Machine
from vehicled.live.control_socket.console import Console, RunFacts
from vehicled.log.fingerprint import numeric_fingerprint
from vehicled.log.pipe import LogResult, WriterProcess
from vehicled.log.schema import (
    BOARD_NAME,
    FENCE_NAME,
    MESSAGES_KEY,
    Attachment,
    FileRow,
    PluginRow,
    RunHeader,
    TaskRow,
    file_attachment,
    plugin_attachment,
)
from vehicled.log.sink import LogSink
from vehicled.paths.stored import course_message, to_json
from vehicled.profile import plugins
from vehicled.profile.noise import injected
from vehicled.profile.plugins import is_network
from vehicled.run.injected import InjectedFailures
from vehicled.run.plan import Plan
from vehicled.run.secret import read_secret
from vehicled.run.signals import StopSignals
from vehicled.run.task_costs import TaskCosts
from vehicled.runtime import realtime
from vehicled.runtime.board.recording import BoardStopwatch, virtual_stopwatch
from vehicled.runtime.connection import Link
from vehicled.runtime.ending import EndConditions, Ending, Outcome
from vehicled.runtime.lockstep import LockstepLink, run_lockstep
from vehicled.runtime.plugin_watch import PluginWatch

if TYPE_CHECKING:
    from vehicled.live.bridges.feed import Feed, LockstepFeed
    from vehicled.run.mixed import MixedReality
    from vehicled.runtime.clock import StallCount
    from vehicled.runtime.ports import Port

_GREETING_TIMEOUT_S = 60.0
_CRASH_LOG_S = 2.0
"""Time to close the log after a crash; then the writer does it unattended."""
NOT_BEGUN, ENDED = "the daemon does not begin", "the run has ended"
"""Reasons for the simulator, so that it prints none of its own."""
SHOWN = 100
"""Longest part of a name by the simulator that is shown, characters."""
MAX_DIGITS = 20

SIMULATED_SECRET = "simulated"  # noqa: S105 - what stands for a secret
LOCKSTEP_SETUP = realtime.RealtimeRequest(
    lock_memory=False,
    fifo_priority=None,
    timer_slack_ns=None,
    switch_interval_s=None,
    collect=False,
)
"""Set-up for virtual time, without privileges; long-lived objects are still excluded from garbage
collection."""

Listener = tuple[Iterable[type[Message]], Callable[[Message, int], None]]
"""Message types with a listener besides the log."""


class DriveOutcome(Struct, frozen=True):
    """Result of a drive."""

    ending: Ending
    machine: Machine
    seed: int
    """Seed of the simulator."""
    started_ns: int
    wall_s: float
    log: LogResult | None
    log_problem: str
    stalls: "StallCount | None" = None
    """Stalls of the computer during which the clock of the run paused."""
    late_tasks: Sequence[str] = ()
    """Texts about the tasks that would miss their deadlines if virtual time did not stand still for
    them."""
    signal: int = 0
    """Signal that ended a drive in lockstep; 0 for none. The program may want it, too."""
    observers_failed: str = ""
    """Failures of what only explains the drive; empty if there were none."""


class Observer(Struct, frozen=True, kw_only=True):
    """Takes part in a drive without changing it."""

    listeners: Sequence[Listener] = ()
    on_machine: Callable[[Machine], None] | None = None
    """Called with the machine before the drive begins."""
    progress: Mapping[str, Callable[[Machine, int], None]] = {}
    """Functions by name that are called with the time after each turn; must be fast."""
    on_end: Callable[[Ending], object] | None = None
    """Called at the end of the drive, also after a crash, before anything is closed."""
    verdict: Callable[[], tuple[bool | None, str]] | None = None
    """Returns whether the lanes were kept, None without lanes, and the verdict as text, for the
    log."""
    injected: InjectedFailures | None = None
    """Failures that are recorded when they begin and end."""


def greet(plan: Plan, sock: socket.socket) -> Link:
    """Do the handshake with the simulator behind a socket. Raises
    :class:`vehicled.core.link.LinkError`."""
    spec = plan.spec
    link = Link(
        sock, spec.clock, plan.wiring.ports, _GREETING_TIMEOUT_S, shared_clock=spec.shared_clock
    )
    if spec.clock == "lockstep":
        link.block(spec.silence_s(shared_clock=True))
    return link


@PluginWatch()
def drive(
    plan: Plan,
    link: "Link | LockstepLink | None",
    observer: Observer,
    *,
    ports: "Mapping[str, Port] | None" = None,
    setup_fault: str = "",
    simulator_pid: int | None = None,
) -> DriveOutcome:
    """Run the daemon on a simulator link, on ``ports`` by device, or on both, until it ends. Closes
    the link.

    ``setup_fault`` is a reason against arming, or empty. Raises
    :class:`vehicled.core.link.LinkError` if the simulator simulates something else and
    :class:`LogError` if the log folder is not writable; later errors become an :class:`Ending`.
    """
    if plan.spec.clock == "lockstep":
        assert link is not None
        return _drive_in_lockstep(plan, link, observer, setup_fault, simulator_pid)
    # Imported here, because it brings an event loop that lockstep does not need.
    from vehicled.run.wall_session import drive_in_wall_time

    assert link is None or isinstance(link, Link)
    return drive_in_wall_time(plan, link, observer, ports or {}, setup_fault)


def _drive_in_lockstep(
    plan: Plan,
    link: "Link | LockstepLink",
    observer: Observer,
    setup_fault: str,
    simulator_pid: int | None,
) -> DriveOutcome:
    with ExitStack() as before_drive:
        before_drive.callback(link.close, NOT_BEGUN)
        plan = same_world(plan, link.hello.world)
        start = StartTimes(link.hello.start_ns, time.time_ns())
        router = Router()
        virtual = virtual_stopwatch(plan.wiring, plan.board, start.clock_ns, plan.spec.seed)
        costs = TaskCosts(plan, virtual, router.observers)
        evidence_source = virtual if isinstance(virtual, BoardStopwatch) else None
        session = Session(
            plan,
            observer,
            router,
            start,
            costs,
            evidence_source,
            simulated=True,
            setup_fault=setup_fault,
            mixed=open_mixed(plan, router, before_drive),
        )
        before_drive.pop_all()
    machine = session.machine
    run = session.begin()
    signals = StopSignals(run.interrupt)

    def pump() -> Ending:
        with signals, _one_processor(simulator_pid):
            return run_lockstep(machine, link, run, costs, plan.spec.silence_s(shared_clock=True))

    ending = session.carry_out(
        pump, lambda: machine.executive.busy_until_ns, partial(link.close, ENDED)
    )
    return session.finish(ending, late_tasks=costs.late, signal=signals.number)


def open_mixed(plan: Plan, router: Router, before_drive: ExitStack) -> "MixedReality | None":
    """Start the virtual world if the plan has one; ``before_drive`` ends it if the drive does not
    begin. Raises BridgeError."""
    if not plan.spec.mixed_name:
        return None
    from vehicled.run.mixed import MixedReality

    mixed = MixedReality.start(plan, router.record)
    before_drive.callback(mixed.close)
    return mixed


class StartTimes(Struct, frozen=True):
    """Start of a run, taken at once, because the difference dates every stamp in UTC."""

    clock_ns: int
    """Time on the clock of the run."""
    utc_ns: int


class Session:
    """Parts that a run has on either clock: machine, log, console and bridges, and the steps after
    its end."""

    def __init__(
        self,
        plan: Plan,
        observer: Observer,
        router: Router,
        start: StartTimes,
        stopwatch: Stopwatch,
        evidence_source: EvidenceSource | None,
        *,
        ports: Collection[str] = (),
        simulated: bool,
        socket_path: Path | None = None,
        setup_fault: str,
        mixed: "MixedReality | None" = None,
    ) -> None:
        """Build and open everything. ``ports`` are the real devices; ``simulated``: a simulator
        stands for the others.

        Raises :class:`SetupError`, :class:`LogError` and BridgeError.
        """
        self._lockstep = plan.spec.clock == "lockstep"
        self.mixed = mixed
        self._plan, self._observer, self._router, self._start = plan, observer, router, start
        self.machine = build(
            plan.loaded.profile,
            plan.course,
            plan.wiring,
            stopwatch,
            router,
            evidence_source,
            fence=plan.fence,
            grid=plan.grid,
            setup_fault=setup_fault,
            virtual=self._lockstep and plan.board is None,
            observers=router.observers,
        )
        _hand_out_secrets(plan, self.machine, real=frozenset(ports) if simulated else None)
        # Call set-up after all long-lived objects exist, because it freezes them for the garbage
        # collector. A program around us that has frozen its own objects keeps them so: nobody can
        # thaw only some.
        self._freezes = gc.get_freeze_count() <= realtime.FROZEN_AT_START
        wanted = LOCKSTEP_SETUP if self._lockstep else realtime.RealtimeRequest()
        self.priority = realtime.LoopPriority()
        report = realtime.setup(
            wanted if self._freezes else msgspec.structs.replace(wanted, freeze_gc=False)
        )
        self.priority.set_aside()
        self.writer = (
            _open_log(plan, start, report, setup_fault)
            if plan.spec.log_folder is not None
            else None
        )
        if self.writer is not None:
            router.log_to(self.writer.sink)
        closed = frozenset[str]() if simulated else frozenset(plan.wiring.ports) - frozenset(ports)
        self.console = _console(plan, self.machine, router, self.writer, start.clock_ns, closed)
        self.bridges: Feed | LockstepFeed | None = None
        for_operators = plan.spec.view is not None or plan.spec.mavlink is not None
        if (for_operators and socket_path is not None) or plan.spec.ros2 is not None:
            from vehicled.run.bridges import open_bridges

            sink = self.writer.sink if self.writer is not None else _sink_for_bridges(router, start)
            self.bridges = open_bridges(
                plan, self.console, router, sink, socket_path, simulated=simulated
            )

    def begin(self) -> EndConditions:
        """Record the course and return the conditions that end the run, with whatever follows each
        turn of the pump."""
        spec, router, observer = self._plan.spec, self._router, self._observer
        for types, record in observer.listeners:
            router.listen(types, record)
        if observer.on_machine is not None:
            router.observers.guard("preparation", observer.on_machine, None)(self.machine)
        router.record(course_message(self._plan.course, self._start.clock_ns), self._start.clock_ns)
        self._begin_ns = time.monotonic_ns()
        # In wall time the set-up does not belong to the drive.
        run_from_ns = self._run_from_ns = self._start.clock_ns if self._lockstep else self._begin_ns
        # In virtual time the bridges take their turn with the pump, in wall time after it.
        bridges = self.bridges if self._lockstep else None
        self._run = EndConditions(
            self.machine,
            self.writer,
            until_ns=NEVER_NS
            if spec.duration_s is None
            else run_from_ns + round(spec.duration_s * 1e9),
            start_timeout_ns=NEVER_NS
            if spec.start_timeout_s is None
            else round(spec.start_timeout_s * 1e9),
            stays=spec.stays,
            ends_disarmed=spec.ends_disarmed,
            progress=_after_turns(
                observer,
                self.machine,
                router,
                self._start.clock_ns,
                bridges,
                self.mixed if self._lockstep else None,
            ),
        )
        return self._run

    def carry_out(
        self, pump: Callable[[], Ending], now_ns: Callable[[], int], close: Callable[[], None]
    ) -> Ending:
        """Run the pump, then ``close``. A plugin that keeps failing ends the run with the brake;
        other errors are raised."""
        on_end = self._observer.on_end or (lambda ending: None)
        ended = self._router.observers.guard("end of the run", on_end, None)
        try:
            ending = pump()
            ended(ending)
            return ending
        except BaseException as error:
            with suppress(Exception):
                ended(self._run.lost("the daemon crashed", now_ns()))
            if not (
                isinstance(error, plugins.PluginFaultError)
                or (isinstance(error, Exception) and plugins.place_of(error))
            ):
                if self.writer is not None:
                    with suppress(Exception):
                        self.writer.close(
                            _end_of_a_crash(error, self.machine), now_ns(), timeout_s=_CRASH_LOG_S
                        )
                raise
            why = (
                f"a plugin failed again and again: {plugins.describe(error)}; the brake was "
                "commanded"
            )
            return Ending(Outcome.NOT_FINISHED, why, now_ns())
        finally:
            close()
            if self._freezes:
                gc.unfreeze()
            if self.mixed is not None:
                self.mixed.close()
            if self.bridges is not None:
                self._router.observers.guard("bridges", self.bridges.finish, None)(now_ns())

    def finish(
        self,
        ending: Ending,
        *,
        stalls: "StallCount | None" = None,
        late_tasks: Callable[[], list[str]] | None = None,
        signal: int = 0,
    ) -> DriveOutcome:
        """Record what the run ended with, close the log and return the result."""
        machine = self.machine
        writer = self.writer
        observers = self._router.observers
        observer = self._observer
        wall_s = (time.monotonic_ns() - self._begin_ns) * 1e-9
        end = {
            "outcome": ending.outcome.name.lower(),
            "why": ending.why,
            "digest": machine.digest.hexdigest(),
        }
        no_verdict: tuple[bool | None, str] = (None, "")
        judged = (
            no_verdict
            if observer.verdict is None
            else observers.guard("verdict", observer.verdict, no_verdict)()
        )
        if judged[0] is not None:
            end |= {"lanes": judged[1], "lanes_passed": "yes" if judged[0] else "no"}
        if stalls is not None:
            end["stalls"] = str(stalls)
        if usage := observers.guard(
            "message counts", lambda: encode_rows(machine.usage) if machine.usage else "", ""
        )():
            end[MESSAGES_KEY] = usage
        failed = any(part.code == "task_raised" for part in machine.supervisor.reason.parts())
        late = (
            observers.guard("task costs", late_tasks, [])()
            if late_tasks is not None and not failed
            else []
        )
        if late:
            end["late_tasks"] = "; ".join(late)
        if observers.failures:
            end["observers_failed"] = observers.summary
        _record_all(self._router, observers.take_events(ending.now_ns))
        log = (
            None
            if writer is None
            else observers.guard("log writer", writer.close, None)(end, ending.now_ns)
        )
        problem = (
            log.failure
            if log is not None
            else ""
            if writer is None
            else f"closing the log {writer.path} failed"
        )
        return DriveOutcome(
            ending,
            machine,
            self._plan.spec.seed,
            self._run_from_ns,
            wall_s,
            log,
            problem,
            stalls,
            late,
            signal,
            observers.summary,
        )


def _end_of_a_crash(error: BaseException, machine: Machine) -> dict[str, str]:
    outcome = "crashed" if isinstance(error, Exception) else "interrupted"
    return {"outcome": outcome, "why": error_text(error), "digest": machine.digest.hexdigest()}


def _after_turns(
    observer: Observer,
    machine: Machine,
    router: Router,
    started_ns: int,
    bridges: "Feed | LockstepFeed | None",
    mixed: "MixedReality | None",
) -> Callable[[int], None]:
    """Return what follows each turn of the pump and only explains the drive. Each part may fail
    without the others."""
    observers = router.observers
    guard = observers.guard
    steps: list[Callable[[int], None]] = []
    if bridges is not None:
        steps.append(guard("bridges", lambda now_ns: bridges.turn(now_ns, now_ns), None))
    if mixed is not None:
        steps.append(guard("mixed reality", partial(mixed.turn, machine), None, lasting=True))
    if (injected := observer.injected) is not None:
        due = guard("injected failures", injected.due, [])
        steps.append(lambda now_ns: _record_all(router, due(now_ns - started_ns, now_ns)))
    for name, progress in observer.progress.items():
        steps.append(guard(name, partial(progress, machine), None, lasting=True))

    def turned(now_ns: int) -> None:
        for step in steps:
            step(now_ns)
        if observers.unreported:
            _record_all(router, observers.take_events(now_ns))

    return turned


def _record_all(router: Router, events: Iterable[Event]) -> None:
    for event in events:
        router.record(event, event.t_ns)


def same_world(plan: Plan, world: dict[str, str]) -> Plan:
    """Return the plan with the simulator's seed and latency. Raises :class:`LinkError` if the
    simulator simulates something else.

    A foreign simulator may not describe its world; then nothing is compared.
    """
    if not world:
        return plan
    ours = {"profile": plan.loaded.profile.name, "course": plan.course.name, "link": plan.spec.link}
    for what, name in ours.items():
        if world.get(what, name) != name:
            theirs = printable(world[what], SHOWN)
            raise LinkError(
                f"the simulator was started with --{what} {theirs}, this command with {name}: "
                "use the same in both"
            )
    given = world.get("seed", str(plan.spec.seed))
    if not (given.isdecimal() and len(given) <= MAX_DIGITS):
        raise LinkError(
            f"the simulator names {printable(given, SHOWN)} as its seed: a seed is a whole "
            "number from 0 on"
        )
    seed, latency = int(given), printable(world.get("latency", ""), SHOWN)
    return msgspec.structs.replace(
        plan, spec=msgspec.structs.replace(plan.spec, seed=seed, latency=latency)
    )


def _hand_out_secrets(plan: Plan, machine: Machine, *, real: frozenset[str] | None) -> None:
    """Read the passwords of the devices, in a simulation of the ``real`` ones only; None: all are.

    A simulated caster asks for no certain password, so that a profile can be driven where its
    passwords are not. Raises :class:`SetupError` with device and file, never the secret.
    """
    for port in machine.ports:
        device = machine.device(port)
        if not isinstance(device, TakesSecret) or (ref := device.secret_ref) is None:
            continue
        if real is not None and port not in real:
            device.set_secret(SIMULATED_SECRET)
            continue
        secret, _ = read_secret(
            "password", key=f"devices.{port}", file=ref.file, credential=ref.credential
        )
        device.set_secret(secret)


def _console(
    plan: Plan,
    machine: Machine,
    router: Router,
    writer: WriterProcess | None,
    started_ns: int,
    closed: frozenset[str],
) -> Console:
    profile = plan.loaded.profile
    facts = RunFacts(
        profile=profile.name,
        course=plan.course.name,
        course_m=plan.course.length_m,
        estimator=profile.estimator.label,
        controller=profile.controller.label,
        link=plan.spec.link,
        version=__version__,
        started_ns=started_ns,
        log=writer.path if writer is not None else "",
        datum=plan.course.datum,
        closed_ports=closed,
        mixed=plan.spec.mixed_name,
    )
    return Console(machine, facts, router)


def _sink_for_bridges(router: Router, start: StartTimes) -> LogSink:
    """Return a sink that packs records for the bridges of a run without a log."""
    sink = LogSink(start.utc_ns - start.clock_ns)
    sink.stop()
    router.log_to(sink)
    return sink


@contextmanager
def _one_processor(simulator_pid: int | None) -> Iterator[None]:
    """Keep daemon and simulator on one processor: they take turns, and waking another processor for
    each turn costs more than it saves.

    The log writer stays free. No effect on systems without this call, or without a simulator of our
    own.
    """
    allowed = (
        os.sched_getaffinity(0)
        if simulator_pid is not None and hasattr(os, "sched_getaffinity")
        else set()
    )
    # Parallel runs spread over the processors by their process ids.
    chosen = {sorted(allowed)[os.getpid() % len(allowed)]} if allowed else set()
    with suppress(OSError):
        for pid in (simulator_pid, 0) if chosen else ():
            os.sched_setaffinity(pid or 0, chosen)
    try:
        yield
    finally:
        if allowed:
            with suppress(OSError):
                os.sched_setaffinity(0, allowed)


def _attachments(plan: Plan) -> list[Attachment]:
    """Return every file that the machine was built from, so that the log is self-contained."""
    files = [
        Attachment("profile.toml", "application/toml", plan.loaded.source.encode()),
        Attachment("course.json", "application/json", to_json(plan.course)),
    ]
    if plan.fence is not None:
        files.append(Attachment(FENCE_NAME, "application/geo+json", plan.fence_text))
    if plan.board is not None:
        files.append(Attachment(BOARD_NAME, "application/json", plan.board_text))
    for row, plugin in enumerate(plan.plugins):
        kind = "application/octet-stream" if is_network(plugin.reference) else "text/x-python"
        files += [
            Attachment(plugin_attachment(row, name), kind, text)
            for name, text in plugin.files.items()
        ]
    for row, each in enumerate(plan.world_files):
        files += [
            Attachment(file_attachment(row, name), "application/octet-stream", data)
            for name, data in each.files.items()
        ]
    return files


def _open_log(
    plan: Plan, start: StartTimes, report: realtime.RealtimeReport, setup_fault: str
) -> WriterProcess:
    profile = plan.loaded.profile
    rows = {name: getattr(profile.tasks, name) for name in PIPELINE}
    digest, depends_on = numeric_fingerprint()
    header = RunHeader(
        run_id=secrets.token_hex(3),
        start_wall_ns=start.utc_ns,
        start_monotonic_ns=start.clock_ns,
        profile=profile.name,
        course=plan.course.name,
        tasks=[
            TaskRow(
                name=name,
                rate_hz=row.rate_hz,
                deadline_ns=plan.wiring.rates[name].deadline_ns,
                phase_ns=plan.wiring.rates[name].phase_ns,
                policy=row.policy,
                criticality=row.criticality,
                declared_ns=plan.wiring.rates[name].declared_ns,
                max_miss_share=row.max_miss_share,
            )
            for name, row in rows.items()
        ],
        vehicled_version=__version__,
        python_version=platform.python_version(),
        numpy_version=numpy.__version__,
        msgspec_version=msgspec.__version__,
        fingerprint=digest,
        fingerprint_of=depends_on,
        profile_digest=plan.loaded.digest,
        seed=plan.spec.seed,
        latency=plan.spec.latency,
        noise=injected(plan.loaded.profile),
        board=plan.board.label if plan.board is not None else "",
        clock=plan.spec.clock,
        link=plan.spec.link,
        estimator=profile.estimator.label,
        controller=profile.controller.label,
        argv=sys.argv,
        host=platform.node(),
        loop="granted by the simulator" if plan.spec.clock == "lockstep" else plan.spec.backend,
        realtime=report.as_dict(),
        holders=list(HOLDERS),
        setup_fault=setup_fault,
        plugins=[
            PluginRow(kind=each.kind, reference=each.reference, hashes=each.hashes)
            for each in plan.plugins
        ],
        files=[
            FileRow(
                key=each.key,
                name=each.name,
                path=each.path,
                hashes=each.hashes,
                attached=bool(each.files),
            )
            for each in plan.world_files
        ],
        world=plan.spec.world,
        mixed=plan.spec.mixed_name,
    )
    table = profile.log
    return WriterProcess.start(
        header,
        folder=plan.spec.log_folder or table.folder,
        attachments=_attachments(plan),
        compression=table.compression,
        rotate_mb=table.rotate_mb,
        quota_mb=table.quota_mb,
        blocking=plan.spec.clock == "lockstep",
    )
