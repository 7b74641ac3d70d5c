"""The lease on the actuators: leaving the scope by return, cancel or exception is the stop, and
nothing is commanded after it."""

import math
import time
from collections.abc import Callable, Coroutine, Sequence
from itertools import count
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from tests.unit.test_machine import MS, START, Rig, commands, sent
from vehicled.core.attribution import HOLDERS
from vehicled.core.events import LoopBlocked
from vehicled.core.link import LinkError
from vehicled.core.messages import Event, Mode
from vehicled.core.observers import Observers
from vehicled.daemon.machine import Outgoing
from vehicled.runtime.ending import Ending, Outcome
from vehicled.runtime.evidence import WallEvidenceSource
from vehicled.runtime.host import Host
from vehicled.runtime.lease import Lease, LeaseEndedError
from vehicled.runtime.wall import WallPump

pytestmark = pytest.mark.anyio


class Wires:
    """A transport that remembers."""

    def __init__(self) -> None:
        self.frames: list[Any] = []
        self.gone = False
        self.busy = anyio.Event()
        """Three frames have been sent."""

    async def serve(self, host: Host) -> None:
        await anyio.sleep(math.inf)

    def transmit(self, outgoing: Sequence[Outgoing], now_ns: int) -> None:
        if self.gone:
            raise LinkError("the link is gone")
        self.frames += outgoing
        if len(self.frames) == 3:
            self.busy.set()

    async def aclose(self) -> None:
        await checkpoint()
        self.frames.append("closed")


def driving() -> Rig:
    rig = Rig()
    rig.drive()
    rig.run(START + 100 * MS, START + 130 * MS)
    assert commands(rig.frames)[-1].throttle > 0.0
    return rig


async def until_cancelled(scope: anyio.CancelScope) -> None:
    scope.cancel()
    await anyio.sleep(math.inf)


async def at_once(scope: anyio.CancelScope) -> None:
    await checkpoint()


async def wrong(scope: anyio.CancelScope) -> None:
    await checkpoint()
    raise ValueError("no")


async def leave(
    rig: Rig, wires: Wires, by: Callable[[anyio.CancelScope], Coroutine[Any, Any, None]]
) -> Lease:
    now_ns = START + 130 * MS
    lease = Lease(rig.machine, wires, lambda: now_ns)
    with anyio.CancelScope() as scope, lease:
        lease.transmit(rig.machine.take_tx(), now_ns)
        await by(scope)
    return lease


@pytest.mark.parametrize("by", [at_once, until_cancelled, wrong])
async def test_every_way_out_is_the_stop(
    by: Callable[[anyio.CancelScope], Coroutine[Any, Any, None]],
) -> None:
    rig, wires = driving(), Wires()
    if by is wrong:
        with pytest.raises(ValueError, match="no"):
            await leave(rig, wires, by)
    else:
        await leave(rig, wires, by)
    last = commands(sent(wires.frames))[-1]
    assert (last.throttle, last.brake, last.mode) == (0.0, 1.0, Mode.AUTO)


async def test_nothing_is_commanded_outside() -> None:
    rig, wires = driving(), Wires()
    with pytest.raises(LeaseEndedError):
        Lease(rig.machine, wires).transmit([], 0)
    lease = await leave(rig, wires, at_once)
    count = len(wires.frames)
    with pytest.raises(LeaseEndedError):
        lease.transmit(rig.machine.brake_now(START + 140 * MS), START + 140 * MS)
    assert len(wires.frames) == count


async def test_a_link_that_is_gone_does_not_hide_why_one_left() -> None:
    async def lose(scope: anyio.CancelScope) -> None:
        wires.gone = True
        await wrong(scope)

    rig, wires = driving(), Wires()
    with pytest.raises(ValueError, match="no"):
        await leave(rig, wires, lose)


# ------------------------------------------------------------------------------- the pump holds one


