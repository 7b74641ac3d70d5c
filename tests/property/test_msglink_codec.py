"""The message device on the wire: any cut gives the same messages, damage costs the damaged frames
only, nothing raises."""

import re
import struct
from binascii import crc_hqx
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.msglink.codec import (
    CRC_START,
    MAX_PAYLOAD_BYTES,
    OVERHEAD_BYTES,
    SYNC,
    VERSION,
    MsglinkDecoder,
    encode,
)
from vehicled.core import messages
from vehicled.core.messages import (
    ActuatorCommand,
    Corrections,
    ImuSample,
    Message,
    Mode,
    OperatorAction,
    OperatorCommand,
    WheelSpeed,
)

NOTES = Path(__file__).parents[2] / "drivers" / "msglink" / "NOTES.md"

times = st.integers(0, 2**63 - 1)
floats = st.floats(width=64, allow_nan=False)
vectors = st.tuples(floats, floats, floats)
any_message = st.one_of(
    st.builds(ImuSample, times, st.just(0), vectors, vectors, floats, st.booleans()),
    st.builds(WheelSpeed, times, st.just(0), floats, floats),
    st.builds(
        OperatorCommand, times, st.just(0), st.sampled_from(OperatorAction), st.text(max_size=40)
    ),
    st.builds(ActuatorCommand, times, times, floats, floats, floats, floats, st.sampled_from(Mode)),
    # Carries what looks like frames inside a frame.
    st.builds(
        Corrections,
        times,
        st.just(0),
        st.just("base"),
        st.one_of(st.binary(max_size=200), st.just(SYNC * 20 + b"\x01\x03\x00abc")),
    ),
)
FLUSH = bytes(MAX_PAYLOAD_BYTES + OVERHEAD_BYTES)
"""Filler as long as the longest frame can claim: after it every damaged length has been decided."""


def frame(payload: bytes, version: int = VERSION) -> bytes:
    """A sound frame round any payload, built without the codec."""
    covered = struct.pack("<BH", version, len(payload)) + payload
    crc = 0xFFFF
    for byte in covered:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021) & 0xFFFF if crc & 0x8000 else crc << 1
    return SYNC + covered + struct.pack("<H", crc)


@given(st.lists(any_message, max_size=8), st.data())
def test_any_chunking_gives_the_same_messages(sent: list[Message], data):
    stream = b"".join(map(encode, sent))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    decoder, got = MsglinkDecoder(), []
    for start, stop in zip([0, *cuts], [*cuts, len(stream)]):
        got += decoder.feed(stream[start:stop])
    assert got == sent
    assert (
        decoder.dropped_bytes,
        decoder.bad_frames,
        decoder.unknown_frames,
        decoder.buffered_bytes,
    ) == (0, 0, 0, 0)


def test_byte_by_byte():
    sent = [OperatorCommand(1, 0, OperatorAction.ARM, "VL"), WheelSpeed(2, 0, 1.5, 0.1)]
    decoder = MsglinkDecoder()
    got = [
        message for byte in b"".join(map(encode, sent)) for message in decoder.feed(bytes([byte]))
    ]
    assert got == sent


SAMPLES = {
    msgspec.inspect.IntType: 7,
    msgspec.inspect.FloatType: 1.5,
    msgspec.inspect.BoolType: True,
    msgspec.inspect.StrType: "x",
    msgspec.inspect.BytesType: b"y",
}


def sample(hint: msgspec.inspect.Type) -> object:
    """A value of a field's type; KeyError for a type that the notes do not describe."""
    if isinstance(hint, msgspec.inspect.Metadata):
        hint = hint.type
    if isinstance(hint, msgspec.inspect.EnumType):
        return list(hint.cls)[-1]
    if isinstance(hint, msgspec.inspect.VarTupleType):
        return (0.25,) * (hint.min_length or 2)
    return SAMPLES[type(hint)]


@pytest.mark.parametrize("kind", messages.ALL, ids=lambda kind: kind.__name__)
def test_every_message_type_passes(kind: type[Message]):
    info = msgspec.inspect.type_info(kind)
    assert isinstance(info, msgspec.inspect.StructType)
    message = kind(*(sample(field.type) for field in info.fields))
    assert MsglinkDecoder().feed(encode(message)) == [message]


@given(st.binary(max_size=2_000), st.lists(st.integers(1, 300), min_size=1, max_size=10))
def test_random_bytes_never_raise_and_are_accounted_for(noise: bytes, sizes: list[int]):
    decoder, at, frames = MsglinkDecoder(), 0, 0
    while at < len(noise):
        size = sizes[at % len(sizes)]
        frames += len(decoder.feed(noise[at : at + size]))
        at += size
        assert decoder.buffered_bytes < MAX_PAYLOAD_BYTES + OVERHEAD_BYTES
    if frames == 0 and decoder.unknown_frames == 0:
        assert decoder.dropped_bytes + decoder.buffered_bytes == len(noise)


