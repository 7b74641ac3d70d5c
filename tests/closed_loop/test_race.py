"""``vehicled race``: the line is driven in the simulator, within walls that can be touched."""

import json
from math import cos, pi, sin
from pathlib import Path

import numpy as np
import pytest

from vehicled.cli import main
from vehicled.core.messages import GroundTruth
from vehicled.offline.race.drive import SlipCounter, flying_lap_s
from vehicled.paths.catalog import load_course

HEAD = "# x_m, y_m, w_tr_right_m, w_tr_left_m\n"


def ring(path: Path, radius_m: float = 2.5, width_m: float = 1.6) -> Path:
    path.write_text(
        HEAD
        + "".join(
            f"{radius_m * cos(a):.4f}, {radius_m * sin(a):.4f}, {width_m / 2}, {width_m / 2}\n"
            for a in (2.0 * pi * k / 48 for k in range(48))
        )
    )
    return path


def test_a_line_is_driven_and_can_be_driven_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    track = ring(tmp_path / "ring.csv")
    asked = ["race", str(track), "--controllers", "pure_pursuit", "--line", "curvature", "--json"]
    asked += ["--use", "0.6", "--margin", "0.3"]
    assert main([*asked, "--plot", "race.png", "--jobs", "1"]) == 0
    found = json.loads(capsys.readouterr().out)
    (lap,) = found["laps"]
    assert lap["finished"]
    assert lap["contacts"] == 0
    assert 0.95 < lap["ratio"] < 1.6
    assert lap["ratio"] == pytest.approx(lap["lap_s"] / found["ideal_s"])
    assert lap["cross_track_max_m"] < 0.5
    assert Path("race.png").stat().st_size > 10_000
    course = load_course("race_ring.csv")
    assert course.closed
    assert course.length_m == pytest.approx(found["line_m"], rel=2e-3)
    assert float(course.speed_mps.max()) == pytest.approx(found["fastest_mps"], rel=1e-2)
    # The same once more: the file that the command wrote is replaced, and the drive repeats.
    assert main([*asked, "--jobs", "1"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["laps"][0]["digest"] == lap["digest"]
    again_by_hand = ["sim", "--profile", "f1tenth", "--course", "race_ring.csv"]
    assert main([*again_by_hand, "--scene", "race_ring.toml", "--no-log", "--quiet"]) == 0


def test_files_of_others_are_not_replaced_and_mistakes_cost_no_drive(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    track = str(ring(tmp_path / "ring.csv"))
    Path("race_ring.csv").write_text("mine")
    assert main(["race", track]) == 2
    assert "exists already and is no race line" in capsys.readouterr().err
    assert Path("race_ring.csv").read_text() == "mine"
    for words, text in (
        (["--controllers", "pure_persuit"], "no controller 'pure_persuit'"),
        (["-o", "line.txt"], "ends in .csv"),
        (["--set", "vehicle.width_m=1.5"], "the track is 1.60 m wide"),
        (["--margin", "2"], "at most 0.64 m: give --margin"),
        (["--plot", "race.doc"], "must end in .png"),
    ):
        given = words if "-o" in words else [*words, "-o", "line.csv"]
        assert main(["race", track, *given]) == 2
        assert text in capsys.readouterr().err
    assert not Path("line.csv").exists()
    assert main(["race", "nowhere", "-o", "line.csv"]) == 2
    assert 'no track "nowhere"' in capsys.readouterr().err


def test_a_line_without_drives_needs_no_simulator(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    track = str(ring(tmp_path / "ring.csv"))
    assert main(["race", track, "--controllers", "none", "--reverse"]) == 0
    shown = capsys.readouterr().out
    assert "clockwise" in shown
    assert "flying laps" not in shown
    course = load_course("race_ring.csv")
    assert float(np.median(course.curvature_per_m)) < 0.0


def test_the_flying_lap_is_timed_from_the_middle_of_the_first_lap() -> None:
    n, length = 100, 2.0 * pi * 5.0
    angle = np.arange(n) * 2.0 * pi / n
    t = np.arange(0.0, 80.0, 0.05)
    # A slow first half lap, then one lap in ten seconds.
    driven = np.where(t < 20.0, 0.5 * t / 20.0, 0.5 + (t - 20.0) / 10.0)
    x, y = 5.1 * np.cos(2.0 * pi * driven), 5.1 * np.sin(2.0 * pi * driven)
    line = (5.0 * np.cos(angle)).tolist(), (5.0 * np.sin(angle)).tolist()
    assert flying_lap_s(t, x, y, *line, length) == pytest.approx(10.0, abs=0.05)
    stopped = t < 25.0
    assert np.isnan(flying_lap_s(t[stopped], x[stopped], y[stopped], *line, length))
    assert np.isnan(flying_lap_s(t[:0], x[:0], y[:0], *line, length))


def test_a_slip_is_counted_once_while_it_lasts() -> None:
    slips = SlipCounter(0.33)

    def drive(angle_rad: float, first: int, count: int) -> None:
        for k in range(first, first + count):
            s = 3.0 * k * 0.01
            slips.record(
                GroundTruth(
                    t_ns=k * 10_000_000,
                    t_rx_ns=k * 10_000_000,
                    x_m=s * cos(angle_rad),
                    y_m=s * sin(angle_rad),
                    yaw_rad=0.0,
                    speed_mps=3.0,
                    yaw_rate_radps=0.0,
                    wheel_angle_rad=0.0,
                ),
                k,
            )

    drive(0.05, 0, 30)
    assert slips.count == 0
    slips = SlipCounter(0.33)
    drive(0.3, 0, 30)
    assert slips.count == 1
