"""Errors of mapping."""

from vehicled.core.errors import UserError


class MappingDriveError(UserError):
    """No map can be made of a drive; the text says why and what to do."""
