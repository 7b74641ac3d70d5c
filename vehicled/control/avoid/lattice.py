"""Lattice in the Frenet frame of the course, and the cheapest path through it by dynamic
programming.

Werling, Ziegler, Kammel and Thrun 2010, "Optimal trajectory generation for dynamic street scenarios
in a Frenet frame", plan the offset from the course. Here the offsets are a state lattice as in
Pivtoraiko, Knepper and Kelly 2009, so that one plan may change side several times. A state at
station i is the offset in cells and its change k per station; a step changes k by at most
``MOST_BEND``. The cells are control points of a cubic B-spline, whose second derivative at the
knots is that change: the length of a step limits curvature and its rate.

A blocked edge ends a path: the later, the better. So there is a path even where none is free, with
the distance up to which it is.
"""

from math import ceil, inf, sqrt
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from vehicled.control.avoid.params import AvoidParams
from vehicled.control.avoid.sight import SeenPoints
from vehicled.core.arrays import Array
from vehicled.core.vehicle import Outline
from vehicled.paths.course import Course
from vehicled.paths.lateral_offset import LateralOffset, LateralSpline

Mask = npt.NDArray[np.bool_]
Singles = npt.NDArray[np.float32]

MOST_BEND = 2
"""Largest change of the slope from one step to the next, in cells."""
MOST_SLOPE = 0.6
"""Largest slope of the path against the course."""
LEAST_STATIONS = 12
BLOCKED = 1e6
"""Cost of a blocked edge, for each station that is left."""
TABLE_STEP_M = 0.05
LEAST_SCALE = 0.2
"""Lower bound of the length of a path beside the course over that of the course, near the centre of
a bend."""
STATIONS_BEFORE = 4
"""Places between the vehicle and the beginning of a plan at which moving bodies are looked for."""
MERGE_STATIONS = 4
"""Stations over which a plan comes from the true offset to the lattice."""
BEHIND_STATIONS = 4
"""Stations of the last plan that stay in the next one, behind the vehicle."""
STRAIGHT = 0.01
"""Slope below which a vehicle on its course needs no path back to it."""
NEAR_LEVELS = (1.0, 0.15), (0.5, 0.4), (0.2, 0.7), (0.0, 1.0)
"""Clearances beyond the required one, over the comfortable one, and the lack of clearance within
each."""
POINTED = 2.0
WAVER_RAD = 0.03
"""Wheel angle by which the steering corrects along a path, rad."""
GROWTH_MPS = 0.1
"""Clearance that is added for each second that a moving body is predicted, m/s."""
UNCERTAIN_WIDTHS = 0.5
"""Largest of this clearance, in widths of the vehicle."""
PREDICT_WIDTHS = 1.5
"""Way over which a moving body is predicted at least, in widths of the vehicle: a slow one changes
little in the time in which it is met."""
LATE_RATIO = 1.6
"""Time after which the vehicle may come to a place, over the planned one: near to something it is
slower than its plan, and what it wanted to pass before would then be in its way."""


class CourseTable:
    """Course as columns over the arc length in equal steps, continuous over the end of a lap."""

    def __init__(self, course: Course, speed_mps: Array) -> None:
        """``speed_mps`` (n,): speed that is driven at each sample."""
        s, yaw = course.s_m, np.unwrap(course.yaw_rad)
        self.closed, self.length_m = course.closed, course.length_m
        columns = [
            course.x_m,
            course.y_m,
            np.cos(yaw),
            np.sin(yaw),
            course.curvature_per_m,
            np.abs(speed_mps),
        ]
        if course.closed:
            s = np.append(s, course.length_m)
            columns = [np.append(column, column[0]) for column in columns]
        self._last = max(2, round(course.length_m / TABLE_STEP_M))
        self._per_m = self._last / course.length_m
        at = np.arange(self._last + 1) / self._per_m
        self._columns = np.stack([np.interp(at, s, column) for column in columns])

    def at(self, s_m: Array) -> Array:
        """Return x, y, cosine and sine of the yaw, curvature and speed (6, n) at arc lengths. An
        open course goes on straight."""
        place = (s_m % self.length_m if self.closed else s_m) * self._per_m
        index = np.clip(place.astype(np.int64), 0, self._last - 1)
        fraction = np.clip(place - index, 0.0, 1.0)
        low = self._columns[:, index]
        found: Array = low + fraction * (self._columns[:, index + 1] - low)
        if not self.closed:
            beyond = np.maximum(s_m - self.length_m, 0.0)
            found[0] += beyond * found[2]
            found[1] += beyond * found[3]
            found[4, beyond > 0.0] = 0.0
        return found


