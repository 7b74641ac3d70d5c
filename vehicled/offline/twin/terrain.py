"""Command ``vehicled twin terrain``: summarise a terrain file as the simulator reads it."""

from argparse import Namespace
from math import atan, degrees, isfinite
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from sim_backend.terrain.raster import Raster, filled
from sim_backend.terrain.reading import read_raster
from vehicled.core.arrays import Array
from vehicled.core.errors import SetupError
from vehicled.run.command_line import CommandParser
from vehicled.run.output import check_plot_file, new_figure, save_figure
from vehicled.run.terminal import print_table

MOST_DRAWN = 2_000_000
"""Largest number of plotted nodes; denser grids are thinned."""


def declare_twin_terrain(parser: CommandParser) -> None:
    """Read a point cloud or a raster as [sim.terrain] does, and summarise it."""
    parser.add_argument(
        "file",
        metavar="FILE",
        help="point cloud (.las .laz .ply .xyz .txt .pts) or raster (.tif .png .csv)",
    )
    parser.add_argument(
        "--resolution",
        type=float,
        default=0.25,
        metavar="M",
        help="grid cell for point clouds (default 0.25)",
    )
    parser.add_argument("--friction", metavar="FILE", help="friction file to show with it")
    parser.add_argument("--plot", metavar="PNG", help="plot it into this file (needs matplotlib)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: Namespace) -> int:
    """Read, print and plot. Raises :class:`SetupError`."""
    if not (isfinite(arguments.resolution) and arguments.resolution > 0.0):
        raise SetupError(
            f"--resolution {arguments.resolution:g}: the cell size must be greater than 0"
        )
    if arguments.plot:
        check_plot_file(Path(arguments.plot))
    height = read_raster(arguments.file, arguments.resolution)
    friction = read_raster(arguments.friction, arguments.resolution) if arguments.friction else None
    found = figures(height, friction)
    if arguments.plot:
        _plot(height, friction, Path(arguments.plot))
    if arguments.json:
        print(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
        return 0
    rows = [[name.replace("_", " "), _shown(value)] for name, value in found.items()]
    print_table("", ("figure", "value"), rows)
    if found["holes"]:
        print(f"{found['holes']} nodes had no point nearby and were filled from their neighbours")
    if arguments.plot:
        print(f"plot: {arguments.plot}")
    return 0


def figures(height: Raster, friction: Raster | None = None) -> dict[str, Any]:
    """Return extent, resolution, heights, slopes and holes; slopes between neighbouring nodes, with
    holes filled."""
    values = filled(height.values)
    west, south, east, north = height.extent_m
    slope = _slope(values, height.step_m)
    found: dict[str, Any] = {
        "x_m": [west, east],
        "y_m": [south, north],
        "step_m": height.step_m,
        "nodes": [values.shape[1], values.shape[0]],
        "height_m": [float(values.min()), float(values.max())],
        "slope_median": float(np.median(slope)),
        "slope_p99": float(np.quantile(slope, 0.99)),
        "slope_most": float(slope.max()),
        "holes": height.holes,
        "holes_share": height.holes / height.values.size,
    }
    if height.points:
        found["points"] = height.points
    if friction is not None:
        grip = filled(friction.values)
        found["friction"] = [float(grip.min()), float(grip.max())]
        found["friction_holes"] = friction.holes
    return found


def _slope(values: Array, step_m: float) -> Array:
    rise = [
        np.gradient(values, step_m, axis=axis) if values.shape[axis] > 1 else np.zeros_like(values)
        for axis in (0, 1)
    ]
    return np.hypot(rise[0], rise[1])


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return " to ".join(_shown(each) for each in value)
    return (
        f"{value:.4g}"
        if isinstance(value, float) and abs(value) < 1e4
        else f"{value:.2f}"
        if isinstance(value, float)
        else str(value)
    )


def _plot(height: Raster, friction: Raster | None, file: Path) -> None:
    every = max(1, round((height.values.size / MOST_DRAWN) ** 0.5))
    values = filled(height.values)
    slopes = np.degrees(np.arctan(_slope(values, height.step_m)))
    panels: list[tuple[str, Raster, Array, str]] = [
        ("height (m)", height, values, "terrain"),
        ("slope (degrees)", height, slopes, "magma"),
    ]
    if friction is not None:
        panels.append(("friction", friction, filled(friction.values), "viridis"))
    if height.holes:
        panels.append(
            ("filled from neighbours", height, np.isnan(height.values).astype(np.float64), "Greys")
        )
    figure = new_figure(5.2 * len(panels), 4.6)
    for place, (title, raster, shown, colours) in enumerate(panels, start=1):
        area = figure.add_subplot(1, len(panels), place)
        west, south, east, north = raster.extent_m
        half = 0.5 * raster.step_m
        # Limit the colour scale, because one step in the ground would use all of it.
        most = float(np.quantile(shown, 0.995)) if title.startswith("slope") else None
        image = area.imshow(
            shown[::every, ::every],
            origin="lower",
            extent=(west - half, east + half, south - half, north + half),
            cmap=colours,
            vmax=most,
            interpolation="nearest",
        )
        area.set(title=title, xlabel="x (m)", ylabel="y (m)")
        if title != "filled from neighbours":
            figure.colorbar(image, ax=area, shrink=0.8)
    steepest = degrees(atan(float(_slope(values, height.step_m).max())))
    figure.suptitle(
        f"{height.values.shape[1]} x {height.values.shape[0]} nodes, {height.step_m:g} m "
        f"apart, up to {steepest:.0f}°"
    )
    save_figure(figure, file)
