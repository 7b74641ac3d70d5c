"""The control socket: requests that are understood, garbage that is refused, clients that cannot
hold the loop."""

import json
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import anyio
import anyio.lowlevel
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.busy_computer import DEADLINE_S
from tests.conformance.port_kit import until
from tests.unit.test_machine import LIMITS, START, Rig
from vehicled.cli import control, main
from vehicled.cli.control import _show, _show_margins
from vehicled.core.messages import Mode, OperatorAction, Reaction, TeleopCommand
from vehicled.daemon.live_changes import ChangeError
from vehicled.live.control_socket import pending, server
from vehicled.live.control_socket.client import Client, ControlError
from vehicled.live.control_socket.console import STOPPED, RunFacts
from vehicled.live.control_socket.console import Console as RunConsole
from vehicled.live.control_socket.path_points import path_points
from vehicled.live.control_socket.protocol import (
    MAX_LINE,
    VERSION,
    ActionRequest,
    GotoRequest,
    RequestError,
    WatchRequest,
    parse,
    printable,
)
from vehicled.live.control_socket.server import MAX_CLIENTS, ControlServer
from vehicled.live.control_socket.socket_path import (
    SocketPathError,
    answers,
    find,
    folder,
    socket_path,
)
from vehicled.paths import formulas
from vehicled.run.wall_session import _refusal_alone
from vehicled.runtime.planner.process import Asker, Planned
from vehicled.safety.monitors.obstacle import ObstacleMonitor


class Console:
    """Takes requests instead of a run."""

    mode = Mode.STANDBY
    stops = 0
    facts = SimpleNamespace(version="1.2.3")

    def __init__(self) -> None:
        self.requests: list[tuple[OperatorAction, str]] = []
        self.readings: list[TeleopCommand] = []
        self.beats: list[str] = []
        self.changes: list[str] = []

    def request(self, action: OperatorAction, origin: str, now_ns: int) -> str:
        self.requests.append((action, origin))
        return "someone drives: stop it first" if action is OperatorAction.DRIVE else ""

    def teleop(self, reading: TeleopCommand, now_ns: int) -> None:
        self.readings.append(reading)

    def heartbeat(self, origin: str, now_ns: int) -> None:
        self.beats.append(origin)

    def status(self, now_ns: int) -> dict[str, Any]:
        return {"mode": self.mode.name, "why": "waiting to be armed", "waiting_for": []}

    def path(self, points: int) -> dict[str, Any] | None:
        return path_points(formulas.straight(5.0), points)

    def goal(self, request: Any) -> Any:
        return request

    def prepare(self, message: Any, course: Any = None) -> Any:
        return message

    def fits(self, message: Any, prepared: Any) -> bool:
        return True

    def change(self, message: Any, prepared: Any, now_ns: int, stops: int | None = None) -> str:
        self.changes.append(getattr(message, "name", None) or message.key)
        return ""


class SlowPlanner:
    """Stands in for the planning process: an answer comes when the test lets it."""

    def __init__(self) -> None:
        self.released = anyio.Event()
        self.lines: list[bytes] = []
        self._asked: dict[object, str] = {}
        self._called_off: dict[object, anyio.Event] = {}

    async def serve(self) -> None:
        await anyio.sleep_forever()

    def cancel(self, client: object, why: str) -> None:
        if (called_off := self._called_off.pop(client, None)) is not None:
            self._asked[client] = why
            called_off.set()

    async def goal(self, asker: Asker, goal: GotoRequest) -> Planned:
        called_off = self._called_off[asker.client] = anyio.Event()
        async with anyio.create_task_group() as group:

            async def first(event: anyio.Event) -> None:
                await event.wait()
                group.cancel_scope.cancel()

            group.start_soon(first, called_off)
            group.start_soon(first, self.released)
        if called_off.is_set():
            raise ChangeError(self._asked[asker.client])
        return Planned(
            formulas.straight(goal.x_m or 1.0).renamed(f"goto {goal.x_m:g}"), b"", asker.origin
        )

    async def course(self, asker: Asker, line: list[bytearray]) -> Planned:
        self.lines.append(b"".join(line))
        return Planned(formulas.straight(5.0).renamed("given"), b"", "")


