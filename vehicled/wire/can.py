"""CAN frames and their 16-byte record on a frame port: the Linux ``struct can_frame``.

``id u32 | length u8 | 3 bytes padding | data 8 bytes``, with the flags of ``linux/can.h`` in the top bits of the id. Always
little-endian, so that recordings are portable.
"""

import struct
from collections.abc import Iterable, Iterator

from msgspec import Struct

RECORD_BYTES = 16
MAX_DATA_BYTES = 8

EXTENDED_FLAG = 0x8000_0000
REMOTE_FLAG = 0x4000_0000
ERROR_FLAG = 0x2000_0000
EXTENDED_MASK = 0x1FFF_FFFF
STANDARD_MASK = 0x7FF

_RECORD = struct.Struct("<IB3x8s")


class CanFrame(Struct, frozen=True, gc=False):
    """One classic CAN frame. ``can_id`` has 29 bits if ``extended``, else 11; in an ``error`` frame it is the error class.

    ``data`` holds at most 8 bytes. A ``remote`` frame has as many zeros as it requests; none are on the bus.
    """

    can_id: int
    data: bytes
    extended: bool = True
    remote: bool = False
    error: bool = False


def pack(frame: CanFrame) -> bytes:
    """Return a frame as a record. Raises ValueError for an invalid id or data."""
    can_id, data = frame.can_id, frame.data
    size = len(data)
    if frame.error:
        highest, flags = EXTENDED_MASK, ERROR_FLAG
    elif frame.extended:
        highest, flags = EXTENDED_MASK, EXTENDED_FLAG
    else:
        highest, flags = STANDARD_MASK, 0
    if not 0 <= can_id <= highest or size > MAX_DATA_BYTES:
        raise ValueError(f"no CAN frame has id {can_id:#x} (at most {highest:#x}) with {size} bytes (at most {MAX_DATA_BYTES})")
    if frame.remote:
        return _RECORD.pack(can_id | flags | REMOTE_FLAG, size, b"")
    return _RECORD.pack(can_id | flags, size, data)


def unpack_all(data: bytes) -> list[CanFrame]:
    """Return the frames of concatenated records, in order. Never raises; records of invalid length and a cut record are skipped."""
    frames = []
    whole = len(data) - len(data) % RECORD_BYTES
    for word, size, payload in _RECORD.iter_unpack(data[:whole]):
        if size > MAX_DATA_BYTES:
            continue
        # Most frequent kind first.
        if word & (EXTENDED_FLAG | REMOTE_FLAG | ERROR_FLAG) == EXTENDED_FLAG:
            frames.append(CanFrame(word & EXTENDED_MASK, payload[:size]))
            continue
        error, extended, remote = bool(word & ERROR_FLAG), bool(word & EXTENDED_FLAG), bool(word & REMOTE_FLAG)
        mask = EXTENDED_MASK if error or extended else STANDARD_MASK
        frames.append(CanFrame(word & mask, bytes(size) if remote else payload[:size], extended and not error, remote, error))
    return frames


def decode(frames: Iterable[CanFrame]) -> Iterator[tuple[str, CanFrame]]:
    """Iterate over the frames of a recording by name of their identifier: ``123``, ``00000901`` if extended, ``ERROR``."""
    for frame in frames:
        yield "ERROR" if frame.error else f"{frame.can_id:0{8 if frame.extended else 3}X}", frame
