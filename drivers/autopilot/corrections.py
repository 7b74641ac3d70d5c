"""RTCM for the receiver of an autopilot, as fragments of GPS_RTCM_DATA in both directions. Sources:
NOTES.md.

Flags: bit 0 of a message in several fragments, bits 1 and 2 the number of the fragment, bits 3 to 7
that of the message. A fragment that is not full ends a message, so one that fills its last fragment
is followed by an empty one, unless it is the fourth.
"""

from collections.abc import Iterator

from msgspec import Struct

from drivers.autopilot.codec import GpsRtcmData

FRAGMENT_BYTES = 180
MOST_FRAGMENTS = 4
MOST_BYTES = FRAGMENT_BYTES * MOST_FRAGMENTS


def fragments(message: bytes, sequence: int) -> Iterator[GpsRtcmData]:
    """Iterate over the fragments of a message of at most ``MOST_BYTES``."""
    whole = len(message) <= FRAGMENT_BYTES
    count = 1 if whole else min(len(message) // FRAGMENT_BYTES + 1, MOST_FRAGMENTS)
    for k in range(count):
        part = message[k * FRAGMENT_BYTES : (k + 1) * FRAGMENT_BYTES]
        flags = (sequence & 0x1F) << 3 | k << 1 | (not whole)
        yield GpsRtcmData(flags, len(part), part)


class Reassembly(Struct):
    """Fragments of one message at the autopilot's end."""

    sequence: int = -1
    parts: dict[int, bytes] = {}

    def add(self, found: GpsRtcmData) -> bytes:
        """Return the message that a fragment completes; empty for none."""
        data = found.data[: found.len]
        if not found.flags & 1:
            return data
        sequence, number = found.flags >> 3, found.flags >> 1 & 3
        if sequence != self.sequence or number in self.parts:
            self.sequence, self.parts = sequence, {}
        self.parts[number] = data
        for last in range(MOST_FRAGMENTS):
            part = self.parts.get(last)
            if part is None:
                return b""
            if len(part) < FRAGMENT_BYTES or last == MOST_FRAGMENTS - 1:
                whole = b"".join(self.parts[k] for k in range(last + 1))
                self.parts = {}
                return whole
        return b""
