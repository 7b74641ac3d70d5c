"""Prediction of many drives at once: a kinematic single track that follows paths beside the course by pure pursuit.

The law is that of :class:`vehicled.control.pure_pursuit.PurePursuit` with its shortest look-ahead, so that the prediction is what
will be driven. The start is the pose at which the next command acts, so the steering delay is over; slew and lock of the steering
and the acceleration of the speed control are in the model.
"""

from typing import NamedTuple

import numpy as np
from msgspec import Struct

from vehicled.control.preview import Preview
from vehicled.core.arrays import Array
from vehicled.paths.course import Course
from vehicled.paths.lateral_offset import LateralOffset

STEP_M = 0.1
"""Step of the course table."""
LEAST_SCALE = 0.2
"""Lower bound of the length of a path beside the course over that of the course, near the centre of a bend."""


class CourseTable:
    """Course as columns over the arc length in equal steps, continuous over the end of a lap."""

    def __init__(self, course: Course, speed_mps: Array) -> None:
        """``speed_mps`` (n,): speed that is driven at each sample."""
        s, yaw = course.s_m, np.unwrap(course.yaw_rad)
        self.closed, self.length_m = course.closed, course.length_m
        self.top_mps = float(np.abs(speed_mps).max())
        columns = [course.x_m, course.y_m, np.cos(yaw), np.sin(yaw), course.curvature_per_m, np.abs(speed_mps)]
        if course.closed:
            s, columns = np.append(s, course.length_m), [np.append(column, column[0]) for column in columns]
        self._last = max(2, round(course.length_m / STEP_M))
        self._per_m = self._last / course.length_m
        at = np.arange(self._last + 1) / self._per_m
        self._columns = np.stack([np.interp(at, s, column) for column in columns])

    def at(self, s_m: Array) -> Array:
        """Return x, y, cosine and sine of the yaw, curvature and speed (6, m) at arc lengths. An open course goes on straight."""
        place = (s_m % self.length_m if self.closed else s_m) * self._per_m
        index = np.clip(place.astype(np.int64), 0, self._last - 1)
        fraction = np.minimum(place - index, 1.0)
        low = self._columns[:, index]
        found: Array = low + fraction * (self._columns[:, index + 1] - low)
        if not self.closed:
            beyond = np.maximum(s_m - self.length_m, 0.0)
            found[0] += beyond * found[2]
            found[1] += beyond * found[3]
        return found


class TrackModel(Struct, frozen=True):
    """Vehicle and law of the prediction."""

    wheelbase_m: float
    max_wheel_rad: float
    rate_radps: float
    acceleration_mps2: float
    deceleration_mps2: float
    look_ahead_s: float
    look_ahead_min_m: float
    look_ahead_max_m: float


class Predicted(NamedTuple):
    """Poses of the rear axle (m, steps + 1) of m drives, and their cross-track error from the course."""

    x_m: Array
    y_m: Array
    yaw_rad: Array
    speed_mps: Array
    offset_m: Array


def simulate(
    model: TrackModel,
    course: CourseTable,
    paths: LateralOffset,
    ratio: Array,
    start: Preview,
    s_m: float,
    steps: int,
    step_s: float,
) -> Predicted:
    """Drive m paths (arrays of shape (m,) in ``paths``) at ``ratio`` (m,) of the speed of the course, from one pose at ``s_m``."""
    m = len(ratio)
    x, y, yaw, v, wheel = (np.full(m, value) for value in (start.x_m, start.y_m, start.yaw_rad, start.speed_mps, start.wheel_rad))
    s = np.full(m, s_m)
    found = np.empty((5, m, steps + 1))
    for k in range(steps + 1):
        px, py, pc, ps, curvature, speed = course.at(s)
        aside = pc * (y - py) - ps * (x - px)
        found[:, :, k] = x, y, yaw, v, aside
        if k == steps:
            break
        # ---- pure pursuit on the path, with the curvature of the path fed forward
        look = np.clip(model.look_ahead_s * v, model.look_ahead_min_m, model.look_ahead_max_m)
        tx, ty, tc, ts, _, _ = course.at(s + look)
        ahead = paths.at(s + look)
        tx, ty = tx - ts * ahead, ty + tc * ahead
        here, slope, path_bend = paths.shape(s)
        lx, ly = px - ps * here, py + pc * here
        path_yaw = np.arctan2(ps, pc) + np.arctan(slope)
        bend = curvature / np.maximum(1.0 - curvature * here, LEAST_SCALE) + path_bend
        pursuit = _arc(x, y, yaw, tx, ty) + bend - _arc(lx, ly, path_yaw, tx, ty)
        target = np.clip(np.arctan(model.wheelbase_m * pursuit), -model.max_wheel_rad, model.max_wheel_rad)
        slew = model.rate_radps * step_s
        after = wheel + np.clip(target - wheel, -slew, slew)
        # ---- speed and motion, midpoint rule
        faster = np.clip(ratio * speed - v, -model.deceleration_mps2 * step_s, model.acceleration_mps2 * step_s)
        distance = (v + 0.5 * faster) * step_s
        turn = distance * np.tan(0.5 * (wheel + after)) / model.wheelbase_m
        middle = yaw + 0.5 * turn
        x, y = x + distance * np.cos(middle), y + distance * np.sin(middle)
        along = pc * np.cos(middle) + ps * np.sin(middle)
        s = s + distance * along / np.maximum(1.0 - curvature * aside, LEAST_SCALE)
        yaw, v, wheel = yaw + turn, v + faster, after
    return Predicted(*found)


def _arc(x: Array, y: Array, yaw: Array, to_x: Array, to_y: Array) -> Array:
    """Return the curvature of the arcs from poses, tangent to their yaw, through points."""
    dx, dy = to_x - x, to_y - y
    left = np.cos(yaw) * dy - np.sin(yaw) * dx
    return 2.0 * left / np.maximum(dx * dx + dy * dy, 1e-6)
