"""Corners in the line that are tighter than the vehicle can turn: the turn must begin before them."""

from bisect import bisect_right
from collections.abc import Callable
from math import atan2, cos, sin

import numpy as np

from vehicled.control.preview import Preview
from vehicled.paths.course import Course
from vehicled.paths.tracking import CoursePoint

REACHES = (0.8, 1.3, 2.0)
"""Points behind a corner that are tried, in turning radii along the course: the last is just in reach at a right angle, the others
serve blunter corners."""

PAST_CORNER_M = 0.3
"""A corner counts until it lies this far behind: there the line's direction is still its mean over both legs."""


def arc_to(preview: Preview, x_m: float, y_m: float) -> tuple[float, float]:
    """Curvature (1/m, positive left) of the arc from the predicted rear axle, tangent to its yaw, through a point; and the point's
    bearing (rad). A point behind is answered by the tightest sensible arc towards it, 2 over its distance.
    """
    dx, dy = x_m - preview.x_m, y_m - preview.y_m
    c, s = cos(preview.yaw_rad), sin(preview.yaw_rad)
    forward, left = c * dx + s * dy, c * dy - s * dx
    square = max(forward * forward + left * left, 1e-6)
    bearing = atan2(left, forward)
    if forward < 0.0:
        return (2.0 if left >= 0.0 else -2.0) / square**0.5, bearing
    return 2.0 * left / square, bearing


class Corners:
    """The corners of a course that are tighter than a turning radius, which may be learnt while driving."""

    def __init__(self, course: Course) -> None:
        self._course = course
        self._radius_m = 0.0
        self._at_m: list[float] = []

    def next_m(self, s_m: float, radius_m: float) -> float:
        """Arc length of the next one from a place on, or of one just passed; infinite without any."""
        if radius_m != self._radius_m:
            course, self._radius_m = self._course, radius_m
            tight = course.s_m[np.abs(course.curvature_per_m) * radius_m > 1.0].tolist()
            self._at_m = tight + [s + course.length_m for s in tight] if course.closed else tight
        corner = bisect_right(self._at_m, s_m - PAST_CORNER_M)
        return self._at_m[corner] if corner < len(self._at_m) else float("inf")

    def near(self, s_m: float, radius_m: float) -> bool:
        """Whether one is so near to a place that a vehicle with this turning radius may have to begin its turn."""
        return self.next_m(s_m, radius_m) <= s_m + REACHES[-1] * radius_m


def turn_in(
    point_at: Callable[[float], CoursePoint], ahead: Preview, s_m: float, curvature: float, radius_m: float, share: float
) -> float:
    """Curvature to steer near a corner tighter than ``radius_m``, where a law alone would steer ``curvature``. ``ahead`` faces the
    way it moves, ``s_m`` is its place on the course.

    Such a corner is missed unless the turn begins before it: as soon as an arc to a point behind it asks for the ``share`` of all
    the vehicle has, since later that point is out of reach. At a right angle this is one turning radius ahead, the fillet of the
    corner.
    """
    needed = share / radius_m
    for reach in REACHES:
        point = point_at(s_m + reach * radius_m)
        arc, _ = arc_to(ahead, point.x_m, point.y_m)
        if abs(arc) > needed:
            curvature, needed = arc, abs(arc)
    return curvature
