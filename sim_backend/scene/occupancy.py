"""Occupancy grids as bodies: their occupied cells stop beams; free and unknown ones do not."""

from math import cos, sin
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sim_backend.scene.errors import SceneError
from vehicled.core.arrays import Array
from vehicled.maps.errors import MapError
from vehicled.maps.map_file import read_map as read_grid


class Occupancy:
    """Occupied cells (rows, columns) of a grid, row 0 in the south, rotated about its south-west
    corner."""

    def __init__(
        self,
        occupied: npt.NDArray[np.bool_],
        resolution_m: float,
        origin: tuple[float, float, float],
    ) -> None:
        """``origin``: x, y and yaw of the south-west corner in ``map``."""
        self.occupied = occupied
        self._resolution_m = resolution_m
        self._x_m, self._y_m, yaw = origin
        self._cos, self._sin = cos(yaw), sin(yaw)
        self.edges_m = self._place(_outline(occupied))
        """Faces between occupied and other cells, with collinear ones joined, as segments (m, 4) in
        ``map``."""

    def _place(self, cells: npt.NDArray[np.int64]) -> Array:
        own = cells * self._resolution_m
        x, y = own[:, 0::2], own[:, 1::2]
        placed = np.empty(own.shape)
        placed[:, 0::2] = self._x_m + self._cos * x - self._sin * y
        placed[:, 1::2] = self._y_m + self._sin * x + self._cos * y
        return placed

    def outlines_m(self) -> Array:
        """Return the corners (n, 4, 2) of rectangles that cover the occupied cells, one for each
        run in a row."""
        padded = np.pad(self.occupied, ((0, 0), (1, 1))).astype(np.int8)
        steps = np.diff(padded, axis=1)
        row, begin = np.nonzero(steps == 1)
        _, end = np.nonzero(steps == -1)
        corners = np.stack((begin, row, end, row, end, row + 1, begin, row + 1), axis=1)
        return self._place(corners).reshape(-1, 4, 2)

    def contains(self, x_m: Array, y_m: Array) -> npt.NDArray[np.bool_]:
        """True for points (n,) in occupied cells."""
        dx, dy = x_m - self._x_m, y_m - self._y_m
        column = np.floor((self._cos * dx + self._sin * dy) / self._resolution_m)
        row = np.floor((self._cos * dy - self._sin * dx) / self._resolution_m)
        rows, columns = self.occupied.shape
        within = (column >= 0) & (column < columns) & (row >= 0) & (row < rows)
        inside = np.zeros(len(x_m), dtype=np.bool_)
        inside[within] = self.occupied[row[within].astype(np.intp), column[within].astype(np.intp)]
        return inside


def _outline(occupied: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Return the faces as (m, 4): column and row of both ends, in cells."""
    horizontal = np.zeros((occupied.shape[0] + 1, occupied.shape[1]), dtype=np.int8)
    horizontal[:-1] += occupied
    horizontal[1:] -= occupied
    vertical = np.zeros((occupied.shape[1] + 1, occupied.shape[0]), dtype=np.int8)
    vertical[:-1] += occupied.T
    vertical[1:] -= occupied.T
    line, begin, end = _runs(horizontal)
    other, low, high = _runs(vertical)
    return np.concatenate(
        (np.stack((begin, line, end, line), axis=1), np.stack((other, low, other, high), axis=1))
    )


def _runs(faces: npt.NDArray[np.int8]) -> tuple[npt.NDArray[np.int64], ...]:
    """Return line, begin and end of every run of equal non-zero faces, line by line."""
    padded = np.pad(faces, ((0, 0), (1, 1)))
    changes = padded[:, 1:] != padded[:, :-1]
    line, at = np.nonzero(changes & (padded[:, 1:] != 0))
    _, stop = np.nonzero(changes & (padded[:, :-1] != 0))
    return line.astype(np.int64), at.astype(np.int64), stop.astype(np.int64)


def read_map(path: Path, scale: float = 1.0) -> Occupancy:
    """Read the grid of a map_server YAML file, with all lengths times ``scale``. Raises
    :class:`SceneError`."""
    try:
        grid = read_grid(path)
    except MapError as error:
        raise SceneError(str(error)) from None
    x, y, yaw = grid.origin
    return Occupancy(grid.occupied, scale * grid.resolution_m, (scale * x, scale * y, yaw))
