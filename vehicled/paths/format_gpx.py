"""GPX courses: one track of one segment, or one route. Times, heights and recorded speeds are ignored: a recording is not a target.

Parsed with expat as a stream; a document type declaration, and with it every entity, is refused.
"""

from typing import NoReturn
from xml.parsers import expat

from vehicled.paths.course_file import DEFAULT_SPEED_MPS, CourseFile, check_count
from vehicled.paths.errors import CourseError
from vehicled.paths.read_summary import ReadSummary

KIND = "a GPX track or route"
ORDER = 'GPX names them: lat="..." lon="..."'
_POINTS = {"trkpt": "trkseg", "rtept": "rte"}
_MAX_DEPTH = 64


class _Reader:
    """Collects the points of all lines while expat parses the file."""

    def __init__(self, file_name: str) -> None:
        self.file_name = file_name
        self.lines: list[tuple[str, int, list[tuple[float, float]], list[str]]] = []
        self.name = ""
        self.others: dict[str, int] = {}
        """Numbers of ignored elements and single waypoints, by name."""
        self._path: list[str] = []
        self._parser = expat.ParserCreate(namespace_separator=" ")
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text
        self._parser.StartDoctypeDeclHandler = self._declaration
        self._parser.EntityDeclHandler = self._declaration
        self._parser.ExternalEntityRefHandler = self._declaration

    def parse(self, data: bytes) -> None:
        self._parser.Parse(data, True)

    def _declaration(self, *_: object) -> NoReturn:
        raise CourseError(
            f"{self.file_name}, line {self._parser.CurrentLineNumber}: the XML declares a document type or entities; a GPX needs "
            "none, delete the declaration"
        )

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        line = self._parser.CurrentLineNumber
        name = tag.rpartition(" ")[2]
        if not self._path and name != "gpx":
            raise CourseError(f"{self.file_name}, line {line}: the document is <{name[:30]}>, not <gpx>; export it as GPX")
        self._path.append(name)
        if len(self._path) > _MAX_DEPTH:
            raise CourseError(f"{self.file_name}, line {line}: the XML is nested too deeply; expected {KIND}")
        if name in _POINTS.values():
            self.lines.append((name, line, [], []))
        elif name in _POINTS:
            if len(self._path) < 2 or self._path[-2] != _POINTS[name]:
                raise CourseError(f"{self.file_name}, line {line}: <{name}> outside <{_POINTS[name]}>; expected {KIND}")
            self._point(name, line, attributes)
        elif name == "wpt" or any(parent in _POINTS for parent in self._path[:-1]):
            self.others[name] = self.others.get(name, 0) + 1

    def _point(self, name: str, line: int, attributes: dict[str, str]) -> None:
        position = []
        for key in ("lat", "lon"):
            if key not in attributes:
                raise CourseError(f'{self.file_name}, line {line}: <{name}> has no attribute "{key}"; add it or delete the point')
            try:
                position.append(float(attributes[key]))
            except ValueError:
                raise CourseError(
                    f'{self.file_name}, line {line}: {key}="{attributes[key][:20]}" is not a number; correct it or delete the point'
                ) from None
        self.lines[-1][2].append((position[0], position[1]))
        check_count(self.file_name, len(self.lines[-1][2]))
        self.lines[-1][3].append(f"line {line}")

    def _end(self, _: str) -> None:
        self._path.pop()

    def _text(self, text: str) -> None:
        if self._path[-1] == "name" and len(self._path) > 1 and self._path[-2] in ("trk", "rte", "metadata"):
            self.name = (self.name + text)[:60]


def read(data: bytes, file_name: str) -> CourseFile:
    """Return the waypoints of the only track segment or route. Raises CourseError."""
    if not data.strip():
        raise CourseError(f"{file_name}: the file is empty; expected {KIND}")
    reader = _Reader(file_name)
    try:
        reader.parse(data)
    except expat.ExpatError as error:
        cut = error.code == expat.errors.codes[expat.errors.XML_ERROR_NO_ELEMENTS] or "unclosed" in str(error)
        cure = "the file is cut off; fetch it again" if cut else f"expected {KIND}"
        raise CourseError(f"{file_name}, line {error.lineno}: {expat.ErrorString(error.code)}; {cure}") from None
    except CourseError:
        raise
    except (LookupError, ValueError) as error:
        # An encoding declaration that Python does not know or expat does not take.
        raise CourseError(f"{file_name}: {error}; save the file as UTF-8") from None
    lines = [line for line in reader.lines if line[2]]
    if len(lines) > 1:
        places = ", ".join(f"<{kind}> in line {line}" for kind, line, _, _ in lines[:5])
        raise CourseError(f"{file_name}: {len(lines)} lines ({places}); a course is one line: delete the others or join them")
    if not lines:
        raise CourseError(f"{file_name}: no points in a track or a route; save the course as one of these, not as waypoints")
    kind, _, points, places_of = lines[0]
    what = "the track" if kind == "trkseg" else "the route"
    # A file of other people's extensions has any number of names.
    ignored = tuple((f"<{name[:30]}>", f"{count} of them") for name, count in list(reader.others.items())[:12])
    return CourseFile(
        file_name=file_name,
        points=points,
        places=places_of,
        geodetic=True,
        order=ORDER,
        name=reader.name.strip(),
        account=ReadSummary(
            "GPX",
            ((what, "latitude, longitude, deg"),),
            ignored,
            (f"no speeds: {DEFAULT_SPEED_MPS:g} m/s all along; recorded ones are no targets",),
        ),
    )
