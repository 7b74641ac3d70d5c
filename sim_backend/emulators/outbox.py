"""The end of an emulator at which the world takes what came out of it."""

from collections.abc import Sequence

from sim_backend.emulators.interface import DriveCommand, Transmission


class Outbox:
    """What an emulator has sent and understood, until it is taken. Base of the emulators; see their protocol."""

    def __init__(self) -> None:
        self._tx: list[Transmission] = []
        self._commands: list[DriveCommand] = []

    def take_tx(self) -> Sequence[Transmission]:
        """Bytes since the last call, each with its arrival."""
        if not self._tx:
            return ()
        tx, self._tx = self._tx, []
        return tx

    def take_commands(self) -> Sequence[DriveCommand]:
        """Commands understood since the last call."""
        if not self._commands:
            return ()
        commands, self._commands = self._commands, []
        return commands
