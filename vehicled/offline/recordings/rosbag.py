"""ROS 1 and ROS 2 bags as recordings, through the ``rosbags`` library, which is optional.

Read by type, whatever the topics are called: NavSatFix, Imu, TwistStamped (the speed of the body),
AckermannDriveStamped (commands) and Odometry (what was published). Where several topics have a
type, the one with most messages counts, for commands first one with speeds, then one whose name
says that they were applied. An Imu without rates is a heading, as receivers with two antennas
publish it, and is read beside. Drivers give the status GBAS to RTK fixed and floating alike, some
to all corrections. So a fix is taken as RTK fixed only if its covariance agrees, and only these are
the truth.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import atan2, inf, isfinite, nan, radians, sqrt
from pathlib import Path
from typing import Any

import numpy as np

from vehicled.core.arrays import wrapped
from vehicled.core.errors import UserError
from vehicled.core.messages import (
    NAN9,
    ActuatorCommand,
    CarrierSolution,
    FixType,
    GnssFix,
    Heading,
    HeadingKind,
    ImuSample,
    Message,
    Mode,
    WheelSpeed,
    is_place,
    stated_carrier,
)
from vehicled.core.vehicle import Vehicle
from vehicled.offline.recordings import track_truth
from vehicled.offline.recordings.errors import RecordingError
from vehicled.offline.recordings.recording import RecordedMotion, Recording, Times, arrival_ns, held
from vehicled.paths.datum import Datum
from vehicled.paths.errors import CourseError
from vehicled.profile import load_profile

STEP_NS = 20_000_000
MAX_STEPS = 500_000
"""Almost three hours at 50 Hz: beyond it stamps are wrong."""
GBAS = 2
"""``NavSatStatus.STATUS_GBAS_FIX``."""
WHEEL_SPEED_SIGMA_MPS = 0.1
RATES, HEADING = "rates of an Imu", "orientation of an Imu"
"""Halves of an Imu that are read alone, where another topic of that type gives the other; no types
of ROS."""
FIX = "sensor_msgs/msg/NavSatFix"
IMU = "sensor_msgs/msg/Imu"
TWIST = "geometry_msgs/msg/TwistStamped"
DRIVE = "ackermann_msgs/msg/AckermannDriveStamped"
ODOMETRY = "nav_msgs/msg/Odometry"


def load(path: str | os.PathLike[str], vehicle: Vehicle | None = None, name: str = "") -> Recording:
    """A bag: a folder of ROS 2, or a ``.bag`` of ROS 1. ``vehicle`` is believed, by default that of
    the profile ``art_published``.

    Raises :class:`RecordingError` when the library is missing, the bag cannot be read, or it holds
    no fix.
    """
    vehicle = vehicle or load_profile("art_published").vehicle
    stored: dict[str, list[tuple[int, Any]]] = {}
    with open_bag(path) as bag:
        for kind, t_rx_ns, message in bag.messages():
            stored.setdefault(kind, []).append((t_rx_ns, message))
    return _recording(path, name or Path(path).stem, vehicle, stored)


class Bag:
    """An open bag: its best topic of each known type."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        headings = [
            connection
            for connection in reader.connections
            if connection.msgtype == IMU and self._only_turned(connection)
        ]
        self.chosen = _choose(
            [connection for connection in reader.connections if connection not in headings],
            self._has_speed,
        )
        known = {
            connection.topic
            for connection in reader.connections
            if connection.msgtype in (FIX, IMU, TWIST, DRIVE, ODOMETRY)
        }
        heading = max(
            headings, key=lambda connection: (connection.msgcount, connection.topic), default=None
        )
        self._heading = "" if heading is None else heading.topic
        if heading is not None:
            self.chosen.append(heading)
        self.kinds = {connection.msgtype for connection in self.chosen}
        self.left_out = sorted(known - {connection.topic for connection in self.chosen})
        """Topics of known types beside which others of their types were chosen."""

    def _first(self, connection: Any) -> Any:
        """Return the first message of a topic; None if it has none."""
        for _, _, data in self._reader.messages(connections=[connection]):
            return self._reader.deserialize(data, connection.msgtype)
        return None

    def _only_turned(self, connection: Any) -> bool:
        """Return True for a topic of orientations without rates, by its first message."""
        message = self._first(connection)
        return message is not None and bool(
            message.angular_velocity_covariance[0] < 0.0 <= message.orientation_covariance[0]
        )

    def _has_speed(self, connection: Any) -> bool:
        """Return False for commands without a speed, as our own applied ones, which have a throttle
        instead."""
        message = self._first(connection) if connection.msgtype == DRIVE else None
        return message is None or isfinite(message.drive.speed)

    def messages(self) -> Iterator[tuple[str, int, Any]]:
        """Yield type, time of arrival and content of the messages, in order of arrival; of an Imu
        what is read of it."""
        for connection, t_rx_ns, data in (
            self._reader.messages(connections=self.chosen) if self.chosen else ()
        ):
            kind = connection.msgtype
            if kind == IMU and self._heading:
                kind = HEADING if connection.topic == self._heading else RATES
            yield kind, t_rx_ns, self._reader.deserialize(data, connection.msgtype)


