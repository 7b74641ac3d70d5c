"""KML courses, and KMZ, which is KML in a ZIP file: one line, one recorded track, one outline, or
single places in their order.

Positions are longitude, latitude and height in degrees and metres; heights are ignored, and so are
speeds. The outline of an area is a closed course. Times of a ``gx:Track`` show gaps.
"""

import re
import zlib
from io import BytesIO

from vehicled.paths.course_file import (
    DEFAULT_SPEED_MPS,
    CourseFile,
    ReadOptions,
    check_count,
    shown,
)
from vehicled.paths.errors import CourseError
from vehicled.paths.lines import MapLine, only_line
from vehicled.paths.read_summary import ReadSummary
from vehicled.paths.xml_stream import XmlReader

KIND = "a KML line"
ORDER = "KML writes longitude first, then latitude"
MAX_UNPACKED_BYTES = 50_000_000
MAX_ARCHIVE_BYTES = 10_000_000
_COMMA = re.compile(r"\s*,\s*")
_COORDINATES = ("LineString", "LinearRing", "Point")
_MOST_TEXT = 200


class _KmlReader(XmlReader):
    """Collects lines, tracks, outlines and single places."""

    kind = KIND
    root = "kml"

    def __init__(self, file_name: str) -> None:
        super().__init__(file_name)
        self.lines: list[MapLine] = []
        self.places = MapLine("places", "the file")
        self.links = 0
        self.name = ""
        self._placemark = 0
        self._line = 0
        self._parts: list[str] = []

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._parts = []
        if name == "Placemark":
            self._placemark += 1
            self.name = ""
        elif name == "Track":
            self.lines.append(
                MapLine("track", f"line {self.line_number}", whole=f"placemark {self._placemark}")
            )
        elif name == "NetworkLink":
            self.links += 1
        self._line = self.line_number

    def text(self, text: str) -> None:
        if self.path[-1] in ("coordinates", "coord", "when", "name"):
            self._parts.append(text)

    def end(self, name: str) -> None:
        parent = self.path[-2] if len(self.path) > 1 else ""
        text = "".join(self._parts)
        self._parts = []
        if name == "name" and parent == "Placemark":
            self.name = text.strip()[:60]
            for line in self.lines:
                if line.whole == f"placemark {self._placemark}":
                    line.name = self.name
        elif parent == "Track" and self.lines:
            line = self.lines[-1]
            if name == "when":
                line.stamps.append(text.strip()[:_MOST_TEXT])
            elif name == "coord":
                line.points.append(self._position(text.split(), text))
                line.places.append(f"line {self._line}")
                check_count(self.file_name, len(line.points))
        elif (
            name == "coordinates" and parent in _COORDINATES and "innerBoundaryIs" not in self.path
        ):
            self._coordinates(parent, text)

    def _coordinates(self, kind: str, text: str) -> None:
        if kind == "Point":
            line = self.places
        else:
            line = MapLine(
                "outline" if kind == "LinearRing" else "line",
                f"line {self._line}",
                self.name,
                f"placemark {self._placemark}",
                closed=True if kind == "LinearRing" else None,
            )
            self.lines.append(line)
        for position in _COMMA.sub(",", text).split():
            line.points.append(self._position(position.split(","), position))
            line.places.append(f"line {self._line} position {len(line.points)}")
            check_count(self.file_name, len(line.points))

    def _position(self, cells: list[str], text: str) -> tuple[float, float]:
        try:
            longitude, latitude = float(cells[0]), float(cells[1])
        except (IndexError, ValueError):
            raise CourseError(
                f"{self.file_name}, line {self._line}: {shown(text[:_MOST_TEXT])} is not "
                "longitude,latitude; correct or delete it"
            ) from None
        return latitude, longitude


def read(data: bytes, file_name: str, options: ReadOptions) -> CourseFile:
    """Return the waypoints of the only line in a KML file. Raises CourseError."""
    reader = _KmlReader(file_name)
    reader.parse(data)
    lines = [line for line in reader.lines if line.points]
    ignored: list[tuple[str, str]] = []
    if not lines and reader.places.points:
        lines = [reader.places]
    elif reader.places.points:
        ignored.append(("places", f"{len(reader.places.points)} of them"))
    if not lines:
        cure = (
            "it only links to others: save the place itself, not the link"
            if reader.links
            else "draw the course as one path"
        )
        raise CourseError(f"{file_name}: no line in it; {cure}")
    line, remarks = only_line(file_name, lines, options)
    used = [
        (f"the {line.kind}", "longitude, latitude, deg"),
        *([("<when>", "shows gaps")] if line.times() else []),
    ]
    remarks.insert(0, f"no speeds: {DEFAULT_SPEED_MPS:g} m/s all along")
    return line.course(
        file_name,
        ORDER,
        ReadSummary("KML", tuple(used), (*ignored, ("heights", "")), tuple(remarks)),
    )


def read_kmz(data: bytes, file_name: str, options: ReadOptions) -> CourseFile:
    """Return the waypoints of the only line in a KMZ file. Raises CourseError."""
    if len(data) > MAX_ARCHIVE_BYTES:
        raise CourseError(
            f"{file_name}: {len(data) / 1e6:.0f} MB; a KMZ has at most "
            f"{MAX_ARCHIVE_BYTES / 1e6:.0f}: save it as KML"
        )
    # Imported here: few courses are archives, and a daemon should start fast.
    import zipfile

    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            names = [name for name in archive.namelist() if name.lower().endswith(".kml")]
            # The first is the main file, whatever its name is.
            name = next(iter(names), "")
            if not name:
                raise CourseError(
                    f"{file_name}: no .kml in the archive; save the path in Google Earth as KML"
                )
            with archive.open(name) as file:
                # The size in the archive's directory may lie.
                text = file.read(MAX_UNPACKED_BYTES + 1)
    except CourseError:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError) as error:
        raise CourseError(
            f"{file_name}: no readable KMZ ({type(error).__name__}); save it as KML"
        ) from None
    if len(text) > MAX_UNPACKED_BYTES:
        raise CourseError(
            f"{file_name}: {name[:40]} unpacks to more than {MAX_UNPACKED_BYTES / 1e6:.0f} MB; "
            "save the path alone"
        )
    return read(text, file_name, options)
