"""Whole drives on the devices' own protocols: the drivers of the vehicle against emulated
devices."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.busy_computer import WIDE_LIMITS
from tests.closed_loop.conftest import Daemon
from tests.grid import sampled
from vehicled.core.messages import PortEvent, PortState
from vehicled.log.reader import LogReader

Drive = Callable[..., tuple[int, dict[str, Any], str]]
Start = Callable[..., Daemon]


@pytest.mark.parametrize(
    "profile", sampled(["art", "art_vesc"], lambda profile: profile == "art_vesc")
)
def test_a_course_on_wires_repeats_and_tracks_as_on_messages(drive: Drive, profile: str) -> None:
    options = (
        "--profile",
        profile,
        "--course",
        "circle_r5_ccw",
        "--duration",
        "5",
        "--quiet",
        "--no-log",
    )
    _, wires, said = drive(*options, "--link", "wires")
    again = drive(*options, "--link", "wires")[1]
    messages = drive(*options)[1]
    assert "time limit" in wires["why"], said
    assert wires["driven_m"] > 2.0
    assert wires["digest"] == again["digest"]
    assert wires["cross_track_m"]["mean"] == pytest.approx(
        messages["cross_track_m"]["mean"], abs=0.015
    )
    assert wires["estimate_position_m"]["mean"] < 0.03


@pytest.mark.xdist_group("wall")
@pytest.mark.parametrize(
    "profile", sampled(["art", "art_vesc"], lambda profile: profile == "art_vesc")
)
def test_wall_time_opens_real_ports(start: Start, profile: str) -> None:
    # On a busy computer the controller and the daemon may be silent for longer than usual.
    vesc = [
        word
        for limit in ("silence_s=2", "timeout_ms=4000")
        for word in ("--set", f"devices.drive.driver.vesc_can.{limit}")
    ]
    patient = (
        *WIDE_LIMITS,
        "--set",
        "sim.command_timeout_s=2",
        *(vesc if profile == "art_vesc" else ()),
    )
    daemon = start(
        "--profile", profile, "--link", "wires", "--clock", "wall", *patient, watched=True
    )
    daemon.wait_until_driving(speed_mps=0.8)
    os.kill(daemon.process.pid, signal.SIGINT)
    _, result, said = daemon.end()
    assert "stopped by Ctrl-C" in result["why"], said
    assert result["cross_track_m"]["mean"] < 0.1
    with LogReader(daemon.log()) as log:
        opened = [record.message for record in log.messages(PortEvent)]
    details = {event.port: event.detail for event in opened if event.state is PortState.OPENED}
    assert "/dev/pts/" in details["gnss"]
    assert "/dev/pts/" in details["drive"]
    assert details["operator"] == "simulator link"


def test_an_injected_failure_is_named_in_the_result(drive: Drive) -> None:
    status, result, said = drive(
        "--course", "circle_r5_ccw", "--link", "wires", "--fail", "imu:off@3", "--quiet", "--no-log"
    )
    assert status == 1
    assert "IMU" in result["why"]
    assert "IMU" in said


def test_recordings_decode_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from vehicled.cli import main

    golden = Path(__file__).resolve().parents[1] / "golden" / "ublox" / "zed_f9p_rtk.ubx"
    table = tmp_path / "pvt.csv"
    assert (
        main(
            [
                "devices",
                "decode",
                str(golden),
                "--type",
                "ublox",
                "--only",
                "NAV-PVT",
                "--csv",
                str(table),
            ]
        )
        == 0
    )
    shown = capsys.readouterr().out
    assert "NAV-PVT" in shown
    lines = table.read_text().splitlines()
    assert len(lines) == 11
    assert "carrier" in lines[0] or "flags" in lines[0]
    assert main(["devices", "decode", str(golden), "--type", "mip"]) == 1
    assert "another device" in capsys.readouterr().err
