"""Monitors of the failsafe matrix. They keep the history that the rules need, in constant memory,
and decide nothing."""

from collections.abc import Sequence
from typing import Any

from vehicled.core.messages import (
    Fault,
    GnssFix,
    Heading,
    Heartbeat,
    HostHealth,
    ImuSample,
    LaserScan,
    MapPose,
    Message,
    MotorStatus,
    ObstacleRange,
    Reaction,
    Setpoint,
    TeleopCommand,
    VirtualScan,
    VirtualWorld,
    WheelSpeed,
)
from vehicled.core.rc import RcMap
from vehicled.core.vehicle import AlignmentParams, Limits, Vehicle
from vehicled.paths.course import Course
from vehicled.paths.datum import Datum
from vehicled.paths.tracking import PathTracker
from vehicled.safety.fence import Fence
from vehicled.safety.inputs import SafetyInputs
from vehicled.safety.monitors.alignment import AlignmentMonitor
from vehicled.safety.monitors.climb import ClimbMonitor
from vehicled.safety.monitors.consistency import ConsistencyMonitor
from vehicled.safety.monitors.control import ControlMonitor
from vehicled.safety.monitors.deadlines import DeadlineMonitor
from vehicled.safety.monitors.gnss import GnssMonitor
from vehicled.safety.monitors.host import HostMonitor
from vehicled.safety.monitors.inertial import InertialMonitor, Mounting
from vehicled.safety.monitors.localisation import LocalisationMonitor
from vehicled.safety.monitors.mixed_reality import MixedObstacleMonitor
from vehicled.safety.monitors.motion import MotionMonitor
from vehicled.safety.monitors.motor import MotorMonitor
from vehicled.safety.monitors.obstacle import ObstacleMonitor
from vehicled.safety.monitors.place import PlaceMonitor
from vehicled.safety.monitors.presence import PresenceMonitor
from vehicled.safety.monitors.progress import ProgressMonitor
from vehicled.safety.monitors.rc import RcMonitor
from vehicled.safety.monitors.setpoints import SetpointMonitor
from vehicled.safety.monitors.sources import MonitoredSource, SourceMonitor
from vehicled.safety.monitors.speed import SpeedMonitor
from vehicled.safety.monitors.stopping import StoppingMonitor
from vehicled.safety.monitors.teleop import TeleopMonitor
from vehicled.safety.monitors.yaw import YawMonitor


