"""HTML page of a validation: verdict, tables, and the figures of every run, in one file without
scripts or downloads."""

from collections.abc import Sequence

from vehicled.core.plain_text import escape
from vehicled.offline.analysis import html
from vehicled.offline.twin.figures import figures, legend
from vehicled.offline.twin.validation.evidence import Finding
from vehicled.offline.twin.validation.families import FAMILIES
from vehicled.offline.twin.validation.result import RunComparison, TheoryCheck, Validation
from vehicled.offline.twin.validation.targets import FIGURES

_MARKS = {True: "good", False: "bad", None: "open"}


def render(validation: Validation) -> str:
    """Return the page as HTML."""
    parts = [
        _header(validation),
        _families(validation),
        _runs(validation.comparisons),
        _together(validation.findings),
        _theory(validation.checks),
        _origins(validation),
        _figures(validation.comparisons),
    ]
    return page("Vehicle model beside its references", validation.folder, parts)


def page(title: str, folder: str, parts: Sequence[str]) -> str:
    """Return a page of the commands that validate."""
    style = html.resource("vehicled.offline.analysis.report", "page.css") + html.resource(
        "vehicled.offline.twin", "page.css"
    )
    return html.page(title, style, parts, f" from {folder}")


def errors_cells(comparison: RunComparison) -> list[tuple[str, str]]:
    """Return the errors of a run in percent as texts (value, limit), in the order of
    :data:`FIGURES`. Both may be empty."""
    errors, limits = comparison.errors, comparison.limits
    return [
        (
            f"{errors[name]:.2f}" if name in errors else "\N{EN DASH}",
            f"{limits[name]:.2g}" if name in limits else "",
        )
        for name in FIGURES
    ]


def _header(validation: Validation) -> str:
    sentences = [
        ("bad", f"{failure.source.name}: {failure.reason}") for failure in validation.failures
    ]
    sentences += [("open", problem) for problem in validation.problems]
    listed = "".join(f'<li class="{mark}">{escape(text)}</li>' for mark, text in sentences)
    return (
        '<header><p class="run">Vehicle model beside its references</p><h1 '
        f'class="{_MARKS[validation.passed]}">'
        f"{escape(validation.headline())}</h1>"
        '<p class="facts">Our model simulates every run with the commands of the reference, '
        "open loop, from the same start. "
        "Errors are RMS in percent: position of the path, loads of the weight, slip as it is, "
        "others of the reference's maximum. They are judged until the reference's tyres slide, "
        "lock, spin or lift.</p>"
        f'<ul class="verdict">{listed}</ul></header>'
    )


def _families(validation: Validation) -> str:
    rows = []
    for family in FAMILIES:
        runs = [
            comparison
            for comparison in validation.comparisons
            if comparison.source.family == family.name
        ]
        if not runs:
            continue
        judged = [run for run in runs if run.judgement.passed is not None]
        missed = sum(run.judgement.passed is False for run in judged)
        worst = runs[0]
        positions = sorted(run.errors["position"] for run in runs if "position" in run.errors)
        median = f"{positions[len(positions) // 2]:.2f}%" if positions else "\N{EN DASH}"
        mark = "open" if not judged else _MARKS[not missed]
        rows.append(
            f'<tr><td>{escape(family.title)}</td><td class="{mark}"></td><td '
            f'class="n">{len(judged) - missed} of {len(judged)}</td><td '
            f'class="n">{len(runs)}</td><td class="n">{median}</td><td>{_link(worst)}</td><td '
            f'class="n">{_share(worst)}</td></tr>'
        )
    heads = ("reference", "", "passed", "runs", "median position", "worst run", "of its limit")
    return table("families", "By reference", heads, rows, numeric=(2, 3, 4, 6))


def _runs(comparisons: Sequence[RunComparison]) -> str:
    rows = []
    for run in comparisons:
        cells = "".join(_figure(value, limit) for value, limit in errors_cells(run))
        notes = [run.target.name, *run.judgement.reasons]
        if run.judged.limit:
            notes.append(f"judged to {judged_s(run):.1f} s: {run.judged.limit}")
        rows.append(
            f'<tr><td>{_link(run)}</td><td class="{_MARKS[run.judgement.passed]}"></td><td '
            f'class="n">{_share(run)}</td>{cells}'
            f"<td>{escape('; '.join(notes))}</td></tr>"
        )
    heads = ("run", "", "of its limit", *(f"{name} %" for name in FIGURES), "kind of run")
    return table("runs", "Runs, worst first", heads, rows, numeric=range(2, 3 + len(FIGURES)))


def judged_s(run: RunComparison) -> float:
    """Return the time up to which the figures of a run are judged."""
    t = run.reference.t_s
    return float(t[min(run.judged.rows, len(t)) - 1] - t[0])


