"""Error of the comparison of simulated with real runs."""

from vehicled.core.errors import UserError


class GapError(UserError):
    """Runs cannot be judged or compared. The message names the place and the cure."""
