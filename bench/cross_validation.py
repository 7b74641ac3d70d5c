"""Constants of ``planar`` for the error of plain GNSS, chosen on some campaigns and judged on the
others.

    python bench/cross_validation.py [--data ~/vehicled/data] [--json]

A campaign is a folder of laps (``single_speed``, ``multi_speed``). Each set of constants runs on
every lap, with a known and with an unknown start. On the laps of all campaigns but one the set is
chosen whose mean ratio of position error to that of the receiver is least, and the set whose worst
ratio is least. Each is judged on the campaign that was left out, beside the defaults.
"""

import argparse
import json
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from statistics import mean

from vehicled.offline.recordings.benchmark import BenchmarkTask, chosen, run_all
from vehicled.offline.recordings.errors import RecordingError
from vehicled.offline.recordings.public_data import DATA_FOLDER
from vehicled.offline.recordings.report import to_raw
from vehicled.run.terminal import Progress, print_table

FOLDER = "lot17_rtk_gps_2023"
KINDS = ("plain", "plain_start")
WALKS_M = (0.15, 0.22, 0.3, 0.4)
DAMPINGS = (0.5, 0.7, 1.0)
DEFAULT = "defaults"
RULES: dict[str, Callable[[list[float]], float]] = {"least mean": mean, "least worst": max}

Ratios = dict[tuple[str, str, str], float]
"""Error over that of the receiver by campaign, lap and kind."""


def measured(data: str, overrides: tuple[str, ...], progress: Progress, label: str) -> Ratios:
    """Run planar with these constants on all laps. Raises RecordingError."""
    task = BenchmarkTask(estimator="planar", overrides=overrides, kinds=KINDS)
    ratios: Ratios = {}
    for _, _, score in run_all(
        chosen(f"{data}/{FOLDER}", task), task, lambda text: progress.update(f"{label}: {text}")
    ):
        ratio = to_raw(score)
        assert ratio is not None
        ratios[score.name.split("/")[-2], score.name, score.kind] = ratio
    return ratios


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default=str(Path(DATA_FOLDER).expanduser()))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    sets: dict[str, tuple[str, ...]] = {DEFAULT: ()} | {
        f"walk {walk:g} m, damping {damping:g}": (
            f"estimator.error_walk_m={walk}",
            f"estimator.error_damping={damping}",
        )
        for walk, damping in product(WALKS_M, DAMPINGS)
    }
    progress = Progress()
    try:
        all_ratios = {
            name: measured(arguments.data, overrides, progress, name)
            for name, overrides in sets.items()
        }
    except RecordingError as error:
        print(f"skipped: {error}; vehicled data fetch {FOLDER}", file=sys.stderr)
        return 0
    finally:
        progress.close()
    rows, results = [], {}
    for campaign in sorted({key[0] for key in all_ratios[DEFAULT]}):
        choices = {DEFAULT: DEFAULT}
        for rule, figure in RULES.items():
            choices[rule] = min(
                sets,
                key=lambda name: figure(
                    [r for key, r in all_ratios[name].items() if key[0] != campaign]
                ),
            )
        for rule, name in choices.items():
            judged = {
                kind: [
                    r
                    for key, r in all_ratios[name].items()
                    if key[0] == campaign and key[2] == kind
                ]
                for kind in KINDS
            }
            figures = [
                figure for kind in KINDS for figure in (mean(judged[kind]), max(judged[kind]))
            ]
            rows.append((campaign, rule, name, *(f"{figure:.3f}" for figure in figures)))
            keys = (f"{kind}_{part}" for kind in KINDS for part in ("mean", "worst"))
            results[f"{campaign}_{rule.replace(' ', '_')}"] = {"constants": name} | dict(
                zip(keys, figures, strict=True)
            )
    if arguments.json:
        print(json.dumps(results))
        return 0
    heads = (
        "judged on",
        "chosen on the others by",
        "constants",
        *(f"{kind}, {part}" for kind in KINDS for part in ("mean", "worst")),
    )
    print_table("planar with plain GNSS: position error over that of the receiver", heads, rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
