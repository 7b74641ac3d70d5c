"""Fences: polygons in the ``map`` plane that the vehicle must not leave, or must not enter.

Polygons may be concave. The even-odd rule fills a polygon that crosses itself.
"""

from collections.abc import Sequence
from math import ceil, cos, inf, pi, sin, tau
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from vehicled.core.arrays import Array
from vehicled.core.vehicle import Outline
from vehicled.paths.arc import on_arc
from vehicled.paths.course_file import shown
from vehicled.paths.datum import Datum
from vehicled.paths.errors import CourseError
from vehicled.paths.geojson import GeoFeature, features_of, map_ring
from vehicled.paths.polygon import PlanePoint

Flags = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.int64]

KIND = "GeoJSON with polygons"
MAX_CORNERS = 10_000
LOOSE_M = 0.01
"""Width by which the rectangles of a turning body may exceed what it sweeps, m: they are taken the
closer together."""
MAX_STEPS = 64
TOUCH_M = 1e-9
"""Distance at which a body touches an edge, m."""
BLOCK = 64
"""Steps of a way that are tested together."""


class Polygon(NamedTuple):
    """A ring of corners in the ``map`` frame, m; the last corner is joined to the first."""

    corners: tuple[PlanePoint, ...]
    keep_out: bool = False
    name: str = ""


class Boxes(NamedTuple):
    """Rectangles (m,), each in a frame of its own: origin in the ``map`` frame, heading, and
    extents ahead and to the left, m."""

    x_m: Array
    y_m: Array
    yaw_rad: Array
    back_m: Array
    front_m: Array
    right_m: Array
    left_m: Array

    @property
    def reach_m(self) -> float:
        """Distance from an origin to the farthest corner of any rectangle."""
        along = np.maximum(np.abs(self.back_m), np.abs(self.front_m))
        return float(np.hypot(along, np.maximum(np.abs(self.right_m), np.abs(self.left_m))).max())


def swept(outline: Outline, x_m: Array, y_m: Array, yaw_rad: Array) -> Boxes:
    """Return rectangles (m,) that cover a body on its way between consecutive poses (m + 1,).

    Along a straight line they cover it exactly. Where the body turns by an angle between two poses
    they are wider than what it sweeps, by half of that angle times its length at most: see
    :func:`steps_for`.
    """
    half_turn = 0.5 * (np.remainder(np.diff(yaw_rad) + pi, tau) - pi)
    middle_rad = yaw_rad[:-1] + half_turn
    half_x, half_y = 0.5 * np.diff(x_m), 0.5 * np.diff(y_m)
    c, s = np.cos(middle_rad), np.sin(middle_rad)
    # Both poses are seen from the middle one, half of the way and half of the turn before it and
    # behind it.
    along, aside = np.abs(c * half_x + s * half_y), np.abs(c * half_y - s * half_x)
    turned_c, turned_s = np.cos(half_turn), np.abs(np.sin(half_turn))
    # Between the poses corners move on arcs, which bulge beyond their chords.
    bulge = outline.reach_m * (1.0 - turned_c) + 0.5 * np.hypot(half_x, half_y) * np.abs(half_turn)
    front = outline.front_m * turned_c + outline.half_m * turned_s + along + bulge
    back = outline.rear_m * turned_c + outline.half_m * turned_s + along + bulge
    side = (
        outline.half_m * turned_c + max(outline.front_m, outline.rear_m) * turned_s + aside + bulge
    )
    return Boxes(x_m[:-1] + half_x, y_m[:-1] + half_y, middle_rad, -back, front, -side, side)


