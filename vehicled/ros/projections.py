"""Projections of our messages to standard ROS 2 types, so that Foxglove, PlotJuggler and ROS tools
show a run without our messages.

A projection maps one message to one record and keeps no state. It returns None where the message
has nothing to show there (a release that met its deadline, an estimator that has no state yet) and
raises CdrError, so that it can be counted, for a value that the standard type cannot hold. Several
projections may share a topic; they then share its schema.

Stamps are wall time: ``offset_ns``, wall minus monotonic clock at the start of the log, is added to
the monotonic stamp. Frames (REP-105): ``map`` -> ``base_link`` at the rear axle; ``gnss_link`` at
the antenna, ``imu_link`` at the IMU, ``laser_link`` at the scanner, all turned to the body axes. A
ROS covariance of zeros means "unknown" where the project would write NaN.
"""

from collections.abc import Callable, Mapping, Sequence
from math import cos, degrees, inf, isfinite, isnan, nan, sin, tan
from typing import Any, TypeVar, cast

from msgspec import Struct

from vehicled.core.attribution import NO_HOLDER
from vehicled.core.messages import (
    ActuatorCommand,
    CarrierSolution,
    Cause,
    ControlCommand,
    EstimatorStatus,
    Fault,
    FixType,
    GnssFix,
    Heading,
    HeadingKind,
    ImuSample,
    LaserScan,
    Message,
    Mode,
    ModeChange,
    MotorStatus,
    Path,
    Reaction,
    StateEstimate,
    TaskTick,
    WheelSpeed,
)  # fmt: skip
from vehicled.ros.cdr import CdrError
from vehicled.ros.standard import Template, encode, standard_definition

M = TypeVar("M", bound=Message)

MAP = "map"
BASE_LINK = "base_link"
GNSS_LINK = "gnss_link"
IMU_LINK = "imu_link"
LASER_LINK = "laser_link"
DIAGNOSTIC_NAME = "vehicled"

_NAV_SAT_FIX = Template("sensor_msgs/NavSatFix", {"header.frame_id": GNSS_LINK})
_IMU = Template("sensor_msgs/Imu", {"header.frame_id": IMU_LINK})
_ODOMETRY = Template("nav_msgs/Odometry", {"header.frame_id": MAP, "child_frame_id": BASE_LINK})
_TRANSFORM = Template(
    "tf2_msgs/TFMessage",
    {"transforms.header.frame_id": MAP, "transforms.child_frame_id": BASE_LINK},
    {"transforms": 1},
)
_BATTERY = Template(
    "sensor_msgs/BatteryState",
    {"header.frame_id": BASE_LINK, "location": "", "serial_number": ""},
    {"cell_voltage": 0, "cell_temperature": 0},
)
_DRIVE = Template("ackermann_msgs/AckermannDriveStamped", {"header.frame_id": BASE_LINK})

_ZEROS9 = (0.0,) * 9
_NO_ORIENTATION = (0.0, 0.0, 0.0, 1.0, -1.0, *(0.0,) * 8)
"""Identity and a covariance that starts with -1: sensor_msgs/Imu without an orientation
estimate."""

_NOT_MEASURED_RAD2 = 1000.0
"""Variance of roll and pitch beside a heading, as drivers of receivers with two antennas write
it."""

_SERVICE_UNKNOWN = 0
_STATUS_NO_FIX, _STATUS_FIX, _STATUS_SBAS_FIX, _STATUS_GBAS_FIX = -1, 0, 1, 2
_COVARIANCE_UNKNOWN, _COVARIANCE_DIAGONAL_KNOWN, _COVARIANCE_KNOWN = 0, 2, 3
_OK, _WARN, _ERROR = 0, 1, 2