class Goes:
    """A machine that always wants to drive, five hundred times a second."""

    def __init__(self) -> None:
        self.turns = 0
        self._due_ns = 0
        self.observers = Observers()

    def start(self, now_ns: int) -> None:
        self._due_ns = now_ns

    def next_due_ns(self) -> int:
        return self._due_ns

    def on_time(self, now_ns: int) -> None:
        self.turns += 1
        self._due_ns = now_ns + 2 * MS

    def take_tx(self) -> Sequence[Any]:
        return ["go"]

    def brake_now(self, now_ns: int) -> Sequence[Any]:
        return ["stop"]


class Ends:
    """A run that is over after some turns of the machine, or never."""

    def __init__(self, machine: Goes, after: float) -> None:
        self._machine, self._after = machine, after

    def turn(self, now_ns: int) -> Ending | None:
        return (
            Ending(Outcome.FINISHED, "driven", now_ns)
            if self._machine.turns >= self._after
            else None
        )


class Nowhere:
    def record(self, message: Any, log_time_ns: int) -> None:
        pass


def pump(
    wires: Wires, after: float, *services: Callable[[], Coroutine[Any, Any, None]]
) -> WallPump:
    machine = Goes()
    run = Ends(machine, after)
    return WallPump(machine, wires, run, WallEvidenceSource(HOLDERS), Nowhere(), services)  # type: ignore[arg-type]


def stopped(frames: Sequence[Any]) -> bool:
    """It went, the last command was the stop, and the ports were closed after it."""
    return frames[0] == "go" and frames[-2:] == ["stop", "closed"] and frames.count("stop") == 1


async def test_the_pump_stops_when_the_run_ends() -> None:
    wires = Wires()
    ending = await pump(wires, 5).run()
    assert ending.why == "driven"
    assert stopped(wires.frames)


async def test_the_pump_stops_when_it_is_cancelled() -> None:
    wires = Wires()
    with anyio.CancelScope() as scope:

        async def cancel() -> None:
            await wires.busy.wait()
            scope.cancel()

        await pump(wires, math.inf, cancel).run()
    assert scope.cancelled_caught
    assert stopped(wires.frames)


async def test_the_pump_stops_when_a_service_raises() -> None:
    wires = Wires()

    async def fail() -> None:
        await wires.busy.wait()
        raise ValueError("a mistake beside the pump")

    with pytest.raises(ExceptionGroup) as caught:
        await pump(wires, math.inf, fail).run()
    assert caught.group_contains(ValueError, match="beside the pump")
    assert stopped(wires.frames)


async def test_the_pump_stops_when_the_machine_raises() -> None:
    wires = Wires()
    driven = pump(wires, math.inf)
    turns = count()

    def fail(now_ns: int) -> None:
        driven._machine._due_ns = now_ns + 2 * MS  # type: ignore[attr-defined]
        if next(turns) == 3:
            raise ValueError("a mistake of the machine")

    driven._machine.on_time = fail  # type: ignore[method-assign]
    with pytest.raises(ExceptionGroup) as caught:
        await driven.run()
    assert caught.group_contains(ValueError, match="of the machine")
    assert stopped(wires.frames)


@pytest.mark.parametrize("where", ["on_time", "on_rx"])
async def test_a_turn_that_blocks_the_loop_is_named(where: str) -> None:
    events, turns, held = list[Any](), count(), list[int]()

    def hold(*_: Any) -> None:
        time.sleep(0.05)
        held.append(1)

    def on_time(now_ns: int) -> None:
        machine._due_ns = now_ns + 2 * MS  # type: ignore[attr-defined]
        if held:
            driven._end(Ending(Outcome.FINISHED, "held", now_ns))
        elif next(turns) == 20 and where == "on_time":
            hold()

    async def receive() -> None:
        if where == "on_rx":
            await anyio.sleep(0.02)
            driven.on_rx("gnss", b"", time.monotonic_ns())

    driven = pump(Wires(), math.inf, receive)
    machine = driven._machine
    machine.on_time, machine.on_rx = on_time, hold  # type: ignore[assignment,method-assign]
    driven._sink.record = lambda message, _: events.append(message)  # type: ignore[assignment,method-assign]
    await driven.run()
    named = [
        found for event in events if isinstance(event, Event) and (found := LoopBlocked.read(event))
    ]
    assert any("<locals>.hold" in each.where and each.after_ms >= 5.0 for each in named)
