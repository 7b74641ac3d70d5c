"""What can be wrong with a file of the world."""


class SceneError(Exception):
    """A scene cannot be used; the text names the file, the place in it, and the cure."""
