"""Evidence of many runs about a parameter: how far it would have to be off to explain the
deviations.

A tyre that is 10 % too stiff moves many figures a little, each within its limit, and all in one
direction. For each parameter the model drives every run once more with the parameter changed. The
projection of the deviations on that effect is the deviation of the parameter that explains the run
best: the least squares estimate of one parameter, each figure weighted by its limit.
"""

from collections.abc import Callable, Iterable
from math import sqrt
from typing import Any

import numpy as np
from msgspec import Struct

from sim_backend.plant.double_track.checks import ParameterError
from sim_backend.plant.double_track.parameters import TwinParameters
from vehicled.core.arrays import rms
from vehicled.offline.twin.validation.parameters import PARAMETERS

UNIT_PCT = 10.0
"""Change of a parameter whose effect is stated."""
_STEP = 0.05
"""Change by which the effect is computed."""
FINEST_PCT = 1.0
"""Change of one parameter that no run has to detect: limits are at least its effect."""
VISIBLE = 0.24
"""Effect of :data:`UNIT_PCT`, as RMS over all figures in units of their limits, from which a
parameter is judged."""
FEWEST_RUNS = 3
"""Number of runs that must show a parameter; one or two may differ for another reason."""
LARGEST_PCT = 6.5
"""Largest estimated deviation that passes."""

Deviations = dict[str, Any]
"""Arrays by figure, as :func:`vehicled.offline.twin.validation.metrics.deviations` returns them."""


Group = tuple[str, str, str]
"""Family, model and vehicle."""


class ParameterEffect(Struct, frozen=True):
    """Effect of one parameter on one run, in units of the run's limits, summed over its figures."""

    parameter: str
    energy: float
    """Mean squared effect of :data:`UNIT_PCT`."""
    along: float
    """Mean product of that effect and the deviations."""


class Finding(Struct, frozen=True):
    """Deviation of one parameter that explains the runs of one vehicle and model best."""

    family: str
    model: str
    vehicle: str
    parameter: str
    strength: float
    """Effect of :data:`UNIT_PCT`, as RMS over all figures in units of their limits."""
    deviation_pct: float
    """Estimate; NaN without an effect."""
    passed: bool | None
    """None if the runs do not show the parameter."""

    @property
    def group(self) -> str:
        """Vehicle and model as in the names of the runs."""
        return f"{self.family}/{self.vehicle}__{self.model}"


def effects_of(
    parameters: TwinParameters, deviate: Callable[[TwinParameters], Deviations], base: Deviations
) -> dict[str, Deviations]:
    """Return for each parameter how :data:`UNIT_PCT` of it changes each figure. Parameters that
    this vehicle cannot change are left out.
    """
    found: dict[str, Deviations] = {}
    for parameter in PARAMETERS:
        try:
            changed = deviate(parameter.change(parameters, 1.0 + _STEP))
        except ParameterError:
            continue
        scale = 0.01 * UNIT_PCT / _STEP
        # A vehicle that the change ends early has fewer rows.
        same = {
            name
            for name, values in base.items()
            if name in changed and len(changed[name]) == len(values)
        }
        found[parameter.name] = {name: scale * (changed[name] - base[name]) for name in same}
    return found


def widened(limits: dict[str, float], effects: dict[str, Deviations]) -> dict[str, float]:
    """Return the limits of a run, none finer than the effect of :data:`FINEST_PCT` of any
    parameter."""
    share = FINEST_PCT / UNIT_PCT
    return {
        name: max(
            [limit, *(share * rms(effect[name]) for effect in effects.values() if name in effect)]
        )
        for name, limit in limits.items()
    }


def weigh(
    base: Deviations, effects: dict[str, Deviations], limits: dict[str, float]
) -> list[ParameterEffect]:
    """Return the effects of a run in units of its limits."""

    def sums(effect: Deviations, other: Deviations) -> float:
        return sum(
            float(np.mean(effect[name] * other[name])) / limit**2
            for name, limit in limits.items()
            if name in effect
        )

    return [
        ParameterEffect(name, sums(effect, effect), sums(effect, base))
        for name, effect in effects.items()
    ]


def judge(runs: Iterable[tuple[Group, list[ParameterEffect], int]]) -> list[Finding]:
    """Estimate every parameter from all runs of each group; a run has its effects and its number of
    figures.

    The estimate is the median of those of the runs, weighted by the size of the effect: a few runs
    that differ for another reason do not move it.
    """
    groups: dict[Group, list[tuple[list[ParameterEffect], int]]] = {}
    for group, effects, figures in runs:
        if effects:
            groups.setdefault(group, []).append((effects, figures))
    return [
        _estimate(group, of_group, p.name)
        for group, of_group in sorted(groups.items())
        for p in PARAMETERS
    ]


def _estimate(
    group: Group, runs: list[tuple[list[ParameterEffect], int]], parameter: str
) -> Finding:
    figures = sum(count for _, count in runs)
    shown = [
        (effect, count)
        for effects, count in runs
        for effect in effects
        if effect.parameter == parameter and effect.energy > 0.0
    ]
    strength = sqrt(sum(effect.energy for effect, _ in shown) / figures)
    clear = sum(effect.energy >= count * VISIBLE**2 for effect, count in shown)
    deviation = (
        UNIT_PCT * _weighted_median([effect for effect, _ in shown]) if shown else float("nan")
    )
    passed = abs(deviation) <= LARGEST_PCT if strength >= VISIBLE and clear >= FEWEST_RUNS else None
    return Finding(*group, parameter, strength, deviation, passed)


def _weighted_median(effects: list[ParameterEffect]) -> float:
    """Return the median of the runs' estimates, in units of the effect, weighted by its size."""
    ordered = sorted((effect.along / effect.energy, sqrt(effect.energy)) for effect in effects)
    reached = np.cumsum([size for _, size in ordered])
    return ordered[int(np.searchsorted(reached, 0.5 * reached[-1]))][0]
