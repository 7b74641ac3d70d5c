"""A CAN bus between the daemon's adapter and one node: time per frame, one frame after the other, whoever sends.

A :class:`CanNode` is the node itself: it lives in its own present and does not know how long its frames travel. :class:`CanBus`
makes an emulator of it. As on a serial line, everything that happens is put in the order of its time first, so that the bytes do
not depend on the instants at which the simulator was called. Who waits longest sends next: the bus is never so full here that the
arbitration by identifier would decide.
"""

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, Protocol

from sim_backend.emulators.interface import NEVER_NS, DriveCommand
from sim_backend.emulators.outbox import Outbox
from vehicled.messages import Message
from vehicled.wire.can import RECORD_BYTES, CanFrame, pack, unpack_all

BITRATE = 500_000
EXTENDED_BITS, STANDARD_BITS = 67, 47
"""Of a frame without data, the gap to the next included. Stuff bits are left out: they depend on the data, up to a fifth."""
LONGEST_QUEUE_NS = 100_000_000
"""What could not begin for so long is given up, by either side."""
BUS_OFF = "bus_off"

_ARRIVES, _WANTS_BUS, _MESSAGE = 0, 1, 2
"""What comes first of things that happen at the same instant."""


class CanNode(Protocol):
    """A node of the bus. Called in the order of time; never raises on frames."""

    kinds: Mapping[str, float]
    """What it can be told to suffer, with the value unless another is named."""

    def on_message(self, message: Message, now_ns: int) -> None:
        """The sensor in it has a value, ready to leave."""
        ...

    def on_frame(self, frame: CanFrame, now_ns: int) -> None:
        """A frame has just ended on the bus."""
        ...

    def next_due_ns(self) -> int:
        """When ``on_time`` wants to run; ``NEVER_NS`` without duties of its own."""
        ...

    def on_time(self, now_ns: int) -> None:
        """A duty is due."""
        ...

    def restart(self, now_ns: int) -> None:
        """Power was away and is back: everything that is not in its flash is lost."""
        ...

    def inject(self, kind: str, value: float, active: bool, now_ns: int) -> None:
        """One of its kinds begins or ends."""
        ...

    def take_tx(self) -> Sequence[CanFrame]:
        """Frames that it wants to send since the last call, in order."""
        ...

    def take_commands(self) -> Sequence[DriveCommand]:
        """Commands understood since the last call."""
        ...


class CanBus(Outbox):
    """An emulator made of a node and the bus to it. Each frame reaches the daemon as a record of its own, at its last bit."""

    def __init__(self, node: CanNode, start_ns: int, bitrate: int = BITRATE) -> None:
        super().__init__()
        self._node = node
        self._bitrate = bitrate
        self._events: list[tuple[int, int, int, Any]] = []
        self._queued = 0
        self._now_ns = self._free_ns = start_ns
        self._rest = b""
        self._off = False
        self.lost_frames = 0
        """Frames that found no time on the bus, or no bus."""

    @property
    def device(self) -> CanNode:
        """What is at the far end."""
        return self._node

    @property
    def kinds(self) -> Mapping[str, float]:
        """Failures of the node, and that of the bus."""
        return {**self._node.kinds, BUS_OFF: 1.0}

    def on_message(self, message: Message, ready_ns: int) -> None:
        """See :class:`sim_backend.emulators.interface.Emulator`; so the other verbs."""
        self._push(ready_ns, _MESSAGE, message)

    def on_rx(self, data: bytes, t_ns: int) -> None:
        """Records of the daemon; the rest of a cut one waits for the next call."""
        data = self._rest + data
        whole = len(data) - len(data) % RECORD_BYTES
        self._rest = data[whole:]
        for frame in unpack_all(data[:whole]):
            if not frame.error:
                self._push(t_ns, _WANTS_BUS, frame)

    def on_line(self, baud: int, t_ns: int) -> None:
        """A reopened port begins with a whole record."""
        self._rest = b""

    def next_due_ns(self) -> int:
        """The next thing to happen, on the bus or in the node."""
        due_ns = self._node.next_due_ns()
        return min(due_ns, self._events[0][0]) if self._events else due_ns

    def on_time(self, now_ns: int) -> None:
        """Everything up to ``now_ns``, in order."""
        node, events = self._node, self._events
        while True:
            node_ns = node.next_due_ns()
            event_ns = events[0][0] if events else NEVER_NS
            if min(node_ns, event_ns) > now_ns:
                return
            if event_ns <= node_ns:
                t_ns, kind, _, what = heappop(events)
                # What the daemon stamped before the present has come by now.
                t_ns = self._now_ns = max(t_ns, self._now_ns)
                if kind == _MESSAGE:
                    node.on_message(what, t_ns)
                elif kind == _ARRIVES:
                    node.on_frame(what, t_ns)
                elif (end_ns := self._pass(what, t_ns)) is not None:
                    self._push(end_ns, _ARRIVES, what)
            else:
                t_ns = self._now_ns = max(node_ns, self._now_ns)
                node.on_time(t_ns)
            self._collect(t_ns)

    # ---------------------------------------------------------------- what goes wrong on purpose

    def restart(self, now_ns: int) -> None:
        """The node loses its power for a moment; what was on its way to it is gone."""
        self.on_time(now_ns)
        self._clear_bus(now_ns)
        self._node.restart(now_ns)
        self._collect(now_ns)

    def inject(self, kind: str, value: float, active: bool, now_ns: int) -> None:
        """Off the bus nothing passes, in either direction; the node lives on by itself."""
        self.on_time(now_ns)
        if kind == BUS_OFF:
            self._off = active
            self._clear_bus(now_ns)
        else:
            self._node.inject(kind, value, active, now_ns)
            self._collect(now_ns)

    # ---------------------------------------------------------------- frames

    def _push(self, t_ns: int, kind: int, what: Any) -> None:
        self._queued += 1
        heappush(self._events, (t_ns, kind, self._queued, what))

    def _collect(self, now_ns: int) -> None:
        for frame in self._node.take_tx():
            end_ns = self._pass(frame, now_ns)
            if end_ns is not None:
                self._tx.append((end_ns, pack(frame)))
        self._commands += self._node.take_commands()

    def _pass(self, frame: CanFrame, now_ns: int) -> int | None:
        """When a frame that wants the bus now has passed it; None when it does not."""
        start_ns = max(now_ns, self._free_ns)
        if self._off or start_ns - now_ns > LONGEST_QUEUE_NS:
            self.lost_frames += 1
            return None
        bits = (EXTENDED_BITS if frame.extended else STANDARD_BITS) + (0 if frame.remote else 8 * len(frame.data))
        self._free_ns = start_ns + bits * 1_000_000_000 // self._bitrate
        return self._free_ns

    def _clear_bus(self, now_ns: int) -> None:
        kept = [event for event in self._events if event[1] == _MESSAGE]
        self.lost_frames += len(self._events) - len(kept)
        self._events[:] = sorted(kept)
        self._free_ns = now_ns
