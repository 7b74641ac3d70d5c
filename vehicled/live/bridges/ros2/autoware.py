"""Vehicle interface of Autoware: the vehicle's state in its types, and its commands as requests.
Pure.

Control commands are setpoints, and a trajectory is a course, under the same checks and limits as
those of other ROS nodes. The vehicle has no gears, so they are simulated: a gear that drives the
other way, or does not drive, engages at standstill, and until then or in a wrong gear the vehicle
is held at standstill.
"""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from math import cos, hypot, inf, isfinite, nan, sin
from typing import Any, Literal

from vehicled.core.messages import (
    ActuatorCommand,
    Mode,
    ModeChange,
    StateEstimate,
    SteeringFeedback,
)
from vehicled.live.bridges.ros2.config import Ros2Config
from vehicled.live.bridges.ros2.requests import (
    MAP_FRAMES,
    ORIGIN,
    SETPOINT_AGE_S,
    RefusedError,
    RequestKind,
    check_frame,
    course_request,
    finite,
    limited_wheel_angle,
    planar_pose,
)
from vehicled.live.control_socket.protocol import CourseRequest, Request, SetpointRequest
from vehicled.ros.autoware import (
    AUTO,
    CURRENT,
    LIGHTS_OFF,
    AccelerationFilter,
    AutowareGear,
    control_mode_of,
    direction_of,
    initialization_state,
    report,
    steering_report,
    velocity_report,
)
from vehicled.ros.autoware_types import GEARS
from vehicled.ros.projections import MessageProjection, odometry, row

Note = Callable[[str], None]
"""Function that publishes why something was not done."""
Follow = Literal["control", "trajectory"]
"""Commands of Autoware that move the vehicle: of its controller, or of its planner."""

CONTROL_TOPIC = "/control/command/control_cmd"
EMERGENCY_TOPIC = "/control/command/emergency_cmd"
GEAR_TOPIC = "/control/command/gear_cmd"
TRAJECTORY_TOPICS = ("/planning/scenario_planning/trajectory", "/planning/trajectory")
"""Topic of the planner in autoware_universe, and in autoware_core."""
STATE_HZ, REPORT_HZ = 50.0, 10.0
"""Rates of what changes all the time, and of what changes now and then."""
STANDSTILL_MPS = 0.1
TRAJECTORY_AGE_S = 1.0
"""Oldest stamp of a trajectory, s: an older one does not know what the planner has seen since."""
SHORT_LEG_M = 0.05
"""Distance of two points below which it says nothing about the direction of travel."""
LATCHED_REPORTS = frozenset(
    {
        "/vehicle/status/control_mode",
        "/vehicle/status/gear_status",
        "/vehicle/status/turn_indicators_status",
        "/vehicle/status/hazard_lights_status",
        "/localization/initialization_state",
    }
)
"""Reports that a node may expect to get when it joins. Volatile readers accept them as well."""
LATCHED_COMMANDS = frozenset(
    {
        EMERGENCY_TOPIC,
        GEAR_TOPIC,
        "/control/command/turn_indicators_cmd",
        "/control/command/hazard_lights_cmd",
    }
)
"""Commands that a node may have sent, once, before the bridge joined."""
_HIGHEST_TURN_INDICATORS, _HIGHEST_HAZARD_LIGHTS = 3, 2


