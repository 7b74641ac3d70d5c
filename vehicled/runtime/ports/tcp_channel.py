"""TCP and TLS channels, for serial servers and correction casters.

The socket is plain and non-blocking, not an anyio stream: a stream can only send by waiting, and
the last frame must be sent when no loop runs.
"""

import os
import socket
import ssl
import time
from contextlib import suppress
from functools import partial

import anyio
import anyio.to_thread

from vehicled.runtime.ports.address import TcpAddress, TlsAddress
from vehicled.runtime.ports.contract import ClosedError, Deliver, LostError, OpenError, PortCounts
from vehicled.runtime.ports.read_budget import ReadBudget
from vehicled.runtime.readable import while_readable

_FLUSH_BYTES = 1 << 20
"""Most unread bytes that are thrown away before closing."""
# Detect a vanished peer after 5 + 3 x 2 s when idle, and after 8 s without acknowledgement.
_KEEPALIVE = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 8_000}


class TcpChannel:
    """Connected socket."""

    retry_s: float | None = None
    owes = False

    def __init__(
        self, sock: socket.socket, detail: str, counts: PortCounts, bytes_per_s: float
    ) -> None:
        """Take ownership of ``sock``, which is connected and non-blocking. No more than
        ``bytes_per_s`` is read."""
        self.detail = detail
        self._sock = sock
        self._counts = counts
        self._budget = ReadBudget(bytes_per_s)

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._sock.fileno()

    async def receive(self, deliver: Deliver) -> None:
        """Deliver what arrives."""
        await while_readable(self._sock.fileno(), partial(self._drain, deliver))

    def write(self, data: bytes) -> int:
        """Write data; return the number of bytes that the kernel accepted."""
        try:
            return self._sock.send(data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise LostError(f"the connection is gone ({error.strerror})") from None

    async def change_baud(self, baud: int) -> None:
        """Do nothing: a network connection has no baud rate."""

    async def aclose(self, *, drain: bool) -> None:
        """Close. The kernel still sends what it accepted; without ``drain`` the connection is
        reset."""
        if drain:
            # Read first, because closing with unread data resets the connection and loses unsent
            # data.
            with suppress(OSError):
                for _ in range(16):
                    if not self._sock.recv(_FLUSH_BYTES // 16):
                        break
        else:
            with suppress(OSError):
                # struct linger: on, 0 s.
                self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self._sock.close()

    def _drain(self, deliver: Deliver) -> float | None:
        """Deliver one piece; return the pause before the next, None if nothing waits."""
        data = self._read(self._budget.allowance())
        if data is None:
            return None
        if not data:
            raise ClosedError("the other end closed the connection")
        deliver(data, time.monotonic_ns())
        pause_s = self._budget.spend(len(data))
        if pause_s:
            self._counts.throttled += 1
            return pause_s
        return 0.0 if self._more() else None

    def _read(self, size: int) -> bytes | None:
        """Return at most ``size`` bytes, none at the end of the stream, None if nothing waits.
        Raises :class:`LostError`."""
        try:
            return self._sock.recv(size)
        except BlockingIOError:
            return None
        except ConnectionResetError as error:
            raise ClosedError(f"the other end closed the connection ({error.strerror})") from None
        except OSError as error:
            raise LostError(f"the connection is gone ({error.strerror})") from None

    def _more(self) -> bool:
        """True if bytes wait for which the descriptor does not become readable."""
        return False


class TlsChannel(TcpChannel):
    """TLS session on a connected socket, after the handshake."""

    def __init__(
        self, sock: ssl.SSLSocket, detail: str, counts: PortCounts, bytes_per_s: float
    ) -> None:
        super().__init__(sock, detail, counts, bytes_per_s)
        self._tls = sock
        self._owed = b""

    def write(self, data: bytes) -> int:
        """Write data; return the number of bytes encrypted, all of which will be sent."""
        try:
            if self._owed and not self._settle():
                return 0
            return self._tls.send(data) if data else 0
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            # A TLS record was created and perhaps partly sent; it must be sent before any other.
            self._owed = data
            self.owes = True
            return len(data)
        except OSError as error:
            raise LostError(f"the connection is gone ({_text_of(error)})") from None

    def _settle(self) -> bool:
        try:
            self._owed = self._owed[self._tls.send(self._owed) :]
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            pass
        self.owes = bool(self._owed)
        return not self.owes

    def _read(self, size: int) -> bytes | None:
        try:
            return self._tls.recv(size)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None
        except OSError as error:
            raise LostError(f"the connection is gone ({_text_of(error)})") from None

    def _more(self) -> bool:
        return self._tls.pending() > 0


async def open_tcp(address: TcpAddress, counts: PortCounts) -> TcpChannel:
    """Connect, with a TLS handshake if needed. Raises :class:`OpenError`."""
    place = f"{'tls' if isinstance(address, TlsAddress) else 'tcp'}:{address.host}:{address.port}"
    try:
        # The system's resolver blocks, so it runs in a thread and is abandoned after the timeout.
        with anyio.fail_after(address.timeout_s):
            found = await anyio.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except TimeoutError:
        raise OpenError(
            f"{place}: no answer from a name server within {address.timeout_s:g} s; check the "
            "network"
        ) from None
    except (OSError, UnicodeError) as error:
        raise OpenError(
            f"{place}: unknown host ({_text_of(error)}); check the name and the network"
        ) from None
    why = "the host has no address"
    for family, kind, protocol, _, sockaddr in found:
        sock = socket.socket(family, kind, protocol)
        try:
            with anyio.fail_after(address.timeout_s):
                await _connect(sock, sockaddr)
                _tune(sock)
                detail = f"{place} ({sockaddr[0]})"
                if isinstance(address, TlsAddress):
                    return await _greet(sock, address, detail, counts)
            return TcpChannel(sock, detail, counts, address.bytes_per_s)
        except TimeoutError:
            sock.close()
            why = (
                f"no answer within {address.timeout_s:g} s; check that the server runs and is "
                "reachable"
            )
        except ssl.SSLCertVerificationError as error:
            sock.close()
            cure = (
                "give the file of its authority as verify=FILE, or disable the check with verify=no"
            )
            raise OpenError(
                f"{place}: its certificate is not trusted ({error.verify_message}): {cure}"
            ) from None
        except ssl.SSLError as error:
            sock.close()
            why = (
                f"the server does not use TLS ({_text_of(error)}); use tcp: for a connection "
                "without TLS"
            )
        except OSError as error:
            sock.close()
            why = f"{_text_of(error)}; check that the server runs and that the port is right"
        except BaseException:
            sock.close()
            raise
    raise OpenError(f"{place}: {why}")


async def _connect(sock: socket.socket, sockaddr: object) -> None:
    sock.setblocking(False)
    try:
        sock.connect(sockaddr)  # type: ignore[arg-type]
    except BlockingIOError:
        await anyio.wait_writable(sock)
    code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if code:
        raise OSError(code, os.strerror(code))


def _tune(sock: socket.socket) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):  # not all of them on macOS
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


async def _greet(
    sock: socket.socket, address: TlsAddress, detail: str, counts: PortCounts
) -> TlsChannel:
    # Loading the authorities takes tens of milliseconds.
    context = await anyio.to_thread.run_sync(_context, address.verify)
    tls = context.wrap_socket(sock, server_hostname=address.host, do_handshake_on_connect=False)
    try:
        while True:
            try:
                tls.do_handshake()
            except ssl.SSLWantReadError:
                await anyio.wait_readable(tls)
            except ssl.SSLWantWriteError:
                await anyio.wait_writable(tls)
            else:
                break
    except BaseException:
        tls.close()
        raise
    trust = "" if address.verify != "no" else ", certificate not checked"
    return TlsChannel(tls, f"{detail}, {tls.version()}{trust}", counts, address.bytes_per_s)


def _context(verify: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=None if verify in ("yes", "no") else verify)
    if verify == "no":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _text_of(error: Exception) -> str:
    """Return the system's error text without numbers."""
    return getattr(error, "strerror", None) or str(error)
