"""Process of the live view: serves the page and Foxglove's protocol from its pipe. ``python -m
vehicled.live.view.server``.

It runs at low priority, so that HTTP, JSON and slow clients take no time from the loop. It ends
with the pipe.
"""

import asyncio
import os
import sys
import time
from contextlib import AsyncExitStack, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import NegotiationError
from websockets.http11 import Response
from websockets.typing import Subprotocol

from vehicled.live.bridges.frames import MAX_FRAME_BYTES, FrameKind
from vehicled.live.control_socket.client import Client
from vehicled.live.view.assets import PAGE_FOLDER, load_assets
from vehicled.live.view.connection import Connection
from vehicled.live.view.foxglove import (
    SUBPROTOCOLS,
    FoxgloveSession,
    SharedChannels,
    displaced_status,
    dropped_status,
)
from vehicled.live.view.page_server import (
    DISPLACED,
    MAX_MESSAGE_BYTES,
    PAGE_QUEUE,
    PageServer,
    encoded,
    note_message,
    refuse,
    run_child,
)
from vehicled.live.view.page_state import PageState
from vehicled.live.view.page_teleop import PageDriver, PageTeleop, parse_message
from vehicled.live.view.wire import ViewConfig
from vehicled.log.frames import HEAD

TICK_S = 0.1
BEAT_S = 0.05
"""Interval of the beats to the page in control, s."""
MAX_SUBSCRIBE_BYTES = 64 << 10
CONTROL_TIMEOUT_S = 0.5
"""Timeout for the control socket, s: the readings of the page in control wait meanwhile."""
FOXGLOVE_QUEUE = (4000, 2 << 20)


class Server(PageServer):
    """Server of the child process."""

    def __init__(self, opening: ViewConfig) -> None:
        self._opening = opening
        super().__init__(opening.token, opening.names, load_assets(PAGE_FOLDER))
        self._page_state = PageState(opening)
        self._shared = SharedChannels(opening) if opening.foxglove else None
        self._pages: dict[Connection, PageDriver | None] = {}
        self._foxgloves: dict[Connection, FoxgloveSession] = {}
        self._teleop = PageTeleop(
            lambda: Client(Path(opening.control_socket), CONTROL_TIMEOUT_S),
            opening.most_throttle,
            opening.silence_s,
        )
        self._fed_s = time.monotonic()
        self._count = 0

    # ------------------------------------------------------------------ the pipe

    async def follow(self, reader: asyncio.StreamReader) -> None:
        """Read the daemon's frames until the pipe ends."""
        with suppress(asyncio.IncompleteReadError):
            while True:
                length, kind = HEAD.unpack(await reader.readexactly(HEAD.size))
                if length > MAX_FRAME_BYTES:
                    return
                data = await reader.readexactly(length)
                self._fed_s = time.monotonic()
                if kind == FrameKind.RECORDS:
                    self._page_state.records(data)
                    self._to_foxglove(data)
                elif kind == FrameKind.STATE:
                    self._page_state.snapshot(data)
                    self._on_message()

    def _on_message(self) -> None:
        status, now_ms = self._page_state.status, _now_ms()
        for driver in self._pages.values():
            if driver is None or not status:
                continue
            before = driver.in_control
            driver.on_message(status, now_ms)
            if driver.in_control is not before:
                self._report_holder()

    def _to_foxglove(self, data: bytes) -> None:
        if self._shared is None:
            return
        wanted = {
            channel for session in self._foxgloves.values() for channel in session.subscription_of
        }
        try:
            messages = self._shared.messages(data, wanted)
        except ValueError:
            return  # The frame is damaged; the picture has counted it.
        for connection, session in self._foxgloves.items():
            for channel, t_ns, payload in messages:
                if channel in session.subscription_of:
                    connection.put(session.data(channel, t_ns, payload))

    # ------------------------------------------------------------------ clocks

    async def tick(self) -> None:
        """Send the changes to all pages, encoded once."""
        due_s = time.monotonic()
        while True:
            due_s = max(due_s + TICK_S, time.monotonic())
            await asyncio.sleep(due_s - time.monotonic())
            text = self._page_state.tick(time.monotonic() - self._fed_s)
            for page in self._pages:
                page.put(text)

    async def beat(self) -> None:
        """Send a beat; its echo dates the page's readings."""
        while True:
            await asyncio.sleep(BEAT_S)
            for page, driver in self._pages.items():
                if driver is not None and driver.in_control:
                    page.put_first(f'{{"k":"beat","b":{_now_ms()}}}')

    # ------------------------------------------------------------------ HTTP

    def refusal(
        self, path: str, token: str, host: str, origin: str | None, asked: str
    ) -> Response | None:
        """Return why a client has no right to a socket; None if it has."""
        if _protocol(asked) is None:
            return super().refusal(path, token, host, origin, asked)
        if self._shared is None:
            return refuse(
                HTTPStatus.NOT_FOUND, "Foxglove is disabled: set view.foxglove in the profile"
            )
        if not self._access.reads_foxglove(origin, host, token):
            return refuse(HTTPStatus.FORBIDDEN, "token required: ws://HOST:PORT/?token=TOKEN")
        return None

    def make_room(self, asked: str) -> bool:
        """Close the oldest reader that is not in control for a page that can stop, so that a person
        with the token can always open one."""
        if _protocol(asked) is not None or not self._opening.teleop:
            return False
        readers = [
            *self._foxgloves,
            *(
                page
                for page, driver in self._pages.items()
                if driver is None or not driver.in_control
            ),
        ]
        oldest = next((reader for reader in readers if reader.socket in self.admitted), None)
        if oldest is None:
            return False
        self.displace(oldest, DISPLACED if oldest in self._pages else displaced_status())
        return True

    # ------------------------------------------------------------------ sockets

    async def serve(self, socket: ServerConnection) -> None:
        """Serve one open socket."""
        if socket.subprotocol is None:
            await self._serve_page(socket)
        elif self._shared is not None:
            await self._serve_foxglove(socket, self._shared)

    async def _serve_page(self, socket: ServerConnection) -> None:
        page = Connection(socket, *PAGE_QUEUE)
        self._count += 1
        driver = (
            PageDriver(self._teleop, f"web page {self._count} at {page.peer}")
            if self._opening.teleop
            else None
        )
        origin = driver.origin if driver is not None else ""
        page.put_first(
            self._page_state.hello(
                teleop=self._opening.teleop, origin=origin, holder=self._holder()
            )
        )
        if driver is not None and self._page_state.status:
            driver.on_message(self._page_state.status, _now_ms())
        self._pages[page] = driver
        sender = asyncio.create_task(page.send())
        try:
            async for text in page.messages():
                message = (
                    parse_message(text)
                    if driver is not None and len(text) <= MAX_MESSAGE_BYTES
                    else None
                )
                if driver is None or message is None:
                    page.put_first(
                        note_message(
                            "this page is read-only" if driver is None else "not understood"
                        )
                    )
                    continue
                before = driver.in_control
                note = driver.on_page_message(message, _now_ms())
                if note:
                    page.put_first(note_message(note))
                if driver.in_control is not before:
                    self._report_holder()
        finally:
            sender.cancel()
            del self._pages[page]
            if driver is not None and driver.in_control:
                driver.release()
                self._report_holder()

    def _report_holder(self) -> None:
        """Send every page the name of the client that is in control."""
        holder = self._holder()
        for page, driver in self._pages.items():
            page.put_first(
                encoded(
                    {
                        "k": "control",
                        "mine": driver is not None and driver.in_control,
                        "holder": holder,
                    }
                )
            )

    def _holder(self) -> str:
        return self._teleop.holder.origin if self._teleop.holder is not None else ""

    async def _serve_foxglove(self, socket: ServerConnection, shared: SharedChannels) -> None:
        connection, session = Connection(socket, *FOXGLOVE_QUEUE), FoxgloveSession(shared)
        for message in shared.greeting:
            connection.put_first(message)
        self._foxgloves[connection] = session
        tasks = [
            asyncio.create_task(connection.send()),
            asyncio.create_task(_report_drops(connection)),
        ]
        try:
            async for text in connection.messages():
                for answer in session.receive(text):
                    connection.put(answer)
        finally:
            for task in tasks:
                task.cancel()
            del self._foxgloves[connection]

    def close(self) -> None:
        """Close all connections after the pipe ended."""
        self._teleop.close()
        for page in self._pages:
            page.put_first(encoded({"k": "over"}))


