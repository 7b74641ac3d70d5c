"""CPU time of a drive on the wall clock, beside lockstep and beside a loop that only waits and
reads.

    python bench/wall_cost.py [--seconds 10] [--rounds 3] [--json]

Each part runs in a process of its own, in turns:

* wall: the daemon of `art` on the wall clock, with log and evidence
* paced (the reference): lockstep of the same drive, whose every release comes at its real time. It
  has the machine's work and the waits, but no event loop, no arrivals between the releases and no
  evidence
* lockstep: the same drive at full speed, its caches warm
* bare: a loop that wakes at every release and whenever the simulator sends, reads the same bytes,
  and does nothing with them

CPU time is user and system time of the process, all threads, over the same seconds of the drive.
Read the ratios: a busy neighbour empties the caches between two releases, which makes the same code
cost several times as much.
"""

import argparse
import json
import resource
import select
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Literal

import msgspec
import numpy as np
from msgspec import Struct

from vehicled.core.link import Frame, LinkFrameKind, encode
from vehicled.core.messages import TaskTick
from vehicled.daemon.machine import Machine
from vehicled.log.reader import LogReader
from vehicled.run.plan import Plan
from vehicled.run.session import Observer, drive, greet
from vehicled.run.spec import START_TIMEOUT_S, RunSpec
from vehicled.runtime import realtime
from vehicled.runtime.connection import Link
from vehicled.runtime.loop import TimerFd
from vehicled.runtime.simulator import SimulatorProcess

SEED = 7
COURSE = "lot17"
WARM_UP_S = 3.0
AFTER_S = 2.0
"""Seconds of the drive before and after those that are measured."""
HEARTBEAT_NS = 50_000_000
GREETING_S = 60.0
WALL, PACED, LOCKSTEP, BARE = PARTS = ("wall", "paced", "lockstep", "bare")


class Cost(Struct):
    """Result of one part."""

    cpu_ms_per_s: float
    waits_per_s: float
    """Voluntary switches: the process gave up the processor."""
    lateness_us: list[float] = []
    """Median, 99th and 99.9th percentile of start minus release of all tasks; on the wall clock
    only."""


