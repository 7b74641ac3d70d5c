"""Compare two reference models of one vehicle on the same commands, beside the limits of ``vehicled
twin validate``.

    python bench/reference_spread.py DIR [--json]

Of each pair of runs of one vehicle and one manoeuvre by two models of a family (CommonRoad mb and
std, slipx l1 and l2): the figures of the second against the first, in the scales and up to the
limits of the validation. Nothing is simulated.
"""

import argparse
import json
import sys
from collections import defaultdict
from itertools import combinations
from pathlib import Path
from statistics import median

import numpy as np
from msgspec.structs import replace

from sim_backend.plant.twin_file import load_twin
from vehicled.core.arrays import Array, rms
from vehicled.offline.twin.validation.manoeuvre import traits_of
from vehicled.offline.twin.validation.metrics import ModelDrive, deviations, judged_rows
from vehicled.offline.twin.validation.reference import ReferenceRun, find, read
from vehicled.offline.twin.validation.targets import target_of
from vehicled.run.terminal import print_table

FIGURES = ("position", "speed", "yaw rate", "lateral speed")


def as_drive(run: ReferenceRun, t_s: Array) -> ModelDrive:
    """Return a reference run as a drive at other times, with the body of our vehicle."""
    parameters = load_twin(run.source.twin).parameters
    last = int(np.searchsorted(t_s, run.t_s[-1] + 1e-9, side="right"))

    def of(column: Array, times: Array = run.t_s) -> Array:
        return np.interp(t_s[:last], times, column)

    radii = np.repeat((parameters.front.rolling_radius_m, parameters.rear.rolling_radius_m), 2)[
        :, np.newaxis
    ]
    nothing = np.zeros((4, last))
    return ModelDrive(
        of(run.x_m), of(run.y_m), of(run.yaw_rad), of(run.vx_mps), of(run.vy_mps),
        of(run.yaw_rate_radps), np.zeros(last), of(run.steer, run.command_t_s), parameters.body,
        nothing, nothing, radii, 1.0,
    )  # fmt: skip


def compared(first: ReferenceRun, second: ReferenceRun) -> dict[str, tuple[float, float]]:
    """Return the second's error against the first and its limit by figure, for figures that are
    judged."""
    drive = as_drive(second, first.t_s)
    rows = judged_rows(first, drive).rows
    errors = deviations(replace(first, wheel_radps=None, load_n=None, roll_rad=None), drive, rows)
    peak = float(np.abs(first.lateral_acceleration_mps2).max())
    source = first.source
    target = target_of(source.family, source.vehicle, source.model, traits_of(first), peak)
    return {
        name: (rms(errors[name]), target.limits[name])
        for name in FIGURES
        if name in errors and name in target.limits
    }


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    same = defaultdict(list)
    for source in find(arguments.folder).sources:
        same[source.family, source.vehicle, source.manoeuvre].append(source)
    runs: dict[str, list[dict[str, tuple[float, float]]]] = defaultdict(list)
    for sources in same.values():
        for first, second in combinations(sources, 2):
            pair = f"{first.family} {first.model} {second.model}"
            runs[pair].append(compared(read(first), read(second)))
    found: dict[str, dict[str, float]] = {}
    for pair, each in runs.items():
        for name in FIGURES:
            values = [run[name] for run in each if name in run]
            if values:
                found[f"{pair} {name}"] = {
                    "runs": len(values), "median_pct": median(error for error, _ in values),
                    "worst_pct": max(error for error, _ in values),
                    "limit_pct": median(limit for _, limit in values),
                    "ratio": median(error / limit for error, limit in values),
                }  # fmt: skip
    if arguments.json:
        print(json.dumps(found))
        return 0
    rows = [
        (
            name,
            str(row["runs"]),
            *(f"{row[key]:.2g} %" for key in ("median_pct", "worst_pct", "limit_pct")),
            f"{row['ratio']:.2g}",
        )
        for name, row in found.items()
    ]
    print_table(
        "two references of one vehicle",
        ("", "runs", "median", "worst", "limit", "over the limit, median"),
        rows,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
