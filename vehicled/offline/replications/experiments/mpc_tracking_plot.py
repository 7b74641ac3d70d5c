"""Drawing of the tracking tests: every drive over the curve, and the mean errors as bars."""

from collections.abc import Sequence

import numpy as np

from vehicled.core.arrays import Array
from vehicled.offline.replications.experiments.mpc_tracking import (
    CURVES,
    PUBLISHED,
    SYSTEMS,
    RealRow,
    TrackingRow,
    TrackingTrace,
    curve,
)
from vehicled.run.output import new_figure, save_figure

_COLOURS = ("#e8a13a", "#0b6e4f", "#d1495b", "#c77dff", "#7a4fbf", "#2e5eaa")
_REAL = "#3c3c3c"


def plot(traces: Sequence[TrackingTrace], rows: Sequence[TrackingRow], real: Sequence[tuple[RealRow, Array]], file: str) -> None:
    """Draw into ``file`` (PNG, SVG or PDF by its ending). Raises :class:`SetupError` when it cannot be written."""
    figure = new_figure(14, 9)
    grid = figure.add_gridspec(3, len(CURVES), height_ratios=(1.3, 1, 1))
    colours = {system.name: colour for system, colour in zip(SYSTEMS, _COLOURS, strict=True)}
    for number in range(len(CURVES)):
        of_curve = [trace for trace in traces if trace.trajectory == number + 1]
        area = figure.add_subplot(grid[0, number])
        line = curve(number)
        area.plot(line.x_m, line.y_m, color="black", lw=2.5, alpha=0.5, label="trajectory")
        error = figure.add_subplot(grid[1, number])
        labelled: set[str] = set()
        for trace in of_curve:
            label = "" if trace.system in labelled else trace.system
            labelled.add(trace.system)
            area.plot(*trace.truth_m.T, color=colours[trace.system], lw=0.9, label=label or None)
            way_m = np.cumsum(np.hypot(*np.diff(trace.truth_m, axis=0, prepend=trace.truth_m[:1]).T))
            error.plot(way_m, trace.error_m, color=colours[trace.system], lw=0.9)
        of_real = [places for row, places in real if row.trajectory == number + 1]
        for k, places in enumerate(of_real):
            area.plot(*places.T, color=_REAL, lw=0.9, ls="--", label=None if k else "recorded, real")
        area.set_aspect("equal", adjustable="datalim")
        area.set(xlabel="x (m)", ylabel="y (m)", title=f"trajectory {number + 1}: where the vehicle was")
        area.legend(loc="upper left", fontsize="small")
        error.set(xlabel="way (m)", ylabel="cross-track error (m)")

    bars = figure.add_subplot(grid[2, :])
    shown = [row for row in rows if row.test <= len(PUBLISHED["mean_error_sim_m"][0])]
    published = {"published: simulation": "mean_error_sim_m", "published: real": "mean_error_real_m"}
    heights = {name: [PUBLISHED[key][row.trajectory - 1][row.test - 1] for row in shown] for name, key in published.items()}
    heights |= {system.name: [row.mean_m[system.name] for row in shown] for system in SYSTEMS}
    fills = {"published: simulation": "#dfe3e8", "published: real": "#9aa5b1", **colours}
    width = 0.8 / len(heights)
    for k, (name, values) in enumerate(heights.items()):
        at = np.arange(len(values)) + (k - 0.5 * (len(heights) - 1)) * width
        bars.bar(at, values, width, color=fills[name], label=name)
    bars.set_xticks(range(len(shown)), [f"{row.trajectory} / {row.test}" for row in shown])
    bars.set(xlabel="trajectory / test", ylabel="mean cross-track error (m)")
    # Room for the legend above the bars.
    bars.set_ylim(0.0, 1.35 * max(max(values) for values in heights.values()))
    bars.legend(ncols=3, fontsize="small", frameon=False)
    for axes in figure.axes:
        axes.grid(alpha=0.25)
    save_figure(figure, file)
