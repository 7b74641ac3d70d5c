"""sbgECom streams cut anywhere and damaged anywhere, and sound frames that hold nonsense."""

import math
import struct
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.sbg import codec
from drivers.sbg.codec import DIVISORS, NAMES, PROTOCOL, SbgMessage, encode, encode_log, read
from drivers.sbg.device import SbgDevice, SbgParams
from vehicled.core.messages import GnssFix, Heading, ImuSample, PortState, ReferenceState
from vehicled.core.messages import Message as Sent
from vehicled.core.wire.framing import Framer

ALL_OUTPUT: list[type[Sent]] = [ImuSample, Heading, GnssFix, ReferenceState]
AWKWARD = struct.unpack("<f", b"\xff\x5a\x08\x00")[0]
"""A number that holds the sync and the head of a frame."""
KINDS = [shape.kind for shape in codec._SHAPES.values()]


def _frames() -> list[bytes]:
    found = []
    for i in range(6):
        us = 10_000 * i
        found += [
            encode_log(codec.ImuShort(us, 0x3FF, i, 2, 3, 0x00085AFF, 0x00085AFF, 6, 7)),
            encode_log(codec.EkfEuler(us, AWKWARD, 0.1, 0.2, 0.01, 0.01, 0.01, 0xF4)),
            encode_log(
                codec.EkfNav(
                    us,
                    AWKWARD,
                    0.0,
                    0.0,
                    0.1,
                    0.1,
                    0.1,
                    43.0,
                    -89.0,
                    300.0,
                    -33.5,
                    0.1,
                    0.1,
                    0.2,
                    0xF4,
                )
            ),
            codec.acknowledgement(30),
            encode(31, b"\xff\x5a\x1f\x00" * i),
            encode(0, b"\x01\x00\x00\x02\x00" + bytes(40), codec.COMMANDS | codec.EXTENDED),
        ]
    return found


FRAMES = _frames()
STREAM = b"".join(FRAMES)


def _words(kind: type[Any]) -> st.SearchStrategy[Any]:
    """Any content of a log, numbers of the wire's own width."""
    number = next(n for n, shape in codec._SHAPES.items() if shape.kind is kind)
    size = codec._SHAPES[number].layouts[0].size
    return st.binary(min_size=size, max_size=size).map(lambda payload: encode(number, payload))


@given(cuts=st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_frames_do_not_depend_on_cuts(cuts: list[int]) -> None:
    framer = Framer((PROTOCOL,), 4096)
    places = [0, *sorted(cuts), len(STREAM)]
    assert [frame for a, b in pairwise(places) for _, frame in framer.feed(STREAM[a:b])] == FRAMES
    assert (framer.bad_frames, framer.dropped_bytes) == (0, 0)


@given(place=st.integers(0, len(STREAM) - 1), flip=st.integers(1, 255))
def test_a_damaged_byte_costs_at_most_its_own_frame(place: int, flip: int) -> None:
    damaged = bytearray(STREAM)
    damaged[place] ^= flip
    framer = Framer((PROTOCOL,), 4096)
    found = [frame for _, frame in (*framer.feed(bytes(damaged)), *framer.flush())]
    hit = next(k for k in range(len(FRAMES)) if place < len(b"".join(FRAMES[: k + 1])))
    # A frame inside the damaged one may come to light; all others must be there.
    rest = [frame for k, frame in enumerate(FRAMES) if k != hit]
    assert [frame for frame in found if frame in rest] == rest


@given(st.lists(st.sampled_from(KINDS).flatmap(_words), max_size=8))
def test_any_content_gives_messages_of_numbers_only(frames: list[bytes]) -> None:
    device = SbgDevice(SbgParams(fix="ekf"), ALL_OUTPUT, 50_000_000)
    receiver = SbgDevice(SbgParams(heading="dual_antenna"), ALL_OUTPUT, 50_000_000)
    for k, frame in enumerate(frames):
        for message in (*device.on_rx(frame, 10**9 * k), *receiver.on_rx(frame, 10**9 * k)):
            if isinstance(message, Heading):
                assert math.isfinite(message.yaw_rad)
                assert 0.0 < message.sigma_rad <= math.pi
            elif isinstance(message, ReferenceState):
                assert math.isfinite(
                    sum(message.velocity_enu_mps)
                    + message.latitude_rad
                    + message.yaw_rad
                    + message.height_m
                )
                assert not any(sigma < 0.0 for sigma in message.position_sigma_m)
            elif isinstance(message, ImuSample):
                assert math.isfinite(
                    sum(message.specific_force_mps2) + sum(message.angular_rate_radps)
                )
            elif isinstance(message, GnssFix) and message.fix_type:
                assert abs(message.latitude_rad) <= math.pi / 2
                assert math.isfinite(message.height_m)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_logs_pass_unchanged_and_grow_at_their_end_only(kind: Any, data: st.DataObject) -> None:
    frame = data.draw(_words(kind))
    log = read(frame)
    assert not isinstance(log, SbgMessage)
    again = encode_log(log)
    if "nan" not in repr(log):
        assert again == frame
    number = frame[2]
    longer = encode(number, frame[6:-3] + data.draw(st.binary(max_size=9)))
    assert repr(read(longer)) == repr(log), "a newer firmware is read as far as it is known"
    shape = codec._SHAPES[number]
    for fields in range(len(log) - len(shape.added), len(log)):
        older = read(encode_log(log, fields))
        assert repr(older[:fields]) == repr(log[:fields])  # type: ignore[index]
        assert (
            older[fields:] == kind(*log)._replace(**kind._field_defaults)[fields:]  # type: ignore[index]
            or "nan" in repr(older)
        )
    too_short = shape.layouts[-1].size - 1
    assert isinstance(read(encode(number, frame[6 : 6 + too_short])), SbgMessage)


@given(st.floats(0.1, 400.0))
def test_the_nearest_rate_is_chosen(rate_hz: float) -> None:
    chosen = codec.MAIN_LOOP_HZ / codec.divisor_of(rate_hz)
    assert all(
        abs(chosen - rate_hz) <= abs(codec.MAIN_LOOP_HZ / divisor - rate_hz) for divisor in DIVISORS
    )


def test_names_cover_the_shapes_and_a_reopened_port_forgets() -> None:
    assert NAMES.keys() == codec._SHAPES.keys()
    device = SbgDevice(SbgParams(), [ReferenceState], 50_000_000)
    device.on_rx(encode_log(codec.EkfEuler(7, 0.0, 0.0, 0.0, 0.1, 0.1, 0.1, 0xF4)), 5)
    device.on_port(PortState.OPENED, "", 6)
    nav = codec.EkfNav(
        7, 0.0, 0.0, 0.0, 0.1, 0.1, 0.1, 43.0, -89.0, 300.0, -33.5, 0.1, 0.1, 0.2, 0xF4
    )
    assert not device.on_rx(encode_log(nav), 7)