@asynccontextmanager
async def served(
    path: Path, planner: SlowPlanner | None = None
) -> AsyncIterator[tuple[Console, ControlServer]]:
    console, serving = Console(), ControlServer(path, planner=planner)  # type: ignore[arg-type]
    async with anyio.create_task_group() as group:
        group.start_soon(serving.serve, console)  # type: ignore[arg-type]
        await until(path.exists)
        yield console, serving
        group.cancel_scope.cancel()


async def ask(path: Path, *lines: bytes, answers: int | None = None) -> list[dict[str, Any]]:
    wanted = len(lines) if answers is None else answers
    async with await anyio.connect_unix(path) as stream:
        await stream.send(b"".join(line + b"\n" for line in lines))
        data = b""
        while data.count(b"\n") < wanted:
            data += await stream.receive()
    return [json.loads(line) for line in data.splitlines()]


pytestmark = pytest.mark.anyio


async def test_requests_reach_the_run_and_are_answered(tmp_path: Path) -> None:
    path = tmp_path / "v.sock"
    async with served(path) as (console, _):
        first, second, third = await ask(
            path,
            b'{"do": "status"}',
            b'{"do": "request", "action": "arm", "origin": "me"}',
            b'{"do": "request", "action": "emergency_stop"}',
        )
    assert first == {"ok": True, "status": Console().status(0)}
    assert second["ok"]
    assert third["ok"]
    assert console.requests[0] == (OperatorAction.ARM, "me")
    assert console.requests[1][0] is OperatorAction.EMERGENCY_STOP
    assert "control socket" in console.requests[1][1]
    assert not path.exists(), "the socket goes with the daemon"


async def test_a_hello_has_the_version_and_another_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "v.sock"
    async with served(path):
        right, wrong = await ask(
            path, b'{"do": "hello", "version": 1}', b'{"do": "hello", "version": 2}'
        )
    assert right == {"ok": True, "protocol": "control", "version": VERSION, "software": "1.2.3"}
    assert not wrong["ok"]
    assert wrong["why"].startswith("this side speaks version 1 of the protocol, the program ver")


async def test_the_path_of_the_run_is_given_in_points(tmp_path: Path) -> None:
    path = tmp_path / "v.sock"
    async with served(path):
        (found,) = await ask(path, b'{"do": "path", "points": 6}')
    assert found["path"]["x_m"] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert not found["path"]["closed"]


async def test_the_socket_appears_with_its_permissions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "v.sock"
    early: list[Path] = []

    def slow_directory(_: str) -> NoReturn:
        early.extend(
            tmp_path.glob("*.sock")
        )  # as long as a directory of groups on the network takes
        raise KeyError

    monkeypatch.setattr("grp.getgrnam", slow_directory)
    async with served(path):
        assert not early
        assert os.listdir(tmp_path) == [path.name]


async def test_a_stick_is_passed_on_and_not_answered(tmp_path: Path) -> None:
    path = tmp_path / "v.sock"
    request = (
        b'{"do": "teleop", "steering": -0.5, "throttle": 0.3, "deadman": true, "sequence": 7, '
        b'"origin": "pad"}'
    )
    async with served(path) as (console, _):
        await ask(path, request, b'{"do": "heartbeat"}', b'{"do": "status"}', answers=1)
    reading = console.readings[0]
    assert (
        reading.steering,
        reading.throttle,
        reading.deadman,
        reading.sequence,
        reading.origin,
    ) == (-0.5, 0.3, True, 7, "pad")
    assert console.beats == ["ground station"]


async def test_a_request_that_leads_nowhere_is_answered_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "v.sock"
    async with served(path) as (console, _):
        drive, arm = await ask(
            path, b'{"do": "request", "action": "drive"}', b'{"do": "request", "action": "arm"}'
        )
    assert drive == {"ok": False, "why": "someone drives: stop it first"}
    assert arm["ok"]
    assert [action for action, _ in console.requests] == [
        OperatorAction.DRIVE,
        OperatorAction.ARM,
    ], "it is in the journal all the same"


