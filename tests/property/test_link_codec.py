"""The simulator link's codec: any chunking, hostile bytes."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vehicled.link import MAX_FRAME_BYTES, Decoder, Frame, Hello, Kind, LinkError, decode_hello, encode, encode_hello

frames = st.tuples(st.sampled_from(Kind), st.integers(0, 255), st.integers(-(2**63), 2**63 - 1), st.binary(max_size=300))


@given(st.lists(frames, max_size=20), st.data())
def test_any_chunking_gives_the_same_frames(sent: list[Frame], data: st.DataObject) -> None:
    stream = b"".join(encode(*frame) for frame in sent)
    decoder, got = Decoder(), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        got += decoder.feed(stream[:size])
        stream = stream[size:]
    assert got == sent


@given(st.lists(st.binary(max_size=200), max_size=20))
def test_garbage_gives_frames_or_one_named_error(chunks: list[bytes]) -> None:
    decoder = Decoder()
    with contextlib.suppress(LinkError):
        for chunk in chunks:
            for kind, _, _, payload in decoder.feed(chunk):
                assert isinstance(kind, Kind)
                assert len(payload) <= MAX_FRAME_BYTES


def test_frames_before_a_broken_one_are_not_lost() -> None:
    decoder = Decoder()
    (frame,) = decoder.feed(encode(Kind.DATA, 1, 5, b"a") + b"\xff" * 14)
    assert frame[3] == b"a"
    with pytest.raises(LinkError, match="length"):
        decoder.feed(encode(Kind.DATA, 1, 5, b"b"))


def test_an_impossible_length_is_refused_at_once() -> None:
    with pytest.raises(LinkError, match="length"):
        Decoder().feed(b"\xff" * 14)


def test_greetings() -> None:
    hello = Hello(role="simulator", clock="lockstep", ports=["gnss", "drive"], start_ns=10**9)
    ((kind, _, _, payload),) = Decoder().feed(encode_hello(hello))
    assert kind is Kind.HELLO
    assert decode_hello(payload) == hello
    with pytest.raises(LinkError, match="update the older one"):
        decode_hello(b'{"version": 9, "role": "simulator", "clock": "wall", "ports": []}')


@given(st.binary(max_size=100))
def test_a_garbled_greeting_is_a_link_error(payload: bytes) -> None:
    with contextlib.suppress(LinkError):
        decode_hello(payload)
