"""Histograms of durations in constant memory: logarithmic bins, sixteen to the octave, exact below 32 ns."""

from collections.abc import Sequence
from math import sqrt

_SUB_BITS = 4
_SUB = 1 << _SUB_BITS
_EXACT = 2 * _SUB
BINS = (64 - _SUB_BITS) * _SUB
"""Number of bins; enough for every signed 64-bit duration."""


def bin_of(value_ns: int) -> int:
    """Bin of a duration. Negative durations count as zero."""
    if value_ns < _EXACT:
        return value_ns if value_ns > 0 else 0
    shift = value_ns.bit_length() - _SUB_BITS - 1
    return (shift << _SUB_BITS) + (value_ns >> shift)


def lower_edge_ns(index: int) -> int:
    """Smallest duration that falls into a bin."""
    if index < _EXACT:
        return index
    shift = (index >> _SUB_BITS) - 1
    return ((index & (_SUB - 1)) | _SUB) << shift


class Histogram:
    """Counts of durations in ns, with exact number, sum, sum of squares and extremes. Relative bin width at most 1/16."""

    __slots__ = ("counts", "max_ns", "min_ns", "n", "sum_ns", "sum_squares")

    def __init__(self) -> None:
        self.counts = [0] * BINS
        self.n = 0
        self.sum_ns = 0
        self.sum_squares = 0
        self.min_ns = 2**63 - 1
        self.max_ns = -(2**63)

    def add(self, value_ns: int) -> None:
        """Count one duration."""
        self.n += 1
        self.sum_ns += value_ns
        self.sum_squares += value_ns * value_ns
        if value_ns > self.max_ns:
            self.max_ns = value_ns
        if value_ns < self.min_ns:
            self.min_ns = value_ns
        if value_ns < _EXACT:
            self.counts[value_ns if value_ns > 0 else 0] += 1
        else:
            shift = value_ns.bit_length() - _SUB_BITS - 1
            self.counts[(shift << _SUB_BITS) + (value_ns >> shift)] += 1

    @property
    def mean_ns(self) -> float:
        """Mean; 0 when nothing was counted."""
        return self.sum_ns / self.n if self.n else 0.0

    @property
    def sigma_ns(self) -> float:
        """Standard deviation of the population."""
        if not self.n:
            return 0.0
        # Integers until the last division: no cancellation for long runs of nearly equal values.
        return sqrt(max(0, self.n * self.sum_squares - self.sum_ns * self.sum_ns)) / self.n

    def quantiles_ns(self, shares: Sequence[float]) -> list[int]:
        """Values below which the given shares lie, to the width of a bin, never beyond the true extremes."""
        if not self.n:
            return [0] * len(shares)
        wanted = sorted(range(len(shares)), key=lambda i: shares[i])
        result = [self.max_ns] * len(shares)
        seen, at = 0, 0
        for index, count in enumerate(self.counts):
            if not count:
                continue
            seen += count
            while at < len(wanted) and seen >= shares[wanted[at]] * self.n:
                middle = (lower_edge_ns(index) + lower_edge_ns(index + 1) - 1) // 2
                result[wanted[at]] = min(max(middle, self.min_ns), self.max_ns)
                at += 1
            if at == len(wanted):
                break
        return result
