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

from vehicled.messages.base import (
    NAN,
    NAN3,
    NAN9,
    Float64s,
    Int64,
    Matrix3,
    Matrix4,
    Message,
    UInt8,
    UInt16,
    UInt32,
    Vector2,
    Vector3,
)
from vehicled.messages.decisions import (
    ActuatorCommand,
    ControlCommand,
    ControlLevel,
    ControlReason,
    CourseCommand,
    EstimatorStatus,
    Heartbeat,
    Identification,
    Mode,
    OperatorAction,
    OperatorCommand,
    ParameterCommand,
    Reaction,
    Setpoint,
    SpeedCommand,
    StateEstimate,
    TeleopCommand,
    largest_variance,
)
from vehicled.messages.records import (
    Cause,
    Direction,
    Event,
    Fault,
    GarbageCollection,
    HostHealth,
    MachineCall,
    ModeChange,
    Path,
    PortEvent,
    PortState,
    TaskTick,
    Verb,
    WireChunk,
)
from vehicled.messages.sensors import (
    CarrierSolution,
    Corrections,
    FixType,
    GnssFix,
    GroundTruth,
    Heading,
    HeadingKind,
    ImuSample,
    LaserScan,
    MotorStatus,
    ObstacleRange,
    ReferenceState,
    SteeringFeedback,
    WheelSpeed,
)

__all__ = [
    "ALL",
    "NAN",
    "NAN3",
    "NAN9",
    "ActuatorCommand",
    "CarrierSolution",
    "Cause",
    "ControlCommand",
    "ControlLevel",
    "ControlReason",
    "Corrections",
    "CourseCommand",
    "Direction",
    "EstimatorStatus",
    "Event",
    "Fault",
    "FixType",
    "Float64s",
    "GarbageCollection",
    "GnssFix",
    "GroundTruth",
    "Heading",
    "HeadingKind",
    "Heartbeat",
    "HostHealth",
    "Identification",
    "ImuSample",
    "Int64",
    "LaserScan",
    "MachineCall",
    "Matrix3",
    "Matrix4",
    "Message",
    "Mode",
    "ModeChange",
    "MotorStatus",
    "ObstacleRange",
    "OperatorAction",
    "OperatorCommand",
    "ParameterCommand",
    "Path",
    "PortEvent",
    "PortState",
    "Reaction",
    "ReferenceState",
    "Setpoint",
    "SpeedCommand",
    "StateEstimate",
    "SteeringFeedback",
    "TaskTick",
    "TeleopCommand",
    "UInt8",
    "UInt16",
    "UInt32",
    "Vector2",
    "Vector3",
    "Verb",
    "WheelSpeed",
    "WireChunk",
    "largest_variance",
]

ALL: tuple[type[Message], ...] = (
    GnssFix, ImuSample, Heading, MotorStatus, WheelSpeed, SteeringFeedback, OperatorCommand, StateEstimate, ControlCommand,
    ActuatorCommand, WireChunk, Corrections, TaskTick, Fault, Event, PortEvent, Path, GroundTruth,
    Identification, TeleopCommand, Heartbeat, ObstacleRange, HostHealth, MachineCall, LaserScan, GarbageCollection,
    ModeChange, Setpoint, CourseCommand, SpeedCommand, ParameterCommand, ReferenceState,
)  # fmt: skip
"""Every message type, in the order of the log's channels."""
