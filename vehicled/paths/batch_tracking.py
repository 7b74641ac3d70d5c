"""Tracks many vehicles on one course as numpy arrays: :class:`~vehicled.paths.tracking.PathTracker`
row by row.

For courses of one leg that is driven forward.
"""

from bisect import bisect_left, bisect_right
from math import copysign, inf, pi, sqrt
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from vehicled.core.arrays import Array, clipped, hypotenuse, wrapped
from vehicled.paths.course import Course
from vehicled.paths.errors import CourseError
from vehicled.paths.tracking import (
    AHEAD_M,
    BEHIND_M,
    END_TOLERANCE_M,
    MAX_WINDOW_M,
    MAX_WINDOW_S,
    RUN_OUT_M,
)

Rows = npt.NDArray[np.intp]
FEW = 4
"""Largest number of vehicles that are located one by one."""


class PathPoints(NamedTuple):
    """Reference points (n,) of poses; fields as in :class:`~vehicled.paths.tracking.PathPoint`."""

    s_m: Array
    cross_track_m: Array
    heading_error_rad: Array
    curvature_per_m: Array
    x_m: Array
    y_m: Array
    yaw_rad: Array


class CoursePoints(NamedTuple):
    """Places (n,) on the course; fields as in :class:`~vehicled.paths.tracking.CoursePoint`."""

    x_m: Array
    y_m: Array
    yaw_rad: Array
    curvature_per_m: Array


class _Lists(NamedTuple):
    """Samples of the course and the differences between them, as floats."""

    s: list[float]
    x: list[float]
    y: list[float]
    yaw: list[float]
    curvature: list[float]
    ds: list[float]
    dx: list[float]
    dy: list[float]
    dyaw: list[float]
    dcurvature: list[float]
    inverse: list[float]


