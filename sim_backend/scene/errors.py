"""Errors of scene files."""

from vehicled.core.errors import UserError


class SceneError(UserError):
    """A scene is unusable; the text names the file, the place in it, and what to do."""
