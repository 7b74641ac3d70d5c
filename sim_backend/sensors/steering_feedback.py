"""Wheel angle sensor model: offset, white noise, quantisation."""

from math import hypot, sqrt

from sim_backend.plant.actuators import Actuators
from sim_backend.plant.interface import Motion
from sim_backend.sensors.noise import Normals, stream
from vehicled.core.messages import SteeringFeedback
from vehicled.profile.sensors import SteeringFeedbackModel

_LEAST_SIGMA_RAD = 1e-4


class SteeringFeedbackSensor:
    """Steering feedback: the angle of the virtual front wheel, constant over a plant step. The reported sigma covers noise and
    rounding; the offset is unknown to the sensor.
    """

    def __init__(self, model: SteeringFeedbackModel, actuators: Actuators, seed: int, entity: str) -> None:
        """Noise comes from the stream ``entity``."""
        self.rate_hz = model.rate_hz
        self.least_latency_ns = self._latency_ns = round(model.latency_ms * 1e6)
        self._model = model
        self._actuators = actuators
        self._normals = Normals(stream(seed, entity), 1)
        self._sigma_rad = max(hypot(model.sigma_rad, model.step_rad / sqrt(12.0)), _LEAST_SIGMA_RAD)

    def sample(self, t_ns: int, motion: Motion) -> tuple[int, SteeringFeedback]:
        """Return the angle valid at ``t_ns``, see :class:`sim_backend.sensors.interface.Sensor`."""
        model = self._model
        angle_rad = self._actuators.wheel_angle_rad + model.offset_rad + model.sigma_rad * self._normals()[0]
        if model.step_rad > 0.0:
            angle_rad = round(angle_rad / model.step_rad) * model.step_rad
        return t_ns + self._latency_ns, SteeringFeedback(t_ns, 0, angle_rad, self._sigma_rad)
