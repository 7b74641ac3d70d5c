"""CSV courses: a table of waypoints, one a line, with columns that are known by their names or
named by the user.

Ours has a header line; lines starting with ``#``, ``%`` or ``//`` are comments, and ``# key:
value`` sets::

    # name: yard
    # datum_deg: 43.0705, -89.4090, 230   (latitude, longitude; height above the ellipsoid in m)
    # closed: yes                         (yes or no; without it, ends that meet are joined)
    # crs: EPSG:32616                     (x_m, y_m are its easting and northing; needs pyproj)
    x_m,y_m,speed_mps
    0.0,0.0,1.0

Columns ``x_m``, ``y_m`` are metres east and north of the datum; instead, ``lat`` and ``lon`` are
WGS 84 degrees. ``speed_mps`` is optional (1 m/s), negative from each waypoint that is left
backward; instead of the sign a column ``gear`` may say so (1 or D, -1 or R). Headings and
curvatures are only compared with the line. :mod:`vehicled.paths.columns` has the other names and
the units that are known. A header may stand in a comment, as race lines have it. Without a header
two columns are x, y; more must be named by the user, for a fourth column is a speed in one
collection and half a track's width in the next.

Solutions of RTKLIB (``.pos``) are such tables, and so are tables of a map program with one column
of well-known text.
"""

import csv
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from io import StringIO

import numpy as np

from vehicled.paths import format_wkt, times
from vehicled.paths.columns import DRIVEN, TIMES, Column, column_of, quantities, scale_of
from vehicled.paths.course_file import (
    DEFAULT_SPEED_MPS,
    POLAR_DEG,
    CourseFile,
    ReadOptions,
    check_count,
    shown,
    text_of,
)
from vehicled.paths.datum import Datum
from vehicled.paths.errors import CourseError
from vehicled.paths.read_summary import ReadSummary
from vehicled.paths.times import Times

KIND = "a table of waypoints, one a line, with columns x_m, y_m or lat, lon"
ORDER = "name the columns lat and lon for what they hold"
SETTINGS = ("name", "datum_deg", "closed", "crs")
COMMENTS = ("#", "%", "//")
UNUSED = ("", "-", "_")
"""Column names that exclude a column."""

_GEARS = {"d": 1.0, "f": 1.0, "forward": 1.0, "r": -1.0, "reverse": -1.0, "backward": -1.0}
_NUMBER = re.compile(
    r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$|[+-]?(nan|inf|infinity)$", re.IGNORECASE
)
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?$")
_SEPARATORS = {";": "semicolon", ",": "comma", "\t": "tab", " ": "blanks"}
_REASONS = {
    "heading": "heading, compared with the line and not driven",
    "curvature": "curvature, compared with the line and not driven",
    "width": "width of the track; the corridor is limits.corridor_m of the profile",
    "station": "arc length, computed from the line",
    "acceleration": "acceleration; the controller plans its own",
    "height": "height",
    **dict.fromkeys(TIMES, "time, which distinguishes a recording from waypoints"),
}
_FORMULA_SEPARATOR = re.compile(r"sep=(.)\s*$", re.IGNORECASE)
"""First line of tables of a spreadsheet."""
_CLOCKS = ("gpst", "utc", "jst")
"""First names in the header of RTKLIB; each stands for two columns, date or week and time."""
_RTK_FIXED = 1.0
_LEAST_SCALED = 1e5
"""Latitudes that are all larger are whole numbers of 1e-7 degrees, as receivers and autopilots log
them."""

Line = tuple[int, str]
"""Number and text of a line."""


