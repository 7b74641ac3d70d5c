"""Histograms of durations in constant memory: logarithmic bins, sixteen to the octave, exact below 32 ns."""

from collections.abc import Sequence

_SUB_BITS = 4
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


def lower_edge_ns(index: int) -> int:
    """Return the smallest duration of a bin."""
    if index < _EXACT:
        return index
    shift = (index >> _SUB_BITS) - 1
    return ((index & (_SUB - 1)) | _SUB) << shift


class Histogram:
    """Histogram of durations in ns, with exact mean and maximum. Relative bin width at most 1/16."""

    __slots__ = ("counts", "max_ns", "sum_ns")

    def __init__(self) -> None:
        self.counts = [0] * BINS
        self.sum_ns = 0
        self.max_ns = -(2**63)

    def add(self, value_ns: int) -> None:
        """Count one duration. Called several times per release, so it only does what cannot be derived later."""
        self.sum_ns += value_ns
        if value_ns > self.max_ns:
            self.max_ns = value_ns
        if value_ns < _EXACT:
            self.counts[value_ns if value_ns > 0 else 0] += 1
        else:
            shift = value_ns.bit_length() - _SUB_BITS - 1
            self.counts[(shift << _SUB_BITS) + (value_ns >> shift)] += 1

    @property
    def n(self) -> int:
        """Number of durations."""
        return sum(self.counts)

    @property
    def mean_ns(self) -> float:
        """Mean duration; 0 if empty."""
        n = self.n
        return self.sum_ns / n if n else 0.0

    def quantiles_ns(self, shares: Sequence[float]) -> list[int]:
        """Return the quantiles for the given fractions, to the width of a bin, never beyond the maximum."""
        n = self.n
        if not n:
            return [0] * len(shares)
        wanted = sorted(range(len(shares)), key=lambda i: shares[i])
        result = [self.max_ns] * len(shares)
        seen, at = 0, 0
        for index, count in enumerate(self.counts):
            if not count:
                continue
            seen += count
            while at < len(wanted) and seen >= shares[wanted[at]] * n:
                middle = (lower_edge_ns(index) + lower_edge_ns(index + 1) - 1) // 2
                result[wanted[at]] = min(middle, self.max_ns)
                at += 1
            if at == len(wanted):
                break
        return result
