"""Detailed IMU model with all data-sheet errors; :mod:`sim_backend.sensors.imu` has the plain
one."""

from math import expm1, log, pi, sqrt

import numpy as np

from sim_backend.plant.interface import Motion
from sim_backend.sensors import imu
from sim_backend.sensors.attitude import Matrix, Vector, matrix_vector, rotation
from sim_backend.sensors.imu_units import model_of
from sim_backend.sensors.interface import Sensor
from sim_backend.sensors.noise import stream
from vehicled.core.arrays import Array, exp, matmul
from vehicled.core.messages import ImuSample
from vehicled.profile.sensors import ImuModel

TIMES_S = (1.0, 10.0, 100.0, 1000.0)
"""Correlation times of the processes whose sum is the flicker noise: one per decade."""


def imu_sensor(model: ImuModel, lever_arm_m: Vector, seed: int, entity: str) -> Sensor:
    """Return the IMU that ``[sim.imu]`` describes: the plain model if it suffices."""
    model = model_of(model)
    details = (
        model.accelerometer_instability_mps2,
        model.gyro_instability_radps,
        model.accelerometer_bandwidth_hz,
        model.gyro_bandwidth_hz,
        model.accelerometer_scale,
        model.gyro_scale,
        model.axis_misalignment_rad,
        *model.mounting_error_rad,
        model.accelerometer_step_mps2,
        model.gyro_step_radps,
    )
    kind = DetailedImu if any(details) else imu.Imu
    return kind(model, lever_arm_m, seed, entity)


class DetailedImu(imu.Imu):
    """True force and rate, rotated by the mounting error, with scale and cross-axis errors, plus
    bias, flicker and white noise, through a low pass at the sample rate, clipped at the range and
    rounded to the resolution.

    Bias, bias walk, white noise and vibration are those of the plain model, from the same stream.
    Flicker noise with a floor B of the Allan deviation is the sum of first-order Gauss-Markov
    processes at 1, 10, 100 and 1000 s, each of standard deviation ``B sqrt(ln 10 / (2 ln 2))``:
    their spectrum follows 1 / f between the outer two (Keshner 1982).
    """

    def __init__(self, model: ImuModel, lever_arm_m: Vector, seed: int, entity: str) -> None:
        """Flicker comes from the stream ``entity`` + "/flicker", the axes from ``entity`` +
        "/axes"."""
        super().__init__(model, lever_arm_m, seed, entity)
        self._flicker_chance = stream(seed, f"{entity}/flicker")
        floor = np.repeat([model.accelerometer_instability_mps2, model.gyro_instability_radps], 3)
        sigma = np.outer(np.ones(len(TIMES_S)), floor * sqrt(log(10.0) / (2.0 * log(2.0))))
        phi = exp(-1.0 / (model.rate_hz * np.array(TIMES_S)))[:, None]
        self._phi: Array = np.broadcast_to(phi, sigma.shape)
        self._flicker_drive: Array = sigma * np.sqrt(1.0 - phi * phi)
        self._flicker: Array = sigma * self._flicker_chance.standard_normal(sigma.shape)
        self._flickers = bool(floor.any())
        chance = stream(seed, f"{entity}/axes")
        self._force_axes = _axes(model, model.accelerometer_scale, chance)
        self._rate_axes = _axes(model, model.gyro_scale, chance)
        self._turns = any(
            (
                model.accelerometer_scale,
                model.gyro_scale,
                model.axis_misalignment_rad,
                *model.mounting_error_rad,
            )
        )
        bandwidths_hz = [model.accelerometer_bandwidth_hz] * 3 + [model.gyro_bandwidth_hz] * 3
        self._filters = any(bandwidths_hz)
        self._gains = [
            -expm1(-2.0 * pi * width_hz / model.rate_hz) if width_hz else 1.0
            for width_hz in bandwidths_hz
        ]
        self._force_step_mps2 = model.accelerometer_step_mps2
        self._rate_step_radps = model.gyro_step_radps
        self._out: list[float] = []

    def sample(self, t_ns: int, motion: Motion) -> tuple[int, ImuSample]:
        if not self._errors:
            self._draw()
        errors = self._errors.pop()
        true_force = self._shaken(imu.specific_force(motion, self._arm_m), t_ns, motion.speed_mps)
        true_rate = motion.roll_rate_radps, motion.pitch_rate_radps, motion.yaw_rate_radps
        if self._turns:
            true_force = matrix_vector(self._force_axes, true_force)
            true_rate = matrix_vector(self._rate_axes, true_rate)
        out = [true + error for true, error in zip((*true_force, *true_rate), errors)]
        if self._filters:
            # The filter was running before the run began.
            before = self._out or out
            self._out = out = [y + gain * (x - y) for x, y, gain in zip(out, before, self._gains)]
        most_mps2, most_radps = self._range_mps2, self._range_radps
        force, rate = out[:3], out[3:]
        saturated = (
            max(force) > most_mps2
            or min(force) < -most_mps2
            or max(rate) > most_radps
            or min(rate) < -most_radps
        )
        if saturated:
            force = [min(max(value, -most_mps2), most_mps2) for value in force]
            rate = [min(max(value, -most_radps), most_radps) for value in rate]
        if self._force_step_mps2 > 0.0:
            force = [
                round(value / self._force_step_mps2) * self._force_step_mps2 for value in force
            ]
        if self._rate_step_radps > 0.0:
            rate = [round(value / self._rate_step_radps) * self._rate_step_radps for value in rate]
        return t_ns + self._latency_ns, ImuSample(
            t_ns, 0, tuple(force), tuple(rate), saturated=saturated
        )

    def _draw(self) -> None:
        super()._draw()
        if not self._flickers:
            return
        rows = len(self._errors)
        states = self._flicker_drive * self._flicker_chance.standard_normal(
            (rows, *self._flicker.shape)
        )
        state = self._flicker
        for row in states:
            row += self._phi * state
            state = row
        self._flicker = state.copy()
        # The errors are popped from the end.
        self._errors = (np.array(self._errors) + states.sum(axis=1)[::-1]).tolist()


def _axes(model: ImuModel, scale: float, chance: np.random.Generator) -> Matrix:
    """Return the matrix from the vehicle's axes to those of accelerometer or gyro, scale
    included."""
    mounted = np.array(rotation(*model.mounting_error_rad)).T
    own = np.eye(3) + np.where(
        np.eye(3) > 0.0, scale, model.axis_misalignment_rad
    ) * chance.standard_normal((3, 3))
    (a, b, c), (d, e, f), (g, h, i) = matmul(own, mounted).tolist()
    return (a, b, c), (d, e, f), (g, h, i)
