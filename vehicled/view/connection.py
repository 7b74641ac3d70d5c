"""One open socket, of a page or of Foxglove: a queue that drops, a sender that gives up, a reader that is slowed down."""

import asyncio
import time
from collections.abc import AsyncIterator

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from vehicled.view.outbox import Outbox

SEND_TIMEOUT_S = 10.0
"""Who takes nothing for so long is hung up on."""
MESSAGES_PER_S = 100.0
BURST = 50.0


class Connection:
    """A reader of the view."""

    def __init__(self, socket: ServerConnection, most_messages: int, most_bytes: int) -> None:
        self._socket = socket
        self.outbox = Outbox(most_messages, most_bytes)
        self._news = asyncio.Event()
        self.peer = str(socket.remote_address[0]) if socket.remote_address else "?"

    def put(self, message: str | bytes) -> None:
        """Send it when there is room; the oldest that waits is dropped when there is none."""
        self.outbox.put(message)
        self._news.set()

    def put_first(self, message: str | bytes) -> None:
        """Send it before all that waits."""
        self.outbox.put_first(message)
        self._news.set()

    async def send(self) -> None:
        """Send what is put until the connection ends."""
        try:
            while True:
                message = self.outbox.take()
                if message is None:
                    self._news.clear()
                    await self._news.wait()
                    continue
                async with asyncio.timeout(SEND_TIMEOUT_S):
                    await self._socket.send(message)
        except ConnectionClosed:
            pass
        except TimeoutError:
            # No closing handshake with somebody who does not read.
            self._socket.transport.abort()

    async def messages(self) -> AsyncIterator[str | bytes]:
        """What it says, no faster than a hand needs. Ends with the connection."""
        tokens, before_s = BURST, time.monotonic()
        try:
            async for message in self._socket:
                now_s = time.monotonic()
                tokens, before_s = min(BURST, tokens + (now_s - before_s) * MESSAGES_PER_S), now_s
                if tokens < 1.0:
                    # Slows this connection alone.
                    await asyncio.sleep((1.0 - tokens) / MESSAGES_PER_S)
                    tokens = 1.0
                tokens -= 1.0
                yield message
        except ConnectionClosed:
            pass
