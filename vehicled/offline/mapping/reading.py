"""Reads drives for mapping: our logs, ROS 1 and ROS 2 bags, and the CARMEN logs of public
collections."""

import gzip
import re
from array import array
from collections.abc import Iterable
from math import isfinite, pi
from pathlib import Path
from typing import Any

import numpy as np

from vehicled.core.arrays import Array
from vehicled.core.messages import (
    CarrierSolution,
    EstimatorStatus,
    Event,
    GnssFix,
    GroundTruth,
    ImuSample,
    LaserScan,
    Message,
    MotorStatus,
    StateEstimate,
    WheelSpeed,
)
from vehicled.estimation.measurements import declared_sigma_m, enu_m, is_possible_fix
from vehicled.log.reader import LogReader, run_messages
from vehicled.offline.mapping.drive import (
    GYRO_NOISE,
    UNKNOWN_NOISE,
    MappingDrive,
    Odometry,
    dead_reckoning,
)
from vehicled.offline.mapping.errors import MappingDriveError
from vehicled.offline.recordings import mcap
from vehicled.offline.recordings.recording import RecordedMotion, unwrapped
from vehicled.paths.datum import Datum
from vehicled.paths.errors import CourseError
from vehicled.paths.stored import datum_of
from vehicled.profile import profile_in
from vehicled.profile.schema import Profile

STILL_MPS = 0.02
BIAS_S = 0.5
"""Shortest standstill whose mean rate is the gyro's bias."""
CARMEN_SPAN_RAD = pi
MAX_LINE = 100_000


def read(path: Path, lidar_m: tuple[float, float] = (0.0, 0.0)) -> MappingDrive:
    """Read one drive. ``lidar_m``: scanner, forward and left of the rear axle, where the file does
    not say it.

    Raises :class:`MappingDriveError` and the errors of logs.
    """
    if not path.exists():
        raise MappingDriveError(
            f"{path}: there is no such file; name a log (.mcap), a ROS bag or a CARMEN log "
            "(.log, .log.gz)"
        )
    if path.suffix == ".mcap" and mcap.is_ours(path):
        return _log(path)
    if path.is_dir() or path.suffix in (".bag", ".mcap", ".db3"):
        return _bag(path, lidar_m)
    if path.name.endswith((".log", ".log.gz", ".clf", ".clf.gz")):
        return _carmen(path, lidar_m)
    raise MappingDriveError(
        f"{path}: is neither a log (.mcap) nor a ROS bag nor a CARMEN log (.log, .clf, also "
        "with .gz)"
    )


READ = (
    LaserScan, ImuSample, WheelSpeed, MotorStatus, StateEstimate, GroundTruth, GnssFix, Event,
)  # fmt: skip
"""Messages of a log that mapping uses."""


def _log(path: Path) -> MappingDrive:
    """Read a log of ours."""
    with LogReader(path) as log:
        profile, datum = log_facts(log)
    return of_messages(str(path), run_messages(path, *READ), profile, datum)


def log_facts(log: LogReader) -> tuple[Profile, Datum]:
    """Return profile and datum of a log. Raises :class:`MappingDriveError` and the errors of
    logs."""
    profile = profile_in(log)
    try:
        return profile, datum_of(log.attachment("course.json"))
    except CourseError as error:
        raise MappingDriveError(f"{log.path}: {error}") from None


def of_messages(
    name: str, messages: Iterable[Message], profile: Profile, datum: Datum
) -> MappingDrive:
    """Return the drive of messages: its motion is that of gyro and wheel or motor speed, else of
    the estimates."""
    collected = DriveMessages(name, profile, datum)
    for message in messages:
        collected.add(message)
    return collected.drive()


