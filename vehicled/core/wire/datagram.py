"""Datagrams on a port: each is one record, so that any cut of the stream keeps their bounds.

``D6 0D 44 47 | length u16 | its complement u16 | data``, little-endian. A UDP port reads and
writes such records; they never leave the computer, except in a log.
"""

from struct import Struct

from vehicled.core.wire.framing import (
    INCOMPLETE,
    NO_FRAME,
    PayloadReader,
    Protocol,
    Shape,
    Stream,
)

SYNC = b"\xd6\x0dDG"
HEAD_BYTES = 8
_LENGTH = Struct("<HH")
MAX_DATA_BYTES = 65_507
"""Most data of a UDP datagram over IPv4."""


class _DatagramShape(Shape):
    """Shape of a record. Its head is checked, so a false start costs eight bytes."""

    def length(self, buffer: Stream, at: int, end: int) -> int:
        if end - at < HEAD_BYTES:
            return INCOMPLETE
        size, complement = _LENGTH.unpack_from(buffer, at + 4)
        return HEAD_BYTES + size if size + complement == 0xFFFF else NO_FRAME

    def valid(self, buffer: Stream, at: int, stop: int) -> bool:
        """Return True: the network has checked the data."""
        return True


def pack(data: bytes) -> bytes:
    """Return the record of a datagram. Raises ValueError for one that no network carries."""
    if len(data) > MAX_DATA_BYTES:
        raise ValueError(f"a datagram holds at most {MAX_DATA_BYTES} bytes, not {len(data)}")
    return SYNC + _LENGTH.pack(len(data), 0xFFFF - len(data)) + data


def unpack(records: bytes) -> tuple[list[bytes], int]:
    """Return the datagrams of whole records, and the number of bytes of these; the rest is cut or
    damaged."""
    found, at, shape = [], 0, _DatagramShape()
    while records.startswith(SYNC, at):
        size = shape.length(records, at, len(records))
        if size <= 0 or at + size > len(records):
            break
        found.append(records[at + HEAD_BYTES : at + size])
        at += size
    return found, at


def datagram_reader() -> PayloadReader:
    """Return a reader of datagrams from a stream of records."""
    return PayloadReader(
        [Protocol("datagram", SYNC, _DatagramShape())],
        HEAD_BYTES + 0xFFFF,
        lambda _, record: record[HEAD_BYTES:],
    )
