"""Distances between two sets of runs, with intervals, a noise floor and a test.

A set is an array (n, q): n runs with q quantities. The distance between two sets is the mean over
the quantities of a one-dimensional distance; with the Wasserstein distance and the quantities E and
S that is the published VEPD. Runs belong to manoeuvres, and every resampling keeps the number of
runs of each manoeuvre.
"""

from collections.abc import Callable, Sequence
from math import comb, isfinite, nan, prod

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from vehicled.core.arrays import Array

RESAMPLES = 999
CONFIDENCE = 0.95
ENOUGH_REAL = 4
"""Real runs from which two halves with a spread can be formed."""

Distance = Callable[[Array, Array], float]


def wasserstein(a: Array, b: Array) -> float:
    """Return the first Wasserstein distance of two samples, in their unit."""
    from scipy.stats import wasserstein_distance

    return float(wasserstein_distance(a, b))


def energy(a: Array, b: Array) -> float:
    """Return the energy distance of two samples, in the square root of their unit."""
    from scipy.stats import energy_distance

    return float(energy_distance(a, b))


def mmd(a: Array, b: Array) -> float:
    """Return the maximum mean discrepancy with a Gaussian kernel as wide as the median distance of
    all values; no unit."""
    both = np.concatenate([a, b])
    apart = np.abs(both[:, None] - both[None, :])
    width = float(np.median(apart[np.triu_indices(len(both), 1)])) or float(apart.max()) or 1.0
    kernel = np.exp(-0.5 * (apart / width) ** 2)
    n = len(a)
    squared = kernel[:n, :n].mean() + kernel[n:, n:].mean() - 2.0 * kernel[:n, n:].mean()
    return float(np.sqrt(max(squared, 0.0)))


DISTANCES: dict[str, Distance] = {"wasserstein": wasserstein, "energy": energy, "mmd": mmd}


class DistanceSpread(Struct, frozen=True):
    """Median and central 95 % of a distance over resamples; NaN where it cannot be resampled."""

    median: float = nan
    low: float = nan
    high: float = nan


class SetComparison(Struct, frozen=True, kw_only=True):
    """One set of simulated runs against the real ones."""

    real: int
    """Number of real runs."""
    simulated: int
    distances: dict[str, float]
    """Distance by quantity: the published W1 and W2 for E and S."""
    total: float
    """Mean of the distances: VEPD for E and S."""
    interval: DistanceSpread
    """Over bootstrap resamples of the runs of both sets."""
    floor: DistanceSpread
    """Over random halves of the real runs, each against the other: what real runs differ by among
    themselves."""
    p: float
    """Part of random relabellings of all runs that are at least as far apart; NaN where there are
    too few runs."""
    smallest_found: float
    """95 % quantile of the distance between random relabellings: a smaller one is not found with
    these numbers of runs."""
    left_out: tuple[float, float]
    """Smallest and largest total with one real run left out."""
    most_influential: int
    """Index of the real run whose removal changes the total most; -1 without any."""

    @property
    def floors(self) -> float:
        """Total in units of the floor's median; NaN without a floor."""
        return self.total / self.floor.median if self.floor.median > 0.0 else nan


