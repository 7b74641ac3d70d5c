"""Figures without a time axis: histograms of the tasks, and latency from measurement to
actuator."""

import numpy as np

from vehicled.core.histogram import BINS, lower_edge_ns
from vehicled.core.plain_text import escape
from vehicled.offline.analysis.bins import Distribution
from vehicled.offline.analysis.report.chart import number
from vehicled.offline.analysis.report.panel import MissingPanel, Panel, PanelOrMissing
from vehicled.offline.analysis.report.scan import Findings

_QUANTITIES = (("lateness", 2), ("execution", 1), ("response", 3))
_STAGE_COLOURS = (2, 5, 1, 3, 4)


PER_DECADE = 8
"""Bars per factor of ten, 100 ns to 100 s."""
LOWEST_EXPONENT = 2
"""Exponent of ten of the lowest edge, in ns."""
_BARS = 9 * PER_DECADE
_BAR_OF_BIN = np.clip(
    [int((np.log10(max(lower_edge_ns(k), 1)) - LOWEST_EXPONENT) * PER_DECADE) for k in range(BINS)],
    0,
    _BARS - 1,
)


def _decades(found: Distribution) -> "np.ndarray":
    """Return the counts of a distribution by bar; durations beyond the ends count in the outermost
    bars."""
    return np.bincount(_BAR_OF_BIN, found.counts, minlength=_BARS).astype(np.int64)


def histograms(f: Findings) -> list[PanelOrMissing]:
    """Draw one figure per task: lateness, execution and response in logarithmic bins."""
    made: list[PanelOrMissing] = []
    for task in sorted({of for of, _ in f.bins}):
        name = f.task_name(task)
        counts = [_decades(f.bins[task, quantity]) for quantity, _ in _QUANTITIES]
        used = np.flatnonzero(sum(counts))
        low = used[0] // PER_DECADE * PER_DECADE
        high = (used[-1] // PER_DECADE + 1) * PER_DECADE
        deadline_ns = (
            f.header.tasks[task].deadline_ns if f.header and task < len(f.header.tasks) else 0
        )
        place = (np.log10(max(deadline_ns, 1)) - LOWEST_EXPONENT) * PER_DECADE
        if deadline_ns:
            high = max(high, int(place // PER_DECADE + 1) * PER_DECADE)
        rows = "".join(
            _bars(q, colour, c[low:high], place - low, bool(deadline_ns))
            for (q, colour), c in zip(_QUANTITIES, counts)
        )
        decades = range(low // PER_DECADE, high // PER_DECADE + 1)
        width = high - low
        places = [(d * PER_DECADE - low) / width * 100 for d in decades]
        names = [_duration(10.0 ** (d + LOWEST_EXPONENT)) for d in decades]
        labels = "".join(
            f'<span style="left:{place:.2f}%">{name}</span>' for place, name in zip(places, names)
        )
        total = int(counts[0].sum())
        note = (
            f"{total} releases. Heights are logarithmic, so that a single slow release is visible."
        )
        unit = f"deadline {_duration(deadline_ns)}" if deadline_ns else ""
        made.append(
            Panel(f"histogram-{task}", name, unit, f'{rows}<div class="x">{labels}</div>', "", note)
        )
    return made or [
        MissingPanel("histograms", "Histograms of the tasks", "The log has no task ticks.")
    ]


def _bars(
    quantity: str, colour: int, counts: "np.ndarray", deadline: float, has_deadline: bool
) -> str:
    top = np.log10(1 + counts.max()) if counts.max() else 1.0
    parts = []
    for place in np.flatnonzero(counts).tolist():
        height = max(np.log10(1 + counts[place]) / top * 96, 3)
        parts.append(
            f'<rect class="state c{colour}" x="{place * 10 + 0.5}" y="{100 - height:.1f}" '
            f'width="9" height="{height:.1f}">'
            f"<title>{int(counts[place])} releases</title></rect>"
        )
    line = f'<path class="limit" d="M{deadline * 10:.1f} 0v100"/>' if has_deadline else ""
    svg = (
        f'<svg class="bars" viewBox="0 0 {len(counts) * 10} 100" preserveAspectRatio="none" '
        f'role="img" aria-label="{escape(quantity)}">{"".join(parts)}{line}</svg>'
    )
    head = (
        '<div class="row"><span class="key"><i class="box '
        f'c{colour}"></i>{escape(quantity)}</span></div>'
    )
    return f'{head}<div class="chart low"><div class="y"></div><div class="area">{svg}</div></div>'


def _duration(ns: float) -> str:
    for limit, unit, scale in ((1e3, "ns", 1.0), (1e6, "µs", 1e3), (1e9, "ms", 1e6)):
        if ns < limit:
            return f"{ns / scale:g} {unit}"
    return f"{ns / 1e9:g} s"


def waterfalls(f: Findings) -> list[PanelOrMissing]:
    """Draw the latency of GNSS epochs and IMU samples by stage: medians as a staircase, percentiles
    as numbers."""
    made: list[PanelOrMissing] = []
    for name, stages in sorted(f.journey.stages.items()):
        totals = f.journey.totals[name]
        n = totals["actuation"].n
        if not n:
            continue
        full = max(totals["actuation"].quantile_ns(0.99), 1.0)
        rows, before = [], 0.0
        for (stage, own), colour in zip(stages.items(), _STAGE_COLOURS):
            after = totals[stage].quantile_ns(0.5)
            late = totals[stage].quantile_ns(0.99)
            start, end, whisker = (min(v / full, 1.0) * 1000 for v in (before, after, late))
            svg = (
                '<svg class="bars" viewBox="0 0 1000 20" preserveAspectRatio="none" role="img" '
                f'aria-label="{escape(stage)}"><rect class="state c{colour}" x="{start:.1f}" '
                f'y="3" width="{max(end - start, 2):.1f}" height="14"/><path class="whisker" '
                f'd="M{end:.1f} 10H{whisker:.1f}"/></svg>'
            )
            numbers = (
                " / ".join(_three(own.quantile_ns(q)) for q in (0.5, 0.9, 0.99))
                + f" / {_three(own.max_ns)}"
            )
            rows.append(
                f'<div class="stage"><span class="name">{escape(stage)}</span><div '
                f'class="area">{svg}</div><span class="numbers">{numbers}</span></div>'
            )
            before = after
        whole = totals["actuation"]
        total = (
            " / ".join(_three(whole.quantile_ns(q)) for q in (0.5, 0.9, 0.99))
            + f" / {_three(whole.max_ns)}"
        )
        rows.append(
            '<div class="stage total"><span class="name">in all</span><span></span><span '
            f'class="numbers">{total}</span></div>'
        )
        note = (
            f"{n} measurements, from their time of validity to the frame that could first answer "
            "them. Bars: medians one after the other; thin line: up to where 99 % were; full "
            f"width {number(full / 1e6)} ms. Numbers: p50 / p90 / p99 / largest in ms."
        )
        made.append(
            Panel(
                f"way-{name.split()[0].lower()}",
                f"From {name} to actuator",
                "ms",
                "".join(rows),
                "",
                note,
            )
        )
    if made:
        return made
    return [
        MissingPanel(
            "way",
            "From measurement to actuator",
            "The log has no measurements, ticks and commands that could be followed.",
        )
    ]


def _three(ns: float) -> str:
    """Format milliseconds with three digits."""
    return number(float(f"{ns / 1e6:.3g}"))
