"""Parses the bytes of a course file. The file extension chooses the format; if it is ambiguous, the
content does.

No I/O: the caller reads the file. The result is a Course, or a CourseError that names file, place
and remedy.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePath

from vehicled.paths import (
    format_csv,
    format_geojson,
    format_gpx,
    format_kml,
    format_lanelet2,
    format_mat,
    format_mission,
    format_wkt,
)
from vehicled.paths.course import Course
from vehicled.paths.course_file import DEFAULTS, CourseFile, ReadOptions
from vehicled.paths.errors import CourseError
from vehicled.paths.stored import from_file, is_stored

MAX_BYTES = 50_000_000


@dataclass(frozen=True, slots=True)
class _Format:
    """Reader of one format, and the options that make sense for it."""

    read: Callable[[bytes, str, ReadOptions], CourseFile]
    takes: tuple[str, ...] = ()


_TABLE = _Format(format_csv.read, ("columns", "crs", "gaps", "time"))
_PLAN = _Format(lambda data, name, _: format_mission.read_plan(data, name))
_WAYPOINTS = _Format(lambda data, name, _: format_mission.read_text(data, name))
_GEOJSON = _Format(format_geojson.read, ("gaps", "line"))
_FORMATS: dict[str, _Format] = {
    ".csv": _TABLE,
    ".geojson": _GEOJSON,
    ".json": _GEOJSON,
    ".gpx": _Format(format_gpx.read, ("gaps", "line")),
    ".kml": _Format(format_kml.read, ("gaps", "line")),
    ".kmz": _Format(format_kml.read_kmz, ("gaps", "line")),
    ".mat": _Format(format_mat.read, ("columns", "crs", "gaps", "time")),
    ".osm": _Format(format_lanelet2.read, ("line",)),
    ".plan": _PLAN,
    ".pos": _TABLE,
    ".tsv": _TABLE,
    ".waypoints": _WAYPOINTS,
    ".wkt": _Format(format_wkt.read, ("gaps", "line")),
    ".txt": _TABLE,
}
ENDINGS = tuple(_FORMATS)
_CURES = {
    ".fit": "export it as GPX",
    ".tcx": "export it as GPX",
    ".shp": "export it as GeoJSON in WGS 84",
    ".gpkg": "export it as GeoJSON in WGS 84",
    ".dxf": "export the polyline as CSV with columns x_m, y_m",
    ".xlsx": "save the sheet as CSV (UTF-8)",
    ".xls": "save the sheet as CSV (UTF-8)",
    ".ods": "save the sheet as CSV (UTF-8)",
    ".mcap": "save its driven path with vehicled record-path",
    ".nmea": "convert it with vehicled log import, or to GPX",
    ".ubx": "convert it with vehicled log import, or to GPX",
}
"""Cures for other kinds of files that hold a path."""


KEPT_BYTES = 1_000_000
"""Size of a file up to which its course is kept for the next call with the same content."""


def course_from_bytes(data: bytes, file_name: str, options: ReadOptions = DEFAULTS) -> Course:
    """Return the course in a file, with the account of what was read.

    ``file_name`` chooses the format and stands in messages. Raises CourseError, nothing else.
    """
    label = PurePath(file_name).name or file_name
    suffix = PurePath(file_name).suffix.lower()
    found = _FORMATS.get(suffix)
    if found is None:
        cure = (
            f"; {_CURES[suffix]}"
            if suffix in _CURES
            else f"; its name must end in one of {', '.join(ENDINGS)}"
        )
        raise CourseError(f"{label}: unknown kind of course file{cure}")
    if len(data) > MAX_BYTES:
        raise CourseError(
            f"{label}: {len(data) / 1e6:.0f} MB; a course file has at most "
            f"{MAX_BYTES / 1e6:.0f} MB: thin it out"
        )
    head = data[:200].lstrip(b"\xef\xbb\xbf \t\r\n")
    if found is _TABLE and head.startswith(b"QGC WPL"):
        found = _WAYPOINTS
    elif found is _GEOJSON and is_stored(data):
        return from_file(data, label)
    elif found is _GEOJSON and b'"fileType"' in data[:2000] and b'"Plan"' in data[:2000]:
        found = _PLAN
    given = {
        "columns": bool(options.columns),
        "gaps": options.bridge_gaps,
        "time": options.time,
        "line": options.line,
        "crs": options.crs,
    }
    for key, value in given.items():
        if value and key not in found.takes:
            takers = ", ".join(ending for ending, each in _FORMATS.items() if key in each.takes)
            raise CourseError(
                f"{label}: {key}= is for files that end in {takers}, and this is none; leave it out"
            )
    read = _read_again if len(data) <= KEPT_BYTES else _read
    return read(found, data, file_name, options)


def _read(found: _Format, data: bytes, file_name: str, options: ReadOptions) -> Course:
    drawing = found.read(data, PurePath(file_name).name or file_name, options)
    course = drawing.to_course(options)
    return course if drawing.name else course.renamed(PurePath(file_name).stem)


_read_again = lru_cache(8)(_read)
"""Each drive of a study reads the same file, and a course is never written to."""
