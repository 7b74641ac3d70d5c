"""Task ticks of a computer whose loop wakes up late in bursts, as a run on the wall clock would
have logged them."""

import random
from collections.abc import Mapping
from typing import Any

import numpy as np

from vehicled.core.attribution import Reading
from vehicled.core.executive import DeclaredStopwatch, Executive, TaskSpec
from vehicled.core.messages import TaskTick
from vehicled.core.tasks import PIPELINE
from vehicled.profile import load_profile
from vehicled.profile.schema import Profile
from vehicled.runtime.board.recording import BoardRecording, TaskTimes, record

START = 5_000_000_123
FIELDS = ("release_ns", "start_ns", "end_ns", "skipped", "task", "missed")
FACTS = {
    "computer": "a small board",
    "kernel": "Linux",
    "processors": 1,
    "scheduling": "other",
    "measured": "2026-01-01T00:00:00Z",
    "vehicled": "",
    "python": "",
    "controller": "pure_pursuit",
    "estimator": "ekf4",
    "profile": "art",
    "link": "messages",
}


class Bursty(DeclaredStopwatch):
    """Two states: mostly prompt, and now and then a burst of late wake-ups and of tasks that are
    preempted."""

    def __init__(self, seed: int, bursts: float) -> None:
        super().__init__([40_000, 120_000, 150_000, 40_000])
        self._random = random.Random(seed)
        self._bursts = bursts
        self._bad = False

    def wake_ns(self, due_ns: int, free_ns: int) -> int:
        draw = self._random.random
        self._bad = draw() < (0.8 if self._bad else self._bursts)
        return max(due_ns, free_ns) + round(1e6 * (draw() * 6.0 if self._bad else draw() * 0.2))

    def end(self, task: int, begin: Reading) -> Reading:
        draw = self._random.random
        cost_ns = round(
            self.costs_ns[task] * (1.0 + draw())
            + (4e6 * draw() if self._bad and draw() < 0.2 else 0.0)
        )
        return begin[0] + cost_ns, begin[1], 0, 0, 0, 0


def specs(profile: Profile) -> list[TaskSpec]:
    """Return the rate table of a profile, with tasks that do nothing."""
    tables = {name: getattr(profile.tasks, name) for name in PIPELINE}
    return [
        TaskSpec(
            name=name, rate_hz=row.rate_hz, deadline_ns=round(row.deadline_ms * 1e6),
            phase_ns=round(row.phase_ms * 1e6), catch_up=row.policy == "catch_up",
            run=lambda now_ns: None,
        )
        for name, row in tables.items()
    ]  # fmt: skip


def run(
    profile: Profile, stopwatch: DeclaredStopwatch, start_ns: int, seconds: float
) -> list[TaskTick]:
    """Run the rate table as the pump of virtual time does, and return its ticks."""
    ticks: list[TaskTick] = []
    executive = Executive(specs(profile), stopwatch, ticks.append)
    executive.start(start_ns)
    now_ns = start_ns
    while now_ns < start_ns + seconds * 1e9:
        executive.run(now_ns)
        now_ns = stopwatch.wake_ns(
            executive.next_due_ns(), max(executive.busy_until_ns, now_ns + 1)
        )
    return ticks


def rows(ticks: list[TaskTick]) -> Any:
    """Return ticks as the log's reader does."""
    table = [tuple(getattr(tick, name) for name in FIELDS) for tick in ticks]
    return np.array(table, [(name, bool if name == "missed" else np.int64) for name in FIELDS])


def empty_table(profile: Profile) -> Mapping[str, TaskTimes]:
    """Return the rate table of a profile without times."""
    return {
        spec.name: TaskTimes(
            rate_hz=spec.rate_hz, phase_ms=spec.phase_ns / 1e6, deadline_ms=spec.deadline_ns / 1e6,
            runs=0, misses=0, skips=0, execution_us=[], lateness_us=[],
        )
        for spec in specs(profile)
    }  # fmt: skip


def recording(
    profile: Profile | None = None, *, seconds: float = 12.0, seed: int = 1, bursts: float = 0.01
) -> BoardRecording:
    """Return the recording of such a computer."""
    profile = profile or load_profile("art")
    ticks = run(profile, Bursty(seed, bursts), START, seconds)
    return record(rows(ticks), empty_table(profile), FACTS)
