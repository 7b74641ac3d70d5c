"""Interfaces of ports and channels, and the errors of ports.

::

    PortError
    ├── AddressError   invalid address: the profile must change
    ├── OpenError      could not be opened now: retried with back-off
    └── LostError      was open and is gone: closed, then reopened
        └── ClosedError    the other end of a connection closed it

Only :class:`AddressError` reaches a caller, when a port is created. Device errors are reported to
the host.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

from msgspec import Struct

from vehicled.core.messages import PortState

__all__ = [
    "AddressError", "Channel", "ClosedError", "Deliver", "LostError", "OpenError", "Opener", "Port",
    "PortCounts", "PortError", "PortHost",
]  # fmt: skip


class PortError(Exception):
    """Error of a port. The message names the place and, if known, the remedy."""


class AddressError(PortError, ValueError):
    """The address of a port is invalid."""


class OpenError(PortError):
    """The port cannot be opened now."""


class LostError(PortError):
    """An open port is gone: unplugged, closed by the other end, or bus-off."""


class ClosedError(LostError):
    """The other end of a network connection has closed it."""


class PortCounts(Struct):
    """Counters of a port since its creation; reopening does not reset them."""

    opened: int = 0
    rx_bytes: int = 0
    tx_bytes: int = 0
    expired: int = 0
    """Frames dropped because their deadline passed before their first byte was sent."""
    overflowed: int = 0
    """Frames dropped, the oldest first, because the send queue was full."""
    overflowed_bytes: int = 0
    refused: int = 0
    """Frames for a port that was not open, or too long for the queue."""
    abandoned: int = 0
    """Frames queued or half sent when the port was lost."""
    throttled: int = 0
    """Pauses of reading, because more arrived than the line can carry. Nothing was dropped here."""
    error_frames: int = 0
    """CAN error frames. Those that repeat the one before are not delivered more than ten times a
    second."""
    bad_frames: int = 0
    """Invalid frames: junk datagrams, CAN FD, broken slcan lines."""
    nacks: int = 0
    """Commands refused by a slcan adapter: frames it has no room for and, at every opening, closing
    a closed bus."""


class PortHost(Protocol):
    """Receiver of port data. Called on the loop; must return soon."""

    def on_port(self, port: str, state: PortState, detail: str, now_ns: int) -> None:
        """Handle a port that was opened, lost, or could not be opened."""
        ...

    def on_rx(self, port: str, data: bytes, t_rx_ns: int) -> None:
        """Handle bytes that were read from a port at ``t_rx_ns``."""
        ...


class Port(Protocol):
    """One port of the vehicle. All methods belong to the thread of the loop."""

    name: str
    counts: PortCounts
    trouble: str
    """Reason why the newest attempt to open failed; empty while open. The host gets only the first
    reason of an episode."""

    async def serve(self, host: PortHost) -> None:
        """Open, read and reopen until cancelled; never raises for device errors.

        The host gets OPENED when the port opens, and one LOST or ERROR when it is lost or cannot be
        opened. After cancellation the descriptor stays open for the last ``send``, until
        ``aclose``.
        """
        ...

    def send(self, data: bytes, deadline_ns: int, now_ns: int) -> bool:
        """Write what the descriptor accepts at once and queue the rest in order. Never blocks,
        never raises.

        Return False if nothing was accepted: not open, deadline passed, or too long. A queued frame
        may still expire, which is counted, until its first byte is sent.
        """
        ...

    def set_baud(self, baud: int) -> None:
        """Change the baud rate after everything sent before. Ignored by ports without a serial
        line."""
        ...

    def reopen(self, reason: str) -> None:
        """Close and open again. No effect while the port is not open."""
        ...

    def pause(self, least_s: float, most_s: float) -> None:
        """Wait ``least_s`` before the next attempt to open, then twice as long after each failure
        up to ``most_s``.

        Lasts until the port is open again. No effect while it is open.
        """
        ...

    async def aclose(self) -> None:
        """Close the descriptor without sending. Must not be called while ``serve`` runs; safe to
        repeat."""
        ...


Deliver = Callable[[bytes, int], None]
"""Callback for received bytes and the time of their arrival."""


class Channel(Protocol):
    """Open, non-blocking descriptor. Never reopens."""

    detail: str
    """Description for the log."""
    retry_s: float | None
    """Pause before retrying data that was not accepted, s; None: wait until the descriptor is
    writable."""

    owes: bool
    """True if part of an accepted write is still buffered here and must be sent first."""

    def fileno(self) -> int:
        """Return the descriptor."""
        ...

    async def receive(self, deliver: Deliver) -> None:
        """Deliver all that arrives; never returns. Raises :class:`LostError`, and whatever
        ``deliver`` raises."""
        ...

    def write(self, data: bytes) -> int:
        """Send buffered data, then ``data``; return the number of bytes accepted. Never blocks.
        Raises :class:`LostError`."""
        ...

    async def change_baud(self, baud: int) -> None:
        """Change the baud rate after everything written was sent. Raises :class:`LostError`."""
        ...

    async def aclose(self, *, drain: bool) -> None:
        """Close; never raises. With ``drain`` written data is still sent, otherwise discarded. Safe
        to repeat."""
        ...


Opener = Callable[[PortCounts], Awaitable[Channel]]
"""Function that opens a channel with the given counters. Raises :class:`OpenError`."""
