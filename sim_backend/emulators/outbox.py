"""What an emulator, or a device in it, has to hand over: kept until somebody comes for it."""

from collections.abc import Sequence
from typing import TypeVar

from sim_backend.emulators.interface import DriveCommand, Transmission

T = TypeVar("T")


def drained(waiting: list[T]) -> Sequence[T]:
    """What has been waiting, in order; nothing waits any more."""
    if not waiting:
        return ()
    taken = waiting.copy()
    waiting.clear()
    return taken


class Outbox:
    """What an emulator has sent and understood, until it is taken. Base of the emulators; see their protocol."""

    def __init__(self) -> None:
        self._tx: list[Transmission] = []
        self._commands: list[DriveCommand] = []

    def take_tx(self) -> Sequence[Transmission]:
        """Bytes since the last call, each with its arrival."""
        return drained(self._tx)

    def take_commands(self) -> Sequence[DriveCommand]:
        """Commands understood since the last call."""
        return drained(self._commands)
