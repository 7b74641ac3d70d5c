"""Plot of a fleet: the map with the ways and bodies of all vehicles, speeds and distances over
time."""

from collections.abc import Sequence
from itertools import combinations
from math import cos, sin
from typing import TYPE_CHECKING, Any

import numpy as np

from vehicled.core.arrays import Array, hypotenuse
from vehicled.offline.twin.scene_plot import things_of_plan
from vehicled.run.fleet import FleetPlan, FleetVehiclePlan
from vehicled.run.fleet_result import FleetOutcome, VehicleResult
from vehicled.run.output import new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito: distinguishable for all eyes; the dashes differ for black and white.
_COLOURS = ("#000000", "#e69f00", "#56b4e9", "#009e73", "#d55e00", "#0072b2", "#cc79a7", "#999999")
_DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)))
_BODIES = 12
"""Number of instants at which the bodies are drawn."""
_MOST_PAIRS = 8
_OUTSIDE_M = 5e5


def plot_fleet(plan: FleetPlan, outcome: FleetOutcome, file: str) -> None:
    """Plot into ``file`` (PNG, SVG or PDF by extension). Raises :class:`SetupError` if it cannot be
    written."""
    import matplotlib

    with matplotlib.rc_context({"font.size": 9, "pdf.fonttype": 42, "svg.fonttype": "none"}):
        figure = new_figure(10, 5.4)
        grid = figure.add_gridspec(2, 2, width_ratios=(1.3, 1))
        area = figure.add_subplot(grid[:, 0])
        speeds, distances = figure.add_subplot(grid[0, 1]), figure.add_subplot(grid[1, 1])
        things = things_of_plan(plan.vehicles[0].plan)
        if things is not None:
            things(area)
        for vehicle in plan.vehicles:
            course = vehicle.plan.course
            area.plot(course.x_m, course.y_m, color="#d0d0d0", lw=3.0, zorder=0)
        for number, (vehicle, result) in enumerate(
            zip(plan.vehicles, outcome.vehicles, strict=True)
        ):
            if result.trace:
                _draw(area, speeds, vehicle, result, _style(number))
        for trace in outcome.cars:
            _draw_car(area, np.array(trace), outcome.car_outline_m)
        area.set(xlabel="east (m)", ylabel="north (m)")
        area.set_aspect("equal", adjustable="datalim")
        speeds.set(ylabel="speed (m/s)")
        _draw_distances(distances, outcome.vehicles)
        distances.set(xlabel="time (s)", ylabel="distance (m)")
        distances.set_ylim(bottom=0.0)
        figure.legend(
            *speeds.get_legend_handles_labels(), loc="outside lower center", ncols=8, frameon=False
        )
        save_figure(figure, file)


def _draw_car(area: "Axes", trace: Array, outline_m: Sequence[float]) -> None:
    """Draw a car of the other traffic: its way, and its body at the end."""
    # A car that waits outside the scene has a place far away.
    here = np.abs(trace[:, 1]) < _OUTSIDE_M
    x_m, y_m = (np.where(here, column, np.nan) for column in trace[:, 1:3].T)
    area.plot(x_m, y_m, color="#999999", lw=0.8, zorder=1)
    if here[-1]:
        area.fill(*_corners(outline_m, trace[-1, 1:4]).T, color="#777777", zorder=2)


def _corners(outline_m: Sequence[float], pose: Array) -> Array:
    """Return the corners (5, 2) of a body at a pose."""
    front, rear, half = outline_m
    outline = np.array(
        [(front, half), (-rear, half), (-rear, -half), (front, -half), (front, half)]
    )
    x, y, yaw = pose.tolist()
    c, s = cos(yaw), sin(yaw)
    corners: Array = outline @ np.array([[c, s], [-s, c]]) + (x, y)
    return corners


def _style(number: int) -> dict[str, Any]:
    return {
        "color": _COLOURS[number % len(_COLOURS)],
        "ls": _DASHES[number % len(_DASHES)],
        "lw": 1.4,
    }


def _draw(
    area: "Axes",
    speeds: "Axes",
    vehicle: FleetVehiclePlan,
    result: VehicleResult,
    style: dict[str, Any],
) -> None:
    trace = np.array(result.trace)
    area.plot(trace[:, 1], trace[:, 2], **style)
    speeds.plot(trace[:, 0], trace[:, 4], label=result.name, **style)
    outline_m = vehicle.plan.loaded.profile.vehicle.outline
    shown = np.unique(np.linspace(0, len(trace) - 1, _BODIES).round().astype(int))
    for row in shown.tolist():
        corners = _corners(outline_m, trace[row, 1:4])
        last = row == len(trace) - 1
        area.fill(*corners.T, color=style["color"], alpha=0.9 if last else 0.25, lw=0)
    area.annotate(
        result.name, (trace[-1, 1], trace[-1, 2]), xytext=(4, 4), textcoords="offset points"
    )


def _draw_distances(area: "Axes", vehicles: Sequence[VehicleResult]) -> None:
    """Draw the distances of the pairs that came nearest, from reference point to reference
    point."""
    traces = [(each.name, np.array(each.trace)) for each in vehicles if each.trace]
    pairs: list[tuple[str, Array, Array]] = []
    for (one, first), (other, second) in combinations(traces, 2):
        rows = min(len(first), len(second))
        gap = hypotenuse(first[:rows, 1] - second[:rows, 1], first[:rows, 2] - second[:rows, 2])
        pairs.append((f"{one} - {other}", first[:rows, 0], gap))
    pairs.sort(key=lambda pair: float(pair[2].min()))
    for number, (label, time_s, gap) in enumerate(pairs[:_MOST_PAIRS]):
        area.plot(time_s, gap, label=label, **_style(number))
    if pairs:
        area.legend(fontsize=7, frameon=False, ncols=2)
