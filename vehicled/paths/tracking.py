"""Tracks the projection of the vehicle on its course.

The tracker searches only near its last progress, so a crossing, a parallel lane or the end of a lap
cannot attract it.

A course with reverse parts has a leg from cusp to cusp. The tracker stays on its leg until the
vehicle stands at its end, then changes to the next leg; until then the leg is extended straight.

Plain Python over lists: one update costs a few microseconds, an array search over the course a
hundred.
"""

from array import array
from bisect import bisect_left, bisect_right
from itertools import count, pairwise
from math import copysign, cos, hypot, inf, isfinite, nan, remainder, sin, sqrt, tau
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from vehicled.core.arrays import Array
from vehicled.core.vehicle import STANDSTILL_MPS
from vehicled.paths.course import Course

# How far ahead of and behind the last progress to look, m, beyond what the vehicle moved since.
# Ahead, twice the cross-track error is added: a vehicle that cuts a right-angled corner by e passes
# 2 e of course at once.
AHEAD_M = 0.5
BEHIND_M = 0.3
MAX_WINDOW_M = 4.0
# Length of the window as driving time: a pose is predicted over the delays of steering and tyres.
MAX_WINDOW_S = 2.0
# A lap is followed this far beyond its end, for the vehicle that is still braking.
RUN_OUT_M = 30.0
END_TOLERANCE_M = 0.1
# The vehicle creeps at a change of direction and parks to the centimetre, so it need not stop
# short.
MANOEUVRE_TOLERANCE_M = 0.03

MARGIN = 128
"""Segments on either side of those that are needed which become Python numbers with them."""

_Line = tuple[float, float, float, float, float]
_Values = tuple[float, float, float, float, float, float, float, float]


class CoursePoint(NamedTuple):
    """A place on the course; m, rad (-pi..pi), 1/m, m/s. Yaw, curvature and the sign of the speed
    are the vehicle's."""

    x_m: float
    y_m: float
    yaw_rad: float
    curvature_per_m: float
    speed_mps: float


class PathPoint(Struct, frozen=True, gc=False):
    """The reference point of a pose: the nearest point of the course near the last progress."""

    s_m: float
    """Arc length from the start; on a lap it runs on beyond ``length_m`` after the line is
    crossed."""
    cross_track_m: float
    """Positive when the vehicle is left of the path, seen as it faces, whichever way it drives.
    Beyond an open end or a cusp, offset from the extended tangent."""
    heading_error_rad: float
    """Path minus vehicle, -pi..pi."""
    curvature_per_m: float
    """tan(wheel angle) / wheelbase of a vehicle on the path, whichever way it drives."""
    speed_mps: float
    """Negative where the path is driven backward."""
    x_m: float
    y_m: float
    yaw_rad: float
    """Yaw of a vehicle on the path, -pi..pi; in reverse it moves towards ``yaw_rad`` + pi."""
    direction: int = 1
    """Direction of the current leg: 1 forward, -1 backward."""


class _Samples(NamedTuple):
    """Samples of a course; a lap goes on past its start."""

    columns: tuple[Array, ...]
    """x, y, yaw, curvature, speed and arc length."""
    s_m: "array[float]"
    """Arc length once more, for searches without numpy objects."""
    segments: int


class _Leg(NamedTuple):
    """Samples from one cusp to the next, the ends included, and the way they are driven."""

    first: int
    last: int
    direction: int