def read(data: bytes, file_name: str, options: ReadOptions) -> CourseFile:
    """Return the waypoints of a table. Raises CourseError."""
    text = text_of(data, file_name, KIND)
    settings: dict[str, str] = {}
    comments: list[Line] = []
    rows: list[Line] = []
    for line_number, line in enumerate(StringIO(text, newline=None), start=1):
        # A tab at an end is an empty cell.
        stripped = line.strip(" \r\n")
        if stripped.lstrip().startswith(COMMENTS):
            comment = stripped.strip().lstrip("#%/ \t")
            key, colon, value = comment.partition(":")
            if colon:
                _set(file_name, line_number, settings, key.strip().lower(), value.strip())
            if not rows:
                comments.append((line_number, comment))
        elif stripped.strip() and not (not rows and _FORMULA_SEPARATOR.match(stripped.strip())):
            rows.append((line_number, stripped))
            check_count(file_name, len(rows) - 1)
    if not rows:
        raise CourseError(f"{file_name}: only comments, no waypoints; expected {KIND}")
    if rows[0][1].lstrip()[0] in "{[<":
        raise CourseError(
            f"{file_name}, line {rows[0][0]}: JSON or XML, not CSV; rename the file .geojson, "
            ".plan, .gpx or .kml"
        )
    if format_wkt.starts(rows[0][1]):
        return format_wkt.read_lines(rows, file_name, options)
    return _Table(file_name, comments, rows, options).drawing(settings)


def _set(file_name: str, line_number: int, settings: dict[str, str], key: str, value: str) -> None:
    if key not in SETTINGS:
        # A comment may hold a colon; a misspelt setting must not pass for one.
        close = get_close_matches(key, SETTINGS, n=1, cutoff=0.7)
        if close:
            raise CourseError(
                f'{file_name}, line {line_number}: unknown setting "# {key}:"; did you mean "# '
                f'{close[0]}:"?'
            )
    elif key in settings:
        raise CourseError(f'{file_name}, line {line_number}: "# {key}:" is set twice; keep one')
    else:
        settings[key] = value


