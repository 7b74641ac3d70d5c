"""Relay from a TCP port of this computer to the control socket, for programs that cannot open a
Unix socket.

It is a process of its own and changes nothing in the daemon. A connection begins with a hello that
has the token; what follows passes unchanged. For the daemon all its connections are one program.
"""

import socket
from collections.abc import Callable
from pathlib import Path

import anyio
from anyio.abc import ByteReceiveStream, SocketAttribute, SocketStream

from vehicled.core.errors import UserError
from vehicled.live.control_socket.access import HELLO_TIMEOUT_S, ServerAddress, hello_refusal
from vehicled.live.control_socket.protocol import MAX_LINE, VERSION, HelloRequest, encode, farewell
from vehicled.live.control_socket.socket_path import START

MAX_CONNECTIONS = 64
READ_BYTES = 1 << 14
WRITE_TIMEOUT_S = 5.0
"""Timeout for a side that does not read, s; the connection then ends."""
CLOSE_TIMEOUT_S = 1.0
"""Time for the answers to a program that has sent its last request, s."""


class Relay:
    """Serves one port until cancelled."""

    def __init__(self, address: ServerAddress, token: str, find: Callable[[], Path]) -> None:
        """``find`` returns the socket of the daemon, anew for each connection."""
        self._address = address
        self._token = token
        self._find = find
        self._connections = 0

    async def serve(self, report: Callable[[ServerAddress], None]) -> None:
        """Report the address, and serve each connection in its own task. Raises
        :class:`SetupError`."""
        try:
            listener = await anyio.create_tcp_listener(
                local_host=self._address.host, local_port=self._address.port
            )
        except OSError as error:
            raise self._address.taken(error) from None
        async with listener:
            port = listener.extra(SocketAttribute.local_port)  # noqa: S610 - an attribute of anyio
            report(ServerAddress(self._address.host, port))
            await listener.serve(self._connected)

    async def _connected(self, program: SocketStream) -> None:
        if self._connections >= MAX_CONNECTIONS:
            await _leave(program, f"{MAX_CONNECTIONS} programs are connected already: close one")
            return
        self._connections += 1
        try:
            async with program:
                await self._serve(program)
        except* (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # One of the two sides is gone, or does not read.
        finally:
            self._connections -= 1

    async def _serve(self, program: SocketStream) -> None:
        raw = program.extra(SocketAttribute.raw_socket)  # noqa: S610 - an attribute of anyio
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        line, rest = await _first_line(program)
        if refused := hello_refusal(line, self._token):
            await _leave(program, refused)
            return
        try:
            daemon = await anyio.connect_unix(str(self._find()))
        except UserError as error:
            await _leave(program, str(error))
            return
        except OSError as error:
            await _leave(program, f"no daemon answers ({error.strerror or error}); {START}")
            return
        async with daemon:
            await daemon.send(encode(HelloRequest(VERSION)) + rest)
            async with anyio.create_task_group() as group:

                async def ask() -> None:
                    await _pass_on(program, daemon)
                    await daemon.send_eof()
                    await anyio.sleep(CLOSE_TIMEOUT_S)
                    group.cancel_scope.cancel()

                group.start_soon(ask)
                await _pass_on(daemon, program)
                group.cancel_scope.cancel()


async def _first_line(program: ByteReceiveStream) -> tuple[bytes, bytes]:
    """Return the first line and what came behind it; an empty line if none comes in time."""
    data = b""
    with anyio.move_on_after(HELLO_TIMEOUT_S):
        while b"\n" not in data and len(data) <= MAX_LINE:
            try:
                data += await program.receive(READ_BYTES)
            except anyio.EndOfStream:
                break
    line, end, rest = data.partition(b"\n")
    return (line, rest) if end else (b"", b"")


async def _pass_on(source: SocketStream, target: SocketStream) -> None:
    """Pass on until the source ends or breaks. At most one read waits here; the rest stays in the
    kernel, so that the daemon's limits apply."""
    try:
        while True:
            data = await source.receive(READ_BYTES)
            with anyio.fail_after(WRITE_TIMEOUT_S):
                await target.send(data)
    except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass


async def _leave(program: SocketStream, why: str) -> None:
    with anyio.move_on_after(CLOSE_TIMEOUT_S):
        await program.send(farewell(why))
    await program.aclose()
