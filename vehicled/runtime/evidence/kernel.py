"""Counts of the kernel about the loop's thread, and the stopwatch of the tasks."""

import os
import resource
import time

from vehicled.core.attribution import UNEXPLAINED_TOLERANCE_NS, Reading
from vehicled.core.observers import Observers, boundary
from vehicled.runtime.clock import RunClock

THREAD = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)
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
        usage = resource.getrusage(THREAD)
        return t_ns, cpu_ns, usage.ru_nvcsw, usage.ru_nivcsw, usage.ru_majflt, self._run_delay_ns(0)

    def begin(self, now_ns: int) -> Reading:
        """Return the reading at the start of a batch of tasks."""
        return self.read()

    def end(self, task: int, begin: Reading) -> Reading:
        """Return the reading at the end of a task. Takes about 1 us if the task kept the processor, because then it cannot have
        waited.
        """
        t_ns, cpu_ns = self._now_ns(), time.thread_time_ns()
        usage = resource.getrusage(THREAD)
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
