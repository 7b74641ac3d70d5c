"""The plain corrections source, and what every source shares: census, patience, the queue into a receiver."""

from math import isnan, nan

import msgspec
import pytest

from drivers.rtcm.census import MAX_STATIONS, Census
from drivers.rtcm.codec import (
    MAX_FRAME_BYTES,
    FrameReader,
    Station,
    decode_station,
    encode,
    encode_station,
    message_type,
    name_of,
    station_of,
)
from drivers.rtcm.device import RtcmDevice, RtcmParams
from drivers.rtcm.queue import FrameQueue
from drivers.rtcm.watch import StallWatch
from tests.ntrip_caster import rtcm
from vehicled.messages import Corrections, Event, Fault, Message, PortState
from vehicled.ports import NEVER_NS, Reopen

S = 1_000_000_000
# The worked example of the standard's 1005 message, as printed in section 4.2 of RTCM 10403: station 2003, GPS only.
PRINTED_1005 = bytes.fromhex("d300133ed7d30202980edeef34b4bd62ac0941986f33360b98")


def test_the_printed_example_of_the_standard():
    (frame,) = FrameReader().feed(PRINTED_1005)
    assert message_type(frame) == 1005
    station = decode_station(frame)
    assert station is not None
    assert (station.number, station.x_m, station.y_m, station.z_m) == (2003, 1114104.5999, -4850729.7108, 3975521.4643)
    assert isnan(station.antenna_height_m)
    assert not station.virtual


@pytest.mark.parametrize(
    "station",
    [
        Station(0, 0.0, 0.0, 0.0, 0.0),
        Station(4095, -6378137.1234, 6378137.4321, -1e-4, 6.5535, True),
        Station(25, 13743895.3471, -13743895.3472, 1.0, 1.5),
    ],
)
def test_stations_survive_both_ways(station: Station):
    frame = encode_station(station)
    assert frame == rtcm(1006, frame[6:-3], station.number)
    assert decode_station(frame) == station
    bare = decode_station(encode_station(Station(station.number, station.x_m, station.y_m, station.z_m, nan)))
    assert bare is not None
    assert bare.distance_m(station) == 0.0


def test_frames_round_messages():
    assert encode(b"") == b"\xd3\x00\x00\x47\xea\x4b"
    assert len(encode(bytes(1023))) == MAX_FRAME_BYTES
    with pytest.raises(ValueError, match="1024 bytes"):
        encode(bytes(1024))
    assert message_type(encode(b"")) == 0
    assert FrameReader().feed(encode(b"") + encode(bytes(1023))) == [encode(b""), encode(bytes(1023))]


def test_a_start_with_reserved_bits_holds_nothing_back():
    frame = rtcm(1077, b"x" * 30)
    reader = FrameReader()
    assert reader.feed(b"\xd3\x04") == []
    assert reader.buffered_bytes == 0
    assert reader.feed(b"\xd3\xff\x00" + frame) == [frame]
    assert (reader.dropped_bytes, reader.bad_frames) == (5, 2)


def test_short_messages_are_no_stations():
    assert decode_station(rtcm(1005)) is None
    assert decode_station(rtcm(1006, bytes(16))) is None
    assert station_of(encode(b"\x3e\xd0")) is None
    assert station_of(rtcm(1019)) is None
    assert station_of(rtcm(1077)) == 25


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (1005, "station position"),
        (1077, "GPS MSM7"),
        (1084, "GLONASS MSM4"),
        (1127, "BeiDou MSM7"),
        (1137, "NavIC MSM7"),
        (1078, "unknown"),
        (1060, "state space corrections"),
        (4072, "u-blox proprietary"),
        (4050, "proprietary"),
        (0, "filler"),
        (999, "unknown"),
    ],
)
def test_names(kind: int, name: str):
    assert name_of(kind) == name


