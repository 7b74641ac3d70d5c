"""What a serial line and a bus have in common: everything that happens is put in the order of its time first.

So the bytes do not depend on the instants at which the simulator was called.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any, Generic, Protocol, TypeVar

from sim_backend.emulators.interface import NEVER_NS, DriveCommand
from sim_backend.emulators.outbox import Outbox
from vehicled.messages import Message

MESSAGE = 2
"""Kind of the event that a sensor has a value: of what happens at the same instant it comes behind a wire's own, kinds 0 and 1."""


class WireDevice(Protocol):
    """A device at the far end of a wire. It is called in the order of time and never raises on what it hears."""

    def on_message(self, message: Message, now_ns: int) -> None:
        """The sensor in it has a value, ready to leave."""
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

    def take_tx(self) -> Sequence[Any]:
        """Whole frames that it has begun to send since the last call, in order."""
        ...

    def take_commands(self) -> Sequence[DriveCommand]:
        """Commands understood since the last call."""
        ...


D = TypeVar("D", bound=WireDevice)


class Wire(Outbox, ABC, Generic[D]):
    """An emulator made of a device and the wire to it. A wire adds how long what passes it takes, and what becomes of it."""

    def __init__(self, device: D, start_ns: int) -> None:
        super().__init__()
        self._device = device
        self._events: list[tuple[int, int, int, Any]] = []
        self._queued = 0
        self._now_ns = start_ns

    # ---------------------------------------------------------------- what a wire adds

    @abstractmethod
    def _happen(self, kind: int, what: Any, now_ns: int) -> None:
        """An event of the wire's own."""

    @abstractmethod
    def _send(self, frames: Sequence[Any], now_ns: int) -> None:
        """The device begins to send."""

    @abstractmethod
    def _clear(self, now_ns: int) -> None:
        """What is on its way to the device is gone, and the wire free."""

    # ---------------------------------------------------------------- verbs of the emulator

    @property
    def device(self) -> D:
        """What is at the far end."""
        return self._device

    def on_message(self, message: Message, ready_ns: int) -> None:
        """See :class:`sim_backend.emulators.interface.Emulator`; so the other verbs."""
        self._push(ready_ns, MESSAGE, message)

    def next_due_ns(self) -> int:
        """The next thing to happen, on the wire or in the device."""
        due_ns = self._device.next_due_ns()
        return min(due_ns, self._events[0][0]) if self._events else due_ns

    def on_time(self, now_ns: int) -> None:
        """Everything up to ``now_ns``, in order."""
        device, events = self._device, self._events
        while True:
            device_ns = device.next_due_ns()
            event_ns = events[0][0] if events else NEVER_NS
            next_ns = min(device_ns, event_ns)
            if next_ns > now_ns:
                return
            # What the daemon stamped before the present has arrived by now.
            t_ns = self._now_ns = max(next_ns, self._now_ns)
            if event_ns > device_ns:
                device.on_time(t_ns)
            else:
                _, kind, _, what = heappop(events)
                if kind == MESSAGE:
                    device.on_message(what, t_ns)
                else:
                    self._happen(kind, what, t_ns)
            self._collect(t_ns)

    def restart(self, now_ns: int) -> None:
        """The device loses its power for a moment; what was on its way to it is gone."""
        self.on_time(now_ns)
        self._clear(now_ns)
        self._device.restart(now_ns)
        self._collect(now_ns)

    # ---------------------------------------------------------------- for the wire

    def _push(self, t_ns: int, kind: int, what: Any) -> None:
        self._queued += 1
        heappush(self._events, (t_ns, kind, self._queued, what))

    def _collect(self, now_ns: int) -> None:
        """Take what the device has to say."""
        self._send(self._device.take_tx(), now_ns)
        self._commands += self._device.take_commands()
