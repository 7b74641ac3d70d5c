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

from vehicled.attribution import NO_HOLDER, Reading, Surroundings
from vehicled.runtime.loop import PreciseEventLoop

_THREAD = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)
"""Where threads are not told apart (macOS), the whole process is read: the loop's thread does nearly all of its work."""


class WallStopwatch:
    """The stopwatch of the road. Must be read on the thread of the loop."""

    def read(self) -> Reading:
        """Now. About 1 us."""
        usage = resource.getrusage(_THREAD)
        return time.monotonic_ns(), time.thread_time_ns(), usage.ru_nvcsw, usage.ru_nivcsw, usage.ru_majflt

    def begin(self, now_ns: int) -> Reading:
        """Reading at the start of a batch of tasks."""
        return self.read()

    def end(self, task: int, begin: Reading) -> Reading:
        """Reading at the end of a task."""
        return self.read()


class GcWatch:
    """Remembers when the garbage collector ran. ``close`` ends that."""

    def __init__(self, capacity: int = 64) -> None:
        self._ring: deque[tuple[int, int]] = deque(maxlen=capacity)
        self._start_ns = 0
        self.collections = 0
        self.total_ns = 0
        gc.callbacks.append(self._on_gc)

    def close(self) -> None:
        """Stop watching. Safe to repeat."""
        if self._on_gc in gc.callbacks:
            gc.callbacks.remove(self._on_gc)

    def overlap(self, start_ns: int, end_ns: int) -> int:
        """Time (ns) that collections took between the two instants."""
        total = 0
        for begin, end in reversed(self._ring):
            if end <= start_ns:
                break
            total += max(0, min(end, end_ns) - max(begin, start_ns))
        return total

    def _on_gc(self, phase: str, info: dict[str, int]) -> None:
        now_ns = time.monotonic_ns()
        if phase == "start":
            self._start_ns = now_ns
        elif self._start_ns:
            self._ring.append((self._start_ns, now_ns))
            self.collections += 1
            self.total_ns += now_ns - self._start_ns


class HolderLog:
    """Who held the loop: the last callbacks of the runtime, by number. Only for the thread of the loop."""

    def __init__(self, names: Sequence[str], capacity: int = 128) -> None:
        """``names`` by number. Raises ``ValueError`` for more than 255."""
        if len(names) > NO_HOLDER:
            raise ValueError(f"{len(names)} callbacks want a number, there are {NO_HOLDER}")
        self.names = tuple(names)
        self._holds = [Hold(self, code) for code in range(len(names))]
        self._ring: deque[tuple[int, int, int]] = deque(maxlen=capacity)

    def hold(self, code: int) -> "Hold":
        """``with holders.hold(code):`` round the callback; may be kept and used again, but not within itself."""
        return self._holds[code]

    def add(self, code: int, start_ns: int, end_ns: int) -> None:
        """Note a callback whose times are known already."""
        self._ring.append((start_ns, end_ns, code))

    def overlap(self, start_ns: int, end_ns: int) -> tuple[int, int]:
        """Time (ns) the loop was held between the two instants, and the number that held it longest (``NO_HOLDER`` if none).

        Of callbacks within each other the outer one is counted.
        """
        held: dict[int, int] = {}
        # In order of their ends, so going back what is covered already starts at `until`.
        until = end_ns
        for begin, end, code in reversed(self._ring):
            if end <= start_ns:
                break
            part = min(end, until) - max(begin, start_ns)
            if part > 0:
                held[code] = held.get(code, 0) + part
                until = max(begin, start_ns)
        if not held:
            return 0, NO_HOLDER
        return sum(held.values()), max(held, key=lambda code: held[code])


class Hold:
    """Context that notes how long its block held the loop."""

    __slots__ = ("_code", "_log", "_start_ns")

    def __init__(self, log: HolderLog, code: int) -> None:
        self._log = log
        self._code = code
        self._start_ns = 0

    def __enter__(self) -> None:
        self._start_ns = time.monotonic_ns()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._log.add(self._code, self._start_ns, time.monotonic_ns())


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

    def __init__(self, holder_names: Sequence[str], kernel: KernelCounters | None = None) -> None:
        """``holder_names``: the runtime's callbacks, by the number under which they hold the loop."""
        self.holders = HolderLog(holder_names)
        self.collections = GcWatch()
        self.kernel = kernel or KernelCounters()
        self._idle: Idle = NeverIdle()
        self._run_delay_ns = self.kernel.run_delay_ns()
        self._steal_ns = self.kernel.steal_ns()
        self._steal_since_ns = time.monotonic_ns()

    def watch_loop(self) -> None:
        """Take the account of sleeps from the running loop; without it no late wake-up is recognised."""
        self._idle = watch_idle()

    def mark(self, now_ns: int) -> None:
        """A batch of tasks has ended at ``now_ns``. About 1 us."""
        self._run_delay_ns = self.kernel.run_delay_ns()
        if now_ns - self._steal_since_ns > self.STEAL_REFRESH_NS:
            self._steal_ns = self.kernel.steal_ns()
            self._steal_since_ns = now_ns

    def surroundings(self, release_ns: int, start_ns: int, end_ns: int) -> Surroundings:
        """What happened around the loop between release and end."""
        idle = self._idle
        wake_up = min(idle.woke_ns, start_ns) - max(idle.idle_from_ns, release_ns)
        held, holder = self.holders.overlap(release_ns, start_ns)
        window = max(0, end_ns - release_ns)
        preempted = self.kernel.run_delay_ns() - self._run_delay_ns
        # The hypervisor's account is coarse and older than the window: the window gets its share of it, never the whole.
        elapsed = max(end_ns - self._steal_since_ns, window, 1)
        stolen = (self.kernel.steal_ns() - self._steal_ns) * window // elapsed
        return Surroundings(
            wake_up_ns=max(0, wake_up),
            held_ns=held,
            holder=holder,
            gc_ns=self.collections.overlap(release_ns, end_ns),
            stolen_ns=min(window, max(0, preempted + stolen)),
        )

    def close(self) -> None:
        """Stop watching. Safe to repeat."""
        self.collections.close()
        self.kernel.close()
