"""Measured evidence for the attribution of deadline misses on the road.

What is read at every tick costs about a microsecond; the rest is kept in short rings or left in the kernel until a miss asks for
it. Every source may be missing on some system: it then reads as nothing happened, and ``reasons`` says so once.
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

from vehicled.attribution import FIRST_CALLBACK, NO_HOLDER, UNEXPLAINED_TOLERANCE_NS, Execution, Reading, Surroundings
from vehicled.messages import GarbageCollection
from vehicled.runtime.clock import RunClock
from vehicled.runtime.loop import PreciseEventLoop

_THREAD = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)
"""Where threads are not told apart (macOS), the whole process is read: the loop's thread does nearly all of its work."""


class KernelCounters:
    """Scheduler statistics of the thread that makes this object, and the processor time the hypervisor took.

    Both only grow; a source that cannot be read stays at 0 and has a line in ``reasons``.
    """

    def __init__(self, schedstat: str = "/proc/thread-self/schedstat", stat: str = "/proc/stat") -> None:
        self.reasons: list[str] = []
        self._ns_per_tick = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
        self._run_delay_ns = 0
        self._steal_ns = 0
        self._schedstat = self._open(schedstat, "preemption cannot be told from other waiting")
        self._stat = self._open(stat, "time taken by a hypervisor is not seen")

    def _open(self, path: str, consequence: str) -> int:
        try:
            # /proc/thread-self is resolved here, hence the kept descriptor means this thread whoever reads it.
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            self.reasons.append(f"{path}: {error.strerror}; {consequence}")
            return -1

    def run_delay_ns(self) -> int:
        """Time (ns) the thread was ready to run and did not. About 1 us."""
        if self._schedstat >= 0:
            try:
                self._run_delay_ns = int(os.pread(self._schedstat, 64, 0).split()[1])
            except (OSError, ValueError, IndexError):
                pass  # The thread has ended, or the kernel keeps no such account: the last value stands.
        return self._run_delay_ns

    def steal_ns(self) -> int:
        """Time (ns, in steps of 10 ms) that all processors together lost to a hypervisor. About 10 us: not for every tick."""
        if self._stat >= 0:
            try:
                self._steal_ns = int(os.pread(self._stat, 256, 0).split(b"\n", 1)[0].split()[8]) * self._ns_per_tick
            except (OSError, ValueError, IndexError):
                pass  # As above.
        return self._steal_ns

    def close(self) -> None:
        """Give the descriptors back. Safe to repeat."""
        for fd in (self._schedstat, self._stat):
            if fd >= 0:
                os.close(fd)
        self._schedstat = self._stat = -1

    def __del__(self) -> None:
        self.close()


class WallStopwatch:
    """The stopwatch of the road. Must be made and read on the thread of the loop."""

    def __init__(self, kernel: KernelCounters | None = None, clock: RunClock | None = None) -> None:
        self._kernel = kernel or KernelCounters()
        self._now_ns = (clock or RunClock()).now_ns

    def read(self) -> Reading:
        """Now. About 2 us."""
        usage = resource.getrusage(_THREAD)
        delay_ns = self._kernel.run_delay_ns()
        return self._now_ns(), time.thread_time_ns(), usage.ru_nvcsw, usage.ru_nivcsw, usage.ru_majflt, delay_ns

    def begin(self, now_ns: int) -> Reading:
        """Reading at the start of a batch of tasks."""
        return self.read()

    def end(self, task: int, begin: Reading) -> Reading:
        """Reading at the end of a task. About 1 us for one that kept the processor: it cannot have waited for it."""
        t_ns, cpu_ns = self._now_ns(), time.thread_time_ns()
        usage = resource.getrusage(_THREAD)
        waited = t_ns - begin[0] - (cpu_ns - begin[1]) > UNEXPLAINED_TOLERANCE_NS
        delay_ns = self._kernel.run_delay_ns() if waited else begin[5]
        return t_ns, cpu_ns, usage.ru_nvcsw, usage.ru_nivcsw, usage.ru_majflt, delay_ns


