"""Entry point of the next drive on the course: where the last drive ended, or the start of the course.

A drive that was stopped in mid-course resumes there. Between two drives the projection is tracked continuously, whoever moves the
vehicle, so it cannot jump at a crossing or at the end of a lap. A drive never begins on a part of the course that the vehicle has
only come near to.
"""

from math import degrees, hypot, isfinite, pi, sqrt, tau
from typing import NamedTuple

import numpy as np

from vehicled.messages import EstimatorStatus, StateEstimate
from vehicled.paths.course import Course
from vehicled.paths.tracking import END_TOLERANCE_M, PathPoint, PathTracker
from vehicled.vehicle import STANDSTILL_MPS, Limits, Vehicle

CERTAIN_SHARE = 0.5
"""Part of the brake that a stop is certain to have."""
MOST_WAY_PER_WAY, MOST_AT_ONCE_M = 2.0, 1.0
"""Largest motion of the projection: per metre of vehicle motion, as on the inside of a bend, and in one step, m. A larger motion
means that another part of the course was matched."""
BACKWARDS_RAD = 1.6
"""Heading error above which the vehicle would have to turn round before it could follow the course, rad."""


class Entry(NamedTuple):
    """Result of :meth:`CourseEntry.choose`: the entry point of a drive, or why it cannot begin."""

    s_m: float | None = None
    """Arc length at which the drive resumes, m; None at the start of the course."""
    refused: str = ""
    """Reason why the drive cannot begin, with the cure; empty if it can."""
    said: str = ""
    """Text that says where the drive resumes; empty at the start of the course."""


def join(course: Course, pose: tuple[float, float, float], corridor_m: float, most_rad: float) -> Entry:
    """Return the place of the course nearest to a pose (m, m, rad), within the corridor and a heading error; else the reason."""
    x_m, y_m, yaw_rad = pose
    # A box first: a long course would hold the loop.
    near = np.flatnonzero((course.x_m >= x_m - corridor_m) & (course.x_m <= x_m + corridor_m))
    near = near[np.abs(course.y_m[near] - y_m) <= corridor_m]
    off_m = np.hypot(course.x_m[near] - x_m, course.y_m[near] - y_m)
    if not len(near) or not off_m.min() <= corridor_m:
        off_m = np.hypot(course.x_m - x_m, course.y_m - y_m)
        return Entry(refused=f"the vehicle is {off_m.min():.1f} m off the course: take it there, or choose a course that passes it")
    turned = np.abs(np.remainder(course.yaw_rad[near] - yaw_rad + pi, tau) - pi)
    fits = np.flatnonzero((off_m <= corridor_m) & (turned <= most_rad))
    if not len(fits):
        wrong = f"{degrees(turned[off_m.argmin()]):.0f} degrees to the course there (limit {degrees(most_rad):.0f})"
        return Entry(refused=f"the vehicle stands at {wrong}: turn it round, or choose a course in its direction")
    best = int(near[fits[off_m[fits].argmin()]])
    s_m = float(course.s_m[best])
    if not course.closed and course.length_m - s_m <= END_TOLERANCE_M:
        return Entry(refused="the vehicle is at the end of the course: nothing is left to drive")
    return Entry(s_m, said=f"joined at {s_m:.1f} m of {course.length_m:.0f} m")


JOIN_RAD = 0.5
"""Largest heading error at which a moving vehicle may change to another course, rad."""


def join_moving(course: Course, estimate: StateEstimate, vehicle: Vehicle, limits: Limits) -> Entry:
    """Return the place at which a moving vehicle may change to another course, or why not.

    It must be able to follow: the course goes on for its stopping distance, and no bend ahead is too tight for its speed.
    """
    found = join(course, (estimate.x_m, estimate.y_m, estimate.yaw_rad), limits.corridor_m, JOIN_RAD)
    if found.s_m is None:
        return found
    at = int(np.searchsorted(course.s_m, found.s_m))
    speed_mps, backward = estimate.speed_mps, bool(course.speed_mps[at] < 0.0)
    if backward is not (speed_mps < 0.0) and abs(speed_mps) > STANDSTILL_MPS:
        return Entry(refused="the course is driven in the other direction there: stop first, then choose it")
    deceleration_mps2 = CERTAIN_SHARE * vehicle.drive.brake_deceleration_mps2 - vehicle.drive.acceleration_mps2(0.0, 0.0)
    square = speed_mps * speed_mps
    stop_m = square / (2.0 * max(deceleration_mps2, 0.05))
    # Only what lies ahead within the stopping distance: a long course would hold the loop.
    part = slice(at, int(np.searchsorted(course.s_m, found.s_m + stop_m, side="right")))
    ahead_m, curvature = course.s_m[part] - found.s_m, course.curvature_per_m[part]
    if course.closed and (beyond_m := found.s_m + stop_m - course.length_m) >= 0.0:
        # A lap that joins shortly before its end goes on at its start.
        again = slice(0, int(np.searchsorted(course.s_m, beyond_m, side="right")))
        ahead_m = np.append(ahead_m, course.s_m[again] + course.length_m - found.s_m)
        curvature = np.append(curvature, course.curvature_per_m[again])
    if not course.closed and course.length_m - found.s_m < stop_m:
        left = f"{course.length_m - found.s_m:.1f} m of the course are left, and a stop takes {stop_m:.1f} m"
        return Entry(refused=f"{left}: lower the speed first, or choose a longer course")
    nearest_m = min((wait.s_m - found.s_m for wait in course.waits if wait.s_m > found.s_m), default=stop_m)
    if nearest_m < stop_m:
        return Entry(refused=f"a wait is {nearest_m:.1f} m ahead, and a stop takes {stop_m:.1f} m: lower the speed first")
    possible = limits.max_lateral_acceleration_mps2 / np.maximum(np.abs(curvature), 1e-9)
    excess = square - 2.0 * deceleration_mps2 * ahead_m - possible
    if len(excess) and excess.max() > 0.0:
        worst = int(excess.argmax())
        bend = f"the bend {ahead_m[worst]:.1f} m ahead can be driven at {sqrt(possible[worst]):.2f} m/s"
        return Entry(refused=f"{bend}, and the vehicle drives at {abs(speed_mps):.2f} m/s: lower the speed first")
    return found


