"""Environments: gymnasium's own check, seeds, agreement of one and many, features of the daemon,
ends, rewards, refusals."""

# ruff: noqa: E402 - what follows needs gymnasium

import copy
import hashlib
import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

gymnasium: Any = pytest.importorskip("gymnasium", reason="the extra gym is not installed")

from gymnasium.utils.env_checker import check_env

from vehicled.control.policy import features as daemon
from vehicled.control.preview import Preview
from vehicled.control.speed import Demand, SpeedParams, SpeedProfile
from vehicled.core.messages import LaserScan
from vehicled.gym import EstimateNoise, GymError, Weights
from vehicled.offline.learning.gym.environments import VehicleEnv, VehicleVectorEnv
from vehicled.offline.learning.gym.walls import corridor_walls
from vehicled.paths.catalog import load_course
from vehicled.paths.errors import CourseError
from vehicled.paths.tracking import PathTracker
from vehicled.profile.problems import ProfileError

TRACKING, RACING = "vehicled/PathTracking-v0", "vehicled/Racing-v0"
FEW_RAYS = ("sim.lidar.rays=37",)
FULL: dict[str, Any] = {
    "start": "anywhere", "start_offset_m": 0.3, "start_heading_rad": 0.2, "start_speed": 1.0,
    "noise": EstimateNoise(),
    "randomise": {"steering.gain_rad": (0.3, 0.37), "steering.delay_s": (0.1, 0.5),
        "drive.stall_torque_nm": (0.08, 0.1)},
}  # fmt: skip
"""All that a row draws."""
SCANS: dict[str, Any] = FULL | {
    "scan_noise": True,
    "overrides": FEW_RAYS,
    "features": ("scan_m[9]", "speed_mps"),
}
F1TENTH: dict[str, Any] = {
    "profile": "f1tenth",
    "course": "circle_r5_ccw",
    "start": "anywhere",
    "start_speed": 0.5,
    "overrides": FEW_RAYS,
    "period_s": 0.05,
}
CASES = [
    (TRACKING, {"course": "sine"} | FULL),
    (RACING, {"course": "square"} | SCANS),
    (RACING, F1TENTH),
]


def driven(env: Any, actions: Iterable[Any], seed: int) -> list[Any]:
    """Return all that one environment gives; it is reset after an end as a vector does."""
    found: list[Any] = [env.reset(seed=seed)[0]]
    ended = False
    for action in actions:
        if ended:
            found.append((env.reset()[0], 0.0, False, False))
            ended = False
            continue
        observation, reward, terminated, truncated, _ = env.step(action)
        found.append((observation, reward, terminated, truncated))
        ended = terminated or truncated
    return found


@pytest.mark.parametrize(
    ("name", "options"),
    [
        (TRACKING, {}),
        (TRACKING, FULL),
        (RACING, {"course": "square"}),
        (RACING, {"course": "square"} | SCANS),
        (RACING, F1TENTH),
    ],
)
def test_gymnasium_accepts_the_environment(name: str, options: dict[str, Any]):
    check_env(gymnasium.make(name, **options).unwrapped)


