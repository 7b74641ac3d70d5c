"""Wheel encoder model: each counts whole steps of its wheel's angle; the counts of one period give the speed."""

from math import floor, pi, sqrt

from sim_backend.plant.interface import Motion
from sim_backend.sensors.noise import stream
from vehicled.core.messages import WheelSpeed
from vehicled.profile.sensors import WheelEncodersModel

_WHEELS = {"front": (0, 1), "rear": (2, 3), "all": (0, 1, 2, 3)}


class WheelEncoders:
    """Wheel encoders. They see slip and lock-up, because they count wheel angles.

    A wheel angle is the trapezoidal integral of its speed. The reported speed is ``radius steps / (counts per turn) 2 pi /
    period``; its sigma covers the rounding at both ends of a period, the only error a counter knows: ``step / (period sqrt(6 n))``
    over n wheels.
    """

    def __init__(self, model: WheelEncodersModel, seed: int, entity: str) -> None:
        """The initial wheel angles between two counts come from the stream ``entity``."""
        self.rate_hz = model.rate_hz
        self.least_latency_ns = self._latency_ns = round(model.latency_ms * 1e6)
        self._wheels = _WHEELS[model.wheels]
        self._step_rad = 2.0 * pi / (model.pulses_per_revolution * model.gear)
        self._period_s = 1.0 / model.rate_hz
        step_m = self._step_rad * model.wheel_radius_m
        self._mps_per_count = step_m / (self._period_s * len(self._wheels))
        self._sigma_mps = step_m / (self._period_s * sqrt(6.0 * len(self._wheels)))
        self._angles_rad = (stream(seed, entity).uniform(0.0, 1.0, 4) * self._step_rad).tolist()
        self._speeds_radps = (0.0, 0.0, 0.0, 0.0)
        self.counts = [0, 0, 0, 0]
        """Counts since the start: front left, front right, rear left, rear right; forward positive."""

    def sample(self, t_ns: int, motion: Motion) -> tuple[int, WheelSpeed]:
        """Return the speed valid at ``t_ns``, see :class:`sim_backend.sensors.interface.Sensor`."""
        before, after = self._speeds_radps, motion.wheel_speeds_radps
        self._speeds_radps = after
        turned = 0
        for wheel in range(4):
            self._angles_rad[wheel] += 0.5 * (before[wheel] + after[wheel]) * self._period_s
            count = floor(self._angles_rad[wheel] / self._step_rad)
            if wheel in self._wheels:
                turned += count - self.counts[wheel]
            self.counts[wheel] = count
        return t_ns + self._latency_ns, WheelSpeed(t_ns, 0, turned * self._mps_per_count, self._sigma_mps)
