"""The lane that the vehicle is about to sweep, and how far along it the first of a set of points stands.

The body is a rectangle about the rear axle, its overhangs before and behind the axles alike. It is moved along the course, or along
the arc of its wheels, in steps; a point is met where the rectangle first holds it. Bends, the swing of the front and the cut of the
rear need no rule of their own.
"""

from math import hypot
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from vehicled.paths.course import Course
from vehicled.vehicle import Vehicle

Array = npt.NDArray[np.float64]

MAX_STATIONS = 64
LEAST_STEP_M = 0.05
CONVERGE_M = 2.0
"""Way over which a vehicle beside its course comes back to it, to a third. Until then both the course and its own track count."""


class Stations(NamedTuple):
    """Poses (k,) of the rear axle along the lane, the first where the vehicle is now."""

    way_m: Array
    x_m: Array
    y_m: Array
    yaw_rad: Array
    aside_m: float = 0.0
    """How far left of the first station the vehicle itself is."""
    direction: int = 1
    """-1 where it is driven backward."""


class CourseLane:
    """Stations along a course, up to where its direction changes."""

    def __init__(self, course: Course) -> None:
        s, x, y, yaw = course.s_m, course.x_m, course.y_m, course.yaw_rad
        self._length_m = course.length_m
        self._closed = course.closed
        if course.closed:
            turn = 2.0 * np.pi * round(float(yaw[-1] - yaw[0]) / (2.0 * np.pi))
            s, x, y = np.append(s, s + course.length_m), np.append(x, x), np.append(y, y)
            yaw = np.append(yaw, yaw + turn)
        self._s_m, self._x_m, self._y_m, self._yaw_rad = s, x, y, yaw
        self._cusps_m = [float(course.s_m[k]) for k in course.cusps]
        self._backward = [bool(course.speed_mps[k] < 0.0) for k in (0, *course.cusps)]

    def ahead(self, progress_m: float, cross_track_m: float, horizon_m: float) -> Stations:
        """From an arc length on, over at most ``horizon_m``. ``cross_track_m`` is the vehicle's, positive left."""
        at_m = progress_m % self._length_m if self._closed else min(max(progress_m, 0.0), self._length_m)
        # At a cusp the vehicle is on its way out of it.
        leg = sum(at_m >= cusp_m for cusp_m in self._cusps_m)
        end_m = self._cusps_m[leg] if leg < len(self._cusps_m) else float(self._s_m[-1]) if self._closed else self._length_m
        way = _ways(min(horizon_m, end_m - at_m))
        s = at_m + way
        return Stations(
            way,
            np.interp(s, self._s_m, self._x_m),
            np.interp(s, self._s_m, self._y_m),
            np.interp(s, self._s_m, self._yaw_rad),
            cross_track_m,
            -1 if self._backward[leg] else 1,
        )


def arc(x_m: float, y_m: float, yaw_rad: float, curvature_per_m: float, direction: int, horizon_m: float) -> Stations:
    """Stations on the circle that the wheels are set to: where a vehicle goes that follows no course."""
    way = _ways(horizon_m)
    turned = direction * way * curvature_per_m
    chord = direction * way * np.sinc(turned / (2.0 * np.pi))
    middle = yaw_rad + 0.5 * turned
    return Stations(way, x_m + chord * np.cos(middle), y_m + chord * np.sin(middle), yaw_rad + turned, 0.0, direction)


def _ways(horizon_m: float) -> Array:
    count = min(MAX_STATIONS, max(2, round(max(horizon_m, 0.0) / LEAST_STEP_M) + 1))
    return np.linspace(0.0, max(horizon_m, 0.0), count)


class Body:
    """The rectangle of a vehicle, with room beside it."""

    def __init__(self, vehicle: Vehicle, side_m: float) -> None:
        self.front_m = 0.5 * vehicle.length_m + vehicle.centre_m
        self.rear_m = 0.5 * vehicle.length_m - vehicle.centre_m
        self.half_m = 0.5 * vehicle.width_m
        self.reach_m = hypot(max(self.front_m, self.rear_m), self.half_m)
        """From the rear axle to the furthest corner."""
        self._side_m = side_m

    def holds(self, forward_m: Array, left_m: Array) -> npt.NDArray[np.bool_]:
        """Which points, in body axes, lie inside the bare rectangle."""
        return (forward_m <= self.front_m) & (forward_m >= -self.rear_m) & (np.abs(left_m) <= self.half_m)

    def free_m(self, lane: Stations, x_m: Array, y_m: Array) -> float:
        """Way along the lane until the first of the points (n,) is met; infinite when none is.

        What stands beside the vehicle already, within the room that is wanted there, is not ahead and does not count.
        """
        lead, tail = (self.front_m, self.rear_m) if lane.direction > 0 else (self.rear_m, self.front_m)
        reach = float(lane.way_m[-1]) + lead + 2.0 * self.half_m + self._side_m + abs(lane.aside_m)
        near = np.hypot(x_m - lane.x_m[0], y_m - lane.y_m[0]) <= reach
        if not near.any():
            return float("inf")
        dx, dy = x_m[near] - lane.x_m[:, None], y_m[near] - lane.y_m[:, None]
        c, s = np.cos(lane.yaw_rad)[:, None], np.sin(lane.yaw_rad)[:, None]
        ahead, left = lane.direction * (c * dx + s * dy), c * dy - s * dx
        aside = lane.aside_m * np.exp(-lane.way_m / CONVERGE_M)[:, None]
        half = self.half_m + self._side_m
        inside = (
            (ahead <= lead) & (ahead >= -tail) & (left <= half + np.maximum(aside, 0.0)) & (left >= np.minimum(aside, 0.0) - half)
        )
        inside &= ~inside[0]
        met = inside.any(axis=0)
        if not met.any():
            return float("inf")
        station = inside[:, met].argmax(axis=0)
        # Between two stations the front reaches what comes from ahead; what comes in from the side counts from the one before.
        reached = lane.way_m[station] - np.maximum(lead - ahead[:, met][station, np.arange(len(station))], 0.0)
        return float(np.maximum(reached, lane.way_m[station - 1]).min())
