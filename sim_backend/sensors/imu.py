"""IMU model: specific force and angular rate at its mounting, with switch-on bias, bias walk, white
noise and vibration."""

from math import pi, sin, sqrt

import numpy as np
import numpy.typing as npt

from sim_backend.plant.interface import Motion
from sim_backend.sensors.attitude import Vector, lever_velocity, to_body
from sim_backend.sensors.noise import BLOCK, stream
from vehicled.core.messages import ImuSample
from vehicled.core.messages.units import STANDARD_GRAVITY_MPS2
from vehicled.profile.sensors import ImuModel


def specific_force(motion: Motion, arm_m: Vector) -> Vector:
    """Return the specific force at the end of an arm from the reference point, m/s2 in body axes;
    rigid body.

    ``f = a + w' x l + w x (w x l) + g up``, with the acceleration a of the reference point, the
    angular rate w and its derivative.
    """
    rate = (motion.roll_rate_radps, motion.pitch_rate_radps, motion.yaw_rate_radps)
    turning = (
        motion.roll_acceleration_radps2,
        motion.pitch_acceleration_radps2,
        motion.yaw_acceleration_radps2,
    )
    ax, ay, az = lever_velocity(turning, arm_m)
    cx, cy, cz = lever_velocity(rate, lever_velocity(rate, arm_m))
    gx, gy, gz = to_body(motion.roll_rad, motion.pitch_rad, (0.0, 0.0, STANDARD_GRAVITY_MPS2))
    return (
        motion.acceleration_mps2 + ax + cx + gx,
        motion.lateral_acceleration_mps2 + ay + cy + gy,
        motion.vertical_acceleration_mps2 + az + cz + gz,
    )


class Imu:
    """IMU in body axes. White noise of density d sampled at rate f has standard deviation d
    sqrt(f).

    Vibration is a line at ``vibration_hz`` with amplitude proportional to speed, full on the up
    axis and half on the others, with fixed random phases. A level vehicle takes a short cut,
    because IMUs sample often.
    """

    def __init__(
        self, model: ImuModel, lever_arm_m: tuple[float, float, float], seed: int, entity: str
    ) -> None:
        """Noise comes from the stream ``entity``."""
        self.rate_hz = model.rate_hz
        self.least_latency_ns = self._latency_ns = round(model.latency_ms * 1e6)
        self._arm_m = lever_arm_m
        self._forward_m, self._left_m, _ = lever_arm_m
        self._generator = stream(seed, entity)
        bias = np.array([model.accelerometer_bias_mps2] * 3 + [model.gyro_bias_radps] * 3)
        self._bias: npt.NDArray[np.float64] = bias * self._generator.standard_normal(6)
        self._phase_x, self._phase_y, self._phase_z = self._generator.uniform(
            0.0, 2.0 * pi, 3
        ).tolist()
        self._white = np.array([model.accelerometer_density] * 3 + [model.gyro_density] * 3) * sqrt(
            model.rate_hz
        )
        self._walk = np.array(
            [model.accelerometer_bias_walk] * 3 + [model.gyro_bias_walk] * 3
        ) / sqrt(model.rate_hz)
        self._vibration_mps2 = model.vibration_mps2
        self._vibration_radps_ns = 2.0 * pi * model.vibration_hz * 1e-9
        self._range_mps2 = model.range_mps2
        self._range_radps = model.range_radps
        self._errors: list[list[float]] = []

    def sample(self, t_ns: int, motion: Motion) -> tuple[int, ImuSample]:
        """Return the sample valid at ``t_ns``, see
        :class:`sim_backend.sensors.interface.Sensor`."""
        if not self._errors:
            self._draw()
        force_x, force_y, force_z, rate_x, rate_y, rate_z = self._errors.pop()
        yaw_rate_radps = motion.yaw_rate_radps
        if (
            motion.roll_rad
            or motion.pitch_rad
            or motion.roll_rate_radps
            or motion.pitch_rate_radps
            or motion.roll_acceleration_radps2
            or motion.pitch_acceleration_radps2
            or motion.vertical_acceleration_mps2
        ):
            x, y, z = specific_force(motion, self._arm_m)
            force_x, force_y, force_z = force_x + x, force_y + y, force_z + z
            rate_x += motion.roll_rate_radps
            rate_y += motion.pitch_rate_radps
        else:
            square = yaw_rate_radps * yaw_rate_radps
            turning = motion.yaw_acceleration_radps2
            force_x += motion.acceleration_mps2 - turning * self._left_m - square * self._forward_m
            force_y += (
                motion.lateral_acceleration_mps2 + turning * self._forward_m - square * self._left_m
            )
            force_z += STANDARD_GRAVITY_MPS2
        rate_z += yaw_rate_radps
        force = self._shaken((force_x, force_y, force_z), t_ns, motion.speed_mps)
        rate = (rate_x, rate_y, rate_z)
        most_mps2, most_radps = self._range_mps2, self._range_radps
        force_x, force_y, force_z = force
        # Written out, because min and max cost far more.
        saturated = not (
            -most_mps2 <= force_x <= most_mps2
            and -most_mps2 <= force_y <= most_mps2
            and -most_mps2 <= force_z <= most_mps2
            and -most_radps <= rate_x <= most_radps
            and -most_radps <= rate_y <= most_radps
            and -most_radps <= rate_z <= most_radps
        )
        if saturated:
            force = (_cut(force_x, most_mps2), _cut(force_y, most_mps2), _cut(force_z, most_mps2))
            rate = (_cut(rate_x, most_radps), _cut(rate_y, most_radps), _cut(rate_z, most_radps))
        # No temperature is reported: the simulation has no model of it.
        return t_ns + self._latency_ns, ImuSample(t_ns, 0, force, rate, saturated=saturated)

    def _shaken(self, force: Vector, t_ns: int, speed_mps: float) -> Vector:
        """Return the force plus the vibration at this instant."""
        amplitude = self._vibration_mps2 * abs(speed_mps)
        if amplitude == 0.0:
            return force
        x, y, z = force
        phase = self._vibration_radps_ns * t_ns
        half = 0.5 * amplitude
        return (
            x + half * sin(phase + self._phase_x),
            y + half * sin(phase + self._phase_y),
            z + amplitude * sin(phase + self._phase_z),
        )

    def _draw(self) -> None:
        """Draw the errors of the next ``BLOCK`` samples: continued bias walk plus white noise."""
        normals = self._generator.standard_normal((BLOCK, 12))
        # Sum from the bias on, so that the block length does not change the rounding.
        bias = np.cumsum(np.vstack((self._bias, self._walk * normals[:, 6:])), axis=0)[1:]
        self._bias = bias[-1]
        self._errors = (bias + self._white * normals[:, :6])[::-1].tolist()


def _cut(value: float, limit: float) -> float:
    return min(max(value, -limit), limit)
