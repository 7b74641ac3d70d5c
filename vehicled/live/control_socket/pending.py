"""Connections that have asked for nothing yet. They cost the loop little, however many come, and
one that asks for a stop passes.

Every connection begins here. It leaves with its first request: a stop at once, others a few at a
time. Beyond ``MAX_WAITING`` the oldest connection of the program that has most is closed, so that
there is always room for one more.
"""

import selectors
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import anyio
import anyio.lowlevel
from msgspec import Struct

MAX_WAITING = 256
BACKLOG = 1024
"""Connections that the kernel keeps until they are accepted."""
ACCEPTS = 16
"""Connections accepted at once; they take some 0.3 ms."""
STOPS, OTHERS = 4, 2
"""Connections that leave at once, for a stop and for another request."""
PAUSE_S = 0.002
"""Pause after some connections, s."""
SWEEP_S = 0.1
PEEK_BYTES = 4096
STOP_WORDS = (b"stop", b"disarm")
"""Every request that stops the vehicle has one of these words."""


class PendingConnection(Struct, eq=False):
    """Connection without a request."""

    connection: socket.socket
    user: int | None
    program: int
    """Process id; 0 if it is unknown."""
    since_s: float


class PendingConnections:
    """Accepts connections and passes on those that send something."""

    def __init__(
        self,
        listener: socket.socket,
        admit: Callable[[PendingConnection], None],
        full: Callable[[PendingConnection], bool],
        farewell: bytes,
        timeout_s: float,
    ) -> None:
        """``admit`` takes a connection. While ``full`` is true for one, it is closed with a
        ``farewell`` after ``timeout_s``."""
        self._listener = listener
        self._admit = admit
        self._full = full
        self._farewell = farewell
        self._timeout_s = timeout_s
        self._waiting: dict[int, PendingConnection] = {}
        """Connections by file descriptor, the oldest first."""

    async def serve(self) -> None:
        """Accept until cancelled; then close what still waits."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            try:
                while True:
                    with anyio.move_on_after(SWEEP_S if self._waiting else float("inf")):
                        await anyio.wait_readable(selector.fileno())
                    ready = [key.fd for key, _ in selector.select(0)]
                    self._accept(selector)
                    # The loop's tasks come between any two pieces of work.
                    await anyio.lowlevel.checkpoint()
                    self._release(selector, [fd for fd in ready if fd in self._waiting])
                    self._sweep(selector)
                    await anyio.sleep(PAUSE_S)
            finally:
                for pending in self._waiting.values():
                    pending.connection.close()

    def _accept(self, selector: selectors.BaseSelector) -> None:
        for _ in range(ACCEPTS):
            try:
                connection, _ = self._listener.accept()
            except OSError:
                # Nobody else, or no file descriptor is left.
                return
            connection.setblocking(False)
            if _sent(connection) is None:
                connection.close()
                continue
            if len(self._waiting) >= MAX_WAITING:
                ((program, _),) = Counter(
                    pending.program for pending in self._waiting.values()
                ).most_common(1)
                self._leave(
                    selector, next(n for n in self._waiting.values() if n.program == program)
                )
            user, program = _peer(connection)
            self._waiting[connection.fileno()] = PendingConnection(
                connection, user, program, time.monotonic()
            )
            selector.register(connection, selectors.EVENT_READ)

    def _release(self, selector: selectors.BaseSelector, ready: list[int]) -> None:
        """Let some go who ask for a stop, and some of the others, the oldest first."""
        stops: list[PendingConnection] = []
        others: list[PendingConnection] = []
        for pending in [self._waiting[fd] for fd in ready]:
            sent = _sent(pending.connection)
            if sent is None:
                self._take(selector, pending).connection.close()
            elif sent:
                (stops if any(word in sent for word in STOP_WORDS) else others).append(pending)
        stops.sort(key=lambda pending: pending.since_s)
        others.sort(key=lambda pending: pending.since_s)
        for pending in (*stops[:STOPS], *others[:OTHERS]):
            self._admit(self._take(selector, pending))

    def _sweep(self, selector: selectors.BaseSelector) -> None:
        late_s = time.monotonic() - self._timeout_s
        for pending in [n for n in self._waiting.values() if n.since_s < late_s and self._full(n)]:
            self._leave(selector, pending)

    def _leave(self, selector: selectors.BaseSelector, pending: PendingConnection) -> None:
        """Close a connection with the reason, or the client would take it for the end of the
        run."""
        self._take(selector, pending)
        with pending.connection, suppress(OSError):
            pending.connection.send(self._farewell)

    def _take(
        self, selector: selectors.BaseSelector, pending: PendingConnection
    ) -> PendingConnection:
        selector.unregister(pending.connection)
        del self._waiting[pending.connection.fileno()]
        return pending


def _sent(connection: socket.socket) -> bytes | None:
    """Return what the client has sent, without reading it; empty if nothing, None if it is gone."""
    try:
        return connection.recv(PEEK_BYTES, socket.MSG_PEEK) or None
    except BlockingIOError:
        return b""
    except OSError:
        return None


def _peer(connection: socket.socket) -> tuple[int | None, int]:
    """Return user and process id of the client, as reported by the kernel."""
    try:
        pid, uid, _ = struct.unpack(
            "3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        )
    except (AttributeError, OSError):
        return None, 0
    return uid, pid
