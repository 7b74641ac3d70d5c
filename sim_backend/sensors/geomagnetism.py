"""Main field of the earth by the World Magnetic Model. Chulliat et al., The US/UK World Magnetic
Model for 2025, section 1.2."""

from math import asin, cos, hypot, pi, sin, sqrt

from sim_backend.sensors.wmm2025 import COEFFICIENTS, EPOCH
from vehicled.core.wire.geodesy import geodetic_to_ecef

REFERENCE_RADIUS_M = 6_371_200.0
_DEGREE = 12
_POLE = 1e-10
_UNIX_YEAR_NS = 31_556_952_000_000_000
"""Mean Gregorian year, 365.2425 days."""


def year_of(utc_ns: int) -> float:
    """Convert UTC since 1970 to a decimal year, to half a day; the field changes far slower."""
    return 1970.0 + utc_ns / _UNIX_YEAR_NS


def earth_field_ut(
    latitude_rad: float, longitude_rad: float, height_m: float, year: float
) -> tuple[float, float, float]:
    """Return the field, east, north, up in microtesla, at a WGS 84 position. Excludes crust, iron
    objects and magnetic storms."""
    x, y, z = geodetic_to_ecef(latitude_rad, longitude_rad, height_m)
    radius_m = sqrt(x * x + y * y + z * z)
    geocentric_rad = asin(z / radius_m)
    colatitude_rad = min(max(0.5 * pi - geocentric_rad, _POLE), pi - _POLE)
    legendre, slope = _legendre(cos(colatitude_rad), sin(colatitude_rad))
    years = year - EPOCH
    down = south = east = 0.0
    for n, m, g, h, g_rate, h_rate in COEFFICIENTS:
        g, h = g + years * g_rate, h + years * h_rate
        c, s = cos(m * longitude_rad), sin(m * longitude_rad)
        scale = (REFERENCE_RADIUS_M / radius_m) ** (n + 2)
        along = scale * (g * c + h * s)
        down -= (n + 1) * along * legendre[n][m]
        south -= along * slope[n][m]
        east += scale * m * (g * s - h * c) * legendre[n][m] / sin(colatitude_rad)
    # Rotate from spherical to ellipsoidal vertical.
    lean_rad = latitude_rad - geocentric_rad
    north = -south
    up = -(down * cos(lean_rad) - north * sin(lean_rad))
    north = north * cos(lean_rad) + down * sin(lean_rad)
    return 1e-3 * east, 1e-3 * north, 1e-3 * up


def horizontal_ut(field_ut: tuple[float, float, float]) -> float:
    """Return the horizontal strength, which a compass needle follows."""
    return hypot(field_ut[0], field_ut[1])


def _legendre(c: float, s: float) -> tuple[list[list[float]], list[list[float]]]:
    """Return the associated Legendre functions of the cosine c of the colatitude, Schmidt
    semi-normalised, and their derivatives by it.
    """
    p = [[0.0] * (_DEGREE + 1) for _ in range(_DEGREE + 1)]
    d = [[0.0] * (_DEGREE + 1) for _ in range(_DEGREE + 1)]
    p[0][0] = 1.0
    for n in range(1, _DEGREE + 1):
        for m in range(n + 1):
            if m == n:
                factor = 1.0 if n == 1 else sqrt((2 * n - 1) / (2 * n))
                p[n][n] = factor * s * p[n - 1][n - 1]
                d[n][n] = factor * (c * p[n - 1][n - 1] + s * d[n - 1][n - 1])
                continue
            two_down = (p[n - 2][m], d[n - 2][m]) if n >= 2 else (0.0, 0.0)
            weight, root = sqrt(max((n - 1) ** 2 - m * m, 0)), sqrt(n * n - m * m)
            p[n][m] = ((2 * n - 1) * c * p[n - 1][m] - weight * two_down[0]) / root
            d[n][m] = (
                (2 * n - 1) * (c * d[n - 1][m] - s * p[n - 1][m]) - weight * two_down[1]
            ) / root
    return p, d
