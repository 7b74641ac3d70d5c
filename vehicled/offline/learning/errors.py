"""Error of the learning commands."""


class LearningError(Exception):
    """Data or settings that nothing can be learnt from; the text names the place and the cure."""
