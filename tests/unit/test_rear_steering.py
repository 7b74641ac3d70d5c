"""Rear wheels that steer: the equivalent front-steered vehicle, the twin's reference point, and
what says that they do not follow."""

from math import atan, isnan, tan

import pytest
from msgspec.structs import replace

from sim_backend.plant.double_track.plant import DoubleTrackPlant
from sim_backend.plant.interface import StartPose
from tests.unit.test_safety_yaw import Yaw, steer
from tests.vehicles import VEHICLE, make_vehicle
from vehicled.profile import ProfileError, load_profile
from vehicled.safety.monitors.yaw import YawMonitor


@pytest.mark.parametrize("ratio", [-1.0, -0.5, 0.3])
@pytest.mark.parametrize("overhang_m", [None, 0.1])
def test_the_front_steered_vehicle_that_moves_alike(ratio: float, overhang_m: float | None) -> None:
    """Each axle moves along its wheels: at a point p ahead of the rear axle the vehicle slips by
    ``tan(rear) + p curvature``, and its wheelbase is the distance of that point from the front."""
    raw = replace(make_vehicle(), rear_steering_ratio=ratio, front_overhang_m=overhang_m)
    moves = raw.single_track
    angle = 1e-3
    curvature = (tan(angle) - tan(ratio * angle)) / raw.wheelbase_m
    assert tan(angle) / moves.wheelbase_m == pytest.approx(curvature, rel=1e-5)
    ahead_m = -tan(ratio * angle) / curvature
    assert raw.wheelbase_m - moves.wheelbase_m == pytest.approx(ahead_m, rel=1e-5)
    for end, sign in (("front_m", -1.0), ("rear_m", 1.0)):
        unsteered = getattr(replace(raw, rear_steering_ratio=0.0).outline, end)
        assert getattr(moves.outline, end) == pytest.approx(unsteered + sign * ahead_m, rel=1e-5)
    assert moves.axle_distance_m == pytest.approx(raw.wheelbase_m)
    assert moves.min_turn_radius_m == pytest.approx(
        moves.wheelbase_m / tan(raw.steering.max_wheel_rad)
    )


def test_without_rear_steering_nothing_changes() -> None:
    assert VEHICLE.single_track is VEHICLE


def test_the_profile_states_it_once() -> None:
    own = load_profile("hunter_se")
    both = load_profile("hunter_se", ["vehicle.rear_steering_ratio=-1.0"])
    assert both.vehicle.wheelbase_m == 0.5 * own.vehicle.wheelbase_m
    assert both.sim.twin is not None
    assert both.sim.twin.changes == {"steering.rear_ratio": -1.0}
    another = load_profile(
        "hunter_se",
        ["vehicle.rear_steering_ratio=-1.0", "sim.twin.changes.steering.rear_ratio=-0.9"],
    )
    assert another.sim.twin is not None
    assert another.sim.twin.changes == {"steering": {"rear_ratio": -0.9}}
    single = load_profile("art_published", ["vehicle.rear_steering_ratio=-0.5"])
    assert single.sim.wheelbase_m == single.vehicle.wheelbase_m
    with pytest.raises(ProfileError, match="rear_steering_ratio"):
        load_profile("hunter_se", ["vehicle.rear_steering_ratio=1.0"])
    with pytest.raises(ProfileError, match="rear_steering_ratio"):
        load_profile("art_published", ["vehicle.rear_steering_ratio='half'"])


def test_the_twin_is_where_it_does_not_slip_sideways() -> None:
    both = load_profile("hunter_se", ["vehicle.rear_steering_ratio=-1.0"])
    plant = DoubleTrackPlant(both.sim, StartPose(0.0, 0.0, 0.0), 1e-3)
    for _ in range(4000):
        plant.step(0.2, 0.0, 0.1)
    motion = plant.motion()
    assert motion.speed_mps > 0.3
    assert abs(motion.lateral_speed_mps) < 0.02 * motion.speed_mps
    curvature = motion.yaw_rate_radps / motion.speed_mps
    assert atan(curvature * both.vehicle.wheelbase_m) == pytest.approx(0.1, rel=0.1)
    plant.turn_rear(0.0)
    for _ in range(1000):
        plant.step(0.2, 0.0, 0.1)
    motion = plant.motion()
    assert motion.yaw_rate_radps / motion.speed_mps == pytest.approx(0.5 * curvature, rel=0.1)


REAR = replace(VEHICLE, rear_steering_ratio=-1.0).single_track
RATE_RADPS = tan(0.2) / REAR.wheelbase_m


@pytest.mark.parametrize(("turns", "said"), [(1.0, False), (0.8, False), (0.5, True), (0.0, True)])
def test_a_turn_shows_whether_the_rear_wheels_follow(turns: float, said: bool) -> None:
    yaw = Yaw()
    yaw.monitor = YawMonitor(REAR, 0.0)
    yaw.update(1.0)
    yaw.sample(0.0)
    assert isnan(yaw.monitor.turn_ratio)
    steer(yaw, turns * RATE_RADPS, 3.0, 1.0, 0.2)
    assert yaw.monitor.turn_ratio == pytest.approx(turns, abs=0.1)
    assert (abs(yaw.monitor.turn_ratio - 1.0) > yaw.monitor.unfollowed_limit) is said


def test_a_vehicle_that_steers_in_front_alone_says_nothing_about_them() -> None:
    yaw = Yaw()
    yaw.update(1.0)
    yaw.sample(0.0)
    steer(yaw, 0.0, 3.0, 1.0, 0.2)
    assert isnan(yaw.monitor.turn_ratio)


@pytest.mark.parametrize(("ratio", "limit"), [(-1.0, 0.25), (0.5, 0.5), (-0.1, 0.2)])
def test_the_limit_is_halfway_to_wheels_that_stay_straight(ratio: float, limit: float) -> None:
    vehicle = replace(VEHICLE, rear_steering_ratio=ratio)
    assert YawMonitor(vehicle, 0.0).unfollowed_limit == pytest.approx(limit)
