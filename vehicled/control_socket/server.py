"""The daemon's side of the control socket, on either of anyio's backends. It can be flooded, but it cannot hold the loop."""

import grp
import os
import pwd
import socket
import struct
import time
from contextlib import suppress
from pathlib import Path

import anyio
from anyio.abc import SocketStream

from vehicled.control_socket.place import GROUP, PlaceError
from vehicled.control_socket.protocol import ACTIONS, MAX_LINE, Act, Ask, Beat, Follow, Hand, RequestError, answer, parse, refusal
from vehicled.messages import TeleopCommand
from vehicled.runtime.console import Console

MAX_CLIENTS = 8
REQUESTS_PER_S = 100.0
BURST = 50.0
WRITE_TIMEOUT_S = 1.0
"""A client that does not read its answers for so long is hung up on."""


class ControlServer:
    """Serves one socket until cancelled."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._clients = 0
        self.refused = 0
        """Lines that were no requests."""

    async def serve(self, console: Console) -> None:
        """Listen, and serve every client in a task of its own. Raises :class:`PlaceError` when another daemon has the socket."""
        _make_way(self._path)
        listener = await anyio.create_unix_listener(self._path, mode=0o660)
        with suppress(KeyError, PermissionError):
            # The group may ask; without such a group the owner alone may.
            os.chown(self._path, -1, grp.getgrnam(GROUP).gr_gid)
        try:
            async with listener:
                await listener.serve(lambda stream: self._serve_client(stream, console))
        finally:
            with suppress(OSError):
                self._path.unlink()

    async def _serve_client(self, stream: SocketStream, console: Console) -> None:
        async with stream:
            if self._clients >= MAX_CLIENTS:
                await _send(stream, refusal(f"{MAX_CLIENTS} clients are connected already"))
                return
            self._clients += 1
            try:
                await self._converse(stream, console, _who(stream))
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, TimeoutError):
                pass
            finally:
                self._clients -= 1

    async def _converse(self, stream: SocketStream, console: Console, who: str) -> None:
        buffer = b""
        tokens, before_s = BURST, time.monotonic()
        while True:
            buffer += await stream.receive(MAX_LINE)
            *lines, buffer = buffer.split(b"\n")
            if len(buffer) > MAX_LINE:
                await _send(stream, refusal(f"a line may have {MAX_LINE} bytes"))
                return
            for line in lines:
                now_s = time.monotonic()
                tokens, before_s = min(BURST, tokens + (now_s - before_s) * REQUESTS_PER_S), now_s
                if tokens < 1.0:
                    # Waiting slows this client alone; what it sends ahead stays in the kernel.
                    await anyio.sleep((1.0 - tokens) / REQUESTS_PER_S)
                    tokens = 1.0
                tokens -= 1.0
                if line.strip():
                    await self._serve_line(stream, console, who, line)

    async def _serve_line(self, stream: SocketStream, console: Console, who: str, line: bytes) -> None:
        try:
            request = parse(line)
        except RequestError as error:
            self.refused += 1
            await _send(stream, refusal(str(error)))
            return
        now_ns = time.monotonic_ns()
        match request:
            case Ask():
                await _send(stream, answer(status=console.status(now_ns)))
            case Act():
                console.request(ACTIONS[request.action], request.origin or who, now_ns)
                await _send(stream, answer(mode=console.mode.name))
            case Hand():
                reading = TeleopCommand(
                    now_ns, now_ns, request.steering, request.throttle, request.brake, request.deadman, request.origin,
                    request.sequence,
                )  # fmt: skip
                console.hand(reading, now_ns)
            case Beat():
                console.heartbeat(request.origin, now_ns)
            case Follow():
                while True:
                    await _send(stream, answer(status=console.status(time.monotonic_ns())))
                    await anyio.sleep(1.0 / request.rate_hz)


async def _send(stream: SocketStream, data: bytes) -> None:
    with anyio.fail_after(WRITE_TIMEOUT_S):
        await stream.send(data)


def _who(stream: SocketStream) -> str:
    """The user at the other end, as the kernel knows it."""
    raw = stream.extra(anyio.abc.SocketAttribute.raw_socket, None)  # noqa: S610  (anyio's, not a database's)
    if raw is None or not hasattr(socket, "SO_PEERCRED"):
        return "control socket"
    try:
        _, uid, _ = struct.unpack("3i", raw.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return f"{pwd.getpwuid(uid).pw_name} on the control socket"
    except (OSError, KeyError):
        return "control socket"


def _make_way(path: Path) -> None:
    """Remove the socket of a daemon that died. Raises :class:`PlaceError` when one still answers on it."""
    if not path.exists():
        return
    probe = socket.socket(socket.AF_UNIX)
    try:
        probe.settimeout(0.2)
        probe.connect(str(path))
    except OSError:
        with suppress(OSError):
            path.unlink()
    else:
        raise PlaceError(f"a daemon serves {path} already: stop it, or run under another profile name")
    finally:
        probe.close()
