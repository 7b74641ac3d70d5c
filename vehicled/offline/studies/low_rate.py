"""Report of the study ``low_rate``: error over the rate, per manoeuvre and law, with the statistics
of the thesis that it repeats.

The thesis (Michigan Technological University, 2022) drove nine manoeuvres with a pure pursuit at 35
rates of control and physics.
"""

import base64
import csv
import io
from collections.abc import Callable, Mapping, Sequence
from html import escape
from math import exp, isfinite, nan
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from vehicled.offline.analysis import html
from vehicled.offline.studies.conduct import RunRow
from vehicled.offline.studies.errors import StudyError
from vehicled.offline.studies.report import Finished, number, render
from vehicled.offline.studies.statistics import REPLICATE, interval
from vehicled.run.output import new_figure

MANOEUVRE, RATE, LAW = "course", "rate_hz", "law"
"""Factors of the study."""
CROSS_TRACK, HEADING = "manoeuvre_cross_track_mean_m", "manoeuvre_heading_mean_rad"
PUBLISHED_400_CM = {
    "thesis_st5": 1.9, "thesis_left10": 2.3, "thesis_left15": 4.7, "thesis_ss20": 7.7,
    "thesis_ss25": 9.4, "thesis_ss30": 12.7, "thesis_dlc30": 7.0, "thesis_dlc35": 5.9,
    "thesis_dlc40": 7.5,
}  # fmt: skip
"""Published mean cross-track error at 400 Hz, cm."""
PUBLISHED_LOWEST = {
    "thesis_st5": (60, 1.9), "thesis_left10": (60, 3.1), "thesis_left15": (60, 6.8),
    "thesis_ss20": (70, 8.3), "thesis_ss25": (80, 9.8), "thesis_ss30": (80, 16.7),
    "thesis_dlc30": (100, 27.3), "thesis_dlc35": (100, 12.5), "thesis_dlc40": (110, 20.2),
}  # fmt: skip
"""Lowest published rate from which on every drive finished, Hz, and the mean cross-track error
there, cm."""
GROWS = 1.2
"""An error grows below a rate if the one at the lowest rate that finishes is larger than that at
the highest by this factor."""
PUBLISHED_QUARTILES = ((6.34, 6.42, 6.87), (2.74, 3.70, 4.89))
"""Published quartiles over the rates at which all nine finish: of the cross-track error, cm; of the
heading error, degrees."""
PUBLISHED_THRESHOLD_HZ = 190
MONOTONE: dict[str, Callable[[float], float]] = {
    "1 / f": lambda f: 1 / f,
    "exp(-f / 100 Hz)": lambda f: exp(-f / 100),
    "400 Hz - f": lambda f: 400 - f,
}
"""Curves without any knee, to which the threshold rule is applied."""
_FEWEST = 8
"""Rates below which six parameters are not fitted."""
_DEGREES = 180.0 / np.pi


class Curve(Struct, frozen=True):
    """Error of one law over the rates."""

    rates_hz: list[float]
    means: list[float]
    """Mean over the manoeuvres; NaN where one did not finish."""
    low: list[float]
    high: list[float]
    """Bootstrap interval over the seeds; NaN for one seed."""

    @property
    def complete(self) -> tuple[Any, Any]:
        """Rates at which all manoeuvres finished, and the means there."""
        pairs = [
            (rate, mean)
            for rate, mean in zip(self.rates_hz, self.means, strict=True)
            if isfinite(mean)
        ]
        return np.array([rate for rate, _ in pairs]), np.array([mean for _, mean in pairs])


def curve(rows: Sequence[RunRow], metric: str, scale: float) -> Curve:
    """Return the mean of a metric over all manoeuvres for each rate, times ``scale``."""
    manoeuvres = {row.levels[MANOEUVRE] for row in rows}
    rates = sorted({row.levels[RATE] for row in rows})
    made = Curve([], [], [], [])
    for rate in rates:
        here = [row for row in rows if row.levels[RATE] == rate]
        good = [
            (row, value)
            for row in here
            if row.outcome == "finished" and (value := row.metrics.get(metric)) is not None
        ]
        complete = len(good) == len(here) and {row.levels[MANOEUVRE] for row in here} == manoeuvres
        values = [(row.levels.get(REPLICATE), value * scale) for row, value in good]
        low, high = interval(values) if len({seed for seed, _ in values}) > 1 else (nan, nan)
        made.rates_hz.append(float(rate))
        made.means.append(
            float(np.mean([value for _, value in values])) if complete and values else nan
        )
        made.low.append(low if complete else nan)
        made.high.append(high if complete else nan)
    return made


