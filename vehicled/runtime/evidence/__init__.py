"""Measured evidence about the causes of deadline misses on the vehicle.

A reading costs about a microsecond, and three after a wait; the rest stays in short rings or in the
kernel until a miss needs it. A source missing on some system reads as if nothing happened,
``reasons`` says so once, and a miss that it could have explained has the cause that names it.
"""

import resource
import time
from collections.abc import Sequence

from vehicled.core.attribution import Evidence
from vehicled.core.observers import Observers, boundary
from vehicled.runtime.clock import PacedClock, RunClock
from vehicled.runtime.evidence.kernel import THREAD, KernelCounters, WallStopwatch
from vehicled.runtime.evidence.watches import (
    Continuations,
    GcWatch,
    HolderLog,
    Ring,
    watch_sleeps,
)
from vehicled.runtime.loop import LoopRecord, NoLoopRecord


class TakenTime:
    """Measures what the computer took from the loop's thread: other processes, the hypervisor, a
    stop signal, a late wake-up.

    The rest is the daemon's own: what it computed, what it waited for in its own code, and its
    planned sleeps.
    """

    def __init__(
        self,
        kernel: KernelCounters,
        continuations: Continuations,
        loop: LoopRecord,
        observers: Observers,
    ) -> None:
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
        wall_ns, cpu_ns, switches, delay_ns, sleeps, slept_ns, overslept_ns = (
            b - a for a, b in zip(since, now, strict=True)
        )
        off_ns = max(0, wall_ns - slept_ns - cpu_ns)
        # The delay of a late wake-up is part of the sleep.
        delayed_ns = min(off_ns, max(0, delay_ns - overslept_ns))
        stood_ns = off_ns - delayed_ns
        # A thread that did not give the processor up stood still because a hypervisor, an interrupt
        # or a stop took it.
        stopped = self._continuations.last_ns > since[0]
        own = switches > sleeps and not stopped
        return overslept_ns + delayed_ns + (0 if own else stood_ns)

    def _read(self) -> tuple[int, ...]:
        loop = self._loop
        usage = resource.getrusage(THREAD)
        reading = (
            time.monotonic_ns(),
            time.thread_time_ns(),
            usage.ru_nvcsw,
            self._kernel.run_delay_ns(),
        )
        return *reading, loop.sleeps, loop.slept_ns, loop.overslept_ns


class WallEvidenceSource:
    """Collects the evidence about late releases. Must be created on the thread that will run the
    loop.

    Call ``watch_loop`` once inside the loop, and ``mark`` after each batch of tasks, before the
    loop may sleep: later kernel counts belong to the next release.
    """

    STEAL_REFRESH_NS = 1_000_000_000

    def __init__(
        self,
        holder_names: Sequence[str],
        kernel: KernelCounters | None = None,
        clock: RunClock | None = None,
        observers: Observers | None = None,
    ) -> None:
        """Take the names of the runtime's callbacks, ``holder_names``, in the order of their
        numbers."""
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
        """Time and run delay at the ends of the last batches: a release may pass before a batch has
        ended."""
        self._marks.add((self._steal_since_ns, self.kernel.run_delay_ns()))
        self._steal_ns = self.kernel.steal_ns()

    def watch_loop(self) -> LoopRecord:
        """Read sleeps from the running loop; without this no late wake-up is recognised. Return
        their record."""
        self._loop = self.stopwatch.loop = watch_sleeps()
        if isinstance(self.clock, PacedClock):
            self.clock.taken = TakenTime(
                self.kernel, self.continuations, self._loop, self.observers
            )
        return self._loop

    def mark(self, now_ns: int) -> None:
        """Note that a batch of tasks ended at ``now_ns``, with the run delay of the stopwatch's
        newest reading."""
        self._marks.add((now_ns, self.stopwatch.newest[5]))
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
        delay_ns -= sum(
            run.end[5] - run.begin[5]
            for run in self.holders.since(since_ns)
            if run.begin[0] >= since_ns
        )
        # The hypervisor's counter is coarse and covers more than the window, so only a proportional
        # part is attributed to it.
        window_ns = max(0, end_ns - release_ns)
        stolen_ns = (
            (self.kernel.steal_ns() - self._steal_ns)
            * window_ns
            // max(end_ns - self._steal_since_ns, window_ns, 1)
        )
        collections = self.collections.since(self.clock.not_after_ns(release_ns))
        return Evidence(
            asleep_ns=None
            if isinstance(loop, NoLoopRecord)
            else (at_ns(loop.idle_from_ns), at_ns(loop.woke_ns)),
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
