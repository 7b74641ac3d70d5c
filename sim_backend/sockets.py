"""Emulated devices behind sockets on the loopback interface, so that the daemon's real TCP, TLS and
UDP code runs on a laptop.

A port that the profile reaches by ``tls:`` is served with a certificate that only this simulator
uses.
"""

import selectors
import socket
import ssl
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

from vehicled.core.wire.datagram import pack, unpack

CERTIFICATE = Path(__file__).parent / "loopback.pem"
"""Certificate and key of ``localhost`` and 127.0.0.1, signed by itself. They protect nothing."""
_READ_BYTES = 4096
_UNSENT_LIMIT_BYTES = 1 << 18


class _Connection:
    """Connection of the daemon to one port."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self.shaking = isinstance(sock, ssl.SSLSocket)
        self.unsent = b""
        self.closing = False

    def read(self) -> bytes | None:
        """Return what arrived; None at the end of the connection."""
        try:
            if self.shaking:
                assert isinstance(self.socket, ssl.SSLSocket)
                self.socket.do_handshake()
                self.shaking = False
            return self.socket.recv(_READ_BYTES) or None
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return b""
        except OSError:
            return None

    def write(self) -> bool:
        """Send what waits; return False if the connection is gone."""
        if self.shaking or not self.unsent:
            return True
        try:
            self.unsent = self.unsent[self.socket.send(self.unsent) :]
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return True
        except OSError:
            return False
        return True


class _UdpPeer:
    """Socket of a device that sends datagrams, and the place of the daemon."""

    def __init__(self, *, pushes: bool) -> None:
        """``pushes``: the device sends without being asked, to a port that the daemon binds."""
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.setblocking(False)
        self.url = f"udp:127.0.0.1:{self.socket.getsockname()[1]}"
        self.daemon: tuple[str, int] | None = None
        if pushes:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
                free.bind(("127.0.0.1", 0))
                self.daemon = "127.0.0.1", free.getsockname()[1]
            self.url += f"?listen={self.daemon[1]}"

    def read(self) -> bytes:
        """Return a record for each datagram that arrived."""
        records = b""
        with suppress(OSError):
            while True:
                data, source = self.socket.recvfrom(1 << 16)
                self.daemon = source
                records += pack(data)
        return records

    def write(self, records: bytes) -> int:
        """Send the datagrams; return the bytes that are lost."""
        datagrams, _ = unpack(records)
        lost = 0
        for datagram in datagrams:
            try:
                if self.daemon is None:
                    raise OSError("nobody has asked yet")
                self.socket.sendto(datagram, self.daemon)
            except OSError:
                lost += len(datagram)
        return lost


class Sockets:
    """One listening socket per port; a context manager. A port has one connection: a new one ends
    the old."""

    def __init__(
        self, ports: Mapping[str, bool], datagrams: Mapping[str, bool] = MappingProxyType({})
    ) -> None:
        """``ports``: whether TLS is spoken. ``datagrams``: ports of UDP, and whether the device
        sends without being asked. Raises OSError if no socket is left."""
        self._listeners: dict[str, socket.socket] = {}
        self._tls: dict[str, ssl.SSLContext] = {}
        self._connections: dict[str, _Connection] = {}
        self._selector: selectors.BaseSelector | None = None
        self.lost_bytes = 0
        """Bytes lost because the daemon did not read."""
        self.urls: dict[str, str] = {}
        """Address by port, for the daemon."""
        for port, secure in ports.items():
            listener = self._listeners[port] = socket.create_server(("127.0.0.1", 0))
            listener.setblocking(False)
            place = f"127.0.0.1:{listener.getsockname()[1]}"
            if secure:
                context = self._tls[port] = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(CERTIFICATE)
            self.urls[port] = f"tls:{place}?verify={CERTIFICATE}" if secure else f"tcp:{place}"
        self._peers = {port: _UdpPeer(pushes=pushes) for port, pushes in datagrams.items()}
        self.urls |= {port: peer.url for port, peer in self._peers.items()}

    def register(self, selector: selectors.BaseSelector) -> None:
        """Have the selector wake for connections and their bytes."""
        self._selector = selector
        for listener in self._listeners.values():
            selector.register(listener, selectors.EVENT_READ)
        for peer in self._peers.values():
            selector.register(peer.socket, selectors.EVENT_READ)

    def read(self, ready: Iterable[int]) -> list[tuple[str, bytes | None]]:
        """Return ports with the daemon's bytes, None for a new connection."""
        descriptors, found = set(ready), list[tuple[str, bytes | None]]()
        for port, listener in self._listeners.items():
            if listener.fileno() in descriptors:
                with suppress(OSError):
                    self._accept(port, listener.accept()[0])
                    found.append((port, None))
        for port, peer in self._peers.items():
            if peer.socket.fileno() in descriptors and (records := peer.read()):
                found.append((port, records))
        for port, connection in list(self._connections.items()):
            if connection.socket.fileno() in descriptors:
                data = connection.read()
                if data is None or not connection.write():
                    self._drop(port)
                elif data:
                    found.append((port, data))
                self._settle(port)
        return found

    def write(self, port: str, data: bytes) -> None:
        """Send the device's bytes; none of them hang up. They are lost without a connection."""
        if port in self._peers:
            self.lost_bytes += self._peers[port].write(data)
            return
        connection = self._connections.get(port)
        if connection is None:
            return
        if not data:
            connection.closing = True
        elif len(connection.unsent) + len(data) > _UNSENT_LIMIT_BYTES:
            self.lost_bytes += len(data)
        else:
            connection.unsent += data
        if not connection.write():
            self._drop(port)
        self._settle(port)

    def close(self) -> None:
        """Close every socket. Idempotent."""
        for port in list(self._connections):
            self._drop(port)
        for listener in self._listeners.values():
            listener.close()
        for peer in self._peers.values():
            peer.socket.close()

    def __enter__(self) -> "Sockets":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self, port: str, sock: socket.socket) -> None:
        self._drop(port)
        sock.setblocking(False)
        context = self._tls.get(port)
        if context is not None:
            sock = context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        self._connections[port] = _Connection(sock)
        if self._selector is not None:
            self._selector.register(sock, selectors.EVENT_READ)

    def _settle(self, port: str) -> None:
        """Hang up once all is sent."""
        connection = self._connections.get(port)
        if (
            connection is not None
            and connection.closing
            and not connection.unsent
            and not connection.shaking
        ):
            self._drop(port)

    def _drop(self, port: str) -> None:
        connection = self._connections.pop(port, None)
        if connection is None:
            return
        if self._selector is not None:
            with suppress(KeyError, ValueError):
                self._selector.unregister(connection.socket)
        connection.socket.close()
