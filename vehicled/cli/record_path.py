"""Command ``vehicled record-path``: save the driven path of a log as a course."""

from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np

from vehicled.core.messages import EstimatorStatus, GroundTruth, StateEstimate
from vehicled.log.errors import LogError
from vehicled.log.reader import LogReader, run_parts
from vehicled.paths import gaps
from vehicled.paths.datum import Datum
from vehicled.paths.errors import CourseError
from vehicled.paths.formats import course_from_bytes
from vehicled.paths.recorded import recorded
from vehicled.paths.stored import datum_of
from vehicled.run.argument_types import LOG, between
from vehicled.run.command_line import CommandParser
from vehicled.run.log_names import LOG_HELP
from vehicled.run.output import check_output, write_output

_TIME = between(0.0, 1e6, "expected a number of seconds from 0 up")
_SPACING = between(0.02, 10.0, "expected a spacing from 0.02 to 10 m")
_SPEED = between(0.05, 100.0, "expected a speed from 0.05 to 100 m/s, or recorded")
COLUMNS = ("t_ns", "x_m", "y_m", "yaw_rad", "speed_mps")


def declare_record_path(parser: CommandParser) -> None:
    """Save the driven path of a log, manual or autonomous, as a course for --course: smoothed,
    evenly spaced, with the driven speed and any reverse legs, on the datum of the run.
    """
    parser.add_argument("file", type=LOG, metavar="RUN", help=LOG_HELP)
    parser.add_argument(
        "-o",
        "--output",
        metavar="CSV",
        help="course file (default: the log's name in this folder, with .csv)",
    )
    parser.add_argument(
        "--spacing",
        type=_SPACING,
        default=0.1,
        metavar="M",
        help="distance between waypoints (default 0.1)",
    )
    parser.add_argument(
        "--from", dest="from_s", type=_TIME, metavar="T", help="start at T seconds of the run"
    )
    parser.add_argument(
        "--to", dest="to_s", type=_TIME, metavar="T", help="stop at T seconds of the run"
    )
    parser.add_argument(
        "--speed",
        type=_speed,
        default=None,
        metavar="V",
        help="recorded (default), or a constant speed in m/s",
    )
    parser.add_argument(
        "--bridge-gaps",
        action="store_true",
        help="drive straight across stretches that the log lacks",
    )
    parser.add_argument(
        "--truth",
        action="store_true",
        help="use the simulator's ground truth instead of the estimate",
    )
    parser.set_defaults(run=record_path)


def _speed(text: str) -> float | None:
    return None if text == "recorded" else _SPEED(text)


def record_path(arguments: Namespace) -> int:
    """Write the course file."""
    source = Path(arguments.file)
    out = Path(arguments.output) if arguments.output else Path(f"{source.stem}.csv")
    if out.suffix.lower() != ".csv":
        raise CourseError(
            f"{out}: a recorded course is a CSV file: choose a name that ends in .csv"
        )
    check_output("--output", out)
    if out.exists():
        raise CourseError(f"{out}: exists already and is not overwritten: choose another name")
    datum, poses = _poses(source, truth=arguments.truth)
    poses = _between(poses, arguments.from_s, arguments.to_s, source)
    t_s = poses["t_s"]
    _check_gaps(source, poses, bridge=arguments.bridge_gaps)
    try:
        path = recorded(
            t_s,
            *(poses[name] for name in COLUMNS[1:]),
            spacing_m=arguments.spacing,
            constant_mps=arguments.speed,
        )
    except CourseError as error:
        raise CourseError(f"{source}: {error}") from None
    text = path.to_csv(out.stem[:60], datum)
    # Check the course before it is written.
    course = course_from_bytes(text.encode(), out.name)
    write_output(out, text)
    turns = f", {path.legs - 1} change(s) of direction" if path.legs > 1 else ""
    slowest, fastest = float(np.abs(course.speed_mps).min()), float(np.abs(course.speed_mps).max())
    print(
        f"{out}: {course.length_m:.1f} m, {len(path.x_m)} waypoints, {slowest:.2f} to "
        f"{fastest:.2f} m/s{turns}"
    )
    print(f"smoothed by at most {path.shift_m:.3f} m")
    return 0


def _check_gaps(source: Path, poses: dict[str, Any], *, bridge: bool) -> None:
    """Name the stretches that were driven but not recorded. Raises :class:`CourseError` unless they
    are to be bridged."""
    t_s = poses["t_s"]
    finite = np.isfinite(poses["x_m"]) & np.isfinite(poses["y_m"])
    points, times = np.column_stack((poses["x_m"], poses["y_m"]))[finite], t_s[finite]
    if len(points) < 2:
        return
    for gap in gaps.find(points, times)[0]:
        if gap.jump:
            continue
        at = f"from {times[gap.row - 1]:.1f} to {times[gap.row]:.1f} s"
        if not bridge:
            raise CourseError(
                f"{source}: nothing was recorded {at}, over {gap.length_m:.1f} m: leave out what "
                "lies before or after (--from, --to), or drive straight across with "
                "--bridge-gaps"
            )
        print(f"gap bridged by a straight line: {at}, {gap.length_m:.1f} m")


def _poses(source: Path, *, truth: bool) -> tuple[Datum, dict[str, Any]]:
    """Return datum and columns of the driven poses, with their legs. Raises :class:`LogError` if
    the log has none."""
    kind: type[GroundTruth | StateEstimate] = GroundTruth if truth else StateEstimate
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    with LogReader(source) as log:
        start_ns = log.header.start_monotonic_ns
        try:
            datum = datum_of(log.attachment("course.json"))
        except CourseError as error:
            raise LogError(f"{source}: {error}") from None
    for part in run_parts(source):
        with LogReader(part) as log:
            for _, found in log.arrays(kind):
                good = found if truth else found[found["status"] == int(EstimatorStatus.RUNNING)]
                for name in COLUMNS:
                    columns[name].append(np.array(good[name]))
    t_ns = np.concatenate(columns["t_ns"]) if columns["t_ns"] else np.zeros(0, np.int64)
    if not len(t_ns):
        if truth:
            raise LogError(f"{source}: contains no ground truth")
        raise LogError(
            f"{source}: contains no valid state estimate; to drive its fixes, export them with "
            "vehicled log export --to gpx and give --course FILE.gpx:line=gnss"
        )
    # Chunks may overlap, and a filter may report one instant twice.
    times, rows = np.unique(t_ns, return_index=True)
    poses = {name: np.concatenate(columns[name])[rows].astype(np.float64) for name in COLUMNS[1:]}
    poses["t_s"] = (times - start_ns) * 1e-9
    return datum, poses


def _between(
    poses: dict[str, Any], from_s: float | None, to_s: float | None, source: Path
) -> dict[str, Any]:
    t_s = poses["t_s"]
    kept = (t_s >= (from_s if from_s is not None else -np.inf)) & (
        t_s <= (to_s if to_s is not None else np.inf)
    )
    if not kept.any():
        raise CourseError(
            f"{source}: no data between --from and --to; the run lasts from {t_s[0]:.1f} to "
            f"{t_s[-1]:.1f} s"
        )
    return {name: column[kept] for name, column in poses.items()}
