"""Errors of maps."""

from vehicled.core.errors import UserError


class MapError(UserError):
    """A map is unusable; the text names the file, the place in it, and what to do."""
