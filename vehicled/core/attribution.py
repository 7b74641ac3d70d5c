"""Attribution of deadline misses to their causes, from evidence.

The response time is split among everything known to have used it; the largest part names the cause.
Without evidence the cause names what is lacking, because a guess would be worse than none.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from msgspec import Struct

from vehicled.core.messages import Cause

NO_HOLDER = 255
FIRST_CALLBACK = 128
"""First number of runtime callbacks where tasks and callbacks share a number range."""
HOLDERS = ("receive", "log", "transmit", "view")
"""Runtime callbacks by their number in ``TaskTick.holder``."""

Reading = tuple[int, int, int, int, int, int]
"""t_ns, thread CPU time in ns, voluntary switches, involuntary switches, major page faults, run
delay (runnable, not running) in ns."""


class Execution(Struct, frozen=True, gc=False):
    """One run of a task or of a callback between two stopwatch readings."""

    number: int
    """Number of the task, or ``FIRST_CALLBACK`` plus the number of the callback."""
    begin: Reading
    end: Reading


class Evidence(NamedTuple):
    """Evidence of the runtime about the time before and during a late release."""

    asleep_ns: tuple[int, int] | None = None
    """Start and end of the loop's last sleep; None if unknown."""
    callbacks: Sequence[Execution] = ()
    """Callbacks that the runtime ran since the release, oldest first, not nested."""
    collections: Sequence[tuple[int, int]] = ()
    """Start and end of garbage collections since the release."""
    run_delay_ns: int = 0
    """Run delay outside callbacks since ``since_ns``, plus time stolen by the hypervisor."""
    since_ns: int = 0
    keeps_run_delay: bool = True
    """False if the kernel does not count run delay."""
    jumps: Sequence[tuple[int, int]] = ()
    """Times over which a clock shared with a simulator jumped, because it had waited for it: before
    and after."""
    continued_ns: Sequence[int] = ()
    """Times at which the process went on after a stop signal."""


class EvidenceSource(Protocol):
    """Source of evidence; queried only after a miss."""

    def evidence(self, release_ns: int, start_ns: int, end_ns: int) -> Evidence:
        """Return the evidence between release and end."""
        ...


class NoEvidence:
    """Empty evidence for virtual time, in which only tasks run."""

    def evidence(self, release_ns: int, start_ns: int, end_ns: int) -> Evidence:
        """Return no evidence."""
        return Evidence()


WITHOUT_CAUSE = frozenset(
    {Cause.NO_SCHEDSTAT, Cause.NO_LOOP_RECORD, Cause.EVIDENCE_FAILED, Cause.UNKNOWN}
)
"""Causes that name what is lacking instead of a cause."""
COVERED_FRACTION = 0.5
"""Fraction of the response that evidence must cover; below it the cause is unknown."""

MOST_RUNS = 128
"""Number of callbacks that are split into computing and waiting; those shorter than such a part of
the response count as computing. A loop that is late runs hundreds of them, and explaining each
would make it later."""
UNEXPLAINED_TOLERANCE_NS = 50_000
"""Off-CPU time below this is the cost of the measurement."""


def attribute(
    task: int,
    release_ns: int,
    executions: Sequence[Execution],
    around: Evidence,
    *,
    virtual: bool = False,
) -> tuple[Cause, int]:
    """Return cause and holder of one late release.

    ``executions`` are the task runs that ended after the release, oldest first, the late task's own
    last. The holder is the task for QUEUED and the callback for LOOP_HELD; for BLOCKED and
    PAGE_FAULT in another run it is the task or, from ``FIRST_CALLBACK`` on, the callback; otherwise
    ``NO_HOLDER``. :func:`holder_name` gives its name.
    """
    parts = _Parts(around)
    end_ns = executions[-1].end[0]
    slept_ns, woke_ns = around.asleep_ns or (0, 0)
    awake_ns = max(woke_ns, release_ns)
    # The clock jumps only between callbacks and tasks.
    parts.add(Cause.SIMULATOR, NO_HOLDER, _overlap(around.jumps, release_ns, end_ns))
    idle_ns = end_ns - awake_ns - _overlap(around.jumps, awake_ns, end_ns)
    idle_collected_ns = _overlap(around.collections, awake_ns, end_ns)
    delay_ns, short_ns = around.run_delay_ns, (end_ns - release_ns) // MOST_RUNS
    for run in (*around.callbacks, *executions):
        from_ns, to_ns = max(run.begin[0], release_ns), run.end[0]
        if to_ns <= from_ns:
            continue
        if to_ns - from_ns < short_ns and run.number >= FIRST_CALLBACK:
            parts.add(Cause.LOOP_HELD, run.number - FIRST_CALLBACK, to_ns - from_ns)
            idle_ns -= to_ns - from_ns if from_ns >= awake_ns else 0
            continue
        collected_ns = _overlap(around.collections, from_ns, to_ns)
        delayed_ns = parts.add_run(run, to_ns - from_ns, collected_ns, task, virtual=virtual)
        if run.number < FIRST_CALLBACK and run.begin[0] >= around.since_ns:
            delay_ns -= delayed_ns
        if from_ns >= awake_ns:
            idle_ns -= to_ns - from_ns
            idle_collected_ns -= collected_ns
    if around.asleep_ns is not None:
        asleep = max(slept_ns, release_ns), min(woke_ns, end_ns)
        asleep_ns = asleep[1] - asleep[0] - _overlap(around.jumps, *asleep)
        kept = Cause.STOPPED if parts.was_stopped(*asleep) else Cause.WAKE_UP
        # Run delay outside all runs counts first against the loop's wake-up.
        delay_ns -= parts.add_rest(kept, asleep_ns, _overlap(around.collections, *asleep), delay_ns)
        stopped = parts.was_stopped(awake_ns, end_ns, outside=(*around.callbacks, *executions))
        parts.add_rest(
            Cause.STOPPED if stopped else Cause.LOOP_HELD, idle_ns, idle_collected_ns, delay_ns
        )
    found = parts.largest(COVERED_FRACTION * (end_ns - release_ns))
    return found or (
        Cause.UNKNOWN if around.asleep_ns is not None or virtual else Cause.NO_LOOP_RECORD,
        NO_HOLDER,
    )


