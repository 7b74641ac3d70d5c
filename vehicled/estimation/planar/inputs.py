"""Inputs of the planar filter's prediction, looked up by time: yaw rates and commands."""

from bisect import bisect_right

from msgspec import Struct

from vehicled.core.messages import ImuSample
from vehicled.estimation.counters import InputCounters
from vehicled.estimation.repeats import RepeatedSamples

MAX_RATE_RADPS = 35.0
MAX_SAMPLES = 8192


class MotionCommand(Struct, frozen=True, gc=False):
    """The part of an ActuatorCommand that moves the vehicle."""

    throttle: float = 0.0
    brake: float = 0.0
    steering: float = 0.0


class GyroHistory:
    """Yaw rates of the last ``keep_ns``; a sample is fresh for ``fresh_ns``."""

    def __init__(self, keep_ns: int, fresh_ns: int, counters: InputCounters) -> None:
        self._counters = counters
        self._repeats = RepeatedSamples()
        self._keep_ns = keep_ns
        self._fresh_ns = fresh_ns
        self._times_ns: list[int] = []
        self._rates_radps: list[float] = []

    def append(self, sample: ImuSample) -> None:
        """Add a sample; only its yaw rate is used."""
        rate = sample.angular_rate_radps[2]
        if self._repeats.is_repeat(sample) or sample.saturated or not abs(rate) <= MAX_RATE_RADPS:
            self._counters.ignored += 1
            return
        times = self._times_ns
        if times and sample.t_ns <= times[-1]:
            self._counters.late += 1
            return
        times.append(sample.t_ns)
        self._rates_radps.append(rate)
        if len(times) >= 1024 and (
            len(times) >= MAX_SAMPLES or times[512] < sample.t_ns - self._keep_ns
        ):
            del times[:512], self._rates_radps[:512]

    def mean_radps(self, t0_ns: int, t1_ns: int) -> float | None:
        """Return the mean of the samples in (t0, t1], else the newest earlier one while it is
        fresh, else None."""
        times = self._times_ns
        last = bisect_right(times, t1_ns)
        if last == 0 or t1_ns - times[last - 1] > self._fresh_ns:
            return None
        first = last
        while first > 0 and times[first - 1] > t0_ns:
            first -= 1
        if first == last:
            return self._rates_radps[last - 1]
        return sum(self._rates_radps[first:last]) / (last - first)

    def drop_after(self, t_ns: int) -> int:
        """Drop samples stamped later than this, which would lock out those that follow. Return the
        newest stamp left, or 0."""
        times = self._times_ns
        keep = bisect_right(times, t_ns)
        if keep < len(times):
            self._counters.late += len(times) - keep
            del times[keep:], self._rates_radps[keep:]
        return times[-1] if times else 0