def swept_on_arc(
    outline: Outline, pose: tuple[float, float, float], curvature_per_m: float, way_m: float
) -> Boxes:
    """Return rectangles as :func:`swept` for a body that goes on on a circle, backward if ``way_m``
    < 0; the first is the body."""
    turn = curvature_per_m * way_m
    steps = steps_for(outline, turn)
    half_turn, chord_m = 0.5 * turn / steps, abs(way_m) / steps
    turned_c, turned_s = cos(half_turn), abs(sin(half_turn))
    bulge = outline.reach_m * (1.0 - turned_c) + 0.25 * chord_m * abs(half_turn)
    along = outline.half_m * turned_s + 0.5 * chord_m + bulge
    side = outline.half_m * turned_c + max(outline.front_m, outline.rear_m) * turned_s + bulge
    middles = np.linspace(-0.5, steps - 0.5, steps + 1) * (way_m / steps)
    middles[0] = 0.0
    front, rear, half = (
        np.full(steps + 1, extent)
        for extent in (outline.front_m * turned_c + along, outline.rear_m * turned_c + along, side)
    )
    front[0], rear[0], half[0] = outline
    return Boxes(*on_arc(*pose, curvature_per_m, middles), -rear, front, -half, half)


class Fence:
    """All polygons of one fence. The vehicle must stay inside every keep-in polygon and outside
    every keep-out polygon.

    A body violates a polygon if one of its edges touches the body, or if the body lies wholly on
    the wrong side. Edges far away are left out by their bounding boxes, so that a tick costs
    microseconds even with thousands of corners.
    """

    def __init__(self, polygons: Sequence[Polygon]) -> None:
        self.polygons = tuple(polygons)
        none = np.empty((0, 2))
        rings = [np.array(polygon.corners) for polygon in self.polygons]
        self._from = np.concatenate([none, *rings]).T
        self._along = np.concatenate(
            [none, *(np.roll(ring, -1, axis=0) - ring for ring in rings)]
        ).T
        # Two equal corners form an edge of length zero; the floor keeps the division finite.
        self._square = np.maximum((self._along**2).sum(axis=0), 1e-30)
        self._to = np.concatenate([none, *(np.roll(ring, -1, axis=0) for ring in rings)]).T
        self._low, self._high = np.minimum(self._from, self._to), np.maximum(self._from, self._to)
        self._owner = np.repeat(
            np.arange(len(rings)), np.array([len(ring) for ring in rings], dtype=np.int64)
        )
        self._keep_out = np.array([polygon.keep_out for polygon in self.polygons], dtype=np.bool_)

    def clear_m(self, x_m: float, y_m: float) -> float:
        """Return the distance to the nearest edge; infinite without edges. All points within it lie
        on the same sides of all edges.

        The calculation is vectorised, for fences with thousands of corners.
        """
        return self._distance_m(x_m, y_m, slice(None))

    def wrong_side(self, x_m: float, y_m: float) -> Flags:
        """Return a flag per polygon (k,): the point is on its wrong side, by the even-odd rule."""
        near = np.flatnonzero((self._low[1] <= y_m) & (y_m < self._high[1]) & (x_m < self._high[0]))
        if len(near):
            (x1, y1), (x2, y2) = self._from[:, near], self._to[:, near]
            near = near[x_m < x1 + (y_m - y1) * (x2 - x1) / (y2 - y1)]
        inside = np.bincount(self._owner[near], minlength=len(self.polygons)) % 2 == 1
        wrong: Flags = inside == self._keep_out
        return wrong

    def violated(self, x_m: float, y_m: float) -> str:
        """Return a text that names the polygon whose wrong side the point is on; empty if none."""
        return self.named(self.wrong_side(x_m, y_m))

    def breached(self, boxes: Boxes) -> tuple[Flags, Flags]:
        """Return a flag per polygon (k,): the first of the rectangles (m,) violates it; one of them
        violates it."""
        x_m, y_m, yaw_rad, back_m, front_m, *_ = (float(column[0]) for column in boxes)
        middle_m = 0.5 * (back_m + front_m)
        now = self.wrong_side(x_m + middle_m * cos(yaw_rad), y_m + middle_m * sin(yaw_rad))
        later, near = now.copy(), self._near(boxes)
        if len(near):
            touches, owner = self._touches(boxes, near), self._owner[near]
            now[owner[touches[0]]] = True
            later[owner[touches.any(axis=0)]] = True
        return now, later

    def named(self, wrong: Flags) -> str:
        """Return a text that names the first flagged polygon; empty if none is."""
        if not wrong.any():
            return ""
        polygon = self.polygons[int(wrong.argmax())]
        side = "inside the keep-out zone" if polygon.keep_out else "outside the fence"
        return f"{side} {polygon.name}".rstrip()

    def depth_m(
        self, number: int, outline: Outline, x_m: float, y_m: float, yaw_rad: float
    ) -> float:
        """Return how deep a body violates a polygon: the largest distance of a corner of one from
        the edge of the other; 0 if none is on the wrong side."""
        edges = np.flatnonzero(self._owner == number)
        c, s = cos(yaw_rad), sin(yaw_rad)
        deepest_m = 0.0
        for ahead_m in (outline.front_m, -outline.rear_m):
            for left_m in (outline.half_m, -outline.half_m):
                corner = x_m + ahead_m * c - left_m * s, y_m + ahead_m * s + left_m * c
                if self.wrong_side(*corner)[number]:
                    deepest_m = max(deepest_m, self._distance_m(*corner, edges))
        dx, dy = self._from[0, edges] - x_m, self._from[1, edges] - y_m
        ahead, left = c * dx + s * dy, c * dy - s * dx
        within = np.minimum(
            np.minimum(outline.front_m - ahead, outline.rear_m + ahead),
            outline.half_m - np.abs(left),
        )
        return max(deepest_m, float(within.max(initial=0.0)))

    def first_breach(
        self, outline: Outline, x_m: Array, y_m: Array, yaw_rad: Array
    ) -> tuple[int, str] | None:
        """Return where a body first violates a polygon on its way along poses (n,), and which; None
        if it never does.

        It is tested everywhere between the poses, which follow one another as closely as those of a
        course.
        """
        start = float(x_m[0]), float(y_m[0]), float(yaw_rad[0])
        if wrong := self.named(self.breached(swept_on_arc(outline, start, 0.0, 0.0))[0]):
            return 0, wrong
        for first in range(0, len(x_m) - 1, BLOCK):
            part = slice(first, first + BLOCK + 1)
            boxes = swept(outline, x_m[part], y_m[part], yaw_rad[part])
            near = self._near(boxes)
            if not len(near):
                continue
            for k in np.flatnonzero(self._touches(boxes, near).any(axis=1)).tolist():
                step = slice(first + k, first + k + 2)
                _, later = self.breached(
                    swept(outline, *_finer(outline, x_m[step], y_m[step], yaw_rad[step]))
                )
                if later.any():
                    return first + k, self.named(later)
        return None

    def _distance_m(self, x_m: float, y_m: float, edges: Indices | slice) -> float:
        along = self._along[:, edges]
        to = np.array(((x_m,), (y_m,))) - self._from[:, edges]
        share = np.clip((to * along).sum(axis=0) / self._square[edges], 0.0, 1.0)
        return float(np.hypot(*(to - share * along)).min(initial=inf))

    def _near(self, boxes: Boxes) -> Indices:
        """Return the edges whose bounding box comes near one of the rectangles."""
        reach_m = boxes.reach_m
        near: Indices = np.flatnonzero(
            (self._low[0] <= boxes.x_m.max() + reach_m)
            & (self._high[0] >= boxes.x_m.min() - reach_m)
            & (self._low[1] <= boxes.y_m.max() + reach_m)
            & (self._high[1] >= boxes.y_m.min() - reach_m)
        )
        return near

    def _touches(self, boxes: Boxes, edges: Indices) -> Flags:
        """Return a flag per rectangle and edge (m, n): they touch. An edge is cut by the two slabs
        whose intersection the rectangle is (Liang and Barsky 1984)."""
        c, s = np.cos(boxes.yaw_rad)[:, None], np.sin(boxes.yaw_rad)[:, None]
        (from_x, from_y), (along_x, along_y) = self._from[:, edges], self._along[:, edges]
        dx, dy = from_x - boxes.x_m[:, None], from_y - boxes.y_m[:, None]
        # Both slabs together (2, m, n): ahead, and to the left.
        begin = np.array((c * dx + s * dy, c * dy - s * dx))
        step = np.array((c * along_x + s * along_y, c * along_y - s * along_x))
        to_low = np.array((boxes.back_m, boxes.right_m))[:, :, None] - TOUCH_M - begin
        to_high = np.array((boxes.front_m, boxes.left_m))[:, :, None] + TOUCH_M - begin
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            first, second = to_low / step, to_high / step
        enter, leave = np.minimum(first, second), np.maximum(first, second)
        level = step == 0.0
        if level.any():
            # An edge along a slab is in it all the way, or never.
            far = np.where((to_low[level] <= 0.0) & (to_high[level] >= 0.0), inf, -inf)
            enter[level], leave[level] = -far, far
        touching: Flags = np.maximum(enter.max(axis=0), 0.0) <= np.minimum(leave.min(axis=0), 1.0)
        return touching


