"""Events of the kernel's joystick devices, ``struct js_event`` of linux/joystick.h: u32 ms, s16
value, u8 type, u8 number."""

import struct

from msgspec import Struct

LAYOUT = struct.Struct("=IhBB")
BUTTON, AXIS, INITIAL = 0x01, 0x02, 0x80
FULL = 32767
"""Largest magnitude of an axis."""


class JsEvent(Struct, frozen=True, gc=False):
    """Change of a button or an axis."""

    time_ms: int
    value: int
    """Value, 0 or 1 for a button, -32767 to 32767 for an axis."""
    axis: bool
    number: int
    initial: bool = False
    """True for the state when the device was opened or after lost events; not a change."""


def encode(event: JsEvent) -> bytes:
    """Encode an event like the kernel."""
    kind = (AXIS if event.axis else BUTTON) | (INITIAL if event.initial else 0)
    return LAYOUT.pack(event.time_ms, event.value, kind, event.number)


class JsDecoder:
    """Incremental decoder. Never raises; events of unknown types are counted and skipped."""

    def __init__(self) -> None:
        self._rest = b""
        self.unknown = 0
        """Number of skipped events."""

    def feed(self, data: bytes) -> list[JsEvent]:
        """Return the events that ``data`` completes."""
        data = self._rest + data
        whole = len(data) - len(data) % LAYOUT.size
        self._rest = data[whole:]
        events = []
        for time_ms, value, kind, number in LAYOUT.iter_unpack(data[:whole]):
            bare = kind & ~INITIAL
            if bare == AXIS:
                events.append(
                    JsEvent(time_ms, max(-FULL, value), True, number, bool(kind & INITIAL))
                )
            elif bare == BUTTON and value in (0, 1):
                events.append(JsEvent(time_ms, value, False, number, bool(kind & INITIAL)))
            else:
                self.unknown += 1
        return events
