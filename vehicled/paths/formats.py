"""Parses the bytes of a course file. The file extension chooses the format; if it is ambiguous, the content does.

No I/O: the caller reads the file. The result is a Course, or a CourseError that names file, place and remedy.
"""

from collections.abc import Callable, Sequence
from pathlib import PurePath

from vehicled.paths import format_csv, format_geojson, format_gpx, format_mat, format_mission
from vehicled.paths.course import Course
from vehicled.paths.course_file import CourseFile
from vehicled.paths.errors import CourseError

MAX_BYTES = 50_000_000

_READERS: dict[str, Callable[[bytes, str], CourseFile]] = {
    ".csv": format_csv.read,
    ".geojson": format_geojson.read,
    ".json": format_geojson.read,
    ".gpx": format_gpx.read,
    ".mat": format_mat.read,
    ".plan": format_mission.read_plan,
    ".waypoints": format_mission.read_text,
    ".txt": format_csv.read,
}
ENDINGS = tuple(_READERS)


def course_from_bytes(data: bytes, file_name: str, columns: Sequence[str] = ()) -> Course:
    """Return the course in a file, with the account of what was read.

    ``file_name`` chooses the format and stands in messages; ``columns`` are the user's names for those of a table. Raises
    CourseError, nothing else.
    """
    label = PurePath(file_name).name or file_name
    reader = _READERS.get(PurePath(file_name).suffix.lower())
    if reader is None:
        raise CourseError(f"{label}: unknown kind of course file; its name must end in one of {', '.join(ENDINGS)}")
    if len(data) > MAX_BYTES:
        raise CourseError(f"{label}: {len(data) / 1e6:.0f} MB; a course file has at most {MAX_BYTES / 1e6:.0f} MB: thin it out")
    head = data[:200].lstrip(b"\xef\xbb\xbf \t\r\n")
    if reader is format_csv.read and head.startswith(b"QGC WPL"):
        reader = format_mission.read_text
    elif reader is format_geojson.read and b'"fileType"' in data[:2000] and b'"Plan"' in data[:2000]:
        reader = format_mission.read_plan
    if columns and reader not in (format_csv.read, format_mat.read):
        raise CourseError(f"{label}: columns= is for tables, and this is none; leave it out")
    if reader is format_mat.read:
        drawing = format_mat.read(data, label, columns)
    else:
        drawing = format_csv.read(data, label, columns) if columns else reader(data, label)
    course = drawing.to_course()
    return course if drawing.name else course.renamed(PurePath(file_name).stem)
