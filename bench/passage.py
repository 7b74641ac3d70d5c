"""Truth of a scene: can a vehicle, or one half as wide again, be driven past what stands on a
course?

The judge of ``bench/avoid.py``. It shares nothing with a planner: breadth-first search over poses
in the plane, by arcs of the rear axle at five curvatures, forward only. A pose counts if the body,
widened to ``widths`` times its width, meets nothing and the rear axle stays within a share of the
corridor. Of each cell of the search one true pose is kept, so that nothing is rounded.

What moves is met at its place of the time, for one constant speed and one time of departure in each
search; the last search leaves when everything stands, if nothing drives over the start meanwhile.

Not counted: reverse, pauses on the way, changes of speed, the rate of the steering, errors of
estimate and scanner, and what a scanner cannot see. A passage that needs reverse is none here; one
that is found may still be beyond what can be seen in time.
"""

from collections.abc import Sequence
from math import inf, pi
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from scipy.spatial import cKDTree

from sim_backend.scene.moving import Moving
from sim_backend.scene.scene import Scene
from vehicled.core.arrays import Array
from vehicled.core.vehicle import Outline, Vehicle
from vehicled.paths.course import Course, Rows
from vehicled.safety.fence import Flags

CURVATURES = np.array([-0.9, -0.45, 0.0, 0.45, 0.9])
"""Curvatures of the arcs, over that of the tightest turn."""
CORRIDOR_SHARE = 0.9
"""Part of the corridor in which the passage must lie: nobody knows his place better than that."""
HEADINGS = 48
MOST_HEADING_RAD = 1.4
"""Heading from that of the course beyond which nothing passes."""
SPEEDS = (1.0, 0.5)
"""Speeds of the searches, over that of the course."""
CHUNK = 4000


class Solid(NamedTuple):
    """Circles (n,) that stand still."""

    x_m: Array
    y_m: Array
    radius_m: Array


class Passage(Struct, frozen=True):
    """A way past everything that was found."""

    how: str
    """"now" at the speed of the course, "slow" at less, "after" once everything stands."""
    length_m: float


def solid_of(
    scene: Scene, course: Course, from_m: float, to_m: float, within_m: float, step_m: float
) -> Solid:
    """Return what stands within a distance of a part of the course; walls as points at equal
    steps."""
    x, y, r = (
        (np.array(column) for column in zip(*(shape for _, shape in scene.circles)))
        if scene.circles
        else (np.zeros(0),) * 3
    )
    ends = scene.segments_m
    if len(ends):
        lengths = np.hypot(ends[:, 2] - ends[:, 0], ends[:, 3] - ends[:, 1])
        counts = np.ceil(lengths / step_m).astype(int) + 1
        which = np.repeat(np.arange(len(ends)), counts)
        part = np.concatenate([np.linspace(0.0, 1.0, count) for count in counts])
        wall = ends[which, :2] + part[:, None] * (ends[which, 2:] - ends[which, :2])
        x = np.append(x, wall[:, 0])
        y = np.append(y, wall[:, 1])
        r = np.append(r, np.zeros(len(wall)))
    part = (course.s_m >= from_m) & (course.s_m <= to_m)
    tree = cKDTree(np.column_stack((course.x_m[part], course.y_m[part])))
    near = (
        tree.query(np.column_stack((x, y)))[0] <= within_m + r
        if len(x)
        else np.zeros(0, dtype=bool)
    )
    return Solid(x[near], y[near], r[near])


