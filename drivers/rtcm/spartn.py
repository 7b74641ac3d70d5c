"""Codec of the SPARTN transport: frames in a byte stream, and names of messages. The contents, often encrypted, pass unread.

``73 | type 7, length 10, encrypted 1, kind of CRC 2, CRC-4 | subtype 4, kind of time 1, time 16 or 32, solution 7, processor 4 |
(encrypted: key 4, sequence 6, authentication 3, its length 3) | payload | authentication | CRC``, bits from the highest.
"""

from collections.abc import Callable, Iterator
from typing import Final
from zlib import crc32

from msgspec import Struct

from vehicled.core.wire.crc import BIT_REVERSED, CRC24Q_WEIGHT, Buffer, crc16_xmodem, crc24q, table8
from vehicled.core.wire.framing import INCOMPLETE, NO_FRAME, PayloadReader, Protocol, Shape, Stream

SYNC: Final = b"s"
START_BYTES: Final = 4
"""Preamble and the three bytes behind it."""
_AUTHENTICATION_BYTES: Final = (8, 12, 16, 32, 64, 0, 0, 0)
MAX_FRAME_BYTES: Final = START_BYTES + 6 + 2 + 1023 + 64 + 4
_CRC8: Final = table8(0x07)


def _crc4_bits(start: int) -> int:
    """Return the CRC-4 of the twenty bits behind the preamble: polynomial 9, the lowest bit of each byte first."""
    crc = 0
    for byte in (start >> 16 & 0xFF, start >> 8 & 0xFF, start & 0xF0):
        for bit in range(8):
            crc = crc << 1 & 0xF ^ (9 if (crc >> 3 ^ byte >> bit) & 1 else 0)
    return BIT_REVERSED[crc] >> 4


# It begins with 0, so that of several bytes is the exclusive or of those of each alone.
_CRC4: Final = tuple(bytes(_crc4_bits(byte << shift) for byte in range(256)) for shift in (16, 8, 0))


def _crc4(start: int) -> int:
    return _CRC4[0][start >> 16] ^ _CRC4[1][start >> 8 & 0xFF] ^ _CRC4[2][start & 0xFF]


def _crc8(data: Buffer) -> int:
    crc = 0
    for byte in data:
        crc = _CRC8[crc ^ byte]
    return crc


def _crc32(data: Buffer) -> int:
    """Return CRC-32/BZIP2: that of zlib with every byte's bits reversed. Check value 0xFC891918."""
    value = crc32(bytes(data).translate(BIT_REVERSED))
    return int.from_bytes(value.to_bytes(4, "little").translate(BIT_REVERSED), "big")


_CHECKS: Final[tuple[Callable[[Buffer], int], ...]] = (_crc8, crc16_xmodem, crc24q, _crc32)
"""Checksums by kind, of one to four bytes."""


class SpartnFrame(Shape):
    """Frame whose length is in several fields of its head."""

    weight = CRC24Q_WEIGHT

    def length(self, buffer: Stream, at: int, end: int) -> int:
        if end - at < START_BYTES:
            return INCOMPLETE
        start = int.from_bytes(buffer[at + 1 : at + START_BYTES], "big")
        if _crc4(start) != start & 0xF:
            return NO_FRAME
        if end - at < START_BYTES + 1:
            return INCOMPLETE
        size = START_BYTES + (6 if buffer[at + START_BYTES] & 0x08 else 4)
        if start >> 6 & 1:
            size += 2
            if end - at < size:
                return INCOMPLETE
            last = buffer[at + size - 1]
            if last >> 3 & 7 > 1:
                size += _AUTHENTICATION_BYTES[last & 7]
        return size + (start >> 7 & 0x3FF) + (start >> 4 & 3) + 1

    def valid(self, buffer: Stream, at: int, stop: int) -> bool:
        kind = buffer[at + 3] >> 4 & 3
        check = stop - kind - 1
        return _CHECKS[kind](buffer[at + 1 : check]) == int.from_bytes(buffer[check:stop], "big")


SPARTN: Final = Protocol("SPARTN", SYNC, SpartnFrame())
"""Protocol for a ``Framer``."""


class SpartnReader(PayloadReader):
    """Reader of complete frames."""

    def __init__(self) -> None:
        super().__init__([SPARTN], MAX_FRAME_BYTES, lambda _, frame: frame)


_TYPES: Final = {0: "OCB", 1: "HPAC", 2: "GAD", 3: "BPAC", 4: "EAS", 120: "PROP"}
_SYSTEMS: Final = {0: "GPS", 1: "GLO", 2: "GAL", 3: "BDS", 4: "QZSS"}


class SpartnContent(Struct, frozen=True, gc=False):
    """One message of a recording, with its unread content."""

    kind: int
    """Type: 0 orbits and clocks, 1 atmosphere in high precision, 2 areas, 3 atmosphere, 4 keys."""
    subtype: int
    encrypted: bool
    time_s: int
    """Seconds in the half day, or since 2010, as the message counts them."""
    octets: int
    frame: bytes


def content_of(frame: bytes) -> SpartnContent:
    """Return what the head of a frame says."""
    start, long_time = int.from_bytes(frame[1:4], "big"), frame[4] & 0x08
    time_s = int.from_bytes(frame[4 : 10 if long_time else 8], "big") >> 11 & (0xFFFF_FFFF if long_time else 0xFFFF)
    return SpartnContent(start >> 17, frame[4] >> 4, bool(start >> 6 & 1), time_s, len(frame), frame)


def name_of(frame: bytes) -> str:
    """Return the name of a message, such as ``HPAC-GPS``; by its numbers if they are not assigned."""
    kind, subtype = frame[1] >> 1, frame[4] >> 4
    name = _TYPES.get(kind)
    if name in ("OCB", "HPAC") and subtype in _SYSTEMS:
        return f"{name}-{_SYSTEMS[subtype]}"
    return f"{name or f'SPARTN-{kind}'}-{subtype}"


def encode(
    kind: int,
    subtype: int,
    payload: bytes,
    time_s: int = 0,
    *,
    crc: int = 2,
    long_time: bool = False,
    encrypted: tuple[int, int] | None = None,
) -> bytes:
    """Return a frame without authentication. ``crc``: bytes of the checksum less one; ``encrypted``: key and sequence.

    Raises OverflowError or ValueError for values that do not fit."""
    if not 0 <= kind < 128 or not 0 <= subtype < 16 or len(payload) > 1023:
        raise ValueError("type, subtype or payload does not fit a frame")
    start = kind << 17 | len(payload) << 7 | (encrypted is not None) << 6 | crc << 4
    bits = 32 if long_time else 16
    head = (subtype << 1 | long_time) << bits + 11 | time_s << 11
    more = head.to_bytes(6 if long_time else 4, "big")
    if encrypted is not None:
        key, sequence = encrypted
        more += (key << 12 | sequence << 6).to_bytes(2, "big")
    covered = (start | _crc4(start)).to_bytes(3, "big") + more + payload
    return SYNC + covered + _CHECKS[crc](covered).to_bytes(crc + 1, "big")


def decode(data: bytes) -> Iterator[tuple[str, SpartnContent]]:
    """Iterate over the messages of a recording. Damage is skipped."""
    reader = SpartnReader()
    for frame in (*reader.feed(data), *reader.flush()):
        yield name_of(frame), content_of(frame)
