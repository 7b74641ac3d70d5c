"""What can be wrong with a file of the ground."""


class TerrainError(Exception):
    """A terrain cannot be used; the text names the file, the place in it, and the cure."""