class GcWatch:
    """Remembers when the garbage collector ran. ``close`` ends that."""

    TOLD_NS = 100_000
    """Shorter collections are not told of: there are dozens a second, of the youngest objects."""

    def __init__(self, capacity: int = 64) -> None:
        self._ring: deque[tuple[int, int]] = deque(maxlen=capacity)
        self._untold: deque[GarbageCollection] = deque(maxlen=capacity)
        self._start_ns = 0
        gc.callbacks.append(self._on_gc)

    def close(self) -> None:
        """Stop watching. Safe to repeat."""
        if self._on_gc in gc.callbacks:
            gc.callbacks.remove(self._on_gc)

    def since(self, start_ns: int) -> list[tuple[int, int]]:
        """From and to, in ns: collections that ended after an instant, oldest first."""
        found = [span for span in self._ring if span[1] > start_ns]
        # A collection in another thread may have to wait to tell its end; whoever waited for it goes on meanwhile.
        if self._start_ns:
            found.append((self._start_ns, time.monotonic_ns()))
        return found

    def take(self) -> Sequence[GarbageCollection]:
        """Collections since the last call, without the shortest."""
        if not self._untold:
            return ()
        # One by one: another thread may collect meanwhile.
        return [self._untold.popleft() for _ in range(len(self._untold))]

    def _on_gc(self, phase: str, info: dict[str, int]) -> None:
        now_ns = time.monotonic_ns()
        if phase == "start":
            self._start_ns = now_ns
        elif self._start_ns:
            self._ring.append((self._start_ns, now_ns))
            if now_ns - self._start_ns >= self.TOLD_NS:
                told = GarbageCollection(self._start_ns, now_ns - self._start_ns, info["generation"], info["collected"])
                self._untold.append(told)
            self._start_ns = 0


class HolderLog:
    """Who held the loop: the last callbacks of the runtime, by number. Only for the thread of the loop."""

    def __init__(self, names: Sequence[str], stopwatch: WallStopwatch, capacity: int = 1024) -> None:
        """``names`` by number. Raises ``ValueError`` for more than 127."""
        if len(names) > NO_HOLDER - FIRST_CALLBACK:
            raise ValueError(f"{len(names)} callbacks want a number, there are {NO_HOLDER - FIRST_CALLBACK}")
        self.names = tuple(names)
        self.stopwatch = stopwatch
        self._holds = [Hold(self, code) for code in range(len(names))]
        self._ring: deque[Execution] = deque(maxlen=capacity)

    def hold(self, code: int) -> "Hold":
        """``with holders.hold(code):`` round the callback; may be kept and used again, but not within itself."""
        return self._holds[code]

    def add(self, code: int, begin: Reading, end: Reading) -> None:
        """Note a callback."""
        self._ring.append(Execution(FIRST_CALLBACK + code, begin, end))

    def since(self, start_ns: int) -> list[Execution]:
        """Callbacks that ended after an instant, oldest first; of callbacks within each other the outer one."""
        found: list[Execution] = []
        # In order of their ends, so going back the outer one comes first.
        for run in reversed(self._ring):
            if run.end[0] <= start_ns:
                break
            if not found or run.begin[0] < found[-1].begin[0]:
                found.append(run)
        return found[::-1]


class Hold:
    """Context that notes how its block held the loop."""

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
    """The last sleep of the loop, in monotonic ns."""

    idle_from_ns: int
    woke_ns: int


class NeverIdle:
    """Of a loop that keeps no account of its sleeps."""

    idle_from_ns = 0
    woke_ns = 0


