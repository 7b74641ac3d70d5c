"""Error of the recordings package."""

from vehicled.core.errors import UserError


class RecordingError(UserError):
    """A recording cannot be read or run. The message names the file, the line where there is one,
    and the cure."""
