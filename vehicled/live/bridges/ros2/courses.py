"""Courses that replace the first one while the daemon runs, for ``/path``. Pure.

The daemon records the request with its course, and later that it took it; to convert the course is
the work of this process.
"""

from collections import deque

from vehicled.core.events import CourseSet
from vehicled.core.messages import CourseCommand, Event
from vehicled.paths.stored import course_message, from_bytes
from vehicled.ros.projections import MessageProjection, course_poses, row

MOST_REQUESTS = 4
"""Requests that wait for the record that the daemon took one of them."""


class NewCourses:
    """Requests for another course, and the ones that the daemon took."""

    def __init__(self) -> None:
        self._requests: deque[CourseCommand] = deque(maxlen=MOST_REQUESTS)
        self._taken_ns: int | None = None

    def projections(self) -> tuple[MessageProjection, ...]:
        """Return what is published, in the form of the table of all projections."""
        return (
            row(CourseCommand, "/course", "nav_msgs/Path", self.request),
            row(Event, "/course", "nav_msgs/Path", self.event),
        )

    def request(self, command: CourseCommand, offset_ns: int) -> bytes | None:
        """Keep a request. Return its poses if the daemon took it: within one frame the record of
        that may come first."""
        self._requests.append(command)
        return self._poses(offset_ns)

    def event(self, event: Event, offset_ns: int) -> bytes | None:
        """Return the poses of the course that the daemon took; None for other events."""
        if CourseSet.read(event) is None:
            return None
        self._taken_ns = event.t_ns
        return self._poses(offset_ns)

    def _poses(self, offset_ns: int) -> bytes | None:
        if self._taken_ns is None:
            return None
        taken_ns = self._taken_ns
        command = next(
            (each for each in reversed(self._requests) if each.t_rx_ns <= taken_ns), None
        )
        if command is None:
            return None
        self._requests.clear()
        self._taken_ns = None
        return course_poses(course_message(from_bytes(command.course), taken_ns), offset_ns)