class TrioIdle:
    """Trio instrument that remembers the loop's last sleep."""

    def __init__(self) -> None:
        self.idle_from_ns = 0
        self.woke_ns = 0
        self._asleep = False

    def before_io_wait(self, timeout: float) -> None:
        """The loop is about to wait; polls that do not sleep are not counted."""
        self._asleep = timeout > 0
        if self._asleep:
            self.idle_from_ns = time.monotonic_ns()

    def after_io_wait(self, timeout: float) -> None:
        """The loop woke."""
        if self._asleep:
            self.woke_ns = time.monotonic_ns()


def watch_idle() -> Idle:
    """Account of the running loop's sleeps, on either backend; a :class:`NeverIdle` where none is kept (stock asyncio, uvloop)."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        import trio

        watch = TrioIdle()
        trio.lowlevel.add_instrument(cast(trio.abc.Instrument, watch))
        return watch
    return loop.selector if isinstance(loop, PreciseEventLoop) else NeverIdle()


class WallWitness:
    """Puts the evidence about a late release together. To be made on the thread that will run the loop.

    ``watch_loop`` is to be called once inside the loop; ``mark`` after each batch of tasks, before the loop may sleep: what the
    kernel counts from there on belongs to the next release.
    """

    STEAL_REFRESH_NS = 1_000_000_000

    def __init__(self, holder_names: Sequence[str], kernel: KernelCounters | None = None, clock: RunClock | None = None) -> None:
        """``holder_names``: the runtime's callbacks, by the number under which they hold the loop."""
        self.kernel = kernel or KernelCounters()
        self.clock = clock or RunClock()
        self.stopwatch = WallStopwatch(self.kernel, self.clock)
        """For the tasks of the same loop."""
        self.holders = HolderLog(holder_names, self.stopwatch)
        self.collections = GcWatch()
        self._idle: Idle = NeverIdle()
        self._steal_since_ns = time.monotonic_ns()
        self._marks: deque[tuple[int, int]] = deque([(self._steal_since_ns, self.kernel.run_delay_ns())], maxlen=16)
        """Time and run delay at the ends of the last batches: a release may pass before a batch has ended."""
        self._steal_ns = self.kernel.steal_ns()

    def watch_loop(self) -> None:
        """Take the account of sleeps from the running loop; without it no late wake-up is recognised."""
        self._idle = watch_idle()

    def mark(self, now_ns: int) -> None:
        """A batch of tasks has ended at ``now_ns``. About 1 us."""
        self._marks.append((now_ns, self.kernel.run_delay_ns()))
        if now_ns - self._steal_since_ns > self.STEAL_REFRESH_NS:
            self._steal_ns = self.kernel.steal_ns()
            self._steal_since_ns = now_ns

    def surroundings(self, release_ns: int, start_ns: int, end_ns: int) -> Surroundings:
        """What happened around the loop between release and end."""
        idle, lost_ns = self._idle, self.clock.lost_ns
        since_ns, delay_before_ns = next((mark for mark in reversed(self._marks) if mark[0] <= release_ns), self._marks[0])
        delay_ns = self.kernel.run_delay_ns() - delay_before_ns
        delay_ns -= sum(run.end[5] - run.begin[5] for run in self.holders.since(since_ns) if run.begin[0] >= since_ns)
        # The hypervisor's account is coarse and older than the window: the window gets its share of it, never the whole.
        window_ns = max(0, end_ns - release_ns)
        stolen_ns = (self.kernel.steal_ns() - self._steal_ns) * window_ns // max(end_ns - self._steal_since_ns, window_ns, 1)
        return Surroundings(
            asleep_ns=None if isinstance(idle, NeverIdle) else (idle.idle_from_ns - lost_ns, idle.woke_ns - lost_ns),
            callbacks=self.holders.since(release_ns),
            collections=[(start - lost_ns, end - lost_ns) for start, end in self.collections.since(release_ns + lost_ns)],
            run_delay_ns=max(0, delay_ns) + max(0, stolen_ns),
            since_ns=since_ns,
        )

    def close(self) -> None:
        """Stop watching. Safe to repeat."""
        self.collections.close()
        self.kernel.close()
