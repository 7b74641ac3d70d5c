"""Timing figures of a log against the same figures worked out directly from the ticks."""

import json
import random
import statistics
from itertools import pairwise

import pytest

from vehicled.core.messages import (
    ActuatorCommand,
    Cause,
    ControlCommand,
    Event,
    StateEstimate,
    TaskTick,
)
from vehicled.log.pipe import WriterProcess
from vehicled.log.schema import RunHeader, TaskRow
from vehicled.offline.analysis.timing import timing

PERIOD_NS = 10_000_000
DEADLINE_NS = 8_000_000


def run(folder, ticks, extra=(), tasks=None):
    names = ("fusion", "control")
    header = RunHeader(
        run_id="0123456789abcdef", start_wall_ns=1_790_000_000_000_000_000, start_monotonic_ns=0,
        profile="art", course="lot17", tasks=tasks
        or [TaskRow(name=name, rate_hz=100.0, deadline_ns=DEADLINE_NS, max_miss_share=0.05)
            for name in names], clock="wall", holders=["serial read", "link"],
    )  # fmt: skip
    writer = WriterProcess.start(header, folder=str(folder), blocking=True)
    t_ns = 0
    for message in ticks:
        t_ns = message.end_ns
        writer.sink.record(message, t_ns)
        writer.pump(t_ns)
    for message in extra:
        writer.sink.record(message, message.t_ns)
    result = writer.close({"reason": "done"}, t_ns)
    assert result.finished
    return result.path


def made_up(count, seed=3):
    """Ticks of two tasks with misses in runs, skips, and some releases started early."""
    rng = random.Random(seed)
    ticks = []
    for task in (0, 1):
        k = 0
        for _ in range(count):
            skipped = rng.choice((0, 0, 0, 0, 0, 2)) if task else 0
            k += 1 + skipped
            release = k * PERIOD_NS
            start = release + round(rng.lognormvariate(11, 0.7)) - 20_000
            end = start + round(
                rng.lognormvariate(15, 1.2) if task else rng.lognormvariate(14.5, 0.5)
            )
            missed = end - release > DEADLINE_NS
            cause = (
                rng.choice((Cause.COMPUTE, Cause.QUEUED, Cause.LOOP_HELD, Cause.UNKNOWN))
                if missed
                else Cause.NONE
            )
            holder = {Cause.QUEUED: 0, Cause.LOOP_HELD: 1}.get(cause, 255)
            ticks.append(
                TaskTick(release, start, end, 5, DEADLINE_NS, skipped, task, missed, cause, holder)
            )
    return sorted(ticks, key=lambda tick: tick.end_ns)


@pytest.fixture(scope="module")
def ticks():
    return made_up(4000)


@pytest.fixture(scope="module")
def result(tmp_path_factory, ticks):
    return timing(run(tmp_path_factory.mktemp("log"), ticks))


QUANTITIES = {
    "lateness": lambda t: t.start_ns - t.release_ns,
    "execution": lambda t: t.end_ns - t.start_ns,
    "response": lambda t: t.end_ns - t.release_ns,
}


