"""Command ``vehicled bench recorded``: run an estimator over recorded drives and print its errors."""

import sys
from argparse import Namespace
from pathlib import Path

import msgspec

from vehicled.core.messages import FIXED_SIGMA_LIMIT_M
from vehicled.offline.recordings.benchmark import BenchmarkTask, chosen, default_identifier, run_all
from vehicled.offline.recordings.errors import RecordingError
from vehicled.offline.recordings.public_data import data_folder
from vehicled.offline.recordings.report import overall, sheets
from vehicled.offline.recordings.scores import Score
from vehicled.profile import load_profile
from vehicled.profile.registry import resolve
from vehicled.run.output import check_plot_file
from vehicled.run.terminal import Progress, print_table

CALIBRATION_FOLDS = 4


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
        raise RecordingError(f"{folder}: none of its {len(found)} recordings is of kind {', '.join(task.kinds)}")
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
