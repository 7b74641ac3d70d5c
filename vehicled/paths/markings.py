"""What a course is judged by beside its line: lanes that the body must keep within, boxes that the trace must meet."""

from math import cos, inf, sin
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from vehicled.paths.smoothing import Array


class Lane(Struct, frozen=True):
    """A straight lane between two rows of cones: the middle of its entry, its direction, length and width; m, rad, ENU."""

    name: str
    x_m: float
    y_m: float
    yaw_rad: float
    length_m: float
    width_m: float

    def corners(self) -> list[tuple[float, float]]:
        """Its four corners, right of the entry first, counter-clockwise."""
        c, s, half = cos(self.yaw_rad), sin(self.yaw_rad), 0.5 * self.width_m
        along = ((0.0, -half), (self.length_m, -half), (self.length_m, half), (0.0, half))
        return [(self.x_m + c * a - s * left, self.y_m + s * a + c * left) for a, left in along]


class Markings(Struct, frozen=True):
    """Of one course; empty for a course that has none."""

    lanes: tuple[Lane, ...] = ()
    boxes_m: tuple[tuple[float, float], ...] = ()
    """Middles of squares, sides north and east, that the reference point must come through."""
    box_side_m: float = 1.0
    from_m: float = 0.0
    """Arc length at which the manoeuvre itself begins; before, the vehicle gathers speed."""
    to_m: float | None = None
    """Where it ends; None: with the course."""

    def __bool__(self) -> bool:
        return bool(self.lanes or self.boxes_m)


NO_MARKINGS = Markings()


class Body(NamedTuple):
    """Rectangle of a vehicle about its reference point; m."""

    front_m: float
    rear_m: float
    width_m: float


class Passing:
    """Follows one drive through the markings of its course. A lane is kept when no corner of the body leaves it sideways between
    its ends and its end is passed; a box is met when the way between two poses crosses it."""

    def __init__(self, markings: Markings, body: Body) -> None:
        self._markings = markings
        half = 0.5 * body.width_m
        self._corners = {
            "front left": (body.front_m, half),
            "front right": (body.front_m, -half),
            "rear left": (-body.rear_m, half),
            "rear right": (-body.rear_m, -half),
        }
        self._room = [inf] * len(markings.lanes)
        self._worst = [""] * len(markings.lanes)
        self._furthest = [-inf] * len(markings.lanes)
        self._boxes: Array = np.array(markings.boxes_m, dtype=float).reshape(-1, 2)
        self._met = np.zeros(len(self._boxes), dtype=bool)
        self._before: tuple[float, float] | None = None

    def update(self, x_m: float, y_m: float, yaw_rad: float) -> None:
        """The reference point is here now. What is not finite is passed over."""
        if not np.isfinite(x_m + y_m + yaw_rad):
            return
        self._in_lanes(x_m, y_m, yaw_rad)
        if len(self._boxes):
            self._through_boxes(self._before or (x_m, y_m), (x_m, y_m))
        self._before = x_m, y_m

    @property
    def room_m(self) -> float:
        """Least distance of a corner from the side of its lane; negative outside. Infinite without lanes."""
        return min(self._room, default=inf)

    @property
    def failures(self) -> list[str]:
        """What was not kept or met, in words."""
        told = []
        for lane, room, furthest, worst in zip(self._markings.lanes, self._room, self._furthest, self._worst, strict=True):
            if room < 0.0:
                told.append(f"lane {lane.name} left by {-room:.2f} m ({worst})")
            elif furthest < lane.length_m:
                told.append(f"lane {lane.name} not driven through")
        missed = int((~self._met).sum())
        if missed:
            x, y = self._boxes[int(np.flatnonzero(~self._met)[0])]
            told.append(f"{missed} of {len(self._met)} waypoint boxes missed, the first at ({x:.1f}, {y:.1f}) m")
        return told

    @property
    def verdict(self) -> str:
        """Passed or failed, and by how much, in words; empty without markings."""
        if not self._markings:
            return ""
        failures = self.failures
        if failures:
            return "failed: " + "; ".join(failures)
        kept = [f"{len(self._room)} lanes kept, least room {self.room_m:.2f} m"] if self._room else []
        met = [f"{len(self._met)} waypoint boxes met"] if len(self._met) else []
        return "passed: " + "; ".join(kept + met)

    def _in_lanes(self, x_m: float, y_m: float, yaw_rad: float) -> None:
        c, s = cos(yaw_rad), sin(yaw_rad)
        for k, lane in enumerate(self._markings.lanes):
            lane_c, lane_s = cos(lane.yaw_rad), sin(lane.yaw_rad)
            for corner, (forward, left) in self._corners.items():
                dx, dy = x_m + c * forward - s * left - lane.x_m, y_m + s * forward + c * left - lane.y_m
                along, aside = lane_c * dx + lane_s * dy, lane_c * dy - lane_s * dx
                room = 0.5 * lane.width_m - abs(aside)
                if 0.0 <= along <= lane.length_m and room < self._room[k]:
                    self._room[k], self._worst[k] = room, f"{corner} corner, {along:.1f} m into it"
                if forward < 0.0 and along > self._furthest[k] and self._room[k] < inf:
                    self._furthest[k] = along

    def _through_boxes(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Slab test of one step of the way against every box that is not met yet."""
        half = 0.5 * self._markings.box_side_m
        low, high = np.zeros(len(self._boxes)), np.ones(len(self._boxes))
        for axis in (0, 1):
            begin, step = start[axis] - self._boxes[:, axis], end[axis] - start[axis]
            if step == 0.0:
                high = np.where(np.abs(begin) <= half, high, -1.0)
                continue
            first, second = (-half - begin) / step, (half - begin) / step
            low, high = np.maximum(low, np.minimum(first, second)), np.minimum(high, np.maximum(first, second))
        self._met |= low <= high
