"""Inertial unit of the twin: what is felt at the mounting of a vehicle that leans and turns, and
the errors of data sheets."""

from math import cos, log10, pi, radians, sin, sqrt
from typing import Any, get_args

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from sim_backend.plant.interface import Motion
from sim_backend.sensors.imu import Imu, specific_force
from sim_backend.sensors.imu_detailed import DetailedImu, imu_sensor
from sim_backend.sensors.imu_units import UNITS, model_of
from sim_backend.sensors.interface import Sensor
from vehicled.core.arrays import Array
from vehicled.core.messages import ImuSample
from vehicled.core.messages.units import STANDARD_GRAVITY_MPS2
from vehicled.profile.sensors import ImuModel, InertialUnit

START = 1_000_000_000
REST = Motion(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
NO_ARM = (0.0, 0.0, 0.0)
EXACT = {
    "accelerometer_density": 0.0,
    "gyro_density": 0.0,
    "accelerometer_bias_mps2": 0.0,
    "gyro_bias_radps": 0.0,
    "accelerometer_bias_walk": 0.0,
    "gyro_bias_walk": 0.0,
    "vibration_mps2": 0.0,
}


def unit(seed: int = 1, arm: tuple[float, float, float] = NO_ARM, **keys: Any) -> Sensor:
    """A unit with no error but those named."""
    return imu_sensor(ImuModel(**(EXACT | keys)), arm, seed, "imu/ImuSample")


def rows(sensor: Sensor, n: int, motion: Motion = REST) -> Array:
    interval_ns = round(1e9 / sensor.rate_hz)
    found = []
    for k in range(1, n + 1):
        _, sample = sensor.sample(START + k * interval_ns, motion)
        assert isinstance(sample, ImuSample)
        found.append([*sample.specific_force_mps2, *sample.angular_rate_radps])
    return np.array(found)


# --------------------------------------------------------------------------------------- rigid body


def attitude(t: float) -> Rotation:
    return Rotation.from_euler(
        "ZYX", [0.3 + 0.8 * t + 0.3 * t * t, 0.2 * sin(2.0 * t), 0.25 * cos(3.0 * t)]
    )


def place(t: float) -> Array:
    return np.array([2.0 * t + 0.3 * t**3, 0.5 * t * t, 0.2 * sin(t)])


def rate(t: float) -> Array:
    h = 1e-4
    turned: Array = (attitude(t - h).inv() * attitude(t + h)).as_rotvec() / (2.0 * h)
    return turned


def truth(t: float) -> Motion:
    """Motion of the reference point, by differences of its path."""
    h = 1e-3
    acceleration = attitude(t).inv().apply((place(t + h) - 2.0 * place(t) + place(t - h)) / h**2)
    p, q, r = rate(t)
    dp, dq, dr = (rate(t + h) - rate(t - h)) / (2.0 * h)
    _, pitch, roll = attitude(t).as_euler("ZYX")
    return Motion(
        0.0, 0.0, 0.0, 0.0, 0.0, r, acceleration[0], acceleration[1], dr, 0.0,
        roll_rad=roll, pitch_rad=pitch, roll_rate_radps=p, pitch_rate_radps=q,
        roll_acceleration_radps2=dp, pitch_acceleration_radps2=dq,
        vertical_acceleration_mps2=acceleration[2],
    )  # fmt: skip


@pytest.mark.parametrize("detailed", [False, True])
def test_specific_force_is_that_of_the_mounting_s_path(detailed: bool):
    """A point on a body that turns about all its axes, followed by finite differences: independent
    of the rigid-body formula."""
    arm = (0.4, -0.2, 0.7)
    h = 1e-3
    for t in (0.0, 0.4, 1.1):
        path = [place(t + dt) + attitude(t + dt).apply(arm) for dt in (-h, 0.0, h)]
        felt = (path[2] - 2.0 * path[1] + path[0]) / h**2 + [0.0, 0.0, STANDARD_GRAVITY_MPS2]
        expected = attitude(t).inv().apply(felt)
        sensor = unit(arm=arm, mounting_error_rad=[0.0, 0.0, 1e-9] if detailed else [0.0, 0.0, 0.0])
        assert isinstance(sensor, DetailedImu) is detailed
        found = rows(sensor, 1, truth(t))[0]
        assert found[:3] == pytest.approx(expected, abs=1e-4)
        assert found[3:] == pytest.approx(rate(t), abs=1e-8)


def test_gravity_on_a_slope():
    nose_down = Motion(0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, pitch_rad=0.1)
    right_down = Motion(0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, roll_rad=0.1)
    g = STANDARD_GRAVITY_MPS2
    # At rest the ground pushes up: against the fall line, which is forward with the nose down,
    # right with the right side down.
    assert specific_force(nose_down, NO_ARM) == pytest.approx((-g * sin(0.1), 0.0, g * cos(0.1)))
    assert specific_force(right_down, NO_ARM) == pytest.approx((0.0, g * sin(0.1), g * cos(0.1)))


def test_the_short_cut_of_a_level_vehicle_meets_the_long_way():
    level = Motion(1.0, 2.0, 0.7, 2.0, 0.3, 0.5, 0.4, 1.0, -0.6, 30.0)
    hair = Motion(
        1.0, 2.0, 0.7, 2.0, 0.3, 0.5, 0.4, 1.0, -0.6, 30.0, vertical_acceleration_mps2=1e-300
    )
    plain: dict[str, Any] = {
        "accelerometer_density": 1e-3,
        "gyro_density": 1e-4,
        "vibration_mps2": 0.3,
        "gyro_bias_radps": 0.01,
    }
    a, b = (rows(unit(3, (0.3, 0.2, 0.9), **plain), 300, motion) for motion in (level, hair))
    assert a == pytest.approx(b, abs=1e-12)
    detailed = rows(
        unit(3, (0.3, 0.2, 0.9), mounting_error_rad=[0.0, 0.0, 1e-15], **plain), 300, level
    )
    assert detailed == pytest.approx(a, abs=1e-12), (
        "bias, white noise and vibration come from the same stream"
    )


# ------------------------------------------------------------------------------------------- errors


def allan_deviation(x: Array, rate_hz: float, tau_s: float) -> Array:
    """Return the overlapping Allan deviation of the columns; IEEE 952 annex C."""
    m = round(tau_s * rate_hz)
    means = (np.cumsum(x, axis=0)[m:] - np.cumsum(x, axis=0)[:-m]) / m
    found: Array = np.sqrt(0.5 * np.mean((means[m:] - means[:-m]) ** 2, axis=0))
    return found


def test_a_data_sheet_s_density_and_instability_are_what_an_allan_plot_shows():
    """White noise at 1 s is the density; where it has averaged away the floor is the
    instability."""
    row = UNITS["vn100"]
    rate_hz, hours = 1.0, 10
    model = ImuModel(model="vn100", rate_hz=rate_hz, vibration_mps2=0.0)
    found = rows(imu_sensor(model, NO_ARM, 1, "imu"), round(3600 * hours * rate_hz))
    density = np.repeat(
        [row.accelerometer_density * 1e-6 * STANDARD_GRAVITY_MPS2, radians(row.gyro_density)], 3
    )
    floor = np.repeat(
        [
            row.accelerometer_instability * 1e-6 * STANDARD_GRAVITY_MPS2,
            radians(row.gyro_instability) / 3600.0,
        ],
        3,
    )
    assert allan_deviation(found, rate_hz, 1.0) == pytest.approx(
        np.sqrt(density**2 + (0.82 * floor) ** 2), rel=0.05
    )
    # The spread of the estimate at 200 s of ten hours is 1 / sqrt(2 * 36000 / 200) = 5 % per axis.
    at_200_s = allan_deviation(found, rate_hz, 200.0) / np.sqrt(density**2 / 200.0 + floor**2)
    assert at_200_s == pytest.approx(np.ones(6), abs=0.25)
    assert at_200_s.mean() == pytest.approx(1.0, abs=0.12)


def test_flicker_is_flat_over_the_decades_of_its_processes():
    """The sum of four Gauss-Markov processes, by their own Allan variance (IEEE 952, annex
    C.1.7)."""
    taus = np.logspace(log10(3.0), log10(500.0), 50)
    sensor = unit(gyro_instability_radps=1.0)
    assert isinstance(sensor, DetailedImu)
    sigma = sensor._flicker_drive[:, 3] / np.sqrt(1.0 - sensor._phi[:, 3] ** 2)
    times = -1.0 / (np.log(sensor._phi[:, 3]) * sensor.rate_hz)
    total = sum(
        2.0
        * s
        * s
        * t
        / taus
        * (1.0 - t / (2.0 * taus) * (3.0 - 4.0 * np.exp(-taus / t) + np.exp(-2.0 * taus / t)))
        for s, t in zip(sigma, times)
    )
    assert np.sqrt(total) == pytest.approx(np.ones(50), abs=0.06)


def test_every_data_sheet_has_a_row_and_makes_a_model():
    assert {"table", *UNITS} == set(get_args(InertialUnit))
    for name, row in UNITS.items():
        model = model_of(ImuModel(model=name, gyro_bias_radps=0.02, rate_hz=123.0))  # type: ignore[arg-type]
        assert model.gyro_density == pytest.approx(row.gyro_density * pi / 180.0)
        assert model.accelerometer_density == pytest.approx(row.accelerometer_density * 9.80665e-6)
        assert model.range_radps == pytest.approx(row.gyro_range * pi / 180.0)
        assert (model.gyro_bias_radps, model.rate_hz, model.gyro_bias_walk) == (0.02, 123.0, 0.0)
        assert row.origin
    same = ImuModel(gyro_density=0.5)
    assert model_of(same) is same


def test_the_plain_unit_is_plain():
    assert type(imu_sensor(ImuModel(), NO_ARM, 1, "imu")) is Imu
    assert type(imu_sensor(ImuModel(gyro_step_radps=1e-3), NO_ARM, 1, "imu")) is DetailedImu


def test_the_low_pass_lets_slow_things_through_and_halves_the_power_at_its_edge():
    def amplitude(frequency_hz: float) -> float:
        keys: dict[str, Any] = {
            "vibration_mps2": 1.0,
            "vibration_hz": frequency_hz,
            "rate_hz": 2000.0,
        }
        motion = Motion(0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        found = rows(unit(accelerometer_bandwidth_hz=20.0, **keys), 4_000, motion)[2_000:, 2]
        return float(found.std() * sqrt(2.0))

    assert amplitude(1.0) == pytest.approx(1.0, abs=0.01)
    assert amplitude(20.0) == pytest.approx(sqrt(0.5), abs=0.03)
    assert amplitude(200.0) < 0.12
    still = rows(unit(accelerometer_bandwidth_hz=20.0), 3)
    assert still == pytest.approx(
        np.tile([0.0, 0.0, STANDARD_GRAVITY_MPS2, 0.0, 0.0, 0.0], (3, 1)), abs=1e-12
    )


def test_the_low_pass_takes_noise_away_with_the_signal():
    n, rate_hz = 20_000, 400.0
    found = rows(unit(gyro_density=1e-3, rate_hz=rate_hz, gyro_bandwidth_hz=30.0), n)[200:, 3:]
    gain = 1.0 - np.exp(-2.0 * pi * 30.0 / rate_hz)
    assert found.std(axis=0) == pytest.approx(
        [1e-3 * sqrt(rate_hz * gain / (2.0 - gain))] * 3, rel=0.05
    )
    assert allan_deviation(found, rate_hz, 1.0).mean() == pytest.approx(1e-3, rel=0.2), (
        "slow noise keeps its density"
    )


def test_scale_and_axes_differ_by_unit_and_have_their_spread():
    spin = Motion(0.0, 0.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0)
    errors = []
    for seed in range(600):
        found = rows(
            unit(seed, gyro_scale=0.01, accelerometer_scale=0.005, axis_misalignment_rad=0.002),
            1,
            spin,
        )[0]
        errors.append(
            [
                found[5] / 2.0 - 1.0,
                found[3] / 2.0,
                found[2] / STANDARD_GRAVITY_MPS2 - 1.0,
                found[0] / STANDARD_GRAVITY_MPS2,
            ]
        )
    spread = np.std(errors, axis=0)
    assert spread == pytest.approx([0.01, 0.002, 0.005, 0.002], rel=5.0 / sqrt(1_200))
    assert np.abs(np.mean(errors, axis=0) / spread).max() < 5.0 / sqrt(600)


def test_a_mounting_error_turns_what_is_felt():
    roll, pitch, yaw = 0.05, -0.03, 0.2
    motion = Motion(0.0, 0.0, 0.0, 0.0, 0.0, 0.7, 1.0, -2.0, 0.0, 0.0)
    found = rows(unit(mounting_error_rad=[roll, pitch, yaw]), 1, motion)[0]
    stands = Rotation.from_euler("ZYX", [yaw, pitch, roll])
    assert found[:3] == pytest.approx(
        stands.inv().apply([1.0, -2.0, STANDARD_GRAVITY_MPS2]), abs=1e-12
    )
    assert found[3:] == pytest.approx(stands.inv().apply([0.0, 0.0, 0.7]), abs=1e-12)


def test_steps_and_ranges_are_those_of_the_output():
    fine: dict[str, Any] = {"accelerometer_density": 5e-3, "gyro_density": 5e-4}
    found = rows(unit(accelerometer_step_mps2=0.05, gyro_step_radps=0.002, **fine), 400)
    counts = found / ([0.05] * 3 + [0.002] * 3)
    assert counts == pytest.approx(np.round(counts), abs=1e-9)
    assert len(np.unique(found[:, 3])) > 5
    exact = rows(unit(**fine), 400)
    assert np.abs(found - exact).max(axis=0) == pytest.approx([0.025] * 3 + [0.001] * 3, rel=0.1)

    hard = unit(accelerometer_step_mps2=0.5, range_mps2=9.0, range_radps=0.4)
    _, sample = hard.sample(START, Motion(0.0, 0.0, 0.0, 0.0, 0.0, -2.0, 0.0, 0.0, 0.0, 0.0))
    assert isinstance(sample, ImuSample)
    assert (sample.saturated, sample.specific_force_mps2[2], sample.angular_rate_radps[2]) == (
        True,
        9.0,
        -0.4,
    )
