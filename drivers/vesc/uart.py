"""Frames of the serial line and of USB: ``02 len8 payload crc16 03``, or ``03 len16 payload crc16 03`` from 256 bytes on."""

import struct
from collections.abc import Iterator

from drivers.vesc.comm import MAX_PAYLOAD_BYTES, CommMessage, decode_comm
from vehicled.wire.crc import crc16_xmodem
from vehicled.wire.framing import PayloadReader, Protocol

SHORT, LONG, END = 0x02, 0x03, 0x03
_SHORT_HEAD = struct.Struct(">BB")
_LONG_HEAD = struct.Struct(">BH")
_TAIL = struct.Struct(">HB")
LONGEST_FRAME_BYTES = _LONG_HEAD.size + MAX_PAYLOAD_BYTES + _TAIL.size


def frame_uart(payload: bytes) -> bytes:
    """Return a packet as a frame. Raises ValueError if it is empty or longer than the firmware accepts."""
    length = len(payload)
    if not 0 < length <= MAX_PAYLOAD_BYTES:
        raise ValueError(f"a packet of {length} bytes cannot be sent (1 to {MAX_PAYLOAD_BYTES})")
    head = _SHORT_HEAD.pack(SHORT, length) if length <= 0xFF else _LONG_HEAD.pack(LONG, length)
    return head + payload + _TAIL.pack(crc16_xmodem(payload), END)


def _probe(buffer: bytes | bytearray, at: int, end: int, head: int, length: int) -> int:
    stop = at + head + length + _TAIL.size
    if stop > end:
        return 0
    crc, last = _TAIL.unpack_from(buffer, stop - _TAIL.size)
    whole = last == END and crc == crc16_xmodem(bytes(buffer[at + head : stop - _TAIL.size]))
    return stop - at if whole else -1


def _probe_short(buffer: bytes | bytearray, at: int, end: int) -> int:
    if end - at < _SHORT_HEAD.size:
        return 0
    length = buffer[at + 1]
    return _probe(buffer, at, end, _SHORT_HEAD.size, length) if length else -1


def _probe_long(buffer: bytes | bytearray, at: int, end: int) -> int:
    if end - at < _LONG_HEAD.size:
        return 0
    length = buffer[at + 1] << 8 | buffer[at + 2]
    # Reject long frames that would fit a short one, as the firmware does, because 03 also ends every frame.
    return _probe(buffer, at, end, _LONG_HEAD.size, length) if 0xFF <= length <= MAX_PAYLOAD_BYTES else -1


_PROTOCOLS = (Protocol("short", bytes((SHORT,)), _probe_short), Protocol("long", bytes((LONG,)), _probe_long))
_PAYLOAD_AT = {"short": _SHORT_HEAD.size, "long": _LONG_HEAD.size}


class UartDecoder(PayloadReader):
    """Incremental decoder of a serial line."""

    def __init__(self) -> None:
        super().__init__(_PROTOCOLS, LONGEST_FRAME_BYTES, lambda name, frame: frame[_PAYLOAD_AT[name] : -_TAIL.size])


def decode(data: bytes) -> Iterator[tuple[str, CommMessage]]:
    """Iterate over the packets of a recorded serial line by name; damage is skipped."""
    decoder = UartDecoder()
    for payload in (*decoder.feed(data), *decoder.flush()):
        yield decode_comm(payload)
