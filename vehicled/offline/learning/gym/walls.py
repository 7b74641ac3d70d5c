"""Edges of a course's corridor as walls."""

import numpy as np

from vehicled.core.arrays import Array
from vehicled.offline.learning.gym.errors import GymError
from vehicled.paths.course import Course

CORNER_M = 0.3
"""Distance between the corners of a wall, along the course."""
ROUNDING_M = 1e-6
TOLERANCE_M = 0.005
"""Largest distance between a wall and the edge that it stands for; fewer segments are scanned
faster."""


def corridor_walls(course: Course, half_width_m: float) -> Array:
    """Return both edges of the corridor as segments (m, 4).

    Inside a bend that is tighter than the half width the edge folds over itself; what lies on the
    road is left out. Raises :class:`GymError` for a course whose corridor meets itself elsewhere.
    """
    step = max(1, round(CORNER_M * len(course.x_m) / course.length_m))
    at = np.unique(np.append(np.arange(0, len(course.x_m), step), len(course.x_m) - 1))
    walls = []
    for left_m in (half_width_m, -half_width_m):
        x = course.x_m[at] - left_m * np.sin(course.yaw_rad[at])
        y = course.y_m[at] + left_m * np.cos(course.yaw_rad[at])
        kept = [
            k
            for k in range(len(at))
            if _off_the_road(course, float(x[k]), float(y[k]), int(at[k]), half_width_m)
        ]
        if len(kept) < 2:
            # The inside of a circle that is smaller than the road is road.
            continue
        corners = np.stack((x[kept], y[kept]), axis=1)
        if course.closed:
            corners = np.concatenate((corners, corners[:1]))
        corners = _simplified(corners)
        walls.append(np.concatenate((corners[:-1], corners[1:]), axis=1))
    return np.concatenate([np.empty((0, 4)), *walls])


def _simplified(corners: Array) -> Array:
    """Leave out corners (n, 2) that lie within the tolerance of the line without them. Douglas and
    Peucker 1973."""
    kept, parts = {0, len(corners) - 1}, [(0, len(corners) - 1)]
    while parts:
        first, last = parts.pop()
        between = corners[first + 1 : last] - corners[first]
        if not len(between):
            continue
        dx, dy = (corners[last] - corners[first]).tolist()
        length_m = float(np.hypot(dx, dy))
        # The ends of a lap are one point.
        off_m = (
            np.abs(dx * between[:, 1] - dy * between[:, 0]) / length_m
            if length_m > 0.0
            else np.hypot(*between.T)
        )
        furthest = int(off_m.argmax())
        if off_m[furthest] > TOLERANCE_M:
            at = first + 1 + furthest
            kept.add(at)
            parts += [(first, at), (at, last)]
    return corners[sorted(kept)]


def _off_the_road(course: Course, x_m: float, y_m: float, sample: int, half_width_m: float) -> bool:
    """Return False for a point in a fold. Raises :class:`GymError` for one on another part of the
    road."""
    distance = np.hypot(course.x_m - x_m, course.y_m - y_m)
    # Between two samples the course is nearer than at either by up to this much.
    near = np.flatnonzero(distance < half_width_m - ROUNDING_M - _sagitta(course, half_width_m))
    if not len(near):
        return True
    along = np.abs(course.s_m[near] - course.s_m[sample])
    along = np.minimum(along, course.length_m - along) if course.closed else along
    if float(along.max()) > 2.0 * np.pi * half_width_m:
        s_m = float(course.s_m[near[along.argmax()]])
        raise GymError(
            f"{course.name}: the corridor of {half_width_m:g} m to either side meets itself at "
            f"{s_m:.0f} m of the course, where a wall would stand on the road; set a smaller "
            "half_width_m, or take a course that does not cross itself"
        )
    return False


def _sagitta(course: Course, half_width_m: float) -> float:
    spacing_m = course.length_m / len(course.x_m)
    return 0.5 * spacing_m * spacing_m / half_width_m