@given(st.lists(any_message, min_size=2, max_size=8), st.data())
def test_damage_costs_at_most_the_damaged_frames(sent: list[Message], data):
    frames = [encode(message) for message in sent]
    damaged = data.draw(st.sets(st.integers(0, len(frames) - 1), min_size=1, max_size=3))
    stream = []
    for number, clean in enumerate(frames):
        body = bytearray(clean)
        if number in damaged:
            at = data.draw(st.integers(0, len(body) - 1))
            match data.draw(st.sampled_from(["flip", "insert", "delete", "cut"])):
                case "flip":
                    body[at] ^= data.draw(st.integers(1, 255))
                case "insert":
                    body[at:at] = data.draw(st.binary(min_size=1, max_size=5))
                case "delete":
                    del body[at]
                case _:
                    del body[at:]
        stream.append(bytes(body))
    decoder = MsglinkDecoder()
    got = decoder.feed(b"".join(stream)) + decoder.feed(FLUSH)
    kept = [message for number, message in enumerate(sent) if number not in damaged]
    # In order, with no invented message in between: bytes inserted before a sync or after a crc
    # spare the frame itself.
    rest = iter(got)
    assert all(message in rest for message in kept)
    assert len(got) <= len(sent)
    assert all(message in sent for message in got)


@given(st.binary(max_size=300))
def test_sound_frames_of_nonsense_are_skipped_whole(payload: bytes):
    good = WheelSpeed(5, 0, 1.0, 0.1)
    decoder = MsglinkDecoder()
    got = decoder.feed(frame(payload) + encode(good))
    assert got == [good]
    assert (decoder.unknown_frames, decoder.dropped_bytes) == (1, 0)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        msgspec.msgpack.encode(["Telepathy", 1, 2]),
        msgspec.msgpack.encode(["WheelSpeed", 1, 0, 1.0]),
        msgspec.msgpack.encode(["WheelSpeed", 1, 0, "fast", 0.1]),
        msgspec.msgpack.encode(["WheelSpeed", 2**63, 0, 1.0, 0.1]),
        msgspec.msgpack.encode(["OperatorCommand", 1, 0, 99, ""]),
        b"\xdd\xff\xff\xff\xff",
        b"\x98\xa4Path\x00\xa1x\xc3\xdd\xff\xff\xff\xff",
        b"\x95\xa5Event\x00\xa1a\xa1a\xdb\xff\xff\xff\xff",
        b"\x95\xa5Event\x00\xa2\xff\xfe\xa0\xa0",
        b"\x91" * 16_000,
        b"\x96\xa5Event\x00\xa0\xa0\xa0" + b"\x91" * 16_000 + b"\x00",
    ],
    ids=[
        "empty",
        "unknown",
        "short",
        "type",
        "range",
        "enum",
        "huge",
        "huge inside",
        "huge text",
        "utf-8",
        "deep",
        "deep extra",
    ],
)
def test_unfitting_messages_are_counted_and_skipped(payload: bytes):
    good = OperatorCommand(5, 0, OperatorAction.STOP, "")
    decoder = MsglinkDecoder()
    assert decoder.feed(frame(payload) + encode(good)) == [good]
    assert (decoder.unknown_frames, decoder.bad_frames, decoder.dropped_bytes) == (1, 0, 0)


def test_another_version_is_skipped_whole():
    good = WheelSpeed(5, 0, 1.0, 0.1)
    ours = encode(good)[5:-2]
    decoder = MsglinkDecoder()
    assert decoder.feed(frame(ours, VERSION + 1) + encode(good)) == [good]
    assert (decoder.unknown_frames, decoder.bad_frames, decoder.dropped_bytes) == (1, 0, 0)


def test_a_newer_sender_may_append_fields_and_an_older_one_leave_defaults_out():
    newer = frame(
        msgspec.msgpack.encode(["WheelSpeed", 1, 0, 2.0, 0.1, "new", [1, 2, {"a": None}]])
    )
    older = frame(msgspec.msgpack.encode(["ImuSample", 1, 0, [1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
    wheel, imu = MsglinkDecoder().feed(newer + older)
    assert wheel == WheelSpeed(1, 0, 2.0, 0.1)
    assert isinstance(imu, ImuSample)
    assert imu.angular_rate_radps == (4.0, 5.0, 6.0)
    assert imu.saturated is False


def test_a_length_over_the_limit_is_not_waited_for():
    good = WheelSpeed(5, 0, 1.0, 0.1)
    decoder = MsglinkDecoder()
    assert decoder.feed(
        SYNC + struct.pack("<BH", VERSION, MAX_PAYLOAD_BYTES + 1) + encode(good)
    ) == [good]
    assert (decoder.bad_frames, decoder.dropped_bytes) == (1, 5)


def test_too_long_a_message_is_refused_by_name():
    with pytest.raises(ValueError, match="Corrections of 17019 bytes"):
        encode(Corrections(0, 0, "", bytes(17_000)))
    longest = Corrections(0, 0, "", bytes(MAX_PAYLOAD_BYTES - 19))
    assert MsglinkDecoder().feed(encode(longest)) == [longest]
    assert len(encode(longest)) == MAX_PAYLOAD_BYTES + OVERHEAD_BYTES


def test_the_checksum_is_the_catalogued_one():
    assert crc_hqx(b"123456789", CRC_START) == 0x29B1
    message = WheelSpeed(5, 0, 1.0, 0.1)
    assert encode(message) == frame(msgspec.msgpack.encode(message))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("operator", OperatorCommand(1_300_000_000, 0, OperatorAction.ARM, "scenario")),
        (
            "actuator",
            ActuatorCommand(2_010_000_000, 1_940_000_000, 0.5, 0.0, -0.25, -0.0655, Mode.AUTO),
        ),
    ],
)
def test_the_examples_of_the_notes_are_true(name: str, message: Message):
    block = re.search(rf"```hex {name}\n(.*?)```", NOTES.read_text(), re.DOTALL)
    assert block is not None
    wire = bytes.fromhex("".join(line[:51] for line in block.group(1).splitlines()))
    assert encode(message) == wire
    assert MsglinkDecoder().feed(wire) == [message]