def _finer(outline: Outline, x_m: Array, y_m: Array, yaw_rad: Array) -> tuple[Array, Array, Array]:
    """Return poses between two, so close that the rectangles of :func:`swept` are hardly wider than
    the swept area."""
    turn = float(np.remainder(yaw_rad[1] - yaw_rad[0] + pi, tau) - pi)
    share = np.linspace(0.0, 1.0, 1 + steps_for(outline, turn))
    return (
        x_m[0] + share * (x_m[1] - x_m[0]),
        y_m[0] + share * (y_m[1] - y_m[0]),
        yaw_rad[0] + share * turn,
    )


def steps_for(outline: Outline, turn_rad: float) -> int:
    """Return the number of steps into which a turn is divided for :func:`swept`."""
    return min(max(1, ceil(outline.reach_m * abs(turn_rad) / LOOSE_M)), MAX_STEPS)


def read_geojson(data: bytes, file_name: str, datum: Datum) -> Fence:
    """Return the fence of a GeoJSON file. Polygons with the property ``keep_out`` true are zones
    that must not be entered.

    Raises :class:`~vehicled.paths.errors.CourseError`, which names the place in the file and the
    cure.
    """
    polygons = [
        polygon
        for feature in features_of(data, file_name, KIND)
        for polygon in _polygons(file_name, feature, datum)
    ]
    if not polygons:
        raise CourseError(
            f"{file_name}: there is no polygon in it; draw the fence as a Polygon (property "
            "keep_out for zones)"
        )
    return Fence(polygons)


