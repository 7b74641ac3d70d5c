"""GPX courses: one track of one segment, one route, or single waypoints in their order.

Recorded speeds are ignored: a recording is not a target. Times show gaps, and dense points with
times are smoothed.
"""

from vehicled.paths.course_file import DEFAULT_SPEED_MPS, CourseFile, ReadOptions, check_count
from vehicled.paths.errors import CourseError
from vehicled.paths.lines import MapLine, only_line
from vehicled.paths.read_summary import ReadSummary
from vehicled.paths.xml_stream import XmlReader

KIND = "a GPX track or route"
ORDER = 'GPX names them: lat="..." lon="..."'
_POINTS = {"trkpt": "trkseg", "rtept": "rte", "wpt": "gpx"}
_KINDS = {"trkseg": "<trkseg>", "rte": "<rte>"}


class _GpxReader(XmlReader):
    """Collects the points of all lines."""

    kind = KIND
    root = "gpx"

    def __init__(self, file_name: str) -> None:
        super().__init__(file_name)
        self.lines: list[MapLine] = []
        self.waypoints = MapLine("waypoints", "the file")
        self.others: dict[str, int] = {}
        """Numbers of ignored elements, by name."""
        self.name = ""
        self._tracks = 0
        self._stamp = ""

    def start(self, name: str, attributes: dict[str, str]) -> None:
        line = self.line_number
        if name == "time":
            self._stamp = ""
        if name == "trk":
            self._tracks += 1
            self.name = ""
        if name in _KINDS:
            self.lines.append(
                MapLine(
                    _KINDS[name],
                    f"line {line}",
                    whole=f"track {self._tracks}" if name == "trkseg" else "",
                )
            )
            if name == "trkseg":
                self.lines[-1].name = self.name
            else:
                self.name = ""
        elif name in _POINTS:
            if len(self.path) < 2 or self.path[-2] != _POINTS[name]:
                raise CourseError(
                    f"{self.file_name}, line {line}: <{name}> outside <{_POINTS[name]}>; "
                    f"expected {KIND}"
                )
            self._point(name, line, attributes)
        elif any(parent in _POINTS for parent in self.path[:-1]):
            self.others[name] = self.others.get(name, 0) + 1

    def _point(self, name: str, line: int, attributes: dict[str, str]) -> None:
        position = []
        for key in ("lat", "lon"):
            if key not in attributes:
                raise CourseError(
                    f'{self.file_name}, line {line}: <{name}> has no attribute "{key}"; add it '
                    "or delete the point"
                )
            try:
                position.append(float(attributes[key]))
            except ValueError:
                raise CourseError(
                    f'{self.file_name}, line {line}: {key}="{attributes[key][:20]}" is not a '
                    "number; correct it or delete the point"
                ) from None
        found = self.waypoints if name == "wpt" else self.lines[-1]
        found.points.append((position[0], position[1]))
        found.stamps.append("")
        check_count(self.file_name, len(found.points))
        found.places.append(f"line {line}, point {len(found.points)}")

    def end(self, name: str) -> None:
        if name == "time" and self.path[-2:-1] and self.path[-2] in _POINTS:
            found = self.waypoints if self.path[-2] == "wpt" else self.lines[-1]
            found.stamps[-1] = self._stamp
        elif name == "rte":
            self.lines[-1].name = self.name.strip()

    def text(self, text: str) -> None:
        if (
            self.path[-1] == "name"
            and len(self.path) > 1
            and self.path[-2] in ("trk", "rte", "metadata")
        ):
            self.name = (self.name + text)[:60]
        elif self.path[-1] == "time":
            self._stamp = (self._stamp + text)[:60]


def read(data: bytes, file_name: str, options: ReadOptions) -> CourseFile:
    """Return the waypoints of the only track segment, route, or list of waypoints. Raises
    CourseError."""
    reader = _GpxReader(file_name)
    reader.parse(data)
    lines = [line for line in reader.lines if line.points]
    others = dict(reader.others)
    if not lines and reader.waypoints.points:
        lines = [reader.waypoints]
    elif reader.waypoints.points:
        others["wpt"] = len(reader.waypoints.points)
    if not lines:
        raise CourseError(
            f"{file_name}: no points in a track, a route or as waypoints; save the course as "
            "one of these"
        )
    line, remarks = only_line(file_name, lines, options)
    what = {"<trkseg>": "the track", "<rte>": "the route"}.get(
        line.kind, "the waypoints, in the order of the file"
    )
    used = [(what, "latitude, longitude, deg")]
    if line.times():
        others.pop("time", None)
        used.append(("<time>", "shows gaps"))
    # A file of other people's extensions has any number of names.
    ignored = tuple(
        (f"<{name[:30]}>", f"{count} of them") for name, count in list(others.items())[:12]
    )
    remarks.insert(
        0, f"no speeds: {DEFAULT_SPEED_MPS:g} m/s all along; recorded ones are no targets"
    )
    name = line.name.strip() or reader.name.strip()
    return line.course(
        file_name, ORDER, ReadSummary("GPX", tuple(used), ignored, tuple(remarks)), name=name
    )
