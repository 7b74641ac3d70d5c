"""The clock of a device in one situation at a time. Times are made by hand; nothing here is
random."""

import pytest

from vehicled.core.wire.clock import DeviceClock

MS = 1_000_000
S = 1_000 * MS


def feed(
    clock: DeviceClock,
    begin: int,
    samples: int,
    t0_ns: int,
    period_ns: int = 10 * MS,
    late_ns: int = 0,
) -> list[int]:
    """Samples of a counter in microseconds that starts at ``begin``; the n-th is valid at t0 + n
    periods and ``late_ns`` late."""
    return [
        clock.update(
            begin + index * period_ns // 1_000,
            t0_ns + index * period_ns + late_ns + (index % 7) * MS,
        )
        for index in range(samples)
    ]


def settled(bits: int | None = 32, begin: int = 5_000, **options: int) -> DeviceClock:
    clock = DeviceClock(tick_ns=1_000.0, bits=bits, **options)
    feed(clock, begin, 1_000, 100 * S)
    return clock


def test_the_first_sample_is_as_old_as_the_least_latency() -> None:
    clock = DeviceClock(tick_ns=1_000.0, bits=32, latency_ns=3 * MS)
    assert clock.update(123_456, 50 * S) == 50 * S - 3 * MS


def test_jitter_is_removed_and_the_least_latency_taken_off() -> None:
    clock = settled(latency_ns=2 * MS)
    times = feed(clock, 5_000 + 10_000_000, 700, 110 * S)
    assert times == [110 * S - 2 * MS + index * 10 * MS for index in range(700)]
    assert clock.rate_ppm == pytest.approx(0.0, abs=0.01)
    assert clock.offset_ns == 100 * S - 2 * MS - 5 * MS
    assert clock.resets == 0


def test_the_rate_is_learnt() -> None:
    clock = DeviceClock(tick_ns=1_000.0, bits=32)
    for index in range(6_000):
        clock.update(index * 10_000, 100 * S + index * 10_001_500 + (index % 7) * MS)
    assert clock.rate_ppm == pytest.approx(150.0, abs=1.0)


@pytest.mark.parametrize("bits", [16, 24, 32, None])
def test_wraps_are_no_events(bits: int | None) -> None:
    """A counter of milliseconds; 16 bits of it wrap after 65 s."""
    clock = DeviceClock(tick_ns=1e6, bits=bits)
    modulus = 1 << (bits or 64)
    for index in range(20_000):
        counter = (2 ** (bits or 40) - 500 + index * 10) % modulus
        assert clock.update(counter, 100 * S + index * 10 * MS) == 100 * S + index * 10 * MS
    assert clock.resets == 0


def test_a_counter_may_wrap_at_any_number() -> None:
    """GNSS time of week, in ms."""
    clock = DeviceClock(tick_ns=1e6, bits=None, modulus=604_800_000)
    for index in range(100):
        assert (
            clock.update((604_795_000 + index * 100) % 604_800_000, index * 100 * MS)
            == index * 100 * MS
        )
    assert clock.resets == 0


@pytest.mark.parametrize("gap_s", [1, 20, 29, 31, 70, 600, 3_600])
def test_a_gap_of_any_length_leaves_the_mapping_as_it_was(gap_s: int) -> None:
    """16 bits of milliseconds wrap every 65 s, so in the longer gaps unseen."""
    clock = DeviceClock(tick_ns=1e6, bits=16)
    for index in range(1_000):
        clock.update(index * 10 % 65_536, 100 * S + index * 10 * MS + (index % 7) * MS)
    for index in range(500):
        counter = (9_990 + gap_s * 1_000 + index * 10) % 65_536
        t_ns = 109_990 * MS + gap_s * S + index * 10 * MS
        assert clock.update(counter, t_ns + (index % 5) * 3 * MS) == t_ns
    assert clock.resets == 0


@pytest.mark.parametrize("bits", [16, 32, None])
def test_a_stalled_host_gets_the_times_of_validity_of_what_waited(bits: int | None) -> None:
    clock = DeviceClock(tick_ns=1e6, bits=bits)
    for index in range(2_000):
        t_ns = 100 * S + index * 10 * MS
        t_rx_ns = 115 * S if 110 * S < t_ns < 115 * S else t_ns + (index % 7) * MS
        assert clock.update(index * 10 % (1 << (bits or 64)), t_rx_ns) == t_ns
    assert clock.resets == 0


@pytest.mark.parametrize("bits", [24, 32, None])
def test_a_restarted_device_is_noticed_and_meanwhile_arrival_counts(bits: int | None) -> None:
    clock = settled(bits, begin=7_000_000)
    times = feed(clock, 20, 1_000, 112 * S)
    assert clock.resets == 1
    assert all(
        0 <= t_ns - (112 * S + index * 10 * MS) <= 6 * MS for index, t_ns in enumerate(times)
    )
    assert times[20:] == [112 * S + index * 10 * MS for index in range(20, 1_000)]


@pytest.mark.parametrize("jump_us", [2_500_000, -2_500_000, 150_000, -150_000])
def test_a_device_clock_that_is_set_is_followed(jump_us: int) -> None:
    clock = settled()
    times = feed(clock, 5_000 + 10_000_000 + jump_us, 600, 110 * S)
    assert clock.resets == 1
    assert times[450:] == [110 * S + index * 10 * MS for index in range(450, 600)]


