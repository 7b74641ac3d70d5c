"""Scans and collisions of many vehicles at once against those of one at a time."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim_backend.scene.batch import BatchScanner, MovingShapes, sector_minima, shapes_at
from sim_backend.scene.moving import Moving
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
        [
            line
            for _ in range(6)
            for line in box(random.uniform(-9.0, 9.0, 2), random.uniform(0.1, 4.0))
        ]
        + random.uniform(-9.0, 9.0, (5, 4)).tolist()
    )
    model = LidarModel(rays=rays, angle_min_rad=field[0], angle_max_rad=field[1], range_max_m=8.0)
    scanner, scene, n = BatchScanner(model, (0.4, -0.1), segments), Scene(segments), 4
    x = random.uniform(-9.0, 9.0, n)
    y = random.uniform(-9.0, 9.0, n)
    yaw = random.uniform(-7.0, 7.0, n)
    ranges, cosines = scanner.scan(x, y, yaw)
    for row in range(n):
        bearings = yaw[row] + np.linspace(min(field), max(field), rays)
        c, s = np.cos(yaw[row]), np.sin(yaw[row])
        ones = np.ones(rays)
        found = Rays(
            (x[row] + 0.4 * c + 0.1 * s) * ones, (y[row] + 0.4 * s - 0.1 * c) * ones, bearings
        )
        hits = scene.cast(found, 0.0 * ones, 8.0)
        np.testing.assert_allclose(ranges[row], hits.range_m, atol=1e-8)
        np.testing.assert_allclose(cosines[row], hits.cosine, atol=1e-6)


@examples(60)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([*FIELDS, (-6.28, 6.28)]),
    st.sampled_from([1, 2, 181, 1080]),
)
def test_machine_code_gives_the_bits_of_numpy(seed: int, field: tuple[float, float], rays: int):
    random, n = np.random.default_rng(seed), 5
    # Ends on a coarse grid, so that segments share corners, and scanners stand on them.
    corners = random.integers(-6, 7, (60, 2)) * random.choice([0.5, 1.0, 2.0])
    segments = np.hstack(
        (corners, corners + random.integers(-2, 3, (60, 2)) * random.choice([0.25, 1.0, 9.0]))
    )
    model = LidarModel(rays=rays, angle_min_rad=field[0], angle_max_rad=field[1], range_max_m=8.0)
    compiled = BatchScanner(model, (0.0, 0.0), segments)
    plain = BatchScanner(model, (0.0, 0.0), segments, machine_code=False)
    if compiled.compiled:
        x = random.uniform(-9.0, 9.0, n)
        y = random.uniform(-9.0, 9.0, n)
        yaw = random.uniform(-7.0, 7.0, n)
        x[:3], y[:3], yaw[:2] = corners[:3, 0], corners[:3, 1], 0.0
        circles = np.concatenate(
            (random.uniform(-6.0, 6.0, (n, 2, 2)), random.uniform(0.1, 2.0, (n, 2, 1))), axis=2
        )
        for moving in (None, MovingShapes(random.uniform(-6.0, 6.0, (n, 3, 4)), circles)):
            outline = (-0.2, 0.8, 0.3)
            found, wanted = compiled.scan(x, y, yaw, moving), plain.scan(x, y, yaw, moving)
            assert [each.tobytes() for each in found] == [each.tobytes() for each in wanted]
            np.testing.assert_array_equal(
                compiled.collides(x, y, yaw, outline, moving),
                plain.collides(x, y, yaw, outline, moving),
            )


@examples(30)
@given(st.integers(0, 2**32 - 1))
def test_moving_objects_are_seen_as_in_a_drive(seed: int):
    random, n, model = np.random.default_rng(seed), 3, LidarModel(rays=181, range_max_m=8.0)
    outline = [(-0.3, -0.2), (0.6, -0.2), (0.6, 0.2), (-0.3, 0.2)]
    moving = [
        Moving(random.uniform(-5.0, 5.0, (3, 2)).tolist(), [0.0, 2.0, 5.0], outline_m=outline),
        Moving(random.uniform(-5.0, 5.0, (2, 2)).tolist(), [1.0, 4.0], radius_m=0.4),
    ]
    segments, time_s = random.uniform(-6.0, 6.0, (4, 4)), random.uniform(0.0, 6.0, n)
    scene, ones = Scene(segments, moving=moving), np.ones(model.rays)
    x = random.uniform(-6.0, 6.0, n)
    y = random.uniform(-6.0, 6.0, n)
    yaw = random.uniform(-7.0, 7.0, n)
    ranges, _ = BatchScanner(model, (0.0, 0.0), segments).scan(x, y, yaw, shapes_at(moving, time_s))
    for row in range(n):
        bearings = yaw[row] + np.linspace(model.angle_min_rad, model.angle_max_rad, model.rays)
        hits = scene.cast(Rays(x[row] * ones, y[row] * ones, bearings), time_s[row] * ones, 8.0)
        # A scanner inside a body sees nothing in a drive; here the body has struck the vehicle.
        if hits.range_m.any():
            np.testing.assert_allclose(ranges[row], hits.range_m, atol=1e-8)


def inside(
    points: Array, x: float, y: float, yaw: float, outline: tuple[float, float, float]
) -> bool:
    c, s = np.cos(yaw), np.sin(yaw)
    ahead = c * (points[:, 0] - x) + s * (points[:, 1] - y)
    left = c * (points[:, 1] - y) - s * (points[:, 0] - x)
    return bool(
        ((ahead >= outline[0]) & (ahead <= outline[1]) & (np.abs(left) <= outline[2])).any()
    )


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
        smaller, larger = (
            tuple(float(v) for v in np.array(outline) + k * np.array([-1.0, 1.0, 1.0]))
            for k in (-2e-3, 2e-3)
        )
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
