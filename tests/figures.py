"""Measured figures: one file of ``docs/results`` for each table, shown in the pages, measured anew
by its own command.

``python -m tests.figures`` measures and compares, ``--write`` keeps what it measured, ``--pages``
only puts the files' tables into the pages. A file holds

- ``command``, whose JSON holds the figures, ``measured``, the date, and ``machine``, where a figure
  depends on one;
- ``kind``: ``cheap`` (lockstep, repeats anywhere, seconds to minutes), ``long`` (minutes to hours,
  or with recordings) or ``machine`` (a ratio or a time of this computer);
- ``columns`` and ``rows``. A cell is a number, several, or a text. The ``form`` of the column, or
  of the row, prints numbers; ``at`` says where the command's JSON has them, with the row's ``at``
  in the place of ``{}``. ``options`` of a row and of a column extend the command. A text stays as
  it is, and so does a row without ``at`` and ``options``, such as one of a publication;
- ``scatter`` of a column or row, as printed: how far another measurement may differ, absolute or as
  text (``"20 %"``). By default it is one unit of the last digit printed, for what lockstep repeats;
- ``sample``: a shorter command and some of its figures, which ``make test`` measures.

In a page a table stands between ``<!-- results: NAME -->`` and ``<!-- end -->``.
"""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from textwrap import fill
from typing import Any, Literal

import msgspec
from msgspec import Struct

from tests.interface_tables import table

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "results"
BLOCK = re.compile(r"<!-- results: (?P<name>\w+) -->\n(?P<text>.*?)<!-- end -->", re.DOTALL)
NUMBER = re.compile(r"(?<![\w`])[-+]?\d*\.?\d+(?:e[-+]?\d+)?")

Number = int | float
Cell = str | Number | list[Number] | None
Scatter = Number | str


