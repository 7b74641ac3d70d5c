"""Command ``vehicled bench recorded``: run an estimator over recorded drives and print its
errors."""

import sys
from argparse import Namespace
from pathlib import Path

import msgspec

from vehicled.core.messages import FIXED_SIGMA_LIMIT_M
from vehicled.offline.recordings.benchmark import BenchmarkTask, chosen, default_identifier, run_all
from vehicled.offline.recordings.errors import RecordingError
from vehicled.offline.recordings.loading import KIND
from vehicled.offline.recordings.public_data import data_folder
from vehicled.offline.recordings.report import overall, sheets
from vehicled.offline.recordings.scores import Score
from vehicled.profile import load_profile
from vehicled.profile.registry import resolve
from vehicled.run.argument_types import ESTIMATOR, IDENTIFIER, KEY, PROFILE, TEXT, between
from vehicled.run.command_line import CommandParser
from vehicled.run.output import check_plot_file
from vehicled.run.terminal import Progress, print_table

CALIBRATION_FOLDS = 4
_RATE = between(1.0, 1000.0, "expected a rate from 1 to 1000 Hz")
_OUTAGE = between(0.0, 1e6, "expected a number of seconds up to 1e6, or 0 for none")


def declare_bench_recorded(parser: CommandParser) -> None:
    """Run an estimator over recorded drives: CSV files of the ART car, logs, ROS bags. Compare with
    truth."""
    parser.add_argument(
        "folder",
        nargs="?",
        metavar="DIR",
        help="file or folder (default ~/vehicled/data, filled by vehicled data fetch)",
    )
    parser.add_argument(
        "--estimator",
        type=ESTIMATOR,
        default="ekf4",
        metavar="NAME",
        help="estimator (default ekf4)",
    )
    parser.add_argument(
        "--identifier",
        type=IDENTIFIER,
        metavar="NAME",
        help="parameter identifier to run beside it, or none (default: the first)",
    )
    parser.add_argument(
        "--set",
        type=KEY,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="set a parameter: estimator.KEY or identifier.KEY; repeatable",
    )
    parser.add_argument(
        "--kind",
        type=KIND,
        action="append",
        default=[],
        metavar="KIND",
        help="only recordings of this kind: mocap, rtk, plain, plain_start, path, ...; repeatable",
    )
    parser.add_argument(
        "--only",
        type=TEXT,
        default="",
        metavar="NAME",
        help="only recordings whose name contains NAME",
    )
    parser.add_argument(
        "--rate",
        type=_RATE,
        metavar="HZ",
        help="also step the estimator at this rate between the rows",
    )
    parser.add_argument(
        "--outage",
        type=_OUTAGE,
        default=3.7,
        metavar="S",
        help="simulate an RTK outage of S seconds every 15 s; 0: none (default 3.7)",
    )
    parser.add_argument(
        "--calibrated",
        action="store_true",
        help=(
            "run planar on each recording with the constants that vehicled estimator calibrate "
            "finds in others of its kind"
        ),
    )
    parser.add_argument(
        "--profile",
        type=PROFILE,
        default="art_published",
        metavar="P",
        help="profile of the vehicle for CSV files and ROS bags (default art_published)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--plot",
        metavar="PNG",
        help="plot the recording, or an overview of several, into this file",
    )
    parser.set_defaults(run=recorded)


def recorded(arguments: Namespace) -> int:
    """Run an estimator over recordings and print its errors."""
    identifier = default_identifier() if arguments.identifier is None else arguments.identifier
    task = BenchmarkTask(
        estimator=arguments.estimator,
        identifier=None if identifier == "none" else identifier,
        overrides=tuple(arguments.set),
        kinds=tuple(arguments.kind),
        only=arguments.only,
        period_ns=round(1e9 / arguments.rate) if arguments.rate else 0,
        outage_s=arguments.outage,
        folds=CALIBRATION_FOLDS if arguments.calibrated else 0,
    )
    if arguments.plot:
        check_plot_file(Path(arguments.plot))
    # Check the names before minutes of computation.
    resolve("estimator", task.estimator)
    if task.identifier is not None:
        resolve("identifier", task.identifier)
    folder = data_folder(arguments.folder, "lot17_rtk_gps_2023", "mocap_ekf_mpc_2023")
    found = chosen(folder, task, load_profile(arguments.profile).vehicle)
    progress = Progress()
    scores: list[Score] = []
    untrue: list[str] = []
    last = None
    try:
        for recording, track, score in run_all(found, task, progress.update):
            scores.append(score)
            if not recording.truth.known:
                untrue.append(recording.name)
            last = recording, track, score
    finally:
        progress.close()
    for name in untrue:
        limit = f"no RTK fixed positions whose stated error is within {FIXED_SIGMA_LIMIT_M} m"
        print(f"{name}: nothing to judge by: {limit}, and no other reference", file=sys.stderr)
    if last is None:
        raise RecordingError(
            f"{folder}: none of its {len(found)} recordings is of kind {', '.join(task.kinds)}"
        )
    if arguments.plot:
        from vehicled.offline.recordings.plots import plot_overview, plot_track

        if len(scores) == 1:
            plot_track(*last, arguments.plot)
        else:
            plot_overview(scores, arguments.plot)
    if arguments.json:
        print(msgspec.json.encode({"recordings": scores, "overall": overall(scores)}).decode())
        return 0
    for sheet in sheets(scores):
        print_table(sheet.title, sheet.columns, sheet.rows)
    print(f"{len(scores)} recordings in {progress.elapsed_s:.0f} s", file=sys.stderr)
    return 0