def reading(sequence: int, throttle: float, origin: str = "keyboard") -> bytes:
    reading = {
        "steering": 0.0,
        "throttle": throttle,
        "deadman": True,
        "sequence": sequence,
        "origin": origin,
    }
    return json.dumps({"do": "teleop", **reading}).encode() + b"\n"


async def test_two_sticks_of_one_name_are_not_taken_for_one(tmp_path: Path) -> None:
    """Neutral by the one, which lets the drive begin, and full throttle by the other."""
    path = tmp_path / "v.sock"
    status = b'{"do": "status"}\n'
    async with served(path) as (console, _), await anyio.connect_unix(path) as second:
        async with await anyio.connect_unix(path) as first:
            await first.send(reading(1, 0.0) + status)
            await first.receive()
            await second.send(reading(1, 1.0) + reading(2, 1.0) + status)
            data = b""
            while data.count(b"\n") < 2:
                data += await second.receive()
            refused, good = (json.loads(line) for line in data.splitlines())
            assert (refused["ok"], good["ok"]) == (False, True), (
                "reported once, and the connection stays open"
            )
            assert "another client already drives as 'keyboard'" in refused["why"]
            await first.send(reading(2, 0.1) + reading(1, 0.0, "pad") + status)
            await first.receive()
            assert [(r.origin, r.throttle) for r in console.readings] == [
                ("keyboard", 0.0),
                ("keyboard", 0.1),
                ("pad", 0.0),
            ]
            await second.send(reading(3, 0.2) + status)
            await second.receive()
            assert console.readings[-1].throttle == 0.2, "the first one has another stick now"
        await second.send(reading(4, 0.3, "pad") + status)
        await second.receive()
    assert [(r.origin, r.unplugged) for r in console.readings[-3:]] == [
        ("pad", True),
        ("pad", False),
        ("pad", True),
    ]


@pytest.mark.parametrize(
    "line",
    [
        b"hello",
        b"[]",
        b"{}",
        b'{"do": "reboot"}',
        b'{"do": "request"}',
        b'{"do": "request", "action": "fly"}',
        b'{"do": "request", "action": "arm", "force": true}',
        b'{"do": "teleop", "steering": 1.5, "throttle": 0, "deadman": true, "sequence": 1}',
        b'{"do": "teleop", "steering": NaN, "throttle": 0, "deadman": true, "sequence": 1}',
        b'{"do": "watch", "rate_hz": 1e9}',
        b'{"do": "watch", "rate_hz": 1e-9}',
        b"\xff\xfe\x00",
    ],
)
async def test_what_is_no_request_is_refused_and_the_connection_lives_on(
    tmp_path: Path, line: bytes
) -> None:
    path = tmp_path / "v.sock"
    async with served(path) as (console, serving):
        refused, good = await ask(path, line, b'{"do": "status"}')
        assert not refused["ok"]
        assert "not a request" in refused["why"]
        assert good["ok"]
        assert serving.refused == 1
    assert not console.requests
    assert not console.readings


async def test_a_line_without_end_is_hung_up_on(tmp_path: Path) -> None:
    path = tmp_path / "v.sock"
    async with served(path) as (console, _):
        async with await anyio.connect_unix(path) as stream:
            await stream.send(b"x" * (MAX_LINE + 1))
            assert b"line too long" in await stream.receive()
            with pytest.raises(anyio.EndOfStream):
                await stream.receive()
        assert (await ask(path, b'{"do": "status"}'))[0]["ok"]
    assert not console.requests


async def test_a_client_beyond_the_limit_may_only_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "v.sock"
    monkeypatch.setattr(server, "STOPPER_TIMEOUT_S", 0.2)
    monkeypatch.setattr(server, "MAX_PER_PROGRAM", MAX_CLIENTS)
    async with served(path) as (console, serving), anyio.create_task_group() as group:
        streams = [await anyio.connect_unix(path) for _ in range(MAX_CLIENTS)]
        for stream in streams:
            await stream.send(b'{"do": "status"}\n')
            await stream.receive()
        arm, stop, status = await ask(
            path,
            b'{"do": "request", "action": "arm"}',
            b'{"do": "request", "action": "stop"}',
            b'{"do": "status"}',
        )
        assert "clients are connected already" in arm["why"]
        assert stop["ok"]
        assert status["ok"]
        assert [action for action, _ in console.requests] == [OperatorAction.STOP]
        async with await anyio.connect_unix(path) as silent:
            with anyio.fail_after(DEADLINE_S):
                # It gets the reason: a silent end would look like the end of the run.
                assert b"clients are connected already" in await silent.receive()
                with pytest.raises(anyio.EndOfStream):
                    await silent.receive()
        for stream in streams:
            await stream.aclose()
        await until(lambda: serving.clients == 0)
        assert (await ask(path, b'{"do": "status"}'))[0]["ok"]
        group.cancel_scope.cancel()


