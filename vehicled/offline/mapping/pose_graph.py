"""PlanarPose graph in the plane: poses that fit relative poses and positions best, some of which
may be wrong.

Gauss-Newton on sparse normal equations. Loop closures and positions are weighted by graduated
non-convexity with truncated least squares (Yang et al. 2020): what contradicts the rest ends with
weight 0, so that one wrong closure does not bend the map.
"""

from dataclasses import dataclass, field
from math import cos, inf, sin
from typing import Any

import numpy as np

from vehicled.core.arrays import Array, wrapped
from vehicled.maps.matching import PlanarPose

GATE = 16.3
"""Chi-square of three values that one in a thousand exceeds: a larger residual is an outlier."""
STEPS = 12
ROUNDS = 30
SETTLED = 1e-5
"""Largest change of a pose, m and rad, at which the steps end."""


@dataclass(slots=True)
class Edge:
    """PlanarPose of ``to`` as it was measured from ``start``."""

    start: int
    to: int
    measured: PlanarPose
    information: Array
    """(3, 3) in the axes of ``start``."""
    closure: bool = False
    weight: float = 1.0
    """0 for an outlier."""


@dataclass(slots=True)
class MeasuredPlace:
    """Position of a point of the vehicle that was measured at a pose."""

    node: int
    x_m: float
    y_m: float
    sigma_m: float
    arm_m: tuple[float, float] = (0.0, 0.0)
    weight: float = 1.0


@dataclass(slots=True)
class PoseGraph:
    """Poses, edges between them and measured positions."""

    poses: list[PlanarPose] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    places: list[MeasuredPlace] = field(default_factory=list)

    def optimise(self) -> None:
        """Replace the poses by those that fit best. Without positions the first pose stays."""
        problem = _LeastSquares(self)
        weights = np.ones(len(self.edges) + len(self.places))
        problem.solve(weights)
        doubted = np.array([e.closure for e in self.edges] + [True] * len(self.places), dtype=bool)
        residuals = problem.chi2()[doubted]
        worst = float(residuals.max()) if len(residuals) else 0.0
        # Far from every residual the problem is convex; mu then leads to the truncated squares in
        # steps.
        mu = GATE / (2.0 * worst - GATE) if worst > GATE else inf
        for _ in range(ROUNDS if worst > GATE else 0):
            low, high = mu / (mu + 1.0) * GATE, (mu + 1.0) / mu * GATE
            between = np.sqrt(GATE * mu * (mu + 1.0) / np.maximum(residuals, 1e-12)) - mu
            weights[doubted] = np.where(
                residuals <= low, 1.0, np.where(residuals >= high, 0.0, np.clip(between, 0.0, 1.0))
            )
            problem.solve(weights)
            residuals = problem.chi2()[doubted]
            settled = (weights < 1e-3) | (weights > 1.0 - 1e-3)
            if mu > 1.0 and bool(settled.all()):
                break
            mu *= 1.6
        self.poses = [PlanarPose(*row) for row in problem.poses.tolist()]
        items: list[Edge | MeasuredPlace] = [*self.edges, *self.places]
        for item, weight in zip(items, weights.tolist()):
            item.weight = weight


