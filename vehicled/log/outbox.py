"""Bounded queue between the loop and the pipe. No I/O.

First in, first out over all streams, with separate limits for lossy and lossless data: a slow disk
costs derived topics long before it costs the journal.
"""

from collections import deque


class FrameQueue:
    """Frames waiting for the pipe. Memory is bounded by the two limits plus one frame each."""

    def __init__(self, journal_limit_bytes: int, derived_limit_bytes: int) -> None:
        self._limits = (derived_limit_bytes, journal_limit_bytes)
        self._waiting = [0, 0]
        self._frames: deque[tuple[bytes | bytearray | memoryview, bool]] = deque()

    def offer(self, frame: bytes | bytearray, *, lossless: bool, forced: bool = False) -> bool:
        """Queue a frame if its class has room; an empty class accepts any frame. ``forced`` is for
        the small markers of a loss."""
        waiting = self._waiting[lossless]
        if waiting and waiting + len(frame) > self._limits[lossless] and not forced:
            return False
        self._waiting[lossless] = waiting + len(frame)
        self._frames.append((frame, lossless))
        return True

    def head(self) -> bytes | bytearray | memoryview | None:
        """Return the next bytes to write, or None."""
        return self._frames[0][0] if self._frames else None

    def advance(self, count: int) -> None:
        """Remove ``count`` written bytes from the head."""
        head, lossless = self._frames[0]
        self._waiting[lossless] -= count
        if count == len(head):
            self._frames.popleft()
        else:
            self._frames[0] = (memoryview(head)[count:], lossless)

    def clear(self) -> None:
        """Drop all frames, because the reader is gone."""
        self._frames.clear()
        self._waiting = [0, 0]

    @property
    def waiting_bytes(self) -> int:
        """Number of bytes not yet written."""
        return self._waiting[0] + self._waiting[1]

    @property
    def full_share(self) -> float:
        """Fill level of the fuller class, 0 to slightly above 1."""
        return max(
            waiting / limit for waiting, limit in zip(self._waiting, self._limits, strict=True)
        )

    def __len__(self) -> int:
        return len(self._frames)
