"""Carries out the waits of a course: the vehicle stands for some seconds at a place, and drives
on."""

from bisect import bisect_left, bisect_right

from vehicled.core.vehicle import STANDSTILL_MPS
from vehicled.paths.course import Course
from vehicled.paths.tracking import END_TOLERANCE_M, MANOEUVRE_TOLERANCE_M
from vehicled.paths.waits import Wait


class WaitTracker:
    """Present wait of a drive along a course. The time counts from standstill, and only while the
    vehicle drives the course.

    A drive that resumes does not repeat a wait that has ended; one that was broken off begins anew.
    """

    def __init__(self, course: Course) -> None:
        self._waits = course.waits
        self._places_m = [wait.s_m for wait in course.waits]
        # How far before a wait the vehicle counts as being there: as for the end of a course.
        self._tolerance_m = MANOEUVRE_TOLERANCE_M if course.cusps else END_TOLERANCE_M
        self._next = 0
        self._stands_since_ns: int | None = None
        self.present: Wait | None = None
        """Wait at which the vehicle is to stand now; None while it is to drive."""

    def begin(self, s_m: float | None) -> None:
        """Begin a drive at an arc length; None: at the start of the course, from its first wait."""
        self.leave()
        first = 0 if s_m is None else bisect_left(self._places_m, s_m - self._tolerance_m)
        last = 0 if s_m is None else bisect_right(self._places_m, s_m + self._tolerance_m)
        self._next = min(max(self._next, first), last)

    def leave(self) -> None:
        """End or break off the present wait, because the drive ends."""
        self.present = self._stands_since_ns = None

    def step(self, progress_m: float, speed_mps: float, now_ns: int, *, at_end: bool) -> bool:
        """Update from the place on the course; return True if a wait has ended just now.

        ``at_end``: the end of the course is reached. A place or speed that is not finite changes
        nothing.
        """
        if not self.left:
            return False
        wait = self._waits[self._next]
        if self.present is None and (at_end or progress_m >= wait.s_m - self._tolerance_m):
            self.present = wait
        if (
            self.present is not None
            and self._stands_since_ns is None
            and abs(speed_mps) <= STANDSTILL_MPS
        ):
            self._stands_since_ns = now_ns
        if self._stands_since_ns is None or self.waited_s(now_ns) < wait.duration_s:
            return False
        self.leave()
        self._next += 1
        return True

    @property
    def left(self) -> bool:
        """True if a wait is in progress or still ahead."""
        return self._next < len(self._waits)

    def waited_s(self, now_ns: int) -> float:
        """Return the time at standstill in the present wait, s."""
        return 0.0 if self._stands_since_ns is None else (now_ns - self._stands_since_ns) * 1e-9
