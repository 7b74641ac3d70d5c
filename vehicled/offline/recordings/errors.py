"""Error of the recordings package."""


class RecordingError(Exception):
    """A recording cannot be read or run. The message names the file, the line where there is one, and the cure."""
