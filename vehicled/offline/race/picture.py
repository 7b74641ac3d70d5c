"""Picture of a race line: the track, the line coloured by its speed, the driven laps, and the
speeds along it."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from vehicled.core.arrays import Array
from vehicled.offline.race.drive import DrivenLap
from vehicled.offline.race.line import RaceLine
from vehicled.run.output import new_figure, save_figure

# Okabe and Ito, without the colours that the speed's scale has; dashes differ for black and white.
_DRIVEN = (
    ("#d55e00", (0, (5, 2))),
    ("#cc79a7", (0, (2, 1.5))),
    ("#000000", (0, (1, 1))),
    ("#8a5f00", "-."),
)
_TRACK, _WALL = "#ececec", "#606060"


def plot_race(line: RaceLine, laps: Sequence[DrivenLap], file: str) -> None:
    """Draw a line and what was driven into a file. Raises SetupError if it cannot be written."""
    import matplotlib
    from matplotlib.collections import LineCollection

    track = line.track
    with matplotlib.rc_context({"font.size": 8, "svg.fonttype": "none", "pdf.fonttype": 42}):
        size = np.ptp(np.vstack((track.left_wall_m, track.right_wall_m)), axis=0)
        scale = min(8.0 / size[0], 6.5 / size[1])
        figure = new_figure(max(scale * size[0], 5.0) + 1.4, max(scale * size[1], 2.5) + 3.2)
        area, below = figure.subplots(2, 1, height_ratios=(max(scale * size[1], 2.5), 1.7))
        outer = max((track.left_wall_m, track.right_wall_m), key=lambda wall: abs(_area(wall)))
        inner = track.left_wall_m if outer is track.right_wall_m else track.right_wall_m
        area.fill(outer[:, 0], outer[:, 1], color=_TRACK, lw=0)
        area.fill(inner[:, 0], inner[:, 1], color="white", lw=0)
        for wall in (outer, inner):
            ring = np.vstack((wall, wall[:1]))
            area.plot(ring[:, 0], ring[:, 1], color=_WALL, lw=0.8)
        points = np.column_stack((line.x_m, line.y_m))
        ring = np.vstack((points, points[:1]))
        segments: Any = np.stack((ring[:-1], ring[1:]), axis=1)
        coloured = area.add_collection(
            LineCollection(
                segments,
                array=line.speed_mps,
                cmap="viridis",
                linewidths=2.6,
                zorder=3,
            )
        )
        figure.colorbar(coloured, ax=area, label="speed of the line (m/s)", shrink=0.8)
        for k, lap in enumerate(laps):
            colour, dashes = _DRIVEN[k % len(_DRIVEN)]
            area.plot(
                lap.x_m, lap.y_m, color=colour, ls=dashes, lw=1.1, zorder=4, label=lap.controller
            )
        step = points[min(8, len(points) - 1)] - points[0]
        area.annotate(
            "",
            points[0] + step / np.hypot(*step) * 0.06 * size.max(),
            points[0],
            arrowprops={"arrowstyle": "-|>", "color": "black"},
            zorder=6,
        )
        area.plot(*points[0], "o", color="black", ms=4, zorder=6, label="start")
        area.set(xlabel="x, east (m)", ylabel="y, north (m)", aspect="equal")
        figure.legend(loc="outside upper center", ncols=5, frameon=False)
        below.plot(line.s_m, line.speed_mps, color="#0072b2", lw=1.4)
        below.set(
            xlabel="distance along the line (m)", ylabel="speed (m/s)", xlim=(0.0, line.length_m)
        )
        below.set_ylim(bottom=0.0)
        below.grid(color="#e0e0e0", lw=0.6)
        below.set_title(
            f"line of {line.length_m:.1f} m, ideal lap {line.lap.time_s:.2f} s", loc="left"
        )
        save_figure(figure, file)


def _area(points: Array) -> float:
    x, y = points[:, 0], points[:, 1]
    return 0.5 * float((x * np.roll(y, -1) - np.roll(x, -1) * y).sum())