async def test_a_flood_is_slowed_down_and_not_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "BURST", 5.0)
    monkeypatch.setattr(server, "REQUESTS_PER_S", 200.0)
    path = tmp_path / "v.sock"
    async with served(path) as (console, _):
        answers = await ask(path, *[b'{"do": "request", "action": "arm"}'] * 25)
        assert all(reply["ok"] for reply in answers)
    assert len(console.requests) == 25


async def test_a_stop_overtakes_what_its_own_program_has_piled_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "BURST", 5.0)
    monkeypatch.setattr(server, "REQUESTS_PER_S", 50.0)
    path = tmp_path / "v.sock"
    lines = [b'{"do": "request", "action": "arm"}'] * 20 + [
        b'{"do": "request", "action": "stop"}',
        b'{"do": "request", "action": "arm"}',
    ]
    async with served(path) as (console, _):
        found = await ask(path, *lines)
        actions = [action for action, _ in console.requests]
    assert [each["ok"] for each in found] == [True] * 5 + [False] * 15 + [True, True], (
        "in the order of the requests"
    )
    assert found[10]["why"] == STOPPED
    # What was asked for before the stop must not take effect after it.
    assert actions == [OperatorAction.ARM] * 5 + [OperatorAction.STOP, OperatorAction.ARM]


async def test_a_stop_passes_however_many_others_connect(tmp_path: Path) -> None:
    path = tmp_path / "v.sock"
    held: list[socket.socket] = []
    async with served(path) as (console, serving):
        try:
            for k in range(3 * pending.MAX_WAITING):
                # Silent ones, others that have all the places, and some that begin a line and never
                # end it.
                held.append(other := socket.socket(socket.AF_UNIX))
                other.connect(str(path))
                if k % 3:
                    other.sendall(b'{"do": "status"}\n' if k % 3 == 1 else b'{"stop')
                await anyio.sleep(0.001)
            for k in range(3):
                (stop,) = await ask(path, b'{"do": "request", "action": "emergency_stop"}')
                assert stop["ok"]
                assert [action for action, _ in console.requests] == [
                    OperatorAction.EMERGENCY_STOP
                ] * (k + 1)
            assert serving.clients <= server.MAX_CLIENTS
        finally:
            for other in held:
                other.close()


async def test_one_program_cannot_have_all_places(tmp_path: Path) -> None:
    path = tmp_path / "v.sock"
    async with served(path) as (_, serving):
        streams = [await anyio.connect_unix(path) for _ in range(MAX_CLIENTS)]
        refused = 0
        for stream in streams:
            await stream.send(b'{"do": "request", "action": "arm"}\n')
            refused += b"clients are connected already" in await stream.receive()
        assert refused == MAX_CLIENTS - server.MAX_PER_PROGRAM > 0
        assert serving.clients == server.MAX_PER_PROGRAM
        for stream in streams:
            await stream.aclose()


async def test_requests_of_a_client_that_sends_no_more_are_answered(tmp_path: Path) -> None:
    path = tmp_path / "v.sock"
    async with served(path), await anyio.connect_unix(path) as stream:
        await stream.send(
            b'{"do": "status"}\n{"do": "request", "action": "arm"}\n{"do": "status"}\n'
        )
        await stream.send_eof()
        data = b"".join([part async for part in stream])
    assert [json.loads(line)["ok"] for line in data.splitlines()] == [True] * 3


def goto(x_m: int) -> bytes:
    return b'{"do": "goto", "x_m": %d, "y_m": 1}\n' % x_m


