"""Yaw rate between two filter steps, and the gyro bias, from inertial samples."""

from math import isfinite

from vehicled.core.messages import NAN, ImuSample
from vehicled.estimation.counters import InputCounters
from vehicled.estimation.repeats import RepeatedSamples

MAX_RATE_RADPS = 35.0
REST_RATE_RADPS = 0.05
"""Larger rates are no bias: someone is turning the vehicle by hand."""
REST_TAKES = 2000
"""Length of the bias mean, in intervals; older rates fade."""
FUTURE_TOLERANCE_NS = 10_000_000
"""A stamp up to this far ahead is an error of the device clock's mapping and counts as now; later
samples are rejected."""


class YawRateGyro:
    """Mean yaw rate of the samples since the last :meth:`take`, minus the bias learnt at
    standstill."""

    def __init__(self, fresh_s: float, rest_s: float, counters: InputCounters) -> None:
        self._counters = counters
        self._repeats = RepeatedSamples()
        self._fresh_ns = int(fresh_s * 1e9)
        self._rest_ns = int(rest_s * 1e9)
        self._newest_ns: int | None = None
        self._sum = 0.0
        self._count = 0
        self._mean_radps = NAN
        self._rest_since_ns: int | None = None
        self._takes = 0
        self.bias_radps = 0.0

    def observe(self, sample: ImuSample) -> None:
        """Add a sample to the current interval."""
        rate = sample.angular_rate_radps[2]
        if self._repeats.is_repeat(sample) or sample.saturated or not abs(rate) <= MAX_RATE_RADPS:
            self._counters.ignored += 1
        elif self._newest_ns is not None and sample.t_ns <= self._newest_ns:
            self._counters.late += 1
        else:
            self._newest_ns = sample.t_ns
            self._sum += rate
            self._count += 1

    def take(self, now_ns: int, standing: bool) -> int | None:
        """Close the interval that ends now and learn the bias at standstill. Return the newest
        stamp in it, if any."""
        newest_ns, count = self._newest_ns, self._count
        if newest_ns is None:
            return None
        entered: int | None = None
        if newest_ns > now_ns + FUTURE_TOLERANCE_NS:
            # A stamp from the future must not lock out the samples that follow.
            self._newest_ns = None
            self._mean_radps = NAN
            self._counters.late += count
        elif count:
            self._mean_radps = self._sum / count
            entered = min(newest_ns, now_ns)
            self._learn(now_ns, standing)
        self._sum = 0.0
        self._count = 0
        return entered

    @property
    def fresh_until_ns(self) -> int:
        """Time until which the newest sample is fresh; 0 before the first."""
        return 0 if self._newest_ns is None else self._newest_ns + self._fresh_ns

    def rate_radps(self, t_ns: int) -> float:
        """Return the yaw rate without bias; NaN if the newest sample is too old."""
        if self._newest_ns is None or t_ns - self._newest_ns > self._fresh_ns:
            return NAN
        return self._mean_radps - self.bias_radps

    def _learn(self, now_ns: int, standing: bool) -> None:
        if not standing or abs(self._mean_radps) > REST_RATE_RADPS:
            self._rest_since_ns = None
        elif self._rest_since_ns is None:
            self._rest_since_ns = now_ns
        elif now_ns - self._rest_since_ns >= self._rest_ns and isfinite(self._mean_radps):
            self._takes = min(self._takes + 1, REST_TAKES)
            self.bias_radps += (self._mean_radps - self.bias_radps) / self._takes
