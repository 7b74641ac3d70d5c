"""Trains a policy with stable-baselines3 in the environments of vehicled.gym, scores it, and writes
it as ONNX: docs/gym.md.

    python bench/gym_train.py --out my_policy.onnx
    python bench/gym_train.py --task racing --out my_racer.onnx

Needs pip install "vehicled[gym,learn]" stable-baselines3. The score is that of the deterministic
policy on courses that it has not seen, driven from the beginning, one episode each, with the
vehicle as the profile describes it.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from vehicled.control.policy.network import PolicyDescription
from vehicled.offline.learning.gym.environments import VehicleVectorEnv
from vehicled.offline.learning.policy_file import Layer, write_policy

try:
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import VecEnv, VecNormalize
except ImportError as error:
    # No failure among the other measurements, which do without.
    print(
        f'{error.name} is not installed; training needs pip install "vehicled[gym,learn]" '
        "stable-baselines3"
    )
    raise SystemExit from None

STATE = ("speed_mps", "yaw_rate_radps", "previous_throttle", "previous_steering")
TRACKING: dict[str, Any] = {
    "course": "random:seed=5,length_m=600,speed_mps=1.2",
    "features": (
        "reference_ahead_m", "reference_left_m", "reference_heading_rad", "reference_speed_mps",
        "course_left_m[1.5]", "course_heading_rad[1.5]", "course_left_m[2.5]",
        "course_heading_rad[2.5]", *STATE,
    ),
    "start": "anywhere", "start_offset_m": 1.0, "start_heading_rad": 1.2, "start_speed": 1.0,
    "max_time_s": 20.0,
    "randomise": {
        "steering.gain_rad": (0.3, 0.37), "steering.offset_rad": (0.0, 0.03),
        "steering.delay_s": (0.35, 0.45), "drive.stall_torque_nm": (0.08, 0.1),
        "drive.friction_nm": (0.015, 0.025),
    },
}  # fmt: skip
RACING: dict[str, Any] = {
    "course": "lot17", "features": ("scan_m[18]", *STATE), "overrides": ("sim.lidar.rays=181",),
    "start": "anywhere", "start_offset_m": 0.5, "start_heading_rad": 0.3, "start_speed": 1.0,
    "max_time_s": 30.0,
}  # fmt: skip
TASKS: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "path_tracking": (
        "vehicled.gym:vehicled/PathTracking-v0",
        TRACKING,
        ("lot17", "figure_eight", "sine"),
    ),
    "racing": ("vehicled.gym:vehicled/Racing-v0", RACING, ("square", "rectangle_20x45")),
}


class Sb3Vector(VecEnv):  # type: ignore[misc]  # its class has no types
    """The vector environment in the form of stable-baselines3, which resets within the step."""

    def __init__(self, env: VehicleVectorEnv) -> None:
        self.env = env
        super().__init__(env.num_envs, env.single_observation_space, env.single_action_space)

    def reset(self) -> Any:
        return self.env.reset(seed=self._seeds[0])[0]

    def step_async(self, actions: Any) -> None:
        self._actions = actions

    def step_wait(self) -> Any:
        observations, rewards, terminated, truncated, info = self.env.step(self._actions)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for row in np.flatnonzero(terminated | truncated).tolist():
            infos[row] = {
                "terminal_observation": info["final_obs"][row],
                "TimeLimit.truncated": bool(truncated[row]),
            }
        return observations, rewards.astype(np.float32), terminated | truncated, infos

    def close(self) -> None:
        self.env.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [getattr(self.env, attr_name)] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        setattr(self.env, attr_name, value)

    def env_method(
        self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any
    ) -> list[Any]:
        return [getattr(self.env, method_name)(*args, **kwargs)] * self.num_envs

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs


def trained(
    name: str, options: dict[str, Any], steps: int, seed: int, count: int
) -> tuple[Any, Any]:
    """Train with PPO; return the model and the normalisation of its observations."""
    torch.set_num_threads(1)
    vector: Any = gymnasium.make_vec(name, num_envs=count, autoreset_mode="SameStep", **options)
    environment = VecNormalize(Sb3Vector(vector), gamma=0.99, clip_obs=100.0)
    environment.seed(seed)
    model = PPO(
        "MlpPolicy", environment, n_steps=64, batch_size=1024, n_epochs=10, gamma=0.99,
        gae_lambda=0.95, ent_coef=0.0, learning_rate=lambda left: 6e-4 * left, seed=seed,
        device="cpu", policy_kwargs={"log_std_init": -1.0, "net_arch": [64, 64]},
    )  # fmt: skip
    model.learn(steps)
    return model, environment.obs_rms


def layers_of(model: Any) -> list[Layer]:
    """Return the deterministic actor."""
    dense = [
        part
        for part in [*model.policy.mlp_extractor.policy_net, model.policy.action_net]
        if hasattr(part, "weight")
    ]
    return [
        Layer(
            part.weight.detach().numpy().T,
            part.bias.detach().numpy(),
            "none" if part is dense[-1] else "tanh",
        )
        for part in dense
    ]


def described(options: dict[str, Any], normal: Any, steps: int) -> PolicyDescription:
    """Return what the daemon must know of the network."""
    return PolicyDescription(
        features=list(options["features"]),
        # The environments observe the present state.
        predicts=False,
        period_s=0.1,
        offset=normal.mean.tolist(),
        scale=(1.0 / np.sqrt(normal.var + 1e-8)).tolist(),
        profile="art_published",
        training={"algorithm": "PPO", "course": options["course"], "steps": steps},
    )


def score(
    name: str, options: dict[str, Any], course: str, model: Any, meaning: PolicyDescription
) -> dict[str, float]:
    """Drive a course from its beginning with the deterministic policy; return what came of it."""
    kept = {key: options[key] for key in ("features", "overrides") if key in options}
    env = gymnasium.make(name, course=course, **kept)
    observation, _ = env.reset(seed=0)
    offset, scale = np.array(meaning.offset), np.array(meaning.scale)
    squares, ended, rewards = [], False, 0.0
    while not ended:
        action, _ = model.predict(
            ((observation - offset) * scale).astype(np.float32), deterministic=True
        )
        observation, reward, terminated, truncated, info = env.step(action)
        squares.append(info["cross_track_m"] ** 2)
        rewards += float(reward)
        ended = terminated or truncated
    length_m = env.unwrapped.simulation.course.length_m  # type: ignore[attr-defined]
    return {
        "finished": float(info["finished"]),
        "share_driven": info["progress_m"] / length_m,
        "time_s": info["time_s"],
        "rms_cross_track_m": float(np.sqrt(np.mean(squares))),
        "max_cross_track_m": float(np.sqrt(np.max(squares))),
        "reward": rewards,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", choices=sorted(TASKS), default="path_tracking")
    parser.add_argument(
        "--steps", type=int, default=1_000_000, help="steps of the environments (default 1000000)"
    )
    parser.add_argument("--envs", type=int, default=64, help="vehicles side by side (default 64)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("my_policy.onnx"),
        help="ONNX file to write (default my_policy.onnx)",
    )
    given = parser.parse_args()
    name, options, courses = TASKS[given.task]
    start = time.monotonic()
    model, normal = trained(name, options, given.steps, given.seed, given.envs)
    print(f"{given.steps} steps in {time.monotonic() - start:.0f} s")
    meaning = described(options, normal, given.steps)
    write_policy(given.out, layers_of(model), meaning)
    for course in courses:
        found = score(name, options, course, model, meaning)
        print(f"{course:14s}", "  ".join(f"{key} {value:.3f}" for key, value in found.items()))
    print(f"{given.out} written")


if __name__ == "__main__":
    main()
