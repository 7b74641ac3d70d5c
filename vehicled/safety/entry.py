"""Where on its course the next drive begins: where the last one ended, or at the start.

A drive that was stopped in mid-course goes on from there. Between two drives the place is followed by continuity, whoever moves
the vehicle, so that a crossing or the end of a lap cannot catch it; a drive never begins at a part of the course that the vehicle
has only come near to.
"""

from math import hypot, isfinite
from typing import NamedTuple

from vehicled.messages import EstimatorStatus, StateEstimate
from vehicled.paths.course import Course
from vehicled.paths.tracking import END_TOLERANCE_M, PathPoint, PathTracker

MOST_WAY_PER_WAY, MOST_AT_ONCE_M = 2.0, 1.0
"""The place moves along the course by at most so much for each metre that the vehicle moves, as on the inside of a bend, and at
once. What would move it further is another part of the course."""
BACKWARDS_RAD = 1.6
"""Beyond this the vehicle would have to turn before it could follow the course."""


class Entry(NamedTuple):
    """Where a drive would begin now."""

    s_m: float | None = None
    """Arc length at which it goes on; None at the start of the course."""
    refused: str = ""
    """Why it cannot begin, with the cure, in words; empty when it can."""
    said: str = ""
    """Where it goes on, in words; empty at the start."""


class CourseEntry:
    """Keeps the place between two drives and judges it when one is asked for."""

    def __init__(self, course: Course, corridor_m: float) -> None:
        self._length_m, self._corridor_m = course.length_m, corridor_m
        self._start = PathTracker(course)
        """Never moved: it looks at the start only."""
        self._place = PathTracker(course)
        self._left_m: float | None = None
        """Where the last drive was seen last; None before the first."""
        self._follows = False
        self._before = 0.0, 0.0
        self._at_m = self._slack_m = 0.0

    def driven_to(self, progress_m: float) -> None:
        """A drive is at this arc length. What is not finite is passed over."""
        if isfinite(progress_m):
            self._left_m, self._follows = progress_m, False

    def follow(self, estimate: StateEstimate) -> None:
        """No drive goes on; the vehicle is here all the same. An estimate that is not to be relied on is passed over."""
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
        """Where a drive would begin from here: where the last one ended if the vehicle is still there, else at the start."""
        if estimate is None or not _usable(estimate):
            return Entry()
        pose = estimate.x_m, estimate.y_m, estimate.yaw_rad
        start = self._start.locate(*pose)
        off_start = self._off(abs(start.cross_track_m), start)
        if self._left_m is None:
            return Entry(refused=f"the vehicle {off_start[0]}: {off_start[1]}" if off_start else "")
        if not self._follows:
            self.follow(estimate)
        here, length_m = self._place.locate(*pose), self._length_m
        # Beyond a cusp nothing is laid out: there the distance counts.
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
        """What is wrong with a place so far from its point of the course, and the cure; None when it can be driven from."""
        if not distance_m <= self._corridor_m:
            return f"stands {distance_m:.1f} m off the course", "move it into the corridor"
        if not abs(point.heading_error_rad) <= BACKWARDS_RAD:
            return "points backwards along the course", "turn it round"
        return None


def _usable(estimate: StateEstimate) -> bool:
    return estimate.status is EstimatorStatus.RUNNING and isfinite(
        estimate.x_m + estimate.y_m + estimate.yaw_rad + estimate.speed_mps
    )
