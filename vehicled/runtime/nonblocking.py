"""Text stream that never blocks the loop, for lines to people."""

import os
import select
import socket
import stat
import weakref
from collections.abc import Callable
from typing import TextIO

_OPEN = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def own_descriptor(fd: int) -> int | None:
    """Return a new descriptor of a terminal or pipe that never blocks, or None if it cannot be
    opened once more. The flags of the given one are those of every process that shares it, the
    shell among them.
    """
    try:
        return os.open(os.ttyname(fd) if os.isatty(fd) else f"/proc/self/fd/{fd}", _OPEN)
    except OSError:
        return None


def _writer(stream: TextIO, owner: object) -> Callable[[bytes], int] | None:
    """Return what writes to a stream without blocking, or None for one that needs none: a file, or
    text in memory."""
    try:
        fd = stream.fileno()
        kind = os.fstat(fd).st_mode
    except (OSError, ValueError, AttributeError):
        return None
    if stat.S_ISSOCK(kind):
        # Standard error of a service is a socket of the journal, which cannot be opened once more.
        connection = socket.socket(fileno=os.dup(fd))
        weakref.finalize(owner, connection.close)
        return lambda data: connection.send(data, socket.MSG_DONTWAIT)
    if not (os.isatty(fd) or stat.S_ISFIFO(kind)):
        return None
    if (own := own_descriptor(fd)) is None:
        return lambda data: os.write(fd, data) if select.select([], [fd], [], 0)[1] else 0
    weakref.finalize(owner, os.close, own)
    return lambda data: os.write(own, data)


class NonBlockingStream:
    """Text stream that drops lines rather than block the loop, since a terminal may be paused, and
    a pipe full. A line that has been written in part is completed before the next one.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._encoding = getattr(stream, "encoding", None) or "utf-8"
        self._write = _writer(stream, self)
        self._rest = b""
        self.lost = 0
        """Number of dropped lines."""

    def write(self, text: str) -> None:
        """Write what there is room for at once."""
        if self._write is None:
            self._write_plainly(text)
        elif not self._complete() or not self._begin(
            text.encode(self._encoding, "backslashreplace")
        ):
            self.lost += 1

    def _begin(self, line: bytes) -> bool:
        """Write what there is room for. Return False if there is none, and the line is dropped."""
        self._rest = line
        if not self._complete() and len(self._rest) == len(line):
            self._rest = b""
            return False
        return True

    def _write_plainly(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            self.lost += 1

    def _complete(self) -> bool:
        """Write the rest of the last line. Return True if there is none left."""
        assert self._write is not None
        try:
            self._rest = self._rest[self._write(self._rest) :] if self._rest else b""
        except (OSError, ValueError):
            pass
        return not self._rest

    def flush(self) -> None:
        """Do nothing, because writes are flushed at once."""