class LatticeLimits(NamedTuple):
    """Vehicle and limits of a plan."""

    outline: Outline
    spread_m: float
    side_m: float
    gap_m: float
    """Clearances beside and before the body that the obstacle stop asks for."""
    stop_mps2: float
    brake_mps2: float
    """Decelerations of a controlled stop, and of the full brake."""
    reaction_s: float
    """Time until the obstacle stop brakes."""
    max_curvature_per_m: float
    max_lateral_mps2: float
    wheelbase_m: float
    rate_radps: float

    def stop_m(self, speed_mps: float) -> float:
        """Return the distance before the body in which the obstacle stop lets nothing be, at a
        speed."""
        return self.gap_m + speed_mps * (self.reaction_s + speed_mps / (2.0 * self.stop_mps2))

    def pointed_m(self, speed_mps: float) -> float:
        """Return the distance before the body in which the wheels may point at nothing: that of an
        emergency stop."""
        return self.side_m + speed_mps * (self.reaction_s + speed_mps / (2.0 * self.brake_mps2))


class LatticeStart(NamedTuple):
    """Place and speed at which a plan begins."""

    s_m: float
    offset_m: float
    slope: float
    speed_mps: float
    after_s: float = 0.0
    """Time until the vehicle is there, s."""


class PathPlan(NamedTuple):
    """A path beside the course, and what it meets."""

    path: LateralSpline | None
    """None: the course itself."""
    s_m: Array
    """Arc lengths (n,) at the middle of each step."""
    near: Array
    """Lack of clearance (n,) beside the body: 0 comfortable, 1 the required one; ``POINTED`` where
    the wheels point at something within the distance of an emergency stop."""
    bend_per_m: Array
    """Curvature of the path (n,)."""
    free_m: float
    """Arc length up to which the path is free; infinite if it is free as far as the plan looks."""
    cost: float
    step_m: float
    """Length of a step of the lattice: within it nothing is looked at."""


class _Way(NamedTuple):
    """Tables of one plan."""

    middles_m: Array
    knots_m: Array
    step_m: float
    near: Array
    headed: Array
    edge: Array
    slopes: npt.NDArray[np.int64]
    course: Array
    """Columns of the course at the middles."""


class _Pairs(NamedTuple):
    """Pairs of a station and a point near it; columns have the shape (pairs, 1) or (pairs,
    slopes)."""

    station: npt.NDArray[np.int64]
    ahead_m: Singles
    left_m: Singles
    uncertain_m: Singles
    before_m: Singles
    """Distance before the body that must be free as well."""
    tangent: Singles
    slopes: npt.NDArray[np.int64]
    stations: int