async def test_a_path_holds_up_nobody_and_a_stop_calls_it_off(tmp_path: Path) -> None:
    path = tmp_path / "v.sock"
    planner = SlowPlanner()
    async with served(path, planner) as (console, _), await anyio.connect_unix(path) as stream:
        await stream.send(goto(5) + goto(6) + b'{"do": "heartbeat"}\n')
        await stream.send(
            b'{"do": "request", "action": "arm"}\n{"do": "request", "action": "stop"}\n' + goto(7)
        )
        await until(lambda: len(console.requests) == 2)
        assert console.beats
        assert not console.changes
        planner.released.set()
        data = b""
        while data.count(b"\n") < 5:
            data += await stream.receive()
    first, second, arm, stop, third = (json.loads(line) for line in data.splitlines())
    assert first["why"] == server.NEWER
    assert second["why"] == STOPPED
    assert arm["ok"]
    assert stop["ok"]
    assert third["course"] == "goto 7"
    assert console.changes == ["goto 7"]


async def test_a_defect_in_what_only_explains_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Console, now_ns: int) -> dict[str, Any]:
        raise ZeroDivisionError("of a rule")

    monkeypatch.setattr(Console, "status", broken)
    path = tmp_path / "v.sock"
    async with served(path) as (console, _):
        status, arm = await ask(path, b'{"do": "status"}', b'{"do": "request", "action": "arm"}')
        assert status["why"] == "the daemon could not answer: ZeroDivisionError: of a rule"
        assert arm["ok"]
    assert len(console.requests) == 1


async def test_a_client_that_waits_for_an_answer_is_hung_up_on_like_others(tmp_path: Path) -> None:
    path = tmp_path / "v.sock"
    async with (
        served(path, SlowPlanner()) as (_, serving),
        await anyio.connect_unix(path) as stream,
    ):
        await stream.send(goto(5) + b"x" * (MAX_LINE + 1))
        with anyio.fail_after(DEADLINE_S):
            assert b"line too long" in b"".join([part async for part in stream])
        await until(lambda: not serving.clients)


async def test_a_path_is_forgotten_with_the_client_that_wanted_it(tmp_path: Path) -> None:
    path = tmp_path / "v.sock"
    planner = SlowPlanner()
    async with served(path, planner) as (console, serving):
        async with await anyio.connect_unix(path) as stream:
            await stream.send(goto(5) + b'{"do": "request", "action": "arm"}\n')
            await until(lambda: bool(console.requests))
        await until(lambda: not serving.clients)
        planner.released.set()
        await anyio.sleep(0.05)
    assert not console.changes


async def test_a_course_is_passed_on_as_it_came(tmp_path: Path) -> None:
    path = tmp_path / "v.sock"
    planner = SlowPlanner()
    line = b'{"do":"course","data":"' + b"A" * 200_000 + b'"}'
    short = b'{"do": "course", "data": "QUJD"}'
    async with served(path, planner) as (console, _):
        given, status = await ask(path, line, b'{"do": "status"}')
        (again,) = await ask(path, short)
    assert (given["course"], again["course"], status["ok"]) == ("given", "given", True)
    assert planner.lines == [line, short]
    assert console.changes == ["given", "given"]


async def test_more_requests_than_one_client_may_wait_for_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "BURST", 1000.0)
    monkeypatch.setattr(server, "MAX_REQUESTS", 4)
    path = tmp_path / "v.sock"
    line = b'{"do": "set_parameter", "key": "%d", "value": 1}'
    async with served(path) as (console, _):
        found = await ask(path, *(line % k for k in range(20)))
    taken = [each["key"] for each in found if each["ok"]]
    assert console.changes == taken
    assert 4 <= len(taken) < 10
    assert {each["why"] for each in found if not each["ok"]} == {
        "4 requests of this client wait for their answers: send fewer at once"
    }


def test_a_daemon_that_is_flooded_is_not_taken_for_dead(tmp_path: Path) -> None:
    path = tmp_path / "v.sock"
    waiting = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(0)
        try:
            while True:
                waiting.append(other := socket.socket(socket.AF_UNIX))
                other.setblocking(False)
                other.connect(str(path))
        except BlockingIOError:
            assert answers(path)
            with pytest.raises(ControlError, match="too many programs connect"):
                Client(path, 0.05)
        finally:
            for other in waiting:
                other.close()


