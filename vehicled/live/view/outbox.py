"""Bounded send queue of one client; the oldest message is dropped when it is full. Pure."""

from collections import deque


class ClientQueue:
    """Messages of a connection that have not been sent. Clients share the data; only references are
    queued."""

    def __init__(self, most_messages: int, most_bytes: int) -> None:
        self._most_messages = most_messages
        self._most_bytes = most_bytes
        self._waiting: deque[str | bytes] = deque()
        self._bytes = 0
        self._urgent: deque[str | bytes] = deque(maxlen=most_messages)
        self.dropped = 0
        """Number of dropped messages since the connection began."""

    def put(self, message: str | bytes) -> None:
        """Add a message; one that is larger than the limit is dropped itself."""
        if len(message) > self._most_bytes:
            self.dropped += 1
            return
        self._waiting.append(message)
        self._bytes += len(message)
        while len(self._waiting) > self._most_messages or self._bytes > self._most_bytes:
            self._bytes -= len(self._waiting.popleft())
            self.dropped += 1

    def put_first(self, message: str | bytes) -> None:
        """Add a short urgent message before all others; it is never dropped."""
        self._urgent.append(message)

    def take(self) -> str | bytes | None:
        """Return the next message to send, or None."""
        if self._urgent:
            return self._urgent.popleft()
        if not self._waiting:
            return None
        message = self._waiting.popleft()
        self._bytes -= len(message)
        return message

    @property
    def waiting_bytes(self) -> int:
        """Return the size of the queued messages that are not urgent; text counts by its
        characters."""
        return self._bytes

    def __len__(self) -> int:
        return len(self._waiting) + len(self._urgent)
