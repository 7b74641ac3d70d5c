"""Sensor models of the twin: their statistics, their geometry and their streams."""

from itertools import islice
from math import exp, pi, remainder, sqrt

import msgspec
import numpy as np
import pytest

from sim_backend.plant.actuators import Actuators
from sim_backend.plant.interface import Motion, interpolate
from sim_backend.sensors import imu, noise
from sim_backend.sensors.drive_train import MotorStatusSensor
from sim_backend.sensors.gnss import Gnss
from sim_backend.sensors.heading import HeadingSensor
from sim_backend.sensors.imu import Imu
from sim_backend.sensors.interface import Sensor
from sim_backend.sensors.noise import GaussMarkov, Normals, stream
from sim_backend.sensors.truth import Truth
from tests.vehicles import make_drive
from vehicled.core.arrays import Array
from vehicled.core.messages import (
    CarrierSolution,
    FixType,
    GnssFix,
    GroundTruth,
    Heading,
    HeadingKind,
    ImuSample,
    MotorStatus,
)
from vehicled.core.messages.units import STANDARD_GRAVITY_MPS2
from vehicled.paths.datum import Datum
from vehicled.profile.schema import (
    GnssModel,
    HeadingModel,
    ImuModel,
    MotorStatusModel,
    Sim,
    TwinSteering,
)