class MessageProjection(Struct, frozen=True):
    """Row of the table: messages of ``source`` are also published on ``topic`` as
    ``schema_name``."""

    source: type[Message]
    topic: str
    schema_name: str
    schema_text: str
    project: Callable[[Message, int], bytes | None]
    """Function (message, offset_ns) -> CDR record, or None if the message has no counterpart.
    Raises CdrError only."""
    max_rate_hz: float = inf
    """Rate limit applied by the caller, Hz; None results do not count against it."""


def _stamp(t_ns: int, offset_ns: int) -> tuple[int, int]:
    """Return (sec, nanosec) of wall time; the encoder rejects values that Time cannot hold."""
    return divmod(t_ns + offset_ns, 1_000_000_000)


def _nav_sat_fix(fix: GnssFix, offset_ns: int) -> bytes:
    """Degrees and ellipsoidal height. Status as nmea_navsat_driver does: RTK float and fixed are
    GBAS, other corrections SBAS."""
    status = _STATUS_NO_FIX
    if fix.fix_type >= FixType.FIX_2D:
        status = _STATUS_SBAS_FIX if fix.differential else _STATUS_FIX
        if fix.carrier != CarrierSolution.NONE:
            status = _STATUS_GBAS_FIX
    covariance, kind = _position_covariance(fix.position_covariance_m2)
    return _NAV_SAT_FIX.encode(
        *_stamp(fix.t_ns, offset_ns),
        status,
        _SERVICE_UNKNOWN,
        degrees(fix.latitude_rad),
        degrees(fix.longitude_rad),
        fix.height_m,
        *covariance,
        kind,
    )


def _position_covariance(covariance: tuple[float, ...]) -> tuple[tuple[float, ...], int]:
    """Return (covariance, type of covariance): receivers often give only the diagonal, with zeros
    or NaN beside it."""
    if not all(map(isfinite, covariance[::4])):
        return _ZEROS9, _COVARIANCE_UNKNOWN
    if all(map(isfinite, covariance)) and any(
        value != 0.0 for index, value in enumerate(covariance) if index % 4
    ):
        return covariance, _COVARIANCE_KNOWN
    return tuple(
        0.0 if index % 4 else value for index, value in enumerate(covariance)
    ), _COVARIANCE_DIAGONAL_KNOWN


def _imu(sample: ImuSample, offset_ns: int) -> bytes:
    """Rates and specific force, gravity included (REP-145); no orientation, covariances unknown."""
    return _IMU.encode(
        *_stamp(sample.t_ns, offset_ns),
        *_NO_ORIENTATION,
        *sample.angular_rate_radps,
        *_ZEROS9,
        *sample.specific_force_mps2,
        *_ZEROS9,
    )


def _heading(heading: Heading, offset_ns: int) -> bytes:
    """Orientation of the body without roll and pitch, as drivers of receivers with two antennas
    publish it: neither rates nor accelerations, whose covariances say so (REP-145). A sigma that is
    not known is a variance of 0."""
    header = (
        _stamp(heading.t_ns, offset_ns),
        GNSS_LINK if heading.kind == HeadingKind.MOVING_BASE else IMU_LINK,
    )
    orientation = (0.0, 0.0, sin(0.5 * heading.yaw_rad), cos(0.5 * heading.yaw_rad))
    variance = heading.sigma_rad**2 if isfinite(heading.sigma_rad) else 0.0
    covariance = (_NOT_MEASURED_RAD2, 0.0, 0.0, 0.0, _NOT_MEASURED_RAD2, 0.0, 0.0, 0.0, variance)
    none = ((0.0, 0.0, 0.0), (-1.0, *(0.0,) * 8))
    return encode("sensor_msgs/Imu", (header, orientation, covariance, *none, *none))


def _wheel_speed(speed: WheelSpeed, offset_ns: int) -> bytes:
    """Speed of the body forward, by the wheels."""
    header = (_stamp(speed.t_ns, offset_ns), BASE_LINK)
    return encode(
        "geometry_msgs/TwistStamped", (header, ((speed.speed_mps, 0.0, 0.0), (0.0, 0.0, 0.0)))
    )


