"""Codec of the message link: :mod:`vehicled.core.messages` on a byte stream. Specification:
NOTES.md.

Frame: ``"VL" | version u8 | length u16 | payload | crc u16``, little-endian. ``length`` counts the
payload: one message in msgpack, as an array whose first element is the message's name. ``crc`` is
CRC-16/IBM-3740 over version, length and payload.
"""

import struct
from binascii import crc_hqx
from functools import reduce
from operator import or_

from msgspec import MsgspecError, msgpack

from vehicled.core.messages import ALL, Message
from vehicled.core.wire.framing import CountedFrame, FrameCheck, Framer, Protocol

SYNC = b"VL"
VERSION = 1
MAX_PAYLOAD_BYTES = 16_384
"""Longest payload sent or accepted; bounds the memory and the bytes that a damaged length can hold
back."""

CRC_START = 0xFFFF
_HEAD = struct.Struct("<2sBH")
_CRC = struct.Struct("<H")
_HEAD_BYTES = _HEAD.size
OVERHEAD_BYTES = _HEAD.size + _CRC.size
_VERSION_AND_LENGTH = struct.Struct("<BH")

PROTOCOL = Protocol(
    "msglink",
    SYNC,
    CountedFrame(
        FrameCheck(
            lambda covered: crc_hqx(covered, CRC_START),
            first=len(SYNC),
            tail=_CRC.size,
            stored=-_CRC.size,
            size=_CRC.size,
            order="little",
        ),
        at=3,
        width=2,
        extra=OVERHEAD_BYTES,
        most=MAX_PAYLOAD_BYTES,
    ),
)

_to_msgpack = msgpack.Encoder().encode
_from_msgpack = msgpack.Decoder(reduce(or_, ALL)).decode


def encode(message: Message) -> bytes:
    """Return a message as a frame. Raises ValueError beyond ``MAX_PAYLOAD_BYTES``."""
    payload = _to_msgpack(message)
    length = len(payload)
    if length > MAX_PAYLOAD_BYTES:
        raise ValueError(
            f"{type(message).__name__} of {length} bytes is longer than a frame can be "
            f"({MAX_PAYLOAD_BYTES} bytes)"
        )
    covered = _VERSION_AND_LENGTH.pack(VERSION, length) + payload
    return SYNC + covered + _CRC.pack(crc_hqx(covered, CRC_START))


class MsglinkDecoder:
    """Incremental decoder of a stream cut anywhere. Never raises on wire input; keeps at most one
    frame.

    After a checksum error the search continues one byte after the sync, so damage costs only the
    damaged frames. A valid frame of another version, or with an unknown or unfitting message, is
    skipped as a whole.
    """

    def __init__(self) -> None:
        self._framer = Framer((PROTOCOL,), OVERHEAD_BYTES + MAX_PAYLOAD_BYTES)
        self.unknown_frames = 0
        """Valid frames of another version, or with an unknown message."""

    @property
    def dropped_bytes(self) -> int:
        """Bytes outside valid frames."""
        return self._framer.dropped_bytes

    @property
    def bad_frames(self) -> int:
        """Heads without a valid frame, including false ones inside damaged frames."""
        return self._framer.bad_frames

    @property
    def buffered_bytes(self) -> int:
        """Bytes of an incomplete frame; below ``MAX_PAYLOAD_BYTES + OVERHEAD_BYTES``."""
        return self._framer.buffered_bytes

    def feed(self, data: bytes) -> list[Message]:
        """Return the messages completed by ``data``, in order. ``t_rx_ns`` is the sender's, by
        convention 0; the receiver stamps it."""
        messages: list[Message] = []
        for _, frame in self._framer.feed(data):
            if frame[2] != VERSION:
                self.unknown_frames += 1
                continue
            try:
                messages.append(_from_msgpack(frame[_HEAD_BYTES : -_CRC.size]))
            except (MsgspecError, ValueError, RecursionError):
                self.unknown_frames += 1
        return messages
