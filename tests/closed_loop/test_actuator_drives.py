"""Drives of vehicles with other actuators, and with several, on wires: in lockstep, in wall time,
and while one of them is lost."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.closed_loop.conftest import Daemon, wide_limits
from tests.grid import sampled
from vehicled.core.messages import ActuatorStatus, PortEvent, PortState
from vehicled.log.reader import LogReader
from vehicled.profile import load_profile

Drive = Callable[..., tuple[int, dict[str, Any], str]]
Start = Callable[..., Daemon]
FOLDER = Path(__file__).parent / "actuators"
PROFILES = sorted(path.stem for path in FOLDER.glob("*.toml"))
CIRCLE = ("--course", "circle_r5_ccw", "--link", "wires", "--quiet", "--no-log")


def file(name: str) -> str:
    return str(FOLDER / f"{name}.toml")


def acting(name: str) -> list[str]:
    devices = load_profile(file(name)).devices
    return [port for port, table in devices.items() if table.capabilities is not None]


@pytest.mark.parametrize("name", PROFILES)
def test_a_course_is_followed_on_wires(drive: Drive, name: str) -> None:
    _, result, said = drive("--profile", file(name), *CIRCLE, "--duration", "6")
    assert "time limit" in result["why"], said
    assert result["driven_m"] > 2.0
    assert result["cross_track_m"]["mean"] < 0.06
    assert result["estimate_position_m"]["mean"] < 0.04


@pytest.mark.xdist_group("wall")
@pytest.mark.parametrize("name", sampled(PROFILES, lambda name: name == "two_motors"))
def test_wall_time_opens_real_ports(start: Start, name: str) -> None:
    daemon = start(
        "--profile",
        file(name),
        "--course",
        "circle_r5_ccw",
        "--link",
        "wires",
        "--clock",
        "wall",
        *wide_limits(file(name)),
        watched=True,
    )
    daemon.wait_until_driving(speed_mps=0.5)
    os.kill(daemon.process.pid, signal.SIGINT)
    _, result, said = daemon.end()
    assert "stopped by Ctrl-C" in result["why"], said
    assert result["cross_track_m"]["mean"] < 0.1
    with LogReader(daemon.log()) as log:
        opened = [record.message for record in log.messages(PortEvent)]
        reported = {record.message.device for record in log.messages(ActuatorStatus)}
    details = {event.port: event.detail for event in opened if event.state is PortState.OPENED}
    ports = acting(name)
    assert all("/dev/pts/" in details[port] for port in ports)
    if len(ports) > 1:
        assert reported == {
            port
            for port in ports
            if "MotorStatus" in load_profile(file(name)).devices[port].messages
        }


DRIVES_ON = ("four_steered", "rear")
"""A rear servo that stays where it is turns the vehicle less; `rear_steering` warns of it."""
CASES = [(name, port) for name in PROFILES for port in acting(name) if (name, port) != DRIVES_ON]


@pytest.mark.parametrize(("name", "port"), CASES)
def test_the_loss_of_any_actuator_ends_the_drive(drive: Drive, name: str, port: str) -> None:
    """One with telemetry is named at once; the vehicle leaves its course by one without."""
    table = load_profile(file(name)).devices[port]
    status, result, said = drive(
        "--profile", file(name), *CIRCLE, "--duration", "25", "--fail", f"{port}:off@4"
    )
    assert status == 1, said
    assert "time limit" not in result["why"]
    assert table.capabilities is not None
    if table.capabilities.telemetry:
        assert result["driven_m"] < 5.0, result["why"]
        assert port in result["why"] or len(acting(name)) == 1, result["why"]


@pytest.mark.parametrize("failure", ["own_timeout", "fault"])
def test_a_controller_behind_another_ends_the_drive_when_it_fails(
    drive: Drive, failure: str
) -> None:
    status, result, said = drive(
        "--profile", file("vesc_forward"), *CIRCLE, "--duration", "25", "--fail",
        f"drive:{failure}@4",
    )  # fmt: skip
    assert status == 1, said
    assert "time limit" not in result["why"]
    assert "controller 2: " in result["why"], result["why"]
