"""The machine's inputs and outputs as records, and the digest of its outputs.

Everything the machine acts on is in the journal: received bytes, port events, local requests and stopwatch readings (the start
and end of each task tick). Together with the profile they are enough to run the machine again.
"""

import hashlib
import struct
from collections.abc import Callable, Iterable
from typing import Protocol

from vehicled.messages import Message


class Sink(Protocol):
    """Takes records. The order of calls is the order of the journal."""

    def record(self, message: Message, log_time_ns: int) -> None:
        """Keep one message. Must not block and must not raise."""
        ...


class NullSink:
    """Keeps nothing: a run without a log."""

    def record(self, message: Message, log_time_ns: int) -> None:
        """Forget the message."""


class Router:
    """Hands every record to the log, and those of some types to whoever listens to them besides."""

    def __init__(self) -> None:
        self._log: Callable[[Message, int], None] = NullSink().record
        self._taps: dict[type[Message], list[Callable[[Message, int], None]]] = {}

    def log_to(self, log: Sink) -> None:
        """Send every record from now on to this log."""
        self._log = log.record

    def tap(self, types: Iterable[type[Message]], record: Callable[[Message, int], None]) -> None:
        """Call ``record`` too for messages of these types. It must neither block nor raise."""
        for kind in types:
            self._taps.setdefault(kind, []).append(record)

    def record(self, message: Message, log_time_ns: int) -> None:
        """Pass the record on."""
        self._log(message, log_time_ns)
        kind = type(message)
        if kind in self._taps:
            for record in self._taps[kind]:
                record(message, log_time_ns)


class Digest:
    """SHA-256 over (t_ns, port, bytes) of every frame, in the order in which the machine hands frames over."""

    _HEAD = struct.Struct("<qHI")

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self.frames = 0

    def add(self, t_ns: int, port: str, data: bytes) -> None:
        """Count one frame. Lengths are hashed too, so that no two sequences of frames share their bytes."""
        name = port.encode()
        self._hash.update(self._HEAD.pack(t_ns, len(name), len(data)) + name + data)
        self.frames += 1

    def hexdigest(self) -> str:
        """Digest of the frames so far."""
        return self._hash.hexdigest()
