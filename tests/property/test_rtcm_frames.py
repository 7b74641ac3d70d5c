"""RTCM frames out of any stream: any cut gives the same frames, damage costs the damaged frames
only, nothing raises."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.rtcm.codec import MAX_FRAME_BYTES, FrameReader, decode_station, encode, message_type
from drivers.rtcm.device import RtcmDevice, RtcmParams
from tests.ntrip_caster import rtcm
from vehicled.core.messages import Corrections

payloads = st.one_of(
    st.binary(max_size=300),
    # Looks like frames inside a frame.
    st.just(b"\xd3\x00\x05" * 30),
    st.just(encode(b"inner")),
)
frames_of = st.lists(payloads.map(encode), max_size=8)
FLUSH = bytes(MAX_FRAME_BYTES)


def cut(data: st.DataObject, stream: bytes) -> list[bytes]:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    return [stream[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(stream)])]


@given(frames_of, st.data())
def test_any_chunking_gives_the_same_frames(frames: list[bytes], data: st.DataObject):
    reader = FrameReader()
    got = [frame for chunk in cut(data, b"".join(frames)) for frame in reader.feed(chunk)]
    assert got == frames
    assert (reader.dropped_bytes, reader.bad_frames, reader.buffered_bytes) == (0, 0, 0)


@given(frames_of, st.data())
def test_damage_costs_at_most_the_damaged_frames(frames: list[bytes], data: st.DataObject):
    stream, kept = bytearray(), []
    for frame in frames:
        body = bytearray(frame)
        match data.draw(st.sampled_from(["leave", "leave", "flip", "insert", "delete", "cut"])):
            case "flip":
                body[data.draw(st.integers(0, len(body) - 1))] ^= data.draw(st.integers(1, 255))
            case "insert":
                at = data.draw(st.integers(1, len(body) - 1))
                body[at:at] = data.draw(st.binary(min_size=1, max_size=5))
            case "delete":
                del body[data.draw(st.integers(0, len(body) - 1))]
            case "cut":
                del body[data.draw(st.integers(0, len(body) - 1)) :]
            case _:
                kept.append(frame)
        stream += body
    reader = FrameReader()
    got = reader.feed(bytes(stream)) + reader.feed(FLUSH)
    rest = iter(got)
    assert all(frame in rest for frame in kept)


@given(st.lists(st.binary(max_size=400), max_size=20))
def test_random_bytes_never_raise_and_are_accounted_for(chunks: list[bytes]):
    reader, total = FrameReader(), 0
    for chunk in chunks:
        for frame in reader.feed(chunk):
            decode_station(frame)
            total += len(frame)
        assert reader.buffered_bytes < MAX_FRAME_BYTES
    assert total + reader.dropped_bytes + reader.buffered_bytes == sum(map(len, chunks))


@given(st.binary(max_size=80), st.integers(1000, 1250) | st.integers(0, 4095), st.integers(0, 4095))
def test_any_message_has_its_type(body: bytes, kind: int, station: int):
    frame = rtcm(kind, body, station)
    decode_station(frame)
    assert message_type(frame) == kind


def captures(shared_data: Path) -> list[bytes]:
    folder = shared_data / "captures" / "rtcm"
    return [
        (folder / name).read_bytes()
        for name in ("pygnssutils__ntrip_encode_none.bin", "gpsd__rtcm3.2.log")
    ]


@pytest.mark.parametrize("size", [1, 2, 7, 64, 1_000, 4_096])
def test_any_chunking_of_a_capture_gives_the_same_messages(shared_data: Path, size: int):
    for stream in captures(shared_data):
        whole = RtcmDevice(RtcmParams(), [Corrections], 1)
        pieces = RtcmDevice(RtcmParams(), [Corrections], 1)
        wanted = list(whole.on_rx(stream, 1))
        assert [
            m for at in range(0, len(stream), size) for m in pieces.on_rx(stream[at : at + size], 1)
        ] == wanted


@given(data=st.data())
def test_damage_to_a_capture_costs_at_most_what_it_hit(shared_data: Path, data: st.DataObject):
    """Few examples over a stream of real observations, which are full of false starts."""
    stream = captures(shared_data)[0][:8_000]
    clean = FrameReader().feed(stream)
    at = data.draw(st.integers(0, len(stream) - 40))
    length = data.draw(st.integers(1, 30))
    junk = data.draw(st.binary(max_size=40))
    damaged = stream[:at] + junk + stream[at + length :]
    reader = FrameReader()
    got = reader.feed(damaged) + reader.flush()
    hit = sum(
        1
        for frame in clean
        if (place := stream.find(frame)) < at + length and place + len(frame) > at
    )
    missing = sum(1 for frame in clean if frame not in got)
    assert missing <= max(hit, 1)
