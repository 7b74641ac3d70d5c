"""Queue of corrections on their way to a receiver: complete messages, oldest dropped first, never blocking."""

from collections import deque


class FrameQueue:
    """Bounded queue of RTCM frames for a port slower than the source.

    A full queue drops its oldest frames whole, because half a frame would cost the next one too, and the newest epoch is worth
    most. Frames older than ``max_age_ns`` are dropped on reading, because a receiver would compute from outdated observations.
    """

    def __init__(self, limit_bytes: int, max_age_ns: int) -> None:
        self._limit_bytes = limit_bytes
        self._max_age_ns = max_age_ns
        self._frames: deque[tuple[int, bytes]] = deque()
        self.queued_bytes = 0
        self.dropped_frames = 0
        """Frames dropped for lack of room or for age."""
        self.dropped_bytes = 0

    def __len__(self) -> int:
        return len(self._frames)

    def put(self, frame: bytes, t_ns: int) -> None:
        """Append a frame that arrived at ``t_ns``; a frame longer than the queue is dropped."""
        self._frames.append((t_ns, frame))
        self.queued_bytes += len(frame)
        while self.queued_bytes > self._limit_bytes:
            self._drop()

    def take(self, now_ns: int, budget_bytes: int) -> list[bytes]:
        """Return the frames that fit ``budget_bytes`` in order, at least one, so that a small budget does not stop the flow."""
        taken: list[bytes] = []
        while self._frames:
            t_ns, frame = self._frames[0]
            if now_ns - t_ns > self._max_age_ns:
                self._drop()
                continue
            if taken and len(frame) > budget_bytes:
                break
            self._frames.popleft()
            self.queued_bytes -= len(frame)
            budget_bytes -= len(frame)
            taken.append(frame)
        return taken

    def clear(self) -> None:
        """Drop everything, because the port is lost."""
        while self._frames:
            self._drop()

    def _drop(self) -> None:
        _, frame = self._frames.popleft()
        self.queued_bytes -= len(frame)
        self.dropped_frames += 1
        self.dropped_bytes += len(frame)
