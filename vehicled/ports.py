"""What a device is and what a port is: the two contracts of the wire side.

A *device* is a sans-IO protocol machine. It is handed bytes and a time, gives back messages, and keeps the bytes it wants to
send until asked. It never reads a clock, never waits and never raises on wire input.

A *port* is where the bytes come from: a byte stream (serial, pty, TCP, the simulator link) or a frame port (CAN). The runtime
owns ports: it stamps arrivals at the read, reopens what was lost and drops what has become too late to send.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

from msgspec import Struct

from vehicled.messages import Message, PortState

NEVER_NS = 2**63 - 1
"""``next_due_ns`` of something that waits for input only."""


class Send(Struct, frozen=True, gc=False):
    """Bytes for the port. Dropped, and reported, once the deadline has passed: a command is never sent late."""

    data: bytes
    deadline_ns: int = NEVER_NS
    droppable: bool = False
    redacted: bytes | None = None
    """Recorded in the place of ``data`` when that holds a secret: the journal, events and texts only ever see these bytes."""

    @property
    def journal(self) -> bytes:
        """What may be recorded of it."""
        return self.data if self.redacted is None else self.redacted

    def __repr__(self) -> str:
        return f"Send({self.journal!r}, deadline_ns={self.deadline_ns}, droppable={self.droppable})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("data", self.journal), ("deadline_ns", self.deadline_ns), ("droppable", self.droppable)]


class SetBaud(Struct, frozen=True, gc=False):
    """Change the line rate of a serial port."""

    baud: int


class Reopen(Struct, frozen=True, gc=False):
    """Close the port and open it again."""

    reason: str


Action = Send | SetBaud | Reopen


class Device(Protocol):
    """Host side of one device on one port.

    One that sends nothing but what it is commanded says so by a class attribute ``quiet = True``: lockstep then exchanges fewer
    words, and it is not asked for bytes after a reception.
    """

    produces: ClassVar[tuple[type[Message], ...]]

    @property
    def consumes(self) -> tuple[type[Message], ...]:
        """Types that this device takes as it is set up; of the class: that its driver can take."""
        ...

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


class SecretRef(Struct, frozen=True):
    """Where a secret is kept, never the secret itself. One of the two names is set."""

    file: str = ""
    """A file that holds the secret and nothing else."""
    credential: str = ""
    """A credential of the service, by its name under ``$CREDENTIALS_DIRECTORY``."""

    def __str__(self) -> str:
        return f"file {self.file}" if self.file else f"credential {self.credential}"


@runtime_checkable
class TakesSecret(Protocol):
    """A device that needs a secret, and is handed it by whoever may read files: before its port opens, or again when it changed."""

    @property
    def secret_ref(self) -> SecretRef | None:
        """Where to look; None when the device is configured without one."""
        ...

    def set_secret(self, text: str) -> None:
        """The secret as read; line ends at its end are not part of it. It leaves the device in ``Send.data`` only, never in a
        representation, a message, or ``Send.redacted``."""
        ...
