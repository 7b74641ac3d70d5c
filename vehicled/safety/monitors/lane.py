"""The lane that the vehicle will sweep, and the free distance along it up to the first of a set of
points.

The body is a rectangle with equal overhangs before and behind the axles. It is moved in steps along
the course, or along the arc of the present wheel angle; a point blocks the lane where the rectangle
first contains it. Bends, the swing of the front and the cut of the rear therefore need no rule of
their own.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from vehicled.core.arrays import Array, arctan2, exp
from vehicled.core.vehicle import Vehicle
from vehicled.paths.arc import on_arc
from vehicled.paths.course import Course
from vehicled.paths.lateral_offset import PlannedOffset

MAX_STATIONS = 64
LEAST_STEP_M = 0.05
CONVERGE_M = 2.0
"""Distance over which the cross-track error decays to a third, m. Until then the course and the
vehicle's own track both count."""


class Stations(NamedTuple):
    """Poses (k,) of the rear axle along the lane; the first is at the vehicle's projection on
    it."""

    way_m: Array
    x_m: Array
    y_m: Array
    yaw_rad: Array
    aside_m: float
    """Offset of the vehicle from the first station, m, positive left."""
    direction: int
    """Direction of travel: 1 forward, -1 backward."""


class CourseLane:
    """Source of stations along a course, up to the next cusp."""

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

    def ahead(
        self,
        progress_m: float,
        cross_track_m: float,
        horizon_m: float,
        offset: PlannedOffset | None = None,
    ) -> Stations:
        """Return the stations from an arc length on, over at most ``horizon_m``. ``cross_track_m``
        is the vehicle's offset.

        With ``offset`` they are those of the path that the controller plans beside the course.
        """
        at_m = (
            progress_m % self._length_m
            if self._closed
            else min(max(progress_m, 0.0), self._length_m)
        )
        # A vehicle at a cusp already belongs to the next leg.
        leg = sum(at_m >= cusp_m for cusp_m in self._cusps_m)
        end_m = (
            self._cusps_m[leg]
            if leg < len(self._cusps_m)
            else float(self._s_m[-1])
            if self._closed
            else self._length_m
        )
        way = _ways(min(horizon_m, end_m - at_m))
        s = at_m + way
        x, y, yaw = (
            np.interp(s, self._s_m, column) for column in (self._x_m, self._y_m, self._yaw_rad)
        )
        if offset is not None:
            aside = offset.at(s)
            x, y, yaw = (
                x - aside * np.sin(yaw),
                y + aside * np.cos(yaw),
                yaw + arctan2(offset.slope(s), 1.0),
            )
            way = np.concatenate([[0.0], np.cumsum(np.hypot(np.diff(x), np.diff(y)))])
            cross_track_m -= float(aside[0])
        return Stations(way, x, y, yaw, cross_track_m, -1 if self._backward[leg] else 1)


def arc(
    x_m: float, y_m: float, yaw_rad: float, curvature_per_m: float, direction: int, horizon_m: float
) -> Stations:
    """Return stations on the circle of the present wheel angle, for a vehicle that follows no
    course."""
    way = _ways(horizon_m)
    return Stations(
        way, *on_arc(x_m, y_m, yaw_rad, curvature_per_m, direction * way), 0.0, direction
    )


def _ways(horizon_m: float) -> Array:
    count = min(MAX_STATIONS, max(2, round(max(horizon_m, 0.0) / LEAST_STEP_M) + 1))
    return np.linspace(0.0, max(horizon_m, 0.0), count)


class LaneBody:
    """The rectangle of a vehicle, with a side clearance."""

    def __init__(self, vehicle: Vehicle, side_m: float) -> None:
        self.outline = vehicle.outline
        self.front_m, self.rear_m, self.half_m = self.outline
        self.reach_m = self.outline.reach_m
        """Distance from the rear axle to the farthest corner, m."""
        self.side_m = side_m

    def holds(self, forward_m: Array, left_m: Array) -> npt.NDArray[np.bool_]:
        """Return a mask of the points, in the body frame, that lie inside the rectangle without
        side clearance."""
        return (
            (forward_m <= self.front_m)
            & (forward_m >= -self.rear_m)
            & (np.abs(left_m) <= self.half_m)
        )

    def free_m(self, lane: Stations, x_m: Array, y_m: Array) -> float:
        """Return the free distance along the lane up to the first of the points (n,); infinite if
        none blocks it."""
        return float(self.contacts_m(lane, x_m, y_m).min(initial=float("inf")))

    def contacts_m(self, lane: Stations, x_m: Array, y_m: Array) -> Array:
        """Return the free distance along the lane up to each of the points (n,); infinite for one
        that does not block it.

        Points within the side clearance at the vehicle's present place are beside it, not ahead:
        only the body itself blocks the lane there, where it turns towards them.
        """
        contacts = np.full(len(x_m), np.inf)
        lead, tail = (
            (self.front_m, self.rear_m) if lane.direction > 0 else (self.rear_m, self.front_m)
        )
        reach = float(lane.way_m[-1]) + lead + 2.0 * self.half_m + self.side_m + abs(lane.aside_m)
        near = np.hypot(x_m - lane.x_m[0], y_m - lane.y_m[0]) <= reach
        if not near.any():
            return contacts
        dx, dy = x_m[near] - lane.x_m[:, None], y_m[near] - lane.y_m[:, None]
        c, s = np.cos(lane.yaw_rad)[:, None], np.sin(lane.yaw_rad)[:, None]
        ahead, left = lane.direction * (c * dx + s * dy), c * dy - s * dx
        aside = lane.aside_m * exp(-lane.way_m / CONVERGE_M)[:, None]
        half = self.half_m + self.side_m
        inside = (
            (ahead <= lead)
            & (ahead >= -tail)
            & (left <= half + np.maximum(aside, 0.0))
            & (left >= np.minimum(aside, 0.0) - half)
        )
        touched = np.abs(left) <= self.half_m
        inside &= ~inside[0] | (touched & ~touched[0])
        met = inside.any(axis=0)
        station = inside[:, met].argmax(axis=0)
        # Between two stations the front meets points ahead; a point that enters from the side
        # counts from the station before.
        reached = lane.way_m[station] - np.maximum(
            lead - ahead[:, met][station, np.arange(len(station))], 0.0
        )
        contacts[np.flatnonzero(near)[met]] = np.maximum(reached, lane.way_m[station - 1])
        return contacts
