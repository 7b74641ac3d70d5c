"""Check sums against published check values, and against the plain definition where the code takes
a short cut."""

from functools import reduce
from operator import xor

import pytest

from vehicled.core.wire.crc import crc8, crc16_xmodem, crc24q, crc32_plain, fletcher8, sum8, xor8

CHECK = b"123456789"


def plain_fletcher(data: bytes) -> bytes:
    a = b = 0
    for byte in data:
        a = (a + byte) & 255
        b = (b + a) & 255
    return bytes((a, b))


def test_published_check_values() -> None:
    assert crc8(CHECK) == 0xA1
    assert crc16_xmodem(CHECK) == 0x31C3
    assert crc24q(CHECK) == 0xCDE703
    assert crc32_plain(CHECK) == 0x2DFD2D88
    assert sum8(CHECK) == 0xDD
    assert xor8(CHECK) == 0x31


@pytest.mark.parametrize(
    "frame",
    [
        "b562 0a040000 0e34",
        "b562 01070000 0819",
        "b562 068a1400 0001000001002130640009009120012100112004 6ca3",
        "b562 05010200068a 98c1",
        "b562 05000200068a 97bc",
    ],
)
def test_ubx_frames(frame: str) -> None:
    data = bytes.fromhex(frame)
    assert fletcher8(data[2:-2]) == data[-2:]


def test_frames_of_other_protocols() -> None:
    assert fletcher8(bytes.fromhex("756501020201")) == bytes.fromhex("e0c6")  # MIP ping
    assert crc8(bytes.fromhex("fc403807")) == 0x8A  # FDILink header
    assert xor8(b"VNRRG,01") == 0x72
    assert sum8(bytes.fromhex("55510000ffff0708 7a03")) == 0x30  # WitMotion acceleration
    assert crc16_xmodem(bytes.fromhex("0800000bb8")) == 0xF804  # VESC, 3000 erpm
    # RTCM 1005 of the standard's own example: zero over the frame with its CRC.
    assert crc24q(bytes.fromhex("d300133ed7d30202980edeef34b4bd62ac0941986f33360b98")) == 0


@pytest.mark.parametrize(
    "size",
    [0, 1, 2, 3, 4, 100, 255, 256, 257, 361, 362, 363, 364, 723, 724, 725, 2_000, 8_200, 70_000],
)
def test_short_cuts_hold_at_every_size(size: int) -> None:
    """All ones are the worst case of the sums; the ramp distinguishes positions."""
    for data in (
        b"\xff" * size,
        bytes(position * 7 + 3 & 255 for position in range(size)),
        bytes(size),
    ):
        assert fletcher8(data) == plain_fletcher(data)
        assert xor8(data) == reduce(xor, data, 0)


def test_any_bytes_like_object_will_do() -> None:
    for function in (fletcher8, sum8, xor8, crc8, crc16_xmodem, crc24q):
        assert (
            function(CHECK) == function(bytearray(CHECK)) == function(memoryview(b"x" + CHECK)[1:])
        )


def test_a_sum_can_be_continued() -> None:
    assert crc24q(CHECK[4:], crc24q(CHECK[:4])) == crc24q(CHECK)
    assert crc8(CHECK[4:], crc8(CHECK[:4])) == crc8(CHECK)
