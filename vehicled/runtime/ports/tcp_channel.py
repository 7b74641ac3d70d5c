"""TCP and TLS: serial servers, correction casters.

The socket is our own and non-blocking, connected with the help of anyio, and not an anyio stream: those can only be sent to by
waiting, and the last frame must leave at once, when no loop turns any more.
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
from vehicled.runtime.ports.contract import Deliver, LostError, OpenError, PortCounts
from vehicled.runtime.ports.readiness import while_readable

READ_BYTES = 65_536
_READS_PER_WAKE = 16
# A peer that vanished without a word is noticed after 5 + 3 x 2 s when idle, and when it does not acknowledge for 8 s.
_KEEPALIVE = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 8_000}


class TcpChannel:
    """A connected socket."""

    retry_s: float | None = None
    owes = False

    def __init__(self, sock: socket.socket, detail: str) -> None:
        """``sock`` is connected and non-blocking, and belongs to the channel from now on."""
        self.detail = detail
        self._sock = sock

    def fileno(self) -> int:
        """The descriptor."""
        return self._sock.fileno()

    async def receive(self, deliver: Deliver) -> None:
        """Hand over what arrives."""
        await while_readable(self._sock.fileno(), partial(self._drain, deliver))

    def write(self, data: bytes) -> int:
        """How much the kernel took."""
        try:
            return self._sock.send(data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise LostError(f"the connection is gone ({error.strerror})") from None

    async def change_baud(self, baud: int) -> None:
        """A network has no line rate."""

    async def aclose(self, *, drain: bool) -> None:
        """Close. The kernel goes on to send what it took; without ``drain`` the connection is reset."""
        if drain:
            # Closed with something unread, a connection is reset at once, and what is still on its way is lost with it.
            with suppress(OSError):
                for _ in range(_READS_PER_WAKE):
                    if not self._sock.recv(READ_BYTES):
                        break
        else:
            with suppress(OSError):
                # struct linger: on, 0 s.
                self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self._sock.close()

    def _drain(self, deliver: Deliver) -> None:
        for _ in range(_READS_PER_WAKE):
            try:
                data = self._sock.recv(READ_BYTES)
            except BlockingIOError:
                return
            except OSError as error:
                raise LostError(f"the connection is gone ({error.strerror})") from None
            if not data:
                raise LostError("the other end closed the connection")
            deliver(data, time.monotonic_ns())
            if len(data) < READ_BYTES:
                return


class TlsChannel(TcpChannel):
    """A TLS session on a connected socket, its greeting done."""

    def __init__(self, sock: ssl.SSLSocket, detail: str) -> None:
        super().__init__(sock, detail)
        self._tls = sock
        self._owed = b""

    def write(self, data: bytes) -> int:
        """How much was encrypted; all of that leaves."""
        try:
            if self._owed and not self._settle():
                return 0
            return self._tls.send(data) if data else 0
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            # The record is made and perhaps partly sent: TLS takes nothing else until it is out.
            self._owed = data
            self.owes = True
            return len(data)
        except OSError as error:
            raise LostError(f"the connection is gone ({_told(error)})") from None

    def _settle(self) -> bool:
        try:
            self._owed = self._owed[self._tls.send(self._owed) :]
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            pass
        self.owes = bool(self._owed)
        return not self.owes

    def _drain(self, deliver: Deliver) -> None:
        # To the end, however long: what is decrypted already does not make the descriptor readable.
        while True:
            try:
                data = self._tls.recv(READ_BYTES)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            except OSError as error:
                raise LostError(f"the connection is gone ({_told(error)})") from None
            if not data:
                raise LostError("the other end closed the connection")
            deliver(data, time.monotonic_ns())


async def open_tcp(address: TcpAddress, counts: PortCounts) -> TcpChannel:
    """Connect, and greet by TLS where asked for. Raises :class:`OpenError`."""
    place = f"{'tls' if isinstance(address, TlsAddress) else 'tcp'}:{address.host}:{address.port}"
    try:
        # Of the system's blocking resolver, so in a thread of anyio's; abandoned when it takes too long.
        with anyio.fail_after(address.timeout_s):
            found = await anyio.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except TimeoutError:
        raise OpenError(f"{place}: no name server answers within {address.timeout_s:g} s; is there a network?") from None
    except (OSError, UnicodeError) as error:
        raise OpenError(f"{place}: the host is not known ({_told(error)}); check its name, or the network") from None
    why = "it has no address"
    for family, kind, protocol, _, sockaddr in found:
        sock = socket.socket(family, kind, protocol)
        try:
            with anyio.fail_after(address.timeout_s):
                await _connect(sock, sockaddr)
                _tune(sock)
                detail = f"{place} ({sockaddr[0]})"
                if isinstance(address, TlsAddress):
                    return await _greet(sock, address, detail)
            return TcpChannel(sock, detail)
        except TimeoutError:
            sock.close()
            why = f"no answer within {address.timeout_s:g} s; is it running, and reachable from here?"
        except ssl.SSLCertVerificationError as error:
            sock.close()
            cure = "give the file of its authority as verify=FILE, or verify=no to trust anyone"
            raise OpenError(f"{place}: its certificate is not to be trusted ({error.verify_message}): {cure}") from None
        except ssl.SSLError as error:
            sock.close()
            why = f"it does not speak TLS ({_told(error)}); tcp: is without TLS"
        except OSError as error:
            sock.close()
            why = f"{_told(error)}; is it running, and the port right?"
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


async def _greet(sock: socket.socket, address: TlsAddress, detail: str) -> TlsChannel:
    # Reading the authorities takes tens of milliseconds.
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
    return TlsChannel(tls, f"{detail}, {tls.version()}{trust}")


def _context(verify: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=None if verify in ("yes", "no") else verify)
    if verify == "no":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _told(error: Exception) -> str:
    """What the system says, without numbers."""
    return getattr(error, "strerror", None) or str(error)
