"""Time of a control step of a trained policy, beside the linear law of the same study.

    python bench/policy.py [--steps 20000] [--json]

Both controllers take the same states on the same course, in turns of a thousand steps. The
reference is a step of the linear law, which has everything but the network: progress, reference
point, speed profile. Besides: the network alone by onnxruntime, and the same dense network by
numpy.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.policy_bench import layers, write_policy
from vehicled.control.interface import Controller
from vehicled.control.linear import Linear, LinearParams
from vehicled.control.policy.controller import PolicyParams, policy_class
from vehicled.core.messages import EstimatorStatus, StateEstimate
from vehicled.offline.learning.policy_file import Layer
from vehicled.paths.catalog import load_course
from vehicled.profile import load_profile

SIZES = {
    "4-8-16-2, published": (4, 8, 16, 2),
    "4-64-64-2": (4, 64, 64, 2),
    "4-256-256-2": (4, 256, 256, 2),
}
TURN = 1000


def states(course_name: str, count: int) -> list[StateEstimate]:
    """Return states of a vehicle that follows a course at 1 m/s, 10 ms apart, with noise."""
    course = load_course(course_name)
    draws = np.random.default_rng(1)
    s = (0.01 * np.arange(count)) % course.length_m
    x, y = (
        np.interp(s, course.s_m, values) + 0.02 * draws.normal(size=count)
        for values in (course.x_m, course.y_m)
    )
    yaw = np.interp(s, course.s_m, np.unwrap(course.yaw_rad)) + 0.02 * draws.normal(size=count)
    return [
        StateEstimate(
            k * 10**7,
            k * 10**7,
            float(x[k]),
            float(y[k]),
            float(yaw[k]),
            1.0,
            0.0,
            (0.0,) * 16,
            EstimatorStatus.RUNNING,
        )
        for k in range(count)
    ]


def timed(call: Callable[[Any], object], arguments: list[Any]) -> list[int]:
    """Return the nanoseconds of each call."""
    clock, found = time.perf_counter_ns, []
    for argument in arguments:
        start = clock()
        call(argument)
        found.append(clock() - start)
    return found


def stepping(controller: Controller) -> Callable[[Any], object]:
    """Return a function that steps a controller on a state, at its time."""
    return lambda estimate: controller.step(estimate, estimate.t_ns)


def by_numpy(network: list[Layer]) -> Callable[[Any], object]:
    """Return the network as three products of numpy."""
    weights = [(layer.weights, layer.bias, layer.activation == "relu") for layer in network]

    def run(x: Any) -> Any:
        for w, b, relu in weights:
            x = x @ w + b
            if relu:
                x = np.maximum(x, 0.0)
        return x

    return run


def measure(steps: int) -> dict[str, dict[str, float]]:
    """Return microseconds by arm: median, 99 % and 99.9 % quantile."""
    profile, course = load_profile("art"), load_course("lot17")
    seen = states("lot17", steps)
    features = [np.array([[1.0, 0.1, 0.05, 0.02]], np.float32)] * TURN
    with tempfile.TemporaryDirectory() as folder:
        arms: dict[str, tuple[Callable[[Any], object], bool]] = {}
        linear = Linear(LinearParams(), profile.vehicle, profile.limits, course, 0.01)
        arms["linear law, step"] = stepping(linear), True
        for name, sizes in SIZES.items():
            network = layers(*sizes)
            kind = policy_class(write_policy(Path(folder) / f"{sizes[1]}.onnx", network))
            policy = kind(PolicyParams(), profile.vehicle, profile.limits, course, 0.01)
            arms[f"{name}, step"] = stepping(policy), True
            arms[f"{name}, onnxruntime alone"] = kind.network.run, False
            arms[f"{name}, numpy alone"] = by_numpy(network), False
        times: dict[str, list[int]] = {name: [] for name in arms}
        for first in range(0, steps, TURN):
            for name, (call, whole) in arms.items():
                times[name] += timed(call, seen[first : first + TURN] if whole else features)
    quantiles = {"median_us": 50.0, "p99_us": 99.0, "p999_us": 99.9}
    return {
        name: {key: float(np.percentile(each[TURN:], q)) / 1e3 for key, q in quantiles.items()}
        for name, each in times.items()
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found = measure(max(arguments.steps, 2 * TURN))
    reference = found["linear law, step"]["median_us"]
    if arguments.json:
        print(
            json.dumps(
                {
                    name: row | {"over_linear": row["median_us"] / reference}
                    for name, row in found.items()
                },
                indent=2,
            )
        )
        return
    print(f"{'':42} {'median':>8} {'p99':>8} {'p99.9':>8}   us   median over the linear law's step")
    for name, row in found.items():
        quantiles = " ".join(f"{row[key]:8.1f}" for key in ("median_us", "p99_us", "p999_us"))
        print(f"{name:42} {quantiles}        {row['median_us'] / reference:.2f}")


if __name__ == "__main__":
    main()