def _polygons(file_name: str, feature: GeoFeature, datum: Datum) -> list[Polygon]:
    kind, shapes = feature.geometry.get("type"), feature.geometry.get("coordinates")
    if kind not in ("Polygon", "MultiPolygon"):
        return []
    place, keep_out = f"{file_name}, {feature.place}", feature.properties.get("keep_out", False)
    if not isinstance(keep_out, bool):
        raise CourseError(f'{place}: property "keep_out" is {shown(keep_out)}; write true or false')
    if kind == "Polygon":
        shapes = [shapes]
    elif not isinstance(shapes, list):
        raise CourseError(
            f"{place}: a MultiPolygon has a list of polygons, found {shown(shapes)}; draw it again"
        )
    name = str(feature.properties.get("name", ""))[:60]
    return [polygon for rings in shapes for polygon in _rings(place, rings, keep_out, name, datum)]


def _rings(place: str, rings: object, keep_out: bool, name: str, datum: Datum) -> list[Polygon]:
    """Return the outer ring and the holes, with ``keep_out`` inverted for holes: a hole of a fence
    must not be entered."""
    if not isinstance(rings, list) or not rings:
        raise CourseError(
            f"{place}: a Polygon has a list of rings, found {shown(rings)}; draw it again"
        )
    found = []
    for index, positions in enumerate(rings):
        ring = f"{place} ring {index + 1}"
        corners = map_ring(ring, positions, datum)
        if not 3 <= len(corners) <= MAX_CORNERS:
            raise CourseError(f"{ring}: {len(corners)} corners; a ring has 3 to {MAX_CORNERS}")
        found.append(Polygon(tuple((x, y) for x, y in corners), keep_out is (index == 0), name))
    return found
