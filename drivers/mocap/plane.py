"""Geodetic places of points in a room: a local tangent plane at the origin of its map."""

from math import cos, radians, sin

from vehicled.core.wire.geodesy import ecef_to_geodetic, geodetic_to_ecef


class LocalPlane:
    """East, north and up in m about an origin on WGS 84."""

    def __init__(self, latitude_deg: float, longitude_deg: float, height_m: float) -> None:
        lat, lon = radians(latitude_deg), radians(longitude_deg)
        self._origin = geodetic_to_ecef(lat, lon, height_m)
        self._trig = sin(lat), cos(lat), sin(lon), cos(lon)

    def to_geodetic(self, east_m: float, north_m: float, up_m: float) -> tuple[float, float, float]:
        """Return latitude rad, longitude rad and height m of a point."""
        x, y, z = self._origin
        sin_lat, cos_lat, sin_lon, cos_lon = self._trig
        out = cos_lat * up_m - sin_lat * north_m
        return ecef_to_geodetic(
            x + cos_lon * out - sin_lon * east_m,
            y + sin_lon * out + cos_lon * east_m,
            z + cos_lat * north_m + sin_lat * up_m,
        )
