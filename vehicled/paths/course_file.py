"""Contents of a course file in any format: planar or geodetic waypoints, checked and converted to a
course."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import hypot, isfinite, radians
from typing import Any, NoReturn

import numpy as np

from vehicled.core.arrays import Array, hypotenuse
from vehicled.paths import gaps, times
from vehicled.paths.course import MAX_WAYPOINTS, Course, check_headings, course_from_waypoints
from vehicled.paths.datum import LOT_17, Datum
from vehicled.paths.errors import CourseError
from vehicled.paths.plausibility import curvature_remarks, heading_as_yaw
from vehicled.paths.projection import Projection
from vehicled.paths.read_summary import ReadSummary
from vehicled.paths.recorded import (
    CHORD_M,
    MOVING_MPS,
    WINDOW_M,
    chord_rows,
    recorded,
    smoothed_rows,
    trace_speeds,
    zigzags,
)
from vehicled.paths.times import Times

DEFAULT_SPEED_MPS = 1.0
# Nobody drives a course here; a latitude beyond it is a longitude.
POLAR_DEG = 85.0
MAX_DISTANCE_M = 100_000.0
TRACE_SPACING_M = 0.25
"""Rows that are closer than this, in the median, are dense: with times they are a recording,
without them they may be one."""
TRACE_WAYPOINT_M = 0.25
TRACE_WINDOW_S = 0.5
"""Shortest smoothing, as a time: a fast vehicle leaves few rows in each metre, and their noise
would bend the line."""
SPEED_UNITS = {
    "km/h": 3.6,
    "mph": 1.0 / 0.44704,
    "knots": 3600.0 / 1852.0,
    "cm/s": 100.0,
    "mm/s": 1000.0,
}
"""Usual units of recorded speeds, as values for 1 m/s."""
MOST_GAPS_SHOWN = 3


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options that a user gives about a course file behind its name, as in
    ``trace.csv:gaps=bridge,time=ms``."""

    columns: tuple[str, ...] = ()
    """Names of the columns of a table without a header; - for one to ignore."""
    bridge_gaps: bool = False
    """True to drive straight across stretches that were not recorded."""
    time: str = ""
    """Unit of the times, one of :data:`vehicled.paths.times.UNITS`."""
    line: str = ""
    """Name, or number from 1, of the line to read in a file of several; of a Lanelet2 map the ids
    of lanelets, joined by +."""
    crs: str = ""
    """Projection of planar positions, such as ``EPSG:32616``; empty for metres east and north of
    the datum."""


DEFAULTS = ReadOptions()


