"""Command ``vehicled twin calibrate``: fit the parameters of a twin to recorded drives."""

import os
import sys
from argparse import Namespace
from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase
from importlib.util import find_spec
from math import degrees
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from sim_backend.plant.twin_file import Twin, anchored, load_twin
from sim_backend.plant.twin_write import NewValue as Number
from sim_backend.plant.twin_write import write_twin
from vehicled.core.errors import SetupError
from vehicled.log.reader import LogReader
from vehicled.offline.processes import WorkerPool
from vehicled.offline.recordings.errors import RecordingError
from vehicled.offline.recordings.loading import sources
from vehicled.offline.recordings.prediction import RecordedCommands
from vehicled.offline.recordings.recording import Recording, seconds, unwrapped
from vehicled.offline.twin.calibration.calibrate import calibrate
from vehicled.offline.twin.calibration.four_dof_model import FourDofModel
from vehicled.offline.twin.calibration.profile_write import moved, written_profile
from vehicled.offline.twin.calibration.quantity import (
    GROUPS,
    CalibratedNumber,
    CalibrationModel,
    Group,
)
from vehicled.offline.twin.calibration.result import Calibration, RunResult
from vehicled.offline.twin.calibration.run import CalibrationRun, RunSegment, as_measured, pieces
from vehicled.offline.twin.calibration.twin_model import TwinModel, friction_of
from vehicled.profile import ProfileError, load_profile, profile_files, profile_in
from vehicled.run.argument_types import JOBS, LOG, PROFILE, TEXT, TWIN
from vehicled.run.command_line import CommandParser
from vehicled.run.output import check_output, check_plot_file, new_figure, save_figure, write_output
from vehicled.run.terminal import Progress, print_table

ORIGIN = "calibration"
FOUR_DOF_FRICTION = 0.8
COURSE_ONLY = ("bare_rtk", "bare_plain", "rosbag")
"""Kinds of recordings whose true yaw is the course over ground, with no gyro or heading in it."""