def _laser_scan(scan: LaserScan, offset_ns: int) -> bytes:
    """Ranges as they are: both follow REP-117. No intensities."""
    count = len(scan.ranges_m)
    bearings = (
        scan.angle_min_rad,
        scan.angle_min_rad + max(count - 1, 0) * scan.angle_increment_rad,
        scan.angle_increment_rad,
    )
    times = (scan.time_increment_s, scan.scan_time_s)
    header = (_stamp(scan.t_ns, offset_ns), LASER_LINK)
    return encode(
        "sensor_msgs/LaserScan",
        (header, *bearings, *times, scan.range_min_m, scan.range_max_m, scan.ranges_m, ()),
    )


def _has_pose(estimate: StateEstimate) -> bool:
    """Check for a pose: TF rejects NaN, and a pose before initialisation would draw a jump."""
    pose = (estimate.x_m, estimate.y_m, estimate.yaw_rad)
    return estimate.status != EstimatorStatus.UNINITIALISED and all(map(isfinite, pose))


def odometry(estimate: StateEstimate, offset_ns: int) -> bytes | None:
    """Planar pose in ``map``, twist in ``base_link``. The 6x6 are over (x, y, z, roll, pitch, yaw)
    and hold what the 4x4 over (x, y, yaw, speed) says; the estimator has no variance of the yaw
    rate."""
    if not _has_pose(estimate):
        return None
    p = estimate.covariance
    pose_covariance = [0.0] * 36
    pose_covariance[0], pose_covariance[1], pose_covariance[5] = p[0], p[1], p[2]
    pose_covariance[6], pose_covariance[7], pose_covariance[11] = p[4], p[5], p[6]
    pose_covariance[30], pose_covariance[31], pose_covariance[35] = p[8], p[9], p[10]
    half_yaw = 0.5 * estimate.yaw_rad
    return _ODOMETRY.encode(
        *_stamp(estimate.t_ns, offset_ns),
        *(estimate.x_m, estimate.y_m, 0.0),
        *(0.0, 0.0, sin(half_yaw), cos(half_yaw)),
        *pose_covariance,
        *(estimate.speed_mps, 0.0, 0.0),
        *(0.0, 0.0, estimate.yaw_rate_radps),
        *(p[15], *(0.0,) * 35),
    )


def _transform(estimate: StateEstimate, offset_ns: int) -> bytes | None:
    if not _has_pose(estimate):
        return None
    half_yaw = 0.5 * estimate.yaw_rad
    return _TRANSFORM.encode(
        *_stamp(estimate.t_ns, offset_ns),
        *(estimate.x_m, estimate.y_m, 0.0),
        *(0.0, 0.0, sin(half_yaw), cos(half_yaw)),
    )


def static_transforms(sensors: Mapping[str, Sequence[float]], stamp_ns: int) -> bytes:
    """Encode the positions of the sensors in ``base_link`` by frame; their axes are the body's.
    ``stamp_ns`` is wall time."""
    header = (divmod(stamp_ns, 1_000_000_000), BASE_LINK)
    return encode(
        "tf2_msgs/TFMessage",
        ([(header, frame, (at, (0.0, 0.0, 0.0, 1.0))) for frame, at in sensors.items()],),
    )


def clock(stamp_ns: int) -> bytes:
    """Encode simulated time for ROS nodes with ``use_sim_time``."""
    return encode("rosgraph_msgs/Clock", (divmod(stamp_ns, 1_000_000_000),))


def twist_wanted(command: ControlCommand, offset_ns: int, wheelbase_m: float) -> bytes | None:
    """Encode the target speed and the turn rate that the wheel angle gives at it; None for a
    command without a target speed."""
    speed_mps = command.target_speed_mps
    if not isfinite(speed_mps + command.wheel_angle_rad):
        return None
    header = (_stamp(command.t_ns, offset_ns), BASE_LINK)
    turn_radps = speed_mps * tan(command.wheel_angle_rad) / wheelbase_m
    return encode(
        "geometry_msgs/TwistStamped", (header, ((speed_mps, 0.0, 0.0), (0.0, 0.0, turn_radps)))
    )


