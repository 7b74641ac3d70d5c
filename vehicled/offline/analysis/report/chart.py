"""Charts as SVG and HTML text, without a library.

A plot is an SVG of ``COLUMNS`` by ``HEIGHT`` units that the page stretches; strokes keep their
width. Numbers and names are HTML beside it, so they stay readable at any width, on paper and
without scripts.
"""

from collections.abc import Sequence
from math import ceil, floor, isfinite, log10
from typing import Any

import numpy as np
from msgspec import Struct

from vehicled.core.plain_text import escape
from vehicled.offline.analysis.report.thin import COLUMNS, Thinned, TimeAxis, gap_columns

HEIGHT = 1_000
"""Height of a plot in its own units: a thousandth of the axis is visible."""


class Scale(Struct, frozen=True):
    """Vertical axis of values."""

    low: float
    high: float
    logarithmic: bool = False

    @classmethod
    def around(cls, low: float, high: float, *, logarithmic: bool = False) -> "Scale":
        """Return a scale that contains both values, with round ends."""
        if logarithmic:
            high = max(high, 1e-9)
            low = max(low, high * 1e-6)
            lowest, highest = 10.0 ** floor(log10(low)), 10.0 ** ceil(log10(high) - 1e-9)
            return cls(lowest, highest if highest > lowest else lowest * 10.0, True)
        if high - low < 1e-9 * max(abs(low), abs(high), 1e-6):
            low, high = low - 0.5 * max(abs(low), 1e-3), high + 0.5 * max(abs(high), 1e-3)
        step = _step(high - low, 4)
        return cls(floor(low / step + 1e-9) * step, ceil(high / step - 1e-9) * step)

    def height(self, values: Any) -> Any:
        """Return the vertical position in plot units from the top, clipped at the edges."""
        if self.logarithmic:
            share = np.log10(np.maximum(values, self.low) / self.low) / log10(self.high / self.low)
        else:
            share = (np.asarray(values, np.float64) - self.low) / (self.high - self.low)
        return np.rint((1.0 - np.clip(share, 0.0, 1.0)) * HEIGHT)

    def ticks(self) -> list[float]:
        """Return three to six round values along the axis."""
        if self.logarithmic:
            exponents = range(round(log10(self.low)), round(log10(self.high)) + 1)
            return [10.0**e for e in exponents][:: max(1, ceil(len(exponents) / 5))]
        step = _step(self.high - self.low, 4)
        return [
            k * step
            for k in range(ceil(self.low / step - 1e-9), floor(self.high / step + 1e-9) + 1)
        ]


def _step(span: float, wanted: int) -> float:
    raw = span / wanted
    power = 10.0 ** floor(log10(raw))
    return next(m for m in (1.0, 2.0, 2.5, 5.0, 10.0) if raw <= m * power * (1 + 1e-9)) * power


def number(value: float) -> str:
    """Format a number for an axis or a sentence: at most four significant digits."""
    if not isfinite(value):
        return "unknown"
    text = f"{value:.4g}"
    if 1e4 <= abs(value) < 1e6:
        text = f"{value:.0f}"
    if "e" in text:
        return f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e")
    return "0" if text in ("-0", "0") else text.replace("-", "\N{MINUS SIGN}")


LONG_S = 120.0
"""Time from which labels are minutes and seconds, s."""


def moment(seconds: float) -> str:
    """Format a time of the run for a sentence."""
    return f"{seconds:.2f} s" if abs(seconds) < LONG_S else clock(seconds)