def quartiles(values: Any) -> tuple[float, float, float]:
    """Return the quartiles as MATLAB's ``quantile`` computes them, which the thesis used: piecewise
    linear at (k - 0.5) / n."""
    if not len(values):
        return nan, nan, nan
    first, second, third = np.quantile(values, (0.25, 0.5, 0.75), method="hazen")
    return float(first), float(second), float(third)


def threshold_hz(rates: Any, values: Any) -> float:
    """Return the threshold of the thesis: going down, the last rate before the error exceeds its
    upper quartile; NaN without."""
    upper = quartiles(values)[2]
    last = nan
    for rate, value in sorted(zip(rates, values, strict=True), reverse=True):
        if value > upper:
            return last
        last = float(rate)
    return nan


def two_gaussians(rates: Any, values: Any) -> tuple[Any, float] | None:
    """Fit :func:`gaussians`; return the parameters and R^2, or None with too few rates."""
    try:
        from scipy.optimize import least_squares
    except ImportError:
        raise StudyError(
            "low_rate", ["its fit needs scipy: pip install 'vehicled[study]'"]
        ) from None
    if len(rates) < _FEWEST:
        return None
    top, span = float(np.max(values)), float(rates.max() - rates.min())
    lower = (0.0, rates.min() - span, 0.05 * span, 0.0, rates.min() - span, 0.05 * span)
    upper = (3 * top, rates.max() + span, 20 * span, 3 * top, rates.max() + span, 20 * span)
    best = None
    # The sum of squares has several minima: begin from several places.
    for first in (0.0, 0.3, 0.6):
        for width in (0.2, 1.0):
            start = (
                0.5 * top,
                rates.min() + first * span,
                width * span,
                top,
                rates.max(),
                5 * span,
            )
            found = least_squares(
                lambda p: gaussians(rates, *p) - values,
                start,
                bounds=(lower, upper),
                x_scale="jac",
                max_nfev=200,
            )
            best = found if best is None or found.cost < best.cost else best
    assert best is not None
    spread = float(np.sum((values - np.mean(values)) ** 2))
    return best.x, 1.0 - 2.0 * float(best.cost) / spread if spread else nan


def gaussians(rate: Any, a1: float, b1: float, c1: float, a2: float, b2: float, c2: float) -> Any:
    """Return the two-term Gaussian of MATLAB's ``gauss2``."""
    return a1 * np.exp(-(((rate - b1) / c1) ** 2)) + a2 * np.exp(-(((rate - b2) / c2) ** 2))


def read_published(path: Path) -> list[RunRow]:
    """Read published runs: a CSV with maneuver, rate_hz, finished, mean_cte_cm,
    mean_heading_error_deg. Raises StudyError."""
    rows = []
    try:
        with path.open(newline="", encoding="utf-8") as file:
            for i, each in enumerate(csv.DictReader(file)):
                finished = each["finished"] == "1"
                values: dict[str, float | None] = {}
                if finished:
                    values = {
                        CROSS_TRACK: float(each["mean_cte_cm"]) / 100,
                        HEADING: float(each["mean_heading_error_deg"]) / _DEGREES,
                    }
                levels = {
                    MANOEUVRE: f"thesis_{each['maneuver'].lower()}",
                    RATE: float(each["rate_hz"]),
                    LAW: "as published",
                }
                row = RunRow(
                    key=str(i),
                    number=i,
                    levels=levels,
                    outcome="finished" if finished else "failed",
                    why="",
                    metrics=values,
                )
                rows.append(row)
    except OSError as error:
        raise StudyError(str(path), [f"cannot be read: {error.strerror or error}"]) from None
    except (KeyError, TypeError, ValueError) as error:
        wanted = "maneuver, rate_hz, finished (0 or 1), mean_cte_cm, mean_heading_error_deg"
        raise StudyError(
            str(path),
            [f"line {len(rows) + 2} is not understood ({error!r}); the columns are {wanted}"],
        ) from None
    return rows


