"""The planar scanner of the twin: sweeps while it moves, noise, what is lost and what is too
near."""

from math import cos, inf, isnan, pi, sin

import numpy as np
import pytest
from msgspec.structs import replace

from sim_backend.plant.interface import Motion
from sim_backend.scene.moving import Moving
from sim_backend.scene.scene import Scene
from sim_backend.sensors.lidar import Lidar
from sim_backend.sensors.obstacle import ObstacleSensor
from sim_backend.world import World
from vehicled.core import messages
from vehicled.core.messages import LaserScan
from vehicled.paths.catalog import load_course
from vehicled.profile import load_profile
from vehicled.profile.schema import LidarModel

START, SECOND = 1_000_000_000, 1_000_000_000
EXACT = LidarModel(
    rate_hz=10.0, rays=91, angle_min_rad=-0.75, angle_max_rad=0.75, sweep_ms=80.0, sigma_m=0.0,
    sigma_share=0.0, step_m=0.0, drop_share=0.0, reach_m=1e6, range_max_m=60.0,
)  # fmt: skip
ARM_M = (0.4, 0.1, 0.2)
WALL = Scene(np.array([[10.0, -60.0, 10.0, 60.0]]))


def motion(x=0.0, y=0.0, yaw=0.0, speed=0.0, yaw_rate=0.0):
    return Motion(x, y, yaw, speed, 0.0, yaw_rate, 0.0, speed * yaw_rate, 0.0, 0.0)


def scanner(model=EXACT, scene=WALL, seed=1, arm=ARM_M):
    return Lidar(model, arm, scene, seed, "scanner/LaserScan", START)


