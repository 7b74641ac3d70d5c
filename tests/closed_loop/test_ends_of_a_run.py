"""Ends of runs: finished, interrupted, crashed or killed."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from mcap.exceptions import McapError
from mcap.reader import make_reader
from mcap.records import Statistics

from tests.busy_computer import DEADLINE_S, WIDE_LIMITS, wait_until
from tests.closed_loop.conftest import ROOT, Daemon
from tests.grid import sampled

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/task").exists(), reason="finds the simulator's process through /proc"
)

Start = Callable[..., Daemon]

PATIENT = ("--clock", "wall", "--link-timeout", "60", *WIDE_LIMITS)


def wait_until_gone(pid: int) -> None:
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), lambda: f"process {pid} still runs")


@pytest.mark.parametrize("clock", ["wall", "lockstep"])
def test_a_killed_simulator_ends_the_run_with_the_brake(start: Start, clock: str) -> None:
    daemon = start(*PATIENT, "--clock", clock, "--laps", "20", watched=True)
    daemon.wait_until_driving()
    os.kill(daemon.simulator_pid(), signal.SIGKILL)
    status, result, _ = daemon.end()
    assert status == 1
    assert "the simulator is gone" in result["why"]
    assert "the brake was commanded" in result["why"]


@pytest.mark.parametrize("clock", sampled(["wall", "lockstep"], lambda clock: clock == "wall"))
def test_a_stopped_simulator_ends_the_run_with_the_brake_and_is_removed(
    start: Start, clock: str
) -> None:
    daemon = start(*PATIENT, "--clock", clock, "--laps", "20", "--link-timeout", "2", watched=True)
    daemon.wait_until_driving()
    pid = daemon.simulator_pid()
    os.kill(pid, signal.SIGSTOP)
    status, result, _ = daemon.end()
    assert status == 1
    assert "silent" in result["why"]
    wait_until_gone(pid)


def test_a_terminal_that_is_closed_stops_the_vehicle(start: Start) -> None:
    daemon = start(*PATIENT, watched=True)
    daemon.wait_until_driving()
    # The shell signals every process in the terminal, and when it has ended the system does.
    everybody = daemon.process.pid, daemon.simulator_pid()
    for _ in range(2):
        for pid in everybody:
            with suppress(ProcessLookupError):  # it has ended already
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
    daemon = start(*PATIENT, "--clock", clock, "--laps", "20", watched=True)
    daemon.wait_until_driving()
    pid = daemon.simulator_pid()
    os.kill(daemon.process.pid, signal.SIGINT)
    status, result, _ = daemon.end()
    assert status == 130
    assert "Ctrl-C" in result["why"]
    assert "stands" in result["why"]
    wait_until_gone(pid)


def test_ctrl_c_twice_does_not_wait_for_the_vehicle(start: Start) -> None:
    daemon = start(*PATIENT, watched=True)
    daemon.wait_until_driving(speed_mps=0.7)  # so that it takes more than a moment to stand
    os.kill(daemon.process.pid, signal.SIGINT)
    state = Path(f"/proc/{daemon.process.pid}/status")
    # Two signals that wait together are one.
    wait_until(
        lambda: (
            not int(re.findall(r"ShdPnd:\s*(\w+)", state.read_text())[0], 16)
            & 1 << (signal.SIGINT - 1)
        ),
        every_s=0.002,
    )
    time.sleep(0.02)
    os.kill(daemon.process.pid, signal.SIGINT)
    status, result, _ = daemon.end()
    assert status == 130
    assert "twice" in result["why"]


def test_a_killed_daemon_leaves_a_readable_log_and_no_simulator(start: Start) -> None:
    daemon = start(*PATIENT, watched=True)
    daemon.wait_until_driving(speed_mps=0.3)
    pid = daemon.simulator_pid()
    daemon.process.kill()
    daemon.process.wait()
    wait_until_gone(pid)
    found: list[Statistics] = []

    def finished() -> bool:
        with daemon.log().open("rb") as stream, suppress(McapError):
            summary = make_reader(stream).get_summary()
            found.extend(
                [summary.statistics]
                if summary is not None and summary.statistics is not None
                else []
            )
        return bool(found)

    wait_until(finished, lambda: "the writer does not finish the file by itself")
    shown_s = max(float(time_s) for time_s in re.findall(r"t = +([\d.]+) s", daemon.shown()))
    logged_s = (found[0].message_end_time - found[0].message_start_time) * 1e-9
    assert logged_s > shown_s - 0.6, "lost more than the last half second"


def test_wall_time_runs_on_the_other_backend(start: Start) -> None:
    status, result, said = start(*PATIENT, "--async-backend", "trio", "--duration", "2.2").end()
    assert status == 1, said
    assert "time limit" in result["why"]
    assert result["driven_m"] > 0.2
    assert result["cross_track_m"]["mean"] < 0.1


def test_a_simulator_of_another_world_is_refused(start: Start, tmp_path: Path) -> None:
    address = f"unix:{tmp_path / 'link'}"
    simulator = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "vehicled",
            "simulator",
            "--listen",
            address,
            "--course",
            "straight_20m",
        ],
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
        [
            sys.executable,
            "-m",
            "vehicled",
            "simulator",
            "--listen",
            f"tcp:127.0.0.1:{port}",
            "--course",
            "circle_r5_ccw",
        ],
        cwd=ROOT,
    )
    try:
        options = (
            *PATIENT,
            "--connect",
            f"tcp:127.0.0.1:{port}",
            "--connect-timeout",
            f"{DEADLINE_S}",
            "--course",
            "circle_r5_ccw",
            "--clock",
            clock,
            "--duration",
            "3",
        )
        _, result, said = start(*options).end()
        assert "Traceback" not in said
        assert "time limit" in result["why"]
        assert result["driven_m"] > 0.5
        assert simulator.wait(DEADLINE_S) == 0
    finally:
        simulator.kill()
        simulator.wait()


def test_drives_in_wall_time_share_a_worker(request: pytest.FixtureRequest) -> None:
    """Versions of pytest and pytest-xdist that do not fit each other drop the groups without a
    word."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        pytest.skip("needs workers: pytest -n 2 --dist loadgroup")
    assert request.node.nodeid.endswith("@wall")
