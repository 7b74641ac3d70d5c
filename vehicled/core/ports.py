"""Base class of the device drivers, and the actions that they ask of their ports.

A *device* is a sans-IO protocol machine. It takes bytes and a time, returns messages, and keeps the
bytes to send until asked. It never reads a clock, never waits and never raises on wire input.

A *port* carries the bytes: a byte stream (serial, pty, TCP, the simulator link) or a frame port
(CAN). The runtime owns the ports: it stamps arrivals at the read, reopens lost ports and drops
frames whose deadline has passed.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

from msgspec import Struct

from vehicled.core.messages import Message, PortState
from vehicled.core.mixing import Mixing, OutputKind
from vehicled.core.wire.usage import MessageUsage

NO_USAGE = MessageUsage()
"""Account of a driver that keeps none; it stays empty."""
NEVER_NS = 2**63 - 1
"""``next_due_ns`` of a device that only waits for input."""


class Send(Struct, frozen=True, gc=False):
    """Bytes for the port. Dropped and reported after the deadline: a command is never sent late."""

    data: bytes
    deadline_ns: int = NEVER_NS
    droppable: bool = False
    redacted: bytes | None = None
    """Recorded instead of ``data`` if that holds a secret."""

    @property
    def journal(self) -> bytes:
        """Bytes that may be recorded."""
        return self.data if self.redacted is None else self.redacted

    def __repr__(self) -> str:
        return f"Send({self.journal!r}, deadline_ns={self.deadline_ns}, droppable={self.droppable})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [
            ("data", self.journal),
            ("deadline_ns", self.deadline_ns),
            ("droppable", self.droppable),
        ]


class SetBaud(Struct, frozen=True, gc=False):
    """Change the line rate of a serial port."""

    baud: int


class Reopen(Struct, frozen=True, gc=False):
    """Close the port and open it again."""

    reason: str


class Pause(Struct, frozen=True, gc=False):
    """Wait before the next attempt to open the port, if it is closed; lasts until it is open
    again."""

    least_s: float
    """Pause before the next attempt, s. It doubles with each failed attempt."""
    most_s: float
    """Longest pause, s."""


Action = Send | SetBaud | Reopen | Pause


Transport = Literal["", "stream", "frames", "datagrams"]


class Device(ABC):
    """Host side of one device on one port: the base class of drivers. A driver that only listens
    defines :meth:`on_rx` alone."""

    produces: ClassVar[tuple[type[Message], ...]] = ()
    command_only: ClassVar[bool] = False
    """True if it sends nothing but commands: lockstep then exchanges less, and it is not asked for
    bytes after a reception."""
    transport: ClassVar[Transport] = ""
    """Transport of its port: a byte stream, frames of a CAN bus, or datagrams as records of
    :mod:`vehicled.core.wire.datagram`. Empty: not stated, so its port is not checked."""
    actuator_outputs: ClassVar[Mapping[str, OutputKind]] = MappingProxyType({})
    """Outputs of an actuator by name, in the order of its row of the mixing matrix; empty for other
    devices."""
    moving_base_rover: bool = False
    """True if its corrections come from a moving base beside it and never from a caster."""

    consumes: tuple[type[Message], ...] = ()
    """Types that this device takes as it is set up; of the class: that its driver can take."""
    usage: MessageUsage = NO_USAGE
    """Account of the messages that arrived: used, and not used with the reason. A driver that keeps
    one creates its own."""

    @property
    def refusal(self) -> str:
        """Reason why it would refuse a throttle now; empty if none."""
        return ""

    def on_port(self, state: PortState, detail: str, now_ns: int) -> Sequence[Message]:
        """Handle a port that opened, was lost or failed."""
        return ()

    def mount(self, lever_arm_m: Sequence[float]) -> None:
        """Set the position of the sensor: forward, left and up of the rear axle. Called once,
        before the port opens."""
        return

    def mix(self, mixing: Mixing) -> None:
        """Set what its outputs get of a command: a row for each of ``actuator_outputs``. Called
        once, before the port opens."""
        raise TypeError(f"{type(self).__name__} has no outputs to mix")

    @abstractmethod
    def on_rx(self, data: bytes, t_rx_ns: int) -> Sequence[Message]:
        """Take received bytes, cut anywhere, and return the messages they complete. Never
        raises."""

    def on_command(self, command: Message, now_ns: int) -> None:
        """Queue a message of a type in ``consumes`` for sending."""
        raise TypeError(
            f"{type(self).__name__} consumes {type(command).__name__} but has no on_command"
        )

    def next_due_ns(self) -> int:
        """Return when ``on_time`` must be called; ``NEVER_NS`` to wait for input."""
        return NEVER_NS

    def on_time(self, now_ns: int) -> Sequence[Message]:
        """Handle expired timeouts and periodic duties."""
        return ()

    def take_tx(self) -> Sequence[Action]:
        """Drain pending port actions, in order."""
        return ()


class SecretRef(Struct, frozen=True):
    """Reference to a secret: a file or a service credential. Exactly one is set."""

    file: str = ""
    """Path of a file that holds only the secret."""
    credential: str = ""
    """Name of a service credential in ``$CREDENTIALS_DIRECTORY``."""

    def __str__(self) -> str:
        return f"file {self.file}" if self.file else f"credential {self.credential}"


@runtime_checkable
class TakesSecret(Protocol):
    """Device that needs a secret. The runtime reads it and passes it on before the port opens, and
    again when it changed."""

    @property
    def secret_ref(self) -> SecretRef | None:
        """Place of the secret; None if the device is configured without one."""
        ...

    def set_secret(self, text: str) -> None:
        """Set the secret; trailing line ends are stripped. It leaves the device in ``Send.data``
        only."""
        ...
