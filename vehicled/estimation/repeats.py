"""Inertial samples that a device repeats instead of measuring."""

from math import isfinite

from vehicled.core.messages import ImuSample

MAX_EQUAL, MAX_EQUAL_NS = 3, 100_000_000
"""Number of equal samples in a row, and the time over which they come, that a coarse resolution or
a slow sensor explains."""


class RepeatedSamples:
    """Detector of a stuck inertial unit, whose samples are as good as none: the estimate would go
    on turning at a held yaw rate."""

    def __init__(self) -> None:
        self._last: tuple[tuple[float, ...], tuple[float, ...]] | None = None
        self._equal, self._first_ns = 0, 0

    def is_repeat(self, sample: ImuSample) -> bool:
        """Return True if too many equal samples end with this one; called once per sample."""
        force = sample.specific_force_mps2
        values = (force if isfinite(force[0]) else (), sample.angular_rate_radps)
        if values != self._last:
            self._last, self._equal, self._first_ns = values, 0, sample.t_ns
        self._equal += 1
        return self._equal > MAX_EQUAL and sample.t_ns - self._first_ns > MAX_EQUAL_NS