def declare_twin_calibrate(parser: CommandParser) -> None:
    """Fit chosen parameters of a twin to recorded drives: simulate the commands and compare the
    motion. Print each uncertainty, the parameters that the drives do not determine, and the
    prediction error on held-out drives.
    """
    parser.describe(
        epilog=(
            "Exit status: 0 fitted; 1 interrupted, best fit so far; 2 invalid arguments or drives."
        )
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--profile", type=PROFILE, metavar="P", help="profile whose twin to fit")
    which.add_argument(
        "--vehicle", type=TWIN, metavar="TWIN", help="name of a twin file, or a .toml file"
    )
    parser.add_argument(
        "--log",
        nargs="+",
        type=LOG,
        required=True,
        metavar="RUN",
        help="recorded drives: .mcap, CSV, bags, or folders of these",
    )
    parser.add_argument(
        "--fit", type=TEXT, default="powertrain,steering,tyres", metavar="GROUP,...",
        help="powertrain, steering, tyres, inertia (default the first three)",
    )  # fmt: skip
    parser.add_argument(
        "--hold-out",
        nargs="+",
        metavar="RUN",
        help="drives, or name patterns with *, used for validation only",
    )
    parser.add_argument(
        "--folds",
        type=int,
        default=0,
        metavar="K",
        help="K-fold cross-validation: predict every drive from a fit without it",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="TOML",
        help="write the vehicle, or the profile, with the fitted parameters",
    )
    parser.add_argument(
        "--plot", metavar="PNG", help="plot the drives into this file (needs matplotlib)"
    )
    parser.add_argument(
        "--jobs",
        type=JOBS,
        metavar="N",
        help="number of parallel processes (default: one per core)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: Namespace) -> int:
    """Fit, print and write the requested outputs. Return 0, or 1 if interrupted. Raises
    :class:`SetupError`."""
    _check_outputs(arguments)
    groups = _groups(arguments.fit)
    model, friction, source = _model(arguments)
    if arguments.output:
        _check_source(model, groups, source, Path(arguments.output))
    runs, held_out = _runs(arguments.log, arguments.hold_out or [])
    _note_other_vehicles(arguments, source)
    progress = Progress()

    def report(text: str) -> None:
        progress.update(f"{text}   (Ctrl-C stops with the best so far)")

    try:
        with WorkerPool(arguments.jobs) as processes:
            found = calibrate(
                model, runs, groups=groups, friction=friction, held_out=held_out,
                folds=arguments.folds, report=report, processes=processes,
            )  # fmt: skip
    finally:
        progress.close()
    # Print first, so that the fit is not lost if a file cannot be written.
    if arguments.json:
        data = {**msgspec.to_builtins(found), "summary": found.summary()}
        print(msgspec.json.format(msgspec.json.encode(data), indent=2).decode())
    else:
        _show(found)
    if arguments.output:
        logs = ", ".join(sorted({Path(log).name for log in arguments.log}))
        text = f"vehicled twin calibrate on {len(found.fitted_on)} drives: {logs}"
        write_output(
            Path(arguments.output), _written(source, found.figures, Path(arguments.output), text)
        )
        if not arguments.json:
            print(f"vehicle: {arguments.output}")
    if arguments.plot and found.runs:
        plot(model, runs, found, Path(arguments.plot))
        if not arguments.json:
            print(f"plot: {arguments.plot}")
    return 1 if found.stopped else 0


def drive_of(recording: Recording, name: str) -> CalibrationRun:
    """Convert a recording into a drive for the fit."""
    commands, truth = RecordedCommands.of(recording.inputs), recording.truth
    begin_ns = min([int(truth.t_ns[0]), *commands.t_ns[:1].tolist()])
    return CalibrationRun(
        name=name,
        command_s=seconds(commands.t_ns - begin_ns),
        throttle=commands.throttle, brake=commands.brake, steering=commands.steering,
        t_s=seconds(truth.t_ns - begin_ns),
        x_m=truth.x_m, y_m=truth.y_m, yaw_rad=unwrapped(truth.yaw_rad), speed_mps=truth.speed_mps,
        turns=recording.kind != "acceleration", rig=recording.kind,
        course_only=recording.kind in COURSE_ONLY,
    )  # fmt: skip


def _groups(text: str) -> list[Group]:
    groups: list[Group] = []
    for word in text.split(","):
        if word not in GROUPS:
            raise SetupError(f"--fit {word}: unknown group; choose from {', '.join(GROUPS)}")
        groups.append(word)
    return groups


def _model(arguments: Namespace) -> tuple[CalibrationModel, float, Twin | str]:
    """Return the model to fit, its grip over weight, and its source: a twin, or the text of a
    profile."""
    if arguments.vehicle:
        twin = load_twin(arguments.vehicle)
    else:
        profile = load_profile(arguments.profile)
        if profile.sim.twin is None:
            if profile.sim.drive is None:
                raise SetupError(
                    f"--profile {arguments.profile}: has no twin to calibrate: add [sim.twin] "
                    "or [sim.drive]"
                )
            file = profile_files.find(arguments.profile)
            text = profile_files.read(file)
            return (
                FourDofModel(profile),
                FOUR_DOF_FRICTION,
                moved(text, file, Path(arguments.output)) if arguments.output else text,
            )
        profile = anchored(profile, arguments.profile if os.path.isfile(arguments.profile) else "")
        assert profile.sim.twin is not None, "anchoring keeps the twin"
        twin = load_twin(profile.sim.twin.vehicle, profile.sim.twin.changes)
    return TwinModel(twin.parameters), friction_of(twin.parameters), twin


def _runs(logs: Sequence[str], held: Sequence[str]) -> tuple[list[CalibrationRun], set[str]]:
    """Return all drives, and the names of the held-out ones."""
    runs: dict[Path, CalibrationRun] = {}
    held_out: set[str] = set()
    patterns = [word for word in held if not Path(word).expanduser().exists()]
    for log, out in [(log, False) for log in logs] + [
        (word, True) for word in held if word not in patterns
    ]:
        for file, drive in _read(log).items():
            # A drive that is named again for hold-out keeps its name.
            name = runs.setdefault(file, drive).name
            if out:
                held_out.add(name)
    files: dict[str, Path] = {}
    for file, drive in runs.items():
        other = files.setdefault(drive.name, file)
        if other != file:
            raise SetupError(
                f"--log: {other} and {file} are both called {drive.name}; rename one, or give "
                "their common parent folder"
            )
    for pattern in patterns:
        matched = [name for name in files if fnmatchcase(name, pattern)]
        if not matched:
            raise SetupError(
                f"--hold-out {pattern}: no run matches; the runs are "
                f"{', '.join(list(files)[:8])} ..."
            )
        held_out.update(matched)
    return [runs[files[name]] for name in sorted(files)], held_out


def _read(log: str) -> dict[Path, CalibrationRun]:
    """Return the drives by the file, or the bag's folder, that contains them."""
    path = Path(log).expanduser()
    found = {}
    try:
        for source in sources(path):
            loaded = source.load(None)
            if loaded:
                name = (
                    f"{path.resolve().name}/{source.name}"
                    if path.is_dir()
                    else f"{path.resolve().parent.name}/{source.name}"
                )
                found[source.path.resolve()] = drive_of(loaded[0], name)
    except RecordingError as error:
        raise SetupError(f"--log {log}: {error}") from error
    return found


def _note_other_vehicles(arguments: Namespace, source: Twin | str) -> None:
    """Print a note for logs that were driven by another profile or twin than the fitted one."""
    fitted = [load_profile(arguments.profile).name] if arguments.profile else []
    if isinstance(source, Twin):
        fitted.append(source.parameters.identity.name)
    held_out = [word for word in arguments.hold_out or [] if Path(word).expanduser().exists()]
    for log in dict.fromkeys([*arguments.log, *held_out]):
        for one in sources(log):
            if "log" not in one.kinds:
                continue
            with LogReader(one.path) as reader:
                profile = profile_in(reader)
                drove = [
                    profile.name,
                    *(
                        [Path(profile.sim.twin.vehicle).stem]
                        if profile.sim.twin is not None
                        else []
                    ),
                ]
                if not reader.header.imported and not set(drove) & set(fitted):
                    print(
                        f"note: {one.path} was driven by profile {profile.name}, not {fitted[0]}",
                        file=sys.stderr,
                    )


def _check_outputs(arguments: Namespace) -> None:
    """Check the output files and packages before the work."""
    if find_spec("scipy") is None or find_spec("tomlkit") is None:
        raise SetupError(
            "twin calibrate needs scipy and tomlkit: pip install 'vehicled[calibrate]'"
        )
    if arguments.plot:
        check_plot_file(Path(arguments.plot))
    if arguments.output:
        check_output("--output", Path(arguments.output))
    if arguments.folds == 1 or arguments.folds < 0:
        raise SetupError(f"--folds {arguments.folds}: use 0 for none, or 2 or more")


def _check_source(
    model: CalibrationModel, groups: Collection[Group], source: Twin | str, file: Path
) -> None:
    """Check before the work that the fitted parameters have a place in the file, by writing their
    present values into it."""
    moved = {
        one.name: one.start + one.sigma for one in model.quantities((), 1.0) if one.group in groups
    }
    figures = model.figures(moved, dict.fromkeys(moved, 0.0))
    _written(source, [replace(figure, value=figure.before) for figure in figures], file, "")


def _written(source: Twin | str, figures: Sequence[CalibratedNumber], file: Path, text: str) -> str:
    # Restrict the name to characters allowed for a twin.
    name = "".join(c if c.isascii() and c.isalnum() else "_" for c in file.stem.lower())[:64]
    try:
        if isinstance(source, str):
            return written_profile(source, figures, text)
        numbers = {figure.key: Number(figure.value, figure.sigma) for figure in figures}
        return write_twin(source, numbers, _free_origin(source), text, name=name)
    except ProfileError as error:
        raise SetupError(f"--output: cannot write the new parameters: {error}") from error


def _free_origin(twin: Twin) -> str:
    """Return an unused key for the twin's origins."""
    taken = set(twin.origins)
    return next(
        key for key in (ORIGIN, *(f"{ORIGIN}{n}" for n in range(2, 1000))) if key not in taken
    )


def _show(found: Calibration) -> None:
    for line in found.refused:
        print(f"not used: {line}")
    rows = []
    for q in found.found:
        notes = " at its bound" if q.at_bound else ""
        spread = f"{q.fold_spread:.2g}" if q.fold_spread is not None else "-"
        rows.append([
            q.name, q.group, f"{q.before:.4g}", f"{q.value:.4g}{notes}", f"{q.sigma:.2g}", spread,
            f"{q.prior_sigma:.2g}", f"{q.prior_share:.0%}", f"{q.prior_pull:+.2g}", q.unit,
        ])  # fmt: skip
    heads = [
        "parameter",
        "group",
        "before",
        "fitted",
        "sigma",
        "over folds",
        "prior",
        "it decides",
        "it moves",
        "unit",
    ]
    print_table(f"{found.vehicle}: fitted parameters", heads, rows)
    if held := [q.name for q in found.found if q.by_prior]:
        print(
            f"decided by the prior: {', '.join(held)}: the drives say little of them, so they "
            "stay near the vehicle's own numbers"
        )
    for unseen in found.unseen:
        print(f"not fitted: {unseen.name}: {unseen.why}; {unseen.cure}")
    for first, second, share in found.correlated:
        print(f"hardly distinguishable: {first} and {second} (correlation {share:+.2f})")
    for rig, angle_rad in found.misaligned_rad.items():
        if abs(degrees(angle_rad)) < 0.05:
            continue
        print(
            f"corrected: the heading of the {rig} drives is {-degrees(angle_rad):+.1f} deg off "
            "the vehicle's"
        )
    by_kind: dict[str, list[RunResult]] = {}
    for one in found.runs:
        by_kind.setdefault(one.kind, []).append(one)
    rows = []
    for kind, runs in by_kind.items():
        cells = []
        for field in ("speed_mps", "place_m", "place_at_speed_m"):
            before, after = (
                [getattr(errors, field) for errors in side]
                for side in zip(*((r.before, r.after) for r in runs), strict=True)
            )
            cells.append(f"{np.mean(before):.3f} -> {np.mean(after):.3f} (worst {max(after):.3f})")
        seen = sorted({"not fitted" if run.held_out else "FITTED" for run in runs})
        rows.append([kind, str(len(runs)), " + ".join(seen), *cells])
    heads = [
        "drives",
        "runs",
        "these runs",
        "speed RMS (m/s)",
        "position RMS, by throttle (m)",
        "position RMS, at measured speed (m)",
    ]
    if rows:
        print_table(
            "open loop, from commands only, without the recorded battery voltage", heads, rows
        )
    if found.stopped:
        print("interrupted: these are the best parameters so far", file=sys.stderr)


_RECORDED, _BEFORE, _AFTER = "#0b6e4f", "#b8b8b8", "#d1495b"
MOST_KINDS = 12


def plot(
    model: CalibrationModel, runs: list[CalibrationRun], found: Calibration, file: Path
) -> None:
    """Plot speed and path of the worst run of each kind, driven by throttle. Raises
    :class:`SetupError` if the file cannot be written.
    """
    worst: dict[str, tuple[float, str]] = {}
    for one in found.runs:
        worst[one.kind] = max(worst.get(one.kind, (-1.0, "")), (one.after.speed_mps, one.name))
    names = [name for _, name in list(worst.values())[:MOST_KINDS]]
    by_name: dict[str, list[RunSegment]] = {name: [] for name in names}
    for piece in pieces([run for run in runs if run.name in by_name]):
        by_name[piece.run.name].append(piece)
    values = {one.name: one.value for one in found.found}
    figure = new_figure(13, 2.6 * len(names) + 1.0)
    grid = figure.subplots(len(names), 2, squeeze=False, width_ratios=(2, 1))
    for (speeds, paths), name in zip(grid, names, strict=True):
        for number, piece in enumerate(by_name[name]):
            _draw(
                model,
                piece,
                values,
                found.misaligned_rad.get(piece.run.rig, 0.0),
                speeds,
                paths,
                labelled=number == 0,
            )
        speeds.set(
            ylabel="speed (m/s)",
            title=f"{name}, {'fitted' if name in found.fitted_on else 'not fitted'}",
        )
        paths.set_aspect("equal", adjustable="datalim")
        for area in (speeds, paths):
            area.grid(alpha=0.25)
        paths.set(ylabel="y (m)")
        speeds.legend(frameon=False)
    grid[-1][0].set_xlabel("time (s)")
    grid[-1][1].set_xlabel("x (m)")
    figure.suptitle(
        f"{found.vehicle} from commands only; after: fit on all {len(found.fitted_on)} drives, "
        "without folds"
    )
    save_figure(figure, file)


def _draw(
    model: CalibrationModel,
    piece: RunSegment,
    values: dict[str, float],
    misaligned_rad: float,
    speeds: Any,
    paths: Any,
    *,
    labelled: bool,
) -> None:
    run, rows = piece.run, piece.rows
    t = run.t_s[rows]
    speeds.plot(
        t, run.speed_mps[rows], color=_RECORDED, lw=2, label="recorded" if labelled else None
    )
    paths.plot(run.x_m[rows], run.y_m[rows], color=_RECORDED, lw=2)
    for color, style, numbers, label in (
        (_BEFORE, "-", {}, "twin before"),
        (_AFTER, "--", values, "twin after"),
    ):
        made = as_measured(
            model.drive(piece, numbers, model.steps_s()[1], at_speed=False), piece, misaligned_rad
        )
        speeds.plot(
            t,
            np.asarray(made.speed_mps),
            color=color,
            lw=1.6,
            ls=style,
            label=label if labelled else None,
        )
        paths.plot(made.x_m, made.y_m, color=color, lw=1.6, ls=style)