class PathTracker:
    """Progress of one run along a course, starting at s = 0.

    ``start_region_m``: the first pose may be anywhere along this much of the course (at most a
    quarter of it). ``end_tolerance_m``: how short of the end counts as finished; a vehicle that
    stops at the end never quite crosses it. ``cusp_tolerance_m``: how short of a cusp counts as
    being there. Both are ``MANOEUVRE_TOLERANCE_M`` on a course with cusps, unless given. ``like``:
    another tracker of the same course, whose samples are used.
    """

    def __init__(
        self,
        course: Course,
        *,
        start_region_m: float = 5.0,
        end_tolerance_m: float | None = None,
        cusp_tolerance_m: float = MANOEUVRE_TOLERANCE_M,
        like: "PathTracker | None" = None,
    ) -> None:
        cusps = course.cusps
        if end_tolerance_m is None:
            end_tolerance_m = MANOEUVRE_TOLERANCE_M if cusps else END_TOLERANCE_M
        self._samples: _Samples = _samples(course) if like is None else like._samples
        self._columns, self._s, self._segments = self._samples
        length = course.length_m
        self._course = course
        self._cusps = cusps
        # Python numbers around the place of the vehicle, made where it goes: those of a long course
        # would take a tenth of a second.
        self._base = self._count = self._low = self._high = 0
        self._x: list[float] = []
        self._y: list[float] = []
        # One tuple per segment between two samples: unpacking it costs far less than separate
        # look-ups.
        self._lines: list[_Line] = []
        self._values: list[_Values] = []
        self._length_m = length
        ends = [0, *cusps, self._segments]
        directions = [-1 if course.speed_mps[first] < 0.0 else 1 for first in ends[:-1]]
        self._legs = [
            _Leg(first, last, d)
            for (first, last), d in zip(pairwise(ends), directions, strict=True)
        ]
        self._ends_m = [self._s[i] for i in cusps] + [length]
        tolerances = [cusp_tolerance_m] * len(cusps) + [end_tolerance_m]
        starts_m = [0.0, *self._ends_m]
        self._reached_m = [
            end - min(tolerance, (end - start) / 4.0)
            for start, end, tolerance in zip(starts_m, self._ends_m, tolerances, strict=False)
        ]
        self._start_region_m = min(start_region_m, length / 4.0)
        self.reset()

    def _look_around(self, first: int, stop: int) -> None:
        """Make the numbers of the samples from ``first`` to before ``stop``, and of some around
        them."""
        begin, end = max(first - MARGIN, 0), min(stop + MARGIN, self._segments)
        self._base, self._count = begin, end - begin
        # Both segments of every sample must be there, but for the ends of the course, which have
        # one.
        self._low, self._high = begin + 1 if begin else 0, end + 1 if end == self._segments else end
        self._x, self._y, self._lines, self._values = self._numbers(begin, end)

    def _numbers(
        self, begin: int, end: int
    ) -> tuple[list[float], list[float], list[_Line], list[_Values]]:
        """Return the places of the samples from ``begin`` to ``end``, and the segments between
        them."""
        # With a type, the compiled build computes without objects.
        lists: list[list[float]] = [column[begin : end + 1].tolist() for column in self._columns]
        xs, ys, yaws, curvatures, speeds, distances = lists
        curvatures_after, speeds_after = curvatures[1:], speeds[1:]
        for i in self._cusps:
            # A cusp has the values of the leg behind it, and the wheels are turned where the
            # vehicle stands: those before it last.
            k = i - 1 - begin
            if 0 <= k < end - begin:
                curvatures_after[k], speeds_after[k] = curvatures[k], speeds[k]
        dxs, dys = _changes(xs, xs[1:]), _changes(ys, ys[1:])
        squares = [dx * dx + dy * dy for dx, dy in zip(dxs, dys)]
        lines = list(zip(xs, ys, dxs, dys, [1.0 / square if square else 0.0 for square in squares]))
        values: list[_Values] = list(
            zip(
                *(distances, _changes(distances, distances[1:]), yaws, _changes(yaws, yaws[1:])),
                *(
                    curvatures,
                    _changes(curvatures, curvatures_after),
                    speeds,
                    _changes(speeds, speeds_after),
                ),
            )
        )
        return xs, ys, lines, values

    def _segment(self, i: int) -> tuple[_Line, _Values]:
        k = i - self._base
        if 0 <= k < self._count:
            return self._lines[k], self._values[k]
        _, _, lines, values = self._numbers(i, i + 1)
        return lines[0], values[0]

    def reset(self, s_m: float | None = None) -> None:
        """Start a new run at the start of the course, or at the arc length that another run
        reached."""
        self._at_m = self._progress_m = 0.0 if s_m is None else s_m
        self._first = (
            (0.0, self._start_region_m) if s_m is None else (s_m - BEHIND_M, s_m + AHEAD_M)
        )
        self._cross_track_m = 0.0
        self._window_m = MAX_WINDOW_M
        self._seen: tuple[float, float] | None = None
        # At a cusp choose the leg before it; a vehicle standing there changes to the next leg with
        # the first pose.
        self._leg = min(bisect_left(self._ends_m, self._at_m), len(self._legs) - 1)

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
    def leg(self) -> int:
        """Number of the present leg, from 0."""
        return self._leg

    @property
    def direction(self) -> int:
        """Direction of the current leg: 1 forward, -1 backward."""
        return self._legs[self._leg].direction

    @property
    def leg_end_m(self) -> float:
        """Arc length at which the present leg ends: a cusp, or the end of the course."""
        return self._ends_m[self._leg]

    @property
    def at_leg_end(self) -> bool:
        """The end of the present leg has been reached: stop there. Stays true until the vehicle
        stands and the next leg begins."""
        return self._progress_m >= self._reached_m[self._leg]

    @property
    def finished(self) -> bool:
        """The end of the course, or of the one lap, has been reached. Stays true."""
        return self._leg == len(self._legs) - 1 and self.at_leg_end

    def update(
        self,
        x_m: float,
        y_m: float,
        yaw_rad: float,
        speed_mps: float = 0.0,
        *,
        turns_back: bool | None = None,
    ) -> PathPoint:
        """Follow the vehicle to this pose; when it stands at a cusp, on to the next leg.

        ``speed_mps`` shows whether it stands; without it, reaching a cusp is enough. ``turns_back``
        says instead whether the next leg may begin. A pose that is not finite leaves the progress
        and gives NaN errors; never raises.
        """
        if turns_back is None:
            turns_back = abs(speed_mps) <= STANDSTILL_MPS
        self._window_m = (
            max(MAX_WINDOW_M, MAX_WINDOW_S * abs(speed_mps))
            if isfinite(speed_mps)
            else MAX_WINDOW_M
        )
        point = self.locate(x_m, y_m, yaw_rad)
        if not (isfinite(x_m) and isfinite(y_m)):
            return point
        self._follow(x_m, y_m, point)
        if turns_back and self._leg < len(self._legs) - 1 and self.at_leg_end:
            self._at_m = self.leg_end_m
            self._leg += 1
            point = self.locate(x_m, y_m, yaw_rad)
            self._follow(x_m, y_m, point)
        return point

    def _follow(self, x_m: float, y_m: float, point: PathPoint) -> None:
        self._seen = (x_m, y_m)
        self._at_m = point.s_m
        self._cross_track_m = point.cross_track_m
        if point.s_m > self._progress_m:
            self._progress_m = point.s_m

    def locate(self, x_m: float, y_m: float, yaw_rad: float) -> PathPoint:
        """Return the reference point of a pose, such as a predicted one, near the current progress
        without changing it."""
        if not (isfinite(x_m) and isfinite(y_m)):
            here = self.point_at(self._at_m)
            x, y, yaw, curvature, speed = here
            return PathPoint(self._at_m, nan, nan, curvature, speed, x, y, yaw, self.direction)
        if self._seen is None:
            low, high = self._first
        else:
            moved = hypot(x_m - self._seen[0], y_m - self._seen[1])
            behind = BEHIND_M + moved
            ahead = AHEAD_M + 2.0 * (abs(self._cross_track_m) + moved)
            most = self._window_m
            low = self._at_m - (behind if behind <= most else most)
            high = self._at_m + (ahead if ahead <= most else most)
        i, t = self._nearest(x_m, y_m, low, high)
        return self._reference(i, t, x_m, y_m, yaw_rad)

    def _nearest(self, x: float, y: float, low: float, high: float) -> tuple[int, float]:
        """Return leg and fraction of it of the point nearest to (x, y) among arc lengths low to
        high."""
        begin, end, _ = self._legs[self._leg]
        first = bisect_right(self._s, low, begin + 1, end + 1) - 1
        stop = bisect_left(self._s, high, first, end) + 1
        if first < self._low or stop > self._high:
            self._look_around(first, stop)
        base, lines = self._base, self._lines
        xs, ys = self._x[first - base : stop - base], self._y[first - base : stop - base]
        # A comprehension over slices: half the time of a loop by index, where this search is most
        # of an update.
        squares = [(px - x) * (px - x) + (py - y) * (py - y) for px, py in zip(xs, ys)]
        nearest = first + squares.index(min(squares)) if squares else first
        best, at, fraction = inf, begin, 0.0
        for k in (nearest - 1, nearest):
            if begin <= k < end:
                px, py, step_x, step_y, inverse = lines[k - base]
                t = ((x - px) * step_x + (y - py) * step_y) * inverse
                t = 0.0 if t < 0.0 else 1.0 if t > 1.0 else t
                dx, dy = px + t * step_x - x, py + t * step_y - y
                square = dx * dx + dy * dy
                if square < best:
                    best, at, fraction = square, k, t
        return at, fraction

    def _reference(self, i: int, t: float, x: float, y: float, yaw_rad: float) -> PathPoint:
        begin, end, direction = self._legs[self._leg]
        (x0, y0, dx, dy, inverse), (s0, ds, yaw0, dyaw, curvature0, dcurvature, speed0, dspeed) = (
            self._segment(i)
        )
        px, py = x0 + t * dx, y0 + t * dy
        yaw = yaw0 + t * dyaw
        off_x, off_y = x - px, y - py
        if 0.0 < t < 1.0:
            cross = direction * (dx * off_y - dy * off_x) * sqrt(inverse)
        else:
            cross = cos(yaw) * off_y - sin(yaw) * off_x
            if begin < i + t < end:
                # Outside a corner the distance counts, not its share across the mean heading.
                cross = copysign(hypot(off_x, off_y), cross)
        return PathPoint(
            s0 + t * ds,
            cross,
            remainder(yaw - yaw_rad, tau) if isfinite(yaw_rad) else nan,
            curvature0 + t * dcurvature,
            speed0 + t * dspeed,
            px,
            py,
            remainder(yaw, tau),
            direction,
        )

    def point_at(self, s_m: float) -> CoursePoint:
        """Return the finite point at an arc length. A lap repeats; an open course, or the present
        leg of one with cusps, goes on straight beyond its ends."""
        if self._course.closed:
            s_m %= self._length_m
        begin, end, direction = self._legs[self._leg]
        beyond = 0.0
        if s_m < self._s[begin]:
            beyond, s_m = s_m - self._s[begin], self._s[begin]
        elif s_m > self._s[end]:
            beyond, s_m = s_m - self._s[end], self._s[end]
        i = bisect_right(self._s, s_m, begin + 1, end) - 1
        (x, y, dx, dy, _), (s0, ds, yaw, dyaw, curvature, dcurvature, speed, dspeed) = (
            self._segment(i)
        )
        t = (s_m - s0) / ds
        x = x + t * dx
        y = y + t * dy
        yaw = yaw + t * dyaw
        curvature = curvature + t * dcurvature
        speed = speed + t * dspeed
        if beyond:
            ahead = direction * beyond
            x, y, curvature = x + ahead * cos(yaw), y + ahead * sin(yaw), 0.0
        return CoursePoint(x, y, remainder(yaw, tau), curvature, speed)


