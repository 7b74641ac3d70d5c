"""Occupancy grid: which cells of a plane are occupied, free or unknown."""

from math import cos, sin
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from vehicled.core.arrays import Array

FREE, OCCUPIED, UNKNOWN = 0, 1, -1
Cells = npt.NDArray[np.int8]


THICK_CELLS = 4
"""Inner cells of a wall within two cells of its face from which it is thick."""

BEHIND_CELLS = 4
"""Cells within which something unknown lies behind the face of a wall that was built from scans."""


class OccupancyGrid(NamedTuple):
    """Cells (rows, columns), row 0 in the south, rotated about the south-west corner."""

    cells: Cells
    """``FREE``, ``OCCUPIED`` or ``UNKNOWN``."""
    resolution_m: float
    origin: tuple[float, float, float]
    """x, y and yaw of the south-west corner in the map frame."""
    unmapped: npt.NDArray[np.bool_] | None = None
    """Cells whose grey is the one of unknown cells, whatever the thresholds of the file make of it;
    None if the file does not show it. No path leads through them."""

    @property
    def occupied(self) -> npt.NDArray[np.bool_]:
        """Occupied cells, (rows, columns)."""
        return np.asarray(self.cells == OCCUPIED)

    def centres_m(
        self, rows: npt.NDArray[np.intp], columns: npt.NDArray[np.intp]
    ) -> tuple[Array, Array]:
        """Return the map coordinates of the centres of cells."""
        u, v = (columns + 0.5) * self.resolution_m, (rows + 0.5) * self.resolution_m
        x, y, yaw = self.origin
        c, s = cos(yaw), sin(yaw)
        return x + c * u - s * v, y + s * u + c * v

    def surfaces_m(self) -> tuple[Array, Array, Array]:
        """Return x and y of the occupied cells that a beam can meet: those with a neighbour that is
        not occupied. Also return the directions (2, n) out of the walls. They are 0 for the thin
        walls of a map that was built: its cells are scattered returns of one face, behind which
        nothing is known.
        """
        inside = np.pad(self.occupied, 1, constant_values=False)
        south = inside[:-2, 1:-1]
        north = inside[2:, 1:-1]
        west = inside[1:-1, :-2]
        east = inside[1:-1, 2:]
        rows, columns = np.nonzero(self.occupied & ~(south & north & west & east))
        right, up = (
            np.subtract(a, b, dtype=np.float64)[rows, columns]
            for a, b in ((west, east), (south, north))
        )
        # Cells with all neighbours occupied: a row of them within reach makes a wall of three.
        core = _boxes(inside[1:-1, 1:-1], 1) == 9
        drawn = (_boxes(core, 2) >= THICK_CELLS) | (
            _boxes(np.asarray(self.cells == UNKNOWN), BEHIND_CELLS) == 0
        )
        right, up = right * drawn[rows, columns], up * drawn[rows, columns]
        c, s = cos(self.origin[2]), sin(self.origin[2])
        x, y = self.centres_m(rows, columns)
        return x, y, np.stack((c * right - s * up, s * right + c * up))


def _boxes(values: npt.NDArray[np.bool_], reach: int) -> npt.NDArray[np.int16]:
    """Return the sum over the square of ``2 reach + 1`` cells about each cell."""
    found = values.astype(np.int16)
    for axis in (0, 1):
        width = [(0, 0), (0, 0)]
        width[axis] = (reach, reach)
        padded, length = np.pad(found, width), found.shape[axis]
        found = sum(
            (np.take(padded, range(k, k + length), axis=axis) for k in range(2 * reach + 1)),
            np.zeros_like(found),
        )
    return found
