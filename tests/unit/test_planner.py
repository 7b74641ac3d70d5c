"""The planning process: what it answers, whom it serves first, and that it may die, hang or be
flooded without harm to the run."""

import base64
import json
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from math import hypot
from pathlib import Path
from typing import Any

import anyio
import msgspec
import numpy as np
import pytest
from msgspec import structs

from tests.busy_computer import DEADLINE_S
from vehicled.core.messages import Event, Message
from vehicled.daemon.live_changes import ChangeError
from vehicled.paths.catalog import load_course
from vehicled.paths.course import Course, course_from_waypoints
from vehicled.paths.datum import Datum
from vehicled.paths.shortest import Pose
from vehicled.paths.stored import from_bytes, to_bytes
from vehicled.paths.waits import Wait
from vehicled.profile.loading import load_profile
from vehicled.runtime.planner import process
from vehicled.runtime.planner.frames import Goal, Opening, PlanFrameKind
from vehicled.runtime.planner.process import Asker, Planned, PlanningProcess
from vehicled.runtime.planner.work import Work
from vehicled.safety.fence import Fence, Polygon

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """One of the two is enough where a process is started for every test."""
    return str(request.param)


ART = load_profile("art")
LIMITS = structs.replace(ART.limits, max_new_course_m=300.0)
HERE = load_course("circle_r5_ccw")
FENCE = Fence(
    [Polygon(((-100.0, -100.0), (400.0, -100.0), (400.0, 100.0), (-100.0, 100.0)), name="yard")]
)
OPENING = Opening.of(ART.vehicle, LIMITS, HERE.datum, FENCE)


class Log:
    """Keeps the events of the planner."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def record(self, message: Message, now_ns: int) -> None:
        assert isinstance(message, Event)
        self.events.append(message.name)


@asynccontextmanager
async def planning() -> AsyncIterator[tuple[PlanningProcess, Log]]:
    log = Log()
    planner = PlanningProcess(OPENING, log.record, lambda: 0)
    planner.start()
    async with anyio.create_task_group() as group:
        group.start_soon(planner.serve)
        yield planner, log
        group.cancel_scope.cancel()


def goal(x_m: float, y_m: float) -> Goal:
    return Goal(
        start=Pose(0.0, 0.0, 0.0), x_m=x_m, y_m=y_m, yaw_rad=None, speed_mps=1.0, name="goto"
    )


def asker(origin: str = "me", program: int = 1) -> Asker:
    return Asker(object(), origin, program)


def line(data: bytes, **fields: Any) -> list[bytes]:
    """A client's line in pieces."""
    text = json.dumps({"do": "course", "data": base64.b64encode(data).decode(), **fields}).encode()
    return [text[:7], text[7:]]


async def test_a_path_comes_back_as_a_course_and_as_it_is_journalled() -> None:
    async with planning() as (planner, _):
        planned = await planner.goal(asker(), goal(30.0, 20.0))
    end = planned.course.x_m[-1], planned.course.y_m[-1]
    assert hypot(end[0] - 30.0, end[1] - 20.0) < 0.2
    again = from_bytes(planned.stored)
    for name in ("x_m", "y_m", "yaw_rad", "curvature_per_m", "s_m", "speed_mps"):
        column = getattr(planned.course, name)
        assert column.tobytes() == getattr(again, name).tobytes()
        assert not column.flags.writeable
    assert (again.name, again.datum, again.length_m) == (
        "goto",
        HERE.datum,
        planned.course.length_m,
    )


async def test_a_course_of_a_client_is_read_and_named() -> None:
    course = course_from_waypoints(
        "mine", [0.0, 50.0], [0.0, 1.0], closed=False, datum=HERE.datum, waits_s=[0.0, 5.0]
    )
    async with planning() as (planner, _):
        planned = await planner.course(
            asker(), line(to_bytes(course), origin="a program", kind="mission")
        )
    assert (planned.course.name, planned.origin, planned.kind) == ("mine", "a program", "mission")
    assert planned.course.waits == course.waits == (Wait(course.length_m, 5.0),)
    assert planned.stored == to_bytes(course)


