"""The recent past of a filter: late measurements, repeated ones, bounds of memory and work."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import near_count
from vehicled.estimation.timeline import Timeline

Trace = tuple[tuple[Any, ...], ...]


class Recorder:
    """A filter whose state is the list of what was done to it."""

    def __init__(self, **options: Any) -> None:
        self.predictions = 0
        self.timeline: Timeline[Trace, str] = Timeline(
            self._predict, self._update, **{"keep_ns": 100, **options}
        )
        self.timeline.start(0, ())

    def _predict(self, state: Trace, t0_ns: int, t1_ns: int) -> Trace:
        assert t0_ns < t1_ns
        self.predictions += 1
        return (*state, (t0_ns, t1_ns))

    @staticmethod
    def _update(state: Trace, z: str) -> Trace:
        return (*state, (z,))


arrivals = st.lists(
    st.tuples(st.integers(1, 60), st.integers(0, 2), st.integers(0, 60)),
    max_size=25,
    unique_by=lambda a: a[:2],
)


@given(arrivals)
def test_the_outcome_is_that_of_measurements_in_time(
    measurements: list[tuple[int, int, int]],
) -> None:
    """Whatever order they arrive in, and however late."""
    late, timely = Recorder(), Recorder()
    for now in range(5, 131, 5):
        for t, source, delay in measurements:
            if now - 5 < max(t, 1) <= now:
                timely.timeline.observe(t, source, f"{t} {source}")
            if now - 5 < t + delay <= now:
                late.timeline.observe(t, source, f"{t} {source}")
        late.timeline.advance(now)
        timely.timeline.advance(now)
    assert late.timeline.state == timely.timeline.state
    assert late.timeline.late == timely.timeline.late == 0
    assert {f"{t} {source}" for t, source, _ in measurements} == {
        s[0] for s in late.timeline.state if len(s) == 1
    }


KEEP_NS, AHEAD_NS = 100, 3
ages = near_count(0, -AHEAD_NS, KEEP_NS, low=-10, high=KEEP_NS + 50)
episodes = st.lists(
    st.tuples(st.integers(0, 60), st.lists(st.tuples(ages, st.integers(0, 1)), max_size=5)),
    max_size=15,
)


@given(episodes)
def test_a_measurement_is_fused_exactly_within_the_limits(
    episode: list[tuple[int, list[tuple[int, int]]]],
) -> None:
    """Property: from ``keep_ns`` before to ``ahead_ns`` after now, each source and instant once, in
    the order of time."""
    recorder = Recorder(keep_ns=KEEP_NS, ahead_ns=AHEAD_NS)
    fused: set[tuple[int, int]] = set()
    now_ns = refused = future = 0
    for step_ns, arrivals in episode:
        now_ns += step_ns
        for age_ns, source in arrivals:
            t_ns = now_ns - age_ns
            key = min(t_ns, now_ns), source
            recorder.timeline.observe(t_ns, source, f"{key[0]} {source}")
            possible = max(now_ns - KEEP_NS, 0) <= t_ns <= now_ns + AHEAD_NS and key not in fused
            refused += not possible
            future += age_ns < -AHEAD_NS
            if possible:
                fused.add(key)
        recorder.timeline.advance(now_ns)
        done = [each[0] for each in recorder.timeline.state if len(each) == 1]
        assert done == [f"{t_ns} {source}" for t_ns, source in sorted(fused)]
        assert (recorder.timeline.refused, recorder.timeline.future) == (refused, future)
        keys = recorder.timeline._keys
        assert all(a < b for a, b in pairwise(keys)), "one state for each instant and source"
        assert sum(t_ns < now_ns - KEEP_NS for t_ns, _ in keys) <= 1, (
            "what is too old is dropped but for its newest state"
        )


@pytest.mark.parametrize("capacity", [3, 50])
def test_a_step_takes_as_many_measurements_as_there_is_room_for(capacity: int) -> None:
    recorder = Recorder(capacity=capacity)
    for source in range(capacity + 1):
        recorder.timeline.observe(5, source, f"{source}")
    assert recorder.timeline.late == 1
    state = recorder.timeline.advance(10)
    assert [each[0] for each in state if len(each) == 1] == [
        f"{source}" for source in range(capacity)
    ]
    assert len(recorder.timeline._keys) <= capacity


def test_in_order_costs_nothing_extra() -> None:
    recorder = Recorder()
    for now in range(10, 1010, 10):
        recorder.timeline.observe(now, 0, "z")
        recorder.timeline.advance(now)
    assert recorder.predictions == 100


def test_only_what_comes_after_a_late_measurement_is_done_again() -> None:
    recorder = Recorder()
    for now in range(10, 110, 10):
        recorder.timeline.advance(now)
    recorder.predictions = 0
    recorder.timeline.observe(80, 0, "a")
    recorder.timeline.observe(75, 1, "b")
    recorder.timeline.advance(110)
    assert recorder.timeline.state[-7:] == (
        (70, 75),
        ("b",),
        (75, 80),
        ("a",),
        (80, 90),
        (90, 100),
        (100, 110),
    )
    assert recorder.predictions == 5


def test_older_than_the_history_is_late() -> None:
    recorder = Recorder()
    for now in range(10, 510, 10):
        recorder.timeline.advance(now)
    for t, late in ((399, 1), (-5, 2), (400, 2), (401, 2)):
        recorder.timeline.observe(t, 0, f"{t}")
        recorder.timeline.advance(500)
        assert recorder.timeline.late == late
    assert [s for s in recorder.timeline.state if len(s) == 1] == [("400",), ("401",)]


def test_nothing_before_the_start_is_fused() -> None:
    recorder = Recorder()
    recorder.timeline.start(50, ())
    recorder.timeline.observe(49, 0, "before")
    recorder.timeline.observe(50, 0, "at")
    assert recorder.timeline.advance(60) == (("at",), (50, 60))
    assert recorder.timeline.late == 1
    assert recorder.timeline.oldest_ns == 50


def test_repeated_measurements_are_fused_once() -> None:
    recorder = Recorder()
    for _ in range(2):
        recorder.timeline.observe(5, 0, "z")
        recorder.timeline.observe(5, 0, "z")
        recorder.timeline.advance(10)
    assert recorder.timeline.state.count(("z",)) == 1
    assert recorder.timeline.duplicate == 3


def test_stamps_from_the_future_are_now_or_refused() -> None:
    recorder = Recorder(ahead_ns=3)
    recorder.timeline.observe(13, 0, "near")
    recorder.timeline.observe(14, 1, "far")
    assert recorder.timeline.advance(10) == ((0, 10), ("near",))
    assert recorder.timeline.future == 1
    assert recorder.timeline.t_ns == 10


def test_time_that_goes_back_changes_nothing() -> None:
    recorder = Recorder()
    recorder.timeline.advance(20)
    assert recorder.timeline.advance(10) == ((0, 20),)
    recorder.timeline.observe(10, 0, "z")
    assert recorder.timeline.advance(5) == ((0, 10), ("z",), (10, 20))


def test_changed_inputs_are_predicted_with_again() -> None:
    scale = {0: 1.0}

    def predict(state: float, t0_ns: int, t1_ns: int) -> float:
        return state + sum(scale.get(t // 10 * 10, 1.0) for t in range(t0_ns, t1_ns))

    timeline: Timeline[float, float] = Timeline(predict, lambda x, z: x + z, keep_ns=100)
    timeline.start(0, 0.0)
    for now in (10, 20, 30):
        timeline.advance(now)
    assert timeline.state == pytest.approx(30.0)
    scale[10] = 3.0
    timeline.changed(10)
    assert timeline.advance(30) == pytest.approx(50.0)
    assert timeline.advance(40) == pytest.approx(60.0)
    scale[0] = 2.0
    timeline.changed(-100)
    assert timeline.advance(50) == pytest.approx(80.0)


def test_memory_and_work_are_bounded() -> None:
    recorder = Recorder(keep_ns=10**9, capacity=50)
    for now in range(1, 2000):
        recorder.timeline.observe(now, 0, "z")
        recorder.timeline.advance(now)
        assert len(recorder.timeline._keys) <= 50
    for _ in range(100):
        recorder.timeline.observe(1, 0, "z")
    recorder.predictions = 0
    recorder.timeline.observe(recorder.timeline.oldest_ns, 1, "z")
    recorder.timeline.advance(2000)
    assert recorder.predictions <= 51
    assert recorder.timeline.late == 101


def test_cleared_it_has_no_state() -> None:
    recorder = Recorder()
    recorder.timeline.observe(1, 0, "z")
    recorder.timeline.clear()
    assert not recorder.timeline.running
    with pytest.raises(IndexError):
        _ = recorder.timeline.state
    recorder.timeline.start(5, ())
    assert recorder.timeline.advance(10) == ((5, 10),)