class Monitors:
    """All monitors. Each receives the messages that it needs and is updated once per tick."""

    def __init__(
        self,
        limits: Limits,
        vehicle: Vehicle,
        sources: Sequence[MonitoredSource] = (),
        course: Course | None = None,
        fence: Fence | None = None,
        antenna_m: tuple[float, float] = (0.0, 0.0),
        *,
        telemetry: bool = False,
        alignment: AlignmentParams | None = None,
        datum: Datum | None = None,
        mounting: Mounting | None = None,
        rc: RcMap | None = None,
    ) -> None:
        """``antenna_m``: lever arm of the GNSS antenna, forward and left of the rear axle;
        ``datum``: origin of the map frame; ``mounting``: that of the IMU, by the profile; ``rc``:
        meaning of the channels of an RC receiver."""
        self.telemetry = telemetry
        """True if the actuator sends telemetry."""
        self.sources = SourceMonitor(sources)
        self.deadlines = DeadlineMonitor()
        self.inertial = InertialMonitor(mounting)
        self.climb = ClimbMonitor(mounting or Mounting(), self.inertial)
        self.yaw = YawMonitor(vehicle, antenna_m[0])
        self.speed = SpeedMonitor(vehicle, limits)
        self.gnss = GnssMonitor(self.speed.moving_mps)
        self.motion = MotionMonitor(vehicle, limits, self.speed)
        self.alignment = AlignmentMonitor(
            alignment or AlignmentParams(), datum, antenna_m, self.sources, self.yaw, self.speed
        )
        self.consistency = ConsistencyMonitor(limits, datum, antenna_m)
        self.localisation = LocalisationMonitor()
        self.motor = MotorMonitor(limits)
        self.control = ControlMonitor()
        self.teleop = TeleopMonitor(limits.teleop_silence_s)
        self.rc = RcMonitor(rc)
        self.setpoints = SetpointMonitor()
        self.ground = PresenceMonitor()
        self.host = HostMonitor()
        self.place = PlaceMonitor(limits, vehicle, course, fence, self.alignment.params)
        self.progress = ProgressMonitor(vehicle, self.speed, self.place)
        self.stopping = StoppingMonitor(limits, vehicle, fence, self.alignment, self.place)
        self._limits, self._vehicle = limits, vehicle
        self.obstacle: ObstacleMonitor | MixedObstacleMonitor = self._obstacle_monitor()
        self.device_faults: dict[tuple[str, str], Fault] = {}
        """Active faults that devices reported, by origin and code."""
        self._monitors_of: dict[type[Message], tuple[Any, ...]] = {
            GnssFix: (
                self.gnss,
                self.yaw,
                self.speed,
                self.alignment,
                self.consistency,
                self.climb,
            ),
            ImuSample: (self.inertial, self.yaw),
            Heading: (self.yaw,),
            WheelSpeed: (self.speed,),
            MotorStatus: (self.motor, self.speed),
            TeleopCommand: (self.teleop,),
            Setpoint: (self.setpoints,),
            Heartbeat: (self.ground,),
            ObstacleRange: (self.obstacle,),
            LaserScan: (self.obstacle,),
            MapPose: (self.localisation,),
            HostHealth: (self.host,),
        }

    def on_message(self, message: Message, now_ns: int) -> None:
        """Pass an ingested message to its monitors. A fault that a device reports acts like a rule
        while it is active."""
        if isinstance(message, Fault):
            key = (message.origin, message.code)
            if message.active:
                self.device_faults[key] = message
            else:
                self.device_faults.pop(key, None)
        elif isinstance(message, VirtualWorld):
            self._mix(message)
        for monitor in self._monitors_of.get(type(message), ()):
            monitor.on_message(message, now_ns)

    def _obstacle_monitor(self) -> ObstacleMonitor:
        return ObstacleMonitor(self._limits, self._vehicle, self.stopping, self.place)

    def _mix(self, world: VirtualWorld) -> None:
        """Let the obstacle stop answer to a virtual world, too. A second one is ignored."""
        if isinstance(self.obstacle, ObstacleMonitor):
            self.obstacle = MixedObstacleMonitor(
                self.obstacle, self._obstacle_monitor(), world, self._limits
            )
            for kind in (ObstacleRange, LaserScan, VirtualScan):
                self._monitors_of[kind] = (self.obstacle,)

    def adapt(self, vehicle: Vehicle) -> None:
        """Replace the vehicle parameters, which may have been identified while driving."""
        self.stopping.adapt(vehicle)
        self.place.adapt(vehicle)
        self.yaw.adapt(vehicle)

    def follow(self, course: Course, tracker: PathTracker | None = None) -> None:
        """Use another course from now on; the next drive may begin at any place of it. ``tracker``:
        one of this course."""
        self.place.follow(course, anywhere=True, tracker=tracker)
        self.stopping.follow(course)
        self.obstacle.follow(course)

    @property
    def disables(self) -> str:
        """Text of an active device fault that disables the drive; empty if none."""
        return next(
            (
                f"{fault.origin}: {fault.reason}"
                for fault in self.device_faults.values()
                if fault.reaction is Reaction.DISABLE
            ),
            "",
        )

    def update(self, s: SafetyInputs) -> None:
        """Update the monitors once per tick; the supervisor calls this before it evaluates the
        rules."""
        self.speed.update(s.now_ns, s.speed_mps)
        self.gnss.update(s)
        self.inertial.update()
        self.yaw.update(s)
        self.motion.update(s)
        self.consistency.update(s)
        self.climb.update(s)
        self.progress.update(s)
        self.alignment.update(s)
        self.control.update(s)
        self.place.update(s)
        self.stopping.update(s)
        self.obstacle.update(s)
        self.localisation.update(s)

    def reset(self) -> None:
        """Begin a drive: forget the history of the monitors whose past must not count against
        it."""
        self.inertial.reset()
        self.motion.reset()
        self.progress.reset()
        self.control.reset()
        self.teleop.reset()
        self.alignment.reset()
