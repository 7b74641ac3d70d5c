"""Courses and terrain in a projection: where they lie on the map, and what is refused."""

from math import radians
from pathlib import Path

import numpy as np
import pytest

from sim_backend.terrain.errors import TerrainError
from sim_backend.terrain.reading import load_terrain
from vehicled.paths.catalog import load_course
from vehicled.paths.datum import Datum
from vehicled.paths.errors import CourseError
from vehicled.paths.formats import course_from_bytes
from vehicled.profile.schema import TerrainTable as TerrainTable

pyproj = pytest.importorskip("pyproj")

UTM = "EPSG:32616"
SITE = Datum.from_degrees(47.11, -88.55)
"""A place in the north of Michigan, 1.6 degrees west of the middle of the zone."""


def easting_northing(x_m: float, y_m: float) -> tuple[float, float]:
    latitude, longitude, _ = SITE.to_geodetic(x_m, y_m, 0.0)
    found = pyproj.Transformer.from_crs("EPSG:4326", UTM, always_xy=True).transform(
        np.degrees(longitude), np.degrees(latitude)
    )
    return float(found[0]), float(found[1])


def table(setting: str = "# crs: EPSG:32616\n", datum: str = "# datum_deg: 47.11, -88.55\n") -> str:
    rows = [easting_northing(0.0, y_m) for y_m in np.linspace(0.0, 300.0, 31)]
    return setting + datum + "x_m,y_m\n" + "".join(f"{x:.4f},{y:.4f}\n" for x, y in rows)


def test_a_line_to_the_north_in_utm_leads_north_on_the_map() -> None:
    course = course_from_bytes(table().encode(), "north.csv")
    assert np.abs(course.x_m).max() < 0.001
    assert course.y_m[-1] == pytest.approx(300.0, abs=0.001)
    assert course.surveyed
    assert course.account is not None
    assert any("grid north is -1.14 degrees" in remark for remark in course.account.remarks)
    # The same numbers taken for metres east and north lead 6 m aside.
    assert easting_northing(0.0, 300.0)[0] - easting_northing(0.0, 0.0)[0] == pytest.approx(
        5.9, abs=0.1
    )
    with pytest.raises(CourseError, match="name their projection: # crs"):
        course_from_bytes(table("").encode(), "north.csv")


def test_the_projection_may_be_given_with_the_name(tmp_path: Path) -> None:
    (tmp_path / "north.csv").write_text(table(""))
    for given in ("crs=EPSG:32616", "time=s,crs=EPSG:32616", "crs=EPSG:32616,columns=x,y"):
        if "columns" in given:
            (tmp_path / "north.csv").write_text("".join(table("").splitlines(keepends=True)[2:]))
        course = load_course(f"{tmp_path}/north.csv:{given}")
        assert course.y_m[-1] - course.y_m[0] == pytest.approx(300.0, abs=0.001)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (table("# crs: EPSG:99999\n"), "is not known"),
        (table("# crs: EPSG:4326\n"), "not a projection"),
        (table().replace("x_m,y_m", "lat,lon"), "in degrees"),
        ("# crs: EPSG:32616\nx_m,y_m\n1e30,1\n1e30,2\n", "no place of"),
    ],
)
def test_what_is_no_projection_is_refused(text: str, says: str) -> None:
    with pytest.raises(CourseError, match=says):
        course_from_bytes(text.encode(), "north.csv")


def _hill(folder: Path, name: str) -> TerrainTable:
    """A ridge that runs north on the map, as a grid of UTM with a node each 5 m."""
    east, north = easting_northing(0.0, 0.0)
    xs, ys = (
        np.arange(round(middle / 5.0) - 70, round(middle / 5.0) + 71) * 5.0
        for middle in (east, north)
    )
    to_degrees = pyproj.Transformer.from_crs(UTM, "EPSG:4326", always_xy=True)
    rows = []
    for y in ys:
        for x in xs:
            longitude, latitude = to_degrees.transform(x, y)
            place = SITE.to_enu(radians(latitude), radians(longitude), 0.0)[0]
            rows.append((x, y, 100.0 + 5.0 * np.exp(-((place / 30.0) ** 2))))
    np.savetxt(folder / name, rows, fmt="%.4f")
    return TerrainTable(
        height=str(folder / name), resolution_m=5.0, origin_m=[east, north, 100.0], crs=UTM
    )


def test_a_ridge_to_the_north_stays_below_a_line_to_the_north(tmp_path: Path) -> None:
    table = _hill(tmp_path, "hill.xyz")
    terrain = load_terrain(table)
    for y_m in (-300.0, 0.0, 300.0):
        height, slope_x, slope_y, _ = terrain.at(0.0, y_m)
        assert height == pytest.approx(5.0, abs=0.04)
        assert abs(slope_x) < 0.01
        assert abs(slope_y) < 0.001
    # Without the projection the ridge is 6 m aside, where it is steep.
    crooked = load_terrain(
        TerrainTable(height=table.height, resolution_m=5.0, origin_m=table.origin_m)
    )
    assert abs(crooked.at(0.0, 300.0)[1]) > 0.03


def test_an_origin_outside_the_projection_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.xyz").write_text("0 0 1\n5 0 1\n0 5 1\n5 5 1\n")
    with pytest.raises(TerrainError, match="no place of"):
        load_terrain(
            TerrainTable(
                height=str(tmp_path / "a.xyz"), resolution_m=5.0, origin_m=[1e30, 0.0, 0.0], crs=UTM
            )
        )
