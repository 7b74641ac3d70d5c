"""The tangent plane against PROJ."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from vehicled.core.wire.geodesy import ecef_to_geodetic, geodetic_to_ecef
from vehicled.paths.datum import Datum

pyproj = pytest.importorskip("pyproj", reason="PROJ is the oracle")

PLACES = [
    (43.0705, -89.409, 230.0),
    (0.0, 0.0, 0.0),
    (-33.9, 151.2, 50.0),
    (78.2, 15.6, -20.0),
    (52.52, 13.405, 34.0),
    (-89.9, 179.9, 2800.0),
]


@pytest.mark.parametrize("place", PLACES)
def test_enu_agrees_with_proj_topocentric(place: tuple[float, float, float]) -> None:
    lat, lon, height = place
    pipeline = (
        "+proj=pipeline +step +proj=cart +ellps=WGS84 +step +proj=topocentric +ellps=WGS84 "
        f"+lat_0={lat} +lon_0={lon} +h_0={height}"
    )
    transformer = pyproj.Transformer.from_pipeline(pipeline)
    datum = Datum.from_degrees(lat, lon, height)
    for dlat, dlon, dh in [
        (0, 0, 0),
        (1e-4, 2e-4, 1.0),
        (-0.003, 0.001, -5.0),
        (0.05, -0.08, 120.0),
    ]:
        point = (lat + dlat, lon + dlon, height + dh)
        expected = transformer.transform(point[1], point[0], point[2])
        got = datum.to_enu(math.radians(point[0]), math.radians(point[1]), point[2])
        assert got == pytest.approx(expected, abs=1e-7)


@given(st.floats(-89.99, 89.99), st.floats(-180, 180), st.floats(-5000, 50000))
@examples(50)
def test_ecef_agrees_with_proj(lat: float, lon: float, height: float) -> None:
    transformer = pyproj.Transformer.from_crs("EPSG:4979", "EPSG:4978", always_xy=True)
    expected = transformer.transform(lon, lat, height)
    got = geodetic_to_ecef(math.radians(lat), math.radians(lon), height)
    assert got == pytest.approx(expected, abs=1e-6)
    back = ecef_to_geodetic(*got)
    assert math.degrees(back[0]) == pytest.approx(lat, abs=1e-10)
    assert back[2] == pytest.approx(height, abs=1e-6)
