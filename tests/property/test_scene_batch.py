"""Scans and collisions of many vehicles at once against those of one at a time."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim_backend.scene.batch import BatchScanner, sector_minima
from sim_backend.scene.rays import Rays
from sim_backend.scene.scene import Scene
from tests.examples import examples
from vehicled.core.arrays import Array
from vehicled.profile.schema import LidarModel

FIELDS = [(-2.356, 2.356), (2.0, -2.0), (-3.2, 3.2), (-0.5, 4.5)]


def box(corner: Array, size: float) -> list[list[float]]:
    x, y = corner.tolist()
    corners = [(x, y), (x + size, y), (x + size, y + size), (x, y + size), (x, y)]
    return [[*a, *b] for a, b in pairwise(corners)]


@examples(60)
@given(st.integers(0, 2**32 - 1), st.sampled_from(FIELDS), st.sampled_from([1, 2, 61, 181]))
def test_ranges_are_those_of_the_scene(seed: int, field: tuple[float, float], rays: int):
    random = np.random.default_rng(seed)
    segments = np.array(
        [line for _ in range(6) for line in box(random.uniform(-9.0, 9.0, 2), random.uniform(0.1, 4.0))]
        + random.uniform(-9.0, 9.0, (5, 4)).tolist()
    )
    model = LidarModel(rays=rays, angle_min_rad=field[0], angle_max_rad=field[1], range_max_m=8.0)
    scanner, scene, n = BatchScanner(model, (0.4, -0.1), segments), Scene(segments), 4
    x, y, yaw = random.uniform(-9.0, 9.0, n), random.uniform(-9.0, 9.0, n), random.uniform(-7.0, 7.0, n)
    ranges, cosines = scanner.scan(x, y, yaw)
    for row in range(n):
        bearings = yaw[row] + np.linspace(min(field), max(field), rays)
        c, s = np.cos(yaw[row]), np.sin(yaw[row])
        ones = np.ones(rays)
        found = Rays((x[row] + 0.4 * c + 0.1 * s) * ones, (y[row] + 0.4 * s - 0.1 * c) * ones, bearings)
        hits = scene.cast(found, 0.0 * ones, 8.0)
        np.testing.assert_allclose(ranges[row], hits.range_m, atol=1e-8)
        np.testing.assert_allclose(cosines[row], hits.cosine, atol=1e-6)


def inside(points: Array, x: float, y: float, yaw: float, outline: tuple[float, float, float]) -> bool:
    c, s = np.cos(yaw), np.sin(yaw)
    ahead, left = c * (points[:, 0] - x) + s * (points[:, 1] - y), c * (points[:, 1] - y) - s * (points[:, 0] - x)
    return bool(((ahead >= outline[0]) & (ahead <= outline[1]) & (np.abs(left) <= outline[2])).any())


@examples(60)
@given(st.integers(0, 2**32 - 1))
def test_a_vehicle_collides_if_a_point_of_a_wall_is_in_its_outline(seed: int):
    random, outline, n = np.random.default_rng(seed), (-0.1, 0.6, 0.25), 20
    segments = random.uniform(-2.0, 2.0, (3, 4))
    along = np.linspace(0.0, 1.0, 4001)[:, None]
    points = np.concatenate([line[:2] + along * (line[2:] - line[:2]) for line in segments])
    x, y, yaw = random.uniform(-2.0, 2.0, (3, n))
    struck = BatchScanner(LidarModel(), (0.0, 0.0), segments).collides(x, y, yaw, outline)
    for row in range(n):
        pose = float(x[row]), float(y[row]), float(yaw[row])
        # A wall that only grazes a corner lies between the sampled points.
        smaller, larger = (tuple(float(v) for v in np.array(outline) + k * np.array([-1.0, 1.0, 1.0])) for k in (-2e-3, 2e-3))
        if inside(points, *pose, smaller):  # type: ignore[arg-type]
            assert struck[row]
        if not inside(points, *pose, larger):  # type: ignore[arg-type]
            assert not struck[row]


@pytest.mark.parametrize(("rays", "count"), [(541, 36), (10, 3), (7, 7), (3, 8)])
def test_every_ray_counts_in_its_sector(rays: int, count: int):
    ranges = np.random.default_rng(rays).uniform(0.1, 5.0, (4, rays))
    wanted = np.full((4, count), 9.0)
    for ray in range(rays):
        sector = ray * count // rays
        wanted[:, sector] = np.minimum(wanted[:, sector], ranges[:, ray])
    np.testing.assert_array_equal(sector_minima(ranges, count, 9.0), wanted)
