"""``/path`` follows the courses that the daemon takes while it runs."""

import pytest

from tests.unit.view_facts import packed
from vehicled.core.events import CourseSet
from vehicled.core.messages import CourseCommand, Event, Message
from vehicled.live.bridges.ros2.courses import NewCourses
from vehicled.log.projecting import Projector
from vehicled.paths.course import course_from_waypoints
from vehicled.paths.stored import course_message, to_bytes
from vehicled.ros.projections import course_poses

S = 1_000_000_000
COURSES = {name: course_from_waypoints(name, [0.0, 9.0], [0.0, y]) for y, name in enumerate("abc")}


def asked(name: str, t_ns: int) -> tuple[Message, int]:
    return CourseCommand(t_ns, t_ns, "test", name, to_bytes(COURSES[name])), t_ns


def taken(name: str, t_ns: int) -> tuple[Message, int]:
    return CourseSet(course=name).event(t_ns), t_ns


def poses(name: str, t_ns: int) -> bytes | None:
    return course_poses(course_message(COURSES[name], t_ns), 0)


@pytest.mark.parametrize("event_first", [False, True])
def test_a_course_is_published_once_the_daemon_took_it(event_first) -> None:
    projector = Projector(0, NewCourses().projections())
    (channel,) = projector.channels.values()
    assert (channel.topic, channel.schema_name) == ("/course", "nav_msgs/msg/Path")

    def published(*records: tuple[Message, int]) -> list[bytes]:
        return [payload for *_, payload in projector.projected(packed(list(records)))]

    # A frame holds streams one after the other, so the event may come before its request.
    records = [asked("a", 1 * S), taken("a", 2 * S)]
    assert published(*(reversed(records) if event_first else records)) == [poses("a", 2 * S)]
    assert published(asked("b", 3 * S), (Event(3 * S, "warning", "refused", ""), 3 * S)) == []
    # The request for b was refused; c is taken.
    assert published(asked("c", 4 * S), taken("c", 5 * S)) == [poses("c", 5 * S)]
    assert published(asked("b", 6 * S)) == []
