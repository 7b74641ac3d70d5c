"""Simulator side of the link: addresses, one connection, greeting. Blocking; used before real time
begins.

A run serves one daemon. Errors: :class:`ListenError` (the address is unusable) and
:class:`vehicled.core.link.LinkError` (the peer broke the protocol or vanished).
"""

import errno
import os
import socket
import stat
from contextlib import suppress
from pathlib import Path

from vehicled.core.errors import UserError
from vehicled.core.link import (
    Frame,
    Hello,
    LinkDecoder,
    LinkError,
    LinkFrameKind,
    decode_hello,
    encode,
    encode_hello,
)

START_NS = 1_000_000_000
"""Start time of a lockstep run, ns. Not 0, so that a forgotten stamp stands out."""
_RECEIVE_BYTES = 1 << 18


class ListenError(UserError):
    """The address to listen on is malformed, taken or not ours. The message names it and says what
    to do."""


class Listener:
    """Accepts one daemon at ``fd:N`` (an inherited connected socket), ``unix:PATH`` or
    ``tcp:HOST:PORT``.

    A context manager: leaving it closes the socket and removes the path. Raises
    :class:`ListenError`.
    """

    def __init__(self, address: str) -> None:
        scheme, _, rest = address.partition(":")
        self._path: Path | None = None
        self.inherited = scheme == "fd"
        """True if a daemon started this process as its child."""
        try:
            if scheme == "fd" and rest.isdecimal():
                self._socket = socket.socket(fileno=int(rest))
                self.address = address
            elif scheme == "unix" and rest:
                self._socket = _unix_server(rest)
                self._path = Path(rest)
                self.address = address
            elif scheme == "tcp" and _is_host_and_port(rest):
                host, _, port = rest.rpartition(":")
                host = host.strip("[]")
                family = socket.AF_INET6 if ":" in host else socket.AF_INET
                self._socket = socket.create_server((host, int(port)), family=family, backlog=1)
                self.address = f"tcp:{rest.rpartition(':')[0]}:{self._socket.getsockname()[1]}"
            else:
                raise ListenError(
                    f"cannot listen on {address!r}: use unix:PATH, tcp:HOST:PORT or fd:N"
                )
        except (OSError, OverflowError) as error:
            reason = (
                os.strerror(error.errno)
                if isinstance(error, OSError) and error.errno
                else str(error)
            )
            raise ListenError(f"cannot listen on {address!r}: {reason}") from error

    def accept(self) -> socket.socket:
        """Wait for the daemon and return its connection. Closes the listening socket at once: one
        run serves one daemon."""
        if self.inherited:
            return self._socket
        connection, _ = self._socket.accept()
        self.close()
        if connection.family in (socket.AF_INET, socket.AF_INET6):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _notice_a_dead_host(connection)
        return connection

    def close(self) -> None:
        """Close the listening socket and remove its path. Idempotent."""
        self._socket.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)
            self._path = None

    def __enter__(self) -> "Listener":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _is_host_and_port(text: str) -> bool:
    host, _, port = text.rpartition(":")
    return bool(host) and port.isdecimal() and len(port) <= 5 and int(port) <= 65535


def _unix_server(path: str) -> socket.socket:
    """Return a socket listening at ``path``. Replaces the socket of a killed simulator, and no
    other file."""
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            raise ListenError(
                f"cannot listen on 'unix:{path}': a file of that name exists; choose another"
            )
        # A probe of the wrong socket type is refused by a live listener without using up the one
        # connection it accepts.
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
            if probe.connect_ex(path) != errno.ECONNREFUSED:
                raise ListenError(
                    f"cannot listen on 'unix:{path}': another process listens there; end it or "
                    "choose another path"
                )
        os.unlink(path)
    server = socket.socket(socket.AF_UNIX)
    try:
        server.bind(path)
        server.listen(1)
    except OSError:
        server.close()
        raise
    return server


