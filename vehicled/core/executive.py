"""Sans-IO fixed-rate executive: a rate table, deadlines, and statistics of every release.

Terms: *release* planned time t_k; *lateness* start - t_k; *execution* end - start; *response* end -
t_k; *miss* response > deadline; *skip* a release that was not run; *jitter* spread of
start-to-start.

Rates do not drift: release k is ``phase + k / rate``, computed from k each time. Tasks due at the
same instant run in table order. A late task runs once, skips the releases that have passed and
keeps its phase; it never catches up in a burst.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from vehicled.core.attribution import (
    NO_HOLDER,
    EvidenceSource,
    Execution,
    NoEvidence,
    Reading,
    attribute,
)
from vehicled.core.histogram import Histogram
from vehicled.core.messages import Cause, TaskTick
from vehicled.core.observers import Observers
from vehicled.core.ports import NEVER_NS

_MILLIHERTZ_SECOND = 10**12
CATCH_UP_LIMIT = 5
"""Largest backlog of a catching-up task; beyond it the task skips too."""


class TaskSpec(Struct, frozen=True, kw_only=True):
    """One row of the rate table."""

    name: str
    rate_hz: float
    deadline_ns: int
    run: Callable[[int], None]
    """Function of the task; its argument is the start time in ns."""
    phase_ns: int = 0
    catch_up: bool = False
    declared_ns: int = 0


class Stopwatch(Protocol):
    """Source of task times: measured on the vehicle, declared in lockstep, read from the journal in
    a replay."""

    def begin(self, now_ns: int) -> Reading:
        """Return the reading at the start of a batch of tasks woken at ``now_ns``."""
        ...

    def end(self, task: int, begin: Reading) -> Reading:
        """Return the reading at the end of a task, where the next task of the batch begins."""
        ...


class DeclaredStopwatch:
    """Virtual time: each task costs its declared time plus any injected time."""

    virtual = True

    def __init__(self, declared_ns: Sequence[int]) -> None:
        self.costs_ns = list(declared_ns)
        """Cost by task number; a test writes to it to inject an overload."""

    def begin(self, now_ns: int) -> Reading:
        """Return the wake-up time."""
        return now_ns, 0, 0, 0, 0, 0

    def end(self, task: int, begin: Reading) -> Reading:
        """Return the start plus the cost of the task."""
        cost = self.costs_ns[task]
        return begin[0] + cost, begin[1] + cost, 0, 0, 0, 0

    def wake_ns(self, due_ns: int, free_ns: int) -> int:
        """Return when tasks that are due at ``due_ns`` begin on a computer that is free from
        ``free_ns`` on."""
        return due_ns if due_ns > free_ns else free_ns


class TaskStats:
    """Running statistics of one task, in constant memory. Lateness, execution and jitter follow
    from the ticks in the log."""

    __slots__ = (
        "causes",
        "consecutive_misses",
        "longest_miss_run",
        "misses",
        "n",
        "response",
        "skips",
    )

    def __init__(self) -> None:
        self.n = 0
        """Number of releases that were run."""
        self.response = Histogram()
        self.misses = 0
        self.skips = 0
        self.consecutive_misses = 0
        """Current number of consecutive late runs. Skips are counted apart, because one stall skips
        many releases of a fast task.
        """
        self.longest_miss_run = 0
        self.causes: dict[Cause, int] = {}


class _Row:
    __slots__ = (
        "catch_up",
        "deadline_ns",
        "index",
        "k",
        "origin_ns",
        "rate_mhz",
        "release_ns",
        "run",
        "stats",
    )

    def __init__(self, index: int, spec: TaskSpec) -> None:
        self.index = index
        self.run = spec.run
        self.deadline_ns = spec.deadline_ns
        self.catch_up = spec.catch_up
        self.rate_mhz = round(spec.rate_hz * 1000)
        self.origin_ns = 0
        self.k = 0
        self.release_ns = NEVER_NS
        self.stats = TaskStats()

    def at(self, k: int) -> int:
        return self.origin_ns + k * _MILLIHERTZ_SECOND // self.rate_mhz


class Executive:
    """Runs due tasks and keeps their statistics. Never reads a clock: times come from the caller
    and the stopwatch."""

    def __init__(
        self,
        table: Sequence[TaskSpec],
        stopwatch: Stopwatch,
        on_tick: Callable[[TaskTick], None],
        evidence_source: EvidenceSource | None = None,
        *,
        virtual: bool = False,
        observers: Observers | None = None,
    ) -> None:
        """Take the ``table`` in pipeline order. ``on_tick`` is called after each run;
        ``evidence_source`` gives evidence about misses. Neither that nor the statistics can hold up
        a task: their failures go to ``observers``."""
        self._observers = observers or Observers()
        self.table = tuple(table)
        self._rows = [_Row(i, spec) for i, spec in enumerate(table)]
        self._stopwatch = stopwatch
        self._on_tick = on_tick
        self._evidence_source = evidence_source or NoEvidence()
        self._virtual = virtual
        # Long enough to find the task that held the loop since the release of the slowest task of a
        # batch.
        self._recent: deque[tuple[int, Reading, Reading]] = deque(maxlen=16 * len(self._rows))
        self.busy_until_ns = 0
        """End of the last task run."""

    def start(self, now_ns: int) -> None:
        """Set the first release of each task: its phase after ``now_ns``."""
        for row, spec in zip(self._rows, self.table, strict=True):
            row.origin_ns = now_ns + spec.phase_ns
            row.k = 0
            row.release_ns = row.origin_ns

    def stats(self, index: int) -> TaskStats:
        """Return the statistics of a task by number."""
        return self._rows[index].stats

    def release_ns(self, index: int) -> int:
        """Return the next release of a task by number."""
        return self._rows[index].release_ns

    def next_due_ns(self) -> int:
        """Return the earliest next release of any task."""
        due_ns = NEVER_NS
        for row in self._rows:
            if row.release_ns < due_ns:
                due_ns = row.release_ns
        return due_ns

    def run(self, now_ns: int) -> None:
        """Run every task whose release has come, in pipeline order."""
        begin: Reading | None = None
        at_ns = now_ns
        for row in self._rows:
            if row.release_ns > at_ns:
                continue
            if begin is None:
                begin = self._stopwatch.begin(now_ns)
            row.run(begin[0])
            end = self._stopwatch.end(row.index, begin)
            self._account(row, begin, end)
            begin = end
            at_ns = end[0]

    def _account(self, row: _Row, begin: Reading, end: Reading) -> None:
        release, start, stop = row.release_ns, begin[0], end[0]
        stats = row.stats
        k = row.k + 1
        following = row.origin_ns + k * _MILLIHERTZ_SECOND // row.rate_mhz
        skipped = 0
        if following <= start and not (row.catch_up and start < row.at(k + CATCH_UP_LIMIT)):
            # Continue with the first release after the start: the phase stays, missed releases are
            # not made up for.
            last = k
            k = (start - row.origin_ns) * row.rate_mhz // _MILLIHERTZ_SECOND
            while (following := row.at(k)) <= start:
                k += 1
            skipped = k - last
        row.k = k
        row.release_ns = following

        response = stop - release
        missed = response > row.deadline_ns
        cause, holder = Cause.NONE, NO_HOLDER
        self._recent.append((row.index, begin, end))
        if missed:
            try:
                around = self._evidence_source.evidence(release, start, stop)
                overlapping = [Execution(*run) for run in self._recent if run[2][0] > release]
                cause, holder = attribute(
                    row.index, release, overlapping, around, virtual=self._virtual
                )
            except Exception as error:  # noqa: BLE001 - the cause only explains
                self._observers.failed("attribution", error, lasting=True)
                cause = Cause.EVIDENCE_FAILED
            stats.misses += 1
            stats.causes[cause] = stats.causes.get(cause, 0) + 1
            stats.consecutive_misses += 1
            if stats.consecutive_misses > stats.longest_miss_run:
                stats.longest_miss_run = stats.consecutive_misses
        else:
            stats.consecutive_misses = 0
        stats.skips += skipped
        stats.n += 1
        try:
            stats.response.add(response)
        except Exception as error:  # noqa: BLE001 - statistics only explain
            self._observers.failed("statistics", error, lasting=True)
        self.busy_until_ns = stop
        self._on_tick(
            TaskTick(
                release,
                start,
                stop,
                end[1] - begin[1],
                row.deadline_ns,
                skipped,
                row.index,
                missed,
                cause,
                holder,
            )
        )
