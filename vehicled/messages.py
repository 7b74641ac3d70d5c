"""The message interface: everything that passes between drivers, tasks, log and simulator.

One frozen struct per message. The struct is the only definition: :mod:`vehicled.ros` derives the ROS 2 message text and the
CDR packer from it, and :mod:`drivers.msglink` carries it over the simulator link.

Conventions (REP-103, REP-105). SI units, named in the field: ``_m``, ``_mps``, ``_rad``, ``_ns``. World frame ENU on a local
tangent plane; body frame x forward, y left, z up, origin at the rear axle; yaw counter-clockwise from east; a positive steering
angle turns left. Degrees, compass headings and device units live inside codecs only.

Stamps are integer nanoseconds on the daemon's monotonic clock: ``t_ns`` is the time of validity, ``t_rx_ns`` the time the last
byte arrived. A value that a device did not give is NaN, never a plausible substitute.

Compatibility: fields are only ever appended, with a default. A reader older than the writer ignores what it does not know.
"""

from enum import IntEnum
from typing import Annotated

from msgspec import Meta, Struct

NAN = float("nan")

# The ROS 2 width of a field stands beside its range, so that one annotation serves both validation and the CDR layout.
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1, extra={"ros": "int64"})]
UInt32 = Annotated[int, Meta(ge=0, le=2**32 - 1, extra={"ros": "uint32"})]
UInt16 = Annotated[int, Meta(ge=0, le=2**16 - 1, extra={"ros": "uint16"})]
UInt8 = Annotated[int, Meta(ge=0, le=2**8 - 1, extra={"ros": "uint8"})]
Vector2 = Annotated[tuple[float, ...], Meta(min_length=2, max_length=2, extra={"ros": "float64[2]"})]
Vector3 = Annotated[tuple[float, ...], Meta(min_length=3, max_length=3, extra={"ros": "float64[3]"})]
Matrix3 = Annotated[tuple[float, ...], Meta(min_length=9, max_length=9, extra={"ros": "float64[9]"})]
Matrix4 = Annotated[tuple[float, ...], Meta(min_length=16, max_length=16, extra={"ros": "float64[16]"})]
Float64s = Annotated[tuple[float, ...], Meta(max_length=1_000_000, extra={"ros": "float64[]"})]

NAN3: tuple[float, ...] = (NAN,) * 3
NAN9: tuple[float, ...] = (NAN,) * 9


class Message(Struct, frozen=True, array_like=True, tag=True, gc=False):
    """Base of all messages: immutable, compact on the link, invisible to the garbage collector."""


class FixType(IntEnum):
    """Kind of GNSS solution, in increasing worth for a ground vehicle."""

    NONE = 0
    TIME = 1
    DEAD_RECKONING = 2
    FIX_2D = 3
    FIX_3D = 4


class CarrierSolution(IntEnum):
    """State of the RTK carrier-phase solution."""

    NONE = 0
    FLOAT = 1
    FIXED = 2


class GnssFix(Message, frozen=True):
    """Position and velocity of the GNSS antenna, WGS 84. Covariances ENU, row-major, NaN where unknown."""

    t_ns: Int64
    t_rx_ns: Int64
    latitude_rad: float
    longitude_rad: float
    height_m: float
    velocity_enu_mps: Vector3 = NAN3
    position_covariance_m2: Matrix3 = NAN9
    velocity_covariance_m2ps2: Matrix3 = NAN9
    fix_type: FixType = FixType.NONE
    carrier: CarrierSolution = CarrierSolution.NONE
    differential: bool = False
    correction_age_s: float = NAN
    satellites: UInt8 = 0
    hdop: float = NAN
    vdop: float = NAN
    utc_ns: Int64 = 0
    """UTC of validity since 1970; 0 when the receiver does not know it."""


class ImuSample(Message, frozen=True):
    """Specific force and angular rate at the sensor, rotated to the body axes (forward, left, up)."""

    t_ns: Int64
    t_rx_ns: Int64
    specific_force_mps2: Vector3
    angular_rate_radps: Vector3
    temperature_k: float = NAN
    saturated: bool = False


