"""Histograms of durations in constant memory. Result, timing, report and comparison share its bins,
so a p99 is the same in all.

The bins are logarithmic, 32 to the octave, and exact below 64 ns. A quantile is the mean of the
durations in its bin: exact if they are equal, else to 1/32.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

_SUB_BITS = 5
_SUB = 1 << _SUB_BITS
_EXACT = 2 * _SUB
BINS = (64 - _SUB_BITS) * _SUB
"""Number of bins; enough for every signed 64-bit duration."""


def bin_of(value_ns: int) -> int:
    """Return the bin of a duration. Negative durations count as zero."""
    if value_ns < _EXACT:
        return value_ns if value_ns > 0 else 0
    shift = value_ns.bit_length() - _SUB_BITS - 1
    return (shift << _SUB_BITS) + (value_ns >> shift)


def bins_of(values_ns: Any) -> Any:
    """Return the bins of durations (n,), int64, below 2^53 ns."""
    values = np.maximum(values_ns, 0)
    shift = np.maximum(np.frexp(values.astype(np.float64))[1].astype(np.int64) - _SUB_BITS - 1, 0)
    return (shift << _SUB_BITS) + (values >> shift)


def lower_edge_ns(index: int) -> int:
    """Return the smallest duration of a bin."""
    if index < _EXACT:
        return index
    shift = (index >> _SUB_BITS) - 1
    return ((index & (_SUB - 1)) | _SUB) << shift


def quantile(counts: Any, sums: Any, share: float) -> float:
    """Return a quantile from the counts and the sums of ordered bins: the mean of the bin that
    holds it; 0 if all are empty."""
    above = np.cumsum(counts)
    if not above[-1]:
        return 0.0
    index = int(np.searchsorted(above, max(math.ceil(share * int(above[-1]) - 1e-9), 1)))
    return float(sums[index] / counts[index])


class Histogram:
    """Histogram of durations in ns, filled one by one, with exact mean and maximum. Negative
    durations count as zero."""

    __slots__ = ("counts", "max_ns", "sums_ns")

    def __init__(self) -> None:
        self.counts = [0] * BINS
        self.sums_ns = [0] * BINS
        self.max_ns = -(2**63)

    def add(self, value_ns: int) -> None:
        """Count one duration. Called several times per release, so it only does what cannot be
        derived later."""
        if value_ns > self.max_ns:
            self.max_ns = value_ns
        if value_ns < _EXACT:
            index = value_ns if value_ns > 0 else 0
        else:
            shift = value_ns.bit_length() - _SUB_BITS - 1
            index = (shift << _SUB_BITS) + (value_ns >> shift)
        self.counts[index] += 1
        self.sums_ns[index] += value_ns

    @property
    def n(self) -> int:
        """Number of durations."""
        return sum(self.counts)

    @property
    def mean_ns(self) -> float:
        """Mean duration; 0 if empty."""
        n = self.n
        return sum(self.sums_ns) / n if n else 0.0

    def quantiles_ns(self, shares: Sequence[float]) -> list[int]:
        """Return the quantiles for the given fractions."""
        counts, sums = np.array(self.counts), np.array(self.sums_ns, np.float64)
        return [round(quantile(counts, sums, share)) for share in shares]
