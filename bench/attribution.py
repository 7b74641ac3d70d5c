"""Does a missed deadline name its true cause? Known causes are injected into the daemon while it
drives on the wall clock.

    python bench/attribution.py [SCENARIO ...] [--seconds 20] [--log FOLDER] [--ordinary] [--json]

The daemon drives a circle against the simulator. While it does, one thing goes wrong every second,
and when it did is known:

* gc: a full collection over a large cyclic heap, in turn within a driver, within a task and within
  another thread
* block: a driver sleeps when bytes arrive, as one does that asks its serial port and waits for the
  answer
* solver: the controller really computes for longer than its deadline, 0.2 s long
* sleep: the controller sleeps
* file: a driver writes a file and waits for the disk
* fault: the controller reads mapped memory that is on the disk only
* stop: another process stops the daemon and lets it go on, as job control does
* hog: another process takes the daemon's processor for 18 ms, in real-time class above it where
  that is allowed
* late: a callback of the daemon's own loop, beside the machine, computes for 18 ms
* gc+hog, block+hog: two at once

Of the misses that an injection made up a quarter of at least 95 % must name its cause, or one of
the two; of all misses at most 1 % may have none. The others have whatever cause their evidence
gives: the machine has a life of its own. Exit status 0 when that holds. ``--log`` keeps the logs,
for ``vehicled log report``; ``--ordinary`` leaves everything in the ordinary scheduling class.
"""

import argparse
import asyncio
import ctypes
import gc
import json
import mmap
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing.synchronize import Event as Flag
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec import json as msgjson

from vehicled.core.attribution import WITHOUT_CAUSE, holder_name
from vehicled.core.messages import Cause, TaskTick
from vehicled.log.reader import LogReader
from vehicled.offline.analysis.timing import timing

PAUSE_S = 6.0
"""Undisturbed time at the start of the drive."""
EVERY_S = 1.0
NAMED_SHARE, UNKNOWN_SHARE, OVERLAP_SHARE = 0.95, 0.01, 0.25
HEAP_OBJECTS = 100_000
BLOCK_S, HOG_S, LATE_S, SOLVER_S, OVERLOAD_S = 0.018, 0.018, 0.018, 0.009, 0.2
FILE_BYTES = 1 << 22
MAPPED_BYTES = 1 << 28
STRIDE_BYTES = 1 << 18
HOG_FIFO = 50
"""Real-time priority above the daemon's."""
HOGS_OF_ORDINARY_CLASS = 4
COURSE = "circle_r5_ccw"
WAITS = ("block", "file", "sleep", "fault")
"""Injections that wait within a driver or a controller."""
SCENARIOS = (
    "gc",
    "block",
    "solver",
    "hog",
    "late",
    "sleep",
    "file",
    "fault",
    "stop",
    "gc+hog",
    "block+hog",
    "sleep+stop",
)


class Injection(Struct, frozen=True):
    """Injected disturbance with its start and end on the monotonic clock."""

    kind: str
    from_ns: int
    to_ns: int


def names_it(kind: str, cause: Cause, holder: str, task: str) -> bool:
    """True if cause and holder of a miss match the injection."""
    by_control = task == "control" if not holder else holder == "control"
    said = {
        "gc": cause is Cause.GARBAGE_COLLECTION,
        "block": cause is Cause.BLOCKED and holder == "receive",
        # The kernel's own work for a file, or for a page, is that of the driver or the controller,
        # too.
        "file": cause in (Cause.BLOCKED, Cause.LOOP_HELD) and holder == "receive",
        "sleep": cause is Cause.BLOCKED and by_control,
        "fault": cause in (Cause.PAGE_FAULT, Cause.COMPUTE, Cause.QUEUED) and by_control,
        "solver": cause in (Cause.COMPUTE, Cause.QUEUED) and by_control,
        "stop": cause is Cause.STOPPED,
        "late": cause is Cause.LOOP_HELD and not holder,
        "hog": cause is Cause.PREEMPTED,
    }
    return said[kind]


# ------------------------------------------------------------------ the daemon that is disturbed


class Schedule:
    """Times of the injections: each second, with an offset that meets every phase of the tasks."""

    def __init__(self, seed: int, seconds: float) -> None:
        """Draw the times, counted from now."""
        rng = random.Random(seed)
        base_ns = time.monotonic_ns()
        count = int((seconds - PAUSE_S - 1.0) / EVERY_S)
        self._times_ns = [
            base_ns + round((PAUSE_S + EVERY_S * (n + 0.3 * rng.random())) * 1e9)
            for n in range(count)
        ]
        self.count = 0
        """Times that have come."""

    def due(self) -> bool:
        """True if a time has come since the last call."""
        before, now_ns = self.count, time.monotonic_ns()
        while self.count < len(self._times_ns) and self._times_ns[self.count] <= now_ns:
            self.count += 1
        return self.count > before

    def remaining(self) -> Iterator[int]:
        """Iterate over the times ahead, ns."""
        while self.count < len(self._times_ns):
            self.count += 1
            yield self._times_ns[self.count - 1]