class Lattice:
    """Plans paths along one course. Holds no state but the course: the same input gives the same
    plan."""

    def __init__(self, params: AvoidParams, course: CourseTable, limits: LatticeLimits) -> None:
        self._params, self._course, self._limits = params, course, limits
        outline = limits.outline
        self._width_m, self._length_m = 2.0 * outline.half_m, outline.front_m + outline.rear_m
        self._count = max(3, ceil(limits.spread_m / (self._width_m / params.cells)))
        """Cells on either side of the course."""
        self._cell_m = limits.spread_m / self._count
        self._required_m = limits.side_m + params.clearance_share * self._width_m
        self._comfort_m = params.comfort_share * self._width_m

    def plan(
        self,
        start: LatticeStart,
        speed_mps: float,
        obstacles: SeenPoints,
        present: LateralSpline | None,
    ) -> PathPlan:
        """Return the best path from a place. ``speed_mps``: speed at which it will be driven."""
        obstacles = obstacles.with_late(LATE_RATIO)
        step_m, stations = self._steps(max(speed_mps, start.speed_mps))
        cell, count = self._cell_m, self._count
        most = max(2, ceil(MOST_SLOPE * step_m / cell))
        slopes = np.arange(-most, most + 1)
        knots: Array = start.s_m + step_m * np.arange(stations + 1, dtype=np.float64)
        middles: Array = knots[:-1] + 0.5 * step_m
        course = self._course.at(middles)
        curvature = self._course.at(knots)[4]
        mean_mps = max(0.5 * (speed_mps + max(start.speed_mps, 0.0)), 0.3 * speed_mps, 0.05)
        time_s: Array = (
            start.after_s + (np.arange(stations, dtype=np.float64) + 0.5) * step_m / mean_mps
        )
        blocked, near, headed = self._tables(
            course, curvature, slopes, step_m, obstacles, time_s, speed_mps, start.speed_mps
        )
        edge = self._edge_costs(
            near, slopes, step_m, None if present is None else present.at(middles)
        )
        lowest, highest = self._bends(curvature, step_m, speed_mps)
        go = self._cost_to_go(edge, blocked, headed, slopes, lowest, highest)
        first = int(np.clip(round(start.offset_m / cell), -count, count))
        before = start.slope if present is None else float(present.slope(start.s_m - 0.5 * step_m))
        slope = int(np.clip(round(before * step_m / cell), -most, most))
        cells, path_slopes, cost = self._walk(
            go, blocked, headed, slopes, (lowest, highest), first + count, slope + most
        )
        way = _Way(middles, knots, step_m, near, headed, edge, slopes, course)
        # What stays beside the course for good is no plan: its way back is never better enough.
        kept = (
            self._judged(present, way, obstacles, time_s, speed_mps)
            if present is not None and not present.settled(start.s_m)
            else None
        )
        if (
            kept is not None
            and kept.free_m == inf
            and kept.cost <= cost + self._params.keep_ratio * max(cost, 1.0)
        ):
            return kept
        at = cells[:-1]
        along, hit = np.arange(stations), blocked[np.arange(stations), path_slopes, at]
        free_m = float(middles[int(np.argmax(hit))]) if hit.any() else inf
        turns = (
            np.clip(np.diff(path_slopes, prepend=slope + most), -MOST_BEND, MOST_BEND) + MOST_BEND
        )
        lack = np.where(
            headed[turns, along, path_slopes, at] > 0.0, POINTED, near[along, path_slopes, at]
        )
        if (
            not (cells - count).any()
            and abs(start.offset_m) < 0.25 * cell
            and abs(start.slope) < STRAIGHT
        ):
            return PathPlan(None, middles, lack, course[4], free_m, cost, step_m)
        path = self._spline(
            start, step_m, (cells - count).astype(np.float64) * cell, slope * cell, present
        )
        return PathPlan(
            path, middles, lack, course[4] + path.shape(middles)[2], free_m, cost, step_m
        )

    def met_m(
        self, here_m: float, start: LatticeStart, present: LateralSpline | None, moving: SeenPoints
    ) -> float:
        """Return the arc length at which the vehicle meets what moves before a plan begins;
        infinite if it meets nothing."""
        part = (np.arange(STATIONS_BEFORE) + 0.5) / STATIONS_BEFORE
        s_m = here_m + part * (start.s_m - here_m)
        offset, slope = np.zeros(len(s_m)), np.zeros(len(s_m))
        if present is not None:
            offset, slope, _ = present.shape(s_m)
        hit = self._meets(
            self._course.at(s_m), offset, slope, moving, part * start.after_s, start.speed_mps
        )
        return float(s_m[int(np.argmax(hit))]) if hit.any() else inf

    def step_m(self, speed_mps: float) -> float:
        """Return the length of a step of plans at a speed, m."""
        return self._steps(speed_mps)[0]

    def _steps(self, speed_mps: float) -> tuple[float, int]:
        """Return length and number of the steps: one cell of change must be within curvature,
        lateral limit and steering rate."""
        p, limits, v = self._params, self._limits, max(speed_mps, 0.1)
        tightest = p.turn_share * min(limits.max_curvature_per_m, limits.max_lateral_mps2 / (v * v))
        by_bend = sqrt(MOST_BEND * self._cell_m / tightest)
        by_rate = (MOST_BEND * self._cell_m * limits.wheelbase_m * v / limits.rate_radps) ** (
            1.0 / 3.0
        )
        step_m = max(by_bend, by_rate)
        horizon_m = max(p.horizon_s * v, p.horizon_lengths * self._length_m)
        return step_m, int(np.clip(ceil(horizon_m / step_m), LEAST_STATIONS, p.stations))

    def _bends(
        self, curvature: Array, step_m: float, speed_mps: float
    ) -> tuple[list[int], list[int]]:
        """Return the lowest and highest change of slope at each knot: less where the course itself
        bends, never none."""
        limits, p = self._limits, self._params
        unit = self._cell_m / (step_m * step_m)
        tightest = max(p.turn_share, 0.9) * limits.max_curvature_per_m
        low = np.minimum(np.ceil((-tightest - curvature) / unit), 0.0).clip(-MOST_BEND)
        high = np.maximum(np.floor((tightest - curvature) / unit), 0.0).clip(None, MOST_BEND)
        return low.astype(np.int64).tolist(), high.astype(np.int64).tolist()

    def _tables(
        self,
        course: Array,
        curvature: Array,
        slopes: npt.NDArray[np.int64],
        step_m: float,
        obstacles: SeenPoints,
        time_s: Array,
        speed_mps: float,
        start_mps: float,
    ) -> tuple[Mask, Array, Array]:
        """Return blocked edges and the lack of clearance (stations, slopes, cells), for the body at
        the middle of each step; and the cost (bends, stations, slopes, cells) of an edge whose
        wheels point at something within the distance of an emergency stop.

        An obstacle point blocks an interval of offsets, which follows from the two strips of the
        rectangle.
        """
        shape = course.shape[1], len(slopes), 2 * self._count + 1
        if not len(obstacles.x_m):
            return (
                np.zeros(shape, dtype=np.bool_),
                np.zeros(shape),
                np.zeros((2 * MOST_BEND + 1, *shape)),
            )
        limits = self._limits
        ahead_s, uncertain_m, known = self._ahead_s(obstacles, time_s)
        before_m = self._before_m(obstacles, speed_mps)
        dx = obstacles.x_m + obstacles.vx_mps * ahead_s - course[0][:, None]
        dy = obstacles.y_m + obstacles.vy_mps * ahead_s - course[1][:, None]
        c, s = course[2][:, None], course[3][:, None]
        ahead, left = c * dx + s * dy, c * dy - s * dx
        near = np.zeros(shape)
        blocked = np.zeros(shape, dtype=np.bool_)
        reach_m = self._required_m + self._comfort_m
        pairs = self._pairs(
            ahead, left, known, course, slopes, step_m, reach_m, uncertain_m, before_m
        )
        if pairs is not None:
            for share, value in NEAR_LEVELS:
                blocked = self._hit(pairs, self._required_m + share * self._comfort_m, None)
                near[blocked] = value
        headed = np.zeros((2 * MOST_BEND + 1, *shape))
        pointed_m = limits.pointed_m(max(speed_mps, start_mps))
        pairs = self._pairs(
            ahead,
            left,
            known,
            course,
            slopes[::2],
            step_m,
            self._required_m,
            uncertain_m,
            np.full(len(obstacles.x_m), pointed_m),
        )
        if pairs is not None:
            # The further ahead, the more a small turn of the wheels moves their arc aside.
            wavers = (
                np.float32(0.5 * WAVER_RAD / limits.wheelbase_m)
                * np.maximum(pairs.ahead_m, 0.0) ** 2
            )
            pairs = pairs._replace(uncertain_m=pairs.uncertain_m + wavers)
        if pairs is not None:
            unit = self._cell_m / (step_m * step_m)
            cost = self._params.headed_weight * step_m / self._length_m
            for number in (0, MOST_BEND, 2 * MOST_BEND):
                bend = curvature + (number - MOST_BEND) * unit
                hit = self._hit(pairs, self._required_m, bend)
                # Between two slopes that of the lower one counts.
                headed[number] = cost * np.repeat(hit, 2, axis=1)[:, : len(slopes)]
            for number in range(1, MOST_BEND):
                part = number / MOST_BEND
                headed[number] = (1.0 - part) * headed[0] + part * headed[MOST_BEND]
                headed[-1 - number] = (1.0 - part) * headed[-1] + part * headed[MOST_BEND]
        return blocked, near, headed

    def _pairs(
        self,
        ahead: Array,
        left: Array,
        known: Mask,
        course: Array,
        slopes: npt.NDArray[np.int64],
        step_m: float,
        margin_m: float,
        uncertain_m: Array,
        before_m: Array,
    ) -> "_Pairs | None":
        """Return the pairs of station and point that may touch each other; None without any.
        ``margin_m``: margin of the body; ``before_m`` (points,): distance before it as well."""
        reach_m = self._limits.outline.reach_m + margin_m
        near = (
            (ahead >= -reach_m)
            & (ahead <= reach_m + before_m)
            & (np.abs(left) <= self._limits.spread_m + reach_m + before_m)
            & known
        )
        station, point = np.nonzero(near)
        if not len(station):
            return None
        # Half the bits are a quarter of a millimetre at 1 km, and twice as fast.
        px, py = (column[station, point].astype(np.float32)[:, None] for column in (ahead, left))
        scale = np.maximum(
            1.0 - course[4][station].astype(np.float32)[:, None] * py, np.float32(LEAST_SCALE)
        )
        tangent = (slopes * (self._cell_m / step_m)).astype(np.float32) / scale
        return _Pairs(
            station,
            px,
            py,
            uncertain_m[station, point].astype(np.float32)[:, None],
            before_m[point].astype(np.float32)[:, None],
            tangent,
            slopes,
            len(ahead),
        )

    def _hit(self, pairs: "_Pairs", margin_m: float, bend_per_m: Array | None) -> Mask:
        """Return the edges (stations, slopes, cells) whose body with a margin holds one of the
        points.

        With ``bend_per_m`` (stations,) the body is swept along arcs: what stands ahead is then as
        far aside as from the tangent, less the bend of the arc.
        """
        outline, count, cell = self._limits.outline, self._count, self._cell_m
        px, py, tangent, slopes = pairs.ahead_m, pairs.left_m, pairs.tangent, pairs.slopes
        if bend_per_m is not None:
            py = (
                py
                - (0.5 * bend_per_m)[pairs.station].astype(np.float32)[:, None]
                * np.maximum(px, 0.0) ** 2
            )
        length = np.sqrt(1.0 + tangent * tangent)
        margin = np.float32(margin_m) + pairs.uncertain_m
        # Across: |q - tangent px| <= half; along: -rear <= px + tangent q <= front, where q is the
        # distance left of the offset.
        across, half = tangent * px, (outline.half_m + margin) * length
        low, high = across - half, across + half
        back = -(outline.rear_m + margin) * length - px
        front = (outline.front_m + pairs.before_m + margin) * length - px
        steep = np.abs(tangent) > 1e-6
        safe = np.where(steep, tangent, np.float32(1.0))
        one, other = back / safe, front / safe
        low = np.where(steep, np.maximum(low, np.minimum(one, other)), low)
        high = np.where(steep, np.minimum(high, np.maximum(one, other)), high)
        # The offset at the middle of a step is half a slope further than at its first knot.
        per_cell, shift = np.float32(1.0 / cell), (count - 0.5 * slopes).astype(np.float32)
        first = np.ceil((py - high) * per_cell + shift)
        last = np.floor((py - low) * per_cell + shift)
        valid = (
            (steep | ((back <= 0.0) & (front >= 0.0)))
            & (first <= 2 * count)
            & (last >= 0)
            & (last >= first)
            & (low < high)
        )
        size = 2 * count + 2
        row = (pairs.station[:, None] * len(slopes) + np.arange(len(slopes)))[valid] * size
        begin = row + np.maximum(first[valid], 0.0).astype(np.int64)
        end = row + np.minimum(last[valid], 2 * count).astype(np.int64) + 1
        total = pairs.stations * len(slopes) * size
        change = np.bincount(begin, minlength=total) - np.bincount(end, minlength=total)
        covered: Mask = (
            np.cumsum(change.reshape(pairs.stations, len(slopes), size), axis=2)[:, :, :-1] > 0
        )
        return covered

    def _edge_costs(
        self, near: Array, slopes: npt.NDArray[np.int64], step_m: float, present_m: Array | None
    ) -> Array:
        """Return the cost (stations, slopes, cells) of an edge, without its bend. ``present_m``
        (stations,): offset of the present path."""
        p = self._params
        offsets = (np.arange(-self._count, self._count + 1) + 0.5 * slopes[:, None]) * (
            self._cell_m / self._width_m
        )
        beside = p.offset_weight * np.abs(offsets) + p.near_weight * near * near
        if present_m is not None:
            # Between the course and the present path lies the way back, which is free.
            present = (present_m / self._width_m)[:, None, None]
            beside += p.change_weight * np.maximum(
                np.maximum(np.minimum(present, 0.0) - offsets, offsets - np.maximum(present, 0.0)),
                0.0,
            )
        cost: Array = (step_m / self._length_m) * beside
        return cost

    def _cost_to_go(
        self,
        edge: Array,
        blocked: Mask,
        headed: Array,
        slopes: npt.NDArray[np.int64],
        lowest: list[int],
        highest: list[int],
    ) -> list[Array]:
        """Return of each station the cost (slopes, cells) of an edge with all that follows it, by
        backward recursion."""
        stations, rows, cells = edge.shape
        target = np.arange(cells) + slopes[:, None]
        outside = (target < 0) | (target >= cells)
        flat = np.arange(rows)[:, None] * cells + np.clip(target, 0, cells - 1)
        after, found = np.zeros((rows, cells)), list[Array]()
        for i in range(stations - 1, -1, -1):
            go = edge[i] + after.ravel()[flat]
            go[blocked[i] | outside] = BLOCKED * (stations - i)
            found.append(go)
            if i == 0:
                break
            after = go + headed[MOST_BEND, i]
            for bend in range(lowest[i], highest[i] + 1):
                if bend:
                    way = go + (
                        headed[bend + MOST_BEND, i] + self._params.bend_weight * bend * bend
                    )
                    low, high = max(bend, 0), rows + min(bend, 0)
                    np.minimum(
                        after[low - bend : high - bend],
                        way[low:high],
                        out=after[low - bend : high - bend],
                    )
        return found[::-1]

    def _walk(
        self,
        go: list[Array],
        blocked: Mask,
        headed: Array,
        slopes: npt.NDArray[np.int64],
        bends: tuple[list[int], list[int]],
        cell: int,
        row: int,
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], float]:
        """Return cells (n + 1,) and rows of the slopes (n,) of the cheapest path from a state, and
        its cost."""
        lowest, highest = bends
        rows, cells = blocked.shape[1:]
        at, ways, cost = [cell], list[int](), inf
        for i in range(len(go)):
            choices = range(max(row + lowest[i], 0), min(row + highest[i], rows - 1) + 1)
            costs = [
                float(go[i][k, cell] + headed[k - row + MOST_BEND, i, k, cell])
                + self._params.bend_weight * (k - row) ** 2
                for k in choices
            ]
            best = min(range(len(costs)), key=costs.__getitem__)
            if i == 0:
                cost = costs[best]
            row = choices[best]
            ways.append(row)
            cell = min(max(cell + int(slopes[row]), 0), cells - 1)
            at.append(cell)
            if blocked[i, row, at[-2]]:
                break
        ways += [(rows - 1) // 2] * (len(go) - len(ways))
        at += [at[-1]] * (len(go) + 1 - len(at))
        return np.array(at), np.array(ways), cost

    def _judged(
        self,
        path: LateralSpline,
        way: "_Way",
        obstacles: SeenPoints,
        time_s: Array,
        speed_mps: float,
    ) -> PathPlan | None:
        """Return a plan that keeps a path; None if the lattice does not reach as far."""
        offset, slope, second = path.shape(way.middles_m)
        most, cell = (len(way.slopes) - 1) // 2, self._cell_m
        which = np.rint(slope * way.step_m / cell).astype(np.int64)
        # An edge is counted by the cell at its first knot.
        at = np.rint(offset / cell - 0.5 * which).astype(np.int64) + self._count
        if np.abs(which).max() > most or at.min() < 0 or at.max() > 2 * self._count:
            return None
        along, rows = np.arange(len(at)), which + most
        bends = path.shape(way.knots_m)[2] * (way.step_m * way.step_m / cell)
        turns = np.clip(np.rint(bends[:-1]).astype(np.int64), -MOST_BEND, MOST_BEND) + MOST_BEND
        cost = float((way.edge[along, rows, at] + way.headed[turns, along, rows, at]).sum())
        cost += self._params.bend_weight * float((bends * bends).sum())
        # Not by the cells: of a long body, half a step of slope takes more room than a passage has
        # to spare.
        hit = self._meets(way.course, offset, slope, obstacles, time_s, speed_mps)
        free_m = float(way.middles_m[int(np.argmax(hit))]) if hit.any() else inf
        lack = np.where(
            way.headed[turns, along, rows, at] > 0.0, POINTED, way.near[along, rows, at]
        )
        return PathPlan(path, way.middles_m, lack, way.course[4] + second, free_m, cost, way.step_m)

    def _meets(
        self,
        course: Array,
        offset: Array,
        slope: Array,
        obstacles: SeenPoints,
        time_s: Array,
        speed_mps: float,
    ) -> Mask:
        """Return a mask of the places (n,) at which the body on a path comes nearer to a point than
        the obstacle stop allows."""
        x, y, yaw_c, yaw_s, curvature, _ = course
        x, y = x - offset * yaw_s, y + offset * yaw_c
        tangent = slope / np.maximum(1.0 - curvature * offset, LEAST_SCALE)
        cosine = 1.0 / np.sqrt(1.0 + tangent * tangent)
        c, s = (yaw_c - yaw_s * tangent) * cosine, (yaw_s + yaw_c * tangent) * cosine
        ahead_s, grown, known = self._ahead_s(obstacles, time_s)
        dx = obstacles.x_m + obstacles.vx_mps * ahead_s - x[:, None]
        dy = obstacles.y_m + obstacles.vy_mps * ahead_s - y[:, None]
        ahead, left = c[:, None] * dx + s[:, None] * dy, np.abs(c[:, None] * dy - s[:, None] * dx)
        outline, margin = self._limits.outline, self._limits.side_m + grown
        inside = (
            (left <= outline.half_m + margin)
            & (ahead <= outline.front_m + margin + self._before_m(obstacles, speed_mps))
            & (ahead >= -outline.rear_m - margin)
        )
        hit: Mask = (inside & known).any(axis=1)
        return hit

    def _ahead_s(self, obstacles: SeenPoints, time_s: Array) -> tuple[Array, Array, Mask]:
        """Return the times (n, points) by which the points are predicted, 0 for what stands, the
        clearance that they add, and a mask of the predictions that count."""
        ahead_s = np.where(obstacles.moving, time_s[:, None] * obstacles.late, 0.0)
        paces = np.maximum(np.hypot(obstacles.vx_mps, obstacles.vy_mps), 1e-6)
        known = ahead_s <= np.maximum(
            self._params.predict_s, PREDICT_WIDTHS * self._width_m / paces
        )
        grown_m = np.minimum(GROWTH_MPS * ahead_s, UNCERTAIN_WIDTHS * self._width_m)
        return ahead_s, grown_m, known

    def _before_m(self, obstacles: SeenPoints, speed_mps: float) -> Array:
        """Return the distance (points,) before the body that must be free as well: that of a stop
        before what moves, as the obstacle stop does not know where it will be."""
        return np.where(obstacles.moving, self._limits.stop_m(speed_mps), 0.0)

    def _spline(
        self,
        start: LatticeStart,
        step_m: float,
        cells_m: Array,
        row_m: float,
        present: LateralSpline | None,
    ) -> LateralSpline:
        """Return the path through the cells that goes on from the present path. ``row_m``: change
        of the offset in the step before.

        Control points before the start are those of the present path, so that nothing jumps where
        the vehicle is.
        """
        behind = start.s_m - step_m * np.arange(BEHIND_STATIONS + 1, -1, -1)
        if present is not None:
            value, _, second = present.shape(behind)
            earlier = value - second * (step_m * step_m / 6.0)
        else:
            earlier = start.offset_m + start.slope * (behind - start.s_m)
        # What the rounding to cells has left goes away along a quintic.
        slope = (earlier[-1] - earlier[-2] - row_m) / step_m
        rest = LateralOffset(
            0.0, MERGE_STATIONS * step_m, float(earlier[-1] - cells_m[0]), float(slope), 0.0
        )
        controls = cells_m + rest.at(step_m * np.arange(len(cells_m)))
        lap_m = self._course.length_m if self._course.closed else inf
        every = (*earlier[:-1].tolist(), *controls.tolist(), float(controls[-1]))
        return LateralSpline(float(behind[0]) + step_m, step_m, every, lap_m)