@pytest.mark.parametrize(
    "damaged", [0, 3, 2**31, 2**32 - 1, 15_005_000 + 600_000, 15_005_000 - 600_000]
)
def test_a_damaged_counter_harms_its_own_sample_only(damaged: int) -> None:
    clock = settled()
    feed(clock, 10_005_000, 500, 110 * S)
    assert 115 * S - 2 * S < clock.update(damaged, 115 * S) <= 115 * S
    times = feed(clock, 15_015_000, 500, 115 * S + 10 * MS)
    assert times == [115 * S + (index + 1) * 10 * MS for index in range(500)]
    assert clock.resets == 0


def test_a_sample_repeated_or_out_of_order_is_mapped_by_its_counter() -> None:
    clock = settled()
    assert clock.update(10_005_000, 110 * S) == 110 * S
    assert clock.update(10_005_000, 110 * S + 4 * MS) == 110 * S
    assert clock.update(10_000_000, 110 * S + 5 * MS) == 110 * S - 5 * MS
    assert clock.update(10_006_000, 110 * S + 6 * MS) == 110 * S + MS
    assert clock.resets == 0


def test_a_late_start_is_corrected_by_the_first_arrival_in_time() -> None:
    clock = DeviceClock(tick_ns=1e6, bits=32)
    assert clock.update(1_000, 10 * S + 500 * MS) == 10 * S + 500 * MS
    assert clock.update(1_010, 10 * S + 500 * MS) == 10 * S + 500 * MS
    assert [clock.update(1_500 + index, 10 * S + (500 + index) * MS) for index in range(5)] == [
        10 * S + (500 + index) * MS for index in range(5)
    ]
    assert clock.update(1_520, 10 * S + 700 * MS) == 10 * S + 520 * MS
    assert clock.resets == 0


def test_damaged_counters_now_and_then_do_not_add_up() -> None:
    clock = settled()
    for index in range(50):
        clock.update(7, 110 * S + index * 10 * MS)
        assert (
            clock.update(10_005_000 + index * 10_000, 110 * S + index * 10 * MS)
            == 110 * S + index * 10 * MS
        )
    assert clock.resets == 0


def test_a_host_that_stalls_again_and_again_is_not_taken_for_a_device_that_lost_time() -> None:
    """Every arrival of 10 s is late by another amount; after a window of that, arrivals count as
    they come."""
    clock = settled()
    for index in range(5_000):
        t_ns = 110 * S + index * 10 * MS
        found = clock.update(
            10_005_000 + index * 10_000, t_ns + (150 + index // 100 % 2 * 200) * MS
        )
        if index < 1_000:
            assert found == t_ns
    assert found - t_ns == 150 * MS
    assert 1 <= clock.resets <= 2, (
        "up to the block at the end of the window, and from there down to the earliest"
    )


def test_a_long_gap_is_longer_than_the_memory_of_the_offset() -> None:
    """A crystal drifts by 10 ms and more in two hours, however well its rate was known."""
    clock = settled()
    times = feed(clock, 5_000 + 7_200_000_000, 500, 7_300 * S + 20 * MS)
    assert times[200:] == [7_300 * S + 20 * MS + index * 10 * MS for index in range(200, 500)]
    assert clock.resets == 0


def test_a_counter_that_runs_backwards_gives_no_rate() -> None:
    clock = DeviceClock(tick_ns=1e6, bits=None, window_ns=32)
    for t_ms, counter in enumerate([0, 5, 3, 2, 1, 0, 0, 0]):
        for index in range(9 if t_ms == 0 else 8):
            assert clock.update(counter, t_ms * MS + index) <= t_ms * MS + index
    assert clock.rate_ppm == 0.0


@pytest.mark.parametrize(
    "options",
    [
        {"bits": 0},
        {"bits": 65},
        {"bits": 32, "modulus": 1_000},
        {"bits": None, "modulus": 1},
        {"bits": 32, "tick_ns": 0.0},
        {"bits": 32, "tick_ns": float("nan")},
        {"bits": 32, "tick_ns": 1e13},
        {"bits": 32, "latency_ns": -1},
        {"bits": 32, "window_ns": 0},
    ],
)
def test_what_cannot_be_a_clock_is_refused(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"bits|modulus|tick|window"):
        DeviceClock(**{"tick_ns": 1_000.0, **options})  # type: ignore[arg-type]


def test_a_counter_near_the_newest_is_mapped_without_learning() -> None:
    clock = DeviceClock(tick_ns=1000.0, bits=32)
    assert clock.time_of(5) is None
    begin = 2**32 - 400_000
    times = feed(clock, begin, 100, 10**9)
    newest = (begin + 99 * 10_000) % 2**32
    before, resets = clock.time_of(newest), clock.resets
    assert before == times[-1]
    # A receiver's stamp lies 150 ms before, on the other side of the wrap.
    assert clock.time_of((begin + 84 * 10_000) % 2**32) == pytest.approx(times[84], abs=1000)
    assert clock.time_of((newest + 5_000) % 2**32) == pytest.approx(times[-1] + 5_000_000, abs=1000)
    assert (clock.time_of(newest), clock.resets) == (before, resets)
