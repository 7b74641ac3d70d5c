"""Messages of a running daemon for a client: a survey of their rates, their times, or the newest
ones.

Without a client it costs nothing. A listener only stores the message, which is immutable; encoding
is bounded by the client's rate.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anyio

from vehicled.core.messages import ALL, Message
from vehicled.live.control_socket.console import Console
from vehicled.log.cat import plain_fields
from vehicled.log.schema import CHANNELS, schema_of

TIMES_PERIOD_S = 0.25
MOST_TIMES = 8192
"""Times kept for one client between two answers; more are dropped and counted."""
ALIVE_S = 1.0
"""Longest time without an answer, s, so that a client that is gone is noticed."""


class TopicListener:
    """Newest message of one type, with the times of all of them."""

    def __init__(self) -> None:
        self.newest: tuple[int, Message] | None = None
        self.times: deque[int] = deque(maxlen=MOST_TIMES)
        self.count = 0
        """Number of messages since the listener began."""

    def record(self, message: Message, log_time_ns: int) -> None:
        """Store one message."""
        self.newest = log_time_ns, message
        self.times.append(log_time_ns)
        self.count += 1


@contextmanager
def listening(
    console: Console, *kinds: type[Message]
) -> Iterator[dict[type[Message], TopicListener]]:
    """Listen to messages of some types."""
    listeners = {kind: TopicListener() for kind in kinds}
    for kind, listener in listeners.items():
        console.router.listen((kind,), listener.record)
    try:
        yield listeners
    finally:
        for kind, listener in listeners.items():
            console.router.unlisten((kind,), listener.record)


async def survey(console: Console, seconds: float) -> list[dict[str, Any]]:
    """Return topic, type and rate of every message type, measured over some seconds."""
    with listening(console, *ALL) as listeners:
        await anyio.sleep(seconds)
        rates = {kind: listener.count / seconds for kind, listener in listeners.items()}
    return [
        {"topic": CHANNELS[kind].topic, "type": schema_of(kind)[0], "rate_hz": rate}
        for kind, rate in rates.items()
    ]


class Subscription:
    """Answers to one subscription."""

    def __init__(self, listener: TopicListener, rate_hz: float) -> None:
        self._listener = listener
        self._period_s = 1.0 / rate_hz
        self._sent = 0

    async def wait(self) -> None:
        """Wait for the next message, at most at the rate, and no longer than ``ALIVE_S``."""
        waited_s = 0.0
        while self._listener.count == self._sent and waited_s < ALIVE_S:
            await anyio.sleep(self._period_s)
            waited_s += self._period_s

    def newest(self) -> dict[str, Any]:
        """Return the newest message; empty without one since the last call."""
        if self._listener.newest is None or self._listener.count == self._sent:
            return {}
        t_ns, message = self._listener.newest
        skipped, self._sent = self._listener.count - self._sent - 1, self._listener.count
        return {"t_ns": t_ns, "skipped": skipped, "message": plain_fields(message)}

    def times(self) -> dict[str, Any]:
        """Return the times of the messages since the last call, ns."""
        found = [self._listener.times.popleft() for _ in range(len(self._listener.times))]
        dropped = self._listener.count - self._sent - len(found)
        self._sent = self._listener.count
        return {"times_ns": found, "dropped": dropped}
