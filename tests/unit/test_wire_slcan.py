"""The text of serial CAN adapters, line by line."""

import pytest

from vehicled.core.wire.can import CanFrame
from vehicled.core.wire.slcan import CLOSING, LINE_LIMIT, SlcanDecoder, SlcanLine, encode, opening

LINES = [
    (
        b"T000009010800000BB8007B00FA\r".replace(b"0108", b"018"),
        CanFrame(0x901, bytes.fromhex("00000bb8007b00fa")),
    ),
    (b"t1230\r", CanFrame(0x123, b"", extended=False)),
    (b"t7FF2A1b2\r", CanFrame(0x7FF, b"\xa1\xb2", extended=False)),
    (b"R1FFFFFFF3\r", CanFrame(0x1FFF_FFFF, bytes(3), remote=True)),
    (b"r0018\r", CanFrame(0x001, bytes(8), extended=False, remote=True)),
    (b"x000003011AA\r", CanFrame(0x301, b"\xaa")),
    (b"\r", SlcanLine(b"")),
    (b"\a", SlcanLine(b"\a")),
    (b"z\r", SlcanLine(b"z")),
    (b"Z\r", SlcanLine(b"Z")),
    (b"F04\r", SlcanLine(b"F04")),
    (b"V1013\r", SlcanLine(b"V1013")),
    (b"NA123\r", SlcanLine(b"NA123")),
    (b"S6\r", SlcanLine(b"S6")),
    (b"O\r", SlcanLine(b"O")),
    (b"\nz\r", SlcanLine(b"z")),
]


@pytest.mark.parametrize(("line", "meaning"), LINES, ids=[repr(line) for line, _ in LINES])
def test_lines(line: bytes, meaning: CanFrame | SlcanLine) -> None:
    decoder = SlcanDecoder()
    assert decoder.feed(line) == [meaning]
    assert (decoder.bad_lines, decoder.dropped_bytes, decoder.buffered_bytes) == (0, 0, 0)


def test_frames_are_written_in_the_form_that_every_adapter_takes() -> None:
    assert (
        encode(CanFrame(0x901, bytes.fromhex("00000bb8007b00fa")))
        == b"T00000901800000BB8007B00FA\r"
    )
    assert encode(CanFrame(0x12, b"\xab", extended=False)) == b"t0121AB\r"
    assert encode(CanFrame(0x12, bytes(2), remote=True)) == b"R000000122\r"
    assert encode(CanFrame(0x12, b"", extended=False, remote=True)) == b"r0120\r"


@pytest.mark.parametrize(
    "frame",
    [
        CanFrame(0x2000_0000, b""),
        CanFrame(0x800, b"", extended=False),
        CanFrame(1, bytes(9)),
        CanFrame(1, b"", error=True),
    ],
)
def test_what_has_no_line_is_refused(frame: CanFrame) -> None:
    with pytest.raises(ValueError, match="slcan cannot express"):
        encode(frame)


@pytest.mark.parametrize(
    "line",
    [
        b"Tzzzz",
        b"T00000901",
        b"T0000090180000",
        b"T00000901800000BB8007B00FA00",
        b"T000009019000000000000000000",
        b"T2000000010A",
        b"t8000",
        b"t123",
        b"t1231A",
        b"t1231A_",
        b"t 1231AA",
        b"t+121AA",
        b"R00000123200",
        b"d12310A",
        b"B0000012310A",
        b"V10\xff13",
        b"\x00",
        b"z\nz",
        b"V" * (LINE_LIMIT + 1),
    ],
)
def test_a_bad_line_costs_itself_only(line: bytes) -> None:
    decoder = SlcanDecoder()
    good = CanFrame(0x901, b"ok")
    assert decoder.feed(line + b"\r" + encode(good)) == [good]
    assert (decoder.bad_lines, decoder.dropped_bytes, decoder.buffered_bytes) == (
        1,
        len(line) + 1,
        0,
    )


def test_a_refusal_inside_of_a_line_is_still_read() -> None:
    decoder = SlcanDecoder()
    assert decoder.feed(b"T0000\aS6\r") == [SlcanLine(b"\a"), SlcanLine(b"S6")]
    assert (decoder.bad_lines, decoder.dropped_bytes) == (1, 5)


def test_a_lost_end_of_line_costs_the_two_lines_it_parted() -> None:
    decoder = SlcanDecoder()
    frame = CanFrame(0x901, b"12345678")
    assert decoder.feed(encode(frame)[:-1] + encode(frame) * 2) == [frame]
    assert decoder.bad_lines == 1


def test_a_line_without_end_is_not_collected() -> None:
    decoder = SlcanDecoder()
    for _ in range(1_000):
        assert decoder.feed(b"T0123456789") == []
        assert decoder.buffered_bytes <= LINE_LIMIT
    assert decoder.feed(b"\r" + encode(CanFrame(1, b""))) == [CanFrame(1, b"")]
    assert (decoder.bad_lines, decoder.dropped_bytes) == (1, 11_001)


def test_time_stamps_are_expected_or_refused_never_guessed() -> None:
    line = b"t1231AA1F4B\r"
    assert SlcanDecoder(timestamp_digits=4).feed(line) == [CanFrame(0x123, b"\xaa", extended=False)]
    assert SlcanDecoder().feed(line) == []
    assert SlcanDecoder(timestamp_digits=4).feed(b"t1231AA\r") == []
    assert SlcanDecoder(timestamp_digits=4).feed(b"R0000012320001\r") == [
        CanFrame(0x123, bytes(2), remote=True)
    ]


def test_opening_works_in_whatever_state_the_adapter_is() -> None:
    assert opening(500_000) == b"\rC\rS6\rO\r"
    assert opening(1_000_000, listen_only=True) == b"\rC\rS8\rL\r"
    assert CLOSING == b"C\r"
    with pytest.raises(ValueError, match="no bit rate 300"):
        opening(300)
