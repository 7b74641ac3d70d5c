"""Quadratic program of one steering horizon: constant sparsity, data written in place.

Stage k runs from t_k to t_(k+1) = t_k + dt, k = 0 .. N-1. The unknowns are deviations from a
nominal motion that obeys the model exactly, so the dynamics have no affine term; path curvature and
present errors enter as errors of the nominal motion, in ``q``:

* turn w_k of the wheel during the stage (rad), at a constant rate,
* at t_(k+1), in the frame of the path at the nominal projection: along t and left n (m), yaw e,
  wheel angle d (rad),
* slack s of the corridor (m).

Trapezoidal linearisation of the single track about the nominal motion, with h_k = v_k dt (negative
in reverse), m for the middle of the stage, psi_k the yaw of the path and D_k = psi_(k+1) - psi_k:

    t_(k+1) =  cos D_k t_k + sin D_k n_k - h_k sin(theta_m - psi_(k+1)) (e_k + e_(k+1)) / 2
    n_(k+1) = -sin D_k t_k + cos D_k n_k + h_k cos(theta_m - psi_(k+1)) (e_k + e_(k+1)) / 2
    e_(k+1) =  e_k + h_k / (l cos^2 delta_m) (d_k + d_(k+1)) / 2
    d_(k+1) =  d_k + w_k

    minimise   sum of  c_n (nbar + n)^2 + c_e (ebar + e)^2 + (wbar + w)^2 + c_s s^2, halved
    subject to bounds on wbar + w and on dbar + d, and |nbar + n - s| <= corridor

The corridor is soft, so that every program is feasible.

Unknowns and rows are ordered by kind, then by stage, so each kind is one slice. All are small
numbers of metres and radians and the weight of the turns is 1, so the solver needs no scaling and
its tolerance is in metres and radians.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from vehicled.core.arrays import Array

Complex = npt.NDArray[np.complex128]
Indices = npt.NDArray[np.int32]

KINDS = 6
"""Unknowns of a stage, in this order."""
TURN, ALONG, LEFT, YAW, WHEEL, SLACK = range(KINDS)

DYNAMICS = 4
"""Equality rows of a stage: along, left, yaw, wheel."""
BOUNDS = 3
"""Inequality rows after them: turn, wheel, left minus slack."""


class CostWeights(NamedTuple):
    """Weights of the squares in the cost, relative to that of the turn per stage (1/rad^2)."""

    left: float
    """Cross-track error, rad^2/m^2."""
    yaw: float
    slack: float
    """Corridor violation, rad^2/m^2."""
    last: float
    """Factor on the errors of the last stage, which represent the time after the horizon."""


class LinearMotion(NamedTuple):
    """Linearised motion about the nominal one, and its errors; arrays (N,), entry k for stage k,
    written in place."""

    along_per_yaw: Array
    """Half of the sensitivity, m/rad: the contribution of the yaw at either end of the stage."""
    left_per_yaw: Array
    yaw_per_wheel: Array
    """Half of the sensitivity, as above."""
    turn_rad: Array
    """Nominal turns of the wheel, rad."""
    wheel_rad: Array
    """Nominal wheel angle at the end of each stage, rad."""
    left_m: Array
    """Cross-track error of the nominal motion at the end of each stage, m."""
    yaw_rad: Array


class HorizonQp:
    """Quadratic program min x'Px/2 + q'x, lower <= Ax <= upper, with 6 N unknowns and 7 N rows; A
    is in compressed columns.

    ``p_diagonal`` (6 N,), ``column_starts`` and ``rows`` are constant. A planner writes ``motion``,
    ``lowest`` and ``highest`` (3, N: turn, wheel, left minus slack), then calls :meth:`fill`, which
    updates ``varying`` (the entries of A at ``varying_at``), ``q``, ``lower`` and ``upper`` without
    allocating.
    """

    def __init__(self, stages: int, weights: CostWeights) -> None:
        """Build the program for ``stages`` N >= 2."""
        n = self.stages = stages
        self.unknowns, self.constraints = KINDS * n, (DYNAMICS + BOUNDS) * n
        diagonal = np.zeros((KINDS, n))
        diagonal[TURN] = 1.0
        diagonal[LEFT] = weights.left
        diagonal[YAW] = weights.yaw
        diagonal[LEFT : YAW + 1, -1] *= weights.last
        diagonal[SLACK] = weights.slack
        self.p_diagonal: Array = diagonal.ravel()
        self._weights = diagonal[LEFT : YAW + 1].copy()
        self.q = np.zeros(self.unknowns)
        self.lower = np.zeros(self.constraints)
        self.upper = np.zeros(self.constraints)
        self._q = self.q.reshape(KINDS, n)
        self._bounds_lower = self.lower[DYNAMICS * n :].reshape(BOUNDS, n)
        self._bounds_upper = self.upper[DYNAMICS * n :].reshape(BOUNDS, n)
        self._set_pattern()
        self.lowest = np.full((BOUNDS, n), -1.0)
        self.highest = np.full((BOUNDS, n), 1.0)
        # Nominal turn, wheel and left are adjacent for the bounds, left and yaw for the cost.
        nominal = np.zeros((BOUNDS + 1, n))
        self._nominal, self._errors = nominal[:BOUNDS], nominal[BOUNDS - 1 :]
        self.motion = LinearMotion(*self._varying[:3], *nominal)

    def _set_pattern(self) -> None:
        """Build A once from triplets, and record the index of each varying entry."""
        n = self.stages
        stage = np.arange(n)
        rows: list[Indices] = []
        columns: list[Indices] = []
        values: list[Array] = []

        def put(row_kind: int, kind: int, value: float, *, previous: bool = False) -> None:
            at = stage[1:] if previous else stage
            rows.append((row_kind * n + at).astype(np.int32))
            columns.append((kind * n + (at - 1 if previous else at)).astype(np.int32))
            values.append(np.full(len(at), value))

        along, left, yaw, wheel, turn_bound, wheel_bound, left_bound = range(DYNAMICS + BOUNDS)
        # Varying entries, in the order of fill().
        put(along, YAW, 0.0)
        put(left, YAW, 0.0)
        put(yaw, WHEEL, 0.0)
        put(along, YAW, 0.0, previous=True)
        put(left, YAW, 0.0, previous=True)
        put(yaw, WHEEL, 0.0, previous=True)
        put(along, ALONG, 0.0, previous=True)
        put(left, LEFT, 0.0, previous=True)
        put(along, LEFT, 0.0, previous=True)
        put(left, ALONG, 0.0, previous=True)
        ends = np.cumsum([0, *(len(part) for part in rows)])
        self.varying = np.zeros(int(ends[-1]))
        self._varying = [self.varying[a:b] for a, b in pairwise(ends)]

        put(along, ALONG, -1.0)
        put(left, LEFT, -1.0)
        put(yaw, YAW, -1.0)
        put(yaw, YAW, 1.0, previous=True)
        put(wheel, WHEEL, -1.0)
        put(wheel, WHEEL, 1.0, previous=True)
        put(wheel, TURN, 1.0)
        put(turn_bound, TURN, 1.0)
        put(wheel_bound, WHEEL, 1.0)
        put(left_bound, LEFT, 1.0)
        put(left_bound, SLACK, -1.0)

        row, column = np.concatenate(rows), np.concatenate(columns)
        order = np.lexsort((row, column))
        place = np.empty(len(order), dtype=np.int32)
        place[order] = np.arange(len(order), dtype=np.int32)
        self.rows: Indices = row[order]
        self.column_starts: Indices = np.searchsorted(
            column[order], np.arange(self.unknowns + 1)
        ).astype(np.int32)
        self.a_values: Array = np.concatenate(values)[order]
        self.varying_at: Indices = place[: len(self.varying)].copy()

    def fill(self, turned: Complex) -> None:
        """Write ``motion`` and the limits into the program. ``turned`` (N - 1,) is exp(i D_k), k =
        1 .. N-1."""
        (
            along,
            left,
            yaw,
            along_before,
            left_before,
            yaw_before,
            cos_along,
            cos_left,
            sin_left,
            sin_along,
        ) = self._varying
        along_before[:] = along[1:]
        left_before[:] = left[1:]
        yaw_before[:] = yaw[1:]
        cos_along[:] = cos_left[:] = turned.real
        sin_left[:] = turned.imag
        np.negative(sin_left, out=sin_along)
        q, motion = self._q, self.motion
        q[TURN] = motion.turn_rad
        np.multiply(self._weights, self._errors, out=self._q[LEFT : YAW + 1])
        np.subtract(self.lowest, self._nominal, out=self._bounds_lower)
        np.subtract(self.highest, self._nominal, out=self._bounds_upper)

    def values(self) -> Array:
        """Entries of A, by columns."""
        values = self.a_values.copy()
        values[self.varying_at] = self.varying
        return values

    def dense(self) -> Array:
        """Return A as a dense matrix (7 N, 6 N)."""
        values = self.values()
        dense = np.zeros((self.constraints, self.unknowns))
        for column in range(self.unknowns):
            span = slice(self.column_starts[column], self.column_starts[column + 1])
            dense[self.rows[span], column] = values[span]
        return dense
