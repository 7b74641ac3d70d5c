"""Grids of cases: ``make test`` runs a sample of them, ``make soak`` the rest."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

import pytest
from _pytest.mark.structures import ParameterSet

Case = TypeVar("Case")


def sampled(cases: Iterable[Case], keep: Callable[[Case], bool]) -> Sequence[Case | ParameterSet]:
    """Return the cases as parameters of a test; those that ``keep`` refuses run in ``make soak`` only."""
    chosen: list[Case | ParameterSet] = []
    for case in cases:
        values = case if isinstance(case, tuple) else (case,)
        chosen.append(case if keep(case) else pytest.param(*values, marks=pytest.mark.soak))
    return chosen


def covering(cases: Sequence[Case], features: Callable[[Case], Iterable[Hashable]]) -> Sequence[Case | ParameterSet]:
    """Return the cases as parameters; the suite runs a few that together have every feature of any case."""
    shown = [set(features(case)) for case in cases]
    left = set[Hashable]().union(*shown)
    kept: set[int] = set()
    while left:
        best = max(range(len(cases)), key=lambda number: len(shown[number] & left))
        kept.add(best)
        left -= shown[best]
    numbers = iter(range(len(cases)))
    return sampled(cases, lambda _: next(numbers) in kept)
