"""Pictures of a fit: the growth of position errors with time, and the Allan deviation of each axis."""

from pathlib import Path
from typing import Any

import numpy as np

from vehicled.offline.sensors.inertial import AxisFit, InertialFit
from vehicled.offline.sensors.positions import PositionFit
from vehicled.run.output import new_figure, save_figure

_COLOURS = ("#d1495b", "#2e86ab", "#3a7d44")


def draw(file: Path, positions: PositionFit | None, inertial: InertialFit | None) -> None:
    """Write the picture. Raises SetupError."""
    panels: list[tuple[Any, ...]] = []
    if positions is not None:
        panels.append((_growth, positions))
    if inertial is not None:
        panels += [(_deviation, axes, unit) for axes, unit in ((inertial.gyro, "rad/s"), (inertial.accelerometer, "m/s²")) if axes]
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
        axes.loglog(fine, np.sqrt(np.maximum(ends.increments(fine), 1e-12)), color="black", lw=0.6, ls=":")
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
        low, high = axis.allan.deviation * (1.0 - axis.allan.doubt), axis.allan.deviation * (1.0 + axis.allan.doubt)
        axes.fill_between(tau, np.maximum(low, 1e-12), high, color=colour, alpha=0.2, lw=0)
        axes.loglog(tau, axis.allan.deviation, ".", ms=5, color=colour, label=f"{axis.name}, measured")
        fine = np.geomspace(tau[0], tau[-1], 100)
        axes.loglog(fine, axis.terms.deviation(fine), color=colour, lw=1.2)
    axes.set(xlabel="averaging time, s", ylabel=f"Allan deviation, {unit}", title=f"{found[0].name.split()[0]}; lines: fitted")
    axes.title.set_fontsize(10)
    axes.grid(which="both", alpha=0.2)
    axes.legend(fontsize=8)
