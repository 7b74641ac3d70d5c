"""Errors of terrain files."""

from vehicled.core.errors import UserError


class TerrainError(UserError):
    """A terrain is unusable; the text names the file, the place in it, and what to do."""
