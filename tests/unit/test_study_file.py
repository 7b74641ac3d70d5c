"""Study files: what they mean, and what is said of a wrong one."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vehicled.profile import ProfileError
from vehicled.studies.campaign import check_levels
from vehicled.studies.design import Factor, factor_of
from vehicled.studies.errors import StudyError
from vehicled.studies.formula import FormulaError, evaluate
from vehicled.studies.specification import Specification, load, names, parse

HERE = Path("/nowhere/my.toml")


def study(text: str) -> Specification:
    return parse(text, HERE)


def levels(written: object) -> list[object]:
    made = factor_of("f", written)
    assert isinstance(made, Factor)
    return [level.label for level in made.levels]


def test_every_combination_is_a_run_and_the_last_factor_varies_fastest() -> None:
    made = study('[factors]\ncontroller = ["mpc", "stanley"]\nseed = {from = 1, to = 3}\n')
    assert made.size == 6
    assert [(p.settings.controller, p.settings.seed) for p in made.points()][:4] == [
        ("mpc", 1),
        ("mpc", 2),
        ("mpc", 3),
        ("stanley", 1),
    ]


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ({"from": 60, "to": 400, "step": 10}, list(range(60, 401, 10))),
        ({"from": 3, "to": 1, "step": -1}, [3, 2, 1]),
        ({"from": 0, "to": 1, "count": 5}, [0.0, 0.25, 0.5, 0.75, 1.0]),
        ({"from": 0.1, "to": 0.3, "step": 0.1}, [0.1, 0.2, 0.3]),
        ({"values": [1, 2]}, [1, 2]),
        (["a", "b"], ["a", "b"]),
    ],
)
def test_ranges(written: object, wanted: list[object]) -> None:
    assert levels(written) == wanted


def test_a_factor_may_set_several_keys_and_formulas_follow_it() -> None:
    made = study(
        '[set]\n"tasks.control.deadline_ms" = "= 1000 / rate"\n'
        '[factors]\nrate = {values = [50, 100], keys = ["tasks.control.rate_hz", "tasks.actuation.rate_hz"]}\n'
    )
    second = list(made.points())[1].settings.overrides
    assert second == {"tasks.control.deadline_ms": 10.0, "tasks.control.rate_hz": 100, "tasks.actuation.rate_hz": 100}


def test_cases_set_what_they_name_and_formulas_in_them_work() -> None:
    made = study(
        '[factors]\nhz = {values = [50, 100], keys = ["tasks.control.rate_hz"]}\n'
        '[factors.plant.cases]\nfine = {}\ncoarse = {sim.step_ms = "= min(1000 / hz, 15)"}\n'
    )
    overrides = [point.settings.overrides.get("sim.step_ms") for point in made.points()]
    assert overrides == [None, 15, None, 10.0]


def test_samples_stay_in_their_bounds_and_are_repeatable() -> None:
    text = (
        '[sampling]\npoints = 40\nseed = 3\n[factors]\n"limits.max_speed_mps" = {low = 0.5, high = 4.0, log = true}\n'
        'laps = {low = 1, high = 3, whole = true}\ncontroller = ["mpc", "stanley"]\n'
    )
    points = [point.settings for point in study(text).points()]
    assert points == [point.settings for point in study(text).points()]
    assert len(points) == 80
    assert {point.laps for point in points} == {1, 2, 3}
    speeds = sorted(point.overrides["limits.max_speed_mps"] for point in points)
    assert 0.5 <= speeds[0] < 0.6
    assert 3.4 < speeds[-1] <= 4.0
    # A Latin hypercube has one sample in each fortieth of the range.
    assert sum(speed < (0.5 * 4.0) ** 0.5 for speed in speeds) == 40


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[factors]\ncontroler = ['mpc']\n", "did you mean controller?"),
        ("[factors]\ncontroller = []\n", "has no levels"),
        ("[factors]\nseed = 3\n", "give a list"),
        ("[factors]\nseed = {from = 1, to = 5, step = -1}\n", "never reaches 5"),
        ("[factors]\nseed = {from = 1, to = 5, count = 1}\n", "from 2 up"),
        ("[factors]\nseed = [1, 1]\n", "twice"),
        ("[factors]\nseed = {from = 1, to = 1e12}\n", "more than 1000000 levels"),
        ("seed = 1\n[factors]\nseed = [1, 2]\n", "is fixed and a factor"),
        ("[factors]\nlaps = {low = 1, high = 3}\n", "[sampling] points"),
        ("[sampling]\npoints = 3\n[factors]\nseed = [1]\n", "no factor has bounds"),
        ("[sampling]\npoints = 3\nmethod = 'sobel'\n[factors]\nlaps = {low = 1, high = 3}\n", "sobel"),
        ("metrics = ['cross_track']\n", "no metric 'cross_track'"),
        ("metrics = ['./not_here.py:f']\n", "no such file"),
        ("keep_logs = 'some'\n", '"failed"'),
        ("seed = -1\n", "seed = -1"),
        ("link = 'wire'\n", '"wires"'),
        ("[set]\nlimits.max_speed_mps = '= 2 * hz'\n", "hz is unknown"),
        ("[set]\nlimits.max_speed_mps = '= 1 / 0'\n", "division by zero"),
        ("[set]\nlimits.max_speed_mps = '= __import__(\"os\")'\n", "use numbers"),
        ("[factors]\na.cases = {}\n", "has no cases"),
        ("factors = 3\n", "must be a table"),
        ("profil = 'art'\n", "did you mean profile?"),
        ("[optimise]\nmetric = 'x'\ntrials = 0\n", "trials"),
    ],
)
def test_a_mistake_is_named_with_its_cure(text: str, words: str) -> None:
    with pytest.raises(StudyError, match=r".") as caught:
        study(text)
    assert words in str(caught.value)
    assert str(HERE) in str(caught.value)


def test_all_mistakes_are_named_together() -> None:
    with pytest.raises(StudyError) as caught:
        study("metrics = ['nothing']\n[factors]\nseed = []\ncontroler = ['mpc']\n")
    assert len(caught.value.problems) == 3


def test_what_is_no_toml_is_refused_with_the_line() -> None:
    with pytest.raises(ProfileError, match="line 1"):
        study("seed = = 2")


@pytest.mark.parametrize("name", names())
def test_every_level_of_a_shipped_study_can_be_driven(name: str) -> None:
    made = load(name)
    assert made.description
    assert check_levels(made)


def test_a_factor_without_keys_is_for_formulas_alone() -> None:
    made = study("[set]\na.b = '= n / 2'\n[factors]\nn = { values = [2, 4], keys = [] }\n")
    assert [point.settings.overrides for point in made.points()] == [{"a.b": 1.0}, {"a.b": 2.0}]


def test_relative_files_are_beside_the_study() -> None:
    point = next(study("course = './c.csv'\ncontroller = './law.py:Law'\n").points())
    assert (point.settings.course, point.settings.controller) == ("/nowhere/c.csv", "/nowhere/law.py:Law")


def test_the_identity_of_a_run_is_everything_that_decides_it() -> None:
    keys = {
        point.key(basis)
        for basis in ("a", "b")
        for text in ("[factors]\nseed = [1, 2]\n", "laps = 2\n[factors]\nseed = [1, 2]\n")
        for point in study(text).points()
    }
    assert len(keys) == 8
    one, same = (next(study(text).points()).key("a") for text in ("seed = 1\n", "description = 'x'\n[factors]\nseed = [1]\n"))
    assert one == same


@given(st.text(max_size=60))
def test_a_formula_is_a_number_or_refused(text: str) -> None:
    with suppress(FormulaError):
        assert isinstance(evaluate("=" + text, {"a": 2.0}), int | float)


KEYS = ("values", "from", "to", "step", "count", "low", "high", "log", "whole", "keys", "cases")
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
TABLES = st.recursive(LEAVES, lambda each: st.lists(each, max_size=3) | st.dictionaries(st.sampled_from(KEYS), each, max_size=4))


@given(TABLES)
def test_a_factor_is_understood_or_refused(written: object) -> None:
    with suppress(ValueError):
        factor_of("f", written)
