"""The simulator link's codec: any chunking, hostile bytes."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vehicled.core import link
from vehicled.core.link import (
    MAX_FRAME_BYTES,
    SHOWN_REASON,
    Frame,
    Hello,
    LinkDecoder,
    LinkError,
    LinkFrameKind,
    decode_hello,
    decode_reason,
    encode,
    encode_hello,
)

frames = st.tuples(
    st.sampled_from(LinkFrameKind),
    st.integers(0, 255),
    st.integers(-(2**63), 2**63 - 1),
    st.binary(max_size=300),
)


@given(st.lists(frames, max_size=20), st.data())
def test_any_chunking_gives_the_same_frames(sent: list[Frame], data: st.DataObject) -> None:
    stream = b"".join(encode(*frame) for frame in sent)
    decoder, got = LinkDecoder(), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        got += decoder.feed(stream[:size])
        stream = stream[size:]
    assert got == sent


@given(st.lists(st.binary(max_size=200), max_size=20))
def test_garbage_gives_frames_or_one_named_error(chunks: list[bytes]) -> None:
    decoder = LinkDecoder()
    with contextlib.suppress(LinkError):
        for chunk in chunks:
            for kind, _, _, payload in decoder.feed(chunk):
                assert isinstance(kind, LinkFrameKind)
                assert len(payload) <= MAX_FRAME_BYTES


def test_frames_before_a_broken_one_are_not_lost() -> None:
    decoder = LinkDecoder()
    (frame,) = decoder.feed(encode(LinkFrameKind.DATA, 1, 5, b"a") + b"\xff" * 14)
    assert frame[3] == b"a"
    with pytest.raises(LinkError, match="length"):
        decoder.feed(encode(LinkFrameKind.DATA, 1, 5, b"b"))


def test_an_impossible_length_is_refused_at_once() -> None:
    with pytest.raises(LinkError, match="length"):
        LinkDecoder().feed(b"\xff" * 14)


def test_greetings() -> None:
    hello = Hello(role="simulator", clock="lockstep", ports=["gnss", "drive"], start_ns=10**9)
    ((kind, _, _, payload),) = LinkDecoder().feed(encode_hello(hello))
    assert kind is LinkFrameKind.HELLO
    assert decode_hello(payload) == hello
    with pytest.raises(LinkError, match="update the older one"):
        decode_hello(b'{"version": 9, "role": "simulator", "clock": "wall", "ports": []}')


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"ports": ["gnss", "gnss"]}, "names a port twice"),
        ({"ports": [f"x{i}" for i in range(257)]}, "length <= 256"),
        ({"ports": [""]}, "length >= 1"),
        ({"ports": ["x" * 65]}, "length <= 64"),
        ({"start_ns": -1}, ">= 0"),
        ({"start_ns": 2**63 - 10}, "<= 4611686018427387904"),
        ({"\x1b[2J": 1}, "ports"),
        ({"role": ["[" * 10]}, "role"),
    ],
)
def test_a_greeting_is_checked_as_a_whole(changes: dict[str, object], said: str) -> None:
    greeting = {"version": 1, "role": "simulator", "clock": "wall", "ports": ["gnss"]} | changes
    if "\x1b[2J" in changes:
        del greeting["ports"]
    with pytest.raises(LinkError) as caught:
        decode_hello(json.dumps(greeting).encode())
    assert said in str(caught.value)
    assert str(caught.value).isprintable()


def test_a_greeting_of_endless_depth_is_a_link_error() -> None:
    with pytest.raises(LinkError, match="cannot be read"):
        decode_hello(b'{"version":1,"role":' + b"[" * 200_000)


def test_a_reason_is_shown_on_one_line_and_cut() -> None:
    assert decode_reason(b"\x1b]0;owned\x07\nnext") == r"\u001b]0;owned\u0007\nnext"
    assert len(decode_reason("\u202e".encode() * 100_000)) <= 6 * SHOWN_REASON


def test_a_large_frame_in_small_pieces_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0

    class Head:
        size = link._HEAD.size

        def unpack_from(self, data: bytes, at: int) -> tuple[int, ...]:
            nonlocal looks
            looks += 1
            return link_head.unpack_from(data, at)

    link_head = link._HEAD
    frame = encode(LinkFrameKind.DATA, 0, 5, bytes(100_000))
    monkeypatch.setattr(link, "_HEAD", Head())
    decoder, got = LinkDecoder(), []
    for k in range(0, len(frame), 10):
        got += decoder.feed(frame[k : k + 10])
    assert [len(payload) for _, _, _, payload in got] == [100_000]
    assert looks < 5


@given(st.binary(max_size=100))
def test_a_garbled_greeting_is_a_link_error(payload: bytes) -> None:
    with contextlib.suppress(LinkError):
        decode_hello(payload)