def write_low_rate(study: Finished, output: Path, published: Path | None = None) -> None:
    """Write the page. ``published``: file with the published runs, to draw them beside."""
    groups: dict[str, list[RunRow]] = {}
    for row in study.rows:
        if not {MANOEUVRE, RATE, LAW} <= row.levels.keys():
            raise StudyError(
                study.specification.path,
                [f"the report low_rate needs the factors {MANOEUVRE}, {RATE} and {LAW}"],
            )
        groups.setdefault(str(row.levels[LAW]), []).append(row)
    if published is not None:
        groups["as published"] = read_published(published)
    body = "".join(
        [
            _at_400(groups),
            _growth(groups),
            _statistics(groups),
            _artefact(groups),
            _pictures(groups),
        ]
    )
    try:
        output.write_text(render(study, output.resolve().parent, body=body), encoding="utf-8")
    except OSError as error:
        raise StudyError(str(output), [f"cannot be written: {error.strerror or error}"]) from None


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return html.table(head, [html.row(cells, named=True) for cells in rows])


def _at_400(groups: Mapping[str, Sequence[RunRow]]) -> str:
    """Return the errors at the highest rate, and the lowest rate at which each manoeuvre finishes,
    per law."""
    rows = [
        ["as published, 400 Hz", *(f"{PUBLISHED_400_CM[name]:.1f}" for name in PUBLISHED_400_CM)]
    ]
    lowest = []
    for law, group in groups.items():
        rates = sorted({row.levels[RATE] for row in group})
        ends = dict.fromkeys((rates[-1], rates[0]))
        rows += [
            [f"{law}, {rate:g} Hz", *(_cell(group, name, rate) for name in PUBLISHED_400_CM)]
            for rate in ends
        ]
        lowest.append([law, *(_lowest(group, name) for name in PUBLISHED_400_CM)])
    head = [name.removeprefix("thesis_") for name in PUBLISHED_400_CM]
    return (
        "<section><h2>Mean cross-track error per manoeuvre, cm</h2>"
        + _table(["law, rate", *head], rows)
        + "<h2>Lowest rate from which on every drive finishes, Hz</h2>"
        + _table(["law", *head], lowest)
        + "</section>"
    )


def _cell(group: Sequence[RunRow], name: str, rate: float) -> str:
    here = [row for row in group if row.levels[MANOEUVRE] == name and row.levels[RATE] == rate]
    good = [
        value
        for row in here
        if row.outcome == "finished" and (value := row.metrics.get(CROSS_TRACK)) is not None
    ]
    if not here:
        return ""
    return (
        f"{100 * np.mean(good):.1f}"
        if len(good) == len(here)
        else _unfinished(len(here) - len(good), len(here))
    )


def _unfinished(count: int, total: int) -> str:
    return "did not finish" if total == 1 else f"{count} of {total} did not finish"


def _lowest(group: Sequence[RunRow], name: str) -> str:
    lowest = ""
    for rate in sorted({row.levels[RATE] for row in group}, reverse=True):
        here = [row for row in group if row.levels[MANOEUVRE] == name and row.levels[RATE] == rate]
        if any(row.outcome != "finished" for row in here):
            return lowest or "none"
        lowest = f"{rate:g}" if here else lowest
    return lowest


