"""Speeds of the convoy: ripple at constant low speed, and undershoot when its leader brakes.

    python bench/convoy.py [--seeds 7] [--json]

The convoy of docs/examples/convoy. Ripple: standard deviation of the true speed of each vehicle, 17
to 23 s after the start, at 0.7 m/s. Undershoot: how far its true speed falls below 0.7 m/s while
the leader brakes to that. For the controller as it is, with the present speed of the predecessor in
place of the planned one, without smoothing, both, and both with a measured velocity that is 15
times as exact: the speed estimates that the vehicles broadcast rest on it.
"""

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np

from vehicled.run.fleet import plan_fleet, read_fleet, varied
from vehicled.run.fleet_processes import drive_fleet
from vehicled.run.fleet_result import FleetOutcome
from vehicled.run.spec import RunSpec

FILE = Path(__file__).parents[1] / "docs" / "examples" / "convoy" / "convoy.toml"
BRAKED_S, FROM_S, TO_S = 8.0, 17.0, 24.0
SLOW_MPS = 0.7
AT_ONCE = [f"fleet.v{k}.controller.Convoy.smoothing_s=0" for k in (1, 2, 3)]
NO_PLAN = [f"fleet.v{k}.controller.Convoy.preview_s=0" for k in (1, 2, 3)]
VARIANTS = {
    "as it is": [],
    "without plan": NO_PLAN,
    "without smoothing": AT_ONCE,
    "without both": [*NO_PLAN, *AT_ONCE],
    "without both, velocity exact": [*NO_PLAN, *AT_ONCE, "sim.gnss.velocity_sigma_mps=0.002"],
}


def speeds(overrides: list[str], seed: int) -> dict[str, float]:
    """Drive the convoy; return ripple and undershoot of each vehicle, m/s."""
    file = read_fleet(FILE)
    entries, radio, common = varied(file.vehicle, file.radio, overrides)
    spec = RunSpec(
        profile="art", overrides=common, duration_s=TO_S - 1.0, log_folder=None, seed=seed
    )
    with tempfile.TemporaryDirectory() as folder:
        plan = plan_fleet(entries, spec, Path(folder), radio)
        outcome = FleetOutcome.of(plan, drive_fleet(plan, 120.0, trace=True))
    found = {}
    for each in outcome.vehicles:
        trace = np.array(each.trace)
        drives = trace[:, 0] < TO_S - 1.0
        steady = drives & (trace[:, 0] > FROM_S)
        slow = drives & (trace[:, 0] > BRAKED_S)
        found[f"{each.name}_ripple"] = float(trace[steady, 4].std())
        found[f"{each.name}_undershoot"] = float(SLOW_MPS - trace[slow, 4].min())
    return found


def main() -> None:
    """Run the benchmark and print its results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[7])
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result: dict[str, dict[str, float]] = {}
    for name, overrides in VARIANTS.items():
        runs = [speeds(overrides, seed) for seed in arguments.seeds]
        result[name] = {key: float(np.mean([run[key] for run in runs])) for key in runs[0]}
        if not arguments.json:
            row = "  ".join(f"{key} {value:.3f}" for key, value in result[name].items())
            print(f"{name:<30} {row} m/s", flush=True)
    if arguments.json:
        print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