def compare(
    real: Array,
    simulated: Array,
    names: Sequence[str],
    *,
    real_groups: Sequence[str] | None = None,
    simulated_groups: Sequence[str] | None = None,
    distance: str = "wasserstein",
    resamples: int = RESAMPLES,
) -> SetComparison:
    """Compare sets (n, q) and (m, q) of the quantities ``names``. The groups are the manoeuvres of
    the runs.

    The same input gives the same output: resamples are drawn from a fixed seed.
    """
    groups_a = np.array(real_groups if real_groups is not None else [""] * len(real))
    groups_b = np.array(simulated_groups if simulated_groups is not None else [""] * len(simulated))
    apart = DISTANCES[distance]

    def total(a: Array, b: Array) -> float:
        return float(np.mean([apart(a[:, k], b[:, k]) for k in range(a.shape[1])]))

    whole = total(real, simulated)
    left = (
        [total(np.delete(real, k, axis=0), simulated) for k in range(len(real))]
        if len(real) > 1
        else []
    )
    null = _relabelled(real, simulated, groups_a, groups_b, total, resamples)
    return SetComparison(
        real=len(real),
        simulated=len(simulated),
        distances={name: apart(real[:, k], simulated[:, k]) for k, name in enumerate(names)},
        total=whole,
        interval=_bootstrap(real, simulated, groups_a, groups_b, total, resamples),
        floor=split_half(real, groups_a, total, resamples),
        # The observed labelling is one of those that are possible (Phipson and Smyth 2010).
        p=(1 + sum(value >= whole * (1 - 1e-12) for value in null)) / (1 + len(null))
        if null
        else nan,
        smallest_found=float(np.quantile(null, CONFIDENCE)) if null else nan,
        left_out=(min(left), max(left)) if left else (nan, nan),
        most_influential=int(np.argmax(np.abs(np.array(left) - whole))) if left else -1,
    )


def split_half(
    real: Array, groups: NDArray[np.str_], total: Callable[[Array, Array], float], resamples: int
) -> DistanceSpread:
    """Return the distance between random halves of the real runs; each manoeuvre is halved."""
    if len(real) < ENOUGH_REAL:
        return DistanceSpread()
    random = np.random.default_rng(1)
    found = []
    for _ in range(resamples):
        first = np.zeros(len(real), bool)
        for group in np.unique(groups):
            rows = random.permutation(np.flatnonzero(groups == group))
            # The odd run goes to either half.
            first[rows[: (len(rows) + int(random.integers(2))) // 2]] = True
        if 0 < first.sum() < len(real):
            found.append(total(real[first], real[~first]))
    return _spread(found)


def labellings(real_groups: Sequence[str], simulated_groups: Sequence[str]) -> int:
    """Return in how many ways the runs can be relabelled within their manoeuvres."""
    counts = {
        group: (list(real_groups).count(group), list(simulated_groups).count(group))
        for group in {*real_groups, *simulated_groups}
    }
    return prod(comb(a + b, a) for a, b in counts.values())


def _relabelled(
    real: Array,
    simulated: Array,
    real_groups: NDArray[np.str_],
    simulated_groups: NDArray[np.str_],
    total: Callable[[Array, Array], float],
    resamples: int,
) -> list[float]:
    # With fewer labellings no result could be rarer than one in twenty.
    if labellings(real_groups.tolist(), simulated_groups.tolist()) * (1.0 - CONFIDENCE) < 1.0:
        return []
    random = np.random.default_rng(2)
    both = np.concatenate([real, simulated])
    groups = np.concatenate([real_groups, simulated_groups])
    is_real = np.arange(len(both)) < len(real)
    found = []
    for _ in range(resamples):
        labels = is_real.copy()
        for group in np.unique(groups):
            rows = np.flatnonzero(groups == group)
            labels[rows] = random.permutation(is_real[rows])
        found.append(total(both[labels], both[~labels]))
    return found


def _bootstrap(
    real: Array,
    simulated: Array,
    real_groups: NDArray[np.str_],
    simulated_groups: NDArray[np.str_],
    total: Callable[[Array, Array], float],
    resamples: int,
) -> DistanceSpread:
    if len(real) < 2 or len(simulated) < 2:
        return DistanceSpread()
    random = np.random.default_rng(3)

    def drawn(groups: NDArray[np.str_]) -> NDArray[np.intp]:
        rows = [np.flatnonzero(groups == group) for group in np.unique(groups)]
        return np.concatenate([random.choice(each, len(each)) for each in rows])

    return _spread(
        [
            total(real[drawn(real_groups)], simulated[drawn(simulated_groups)])
            for _ in range(resamples)
        ]
    )


def _spread(values: Sequence[float]) -> DistanceSpread:
    if not values or not all(map(isfinite, values)):
        return DistanceSpread()
    outside = 0.5 * (1.0 - CONFIDENCE)
    low, median, high = np.quantile(values, (outside, 0.5, 1.0 - outside))
    return DistanceSpread(float(median), float(low), float(high))
