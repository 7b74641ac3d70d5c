"""Motion capture system: the pose of the rear axle in the map, with the errors of the profile."""

from math import log, pi, remainder

from sim_backend.plant.interface import Motion
from sim_backend.sensors.noise import Normals, stream
from vehicled.core.messages import NAN, MapMatch, MapPose
from vehicled.profile.sensors import MocapModel


class Mocap:
    """Motion capture system. It declares its white noise, because it does not know its constant
    errors."""

    def __init__(self, model: MocapModel, seed: int, entity: str) -> None:
        """Noise comes from the stream ``entity``."""
        self.rate_hz = model.rate_hz
        self.least_latency_ns = round(model.latency_ms * 1e6)
        self._model = model
        self._normals = Normals(stream(seed, entity), 3)
        self._chance = stream(seed, f"{entity}/latency")
        self._ready_ns = 0
        sigma, turn = max(model.position_sigma_m, 1e-4), max(model.yaw_sigma_rad, 1e-4)
        self._covariance = (sigma**2, 0.0, 0.0, 0.0, sigma**2, 0.0, 0.0, 0.0, turn**2)

    def sample(self, t_ns: int, motion: Motion) -> tuple[int, MapPose]:
        """Return the pose valid at ``t_ns``, see :class:`sim_backend.sensors.interface.Sensor`."""
        model, (x, y, yaw) = self._model, self._normals()
        jitter_ns = -1e6 * model.latency_jitter_ms * log(1.0 - float(self._chance.random()))
        # A network of one switch keeps the order.
        ready_ns = max(t_ns + self.least_latency_ns + round(jitter_ns), self._ready_ns)
        self._ready_ns = ready_ns
        return ready_ns, MapPose(
            t_ns,
            0,
            motion.x_m + model.offset_m[0] + model.position_sigma_m * x,
            motion.y_m + model.offset_m[1] + model.position_sigma_m * y,
            remainder(motion.yaw_rad + model.misalignment_rad + model.yaw_sigma_rad * yaw, 2 * pi),
            self._covariance,
            NAN,
            MapMatch.MATCHED,
        )
