"""A computer that stalls in a simulation on the wall clock: the simulated clock stands still, and
the drive goes on."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.busy_computer import WIDE_LIMITS
from tests.closed_loop.conftest import Daemon
from tests.grid import sampled
from vehicled.core.messages import Event
from vehicled.log.reader import LogReader

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/task").exists(), reason="finds the simulator's process through /proc"
)

Start = Callable[..., Daemon]


def stall(pid: int) -> None:
    """Keep a process off the processor, as another program would."""
    os.kill(pid, signal.SIGSTOP)
    time.sleep(0.4)
    os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("link", sampled(["messages", "wires"], lambda link: link == "messages"))
def test_a_stall_of_either_process_slows_the_clock_and_does_not_end_the_drive(
    start: Start, link: str
) -> None:
    daemon = start("--clock", "wall", "--link", link, "--profile", "art_vesc", watched=True)
    daemon.wait_until_driving()
    stall(daemon.simulator_pid())
    daemon.wait_for("this computer stalled: the simulator did not run for")
    stall(daemon.process.pid)
    daemon.wait_for("this computer stalled: the daemon did not run for")
    os.kill(daemon.process.pid, signal.SIGINT)
    status, result, said = daemon.end()
    assert status == 130
    assert result["why"] == "stopped by Ctrl-C; the vehicle stands", said
    stalls = result["stalls"]
    assert stalls["count"] >= 2
    assert stalls["lost_ns"] > 0.6e9
    assert stalls["longest_ns"] > 0.35e9
    with LogReader(daemon.log()) as log:
        events = [entry.message for entry in log.messages(Event)]
        assert log.end["stalls"].startswith("this computer stalled ")
    stalls = [json.loads(event.fields) for event in events if event.name == "simulation_stall"]
    assert {fields["process"] for fields in stalls} >= {"simulator", "daemon"}


def test_with_a_strict_clock_a_stall_of_the_simulator_is_a_sensor_that_fell_silent(
    start: Start,
) -> None:
    daemon = start(
        "--clock",
        "wall",
        "--strict-clock",
        *WIDE_LIMITS,
        "--set",
        "limits.imu_silence_s=1",
        "--link-timeout",
        "60",
        watched=True,
    )
    daemon.wait_until_driving()
    pid = daemon.simulator_pid()
    os.kill(pid, signal.SIGSTOP)
    daemon.wait_for("no IMU sample for")
    os.kill(pid, signal.SIGCONT)
    _, result, _ = daemon.end()
    assert "no IMU sample for" in result["why"]
    assert result["stalls"] is None


@pytest.mark.soak
def test_a_simulator_that_hangs_ends_the_run_braked(start: Start) -> None:
    daemon = start("--clock", "wall", "--link-timeout", "0.7", watched=True)
    daemon.wait_until_driving()
    os.kill(daemon.simulator_pid(), signal.SIGSTOP)
    status, result, _ = daemon.end()
    assert status == 1
    assert "the simulator has been silent" in result["why"]
    assert "the brake was commanded" in result["why"]
