"""Schema of a scene file: every table and key, with its bounds."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Annotated, Any

from msgspec import Meta, field

from vehicled.profile.collect import Rule, TableView
from vehicled.profile.problems import KeyPath
from vehicled.profile.schema import Table

Coordinate = Annotated[float, Meta(ge=-200_000.0, le=200_000.0)]
Point = Annotated[list[Coordinate], Meta(min_length=2, max_length=2)]
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


class Wall(Table, frozen=True, kw_only=True):
    """Thin wall from point to point."""

    points: Annotated[list[Place], Meta(min_length=2, max_length=10_000)]
    closed: bool = False


class PolygonBody(Table, frozen=True, kw_only=True):
    """Filled polygon."""

    points: Annotated[list[Place], Meta(min_length=3, max_length=10_000)]


class Circle(Table, frozen=True, kw_only=True):
    """Circle: a post, a person."""

    at: Place
    radius_m: Size


class MovingThing(Table, frozen=True, kw_only=True):
    """Object that moves from position to position, at one speed from ``start_s`` on, or at the given times."""

    places: Annotated[list[Place], Meta(min_length=1, max_length=10_000)]
    start_s: Seconds = 0.0
    """Departure from the first position, in seconds from the start of the run."""
    speed_mps: Annotated[float, Meta(gt=0.0, le=100.0)] | None = None
    times_s: list[Seconds] = field(default_factory=list)
    """Time at each position, instead of ``start_s`` and ``speed_mps``."""
    radius_m: Size | None = None
    outline: list[Point] = field(default_factory=list)
    """Corners around the reference point, x ahead, instead of a radius."""


class Corridor(Table, frozen=True, kw_only=True):
    """Walls on both sides of the course."""

    left_m: Size
    right_m: Size


class SceneFile(Table, frozen=True, kw_only=True):
    """Complete scene file."""

    wall: Annotated[list[Wall], Meta(max_length=10_000)] = field(default_factory=list)
    body: Annotated[list[PolygonBody], Meta(max_length=10_000)] = field(default_factory=list)
    circle: Annotated[list[Circle], Meta(max_length=10_000)] = field(default_factory=list)
    moving: Annotated[list[MovingThing], Meta(max_length=100)] = field(default_factory=list)
    corridor: Corridor | None = None
    map: str = ""
    """YAML file of an occupancy grid; its path is relative to the scene."""


def _moving(thing: TableView) -> Iterator[tuple[KeyPath, str]]:
    places, times, outline = thing.get("places") or [], thing.get("times_s") or [], thing.get("outline") or []
    if (thing.get("radius_m") is None) == (not outline):
        yield ("radius_m",), "a moving object needs either radius_m or an outline"
    if outline and len(outline) < 3:
        yield ("outline",), f"{len(outline)} corners; an outline needs at least 3"
    if times:
        if len(times) != len(places):
            yield ("times_s",), f"{len(times)} times for {len(places)} places; give one time per place"
        if any(b <= a for a, b in pairwise(times)):
            yield ("times_s",), "must grow from place to place"
        if "speed_mps" in thing.written or "start_s" in thing.written:
            yield ("times_s",), "replaces start_s and speed_mps; leave out one or the other"
    elif len(places) > 1 and thing.get("speed_mps") is None:
        yield ("speed_mps",), "missing: the speed from place to place (or give times_s)"


RULES: dict[type, Rule] = {MovingThing: _moving}
"""Rules between the keys of one table."""

Data = dict[str, Any]
