"""Course as numpy arrays, to project all poses of a predicted motion at once.

:class:`~vehicled.paths.tracking.PathTracker` follows one pose in plain Python; a horizon has
twenty. Each leg (driven in one direction) is a table of its own with straight extensions at both
ends, so a motion that overshoots is measured against its own leg.
"""

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from math import remainder, tau

import numpy as np
import numpy.typing as npt

from vehicled.control.mpc.qp import Complex
from vehicled.control.speed import SpeedProfile
from vehicled.core.arrays import Array
from vehicled.paths.course import Course

Rows = npt.NDArray[np.intp]

WINDOW = 64
"""Samples in the search window for projections."""
BEHIND_M = 1.5
"""Length of the window behind the projection of the first pose, m."""
MARGIN_M = 2.0
"""Length of the window beyond the distance of the horizon, m, for motions that cut a corner."""
LAP_RUN_OUT_M = 30.0
"""Length by which a lap continues after its end, m; the tracker uses the same."""
_COLUMNS = np.arange(WINDOW)
MAX_CURVATURE_PER_M = 5.0
"""Largest curvature for the correction between two samples, 1/m; a corner in the line has no
arc."""


class Leg:
    """Samples of one leg in driving order, as complex numbers x + iy relative to ``origin``, for
    numerical precision.

    ``start_m`` and ``end_m`` are the arc lengths of its ends on the course.
    """

    def __init__(
        self,
        s_m: Array,
        x_m: Array,
        y_m: Array,
        yaw_rad: Array,
        speed_mps: Array,
        direction: int,
        reach_m: float,
    ) -> None:
        """Take arrays (n,), n >= 2; speed >= 0; unwrapped vehicle yaw. Extend them by ``reach_m``
        ahead and BEHIND_M behind."""
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
        self.yaw_list = array("d", self.yaw_rad.tobytes())
        self.drive_at(speed_mps)
        self.s_m: Array = np.concatenate((s_m[0] + before, s_m, s_m[-1] + after))
        curvature = direction * np.gradient(self.yaw_rad, self.s_m)
        self.curvature_per_m: Array = np.clip(curvature, -MAX_CURVATURE_PER_M, MAX_CURVATURE_PER_M)
        self.back_tangent: Complex = np.exp(-1j * self.yaw_rad)
        """Conjugate of the heading; rotates a difference of positions into (along, left)."""
        # |p - P|^2 - |p|^2 = |P|^2 - 2 p . P: one small product gives the distances of all pairs.
        self._minus_twice = np.vstack((-2.0 * self.place.real, -2.0 * self.place.imag))
        self._square: Array = np.abs(self.place) ** 2
        self._s_list = array("d", self.s_m.tobytes())

    def drive_at(self, speed_mps: Array) -> None:
        """Replace the speeds (n,) >= 0 of the samples."""
        self.speed_mps: Array = np.pad(speed_mps, self._ends, mode="edge")

    def row(self, s_m: float) -> int:
        """Return the index of the sample at or before an arc length."""
        return min(max(bisect_right(self._s_list, s_m) - 1, 0), len(self._s_list) - 1)

    def nearest(self, places: Array, row: int, distance_m: Array) -> Rows:
        """Return the indices of the samples nearest to ``places`` (N, 2), relative to the origin.

        The search covers what a motion can reach from the projection at ``row`` after the distances
        ``distance_m`` (N,) >= 0, each place by its own: where the course comes back to itself, a
        later part may be nearer.
        """
        stride = int((float(distance_m[-1]) + BEHIND_M + MARGIN_M) / (WINDOW * self.spacing_m)) + 1
        first = row - int(BEHIND_M / self.spacing_m)
        first = max(min(first, len(self._square) - WINDOW * stride), 0)
        window = slice(first, first + WINDOW * stride, stride)
        distance = np.matmul(places, self._minus_twice[:, window])
        distance += self._square[window]
        reach = (row - first + (distance_m + MARGIN_M) / self.spacing_m) / stride
        np.copyto(distance, np.inf, where=reach[:, np.newaxis] < _COLUMNS)
        rows: Rows = distance.argmin(axis=1)
        if stride > 1:
            rows *= stride
        rows += first
        return rows


def legs(course: Course, profile: SpeedProfile, reach_m: float) -> list[Leg]:
    """Return the legs of a course, numbered as in the tracker, with the speeds of the profile.
    ``reach_m`` is the longest horizon distance."""
    s, x, y, yaw = course.s_m, course.x_m, course.y_m, course.yaw_rad
    if course.closed:
        n = len(s)
        index = _index(course)
        lap = index // n
        turn = yaw[-1] - yaw[0] + remainder(yaw[0] - yaw[-1], tau)
        speed = _speeds(course, profile, 0)
        s = s[index % n] + lap * course.length_m
        x = x[index % n]
        y = y[index % n]
        yaw = yaw[index % n] + lap * turn
        return [Leg(s, x, y, yaw, speed, 1, reach_m)]
    found = []
    for number, (first, last) in enumerate(pairwise([0, *course.cusps, len(s) - 1])):
        # A cusp belongs to both of its legs; the vehicle does not turn there.
        part = slice(first, last + 1)
        direction = -1 if course.speed_mps[first] < 0.0 else 1
        found.append(
            Leg(
                s[part],
                x[part],
                y[part],
                yaw[part],
                _speeds(course, profile, number),
                direction,
                reach_m,
            )
        )
    return found


def drive_at(found: Sequence[Leg], course: Course, profile: SpeedProfile) -> None:
    """Set the speeds of the legs from another profile."""
    for number, leg in enumerate(found):
        leg.drive_at(_speeds(course, profile, number))


def _speeds(course: Course, profile: SpeedProfile, leg: int) -> Array:
    speeds = profile.speeds_mps(leg)
    return speeds[_index(course) % len(course.s_m)] if course.closed else speeds


def _index(course: Course) -> Rows:
    """Return the sample indices of a lap and its extension."""
    n = len(course.s_m)
    return np.arange(n + int(LAP_RUN_OUT_M / (course.length_m / n)) + 1)
