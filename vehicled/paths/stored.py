"""A course as it is kept in a log, and sent to a running daemon: text or bytes that give back the
same numbers, to the last bit."""

import zlib
from dataclasses import replace
from math import isfinite
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta, Struct

from vehicled.core.arrays import Array, hypotenuse
from vehicled.core.messages import Path
from vehicled.paths.course import MAX_COORDINATE_M, MAX_LENGTH_M, MAX_SAMPLES, MAX_SPEED_MPS, Course
from vehicled.paths.datum import LOT_17, Datum
from vehicled.paths.errors import CourseError
from vehicled.paths.markings import Markings
from vehicled.paths.read_summary import ReadSummary
from vehicled.paths.waits import Wait, check_waits

ARRAYS = ("x_m", "y_m", "yaw_rad", "curvature_per_m", "s_m", "speed_mps")
"""Columns of a stored course, in order."""
AGAINST = -0.2
"""Cosine between heading and line below which a heading points backwards."""
MAX_CURVATURE_PER_M = 1e4
MAX_NAME = 200
_MOST_BYTES = 8 * len(ARRAYS) * MAX_SAMPLES + (1 << 20)


class _StoredPlace(Struct):
    latitude_rad: float
    longitude_rad: float
    height_m: float

    def as_datum(self) -> Datum:
        return Datum(self.latitude_rad, self.longitude_rad, self.height_m)


class _Located(Struct):
    datum: _StoredPlace


class _Stored(Struct, kw_only=True):
    name: str
    closed: bool
    length_m: float
    datum: _StoredPlace
    x_m: list[float]
    y_m: list[float]
    yaw_rad: list[float]
    curvature_per_m: list[float]
    s_m: list[float]
    speed_mps: list[float]
    markings: Markings = Markings()
    waits: tuple[Wait, ...] = ()


def to_json(course: Course) -> bytes:
    """Return the course as text, so that a log needs no other file."""
    datum = course.datum
    place = _StoredPlace(datum.latitude_rad, datum.longitude_rad, datum.height_m)
    columns = {name: getattr(course, name).tolist() for name in ARRAYS}
    return msgspec.json.encode(
        _Stored(
            name=course.name, closed=course.closed, length_m=course.length_m, datum=place,
            markings=course.markings, waits=course.waits, **columns,
        )
    )  # fmt: skip


def from_json(data: bytes) -> Course:
    """Return the course from its text. Raises :class:`CourseError` for other text."""
    try:
        stored = msgspec.json.decode(data, type=_Stored)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CourseError(f"the stored course cannot be read: {error}") from None
    columns: dict[str, Any] = {name: np.array(getattr(stored, name)) for name in ARRAYS}
    if len({len(column) for column in columns.values()}) != 1 or len(stored.x_m) < 2:
        raise CourseError(f"{stored.name}: the columns of the stored course are not of one length")
    for column in columns.values():
        column.flags.writeable = False
    check_waits(stored.name, stored.waits, stored.length_m)
    return Course(
        name=stored.name,
        closed=stored.closed,
        length_m=stored.length_m,
        datum=stored.datum.as_datum(),
        markings=stored.markings,
        waits=stored.waits,
        **columns,
    )


class CourseHead(Struct, kw_only=True):
    """A course without its columns, which follow as float64, one after the other."""

    name: str
    closed: bool
    length_m: float
    datum: _StoredPlace
    samples: Annotated[int, Meta(ge=2, le=MAX_SAMPLES)]
    markings: Markings = Markings()
    waits: tuple[Wait, ...] = ()


def head_of(course: Course) -> CourseHead:
    """Return the head of a course."""
    datum = course.datum
    place = _StoredPlace(datum.latitude_rad, datum.longitude_rad, datum.height_m)
    return CourseHead(
        name=course.name, closed=course.closed, length_m=course.length_m, datum=place,
        samples=len(course.x_m), markings=course.markings, waits=course.waits,
    )  # fmt: skip


def columns_of(course: Course) -> list[bytes]:
    """Return the columns of a course as float64."""
    return [np.ascontiguousarray(getattr(course, name), dtype="<f8").tobytes() for name in ARRAYS]


def from_columns(head: CourseHead, values: Array) -> Course:
    """Return the course of a head and its columns (6, n), unchecked."""
    columns: dict[str, Any] = dict(zip(ARRAYS, values, strict=True))
    for column in columns.values():
        column.flags.writeable = False
    return Course(
        name=head.name, closed=head.closed, length_m=head.length_m, datum=head.datum.as_datum(),
        markings=head.markings, waits=head.waits, **columns,
    )  # fmt: skip


def course_message(course: Course, now_ns: int) -> Path:
    """Convert the course to its log record."""
    columns: dict[str, Any] = {
        name: tuple(getattr(course, name).tolist())
        for name in ("x_m", "y_m", "yaw_rad", "curvature_per_m", "speed_mps")
    }
    return Path(now_ns, course.name, course.closed, **columns)


