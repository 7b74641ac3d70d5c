"""The page about the heading: its snippets are valid beside the profile that it names, and none
says what is not so."""

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from vehicled.profile import check, load_profile

PAGE = Path(__file__).parents[2] / "docs" / "heading.md"
SNIPPETS = [
    tomllib.loads(text) for text in re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.S)
]


def overrides(table: dict[str, Any], place: str = "") -> Iterator[str]:
    """The table as ``--set`` takes it."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from overrides(value, f"{place}{key}.")
        else:
            yield f"{place}{key}={json.dumps(value)}"


@pytest.mark.parametrize(
    "snippet", SNIPPETS, ids=[next(iter(snippet)) + str(k) for k, snippet in enumerate(SNIPPETS)]
)
def test_a_snippet_is_valid(snippet: dict[str, Any]) -> None:
    profile = load_profile("f1tenth_gnss", list(overrides(snippet)))
    notes = check(profile)
    assert [note for note in notes if note.level == "warning"] == []
    measured = "Heading" in json.dumps(snippet.get("devices", {}))
    assert any("no device gives Heading" in note.message for note in notes) is not measured


def test_the_snippet_of_the_alignment_is_what_applies_without_it() -> None:
    written = next(snippet["alignment"] for snippet in SNIPPETS if "alignment" in snippet)
    default = load_profile("art").alignment
    assert {key: getattr(default, key) for key in written} == written


def test_an_alignment_too_slow_for_the_estimator_is_reported() -> None:
    for estimator in ("ekf4", "planar", "ins"):
        profile = load_profile(
            "f1tenth_gnss", ["alignment.speed_mps=0.4", f"estimator.name={estimator}"]
        )
        assert [note.path for note in check(profile) if note.level == "warning"] == [
            "alignment.speed_mps"
        ]


def test_a_vehicle_that_may_not_align_is_pushed() -> None:
    profile = load_profile("f1tenth_gnss", ["alignment.allowed=false"])
    (note,) = [note for note in check(profile) if "no device gives Heading" in note.message]
    assert "push it 3 m forward or drive it by hand" in note.message
    assert "mode align" not in note.message
