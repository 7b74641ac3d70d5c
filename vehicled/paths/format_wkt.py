"""Courses as well-known text (WKT, OGC 06-103r4): LINESTRING, MULTILINESTRING, POLYGON as an
outline, or a POINT a line.

Without an SRID in front (``SRID=4326;LINESTRING(...)``) the length of the line decides between
degrees, longitude first, and metres: only one of them makes a course.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from vehicled.core.arrays import hypotenuse
from vehicled.paths.course import MAX_LENGTH_M, MIN_LENGTH_M
from vehicled.paths.course_file import (
    DEFAULT_SPEED_MPS,
    CourseFile,
    ReadOptions,
    check_count,
    shown,
    text_of,
)
from vehicled.paths.errors import CourseError
from vehicled.paths.lines import MapLine, only_line
from vehicled.paths.read_summary import ReadSummary

KIND = "a line as well-known text, such as LINESTRING(11.5 48.1, 11.6 48.1)"
ORDER = "well-known text writes longitude first, then latitude"
GEODETIC_SRIDS = ("4326", "4979", "84")
METRES_PER_DEGREE = 111_000.0
_GEOMETRY = re.compile(
    r"\s*(?:SRID\s*=\s*(\d+)\s*;)?\s*(MULTILINESTRING|LINESTRING|MULTIPOLYGON|POLYGON|MULTIPOINT|POINT|GEOMETRYCOLLECTION)"
    r"\s*(?:Z|M|ZM)?\s*(?=\()",
    re.IGNORECASE,
)
_KNOWN_KINDS = {
    "LINESTRING": "line",
    "MULTILINESTRING": "line",
    "POLYGON": "outline",
    "MULTIPOLYGON": "outline",
}
_PARENTHESES = re.compile(r"[()]|[^()]+")


def starts(text: str) -> bool:
    """Return True if a text begins as well-known text does."""
    return bool(_GEOMETRY.match(text.lstrip("\"'")))


def read(data: bytes, file_name: str, options: ReadOptions) -> CourseFile:
    """Return the waypoints of the only line. Raises CourseError."""
    text = text_of(data, file_name, KIND)
    rows: list[tuple[int, str]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if starts(line) or not rows:
            if line.strip():
                rows.append((number, line))
        else:
            rows[-1] = (rows[-1][0], f"{rows[-1][1]} {line}")
    return read_lines(rows, file_name, options)


def read_lines(rows: Sequence[tuple[int, str]], file_name: str, options: ReadOptions) -> CourseFile:
    """Return the waypoints of the only line among numbered texts, each one geometry. Raises
    CourseError."""
    lines: list[MapLine] = []
    spots = MapLine("points", "the file")
    srids = set[str]()
    for number, text in rows:
        text = text.strip().strip("\"'")
        found = _GEOMETRY.match(text)
        if found is None:
            raise CourseError(
                f"{file_name}, line {number}: {shown(text[:60])} is no geometry; expected {KIND}"
            )
        srids.add(found[1] or "")
        kind = found[2].upper()
        if kind == "GEOMETRYCOLLECTION":
            raise CourseError(
                f"{file_name}, line {number}: a collection of geometries; export the line alone"
            )
        for k, points in enumerate(_rings(file_name, number, text[found.end() :], kind), start=1):
            places = [f"line {number} position {i}" for i in range(1, len(points) + 1)]
            if kind in ("POINT", "MULTIPOINT"):
                spots.points += points
                spots.places += [f"line {number}"] if len(points) == 1 else places
            else:
                part = f" part {k}" if kind.startswith("MULTI") else ""
                closed = True if _KNOWN_KINDS[kind] == "outline" else None
                lines.append(
                    MapLine(
                        _KNOWN_KINDS[kind],
                        f"line {number}{part}",
                        whole=f"row {number}",
                        points=points,
                        places=places,
                        closed=closed,
                    )
                )
        check_count(file_name, max((len(line.points) for line in (*lines, spots)), default=0))
    lines = lines or ([spots] if spots.points else [])
    if not lines:
        raise CourseError(f"{file_name}: no line in it; expected {KIND}")
    if others := sorted(srids - {"", *GEODETIC_SRIDS}):
        raise CourseError(
            f"{file_name}: coordinates are in EPSG:{others[0]}; export them in EPSG:4326 (WGS 84)"
        )
    line, remarks = only_line(file_name, lines, options)
    geodetic = bool(srids & set(GEODETIC_SRIDS)) or _is_degrees(file_name, line.points)
    if geodetic:
        line = replace(line, points=[(y, x) for x, y in line.points])
    meaning = "longitude, latitude, deg" if geodetic else "east, north, m"
    remarks.insert(0, f"no speeds: {DEFAULT_SPEED_MPS:g} m/s all along")
    account = ReadSummary("well-known text", ((f"the {line.kind}", meaning),), (), tuple(remarks))
    return line.course(file_name, ORDER, account, geodetic=geodetic)


def _is_degrees(file_name: str, points: Sequence[tuple[float, float]]) -> bool:
    """Return True if only degrees make the line a course. Raises CourseError if metres do as
    well."""
    plane = np.array(points, dtype=float).reshape(-1, 2)
    length = float(hypotenuse(*np.diff(plane, axis=0).T).sum()) if len(plane) > 1 else 0.0
    in_metres = MIN_LENGTH_M <= length <= MAX_LENGTH_M
    in_degrees = (
        MIN_LENGTH_M <= length * METRES_PER_DEGREE <= MAX_LENGTH_M
        and float(np.abs(plane).max()) <= 180.0
    )
    if in_metres and in_degrees:
        raise CourseError(
            f"{file_name}: {length:.3g} long, in metres or degrees? Write SRID=4326; before "
            "degrees, or use columns x_m, y_m"
        )
    return in_degrees


def _rings(
    file_name: str, number: int, text: str, kind: str
) -> Iterator[list[tuple[float, float]]]:
    """Iterate over the lists of points of one geometry; of areas only the outlines."""
    if text.count("(") > text.count(")"):
        raise CourseError(
            f"{file_name}, line {number}: a bracket is missing at the end; the text is cut off"
        )
    depth = 0
    at_depth = {"POINT": 1, "LINESTRING": 1, "MULTILINESTRING": 2, "POLYGON": 2, "MULTIPOLYGON": 3}
    ring = 0
    spots: list[tuple[float, float]] = []
    for piece in _PARENTHESES.findall(text):
        if piece == "(":
            depth += 1
            ring = 0 if depth == 2 and kind == "MULTIPOLYGON" else ring
        elif piece == ")":
            depth -= 1
            if depth <= 0:
                break
        elif kind == "MULTIPOINT" and piece.strip(" ,\t"):
            spots += _points(file_name, number, piece)
        elif depth == at_depth.get(kind) and piece.strip():
            ring += 1
            if ring == 1 or not kind.endswith("POLYGON"):
                yield _points(file_name, number, piece)
    if spots:
        yield spots


def _points(file_name: str, number: int, text: str) -> list[tuple[float, float]]:
    points = []
    for position in text.strip(" ,").split(","):
        cells = position.split()
        try:
            points.append((float(cells[0]), float(cells[1])))
        except (IndexError, ValueError):
            raise CourseError(
                f"{file_name}, line {number}: {shown(position[:60])} is not two or three "
                "numbers with a blank between; correct it"
            ) from None
    return points
