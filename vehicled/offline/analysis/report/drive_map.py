"""Maps of the drive: course, ground truth, estimate with its uncertainty, and stops; and the speed
by colour."""

from math import atan2, cos, floor, hypot, log10, sin, sqrt
from typing import Any, NamedTuple

import numpy as np

from vehicled.core.messages import Path
from vehicled.offline.analysis.report.chart import key, moment, number
from vehicled.offline.analysis.report.panel import MissingPanel, Panel, PanelOrMissing
from vehicled.offline.analysis.report.scan import SQUARE_M, Findings
from vehicled.offline.analysis.report.thin import gap_columns
from vehicled.offline.analysis.report.verdict import stops

_MARGIN = 0.05
_EXAGGERATIONS = (1, 2, 5, 10, 20, 50, 100, 200, 500)
_HEAT = ("#4b3fa0", "#9c3fa8", "#d0567a", "#ee8a4a", "#e3b505")
"""Colours of equal ranges of the speed, slow to fast: of rising lightness, and visible on light and
dark pages."""


class _View(NamedTuple):
    """Part of the plane that a map shows, and its scale."""

    left: float
    top: float
    size: Any
    scale: float

    def place(self, points: Any) -> Any:
        """Return points (n, 2) in m as those of the picture."""
        return np.stack(
            [(points[:, 0] - self.left) * self.scale, (self.top - points[:, 1]) * self.scale],
            axis=1,
        )

    def svg(self, parts: list[str], label: str) -> str:
        """Return the picture."""
        width, height = self.size * self.scale
        return (
            f'<svg class="map" viewBox="0 0 {width:.1f} {height:.1f}" role="img" '
            f'aria-label="{label}">{"".join(parts)}</svg>'
        )


def _view(places: Any) -> _View:
    places = places[np.isfinite(places).all(axis=1)]
    low, high = places.min(axis=0), places.max(axis=0)
    span = max(float((high - low).max()), 1.0)
    # Limit the aspect ratio: a straight road needs room for its lateral errors.
    middle, size = (low + high) / 2, np.maximum(high - low, span * 0.4) + 2 * _MARGIN * span
    return _View(middle[0] - size[0] / 2, middle[1] + size[1] / 2, size, 1000.0 / float(size.max()))


def speed_map(f: Findings) -> PanelOrMissing:
    """Draw the drive with its speed by colour, or give the reason why it is missing."""
    name = (
        "ground_truth.speed_mps" if f.has("ground_truth.speed_mps") else "state_estimate.speed_mps"
    )
    speeds = (
        0.5 * np.abs(f.series[name].low + f.series[name].high)
        if f.has(name)
        else np.full(len(f.place), np.nan)
    )
    known = np.flatnonzero(np.isfinite(speeds) & np.isfinite(f.place).all(axis=1))
    if len(known) < 2 or speeds[known].max() <= 0.0:
        return MissingPanel("speed-map", "Speed on the map", "The log has no places with a speed.")
    view, top = _view(f.place[known]), float(speeds[known].max())
    bins = np.minimum((speeds[known] / top * len(_HEAT)).astype(int), len(_HEAT) - 1)
    points = view.place(f.place[known])
    joined = np.diff(known) <= gap_columns(known)
    parts = [_grid(view.left, view.top, view.size, view.scale)]
    for number_of_bin, colour in enumerate(_HEAT):
        chosen = np.flatnonzero(joined & (bins[:-1] == number_of_bin))
        steps = points[chosen + 1] - points[chosen]
        d = "".join(
            f"M{x:.1f} {y:.1f}l{dx:.1f} {dy:.1f}"
            for (x, y), (dx, dy) in zip(points[chosen].tolist(), steps.tolist())
        )
        parts.append(f'<path class="heat" stroke="{colour}" d="{d}"/>' if d else "")
    edges = np.linspace(0.0, top, len(_HEAT) + 1)
    legend = "".join(
        '<span class="key"><svg class="sample" viewBox="0 0 22 8"><path class="heat" '
        f'stroke="{colour}" d="M1 4h20"/></svg>'
        f"{low:.2f} to {high:.2f}</span>"
        for colour, low, high in zip(_HEAT, edges, edges[1:])
    )
    of = "true" if name.startswith("ground") else "estimated"
    return Panel(
        "speed-map",
        "Speed on the map",
        "m/s",
        view.svg(parts, "speed on the map"),
        legend,
        f"The {of} speed.",
    )


