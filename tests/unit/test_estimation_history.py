"""Commands and yaw rates of the recent past."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vehicled.core.messages import ImuSample
from vehicled.estimation.counters import InputCounters
from vehicled.estimation.gyro import YawRateGyro
from vehicled.estimation.history import CommandHistory
from vehicled.estimation.ins.inertial import Queue
from vehicled.estimation.planar.inputs import GyroHistory
from vehicled.estimation.repeats import MAX_EQUAL, MAX_EQUAL_NS, RepeatedSamples

MS = 1_000_000


@given(st.lists(st.tuples(st.integers(0, 500), st.integers()), max_size=60), st.integers(-10, 510))
def test_a_command_holds_until_the_next(entries: list[tuple[int, int]], asked: int) -> None:
    history: CommandHistory[int] = CommandHistory(-1, 1000)
    kept: list[tuple[int, int]] = []
    for t, value in entries:
        history.append(t, value)
        if kept and t == kept[-1][0]:
            kept[-1] = (t, value)
        elif not kept or t > kept[-1][0]:
            kept.append((t, value))
    expected = [value for t, value in kept if t <= asked]
    assert history.at(asked) == (expected[-1] if expected else -1)


def test_memory_is_bounded_and_the_window_is_kept() -> None:
    history: CommandHistory[int] = CommandHistory(0, keep_ns=400 * MS, capacity=1024)
    for k in range(10_000):
        history.append(k * MS, k)
        assert history.at((k - 400) * MS) == max(k - 400, 0)
    assert len(history._times_ns) <= 1024
    for k in range(5_000):
        history.append(10_000 * MS + k, k)  # far more often than the window expects
    assert len(history._times_ns) <= 1024
    history.clear(7)
    assert history.at(10**18) == 7


def _sample(t_ns: int, rate: float, saturated: bool = False) -> ImuSample:
    return ImuSample(t_ns, t_ns, (0.0, 0.0, 9.81), (0.0, 0.0, rate), saturated=saturated)


def test_gyro_means_over_the_interval_and_goes_stale() -> None:
    gyro = YawRateGyro(fresh_s=0.05, rest_s=1.0, counters=InputCounters())
    assert math.isnan(gyro.rate_radps(0))
    for k, rate in enumerate((0.1, 0.2, 0.6)):
        gyro.observe(_sample(k * MS, rate))
    assert gyro.take(3 * MS, standing=False) == 2 * MS
    assert gyro.rate_radps(5 * MS) == pytest.approx(0.3)
    assert gyro.take(6 * MS, standing=False) is None
    assert gyro.rate_radps(52 * MS) == pytest.approx(0.3)
    assert math.isnan(gyro.rate_radps(53 * MS))
    assert gyro.fresh_until_ns == 52 * MS


def test_gyro_learns_its_bias_only_at_rest() -> None:
    gyro = YawRateGyro(fresh_s=0.05, rest_s=1.0, counters=InputCounters())

    def run(start_ms: int, rate: float, standing: bool) -> None:
        for t in range(start_ms, start_ms + 3000, 5):
            # Equal samples in a row are those of a stuck gyro.
            gyro.observe(_sample(t * MS, rate + (1e-12 if t % 2 else 0.0)))
            gyro.take(t * MS, standing)

    run(0, 0.02, standing=False)
    assert gyro.bias_radps == 0.0
    run(3000, 0.3, standing=True)  # turned by hand
    assert gyro.bias_radps == 0.0
    run(6000, 0.02, standing=True)
    assert gyro.bias_radps == pytest.approx(0.02)
    assert gyro.rate_radps(8995 * MS) == pytest.approx(0.0)


def test_a_stuck_gyro_is_as_good_as_none() -> None:
    """It would hold its yaw rate, and the estimate would go on turning while the vehicle stops."""
    counters = InputCounters()
    gyro, planar = YawRateGyro(0.05, 1.0, counters), GyroHistory(10**9, 50 * MS, counters)
    ins = Queue(0.05, counters)
    for k in range(30):
        sample = _sample(k * 10 * MS, 0.5 + (0.01 * k if k < 5 else 0.0))
        for filter_input in (gyro.observe, planar.append, ins.observe):
            filter_input(sample)
    last_ms = 50 + MAX_EQUAL_NS // MS
    gyro.take(last_ms * MS, standing=False)
    assert gyro.fresh_until_ns == (last_ms + 50) * MS
    assert math.isnan(gyro.rate_radps((last_ms + 51) * MS))
    assert planar.mean_radps(last_ms * MS, (last_ms + 50) * MS) is not None
    assert planar.mean_radps(last_ms * MS, (last_ms + 51) * MS) is None
    assert ins.take(0, (last_ms + 51) * MS) == (None, None, None)
    assert counters.ignored == 3 * (25 - 11)


@given(
    st.lists(st.sampled_from([0.0, 0.1, math.nan]), max_size=30), st.sampled_from([0.0, math.nan])
)
def test_only_equal_samples_in_a_row_are_repeats(rates: list[float], force: float) -> None:
    repeats, equal, last = RepeatedSamples(), 0, math.nan
    for k, rate in enumerate(rates):
        equal = equal + 1 if rate == last else 1
        last = rate
        # A number that is none, made anew, equals nothing.
        t_ns = k * (MAX_EQUAL_NS // 2)
        sample = ImuSample(t_ns, t_ns, (force, 0.0, 9.81), (0.0, 0.0, float(str(rate))))
        assert repeats.is_repeat(sample) is (equal > MAX_EQUAL)


def test_gyro_refuses_what_cannot_be_and_recovers_from_a_stamp_of_the_future() -> None:
    counters = InputCounters()
    gyro = YawRateGyro(fresh_s=0.05, rest_s=1.0, counters=counters)
    for bad in (_sample(0, math.nan), _sample(0, 1e9), _sample(0, 0.1, saturated=True)):
        gyro.observe(bad)
    assert counters.ignored == 3
    gyro.observe(_sample(10**15, 0.5))
    assert gyro.take(5 * MS, standing=False) is None
    gyro.observe(_sample(6 * MS, 0.1))
    gyro.observe(_sample(6 * MS, 0.9))
    assert gyro.take(7 * MS, standing=False) == 6 * MS
    assert gyro.rate_radps(7 * MS) == pytest.approx(0.1)
    assert counters.late == 2
