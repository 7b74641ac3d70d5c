"""Names of the columns of waypoint tables: what each means, and in which unit."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import degrees

from vehicled.paths.errors import CourseError

_BASES: dict[str, tuple[str, ...]] = {
    "x": (
        "x", "east", "e", "easting", "pos_x", "position_x", "pose_position_x",
        "pose_pose_position_x", "x_east", "x_pos", "x_position", "x_coord", "tx", "e_baseline",
    ),
    "y": (
        "y", "north", "n", "northing", "pos_y", "position_y", "pose_position_y",
        "pose_pose_position_y", "y_north", "y_pos", "y_position", "y_coord", "ty", "n_baseline",
    ),
    "lat": ("lat", "latitude", "gps_lat", "gps_latitude", "pos_lat", "position_lat"),
    "lon": ("lon", "longitude", "lng", "long", "gps_lon", "gps_longitude", "gps_lng", "pos_lon",
        "position_long"),
    "speed": (
        "speed", "velocity", "v", "vel", "vx", "v_x", "vlong", "target_speed", "target_velocity",
        "speed_target", "v_target", "ref_speed", "reference_speed", "speed_ref", "v_ref", "vref",
        "desired_speed", "desired_velocity", "v_des", "linear_velocity", "longitudinal_velocity",
        "speed_profile", "velocity_profile", "vx_racetraj", "linear_x",
    ),
    "gear": ("gear", "direction"),
    "heading": ("heading", "yaw", "psi", "theta", "hdg", "bearing", "azimuth", "heading_angle",
        "yaw_angle", "orientation_yaw"),
    "curvature": ("kappa", "curvature", "curv"),
    "width": (
        "w_tr_right", "w_tr_left", "w_right", "w_left", "width_right", "width_left", "right_width",
        "left_width", "d_right", "d_left", "track_width", "width",
    ),
    "station": ("s", "arc_length", "arclength", "station", "distance", "dist"),
    "acceleration": ("ax", "a", "acc", "accel", "acceleration", "a_x", "longitudinal_acceleration"),
    "height": ("z", "alt", "altitude", "height", "ele", "elevation", "up", "tz", "u_baseline"),
    "time": (
        "t", "time", "timestamp", "stamp", "time_stamp", "gps_time", "sim_time", "elapsed_time",
        "elapsed", "datetime", "date_time", "utc", "utc_time", "time_utc", "utctime", "gpst",
        "gpstime", "unix_time", "unixtime", "epoch", "epoch_time", "ts", "tow", "itow", "gps_tow",
        "gps_seconds", "time_of_week", "sow", "time_of_day", "header_stamp", "log_time",
        "time_from_start", "local_time", "system_time", "receive_time",
    ),
    "date": ("date", "utc_date", "gps_date"),
    "week": ("week", "gps_week", "gpsweek", "wn", "wno"),
    "subsecond": ("nanosec", "nanosecs", "nanoseconds", "nsec", "nsecs", "stamp_nanosec",
        "stamp_nsecs"),
    "quality": ("q", "fix_quality", "quality"),
    "wkt": ("wkt", "geom", "geometry", "the_geom", "wkt_geom"),
    "ecef": ("x_ecef", "y_ecef", "z_ecef", "ecef_x", "ecef_y", "ecef_z"),
}  # fmt: skip
_ROLES = {base: role for role, bases in _BASES.items() for base in bases}
_LAST_WORDS = ("lat", "lon", "height", "time", "subsecond")
"""Meanings that the last part of a name of several levels has by itself; an "x" could be any
vector's."""

