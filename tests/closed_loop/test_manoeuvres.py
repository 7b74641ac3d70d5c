"""Drives by a programme, the path of one tracked, and courses with lanes: whole runs in
lockstep."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.grid import sampled
from vehicled.cli import main
from vehicled.core.messages import ControlCommand, Fault
from vehicled.log.reader import LogReader

Drive = Callable[..., tuple[int, dict[str, Any], str]]
WEAVE = """# entry_speed_mps: 1.0
# settle_s: 0.2
t_s,speed_mps,throttle,brake,wheel_angle_rad
0,1.0,,,0
1,1.0,,,0.2
2,1.0,,,0.2
3.5,1.0,,,-0.2
4,,0,0,0.1
5,,0,0.2,0.1
"""


@pytest.mark.parametrize(
    ("profile", "controller", "bound_m"),
    sampled(
        [("art", "mpc", 0.05), ("f1tenth", "pure_pursuit", 0.25)], lambda case: case[0] == "art"
    ),
)
def test_a_programme_is_driven_recorded_and_tracked(
    profile: str,
    controller: str,
    bound_m: float,
    drive: Drive,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    programme = tmp_path / "weave.csv"
    programme.write_text(WEAVE)
    # A corridor of its course would end it at once: it bends away from the line.
    status, result, said = drive(
        "--profile",
        profile,
        "--programme",
        str(programme),
        "--quiet",
        "--set",
        "limits.corridor_m=0.6",
    )
    assert status == 0, said
    assert result["finished"]
    assert result["programme"] == "weave"
    assert result["why"] == "the programme is finished"
    assert result["motion"]["driven_m"] > 4.0
    assert result["motion"]["top_speed_mps"] == pytest.approx(1.0, abs=0.35)
    assert result["motion"]["peak_yaw_rate_radps"] > 0.2
    programme.unlink()
    log = result["log"]
    with LogReader(log) as reader:
        assert b"0.2" in reader.attachment("profile.toml")
        faults = [record.message for record in reader.messages(Fault)]
        commands = [record.message for record in reader.messages(ControlCommand)]
    assert not any(fault.code == "corridor_left" for fault in faults)
    assert max(command.wheel_angle_rad for command in commands) == pytest.approx(0.2, abs=0.005)
    # The log alone gives the same commands again.
    if profile == "art":
        assert main(["replay", log]) == 0
    course = tmp_path / "driven.csv"
    assert main(["record-path", log, "-o", str(course)]) == 0
    capsys.readouterr()
    status, result, said = drive(
        "--profile", profile, "--course", str(course), "--controller", controller, "--quiet"
    )
    assert status == 0, said
    assert result["cross_track_m"]["mean"] < bound_m


def test_lanes_decide_over_the_exit_status(
    drive: Drive, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ("--profile", "art_published", "--no-log", "--quiet", "--course")
    status, result, _ = drive(*run, "iso_3888_1_tenth:speed_mps=1.5,scale=0.15,run_up_m=3")
    assert (status, result["markings"][:6]) == (0, "passed"), result["markings"]
    assert result["section"]["speed_mean_mps"] == pytest.approx(1.5, abs=0.3)
    # Lanes for a vehicle that is narrower than this one.
    assert main(["sim", *run, "iso_3888_1_tenth:speed_mps=1.5,width_m=0.1,run_up_m=3"]) == 1
    table = capsys.readouterr().out
    assert "lane A left by" in table
    assert "NOT passed: the course is finished" in table


def test_a_programme_that_cannot_be_driven_ends_before_the_drive(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text("t_s,throttle\n0,0.1\n1,2\n")
    for arguments, said in (
        (["--programme", str(bad)], "bad.csv, line 3, column throttle: 2 is outside -1 to 1"),
        (["--programme", "step_steer", "--controller", "mpc"], "leave out --controller"),
        (["--controller", "programme"], "give --programme"),
    ):
        assert main(["sim", "--no-log", *arguments]) == 2
        assert said in capsys.readouterr().err
