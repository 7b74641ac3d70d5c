"""Argument types shared by several commands."""

from argparse import ArgumentTypeError
from math import nan


def between(text: str, least: float, most: float, what: str) -> float:
    """Parse a number in a range. Raises ArgumentTypeError; ``what`` is its text."""
    try:
        value = float(text)
    except ValueError:
        value = nan
    if not least <= value <= most:
        raise ArgumentTypeError(f"{what}, not {text!r}")
    return value
