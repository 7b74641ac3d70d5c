"""Pictures of a gap: quantiles of simulated against real runs with the band of real halves against
each other, histograms of the quantities, and the speeds that were compared."""

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from vehicled.core.arrays import Array
from vehicled.offline.gap.quantities import MEANINGS, UNITS
from vehicled.offline.gap.runs import JudgedRun, RunSet
from vehicled.run.output import new_figure, save_figure

if TYPE_CHECKING:
    from vehicled.offline.gap.gap import Gap

_COLOURS = ("#d1495b", "#2e86ab", "#edae49", "#6a4c93", "#0b6e4f", "#8d99ae")
_MARKERS = "osD^vP"
_POINTS = 41
"""Quantiles of the band."""
_HALVES = 400
_BINS = 12
_TRUE, _JUDGED = "black", "#d1495b"


def draw(gap: "Gap", file: str | os.PathLike[str]) -> None:
    """Write the picture. Raises SetupError."""
    names = gap.quantities
    figure = new_figure(4.8 * len(names), 5.4)
    for column, name in enumerate(names):
        _panel(figure.add_subplot(1, len(names), column + 1), gap, name, legend=column == 0)
    figure.suptitle(
        f"Simulated against real runs, judge {gap.judge}: on the line they are alike", fontsize=10
    )
    save_figure(figure, file)


def _panel(axes: Any, gap: "Gap", name: str, *, legend: bool) -> None:
    real = _values(gap.real, name)
    if len(real) >= 4:
        low, high, levels = _band(real)
        axes.fill_between(
            np.quantile(real, levels),
            low,
            high,
            color="#9aa5b1",
            alpha=0.35,
            lw=0,
            label="real, half against half",
        )
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


def draw_histograms(gap: "Gap", file: str | os.PathLike[str]) -> None:
    """Draw a panel for each quantity and manoeuvre: how many runs of each set have which value.
    Raises SetupError."""
    manoeuvres = _manoeuvres(gap)
    figure = new_figure(4.4 * len(manoeuvres), 3.2 * len(gap.quantities))
    panels = figure.subplots(len(gap.quantities), len(manoeuvres), squeeze=False)
    for row, name in enumerate(gap.quantities):
        for column, manoeuvre in enumerate(manoeuvres):
            axes = panels[row][column]
            sets = [(each, _values(_of(each, manoeuvre), name)) for each in _sets(gap)]
            everything = np.concatenate([values for _, values in sets])
            if not len(everything):
                continue
            edges = np.histogram_bin_edges(everything, _BINS)
            for number, (each, values) in enumerate(sets):
                colour, width = (
                    ("black", 2.0)
                    if each is gap.real
                    else (_COLOURS[(number - 1) % len(_COLOURS)], 1.0)
                )
                share = np.full(len(values), 1.0 / max(len(values), 1))
                axes.hist(
                    values,
                    edges,
                    histtype="step",
                    label=each.label,
                    weights=share,
                    color=colour,
                    lw=width,
                )
            axes.set(
                xlabel=f"{name}{f' ({UNITS[name]})' if UNITS[name] else ''}",
                title=manoeuvre if row == 0 else "",
            )
            axes.grid(alpha=0.25)
        panels[row][0].set_ylabel("part of the runs")
    panels[0][0].legend(fontsize=8)
    figure.suptitle(f"Quantities of the runs, judge {gap.judge}", fontsize=10)
    save_figure(figure, file)


def draw_speeds(gap: "Gap", file: str | os.PathLike[str]) -> None:
    """Draw true and judged speed of the run with the median E of each set (columns) and manoeuvre
    (rows). Raises SetupError."""
    sets, manoeuvres = _sets(gap), _manoeuvres(gap)
    figure = new_figure(1.0 + 2.4 * len(sets), 0.8 + 2.0 * len(manoeuvres))
    panels = figure.subplots(len(manoeuvres), len(sets), squeeze=False, sharey="row", sharex="row")
    for row, manoeuvre in enumerate(manoeuvres):
        for column, each in enumerate(sets):
            axes = panels[row][column]
            run = _median_run(_of(each, manoeuvre))
            if run is not None and run.measured.speeds is not None:
                speeds = run.measured.speeds
                axes.plot(speeds.t_s, speeds.true_mps, color=_TRUE, lw=1.4, label="truth")
                axes.plot(speeds.t_s, speeds.judged_mps, color=_JUDGED, lw=0.9, label="judge")
                said = f"{manoeuvre or 'all'}, E {run.measured.values['E']:.3f} m/s"
                axes.text(0.5, 0.08, said, transform=axes.transAxes, ha="center", fontsize=8)
            if row == 0:
                axes.set_title(each.label, fontsize=9)
            axes.grid(alpha=0.25)
        panels[row][0].set_ylabel("speed (m/s)")
    for axes in panels[-1]:
        axes.set_xlabel("time (s)")
    panels[0][0].legend(fontsize=8, loc="center")
    figure.suptitle(
        f"Speed of the judge {gap.judge} and true speed, of each set the run with the median E",
        fontsize=10,
    )
    save_figure(figure, file)


def _sets(gap: "Gap") -> list[RunSet]:
    return [gap.real, *(model.simulated for model in gap.models)]


def _manoeuvres(gap: "Gap") -> list[str]:
    """Return the manoeuvres that some simulated set has in common with the real runs; one empty
    name if nothing is named alike."""
    simulated = {run.manoeuvre for model in gap.models for run in model.simulated.runs}
    return sorted({run.manoeuvre for run in gap.real.runs} & simulated) or [""]


def _of(runs: RunSet, manoeuvre: str) -> RunSet:
    return RunSet(
        runs.label, [run for run in runs.runs if not manoeuvre or run.manoeuvre == manoeuvre]
    )


def _median_run(runs: RunSet) -> JudgedRun | None:
    ordered = sorted(runs.runs, key=lambda run: run.measured.values["E"])
    return ordered[len(ordered) // 2] if ordered else None


def _values(runs: RunSet, name: str) -> Array:
    values = np.array([run.measured.values[name] for run in runs.runs], dtype=np.float64)
    return values[np.isfinite(values)]


def _band(real: Array) -> tuple[Array, Array, Array]:
    """Return the central 95 % of the quantiles of a random half of the real runs, and their
    levels."""
    random = np.random.default_rng(1)
    levels = np.linspace(0.0, 1.0, _POINTS)
    halves = np.stack(
        [np.quantile(random.permutation(real)[: len(real) // 2], levels) for _ in range(_HALVES)]
    )
    low, high = np.quantile(halves, (0.025, 0.975), axis=0)
    return low, high, levels
