"""The ground: heights through every node with slopes that do not jump, friction between its nodes,
edges, and holes."""

from math import cos, hypot, inf, isfinite, nan, sin

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim_backend.terrain.raster import MAX_NODES, Raster, check_size, filled
from sim_backend.terrain.surface import Terrain

places = st.floats(-4.0, 14.0)


def raster(values, step_m=0.5, x_m=1.0, y_m=-2.0):
    return Raster(values=np.array(values, dtype=np.float64), x_m=x_m, y_m=y_m, step_m=step_m)


ROUGH = raster(np.random.default_rng(4).normal(size=(9, 14)))


def test_level_ground_where_nothing_is_given():
    assert Terrain().at(3.0, -7.0) == (0.0, 0.0, 0.0, 1.0)
    assert Terrain(friction_scale=0.4).at(3.0, -7.0) == (0.0, 0.0, 0.0, 0.4)


def test_it_goes_through_every_node_with_the_slope_of_the_neighbours():
    terrain, z = Terrain(ROUGH), ROUGH.values
    for row in range(1, 8):
        for column in range(1, 13):
            height, slope_x, slope_y, _ = terrain.at(1.0 + 0.5 * column, -2.0 + 0.5 * row)
            assert height == pytest.approx(z[row, column], abs=1e-12)
            assert slope_x == pytest.approx(z[row, column + 1] - z[row, column - 1], abs=1e-9)
            assert slope_y == pytest.approx(z[row + 1, column] - z[row - 1, column], abs=1e-9)


@given(places, places)
def test_slopes_are_those_of_the_height_everywhere(x, y):
    terrain, eps = Terrain(ROUGH), 1e-6
    _, slope_x, slope_y, _ = terrain.at(x, y)
    assert slope_x == pytest.approx(
        (terrain.at(x + eps, y)[0] - terrain.at(x - eps, y)[0]) / (2 * eps), abs=2e-4
    )
    assert slope_y == pytest.approx(
        (terrain.at(x, y + eps)[0] - terrain.at(x, y - eps)[0]) / (2 * eps), abs=2e-4
    )


@given(places, places, st.floats(0.0, 6.3))
def test_neither_height_nor_slope_jumps(x, y, towards):
    """Also across cells, across the edge of the grid, and where it has run out."""
    terrain, eps = Terrain(ROUGH), 1e-7
    for x0 in (x, round(2 * x) / 2):
        here, there = terrain.at(x0, y), terrain.at(x0 + eps * cos(towards), y + eps * sin(towards))
        assert hypot(*(a - b for a, b in zip(here[:3], there[:3], strict=True))) < 1e-4


def test_beyond_the_edge_it_runs_out_level():
    terrain, z = Terrain(ROUGH), ROUGH.values
    for x, y, corner in ((-50.0, -60.0, z[0, 0]), (80.0, -9.0, z[0, -1]), (1e12, 1e12, z[-1, -1])):
        assert terrain.at(x, y) == (pytest.approx(corner), 0.0, 0.0, 1.0)
    height, slope_x, slope_y, _ = terrain.at(99.0, -2.0 + 0.5 * 4)
    assert (height, slope_x) == (pytest.approx(z[4, -1]), 0.0)
    assert slope_y == pytest.approx(z[5, -1] - z[3, -1]), (
        "along the edge it goes on as it does there"
    )


@given(
    st.floats(-0.5, 0.5),
    st.floats(-0.5, 0.5),
    st.floats(-3.0, 3.0),
    st.floats(1.6, 6.9),
    st.floats(-1.4, 1.4),
)
def test_a_plane_is_a_plane(slope_x, slope_y, height, x, y):
    columns, rows = np.meshgrid(1.0 + 0.5 * np.arange(14), -2.0 + 0.5 * np.arange(9))
    terrain = Terrain(raster(height + slope_x * columns + slope_y * rows))
    assert terrain.at(x, y) == pytest.approx(
        (height + slope_x * x + slope_y * y, slope_x, slope_y, 1.0), abs=1e-9
    )


@given(places, places)
def test_friction_stays_between_its_nodes(x, y):
    mu = raster([[0.2, 0.9, 0.4], [1.0, 0.1, 0.5]])
    friction = Terrain(friction=mu).at(x, y)[3]
    assert 0.1 - 1e-12 <= friction <= 1.0 + 1e-12
    assert Terrain(friction=mu).at(1.5, -1.5)[3] == pytest.approx(0.1)
    assert Terrain(friction=mu).at(1.25, -2.0)[3] == pytest.approx(0.55)
    assert Terrain(friction=mu).at(inf, -inf)[3] == pytest.approx(0.4)


def test_a_place_that_is_no_number_is_at_the_edge():
    terrain = Terrain(ROUGH, raster([[0.2, 0.9], [1.0, 0.1]]))
    for x, y in ((nan, 0.0), (0.0, nan), (nan, nan), (inf, -inf), (-inf, inf)):
        assert all(map(isfinite, terrain.at(x, y)))


def test_one_row_and_one_node_are_ground_too():
    assert Terrain(raster([[3.0]])).at(0.0, 9.0) == (3.0, 0.0, 0.0, 1.0)
    assert Terrain(raster([[1.0, 2.0]]), raster([[0.5], [0.7]])).at(1.25, -1.75) == pytest.approx(
        (1.5, 2.5, 0.0, 0.6)
    )


@given(st.lists(st.booleans(), min_size=60, max_size=60), st.integers(1, 60))
def test_holes_are_filled_from_what_is_round_them(gone, width):
    """Known nodes stay; what is filled stays between the lowest and the highest of them."""
    values = np.arange(60.0)
    values[np.array(gone)] = np.nan
    values[7] = 7.0
    grid = np.resize(values, (-(-60 // width), width))
    known = ~np.isnan(grid)
    found = filled(grid)
    assert np.array_equal(found[known], grid[known])
    assert np.isfinite(found).all()
    assert grid[known].min() - 1e-9 <= found.min() <= found.max() <= grid[known].max() + 1e-9


def test_a_hole_in_a_slope_is_filled_as_a_slope():
    columns, _ = np.meshgrid(np.arange(60.0), np.arange(50.0))
    grid = 0.1 * columns
    holed = grid.copy()
    holed[20:28, 20:28] = np.nan
    assert raster(holed).holes == 64
    assert np.abs(filled(holed) - grid).max() < 0.25, "over a hole that is 0.8 high"
    spots = grid.copy()
    spots[3::7, 2::5] = np.nan
    assert np.abs(filled(spots) - grid)[2:-2, 2:-2].max() < 1e-3


def test_absurd_sizes_are_refused_with_the_cure():
    from sim_backend.terrain.errors import TerrainError

    for rows, columns in ((0, 5), (MAX_NODES, 2), (10**9, 10**9)):
        with pytest.raises(TerrainError, match="take another"):
            check_size("a.tif", rows, columns, "take another")
    check_size("a.tif", 4000, 4000, "")