class AutowareVehicle:
    """The vehicle as Autoware sees it, and as far as its commands depend on earlier ones."""

    def __init__(self, follow: Follow, *, auto: bool) -> None:
        """``auto``: use the types of autoware_auto_msgs, as Autoware did until 2024."""
        self._types = AUTO if auto else CURRENT
        self._follow = follow
        self._autonomous = Mode.OFFBOARD if follow == "control" else Mode.AUTO
        self._mode = Mode.INIT
        self._speed_mps = nan
        self._gear: int = AutowareGear.PARK
        self._wanted_gear: int | None = None
        self._emergency = False
        self._steering_measured = False
        self._acceleration = AccelerationFilter()

    @property
    def autonomous(self) -> bool:
        """True in the mode in which Autoware drives."""
        return self._mode is self._autonomous

    # ------------------------------------------------------------ state

    def projections(self) -> tuple[MessageProjection, ...]:
        """Return what is published, in the form of the table of all projections."""
        types = self._types
        lights = {
            "/vehicle/status/turn_indicators_status": "TurnIndicatorsReport",
            "/vehicle/status/hazard_lights_status": "HazardLightsReport",
        }
        return (
            row(StateEstimate, "/localization/kinematic_state", "nav_msgs/Odometry", odometry,
                STATE_HZ),
            row(StateEstimate, "/localization/acceleration",
                "geometry_msgs/AccelWithCovarianceStamped", self._acceleration.record, STATE_HZ),
            row(StateEstimate, "/localization/initialization_state",
                "autoware_adapi_v1_msgs/LocalizationInitializationState", initialization_state,
                REPORT_HZ),
            row(StateEstimate, "/vehicle/status/velocity_status", types.report("VelocityReport"),
                self._velocity, STATE_HZ),
            row(SteeringFeedback, "/vehicle/status/steering_status",
                types.report("SteeringReport"), self._measured_steering, STATE_HZ),
            row(ActuatorCommand, "/vehicle/status/steering_status",
                types.report("SteeringReport"), self._commanded_steering, STATE_HZ),
            row(ModeChange, "/vehicle/status/control_mode", types.report("ControlModeReport"),
                self._changed_mode),
            row(ActuatorCommand, "/vehicle/status/control_mode",
                types.report("ControlModeReport"), self._present_mode, REPORT_HZ),
            row(ActuatorCommand, "/vehicle/status/gear_status", types.report("GearReport"),
                self._present_gear, REPORT_HZ),
            *(
                row(ActuatorCommand, topic, types.report(name),
                    partial(self._lights, name), REPORT_HZ)
                for topic, name in lights.items()
            ),
        )  # fmt: skip

    def _velocity(self, estimate: StateEstimate, offset_ns: int) -> bytes | None:
        self._speed_mps = estimate.speed_mps
        known = isfinite(estimate.speed_mps + estimate.yaw_rate_radps)
        return velocity_report(self._types, estimate, offset_ns) if known else None

    def _measured_steering(self, feedback: SteeringFeedback, offset_ns: int) -> bytes:
        self._steering_measured = True
        return steering_report(self._types, feedback.t_ns, feedback.wheel_angle_rad, offset_ns)

    def _commanded_steering(self, command: ActuatorCommand, offset_ns: int) -> bytes | None:
        if self._steering_measured:
            return None
        return steering_report(self._types, command.t_ns, command.wheel_angle_rad, offset_ns)

    def _changed_mode(self, change: ModeChange, offset_ns: int) -> bytes:
        return self._control_mode(change.after, change.t_ns, offset_ns)

    def _present_mode(self, command: ActuatorCommand, offset_ns: int) -> bytes:
        return self._control_mode(command.mode, command.t_ns, offset_ns)

    def _control_mode(self, mode: Mode, t_ns: int, offset_ns: int) -> bytes:
        self._mode = mode
        reported = control_mode_of(mode, self._autonomous)
        return report(self._types, "ControlModeReport", t_ns, reported, offset_ns)

    def _present_gear(self, command: ActuatorCommand, offset_ns: int) -> bytes:
        shown = self._engaged_gear()
        if abs(self._speed_mps) > STANDSTILL_MPS and direction_of(shown) * self._speed_mps <= 0.0:
            # Somebody else drives.
            shown = AutowareGear.DRIVE if self._speed_mps > 0.0 else AutowareGear.REVERSE
        return report(self._types, "GearReport", command.t_ns, shown, offset_ns)

    def _lights(self, name: str, command: ActuatorCommand, offset_ns: int) -> bytes:
        return report(self._types, name, command.t_ns, LIGHTS_OFF, offset_ns)

    # ------------------------------------------------------------ commands

    def commands(self) -> dict[tuple[str, str], str]:
        """Return the request by (topic, type) of what is taken; empty for what is only noted."""
        types = self._types
        found = {
            (EMERGENCY_TOPIC, "tier4_vehicle_msgs/VehicleEmergencyStamped"): "",
            (GEAR_TOPIC, types.report("GearCommand")): "",
            ("/control/command/turn_indicators_cmd", types.report("TurnIndicatorsCommand")): "",
            ("/control/command/hazard_lights_cmd", types.report("HazardLightsCommand")): "",
        }
        if self._follow == "control":
            return {**found, (CONTROL_TOPIC, types.control): "setpoint"}
        return {**found, **{(topic, types.trajectory): "course" for topic in TRAJECTORY_TOPICS}}

    def requests(self, note: Note) -> Mapping[str, RequestKind]:
        """Return the kind of request by the type of the message. ``note`` gets what was changed in
        a command that is taken."""
        types = self._types
        return {
            types.control: RequestKind(
                partial(self._control, note), (), SETPOINT_AGE_S,
                "`velocity` (`speed`), `steering_tire_angle`",
                ("stamp", "lateral.stamp", "longitudinal.stamp"),
            ),
            types.report("GearCommand"): RequestKind(
                self._command_gear, (), inf, "`command`: PARK, NEUTRAL, all of DRIVE, REVERSE, LOW",
                ("stamp",),
            ),
            types.report("TurnIndicatorsCommand"): RequestKind(
                partial(_ignore_lights, _HIGHEST_TURN_INDICATORS), (), inf,
                "`command`, checked and ignored: no lamps", ("stamp",),
            ),
            types.report("HazardLightsCommand"): RequestKind(
                partial(_ignore_lights, _HIGHEST_HAZARD_LIGHTS), (), inf,
                "the same", ("stamp",),
            ),
            "tier4_vehicle_msgs/VehicleEmergencyStamped": RequestKind(
                self._command_emergency, (), inf, "`emergency`: holds the vehicle at standstill",
                ("stamp",),
            ),
            types.trajectory: RequestKind(
                self._trajectory, MAP_FRAMES, TRAJECTORY_AGE_S,
                "`pose` and `longitudinal_velocity_mps` of each point, to the first stop",
            ),
        }  # fmt: skip

    def _control(self, note: Note, message: Any, config: Ros2Config) -> Request:
        """Return the setpoint of a Control or an AckermannControlCommand: speed and wheel angle,
        with speed 0 in a gear that does not drive that way."""
        lateral, longitudinal = message.lateral, message.longitudinal
        speed_mps = getattr(longitudinal, "velocity", None)
        if speed_mps is None:  # the name in autoware_auto_msgs
            speed_mps = longitudinal.speed
        filled = [speed_mps, lateral.steering_tire_angle]
        # A message of autoware_auto_msgs has no flags; all its fields count.
        for part, field in (
            (lateral, "steering_tire_rotation_rate"),
            (longitudinal, "acceleration"),
            (longitudinal, "jerk"),
        ):
            if getattr(part, f"is_defined_{field}", True):
                filled.append(getattr(part, field))
        speed_mps, wheel_rad, *_ = finite(*filled)
        if why := self._held(speed_mps):
            note(f"held at standstill: {why}")
            speed_mps = 0.0
        return SetpointRequest(
            speed_mps=speed_mps,
            wheel_angle_rad=limited_wheel_angle(wheel_rad, config),
            sequence=0,
            origin=ORIGIN,
        )

    def _held(self, speed_mps: float) -> str:
        """Return why the vehicle must not drive at a speed; empty if it may."""
        if speed_mps == 0.0:
            return ""
        if self._emergency:
            return f"{EMERGENCY_TOPIC} says emergency"
        gear = self._engaged_gear()
        if direction_of(gear) * speed_mps > 0.0:
            return ""
        wanted = self._wanted_gear
        if wanted is None:
            return f"no gear yet: publish {GEAR_TOPIC}"
        if wanted != gear:
            return f"the gear {GEARS[wanted]} engages at standstill"
        return f"the speed is {speed_mps:g} m/s in the gear {GEARS[gear]}"

    def _command_gear(self, message: Any, _: Ros2Config) -> None:
        if not AutowareGear.NEUTRAL <= message.command < len(GEARS):
            raise RefusedError(
                f"{message.command} is no gear: send PARK (22), NEUTRAL (1), DRIVE (2) or "
                "REVERSE (20)"
            )
        self._wanted_gear = message.command

    def _engaged_gear(self) -> int:
        """Return the gear, after a change if one is wanted and possible."""
        wanted, speed_mps = self._wanted_gear, self._speed_mps
        if wanted is not None and (
            abs(speed_mps) <= STANDSTILL_MPS or direction_of(wanted) * speed_mps > 0.0
        ):
            self._gear = wanted
        return self._gear

    def _command_emergency(self, message: Any, _: Ros2Config) -> None:
        self._emergency = bool(message.emergency)

    def _trajectory(self, message: Any, config: Ros2Config) -> CourseRequest:
        """Return the course along a Trajectory, up to the first place where it stops."""
        if self._emergency:
            raise RefusedError(f"{EMERGENCY_TOPIC} says emergency")
        check_frame(message, MAP_FRAMES)
        points = message.points
        poses = [planar_pose(point.pose) for point in points]
        speeds = []
        for point in points:
            speed_mps, *_ = finite(
                point.longitudinal_velocity_mps, point.lateral_velocity_mps,
                point.acceleration_mps2, point.heading_rate_rps, point.front_wheel_angle_rad,
                point.rear_wheel_angle_rad,
            )  # fmt: skip
            speeds.append(speed_mps)
        driven = [k for k, speed_mps in enumerate(speeds) if speed_mps != 0.0]
        if not driven:
            raise RefusedError("no point of the trajectory has a speed: it asks for standstill")
        first = driven[0]
        stop = next((k for k in range(first, len(speeds)) if speeds[k] == 0.0), len(speeds) - 1)
        for k, ((x_m, y_m, yaw_rad), (next_x_m, next_y_m, _)) in enumerate(
            pairwise(poses[: stop + 1])
        ):
            if yaw_rad is None or hypot(next_x_m - x_m, next_y_m - y_m) < SHORT_LEG_M:
                continue
            ahead_m = cos(yaw_rad) * (next_x_m - x_m) + sin(yaw_rad) * (next_y_m - y_m)
            if ahead_m * speeds[max(k, first)] < 0.0:
                raise RefusedError(
                    f"point {k} has the speed {speeds[max(k, first)]:g} m/s, and its pose looks "
                    "the other way"
                )
        # The drive begins at standstill and ends with one anyway.
        speeds[:first] = [speeds[first]] * first
        speeds[stop] = speeds[stop] or speeds[stop - 1]
        return course_request(poses[: stop + 1], speeds[: stop + 1], config)


def _ignore_lights(highest: int, message: Any, _: Ros2Config) -> None:
    """Check a command of lights that the vehicle does not have."""
    if not 1 <= message.command <= highest:
        raise RefusedError(f"{message.command} is no such command: send 1 to {highest}")
