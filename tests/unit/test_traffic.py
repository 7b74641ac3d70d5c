"""Cars on the lanes of a scene: they follow, give way, stop for a vehicle, and repeat."""

from itertools import combinations
from math import hypot

import numpy as np
import pytest

from sim_backend.fleet.collision import overlap
from sim_backend.scene.errors import SceneError
from sim_backend.scene.reading import read_scene
from sim_backend.scene.scene import ScenePose
from sim_backend.scene.traffic import STEP_S, OtherVehicle, Traffic, traffic_of
from vehicled.core.vehicle import Outline
from vehicled.paths.datum import Datum
from vehicled.paths.scenes import SceneLane
from vehicled.profile.schema import TrafficModel

DATUM = Datum.from_degrees(50.0, 8.0)
BODY = Outline(1.0, 0.5, 0.5)
ROAD = SceneLane(name="road", points=[[0.0, 0.0], [200.0, 0.0]], width_m=3.5)
CROSS = SceneLane(name="cross", points=[[100.0, -100.0], [100.0, 100.0]], width_m=3.5)


def cars(scene: str, count: int, seed: int = 1) -> Traffic:
    """Traffic of a shipped scene."""
    found = traffic_of(TrafficModel(vehicles=count), scene, DATUM, seed, [])
    assert found is not None
    return found


def poses(traffic: Traffic, time_s: float) -> list[ScenePose]:
    at = np.array([time_s])
    found = [tuple(float(v[0]) for v in body.place(at)) for body in traffic.bodies]
    return [ScenePose(*pose) for pose in found if abs(pose[0]) < 1e5]


def driven(traffic: Traffic, seconds: float, others=()):
    """Step; yield the poses after each second, and check that nobody touches another."""
    for k in range(1, round(seconds / STEP_S) + 1):
        traffic.step(k * STEP_S, others)
        if k % 5 == 0:
            now = poses(traffic, k * STEP_S)
            for one, other in combinations(now, 2):
                near = hypot(one.x_m - other.x_m, one.y_m - other.y_m) < 6.0
                assert not (near and overlap(traffic.outline, one, traffic.outline, other))
        if k % 20 == 0:
            yield poses(traffic, k * STEP_S)


@pytest.mark.parametrize("scene", ["intersection", "town", "city_block", "intersection@0.25"])
def test_nobody_touches_another_and_nobody_waits_for_ever(scene):
    traffic = cars(scene, 10)
    seen = list(driven(traffic, 40.0))
    assert len(traffic.bodies) > 5
    assert seen[-1] != seen[-5], "it still moves"


def test_the_same_seed_gives_the_same_places():
    def places(seed):
        return list(driven(cars("intersection", 6, seed), 10.0))

    assert places(1) == places(1) != places(2)


def test_a_free_car_reaches_its_speed_and_the_law_keeps_the_gap():
    model = TrafficModel(vehicles=1, speed_mps=8.0)
    (a, b) = list(driven(Traffic(model, [ROAD], 1.0, 4, []), 30.0))[9:11]
    if a and b:
        assert 6.5 < hypot(b[0].x_m - a[0].x_m, b[0].y_m - a[0].y_m) < 9.5
    traffic = Traffic(model, [ROAD], 1.0, 3, [])
    stands = OtherVehicle(ScenePose(150.0, 0.0, 0.0), 0.0, BODY)
    end = list(driven(traffic, 60.0, [stands]))[-1]
    gap_m = 150.0 - BODY.rear_m - end[0].x_m - traffic.outline.front_m
    assert model.gap_m - 0.6 < gap_m < model.gap_m + 1.0


def test_a_vehicle_in_the_crossing_holds_them_up_and_one_beside_it_does_not():
    def furthest(other):
        traffic = Traffic(TrafficModel(vehicles=3), [ROAD, CROSS], 1.0, 2, [])
        return [list(driven(traffic, 40.0, [other]))[-1]]

    inside = OtherVehicle(ScenePose(100.0, 0.0, 0.0), 0.0, BODY)
    (stopped,) = furthest(inside)
    assert all(not hypot(x - 100.0, y) < 3.0 for x, y, _ in stopped)
    beside = OtherVehicle(ScenePose(60.0, 60.0, 0.0), 0.0, BODY)
    assert furthest(beside) != furthest(inside)


@pytest.mark.parametrize(
    ("scene", "lanes", "cure"),
    [
        ("", [], "cars need the lanes of a scene"),
        ("parking_lot", ["nowhere"], "no lane nowhere"),
    ],
)
def test_a_scene_without_such_lanes_is_refused(scene, lanes, cure):
    with pytest.raises(SceneError, match=cure):
        traffic_of(TrafficModel(vehicles=2, lanes=lanes), scene, DATUM, 1, [])
    assert traffic_of(TrafficModel(), scene, DATUM, 1, []) is None


def test_the_lanes_of_the_shipped_scenes_can_be_driven():
    for scene in ("intersection", "town", "city_block"):
        assert read_scene(scene, DATUM).lane
