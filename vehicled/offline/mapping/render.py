"""The grid that scans show from known poses."""

from collections.abc import Sequence
from math import ceil

import numpy as np
import numpy.typing as npt

from vehicled.core.arrays import Array
from vehicled.maps.grid import FREE, OCCUPIED, UNKNOWN, Cells, OccupancyGrid
from vehicled.maps.matching import PlanarPose
from vehicled.maps.surface import Index
from vehicled.offline.mapping.errors import MappingDriveError
from vehicled.offline.mapping.front_end import Keyframe

MARGIN_M = 0.5
LEAST_HITS = 2
"""Returns from which a cell may be occupied: one may be a moving body or an error."""
HIT_RATIO = 0.25
"""Returns in a cell, over the rays that met or crossed it, from which it is occupied."""
MAX_CELLS = 64_000_000


def rendered(
    frames: Sequence[Keyframe], poses: Sequence[PlanarPose], resolution_m: float
) -> OccupancyGrid:
    """Return the grid of keyframes at their poses. Raises :class:`MappingDriveError` if it would be
    too large."""
    ends = [pose.place(k.x_m, k.y_m) for k, pose in zip(frames, poses)]
    eyes = [
        pose.place(np.array([k.origin_m[0]]), np.array([k.origin_m[1]]))
        for k, pose in zip(frames, poses)
    ]
    x, y = (np.concatenate([end[axis] for end in [*ends, *eyes]]) for axis in (0, 1))
    low_x, low_y = (
        float(np.floor((v.min() - MARGIN_M) / resolution_m)) * resolution_m for v in (x, y)
    )
    columns, rows = (
        ceil((float(v.max()) + MARGIN_M - low) / resolution_m)
        for v, low in ((x, low_x), (y, low_y))
    )
    if rows * columns > MAX_CELLS:
        raise MappingDriveError(
            f"the map would have {columns} x {rows} cells of {resolution_m:g} m (at most "
            f"{MAX_CELLS}): give larger cells (--resolution)"
        )
    hits, passes, place = (np.zeros(rows * columns, np.int32) for _ in range(3))
    for (ex, ey), (ox, oy) in zip(ends, eyes):
        column, row = ((v - low) / resolution_m for v, low in ((ex, low_x), (ey, low_y)))
        end = row.astype(np.intp) * columns + column.astype(np.intp)
        # A scan counts each cell once, however many of its rays meet or cross it.
        met = _once(end, place)
        hits[met] += 1
        crossed = _crossed(float(ox[0]), float(oy[0]), ex, ey, low_x, low_y, resolution_m, columns)
        crossed = _once(crossed, place)
        passes[crossed] += 1
        # What was met does not count as crossed.
        place[met] = -1
        passes[crossed[place[crossed] < 0]] -= 1
    cells: Cells = np.full(rows * columns, UNKNOWN, np.int8)
    cells[(passes > 0) | (hits > 0)] = FREE
    cells[(hits >= min(LEAST_HITS, len(frames))) & (hits > HIT_RATIO * (hits + passes))] = OCCUPIED
    return OccupancyGrid(cells.reshape(rows, columns), resolution_m, (low_x, low_y, 0.0))


def _once(cells: Index, place: npt.NDArray[np.int32]) -> Index:
    """Return each cell once. ``place`` has an entry for each cell of the grid, of any value."""
    order = np.arange(len(cells), dtype=np.int32)
    place[cells] = order
    return np.asarray(cells[place[cells] == order])


def _crossed(
    ox: float,
    oy: float,
    ex: Array,
    ey: Array,
    low_x: float,
    low_y: float,
    resolution_m: float,
    columns: int,
) -> Index:
    """Return the cells under the rays, sampled twice a cell, but for the last cell and a half
    before each end."""
    length = np.hypot(ex - ox, ey - oy)
    counts = np.maximum((2.0 * length / resolution_m).astype(np.intp) - 3, 0)
    ray = np.repeat(np.arange(len(ex)), counts)
    along = (
        (np.arange(len(ray)) - np.repeat(np.cumsum(counts) - counts, counts))
        * (0.5 * resolution_m)
        / length[ray]
    )
    column = ((ox + along * (ex[ray] - ox) - low_x) / resolution_m).astype(np.intp)
    row = ((oy + along * (ey[ray] - oy) - low_y) / resolution_m).astype(np.intp)
    return np.asarray(row * columns + column)
