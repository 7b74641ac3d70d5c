"""Error of the comparison of simulated with real runs."""


class GapError(Exception):
    """Runs cannot be judged or compared. The message names the place and the cure."""
