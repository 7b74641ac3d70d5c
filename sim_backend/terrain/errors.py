"""Errors of terrain files."""


class TerrainError(Exception):
    """A terrain is unusable; the text names the file, the place in it, and what to do."""