def drive_map(f: Findings) -> PanelOrMissing:
    """Draw the map, or give the reason why it is missing."""
    paths = [path for path in f.rare[Path] if len(path.x_m)]
    traces = {name: trace.places for name, trace in f.traces.items() if len(trace.places)}
    if not paths and not traces:
        return MissingPanel(
            "map", "Map of the drive", "The log has neither a course nor estimates."
        )
    clouds = [np.stack([path.x_m, path.y_m], axis=1) for path in paths] + list(traces.values())
    view = _view(np.concatenate(clouds))
    place, span = view.place, float(view.size.max()) / (1 + 2 * _MARGIN)
    parts, legend = [_grid(view.left, view.top, view.size, view.scale)], ""
    courses = [
        _polyline(place(np.stack([path.x_m, path.y_m], axis=1)), path.closed) for path in paths[:4]
    ]
    parts += [f'<path class="line course" d="{d}"/>' for d in courses]
    if paths:
        legend += '<span class="key"><i class="wide"></i>course</span>'
    styles = {"truth": (3, "", "truth"), "estimate": (2, "5 3", "estimate")}
    for name, (colour, dash, label) in styles.items():
        if name in traces:
            dashed = f' stroke-dasharray="{dash}"' if dash else ""
            parts.append(
                f'<path class="line c{colour}"{dashed} d="{_polyline(place(traces[name]))}"/>'
            )
            legend += key(label, colour, dash)
    if f.virtual:
        specks = place(SQUARE_M * np.array(sorted(f.virtual)))
        d = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in specks)
        parts.append(f'<path class="speck c7" d="{d}"/>')
        legend += '<span class="key"><i class="round c7"></i>virtual bodies</span>'
    note = ""
    ellipses, factor = _ellipses(f, span)
    if ellipses is not None:
        parts.append(
            f'<path class="ellipse" d="{"".join(_polyline(place(e), True) for e in ellipses)}"/>'
        )
        legend += key("2 sigma" + (f", drawn {factor} times" if factor > 1 else ""), 1)
        largest = max(2 * sqrt(max(v[2], v[4], 0.0)) for v in f.ellipses.values())
        note = f"Largest 2 sigma along an axis at these places: {number(largest)} m. "
    for stop in stops(f)[:50]:
        where = f.place[min(int(f.axis.place(stop.change.t_ns)), len(f.place) - 1)]
        if np.isfinite(where).all():
            x, y = place(where[None])[0]
            parts.append(
                f'<path class="dot c6" d="M{x:.1f} '
                f'{y:.1f}h0"><title>{moment(f.seconds(stop.change.t_ns))}</title></path>'
            )
    if stops(f):
        legend += '<span class="key"><i class="round c6"></i>stop</span>'
    tick = _round(span / 4)
    note += f"Grid: {number(tick)} m; east to the right, north up. "
    note += " ".join(
        f"{name.capitalize()}: one of {t.every} samples."
        for name, t in f.traces.items()
        if t.every > 1
    )
    return Panel("map", "Map of the drive", "", view.svg(parts, "map of the drive"), legend, note)


def _grid(left: float, top: float, size: Any, scale: float) -> str:
    step = _round(float(size.max()) / (1 + 2 * _MARGIN) / 4)
    across = range(int(np.ceil(left / step)), int(np.floor((left + size[0]) / step)) + 1)
    down = range(int(np.ceil((top - size[1]) / step)), int(np.floor(top / step)) + 1)
    d = [f"M{(k * step - left) * scale:.1f} 0v{size[1] * scale:.1f}" for k in across]
    d += [f"M0 {(top - k * step) * scale:.1f}h{size[0] * scale:.1f}" for k in down]
    return f'<path class="grid" d="{"".join(d)}"/>'


def _round(value: float) -> float:
    power = 10.0 ** floor(log10(value))
    return max(m * power for m in (1, 2, 5) if m * power <= value * (1 + 1e-9))


def _ellipses(f: Findings, span_m: float) -> tuple[list[Any] | None, int]:
    """Return two-sigma ellipses, and the factor by which they are enlarged to be visible."""
    if not f.ellipses:
        return None, 1
    values = list(f.ellipses.values())
    typical = float(np.median([2 * sqrt(max(v[2], v[4], 0.0)) for v in values]))
    factor = next((k for k in _EXAGGERATIONS if k * typical >= span_m * 0.008), _EXAGGERATIONS[-1])
    turns = np.linspace(0.0, 2 * np.pi, 25)[:-1]
    found = []
    for x, y, xx, xy, yy in values:
        half = hypot((xx - yy) / 2, xy)
        large, small = sqrt(max((xx + yy) / 2 + half, 0.0)), sqrt(max((xx + yy) / 2 - half, 0.0))
        turn = 0.5 * atan2(2 * xy, xx - yy)
        along, across = 2 * factor * large * np.cos(turns), 2 * factor * small * np.sin(turns)
        if large * factor < span_m:
            found.append(
                np.stack(
                    [
                        x + along * cos(turn) - across * sin(turn),
                        y + along * sin(turn) + across * cos(turn),
                    ],
                    axis=1,
                )
            )
    return found or None, factor


def _polyline(points: Any, closed: bool = False) -> str:
    """Return a path with 0.01 % resolution of the map, without repeated points."""
    rounded = np.rint(points * 10).astype(np.int64)
    moved = np.any(np.diff(rounded, axis=0, prepend=rounded[:1] - 1) != 0, axis=1)
    rounded = rounded[moved]
    if not len(rounded):
        return ""
    steps = np.diff(rounded, axis=0)
    start = f"M{rounded[0, 0] / 10:g} {rounded[0, 1] / 10:g}"
    return (
        start
        + "".join(f"l{dx / 10:g} {dy / 10:g}" for dx, dy in steps.tolist())
        + ("Z" if closed else "")
    )