class _Parts:
    """Parts of one response by cause and holder."""

    def __init__(self, around: Evidence) -> None:
        self._ns: dict[tuple[Cause, int], int] = {}
        self._around = around

    def was_stopped(self, from_ns: int, to_ns: int, outside: Sequence[Execution] = ()) -> bool:
        """Return True if the process went on after a stop signal in this time, outside of these
        runs."""
        return any(
            from_ns < t_ns <= to_ns
            and not any(run.begin[0] < t_ns <= run.end[0] for run in outside)
            for t_ns in self._around.continued_ns
        )

    def add(self, cause: Cause, holder: int, duration_ns: int) -> None:
        if duration_ns > 0:
            self._ns[cause, holder] = self._ns.get((cause, holder), 0) + duration_ns

    def add_run(
        self, run: Execution, wall_ns: int, collected_ns: int, task: int, *, virtual: bool
    ) -> int:
        """Split the part of a run after the release; return its run delay."""
        begin, end = run.begin, run.end
        own = run.number == task
        off_cpu = max(0, min(wall_ns, (end[0] - begin[0]) - (end[1] - begin[1])))
        delayed = min(off_cpu, end[5] - begin[5])
        waited = off_cpu - delayed
        # The collector runs inside the task that allocates, and can be preempted too.
        used = max(0, wall_ns - off_cpu - collected_ns)
        left = max(0, collected_ns - (wall_ns - off_cpu))
        preempted = max(0, delayed - left)
        waited -= min(waited, max(0, left - delayed))
        self.add(Cause.GARBAGE_COLLECTION, NO_HOLDER, collected_ns)
        self.add(Cause.PREEMPTED, NO_HOLDER, preempted)
        if own:
            self.add(Cause.DECLARED if virtual else Cause.COMPUTE, NO_HOLDER, used)
        elif run.number >= FIRST_CALLBACK:
            self.add(Cause.LOOP_HELD, run.number - FIRST_CALLBACK, used)
        else:
            self.add(Cause.QUEUED, run.number, used)
        if waited > UNEXPLAINED_TOLERANCE_NS:
            holder = NO_HOLDER if own else run.number
            if self.was_stopped(begin[0], end[0]):
                self.add(Cause.STOPPED, NO_HOLDER, waited)
            elif end[4] > begin[4]:
                self.add(Cause.PAGE_FAULT, holder, waited)
            elif end[2] > begin[2] and end[3] > begin[3] and not self._around.keeps_run_delay:
                self.add(Cause.NO_SCHEDSTAT, holder, waited)
            elif end[2] > begin[2]:
                # With both kinds of switch in one run, report the blocking call, because it can be
                # fixed.
                self.add(Cause.BLOCKED, holder, waited)
            else:
                # Involuntary switches without run delay: the kernel keeps no schedstat, or a cgroup
                # quota ran out. No switch at all while the thread's clock stood still: interrupts
                # or the hypervisor.
                self.add(Cause.PREEMPTED, NO_HOLDER, waited)
        return delayed

    def add_rest(self, cause: Cause, wall_ns: int, collected_ns: int, delay_ns: int) -> int:
        """Split time outside all known runs; return the part of ``delay_ns`` that it used."""
        rest = max(0, wall_ns - collected_ns)
        delayed = min(max(0, delay_ns), rest)
        self.add(Cause.GARBAGE_COLLECTION, NO_HOLDER, collected_ns)
        self.add(Cause.PREEMPTED, NO_HOLDER, delayed)
        self.add(cause, NO_HOLDER, rest - delayed)
        return delayed

    def largest(self, at_least_ns: float) -> tuple[Cause, int] | None:
        """Return the largest cause with its main holder; None if all parts together are below the
        limit."""
        if not self._ns or sum(self._ns.values()) < at_least_ns:
            return None
        by_cause: dict[Cause, int] = {}
        for (cause, _), duration_ns in self._ns.items():
            by_cause[cause] = by_cause.get(cause, 0) + duration_ns
        cause = max(by_cause, key=lambda cause: by_cause[cause])
        return max((key for key in self._ns if key[0] is cause), key=lambda key: self._ns[key])


def _overlap(spans: Sequence[tuple[int, int]], from_ns: int, to_ns: int) -> int:
    return sum(max(0, min(end, to_ns) - max(begin, from_ns)) for begin, end in spans)


def holder_name(cause: int, holder: int, tasks: Sequence[str], callbacks: Sequence[str]) -> str:
    """Return the name of the holder; empty for none. ``tasks`` and ``callbacks`` are ordered by
    number."""
    if holder == NO_HOLDER:
        return ""
    if cause == Cause.LOOP_HELD:
        names, number = callbacks, holder
    elif holder >= FIRST_CALLBACK:
        names, number = callbacks, holder - FIRST_CALLBACK
    else:
        names, number = tasks, holder
    return names[number] if number < len(names) else f"number {holder}"