START = 1_000_000_000
DATUM = Datum.from_degrees(43.07, -89.41, 230.0)
REST = Motion(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
TURN = Motion(10.0, -5.0, pi / 2, 2.0, 0.1, 0.5, 0.3, 1.0, -0.4, 71.04)
NOISELESS = {
    "accelerometer_density": 0.0,
    "gyro_density": 0.0,
    "accelerometer_bias_mps2": 0.0,
    "gyro_bias_radps": 0.0,
    "accelerometer_bias_walk": 0.0,
    "gyro_bias_walk": 0.0,
    "vibration_mps2": 0.0,
}
QUIET_GNSS = GnssModel(sigma_m=0.0, walk_sigma_m=0.0, velocity_sigma_mps=0.0, latency_jitter_ms=0.0)
DRIVE = make_drive(delay_s=0.0)
STEERING = TwinSteering(
    gain_rad=0.3, offset_rad=0.02, max_wheel_rad=0.3, rate_radps=1.0, delay_s=0.0
)


def imu_model(**noise: float) -> ImuModel:
    """An inertial unit with no error but those named."""
    return msgspec.convert(NOISELESS | noise, ImuModel)


def gnss(
    model: GnssModel,
    lever: tuple[float, float, float] = (0.0, 0.0, 0.0),
    seed: int = 1,
    entity: str = "gnss/GnssFix",
) -> Gnss:
    return Gnss(model, lever, DATUM, seed, entity, START, 10**18)


def take(sensor: Sensor, n: int, motion: Motion = REST) -> list[tuple[int, object]]:
    interval_ns = round(1e9 / sensor.rate_hz)
    return [sensor.sample(START + k * interval_ns, motion) for k in range(1, n + 1)]


def enu(fixes: list[tuple[int, object]]) -> Array:
    return np.array(
        [
            DATUM.to_enu(f.latitude_rad, f.longitude_rad, f.height_m)
            for _, f in fixes
            if isinstance(f, GnssFix)
        ]
    )


def imu_rows(samples: list[tuple[int, object]]) -> Array:
    return np.array(
        [
            [*s.specific_force_mps2, *s.angular_rate_radps]
            for _, s in samples
            if isinstance(s, ImuSample)
        ]
    )


def autocorrelation(x: Array, lag: int) -> float:
    x = x - x.mean()
    return float((x[:-lag] * x[lag:]).mean() / (x * x).mean())


# ------------------------------------------------------------------------------------------ streams


def test_a_stream_depends_on_seed_and_name_only():
    def draw(seed: int, entity: str) -> list[float]:
        return [float(value) for value in stream(seed, entity).standard_normal(4)]

    assert draw(7, "imu/ImuSample") == draw(7, "imu/ImuSample")
    assert len({tuple(draw(*key)) for key in [(7, "a"), (8, "a"), (7, "b"), (8, "b")]}) == 4
    # Pinned: another value would change every recorded run.
    assert draw(7, "imu/ImuSample") == pytest.approx(
        [-0.3103620088562704, -1.745508413437285, -1.1793036601344442, 1.4880729018391479]
    )


def test_streams_are_uncorrelated():
    rows = np.array(
        [
            stream(seed, name).standard_normal(20_000)
            for seed, name in [(1, "a"), (1, "b"), (2, "a"), (2, "b")]
        ]
    )
    assert np.abs(np.corrcoef(rows) - np.eye(4)).max() < 5.0 / sqrt(20_000)


def test_how_the_stream_is_cut_into_blocks_changes_nothing(monkeypatch: pytest.MonkeyPatch):
    def everything() -> list[object]:
        sensors: list[Sensor] = [
            Imu(ImuModel(), (0.1, 0.0, 0.0), 3, "imu"),
            gnss(GnssModel()),
            HeadingSensor(HeadingModel(), 3, "h"),
        ]
        return [take(sensor, 700, TURN) for sensor in sensors]

    whole = everything()
    for module in (noise, imu):
        monkeypatch.setattr(module, "BLOCK", 7)
    assert everything() == whole


def test_normals_are_normal():
    rows = np.array(list(islice(iter(Normals(stream(1, "n"), 3), None), 20_000)))
    assert np.abs(rows.mean(axis=0)).max() < 5.0 / sqrt(20_000)
    assert np.abs(rows.std(axis=0) - 1.0).max() < 5.0 / sqrt(40_000)
    assert np.abs(np.corrcoef(rows.T) - np.eye(3)).max() < 5.0 / sqrt(20_000)


@pytest.mark.parametrize("dt_s", [0.1, 1.0, 7.0])
def test_gauss_markov_is_exact_at_any_interval(dt_s: float):
    tau_s, n = 5.0, 60_000
    normals = stream(4, "gm").standard_normal(n + 1).tolist()
    process = GaussMarkov(0.5, tau_s, dt_s, normals[0])
    values = np.array([process.step(normal) for normal in normals[1:]])
    # Standard error of a variance over correlated samples: n phi-corrected independent ones.
    phi = exp(-dt_s / tau_s)
    independent = n * (1.0 - phi**2) / (1.0 + phi**2)
    assert values.std() == pytest.approx(0.5, rel=5.0 / sqrt(2.0 * independent))
    lag = max(1, round(5.0 / dt_s))
    assert autocorrelation(values, lag) == pytest.approx(
        exp(-lag * dt_s / tau_s), abs=5.0 / sqrt(independent)
    )


def test_gauss_markov_is_stationary_from_the_first_sample():
    first = [
        GaussMarkov(2.0, 60.0, 0.1, stream(seed, "gm").standard_normal()).value
        for seed in range(4_000)
    ]
    assert np.std(first) == pytest.approx(2.0, rel=5.0 / sqrt(8_000))


# --------------------------------------------------------------------------------------------- GNSS


def test_white_position_and_velocity_noise():
    n = 20_000
    fixes = take(
        gnss(
            GnssModel(sigma_m=0.02, walk_sigma_m=0.0, velocity_sigma_mps=0.05, hdop=1.0, vdop=2.0)
        ),
        n,
    )
    errors = enu(fixes)
    assert errors.std(axis=0) == pytest.approx([0.02, 0.02, 0.04], rel=5.0 / sqrt(2 * n))
    assert np.abs(errors.mean(axis=0)).max() < 5.0 * 0.04 / sqrt(n)
    assert max(abs(autocorrelation(errors[:, axis], 1)) for axis in range(3)) < 5.0 / sqrt(n)
    velocity = np.array([fix.velocity_enu_mps for _, fix in fixes if isinstance(fix, GnssFix)])
    assert velocity.std(axis=0) == pytest.approx([0.05, 0.05, 0.1], rel=5.0 / sqrt(2 * n))


def test_coloured_position_error_walks_in_time_whatever_the_rate():
    for rate_hz in (1.0, 10.0):
        n = round(5_000 * rate_hz)
        errors = enu(
            take(
                gnss(GnssModel(rate_hz=rate_hz, sigma_m=0.0, walk_sigma_m=0.5, walk_time_s=10.0)), n
            )
        )[:, 0]
        assert errors.std() == pytest.approx(0.5, rel=0.15)
        assert autocorrelation(errors, round(10.0 * rate_hz)) == pytest.approx(exp(-1.0), abs=0.1)


def test_reported_covariance_is_that_of_the_whole_error_and_never_zero():
    _, fix = gnss(
        GnssModel(sigma_m=0.3, walk_sigma_m=0.4, velocity_sigma_mps=0.05, hdop=1.0, vdop=2.0)
    ).sample(START, REST)
    assert np.reshape(fix.position_covariance_m2, (3, 3)) == pytest.approx(
        np.diag([0.25, 0.25, 1.0])
    )
    assert np.reshape(fix.velocity_covariance_m2ps2, (3, 3)) == pytest.approx(
        np.diag([0.0025, 0.0025, 0.01])
    )
    _, sure = gnss(QUIET_GNSS).sample(START, REST)
    assert np.reshape(sure.position_covariance_m2, (3, 3)) == pytest.approx(np.eye(3) * 1e-6)


def test_the_antenna_is_where_the_profile_puts_it():
    sensor = gnss(QUIET_GNSS, (0.4, 0.2, 0.7))
    _, fix = sensor.sample(START, TURN)
    # Heading north: forward is north, left is west.
    assert DATUM.to_enu(fix.latitude_rad, fix.longitude_rad, fix.height_m) == pytest.approx(
        (10.0 - 0.2, -5.0 + 0.4, 0.7), abs=1e-6
    )
    # Body velocity of the antenna: forward 2 - 0.5 * 0.2, left 0.1 + 0.5 * 0.4.
    assert fix.velocity_enu_mps == pytest.approx((-0.3, 1.9, 0.0), abs=1e-12)


def test_fix_fields_follow_the_carrier_solution():
    fixes = {
        carrier: gnss(GnssModel(carrier=carrier)).sample(START + 300_000_000, REST)[1]
        for carrier in ("none", "float", "fixed")
    }
    assert [fix.carrier for fix in fixes.values()] == [
        CarrierSolution.NONE,
        CarrierSolution.FLOAT,
        CarrierSolution.FIXED,
    ]
    assert [fix.differential for fix in fixes.values()] == [False, True, True]
    assert np.isnan(fixes["none"].correction_age_s)
    assert 0.0 < fixes["fixed"].correction_age_s < 2.0
    for fix in fixes.values():
        assert (fix.fix_type, fix.satellites, fix.hdop, fix.vdop) == (FixType.FIX_3D, 24, 0.7, 1.1)
        assert fix.utc_ns == 10**18 + 300_000_000
        assert (fix.t_ns, fix.t_rx_ns) == (START + 300_000_000, 0)


def test_arrival_is_validity_plus_latency_with_jitter_and_never_overtakes():
    arrivals = np.array(
        [t_rx for t_rx, _ in take(gnss(GnssModel(latency_ms=60.0, latency_jitter_ms=5.0)), 5_000)]
    )
    latency_ms = (arrivals - (START + np.arange(1, 5_001) * 100_000_000)) * 1e-6
    assert latency_ms.mean() == pytest.approx(60.0, abs=0.5)
    assert latency_ms.std() == pytest.approx(5.0, rel=0.1)
    wild = take(gnss(GnssModel(latency_ms=60.0, latency_jitter_ms=500.0)), 2_000)
    arrivals = np.array([t_rx for t_rx, _ in wild])
    assert (np.diff(arrivals) >= 0).all()
    assert all(t_rx >= fix.t_ns for t_rx, fix in wild if isinstance(fix, GnssFix))


# ---------------------------------------------------------------------------------------------- IMU


def test_specific_force_at_the_mounting():
    _, sample = Imu(imu_model(), (0.3, 0.2, 0.9), 1, "imu").sample(START, TURN)
    # a + rdot x l + r x (r x l), l = (0.3, 0.2), r = 0.5, rdot = -0.4.
    assert sample.specific_force_mps2 == pytest.approx(
        (0.3 + 0.4 * 0.2 - 0.25 * 0.3, 1.0 - 0.4 * 0.3 - 0.25 * 0.2, STANDARD_GRAVITY_MPS2),
        abs=1e-12,
    )
    assert sample.angular_rate_radps == (0.0, 0.0, 0.5)
    assert sample.saturated is False
    assert np.isnan(sample.temperature_k)


def test_specific_force_is_the_second_derivative_of_the_sensor_s_path():
    """A mounting point followed by finite differences, on an accelerating spiral: independent of
    the rigid-body formula."""
    lever = np.array([0.35, -0.15])

    dt = 1e-4
    t = np.arange(20_001) * dt
    yaw = 0.2 * t + 0.15 * t * t
    speed = 1.0 + 0.5 * t
    east, north = speed * np.cos(yaw), speed * np.sin(yaw)
    x, y = (np.append(0.0, np.cumsum(0.5 * (v[1:] + v[:-1]) * dt)) for v in (east, north))
    c, s = np.cos(yaw), np.sin(yaw)
    place = np.stack((x + c * lever[0] - s * lever[1], y + s * lever[0] + c * lever[1]))
    k = 10_000
    world = (place[:, k + 10] - 2 * place[:, k] + place[:, k - 10]) / (10 * dt) ** 2
    v, r = speed[k], 0.2 + 0.3 * t[k]
    motion = Motion(x[k], y[k], yaw[k], v, 0.0, r, 0.5, v * r, 0.3, 0.0)
    _, sample = Imu(imu_model(), (lever[0], lever[1], 0.0), 1, "imu").sample(START, motion)
    body = (c[k] * world[0] + s[k] * world[1], -s[k] * world[0] + c[k] * world[1])
    assert sample.specific_force_mps2[:2] == pytest.approx(body, abs=1e-4)


def test_white_noise_has_the_density_whatever_the_rate():
    for rate_hz in (100.0, 400.0):
        n = 20_000
        model = imu_model(rate_hz=rate_hz, accelerometer_density=2e-3, gyro_density=3e-4)
        rows = imu_rows(take(Imu(model, (0.0, 0.0, 0.0), 2, "imu"), n))
        expected = [2e-3 * sqrt(rate_hz)] * 3 + [3e-4 * sqrt(rate_hz)] * 3
        assert rows.std(axis=0) == pytest.approx(expected, rel=5.0 / sqrt(2 * n))
        assert max(abs(autocorrelation(rows[:, axis], 1)) for axis in range(6)) < 5.0 / sqrt(n)


def test_bias_at_switch_on_differs_by_seed_and_stays():
    model = imu_model(accelerometer_bias_mps2=0.02, gyro_bias_radps=0.001)
    biases = []
    for seed in range(1_500):
        rows = imu_rows(take(Imu(model, (0.0, 0.0, 0.0), seed, "imu"), 2))
        assert rows[0] == pytest.approx(rows[1], abs=1e-12)
        biases.append(rows[0] - [0.0, 0.0, STANDARD_GRAVITY_MPS2, 0.0, 0.0, 0.0])
    assert np.std(biases, axis=0) == pytest.approx([0.02] * 3 + [0.001] * 3, rel=5.0 / sqrt(3_000))


def test_bias_walks_with_the_square_root_of_time_across_blocks():
    model = imu_model(rate_hz=400.0, accelerometer_bias_walk=1e-3, gyro_bias_walk=1e-4)
    rows = imu_rows(take(Imu(model, (0.0, 0.0, 0.0), 5, "imu"), 40_000))
    steps = np.diff(rows, axis=0)
    assert steps.std(axis=0) == pytest.approx([1e-3 / 20.0] * 3 + [1e-4 / 20.0] * 3, rel=0.02)
    assert max(abs(autocorrelation(steps[:, axis], 1)) for axis in range(6)) < 0.03
    per_second = rows[400::400] - rows[:-400:400]
    assert per_second.std(axis=0) == pytest.approx([1e-3] * 3 + [1e-4] * 3, rel=0.4)


def test_vibration_grows_with_speed_and_has_its_frequency():
    model = imu_model(rate_hz=400.0, vibration_mps2=0.3, vibration_hz=37.0)

    def at(speed_mps: float) -> Array:
        motion = Motion(0.0, 0.0, 0.0, speed_mps, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        rows = imu_rows(take(Imu(model, (0.0, 0.0, 0.0), 1, "imu"), 4_000, motion))
        centred: Array = rows - rows.mean(axis=0)
        return centred

    slow, fast = at(1.0), at(2.5)
    assert np.abs(at(0.0)).max() < 1e-12
    assert sqrt(2.0) * slow.std(axis=0) == pytest.approx([0.15, 0.15, 0.3, 0.0, 0.0, 0.0], abs=1e-3)
    assert fast == pytest.approx(2.5 * slow, abs=1e-9)
    spectrum = np.abs(np.fft.rfft(slow[:, 2]))
    assert np.fft.rfftfreq(4_000, 1 / 400.0)[spectrum.argmax()] == pytest.approx(37.0)


def test_saturation_cuts_and_says_so():
    hard = ImuModel(range_mps2=9.0, range_radps=0.4, vibration_mps2=0.0)
    _, sample = Imu(hard, (0.0, 0.0, 0.0), 1, "imu").sample(START, TURN)
    assert sample.saturated is True
    assert sample.specific_force_mps2[2] == 9.0
    assert sample.angular_rate_radps[2] == 0.4


# ------------------------------------------------------------------------ heading, telemetry, truth


def test_heading_has_misalignment_noise_and_wraps():
    n = 20_000
    model = HeadingModel(sigma_rad=0.02, misalignment_rad=0.12, kind="magnetic")
    behind = Motion(0.0, 0.0, 5 * pi, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    headings = [
        message
        for _, message in take(HeadingSensor(model, 1, "h"), n, behind)
        if isinstance(message, Heading)
    ]
    yaw = np.array([heading.yaw_rad for heading in headings])
    assert np.abs(yaw).max() <= pi
    errors = np.angle(np.exp(1j * (yaw - pi)))
    assert errors.mean() == pytest.approx(0.12, abs=5 * 0.02 / sqrt(n))
    assert errors.std() == pytest.approx(0.02, rel=5 / sqrt(2 * n))
    assert (headings[0].sigma_rad, headings[0].kind) == (0.02, HeadingKind.MAGNETIC)


def test_heading_walks_in_time():
    ends = []
    for seed in range(400):
        model = HeadingModel(rate_hz=20.0, sigma_rad=0.0, walk_rad_per_root_s=0.02)
        ends.append([message for _, message in take(HeadingSensor(model, seed, "h"), 80)][-1])
    yaw = np.array([heading.yaw_rad for heading in ends if isinstance(heading, Heading)])
    assert yaw.std() == pytest.approx(0.02 * 2.0, rel=5 / sqrt(800))


def test_motor_status_is_quantised_and_late():
    twin = Sim(wheelbase_m=0.5, steering=STEERING, drive=DRIVE)
    actuators = Actuators(twin, START, 1_000_000)
    actuators.command(START, 0.6, 0.0, 0.0)
    actuators.step(START, 20.0)
    sensor = MotorStatusSensor(
        MotorStatusModel(
            latency_ms=4.0, speed_step_radps=0.5, voltage_step_v=0.1, current_step_a=0.2
        ),
        actuators,
    )
    t_rx_ns, status = sensor.sample(START + 1_000_000, TURN)
    assert isinstance(status, MotorStatus)
    assert t_rx_ns == START + 5_000_000
    assert status.motor_speed_radps == 71.0
    assert status.input_voltage_v == pytest.approx(8.4)
    assert status.duty == 0.6
    assert status.motor_current_a == pytest.approx(actuators.supply.motor_current_a, abs=0.1)
    assert status.motor_current_a / 0.2 == pytest.approx(round(status.motor_current_a / 0.2))
    assert np.isnan(status.motor_temperature_k)
    exact = MotorStatusSensor(MotorStatusModel(speed_step_radps=0.0), actuators)
    assert exact.sample(START, TURN)[1].motor_speed_radps == 71.04


def test_truth_is_the_truth():
    twin = Sim(
        wheelbase_m=0.5,
        steering=STEERING,
        drive=DRIVE,
    )
    turned = Motion(1.0, 2.0, 7.0, 1.5, 0.0, 0.25, 0.0, 0.0, 0.0, 0.0)
    t_rx_ns, truth = Truth(Actuators(twin, START, 1_000_000)).sample(START, turned)
    assert t_rx_ns == START
    assert truth == GroundTruth(START, 0, 1.0, 2.0, remainder(7.0, 2 * pi), 1.5, 0.25, 0.02, 8.4)


def test_interpolation_is_linear_and_keeps_the_accelerations_of_the_step():
    before = Motion(0.0, 1.0, 3.0, 2.0, 0.0, 0.1, 9.0, 9.0, 9.0, 60.0)
    after = Motion(1.0, 3.0, 3.4, 3.0, 0.2, 0.3, 1.0, 2.0, 3.0, 70.0)
    assert interpolate(before, after, 1.0) == after
    quarter = interpolate(before, after, 0.25)
    assert [quarter.x_m, quarter.y_m, quarter.yaw_rad, quarter.speed_mps] == pytest.approx(
        [0.25, 1.5, 3.1, 2.25]
    )
    assert [
        quarter.lateral_speed_mps,
        quarter.yaw_rate_radps,
        quarter.motor_speed_radps,
    ] == pytest.approx([0.05, 0.15, 62.5])
    assert (
        quarter.acceleration_mps2,
        quarter.lateral_acceleration_mps2,
        quarter.yaw_acceleration_radps2,
    ) == (1.0, 2.0, 3.0)