class _Table:
    """Rows of a file and the meaning of their columns."""

    def __init__(
        self, file_name: str, comments: list[Line], rows: list[Line], options: ReadOptions
    ) -> None:
        self._file_name = file_name
        self._options = options
        given = options.columns
        headed = not self._holds_numbers(rows[0])
        self._separator = _separator(rows[1][1] if headed and len(rows) > 1 else rows[0][1])
        self._remarks: list[str] = []
        commented = (
            None
            if headed and not self._any_number(rows[0])
            else self._commented_header(comments, rows[0])
        )
        if commented is not None:
            headed = False
        self._rows = rows[1:] if headed else rows
        if given:
            self._columns = [column_of(name) for name in given]
            self._place, self._where = f"{file_name}:columns", "given columns"
            wide = self._rows[0] if self._rows else rows[0]
            if len(self._cells(wide)) != len(given):
                raise CourseError(
                    f"{file_name}, line {wide[0]}: {len(self._cells(wide))} values, but columns= "
                    f"names {len(given)}; name every column, with - for one to ignore"
                )
        elif commented is not None:
            self._columns, line_number = commented
            self._place, self._where = f"{file_name}, line {line_number}", "header in a comment"
        elif headed:
            self._columns = [
                column_of(cell) for cell in self._split(rows[0], _separator(rows[0][1]))
            ]
            self._place, self._where = f"{file_name}, line {rows[0][0]}", "header"
            if len(self._columns) == 1 and self._rows and len(self._cells(self._rows[0])) > 1:
                self._columns = [column_of(cell) for cell in self._cells(rows[0])]
        else:
            self._columns = self._unnamed(rows[0])
            self._place = f"{file_name}, line {rows[0][0]}"
            self._where = "no header: two columns are x and y"
        self._found = self._quantities()

    def _holds_numbers(self, line: Line) -> bool:
        separator = _separator(line[1])
        return all(_is_number(cell, separator) for cell in self._split(line, separator) if cell)

    def _any_number(self, line: Line) -> bool:
        return any(_is_number(cell, self._separator) for cell in self._split(line, self._separator))

    def _commented_header(
        self, comments: list[Line], first: Line
    ) -> tuple[list[Column], int] | None:
        """Return the columns named by the last comment before the table that names positions, and
        its line."""
        width = len(self._cells(first))
        for line_number, comment in reversed(comments):
            text = re.sub(
                r"^(columns|header|fields|format)\s*:\s*", "", comment, flags=re.IGNORECASE
            )
            for separator in dict.fromkeys((self._separator, ";", ",", "\t", " ")):
                columns = [column_of(cell) for cell in self._split((line_number, text), separator)]
                if len(columns) == width - 1 and columns[0].name.lower() in _CLOCKS:
                    dated = "/" in self._cells(first)[0]
                    columns.insert(
                        0, Column("date", "date", "") if dated else Column("week", "week", "")
                    )
                roles = {column.role for column in columns}
                if not ({"x", "y"} <= roles or {"lat", "lon"} <= roles):
                    continue
                if len(columns) == width:
                    return columns, line_number
                # A sentence may hold the words x and y; a list of known names is a header.
                if sum(bool(column.role) for column in columns) > 0.7 * len(columns):
                    raise CourseError(
                        f"{self._file_name}, line {first[0]}: {width} values, but the header in "
                        f"line {line_number} names {len(columns)}; complete the one or the other"
                    )
        return None

    def _unnamed(self, first: Line) -> list[Column]:
        width = len(self._cells(first))
        if width == 2:
            return [Column("column 1", "x", ""), Column("column 2", "y", "")]
        raise CourseError(
            f"{self._file_name}, line {first[0]}: {width} columns without a header are "
            "ambiguous; add a first line that names them, such as x_m,y_m,speed_mps, or give "
            f"the file as {self._file_name}:columns=x,y,... with - for one to ignore"
        )

    def _quantities(self) -> dict[str, int]:
        """Return the column of each quantity of the course. Raises CourseError for ambiguous
        names."""
        found, columns = quantities(self._place, self._columns), self._columns
        names = {column.name.lower() for column in columns}
        if "change_flag" in names and "speed" in found and not columns[found["speed"]].unit:
            raise CourseError(
                f'{self._place}: column "{columns[found["speed"]].name}" beside change_flag is '
                "km/h in the files of "
                "Autoware.AI and m/s in others; convert it if need be and name it speed_mps"
            )
        return found

    def _split(self, line: Line, separator: str) -> list[str]:
        if separator == " ":
            return line[1].split()
        try:
            cells = [
                cell.strip()
                for cell in next(csv.reader([line[1]], delimiter=separator, skipinitialspace=True))
            ]
        except csv.Error as error:
            raise CourseError(
                f"{self._file_name}, line {line[0]}: {error}; expected {KIND}"
            ) from None
        return cells

    def _cells(self, line: Line) -> list[str]:
        cells = self._split(line, self._separator)
        # A separator at the end of the line begins no column.
        return cells[:-1] if len(cells) > 1 and not cells[-1] else cells

    def drawing(self, settings: Mapping[str, str]) -> CourseFile:
        """Return the waypoints. Raises CourseError naming the line."""
        if not {"x", "lat"} & self._found.keys():
            texts = [(line[0], self._cells(line)[self._found["wkt"]]) for line in self._rows]
            return format_wkt.read_lines(texts, self._file_name, self._options)
        values = self._values()
        geodetic = "lat" in values
        first, second = ("lat", "lon") if geodetic else ("x", "y")
        if geodetic and min(map(abs, values["lat"]), default=0.0) > _LEAST_SCALED:
            for role in (first, second):
                values[role] = [1e-7 * value for value in values[role]]
            self._remarks.append("latitude and longitude are in units of 1e-7 degrees")
        numbers = [line_number for line_number, _ in self._rows]
        headings = self._found.get("heading")
        return CourseFile(
            file_name=self._file_name,
            points=list(zip(values[first], values[second], strict=True)),
            places=[f"line {line_number}" for line_number in numbers],
            geodetic=geodetic,
            order=ORDER,
            speeds_mps=_speeds(self._file_name, numbers, values.get("speed"), values.get("gear")),
            headings=values.get("heading"),
            heading_unit="" if headings is None else self._columns[headings].unit,
            curvatures_per_m=values.get("curvature"),
            times=self._times(),
            closed=_closed(self._file_name, settings.get("closed")),
            datum=_datum(self._file_name, settings.get("datum_deg")),
            name=settings.get("name", "")[:60],
            crs=settings.get("crs", ""),
            account=self._account(values),
        )

    def _times(self) -> Times | None:
        if "time" not in self._found:
            return None
        cells = {
            role: [self._cells(line)[self._found[role]] for line in self._rows]
            for role in TIMES
            if role in self._found
        }
        column = self._columns[self._found["time"]]
        if "week" in cells:
            weeks, of_week = (times.from_cells("", cells[role]).values for role in ("week", "time"))
            return times.from_numbers(column.name, times.gps_seconds(weeks, of_week), "s")
        found = times.from_cells(
            column.name, cells["time"], column.unit, self._options.time, cells.get("date", ())
        )
        if "subsecond" in cells and not found.form:
            parts = times.from_cells("", cells["subsecond"]).values
            if bool(
                ((parts >= 0.0) & (parts < 1e9) & (found.values == np.floor(found.values))).all()
            ):
                return times.from_numbers(column.name, found.values + 1e-9 * parts, "s")
        return found

    def _values(self) -> dict[str, list[float]]:
        read = {
            role: i for role, i in self._found.items() if role not in (*TIMES, "quality", "wkt")
        }
        values: dict[str, list[float]] = {role: [] for role in read}
        scales = {role: scale_of(self._columns[i]) for role, i in read.items()}
        width, decimals = len(self._columns), set[str]()
        for line in self._rows:
            at = f"{self._file_name}, line {line[0]}"
            cells = self._cells(line)
            if len(cells) != width and not (
                len(cells) == width - 1 and self._columns[-1].name in UNUSED
            ):
                cure = (
                    "complete or delete the line"
                    if len(cells) < width
                    else "delete what is too much, or name its column"
                )
                raise CourseError(f"{at}: {len(cells)} value(s) where {width} are needed; {cure}")
            for role, i in read.items():
                if role == "gear":
                    values[role].append(_gear(at, cells[i]))
                else:
                    values[role].append(scales[role] * self._number(at, role, cells[i], decimals))
        if "," in decimals:
            self._remarks.append("decimals are written with a comma")
        return values

    def _number(self, at: str, role: str, cell: str, decimals: set[str]) -> float:
        if _NUMBER.match(cell):
            if "." in cell:
                decimals.add(".")
        elif self._separator != "," and _DECIMAL_COMMA.match(cell):
            decimals.add(",")
            cell = cell.replace(",", ".")
        elif role not in DRIVEN:
            # Such a value never makes a row unusable.
            return float("nan")
        else:
            cure = (
                "write decimals with a point"
                if "," in cell
                else "correct the value or delete the line"
            )
            what = f"{role} is {shown(cell)}, not a number" if cell else f"{role} is empty"
            raise CourseError(f"{at}: {what}; {cure}")
        if len(decimals) > 1:
            raise CourseError(
                f"{at}: decimals are written with a comma here and with a point elsewhere; "
                "write all with a point"
            )
        return float(cell)

    def _account(self, values: Mapping[str, list[float]]) -> ReadSummary:
        columns = self._columns
        taken = {i: role for role, i in self._found.items() if role in DRIVEN}
        used = [(columns[i].name, _meaning(columns[i])) for i in taken]
        remarks = list(self._remarks)
        if "quality" in self._found and columns[0].role in ("date", "week"):
            grades = times.from_cells(
                "", [self._cells(line)[self._found["quality"]] for line in self._rows]
            ).values
            if others := int(np.count_nonzero(grades != _RTK_FIXED)):
                remarks.append(
                    f"{others} of {len(grades)} rows are no RTK fix (Q is not 1): their places "
                    "are off by decimetres or more"
                )
        if "speed" not in self._found and "time" not in self._found:
            remarks.append(f"no speeds: {DEFAULT_SPEED_MPS:g} m/s all along")
        ignored = [
            (column.name, _REASONS.get(column.role, ""))
            for i, column in enumerate(columns)
            if i not in taken
        ]
        form = f"a table separated by {_SEPARATORS[self._separator]}, {self._where}"
        return ReadSummary(
            form,
            tuple(used),
            tuple(item for item in ignored if item[0] not in UNUSED),
            tuple(remarks),
        )


