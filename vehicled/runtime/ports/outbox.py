"""Send queue of a port: ordered, bounded, and no frame is begun after its deadline. Uses neither
clock nor descriptor."""

from collections import deque
from collections.abc import Callable

from vehicled.runtime.ports.contract import PortCounts


class PortSendQueue:
    """Frames that could not be written at once. A change of the baud rate is queued among the
    frames."""

    def __init__(self, limit_bytes: int, counts: PortCounts) -> None:
        """Take the largest queue size, ``limit_bytes``."""
        self._limit_bytes = limit_bytes
        self._counts = counts
        self._items: deque[tuple[bytes, int] | int] = deque()
        self._bytes = 0
        self._begun = False

    def __bool__(self) -> bool:
        return bool(self._items)

    @property
    def waiting_bytes(self) -> int:
        """Number of queued bytes."""
        return self._bytes

    @property
    def baud(self) -> int | None:
        """Baud rate to set next; None if a frame comes first or nothing is queued."""
        head = self._items[0] if self._items else None
        return head if isinstance(head, int) else None

    def baud_done(self, baud: int) -> None:
        """Remove a completed change of the baud rate; a newer one stays queued."""
        if self.baud == baud:
            self._items.popleft()

    def put(self, data: bytes, deadline_ns: int) -> bool:
        """Queue a whole frame; drop the oldest frames not yet begun to make room. Return False if
        it could never fit."""
        if len(data) > self._limit_bytes - (self._head_bytes() if self._begun else 0):
            self._counts.refused += 1
            return False
        while self._bytes + len(data) > self._limit_bytes:
            self._evict()
        self._items.append((data, deadline_ns))
        self._bytes += len(data)
        return True

    def put_baud(self, baud: int) -> None:
        """Change the baud rate after the queued frames. The later one of two consecutive changes
        counts."""
        if self._items and isinstance(self._items[-1], int):
            self._items.pop()
        self._items.append(baud)

    def drain(self, write: Callable[[bytes], int], now_ns: int) -> None:
        """Pass frames to ``write``, which returns the accepted length, until it accepts less or a
        baud rate change is next."""
        items = self._items
        while items:
            head = items[0]
            if isinstance(head, int):
                return
            data, deadline_ns = head
            if now_ns > deadline_ns and not self._begun:
                self._counts.expired += 1
            else:
                taken = write(data)
                self._counts.tx_bytes += taken
                if taken < len(data):
                    if taken:
                        items[0] = (data[taken:], deadline_ns)
                        self._bytes -= taken
                        self._begun = True
                    return
            items.popleft()
            self._bytes -= len(data)
            self._begun = False

    def clear(self) -> int:
        """Clear the queue; return the number of frames dropped."""
        frames = sum(not isinstance(item, int) for item in self._items)
        self._items.clear()
        self._bytes = 0
        self._begun = False
        return frames

    def _head_bytes(self) -> int:
        head = self._items[0]
        return 0 if isinstance(head, int) else len(head[0])

    def _evict(self) -> None:
        for at, item in enumerate(self._items):
            if isinstance(item, int) or (at == 0 and self._begun):
                continue
            del self._items[at]
            self._bytes -= len(item[0])
            self._counts.overflowed += 1
            self._counts.overflowed_bytes += len(item[0])
            return
