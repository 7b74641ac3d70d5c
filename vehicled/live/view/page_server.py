"""HTTP and WebSocket server of a page, with the protections that every page of ours has: host
names, origins, token, and limits on connections."""

import asyncio
import errno
import logging
import os
import socket as sockets
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers, MultipleValuesError
from websockets.http11 import Request, Response

from vehicled.live.bridges.child import be_modest, report
from vehicled.live.bridges.frames import ChildReport
from vehicled.live.view.access import Access
from vehicled.live.view.assets import Asset, headers
from vehicled.live.view.connection import Connection

MOST_SOCKETS = 8
"""Largest number of sockets of all kinds together."""
ACCEPTS, BACKLOG = 16, 1024
"""Connections accepted at once, far fewer than ``MOST_STRANGERS``: a new one must have time to send
before it is the oldest. It is also the kernel's backlog.
"""
MOST_STRANGERS = 128
"""Largest number of connections that have shown no right to a socket; beyond it the oldest is
closed, so that there is always room for one more.
"""
GREETING_S = 3.0
"""Timeout of the handshake, s."""
MAX_MESSAGE_BYTES = 4096
"""Largest message from a page."""
PAGE_QUEUE = (30, 4 << 20)
"""Most messages and bytes that wait for one page."""
PARTING_S = 0.3
"""Time for the last message to a reader that gives way, s."""
DISPLACED = '{"k":"displaced"}'
"""Last message to a page that gives way."""


class _Counted(ServerConnection):
    """Connection that counts as a stranger's from its first byte, and until it has shown its right
    to a socket."""

    server_of_page: "PageServer"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        strangers = self.server_of_page.strangers
        strangers[self] = None
        if len(strangers) > MOST_STRANGERS:
            oldest = next(iter(strangers))
            del strangers[oldest]
            oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.server_of_page.strangers.pop(self, None)
        self.server_of_page.admitted.discard(self)
        super().connection_lost(exc)


