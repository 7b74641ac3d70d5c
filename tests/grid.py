"""Grids of cases: ``make test`` runs a sample of them, ``make soak`` the rest."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

import pytest
from _pytest.mark.structures import ParameterSet

Case = TypeVar("Case")


def sampled(cases: Iterable[Case], keep: Callable[[Case], bool]) -> list[ParameterSet]:
    """Return the cases as parameters of a test; those that ``keep`` refuses run in ``make soak``
    only."""
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            marks=() if keep(case) else pytest.mark.soak,
        )
        for case in cases
    ]


def covering(
    cases: Sequence[Case], features: Callable[[Case], Iterable[Hashable]]
) -> list[ParameterSet]:
    """Return the cases as parameters of a test; ``make test`` runs a few that together have every
    feature of any case."""
    shown = [set(features(case)) for case in cases]
    left = set[Hashable]().union(*shown)
    kept: set[int] = set()
    while left:
        best = max(range(len(cases)), key=lambda number: len(shown[number] & left))
        kept.add(best)
        left -= shown[best]
    numbers = iter(range(len(cases)))
    return sampled(cases, lambda _: next(numbers) in kept)
