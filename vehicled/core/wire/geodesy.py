"""Positions on WGS 84, as receivers report them: geodetic, and earth-centred earth-fixed.

Scalar Python floats: one conversion costs about a microsecond.
"""

from math import atan2, cos, hypot, sin, sqrt

SEMI_MAJOR_M = 6378137.0
FLATTENING = 1.0 / 298.257223563
_E2 = FLATTENING * (2.0 - FLATTENING)
_SEMI_MINOR_M = SEMI_MAJOR_M * (1.0 - FLATTENING)
_SECOND_E2 = _E2 / (1.0 - _E2)


def geodetic_to_ecef(
    latitude_rad: float, longitude_rad: float, height_m: float
) -> tuple[float, float, float]:
    """Return the earth-centred earth-fixed coordinates in m of a WGS 84 position; height above the
    ellipsoid."""
    sin_lat = sin(latitude_rad)
    normal_m = SEMI_MAJOR_M / sqrt(1.0 - _E2 * sin_lat * sin_lat)
    across = (normal_m + height_m) * cos(latitude_rad)
    return (
        across * cos(longitude_rad),
        across * sin(longitude_rad),
        (normal_m * (1.0 - _E2) + height_m) * sin_lat,
    )


def ecef_to_geodetic(x_m: float, y_m: float, z_m: float) -> tuple[float, float, float]:
    """Return WGS 84 latitude rad, longitude rad, height m. Bowring 1976 with two refinements: below
    1e-9 m within 100 km of the ground."""
    across = hypot(x_m, y_m)
    sin_b, cos_b = z_m * SEMI_MAJOR_M, across * _SEMI_MINOR_M
    for _ in range(3):
        norm = hypot(sin_b, cos_b)
        sin_b, cos_b = sin_b / norm, cos_b / norm
        sin_lat = z_m + _SECOND_E2 * _SEMI_MINOR_M * sin_b * sin_b * sin_b
        cos_lat = across - _E2 * SEMI_MAJOR_M * cos_b * cos_b * cos_b
        sin_b, cos_b = (1.0 - FLATTENING) * sin_lat, cos_lat
    norm = hypot(sin_lat, cos_lat)
    sin_lat, cos_lat = sin_lat / norm, cos_lat / norm
    # This form of the height holds at the poles and at the equator alike.
    height_m = across * cos_lat + z_m * sin_lat - SEMI_MAJOR_M * sqrt(1.0 - _E2 * sin_lat * sin_lat)
    return atan2(sin_lat, cos_lat), atan2(y_m, x_m), height_m
