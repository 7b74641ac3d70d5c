"""Sensors of the twin except the GNSS receiver.

Tables ``[sim.imu]``, ``[sim.heading]``, ``[sim.motor_status]``, ``[sim.wheel_encoders]``,
``[sim.steering_feedback]`` and ``[sim.reference]``."""

from typing import Annotated, Literal

from msgspec import Meta, field

from vehicled.core.vehicle import NonNegative, Positive
from vehicled.profile.table import Rate, Table, Vector3

Angle = Annotated[float, Meta(ge=-3.15, le=3.15)]
SmallShare = Annotated[float, Meta(ge=0.0, le=0.5)]
InertialUnit = Literal[
    "table",
    "3dm_cv5",
    "3dm_gx5_25",
    "bmi088",
    "bno085",
    "mpu9250",
    "mti_1",
    "mti_10",
    "mti_100",
    "mti_630",
    "n100",
    "vn100",
]


class ImuModel(Table, frozen=True, kw_only=True):
    """Inertial unit of the twin."""

    model: InertialUnit = "table"
    """``table``: the numbers here. Else a data sheet: its densities, instabilities, bandwidths,
    ranges and steps are used in place of these, and no bias walk; rates, switch-on bias, scale,
    axes and vibration stay those of the table."""
    rate_hz: Rate = 400.0
    """Samples per second, Hz."""
    latency_ms: NonNegative = 0.5
    """Time from the measurement to its last byte, ms."""
    accelerometer_density: NonNegative = 1.2e-3
    """White noise, m/s2 per root Hz."""
    gyro_density: NonNegative = 1.2e-4
    """White noise, rad/s per root Hz."""
    accelerometer_bias_mps2: NonNegative = 0.02
    """Standard deviation of the bias at switch-on, per axis."""
    gyro_bias_radps: NonNegative = 0.001
    """Standard deviation of the bias at switch-on, rad/s per axis."""
    accelerometer_bias_walk: NonNegative = 1e-4
    """m/s2 per root second."""
    gyro_bias_walk: NonNegative = 1e-5
    """rad/s per root second."""
    accelerometer_instability_mps2: NonNegative = 0.0
    """Bias instability: the floor of the Allan deviation, as data sheets give it."""
    gyro_instability_radps: NonNegative = 0.0
    """Bias instability of the gyro, rad/s: the flat part of the Allan deviation."""
    accelerometer_bandwidth_hz: NonNegative = 0.0
    """Bandwidth of a first-order low pass at the output; 0: none."""
    gyro_bandwidth_hz: NonNegative = 0.0
    """Bandwidth of the gyro's low-pass, Hz; 0 for none."""
    accelerometer_scale: SmallShare = 0.0
    """Standard deviation of the scale factor's error, per axis; drawn at switch-on."""
    gyro_scale: SmallShare = 0.0
    """Standard deviation of the gyro's scale error, of 1."""
    axis_misalignment_rad: SmallShare = 0.0
    """Standard deviation of each axis' lean towards each of the others; drawn at switch-on."""
    mounting_error_rad: Vector3 = field(default_factory=lambda: [0.0, 0.0, 0.0])
    """Roll, pitch, yaw between the true mounting and the one in the driver's parameters."""
    vibration_mps2: NonNegative = 0.3
    """Amplitude at 1 m/s, growing with speed."""
    vibration_hz: Positive = 37.0
    """Frequency of the vibration, Hz."""
    range_mps2: Positive = 156.9
    """Range of the accelerometer, m/s2; beyond it samples saturate."""
    range_radps: Positive = 34.9
    """Range of the gyro, rad/s; beyond it samples saturate."""
    accelerometer_step_mps2: NonNegative = 0.0
    """Quantisation; 0: none."""
    gyro_step_radps: NonNegative = 0.0
    """Resolution of the gyro, rad/s; 0 for none."""


