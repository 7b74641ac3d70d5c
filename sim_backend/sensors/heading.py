"""Heading sensor model: truth, constant misalignment, white noise and a slow walk."""

from math import pi, remainder, sqrt

from sim_backend.plant.interface import Motion
from sim_backend.sensors.noise import Normals, stream
from vehicled.core.messages import Heading, HeadingKind
from vehicled.profile.sensors import HeadingModel

_KIND = {
    "inertial": HeadingKind.INERTIAL,
    "magnetic": HeadingKind.MAGNETIC,
    "moving_base": HeadingKind.MOVING_BASE,
}
LEAST_SIGMA_RAD = 1e-4


class HeadingSensor:
    """Heading sensor. It reports the ``sigma_rad`` of the white noise, because a device does not
    know its own drift."""

    def __init__(self, model: HeadingModel, seed: int, entity: str) -> None:
        """Noise comes from the stream ``entity``."""
        self.rate_hz = model.rate_hz
        self.least_latency_ns = self._latency_ns = round(model.latency_ms * 1e6)
        self._sigma_rad = model.sigma_rad
        self._error_rad = model.misalignment_rad
        self._walk_rad = model.walk_rad_per_root_s / sqrt(model.rate_hz)
        self._kind = _KIND[model.kind]
        self._normals = Normals(stream(seed, entity), 2)

    def sample(self, t_ns: int, motion: Motion) -> tuple[int, Heading]:
        """Return the heading valid at ``t_ns``, see
        :class:`sim_backend.sensors.interface.Sensor`."""
        white, walk = self._normals()
        self._error_rad += self._walk_rad * walk
        yaw_rad = remainder(motion.yaw_rad + self._error_rad + self._sigma_rad * white, 2.0 * pi)
        return t_ns + self._latency_ns, Heading(
            t_ns, 0, yaw_rad, max(self._sigma_rad, LEAST_SIGMA_RAD), self._kind
        )
