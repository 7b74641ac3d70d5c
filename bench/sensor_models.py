"""Distance of sensor models from real sensors: recorded runs against the same runs with a simulated
sensor, under three judges.

    python bench/sensor_models.py [--data ~/vehicled/data] [--set lot17 mocap] [--judge ekf4]
        [--model fitted] [--json FILE]

Each recorded run is simulated again with every model. All but that sensor stays as recorded.
``fitted``, ``gauss, fitted`` and ``walk, fitted`` have the numbers that ``vehicled sensors fit``
finds in the other half of the runs, so that no run is judged by a model that saw it. The judges are
``ekf4``, ``planar`` and the filter of robot_localization with the parameter file of docs/gap.md.
Distances are VEPD of E and S, and that of the error of the position. The last lines show how far
the orders of the published models agree between sets, manoeuvres and judges (Kendall's tau).
Recordings that are not there are named, and left out; without any the status is 0.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import kendalltau

from vehicled.offline.gap.gap import compare_sets
from vehicled.offline.gap.making import make_judge
from vehicled.offline.gap.runs import JudgedRun, RunSet, judge_run
from vehicled.offline.recordings.loading import sources
from vehicled.offline.recordings.public_data import DATA_FOLDER
from vehicled.offline.recordings.recording import Recording
from vehicled.offline.sensors import model, positions
from vehicled.offline.sensors.reading import read
from vehicled.offline.sensors.simulate import simulated
from vehicled.profile import load_profile

PUBLISHED = ("gauss", "random_walk", "airsim", "gauss_airsim", "random_walk_airsim")
FITTED = {"fitted": "recorded", "gauss, fitted": "gauss", "walk, fitted": "random_walk"}
JUDGES = ("ekf4", "planar", "robot_localization")
QUANTITIES = (("E", "S"), ("position",))
MANUAL = Path(__file__).parents[1] / "docs" / "gap.md"


class DataSet(NamedTuple):
    """Recorded runs whose truth comes from another sensor than their fixes."""

    folder: str
    kind: str
    from_first_fix: bool
    """True if the recorded error begins at zero: that of a walk that somebody added to motion
    capture."""


SETS = {
    "lot17": DataSet("lot17_rtk_gps_2023", "plain", from_first_fix=False),
    "mocap": DataSet("mocap_ekf_mpc_2023", "mocap", from_first_fix=True),
}


class Job(NamedTuple):
    """One recorded run, judged as it is (no settings) or simulated."""

    data: str
    path: Path
    label: str
    settings: tuple[str, ...]
    seed: int
    judge: str


def judged(job: Job) -> tuple[str, str, str, JudgedRun]:
    """Judge one run."""
    which = SETS[job.data]
    recording = of(job.path, which.kind)
    if job.settings:
        profile = load_profile("art", list(job.settings))
        inputs = simulated(
            recording, profile, ("gnss",), job.seed, from_first_fix=which.from_first_fix
        )
        recording = replace(recording, inputs=inputs)
    return (
        job.data,
        job.judge.partition("=")[0],
        job.label,
        judge_run(recording, make_judge(job.judge), job.path.parent.name),
    )


def of(path: Path, kind: str) -> Recording:
    """Return the recording of a file."""
    return sources(path)[0].load((kind,))[0]


def fitted(files: Sequence[Path], kind: str) -> dict[str, tuple[str, ...]]:
    """Return the settings of the models fitted to files, by their names here."""
    values = model.of_positions(positions.fit(read(files, (kind,))))
    found = {}
    for label, name in FITTED.items():
        keys = [f"sim.gnss.{key}" for key in ("hdop", "vdop", "covariance", "user_range_error_m")]
        keys += [key for key in values if key.startswith(f"sim.gnss.{name}.")]
        found[label] = (
            f"sim.gnss.model={name}",
            *(f"{key}={values[key]}" for key in keys if key in values),
        )
    return found


def jobs_of(
    data: str, root: Path, judges: Sequence[str], labels: Sequence[str], runs: int
) -> list[Job]:
    """Return all runs of a set to be judged."""
    which = SETS[data]
    files = sorted(
        source.path for source in sources(root / which.folder) if source.load((which.kind,))
    )
    halves = files[0::2], files[1::2]
    other = [fitted(halves[1 - k], which.kind) for k in (0, 1)]
    settings = {file: other[k] for k in (0, 1) for file in halves[k]}
    found = []
    for file in files:
        models = {name: (f"sim.gnss.model={name}",) for name in PUBLISHED} | settings[file]
        models = {label: models[label] for label in labels}
        found += [Job(data, file, "real", (), 0, judge) for judge in judges]
        found += [
            Job(data, file, label, given, seed, judge)
            for judge in judges
            for label, given in models.items()
            for seed in range(1, runs + 1)
        ]
    return found


def rows_of(data: str, judge: str, by_label: dict[str, RunSet]) -> list[dict[str, Any]]:
    """Return a row for each model, choice of quantities and manoeuvre."""
    real, rows = by_label["real"], []
    others = [each for label, each in by_label.items() if label != "real"]
    for names in QUANTITIES:
        for each in compare_sets(real, others, quantities=names, judge=judge).models:
            for manoeuvre, found in each.manoeuvres.items():
                rows.append(
                    {
                        "set": data,
                        "judge": judge,
                        "quantities": "+".join(names),
                        "manoeuvre": manoeuvre,
                        "model": each.simulated.label,
                        "distance": found.total,
                        "interval": [found.interval.low, found.interval.high],
                        "floors": found.floors,
                        "p": found.p,
                    }
                )
    return rows


def order_of(
    rows: Sequence[dict[str, Any]], names: Sequence[str]
) -> dict[tuple[str, ...], list[float]]:
    """Return the distances of models by set, manoeuvre and judge."""
    found: dict[tuple[str, ...], dict[str, float]] = {}
    for row in rows:
        if row["model"] in names:
            key = (row["set"], row["manoeuvre"], row["judge"])
            found.setdefault(key, {})[row["model"]] = row["distance"]
    return {key: [by_model[name] for name in names] for key, by_model in found.items()}


def agreement(rows: Sequence[dict[str, Any]]) -> None:
    """Print how far the orders agree if one thing changes: judge, manoeuvre, set."""
    for quantities in dict.fromkeys(row["quantities"] for row in rows):
        orders = order_of([row for row in rows if row["quantities"] == quantities], PUBLISHED)
        for place, what in enumerate(("set", "manoeuvre", "judge")):
            pairs = [
                float(kendalltau(orders[a], orders[b]).statistic)
                for a, b in combinations(orders, 2)
                if all((a[k] == b[k]) != (k == place) for k in range(3))
                and (place == 1 or a[1] == "all")
                if place != 1 or "all" not in (a[1], b[1])
            ]
            if pairs:
                text = f"{np.mean(pairs):+.2f} (least {min(pairs):+.2f}, {len(pairs)} pairs)"
                print(
                    f"{quantities}: Kendall's tau of the published models' orders, if the "
                    f"{what} changes: {text}"
                )
        firsts = {
            PUBLISHED[int(np.argmin(found))] for key, found in orders.items() if key[1] == "all"
        }
        print(f"{quantities}: nearest of the published models: {', '.join(sorted(firsts))}")


def main() -> None:
    """Simulate, judge, compare and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", type=Path, default=Path(DATA_FOLDER).expanduser())
    parser.add_argument("--set", nargs="+", choices=tuple(SETS), default=list(SETS))
    parser.add_argument("--judge", nargs="+", choices=JUDGES, default=list(JUDGES))
    parser.add_argument(
        "--model", nargs="+", choices=(*PUBLISHED, *FITTED), default=[*PUBLISHED, *FITTED]
    )
    parser.add_argument(
        "--runs", type=int, default=1, help="simulated runs per recorded one and model"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", type=Path, help="write all rows")
    arguments = parser.parse_args()
    there = [name for name in arguments.set if (arguments.data / SETS[name].folder).is_dir()]
    for name in sorted({*arguments.set} - {*there}):
        sys.stdout.write(
            f"skipped: no {arguments.data / SETS[name].folder}: vehicled data fetch "
            f"{SETS[name].folder}\n"
        )
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(arguments.jobs) as pool:
        yaml = Path(folder) / "ekf.yaml"
        yaml.write_text(
            MANUAL.read_text(encoding="utf-8").split("```yaml\n")[1].split("```")[0],
            encoding="utf-8",
        )
        judges = [f"{judge}={yaml}" if judge == JUDGES[2] else judge for judge in arguments.judge]
        jobs = [
            job
            for name in there
            for job in jobs_of(name, arguments.data, judges, arguments.model, arguments.runs)
        ]
        sets: dict[tuple[str, str], dict[str, RunSet]] = {}
        for number, (data, judge, label, run) in enumerate(
            pool.map(judged, jobs, chunksize=4), start=1
        ):
            sets.setdefault((data, judge), {}).setdefault(label, RunSet(label, [])).runs.append(run)
            if sys.stderr.isatty() or number % 50 == 0:
                sys.stderr.write(f"\r{number} of {len(jobs)} runs judged")
    rows = [
        row for (data, judge), by_label in sets.items() for row in rows_of(data, judge, by_label)
    ]
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    for data, names in ((data, "+".join(names)) for data in there for names in QUANTITIES):
        for manoeuvre in dict.fromkeys(row["manoeuvre"] for row in rows if row["set"] == data):
            print(f"\n{data}, {manoeuvre}, {names}: distance (95 %) in floors, p")
            mine = [
                row
                for row in rows
                if (row["set"], row["quantities"], row["manoeuvre"]) == (data, names, manoeuvre)
            ]
            for label in dict.fromkeys(row["model"] for row in mine):
                cells = []
                for row in (row for row in mine if row["model"] == label):
                    low, high = row["interval"]
                    cells.append(
                        f"{row['distance']:.3f} ({low:.3f}-{high:.3f}) {row['floors']:5.1f} p "
                        f"{row['p']:.3f}"
                    )
                print(f"  {label:20} " + "   ".join(cells))
    if rows and {*PUBLISHED} <= {*arguments.model}:
        agreement(rows)


if __name__ == "__main__":
    main()
