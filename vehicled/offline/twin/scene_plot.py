"""Picture of a scene: ground, lanes, walls and bodies, what moves, starts and courses."""

from collections.abc import Callable
from itertools import cycle
from math import cos, pi, sin
from typing import TYPE_CHECKING, Any

import numpy as np

from sim_backend.scene.anchor import anchored
from sim_backend.scene.describe import SceneView
from sim_backend.scene.reading import ground_of, load_scene
from sim_backend.scene.scene import Scene
from sim_backend.terrain.reading import load_terrain
from vehicled.run.output import new_figure, save_figure
from vehicled.run.plan import Plan

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Blue, vermilion, green and purple of Okabe and Ito: distinguishable for all eyes; dashes differ
# for black and white.
_COURSES = (
    ("#0072b2", "-"),
    ("#d55e00", (0, (6, 2))),
    ("#009e73", (0, (3, 2))),
    ("#cc79a7", (0, (1, 1.5))),
)
_LANE, _WALL, _BODY, _MOVING = "#ececec", "#303030", "#8a8a8a", "#e69f00"
_WIDEST_IN, _HIGHEST_IN = 8.0, 8.0


def plot_scene(view: SceneView, file: str) -> None:
    """Draw into ``file`` (PNG, SVG or PDF by extension). Raises SetupError if it cannot be
    written."""
    import matplotlib

    with matplotlib.rc_context({"font.size": 8, "svg.fonttype": "none", "pdf.fonttype": 42}):
        x1, y1, x2, y2 = view.extent_m
        margin = 0.03 * max(x2 - x1, y2 - y1, 1.0)
        width, height = x2 - x1 + 2.0 * margin, y2 - y1 + 2.0 * margin
        scale = min(_WIDEST_IN / width, _HIGHEST_IN / height)
        figure = new_figure(scale * width + 0.6, scale * height + 0.9)
        area = figure.add_subplot()
        area.set_aspect("equal")
        area.set_xlim(x1 - margin, x2 + margin)
        area.set_ylim(y1 - margin, y2 + margin)
        draw_scene(area, view)
        _courses(area, view)
        for name, pose in view.scene.starts.items():
            length = 0.04 * max(width, height)
            ends = (pose.x_m + length * cos(pose.yaw_rad), pose.y_m + length * sin(pose.yaw_rad))
            area.annotate(
                "", ends, pose[:2], arrowprops={"arrowstyle": "-|>", "color": "black"}, zorder=6
            )
            area.annotate(
                name, pose[:2], xytext=(0, -8), textcoords="offset points", ha="center", zorder=7
            )
        area.set_xlabel("x, east (m)")
        area.set_ylabel("y, north (m)")
        if view.courses:
            figure.legend(loc="outside upper center", ncols=4, frameon=False)
        save_figure(figure, file)


def draw_scene(area: "Axes", view: SceneView) -> None:
    """Draw ground, lanes, parking spaces, walls, bodies and what moves, within the axes' limits."""
    _ground(area, view)
    _lanes(area, view)
    for _, corners in view.parking_spaces:
        area.fill(*corners.T, facecolor="none", edgecolor="#0072b2", lw=1.0, ls=":", zorder=2)
    _solids(area, view.scene)
    _moving(area, view.scene)


def _ground(area: "Axes", view: SceneView) -> None:
    table = ground_of(view.name, view.file)
    if table is None or not table.height:
        return
    terrain = load_terrain(table)
    left, right = area.get_xlim()
    low, high = area.get_ylim()
    x, y = np.linspace(left, right, 160), np.linspace(low, high, 120)
    heights = np.array([[terrain.at(float(px), float(py))[0] for px in x] for py in y])
    shades = area.contourf(x, y, heights, 8, cmap="YlGn", alpha=0.35, zorder=0)
    area.figure.colorbar(
        shades, ax=area, location="bottom", shrink=0.5, pad=0.02, label="height (m)"
    )


def _lanes(area: "Axes", view: SceneView) -> None:
    for _, _, left, right in view.lanes:
        ring = np.vstack((left, right[::-1]))
        area.fill(ring[:, 0], ring[:, 1], color=_LANE, zorder=1, lw=0)
    for line in view.lines:
        area.plot(line[:, 0], line[:, 1], color="#b8b8b8", lw=0.8, zorder=2)


def things_of_plan(plan: Plan) -> "Callable[[Axes], None] | None":
    """Return what draws the things in the scene of a run, without a change of the axes' limits;
    None without a scene."""
    name = anchored(plan.loaded.profile, plan.loaded.path).sim.scene
    if not name:
        return None
    scene = load_scene(name, plan.course)

    def draw(area: "Axes") -> None:
        _solids(area, scene)
        _moving(area, scene)

    return draw


def _solids(area: "Axes", scene: Scene) -> None:
    from matplotlib.collections import LineCollection
    from matplotlib.patches import Circle

    if scene.cells is not None:
        for corners in scene.cells.outlines_m():
            area.fill(corners[:, 0], corners[:, 1], color=_BODY, zorder=3, lw=0)
    for outline in scene.outlines_m:
        area.fill(outline[:, 0], outline[:, 1], color=_BODY, zorder=3, lw=0)
    segments: Any = scene.segments_m.reshape(-1, 2, 2)
    area.add_collection(
        LineCollection(segments, colors=_WALL, linewidths=1.0, zorder=4), autolim=False
    )
    for _, (x, y, radius) in scene.circles:
        area.add_patch(Circle((x, y), radius, facecolor=_BODY, edgecolor=_WALL, lw=0.8, zorder=3))


def _moving(area: "Axes", scene: Scene) -> None:
    from matplotlib.patches import Circle

    for surface, thing in scene.moving:
        places = thing.places_m
        area.plot(places[:, 0], places[:, 1], color=_MOVING, lw=1.0, ls=":", zorder=4)
        x, y, yaw, _, _ = thing.state(0.0)
        if thing.radius_m is not None:
            area.add_patch(Circle((x, y), thing.radius_m, color=_MOVING, zorder=5))
        else:
            c, s = cos(yaw), sin(yaw)
            outline = np.array([(x + c * a - s * b, y + s * a + c * b) for a, b in thing.outline_m])
            area.fill(outline[:, 0], outline[:, 1], color=_MOVING, zorder=5)
        area.annotate(
            surface.name,
            (x, y),
            xytext=(4, 4),
            textcoords="offset points",
            color="#8a5f00",
            zorder=7,
        )


def _courses(area: "Axes", view: SceneView) -> None:
    # Courses on one line would hide each other, so the first of them are the wider ones.
    widths = [1.4 + 0.9 * k for k in reversed(range(len(view.courses)))]
    for (course, _), (colour, dashes), width in zip(view.courses, cycle(_COURSES), widths):
        x, y = course.x_m, course.y_m
        if course.closed:
            x, y = np.append(x, x[0]), np.append(y, y[0])
        label = course.name.rpartition("/")[2]
        area.plot(x, y, color=colour, ls=dashes, lw=width, alpha=0.85, zorder=6, label=label)
        length = 0.05 * max(np.ptp(area.get_xlim()), np.ptp(area.get_ylim()))
        backward = pi if course.speed_mps[0] < 0.0 else 0.0
        heading = float(course.yaw_rad[0]) + backward
        end = (x[0] + length * cos(heading), y[0] + length * sin(heading))
        area.annotate(
            "",
            end,
            (x[0], y[0]),
            arrowprops={"arrowstyle": "-|>", "color": colour, "lw": width},
            zorder=7,
        )
        area.plot(x[0], y[0], "o", color=colour, ms=4, zorder=7)
