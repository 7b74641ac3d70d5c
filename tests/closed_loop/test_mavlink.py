"""A ground station drives a simulated rover: pymavlink's own mission and parameter protocols, then
hostile bytes."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from pymavlink import mavparm, mavutil, mavwp

from tests.busy_computer import DEADLINE_S, WIDE_LIMITS
from tests.closed_loop.conftest import ROOT
from vehicled.core.events import WAIT_BEGINS, WAIT_ENDED
from vehicled.core.messages import CourseCommand, Event, Mode, ModeChange, ParameterCommand
from vehicled.log.reader import LogReader
from vehicled.offline.replay.drive import Replay
from vehicled.offline.replay.journal import Journal

MAV = mavutil.mavlink
WAIT_S = 1.5


class GroundStation:
    """pymavlink's connection, with what it has received."""

    def __init__(self, port: int) -> None:
        os.environ["MAVLINK20"] = "1"
        self.link = mavutil.mavlink_connection(f"udpin:127.0.0.1:{port}", source_system=255)
        self.newest: dict[str, Any] = {}
        self.texts: list[str] = []
        self.reached: list[int] = []

    @property
    def port(self) -> int:
        number: int = self.link.port.getsockname()[1]
        return number

    def wait(self, holds: Any) -> None:
        """Receive until something holds."""
        end_s = time.monotonic() + DEADLINE_S
        while not holds():
            assert time.monotonic() < end_s, (self.texts, self.newest.get("HEARTBEAT"))
            message = self.link.recv_match(blocking=True, timeout=0.1)
            if message is not None:
                self.newest[message.get_type()] = message
                self.texts += [message.text] if message.get_type() == "STATUSTEXT" else []
                self.reached += (
                    [message.seq] if message.get_type() == "MISSION_ITEM_REACHED" else []
                )

    def command(self, number: int, *params: float) -> int:
        """Send a command; return its result."""
        self.newest.pop("COMMAND_ACK", None)
        self.link.mav.command_long_send(1, 1, number, 0, *params, *[0.0] * (7 - len(params)))
        self.wait(
            lambda: "COMMAND_ACK" in self.newest and self.newest["COMMAND_ACK"].command == number
        )
        return int(self.newest["COMMAND_ACK"].result)

    def upload(self, loader: Any) -> int:
        """Upload a mission; return the result."""
        self.link.waypoint_count_send(loader.count())
        while True:
            message = self.link.recv_match(
                type=["MISSION_REQUEST_INT", "MISSION_ACK"], blocking=True, timeout=DEADLINE_S
            )
            if message.get_type() == "MISSION_ACK":
                return int(message.type)
            item = loader.wp(message.seq)
            place = round(item.x * 1e7), round(item.y * 1e7), item.z
            params = item.param1, item.param2, item.param3, item.param4
            self.link.mav.mission_item_int_send(
                1, 1, item.seq, item.frame, item.command, 0, 1, *params, *place
            )


class Sitting:
    """One daemon and what a ground station did with it."""

    def __init__(self, folder: Path, sockets: str) -> None:
        self.folder = folder
        self.station = GroundStation(0)
        self.process = subprocess.Popen(
            [
                sys.executable, "-m", "vehicled", "sim", "--clock", "wall", "--by-hand", "--course",
                "circle_r5_ccw", "--seed", "3", "--quiet", "--log", str(folder), "--mavlink",
                f"udp:127.0.0.1:{self.station.port}", "--mavlink-commands", *WIDE_LIMITS,
            ],
            cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, "RUNTIME_DIRECTORY": sockets},
        )  # fmt: skip
        self.results: dict[str, Any] = {}


@pytest.fixture(scope="module")
def sitting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sitting]:
    """Run one drive in which a ground station does everything; the tests read what came of it."""
    with TemporaryDirectory(prefix="v") as sockets:
        sitting = Sitting(tmp_path_factory.mktemp("mavlink"), sockets)
        try:
            _drive(sitting)
            yield sitting
        finally:
            sitting.process.kill()
            sitting.process.wait()
            sitting.station.link.close()


def _drive(sitting: Sitting) -> None:
    station, results = sitting.station, sitting.results
    station.wait(
        lambda: (
            "HEARTBEAT" in station.newest
            and station.newest["HEARTBEAT"].system_status == MAV.MAV_STATE_STANDBY
        )
    )
    station.wait(
        lambda: (
            {"GLOBAL_POSITION_INT", "ATTITUDE", "GPS_RAW_INT", "SYS_STATUS", "VFR_HUD"}
            <= station.newest.keys()
        )
    )
    results["heartbeat"], start = station.newest["HEARTBEAT"], station.newest["GLOBAL_POSITION_INT"]
    parameters = mavparm.MAVParmDict()
    station.link.param_fetch_all()
    found: dict[str, float] = {}
    while (
        value := station.link.recv_match(type="PARAM_VALUE", blocking=True, timeout=5)
    ) is not None:
        found[value.param_id] = value.param_value
        if len(found) == value.param_count:
            break
    results["parameters"] = found
    results["set"] = parameters.mavset(station.link, "SPEED_ACCEL_MPS2", 0.7, retries=30)
    loader = mavwp.MAVWPLoader(target_system=1, target_component=1)
    east, north = 1.23e-5, 9.0e-6  # about a metre here, in degrees
    for command, first, speed, x_m, y_m in (
        (16, 0, 0, 0, 0),
        (178, 1, 0.9, 0, 0),
        (16, WAIT_S, 0, 1, 4),
        (16, 0, 0, -1, 7),
    ):
        latitude, longitude = start.lat / 1e7 + y_m * north, start.lon / 1e7 + x_m * east
        loader.add(
            MAV.MAVLink_mission_item_message(
                1, 1, 0, 3, command, 0, 1, first, speed, 0, 0, latitude, longitude, 0
            )
        )
    results["upload"] = station.upload(loader)
    station.newest.pop("MISSION_COUNT", None)
    station.link.waypoint_request_list_send()
    station.wait(lambda: "MISSION_COUNT" in station.newest)
    results["count"] = station.newest["MISSION_COUNT"].count
    results["auto"] = station.command(MAV.MAV_CMD_DO_SET_MODE, 1, 10)
    results["arm"] = station.command(MAV.MAV_CMD_COMPONENT_ARM_DISARM, 1)
    results["start"] = station.command(MAV.MAV_CMD_MISSION_START)
    station.wait(
        lambda: (
            station.newest["HEARTBEAT"].custom_mode == 10
            and bool(station.newest["HEARTBEAT"].base_mode & 128)
        )
    )
    station.wait(lambda: 3 in station.reached)
    station.wait(lambda: station.newest["HEARTBEAT"].system_status == MAV.MAV_STATE_STANDBY)
    end = station.newest["GLOBAL_POSITION_INT"]
    results["off_m"] = abs(end.lat / 1e7 - latitude) / north + abs(end.lon / 1e7 - longitude) / east
    results["takeoff"] = station.command(MAV.MAV_CMD_NAV_TAKEOFF)
    _be_hostile(sitting)
    results["after"] = station.command(MAV.MAV_CMD_DO_CHANGE_SPEED, 1, 0.5)
    station.command(MAV.MAV_CMD_COMPONENT_ARM_DISARM, 0)
    assert sitting.process.wait(DEADLINE_S) == 0


