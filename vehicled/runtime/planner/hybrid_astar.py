"""Paths on a map for a vehicle with a smallest turning radius: hybrid A* (Dolgov et al. 2010).

The search goes on by arcs whose ends keep their exact poses; cells of place, yaw and direction only
say which of two equal ones to drop. It is guided by the way that a body which turns on the spot
would have, and ends by a Reeds-Shepp or Dubins path to the goal once one is free. Many poses are
expanded together, because a step of numpy costs the same for one and for a hundred.
"""

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from math import atan2, ceil, cos, inf, sin, sqrt, tau
from typing import NamedTuple

import numpy as np

from vehicled.core.arrays import Array
from vehicled.maps.matching import PlanarPose
from vehicled.paths.arc import on_arc
from vehicled.paths.errors import CourseError
from vehicled.paths.reeds_shepp import reeds_shepp_words
from vehicled.paths.shortest import Pose, words
from vehicled.runtime.planner.free_space import Distances, FreeSpace

YAWS = 48
"""Yaws that are distinguished."""
TURN_RAD = 2.0 * tau / YAWS
"""Turn of one step at full lock."""
LOCKS = (-1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0)
"""Curvatures of the steps, of the largest one."""
LONG_STEPS, STRIDE = 4.0, 2.0
"""Longest step, in shortest ones, and length of a step over the room beside the body."""
REVERSE_COST = 2.5
"""Cost of a metre in reverse over one forward."""
CUSP_RADII = 2.0
"""Cost of a change of direction, in metres forward for each metre of the turning radius: the
vehicle stops for it."""
STEER_COST = 0.05
"""Cost of a change of curvature from one step to the next, of the step's length."""
GREED = 1.5
"""Weight of the way that is left over the one that was driven: the path may be longer by as much,
and far fewer poses are looked at."""
BATCH = 32
MAX_POSES = 100_000
"""Poses that are looked at before a goal is refused: the bound of time and memory."""
BETTER_POSES = 5_000
"""Poses that are looked at after a path was found, for a cheaper one."""
MOST_CONNECTIONS = 4
"""Paths without a search that are tried from one pose."""
SPARSE = 12.0
NEGLIGIBLE_M = 1e-6
SHORTCUTS = 150
"""Shortcuts that are tried on a path that was found."""


class Segment(NamedTuple):
    """Arc or straight of a path."""

    curvature_per_m: float
    length_m: float
    """Negative in reverse."""


Path = list[Segment]


class Manoeuvring(NamedTuple):
    """Limits of a path."""

    radius_m: float
    """Smallest radius."""
    reverse: bool
    """True if it may drive backward."""
    leg_m: float
    """Shortest part between two changes of direction."""
    direction: int = 0
    """Direction of the motion at the start: 1 forward, -1 backward, 0 at standstill."""


