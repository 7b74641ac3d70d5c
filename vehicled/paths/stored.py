"""A course as it is kept in a log: JSON that gives back the same numbers, to the last bit."""

from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from vehicled.paths.course import Course
from vehicled.paths.datum import Datum
from vehicled.paths.errors import CourseError
from vehicled.paths.markings import Markings

_ARRAYS = ("x_m", "y_m", "yaw_rad", "curvature_per_m", "s_m", "speed_mps")


class _Place(Struct):
    latitude_rad: float
    longitude_rad: float
    height_m: float

    def as_datum(self) -> Datum:
        return Datum(self.latitude_rad, self.longitude_rad, self.height_m)


class _Located(Struct):
    datum: _Place


class _Stored(Struct, kw_only=True):
    name: str
    closed: bool
    length_m: float
    datum: _Place
    x_m: list[float]
    y_m: list[float]
    yaw_rad: list[float]
    curvature_per_m: list[float]
    s_m: list[float]
    speed_mps: list[float]
    markings: Markings = Markings()


def to_json(course: Course) -> bytes:
    """Return the course as text, so that a log needs no other file."""
    datum = course.datum
    place = _Place(datum.latitude_rad, datum.longitude_rad, datum.height_m)
    columns = {name: getattr(course, name).tolist() for name in _ARRAYS}
    return msgspec.json.encode(
        _Stored(name=course.name, closed=course.closed, length_m=course.length_m, datum=place, markings=course.markings, **columns)
    )


def from_json(data: bytes) -> Course:
    """Return the course from its text. Raises :class:`CourseError` for other text."""
    try:
        stored = msgspec.json.decode(data, type=_Stored)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CourseError(f"the stored course cannot be read: {error}") from None
    columns: dict[str, Any] = {name: np.array(getattr(stored, name)) for name in _ARRAYS}
    if len({len(column) for column in columns.values()}) != 1 or len(stored.x_m) < 2:
        raise CourseError(f"{stored.name}: the columns of the stored course are not of one length")
    for column in columns.values():
        column.flags.writeable = False
    return Course(
        name=stored.name,
        closed=stored.closed,
        length_m=stored.length_m,
        datum=stored.datum.as_datum(),
        markings=stored.markings,
        **columns,
    )


def datum_of(data: bytes) -> Datum:
    """Return the course's datum, the only part of a course in an imported log. Raises :class:`CourseError`."""
    try:
        return msgspec.json.decode(data, type=_Located).datum.as_datum()
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CourseError(f"course.json says no datum: {error}") from None
