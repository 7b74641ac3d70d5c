"""Courses by name and by file."""

import math
import os
from pathlib import Path

import numpy as np
import pytest

from vehicled.core import shipped
from vehicled.paths import CourseError, catalog

NAMED = [f"circle_r{radius}_{way}" for radius in (2, 5, 25) for way in ("ccw", "cw")]
NAMED += [
    "straight_20m",
    "straight_30m",
    "sine",
    "sine_tight",
    "square",
    "double_lane_change",
    "figure_eight",
]
NAMED += ["lot17", "lot17_two_speed"]
OTHER_SCALES = {"circle_r1_slow": 0.2, "double_lane_change_fast": 8.0, "figure_eight_fast": 3.0}
"""Courses for smaller and larger vehicles than the reference one, and their speeds."""


def test_names_are_complete() -> None:
    assert set(NAMED) <= set(catalog.names())
    assert catalog.names() == sorted(catalog.names())


MANOEUVRES = {
    "chrono_iso", "chrono_nato", "iso_3888_1", "iso_3888_1_tenth", "iso_3888_2", "iso_3888_2_tenth",
    "slalom", "slalom_tenth", "turn", "straight_run",
    *(name for name in catalog.names() if name.startswith("thesis_")),
}  # fmt: skip
"""Courses for vehicles of other sizes and speeds; test_manoeuvre_courses."""


@pytest.mark.parametrize("name", [name for name in catalog.names() if name not in MANOEUVRES])
def test_every_named_course_can_be_driven(name: str) -> None:
    course = catalog.load_course(name)
    assert course.name == name
    assert course.length_m > 6.0
    assert np.allclose(np.diff(course.s_m), 0.1, atol=0.01)
    assert course.closed == name.startswith(("circle", "square", "figure", "lot17", "rectangle"))
    # The reference vehicle turns on 1.44 m; only the corners of the published lap are tighter.
    tight = np.abs(course.curvature_per_m) > (1 / 0.9 if name in OTHER_SCALES else 1 / 1.5)
    assert tight.sum() <= (16 if name.startswith("lot17") else 0)
    if not name.endswith("_two_speed"):
        assert set(course.speed_mps) == (
            {0.5, -0.5} if course.reverses else {OTHER_SCALES.get(name, 1.0)}
        )
    elif name != "lot17_two_speed":
        half = len(course.speed_mps) // 2
        assert set(course.speed_mps[: half - 1]) == {1.0}
        assert set(course.speed_mps[half + 1 : -1]) == {2.0}


def test_names_mean_what_they_say() -> None:
    assert catalog.load_course("straight_30m").length_m == pytest.approx(30.0)
    assert catalog.load_course("circle_r2_cw").curvature_per_m.mean() == pytest.approx(
        -0.5, rel=0.01
    )
    assert catalog.load_course("circle_r25_ccw").length_m == pytest.approx(50 * math.pi, rel=1e-3)


@pytest.mark.parametrize(
    ("typo", "meant"), [("lot71", "lot17"), ("figure_8", "figure_eight"), ("Square", "square")]
)
def test_a_misspelt_name_gets_a_suggestion(typo: str, meant: str) -> None:
    with pytest.raises(CourseError, match=f'no course "{typo}"; did you mean "{meant}"') as caught:
        catalog.load_course(typo)
    assert "double_lane_change" in str(caught.value)


@pytest.mark.parametrize("name", ["", "zzz", "a\0b", "x" * 5000, "\n"])
def test_nonsense_is_refused(name: str) -> None:
    with pytest.raises(CourseError, match="known: chrono"):
        catalog.load_course(name)


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "yard.csv"
    path.write_text("x,y\n0,0\n10,0\n")
    assert catalog.load_course(str(path)).name == "yard"
    with pytest.raises(CourseError, match=r'no such file; did you mean "yard\.csv"'):
        catalog.load_course(str(tmp_path / "yrad.csv"))


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "dir.csv").mkdir()
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "closed.csv").write_text("x,y\n0,0\n1,0\n")
    large = tmp_path / "large.csv"
    with large.open("wb") as file:
        file.truncate(60_000_000)
    cases = {
        "dir.csv": "folder",
        "pipe.csv": "regular file",
        "large.csv": "60 MB",
        "no/x.csv": "no such file",
        "a\0.csv": "cannot be",
    }
    for name, word in cases.items():
        with pytest.raises(CourseError, match=word):
            catalog.load_course(f"{tmp_path}/{name}")


def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "secret.csv"
    path.write_text("x,y\n0,0\n1,0\n")
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user reads everything")
    with pytest.raises(CourseError, match="cannot be read: Permission denied"):
        catalog.load_course(str(path))


def test_shipped_folder_prefers_the_installed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "vehicled"
    monkeypatch.setattr(shipped, "_PACKAGE", package)
    assert shipped.folder("profiles") == tmp_path / "profiles"
    (package / "_data" / "profiles").mkdir(parents=True)
    assert shipped.folder("profiles") == package / "_data" / "profiles"


def test_the_licence_of_the_published_lap_goes_with_it() -> None:
    text = (shipped.folder("profiles/courses") / "LICENSE-lot17.md").read_text()
    assert "uwsbel/autonomy-research-testbed" in text
    assert "Copyright (c)" in text


TOO_LONG = (
    "straight_run:length_m=1e12",
    "turn:radius_m=1e9",
    "slalom:cones=100000000",
    "circle_r5_ccw:laps=1000000000",
)


@pytest.mark.parametrize("name", [*TOO_LONG, "iso_3888_1:speed_mps=1e9"])
def test_a_course_that_is_too_long_is_reported_before_it_takes_memory(name: str) -> None:
    with pytest.raises(CourseError, match="km in steps of"):
        catalog.load_course(name)


def test_a_parameter_that_a_course_has_not_is_reported_with_those_it_has() -> None:
    with pytest.raises(
        CourseError, match=r'"radius_m=7" is no parameter of this course; known: .*laps'
    ):
        catalog.load_course("circle_r5_ccw:radius_m=7")