class HybridAStar:
    """Search of one path in the axes of the grid. Call :meth:`path`."""

    def __init__(
        self,
        space: FreeSpace,
        start: PlanarPose,
        goal: tuple[float, float, float | None],
        ways: Manoeuvring,
    ) -> None:
        self._space, self._start, self._goal, self._ways = space, start, goal, ways
        self._step_m = TURN_RAD * ways.radius_m
        self._cell_m = self._step_m / 1.5
        self._spacing_m = max(space.cell_m, 0.25 * self._step_m)
        self.x, self.y, self.yaw = [start.x_m], [start.y_m], [start.yaw_rad]
        self.cost, self.parent = [0.0], [-1]
        self.curvature, self.length = [0.0], [0.0]
        self.direction = [ways.direction]
        self.room_m = [0.0]
        """Room beside the body, as far as it counts: a step is as long, within bounds."""
        self.run_m = [0.0]
        """Distance since the last change of direction."""
        self._best: dict[int, float] = {}
        self._end: tuple[int, Path] | None = None
        """Pose from which the cheapest path found so far goes straight to the goal, with that last
        part."""
        self._end_cost = inf
        here = [np.array([value]) for value in start]
        self._room_m = min(space.margin_m, float(space.room_m(*here)[0]))
        """Room that the body needs beside it; a vehicle that stands nearer to a wall may drive
        away."""
        self.distances: Distances = space.distances(goal[0], goal[1], self._cell_m, self._room_m)

    def path(self) -> Path:
        """Return the path to the goal. Raises CourseError if none was found."""
        (estimate,) = self.distances.at(np.array([self._start.x_m]), np.array([self._start.y_m]))
        if estimate == inf:
            raise CourseError(self._cut_off())
        queue: list[tuple[float, int]] = [(float(estimate), 0)]
        most = MAX_POSES
        while queue and len(self.x) < most:
            taken: list[int] = []
            while queue and len(taken) < BATCH and queue[0][0] < self._end_cost:
                taken.append(heappop(queue)[1])
            if not taken:
                break
            if self._finish(taken[0]):
                most = min(most, len(self.x) + BETTER_POSES)
            for change in (False, True):
                self._expand(np.array(taken), queue, change=change)
        if self._end is not None:
            parent, last = self._end
            return self._shortened([*self._way_to(parent), *last])
        raise CourseError(
            "its walls leave no way for a vehicle with a turning radius of "
            f"{self._ways.radius_m:.2f} m" + ("" if self._ways.reverse else " that cannot reverse")
            if not queue
            else f"none was found among {MAX_POSES} poses: passages may be too narrow; choose a "
            "place between"
        )

    def _cut_off(self) -> str:
        """Return why no way leads to the goal for a body of any radius."""
        x, y = self._start.x_m, self._start.y_m
        reached = self._space.distances(x, y, self._cell_m, self._room_m)
        (map_x,), (map_y,) = self._space.on_map(
            *(np.array([value]) for value in reached.nearest_to(*self._goal[:2]))
        )
        return (
            "walls, places that are too narrow or unknown parts of the map lie between; the "
            f"nearest place that can be reached is ({map_x:.1f}, {map_y:.1f}) m"
        )

    # ---------------------------------------------------------------- expansion

    def _keys(self, x: Array, y: Array, yaw: Array, direction: Array) -> np.ndarray:
        column, row = (np.floor(v / self._cell_m).astype(np.int64) for v in (x, y))
        turned = np.round(yaw * (YAWS / tau)).astype(np.int64) % YAWS
        return np.asarray((((row << 24) + column) * YAWS + turned) * 2 + (direction > 0))

    def _expand(self, taken: np.ndarray, queue: list[tuple[float, int]], *, change: bool) -> None:
        """Add the poses one step behind others, in their direction or in the other one."""
        ways, space = self._ways, self._space
        direction = np.array([self.direction[k] for k in taken])
        if change:
            if not ways.reverse:
                return
            run_m = np.array([self.run_m[k] for k in taken])
            taken = taken[(direction == 0) | (run_m >= ways.leg_m)]
            if not len(taken):
                return
            direction = np.array([self.direction[k] for k in taken])
            # At standstill the second direction is a start like the first one.
            towards = np.where(direction == 0, -1, -direction)
        else:
            towards = np.where(direction == 0, 1, direction)
        begins = change | (np.array([self.parent[k] for k in taken]) < 0)
        room_m = np.array([self.room_m[k] for k in taken])
        step_m = np.clip(STRIDE * room_m, self._step_m, LONG_STEPS * self._step_m)
        length_m = np.where(begins, ways.leg_m, step_m) * towards
        count = max(ceil(float(np.abs(length_m).max()) / self._spacing_m), 1)
        part = np.arange(1, count + 1) / count
        locks = np.array(LOCKS) / ways.radius_m
        x0, y0, yaw0 = (
            np.array([column[k] for k in taken])[:, None, None]
            for column in (self.x, self.y, self.yaw)
        )
        # (poses, curvatures, samples)
        x, y, yaw = on_arc(x0, y0, yaw0, locks[:, None], length_m[:, None, None] * part)
        room = space.room_m(x, y, yaw)
        free = (room >= self._room_m).all(axis=2)
        if not free.any():
            return
        pose, lock = np.nonzero(free)
        ends = x[pose, lock, -1], y[pose, lock, -1], yaw[pose, lock, -1]
        left_m = self.distances.at(ends[0], ends[1])
        cost = np.array([self.cost[k] for k in taken])[pose]
        metres = np.abs(length_m)[pose]
        factor = space.cost(room[pose, lock]).mean(axis=1)
        cost = cost + metres * factor * np.where(towards[pose] < 0, REVERSE_COST, 1.0)
        before = np.array([self.curvature[k] for k in taken])[pose]
        cost += STEER_COST * metres * np.abs(locks[lock] - before) * ways.radius_m
        run_m = np.array([self.run_m[k] for k in taken])[pose]
        if change:
            cost += np.where(direction[pose] == 0, 0.0, CUSP_RADII * ways.radius_m)
            run_m = np.zeros(len(pose))
        run_m = run_m + metres
        keys = self._keys(*ends, towards[pose])
        columns = (
            values.tolist()
            for values in (
                keys, cost, left_m, taken[pose], *ends, locks[lock], length_m[pose], towards[pose],
                run_m, room[pose, lock, -1],
            )
        )  # fmt: skip
        for key, reached, left, parent, px, py, pyaw, k, length, sign, run, free_m in zip(
            *columns, strict=True
        ):
            if reached < self._best.get(key, inf) and left < inf:
                self._best[key] = reached
                self.x.append(px)
                self.y.append(py)
                self.yaw.append(pyaw)
                self.cost.append(reached)
                self.parent.append(parent)
                self.curvature.append(k)
                self.length.append(length)
                self.direction.append(sign)
                self.run_m.append(run)
                self.room_m.append(free_m)
                heappush(queue, (reached + GREED * left, len(self.x) - 1))

    # ---------------------------------------------------------------- ends

    def _finish(self, number: int) -> bool:
        """Look for a path from a pose straight to the goal. Return True if it is the first one."""
        pose = PlanarPose(self.x[number], self.y[number], self.yaw[number])
        found = self._connection(pose, self._goal, self.direction[number], self.run_m[number])
        if found is None or self.cost[number] + found[0] >= self._end_cost:
            return False
        first = self._end is None
        self._end, self._end_cost = (number, found[1]), self.cost[number] + found[0]
        return first

    def _connection(
        self,
        pose: PlanarPose,
        goal: tuple[float, float, float | None],
        direction: int,
        run_m: float,
    ) -> tuple[float, Path] | None:
        """Return cost and course of the cheapest free path without a search; None if none of the
        shortest is free."""
        best: tuple[float, Path] | None = None
        tried = 0
        for path in connections(pose, goal, self._ways):
            if not legs_fit(path, self._ways.leg_m, direction, run_m):
                continue
            cost = self._cost(pose, path, direction)
            if cost < (inf if best is None else best[0]):
                best = cost, path
            tried += 1
            if tried == MOST_CONNECTIONS:
                break
        return best

    def _cost(self, pose: PlanarPose, path: Path, direction: int = 0) -> float:
        """Return the cost of a path; infinite where the body touches something."""
        # Most paths that touch something are found out by a few of their poses.
        for spacing_m in (SPARSE * self._spacing_m, self._spacing_m):
            x, y, yaw, metres = sampled(pose, path, spacing_m)
            room = self._space.room_m(x, y, yaw)
            if float(room.min()) < self._room_m:
                return inf
        weight = np.where(metres < 0.0, REVERSE_COST, 1.0)
        total = float((self._space.cost(room) * np.abs(metres) * weight).sum())
        changes = len(runs_of(path, direction, 0.0)) - 1
        return total + CUSP_RADII * self._ways.radius_m * changes

    def _way_to(self, number: int) -> Path:
        path: Path = []
        while self.parent[number] >= 0:
            path.append(Segment(self.curvature[number], self.length[number]))
            number = self.parent[number]
        return path[::-1]

    def _shortened(self, path: Path) -> Path:
        """Return a path without the small turns that steps of fixed curvatures leave."""
        path = [part for each in path for part in _divided(each, self._step_m)]
        first, tried = 0, 0
        while first < len(path) - 1 and tried < SHORTCUTS:
            pose = ends_of(self._start, path)[first]
            last = len(path)
            while last > first + 1 and tried < SHORTCUTS:
                tried += 1
                goal = ends_of(pose, path[first:last])[-1]
                before = self._cost(pose, path[first:last])
                found = self._connection(pose, goal, 0, 0.0)
                if found is not None and found[0] < before - 1e-6:
                    joined = [*path[:first], *found[1], *path[last:]]
                    if legs_fit(joined, self._ways.leg_m, self._ways.direction, 0.0):
                        first, path = first + len(found[1]), joined
                        break
                last = first + (last - first) // 2
            else:
                first += 1
        return path


