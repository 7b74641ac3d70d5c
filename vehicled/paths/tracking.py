"""Where the vehicle is along its course.

The tracker remembers its progress and looks only near it, so a crossing, a parallel lane or the end of a lap cannot catch it.
Plain Python over lists: one update costs a few microseconds, where an array search over the course would cost a hundred.
"""

from bisect import bisect_left, bisect_right
from itertools import pairwise
from math import copysign, cos, hypot, inf, isfinite, nan, remainder, sin, sqrt, tau
from typing import NamedTuple

from msgspec import Struct

from vehicled.paths.course import Course

# How far ahead of and behind the last progress to look, m, beyond what the vehicle moved since. Ahead, twice the cross-track
# error is added: a vehicle that cuts a right-angled corner by e passes 2 e of course at once.
AHEAD_M = 0.5
BEHIND_M = 0.3
MAX_WINDOW_M = 4.0
# A lap is followed this far beyond its end, for the vehicle that is still braking.
RUN_OUT_M = 30.0


class CoursePoint(NamedTuple):
    """A place on the course; m, rad (-pi..pi), 1/m, m/s."""

    x_m: float
    y_m: float
    yaw_rad: float
    curvature_per_m: float
    speed_mps: float


class PathPoint(Struct, frozen=True, gc=False):
    """The reference point of a pose: the nearest point of the course near the last progress."""

    s_m: float
    """Arc length from the start; on a lap it runs on beyond ``length_m`` after the line is crossed."""
    cross_track_m: float
    """Positive when the vehicle is left of the path. Beyond an open end, offset from the extended tangent."""
    heading_error_rad: float
    """Path minus vehicle, -pi..pi."""
    curvature_per_m: float
    speed_mps: float
    x_m: float
    y_m: float
    yaw_rad: float
    """Of the path, -pi..pi."""