async def test_a_heap_of_readings_is_not_driven_by_when_it_is_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "BURST", 5.0)
    path = tmp_path / "v.sock"
    async with served(path) as (console, serving):
        async with await anyio.connect_unix(path) as stream:
            await stream.send(b"".join(reading(k, 0.5) for k in range(100)))
            with anyio.fail_after(DEADLINE_S):
                assert b"readings per second" in await stream.receive()
        await until(lambda: serving.clients == 0)
    assert len(console.readings) < 10
    assert console.readings[-1].unplugged


async def test_a_watcher_that_never_reads_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "WRITE_TIMEOUT_S", 0.1)
    monkeypatch.setattr(Console, "status", lambda self, now_ns: {"text": "x" * 500_000})
    path = tmp_path / "v.sock"
    async with served(path) as (_, serving), await anyio.connect_unix(path) as stream:
        await stream.send(b'{"do": "watch", "rate_hz": 20}\n')
        await stream.receive(1)
        assert serving.clients == 1
        await anyio.sleep(0.5)
        assert serving.clients == 0


async def test_the_blocking_client_asks_and_passes_refusals_on(tmp_path: Path) -> None:
    path = tmp_path / "v.sock"

    def talk() -> tuple[str, str]:
        with Client(path) as client:
            mode = client.status()["mode"]
            assert client.ask(do="status")["status"]["mode"] == mode, "also by the fields of a line"
            with pytest.raises(ControlError, match="not a request"):
                client.ask(WatchRequest(1e9))
            watched = next(client.watch(10.0))
        return mode, watched["mode"]

    async with served(path):
        assert await anyio.to_thread.run_sync(talk) == ("STANDBY", "STANDBY")
    with pytest.raises(SocketPathError, match="no daemon answers"):
        Client(path)


@pytest.mark.parametrize(
    ("words", "status"), [(["disarm"], 0), (["mode", "teleop"], 2), (["mode", "standby"], 0)]
)
async def test_a_request_refused_by_a_fault_is_answered_at_once(
    tmp_path: Path,
    words: list[str],
    status: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(control, "ARMING_TIMEOUT_S", inf)
    monkeypatch.setattr(Console, "mode", Mode.FAULT)
    async with served(tmp_path / "v.sock") as (console, _):
        with anyio.fail_after(DEADLINE_S):
            assert (
                await anyio.to_thread.run_sync(
                    main, [*words, "--profile", str(tmp_path / "v.sock")], abandon_on_cancel=True
                )
                == status
            )
    said = capsys.readouterr()
    assert "FAULT: waiting to be armed" in said.out + said.err
    assert len(console.requests) == 1, "what waits is called off in a fault, too"


async def test_a_reset_is_asked_for_and_followed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with served(tmp_path / "v.sock") as (console, _):
        words = ["mode", "reset", "--profile", str(tmp_path / "v.sock")]
        assert await anyio.to_thread.run_sync(main, words) == 0
    assert [action for action, _ in console.requests] == [OperatorAction.RESET]
    assert capsys.readouterr().out.startswith("STANDBY: ")


@pytest.mark.parametrize("words", [["arm"], ["mode", "auto"]])
async def test_an_interrupted_request_is_cancelled(
    tmp_path: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: float) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", interrupted)
    monkeypatch.setattr(Console, "mode", Mode.INIT)
    monkeypatch.setattr(
        Console,
        "request",
        lambda self, action, origin, now_ns: self.requests.append((action, origin)) or "",
    )
    path = tmp_path / "v.sock"
    async with served(path) as (console, _):
        assert await anyio.to_thread.run_sync(main, [*words, "--profile", str(path)]) == 130
    assert [action for action, _ in console.requests][1:] == [OperatorAction.STOP]


async def test_the_socket_of_a_dead_daemon_is_taken_over_and_that_of_a_live_one_is_not(
    tmp_path: Path,
) -> None:
    path = tmp_path / "v.sock"
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(path))
    dead.close()
    left = path.stat().st_ctime_ns
    async with anyio.create_task_group() as group:
        group.start_soon(ControlServer(path).serve, Console())  # type: ignore[arg-type]
        await until(lambda: path.exists() and path.stat().st_ctime_ns != left)
        assert (await ask(path, b'{"do": "status"}'))[0]["ok"]
        with pytest.raises(SocketPathError, match="another daemon already uses"):
            await ControlServer(path).serve(Console())  # type: ignore[arg-type]
        group.cancel_scope.cancel()


