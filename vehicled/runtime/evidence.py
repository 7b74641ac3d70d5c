"""Measured evidence about the causes of deadline misses on the vehicle.

Reading at every tick costs about a microsecond; the rest stays in short rings or in the kernel until a miss needs it. A source
missing on some system reads as if nothing happened, ``reasons`` says so once, and a miss that it could have explained has the cause
that names it.
"""

import asyncio
import gc
import os
import resource
import signal
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from types import FrameType, TracebackType
from typing import Any, Generic, Protocol, TypeVar, cast

from vehicled.attribution import FIRST_CALLBACK, NO_HOLDER, UNEXPLAINED_TOLERANCE_NS, Evidence, Execution, Reading
from vehicled.messages import GarbageCollection
from vehicled.observers import Observers, boundary
from vehicled.ports import NEVER_NS
from vehicled.runtime.clock import PacedClock, RunClock
from vehicled.runtime.loop import SLEEP_NS, PreciseEventLoop

_THREAD = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)
"""Resource usage of the thread, or of the process on systems without it (macOS), where the loop's thread does nearly all work."""

T = TypeVar("T")


class Ring(Generic[T]):
    """Newest items, in constant memory.

    The garbage collector, a signal handler or another thread may add an item at any moment, also while the items are read: slots
    are only ever replaced, so no reader can meet a changed size. It may then miss an old item, or see a new one twice.
    """

    def __init__(self, capacity: int) -> None:
        self._slots: list[T | None] = [None] * capacity
        self._added = 0

    def add(self, item: T) -> None:
        """Add an item in the place of the oldest."""
        added = self._added
        self._slots[added % len(self._slots)] = item
        self._added = added + 1

    def __reversed__(self) -> Iterator[T]:
        """Iterate over the items, newest first."""
        slots, added = self._slots, self._added
        for k in range(added - 1, max(added - len(slots), 0) - 1, -1):
            item = slots[k % len(slots)]
            assert item is not None
            yield item


class KernelCounters:
    """Scheduler statistics of the creating thread, and the processor time taken by the hypervisor.

    Both only grow. An unreadable source stays at 0 and has a line in ``reasons``.
    """

    def __init__(self, schedstat: str = "/proc/thread-self/schedstat", stat: str = "/proc/stat") -> None:
        self.reasons: list[str] = []
        self._ns_per_tick = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
        self._run_delay_ns = 0
        self._steal_ns = 0
        self._schedstat = self._open(schedstat, "preemption cannot be distinguished from other waiting")
        self._stat = self._open(stat, "time taken by a hypervisor is not measured")
        self.keeps_run_delay = self._keeps_run_delay()
        """True if the kernel counts the time that a thread is ready but does not run."""

    def _open(self, path: str, consequence: str) -> int:
        try:
            # The path is resolved here, so the descriptor keeps meaning this thread whoever reads it.
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            self.reasons.append(f"{path}: {error.strerror}; {consequence}")
            return -1

    def _keeps_run_delay(self) -> bool:
        if self._schedstat < 0:
            return False
        try:
            # The first number is the thread's run time: it is 0 without statistics.
            kept = os.pread(self._schedstat, 64, 0).split()[0] != b"0"
        except (OSError, IndexError):
            kept = False
        if not kept:
            self.reasons.append("the kernel keeps no scheduler statistics; preemption cannot be distinguished from other waiting")
        return kept

    def run_delay_ns(self) -> int:
        """Return the time (ns) that the thread was ready but did not run. Takes about 1 us."""
        if self._schedstat >= 0:
            try:
                self._run_delay_ns = int(os.pread(self._schedstat, 64, 0).split()[1])
            except (OSError, ValueError, IndexError):
                pass  # The thread has ended, or the kernel keeps no statistics: the last value stays.
        return self._run_delay_ns

    def steal_ns(self) -> int:
        """Return the time (ns, steps of 10 ms) that all processors lost to a hypervisor. Takes about 10 us: too slow for every
        tick.
        """
        if self._stat >= 0:
            try:
                self._steal_ns = int(os.pread(self._stat, 256, 0).split(b"\n", 1)[0].split()[8]) * self._ns_per_tick
            except (OSError, ValueError, IndexError):
                pass  # The last value stays.
        return self._steal_ns

    def close(self) -> None:
        """Close the descriptors. Safe to repeat."""
        for fd in (self._schedstat, self._stat):
            if fd >= 0:
                os.close(fd)
        self._schedstat = self._stat = -1

    def __del__(self) -> None:
        self.close()