def _samples(course: Course) -> _Samples:
    columns: tuple[Array, ...] = (
        course.x_m, course.y_m, course.yaw_rad, course.curvature_per_m, course.speed_mps,
        course.s_m,
    )  # fmt: skip
    if course.closed:
        columns = _run_on(columns, course.length_m)
    return _Samples(columns, array("d", columns[-1].tobytes()), len(columns[0]) - 1)


def _run_on(columns: tuple[Array, ...], length_m: float) -> tuple[Array, ...]:
    """Return the columns of a lap that goes on past its start, with continuous arc length and
    heading."""
    xs, ys, yaws, curvatures, speeds, distances = columns
    n = len(xs)
    yaw, yaws_after, distances_after = float(yaws[-1]), [], []
    for i in count():
        s_m = float(distances[i % n]) + (i // n + 1) * length_m
        if s_m > length_m + RUN_OUT_M and i > 0:
            break
        yaw += remainder(float(yaws[i % n]) - yaw, tau)
        yaws_after.append(yaw)
        distances_after.append(s_m)
    again = np.arange(len(yaws_after)) % n
    return (
        *(
            np.concatenate((xs, xs[again])),
            np.concatenate((ys, ys[again])),
            np.concatenate((yaws, yaws_after)),
        ),
        *(np.concatenate((column, column[again])) for column in (curvatures, speeds)),
        np.concatenate((distances, distances_after)),
    )


def _changes(values: list[float], after: list[float]) -> list[float]:
    """Return the difference of each value to the next."""
    return [b - a for a, b in zip(values, after)]
