"""Errors of race tracks and race lines."""

from vehicled.core.errors import UserError


class RaceError(UserError):
    """A track cannot be read or raced on; the text names the place and the cure."""
