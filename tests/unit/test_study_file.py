"""Study files: what they mean, and what is said of a wrong one."""

from contextlib import suppress
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vehicled.offline.studies.campaign import check_levels
from vehicled.offline.studies.cluster import DaskPool
from vehicled.offline.studies.conduct import RunRow
from vehicled.offline.studies.design import Factor, factor_of
from vehicled.offline.studies.errors import StudyError
from vehicled.offline.studies.formula import FormulaError, evaluate
from vehicled.offline.studies.metrics import StudyDrive, check_searched, measure_own
from vehicled.offline.studies.report import read_study
from vehicled.offline.studies.specification import Specification, load, names, parse
from vehicled.offline.studies.table import RunTable
from vehicled.profile import ProfileError

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
        '[factors]\nrate = {values = [50, 100], keys = ["tasks.control.rate_hz", '
        '"tasks.actuation.rate_hz"]}\n'
    )
    second = list(made.points())[1].settings.overrides
    assert second == {
        "tasks.control.deadline_ms": 10.0,
        "tasks.control.rate_hz": 100,
        "tasks.actuation.rate_hz": 100,
    }


def test_cases_set_what_they_name_and_formulas_in_them_work() -> None:
    made = study(
        '[factors]\nhz = {values = [50, 100], keys = ["tasks.control.rate_hz"]}\n'
        '[factors.plant.cases]\nfine = {}\ncoarse = {sim.step_ms = "= min(1000 / hz, 15)"}\n'
    )
    overrides = [point.settings.overrides.get("sim.step_ms") for point in made.points()]
    assert overrides == [None, 15, None, 10.0]


