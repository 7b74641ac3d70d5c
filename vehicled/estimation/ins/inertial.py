"""Preparation of inertial samples: bounds, order, means over a step, zero-velocity detection."""

from math import isfinite

from vehicled.core.messages import ImuSample
from vehicled.estimation.counters import InputCounters
from vehicled.estimation.ins.mechanisation import ZERO
from vehicled.estimation.ins.params import Rest
from vehicled.estimation.ins.state import Triple
from vehicled.estimation.repeats import RepeatedSamples

MAX_RATE_RADPS = 35.0
MAX_FORCE_MPS2 = 500.0
MAX_QUEUE = 8192
FUTURE_TOLERANCE_NS = 10_000_000
"""A stamp up to this far ahead is an error of the device clock's mapping and counts as now; later
samples are rejected."""
MAX_LEVEL_SAMPLES = 2000
"""Length of the levelling mean in steps; older ones fade."""


class Queue:
    """Samples since the last step.

    A sample without specific force (NaN) still gives its rate, and one without roll and pitch rates
    still gives the yaw rate.
    """

    def __init__(self, timeout_s: float, counters: InputCounters) -> None:
        self._counters = counters
        self._repeats = RepeatedSamples()
        self._timeout_ns = int(timeout_s * 1e9)
        self._samples: list[tuple[int, Triple | None, Triple]] = []
        self.newest_ns: int | None = None

    def observe(self, sample: ImuSample) -> None:
        """Add a sample for the next :meth:`take`."""
        wx, wy, wz = sample.angular_rate_radps
        if self._repeats.is_repeat(sample) or sample.saturated or not abs(wz) <= MAX_RATE_RADPS:
            self._counters.ignored += 1
            return
        if (self.newest_ns is not None and sample.t_ns <= self.newest_ns) or len(
            self._samples
        ) >= MAX_QUEUE:
            self._counters.late += 1
            return
        if not (abs(wx) <= MAX_RATE_RADPS and abs(wy) <= MAX_RATE_RADPS):
            if isfinite(wx + wy):
                self._counters.ignored += 1
                return
            wx = wy = 0.0
        fx, fy, fz = sample.specific_force_mps2
        whole = (
            abs(fx) <= MAX_FORCE_MPS2 and abs(fy) <= MAX_FORCE_MPS2 and abs(fz) <= MAX_FORCE_MPS2
        )
        self.newest_ns = sample.t_ns
        self._samples.append((sample.t_ns, (fx, fy, fz) if whole else None, (wx, wy, wz)))

    def take(self, since_ns: int, now_ns: int) -> tuple[int | None, Triple | None, Triple | None]:
        """Return the time up to which the motion is known, and the mean force and rate since
        ``since_ns``.

        The result is (None, None, None) if the unit is lost, and (``since_ns``, None, None) while
        the next sample is awaited. A time is between ``since_ns`` and now.
        """
        samples, self._samples = self._samples, []
        newest_ns = self.newest_ns
        if newest_ns is None:
            return None, None, None
        if newest_ns > now_ns + FUTURE_TOLERANCE_NS:
            # A stamp from the future must not lock out the samples that follow.
            self.newest_ns = None
            self._counters.late += len(samples)
            return None, None, None
        if now_ns - newest_ns > self._timeout_ns:
            self._counters.late += len(samples)
            return None, None, None
        fx = fy = fz = wx = wy = wz = 0.0
        forces = rates = 0
        for t_ns, force, rate in samples:
            if t_ns <= since_ns:
                self._counters.late += 1
                continue
            rates += 1
            wx, wy, wz = wx + rate[0], wy + rate[1], wz + rate[2]
            if force is not None:
                forces += 1
                fx, fy, fz = fx + force[0], fy + force[1], fz + force[2]
        if not rates:
            return since_ns, None, None
        mean = (fx / forces, fy / forces, fz / forces) if forces else None
        return max(since_ns, min(newest_ns, now_ns)), mean, (wx / rates, wy / rates, wz / rates)


class ZeroVelocityDetector:
    """Detects standstill from inertial unit, throttle and estimated speed, and averages the samples
    over it."""

    def __init__(self, rest: Rest) -> None:
        self._rest = rest
        self._after_ns = int(rest.after_s * 1e9)
        self._force: Triple | None = None
        self.reset()

    def reset(self) -> None:
        """Restart the detection, because the vehicle moves."""
        self._since_ns: int | None = None
        self._sum = [0.0] * 6
        self.samples = 0
        """Number of samples in :attr:`force_mps2` and :attr:`rate_radps`."""
        self.seconds = 0.0

    def update(
        self, t_ns: int, force: Triple | None, rate: Triple | None, bias: Triple, quiet: bool
    ) -> bool:
        """Return True once the vehicle has stood long enough. ``rate`` includes the bias; ``quiet``
        means no throttle and no speed.

        Without a gyro only ``quiet`` decides.
        """
        rest, before = self._rest, self._force
        self._force = force
        if rate is not None:
            limit = rest.max_rate_radps
            quiet = (
                quiet
                and abs(rate[0] - bias[0]) < limit
                and abs(rate[1] - bias[1]) < limit
                and abs(rate[2] - bias[2]) < limit
            )
        if force is not None and before is not None:
            jump = max(
                abs(force[0] - before[0]), abs(force[1] - before[1]), abs(force[2] - before[2])
            )
            quiet = quiet and jump < rest.max_jump_mps2
        if not quiet:
            self.reset()
            return False
        if self._since_ns is None or t_ns < self._since_ns:
            self._since_ns = t_ns
        if rate is not None:
            self._add(force, rate)
        self.seconds = (t_ns - self._since_ns) * 1e-9
        return t_ns - self._since_ns >= self._after_ns

    def _add(self, force: Triple | None, rate: Triple) -> None:
        self.samples += 1
        weight = 1.0 / min(self.samples, MAX_LEVEL_SAMPLES)
        mean = self._sum
        for axis in range(3):
            mean[axis + 3] += weight * (rate[axis] - mean[axis + 3])
            if force is not None:
                mean[axis] += weight * (force[axis] - mean[axis])

    @property
    def force_mps2(self) -> Triple | None:
        """Mean specific force at standstill; None without accelerometer or samples."""
        x, y, z = self._sum[:3]
        return (x, y, z) if self._force is not None and self.samples else None

    @property
    def rate_radps(self) -> Triple:
        """Mean rate at standstill, which is the gyro bias."""
        return (self._sum[3], self._sum[4], self._sum[5]) if self.samples else ZERO
