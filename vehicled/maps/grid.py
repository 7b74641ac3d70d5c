"""Occupancy grid: which cells of a plane are occupied, free or unknown."""

from math import cos, sin
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from vehicled.core.arrays import Array

FREE, OCCUPIED, UNKNOWN = 0, 1, -1
Cells = npt.NDArray[np.int8]


class OccupancyGrid(NamedTuple):
    """Cells (rows, columns), row 0 in the south, rotated about the south-west corner."""

    cells: Cells
    """``FREE``, ``OCCUPIED`` or ``UNKNOWN``."""
    resolution_m: float
    origin: tuple[float, float, float]
    """x, y and yaw of the south-west corner in the map frame."""

    @property
    def occupied(self) -> npt.NDArray[np.bool_]:
        """Occupied cells, (rows, columns)."""
        return np.asarray(self.cells == OCCUPIED)

    def centres_m(self, rows: npt.NDArray[np.intp], columns: npt.NDArray[np.intp]) -> tuple[Array, Array]:
        """Return the map coordinates of the centres of cells."""
        u, v = (columns + 0.5) * self.resolution_m, (rows + 0.5) * self.resolution_m
        x, y, yaw = self.origin
        c, s = cos(yaw), sin(yaw)
        return x + c * u - s * v, y + s * u + c * v

    def surfaces_m(self) -> tuple[Array, Array, Array]:
        """Return x and y of the occupied cells that a beam can meet: those with a neighbour that is not occupied. Also return the
        directions (2, n) out of the wall; 0 where it is one cell thick.
        """
        inside = np.pad(self.occupied, 1, constant_values=False)
        south, north, west, east = inside[:-2, 1:-1], inside[2:, 1:-1], inside[1:-1, :-2], inside[1:-1, 2:]
        rows, columns = np.nonzero(self.occupied & ~(south & north & west & east))
        right, up = (np.subtract(a, b, dtype=np.float64)[rows, columns] for a, b in ((west, east), (south, north)))
        c, s = cos(self.origin[2]), sin(self.origin[2])
        x, y = self.centres_m(rows, columns)
        return x, y, np.stack((c * right - s * up, s * right + c * up))
