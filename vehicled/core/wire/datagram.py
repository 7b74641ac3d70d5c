"""Datagrams on a port: each is one record, so that any cut of the stream keeps their bounds.

``D6 0D | length u16 | CRC-16 of these four bytes u16 | data``, little-endian. A UDP port reads and
writes such records; they never leave the computer, except in a log.
"""

from vehicled.core.wire.crc import crc16_xmodem
from vehicled.core.wire.framing import (
    INCOMPLETE,
    NO_FRAME,
    PayloadReader,
    Protocol,
    Shape,
    Stream,
)

SYNC = b"\xd6\x0d"
HEAD_BYTES = 6
MAX_DATA_BYTES = 65_507
"""Most data of a UDP datagram over IPv4."""


class _Record(Shape):
    """Shape of a record. Its head is checked, so a false start costs six bytes."""

    def length(self, buffer: Stream, at: int, end: int) -> int:
        if end - at < HEAD_BYTES:
            return INCOMPLETE
        if crc16_xmodem(buffer[at : at + 4]) != int.from_bytes(buffer[at + 4 : at + 6], "little"):
            return NO_FRAME
        size = int.from_bytes(buffer[at + 2 : at + 4], "little")
        return HEAD_BYTES + size if size <= MAX_DATA_BYTES else NO_FRAME

    def valid(self, buffer: Stream, at: int, stop: int) -> bool:
        """Return True: the network has checked the data."""
        return True


def pack(data: bytes) -> bytes:
    """Return the record of a datagram. Raises ValueError for one that no network carries."""
    if len(data) > MAX_DATA_BYTES:
        raise ValueError(f"a datagram holds at most {MAX_DATA_BYTES} bytes, not {len(data)}")
    head = SYNC + len(data).to_bytes(2, "little")
    return head + crc16_xmodem(head).to_bytes(2, "little") + data


def unpack(records: bytes) -> tuple[list[bytes], int]:
    """Return the datagrams of whole records, and the number of bytes of these; the rest is cut or
    damaged."""
    found, at, shape = [], 0, _Record()
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
        [Protocol("datagram", SYNC, _Record())],
        HEAD_BYTES + MAX_DATA_BYTES,
        lambda _, record: record[HEAD_BYTES:],
    )
