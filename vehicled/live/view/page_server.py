"""Server of a page: its files, who may open a socket, and that there is always room for one
more."""

import asyncio
import errno
import os
import socket as sockets
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from socket import gethostname
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
from websockets.asyncio.server import Server as Listening
from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers, MultipleValuesError
from websockets.http11 import Request, Response

from vehicled.live.bridges.child import report
from vehicled.live.bridges.frames import ChildReport
from vehicled.live.view.access import Access
from vehicled.live.view.assets import Asset, headers
from vehicled.live.view.connection import Connection

MOST_SOCKETS = 8
"""Largest number of sockets, pages and Foxglove together."""
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
PARTING_S = 0.3
"""Time for the last message to a reader that gives way, s."""
MAX_MESSAGE_BYTES = 4096
"""Largest message from a page."""
MAX_SUBSCRIBE_BYTES = 64 << 10
DISPLACED = '{"k":"displaced"}'


class _Counted(ServerConnection):
    """Connection that counts as a stranger's from its first byte, and until it has shown its right
    to a socket."""

    view: "PageServer"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.view.strangers[self] = None
        if len(self.view.strangers) > MOST_STRANGERS:
            oldest = next(iter(self.view.strangers))
            del self.view.strangers[oldest]
            oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.view.strangers.pop(self, None)
        self.view.admitted.discard(self)
        super().connection_lost(exc)


class PageServer(ABC):
    """Server of one page. A subclass serves its sockets."""

    def __init__(self, token: str, names: Iterable[str], assets: Mapping[str, Asset]) -> None:
        """``token``: what clients must present, empty if none is required; ``names``: further host
        names of the page."""
        name = gethostname().lower()
        self.access = Access(token, {name, f"{name.partition('.')[0]}.local", *names})
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
    def give_way(self, asked: str) -> Connection | None:
        """Return the reader that gives way to one more, with its last message, and None if none
        does. ``asked``: subprotocols that the new one asks for."""

    async def listen(self, host: str, port: int, **options: Any) -> Listening | None:
        """Listen, and report it to the parent process; None if that is impossible. ``options``:
        further ones of the listener."""
        try:
            listener = await serve(
                self.serve,
                host,
                port,
                backlog=ACCEPTS,
                process_request=self.answer,
                create_connection=type("Counted", (_Counted,), {"view": self}),
                compression=None,
                open_timeout=GREETING_S,
                close_timeout=1.0,
                ping_interval=5.0,
                ping_timeout=10.0,
                max_size=MAX_SUBSCRIBE_BYTES,
                max_queue=16,
                write_limit=32 << 10,
                server_header=None,
                **options,
            )
        except OSError as error:
            why = f"cannot listen on {host}:{port}: {error.strerror or error}"
            # Another process may release the port, and the network of the address may come up.
            later = error.errno in (errno.EADDRINUSE, errno.EADDRNOTAVAIL)
            report(ChildReport(state="failed", detail=why, passing=later))
            return None
        for each in listener.sockets:
            # asyncio takes one number for both; the kernel may keep more connections than are
            # accepted at once.
            with sockets.socket(fileno=os.dup(each.fileno())) as listening:
                listening.listen(BACKLOG)
        found = next(iter(listener.sockets)).getsockname()[1]
        report(ChildReport(state="listening", port=found))
        return listener

    def answer(self, connection: ServerConnection, request: Request) -> Response | None:
        """Return a file of the page, or None to open a socket."""
        try:
            host, origin = request.headers.get("Host"), request.headers.get("Origin")
            upgrade = request.headers.get("Upgrade", "")
            asked = request.headers.get("Sec-WebSocket-Protocol", "")
            bearer = request.headers.get("Authorization", "")
        except MultipleValuesError:
            return refuse(HTTPStatus.BAD_REQUEST, "duplicate header")
        if host is None or not self.access.ours(host):
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
            known = self.access.knows(bearer.removeprefix("Bearer "))
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
        """Return why a client has no right to a socket; None if it has. ``asked``: subprotocols
        that it asks for."""
        del asked
        if path != "/socket" or not self.access.same_site(origin, host):
            return refuse(HTTPStatus.FORBIDDEN, "only this server's own page may open this socket")
        if not self.access.knows(token):
            return refuse(HTTPStatus.UNAUTHORIZED, "token required")
        return None

    def _admit(self, connection: ServerConnection, asked: str) -> Response | None:
        """Return None if there is room for one more socket, else the refusal."""
        if len(self.admitted) >= MOST_SOCKETS:
            oldest = self.give_way(asked)
            if oldest is None:
                return refuse(
                    HTTPStatus.SERVICE_UNAVAILABLE,
                    f"{MOST_SOCKETS} clients are connected already: close one",
                )
            self.admitted.discard(oldest.socket)
            asyncio.get_running_loop().call_later(PARTING_S, oldest.abort)
        self.strangers.pop(connection, None)
        self.admitted.add(connection)
        return None


def _token(query: str) -> str:
    try:
        return parse_qs(query, max_num_fields=8).get("token", [""])[0]
    except ValueError:
        return ""


def refuse(status: HTTPStatus, why: str) -> Response:
    """Return a refusal."""
    return _respond(status, [("Content-Type", "text/plain; charset=utf-8")], why.encode() + b"\n")


def _respond(status: HTTPStatus, pairs: list[tuple[str, str]], body: bytes) -> Response:
    fields = Headers([*pairs, ("Content-Length", str(len(body))), ("Connection", "close")])
    return Response(status.value, status.phrase, fields, body)


def note_of(text: str) -> str:
    """Return a note to one page."""
    return text_of({"k": "note", "text": text})


def text_of(message: dict[str, Any]) -> str:
    """Return a message to a page."""
    return msgspec.json.encode(message).decode()
