"""Tables of the campaign of healthy drives and injected faults."""

from pathlib import Path

import pytest
from msgspec import json as msgjson

from bench.false_alarms import ART_CONTROLLERS, CONTROLLERS, LEFT_OUT, Outcome, Trial, _read, alarm_table, bounds, main
from vehicled.registry import names

STOP = ("BRAKE", "corridor_left", "0.7 m off the course")


def outcome(index: int, *alarms: tuple[str, str, str]) -> Outcome:
    return Outcome("art", index, not alarms, 60.0, alarms, "", f"vehicled sim --seed {index}", 1.0)


@pytest.mark.parametrize(
    ("events", "n", "lower", "upper"),
    # Clopper and Pearson 1934; the beta quantiles of any statistics package.
    [(0, 200, 0.0, 0.018275), (1, 20, 0.001265, 0.248733), (20, 20, 0.831566, 1.0), (5, 10, 0.187086, 0.812914)],
)
def test_both_bounds_of_clopper_and_pearson(events: int, n: int, lower: float, upper: float) -> None:
    assert bounds(events, n) == pytest.approx((lower, upper), abs=1e-6)


def test_every_controller_is_drawn_or_left_out_with_a_reason() -> None:
    assert {*CONTROLLERS, *ART_CONTROLLERS, *LEFT_OUT, "programme"} == set(names("controller"))


def test_a_missed_fault_without_a_reaction_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "faults.jsonl"
    file.write_bytes(msgjson.encode(Trial(0, 3, "wires", "straight_20m", "not detected", None)) + b"\n")
    assert [each.problem for each in _read(file, Trial)] == ["not detected"]


def test_the_table_is_printed_from_the_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "drives.jsonl"
    drives = [outcome(0, STOP), outcome(0), outcome(1), outcome(3, STOP)]
    file.write_bytes(b"".join(msgjson.encode(each) + b"\n" for each in drives))
    monkeypatch.setattr("sys.argv", ["false_alarms", "--markdown", "--out", str(file)])
    assert main() == 0
    printed = capsys.readouterr().out
    assert "python -m bench.false_alarms --drives 4 --out drives.jsonl" in printed
    assert "1 of 4 results are missing" in printed
    assert alarm_table([outcome(0), outcome(1), outcome(3, STOP)]) in printed
    assert "vehicled sim --seed 3" in printed
    assert "vehicled sim --seed 0" not in printed
