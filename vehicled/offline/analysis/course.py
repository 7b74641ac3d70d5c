"""Course in a log, and the notes about speeds that the vehicle could not keep."""

from vehicled.control.speed import speed_warnings
from vehicled.core.messages import CourseCommand
from vehicled.log.errors import LogError
from vehicled.log.reader import LogReader
from vehicled.log.schema import topic_of
from vehicled.paths.course import Course
from vehicled.paths.errors import CourseError
from vehicled.paths.stored import from_json
from vehicled.profile import ProfileError, profile_in

COURSE_CHANGED = topic_of(CourseCommand)
"""Topic that only a log has whose course was changed during the run; true errors would be those to
the first course."""


def course_of(log: LogReader) -> Course | None:
    """Return the course in a log; None if it has none, as in logs of other programs, or if it was
    changed during the run."""
    if any(channel.topic == COURSE_CHANGED for channel in log.layout.channels.values()):
        return None
    try:
        return from_json(log.attachment("course.json"))
    except (LogError, CourseError):
        return None


def course_notes(log: LogReader) -> list[str]:
    """Return the reasons for not driving the course at the speeds that it asks for, by the profile
    in the log."""
    course = course_of(log)
    try:
        profile = profile_in(log)
    except (LogError, ProfileError):
        # The profile is of another version.
        return []
    if course is None or profile.controller.name == "programme":
        return []
    speed = getattr(profile.controller.selected, "speed", None)
    return speed_warnings(profile.vehicle, profile.limits, course, speed)
