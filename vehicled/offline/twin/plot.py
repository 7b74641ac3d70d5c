"""Plots of a validation's runs, one file each."""

from math import degrees
from pathlib import Path

from vehicled.offline.twin.validation.result import RunComparison, Validation
from vehicled.run.output import new_figure, save_figure

_REFERENCE, _OURS, _RESIDUAL = "#0b6e4f", "#d1495b", "#5a6673"


def plot_runs(validation: Validation, folder: Path) -> None:
    """Plot every run into ``folder``. Raises :class:`SetupError` if that fails."""
    for run in validation.comparisons:
        _plot(run, folder / f"{run.source.name.replace('/', '__')}.png")


def _plot(run: RunComparison, file: Path) -> None:
    reference, drive = run.reference, run.drive
    n = min(len(reference.t_s), len(drive.x_m))
    figure = new_figure(13, 8)
    grid = figure.add_gridspec(4, 3, width_ratios=(1.1, 1.2, 0.9))
    area = figure.add_subplot(grid[:, 0])
    area.plot(reference.x_m, reference.y_m, color=_REFERENCE, lw=2, label="reference")
    area.plot(drive.x_m, drive.y_m, color=_OURS, lw=1.2, ls="--", label="ours")
    area.set_aspect("equal", adjustable="datalim")
    area.set(xlabel="x (m)", ylabel="y (m)")
    area.legend(frameon=False)
    area.grid(alpha=0.25)
    quantities = (
        ("yaw rate (rad/s)", reference.yaw_rate_radps, drive.yaw_rate_radps, 1.0),
        ("lateral speed (m/s)", reference.vy_mps, drive.vy_mps, 1.0),
        ("speed (m/s)", reference.vx_mps, drive.vx_mps, 1.0),
        ("roll (deg)", reference.roll_rad, drive.roll_rad, degrees(1.0)),
    )
    for row, (label, theirs, ours, factor) in enumerate(quantities):
        values = figure.add_subplot(grid[row, 1])
        left = figure.add_subplot(grid[row, 2])
        if theirs is not None:
            values.plot(reference.t_s, theirs * factor, color=_REFERENCE, lw=2)
            left.plot(reference.t_s[:n], (ours[:n] - theirs[:n]) * factor, color=_RESIDUAL, lw=1)
        values.plot(reference.t_s[:n], ours[:n] * factor, color=_OURS, lw=1.2, ls="--")
        values.set(ylabel=label)
        left.set(title="ours minus reference" if row == 0 else "")
        values.grid(alpha=0.25)
        left.grid(alpha=0.25)
    verdict = {True: "within its target", False: "; ".join(run.judgement.reasons), None: "not judged"}[run.judgement.passed]
    figure.suptitle(f"{run.source.name}: {verdict}")
    save_figure(figure, file)
