"""Lanelet2 maps, as Autoware uses them: the centre lines of lanelets that follow each other.

A lanelet is driven in the direction in which its left bound lies on the left. Its centre line is
the member ``centerline`` if the map has one, else the middle of its bounds. Positions are latitude
and longitude; the tags ``local_x`` and ``local_y`` take their place where those are missing or do
not fit them, because maps without a place on the earth carry anything there. ``speed_limit`` is the
target speed.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import ceil, degrees

import numpy as np

from vehicled.core.arrays import Array, hypotenuse
from vehicled.paths.course_file import (
    DEFAULT_SPEED_MPS,
    SPEED_UNITS,
    CourseFile,
    ReadOptions,
    check_count,
    shown,
)
from vehicled.paths.datum import Datum
from vehicled.paths.errors import CourseError
from vehicled.paths.read_summary import ReadSummary
from vehicled.paths.xml_stream import XmlReader

KIND = "a Lanelet2 map"
ORDER = "a node has lat and lon as attributes"
SPACING_M = 0.5
"""Largest distance of two points of a centre line between bounds."""
OVERLAP_M = 5.0
"""Largest length by which the centre lines of two lanelets may overlap: those that maps carry may
begin and end in the next lanelet."""
FITS, FITS_M = 0.01, 0.5
"""Difference of a distance by latitude and longitude from that by local coordinates, as a fraction
and in m, that is left to the scale of the projection and to rounding."""
MOST_M = 1e8
"""Largest coordinate that is taken for one; the northings of projections are below a tenth."""
LONGEST_M = 100_000.0
"""Largest length of a bound."""
NOT_DRIVEN = (
    "bicycle_lane", "crosswalk", "pedestrian_lane", "road_shoulder", "shared_walkway", "stairs",
    "walkway",
)  # fmt: skip
"""Subtypes of lanelets that are driven only if they are named."""
MOST_LISTED = 6
_MAX_LANELETS = 100_000
_MOST_TEXT = 40
_SPEED = re.compile(r"\s*([0-9]*\.?[0-9]+)\s*([a-zA-Z/]*)\s*")
_UNITS = {"": "km/h", "kmh": "km/h", "kph": "km/h", "km/h": "km/h", "mph": "mph", "m/s": "m/s"}
"""Spellings of units of a speed limit; without one it is km/h."""


@dataclass(slots=True)
class _Node:
    line: int
    latitude: float | None
    longitude: float | None
    x_m: float | None = None
    y_m: float | None = None


@dataclass(slots=True)
class _Element:
    """A way or a relation."""

    id: str
    line: int
    refs: list[tuple[str, str]] = field(default_factory=list)
    """(role, id) of each member."""
    tags: dict[str, str] = field(default_factory=dict)


class _OsmReader(XmlReader):
    """Collects nodes, ways and lanelets."""

    kind = KIND
    root = "osm"

    def __init__(self, file_name: str) -> None:
        super().__init__(file_name)
        self.nodes: dict[str, _Node] = {}
        self.ways: dict[str, _Element] = {}
        self.lanelets: dict[str, _Element] = {}
        self._node: _Node | None = None
        self._element: _Element | None = None

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name in ("node", "way", "relation"):
            self._node = self._element = None
            # Editors keep what was deleted until the map is uploaded.
            if attributes.get("action") == "delete" or attributes.get("visible") == "false":
                return
            number = attributes.get("id", "")
            if name == "node":
                self._node = self.nodes[number] = _Node(
                    self.line_number,
                    self._number(name, number, "lat", attributes.get("lat")),
                    self._number(name, number, "lon", attributes.get("lon")),
                )
                return
            self._element = _Element(number, self.line_number)
            if name == "way":
                self.ways[number] = self._element
        elif name == "tag":
            key, value = attributes.get("k", ""), attributes.get("v", "")
            if self._node is not None and key in ("local_x", "local_y"):
                metres = self._number("node", "", key, value)
                setattr(self._node, "x_m" if key == "local_x" else "y_m", metres)
            elif self._element is not None:
                self._element.tags[key] = value
        elif name == "nd" and self._element is not None:
            self._element.refs.append(("", attributes.get("ref", "")))
        elif name == "member" and self._element is not None:
            self._element.refs.append((attributes.get("role", ""), attributes.get("ref", "")))

    def end(self, name: str) -> None:
        element = self._element
        if name == "relation" and element is not None and element.tags.get("type") == "lanelet":
            self.lanelets[element.id] = element
            if len(self.lanelets) > _MAX_LANELETS:
                raise CourseError(
                    f"{self.file_name}: more than {_MAX_LANELETS} lanelets; cut out the part "
                    "that is driven"
                )
        if name in ("node", "way", "relation"):
            self._node = self._element = None

    def _number(self, what: str, number: str, key: str, text: str | None) -> float | None:
        """Return a coordinate; None for one that is left out."""
        if text is None or not text.strip():
            return None
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not abs(value) <= MOST_M:
            named = f" {number[:20]}" if number else ""
            raise CourseError(
                f"{self.file_name}, line {self.line_number}: {key} of the {what}{named} is "
                f"{shown(text)}, no position; correct it"
            )
        return value


def read(data: bytes, file_name: str, options: ReadOptions) -> CourseFile:
    """Return the centre line of the lanelets that are chosen, or of all if they make one chain.
    Raises CourseError."""
    reader = _OsmReader(file_name)
    reader.parse(data)
    if not reader.lanelets:
        raise CourseError(
            f"{file_name}: no lanelet in it (a relation with type=lanelet); other maps of "
            "OpenStreetMap are no courses: draw the line and export it as GPX"
        )
    found = _LaneletMap(file_name, reader)
    chain, closed = _named(found, options.line) if options.line else _only_chain(found)
    limited = [lanelet for lanelet in chain if lanelet.speed_mps is not None]
    remarks = list(found.remarks)
    if len(limited) < len(chain):
        without = f"{len(chain) - len(limited)} lanelets without speed_limit"
        remarks.append(f"{without if limited else 'no speeds'}: {DEFAULT_SPEED_MPS:g} m/s there")
    points: list[tuple[float, float]] = []
    places: list[str] = []
    speeds: list[float] = []
    before: Array | None = None
    for lanelet in chain:
        line_m = lanelet.centre_line()
        if before is not None:
            line_m = line_m[_overlap(before, line_m) :]
        before = line_m if before is None else np.vstack((before[-1:], line_m))
        line = found.positions(line_m)
        points += line
        places += [f"lanelet {lanelet.id[:20]}"] * len(line)
        speeds += [lanelet.speed_mps or DEFAULT_SPEED_MPS] * len(line)
        check_count(file_name, len(points))
    used = [("lat, lon", "deg") if found.datum else ("local_x, local_y", "east, north, m")]
    if limited:
        used.append(("speed_limit", "target speed, in km/h unless it names a unit"))
    return CourseFile(
        file_name=file_name,
        points=points,
        places=places,
        geodetic=found.datum is not None,
        order=ORDER,
        account=ReadSummary(
            f"a Lanelet2 map, {len(chain)} of {len(reader.lanelets)} lanelets",
            tuple(used),
            (("regulatory elements", ""), ("heights", "")),
            tuple(remarks),
        ),
        speeds_mps=speeds if limited else None,
        speed_holds=True,
        closed=closed,
    )


@dataclass(frozen=True, slots=True)
class _Bound:
    """Nodes of a way and their points (n, 3), m."""

    nodes: Sequence[str]
    points: Array

    def reversed(self) -> "_Bound":
        """Return the way in the other direction."""
        return _Bound(self.nodes[::-1], self.points[::-1])

    def along(self) -> Array:
        """Return the arc length (n,) at each point."""
        return np.insert(np.cumsum(hypotenuse(*np.diff(self.points[:, :2], axis=0).T)), 0, 0.0)

    def points_at(self, fractions: Array) -> Array:
        """Return the points (k, 3) at fractions of the length."""
        along = self.along()
        return np.column_stack(
            [np.interp(fractions * along[-1], along, column) for column in self.points.T]
        )


class _Lanelet:
    """A lanelet in the direction of travel. Raises CourseError if it is too long."""

    def __init__(
        self, at: str, element: _Element, left: _Bound, right: _Bound, centre: _Bound | None
    ) -> None:
        self.id = element.id
        self.driven = element.tags.get("subtype", "") not in NOT_DRIVEN
        self.speed_mps = _speed(at, element)
        if _distance(left, right) > _distance(left, right.reversed()):
            right = right.reversed()
        # Along the left bound and back along the right one is clockwise.
        if _area(np.vstack((left.points, right.points[::-1]))) > 0.0:
            left, right = left.reversed(), right.reversed()
        self._left, self._right, self._centre = left, right, centre
        self.start = (left.nodes[0], right.nodes[0])
        """First nodes of the bounds, which are the last ones of the lanelet before."""
        self.end = (left.nodes[-1], right.nodes[-1])
        self.length_m = max(float(bound.along()[-1]) for bound in (left, right))
        if self.length_m > LONGEST_M:
            raise CourseError(
                f"{at} is {self.length_m / 1000.0:.0f} km long: a node lies elsewhere; correct it"
            )

    def centre_line(self) -> Array:
        """Return the points (n, 3) of the centre line."""
        if self._centre is not None:
            turned = self._centre.reversed()
            onward = _distance(self._centre, self._left) <= _distance(turned, self._left)
            return self._centre.points if onward else turned.points
        at = np.linspace(0.0, 1.0, max(2, ceil(self.length_m / SPACING_M) + 1))
        return 0.5 * (self._left.points_at(at) + self._right.points_at(at))


class _LaneletMap:
    """The lanelets of a file in metres."""

    def __init__(self, file_name: str, reader: _OsmReader) -> None:
        self.file_name = file_name
        self._reader = reader
        self.remarks: list[str] = []
        self.lanelets: dict[str, _Lanelet] = {}
        self.broken: dict[str, CourseError] = {}
        """Reason why a lanelet cannot be driven, by its id."""
        ways: dict[str, list[Sequence[str]]] = {}
        for number, element in reader.lanelets.items():
            try:
                ways[number] = [
                    self._way(element, role) for role in ("left", "right", "centerline")
                ]
            except CourseError as error:
                self.broken[number] = error
        used = dict.fromkeys(node for each in ways.values() for way in each for node in way)
        self.datum, self._points = self._plane(list(used)) if used else (None, {})
        """Origin of the plane of the lanelets; None for local coordinates."""
        for number, (left, right, centre) in ways.items():
            element = reader.lanelets[number]
            try:
                self.lanelets[number] = _Lanelet(
                    self._at(element),
                    element,
                    self._bound(left),
                    self._bound(right),
                    self._bound(centre) if centre else None,
                )
            except CourseError as error:
                self.broken[number] = error

    def _bound(self, way: Sequence[str]) -> _Bound:
        return _Bound(way, np.array([self._points[node] for node in way]))

    def _at(self, lanelet: _Element) -> str:
        return f"{self.file_name}, line {lanelet.line}: lanelet {lanelet.id[:20]}"

    def positions(self, line_m: Array) -> list[tuple[float, float]]:
        """Return points as they stand in a course file: degrees, or metres in local
        coordinates."""
        if self.datum is None:
            return [(x_m, y_m) for x_m, y_m, _ in line_m.tolist()]
        found = (self.datum.to_geodetic(*point) for point in line_m.tolist())
        return [(degrees(latitude), degrees(longitude)) for latitude, longitude, _ in found]

    def after(self) -> dict[str, list[str]]:
        """Return the lanelets that follow each lanelet."""
        begins: dict[tuple[str, str], list[str]] = {}
        for lanelet in self.lanelets.values():
            begins.setdefault(lanelet.start, []).append(lanelet.id)
        return {each.id: begins.get(each.end, []) for each in self.lanelets.values()}

    def _way(self, lanelet: _Element, role: str) -> Sequence[str]:
        """Return the nodes of a member of a lanelet; none for a centre line that it does not
        have."""
        at = self._at(lanelet)
        number = next((ref for name, ref in lanelet.refs if name == role), None)
        if number is None:
            if role == "centerline":
                return ()
            raise CourseError(f"{at} has no member with the role {role}; add its bound")
        way = self._reader.ways.get(number)
        if way is None:
            raise CourseError(
                f"{at} has the way {number[:20]} as {role}, which the file does not hold; save "
                "the whole map"
            )
        nodes = [ref for _, ref in way.refs]
        missing = next((ref for ref in nodes if ref not in self._reader.nodes), None)
        at = f"{self.file_name}, line {way.line}: way {number[:20]}"
        if missing is not None:
            raise CourseError(
                f"{at} has the node {missing[:20]}, which the file does not hold; save the whole "
                "map"
            )
        if len(nodes) < 2:
            raise CourseError(f"{at} has {len(nodes)} node(s); a bound needs at least 2")
        return nodes

    def _plane(self, used: list[str]) -> tuple[Datum | None, dict[str, Sequence[float]]]:
        """Return the origin and the points of nodes on its plane; no origin for local coordinates.
        Raises CourseError for nodes without a position."""
        nodes = {number: self._reader.nodes[number] for number in used}
        local = {
            number: (node.x_m, node.y_m, 0.0)
            for number, node in nodes.items()
            if node.x_m is not None and node.y_m is not None
        }
        unplaced = next(
            (k for k, node in nodes.items() if node.latitude is None or node.longitude is None),
            None,
        )
        unlocal = next((k for k in nodes if k not in local), None)
        if unplaced is None:
            datum, points = self._projected(nodes)
            both = list(local)
            if not both or _alike([points[k] for k in both], [local[k] for k in both]):
                if both:
                    self.remarks.append("local_x, local_y fit lat, lon, which are used")
                return datum, points
            if unlocal is None:
                self.remarks.append(
                    "lat, lon do not fit local_x, local_y: the local coordinates are used"
                )
        if unlocal is None:
            return None, dict(local)
        lacking = unlocal if unplaced is None or local else unplaced
        what = "local_x and local_y, and lat, lon do not fit those of the others"
        if unplaced is not None:
            what = "local_x and local_y as others have" if local else "lat and lon"
        raise CourseError(
            f"{self.file_name}, line {nodes[lacking].line}: node {lacking[:20]} has no {what}; "
            "complete them"
        )

    def _projected(self, nodes: Mapping[str, _Node]) -> tuple[Datum, dict[str, Sequence[float]]]:
        places = {number: self._datum(number, node) for number, node in nodes.items()}
        origin = next(iter(places.values()))
        return origin, {
            number: origin.to_enu(place.latitude_rad, place.longitude_rad, 0.0)
            for number, place in places.items()
        }

    def _datum(self, number: str, node: _Node) -> Datum:
        try:
            return Datum.from_degrees(node.latitude or 0.0, node.longitude or 0.0)
        except CourseError as error:
            raise CourseError(
                f"{self.file_name}, line {node.line}: node {number[:20]}: {error}"
            ) from None


def _speed(at: str, lanelet: _Element) -> float | None:
    """Return the speed limit, m/s; None if there is none. Raises CourseError."""
    text = lanelet.tags.get("speed_limit")
    if text is None:
        return None
    match = _SPEED.fullmatch(text) if len(text) <= _MOST_TEXT else None
    unit = _UNITS.get(match[2].lower()) if match else None
    speed = float(match[1]) if match else 0.0
    if unit is None or speed == 0.0:
        raise CourseError(
            f"{at}: speed_limit is {shown(text)}; write km/h as a number above 0, or add m/s or mph"
        )
    return speed / SPEED_UNITS.get(unit, 1.0)


# ---------------------------------------------------------------- which lanelets


def _only_chain(found: _LaneletMap) -> tuple[list[_Lanelet], bool | None]:
    """Return all lanelets for vehicles as one chain, and whether it is a lap. Raises CourseError if
    they branch or fall apart."""
    if found.broken:
        raise next(iter(found.broken.values()))
    driven = {each.id: each for each in found.lanelets.values() if each.driven}
    after = {
        number: [each for each in following if each in driven]
        for number, following in found.after().items()
        if number in driven
    }
    followed = {each for following in after.values() for each in following}
    first = next((number for number in driven if number not in followed), next(iter(driven), None))
    chain: list[_Lanelet] = []
    seen = set[str]()
    at = first
    while at is not None and at not in seen and len(after[at]) < 2:
        seen.add(at)
        chain.append(driven[at])
        at = next(iter(after[at]), None)
    if not chain or len(chain) < len(driven) or (at is not None and at != first):
        listed = ", ".join(list(driven)[:MOST_LISTED]) or "no lanelet for vehicles"
        more = f" and {len(driven) - MOST_LISTED} more" if len(driven) > MOST_LISTED else ""
        raise CourseError(
            f"{found.file_name}: the lanelets are no single chain ({listed}{more}): choose those "
            f"to drive, in their order, with {found.file_name}:line=ID+ID; lanelets between are "
            "found"
        )
    return chain, True if at is not None else None


def _named(found: _LaneletMap, wanted: str) -> tuple[list[_Lanelet], bool | None]:
    """Return the lanelets that the user named, with those between them. A lap names its first
    lanelet again at the end."""
    numbers = [each.strip() for each in wanted.split("+")]
    for number in numbers:
        if number in found.broken:
            raise found.broken[number]
        if number not in found.lanelets:
            raise CourseError(
                f"{found.file_name}: no lanelet {shown(number)}; line= takes ids of lanelets "
                "(relations with type=lanelet), joined by +"
            )
    after = found.after()
    chain = [found.lanelets[numbers[0]]]
    for number in numbers[1:]:
        chain += [found.lanelets[each] for each in _way_to(found, after, chain[-1].id, number)]
    if len(chain) > 1 and chain[0] is chain[-1]:
        return chain[:-1], True
    return chain, None


def _way_to(found: _LaneletMap, after: Mapping[str, list[str]], begin: str, end: str) -> list[str]:
    """Return the lanelets of the shortest way behind one lanelet up to another. Raises
    CourseError."""
    came = dict[str, str]()
    reached = [(0.0, number, begin) for number in after[begin]]
    while reached:
        length_m, at, before = heappop(reached)
        if at in came:
            continue
        came[at] = before
        if at == end:
            way = [end]
            while came[way[-1]] != begin:
                way.append(came[way[-1]])
            return way[::-1]
        length_m += found.lanelets[at].length_m
        for number in after[at]:
            heappush(reached, (length_m, number, at))
    raise CourseError(
        f"{found.file_name}: lanelet {begin[:20]} does not lead to lanelet {end[:20]}: name them "
        "in the direction of travel; a lane is not changed, and lanelets that follow each other "
        "share the nodes at their ends"
    )


# ---------------------------------------------------------------- geometry


def _distance(one: _Bound, other: _Bound) -> float:
    """Return the distance between the ends of two lines."""
    ends = one.points[[0, -1], :2] - other.points[[0, -1], :2]
    return float(hypotenuse(*ends.T).sum())


def _area(ring: Array) -> float:
    """Return the area of a ring, positive if it runs counter-clockwise."""
    x, y = (ring[:, :2] - ring[0, :2]).T
    return 0.5 * float(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1)))


def _overlap(before: Array, line: Array) -> int:
    """Return the number of points at the start of a line that do not lead on from the line
    before."""
    end = before[-1, :2]
    steps = end - before[:, :2]
    apart = np.flatnonzero(hypotenuse(*steps.T))
    if not len(apart):
        return 0
    step = steps[apart[-1]]
    ahead_m = (line[:, :2] - end) @ step / hypotenuse(*step)
    near = hypotenuse(*(line[:, :2] - end).T) < OVERLAP_M
    # Two lines side by side are joined over a length, not by a step.
    onward = np.flatnonzero((ahead_m > SPACING_M) | ~near)
    return int(onward[0]) if len(onward) else len(line)


def _alike(one: Sequence[Sequence[float]], other: Sequence[Sequence[float]]) -> bool:
    """Return True if points have the same distances from the first one on two planes, apart from
    the scale of a projection."""
    first, second = (
        hypotenuse(*(np.array(points)[:, :2] - np.array(points)[0, :2]).T)
        for points in (one, other)
    )
    largest_m = float(max(first.max(), second.max()))
    return float(np.abs(first - second).max()) <= FITS * largest_m + FITS_M