class PassageSearch:
    """Searches of one scene for one vehicle."""

    def __init__(
        self,
        course: Course,
        vehicle: Vehicle,
        corridor_m: float,
        scene: Scene,
        end_m: float,
        *,
        widths: float,
        from_m: float = 0.0,
    ) -> None:
        """``end_m``: arc length at which the vehicle has passed; the search begins on the course at
        ``from_m``."""
        self._course, self._end_m, self._corridor_m = course, end_m, CORRIDOR_SHARE * corridor_m
        outline = vehicle.outline
        self._body = Outline(outline.front_m, outline.rear_m, widths * outline.half_m)
        self._radius_m = vehicle.min_turn_radius_m
        width = vehicle.width_m
        self._cell_m, self._step_m = 0.2 * width, 0.45 * width
        within_m = corridor_m + self._body.reach_m + width
        self._solid = solid_of(
            scene, course, from_m, end_m + vehicle.length_m, within_m, 0.15 * width
        )
        self._moving = [thing for _, thing in scene.moving]
        k = int(np.searchsorted(course.s_m, from_m))
        self._start, self._first = np.array([[course.x_m[k], course.y_m[k], course.yaw_rad[k]]]), k
        reach = int(2.0 * self._step_m / (course.length_m / len(course.s_m))) + 2
        self._window = np.arange(-reach, reach + 1)

    def find(self, speed_mps: float, leaves_s: float) -> Passage | None:
        """Return a way for a vehicle that leaves at a scene time; None if none was found."""
        for how, ratio in zip(("now", "slow"), SPEEDS, strict=True):
            length_m = self._search(leaves_s, ratio * speed_mps)
            if length_m is not None:
                return Passage(how, length_m)
            if not self._moving:
                return None
        over_s = max(thing.end_s for thing in self._moving)
        times = np.arange(leaves_s, max(over_s, leaves_s) + 0.1, 0.1)
        if not self._free(np.repeat(self._start, len(times), axis=0), times).all():
            return None
        length_m = self._search(over_s + 0.1, inf)
        return None if length_m is None else Passage("after", length_m)

    def _search(self, leaves_s: float, speed_mps: float) -> float | None:
        """Return the length of the shortest way in steps, from a scene time at a speed; None
        without one."""
        frontier, known, step = self._start, set(self._keys(self._start).tolist()), self._step_m
        at = np.array([self._first])
        if not self._free(frontier, np.array([leaves_s])).all():
            return None
        most = int(3.0 * (self._end_m + 10.0 * step) / step)
        for number in range(1, most):
            curvature = np.tile(CURVATURES / self._radius_m, len(frontier))
            x, y, yaw = np.repeat(frontier, len(CURVATURES), axis=0).T
            middle = yaw + 0.5 * step * curvature
            chord = step * np.sinc(0.5 * step * curvature / pi)
            poses = np.column_stack(
                (x + chord * np.cos(middle), y + chord * np.sin(middle), yaw + step * curvature)
            )
            keys = self._keys(poses)
            _, first = np.unique(keys, return_index=True)
            fresh = np.array(
                [index for index in first.tolist() if int(keys[index]) not in known], dtype=int
            )
            if not len(fresh):
                return None
            # A cell whose first pose is blocked may be entered by another, later.
            poses, keys, before = poses[fresh], keys[fresh], np.repeat(at, len(CURVATURES))[fresh]
            off, nearest = self._located(poses, before)
            turned = np.angle(np.exp(1j * (poses[:, 2] - self._course.yaw_rad[nearest])))
            good = (off <= self._corridor_m) & (np.abs(turned) <= MOST_HEADING_RAD)
            poses, keys, nearest = poses[good], keys[good], nearest[good]
            free = self._free(poses, np.full(len(poses), leaves_s + number * step / speed_mps))
            poses, keys, nearest = poses[free], keys[free], nearest[free]
            if (self._course.s_m[nearest] >= self._end_m).any():
                return number * step
            if not len(poses):
                return None
            known.update(keys.tolist())
            frontier, at = poses, nearest
        return None

    def _located(self, poses: Array, before: Rows) -> tuple[Array, Rows]:
        """Return the distance (n,) from the course and the nearest sample, near the one before: a
        course may come past itself."""
        course = self._course
        samples = np.clip(before[:, None] + self._window, 0, len(course.s_m) - 1)
        apart = np.hypot(poses[:, :1] - course.x_m[samples], poses[:, 1:2] - course.y_m[samples])
        nearest = apart.argmin(axis=1)
        along = np.arange(len(poses))
        return apart[along, nearest], samples[along, nearest]

    def _keys(self, poses: Array) -> Rows:
        cells = np.floor(poses[:, :2] / self._cell_m).astype(np.int64)
        heading = np.floor(poses[:, 2] % (2.0 * pi) / (2.0 * pi) * HEADINGS).astype(np.int64)
        keys: Rows = (
            (cells[:, 0] + 100_000) * 200_003 + cells[:, 1] + 100_000
        ) * HEADINGS + heading
        return keys

    def _free(self, poses: Array, time_s: Array) -> Flags:
        """Return a mask of the poses (n, 3) whose body meets nothing, each at its scene time
        (n,)."""
        free: Flags = np.ones(len(poses), dtype=np.bool_)
        for begin in range(0, len(poses), CHUNK):
            part = slice(begin, begin + CHUNK)
            some, at_s = poses[part], time_s[part]
            solid = self._solid
            if len(solid.x_m):
                middle_x, middle_y = some[:, 0].mean(), some[:, 1].mean()
                spread = (
                    np.hypot(some[:, 0] - middle_x, some[:, 1] - middle_y).max()
                    + self._body.reach_m
                )
                near = (
                    np.hypot(solid.x_m - middle_x, solid.y_m - middle_y) <= spread + solid.radius_m
                )
                gap = (
                    gaps(self._body, some, solid.x_m[near], solid.y_m[near]) - solid.radius_m[near]
                )
                free[part] &= (gap > 0.0).all(axis=1)
            for thing in self._moving:
                free[part] &= body_gap(self._body, some, thing, at_s) > 0.0
        return free


def gaps(body: Outline, poses: Array, x_m: Array, y_m: Array) -> Array:
    """Return the distances (n, m) of points from the body at poses (n, 3); 0 inside."""
    c, s = np.cos(poses[:, 2])[:, None], np.sin(poses[:, 2])[:, None]
    dx, dy = x_m - poses[:, 0][:, None], y_m - poses[:, 1][:, None]
    ahead, left = c * dx + s * dy, c * dy - s * dx
    out_x = np.maximum(np.maximum(ahead - body.front_m, -body.rear_m - ahead), 0.0)
    found: Array = np.hypot(out_x, np.maximum(np.abs(left) - body.half_m, 0.0))
    return found


def body_gap(body: Outline, poses: Array, thing: Moving, time_s: Array) -> Array:
    """Return the distances (n,) of the body at poses (n, 3) from a round moving object, each at its
    time."""
    x, y, _ = thing.place(time_s)
    c, s = np.cos(poses[:, 2]), np.sin(poses[:, 2])
    dx, dy = x - poses[:, 0], y - poses[:, 1]
    ahead, left = c * dx + s * dy, c * dy - s * dx
    out_x = np.maximum(np.maximum(ahead - body.front_m, -body.rear_m - ahead), 0.0)
    found: Array = np.hypot(out_x, np.maximum(np.abs(left) - body.half_m, 0.0)) - (
        thing.radius_m or 0.0
    )
    return found


def nearest_gap_m(
    body: Outline,
    pose: tuple[float, float, float],
    solid: Solid,
    moving: Sequence[Moving],
    time_s: float,
) -> float:
    """Return the true distance from the body to the nearest thing, m; infinite without one."""
    at = np.array([pose])
    found = [body_gap(body, at, thing, np.array([time_s]))[0] for thing in moving]
    if len(solid.x_m):
        found.append((gaps(body, at, solid.x_m, solid.y_m)[0] - solid.radius_m).min())
    return float(min(found, default=np.inf))
