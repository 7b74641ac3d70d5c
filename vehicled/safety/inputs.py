"""Inputs of the failsafe matrix: the values that its rules evaluate once per actuation tick, and the monitors behind them."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from vehicled.messages import (
    ActuatorCommand,
    ControlCommand,
    EstimatorStatus,
    Fault,
    GnssFix,
    Heading,
    Heartbeat,
    HostHealth,
    ImuSample,
    LaserScan,
    Message,
    Mode,
    MotorStatus,
    ObstacleRange,
    Reaction,
    StateEstimate,
    TeleopCommand,
    WheelSpeed,
)
from vehicled.paths.course import Course
from vehicled.paths.datum import Datum
from vehicled.safety.entry import CourseEntry
from vehicled.safety.fence import Fence
from vehicled.safety.monitors.alignment import AlignmentMonitor
from vehicled.safety.monitors.control import ControlMonitor
from vehicled.safety.monitors.deadlines import DeadlineMonitor
from vehicled.safety.monitors.gnss import GnssMonitor
from vehicled.safety.monitors.host import HostMonitor
from vehicled.safety.monitors.inertial import InertialMonitor
from vehicled.safety.monitors.motion import MotionMonitor
from vehicled.safety.monitors.motor import MotorMonitor
from vehicled.safety.monitors.obstacle import ObstacleMonitor
from vehicled.safety.monitors.presence import PresenceMonitor
from vehicled.safety.monitors.sources import Source, SourceMonitor
from vehicled.safety.monitors.stopping import StoppingMonitor
from vehicled.safety.monitors.teleop import TeleopMonitor
from vehicled.safety.monitors.yaw import YawMonitor
from vehicled.vehicle import AlignmentParams, Limits, Vehicle


class Monitors:
    """All monitors. Each receives the messages that it needs and is updated once per tick."""

    def __init__(
        self,
        limits: Limits,
        vehicle: Vehicle,
        sources: Sequence[Source] = (),
        course: Course | None = None,
        fence: Fence | None = None,
        antenna_m: tuple[float, float] = (0.0, 0.0),
        *,
        telemetry: bool = False,
        alignment: AlignmentParams | None = None,
        datum: Datum | None = None,
    ) -> None:
        """``antenna_m``: lever arm of the GNSS antenna, forward and left of the rear axle; ``datum``: origin of the map frame."""
        self.telemetry = telemetry
        """True if the actuator sends telemetry."""
        self.sources = SourceMonitor(sources)
        self.deadlines = DeadlineMonitor()
        self.gnss = GnssMonitor()
        self.inertial = InertialMonitor()
        self.yaw = YawMonitor(antenna_m[0])
        self.alignment = AlignmentMonitor(alignment or AlignmentParams(), datum, antenna_m)
        self.motion = MotionMonitor(vehicle)
        self.motor = MotorMonitor(limits)
        self.control = ControlMonitor()
        self.hand = TeleopMonitor(limits.teleop_silence_s)
        self.ground = PresenceMonitor()
        self.obstacle = ObstacleMonitor(limits, vehicle, course)
        self.host = HostMonitor()
        self.stopping = StoppingMonitor(limits, vehicle, course, fence)
        self.told: dict[tuple[str, str], Fault] = {}
        """Active faults that devices reported, by origin and code."""
        self._hears: dict[type[Message], tuple[Any, ...]] = {
            GnssFix: (self.gnss, self.yaw, self.motion, self.alignment),
            ImuSample: (self.inertial, self.yaw),
            Heading: (self.yaw,),
            WheelSpeed: (self.motion,),
            MotorStatus: (self.motor, self.motion),
            TeleopCommand: (self.hand,),
            Heartbeat: (self.ground,),
            ObstacleRange: (self.obstacle,),
            LaserScan: (self.obstacle,),
            HostHealth: (self.host,),
        }

    def on_message(self, message: Message, now_ns: int) -> None:
        """Pass an ingested message to its monitors. A fault that a device reports acts like a rule while it is active."""
        if isinstance(message, Fault):
            key = (message.origin, message.code)
            if message.active:
                self.told[key] = message
            else:
                self.told.pop(key, None)
        for monitor in self._hears.get(type(message), ()):
            monitor.on_message(message, now_ns)

    @property
    def disables(self) -> str:
        """Text of an active device fault that disables the drive; empty if none."""
        return next((f"{fault.origin}: {fault.reason}" for fault in self.told.values() if fault.reaction is Reaction.DISABLE), "")

    def update(self, s: "SafetyInputs") -> None:
        """Update the monitors that need all inputs; the supervisor calls this before it evaluates the rules."""
        self.gnss.update(s)
        self.inertial.update(s)
        self.yaw.update(s)
        self.motion.update(s)
        self.alignment.update(s)
        self.control.update(s)
        self.stopping.update(s)
        self.obstacle.update(s)

    def reset(self) -> None:
        """Begin a drive: forget the history of the monitors whose past must not count against it."""
        self.motion.reset()
        self.control.reset()
        self.hand.reset()
        self.alignment.reset()


class SafetyInputs(Struct, frozen=True, kw_only=True):
    """Inputs of all rules at one instant. Ages are in ns, ``ports.NEVER_NS`` if nothing has arrived yet."""

    now_ns: int
    mode: Mode
    limits: Limits
    watch: Monitors
    estimate: StateEstimate | None = None
    estimate_age_ns: int = 0
    control: ControlCommand | None = None
    control_age_ns: int = 0
    sent: ActuatorCommand | None = None
    """Last command to the actuators; None before the first."""
    course_finished: bool = False
    actuator_lost: str = ""
    """Reason why the actuator's port cannot be written; empty if it can."""
    task_raised: str = ""
    """Text of the exception that a task raised since the last tick; empty if none."""
    entry: CourseEntry | None = None
    """Entry point of the next drive; None without a course."""
    setup_fault: str = ""
    """Reason why profile or calibration are not fit to drive with; empty if they are."""

    @property
    def speed_mps(self) -> float:
        """Estimated speed, m/s; the measured speed while the estimator is uninitialised; NaN without either."""
        if self.estimate is None:
            return float("nan")
        if self.estimate.status is not EstimatorStatus.UNINITIALISED:
            return self.estimate.speed_mps
        return self.watch.motion.signed_mps(self.now_ns, self.sent.throttle if self.sent is not None else 0.0)

    @property
    def position_sigma_m(self) -> float:
        """Standard deviation of the estimated position in its worst direction, m; NaN without a valid one."""
        return self.estimate.position_sigma_m if self.estimate is not None else float("nan")

    @property
    def cross_track_m(self) -> float:
        """Cross-track error of the last control command, m, positive left; NaN without one."""
        return self.control.cross_track_m if self.control is not None else float("nan")

    @property
    def heading_error_rad(self) -> float:
        """Heading error of the last control command, rad; NaN without one."""
        return self.control.heading_error_rad if self.control is not None else float("nan")
