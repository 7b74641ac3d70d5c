"""VESC streams cut, damaged and mixed at will: nothing raises, nothing grows, and only what was
damaged is lost."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.vesc.canbus import (
    Can,
    CanMessage,
    CanSetpoint,
    Fill,
    ForeignFrame,
    ProcessBuffer,
    Reassembler,
    Status,
    Status2,
    Status3,
    Status4,
    Status5,
    Status6,
    decode_can,
    encode_can,
    split_comm,
)
from drivers.vesc.comm import (
    MAX_PAYLOAD_BYTES,
    Comm,
    FwVersion,
    Selective,
    SetCommand,
    decode_comm,
    encode_comm,
)
from drivers.vesc.device import VescCan, VescUart
from drivers.vesc.params import CanParams, UartParams
from drivers.vesc.uart import LONGEST_FRAME_BYTES, UartDecoder, decode, frame_uart
from drivers.vesc.values import ALL_FIELDS, Values, ValuesLayout
from vehicled.core.messages import ActuatorCommand, MotorStatus, WheelSpeed
from vehicled.core.wire.can import CanFrame, pack

VALUES = Values(
    fet_temperature_c=30.0,
    duty=0.1,
    erpm=2000.0,
    input_voltage_v=20.0,
    fault_code=0,
    tachometer=2,
    absolute_tachometer=3,
)
PAYLOADS = [
    encode_comm(VALUES),
    encode_comm(VALUES, ValuesLayout.DQ_VOLTAGES),
    encode_comm(FwVersion(6, 0, "60", bytes(12), 0, 0, 0)),
    b"\x11" + bytes(range(256)) + bytes(150),
    encode_comm(SetCommand(Comm.SET_SERVO_POS, 0.75)),
]
STREAM = b"".join(map(frame_uart, PAYLOADS))
payloads = st.binary(min_size=1, max_size=MAX_PAYLOAD_BYTES)
shorts = st.integers(-(2**15), 2**15 - 1)
longs = st.integers(-(2**31), 2**31 - 1)


def flushed(decoder: UartDecoder, chunks: list[bytes]) -> list[bytes]:
    found = [payload for chunk in chunks for payload in decoder.feed(chunk)]
    return found + decoder.flush()


@given(data=st.data())
def test_any_chunking_of_a_serial_line_gives_the_same_packets(data) -> None:
    noise = data.draw(st.binary(max_size=40))
    stream = noise + STREAM + noise + STREAM
    chunks = []
    rest = stream
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        chunks.append(rest[:size])
        rest = rest[size:]
    whole, cut = UartDecoder(), UartDecoder()
    assert flushed(cut, chunks) == flushed(whole, [stream])
    assert (cut.bad_frames, cut.dropped_bytes) == (whole.bad_frames, whole.dropped_bytes)


@given(st.lists(payloads, max_size=8))
def test_every_packet_survives_its_frame(packets) -> None:
    assert flushed(UartDecoder(), [b"".join(map(frame_uart, packets))]) == packets


@given(place=st.integers(0, len(STREAM) - 1), flip=st.integers(1, 255))
def test_a_damaged_byte_costs_its_frame_only(place, flip) -> None:
    damaged = bytearray(STREAM)
    damaged[place] ^= flip
    found = flushed(UartDecoder(), [bytes(damaged)])
    assert len(found) >= len(PAYLOADS) - 1
    at = 0
    for payload in PAYLOADS:
        end = at + len(frame_uart(payload))
        assert (payload in found) != (at <= place < end)
        at = end


@given(place=st.integers(0, len(STREAM)), length=st.integers(1, 12))
def test_lost_bytes_cost_the_frames_they_were_in(place, length) -> None:
    found = flushed(UartDecoder(), [STREAM[:place] + STREAM[place + length :]])
    at = 0
    for payload in PAYLOADS:
        end = at + len(frame_uart(payload))
        if end <= place or at >= place + length:
            assert payload in found
        at = end


def test_a_million_bytes_of_garbage_with_sound_frames_between() -> None:
    rng = random.Random(3)
    decoder = UartDecoder()
    sound = 0
    for _ in range(1000):
        # Start bytes are common in it, so that false candidates are. Many more would be a flood,
        # which may hide a frame.
        chunk = bytes(
            rng.choices(range(256), [4 if each in (2, 3) else 1 for each in range(256)], k=1000)
        )
        list(decode(chunk[:100]))
        decoder.feed(chunk)
        for payload in decoder.feed(frame_uart(PAYLOADS[0])) + decoder.flush():
            sound += payload == PAYLOADS[0]
        assert decoder._framer.buffered_bytes == 0
    assert sound == 1000
    assert decoder.bad_frames > 1000
    for _ in range(200):
        decoder.feed(b"\x03\x02\x00" + rng.randbytes(200))
        assert decoder._framer.buffered_bytes < LONGEST_FRAME_BYTES


@given(st.binary(max_size=600))
def test_any_packet_is_decoded_or_unknown(payload) -> None:
    name, _ = decode_comm(payload)
    assert name


@given(st.sampled_from([int(each) for each in Comm]), st.binary(max_size=90))
def test_known_commands_with_any_content_never_raise(command, rest) -> None:
    decode_comm(bytes((command,)) + rest)


@given(longs, shorts, st.integers(0, 255))
def test_numbers_come_back_as_they_went(number, small, controller) -> None:
    messages: list[CanMessage] = [
        Status(controller, float(number), small / 10.0, small / 1000.0),
        Status2(controller, number / 1e4, 0.0),
        Status3(controller, 0.0, number / 1e4),
        Status4(controller, small / 10.0, small / 10.0, small / 10.0, small / 50.0),
        Status5(controller, number, small / 10.0),
        Status6(controller, small / 1e3, 0.0, 0.0, small / 1e3),
        *(
            CanSetpoint(packet, controller, number / scale)
            for packet, scale in ((Can.SET_DUTY, 1e5), (Can.SET_POS, 1e6), (Can.SET_RPM, 1.0))
        ),
    ]
    for message in messages:
        assert decode_can(encode_can(message))[1] == message
    for command, scale in (
        (Comm.SET_CURRENT, 1e3),
        (Comm.SET_HANDBRAKE, 1e3),
        (Comm.SET_CURRENT_REL, 1e5),
    ):
        setpoint = SetCommand(command, number / scale)
        assert decode_comm(encode_comm(setpoint))[1] == setpoint


@given(st.integers(0, ALL_FIELDS), longs, shorts)
def test_selected_fields_come_back_and_others_stay_unknown(mask, number, small) -> None:
    values = Values(
        fet_temperature_c=small / 10.0,
        erpm=float(number),
        tachometer=number,
        fault_code=7,
        mos_temperatures_c=(small / 10.0, 0.0, 1.0),
        q_voltage_v=number / 1e3,
        status=3,
        motor_temperature_c=1.0,
        motor_current_a=2.0,
        input_current_a=3.0,
        d_current_a=4.0,
        q_current_a=5.0,
        duty=0.5,
        input_voltage_v=6.0,
        used_ah=7.0,
        charged_ah=8.0,
        used_wh=9.0,
        charged_wh=10.0,
        absolute_tachometer=11,
        pid_position_deg=12.0,
        controller_id=13,
        d_voltage_v=14.0,
    )
    wire = encode_comm(Selective(mask, values))
    if mask == 0:
        return  # four bytes of nothing cannot be distinguished from a question
    name, found = decode_comm(wire)
    assert name == "GET_VALUES_SELECTIVE"
    assert isinstance(found, Selective)
    for bit, field in enumerate(name for name in Values.__struct_fields__):
        expected = values if mask >> bit & 1 else Values()
        assert repr(getattr(found.values, field)) == repr(getattr(expected, field)), field


def reassembled(frames: list[CanFrame], box: Reassembler) -> list[bytes]:
    found = []
    for frame in frames:
        match decode_can(frame)[1]:
            case Fill() as piece:
                box.fill(piece)
            case ProcessBuffer() as end:
                packet = box.process(end)
                if packet is not None:
                    found.append(packet)
    return found


@given(st.lists(st.binary(min_size=7, max_size=MAX_PAYLOAD_BYTES), max_size=4))
def test_long_packets_come_out_whole(packets) -> None:
    frames = [frame for packet in packets for frame in split_comm(254, 1, packet)]
    box = Reassembler()
    assert reassembled(frames, box) == packets
    assert box.bad_frames == 0
    assert box.buffered_bytes == 0


@given(data=st.data(), packet=st.binary(min_size=30, max_size=MAX_PAYLOAD_BYTES))
def test_lost_repeated_and_overtaking_pieces_never_make_a_wrong_packet(data, packet) -> None:
    after = bytes(reversed(packet))
    frames = split_comm(254, 1, packet)
    place = data.draw(st.integers(0, len(frames) - 1))
    kind = data.draw(st.sampled_from(["lost", "repeated", "overtaken"]))
    if kind == "lost":
        changed = frames[:place] + frames[place + 1 :]
    elif kind == "repeated":
        changed = frames[: place + 1] + frames[place:]
    else:
        changed = (
            frames[:place]
            + frames[place + 1 : place + 2]
            + frames[place : place + 1]
            + frames[place + 2 :]
        )
    box = Reassembler()
    found = reassembled(changed, box)
    assert found in ([packet], [])
    if kind == "repeated":
        assert found == [packet]
    if kind == "lost":
        assert found == []
    # And the next one is whole, whatever happened to this one.
    assert reassembled(split_comm(254, 1, after), box) == [after]


@given(
    st.lists(
        st.builds(Fill, st.just(254), st.integers(0, 65_535), st.binary(max_size=7)), max_size=300
    )
)
def test_hostile_pieces_stay_within_bounds(pieces) -> None:
    box = Reassembler()
    for piece in pieces:
        box.fill(piece)
        assert box.buffered_bytes <= 7 * MAX_PAYLOAD_BYTES
    assert box.process(ProcessBuffer(254, 1, 0, 65_535, 0)) is None
    assert box.buffered_bytes == 0


@given(st.integers(0, 2**29 - 1), st.binary(max_size=8), st.booleans(), st.booleans())
def test_any_frame_is_decoded_or_foreign(can_id, data, extended, remote) -> None:
    frame = CanFrame(can_id if extended else can_id & 0x7FF, data, extended, remote)
    name, message = decode_can(frame)
    assert name
    if remote or not extended:
        assert isinstance(message, ForeignFrame)


@pytest.mark.parametrize("wire", ["can", "uart"])
@given(chunks=st.lists(st.tuples(st.binary(max_size=200), st.booleans()), max_size=20))
def test_devices_take_anything(wire, chunks) -> None:
    wanted = (MotorStatus, WheelSpeed, ActuatorCommand)
    device = VescCan(CanParams(), wanted, 1) if wire == "can" else VescUart(UartParams(), wanted, 1)
    known = [pack(frame) for payload in PAYLOADS for frame in split_comm(254, 1, payload, 1)]
    for i, (chunk, sound) in enumerate(chunks):
        data = (b"".join(known) if wire == "can" else STREAM) if sound else chunk
        for message in device.on_rx(data, i * 10_000_000):
            assert isinstance(message, device.produces)