def _growth(groups: Mapping[str, Sequence[RunRow]]) -> str:
    """Return from which error to which the control rate leads, per manoeuvre and law, beside the
    published errors."""
    table, counts = [["as published"]], []
    for name, (rate, low_cm) in PUBLISHED_LOWEST.items():
        table[0].append(_grown(PUBLISHED_400_CM[name], low_cm, rate))
    counts.append(
        (
            "as published",
            sum(
                low_cm > GROWS * PUBLISHED_400_CM[name]
                for name, (_, low_cm) in PUBLISHED_LOWEST.items()
            ),
        )
    )
    for law, group in groups.items():
        if law == "as published":
            continue
        row, grows = [law], 0
        for name in PUBLISHED_400_CM:
            made = curve(
                [each for each in group if each.levels[MANOEUVRE] == name], CROSS_TRACK, 100.0
            )
            # From the highest rate down to the first at which a drive does not finish.
            tail = 1 + max(
                (k for k, mean in enumerate(made.means) if not isfinite(mean)), default=-1
            )
            rates, means = made.rates_hz[tail:], made.means[tail:]
            row.append(_grown(means[-1], means[0], rates[0]) if means else "")
            grows += bool(means) and means[0] > GROWS * means[-1]
        table.append(row)
        counts.append((law, grows))
    said = "; ".join(f"{law}: {count} of {len(PUBLISHED_400_CM)}" for law, count in counts)
    note = (
        "The thesis says that the error grows below some control rate. Mean cross-track error "
        "at the highest rate and at the lowest from which on every drive finishes, in cm. "
        f"Manoeuvres in which it grows by more than {100 * (GROWS - 1):.0f} %: {said}. A "
        "look-ahead in samples of the control rate lengthens as the rate falls, and the error "
        "with it; one that is fixed in seconds leaves only what the delay of the control steps "
        "costs."
    )
    head = ["law", *(name.removeprefix("thesis_") for name in PUBLISHED_400_CM)]
    return (
        "<section><h2>Error below a control "
        f"rate</h2><p>{escape(note)}</p>{_table(head, table)}</section>"
    )


def _grown(high_cm: float, low_cm: float, rate_hz: float) -> str:
    return f"{high_cm:.1f} to {low_cm:.1f} at {rate_hz:g} Hz"


def _statistics(groups: Mapping[str, Sequence[RunRow]]) -> str:
    """Return quartiles, fit and threshold of the thesis for each law."""
    rows = []
    for quantity, metric, scale, known in (
        ("cross-track, cm", CROSS_TRACK, 100.0, PUBLISHED_QUARTILES[0]),
        ("heading, deg", HEADING, _DEGREES, PUBLISHED_QUARTILES[1]),
    ):
        threshold = f"{PUBLISHED_THRESHOLD_HZ}" if metric == CROSS_TRACK else ""
        rows.append(
            [f"{quantity}: as published", "30", *(f"{value:.2f}" for value in known), "", threshold]
        )
        for law, group in groups.items():
            rates, values = curve(group, metric, scale).complete
            fit = two_gaussians(rates, values)
            fitted = "" if fit is None else f"R\N{SUPERSCRIPT TWO} {fit[1]:.3f}"
            knee = threshold_hz(rates, values)
            shown = [f"{value:.2f}" if isfinite(value) else "" for value in quartiles(values)]
            rows.append(
                [
                    f"{quantity}: {law}",
                    str(len(rates)),
                    *shown,
                    fitted,
                    number(knee) if isfinite(knee) else "",
                ]
            )
    note = (
        "The thesis averages each rate over its nine manoeuvres, takes quartiles over the rates "
        "at which all finish, fits a sum of two Gaussians, and calls the last rate before the "
        "error exceeds the upper quartile the threshold."
    )
    head = ["mean over the manoeuvres", "rates", "Q1", "Q2", "Q3", "two Gaussians", "threshold, Hz"]
    return f"<section><h2>Statistics of the thesis</h2><p>{note}</p>{_table(head, rows)}</section>"


def _artefact(groups: Mapping[str, Sequence[RunRow]]) -> str:
    """Return what the threshold rule finds in curves without a knee."""
    rates = np.arange(110.0, 401.0, 10.0)
    rows = [
        [name, f"{threshold_hz(rates, [function(f) for f in rates]):g}"]
        for name, function in MONOTONE.items()
    ]
    note = (
        "The rule finds a threshold in any curve: a quarter of all values lies above the upper "
        "quartile. In every error that falls steadily with the rate it finds the same rate, a "
        "quarter of the way up the driven range. Over 110 to 400 Hz, where the nine manoeuvres "
        "of the thesis finished:"
    )
    table = _table(["error over the rate f", "threshold, Hz"], rows)
    return f"<section><h2>The threshold is an artefact</h2><p>{note}</p>{table}</section>"


