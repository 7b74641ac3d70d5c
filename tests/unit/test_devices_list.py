"""``vehicled devices list``: every driver once, a part by a word, and a word that nothing has."""

import json

import pytest

from vehicled.cli import main
from vehicled.profile.registry import DRIVERS
from vehicled.profile.supported_devices import MEANING, SUPPORTED, DriverEvidence


def test_every_driver_has_one_row_and_every_evidence_a_meaning() -> None:
    assert sorted(name for row in SUPPORTED for name in row.drivers) == sorted(DRIVERS)
    assert set(MEANING) == set(DriverEvidence)


def test_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices", "list"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in DRIVERS)
    assert all(f"{kind.value}: {meaning}" in text for kind, meaning in MEANING.items())


def test_a_word_chooses_whatever_its_case(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices", "list", "Hokuyo", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["drivers"] == ["hokuyo"]
    assert row["evidence"] == "vectors"
    assert main(["devices", "list", "PCA9685"]) == 0
    assert "seen: " in capsys.readouterr().out


def test_a_word_that_nothing_has(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices", "list", "livox"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "no supported device has 'livox'" in captured.err
