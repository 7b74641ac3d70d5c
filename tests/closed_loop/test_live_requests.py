"""Requests to a running daemon: its commands, a program that streams setpoints, and what must not
get through the socket."""

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from math import atan2, cos, sin
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.busy_computer import DEADLINE_S, WIDE_LIMITS, wait_until
from tests.closed_loop.conftest import Daemon, command
from vehicled.core.messages import (
    CourseCommand,
    Fault,
    Mode,
    ModeChange,
    OperatorCommand,
    ParameterCommand,
    Setpoint,
)
from vehicled.live.control_socket.client import Client, ControlError
from vehicled.live.control_socket.protocol import CourseRequest, SetpointRequest, SubscribeRequest
from vehicled.live.control_socket.socket_path import SocketPathError, socket_path
from vehicled.log.reader import LogReader
from vehicled.offline.replay.drive import Replay
from vehicled.offline.replay.journal import Journal
from vehicled.paths.catalog import load_course
from vehicled.paths.course import course_from_waypoints
from vehicled.paths.stored import to_bytes

COURSE = "circle_r5_ccw"
RADIUS_M = 5.0
"""The circle begins at the origin, and its centre is to the left."""


class Sitting:
    """One daemon to which everything is sent."""

    def __init__(self, folder: Path) -> None:
        self.daemon = Daemon(
            ["--clock", "wall", "--by-hand", "--course", COURSE, "--seed", "3", *WIDE_LIMITS],
            folder,
        )
        self.said: dict[str, str] = {}
        self.goal = "", ""
        """Place of the goto, m."""
        self.path = socket_path("art")
        self._sockets = os.environ["RUNTIME_DIRECTORY"]

    def command(self, *words: str) -> tuple[int, str]:
        """Run one command of ours on the daemon; return status and output."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("RUNTIME_DIRECTORY", self._sockets)
            status, out, said = command(*words)
        return status, out + said

    def client(self) -> Client:
        made: list[Client] = []

        def connected() -> bool:
            with suppress(SocketPathError):
                made.append(Client(self.path))
            return bool(made)

        wait_until(connected, lambda: "no control socket")
        return made[0]

    def wait(self, client: Client, holds: Callable[[dict[str, Any]], bool]) -> Any:
        state: dict[str, Any] = {}

        def reached() -> bool:
            state.update(client.status())
            return holds(state)

        wait_until(
            reached, lambda: (state["mode"], state["why"], state["waiting_for"]), every_s=0.05
        )
        return state


@pytest.fixture(scope="module")
def sitting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sitting]:
    """Run one drive with all requests; the tests read what came of it."""
    before = os.environ.get("RUNTIME_DIRECTORY")
    with TemporaryDirectory(prefix="v") as sockets:
        os.environ["RUNTIME_DIRECTORY"] = sockets
        sitting = Sitting(tmp_path_factory.mktemp("live"))
        try:
            _ask_everything(sitting)
            yield sitting
        finally:
            if sitting.daemon.process.poll() is None:
                sitting.daemon.process.kill()
            sitting.daemon.process.communicate()
            if before is None:
                del os.environ["RUNTIME_DIRECTORY"]
            else:
                os.environ["RUNTIME_DIRECTORY"] = before


def _ask_everything(sitting: Sitting) -> None:
    said = sitting.said
    with sitting.client() as client, sitting.client() as other:
        sitting.wait(client, lambda state: (state["estimate"] or {}).get("status") == "RUNNING")
        said["return before"] = sitting.command("return")[1]
        status, out = sitting.command("arm")
        assert status == 0, out
        status, out = sitting.command("mode", "auto")
        assert status == 0, out
        sitting.wait(client, lambda state: (state["progress_m"] or 0.0) > 7.0)
        said["param list"] = sitting.command("param", "list")[1]
        said["param set"] = sitting.command("param", "set", "speed.deceleration_mps2", "0.7")[1]
        said["param get"] = sitting.command("param", "get", "speed.deceleration_mps2")[1]
        said["param wrong"] = sitting.command("param", "set", "speed.deceleration_mps2", "70")[1]
        said["speed"] = sitting.command("speed", "0.8")[1]
        said["goto far"] = sitting.command("goto", "90000", "0")[1]
        said["course far"] = sitting.command("course", "set", "lot17")[1]
        course = load_course(COURSE)
        here = course_from_waypoints(
            "again", course.x_m[::4], course.y_m[::4], closed=True, datum=course.datum
        )
        said["course"] = client.ask(CourseRequest(to_bytes(here)))["course"]
        for name, data in {"bytes": b"\x00" * 999, "text": b"{}"}.items():
            with pytest.raises(ControlError) as error:
                client.ask(CourseRequest(data))
            said[f"course of {name}"] = str(error.value)
        x, y = sitting.goal = _goal_ahead(client.status()["estimate"])
        said["goto"] = sitting.command("goto", x, y, "--speed", "0.8")[1]
        sitting.wait(client, lambda state: state["mode"] == "STANDBY")
        stop = threading.Event()
        stream = threading.Thread(target=_stream, args=(client, stop))
        stream.start()
        try:
            time.sleep(0.3)
            other.send(
                SetpointRequest(speed_mps=1.0, curvature_per_m=0.0, sequence=1, origin="intruder")
            )
            with pytest.raises(ControlError) as error:
                other.receive()
            said["intruder"] = str(error.value)
            status, out = sitting.command("mode", "offboard", "--arm")
            assert status == 0, out
            said["driver"] = sitting.wait(
                other, lambda state: (state["estimate"]["speed_mps"] or 0.0) > 0.3
            )["offboard"]
            time.sleep(1.0)
        finally:
            stop.set()
            stream.join()
        sitting.wait(other, lambda state: state["mode"] == "STANDBY")
        said["return"] = sitting.command("return")[1]
        said["disarm"] = sitting.command("disarm")[1]
    sitting.daemon.end()


def _goal_ahead(estimate: dict[str, Any]) -> tuple[str, str]:
    """Return a place beside the circle, ten metres ahead of wherever a busy computer let the
    vehicle go meanwhile."""
    angle = atan2(estimate["y_m"] - RADIUS_M, estimate["x_m"]) + 10.0 / RADIUS_M
    return f"{5.4 * cos(angle):.1f}", f"{RADIUS_M + 5.4 * sin(angle):.1f}"


def _stream(client: Client, stop: threading.Event) -> None:
    sequence = 0
    while not stop.is_set():
        sequence += 1
        client.send(
            SetpointRequest(speed_mps=0.6, curvature_per_m=0.2, sequence=sequence, origin="planner")
        )
        time.sleep(0.02)


def test_every_command_is_answered(sitting: Sitting) -> None:
    said = sitting.said
    assert "no place to return to" in said["return before"]
    assert "speed.deceleration_mps2" in said["param list"]
    assert "0.1 to 5" in said["param list"]
    assert said["param set"] == "speed.deceleration_mps2 = 0.7\n"
    assert said["param get"] == "0.7\n"
    assert "out of range: it may lie between 0.1 and 5" in said["param wrong"]
    assert said["speed"] == "at most 0.8 m/s\n"
    assert "90.0 km away" in said["goto far"]
    assert "the course" in said["course far"]
    assert said["course"] == "again"
    assert said["goto"].startswith(f"AUTO: course goto {' '.join(sitting.goal)}, ")
    assert said["return"].startswith("STANDBY: course return, ")


def test_what_is_no_course_is_refused(sitting: Sitting) -> None:
    assert "these bytes are no course" in sitting.said["course of bytes"]
    assert "these bytes are no course" in sitting.said["course of text"]


def test_one_program_holds_the_lease(sitting: Sitting) -> None:
    assert sitting.said["driver"] == "planner"
    assert "'planner' sends setpoints already" in sitting.said["intruder"]


def test_the_log_has_all_of_it_and_replays(sitting: Sitting) -> None:
    path = str(sitting.daemon.log())
    with LogReader(path) as log:
        records = [
            r.message
            for r in log.messages(
                CourseCommand, ParameterCommand, Setpoint, ModeChange, Fault, OperatorCommand
            )
        ]
    courses = [record.name for record in records if isinstance(record, CourseCommand)]
    assert courses[-2:] == [f"goto {' '.join(sitting.goal)}", "return"]
    assert {record.origin for record in records if isinstance(record, Setpoint)} == {"planner"}
    changes = [record for record in records if isinstance(record, ModeChange)]
    modes = [change.after for change in changes]
    assert [mode for mode in modes if mode in (Mode.AUTO, Mode.OFFBOARD)] == [
        Mode.AUTO,
        Mode.OFFBOARD,
    ]
    stop = next(change for change in changes if change.before is Mode.OFFBOARD)
    # The stream stands still before its connection is closed.
    assert stop.code == "setpoint_stale"
    refused = [
        record.reason
        for record in records
        if isinstance(record, Fault) and record.code == "request_refused"
    ]
    assert any("out of range" in reason for reason in refused) is False, (
        "what cannot be prepared never reaches the machine"
    )
    with Journal(path) as journal:
        result = Replay(journal).run()
    assert result.first is None, result.first.to_text()
    assert result.verdict == "identical"


@pytest.mark.parametrize(
    "line",
    [
        {"do": "setpoint", "speed_mps": 1.0, "sequence": 1},
        {
            "do": "setpoint",
            "speed_mps": 1.0,
            "curvature_per_m": 0.1,
            "wheel_angle_rad": 0.1,
            "sequence": 1,
        },
        {"do": "setpoint", "speed_mps": 1e9, "curvature_per_m": 0.1, "sequence": 1},
        {"do": "setpoint", "speed_mps": None, "curvature_per_m": 0.1, "sequence": 1},
        {"do": "goto", "x_m": 1.0},
        {"do": "goto", "x_m": 1.0, "y_m": 2.0, "latitude_deg": 1.0, "longitude_deg": 1.0},
        {"do": "goto", "latitude_deg": 91.0, "longitude_deg": 1.0},
        {"do": "course", "data": "not base64"},
        {"do": "course"},
        {"do": "speed", "limit_mps": "fast"},
        {"do": "set_parameter", "key": "x" * 200, "value": 1.0},
        {"do": "course", "data": "A" * 5_000_000},
        {"do": "status", "more": "A" * 5_000},
    ],
    ids=lambda line: json.dumps(line)[:40],
)
def test_hostile_lines_are_refused(line: dict[str, Any], hostile: Sitting) -> None:
    with hostile.client() as client:
        client._socket.settimeout(DEADLINE_S)
        with suppress(OSError):
            client._socket.sendall(json.dumps(line).encode() + b"\n")
        with pytest.raises(ControlError):
            client.receive()
    with hostile.client() as client:
        assert client.status()["mode"] in ("INIT", "STANDBY")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sitting]:
    """A daemon of its own, which is not driven."""
    before = os.environ.get("RUNTIME_DIRECTORY")
    with TemporaryDirectory(prefix="v") as sockets:
        os.environ["RUNTIME_DIRECTORY"] = sockets
        sitting = Sitting(tmp_path_factory.mktemp("hostile"))
        if before is None:
            del os.environ["RUNTIME_DIRECTORY"]
        else:
            os.environ["RUNTIME_DIRECTORY"] = before
        with sitting.client() as client:
            sitting.wait(client, lambda state: state["mode"] == "STANDBY")
        yield sitting
        sitting.daemon.process.kill()
        sitting.daemon.process.communicate()


def test_topics_are_listed_with_their_rates(hostile: Sitting) -> None:
    status, out = hostile.command("topic", "list", "--json")
    rates = {row["topic"]: row["rate_hz"] for row in json.loads(out)}
    assert status == 0
    # A busy computer skips releases and delivers late.
    assert 20.0 < rates["/vehicled/state_estimate"] < 260.0
    assert rates["/vehicled/laser_scan"] == 0.0


def test_the_rate_of_a_topic_is_that_of_its_messages(hostile: Sitting) -> None:
    status, out = hostile.command("topic", "hz", "imu_sample", "--duration", "1")
    assert status == 0
    last = out.splitlines()[-1]
    assert 40.0 < float(last.split()[0]) < 500.0, out


def test_messages_are_echoed(hostile: Sitting) -> None:
    status, out = hostile.command("topic", "echo", "StateEstimate", "--count", "3", "--json")
    assert status == 0
    messages = [json.loads(line) for line in out.splitlines()]
    assert [message["status"] for message in messages] == ["RUNNING"] * 3
    assert messages[0]["t_s"] < messages[1]["t_s"] < messages[2]["t_s"]
    status, out = hostile.command("topic", "echo", "/vehicled/actuator_command", "--once")
    assert "mode: STANDBY" in out


def test_a_topic_that_there_is_not_is_refused(hostile: Sitting) -> None:
    status, out = hostile.command("topic", "hz", "imu_sampel")
    assert (status, "did you mean" in out) == (2, True), out
    with hostile.client() as client, pytest.raises(ControlError, match="did you mean"):
        client.ask(SubscribeRequest("imu_sampel"))


def test_a_subscriber_that_never_reads_is_disconnected(hostile: Sitting) -> None:
    with hostile.client() as deaf, hostile.client() as client:
        for _ in range(3):
            deaf.send(SubscribeRequest("imu_sample", 100.0))
        for _ in range(40):
            assert client.status()["mode"] == "STANDBY"
            time.sleep(0.05)
