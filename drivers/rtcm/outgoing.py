"""Bytes on their way to a receiver: commands, and corrections that must not pile up."""

from collections.abc import Iterable, Sequence

from vehicled.core.ports import Action, Send

CORRECTIONS_MAX_BYTES = 65_536
"""Largest queue of corrections for the port, bytes; the oldest are dropped whole."""


class TxQueue:
    """Actions of a receiver's driver for its port, in order."""

    def __init__(self, lifetime_ns: int) -> None:
        """Corrections that wait longer than ``lifetime_ns`` are dropped."""
        self._lifetime_ns = lifetime_ns
        self._tx: list[Action] = []
        self._waiting_bytes = 0

    def add(self, actions: Iterable[Action]) -> None:
        """Queue actions that must not be dropped."""
        self._tx += actions

    def correct(self, data: bytes, now_ns: int) -> None:
        """Queue corrections for the receiver, unread."""
        self._tx.append(Send(data, now_ns + self._lifetime_ns, droppable=True))
        self._waiting_bytes += len(data)
        while self._waiting_bytes > CORRECTIONS_MAX_BYTES:
            at, oldest = next(
                (at, each)
                for at, each in enumerate(self._tx)
                if isinstance(each, Send) and each.droppable
            )
            del self._tx[at]
            self._waiting_bytes -= len(oldest.data)

    def clear(self) -> None:
        """Drop everything, because the port was opened or lost."""
        self._tx.clear()
        self._waiting_bytes = 0

    def take(self) -> Sequence[Action]:
        """Drain the actions."""
        if not self._tx:
            return ()
        tx, self._tx = self._tx, []
        self._waiting_bytes = 0
        return tx
