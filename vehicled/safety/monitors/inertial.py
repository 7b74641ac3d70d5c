"""Monitor of the IMU: stuck, saturated, biased at standstill."""

from math import hypot, isfinite, sqrt

from vehicled.clamp import clamp
from vehicled.messages import ImuSample
from vehicled.messages.units import STANDARD_GRAVITY_MPS2

STUCK_NS = 500_000_000
STUCK_SAMPLES = 20
MAX_VALUE = 1e3
STILL_TIME_S = 0.5
"""Time constant of the smoothed rate and force, s."""


class InertialMonitor:
    """Monitor of identical and saturated samples, with smoothed values for the arming check."""

    def __init__(self) -> None:
        self.stuck = False
        """True if accelerometer and gyro have not changed for half a second and twenty samples."""
        self.saturated_since_ns: int | None = None
        self.mean_rate_radps = 0.0
        """Magnitude of the smoothed angular rate, rad/s."""
        self.mean_force_mps2 = STANDARD_GRAVITY_MPS2
        """Magnitude of the smoothed specific force, m/s^2."""
        self.has_samples = False
        self.has_force = False
        self._last: tuple[tuple[float, ...], tuple[float, ...]] | None = None
        self._same = 0
        self._changed_ns = 0
        self._before_ns: int | None = None
        self._rate = (0.0, 0.0, 0.0)
        self._force = (0.0, 0.0, 0.0)

    def on_message(self, sample: ImuSample, now_ns: int) -> None:
        """Update from a sample. Its rates are finite; its forces are all finite or all missing."""
        has_force = isfinite(sample.specific_force_mps2[0])
        values = (sample.specific_force_mps2 if has_force else (), sample.angular_rate_radps)
        if values == self._last:
            self._same += 1
        else:
            self._last, self._same, self._changed_ns = values, 0, sample.t_rx_ns
        self.stuck = self._same >= STUCK_SAMPLES and sample.t_rx_ns - self._changed_ns >= STUCK_NS
        if not sample.saturated:
            self.saturated_since_ns = None
        elif self.saturated_since_ns is None:
            self.saturated_since_ns = sample.t_rx_ns
        before_ns, self._before_ns = self._before_ns, sample.t_rx_ns
        share = 1.0 if before_ns is None else clamp((sample.t_rx_ns - before_ns) * 1e-9 / STILL_TIME_S, 0.0, 1.0)
        self._rate = _towards(self._rate, sample.angular_rate_radps, share)
        if has_force:
            self._force = _towards(self._force, sample.specific_force_mps2, share)
        self.has_samples = True
        self.has_force = has_force

    def saturated_ns(self, now_ns: int) -> int:
        """Return the time for which all samples have been saturated; 0 if the newest is not."""
        return 0 if self.saturated_since_ns is None else now_ns - self.saturated_since_ns

    def update(self) -> None:
        """Update the magnitudes, once per tick instead of once per sample."""
        if self.has_samples:
            x, y, z = self._rate
            self.mean_rate_radps = sqrt(x * x + y * y + z * z)
            fx, fy, fz = self._force
            self.mean_force_mps2 = hypot(fx, fy, fz)


Vector = tuple[float, float, float]


def _towards(mean: Vector, value: tuple[float, ...], share: float) -> Vector:
    """Return the mean after one more value. Values are clipped, as one absurd sample would stay in the mean for minutes.

    The components are written out because this runs twice per sample.
    """
    x, y, z = value
    if not (-MAX_VALUE <= x <= MAX_VALUE and -MAX_VALUE <= y <= MAX_VALUE and -MAX_VALUE <= z <= MAX_VALUE):
        x, y, z = (min(max(part, -MAX_VALUE), MAX_VALUE) for part in value)
    mx, my, mz = mean
    return mx + share * (x - mx), my + share * (y - my), mz + share * (z - mz)
