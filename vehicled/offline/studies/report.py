"""Report of a study: one HTML page with effects, quantiles and failures."""

from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from msgspec import Struct

from vehicled.core.plain_text import escape
from vehicled.offline.analysis import html
from vehicled.offline.analysis.report.chart import Scale
from vehicled.offline.studies import optimise, statistics
from vehicled.offline.studies.conduct import RunRow
from vehicled.offline.studies.errors import StudyError
from vehicled.offline.studies.metrics import DEFAULT
from vehicled.offline.studies.specification import Specification, parse
from vehicled.offline.studies.statistics import Effect, effects
from vehicled.offline.studies.table import RunTable
from vehicled.profile.plugins import is_reference, table_name
from vehicled.profile.problems import nearest
from vehicled.run.output import new_figure, save_figure

_LISTED = 500
"""Failures that the page lists."""
_MOST_LEVELS = 60
"""A factor with more levels is not tabulated level by level."""


class Finished(Struct, frozen=True):
    """A study and its rows, as read from its folder."""

    specification: Specification
    rows: list[RunRow]
    facts: dict[str, str]
    folder: Path

    @property
    def metrics(self) -> list[str]:
        """Return the metrics that the study asks for, those of the user's functions by their names
        in the table."""
        named: list[str] = []
        for metric in self.specification.metrics or DEFAULT:
            name = table_name(metric) if is_reference(metric) else metric
            own = dict.fromkeys(
                key
                for row in self.rows
                for key in row.metrics
                if key == name or key.startswith(f"{name}.")
            )
            named += own or [name]
        return named

    def check_metric(self, name: str) -> str:
        """Return the name of a metric that the table has. Raises :class:`StudyError` for another,
        with the nearest."""
        return _known(
            "metric", name, dict.fromkeys(key for row in self.rows for key in row.metrics)
        )

    def check_factor(self, name: str) -> str:
        """Return the name of a factor. Raises :class:`StudyError` for another, with the nearest."""
        return _known("factor", name, dict.fromkeys(self.specification.columns))


def _known(kind: str, name: str, known: Any) -> str:
    if name in known:
        return name
    near = nearest(name, known)
    raise StudyError(
        f"{kind} {name!r:.60}",
        [f"did you mean {near}?" if near else f"the study has {', '.join(known) or 'none'}"],
    )


def read_study(folder: Path) -> Finished:
    """Read a study folder. Raises :class:`StudyError` if it holds none, or none that was finished
    or interrupted."""
    with RunTable(folder) as table:
        facts = table.facts()
        rows = list(table.belonging())
    if not facts or not rows:
        raise StudyError(
            str(folder),
            ["holds no finished run yet: call 'vehicled study' with this --output first"],
        )
    return Finished(parse(facts["source"], Path(facts["path"]), driven=True), rows, facts, folder)


def write_report(study: Finished, output: Path) -> None:
    """Write the page. Raises :class:`StudyError` if the file cannot be written."""
    try:
        output.write_text(render(study, output.resolve().parent), encoding="utf-8")
    except OSError as error:
        raise StudyError(str(output), [f"cannot be written: {error.strerror or error}"]) from None


def render(study: Finished, folder: Path, *, body: str = "") -> str:
    """Return the page. ``folder`` is where it will lie, for links to logs; ``body`` is put before
    the effects."""
    specification = study.specification
    sections = [_summary(study), body]
    if specification.optimise is not None:
        sections.append(_best(study))
    factors = [name for name in specification.columns if name != statistics.REPLICATE]
    sections += [_factor(study, name) for name in factors]
    sections += [_quantiles(study), _failures(study, folder), _study_file(study)]
    style = html.resource("vehicled.offline.studies", "report.css")
    origin = f", software {study.facts.get('software', '')}"
    return html.page(f"Study {specification.name}", style, sections, origin, pictures=True)


