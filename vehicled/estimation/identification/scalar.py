"""Kalman filter of one slowly varying number."""

from math import sqrt

OUTLIER = 3.0
"""Sigmas beyond which an innovation counts less (Huber)."""


class Scalar:
    """Kalman filter of a bounded random walk whose sigma never exceeds its prior."""

    def __init__(self, mean: float, prior: float, density: float, low: float, high: float) -> None:
        self.mean = mean
        self._prior = prior
        self._density = density
        self._low = low
        self._high = high
        self._variance = prior * prior
        self.samples = 0

    @property
    def sigma(self) -> float:
        """Standard deviation."""
        return sqrt(self._variance)

    def update(self, error: float, sigma: float, interval_s: float) -> None:
        """Fuse a measurement that differs from the mean by ``error``, ``interval_s`` after the
        previous one."""
        variance = min(
            self._variance + self._density * self._density * interval_s, self._prior * self._prior
        )
        r = sigma * sigma
        excess = abs(error) / (OUTLIER * sqrt(variance + r))
        r *= max(1.0, excess * excess)
        self.mean = min(max(self.mean + variance / (variance + r) * error, self._low), self._high)
        self._variance = variance * r / (variance + r)
        self.samples += 1
