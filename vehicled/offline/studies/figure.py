"""Figure of a study for a paper: a metric over a factor, a line for each level of another, with bootstrap intervals."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vehicled.offline.studies.conduct import RunRow
from vehicled.offline.studies.report import Finished
from vehicled.offline.studies.statistics import effects
from vehicled.run.output import new_figure, save_figure

_WIDTH_IN, _HEIGHT_IN = 3.5, 2.4
"""One column of a two-column paper."""


def write_figure(study: Finished, output: Path, metrics: Sequence[str], x: str, lines: str = "") -> None:
    """Draw one panel for each metric over the factor ``x``, with a line for each level of ``lines``."""
    import matplotlib as mpl

    groups: dict[str, list[RunRow]] = {}
    for row in study.rows:
        groups.setdefault(str(row.levels.get(lines, "")) if lines else "", []).append(row)
    style: Any = {"font.size": 8, "axes.spines.top": False, "axes.spines.right": False, "pdf.fonttype": 42, "svg.fonttype": "none"}
    with mpl.rc_context(style):
        figure = new_figure(_WIDTH_IN * len(metrics), _HEIGHT_IN)
        panels = figure.subplots(1, len(metrics), squeeze=False)
        for panel, metric in zip(panels[0], metrics, strict=True):
            for name, rows in groups.items():
                found = [each for each in effects(rows, x, metric) if each.mean == each.mean]
                numeric = all(isinstance(each.level, int | float) for each in found)
                places = [each.level for each in found] if numeric else list(range(len(found)))
                means = [each.mean for each in found]
                (line,) = panel.plot(places, means, "o-" if numeric else "o", ms=2.5, lw=1, label=name)
                low, high = [each.low for each in found], [each.high for each in found]
                if numeric:
                    panel.fill_between(places, low, high, color=line.get_color(), alpha=0.2, lw=0)
                else:
                    panel.vlines(places, low, high, color=line.get_color(), lw=1)
                    panel.set_xticks(places, [str(each.level) for each in found], rotation=30, ha="right")
            panel.set_xlabel(x)
            panel.set_ylabel(metric)
            panel.set_ylim(bottom=min(0.0, panel.get_ylim()[0]))
        if lines:
            panels[0][-1].legend(title=lines, frameon=False)
        save_figure(figure, output)
