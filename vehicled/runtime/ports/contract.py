"""What a port is to the pump, what an open channel is to a port, and what can go wrong.

::

    PortError
    ├── AddressError   the address cannot be used: the profile must change
    ├── OpenError      could not be opened now: tried again with back-off
    └── LostError      was open and is gone: closed, then opened again

Only :class:`AddressError` ever reaches a caller, when a port is made. Trouble with a device is told to the host.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

from msgspec import Struct

from vehicled.runtime.host import Host as PortHost

__all__ = ["AddressError", "Channel", "Deliver", "LostError", "OpenError", "Opener", "Port", "PortCounts", "PortError", "PortHost"]


class PortError(Exception):
    """Something is wrong with a port. The message names the place, and the cure where there is one."""


class AddressError(PortError, ValueError):
    """The address of a port cannot be used."""


class OpenError(PortError):
    """The port cannot be opened now."""


class LostError(PortError):
    """An open port is gone: unplugged, closed by the other end, off the bus."""


class PortCounts(Struct):
    """What became of the bytes of a port since it was made. Reopening does not reset it."""

    opened: int = 0
    rx_bytes: int = 0
    tx_bytes: int = 0
    expired: int = 0
    """Frames dropped because their deadline passed before their first byte could leave."""
    overflowed: int = 0
    """Frames dropped, the oldest first, because more waited than may wait."""
    overflowed_bytes: int = 0
    refused: int = 0
    """Frames for a port that was not open, or longer than may wait."""
    abandoned: int = 0
    """Frames that were waiting, or half sent, when the port was lost."""
    error_frames: int = 0
    """CAN error frames; they are not handed on."""
    bad_frames: int = 0
    """What was no frame of its bus: junk datagrams, CAN FD, broken slcan lines."""
    nacks: int = 0
    """What a slcan adapter refused: frames it has no room for, and, at every opening, to close what is closed."""


class Port(Protocol):
    """One port of the vehicle. All methods belong to the thread of the loop."""

    name: str
    counts: PortCounts
    trouble: str
    """Why it is not open, as of the newest attempt; empty while it is open. The host hears only the first reason of an episode."""

    async def serve(self, host: PortHost) -> None:
        """Open, read and reopen until cancelled; never raises for trouble with the device.

        The host hears OPENED when it opens and one LOST or ERROR when it ceases to be, or cannot be, open. After cancellation the
        descriptor stays open for the last ``send``, until ``aclose``.
        """
        ...

    def send(self, data: bytes, deadline_ns: int, now_ns: int) -> bool:
        """Write what the descriptor takes at once, keep the rest in order. Never blocks, never raises.

        False when nothing of it was taken: not open, past its deadline, or too long. What was taken may still expire, which is
        counted, as long as none of it has left.
        """
        ...

    def set_baud(self, baud: int) -> None:
        """Change the line rate once everything sent before has left. Without meaning, and ignored, where there is no line."""
        ...

    def reopen(self, reason: str) -> None:
        """Close and open again. Without effect while it is not open."""
        ...

    async def aclose(self) -> None:
        """Give the descriptor back; sends nothing. Not while ``serve`` runs; safe to repeat."""
        ...


Deliver = Callable[[bytes, int], None]
"""Takes bytes and the time of their arrival."""


class Channel(Protocol):
    """An open, non-blocking descriptor. Never reopens itself."""

    detail: str
    """What was opened, for the log."""
    retry_s: float | None
    """When to try again what was not taken: after this time, or with None when the descriptor turns writable."""

    owes: bool
    """Part of what ``write`` took is still here and must leave before more is taken."""

    def fileno(self) -> int:
        """The descriptor."""
        ...

    async def receive(self, deliver: Deliver) -> None:
        """Hand over all that arrives; never returns. Raises :class:`LostError`, and whatever ``deliver`` raises."""
        ...

    def write(self, data: bytes) -> int:
        """How many bytes were taken, possibly none. First sends what is owed. Never blocks. Raises :class:`LostError`."""
        ...

    async def change_baud(self, baud: int) -> None:
        """Change the line rate after all that was written has left. Raises :class:`LostError`."""
        ...

    async def aclose(self, *, drain: bool) -> None:
        """Close; never raises. With ``drain`` what was written still leaves, without it is thrown away. Safe to repeat."""
        ...


Opener = Callable[[PortCounts], Awaitable[Channel]]
"""Opens a channel that counts there. Raises :class:`OpenError`."""
