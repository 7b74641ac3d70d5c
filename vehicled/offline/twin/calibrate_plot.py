"""Plot of a calibration: every kind of drive, recorded and simulated by the twin before and after."""

from pathlib import Path
from typing import Any

import numpy as np

from vehicled.offline.twin.calibration.quantity import CalibrationModel
from vehicled.offline.twin.calibration.result import Calibration
from vehicled.offline.twin.calibration.run import CalibrationRun, RunSegment, as_measured, pieces
from vehicled.run.output import new_figure, save_figure

_RECORDED, _BEFORE, _AFTER = "#0b6e4f", "#b8b8b8", "#d1495b"
MOST_KINDS = 12


def plot(model: CalibrationModel, runs: list[CalibrationRun], found: Calibration, file: Path) -> None:
    """Plot speed and path of the worst run of each kind, driven by throttle. Raises :class:`SetupError` if the file cannot be
    written.
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
            _draw(model, piece, values, found.misaligned_rad.get(piece.run.rig, 0.0), speeds, paths, labelled=number == 0)
        speeds.set(ylabel="speed (m/s)", title=f"{name}, {'fitted' if name in found.fitted_on else 'not fitted'}")
        paths.set_aspect("equal", adjustable="datalim")
        for area in (speeds, paths):
            area.grid(alpha=0.25)
        paths.set(ylabel="y (m)")
        speeds.legend(frameon=False)
    grid[-1][0].set_xlabel("time (s)")
    grid[-1][1].set_xlabel("x (m)")
    figure.suptitle(f"{found.vehicle} from commands only; after: fit on all {len(found.fitted_on)} drives, without folds")
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
    speeds.plot(t, run.speed_mps[rows], color=_RECORDED, lw=2, label="recorded" if labelled else None)
    paths.plot(run.x_m[rows], run.y_m[rows], color=_RECORDED, lw=2)
    for color, style, numbers, label in ((_BEFORE, "-", {}, "twin before"), (_AFTER, "--", values, "twin after")):
        made = as_measured(model.drive(piece, numbers, model.steps_s()[1], at_speed=False), piece, misaligned_rad)
        speeds.plot(t, np.asarray(made.speed_mps), color=color, lw=1.6, ls=style, label=label if labelled else None)
        paths.plot(made.x_m, made.y_m, color=color, lw=1.6, ls=style)