_UNITS: dict[str, tuple[str, ...]] = {
    "m": ("m", "metre", "metres", "meter", "meters"),
    "m/s": (
        "mps",
        "m/s",
        "m_s",
        "ms",
        "m/sec",
        "m_per_s",
        "meters_per_second",
        "m_s-1",
        "ms-1",
        "ms^-1",
    ),
    "km/h": ("kmh", "kph", "km/h", "km_h", "kmph", "km/hr"),
    "cm/s": ("cm/s", "cmps"),
    "mm/s": ("mm/s", "mmps"),
    "mph": ("mph", "mi/h"),
    "knots": ("knots", "knot", "kn", "kt", "kts"),
    "ft/s": ("fts", "ft/s", "fps", "ftps"),
    "rad": ("rad", "radian", "radians"),
    "deg": ("deg", "degree", "degrees", "°"),
    "1e-7 deg": ("dege7", "deg_e7", "1e7", "e7", "1e-7deg", "deg*1e7"),
    "rad/m": ("radpm", "rad/m", "1/m", "1pm", "m-1", "m^-1", "per_m", "rad_m"),
    "deg/m": ("degpm", "deg/m"),
    "mm": ("mm", "millimetre", "millimeter", "millimeters"),
    "cm": ("cm", "centimetre", "centimeter", "centimeters"),
    "km": ("km", "kilometre", "kilometer", "kilometers"),
    "ft": ("ft", "feet", "foot"),
    "inch": ("in", "inch", "inches"),
    "m/s^2": ("mps2", "m/s2", "m/s^2", "m/s²"),
    "h": ("hours",),
    "min": ("minutes",),
    "s": ("sec", "secs", "second", "seconds"),
    "ms": ("msec", "millis", "millisecond", "milliseconds"),
    "us": ("us", "usec", "µs", "microsecond", "microseconds"),
    "ns": ("ns", "nsec", "nanosec", "nanosecond", "nanoseconds"),
}
_UNIT_OF = {spelling: unit for unit, spellings in _UNITS.items() for spelling in spellings}
_SPELLINGS = sorted(
    (spelling for spelling in _UNIT_OF if spelling not in ("in", "s", "°")), key=len, reverse=True
)
_TIME_ENDINGS = {"_s": "s", "_ms": "ms", "_min": "min", "_h": "h", "_hhmmss": "hhmmss"}
"""Units of time that are short, or mean something else behind other names."""
_CLOCKS = {"millis": "ms", "micros": "us", "nanos": "ns"}
"""Clocks of microcontrollers that are named by their unit."""
_SHOWN = 80
_BRACKETS = re.compile(r"^(.*?)\s*[\[({<]\s*([^\])}>]*?)\s*[\])}>]$")

DRIVEN = ("x", "y", "lat", "lon", "speed", "gear")
"""Quantities that a course is made of."""
TIMES = ("time", "date", "week", "subsecond")
"""Quantities that give the time of a row."""
_OTHERS = ("heading", "curvature", *TIMES, "quality", "wkt")
_LENGTHS = {"m": 1.0, "mm": 1e-3, "cm": 1e-2, "km": 1e3, "ft": 0.3048, "inch": 0.0254}
_ANGLES = {"deg": 1.0, "rad": degrees(1.0), "1e-7 deg": 1e-7}
SCALES: dict[str, dict[str, float]] = {
    "x": _LENGTHS,
    "y": _LENGTHS,
    "lat": _ANGLES,
    "lon": _ANGLES,
    "speed": {
        "m/s": 1.0, "km/h": 1.0 / 3.6, "mph": 0.44704, "knots": 1852.0 / 3600.0, "ft/s": 0.3048,
        "cm/s": 1e-2, "mm/s": 1e-3,
    },
}  # fmt: skip
"""Factors to the unit in which a quantity of the course counts, which stands first, by the unit
that a name states."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column by its name."""

    name: str
    """Name as written in the file."""
    role: str
    """Meaning; empty for an unknown name."""
    unit: str
    """Unit given by the name; empty if none."""


def column_of(cell: str) -> Column:
    """Return the meaning of a column's name, such as ``vx_mps``, ``X [m]`` or ``Latitude
    (deg)``."""
    name = cell.strip().strip("\"'").strip()
    text = name.lower()
    bracketed = _BRACKETS.match(text)
    if bracketed:
        base = _plain(bracketed[1])
        unit = re.sub(r"\s+", "_", bracketed[2])
        # A name with its unit twice, such as "speed_mps [m/s]", is known by the rest.
        base = base if base in _ROLES else _split(base)[0]
        return Column(name, _ROLES.get(base, ""), _UNIT_OF.get(unit, unit))
    base = _plain(text)
    if base in _ROLES:
        return Column(name, _ROLES[base], "")
    split, unit = _split(base)
    if split in _ROLES:
        return Column(name, _ROLES[split], unit)
    return Column(name, *_of_levels(text))


