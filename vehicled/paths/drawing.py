"""What a file says, before it becomes a course: waypoints on the plane or on the earth, range-checked here for all formats."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, radians
from typing import Any, NoReturn

from vehicled.paths.course import MAX_WAYPOINTS, Course, course_from_waypoints
from vehicled.paths.datum import LOT_17, Datum
from vehicled.paths.errors import CourseError

DEFAULT_SPEED_MPS = 1.0
# Nobody drives a course here; a latitude beyond it is a longitude.
POLAR_DEG = 85.0
MAX_DISTANCE_M = 100_000.0


@dataclass(frozen=True, slots=True)
class Drawing:
    """Waypoints of one file. ``points`` are (east m, north m), or (latitude, longitude) in degrees when ``geodetic``."""

    file_name: str
    points: Sequence[tuple[float, float]]
    places: Sequence[str]
    """Name of each waypoint in an error, such as "line 12"."""
    geodetic: bool
    order: str
    """How the format writes a position; told to the user who has swapped it."""
    speeds_mps: Sequence[float] | None = None
    """Negative from each waypoint that is left backward."""
    speed_holds: bool = False
    yaws_rad: Sequence[float] | None = None
    closed: bool | None = None
    datum: Datum | None = None
    name: str = ""

    def to_course(self) -> Course:
        """The course, on the file's datum; without one, on its first waypoint, or for local metres on that of car park 17.

        Raises CourseError.
        """
        if len(self.points) < 2:
            raise CourseError(f"{self.file_name}: {len(self.points)} waypoint(s); a course needs at least 2")
        check_count(self.file_name, len(self.points))
        datum = self.datum or LOT_17
        points = self.points
        if self.geodetic:
            self._check_positions()
            first_latitude, first_longitude = self.points[0]
            datum = self.datum or Datum.from_degrees(first_latitude, first_longitude)
            points = self._projected(datum)
        course = course_from_waypoints(
            self.file_name,
            [p[0] for p in points],
            [p[1] for p in points],
            yaw=self.yaws_rad,
            speed=self.speeds_mps,
            default_speed_mps=DEFAULT_SPEED_MPS,
            closed=self.closed,
            datum=datum,
            speed_holds=self.speed_holds,
            places=self.places,
        )
        return course.renamed(self.name or self.file_name)

    def _check_positions(self) -> None:
        for (latitude, longitude), place in zip(self.points, self.places, strict=True):
            at = f"{self.file_name}, {place}"
            if not (isfinite(latitude) and isfinite(longitude)):
                raise CourseError(f"{at}: position ({latitude}, {longitude}) is not finite; every waypoint needs both coordinates")
            if latitude == 0.0 and longitude == 0.0:
                raise CourseError(f"{at}: position (0, 0) is a place holder; delete the waypoint or give it a position")
            wrong = ""
            if abs(latitude) > 90.0:
                swapped = abs(latitude) <= 180.0 and abs(longitude) <= 90.0
                cure = "latitude and longitude are swapped" if swapped else "positions are WGS 84 degrees"
                wrong = f"latitude {latitude:.7g} is outside -90 to 90: {cure}"
            elif abs(longitude) > 180.0:
                wrong = f"longitude {longitude:.7g} is outside -180 to 180: positions are WGS 84 degrees"
            elif abs(latitude) > POLAR_DEG:
                wrong = f"latitude {latitude:.7g} is next to a pole: latitude and longitude look swapped"
            if wrong:
                raise CourseError(f"{at}: {wrong}; {self.order}")

    def _projected(self, datum: Datum) -> list[tuple[float, float]]:
        projected = []
        for (latitude, longitude), place in zip(self.points, self.places, strict=True):
            east, north, _ = datum.to_enu(radians(latitude), radians(longitude), datum.height_m)
            if max(abs(east), abs(north)) > MAX_DISTANCE_M or _far_side(datum, latitude, longitude):
                # A datum in its own right makes a swap visible that the ranges let pass.
                back = datum.to_enu(radians(longitude), radians(latitude), datum.height_m) if abs(longitude) <= 90.0 else None
                swapped = back is not None and max(abs(back[0]), abs(back[1])) < MAX_DISTANCE_M
                cure = f"latitude and longitude look swapped; {self.order}" if swapped else "correct the waypoint or the datum"
                raise CourseError(
                    f"{self.file_name}, {place}: ({latitude:.7g}, {longitude:.7g}) is more than {MAX_DISTANCE_M / 1000:g} km "
                    f"from the {'datum' if self.datum else 'first waypoint'}; {cure}"
                )
            projected.append((east, north))
        return projected


def _far_side(datum: Datum, latitude_deg: float, longitude_deg: float) -> bool:
    """On the other half of the earth, where east and north can be small again."""
    _, _, up = datum.to_enu(radians(latitude_deg), radians(longitude_deg), 0.0)
    return up < -1_000_000.0


def check_count(file_name: str, count: int) -> None:
    """Raise CourseError when a reader has collected more waypoints than a course may have; called before they fill the memory."""
    if count > MAX_WAYPOINTS:
        raise CourseError(f"{file_name}: more than {MAX_WAYPOINTS} waypoints; thin the file out")


def text_of(data: bytes, file_name: str, kind: str) -> str:
    """The text of a file. Raises CourseError when it is none."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise CourseError(f"{file_name}: the file is UTF-16 text; save it as UTF-8")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CourseError(
            f"{file_name}: byte {data[error.start]:#04x} at offset {error.start} is not UTF-8 text; expected {kind}"
        ) from None
    if not text.strip():
        raise CourseError(f"{file_name}: the file is empty; expected {kind}")
    if "\x00" in text:
        raise CourseError(f"{file_name}: the file holds binary data (a zero byte at offset {text.index(chr(0))}); expected {kind}")
    return text


def json_of(data: bytes, file_name: str, kind: str) -> dict[str, Any]:
    """The JSON object in a file. Raises CourseError naming line and column."""
    text = text_of(data, file_name, kind)

    def refuse(constant: str) -> NoReturn:
        raise CourseError(f"{file_name}: {constant} is not a number in JSON; every coordinate must be finite")

    try:
        value = json.loads(text, parse_constant=refuse)
    except json.JSONDecodeError as error:
        cut = error.pos >= len(text.rstrip())
        cure = "the file is cut off; fetch it again" if cut else f"expected {kind}"
        raise CourseError(f"{file_name}, line {error.lineno}, column {error.colno}: {error.msg}; {cure}") from None
    except RecursionError:
        raise CourseError(f"{file_name}: the JSON is nested too deeply; expected {kind}") from None
    except CourseError:
        raise
    except ValueError as error:
        raise CourseError(f"{file_name}: {error}; expected {kind}") from None
    if not isinstance(value, dict):
        raise CourseError(f"{file_name}: the file holds a JSON {type(value).__name__}, not an object; expected {kind}")
    return value


def number(value: object) -> float | None:
    """A JSON number as a float; None for anything else, and for integers beyond float."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def shown(value: object, limit: int = 40) -> str:
    """A value for an error message, cut short and on one line."""
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."
