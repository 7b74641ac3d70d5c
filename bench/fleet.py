"""Speed of a fleet in lockstep relative to real time, by the number of vehicles.

    python bench/fleet.py [--vehicles 1 3 10] [--seconds 10] [--scanner] [--cpus 0,1] [--json]

Each vehicle is ``art`` on a circle of 25 m radius, 8 m behind the one before, with a daemon in a
process of its own. Start and end of the processes do not count: the factor is that of the simulated
time between the first and the last report of the simulator. ``same`` says whether a second run gave
the same digest. With ``--scanner`` every vehicle has a laser scanner, and sees the others.
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

from sim_backend.fleet.order import FleetProgress
from vehicled.run.fleet import FleetEntry, plan_fleet
from vehicled.run.fleet_processes import drive_fleet
from vehicled.run.fleet_result import FleetOutcome
from vehicled.run.spec import RunSpec

APART_M = 8.0
SCANNER = [
    "devices.scanner.driver=msglink", 'devices.scanner.messages=["LaserScan"]',
    "devices.scanner.rate_hz=20", "devices.scanner.lever_arm_m=[0.45, 0.0, 0.15]",
]  # fmt: skip


def measured(count: int, seconds: float, overrides: list[str]) -> tuple[float, str]:
    """Drive a fleet; return its real-time factor and its digest."""
    entries = [
        FleetEntry(name=f"v{k}", from_m=k * APART_M, course="circle_r25_ccw", set=overrides)
        for k in range(count)
    ]
    spec = RunSpec(profile="art", duration_s=seconds, log_folder=None, seed=7)
    reached: list[tuple[float, float]] = []

    def note(news: FleetProgress) -> None:
        reached.append((time.monotonic(), news.time_s))

    with tempfile.TemporaryDirectory() as folder:
        plan = plan_fleet(entries, spec, Path(folder))
        end = drive_fleet(plan, 60.0, progress=note)
    (first_s, from_s), (last_s, to_s) = reached[0], reached[-1]
    return (to_s - from_s) / (last_s - first_s), FleetOutcome.of(plan, end).digest


def main() -> None:
    """Run the benchmark and print its results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--vehicles", type=int, nargs="+", default=[1, 3, 10])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--scanner", action="store_true")
    parser.add_argument(
        "--cpus", default="0,1", help="processors to use, comma separated (default 0,1)"
    )
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(cpu) for cpu in arguments.cpus.split(",")})
    overrides = SCANNER if arguments.scanner else []
    result = {}
    for count in arguments.vehicles:
        runs = [measured(count, arguments.seconds, overrides) for _ in range(2)]
        result[str(count)] = {
            "factor": max(factor for factor, _ in runs),
            "same": runs[0][1] == runs[1][1] != "",
        }
    if arguments.json:
        print(json.dumps(result, indent=2))
        return
    for text, row in result.items():
        same = "the same digest twice" if row["same"] else "DIGESTS DIFFER"
        print(f"{text:>3} vehicles  {row['factor']:6.2f} x real time  {same}")


if __name__ == "__main__":
    main()
