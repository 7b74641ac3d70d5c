"""Histograms against numpy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vehicled.core.histogram import BINS, Histogram, bin_of, bins_of, lower_edge_ns
from vehicled.offline.analysis.bins import Distribution


@given(st.integers(0, 2**62))
def test_a_value_lies_within_the_edges_of_its_bin(value: int) -> None:
    index = bin_of(value)
    assert 0 <= index < BINS
    assert lower_edge_ns(index) <= value < lower_edge_ns(index + 1)


@given(st.lists(st.integers(0, 2**53 - 1) | st.integers(0, 200), min_size=1, max_size=50))
def test_arrays_and_single_durations_share_their_bins_and_quantiles(values: list[int]) -> None:
    """One run shows one p99, whoever counts."""
    assert bins_of(np.array(values)).tolist() == [bin_of(value) for value in values]
    histogram, distribution = Histogram(), Distribution()
    for value in values:
        histogram.add(value)
    distribution.add(np.array(values))
    for share in (0.5, 0.99, 1.0):
        assert histogram.quantiles_ns([share])[0] == pytest.approx(
            distribution.quantile_ns(share), rel=1e-12, abs=0.6
        )


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=300))
def test_figures_agree_with_numpy(values: list[int]) -> None:
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    assert histogram.n == len(values) == sum(histogram.counts)
    assert histogram.max_ns == max(values)
    assert histogram.mean_ns == pytest.approx(np.mean(values), rel=1e-12)
    shares = [0.5, 0.9, 0.99, 1.0]
    exact = np.quantile(values, shares, method="inverted_cdf")
    for got, want in zip(histogram.quantiles_ns(shares), exact, strict=True):
        assert abs(got - want) <= max(1, want / 32)


def test_an_empty_histogram_has_no_figures() -> None:
    assert Histogram().quantiles_ns([0.5]) == [0]
    assert Histogram().mean_ns == 0.0


def test_negative_durations_fall_into_the_first_bin_but_keep_their_extreme() -> None:
    histogram = Histogram()
    histogram.add(-5)
    assert histogram.counts[0] == 1
    assert histogram.max_ns == -5
