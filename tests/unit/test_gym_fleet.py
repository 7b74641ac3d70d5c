"""The environment of several vehicles: PettingZoo's own checks, repetition, contact, and vehicles
that their controllers drive."""

import hashlib

import numpy as np
import pytest
from pettingzoo.test import parallel_api_test, parallel_seed_test

import vehicled.gym
from vehicled.core.errors import SetupError
from vehicled.gym import FleetEnv, GymError
from vehicled.offline.learning.gym.environments import VehicleEnv
from vehicled.offline.learning.gym.fleet import NEIGHBOUR

VEHICLE = (
    '[[vehicle]]\nname = "{}"\nprofile = "art_published"\ncourse = "circle_r5_ccw"\nfrom_m = {}\n'
)


@pytest.fixture
def fleet(tmp_path):
    path = tmp_path / "fleet.toml"
    places = {"a": 0.0, "b": 6.0, "c": 12.0}
    path.write_text("".join(VEHICLE.format(*each) for each in places.items()))
    return str(path)


def test_the_checks_of_pettingzoo_pass(fleet):
    parallel_api_test(FleetEnv(fleet, agents=["a", "b"]), num_cycles=60)
    parallel_seed_test(lambda: FleetEnv(fleet, agents=["a"], start_offset_m=0.2), num_cycles=20)


def episode(fleet, seed, steps=40):
    env = FleetEnv(
        fleet, agents=["b", "a"], start_offset_m=0.2, features=("scan_m[8]", "speed_mps")
    )
    observations, _ = env.reset(seed=seed)
    digest = hashlib.sha256()
    for _ in range(steps):
        observations, rewards, *_ = env.step(
            {name: np.array([0.4, 0.2], np.float32) for name in env.agents}
        )
        for name in sorted(observations):
            digest.update(observations[name].tobytes() + np.float64(rewards[name]).tobytes())
    return digest.hexdigest()


def test_the_same_seed_gives_the_same_bytes(fleet):
    assert episode(fleet, 1) == episode(fleet, 1) != episode(fleet, 2)


def test_an_agent_sees_the_others_drive_by_their_controllers(fleet):
    env = FleetEnv(fleet, agents=["a"])
    observations, _ = env.reset(seed=1)
    first = observations["a"][-2 * len(NEIGHBOUR) :]
    for _ in range(40):
        observations, *_ = env.step({"a": np.array([-1.0, 0.0], np.float32)})
    b = dict(zip(NEIGHBOUR, observations["a"][-8:-4], strict=True))
    assert first[3] == 0.0
    assert b["speed_mps"] > 0.5, "its controller drives it"
    assert b["heading_rad"] > first[2], "along the circle"
    assert env.agents == ["a"]


def test_a_scanner_sees_the_others(fleet):
    alone = FleetEnv(fleet, agents=["a"], features=("scan_m[36]",), overrides=["fleet.b.from_m=20"])
    among = FleetEnv(fleet, agents=["a"], features=("scan_m[36]",), overrides=["fleet.b.from_m=2"])
    ranges_m = [env.reset(seed=1)[0]["a"][:36].min() for env in (alone, among)]
    assert ranges_m[1] < ranges_m[0] - 0.3


def test_a_contact_ends_both_episodes_as_a_failure(fleet):
    env = FleetEnv(fleet, agents=["a", "b"], overrides=["fleet.b.from_m=1.5"])
    env.reset(seed=1)
    while env.agents:
        _, rewards, terminated, truncated, infos = env.step(
            {"a": np.array([1.0, 0.25], np.float32), "b": np.array([-1.0, 0.0], np.float32)}
        )
    assert terminated == {"a": True, "b": True}
    assert truncated == {"a": False, "b": False}
    assert infos["a"]["struck"]
    assert max(rewards.values()) < -9.0


def test_mistakes_are_named(fleet):
    with pytest.raises(GymError, match="no vehicle x; the fleet has a, b, c"):
        FleetEnv(fleet, agents=["x"])
    with pytest.raises(GymError, match="whole number of control periods"):
        FleetEnv(fleet, period_s=0.03)
    with pytest.raises(SetupError, match="no vehicle is called"):
        FleetEnv(fleet, overrides=["fleet.x.from_m=1"])
    env = FleetEnv(fleet)
    env.reset()
    with pytest.raises(GymError, match="no action for b, c"):
        env.step({"a": np.zeros(2, np.float32)})
    with pytest.raises(AttributeError):
        _ = vehicled.gym.Fleet


def test_two_environments_draw_actions_from_streams_of_their_own():
    first, second = VehicleEnv(task="path_tracking"), VehicleEnv(task="path_tracking")
    first.action_space.seed(1)
    second.action_space.seed(1)
    assert np.array_equal(first.action_space.sample(), second.action_space.sample())
