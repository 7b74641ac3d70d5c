"""The table of a simulation, the report of its log and the comparison of its log state the same
figures."""

import json
from math import degrees
from pathlib import Path

import numpy as np
import pytest

from vehicled.cli import main
from vehicled.offline.analysis.compare.gather import gather
from vehicled.offline.analysis.report.scan import Findings

pytestmark = pytest.mark.xdist_group("agree")  # what the tests look at is made once


@pytest.fixture(scope="module")
def drive(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, object], Path]:
    folder = tmp_path_factory.mktemp("agree")
    result = folder / "result.json"
    with pytest.MonkeyPatch.context() as patch, result.open("w") as out:
        patch.setattr("sys.stdout", out)
        # Sharp and fast for the vehicle: what is only nearly the same error shows itself.
        main(
            [
                "sim",
                "--course",
                "circle_r2_ccw:speed_mps=1.5",
                "--seed",
                "3",
                "--log",
                str(folder),
                "--json",
                "--quiet",
            ]
        )
    return json.loads(result.read_text()), next(folder.glob("*.mcap"))


NAMES = {
    "cross_track_m": "cross_track_m", "heading_rad": "heading_rad",
    "estimate_position_m": "position_m", "estimate_yaw_rad": "yaw_rad",
    "estimate_speed_mps": "speed_mps",
}  # fmt: skip


def test_the_report_states_the_figures_of_the_simulation(drive) -> None:
    result, log = drive
    found = Findings(log)
    for ours, theirs in NAMES.items():
        series = found.series[f"error.{theirs}"]
        assert series.mean_magnitude == pytest.approx(result[ours]["mean"], rel=1e-6), ours
        assert series.largest_magnitude == pytest.approx(result[ours]["max"], rel=1e-6), ours


def test_the_comparison_states_the_figures_of_the_simulation(drive) -> None:
    result, log = drive
    run = gather(log)
    whole = [np.ones((1, run.blocks))]
    stated = {
        (m.group, m.quantity): float(s.evaluate([s], whole)[0]) for m, s in run.statistics.items()
    }
    for ours, key, scale in (
        ("cross_track_m", ("tracking", "true cross-track RMS"), 1.0),
        ("heading_rad", ("tracking", "true heading RMS"), degrees(1.0)),
        ("estimate_position_m", ("estimate", "position RMS"), 1.0),
        ("estimate_yaw_rad", ("estimate", "heading RMS"), degrees(1.0)),
        ("estimate_speed_mps", ("estimate", "speed RMS"), 1.0),
    ):
        assert stated[key] == pytest.approx(result[ours]["rms"] * scale, rel=1e-6), key
