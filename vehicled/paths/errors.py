"""Error of the paths package."""

from vehicled.core.errors import UserError


class CourseError(UserError, ValueError):
    """A course cannot be used. The message names the file, the line or element, what is wrong and
    what to do about it."""
