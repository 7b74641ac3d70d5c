"""Pictures of a fit and of a check of a reference system."""

from collections.abc import Sequence
from math import degrees, isfinite
from pathlib import Path
from typing import Any

import numpy as np

from vehicled.offline.sensors.inertial import AxisFit, InertialFit
from vehicled.offline.sensors.positions import PositionFit
from vehicled.offline.sensors.truth import QUANTITIES, Series, TruthCheck, rests_of
from vehicled.run.output import new_figure, save_figure

_COLOURS = ("#d1495b", "#2e86ab", "#3a7d44")
_CLAIM, _SHOWN, _DECLARED = _COLOURS


def draw(file: Path, positions: PositionFit | None, inertial: InertialFit | None) -> None:
    """Draw the growth of position errors with time, and the Allan deviation of each axis. Raises
    SetupError."""
    panels: list[tuple[Any, ...]] = []
    if positions is not None:
        panels.append((_growth, positions))
    if inertial is not None:
        panels += [
            (_deviation, axes, unit)
            for axes, unit in ((inertial.gyro, "rad/s"), (inertial.accelerometer, "m/s²"))
            if axes
        ]
    figure = new_figure(5.4 * len(panels), 4.6)
    for column, (panel, *what) in enumerate(panels):
        panel(figure.add_subplot(1, len(panels), column + 1), *what)
    save_figure(figure, file)


def _growth(axes: Any, found: PositionFit) -> None:
    t_s = found.lags_s
    fine = np.geomspace(t_s[0], t_s[-1], 100)
    axes.loglog(t_s, np.sqrt(found.increments_m2), "o", ms=4, color=_COLOURS[0], label="measured")
    axes.loglog(fine, np.sqrt(found.form.increments(fine)), color="black", lw=1.2, label="fitted")
    for ends in (found.low, found.high):
        axes.loglog(
            fine, np.sqrt(np.maximum(ends.increments(fine), 1e-12)), color="black", lw=0.6, ls=":"
        )
    axes.set(
        xlabel="time between two fixes, s",
        ylabel="root mean square change of the error, m",
        title=f"Positions, {found.runs} runs; dotted: each number at its 5 and 95 %",
    )
    axes.title.set_fontsize(10)
    axes.grid(which="both", alpha=0.2)
    axes.legend(fontsize=8)


def _deviation(axes: Any, found: list[AxisFit], unit: str) -> None:
    for axis, colour in zip(found, _COLOURS):
        tau = axis.allan.tau_s
        low = axis.allan.deviation * (1.0 - axis.allan.doubt)
        high = axis.allan.deviation * (1.0 + axis.allan.doubt)
        axes.fill_between(tau, np.maximum(low, 1e-12), high, color=colour, alpha=0.2, lw=0)
        axes.loglog(
            tau, axis.allan.deviation, ".", ms=5, color=colour, label=f"{axis.name}, measured"
        )
        fine = np.geomspace(tau[0], tau[-1], 100)
        axes.loglog(fine, axis.terms.deviation(fine), color=colour, lw=1.2)
    axes.set(
        xlabel="averaging time, s",
        ylabel=f"Allan deviation, {unit}",
        title=f"{found[0].name.split()[0]}; lines: fitted",
    )
    axes.title.set_fontsize(10)
    axes.grid(which="both", alpha=0.2)
    axes.legend(fontsize=8)


def draw_check(file: Path, runs: Sequence[Series], found: TruthCheck) -> None:
    """Draw the drives with their rests, and what each check shows against the claim. Raises
    SetupError."""
    figure = new_figure(11.0, 4.8)
    grid = figure.add_gridspec(3, 2, width_ratios=(1.1, 1.0))
    area = figure.add_subplot(grid[:, 0])
    for run in runs:
        area.plot(run.x_m, run.y_m, lw=0.9, color="#888888")
        for a, b in rests_of(run):
            area.plot(run.x_m[a:b].mean(), run.y_m[a:b].mean(), "o", ms=7, mfc="none", color=_CLAIM)
    area.set(
        xlabel="east, m", ylabel="north, m", title="Rear axle by the reference; circles: rests"
    )
    area.set_aspect("equal", adjustable="datalim")
    for row, (quantity, unit) in enumerate(QUANTITIES.items()):
        part = figure.add_subplot(grid[row, 1])
        scale, shown_in = (degrees(1.0), "degrees") if unit == "rad" else (1.0, unit)
        mine = [each for each in found.evidence if each.quantity == quantity]
        for k, each in enumerate(mine):
            part.plot(
                scale * each.sigma, k, "o", color=_SHOWN, mfc=_SHOWN if each.proves else "none"
            )
            if each.proves and isfinite(each.upper):
                part.plot([scale * each.sigma, scale * each.upper], [k, k], color=_SHOWN, lw=1.4)
        for value, colour, label in (
            (found.declared[quantity], _DECLARED, "declared"),
            (found.claims[quantity], _CLAIM, "claim"),
        ):
            if isfinite(value):
                part.axvline(scale * value, color=colour, lw=1.2, ls="--", label=label)
        part.set_yticks(range(len(mine)), [each.check for each in mine], fontsize=8)
        part.set_ylim(len(mine) - 0.5, -0.5)
        part.set_xlim(left=0.0)
        part.margins(x=0.1)
        claim = scale * found.claims[quantity]
        result = f"{claim:.3g} may be claimed" if isfinite(claim) else "unknown"
        part.set_title(f"{quantity}, {shown_in}: {result}", fontsize=10)
        if part.get_legend_handles_labels()[0]:
            part.legend(fontsize=7, loc="best")
    figure.supxlabel(
        (
            "points: shown by a check, with the upper 95 % limit; hollow: the check sees a part of "
            "the errors"
        ),
        fontsize=8,
    )
    save_figure(figure, file)
