"""Journal of the machine's inputs and outputs, and the digest of its outputs.

The journal holds everything that the machine acts on: received bytes, port events, local requests and stopwatch readings. With the
profile it suffices to run the machine again.
"""

import hashlib
import struct
from collections.abc import Callable, Iterable
from typing import Protocol

from vehicled.messages import Message

Record = Callable[[Message, int], None]
"""Receiver of one record with its log time, ns."""


class Sink(Protocol):
    """Receiver of records, in journal order."""

    def record(self, message: Message, log_time_ns: int) -> None:
        """Record one message. Must not block and must not raise."""
        ...


class NullSink:
    """Sink of a run without a log."""

    def record(self, message: Message, log_time_ns: int) -> None:
        """Discard the message."""


class Router:
    """Passes every record to the log, and records of chosen types to listeners."""

    def __init__(self) -> None:
        self._log: tuple[Record, ...] = ()
        self._listeners: dict[type[Message], list[Record]] = {}
        self._receivers: dict[type[Message], tuple[Record, ...]] = {}
        """Log and listeners by type, where a type has listeners."""

    def log_to(self, log: Sink) -> None:
        """Set the log that receives every record."""
        self._log = (log.record,)
        self._connect()

    def listen(self, types: Iterable[type[Message]], record: Record) -> None:
        """Also call ``record`` for messages of these types. It must neither block nor raise."""
        for kind in types:
            self._listeners.setdefault(kind, []).append(record)
        self._connect()

    def unlisten(self, types: Iterable[type[Message]], record: Record) -> None:
        """End what :meth:`listen` began."""
        for kind in types:
            self._listeners[kind] = [each for each in self._listeners.get(kind, []) if each != record]
        self._connect()

    def _connect(self) -> None:
        self._receivers = {kind: (*self._log, *listeners) for kind, listeners in self._listeners.items()}

    def record(self, message: Message, log_time_ns: int) -> None:
        """Pass one record to the log and its listeners."""
        for record in self._receivers.get(type(message), self._log):
            record(message, log_time_ns)


class Digest:
    """SHA-256 over (t_ns, port, bytes) of every output frame, in output order."""

    _HEAD = struct.Struct("<qHI")

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self.frames = 0

    def add(self, t_ns: int, port: str, data: bytes) -> None:
        """Add one frame. Lengths are hashed too, so that different frame sequences never hash the same bytes."""
        name = port.encode()
        self._hash.update(self._HEAD.pack(t_ns, len(name), len(data)) + name + data)
        self.frames += 1

    def hexdigest(self) -> str:
        """Return the digest of the frames so far."""
        return self._hash.hexdigest()
