"""Pictures of the case studies, one for each."""

from collections.abc import Sequence
from itertools import cycle, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from sim_backend.scene.describe import view_of
from vehicled.offline.race.picture import plot_race
from vehicled.offline.replications.case_studies.declarations import (
    CaseStudy,
    OffRoadStudy,
    ParkingStudy,
    RacingStudy,
    TrackingStudy,
)
from vehicled.offline.replications.case_studies.driving import CaseDriven
from vehicled.offline.replications.case_studies.judging import (
    CaseOutcome,
    RaceOutcome,
    body_m,
    ground_along,
    space_of,
)
from vehicled.offline.twin.scene_plot import draw_scene
from vehicled.run.output import new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Blue, vermilion and green of Okabe and Ito; dashes differ for black and white.
_FORWARD, _BACKWARD, _BODY = "#0072b2", "#d55e00", "#009e73"
_LINES = ("-", (0, (5, 2)), (0, (2, 1.5)), "-.")
_BODIES = 14
"""Outlines of the body along a way."""
_AROUND = 1.6
"""Half width of the map around the way and around a parking space, in lengths of the vehicle."""


def draw(study: CaseStudy, outcomes: Sequence[CaseOutcome], file: str) -> None:
    """Draw the outcomes of a study into a file. Raises SetupError if it cannot be written."""
    if isinstance(study, RacingStudy):
        for race in outcomes:
            assert isinstance(race, RaceOutcome)
            plot_race(race.line, [race.lap], file)
        return
    drives = [outcome for outcome in outcomes if isinstance(outcome, CaseDriven)]
    import matplotlib

    with matplotlib.rc_context({"font.size": 8, "svg.fonttype": "none", "pdf.fonttype": 42}):
        match study:
            case ParkingStudy():
                _parking(study, drives[0], file)
            case OffRoadStudy():
                _off_road(drives[0], file)
            case TrackingStudy():
                _tracking(drives, file)


def _parking(study: ParkingStudy, done: CaseDriven, file: str) -> None:
    view = view_of(done.drive.scene)
    figure = new_figure(10.0, 4.2)
    area, near = figure.subplots(1, 2, width_ratios=(1.7, 1.0))
    around = _AROUND * done.length_m
    x, y = done.poses[:, 1], done.poses[:, 2]
    pose, size = space_of(view, study.space)
    half = max(0.5 * max(size), done.length_m) * 1.15
    _limits(area, x.min() - around, x.max() + around, y.min() - around, y.max() + around)
    _limits(near, pose.x_m - half, pose.x_m + half, pose.y_m - half, pose.y_m + half)
    for axes, bodies in ((area, _BODIES), (near, 3 * _BODIES)):
        draw_scene(axes, view)
        _way(axes, done)
        for row in _spaced(done, bodies):
            _outline(axes, done, row, lw=0.5, alpha=0.5)
        _outline(axes, done, done.end, lw=1.8, alpha=1.0)
    standing = f"gear {done.gear}" if done.gear else "standing"
    near.set_title(f"{standing}, 3 s after the last command", loc="left")
    area.set_title(f"{study.title}, {done.drive.scene}", loc="left")
    area.legend(loc="upper left", frameon=True)
    save_figure(figure, file)


def _off_road(done: CaseDriven, file: str) -> None:
    view = view_of(done.drive.scene)
    figure = new_figure(8.2, 8.0)
    area, below = figure.subplots(2, 1, height_ratios=(3.4, 1.0))
    x, y = done.poses[:, 1], done.poses[:, 2]
    around = _AROUND * max(done.length_m, 2.0)
    _limits(area, x.min() - around, x.max() + around, y.min() - around, y.max() + around)
    draw_scene(area, view)
    _way(area, done)
    for row in _spaced(done, 3 * _BODIES):
        _outline(area, done, row, lw=0.7, alpha=0.8)
    heights, _, _ = ground_along(view, done)
    below.plot(_distance(done), heights, color="#000000", lw=1.4)
    below.set(xlabel="distance driven (m)", ylabel="height of the ground (m)")
    speed = below.twinx()
    speed.plot(_distance(done), done.speeds_mps, color=_FORWARD, lw=0.9)
    speed.set_ylabel("speed (m/s)", color=_FORWARD)
    speed.set_ylim(bottom=0.0)
    below.grid(alpha=0.25)
    save_figure(figure, file)


def _tracking(drives: Sequence[CaseDriven], file: str) -> None:
    figure = new_figure(10.0, 4.2)
    area, bars = figure.subplots(1, 2, width_ratios=(1.5, 1.0))
    for done, dashes in zip(drives, cycle(_LINES), strict=False):
        ways = done.poses[:, 1:3] / done.length_m
        label = f"{done.drive.profile}, {done.length_m:g} m"
        area.plot(*(ways - ways[0]).T, ls=dashes, lw=1.1, label=label)
    area.set(xlabel="east (lengths of the vehicle)", ylabel="north (lengths)", aspect="equal")
    figure.legend(loc="outside lower center", ncols=5, frameon=False)
    at = np.arange(len(drives))
    for shift, colour, label, errors in (
        (-0.2, "#56b4e9", "mean", [d.cross_track_mean_m / d.length_m for d in drives]),
        (0.2, _BACKWARD, "largest", [d.cross_track_max_m / d.length_m for d in drives]),
    ):
        bars.barh(at + shift, errors, 0.38, color=colour, label=label)
    bars.set_yticks(at, [done.drive.profile for done in drives])
    bars.invert_yaxis()
    bars.set_xlabel("cross-track error (lengths of the vehicle)")
    bars.legend(*bars.get_legend_handles_labels(), frameon=False)
    bars.grid(axis="x", alpha=0.25)
    save_figure(figure, file)


def _limits(area: "Axes", left: float, right: float, low: float, high: float) -> None:
    area.set(xlim=(left, right), ylim=(low, high), xlabel="east (m)", ylabel="north (m)")
    area.set_aspect("equal")


def _way(area: "Axes", done: CaseDriven) -> None:
    """Draw the way of the reference point, forward and backward apart."""
    backward = done.speeds_mps < 0.0
    cuts = [0, *(np.flatnonzero(np.diff(backward)) + 1).tolist(), len(backward)]
    named: set[str] = set()
    for begin, end in pairwise(cuts):
        colour, label = (_BACKWARD, "backward") if backward[begin] else (_FORWARD, "forward")
        rows = done.poses[begin : end + 1]
        style = "--" if backward[begin] else "-"
        area.plot(rows[:, 1], rows[:, 2], style, color=colour, lw=1.5, zorder=6,
            label="" if label in named else label)  # fmt: skip
        named.add(label)


def _outline(area: "Axes", done: CaseDriven, pose: Any, *, lw: float, alpha: float) -> None:
    corners = body_m(done.outline, pose)
    area.fill(*corners.T, facecolor="none", edgecolor=_BODY, lw=lw, alpha=alpha, zorder=5)


def _distance(done: CaseDriven) -> Any:
    steps = np.hypot(*np.diff(done.poses[:, 1:3], axis=0).T)
    return np.append(0.0, np.cumsum(steps))


def _spaced(done: CaseDriven, number: int) -> list[Any]:
    """Return poses at equal distances along a way."""
    distance = _distance(done)
    rows = np.searchsorted(distance, np.linspace(0.0, distance[-1], number))
    return [tuple(done.poses[min(row, len(distance) - 1), 1:]) for row in rows.tolist()]
