"""Whole drives in lockstep: daemon and simulator as two processes, as ``make sim`` runs them."""

import gc
import math
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from sim_backend.connection import START_NS
from tests.closed_loop.conftest import command
from tests.grid import sampled
from vehicled.cli import main
from vehicled.core.messages import GroundTruth, Message
from vehicled.log.reader import LogReader
from vehicled.offline.failsafe.bench import WrappedPair
from vehicled.paths.catalog import load_course
from vehicled.paths.course import Course
from vehicled.paths.tracking import PathTracker
from vehicled.profile import load_profile
from vehicled.runtime import realtime

Drive = Callable[..., tuple[int, dict[str, Any], str]]


@pytest.mark.parametrize(
    ("course", "length_m"),
    sampled([("lot17", 205.0), ("circle_r2_ccw", 12.0)], lambda case: case[1] < 20.0),
)
def test_the_lap_finishes_within_its_tolerance(drive: Drive, course: str, length_m: float) -> None:
    status, result, _ = drive("--course", course, "--seed", "7", "--quiet")
    assert status == 0
    assert result["finished"]
    assert result["driven_m"] > length_m
    assert result["cross_track_m"]["mean"] < 0.10
    assert result["estimate_position_m"]["mean"] < 0.05
    assert all(task["misses"] == task["skips"] == 0 for task in result["tasks"])


def test_what_was_learnt_and_a_drive_that_did_not_begin_are_reported_and_drawn(
    tmp_path: Path,
) -> None:
    picture = tmp_path / "drive.svg"
    options = ["--identifier", "single_track", "--no-log", "--quiet", "--plot", str(picture)]
    for more, row, title in (
        (["--duration", "6"], "  identified           gain 0.", "mean cross-track error 0."),
        (["--duration", "0.5"], "not available", "art on lot17, seed 1: "),
    ):
        _, out, said = command("sim", *options, *more)
        assert row in out, said
        text = picture.read_text()
        assert title in text
        assert "nan m" not in text


def test_a_program_that_has_frozen_its_objects_finds_them_so_after_a_drive() -> None:
    """A drive freezes and thaws only where it is the program."""
    before = gc.get_freeze_count()
    assert before > realtime.FROZEN_AT_START
    command("sim", "--duration", "0.5", "--no-log", "--quiet")
    # Some of them are gone, as any object that nothing refers to.
    assert gc.get_freeze_count() > before / 2


class CrossTrackRecorder:
    """Journal listener that keeps the cross-track errors of the true vehicle while it drives."""

    def __init__(self, course: Course) -> None:
        self._tracker = PathTracker(course)
        self.cross_track_m: list[float] = []

    def record(self, message: Message, log_time_ns: int) -> None:
        """See :class:`vehicled.core.journal.Sink`."""
        if isinstance(message, GroundTruth):
            point = self._tracker.update(
                message.x_m, message.y_m, message.yaw_rad, message.speed_mps
            )
            self.cross_track_m.append(abs(point.cross_track_m))


@pytest.mark.soak
@pytest.mark.parametrize("name", ["circle_r5_ccw", "figure_eight"])
def test_other_courses_finish(name: str) -> None:
    course = load_course(name)
    recorder = CrossTrackRecorder(course)
    pair = WrappedPair(load_profile("art"), course, [], recorder, 0, link="messages")
    machine, end_ns = pair.machine, START_NS + 300 * 10**9
    while not machine.over(pair.now_ns) and pair.now_ns < end_ns:
        pair.grant()
        pair.reply()
    assert machine.course_driven, machine.why
    assert fmean(recorder.cross_track_m) < 0.15


def test_same_seed_same_digest_with_and_without_a_log(drive: Drive) -> None:
    options = ("--course", "circle_r5_ccw", "--duration", "2", "--quiet")
    first = drive(*options, "--seed", "3")[1]
    unlogged = drive(*options, "--seed", "3", "--no-log")[1]
    other = drive(*options, "--seed", "4")[1]
    assert first["frames"] > 100
    assert first["digest"] == unlogged["digest"]
    assert first["digest"] != other["digest"]
    assert first["log"]
    assert not unlogged["log"]


def test_a_rate_can_be_overridden(drive: Drive) -> None:
    _, result, _ = drive(
        "--course",
        "circle_r5_ccw",
        "--duration",
        "3",
        "--set",
        "tasks.control.rate_hz=60",
        "--quiet",
    )
    releases = {task["name"]: task["releases"] for task in result["tasks"]}
    assert releases["control"] == pytest.approx(60 * result["run_s"], abs=2)
    assert releases["actuation"] == pytest.approx(100 * result["run_s"], abs=2)


def test_declared_overload_is_seen_and_attributed(drive: Drive) -> None:
    _, result, said = drive(
        "--duration",
        "4",
        "--set",
        "tasks.fusion.declared_us=4500",
        "--set",
        "tasks.fusion.deadline_ms=4",
        "--quiet",
    )
    fusion = next(task for task in result["tasks"] if task["name"] == "fusion")
    assert fusion["misses"] > 500
    assert set(fusion["causes"]) == {"declared"}
    assert "deadlines in a row" in said, "the vehicle is slowed and says why"


def test_a_vehicle_that_cannot_follow_is_stopped_and_says_why(drive: Drive) -> None:
    # The twin hardly steers, so the first bends carry it out of the corridor.
    status, result, _ = drive(
        "--set", "sim.steering.gain_rad=0.02", "--set", "limits.corridor_m=0.5", "--quiet"
    )
    assert status == 1
    assert not result["finished"]
    assert "beside its wheel angles" in result["why"]


def test_a_twin_without_gnss_never_arms(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vehicled.cli.sim.START_TIMEOUT_S", 12.0)
    status, result, _ = drive(
        "--set",
        "devices.gnss.rate_hz=10",
        "--set",
        "sim.gnss.latency_ms=60000",
        "--quiet",
        "--no-log",
    )
    assert status == 1
    assert "gnss is silent" in result["why"]


@pytest.mark.parametrize("again", sampled([False, True], lambda again: not again))
def test_a_path_is_driven_recorded_and_driven_again(
    drive: Drive, tmp_path: Path, capsys: pytest.CaptureFixture[str], again: bool
) -> None:
    """Forward and backward, in lockstep."""

    def sim(course: str) -> dict[str, Any]:
        status, result, said = drive("--profile", "art_vesc", "--course", course, "--quiet")
        assert status == 0, said
        return result

    first = sim("parallel_parking")
    course = tmp_path / "driven.csv"
    assert main(["record-path", first["log"], "-o", str(course)]) == 0
    assert "2 change(s) of direction" in capsys.readouterr().out
    if not again:
        assert len(load_course(str(course)).cusps) == 2
        return
    second = sim(str(course))
    assert second["finished"]
    assert second["cross_track_m"]["mean"] < 0.02
    assert second["cross_track_m"]["max"] < 0.06
    ends = []
    for result in (first, second):
        with LogReader(result["log"]) as log:
            ends.append([record.message for record in log.messages(GroundTruth)][-1])
    assert math.hypot(ends[0].x_m - ends[1].x_m, ends[0].y_m - ends[1].y_m) < 0.1
    assert abs(math.remainder(ends[0].yaw_rad - ends[1].yaw_rad, math.tau)) < 0.1
