"""Numbers of examples of hypothesis: few in ``make test``, many in ``make soak``, as the profiles
of :mod:`tests.conftest` say."""

import hypothesis

USUAL = 25
"""Count that a test without a number of its own is worth."""


def examples(count: int) -> hypothesis.settings:
    """Return the settings of a test whose examples are quicker (more than ``USUAL``) or slower than
    those of others."""
    return hypothesis.settings(
        max_examples=max(count * hypothesis.settings().max_examples // USUAL, 5)
    )
