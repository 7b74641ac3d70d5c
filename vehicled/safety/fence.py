"""Fences: polygons in the ``map`` plane that must not be left, or not be entered.

Polygons may be concave; one that crosses itself is filled by the even-odd rule.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import hypot, inf, radians
from typing import NamedTuple

from vehicled.paths.datum import Datum
from vehicled.paths.drawing import json_of, number, shown
from vehicled.paths.errors import CourseError

KIND = "GeoJSON with polygons"
MAX_CORNERS = 10_000

Point = tuple[float, float]


class Polygon(NamedTuple):
    """A ring of corners, metres in the map frame; the last is joined to the first."""

    corners: tuple[Point, ...]
    keep_out: bool = False
    name: str = ""

    def contains(self, x_m: float, y_m: float) -> bool:
        """Whether a point lies inside, by the even-odd rule."""
        inside = False
        corners = self.corners
        x1, y1 = corners[-1]
        for x2, y2 in corners:
            if (y1 > y_m) != (y2 > y_m) and x_m < x1 + (y_m - y1) * (x2 - x1) / (y2 - y1):
                inside = not inside
            x1, y1 = x2, y2
        return inside

    def distance_m(self, x_m: float, y_m: float) -> float:
        """Way to the nearest point of the edge."""
        best = inf
        for (x1, y1), (x2, y2) in pairwise((*self.corners, self.corners[0])):
            dx, dy = x2 - x1, y2 - y1
            square = dx * dx + dy * dy
            share = min(max(((x_m - x1) * dx + (y_m - y1) * dy) / square, 0.0), 1.0) if square else 0.0
            best = min(best, hypot(x1 + share * dx - x_m, y1 + share * dy - y_m))
        return best


class Fence:
    """All polygons together: inside every one that must not be left, outside every one that must not be entered."""

    def __init__(self, polygons: Sequence[Polygon]) -> None:
        self.polygons = tuple(polygons)

    def violated(self, x_m: float, y_m: float) -> str:
        """The polygon that a point is on the wrong side of, in words; empty when there is none."""
        for polygon in self.polygons:
            if polygon.contains(x_m, y_m) is polygon.keep_out:
                side = "inside the keep-out zone" if polygon.keep_out else "outside the fence"
                return f"{side} {polygon.name}".rstrip()
        return ""

    def depth_m(self, x_m: float, y_m: float) -> float:
        """How far beyond the edge a point on the wrong side is; 0 on the right side of all."""
        wrong = [p.distance_m(x_m, y_m) for p in self.polygons if p.contains(x_m, y_m) is p.keep_out]
        return max(wrong, default=0.0)


def read_geojson(data: bytes, file_name: str, datum: Datum) -> Fence:
    """Fence of a GeoJSON file: its polygons, with the property ``keep_out`` true for zones that must not be entered.

    Raises :class:`~vehicled.paths.errors.CourseError` naming the place and the cure.
    """
    root = json_of(data, file_name, KIND)
    features = root.get("features") if root.get("type") == "FeatureCollection" else [root]
    if not isinstance(features, list):
        raise CourseError(f"{file_name}: the FeatureCollection has no list of features; expected {KIND}")
    polygons: list[Polygon] = []
    for index, feature in enumerate(features):
        place = f"{file_name}, feature {index + 1}"
        if not isinstance(feature, dict):
            raise CourseError(f"{place}: {shown(feature)} is no feature")
        whole = feature.get("geometry") if feature.get("type") == "Feature" else feature
        properties = feature.get("properties") or {}
        if not isinstance(whole, dict) or whole.get("type") not in ("Polygon", "MultiPolygon"):
            continue
        keep_out = properties.get("keep_out", False) if isinstance(properties, dict) else False
        if not isinstance(keep_out, bool):
            raise CourseError(f'{place}: property "keep_out" is {shown(keep_out)}; write true or false')
        name = str(properties.get("name", ""))[:60] if isinstance(properties, dict) else ""
        rings = whole.get("coordinates")
        for ring_set in [rings] if whole["type"] == "Polygon" else (rings if isinstance(rings, list) else []):
            polygons += _rings(place, ring_set, keep_out, name, datum)
    if not polygons:
        raise CourseError(f"{file_name}: there is no polygon in it; draw the fence as a Polygon (property keep_out for zones)")
    return Fence(polygons)


def _rings(place: str, rings: object, keep_out: bool, name: str, datum: Datum) -> list[Polygon]:
    """The outer ring, and its holes turned round: a hole of a fence must not be entered."""
    if not isinstance(rings, list) or not rings:
        raise CourseError(f"{place}: a Polygon has a list of rings, found {shown(rings)}")
    found = []
    for number_, ring in enumerate(rings):
        corners = [_corner(f"{place} ring {number_ + 1}", position, datum) for position in (ring if isinstance(ring, list) else [])]
        if len(corners) > 1 and corners[0] == corners[-1]:
            corners.pop()
        if not 3 <= len(corners) <= MAX_CORNERS:
            raise CourseError(f"{place} ring {number_ + 1}: {len(corners)} corners; a ring has 3 to {MAX_CORNERS}")
        found.append(Polygon(tuple(corners), keep_out is (number_ == 0), name))
    return found


def _corner(place: str, position: object, datum: Datum) -> Point:
    pair = [number(v) for v in position[:2]] if isinstance(position, list) else []
    if len(pair) != 2 or pair[0] is None or pair[1] is None or not (abs(pair[0]) <= 180.0 and abs(pair[1]) <= 90.0):
        raise CourseError(f"{place}: {shown(position)} is not [longitude, latitude] in degrees; correct it")
    east, north, _ = datum.to_enu(radians(pair[1]), radians(pair[0]), datum.height_m)
    return east, north
