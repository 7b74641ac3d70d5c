"""The exit statuses that docs/command_line.md promises, from real processes. Ctrl-C is in
test_ends_of_a_run.py."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.busy_computer import DEADLINE_S
from tests.closed_loop.conftest import ROOT


def status(*words: str, folder: Path) -> int:
    done = subprocess.run(
        [sys.executable, "-m", "vehicled", *words],
        cwd=folder,
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert b"Traceback" not in done.stderr
    return done.returncode


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["check", "art"], 0),
        (["check", "broken.toml"], 1),
        (["sim", "--course", "nowhere"], 2),
        (["sim", "--duration", "1", "--no-log", "--quiet"], 1),
        (["log", "info", "broken.mcap"], 2),
        (["log", "report", "latest"], 2),
        (["courses", "circle_r2_ccw"], 0),
        (["courses", "nowhere.csv"], 1),
        (["devices", "decode", "broken.mcap", "--type", "nmea"], 1),
        (["status", "--profile", "nowhere"], 2),
    ],
)
def test_exit_status(
    words: list[str], expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "broken.toml").write_text("schema = 1\nname = 3\n")
    (tmp_path / "broken.mcap").write_bytes(b"nothing of ours")
    assert status(*words, folder=tmp_path) == expected


def test_the_page_names_every_status_of_the_program() -> None:
    from vehicled.cli import DEFECT_STATUS, INTERRUPTED_STATUS
    from vehicled.run.command_line import PASSING_STATUS, USAGE_STATUS
    from vehicled.runtime.ending import Outcome

    rows = [
        line
        for line in (ROOT / "docs" / "command_line.md").read_text().splitlines()
        if line.startswith("| ")
    ]
    documented = {int(cell) for row in rows if (cell := row.split("|")[1].strip()).isdigit()}
    assert documented == {
        0,
        1,
        USAGE_STATUS,
        PASSING_STATUS,
        DEFECT_STATUS,
        INTERRUPTED_STATUS,
        143,
    }
    assert {int(outcome) for outcome in Outcome} <= documented
