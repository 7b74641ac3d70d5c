"""Quantile-quantile picture: each set of simulated runs against the real runs, with the band of real halves against each other."""

import os
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from vehicled.output import save_figure
from vehicled.reality_gap.quantities import MEANINGS, UNITS
from vehicled.reality_gap.runs import RunSet
from vehicled.recordings.recording import Array

if TYPE_CHECKING:
    from vehicled.reality_gap.gap import Gap

_COLOURS = ("#d1495b", "#2e86ab", "#edae49", "#6a4c93", "#0b6e4f", "#8d99ae")
_MARKERS = "osD^vP"
_POINTS = 41
"""Quantiles of the band."""
_HALVES = 400


def draw(gap: "Gap", file: str | os.PathLike[str]) -> None:
    """Write the picture. Raises SetupError."""
    names = gap.quantities
    figure = Figure(figsize=(4.8 * len(names), 5.4), dpi=120, layout="constrained")
    for column, name in enumerate(names):
        _panel(figure.add_subplot(1, len(names), column + 1), gap, name, legend=column == 0)
    figure.suptitle(f"Simulated against real runs, judge {gap.judge}: on the line they are alike", fontsize=10)
    save_figure(figure, file)


def _panel(axes: Any, gap: "Gap", name: str, *, legend: bool) -> None:
    real = _values(gap.real, name)
    if len(real) >= 4:
        low, high, levels = _band(real)
        axes.fill_between(np.quantile(real, levels), low, high, color="#9aa5b1", alpha=0.35, lw=0, label="real, half against half")
    shown = [real]
    for number, model in enumerate(gap.models):
        values = _values(model.simulated, name)
        if not len(values) or not len(real):
            continue
        levels = (np.arange(min(len(values), len(real))) + 0.5) / min(len(values), len(real))
        axes.plot(
            np.quantile(real, levels),
            np.quantile(values, levels),
            _MARKERS[number % len(_MARKERS)] + "-",
            ms=4,
            lw=0.8,
            color=_COLOURS[number % len(_COLOURS)],
            label=model.simulated.label,
        )
        shown.append(values)
    everything = np.concatenate(shown)
    if len(everything):
        margin = 0.06 * (float(everything.max() - everything.min()) or 1.0)
        bounds = (float(everything.min()) - margin, float(everything.max()) + margin)
        axes.plot(bounds, bounds, color="black", lw=0.8)
        axes.set(xlim=bounds, ylim=bounds)
    unit = f" ({UNITS[name]})" if UNITS[name] else ""
    axes.set(xlabel=f"{name}{unit} of real runs", ylabel=f"{name}{unit} of simulated runs")
    axes.set_title(MEANINGS[name], fontsize=8)
    axes.set_aspect("equal")
    axes.grid(alpha=0.25)
    if legend:
        axes.legend(loc="upper left", fontsize=8)


def _values(runs: RunSet, name: str) -> Array:
    values = np.array([run.measured.values[name] for run in runs.runs], dtype=np.float64)
    return values[np.isfinite(values)]


def _band(real: Array) -> tuple[Array, Array, Array]:
    """Return the central 95 % of the quantiles of a random half of the real runs, and their levels."""
    random = np.random.default_rng(1)
    levels = np.linspace(0.0, 1.0, _POINTS)
    halves = np.stack([np.quantile(random.permutation(real)[: len(real) // 2], levels) for _ in range(_HALVES)])
    low, high = np.quantile(halves, (0.025, 0.975), axis=0)
    return low, high, levels
