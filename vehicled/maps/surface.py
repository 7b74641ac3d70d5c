"""Surfaces of a map: one element per cell with a point and a normal, and the nearest one to any
place in constant time.

Each element is the centroid of its cell's points, moved onto the line through the points of the
surrounding cells. This takes most of the cells' size out of the place of a wall. Where the
surroundings are no line (a corner, a post), the element has no direction.
"""

from math import ceil

import numpy as np
import numpy.typing as npt

from vehicled.core.arrays import Array, hypotenuse

Index = npt.NDArray[np.intp]

LINE_RATIO = 0.25
"""Smaller over larger variance of the surroundings up to which they are a line."""
FEWEST_CELLS = 3
"""Cells that the surroundings of an element need; one with fewer is left out, because it might be
anything."""
NEAR, WIDE = 3, 7
"""Cells around one that are its surroundings, and where these are too few: far from a scanner its
rays are far apart."""
MAX_LOOKUP_CELLS = 40_000_000


class Elements:
    """Points (n,) with the normals of the lines that they lie on."""

    __slots__ = ("isotropy", "nx", "ny", "out_x", "out_y", "x_m", "y_m")

    def __init__(self, x_m: Array, y_m: Array, cell_m: float, outward: Array | None = None) -> None:
        """Take points (m,), any number in a cell of ``cell_m``. ``outward``: directions (2, m) out
        of their walls, where these are known: the two faces of a thick wall are then no
        surroundings of each other.
        """
        ix, iy = np.floor(x_m / cell_m).astype(np.int64), np.floor(y_m / cell_m).astype(np.int64)
        low_x, low_y = (int(i.min()) if len(i) else 0 for i in (ix, iy))
        # A margin, so that no neighbour of a cell is one of another row.
        width = (int(ix.max()) - low_x if len(ix) else 0) + 2 * WIDE + 1
        keys, inverse, counts = np.unique(
            (iy - low_y + WIDE) * width + ix - low_x + WIDE, return_inverse=True, return_counts=True
        )
        count = counts.astype(np.float64)
        cx, cy = (np.bincount(inverse, v, len(keys)) / count for v in (x_m, y_m))
        out: Array = np.zeros((2, len(keys)))
        if outward is not None:
            out[0], out[1] = (np.bincount(inverse, values, len(keys)) for values in outward)
        moments = _moments(keys, np.arange(len(keys)), cx, cy, out, width, NEAR)
        few = np.flatnonzero(moments[0] < FEWEST_CELLS)
        moments[:, few] = _moments(keys, few, cx, cy, out, width, WIDE)
        n, mx, my, xx, xy, yy = moments
        mx, my = mx / n, my / n
        xx, xy, yy = xx / n - mx * mx, xy / n - mx * my, yy / n - my * my
        half, root = 0.5 * (xx + yy), hypotenuse(0.5 * (xx - yy), xy)
        large, small = half + root, np.maximum(half - root, 0.0)
        angle = 0.5 * np.arctan2(2.0 * xy, xx - yy)
        known = n >= FEWEST_CELLS
        line = small[known] < LINE_RATIO * large[known]
        self.nx, self.ny = -np.sin(angle[known]), np.cos(angle[known])
        self.out_x, self.out_y = out[0][known], out[1][known]
        """Direction out of the wall; 0 where it is not known."""
        self.isotropy = np.where(line, 0.0, 1.0)
        """1 for an element without a direction, else 0."""
        onto = np.where(line, self.nx * mx[known] + self.ny * my[known], 0.0)
        self.x_m, self.y_m = cx[known] + onto * self.nx, cy[known] + onto * self.ny

    def __len__(self) -> int:
        return len(self.x_m)


