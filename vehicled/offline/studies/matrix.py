"""Report ``matrix``: a metric over two factors as a table of means with intervals, and where on the
course the errors are.

The study names its factors ``controller`` and ``vehicle``. Metrics ``place.NN_m`` are the mean
errors of equal parts of the course.
"""

from collections.abc import Mapping, Sequence
from html import escape
from math import isfinite, sqrt
from pathlib import Path

from vehicled.offline.studies.conduct import RunRow
from vehicled.offline.studies.errors import StudyError
from vehicled.offline.studies.report import Finished, number, render
from vehicled.offline.studies.statistics import REPLICATE, interval

ROW, COLUMN = "controller", "vehicle"
METRICS = {
    "cross_track_mean_m": ("Mean cross-track error, cm", 100.0),
    "steering.rate_rms_radps": ("RMS rate of the wheels, rad/s", 1.0),
    "steering.fast_share": ("Share of the wheels' motion above 1 Hz, %", 100.0),
}
"""Headings of the tables, and the factor from the metric's unit."""
PLACE = "place."
Cells = Mapping[tuple[str, str], Sequence[RunRow]]


def write_matrix(study: Finished, output: Path) -> None:
    """Write the page. Raises :class:`StudyError` without the two factors, or if the file cannot be
    written."""
    cells: dict[tuple[str, str], list[RunRow]] = {}
    for row in study.rows:
        if not {ROW, COLUMN} <= row.levels.keys():
            raise StudyError(
                study.specification.path,
                [f"the report matrix needs the factors {ROW} and {COLUMN}"],
            )
        cells.setdefault((str(row.levels[ROW]), str(row.levels[COLUMN])), []).append(row)
    body = "".join(
        _matrix(cells, metric, head, scale) for metric, (head, scale) in METRICS.items()
    ) + _places(cells)
    try:
        output.write_text(render(study, output.resolve().parent, body=body), encoding="utf-8")
    except OSError as error:
        raise StudyError(str(output), [f"cannot be written: {error.strerror or error}"]) from None


def _names(cells: Cells) -> tuple[list[str], list[str]]:
    return list(dict.fromkeys(row for row, _ in cells)), list(
        dict.fromkeys(column for _, column in cells)
    )


def _mean(rows: Sequence[RunRow], metric: str) -> float:
    found = [
        value
        for row in rows
        if row.outcome == "finished" and (value := row.metrics.get(metric)) is not None
    ]
    return sum(found) / len(found) if found else float("nan")


def _matrix(cells: Cells, metric: str, head: str, scale: float) -> str:
    rows, columns = _names(cells)
    means = {key: scale * _mean(group, metric) for key, group in cells.items()}
    known = [mean for mean in means.values() if isfinite(mean)]
    if not known:
        return ""
    most = max(known)
    body = ""
    for row in rows:
        body += f"<tr><th>{escape(row)}</th>"
        for column in columns:
            group, mean = cells.get((row, column), ()), means.get((row, column), float("nan"))
            body += f"<td{_shade(mean, most)}>{_text(group, metric, scale, mean)}</td>"
        body += "</tr>"
    heads = "".join(f"<th>{escape(name)}</th>" for name in ("", *columns))
    return (
        f"<section><h2>{escape(head)}</h2><p>Mean over the finished drives, and its 95 % "
        "interval over the seeds.</p>"
        "<div "
        f'class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div></section>'
    )


def _text(group: Sequence[RunRow], metric: str, scale: float, mean: float) -> str:
    failed = sum(row.outcome != "finished" for row in group)
    text = number(mean) if isfinite(mean) else ""
    pairs = [
        (row.levels.get(REPLICATE), scale * value)
        for row in group
        if row.outcome == "finished" and (value := row.metrics.get(metric)) is not None
    ]
    low, high = interval(pairs)
    if isfinite(low):
        text += f" <small>{number(low)} to {number(high)}</small>"
    return text + (f" <small>{failed} of {len(group)} not finished</small>" if failed else "")


def _shade(value: float, most: float) -> str:
    """Return the style of a cell: the root makes small errors distinguishable."""
    if not isfinite(value) or most <= 0.0:
        return ""
    return f' style="background:rgba(194,87,26,{0.75 * sqrt(max(value, 0.0) / most):.2f})"'


def _places(cells: Cells) -> str:
    """Return a strip for each drive: the error along the course."""
    rows, columns = _names(cells)
    names = sorted(
        {
            name
            for group in cells.values()
            for row in group
            for name in row.metrics
            if name.startswith(PLACE)
        }
    )
    if not names:
        return ""
    means = {
        (row, column, name): _mean(cells.get((row, column), ()), name)
        for row in rows
        for column in columns
        for name in names
    }
    known = [value for value in means.values() if isfinite(value)]
    most = max(known, default=0.0)
    body = ""
    for column in columns:
        body += f'<tr><th colspan="{len(names) + 1}">{escape(column)}</th></tr>'
        for row in rows:
            strip = "".join(
                f'<td{_shade(value, most)} title="{100.0 * value:.1f} cm">&nbsp;</td>'
                for name in names
                for value in (means[row, column, name],)
            )
            body += f"<tr><td>{escape(row)}</td>{strip}</tr>"
    return (
        "<section><h2>Where on the course</h2><p>Mean cross-track error of each part of the "
        "course, from the start on the left to the end on the right; the darkest is "
        f"{100.0 * most:.0f} cm.</p>"
        f'<div class="scroll"><table>{body}</table></div></section>'
    )