@contextmanager
def open_bag(path: str | os.PathLike[str]) -> Iterator[Bag]:
    """Open a bag. Raises :class:`RecordingError`, also for what fails while it is read."""
    with open_reader(path) as reader:
        yield Bag(reader)


@contextmanager
def open_reader(path: str | os.PathLike[str]) -> Iterator[Any]:
    """Open a bag as a reader of ``rosbags``. Raises :class:`RecordingError`, also for what fails
    while it is read."""
    try:
        from rosbags.highlevel import AnyReader, AnyReaderError
        from rosbags.typesys import Stores, get_typestore
    except ImportError:
        raise RecordingError(
            f"{path}: ROS bags are read by the library rosbags, which is not installed: pip "
            'install "vehicled[ros]"'
        ) from None
    try:
        with AnyReader([Path(path)], default_typestore=get_typestore(Stores.ROS2_HUMBLE)) as reader:
            yield reader
    except UserError:
        raise
    except (AnyReaderError, OSError) as error:
        raise RecordingError(f"{path}: cannot be read as a ROS bag: {error}") from error
    except Exception as error:
        raise RecordingError(
            f"{path}: cannot be read as a ROS bag: {type(error).__name__}: {error}"
        ) from error


def _choose(connections: Any, has_speed: Callable[[Any], bool]) -> list[Any]:
    """Connections of a bag that are read: for each type its best topic."""
    best: dict[str, tuple[bool, bool, int, str]] = {}
    for connection in connections:
        # A speed that is commanded is not one that was measured.
        commanded = connection.msgtype == TWIST and "cmd" in connection.topic
        if connection.msgtype in (FIX, IMU, TWIST, DRIVE, ODOMETRY) and not commanded:
            rank = (
                has_speed(connection),
                "applied" in connection.topic,
                connection.msgcount,
                connection.topic,
            )
            best[connection.msgtype] = max(
                rank, best.get(connection.msgtype, (False, False, -1, ""))
            )
    topics = {topic for *_, topic in best.values()}
    return [
        connection
        for connection in connections
        if connection.topic in topics and connection.msgtype in best
    ]