class WallStopwatch:
    """Stopwatch of a run on the wall clock. Must be created and read on the thread of the loop."""

    def __init__(
        self, kernel: KernelCounters | None = None, clock: RunClock | None = None, observers: Observers | None = None
    ) -> None:
        self._kernel = kernel or KernelCounters()
        self._now_ns = (clock or RunClock()).now_ns
        self._observers = observers or Observers()

    def read(self) -> Reading:
        """Return the present reading. Takes about 2 us."""
        t_ns, cpu_ns = self._now_ns(), time.thread_time_ns()
        usage = resource.getrusage(_THREAD)
        return t_ns, cpu_ns, usage.ru_nvcsw, usage.ru_nivcsw, usage.ru_majflt, self._run_delay_ns(0)

    def begin(self, now_ns: int) -> Reading:
        """Return the reading at the start of a batch of tasks."""
        return self.read()

    def end(self, task: int, begin: Reading) -> Reading:
        """Return the reading at the end of a task. Takes about 1 us if the task kept the processor, because then it cannot have
        waited.
        """
        t_ns, cpu_ns = self._now_ns(), time.thread_time_ns()
        usage = resource.getrusage(_THREAD)
        waited = t_ns - begin[0] - (cpu_ns - begin[1]) > UNEXPLAINED_TOLERANCE_NS
        delay_ns = self._run_delay_ns(begin[5]) if waited else begin[5]
        return t_ns, cpu_ns, usage.ru_nvcsw, usage.ru_nivcsw, usage.ru_majflt, delay_ns

    def _run_delay_ns(self, otherwise_ns: int) -> int:
        try:
            return self._kernel.run_delay_ns()
        except Exception as error:  # noqa: BLE001 - the time is what drives, the rest explains it
            self._observers.failed("run delay", error, lasting=True)
            return otherwise_ns


boundary(WallStopwatch.read)
boundary(WallStopwatch.begin)
boundary(WallStopwatch.end)
boundary(WallStopwatch._run_delay_ns)


class GcWatch:
    """Records the runs of the garbage collector until ``close``."""

    TOLD_NS = 100_000
    """Shortest collection that is reported; dozens of shorter ones happen every second."""

    def __init__(self, capacity: int = 64, observers: Observers | None = None) -> None:
        self._observers = observers or Observers()
        self._ring: Ring[tuple[int, int]] = Ring(capacity)
        self._unreported: deque[GarbageCollection] = deque(maxlen=capacity)
        self._start_ns = 0
        gc.callbacks.append(self._on_gc)

    def close(self) -> None:
        """Stop recording. Safe to repeat."""
        if self._on_gc in gc.callbacks:
            gc.callbacks.remove(self._on_gc)

    def since(self, start_ns: int) -> list[tuple[int, int]]:
        """Return start and end (ns) of the collections that ended after an instant, oldest first."""
        # A collection in another thread may be late to record its end, while the waiting thread already continues.
        begun_ns = self._start_ns
        found = [(begun_ns, time.monotonic_ns())] if begun_ns else []
        for span in reversed(self._ring):
            if span[1] <= start_ns:
                break
            found.append(span)
        return found[::-1]

    def take(self) -> Sequence[GarbageCollection]:
        """Return the collections since the last call, without the shortest."""
        found = []
        # Pop one by one until none is left, because another thread may collect meanwhile.
        while self._unreported:
            found.append(self._unreported.popleft())
        return found

    @boundary
    def _on_gc(self, phase: str, info: dict[str, int]) -> None:
        try:
            self._note(phase, info)
        except Exception as error:  # noqa: BLE001 - it comes anywhere, and Python would print it each time
            self._observers.failed("collections", error, lasting=True)

    def _note(self, phase: str, info: dict[str, int]) -> None:
        now_ns = time.monotonic_ns()
        if phase == "start":
            self._start_ns = now_ns
        elif start_ns := self._start_ns:
            self._start_ns = 0
            self._ring.add((start_ns, now_ns))
            if now_ns - start_ns >= self.TOLD_NS:
                self._unreported.append(GarbageCollection(start_ns, now_ns - start_ns, info["generation"], info["collected"]))