def course_poses(path: Path, offset_ns: int) -> bytes | None:
    """Poses along the course, all with the stamp of the message. None when its arrays differ in
    length."""
    if not len(path.x_m) == len(path.y_m) == len(path.yaw_rad):
        return None
    header = (_stamp(path.t_ns, offset_ns), MAP)
    poses = [
        (header, ((x, y, 0.0), (0.0, 0.0, sin(0.5 * yaw), cos(0.5 * yaw))))
        for x, y, yaw in zip(path.x_m, path.y_m, path.yaw_rad, strict=True)
    ]
    return encode("nav_msgs/Path", (header, poses))


def _drive_wanted(command: ControlCommand, offset_ns: int) -> bytes:
    """Encode the controller's command. Zero rates and acceleration mean "as fast as possible" in
    AckermannDrive."""
    return _DRIVE.encode(
        *_stamp(command.t_ns, offset_ns),
        command.wheel_angle_rad,
        0.0,
        command.target_speed_mps,
        0.0,
        0.0,
    )


def _drive_applied(command: ActuatorCommand, offset_ns: int) -> bytes:
    """Encode the actuator command. It has a throttle instead of a speed, which is therefore NaN."""
    return _DRIVE.encode(
        *_stamp(command.t_ns, offset_ns), command.wheel_angle_rad, 0.0, nan, 0.0, 0.0
    )


def _battery(status: MotorStatus, offset_ns: int) -> bytes | None:
    """Voltage and current at the motor controller, discharge negative; all else is unknown (NaN,
    0). None without a voltage."""
    if not isfinite(status.input_voltage_v):
        return None
    charge = (nan, nan, nan, nan)
    return _BATTERY.encode(
        *_stamp(status.t_ns, offset_ns),
        status.input_voltage_v,
        nan,
        -status.input_current_a,
        *charge,
        0,
        0,
        0,
        True,
    )


_HELD = (Cause.QUEUED, Cause.LOOP_HELD, Cause.BLOCKED, Cause.PAGE_FAULT)
"""Causes that may have a holder."""


def _miss(tick: TaskTick, offset_ns: int) -> bytes | None:
    """Return the record of a release that missed its deadline; None for all others."""
    if not tick.missed:
        return None
    response_ns = tick.end_ns - tick.release_ns
    message = (
        f"missed its deadline: response {response_ns / 1e6:.3f} ms, allowed "
        f"{tick.deadline_ns / 1e6:.3f} ms, {tick.cause.name}"
    )
    values = {
        "cause": tick.cause.name,
        "lateness_ns": tick.start_ns - tick.release_ns,
        "execution_ns": tick.end_ns - tick.start_ns,
        "response_ns": response_ns,
        "deadline_ns": tick.deadline_ns,
        "cpu_ns": tick.cpu_ns,
        "skipped": tick.skipped,
    }
    if tick.holder != NO_HOLDER and tick.cause in _HELD:
        values["holder"] = tick.holder
    return _diagnostic(
        _stamp(tick.end_ns, offset_ns), _WARN, f"task {tick.task}", message, "", values
    )


def _fault(fault: Fault, offset_ns: int) -> bytes:
    """Encode the start or end of a fault: ERROR if it stops the vehicle, WARN below that, OK once
    it is over."""
    level = _OK
    if fault.active:
        level = _ERROR if fault.reaction >= Reaction.CONTROLLED_STOP else _WARN
    values = {"reaction": fault.reaction.name, "active": str(fault.active).lower()}
    if not isnan(fault.value):
        values |= {"value": f"{fault.value:g}", "limit": f"{fault.limit:g}", "unit": fault.unit}
    return _diagnostic(
        _stamp(fault.t_ns, offset_ns), level, fault.code, fault.reason, fault.origin, values
    )


