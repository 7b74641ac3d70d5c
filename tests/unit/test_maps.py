"""Map files, surfaces, scan matching and search on a whole map."""

from math import pi

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.mapping_bench import CORRIDOR, HALL, SCANNER_M, TWINS, off, scan_at, scene_of
from vehicled.maps import matching
from vehicled.maps.errors import MapError
from vehicled.maps.grid import FREE, OCCUPIED, UNKNOWN, OccupancyGrid
from vehicled.maps.map_file import image_of, map_of, read_map, write_map
from vehicled.maps.matching import PlanarPose, align
from vehicled.maps.scans import body_points
from vehicled.maps.search import PoseSearch, Pyramid
from vehicled.maps.surface import Elements, SurfaceTable
from vehicled.runtime.planner.frames import PlanningMap

YAML = (
    "image: hall.pgm\nresolution: 0.05\norigin: [0, 0, 0]\nnegate: 0\noccupied_thresh: "
    "0.65\nfree_thresh: 0.196\n"
)


def seen(scene, pose, seed=0):
    x, y, _ = body_points(scan_at(scene, pose, seed=seed))
    return x, y


def surface_of(scene, poses):
    """The surface that scans from known poses show."""
    points = [pose.place(*seen(scene, pose, k)) for k, pose in enumerate(poses)]
    return SurfaceTable(
        np.concatenate([x for x, _ in points]), np.concatenate([y for _, y in points]), 0.05, 0.6
    )


ALL_OVER = [
    PlanarPose(float(x), float(y), float(yaw))
    for x in (-9, -1, 7.5)
    for y in (-8, 0, 9)
    for yaw in (0.0, pi)
]


@pytest.fixture(scope="module")
def hall(tmp_path_factory):
    scene = scene_of(HALL, tmp_path_factory.mktemp("hall"))
    surface = surface_of(scene, ALL_OVER)
    return scene, surface, Pyramid(surface.elements)


def searched(pyramid, x, y, **given):
    search = PoseSearch(pyramid, x, y, **given)
    for steps in range(1, 5000):
        if search.step(20_000):
            return search, steps
    raise AssertionError("the search does not end")


# ------------------------------------------------------------------ files


@given(st.integers(1, 12), st.integers(1, 12), st.data())
def test_a_grid_that_is_written_is_read_as_it_was(tmp_path_factory, rows, columns, data):
    cells = np.array(
        data.draw(
            st.lists(
                st.sampled_from((FREE, OCCUPIED, UNKNOWN)),
                min_size=rows * columns,
                max_size=rows * columns,
            )
        )
    )
    grid = OccupancyGrid(cells.reshape(rows, columns).astype(np.int8), 0.05, (-1.25, 3.5, 0.25))
    folder = tmp_path_factory.mktemp("map")
    image = write_map(folder / "hall.yaml", grid)
    found = read_map(folder / "hall.yaml")
    assert np.array_equal(found.cells, grid.cells)
    assert (found.resolution_m, found.origin) == (grid.resolution_m, grid.origin)
    files = {each.name: each.read_bytes() for each in (folder / "hall.yaml", image)}
    assert image_of(files["hall.yaml"], "hall.yaml") == "hall.pgm"
    assert np.array_equal(map_of(files, "hall.yaml").cells, grid.cells)


@pytest.mark.parametrize(
    ("image", "said"),
    [
        (b"P5\n20 20\n255\n" + b"\x00" * 399, "cut short"),
        (b"P5\n20 x20\n255\n" + b"\x00" * 400, "header is damaged"),
        (b"P5" + b" " * 4096, "header is damaged"),
        (b"P5\n0 20\n255\n", "1 to 64000000"),
        (b"P5\n99999 99999\n255\n", "cut the map"),
        (b"", "not a readable image"),
        (b"\x89PNG broken", "not a readable image"),
    ],
)
def test_an_image_that_is_damaged_is_named_with_the_cure(tmp_path, image, said):
    (tmp_path / "hall.yaml").write_text(YAML)
    (tmp_path / "hall.pgm").write_bytes(image)
    with pytest.raises(MapError, match=said) as caught:
        read_map(tmp_path / "hall.yaml")
    assert "hall.pgm" in str(caught.value)


def test_grey_between_the_thresholds_is_unknown(tmp_path):
    (tmp_path / "hall.yaml").write_text(YAML)
    (tmp_path / "hall.pgm").write_bytes(b"P5\n3 1\n255\n" + bytes((0, 205, 254)))
    assert read_map(tmp_path / "hall.yaml").cells.tolist() == [[OCCUPIED, UNKNOWN, FREE]]


