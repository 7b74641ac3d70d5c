"""Recorded traces as courses: dense rows with times, in a table or a MAT-file."""

import io
from typing import Any

import numpy as np
import pytest
from scipy.io import savemat

from vehicled.paths import CourseError
from vehicled.paths.course import Course
from vehicled.paths.course_file import ReadOptions
from vehicled.paths.datum import Datum
from vehicled.paths.formats import course_from_bytes

RATE_HZ = 400.0
PLACE = Datum.from_degrees(48.1, 11.5)
T = np.arange(0.0, 6.0, 1.0 / RATE_HZ)
SPEED = np.minimum(2.0 * T, 6.0)
X = np.cumsum(SPEED) / RATE_HZ
Y = 1.5 * np.sin(0.15 * X)
NOISE = np.random.default_rng(1).normal(0.0, 0.01, (2, len(T)))
NOISY = {"x": X + NOISE[0], "y": Y + NOISE[1]}
EARTH = np.degrees(
    [PLACE.to_geodetic(x, y, 0.0)[:2] for x, y in zip(NOISY["x"], NOISY["y"], strict=True)]
)
SPEED_OF_LINE = np.hypot(np.gradient(X, T), np.gradient(Y, T))
TIGHTEST_PER_M = 1.5 * 0.15**2


def mat(**variables: Any) -> bytes:
    file = io.BytesIO()
    savemat(file, variables)
    return file.getvalue()


def table(**columns: Any) -> bytes:
    rows = zip(*(np.asarray(column).tolist() for column in columns.values()), strict=True)
    return "\n".join([",".join(columns), *(",".join(map(repr, row)) for row in rows)]).encode()


def is_the_line(course: Course) -> None:
    off_m = course.y_m - np.interp(course.x_m, X, Y)
    assert np.abs(off_m - off_m.mean())[30:-30].max() < 0.01
    assert np.abs(course.curvature_per_m[20:-20]).max() < TIGHTEST_PER_M + 0.03
    assert course.speed_mps.max() == pytest.approx(SPEED_OF_LINE.max(), rel=0.03)
    assert course.account is not None
    assert "a recorded trace, 6.0 s at 400 Hz" in "\n".join(course.account.lines())


@pytest.mark.parametrize(
    ("name", "data", "columns"),
    [
        (
            "a.csv",
            table(time=T, lat=EARTH[:, 0], lon=EARTH[:, 1], alt=0 * T, speed=SPEED_OF_LINE),
            (),
        ),
        ("a.csv", table(t_ns=1e9 * T, x_m=NOISY["x"], y_m=NOISY["y"]), ()),
        (
            "a.mat",
            mat(lat=EARTH[:, 0], lon=EARTH[:, 1], alt=0 * T, time=T, speed=SPEED_OF_LINE),
            (),
        ),
        ("a.mat", mat(run={**NOISY, "time_ms": 1e3 * T}), ()),
        (
            "a.mat",
            mat(M=np.column_stack([T, NOISY["x"], NOISY["y"], SPEED_OF_LINE]).T),
            ("t", "x", "y", "speed"),
        ),
    ],
    ids=["wgs84", "metres", "vectors", "struct", "matrix"],
)
def test_a_noisy_trace_is_smoothed(name: str, data: bytes, columns: tuple[str, ...]) -> None:
    is_the_line(course_from_bytes(data, name, ReadOptions(columns)))


def test_sparse_rows_with_times_stay_waypoints() -> None:
    course = course_from_bytes(
        table(t=[0, 1, 2, 3], x=[0, 5, 10, 10], y=[0, 0, 0, 5], speed=[2, 2, 2, 2]), "a.csv"
    )
    # The corner is kept.
    assert np.hypot(course.x_m - 10.0, course.y_m).min() < 1e-9
    assert course.waypoints == 4


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.csv", table(t=np.roll(T, 3), x=X, y=Y), ["line 5", "time", "put the rows in order"]),
        ("a.csv", table(t=T, x=X, y=Y, speed=3.6 * SPEED_OF_LINE),
         ["the speeds come to", "look like km/h", "delete the column"]),
        ("a.csv", table(t=T, x=X, y=Y + 5.0 * (T > 3.0)),
         ["line 1203", "the position jumps by 5.", "at 3.0 s", "leave out"]),
        ("a.mat", mat(x=X, y=Y, t=T, speed=SPEED[:-1]),
         ["speed has 2399 values, x has 2400", "one length"]),
        ("a.mat", mat(x=X, north=Y, y=Y), ['"north" and "y" both mean y', "keep one"]),
        ("a.mat", mat(x=X, y_cm=100 * Y, t_ms=T), ["t_ms is named as ms", "in s it is", "time_s"]),
        ("a.mat", mat(M=np.column_stack([T, X, Y])),
         ["no vector with a known name", "M (2400 x 3)", "a.mat:columns="]),
        ("a.mat", mat(foo=[1.0, 2.0]),
         ["no vector with a known name", "save vectors named x_m, y_m"]),
        ("a.mat", b"no such file", ["no readable MAT-file", "-v7"]),
        ("a.mat", b"MATLAB 7.3 MAT-file".ljust(512) + b"\x89HDF\r\n\x1a\n",
         ["version 7.3", "save(..., '-v7')"]),
    ],
    # A MAT-file holds the second of its writing: named after it, a test would have another name in
    # each process.
    ids=["order", "speeds", "jump", "lengths", "names", "unit", "matrix", "no vectors", "no file",
        "version"],
)  # fmt: skip
def test_what_cannot_be_read_names_the_cure(name: str, data: bytes, words: list[str]) -> None:
    with pytest.raises(CourseError) as error:
        course_from_bytes(data, name)
    assert str(error.value).startswith(name)
    for word in words:
        assert word in str(error.value)
