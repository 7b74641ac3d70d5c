"""What a device is and what a port is: the two contracts of the wire side.

A *device* is a sans-IO protocol machine. It is handed bytes and a time, gives back messages, and keeps the bytes it wants to
send until asked. It never reads a clock, never waits and never raises on wire input.

A *port* is where the bytes come from: a byte stream (serial, pty, TCP, the simulator link) or a frame port (CAN). The runtime
owns ports: it stamps arrivals at the read, reopens what was lost and drops what has become too late to send.
"""

from collections.abc import Sequence
from typing import ClassVar, Protocol

from msgspec import Struct

from vehicled.messages import Message, PortState

NEVER_NS = 2**63 - 1
"""``next_due_ns`` of something that waits for input only."""


class Send(Struct, frozen=True, gc=False):
    """Bytes for the port. Dropped, and reported, once the deadline has passed: a command is never sent late."""

    data: bytes
    deadline_ns: int = NEVER_NS
    droppable: bool = False


class SetBaud(Struct, frozen=True, gc=False):
    """Change the line rate of a serial port."""

    baud: int


class Reopen(Struct, frozen=True, gc=False):
    """Close the port and open it again."""

    reason: str


Action = Send | SetBaud | Reopen


class Device(Protocol):
    """Host side of one device on one port."""

    produces: ClassVar[tuple[type[Message], ...]]
    consumes: ClassVar[tuple[type[Message], ...]]

    def on_port(self, state: PortState, detail: str, now_ns: int) -> Sequence[Message]:
        """The port opened, was lost, or failed."""
        ...

    def on_rx(self, data: bytes, t_rx_ns: int) -> Sequence[Message]:
        """Bytes arrived, cut anywhere. Returns the messages they complete; never raises."""
        ...

    def on_command(self, command: Message, now_ns: int) -> None:
        """A message of a type in ``consumes`` to be sent."""
        ...

    def next_due_ns(self) -> int:
        """When ``on_time`` wants to run; ``NEVER_NS`` to wait for input."""
        ...

    def on_time(self, now_ns: int) -> Sequence[Message]:
        """A time-out or a periodic duty of the device is due."""
        ...

    def take_tx(self) -> Sequence[Action]:
        """Everything to be done on the port since the last call, in order."""
        ...