async def test_the_loser_of_a_race_for_a_socket_gets_an_error_without_a_group(
    tmp_path: Path,
) -> None:
    path = tmp_path / "v.sock"
    async with served(path):
        with pytest.raises(SocketPathError, match="another daemon already uses"), _refusal_alone():
            async with anyio.create_task_group() as group:
                group.start_soon(ControlServer(path).serve, Console())  # type: ignore[arg-type]


def test_daemons_are_found_by_name_or_when_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RUNTIME_DIRECTORY", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert folder() == tmp_path / "vehicled"
    with pytest.raises(SocketPathError, match="vehicled run"):
        find(None)
    sockets = []
    for name in ("art", "art_vesc"):
        sockets.append(socket.socket(socket.AF_UNIX))
        sockets[-1].bind(str(socket_path(name)))
        sockets[-1].listen()
        if name == "art":
            assert find(None) == socket_path("art")
    assert find("art_vesc") == socket_path("art_vesc")
    with pytest.raises(SocketPathError, match="art, art_vesc"):
        find(None)
    with pytest.raises(SocketPathError, match="running: art, art_vesc"):
        find("husky")
    for opened in sockets:
        opened.close()
        if opened is sockets[0]:
            assert find(None) == socket_path("art_vesc")
    with pytest.raises(
        SocketPathError,
        match=rf"no daemon is running; {socket_path('art')} is left over .*; start one with",
    ):
        find(None)
    with pytest.raises(
        SocketPathError, match=r"left over by a daemon that has ended; start one .* replaces it"
    ):
        Client(socket_path("art"))
    socket_path("art").unlink()
    with pytest.raises(SocketPathError, match="there is no such socket; start one"):
        Client(socket_path("art"))
    socket_path("art").touch()
    with pytest.raises(SocketPathError, match="this file is no socket"):
        Client(socket_path("art"))


def test_a_daemon_too_busy_to_accept_is_still_there(tmp_path: Path) -> None:
    path = tmp_path / "v.sock"
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as waiting:
        busy.bind(str(path))
        busy.listen(0)
        waiting.connect(str(path))
        assert answers(path)
        with pytest.raises(ControlError, match="too many programs connect"):
            Client(path, timeout_s=0.2)


@given(st.binary(max_size=200))
def test_random_bytes_are_a_refusal_or_a_request(line: bytes) -> None:
    try:
        parse(line)
    except RequestError:
        pass


@given(st.sampled_from(["arm", "drive", "stop"]), st.text(max_size=64))
def test_a_good_request_is_understood(action: str, origin: str) -> None:
    request = parse(json.dumps({"do": "request", "action": action, "origin": origin}).encode())
    assert request == ActionRequest(action=action, origin=printable(origin))  # type: ignore[arg-type]
    assert request.origin.isprintable()


def test_a_user_without_access_to_the_service_folder_gets_the_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    monkeypatch.setattr("os.access", lambda path, mode: path != tmp_path)
    for name in (None, "art"):
        with pytest.raises(
            SocketPathError,
            match=r"is only for the group vehicled: sudo usermod -aG vehicled \$USER",
        ):
            find(name)


def test_the_status_shows_what_the_gate_had_to_cut(capsys: pytest.CaptureFixture[str]) -> None:
    rig = Rig()
    rig.drive()
    facts = RunFacts(
        profile="art",
        course="line",
        course_m=20.0,
        estimator="e",
        controller="c",
        link="messages",
        version="1",
        started_ns=START,
    )
    state = RunConsole(rig.machine, facts).status(START + 100_000_000)
    kinds = rig.machine.pipeline.gate.clipped_by_kind
    assert state["clipped"] == {
        "commands": rig.machine.pipeline.gate.clipped_total,
        "by_kind": kinds,
    }
    _show(state, as_json=False)
    shown = capsys.readouterr().out
    assert f"jerk {kinds['jerk']}" in shown
    assert "commands cut" in shown


