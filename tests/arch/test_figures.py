"""Measured figures stand in the tables of ``docs/results`` alone: pages show these tables and type
no figure into prose."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.figures import (
    BLOCK,
    ROOT,
    Column,
    Results,
    Row,
    Sample,
    differences,
    load,
    names,
    pages,
    rendered,
    renewed,
)

UNITS = (
    "%|percent|times|x real time|of a core|floors?|points?|thousand|millions?",
    "km|cm|mm|m|m/s2?|m?rad|rad/s|degrees?|N m|kB|MB|GB",
    "um|us|ms|ns|s|min|h|seconds?|minutes?|hours?",
)
VALUE = r"(?:\d+(?:[., ]\d+)*|\.\d+)"
FIGURE = re.compile(
    rf"(?<![\w`./-])-?(?:{VALUE}(?:,| to| and| or| of) )*{VALUE} ?(?:{'|'.join(UNITS)})(?![\w/])"
)
"""One number, or several, with a unit in which something may have been measured."""
DECIMAL_CELL = re.compile(r"(?<=\|) -?\d*\.\d+ (?=\|)")
"""A cell of a table that is typed, with a number alone."""
CODE = re.compile(r"^```.*?^```|^ {4}.*?$|`[^`\n]+`", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^(?=#+ )", re.MULTILINE)

MEASURED: dict[str, tuple[str, ...]] = {
    "README.md": ("Why use it",),
    "docs/twin_validation.md": ("Where the limits come from",),
}
"""Sections that speak of measurements without a table of results, by page. Those with a table are
found."""
GIVEN: dict[str, tuple[str, ...]] = {
    "docs/estimation_and_control.md": (
        "The targets of 0.10 m/s in every run and of 0.5 m after every outage",
    ),
    "docs/failsafe_tests.md": ("a turn of 0.1 rad", "0.35 s at\nleast",
        "within 0.1 rad of the true one"),
    "docs/measurements.md": (
        "a fix that needs 15 m/s2", "target of 0.10 m/s",
        "target of 0.5 m after every outage of 3.7 s", "outages of 3.7 s out",
    ),
    "docs/sensors.md": ("twelve laps of 213 m",),
}  # fmt: skip
"""Phrases of such sections that state no measurement but what was set, published or required, by
page."""


def sections(text: str) -> Iterator[tuple[str, str]]:
    """Iterate over heading and text of the sections of a page, each up to the next heading of any
    level."""
    for part in HEADING.split(CODE.sub("`code`", text)):
        heading, _, body = part.partition("\n")
        yield heading.lstrip("# "), body


def typed_figures(text: str, named: tuple[str, ...] = (), given: tuple[str, ...] = ()) -> list[str]:
    """Return the figures that a page types beside its tables of results."""
    for phrase in given:
        text = text.replace(phrase, "")
    found = []
    for heading, body in sections(text):
        if BLOCK.search(body) or heading in named:
            rest = BLOCK.sub("", body)
            found += [
                f"{heading}: {match[0]}"
                for pattern in (FIGURE, DECIMAL_CELL)
                for match in pattern.finditer(rest)
            ]
    return found


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def test_pages_show_the_results_as_they_are() -> None:
    stale = [
        _name(page) for page in pages() if renewed(text := page.read_text(encoding="utf-8")) != text
    ]
    assert stale == [], "renew the pages: python -m tests.figures --pages"


def test_every_result_is_shown_once() -> None:
    shown = [
        block["name"]
        for page in pages()
        for block in BLOCK.finditer(page.read_text(encoding="utf-8"))
    ]
    assert sorted(shown) == names()


@pytest.mark.parametrize("name", names())
def test_files_of_results_are_whole(name: str) -> None:
    results = load(name)
    assert rendered(results).count("\n| ") == len(results.rows) + 1 + bool(results.about)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", results.measured)
    assert (results.kind == "machine") == bool(results.machine), (
        "a figure of a machine says of which one"
    )


def test_no_measured_figure_is_typed() -> None:
    found = {}
    for page in pages():
        name = _name(page)
        if figures := typed_figures(
            page.read_text(encoding="utf-8"), MEASURED.get(name, ()), GIVEN.get(name, ())
        ):
            found[name] = figures
    assert found == {}, "put it into a file of docs/results, or say it without the figure"


def test_what_is_given_is_still_there() -> None:
    texts = {_name(page): page.read_text(encoding="utf-8") for page in pages()}
    assert [
        phrase for name, phrases in GIVEN.items() for phrase in phrases if phrase not in texts[name]
    ] == []
    headings = {name: {heading for heading, _ in sections(text)} for name, text in texts.items()}
    assert [each for name, each in MEASURED.items() if not set(each) <= headings[name]] == []


TYPED = (
    "It is 0.131 m off.", "18 times as fast", "wakes before the release 39 % of the time",
    ".599 m or so", "took 2 min", "(15 ms)", "64 MB at most", "| it | 1.5 |",
    "from 0.197 to 0.235 m", "13 of 14 degrees", "-0.12 rad", "480 000 messages, 12 % of a core",
)  # fmt: skip


@pytest.mark.parametrize("sentence", TYPED)
def test_typed_figures_are_found(sentence: str) -> None:
    block = "<!-- results: ekf_circle -->\n| 0.131 m |\n<!-- end -->\n"
    assert len(typed_figures(f"# A\n{block}\n{sentence}\n# B\n{sentence}\n")) == 1
    assert len(typed_figures(f"# A\n{sentence}\n# B\n{sentence}\n", ("B",))) == 1
    assert typed_figures(f"# A\n{block}\n{sentence}\n", (), (sentence,)) == []


@pytest.mark.parametrize(
    "sentence",
    [
        "`--speed 3 m/s`",
        "ISO 3888-1",
        "0.750m_x",
        "docs/2.1 s.md",
        "seeds 1 to 5",
        "ten runs of 2023",
    ],
)
def test_the_rest_is_no_figure(sentence: str) -> None:
    assert typed_figures(f"# B\n{sentence}\n", ("B",)) == []


@pytest.mark.parametrize(
    ("value", "scatter", "differs"),
    [
        (1.001, None, False), (1.0021, None, True), (1.1, 0.1, False), (1.11, 0.1, True),
        (0.79, "20 %", True), (1.19, "20 %", False), (float("nan"), None, True),
        (float("nan"), 0.5, True), ("left 12", None, True),
    ],
)  # fmt: skip
def test_a_difference_beyond_the_scatter_is_named(
    value: float | str, scatter: float | str | None, *, differs: bool
) -> None:
    column = Column("error", "{:.3f} m", "error_m", scatter=scatter)
    before = Results(
        "c",
        "cheap",
        "2026-01-01",
        [Column("who"), column],
        [Row(["it", 1.0], "it")],
        sample=Sample("c", {"x": 1.0}),
    )
    now = Results(
        "c",
        "cheap",
        "2026-01-01",
        [Column("who"), column],
        [Row(["it", value], "it")],
        sample=Sample("c", {"x": 1.009}),
    )
    assert len(differences(before, now)) == differs
    assert (
        len(
            differences(
                before,
                Results(
                    "c", "cheap", "", before.columns, before.rows, sample=Sample("c", {"x": 1.02})
                ),
            )
        )
        == 1
    )
