"""Rasters in a projection, such as UTM, brought onto the grid of the map, whose axes are east and
north at its origin."""

from math import ceil, floor

import numpy as np
from msgspec.structs import replace

from sim_backend.terrain.raster import Raster, check_size, filled
from vehicled.core.arrays import Array
from vehicled.paths.datum import Datum
from vehicled.paths.projection import Projection

EDGE_NODES = 200
"""Points along each edge whose places give the extent on the map."""


def on_map(
    raster: Raster, projection: Projection, origin_m: tuple[float, float], *, smooth: bool
) -> Raster:
    """Return a raster of easting and northing on a grid of the map, which has its origin at
    ``origin_m`` of the projection.

    ``smooth`` interpolates bicubically and lowers the values with the curvature of the earth, as
    heights need it; without it values stay between those of their neighbours. Raises CourseError
    for an origin outside the projection, and TerrainError.
    """
    latitude, longitude = (
        float(each[0]) for each in projection.to_degrees(origin_m[:1], origin_m[1:])
    )
    datum = Datum.from_degrees(latitude, longitude)
    west, south, east, north = raster.extent_m
    along, level = np.linspace(0.0, 1.0, EDGE_NODES), np.ones(EDGE_NODES)
    right, up = west + along * (east - west), south + along * (north - south)
    x, y = projection.to_map(
        datum,
        np.concatenate([right, right, west * level, east * level]),
        np.concatenate([south * level, north * level, up, up]),
    )
    step = raster.step_m
    # Nodes of the map lie whole steps from its origin.
    from_x, from_y = floor(x.min() / step), floor(y.min() / step)
    columns, rows = ceil(x.max() / step) - from_x + 1, ceil(y.max() / step) - from_y + 1
    check_size("the terrain on the map", rows, columns, "cut the file to where the vehicle drives")
    known, values = filled(raster.values), np.empty((rows, columns))
    grid_x = (from_x + np.arange(columns)) * step
    for row in range(rows):
        e, n, height = projection.from_map(datum, grid_x, np.full(columns, (from_y + row) * step))
        p, q = (e - west) / step, (n - south) / step
        found = _interpolated(known, p, q, smooth=smooth) - (height if smooth else 0.0)
        values[row] = np.where(_is_hole(raster.values, p, q), np.nan, found)
    return replace(raster, values=values, x_m=from_x * step, y_m=from_y * step)


def _is_hole(values: Array, p: Array, q: Array) -> Array:
    """Return where the nearest node is unknown, or further off than half a step."""
    i, j = np.rint(p).astype(np.int64), np.rint(q).astype(np.int64)
    rows, columns = values.shape
    outside = (i < 0) | (j < 0) | (i >= columns) | (j >= rows)
    hole: Array = outside | np.isnan(values[np.clip(j, 0, rows - 1), np.clip(i, 0, columns - 1)])
    return hole


def _interpolated(values: Array, p: Array, q: Array, *, smooth: bool) -> Array:
    i, j = np.floor(p).astype(np.int64), np.floor(q).astype(np.int64)
    rows, columns = values.shape
    across, along = _weights(q - j, smooth=smooth), _weights(p - i, smooth=smooth)
    found = np.zeros_like(p)
    for b in range(4):
        row = np.clip(j + b - 1, 0, rows - 1)
        for a in range(4):
            found += across[b] * along[a] * values[row, np.clip(i + a - 1, 0, columns - 1)]
    return found


def _weights(u: Array, *, smooth: bool) -> Array:
    """Return the weights (4, n) of the nodes round places at u in 0..1 behind the second of
    them."""
    if not smooth:
        return np.array((0.0 * u, 1.0 - u, u, 0.0 * u))
    # Catmull-Rom, Keys 1981 with a = -1/2.
    return np.array(
        (
            u * (-0.5 + u * (1.0 - 0.5 * u)),
            1.0 + u * u * (1.5 * u - 2.5),
            u * (0.5 + u * (2.0 - 1.5 * u)),
            0.5 * u * u * (u - 1.0),
        )
    )
