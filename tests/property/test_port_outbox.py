"""The outbox against a naive model: order, bounds, whole frames, deadlines."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from vehicled.core.ports import NEVER_NS
from vehicled.runtime.ports.contract import PortCounts
from vehicled.runtime.ports.outbox import PortSendQueue

LIMIT = 100


def _onto(wire: bytearray, most: int = LIMIT) -> Callable[[bytes], int]:
    """A descriptor that takes so much of each frame."""

    def write(data: bytes) -> int:
        wire.extend(data[:most])
        return len(data[:most])

    return write


PUTS = st.tuples(
    st.just("put"), st.integers(1, 60), st.one_of(st.just(NEVER_NS), st.integers(0, 60))
)
DRAINS = st.tuples(st.just("drain"), st.integers(0, 80), st.integers(1, 5))
BAUDS = st.tuples(st.just("baud"), st.sampled_from([9600, 115200]), st.just(0))


@given(steps=st.lists(st.one_of(PUTS, DRAINS, BAUDS), max_size=60))
def test_frames_leave_whole_in_order_in_time_or_not_at_all(steps):
    counts = PortCounts()
    outbox = PortSendQueue(LIMIT, counts)
    wire = bytearray()
    begun_at: dict[int, int] = {}
    frames: dict[int, tuple[bytes, int]] = {}
    now = 0
    for what, a, b in steps:
        if what == "put":
            # A frame says where it begins, and no other byte does.
            data = bytes([128 + len(frames)]) + bytes([len(frames)]) * (a - 1)
            if outbox.put(data, b):
                frames[128 + len(frames)] = (data, b)
            else:
                assert a > LIMIT - outbox.waiting_bytes
                frames[128 + len(frames)] = (b"", b)
        elif what == "baud":
            outbox.put_baud(a)
        else:
            now += b
            room = a

            def write(data: bytes) -> int:
                nonlocal room
                taken: int = min(room, len(data))
                room -= taken
                for byte in data[:taken]:
                    if byte >= 128:
                        begun_at[byte] = now  # noqa: B023 - called before the next step
                wire.extend(data[:taken])
                return taken

            outbox.drain(write, now)
            if (baud := outbox.baud) is not None:
                outbox.baud_done(baud)
        assert 0 <= outbox.waiting_bytes <= LIMIT
    while outbox:
        if (baud := outbox.baud) is not None:
            outbox.baud_done(baud)
        outbox.drain(_onto(wire), 0)
    order = [byte for byte in wire if byte >= 128]
    assert order == sorted(set(order))
    assert bytes(wire) == b"".join(frames[number][0] for number in order)
    assert all(at <= frames[number][1] for number, at in begun_at.items())
    assert counts.tx_bytes == len(wire)
    taken = sum(bool(data) for data, _ in frames.values())
    assert taken == len(order) + counts.expired + counts.overflowed
    assert counts.refused == len(frames) - taken


def test_a_change_of_rate_keeps_its_place():
    outbox = PortSendQueue(LIMIT, PortCounts())
    wire: list[bytes | int] = []

    def write(data: bytes) -> int:
        wire.append(data)
        return len(data)

    outbox.put(b"old rate", NEVER_NS)
    outbox.put_baud(9600)
    outbox.put_baud(460800)
    outbox.put(b"new rate", NEVER_NS)
    outbox.drain(write, 0)
    assert wire == [b"old rate"]
    assert outbox.baud == 460800
    outbox.put_baud(38400)
    outbox.baud_done(460800)
    outbox.drain(write, 0)
    assert wire == [b"old rate", b"new rate"]
    # Asked for while the first was being carried out: not taken for it.
    assert outbox.baud == 38400
    outbox.baud_done(460800)
    assert outbox.baud == 38400


def test_what_was_begun_is_finished_after_its_deadline():
    counts = PortCounts()
    outbox = PortSendQueue(LIMIT, counts)
    outbox.put(b"abcd", 10)
    outbox.put(b"next", 10)
    wire = bytearray()
    outbox.drain(_onto(wire, 1), 5)
    outbox.drain(_onto(wire), 11)
    assert bytes(wire) == b"abcd"
    assert counts.expired == 1


def test_the_oldest_makes_room():
    counts = PortCounts()
    outbox = PortSendQueue(10, counts)
    assert all(outbox.put(bytes([k]) * 4, NEVER_NS) for k in range(5))
    wire = bytearray()
    outbox.drain(_onto(wire), 0)
    assert bytes(wire) == b"\3\3\3\3\4\4\4\4"
    assert (counts.overflowed, counts.overflowed_bytes) == (3, 12)
