"""HTML page of a validation: verdict, tables, and the figures of every run, in one file without scripts or downloads."""

from collections.abc import Sequence
from html import escape
from importlib.resources import files

from vehicled import __version__
from vehicled.lab.twin.figures import figures, legend
from vehicled.lab.validation.families import FAMILIES
from vehicled.lab.validation.result import RunComparison, TheoryCheck, Validation

_MARKS = {True: "good", False: "bad", None: "open"}


def render(validation: Validation) -> str:
    """Return the page as HTML."""
    style = files("vehicled.analysis.report").joinpath("page.css").read_text(encoding="utf-8")
    style += files("vehicled.lab.twin").joinpath("page.css").read_text(encoding="utf-8")
    parts = [
        _header(validation),
        _families(validation),
        _runs(validation.comparisons),
        _theory(validation.checks),
        _origins(validation),
        _figures(validation.comparisons),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">'
        f"<title>Vehicle model beside its references</title>\n<style>\n{style}</style></head>\n<body>\n"
        + "\n".join(part for part in parts if part)
        + f"\n<footer>Made by vehicled {escape(__version__)} from {escape(validation.folder)}.</footer></body></html>\n"
    )


def errors_cells(comparison: RunComparison) -> list[tuple[str, str]]:
    """Return the errors of a run as texts (value, limit): position, yaw rate, lateral speed, roll, speed. The limit may be
    empty.
    """
    errors, target = comparison.errors, comparison.target
    return [
        _cell(errors.position_pct, target.position_pct, "%"),
        _cell(errors.yaw_rate_pct, target.yaw_rate_pct, "%"),
        _cell(errors.lateral_speed_mps, target.lateral_speed_mps, " m/s", 3),
        _cell(errors.roll_deg, target.roll_deg, " deg"),
        _cell(errors.speed_mps, None, " m/s", 3),
    ]


def _cell(value: float, limit: float | None, unit: str, digits: int = 2) -> tuple[str, str]:
    text = f"{value:.{digits}f}{unit}" if value == value else "\N{EN DASH}"
    return text, f"{limit:g}" if limit is not None else ""


def _header(validation: Validation) -> str:
    sentences = [("bad", f"{failure.source.name}: {failure.reason}") for failure in validation.failures]
    sentences += [("open", problem) for problem in validation.problems]
    told = "".join(f'<li class="{mark}">{escape(text)}</li>' for mark, text in sentences)
    return (
        f'<header><p class="run">Vehicle model beside its references</p><h1 class="{_MARKS[validation.passed]}">'
        f"{escape(validation.headline())}</h1>"
        '<p class="facts">Our model simulates every run with the commands of the reference, open loop, from the same start. '
        "Position: RMS distance as percent of the path. Yaw rate: RMS as percent of the maximum. Others: RMS.</p>"
        f'<ul class="verdict">{told}</ul></header>'
    )


def _families(validation: Validation) -> str:
    rows = []
    for family in FAMILIES:
        runs = [comparison for comparison in validation.comparisons if comparison.source.family == family.name]
        if not runs:
            continue
        judged = [run for run in runs if run.judgement.passed is not None]
        missed = sum(run.judgement.passed is False for run in judged)
        worst = runs[0]
        positions = sorted(run.errors.position_pct for run in runs if run.errors.position_pct == run.errors.position_pct)
        median = f"{positions[len(positions) // 2]:.2f}%" if positions else "\N{EN DASH}"
        mark = "open" if not judged else _MARKS[not missed]
        rows.append(
            f'<tr><td>{escape(family.title)}</td><td class="{mark}"></td><td class="n">{len(judged) - missed} of {len(judged)}</td>'
            f'<td class="n">{len(runs)}</td><td class="n">{median}</td><td>{_link(worst)}</td>'
            f'<td class="n">{_share(worst)}</td></tr>'
        )
    heads = ("reference", "", "passed", "runs", "median position", "worst run", "of its limit")
    return _table("families", "By reference", heads, rows, numeric=(2, 3, 4, 6))


def _runs(comparisons: Sequence[RunComparison]) -> str:
    rows = []
    for run in comparisons:
        cells = "".join(_figure(value, limit) for value, limit in errors_cells(run))
        reasons = "; ".join(run.judgement.reasons)
        rows.append(
            f'<tr><td>{_link(run)}</td><td class="{_MARKS[run.judgement.passed]}"></td>{cells}<td class="n">{_share(run)}</td>'
            f"<td>{escape(run.target.name)}{': ' + escape(reasons) if reasons else ''}</td></tr>"
        )
    heads = ("run", "", "position", "yaw rate", "lateral speed", "roll", "speed", "of its limit", "kind of run")
    return _table("runs", "Runs, worst first", heads, rows, numeric=(2, 3, 4, 5, 6, 7))


def _figure(value: str, limit: str) -> str:
    return f'<td class="n">{value}' + (f' <span class="of">/ {limit}</span></td>' if limit else "</td>")


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
            cells += "<td></td>" if check is None else f'<td class="{_MARKS[check.passed]}" title="{escape(check.found)}"></td>'
        rows.append(f"<tr><td>{escape(vehicle)}</td>{cells}</tr>")
    failed = "".join(
        f'<li class="bad">{escape(check.vehicle)}, {escape(check.name)}: {escape(check.found)}; not {escape(check.wanted)}</li>'
        for check in checks
        if check.passed is False
    )
    wanted = {check.name: check.wanted for check in reversed(checks) if check.passed is not None}
    terms = "".join(f"<li><b>{escape(name)}</b>: {escape(wanted.get(name, 'does not apply'))}</li>" for name in names)
    table = _table("theory", "Against theory, without data", ["vehicle", *names], rows)
    return table + f'<ul class="verdict">{failed}</ul><details><summary>Condition of each check</summary><ul>{terms}</ul></details>'


def _origins(validation: Validation) -> str:
    rows = []
    for counts in validation.provenance:
        numbers = (counts.published, counts.calibrated, counts.derived, counts.assumed)
        cells = "".join(f'<td class="n">{count}</td>' for count in (*numbers, sum(numbers)))
        rows.append(f"<tr><td>{escape(counts.vehicle)}</td>{cells}</tr>")
    heads = ("vehicle", "published", "calibrated", "derived", "assumed", "numbers")
    return _table("origins", "Origin of the parameters", heads, rows, numeric=(1, 2, 3, 4, 5))


def _figures(comparisons: Sequence[RunComparison]) -> str:
    parts = []
    for run in comparisons:
        texts = [f"{name} {value}" for name, (value, _) in zip(("position", "yaw rate"), errors_cells(run))]
        opened = " open" if run.judgement.passed is False else ""
        mark = _MARKS[run.judgement.passed]
        parts.append(
            f'<details class="run-figures" id="{_anchor(run)}"{opened}><summary><span class="{mark}">'
            f'{_breakable(run.source.name)}</span><span class="figures">{escape(", ".join(texts))}</span></summary>'
            f"{figures(run)}</details>"
        )
    return f'<section id="figures"><h2>Every run</h2><p class="legend">{legend()}</p>{"".join(parts)}</section>' if parts else ""


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
    return f'<span class="share{bad}"><i style="width:{100 * min(share, 1.0):.0f}%"></i></span> {text}'


def _table(name: str, title: str, heads: Sequence[str], rows: Sequence[str], numeric: Sequence[int] = ()) -> str:
    if not rows:
        return ""
    head = "".join(f"<th{' class=n' if k in numeric else ''}>{escape(text)}</th>" for k, text in enumerate(heads))
    return (
        f'<section id="{name}"><h2>{escape(title)}</h2><div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div></section>"
    )
