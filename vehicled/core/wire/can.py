"""CAN frames and their 16-byte record on a frame port: the Linux ``struct can_frame``; error frames
of SocketCAN.

``id u32 | length u8 | 3 bytes padding | data 8 bytes``, with the flags of ``linux/can.h`` in the
top bits of the id. Always little-endian, so that recordings are portable.
"""

import struct
from collections.abc import Iterable, Iterator
from enum import IntFlag

from msgspec import Struct

RECORD_BYTES = 16
MAX_DATA_BYTES = 8

EXTENDED_FLAG = 0x8000_0000
REMOTE_FLAG = 0x4000_0000
ERROR_FLAG = 0x2000_0000
EXTENDED_MASK = 0x1FFF_FFFF
STANDARD_MASK = 0x7FF

_RECORD = struct.Struct("<IB3x8s")


class CanError(IntFlag):
    """Classes of an error frame, the bits of its identifier: ``linux/can/error.h``."""

    TX_TIMEOUT = 0x001
    LOST_ARBITRATION = 0x002
    CONTROLLER = 0x004
    """Details in byte 1."""
    PROTOCOL = 0x008
    """Details in bytes 2 and 3."""
    TRANSCEIVER = 0x010
    """Details in byte 4."""
    NO_ACK = 0x020
    BUS_OFF = 0x040
    BUS_ERROR = 0x080
    RESTARTED = 0x100
    COUNTERS = 0x200
    """Error counters of transmission and reception in bytes 6 and 7."""


_CLASS_TEXTS = {
    CanError.TX_TIMEOUT: "no transmission within its time",
    CanError.LOST_ARBITRATION: "lost arbitration",
    CanError.NO_ACK: "no acknowledgement",
    CanError.BUS_OFF: "bus-off",
    CanError.RESTARTED: "controller restarted",
}
_CONTROLLER_TEXTS = (
    "reception overflow", "transmission overflow", "reception warning", "transmission warning",
    "error-passive (reception)", "error-passive (transmission)", "error-active again",
)  # fmt: skip
_PROTOCOL_TEXTS = (
    "wrong bit", "wrong form", "wrong bit stuffing", "no dominant bit", "no recessive bit",
    "overload", "error-active", "while transmitting",
)  # fmt: skip
_TRANSCEIVER_TEXTS = {
    0x04: "no wire CANH", 0x05: "CANH short to battery", 0x06: "CANH short to VCC",
    0x07: "CANH short to ground", 0x40: "no wire CANL", 0x50: "CANL short to battery",
    0x60: "CANL short to VCC", 0x70: "CANL short to ground", 0x80: "CANL short to CANH",
}  # fmt: skip


class CanFrame(Struct, frozen=True, gc=False):
    """One classic CAN frame. ``can_id`` has 29 bits if ``extended``, else 11; in an ``error`` frame
    it is the error class.

    ``data`` holds at most 8 bytes. A ``remote`` frame has as many zeros as it requests; none are on
    the bus.
    """

    can_id: int
    data: bytes
    extended: bool = True
    remote: bool = False
    error: bool = False


def is_error_active(frame: CanFrame) -> bool:
    """True if an error frame reports that the controller is sound again."""
    return bool(frame.can_id & CanError.CONTROLLER) and frame.data[1:2] == b"\x40"


def error_texts(frame: CanFrame) -> list[str]:
    """Return what an error frame reports, in words; "error of unknown class" for none."""
    data = frame.data.ljust(8, b"\0")
    found = [text for kind, text in _CLASS_TEXTS.items() if frame.can_id & kind]
    if frame.can_id & CanError.CONTROLLER:
        found += [text for bit, text in enumerate(_CONTROLLER_TEXTS) if data[1] >> bit & 1] or [
            "controller error"
        ]
    if frame.can_id & CanError.PROTOCOL:
        found += [text for bit, text in enumerate(_PROTOCOL_TEXTS) if data[2] >> bit & 1] or [
            "protocol violation"
        ]
    if frame.can_id & CanError.TRANSCEIVER:
        found.append(_TRANSCEIVER_TEXTS.get(data[4], "transceiver error"))
    if not found and frame.can_id & CanError.BUS_ERROR:
        found.append("bus error")
    if frame.can_id & CanError.COUNTERS:
        found.append(f"error counters {data[6]} sent, {data[7]} received")
    return found or ["error of unknown class"]


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
        raise ValueError(
            f"no CAN frame has id {can_id:#x} (at most {highest:#x}) with {size} bytes (at "
            f"most {MAX_DATA_BYTES})"
        )
    if frame.remote:
        return _RECORD.pack(can_id | flags | REMOTE_FLAG, size, b"")
    return _RECORD.pack(can_id | flags, size, data)


def unpack_all(data: bytes) -> list[CanFrame]:
    """Return the frames of concatenated records, in order. Never raises; records of invalid length
    and a cut record are skipped."""
    frames = []
    whole = len(data) - len(data) % RECORD_BYTES
    for word, size, payload in _RECORD.iter_unpack(data[:whole]):
        if size > MAX_DATA_BYTES:
            continue
        # Most frequent kind first.
        if word & (EXTENDED_FLAG | REMOTE_FLAG | ERROR_FLAG) == EXTENDED_FLAG:
            frames.append(CanFrame(word & EXTENDED_MASK, payload[:size]))
            continue
        error = bool(word & ERROR_FLAG)
        extended = bool(word & EXTENDED_FLAG)
        remote = bool(word & REMOTE_FLAG)
        mask = EXTENDED_MASK if error or extended else STANDARD_MASK
        frames.append(
            CanFrame(
                word & mask,
                bytes(size) if remote else payload[:size],
                extended and not error,
                remote,
                error,
            )
        )
    return frames


class ErrorReport(Struct, frozen=True, gc=False):
    """Content of an error frame."""

    errors: str
    """Reported errors, in words."""
    can_id: int
    """Its classes, see :class:`CanError`."""
    data: bytes


def decode(frames: Iterable[CanFrame]) -> Iterator[tuple[str, CanFrame | ErrorReport]]:
    """Iterate over the frames of a recording by name of their identifier: ``123``, ``00000901`` if
    extended, ``ERROR``."""
    for frame in frames:
        if frame.error:
            yield "ERROR", ErrorReport(", ".join(error_texts(frame)), frame.can_id, frame.data)
        else:
            yield f"{frame.can_id:0{8 if frame.extended else 3}X}", frame


class CanRecordReader:
    """Frames of records that arrive in any chunks."""

    def __init__(self) -> None:
        self._rest = b""

    def frames(self, data: bytes) -> list[CanFrame]:
        """Return the frames that are complete now; a partial record waits for the next call."""
        if self._rest or len(data) % RECORD_BYTES:
            data = self._rest + data
            whole = len(data) - len(data) % RECORD_BYTES
            data, self._rest = data[:whole], data[whole:]
        return unpack_all(data)

    def clear(self) -> int:
        """Drop a partial record; return its number of bytes."""
        dropped, self._rest = len(self._rest), b""
        return dropped
