"""Drawing of the circle tests: one of them on the map and over time, all of them as bars."""

from collections.abc import Sequence

import numpy as np

from vehicled.offline.replications.experiments.ekf_circle import PUBLISHED, CircleRow, CircleTrace
from vehicled.run.output import new_figure, save_figure

_COLOURS = {
    "measurement": "#9aa5b1", "ekf4_published": "#d1495b", "ekf4_published+drive": "#e8a13a", "ekf4_paper": "#f2a7c3",
    "ekf4_paper+drive": "#c77dff", "ekf4_paper+drive+noise": "#7a4fbf", "ekf4": "#0b6e4f", "planar": "#2e5eaa",
}  # fmt: skip
_OTHERS = ("#8a5a44", "#3aa6a6", "#4f4f4f")
SHOWN_S = 60.0
"""Time of the test shown on the map: more circles would hide each other."""


def plot(traces: Sequence[CircleTrace], rows: Sequence[CircleRow], file: str) -> None:
    """Draw into ``file`` (PNG, SVG or PDF by its ending). Raises :class:`SetupError` when it cannot be written."""
    names = list(rows[0].mean_m)
    spare = iter(_OTHERS * (1 + len(names) // len(_OTHERS)))
    colours = {name: _COLOURS.get(name) or next(spare) for name in names}
    # The median test speaks for all.
    shown = int(np.argsort([row.mean_m["measurement"] for row in rows])[len(rows) // 2])
    trace = traces[shown]
    points = {"measurement": trace.measured_m, **trace.estimates_m}
    last = trace.t_s >= trace.t_s[-1] - SHOWN_S

    figure = new_figure(13, 7.5)
    grid = figure.add_gridspec(2, 2, width_ratios=(1, 1.5))
    area = figure.add_subplot(grid[:, 0])
    area.plot(*trace.truth_m[last].T, color="black", lw=1.6, label="truth")
    for name, xy in points.items():
        area.plot(*xy[last].T, color=colours[name], lw=1.0, label=name)
    area.set_aspect("equal", adjustable="datalim")
    area.set(xlabel="east (m)", ylabel="north (m)", title=f"test {rows[shown].test}, last {min(SHOWN_S, trace.t_s[-1]):.0f} s")
    area.legend(loc="upper left", frameon=True)

    error = figure.add_subplot(grid[0, 1])
    for name, xy in points.items():
        error.plot(trace.t_s, np.hypot(*(xy - trace.truth_m).T), color=colours[name], lw=1.2, label=name)
    error.set(xlabel="time (s)", ylabel="position error (m)", title=f"test {rows[shown].test}", ylim=(0.0, None))

    bars = figure.add_subplot(grid[1, 1])
    published = {"published: measured": PUBLISHED["mean_error_measurement_m"], "published: EKF": PUBLISHED["mean_error_ekf_m"]}
    heights = {**{k: v[: len(rows)] for k, v in published.items()}, **{n: tuple(r.mean_m[n] for r in rows) for n in names}}
    width = 0.8 / len(heights)
    fills = {"published: measured": "#dfe3e8", "published: EKF": "#f0c0c6", **colours}
    for k, (name, values) in enumerate(heights.items()):
        at = np.arange(1, len(values) + 1) + (k - 0.5 * (len(heights) - 1)) * width
        bars.bar(at, values, width, color=fills[name], label=name)
    bars.set(xlabel="test", ylabel="mean position error (m)", title="all tests, the published ones beside them")
    if len(rows) <= 20:
        bars.set_xticks(range(1, len(rows) + 1))
    bars.legend(ncols=3, fontsize="small", frameon=False)
    for axes in (area, error, bars):
        axes.grid(alpha=0.25)
    save_figure(figure, file)
