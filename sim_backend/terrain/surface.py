"""Terrain surface for the plants: height, slopes and friction at a position."""

from math import floor

import numpy as np

from sim_backend.terrain.raster import Raster, filled
from vehicled.core.arrays import Array

MAX_PATCHES = 65_536
"""Largest number of cached cell polynomials; the cache is cleared when full."""

Patch = tuple[float, ...]


class Terrain:
    """Height with continuous slopes, and friction.

    Heights are bicubic between nodes (Catmull-Rom, Keys 1981 with a = -1/2): exact at every node,
    with continuous slopes. Beyond the grid the terrain levels out to the height of the edge within
    one cell. Friction is bilinear, so that it stays within the range of its nodes, and constant
    beyond the edge.
    """

    def __init__(
        self,
        height: Raster | None = None,
        friction: Raster | None = None,
        friction_scale: float = 1.0,
    ) -> None:
        """Rasters in ``map``; their holes are filled. Without heights the ground is level at 0."""
        self.height = height
        self.friction = friction
        self._scale = friction_scale
        self._patches: dict[tuple[int, int], Patch] = {}
        self._z: Array | None = None
        if height is not None:
            self._z = filled(height.values)
            self._rows, self._columns = self._z.shape
            self._x_m, self._y_m, self._per_m = height.x_m, height.y_m, 1.0 / height.step_m
        self._mu = filled(friction.values).tolist() if friction is not None else None

    def at(self, x_m: float, y_m: float) -> tuple[float, float, float, float]:
        """Return height m, slopes dz/dx and dz/dy, and friction relative to the surface that the
        tyre parameters describe.

        A non-finite position is taken as one at the edge; the plant detects the divergence.
        """
        friction = self._scale if self._mu is None else self._friction(x_m, y_m)
        if self._z is None:
            return 0.0, 0.0, 0.0, friction
        p, q = (x_m - self._x_m) * self._per_m, (y_m - self._y_m) * self._per_m
        # The cells before the first and behind the last node level out. NaN fails every comparison
        # and ends in the corner.
        p = min(p, float(self._columns)) if p > -1.0 else -1.0
        q = min(q, float(self._rows)) if q > -1.0 else -1.0
        i, j = floor(p), floor(q)
        patch = self._patches.get((i, j)) or self._patch(i, j)
        u, v = p - i, q - j
        a00, a01, a02, a03, a10, a11, a12, a13, a20, a21, a22, a23, a30, a31, a32, a33 = patch
        a0, b0 = a00 + v * (a01 + v * (a02 + v * a03)), a01 + v * (2.0 * a02 + 3.0 * v * a03)
        a1, b1 = a10 + v * (a11 + v * (a12 + v * a13)), a11 + v * (2.0 * a12 + 3.0 * v * a13)
        a2, b2 = a20 + v * (a21 + v * (a22 + v * a23)), a21 + v * (2.0 * a22 + 3.0 * v * a23)
        a3, b3 = a30 + v * (a31 + v * (a32 + v * a33)), a31 + v * (2.0 * a32 + 3.0 * v * a33)
        z = a0 + u * (a1 + u * (a2 + u * a3))
        slope_x = a1 + u * (2.0 * a2 + 3.0 * u * a3)
        slope_y = b0 + u * (b1 + u * (b2 + u * b3))
        return z, slope_x * self._per_m, slope_y * self._per_m, friction

    def heights(self, x_m: Array, y_m: Array) -> Array:
        """Return the heights at many places, bilinear between the nodes."""
        if self._z is None:
            return np.zeros_like(x_m)
        p = np.clip((x_m - self._x_m) * self._per_m, 0.0, self._columns - 1.0)
        q = np.clip((y_m - self._y_m) * self._per_m, 0.0, self._rows - 1.0)
        i = np.minimum(p.astype(np.int64), max(self._columns - 2, 0))
        j = np.minimum(q.astype(np.int64), max(self._rows - 2, 0))
        east, north = np.minimum(i + 1, self._columns - 1), np.minimum(j + 1, self._rows - 1)
        u, v, z = p - i, q - j, self._z
        low = z[j, i] + u * (z[j, east] - z[j, i])
        high = z[north, i] + u * (z[north, east] - z[north, i])
        found: Array = low + v * (high - low)
        return found

    def _patch(self, i: int, j: int) -> Patch:
        """Return the coefficients of u^k v^l, row by row, of the cell from node (i, j) on."""
        assert self._z is not None
        columns = [min(max(i + k, 0), self._columns - 1) for k in (-1, 0, 1, 2)]
        rows = [min(max(j + k, 0), self._rows - 1) for k in (-1, 0, 1, 2)]
        nodes = [[float(self._z[row, column]) for row in rows] for column in columns]
        along_v = [_cubic(*column) for column in nodes]
        along_u = [_cubic(*(each[power] for each in along_v)) for power in range(4)]
        if len(self._patches) >= MAX_PATCHES:
            self._patches.clear()
        patch = self._patches[i, j] = tuple(
            along_u[power_v][power_u] for power_u in range(4) for power_v in range(4)
        )
        return patch

    def _friction(self, x_m: float, y_m: float) -> float:
        raster, mu = self.friction, self._mu
        assert raster is not None
        assert mu is not None
        p = min(max(0.0, (x_m - raster.x_m) / raster.step_m), len(mu[0]) - 1.0)
        q = min(max(0.0, (y_m - raster.y_m) / raster.step_m), len(mu) - 1.0)
        i, j = min(int(p), max(len(mu[0]) - 2, 0)), min(int(q), max(len(mu) - 2, 0))
        u, v = p - i, q - j
        east, north = min(i + 1, len(mu[0]) - 1), min(j + 1, len(mu) - 1)
        low = mu[j][i] + u * (mu[j][east] - mu[j][i])
        high = mu[north][i] + u * (mu[north][east] - mu[north][i])
        value: float = low + v * (high - low)
        return value


def _cubic(
    before: float, first: float, second: float, after: float
) -> tuple[float, float, float, float]:
    """Return the coefficients of 1, t, t^2, t^3 between ``first`` (t = 0) and ``second`` (t =
    1)."""
    return (
        first,
        0.5 * (second - before),
        before - 2.5 * first + 2.0 * second - 0.5 * after,
        0.5 * (after - before) + 1.5 * (first - second),
    )