DARK_TO_LIGHT = b"P5\n# CREATOR: map_saver\n5 1 # cells\n255\n" + bytes((0, 50, 100, 205, 255))
LEVELS = " ".join(str(257 * value) for value in (0, 50, 100, 205, 255)).encode()


@pytest.mark.parametrize(
    ("image", "keys", "cells"),
    [
        (DARK_TO_LIGHT, "", "OOUUF"),
        (DARK_TO_LIGHT, "mode: scale", "OOUUF"),
        (DARK_TO_LIGHT, "negate: 1", "FUUOO"),
        (DARK_TO_LIGHT, "negate: true", "FUUOO"),
        # Percents, as nav2's map_saver writes them: more than 100 is unknown.
        (DARK_TO_LIGHT, "mode: raw", "FUOUU"),
        (DARK_TO_LIGHT, "mode: raw\nnegate: 1", "FUOUU"),
        (DARK_TO_LIGHT, "free_thresh: 0.25", "OOUFF"),
        (b"P2\n# by hand\n5 1\n65535\n" + LEVELS, "", "OOUUF"),
        (b"P5\n5 1\n65535\n" + np.array(LEVELS.split(), ">u2").tobytes(), "", "OOUUF"),
    ],
)
def test_modes_and_depths_are_those_of_map_server(tmp_path, image, keys, cells):
    named = {line.split(":")[0] for line in keys.splitlines()}
    kept = [line for line in YAML.splitlines() if line.split(":")[0] not in named]
    (tmp_path / "hall.yaml").write_text("\n".join([*kept, keys, ""]))
    (tmp_path / "hall.pgm").write_bytes(image)
    kinds = {"O": OCCUPIED, "F": FREE, "U": UNKNOWN}
    assert read_map(tmp_path / "hall.yaml").cells.tolist() == [[kinds[each] for each in cells]]


def test_cells_that_the_writer_did_not_know_are_not_mapped_whatever_the_threshold(tmp_path):
    # free_thresh as nav2's map_saver wrote it until 2025.
    (tmp_path / "hall.yaml").write_text(YAML.replace("0.196", "0.25"))
    (tmp_path / "hall.pgm").write_bytes(b"P5\n3 1\n255\n" + bytes((0, 205, 254)))
    grid = read_map(tmp_path / "hall.yaml")
    assert grid.cells.tolist() == [[OCCUPIED, FREE, FREE]]
    assert grid.unmapped is not None
    assert PlanningMap.of(grid).grid().cells.tolist() == [[OCCUPIED, UNKNOWN, FREE]]


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("mode: trinry", "mode is 'trinry'; it may be trinary, scale, raw"),
        ("free_thresh: 0.7\noccupied_thresh: 0.6", "free_thresh is 0.7 and occupied_thresh 0.6"),
        ("occupied_thresh: 65", "both are from 0 to 1"),
    ],
)
def test_keys_that_map_server_has_not_are_refused(tmp_path, keys, said):
    named = {line.split(":")[0] for line in keys.splitlines()}
    kept = [line for line in YAML.splitlines() if line.split(":")[0] not in named]
    (tmp_path / "hall.yaml").write_text("\n".join([*kept, keys, ""]))
    (tmp_path / "hall.pgm").write_bytes(DARK_TO_LIGHT)
    with pytest.raises(MapError, match=said):
        read_map(tmp_path / "hall.yaml")


def test_cells_inside_of_a_body_are_no_surface():
    cells = np.full((9, 9), FREE, np.int8)
    cells[2:7, 2:7] = OCCUPIED
    x, y, outward = OccupancyGrid(cells, 1.0, (0.0, 0.0, 0.0)).surfaces_m()
    assert len(x) == 16
    assert outward[:, (x == 2.5) & (y == 4.5)].ravel().tolist() == [-1.0, 0.0]


def test_the_two_faces_of_a_thick_wall_are_two_lines():
    cells = np.full((40, 100), FREE, np.int8)
    cells[18:22] = OCCUPIED
    x, y, outward = OccupancyGrid(cells, 0.05, (0.0, 0.0, 0.0)).surfaces_m()
    elements = Elements(x, y, 0.05, outward)
    middle = np.abs(elements.x_m - 2.5) < 2.0
    assert not elements.isotropy[middle].any()
    assert sorted(set(elements.y_m[middle].round(3).tolist())) == [0.925, 1.075]