class Column(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A column of a table, and where its figures come from."""

    head: str
    form: str = "{}"
    at: str | list[str] = ""
    options: str = ""
    scale: float = 1.0
    scatter: Scatter | None = None


class Row(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A row of a table. Without ``at`` and ``options`` nothing in it is measured."""

    cells: list[Cell]
    at: str = ""
    options: str = ""
    form: str = ""
    scatter: Scatter | None = None

    @property
    def measured(self) -> bool:
        """True if the row's command is known."""
        return bool(self.at or self.options)


class Sample(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Figures of a command of seconds, by their place in its JSON."""

    command: str
    figures: dict[str, float]
    scatter: float = 0.01
    """Largest relative difference."""


class Results(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Contents of one file: a table, and how it was measured."""

    command: str
    kind: Literal["cheap", "long", "machine"]
    measured: str
    columns: list[Column]
    rows: list[Row]
    about: str = ""
    """Sentence before the table: quantity and conditions."""
    shown: str = ""
    """Command as the page shows it, if rows or columns extend it."""
    machine: str = ""
    sample: Sample | None = None

    def shown_cells(self, row: Row) -> list[str]:
        """Return the cells of a row as printed."""
        return [
            _printed(cell, row.form or column.form)
            for cell, column in zip(row.cells, self.columns, strict=True)
        ]

    def figures(self) -> Iterator[tuple[int, int, str, list[str]]]:
        """Iterate over the measured cells: row, column, command, places of the numbers in its
        JSON."""
        for i, row in enumerate(self.rows):
            for j, column in enumerate(self.columns):
                if row.measured and column.at and not isinstance(row.cells[j], str | None):
                    places = [column.at] if isinstance(column.at, str) else column.at
                    command = " ".join(filter(None, (self.command, row.options, column.options)))
                    yield i, j, command, [place.replace("{}", row.at) for place in places]


def load(name: str) -> Results:
    """Read a file of ``docs/results``."""
    return msgspec.json.decode((FOLDER / f"{name}.json").read_bytes(), type=Results)


def names() -> list[str]:
    """Return the names of all results."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def save(name: str, results: Results) -> None:
    """Write a file of ``docs/results``, one row a line so that a difference shows what changed."""
    parts = []
    for key, value in msgspec.to_builtins(results).items():
        if isinstance(value, list):
            value = [{k: v for k, v in each.items() if (k, v) != ("form", "{}")} for each in value]
            lines = ",\n".join(f"  {json.dumps(each, ensure_ascii=False)}" for each in value)
            parts.append(f' "{key}": [\n{lines}\n ]')
        else:
            parts.append(f' "{key}": {json.dumps(value, ensure_ascii=False)}')
    (FOLDER / f"{name}.json").write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


# ---------------------------------------------------------------- pages


def _printed(cell: Cell, form: str) -> str:
    if cell is None:
        return ""
    if isinstance(cell, str):
        return cell
    return form.format(*(cell if isinstance(cell, list) else [cell]))


def rendered(results: Results) -> str:
    """Return the block of a page: what is measured, the table, how to repeat it."""
    about = (
        f"{fill(results.about, 150, break_long_words=False, break_on_hyphens=False)}\n\n"
        if results.about
        else ""
    )
    where = f", on {results.machine}" if results.machine else ""
    end = f"Measured on {results.measured}{where}: `{results.shown or results.command}`"
    rows = table([c.head for c in results.columns], map(results.shown_cells, results.rows))
    return f"{about}{rows}\n{end}\n"


def renewed(text: str) -> str:
    """Return the text of a page with its results as the files have them."""
    return BLOCK.sub(
        lambda block: (
            f"<!-- results: {block['name']} -->\n{rendered(load(block['name']))}<!-- end -->"
        ),
        text,
    )


def pages() -> list[Path]:
    """Return the pages that may show results."""
    return [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]


def write_pages() -> None:
    """Put the tables of all files into the pages."""
    for page in pages():
        text = page.read_text(encoding="utf-8")
        if (now := renewed(text)) != text:
            page.write_text(now, encoding="utf-8")


# ---------------------------------------------------------------- measurements


def output(command: str) -> Any:
    """Run a command of the pages and return its JSON. Raises RuntimeError with what it said if it
    prints none."""
    words = shlex.split(command)
    words[:1] = [sys.executable, "-m", "vehicled"] if words[0] == "vehicled" else [sys.executable]
    words += ["--json", "--no-log", "--quiet"] if words[3:4] == ["sim"] else ["--json"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    try:
        found = json.loads(done.stdout)
    except ValueError:
        raise RuntimeError(
            f"{command}: no JSON, status {done.returncode}: {done.stderr.strip()[-500:]}"
        ) from None
    if "finished" in found and not found["finished"]:
        raise RuntimeError(f"{command}: the drive did not finish: {found['why']}")
    return found


def at(found: Any, place: str) -> Number:
    """Return the number at a place such as ``cross_track_m.mean`` or ``rows.0.mean_m`` of a
    command's JSON."""
    for key in place.split("."):
        found = found[int(key)] if isinstance(found, list) else found[key]
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise RuntimeError(f"{place}: no number but {found!r}")
    return found


def measured(results: Results, outputs: Mapping[str, Any]) -> Results:
    """Return the results with the figures that the commands printed."""
    rows = [msgspec.structs.replace(row, cells=list(row.cells)) for row in results.rows]
    for i, j, command, places in results.figures():
        values = [
            _rounded(at(outputs[command], place), results.columns[j].scale) for place in places
        ]
        rows[i].cells[j] = values[0] if len(values) == 1 else list(values)
    sample = results.sample
    if sample is not None:
        figures = {place: _rounded(at(outputs[sample.command], place)) for place in sample.figures}
        sample = msgspec.structs.replace(sample, figures=figures)
    return msgspec.structs.replace(results, rows=rows, sample=sample)


def _rounded(value: Number, scale: float = 1.0) -> Number:
    """Return the value with five digits: more would change with every computer."""
    return value if isinstance(value, int) and scale == 1.0 else float(f"{scale * value:.5g}")


def differences(before: Results, now: Results) -> list[str]:
    """Return the figures that differ by more than their scatter, each with its row and column."""
    found = []
    for old, new in zip(before.rows, now.rows, strict=True):
        shown = zip(before.columns, before.shown_cells(old), now.shown_cells(new), strict=True)
        for column, was, is_ in shown:
            scatter = old.scatter if old.scatter is not None else column.scatter
            if was != is_ and not _alike(was, is_, scatter):
                found.append(f"{old.cells[0]}, {column.head}: {was or 'nothing'} before, {is_} now")
    if before.sample is not None and now.sample is not None:
        found += sample_differences(before.sample, now.sample.figures)
    return found


def sample_differences(sample: Sample, now: Mapping[str, float]) -> list[str]:
    """Return the figures of a sample that differ by more than its scatter."""
    return [
        f"{sample.command}, {place}: {was:g} before, {now[place]:g} now"
        for place, was in sample.figures.items()
        if not abs(now[place] - was) <= sample.scatter * abs(was)
    ]


def _alike(was: str, is_: str, scatter: Scatter | None) -> bool:
    if NUMBER.sub("", was) != NUMBER.sub("", is_):
        return False
    for old, new in zip(NUMBER.findall(was), NUMBER.findall(is_), strict=True):
        if isinstance(scatter, str):
            bound = float(scatter.removesuffix("%")) / 100.0 * abs(float(old))
        else:
            bound = 10.0 ** -len(old.partition(".")[2]) if scatter is None else scatter
        if not abs(float(new) - float(old)) <= 1.001 * bound:
            return False
    return True


def commands(results: Results) -> Iterable[str]:
    """Return every command that a file needs, each once."""
    return dict.fromkeys(
        [each[2] for each in results.figures()]
        + ([results.sample.command] if results.sample else [])
    )


def main() -> int:
    """Measure, compare, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="file of docs/results without .json (default: all of the kind)",
    )
    parser.add_argument(
        "--kind", choices=("cheap", "long", "machine"), default="cheap", help="default: cheap"
    )
    parser.add_argument(
        "--write",
        action="store_true",
        help="keep what differs, with today's date, and renew the pages",
    )
    parser.add_argument("--pages", action="store_true", help="only renew the pages")
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        metavar="N",
        help="commands at once (default: processors)",
    )
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(names()):
        parser.error(
            f"{', '.join(sorted(unknown))}: no such file in docs/results; there are "
            f"{', '.join(names())}"
        )
    if arguments.pages:
        write_pages()
        return 0
    chosen = {name: load(name) for name in arguments.names or names()}
    chosen = {
        name: each
        for name, each in chosen.items()
        if arguments.names or each.kind == arguments.kind
    }
    unmeasured = [name for name, each in chosen.items() if not commands(each)]
    wanted = dict.fromkeys(command for each in chosen.values() for command in commands(each))
    outputs: dict[str, Any] = {}
    failed: dict[str, str] = {}
    # What depends on the computer is measured alone.
    jobs = 1 if any(each.kind == "machine" for each in chosen.values()) else arguments.jobs
    with ThreadPoolExecutor(jobs) as pool:
        pending = {command: pool.submit(output, command) for command in wanted}
        for command, result in pending.items():
            sys.stderr.write(f"{command}\n")
            try:
                outputs[command] = result.result()
            except RuntimeError as error:
                failed[command] = str(error)
    status = 0
    for name, before in chosen.items():
        try:
            now = measured(before, outputs)
        except (KeyError, RuntimeError) as error:
            sys.stdout.write(f"{name}: not measured: {failed.get(error.args[0], error)}\n")
            status = 1
            continue
        for difference in differences(before, now):
            sys.stdout.write(f"{name}: {difference}\n")
            status = 1
            if arguments.write:
                save(
                    name,
                    msgspec.structs.replace(now, measured=datetime.now(UTC).date().isoformat()),
                )
    for name in unmeasured:
        sys.stderr.write(f"{name}: run its command and compare: {chosen[name].command}\n")
    sys.stderr.write(
        f"{len(wanted)} commands, "
        f"{'differences beyond the scatter' if status else 'all figures hold'}\n"
    )
    if arguments.write:
        write_pages()
        return 0
    return status


if __name__ == "__main__":
    sys.exit(main())
