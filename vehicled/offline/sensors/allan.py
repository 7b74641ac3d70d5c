"""Overlapping Allan deviation of one axis of a standing inertial unit, and the noise terms that
explain it.

    AVAR(t) = 3 Q^2 / t^2 + N^2 / t + B^2 + K^2 t / 3

with quantisation Q, white noise N, bias instability B and random walk K: IEEE Std 952-1997, annex
C, but B is the floor itself, as in data sheets and in ``[sim.imu]``: 0.664 times the B of the
standard. The terms are non-negative; their least squares in relative deviations of AVAR has one
minimum. A term counts if it lowers chi-square by :data:`PAYS`.
"""

from collections.abc import Sequence
from itertools import combinations
from math import exp, log, sqrt

import numpy as np
from msgspec import Struct
from scipy.optimize import nnls
from scipy.signal import lfilter

from vehicled.core.arrays import Array

TERMS = ("quantisation", "white", "instability", "walk")
PER_DECADE = 8
PAYS = 6.0
PER_OCTAVE = PER_DECADE * log(2.0) / log(10.0)
"""Averaging times within an octave see the same samples: together they count as one."""
FLICKER_S = (1.0, 10.0, 100.0, 1000.0)
MOST_DRAWN = 16_384
LEAST_CLUSTERS = 9
"""Averaging times with fewer independent averages are not used: their deviation is uncertain by a
quarter."""


class Allan(Struct, frozen=True):
    """Allan deviation of one axis, arrays (n,)."""

    tau_s: Array
    deviation: Array
    doubt: Array
    """Relative standard deviation of ``deviation``."""


class Terms(Struct, frozen=True):
    """Noise terms in SI units: Q in unit s, N in unit / root Hz, B in unit, K in unit / root s."""

    quantisation: float
    white: float
    instability: float
    walk: float

    def deviation(self, tau_s: Array) -> Array:
        """Return the Allan deviation of these terms."""
        squares: Array = (
            _basis(tau_s)
            @ np.array([self.quantisation, self.white, self.instability, self.walk]) ** 2
        )
        return np.sqrt(squares)