class PathTracker:
    """Progress of one run along a course, starting at s = 0.

    ``start_region_m``: the first pose may be anywhere along this much of the course (at most a quarter of it).
    ``end_tolerance_m``: how short of the end counts as finished; a vehicle that stops at the end never quite crosses it.
    """

    def __init__(self, course: Course, *, start_region_m: float = 5.0, end_tolerance_m: float = 0.1) -> None:
        xs, ys = course.x_m.tolist(), course.y_m.tolist()
        yaws, curvatures, speeds = course.yaw_rad.tolist(), course.curvature_per_m.tolist(), course.speed_mps.tolist()
        distances: list[float] = course.s_m.tolist()
        n, length = len(xs), course.length_m
        if course.closed:
            # The lap goes on past its start, with continuous arc length and heading.
            i = 0
            while True:
                lap = i // n + 1
                s = distances[i % n] + lap * length
                if s > length + RUN_OUT_M and i > 0:
                    break
                xs.append(xs[i % n])
                ys.append(ys[i % n])
                yaws.append(yaws[-1] + remainder(yaws[i % n] - yaws[-1], tau))
                curvatures.append(curvatures[i % n])
                speeds.append(speeds[i % n])
                distances.append(s)
                i += 1
        self._course = course
        self._x, self._y, self._yaw, self._curvature, self._speed, self._s = xs, ys, yaws, curvatures, speeds, distances
        self._dx = [b - a for a, b in pairwise(xs)]
        self._dy = [b - a for a, b in pairwise(ys)]
        self._inverse = [1.0 / (dx * dx + dy * dy) for dx, dy in zip(self._dx, self._dy, strict=True)]
        self._length_m = length
        self._last = len(self._dx) - 1
        self._start_region_m = min(start_region_m, length / 4.0)
        self._finish_m = length - min(end_tolerance_m, length / 4.0)
        self.reset()

    def reset(self) -> None:
        """Begin a new run at the start of the course."""
        self._at_m = 0.0
        self._progress_m = 0.0
        self._cross_track_m = 0.0
        self._seen: tuple[float, float] | None = None

    @property
    def course(self) -> Course:
        """The course being driven."""
        return self._course

    @property
    def progress_m(self) -> float:
        """Furthest arc length reached in this run; never decreases."""
        return self._progress_m

    @property
    def remaining_m(self) -> float:
        """Course left before the end, from the last reference point; 0 once the end is passed."""
        return max(0.0, self._length_m - self._at_m)

    @property
    def finished(self) -> bool:
        """The end of the course, or of the one lap, has been reached. Stays true."""
        return self._progress_m >= self._finish_m

    def update(self, x_m: float, y_m: float, yaw_rad: float) -> PathPoint:
        """Follow the vehicle to this pose. A pose that is not finite leaves the progress and gives NaN errors; never raises."""
        point = self.locate(x_m, y_m, yaw_rad)
        if isfinite(x_m) and isfinite(y_m):
            self._seen = (x_m, y_m)
            self._at_m = point.s_m
            self._cross_track_m = point.cross_track_m
            if point.s_m > self._progress_m:
                self._progress_m = point.s_m
        return point

    def locate(self, x_m: float, y_m: float, yaw_rad: float) -> PathPoint:
        """The reference point of a pose near the present progress, such as a predicted one, without moving the progress there."""
        if not (isfinite(x_m) and isfinite(y_m)):
            here = self.point_at(self._at_m)
            return PathPoint(self._at_m, nan, nan, here.curvature_per_m, here.speed_mps, here.x_m, here.y_m, here.yaw_rad)
        if self._seen is None:
            low, high = 0.0, self._start_region_m
        else:
            moved = hypot(x_m - self._seen[0], y_m - self._seen[1])
            low = self._at_m - min(BEHIND_M + moved, MAX_WINDOW_M)
            high = self._at_m + min(AHEAD_M + 2.0 * (abs(self._cross_track_m) + moved), MAX_WINDOW_M)
        i, t = self._nearest(x_m, y_m, low, high)
        return self._reference(i, t, x_m, y_m, yaw_rad)

    def _nearest(self, x: float, y: float, low: float, high: float) -> tuple[int, float]:
        """Leg and share of it of the point nearest to (x, y) among arc lengths low to high."""
        xs, ys = self._x, self._y
        first = max(0, bisect_right(self._s, low) - 1)
        stop = min(self._last + 2, bisect_left(self._s, high, first) + 1)
        best, nearest = inf, first
        for k in range(first, stop):
            dx, dy = xs[k] - x, ys[k] - y
            square = dx * dx + dy * dy
            if square < best:
                best, nearest = square, k
        best, at, share = inf, 0, 0.0
        for k in (nearest - 1, nearest):
            if 0 <= k <= self._last:
                t = ((x - xs[k]) * self._dx[k] + (y - ys[k]) * self._dy[k]) * self._inverse[k]
                t = 0.0 if t < 0.0 else min(t, 1.0)
                dx, dy = xs[k] + t * self._dx[k] - x, ys[k] + t * self._dy[k] - y
                square = dx * dx + dy * dy
                if square < best:
                    best, at, share = square, k, t
        return at, share

    def _reference(self, i: int, t: float, x: float, y: float, yaw_rad: float) -> PathPoint:
        s0, yaw0, curvature0, speed0 = self._s[i], self._yaw[i], self._curvature[i], self._speed[i]
        px, py = self._x[i] + t * self._dx[i], self._y[i] + t * self._dy[i]
        yaw = yaw0 + t * (self._yaw[i + 1] - yaw0)
        off_x, off_y = x - px, y - py
        if 0.0 < t < 1.0:
            cross = (self._dx[i] * off_y - self._dy[i] * off_x) * sqrt(self._inverse[i])
        else:
            cross = cos(yaw) * off_y - sin(yaw) * off_x
            if 0 < i + t < self._last + 1:
                # Outside a corner the distance counts, not its share across the mean heading.
                cross = copysign(hypot(off_x, off_y), cross)
        return PathPoint(
            s0 + t * (self._s[i + 1] - s0),
            cross,
            remainder(yaw - yaw_rad, tau) if isfinite(yaw_rad) else nan,
            curvature0 + t * (self._curvature[i + 1] - curvature0),
            speed0 + t * (self._speed[i + 1] - speed0),
            px,
            py,
            remainder(yaw, tau),
        )

    def point_at(self, s_m: float) -> CoursePoint:
        """The place at an arc length, finite. A lap repeats; an open course goes on straight beyond either end."""
        if self._course.closed:
            s_m %= self._length_m
        beyond = 0.0
        if s_m < 0.0:
            beyond, s_m = s_m, 0.0
        elif s_m > self._s[-1]:
            beyond, s_m = s_m - self._s[-1], self._s[-1]
        i = min(max(bisect_right(self._s, s_m) - 1, 0), self._last)
        s0, yaw0, curvature0, speed0 = self._s[i], self._yaw[i], self._curvature[i], self._speed[i]
        t = (s_m - s0) / (self._s[i + 1] - s0)
        yaw = yaw0 + t * (self._yaw[i + 1] - yaw0)
        x, y = self._x[i] + t * self._dx[i], self._y[i] + t * self._dy[i]
        curvature = curvature0 + t * (self._curvature[i + 1] - curvature0)
        if beyond:
            x, y, curvature = x + beyond * cos(yaw), y + beyond * sin(yaw), 0.0
        return CoursePoint(x, y, remainder(yaw, tau), curvature, speed0 + t * (self._speed[i + 1] - speed0))
