"""Contacts at the crossing of docs/examples/right_of_way, by how many messages are lost.

    python bench/right_of_way.py [--seeds 6] [--json]

Each drive ends 14 s after the start, when the second vehicle has passed. ``contacts``: drives with
a contact; ``passed``: drives in which both vehicles passed; ``apart_m``: the smallest distance of
the reference points in all drives. Where nobody is expected, no message is no reason to stop.
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

FILE = Path(__file__).parents[1] / "docs" / "examples" / "right_of_way" / "right_of_way.toml"
DURATION_S = 14.0
PASSED_M = 1.5
"""Distance behind the crossing at which a vehicle has passed it."""
UNEXPECTED = [f"fleet.{name}.controller.RightOfWay.expects=[]" for name in ("east", "north")]
VARIANTS = {
    "10 %": [],
    "50 %": ["radio.loss=0.5"],
    "90 %": ["radio.loss=0.9"],
    "all": ["radio.loss=1.0"],
    "all, nobody expected": ["radio.loss=1.0", *UNEXPECTED],
}


def drive(overrides: list[str], seed: int) -> tuple[bool, bool, float]:
    """Drive once; return whether there was a contact, whether both passed, and the smallest
    distance, m."""
    file = read_fleet(FILE)
    entries, radio, common = varied(file.vehicle, file.radio, overrides)
    spec = RunSpec(
        profile="art", overrides=common, duration_s=DURATION_S, log_folder=None, seed=seed
    )
    with tempfile.TemporaryDirectory() as folder:
        plan = plan_fleet(entries, spec, Path(folder), radio)
        outcome = FleetOutcome.of(plan, drive_fleet(plan, 120.0, trace=True))
    east, north = (np.array(each.trace) for each in outcome.vehicles)
    count = min(len(east), len(north))
    apart = np.hypot(*(east[:count, 1:3] - north[:count, 1:3]).T)
    return (
        any(each.contacts for each in outcome.vehicles),
        bool(east[-1, 1] > PASSED_M and north[-1, 2] > PASSED_M),
        float(apart.min()),
    )


def main() -> None:
    """Run the benchmark and print its results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seeds", type=int, default=6, help="number of drives (default 6)")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result: dict[str, dict[str, float]] = {}
    for name, overrides in VARIANTS.items():
        drives = [drive(overrides, seed) for seed in range(1, arguments.seeds + 1)]
        contacts, passed, apart_m = zip(*drives, strict=True)
        result[name] = {
            "drives": len(drives),
            "contacts": sum(contacts),
            "passed": sum(passed),
            "apart_m": min(apart_m),
        }
        if not arguments.json:
            row = "  ".join(f"{key} {value:.3g}" for key, value in result[name].items())
            print(f"lost: {name:<22} {row}", flush=True)
    if arguments.json:
        print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
