"""Histograms of durations in constant memory: logarithmic bins, sixteen to the octave, exact below 32 ns."""

from collections.abc import Sequence

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
    """Counts of durations in ns, with exact mean and largest. Relative bin width at most 1/16."""

    __slots__ = ("counts", "max_ns", "sum_ns")

    def __init__(self) -> None:
        self.counts = [0] * BINS
        self.sum_ns = 0
        self.max_ns = -(2**63)

    def add(self, value_ns: int) -> None:
        """Count one duration. Runs several times for every release: nothing that can be worked out later is kept here."""
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
        """Durations counted."""
        return sum(self.counts)

    @property
    def mean_ns(self) -> float:
        """Mean; 0 when nothing was counted."""
        n = self.n
        return self.sum_ns / n if n else 0.0

    def quantiles_ns(self, shares: Sequence[float]) -> list[int]:
        """Values below which the given shares lie, to the width of a bin, never beyond the largest."""
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
