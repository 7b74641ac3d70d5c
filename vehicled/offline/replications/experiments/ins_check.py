"""Is the speed of an INS good enough to judge by? Straight drives of a known length, as in Mahajan
et al. 2024.

Each drive begins and ends at rest. Its mean speed is its length over its time, whatever the INS
says; the mean speed of the INS must not differ by more than .03 m/s. The same drives judge the
speed of the estimator `ins`, which has accelerometer, gyro and GNSS.

Logs of your vehicle need an INS as the truth (docs/devices.md) and --length, the distance between
the marks. Without logs the vehicle drives in simulation, with the reference of [sim.reference]; the
simulator's truth is then the tape. A second call drives what is missing.
"""

from argparse import Namespace
from collections.abc import Sequence
from math import hypot, nan, sqrt
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from vehicled.core.arrays import Array
from vehicled.core.errors import SetupError
from vehicled.offline.gap.errors import GapError
from vehicled.offline.gap.making import make_judge
from vehicled.offline.gap.runs import judge_run
from vehicled.offline.recordings import mcap
from vehicled.offline.replications.experiments.common import (
    ExperimentConsole,
    add_drives,
    check_drives,
    driven,
    on_terminal,
)
from vehicled.offline.sensors.truth import Series, read
from vehicled.offline.studies.logs import logs_of
from vehicled.run.command_line import CommandParser

LIMIT_MPS = 0.03
"""Largest difference that the publication found in its 20 drives."""
MOVING_MPS = 0.1
REST_S = 0.5
"""Longest time at rest that is counted at both ends, so that starting and stopping are whole."""
STRAIGHT = 0.03
"""Largest distance from the straight line over the length of the drive."""
REFERENCE = {
    "devices.ins.driver.name": "sbg",
    "devices.ins.messages": ["ReferenceState"],
    "devices.ins.rate_hz": 50,
    "devices.ins.lever_arm_m": [0.2, 0.0, 0.25],
}


class StraightDrive(Struct, frozen=True):
    """One drive from rest to rest."""

    name: str
    time_s: float
    length_m: float
    """Distance between the ends by tape."""
    tape_mps: float
    """Mean speed by length and time."""
    ins_mps: float
    """Mean speed by the INS."""
    estimator_rms_mps: float
    """RMS error of the estimator against the truth of the log; NaN if it could not be judged."""

    @property
    def difference_mps(self) -> float:
        """Mean speed of the INS minus that by tape."""
        return self.ins_mps - self.tape_mps


def declare_experiment_ins_check(parser: CommandParser) -> None:
    """Declare the command."""
    parser.describe(__doc__ or "")
    parser.add_argument(
        "logs",
        nargs="*",
        metavar="LOG",
        help="logs of straight drives (default: drives in simulation)",
    )
    parser.add_argument(
        "--length",
        type=float,
        default=nan,
        metavar="M",
        help="measured length of the drives of the logs",
    )
    add_drives(parser, "ins_check", 20)
    parser.set_defaults(run=on_terminal(run))


def run(arguments: Namespace, console: ExperimentConsole) -> int:
    """Check and show; status 1 if a drive is beyond the limit. Raises SetupError, RecordingError,
    LogError and ProfileError."""
    check_drives(arguments)
    if arguments.logs and not arguments.length > 0.0:
        raise SetupError("--length M is needed with logs: the distance between the marks, by tape")
    logs = arguments.logs or drive(arguments, console)
    drives = []
    for number, (file, series) in enumerate(zip(logs, read(logs), strict=True), start=1):
        console.progress(f"{number} of {len(logs)} drives judged")
        drives.append(judge(Path(file), series, arguments.length))
    differences = np.array([each.difference_mps for each in drives])
    rms = float(np.sqrt(np.mean(differences**2)))
    worst = float(np.abs(differences).max())
    estimator = sqrt(float(np.nanmean([each.estimator_rms_mps**2 for each in drives])))
    if arguments.json:
        found: dict[str, Any] = {
            "drives": drives,
            "rms_mps": rms,
            "largest_mps": worst,
            "estimator_rms_mps": estimator,
        }
        console.text(msgspec.json.encode(found).decode())
    else:
        _show(drives, console)
        verdict = "within" if worst <= LIMIT_MPS else "beyond"
        console.text(
            f"mean speed of the INS: off by {rms:.4f} m/s RMS, {worst:.4f} at most: {verdict} "
            f"the published {LIMIT_MPS} m/s"
        )
        console.text(f"speed of the estimator ins: off by {estimator:.4f} m/s RMS")
    return int(worst > LIMIT_MPS)


def drive(arguments: Namespace, console: ExperimentConsole) -> list[str]:
    """Drive what is missing in simulation; return the logs. Raises StudyError."""
    content = {"course": "straight_20m", "duration_s": 100, "set": REFERENCE}
    return logs_of(driven(arguments, console, Path(arguments.output), "ins_check", **content), {})


def judge(file: Path, series: Series, length_m: float) -> StraightDrive:
    """Compare one drive with the tape: ``length_m``, or the truth of a simulator. Raises SetupError
    if it is not straight."""
    speed, t = series.speed_mps, series.t_s
    moving = np.flatnonzero(speed > MOVING_MPS)
    if not len(moving) or moving[0] == 0 or moving[-1] == len(t) - 1:
        raise SetupError(
            f"{file}: does not begin and end at rest; log from before the start until after "
            "the stop"
        )
    start = max(float(t[moving[0]]) - REST_S, float(t[0]))
    end = min(float(t[moving[-1]]) + REST_S, float(t[-1]))
    _check_straight(file, series)
    recording = mcap.load(file, file.stem)
    if not length_m > 0.0:
        truth = recording.truth
        length_m = hypot(*(_span(values) for values in (truth.x_m, truth.y_m)))
    inside = (t >= start) & (t <= end)
    ins_mps = float(np.trapezoid(speed[inside], t[inside])) / (end - start)
    try:
        error = judge_run(recording, make_judge("ins")).measured.values["E"]
    except GapError:
        error = nan
    return StraightDrive(file.stem, end - start, length_m, length_m / (end - start), ins_mps, error)


def _span(values: Array) -> float:
    known = values[np.isfinite(values)]
    return float(known[-1] - known[0])


def _check_straight(file: Path, series: Series) -> None:
    east, north = series.x_m - series.x_m[0], series.y_m - series.y_m[0]
    length = hypot(float(east[-1]), float(north[-1]))
    off = np.abs(east * north[-1] - north * east[-1]).max() / length if length > 1.0 else np.inf
    if not off < STRAIGHT * length:
        raise SetupError(
            f"{file}: is {off:.2f} m off the straight line between its ends; give straight drives"
        )


def _show(drives: Sequence[StraightDrive], console: ExperimentConsole) -> None:
    rows = [
        [each.name, f"{each.time_s:.2f}", f"{each.length_m:.2f}", f"{each.tape_mps:.4f}",
         f"{each.ins_mps:.4f}",
         f"{each.difference_mps:+.4f}", f"{each.estimator_rms_mps:.4f}"]
        for each in drives
    ]  # fmt: skip
    columns = ["drive", "s", "m", "by tape, m/s", "by INS, m/s", "difference", "ins, RMS"]
    console.table(f"{len(drives)} straight drives: mean speed", columns, rows)
