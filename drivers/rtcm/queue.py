"""Corrections on their way into a receiver: whole messages, newest first to be kept, never a reason to wait."""

from collections import deque


class FrameQueue:
    """Bounded queue of RTCM frames for a port that may be slower than the source.

    A full queue gives up its oldest frames, whole: half a frame would cost the receiver the next one as well, and the newest epoch
    is worth the most. Frames older than ``max_age_ns`` are given up when they are asked for, because a receiver that gets old
    observations in a burst computes from the past.
    """

    def __init__(self, limit_bytes: int, max_age_ns: int) -> None:
        self._limit_bytes = limit_bytes
        self._max_age_ns = max_age_ns
        self._frames: deque[tuple[int, bytes]] = deque()
        self.queued_bytes = 0
        self.dropped_frames = 0
        """Given up, for want of room or for age."""
        self.dropped_bytes = 0

    def __len__(self) -> int:
        return len(self._frames)

    def put(self, frame: bytes, t_ns: int) -> None:
        """Append a frame that arrived at ``t_ns``. One that is longer than the whole queue is given up itself."""
        self._frames.append((t_ns, frame))
        self.queued_bytes += len(frame)
        while self.queued_bytes > self._limit_bytes:
            self._drop()

    def take(self, now_ns: int, budget_bytes: int) -> list[bytes]:
        """Frames in order, as many as fit ``budget_bytes`` together, but one at least: a small budget must not stop the flow."""
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
        """Give up everything: the port is gone."""
        while self._frames:
            self._drop()

    def _drop(self) -> None:
        _, frame = self._frames.popleft()
        self.queued_bytes -= len(frame)
        self.dropped_frames += 1
        self.dropped_bytes += len(frame)
