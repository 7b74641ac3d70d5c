"""Histograms of durations in constant memory, filled from arrays: moments, extremes, logarithmic bins of both signs."""

import math
from typing import Any

import numpy as np

PER_OCTAVE = 32
"""Bins per factor of two: relative width 2.2 %."""
_ZERO = 64 * PER_OCTAVE


class Distribution:
    """Distribution of durations in ns, which may be negative: count, mean, sigma, extremes, quantiles."""

    def __init__(self) -> None:
        self.n = 0
        self._mean = 0.0
        self._m2 = 0.0
        self.min_ns = 0
        self.max_ns = 0
        self._counts = np.zeros(2 * _ZERO + 1, np.int64)

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
        size = np.abs(values)
        distance = np.where(size >= 1.0, np.log2(np.maximum(size, 1.0)) * PER_OCTAVE + 1.0, 0.0).astype(np.int64)
        self._counts += np.bincount(_ZERO + np.where(values < 0, -distance, distance), minlength=len(self._counts))

    @property
    def mean_ns(self) -> float:
        """Mean duration; 0 if empty."""
        return self._mean

    @property
    def sigma_ns(self) -> float:
        """Standard deviation of the population."""
        return math.sqrt(self._m2 / self.n) if self.n else 0.0

    def quantile_ns(self, share: float) -> float:
        """Return a quantile, to half the width of a bin and never beyond the extremes."""
        if not self.n:
            return 0.0
        rank = max(math.ceil(share * self.n), 1)
        if rank >= self.n:
            return float(self.max_ns)
        index = int(np.searchsorted(np.cumsum(self._counts), rank)) - _ZERO
        middle = 2.0 ** ((abs(index) - 0.5) / PER_OCTAVE) if index else 0.0
        return float(min(max(math.copysign(middle, index) if index else 0.0, self.min_ns), self.max_ns))
