"""Rates of the environments, and of the batched plant beside the scalar one in the same run. CPU
time of one core.

    python bench/gym.py [--batches 1 64 1024 4096] [--json]

A plant step is one step of the physics grid of one vehicle behind its actuators (1 ms); a step of
an environment is an action of one vehicle (0.1 s). The best of several rounds counts.
"""

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from sim_backend.plant.actuators import Actuators
from sim_backend.plant.batch import batch_of
from sim_backend.plant.interface import StartPose
from sim_backend.plant.registry import plant_class
from vehicled.profile.loading import load_profile

ROUNDS = 5
PERIOD_NS = 100_000_000
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "PathTracking-v0, art": (
        "vehicled.gym:vehicled/PathTracking-v0",
        {"course": "lot17", "start": "anywhere"},
    ),
    "Racing-v0, art, 541 rays": (
        "vehicled.gym:vehicled/Racing-v0",
        {"course": "square", "start": "anywhere"},
    ),
    "Racing-v0, f1tenth, 181 rays": (
        "vehicled.gym:vehicled/Racing-v0",
        {
            "profile": "f1tenth",
            "course": "square",
            "start": "anywhere",
            "overrides": ("sim.lidar.rays=181",),
        },
    ),
}


def rate(work: Callable[[], object], steps: int) -> float:
    """Return steps per second of CPU time, the best of the rounds."""
    work()
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return steps / best


def scalar_rate(profile: str, periods: int = 20) -> float:
    """Return the rate of one vehicle behind its actuators, as a run steps it."""
    sim = load_profile(profile).sim
    plant = plant_class(sim.plant)(sim, StartPose(0.0, 0.0, 0.0), 1e-3)
    actuators = Actuators(sim, 0, 1_000_000)
    now_ns = 0

    def work() -> None:
        nonlocal now_ns
        for _ in range(periods):
            actuators.command(now_ns, 0.4, 0.0, 0.1)
            for _ in range(100):
                actuators.step(now_ns, plant.motor_speed_radps)
                plant.step(actuators.throttle, actuators.brake, actuators.wheel_angle_rad)
                now_ns += 1_000_000

    return rate(work, periods * 100)


def batch_rate(profile: str, count: int) -> float:
    """Return the rate of a batch, with another command for each vehicle and period."""
    plant = batch_of(load_profile(profile).sim, count, PERIOD_NS)
    zero, periods = np.zeros(count), max(2, 2000 // count)
    commands = np.random.default_rng(1).uniform(0.0, 0.5, (periods, 2, count))

    def work() -> None:
        for throttle, steering in commands:
            plant.advance(throttle, zero, steering)

    return rate(work, periods * count * plant.steps)


def environment_rate(name: str, options: dict[str, Any], count: int) -> float:
    """Return the steps of environments per second, observations, rewards and resets included."""
    env = gymnasium.make_vec(name, num_envs=count, **options)
    env.reset(seed=1)
    steps = max(5, 640 // count)
    actions = np.random.default_rng(1).uniform(-0.2, 0.6, (steps, count, 2)).astype(np.float32)

    def work() -> None:
        for action in actions:
            env.step(action)

    return rate(work, steps * count)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--batches",
        type=int,
        nargs="+",
        default=[1, 64, 1024, 4096],
        help="numbers of vehicles side by side",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    found: dict[str, Any] = {
        "scalar": scalar_rate("art_published"),
        "batch": {},
        "environments": {},
    }
    for count in options.batches:
        found["batch"][count] = batch_rate("art_published", count)
    for label, (name, chosen) in CASES.items():
        found["environments"][label] = {
            count: environment_rate(name, chosen, count) for count in options.batches if count <= 64
        }
    if options.json:
        print(json.dumps(found))
        return
    print("plant steps per second and core, 4-DOF behind its actuators")
    print(f"  scalar                  {found['scalar']:12,.0f}")
    for count, each in found["batch"].items():
        print(
            f"  batch of {count:<6d}         {each:12,.0f}  {each / found['scalar']:6.1f} "
            "times the scalar"
        )
    print("steps of environments per second and core")
    for label, rates in found["environments"].items():
        for count, each in rates.items():
            print(f"  {label:28s} {count:5d} side by side {each:10,.0f}")


if __name__ == "__main__":
    main()