class DriveMessages:
    """Collects what mapping needs of the messages of a drive: scans, and columns of numbers."""

    def __init__(self, name: str, profile: Profile, datum: Datum) -> None:
        self._name, self._datum = name, datum
        drive = profile.vehicle.drive
        self._metres_per_rad = drive.gear_ratio * drive.wheel_radius_m
        arm = profile.lever_arm_m(GnssFix.__name__) or (0.0, 0.0, 0.0)
        self._arm_m = arm[0], arm[1]
        self._gaps = 0
        self.scans: list[LaserScan] = []
        self._rates, self._wheels, self._motors = _Columns(2), _Columns(2), _Columns(2)
        self._believed, self._truths, self._fixes = _Columns(3), _Columns(5), _Columns(4)

    def add(self, message: Message) -> None:
        """Add a message; others than :data:`READ` do not matter."""
        match message:
            case LaserScan():
                self.scans.append(message)
            case ImuSample() if isfinite(message.angular_rate_radps[2]):
                self._rates.add(message.t_ns, message.angular_rate_radps[2])
            case WheelSpeed() if isfinite(message.speed_mps):
                self._wheels.add(message.t_ns, message.speed_mps)
            case MotorStatus() if isfinite(message.motor_speed_radps):
                self._motors.add(message.t_ns, message.motor_speed_radps * self._metres_per_rad)
            case StateEstimate() if message.status is EstimatorStatus.RUNNING and isfinite(
                message.speed_mps + message.yaw_rate_radps
            ):
                self._believed.add(message.t_ns, message.speed_mps, message.yaw_rate_radps)
            case GroundTruth():
                self._truths.add(
                    message.t_ns, message.x_m, message.y_m, message.yaw_rad, message.speed_mps
                )
            case GnssFix() if is_possible_fix(message):
                east, north, _ = enu_m(self._datum, message)
                # The error of a plain fix is the same for a minute: a hundred of them are as good
                # as one.
                factor = 1.0 if message.carrier is CarrierSolution.FIXED else 5.0
                self._fixes.add(message.t_ns, east, north, factor * declared_sigma_m(message))
            case Event(name="log_dropped"):
                self._gaps += 1
            case _:
                pass

    def drive(self) -> MappingDrive:
        """Return the drive so far."""
        speeds = _ordered((self._wheels if self._wheels else self._motors).table)
        odometry = None
        if len(self._rates) > 1 and len(speeds) > 1:
            odometry = _from_gyro(_ordered(self._rates.table), speeds)
        elif len(self._believed) > 1:
            column = _ordered(self._believed.table)
            odometry = dead_reckoning(column[:, 0].astype(np.int64), column[:, 1], column[:, 2])
        gnss, true = _ordered(self._fixes.table), self._truths.table
        truth = None
        if len(true) > 1:
            t, x, y, yaw, speed = true.T
            truth = RecordedMotion(t.astype(np.int64), x, y, unwrapped(yaw), speed)
        return MappingDrive(
            name=self._name, scans=_in_order(self.scans), odometry=odometry,
            gnss_ns=gnss[:, 0].astype(np.int64), gnss_m=gnss[:, 1:3], gnss_sigma_m=gnss[:, 3],
            antenna_m=self._arm_m, truth=truth, gaps=self._gaps,
            datum=self._datum,
        )  # fmt: skip


class _Columns:
    """Growing table of numbers whose first column is a time. Nanoseconds of a run's clock fit into
    a float64 to a microsecond."""

    def __init__(self, width: int) -> None:
        self._width, self._values = width, array("d")

    def __len__(self) -> int:
        return len(self._values) // self._width

    def add(self, *row: float) -> None:
        """Append a row."""
        self._values.extend(row)

    @property
    def table(self) -> Array:
        """Rows (n, width)."""
        return np.array(self._values, dtype=np.float64).reshape(-1, self._width)


def _ordered(table: Array) -> Array:
    """Return the rows of a table by time, one for each instant."""
    _, first = np.unique(table[:, 0], return_index=True)
    return np.asarray(table[first])


def _in_order(scans: list[LaserScan]) -> list[LaserScan]:
    """Return scans by time; those of files of others whose geometry is no number are left out."""
    kept = {
        scan.t_ns: scan
        for scan in scans
        if isfinite(
            scan.angle_min_rad + scan.angle_increment_rad + scan.time_increment_s
            + scan.range_min_m + scan.x_m + scan.y_m
        )
    }  # fmt: skip
    return [kept[t_ns] for t_ns in sorted(kept)]


def _from_gyro(gyro: Array, speeds: Array) -> Odometry:
    """Return the motion by gyro and speed. Standstill at the start shows the gyro's bias."""
    t_s, begin = gyro[:, 0] * 1e-9, gyro[0, 0] * 1e-9
    speed = np.interp(t_s, speeds[:, 0] * 1e-9, speeds[:, 1])
    moving = np.flatnonzero(np.abs(speed) > STILL_MPS)
    still = gyro[: moving[0] if len(moving) else len(gyro), 1]
    rested_s = (t_s[len(still) - 1] - begin) if len(still) else 0.0
    bias = float(still.mean()) if rested_s >= BIAS_S else 0.0
    noise = GYRO_NOISE if rested_s >= BIAS_S else UNKNOWN_NOISE
    return dead_reckoning(gyro[:, 0].astype(np.int64), speed, gyro[:, 1] - bias, noise)


