"""Drives with added latency and with the task times of a recorded computer: reproducible, logged,
and replayed bit for bit."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import bursty
from tests.closed_loop.conftest import ROOT
from tests.grid import sampled
from vehicled.core.messages import Cause, StateEstimate, TaskTick
from vehicled.log.reader import LogReader
from vehicled.log.schema import BOARD_NAME
from vehicled.offline.replay.drive import IDENTICAL, Replay
from vehicled.offline.replay.journal import Journal
from vehicled.profile import load_profile
from vehicled.run.plan import Plan
from vehicled.run.spec import RunSpec
from vehicled.run.stepwise import Stepwise
from vehicled.runtime.board.recording import read

Drive = Callable[..., tuple[int, dict[str, Any], str]]
SHORT = ("--course", "circle_r5_ccw", "--duration", "2.5", "--quiet")


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("board") / "board.json"
    file.write_text(bursty.recording(seconds=6.0).to_text())
    return file


def replayed(log: str) -> str:
    with Journal(log) as journal:
        result = Replay(journal).run()
    return (
        f"{result.verdict}: {result.first.to_text()}"
        if result.first is not None
        else str(result.verdict)
    )


@pytest.mark.parametrize("link", sampled(["messages", "wires"], lambda link: link == "wires"))
def test_a_recorded_computer_misses_the_same_deadlines_again(
    drive: Drive, board: Path, link: str
) -> None:
    options = (*SHORT, "--link", link, "--board", str(board))
    first, again = (drive(*options, "--seed", "3")[1] for _ in range(2))
    assert first["digest"] == again["digest"]
    misses = {task["name"]: task["misses"] + task["skips"] for task in first["tasks"]}
    assert misses["ingestion"] > 10
    with LogReader(first["log"]) as log:
        assert log.header.board == "a small board, Linux, other, measured 2026-01-01T00:00:00Z"
        assert log.attachment(BOARD_NAME) == board.read_bytes()
        causes = {
            record.message.cause for record in log.messages(TaskTick) if record.message.missed
        }
    assert Cause.WAKE_UP in causes
    assert Cause.UNKNOWN not in causes
    assert Cause.DECLARED not in causes
    assert replayed(first["log"]) == IDENTICAL


@pytest.mark.parametrize("link", sampled(["messages", "wires"], lambda link: link == "messages"))
def test_latency_is_logged_ages_the_data_and_replays(drive: Drive, link: str) -> None:
    def age_ms(log: str) -> float:
        """Mean age of the newest measurement in the estimate."""
        with LogReader(log) as reader:
            ages = [
                record.message.t_ns - record.message.newest_input_ns
                for record in reader.messages(StateEstimate)
            ]
        return sum(ages[100:]) / len(ages[100:]) / 1e6

    options = (*SHORT, "--link", link, "--seed", "3")
    plain = drive(*options)[1]
    late = drive(*options, "--latency", "sensing=20ms,actuation=5..15ms")[1]
    assert late["digest"] != plain["digest"]
    # On wires a device's clock is mapped to ours by the arrivals, which cannot separate a constant
    # latency from an offset.
    added_ms = 20.0 if link == "messages" else 0.0
    assert age_ms(late["log"]) - age_ms(plain["log"]) == pytest.approx(added_ms, abs=2.5)
    with LogReader(late["log"]) as log:
        assert log.header.latency == "sensing=20ms,actuation=5..15ms"
    assert replayed(late["log"]) == IDENTICAL


def test_a_simulation_in_this_process_has_the_digest_of_the_command(
    drive: Drive, board: Path
) -> None:
    short = "straight_run:length_m=1,run_up_m=1,run_out_m=1"
    result = drive(
        "--course",
        short,
        "--seed",
        "3",
        "--no-log",
        "--quiet",
        "--board",
        str(board),
        "--latency",
        "5..9ms",
    )[1]
    spec = RunSpec(
        profile="art", course=short, seed=3, board=str(board), latency="5..9ms", log_folder=None
    )
    stepped = Stepwise(Plan.of(spec))
    while not stepped.observe().over:
        stepped.step(until_s=stepped.observe().time_s + 1.0)
    assert stepped.digest == result["digest"]


@pytest.mark.xdist_group("wall")
def test_this_computer_is_measured_and_replayed(drive: Drive, tmp_path: Path) -> None:
    file = tmp_path / "here.json"
    command = [
        sys.executable,
        "-m",
        "vehicled",
        "doctor",
        "--measure-board",
        str(file),
        "--duration",
        "1",
    ]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "missed or skipped" in done.stdout
    recording, _ = read(file, load_profile("art").tasks)
    assert 0.0 < recording.duration_s <= 1.0
    # A busy computer wakes the vehicle's tasks too rarely to finish a drive; how it drives, it must
    # drive again.
    first, again = (drive(*SHORT, "--no-log", "--board", str(file))[1] for _ in range(2))
    assert first["frames"] > 0
    assert first["digest"] == again["digest"]
