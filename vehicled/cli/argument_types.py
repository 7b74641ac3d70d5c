"""Types of arguments that several commands share."""

from argparse import ArgumentTypeError
from math import nan


def between(text: str, least: float, most: float, what: str) -> float:
    """A number in a range. Raises ArgumentTypeError that says ``what`` it is."""
    try:
        value = float(text)
    except ValueError:
        value = nan
    if not least <= value <= most:
        raise ArgumentTypeError(f"{what}, not {text!r}")
    return value
