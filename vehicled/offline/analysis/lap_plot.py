"""Plot of a drive: the map with the speed by colour and the worst places enlarged, and the errors
over time."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import hypot, isfinite, isnan
from typing import TYPE_CHECKING, Any

from vehicled.paths.course import Course
from vehicled.run.judge import TracePoint
from vehicled.run.output import new_figure, save_figure
from vehicled.run.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    Drawing = Callable[[Axes], None]

# Grey, black and light orange of Okabe and Ito: distinguishable for all eyes; widths and dashes
# differ for black and white.
_COURSE: dict[str, Any] = {"color": "#b0b0b0", "lw": 4.0, "solid_capstyle": "butt"}
_TRUTH: dict[str, Any] = {"color": "black", "lw": 1.8}
_ESTIMATE: dict[str, Any] = {"color": "#e69f00", "lw": 1.2, "ls": (0, (4, 2))}
_STYLE: Any = {
    "font.size": 9,
    "axes.labelsize": 9,
    "axes.titlesize": 9,
    "legend.fontsize": 8,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
}
_PLATE = {"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none"}
_ZOOMS = 2
_LEAST_HALF_M = 1.0
_RUN_IN_S = 1.0
"""Time after the start that is not searched for the worst places, s, because the drive begins with
an initial error."""


def plot_drive(
    course: Course,
    trace: Sequence[TracePoint],
    result: Result,
    file: str,
    things: "Drawing | None" = None,
) -> None:
    """Plot into ``file`` (PNG, SVG or PDF by extension), with what ``things`` draws on a map.
    Raises :class:`SetupError` if it cannot be written."""
    import matplotlib

    with matplotlib.rc_context(_STYLE):
        places = _worst_places(trace)
        figure = new_figure(10, 7.4)
        grid = figure.add_gridspec(
            5, 3, width_ratios=(1.5, 1, 1), height_ratios=(1.1, 1.1, 1, 1, 1)
        )
        area = figure.add_subplot(grid[:, 0])
        _map(area, course, trace, things)
        heat = _heat(area, trace)
        if heat is not None:
            figure.colorbar(
                heat,
                ax=area,
                location="bottom",
                shrink=0.8,
                pad=0.01,
                label="speed of the vehicle (m/s)",
            )
        area.plot(course.x_m[0], course.y_m[0], "o", color="black", ms=5, label="start")
        area.margins(x=0.12)
        area.set_aspect("equal", adjustable="datalim")
        middle_m = 0.5 * float(course.x_m.min() + course.x_m.max())
        area.set(xlabel="east (m)", ylabel="north (m)")
        figure.legend(
            *area.get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False
        )
        t, marks = _along(figure, grid, trace, places)
        for number, ((x, y), half, t_s) in enumerate(places):
            name = "ab"[number]
            zoom = figure.add_subplot(grid[:2, 1 + number])
            _map(zoom, course, trace, things)
            zoom.set(xlim=(x - half, x + half), ylim=(y - half, y + half), xlabel="east (m)")
            zoom.set_aspect("equal")
            zoom.locator_params(nbins=5)
            if number == 0:
                zoom.set_ylabel("north (m)")
            zoom.set_title(f"({name}) {_off_m(trace, t_s):.2f} m off the course")
            area.indicate_inset(
                (x - half, y - half, 2 * half, 2 * half), edgecolor="black", alpha=1.0, lw=0.8
            )
            # Put the label outside, away from the course.
            edge, gap, side = (x + half, 3, "left") if x > middle_m else (x - half, -3, "right")
            area.annotate(
                f"({name})",
                (edge, y),
                xytext=(gap, 0),
                textcoords="offset points",
                ha=side,
                va="center",
                bbox=_PLATE,
            )
            for axes in marks:
                axes.axvline(t_s - t, color="black", lw=0.7, ls=":")
            marks[0].annotate(
                f"({name})",
                (t_s - t, 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(2, -9),
                textcoords="offset points",
            )
        figure.suptitle(_title(result), fontsize=10)
        save_figure(figure, file)


def _map(
    axes: "Axes", course: Course, trace: Sequence[TracePoint], things: "Drawing | None"
) -> None:
    if things is not None:
        things(axes)
    samples = [*range(len(course.x_m)), *([0] if course.closed else [])]
    axes.plot(course.x_m[samples], course.y_m[samples], label="course", **_COURSE)
    axes.plot([p.x_m for p in trace], [p.y_m for p in trace], label="vehicle (truth)", **_TRUTH)
    axes.plot(
        [p.estimate_x_m for p in trace],
        [p.estimate_y_m for p in trace],
        label="estimate",
        **_ESTIMATE,
    )
    axes.grid(alpha=0.25)


def _heat(axes: "Axes", trace: Sequence[TracePoint]) -> Any:
    """Draw the true path with the speed by colour; None without a path."""
    from matplotlib.collections import LineCollection

    if len(trace) < 2:
        return None
    pieces = [((a.x_m, a.y_m), (b.x_m, b.y_m)) for a, b in pairwise(trace)]
    drawn = LineCollection(pieces, cmap="plasma", lw=3.0, capstyle="round", zorder=3)
    drawn.set_array([abs(point.speed_mps) for point in trace[1:]])
    drawn.set_clim(vmin=0.0)
    axes.add_collection(drawn)
    return drawn


def _along(
    figure: Any, grid: Any, trace: Sequence[TracePoint], places: Sequence[Any]
) -> "tuple[float, list[Axes]]":
    """Draw the errors and the speed over time; return the time of the start and the axes."""
    first = 2 if places else 0
    start_s = trace[0].t_s if trace else 0.0
    t = [point.t_s - start_s for point in trace]
    error = figure.add_subplot(grid[first if places else slice(0, 2), 1:])
    error.plot(t, [p.cross_track_m for p in trace], **(_TRUTH | {"lw": 1.0}))
    error.axhline(0, color="black", lw=0.6)
    error.set(ylabel="cross-track\nerror (m)")
    off = figure.add_subplot(grid[3 if places else 2, 1:], sharex=error)
    off.plot(
        t,
        [hypot(p.estimate_x_m - p.x_m, p.estimate_y_m - p.y_m) for p in trace],
        **(_TRUTH | {"lw": 0.8}),
    )
    off.set(ylabel="estimate\noff by (m)", ylim=(0, None))
    speed = figure.add_subplot(grid[4 if places else slice(3, 5), 1:], sharex=error)
    speed.plot(t, [p.target_speed_mps for p in trace], label="target", **(_COURSE | {"lw": 3.0}))
    speed.plot(t, [p.speed_mps for p in trace], label="vehicle", **(_TRUTH | {"lw": 0.8}))
    speed.set(ylabel="speed (m/s)", xlabel="time under way (s)")
    speed.legend(loc="lower center", ncols=2, frameon=False)
    for axes in (error, off, speed):
        axes.grid(alpha=0.25)
    for axes in (error, off):
        axes.tick_params(labelbottom=False)
    figure.align_ylabels((error, off, speed))
    return start_s, [error, off, speed]


def _worst_places(trace: Sequence[TracePoint]) -> list[tuple[tuple[float, float], float, float]]:
    """Return middle, half width and time of the places furthest from the course, one per corner;
    none without a course."""
    judged = [p for p in trace if isfinite(p.cross_track_m) and p.t_s >= trace[0].t_s + _RUN_IN_S]
    if not judged:
        return []
    size_m = max(
        max(p.x_m for p in judged) - min(p.x_m for p in judged),
        max(p.y_m for p in judged) - min(p.y_m for p in judged),
    )
    half_m = max(_LEAST_HALF_M, 4.0 * max(abs(p.cross_track_m) for p in judged), 0.025 * size_m)
    found: list[TracePoint] = []
    for point in sorted(judged, key=lambda p: -abs(p.cross_track_m)):
        if all(
            hypot(point.x_m - other.x_m, point.y_m - other.y_m) > 3.0 * half_m for other in found
        ):
            found.append(point)
        if len(found) == _ZOOMS:
            break
    return [((p.x_m, p.y_m), half_m, p.t_s) for p in sorted(found, key=lambda p: p.t_s)]


def _off_m(trace: Sequence[TracePoint], t_s: float) -> float:
    return next(abs(p.cross_track_m) for p in trace if p.t_s == t_s)


def _title(result: Result) -> str:
    """Return the title: what was driven, and the errors if a course was driven in AUTO mode."""
    if result.programme or isnan(result.cross_track_m.mean):
        driven = f"by programme {result.programme}" if result.programme else f"on {result.course}"
        return f"{result.profile} {driven}, seed {result.seed}: {result.why}"
    verdict = "finished" if result.finished else f"not finished: {result.why}"
    errors = (
        f"mean cross-track error {result.cross_track_m.mean:.3f} m, max "
        f"{result.cross_track_m.max:.3f} m"
    )
    title = (
        f"{result.profile} on {result.course}, {result.controller}, seed {result.seed}: {verdict}"
    )
    return f"{title}\n{errors}, {result.driving_s:.0f} s"