class PageServer(ABC):
    """Serves the files of a page, and opens sockets for those who have the right to one."""

    def __init__(self, token: str, names: Iterable[str], assets: dict[str, Asset]) -> None:
        """``names``: further host names of this computer."""
        name = sockets.gethostname().lower()
        self._access = Access(token, {name, f"{name.partition('.')[0]}.local", *names})
        self._assets = assets
        self.strangers: dict[ServerConnection, None] = {}
        """Connections without a right to a socket so far, half-open ones included, the oldest
        first."""
        self.admitted: set[ServerConnection] = set()
        """Connections with a socket."""

    @abstractmethod
    async def serve(self, socket: ServerConnection) -> None:
        """Serve one open socket."""

    @abstractmethod
    def make_room(self, asked: str) -> bool:
        """Close a socket for a new one, which offers the subprotocols ``asked``; return False if
        none gives way."""

    def displace(self, reader: Connection, farewell: str | bytes = DISPLACED) -> None:
        """Take the place of a reader, which gets a last message."""
        self.admitted.discard(reader.socket)
        reader.put_first(farewell)
        asyncio.get_running_loop().call_later(PARTING_S, reader.abort)

    async def listen_as_child(
        self, stack: AsyncExitStack, host: str, port: int, **options: Any
    ) -> bool:
        """Listen until the stack ends, and report it to the parent process; return False if that
        is impossible. ``options`` as for :meth:`listening`."""
        try:
            bound = await stack.enter_async_context(self.listening(host, port, **options))
        except OSError as error:
            why = f"cannot listen on {host}:{port}: {error.strerror or error}"
            # Another process may release the port, and the network of the address may come up.
            later = error.errno in (errno.EADDRINUSE, errno.EADDRNOTAVAIL)
            report(ChildReport(state="failed", detail=why, passing=later))
            return False
        report(ChildReport(state="listening", port=bound))
        return True

    @asynccontextmanager
    async def listening(self, host: str, port: int, **options: Any) -> AsyncIterator[int]:
        """Listen at an address, and yield its port. ``options``: those of the WebSocket server.
        Raises OSError."""
        listener = await serve(
            self.serve,
            host,
            port,
            backlog=ACCEPTS,
            process_request=self.answer,
            create_connection=type("Counted", (_Counted,), {"server_of_page": self}),
            compression=None,
            open_timeout=GREETING_S,
            close_timeout=1.0,
            ping_interval=5.0,
            ping_timeout=10.0,
            max_queue=16,
            write_limit=32 << 10,
            server_header=None,
            **options,
        )
        for each in listener.sockets:
            # asyncio takes one number for both; the kernel may keep more connections than are
            # accepted at once.
            with sockets.socket(fileno=os.dup(each.fileno())) as listening:
                listening.listen(BACKLOG)
        async with listener:
            yield next(iter(listener.sockets)).getsockname()[1]

    def answer(self, connection: ServerConnection, request: Request) -> Response | None:
        """Return a file of the page, or None to open a socket."""
        try:
            host, origin = request.headers.get("Host"), request.headers.get("Origin")
            upgrade = request.headers.get("Upgrade", "")
            asked = request.headers.get("Sec-WebSocket-Protocol", "")
            bearer = request.headers.get("Authorization", "")
        except MultipleValuesError:
            return refuse(HTTPStatus.BAD_REQUEST, "duplicate header")
        if host is None or not self._access.ours(host):
            return refuse(
                HTTPStatus.MISDIRECTED_REQUEST,
                "unknown host name: use the computer's address, or add the name to view.names",
            )
        url = urlsplit(request.path)
        if upgrade.lower() == "websocket":
            token = _token(url.query) or bearer.removeprefix("Bearer ")
            return self.refusal(url.path, token, host, origin, asked) or self._admit(
                connection, asked
            )
        if url.path == "/access":
            # Return a normal answer, because a browser would log an error status in its console.
            known = self._access.knows(bearer.removeprefix("Bearer "))
            return _respond(
                HTTPStatus.OK,
                headers(host, "application/json"),
                b'{"known":%s}' % (b"true" if known else b"false"),
            )
        asset = self._assets.get(url.path)
        if asset is None:
            return refuse(HTTPStatus.NOT_FOUND, "not found")
        return _respond(HTTPStatus.OK, headers(host, asset.media_type), asset.body)

    def refusal(
        self, path: str, token: str, host: str, origin: str | None, asked: str
    ) -> Response | None:
        """Return why a client has no right to a socket; None if it has. ``asked``: the subprotocols
        that it offers."""
        if path != "/socket" or not self._access.same_site(origin, host):
            return refuse(HTTPStatus.FORBIDDEN, "only this server's own page may open this socket")
        if not self._access.knows(token):
            return refuse(HTTPStatus.UNAUTHORIZED, "token required")
        return None

    def _admit(self, connection: ServerConnection, asked: str) -> Response | None:
        """Return None if there is room for one more socket, else the refusal."""
        if len(self.admitted) >= MOST_SOCKETS and not self.make_room(asked):
            return refuse(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"{MOST_SOCKETS} clients are connected already: close one",
            )
        self.strangers.pop(connection, None)
        self.admitted.add(connection)
        return None


def _token(query: str) -> str:
    try:
        return parse_qs(query, max_num_fields=8).get("token", [""])[0]
    except ValueError:
        return ""


def refuse(status: HTTPStatus, why: str) -> Response:
    """Return an answer of one line."""
    return _respond(status, [("Content-Type", "text/plain; charset=utf-8")], why.encode() + b"\n")


def _respond(status: HTTPStatus, pairs: list[tuple[str, str]], body: bytes) -> Response:
    fields = Headers([*pairs, ("Content-Length", str(len(body))), ("Connection", "close")])
    return Response(status.value, status.phrase, fields, body)


def note_message(text: str) -> str:
    """Return the message that shows a text on a page."""
    return encoded({"k": "note", "text": text})


def encoded(message: dict[str, Any]) -> str:
    """Return a message to a page."""
    return msgspec.json.encode(message).decode()


def run_child(run: Callable[[], Coroutine[Any, Any, None]]) -> int:
    """Run the process of a page, at low priority; return its exit status."""
    be_modest()
    # Bad requests of strangers must not clutter the driver's terminal.
    logging.getLogger("websockets").setLevel(logging.CRITICAL)
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    asyncio.run(run())
    return 0
