"""Motor controller telemetry: quantised and delayed, without noise."""

from sim_backend.plant.actuators import Actuators
from sim_backend.plant.interface import Motion
from vehicled.core.messages import MotorStatus
from vehicled.profile.sensors import MotorStatusModel


class MotorStatusSensor:
    """Motor controller telemetry. It has no thermometers: temperatures stay NaN."""

    def __init__(self, model: MotorStatusModel, actuators: Actuators) -> None:
        self.rate_hz = model.rate_hz
        self.least_latency_ns = self._latency_ns = round(model.latency_ms * 1e6)
        self._speed_step_radps = model.speed_step_radps
        self._voltage_step_v = model.voltage_step_v
        self._current_step_a = model.current_step_a
        self._actuators = actuators

    def sample(self, t_ns: int, motion: Motion) -> tuple[int, MotorStatus]:
        """Return the status valid at ``t_ns``, see :class:`sim_backend.sensors.interface.Sensor`."""
        supply = self._actuators.supply
        return t_ns + self._latency_ns, MotorStatus(
            t_ns,
            0,
            motor_speed_radps=_quantised(motion.motor_speed_radps, self._speed_step_radps),
            motor_current_a=_quantised(supply.motor_current_a, self._current_step_a),
            input_current_a=_quantised(supply.input_current_a, self._current_step_a),
            input_voltage_v=_quantised(supply.voltage_v, self._voltage_step_v),
            duty=self._actuators.duty,
        )


def _quantised(value: float, step: float) -> float:
    return round(value / step) * step if step > 0.0 else value