class _LeastSquares:
    """Arrays of a graph, and Gauss-Newton steps on them."""

    def __init__(self, graph: PoseGraph) -> None:
        self.poses: Array = np.array(graph.poses, dtype=np.float64)
        edges, places = graph.edges, graph.places
        self._start = np.array([e.start for e in edges], dtype=np.intp)
        self._to = np.array([e.to for e in edges], dtype=np.intp)
        self._measured = np.array([e.measured for e in edges], dtype=np.float64).reshape(-1, 3)
        self._information = np.array([e.information for e in edges], dtype=np.float64).reshape(
            -1, 3, 3
        )
        self._node = np.array([p.node for p in places], dtype=np.intp)
        self._place = np.array([(p.x_m, p.y_m) for p in places], dtype=np.float64).reshape(-1, 2)
        self._arm = np.array([p.arm_m for p in places], dtype=np.float64).reshape(-1, 2)
        self._trust = np.array([p.sigma_m**-2 for p in places], dtype=np.float64)

    def chi2(self) -> Array:
        """Return the squared normalised residuals of edges and places."""
        e, _, _ = self._edges()
        d, _ = self._places()
        return np.concatenate(
            (np.einsum("ni,nij,nj->n", e, self._information, e), self._trust * (d * d).sum(axis=1))
        )

    def _edges(self) -> tuple[Array, Array, Array]:
        """Return the residuals (n, 3) of the edges and their derivatives (n, 3, 3) by both
        poses."""
        a, b, m = self.poses[self._start], self.poses[self._to], self._measured
        c, s = np.cos(a[:, 2]), np.sin(a[:, 2])
        dx, dy = b[:, 0] - a[:, 0], b[:, 1] - a[:, 1]
        fx, fy = c * dx + s * dy, c * dy - s * dx
        e = np.stack((fx - m[:, 0], fy - m[:, 1], wrapped(b[:, 2] - a[:, 2] - m[:, 2])), axis=1)
        o, one = np.zeros(len(c)), np.ones(len(c))
        A = np.stack((-c, -s, fy, s, -c, -fx, o, o, -one), axis=1).reshape(-1, 3, 3)
        B = np.stack((c, s, o, -s, c, o, o, o, one), axis=1).reshape(-1, 3, 3)
        return e, A, B

    def _places(self) -> tuple[Array, Array]:
        """Return the residuals (n, 2) of the places and their derivatives (n, 2, 3)."""
        p = self.poses[self._node]
        c, s = np.cos(p[:, 2]), np.sin(p[:, 2])
        ax = c * self._arm[:, 0] - s * self._arm[:, 1]
        ay = s * self._arm[:, 0] + c * self._arm[:, 1]
        o, one = np.zeros(len(c)), np.ones(len(c))
        J = np.stack((one, o, -ay, o, one, ax), axis=1).reshape(-1, 2, 3)
        return p[:, :2] + np.stack((ax, ay), axis=1) - self._place, J

    def solve(self, weights: Array) -> None:
        """Iterate to the minimum with one weight for each edge and place."""
        from scipy.sparse.linalg import splu

        for _ in range(STEPS):
            matrix, gradient = self.normal(weights)
            shift = splu(matrix).solve(-gradient.ravel()).reshape(-1, 3)
            self.poses = self.poses + shift
            if float(np.abs(shift).max()) < SETTLED:
                break
        self.poses[:, 2] = wrapped(self.poses[:, 2])

    def normal(self, weights: Array) -> tuple[Any, Array]:
        """Return the sparse normal matrix (3 n, 3 n) and the gradient (n, 3) at the present
        poses."""
        from scipy.sparse import csc_matrix

        count = 3 * len(self.poses)
        i, j, k = self._start, self._to, self._node
        W = weights[: len(i), None, None] * self._information
        trust = weights[len(i) :] * self._trust
        blocks = [
            (i, i),
            (i, j),
            (j, i),
            (j, j),
            (k, k),
            (np.zeros(1, np.intp), np.zeros(1, np.intp)),
        ]
        row = np.concatenate(
            [(3 * r[:, None] + np.repeat(np.arange(3), 3)).ravel() for r, _ in blocks]
        )
        column = np.concatenate(
            [(3 * c[:, None] + np.tile(np.arange(3), 3)).ravel() for _, c in blocks]
        )
        # The first pose is held: firmly where nothing else places the graph, else by so little that
        # only rounding notices.
        anchor = np.eye(3)[None] * (1e-6 if len(k) else 1e9)
        e, A, B = self._edges()
        d, J = self._places()
        AW = np.swapaxes(A, 1, 2) @ W
        BW = np.swapaxes(B, 1, 2) @ W
        JW = np.swapaxes(J, 1, 2) * trust[:, None, None]
        values = np.concatenate(
            [block.ravel() for block in (AW @ A, AW @ B, BW @ A, BW @ B, JW @ J, anchor)]
        )
        gradient = np.zeros((len(self.poses), 3))
        np.add.at(gradient, i, (AW @ e[:, :, None])[:, :, 0])
        np.add.at(gradient, j, (BW @ e[:, :, None])[:, :, 0])
        np.add.at(gradient, k, (JW @ d[:, :, None])[:, :, 0])
        return csc_matrix((values, (row, column)), shape=(count, count)), gradient


class RelativeCovariance:
    """Covariance of one pose of a graph as it is seen from another, by what the graph holds now."""

    def __init__(self, graph: PoseGraph) -> None:
        from scipy.sparse.linalg import splu

        problem = _LeastSquares(graph)
        weights = np.array([e.weight for e in graph.edges] + [p.weight for p in graph.places])
        self._poses = graph.poses
        self._factor = splu(problem.normal(weights)[0])

    def between(self, start: int, to: int) -> Array:
        """Return the covariance (3, 3) of ``to``, in the axes of ``start``."""
        a, b = self._poses[start], self._poses[to]
        c, s = cos(a.yaw_rad), sin(a.yaw_rad)
        seen = a.to(b)
        J = np.zeros((3, 3 * len(self._poses)))
        J[:, 3 * start : 3 * start + 3] = ((-c, -s, seen.y_m), (s, -c, -seen.x_m), (0.0, 0.0, -1.0))
        J[:, 3 * to : 3 * to + 3] += ((c, s, 0.0), (-s, c, 0.0), (0.0, 0.0, 1.0))
        return np.asarray(J @ self._factor.solve(np.ascontiguousarray(J.T)))