@pytest.mark.parametrize("task", [0, 1])
@pytest.mark.parametrize("quantity", QUANTITIES)
def test_distributions(result, ticks, task, quantity):
    values = sorted(QUANTITIES[quantity](t) / 1e3 for t in ticks if t.task == task)
    found = getattr(result.tasks[task], quantity)
    assert found.n == len(values) == result.tasks[task].n
    assert found.mean_us == pytest.approx(statistics.fmean(values), rel=1e-9)
    assert found.sigma_us == pytest.approx(statistics.pstdev(values), rel=1e-9)
    assert (found.min_us, found.max_us) == (values[0], values[-1])
    quantiles = {
        0.01: found.p1_us,
        0.5: found.p50_us,
        0.9: found.p90_us,
        0.99: found.p99_us,
        0.999: found.p99_9_us,
    }
    for share, value in quantiles.items():
        exact = values[max(int(-(-share * len(values) // 1)) - 1, 0)]
        assert value == pytest.approx(exact, rel=0.012, abs=0.002)


@pytest.mark.parametrize("task", [0, 1])
def test_jitter_is_start_to_start_against_the_plan(result, ticks, task):
    own = [t for t in ticks if t.task == task]
    change = [(b.start_ns - a.start_ns) - (b.release_ns - a.release_ns) for a, b in pairwise(own)]
    found = result.tasks[task]
    assert found.jitter.n == len(change)
    assert found.jitter.sigma_us == pytest.approx(statistics.pstdev(change) / 1e3, rel=1e-9)
    ordered = sorted(change)
    exact = (ordered[int(0.99 * len(change))] - ordered[int(0.01 * len(change))]) / 1e3
    assert found.jitter_p99_p1_us == pytest.approx(exact, rel=0.05)


def test_misses_skips_runs_and_causes(result, ticks):
    for number, found in enumerate(result.tasks):
        own = [t for t in ticks if t.task == number]
        missed = [t for t in own if t.missed]
        longest = current = 0
        for t in own:
            current = current + 1 + t.skipped if t.missed else t.skipped
            longest = max(longest, current) if t.missed else longest
        assert (found.misses, found.longest_miss_run, found.skips) == (
            len(missed),
            longest,
            sum(t.skipped for t in own),
        )
        assert found.miss_share == len(missed) / len(own)
        shares = {
            cause.name.lower(): sum(t.cause == cause for t in missed) / len(missed)
            for cause in {t.cause for t in missed}
        }
        assert found.causes == pytest.approx(shares)
        assert found.unknown_share == pytest.approx(
            sum(t.cause == Cause.UNKNOWN for t in missed) / len(missed)
        )
    everything = [t for t in ticks if t.missed]
    assert result.unknown_share == pytest.approx(
        sum(t.cause == Cause.UNKNOWN for t in everything) / len(everything)
    )
    assert result.tasks[1].longest_miss_run > 3
    held = {"fusion": Cause.QUEUED, "link": Cause.LOOP_HELD}
    assert result.tasks[1].holders == {
        name: sum(t.task == 1 and t.cause == cause for t in ticks) for name, cause in held.items()
    }


def test_budget_counts_skips_and_says_what_was_exceeded(result, ticks):
    own = [t for t in ticks if t.task == 1]
    late = sum(t.missed for t in own) + sum(t.skipped for t in own)
    assert result.tasks[1].late_share == pytest.approx(
        late / (len(own) + sum(t.skipped for t in own))
    )
    assert result.tasks[0].late_share < 0.05 < result.tasks[1].late_share
    assert len(result.exceeded) == 1
    assert result.exceeded[0].startswith("control: ")
    assert "exceeded: control" in result.to_text()
    assert json.loads(result.to_json())["exceeded"] == result.exceeded


def test_rate_is_measured(tmp_path):
    releases = range(PERIOD_NS, 301 * PERIOD_NS, PERIOD_NS)
    good = [
        TaskTick(t_ns, t_ns, t_ns + 1000, 1, DEADLINE_NS, 0, 0, False, Cause.NONE, 255)
        for t_ns in releases
    ]
    found = timing(run(tmp_path, good))
    assert found.tasks[0].rate_hz == pytest.approx(100.0)
    assert found.exceeded == []
    assert found.duration_s == pytest.approx(2.990001)
    assert "all budgets kept" in found.to_text()


def test_ages_come_from_what_the_tasks_put_out(tmp_path):
    ticks = [TaskTick(k, k, k + 10, 1, 100, 0, 0, False, Cause.NONE, 255) for k in range(1, 101)]
    extra = []
    for n in range(1, 101):
        t_ns = n * PERIOD_NS
        extra += [
            StateEstimate(t_ns, t_ns - 1_000 * n, 0.0, 0.0, 0.0, 0.0, 0.0, (0.0,) * 16),
            ControlCommand(t_ns, t_ns - 2_000 * n, 0.0, 0.0, 0.0),
            ActuatorCommand(t_ns, t_ns - 4_000 * n if n > 10 else 0, 0.0, 0.0, 0.0, 0.0),
        ]
    found = timing(
        run(tmp_path, ticks, extra, tasks=[TaskRow(name="fusion", rate_hz=100.0, deadline_ns=100)])
    )
    assert found.tasks[0].age is not None
    assert found.wire_to_actuator is not None
    assert found.tasks[0].age.mean_us == pytest.approx(50.5)
    # Commands before any measurement have no age.
    assert found.wire_to_actuator.n == 90
    assert (found.wire_to_actuator.min_us, found.wire_to_actuator.max_us) == (44.0, 400.0)
    assert "wire to actuator" in found.to_text()


def test_task_outside_of_the_table_is_named_by_number(tmp_path):
    found = timing(run(tmp_path, [TaskTick(1, 2, 3, 1, 10, 0, 9, False, Cause.NONE, 255)]))
    assert [task.name for task in found.tasks] == ["task 9"]


def test_text_is_aligned(result):
    tables = [
        block.splitlines() for block in result.to_text().split("\n\n") if block.startswith("task")
    ]
    assert len(tables) == 2
    assert len({len(line) for line in tables[0]}) == 1
    for line in tables[1]:
        assert line.split()[0] in ("task", "fusion", "control")


def tick(release_ms, response_ms, task=0, cause=Cause.COMPUTE, holder=255, skipped=0):
    release = round(release_ms * 1e6)
    end = release + round(response_ms * 1e6)
    return TaskTick(
        release,
        release,
        end,
        5,
        DEADLINE_NS,
        skipped,
        task,
        response_ms > 8.0,
        cause if response_ms > 8.0 else Cause.NONE,
        holder,
    )


FEW = [
    tick(0, 1), tick(10, 9.5), tick(20, 1), tick(500, 20, 1, Cause.QUEUED, 0, skipped=1),
    tick(505, 16, 0, Cause.NO_SCHEDSTAT), tick(900, 8.5, 1, Cause.LOOP_HELD, 1),
]  # fmt: skip


def test_each_miss_is_listed_with_its_time_its_lateness_and_its_cause(tmp_path):
    blocked = Event(
        501_000_000,
        "warning",
        "loop_blocked",
        json.dumps({"where": "driver.py:7 in read", "after_ms": 5.0}),
    )
    found = timing(run(tmp_path, FEW, [blocked]))
    lines = found.to_text().splitlines()
    assert lines[lines.index("4 missed deadlines in 3 episodes:") :][:5] == [
        "4 missed deadlines in 3 episodes:",
        "  t = 0.010 s  fusion: 1.5 ms late (response 9.5 of 8 ms), compute",
        (
            "  t = 0.500 s  control: 12.0 ms late (response 20.0 of 8 ms, 1 skipped), queued "
            "(fusion) at driver.py:7 in read"
        ),
        "  t = 0.505 s  fusion: 8.0 ms late (response 16.0 of 8 ms), no_schedstat",
        "  t = 0.900 s  control: 0.5 ms late (response 8.5 of 8 ms), loop_held (link)",
    ]
    assert found.unknown_share == 0.25
    assert [each.misses for each in found.episodes] == [1, 2, 1]


def test_many_misses_are_listed_in_episodes_and_one_by_one_on_request(tmp_path):
    ticks = [tick(1000 * k + 10 * j, 9.0 + j) for k in range(30) for j in range(5)]
    found = timing(run(tmp_path, ticks))
    lines = found.to_text().splitlines()
    assert "150 missed deadlines in 30 episodes; --all lists each:" in lines
    assert "  t = 3.000 s, for 0.053 s: 5 missed (fusion 5), up to 5.0 ms late: compute 5" in lines
    assert "  ... and 10 more episodes" in lines
    assert (
        sum(
            "response" in line and line.startswith("  t = ")
            for line in found.to_text(every=True).splitlines()
        )
        == 150
    )
    assert len(json.loads(found.to_json())["episodes"]) == 30
    assert json.loads(found.to_json())["misses"] == []
    assert len(json.loads(found.to_json(every=True))["misses"]) == 150
