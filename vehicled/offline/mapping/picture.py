"""Picture of a map with the driven path."""

import numpy as np

from vehicled.maps.grid import FREE, OCCUPIED
from vehicled.offline.mapping.build import Mapped
from vehicled.run.output import new_figure, save_figure


def plot_map(mapped: Mapped, file: str) -> None:
    """Draw a map. Raises :class:`SetupError` if the file cannot be written."""
    grid = mapped.grid
    rows, columns = grid.cells.shape
    left, low, _ = grid.origin
    width, height = columns * grid.resolution_m, rows * grid.resolution_m
    scale = 8.0 / max(width, height)
    figure = new_figure(max(width * scale, 3.0) + 1.0, max(height * scale, 2.5) + 0.8)
    axes = figure.subplots()
    shade = np.full(grid.cells.shape, 0.82)
    shade[grid.cells == FREE] = 1.0
    shade[grid.cells == OCCUPIED] = 0.0
    axes.imshow(shade, cmap="gray", vmin=0.0, vmax=1.0, origin="lower",
        extent=(left, left + width, low, low + height),
        interpolation="nearest")  # fmt: skip
    axes.plot(
        [p.x_m for p in mapped.poses], [p.y_m for p in mapped.poses], color="#1f5fa8", linewidth=1.0
    )
    axes.plot(mapped.poses[0].x_m, mapped.poses[0].y_m, "o", color="#c2571a", markersize=5)
    axes.set(xlabel="x, m", ylabel="y, m", aspect="equal")
    save_figure(figure, file)
