"""The figures of Zhang et al. 2023 about a policy's transfer: drives in simulation beside recorded
ones.

`commands` draws throttle and steering (their figure 6), `errors` the cross-track error of each
drive and the mean of all (7), `speed` the speed by colour on the map (8). The recorded drives are
yours, or `vehicled data fetch path_following_2024`; without any the simulated ones are drawn alone.
A second call drives what is missing.
"""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from vehicled.core.arrays import Array
from vehicled.core.messages import ActuatorCommand, Mode
from vehicled.offline.recordings.errors import RecordingError
from vehicled.offline.recordings.loading import KIND, known_kinds, sources
from vehicled.offline.recordings.prediction import RecordedCommands
from vehicled.offline.recordings.recording import Recording, held
from vehicled.offline.replications.experiments.common import (
    ExperimentConsole,
    add_drives,
    check_drives,
    driven,
    on_terminal,
)
from vehicled.offline.studies.logs import logs_of
from vehicled.paths.catalog import load_course
from vehicled.paths.course import Course
from vehicled.paths.tracking import PathTracker
from vehicled.profile.plugins import absolute
from vehicled.run.argument_types import CONTROLLER, COURSE
from vehicled.run.command_line import CommandParser
from vehicled.run.output import check_plot_file, new_figure, save_figure

FIGURES = ("commands", "errors", "speed")
SIMULATED, REAL = "simulated", "real"
_COLOURS = {SIMULATED: "#2e86ab", REAL: "#d1495b"}
_STEP_M = 0.5
"""Distance between the places at which drives are averaged."""
_MOVING_MPS = 0.1


class ShownDrive(Struct, frozen=True):
    """One drive along the course: arrays of shape (n,), in the order of driving."""

    name: str
    s_m: Array
    cross_track_m: Array
    x_m: Array
    y_m: Array
    speed_mps: Array
    throttle: Array
    steering: Array

    @property
    def mean_m(self) -> float:
        """Mean cross-track error."""
        return float(np.nanmean(np.abs(self.cross_track_m)))

    def at_places(self, name: str, places_m: Array) -> Array:
        """Return a column by place; NaN beyond the driven part."""
        found: Array = np.interp(places_m, self.s_m, getattr(self, name), left=np.nan, right=np.nan)
        return found


def declare_experiment_sim_to_real(parser: CommandParser) -> None:
    """Declare the command."""
    parser.describe(__doc__ or "")
    parser.add_argument("figure", choices=FIGURES, help="what to draw")
    parser.add_argument(
        "--real", nargs="+", default=[], metavar="RUN", help="recorded drives: files and folders"
    )
    parser.add_argument(
        "--kind",
        type=KIND,
        action="append",
        default=[],
        metavar="KIND",
        help="kind of the recordings; repeatable",
    )
    parser.add_argument(
        "--controller",
        type=CONTROLLER,
        default="mpc",
        metavar="NAME",
        help="controller or .onnx file in simulation (default mpc)",
    )
    parser.add_argument(
        "--course",
        type=COURSE,
        default="lot17",
        metavar="NAME",
        help="course of all drives (default lot17)",
    )
    parser.add_argument(
        "--plot", metavar="FILE", help="picture (default: FIGURE.png in the folder)"
    )
    add_drives(parser, "sim_to_real", 5)
    parser.set_defaults(run=on_terminal(run))


def run(arguments: Namespace, console: ExperimentConsole) -> int:
    """Drive, read, draw. Raises SetupError, StudyError and RecordingError."""
    check_drives(arguments)
    known_kinds(arguments.kind)
    folder = Path(arguments.output)
    folder.mkdir(parents=True, exist_ok=True)
    plot = Path(arguments.plot or folder / f"{arguments.figure}.png")
    check_plot_file(plot)
    course = load_course(arguments.course)
    real = [each for path in arguments.real for each in _recorded(path, tuple(arguments.kind))]
    sets = {
        SIMULATED: [
            recording
            for log in _simulated(arguments, folder, console)
            for recording in sources(log)[0].load(None)
        ]
    }
    if real:
        sets[REAL] = real
    drives = {label: [along(each, course) for each in found] for label, found in sets.items()}
    draw(arguments.figure, drives, course, plot)
    means = {label: [each.mean_m for each in found] for label, found in drives.items()}
    if arguments.json:
        console.text(msgspec.json.encode(means).decode())
        return 0
    rows = [
        [label, str(len(m)), f"{np.mean(m):.3f}", f"{min(m):.3f} to {max(m):.3f}"]
        for label, m in means.items()
    ]
    console.table(
        f"{arguments.controller} on {arguments.course}",
        ["drives", "number", "mean cross-track error, m", "range"],
        rows,
    )
    console.text(f"picture: {plot}")
    return 0


def _recorded(path: str, kinds: tuple[str, ...]) -> list[Recording]:
    found = []
    for source in sources(path):
        loaded = source.load(kinds or source.kinds[:1])
        found += loaded[:1]
    if not found:
        raise RecordingError(f"{path}: holds no recording of the kinds {', '.join(kinds)}")
    return found


def _simulated(arguments: Namespace, folder: Path, console: ExperimentConsole) -> list[str]:
    """Drive what is missing; return the logs."""
    content = {
        "course": arguments.course,
        "controller": absolute(arguments.controller, Path()),
        "duration_s": 600,
    }
    return logs_of(driven(arguments, console, folder, "sim_to_real", **content), {})


