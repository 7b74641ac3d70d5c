"""Counters of the filters: gates count apart, nothing overflows, and every queue counts into its
filter."""

import pytest

from vehicled.core.messages import ImuSample
from vehicled.estimation.counters import (
    GATES,
    MAX_REJECTED,
    MAX_STRIKES,
    GateCounters,
    InputCounters,
)
from vehicled.estimation.gyro import YawRateGyro
from vehicled.estimation.ins.inertial import Queue
from vehicled.estimation.planar.inputs import GyroHistory


def test_a_rejection_counts_at_its_own_gate_and_an_acceptance_ends_it() -> None:
    counters = GateCounters(newest_ns=5).reject(2).reject(2).reject(3)
    assert (counters.rejected, counters.strikes[2], counters.strikes[3], sum(counters.strikes)) == (
        3,
        2,
        1,
        3,
    )
    counters = counters.accept(2, 4)
    assert (counters.rejected, counters.strikes[2], counters.strikes[3], counters.newest_ns) == (
        3,
        0,
        1,
        5,
    )
    assert counters.accept(2, 9).newest_ns == 9
    assert counters.accept(2) is counters


def test_counts_stay_within_the_fields_of_the_estimate() -> None:
    counters = GateCounters(rejected=MAX_REJECTED, strikes=(MAX_STRIKES,) * GATES).reject(0)
    assert (counters.rejected, counters.strikes[0]) == (MAX_REJECTED, MAX_STRIKES)


@pytest.mark.parametrize("kind", ["ekf4", "planar", "ins"])
def test_samples_of_the_inertial_unit_count_in_their_filter(kind: str) -> None:
    counters = InputCounters()
    add = {
        "ekf4": YawRateGyro(0.1, 1.0, counters).observe,
        "planar": GyroHistory(10**9, 10**8, counters).append,
        "ins": Queue(0.1, counters).observe,
    }[kind]
    for t_ns, rate in ((10, 0.1), (10, 0.1), (5, 0.1), (20, 1e6)):
        add(ImuSample(t_ns, t_ns, (0.0, 0.0, 9.8), (0.0, 0.0, rate)))
    assert (counters.late, counters.ignored) == (2, 1)
