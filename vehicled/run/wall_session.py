"""A run in wall time: deadline evidence, transport, services and the event loop, none of which
lockstep needs."""

import signal
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from msgspec.structs import replace

from vehicled.core.attribution import HOLDERS
from vehicled.core.errors import SetupError
from vehicled.core.journal import Router
from vehicled.core.messages import HostHealth
from vehicled.daemon import recognition
from vehicled.daemon.machine import Machine
from vehicled.live.control_socket.console import Console
from vehicled.live.control_socket.socket_path import SocketPathError, free_path, own_path
from vehicled.log.pipe import WriterProcess
from vehicled.run.plan import Plan
from vehicled.run.session import (
    ENDED,
    NOT_BEGUN,
    DriveOutcome,
    Observer,
    Session,
    StartTimes,
    open_mixed,
    same_world,
)
from vehicled.runtime.clock import PacedClock, RunClock
from vehicled.runtime.connection import Link
from vehicled.runtime.ending import EndConditions, Ending
from vehicled.runtime.evidence import WallEvidenceSource
from vehicled.runtime.health import HealthSampler, LogHealth
from vehicled.runtime.host import Transport
from vehicled.runtime.link_port import LinkTransport
from vehicled.runtime.loop import new_event_loop
from vehicled.runtime.ports import Port
from vehicled.runtime.sd_notify import watchdog_interval_ns
from vehicled.runtime.wall import WallPump
from vehicled.runtime.wires import WireTransport

if TYPE_CHECKING:
    from vehicled.runtime.planner.process import PlanningProcess

Service = Callable[[], Coroutine[Any, Any, None]]


def drive_in_wall_time(
    plan: Plan, link: Link | None, observer: Observer, ports: Mapping[str, Port], setup_fault: str
) -> DriveOutcome:
    """Run the daemon on the event loop; as :func:`vehicled.run.session.drive`."""
    spec = plan.spec
    start = StartTimes(time.monotonic_ns(), time.time_ns())
    with ExitStack() as before_drive:
        if link is not None:
            before_drive.callback(link.close, NOT_BEGUN)
            plan = same_world(plan, link.hello.world)
        socket_path = None
        if spec.control_socket:
            socket_path = (own_path if spec.control_socket == "own" else free_path)(
                spec.name or plan.loaded.profile.name
            )
        clock = PacedClock() if link is not None and link.shared_clock else RunClock()
        router = Router()
        evidence_source = WallEvidenceSource(HOLDERS, clock=clock, observers=router.observers)
        before_drive.callback(evidence_source.close)
        session = Session(
            plan, observer, router, start, evidence_source.stopwatch, evidence_source,
            ports=ports, simulated=link is not None, socket_path=socket_path,
            setup_fault=setup_fault, mixed=open_mixed(plan, router, before_drive),
        )  # fmt: skip
        before_drive.pop_all()
    bridges = session.bridges
    run = session.begin()

    def pump() -> Ending:
        services = _services(plan, session, router, socket_path, clock)
        transport = _transport(plan, link, ports, router, clock)
        with _refusal_alone():
            spare = bridges.turn if bridges else None
            return _run_wall(
                plan, session, transport, run, evidence_source, router, services, spare
            )

    def close() -> None:
        if link is not None:
            link.close(ENDED)
        evidence_source.close()

    ending = session.carry_out(pump, clock.now_ns, close)
    return session.finish(ending, stalls=clock.stalls if isinstance(clock, PacedClock) else None)


@contextmanager
def _refusal_alone() -> Iterator[None]:
    """Take the error of a control socket that another daemon took first out of the exception group
    of the pump's tasks."""
    refusals: list[SocketPathError] = []
    try:
        yield
    except* SocketPathError as group:
        refusals += [error for error in group.exceptions if isinstance(error, SocketPathError)]
    if refusals:
        raise refusals[0] from None


def _transport(
    plan: Plan, link: Link | None, ports: Mapping[str, Port], router: Router, clock: RunClock
) -> Transport:
    """Return the transport: the vehicle's ports, the link, or the simulator's pseudo-terminals with
    the link for the rest."""
    if link is None:
        # What no driver can read is compared with all formats; loading them now spares the loop.
        recognition.decoders()
        return WireTransport(ports, clock=clock, sink=router)
    urls = link.hello.urls if plan.spec.link == "wires" else {}
    on_link = [port for port in plan.wiring.ports if port not in urls]
    carried = LinkTransport(
        link,
        router,
        plan.spec.silence_s(shared_clock=link.shared_clock),
        on_link,
        clock,
        router.observers,
    )
    if not urls:
        return carried
    from vehicled.runtime.ports import make_port

    return WireTransport(
        {port: make_port(port, urls[port]) for port in plan.wiring.ports if port in urls},
        carried,
        clock,
        router,
    )