def _together(findings: Sequence[Finding]) -> str:
    """Return the estimated deviations of the parameters, a row per vehicle and model."""
    rows = []
    for group in dict.fromkeys(finding.group for finding in findings):
        cells = ""
        for finding in findings:
            if finding.group == group:
                text = (
                    f"{finding.deviation_pct:+.1f}" if finding.passed is not None else "\N{EN DASH}"
                )
                title = f"10 % move the figures by {finding.strength:.2f} of their limits"
                cells += (
                    f'<td class="n{" off" if finding.passed is False else ""}" '
                    f'title="{title}">{text}</td>'
                )
        rows.append(f"<tr><td>{_breakable(group)}</td>{cells}</tr>")
    heads = ["vehicle and model", *dict.fromkeys(finding.parameter for finding in findings)]
    section = table(
        "together",
        "All runs together: deviation of a parameter that explains them, %",
        heads,
        rows,
        range(1, len(heads)),
    )
    return (
        section + '<p class="legend">A dash: the runs do not show the parameter.</p>'
        if section
        else ""
    )


def _figure(value: str, limit: str) -> str:
    return f'<td class="n">{value}' + (
        f' <span class="of">/ {limit}</span></td>' if limit else "</td>"
    )


def _theory(checks: Sequence[TheoryCheck]) -> str:
    if not checks:
        return ""
    names = list(dict.fromkeys(check.name for check in checks))
    found = {(check.vehicle, check.name): check for check in checks}
    rows = []
    for vehicle in dict.fromkeys(check.vehicle for check in checks):
        cells = ""
        for name in names:
            check = found.get((vehicle, name))
            cells += (
                "<td></td>"
                if check is None
                else f'<td class="{_MARKS[check.passed]}" title="{escape(check.found)}"></td>'
            )
        rows.append(f"<tr><td>{escape(vehicle)}</td>{cells}</tr>")
    failed = "".join(
        (
            f'<li class="bad">{escape(check.vehicle)}, {escape(check.name)}: '
            f"{escape(check.found)}; not {escape(check.wanted)}</li>"
        )
        for check in checks
        if check.passed is False
    )
    wanted = {check.name: check.wanted for check in reversed(checks) if check.passed is not None}
    terms = "".join(
        f"<li><b>{escape(name)}</b>: {escape(wanted.get(name, 'does not apply'))}</li>"
        for name in names
    )
    section = table("theory", "Against theory, without data", ["vehicle", *names], rows)
    return section + (
        f'<ul class="verdict">{failed}</ul><details><summary>Condition of each '
        f"check</summary><ul>{terms}</ul></details>"
    )


def _origins(validation: Validation) -> str:
    rows = []
    for counts in validation.provenance:
        numbers = (counts.published, counts.calibrated, counts.derived, counts.assumed)
        cells = "".join(f'<td class="n">{count}</td>' for count in (*numbers, sum(numbers)))
        rows.append(f"<tr><td>{escape(counts.vehicle)}</td>{cells}</tr>")
    heads = ("vehicle", "published", "calibrated", "derived", "assumed", "numbers")
    return table("origins", "Origin of the parameters", heads, rows, numeric=(1, 2, 3, 4, 5))


def _figures(comparisons: Sequence[RunComparison]) -> str:
    parts = []
    for run in comparisons:
        texts = [
            f"{name} {run.errors[name]:.2f}%"
            for name in ("position", "yaw rate")
            if name in run.errors
        ]
        opened = " open" if run.judgement.passed is False else ""
        mark = _MARKS[run.judgement.passed]
        parts.append(
            f'<details class="run-figures" id="{_anchor(run)}"{opened}><summary><span '
            f'class="{mark}">{_breakable(run.source.name)}</span><span '
            f'class="figures">{escape(", ".join(texts))}</span></summary>'
            f"{figures(run)}</details>"
        )
    return (
        (
            '<section id="figures"><h2>Every run</h2><p '
            f'class="legend">{legend()}</p>{"".join(parts)}</section>'
        )
        if parts
        else ""
    )


def _anchor(run: RunComparison) -> str:
    return run.source.name.replace("/", "--")


def _link(run: RunComparison) -> str:
    return f'<a href="#{escape(_anchor(run))}">{_breakable(run.source.name)}</a>'


def _breakable(name: str) -> str:
    """Return a name that browsers may break at its joints."""
    return escape(name).replace("_", "_<wbr>").replace("/", "/<wbr>")


def _share(run: RunComparison) -> str:
    share = run.judgement.share
    if share != share:
        return "\N{EN DASH}"
    text = f"{100 * share:.0f}%" if share < 100 else "beyond"
    bad = "" if run.judgement.passed else " bad"
    return (
        f'<span class="share{bad}"><i style="width:{100 * min(share, 1.0):.0f}%"></i></span> {text}'
    )


def table(
    name: str, title: str, heads: Sequence[str], rows: Sequence[str], numeric: Sequence[int] = ()
) -> str:
    """Return a section with a table; empty without rows."""
    if not rows:
        return ""
    return (
        f'<section id="{name}"><h2>{escape(title)}</h2>{html.table(heads, rows, numeric)}</section>'
    )
