"""Ends of runs: finished, interrupted, crashed or killed."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from mcap.exceptions import McapError
from mcap.reader import make_reader

from tests.closed_loop.conftest import ROOT, Daemon
from tests.grid import sampled

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the simulator's process through /proc")

Start = Callable[..., Daemon]

# These tests are about ends of runs; a machine that stalls for a while must not add one of its own.
LIMITS = ("imu_silence_s=1", "estimate_silence_s=1", "loop_silence_s=1")
PATIENT = ("--clock", "wall", *(word for limit in LIMITS for word in ("--set", f"limits.{limit}")))


def gone(pid: int, within_s: float = 5.0) -> bool:
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        if not Path(f"/proc/{pid}").exists():
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("clock", ["wall", "lockstep"])
def test_a_killed_simulator_ends_the_run_with_the_brake(start: Start, clock: str) -> None:
    daemon = start(*PATIENT, "--clock", clock, watched=True)
    daemon.wait_until_driving()
    os.kill(daemon.simulator_pid(), signal.SIGKILL)
    status, result, _ = daemon.end()
    assert status == 1
    assert "the simulator is gone" in result["why"]
    assert "the brake was commanded" in result["why"]


@pytest.mark.parametrize("clock", sampled(["wall", "lockstep"], lambda clock: clock == "wall"))
def test_a_stopped_simulator_ends_the_run_with_the_brake_and_is_removed(start: Start, clock: str) -> None:
    daemon = start(*PATIENT, "--clock", clock, "--link-timeout", "0.6", watched=True)
    daemon.wait_until_driving()
    pid = daemon.simulator_pid()
    os.kill(pid, signal.SIGSTOP)
    status, result, _ = daemon.end()
    assert status == 1
    assert "silent" in result["why"]
    assert gone(pid)


def test_a_terminal_that_is_closed_stops_the_vehicle(start: Start) -> None:
    daemon = start(*PATIENT, watched=True)
    daemon.wait_until_driving()
    # The shell tells everybody in the terminal, and when it has ended the system does.
    everybody = daemon.process.pid, daemon.simulator_pid()
    for _ in range(2):
        for pid in everybody:
            os.kill(pid, signal.SIGHUP)
        time.sleep(0.01)
    status, result, _ = daemon.end()
    assert status == 130
    assert "SIGHUP; the vehicle stands" in result["why"]


def test_under_nohup_a_terminal_that_is_closed_is_no_news(start: Start) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        daemon = start(*PATIENT, watched=True)
    finally:
        signal.signal(signal.SIGHUP, before)
    daemon.wait_until_driving()
    os.kill(daemon.process.pid, signal.SIGHUP)
    time.sleep(0.2)
    os.kill(daemon.process.pid, signal.SIGINT)
    _, result, _ = daemon.end()
    assert "stopped by Ctrl-C" in result["why"]


@pytest.mark.parametrize("clock", sampled(["wall", "lockstep"], lambda clock: clock == "lockstep"))
def test_ctrl_c_stops_the_vehicle_and_leaves_nothing_behind(start: Start, clock: str) -> None:
    daemon = start(*PATIENT, "--clock", clock, watched=True)
    daemon.wait_until_driving()
    pid = daemon.simulator_pid()
    os.kill(daemon.process.pid, signal.SIGINT)
    status, result, _ = daemon.end()
    assert status == 130
    assert "Ctrl-C" in result["why"]
    assert "stands" in result["why"]
    assert gone(pid)


def test_ctrl_c_twice_does_not_wait_for_the_vehicle(start: Start) -> None:
    daemon = start(*PATIENT, watched=True)
    daemon.wait_until_driving()
    time.sleep(1.0)  # under way, so that it takes more than a moment to stand
    os.kill(daemon.process.pid, signal.SIGINT)
    time.sleep(0.05)
    os.kill(daemon.process.pid, signal.SIGINT)
    status, result, _ = daemon.end()
    assert status == 130
    assert "twice" in result["why"]


def test_a_killed_daemon_leaves_a_readable_log_and_no_simulator(start: Start) -> None:
    daemon = start(*PATIENT, watched=True)
    daemon.wait_until_driving()
    pid = daemon.simulator_pid()
    time.sleep(0.5)
    killed_ns = time.time_ns()
    daemon.process.kill()
    daemon.process.wait()
    assert gone(pid)
    summary, until = None, time.monotonic() + 10.0
    while summary is None and time.monotonic() < until:
        time.sleep(0.1)
        with daemon.log().open("rb") as stream, suppress(McapError):
            summary = make_reader(stream).get_summary()
    assert summary is not None, "the writer has finished the file by itself"
    assert summary.statistics is not None
    assert killed_ns - summary.statistics.message_end_time < 1_000_000_000


def test_wall_time_runs_on_the_other_backend(start: Start) -> None:
    status, result, said = start(*PATIENT, "--async-backend", "trio", "--duration", "2.2").end()
    assert status == 1, said
    assert "time limit" in result["why"]
    assert result["driven_m"] > 0.2
    assert result["cross_track_m"]["mean"] < 0.1


def test_a_simulator_of_another_world_is_refused(start: Start, tmp_path: Path) -> None:
    address = f"unix:{tmp_path / 'link'}"
    simulator = subprocess.Popen(
        [sys.executable, "-m", "vehicled", "simulator", "--listen", address, "--course", "straight_20m"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
    )
    try:
        assert simulator.stdout is not None
        assert b"listening" in simulator.stdout.readline()
        status, _, said = start("--connect", address, "--course", "circle_r5_ccw").end()
        assert status == 2
        assert "straight_20m" in said
    finally:
        simulator.kill()
        simulator.communicate()


@pytest.mark.soak  # make test: test_two_hosts.py drives over TCP
@pytest.mark.parametrize("clock", ["wall", "lockstep"])
def test_a_simulator_on_another_machine(start: Start, clock: str) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    simulator = subprocess.Popen(
        [sys.executable, "-m", "vehicled", "simulator", "--listen", f"tcp:127.0.0.1:{port}", "--course", "circle_r5_ccw"], cwd=ROOT
    )
    try:
        status = 2
        result: dict[str, Any] = {}
        end = time.monotonic() + 20
        # The simulator needs a moment before it listens; until then the daemon says that nobody answers.
        while status == 2 and time.monotonic() < end:
            options = (
                *PATIENT,
                "--connect",
                f"tcp:127.0.0.1:{port}",
                "--course",
                "circle_r5_ccw",
                "--clock",
                clock,
                "--duration",
                "3",
            )
            status, result, said = start(*options).end()
            assert "Traceback" not in said
        assert "time limit" in result["why"]
        assert result["driven_m"] > 0.5
        assert simulator.wait(5) == 0
    finally:
        simulator.kill()
        simulator.wait()


def test_drives_in_wall_time_share_a_worker(request: pytest.FixtureRequest) -> None:
    """Versions of pytest and pytest-xdist that do not fit each other drop the groups without a word."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        pytest.skip("needs workers: pytest -n 2 --dist loadgroup")
    assert request.node.nodeid.endswith("@wall")
