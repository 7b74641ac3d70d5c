"""The repeated tracking test: what it drives, what it shows, what it refuses."""

import json
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from vehicled.core.errors import SetupError
from vehicled.offline.replications.experiments import mpc_tracking
from vehicled.profile import load_profile
from vehicled.run.command_line import CommandParser

pytestmark = pytest.mark.xdist_group("tracking")  # what the tests look at is made once


class Notes:
    """A console that remembers."""

    def __init__(self) -> None:
        self.tables: list[tuple[str, Sequence[str], Sequence[Sequence[str]]]] = []
        self.texts: list[str] = []

    def progress(self, text: str) -> None:
        pass

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        self.tables.append((title, columns, rows))

    def text(self, text: str) -> None:
        self.texts.append(text)


def parsed(*arguments: str) -> Namespace:
    parser = CommandParser()
    mpc_tracking.declare_experiment_mpc_tracking(parser)
    return parser.parse_args(arguments)


def test_published_table_is_that_of_the_shared_data(shared_data: Path) -> None:
    rows = (shared_data / "published_tables/art_mpc_tracking.csv").read_text().split()
    names = rows[0].split(",")
    for row in rows[1:]:
        values = dict(zip(names, row.split(","), strict=True))
        for key, table in mpc_tracking.PUBLISHED.items():
            assert table[int(values["trajectory"]) - 1][int(values["test"]) - 1] == float(
                values[key]
            )


def test_curves_are_the_lines_of_the_tests(shared_data: Path) -> None:
    for number, name in enumerate(("mocap_sin_2", "mocap_sin_3")):
        points = np.loadtxt(shared_data / f"reference_paths/{name}.csv", delimiter=",", skiprows=1)
        a, b = mpc_tracking.CURVES[number]
        assert np.abs(points[:, 1] - a * np.sin(b * points[:, 0])).max() < 1e-4


def test_recorded_real_drives_have_the_published_errors(real_data: Path) -> None:
    rows = {
        row.recording: row
        for row, _ in mpc_tracking.real_drives(str(real_data / "mocap_ekf_mpc_2023/sin_2"))
    }
    assert {row.trajectory for row in rows.values()} == {1}
    for test, most in enumerate(mpc_tracking.PUBLISHED["max_error_real_m"][0], start=1):
        assert rows[f"r{test}"].max_m == pytest.approx(most, abs=0.002)


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """Result of one test of each trajectory."""
    notes = Notes()
    assert mpc_tracking.run(parsed("--tests", "1", "--json"), notes) == 0
    result: dict[str, Any] = json.loads(notes.texts[0])
    return result


def test_ours_is_nearer_on_the_true_state(found: dict[str, Any]) -> None:
    assert [(row["trajectory"], row["test"]) for row in found["ours"]] == [(1, 1), (2, 1)]
    for row in found["ours"]:
        assert row["finished"]["ours, true state"]
        assert row["mean_m"]["ours, true state"] < 0.02
        assert row["mean_m"]["ours, true state"] < row["mean_m"]["published, true state"]
        assert row["mean_m"]["ours, planar filter"] < row["mean_m"]["published, its EKF"]
        assert (
            row["mean_m"]["published, EKF of the paper, noise"]
            < 0.5 * row["mean_m"]["published, its EKF"]
        )


def test_ours_is_shown_beside_the_published(found: dict[str, Any]) -> None:
    notes, rows = Notes(), msgspec.convert(found["ours"], list[mpc_tracking.TrackingRow])
    mpc_tracking._show(notes, rows, "inner")
    assert [title.split()[0] for title, _, _ in notes.tables] == ["mean", "max"]
    for _, columns, lines in notes.tables:
        assert [line[0] for line in lines] == ["1 / 1", "2 / 1", "mean"]
        assert all(len(line) == len(columns) for line in lines)
    assert notes.tables[0][2][0][1:3] == ["0.235", "0.058"]


@pytest.mark.soak  # make test: the drives of studies are the same every time
def test_a_test_is_the_same_every_time_and_another_with_another_seed() -> None:
    profile, system = load_profile("art_published"), mpc_tracking.SYSTEMS[1]
    first, again, other = (
        mpc_tracking.drive(profile, system, 1, 0, "inner", seed) for seed in (1, 1, 2)
    )
    assert np.array_equal(first.truth_m, again.truth_m)
    assert first.truth_m.shape != other.truth_m.shape or not np.array_equal(
        first.truth_m, other.truth_m
    )


@pytest.mark.parametrize(
    "arguments",
    [("--tests", "0"), ("--seed", "-1"), ("--plot", "/nowhere/x.png"), ("--plot", "x.txt")],
)
def test_arguments_that_cannot_be_used_are_refused(arguments: tuple[str, ...]) -> None:
    with pytest.raises(SetupError):
        mpc_tracking.run(parsed(*arguments), Notes())