def _meaning(column: Column) -> str:
    """Return the quantity of a used column and its unit."""
    noun, unit = {
        "x": ("east", "m"), "y": ("north", "m"), "lat": ("latitude", "deg"),
        "lon": ("longitude", "deg"), "speed": ("speed", "m/s"), "gear": ("direction", ""),
    }[column.role]  # fmt: skip
    if column.unit not in ("", unit):
        return f"{noun}, {column.unit}, converted to {unit}"
    assumed = ": its name says no unit" if column.role == "speed" and not column.unit else ""
    return f"{noun}, {unit}{assumed}" if unit else noun


def _separator(line: str) -> str:
    for candidate in (";", "\t"):
        if candidate in line:
            return candidate
    if "," not in line:
        return " "
    cells = line.split(",")
    words = line.split()
    # "1,5 2,5" is two numbers with decimal commas: no cell between commas may hold a blank.
    if len(words) > 1 and all(_is_number(word, " ") for word in words):
        return "," if all(_is_number(cell.strip()) for cell in cells) else " "
    return ","


def _is_number(cell: str, separator: str = ",") -> bool:
    return bool(_NUMBER.match(cell) or (separator != "," and _DECIMAL_COMMA.match(cell)))


def _gear(at: str, cell: str) -> float:
    """Return 1.0 for forward, -1.0 for backward."""
    if _is_number(cell) and float(cell) in (1.0, -1.0):
        return float(cell)
    try:
        return _GEARS[cell.strip("\"' ").lower()]
    except KeyError:
        raise CourseError(
            f"{at}: gear is {shown(cell)}; write 1 or D to drive forward, -1 or R to drive backward"
        ) from None