def _notice_a_dead_host(connection: socket.socket) -> None:
    """Make the kernel end a TCP connection whose peer lost power or network: no end of stream
    arrives then."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", 5),
        ("TCP_KEEPINTVL", 2),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", 10_000),
    ):
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def boot_id() -> str:
    """Return the id of this machine's boot; equal ids mean a shared monotonic clock. Empty where
    the system has none."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


class Peer:
    """Daemon at the other end of the stream."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(True)
        self.socket = connection
        self._decoder = LinkDecoder()
        self._backlog: list[Frame] = []

    def greet(
        self,
        ports: list[str],
        identity: str,
        world: dict[str, str],
        urls: dict[str, str] | None = None,
    ) -> Hello:
        """Exchange greetings and return the daemon's (:mod:`vehicled.core.link`). Raises
        ``LinkError``."""
        hello = Hello(
            role="simulator",
            clock="lockstep",
            ports=ports,
            urls=urls or {},
            shared_clock=True,
            start_ns=START_NS,
            boot_id=boot_id(),
            identity=identity,
            world=world,
        )
        self.send(encode_hello(hello))
        while not self._backlog:
            self._backlog = self._read()
        kind, _, _, payload = self._backlog.pop(0)
        if kind is LinkFrameKind.BYE:
            raise LinkError(f"the daemon refused: {payload.decode(errors='replace')}")
        if kind is not LinkFrameKind.HELLO:
            raise LinkError(f"the daemon began with {kind.name} instead of its greeting")
        answer = decode_hello(payload)
        if answer.ports != ports:
            raise LinkError(
                f"the daemon answered with ports {', '.join(answer.ports)} instead of "
                f"{', '.join(ports)}"
            )
        if answer.clock not in ("lockstep", "wall"):
            raise LinkError(
                f'the daemon wants the clock "{answer.clock}"; this simulator has lockstep and wall'
            )
        return answer

    def receive(self) -> list[Frame]:
        """Return the frames of one blocking read; may be empty. Raises LinkError at the end of the
        stream."""
        if self._backlog:
            frames, self._backlog = self._backlog, []
            return frames
        return self._read()

    @property
    def has_backlog(self) -> bool:
        """True if frames were read that ``receive`` has not returned yet; the socket does not turn
        readable for them."""
        return bool(self._backlog)

    def send(self, data: bytes) -> None:
        """Send all of ``data``; blocks while the daemon does not read. Raises LinkError if it is
        gone."""
        try:
            self.socket.sendall(data)
        except OSError as error:
            # The daemon may say goodbye and close while we send; its last frames can still be read.
            while True:
                for kind, _, _, payload in self._read_last(error):
                    if kind is LinkFrameKind.BYE:
                        raise Goodbye(payload.decode(errors="replace")) from None

    def goodbye(self, reason: str) -> None:
        """Send the daemon the reason for the end, if it still listens. Never raises or blocks."""
        with suppress(OSError):
            self.socket.setblocking(False)
            self.socket.send(encode(LinkFrameKind.BYE, 0, 0, reason.encode()))

    def _read(self) -> list[Frame]:
        try:
            data = self.socket.recv(_RECEIVE_BYTES)
        except OSError as error:
            raise LinkError(f"the link to the daemon broke: {error.strerror or error}") from error
        if not data:
            raise LinkError("the daemon closed the link without a goodbye")
        return self._decoder.feed(data)

    def _read_last(self, error: OSError) -> list[Frame]:
        if self._backlog:
            frames, self._backlog = self._backlog, []
            return frames
        try:
            self.socket.setblocking(False)
            data = self.socket.recv(_RECEIVE_BYTES)
        except OSError:
            data = b""
        if not data:
            raise LinkError(f"the link to the daemon broke: {error.strerror}") from error
        return self._decoder.feed(data)


class Goodbye(Exception):  # noqa: N818 - not an error: the orderly end of a run, raised from wherever it is read
    """The daemon said BYE. The argument is its reason."""
