"""Mutants of a source text, and the list of those that survive."""

import tomllib
from pathlib import Path

import pytest

from tests.mutants import mutants
from tests.mutation import SURVIVORS, Results, all_mutants, left_of, listed

MEMBERS = {"Reaction": ["NONE", "CAP_SPEED", "CONTROLLED_STOP"], "Mode": ["ARMED", "AUTO"]}
SOURCE = '''
"""Text."""
LIMIT = 5
RULES = (
    Rule(code="first", reaction=Reaction.CONTROLLED_STOP, reason=lambda s: "three" + str(3),
         detect_ms=7.0, modes=AUTO),
    Rule(code="second", value=lambda s: nan if s.sent is None else -s.x),
)

def stop(s: int = 1) -> int:
    """Text."""
    if not isfinite(s) and s.mode in (Mode.ARMED, Mode.AUTO):
        s.brake()
    elif s > LIMIT:
        s.cap = f"{3 * s}"
    local = 0.5
    return min(s, local)
'''


def test_what_is_changed_and_what_is_not() -> None:
    found = {(mutant.where, mutant.what.rpartition(": ")[2]) for mutant in mutants(SOURCE, MEMBERS)}
    assert found == {
        ("", "5 -> 6"),
        ("", "first deleted"),
        ("", "second deleted"),
        ("first", "Reaction.CONTROLLED_STOP -> Reaction.CAP_SPEED"),
        ("first", "reaction= deleted"),
        ("first", "modes= deleted"),
        ("second", "nan -> 0.0"),
        ("second", "s.sent is None -> s.sent is not None"),
        ("second", "-s.x -> +s.x"),
        ("stop", "1 -> 2"),
        (
            "stop",
            (
                "not isfinite(s) and s.mode in (Mode.ARMED, Mode.AUTO) -> not isfinite(s) or "
                "s.mode in (Mode.ARMED, Mode.AUTO)"
            ),
        ),
        ("stop", "not isfinite(s) -> isfinite(s)"),
        ("stop", "isfinite(s) -> not isfinite(s)"),
        ("stop", "s.mode in (Mode.ARMED, Mode.AUTO) -> s.mode not in (Mode.ARMED, Mode.AUTO)"),
        ("stop", "Mode.ARMED -> Mode.AUTO"),
        ("stop", "Mode.AUTO -> Mode.ARMED"),
        ("stop", "Mode.ARMED deleted"),
        ("stop", "Mode.AUTO deleted"),
        ("stop", "deleted"),
        ("stop", "s > LIMIT -> s >= LIMIT"),
        ("stop", "s > LIMIT -> s <= LIMIT"),
        ("stop", "0.5 -> 1.0"),
        ("stop", "min -> max"),
    }


def test_every_mutant_is_code_of_its_own_and_leaves_the_source_as_it_was() -> None:
    source = "a = 1 < 2\n"
    values = []
    for mutant in mutants(source, {}):
        names: dict[str, bool] = {}
        exec(mutant.compile(), names)
        values.append((mutant.what, names["a"]))
    assert values == [
        ("a = 1 < 2: 1 < 2 -> 1 <= 2", True),
        ("a = 1 < 2: 1 < 2 -> 1 >= 2", False),
        ("a = 1 < 2: 1 -> 2", False),
        ("a = 1 < 2: 2 -> 3", True),
    ]


def test_every_listed_survivor_is_a_mutant_with_a_verdict_and_a_reason() -> None:
    entries = tomllib.loads(SURVIVORS.read_text(encoding="utf-8"))["survivor"]
    for entry in entries:
        assert entry["verdict"] in ("equivalent", "harmless"), entry
        assert entry["reason"], entry
    assert len(listed()) == sum(len(entry["mutants"]) for entry in entries), "one is listed twice"
    for file in sorted({entry["file"] for entry in entries}):
        there = {(file, mutant.where, mutant.what) for mutant in all_mutants(file)}
        assert not {key for key in listed() if key[0] == file} - there


@pytest.mark.parametrize(
    ("file", "where", "ending"),
    [
        (
            "rows/sensors.py",
            "obstacle_sensor_blind",
            "Reaction.CONTROLLED_STOP -> Reaction.CAP_SPEED",
        ),
        ("rows/timing.py", "", "Mode.AUTO -> Mode.ARMED"),
        (
            "monitors/teleop.py",
            "TeleopMonitor.on_message",
            "isfinite(command.brake) -> not isfinite(command.brake)",
        ),
    ],
)
def test_changes_of_the_matrix_and_the_monitors_are_among_them(
    file: str, where: str, ending: str
) -> None:
    assert any(
        mutant.where == where and mutant.what.endswith(ending) for mutant in all_mutants(file)
    )


def test_results_go_on_with_the_same_code_only(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    first, second, *_ = all_mutants("modes.py")
    results = Results(file)
    results.add("modes.py", first, "noticed")
    with file.open("a", encoding="utf-8") as lines:
        lines.write('["modes.py", "cut')
    again = Results(file)
    assert again.read() == {("modes.py", first.where, first.what): "noticed"}
    assert left_of([("modes.py", first), ("modes.py", second)], again) == [("modes.py", second)]
    again.add("modes.py", second, "survived")
    assert again.read()[("modes.py", second.where, second.what)] == "survived"
    file.write_text('"of other code"\n', encoding="utf-8")
    with pytest.raises(SystemExit, match="results of other code"):
        Results(file)
