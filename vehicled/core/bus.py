"""Buffers between the tasks. There are no callbacks: a task reads them when it runs."""

from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

from vehicled.core.ports import NEVER_NS

T = TypeVar("T")


class Latest(Generic[T]):
    """Newest value of one kind, with its time stamp."""

    __slots__ = ("stamp_ns", "value")

    def __init__(self) -> None:
        self.value: T | None = None
        self.stamp_ns = 0

    def put(self, value: T, stamp_ns: int) -> None:
        """Replace the value."""
        self.value = value
        self.stamp_ns = stamp_ns

    def age_ns(self, now_ns: int) -> int:
        """Return the time since the stamp; ``NEVER_NS`` if no value was ever put."""
        return NEVER_NS if self.value is None else now_ns - self.stamp_ns


class Inbox(Generic[T]):
    """Bounded queue. When full it drops and counts the oldest value, because a controller needs the
    newest."""

    __slots__ = ("_items", "dropped", "limit")

    def __init__(self, limit: int) -> None:
        self._items: deque[T] = deque()
        self.limit = limit
        self.dropped = 0

    def put(self, item: T) -> None:
        """Append; drop the oldest item when full."""
        if len(self._items) >= self.limit:
            self._items.popleft()
            self.dropped += 1
        self._items.append(item)

    def drain(self) -> Iterator[T]:
        """Drain the queue, oldest first."""
        items = self._items
        while items:
            yield items.popleft()

    def __len__(self) -> int:
        return len(self._items)