def connections(
    pose: PlanarPose, goal: tuple[float, float, float | None], ways: Manoeuvring
) -> Iterator[Path]:
    """Yield the paths of few segments from a pose to a goal, the shortest first. To a goal without
    a heading a turn and a straight lead."""
    radius = ways.radius_m
    x, y, yaw = goal
    if yaw is None:
        paths = [
            path
            for sign in ((1.0, -1.0) if ways.reverse else (1.0,))
            for path in _turns_to(pose, x, y, radius, sign)
        ]
        paths.sort(key=lambda path: sum(abs(part.length_m) for part in path))
    elif ways.reverse:
        there = pose.to(PlanarPose(x, y, yaw))
        paths = [
            [Segment(turn / radius, length * radius) for turn, length in word]
            for word in reeds_shepp_words(there.x_m / radius, there.y_m / radius, there.yaw_rad)
        ]
    else:
        paths = [
            [Segment(turn / radius, length * radius) for turn, length in word]
            for word in words(Pose(*pose), Pose(x, y, yaw), radius)
        ]
    for path in paths:
        if kept := [part for part in path if abs(part.length_m) > NEGLIGIBLE_M]:
            yield kept


def _turns_to(
    pose: PlanarPose, x_m: float, y_m: float, radius_m: float, sign: float
) -> Iterator[Path]:
    """Yield the paths of one turn to either side and a straight, in one direction, to a place."""
    seen = pose.to(PlanarPose(x_m, y_m, 0.0))
    ahead, left = sign * seen.x_m, seen.y_m
    for side in (1.0, -1.0):
        # The centre of the turn lies at (0, side * radius).
        aside = left - side * radius_m
        square = ahead * ahead + aside * aside - radius_m * radius_m
        if square < 0.0:
            continue
        straight = sqrt(square)
        angle = (side * (atan2(aside, ahead)) + atan2(radius_m, straight)) % tau
        yield [Segment(side / radius_m, sign * angle * radius_m), Segment(0.0, sign * straight)]


