"""Wheel encoders, steering feedback and compass of the twin; the field of the earth; how the world
finds them all."""

from math import atan2, degrees, hypot, pi, radians, remainder, sin, sqrt
from typing import Any

import numpy as np
import pytest

from drivers.msglink.codec import MsglinkDecoder, encode
from sim_backend.plant.actuators import Actuators
from sim_backend.plant.interface import Motion
from sim_backend.sensors.drive_train import SteeringFeedbackSensor, WheelEncoders
from sim_backend.sensors.geomagnetism import earth_field_ut, year_of
from sim_backend.sensors.heading import HeadingSensor
from sim_backend.sensors.magnetometer import MagneticHeading, heading_sensor
from sim_backend.world import World, port_names
from vehicled.core.arrays import Array
from vehicled.core.messages import (
    ActuatorCommand,
    GroundTruth,
    Message,
    SteeringFeedback,
    WheelSpeed,
)
from vehicled.paths.catalog import load_course
from vehicled.paths.datum import LOT_17, Datum
from vehicled.profile import load_profile
from vehicled.profile.schema import Profile
from vehicled.profile.sensors import (
    HeadingModel,
    Magnetometer,
    SteeringFeedbackModel,
    WheelEncodersModel,
)

START = 1_000_000_000
SECOND = 1_000_000_000
MS = 1_000_000
UTC = 1_767_225_600_000_000_000
REST = Motion(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def actuators() -> Actuators:
    return Actuators(load_profile("art_published").sim, START, MS)


def rolling(*wheels_radps: float) -> Motion:
    return Motion(
        0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0,
        wheel_speeds_radps=(wheels_radps[0], wheels_radps[1], wheels_radps[2], wheels_radps[3]),
    )  # fmt: skip


# ------------------------------------------------------------------------------------------- wheels


def encoders(**keys: Any) -> WheelEncoders:
    return WheelEncoders(
        WheelEncodersModel(**({"wheel_radius_m": 0.1} | keys)), 1, "drive/WheelSpeed"
    )


def test_counts_are_whole_steps_of_the_angle_of_each_wheel():
    sensor = encoders(pulses_per_revolution=16, gear=2.0, rate_hz=100.0)
    for k in range(1, 1_001):
        sensor.sample(START + k * 10 * MS, rolling(1.0, 2.0, -3.0, 0.0))
    # The first interval begins at rest, so half of it is lost.
    turned_rad = np.array([1.0, 2.0, -3.0, 0.0]) * (10.0 - 0.005)
    assert np.abs(np.array(sensor.counts) - turned_rad * 32 / (2.0 * pi)).max() <= 1.0
    assert sensor.counts[3] == 0


def test_speed_is_quantised_without_bias_and_its_sigma_is_that_of_the_rounding():
    sensor = encoders(pulses_per_revolution=64, gear=1.0, rate_hz=50.0, wheels="rear")
    chance = np.random.default_rng(1)
    speeds = chance.uniform(0.0, 60.0, (5_000, 2))
    found = []
    for k, (left, right) in enumerate(speeds.tolist()):
        t_rx_ns, message = sensor.sample(START + k * 20 * MS, rolling(0.0, 0.0, left, right))
        assert isinstance(message, WheelSpeed)
        assert t_rx_ns == message.t_ns + 2 * MS
        found.append(message.speed_mps)
    means = 0.5 * (speeds[1:] + speeds[:-1]).mean(axis=1)
    errors = np.array(found[1:]) - 0.1 * means
    # Two wheels halve a step; radius, counts and rate make it.
    step_mps = 0.1 * 2.0 * pi / 64 * 50.0 / 2.0
    assert np.array(found) / step_mps == pytest.approx(
        np.round(np.array(found) / step_mps), abs=1e-9
    )
    assert abs(errors.mean()) < 1e-3
    assert message.sigma_mps == pytest.approx(errors.std(), rel=0.1)


def test_wheels_that_are_counted_are_those_asked_for_and_locked_wheels_stand():
    moving = rolling(10.0, 10.0, 0.0, 0.0)
    for wheels, expected in (("front", 1.0), ("rear", 0.0), ("all", 0.5)):
        sensor = encoders(wheels=wheels, pulses_per_revolution=4096)
        for k in range(3):
            _, message = sensor.sample(START + k * 20 * MS, moving)
        assert message.speed_mps == pytest.approx(expected, abs=0.01)


def test_steering_feedback_has_offset_noise_and_steps():
    held = actuators()
    held.wheel_angle_rad = 0.1
    exact = SteeringFeedbackSensor(
        SteeringFeedbackModel(sigma_rad=0.0, step_rad=0.0, offset_rad=0.02), held, 1, "s"
    )
    t_rx_ns, message = exact.sample(START, REST)
    assert (t_rx_ns, message.t_ns, message.sigma_rad) == (START + 2 * MS, START, 1e-4)
    assert message.wheel_angle_rad == pytest.approx(0.12)
    noisy = SteeringFeedbackSensor(
        SteeringFeedbackModel(sigma_rad=0.004, step_rad=0.002), held, 1, "s"
    )
    found = np.array([noisy.sample(START, REST)[1].wheel_angle_rad for _ in range(4_000)])
    assert found / 0.002 == pytest.approx(np.round(found / 0.002), abs=1e-9)
    assert found.mean() == pytest.approx(0.1, abs=5 * 0.0041 / sqrt(4_000))
    assert found.std() == pytest.approx(noisy.sample(START, REST)[1].sigma_rad, rel=0.06)


# ------------------------------------------------------------------------------------------ compass

# NOAA's own test values of WMM2025: year, height km, latitude, longitude deg, north, east, down nT.
NOAA = [
    (2025.0, 0.0, 80.0, 0.0, 6521.6, 145.9, 54791.5),
    (2025.0, 0.0, 0.0, 120.0, 39677.8, -109.6, -10580.2),
    (2025.0, 0.0, -80.0, 240.0, 6117.5, 15751.9, -52022.5),
    (2025.0, 100.0, 80.0, 0.0, 6216.0, 92.4, 52598.8),
    (2025.0, 100.0, 0.0, 120.0, 37688.6, -96.2, -10152.1),
    (2025.0, 100.0, -80.0, 240.0, 5907.6, 14780.3, -49540.7),
    (2027.5, 0.0, 80.0, 0.0, 6500.8, 294.5, 54869.4),
    (2027.5, 0.0, 0.0, 120.0, 39701.6, -167.4, -10381.8),
    (2027.5, 0.0, -80.0, 240.0, 6200.7, 15730.3, -51783.7),
    (2025.0, 65.0, 43.0, 93.0, 24299.9, 210.5, 50037.9),
]


@pytest.mark.parametrize("row", NOAA)
def test_the_field_is_that_of_the_model_s_own_test_values(row: tuple[float, ...]):
    year, height_km, latitude, longitude, north, east, down = row
    found = earth_field_ut(radians(latitude), radians(longitude), 1e3 * height_km, year)
    assert found == pytest.approx((1e-3 * east, 1e-3 * north, -1e-3 * down), abs=1e-4)


def test_the_field_is_finite_at_the_poles():
    for latitude in (90.0, -90.0):
        assert all(abs(part) < 70.0 for part in earth_field_ut(radians(latitude), 1.0, 0.0, 2026.0))
    assert year_of(UTC) == pytest.approx(2026.0, abs=2 / 365)


def compass(
    heading: dict[str, Any] | None = None, motor: Actuators | None = None, **keys: Any
) -> MagneticHeading:
    """A compass with no error but those named."""
    options: dict[str, Any] = {
        "kind": "magnetic",
        "sigma_rad": 0.0,
        "magnetometer": Magnetometer(**({"sigma_ut": 0.0} | keys)),
    }
    model = HeadingModel(**(options | (heading or {})))
    sensor = heading_sensor(model, motor or actuators(), LOT_17, 1, "imu/Heading", UTC)
    assert isinstance(sensor, MagneticHeading)
    return sensor


def yaw_error(sensor: MagneticHeading, yaw_rad: float, **keys: Any) -> float:
    motion = Motion(0.0, 0.0, yaw_rad, 0.0, 0.0, 0.0, keys.pop("ahead", 0.0), 0.0, 0.0, 0.0, **keys)
    return remainder(sensor.sample(START, motion)[1].yaw_rad - yaw_rad, 2.0 * pi)


def test_an_undisturbed_compass_finds_the_yaw_standing_level_or_leaning():
    for yaw_rad in np.linspace(-7.0, 7.0, 15).tolist():
        assert yaw_error(compass(), yaw_rad) == pytest.approx(0.0, abs=1e-12)
        assert yaw_error(compass(), yaw_rad, roll_rad=0.2, pitch_rad=-0.15) == pytest.approx(
            0.0, abs=1e-12
        )


def test_hard_iron_pulls_once_per_turn_and_soft_iron_twice():
    yaws = np.linspace(0.0, 2.0 * pi, 72, endpoint=False)
    horizontal = hypot(*compass().field_ut[:2])

    def harmonics(**keys: Any) -> Array:
        errors = np.array([yaw_error(compass(**keys), yaw_rad) for yaw_rad in yaws.tolist()])
        found: Array = np.abs(np.fft.rfft(errors))[:4] / 36.0
        return found

    assert harmonics(hard_iron_ut=[0.5, 0.0, 0.0])[1] == pytest.approx(0.5 / horizontal, rel=0.01)
    soft = harmonics(soft_iron=[[1.04, 0.0, 0.0], [0.0, 0.96, 0.0], [0.0, 0.0, 1.0]])
    assert soft[2] == pytest.approx(0.04, rel=0.02)
    assert soft[1] < 1e-6


def test_the_motor_s_current_bends_it():
    motor = actuators()
    assert yaw_error(compass(motor=motor, current_ut_per_a=[0.0, 0.2, 0.0]), 0.0) == pytest.approx(
        0.0, abs=1e-12
    )
    motor.supply.motor_current_a = 10.0
    expected = atan2(2.0 + compass().field_ut[1], compass().field_ut[0]) - atan2(
        compass().field_ut[1], compass().field_ut[0]
    )
    assert yaw_error(compass(motor=motor, current_ut_per_a=[0.0, 0.2, 0.0]), 0.0) == pytest.approx(
        -expected, abs=1e-12
    )


def test_a_wrong_declination_turns_every_yaw_by_it():
    east, north, _ = compass().field_ut
    declination = atan2(east, north)
    assert degrees(declination) == pytest.approx(-2.95, abs=0.1), (
        "Madison, Wisconsin, 2026: three degrees west"
    )
    assert yaw_error(compass(assumed_declination_rad=0.0), 1.0) == pytest.approx(declination)


def test_acceleration_tilts_its_level_and_the_dip_turns_that_into_yaw():
    _, north, up = compass().field_ut
    still, moving = compass(level_time_s=0.0), compass(level_time_s=0.0)
    ahead = 1.0
    expected = atan2(ahead, 9.80665) * -up / north
    assert abs(yaw_error(still, 0.0)) < 1e-12
    assert abs(yaw_error(moving, 0.0, ahead=ahead)) == pytest.approx(expected, rel=0.05)
    slow = compass(level_time_s=10.0)
    yaw_error(slow, 0.0)
    assert abs(yaw_error(slow, 0.0, ahead=ahead)) < 0.02 * expected


def test_noise_and_what_is_reported_of_it():
    sensor = compass({"sigma_rad": 0.01}, sigma_ut=0.3)
    errors = np.array([yaw_error(sensor, 0.4) for _ in range(4_000)])
    reported = sensor.sample(START, REST)[1].sigma_rad
    assert errors.std() == pytest.approx(reported, rel=5 / sqrt(8_000))
    assert reported == pytest.approx(hypot(0.01, 0.3 / hypot(*sensor.field_ut[:2])))


def test_without_a_magnetometer_the_heading_is_the_plain_one():
    for model in (HeadingModel(kind="magnetic"), HeadingModel(magnetometer=Magnetometer())):
        assert isinstance(
            heading_sensor(model, actuators(), Datum(0.0, 0.0), 1, "h", UTC), HeadingSensor
        )


# -------------------------------------------------------------------------------------------- world


def drive(profile: Profile, seconds: int) -> list[Message]:
    """Messages of a world with commands to drive round a bend."""
    world = World(profile, load_course("lot17"), 1, START)
    drive_port = port_names(profile).index("drive")
    found: list[Message] = []
    for now_ns in range(START, START + seconds * SECOND, 20 * MS):
        world.on_frame(drive_port, now_ns, encode(ActuatorCommand(now_ns, 0, 0.5, 0.0, 0.3, 0.0)))
        found += [
            message
            for _, _, data in world.advance(now_ns + 20 * MS)
            for message in MsglinkDecoder().feed(data)
        ]
    return found


def test_the_world_has_encoders_and_steering_feedback_where_the_profile_has_them():
    extra = 'devices.wheels={driver="msglink", messages=["WheelSpeed", "SteeringFeedback"]}'
    profile = load_profile(
        "art_published",
        [extra, "sim.wheel_encoders={wheel_radius_m=0.08451952624}", "sim.steering_feedback={}"],
    )
    found = drive(profile, 4)
    truths = {message.t_ns: message for message in found if isinstance(message, GroundTruth)}
    speeds = [message for message in found if isinstance(message, WheelSpeed)]
    angles = [message for message in found if isinstance(message, SteeringFeedback)]
    assert len(speeds) == len(angles) == 199
    for speed in speeds[50:]:
        assert speed.speed_mps == pytest.approx(
            truths[speed.t_ns].speed_mps, abs=0.02 + 4 * speed.sigma_mps
        )
    for angle in angles[50:]:
        assert angle.wheel_angle_rad == pytest.approx(truths[angle.t_ns].wheel_angle_rad, abs=0.01)
    assert max(speed.speed_mps for speed in speeds) > 0.5
    assert sin(angles[-1].wheel_angle_rad) > 0.05
    assert not [
        m
        for m in drive(load_profile("art_published", [extra]), 1)
        if isinstance(m, WheelSpeed | SteeringFeedback)
    ]