class CourseEntry:
    """Tracker of the vehicle's place on the course between two drives. It chooses the entry point of the next drive."""

    def __init__(self, course: Course, corridor_m: float, *, anywhere: bool = False) -> None:
        """``anywhere``: the first drive may begin at any place of the course, not only at its start."""
        self._length_m, self._corridor_m = course.length_m, corridor_m
        self._anywhere = course if anywhere else None
        self._start = PathTracker(course)
        """Tracker that stays at the start of the course."""
        self._place = PathTracker(course)
        self._left_m: float | None = None
        """Arc length at which the last drive ended, m; None before the first drive."""
        self._follows = False
        self._before = 0.0, 0.0
        self._at_m = self._slack_m = 0.0

    def driven_to(self, progress_m: float) -> None:
        """Note the arc length of the present drive. A value that is not finite is ignored."""
        if isfinite(progress_m):
            self._left_m, self._follows = progress_m, False

    def follow(self, estimate: StateEstimate) -> None:
        """Track the vehicle between two drives. An unusable estimate is ignored."""
        if self._left_m is None or not _usable(estimate):
            return
        x, y = estimate.x_m, estimate.y_m
        if not self._follows:
            self._follows, self._before, self._at_m, self._slack_m = True, (x, y), self._left_m, MOST_AT_ONCE_M
            self._place.reset(self._left_m)
        moved_m = hypot(x - self._before[0], y - self._before[1])
        self._before = x, y
        self._slack_m = min(self._slack_m + MOST_WAY_PER_WAY * moved_m, MOST_AT_ONCE_M)
        here = self._place.locate(x, y, estimate.yaw_rad)
        way_m = abs(here.s_m - self._at_m)
        if way_m <= self._slack_m:
            self._slack_m -= way_m
            self._at_m = here.s_m
            self._place.update(x, y, estimate.yaw_rad, estimate.speed_mps)

    def choose(self, estimate: StateEstimate | None) -> Entry:
        """Return the entry point: where the last drive ended if the vehicle is still there, else the start of the course."""
        if estimate is None or not _usable(estimate):
            return Entry()
        pose = estimate.x_m, estimate.y_m, estimate.yaw_rad
        start = self._start.locate(*pose)
        off_start = self._off(abs(start.cross_track_m), start)
        if self._left_m is None and self._anywhere is not None and off_start:
            return join(self._anywhere, pose, self._corridor_m, BACKWARDS_RAD)
        if self._left_m is None:
            return Entry(refused=f"the vehicle {off_start[0]}: {off_start[1]}" if off_start else "")
        if not self._follows:
            self.follow(estimate)
        here, length_m = self._place.locate(*pose), self._length_m
        # The cross-track error is not defined beyond a cusp, so the distance counts.
        off = self._off(hypot(estimate.x_m - here.x_m, estimate.y_m - here.y_m), here)
        driven = self._place.remaining_m <= END_TOLERANCE_M
        if not off and not driven:
            return Entry(here.s_m, said=f"resumed at {here.s_m:.1f} m of {length_m:.0f} m")
        if not off_start:
            return Entry()
        if driven or off is None:
            return Entry(refused=f"the course is driven to its end, and the vehicle {off_start[0]} at its start: take it there")
        (wrong, cure), place = off, f"at {here.s_m:.1f} m of {length_m:.0f} m, where its drive ended"
        return Entry(refused=f"the vehicle {wrong} {place}: {cure} by hand, or take it to the start of the course")

    def _off(self, distance_m: float, point: PathPoint) -> tuple[str, str] | None:
        """Return why a drive cannot begin at this distance from ``point``, and the cure; None if it can."""
        if not distance_m <= self._corridor_m:
            return f"stands {distance_m:.1f} m off the course", "move it into the corridor"
        if not abs(point.heading_error_rad) <= BACKWARDS_RAD:
            return "points backwards along the course", "turn it round"
        return None


def _usable(estimate: StateEstimate) -> bool:
    return estimate.status is EstimatorStatus.RUNNING and isfinite(
        estimate.x_m + estimate.y_m + estimate.yaw_rad + estimate.speed_mps
    )