def _recording(
    path: Any, name: str, vehicle: Vehicle, stored: dict[str, list[tuple[int, Any]]]
) -> Recording:
    inputs: list[Message] = []
    for kind in (FIX, IMU, RATES, HEADING, TWIST, DRIVE):
        for t_rx_ns, message in stored.get(kind, ()):
            inputs += convert(kind, message, t_rx_ns, vehicle)
    fixes = [m for m in inputs if isinstance(m, GnssFix)]
    if len(fixes) < 2:
        raise RecordingError(
            f"{path}: holds {len(fixes) or 'no'} usable {FIX}: there is nothing to estimate a "
            "track from"
        )
    first = fixes[0]
    try:
        datum = Datum(
            first.latitude_rad,
            first.longitude_rad,
            first.height_m if isfinite(first.height_m) else 0.0,
        )
    except CourseError as error:
        raise RecordingError(f"{path}: the first fix is not on the earth: {error}") from error
    steps = np.arange(fixes[0].t_rx_ns, fixes[-1].t_rx_ns + 1, STEP_NS, dtype=np.int64)[
        : MAX_STEPS + 1
    ]
    if len(steps) > MAX_STEPS:
        raise RecordingError(
            f"{path}: lasts longer than {MAX_STEPS * STEP_NS * 1e-9:.0f} s by its stamps: cut "
            "it, or mend its clock"
        )
    truth = track_truth.of_fixes(steps, fixes, datum, (0.0, 0.0, 0.0))
    _, east, north = track_truth.places(fixes, datum)
    arrivals = [m.t_rx_ns for m in fixes]
    return Recording(
        name=name,
        kind="rosbag",
        vehicle=vehicle,
        datum=datum,
        inputs=sorted(inputs, key=arrival_ns),
        steps_ns=steps.tolist(),
        truth=truth,
        raw_x_m=held(steps, arrivals, east),
        raw_y_m=held(steps, arrivals, north),
        published=_published(stored.get(ODOMETRY, ()), steps, truth),
        source=str(path),
    )


def stamp_ns(message: Any, t_rx_ns: int) -> int:
    """Time of validity; the arrival where the header has none, or one that is later than the
    arrival."""
    stamp = message.header.stamp
    t_ns = int(stamp.sec) * 1_000_000_000 + int(stamp.nanosec)
    return t_ns if 0 < t_ns <= t_rx_ns else t_rx_ns


def convert(kind: str, message: Any, t_rx_ns: int, vehicle: Vehicle) -> Iterator[Message]:
    """A message of a bag as ours; nothing for odometry and other types."""
    if kind == DRIVE:
        yield from _command(message, t_rx_ns, vehicle)
    elif kind in (FIX, TWIST):
        yield from {FIX: _fix, TWIST: _speed}[kind](message, t_rx_ns)
    elif kind in (IMU, RATES, HEADING):
        if kind != HEADING:
            yield from _rates(message, t_rx_ns)
        if kind != RATES:
            yield from _heading(message, t_rx_ns)


def _carrier(status: int, covariance: tuple[float, ...]) -> CarrierSolution:
    """Return the carrier solution by status and covariance. Without a covariance it is unknown."""
    largest = max(covariance[0], covariance[4])
    if status < GBAS or not 0.0 < largest < inf:
        return CarrierSolution.NONE
    return stated_carrier(CarrierSolution.FIXED, covariance)


def _fix(message: Any, t_rx_ns: int) -> Iterator[Message]:
    status = int(message.status.status)
    latitude_rad, longitude_rad = radians(message.latitude), radians(message.longitude)
    if status < 0 or not is_place(latitude_rad, longitude_rad):
        return
    known = int(message.position_covariance_type) != 0
    covariance = tuple(float(value) for value in message.position_covariance) if known else NAN9
    yield GnssFix(
        stamp_ns(message, t_rx_ns),
        t_rx_ns,
        latitude_rad,
        longitude_rad,
        float(message.altitude),
        position_covariance_m2=covariance,
        fix_type=FixType.FIX_3D,
        carrier=_carrier(status, covariance),
        differential=status > 0,
    )


def _rates(message: Any, t_rx_ns: int) -> Iterator[Message]:
    t_ns = stamp_ns(message, t_rx_ns)
    w, a = message.angular_velocity, message.linear_acceleration
    # A first covariance of -1 says that the quantity is not measured (REP-145).
    force = (a.x, a.y, a.z) if message.linear_acceleration_covariance[0] >= 0.0 else (nan, nan, nan)
    if message.angular_velocity_covariance[0] >= 0.0:
        yield ImuSample(
            t_ns, t_rx_ns, tuple(map(float, force)), (float(w.x), float(w.y), float(w.z))
        )


