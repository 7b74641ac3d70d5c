"""CAN bus between the daemon's adapter and one node: frames take time and follow one another.

A :class:`CanNode` is the node itself, without frame timing; :class:`CanBus` makes an emulator of
it. The frame that waited longest is sent next: the bus load here is too low for arbitration by
identifier to matter.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from sim_backend.emulators.wire import MESSAGE, Wire, WireDevice
from vehicled.core.wire.can import RECORD_BYTES, CanFrame, pack, unpack_all

BITRATE = 500_000
EXTENDED_BITS, STANDARD_BITS = 67, 47
"""Bits of a frame without data, including the interframe space. Stuff bits are left out: they
depend on the data, up to a fifth."""
LONGEST_QUEUE_NS = 100_000_000
"""Time after which either side gives up a frame that could not start."""
BUS_OFF = "bus_off"

_ARRIVES, _WANTS_BUS = 0, 1
"""Order of events at the same instant."""


class CanNode(WireDevice):
    """Node of the bus."""

    kinds: Mapping[str, float] = MappingProxyType({})
    """Injectable failures with their default values."""

    def on_frame(self, frame: CanFrame, now_ns: int) -> None:
        """Take a frame that has just ended on the bus."""

    def inject(self, kind: str, value: float, active: bool, now_ns: int) -> None:
        """Begin or end one of its failures."""


class CanBus(Wire[CanNode]):
    """Emulator of a node and its bus. Each frame reaches the daemon as one record, at its last
    bit."""

    def __init__(self, node: CanNode, start_ns: int, bitrate: int = BITRATE) -> None:
        super().__init__(node, start_ns)
        self._bitrate = bitrate
        self._free_ns = start_ns
        self._rest = b""
        self._off = False
        self.carried = False
        """True if a real bus carries the frames, with its own times."""
        self.lost_frames = 0
        """Number of frames that found no time on the bus, or no bus."""

    @property
    def kinds(self) -> Mapping[str, float]:
        """Failures of the node and of the bus."""
        return {**self._device.kinds, BUS_OFF: 1.0}

    def on_rx(self, data: bytes, t_ns: int) -> None:
        """Take the daemon's records; the rest of a cut one waits for the next call."""
        data = self._rest + data
        whole = len(data) - len(data) % RECORD_BYTES
        self._rest = data[whole:]
        for frame in unpack_all(data[:whole]):
            if not frame.error:
                self._push(t_ns, _WANTS_BUS, frame)

    def on_line(self, baud: int, t_ns: int) -> None:
        """Reset the record parser: a reopened port begins with a whole record."""
        self._rest = b""

    # ---------------------------------------------------------------- injected failures

    def inject(self, kind: str, value: float, active: bool, now_ns: int) -> None:
        """Begin or end a failure. Off the bus no frame passes in either direction; the node keeps
        running."""
        self.on_time(now_ns)
        if kind == BUS_OFF:
            self._off = active
            self._clear(now_ns)
        else:
            self._device.inject(kind, value, active, now_ns)
            self._collect(now_ns)

    # ---------------------------------------------------------------- frames

    def _happen(self, kind: int, what: CanFrame, now_ns: int) -> None:
        if kind == _ARRIVES:
            self._device.on_frame(what, now_ns)
        elif (end_ns := self._pass(what, now_ns)) is not None:
            self._push(end_ns, _ARRIVES, what)

    def _send(self, frames: Sequence[CanFrame], now_ns: int) -> None:
        for frame in frames:
            end_ns = self._pass(frame, now_ns)
            if end_ns is not None:
                self._tx.append((end_ns, pack(frame)))

    def _pass(self, frame: CanFrame, now_ns: int) -> int | None:
        """Return when a frame that wants the bus now has passed; None if it cannot."""
        start_ns = max(now_ns, self._free_ns)
        if self._off or start_ns - now_ns > LONGEST_QUEUE_NS:
            self.lost_frames += 1
            return None
        if self.carried:
            return now_ns
        bits = (EXTENDED_BITS if frame.extended else STANDARD_BITS) + (
            0 if frame.remote else 8 * len(frame.data)
        )
        self._free_ns = start_ns + bits * 1_000_000_000 // self._bitrate
        return self._free_ns

    def _clear(self, now_ns: int) -> None:
        kept = [event for event in self._events if event[1] == MESSAGE]
        self.lost_frames += len(self._events) - len(kept)
        self._events[:] = sorted(kept)
        self._free_ns = now_ns
