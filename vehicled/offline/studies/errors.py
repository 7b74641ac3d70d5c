"""Errors of studies."""

from collections.abc import Sequence

from vehicled.core.errors import UserError


class StudyError(UserError):
    """A study cannot be used or continued. The text names the place and the cure; several mistakes
    are listed together.

    ``cure`` is one for all of them, and stands in a line of its own.
    """

    def __init__(self, origin: str, problems: Sequence[str], cure: str = "") -> None:
        one = len(problems) == 1
        text = (
            f"{origin}: {problems[0]}"
            if one
            else f"{origin}: {len(problems)} problems\n" + "\n".join(f"  {p}" for p in problems)
        )
        super().__init__(f"{text}\n  {cure}" if cure else text)
        self.problems = list(problems)