def test_samples_stay_in_their_bounds_and_are_repeatable() -> None:
    text = (
        '[sampling]\npoints = 40\nseed = 3\n[factors]\n"limits.max_speed_mps" = {low = 0.5, '
        "high = 4.0, log = true}\n"
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
        (
            "[sampling]\npoints = 3\nmethod = 'sobel'\n[factors]\nlaps = {low = 1, high = 3}\n",
            "sobel",
        ),
        ("metrics = ['cross_track']\n", "no metric 'cross_track'"),
        ("metrics = ['./not_here.py:f']\n", "no such file"),
        ("keep_logs = 'some'\n", '"failed"'),
        ("seed = -1\n", "seed: must be a whole number >= 0, found -1"),
        ("link = 'wire'\n", '"wires"'),
        ("[set]\nlimits.max_speed_mps = '= 2 * hz'\n", "hz is unknown"),
        ("[set]\nlimits.max_speed_mps = '= 1 / 0'\n", "division by zero"),
        ("[set]\nlimits.max_speed_mps = '= __import__(\"os\")'\n", "use numbers"),
        ("[factors]\na.cases = {}\n", "has no cases"),
        ("factors = 3\n", "must be a table"),
        ("profil = 'art'\n", "did you mean profile?"),
        ("[optimise]\nmetric = 'x'\ntrials = 0\n", "optimise.trials: must be a whole number >= 1"),
        ("[optimise]\nmetric = 'cross_track_maen_m'\n", "did you mean cross_track_mean_m?"),
        (
            "[factors]\nseed = [1, 2, 'a']\n",
            'seed: must be a whole number >= 0, found the text "a"',
        ),
        (
            "[factors]\na = {values = [1], keys = ['x.y']}\nb.cases.c = {x.y = 2}\n",
            "x.y: is set by the factors a and b",
        ),
        (
            "[sampling]\npoints = 3\nmethod = 'sobol'\n[factors]\nlaps = {low = 1, high = 3}\n",
            "take 2 or 4",
        ),
        ("[set]\nexact.rate_hz = 1\n", "exact.rate_hz: must be a number >= 5"),
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


def test_the_mistakes_of_all_levels_are_named_together() -> None:
    with pytest.raises(StudyError) as caught:
        study("laps = 0\n[factors]\nseed = [1, -1]\nlink = ['wires', 'wire']\n")
    # Each level is judged beside the first levels of the others: laps is wrong in all three.
    assert len(caught.value.problems) == 3
    made = study("[factors]\nseed = [1, 2]\nlink = ['wires', 'messages']\n")
    assert [(point.settings.seed, point.settings.link) for point in made.samples()] == [
        (1, "wires"),
        (1, "messages"),
    ]


def test_a_search_may_be_for_a_number_of_the_users_function() -> None:
    assert not check_searched("several.a", ["/nowhere/own.py:several"])
    assert check_searched("several.a", ["/nowhere/own.py:severall"])


def test_one_call_at_a_time_drives_into_a_folder(tmp_path: Path) -> None:
    with RunTable(tmp_path, create=True):
        with pytest.raises(StudyError, match="another call drives a study into this folder"):
            RunTable(tmp_path, create=True)
        with RunTable(tmp_path) as reader:
            assert reader.facts() == {}
    with RunTable(tmp_path, create=True):
        pass
    (tmp_path / "file").touch()
    with pytest.raises(StudyError, match="is a file: name a folder"):
        RunTable(tmp_path / "file", create=True)


def test_a_finished_study_is_read_without_writing(tmp_path: Path) -> None:
    with RunTable(tmp_path, create=True) as table:
        table.keep_facts({"name": "mine"})
        assert (tmp_path / "study.sqlite-wal").exists()
        with RunTable(tmp_path) as reader:
            assert reader.facts() == {"name": "mine"}
    assert [path.name for path in tmp_path.iterdir()] == ["study.sqlite"]
    with RunTable(tmp_path) as reader:
        assert reader.facts() == {"name": "mine"}
        # As on a read-only disk: a reader makes no files.
        assert [path.name for path in tmp_path.iterdir()] == ["study.sqlite"]
    (tmp_path / "study.sqlite").write_text("not a table " * 100)
    with pytest.raises(StudyError, match="cannot be read: file is not a database"):
        RunTable(tmp_path)


def test_a_finished_study_is_read_without_its_files(tmp_path: Path) -> None:
    """The reader may be in another folder, or on another computer."""
    source = "metrics = ['./not_here.py:f']\n[factors]\nseed = [1]\n"
    with RunTable(tmp_path, create=True) as table:
        table.keep_facts({"path": "my.toml", "source": source})
        table.plan([(1, "k", {"seed": 1})], first=True)
        table.add(
            RunRow(
                key="k",
                number=1,
                levels={"seed": 1},
                outcome="finished",
                why="",
                metrics={"f": 2.0},
            )
        )
    assert read_study(tmp_path).metrics == ["f"]


def test_a_metric_that_is_no_number_is_named(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("def fast(drive):\n    return 'fast'\n")
    found, problem = measure_own([f"{tmp_path}/own.py:fast"], cast(StudyDrive, None))
    assert found == {"fast": None}
    assert "returned 'fast'; return a number, or several by name in a dict" in problem


def test_a_scheduler_file_that_is_missing_is_named() -> None:
    pytest.importorskip("distributed")
    with pytest.raises(StudyError, match=r"nofile\.json: no such file"):
        DaskPool("nofile.json")


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
    assert (point.settings.course, point.settings.controller) == (
        "/nowhere/c.csv",
        "/nowhere/law.py:Law",
    )


def test_the_identity_of_a_run_is_everything_that_decides_it() -> None:
    keys = {
        point.key(basis)
        for basis in ("a", "b")
        for text in ("[factors]\nseed = [1, 2]\n", "laps = 2\n[factors]\nseed = [1, 2]\n")
        for point in study(text).points()
    }
    assert len(keys) == 8
    one, same = (
        next(study(text).points()).key("a")
        for text in ("seed = 1\n", "description = 'x'\n[factors]\nseed = [1]\n")
    )
    assert one == same


@given(st.text(max_size=60))
def test_a_formula_is_a_number_or_refused(text: str) -> None:
    with suppress(FormulaError):
        assert isinstance(evaluate("=" + text, {"a": 2.0}), int | float)


KEYS = ("values", "from", "to", "step", "count", "low", "high", "log", "whole", "keys", "cases")
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
TABLES = st.recursive(
    LEAVES,
    lambda each: (
        st.lists(each, max_size=3) | st.dictionaries(st.sampled_from(KEYS), each, max_size=4)
    ),
)


@given(TABLES)
def test_a_factor_is_understood_or_refused(written: object) -> None:
    with suppress(ValueError):
        factor_of("f", written)
