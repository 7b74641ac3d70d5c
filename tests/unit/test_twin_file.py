"""Twin files: every number with its origin, every mistake at once, and writing back what
calibration found."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim_backend.plant import twin_file
from sim_backend.plant.double_track.parameters import Engine, Motor
from sim_backend.plant.twin_file import STATUSES, load_twin, parse
from sim_backend.plant.twin_write import NewValue, write_twin
from tests.examples import examples
from vehicled.profile import Problem, ProfileError, load_profile

TWINS = Path(__file__).parents[2] / "profiles" / "twins"
HMMWV = (TWINS / "hmmwv_lfdm.toml").read_text()
MASS = re.search(r"^mass_kg = .*$", HMMWV, re.MULTILINE)
assert MASS is not None
MASS_LINE = MASS[0]


def refused(text: str, changes: dict[str, Any] | None = None) -> list[Problem]:
    with pytest.raises(ProfileError) as caught:
        parse(text, "my.toml", changes)
    assert str(caught.value).startswith("my.toml: ")
    return caught.value.problems


def test_a_twin_gives_parameters_and_where_they_come_from() -> None:
    twin = load_twin("hmmwv_lfdm")
    assert twin.parameters.identity.name == "hmmwv_lfdm"
    assert isinstance(twin.parameters.powertrain, Engine)
    mass = twin.provenance["body.mass_kg"]
    assert (mass.status, mass.origin, mass.absolute) == ("derived", "lfdm", False)
    assert 0.0 < mass.spread < 0.2
    assert set(twin.provenance) == set(_numbers(msgspec.to_builtins(twin.parameters)))


def _numbers(table: dict[str, Any], prefix: str = "") -> list[str]:
    found = []
    for key, value in table.items():
        if isinstance(value, dict):
            found += _numbers(value, f"{prefix}{key}.")
        elif not isinstance(value, str | None):
            found.append(f"{prefix}{key}")
    return found


MISTAKES = {
    "no status": ('status = "derived", ', "", "body.mass_kg.status", "missing; one of"),
    "wrong status": ('"derived"', '"guess"', "body.mass_kg.status", 'found the text "guess"'),
    "no origin": ('origin = "lfdm", ', "", "body.mass_kg.origin", "a key of the table [origins]"),
    "origin nobody named": (
        '"lfdm"',
        '"hearsay"',
        "body.mass_kg.origin",
        'found the text "hearsay"',
    ),
    "no spread": (", spread = 0.05", "", "body.mass_kg.spread", "missing: one standard deviation"),
    "spread twice": (
        "spread = 0.05",
        "spread = 0.05, spread_abs = 3.0",
        "body.mass_kg.spread",
        "give it once",
    ),
    "spread below 0": (
        "spread = 0.05",
        "spread = -0.05",
        "body.mass_kg.spread",
        "must be a number >= 0",
    ),
    "spread without end": (
        "spread = 0.05",
        "spread_abs = inf",
        "body.mass_kg.spread_abs",
        "found inf",
    ),
    "no value": ("value = 2654.382, ", "", "body.mass_kg", "has no value"),
    "mistyped": ("spread = ", "spred = ", "body.mass_kg.spred", 'did you mean "spread"?'),
    "not a number": ("2654.382", "nan", "body.mass_kg", "nan and inf are not allowed"),
    "out of bounds": ("2654.382", "-3.0", "body.mass_kg", "must be a number > 0.01"),
    "in quotes": ("2654.382", '"2654.382"', "body.mass_kg", "remove the quotes"),
    "a vehicle without body": ("2654.382", "100.0", "body.mass_kg", "above the axles"),
}


@pytest.mark.parametrize(("old", "new", "path", "part"), MISTAKES.values(), ids=MISTAKES.keys())
def test_every_mistake_has_key_place_and_cure(old: str, new: str, path: str, part: str) -> None:
    assert old in MASS_LINE
    text = HMMWV.replace(MASS_LINE, MASS_LINE.replace(old, new, 1))
    line = text[: text.index("\nmass_kg")].count("\n") + 2
    problem = refused(text)[0]
    assert (problem.path, problem.place) == (path, f"line {line}")
    assert part in problem.message


def test_a_bare_number_is_refused() -> None:
    problem = refused(HMMWV.replace(MASS_LINE, "mass_kg = 2654.0"))[0]
    assert problem.path == "body.mass_kg"
    assert "has no origin" in problem.message


def test_nothing_has_a_default() -> None:
    problem = refused(HMMWV.replace(MASS_LINE, ""))[0]
    assert (problem.path, problem.message.split(";")[0]) == ("body.mass_kg", "missing")


@pytest.mark.parametrize(
    ("old", "new", "path", "part"),
    [
        (
            "rolling_share = { value = [0.375, 0.75], ",
            "rolling_share = { value = [0.375], ",
            "rolling_share",
            "list of 2",
        ),
        (
            "stiffness_npm = { value = 459267.2",
            "stifness_npm = { value = 459267.2",
            "stifness_npm",
            "did you mean",
        ),
        (
            "stiffness_npm = { value = 459267.2, ",
            "stiffness_npm = { ",
            "stiffness_npm",
            "has no value",
        ),
    ],
)
def test_a_table_that_may_be_left_out_is_checked_where_it_is_there(
    old: str, new: str, path: str, part: str
) -> None:
    assert HMMWV.count(old) == 2
    problem = refused(HMMWV.replace(old, new, 1))[0]
    assert problem.path == f"front.tyre.vertical.{path}"
    assert part in problem.message


def test_the_kind_of_powertrain_is_chosen_by_its_word() -> None:
    problem = refused(HMMWV.replace('kind = "engine"', 'kind = "engin"'))[0]
    assert problem.path == "powertrain.kind"
    assert 'did you mean "engine"?' in problem.message


def test_all_mistakes_at_once() -> None:
    text = (
        HMMWV.replace(MASS_LINE, "mass_kg = 3.0")
        .replace('"published"', '"guessed"')
        .replace("[bounds]", "[bound]")
    )
    problems = refused(text)
    assert len(problems) > 50
    assert {"body.mass_kg", "bound"} <= {problem.path for problem in problems}


def test_changes_stand_in_the_place_of_numbers_and_say_so() -> None:
    changed = load_twin("hmmwv_lfdm", {"body.mass_kg": 2600.0, "front": {"track_m": 1.9}})
    assert (changed.parameters.body.mass_kg, changed.parameters.front.track_m) == (2600.0, 1.9)
    assert changed.provenance["body.mass_kg"].origin == twin_file.CHANGED
    assert changed.digest != load_twin("hmmwv_lfdm").digest


@pytest.mark.parametrize(
    ("changes", "path", "part"),
    [
        ({"body.mas_kg": 1.0}, "body.mas_kg", 'did you mean "body.mass_kg"?'),
        ({"body.mass_kg": -1.0}, "body.mass_kg", "must be a number > 0.01"),
        ({"body": 1.0}, "body", "no such parameter"),
        ({"body.mass_kg": "heavy"}, "body.mass_kg", "must be a number"),
    ],
)
def test_changes_are_checked_as_the_file_is(changes: dict[str, Any], path: str, part: str) -> None:
    problem = refused(HMMWV, changes)[0]
    assert (problem.path, problem.place) == (path, twin_file.CHANGED)
    assert part in problem.message


def test_an_unknown_name_comes_with_the_nearest() -> None:
    with pytest.raises(ProfileError, match='did you mean "hmmwv_lfdm"'):
        load_twin("hmmwv_lfmd")


def test_a_file_in_the_home_of_nobody_is_not_there(tmp_path: Path) -> None:
    profile = load_profile("art_twin", ["sim.twin.vehicle=~nobody-of-this-name/a.toml"])
    twin = twin_file.anchored(profile, str(tmp_path / "mine.toml")).sim.twin
    assert twin is not None
    with pytest.raises(
        ProfileError, match=r"~nobody-of-this-name/a\.toml: 1 problem\n  no such file"
    ):
        load_twin(twin.vehicle)


def test_writing_back_keeps_everything_else() -> None:
    twin = load_twin("hmmwv_lfdm")
    numbers = {
        "body.mass_kg": NewValue(2612.5, 20.0),
        "rear.tyre.lateral.slope_n": NewValue([50000.0, 93000.0], 900.0),
    }
    text = write_twin(twin, numbers, "laps", 'three laps of "mine"', name="my_hmmwv")
    again = parse(text, "mine.toml")
    assert again.parameters.identity.name == "my_hmmwv"
    assert again.parameters.body.mass_kg == 2612.5
    assert again.parameters.rear.tyre.lateral.slope_n == [50000.0, 93000.0]
    mass = again.provenance["body.mass_kg"]
    assert (mass.status, mass.origin, mass.spread, mass.absolute) == (
        "calibrated",
        "laps",
        20.0,
        True,
    )
    assert again.origins["laps"] == 'three laps of "mine"'
    others = [key for key in twin.provenance if key not in numbers]
    assert all(again.provenance[key] == twin.provenance[key] for key in others)
    before, after = HMMWV.splitlines(), text.splitlines()
    assert len(after) == len(before) + 1, "the origin"
    assert (Counter(before) - Counter(after)).total() == 3, "two numbers and the name"
    comment = MASS_LINE.partition("  # ")[2]
    assert comment
    assert any(line.startswith("mass_kg") and line.endswith(comment) for line in after)


@pytest.mark.parametrize(
    ("numbers", "origin", "part"),
    [
        ({"body.mas_kg": NewValue(1.0, 0.1)}, "laps", "no such parameter"),
        ({"body.mass_kg": NewValue(2600.0, float("nan"))}, "laps", "sigma is not a number"),
        ({"body.mass_kg": NewValue(-5.0, 1.0)}, "laps", "must be a number > 0.01"),
        ({"body.mass_kg": NewValue(2600.0, 1.0)}, "lfdm", "with another text"),
        ({"body.mass_kg": NewValue(2600.0, 1.0)}, "my laps", "is not a valid key"),
    ],
)
def test_what_cannot_be_written_is_refused(
    numbers: dict[str, NewValue], origin: str, part: str
) -> None:
    with pytest.raises(ProfileError, match=part):
        write_twin(load_twin("hmmwv_lfdm"), numbers, origin, "laps")


ORIGINS = HMMWV[HMMWV.index("[origins]") : HMMWV.index("[identity]")]
MASS_KEYS = ("value = 2654.382", 'status = "derived"', 'origin = "lfdm"', "spread = 0.05")
SHAPES = {
    "dotted": (MASS_LINE, "\n".join(f"mass_kg.{key}" for key in MASS_KEYS), "body.mass_kg"),
    "table of its own": (f"{MASS_LINE}\n", "", "body.mass_kg", "[body.mass_kg]  # {", *MASS_KEYS),
    "origins dotted": (ORIGINS,
        re.sub("^(?=[a-z])", "origins.", ORIGINS.removeprefix("[origins]"), flags=re.MULTILINE),
        "origins"),
    "name in one line with the rest": (
        HMMWV[HMMWV.index("[identity]") : HMMWV.index("[body]")],
        'identity = { name = "a", description = "b" }\n', "identity.name",
    ),
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_what_stands_in_another_shape_is_refused_with_its_line(shape: tuple[str, ...]) -> None:
    old, new, key, *rest = shape
    if key == "identity.name":
        text = new + HMMWV.replace(old, "")
    else:
        text = "\n".join([HMMWV.replace(old, new, 1), *rest])
    twin = parse(text, "mine.toml")
    with pytest.raises(ProfileError, match=r"is not written as .*; write it so") as caught:
        write_twin(
            twin, {"body.mass_kg": NewValue(2612.5, 20.0)}, "laps", "three laps", name="my_hmmwv"
        )
    (problem,) = caught.value.problems
    assert problem.path == key
    assert key.rpartition(".")[2] in text.split("\n")[int(problem.place.removeprefix("line ")) - 1]


LINES = HMMWV.splitlines()
VALUE = re.compile(r"value = (\[[^]]*\]|[^,]*)")
JUNK = st.sampled_from(
    [
        "nan",
        "inf",
        "-1",
        "1e400",
        "[]",
        "[[1.0]]",
        "{}",
        '"x"',
        "true",
        "{ value = {} }",
        "10" * 200,
        "1979-05-27",
        "[nan, 1.0]",
    ]
)


@examples(40)
@given(st.lists(st.tuples(st.integers(0, len(LINES) - 1), JUNK), min_size=1, max_size=6))
def test_junk_is_refused_and_never_fails(edits: list[tuple[int, str]]) -> None:
    lines = list(LINES)
    for number, junk in edits:
        key, equals, rest = lines[number].partition(" = ")
        if equals:
            before, value, after = (
                VALUE.split(rest, maxsplit=1) if VALUE.search(rest) else ("", "", "")
            )
            lines[number] = f"{key} = {before}value = {junk}{after}" if value else f"{key} = {junk}"
    problems = None
    try:
        parse("\n".join(lines), "junk.toml")
    except ProfileError as error:
        problems = error.problems
    assert problems is None or (problems and all(problem.message for problem in problems))


@examples(40)
@given(st.text(max_size=300))
def test_any_text_is_refused_and_never_fails(text: str) -> None:
    with pytest.raises(ProfileError):
        parse(text, "text.toml")


def test_keys_nested_without_end_are_refused() -> None:
    assert refused(f"{HMMWV}\n[{'.'.join(['a'] * 5000)}]\nb = 1\n")[0].path == "a"


@pytest.mark.parametrize("name", twin_file.names())
def test_shipped_twins(name: str) -> None:
    twin = load_twin(name)
    assert twin.parameters.identity.name == name
    used = {record.origin for record in twin.provenance.values()}
    assert used <= set(twin.origins)
    for key, record in twin.provenance.items():
        assert record.status in STATUSES
        if record.status == "assumed" and not record.absolute and record.spread == 0.0:
            continue  # switched off, or a choice such as full command
        assert record.spread <= 1.0 or record.absolute, key
    drive = twin.parameters.powertrain
    if isinstance(drive, Motor):
        assert "428" not in str(drive.peak_torque_nm), "a slip of units in a published guide"
