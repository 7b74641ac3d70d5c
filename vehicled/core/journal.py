"""Journal of the machine's inputs and outputs, and the digest of its outputs.

The journal holds everything that the machine acts on: received bytes, port events, local requests
and stopwatch readings. With the profile it suffices to run the machine again.
"""

import hashlib
import struct
from collections.abc import Callable, Iterable
from typing import Protocol

from vehicled.core.messages import Message
from vehicled.core.observers import Observers

LOG = "log"
"""Name of the log among the observers."""
Record = Callable[[Message, int], None]
"""Receiver of one record with its log time, ns."""


class Sink(Protocol):
    """Receiver of records, in journal order."""

    def record(self, message: Message, log_time_ns: int) -> None:
        """Record one message. Must not block and must not raise."""
        ...


class LossySink(Sink, Protocol):
    """Sink that accounts for records that it could not take."""

    def lose(self, message: Message, log_time_ns: int) -> None:
        """Count a record whose recording raised."""
        ...


class NullSink:
    """Sink of a run without a log."""

    def record(self, message: Message, log_time_ns: int) -> None:
        """Discard the message."""


class Router:
    """Passes every record to the log, and records of chosen types to listeners; their failures do
    not reach the machine.

    A listener that fails is counted among the observers. A record that the log fails to take is
    lost, and the log accounts for it.
    """

    def __init__(self, observers: Observers | None = None) -> None:
        self.observers = observers or Observers()
        self.lost = 0
        """Records that are lost without an account of them in the log."""
        self._lose: Record | None = None
        self._log: tuple[Record, ...] = ()
        self._listeners: dict[type[Message], list[Record]] = {}
        self._receivers: dict[type[Message], tuple[Record, ...]] = {}
        """Log and listeners by type, where a type has listeners."""

    def log_to(self, log: LossySink) -> None:
        """Set the log that receives every record."""
        self._log, self._lose = (log.record,), log.lose
        self._connect()

    def listen(self, types: Iterable[type[Message]], record: Record) -> None:
        """Also call ``record`` for messages of these types. It must not block."""
        for kind in types:
            self._listeners.setdefault(kind, []).append(record)
        self._connect()

    def unlisten(self, types: Iterable[type[Message]], record: Record) -> None:
        """End what :meth:`listen` began."""
        for kind in tuple(types):
            self._listeners[kind] = [
                each for each in self._listeners.get(kind, []) if each != record
            ]
        self._connect()

    def _connect(self) -> None:
        self._receivers = {
            kind: (*self._log, *listeners) for kind, listeners in self._listeners.items()
        }

    def record(self, message: Message, log_time_ns: int) -> None:
        """Pass one record to the log and its listeners."""
        for record in self._receivers.get(type(message), self._log):
            try:
                record(message, log_time_ns)
            except Exception as error:  # noqa: BLE001 - no observer may hold up the machine
                self._failed(record, error, message, log_time_ns)

    def _failed(self, record: Record, error: Exception, message: Message, log_time_ns: int) -> None:
        if record not in self._log:
            name = getattr(record, "__qualname__", type(record).__name__)
            if self.observers.failed(name, error):
                self.unlisten(self._listeners, record)
            return
        self.observers.failed(LOG, error, lasting=True)
        try:
            assert self._lose is not None
            self._lose(message, log_time_ns)
        except Exception:  # noqa: BLE001 - the same
            self.lost += 1


class Digest:
    """SHA-256 over (t_ns, port, bytes) of every output frame, in output order."""

    _HEAD = struct.Struct("<qHI")

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self.frames = 0
        self.complete = True
        """False once a frame could not be added."""

    def add(self, t_ns: int, port: str, data: bytes) -> None:
        """Add one frame. Lengths are hashed too, so that different frame sequences never hash the
        same bytes."""
        name = port.encode()
        self._hash.update(self._HEAD.pack(t_ns, len(name), len(data)) + name + data)
        self.frames += 1

    def hexdigest(self) -> str:
        """Return the digest of the frames so far; empty if it lacks one."""
        return self._hash.hexdigest() if self.complete else ""
