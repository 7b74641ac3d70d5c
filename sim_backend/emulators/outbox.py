"""Base of the emulators and of the devices in them: output buffers, and the failures that are
active."""

from collections.abc import Sequence
from typing import Any, TypeVar

from sim_backend.emulators.interface import NEVER_NS, DriveCommand, Transmission

T = TypeVar("T")


def drained(waiting: list[T]) -> Sequence[T]:
    """Return the waiting items in order and clear the list."""
    if not waiting:
        return ()
    taken = waiting.copy()
    waiting.clear()
    return taken


class EmulatorOutbox:
    """Base of the emulators: buffers of sent bytes and decoded commands, until drained. As it is,
    it takes no bytes and has no duties."""

    def __init__(self) -> None:
        self._tx: list[Transmission] = []
        self._commands: list[DriveCommand] = []

    def take_tx(self) -> Sequence[Transmission]:
        """Drain the sent bytes, each with its arrival time."""
        return drained(self._tx)

    def take_commands(self) -> Sequence[DriveCommand]:
        """Drain the decoded commands."""
        return drained(self._commands)

    def on_rx(self, data: bytes, t_ns: int) -> None:
        """Ignore the daemon's bytes."""

    def on_line(self, baud: int, t_ns: int) -> None:
        """Ignore line rates, which a network does not have."""

    def next_due_ns(self) -> int:
        """Return ``NEVER_NS``: no duties."""
        return NEVER_NS

    def on_time(self, now_ns: int) -> None:
        """Do nothing."""


class ActiveFailures:
    """Injected failures with their values, while they last. A mix-in before the base."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._active: dict[str, float] = {}

    def inject(self, kind: str, value: float, active: bool, now_ns: int) -> None:
        """Begin or end a failure."""
        if active:
            self._active[kind] = value
        else:
            self._active.pop(kind, None)