@pytest.mark.parametrize("fields", [{"origin": "n" * 65}, {"kind": "goto"}, {"more": 1}])
def test_a_line_out_of_range_is_refused_by_name(fields: dict[str, Any]) -> None:
    work = Work(msgspec.msgpack.encode(OPENING))
    _, text = work.reply(PlanFrameKind.COURSE, b"".join(line(to_bytes(straight(20.0)), **fields)))
    assert text.startswith(b"not a request")


def straight(length_m: float, **changes: Any) -> Course:
    course = course_from_waypoints(
        "far", np.linspace(0.0, length_m, 9), np.zeros(9), closed=False, datum=HERE.datum
    )
    return replace(course, **changes)


def dense() -> Course:
    course = straight(20.0)
    x = np.linspace(0.0, 20.0, 20_000)
    zero = np.zeros(len(x))
    return replace(
        course, x_m=x, y_m=zero, yaw_rad=zero, curvature_per_m=zero, s_m=x, speed_mps=zero + 1.0
    )


@pytest.mark.parametrize(
    ("course", "said"),
    [
        (straight(310.0),
         "0.31 km long; during a run it may have 0.3 km (limits.max_new_course_m)"),
        (dense(), "20000 samples on 20.0 m"),
        (straight(20.0, name="\x1b[2J"), "the name of the course"),
        (straight(20.0, name="n" * 201), "the name of the course"),
        (straight(20.0, datum=Datum.from_degrees(48.0, 9.0)), "another origin"),
        (straight(20.0, speed_mps=np.full(201, -1.0), yaw_rad=np.full(201, np.pi)),
         "cannot reverse|reverse legs"),
        (straight(299.0, y_m=np.linspace(0.0, 150.0, 2991)), "outside the fence|do not fit"),
    ],
)  # fmt: skip
def test_a_course_that_may_not_be_driven_is_refused_with_the_reason(
    course: Course, said: str
) -> None:
    work = Work(msgspec.msgpack.encode(OPENING))
    if "reverse" in said and ART.vehicle.drive.top_reverse_speed_mps:
        pytest.skip("this vehicle reverses")
    head, text = work.reply(PlanFrameKind.COURSE, b"".join(line(to_bytes(course))))
    assert any(part in text.decode() for part in said.split("|")), text
    assert len(head) == 5
    assert text.decode().isprintable()


GARBAGE = [
    [b""], [b"\x00" * 5000], [b'{"do":"course"'], line(b""), line(b"x\x9c" + bytes(range(256))),
     line(to_bytes(HERE)[:-9]),
    [b'{"do":"course","data":"' + b"[" * 50_000], line(b"", more=1),
     [b'{"do":"course","data":"', b"A" * 3_000_000, b'"}'],
]  # fmt: skip


async def test_garbage_is_refused_and_the_process_lives_on() -> None:
    async with planning() as (planner, log):
        pid = planner.pid
        for garbage in GARBAGE:
            with pytest.raises(ChangeError):
                await planner.course(asker(), garbage)
        await planner.goal(asker(), goal(20.0, 20.0))
        assert planner.pid == pid
    assert not log.events


async def test_a_place_too_far_away_is_refused_with_the_limit() -> None:
    async with planning() as (planner, _):
        with pytest.raises(ChangeError, match=r"at most 0.3 km"):
            await planner.goal(asker(), goal(301.0, 0.0))
        with pytest.raises(ChangeError, match="outside the fence yard"):
            await planner.goal(asker(), goal(50.0, 150.0))


async def gather(*calls: Callable[[], Any]) -> list[Any]:
    """Run calls beside each other, begun in their order; return results or errors."""
    found: list[Any] = [None] * len(calls)

    async def call(index: int) -> None:
        try:
            found[index] = await calls[index]()
        except ChangeError as error:
            found[index] = str(error)

    async with anyio.create_task_group() as group:
        for index in range(len(calls)):
            group.start_soon(call, index)
            await anyio.lowlevel.checkpoint()
            await anyio.lowlevel.checkpoint()
    return found


