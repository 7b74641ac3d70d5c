"""Output buffers of emulators and of the devices in them."""

from collections.abc import Sequence
from typing import TypeVar

from sim_backend.emulators.interface import DriveCommand, Transmission

T = TypeVar("T")


def drained(waiting: list[T]) -> Sequence[T]:
    """Return the waiting items in order and clear the list."""
    if not waiting:
        return ()
    taken = waiting.copy()
    waiting.clear()
    return taken


class EmulatorOutbox:
    """Base of the emulators: buffers of sent bytes and decoded commands, until drained."""

    def __init__(self) -> None:
        self._tx: list[Transmission] = []
        self._commands: list[DriveCommand] = []

    def take_tx(self) -> Sequence[Transmission]:
        """Drain the sent bytes, each with its arrival time."""
        return drained(self._tx)

    def take_commands(self) -> Sequence[DriveCommand]:
        """Drain the decoded commands."""
        return drained(self._commands)