class BatchTracker:
    """Progress of ``count`` runs along a course. Arrays (n,): ``at_m``, ``progress_m``."""

    def __init__(self, course: Course, count: int) -> None:
        """Raises CourseError for a course that is driven backward anywhere."""
        if course.reverses:
            raise CourseError(
                f"{course.name}: a part of it is driven backward; choose a course that is "
                "driven forward only"
            )
        s = course.s_m
        x = course.x_m
        y = course.y_m
        yaw = course.yaw_rad
        curvature = course.curvature_per_m
        self._end = len(s) - 1
        if course.closed:
            # The lap goes on past its start, as in the scalar tracker: at least one sample, and all
            # within the run-out.
            n, length = len(s), course.length_m
            more = max(
                1,
                int(
                    np.searchsorted(
                        np.concatenate([s + k * length for k in range(_laps(length))]),
                        RUN_OUT_M,
                        "right",
                    )
                ),
            )
            again = np.arange(more)
            s = np.concatenate((s, s[again % n] + (again // n + 1) * length))
            x, y, curvature = (np.concatenate((a, a[again % n])) for a in (x, y, curvature))
            ahead = np.diff(np.concatenate((yaw[-1:], yaw[again % n])))
            yaw = np.concatenate((yaw, yaw[-1] + np.cumsum(wrapped(ahead))))
            self._end = len(s) - 1
        self._s, self._x, self._y, self._yaw, self._curvature = s, x, y, yaw, curvature
        self._dx, self._dy, self._ds = np.diff(x), np.diff(y), np.diff(s)
        self._dyaw, self._dcurvature = np.diff(yaw), np.diff(curvature)
        self._inverse = 1.0 / (self._dx * self._dx + self._dy * self._dy)
        self.course = course
        self._lists = _Lists(*(
            each.tolist()
            for each in (
                s, x, y, yaw, curvature, self._ds, self._dx, self._dy, self._dyaw, self._dcurvature,
                self._inverse,
            )
        ))  # fmt: skip
        self._finish_m = course.length_m - min(END_TOLERANCE_M, course.length_m / 4.0)
        self.at_m, self.progress_m, self._cross_track_m, self._seen_x_m, self._seen_y_m = np.zeros(
            (5, count)
        )
        self._window_m = np.full(count, MAX_WINDOW_M)
        self._fresh = np.ones(count, dtype=np.bool_)

    def reset(self, rows: Rows, s_m: Array) -> None:
        """Start runs anew at arc lengths."""
        self.at_m[rows] = self.progress_m[rows] = s_m
        self._cross_track_m[rows] = 0.0
        self._window_m[rows] = MAX_WINDOW_M
        self._fresh[rows] = True

    @property
    def finished(self) -> npt.NDArray[np.bool_]:
        """True (n,) for runs that have reached the end of the course, or of the lap."""
        return self.progress_m >= self._finish_m

    def update(self, x_m: Array, y_m: Array, yaw_rad: Array, speed_mps: Array) -> PathPoints:
        """Follow all vehicles to finite poses (n,)."""
        self._window_m = np.maximum(MAX_WINDOW_M, MAX_WINDOW_S * np.abs(speed_mps))
        points = self.locate(x_m, y_m, yaw_rad)
        self._fresh[:] = False
        self._seen_x_m, self._seen_y_m = x_m.copy(), y_m.copy()
        self.at_m, self._cross_track_m = points.s_m, points.cross_track_m
        self.progress_m = np.maximum(self.progress_m, points.s_m)
        return points

    def locate(self, x_m: Array, y_m: Array, yaw_rad: Array) -> PathPoints:
        """Return the reference points of poses (n,) near the current progress without changing
        it."""
        if len(x_m) <= FEW:
            poses = enumerate(zip(x_m.tolist(), y_m.tolist(), yaw_rad.tolist(), strict=True))
            return PathPoints(*np.array([self._locate_one(row, *pose) for row, pose in poses]).T)
        moved = np.where(self._fresh, 0.0, hypotenuse(x_m - self._seen_x_m, y_m - self._seen_y_m))
        low = self.at_m - np.minimum(BEHIND_M + moved, self._window_m)
        high = self.at_m + np.minimum(
            AHEAD_M + 2.0 * (np.abs(self._cross_track_m) + moved), self._window_m
        )
        first = clipped(np.searchsorted(self._s, low, "right") - 1, 0, self._end)
        stop = np.minimum(self._end + 1, np.maximum(np.searchsorted(self._s, high), first) + 1)
        return self._reference(*self._nearest(x_m, y_m, first, stop), x_m, y_m, yaw_rad)

    def _locate_one(self, row: int, x_m: float, y_m: float, yaw_rad: float) -> tuple[float, ...]:
        """Return what :meth:`locate` does for one vehicle, in plain floats: they cost less than
        short arrays, bits are equal. Functions that are rounded are those of numpy.
        """
        course, window_m = self._lists, float(self._window_m[row])
        moved = (
            0.0
            if self._fresh[row]
            else float(hypotenuse(x_m - self._seen_x_m[row], y_m - self._seen_y_m[row]))
        )
        low = float(self.at_m[row]) - min(BEHIND_M + moved, window_m)
        high = float(self.at_m[row]) + min(
            AHEAD_M + 2.0 * (abs(float(self._cross_track_m[row])) + moved), window_m
        )
        first = min(max(bisect_right(course.s, low) - 1, 0), self._end)
        stop = min(self._end + 1, max(bisect_left(course.s, high), first) + 1)
        dx, dy = self._x[first:stop] - x_m, self._y[first:stop] - y_m
        nearest = first + int((dx * dx + dy * dy).argmin())
        best = inf, 0, 0.0
        for i in (max(nearest - 1, 0), min(nearest, self._end - 1)):
            t = (
                (x_m - course.x[i]) * course.dx[i] + (y_m - course.y[i]) * course.dy[i]
            ) * course.inverse[i]
            t = min(max(t, 0.0), 1.0)
            off_x = course.x[i] + t * course.dx[i] - x_m
            off_y = course.y[i] + t * course.dy[i] - y_m
            if (square := off_x * off_x + off_y * off_y) < best[0]:
                best = square, i, t
        _, i, t = best
        px = course.x[i] + t * course.dx[i]
        py = course.y[i] + t * course.dy[i]
        yaw = course.yaw[i] + t * course.dyaw[i]
        off_x, off_y = x_m - px, y_m - py
        if 0.0 < t < 1.0:
            cross_track = (course.dx[i] * off_y - course.dy[i] * off_x) * sqrt(course.inverse[i])
        else:
            cross_track = float(np.cos(yaw)) * off_y - float(np.sin(yaw)) * off_x
            if 0.0 < i + t < self._end:
                cross_track = copysign(float(hypotenuse(off_x, off_y)), cross_track)
        return (
            course.s[i] + t * course.ds[i],
            cross_track,
            (yaw - yaw_rad + pi) % (2.0 * pi) - pi,
            course.curvature[i] + t * course.dcurvature[i],
            px,
            py,
            (yaw + pi) % (2.0 * pi) - pi,
        )

    def _nearest(self, x_m: Array, y_m: Array, first: Rows, stop: Rows) -> tuple[Rows, Array]:
        """Return segment and fraction of it of the points nearest to (x, y), among samples
        ``first`` to before ``stop``."""
        columns = first[:, None] + np.arange(int((stop - first).max()))
        within = np.minimum(columns, self._end)
        dx, dy = self._x[within] - x_m[:, None], self._y[within] - y_m[:, None]
        square = np.where(columns < stop[:, None], dx * dx + dy * dy, np.inf)
        nearest = first + square.argmin(axis=1)
        # The segments behind and ahead of it.
        both, fraction, square = self._on_segment(
            clipped(np.stack((nearest - 1, nearest)), 0, self._end - 1), x_m, y_m
        )
        forward = square[1] < square[0]
        return np.where(forward, both[1], both[0]), np.where(forward, fraction[1], fraction[0])

    def _on_segment(self, i: Rows, x_m: Array, y_m: Array) -> tuple[Rows, Array, Array]:
        px, py, dx, dy = self._x[i], self._y[i], self._dx[i], self._dy[i]
        t = clipped(((x_m - px) * dx + (y_m - py) * dy) * self._inverse[i], 0.0, 1.0)
        off_x, off_y = px + t * dx - x_m, py + t * dy - y_m
        return i, t, off_x * off_x + off_y * off_y

    def _reference(self, i: Rows, t: Array, x_m: Array, y_m: Array, yaw_rad: Array) -> PathPoints:
        dx, dy = self._dx[i], self._dy[i]
        px, py, yaw = self._x[i] + t * dx, self._y[i] + t * dy, self._yaw[i] + t * self._dyaw[i]
        off_x, off_y = x_m - px, y_m - py
        inside = (dx * off_y - dy * off_x) * np.sqrt(self._inverse[i])
        corner = np.cos(yaw) * off_y - np.sin(yaw) * off_x
        # Outside a corner the distance counts, not its share across the mean heading.
        inner = (i + t > 0.0) & (i + t < self._end)
        corner = np.where(inner, np.copysign(hypotenuse(off_x, off_y), corner), corner)
        return PathPoints(
            self._s[i] + t * self._ds[i],
            np.where((t > 0.0) & (t < 1.0), inside, corner),
            wrapped(yaw - yaw_rad),
            self._curvature[i] + t * self._dcurvature[i],
            px,
            py,
            wrapped(yaw),
        )

    def points_at(self, s_m: Array) -> CoursePoints:
        """Return the points at arc lengths (n,). A lap repeats; an open course goes on straight
        beyond its ends."""
        beyond = np.zeros_like(s_m)
        if self.course.closed:
            s_m = np.mod(s_m, self.course.length_m)
        else:
            inside = clipped(s_m, self._s[0], self._s[-1])
            beyond, s_m = s_m - inside, inside
        i = clipped(np.searchsorted(self._s, s_m, "right") - 1, 0, self._end - 1)
        t = (s_m - self._s[i]) / self._ds[i]
        yaw = self._yaw[i] + t * self._dyaw[i]
        return CoursePoints(
            self._x[i] + t * self._dx[i] + beyond * np.cos(yaw),
            self._y[i] + t * self._dy[i] + beyond * np.sin(yaw),
            wrapped(yaw),
            np.where(beyond == 0.0, self._curvature[i] + t * self._dcurvature[i], 0.0),
        )

    def references_ahead(
        self, x_m: Array, y_m: Array, yaw_rad: Array, look_ahead_m: float
    ) -> CoursePoints:
        """Return the points nearest to those ``look_ahead_m`` ahead of vehicles; an open course
        goes on straight beyond its end."""
        near_x, near_y = x_m + look_ahead_m * np.cos(yaw_rad), y_m + look_ahead_m * np.sin(yaw_rad)
        s_m = self.locate(near_x, near_y, yaw_rad).s_m
        if not self.course.closed:
            end_m, end_yaw = self._s[-1], self._yaw[-1]
            along_m = (near_x - self._x[-1]) * np.cos(end_yaw) + (near_y - self._y[-1]) * np.sin(
                end_yaw
            )
            s_m = np.where(s_m >= end_m, end_m + np.maximum(along_m, 0.0), s_m)
        return self.points_at(s_m)


def _laps(length_m: float) -> int:
    return int(RUN_OUT_M / length_m) + 2
