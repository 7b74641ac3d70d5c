"""Blocking client of the control socket, for terminal commands."""

import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from vehicled.core.errors import UserError
from vehicled.core.plain_text import printable
from vehicled.live.control_socket.protocol import Request, StatusRequest, WatchRequest, encode
from vehicled.live.control_socket.socket_path import START, SocketPathError

TIMEOUT_S = 5.0
PLAN_TIMEOUT_S = 20.0
"""Timeout for requests that need a path, s: others may come first."""
HURRIED_BYTES = 2048
"""Send buffer after :meth:`Client.hurry`, bytes. The kernel doubles it and counts its own overhead:
room for a few short lines."""


class ControlError(UserError):
    """The daemon refused a request or does not answer; the text gives the reason."""


class HungUpError(ControlError):
    """The daemon closed the connection; the text has its reason if it gave one."""


class NoAnswerError(ControlError):
    """The daemon did not answer in time; its answer may still come, so the connection is of no more
    use."""


UNEXPLAINED = (
    "the daemon closed the connection without giving a reason: it was killed, or this program "
    "did not read its answers for a second; 'vehicled status' says whether it runs"
)


def _why(error: Exception, path: Path) -> str:
    if isinstance(error, FileNotFoundError):
        return f"there is no such socket; {START}"
    if isinstance(error, ConnectionRefusedError):
        if not path.is_socket():
            return "this file is no socket; give the name of a profile, or a daemon's .sock file"
        return (
            f"the socket was left over by a daemon that has ended; {START}: the same profile's "
            "daemon replaces it"
        )
    return getattr(error, "strerror", None) or str(error)


class Client:
    """One connection to a daemon. Raises :class:`ControlError` if no daemon answers."""

    def __init__(self, path: Path, timeout_s: float = TIMEOUT_S) -> None:
        """``timeout_s``: longest wait for the daemon."""
        self._timeout_s = timeout_s
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            # The kernel's own timeout, because Python's would not wait for room where many clients
            # connect at once.
            limit = struct.pack("@ll", *divmod(round(timeout_s * 1e6), 1_000_000))
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
            self._socket.connect(str(path))
            self._socket.settimeout(timeout_s)
        except PermissionError:
            self._socket.close()
            raise ControlError(
                f"{path}: no permission to use this daemon's socket; ask an administrator to "
                "add you to the group vehicled"
            ) from None
        except BlockingIOError:
            self._socket.close()
            raise ControlError(f"{path}: too many programs connect to the daemon at once") from None
        except (OSError, ValueError) as error:
            self._socket.close()
            raise SocketPathError(f"no daemon answers on {path}: {_why(error, path)}") from None
        self._buffer = b""

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, request: Request | None = None, **fields: Any) -> None:
        """Send a request, or the line of these fields (``do="setpoint", speed=1.0``), without
        waiting for an answer."""
        try:
            self._socket.sendall(
                msgspec.json.encode(fields) + b"\n" if request is None else encode(request)
            )
        except OSError as error:
            raise HungUpError(
                f"the daemon closed the connection: {error.strerror or error}"
            ) from None

    def fileno(self) -> int:
        """Return the file descriptor, for select."""
        return self._socket.fileno()

    def hurry(self) -> None:
        """Limit the send buffer, so that a daemon that was frozen never finds old readings in
        it."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, HURRIED_BYTES)

    def offer(self, request: Request) -> bool:
        """Send a request at once or not at all. Return False if the daemon has not yet read the
        earlier ones."""
        data = encode(request)
        self._socket.settimeout(0.0)
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            return False
        except OSError as error:
            raise HungUpError(
                f"the daemon closed the connection: {error.strerror or error}"
            ) from None
        finally:
            self._socket.settimeout(self._timeout_s)
        if sent < len(data):
            raise ControlError("the daemon accepted only a part of a request: connect again")
        return True

    def arrived(self) -> list[dict[str, Any]]:
        """Return the answers received so far, without waiting. Raises :class:`ControlError` if the
        daemon closed the connection."""
        self._socket.settimeout(0.0)
        try:
            data = self._socket.recv(1 << 16)
            if not data:
                raise HungUpError(UNEXPLAINED)
            self._buffer += data
        except BlockingIOError:
            pass
        except OSError as error:
            raise HungUpError(
                f"the daemon closed the connection: {error.strerror or error}"
            ) from None
        finally:
            self._socket.settimeout(self._timeout_s)
        *lines, self._buffer = self._buffer.split(b"\n")
        replies = [_decoded(line) for line in lines]
        if replies and replies[-1].get("ended"):
            raise HungUpError(str(replies[-1].get("why", UNEXPLAINED)))
        return replies

    def ask(self, request: Request | None = None, **fields: Any) -> dict[str, Any]:
        """Send a request, or the fields of its line, and return its answer. Raises
        :class:`ControlError` if it is refused."""
        try:
            self.send(request, **fields)
        except HungUpError:
            pass  # Its last answer gives the reason.
        return self.receive()

    def receive(self) -> dict[str, Any]:
        """Wait for the next answer. Raises :class:`ControlError`."""
        while b"\n" not in self._buffer:
            try:
                data = self._socket.recv(1 << 16)
            except TimeoutError:
                raise NoAnswerError(
                    f"no answer from the daemon within {self._timeout_s:.0f} s: its loop may "
                    "be frozen"
                ) from None
            except OSError as error:
                raise HungUpError(
                    f"the daemon closed the connection: {error.strerror or error}"
                ) from None
            if not data:
                raise HungUpError(UNEXPLAINED)
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        reply = _decoded(line)
        if reply.get("ended"):
            raise HungUpError(str(reply.get("why", UNEXPLAINED)))
        if not reply.get("ok"):
            raise ControlError(str(reply.get("why", "refused without a reason")))
        return reply

    def status(self) -> dict[str, Any]:
        """Return the state of the run."""
        found: dict[str, Any] = self.ask(StatusRequest())["status"]
        return found

    def watch(self, rate_hz: float) -> Iterator[dict[str, Any]]:
        """Iterate over the state of the run at a rate."""
        self.send(WatchRequest(rate_hz))
        while True:
            status: dict[str, Any] = self.receive()["status"]
            yield status


def _shown(value: Any) -> Any:
    """Return an answer with all its texts printable: a part of them comes from other clients and
    from devices."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {key: _shown(each) for key, each in value.items()}
    return [_shown(each) for each in value] if isinstance(value, list) else value


def _decoded(line: bytes) -> dict[str, Any]:
    try:
        reply: dict[str, Any] = _shown(msgspec.json.decode(line, type=dict[str, Any]))
    except (msgspec.DecodeError, RecursionError):
        raise ControlError("the program that answers on this socket is not vehicled") from None
    return reply
