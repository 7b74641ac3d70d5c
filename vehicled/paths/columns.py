"""Names of the columns of waypoint tables: what each means, and in which unit."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from vehicled.paths.errors import CourseError

_BASES: dict[str, tuple[str, ...]] = {
    "x": ("x", "east", "e", "easting", "pos_x", "position_x", "pose_position_x", "x_east", "x_pos", "x_position", "x_coord"),
    "y": ("y", "north", "n", "northing", "pos_y", "position_y", "pose_position_y", "y_north", "y_pos", "y_position", "y_coord"),
    "lat": ("lat", "latitude", "gps_lat", "gps_latitude", "pos_lat", "position_lat"),
    "lon": ("lon", "longitude", "lng", "long", "gps_lon", "gps_longitude", "gps_lng", "pos_lon", "position_long"),
    "speed": (
        "speed", "velocity", "v", "vel", "vx", "v_x", "vlong", "target_speed", "target_velocity", "speed_target", "v_target",
        "ref_speed", "reference_speed", "speed_ref", "v_ref", "vref", "desired_speed", "desired_velocity", "v_des",
        "linear_velocity", "longitudinal_velocity", "speed_profile", "velocity_profile", "vx_racetraj",
    ),
    "gear": ("gear", "direction"),
    "heading": ("heading", "yaw", "psi", "theta", "hdg", "bearing", "azimuth", "heading_angle", "yaw_angle", "orientation_yaw"),
    "curvature": ("kappa", "curvature", "curv"),
    "width": (
        "w_tr_right", "w_tr_left", "w_right", "w_left", "width_right", "width_left", "right_width", "left_width", "d_right",
        "d_left", "track_width", "width",
    ),
    "station": ("s", "arc_length", "arclength", "station", "distance", "dist"),
    "acceleration": ("ax", "a", "acc", "accel", "acceleration", "a_x", "longitudinal_acceleration"),
    "height": ("z", "alt", "altitude", "height", "ele", "elevation", "up"),
    "time": ("t", "time", "timestamp", "time_s", "stamp", "time_stamp", "gps_time", "sim_time", "elapsed_time"),
}  # fmt: skip
_ROLES = {base: role for role, bases in _BASES.items() for base in bases}

_UNITS: dict[str, tuple[str, ...]] = {
    "m": ("m", "metre", "metres", "meter", "meters"),
    "m/s": ("mps", "m/s", "m_s", "ms", "m/sec", "m_per_s", "meters_per_second", "m_s-1", "ms-1", "ms^-1"),
    "km/h": ("kmh", "kph", "km/h", "km_h", "kmph"),
    "mph": ("mph", "mi/h"),
    "knots": ("knots", "knot", "kn", "kt", "kts"),
    "ft/s": ("fts", "ft/s", "fps", "ftps"),
    "rad": ("rad", "radian", "radians"),
    "deg": ("deg", "degree", "degrees", "°"),
    "rad/m": ("radpm", "rad/m", "1/m", "1pm", "m-1", "m^-1", "per_m", "rad_m"),
    "deg/m": ("degpm", "deg/m"),
    "mm": ("mm", "millimetre", "millimeter", "millimeters"),
    "cm": ("cm", "centimetre", "centimeter", "centimeters"),
    "km": ("km", "kilometre", "kilometer", "kilometers"),
    "ft": ("ft", "feet", "foot"),
    "inch": ("in", "inch", "inches"),
    "m/s^2": ("mps2", "m/s2", "m/s^2", "m/s²"),
    "s": ("sec", "seconds"),
    "ms": ("msec", "millis", "milliseconds"),
    "us": ("us", "usec", "microseconds"),
    "ns": ("ns", "nsec", "nanoseconds"),
}
_UNIT_OF = {spelling: unit for unit, spellings in _UNITS.items() for spelling in spellings}
_SPELLINGS = sorted((spelling for spelling in _UNIT_OF if spelling not in ("in", "s", "°")), key=len, reverse=True)
_SHOWN = 80
_BRACKETS = re.compile(r"^(.*?)\s*[\[({<]\s*([^\])}>]*?)\s*[\])}>]$")

DRIVEN = ("x", "y", "lat", "lon", "speed", "gear")
"""Quantities that a course is made of."""
_COMPARED = ("heading", "curvature", "time")
TIME_SCALES = {"": 1.0, "s": 1.0, "m/s": 1e-3, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
"""Seconds in a unit of time. "ms" behind a name is read as m/s, which a time cannot be."""
WANTED = {"x": "m", "y": "m", "lat": "deg", "lon": "deg", "speed": "m/s"}
"""Units in which a quantity must stand, for it changes the course."""


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
    """Return the meaning of a column's name, such as ``vx_mps``, ``X [m]`` or ``Latitude (deg)``."""
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
    base, unit = _split(base)
    return Column(name, _ROLES.get(base, ""), unit if base in _ROLES else "")


def quantities(at: str, columns: Sequence[Column]) -> dict[str, int]:
    """Return the column of each quantity of a course. Raises CourseError, beginning with ``at``, for names that are ambiguous."""
    found: dict[str, int] = {}
    for role in (*DRIVEN, *_COMPARED):
        places = [i for i, column in enumerate(columns) if column.role == role]
        if len(places) > 1:
            # A single n beside y is a count, an e beside x something else.
            places = [i for i in places if columns[i].name.lower() not in ("e", "n")] or places
        if len(places) > 1 and role in DRIVEN:
            both = f'"{columns[places[0]].name}" and "{columns[places[1]].name}"'
            raise CourseError(f"{at}: columns {both} both mean {role}; keep one")
        if places:
            found[role] = places[0]
    plane, earth = {"x", "y"} & found.keys(), {"lat", "lon"} & found.keys()
    if len(plane) == 2 and len(earth) == 2:
        raise CourseError(f"{at}: both x, y and lat, lon are given; keep one pair")
    if len(plane) != 2 and len(earth) != 2:
        listed = repr(", ".join(column.name for column in columns))
        listed = listed if len(listed) <= _SHOWN else listed[: _SHOWN - 3] + "..."
        raise CourseError(f"{at}: no pair of position columns among {listed}; name them x_m, y_m (metres) or lat, lon (degrees)")
    for role in earth if len(plane) == 2 else plane:
        del found[role]
    for role, wanted in WANTED.items():
        if role in found and columns[found[role]].unit not in ("", wanted):
            name = {"x": "x_m", "y": "y_m", "speed": "speed_mps"}.get(role, role)
            raise CourseError(f'{at}: column "{columns[found[role]].name}" is not in {wanted}; convert it and name it {name}')
    if "time" in found and columns[found["time"]].unit not in TIME_SCALES:
        del found["time"]
    return found


def _plain(text: str) -> str:
    return re.sub(r"[\s.\-]+", "_", text.strip().lstrip("/%#")).strip("_")


def _split(text: str) -> tuple[str, str]:
    """Split the unit off the end of a name."""
    for spelling in _SPELLINGS:
        if text.endswith(spelling):
            base = text[: -len(spelling)].rstrip("_")
            # Without a stroke between them only a whole word counts: "speedkmh", but not "xm".
            if base in _ROLES and (text[len(base)] == "_" or len(base) > 2):
                return base, _UNIT_OF[spelling]
    return text, ""
