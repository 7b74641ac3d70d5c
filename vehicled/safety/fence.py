"""Fences: polygons in the ``map`` plane that the vehicle must not leave, or must not enter.

Polygons may be concave. The even-odd rule fills a polygon that crosses itself.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import hypot, inf
from typing import NamedTuple

import numpy as np

from vehicled.paths.course_file import shown
from vehicled.paths.datum import Datum
from vehicled.paths.errors import CourseError
from vehicled.paths.geojson import Feature, features_of, map_ring
from vehicled.paths.polygon import PlanePoint, encloses

KIND = "GeoJSON with polygons"
MAX_CORNERS = 10_000


class Polygon(NamedTuple):
    """A ring of corners in the ``map`` frame, m; the last corner is joined to the first."""

    corners: tuple[PlanePoint, ...]
    keep_out: bool = False
    name: str = ""

    def contains(self, x_m: float, y_m: float) -> bool:
        """Return True if the point lies inside, by the even-odd rule."""
        return encloses(self.corners, x_m, y_m)

    def distance_m(self, x_m: float, y_m: float) -> float:
        """Return the distance to the nearest point of the edge."""
        best = inf
        for (x1, y1), (x2, y2) in pairwise((*self.corners, self.corners[0])):
            dx, dy = x2 - x1, y2 - y1
            square = dx * dx + dy * dy
            share = min(max(((x_m - x1) * dx + (y_m - y1) * dy) / square, 0.0), 1.0) if square else 0.0
            best = min(best, hypot(x1 + share * dx - x_m, y1 + share * dy - y_m))
        return best


class Fence:
    """All polygons of one fence. The vehicle must stay inside every keep-in polygon and outside every keep-out polygon."""

    def __init__(self, polygons: Sequence[Polygon]) -> None:
        self.polygons = tuple(polygons)
        none = np.empty((0, 2))
        rings = [np.array(polygon.corners) for polygon in self.polygons]
        self._from = np.concatenate([none, *rings]).T
        self._along = np.concatenate([none, *(np.roll(ring, -1, axis=0) - ring for ring in rings)]).T
        # Two equal corners form an edge of length zero; the floor keeps the division finite.
        self._square = np.maximum((self._along**2).sum(axis=0), 1e-30)

    def clear_m(self, x_m: float, y_m: float) -> float:
        """Return the distance to the nearest edge; infinite without edges. All points within it lie on the same sides of all edges.

        The calculation is vectorised, for fences with thousands of corners.
        """
        to = np.array(((x_m,), (y_m,))) - self._from
        share = np.clip((to * self._along).sum(axis=0) / self._square, 0.0, 1.0)
        off = to - share * self._along
        return float(np.sqrt((off**2).sum(axis=0).min(initial=inf)))

    def violated(self, x_m: float, y_m: float) -> str:
        """Return a text that names the polygon whose wrong side the point is on; empty if none."""
        for polygon in self.polygons:
            if polygon.contains(x_m, y_m) is polygon.keep_out:
                side = "inside the keep-out zone" if polygon.keep_out else "outside the fence"
                return f"{side} {polygon.name}".rstrip()
        return ""

    def depth_m(self, x_m: float, y_m: float) -> float:
        """Return the distance by which the point violates the fence; 0 if it does not."""
        wrong = [p.distance_m(x_m, y_m) for p in self.polygons if p.contains(x_m, y_m) is p.keep_out]
        return max(wrong, default=0.0)


def read_geojson(data: bytes, file_name: str, datum: Datum) -> Fence:
    """Return the fence of a GeoJSON file. Polygons with the property ``keep_out`` true are zones that must not be entered.

    Raises :class:`~vehicled.paths.errors.CourseError`, which names the place in the file and the cure.
    """
    polygons = [polygon for feature in features_of(data, file_name, KIND) for polygon in _polygons(file_name, feature, datum)]
    if not polygons:
        raise CourseError(f"{file_name}: there is no polygon in it; draw the fence as a Polygon (property keep_out for zones)")
    return Fence(polygons)


def _polygons(file_name: str, feature: Feature, datum: Datum) -> list[Polygon]:
    kind, shapes = feature.geometry.get("type"), feature.geometry.get("coordinates")
    if kind not in ("Polygon", "MultiPolygon"):
        return []
    place, keep_out = f"{file_name}, {feature.place}", feature.properties.get("keep_out", False)
    if not isinstance(keep_out, bool):
        raise CourseError(f'{place}: property "keep_out" is {shown(keep_out)}; write true or false')
    if kind == "Polygon":
        shapes = [shapes]
    elif not isinstance(shapes, list):
        raise CourseError(f"{place}: a MultiPolygon has a list of polygons, found {shown(shapes)}; draw it again")
    name = str(feature.properties.get("name", ""))[:60]
    return [polygon for rings in shapes for polygon in _rings(place, rings, keep_out, name, datum)]


def _rings(place: str, rings: object, keep_out: bool, name: str, datum: Datum) -> list[Polygon]:
    """Return the outer ring and the holes, with ``keep_out`` inverted for holes: a hole of a fence must not be entered."""
    if not isinstance(rings, list) or not rings:
        raise CourseError(f"{place}: a Polygon has a list of rings, found {shown(rings)}; draw it again")
    found = []
    for index, positions in enumerate(rings):
        ring = f"{place} ring {index + 1}"
        corners = map_ring(ring, positions, datum)
        if not 3 <= len(corners) <= MAX_CORNERS:
            raise CourseError(f"{ring}: {len(corners)} corners; a ring has 3 to {MAX_CORNERS}")
        found.append(Polygon(tuple((x, y) for x, y in corners), keep_out is (index == 0), name))
    return found
