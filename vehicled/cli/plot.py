"""Drawing of a drive: the map, and the errors along it."""

from collections.abc import Sequence
from math import isnan

from vehicled.app import SetupError
from vehicled.cli.result import Result
from vehicled.judge import TracePoint
from vehicled.paths.course import Course

_COURSE, _TRUTH, _ESTIMATE, _TARGET = "#9aa5b1", "#0b6e4f", "#d1495b", "#9aa5b1"


def plot_drive(course: Course, trace: Sequence[TracePoint], result: Result, file: str) -> None:
    """Draw into ``file`` (PNG, SVG or PDF by its ending). Raises :class:`SetupError` when it cannot be written."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 7), dpi=110, layout="constrained")
    grid = figure.add_gridspec(3, 2, width_ratios=(1.15, 1))
    start_s = trace[0].t_s if trace else 0.0
    t = [point.t_s - start_s for point in trace]

    area = figure.add_subplot(grid[:, 0])
    samples = [*range(len(course.x_m)), *([0] if course.closed else [])]
    area.plot(course.x_m[samples], course.y_m[samples], color=_COURSE, lw=4, alpha=0.6, label="course")
    area.plot([p.x_m for p in trace], [p.y_m for p in trace], color=_TRUTH, lw=1.4, label="vehicle (truth)")
    area.plot([p.estimate_x_m for p in trace], [p.estimate_y_m for p in trace], color=_ESTIMATE, lw=0.8, ls="--", label="estimate")
    area.plot(course.x_m[0], course.y_m[0], "o", color="black", ms=6, label="start")
    area.set_aspect("equal", adjustable="datalim")
    area.set(xlabel="east (m)", ylabel="north (m)")
    area.legend(loc="best", frameon=True)
    area.grid(alpha=0.25)

    error = figure.add_subplot(grid[0, 1])
    error.plot(t, [p.cross_track_m for p in trace], color=_TRUTH, lw=1)
    error.axhline(0, color="black", lw=0.6)
    error.set(ylabel="cross-track\nerror (m)")
    speed = figure.add_subplot(grid[1, 1], sharex=error)
    speed.plot(t, [p.target_speed_mps for p in trace], color=_TARGET, lw=2.5, label="target")
    speed.plot(t, [p.speed_mps for p in trace], color=_TRUTH, lw=1, label="vehicle")
    speed.set(ylabel="speed (m/s)")
    speed.legend(loc="lower center", ncols=2, frameon=False)
    estimate = figure.add_subplot(grid[2, 1], sharex=error)
    estimate.plot(t, [((p.estimate_x_m - p.x_m) ** 2 + (p.estimate_y_m - p.y_m) ** 2) ** 0.5 for p in trace], color=_ESTIMATE, lw=1)
    estimate.set(ylabel="estimate off\nby (m)", xlabel="time under way (s)")
    for axes in (error, speed, estimate):
        axes.grid(alpha=0.25)
    figure.suptitle(_title(result))
    try:
        figure.savefig(file)
    except (OSError, ValueError) as error_:
        raise SetupError(f"the plot cannot be written to {file}: {error_}") from error_


def _title(result: Result) -> str:
    """What was driven and how well; no errors where no course was driven: by hand, by a programme, not at all."""
    if result.programme or isnan(result.cross_track_m.mean):
        driven = f"by programme {result.programme}" if result.programme else f"on {result.course}"
        return f"{result.profile} {driven}, seed {result.seed}: {result.why}"
    verdict = "finished" if result.finished else f"not finished: {result.why}"
    errors = f"mean cross-track error {result.cross_track_m.mean:.3f} m, max {result.cross_track_m.max:.3f} m"
    title = f"{result.profile} on {result.course}, {result.controller}, seed {result.seed}: {verdict}"
    return f"{title}\n{errors}, {result.driving_s:.0f} s"
