"""The executive on virtual time: releases, skips, accounts and attributions."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vehicled.core.attribution import (
    FIRST_CALLBACK,
    NO_HOLDER,
    Evidence,
    Execution,
    Reading,
    holder_name,
)
from vehicled.core.executive import DeclaredStopwatch, Executive, TaskSpec
from vehicled.core.messages import Cause, TaskTick

MS = 1_000_000


class Bench:
    """An executive with recorded ticks and scripted costs."""

    def __init__(
        self, *tasks: TaskSpec, costs: list[int] | None = None, evidence_source: object = None
    ) -> None:
        self.ticks: list[TaskTick] = []
        self.stopwatch = DeclaredStopwatch(costs or [task.declared_ns for task in tasks])
        self.executive = Executive(
            tasks,
            self.stopwatch,
            self.ticks.append,
            evidence_source,  # type: ignore[arg-type]
            virtual=True,
        )
        self.executive.start(0)

    def run_until(self, end_ns: int) -> None:
        now = 0
        while (now := max(self.executive.next_due_ns(), self.executive.busy_until_ns)) < end_ns:
            self.executive.run(now)


def task(
    name: str = "a", rate_hz: float = 100.0, deadline_ms: float = 10, **kwargs: object
) -> TaskSpec:
    return TaskSpec(
        name=name,
        rate_hz=rate_hz,
        deadline_ns=round(deadline_ms * MS),
        run=lambda now: None,
        **kwargs,  # type: ignore[arg-type]
    )


def test_releases_of_an_uneven_rate_do_not_drift() -> None:
    bench = Bench(task(rate_hz=60.0, deadline_ms=16))
    bench.run_until(10_000 * MS)
    assert len(bench.ticks) == 600
    assert [tick.release_ns for tick in bench.ticks] == [k * 10**9 // 60 for k in range(600)]


def test_tasks_due_together_run_in_table_order_and_queue() -> None:
    order: list[str] = []
    first = TaskSpec(
        name="first",
        rate_hz=100,
        deadline_ns=MS,
        run=lambda now: order.append(f"first {now}"),
        declared_ns=2 * MS,
    )
    second = TaskSpec(
        name="second",
        rate_hz=50,
        deadline_ns=MS,
        run=lambda now: order.append(f"second {now}"),
        declared_ns=100,
    )
    bench = Bench(first, second)
    bench.executive.run(0)
    assert order == ["first 0", f"second {2 * MS}"]
    assert bench.ticks[0].cause is Cause.DECLARED
    assert bench.ticks[1].missed
    assert (bench.ticks[1].cause, bench.ticks[1].holder) == (Cause.QUEUED, 0)


def test_a_late_task_runs_once_skips_what_has_passed_and_keeps_its_phase() -> None:
    bench = Bench(task(phase_ns=3 * MS))
    bench.executive.run(3 * MS)
    bench.executive.run(47 * MS)
    late = bench.ticks[1]
    assert (late.release_ns, late.start_ns, late.skipped, late.missed) == (
        13 * MS,
        47 * MS,
        3,
        True,
    )
    assert bench.executive.next_due_ns() == 53 * MS
    stats = bench.executive.stats(0)
    assert (stats.misses, stats.skips, stats.consecutive_misses) == (1, 3, 1)
    bench.executive.run(53 * MS)
    assert stats.consecutive_misses == 0
    assert stats.longest_miss_run == 1


def test_a_catching_up_task_owes_a_bounded_number() -> None:
    bench = Bench(task(catch_up=True))
    bench.executive.run(0)
    bench.executive.run(35 * MS)
    assert bench.executive.next_due_ns() == 20 * MS
    bench.executive.run(200 * MS)
    assert bench.ticks[-1].skipped > 0
    assert bench.executive.next_due_ns() == 210 * MS


def test_response_counts_not_execution() -> None:
    bench = Bench(task(deadline_ms=5))
    bench.executive.run(4 * MS)
    assert not bench.ticks[0].missed
    bench.executive.run(16 * MS)
    assert bench.ticks[1].missed, "woken 6 ms late with no execution time at all is a miss"


class _FixedEvidence:
    def __init__(self, around: Evidence) -> None:
        self.around = around

    def evidence(self, release_ns: int, start_ns: int, end_ns: int) -> Evidence:
        return self.around


class _Scripted:
    """Stopwatch that gives a prepared reading at each end."""

    def __init__(self, begin: Reading, *ends: Reading) -> None:
        self._begin = begin
        self._ends = iter(ends)

    def begin(self, now_ns: int) -> Reading:
        return self._begin

    def end(self, task: int, begin: Reading) -> Reading:
        return next(self._ends)


AT_ONCE: Reading = (0, 0, 0, 0, 0, 0)
LATE: Reading = (7 * MS, 0, 0, 0, 0, 0)
SHORT: Reading = (8 * MS, MS, 0, 0, 0, 0)
"""After ``LATE``: 1 ms of work."""


def callback(
    begin_ns: int,
    end_ns: int,
    cpu_ns: int,
    *,
    voluntary: int = 0,
    faults: int = 0,
    delay_ns: int = 0,
) -> Execution:
    return Execution(
        FIRST_CALLBACK + 1,
        (begin_ns, 0, 0, 0, 0, 0),
        (end_ns, cpu_ns, voluntary, 0, faults, delay_ns),
    )


NEVER_SLEPT = (-2 * MS, -MS)
"""Begin and end of a sleep before the release: the loop did not sleep after it."""


@pytest.mark.parametrize(
    ("begin", "end", "around", "cause", "holder"),
    [
        (AT_ONCE, (8 * MS, 8 * MS, 0, 0, 0, 0), {}, Cause.COMPUTE, 255),
        (AT_ONCE, (8 * MS, MS, 1, 0, 0, 0), {}, Cause.BLOCKED, 255),
        (AT_ONCE, (8 * MS, MS, 0, 1, 0, 0), {}, Cause.PREEMPTED, 255),
        (AT_ONCE, (8 * MS, MS, 0, 0, 0, 7 * MS), {}, Cause.PREEMPTED, 255),
        # One short wait does not make a blocking call of a task that had to wait for the processor.
        (AT_ONCE, (8 * MS, MS, 1, 1, 0, 6 * MS), {}, Cause.PREEMPTED, 255),
        (AT_ONCE, (8 * MS, MS, 1, 1, 0, 2 * MS), {}, Cause.BLOCKED, 255),
        (AT_ONCE, (8 * MS, MS, 0, 0, 3, 0), {}, Cause.PAGE_FAULT, 255),
        # No switch, and yet its clock stood still: an interrupt or a hypervisor.
        (AT_ONCE, (8 * MS, MS, 0, 0, 0, 0), {}, Cause.PREEMPTED, 255),
        # Within the task, in another thread that it waits for, between release and start, and
        # preempted itself.
        (
            AT_ONCE,
            (8 * MS, 8 * MS, 0, 0, 0, 0),
            {"collections": [(0, 7 * MS)]},
            Cause.GARBAGE_COLLECTION,
            255,
        ),
        (
            AT_ONCE,
            (8 * MS, MS, 1, 0, 0, 0),
            {"collections": [(0, 7 * MS)]},
            Cause.GARBAGE_COLLECTION,
            255,
        ),
        (
            AT_ONCE,
            (8 * MS, 3 * MS, 0, 1, 0, 5 * MS),
            {"collections": [(0, 7 * MS)]},
            Cause.GARBAGE_COLLECTION,
            255,
        ),
        (
            LATE,
            SHORT,
            {"asleep_ns": NEVER_SLEPT, "collections": [(-MS, 6 * MS)]},
            Cause.GARBAGE_COLLECTION,
            255,
        ),
        (
            LATE,
            SHORT,
            {"asleep_ns": (-MS, 7 * MS), "collections": [(-MS, 6 * MS)]},
            Cause.GARBAGE_COLLECTION,
            255,
        ),
        # A collection before the release, or a short one, is not to blame.
        (
            AT_ONCE,
            (8 * MS, 8 * MS, 0, 0, 0, 0),
            {"collections": [(-9 * MS, 0), (0, 3 * MS)]},
            Cause.COMPUTE,
            255,
        ),
        (LATE, SHORT, {"asleep_ns": (-MS, 7 * MS)}, Cause.WAKE_UP, 255),
        (LATE, SHORT, {"asleep_ns": (-MS, 7 * MS), "run_delay_ns": 6 * MS}, Cause.PREEMPTED, 255),
        (LATE, SHORT, {"asleep_ns": (-MS, 7 * MS), "run_delay_ns": 2 * MS}, Cause.WAKE_UP, 255),
        (
            LATE,
            SHORT,
            {"asleep_ns": NEVER_SLEPT, "callbacks": [callback(0, 6 * MS, 6 * MS)]},
            Cause.LOOP_HELD,
            1,
        ),
        (LATE, SHORT, {"callbacks": [callback(-9 * MS, 6 * MS, 15 * MS)]}, Cause.LOOP_HELD, 1),
        (
            LATE,
            SHORT,
            {"callbacks": [callback(0, 6 * MS, MS, voluntary=2)]},
            Cause.BLOCKED,
            FIRST_CALLBACK + 1,
        ),
        (
            LATE,
            SHORT,
            {"callbacks": [callback(0, 6 * MS, MS, faults=1)]},
            Cause.PAGE_FAULT,
            FIRST_CALLBACK + 1,
        ),
        (
            LATE,
            SHORT,
            {"callbacks": [callback(0, 6 * MS, MS, delay_ns=5 * MS)]},
            Cause.PREEMPTED,
            255,
        ),
        # Awake and in no known task: some other callback of the loop.
        (LATE, SHORT, {"asleep_ns": NEVER_SLEPT}, Cause.LOOP_HELD, 255),
        (LATE, SHORT, {"asleep_ns": NEVER_SLEPT, "run_delay_ns": 6 * MS}, Cause.PREEMPTED, 255),
        (LATE, SHORT, {}, Cause.NO_LOOP_RECORD, 255),
        (
            LATE,
            SHORT,
            {"asleep_ns": (2 * MS, 3 * MS), "since_ns": 0, "callbacks": []},
            Cause.LOOP_HELD,
            255,
        ),
        (LATE, SHORT, {"asleep_ns": (5 * MS, 6 * MS)}, Cause.UNKNOWN, 255),
        # Two kinds of switch, and a kernel that does not say which of them took the time.
        (AT_ONCE, (8 * MS, MS, 1, 1, 0, 0), {"keeps_run_delay": False}, Cause.NO_SCHEDSTAT, 255),
        (AT_ONCE, (8 * MS, MS, 1, 1, 0, 0), {}, Cause.BLOCKED, 255),
        (AT_ONCE, (8 * MS, MS, 1, 0, 0, 0), {"keeps_run_delay": False}, Cause.BLOCKED, 255),
        (AT_ONCE, (8 * MS, MS, 0, 1, 0, 0), {"keeps_run_delay": False}, Cause.PREEMPTED, 255),
        (AT_ONCE, (8 * MS, MS, 1, 0, 0, 0), {"continued_ns": [7 * MS]}, Cause.STOPPED, 255),
        (LATE, SHORT, {"asleep_ns": (-MS, 7 * MS), "continued_ns": [6 * MS]}, Cause.STOPPED, 255),
        (LATE, SHORT, {"asleep_ns": (-MS, 7 * MS), "continued_ns": [-2 * MS]}, Cause.WAKE_UP, 255),
        (LATE, SHORT, {"asleep_ns": NEVER_SLEPT, "continued_ns": [6 * MS]}, Cause.STOPPED, 255),
        # A clock that waited for the simulator and jumped: the loop slept and looked several times
        # meanwhile.
        (
            LATE,
            SHORT,
            {"asleep_ns": (5 * MS, 6 * MS), "jumps": [(-3 * MS, 6 * MS)]},
            Cause.SIMULATOR,
            255,
        ),
        (
            LATE,
            SHORT,
            {"asleep_ns": (-MS, 7 * MS), "jumps": [(-3 * MS, 5 * MS)]},
            Cause.SIMULATOR,
            255,
        ),
        (
            LATE,
            SHORT,
            {"asleep_ns": (-MS, 7 * MS), "jumps": [(-3 * MS, 2 * MS)]},
            Cause.WAKE_UP,
            255,
        ),
    ],
)
def test_attribution_names_the_largest_part(
    begin: Reading, end: Reading, around: dict[str, Any], cause: Cause, holder: int
) -> None:
    ticks: list[TaskTick] = []
    evidence_source = _FixedEvidence(Evidence(**around))
    executive = Executive(
        [task(deadline_ms=5)], _Scripted(begin, end), ticks.append, evidence_source
    )
    executive.start(0)
    executive.run(begin[0])
    assert ticks[0].missed
    assert (ticks[0].cause, ticks[0].holder) == (cause, holder)


def test_a_task_behind_a_blocked_one_names_the_block_and_its_holder() -> None:
    ticks: list[TaskTick] = []
    stopwatch = _Scripted(
        (0, 0, 0, 0, 0, 0), (8 * MS, MS, 2, 0, 0, 0), (9 * MS, 2 * MS, 2, 0, 0, 0)
    )
    executive = Executive(
        [task("slow", deadline_ms=20), task("behind", deadline_ms=5)], stopwatch, ticks.append
    )
    executive.start(0)
    executive.run(0)
    assert [tick.missed for tick in ticks] == [False, True]
    assert (ticks[1].cause, ticks[1].holder) == (Cause.BLOCKED, 0)


def test_what_the_scheduler_owed_is_counted_once() -> None:
    """5 ms in the run of the first task are the reason; they are no reason why the loop should have
    woken late besides."""
    ticks: list[TaskTick] = []
    around = Evidence(asleep_ns=(-MS, 4 * MS), run_delay_ns=3 * MS, since_ns=0)
    stopwatch = _Scripted((4 * MS, 0, 0, 0, 0, 0), (8 * MS, MS, 0, 1, 0, 3 * MS))
    executive = Executive([task(deadline_ms=5)], stopwatch, ticks.append, _FixedEvidence(around))
    executive.start(0)
    executive.run(4 * MS)
    assert ticks[0].cause is Cause.WAKE_UP


def test_small_waits_behind_many_add_up() -> None:
    """The task took 3 of 9 ms, two others 3 each: the queue is the part that can be improved."""
    ticks: list[TaskTick] = []
    stopwatch = _Scripted(
        (0, 0, 0, 0, 0, 0), *((k * 3 * MS, k * 3 * MS, 0, 0, 0, 0) for k in (1, 2, 3))
    )
    executive = Executive([task(f"t{k}", deadline_ms=8) for k in range(3)], stopwatch, ticks.append)
    executive.start(0)
    executive.run(0)
    assert (ticks[2].cause, ticks[2].holder) == (Cause.QUEUED, 0)


def test_holders_have_names() -> None:
    tasks, callbacks = ("ingestion", "control"), ("receive", "log")
    assert holder_name(Cause.QUEUED, 1, tasks, callbacks) == "control"
    assert holder_name(Cause.LOOP_HELD, 1, tasks, callbacks) == "log"
    assert holder_name(Cause.BLOCKED, 1, tasks, callbacks) == "control"
    assert holder_name(Cause.BLOCKED, FIRST_CALLBACK, tasks, callbacks) == "receive"
    assert holder_name(Cause.LOOP_HELD, NO_HOLDER, tasks, callbacks) == ""
    assert holder_name(Cause.BLOCKED, 77, tasks, callbacks) == "number 77"


@given(
    rates=st.lists(
        st.sampled_from([20.0, 33.3, 60.0, 100.0, 200.0, 400.0]), min_size=1, max_size=4
    ),
    costs=st.lists(st.integers(0, 12 * MS), min_size=4, max_size=4),
)
def test_every_release_is_run_or_skipped_exactly_once(rates: list[float], costs: list[int]) -> None:
    bench = Bench(*[task(f"t{i}", rate_hz=rate) for i, rate in enumerate(rates)], costs=costs)
    bench.run_until(500 * MS)
    for index, rate in enumerate(rates):
        expected = 0
        for tick in (t for t in bench.ticks if t.task == index):
            assert tick.release_ns == expected * 10**12 // round(rate * 1000)
            assert tick.start_ns >= tick.release_ns
            expected += 1 + tick.skipped
        stats = bench.executive.stats(index)
        assert stats.n + stats.skips == expected
    for earlier, later in zip(bench.ticks, bench.ticks[1:], strict=False):
        assert later.start_ns >= earlier.end_ns, "one loop: no two tasks at once"
