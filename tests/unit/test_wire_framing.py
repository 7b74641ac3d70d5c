"""The framer on streams that fit on a page."""

import pytest

from vehicled.core.wire.framing import INCOMPLETE, NO_FRAME, Framer, Protocol


def counted(buffer: bytes | bytearray, at: int, end: int) -> int:
    """``# length payload sum``: the sum is that of the payload, modulo 256."""
    if end - at < 2:
        return INCOMPLETE
    size = 3 + buffer[at + 1]
    if size > 103:
        return NO_FRAME
    if end - at < size:
        return INCOMPLETE
    return size if sum(buffer[at + 2 : at + size - 1]) & 255 == buffer[at + size - 1] else NO_FRAME


def line(buffer: bytes | bytearray, at: int, end: int) -> int:
    """``<<`` text ``>``."""
    stop = buffer.find(b">", at, end)
    return INCOMPLETE if stop < 0 else stop + 1 - at


COUNTED = Protocol("counted", b"#", counted)
LINE = Protocol("line", b"<<", line)


def frame(payload: bytes) -> bytes:
    return b"#" + bytes([len(payload)]) + payload + bytes([sum(payload) & 255])


def test_frames_of_several_protocols_come_in_the_order_of_the_stream() -> None:
    framer = Framer([COUNTED, LINE])
    stream = (
        b"noise" + frame(b"one") + b"<<two>" + frame(b"") + b"?" + b"<<three>" + frame(b"<<inside>")
    )
    expected = [
        ("counted", frame(b"one")),
        ("line", b"<<two>"),
        ("counted", frame(b"")),
        ("line", b"<<three>"),
        ("counted", frame(b"<<inside>")),
    ]
    assert framer.feed(stream) == expected
    assert (framer.dropped_bytes, framer.bad_frames, framer.buffered_bytes) == (6, 0, 0)
    slowly = Framer([COUNTED, LINE])
    assert [each for byte in stream for each in slowly.feed(bytes([byte]))] == expected
    assert (slowly.dropped_bytes, slowly.bad_frames, slowly.buffered_bytes) == (6, 0, 0)


def test_a_damaged_length_delays_its_neighbours_until_it_is_disproved_and_no_longer() -> None:
    damaged = b"#" + bytes([40]) + b"abc" + bytes([0])  # claims 43 bytes, has 6
    stream = damaged + frame(b"good") * 6
    framer = Framer([COUNTED])
    for arrived, byte in enumerate(stream, start=1):
        frames = framer.feed(bytes([byte]))
        if arrived < 43:
            assert frames == []
        elif arrived == 43:
            assert frames == [("counted", frame(b"good"))] * 5
    assert framer.bad_frames == 1
    assert framer.dropped_bytes == len(damaged)


def test_a_length_that_the_protocol_does_not_have_delays_nothing() -> None:
    framer = Framer([COUNTED])
    assert framer.feed(b"#\xff" + frame(b"good")) == [("counted", frame(b"good"))]
    assert framer.bad_frames == 1


def test_a_candidate_without_end_is_given_up_at_the_limit() -> None:
    framer = Framer([LINE, COUNTED], limit=20)
    held = b"<<" + frame(b"held") + b"." * 10
    assert len(held) == 19
    assert framer.feed(held) == []
    assert framer.buffered_bytes == 19
    assert framer.feed(b".") == [("counted", frame(b"held"))]
    assert (framer.bad_frames, framer.dropped_bytes, framer.buffered_bytes) == (1, 13, 0)


def test_a_frame_longer_than_the_limit_is_none_however_it_arrives() -> None:
    for chunk in (1, 7, 100):
        framer = Framer([LINE], limit=20)
        stream = b"<<" + b"." * 17 + b">" + b"<<" + b"." * 18 + b">" + b"<<ok>"
        frames = [
            each
            for at in range(0, len(stream), chunk)
            for each in framer.feed(stream[at : at + chunk])
        ]
        assert frames == [("line", stream[:20]), ("line", b"<<ok>")]
        assert (framer.bad_frames, framer.dropped_bytes) == (1, 21)