@dataclass(frozen=True, slots=True)
class CourseFile:
    """Waypoints of one file. ``points`` are (east m, north m), or (latitude, longitude) in degrees
    when ``geodetic``."""

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
    times: Times | None = None
    """Time of each row; dense rows with times are a recorded trace and are smoothed."""
    keeps_speeds: bool = True
    """False where recorded speeds are no targets: the course gets one speed."""
    closed: bool | None = None
    datum: Datum | None = None
    name: str = ""
    waits_s: Sequence[float] | None = None
    """Time at standstill at each waypoint, s; 0 for none."""
    crs: str = ""
    """Projection as the file states it."""

    def to_course(self, options: ReadOptions = DEFAULTS) -> Course:
        """Return the course on the file's datum, else on its first waypoint, or for local metres on
        the datum of car park 17.

        Raises CourseError.
        """
        if crs := options.crs or self.crs:
            return replace(self._unprojected(crs), crs="").to_course(replace(options, crs=""))
        if len(self.points) < 2:
            raise CourseError(
                f"{self.file_name}: {len(self.points)} waypoint(s); a course needs at least 2"
            )
        check_count(self.file_name, len(self.points))
        datum = self.datum or LOT_17
        points = self.points
        if self.geodetic:
            self._check_positions()
            first_latitude, first_longitude = self.points[0]
            datum = self.datum or Datum.from_degrees(first_latitude, first_longitude)
            points = self._projected(datum)
        plane = np.array(points, dtype=float).reshape(-1, 2)
        course, remarks, smoothed = self._drawn(plane, datum, options)
        remarks += self._remarks(course, plane, "rows" if smoothed else "waypoints")
        account = replace(self.account, remarks=(*self.account.remarks, *remarks))
        surveyed = self.geodetic or self.datum is not None
        return replace(course, name=self.name or self.file_name, account=account, surveyed=surveyed)

    def _drawn(
        self, plane: Array, datum: Datum, options: ReadOptions
    ) -> tuple[Course, list[str], bool]:
        """Return the course, remarks, and whether it is smoothed: if the rows are a recording, or
        noise makes them zigzag."""
        legs = hypotenuse(*np.diff(plane, axis=0).T)
        moving = np.sort(legs[legs > 0.0])
        if not np.isfinite(plane).all() or not len(moving):
            return *self._through(plane, datum), False
        dense = float(moving[len(moving) // 2]) <= TRACE_SPACING_M
        t_s, remarks = self._times(plane, dense=dense)
        if dense or t_s is not None:
            remarks += self._gaps(plane, t_s, options)
        smoothed = True
        if dense and t_s is not None:
            course, more = self._of_trace(plane, t_s, datum)
        elif dense and zigzags(plane) and not self._has_places_to_keep:
            course, more = self._of_noisy(plane, datum)
        else:
            smoothed = False
            course, more = self._through(plane, datum)
            if dense and zigzags(plane):
                more.append(
                    "the rows zigzag by their noise, which lengthens the line: add a column of "
                    "times, and it is smoothed"
                )
        return course, remarks + more, smoothed

    @property
    def _has_places_to_keep(self) -> bool:
        """True with changes of direction or waits, whose places smoothing would move."""
        return (self.speeds_mps is not None and min(self.speeds_mps) < 0.0) or any(
            self.waits_s or ()
        )

    def _through(self, plane: Array, datum: Datum) -> tuple[Course, list[str]]:
        """Return the course through the rows as they are."""
        yaw, remarks = self._compared(plane)
        speeds, ends = self._ends_driven()
        course = course_from_waypoints(
            self.file_name,
            plane[:, 0],
            plane[:, 1],
            yaw=yaw,
            speed=speeds,
            default_speed_mps=DEFAULT_SPEED_MPS,
            closed=self.closed,
            datum=datum,
            speed_holds=self.speed_holds,
            places=self.places,
            waits_s=self.waits_s,
        )
        # The last point of a lap may repeat the first.
        repeated = course.closed and hypot(*(plane[-1] - plane[0])) < 1e-3
        dropped = len(plane) - course.waypoints - (1 if repeated else 0)
        if dropped > 0:
            remarks.append(
                f"{dropped} of them dropped: they repeat their neighbours or lie in a short spike"
            )
        return course, ends + remarks

    def _ends_driven(self) -> tuple[Array | None, list[str]]:
        """Return the speeds, those of 0 at the ends taken from their neighbours: a drive starts and
        ends at standstill anyway."""
        if self.speeds_mps is None:
            return None, []
        speeds = np.array(self.speeds_mps, dtype=float)
        driven = np.flatnonzero(speeds != 0.0)
        if not len(driven) or (driven[0] == 0 and driven[-1] == len(speeds) - 1):
            return speeds, []
        first, last = int(driven[0]), int(driven[-1])
        speeds[:first], speeds[last + 1 :] = speeds[first], speeds[last]
        return speeds, [
            "speed 0 at an end: the vehicle starts and stops there anyway, the next speed counts"
        ]

    def _of_noisy(self, plane: Array, datum: Datum) -> tuple[Course, list[str]]:
        """Return the course of dense rows without times whose noise is larger than their
        spacing."""
        speeds, remarks = self._ends_driven()
        points, rows, shift_m = smoothed_rows(
            plane, spacing_m=TRACE_WAYPOINT_M, window_m=WINDOW_M, closed=self.closed
        )
        at = np.arange(len(plane))
        course = course_from_waypoints(
            self.file_name,
            points[:, 0],
            points[:, 1],
            speed=None if speeds is None else np.interp(rows, at, speeds),
            default_speed_mps=DEFAULT_SPEED_MPS,
            closed=self.closed,
            datum=datum,
        )
        raw_m = float(hypotenuse(*np.diff(plane, axis=0).T).sum())
        remarks.append(
            f"the rows zigzag by their noise, over {raw_m:.1f} m: smoothed over {WINDOW_M:g} "
            f"m, by at most {shift_m:.3f} m"
        )
        return course, remarks

    def _times(self, plane: Array, *, dense: bool) -> tuple[Array | None, list[str]]:
        """Return the times in s, and how they were read; None for waypoints. Raises CourseError for
        a recording with bad times."""
        if self.times is None:
            return None, []
        unsaid = self.speeds_mps is None and self.keeps_speeds
        undriven = [f"no speeds: {DEFAULT_SPEED_MPS:g} m/s all along"] if unsaid else []
        finite, rows = np.isfinite(self.times.values), np.arange(len(self.times.values))
        missing = np.flatnonzero(~finite)
        if len(missing) > times.MOST_WITHOUT_TIME * len(rows):
            place = self.places[int(missing[0])]
            return None, [
                f"times are not all numbers ({place}): the rows are waypoints, not a recording",
                *undriven,
            ]
        lacking = [
            (
                f"{len(missing)} rows without a time ({self.places[row]}): taken between those "
                "beside them"
            )
            for row in missing[:1]
        ]
        # A row without a time takes that of the row before, until the ends of days and counters are
        # known.
        held = np.maximum.accumulate(np.where(finite, rows, rows[finite][0]))
        cure = f"name the column time_UNIT, or give the file as {self.file_name}:time=UNIT"
        try:
            t_s, remarks = times.to_seconds(
                replace(self.times, values=self.times.values[held]), plane, cure
            )
        except CourseError as error:
            if dense:
                raise CourseError(f"{self.file_name}: {error}") from None
            return None, undriven
        if len(t_s) > 1 and not np.diff(t_s).any():
            # Recordings of Autoware.Auto carry the time from their start, which nobody filled in.
            same = "times are all the same: the rows are waypoints, not a recording"
            return None, [same, *undriven]
        back = np.flatnonzero(np.diff(t_s) < 0.0)
        if len(back) and dense:
            k = int(back[0]) + 1
            before, after = (f"{self.times.values[row]:.10g}" for row in (k - 1, k))
            raise CourseError(
                f"{self.file_name}, {self.places[k]}: time is {after} after {before}: put the "
                "rows in order, or delete those of another recording"
            )
        if len(back):
            return None, undriven
        return np.interp(rows, rows[finite], t_s[finite]), lacking + (
            remarks if dense else undriven
        )

    def _gaps(self, plane: Array, t_s: Array | None, options: ReadOptions) -> list[str]:
        """Return remarks on stretches that were not recorded and are bridged. Raises CourseError
        unless the user asked for it."""
        found, meant = gaps.find(plane, t_s)
        for gap in found:
            if gap.jump and t_s is not None:
                where = self.places[gap.row]
                how = f"by {gap.length_m:.1f} m at {t_s[gap.row]:.1f} s"
                raise CourseError(
                    f"{self.file_name}, {where}: the position jumps {how}: leave out the row, "
                    "or what lies before or after it"
                )
        if found and not options.bridge_gaps:
            more = f" (and {len(found) - 1} more gaps)" if len(found) > 1 else ""
            row = found[0].row
            raise CourseError(
                f"{self.file_name}, {self.places[row - 1]} to {self.places[row]}: nothing was "
                f"recorded for {found[0]}{more}; cut the file there, or drive straight across "
                f"with {self.file_name}:gaps=bridge"
            )
        remarks = [
            f"gap bridged by a straight line: {self._between(gap)}"
            for gap in found[:MOST_GAPS_SHOWN]
        ]
        if len(found) > MOST_GAPS_SHOWN:
            remarks.append(f"{len(found) - MOST_GAPS_SHOWN} more gaps bridged")
        what = "no waypoint for" if t_s is None else "nothing was recorded for"
        return remarks + [f"{what} {self._between(gap)}" for gap in meant[:MOST_GAPS_SHOWN]]

    def _between(self, gap: gaps.RowGap) -> str:
        return f"{gap} ({self.places[gap.row - 1]} to {self.places[gap.row]})"

    def _of_trace(self, plane: Array, t_s: Array, datum: Datum) -> tuple[Course, list[str]]:
        """Return the course of a recorded trace."""
        driven = trace_speeds(t_s, plane)
        speeds = driven if self.speeds_mps is None else np.array(self.speeds_mps, dtype=float)
        self._check_distance(t_s, speeds, driven)
        driving = np.sort(driven[driven > MOVING_MPS])
        window_m = (
            max(WINDOW_M, TRACE_WINDOW_S * float(driving[len(driving) // 2]))
            if len(driving)
            else WINDOW_M
        )
        remarks = self._trace_headings(plane, speeds)
        try:
            path = recorded(
                *(t_s, plane[:, 0], plane[:, 1], np.zeros_like(t_s), speeds),
                spacing_m=TRACE_WAYPOINT_M,
                constant_mps=None if self.keeps_speeds else DEFAULT_SPEED_MPS,
                window_m=window_m,
            )
        except CourseError as error:
            raise CourseError(f"{self.file_name}: {error}") from None
        course = course_from_waypoints(
            self.file_name,
            path.x_m,
            path.y_m,
            speed=path.speed_mps,
            closed=self.closed,
            datum=datum,
        )
        rate_hz = (len(t_s) - 1) / (t_s[-1] - t_s[0])
        remark = (
            f"a recorded trace, {t_s[-1] - t_s[0]:.1f} s at {rate_hz:.0f} Hz: smoothed over "
            f"{window_m:.1f} m, by at most "
        )
        remark += f"{path.shift_m:.3f} m"
        known = self.speeds_mps is not None or not self.keeps_speeds
        return course, [remark + ("" if known else "; speeds from positions and times"), *remarks]

    def _check_distance(self, t_s: Array, speeds: Array, driven: Array) -> None:
        """Raise CourseError if the speeds of a trace contradict its positions."""
        by_speed_m, by_place_m = (
            float(np.trapezoid(np.abs(column), t_s)) for column in (speeds, driven)
        )
        if 0.8 * by_place_m <= by_speed_m <= 1.25 * by_place_m + 1.0:
            return
        meant = [
            unit
            for unit, factor in SPEED_UNITS.items()
            if 0.9 * factor <= by_speed_m / max(by_place_m, 1e-9) <= 1.1 * factor
        ]
        cure = (
            f"they look like {meant[0]}: say so in the name of the column"
            if meant
            else "give speeds in m/s and times in s"
        )
        raise CourseError(
            f"{self.file_name}: the speeds come to {by_speed_m:.1f} m in {t_s[-1] - t_s[0]:.1f} "
            f"s, the positions to {by_place_m:.1f} m: {cure}, or delete the column of the speeds"
        )

    def _trace_headings(self, plane: Array, speeds: Array) -> list[str]:
        """Return what the headings of a trace say of its line. Raises CourseError where they point
        against it."""
        if self.headings is None:
            return []
        rows = chord_rows(plane, CHORD_M)
        if len(rows) < 3:
            return []
        backward = speeds[rows] < 0.0
        yaw, remarks = heading_as_yaw(
            plane[rows], np.array(self.headings, dtype=float)[rows], backward, self.heading_unit
        )
        if yaw is not None:
            check_headings(self.file_name, plane[rows], yaw + np.where(backward, np.pi, 0.0))
        return remarks

    def _compared(self, plane: Array) -> tuple[Array | None, list[str]]:
        """Return the headings as yaw, and what headings and curvatures of the file say of the
        line."""
        finite = bool(np.isfinite(plane).all())
        if not finite or (self.headings is None and self.curvatures_per_m is None):
            return None, []
        yaw: Array | None = None
        remarks: list[str] = []
        if self.headings is not None:
            speeds = (
                np.ones(len(plane))
                if self.speeds_mps is None
                else np.array(self.speeds_mps, dtype=float)
            )
            yaw, remarks = heading_as_yaw(
                plane, np.array(self.headings, dtype=float), speeds < 0.0, self.heading_unit
            )
        if self.curvatures_per_m is not None:
            remarks += curvature_remarks(plane, np.array(self.curvatures_per_m, dtype=float))
        return yaw, remarks

    def _remarks(self, course: Course, plane: Array, kind: str) -> list[str]:
        """Return what reading made of the rows."""
        gap_m = hypot(*(plane[-1] - plane[0]))
        meaning = (
            "a lap: its ends meet" if course.closed else "an open line: it ends where the file ends"
        )
        remarks = [f"{len(plane)} {kind}, {meaning} ({gap_m:.2f} m apart)"]
        if bool((course.speed_mps < 0.0).all()):
            remarks.append(
                "driven in reverse all along: every speed is negative; delete the sign if it "
                "is no reverse"
            )
        if self.datum is None:
            remarks.append(
                "no datum: the first waypoint is the origin"
                if self.geodetic
                else (
                    "no datum: placed on car park 17 of UW-Madison, for simulation only; # "
                    "datum_deg says where it is"
                )
            )
        return remarks

    def _unprojected(self, crs: str) -> "CourseFile":
        """Return the waypoints in degrees."""
        if self.geodetic:
            raise CourseError(
                f"{self.file_name}: crs {crs[:40]}: the positions are in degrees; leave crs out"
            )
        try:
            projection = Projection(crs)
            latitudes, longitudes = (
                projection.to_degrees(*zip(*self.points, strict=True)) if self.points else ((), ())
            )
        except CourseError as error:
            raise CourseError(f"{self.file_name}: {error}") from None
        points = [
            (float(latitude), float(longitude))
            for latitude, longitude in zip(latitudes, longitudes, strict=True)
        ]
        remark = f"positions are in {projection.name}"
        if points:
            remark += (
                f"; grid north is {projection.convergence_deg(*points[0]):+.2f} degrees "
                "clockwise of true north"
            )
        account = replace(self.account, remarks=(*self.account.remarks, remark))
        return replace(
            self,
            points=points,
            geodetic=True,
            order="positions are easting and northing",
            account=account,
        )

    def _check_positions(self) -> None:
        for (latitude, longitude), place in zip(self.points, self.places, strict=True):
            at = f"{self.file_name}, {place}"
            if not (isfinite(latitude) and isfinite(longitude)):
                raise CourseError(
                    f"{at}: position ({latitude}, {longitude}) is not finite; every waypoint "
                    "needs both coordinates"
                )
            if latitude == 0.0 and longitude == 0.0:
                raise CourseError(
                    f"{at}: position (0, 0) is a place holder; delete the waypoint or give it "
                    "a position"
                )
            wrong = ""
            if abs(latitude) > 90.0:
                swapped = abs(latitude) <= 180.0 and abs(longitude) <= 90.0
                cure = (
                    "latitude and longitude are swapped"
                    if swapped
                    else "positions are WGS 84 degrees"
                )
                wrong = f"latitude {latitude:.10g} is outside -90 to 90: {cure}"
            elif abs(longitude) > 180.0:
                wrong = (
                    f"longitude {longitude:.10g} is outside -180 to 180: positions are WGS 84 "
                    "degrees"
                )
            elif abs(latitude) > POLAR_DEG:
                wrong = (
                    f"latitude {latitude:.7g} is next to a pole: latitude and longitude look "
                    "swapped"
                )
            if wrong:
                raise CourseError(f"{at}: {wrong}; {self.order}")

    def _projected(self, datum: Datum) -> list[tuple[float, float]]:
        projected = []
        for (latitude, longitude), place in zip(self.points, self.places, strict=True):
            east, north, _ = datum.to_enu(radians(latitude), radians(longitude), datum.height_m)
            if max(abs(east), abs(north)) > MAX_DISTANCE_M or far_side(datum, latitude, longitude):
                # A datum in its own right makes a swap visible that the ranges let pass.
                back = (
                    datum.to_enu(radians(longitude), radians(latitude), datum.height_m)
                    if abs(longitude) <= 90.0
                    else None
                )
                swapped = back is not None and max(abs(back[0]), abs(back[1])) < MAX_DISTANCE_M
                cure = (
                    f"latitude and longitude look swapped; {self.order}"
                    if swapped
                    else "correct the waypoint or the datum"
                )
                raise CourseError(
                    f"{self.file_name}, {place}: ({latitude:.7g}, {longitude:.7g}) is more than "
                    f"{MAX_DISTANCE_M / 1000:g} km from the "
                    f"{'datum' if self.datum else 'first waypoint'}; {cure}"
                )
            projected.append((east, north))
        return projected


def far_side(datum: Datum, latitude_deg: float, longitude_deg: float) -> bool:
    """Return True for a point on the other half of the earth, where east and north can be small
    again."""
    _, _, up = datum.to_enu(radians(latitude_deg), radians(longitude_deg), 0.0)
    return up < -1_000_000.0


def check_count(file_name: str, count: int) -> None:
    """Raise CourseError when a reader has collected more waypoints than a course may have; called
    before they fill the memory."""
    if count > MAX_WAYPOINTS:
        raise CourseError(f"{file_name}: more than {MAX_WAYPOINTS} waypoints; thin the file out")


def text_of(data: bytes, file_name: str, kind: str) -> str:
    """Return the text of a file, in UTF-8, or UTF-16 with its mark, or the code page of Western
    Windows. Raises CourseError for other data."""
    wide = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    try:
        text = data.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        western = data.decode("cp1252", "ignore")
        if (
            wide
            or any(not c.isprintable() and c not in "\t\r\n\f" for c in western)
            or len(western) < len(data)
        ):
            at = f"byte {data[error.start]:#04x} at offset {error.start}"
            raise CourseError(
                f"{file_name}: {at} is not {'UTF-16' if wide else 'UTF-8'} text; expected {kind}"
            ) from None
        text = western
    if not text.strip():
        raise CourseError(f"{file_name}: the file is empty; expected {kind}")
    if "\x00" in text:
        raise CourseError(
            f"{file_name}: the file holds binary data (a zero byte at offset "
            f"{text.index(chr(0))}); expected {kind}"
        )
    return text


def json_of(data: bytes, file_name: str, kind: str) -> dict[str, Any]:
    """Return the JSON object in a file. Raises CourseError naming line and column."""
    text = text_of(data, file_name, kind)

    def refuse(constant: str) -> NoReturn:
        raise CourseError(
            f"{file_name}: {constant} is not a number in JSON; every coordinate must be finite"
        )

    try:
        value = json.loads(text, parse_constant=refuse)
    except json.JSONDecodeError as error:
        cut = error.pos >= len(text.rstrip())
        cure = "the file is cut off; fetch it again" if cut else f"expected {kind}"
        raise CourseError(
            f"{file_name}, line {error.lineno}, column {error.colno}: {error.msg}; {cure}"
        ) from None
    except RecursionError:
        raise CourseError(f"{file_name}: the JSON is nested too deeply; expected {kind}") from None
    except CourseError:
        raise
    except ValueError as error:
        raise CourseError(f"{file_name}: {error}; expected {kind}") from None
    if not isinstance(value, dict):
        raise CourseError(
            f"{file_name}: the file holds a JSON {type(value).__name__}, not an object; "
            f"expected {kind}"
        )
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