def test_margins_show_value_and_limit_of_the_rules(capsys: pytest.CaptureFixture[str]) -> None:
    rig = Rig()
    rig.drive()
    facts = RunFacts(
        profile="art",
        course="line",
        course_m=20.0,
        estimator="e",
        controller="c",
        link="messages",
        version="1",
        started_ns=START,
    )
    margins = RunConsole(rig.machine, facts).margins()
    _show_margins(msgspec.json.decode(msgspec.json.encode(margins)))
    lines = {
        line.split()[1]: line.split()
        for line in capsys.readouterr().out.splitlines()
        if len(line.split()) > 4
    }
    assert lines["corridor_left"][0] == "quiet"
    assert lines["corridor_left"][3:6] == [">", f"{LIMITS.corridor_m:g}", "m"]


@pytest.mark.parametrize(
    ("cap_mps", "reaction", "shown"),
    [
        (inf, Reaction.NONE, "none"),
        (LIMITS.max_speed_mps + 0.6, Reaction.NONE, "none"),
        (2.16, Reaction.WARN, "warn, at most 2.16 m/s to stop within the corridor"),
        (0.5, Reaction.CAP_SPEED, "cap_speed, at most 0.50 m/s"),
    ],
)
def test_the_status_shows_a_cap_that_is_below_the_limit_of_the_profile(
    cap_mps: float, reaction: Reaction, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rig = Rig()
    rig.drive()
    facts = RunFacts(
        profile="art",
        course="line",
        course_m=20.0,
        estimator="e",
        controller="c",
        link="messages",
        version="1",
        started_ns=START,
    )
    supervisor = rig.machine.supervisor
    supervisor.speed_cap_mps, supervisor.reaction = cap_mps, reaction
    _show(RunConsole(rig.machine, facts).status(START + 10**8), as_json=False)
    (line,) = [
        line for line in capsys.readouterr().out.splitlines() if line.split()[:1] == ["reaction"]
    ]
    assert line.split(maxsplit=1)[1].strip() == shown


def test_the_status_leaves_out_ports_that_are_never_opened() -> None:
    rig = Rig()
    facts = RunFacts(
        profile="art",
        course="line",
        course_m=20.0,
        estimator="e",
        controller="c",
        link="wires",
        version="1",
        started_ns=START,
    )
    ports = [port["name"] for port in RunConsole(rig.machine, facts).status(START)["ports"]]
    closed = replace(facts, closed_ports=frozenset(ports[:1]))
    assert [
        port["name"] for port in RunConsole(rig.machine, closed).status(START)["ports"]
    ] == ports[1:]


@pytest.mark.parametrize(
    ("lane", "shown"),
    [
        (None, "no obstacle sensor"),
        ({"free_m": None, "stop_m": 0.4}, "clear, a stop takes 0.40 m"),
        ({"free_m": 2.5, "stop_m": 0.4}, "free for 2.50 m, a stop takes 0.40 m"),
    ],
)
def test_the_status_shows_how_far_the_lane_is_free(
    lane: dict[str, float | None] | None, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rig = Rig()
    rig.drive()
    facts = RunFacts(
        profile="art",
        course="line",
        course_m=20.0,
        estimator="e",
        controller="c",
        link="messages",
        version="1",
        started_ns=START,
    )
    console = RunConsole(rig.machine, facts)
    assert console.status(START + 10**8)["lane"] is None
    situation = rig.machine.supervisor.inputs
    assert situation is not None
    if lane is not None:
        obstacle = situation.monitors.obstacle
        assert isinstance(obstacle, ObstacleMonitor)
        obstacle._read_ns[0.0, 0.0] = 0
        situation.monitors.obstacle.free_m = inf if lane["free_m"] is None else lane["free_m"]
        situation.monitors.stopping.distance_m = 0.4
    state = console.status(START + 10**8)
    assert state["lane"] == lane
    _show(state, as_json=False)
    assert shown in capsys.readouterr().out