def runs_of(path: Sequence[Segment], direction: int, run_m: float) -> list[float]:
    """Return the lengths between the changes of direction, the one before the path included."""
    runs = [run_m] if direction else []
    for part in path:
        if part.length_m * direction > 0.0:
            runs[-1] += abs(part.length_m)
        else:
            runs.append(abs(part.length_m))
        direction = 1 if part.length_m > 0.0 else -1
    return runs


def legs_fit(path: Sequence[Segment], leg_m: float, direction: int, run_m: float) -> bool:
    """Return True if no part between two changes of direction is shorter than ``leg_m``.
    ``direction``, ``run_m``: motion before the path."""
    runs = runs_of(path, direction, run_m)
    return len(runs) == 1 or all(run >= leg_m - NEGLIGIBLE_M for run in runs)


def ends_of(start: PlanarPose, path: Sequence[Segment]) -> list[PlanarPose]:
    """Return the start, and the pose at the end of each segment."""
    x, y, yaw = start
    poses = [start]
    for curvature, length in path:
        half = 0.5 * curvature * length
        chord = length * (sin(half) / half if half else 1.0)
        x, y, yaw = x + chord * cos(yaw + half), y + chord * sin(yaw + half), yaw + 2.0 * half
        poses.append(PlanarPose(x, y, yaw))
    return poses


def sampled(
    start: PlanarPose, path: Sequence[Segment], spacing_m: float
) -> tuple[Array, Array, Array, Array]:
    """Return x, y and yaw (n,) along a path without its start, the ends of all segments included,
    and the signed distance of each from the one before."""
    curvature, length = np.array(path).T
    counts = np.maximum(np.ceil(np.abs(length) / spacing_m), 1.0).astype(np.intp)
    of = np.repeat(np.arange(len(path)), counts)
    number = np.arange(1, len(of) + 1) - np.repeat(np.cumsum(counts) - counts, counts)
    metres = (length / counts)[of]
    poses = np.array(ends_of(start, path)[:-1])[of].T
    x, y, yaw = on_arc(poses[0], poses[1], poses[2], curvature[of], number * metres)
    return x, y, yaw, metres


def _divided(part: Segment, step_m: float) -> Path:
    count = max(round(abs(part.length_m) / step_m), 1)
    return [Segment(part.curvature_per_m, part.length_m / count)] * count
