"""SBUS of Futaba, FrSky and others: codec in both directions, and the driver. Sources: NOTES.md.

Frame: ``0F | 16 channels of 11 bits, 22 bytes | flags | end``, 100000 baud, 8 bits, even parity, 2
stop bits, inverted. It has no checksum, so frames are believed only where one follows another, and
a candidate that the pause between two frames cuts is none.
"""

import re
from collections.abc import Iterator, Sequence
from typing import ClassVar

from msgspec import Struct

from drivers.rc.base import RcDevice, pack11, unpack11
from vehicled.core.messages import Message
from vehicled.core.wire.channels import TICKS

BEGIN = 0x0F
FRAME_BYTES = 25
LOST, FAILSAFE = 0x04, 0x08
ENDS = b"\x00\x04\x14\x24\x34\x08"
"""Last byte: 00, or with telemetry slots (SBUS2) 04, 14, 24, 34 in turn; 08 of a Futaba R7003SB."""
SLOT_BYTES = 5
"""Bytes of a telemetry slot, which a receiver leaves or fills between two frames: three of SBUS2,
five of a Futaba R7003SB."""
GAP_NS = 2_500_000
"""Pause that no frame has inside: its bytes follow each other for 3 ms, and the pause between two
frames is 4 ms or longer."""
_FRAME = re.compile(rb"\x0f.{22}[\x00-\x0f][" + re.escape(ENDS) + b"]", re.DOTALL)


class SbusFrame(Struct, frozen=True, gc=False):
    """One frame."""

    channels: tuple[float, ...]
    """Values of the 16 channels, 0 to 2047."""
    digital: tuple[bool, bool] = (False, False)
    """Channels 17 and 18."""
    frame_lost: bool = False
    failsafe: bool = False


def encode(frame: SbusFrame, end: int = ENDS[0]) -> bytes:
    """Return the bytes of a frame."""
    first, second = frame.digital
    flags = (
        first
        | second << 1
        | (LOST if frame.frame_lost else 0)
        | (FAILSAFE if frame.failsafe else 0)
    )
    return (
        bytes((BEGIN,)) + pack11([round(value) for value in frame.channels]) + bytes((flags, end))
    )


def parse(data: bytes) -> SbusFrame:
    """Return the content of 25 bytes."""
    flags = data[23]
    return SbusFrame(
        unpack11(data[1:23]),
        (bool(flags & 1), bool(flags & 2)),
        bool(flags & LOST),
        bool(flags & FAILSAFE),
    )


class SbusReader:
    """Finds the frames of a stream cut anywhere. Never raises; keeps less than a frame.

    A frame counts if it follows the one before it, with a telemetry slot between them at most, or
    begins the stream. So the first after noise is left out, and random bytes, of which one in
    170,000 looks like the begin of a frame, give none.
    """

    def __init__(self) -> None:
        self._held = b""
        self._between = 0
        self.dropped_bytes = 0
        """Bytes outside frames."""
        self.unconfirmed = 0
        """Frames that none preceded."""

    def clear(self) -> None:
        """Forget what is held."""
        self._pass(len(self._held))
        self._held = b""

    def feed(self, data: bytes, *, stale: bool = False) -> list[bytes]:
        """Return the frames that ``data`` completes. ``stale``: the line was silent before, so what
        is held is no frame."""
        if stale:
            self.clear()
        buffer = self._held + data
        found, at = [], 0
        while match := _FRAME.search(buffer, at):
            self._pass(match.start() - at)
            if self._between <= SLOT_BYTES:
                found.append(match[0])
            else:
                self.unconfirmed += 1
            at, self._between = match.end(), 0
        begins = buffer.find(BEGIN, max(at, len(buffer) - FRAME_BYTES + 1))
        keep = len(buffer) if begins < 0 else begins
        self._pass(keep - at)
        self._held = buffer[keep:]
        return found

    def _pass(self, count: int) -> None:
        self.dropped_bytes += count
        self._between += count


def decode(data: bytes) -> Iterator[tuple[str, object]]:
    """Iterate over the frames of a recording as (name, content)."""
    for frame in SbusReader().feed(data):
        yield "CHANNELS", parse(frame)


class SbusParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An SBUS receiver has no parameters."""


class SbusDevice(RcDevice):
    """Driver of an SBUS receiver."""

    name: ClassVar[str] = "sbus"
    channels: ClassVar[int] = 18
    checked: ClassVar[bool] = False
    line: ClassVar[str] = "baud=100000&frame=8E2"
    Params: ClassVar[type[SbusParams]] = SbusParams

    def __init__(
        self, params: SbusParams, messages: Sequence[type[Message]], command_lifetime_ns: int
    ) -> None:
        super().__init__(params, messages, command_lifetime_ns)
        self._reader = SbusReader()
        self._rx_ns = 0

    @property
    def dropped_bytes(self) -> int:
        """Bytes outside frames, since start."""
        return self._reader.dropped_bytes

    def _clear(self) -> None:
        self._reader = SbusReader()

    def _read(self, data: bytes, t_ns: int) -> list[Message]:
        stale, self._rx_ns = t_ns - self._rx_ns > GAP_NS, t_ns
        found: list[Message] = []
        for each in self._reader.feed(data, stale=stale):
            frame = parse(each)
            digital = [TICKS.high if on else TICKS.low for on in frame.digital]
            found.append(
                self._frame(
                    (*frame.channels, *digital),
                    t_ns,
                    failsafe=frame.failsafe,
                    lost=frame.frame_lost,
                )
            )
        return found
