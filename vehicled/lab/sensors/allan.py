"""Overlapping Allan deviation of one axis of a standing inertial unit, and the noise terms that explain it.

    AVAR(t) = 3 Q^2 / t^2 + N^2 / t + (2 ln 2 / pi) B^2 + K^2 t / 3

with quantisation Q, white noise N, bias instability B and random walk K: IEEE Std 952-1997, annex C. The terms are
non-negative; their least squares in relative deviations of AVAR has one minimum.
"""

from math import log, pi, sqrt

import numpy as np
from msgspec import Struct
from scipy.optimize import nnls

from vehicled.recordings.recording import Array

TERMS = ("quantisation", "white", "instability", "walk")
PER_DECADE = 8
LEAST_CLUSTERS = 9
"""Averaging times with fewer independent averages are not used: their deviation is uncertain by a quarter."""


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
        squares: Array = _basis(tau_s) @ np.array([self.quantisation, self.white, self.instability, self.walk]) ** 2
        return np.sqrt(squares)


def allan(values: Array, rate_hz: float) -> Allan:
    """Return the overlapping Allan deviation of evenly sampled values (n,), from one sample to a ninth of the length."""
    count = len(values)
    angle = np.concatenate([[0.0], np.cumsum(values - values.mean())]) / rate_hz
    longest = max(1, count // LEAST_CLUSTERS)
    sizes = np.unique(np.round(np.logspace(0.0, np.log10(longest), max(2, int(PER_DECADE * np.log10(longest)) + 1))).astype(int))
    tau = sizes / rate_hz
    found = np.array([overlapping(angle, m) for m in sizes.tolist()]) * rate_hz
    # Degrees of freedom of white noise, Riley 2008, equation 28; the deviation's doubt is half that of its square.
    freedom = (3.0 * (count - 1) / (2.0 * sizes) - 2.0 * (count - 2) / count) * 4.0 * sizes**2 / (4.0 * sizes**2 + 5.0)
    return Allan(tau, found, np.sqrt(1.0 / (2.0 * np.maximum(freedom, 1.0))))


def overlapping(phase: Array, size: int) -> float:
    """Return the overlapping Allan deviation over ``size`` values whose running sum, from 0, is ``phase`` (n + 1,)."""
    second = phase[2 * size :] - 2.0 * phase[size:-size] + phase[: -2 * size]
    return sqrt(float(np.mean(second**2)) / 2.0) / size


def fit(found: Allan) -> Terms:
    """Return the terms that explain an Allan deviation; 0 for those that it does not show."""
    square = np.maximum(found.deviation, 1e-300) ** 2
    weight = 1.0 / (square * 2.0 * found.doubt)
    basis = _basis(found.tau_s) * weight[:, None]
    scale = np.maximum(np.linalg.norm(basis, axis=0), 1e-300)
    squares, _ = nnls(basis / scale, square * weight)
    return Terms(*np.sqrt(squares / scale).tolist())


def fit_with_doubt(found: Allan, draws: int = 100, seed: int = 1) -> tuple[Terms, Terms, Terms]:
    """Return the terms and the 5 and 95 % quantiles of the terms of deviations drawn within their doubt."""
    chance = np.random.default_rng(seed)
    drawn = []
    for _ in range(draws):
        # Deviations of neighbouring times come from the same samples: one draw per octave, joined.
        steps = np.log2(found.tau_s / found.tau_s[0])
        octaves = chance.standard_normal(int(steps[-1]) + 2)
        noise = found.doubt * np.interp(steps, np.arange(len(octaves)), octaves)
        one = fit(Allan(found.tau_s, found.deviation * np.maximum(1.0 + noise, 0.1), found.doubt))
        drawn.append([getattr(one, term) for term in TERMS])
    low, high = np.quantile(drawn, [0.05, 0.95], axis=0)
    return fit(found), Terms(*low.tolist()), Terms(*high.tolist())


def _basis(tau_s: Array) -> Array:
    return np.column_stack([3.0 / tau_s**2, 1.0 / tau_s, np.full(len(tau_s), 2.0 * log(2.0) / pi), tau_s / 3.0])
