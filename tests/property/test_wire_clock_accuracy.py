"""The clock of a device under jitter, outliers, drift and restarts, and under numbers that mean
nothing at all."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from vehicled.core.wire.clock import DeviceClock

MS = 1_000_000
S = 1_000 * MS


@dataclass(frozen=True)
class Sample:
    counter: int
    t_rx_ns: int
    floor_ns: int
    """Arrival with the least latency: the best that anyone could say."""


def device(
    rng: random.Random,
    seconds: float,
    *,
    begin_ns: int = 0,
    first: int = 0,
    rate_hz: float = 100.0,
    tick_ns: float = 1_000.0,
    modulus: int = 2**32,
    drift: float = 0.0,
    uniform: bool = True,
    outliers: float = 0.01,
    gaps: bool = False,
) -> Iterator[Sample]:
    """A device whose clock is slow by ``drift``. Its samples arrive in order, behind a floor of 3
    ms, up to 20 ms of jitter (uniform or mostly small) and, one in 100, 500 ms, for which the next
    ones wait. ``gaps`` are silences of up to 40 s."""
    newest_rx = device_ns = silence_ns = 0
    for _ in range(int(seconds * rate_hz)):
        device_ns += int(S / rate_hz)
        if gaps and rng.random() < 0.1 / rate_hz:
            silence_ns = rng.randrange(40 * S)
            device_ns += silence_ns
        count = int(device_ns / tick_ns)
        floor_ns = begin_ns + int(count * tick_ns * (1.0 + drift)) + 3 * MS
        jitter = rng.uniform(0.0, 20e6) if uniform else min(rng.expovariate(1 / 5e6), 20e6)
        if rng.random() < outliers:
            jitter += 500e6
        newest_rx = max(newest_rx, floor_ns + int(jitter))
        yield Sample((first + count) % modulus, newest_rx, floor_ns)


counters = st.sampled_from(
    [
        (1e6, 2**16),
        (1_000.0, 2**24),
        (1_000.0, 2**32),
        (100_000.0, 2**32),
        (20.83, 2**32),
        (1.0, 2**64),
    ]
)


@given(
    seed=st.integers(0, 2**32),
    drift_ppm=st.floats(-200.0, 200.0),
    rate_hz=st.sampled_from([20.0, 50.0, 100.0]),
    counter=counters,
    first=st.integers(0, 2**64 - 1),
    uniform=st.booleans(),
    begin_ns=st.integers(0, 10**18),
)
def test_validity_is_known_to_two_milliseconds(
    seed: int,
    drift_ppm: float,
    rate_hz: float,
    counter: tuple[float, int],
    first: int,
    uniform: bool,
    begin_ns: int,
) -> None:
    rng = random.Random(seed)
    tick_ns, modulus = counter
    clock = DeviceClock(tick_ns=tick_ns, bits=modulus.bit_length() - 1, latency_ns=3 * MS)
    newest_ns = None
    samples = device(
        rng, 60.0, begin_ns=begin_ns, first=first, rate_hz=rate_hz, tick_ns=tick_ns,
        modulus=modulus, uniform=uniform, drift=drift_ppm * 1e-6,
    )  # fmt: skip
    for number, sample in enumerate(samples):
        t_ns = clock.update(sample.counter, sample.t_rx_ns)
        assert t_ns <= sample.t_rx_ns - 3 * MS
        assert newest_ns is None or t_ns >= newest_ns
        newest_ns = t_ns
        if number > 10 * rate_hz:
            assert abs(t_ns - (sample.floor_ns - 3 * MS)) < 2 * MS + tick_ns
    assert clock.resets == 0
    assert abs(clock.rate_ppm - drift_ppm) < 60.0


@given(
    seed=st.integers(0, 2**32), drift_ppm=st.sampled_from([-10_000.0, -1_000.0, 1_000.0, 10_000.0])
)
@examples(20)
def test_a_device_without_a_crystal_is_followed_as_well(seed: int, drift_ppm: float) -> None:
    clock = DeviceClock(tick_ns=1_000.0, bits=32)
    for number, sample in enumerate(device(random.Random(seed), 40.0, drift=drift_ppm * 1e-6)):
        t_ns = clock.update(sample.counter, sample.t_rx_ns)
        if number > 3_000:
            assert abs(t_ns - sample.floor_ns) < 5 * MS
    assert clock.resets == 0


@given(
    seed=st.integers(0, 2**32),
    drift_ppm=st.floats(-200.0, 200.0),
    modulus=st.sampled_from([2**16, 2**24, 2**32]),
)
@examples(30)
def test_gaps_cost_no_more_than_the_drift_over_them(
    seed: int, drift_ppm: float, modulus: int
) -> None:
    rng = random.Random(seed)
    clock = DeviceClock(tick_ns=1e6, bits=modulus.bit_length() - 1)
    newest_ns = since_gap = last_ns = resets = 0
    for number, sample in enumerate(
        device(rng, 90.0, tick_ns=1e6, modulus=modulus, drift=drift_ppm * 1e-6, gaps=True)
    ):
        t_ns = clock.update(sample.counter, sample.t_rx_ns)
        assert newest_ns <= t_ns <= sample.t_rx_ns
        newest_ns = t_ns
        since_gap = 0 if sample.floor_ns - last_ns > 100 * MS else since_gap + 1
        last_ns = sample.floor_ns
        if number == 1_000:
            resets = clock.resets
            assert resets <= 1, "one, where all of the very first samples were late"
        if number > 1_000:
            assert abs(t_ns - sample.floor_ns) < (3 if since_gap > 500 else 12) * MS
    assert clock.resets == resets


@given(
    seed=st.integers(0, 2**32),
    drift_ppm=st.floats(-200.0, 200.0),
    bits=st.sampled_from([24, 32, None]),
)
@examples(30)
def test_restarts_are_counted_and_survived(seed: int, drift_ppm: float, bits: int | None) -> None:
    rng = random.Random(seed)
    clock = DeviceClock(tick_ns=1_000.0, bits=bits)
    begin_ns = 0
    for life in range(3):
        samples = device(
            rng,
            15.0,
            begin_ns=begin_ns,
            drift=drift_ppm * 1e-6,
            modulus=1 << (bits or 64),
            outliers=0.002,
        )
        for number, sample in enumerate(samples):
            t_ns = clock.update(sample.counter, sample.t_rx_ns)
            assert t_ns <= sample.t_rx_ns
            if number > 1_000:
                assert abs(t_ns - sample.floor_ns) < 3 * MS
            elif life and number > 200 and sample.t_rx_ns - sample.floor_ns < 20 * MS:
                assert abs(t_ns - sample.floor_ns) < 30 * MS
        assert clock.resets == life
        # Not a whole number of periods of 24 bits later: there the counter would go on as if
        # nothing had been.
        begin_ns += rng.choice((0, 5)) * 16_777_216_000 + rng.randrange(18 * S, 32 * S)


anything = st.one_of(
    st.integers(), st.integers(-(2**70), 2**70), st.integers(0, 2**32), st.integers(0, 1000)
)


@given(
    tick_ns=st.floats(1e-3, 1e12),
    bits=st.one_of(st.none(), st.integers(1, 64)),
    latency_ns=st.integers(0, 10**9),
    window_ns=st.integers(1, 10**12),
    samples=st.lists(st.tuples(anything, anything), max_size=100),
    steps=st.lists(st.tuples(st.integers(-2000, 2000), st.integers(-(10**7), 10**8)), max_size=100),
)
def test_no_numbers_raise_and_nothing_is_later_than_its_arrival(
    tick_ns: float,
    bits: int | None,
    latency_ns: int,
    window_ns: int,
    samples: list[tuple[int, int]],
    steps: list[tuple[int, int]],
) -> None:
    clock, again = (
        DeviceClock(tick_ns=tick_ns, bits=bits, latency_ns=latency_ns, window_ns=window_ns)
        for _ in range(2)
    )
    counter = t_rx_ns = 0
    for counter_step, t_step_ns in steps:
        counter += counter_step
        t_rx_ns += t_step_ns
        samples.append((counter, t_rx_ns))
    for counter, t_rx_ns in samples:
        t_ns = clock.update(counter, t_rx_ns)
        assert type(t_ns) is int
        assert t_ns <= t_rx_ns - latency_ns
        assert t_ns == again.update(counter, t_rx_ns), "not a function of its input"
        assert abs(clock.rate_ppm) <= 20_000.0
        assert type(clock.offset_ns) is int


@given(
    tick_ns=st.sampled_from([1.0, 1e3, 1e6]),
    steps=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**9)), max_size=300),
    window_ns=st.sampled_from([10**6, 10**9, 3 * 10**10]),
)
def test_monotone_for_a_counter_that_never_goes_back(
    tick_ns: float, steps: list[tuple[int, int]], window_ns: int
) -> None:
    clock = DeviceClock(tick_ns=tick_ns, bits=None, window_ns=window_ns)
    counter = t_rx_ns = newest_ns = 0
    for counter_step, t_step_ns in steps:
        counter += counter_step
        t_rx_ns += t_step_ns
        t_ns = clock.update(counter, t_rx_ns)
        assert newest_ns <= t_ns <= t_rx_ns
        newest_ns = t_ns