def _summary(study: Finished) -> str:
    rows, specification = study.rows, study.specification
    count = {
        outcome: sum(row.outcome == outcome for row in rows)
        for outcome in ("finished", "failed", "refused", "crashed")
    }
    simulated_h = sum(row.run_s for row in rows) / 3600
    cpu_h = sum(row.cpu_s for row in rows) / 3600
    bad = "".join(
        f", {count[name]} {name}" for name in ("failed", "refused", "crashed") if count[name]
    )
    low, high = statistics.proportion(len(rows) - count["finished"], len(rows))
    facts = [
        f"{len(rows)} of {specification.size} runs: {count['finished']} finished{bad}",
        f"not finished: {100 * low:.1f} to {100 * high:.1f} % (95 % interval)",
        # Drives with the exact state keep no time.
        (f"{simulated_h:.2f} h simulated in " if simulated_h else "")
        + f"{cpu_h:.2f} h of processor time",
    ]
    seeds = {row.levels.get(statistics.REPLICATE) for row in rows} - {None}
    what = (
        f"{len(seeds)} seeds, resampled whole"
        if len(seeds) > 1
        else "the runs of a level, because there is one seed only"
    )
    note = f"Means are over finished runs. Intervals are 95 % bootstrap intervals over {what}."
    if 1 < len(seeds) < statistics.ENOUGH:
        note += f" With fewer than {statistics.ENOUGH} seeds they are too narrow."
    listed = "".join(f"<li>{escape(fact)}</li>" for fact in facts)
    return (
        "<header><h1>Study "
        f"{escape(specification.name)}</h1><p>{escape(specification.description)}</p>"
        f"<ul>{listed}</ul><p class=note>{note}</p></header>"
    )


def _factor(study: Finished, factor: str) -> str:
    made = [(metric, statistics.effects(study.rows, factor, metric)) for metric in study.metrics]
    made = [(metric, found) for metric, found in made if any(isfinite(each.mean) for each in found)]
    if not made:
        return ""
    levels = made[0][1]
    if len(levels) < 2:
        return ""
    charts = "".join(
        f"<figure>{chart(found)}<figcaption>{escape(metric)}</figcaption></figure>"
        for metric, found in made
    )
    table = ""
    if len(levels) <= _MOST_LEVELS:
        heads = "".join(f"<th colspan=2>{escape(metric)}</th>" for metric, _ in made)
        under = "<th>mean</th><th>change to the first level, paired</th>" * len(made)
        body = ""
        for i, level in enumerate(levels):
            cells = "".join(
                f"<td>{_mean(found[i])}</td><td>{_change(found[i])}</td>" for _, found in made
            )
            body += (
                f"<tr><th>{escape(_label(level.level))}</th><td>{level.finished} of "
                f"{level.runs}</td>{cells}</tr>"
            )
        table = (
            f'<div class="scroll"><table><thead><tr><th rowspan=2>{escape(factor)}</th><th '
            f"rowspan=2>finished</th>{heads}</tr>"
            f"<tr>{under}</tr></thead><tbody>{body}</tbody></table></div>"
        )
    return f'<section><h2>{escape(factor)}</h2><div class="charts">{charts}</div>{table}</section>'


def number(value: float) -> str:
    """Format a number with four significant digits."""
    return f"{value:.4g}".replace("-", "\N{MINUS SIGN}") if isfinite(value) else "\N{EN DASH}"


def _label(level: object) -> str:
    """Return a level for the table; sampled ones have sixteen digits."""
    return f"{level:.6g}" if isinstance(level, float) else str(level)


def _mean(effect: Effect) -> str:
    bounds = (
        f" <small>{number(effect.low)} .. {number(effect.high)}</small>"
        if isfinite(effect.low)
        else ""
    )
    return f"{number(effect.mean)}{bounds}"


def _change(effect: Effect) -> str:
    if not isfinite(effect.change):
        return ""
    if not isfinite(effect.change_low):
        return number(effect.change)
    clear = effect.clusters >= statistics.ENOUGH and (
        effect.change_low > 0 or effect.change_high < 0
    )
    text = (
        f"{number(effect.change)} <small>{number(effect.change_low)} .. "
        f"{number(effect.change_high)}</small>"
    )
    return f"<b>{text}</b>" if clear else text