def along(recording: Recording, course: Course) -> ShownDrive:
    """Return a drive by its place on the course, from where it first moves. Raises
    RecordingError."""
    truth = recording.truth
    known = (
        np.isfinite(truth.x_m)
        & np.isfinite(truth.y_m)
        & np.isfinite(truth.speed_mps)
        & np.isfinite(truth.yaw_rad)
    )
    moving = np.flatnonzero(known & (truth.speed_mps > _MOVING_MPS))
    commands = RecordedCommands.of(
        [m for m in recording.inputs if isinstance(m, ActuatorCommand) and m.mode is Mode.AUTO]
    )
    if not len(moving) or not len(commands.t_ns):
        raise RecordingError(
            f"{recording.source}: holds no true motion or no commands: give drives along the course"
        )
    rows = np.flatnonzero(known)
    rows = rows[(rows >= moving[0]) & (rows <= moving[-1])]
    tracker, places = PathTracker(course), []
    for k in rows.tolist():
        point = tracker.update(
            float(truth.x_m[k]),
            float(truth.y_m[k]),
            float(truth.yaw_rad[k]),
            float(truth.speed_mps[k]),
        )
        places.append((point.s_m, point.cross_track_m))
    s_m, cross_m = np.array(places).T
    ahead = np.concatenate([[True], np.diff(np.maximum.accumulate(s_m)) > 0.0])
    rows, s_m, cross_m = rows[ahead], s_m[ahead], cross_m[ahead]
    # Held between commands, as the actuators hold them.
    throttle, steering = (
        held(truth.t_ns[rows], commands.t_ns, each, each[0])
        for each in (commands.throttle, commands.steering)
    )
    return ShownDrive(
        recording.name,
        s_m,
        cross_m,
        truth.x_m[rows],
        truth.y_m[rows],
        truth.speed_mps[rows],
        throttle,
        steering,
    )


def draw(
    figure: str, drives: Mapping[str, Sequence[ShownDrive]], course: Course, file: Path
) -> None:
    """Draw one of :data:`FIGURES`. Raises SetupError."""
    made = new_figure(11, 6)
    {"commands": _commands, "errors": _errors, "speed": _speed}[figure](made, drives, course)
    save_figure(made, file)


def _places(course: Course) -> Array:
    return np.arange(0.0, float(course.s_m[-1]), _STEP_M)


def _commands(figure: Any, drives: Mapping[str, Sequence[ShownDrive]], course: Course) -> None:
    places = _places(course)
    panels = figure.subplots(2, 1, sharex=True)
    for axes, name in zip(panels, ("throttle", "steering"), strict=True):
        for label, found in drives.items():
            _each_and_mean(
                axes,
                places,
                [each.at_places(name, places) for each in found],
                _COLOURS[label],
                label,
            )
        axes.set_ylabel(f"{name}\n(fraction of full)")
        axes.grid(alpha=0.25)
    panels[0].legend(fontsize=8)
    panels[1].set_xlabel("place on the course (m)")


def _errors(figure: Any, drives: Mapping[str, Sequence[ShownDrive]], course: Course) -> None:
    places = _places(course)
    panels = figure.subplots(len(drives), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for axes, (label, found) in zip(panels, drives.items(), strict=True):
        errors = [np.abs(each.at_places("cross_track_m", places)) for each in found]
        _each_and_mean(axes, places, errors, _COLOURS[label], f"{label}, mean of {len(found)}")
        axes.set_ylabel("cross-track error (m)")
        axes.legend(fontsize=8, loc="upper right")
        axes.grid(alpha=0.25)
    panels[0].set_ylim(bottom=0.0)
    panels[-1].set_xlabel("place on the course (m)")


def _each_and_mean(
    axes: Any, places: Array, curves: Sequence[Array], colour: str, label: str
) -> None:
    for curve in curves:
        axes.plot(places, curve, color=colour, lw=0.5, alpha=0.45)
    together = np.array(curves)
    somewhere = np.isfinite(together).any(axis=0)
    mean = np.full(len(places), np.nan)
    mean[somewhere] = np.nanmean(together[:, somewhere], axis=0)
    axes.plot(places, mean, color=colour, lw=1.8, label=label)


def _speed(figure: Any, drives: Mapping[str, Sequence[ShownDrive]], course: Course) -> None:
    from matplotlib.collections import LineCollection

    panels = figure.subplots(1, len(drives), sharex=True, sharey=True, squeeze=False)[0]
    fastest = max(float(each.speed_mps.max()) for found in drives.values() for each in found[:1])
    lap = [*range(len(course.x_m)), *([0] if course.closed else [])]
    for axes, (label, found) in zip(panels, drives.items(), strict=True):
        points = np.column_stack([found[0].x_m, found[0].y_m])
        axes.plot(course.x_m[lap], course.y_m[lap], color="#b0b0b0", lw=6.0)
        heat = LineCollection(np.stack([points[:-1], points[1:]], axis=1), cmap="plasma", lw=3.0)  # type: ignore[arg-type]
        heat.set_array(found[0].speed_mps[1:])
        heat.set_clim(0.0, fastest)
        axes.add_collection(heat)
        axes.set(title=label, xlabel="east (m)", aspect="equal")
        axes.grid(alpha=0.25)
    panels[0].set_ylabel("north (m)")
    figure.colorbar(heat, ax=panels, label="speed (m/s)")
