"""Ripple of the convoy at constant low speed: standard deviation of the true speed of each vehicle.

    python bench/convoy.py [--seeds 7] [--json]

The convoy of docs/examples/convoy from its leader's braking on, 17 to 24 s after the start, for the
controller as it is, with the present speed of the predecessor in place of the planned one, with
that and without smoothing, and with that, without smoothing and with a measured velocity that is 15
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
FROM_S, TO_S = 17.0, 24.0
PRESENT = [f"fleet.v{k}.controller.Convoy.preview_s=0" for k in (1, 2, 3)]
AT_ONCE = [*PRESENT, *(f"fleet.v{k}.controller.Convoy.smoothing_s=0" for k in (1, 2, 3))]
VARIANTS = {
    "as it is": [],
    "present speed": PRESENT,
    "without smoothing": AT_ONCE,
    "without smoothing, velocity exact": [*AT_ONCE, "sim.gnss.velocity_sigma_mps=0.002"],
}


def ripple(overrides: list[str], seed: int) -> dict[str, float]:
    """Drive the convoy; return the standard deviation of the speed of each vehicle, m/s."""
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
        steady = (trace[:, 0] > FROM_S) & (trace[:, 0] < TO_S - 1.0)
        found[each.name] = float(trace[steady, 4].std())
    return found


def main() -> None:
    """Run the benchmark and print its results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[7])
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result: dict[str, dict[str, float]] = {}
    for name, overrides in VARIANTS.items():
        runs = [ripple(overrides, seed) for seed in arguments.seeds]
        result[name] = {key: float(np.mean([run[key] for run in runs])) for key in runs[0]}
        if not arguments.json:
            row = "  ".join(f"{key} {value:.3f}" for key, value in result[name].items())
            print(f"{name:<34} {row} m/s", flush=True)
    if arguments.json:
        print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