def to_bytes(course: Course) -> bytes:
    """Return the course in a compact form, compressed, so that decoding it costs a running daemon
    next to nothing."""
    return zlib.compress(
        msgspec.json.encode(head_of(course)) + b"\n" + b"".join(columns_of(course)), 1
    )


def from_bytes(data: bytes) -> Course:
    """Return the course of :func:`to_bytes`. Raises :class:`CourseError` for other bytes."""
    unpacking = zlib.decompressobj()
    try:
        plain = unpacking.decompress(data, _MOST_BYTES)
        text, _, rest = plain.partition(b"\n")
        head = msgspec.json.decode(text, type=CourseHead)
    except (zlib.error, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CourseError(f"these bytes are no course: {error}") from None
    if len(head.name) > MAX_NAME or not head.name.isprintable():
        raise CourseError(
            f"the name of the course is longer than {MAX_NAME} characters, or has some that "
            "are not printable"
        )
    if len(rest) != 8 * len(ARRAYS) * head.samples or not unpacking.eof:
        raise CourseError(f"{head.name}: the course is cut off")
    values = np.frombuffer(rest, "<f8").reshape(len(ARRAYS), head.samples).astype(float)
    _check(head.name, dict(zip(ARRAYS, values, strict=True)), head.length_m)
    check_waits(head.name, head.waits, head.length_m)
    return from_columns(head, values)


def from_file(data: bytes, file_name: str) -> Course:
    """Return the course of a file that :func:`to_json` wrote, whose numbers are not trusted. Raises
    :class:`CourseError`."""
    try:
        course = from_json(data)
    except CourseError as error:
        raise CourseError(f"{file_name}: {error}") from None
    if len(course.x_m) > MAX_SAMPLES:
        raise CourseError(
            f"{file_name}: {len(course.x_m)} samples; at most {MAX_SAMPLES} are driven"
        )
    try:
        _check(file_name, {name: getattr(course, name) for name in ARRAYS}, course.length_m)
    except CourseError as error:
        raise CourseError(f"{error}; save the course of the log again") from None
    account = ReadSummary(
        "the course of a log, point by point",
        (("x_m, y_m", "east, north, m"), ("speed_mps", "speed, m/s")),
    )
    return replace(course, account=account, surveyed=course.datum != LOT_17)


def is_stored(data: bytes) -> bool:
    """Return True for the text of :func:`to_json`, which no other format of courses resembles."""
    return b'"curvature_per_m"' in data and b'"s_m"' in data


def _check(name: str, columns: dict[str, Any], length_m: float) -> None:
    """Raise :class:`CourseError` for columns that are no course."""
    steps = np.diff(columns["s_m"])
    if not (all(np.isfinite(column).all() for column in columns.values()) and isfinite(length_m)):
        raise CourseError(f"{name}: the course has a value that is not finite")
    if not (
        (steps > 0.0).all()
        and columns["s_m"][0] == 0.0
        and columns["s_m"][-1] <= length_m <= MAX_LENGTH_M
    ):
        raise CourseError(
            f"{name}: the arc lengths of the course do not increase from 0 to its length"
        )
    legs = hypotenuse(np.diff(columns["x_m"]), np.diff(columns["y_m"]))
    if (legs > 2.0 * steps + 0.01).any() or any(
        (np.abs(columns[axis]) > MAX_COORDINATE_M).any() for axis in ("x_m", "y_m")
    ):
        raise CourseError(f"{name}: the places of the course do not fit its arc lengths")
    if not ((columns["speed_mps"] != 0.0) & (np.abs(columns["speed_mps"]) <= MAX_SPEED_MPS)).all():
        raise CourseError(f"{name}: a target speed is 0, or above {MAX_SPEED_MPS:g} m/s")
    direction = np.where(columns["speed_mps"][:-1] < 0.0, -1.0, 1.0)
    yaw = columns["yaw_rad"][:-1]
    ahead = direction * (
        np.cos(yaw) * np.diff(columns["x_m"]) + np.sin(yaw) * np.diff(columns["y_m"])
    )
    # The heading of a corner is the mean of both legs, at most a right angle off either.
    if (ahead < AGAINST * legs - 1e-9).any():
        raise CourseError(f"{name}: a heading points against the line of the course")
    if (np.abs(columns["curvature_per_m"]) > MAX_CURVATURE_PER_M).any():
        raise CourseError(f"{name}: a curvature is above {MAX_CURVATURE_PER_M:g} per m")


def datum_of(data: bytes) -> Datum:
    """Return the course's datum, the only part of a course in an imported log. Raises
    :class:`CourseError`."""
    try:
        return msgspec.json.decode(data, type=_Located).datum.as_datum()
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CourseError(f"course.json says no datum: {error}") from None