def _moments(
    keys: npt.NDArray[np.int64],
    cells: Index,
    cx: Array,
    cy: Array,
    out: Array,
    width: int,
    reach: int,
) -> Array:
    """Return number, sums and sums of products (6, n) of the centroids around each of some cells,
    relative to its own."""
    moments = np.zeros((6, len(cells)))
    for row in range(-reach, reach + 1):
        for column in range(-reach, reach + 1):
            wanted = keys[cells] + row * width + column
            at = np.searchsorted(keys, wanted)
            at[at == len(keys)] = 0
            dx, dy = cx[at] - cx[cells], cy[at] - cy[cells]
            same = (keys[at] == wanted) & ((out[:, at] * out[:, cells]).sum(axis=0) >= 0.0)
            moments += np.where(same, (np.ones(len(cells)), dx, dy, dx * dx, dx * dy, dy * dy), 0.0)
    return moments


class SurfaceTable:
    """Elements with a table of the nearest one around every cell."""

    def __init__(
        self, x_m: Array, y_m: Array, cell_m: float, reach_m: float, outward: Array | None = None
    ) -> None:
        """``reach_m``: largest distance at which an element is found. Raises ValueError for an
        extent that no table can have."""
        self.elements = Elements(x_m, y_m, cell_m, outward)
        self.reach_m = reach_m
        e = self.elements
        self._cell_m = cell_m
        cells = ceil(reach_m / cell_m)
        if len(e):
            self._x_m = float(e.x_m.min()) - (cells + 1) * cell_m
            self._y_m = float(e.y_m.min()) - (cells + 1) * cell_m
            columns = ceil((float(e.x_m.max()) - self._x_m) / cell_m) + cells + 2
            rows = ceil((float(e.y_m.max()) - self._y_m) / cell_m) + cells + 2
        else:
            self._x_m = self._y_m = 0.0
            rows = columns = 1
        if rows * columns > MAX_LOOKUP_CELLS:
            raise ValueError(f"{columns} x {rows} cells of {cell_m:g} m")
        self._rows, self._columns = rows, columns
        self._nearest = _nearest(
            np.floor((e.y_m - self._y_m) / cell_m).astype(np.intp),
            np.floor((e.x_m - self._x_m) / cell_m).astype(np.intp), (rows, columns), cells,
        )  # fmt: skip

    def nearest(self, x_m: Array, y_m: Array) -> Index:
        """Return the number of the nearest element to each place, -1 where none is within reach."""
        # Beyond the table counts as its edge, where nothing is in reach.
        column = np.clip((x_m - self._x_m) / self._cell_m, 0, self._columns - 1).astype(np.intp)
        row = np.clip((y_m - self._y_m) / self._cell_m, 0, self._rows - 1).astype(np.intp)
        return np.asarray(self._nearest[row, column], dtype=np.intp)


def _nearest(
    rows: Index, columns: Index, shape: tuple[int, int], reach: int
) -> npt.NDArray[np.int32]:
    """Return the number of the nearest marked cell within ``reach`` cells of each cell, -1 for
    none.

    The squared Euclidean distance separates: first the nearest mark along each column, then along
    each row the least sum.
    """
    marks = np.full(shape, -1, np.int32)
    marks[rows, columns] = np.arange(len(rows), dtype=np.int32)
    best = np.where(marks >= 0, np.int32(0), np.int32((2 * reach + 1) ** 2))
    for axis in (0, 1):
        before, cost = marks, best
        marks, best = before.copy(), cost.copy()
        for step in [s for k in range(1, reach + 1) for s in (k, -k)]:
            here: list[slice] = [slice(None), slice(None)]
            there: list[slice] = [slice(None), slice(None)]
            here[axis] = slice(max(step, 0), shape[axis] + min(step, 0))
            there[axis] = slice(max(-step, 0), shape[axis] + min(-step, 0))
            at, other = (here[0], here[1]), (there[0], there[1])
            candidate = cost[other] + np.int32(step * step)
            nearer = candidate < best[at]
            np.copyto(best[at], candidate, where=nearer)
            np.copyto(marks[at], before[other], where=nearer)
    marks[best > reach * reach] = -1
    return marks
