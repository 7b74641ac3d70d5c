"""Local tangent plane on WGS 84: east, north, up in metres around a datum, exact through ECEF.

Scalar Python floats: one conversion costs about a microsecond, which is what a stream of single
fixes needs.
"""

from dataclasses import dataclass, field
from math import cos, degrees, isfinite, pi, radians, sin

from vehicled.core.wire.geodesy import ecef_to_geodetic, geodetic_to_ecef
from vehicled.paths.errors import CourseError


@dataclass(frozen=True, slots=True)
class Datum:
    """Origin of a local plane: WGS 84, height above the ellipsoid. Raises CourseError when it is
    not on the earth."""

    latitude_rad: float
    longitude_rad: float
    height_m: float = 0.0
    _origin: tuple[float, float, float] = field(init=False, repr=False, compare=False)
    _trig: tuple[float, float, float, float] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        lat, lon, height = self.latitude_rad, self.longitude_rad, self.height_m
        if not (isfinite(lat) and isfinite(lon) and isfinite(height)):
            raise CourseError(
                f"datum ({lat}, {lon}, {height}) has a value that is not a finite number"
            )
        if abs(lat) > pi / 2 or abs(lon) > pi:
            raise CourseError(
                f"datum latitude {degrees(lat):.7g} deg, longitude {degrees(lon):.7g} deg is not "
                "on the earth (latitude -90 to 90, longitude -180 to 180): are they swapped, or "
                "degrees given as radians?"
            )
        if not -1000.0 <= height <= 10000.0:
            raise CourseError(
                f"datum height {height:g} m is outside -1000 to 10000 m above the ellipsoid"
            )
        object.__setattr__(self, "_origin", geodetic_to_ecef(lat, lon, height))
        object.__setattr__(self, "_trig", (sin(lat), cos(lat), sin(lon), cos(lon)))

    @classmethod
    def from_degrees(
        cls, latitude_deg: float, longitude_deg: float, height_m: float = 0.0
    ) -> "Datum":
        """Return the datum from degrees, as files give it."""
        return cls(radians(latitude_deg), radians(longitude_deg), height_m)

    def to_enu(
        self, latitude_rad: float, longitude_rad: float, height_m: float
    ) -> tuple[float, float, float]:
        """Return east, north, up in m of a WGS 84 position. NaN in gives NaN out."""
        x, y, z = geodetic_to_ecef(latitude_rad, longitude_rad, height_m)
        ox, oy, oz = self._origin
        sin_lat, cos_lat, sin_lon, cos_lon = self._trig
        dx, dy, dz = x - ox, y - oy, z - oz
        out = cos_lon * dx + sin_lon * dy
        return (
            cos_lon * dy - sin_lon * dx,
            cos_lat * dz - sin_lat * out,
            cos_lat * out + sin_lat * dz,
        )

    def to_geodetic(self, east_m: float, north_m: float, up_m: float) -> tuple[float, float, float]:
        """Return WGS 84 latitude rad, longitude rad, height m of a point of the local plane. NaN in
        gives NaN out."""
        ox, oy, oz = self._origin
        sin_lat, cos_lat, sin_lon, cos_lon = self._trig
        out = cos_lat * up_m - sin_lat * north_m
        x = ox + cos_lon * out - sin_lon * east_m
        y = oy + sin_lon * out + cos_lon * east_m
        return ecef_to_geodetic(x, y, oz + cos_lat * north_m + sin_lat * up_m)


LOT_17 = Datum.from_degrees(43.0705, -89.4090, 230.0)
"""Car park 17 of UW-Madison, where the reference laps were driven. Approximate: the publication
gives none. Also the place of courses that name no other."""
