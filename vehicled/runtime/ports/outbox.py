"""Frames that wait for a descriptor: in order, bounded, and none begun after its deadline. Knows no clock and no descriptor."""

from collections import deque
from collections.abc import Callable

from vehicled.runtime.ports.contract import PortCounts


class Outbox:
    """What could not be written at once. A change of the line rate waits its turn among the frames."""

    def __init__(self, limit_bytes: int, counts: PortCounts) -> None:
        """``limit_bytes``: more than this never waits."""
        self._limit_bytes = limit_bytes
        self._counts = counts
        self._items: deque[tuple[bytes, int] | int] = deque()
        self._bytes = 0
        self._begun = False

    def __bool__(self) -> bool:
        return bool(self._items)

    @property
    def waiting_bytes(self) -> int:
        """Bytes that have not left."""
        return self._bytes

    @property
    def baud(self) -> int | None:
        """The line rate to be set next; None when frames, or nothing, come first."""
        head = self._items[0] if self._items else None
        return head if isinstance(head, int) else None

    def baud_done(self, baud: int) -> None:
        """That change has been made; another one asked for meanwhile stays due."""
        if self.baud == baud:
            self._items.popleft()

    def put(self, data: bytes, deadline_ns: int) -> bool:
        """Take a whole frame; the oldest that were not begun make room. False when it could never fit."""
        if len(data) > self._limit_bytes - (self._head_bytes() if self._begun else 0):
            self._counts.refused += 1
            return False
        while self._bytes + len(data) > self._limit_bytes:
            self._evict()
        self._items.append((data, deadline_ns))
        self._bytes += len(data)
        return True

    def put_baud(self, baud: int) -> None:
        """Change the line rate after what waits now. Of two changes in a row the later one counts."""
        if self._items and isinstance(self._items[-1], int):
            self._items.pop()
        self._items.append(baud)

    def drain(self, write: Callable[[bytes], int], now_ns: int) -> None:
        """Hand frames to ``write``, which returns how much it took, until it takes less than all or a change of rate is due."""
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
        """Forget everything; returns how many frames that were."""
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