class Magnetometer(Table, frozen=True, kw_only=True):
    """A compass: the field of the earth at the course's datum (WMM2025), bent by the vehicle, seen
    by three axes, levelled by accelerometers. ``measured = soft_iron field + hard_iron +
    noise``."""

    sigma_ut: NonNegative = 0.3
    """White noise per axis, microtesla."""
    hard_iron_ut: Vector3 = field(default_factory=lambda: [0.0, 0.0, 0.0])
    """Residual field of the vehicle's own magnets, body axes."""
    current_ut_per_a: Vector3 = field(default_factory=lambda: [0.0, 0.0, 0.0])
    """Field of the motor's cables."""
    soft_iron: Annotated[list[Vector3], Meta(min_length=3, max_length=3)] = field(
        default_factory=lambda: [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    )
    """Rows of a matrix; the identity without soft iron."""
    assumed_declination_rad: Angle | None = None
    """Declination that the device subtracts; omitted: the true one."""
    level_time_s: NonNegative = 1.0
    """Over which its accelerometers are averaged to find the level."""


class HeadingModel(Table, frozen=True, kw_only=True):
    """Heading output of the twin: truth + misalignment + white noise + slow walk. With ``kind =
    "magnetic"`` and a ``magnetometer`` a compass takes the place of truth."""

    rate_hz: Rate = 20.0
    """Headings per second, Hz."""
    latency_ms: NonNegative = 5.0
    """Time from the measurement to its last byte, ms."""
    sigma_rad: NonNegative = 0.01
    """White noise, rad."""
    misalignment_rad: Angle = 0.0
    """Constant mounting error, rad."""
    walk_rad_per_root_s: NonNegative = 0.0
    """Random walk, rad per root second."""
    kind: Literal["inertial", "magnetic", "moving_base"] = "moving_base"
    """Kind of the device."""
    magnetometer: Magnetometer | None = None
    """Errors of a compass."""


class MotorStatusModel(Table, frozen=True, kw_only=True):
    """Telemetry of the motor controller of the twin."""

    rate_hz: Rate = 50.0
    """Frames per second, Hz."""
    latency_ms: NonNegative = 4.0
    """Time from the measurement to its last byte, ms."""
    speed_step_radps: NonNegative = 0.1
    """Quantisation of the motor speed."""
    voltage_step_v: NonNegative = 0.1
    """Resolution of the voltage, V."""
    current_step_a: NonNegative = 0.1
    """Resolution of the currents, A."""


class WheelEncodersModel(Table, frozen=True, kw_only=True):
    """Encoders of the twin: each counts whole steps of its wheel's angle; the reported speed is the
    mean over the wheels."""

    rate_hz: Rate = 50.0
    """Speeds per second, Hz."""
    latency_ms: NonNegative = 2.0
    """Time from the measurement to its last byte, ms."""
    wheels: Literal["front", "rear", "all"] = "rear"
    """Wheels with an encoder."""
    pulses_per_revolution: Annotated[int, Meta(ge=1, le=1_000_000)] = 16
    """Counts per revolution of the encoder's shaft."""
    gear: Positive = 120.0
    """Revolutions of the encoder's shaft per revolution of the wheel."""
    wheel_radius_m: Positive
    """Wheel radius that converts counts to metres; wear and load change the tyre's own."""


class SteeringFeedbackModel(Table, frozen=True, kw_only=True):
    """Sensor of the wheel angle of the twin: truth + offset + white noise, quantised."""

    rate_hz: Rate = 50.0
    """Angles per second, Hz."""
    latency_ms: NonNegative = 2.0
    """Time from the measurement to its last byte, ms."""
    offset_rad: Annotated[float, Meta(ge=-0.5, le=0.5)] = 0.0
    """Constant error, rad."""
    sigma_rad: NonNegative = 0.002
    """White noise, rad."""
    step_rad: NonNegative = 0.0015
    """0.09 degree: twelve bits over a turn. 0: none."""


class ReferenceModel(Table, frozen=True, kw_only=True):
    """Reference system of the twin: an INS with RTK that judges the vehicle. Errors per axis: white
    noise, a first-order Gauss-Markov process, and a constant."""

    rate_hz: Rate = 50.0
    """States per second, Hz."""
    latency_ms: NonNegative = 5.0
    """Time from the measurement to its last byte, ms."""
    position_sigma_m: NonNegative = 0.005
    """White noise of the position; twice as much upwards, like the drift."""
    position_drift_m: NonNegative = 0.01
    """Standard deviation of the Gauss-Markov process of the position."""
    position_drift_s: Positive = 100.0
    """Correlation time of the position's coloured error, s."""
    lever_arm_error_m: Vector3 = field(default_factory=lambda: [0.0, 0.0, 0.0])
    """True output point minus the one in ``lever_arm_m``: forward, left, up."""
    velocity_sigma_mps: NonNegative = 0.01
    """White noise of the velocity, m/s per axis."""
    heading_sigma_rad: NonNegative = 0.001
    """White noise of the yaw."""
    heading_drift_rad: NonNegative = 0.001
    """Standard deviation of the heading's coloured error, rad."""
    heading_drift_s: Positive = 100.0
    """Correlation time of the heading's coloured error, s."""
    misalignment_rad: Angle = 0.0
    """Constant error of the yaw: the unit's mounting."""
    declared_share: Positive = 1.0
    """Declared standard deviations over those of noise and drift together."""
    carrier: Literal["none", "float", "fixed"] = "fixed"
    """Carrier solution that it reports."""


class MocapModel(Table, frozen=True, kw_only=True):
    """Motion capture system of the twin: the pose of the vehicle in the map, with white noise and
    constant errors of its calibration."""

    rate_hz: Rate = 100.0
    """Frames per second, Hz."""
    latency_ms: NonNegative = 6.0
    """Time from the exposure to the arrival, ms."""
    latency_jitter_ms: NonNegative = 0.5
    """Mean of the exponential part of the latency, ms."""
    position_sigma_m: NonNegative = 0.0005
    """White noise of the position, m per horizontal axis."""
    yaw_sigma_rad: NonNegative = 0.002
    """White noise of the yaw, rad."""
    offset_m: Annotated[list[float], Meta(min_length=2, max_length=2)] = field(
        default_factory=lambda: [0.0, 0.0]
    )
    """Constant error of the position: east, north."""
    misalignment_rad: Angle = 0.0
    """Constant error of the yaw: the body was defined while the vehicle stood askew."""
