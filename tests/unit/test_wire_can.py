"""CAN frames and their record, against the layout that the kernel documents."""

import ctypes
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vehicled.core.wire.can import RECORD_BYTES, CanFrame, error_texts, pack, unpack_all


class KernelFrame(ctypes.LittleEndianStructure):
    """``struct can_frame`` of ``linux/can.h``."""

    _fields_ = (
        ("can_id", ctypes.c_uint32),
        ("len", ctypes.c_uint8),
        ("pad", ctypes.c_uint8),
        ("res0", ctypes.c_uint8),
        ("len8_dlc", ctypes.c_uint8),
        ("data", ctypes.c_uint8 * 8),
    )


def test_a_record_is_the_kernel_structure() -> None:
    record = pack(CanFrame(0x901, bytes.fromhex("00000bb8007b00fa")))
    kernel = KernelFrame.from_buffer_copy(record)
    assert len(record) == ctypes.sizeof(KernelFrame) == RECORD_BYTES
    assert (kernel.can_id, kernel.len, bytes(kernel.data)) == (
        0x8000_0901,
        8,
        bytes.fromhex("00000bb8007b00fa"),
    )
    assert record == bytes.fromhex("01090080 08 000000 00000bb8007b00fa")


@pytest.mark.parametrize(
    ("frame", "word", "size"),
    [
        (CanFrame(0x1FFF_FFFF, b""), 0x9FFF_FFFF, 0),
        (CanFrame(0x7FF, b"\1\2", extended=False), 0x7FF, 2),
        (CanFrame(0x123, bytes(4), remote=True), 0xC000_0123, 4),
        (CanFrame(0x123, bytes(8), extended=False, remote=True), 0x4000_0123, 8),
        (CanFrame(0x40, b"\0\x10" + bytes(6), extended=False, error=True), 0x2000_0040, 8),
    ],
)
def test_flags(frame: CanFrame, word: int, size: int) -> None:
    record = pack(frame)
    assert struct.unpack_from("<IB", record) == (word, size)
    assert unpack_all(record) == [frame]


@pytest.mark.parametrize(
    "frame",
    [
        CanFrame(0x2000_0000, b""),
        CanFrame(0x800, b"", extended=False),
        CanFrame(-1, b""),
        CanFrame(1, bytes(9)),
        CanFrame(1, bytes(9), remote=True),
        CanFrame(0x2000_0000, b"", extended=False, error=True),
    ],
)
def test_what_no_bus_carries_is_refused(frame: CanFrame) -> None:
    with pytest.raises(ValueError, match="no CAN frame"):
        pack(frame)


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


@given(st.lists(frames, max_size=20))
def test_records_follow_each_other(sent: list[CanFrame]) -> None:
    assert unpack_all(b"".join(map(pack, sent))) == sent


@given(st.binary(max_size=200))
def test_arbitrary_records_do_not_raise_and_what_is_understood_can_be_packed(data: bytes) -> None:
    records = [data[at : at + 16] for at in range(0, len(data) - 15, 16)]
    understood = unpack_all(data)
    assert len(understood) == sum(record[4] <= 8 for record in records)
    for frame in understood:
        assert unpack_all(pack(frame))[0].data == frame.data
    assert unpack_all(data) == [frame for record in records for frame in unpack_all(record)]


def test_what_a_record_carries_beside_the_frame_is_ignored() -> None:
    noise = b"\xff\xff\xff" + b"\xee" * 8
    assert unpack_all(struct.pack("<IB", 0x8000_0901, 2) + noise) == [CanFrame(0x901, b"\xee\xee")]
    assert unpack_all(struct.pack("<IB", 0xC000_0901, 2) + noise) == [
        CanFrame(0x901, bytes(2), remote=True)
    ]
    assert unpack_all(struct.pack("<IB", 0x0000_F901, 0) + noise) == [
        CanFrame(0x101, b"", extended=False)
    ]
    assert unpack_all(struct.pack("<IB", 0xA000_0004, 8) + noise) == [
        CanFrame(4, b"\xee" * 8, extended=False, error=True)
    ]


def test_a_record_of_impossible_length_and_a_cut_one_cost_only_themselves() -> None:
    good = CanFrame(0x901, b"12345678")
    bad = pack(good)[:4] + b"\x09" + pack(good)[5:]
    assert unpack_all(bad + pack(good) + pack(good)[:15]) == [good]


def test_error_counters_alone_are_no_unknown_error() -> None:
    counters = bytes((0, 0, 0, 0, 0, 0, 96, 97))
    assert error_texts(CanFrame(0x200, counters, extended=False, error=True)) == [
        "error counters 96 sent, 97 received"
    ]
    assert error_texts(CanFrame(0x280, counters, extended=False, error=True))[0] == "bus error"
    assert error_texts(CanFrame(0x400, bytes(8), extended=False, error=True)) == [
        "error of unknown class"
    ]