def test_flush_searches_what_a_waiting_candidate_held_back() -> None:
    framer = Framer([COUNTED, LINE])
    assert framer.feed(b"<<never ends" + frame(b"a") + b"#\x09" + frame(b"b") + b"<") == []
    assert framer.flush() == [("counted", frame(b"a")), ("counted", frame(b"b"))]
    assert (framer.buffered_bytes, framer.bad_frames, framer.dropped_bytes) == (0, 2, 15)
    assert framer.flush() == []
    assert framer.feed(b"<ok>" + frame(b"c")) == [("counted", frame(b"c"))], (
        "the half sync before the flush is forgotten"
    )


def test_after_a_silence_a_torn_frame_may_still_be_completed() -> None:
    whole = frame(b"torn by a pause")
    framer = Framer([COUNTED])
    assert framer.feed(whole[:5]) == []
    assert framer.feed(whole[5:] + whole[:4], stale=True) == [("counted", whole)]
    assert framer.feed(whole[4:]) == [("counted", whole)], (
        "what began after the silence waits as ever"
    )
    assert framer.feed(whole[:5]) == []
    assert framer.feed(frame(b"new"), stale=True) == [("counted", frame(b"new"))]
    assert framer.dropped_bytes == 5


def test_the_first_protocol_that_fits_wins_and_a_refusal_asks_the_next() -> None:
    short = Protocol("short", b"#", lambda _buffer, at, end: 2 if end - at >= 2 else INCOMPLETE)
    never = Protocol("never", b"#", lambda _buffer, _at, _end: NO_FRAME)
    assert Framer([short, COUNTED]).feed(frame(b"x")) == [("short", frame(b"x")[:2])]
    assert Framer([never, COUNTED]).feed(frame(b"x")) == [("counted", frame(b"x"))]


def test_a_later_protocol_does_not_overtake_an_undecided_one_but_inherits_the_place() -> None:
    longer = Protocol("longer", b"#", lambda _buffer, at, end: 50 if end - at >= 50 else INCOMPLETE)
    framer = Framer([longer, COUNTED])
    assert framer.feed(frame(b"x")) == []
    assert framer.flush() == [("counted", frame(b"x"))]


def test_a_sync_may_repeat_its_first_byte() -> None:
    """BNO08x's sync repeats a byte: of three in a row the first may not belong to the frame."""

    def probe(buffer: bytes | bytearray, at: int, end: int) -> int:
        if end - at < 3:
            return INCOMPLETE
        return 3 if buffer[at + 2] == 7 else NO_FRAME

    framer = Framer([Protocol("twice", b"\xaa\xaa", probe)])
    stream = b"\xaa\xaa\xaa\x07\xaa" + b"\xaa\xaa\x07"
    assert [each for byte in stream for each in framer.feed(bytes([byte]))] == [
        ("twice", b"\xaa\xaa\x07")
    ] * 2
    assert (framer.bad_frames, framer.dropped_bytes) == (2, 2)


@pytest.mark.parametrize("sync", [b"[a", b"(*", b"\\x", b"$^.", b"..", b"\n\n", b"|]", b"a\x00"])
def test_a_sync_may_be_any_bytes(sync: bytes) -> None:
    """Although they are searched with a regular expression."""
    framer = Framer(
        [Protocol("any", sync, lambda _buffer, at, end: 5 if end - at >= 5 else INCOMPLETE)]
    )
    whole = sync.ljust(5, b"-")
    stream = b"noise" + whole + b"n" + whole + sync[:1] + b"n" + whole
    assert [each for byte in stream for each in framer.feed(bytes([byte]))] == [("any", whole)] * 3
    assert framer.dropped_bytes == 8


def test_clear_forgets_a_torn_frame() -> None:
    framer = Framer([COUNTED])
    framer.feed(frame(b"torn")[:4])
    framer.clear()
    assert (framer.buffered_bytes, framer.dropped_bytes) == (0, 4)
    assert framer.feed(frame(b"torn")[4:] + frame(b"next")) == [("counted", frame(b"next"))]


@pytest.mark.parametrize(
    ("protocols", "limit"),
    [([], 100), ([Protocol("none", b"", line)], 100), ([LINE], 1)],
    ids=["nothing", "no sync", "no room"],
)
def test_a_framer_that_could_find_nothing_is_refused(protocols: list[Protocol], limit: int) -> None:
    with pytest.raises(ValueError, match="sync"):
        Framer(protocols, limit)