class Window:
    """Counts what the process uses between two instants of the drive."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._origin_ns: int | None = None
        self._readings: list[tuple[int, float, int]] = []

    def update(self, _machine: Machine | None, now_ns: int) -> None:
        """Take a reading if an end of the window has come."""
        if self._origin_ns is None:
            self._origin_ns = now_ns
        if (
            len(self._readings) < 2
            and now_ns - self._origin_ns >= (WARM_UP_S + len(self._readings) * self._seconds) * 1e9
        ):
            usage = resource.getrusage(resource.RUSAGE_SELF)
            self._readings.append((now_ns, usage.ru_utime + usage.ru_stime, usage.ru_nvcsw))

    def cost(self) -> Cost:
        """Return the cost per second."""
        (begin_ns, begin_s, before), (end_ns, end_s, after) = self._readings
        duration_s = (end_ns - begin_ns) * 1e-9
        return Cost((end_s - begin_s) / duration_s * 1e3, (after - before) / duration_s)

    def covers(self, t_ns: int) -> bool:
        """True if the window holds an instant."""
        return self._readings[0][0] <= t_ns < self._readings[1][0]


class PacedLink(Link):
    """Link of a lockstep drive whose grants count once their real time has come."""

    def __init__(self, sock: socket.socket, wanted: list[str]) -> None:
        super().__init__(sock, "lockstep", wanted, GREETING_S)
        self.block(GREETING_S)
        self._lag_ns: int | None = None

    def receive(self) -> list[Frame]:
        """Wait for the time of the newest frame."""
        frames = super().receive()
        kind, _, t_ns, _ = frames[-1]
        if kind is LinkFrameKind.GRANT:
            if self._lag_ns is None:
                self._lag_ns = time.monotonic_ns() - t_ns
            time.sleep(max(0, t_ns + self._lag_ns - time.monotonic_ns()) * 1e-9)
        return frames


def driven(part: str, seconds: float) -> Cost:
    """Drive and return the cost of the daemon."""
    window = Window(seconds)
    with tempfile.TemporaryDirectory() as folder:
        plan = _plan("wall" if part == WALL else "lockstep", seconds, folder)
        with SimulatorProcess(plan.loaded.path, [], COURSE, SEED) as simulator:
            if part == PACED:
                realtime.setup()
                link: Link = PacedLink(simulator.sock, plan.wiring.ports)
            else:
                link = greet(plan, simulator.sock)
            observer = Observer(
                progress={"window": window.update},
                on_machine=_one_release_at_a_time if part == PACED else None,
            )
            done = drive(
                plan, link, observer, simulator_pid=simulator.pid if part == LOCKSTEP else None
            )
        cost = window.cost()
        if part == WALL:
            assert done.log is not None
            with LogReader(done.log.path) as log:
                ticks = [record.message for record in log.messages(TaskTick)]
            late_us = [
                (tick.start_ns - tick.release_ns) / 1e3
                for tick in ticks
                if window.covers(tick.start_ns)
            ]
            cost.lateness_us = [float(value) for value in np.percentile(late_us, (50, 99, 99.9))]
    return cost


def _one_release_at_a_time(machine: Machine) -> None:
    """Have the simulator grant every release, not only those after which the daemon may send."""
    machine.next_output_ns = machine.next_due_ns  # type: ignore[method-assign]


def bare_loop(seconds: float) -> Cost:
    """Wait for the releases and read what the simulator sends; return the cost."""
    window = Window(seconds)
    plan = _plan("wall", seconds, None)
    period_ns = round(1e9 / max(row.rate_hz for row in plan.wiring.rates.values()))
    realtime.setup()
    with SimulatorProcess(plan.loaded.path, [], COURSE, SEED) as simulator, select.epoll() as epoll:
        link = greet(plan, simulator.sock)
        link.sock.setblocking(False)
        timer = TimerFd()
        epoll.register(link.sock, select.EPOLLIN)
        epoll.register(timer, select.EPOLLIN | select.EPOLLET)
        now_ns = begin_ns = beat_ns = release_ns = time.monotonic_ns()
        while now_ns - begin_ns < (WARM_UP_S + seconds + AFTER_S) * 1e9:
            for fd, _ in epoll.poll():
                if fd == link.sock.fileno():
                    link.sock.recv(1 << 16)
            now_ns = time.monotonic_ns()
            if now_ns >= release_ns:
                release_ns += period_ns * (1 + (now_ns - release_ns) // period_ns)
                timer.arm(release_ns)
            if now_ns >= beat_ns:
                beat_ns += HEARTBEAT_NS
                link.sock.send(encode(LinkFrameKind.DONE, 0, now_ns))
            window.update(None, now_ns)
        link.close("measured")
    return window.cost()


def _plan(clock: Literal["wall", "lockstep"], seconds: float, folder: str | None) -> Plan:
    """Return the plan of a drive that lasts longer than what is measured; without a log if
    ``folder`` is None."""
    return Plan.of(
        RunSpec(
            profile="art",
            course=COURSE,
            seed=SEED,
            clock=clock,
            shared_clock=clock == "wall" and folder is not None,
            start_timeout_s=START_TIMEOUT_S,
            duration_s=WARM_UP_S + seconds + AFTER_S,
            log_folder=folder,
        )
    )


def measured(part: str, seconds: float) -> Cost:
    """Run a part in a process of its own."""
    command = [sys.executable, __file__, "--part", part, "--seconds", str(seconds)]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=True, timeout=120 + 10 * seconds
    )
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=Cost)


def main(argv: list[str] | None = None) -> int:
    """Run the parts in turns and print their costs."""
    parser = argparse.ArgumentParser(
        description=str(__doc__).partition("\n")[0], allow_abbrev=False
    )
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="measured time of each part (default 10)"
    )
    parser.add_argument(
        "--rounds", type=int, default=3, help="how often each part runs (default 3)"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.seconds <= 0 or options.rounds < 1:
        parser.error("--seconds and --rounds must be positive")
    if options.part is not None:
        cost = (
            bare_loop(options.seconds)
            if options.part == BARE
            else driven(options.part, options.seconds)
        )
        print(msgspec.json.encode(cost).decode())
        return 0
    found: dict[str, list[Cost]] = {part: [] for part in PARTS}
    for k in range(options.rounds):
        # The order turns by one each round, so nobody always runs after the same neighbour.
        for part in PARTS[k % len(PARTS) :] + PARTS[: k % len(PARTS)]:
            found[part].append(measured(part, options.seconds))
    rows = {part: _row(costs, found[PACED]) for part, costs in found.items()}
    late = [
        statistics.median(values)
        for values in zip(*(cost.lateness_us for cost in found[WALL]), strict=True)
    ]
    lateness = dict(zip(("median_us", "p99_us", "p999_us"), late, strict=True))
    if options.json:
        print(json.dumps({"parts": rows, "lateness": lateness}, indent=2))
        return 0
    corner = f"median of {options.rounds}"
    print(
        f"{corner:<14}{'CPU ms per s':>14}{'us per release':>16}{'waits per s':>13}{'to paced':>10}"
    )
    for part, row in rows.items():
        print(
            f"{part:<14}{row['cpu_ms_per_s']:14.1f}{row['us_per_release']:16.1f}{row['waits_per_s']:13.0f}{row['to_paced']:10.2f}"
        )
    print(
        "lateness on the wall clock, us: "
        + ", ".join(f"{name[:-3]} {value:.0f}" for name, value in lateness.items())
    )
    return 0


def _row(costs: list[Cost], paced: list[Cost]) -> dict[str, float]:
    releases_per_s = sum(row.rate_hz for row in _plan("lockstep", 1.0, None).wiring.rates.values())
    cpu_ms_per_s = statistics.median(cost.cpu_ms_per_s for cost in costs)
    return {
        "cpu_ms_per_s": cpu_ms_per_s,
        "us_per_release": cpu_ms_per_s * 1e3 / releases_per_s,
        "waits_per_s": statistics.median(cost.waits_per_s for cost in costs),
        "to_paced": statistics.median(
            mine.cpu_ms_per_s / other.cpu_ms_per_s for mine, other in zip(costs, paced, strict=True)
        ),
    }


if __name__ == "__main__":
    sys.exit(main())
