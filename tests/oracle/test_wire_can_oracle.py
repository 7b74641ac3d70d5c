"""CAN records and slcan lines against python-can: its codec of the kernel structure, and its serial
adapter on a pty."""

import os
import tty
from collections.abc import Iterator

import pytest
from can import Message
from can.interfaces.slcan import slcanBus
from can.interfaces.socketcan.socketcan import build_can_frame, dissect_can_frame
from hypothesis import given
from hypothesis import strategies as st

from tests.busy_computer import DEADLINE_S
from vehicled.core.wire.can import CanFrame, pack, unpack_all
from vehicled.core.wire.slcan import BITRATES, SlcanDecoder, SlcanLine, encode

frames = st.builds(
    lambda can_id, data, extended, remote: CanFrame(
        can_id if extended else can_id & 0x7FF,
        bytes(len(data)) if remote else data,
        extended,
        remote,
    ),
    st.integers(0, 0x1FFF_FFFF),
    st.binary(max_size=8),
    st.booleans(),
    st.booleans(),
)

EXAMPLES = [
    CanFrame(0x901, bytes.fromhex("00000bb8007b00fa")),
    CanFrame(0x1FFF_FFFF, b""),
    CanFrame(0x7FF, b"\xff", extended=False),
    CanFrame(0x001, bytes(8), extended=False, remote=True),
    CanFrame(0x801, bytes(3), remote=True),
    *(CanFrame(0x100 + size, bytes(range(size))) for size in range(9)),
]


def message(frame: CanFrame) -> Message:
    return Message(
        arbitration_id=frame.can_id,
        is_extended_id=frame.extended,
        is_remote_frame=frame.remote,
        dlc=len(frame.data),
        data=None if frame.remote else frame.data,
    )


def same(frame: CanFrame, other: Message) -> bool:
    return (
        frame.can_id == other.arbitration_id
        and frame.extended == other.is_extended_id
        and frame.remote == other.is_remote_frame
        and len(frame.data) == other.dlc
        and (frame.remote or frame.data == other.data)
    )


@given(frames)
def test_records_are_those_of_python_can(frame: CanFrame) -> None:
    record = build_can_frame(message(frame))
    assert unpack_all(record) == [frame]
    # Byte 7 is the raw DLC of controllers that send one above 8; python-can always fills it, and
    # the kernel ignores any up to 8.
    assert pack(frame) == record[:7] + b"\0" + record[8:]
    can_id, dlc, _, data = dissect_can_frame(pack(frame))
    assert (can_id & 0x1FFF_FFFF, dlc, data) == (frame.can_id, len(frame.data), frame.data)


@pytest.fixture
def adapter() -> Iterator[tuple[int, slcanBus]]:
    """The adapter's end of a line, and python-can as the host at the other end."""
    ours, theirs = os.openpty()
    try:
        tty.setraw(theirs)
        bus = slcanBus(os.ttyname(theirs), bitrate=500_000, sleep_after_open=0)
        try:
            yield ours, bus
        finally:
            bus.shutdown()
    finally:
        os.close(ours)
        os.close(theirs)


def test_as_adapter_we_understand_what_the_host_says(adapter: tuple[int, slcanBus]) -> None:
    ours, bus = adapter
    decoder = SlcanDecoder()
    assert decoder.feed(os.read(ours, 4096)) == [
        SlcanLine(b"C"),
        SlcanLine(b"S6"),
        SlcanLine(b""),
        SlcanLine(b"O"),
        SlcanLine(b"O"),
    ]
    assert BITRATES[500_000] == b"S6"
    for frame in EXAMPLES:
        bus.send(message(frame))
        assert decoder.feed(os.read(ours, 4096)) == [frame]
    assert decoder.bad_lines == 0


def test_the_host_understands_what_we_say_as_adapter(adapter: tuple[int, slcanBus]) -> None:
    ours, bus = adapter
    os.write(ours, b"\r\r\r" + b"".join(encode(frame) + b"z\r" for frame in EXAMPLES))
    all_received: list[Message] = []
    while len(all_received) < len(EXAMPLES):
        received = bus.recv(timeout=DEADLINE_S)
        assert received is not None
        all_received.append(received)
    assert all(
        same(frame, received) for frame, received in zip(EXAMPLES, all_received, strict=True)
    )
