"""The other side of the control socket: blocking, for commands of the terminal."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from vehicled.control_socket.place import PlaceError

TIMEOUT_S = 5.0
HURRIED_BYTES = 2048
"""Of the send buffer of :meth:`Client.hurry`. The kernel doubles it and counts its own overhead: a handful of short lines."""


class ControlError(Exception):
    """The daemon refused, or does not answer; the text says why."""


class HungUpError(ControlError):
    """The daemon closed the connection: its run is over."""


class Client:
    """One connection. Raises :class:`ControlError` for a daemon that is not there."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(TIMEOUT_S)
        try:
            self._socket.connect(str(path))
        except PermissionError:
            self._socket.close()
            raise ControlError(f"{path}: you may not talk to this daemon; ask to be put into the group vehicled") from None
        except (OSError, ValueError) as error:
            self._socket.close()
            raise PlaceError(f"no daemon answers on {path}: {getattr(error, 'strerror', None) or error}") from None
        self._buffer = b""

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, **request: Any) -> None:
        """A request that is not answered."""
        try:
            self._socket.sendall(msgspec.json.encode(request) + b"\n")
        except OSError as error:
            raise HungUpError(f"the daemon hung up: {error.strerror or error}") from None

    def fileno(self) -> int:
        """For those who wait for several things."""
        return self._socket.fileno()

    def hurry(self) -> None:
        """Let no more than a few requests lie unread: what a frozen daemon finds when it wakes up must not be old."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, HURRIED_BYTES)

    def offer(self, **request: Any) -> bool:
        """A request that is not answered, at once or not at all: False when the daemon has not read those before it."""
        data = msgspec.json.encode(request) + b"\n"
        self._socket.settimeout(0.0)
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            return False
        except OSError as error:
            raise HungUpError(f"the daemon hung up: {error.strerror or error}") from None
        finally:
            self._socket.settimeout(TIMEOUT_S)
        if sent < len(data):
            raise ControlError("the daemon took half a request")
        return True

    def arrived(self) -> list[dict[str, Any]]:
        """Answers that are here, refusals among them, without waiting. Raises :class:`ControlError` when the daemon hung up."""
        self._socket.settimeout(0.0)
        try:
            data = self._socket.recv(1 << 16)
            if not data:
                raise HungUpError("the daemon hung up: its run is over")
            self._buffer += data
        except BlockingIOError:
            pass
        except OSError as error:
            raise HungUpError(f"the daemon hung up: {error.strerror or error}") from None
        finally:
            self._socket.settimeout(TIMEOUT_S)
        *lines, self._buffer = self._buffer.split(b"\n")
        return [_decoded(line) for line in lines]

    def ask(self, **request: Any) -> dict[str, Any]:
        """A request and its answer. Raises :class:`ControlError` when it is refused."""
        try:
            self.send(**request)
        except HungUpError:
            pass  # What it said before it hung up is the reason.
        return self.receive()

    def receive(self) -> dict[str, Any]:
        """The next answer. Raises :class:`ControlError`."""
        while b"\n" not in self._buffer:
            try:
                data = self._socket.recv(1 << 16)
            except TimeoutError:
                raise ControlError(f"the daemon does not answer within {TIMEOUT_S:.0f} s: its loop may be frozen") from None
            except OSError as error:
                raise HungUpError(f"the daemon hung up: {error.strerror or error}") from None
            if not data:
                raise HungUpError("the daemon hung up: its run is over")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        reply = _decoded(line)
        if not reply.get("ok"):
            raise ControlError(str(reply.get("why", "refused without a reason")))
        return reply

    def watch(self, rate_hz: float) -> Iterator[dict[str, Any]]:
        """The state again and again."""
        self.send(do="watch", rate_hz=rate_hz)
        while True:
            status: dict[str, Any] = self.receive()["status"]
            yield status


def _decoded(line: bytes) -> dict[str, Any]:
    try:
        reply: dict[str, Any] = msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.DecodeError:
        raise ControlError("what answers there is no daemon of ours") from None
    return reply
