"""TCP relay that delays and stalls, in place of a network between two computers."""

import random
import socket
import threading
import time
from contextlib import suppress
from types import TracebackType

from tests.busy_computer import DEADLINE_S

READ_BYTES = 1 << 16


class Relay:
    """Context that passes one connection on to a port of this computer, each direction on its own
    thread.

    Bytes arrive ``delay_s`` later, in pieces cut anywhere. With ``stalls`` a direction stands still
    for 0.2 s now and then, as TCP does after a lost segment.
    """

    def __init__(self, port: int, delay_s: float, *, stalls: float = 0.0, seed: int = 1) -> None:
        """``stalls``: probability of a stall after each piece."""
        self._delay_s, self._stalls = delay_s, stalls
        self._target = port
        self._random = random.Random(seed)
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self.pieces = self.stalled = 0
        self._ends: list[socket.socket] = []
        self._threads: list[threading.Thread] = [threading.Thread(target=self._serve, daemon=True)]

    def __enter__(self) -> "Relay":
        self._threads[0].start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.close()
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads[1:]:
            thread.join(DEADLINE_S)
        for end in self._ends:
            end.close()

    def _serve(self) -> None:
        with suppress(OSError):
            near, _ = self._server.accept()
            far = socket.create_connection(("127.0.0.1", self._target))
            self._ends = [near, far]
            for end in self._ends:
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for source, target in ((near, far), (far, near)):
                waiting: list[tuple[float, bytes]] = []
                ready = threading.Condition()
                for work in (self._read, self._write):
                    thread = threading.Thread(
                        target=work, args=(source, target, waiting, ready), daemon=True
                    )
                    self._threads.append(thread)
                    thread.start()

    def _read(
        self,
        source: socket.socket,
        target: socket.socket,
        waiting: list[tuple[float, bytes]],
        ready: threading.Condition,
    ) -> None:
        data = b"-"
        while data:
            try:
                data = source.recv(READ_BYTES)
            except OSError:
                data = b""
            with ready:
                waiting.append((time.monotonic() + self._delay_s, data))
                ready.notify()

    def _write(
        self,
        source: socket.socket,
        target: socket.socket,
        waiting: list[tuple[float, bytes]],
        ready: threading.Condition,
    ) -> None:
        with suppress(OSError):
            while True:
                with ready:
                    while not waiting:
                        ready.wait()
                    due_s, data = waiting.pop(0)
                time.sleep(max(due_s - time.monotonic(), 0.0))
                if not data:
                    target.shutdown(socket.SHUT_WR)
                    return
                cut = self._random.randrange(len(data) + 1)
                for piece in (data[:cut], data[cut:]):
                    target.sendall(piece)
                self.pieces += 1
                if self._random.random() < self._stalls:
                    self.stalled += 1
                    time.sleep(0.2)