def test_a_census_counts_rates_and_lacks():
    census = Census()
    for tick in range(100):
        census.add(rtcm(1077, bytes(100)), tick * S // 5)
        if tick % 5 == 0:
            census.add(rtcm(1087, bytes(50)), tick * S // 5)
    assert census.missing() == ["the station position (1005 or 1006)", "the GLONASS biases (1230 or 1033)"]
    now_ns = 99 * S // 5
    gps, glonass = census.rows(now_ns)
    assert (gps.kind, gps.name, gps.count, gps.octets, gps.last_ns) == (1077, "GPS MSM7", 100, 100 * 109, now_ns)
    assert gps.rate_hz == pytest.approx(5.0)
    assert glonass.rate_hz == pytest.approx(1.0, rel=0.1)
    assert census.rows(now_ns + 1000 * S)[0].rate_hz < 0.05
    assert (census.frames, census.octets) == (120, 100 * 109 + 20 * 59)
    assert (census.count(1077), census.count(1)) == (100, 0)
    census.add(rtcm(1230), now_ns)
    assert isnan(census.rows(now_ns)[-1].rate_hz)
    place = Station(25, 1.0, 2.0, 3.0, 0.1)
    assert census.add(encode_station(place), now_ns)
    assert census.missing() == []
    assert not census.add(encode_station(Station(25, 1.0, 2.0, 3.0)), now_ns), "the same place, told without the height"
    assert census.add(encode_station(Station(25, 1.0, 2.0, 3.5)), now_ns)
    for number in range(100):
        census.add(rtcm(1077, station=number), now_ns)
    assert len(census.stations) == MAX_STATIONS
    assert census.stations[0] == 25


def test_a_full_queue_gives_up_its_oldest_frames_whole():
    queue = FrameQueue(limit_bytes=1_000, max_age_ns=5 * S)
    frames = [rtcm(1077, bytes([number]) * 291) for number in range(10)]
    for number, frame in enumerate(frames):
        queue.put(frame, number * S // 100)
        assert queue.queued_bytes <= 1_000
    assert (len(queue), queue.dropped_frames, queue.dropped_bytes) == (3, 7, 7 * 300)
    assert queue.take(S, 700) == frames[7:9]
    assert queue.take(S, 10) == [frames[9]]
    assert (queue.take(S, 10), queue.queued_bytes) == ([], 0)
    queue.put(bytes(1_001), S)
    assert (len(queue), queue.dropped_frames) == (0, 8)
    queue.put(frames[0], S)
    queue.put(frames[1], 7 * S)
    assert queue.take(7 * S, 1_000) == [frames[1]]
    queue.put(frames[0], 8 * S)
    queue.clear()
    assert (len(queue), queue.queued_bytes, queue.dropped_frames) == (0, 0, 10)


def test_timeout():
    watch = StallWatch(10 * S)
    assert watch.due_ns == NEVER_NS
    watch.expect(5 * S)
    assert watch.due_ns == 15 * S
    watch.on_frame(7 * S)
    assert watch.due_ns == 17 * S
    for _ in range(50):
        watch.expire()
        assert watch.due_ns == NEVER_NS
    watch.expect(0)
    assert watch.due_ns == 300 * S
    watch.on_frame(S)
    assert watch.due_ns == 11 * S
    endless = StallWatch(0)
    endless.expect(S)
    assert endless.due_ns == NEVER_NS
    assert StallWatch(1000 * S).timeout_ns == 1000 * S


def source(**params: object) -> RtcmDevice:
    device = RtcmDevice(msgspec.convert(params, RtcmParams), [Corrections], 1)
    device.on_port(PortState.OPENED, "/dev/radio", 0)
    return device


def test_frames_become_corrections_and_a_station_is_reported():
    device = source(origin="radio")
    frame = rtcm(1077, b"x" * 30)
    assert list(device.on_rx(frame, 7)) == [Corrections(7, 7, "radio", frame)]
    event, corrections = device.on_rx(b"noise" + PRINTED_1005, 8)
    assert isinstance(event, Event)
    assert msgspec.json.decode(event.fields) == {
        "origin": "radio",
        "station": 2003,
        "ecef_m": [1114104.5999, -4850729.7108, 3975521.4643],
        "virtual": False,
    }
    assert corrections == Corrections(8, 8, "radio", PRINTED_1005)
    assert list(device.on_rx(PRINTED_1005, 9)) == [Corrections(9, 9, "radio", PRINTED_1005)]
    assert device.dropped_bytes == 5
    assert device.census.frames == 3


def test_half_a_frame_does_not_survive_its_connection():
    device = source()
    frame = rtcm(1077, b"x" * 30)
    device.on_rx(frame[:20], 1)
    device.on_port(PortState.LOST, "unplugged", 2)
    assert device.next_due_ns() == NEVER_NS
    device.on_port(PortState.OPENED, "", 3)
    assert [type(message) for message in device.on_rx(frame[20:] + frame, 4)] == [Corrections]
    assert device.dropped_bytes == len(frame)


def test_silence_reopens_with_growing_timeout_and_is_reported_once():
    device = source(stall_s=20.0)
    now_ns = 0
    reopened: list[int] = []
    faults: list[Message] = []
    for _ in range(3):
        now_ns = device.next_due_ns()
        faults += device.on_time(now_ns)
        (action,) = device.take_tx()
        assert isinstance(action, Reopen)
        reopened.append(now_ns // S)
        device.on_port(PortState.OPENED, "", now_ns)
    assert reopened == [20, 60, 140]
    (fault,) = faults
    assert isinstance(fault, Fault)
    assert (fault.code, fault.active, fault.reason) == ("corrections_stalled", True, "no RTCM 3 message for 20 s")
    cleared, _ = device.on_rx(rtcm(1077), now_ns)
    assert isinstance(cleared, Fault)
    assert not cleared.active
    assert device.next_due_ns() == now_ns + 20 * S


def test_a_lost_port_is_not_asked_to_open_anew():
    device = source()
    device.on_time(device.next_due_ns())
    device.on_port(PortState.LOST, "unplugged", 21 * S)
    assert not device.take_tx()


def test_a_source_may_be_silent_for_ever_when_that_is_asked_for():
    assert source(stall_s=0.0).next_due_ns() == NEVER_NS


def test_what_a_false_start_holds_back_comes_after_a_silence():
    device = source()
    frame = rtcm(1077, b"x" * 30)
    assert list(device.on_rx(b"\xd3\x03\xff" + frame, 5 * S)) == []
    assert device.next_due_ns() == 7 * S
    assert list(device.on_time(7 * S)) == [Corrections(5 * S, 5 * S, "rtcm", frame)]
    assert device.next_due_ns() == 27 * S
