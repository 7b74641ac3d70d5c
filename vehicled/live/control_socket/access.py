"""Access of programs to a server: listen addresses, the token, the first line."""

import os
import secrets
import socket
from hmac import compare_digest
from pathlib import Path

from msgspec import Struct

from vehicled.core.errors import SetupError
from vehicled.live.control_socket.protocol import (
    HelloRequest,
    RequestError,
    parse,
    version_refusal,
)
from vehicled.live.control_socket.socket_path import MAX_PATH, answers
from vehicled.live.view.access import is_loopback

TOKEN_BYTES = 16
LEAST_TOKEN, MOST_TOKEN = 16, 128
HELLO_TIMEOUT_S = 5.0
"""Longest wait for the first line of a connection, s."""
FORMS = "tcp:127.0.0.1:PORT or unix:PATH"


class ServerAddress(Struct, frozen=True):
    """Address at which programs connect: a host and a port, or a path."""

    host: str = ""
    port: int = 0
    path: str = ""

    @classmethod
    def of(cls, text: str) -> "ServerAddress":
        """Read ``tcp:HOST:PORT`` or ``unix:PATH``. Raises :class:`SetupError`."""
        scheme, _, rest = text.partition(":")
        if scheme == "unix" and rest and len(os.fsencode(rest)) <= MAX_PATH:
            return cls(path=rest)
        host, _, port = rest.rpartition(":")
        if scheme != "tcp" or not (port.isdecimal() and port.isascii() and len(port) < 6):
            raise SetupError(f"--listen {text!r}: use {FORMS}")
        if not is_loopback(host.strip("[]")) or int(port) > 65_535:
            raise SetupError(
                f"--listen {text!r}: only this computer may connect, because the connection is "
                f"not encrypted: use {FORMS}; from another computer, ssh -L PORT:127.0.0.1:PORT"
            )
        # One address: the name may stand for two.
        return cls("127.0.0.1" if host == "localhost" else host.strip("[]"), int(port))

    def listen(self) -> socket.socket:
        """Return a socket that listens here. Raises :class:`SetupError`."""
        try:
            return self._unix() if self.path else self._tcp()
        except OSError as error:
            raise self.taken(error) from None

    def taken(self, error: OSError) -> SetupError:
        """Return the error for an address at which nobody can listen now."""
        found = SetupError(f"cannot listen on {self}: {error.strerror or error}")
        found.passing = True
        return found

    def _tcp(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        listener = socket.socket(family)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((self.host, self.port))
            listener.listen()
        except OSError:
            listener.close()
            raise
        return listener

    def _unix(self) -> socket.socket:
        path = Path(self.path)
        if path.is_socket() and not answers(path):
            path.unlink()
        listener = socket.socket(socket.AF_UNIX)
        try:
            listener.bind(self.path)
            path.chmod(0o600)
            listener.listen()
        except OSError:
            listener.close()
            raise
        return listener

    def of_socket(self, listener: socket.socket) -> "ServerAddress":
        """Return this address with the port that the system has chosen, if it was 0."""
        return self if self.path else ServerAddress(self.host, listener.getsockname()[1])

    def __str__(self) -> str:
        if self.path:
            return f"unix:{self.path}"
        return (
            f"tcp:[{self.host}]:{self.port}" if ":" in self.host else f"tcp:{self.host}:{self.port}"
        )


def token_in(file: str) -> str:
    """Return the token of a file, which is made with a new one if there is none; a new one without
    a file. Raises :class:`SetupError`."""
    new = secrets.token_urlsafe(TOKEN_BYTES)
    if not file:
        return new
    path = Path(file).expanduser()
    try:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            token = path.read_text(encoding="utf-8").strip()
        else:
            with os.fdopen(descriptor, "w") as made:
                made.write(new + "\n")
            token = new
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise SetupError(f"--token-file {file}: {reason}") from None
    if not (
        LEAST_TOKEN <= len(token) <= MOST_TOKEN
        and token.isascii()
        and token.isprintable()
        and " " not in token
    ):
        raise SetupError(
            f"--token-file {file}: the token must be one line of {LEAST_TOKEN} to {MOST_TOKEN} "
            "letters and digits"
        )
    return token


def hello_refusal(line: bytes, token: str) -> str:
    """Return why the first line of a connection is refused; empty if it is right. Without a
    ``token`` none is needed."""
    try:
        request = parse(line)
    except RequestError:
        request = None
    if not isinstance(request, HelloRequest):
        return 'begin with {"do": "hello", "version": 1, "token": "..."}'
    if token and not compare_digest(request.token.encode("utf-8", "replace"), token.encode()):
        return (
            "wrong token: the server prints it when it starts, and keeps it in the file of "
            "--token-file"
        )
    return version_refusal(request.version)
