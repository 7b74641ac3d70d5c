"""SVG figures of the validation page: the path, and every signal over time with the residual
between the models."""

from html import escape
from typing import Any

import numpy as np

from vehicled.offline.analysis.report.chart import HEIGHT, Scale, key, number, time_axis
from vehicled.offline.analysis.report.thin import TimeAxis
from vehicled.offline.twin.validation.result import RunComparison

_WIDTH = 1000
_TOLERANCE = 1.6
"""Largest distance of a drawn curve from the samples, thousandths of the plot: less than a
pixel."""
_REFERENCE, _OURS, _RESIDUAL = 3, 2, 6
_DASH = "6 3"


def legend() -> str:
    """Return the legend of the page."""
    return (
        key("reference", _REFERENCE)
        + key("ours", _OURS, _DASH)
        + key("ours minus reference", _RESIDUAL)
    )


def figures(comparison: RunComparison) -> str:
    """Return all figures of a run."""
    reference, drive = comparison.reference, comparison.drive
    t = reference.t_s
    parts = [_map(comparison)]
    for title, unit, theirs, ours, factor in (
        ("Yaw rate", "rad/s", reference.yaw_rate_radps, drive.yaw_rate_radps, 1.0),
        ("Lateral speed", "m/s", reference.vy_mps, drive.vy_mps, 1.0),
        ("Speed", "m/s", reference.vx_mps, drive.vx_mps, 1.0),
        ("Roll", "deg", reference.roll_rad, drive.roll_rad, 180.0 / np.pi),
    ):
        parts.append(
            _over_time(title, unit, t, None if theirs is None else theirs * factor, ours * factor)
        )
    return f'<div class="panels">{"".join(parts)}</div>'


def _over_time(title: str, unit: str, t: Any, theirs: Any, ours: Any) -> str:
    axis = TimeAxis(0, round(float(t[-1] - t[0]) * 1e9))
    n = min(len(t), len(ours))
    values = ours if theirs is None else np.concatenate((theirs, ours))
    values = values[np.isfinite(values)]
    scale = (
        Scale.around(float(values.min()), float(values.max()))
        if len(values)
        else Scale.around(0.0, 1.0)
    )
    lines = "" if theirs is None else _curve(t, theirs, scale, _REFERENCE)
    lines += _curve(t, ours, scale, _OURS, _DASH)
    body = _plot(lines, scale, f"{title} of both models over time", scale.ticks())
    note = (
        ""
        if theirs is not None
        else '<p class="note">The reference does not contain this signal.</p>'
    )
    if theirs is not None:
        left = ours[:n] - theirs[:n]
        finite = left[np.isfinite(left)]
        reach = float(np.abs(finite).max()) if len(finite) else 0.0
        span = Scale.around(-reach, reach)
        ends = [span.low, 0.0, span.high]
        body += _plot(
            _curve(t, left, span, _RESIDUAL), span, f"{title}, ours minus reference", ends, "low"
        )
    return (
        f'<figure class="panel"><figcaption><b>{title}</b> <span '
        f'class="unit">{unit}</span></figcaption>'
        f"{body}{time_axis(axis, float(t[0]))}{note}</figure>"
    )


def _plot(lines: str, scale: Scale, label: str, ticks: list[float], kind: str = "") -> str:
    grid = "".join(f"M0 {int(scale.height(tick))}h{_WIDTH}" for tick in ticks)
    labels = "".join(
        f'<span style="top:{float(scale.height(v)) / HEIGHT * 100:.1f}%">{number(v)}</span>'
        for v in ticks
    )
    return (
        f'<div class="chart {kind}"><div class="y">{labels}</div><div class="area"><svg '
        f'class="plot" viewBox="0 0 {_WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(label)}"><path class="grid" d="{grid}"/>{lines}</svg></div></div>'
    )


def _curve(t: Any, values: Any, scale: Scale, colour: int, dash: str = "") -> str:
    n = min(len(t), len(values))
    known = np.flatnonzero(np.isfinite(values[:n]))
    x = (t[known] - t[0]) / (t[-1] - t[0]) * _WIDTH
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<path class="line c{colour}"{dashed} '
        f'd="{_path(np.stack((x, scale.height(values[known])), axis=1))}"/>'
    )


def _map(comparison: RunComparison) -> str:
    """Return both paths at one scale, on a grid whose size is in the caption."""
    reference, drive = comparison.reference, comparison.drive
    paths = [
        np.stack((reference.x_m, reference.y_m), axis=1),
        np.stack((drive.x_m, drive.y_m), axis=1),
    ]
    places = np.concatenate(paths)
    places = places[np.isfinite(places).all(axis=1)]
    low, high = places.min(axis=0), places.max(axis=0)
    span = max(float((high - low).max()), 1e-3)
    size = np.maximum(high - low, 0.45 * span) + 0.1 * span
    left, top = (low + high - size)[0] / 2, (low + high + size)[1] / 2
    scale = _WIDTH / float(size[0])
    height = float(size[1]) * scale
    step = Scale.around(0.0, float(size[0])).ticks()[1]
    across = np.arange(np.ceil(left / step), np.floor((left + size[0]) / step) + 1) * step
    down = np.arange(np.ceil((top - size[1]) / step), np.floor(top / step) + 1) * step
    grid = "".join(f"M{(x - left) * scale:.0f} 0v{height:.0f}" for x in across)
    grid += "".join(f"M0 {(top - y) * scale:.0f}h{_WIDTH}" for y in down)
    lines = ""
    for path, colour, dash in zip(paths, (_REFERENCE, _OURS), ("", f' stroke-dasharray="{_DASH}"')):
        path = path[np.isfinite(path).all(axis=1)]
        d = _path(np.stack(((path[:, 0] - left) * scale, (top - path[:, 1]) * scale), axis=1))
        lines += f'<path class="line c{colour}"{dash} d="{d}"/>'
    return (
        f'<figure class="panel"><figcaption><b>Path</b> <span class="unit">grid {number(step)} '
        f'm</span></figcaption><svg class="map" viewBox="0 0 {_WIDTH} {height:.0f}" role="img" '
        f'aria-label="path of both models"><path class="grid" d="{grid}"/>{lines}</svg></figure>'
    )


def _path(points: Any) -> str:
    """Return an SVG path through points of shape (n, 2), simplified by Ramer-Douglas-Peucker."""
    if len(points) < 2:
        return ""
    keep = np.zeros(len(points), np.bool_)
    keep[[0, -1]] = True
    open_ends = [(0, len(points) - 1)]
    while open_ends:
        first, last = open_ends.pop()
        if last - first < 2:
            continue
        start, along = points[first], points[last] - points[first]
        inner = points[first + 1 : last] - start
        length = float(np.hypot(*along))
        away = (
            np.abs(inner @ (np.array([-along[1], along[0]]) / length))
            if length > 0
            else np.hypot(inner[:, 0], inner[:, 1])
        )
        farthest = int(away.argmax())
        if away[farthest] > _TOLERANCE:
            middle = first + 1 + farthest
            keep[middle] = True
            open_ends += [(first, middle), (middle, last)]
    rounded = np.rint(points[keep]).astype(np.int64)
    steps = np.diff(rounded, axis=0)
    moved = steps[np.any(steps != 0, axis=1)]
    return f"M{rounded[0, 0]} {rounded[0, 1]}" + "".join(f"l{dx} {dy}" for dx, dy in moved.tolist())
