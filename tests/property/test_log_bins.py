"""Constant-memory distributions against the exact figures."""

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vehicled.offline.analysis.bins import Distribution

DURATIONS = st.lists(st.integers(-(10**12), 10**12) | st.integers(-50, 50), min_size=1, max_size=60)


@given(
    st.lists(DURATIONS, min_size=1, max_size=5),
    st.sampled_from([0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0]),
)
def test_figures_are_those_of_all_parts_together(parts, share):
    distribution = Distribution()
    for part in parts:
        distribution.add(np.array(part, np.int64))
    values = sorted(value for part in parts for value in part)
    assert distribution.n == len(values)
    assert (distribution.min_ns, distribution.max_ns) == (values[0], values[-1])
    scale = max(abs(value) for value in values) + 1
    assert distribution.mean_ns == pytest.approx(statistics.fmean(values), abs=1e-9 * scale)
    assert distribution.sigma_ns == pytest.approx(statistics.pstdev(values), abs=1e-6 * scale)
    exact = values[max(math.ceil(share * len(values)), 1) - 1]
    # The width of a bin.
    assert distribution.quantile_ns(share) == pytest.approx(exact, rel=1 / 32, abs=1.0)


def test_nothing_counted_is_zero():
    distribution = Distribution()
    distribution.add(np.empty(0, np.int64))
    assert (
        distribution.n,
        distribution.mean_ns,
        distribution.sigma_ns,
        distribution.quantile_ns(0.5),
    ) == (0, 0.0, 0.0, 0.0)
