"""One WebSocket connection, of a page or of Foxglove: bounded send queue, send timeout, rate limit
for received messages."""

import asyncio
import time
from collections.abc import AsyncIterator

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from vehicled.live.view.outbox import ClientQueue

SEND_TIMEOUT_S = 10.0
"""Timeout for a client that accepts no data, s; it is then disconnected."""
MESSAGES_PER_S = 100.0
BURST = 50.0


class Connection:
    """Connection to one client of the view."""

    def __init__(self, socket: ServerConnection, most_messages: int, most_bytes: int) -> None:
        self.socket = socket
        self.outbox = ClientQueue(most_messages, most_bytes)
        self._news = asyncio.Event()
        self.peer = str(socket.remote_address[0]) if socket.remote_address else "?"

    def put(self, message: str | bytes) -> None:
        """Queue a message; drop the oldest if the queue is full."""
        self.outbox.put(message)
        self._news.set()

    def put_first(self, message: str | bytes) -> None:
        """Queue a message before all others."""
        self.outbox.put_first(message)
        self._news.set()

    def abort(self) -> None:
        """End the connection without a closing handshake."""
        self.socket.transport.abort()

    async def send(self) -> None:
        """Send queued messages until the connection ends."""
        try:
            while True:
                message = self.outbox.take()
                if message is None:
                    self._news.clear()
                    await self._news.wait()
                    continue
                async with asyncio.timeout(SEND_TIMEOUT_S):
                    await self.socket.send(message)
        except ConnectionClosed:
            pass
        except TimeoutError:
            # Abort without a closing handshake, because the client does not read.
            self.abort()

    async def messages(self) -> AsyncIterator[str | bytes]:
        """Iterate over the received messages, rate-limited, until the connection ends."""
        tokens, before_s = BURST, time.monotonic()
        try:
            async for message in self.socket:
                now_s = time.monotonic()
                tokens, before_s = min(BURST, tokens + (now_s - before_s) * MESSAGES_PER_S), now_s
                if tokens < 1.0:
                    # Only this connection waits.
                    await asyncio.sleep((1.0 - tokens) / MESSAGES_PER_S)
                    tokens = 1.0
                tokens -= 1.0
                yield message
        except ConnectionClosed:
            pass