def test_the_module_in_the_name_registers():
    program = (
        'import gymnasium; print(gymnasium.make("vehicled.gym:vehicled/PathTracking-v0", '
        'course="sine").spec.id)'
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == TRACKING


def test_importing_vehicled_leaves_gymnasium_alone():
    program = 'import sys, vehicled, vehicled.offline.api; sys.exit("gymnasium" in sys.modules)'
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(("name", "options"), CASES)
def test_a_row_of_a_vector_is_the_single_environment_with_its_seed(
    name: str, options: dict[str, Any]
):
    """Every bit, over the ends of episodes, and whichever way the speeds are computed."""
    n, steps = 14, 60
    actions = np.random.default_rng(4).uniform(-0.2, 1.0, (steps, n, 2)).astype(np.float32)
    vector: VehicleVectorEnv = gymnasium.make_vec(name, num_envs=n, max_time_s=2.5, **options)
    found = [vector.reset(seed=20)[0]]
    results = [vector.step(action) for action in actions]
    found += [result[0] for result in results]
    assert any((result[2] | result[3]).any() for result in results)
    for row in (0, 13):
        alone = driven(
            gymnasium.make(name, max_time_s=2.5, disable_env_checker=True, **options).unwrapped,
            actions[:, row],
            20 + row,
        )
        assert alone[0].tobytes() == found[0][row].tobytes()
        for single, (observation, reward, terminated, truncated, _) in zip(
            alone[1:], results, strict=True
        ):
            assert single[0].tobytes() == observation[row].tobytes()
            assert single[1:] == (reward[row], terminated[row], truncated[row])


@pytest.mark.parametrize(("name", "options"), CASES)
def test_the_same_seed_gives_the_same_bytes(name: str, options: dict[str, Any]):
    def digest(seed: int) -> str:
        env = gymnasium.make_vec(name, num_envs=3, **options)
        actions = np.random.default_rng(1).uniform(-1.0, 1.0, (20, 3, 2)).astype(np.float32)
        sha = hashlib.sha256(env.reset(seed=seed)[0].tobytes())
        for action in actions:
            observation, reward, *_ = env.step(action)
            sha.update(observation.tobytes() + reward.tobytes())
        return sha.hexdigest()

    assert digest(7) == digest(7)
    assert digest(7) != digest(8)


def test_autoreset_in_the_same_step_gives_the_last_observation_beside_the_first():
    options = {"course": "sine", "max_time_s": 0.3, "start": "anywhere"}
    vector = gymnasium.make_vec(TRACKING, num_envs=2, autoreset_mode="SameStep", **options)
    vector.reset(seed=3)
    action = np.array([[0.5, 0.1], [0.5, 0.1]], np.float32)
    for _ in range(2):
        assert not vector.step(action)[3].any()
    observation, _, _, truncated, info = vector.step(action)
    assert truncated.all()
    single = driven(
        gymnasium.make(TRACKING, disable_env_checker=True, **options).unwrapped,
        [*action[:1].repeat(3, 0), action[0]],
        3,
    )
    assert info["final_obs"][0].tobytes() == single[3][0].tobytes()
    assert info["final_info"]["time_s"].tolist() == pytest.approx([0.3, 0.3])
    assert observation[0].tobytes() == single[4][0].tobytes()
    assert info["time_s"].tolist() == [0.0, 0.0]


def test_without_autoreset_only_the_masked_rows_start_anew():
    vector = gymnasium.make_vec(
        TRACKING, num_envs=3, autoreset_mode="Disabled", course="sine", max_time_s=0.2
    )
    vector.reset(seed=1)
    action = np.full((3, 2), 0.5, np.float32)
    vector.step(action)
    before, _ = vector.reset(options={"reset_mask": np.array([True, False, False])})
    assert vector.simulation.time_s.tolist() == pytest.approx([0.0, 0.1, 0.1])
    *_, truncated, _ = vector.step(action)
    assert truncated.tolist() == [False, True, True]
    with pytest.raises(GymError, match="reset_mask"):
        vector.step(action)
    assert before.shape == (3, 4)


@pytest.mark.parametrize("course", ["sine", "square", "lot17"])
def test_features_are_those_that_the_daemon_computes_one_vehicle_at_a_time(course: str):
    known = (*daemon.SCALARS, *daemon.PARAMETRISED)
    names = tuple(name.replace("[D]", "[1.5]").replace("[N]", "[7]") for name in known)
    env = VehicleEnv(
        task="racing",
        course=course,
        features=names,
        look_ahead_m=0.8,
        half_width_m=2.0,
        overrides=FEW_RAYS,
    )
    observation, _ = env.reset(seed=0)
    simulation, wanted = env.simulation, daemon.FeatureVector(names)
    profile, plant, lidar = simulation.profile, simulation.plant, simulation.profile.sim.lidar
    tracker = PathTracker(simulation.course)
    speeds = SpeedProfile(SpeedParams(), profile.vehicle, profile.limits, simulation.course)
    follower: Any = SimpleNamespace(
        tracker=tracker, target=lambda s_m: speeds.at(s_m, 0), vehicle=profile.vehicle
    )
    action, expected = np.array([-1.0, 0.0], np.float32), np.zeros(wanted.width)
    for k in range(60):
        x, y, yaw, speed, yaw_rate = (
            float(v[0])
            for v in (plant.x_m, plant.y_m, plant.yaw_rad, plant.speed_mps, plant.yaw_rate_radps)
        )
        follower.last_demand = Demand(max(float(action[0]), 0.0), max(-float(action[0]), 0.0))
        follower.command_rad = profile.vehicle.steering.wheel_angle_rad(float(action[1]))
        assert simulation.scanner is not None
        ranges = tuple(simulation.scanner.scan(plant.x_m, plant.y_m, plant.yaw_rad)[0][0].tolist())
        step_rad = (lidar.angle_max_rad - lidar.angle_min_rad) / (lidar.rays - 1)
        scan = LaserScan(
            0,
            0,
            lidar.angle_min_rad,
            step_rad,
            0.0,
            0.1,
            lidar.range_min_m,
            lidar.range_max_m,
            0.0,
            0.0,
            ranges,
        )
        pose = Preview(x, y, yaw, speed, 0.0)
        here = tracker.update(x, y, yaw, speed)
        state: Any = SimpleNamespace(
            estimate=SimpleNamespace(yaw_rate_radps=yaw_rate), here=here, ahead=pose
        )
        wanted.fill(daemon.FeatureInputs(follower, state, 0.8, scan), expected)
        np.testing.assert_allclose(observation, expected, rtol=1e-6, atol=2e-6)
        action = np.array([0.7, 0.3 * np.sin(0.2 * k)], np.float32)
        observation, *_ = env.step(action)


def test_a_scan_sees_the_edges_of_the_corridor():
    env = VehicleEnv(
        task="racing", course="straight_20m", half_width_m=1.5, features=("scan_m[3]", "scan_m[1]")
    )
    observation, _ = env.reset(seed=0)
    # Right, ahead and left of the vehicle in the middle of a straight road.
    assert observation[0] == pytest.approx(1.5, abs=1e-3)
    assert observation[1] > 1.5 / np.sin(0.79)
    assert observation[2] == pytest.approx(1.5, abs=1e-3)
    assert observation[3] == min(observation[:3])


CROSSING = """
[[wall]]
points = [[-5, 3], [25, 3]]

[[moving]]
places = [[4.0, 0.0], [0.0, 0.0]]
speed_mps = 0.5
radius_m = 0.3
"""


@pytest.mark.parametrize("compiler", ["cc", ""])
def test_a_moving_object_is_seen_and_met_at_the_time_of_each_episode(
    compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("VEHICLED_CC", compiler)
    scene = tmp_path / "crossing.toml"
    scene.write_text(CROSSING)
    options: dict[str, Any] = {
        "course": "straight_20m",
        "scene": str(scene),
        "features": ("scan_m[3]",),
        "overrides": FEW_RAYS,
    }
    many = VehicleVectorEnv(2, task="racing", autoreset_mode="Disabled", **options)
    (first, _), _ = many.reset(seed=0)
    ahead = [float(first[1])]
    still = np.tile(np.array([-1.0, 0.0], np.float32), (2, 1))
    for step in range(1, 80):
        observations, _, terminated, *_ = many.step(still)
        if step == 20:
            # The second begins anew: the object is back at its first place for it alone.
            again, _ = many.reset(options={"reset_mask": np.array([False, True])})
            assert again[1, 1] == first[1]
            assert again[0, 1] == observations[0, 1]
        ahead.append(float(observations[0, 1]))
        if terminated[0]:
            break
    assert terminated.tolist() == [True, False]
    assert all(after < before for before, after in pairwise(ahead))
    assert ahead[0] - ahead[10] == pytest.approx(0.5, abs=0.02)


def run(env: VehicleEnv, action: tuple[float, float]) -> tuple[float, bool, bool, dict[str, Any]]:
    env.reset(seed=0)
    total = 0.0
    while True:
        _, reward, terminated, truncated, info = env.step(np.array(action, np.float32))
        total += reward
        if terminated or truncated:
            return total, terminated, truncated, info


def test_leaving_the_corridor_terminates():
    _, terminated, truncated, info = run(
        VehicleEnv(task="path_tracking", course="straight_20m", half_width_m=0.5), (1.0, 1.0)
    )
    assert (terminated, truncated) == (True, False)
    assert abs(info["cross_track_m"]) > 0.5
    assert not info["finished"]


def test_a_wall_terminates_before_the_middle_of_the_vehicle_is_there():
    _, terminated, _, info = run(
        VehicleEnv(task="racing", course="straight_20m", half_width_m=1.0, overrides=FEW_RAYS),
        (1.0, 1.0),
    )
    assert terminated
    assert info["collided"]
    assert abs(info["cross_track_m"]) < 1.0


def test_finishing_truncates_and_gives_the_lap_time():
    env = VehicleEnv(
        task="racing",
        course="straight_20m",
        overrides=("sim.steering.offset_rad=0.0", *FEW_RAYS),
        weights=Weights(cross_track=0.0, speed=0.0),
    )
    total, terminated, truncated, info = run(env, (1.0, 0.0))
    assert (terminated, truncated, info["finished"]) == (False, True, True)
    assert info["lap_time_s"] == pytest.approx(info["time_s"], abs=0.15)
    assert 6.7 < info["lap_time_s"] < 10.0
    # Progress, less the step from the brake to full throttle.
    assert total == pytest.approx(info["progress_m"] - 0.1 * 0.005 * 20.0**2, abs=1e-6)


def test_the_time_limit_truncates():
    _, terminated, truncated, info = run(
        VehicleEnv(task="path_tracking", course="sine", max_time_s=0.5), (0.0, 0.0)
    )
    assert (terminated, truncated, info["finished"]) == (False, True, False)
    assert info["time_s"] == pytest.approx(0.5)


def test_episodes_draw_their_vehicle_from_the_ranges():
    vector = gymnasium.make_vec(TRACKING, num_envs=50, course="sine", **(FULL | {"noise": None}))
    vector.reset(seed=5)
    drawn = vector.simulation.plant.parameters["steering.gain_rad"].copy()
    assert 0.3 <= drawn.min() < 0.32
    assert 0.35 < drawn.max() <= 0.37
    vector.reset()
    assert (vector.simulation.plant.parameters["steering.gain_rad"] != drawn).all()


def test_the_error_of_the_estimate_is_stationary_and_correlated():
    noise, count = EstimateNoise(speed_mps=0.1, time_s=0.5), 500
    vector = gymnasium.make_vec(
        TRACKING, num_envs=count, course="sine", noise=noise, features=("speed_mps",)
    )
    errors = [vector.reset(seed=2)[0][:, 0]] + [
        vector.step(np.zeros((count, 2), np.float32))[0][:, 0] for _ in range(20)
    ]
    # The vehicles stand.
    assert [float(error.std()) for error in errors] == pytest.approx([0.1] * 21, rel=0.15)
    assert np.corrcoef(errors[10], errors[11])[0, 1] == pytest.approx(np.exp(-0.1 / 0.5), abs=0.05)


def test_a_throttle_below_zero_brakes():
    env = VehicleEnv(
        task="path_tracking",
        course="straight_20m",
        overrides=("sim.drive.brake_deceleration_mps2=4.0",),
    )
    env.reset(seed=0)
    for _ in range(30):
        env.step(np.array([0.8, 0.0], np.float32))
    before = env.simulation.plant.speed_mps[0]
    for _ in range(6):
        env.step(np.array([-1.0, 0.0], np.float32))
    assert before > 1.0
    assert env.simulation.plant.speed_mps[0] == 0.0


@pytest.mark.parametrize(
    ("options", "kind", "says"),
    [
        ({"profile": "nobody"}, ProfileError, "no profile of that name"),
        (
            {"profile": "f1tenth", "randomise": {"steering.gain_rad": (0.3, 0.4)}},
            GymError,
            "four_dof",
        ),
        ({"course": "nowhere"}, CourseError, 'no course "nowhere"'),
        ({"course": "three_point_turn"}, CourseError, "forward only"),
        ({"features": ("speed",)}, GymError, 'did you mean "speed_mps"'),
        ({"features": ("scan_m[0]",)}, GymError, "whole number"),
        ({"features": ("curvature_per_m[1000]",)}, GymError, "metres from 0"),
        ({"features": ("speed_mps", "speed_mps")}, GymError, "twice"),
        ({"cource": "sine"}, GymError, 'did you mean "course"'),
        ({"period_s": "fast"}, GymError, "Expected `float`"),
        ({"period_s": 0.3}, GymError, "time out"),
        ({"period_s": float("nan")}, GymError, "period_s"),
        ({"look_ahead_m": float("inf")}, GymError, "look_ahead_m is inf"),
        ({"randomise": {"steering.gain_rad": (0.2, float("nan"))}}, GymError, "gain_rad"),
        ({"weights": {"progress": -1.0}}, GymError, "progress"),
        ({"period_s": 0.00123}, GymError, "whole number"),
        ({"randomise": {"steering.gain": (0.1, 0.2)}}, GymError, "not a number of"),
        ({"randomise": {"steering.gain_rad": (0.4, 0.2)}}, GymError, "lower bound first"),
        ({"randomise": {"steering.gain_rad": (-0.4, 0.2)}}, ProfileError, "gain_rad"),
        ({"scene": "nothing.toml"}, Exception, "nothing.toml"),
        ({"render_mode": "human"}, GymError, "render_mode"),
    ],
)
def test_a_bad_option_is_refused_with_the_cure(
    options: dict[str, Any], kind: type[Exception], says: str
):
    with pytest.raises(kind, match=says):
        VehicleEnv(task="path_tracking", **options)


def test_walls_of_a_course_that_crosses_itself_are_refused():
    with pytest.raises(GymError, match="meets itself"):
        VehicleEnv(task="racing", course="figure_eight")


def test_walls_keep_off_the_road_where_a_bend_is_tighter_than_the_corridor():
    course = load_course("square")
    walls = corridor_walls(course, 4.0)
    along = np.linspace(0.0, 1.0, 20)[:, None, None]
    corners = (walls[:, :2] + along * (walls[:, 2:] - walls[:, :2])).reshape(-1, 2)
    distance = np.hypot(corners[:, :1] - course.x_m, corners[:, 1:] - course.y_m).min(axis=1)
    assert distance.min() > 3.98
    assert distance.max() < 4.2


def test_the_middle_of_a_circle_smaller_than_the_road_has_no_wall():
    env = VehicleEnv(
        task="racing",
        course="circle_r2_ccw",
        half_width_m=2.5,
        features=("scan_m[3]",),
        overrides=FEW_RAYS,
    )
    observation, _ = env.reset(seed=0)
    # To the left lies the wall beyond the middle.
    assert observation[0] == pytest.approx(4.5 - np.hypot(2.0, 0.5), abs=0.02)
    assert observation[2] > 4.0


NO_ACTIONS: list[Any] = [
    np.array([np.nan, 0.0]), [0.0, -np.inf], np.zeros(3), np.zeros(2) * 1j, [[0.0], 0.0], "ab",
    ["0", "0"], None, 0.5,
]  # fmt: skip
NO_SEEDS: list[Any] = [-1, 1.5, np.nan, "3", True, object()]


def test_an_action_that_is_none_is_refused():
    env = VehicleEnv(task="path_tracking", course="sine")
    vector = gymnasium.make_vec(TRACKING, num_envs=1, course="sine")
    env.reset(seed=0)
    vector.reset(seed=0)
    for action in NO_ACTIONS:
        with pytest.raises(GymError, match=r"finite|no array"):
            env.step(action)
        with pytest.raises(GymError, match=r"finite|no array"):
            vector.step([action])
    assert (env.simulation.time_s, vector.simulation.time_s) == (0.0, 0.0)


def test_a_seed_that_is_none_is_refused():
    env = VehicleEnv(task="path_tracking", course="sine")
    vector = gymnasium.make_vec(TRACKING, num_envs=2, course="sine")
    whole: Any = np.int64(3)
    for seed in NO_SEEDS:
        resets: tuple[tuple[Callable[..., Any], Any], ...] = (
            (env.reset, seed), (vector.reset, seed), (vector.reset, [None, seed]),
        )  # fmt: skip
        for reset, given in resets:
            with pytest.raises(GymError, match="whole number"):
                reset(seed=given)
    assert np.array_equal(env.reset(seed=whole)[0], env.reset(seed=3)[0])


@pytest.mark.parametrize(("name", "options"), CASES)
@pytest.mark.parametrize("vehicles", [0, 2])
@pytest.mark.parametrize(
    "again", [lambda env: pickle.loads(pickle.dumps(env)), copy.deepcopy], ids=["pickled", "copied"]
)
def test_a_copy_of_an_environment_goes_on_as_it_does(
    name: str, options: dict[str, Any], vehicles: int, again: Callable[[Any], Any]
):
    env: Any = (
        gymnasium.make_vec(name, num_envs=vehicles, **options)
        if vehicles
        else gymnasium.make(name, **options)
    )
    action = np.tile(np.array([0.6, 0.2], np.float32), (vehicles, 1) if vehicles else 1)
    assert np.array_equal(again(env).reset(seed=2)[0], env.reset(seed=2)[0])
    for _ in range(5):
        env.step(action)
    copies = again(env), again(env)
    for _ in range(30):
        first, *others = (each.step(action) for each in (env, *copies))
        for other in others:
            assert all(
                np.array_equal(one, two) for one, two in zip(first[:4], other[:4], strict=True)
            )


def test_a_step_before_the_reset_is_refused():
    for env, action in (
        (VehicleEnv(task="path_tracking", course="sine"), np.zeros(2, np.float32)),
        (gymnasium.make_vec(TRACKING, num_envs=2, course="sine"), np.zeros((2, 2), np.float32)),
    ):
        with pytest.raises(gymnasium.error.ResetNeeded):
            env.step(action)


def test_a_vector_reports_the_seeds_of_its_rows():
    vector = gymnasium.make_vec(TRACKING, num_envs=3, course="sine")
    vector.reset(seed=4)
    assert vector.np_random_seed == (4, 5, 6)
    vector.reset(seed=[None, 9, None])
    assert vector.np_random_seed == (4, 9, 6)
    vector.reset()
    assert len(vector.np_random) == 3


def test_as_many_seeds_as_rows_are_asked_for():
    vector = gymnasium.make_vec(TRACKING, num_envs=2, course="sine")
    with pytest.raises(GymError, match="3 seeds for 2"):
        vector.reset(seed=[1, 2, 3])


def test_the_examples_of_the_page_run(project_root: Path):
    blocks = re.findall(
        r"```python\n(.*?)```", (project_root / "docs/gym.md").read_text(), re.DOTALL
    )
    assert len(blocks) == 2
    for block in blocks:
        names: dict[str, Any] = {}
        exec(compile(block, "docs/gym.md", "exec"), names)
        assert not np.any(names["terminated"])