def _pictures(groups: Mapping[str, Sequence[RunRow]]) -> str:
    try:
        import matplotlib as mpl
    except ImportError:
        return (
            "<section><p>The figures need matplotlib: pip install 'vehicled[study]'.</p></section>"
        )

    parts = []
    style: Any = {
        "font.size": 8,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "svg.fonttype": "none",
        "svg.hashsalt": "study",
    }
    with mpl.rc_context(style):
        for title, draw in (
            ("Mean over the manoeuvres", _draw_means),
            ("Each manoeuvre: mean cross-track error, cm", _draw_manoeuvres),
            ("Drives that did not finish", _draw_unfinished),
        ):
            figure = new_figure(10.5, 3.4 if draw is not _draw_manoeuvres else 6.8)
            draw(figure, groups)
            text = io.BytesIO()
            figure.savefig(text, format="svg", metadata={"Date": None}, facecolor="white")
            source = base64.b64encode(text.getvalue()).decode()
            parts.append(
                f'<section><h2>{title}</h2><img alt="{title}" '
                f'src="data:image/svg+xml;base64,{source}"></section>'
            )
    return "".join(parts)


def _draw_means(figure: Any, groups: Mapping[str, Sequence[RunRow]]) -> None:
    panels = figure.subplots(1, 2)
    for panel, (metric, scale, label) in zip(
        panels,
        ((CROSS_TRACK, 100.0, "cross-track error, cm"), (HEADING, _DEGREES, "heading error, deg")),
        strict=True,
    ):
        for i, (law, rows) in enumerate(groups.items()):
            made = curve(rows, metric, scale)
            colour = f"C{i}"
            panel.plot(made.rates_hz, made.means, "o-", ms=2.5, lw=1, color=colour, label=law)
            panel.fill_between(made.rates_hz, made.low, made.high, color=colour, alpha=0.2, lw=0)
            rates, values = made.complete
            fit = two_gaussians(rates, values) if metric == CROSS_TRACK else None
            if fit is not None:
                fine = np.linspace(rates.min(), rates.max(), 200)
                panel.plot(fine, gaussians(fine, *fit[0]), ":", lw=1, color=colour)
        panel.set_xlabel("rate, Hz")
        panel.set_ylabel(label)
        panel.set_ylim(bottom=0.0)
    panels[0].legend(frameon=False)


def _draw_manoeuvres(figure: Any, groups: Mapping[str, Sequence[RunRow]]) -> None:
    panels = figure.subplots(3, 3, sharex=True).flat
    for panel, (name, known_cm) in zip(panels, PUBLISHED_400_CM.items(), strict=True):
        for i, (law, rows) in enumerate(groups.items()):
            here = [row for row in rows if row.levels[MANOEUVRE] == name]
            if here:
                made = curve(here, CROSS_TRACK, 100.0)
                panel.plot(made.rates_hz, made.means, "o-", ms=2, lw=0.8, color=f"C{i}", label=law)
                panel.fill_between(
                    made.rates_hz, made.low, made.high, color=f"C{i}", alpha=0.2, lw=0
                )
        panel.plot([400], [known_cm], "k*", ms=6, label="as published, 400 Hz")
        panel.set_title(name.removeprefix("thesis_"))
        panel.set_ylim(bottom=0.0)
    panels[0].legend(frameon=False, fontsize=6)


def _draw_unfinished(figure: Any, groups: Mapping[str, Sequence[RunRow]]) -> None:
    panels = np.atleast_1d(figure.subplots(1, len(groups), sharey=True))
    names = list(PUBLISHED_400_CM)
    for panel, (law, rows) in zip(panels, groups.items(), strict=True):
        rates = sorted({row.levels[RATE] for row in rows})
        share = np.full((len(names), len(rates)), nan)
        for i, name in enumerate(names):
            for j, rate in enumerate(rates):
                here = [
                    row
                    for row in rows
                    if row.levels[MANOEUVRE] == name and row.levels[RATE] == rate
                ]
                if here:
                    share[i, j] = sum(row.outcome != "finished" for row in here) / len(here)
        panel.imshow(share, aspect="auto", cmap="Reds", vmin=0.0, vmax=1.0, interpolation="nearest")
        step = max(1, len(rates) // 6)
        panel.set_xticks(range(0, len(rates), step), [f"{rate:g}" for rate in rates[::step]])
        panel.set_yticks(range(len(names)), [name.removeprefix("thesis_") for name in names])
        # One long name must not run into the next.
        panel.set_title(law.replace(", ", ",\n"))
        panel.set_xlabel("rate, Hz")