# ------------------------------------------------------------------ surfaces


@given(st.integers(0, 10_000), st.integers(1, 60))
def test_the_table_finds_an_element_about_as_near_as_the_nearest(seed, count):
    rng = np.random.default_rng(seed)
    # Each of them as three, because a single return is left out.
    x, y = (
        np.repeat(v, 3) + np.tile((-0.1, 0.0, 0.1), count) for v in rng.uniform(-3, 3, (2, count))
    )
    surface = SurfaceTable(x, y, 0.1, 0.5)
    e = surface.elements
    px, py = rng.uniform(-5, 5, (2, 200))
    least = np.hypot(px[:, None] - e.x_m, py[:, None] - e.y_m).min(axis=1)
    index = surface.nearest(px, py)
    found = index >= 0
    assert np.all(found[least < 0.3])
    assert not np.any(found[least > 0.75])
    assert np.all(np.hypot(px - e.x_m[index], py - e.y_m[index])[found] <= least[found] + 0.15)


def test_an_element_of_a_wall_lies_on_it_and_one_of_a_post_has_no_direction():
    rng = np.random.default_rng(1)
    along = np.linspace(0.0, 5.0, 2000)
    wall = Elements(along, 2.0 + 0.3 * along + rng.normal(0.0, 0.01, 2000), 0.05)
    assert np.abs(wall.y_m - 2.0 - 0.3 * wall.x_m).max() < 0.02
    assert not wall.isotropy[3:-3].any()
    around = np.linspace(0.0, 2.0 * pi, 100)
    post = Elements(3.0 + 0.06 * np.cos(around), 0.06 * np.sin(around), 0.05)
    assert post.isotropy.all()
    # One return alone might be anything.
    assert not len(Elements(np.array([1.0]), np.array([1.0]), 0.05))


# ------------------------------------------------------------------ matching


def test_a_bend_that_goes_on_beyond_what_is_known_does_not_turn_a_scan(monkeypatch):
    # Two walls of a bend about the origin, known up to 20 degrees; the scan sees on to 55.
    known, ahead = (np.radians(np.linspace(*ends, 900)) for ends in ((-60.0, 20.0), (-40.0, 55.0)))
    x, y = (np.concatenate([radius * f(known) for radius in (4.0, 6.0)]) for f in (np.cos, np.sin))
    surface = SurfaceTable(x, y, 0.05, 0.6)
    true = PlanarPose(5.0, 0.0, pi / 2)
    seen_x, seen_y = (
        np.concatenate([radius * f(ahead) for radius in (4.0, 6.0)]) for f in (np.cos, np.sin)
    )
    px, py = seen_y - true.y_m, true.x_m - seen_x
    turned = off(align(surface, px, py, true).pose, true)[1]
    monkeypatch.setattr(matching, "BESIDE_M", 10.0)
    drawn_straight = off(align(surface, px, py, true).pose, true)[1]
    assert turned < 0.3 * drawn_straight


@pytest.mark.parametrize("shift", [(0.0, 0.0, 0.0), (0.25, -0.1, 0.1), (-0.2, 0.2, -0.08)])
def test_a_scan_is_matched_to_a_centimetre(hall, shift):
    scene, surface, _ = hall
    true = PlanarPose(1.0, -6.0, 0.7)
    x, y = seen(scene, true, 77)
    match = align(surface, x, y, true.then(PlanarPose(*shift)))
    distance, turn = off(match.pose, true)
    assert distance < 0.01
    assert turn < 0.003
    assert match.fit > 0.95
    sigma = np.sqrt(np.diag(np.linalg.inv(match.information)))
    assert sigma.max() < 0.02


def test_along_a_corridor_nothing_is_known_and_across_it_all(tmp_path):
    scene = scene_of(CORRIDOR, tmp_path)
    surface = surface_of(scene, [PlanarPose(float(x), 0.0, 0.0) for x in range(-12, 13, 2)])
    x, y = seen(scene, PlanarPose(0.0, 0.1, 0.02))
    match = align(surface, x, y, PlanarPose(0.2, 0.0, 0.0))
    covariance = np.linalg.inv(match.information + np.eye(3))
    assert covariance[0, 0] > 0.5**2
    assert covariance[1, 1] < 0.02**2
    assert abs(match.pose.y_m - 0.1) < 0.01
    # It stays where it was predicted to be.
    assert abs(match.pose.x_m - 0.2) < 0.1


