"""Projected coordinates, such as UTM or any other EPSG code, by pyproj (extra ``projection``),
which is imported only here.

The axes of a projection are not east and north: grid north is off true north by the grid
convergence (about 1 degree some way from the central meridian), and distances are off by the scale.
Both are removed, because the map is the tangent plane of its datum.
"""

from collections.abc import Sequence
from math import degrees
from typing import Any

import numpy as np

from vehicled.core.arrays import Array
from vehicled.paths.datum import Datum
from vehicled.paths.errors import CourseError

WGS_84 = "EPSG:4326"


class Projection:
    """A projected coordinate reference system by its name, such as ``EPSG:32616``. Raises
    CourseError for one that is none."""

    def __init__(self, name: str) -> None:
        try:
            import pyproj
        except ImportError:
            raise CourseError(
                f"crs {name[:40]}: projections need pyproj: pip install 'vehicled[projection]'"
            ) from None
        try:
            crs = pyproj.CRS.from_user_input(name)
        except pyproj.exceptions.CRSError:
            raise CourseError(
                f'crs "{name[:40]}" is not known; write for example EPSG:32616 (UTM zone 16 north)'
            ) from None
        if not crs.is_projected:
            raise CourseError(
                f'crs "{name[:40]}" ({crs.name}) is not a projection in metres; leave crs out '
                "for degrees"
            )
        self.name = f"{name} ({crs.name})"
        self._pyproj: Any = pyproj
        self._crs = crs
        self._to_degrees = pyproj.Transformer.from_crs(crs, WGS_84, always_xy=True)

    def to_degrees(
        self, east: Sequence[float] | Array, north: Sequence[float] | Array
    ) -> tuple[Array, Array]:
        """Return latitudes and longitudes (n,) in degrees. Raises CourseError for places outside
        the projection."""
        longitude, latitude = self._to_degrees.transform(
            np.asarray(east, dtype=float), np.asarray(north, dtype=float)
        )
        wrong = np.flatnonzero(~(np.isfinite(latitude) & np.isfinite(longitude)))
        if len(wrong):
            k = int(wrong[0])
            raise CourseError(
                f"({east[k]:.10g}, {north[k]:.10g}) is no place of {self.name}: are easting "
                "and northing swapped?"
            )
        return latitude, longitude

    def convergence_deg(self, latitude_deg: float, longitude_deg: float) -> float:
        """Return the bearing of grid north from true north in degrees, clockwise positive."""
        found: float = (
            self._pyproj.Proj(self._crs)
            .get_factors(longitude_deg, latitude_deg)
            .meridian_convergence
        )
        return found

    def from_map(self, datum: Datum, x_m: Array, y_m: Array) -> tuple[Array, Array, Array]:
        """Return easting, northing and height above the datum's level (n,) of points of the tangent
        plane of a datum."""
        longitude, latitude, height = self._plane(datum).transform(x_m, y_m, np.zeros_like(x_m))
        east, north = self._to_degrees.transform(longitude, latitude, direction="INVERSE")
        return np.asarray(east), np.asarray(north), np.asarray(height)

    def to_map(self, datum: Datum, east: Array, north: Array) -> tuple[Array, Array]:
        """Return east and north (n,) in m of places at the datum's level, on its tangent plane.
        Raises CourseError."""
        latitude, longitude = self.to_degrees(east, north)
        x, y, _ = self._plane(datum).transform(
            longitude, latitude, np.zeros_like(latitude), direction="INVERSE"
        )
        return np.asarray(x), np.asarray(y)

    def _plane(self, datum: Datum) -> Any:
        """Return the transformation of the tangent plane of a datum to longitude, latitude in
        degrees and height."""
        return self._pyproj.Transformer.from_pipeline(
            "+proj=pipeline +step +inv +proj=topocentric +ellps=WGS84 "
            f"+lat_0={degrees(datum.latitude_rad)!r} +lon_0={degrees(datum.longitude_rad)!r} "
            "+h_0=0 +step +inv +proj=cart +ellps=WGS84 +step +proj=unitconvert +xy_in=rad "
            "+xy_out=deg"
        )