def warning(stamp_ns: int, name: str, message: str) -> bytes:
    """Encode a warning of a bridge; ``stamp_ns`` is wall time."""
    return _diagnostic(divmod(stamp_ns, 1_000_000_000), _WARN, name, message, "", {})


def _mode_change(change: ModeChange, offset_ns: int) -> bytes:
    """Encode a change of mode: ERROR into FAULT, WARN into a stop that nobody asked for, else
    OK."""
    level = _OK
    if change.reaction >= Reaction.WARN and change.after in (Mode.STOPPING, Mode.FAULT):
        level = _ERROR if change.after is Mode.FAULT else _WARN
    values = {
        "before": change.before.name,
        "after": change.after.name,
        "code": change.code,
        "reaction": change.reaction.name,
    }
    message = f"{change.before.name} -> {change.after.name}: {change.reason}"
    return _diagnostic(
        _stamp(change.t_ns, offset_ns),
        level,
        "mode",
        message,
        change.origin or "supervisor",
        values,
    )


def _diagnostic(
    stamp: tuple[int, int],
    level: int,
    name: str,
    message: str,
    hardware: str,
    values: dict[str, Any],
) -> bytes:
    """DiagnosticArray of one status. Viewers group by the text before the colon."""
    pairs = [(key, str(value)) for key, value in values.items()]
    status = (level, f"{DIAGNOSTIC_NAME}: {name}", message, hardware, pairs)
    return encode("diagnostic_msgs/DiagnosticArray", ((stamp, ""), [status]))


def row(
    source: type[M],
    topic: str,
    type_name: str,
    project: Callable[[M, int], bytes | None],
    max_rate_hz: float = inf,
) -> MessageProjection:
    """Return a row of the table, whose function may raise what encoders raise."""

    def guarded(message: Message, offset_ns: int) -> bytes | None:
        try:
            return project(cast(M, message), offset_ns)
        except (
            ValueError
        ) as failure:  # beyond the range of Time or float32; the sine of an infinite yaw
            raise (
                failure if isinstance(failure, CdrError) else CdrError(type_name, str(failure))
            ) from None

    defined = standard_definition(type_name)
    return MessageProjection(source, topic, defined.name, defined.text, guarded, max_rate_hz)


PROJECTIONS: tuple[MessageProjection, ...] = (
    row(GnssFix, "/gnss/fix", "sensor_msgs/NavSatFix", _nav_sat_fix),
    row(ImuSample, "/imu/data", "sensor_msgs/Imu", _imu),
    row(LaserScan, "/scan", "sensor_msgs/LaserScan", _laser_scan),
    row(StateEstimate, "/odometry", "nav_msgs/Odometry", odometry, max_rate_hz=50.0),
    row(StateEstimate, "/tf", "tf2_msgs/TFMessage", _transform, max_rate_hz=50.0),
    row(Path, "/course", "nav_msgs/Path", course_poses),
    row(ControlCommand, "/drive", "ackermann_msgs/AckermannDriveStamped", _drive_wanted),
    row(ActuatorCommand, "/drive_applied", "ackermann_msgs/AckermannDriveStamped", _drive_applied),
    row(MotorStatus, "/battery", "sensor_msgs/BatteryState", _battery, max_rate_hz=10.0),
    row(TaskTick, "/diagnostics", "diagnostic_msgs/DiagnosticArray", _miss, max_rate_hz=10.0),
    row(Fault, "/diagnostics", "diagnostic_msgs/DiagnosticArray", _fault),
    row(ModeChange, "/diagnostics", "diagnostic_msgs/DiagnosticArray", _mode_change),
    row(Heading, "/heading", "sensor_msgs/Imu", _heading),
    row(WheelSpeed, "/wheel_speed", "geometry_msgs/TwistStamped", _wheel_speed),
)
"""Every projection. The log writer publishes each, at most at its rate, beside the message
itself."""
