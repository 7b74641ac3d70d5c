"""Statistics kept per block of time, so that a block bootstrap can weigh the blocks anew: counts and sums, in constant memory.

Neighbouring samples of a drive resemble each other: resampling single ones would promise intervals that are far too narrow.
Blocks that are longer than the memory of the system may be taken as independent (Kuensch 1989; Lahiri 2003, chapter 2).
"""

from collections.abc import Sequence
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

PER_OCTAVE = 32
"""Relative width of a bin: 2.2 %."""
BINS = 40 * PER_OCTAVE
"""From 1 ns to 18 minutes. What is below, zero and negative values too, counts in the first, which stands for 0."""


class Statistic(Protocol):
    """A number of a run, as a function of how often each of its blocks counts."""

    @property
    def n(self) -> int:
        """Samples behind it."""
        ...

    def evaluate(self, runs: Sequence[Any], weights: Sequence[Array]) -> Array:
        """The number (r,) over all runs of a side, from their statistics of this kind and their weights (r, blocks); NaN where
        nothing was counted."""
        ...


class Counts:
    """Durations in ns, counted in logarithmic bins per block: behind the quantiles."""

    def __init__(self, blocks: int) -> None:
        self.counts = np.zeros((blocks, BINS), np.int32)
        self._sums = np.zeros(BINS)

    def add(self, block: Any, values_ns: Any) -> None:
        """Count values (n,) of blocks (n,)."""
        if not len(values_ns):
            return
        values = np.maximum(values_ns.astype(np.float64), 0.0)
        bins = np.minimum(np.log2(np.maximum(values, 1.0)) * PER_OCTAVE, BINS - 1.0).astype(np.int64)
        self._sums += np.bincount(bins, values, minlength=BINS)
        low, high = int(block.min()), int(block.max()) + 1
        found = np.bincount((block - low) * BINS + bins, minlength=(high - low) * BINS)
        self.counts[low:high] += found.reshape(high - low, BINS).astype(np.int32)

    @property
    def n(self) -> int:
        """Values counted."""
        return int(self.counts.sum())

    @property
    def sums(self) -> Array:
        """Sum of the values in each bin."""
        return self._sums


class Quantile:
    """A quantile of :class:`Counts`, in ns."""

    def __init__(self, counts: Counts, share: float, unit_ns: float) -> None:
        self._counts = counts
        self._share = share
        self._unit_ns = unit_ns

    @property
    def n(self) -> int:
        """Values beyond the quantile, on its thinner side: what it rests on."""
        return round(self._counts.n * min(self._share, 1.0 - self._share))

    def evaluate(self, runs: Sequence["Quantile"], weights: Sequence[Array]) -> Array:
        """Mean of the values in the bin that the quantile lies in: exact where a bin holds one value, else to 1.1 %."""
        found = [run._counts for run in runs]
        in_bins = np.sum([counts.counts.sum(axis=0) for counts in found], axis=0)
        used = np.flatnonzero(in_bins)
        if not len(used):
            return np.full(len(weights[0]), np.nan)
        means = np.sum([counts.sums[used] for counts in found], axis=0) / in_bins[used] / self._unit_ns
        heights = np.zeros((len(weights[0]), len(used)))
        for counts, weight in zip(found, weights):
            heights += weight @ counts.counts[:, used].astype(np.float64)
        heights = np.cumsum(heights, axis=1)
        n = heights[:, -1]
        rank = np.maximum(np.ceil(self._share * n - 1e-9), 1.0)
        index = np.argmax(heights >= rank[:, None], axis=1)
        return np.where(n > 0, means[index], np.nan)


class Ratio:
    """A sum over a sum: a mean, a root mean square, a share."""

    def __init__(self, blocks: int, *, root: bool = False, scale: float = 1.0) -> None:
        """``root``: the root of it. ``scale``: of the result, for its unit."""
        self._sums = np.zeros((blocks, 2))
        self._root = root
        self._scale = scale
        self._n = 0

    @property
    def n(self) -> int:
        """Samples behind it."""
        return self._n

    def add(self, block: Any, above: Any, below: Any = None) -> Self:
        """Add to numerator and denominator, each (n,) of blocks (n,); the denominator counts the samples by default."""
        blocks = len(self._sums)
        self._sums[:, 0] += np.bincount(block, above, minlength=blocks)
        self._sums[:, 1] += np.bincount(block, below, minlength=blocks)
        self._n += len(above)
        return self

    def evaluate(self, runs: Sequence["Ratio"], weights: Sequence[Array]) -> Array:
        """The ratio of the sums over all runs."""
        totals = np.sum([weight @ run._sums for run, weight in zip(runs, weights)], axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = np.where(totals[:, 1] > 0, totals[:, 0] / totals[:, 1], np.nan)
        found: Array = (np.sqrt(ratio) if self._root else ratio) * self._scale
        return found