async def test_the_newest_request_of_an_origin_takes_the_place_of_the_others() -> None:
    one, other = asker("one"), asker("other")
    async with planning() as (planner, _):
        found = await gather(
            lambda: planner.goal(one, goal(20.0, 1.0)),
            lambda: planner.goal(one, goal(30.0, 1.0)),
            lambda: planner.goal(other, goal(40.0, 1.0)),
            lambda: planner.goal(asker("one"), goal(50.0, 1.0)),
        )
    newer = "a newer request of the same client took its place"
    assert found[:2] == [newer, newer]
    ends = [round(float(planned.course.x_m[-1])) for planned in found[2:]]
    assert ends == [40, 50]


async def test_a_program_that_has_used_little_time_comes_first() -> None:
    order: list[str] = []

    async def ask(planner: PlanningProcess, origin: str, program: int) -> None:
        await planner.goal(asker(origin, program), goal(200.0, 50.0))
        order.append(origin)

    async with planning() as (planner, _):
        await ask(planner, "first", 1)
        async with anyio.create_task_group() as group:
            for k in range(6):
                group.start_soon(ask, planner, f"flood {k}", 1)
            await anyio.sleep(0.01)
            group.start_soon(ask, planner, "other", 2)
    assert order.index("other") < order.index("flood 4"), order


async def test_more_requests_than_may_wait_are_refused() -> None:
    async with planning() as (planner, _):
        found = await gather(
            *(
                lambda k=k: planner.goal(asker(f"{k}"), goal(20.0, 1.0))
                for k in range(process.MAX_WAITING + 6)
            )
        )
    assert sum("too many clients wait" in str(each) for each in found) >= 4
    assert sum(isinstance(each, Planned) for each in found) >= process.MAX_WAITING


async def test_a_request_is_called_off() -> None:
    me = asker()
    async with planning() as (planner, _):

        async def call_off() -> None:
            planner.cancel(me.client, "stop came after it")

        found = await gather(lambda: planner.goal(me, goal(200.0, 50.0)), call_off)
        assert found[0] == "stop came after it"
        assert isinstance(await planner.goal(me, goal(20.0, 1.0)), Planned)


async def test_a_process_that_dies_is_started_again_and_the_run_reports_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process, "RESTART_S", 0.05)
    async with planning() as (planner, log):
        await planner.goal(asker(), goal(20.0, 1.0))
        first = planner.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        with pytest.raises(ChangeError, match="the planning process ended and starts again"):
            await planner.goal(asker(), goal(20.0, 1.0))
        await planner.goal(asker(), goal(20.0, 1.0))
        assert planner.pid != first
    assert log.events == ["planner_gone"]


async def test_a_process_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "RESTART_S", 0.05)
    async with planning() as (planner, log):
        await planner.goal(asker(), goal(20.0, 1.0))
        hung = planner.pid
        assert hung is not None
        os.kill(hung, signal.SIGSTOP)
        with monkeypatch.context() as patch:
            patch.setattr(process, "PLAN_TIMEOUT_S", 0.2)
            with pytest.raises(ChangeError, match="the plan was not ready within"):
                await planner.goal(asker(), goal(20.0, 1.0))
        await planner.goal(asker(), goal(20.0, 1.0))
        assert planner.pid != hung
    assert log.events == ["planner_gone"]


def test_the_process_ends_with_the_daemon_and_loads_nothing_before_it_is_asked() -> None:
    planner = PlanningProcess(OPENING, Log().record, lambda: 0)
    planner.start()
    try:
        child, channel = planner._process, planner._channel
        assert child is not None
        assert channel is not None
        end_s = time.monotonic() + DEADLINE_S
        # It gives way first, and then waits.
        while _nice(child.pid) != min(os.nice(0) + 10, 19):
            assert time.monotonic() < end_s
            time.sleep(0.02)
        assert "numpy" not in Path(f"/proc/{child.pid}/maps").read_text()
        channel.shutdown(socket.SHUT_RDWR)
        assert child.wait(DEADLINE_S) == 0
    finally:
        planner.close()


def _nice(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[16])
