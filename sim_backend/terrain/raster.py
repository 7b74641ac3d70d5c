"""Raster on a square grid of nodes, and the filling of its holes."""

import numpy as np
from msgspec import Struct

from sim_backend.terrain.errors import TerrainError
from vehicled.core.arrays import Array

MAX_NODES = 16_000_000
"""Largest number of nodes: 128 MB. It bounds the memory that a damaged header can request."""
SMOOTHINGS = 8
MAX_SIZE = 1e9
"""Limit of any coordinate, height or friction; larger values are errors of the file."""


class Raster(Struct, frozen=True, kw_only=True):
    """Nodes (rows, columns), row 0 in the south, ``step_m`` apart; NaN where unknown."""

    values: Array
    x_m: float
    """Easting of the south-west node; the next is its northing."""
    y_m: float
    step_m: float
    points: int = 0
    """Points of the source cloud; 0 for a raster."""

    @property
    def holes(self) -> int:
        """Number of unknown nodes."""
        return int(np.count_nonzero(np.isnan(self.values)))

    @property
    def extent_m(self) -> tuple[float, float, float, float]:
        """x and y of the first node, x and y of the last."""
        rows, columns = self.values.shape
        return (
            self.x_m,
            self.y_m,
            self.x_m + (columns - 1) * self.step_m,
            self.y_m + (rows - 1) * self.step_m,
        )


def check_size(what: str, rows: int, columns: int, cure: str) -> None:
    """Raise TerrainError for a grid that is empty or too large."""
    if rows < 1 or columns < 1 or rows * columns > MAX_NODES:
        raise TerrainError(
            f"{what}: {columns} x {rows} nodes; 1 to {MAX_NODES} are allowed: {cure}"
        )


def filled(values: Array) -> Array:
    """Return the values with holes filled from their surroundings: small holes from near nodes,
    wide ones from coarser grids.

    Known values do not change. At least one must be known.
    """
    holes = np.isnan(values)
    if not holes.any():
        return values
    rows, columns = values.shape
    even = np.pad(values, ((0, rows % 2), (0, columns % 2)), constant_values=np.nan)
    blocks = even.reshape(even.shape[0] // 2, 2, even.shape[1] // 2, 2)
    known = (~np.isnan(blocks)).sum(axis=(1, 3))
    total = np.nansum(blocks, axis=(1, 3))
    coarse = np.divide(total, known, out=np.full(known.shape, np.nan), where=known > 0)
    coarse = filled(coarse)
    result = values.copy()
    result[holes] = np.repeat(np.repeat(coarse, 2, axis=0), 2, axis=1)[:rows, :columns][holes]
    where = np.nonzero(holes)
    north, south = np.minimum(where[0] + 1, rows - 1), np.maximum(where[0] - 1, 0)
    east, west = np.minimum(where[1] + 1, columns - 1), np.maximum(where[1] - 1, 0)
    for _ in range(SMOOTHINGS):
        result[where] = 0.25 * (
            result[north, where[1]]
            + result[south, where[1]]
            + result[where[0], east]
            + result[where[0], west]
        )
    return result
