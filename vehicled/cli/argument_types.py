"""Argument types shared by several commands."""

from argparse import ArgumentTypeError
from collections.abc import Callable
from math import nan


def between(least: float, most: float, what: str) -> Callable[[str], float]:
    """Return the argument type of a number in a range; ``what`` begins its error message."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = nan
        if not least <= value <= most:
            raise ArgumentTypeError(f"{what}, not {text!r}")
        return value

    return parse


def whole(least: int, most: int, what: str) -> Callable[[str], int]:
    """Return the argument type of a whole number in a range; ``what`` begins its error message."""

    def parse(text: str) -> int:
        if not (text.isdecimal() and text.isascii() and len(text) <= len(str(most)) and least <= int(text) <= most):
            raise ArgumentTypeError(f"{what}, not {text!r}")
        return int(text)

    return parse