class HolderLog:
    """Records which runtime callbacks held the loop. Only for the thread of the loop."""

    def __init__(
        self, names: Sequence[str], stopwatch: WallStopwatch, capacity: int = 1024, observers: Observers | None = None
    ) -> None:
        """Take the ``names`` by number. Raises ``ValueError`` for more than 127."""
        if len(names) > NO_HOLDER - FIRST_CALLBACK:
            raise ValueError(f"{len(names)} callbacks, but only {NO_HOLDER - FIRST_CALLBACK} numbers")
        self.names = tuple(names)
        self.stopwatch = stopwatch
        self.observers = observers or Observers()
        self._holds = [Hold(self, code) for code in range(len(names))]
        self._ring: Ring[Execution] = Ring(capacity)

    def hold(self, code: int) -> "Hold":
        """Return a reusable context manager for a callback: ``with holders.hold(code):``. It must not be nested in itself."""
        return self._holds[code]

    def add(self, code: int, begin: Reading, end: Reading) -> None:
        """Record a callback."""
        self._ring.add(Execution(FIRST_CALLBACK + code, begin, end))

    def since(self, start_ns: int) -> list[Execution]:
        """Return the callbacks that ended after an instant, oldest first; only the outer one of nested callbacks."""
        found: list[Execution] = []
        # Entries are in order of their ends, so going backwards the outer one comes first.
        for run in reversed(self._ring):
            if run.end[0] <= start_ns:
                break
            if not found or run.begin[0] < found[-1].begin[0]:
                found.append(run)
        return found[::-1]


class Hold:
    """Context manager that records how long its block held the loop."""

    __slots__ = ("_begin", "_code", "_log")

    def __init__(self, log: HolderLog, code: int) -> None:
        self._log = log
        self._code = code
        self._begin: Reading | None = None

    @boundary
    def __enter__(self) -> None:
        try:
            self._begin = self._log.stopwatch.read()
        except Exception as error:  # noqa: BLE001 - the block must run
            self._begin = None
            self._log.observers.failed("holders", error, lasting=True)

    @boundary
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        try:
            if self._begin is not None:
                self._log.add(self._code, self._begin, self._log.stopwatch.end(self._code, self._begin))
        except Exception as failure:  # noqa: BLE001 - what raised in the block, if anything, must go on
            self._log.observers.failed("holders", failure, lasting=True)


class LoopRecord(Protocol):
    """What a loop records of its sleeps, in monotonic ns."""

    idle_from_ns: int
    woke_ns: int
    """End of the last sleep, which began at ``idle_from_ns``."""
    sleeps: int
    slept_ns: int
    overslept_ns: int
    """Number and duration of all sleeps, and how much later than planned they ended."""


class NoLoopRecord:
    """Stand-in for a loop that records nothing."""

    idle_from_ns = woke_ns = sleeps = slept_ns = overslept_ns = 0