async def _report_drops(connection: Connection) -> None:
    errors = 0
    while True:
        await asyncio.sleep(1.0)
        if connection.outbox.dropped != errors:
            errors = connection.outbox.dropped
            connection.put_first(dropped_status(errors))


def _protocol(asked: str) -> Subprotocol | None:
    """Return the first supported subprotocol among the client's offers."""
    offered = {name.strip() for name in asked.split(",")}
    return next((Subprotocol(name) for name in SUBPROTOCOLS if name in offered), None)


def _choose(connection: ServerConnection, offered: Any) -> Subprotocol | None:
    chosen = _protocol(",".join(offered))
    if offered and chosen is None:
        raise NegotiationError(f"unsupported subprotocol; use one of {', '.join(SUBPROTOCOLS)}")
    return chosen


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


async def run() -> None:
    """Serve until the pipe ends."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 20)
    await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(0, "rb", buffering=0)
    )
    length, _ = HEAD.unpack(await reader.readexactly(HEAD.size))
    opening = msgspec.msgpack.decode(await reader.readexactly(length), type=ViewConfig)
    server = Server(opening)
    async with AsyncExitStack() as stack:
        if not await server.listen_as_child(
            stack,
            opening.host,
            opening.port,
            subprotocols=[Subprotocol(name) for name in SUBPROTOCOLS],
            select_subprotocol=_choose,
            max_size=MAX_SUBSCRIBE_BYTES,
        ):
            return
        clocks = [asyncio.create_task(server.tick()), asyncio.create_task(server.beat())]
        await server.follow(reader)
        for clock in clocks:
            clock.cancel()
        server.close()
        # Leave time to send the last messages.
        await asyncio.sleep(0.05)


def main() -> int:
    """Run the view's process."""
    return run_child(run)


if __name__ == "__main__":
    sys.exit(main())
