"""Studies whose drive is a fleet."""

import json
from pathlib import Path

import pytest

from tests.closed_loop.conftest import command
from vehicled.offline.studies import specification
from vehicled.offline.studies.errors import StudyError
from vehicled.offline.studies.table import RunTable

FLEET = """duration_s = 2.5

[[vehicle]]
name = "a"
profile = "art"
course = "straight_20m"

[[vehicle]]
name = "b"
profile = "art"
course = "straight_20m"
from_m = 1.2
delay_s = 1.5
"""
STUDY = """fleet = "fleet.toml"
metrics = ["contacts", "a.driven_m", "b.speed_mean_mps"]

[factors]
apart = { values = [1.2, 6.0], keys = ["fleet.b.from_m"] }
"""


def study(folder: Path, text: str = STUDY) -> Path:
    (folder / "fleet.toml").write_text(FLEET)
    (folder / "study.toml").write_text(text)
    return folder / "study.toml"


def test_a_factor_of_one_vehicle_changes_its_row_and_the_command_repeats_it(tmp_path):
    path = study(tmp_path)
    output = tmp_path / "result"
    status, _, said = command("study", str(path), "--output", str(output), "--jobs", "1")
    assert status == 0, said
    with RunTable(output) as table:
        near, far = sorted(table.rows(), key=lambda row: row.number)
    assert (near.levels, far.levels) == ({"apart": 1.2}, {"apart": 6.0})
    assert far.metrics["contacts"] == 0
    assert (near.metrics["contacts"] or 0) >= (near.metrics["a.contacts"] or 0) > 0
    assert (far.metrics["a.driven_m"] or 0) > 0.3
    assert near.digest != far.digest
    assert "a: stopped by the time limit" in far.why
    words = far.command.split()[1:]
    _, out, _ = command(*words, "--no-log", "--json", "--quiet")
    assert json.loads(out)["digest"] == far.digest


@pytest.mark.parametrize(
    ("text", "cure"),
    [
        ('fleet = "fleet.toml"\nmetrics = ["driven_m"]', "those of each vehicle after its name"),
        ('fleet = "fleet.toml"\nfail = "gnss:off@3"', "fail: a fleet takes none"),
    ],
)
def test_mistakes_are_named(tmp_path, text, cure):
    with pytest.raises(StudyError, match=cure):
        specification.load(str(study(tmp_path, text)))


def test_a_key_of_a_vehicle_that_is_not_in_the_fleet_is_named(tmp_path):
    path = study(tmp_path, STUDY.replace("fleet.b.", "fleet.c."))
    status, _, said = command("study", str(path), "--output", str(tmp_path / "result"))
    assert status == 2
    assert "no vehicle is called" in said
    assert "the fleet has a, b" in said
