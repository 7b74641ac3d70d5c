"""RXM-PMP messages (UBX 02 72) of a u-blox satellite receiver (NEO-D9S): whole frames with pieces
of a SPARTN stream, which a ZED-F9P takes as they are."""

from typing import Final

from vehicled.core.wire.crc import fletcher8_number
from vehicled.core.wire.framing import CountedFrame, FrameCheck, PayloadReader, Protocol

NAME: Final = "RXM-PMP"
OVERHEAD_BYTES: Final = 8
MOST_BYTES: Final = 528
"""Payload of version 0; version 1 has up to 504 bytes of data behind 24."""
_PROTOCOL: Final = Protocol(
    NAME,
    b"\xb5\x62\x02\x72",
    CountedFrame(
        FrameCheck(fletcher8_number, first=2, tail=2, stored=-2, size=2, order="little"),
        at=4,
        width=2,
        extra=OVERHEAD_BYTES,
        most=MOST_BYTES,
    ),
)


class PmpReader(PayloadReader):
    """Reader of complete frames; all other messages of the receiver are passed over."""

    def __init__(self) -> None:
        super().__init__([_PROTOCOL], MOST_BYTES + OVERHEAD_BYTES, lambda _, frame: frame)