def test_every_ray_leaves_from_where_the_vehicle_is_at_its_time():
    """Each ray gives the wall's distance from the pose at its own time, on a circle of 5 m at 4
    m/s."""
    lidar, speed, rate = scanner(), 4.0, 0.8

    def at(t_s):
        yaw = rate * t_s
        return motion(5.0 * sin(yaw), 5.0 * (1.0 - cos(yaw)), yaw, speed, rate)

    lidar.sample(START + SECOND // 10, at(0.0))
    ready_ns, scan = lidar.sample(START + SECOND // 5, at(0.1))
    assert scan.t_ns == START + SECOND // 5 - 80_000_000
    assert ready_ns == START + SECOND // 5 + 5_000_000
    for k, range_m in enumerate(scan.ranges_m):
        pose = at((scan.t_ns - START) * 1e-9 + k * scan.time_increment_s - 0.1)
        c, s = cos(pose.yaw_rad), sin(pose.yaw_rad)
        x = pose.x_m + c * ARM_M[0] - s * ARM_M[1]
        bearing = pose.yaw_rad + scan.angle_min_rad + k * scan.angle_increment_rad
        assert range_m == pytest.approx((10.0 - x) / cos(bearing), abs=2e-4), k
    still = scanner(replace(EXACT, sweep_ms=0.0))
    still.sample(START + SECOND // 10, at(0.0))
    assert (
        abs(still.sample(START + SECOND // 5, at(0.1))[1].ranges_m[0] - scan.ranges_m[0]) > 0.1
    ), "it matters"


def test_a_thing_that_moves_is_met_where_it_is_at_the_time_of_the_ray():
    scene = Scene(moving=[Moving([(8.0, -2.0), (8.0, 2.0)], [1.0, 2.0], radius_m=0.5)])
    lidar = scanner(scene=scene, arm=(0.0, 0.0, 0.0))
    for t_s, y in ((0.5, -2.0), (1.5, 0.0), (9.0, 2.0)):
        _, scan = lidar.sample(START + round(t_s * SECOND), motion())
        met = [k for k, range_m in enumerate(scan.ranges_m) if range_m < inf]
        bearing = scan.angle_min_rad + scan.angle_increment_rad * float(np.mean(met))
        seen_s = t_s - 0.08 + scan.time_increment_s * float(np.mean(met)) - 1.0
        assert 8.0 * np.tan(bearing) == pytest.approx(
            min(max(-2.0 + 4.0 * seen_s, -2.0), 2.0), abs=0.06
        ), y


def test_noise_grows_with_range_and_is_rounded():
    model = replace(
        EXACT,
        sigma_m=0.02,
        sigma_share=0.01,
        step_m=0.005,
        rays=1500,
        angle_min_rad=-0.01,
        angle_max_rad=0.01,
    )
    for distance, sigma in ((2.0, 0.0283), (10.0, 0.102)):
        lidar = scanner(model, arm=(0.0, 0.0, 0.0))
        ranges = np.array(
            [
                lidar.sample(START + k * SECOND // 10, motion(x=10.0 - distance))[1].ranges_m
                for k in range(1, 5)
            ]
        )
        assert ranges.mean() == pytest.approx(distance, abs=0.01)
        assert ranges.std() == pytest.approx(sigma, rel=0.06)
        assert np.abs(ranges / 0.005 - np.round(ranges / 0.005)).max() < 1e-6
        assert abs(np.corrcoef(ranges[0], ranges[1])[0, 1]) < 0.1, "it advances in time"


def test_noise_is_that_of_the_entity_whatever_it_meets():
    model = replace(EXACT, sigma_m=0.02, drop_share=0.2)
    near, far, other = scanner(model), scanner(model), scanner(model, seed=2)
    for k in range(1, 4):
        t_ns = START + k * SECOND // 10
        one, two, three = (
            np.array(each.sample(t_ns, motion(x=x))[1].ranges_m)
            for each, x in ((near, 3.0), (far, -20.0), (other, 3.0))
        )
        dropped = np.isnan(one)
        assert 0 < dropped.sum() < 40
        assert np.array_equal(dropped, np.isnan(two))
        assert not np.array_equal(dropped, np.isnan(three))
        bearings = EXACT.angle_min_rad + (
            EXACT.angle_max_rad - EXACT.angle_min_rad
        ) / 90 * np.arange(91)
        errors = [
            np.asarray(ranges) - (10.0 - x - 0.4) / np.cos(bearings)
            for ranges, x in ((one, 3.0), (two, -20.0))
        ]
        assert np.allclose(errors[0][~dropped], errors[1][~dropped], atol=1e-9)


def test_returns_fade_with_range_and_with_slant():
    fading = replace(EXACT, reach_m=12.0, rays=1001, angle_min_rad=-1.3, angle_max_rad=1.3)
    lost = {}
    for distance in (4.0, 9.0, 11.9, 16.0):
        ranges = np.array(
            scanner(fading, arm=(0.0, 0.0, 0.0))
            .sample(START + SECOND, motion(x=10.0 - distance))[1]
            .ranges_m
        )
        lost[distance] = float(np.isinf(ranges).mean())
        slant = np.abs(fading.angle_min_rad + 2.6 / 1000 * np.arange(1001))
        assert np.isinf(ranges[slant > 1.2]).mean() >= np.isinf(ranges[slant < 0.3]).mean()
    assert lost[4.0] < lost[9.0] < lost[11.9] < lost[16.0]
    assert lost[16.0] > 0.99
    assert lost[4.0] < 0.3
    squarely = replace(fading, angle_min_rad=-0.001, angle_max_rad=0.001)
    half = np.array(
        scanner(squarely, arm=(0.0, 0.0, 0.0)).sample(START + SECOND, motion(x=-2.0))[1].ranges_m
    )
    assert np.isinf(half).mean() == pytest.approx(0.5, abs=0.06)


def test_too_near_and_too_far_are_said_as_rep_117_has_it():
    model = replace(EXACT, range_min_m=0.3, range_max_m=5.0)
    said = {
        x: scanner(model, arm=(0.0, 0.0, 0.0)).sample(START + SECOND, motion(x=x))[1].ranges_m[45]
        for x in (9.8, 9.0, 4.0)
    }
    assert said == {9.8: -inf, 9.0: pytest.approx(1.0), 4.0: inf}


def test_an_upside_down_scanner_turns_the_other_way():
    flipped = replace(EXACT, angle_min_rad=0.75, angle_max_rad=-0.75)
    there, back = (
        scanner(model).sample(START + SECOND, motion(yaw=0.3))[1] for model in (EXACT, flipped)
    )
    assert back.angle_increment_rad < 0.0
    assert np.allclose(there.ranges_m, back.ranges_m[::-1])


def test_the_world_sends_scans_by_the_device_and_the_same_seed_gives_the_same_bytes():
    overrides = [
        "devices.scanner.driver=msglink", 'devices.scanner.messages=["LaserScan"]',
        "devices.scanner.rate_hz=20", "devices.scanner.lever_arm_m=[0.45,0.0,0.2]",
        "sim.lidar.drop_share=0.1",
    ]  # fmt: skip
    profile, course = load_profile("art", overrides), load_course("lot17")
    port = list(profile.devices).index("scanner")

    def scans(seed):
        world = World(profile, course, seed, START)
        return [data for _, number, data in world.advance(START + SECOND) if number == port]

    from drivers.msglink.codec import MsglinkDecoder

    first = scans(7)
    assert first == scans(7) != scans(8)
    found = [
        message
        for data in first
        for message in MsglinkDecoder().feed(data)
        if isinstance(message, LaserScan)
    ]
    assert 18 <= len(found) == len(first) <= 20
    assert all(len(each.ranges_m) == 541 for each in found)
    assert (found[0].x_m, found[0].y_m) == (0.45, 0.0)
    assert all(range_m == inf or isnan(range_m) for each in found for range_m in each.ranges_m), (
        "there is nothing to meet"
    )


def test_a_sensor_of_the_lane_measures_along_the_bend_and_over_the_width():
    """A wall across the circle, a quarter of a turn ahead: along the arc, to the inner or the outer
    side, whichever is nearer."""
    profile, course = load_profile("art"), load_course("circle_r5_ccw")
    vehicle = profile.vehicle
    front_m = 0.5 * (vehicle.length_m + vehicle.wheelbase_m)
    k = int(course.s_m.searchsorted(6.0))
    x, y, yaw = float(course.x_m[k]), float(course.y_m[k]), float(course.yaw_rad[k])
    across = np.array(
        [[x - 3.0 * sin(yaw), y + 3.0 * cos(yaw), x + 3.0 * sin(yaw), y - 3.0 * cos(yaw)]]
    )
    here = motion(float(course.x_m[0]), float(course.y_m[0]), float(course.yaw_rad[0]))
    for scene, expected in (
        (Scene(across), float(course.s_m[k]) - front_m),
        (Scene(), inf),
        (Scene(across + 9.0), inf),
    ):
        sensor = ObstacleSensor(20.0, vehicle, course, scene, START)
        ready_ns, reading = sensor.sample(START + SECOND, here)
        assert reading.distance_m == pytest.approx(expected, abs=0.05)
        assert ready_ns == START + SECOND + sensor.least_latency_ns


def test_the_longest_scan_fits_into_a_message():
    from drivers.msglink.codec import encode

    model = replace(EXACT, rays=1600, angle_min_rad=-pi, angle_max_rad=pi)
    assert encode(scanner(model).sample(START + SECOND, motion())[1])
    assert messages.ALL[-1] is LaserScan or LaserScan in messages.ALL
