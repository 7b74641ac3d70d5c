"""Plot of the differences of a replay: both estimates on the map, and the differences over time."""

from typing import Any

from vehicled.offline.replay.drive import WHAT_IF, ReplayResult
from vehicled.offline.replay.numbers import DifferenceMeter
from vehicled.paths.course import Course
from vehicled.run.output import new_figure, save_figure

_COURSE, _LOG, _NOW, _TRUTH = "#9aa5b1", "#1b6ca8", "#d1495b", "#0b6e4f"


def plot_replay(course: Course, meter: DifferenceMeter, result: ReplayResult, file: str) -> None:
    """Plot into ``file`` (PNG, SVG or PDF by extension). Raises :class:`SetupError` if it cannot be
    written."""
    trace, commands = meter.trace or [], meter.commands or []
    figure = new_figure(13, 8)
    grid = figure.add_gridspec(5, 2, width_ratios=(1.1, 1))
    _map(figure.add_subplot(grid[:, 0]), course, meter)

    t = [p.t_s for p in trace]
    first = figure.add_subplot(grid[0, 1])
    _difference(first, t, [p.position_m for p in trace], "position\n(m)")
    first.set_title("estimate, now minus log", fontsize=10)
    _difference(
        figure.add_subplot(grid[1, 1], sharex=first),
        t,
        [p.yaw_rad for p in trace],
        "heading\n(rad)",
    )
    _difference(
        figure.add_subplot(grid[2, 1], sharex=first),
        t,
        [p.speed_mps for p in trace],
        "speed\n(m/s)",
    )
    t = [p.t_s for p in commands]
    wheel = figure.add_subplot(grid[3, 1], sharex=first)
    wheel.set_title("command", fontsize=10)
    _both(
        wheel,
        t,
        [p.log_wheel_rad for p in commands],
        [p.now_wheel_rad for p in commands],
        "wheel angle\n(rad)",
    )
    drive = figure.add_subplot(grid[4, 1], sharex=first)
    _both(
        drive, t, [p.log_throttle - p.log_brake for p in commands],
        [p.now_throttle - p.now_brake for p in commands], "throttle\nminus brake",
    )  # fmt: skip
    drive.set(xlabel="time of the run (s)")
    for axes in (first, wheel):
        axes.tick_params(labelbottom=False)
    for parting in result.partings:
        for axes in figure.axes[1:]:
            axes.axvspan(
                parting.t_s,
                result.replayed_s if parting.until_s is None else parting.until_s,
                color=_COURSE,
                alpha=0.4,
            )
    figure.suptitle(_title(result))
    save_figure(figure, file)


def _title(result: ReplayResult) -> str:
    what = (
        f"what if {', '.join(result.changed)} (open loop)"
        if result.verdict == WHAT_IF
        else "replay differences"
    )
    numbers = result.numbers
    assert numbers is not None
    position = (
        f"position difference {numbers.position_m.rms:.3g} m RMS, {numbers.position_m.max:.3g} "
        "m max"
    )
    return f"{what}\n{position}; wheel angle difference {numbers.wheel_angle_rad.max:.3g} rad max"


def _map(area: Any, course: Course, meter: DifferenceMeter) -> None:
    trace = meter.trace or []
    samples = [*range(len(course.x_m)), *([0] if course.closed else [])]
    area.plot(
        course.x_m[samples], course.y_m[samples], color=_COURSE, lw=4, alpha=0.5, label="course"
    )
    if len(meter.truth) > 2:
        area.plot(
            [p.x_m for p in meter.truth],
            [p.y_m for p in meter.truth],
            color=_TRUTH,
            lw=1.2,
            label="vehicle (truth)",
        )
    area.plot(
        [p.log_x_m for p in trace],
        [p.log_y_m for p in trace],
        color=_LOG,
        lw=1.4,
        label="estimate in the log",
    )
    area.plot(
        [p.now_x_m for p in trace],
        [p.now_y_m for p in trace],
        color=_NOW,
        lw=0.9,
        ls="--",
        label="estimate now",
    )
    area.set_aspect("equal", adjustable="datalim")
    area.set(xlabel="east (m)", ylabel="north (m)")
    area.legend(loc="best", frameon=True)
    area.grid(alpha=0.25)


def _difference(axes: Any, t: list[float], values: list[float], label: str) -> None:
    axes.plot(t, values, color=_NOW, lw=0.9)
    axes.axhline(0, color="black", lw=0.6)
    axes.set(ylabel=label)
    axes.grid(alpha=0.25)
    axes.tick_params(labelbottom=False)


def _both(axes: Any, t: list[float], log: list[float], now: list[float], label: str) -> None:
    axes.plot(t, log, color=_LOG, lw=1.4, label="log")
    axes.plot(t, now, color=_NOW, lw=0.9, ls="--", label="now")
    axes.set(ylabel=label)
    axes.grid(alpha=0.25)
    axes.legend(loc="upper right", fontsize=8, ncols=2)
