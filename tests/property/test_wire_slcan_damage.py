"""The slcan decoder on streams that are cut and damaged anywhere."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from vehicled.core.wire.can import CanFrame
from vehicled.core.wire.slcan import LINE_LIMIT, SlcanDecoder, SlcanLine, encode

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
answers = st.sampled_from(
    [
        SlcanLine(b""),
        SlcanLine(b"\a"),
        SlcanLine(b"z"),
        SlcanLine(b"Z"),
        SlcanLine(b"F00"),
        SlcanLine(b"V1013"),
    ]
)
streams = st.lists(st.one_of(frames, frames, answers), max_size=30)


def line(item: CanFrame | SlcanLine) -> bytes:
    if isinstance(item, CanFrame):
        return encode(item)
    return item.text if item.text == b"\a" else item.text + b"\r"


def chunks_of(stream: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    return [stream[begin:end] for begin, end in pairwise(places)]


@given(streams, st.lists(st.integers(0, 10**6), max_size=40))
def test_what_was_written_is_read_however_it_is_cut(
    items: list[CanFrame | SlcanLine], cuts: list[int]
) -> None:
    decoder = SlcanDecoder()
    stream = b"".join(map(line, items))
    assert [found for chunk in chunks_of(stream, cuts) for found in decoder.feed(chunk)] == items
    assert (decoder.bad_lines, decoder.dropped_bytes, decoder.buffered_bytes) == (0, 0, 0)


@given(
    streams,
    st.integers(0, 10**6),
    st.integers(0, 255),
    st.sampled_from(["replace", "insert", "delete"]),
)
def test_one_bad_byte_costs_at_most_two_lines(
    items: list[CanFrame | SlcanLine], place: int, byte: int, accident: str
) -> None:
    lines = list(map(line, items))
    stream = b"".join(lines)
    at = place % (len(stream) + 1)
    rest = at if accident == "insert" else at + 1
    found = SlcanDecoder().feed(
        stream[:at] + (b"" if accident == "delete" else bytes([byte])) + stream[rest:] + b"\r"
    )
    hit, begin = 0, 0
    for index, each in enumerate(lines):
        hit, begin = (index, begin) if begin <= at else (hit, begin)
        begin += len(each)
    untouched = items[: max(hit, 0)], items[hit + 2 :]
    assert found[: len(untouched[0])] == untouched[0]
    assert not untouched[1] or found[-1 - len(untouched[1]) : -1] == untouched[1]


atoms = st.sampled_from(
    [
        b"T",
        b"t",
        b"0",
        b"1",
        b"8",
        b"F",
        b"\r",
        b"\a",
        b"\n",
        b"z",
        b"\xff",
        b"d",
        b"V" * 60,
        b"00000901",
        b"\x00",
    ]
)


@given(
    st.lists(st.one_of(atoms, st.binary(max_size=20)), max_size=60),
    st.integers(0, 8),
    st.lists(st.integers(0, 10**6), max_size=9),
)
def test_arbitrary_bytes(parts: list[bytes], digits: int, cuts: list[int]) -> None:
    stream = b"".join(parts)
    whole, pieces = SlcanDecoder(digits), SlcanDecoder(digits)
    found = []
    for chunk in chunks_of(stream, cuts):
        found += pieces.feed(chunk)
        assert pieces.buffered_bytes <= LINE_LIMIT
    assert found == whole.feed(stream)
    counters = (whole.bad_lines, whole.dropped_bytes, whole.buffered_bytes)
    assert counters == (pieces.bad_lines, pieces.dropped_bytes, pieces.buffered_bytes)
    for item in found:
        if isinstance(item, CanFrame):
            assert SlcanDecoder().feed(encode(item)) == [item]