def _speeds(
    file_name: str,
    line_numbers: Sequence[int],
    speeds: list[float] | None,
    gears: list[float] | None,
) -> list[float] | None:
    """Return the speeds with the sign of the gear."""
    if gears is None:
        return speeds
    if speeds is None:
        return [DEFAULT_SPEED_MPS * gear for gear in gears]
    for line_number, speed, gear in zip(line_numbers, speeds, gears, strict=True):
        if speed < 0.0 < gear:
            raise CourseError(
                f"{file_name}, line {line_number}: speed is {speed:g} but the gear is forward; "
                "leave the sign or the gear out"
            )
    return [abs(speed) * gear for speed, gear in zip(speeds, gears, strict=True)]


def _closed(file_name: str, value: str | None) -> bool | None:
    if value is None:
        return None
    meanings = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
    if value.lower() not in meanings:
        raise CourseError(f'{file_name}: "# closed: {value[:20]}" is neither yes nor no')
    return meanings[value.lower()]


def _datum(file_name: str, value: str | None) -> Datum | None:
    if value is None:
        return None
    parts = value.replace(",", " ").split()
    if len(parts) not in (2, 3) or not all(_is_number(part) for part in parts):
        raise CourseError(
            f'{file_name}: "# datum_deg: {value[:40]}" is not latitude, longitude and height; '
            'write for example "# datum_deg: 43.0705, -89.4090, 230"'
        )
    numbers = [float(part) for part in parts]
    if POLAR_DEG < abs(numbers[0]) <= 90.0:
        raise CourseError(
            f'{file_name}: "# datum_deg: {value[:40]}" is next to a pole: latitude and longitude '
            'look swapped; write latitude first, for example "# datum_deg: 43.0705, -89.4090, '
            '230"'
        )
    try:
        return Datum.from_degrees(*numbers)
    except CourseError as error:
        raise CourseError(f"{file_name}: {error}") from None
