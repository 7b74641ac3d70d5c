"""Contents of a course file in any format: planar or geodetic waypoints, checked and converted to a course."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import hypot, isfinite, radians
from typing import Any, NoReturn

import numpy as np

from vehicled.paths.course import MAX_WAYPOINTS, Course, course_from_waypoints
from vehicled.paths.datum import LOT_17, Datum
from vehicled.paths.errors import CourseError
from vehicled.paths.plausibility import curvature_remarks, heading_as_yaw
from vehicled.paths.read_summary import ReadSummary
from vehicled.paths.recorded import MOVING_MPS, WINDOW_M, Recorded, recorded, trace_speeds
from vehicled.paths.smoothing import Array

DEFAULT_SPEED_MPS = 1.0
# Nobody drives a course here; a latitude beyond it is a longitude.
POLAR_DEG = 85.0
MAX_DISTANCE_M = 100_000.0
TRACE_SPACING_M = 0.25
"""Rows with times that are closer than this, in the median, are a recording; others are waypoints."""
TRACE_WAYPOINT_M = 0.25
TRACE_WINDOW_S = 0.5
"""Shortest smoothing, as a time: a fast vehicle leaves few rows in each metre, and their noise would bend the line."""


@dataclass(frozen=True, slots=True)
class CourseFile:
    """Waypoints of one file. ``points`` are (east m, north m), or (latitude, longitude) in degrees when ``geodetic``."""

    file_name: str
    points: Sequence[tuple[float, float]]
    places: Sequence[str]
    """Name of each waypoint in an error, such as "line 12"."""
    geodetic: bool
    order: str
    """Order of the coordinates in the format; shown to a user who has swapped them."""
    account: ReadSummary
    """Record of what was read and ignored."""
    speeds_mps: Sequence[float] | None = None
    """Negative from each waypoint that is left backward."""
    speed_holds: bool = False
    headings: Sequence[float] | None = None
    heading_unit: str = ""
    """``rad`` or ``deg``; empty where the file does not say."""
    curvatures_per_m: Sequence[float] | None = None
    times_s: Sequence[float] | None = None
    """Time of each row; dense rows with times are a recorded trace and are smoothed."""
    closed: bool | None = None
    datum: Datum | None = None
    name: str = ""
    waits_s: Sequence[float] | None = None
    """Time at standstill at each waypoint, s; 0 for none."""

    def to_course(self) -> Course:
        """Return the course on the file's datum, else on its first waypoint, or for local metres on the datum of car park 17.

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
        plane = np.array(points, dtype=float).reshape(-1, 2)
        trace, remarks = self._trace(plane)
        if trace is not None:
            course = course_from_waypoints(
                self.file_name, trace.x_m, trace.y_m, speed=trace.speed_mps, closed=self.closed, datum=datum
            )  # fmt: skip
        else:
            yaw, compared = self._compared(plane)
            course = course_from_waypoints(
                self.file_name,
                plane[:, 0],
                plane[:, 1],
                yaw=yaw,
                speed=self.speeds_mps,
                default_speed_mps=DEFAULT_SPEED_MPS,
                closed=self.closed,
                datum=datum,
                speed_holds=self.speed_holds,
                places=self.places,
                waits_s=self.waits_s,
            )
            remarks += compared
        remarks += self._remarks(course, plane, recorded=trace is not None)
        account = replace(self.account, remarks=(*self.account.remarks, *remarks))
        surveyed = self.geodetic or self.datum is not None
        return replace(course, name=self.name or self.file_name, account=account, surveyed=surveyed)

    def _trace(self, plane: Array) -> tuple[Recorded | None, list[str]]:
        """Return the smoothed path of a recorded trace, and what reading made of its times; None for waypoints."""
        if self.times_s is None:
            return None, []
        undriven = [] if self.speeds_mps is not None else [f"no speeds: {DEFAULT_SPEED_MPS:g} m/s all along"]
        times = np.array(self.times_s, dtype=float)
        if not np.isfinite(times).all():
            return None, ["times are not all numbers: the rows are waypoints, not a recording", *undriven]
        steps = np.hypot(*np.diff(plane, axis=0).T)
        moving = np.sort(steps[steps > 0.0])
        if not np.isfinite(plane).all() or not len(moving) or moving[len(moving) // 2] > TRACE_SPACING_M:
            return None, undriven
        back = np.flatnonzero(np.diff(times) < 0.0)
        if len(back):
            k = int(back[0]) + 1
            raise CourseError(
                f"{self.file_name}, {self.places[k]}: time is {times[k]:g} s after {times[k - 1]:g} s: put the rows in order, or "
                "delete those of another recording"
            )
        driven = trace_speeds(times, plane)
        speeds = driven if self.speeds_mps is None else np.array(self.speeds_mps, dtype=float)
        by_speed_m, by_place_m = (float(np.trapezoid(np.abs(column), times)) for column in (speeds, driven))
        if not 0.8 * by_place_m <= by_speed_m <= 1.25 * by_place_m + 1.0:
            raise CourseError(
                f"{self.file_name}: the speeds come to {by_speed_m:.1f} m in {times[-1] - times[0]:.1f} s, the positions to "
                f"{by_place_m:.1f} m: give speeds in m/s and times in s, or delete the column of the speeds"
            )
        driving = np.sort(driven[driven > MOVING_MPS])
        window_m = max(WINDOW_M, TRACE_WINDOW_S * float(driving[len(driving) // 2])) if len(driving) else WINDOW_M
        try:
            path = recorded(
                *(times, plane[:, 0], plane[:, 1], np.zeros_like(times), speeds),
                spacing_m=TRACE_WAYPOINT_M,
                window_m=window_m,
            )
        except CourseError as error:
            raise CourseError(f"{self.file_name}: {error}") from None
        rate_hz = (len(times) - 1) / (times[-1] - times[0])
        remark = f"a recorded trace, {times[-1] - times[0]:.1f} s at {rate_hz:.0f} Hz: smoothed over {window_m:.1f} m"
        return path, [remark + ("" if self.speeds_mps is not None else "; speeds from positions and times")]

    def _compared(self, plane: Array) -> tuple[Array | None, list[str]]:
        """Return the headings as yaw, and what headings and curvatures of the file say of the line."""
        finite = bool(np.isfinite(plane).all())
        if not finite or (self.headings is None and self.curvatures_per_m is None):
            return None, []
        yaw: Array | None = None
        remarks: list[str] = []
        if self.headings is not None:
            speeds = np.ones(len(plane)) if self.speeds_mps is None else np.array(self.speeds_mps, dtype=float)
            yaw, remarks = heading_as_yaw(plane, np.array(self.headings, dtype=float), speeds < 0.0, self.heading_unit)
        if self.curvatures_per_m is not None:
            remarks += curvature_remarks(plane, np.array(self.curvatures_per_m, dtype=float))
        return yaw, remarks

    def _remarks(self, course: Course, plane: Array, *, recorded: bool) -> list[str]:
        """Return what reading made of the waypoints."""
        gap_m = hypot(*(plane[-1] - plane[0]))
        meaning = "a lap: its ends meet" if course.closed else "an open line: it ends where the file ends"
        kind = "rows" if recorded else "waypoints"
        remarks = [f"{len(plane)} {kind}, {meaning} ({gap_m:.2f} m apart)"]
        # The last point of a lap may repeat the first.
        dropped = len(plane) - course.waypoints - (1 if course.closed and gap_m < 1e-3 else 0)
        if dropped > 0 and not recorded:
            remarks.append(f"{dropped} of them dropped: they repeat their neighbours or lie in a short spike")
        if self.datum is None:
            remarks.append(
                "no datum: the first waypoint is the origin"
                if self.geodetic
                else "no datum: placed on car park 17 of UW-Madison, for simulation only; # datum_deg says where it is"
            )
        return remarks

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
            if max(abs(east), abs(north)) > MAX_DISTANCE_M or far_side(datum, latitude, longitude):
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


def far_side(datum: Datum, latitude_deg: float, longitude_deg: float) -> bool:
    """Return True for a point on the other half of the earth, where east and north can be small again."""
    _, _, up = datum.to_enu(radians(latitude_deg), radians(longitude_deg), 0.0)
    return up < -1_000_000.0


def check_count(file_name: str, count: int) -> None:
    """Raise CourseError when a reader has collected more waypoints than a course may have; called before they fill the memory."""
    if count > MAX_WAYPOINTS:
        raise CourseError(f"{file_name}: more than {MAX_WAYPOINTS} waypoints; thin the file out")


def text_of(data: bytes, file_name: str, kind: str) -> str:
    """Return the text of a file. Raises CourseError for other data."""
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
    """Return the JSON object in a file. Raises CourseError naming line and column."""
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
    """Return a JSON number as a float; None for other values and for integers beyond float."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def shown(value: object, limit: int = 40) -> str:
    """Return a value for an error message, shortened to one line."""
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."
