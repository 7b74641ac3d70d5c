"""Distributions of durations in constant memory, filled from arrays: moments, extremes, and the
histogram's bins of both signs."""

import math
from typing import Any

import numpy as np

from vehicled.core.histogram import BINS, bins_of, quantile


class Distribution:
    """Distribution of durations in ns, which may be negative: count, mean, sigma, extremes,
    quantiles."""

    def __init__(self) -> None:
        self.n = 0
        self._mean = 0.0
        self._m2 = 0.0
        self.min_ns = 0
        self.max_ns = 0
        self._counts = np.zeros(2 * BINS - 1, np.int64)
        self._sums = np.zeros(2 * BINS - 1)

    def add(self, values_ns: Any) -> None:
        """Count an array of shape (n,), int64."""
        n = len(values_ns)
        if not n:
            return
        values = values_ns.astype(np.float64)
        mean = float(values.mean())
        m2 = float(np.square(values - mean).sum())
        # Chan, Golub, LeVeque 1983: moments of two parts combined without cancellation.
        delta, total = mean - self._mean, self.n + n
        self._m2 += m2 + delta * delta * self.n * n / total
        self._mean += delta * n / total
        low, high = int(values_ns.min()), int(values_ns.max())
        self.min_ns = min(self.min_ns, low) if self.n else low
        self.max_ns = max(self.max_ns, high) if self.n else high
        self.n = total
        size = bins_of(np.abs(values_ns))
        index = BINS - 1 + np.where(values_ns < 0, -size, size)
        self._counts += np.bincount(index, minlength=len(self._counts))
        self._sums += np.bincount(index, values, minlength=len(self._sums))

    @property
    def mean_ns(self) -> float:
        """Mean duration; 0 if empty."""
        return self._mean

    @property
    def sigma_ns(self) -> float:
        """Standard deviation of the population."""
        return math.sqrt(self._m2 / self.n) if self.n else 0.0

    def quantile_ns(self, share: float) -> float:
        """Return a quantile, or 0 if nothing was counted."""
        return quantile(self._counts, self._sums, share)

    @property
    def counts(self) -> Any:
        """Counts (n,) of the durations from 0, by the bins of :mod:`vehicled.core.histogram`."""
        return self._counts[BINS - 1 :]
