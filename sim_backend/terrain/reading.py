"""Loader of the terrain files that a profile names."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from msgspec.structs import replace

from sim_backend.scene.anchor import expanded
from sim_backend.terrain import clouds, projected, rasters
from sim_backend.terrain.errors import TerrainError
from sim_backend.terrain.raster import MAX_SIZE, Raster
from sim_backend.terrain.surface import Terrain
from vehicled.paths.errors import CourseError
from vehicled.paths.projection import Projection
from vehicled.profile.schema import TerrainTable as TerrainTable

MAX_FRICTION = 5.0


def load_terrain(table: TerrainTable) -> Terrain:
    """Load the terrain of ``[sim.terrain]``, in ``map``; cached. Raises TerrainError."""
    return _load(
        table.height,
        table.friction,
        table.friction_scale,
        table.resolution_m,
        tuple(table.origin_m),
        table.crs,
    )


@lru_cache(maxsize=2)
def _load(
    height: str,
    friction: str,
    friction_scale: float,
    resolution_m: float,
    origin_m: tuple[float, ...],
    crs: str,
) -> Terrain:
    ground = (
        _moved(read_raster(height, resolution_m), origin_m, crs, smooth=True) if height else None
    )
    grip = (
        _moved(read_raster(friction, resolution_m), (*origin_m[:2], 0.0), crs, smooth=False)
        if friction
        else None
    )
    if grip is not None:
        known = grip.values[grip.values == grip.values]
        low, high = float(known.min()), float(known.max())
        if low < 0.0 or high > MAX_FRICTION:
            raise TerrainError(
                f"{friction}: friction from {low:g} to {high:g}; it must be from 0 to "
                f"{MAX_FRICTION:g}"
            )
        grip = replace(grip, values=friction_scale * grip.values)
    return Terrain(ground, grip, friction_scale)


def read_raster(name: str, resolution_m: float) -> Raster:
    """Read a point cloud or raster, by file name extension, in its own coordinates, with its holes.
    Raises TerrainError."""
    path = expanded(name)
    kind = path.suffix.lower()
    if not path.is_file():
        raise TerrainError(f"{path}: no such file; a terrain's path is relative to the profile")
    if kind in clouds.READERS:
        raster = clouds.read_cloud(path, resolution_m)
    elif kind in rasters.READERS:
        raster = rasters.READERS[kind](path)
    else:
        known = " ".join(sorted((*clouds.READERS, *rasters.READERS)))
        raise TerrainError(f"{path}: {kind or 'no ending'} is not supported; use one of {known}")
    if raster.holes == raster.values.size:
        raise TerrainError(f"{path}: the file has no known value")
    if np.nanmax(np.abs(raster.values)) > MAX_SIZE:
        raise TerrainError(
            f"{path}: has values beyond {MAX_SIZE:g}; mark holes by empty cells or the no-data "
            "value"
        )
    if not all(abs(place) <= MAX_SIZE for place in raster.extent_m):
        raise TerrainError(f"{path}: lies beyond {MAX_SIZE:g} m; correct its georeference")
    return raster


def _moved(raster: Raster, origin_m: Sequence[float], crs: str, *, smooth: bool) -> Raster:
    x, y, z = origin_m
    if not crs:
        return replace(raster, values=raster.values - z, x_m=raster.x_m - x, y_m=raster.y_m - y)
    try:
        return projected.on_map(
            replace(raster, values=raster.values - z), Projection(crs), (x, y), smooth=smooth
        )
    except CourseError as error:
        raise TerrainError(
            f"sim.terrain: {error}; origin_m = [{x:.10g}, {y:.10g}, ...] is a place of that "
            "projection"
        ) from None
