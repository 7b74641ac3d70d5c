"""Processes of a fleet: one simulator, and one daemon per vehicle, each the ``vehicled sim
--connect`` that users start themselves."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from tempfile import TemporaryFile
from types import MappingProxyType
from typing import IO, Any

import msgspec
from msgspec import Struct

from sim_backend.fleet.order import FleetProgress, FleetReport, VehicleReport
from vehicled.core.errors import SetupError
from vehicled.live.bridges.frames import FrameKind
from vehicled.live.view.fleet_wire import FleetCars
from vehicled.run.fleet import FleetPlan, daemon_arguments
from vehicled.run.fleet_bridges import FleetBridges
from vehicled.run.fleet_view import FleetView
from vehicled.run.signals import StopSignals

LAST_WAIT_S = 20.0
"""Longest wait for the daemons after the simulator has ended, s: they close their logs."""


class DaemonEnd(Struct, frozen=True, kw_only=True):
    """Exit status and output of the daemon of one vehicle."""

    status: int
    """Exit status; negative: the number of the signal that killed it."""
    result: dict[str, Any]
    """Its result as JSON; empty if it gave none."""
    said: str
    """Its warnings and errors."""


class FleetEnd(Struct, frozen=True, kw_only=True):
    """End of a fleet: that of each process."""

    daemons: dict[str, DaemonEnd]
    reports: dict[str, VehicleReport]
    """Vehicles as the simulator saw them; empty if it failed."""
    cars: list[list[tuple[float, float, float, float, float]]]
    """Traces of the other traffic; empty unless asked for."""
    car_outline_m: tuple[float, float, float]
    simulator_said: str
    """Reason if the simulator failed; else empty."""
    wall_s: float
    signal: int
    """Signal that ended the run; 0 for none."""


class _Child:
    """A process with its output in files, so that none waits for a reader."""

    def __init__(
        self,
        stack: ExitStack,
        arguments: list[str],
        descriptors: list[int],
        *,
        piped: bool = False,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._output, self._errors = _file(stack), _file(stack)
        # In a session of its own: Ctrl-C reaches it once, through the command.
        self.process = subprocess.Popen(
            [sys.executable, *arguments],
            pass_fds=descriptors,
            stdin=subprocess.PIPE if piped else subprocess.DEVNULL,
            stdout=subprocess.PIPE if piped else self._output,
            stderr=self._errors,
            start_new_session=True,
            env={**os.environ, **environment},
        )
        stack.callback(self.kill)

    def kill(self) -> None:
        """Kill the process if it still runs. Idempotent."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()

    def wait(self, until_s: float) -> int:
        """Return the exit status; a process that does not end in time is killed."""
        try:
            return self.process.wait(max(until_s - time.monotonic(), 0.0))
        except subprocess.TimeoutExpired:
            self.kill()
            return self.process.wait()

    @property
    def output(self) -> bytes:
        """Its standard output so far."""
        return _content(self._output)

    @property
    def said(self) -> str:
        """Its warnings and errors."""
        return _content(self._errors).decode(errors="replace").strip()


def _file(stack: ExitStack) -> IO[bytes]:
    return stack.enter_context(TemporaryFile())


def _content(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


def drive_fleet(
    plan: FleetPlan,
    timeout_s: float,
    *,
    ends_on_contact: bool = False,
    trace: bool = False,
    view: FleetView | None = None,
    bridges: FleetBridges | None = None,
    progress: Callable[[FleetProgress], None] = lambda _: None,
    on_daemons: Callable[[dict[str, int]], None] = lambda _: None,
) -> FleetEnd:
    """Drive a fleet until all daemons have ended. ``on_daemons`` gets their process ids by name.
    Raises :class:`SetupError` for what the simulator refuses, and BridgeError for a ``view`` that
    cannot be shown."""
    begin_s = time.monotonic()
    with ExitStack() as stack:
        ours, theirs = list[socket.socket](), list[socket.socket]()
        for _ in plan.vehicles:
            pair = socket.socketpair()
            for end, ends in zip(pair, (ours, theirs), strict=True):
                ends.append(stack.enter_context(end))
        descriptors = [end.fileno() for end in theirs]
        order = plan.order(
            descriptors,
            timeout_s,
            ends=ends_on_contact,
            trace=trace,
            watched=view is not None,
        )
        simulator = _Child(stack, ["-m", "sim_backend.fleet"], descriptors, piped=True)
        _ordered(simulator, order)
        _close(theirs)
        daemons = {}
        for vehicle, end in zip(plan.vehicles, ours, strict=True):
            arguments = ["-m", "vehicled", *daemon_arguments(vehicle, end.fileno(), timeout_s)]
            if view is not None:
                arguments += view.arguments(vehicle.entry.name)
            environment = dict[str, str]()
            if bridges is not None:
                arguments += bridges.arguments[vehicle.entry.name]
                environment = bridges.environment[vehicle.entry.name]
            daemons[vehicle.entry.name] = _Child(
                stack, arguments, [end.fileno()], environment=environment
            )
        _close(ours)
        pids = {name: child.process.pid for name, child in daemons.items()}
        on_daemons(pids)
        page = None
        if view is not None:
            page = view.start(plan, pids)
            stack.callback(page.close)
        report = FleetReport([])
        with _passed_on(list(daemons.values())) as signals:
            for line in _lines(simulator):
                news = msgspec.json.decode(line, type=FleetProgress | FleetReport)
                if isinstance(news, FleetReport):
                    report = news
                else:
                    progress(news)
                    if page is not None and news.cars:
                        cars = FleetCars(news.cars, news.car_outline_m)
                        page.offer(FrameKind.STATE, msgspec.msgpack.encode(cars))
            until_s = time.monotonic() + LAST_WAIT_S
            status = simulator.wait(until_s)
            left = {name: _end_of(child, until_s) for name, child in daemons.items()}
        return FleetEnd(
            daemons=left,
            cars=report.cars,
            car_outline_m=report.car_outline_m,
            reports={each.name: each for each in report.vehicles},
            simulator_said="" if report.vehicles else _failure(simulator.said, status),
            wall_s=time.monotonic() - begin_s,
            signal=signals.number,
        )


def _ordered(simulator: _Child, order: bytes) -> None:
    """Send the order and wait until all worlds are built."""
    process = simulator.process
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError):
        # The pipe stays open: at its end the simulator notices that this process is gone.
        process.stdin.write(order + b"\n")
        process.stdin.flush()
    if not process.stdout.readline():
        status = process.wait()
        raise SetupError(_failure(simulator.said, status))


def _failure(said: str, status: int) -> str:
    return said or f"the simulator ended with status {status} and gave no reason"


def _lines(simulator: _Child) -> Iterator[bytes]:
    assert simulator.process.stdout is not None
    yield from simulator.process.stdout


def _close(ends: list[socket.socket]) -> None:
    for end in ends:
        end.close()


def _end_of(child: _Child, until_s: float) -> DaemonEnd:
    status = child.wait(until_s)
    try:
        result = msgspec.json.decode(child.output or b"{}", type=dict[str, Any])
    except msgspec.DecodeError:
        result = {}
    return DaemonEnd(status=status, result=result, said=child.said)


@contextmanager
def _passed_on(children: list[_Child]) -> Iterator[StopSignals]:
    """Pass the first stop signal on to the daemons, which stop their vehicles. A second one ends
    the command, and its children with it."""

    def interrupt(_: str) -> None:
        for child in children:
            if child.process.poll() is None:
                os.kill(child.process.pid, signal.SIGINT)

    signals = StopSignals(interrupt)
    with signals:
        yield signals