def _bag(path: Path, lidar_m: tuple[float, float]) -> MappingDrive:
    """Read a bag by type: LaserScan, and the poses of Odometry."""
    from vehicled.offline.recordings.rosbag import open_reader, stamp_ns

    scans: list[LaserScan] = []
    poses = []
    with open_reader(path) as reader:
        chosen = []
        for kind in ("sensor_msgs/msg/LaserScan", "nav_msgs/msg/Odometry"):
            found = [c for c in reader.connections if c.msgtype == kind and c.msgcount]
            chosen += sorted(found, key=lambda c: (-c.msgcount, c.topic))[:1]
        if not any(c.msgtype.endswith("LaserScan") for c in chosen):
            raise MappingDriveError(
                f"{path}: holds no sensor_msgs/LaserScan: there is nothing to map"
            )
        for connection, t_rx_ns, data in reader.messages(connections=chosen):
            message = reader.deserialize(data, connection.msgtype)
            t_ns = stamp_ns(message, t_rx_ns)
            if connection.msgtype.endswith("Odometry"):
                p, q = message.pose.pose.position, message.pose.pose.orientation
                yaw = np.arctan2(2.0 * (q.w * q.z + q.x * q.y), 1.0 - 2.0 * (q.y * q.y + q.z * q.z))
                if isfinite(p.x + p.y + yaw):
                    poses.append((t_ns, p.x, p.y, yaw))
                continue
            scans.append(
                LaserScan(
                    t_ns, t_rx_ns, float(message.angle_min), float(message.angle_increment),
                    float(message.time_increment), float(message.scan_time),
                    float(message.range_min), float(message.range_max),
                    *lidar_m, tuple(np.asarray(message.ranges, dtype=np.float64).tolist()),
                )
            )  # fmt: skip
    return MappingDrive(name=str(path), scans=_in_order(scans), odometry=_of_poses(poses))


def _of_poses(poses: list[tuple[Any, ...]]) -> Odometry | None:
    if len(poses) < 2:
        return None
    table = _ordered(np.array(poses, dtype=np.float64))
    return Odometry(table[:, 0].astype(np.int64), table[:, 1], table[:, 2], unwrapped(table[:, 3]))


def _carmen(path: Path, lidar_m: tuple[float, float]) -> MappingDrive:
    """Read ``FLASER`` and ``ROBOTLASER1`` lines with the odometry that they hold; other lines do
    not matter."""
    scans: list[LaserScan] = []
    poses = []
    opener = gzip.open if path.name.endswith(".gz") else open
    try:
        with opener(path, "rt", encoding="ascii", errors="replace") as file:
            for number, line in enumerate(iter(lambda: file.readline(MAX_LINE), ""), 1):
                if not re.match(r"(FLASER|ROBOTLASER1)\s", line):
                    continue
                try:
                    scan, pose = _carmen_line(line.split(), lidar_m)
                except (ValueError, IndexError):
                    raise MappingDriveError(
                        f"{path}, line {number}: is no complete scan; cut the file before it"
                    ) from None
                scans.append(scan)
                poses.append((scan.t_ns, *pose))
    except (OSError, EOFError) as error:
        raise MappingDriveError(f"{path}: cannot be read ({error})") from None
    return MappingDrive(name=str(path), scans=_in_order(scans), odometry=_of_poses(poses))


def _carmen_line(
    words: list[str], lidar_m: tuple[float, float]
) -> tuple[LaserScan, tuple[float, float, float]]:
    if words[0] == "FLASER":
        count = int(words[1])
        ranges, rest = words[2 : 2 + count], words[2 + count :]
        # Laser pose, then odometry, then two clocks with the host between.
        x, y, yaw = (float(word) for word in rest[3:6])
        t_s = float(rest[8])
        low, step, most = -CARMEN_SPAN_RAD / 2, CARMEN_SPAN_RAD / max(count - count % 2, 1), 80.0
    else:
        low, _, step, most = (float(word) for word in words[2:6])
        count = int(words[8])
        ranges = words[9 : 9 + count]
        rest = words[9 + count :]
        rest = rest[1 + int(rest[0]) :]
        x, y, yaw = (float(word) for word in rest[3:6])
        t_s = float(rest[11])
    if count < 2 or len(ranges) < count or not isfinite(x + y + yaw + t_s + low + step):
        raise ValueError
    t_ns = round(t_s * 1e9)
    values = tuple(float(word) for word in ranges)
    return LaserScan(t_ns, t_ns, low, step, 0.0, 0.0, 0.0, most, *lidar_m, values), (x, y, yaw)