def allan(values: Array, rate_hz: float) -> Allan:
    """Return the overlapping Allan deviation of evenly sampled values (n,), from one sample to a
    ninth of the length."""
    count = len(values)
    angle = np.concatenate([[0.0], np.cumsum(values - values.mean())]) / rate_hz
    longest = max(1, count // LEAST_CLUSTERS)
    sizes = np.unique(
        np.round(
            np.logspace(0.0, np.log10(longest), max(2, int(PER_DECADE * np.log10(longest)) + 1))
        ).astype(int)
    )
    tau = sizes / rate_hz
    found = np.array([overlapping(angle, m) for m in sizes.tolist()]) * rate_hz
    # Degrees of freedom of white noise, Riley 2008, equation 28; the deviation's doubt is half that
    # of its square.
    freedom = (
        (3.0 * (count - 1) / (2.0 * sizes) - 2.0 * (count - 2) / count)
        * 4.0
        * sizes**2
        / (4.0 * sizes**2 + 5.0)
    )
    return Allan(tau, found, np.sqrt(1.0 / (2.0 * np.maximum(freedom, 1.0))))


def overlapping(phase: Array, size: int) -> float:
    """Return the overlapping Allan deviation over ``size`` values whose running sum, from 0, is
    ``phase`` (n + 1,)."""
    second = phase[2 * size :] - 2.0 * phase[size:-size] + phase[: -2 * size]
    return sqrt(float(np.mean(second**2)) / 2.0) / size


def fit(found: Allan, among: Sequence[str] = ()) -> Terms:
    """Return the terms that explain an Allan deviation; 0 for those that it does not show.

    ``among`` names the terms that are fitted; without it those that pay are chosen.
    """
    square = np.maximum(found.deviation, 1e-300) ** 2
    weight = 1.0 / (square * 2.0 * found.doubt)
    basis = _basis(found.tau_s) * weight[:, None]
    scale = np.maximum(np.linalg.norm(basis, axis=0), 1e-300)
    best: tuple[float, Array] | None = None
    for chosen in (
        [among] if among else [each for size in range(1, 5) for each in combinations(TERMS, size)]
    ):
        columns = [TERMS.index(name) for name in chosen]
        squares, residual = nnls((basis / scale)[:, columns], square * weight)
        score = residual**2 / PER_OCTAVE + PAYS * len(columns)
        if best is None or score < best[0]:
            whole = np.zeros(4)
            whole[columns] = squares
            best = score, np.sqrt(whole / scale)
    assert best is not None
    return Terms(*best[1].tolist())


def fit_with_doubt(
    found: Allan, count: int, rate_hz: float, draws: int = 60, seed: int = 1
) -> tuple[Terms, Terms, Terms]:
    """Return the terms of ``count`` samples, and the ends of the intervals from 5 to 95 %.

    Samples with the fitted terms are drawn and fitted again; what the fits scatter by, as a ratio,
    is the doubt of the terms.
    """
    terms = fit(found)
    shown = [name for name in TERMS if getattr(terms, name) > 0.0]
    if not shown:
        return terms, terms, terms
    chance = np.random.default_rng(seed)
    # Long records are drawn as means over blocks; what is shorter than a block has next to no
    # doubt.
    block = -(-count // MOST_DRAWN)
    short = found.tau_s < block / rate_hz
    drawn = []
    for _ in range(draws):
        long = allan(samples(terms, count // block, rate_hz / block, chance), rate_hz / block)
        octaves = chance.standard_normal(int(np.log2(block)) + 2)
        noise = found.doubt[short] * np.interp(
            np.log2(found.tau_s[short] * rate_hz), np.arange(len(octaves)), octaves
        )
        near = terms.deviation(found.tau_s[short]) * (1.0 + noise)
        halves = (
            (found.tau_s[short], near, found.doubt[short]),
            (long.tau_s, long.deviation, long.doubt),
        )
        both = [np.concatenate(pair) for pair in zip(*halves)]
        one = fit(Allan(*both), shown)
        drawn.append([getattr(one, name) for name in TERMS])
    value = np.array([getattr(terms, name) for name in TERMS])
    low, high = np.quantile(drawn, [0.05, 0.95], axis=0)
    # Fits that are small by a factor in the draws mean a true value that is large by it.
    ends = [
        np.where(value > 0.0, value**2 / np.maximum(end, 0.05 * value + 1e-300), 0.0)
        for end in (high, low)
    ]
    ends[0] = np.where(low > 0.05 * value, ends[0], 0.0)
    return terms, Terms(*ends[0].tolist()), Terms(*ends[1].tolist())


def samples(terms: Terms, count: int, rate_hz: float, chance: np.random.Generator) -> Array:
    """Return samples (n,) with the terms. Bias instability is flicker noise: Gauss-Markov
    processes, one per decade of times."""
    found: Array = terms.white * sqrt(rate_hz) * chance.standard_normal(count)
    found += terms.quantisation * rate_hz * np.diff(chance.standard_normal(count + 1))
    found += terms.walk / sqrt(rate_hz) * np.cumsum(chance.standard_normal(count))
    sigma = terms.instability * sqrt(log(10.0) / (2.0 * log(2.0)))
    for time_s in FLICKER_S if sigma > 0.0 else ():
        decay = exp(-1.0 / (rate_hz * time_s))
        driven = sigma * sqrt(1.0 - decay**2) * chance.standard_normal(count)
        driven[0] = sigma * chance.standard_normal()
        found += lfilter([1.0], [1.0, -decay], driven)
    return found


def _basis(tau_s: Array) -> Array:
    return np.column_stack([3.0 / tau_s**2, 1.0 / tau_s, np.ones(len(tau_s)), tau_s / 3.0])