def _services(
    plan: Plan, session: Session, router: Router, control_socket: Path | None, clock: RunClock
) -> list[Service]:
    """Return the services beside the pump: health readings and the control socket."""
    machine, writer, console = session.machine, session.writer, session.console
    folder = (
        Path(writer.path).parent
        if writer is not None
        else Path(plan.loaded.profile.log.folder).expanduser()
    )
    sampler = HealthSampler(folder, _log_health(writer, router), machine.observers)

    def on_health(health: HostHealth) -> None:
        t_ns = clock.at_ns(health.t_ns)
        machine.on_message(replace(health, t_ns=t_ns), t_ns)

    services: list[Service] = [lambda: sampler.serve(on_health)]
    if (mixed := session.mixed) is not None:
        services.append(lambda: mixed.serve(machine, clock))
    if control_socket is not None:
        from vehicled.live.control_socket.server import ControlServer

        server = ControlServer(
            control_socket,
            clock.now_ns,
            machine.next_due_ns,
            _planner(plan, machine, console, clock),
        )
        services.append(lambda: server.serve(console))
    return services


def _planner(
    plan: Plan, machine: Machine, console: Console, clock: RunClock
) -> "PlanningProcess | None":
    """Return the planning process, started; None if the controller cannot be given another
    course."""
    from vehicled.runtime.planner.frames import Opening
    from vehicled.runtime.planner.process import PlanningProcess

    if machine.pipeline.builder is None:
        return None
    profile = plan.loaded.profile
    opening = Opening.of(profile.vehicle, profile.limits, plan.course.datum, plan.fence, plan.grid)
    planner = PlanningProcess(opening, console.router.record, clock.now_ns)
    with suppress(OSError):
        # The first request tries again, and is refused if that fails too.
        planner.start()
    return planner


def _run_wall(
    plan: Plan,
    session: Session,
    transport: Transport,
    run: EndConditions,
    evidence_source: WallEvidenceSource,
    router: Router,
    services: Sequence[Service],
    spare: Callable[[int, int], None] | None,
) -> Ending:
    """Run the machine until the run ends, on the plan's event loop. Raises :class:`SetupError` if
    that is not installed."""

    async def signals() -> None:
        await _watch_signals(pump)

    async def drive() -> Ending:
        with session.priority:
            return await pump.run()

    pump = WallPump(
        session.machine, transport, run, evidence_source, router, [signals, *services], spare
    )
    if plan.spec.backend == "trio":
        try:
            import trio  # noqa: F401  (anyio would fail later and in other words)
        except ImportError:
            raise SetupError("--async-backend trio needs trio: pip install trio") from None
        return anyio.run(drive, backend="trio")
    return anyio.run(drive, backend="asyncio", backend_options={"loop_factory": new_event_loop})


async def _watch_signals(pump: WallPump) -> None:
    # The service manager ends a hanging daemon with SIGHUP; elsewhere SIGHUP means a closed
    # terminal, which nohup ignores.
    hangs_up = not watchdog_interval_ns() and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
    ends = (signal.SIGINT, signal.SIGTERM, *((signal.SIGHUP,) if hangs_up else ()))
    interrupted = False
    try:
        with anyio.open_signal_receiver(*ends) as signals:
            try:
                async for number in signals:
                    if interrupted and number == signal.SIGHUP:
                        # A closed terminal sends SIGHUP twice, from the shell and the system; that
                        # is not a second interrupt.
                        continue
                    interrupted = True
                    pump.interrupt(
                        "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
                    )
            finally:
                if hangs_up:
                    # Between the end of the receiver and the line below, a SIGHUP would end the
                    # process at once.
                    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    finally:
        if hangs_up:
            # A further SIGHUP must not end the process while the log is being closed.
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})


def _log_health(writer: WriterProcess | None, router: Router) -> Callable[[], LogHealth]:
    if writer is None:
        return LogHealth
    sink = writer.sink
    return lambda: LogHealth(
        sink.outbox.full_share,
        sink.journal_losses.records + sink.derived_losses.records + sink.unpackable + router.lost,
        writer.failure,
        writer.loss,
    )
