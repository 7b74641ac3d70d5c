"""CSV courses: ours, the four-column files of the reference laps, and any table with recognisable columns.

Ours has a header line and one waypoint a line; lines starting with ``#`` are comments, and ``# key: value`` sets::

    # name: yard
    # datum_deg: 43.0705, -89.4090, 230     (latitude, longitude, height above the ellipsoid in m; height optional)
    # closed: yes                           (yes or no; without it, ends that meet are joined)
    x_m,y_m,speed_mps
    0.0,0.0,1.0

Columns ``x_m``, ``y_m`` are metres east and north of the datum; instead, ``lat`` and ``lon`` are WGS 84 degrees. ``speed_mps``
is optional (1 m/s), negative from each waypoint that is left backward; instead of the sign a column ``gear`` may say so (1 or D,
-1 or R). ``heading_rad``, that of the vehicle, is only checked for its direction, other columns are ignored. The separator is a
comma, a semicolon, a tab or blanks; decimals are written with a point. Without a header, two columns are x, y and four are x, y,
heading, speed.
"""

import csv
import re
from collections.abc import Mapping
from difflib import get_close_matches
from io import StringIO

from vehicled.paths.datum import Datum
from vehicled.paths.drawing import DEFAULT_SPEED_MPS, POLAR_DEG, Drawing, check_count, shown, text_of
from vehicled.paths.errors import CourseError

KIND = "a table of waypoints, one a line, with columns x_m, y_m or lat, lon"
ORDER = "name the columns lat and lon for what they hold"
SETTINGS = ("name", "datum_deg", "closed")

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "x": ("x_m", "x", "east_m", "east", "e_m", "e", "pos_x", "position_x", "x_east_m"),
    "y": ("y_m", "y", "north_m", "north", "n_m", "n", "pos_y", "position_y", "y_north_m"),
    "lat": ("lat", "latitude", "lat_deg", "latitude_deg"),
    "lon": ("lon", "longitude", "lon_deg", "longitude_deg", "lng", "long"),
    "speed": ("speed_mps", "speed", "v_mps", "v", "velocity_mps", "velocity", "vel", "target_speed_mps", "target_speed"),
    "gear": ("gear", "direction"),
    "heading": ("heading_rad", "heading", "yaw_rad", "yaw", "psi_rad", "psi", "theta_rad", "theta"),
}
_GEARS = {"d": 1.0, "f": 1.0, "forward": 1.0, "r": -1.0, "reverse": -1.0, "backward": -1.0}
_FOREIGN_UNITS = re.compile(r"^(speed|velocity|v|vel|target_speed)[_ ]?\(?(kmh|kph|km/h|km_h|mph|knots|kn|kt|fts)\)?$")


def read(data: bytes, file_name: str) -> Drawing:
    """The waypoints of a CSV file. Raises CourseError."""
    text = text_of(data, file_name, KIND)
    settings: dict[str, str] = {}
    rows: list[tuple[int, str]] = []
    for number_of, line in enumerate(StringIO(text, newline=None), start=1):
        stripped = line.strip()
        if stripped.startswith("#"):
            key, colon, value = stripped.lstrip("# \t").partition(":")
            if colon:
                _set(file_name, number_of, settings, key.strip().lower(), value.strip())
        elif stripped:
            rows.append((number_of, stripped))
            check_count(file_name, len(rows) - 1)
    if not rows:
        raise CourseError(f"{file_name}: only comments, no waypoints; expected {KIND}")
    if rows[0][1][0] in "{[<":
        raise CourseError(f"{file_name}, line {rows[0][0]}: JSON or XML, not CSV; rename the file .geojson, .plan or .gpx")
    separator = _separator(rows[0][1])
    columns, first = _columns(file_name, _cells(file_name, *rows[0], separator), rows[0][0])
    return _drawing(file_name, columns, rows[first:], separator, settings)


def _set(file_name: str, line_number: int, settings: dict[str, str], key: str, value: str) -> None:
    if key not in SETTINGS:
        # A comment may hold a colon; a misspelt setting must not pass for one.
        close = get_close_matches(key, SETTINGS, n=1, cutoff=0.7)
        if close:
            raise CourseError(f'{file_name}, line {line_number}: unknown setting "# {key}:"; did you mean "# {close[0]}:"?')
    elif key in settings:
        raise CourseError(f'{file_name}, line {line_number}: "# {key}:" is set twice; keep one')
    else:
        settings[key] = value


def _separator(line: str) -> str:
    for candidate in (";", ",", "\t"):
        if candidate in line:
            return candidate
    return " "