def _heading(message: Any, t_rx_ns: int) -> Iterator[Message]:
    q = message.orientation
    variance = float(message.orientation_covariance[8])
    # A node that sets nothing sends no covariance, and the identity that is the default of the
    # type.
    default = q.w == 1.0 and not variance
    if (
        message.orientation_covariance[0] >= 0.0
        and abs(q.x**2 + q.y**2 + q.z**2 + q.w**2 - 1.0) < 0.01
        and not default
    ):
        frame = str(message.header.frame_id).lower()
        # Two antennas do not drift; whatever else turns with the body may.
        kind = (
            HeadingKind.MOVING_BASE if "gnss" in frame or "gps" in frame else HeadingKind.INERTIAL
        )
        yield Heading(
            stamp_ns(message, t_rx_ns),
            t_rx_ns,
            _yaw(q),
            sqrt(variance) if variance > 0.0 else nan,
            kind,
        )


def _speed(message: Any, t_rx_ns: int) -> Iterator[Message]:
    v = message.twist.linear
    # A vehicle does not move sideways: this is a velocity in another frame, such as a receiver's,
    # and no wheel speed.
    if abs(v.y) > 0.2 * abs(v.x) + 0.05:
        return
    yield WheelSpeed(stamp_ns(message, t_rx_ns), t_rx_ns, float(v.x), WHEEL_SPEED_SIGMA_MPS)


def _command(message: Any, t_rx_ns: int, vehicle: Vehicle) -> Iterator[Message]:
    drive = message.drive
    angle = float(drive.steering_angle)
    if not isfinite(angle):
        return
    # The message has a speed where our vehicles have a throttle: the one that would hold it. NaN
    # stands for "not given".
    speed = float(drive.speed)
    throttle = (
        min(max(vehicle.drive.steady_throttle(speed), 0.0), 1.0)
        if isfinite(speed) and speed > 0.0
        else 0.0
    )
    yield ActuatorCommand(
        t_rx_ns, t_rx_ns, throttle, 0.0, vehicle.steering.command(angle), angle, Mode.AUTO
    )


def _yaw(q: Any) -> float:
    return atan2(2.0 * (q.w * q.z + q.x * q.y), 1.0 - 2.0 * (q.y * q.y + q.z * q.z))


def _published(odometry: Any, steps_ns: Times, truth: RecordedMotion) -> RecordedMotion:
    """Odometry at steps, turned and moved as a whole onto the truth: its frame is its own, so what
    counts is its shape."""
    if len(odometry) < 2:
        return RecordedMotion.partly(steps_ns)
    poses = [m.pose.pose for _, m in odometry]
    found = RecordedMotion(
        np.array([stamp_ns(m, t_rx_ns) for t_rx_ns, m in odometry]),
        np.array([p.position.x for p in poses]),
        np.array([p.position.y for p in poses]),
        np.unwrap([_yaw(p.orientation) for p in poses]),
        np.array([m.twist.twist.linear.x for _, m in odometry]),
    ).at(steps_ns)
    both = np.isfinite(found.x_m) & np.isfinite(truth.x_m)
    if both.sum() < 2:
        return RecordedMotion.partly(steps_ns)
    place = found.x_m + 1j * found.y_m
    here, there = place[both], truth.x_m[both] + 1j * truth.y_m[both]
    turn = np.vdot(here - here.mean(), there - there.mean())
    turn = turn / abs(turn) if abs(turn) > 0.0 else 1.0
    moved = there.mean() + turn * (place - here.mean())
    return RecordedMotion(
        steps_ns, moved.real, moved.imag, wrapped(found.yaw_rad + np.angle(turn)), found.speed_mps
    )