class TrioRecord:
    """Trio instrument that records the loop's sleeps."""

    def __init__(self) -> None:
        self.idle_from_ns = self.woke_ns = 0
        self.sleeps = self.slept_ns = self.overslept_ns = 0
        self._until_ns = 0

    def before_io_wait(self, timeout: float) -> None:
        """Note the start of a wait; polls that do not sleep are not counted."""
        self._until_ns = 0
        if timeout > 0:
            self.idle_from_ns = now_ns = time.monotonic_ns()
            self._until_ns = min(now_ns + int(min(timeout, 1e9) * 1e9), NEVER_NS)

    def after_io_wait(self, timeout: float) -> None:
        """Note the end of a wait."""
        if self._until_ns:
            self.woke_ns = now_ns = time.monotonic_ns()
            self.sleeps += now_ns - self.idle_from_ns > SLEEP_NS
            self.slept_ns += now_ns - self.idle_from_ns
            self.overslept_ns += max(0, now_ns - self._until_ns)


def watch_sleeps() -> LoopRecord:
    """Return the record of the running loop's sleeps; a :class:`NoLoopRecord` if there is none (stock asyncio, uvloop)."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        import trio

        watch = TrioRecord()
        trio.lowlevel.add_instrument(cast(trio.abc.Instrument, watch))
        return watch
    return loop.selector if isinstance(loop, PreciseEventLoop) else NoLoopRecord()


class Continuations:
    """Notes when the process went on after a stop: job control, a debugger, or a freezer that uses signals."""

    def __init__(self, observers: Observers | None = None) -> None:
        self._observers = observers or Observers()
        self.times: Ring[int] = Ring(8)
        self.last_ns = 0
        self._previous: Any = None
        if hasattr(signal, "SIGCONT") and threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGCONT, self._on_continue)
            # Restart system calls after the signal, because a C library may treat EINTR as a failure.
            signal.siginterrupt(signal.SIGCONT, False)

    def close(self) -> None:
        """Restore SIGCONT. Safe to repeat."""
        if self._previous is not None:
            signal.signal(signal.SIGCONT, self._previous)
            self._previous = None

    @boundary
    def _on_continue(self, _number: int, _frame: FrameType | None) -> None:
        self.last_ns = now_ns = time.monotonic_ns()
        try:
            self.times.add(now_ns)
        except Exception as error:  # noqa: BLE001 - it interrupts the code that drives
            self._observers.failed("stop signals", error, lasting=True)


class TakenTime:
    """Measures what the computer took from the loop's thread: other processes, the hypervisor, a stop signal, a late wake-up.

    The rest is the daemon's own: what it computed, what it waited for in its own code, and its planned sleeps.
    """

    def __init__(self, kernel: KernelCounters, continuations: Continuations, loop: LoopRecord, observers: Observers) -> None:
        self._kernel = kernel
        self._continuations = continuations
        self._loop = loop
        self._observers = observers
        self._from = self._read()

    @boundary
    def mark(self) -> None:
        """Begin to measure."""
        try:
            self._from = self._read()
        except Exception as error:  # noqa: BLE001 - the clock must go on
            self._observers.failed("taken time", error, lasting=True)

    @boundary
    def taken_ns(self) -> int:
        """Return the time that was taken since the mark. Takes about 3 us."""
        try:
            return self._taken_ns()
        except Exception as error:  # noqa: BLE001 - the same
            self._observers.failed("taken time", error, lasting=True)
            return 0

    def _taken_ns(self) -> int:
        since, now = self._from, self._read()
        wall_ns, cpu_ns, switches, delay_ns, sleeps, slept_ns, overslept_ns = (b - a for a, b in zip(since, now, strict=True))
        off_ns = max(0, wall_ns - slept_ns - cpu_ns)
        # The delay of a late wake-up is part of the sleep.
        delayed_ns = min(off_ns, max(0, delay_ns - overslept_ns))
        stood_ns = off_ns - delayed_ns
        # A thread that did not give the processor up stood still because a hypervisor, an interrupt or a stop took it.
        stopped = self._continuations.last_ns > since[0]
        own = switches > sleeps and not stopped
        return overslept_ns + delayed_ns + (0 if own else stood_ns)

    def _read(self) -> tuple[int, ...]:
        loop = self._loop
        usage = resource.getrusage(_THREAD)
        reading = time.monotonic_ns(), time.thread_time_ns(), usage.ru_nvcsw, self._kernel.run_delay_ns()
        return *reading, loop.sleeps, loop.slept_ns, loop.overslept_ns


class WallEvidenceSource:
    """Collects the evidence about late releases. Must be created on the thread that will run the loop.

    Call ``watch_loop`` once inside the loop, and ``mark`` after each batch of tasks, before the loop may sleep: later kernel counts
    belong to the next release.
    """

    STEAL_REFRESH_NS = 1_000_000_000

    def __init__(
        self,
        holder_names: Sequence[str],
        kernel: KernelCounters | None = None,
        clock: RunClock | None = None,
        observers: Observers | None = None,
    ) -> None:
        """Take the names of the runtime's callbacks, ``holder_names``, in the order of their numbers."""
        self.observers = observers or Observers()
        self.kernel = kernel or KernelCounters()
        self.clock = clock or RunClock()
        self.stopwatch = WallStopwatch(self.kernel, self.clock, self.observers)
        """Stopwatch for the tasks of the same loop."""
        self.holders = HolderLog(holder_names, self.stopwatch, observers=self.observers)
        self.collections = GcWatch(observers=self.observers)
        self.continuations = Continuations(self.observers)
        self._loop: LoopRecord = NoLoopRecord()
        self._steal_since_ns = time.monotonic_ns()
        self._marks: Ring[tuple[int, int]] = Ring(16)
        """Time and run delay at the ends of the last batches: a release may pass before a batch has ended."""
        self._marks.add((self._steal_since_ns, self.kernel.run_delay_ns()))
        self._steal_ns = self.kernel.steal_ns()

    def watch_loop(self) -> None:
        """Read sleeps from the running loop; without this no late wake-up is recognised."""
        self._loop = watch_sleeps()
        if isinstance(self.clock, PacedClock):
            self.clock.taken = TakenTime(self.kernel, self.continuations, self._loop, self.observers)

    def mark(self, now_ns: int) -> None:
        """Note that a batch of tasks ended at ``now_ns``. Takes about 1 us."""
        self._marks.add((now_ns, self.kernel.run_delay_ns()))
        if now_ns - self._steal_since_ns > self.STEAL_REFRESH_NS:
            self._steal_ns = self.kernel.steal_ns()
            self._steal_since_ns = now_ns

    def evidence(self, release_ns: int, start_ns: int, end_ns: int) -> Evidence:
        """Return what happened around the loop between release and end."""
        loop, at_ns = self._loop, self.clock.at_ns
        mark = 0, 0
        for mark in reversed(self._marks):
            if mark[0] <= release_ns:
                break
        since_ns, delay_before_ns = mark
        delay_ns = self.kernel.run_delay_ns() - delay_before_ns
        delay_ns -= sum(run.end[5] - run.begin[5] for run in self.holders.since(since_ns) if run.begin[0] >= since_ns)
        # The hypervisor's counter is coarse and covers more than the window, so only a proportional part is attributed to it.
        window_ns = max(0, end_ns - release_ns)
        stolen_ns = (self.kernel.steal_ns() - self._steal_ns) * window_ns // max(end_ns - self._steal_since_ns, window_ns, 1)
        collections = self.collections.since(self.clock.not_after_ns(release_ns))
        return Evidence(
            asleep_ns=None if isinstance(loop, NoLoopRecord) else (at_ns(loop.idle_from_ns), at_ns(loop.woke_ns)),
            callbacks=self.holders.since(release_ns),
            collections=[(at_ns(start), at_ns(end)) for start, end in collections],
            run_delay_ns=max(0, delay_ns) + max(0, stolen_ns),
            keeps_run_delay=self.kernel.keeps_run_delay,
            since_ns=since_ns,
            jumps=self.clock.jumps(),
            continued_ns=[at_ns(t_ns) for t_ns in reversed(self.continuations.times)],
        )

    def close(self) -> None:
        """Stop recording. Safe to repeat."""
        self.collections.close()
        self.continuations.close()
        self.kernel.close()