def _cells(file_name: str, line_number: int, line: str, separator: str) -> list[str]:
    if separator == " ":
        return line.split()
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=separator))]
    except csv.Error as error:
        raise CourseError(f"{file_name}, line {line_number}: {error}; expected {KIND}") from None


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _columns(file_name: str, cells: list[str], line_number: int) -> tuple[dict[str, int], int]:
    """Where each quantity is, and how many lines the header takes."""
    if all(_is_number(cell) for cell in cells):
        if len(cells) == 2:
            return {"x": 0, "y": 1}, 0
        if len(cells) == 4:
            return {"x": 0, "y": 1, "heading": 2, "speed": 3}, 0
        raise CourseError(
            f"{file_name}, line {line_number}: {len(cells)} columns without a header are ambiguous; add a first line that names "
            "them, such as x_m,y_m,speed_mps"
        )
    names = [cell.strip("\"' ").lower() for cell in cells]
    found: dict[str, int] = {}
    for quantity, spellings in COLUMNS.items():
        places = [i for i, name in enumerate(names) if name in spellings]
        if len(places) > 1:
            both = f'"{names[places[0]]}" and "{names[places[1]]}"'
            raise CourseError(f"{file_name}, line {line_number}: columns {both} both mean {quantity}; keep one")
        if places:
            found[quantity] = places[0]
    for name in names:
        if _FOREIGN_UNITS.match(name):
            raise CourseError(f'{file_name}, line {line_number}: column "{name}" is not in m/s; convert it and name it speed_mps')
    plane, earth = {"x", "y"} & found.keys(), {"lat", "lon"} & found.keys()
    if len(plane) == 2 and len(earth) == 2:
        raise CourseError(f"{file_name}, line {line_number}: both x, y and lat, lon are given; keep one pair")
    if len(plane) != 2 and len(earth) != 2:
        raise CourseError(
            f"{file_name}, line {line_number}: no pair of position columns among {shown(', '.join(names), 80)}; name them x_m, y_m "
            "(metres) or lat, lon (degrees)"
        )
    unused = earth if len(plane) == 2 else plane
    return {quantity: i for quantity, i in found.items() if quantity not in unused}, 1


def _drawing(
    file_name: str, columns: dict[str, int], rows: list[tuple[int, str]], separator: str, settings: Mapping[str, str]
) -> Drawing:
    geodetic = "lat" in columns
    values: dict[str, list[float]] = {quantity: [] for quantity in columns}
    width = max(columns.values()) + 1
    for line_number, line in rows:
        at = f"{file_name}, line {line_number}"
        cells = _cells(file_name, line_number, line, separator)
        if len(cells) < width:
            raise CourseError(f"{at}: {len(cells)} value(s) where {width} are needed; complete or delete the line")
        for quantity, i in columns.items():
            if quantity == "gear":
                values[quantity].append(_gear(at, cells[i]))
                continue
            try:
                values[quantity].append(float(cells[i]))
            except ValueError:
                cure = "write decimals with a point" if "," in cells[i] else "correct the value or delete the line"
                raise CourseError(f"{at}: {quantity} is {shown(cells[i])}, not a number; {cure}") from None
    first, second = ("lat", "lon") if geodetic else ("x", "y")
    return Drawing(
        file_name=file_name,
        points=list(zip(values[first], values[second], strict=True)),
        places=[f"line {line_number}" for line_number, _ in rows],
        geodetic=geodetic,
        order=ORDER,
        speeds_mps=_speeds(file_name, rows, values.get("speed"), values.get("gear")),
        yaws_rad=values.get("heading"),
        closed=_closed(file_name, settings.get("closed")),
        datum=_datum(file_name, settings.get("datum_deg")),
        name=settings.get("name", "")[:60],
    )


def _gear(at: str, cell: str) -> float:
    """1.0 forward, -1.0 backward."""
    if _is_number(cell) and float(cell) in (1.0, -1.0):
        return float(cell)
    try:
        return _GEARS[cell.strip("\"' ").lower()]
    except KeyError:
        raise CourseError(f"{at}: gear is {shown(cell)}; write 1 or D to drive forward, -1 or R to drive backward") from None


def _speeds(
    file_name: str, rows: list[tuple[int, str]], speeds: list[float] | None, gears: list[float] | None
) -> list[float] | None:
    """Speeds with the sign of the gear."""
    if gears is None:
        return speeds
    if speeds is None:
        return [DEFAULT_SPEED_MPS * gear for gear in gears]
    for (line_number, _), speed, gear in zip(rows, speeds, gears, strict=True):
        if speed < 0.0 < gear:
            raise CourseError(
                f"{file_name}, line {line_number}: speed is {speed:g} but the gear is forward; leave the sign or the gear out"
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
            f'{file_name}: "# datum_deg: {value[:40]}" is not latitude, longitude and height; write for example '
            '"# datum_deg: 43.0705, -89.4090, 230"'
        )
    numbers = [float(part) for part in parts]
    if POLAR_DEG < abs(numbers[0]) <= 90.0:
        raise CourseError(
            f'{file_name}: "# datum_deg: {value[:40]}" is next to a pole: latitude and longitude look swapped; write latitude '
            'first, for example "# datum_deg: 43.0705, -89.4090, 230"'
        )
    try:
        return Datum.from_degrees(*numbers)
    except CourseError as error:
        raise CourseError(f"{file_name}: {error}") from None
