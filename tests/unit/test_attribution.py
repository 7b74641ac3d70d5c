"""Explaining a late release is bounded: a loop that is late has run hundreds of callbacks since."""

import pytest

from vehicled.core import attribution
from vehicled.core.attribution import FIRST_CALLBACK, MOST_RUNS, Evidence, Execution, attribute
from vehicled.core.messages import Cause

US = 1_000
SHORT_NS, COUNT = 20 * US, 1000
RECEIVE, LOG = 0, 1


def callback(
    number: int, begin_ns: int, wall_ns: int, cpu_ns: int, voluntary: int = 0
) -> Execution:
    return Execution(
        FIRST_CALLBACK + number,
        (begin_ns, begin_ns, 0, 0, 0, 0),
        (begin_ns + wall_ns, begin_ns + cpu_ns, voluntary, 0, 0, 0),
    )


def late(callbacks: list[Execution]) -> tuple[Cause, int]:
    """Return cause and holder of a release at 0, whose task of 1 us runs after the callbacks; the
    loop did not sleep."""
    end_ns = callbacks[-1].end[0]
    task = Execution(2, (end_ns, end_ns, 0, 0, 0, 0), (end_ns + US, end_ns + US, 0, 0, 0, 0))
    return attribute(2, 0, [task], Evidence(asleep_ns=(-2 * US, 0), callbacks=callbacks))


def test_many_short_callbacks_hold_the_loop_by_the_name_of_most() -> None:
    found = [
        callback(LOG if k % 4 else RECEIVE, k * SHORT_NS, SHORT_NS, SHORT_NS) for k in range(COUNT)
    ]
    assert late(found) == (Cause.LOOP_HELD, LOG)


@pytest.mark.parametrize("at", [0, COUNT // 2, COUNT - 1])
def test_one_that_blocks_among_them_is_found(at: int) -> None:
    found, begin_ns = [], 0
    for k in range(COUNT):
        wall_ns = 2 * COUNT * SHORT_NS if k == at else SHORT_NS
        found.append(callback(LOG, begin_ns, wall_ns, SHORT_NS, voluntary=int(k == at)))
        begin_ns += wall_ns
    assert late(found) == (Cause.BLOCKED, FIRST_CALLBACK + LOG)


def test_only_so_many_are_looked_at_closely(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    close = attribution._Parts.add_run

    def add_run(parts: attribution._Parts, run: Execution, *args: int, virtual: bool) -> int:
        looked.append(run.number)
        return close(parts, run, *args, virtual=virtual)

    monkeypatch.setattr(attribution._Parts, "add_run", add_run)
    for count, most in ((MOST_RUNS // 2, MOST_RUNS // 2 + 1), (MOST_RUNS * 8, 1)):
        looked.clear()
        late([callback(LOG, k * SHORT_NS, SHORT_NS, SHORT_NS) for k in range(count)])
        assert len(looked) == most
