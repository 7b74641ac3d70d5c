"""Tables of ``bench/false_alarms.py``, printed from a file of results."""

import sys
from math import comb
from pathlib import Path

import pytest
from msgspec import json as msgjson

from bench.false_alarms import Outcome, Trial, bounds, main


def printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, str]:
    monkeypatch.setattr(sys, "argv", ["false_alarms", *arguments])
    return main(), capsys.readouterr().out


@pytest.mark.parametrize(
    ("events", "n"), [(0, 20), (1, 20), (10, 20), (19, 20), (20, 20), (2, 650)]
)
def test_beyond_the_bounds_the_count_has_a_probability_of_a_fortieth(events: int, n: int) -> None:
    low, high = bounds(events, n)
    if events > 0:
        assert sum(
            comb(n, k) * low**k * (1.0 - low) ** (n - k) for k in range(events, n + 1)
        ) == pytest.approx(0.025)
    if events < n:
        assert sum(
            comb(n, k) * high**k * (1.0 - high) ** (n - k) for k in range(events + 1)
        ) == pytest.approx(0.025)
    assert (low == 0.0) is (events == 0)
    assert (high == 1.0) is (events == n)


def test_a_partial_file_of_drives_gives_the_table_of_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    capped = (("CAP_SPEED", "commands_clipped", "over the limits"),)
    stopped = (("BRAKE", "corridor_left", "off the course"), *capped)
    drives = [Outcome("art", k, True, 900.0, (), "", "", 1.0) for k in range(3)]
    drives += [
        Outcome("rzr", 0, True, 1800.0, capped, "", "", 1.0),
        Outcome("rzr", 1, False, 1800.0, stopped, "", "", 1.0),
    ]
    file = tmp_path / "drives.jsonl"
    file.write_bytes(
        b"\n".join(msgjson.encode(each) for each in drives) + b'\n{"profile":"rzr","ind'
    )
    status, text = printed(monkeypatch, capsys, "--markdown", "--out", str(file))
    assert status == 0
    assert text.splitlines()[2:] == [
        "| `art` | 3 | 0.75 h | 0 (0.0 to 70.8 %) | 0 (0.0 to 70.8 %) | - |",
        (
            "| `rzr` | 2 | 1.00 h | 1 (1.3 to 98.7 %) | 1 (1.3 to 98.7 %) | `commands_clipped` 2, "
            "`corridor_left` 1 |"
        ),
        (
            "| all | 5 | 1.75 h | 1 (0.5 to 71.6 %) | 1 (0.5 to 71.6 %) | `commands_clipped` 2, "
            "`corridor_left` 1 |"
        ),
    ]


def test_a_partial_file_of_faults_gives_the_table_of_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trials = [
        Trial(11, "heading_stuck", "it repeats", seed, "wires", "", "late" if seed else "", 95.2)
        for seed in range(2)
    ]
    trials.append(Trial(1, "", "it freezes", 0, "wires", "", "no reaction", None))
    file = tmp_path / "faults.jsonl"
    file.write_bytes(b"\n".join(msgjson.encode(each) for each in trials))
    status, text = printed(monkeypatch, capsys, "--missed", "5", "--markdown", "--out", str(file))
    assert status == 0
    assert text.splitlines()[2:] == [
        "| 1 | - | it freezes | 1 | 1 (2.5 to 100.0 %) | - |",
        "| 11 | `heading_stuck` | it repeats | 2 | 1 (1.3 to 98.7 %) | 96 ms |",
        "| all | - | - | 3 | 2 (9.4 to 99.2 %) | - |",
    ]


def test_a_file_without_results_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert printed(monkeypatch, capsys, "--markdown", "--out", str(tmp_path / "none.jsonl"))[0] == 1
