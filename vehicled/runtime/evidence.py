"""Measured evidence about the causes of deadline misses on the vehicle.

Reading at every tick costs about a microsecond; the rest stays in short rings or in the kernel until a miss needs it. A source
missing on some system reads as if nothing happened, and ``reasons`` says so once.
"""

import asyncio
import gc
import os
import resource
import time
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Protocol, cast

from vehicled.attribution import FIRST_CALLBACK, NO_HOLDER, UNEXPLAINED_TOLERANCE_NS, Evidence, Execution, Reading
from vehicled.messages import GarbageCollection
from vehicled.runtime.clock import RunClock
from vehicled.runtime.loop import PreciseEventLoop

_THREAD = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)
"""Resource usage of the thread, or of the process on systems without it (macOS), where the loop's thread does nearly all work."""


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

    def _open(self, path: str, consequence: str) -> int:
        try:
            # The path is resolved here, so the descriptor keeps meaning this thread whoever reads it.
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            self.reasons.append(f"{path}: {error.strerror}; {consequence}")
            return -1

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

    def __init__(self, kernel: KernelCounters | None = None, clock: RunClock | None = None) -> None:
        self._kernel = kernel or KernelCounters()
        self._now_ns = (clock or RunClock()).now_ns

    def read(self) -> Reading:
        """Return the present reading. Takes about 2 us."""
        usage = resource.getrusage(_THREAD)
        delay_ns = self._kernel.run_delay_ns()
        return self._now_ns(), time.thread_time_ns(), usage.ru_nvcsw, usage.ru_nivcsw, usage.ru_majflt, delay_ns

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
        delay_ns = self._kernel.run_delay_ns() if waited else begin[5]
        return t_ns, cpu_ns, usage.ru_nvcsw, usage.ru_nivcsw, usage.ru_majflt, delay_ns


class GcWatch:
    """Records the runs of the garbage collector until ``close``."""

    TOLD_NS = 100_000
    """Shortest collection that is reported; dozens of shorter ones happen every second."""

    def __init__(self, capacity: int = 64) -> None:
        self._ring: deque[tuple[int, int]] = deque(maxlen=capacity)
        self._unreported: deque[GarbageCollection] = deque(maxlen=capacity)
        self._start_ns = 0
        gc.callbacks.append(self._on_gc)

    def close(self) -> None:
        """Stop recording. Safe to repeat."""
        if self._on_gc in gc.callbacks:
            gc.callbacks.remove(self._on_gc)

    def since(self, start_ns: int) -> list[tuple[int, int]]:
        """Return start and end (ns) of the collections that ended after an instant, oldest first."""
        found = [span for span in self._ring if span[1] > start_ns]
        # A collection in another thread may be late to record its end, while the waiting thread already continues.
        if self._start_ns:
            found.append((self._start_ns, time.monotonic_ns()))
        return found

    def take(self) -> Sequence[GarbageCollection]:
        """Return the collections since the last call, without the shortest."""
        if not self._unreported:
            return ()
        # Pop one by one, because another thread may collect meanwhile.
        return [self._unreported.popleft() for _ in range(len(self._unreported))]

    def _on_gc(self, phase: str, info: dict[str, int]) -> None:
        now_ns = time.monotonic_ns()
        if phase == "start":
            self._start_ns = now_ns
        elif self._start_ns:
            self._ring.append((self._start_ns, now_ns))
            if now_ns - self._start_ns >= self.TOLD_NS:
                collection = GarbageCollection(self._start_ns, now_ns - self._start_ns, info["generation"], info["collected"])
                self._unreported.append(collection)
            self._start_ns = 0


class HolderLog:
    """Records which runtime callbacks held the loop. Only for the thread of the loop."""

    def __init__(self, names: Sequence[str], stopwatch: WallStopwatch, capacity: int = 1024) -> None:
        """Take the ``names`` by number. Raises ``ValueError`` for more than 127."""
        if len(names) > NO_HOLDER - FIRST_CALLBACK:
            raise ValueError(f"{len(names)} callbacks, but only {NO_HOLDER - FIRST_CALLBACK} numbers")
        self.names = tuple(names)
        self.stopwatch = stopwatch
        self._holds = [Hold(self, code) for code in range(len(names))]
        self._ring: deque[Execution] = deque(maxlen=capacity)

    def hold(self, code: int) -> "Hold":
        """Return a reusable context manager for a callback: ``with holders.hold(code):``. It must not be nested in itself."""
        return self._holds[code]

    def add(self, code: int, begin: Reading, end: Reading) -> None:
        """Record a callback."""
        self._ring.append(Execution(FIRST_CALLBACK + code, begin, end))

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
        self._begin: Reading = (0, 0, 0, 0, 0, 0)

    def __enter__(self) -> None:
        self._begin = self._log.stopwatch.read()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._log.add(self._code, self._begin, self._log.stopwatch.end(self._code, self._begin))


