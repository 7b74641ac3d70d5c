"""Streams of N100, WitMotion and BNO08x, cut anywhere and damaged anywhere."""

import struct
from collections.abc import Callable
from itertools import pairwise
from math import pi
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.imu import bno08x, n100, witmotion
from drivers.imu.base import FRAME_LIMIT_BYTES, ImuDevice
from vehicled.core.messages import Heading, ImuSample, Message
from vehicled.core.wire.framing import Framer, Protocol

WANTED: list[type[Message]] = [ImuSample, Heading]


def _n100_frames() -> list[bytes]:
    # Payloads full of syncs and ends: frames must never be split on them.
    awkward = struct.unpack("<f", b"\xfd\xfc\x40\x38")[0]
    found = []
    for i in range(6):
        packet = n100.ImuPacket(
            (0.1 * i, awkward, 0.3),
            (0.0, 1.0 * i, -9.8),
            (awkward,) * 3,
            20.0,
            101325.0,
            20.0,
            10_000 * i,
        )
        found.append(n100.encode_imu(packet, 2 * i))
        found.append(
            n100.encode_ahrs(
                n100.AhrsPacket((0.0,) * 3, 0.0, 0.0, 0.1 * i, (1.0, 0.0, 0.0, 0.0), 10_000 * i),
                2 * i + 1,
            )
        )
    return found


def _witmotion_frames() -> list[bytes]:
    found = []
    for i in range(6):
        found += [
            witmotion.encode(witmotion.Time(2025, 1, 2, 3, 4, 5, 10 * i)),
            witmotion.encode(witmotion.Acceleration((0.1 * i, 0.2, 9.8), 300.0)),
            witmotion.encode(witmotion.Gyro((0.1 * i, -0.2, 0.3), 0x5555)),
            witmotion.encode(witmotion.Angle(0.0, 0.1, 0.1 * i)),
        ]
    return found


def _bno08x_frames() -> list[bytes]:
    return [
        bno08x.encode(bno08x.RvcPacket(165 + i, 0.1 * i, 0.0, 0.1, (0.1 * i, -0.84, 9.7)))
        for i in range(12)
    ]


class Case:
    """One device: its frames, and how to make it."""

    def __init__(
        self, frames: list[bytes], protocol: Protocol, device: Callable[[], ImuDevice]
    ) -> None:
        self.frames = frames
        self.protocol = protocol
        self.device = device


CASES = {
    "n100": Case(
        _n100_frames(), n100.PROTOCOL, lambda: n100.N100Device(n100.N100Params(), WANTED, 1)
    ),
    "witmotion": Case(
        _witmotion_frames(),
        witmotion.PROTOCOL,
        lambda: witmotion.WitMotionDevice(witmotion.WitMotionParams(), WANTED, 1),
    ),
    "bno08x": Case(
        _bno08x_frames(),
        bno08x.PROTOCOL,
        lambda: bno08x.Bno08xDevice(bno08x.Bno08xParams(), WANTED, 1),
    ),
}
each_device = pytest.mark.parametrize("name", CASES)


@each_device
@given(cuts=st.lists(st.integers(0, 800), max_size=30))
def test_any_chunking_gives_the_same_messages(name: str, cuts: list[int]) -> None:
    case = CASES[name]
    stream = b"".join(case.frames)
    whole = list(case.device().on_rx(stream, 10**9))
    assert len(whole) == 24 if name == "bno08x" else 12
    device = case.device()
    got: list[Message] = []
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    for begin, end in pairwise(edges):
        got += device.on_rx(stream[begin:end], 10**9)
    # NaN is not equal to itself, its representation is.
    assert repr(got) == repr(whole)
    assert (device.bad_frames, device.dropped_bytes) == (0, 0)


@each_device
@given(data=st.data())
def test_damage_costs_the_damaged_frames_only(name: str, data: st.DataObject) -> None:
    frames, protocol = CASES[name].frames, CASES[name].protocol
    at = data.draw(st.integers(0, len(frames) - 1), label="damaged frame")
    place = data.draw(st.integers(0, len(frames[at]) - 1), label="place")
    kind = data.draw(st.sampled_from(["flip", "delete", "insert", "cut"]), label="kind")
    noise = data.draw(st.binary(min_size=1, max_size=40), label="noise")
    frame = frames[at]
    damaged = {
        "flip": frame[:place] + bytes((frame[place] ^ (noise[0] or 1),)) + frame[place + 1 :],
        "delete": frame[:place] + frame[place + 1 :],
        "insert": frame[:place] + noise + frame[place:],
        "cut": frame[:place],
    }[kind]
    framer = Framer((protocol,), FRAME_LIMIT_BYTES)
    stream = b"".join([*frames[:at], damaged, *frames[at + 1 :]])
    got = [found for _, found in [*framer.feed(stream), *framer.flush()]]
    sound = frames[:at] + frames[at + 1 :]
    # With one byte of check sum a frame may appear that was never sent; it may lie over one
    # neighbour and no more.
    ghosts = [found for found in got if found not in frames]
    assert len(ghosts) <= (0 if name == "n100" else 1)
    assert sum(found not in got for found in sound) <= len(ghosts)
    assert sum(map(len, got)) + framer.dropped_bytes == len(stream)


@each_device
@given(chunks=st.lists(st.binary(max_size=200) | st.integers(0, 11), max_size=40))
def test_noise_between_frames_never_raises(name: str, chunks: list[Any]) -> None:
    case = CASES[name]
    device = case.device()
    for i, chunk in enumerate(chunks):
        data = case.frames[chunk] if isinstance(chunk, int) else case.protocol.sync + chunk
        for message in device.on_rx(data, 10_000_000 * i):
            assert isinstance(message, device.produces)


@each_device
@given(noise=st.binary(max_size=3000))
def test_what_waits_is_bounded(name: str, noise: bytes) -> None:
    protocol = CASES[name].protocol
    framer = Framer((protocol,), FRAME_LIMIT_BYTES)
    framer.feed(noise)
    assert framer.buffered_bytes < 264


@given(st.binary(min_size=8, max_size=8), st.sampled_from(sorted(witmotion.NAMES)))
def test_witmotion_packets_survive_a_round_trip(payload: bytes, kind: int) -> None:
    frame = witmotion.frame_of(kind, payload)
    packet = witmotion.parse(frame)
    assert not isinstance(packet, bytes)
    assert witmotion.encode(packet) == frame


@given(st.binary(min_size=16, max_size=16))
def test_bno08x_packets_survive_a_round_trip(body: bytes) -> None:
    packet = bno08x.parse(b"\xaa\xaa" + body + b"\x00")
    again = bno08x.parse(bno08x.encode(packet))
    assert (again.index, again.specific_force_mps2, again.reserved) == (
        packet.index,
        packet.specific_force_mps2,
        packet.reserved,
    )
    for ours, theirs in ((again.yaw_rad, packet.yaw_rad), (again.roll_rad, packet.roll_rad)):
        turns = (ours - theirs) / (2 * pi)
        assert turns == pytest.approx(round(turns), abs=1e-6)
