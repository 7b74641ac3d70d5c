"""Effects of factors with bootstrap intervals, and quantiles."""

from collections.abc import Sequence
from math import inf, nan
from typing import Any

import numpy as np
from msgspec import Struct

from vehicled.offline.studies.conduct import RunRow

RESAMPLES = 2000
CONFIDENCE = 0.95
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
ENOUGH = 5
"""Clusters below which a bootstrap interval is too narrow for a claim."""
REPLICATE = "seed"
"""Factor that repeats a condition, over which is resampled."""


class Effect(Struct, frozen=True):
    """Mean of a metric at one level of a factor, over the finished runs of all other levels."""

    level: Any
    runs: int
    finished: int
    mean: float
    low: float
    high: float
    """Bounds of the bootstrap interval of the mean; NaN if it cannot be resampled."""
    change: float
    """Mean difference to the first level, over pairs of runs that differ in this factor alone; NaN
    for the first level itself."""
    change_low: float
    change_high: float
    clusters: int
    """Number of seeds, or runs, that were resampled for the change."""


def effects(rows: Sequence[RunRow], factor: str, metric: str) -> list[Effect]:
    """Return the effect of every level of a factor on a metric, in the order of the levels.

    Seeds are resampled whole, because the runs of one seed share their noise; without several
    seeds, runs are.
    """
    levels = sorted(
        dict.fromkeys(_hashable(row.levels.get(factor)) for row in rows), key=_order(rows, factor)
    )
    seeds = len({row.levels.get(REPLICATE) for row in rows}) > 1 and factor != REPLICATE
    groups = {
        level: [row for row in rows if _hashable(row.levels.get(factor)) == level]
        for level in levels
    }
    tables = {level: _table(group, factor, metric, seeds) for level, group in groups.items()}
    first = tables[levels[0]] if levels else {}
    found = []
    for level in levels:
        here, own = groups[level], tables[level]
        low, high = interval([(cluster, value) for (cluster, _), value in own.items()])
        pairs = (
            [(key[0], own[key] - first[key]) for key in own if key in first]
            if level != levels[0]
            else []
        )
        change_low, change_high = interval(pairs)
        finished = sum(row.outcome == "finished" for row in here)
        mean = float(np.mean(list(own.values()))) if own else nan
        change = float(np.mean([value for _, value in pairs])) if pairs else nan
        found.append(
            Effect(
                level,
                len(here),
                finished,
                mean,
                low,
                high,
                change,
                change_low,
                change_high,
                len({c for c, _ in pairs}),
            )
        )
    return found


def interval(
    values: Sequence[tuple[Any, float]], confidence: float = CONFIDENCE
) -> tuple[float, float]:
    """Return the bootstrap interval of the mean of values, each with the cluster that is resampled
    as a whole.

    Returns NaNs for less than two clusters.
    """
    clusters = {
        cluster: i for i, cluster in enumerate(dict.fromkeys(cluster for cluster, _ in values))
    }
    if len(clusters) < 2:
        return nan, nan
    sums, counts = np.zeros(len(clusters)), np.zeros(len(clusters))
    for cluster, value in values:
        sums[clusters[cluster]] += value
        counts[clusters[cluster]] += 1
    # Always the same resamples: a report made twice is the same.
    drawn = np.random.default_rng(1).integers(len(clusters), size=(RESAMPLES, len(clusters)))
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    outside = 50.0 * (1.0 - confidence)
    low, high = np.percentile(means, (outside, 100.0 - outside))
    return float(low), float(high)


def proportion(count: int, total: int) -> tuple[float, float]:
    """Return the Wilson interval of a proportion at 95 %."""
    if total == 0:
        return nan, nan
    z, p = 1.959964, count / total
    centre = (p + z * z / (2 * total)) / (1 + z * z / total)
    half = (
        z / (1 + z * z / total) * float(np.sqrt(p * (1 - p) / total + z * z / (4 * total * total)))
    )
    return max(centre - half, 0.0), min(centre + half, 1.0)


def values_of(rows: Sequence[RunRow], metric: str) -> list[float]:
    """Return a metric of all finished runs that have it."""
    found = [row.metrics.get(metric) for row in rows if row.outcome == "finished"]
    return [value for value in found if value is not None]


def quantiles(rows: Sequence[RunRow], metric: str) -> list[float]:
    """Return the ``QUANTILES`` of a metric over the finished runs; NaN without any."""
    values = values_of(rows, metric)
    return [float(q) for q in np.quantile(values, QUANTILES)] if values else [nan] * len(QUANTILES)


def _table(
    rows: Sequence[RunRow], factor: str, metric: str, seeds: bool
) -> dict[tuple[Any, str], float]:
    """Return the values by cluster and condition."""
    found = {}
    for row in rows:
        value = row.metrics.get(metric)
        if row.outcome == "finished" and value is not None:
            others = str({name: level for name, level in row.levels.items() if name != factor})
            found[row.levels.get(REPLICATE) if seeds else others, others] = value
    return found


def _hashable(level: Any) -> Any:
    return str(level) if isinstance(level, list) else level


def _order(rows: Sequence[RunRow], factor: str) -> Any:
    """Return a sort key: numbers by size, names in the order of the study."""
    order = {_hashable(row.levels.get(factor)): i for i, row in reversed(list(enumerate(rows)))}
    return lambda level: (
        (level, 0)
        if isinstance(level, int | float) and not isinstance(level, bool)
        else (inf, order[level])
    )
