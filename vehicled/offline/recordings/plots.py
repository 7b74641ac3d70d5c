"""Plots of the estimates for recordings."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from vehicled.core.arrays import Array, wrapped
from vehicled.offline.recordings.recording import Recording, Track
from vehicled.offline.recordings.report import short_names
from vehicled.offline.recordings.scores import Score, measured_yaw
from vehicled.run.output import new_figure, save_figure

_TRUTH, _ESTIMATE, _RAW, _PUBLISHED = "#0b6e4f", "#d1495b", "#9aa5b1", "#edae49"


def plot_track(recording: Recording, track: Track, score: Score, file: str) -> None:
    """Draw one recording: map, and errors of position, heading and speed over time. Raises
    :class:`SetupError`."""
    figure = new_figure(13, 7.5)
    grid = figure.add_gridspec(3, 2, width_ratios=(1.1, 1))
    truth = recording.truth
    t_s = (truth.t_ns - truth.t_ns[0]) * 1e-9
    raw_is_truth = score.raw.position_m is not None and score.raw.position_m.max < 1e-6

    area: Any = figure.add_subplot(grid[:, 0])
    if not raw_is_truth:
        area.plot(recording.raw_x_m, recording.raw_y_m, ".", color=_RAW, ms=3, label="measured")
    area.plot(truth.x_m, truth.y_m, color=_TRUTH, lw=1.6, label="truth")
    if recording.published.known:
        area.plot(
            recording.published.x_m,
            recording.published.y_m,
            color=_PUBLISHED,
            lw=0.9,
            label="published",
        )
    area.plot(track.x_m, track.y_m, color=_ESTIMATE, lw=0.9, ls="--", label=score.estimator)
    area.set_aspect("equal", adjustable="datalim")
    area.set(xlabel="x (m)", ylabel="y (m)")
    area.legend(loc="best")

    def off(x: Array, y: Array) -> Array:
        return np.hypot(x - truth.x_m, y - truth.y_m)

    def turned(yaw: Array | None) -> Array | None:
        return None if yaw is None else np.degrees(wrapped(yaw - truth.yaw_rad))

    position = figure.add_subplot(grid[0, 1])
    raw = None if raw_is_truth else off(recording.raw_x_m, recording.raw_y_m)
    _lines(
        position,
        t_s,
        raw,
        off(recording.published.x_m, recording.published.y_m),
        off(track.x_m, track.y_m),
    )
    position.set(ylabel="position\noff by (m)")
    heading = figure.add_subplot(grid[1, 1], sharex=position)
    _lines(
        heading,
        t_s,
        turned(measured_yaw(recording)),
        turned(recording.published.yaw_rad),
        turned(track.yaw_rad),
    )
    heading.axhline(0.0, color="black", lw=0.6)
    heading.set(ylabel="heading\noff by (deg)")
    speed = figure.add_subplot(grid[2, 1], sharex=position)
    speed.plot(t_s, truth.speed_mps, color=_TRUTH, lw=1.6)
    _lines(speed, t_s, None, recording.published.speed_mps, track.speed_mps)
    speed.set(ylabel="speed (m/s)", xlabel="time (s)")
    for axes in (area, position, heading, speed):
        axes.grid(alpha=0.25)
    figure.suptitle(f"{recording.name} ({recording.kind})")
    save_figure(figure, file)


def plot_overview(scores: Sequence[Score], file: str) -> None:
    """Draw many recordings: mean position error and RMS speed error of each, beside raw and
    published. Raises SetupError."""
    scores = sorted(scores, key=lambda score: (score.kind, score.name))
    figure = new_figure(max(8.0, 0.22 * len(scores) + 2.5), 8.0)
    position, speed = figure.subplots(2, 1, sharex=True)
    at = np.arange(len(scores))
    sources = (
        ("measured", _RAW, "s", [s.raw for s in scores]),
        ("published", _PUBLISHED, "^", [s.published for s in scores]),
        ("estimate", _ESTIMATE, "o", [s.estimate for s in scores]),
    )
    for label, colour, marker, errors in sources:
        means = [
            np.nan if e.position_m is None or e.position_m.max < 1e-6 else e.position_m.mean
            for e in errors
        ]
        rms = [np.nan if e.speed_mps is None else e.speed_mps.rms for e in errors]
        for axes, values in ((position, means), (speed, rms)):
            if np.isfinite(values).any():
                axes.plot(at, values, marker, color=colour, ms=5, label=label)
    position.set(ylabel="mean position error (m)")
    speed.set(ylabel="RMS speed error (m/s)")
    speed.set_xticks(
        at,
        [f"{name} {s.kind}" for name, s in zip(short_names([s.name for s in scores]), scores)],
        rotation=90,
        fontsize=6,
    )
    for axes in (position, speed):
        axes.set_ylim(bottom=0.0)
        axes.grid(alpha=0.25)
    position.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False)
    save_figure(figure, file)


def _lines(
    axes: Any, t_s: Array, raw: Array | None, published: Array | None, estimate: Array | None
) -> None:
    for values, colour, width in (
        (raw, _RAW, 1.0),
        (published, _PUBLISHED, 0.9),
        (estimate, _ESTIMATE, 1.1),
    ):
        if values is not None:
            axes.plot(t_s, values, color=colour, lw=width)
