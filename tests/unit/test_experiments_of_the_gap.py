"""Experiments about the gap to reality: ranks of receiver models, the check of an INS, drives
beside recorded ones."""

import json
from math import cos, pi, sin
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from tests import recordings_bench as bench
from tests import reference_bench
from vehicled.cli import main
from vehicled.core.errors import SetupError
from vehicled.offline.gap.gap import ALL, Gap, compare_sets
from vehicled.offline.gap.quantities import MeasuredRun
from vehicled.offline.gap.runs import JudgedRun, RunSet
from vehicled.offline.replications.experiments import ins_check, sim_to_real, vepd
from vehicled.offline.sensors.truth import series
from vehicled.paths.course import course_from_waypoints
from vehicled.paths.datum import LOT_17
from vehicled.profile.sensors import ReferenceModel


def gap_of(errors: dict[str, float]) -> Gap:
    """Return the gap of models whose runs have these errors beyond the real ones."""

    def runs(label: str, error: float) -> RunSet:
        random = np.random.default_rng(1)
        found = []
        for manoeuvre in vepd.MANOEUVRES:
            for k in range(5):
                values = {
                    "E": 0.1 + error + 0.01 * float(random.random()),
                    "S": 0.1,
                    "position": 0.0,
                    "heading": 0.0,
                    "nis": 1.0,
                }
                found.append(
                    JudgedRun(
                        name=f"{k}",
                        path="",
                        manoeuvre=manoeuvre,
                        measured=MeasuredRun(values, 20.0, 1.0),
                        truth_hz=50.0,
                        rates_hz={},
                    )
                )
        return RunSet(label, found)

    return compare_sets(runs("real", 0.0), [runs(label, error) for label, error in errors.items()])


def test_models_in_the_published_order_agree_with_it() -> None:
    published = {model: vepd.PUBLISHED[model]["circle"] for model in vepd.MODELS}
    found = gap_of(published)  # type: ignore[arg-type]
    assert vepd.agreement(found)["circle"] == pytest.approx(1.0)
    assert found.ranks()[ALL] == {
        "airsim": 1,
        "random_walk": 2,
        "random_walk_airsim": 3,
        "gauss_airsim": 4,
        "gauss": 5,
    }
    reversed_ = gap_of({model: 1.0 - float(value) for model, value in published.items()})  # type: ignore[arg-type]
    assert vepd.agreement(reversed_)["circle"] == pytest.approx(-1.0)


def test_the_ins_is_judged_by_the_tape(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["experiment", "ins-check", "--drives", "1", "--jobs", "1", "--output", str(tmp_path)]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["largest_mps"] < 0.005
    (log,) = (tmp_path / "logs").glob("*/*.mcap")
    length = found["drives"][0]["length_m"]
    # A tape that is wrong by a tenth shows as a tenth of the speed.
    assert main(["experiment", "ins-check", str(log), "--length", f"{1.1 * length}", "--json"]) == 1
    wrong = json.loads(capsys.readouterr().out)
    assert wrong["largest_mps"] == pytest.approx(0.1 * found["drives"][0]["tape_mps"], rel=0.05)
    assert main(["experiment", "ins-check", str(log)]) == 2
    assert "--length M is needed" in capsys.readouterr().err


def test_what_is_no_straight_drive_is_refused() -> None:
    legs = [reference_bench.Leg(2.0), reference_bench.Leg(0.0, 6.0, 1.5), reference_bench.Leg(2.0)]
    states, _, _ = reference_bench.drive(ReferenceModel(), legs)
    run = series("drive", states, [], LOT_17, reference_bench.ARM_M, reference_bench.ANTENNA_M)
    with pytest.raises(SetupError, match="off the straight line"):
        ins_check.judge(Path("circle.mcap"), run, 20.0)
    moving = replace(
        run,
        **{name: getattr(run, name)[60:] for name in ("t_s", "east_mps", "north_mps", "yaw_rad")},
    )
    with pytest.raises(SetupError, match="begin and end at rest"):
        ins_check.judge(Path("late.mcap"), moving, 20.0)


def test_a_recorded_drive_lies_where_it_was_on_the_course(tmp_path: Path) -> None:
    recording = bench.load(bench.path_following(tmp_path / "run.csv", grid_m=0.0))[0]
    d = bench.drive()
    # The course lies .2 m to the right of what was driven.
    x, y = d["x"] + 0.2 * np.sin(d["yaw"]), d["y"] - 0.2 * np.cos(d["yaw"])
    course = course_from_waypoints("beside", x[30:], y[30:], closed=False)
    found = sim_to_real.along(recording, course)
    assert np.median(found.cross_track_m) == pytest.approx(0.2, abs=0.02)
    assert found.mean_m == pytest.approx(0.2, abs=0.03)
    assert np.all(np.diff(found.s_m) > 0.0)
    assert np.ptp(found.steering) > 0.5
    half = found.at_places("speed_mps", np.array([5.0, 1e4]))
    assert half[0] == pytest.approx(1.0, abs=0.1)
    assert np.isnan(half[1])


@pytest.mark.parametrize("figure", sim_to_real.FIGURES)
def test_each_figure_is_drawn(figure: str, tmp_path: Path) -> None:
    s = np.linspace(0.0, 2.0 * pi * 5.0, 200)
    ring = np.array([(5.0 * sin(each / 5.0), 5.0 - 5.0 * cos(each / 5.0)) for each in s])
    course = course_from_waypoints("ring", ring[:-1, 0], ring[:-1, 1], closed=True)
    drive = sim_to_real.ShownDrive(
        "run",
        s,
        0.1 * np.sin(s),
        ring[:, 0],
        ring[:, 1],
        1.0 + 0.0 * s,
        0.5 + 0.0 * s,
        0.1 + 0.0 * s,
    )
    file = tmp_path / "figure.png"
    sim_to_real.draw(figure, {"simulated": [drive, drive], "real": [drive]}, course, file)
    assert file.read_bytes().startswith(b"\x89PNG")
