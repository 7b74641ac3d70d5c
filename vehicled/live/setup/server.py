"""The set-up on web pages: its server, in the process and on the loop of the steps.

The limits on connections and messages are those of the live view. What is received is judged by
:mod:`~vehicled.live.setup.pages`.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from websockets.asyncio.server import ServerConnection

from vehicled.live.setup.bench import signal_of_end
from vehicled.live.setup.pages import BUTTONS, SetupPages, parse_message
from vehicled.live.setup.session import StepSession
from vehicled.live.view.assets import PAGE_FOLDER, load_assets
from vehicled.live.view.connection import Connection
from vehicled.live.view.page_server import (
    MAX_MESSAGE_BYTES,
    PAGE_QUEUE,
    PageServer,
    encoded,
    note_message,
)

BEAT_S = 0.05
TICK_BEATS = 2
"""Beats between two messages with the state."""
PARTING_S = 0.1
"""Time for the last message to the pages, s."""
_SHARED = ("canvas.js", "link.js", "plot.js", "style.css", "uplot.js")
"""Files of the live view's page that this page uses too."""


class SetupServer(PageServer):
    """Serves the pages, and is the front end of the steps."""

    wording = BUTTONS

    def __init__(
        self, pages: SetupPages, token: str, names: Iterable[str], echo: Callable[[str], None]
    ) -> None:
        """``echo`` gets the lines that stay, for the terminal."""
        shared = load_assets(PAGE_FOLDER)
        own = load_assets(Path(__file__).with_name("page"))
        super().__init__(
            token, names, {**{f"/{name}": shared[f"/{name}"] for name in _SHARED}, **own}
        )
        self._pages = pages
        self._echo = echo
        self._connections: dict[Connection, None] = {}
        self._read = asyncio.Event()

    # ------------------------------------------------------------------ front end

    def say(self, text: str) -> None:
        """Show a line that stays."""
        self._echo(text)
        self._pages.say(text)

    def show(self, now_ns: int) -> None:
        """The pages are sent the state by their own clock."""

    async def serve_step(self, session: StepSession) -> str:
        """Show a step until it is cancelled. A page that is lost is no end: another may come."""
        self._pages.begin(session)
        await anyio.sleep_forever()
        raise AssertionError

    async def wait_for_end(self) -> str:
        """Show the checklist until its reader ends it; return the signal that ended it, if one
        did."""
        read = asyncio.create_task(self._read.wait())
        signal = asyncio.create_task(signal_of_end())
        await asyncio.wait((read, signal), return_when=asyncio.FIRST_COMPLETED)
        ended = signal.result() if signal.done() else ""
        read.cancel()
        signal.cancel()
        return ended

    # ------------------------------------------------------------------ pages

    @asynccontextmanager
    async def running(self, host: str, port: int) -> AsyncIterator[int]:
        """Serve pages at an address, and yield its port. Raises OSError."""
        async with self.listening(host, port, max_size=MAX_MESSAGE_BYTES) as bound:
            clock = asyncio.create_task(self._beat())
            try:
                yield bound
            finally:
                clock.cancel()
                for connection in self._connections:
                    connection.put_first(encoded({"k": "over"}))
                # Ctrl-C has cancelled this task: the last message is sent all the same.
                with anyio.CancelScope(shield=True):
                    await anyio.sleep(PARTING_S)

    async def _beat(self) -> None:
        number = 0
        while True:
            await asyncio.sleep(BEAT_S)
            number += 1
            now_ns = time.monotonic_ns()
            if self._pages.beats:
                for connection in self._connections:
                    if connection is self._pages.holder:
                        connection.put_first(f'{{"k":"beat","b":{now_ns // 1_000_000}}}')
            if number % TICK_BEATS == 0:
                text = encoded(self._pages.tick(now_ns))
                for connection in self._connections:
                    connection.put(text)

    async def serve(self, socket: ServerConnection) -> None:
        """Serve one page."""
        page = Connection(socket, *PAGE_QUEUE)
        self._pages.on_open()
        page.put_first(encoded(self._pages.hello(time.monotonic_ns())))
        self._connections[page] = None
        self._report_holder()
        sender = asyncio.create_task(page.send())
        try:
            async for text in page.messages():
                message = parse_message(text)
                holder = self._pages.holder
                why = (
                    "not understood"
                    if message is None
                    else self._pages.on_message(page, message, time.monotonic_ns())
                )
                if self._pages.over:
                    self._read.set()
                if why:
                    page.put_first(note_message(why))
                if self._pages.holder is not holder:
                    self._report_holder()
        finally:
            sender.cancel()
            del self._connections[page]
            self._pages.on_close(page)
            self._report_holder()

    def _report_holder(self) -> None:
        """Send every page whether it is in control."""
        holder = self._pages.holder
        for page in self._connections:
            page.put_first(
                encoded({"k": "control", "mine": page is holder, "free": holder is None})
            )

    def make_room(self, asked: str) -> bool:
        """Close the oldest page that is not in control, so that a person with the token can always
        open one and stop."""
        oldest = next(
            (
                page
                for page in self._connections
                if page is not self._pages.holder and page.socket in self.admitted
            ),
            None,
        )
        if oldest is None:
            return False
        self.displace(oldest)
        return True
