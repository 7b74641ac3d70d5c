"""Sensors of the drive train: motor controller telemetry, wheel angle and wheel encoders."""

from math import floor, hypot, pi, sqrt

from sim_backend.plant.actuators import Actuators
from sim_backend.plant.interface import Motion
from sim_backend.sensors.noise import Normals, stream
from vehicled.core.messages import MotorStatus, SteeringFeedback, WheelSpeed
from vehicled.core.mixing import Mixing
from vehicled.profile.sensors import MotorStatusModel, SteeringFeedbackModel, WheelEncodersModel

_LEAST_SIGMA_RAD = 1e-4
_TURNS_RADPS = 1e-3
_WHEELS = {"front": (0, 1), "rear": (2, 3), "all": (0, 1, 2, 3)}


class MotorStatusSensor:
    """Motor controller telemetry: quantised and delayed, without noise. It has no thermometers:
    temperatures stay NaN."""

    def __init__(
        self, model: MotorStatusModel, actuators: Actuators, mixing: Mixing | None = None
    ) -> None:
        """``mixing``: outputs of a controller that is one of several."""
        rows = () if mixing is None else mixing.rows
        left, right = any(row.left for row in rows), any(row.right for row in rows)
        self._side = () if left is right else (0, 2) if left else (1, 3)
        self.rate_hz = model.rate_hz
        self.least_latency_ns = self._latency_ns = round(model.latency_ms * 1e6)
        self._speed_step_radps = model.speed_step_radps
        self._voltage_step_v = model.voltage_step_v
        self._current_step_a = model.current_step_a
        self._actuators = actuators

    def sample(self, t_ns: int, motion: Motion) -> tuple[int, MotorStatus]:
        """Return the status valid at ``t_ns``, see
        :class:`sim_backend.sensors.interface.Sensor`."""
        supply = self._actuators.supply
        return t_ns + self._latency_ns, MotorStatus(
            t_ns,
            0,
            motor_speed_radps=_quantised(self._speed_radps(motion), self._speed_step_radps),
            motor_current_a=_quantised(supply.motor_current_a, self._current_step_a),
            input_current_a=_quantised(supply.input_current_a, self._current_step_a),
            input_voltage_v=_quantised(supply.voltage_v, self._voltage_step_v),
            duty=self._actuators.duty,
        )

    def _speed_radps(self, motion: Motion) -> float:
        """Return the speed of the controller's own motors: those of one side turn as its wheels
        do."""
        speed_radps, wheels = motion.motor_speed_radps, motion.wheel_speeds_radps
        mean_radps = sum(wheels) / len(wheels)
        if not self._side or abs(mean_radps) < _TURNS_RADPS:
            return speed_radps
        own_radps = sum(wheels[wheel] for wheel in self._side) / len(self._side)
        return speed_radps * own_radps / mean_radps


class SteeringFeedbackSensor:
    """Steering feedback with offset, white noise and quantisation: the angle of the virtual front
    wheel.

    It is constant over a plant step. The reported sigma covers noise and rounding; the offset is
    unknown to the sensor.
    """

    def __init__(
        self, model: SteeringFeedbackModel, actuators: Actuators, seed: int, entity: str
    ) -> None:
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
        angle_rad = (
            self._actuators.wheel_angle_rad
            + model.offset_rad
            + model.sigma_rad * self._normals()[0]
        )
        if model.step_rad > 0.0:
            angle_rad = round(angle_rad / model.step_rad) * model.step_rad
        return t_ns + self._latency_ns, SteeringFeedback(t_ns, 0, angle_rad, self._sigma_rad)


class WheelEncoders:
    """Wheel encoders: each counts whole steps of its wheel's angle; the counts of one period give
    the speed.

    They see slip and lock-up, because they count wheel angles. A wheel angle is the trapezoidal
    integral of its speed. The reported speed is ``radius steps / (counts per turn) 2 pi / period``;
    its sigma covers the rounding at both ends of a period, the only error a counter knows: ``step /
    (period sqrt(6 n))`` over n wheels.
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
        """Counts since the start: front left, front right, rear left, rear right; forward
        positive."""

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
        return t_ns + self._latency_ns, WheelSpeed(
            t_ns, 0, turned * self._mps_per_count, self._sigma_mps
        )


def _quantised(value: float, step: float) -> float:
    return round(value / step) * step if step > 0.0 else value
