"""Corners of the course that are tighter than the vehicle can turn; the turn must begin before
them."""

from bisect import bisect_right
from collections.abc import Callable
from math import atan2, cos, sin

import numpy as np

from vehicled.control.preview import Preview
from vehicled.paths.course import Course
from vehicled.paths.tracking import CoursePoint

REACHES = (0.8, 1.3, 2.0)
"""Candidate points behind a corner, in turning radii along the course: the last is in reach at a
right angle, the others at blunter corners."""

PAST_CORNER_M = 0.3
"""Distance for which a passed corner still counts, m; up to there the line's direction is the mean
over both legs."""


def arc_to(preview: Preview, x_m: float, y_m: float) -> tuple[float, float]:
    """Return curvature (1/m, left positive) and bearing (rad) of the arc from the predicted pose,
    tangent to its yaw, through a point.

    A point behind the vehicle gives a tight arc towards it, 2 / distance.
    """
    dx, dy = x_m - preview.x_m, y_m - preview.y_m
    c, s = cos(preview.yaw_rad), sin(preview.yaw_rad)
    forward, left = c * dx + s * dy, c * dy - s * dx
    square = forward * forward + left * left
    if square < 1e-6:
        square = 1e-6
    bearing = atan2(left, forward)
    if forward < 0.0:
        return (2.0 if left >= 0.0 else -2.0) / square**0.5, bearing
    return 2.0 * left / square, bearing


class Corners:
    """Index of the corners of a course that are tighter than a turning radius; the radius may
    change while driving."""

    def __init__(self, course: Course) -> None:
        self._course = course
        self._radius_m = 0.0
        self._at_m: list[float] = []

    def next_m(self, s_m: float, radius_m: float) -> float:
        """Return the arc length of the next corner, or of a corner just passed; infinite if there
        are none."""
        if radius_m != self._radius_m:
            course, self._radius_m = self._course, radius_m
            tight = course.s_m[np.abs(course.curvature_per_m) * radius_m > 1.0].tolist()
            self._at_m = tight + [s + course.length_m for s in tight] if course.closed else tight
        corner = bisect_right(self._at_m, s_m - PAST_CORNER_M)
        return self._at_m[corner] if corner < len(self._at_m) else float("inf")

    def near(self, s_m: float, radius_m: float) -> bool:
        """True if a corner is so near that a vehicle with this turning radius may have to begin its
        turn."""
        return self.next_m(s_m, radius_m) <= s_m + REACHES[-1] * radius_m


def turn_in(
    point_at: Callable[[float], CoursePoint],
    ahead: Preview,
    s_m: float,
    curvature: float,
    radius_m: float,
    fraction: float,
) -> float:
    """Return the curvature to steer near a corner tighter than ``radius_m``, where the steering law
    alone would steer ``curvature``.

    ``ahead`` faces the direction of motion; ``s_m`` is its arc length. The turn begins as soon as
    an arc to a point behind the corner needs ``fraction`` of the tightest curvature; later, that
    point would be out of reach. At a right angle this is one turning radius before the corner.
    """
    needed = fraction / radius_m
    for reach in REACHES:
        point = point_at(s_m + reach * radius_m)
        arc, _ = arc_to(ahead, point.x_m, point.y_m)
        if abs(arc) > needed:
            curvature, needed = arc, abs(arc)
    return curvature
