"""RTCM frames out of any stream: any cut gives the same frames, damage costs the damaged frames only, nothing raises."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.rtcm.census import Census
from drivers.rtcm.codec import MAX_FRAME_BYTES, FrameReader, Station, decode_station, encode, encode_station, message_type
from drivers.rtcm.device import RtcmDevice, RtcmParams
from drivers.rtcm.queue import FrameQueue
from tests.ntrip_caster import rtcm
from vehicled.messages import Corrections

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
    reader, census, total = FrameReader(), Census(), 0
    for number, chunk in enumerate(chunks):
        for frame in reader.feed(chunk):
            census.add(frame, number)
            total += len(frame)
        assert reader.buffered_bytes < MAX_FRAME_BYTES
    assert total + reader.dropped_bytes + reader.buffered_bytes == sum(map(len, chunks))


@given(st.binary(max_size=80), st.integers(1000, 1250) | st.integers(0, 4095), st.integers(0, 4095))
def test_a_census_takes_any_message(body: bytes, kind: int, station: int):
    frame = rtcm(kind, body, station)
    census = Census()
    census.add(frame, 1)
    (row,) = census.rows(2)
    assert (row.kind, row.count, row.octets) == (kind, 1, len(frame))
    assert message_type(frame) == kind


@given(
    st.integers(0, 4095),
    st.tuples(*[st.integers(-(2**37), 2**37 - 1)] * 3),
    st.none() | st.integers(0, 65_535),
    st.booleans(),
)
def test_stations_survive_both_ways(number: int, place: tuple[int, int, int], height: int | None, virtual: bool):
    x_m, y_m, z_m = (value / 1e4 for value in place)
    station = Station(number, x_m, y_m, z_m, float("nan") if height is None else height / 1e4, virtual)
    assert str(decode_station(encode_station(station))) == str(station)


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 3)), max_size=60), st.integers(1, 2_000), st.integers(0, 5))
def test_a_queue_never_holds_more_than_its_limit_and_loses_nothing_unseen(steps: list[tuple[int, int]], limit: int, max_age: int):
    queue, put, taken, now = FrameQueue(limit, max_age), [], [], 0
    for number, (size, what) in enumerate(steps):
        now += what
        if what < 3:
            put.append(encode(number.to_bytes(2, "big") + bytes(size)))
            queue.put(put[-1], now)
        else:
            taken += queue.take(now, size)
        assert queue.queued_bytes <= limit
    assert len(put) == len(taken) + queue.dropped_frames + len(queue)
    rest = iter(put)
    assert all(frame in rest for frame in taken), "taken in order, whole"


def captures(shared_data: Path) -> list[bytes]:
    folder = shared_data / "captures" / "rtcm"
    return [(folder / name).read_bytes() for name in ("pygnssutils__ntrip_encode_none.bin", "gpsd__rtcm3.2.log")]


@pytest.mark.parametrize("size", [1, 2, 7, 64, 1_000, 4_096])
def test_any_chunking_of_a_capture_gives_the_same_messages(shared_data: Path, size: int):
    for stream in captures(shared_data):
        whole = RtcmDevice(RtcmParams(), [Corrections], 1)
        pieces = RtcmDevice(RtcmParams(), [Corrections], 1)
        wanted = list(whole.on_rx(stream, 1))
        assert [m for at in range(0, len(stream), size) for m in pieces.on_rx(stream[at : at + size], 1)] == wanted
        assert (pieces.dropped_bytes, pieces.bad_frames) == (whole.dropped_bytes, whole.bad_frames)


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
    hit = sum(1 for frame in clean if (place := stream.find(frame)) < at + length and place + len(frame) > at)
    missing = sum(1 for frame in clean if frame not in got)
    assert missing <= max(hit, 1)
