"""Events of the kernel's joystick device, ``struct js_event`` of linux/joystick.h: u32 ms, s16 value, u8 type, u8 number."""

import struct

from msgspec import Struct

LAYOUT = struct.Struct("=IhBB")
BUTTON, AXIS, INITIAL = 0x01, 0x02, 0x80
FULL = 32767
"""Largest value of an axis, to either side."""


class JsEvent(Struct, frozen=True, gc=False):
    """A button that changed, or an axis."""

    time_ms: int
    value: int
    """0 or 1 of a button, -32767 to 32767 of an axis."""
    axis: bool
    number: int
    initial: bool = False
    """Not a change, but what was found when the device was opened or events were lost."""


def encode(event: JsEvent) -> bytes:
    """As the kernel writes it."""
    kind = (AXIS if event.axis else BUTTON) | (INITIAL if event.initial else 0)
    return LAYOUT.pack(event.time_ms, event.value, kind, event.number)


class JsDecoder:
    """Incremental decoder. Never raises; events of a kind that does not exist are counted and left out."""

    def __init__(self) -> None:
        self._rest = b""
        self.unknown = 0
        """Events that were left out."""

    def feed(self, data: bytes) -> list[JsEvent]:
        """Events that ``data`` completes."""
        data = self._rest + data
        whole = len(data) - len(data) % LAYOUT.size
        self._rest = data[whole:]
        events = []
        for time_ms, value, kind, number in LAYOUT.iter_unpack(data[:whole]):
            bare = kind & ~INITIAL
            if bare == AXIS:
                events.append(JsEvent(time_ms, max(-FULL, value), True, number, bool(kind & INITIAL)))
            elif bare == BUTTON and value in (0, 1):
                events.append(JsEvent(time_ms, value, False, number, bool(kind & INITIAL)))
            else:
                self.unknown += 1
        return events