class HeadingKind(IntEnum):
    """Where a heading comes from, which decides how its error behaves."""

    INERTIAL = 0
    """Integrated gyro: drifts."""
    MAGNETIC = 1
    """Compass: bent by motors and iron."""
    MOVING_BASE = 2
    """Two GNSS antennas: no drift, noise by baseline."""


class Heading(Message, frozen=True):
    """Yaw of the body, counter-clockwise from east."""

    t_ns: Int64
    t_rx_ns: Int64
    yaw_rad: float
    sigma_rad: float
    kind: HeadingKind = HeadingKind.INERTIAL


class MotorStatus(Message, frozen=True):
    """What the motor controller reports of itself."""

    t_ns: Int64
    t_rx_ns: Int64
    motor_speed_radps: float = NAN
    motor_current_a: float = NAN
    input_current_a: float = NAN
    input_voltage_v: float = NAN
    duty: float = NAN
    controller_temperature_k: float = NAN
    motor_temperature_k: float = NAN
    fault_code: UInt8 = 0
    """0 is no fault; the driver's notes name the others."""


class WheelSpeed(Message, frozen=True):
    """Speed over ground at the rear axle as the wheels see it, positive forward."""

    t_ns: Int64
    t_rx_ns: Int64
    speed_mps: float
    sigma_mps: float


class SteeringFeedback(Message, frozen=True):
    """Measured angle of the virtual front wheel of the single-track model, positive left."""

    t_ns: Int64
    t_rx_ns: Int64
    wheel_angle_rad: float
    sigma_rad: float


class OperatorAction(IntEnum):
    """What a human, or the scenario that stands in for one, asks of the vehicle."""

    NONE = 0
    ARM = 1
    DRIVE = 2
    """Follow the course; needs ARM first."""
    STOP = 3
    """Controlled stop, stays armed."""
    DISARM = 4
    EMERGENCY_STOP = 5


class OperatorCommand(Message, frozen=True):
    """A request of the operator. Arming and driving pass the same checks whoever asks."""

    t_ns: Int64
    t_rx_ns: Int64
    action: OperatorAction
    origin: str = ""


class EstimatorStatus(IntEnum):
    """Whether the state estimate may be driven on."""

    UNINITIALISED = 0
    ALIGNING = 1
    RUNNING = 2
    DIVERGED = 3


class StateEstimate(Message, frozen=True):
    """State of the rear axle in the ``map`` frame. Covariance over (x, y, yaw, speed), row-major."""

    t_ns: Int64
    newest_input_ns: Int64
    """Time of validity of the newest measurement that entered; the age of every command counts from here."""
    x_m: float
    y_m: float
    yaw_rad: float
    speed_mps: float
    yaw_rate_radps: float
    covariance: Matrix4
    status: EstimatorStatus = EstimatorStatus.UNINITIALISED
    normalised_innovation_squared: float = NAN
    """Of the newest position update; chi-square with two degrees of freedom when the filter is consistent."""
    rejected: UInt32 = 0
    """Measurements refused by the gate since start."""


class ControlCommand(Message, frozen=True):
    """What the controller wants, in physical terms, and where it saw the vehicle on its path."""

    t_ns: Int64
    newest_input_ns: Int64
    wheel_angle_rad: float
    throttle: float
    """Share of full drive, 0 to 1."""
    brake: float
    """Share of full brake, 0 to 1."""
    target_speed_mps: float = NAN
    progress_m: float = NAN
    """Arc length of the reference point along the course."""
    cross_track_m: float = NAN
    """Positive when the vehicle is left of the path."""
    heading_error_rad: float = NAN
    curvature_per_m: float = NAN


class Reaction(IntEnum):
    """Graded reactions of the failsafe matrix; the most severe one wins."""

    NONE = 0
    WARN = 1
    """S0"""
    CAP_SPEED = 2
    """S1"""
    CONTROLLED_STOP = 3
    """S2"""
    BRAKE = 4
    """S3"""
    DISABLE = 5
    """S4: drive disabled and latched, brake applied."""


class Mode(IntEnum):
    """Modes of the daemon."""

    INIT = 0
    STANDBY = 1
    ARMED = 2
    AUTO = 3
    TELEOP = 4
    STOPPING = 5
    FAULT = 6


