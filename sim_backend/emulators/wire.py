"""Common base of serial line and CAN bus: executes all events in time order.

So the bytes do not depend on the instants of the simulator's calls.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any, Generic, TypeVar

from sim_backend.emulators.interface import NEVER_NS, DriveCommand
from sim_backend.emulators.outbox import EmulatorOutbox, drained
from vehicled.core.messages import Message

MESSAGE = 2
"""Event kind of a sensor value; at the same instant it follows a wire's own events, kinds 0 and
1."""


class WireDevice:
    """Device at the far end of a wire. Called in time order; never raises on received bytes. By
    default it has no duties."""

    def __init__(self) -> None:
        self._tx: list[Any] = []
        self._commands: list[DriveCommand] = []

    def on_message(self, message: Message, now_ns: int) -> None:
        """Take a sensor value that is ready to leave."""

    def next_due_ns(self) -> int:
        """Time at which ``on_time`` must run; ``NEVER_NS`` without duties."""
        return NEVER_NS

    def on_time(self, now_ns: int) -> None:
        """Run a duty that is due."""

    def restart(self, now_ns: int) -> None:
        """Restart after a power cut: everything outside its flash is lost."""

    def take_tx(self) -> Sequence[Any]:
        """Drain the frames that it has begun to send, whole and in order."""
        return drained(self._tx)

    def take_commands(self) -> Sequence[DriveCommand]:
        """Drain the decoded commands for the vehicle's actuators."""
        return drained(self._commands)


D = TypeVar("D", bound=WireDevice)


class Wire(EmulatorOutbox, ABC, Generic[D]):
    """Emulator of a device and its wire. Subclasses add timing and loss."""

    def __init__(self, device: D, start_ns: int) -> None:
        super().__init__()
        self._device = device
        self._events: list[tuple[int, int, int, Any]] = []
        self._queued = 0
        self._now_ns = start_ns

    # ---------------------------------------------------------------- for subclasses

    @abstractmethod
    def _happen(self, kind: int, what: Any, now_ns: int) -> None:
        """Handle an event of the wire."""

    @abstractmethod
    def _send(self, frames: Sequence[Any], now_ns: int) -> None:
        """Send the device's frames."""

    @abstractmethod
    def _clear(self, now_ns: int) -> None:
        """Drop what is on its way to the device and free the wire."""

    # ---------------------------------------------------------------- Emulator interface

    @property
    def device(self) -> D:
        """Device at the far end."""
        return self._device

    def on_message(self, message: Message, ready_ns: int) -> None:
        """Queue a sensor value, see :class:`sim_backend.emulators.interface.Emulator` for this and
        the other methods."""
        self._push(ready_ns, MESSAGE, message)

    def next_due_ns(self) -> int:
        """Time of the next event on the wire or in the device."""
        due_ns = self._device.next_due_ns()
        return min(due_ns, self._events[0][0]) if self._events else due_ns

    def on_time(self, now_ns: int) -> None:
        """Run all events up to ``now_ns``, in order."""
        device, events = self._device, self._events
        while True:
            device_ns = device.next_due_ns()
            event_ns = events[0][0] if events else NEVER_NS
            next_ns = min(device_ns, event_ns)
            if next_ns > now_ns:
                return
            # The daemon's bytes with earlier stamps have arrived by now.
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
        """Cut the device's power for a moment; bytes on their way to it are lost."""
        self.on_time(now_ns)
        self._clear(now_ns)
        self._device.restart(now_ns)
        self._collect(now_ns)

    # ---------------------------------------------------------------- helpers of subclasses

    def _push(self, t_ns: int, kind: int, what: Any) -> None:
        self._queued += 1
        heappush(self._events, (t_ns, kind, self._queued, what))

    def _collect(self, now_ns: int) -> None:
        """Collect the device's frames and commands."""
        self._send(self._device.take_tx(), now_ns)
        self._commands += self._device.take_commands()
