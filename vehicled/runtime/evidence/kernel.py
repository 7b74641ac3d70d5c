"""Counts of the kernel about the loop's thread, and the stopwatch of the tasks."""

import os
import resource
import time

from vehicled.core.attribution import UNEXPLAINED_TOLERANCE_NS, Reading
from vehicled.core.observers import Observers, boundary
from vehicled.core.ports import NEVER_NS
from vehicled.runtime.clock import RunClock
from vehicled.runtime.loop import LoopRecord, NoLoopRecord

THREAD = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)
"""Resource usage of the thread, or of the process on systems without it (macOS), where the loop's
thread does nearly all work."""


class KernelCounters:
    """Scheduler statistics of the creating thread, and the processor time taken by the hypervisor.

    Both only grow. An unreadable source stays at 0 and has a line in ``reasons``.
    """

    def __init__(
        self, schedstat: str = "/proc/thread-self/schedstat", stat: str = "/proc/stat"
    ) -> None:
        self.reasons: list[str] = []
        self._ns_per_tick = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
        self._run_delay_ns = 0
        self._steal_ns = 0
        self._schedstat = self._open(
            schedstat, "preemption cannot be distinguished from other waiting"
        )
        self._stat = self._open(stat, "time taken by a hypervisor is not measured")
        self.keeps_run_delay = self._keeps_run_delay()
        """True if the kernel counts the time that a thread is ready but does not run."""

    def _open(self, path: str, consequence: str) -> int:
        try:
            # The path is resolved here, so the descriptor keeps meaning this thread whoever reads
            # it.
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
            self.reasons.append(
                "the kernel keeps no scheduler statistics; preemption cannot be distinguished "
                "from other waiting"
            )
        return kept

    def run_delay_ns(self) -> int:
        """Return the time (ns) that the thread was ready but did not run. Takes about 1 us."""
        if self._schedstat >= 0:
            try:
                self._run_delay_ns = int(os.pread(self._schedstat, 64, 0).split()[1])
            except (OSError, ValueError, IndexError):
                pass  # The thread has ended, or the kernel has no statistics: keep the value.
        return self._run_delay_ns

    def steal_ns(self) -> int:
        """Return the time (ns, steps of 10 ms) that all processors lost to a hypervisor. Takes
        about 10 us: too slow for every tick.
        """
        if self._stat >= 0:
            try:
                self._steal_ns = (
                    int(os.pread(self._stat, 256, 0).split(b"\n", 1)[0].split()[8])
                    * self._ns_per_tick
                )
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
    """Stopwatch of a run on the wall clock. Must be created and read on the thread of the loop.

    What costs a system call is read only if it can have changed: the CPU time once
    ``UNEXPLAINED_TOLERANCE_NS`` have passed, switches and faults if the thread was off the
    processor for longer than that since, and the run delay, which costs most, if that was not a
    sleep of the loop that ended in time. What is assumed in between is wrong by no more than that
    time.
    """

    LATE_NS = 200_000
    """Lateness of a wake-up beyond which its run delay is read at once."""
    RENEWAL_NS = 10_000_000
    """Longest time between two readings of the run delay, because wake-ups in time add a little,
    too."""

    def __init__(
        self,
        kernel: KernelCounters | None = None,
        clock: RunClock | None = None,
        observers: Observers | None = None,
    ) -> None:
        self._kernel = kernel or KernelCounters()
        self._now_ns = (clock or RunClock()).now_ns
        self._observers = observers or Observers()
        self.loop: LoopRecord = NoLoopRecord()
        """Record of the loop's sleeps."""
        self.newest: Reading = (-NEVER_NS, 0, 0, 0, 0, 0)
        """Newest reading."""
        self.read_ns = 0
        """Time of the newest reading on the monotonic clock."""
        self._measured_ns = self._delay_read_ns = -NEVER_NS
        self._cpu_ns = self._slept_ns = self._overslept_ns = 0
        self._counts = (0, 0, 0, 0)
        self.read()

    def read(self) -> Reading:
        """Return the present reading. Takes a microsecond or two, and five after a wait."""
        self.read_ns = read_ns = time.monotonic_ns()
        wall_ns = read_ns - self._measured_ns
        if wall_ns <= UNEXPLAINED_TOLERANCE_NS:
            cpu_ns = self._cpu_ns + wall_ns
        else:
            cpu_ns = time.thread_time_ns()
            off_ns = wall_ns - (cpu_ns - self._cpu_ns)
            if off_ns > UNEXPLAINED_TOLERANCE_NS:
                usage, delay_ns, loop = resource.getrusage(THREAD), self._counts[3], self.loop
                waited = off_ns - (loop.slept_ns - self._slept_ns) > UNEXPLAINED_TOLERANCE_NS
                late = loop.overslept_ns - self._overslept_ns > self.LATE_NS
                if waited or late or read_ns - self._delay_read_ns > self.RENEWAL_NS:
                    self._delay_read_ns, delay_ns = read_ns, self._run_delay_ns(delay_ns)
                self._counts = usage.ru_nvcsw, usage.ru_nivcsw, usage.ru_majflt, delay_ns
                self._slept_ns, self._overslept_ns = loop.slept_ns, loop.overslept_ns
            self._measured_ns, self._cpu_ns = read_ns, cpu_ns
        if cpu_ns < self.newest[1]:
            # The time that was assumed there was ahead.
            cpu_ns = self.newest[1]
        self.newest = self._now_ns(), cpu_ns, *self._counts
        return self.newest

    def refresh(self) -> None:
        """Take a reading unless the newest is good enough to begin a callback with."""
        if time.monotonic_ns() - self.read_ns > UNEXPLAINED_TOLERANCE_NS:
            self.read()

    def begin(self, now_ns: int) -> Reading:
        """Return the reading at the start of a batch of tasks."""
        return self.read()

    def end(self, task: int, begin: Reading) -> Reading:
        """Return the reading at the end of a task."""
        return self.read()

    def _run_delay_ns(self, otherwise_ns: int) -> int:
        try:
            return self._kernel.run_delay_ns()
        except Exception as error:  # noqa: BLE001 - the time is what drives, the rest explains it
            self._observers.failed("run delay", error, lasting=True)
            return otherwise_ns


boundary(WallStopwatch.read)
boundary(WallStopwatch.refresh)
boundary(WallStopwatch.begin)
boundary(WallStopwatch.end)
boundary(WallStopwatch._run_delay_ns)
