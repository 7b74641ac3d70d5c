"""Detection table of ``vehicled twin validate --mutants``: as text, JSON and a page."""

from argparse import Namespace
from collections.abc import Iterable
from html import escape
from pathlib import Path

import msgspec

from vehicled.offline.twin.page import page, table
from vehicled.offline.twin.validation.evidence import FEWEST_RUNS, LARGEST_PCT
from vehicled.offline.twin.validation.mutants import CHANGES_PCT, HEALTHY, Detection, DetectionTable
from vehicled.offline.twin.validation.parameters import PARAMETERS
from vehicled.run.output import write_output
from vehicled.run.terminal import print_table

_BIG = max(CHANGES_PCT)
_HIDDEN = "\N{EN DASH}"


def show(result: DetectionTable, arguments: Namespace) -> int:
    """Print the table and write the page. Return 0 without false alarms, else 1."""
    if arguments.output:
        write_output(Path(arguments.output), render(result))
    if arguments.json:
        data = {
            "headline": result.headline(),
            "problems": result.problems,
            "detections": msgspec.to_builtins(result.detections),
        }
        print(msgspec.json.format(msgspec.json.encode(data), indent=2).decode())
    else:
        _print(result)
        if arguments.output:
            print(f"page: {arguments.output}")
    return 1 if result.false_alarms else 0


def _print(result: DetectionTable) -> None:
    for vehicle, rows in _by_vehicle(result):
        lines = [
            [parameter, *(_cell(row) for row in of), *_nearest(of)]
            for parameter, of in _by_parameter(rows)
        ]
        heads = [
            "parameter",
            *(f"{change:+d}%" for change in CHANGES_PCT),
            "shown best by",
            "figure",
            "of limit",
        ]
        print_table(
            f"{vehicle}: runs that fail (+ all runs together name the parameter)", heads, lines
        )
    for problem in result.problems:
        print(f"note: {problem}")
    for row in result.false_alarms:
        print(
            f"false alarm: {row.vehicle}: {row.failed} of {row.runs} runs, together: "
            f"{', '.join(row.together) or 'none'}"
        )
    print(result.headline())


def _by_vehicle(result: DetectionTable) -> list[tuple[str, list[Detection]]]:
    names = dict.fromkeys(row.vehicle for row in result.detections)
    return [(name, [row for row in result.detections if row.vehicle == name]) for name in names]


def _by_parameter(rows: list[Detection]) -> list[tuple[str, list[Detection | None]]]:
    """Return for the unchanged vehicle and each parameter the detections in the order of the
    changes."""
    found = {(row.parameter, row.change_pct): row for row in rows}
    healthy = [(HEALTHY, [found.get((HEALTHY, 0))] + [None] * (len(CHANGES_PCT) - 1))]
    return healthy + [
        (p.name, [found.get((p.name, change)) for change in CHANGES_PCT]) for p in PARAMETERS
    ]


def _cell(row: Detection | None) -> str:
    return "" if row is None else f"{row.failed} of {row.runs}" + (" +" if row.together else "")


def _nearest(rows: Iterable[Detection | None]) -> list[str]:
    """Return the run that shows a parameter best, with its figure; or the manoeuvre that would show
    it."""
    known = [row for row in rows if row is not None]
    if not known:
        return ["", "", ""]
    best = max(known, key=lambda row: row.share)
    if best.parameter != HEALTHY and not any(row.found for row in known):
        return [f"none; needs {_needs(best.parameter)}", "", ""]
    return [best.manoeuvre, best.figure, f"{best.share:.1f}" if best.share < 100 else "beyond"]


def _needs(parameter: str) -> str:
    return next(p.shown_by for p in PARAMETERS if p.name == parameter)


def render(result: DetectionTable) -> str:
    """Return the page as HTML."""
    vehicles = _by_vehicle(result)
    mark = "bad" if result.false_alarms else "good"
    head = (
        '<header><p class="run">Which wrong parameters the runs show</p><h1 '
        f'class="{mark}">{escape(result.headline())}</h1><p class="facts">Each vehicle is driven '
        "with one parameter changed, and judged as it would be. A run fails by its own "
        f"limits; together, {FEWEST_RUNS} or more runs name a parameter that is more than "
        f"{LARGEST_PCT:g} % off.</p></header>"
    )
    return page(
        "Which wrong parameters the runs show",
        result.folder,
        [head, _overview(vehicles), *map(_details, vehicles)],
    )


def _overview(vehicles: list[tuple[str, list[Detection]]]) -> str:
    rows = []
    for parameter in PARAMETERS:
        cells = ""
        for _, detections in vehicles:
            of = [
                row
                for row in detections
                if row.parameter == parameter.name and abs(row.change_pct) == _BIG
            ]
            cells += _square(of)
        rows.append(
            f'<tr><td title="{escape(parameter.keys)}">{escape(parameter.name)}</td>{cells}</tr>'
        )
    healthy = ""
    for _, detections in vehicles:
        healthy += _square([row for row in detections if row.parameter == HEALTHY])
    rows.append(f"<tr><td>unchanged</td>{healthy}</tr>")
    legend = (
        f'<p class="legend">Runs of 100 that fail with {_BIG} % more or less, the lesser of '
        "both; + all runs together name the "
        "parameter; a dash: neither.</p>"
    )
    return (
        table(
            "overview",
            f"Parameters off by {_BIG} %",
            ["parameter", *(name for name, _ in vehicles)],
            rows,
        )
        + legend
    )


def _square(rows: list[Detection]) -> str:
    if not rows:
        return "<td></td>"
    part = min(row.failed / row.runs for row in rows)
    together = all(row.together for row in rows)
    found = all(row.found for row in rows)
    text = f"{100 * part:.0f}{' +' if together else ''}" if found else _HIDDEN
    shade = f' style="--part:{100 * part:.0f}%"' if found else ""
    return f'<td class="n part"{shade}>{text}</td>'


def _details(vehicle: tuple[str, list[Detection]]) -> str:
    name, detections = vehicle
    rows = []
    for parameter, of in _by_parameter(detections):
        cells = "".join(f'<td class="n">{_cell(row)}</td>' for row in of)
        run, figure, share = _nearest(of)
        rows.append(
            f"<tr><td>{escape(parameter)}</td>{cells}<td>{escape(run)}</td>"
            f'<td>{escape(figure)}</td><td class="n">{share}</td></tr>'
        )
    heads = [
        "parameter",
        *(f"{change:+d} %" for change in CHANGES_PCT),
        "shown best by",
        "figure",
        "of its limit",
    ]
    return table(f"mutants-{name}", name, heads, rows, (1, 2, 3, 4, 7))