_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 420, 200, 62, 34, 10
_CHARACTER = 6.5
"""Width of a character of a label."""


def chart(found: Sequence[Effect]) -> str:
    """Return means with their intervals over the levels as an SVG: a line with a band for numbers,
    else points."""
    shown = [each for each in found if isfinite(each.mean)]
    numeric = (
        all(
            isinstance(each.level, int | float) and not isinstance(each.level, bool)
            for each in shown
        )
        and len(shown) > 1
    )
    bounds = [
        value for each in shown for value in (each.mean, each.low, each.high) if isfinite(value)
    ]
    scale = Scale.around(min(0.0, *bounds), max(bounds))
    low, high = scale.low, scale.high
    positions = (
        [float(each.level) for each in shown] if numeric else [i + 0.5 for i in range(len(shown))]
    )
    first, last = (min(positions), max(positions)) if numeric else (0.0, float(len(shown)))

    def x(position: float) -> float:
        return _LEFT + (position - first) / (last - first or 1.0) * (_WIDTH - _LEFT - 12)

    def y(value: float) -> float:
        return _HEIGHT - _BOTTOM - (value - low) / (high - low) * (_HEIGHT - _BOTTOM - _TOP)

    parts = []
    for value in scale.ticks():
        parts.append(
            f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH}" y1="{y(value):.1f}" '
            f'y2="{y(value):.1f}"/>'
        )
        parts.append(
            f'<text x="{_LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{number(value)}</text>'
        )
    banded = [
        (position, each)
        for position, each in zip(positions, shown, strict=True)
        if isfinite(each.low)
    ]
    if numeric:
        if len(banded) > 1:
            edge = [f"{x(p):.1f},{y(e.high):.1f}" for p, e in banded] + [
                f"{x(p):.1f},{y(e.low):.1f}" for p, e in reversed(banded)
            ]
            parts.append(f'<polygon class="band" points="{" ".join(edge)}"/>')
        line = " ".join(
            f"{x(p):.1f},{y(e.mean):.1f}" for p, e in zip(positions, shown, strict=True)
        )
        parts.append(f'<polyline class="line" points="{line}"/>')
    else:
        parts += [
            (
                f'<line class="whisker" x1="{x(p):.1f}" x2="{x(p):.1f}" y1="{y(e.low):.1f}" '
                f'y2="{y(e.high):.1f}"/>'
            )
            for p, e in banded
        ]
    parts += [
        (
            f'<circle cx="{x(p):.1f}" cy="{y(e.mean):.1f}" r="3"><title>{escape(str(e.level))}: '
            f"{number(e.mean)}</title></circle>"
        )
        for p, e in zip(positions, shown, strict=True)
    ]
    step = max(1, -(-len(shown) // 8))
    room = int((_WIDTH - _LEFT) / max(1, -(-len(shown) // step)) / _CHARACTER)
    free = 0.0
    for i, (position, each) in enumerate(zip(positions, shown, strict=True)):
        label = number(each.level) if numeric else str(each.level)
        label = (
            label
            if numeric or len(label) <= room
            else label[: max(room - 1, 1)] + "\N{HORIZONTAL ELLIPSIS}"
        )
        half = 0.5 * _CHARACTER * len(label)
        middle = min(x(position), _WIDTH - half)
        # Sampled levels lie anywhere: a label that would touch the one before is left out.
        if middle - half >= free if numeric else i % step == 0:
            parts.append(
                f'<text x="{middle:.1f}" y="{_HEIGHT - 12}" '
                f'text-anchor="middle">{escape(label)}</text>'
            )
            free = middle + half + _CHARACTER
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">{"".join(parts)}</svg>'


def _quantiles(study: Finished) -> str:
    rows = []
    for metric in study.metrics:
        values = statistics.values_of(study.rows, metric)
        mean = sum(values) / len(values) if values else float("nan")
        cells = [
            str(len(values)),
            number(mean),
            *map(number, statistics.quantiles(study.rows, metric)),
        ]
        rows.append(html.row([metric, *cells], named=True))
    heads = ["metric", "runs", "mean", *(f"{100 * q:g} %" for q in statistics.QUANTILES)]
    return f"<section><h2>Quantiles over all finished runs</h2>{html.table(heads, rows)}</section>"


def _failures(study: Finished, folder: Path) -> str:
    bad = [row for row in study.rows if row.outcome != "finished" or row.problem]
    if not bad:
        return "<section><h2>Failures</h2><p>None.</p></section>"
    body = ""
    for row in bad[:_LISTED]:
        levels = ", ".join(f"{name} = {level}" for name, level in row.levels.items())
        why = "; ".join(
            text for text in (row.why if row.outcome != "finished" else "", row.problem) if text
        )
        log = ""
        if row.log:
            path = Path(row.log).resolve()
            link = (
                path.relative_to(folder).as_posix()
                if path.is_relative_to(folder)
                else path.as_uri()
            )
            log = f'<a href="{escape(link)}">log</a>'
        body += (
            f"<tr><td>{row.number}</td><td>{escape(levels)}</td><td>{row.outcome}</td><td>{escape(why)}</td>"
            f"<td>{log}</td><td><code>{escape(row.command)}</code></td></tr>"
        )
    more = f"<p>{len(bad) - _LISTED} more are in the table.</p>" if len(bad) > _LISTED else ""
    heads = ("run", "levels", "outcome", "reason", "log", "command that repeats it")
    return f"<section><h2>Failures</h2>{html.table(heads, [body], kind='failures')}{more}</section>"


def _best(study: Finished) -> str:
    wanted = study.specification.optimise
    assert wanted is not None
    best = optimise.best_trial(study.rows, wanted)
    if best is None:
        return "<section><h2>Best trial</h2><p>No trial finished.</p></section>"
    levels, value = best
    rows = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(str(level))}</td></tr>"
        for name, level in levels.items()
    )
    return (
        f"<section><h2>Best trial</h2><p>{escape(wanted.metric)} = "
        f"{number(value)}</p><table>{rows}</table></section>"
    )


def _study_file(study: Finished) -> str:
    return f"<section><h2>Study file</h2><pre>{escape(study.specification.source)}</pre></section>"


_WIDTH_IN, _HEIGHT_IN = 3.5, 2.4
"""One column of a two-column paper."""


def write_figure(
    study: Finished, output: Path, metrics: Sequence[str], x: str, lines: str = ""
) -> None:
    """Draw one panel for each metric over the factor ``x``, with a line for each level of
    ``lines``."""
    import matplotlib as mpl

    groups: dict[str, list[RunRow]] = {}
    for row in study.rows:
        groups.setdefault(str(row.levels.get(lines, "")) if lines else "", []).append(row)
    style: Any = {
        "font.size": 8,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "pdf.fonttype": 42,
        "svg.fonttype": "none",
    }
    with mpl.rc_context(style):
        figure = new_figure(_WIDTH_IN * len(metrics), _HEIGHT_IN)
        panels = figure.subplots(1, len(metrics), squeeze=False)
        for panel, metric in zip(panels[0], metrics, strict=True):
            for name, rows in groups.items():
                found = [each for each in effects(rows, x, metric) if each.mean == each.mean]
                numeric = all(isinstance(each.level, int | float) for each in found)
                places = [each.level for each in found] if numeric else list(range(len(found)))
                means = [each.mean for each in found]
                (line,) = panel.plot(
                    places, means, "o-" if numeric else "o", ms=2.5, lw=1, label=name
                )
                low, high = [each.low for each in found], [each.high for each in found]
                if numeric:
                    panel.fill_between(places, low, high, color=line.get_color(), alpha=0.2, lw=0)
                else:
                    panel.vlines(places, low, high, color=line.get_color(), lw=1)
                    panel.set_xticks(
                        places, [str(each.level) for each in found], rotation=30, ha="right"
                    )
            panel.set_xlabel(x)
            panel.set_ylabel(metric)
            panel.set_ylim(bottom=min(0.0, panel.get_ylim()[0]))
        if lines:
            panels[0][-1].legend(title=lines, frameon=False)
        save_figure(figure, output)
