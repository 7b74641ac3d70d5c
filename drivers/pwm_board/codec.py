"""Frame of the ART board: ``04 | servo u16 | speed controller u16``, little-endian microseconds. Both directions, pure.

No sync, no checksum: the 4 is the length of what follows, and any other byte in its place is skipped. NOTES.md tells what that
leads to, and why zeros in front of a frame cure it.
"""

import struct

from msgspec import Struct

SIZE = 4
_FRAME = struct.Struct("<BHH")
_PULSES = struct.Struct("<HH")
FRAME_BYTES = _FRAME.size

BAUD = 250_000
BOARD_MIN_US, BOARD_NEUTRAL_US, BOARD_MAX_US = 1000, 1500, 1980
"""The board keeps its last pulse when told one outside, and starts at neutral."""
BOARD_STEP_US, BOARD_STEP_NS = 5, 10_000_000
"""The board follows at most so far in each pass of its loop."""
BOARD_STALE_NS = 200_000_000
"""Without a frame for so long the board goes to neutral: the speed controller at once, the servo by its steps."""


class Pulses(Struct, frozen=True, gc=False):
    """Two pulse widths in microseconds."""

    servo_us: int
    drive_us: int


def encode(pulses: Pulses, resync_bytes: int = 0) -> bytes:
    """A frame. Raises ValueError for a width that the board would ignore: it would go on with the one before."""
    for each in (pulses.servo_us, pulses.drive_us):
        if not BOARD_MIN_US <= each <= BOARD_MAX_US:
            raise ValueError(f"the board ignores a pulse of {each} us ({BOARD_MIN_US} to {BOARD_MAX_US})")
    return bytes(resync_bytes) + _FRAME.pack(SIZE, pulses.servo_us, pulses.drive_us)


class Decoder:
    """The board's side: incremental, keeps less than one frame, never raises. Widths are as sent, even those the board ignores."""

    def __init__(self) -> None:
        self._rest = b""
        self.dropped_bytes = 0
        """Bytes that stood where a length of 4 should have been."""

    def feed(self, data: bytes) -> list[Pulses]:
        """Pulse widths completed by ``data``."""
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
