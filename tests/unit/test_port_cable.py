"""The check of a cable names the direction that does not work, from either end."""

import os
import tty
from collections.abc import Iterator

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conformance.port_kit import until
from vehicled.core.messages import PortState
from vehicled.core.wire.can import CanFrame, pack
from vehicled.runtime.ports import make_port
from vehicled.runtime.ports.cable import ENOUGH, CableCheck
from vehicled.runtime.ports.contract import PortCounts


class Wire:
    """Port at one end of a cable that passes everything at once, or nothing."""

    def __init__(self) -> None:
        self.name = "cable"
        self.trouble = ""
        self.counts = PortCounts(opened=1)
        self.to: CableCheck | None = None
        self.sent: list[bytes] = []

    def send(self, data: bytes, deadline_ns: int, now_ns: int) -> bool:
        self.sent.append(data)
        if self.to is not None:
            self.to.on_rx("cable", data, now_ns)
        return True


def pair(*, frames: bool = False) -> tuple[tuple[CableCheck, Wire], tuple[CableCheck, Wire]]:
    wires = Wire(), Wire()
    checks = [CableCheck(wire, frames=frames) for wire in wires]  # type: ignore[arg-type]
    return (checks[0], wires[0]), (checks[1], wires[1])


@pytest.mark.parametrize("frames", [False, True])
def test_each_end_knows_which_direction_works(frames: bool) -> None:
    (one, from_one), (other, from_other) = pair(frames=frames)
    for check in (one, other):
        check._ask()
    assert "nothing arrives" in one.verdict()
    from_one.to = other
    one._ask()
    assert "the other end sends but receives nothing" in other.verdict()
    assert "nothing arrives" in one.verdict()
    from_other.to = one
    for check in (one, other):
        check._ask()
        check._ask()
    assert one.works
    assert other.works
    assert one.verdict().startswith("both directions work: round trip ")


def test_an_end_that_receives_itself_says_so() -> None:
    (one, from_one), _ = pair()
    from_one.to = one
    one._ask()
    assert "this end receives what it sends" in one.verdict()
    assert not one.works


def test_other_traffic_is_named() -> None:
    (one, _), _ = pair()
    one.on_rx("cable", bytes(200), 0)
    assert "bytes arrived that are not of this check: another line rate" in one.verdict()
    (bus, _), _ = pair(frames=True)
    bus.on_rx("cable", pack(CanFrame(0x123, b"12345678", False, False)), 0)
    assert "frames of others" in bus.verdict()


@given(st.lists(st.binary(max_size=80), max_size=20), st.booleans())
def test_no_bytes_are_a_cable_or_an_error(pieces: list[bytes], frames: bool) -> None:
    (one, _), _ = pair(frames=frames)
    for piece in pieces:
        one.on_rx("cable", piece, 0)
        assert len(one._rest) <= 64
    assert not one.works
    assert one.verdict()


@given(st.integers(1, 40))
def test_questions_are_understood_however_they_are_cut(size: int) -> None:
    (one, from_one), (other, _) = pair()
    for _ in range(3):
        one._ask()
    text = b"".join(from_one.sent)
    for at in range(0, len(text), size):
        other.on_rx("cable", text[at : at + size], 0)
    assert other.questions == 3
    assert other.strange_bytes == 0


@pytest.fixture
def ends() -> Iterator[tuple[str, int]]:
    """A pseudo-terminal, and the descriptor of its other side."""
    master, slave = os.openpty()
    tty.setraw(slave)
    os.set_blocking(master, False)
    yield os.ttyname(slave), master
    os.close(master)
    os.close(slave)


@pytest.mark.anyio
async def test_a_cable_is_checked_over_a_real_port(ends: tuple[str, int]) -> None:
    path, far = ends
    check = CableCheck(make_port("cable", f"serial:{path}"), frames=False)
    (_, _), (other, wire) = pair()

    async def far_end() -> None:
        while True:
            try:
                other.on_rx("cable", os.read(far, 4096), 0)
            except BlockingIOError:
                await anyio.sleep(0.001)
            for data in wire.sent:
                os.write(far, data)
            wire.sent.clear()

    async with anyio.create_task_group() as group:
        group.start_soon(far_end)
        group.start_soon(check.run, 60.0)
        await until(lambda: check._port.counts.opened)
        for _ in range(ENOUGH):
            other._ask()
        await until(lambda: check.works)
        group.cancel_scope.cancel()
    await check._port.aclose()
    assert check.verdict().startswith("both directions work")
    check.on_port("cable", PortState.LOST, "", 0)