def _be_hostile(sitting: Sitting) -> None:
    """Send 200 kB: random ones, and frames with some bits turned over."""
    chance, station = Random(1), sitting.station
    packer = MAV.MAVLink(None, srcSystem=254)
    valid = [
        MAV.MAVLink_command_long_message(
            1, 1, MAV.MAV_CMD_DO_CHANGE_SPEED, 0, 1, 0.5, 0, 0, 0, 0, 0
        ).pack(packer),
        MAV.MAVLink_mission_count_message(1, 1, 60000).pack(packer),
        MAV.MAVLink_param_set_message(1, 1, b"SPEED_P", float("nan"), 9).pack(packer),
    ]
    sent = 0
    while sent < 200_000:
        data = bytearray(
            chance.randbytes(chance.randrange(1, 600))
            if chance.random() < 0.5
            else chance.choice(valid)
        )
        for _ in range(chance.randrange(4)):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        station.link.write(bytes(data))
        sent += len(data)
        if chance.random() < 0.02:
            # So that the socket's buffer does not drop most of it.
            time.sleep(0.002)
    station.newest.pop("HEARTBEAT", None)
    station.wait(lambda: "HEARTBEAT" in station.newest)


def test_a_ground_station_sees_a_rover(sitting: Sitting) -> None:
    heartbeat = sitting.results["heartbeat"]
    assert (heartbeat.type, heartbeat.autopilot) == (
        MAV.MAV_TYPE_GROUND_ROVER,
        MAV.MAV_AUTOPILOT_ARDUPILOTMEGA,
    )
    assert sitting.station.newest["GPS_RAW_INT"].fix_type >= MAV.GPS_FIX_TYPE_3D_FIX


def test_parameters_are_those_of_the_daemon(sitting: Sitting) -> None:
    assert sitting.results["set"]
    assert sitting.results["parameters"]["SPEED_ACCEL_MPS2"] == pytest.approx(0.6)
    with LogReader(str(next(sitting.folder.glob("*.mcap")))) as log:
        changes = [record.message for record in log.messages(ParameterCommand)]
    assert [(change.key, change.origin) for change in changes] == [
        ("speed.acceleration_mps2", "MAVLink")
    ]


def test_a_mission_is_uploaded_and_driven(sitting: Sitting) -> None:
    results = sitting.results
    assert (results["upload"], results["count"]) == (MAV.MAV_MISSION_ACCEPTED, 4)
    # Chosen while disarmed, AUTO is refused: arming alone moves nothing.
    assert results["auto"] == MAV.MAV_RESULT_TEMPORARILY_REJECTED
    assert (results["arm"], results["start"]) == (MAV.MAV_RESULT_ACCEPTED, MAV.MAV_RESULT_ACCEPTED)
    assert sitting.station.reached == [2, 3]
    assert results["off_m"] < 0.7
    assert "AUTO: driving the course" in " ".join(sitting.station.texts)


def test_what_a_rover_cannot_do_is_answered(sitting: Sitting) -> None:
    assert sitting.results["takeoff"] == MAV.MAV_RESULT_UNSUPPORTED


def test_hostile_bytes_change_nothing(sitting: Sitting) -> None:
    assert sitting.results["after"] == MAV.MAV_RESULT_ACCEPTED


def test_the_drive_is_replayed(sitting: Sitting) -> None:
    path = str(next(sitting.folder.glob("*.mcap")))
    with LogReader(path) as log:
        records = [record.message for record in log.messages(CourseCommand, ModeChange, Event)]
    waits = {record.name: record for record in records if isinstance(record, Event)}
    assert (waits[WAIT_ENDED].t_ns - waits[WAIT_BEGINS].t_ns) * 1e-9 >= WAIT_S
    assert json.loads(waits[WAIT_ENDED].fields)["duration_s"] == WAIT_S
    assert {record.name for record in records if isinstance(record, CourseCommand)} == {"mission"}
    assert Mode.AUTO in {record.after for record in records if isinstance(record, ModeChange)}
    with Journal(path) as journal:
        result = Replay(journal).run()
    assert result.first is None, result.first.to_text()
    assert result.verdict == "identical"
