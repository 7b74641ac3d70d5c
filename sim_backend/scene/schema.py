"""Schema of a scene file: every table and key, with its bounds."""

from collections.abc import Iterator
from itertools import pairwise
from math import inf
from typing import Annotated, Any

from msgspec import Meta, field

from vehicled.paths.scenes import Coordinate, Name, Point, SceneCourse, SceneLane
from vehicled.profile.collect import Rule, TableView
from vehicled.profile.problems import KeyPath
from vehicled.profile.schema import Table, TerrainTable

Title = Annotated[str, Meta(max_length=80)]
Friction = Annotated[float, Meta(ge=0.0, le=2.0)]
Restitution = Annotated[float, Meta(ge=0.0, le=1.0)]
Size = Annotated[float, Meta(gt=0.0, le=1000.0)]
Seconds = Annotated[float, Meta(ge=0.0, le=1e6)]


class OnCourse(Table, frozen=True, kw_only=True):
    """Position relative to the course."""

    s_m: Annotated[float, Meta(ge=0.0, le=200_000.0)]
    """Arc length from the start of the course."""
    left_m: Coordinate = 0.0
    """Distance to the left of it."""


Place = Point | OnCourse
"""``[x, y]`` in metres of the map, or ``{ s_m = 12.0, left_m = 0.5 }``."""


class Solid(Table, frozen=True, kw_only=True):
    """Properties that everything solid has."""

    name: Title = ""
    """Name in reports of contacts; empty: its kind and number."""
    friction: Friction | None = None
    """Coefficient of friction with the body of the vehicle; left out: that of the scene."""
    restitution: Restitution | None = None
    """Coefficient of restitution; left out: that of the scene."""


class Wall(Solid, frozen=True, kw_only=True):
    """Thin wall from point to point."""

    points: Annotated[list[Place], Meta(min_length=2, max_length=10_000)]
    closed: bool = False


class PolygonBody(Solid, frozen=True, kw_only=True):
    """Filled polygon."""

    points: Annotated[list[Place], Meta(min_length=3, max_length=10_000)]


class Box(Solid, frozen=True, kw_only=True):
    """Filled rectangle, or a row of equal ones: a parked car, a house."""

    at: Place
    """Middle of the first."""
    size_m: Annotated[list[Size], Meta(min_length=2, max_length=2)]
    """Length along the heading, and width."""
    heading_deg: Annotated[float, Meta(ge=-360.0, le=360.0)] = 0.0
    """Counter-clockwise from east."""
    count: Annotated[int, Meta(ge=1, le=1000)] = 1
    step_m: Point = field(default_factory=lambda: [0.0, 0.0])
    """Offset from each to the next."""


class Circle(Solid, frozen=True, kw_only=True):
    """Circle, or several equal ones: a post, a person, trees."""

    at: Place | None = None
    places: Annotated[list[Place], Meta(max_length=10_000)] = field(default_factory=list)
    """Middles, instead of ``at``."""
    radius_m: Size


class PaintedLine(Table, frozen=True, kw_only=True):
    """Line on the ground: drawn, not seen by scanners."""

    points: Annotated[list[Place], Meta(min_length=2, max_length=10_000)]
    closed: bool = False
    count: Annotated[int, Meta(ge=1, le=1000)] = 1
    step_m: Point = field(default_factory=lambda: [0.0, 0.0])
    """Offset from each to the next."""


class ParkingSpace(Table, frozen=True, kw_only=True):
    """Parking space, a rectangle on the ground: drawn, not seen by scanners."""

    name: Name
    at: Point
    """Middle."""
    size_m: Annotated[list[Size], Meta(min_length=2, max_length=2)]
    """Length along the heading, and width."""
    heading_deg: Annotated[float, Meta(ge=-360.0, le=360.0)] = 0.0
    """Heading of a parked vehicle, counter-clockwise from east."""


class StartPlace(Table, frozen=True, kw_only=True):
    """ScenePose at which a vehicle may stand at the start, instead of the first point of the
    course."""

    name: Name
    at: Point
    heading_deg: Annotated[float, Meta(ge=-360.0, le=360.0)] = 0.0
    """Counter-clockwise from east."""


