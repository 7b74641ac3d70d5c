"""Cost of the executive: its own code per release, and the wake-ups.

    python bench/executive.py [--seconds 10] [--json]

The rate table is the pipeline's, 400 + 200 + 100 + 100 releases a second, with empty tasks.
Measured in turns within one run:

* executive: CPU time inside ``Executive.run`` on the wall stopwatch, its readings included; nothing
  is waited for
* bare loop (the reference): the plainest loop that runs the same tasks in order and keeps phase,
  with no account of anything
* daemon's thread: all CPU time of a thread that really waits for each release on the precise loop;
  less the executive, that is what waking up costs
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable

import anyio

from vehicled.core.attribution import Reading
from vehicled.core.executive import Executive, TaskSpec
from vehicled.core.messages import TaskTick
from vehicled.core.ports import NEVER_NS
from vehicled.runtime.evidence.kernel import WallStopwatch
from vehicled.runtime.loop import new_event_loop
from vehicled.runtime.timer import Alarm

RATES = {"ingestion": 400.0, "fusion": 200.0, "control": 100.0, "actuation": 100.0}
RELEASES_PER_S = sum(RATES.values())
ROUNDS = 7
SLICE_S = 10.0


class ShiftedStopwatch(WallStopwatch):
    """Wall stopwatch, with the cost of every reading, shifted to the time of the release so that
    nothing waits."""

    def begin(self, now_ns: int) -> Reading:
        """Read the stopwatch as after a wait, and shift it so that the release is now."""
        self._measured_ns = -NEVER_NS
        reading = self.read()
        self._shift_ns = now_ns - reading[0]
        return now_ns, *reading[1:]

    def end(self, task: int, begin: Reading) -> Reading:
        """Read the stopwatch."""
        reading = self.read()
        return reading[0] + self._shift_ns, *reading[1:]


class Row:
    """A task of the bare loop."""

    __slots__ = ("period_ns", "release_ns", "run")

    def __init__(self, period_ns: int, run: Callable[[int], None]) -> None:
        self.release_ns = 0
        self.period_ns = period_ns
        self.run = run


def nothing(now_ns: int) -> None:
    """Do nothing: the empty task."""


def forget(tick: TaskTick) -> None:
    """Drop a log record."""


def table() -> list[TaskSpec]:
    """Return the pipeline with empty tasks."""
    return [
        TaskSpec(name=name, rate_hz=rate, deadline_ns=10**9, run=nothing)
        for name, rate in RATES.items()
    ]


def executive_us(virtual_s: float) -> float:
    """Return CPU time per release inside the executive."""
    executive = Executive(table(), ShiftedStopwatch(), forget)
    executive.start(0)
    begin = time.thread_time_ns()
    while (due_ns := executive.next_due_ns()) < virtual_s * 1e9:
        executive.run(due_ns)
    spent = time.thread_time_ns() - begin
    return spent / sum(executive.stats(i).n for i in range(len(RATES))) / 1e3


def bare_us(virtual_s: float) -> float:
    """Return CPU time per release of the plainest loop."""
    rows = [Row(round(1e9 / rate), nothing) for rate in RATES.values()]
    releases, now_ns = 0, 0
    begin = time.thread_time_ns()
    while now_ns < virtual_s * 1e9:
        for row in rows:
            if row.release_ns <= now_ns:
                row.run(now_ns)
                row.release_ns += row.period_ns
                releases += 1
        now_ns = min(row.release_ns for row in rows)
    return (time.thread_time_ns() - begin) / releases / 1e3


async def thread_share(seconds: float) -> float:
    """Return the fraction of a core that a thread takes while it waits for every release."""
    executive = Executive(table(), WallStopwatch(), forget)
    start_ns = time.monotonic_ns()
    executive.start(start_ns)
    end_ns = start_ns + round(seconds * 1e9)

    def on_due() -> int | None:
        executive.run(time.monotonic_ns())
        due_ns = executive.next_due_ns()
        return due_ns if due_ns < end_ns else None

    begin = time.thread_time_ns()
    with Alarm() as alarm:
        await alarm.serve(start_ns, on_due)
    return (time.thread_time_ns() - begin) / (seconds * 1e9)


def main() -> None:
    """Run the benchmark and print its results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="length of the part that really waits"
    )
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    executive, bare = [], []
    for _ in range(ROUNDS):
        executive.append(executive_us(SLICE_S))
        bare.append(bare_us(SLICE_S))
    own_us, bare_loop_us = statistics.median(executive), statistics.median(bare)
    share = anyio.run(
        thread_share, arguments.seconds, backend_options={"loop_factory": new_event_loop}
    )
    own_share = own_us * 1e-6 * RELEASES_PER_S
    result = {
        "executive_us_per_release": own_us,
        "bare_loop_us_per_release": bare_loop_us,
        "ratio_to_bare_loop": own_us / bare_loop_us,
        "executive_share_of_core": own_share,
        "thread_share_of_core": share,
        "wake_up_share_of_core": share - own_share,
    }
    if arguments.json:
        print(json.dumps(result, indent=2))
        return
    print(
        f"{RELEASES_PER_S:.0f} releases a second, median of {ROUNDS} rounds (min "
        f"{min(executive):.2f}, max {max(executive):.2f} us)"
    )
    print(f"  executive         {own_us:7.2f} us per release   {100 * own_share:5.2f} % of a core")
    print(
        f"  bare loop         {bare_loop_us:7.2f} us per release   ratio "
        f"{own_us / bare_loop_us:.1f}"
    )
    wake_up = share - own_share
    print(
        f"  wake-ups          {wake_up / RELEASES_PER_S * 1e6:7.2f} us per release   "
        f"{100 * wake_up:5.2f} % of a core"
    )
    print(
        f"  the whole thread  {share / RELEASES_PER_S * 1e6:7.2f} us per release   "
        f"{100 * share:5.2f} % of a core"
    )


if __name__ == "__main__":
    main()
