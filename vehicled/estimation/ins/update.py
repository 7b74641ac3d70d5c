"""Measurement updates of the inertial filter for scalars and pairs, with gates and a symmetric
covariance.

A pair is decorrelated by the Cholesky factor of its innovation covariance, S = L L', which turns it
into two independent scalars: W = P H' L^-T, dx = W L^-1 r, P+ = P - W W'. ``W W'`` is exactly
symmetric, and P+ differs from the Joseph form only by rounding, which ``KEEP`` covers. Bierman
1977, chapter V; Sarkka 2013, Alg. 5.4. Sums are reductions by ``np.add``, whose order does not
depend on the processor.
"""

from math import inf, isfinite, sqrt

import numpy as np
from msgspec.structs import replace

from vehicled.core.arrays import Array, matmul
from vehicled.estimation.ins.state import InsState, N

KEEP = 1.0 - 1e-9
"""Fraction of the variance reduction that is applied. The rest exceeds the rounding error (1e-16
times the ratio of the largest to the smallest variance), so that the covariance stays positive
definite however exact a measurement is."""


class Corrector:
    """Updates, in place, a state that the caller owns, with preallocated arrays.

    ``limit`` is the gate on the normalised innovation squared, ``gate`` its index in
    ``GateCounters.strikes``. After ``max_in_a_row`` rejections in a row the filter doubts its
    state: the variances of ``doubt`` (indices into the error state) grow by the residual squared
    and the measurement is accepted. A result that is not finite is rejected. All return the NIS
    before any inflation, and True if the measurement was accepted.
    """

    def __init__(self, max_in_a_row: int) -> None:
        self._max_in_a_row = max_in_a_row
        self._g = np.zeros(N)
        self._column = self._g.reshape(N, 1)
        self._outer = np.zeros((N, N))
        self._shift = np.zeros(N)
        self._whitened = self._shift, self._shift
        self._k = sqrt(KEEP)

    def scalar(
        self,
        s: InsState,
        h: Array,
        residual: float,
        variance: float,
        limit: float,
        gate: int,
        doubt: tuple[int, ...],
    ) -> tuple[float, bool]:
        """Fuse one value: h (N,), residual, variance of its noise > 0."""
        g = self._g
        P = s.P
        S = self._spread(P, h) + variance
        nis = residual * residual / S
        if not nis <= limit or not S > 0.0:
            if not self._doubts(s, nis, gate):
                return nis, False
            for index in doubt:
                P[index, index] += residual * residual
            S = self._spread(P, h) + variance
        else:
            s.counters = s.counters.accept(gate)
        np.multiply(g, residual / S, out=self._shift)
        g *= self._k / sqrt(S)
        self._lower(P)
        s.inject(self._shift)
        return nis, True

    def _spread(self, P: Array, h: Array) -> float:
        """Return ``h' P h`` and leave ``P h`` in the work array."""
        g = self._g
        np.multiply(P, h.reshape(N, 1), out=self._outer)
        np.add.reduce(self._outer, axis=0, out=g)
        return float(np.add.reduce(h * g))

    def _lower(self, P: Array) -> None:
        """Subtract ``g g'`` of the work array from the covariance."""
        np.multiply(self._column, self._g, out=self._outer)
        np.subtract(P, self._outer, out=P)

    def pair(
        self,
        s: InsState,
        H: Array,
        r1: float,
        r2: float,
        R: tuple[float, float, float],
        limit: float,
        gate: int,
        doubt: tuple[tuple[int, ...], tuple[int, ...]],
    ) -> tuple[float, bool]:
        """Fuse two values: H (2, N), residuals, R = (variance 1, covariance, variance 2) positive
        definite; ``doubt`` by value."""
        u1, u2, nis = self._whiten(s.P, H, r1, r2, R)
        if not nis <= limit:
            if not self._doubts(s, nis, gate):
                return nis, False
            for index in doubt[0]:
                s.P[index, index] += r1 * r1
            for index in doubt[1]:
                s.P[index, index] += r2 * r2
            u1, u2, _ = self._whiten(s.P, H, r1, r2, R)
        else:
            s.counters = s.counters.accept(gate)
        g, k = self._g, self._k
        first, second = self._whitened
        P = s.P
        np.multiply(first, k, out=g)
        self._lower(P)
        np.multiply(second, k, out=g)
        self._lower(P)
        s.inject(u1 * first + u2 * second)
        return nis, True

    def _whiten(
        self, P: Array, H: Array, r1: float, r2: float, R: tuple[float, float, float]
    ) -> tuple[float, float, float]:
        """Return L^-1 r and its square, and leave the columns of P H' L^-T in ``_whitened``."""
        HP = matmul(H, P)
        (a, b), (_, d) = matmul(HP, H.T).tolist()
        a += R[0]
        b += R[1]
        d += R[2]
        rest = d - b * b / a if a > 0.0 else -inf
        if not rest > 0.0:
            return 0.0, 0.0, inf
        l1, l2 = sqrt(a), sqrt(rest)
        l21 = b / l1
        u1 = r1 / l1
        u2 = (r2 - l21 * u1) / l2
        first = HP[0] * (1.0 / l1)
        self._whitened = first, (HP[1] - l21 * first) * (1.0 / l2)
        return u1, u2, u1 * u1 + u2 * u2

    def _doubts(self, s: InsState, nis: float, gate: int) -> bool:
        """Count a value outside the gate, and return True if it must be accepted nevertheless."""
        counters = s.counters
        if isfinite(nis) and counters.strikes[gate] >= self._max_in_a_row:
            s.counters = replace(counters.accept(gate), good_fixes=0)
            return True
        s.counters = counters.reject(gate)
        return False