class ActuatorCommand(Message, frozen=True):
    """What goes to the actuators, normalised: the last thing before a device turns it into bytes."""

    t_ns: Int64
    newest_input_ns: Int64
    throttle: float
    brake: float
    steering: float
    """-1 to 1, positive left."""
    wheel_angle_rad: float
    """The wheel angle believed to follow from ``steering``."""
    mode: Mode = Mode.INIT
    reaction: Reaction = Reaction.NONE
    clipped: UInt8 = 0
    """Bits: 1 steering, 2 throttle, 4 brake were outside their limits and cut, 8 not finite and replaced by the brake."""


class Direction(IntEnum):
    """Of bytes on a port, seen from the daemon."""

    RX = 0
    TX = 1


class WireChunk(Message, frozen=True):
    """Bytes as they crossed a port."""

    t_ns: Int64
    port: str
    direction: Direction
    data: bytes


class Corrections(Message, frozen=True):
    """RTCM bytes for the GNSS receiver, unparsed."""

    t_ns: Int64
    t_rx_ns: Int64
    origin: str
    data: bytes


class Cause(IntEnum):
    """Why a release missed its deadline."""

    NONE = 0
    COMPUTE = 1
    """The task itself needed more CPU than its deadline allows."""
    BLOCKED = 2
    """The task gave up the processor: a blocking call."""
    PREEMPTED = 3
    """Another thread or process, or the hypervisor, had the processor."""
    GARBAGE_COLLECTION = 4
    PAGE_FAULT = 5
    QUEUED = 6
    """An earlier task of the same instant held the loop."""
    LOOP_HELD = 7
    """A callback of the runtime held the loop."""
    WAKE_UP = 8
    """The loop slept and the kernel woke it late."""
    DECLARED = 9
    """Simulated: the declared or injected costs do not fit."""
    UNKNOWN = 15


class TaskTick(Message, frozen=True):
    """One release of a fixed-rate task. Fixed size; ``task`` indexes the rate table in the log's header."""

    release_ns: Int64
    start_ns: Int64
    end_ns: Int64
    cpu_ns: Int64
    """Thread CPU time between start and end; -1 where it was not measured."""
    deadline_ns: Int64
    """Allowed response, relative to the release."""
    skipped: UInt32
    """Releases after this one that passed unrun because it was late."""
    task: UInt8
    missed: bool
    cause: Cause
    holder: UInt8
    """For QUEUED the task, for LOOP_HELD the runtime callback that held the loop; 255 otherwise."""


class Fault(Message, frozen=True):
    """Start or end of a fault episode, never one line per tick."""

    t_ns: Int64
    code: str
    origin: str
    reaction: Reaction
    active: bool
    reason: str


class Event(Message, frozen=True):
    """A line of the human event log, also sent to the journal of the system. ``fields`` is JSON."""

    t_ns: Int64
    level: str
    name: str
    fields: str


class PortState(IntEnum):
    """Life of a port."""

    OPENED = 0
    LOST = 1
    ERROR = 2


class PortEvent(Message, frozen=True):
    """A port opened, was lost, or could not be opened."""

    t_ns: Int64
    port: str
    state: PortState
    detail: str


class Path(Message, frozen=True):
    """The course being driven, sampled, in the ``map`` frame."""

    t_ns: Int64
    name: str
    closed: bool
    x_m: Float64s
    y_m: Float64s
    yaw_rad: Float64s
    curvature_per_m: Float64s
    speed_mps: Float64s


class GroundTruth(Message, frozen=True):
    """True state of the simulated vehicle. Logged and judged by, never given to a task."""

    t_ns: Int64
    t_rx_ns: Int64
    x_m: float
    y_m: float
    yaw_rad: float
    speed_mps: float
    yaw_rate_radps: float
    wheel_angle_rad: float
    battery_v: float = NAN


ALL: tuple[type[Message], ...] = (
    GnssFix, ImuSample, Heading, MotorStatus, WheelSpeed, SteeringFeedback, OperatorCommand, StateEstimate, ControlCommand,
    ActuatorCommand, WireChunk, Corrections, TaskTick, Fault, Event, PortEvent, Path, GroundTruth,
)  # fmt: skip
"""Every message type, in the order of the log's channels."""
