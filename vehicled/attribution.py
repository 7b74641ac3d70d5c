"""Why a release missed its deadline, decided from evidence.

The time between the planned release and the end is split among everything that is known to have taken part of it; the largest
part names the cause. What no evidence covers stays ``UNKNOWN``: a guess would be worse than none.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from vehicled.messages import Cause

NO_HOLDER = 255

Reading = tuple[int, int, int, int, int]
"""t_ns, thread cpu_ns, voluntary switches, involuntary switches, major page faults."""


class Execution(NamedTuple):
    """One task's run between two stopwatch readings."""

    task: int
    begin: Reading
    end: Reading


class Surroundings(NamedTuple):
    """What the runtime knows about the time before and during a late release; all in ns within the window asked for."""

    wake_up_ns: int = 0
    """The loop slept past the release: woken late."""
    held_ns: int = 0
    """Runtime callbacks ran on the loop."""
    holder: int = NO_HOLDER
    """Number of the callback that held it longest."""
    gc_ns: int = 0
    stolen_ns: int = 0
    """The thread was ready and did not run, or the hypervisor took the processor."""


class Witness(Protocol):
    """Source of surroundings; asked only after a miss."""

    def surroundings(self, release_ns: int, start_ns: int, end_ns: int) -> Surroundings:
        """What happened around the loop between release and end."""
        ...


class NoWitness:
    """For runs on virtual time, where nothing happens beside the tasks."""

    def surroundings(self, release_ns: int, start_ns: int, end_ns: int) -> Surroundings:
        """Nothing."""
        return Surroundings()


COVERED_SHARE = 0.5
"""Evidence must cover this share of the time beyond a release, or the cause stays unknown."""

UNEXPLAINED_TOLERANCE_NS = 50_000
"""Off-CPU time below this is the cost of the measurement itself."""


def attribute(
    task: int, release_ns: int, executions: Sequence[Execution], around: Surroundings, *, virtual: bool = False
) -> tuple[Cause, int]:
    """Cause and holder of one late release.

    ``executions`` are the runs of tasks on the loop that ended after the release, oldest first, the late task's own last. The
    holder is the task that held the loop for QUEUED, BLOCKED and PREEMPTED suffered in another task, or the runtime callback for
    LOOP_HELD; ``NO_HOLDER`` otherwise.
    """
    parts: dict[tuple[Cause, int], int] = {}

    def add(cause: Cause, holder: int, duration_ns: int) -> None:
        if duration_ns > 0:
            parts[cause, holder] = parts.get((cause, holder), 0) + duration_ns

    own_end = executions[-1].end[0]
    for run in executions:
        begin, end = run.begin, run.end
        wall = end[0] - max(begin[0], release_ns)
        if wall <= 0:
            continue
        holder = NO_HOLDER if run.task == task else run.task
        off_cpu = max(0, min(wall, (end[0] - begin[0]) - (end[1] - begin[1])))
        on_cpu = wall - off_cpu
        add((Cause.DECLARED if virtual else Cause.COMPUTE) if run.task == task else Cause.QUEUED, holder, on_cpu)
        if off_cpu <= UNEXPLAINED_TOLERANCE_NS:
            continue
        if end[4] > begin[4]:
            add(Cause.PAGE_FAULT, holder, off_cpu)
        elif end[2] > begin[2]:
            # Both kinds of switch in one run: the blocking call is the one that someone can mend.
            add(Cause.BLOCKED, holder, off_cpu)
        elif end[3] > begin[3] or around.stolen_ns > 0:
            add(Cause.PREEMPTED, NO_HOLDER, off_cpu)
    add(Cause.WAKE_UP, NO_HOLDER, around.wake_up_ns)
    add(Cause.LOOP_HELD, around.holder, around.held_ns)
    if around.gc_ns:
        # The collector runs inside whoever allocates: take its time out of the largest part before naming it.
        add(Cause.GARBAGE_COLLECTION, NO_HOLDER, around.gc_ns)
        host = max((k for k in parts if k[0] is not Cause.GARBAGE_COLLECTION), key=lambda k: parts[k], default=None)
        if host is not None:
            parts[host] -= min(parts[host], around.gc_ns)
    if not parts or sum(parts.values()) < COVERED_SHARE * (own_end - release_ns):
        return Cause.UNKNOWN, NO_HOLDER
    stolen = min(around.stolen_ns, parts.get((Cause.WAKE_UP, NO_HOLDER), 0))
    if stolen > parts.get((Cause.WAKE_UP, NO_HOLDER), 0) / 2:
        # The kernel did wake the thread; it then waited for a processor.
        parts[Cause.PREEMPTED, NO_HOLDER] = parts.get((Cause.PREEMPTED, NO_HOLDER), 0) + parts.pop((Cause.WAKE_UP, NO_HOLDER))
    (cause, holder), _ = max(parts.items(), key=lambda item: item[1])
    return cause, holder
