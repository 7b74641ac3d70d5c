"""Pass criteria of a course besides its line: lanes that must contain the body, boxes that must
contain the trace."""

from collections.abc import Iterable
from math import cos, floor, inf, isfinite, sin
from typing import NamedTuple

from msgspec import Struct


class Lane(Struct, frozen=True):
    """A straight lane between two rows of cones: the middle of its entry, its direction, length and
    width; m, rad, ENU."""

    name: str
    x_m: float
    y_m: float
    yaw_rad: float
    length_m: float
    width_m: float

    def corners(self) -> list[tuple[float, float]]:
        """Return the four corners, right of the entry first, counter-clockwise."""
        c, s, half = cos(self.yaw_rad), sin(self.yaw_rad), 0.5 * self.width_m
        along = ((0.0, -half), (self.length_m, -half), (self.length_m, half), (0.0, half))
        return [(self.x_m + c * a - s * left, self.y_m + s * a + c * left) for a, left in along]


class Markings(Struct, frozen=True):
    """Lanes and boxes of one course; empty if it has none."""

    lanes: tuple[Lane, ...] = ()
    boxes_m: tuple[tuple[float, float], ...] = ()
    """Middles of squares, sides north and east, that the reference point must come through."""
    box_side_m: float = 1.0
    from_m: float = 0.0
    """Arc length at which the manoeuvre itself begins; before, the vehicle gathers speed."""
    to_m: float | None = None
    """Arc length of the end; None: the end of the course."""

    def __bool__(self) -> bool:
        return bool(self.lanes or self.boxes_m)


NO_MARKINGS = Markings()


class BodyRectangle(NamedTuple):
    """Rectangle of a vehicle about its reference point; m."""

    front_m: float
    rear_m: float
    width_m: float


class LanePassage:
    """Follows one drive through the markings of its course. A lane is kept when no corner of the
    body leaves it sideways between its ends and its end is passed; a box is met when the way
    between two poses crosses it."""

    def __init__(self, markings: Markings, body: BodyRectangle) -> None:
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
        self._met = [False] * len(markings.boxes_m)
        self._cells: dict[tuple[int, int], list[int]] = {}
        for k, (x, y) in enumerate(markings.boxes_m):
            self._cells.setdefault(self._cell(x, y), []).append(k)
        self._before: tuple[float, float] | None = None

    def update(self, x_m: float, y_m: float, yaw_rad: float) -> None:
        """Update with the current position of the reference point; values that are not finite are
        ignored."""
        if not isfinite(x_m + y_m + yaw_rad):
            return
        self._in_lanes(x_m, y_m, yaw_rad)
        if self._met:
            self._through_boxes(self._before or (x_m, y_m), (x_m, y_m))
        self._before = x_m, y_m

    @property
    def room_m(self) -> float:
        """Return the smallest distance of a corner from the side of its lane; negative outside.
        Infinite without lanes."""
        return min(self._room, default=inf)

    @property
    def failures(self) -> list[str]:
        """Return texts about the violated lanes and missed boxes."""
        violations = []
        for lane, room, furthest, worst in zip(
            self._markings.lanes, self._room, self._furthest, self._worst, strict=True
        ):
            if room < 0.0:
                violations.append(f"lane {lane.name} left by {-room:.2f} m ({worst})")
            elif furthest < lane.length_m:
                violations.append(f"lane {lane.name} not driven through")
        missed = self._met.count(False)
        if missed:
            x, y = self._markings.boxes_m[self._met.index(False)]
            violations.append(
                f"{missed} of {len(self._met)} waypoint boxes missed, the first at ({x:.1f}, "
                f"{y:.1f}) m"
            )
        return violations

    @property
    def passed(self) -> bool | None:
        """True if all lanes were kept and all boxes met; None without markings."""
        return not self.failures if self._markings else None

    @property
    def verdict(self) -> str:
        """Return a text for the result and its margin; empty without markings."""
        if not self._markings:
            return ""
        failures = self.failures
        if failures:
            return "failed: " + "; ".join(failures)
        kept = (
            [f"{len(self._room)} lanes kept, least room {self.room_m:.2f} m"] if self._room else []
        )
        met = [f"{len(self._met)} waypoint boxes met"] if len(self._met) else []
        return "passed: " + "; ".join(kept + met)

    def _in_lanes(self, x_m: float, y_m: float, yaw_rad: float) -> None:
        c, s = cos(yaw_rad), sin(yaw_rad)
        corners = [
            (name, f, x_m + c * f - s * left, y_m + s * f + c * left)
            for name, (f, left) in self._corners.items()
        ]
        for k, lane in enumerate(self._markings.lanes):
            lane_c, lane_s = cos(lane.yaw_rad), sin(lane.yaw_rad)
            for corner, forward, x, y in corners:
                dx, dy = x - lane.x_m, y - lane.y_m
                along = lane_c * dx + lane_s * dy
                if along < 0.0:
                    continue
                if along <= lane.length_m:
                    room = 0.5 * lane.width_m - abs(lane_c * dy - lane_s * dx)
                    if room < self._room[k]:
                        self._room[k] = room
                        self._worst[k] = f"{corner} corner, {along:.1f} m into it"
                if forward < 0.0 and along > self._furthest[k] and self._room[k] < inf:
                    self._furthest[k] = along

    def _cell(self, x_m: float, y_m: float) -> tuple[int, int]:
        """Return the cell of a point in a grid of box width: boxes that contain it are centred in
        this cell or a neighbour."""
        side_m = self._markings.box_side_m
        return floor(x_m / side_m), floor(y_m / side_m)

    def _through_boxes(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Test one step of the path against every near box (slab test)."""
        (i0, j0), (i1, j1) = self._cell(*start), self._cell(*end)
        rows = range(min(i0, i1) - 1, max(i0, i1) + 2)
        columns = range(min(j0, j1) - 1, max(j0, j1) + 2)
        near: Iterable[int] = range(len(self._met))
        # A vehicle that was put elsewhere crosses more cells than there are boxes.
        if len(rows) * len(columns) < len(self._met):
            near = [k for i in rows for j in columns for k in self._cells.get((i, j), ())]
        for k in near:
            if not self._met[k]:
                self._met[k] = self._crosses(self._markings.boxes_m[k], start, end)

    def _crosses(
        self, box: tuple[float, float], start: tuple[float, float], end: tuple[float, float]
    ) -> bool:
        half = 0.5 * self._markings.box_side_m
        low, high = 0.0, 1.0
        for middle, here, there in zip(box, start, end, strict=True):
            begin, step = here - middle, there - here
            if step == 0.0:
                if abs(begin) > half:
                    return False
                continue
            first, second = (-half - begin) / step, (half - begin) / step
            low, high = max(low, min(first, second)), min(high, max(first, second))
        return low <= high
