"""The course as arrays, for finding the feet of a whole predicted motion at once.

A :class:`~vehicled.paths.tracking.PathTracker` follows one pose in plain Python; twenty poses at a time are a matter for numpy.
Each leg (a part driven in one direction) is a table of its own, continued straight before and behind, so that a motion that
overshoots its end still has a line to be judged by, and never one of the next leg.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from math import remainder, tau

import numpy as np
import numpy.typing as npt

from vehicled.control.qp import Array, Complex
from vehicled.control.speed import SpeedProfile
from vehicled.paths.course import Course

Rows = npt.NDArray[np.intp]

WINDOW = 64
"""Samples searched for feet."""
BEHIND_M = 1.5
"""How much of the window lies behind the foot of the first pose."""
MARGIN_M = 2.0
"""How much of it lies beyond the way of the horizon, for motions that cut a corner."""
LAP_RUN_OUT_M = 30.0
"""How far a lap goes on after its end; as the tracker's."""
MAX_CURVATURE_PER_M = 5.0
"""Of the correction between two samples. Where the line is a corner there is no arc between them."""


class Leg:
    """Samples of one leg in driving order, as complex numbers x + iy relative to ``origin`` (for the sake of precision).

    ``start_m`` and ``end_m`` are the arc lengths between which the leg lies on the course.
    """

    def __init__(
        self, s_m: Array, x_m: Array, y_m: Array, yaw_rad: Array, speed_mps: Array, direction: int, reach_m: float
    ) -> None:
        """Arrays (n,), n >= 2; speed >= 0; yaw of the vehicle, unwrapped. Continued by ``reach_m`` ahead and BEHIND_M behind."""
        self.direction = direction
        self.start_m, self.end_m = float(s_m[0]), float(s_m[-1])
        spacing = max((self.end_m - self.start_m) / (len(s_m) - 1), 1e-3)
        self.spacing_m = spacing
        self.origin = complex(x_m[0], y_m[0])
        place = (x_m + 1j * y_m) - self.origin
        before = spacing * np.arange(-int((BEHIND_M + reach_m) / spacing) - 1, 0)
        after = spacing * np.arange(1, int(2.0 * (reach_m + MARGIN_M) / spacing) + 2 * WINDOW)
        self.place: Complex = np.concatenate(
            (
                place[0] + direction * before * np.exp(1j * yaw_rad[0]),
                place,
                place[-1] + direction * after * np.exp(1j * yaw_rad[-1]),
            )
        )
        self._ends = (len(before), len(after))
        self.yaw_rad: Array = np.pad(yaw_rad, self._ends, mode="edge")
        self.yaw_list: list[float] = self.yaw_rad.tolist()
        self.drive_at(speed_mps)
        self.s_m: Array = np.concatenate((s_m[0] + before, s_m, s_m[-1] + after))
        curvature = direction * np.gradient(self.yaw_rad, self.s_m)
        self.curvature_per_m: Array = np.clip(curvature, -MAX_CURVATURE_PER_M, MAX_CURVATURE_PER_M)
        self.back_tangent: Complex = np.exp(-1j * self.yaw_rad)
        """Conjugate of the heading: turns a difference of places into (along, left)."""
        # |p - P|^2 - |p|^2 = |P|^2 - 2 p . P: one small product gives the distances of all pairs.
        self._minus_twice = np.vstack((-2.0 * self.place.real, -2.0 * self.place.imag))
        self._square: Array = np.abs(self.place) ** 2
        self._s_list: list[float] = self.s_m.tolist()

    def drive_at(self, speed_mps: Array) -> None:
        """Other speeds (n,) >= 0 of the same samples."""
        self.speed_mps: Array = np.pad(speed_mps, self._ends, mode="edge")

    def row(self, s_m: float) -> int:
        """Sample at or before an arc length."""
        return min(max(bisect_right(self._s_list, s_m) - 1, 0), len(self._s_list) - 1)

    def nearest(self, places: Array, row: int, way_m: float) -> Rows:
        """Rows of the samples nearest to places (N, 2), relative to the origin, among the samples that a motion can reach which has
        its foot at ``row`` and goes ``way_m`` >= 0.
        """
        stride = int((way_m + BEHIND_M + MARGIN_M) / (WINDOW * self.spacing_m)) + 1
        first = row - int(BEHIND_M / self.spacing_m)
        first = max(min(first, len(self._square) - WINDOW * stride), 0)
        window = slice(first, first + WINDOW * stride, stride)
        distance = np.matmul(places, self._minus_twice[:, window])
        distance += self._square[window]
        rows: Rows = distance.argmin(axis=1)
        if stride > 1:
            rows *= stride
        rows += first
        return rows


def legs(course: Course, profile: SpeedProfile, reach_m: float) -> list[Leg]:
    """The legs of a course, numbered as the tracker does; speeds are those of the profile. ``reach_m`` is the longest way that a
    horizon covers.
    """
    s, x, y, yaw = course.s_m, course.x_m, course.y_m, course.yaw_rad
    if course.closed:
        n = len(s)
        index = _index(course)
        lap = index // n
        turn = yaw[-1] - yaw[0] + remainder(yaw[0] - yaw[-1], tau)
        speed = _speeds(course, profile, 0)
        s, x, y, yaw = s[index % n] + lap * course.length_m, x[index % n], y[index % n], yaw[index % n] + lap * turn
        return [Leg(s, x, y, yaw, speed, 1, reach_m)]
    found = []
    for number, (first, last) in enumerate(pairwise([0, *course.cusps, len(s) - 1])):
        # A cusp belongs to both of its legs; the vehicle does not turn there.
        part = slice(first, last + 1)
        direction = -1 if course.speed_mps[first] < 0.0 else 1
        found.append(Leg(s[part], x[part], y[part], yaw[part], _speeds(course, profile, number), direction, reach_m))
    return found


def drive_at(found: Sequence[Leg], course: Course, profile: SpeedProfile) -> None:
    """Give the legs of a course the speeds of another profile."""
    for number, leg in enumerate(found):
        leg.drive_at(_speeds(course, profile, number))


def _speeds(course: Course, profile: SpeedProfile, leg: int) -> Array:
    speeds = profile.speeds_mps(leg)
    return speeds[_index(course) % len(course.s_m)] if course.closed else speeds


def _index(course: Course) -> Rows:
    """Samples of a lap and its run-out, counted on behind the lap."""
    n = len(course.s_m)
    return np.arange(n + int(LAP_RUN_OUT_M / (course.length_m / n)) + 1)
