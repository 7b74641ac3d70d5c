"""Errors of scene files."""


class SceneError(Exception):
    """A scene is unusable; the text names the file, the place in it, and what to do."""