class Idle(Protocol):
    """Last sleep of the loop, in monotonic ns."""

    idle_from_ns: int
    woke_ns: int


class NeverIdle:
    """Stand-in for a loop that does not record its sleeps."""

    idle_from_ns = 0
    woke_ns = 0


class TrioIdle:
    """Trio instrument that records the loop's last sleep."""

    def __init__(self) -> None:
        self.idle_from_ns = 0
        self.woke_ns = 0
        self._asleep = False

    def before_io_wait(self, timeout: float) -> None:
        """Note the start of a wait; polls that do not sleep are not counted."""
        self._asleep = timeout > 0
        if self._asleep:
            self.idle_from_ns = time.monotonic_ns()

    def after_io_wait(self, timeout: float) -> None:
        """Note the end of a wait."""
        if self._asleep:
            self.woke_ns = time.monotonic_ns()


def watch_idle() -> Idle:
    """Return the record of the running loop's sleeps; a :class:`NeverIdle` if there is none (stock asyncio, uvloop)."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        import trio

        watch = TrioIdle()
        trio.lowlevel.add_instrument(cast(trio.abc.Instrument, watch))
        return watch
    return loop.selector if isinstance(loop, PreciseEventLoop) else NeverIdle()


class WallEvidenceSource:
    """Collects the evidence about late releases. Must be created on the thread that will run the loop.

    Call ``watch_loop`` once inside the loop, and ``mark`` after each batch of tasks, before the loop may sleep: later kernel counts
    belong to the next release.
    """

    STEAL_REFRESH_NS = 1_000_000_000

    def __init__(self, holder_names: Sequence[str], kernel: KernelCounters | None = None, clock: RunClock | None = None) -> None:
        """Take the names of the runtime's callbacks, ``holder_names``, in the order of their numbers."""
        self.kernel = kernel or KernelCounters()
        self.clock = clock or RunClock()
        self.stopwatch = WallStopwatch(self.kernel, self.clock)
        """Stopwatch for the tasks of the same loop."""
        self.holders = HolderLog(holder_names, self.stopwatch)
        self.collections = GcWatch()
        self._idle: Idle = NeverIdle()
        self._steal_since_ns = time.monotonic_ns()
        self._marks: deque[tuple[int, int]] = deque([(self._steal_since_ns, self.kernel.run_delay_ns())], maxlen=16)
        """Time and run delay at the ends of the last batches: a release may pass before a batch has ended."""
        self._steal_ns = self.kernel.steal_ns()

    def watch_loop(self) -> None:
        """Read sleeps from the running loop; without this no late wake-up is recognised."""
        self._idle = watch_idle()

    def mark(self, now_ns: int) -> None:
        """Note that a batch of tasks ended at ``now_ns``. Takes about 1 us."""
        self._marks.append((now_ns, self.kernel.run_delay_ns()))
        if now_ns - self._steal_since_ns > self.STEAL_REFRESH_NS:
            self._steal_ns = self.kernel.steal_ns()
            self._steal_since_ns = now_ns

    def evidence(self, release_ns: int, start_ns: int, end_ns: int) -> Evidence:
        """Return what happened around the loop between release and end."""
        idle, lost_ns = self._idle, self.clock.lost_ns
        since_ns, delay_before_ns = next((mark for mark in reversed(self._marks) if mark[0] <= release_ns), self._marks[0])
        delay_ns = self.kernel.run_delay_ns() - delay_before_ns
        delay_ns -= sum(run.end[5] - run.begin[5] for run in self.holders.since(since_ns) if run.begin[0] >= since_ns)
        # The hypervisor's counter is coarse and covers more than the window, so only a proportional part is attributed to it.
        window_ns = max(0, end_ns - release_ns)
        stolen_ns = (self.kernel.steal_ns() - self._steal_ns) * window_ns // max(end_ns - self._steal_since_ns, window_ns, 1)
        return Evidence(
            asleep_ns=None if isinstance(idle, NeverIdle) else (idle.idle_from_ns - lost_ns, idle.woke_ns - lost_ns),
            callbacks=self.holders.since(release_ns),
            collections=[(start - lost_ns, end - lost_ns) for start, end in self.collections.since(release_ns + lost_ns)],
            run_delay_ns=max(0, delay_ns) + max(0, stolen_ns),
            since_ns=since_ns,
        )

    def close(self) -> None:
        """Stop recording. Safe to repeat."""
        self.collections.close()
        self.kernel.close()
