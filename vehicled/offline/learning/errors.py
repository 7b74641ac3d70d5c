"""Error of the learning commands."""

from vehicled.core.errors import UserError


class LearningError(UserError):
    """Data or settings that nothing can be learnt from; the text names the place and the cure."""
