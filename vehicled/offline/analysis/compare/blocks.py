"""Statistics per block of time, in constant memory, for a block bootstrap.

Neighbouring samples of a drive are correlated, so resampling single samples would give intervals
that are far too narrow. Blocks longer than the system's memory may be taken as independent (Kuensch
1989; Lahiri 2003, chapter 2).
"""

from collections.abc import Sequence
from typing import Any, Protocol, Self

import numpy as np

from vehicled.core.arrays import Array
from vehicled.core.histogram import bin_of, bins_of

BINS = bin_of(2**40)
"""Number of bins: up to 18 minutes. The first bin stands for 0 and also counts negative values, the
last one longer durations."""


class Statistic(Protocol):
    """Metric of a run as a function of the weights of its blocks."""

    @property
    def n(self) -> int:
        """Number of samples."""
        ...

    def evaluate(self, runs: Sequence[Any], weights: Sequence[Array]) -> Array:
        """Return the metric (r,) over all runs of a side, from their statistics and weights (r,
        blocks); NaN if empty."""
        ...


class Counts:
    """Durations in ns, counted in logarithmic bins per block; the base of :class:`Quantile`."""

    def __init__(self, blocks: int) -> None:
        self.counts = np.zeros((blocks, BINS), np.int32)
        self._sums = np.zeros(BINS)

    def add(self, block: Any, values_ns: Any) -> None:
        """Count values (n,) of blocks (n,)."""
        if not len(values_ns):
            return
        values = np.maximum(values_ns, 0)
        bins = np.minimum(bins_of(values), BINS - 1)
        self._sums += np.bincount(bins, values, minlength=BINS)
        low, high = int(block.min()), int(block.max()) + 1
        found = np.bincount((block - low) * BINS + bins, minlength=(high - low) * BINS)
        self.counts[low:high] += found.reshape(high - low, BINS).astype(np.int32)

    @property
    def n(self) -> int:
        """Number of values."""
        return int(self.counts.sum())

    @property
    def sums(self) -> Array:
        """Return the sum of the values in each bin."""
        return self._sums


class Quantile:
    """A quantile of :class:`Counts`, in ns."""

    def __init__(self, counts: Counts, share: float, unit_ns: float) -> None:
        self._counts = counts
        self._share = share
        self._unit_ns = unit_ns

    @property
    def n(self) -> int:
        """Number of samples beyond the quantile, on its thinner side."""
        return round(self._counts.n * min(self._share, 1.0 - self._share))

    def evaluate(self, runs: Sequence["Quantile"], weights: Sequence[Array]) -> Array:
        """Return the mean of the bin that holds the quantile: exact if its values are equal, else
        to 1/32."""
        found = [run._counts for run in runs]
        in_bins = np.sum([counts.counts.sum(axis=0) for counts in found], axis=0)
        used = np.flatnonzero(in_bins)
        if not len(used):
            return np.full(len(weights[0]), np.nan)
        means = (
            np.sum([counts.sums[used] for counts in found], axis=0) / in_bins[used] / self._unit_ns
        )
        heights = np.zeros((len(weights[0]), len(used)))
        for counts, weight in zip(found, weights):
            heights += weight @ counts.counts[:, used].astype(np.float64)
        heights = np.cumsum(heights, axis=1)
        n = heights[:, -1]
        rank = np.maximum(np.ceil(self._share * n - 1e-9), 1.0)
        index = np.argmax(heights >= rank[:, None], axis=1)
        return np.where(n > 0, means[index], np.nan)


class Ratio:
    """Ratio of two sums: a mean, an RMS, a fraction."""

    def __init__(self, blocks: int, *, root: bool = False, scale: float = 1.0) -> None:
        """Take the square root if ``root``; multiply by ``scale`` to convert the unit."""
        self._sums = np.zeros((blocks, 2))
        self._root = root
        self._scale = scale
        self._n = 0

    @property
    def n(self) -> int:
        return self._n

    def add(self, block: Any, above: Any, below: Any = None) -> Self:
        """Add to numerator and denominator, each (n,) of blocks (n,); the denominator counts the
        samples by default."""
        blocks = len(self._sums)
        self._sums[:, 0] += np.bincount(block, above, minlength=blocks)
        self._sums[:, 1] += np.bincount(block, below, minlength=blocks)
        self._n += len(above)
        return self

    def evaluate(self, runs: Sequence["Ratio"], weights: Sequence[Array]) -> Array:
        totals = np.sum([weight @ run._sums for run, weight in zip(runs, weights)], axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = np.where(totals[:, 1] > 0, totals[:, 0] / totals[:, 1], np.nan)
        found: Array = (np.sqrt(ratio) if self._root else ratio) * self._scale
        return found
