"""Distance of GNSS models from a real receiver: recorded laps against the same laps with a simulated receiver, under three judges.

    python bench/sensor_models.py [--data ~/vehicled/data/lot17_rtk_gps_2023] [--kind plain] [--runs 2] [--jobs 2] [--json]

Each recorded run with its truth apart is simulated again with every model: the published five of VEPD, and the one that
``vehicled sensors fit`` finds in the other half of the runs, so that no run is judged by a model that saw it. Everything but the
fixes stays as recorded. The judges are ``ekf4``, ``planar`` and the filter of robot_localization with the parameter file of
docs/gap.md. The published quantities E and S count, and VEPD is their mean distance; the error of the position is beside them.
Without the recordings it says so and ends with status 0.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from vehicled.lab.sensors import model, positions
from vehicled.lab.sensors.reading import read
from vehicled.lab.sensors.simulate import simulated
from vehicled.profile import load_profile
from vehicled.reality_gap.gap import compare_sets
from vehicled.reality_gap.making import make_judge
from vehicled.reality_gap.runs import JudgedRun, RunSet, judge_run
from vehicled.recordings.loading import sources
from vehicled.recordings.public_data import DATA_FOLDER
from vehicled.recordings.recording import Recording

PUBLISHED = ("gauss", "random_walk", "airsim", "gauss_airsim", "random_walk_airsim")
FITTED = "fitted"
JUDGES = ("ekf4", "planar", "robot_localization")
QUANTITIES = (("E", "S"), ("position",))
MANUAL = Path(__file__).parents[1] / "docs" / "gap.md"


class Job(NamedTuple):
    """One recorded run, judged as it is (no model) or simulated."""

    path: Path
    kind: str
    model: str
    settings: tuple[str, ...]
    seed: int
    judge: str


def judged(job: Job) -> tuple[str, str, JudgedRun]:
    """Judge one run."""
    recording = of(job.path, job.kind)
    if job.model:
        profile = load_profile("art", [f"sim.gnss.model={job.model}", *job.settings])
        # The recorded receivers count from their own first position.
        recording = replace(recording, inputs=simulated(recording, profile, ("gnss",), job.seed, from_first_fix=True))
    label = "real" if not job.model else FITTED if job.settings else job.model
    return job.judge, label, judge_run(recording, make_judge(job.judge), "")


def of(path: Path, kind: str) -> Recording:
    """Return the recording of a file."""
    return sources(path)[0].load((kind,))[0]


def fitted(files: Sequence[Path], kind: str) -> tuple[str, ...]:
    """Return the settings of a receiver fitted to files."""
    values = model.of_positions(positions.fit(read(files, (kind,))))
    return tuple(f"{key}={value}" for key, value in values.items() if key.startswith("sim.gnss.recorded."))


def main() -> None:
    """Simulate, judge, compare and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", type=Path, default=Path(DATA_FOLDER).expanduser() / "lot17_rtk_gps_2023")
    parser.add_argument("--kind", default="plain")
    parser.add_argument("--runs", type=int, default=2, help="simulated runs per recorded one and model")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if not arguments.data.is_dir():
        sys.stdout.write(f"skipped: no recordings in {arguments.data}: vehicled data fetch lot17_rtk_gps_2023\n")
        return
    files = sorted(source.path for source in sources(arguments.data) if source.load((arguments.kind,)))
    halves = files[0::2], files[1::2]
    settings = {file: fitted(halves[1 - k], arguments.kind) for k in (0, 1) for file in halves[k]}
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(arguments.jobs) as pool:
        yaml = Path(folder) / "ekf.yaml"
        yaml.write_text(MANUAL.read_text(encoding="utf-8").split("```yaml\n")[1].split("```")[0], encoding="utf-8")
        judges = [f"{judge}={yaml}" if judge == JUDGES[2] else judge for judge in JUDGES]
        seeds = range(1, arguments.runs + 1)
        jobs = [Job(file, arguments.kind, "", (), 0, judge) for judge in judges for file in files]
        jobs += [
            Job(file, arguments.kind, *which, seed, judge)
            for judge in judges
            for file in files
            for which in [*((name, ()) for name in PUBLISHED), ("recorded", settings[file])]
            for seed in seeds
        ]
        sets: dict[str, dict[str, RunSet]] = {}
        for number, (judge, label, run) in enumerate(pool.map(judged, jobs, chunksize=4), start=1):
            sets.setdefault(judge.partition("=")[0], {}).setdefault(label, RunSet(label, [])).runs.append(run)
            if sys.stderr.isatty():
                sys.stderr.write(f"\r{number} of {len(jobs)} runs judged")
    rows: list[dict[str, Any]] = []
    for judge, by_label in sets.items():
        real = by_label.pop("real")
        for names in QUANTITIES:
            found = compare_sets(real, list(by_label.values()), quantities=names, judge=judge)
            for each in found.models:
                whole = each.manoeuvres["all"]
                rows.append(
                    {
                        "judge": judge,
                        "quantities": "+".join(names),
                        "model": each.simulated.label,
                        "distance": whole.total,
                        "interval": [whole.interval.low, whole.interval.high],
                        "floors": whole.floors,
                        "p": whole.p,
                    }
                )
    if arguments.json:
        print(json.dumps({"runs": len(files), "rows": rows}, indent=2))
        return
    print(f"\n{len(files)} recorded runs; the fitted model never saw the run that it simulates")
    for names in QUANTITIES:
        text = "+".join(names)
        orders = []
        for judge in sets:
            mine = [row for row in rows if row["judge"] == judge and row["quantities"] == text]
            mine.sort(key=lambda row: float(row["distance"]))
            print(f"{text}, judge {judge}")
            for row in mine:
                low, high = row["interval"]
                span = f"({low:.4f} to {high:.4f})"
                print(f"  {row['model']:20} {row['distance']:.4f}  {span}  {row['floors']:5.1f} floors  p {row['p']:.3f}")
            orders.append([row["model"] for row in mine])
        same = all(order == orders[0] for order in orders)
        print(f"{text}: the order is {'the same' if same else 'not the same'} under all judges")


if __name__ == "__main__":
    main()
