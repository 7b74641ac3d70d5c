"""Interface of the emulators."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from vehicled.core.messages import Message

NEVER_NS = 2**63 - 1


class DriveCommand(NamedTuple):
    """Command that an actuator's emulator decoded, normalised; acts on the plant from ``t_ns`` on.
    Throttle below 0 is backward."""

    t_ns: int
    throttle: float
    brake: float
    steering: float
    outputs: tuple[float, ...] = ()
    """Outputs in the order of the driver's, of a device with other ones than a motor and a
    servo."""
    rear: float = 1.0
    """Fraction of their angle by which rear wheels turn; not 1 where their servo has failed."""
    steered: float = 1.0
    """Below 0 where the steering acts the other way, 0 where the wheels are stuck."""


Transmission = tuple[int, bytes]
"""Arrival time at the daemon, and the bytes. None of them: a server closes the connection."""


class Emulator(Protocol):
    """Device side of one port. Pure: messages, bytes and times in, bytes with times out. Never
    raises on bytes."""

    def on_message(self, message: Message, ready_ns: int) -> None:
        """Take a sensor value, ready to leave the device at ``ready_ns``."""
        ...

    def on_rx(self, data: bytes, t_ns: int) -> None:
        """Take the daemon's bytes, cut anywhere, written to the port at ``t_ns``."""
        ...

    def on_line(self, baud: int, t_ns: int) -> None:
        """Handle a new line rate of the daemon, or a reopened port (0)."""
        ...

    def next_due_ns(self) -> int:
        """Time at which ``on_time`` must run; ``NEVER_NS`` without duties."""
        ...

    def on_time(self, now_ns: int) -> None:
        """Run a duty that is due."""
        ...

    def take_tx(self) -> Sequence[Transmission]:
        """Drain the bytes it has sent, in order."""
        ...

    def take_commands(self) -> Sequence[DriveCommand]:
        """Drain the commands for the vehicle's actuators."""
        ...
