"""What an emulator is."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from vehicled.messages import Message

NEVER_NS = 2**63 - 1


class DriveCommand(NamedTuple):
    """What an actuator's emulator understood, normalised: it acts on the plant from ``t_ns`` on. Throttle below 0 is backward."""

    t_ns: int
    throttle: float
    brake: float
    steering: float


Transmission = tuple[int, bytes]
"""Time at which the bytes have arrived at the daemon, and the bytes."""


class Emulator(Protocol):
    """Device side of one port. Pure: messages, bytes and times in, bytes with times out. Never raises on bytes."""

    def on_message(self, message: Message, ready_ns: int) -> None:
        """The sensor behind the device has a value, ready to leave the device at ``ready_ns``."""
        ...

    def on_rx(self, data: bytes, t_ns: int) -> None:
        """Bytes of the daemon, cut anywhere, handed to the port at ``t_ns``."""
        ...

    def on_line(self, baud: int, t_ns: int) -> None:
        """The daemon set its line rate, or reopened the port (0)."""
        ...

    def next_due_ns(self) -> int:
        """When ``on_time`` wants to run; ``NEVER_NS`` without duties of its own."""
        ...

    def on_time(self, now_ns: int) -> None:
        """A duty of the device is due."""
        ...

    def take_tx(self) -> Sequence[Transmission]:
        """What it has sent since the last call, in order."""
        ...

    def take_commands(self) -> Sequence[DriveCommand]:
        """Commands for the vehicle's actuators since the last call."""
        ...
