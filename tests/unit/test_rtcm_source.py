"""The plain corrections source, and what every source shares: frames, station, patience."""

from math import isnan

import msgspec
import pytest

from drivers.rtcm.codec import (
    MAX_FRAME_BYTES,
    FrameReader,
    decode_station,
    encode,
    message_type,
    name_of,
    station_of,
)
from drivers.rtcm.device import RtcmDevice, RtcmParams
from drivers.rtcm.watch import StallWatch
from tests.ntrip_caster import rtcm
from vehicled.core.messages import Corrections, Event, Fault, Message, PortState
from vehicled.core.ports import NEVER_NS, Reopen

S = 1_000_000_000
# The worked example of the standard's 1005 message, as printed in section 4.2 of RTCM 10403:
# station 2003, GPS only.
PRINTED_1005 = bytes.fromhex("d300133ed7d30202980edeef34b4bd62ac0941986f33360b98")


def test_the_printed_example_of_the_standard():
    (frame,) = FrameReader().feed(PRINTED_1005)
    assert message_type(frame) == 1005
    station = decode_station(frame)
    assert station is not None
    assert (station.number, station.x_m, station.y_m, station.z_m) == (
        2003,
        1114104.5999,
        -4850729.7108,
        3975521.4643,
    )
    assert isnan(station.antenna_height_m)
    assert not station.virtual


def test_a_height_belongs_to_message_1006():
    payload = PRINTED_1005[3:-3]
    # Type 1006: the same place, and the height in 0.1 mm.
    frame = encode(b"\x3e\xe7" + payload[2:] + (65_535).to_bytes(2, "big"))
    station, bare = decode_station(frame), decode_station(PRINTED_1005)
    assert station is not None
    assert bare is not None
    assert (station.number, station.antenna_height_m) == (2003, 6.5535)
    assert (station.x_m, station.y_m, station.z_m) == (bare.x_m, bare.y_m, bare.z_m)
    device = source()
    assert [type(message) for message in device.on_rx(PRINTED_1005 + frame, 1)] == [
        Event,
        Corrections,
        Corrections,
    ]
    moved = encode(payload[:-1] + bytes((payload[-1] ^ 1,)))
    assert [type(message) for message in device.on_rx(moved, 2)] == [Event, Corrections]
    assert [(name, use.used) for name, use in device.usage] == [("1005", 2), ("1006", 1)]


def test_frames_round_messages():
    assert encode(b"") == b"\xd3\x00\x00\x47\xea\x4b"
    assert len(encode(bytes(1023))) == MAX_FRAME_BYTES
    with pytest.raises(ValueError, match="1024 bytes"):
        encode(bytes(1024))
    assert message_type(encode(b"")) == 0
    assert FrameReader().feed(encode(b"") + encode(bytes(1023))) == [
        encode(b""),
        encode(bytes(1023)),
    ]


def test_a_start_with_reserved_bits_holds_nothing_back():
    frame = rtcm(1077, b"x" * 30)
    reader = FrameReader()
    assert reader.feed(b"\xd3\x04") == []
    assert reader.buffered_bytes == 0
    assert reader.feed(b"\xd3\xff\x00" + frame) == [frame]
    assert (reader.dropped_bytes, reader.bad_frames) == (5, 0)


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


def station(number: int, x_m: float, y_m: float, z_m: float) -> bytes:
    bits = 1005 << 140 | number << 128
    for place, value in enumerate((z_m, y_m, x_m)):
        bits |= (round(value * 1e4) & (1 << 38) - 1) << 40 * place
    return encode(bits.to_bytes(19, "big"))


def events_of(device: RtcmDevice, *arrivals: tuple[bytes, int]) -> list[Event]:
    return [
        each
        for frame, t_ns in arrivals
        for each in device.on_rx(frame, t_ns)
        if isinstance(each, Event)
    ]


def test_stations_that_alternate_or_move_are_no_event_per_message():
    device = source()
    first = station(1, 4_000_000.0, 1_000_000.0, 4_850_000.0)
    other = station(2, 4_000_010.0, 1_000_000.0, 4_850_000.0)
    events = events_of(device, *((frame, n * 10**9) for n in range(50) for frame in (first, other)))
    assert [msgspec.json.decode(event.fields)["station"] for event in events] == [1, 2]
    surveying = [
        (station(1, 4_000_000.0 + 0.01 * n, 1_000_000.0, 4_850_000.0), (100 + n) * 10**9)
        for n in range(1, 121)
    ]
    assert [event.t_ns // 10**9 for event in events_of(device, *surveying)] == [101, 161]
    assert [event.name for event in events_of(device, (first, 300 * 10**9))] == [
        "corrections_station"
    ]
    many = [
        (station(number, 4_000_000.0, 1_000_000.0, 4_850_000.0), 400 * 10**9)
        for number in range(100, 4000)
    ]
    assert len(events_of(device, *many)) == 7


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (station(7, 0.0, 0.0, 0.0), "all_zero"),
        (station(7, 400_000.0, 100_000.0, 485_000.0), "out_of_range"),
        (rtcm(1005), "unreadable"),
    ],
)
def test_a_base_without_a_place_is_named_once_and_its_messages_pass(frame: bytes, reason: str):
    device = source()
    passed = [message for n in range(3) for message in device.on_rx(frame, n)]
    (event,) = (message for message in passed if isinstance(message, Event))
    assert (event.name, msgspec.json.decode(event.fields)["reason"]) == ("message_unused", reason)
    assert sum(isinstance(message, Corrections) for message in passed) == 3
    assert device.usage.of("1005").used == 3
    assert sum(device.usage.of("1005").lost.values()) == 3


def test_half_a_frame_does_not_survive_its_connection():
    device = source()
    frame = rtcm(1077, b"x" * 30)
    device.on_rx(frame[:20], 1)
    device.on_port(PortState.LOST, "unplugged", 2)
    assert device.next_due_ns() == NEVER_NS
    device.on_port(PortState.OPENED, "", 3)
    assert [type(message) for message in device.on_rx(frame[20:] + frame, 4)] == [Corrections]


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
    assert (fault.code, fault.active, fault.reason) == (
        "corrections_stalled",
        True,
        "no RTCM 3 message for 20 s",
    )
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