@contextmanager
def noted(done: list[Injection], kind: str) -> Iterator[None]:
    """Note start and end of the block."""
    from_ns = time.monotonic_ns()
    yield
    done.append(Injection(kind, from_ns, time.monotonic_ns()))


def burn(seconds: float) -> None:
    """Keep the processor busy."""
    until_ns = time.thread_time_ns() + round(seconds * 1e9)
    while time.thread_time_ns() < until_ns:
        pass


def written() -> None:
    """Write a file and wait until the disk has it."""
    with tempfile.TemporaryFile() as file:
        file.write(os.urandom(FILE_BYTES))
        file.flush()
        os.fsync(file.fileno())


def faulted() -> Callable[[], None]:
    """Return a function that reads mapped memory whose pages are on the disk only."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - kept open as long as the process
    for _ in range(MAPPED_BYTES // FILE_BYTES):
        file.write(os.urandom(FILE_BYTES))
    file.flush()
    os.fsync(file.fileno())
    mapped = mmap.mmap(file.fileno(), MAPPED_BYTES, prot=mmap.PROT_READ)
    mapped.madvise(mmap.MADV_RANDOM)
    address, unlock = np.frombuffer(mapped, np.uint8).ctypes.data, ctypes.CDLL(None).munlock
    at = 0

    def read() -> None:
        nonlocal at
        # The daemon locks its memory.
        unlock(ctypes.c_void_p(address), ctypes.c_size_t(MAPPED_BYTES))
        mapped.madvise(mmap.MADV_DONTNEED)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        until_ns = time.monotonic_ns() + round(BLOCK_S * 1e9)
        while time.monotonic_ns() < until_ns:
            mapped[at]
            at = (at + STRIDE_BYTES + mmap.PAGESIZE) % MAPPED_BYTES

    return read


def before(owner: type, method: str, act: Callable[[], None]) -> None:
    """Call ``act`` at the head of a method."""
    original = getattr(owner, method)

    def wrapped(self: Any, *arguments: Any) -> Any:
        act()
        return original(self, *arguments)

    setattr(owner, method, wrapped)


def pin_loop(cpu: int | None) -> None:
    """Bind the calling thread alone: simulator and log writer keep the other processors."""
    if cpu is not None:
        os.sched_setaffinity(threading.get_native_id(), {cpu})


def disturb(kind: str, seconds: float, done: list[Injection], cpu: int | None) -> None:
    """Install an injection in this process, which will run the daemon."""
    from drivers.msglink.device import MsgLinkDevice
    from vehicled.control.mpc.controller import Mpc
    from vehicled.runtime.wall import WallPump

    schedule = Schedule(1, seconds)
    if kind == "gc":
        heap: list[list[Any]] = []

        def fill() -> None:
            # Not before set-up, which spares the collector what exists then.
            for _ in range(HEAP_OBJECTS):
                knot: list[Any] = []
                knot.append(knot)
                heap.append(knot)

        def collect() -> None:
            with noted(done, kind):
                gc.collect()

        asked = threading.Event()

        def serve() -> None:
            while asked.wait():
                asked.clear()
                collect()

        def in_turn(place: int) -> None:
            if schedule.count % 3 == place and schedule.due():
                if place == 2:
                    asked.set()
                else:
                    collect()

        threading.Thread(target=serve, daemon=True).start()
        before(WallPump, "_tick", fill)
        before(MsgLinkDevice, "on_rx", partial(in_turn, 0))
        before(Mpc, "step", partial(in_turn, 1))
        before(Mpc, "step", partial(in_turn, 2))
    elif kind in WAITS:
        act = {"file": written, "fault": faulted() if kind == "fault" else written}.get(
            kind, partial(time.sleep, BLOCK_S)
        )

        def wait() -> None:
            if schedule.due():
                with noted(done, kind):
                    act()

        if kind in ("block", "file"):
            before(MsgLinkDevice, "on_rx", wait)
        else:
            before(Mpc, "step", wait)
    elif kind == "solver":
        until_ns = 0

        def iterate() -> None:
            nonlocal until_ns
            if schedule.due():
                until_ns = time.monotonic_ns() + round(OVERLOAD_S * 1e9)
            if time.monotonic_ns() < until_ns:
                with noted(done, kind):
                    burn(SOLVER_S)

        before(Mpc, "step", iterate)
    elif kind == "late":

        def compute() -> None:
            with noted(done, kind):
                burn(LATE_S)

        def begin() -> None:
            loop = asyncio.get_running_loop()
            offset_ns = time.monotonic_ns() - round(loop.time() * 1e9)
            for at_ns in schedule.remaining():
                loop.call_at((at_ns - offset_ns) / 1e9, compute)

        before(WallPump, "_tick", begin)
    before(WallPump, "_tick", partial(pin_loop, cpu))


def hog(
    seconds: float,
    cpu: int | None,
    fifo: bool,
    first: bool,
    over: Flag,
    attributed: "multiprocessing.Queue[list[Injection]]",
) -> None:
    """Take a processor each second; the body of a process of its own."""
    schedule = Schedule(2, seconds)
    if cpu is not None:
        os.sched_setaffinity(0, {cpu})
    if fifo:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(HOG_FIFO))
    done: list[Injection] = []
    for at_ns in schedule.remaining():
        if over.wait(max(0.0, (at_ns - time.monotonic_ns()) * 1e-9)):
            break
        with noted(done, "hog"):
            burn(HOG_S)
    if first:
        attributed.put(done)


def stop(seconds: float, over: Flag, attributed: "multiprocessing.Queue[list[Injection]]") -> None:
    """Stop the daemon and let it go on each second; the body of a process of its own."""
    schedule, daemon = Schedule(3, seconds), os.getppid()
    done: list[Injection] = []
    for at_ns in schedule.remaining():
        if over.wait(max(0.0, (at_ns - time.monotonic_ns()) * 1e-9)):
            break
        with noted(done, "stop"):
            os.kill(daemon, signal.SIGSTOP)
            time.sleep(BLOCK_S)
            os.kill(daemon, signal.SIGCONT)
    attributed.put(done)


def may_be_realtime() -> bool:
    """True if this process may use the real-time class."""
    with suppress(AttributeError, OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        return True
    return False


def drive(scenario: str, seconds: float, folder: str, *, ordinary: bool) -> list[Injection]:
    """Run the disturbed daemon in this process; return the injections."""
    from vehicled.cli import main
    from vehicled.runtime import realtime

    kinds = scenario.split("+")
    cpu = min(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    fifo = not ordinary and may_be_realtime()
    if ordinary:
        set_up = realtime.setup
        realtime.setup = lambda request=None: set_up(
            request or realtime.RealtimeRequest(fifo_priority=None)
        )
    done: list[Injection] = []
    over = multiprocessing.Event()
    attributed: multiprocessing.Queue[list[Injection]] = multiprocessing.Queue()
    others: list[multiprocessing.Process] = []
    if "hog" in kinds:
        number = 1 if fifo else HOGS_OF_ORDINARY_CLASS
        others = [
            multiprocessing.Process(target=hog, args=(seconds, cpu, fifo, k == 0, over, attributed))
            for k in range(number)
        ]
    if "stop" in kinds:
        others.append(multiprocessing.Process(target=stop, args=(seconds, over, attributed)))
    for process in others:
        process.start()
    for kind in kinds:
        disturb(kind, seconds, done, cpu)
    words = [
        "sim",
        "--clock",
        "wall",
        "--strict-clock",
        "--controller",
        "mpc",
        "--course",
        COURSE,
        "--laps",
        "20",
        "--duration",
        str(seconds),
    ]
    # Or the vehicle would stop, as it should, and nothing drive any more.
    for limit in ("imu", "estimate", "control"):
        words += ["--set", f"limits.{limit}_silence_s=0.4"]
    main([*words, "--log", folder, "--quiet"])
    over.set()
    for _ in {"hog", "stop"} & {*kinds}:
        done += attributed.get()
    for process in others:
        process.join()
    return done


# ------------------------------------------------------------------ the judge


class Verdict(Struct, frozen=True):
    """Result of one scenario."""

    scenario: str
    injections: int
    misses: int
    unknown: int
    """Misses whose cause names what is lacking."""
    overlapping: int
    """Misses mostly within an injection; ``named`` of them name it, the rest are in
    ``otherwise``."""
    named: int
    otherwise: dict[str, int]
    outside: dict[str, int]
    """Causes of all other misses."""
    attributed: dict[str, int]
    """Causes of all misses by ``vehicled log timing``."""
    log: str

    @property
    def good(self) -> bool:
        """True if the promises hold and the sample was large enough to judge."""
        named = self.overlapping > 0 and self.named >= NAMED_SHARE * self.overlapping
        return named and self.unknown <= UNKNOWN_SHARE * self.misses


def judge(scenario: str, log_path: str, injections: list[Injection]) -> Verdict:
    """Compare the causes in a log with the injections."""
    misses = overlapping = named = unknown = 0
    otherwise: Counter[str] = Counter()
    outside: Counter[str] = Counter()
    with LogReader(log_path) as log:
        tasks, callbacks = [row.name for row in log.header.tasks], log.header.holders
        for record in log.messages(TaskTick):
            tick = record.message
            if not tick.missed:
                continue
            misses += 1
            unknown += tick.cause in WITHOUT_CAUSE
            overlaps = (
                (i.kind, min(i.to_ns, tick.end_ns) - max(i.from_ns, tick.release_ns))
                for i in injections
            )
            parts = [(kind, duration_ns) for kind, duration_ns in overlaps if duration_ns > 0]
            holder = holder_name(tick.cause, tick.holder, tasks, callbacks)
            word = tick.cause.name.lower() + (f" ({holder})" if holder else "")
            if sum(duration_ns for _, duration_ns in parts) < OVERLAP_SHARE * (
                tick.end_ns - tick.release_ns
            ):
                outside[word] += 1
                continue
            overlapping += 1
            if any(names_it(kind, tick.cause, holder, tasks[tick.task]) for kind, _ in parts):
                named += 1
            else:
                otherwise[f"{tasks[tick.task]}: {word}"] += 1
    attributed: Counter[str] = Counter()
    for task in timing(log_path).tasks:
        attributed.update(
            {cause: round(share * task.misses) for cause, share in task.causes.items()}
        )
    causes = dict(otherwise), dict(outside), dict(attributed)
    return Verdict(
        scenario, len(injections), misses, unknown, overlapping, named, *causes, log_path
    )


def run(scenario: str, seconds: float, folder: str, *, ordinary: bool) -> Verdict:
    """Run a scenario in a process of its own and judge it. Raises RuntimeError if it leaves no
    log."""
    place = Path(folder) / scenario.replace("+", "_and_")
    place.mkdir(parents=True, exist_ok=True)
    truth = place / "injected.json"
    truth.unlink(missing_ok=True)
    command = [
        sys.executable,
        __file__,
        scenario,
        "--seconds",
        str(seconds),
        "--log",
        str(place),
        "--truth",
        str(truth),
    ]
    done = subprocess.run(
        command + ["--ordinary"] * ordinary, capture_output=True, text=True, timeout=seconds + 120
    )
    logs = sorted(place.glob("*.mcap"), key=os.path.getmtime)
    if not truth.exists() or not logs:
        raise RuntimeError(
            f"{scenario}: no log ({done.returncode}): {(done.stdout + done.stderr).strip()[-2000:]}"
        )
    return judge(scenario, str(logs[-1]), msgjson.decode(truth.read_bytes(), type=list[Injection]))


def to_text(verdict: Verdict) -> str:
    """Return a verdict in a few lines."""

    def counts(found: dict[str, int]) -> str:
        return (
            ", ".join(
                f"{name} {count}"
                for name, count in sorted(found.items(), key=lambda item: -item[1])
            )
            or "none"
        )

    return (
        f"{'ok' if verdict.good else 'NOT OK'}  {verdict.scenario}: {verdict.injections} "
        f"injections, {verdict.misses} misses; {verdict.named} of {verdict.overlapping} that "
        f"overlap name it, unknown {verdict.unknown}\n"
        f"    overlapping, said otherwise: {counts(verdict.otherwise)}\n    elsewhere: "
        f"{counts(verdict.outside)}\n"
        f"    vehicled log timing: {counts(verdict.attributed)}\n    {verdict.log}"
    )


def main(argv: list[str] | None = None) -> int:
    """Run the scenarios and print the verdicts."""
    parser = argparse.ArgumentParser(
        description=str(__doc__).partition("\n")[0], allow_abbrev=False
    )
    parser.add_argument("scenario", nargs="*", choices=[*SCENARIOS, []], help="which (default all)")
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="length of each drive (default 20)"
    )
    parser.add_argument("--log", metavar="FOLDER", help="keep the logs in this folder")
    parser.add_argument(
        "--ordinary",
        action="store_true",
        help="no real-time class, neither for the daemon nor for the hog",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--truth", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.seconds < PAUSE_S + 3.0:
        parser.error(f"--seconds must be at least {PAUSE_S + 3.0:g}")
    if options.truth:
        done = drive(options.scenario[0], options.seconds, options.log, ordinary=options.ordinary)
        Path(options.truth).write_bytes(msgjson.encode(done))
        return 0
    verdicts = []
    with tempfile.TemporaryDirectory() as scratch:
        for scenario in options.scenario or SCENARIOS:
            try:
                verdicts.append(
                    run(
                        scenario, options.seconds, options.log or scratch, ordinary=options.ordinary
                    )
                )
            except (RuntimeError, OSError, subprocess.SubprocessError) as error:
                print(f"could not run: {error}", file=sys.stderr)
                return 1
            if not options.json:
                print(to_text(verdicts[-1]), flush=True)
    if options.json:
        print(
            json.dumps(
                [{**msgjson.decode(msgjson.encode(v)), "good": v.good} for v in verdicts], indent=2
            )
        )
    return 0 if all(verdict.good for verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
