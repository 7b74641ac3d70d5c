"""Requests of the control socket: what each means, and what is refused before it reaches the
run."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from math import pi
from pathlib import Path
from typing import Any

import anyio
import msgspec
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.busy_computer import DEADLINE_S
from tests.conformance.port_kit import until
from tests.unit.test_machine import START, Rig
from vehicled.core.messages import CourseCommand, CourseKind, OperatorAction
from vehicled.daemon.live_changes import ChangeError
from vehicled.live.control_socket import server
from vehicled.live.control_socket.console import Console, RunFacts
from vehicled.live.control_socket.protocol import (
    GotoRequest,
    RequestError,
    ReturnRequest,
    parse,
    printable,
)
from vehicled.live.control_socket.server import PREPARATIONS, ControlServer
from vehicled.paths.catalog import load_course, names
from vehicled.paths.course import Course, course_from_waypoints
from vehicled.paths.errors import CourseError
from vehicled.paths.stored import from_bytes, to_bytes
from vehicled.runtime.planner.frames import Goal
from vehicled.runtime.planner.process import Asker, Planned

COURSE = load_course("straight_20m")


class Planner:
    """Stands in for the planning process: plans are ready when the test says so."""

    def __init__(self) -> None:
        self.begun, self.ready = anyio.Event(), anyio.Event()

    async def serve(self) -> None:
        await anyio.sleep_forever()

    def cancel(self, client: object, why: str) -> None:
        """Leave it to the console to call a course off."""

    async def goal(self, asker: Asker, goal: Goal) -> Planned:
        self.begun.set()
        await self.ready.wait()
        return Planned(COURSE, to_bytes(COURSE), asker.origin)

    async def course(self, asker: Asker, line: Sequence[bytes | bytearray]) -> Planned:
        request = msgspec.json.decode(b"".join(line))
        return Planned(
            COURSE, to_bytes(COURSE), request.get("origin", ""), request.get("kind", "course")
        )


class Planning(Console):
    """Console of a run that takes every course but those that a stop has called off."""

    def __init__(self) -> None:
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
        super().__init__(Rig().machine, facts)
        self.planner = Planner()
        self.taken: list[CourseCommand] = []
        self.prepared, self.fitting_ones = 0, 1
        """Number of preparations so far, and of that from which on they fit."""

    def goal(self, request: GotoRequest | ReturnRequest) -> Any:
        return request

    def fits(self, message: Any, prepared: Any) -> bool:
        return self.prepared >= self.fitting_ones

    def prepare(self, message: Any, course: Course | None = None) -> Any:
        self.prepared += 1
        return type("Prepared", (), {"course": COURSE})

    def change(self, message: Any, prepared: Any, now_ns: int, stops: int | None = None) -> str:
        refused = super().change(message, prepared, now_ns, stops) if stops != self.stops else ""
        if not refused:
            self.taken.append(message)
        return refused


@asynccontextmanager
async def served(path: Path) -> AsyncIterator[Planning]:
    console = Planning()
    async with anyio.create_task_group() as group:
        group.start_soon(ControlServer(path, lambda: START, planner=console.planner).serve, console)  # type: ignore[arg-type]
        await until(path.exists)
        yield console
        group.cancel_scope.cancel()


async def ask(path: Path, request: dict[str, Any]) -> dict[str, Any]:
    async with await anyio.connect_unix(path) as stream:
        await stream.send(json.dumps(request, separators=(",", ":")).encode() + b"\n")
        data = b""
        while not data.endswith(b"\n"):
            data += await stream.receive()
    answer: dict[str, Any] = json.loads(data)
    return answer


@pytest.mark.anyio
@pytest.mark.parametrize("stop", ["stop", "disarm", "emergency_stop", None])
async def test_a_stop_calls_off_a_place_that_is_still_planned(
    tmp_path: Path, stop: str | None
) -> None:
    path = tmp_path / "v.sock"
    answers: list[dict[str, Any]] = []
    async with served(path) as console, anyio.create_task_group() as group:

        async def goto() -> None:
            answers.append(await ask(path, {"do": "goto", "x_m": 5.0, "y_m": 1.0}))

        group.start_soon(goto)
        await console.planner.begun.wait()
        action = {"do": "status"} if stop is None else {"do": "request", "action": stop}
        assert (await ask(path, action))["ok"]
        console.planner.ready.set()
    if stop is None:
        assert (answers[0]["ok"], [message.kind for message in console.taken]) == (
            True,
            [CourseKind.GOTO],
        )
    else:
        assert (answers[0]["ok"], console.taken) == (False, [])
        assert "stopped after this was asked for" in answers[0]["why"]


@pytest.mark.anyio
@pytest.mark.parametrize(("fits_from", "taken"), [(PREPARATIONS, 1), (PREPARATIONS + 1, 0)])
async def test_a_change_that_fits_no_more_is_prepared_again_off_the_loop_or_refused(
    tmp_path: Path, fits_from: int, taken: int
) -> None:
    path = tmp_path / "v.sock"
    async with served(path) as console:
        console.fitting_ones = fits_from
        console.planner.ready.set()
        answer = await ask(path, {"do": "goto", "x_m": 5.0, "y_m": 1.0})
    assert (answer["ok"], len(console.taken), console.prepared) == (taken == 1, taken, PREPARATIONS)
    assert taken or "the vehicle moves on" in answer["why"]


@pytest.mark.anyio
async def test_a_course_keeps_what_it_was_made_for(tmp_path: Path) -> None:
    path = tmp_path / "v.sock"
    async with served(path) as console:
        console.planner.ready.set()
        for request in (
            {"do": "return"}, {"do": "course", "data": "AAAA", "kind": "mission"},
            {"do": "course", "data": "AAAA", "origin": "a\x1b[2Jb"},
        ):  # fmt: skip
            assert (await ask(path, request))["ok"]
    assert [message.kind for message in console.taken] == [
        CourseKind.RETURN,
        CourseKind.MISSION,
        CourseKind.GIVEN,
    ]
    assert console.taken[-1].origin == "a?[2Jb"


@pytest.mark.anyio
async def test_setpoints_that_come_too_fast_are_not_driven_by_when_they_are_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "BURST", 5.0)
    path = tmp_path / "v.sock"
    lines = [
        json.dumps(
            {"do": "setpoint", "speed_mps": 1.0, "curvature_per_m": 0.0, "sequence": k}
        ).encode()
        + b"\n"
        for k in range(100)
    ]
    async with served(path), await anyio.connect_unix(path) as stream:
        await stream.send(b"".join(lines))
        with anyio.fail_after(DEADLINE_S):
            assert b"setpoints per second" in await stream.receive()
            with pytest.raises(anyio.EndOfStream):
                await stream.receive()


@given(st.text(max_size=64), st.sampled_from(["stop", "arm", "emergency_stop"]))
def test_names_reach_no_terminal_with_characters_that_move_its_cursor(
    origin: str, action: str
) -> None:
    request = parse(json.dumps({"do": "request", "action": action, "origin": origin}).encode())
    assert request.origin == printable(origin)  # type: ignore[union-attr]
    assert printable(origin).isprintable()


@pytest.mark.parametrize(
    "line",
    [
        '{"do":"goto","x_m":NaN,"y_m":1}', '{"do":"goto","x_m":1e999,"y_m":1}',
        '{"do":"goto","latitude_deg":91,"longitude_deg":1}',
        '{"do":"goto","x_m":1,"y_m":1,"speed_mps":0}',
        '{"do":"goto","x_m":1,"y_m":1,"yaw_rad":101}', '{"do":"speed"}',
        '{"do":"speed","limit_mps":Infinity}', '{"do":"setpoint","speed_mps":NaN,"sequence":1}',
        '{"do":"setpoint","speed_mps":1,"curvature_per_m":0,"sequence":-1}',
        '{"do":"setpoint","speed_mps":1,"curvature_per_m":0,"sequence":1,"origin":""}',
        '{"do":"teleop","steering":1.1,"throttle":0,"deadman":true,"sequence":1}',
        '{"do":"teleop","steering":0,"throttle":0,"deadman":true,"sequence":1,"origin":""}',
        '{"do":"course","data":"AAAA","kind":"goto"}', '{"do":"request","action":"go"}',
        '{"do":"request","action":"arm","force":true}',
        '{"do":"set_parameter","key":"speed.p","value":NaN}', '{"do":"nothing"}', '[]',
    ],
)  # fmt: skip
def test_a_request_out_of_range_is_refused_by_name(line: str) -> None:
    with pytest.raises(RequestError, match="not a request"):
        parse(line.encode())


def test_nobody_means_the_place_where_latitude_and_longitude_are_0() -> None:
    console = Planning()
    with pytest.raises(ChangeError, match="place holder"):
        Console._place(console, GotoRequest(latitude_deg=0.0, longitude_deg=0.0))


def test_a_stop_is_counted_whatever_comes_of_it() -> None:
    console = Planning()
    for action in OperatorAction:
        before = console.stops
        console.request(action, "me", START)
        stops = action in (
            OperatorAction.STOP,
            OperatorAction.DISARM,
            OperatorAction.EMERGENCY_STOP,
        )
        assert console.stops == before + stops


# ------------------------------------------------------------------ courses that are sent


@pytest.mark.parametrize("name", sorted(names()))
def test_every_shipped_course_can_be_sent(name: str) -> None:
    course = load_course(name)
    assert (from_bytes(to_bytes(course)).x_m == course.x_m).all()


@given(
    st.lists(st.tuples(st.floats(-30, 30), st.floats(-30, 30)), min_size=2, max_size=10),
    st.booleans(), st.lists(st.sampled_from([1.0, -1.0]), min_size=10, max_size=10),
)  # fmt: skip
def test_every_course_through_waypoints_can_be_sent(
    places: list[tuple[float, float]], mixed: bool, speeds: list[float]
) -> None:
    x, y = zip(*places, strict=True)
    try:
        course = course_from_waypoints("a", x, y, speed=speeds[: len(x)] if mixed else None)
    except CourseError:
        assume(False)
    assert from_bytes(to_bytes(course)).closed is course.closed


def hostile(**columns: Any) -> Course:
    return replace(COURSE, **columns)


@pytest.mark.parametrize(
    ("course", "why"),
    [
        (hostile(yaw_rad=COURSE.yaw_rad + pi), "points against the line"),
        (hostile(speed_mps=-COURSE.speed_mps), "points against the line"),
        (hostile(yaw_rad=np.where(np.arange(len(COURSE.yaw_rad)) == 50, COURSE.yaw_rad + 2.5,
         COURSE.yaw_rad)), "points against"),
        (hostile(curvature_per_m=np.full_like(COURSE.curvature_per_m, 1e300)),
         "curvature is above"),
        (hostile(curvature_per_m=np.full_like(COURSE.curvature_per_m, np.nan)), "not finite"),
        (hostile(speed_mps=np.zeros_like(COURSE.speed_mps)), "target speed is 0"),
        (hostile(s_m=COURSE.s_m[::-1].copy()), "do not increase"),
        (hostile(x_m=COURSE.x_m * 10.0), "do not fit"),
        (COURSE.renamed("a" * 300), "longer than"),
        (COURSE.renamed("\x1b[2Ja"), "not printable"),
    ],
)  # fmt: skip
def test_a_course_that_contradicts_itself_is_refused(course: Course, why: str) -> None:
    with pytest.raises(CourseError, match=why):
        from_bytes(to_bytes(course))
