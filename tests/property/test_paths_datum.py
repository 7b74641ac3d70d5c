"""The tangent plane: a round trip is exact anywhere, small steps point the right way."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from vehicled.paths import CourseError
from vehicled.paths.datum import Datum

datums = st.builds(
    Datum.from_degrees, st.floats(-90, 90), st.floats(-180, 180), st.floats(-400, 6000)
)
plane = st.floats(-20_000, 20_000)


@given(datums, plane, plane, st.floats(-2000, 10_000))
@examples(100)
def test_round_trip(datum: Datum, east: float, north: float, up: float) -> None:
    assert datum.to_enu(*datum.to_geodetic(east, north, up)) == pytest.approx(
        (east, north, up), abs=1e-7
    )


@given(datums)
@settings(deadline=None)
def test_the_datum_is_the_origin(datum: Datum) -> None:
    assert datum.to_enu(datum.latitude_rad, datum.longitude_rad, datum.height_m) == pytest.approx(
        (0, 0, 0), abs=1e-8
    )


def test_axes_point_east_north_up() -> None:
    datum = Datum.from_degrees(43.0705, -89.409, 230.0)
    east, north, up = datum.to_enu(datum.latitude_rad, datum.longitude_rad + 1e-6, 230.0)
    assert east > 4.6
    assert abs(north) < 1e-5
    east, north, up = datum.to_enu(datum.latitude_rad + 1e-6, datum.longitude_rad, 230.0)
    assert north == pytest.approx(6.36, abs=0.01)
    assert abs(east) < 1e-5
    assert datum.to_enu(datum.latitude_rad, datum.longitude_rad, 231.0)[2] == pytest.approx(1.0)
    assert up < 0


def test_nan_passes_through() -> None:
    datum = Datum.from_degrees(43.0, -89.0)
    assert all(math.isnan(v) for v in datum.to_enu(math.nan, -1.5, 0.0))
    assert all(math.isnan(v) for v in datum.to_geodetic(math.nan, 0.0, 0.0)[::2])


@pytest.mark.parametrize(
    ("lat", "lon", "height", "word"),
    [
        (-120.0, 43.0, 0.0, "swapped"),
        (43.0, 200.0, 0.0, "swapped"),
        (math.nan, 0.0, 0.0, "finite"),
        (43.0, 9.0, 99999.0, "height"),
    ],
)
def test_a_datum_off_the_earth_is_refused(lat: float, lon: float, height: float, word: str) -> None:
    with pytest.raises(CourseError, match=word):
        Datum.from_degrees(lat, lon, height)
