"""The message interface: everything that passes between drivers, tasks, log and simulator.

One frozen struct per message. The struct is the only definition: :mod:`vehicled.ros` derives the
ROS 2 message text and the CDR packer from it, and :mod:`drivers.msglink` carries it over the
simulator link.

Conventions (REP-103, REP-105). SI units, named in the field: ``_m``, ``_mps``, ``_rad``, ``_ns``.
World frame ENU on a local tangent plane; body frame x forward, y left, z up, origin at the rear
axle; yaw counter-clockwise from east; a positive steering angle turns left. Degrees, compass
headings and device units live inside codecs only.

Stamps are integer nanoseconds on the daemon's monotonic clock: ``t_ns`` is the time of validity,
``t_rx_ns`` the time the last byte arrived. A value that a device did not give is NaN, never a
plausible substitute.

Compatibility: fields are only ever appended, with a default. A reader older than the writer ignores
what it does not know.
"""

# A message is named where it is defined and in ALL, and nowhere else.
# ruff: noqa: F403, F405
from vehicled.core.messages.base import *
from vehicled.core.messages.decisions import *
from vehicled.core.messages.records import *
from vehicled.core.messages.sensors import *

ALL: tuple[type[Message], ...] = (
    GnssFix, ImuSample, Heading, MotorStatus, WheelSpeed, SteeringFeedback, OperatorCommand,
    StateEstimate, ControlCommand, ActuatorCommand, WireChunk, Corrections, TaskTick, Fault, Event,
    PortEvent, Path, GroundTruth, Identification, TeleopCommand, Heartbeat, ObstacleRange,
    HostHealth, MachineCall, LaserScan, GarbageCollection, ModeChange, Setpoint, CourseCommand,
    SpeedCommand, ParameterCommand, ReferenceState, RcChannels, ObstacleContact, MapPose,
    ActuatorStatus, NeighbourState, VirtualWorld, VirtualScan, GearReport,
    PlannedMotion, HeightMap, TimePulse,
)  # fmt: skip
"""Every message type, in the order of the log's channels."""


def _is_ours(name: str, value: object) -> bool:
    """Return True for classes, functions, constants and field types of this package, not for what
    its modules import."""
    return (
        name.isupper()
        or hasattr(value, "__metadata__")
        or str(getattr(value, "__module__", "")).startswith(__name__)
    )


NAMES = frozenset(
    name for name, value in list(vars().items()) if name[0] != "_" and _is_ours(name, value)
)
"""Names that ``import vehicled as v`` gives. It is not called ``__all__``, because type checkers
cannot evaluate it."""