def test_half_of_the_points_may_be_wrong(hall):
    scene, surface, _ = hall
    true = PlanarPose(1.0, -6.0, 0.7)
    x, y = seen(scene, true)
    rng = np.random.default_rng(5)
    wrong = rng.random(len(x)) < 0.5
    x[wrong] *= (share := rng.uniform(0.1, 0.9, wrong.sum()))
    y[wrong] *= share
    match = align(surface, x, y, true.then(PlanarPose(0.1, -0.1, 0.05)))
    assert off(match.pose, true)[0] < 0.02
    assert 0.4 < match.fit < 0.7


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=0, max_size=30),
    st.floats(-1e5, 1e5),
    st.floats(-10.0, 10.0),
)
def test_any_points_give_a_finite_pose(values, x_m, yaw_rad):
    surface = SurfaceTable(np.linspace(0, 5, 50), np.zeros(50), 0.1, 0.5)
    points = np.array(values)
    match = align(surface, points, points[::-1].copy(), PlanarPose(x_m, 0.0, yaw_rad))
    assert np.isfinite(match.pose).all()
    assert np.isfinite(match.information).all()
    assert 0.0 <= match.fit <= 1.0


# ------------------------------------------------------------------ search


@pytest.mark.parametrize(
    "true", [PlanarPose(8.5, 8.0, 2.0), PlanarPose(-10.0, -9.0, 0.8), PlanarPose(0.0, 0.0, 0.0)]
)
def test_a_kidnapped_vehicle_is_found(hall, true):
    scene, surface, pyramid = hall
    x, y = seen(scene, true)
    search, _ = searched(pyramid, x, y)
    assert search.best is not None
    assert not search.rivals()
    assert off(align(surface, x, y, search.best).pose, true)[0] < 0.02


def test_a_place_that_looks_the_same_twice_has_a_rival(tmp_path):
    scene = scene_of(TWINS, tmp_path)
    surface = surface_of(
        scene, [PlanarPose(float(x), 0.0, yaw) for x in (-5, 0, 5) for yaw in (0.0, pi)]
    )
    true = PlanarPose(3.0, 1.0, 0.4)
    search, _ = searched(Pyramid(surface.elements), *seen(scene, true))
    found = [search.best, *search.rivals()]
    assert any(off(pose, true)[0] < 0.3 for pose in found)
    assert any(off(pose, PlanarPose(-3.0, -1.0, 0.4 + pi))[0] < 0.3 for pose in found)


def test_no_step_of_a_search_is_longer_than_its_budget(hall, monkeypatch):
    scene, _, pyramid = hall
    looked = []
    bounded = PoseSearch._bounded

    def counted(self, boxes):
        looked.append(len(boxes) * len(self._px))
        return bounded(self, boxes)

    monkeypatch.setattr(PoseSearch, "_bounded", counted)
    searched(pyramid, *seen(scene, PlanarPose(8.5, 8.0, 2.0)))
    assert max(looked) <= 20_000


def test_another_place_is_not_found(hall, tmp_path):
    _, _, pyramid = hall
    elsewhere = scene_of(
        "[[wall]]\npoints = [[-2, -1], [5, -1], [5, 1.5], [2, 2.5], [-2, 1]]\nclosed = true\n",
        tmp_path,
    )
    search, _ = searched(pyramid, *seen(elsewhere, PlanarPose(0.0, 0.0, 0.3)), least=0.8)
    assert search.best is None


def test_a_search_without_points_or_without_a_map_ends_at_once():
    empty = np.zeros(0)
    assert PoseSearch(Pyramid(Elements(empty, empty, 0.1)), np.ones(5), np.ones(5)).step()
    some = Pyramid(Elements(np.arange(5.0), np.zeros(5), 0.1))
    assert PoseSearch(some, empty, empty).step()
    # A window far from the map holds nothing.
    assert (
        searched(some, np.ones(40), np.ones(40), window=(PlanarPose(500.0, 500.0, 0.0), 1.0, 0.2))[
            0
        ].best
        is None
    )


def test_points_of_a_scan_are_seen_from_the_rear_axle(tmp_path):
    scene = scene_of(TWINS, tmp_path)
    x, y, row = body_points(scan_at(scene, PlanarPose(0.0, 0.0, 0.0), sigma_m=0.0))
    ahead = np.argmin(np.abs(y) + (x < 0) * 100)
    assert x[ahead] == pytest.approx(8.0, abs=0.01)
    assert len(x) == len(row)
    assert SCANNER_M > 0.0