def _of_levels(text: str) -> tuple[str, str]:
    """Return role and unit of a name of several levels, such as ``/odom/pose/pose/position/x`` or
    ``header.stamp.sec``."""
    parts = [part for part in re.split(r"[./]", text) if part]
    if len(parts) < 2:
        return "", ""
    for words in (2, 1):
        base = _plain("_".join(parts[-words:]))
        base, unit = (base, "") if base in _ROLES else _split(base)
        role = _ROLES.get(base, "")
        if role and (words == 2 or role in _LAST_WORDS):
            return role, unit
    return "", ""


def quantities(at: str, columns: Sequence[Column]) -> dict[str, int]:
    """Return the column of each quantity of a course. Raises CourseError, beginning with ``at``,
    for names that are ambiguous."""
    found: dict[str, int] = {}
    projected = [
        i
        for i, column in enumerate(columns)
        if column.name.lower().startswith(("easting", "northing"))
    ]
    for role in (*DRIVEN, *_OTHERS):
        places = [i for i, column in enumerate(columns) if column.role == role]
        if len(places) > 1:
            # A single n beside y is a count, an e beside x something else.
            places = [i for i in places if columns[i].name.lower() not in ("e", "n")] or places
        if len(places) > 1 and role in DRIVEN:
            both = f'"{columns[places[0]].name}" and "{columns[places[1]].name}"'
            raise CourseError(f"{at}: columns {both} both mean {role}; keep one")
        if places:
            found[role] = places[0]
        if (
            role == "time"
            and len(places) > 1
            and columns[places[0]].unit == "s"
            and columns[places[1]].unit == "ns"
        ):
            # Stamps of ROS are seconds and nanoseconds in two columns.
            found.setdefault("subsecond", places[1])
    plane, earth = {"x", "y"} & found.keys(), {"lat", "lon"} & found.keys()
    if len(plane) == 2 and len(earth) == 2:
        # Eastings and northings repeat latitude and longitude in the grid of a map.
        if {found["x"], found["y"]} != set(projected):
            raise CourseError(f"{at}: both x, y and lat, lon are given; keep one pair")
        plane = set()
        del found["x"], found["y"]
    if len(plane) != 2 and len(earth) != 2 and "wkt" not in found:
        if any(column.role == "ecef" for column in columns):
            raise CourseError(
                f"{at}: positions are earth-centred (ECEF); export latitude, longitude and "
                "height instead"
            )
        listed = repr(", ".join(column.name for column in columns))
        listed = listed if len(listed) <= _SHOWN else listed[: _SHOWN - 3] + "..."
        raise CourseError(
            f"{at}: no pair of position columns among {listed}; name them x_m, y_m (metres) or "
            "lat, lon (degrees)"
        )
    for role in earth if len(plane) == 2 else plane:
        found.pop(role, None)
    for role, scales in SCALES.items():
        if role in found and columns[found[role]].unit not in ("", *scales):
            name = {"x": "x_m", "y": "y_m", "speed": "speed_mps"}.get(role, role)
            wanted = next(iter(scales))
            raise CourseError(
                f'{at}: column "{columns[found[role]].name}" is in no known unit '
                f"({', '.join(scales)}); convert it to {wanted} and "
                f"name it {name}"
            )
    return found


def scale_of(column: Column) -> float:
    """Return the factor from the unit in a column's name to the unit in which its quantity
    counts."""
    return SCALES.get(column.role, {}).get(column.unit, 1.0)


def _plain(text: str) -> str:
    return re.sub(r"[\s.\-]+", "_", text.strip().lstrip("/%#")).strip("_")


def _split(text: str) -> tuple[str, str]:
    """Split the unit off the end of a name."""
    if text in _CLOCKS:
        return "time", _CLOCKS[text]
    for ending, unit in _TIME_ENDINGS.items():
        if text.endswith(ending) and _ROLES.get(text.removesuffix(ending)) == "time":
            return text.removesuffix(ending), unit
    for spelling in _SPELLINGS:
        if text.endswith(spelling):
            base = text[: -len(spelling)].rstrip("_")
            # Without a stroke between them only a whole word counts: "speedkmh", but not "xm".
            if base in _ROLES and (text[len(base)] == "_" or len(base) > 2):
                return base, _UNIT_OF[spelling]
    return text, ""
