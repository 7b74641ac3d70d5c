"""Codec of the ART board: ``04 | servo u16 | speed controller u16``, little-endian microseconds.
Both directions, pure.

The frame has no sync and no checksum: 4 is the length of what follows, and any other byte in its
place is skipped. NOTES.md explains the consequences, and why leading zeros help.
"""

import struct

from msgspec import Struct

SIZE = 4
_FRAME = struct.Struct("<BHH")
_PULSES = struct.Struct("<HH")
FRAME_BYTES = _FRAME.size

BAUD = 250_000
BOARD_MIN_US, BOARD_NEUTRAL_US, BOARD_MAX_US = 1000, 1500, 1980
"""Pulse limits and neutral pulse of the board. It ignores pulses outside and starts at neutral."""
BOARD_STEP_US, BOARD_STEP_NS = 5, 10_000_000
"""Largest pulse step of the board, per pass of its loop."""
BOARD_STALE_NS = 200_000_000
"""Time without a frame after which the board goes to neutral: the speed controller at once, the
servo in steps."""


class Pulses(Struct, frozen=True, gc=False):
    """Two pulse widths, us."""

    servo_us: int
    drive_us: int


def encode(pulses: Pulses, resync_bytes: int = 0) -> bytes:
    """Return a frame. Raises ValueError for a width that the board would ignore, keeping the last
    one."""
    for each in (pulses.servo_us, pulses.drive_us):
        if not BOARD_MIN_US <= each <= BOARD_MAX_US:
            raise ValueError(
                f"the board ignores a pulse of {each} us ({BOARD_MIN_US} to {BOARD_MAX_US})"
            )
    return bytes(resync_bytes) + _FRAME.pack(SIZE, pulses.servo_us, pulses.drive_us)


class PwmDecoder:
    """Decoder on the board's side: incremental, bounded, never raises. Widths are as sent,
    including invalid ones."""

    def __init__(self) -> None:
        self._rest = b""
        self.dropped_bytes = 0
        """Bytes in the place of the length 4."""

    def feed(self, data: bytes) -> list[Pulses]:
        """Return the pulse widths completed by ``data``."""
        data = self._rest + data
        found = []
        at = 0
        while (start := data.find(SIZE, at)) >= 0 and start + FRAME_BYTES <= len(data):
            self.dropped_bytes += start - at
            found.append(Pulses(*_PULSES.unpack_from(data, start + 1)))
            at = start + FRAME_BYTES
        kept = start if start >= 0 else len(data)
        self.dropped_bytes += kept - at
        self._rest = data[kept:]
        return found
