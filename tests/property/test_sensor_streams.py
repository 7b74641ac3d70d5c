"""Noise of the sensors advances in time: the same bytes for the same seed, whoever drives, however
time is cut, at any motion."""

from hashlib import sha256
from math import isfinite, isnan
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import astuple

from drivers.msglink.codec import encode
from sim_backend.plant.actuators import Actuators
from sim_backend.plant.interface import Motion
from sim_backend.sensors.drive_train import SteeringFeedbackSensor, WheelEncoders
from sim_backend.sensors.gnss import Gnss
from sim_backend.sensors.imu_detailed import imu_sensor
from sim_backend.sensors.interface import Sensor
from sim_backend.sensors.magnetometer import heading_sensor
from sim_backend.world import World, port_names
from tests.examples import examples
from vehicled.core.messages import ActuatorCommand, FixType, GnssFix, Message
from vehicled.paths.catalog import load_course
from vehicled.paths.datum import LOT_17
from vehicled.profile import load_profile
from vehicled.profile.gnss import ErrorModel, GnssModel, GnssZone, ReplayedError
from vehicled.profile.sensors import (
    HeadingModel,
    ImuModel,
    InertialUnit,
    Magnetometer,
    SteeringFeedbackModel,
    WheelEncodersModel,
)

START = 1_000_000_000
MS = 1_000_000
UTC = 1_767_225_600_000_000_000
ZONES = [
    GnssZone(effect="no_fix", center_m=[5.0, 0.0], radius_m=3.0),
    GnssZone(effect="float", from_s=0.3, until_s=0.6),
    GnssZone(effect="multipath", corners_m=[[-50.0, -50.0], [50.0, -50.0], [0.0, 50.0]]),
]
ACTUATORS = Actuators(load_profile("art_published").sim, START, MS)
REST = Motion(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def sensors(seed: int) -> dict[str, Sensor]:
    """One of each kind, every model and every unit."""
    arm = (0.3, -0.1, 0.8)
    with TemporaryDirectory() as folder:
        errors = Path(folder, "errors.csv")
        errors.write_text(
            "run,t_s,east_m,north_m\na,0,0.1,0.2\na,60,-0.1,0.3\nb,0,0.3,0\nb,60,0.2,0.1\n"
        )
        recorded = ReplayedError(file=str(errors))
        found: dict[str, Sensor] = {
            f"gnss {name}": Gnss(
                GnssModel(model=name, zones=ZONES, replayed=recorded),
                arm,
                LOT_17,
                seed,
                "g",
                START,
                UTC,
            )
            for name in get_args(ErrorModel)
        }
    axes: dict[str, Any] = {
        "gyro_scale": 0.01,
        "accelerometer_scale": 0.01,
        "axis_misalignment_rad": 0.002,
    }
    for name in get_args(InertialUnit):
        found[f"imu {name}"] = imu_sensor(ImuModel(model=name), arm, seed, "i")
    found["imu with axes"] = imu_sensor(ImuModel(model="bmi088", **axes), arm, seed, "i")
    compass = HeadingModel(
        kind="magnetic",
        walk_rad_per_root_s=0.01,
        magnetometer=Magnetometer(hard_iron_ut=[1.0, 2.0, 3.0]),
    )
    found["compass"] = heading_sensor(compass, ACTUATORS, LOT_17, seed, "h", UTC)
    found["heading"] = heading_sensor(HeadingModel(), ACTUATORS, LOT_17, seed, "h", UTC)
    found["wheels"] = WheelEncoders(WheelEncodersModel(wheel_radius_m=0.1), seed, "w")
    found["steering"] = SteeringFeedbackSensor(SteeringFeedbackModel(), ACTUATORS, seed, "s")
    return found


def digest(sensor: Sensor, motions: list[Motion]) -> str:
    found = sha256()
    interval_ns = round(1e9 / sensor.rate_hz)
    for k, motion in enumerate(motions, 1):
        ready_ns, message = sensor.sample(START + k * interval_ns, motion)
        found.update(ready_ns.to_bytes(8, "little") + encode(message))
    return found.hexdigest()


NAMES = sorted(sensors(1))


def test_the_same_seed_gives_the_same_bytes_and_another_one_others():
    digests = [
        {name: digest(sensor, [REST] * 300) for name, sensor in sensors(seed).items()}
        for seed in (7, 7, 8)
    ]
    assert digests[0] == digests[1]
    assert {name for name in NAMES if digests[0][name] == digests[2][name]} <= {"wheels"}, (
        "a counter at rest counts nothing"
    )


ROUNDING = {"imu bmi088", "imu mpu9250", "imu with axes"}


@pytest.mark.parametrize(
    "name", [name for name in NAMES if name.startswith("imu") and name not in ROUNDING]
)
def test_the_noise_of_a_unit_does_not_know_the_motion(name: str):
    """Its error at a sample is that sample's, whatever was driven before: linear parts subtract
    away."""
    driving = Motion(5.0, 3.0, 1.0, 0.0, 0.2, 0.5, 0.4, 1.0, -0.3, 20.0)
    with_it, without = sensors(3)[name], sensors(3)[name]
    quiet = imu_sensor(
        ImuModel(accelerometer_density=0.0, gyro_density=0.0, accelerometer_bias_mps2=0.0,
            gyro_bias_radps=0.0,
                 accelerometer_bias_walk=0.0, gyro_bias_walk=0.0), (0.3, -0.1, 0.8), 3, "i",
    )  # fmt: skip
    still_true, moving_true = (
        astuple(quiet.sample(START, motion)[1])[2:4] for motion in (REST, driving)
    )
    for k in range(1, 600):
        # The last hundred are at rest in both: a low pass has forgotten by then.
        motion = driving if k < 500 else REST
        a, b = (
            sensor.sample(START + k * 2_500_000, m)[1]
            for sensor, m in ((with_it, motion), (without, REST))
        )
        if 300 < k < 500 or k > 580:
            true = moving_true if k < 500 else still_true
            for reported, other, here, there in zip(
                astuple(a)[2:4], astuple(b)[2:4], true, still_true
            ):
                assert [x - y for x, y in zip(reported, other)] == pytest.approx(
                    [x - y for x, y in zip(here, there)], abs=1e-9
                )


PROFILE = load_profile(
    "art_published",
    [
        'devices.wheels={driver="msglink", messages=["WheelSpeed", "SteeringFeedback"]}',
        "sim.wheel_encoders={wheel_radius_m=0.0845}",
        "sim.steering_feedback={}",
        "sim.gnss.model=random_walk_airsim",
        'sim.gnss.zones=[{effect="float", from_s=0.2, until_s=0.4}]',
        "sim.imu.model=vn100",
        "sim.imu.rate_hz=200",
        "sim.heading.kind=magnetic",
        "sim.heading.magnetometer={}",
    ],
)
COURSE = load_course("circle_r5_ccw")
SENSED = [port_names(PROFILE).index(name) for name in ("gnss", "imu", "heading", "wheels")]


def world_digest(instants: list[int], command_ms: int) -> str:
    """Return half a second of a standing vehicle's sensor output for the given query and command
    times."""
    world, found = World(PROFILE, COURSE, 5, START), sha256()
    drive = port_names(PROFILE).index("drive")
    until_ns = START + 500 * MS
    commands = list(range(START, until_ns, command_ms * MS))
    for to_ns in [*sorted(START + t for t in instants), until_ns]:
        while commands and commands[0] < to_ns:
            world.on_frame(
                drive, commands[0], encode(ActuatorCommand(commands.pop(0), 0, 0.0, 0.0, 0.0, 0.0))
            )
        for t_rx_ns, port, data in world.advance(to_ns):
            if port in SENSED:
                found.update(t_rx_ns.to_bytes(8, "little") + bytes([port]) + data)
    return found.hexdigest()


WHOLE = world_digest([], 10)


def test_the_control_rate_changes_no_sensor():
    assert {world_digest([], command_ms) for command_ms in (1, 3, 10, 50)} == {WHOLE}


@examples(15)
@given(st.lists(st.integers(0, 500 * MS), max_size=60), st.sampled_from([5, 20]))
def test_how_time_is_cut_changes_no_sensor(instants: list[int], command_ms: int):
    assert world_digest(instants, command_ms) == WHOLE


REAL = st.floats(-1e6, 1e6)
ANGLE = st.floats(-10.0, 10.0)
SMALL = st.floats(-1e3, 1e3)
MOTIONS = st.builds(
    Motion, REAL, REAL, ANGLE, SMALL, SMALL, SMALL, SMALL, SMALL, SMALL, SMALL,
    z_m=st.floats(-1e4, 1e4), roll_rad=ANGLE, pitch_rad=ANGLE, roll_rate_radps=SMALL,
    pitch_rate_radps=SMALL, roll_acceleration_radps2=SMALL, pitch_acceleration_radps2=SMALL,
    vertical_acceleration_mps2=SMALL, wheel_speeds_radps=st.tuples(SMALL, SMALL, SMALL, SMALL),
)  # fmt: skip


@examples(40)
@given(st.lists(MOTIONS, min_size=1, max_size=6), st.integers(0, 2**32 - 1))
def test_whatever_the_vehicle_does_the_sensors_give_finite_numbers(
    motions: list[Motion], seed: int
):
    for name, sensor in sensors(seed).items():
        for k, motion in enumerate(motions, 1):
            ready_ns, message = sensor.sample(START + k * round(1e9 / sensor.rate_hz), motion)
            assert ready_ns >= message.t_ns  # type: ignore[attr-defined]
            for value in _numbers(message):
                assert isfinite(value), (name, message)


def _numbers(message: Message) -> list[float]:
    """Every number that is not left open on purpose: an IMU has no thermometer, and without a fix
    only time is known."""
    flat: list[float] = []
    if isinstance(message, GnssFix) and message.fix_type is FixType.NONE:
        assert isnan(message.latitude_rad)
        return [message.hdop, message.vdop]
    open_ends = {"temperature_k", "correction_age_s"}
    for field in message.__struct_fields__:
        value = getattr(message, field)
        if field not in open_ends:
            flat += list(value) if isinstance(value, tuple) else [float(value)]
    return flat