class MovingThing(Solid, frozen=True, kw_only=True):
    """Object that moves from position to position, at one speed from ``start_s`` on, or at the
    given times."""

    places: Annotated[list[Place], Meta(min_length=1, max_length=10_000)]
    start_s: Seconds = 0.0
    """Departure from the first position, in seconds from the start of the run."""
    speed_mps: Annotated[float, Meta(gt=0.0, le=100.0)] | None = None
    times_s: list[Seconds] = field(default_factory=list)
    """Time at each position, instead of ``start_s`` and ``speed_mps``."""
    start_m: Annotated[float, Meta(ge=0.0, le=200_000.0)] | None = None
    """Departure when the vehicle has come so far along its course; times count from then on. Only
    in mixed reality."""
    start_spread_m: Annotated[float, Meta(ge=0.0, le=1000.0)] = 0.0
    """Half width of the interval round ``start_m`` that the seed draws from."""
    speed_spread_mps: Annotated[float, Meta(ge=0.0, le=100.0)] = 0.0
    """Half width of the interval round ``speed_mps`` that the seed draws from. Only in mixed
    reality."""
    radius_m: Size | None = None
    outline: list[Point] = field(default_factory=list)
    """Corners around the reference point, x ahead, instead of a radius."""


class Corridor(Table, frozen=True, kw_only=True):
    """Walls on both sides of the course."""

    left_m: Size
    right_m: Size


class SceneFile(Table, frozen=True, kw_only=True):
    """Complete scene file."""

    title: Title = ""
    """One line for listings."""
    friction: Friction = 0.4
    """Coefficient of friction between the body of the vehicle and what it touches."""
    restitution: Restitution = 0.1
    """Coefficient of restitution: rebound speed over approach speed."""
    course: Annotated[list[SceneCourse], Meta(max_length=1000)] = field(default_factory=list)
    lane: Annotated[list[SceneLane], Meta(max_length=1000)] = field(default_factory=list)
    start: Annotated[list[StartPlace], Meta(max_length=1000)] = field(default_factory=list)
    line: Annotated[list[PaintedLine], Meta(max_length=10_000)] = field(default_factory=list)
    parking_space: Annotated[list[ParkingSpace], Meta(max_length=1000)] = field(
        default_factory=list
    )
    box: Annotated[list[Box], Meta(max_length=10_000)] = field(default_factory=list)
    wall: Annotated[list[Wall], Meta(max_length=10_000)] = field(default_factory=list)
    body: Annotated[list[PolygonBody], Meta(max_length=10_000)] = field(default_factory=list)
    circle: Annotated[list[Circle], Meta(max_length=10_000)] = field(default_factory=list)
    moving: Annotated[list[MovingThing], Meta(max_length=100)] = field(default_factory=list)
    corridor: Corridor | None = None
    map: str = ""
    """YAML file of an occupancy grid; its path is relative to the scene."""
    ground: TerrainTable | None = None
    """Ground, with the keys of ``[sim.terrain]``; its paths are relative to the scene. Left out:
    that of the profile."""


def _moving(thing: TableView) -> Iterator[tuple[KeyPath, str]]:
    places = thing.get("places") or []
    times = thing.get("times_s") or []
    outline = thing.get("outline") or []
    if (thing.get("radius_m") is None) == (not outline):
        yield ("radius_m",), "a moving object needs either radius_m or an outline"
    if outline and len(outline) < 3:
        yield ("outline",), f"{len(outline)} corners; an outline needs at least 3"
    if times:
        if len(times) != len(places):
            yield (
                ("times_s",),
                f"{len(times)} times for {len(places)} places; give one time per place",
            )
        if any(b <= a for a, b in pairwise(times)):
            yield ("times_s",), "must grow from place to place"
        if "speed_mps" in thing.written or "start_s" in thing.written:
            yield ("times_s",), "replaces start_s and speed_mps; leave out one or the other"
    if thing.get("start_spread_m") and thing.get("start_m") is None:
        yield ("start_spread_m",), "needs start_m, round which it is drawn"
    if (thing.get("speed_spread_mps") or 0.0) >= (thing.get("speed_mps") or inf):
        yield ("speed_spread_mps",), "must be less than speed_mps"
    if thing.get("speed_spread_mps") and times:
        yield ("speed_spread_mps",), "needs speed_mps, round which it is drawn"
    if not times and len(places) > 1 and thing.get("speed_mps") is None:
        yield ("speed_mps",), "missing: the speed from place to place (or give times_s)"


def _circle(circle: TableView) -> Iterator[tuple[KeyPath, str]]:
    if ("at" in circle.written) == ("places" in circle.written):
        yield ("at",), "a circle needs either at or places"


RULES: dict[type, Rule] = {MovingThing: _moving, Circle: _circle}
"""Rules between the keys of one table."""

Data = dict[str, Any]
