"""Frames of the serial line and of USB: ``02 len8 payload crc16 03``, or ``03 len16 payload crc16
03`` from 256 bytes on."""

import struct
from collections.abc import Iterator

from drivers.vesc.comm import MAX_PAYLOAD_BYTES, Comm, CommMessage, decode_comm
from vehicled.core.wire.crc import crc16_xmodem
from vehicled.core.wire.framing import CountedFrame, FrameCheck, PayloadReader, Protocol

SHORT, LONG, END = 0x02, 0x03, 0x03
_SHORT_HEAD = struct.Struct(">BB")
_LONG_HEAD = struct.Struct(">BH")
_TAIL = struct.Struct(">HB")
LONGEST_FRAME_BYTES = _LONG_HEAD.size + MAX_PAYLOAD_BYTES + _TAIL.size


def frame_uart(payload: bytes) -> bytes:
    """Return a packet as a frame. Raises ValueError if it is empty or longer than the firmware
    accepts."""
    length = len(payload)
    if not 0 < length <= MAX_PAYLOAD_BYTES:
        raise ValueError(f"a packet of {length} bytes cannot be sent (1 to {MAX_PAYLOAD_BYTES})")
    head = _SHORT_HEAD.pack(SHORT, length) if length <= 0xFF else _LONG_HEAD.pack(LONG, length)
    return head + payload + _TAIL.pack(crc16_xmodem(payload), END)


QUESTIONS = b"".join(
    frame_uart(bytes((each,)))
    for each in (Comm.FW_VERSION, Comm.GET_MCCONF_TEMP, Comm.GET_MCCONF, Comm.GET_APPCONF)
)
"""Asks for firmware and configurations; nothing moves and nothing is changed."""

_PROTOCOLS = (
    Protocol(
        "short",
        bytes((SHORT,)),
        CountedFrame(
            FrameCheck(crc16_xmodem, first=_SHORT_HEAD.size, tail=1, end=bytes((END,))),
            at=1,
            extra=_SHORT_HEAD.size + _TAIL.size,
            least=1,
            most=0xFF,
        ),
    ),
    Protocol(
        "long",
        bytes((LONG,)),
        CountedFrame(
            FrameCheck(crc16_xmodem, first=_LONG_HEAD.size, tail=1, end=bytes((END,))),
            at=1,
            width=2,
            order="big",
            extra=_LONG_HEAD.size + _TAIL.size,
            # Reject long frames that would fit a short one, as the firmware does, because 03 also
            # ends every frame.
            least=0xFF,
            most=MAX_PAYLOAD_BYTES,
        ),
    ),
)
_PAYLOAD_AT = {"short": _SHORT_HEAD.size, "long": _LONG_HEAD.size}


class UartDecoder(PayloadReader):
    """Incremental decoder of a serial line."""

    def __init__(self) -> None:
        super().__init__(
            _PROTOCOLS,
            LONGEST_FRAME_BYTES,
            lambda name, frame: frame[_PAYLOAD_AT[name] : -_TAIL.size],
        )


def decode(data: bytes) -> Iterator[tuple[str, CommMessage]]:
    """Iterate over the packets of a recorded serial line by name; damage is skipped."""
    decoder = UartDecoder()
    for payload in (*decoder.feed(data), *decoder.flush()):
        yield decode_comm(payload)