def clock(seconds: float) -> str:
    """Format a time as m:ss or h:mm:ss."""
    whole = round(seconds)
    if whole < 0:
        return "\N{MINUS SIGN}" + clock(-seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


class Line(Struct, frozen=True):
    """One curve."""

    name: str
    series: Thinned
    colour: int
    dash: str = ""
    """Dash pattern of the stroke, to distinguish lines without colour."""
    factor: float = 1.0
    held: bool = False
    """True if the value holds until the next sample, however late."""
    source: str = ""
    """Name of the series, under which the page holds its single samples."""


class LimitLine(Struct, frozen=True):
    """Limit, drawn as a horizontal line."""

    name: str
    value: float


def line_plot(
    axis: TimeAxis,
    lines: Sequence[Line],
    levels: Sequence[LimitLine] = (),
    *,
    logarithmic: bool = False,
    at_least: tuple[float, float] | None = None,
    bands: Sequence[tuple[Thinned, Thinned, int]] = (),
    origin_s: float = 0.0,
    zone: tuple[float, float] | None = None,
) -> str:
    """Return a plot with its axes. ``bands``: areas between two series; ``zone``: range of good
    values."""
    lows = [line.series.min * line.factor for line in lines] + [low.min for low, _, _ in bands]
    highs = [line.series.max * line.factor for line in lines] + [high.max for _, high, _ in bands]
    if logarithmic:
        lows = [_smallest_positive(line) for line in lines]
    values = [*lows, *highs, *(level.value for level in levels), *(at_least or ()), *(zone or ())]
    values = [v for v in values if isfinite(v) and (v > 0 or not logarithmic)]
    scale = Scale.around(
        min(values, default=0.0), max(values, default=1.0), logarithmic=logarithmic
    )
    parts = []
    if zone is not None:
        top, bottom = (int(scale.height(value)) for value in (zone[1], zone[0]))
        parts.append(
            f'<rect class="zone" x="0" y="{top}" width="{COLUMNS}" height="{bottom - top}"/>'
        )
    grid = "".join(f"M0 {int(scale.height(tick))}h{COLUMNS}" for tick in scale.ticks())
    parts.append(f'<path class="grid" d="{grid}"/>')
    for low, high, colour in bands:
        parts.append(f'<path class="band c{colour}" d="{_area(low, high, scale)}"/>')
    parts += [
        f'<path class="limit" d="M0 {int(scale.height(level.value))}h{COLUMNS}"/>'
        for level in levels
    ]
    for line in lines:
        dash = f' stroke-dasharray="{line.dash}"' if line.dash else ""
        path = _curve(line, scale)
        source = f'data-series="{escape(line.source)}" data-factor="{line.factor:.9g}"' + (
            ' data-held="1"' if line.held else ""
        )
        parts.append(
            f'<path class="line c{line.colour}" data-name="{escape(line.name)}" {source}{dash} '
            f'd="{path}"/>'
        )
    attributes = f'data-low="{scale.low!r}" data-high="{scale.high!r}"' + (
        ' data-log="1"' if scale.logarithmic else ""
    )
    names = ", ".join(line.name for line in lines)
    svg = (
        f'<svg class="plot" viewBox="0 0 {COLUMNS} {HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(names)} over time" {attributes}>{"".join(parts)}</svg>'
    )
    labels = "".join(
        (f'<span style="top:{float(scale.height(tick)) / HEIGHT * 100:.1f}%">{number(tick)}</span>')
        for tick in scale.ticks()
    )
    return (
        f'<div class="chart"><div class="y">{labels}</div><div '
        f'class="area">{svg}</div></div>{time_axis(axis, origin_s)}'
    )


def _smallest_positive(line: Line) -> float:
    positive = line.series.low[line.series.low > 0]
    return float(positive.min()) * line.factor if len(positive) else float("nan")


def strip(
    label: str, keys: str, bands: Sequence[tuple[float, float, int, str]], *, tall: bool = False
) -> str:
    """Return a row of states, given as (start, stop, colour, name) in columns."""
    parts = []
    for start, stop, colour, name in bands:
        width = max(stop - start, 1.5)
        parts.append(
            f'<rect class="state c{colour}" x="{_short(start)}" y="0" width="{_short(width)}" '
            f'height="10" data-name="{escape(name)}"><title>{escape(name)}</title></rect>'
        )
    svg = (
        f'<svg class="plot strip" viewBox="0 0 {COLUMNS} 10" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(label)} over time" data-name="{escape(label)}">{"".join(parts)}</svg>'
    )
    head = f'<div class="row"><b>{escape(label)}</b> {keys}</div>'
    return (
        f'{head}<div class="chart{" tall" if tall else " thin"}"><div class="y"></div><div '
        f'class="area">{svg}</div></div>'
    )


def key(name: str, colour: int, dash: str = "", *, box: bool = False) -> str:
    """Return an entry of a legend."""
    if box:
        return f'<span class="key"><i class="box c{colour}"></i>{escape(name)}</span>'
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    sample = (
        f'<svg class="sample" viewBox="0 0 22 8"><path class="line c{colour}" d="M1 '
        f'4h20"{dashed}/></svg>'
    )
    return f'<span class="key">{sample}{escape(name)}</span>'


def time_axis(axis: TimeAxis, origin_s: float) -> str:
    """Return the labels under a plot. ``origin_s``: time of the run at the left end."""
    span = axis.duration_s
    step = next((s for s in _TIME_STEPS if span / s <= 6.5), _TIME_STEPS[-1])
    first = ceil(origin_s / step - 1e-9)
    digits = max(0, ceil(-log10(step) - 1e-9))
    labels: list[str] = []
    k = first
    while k * step <= origin_s + span * 1.000001 and len(labels) < 20:
        place = (k * step - origin_s) / span * 100
        text = (
            clock(k * step) if origin_s + span >= LONG_S and step >= 1 else f"{k * step:.{digits}f}"
        )
        labels.append(f'<span style="left:{place:.2f}%">{text}</span>')
        k += 1
    return f'<div class="x">{"".join(labels)}</div>'


_TIME_STEPS = (
    1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600,
    1200, 1800, 3600, 7200, 14400, 28800, 86400, 864000,
)  # fmt: skip


def _curve(line: Line, scale: Scale) -> str:
    """Return a path through the smallest and largest value of every column, broken at long gaps."""
    series = line.series
    known = np.flatnonzero(np.isfinite(series.low))
    if not len(known):
        return ""
    longest_gap = COLUMNS if line.held else gap_columns(known)
    low = scale.height(series.low[known] * line.factor)
    high = scale.height(series.high[known] * line.factor)
    pieces: list[str] = []
    x_before, y_before = -(10**9), 0
    for x, bottom, top in zip(known.tolist(), low.astype(int).tolist(), high.astype(int).tolist()):
        # Draw the nearer end first, so that the line between two columns is short.
        near, far = (
            (bottom, top) if abs(bottom - y_before) <= abs(top - y_before) else (top, bottom)
        )
        if x - x_before > longest_gap:
            pieces.append(f"M{x} {near}h1" if near == far else f"M{x} {near}")
            x_before, y_before = (x + 1, near) if near == far else (x, near)
        else:
            pieces.append(f"l{x - x_before} {near - y_before}")
            x_before, y_before = x, near
        if far != near:
            pieces.append(f"v{far - near}")
            y_before = far
    return "".join(pieces)


def _area(low: Thinned, high: Thinned, scale: Scale) -> str:
    known = np.flatnonzero(np.isfinite(low.low) & np.isfinite(high.high))
    if not len(known):
        return ""
    top = scale.height(high.high[known]).astype(int)
    bottom = scale.height(low.low[known]).astype(int)
    forward = [f"{x} {y}" for x, y in zip(known.tolist(), top.tolist())]
    backward = [f"{x} {y}" for x, y in zip(known[::-1].tolist(), bottom[::-1].tolist())]
    return "M" + "L".join(forward + backward) + "Z"


def _short(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
