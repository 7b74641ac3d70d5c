"""Sockets for rovers: plain corrections over TCP, and an NTRIP caster. No rover can delay another
one or the receiver."""

import asyncio
import errno
from collections.abc import Callable
from typing import NamedTuple

from vehicled.core.errors import SetupError
from vehicled.live.base_station.caster import CasterConfig, CasterSession, SourceRecord

MAX_CONNECTIONS = 32
"""Connections at once, those included that have not yet sent a request."""
REQUEST_TIMEOUT_S = 10.0
"""Time for a complete request, s."""
MAX_WAITING_BYTES = 65_536
"""Corrections that may wait for a slow rover, about half a minute; beyond, it is disconnected."""
STATION_MESSAGES = frozenset((1005, 1006, 1007, 1008, 1033, 1230))
"""Messages about the station, which a rover gets at once, as they come seldom."""


class ListenAddress(NamedTuple):
    """Address to listen on; an empty host stands for all networks of this computer."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host or '*'}:{self.port}"


class RoverNews(NamedTuple):
    """Event of a rover."""

    kind: str
    """``joined``, ``left``, ``too_slow``, ``too_many``, or the outcome of a request that was
    refused."""
    peer: str
    agent: str = ""
    version: int = 0
    """NTRIP version; 0 on the plain server."""


class RoverServers:
    """Servers for rovers; they share the corrections."""

    def __init__(
        self,
        report: Callable[[RoverNews], None],
        ready: Callable[[], bool],
        record: Callable[[], SourceRecord] | None = None,
    ) -> None:
        """``ready``: whether corrections flow; ``record``: the line of the source table."""
        self._report = report
        self._ready = ready
        self._record = record or (lambda: SourceRecord(""))
        self._rovers: set[_Rover] = set()
        self._servers: list[asyncio.Server] = []
        self._station: dict[int, bytes] = {}
        self._listeners: list[Callable[[bytes], None]] = []
        self.sent_bytes = 0
        """Bytes of corrections sent to all rovers."""

    @property
    def rovers(self) -> int:
        """Rovers that get corrections."""
        return sum(each.streams for each in self._rovers)

    async def listen(
        self, place: ListenAddress, caster: CasterConfig | None = None, option: str = ""
    ) -> int:
        """Listen, as an NTRIP caster or with plain corrections, and return the port. Raises
        SetupError naming the ``option``."""

        def connection() -> "_Rover":
            session = None if caster is None else CasterSession(caster, self._record, self._ready)
            return _Rover(self, session)

        try:
            server = await asyncio.get_running_loop().create_server(
                connection, place.host or None, place.port
            )
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                what = "another program uses the port: stop it, or choose another port"
            elif error.errno == errno.EACCES:
                what = "ports below 1024 need privileges: choose one above"
            else:
                what = error.strerror or str(error)
            raise SetupError(f"cannot listen on {place}: {what} ({option})") from error
        self._servers.append(server)
        port: int = server.sockets[0].getsockname()[1]
        return port

    def listen_to(self, listener: Callable[[bytes], None]) -> None:
        """Pass every message to a listener, too."""
        self._listeners.append(listener)

    def publish(self, frame: bytes) -> None:
        """Send an RTCM message to every rover."""
        for listener in self._listeners:
            listener(frame)
        kind = frame[3] << 4 | frame[4] >> 4 if len(frame) >= 8 else 0
        if kind in STATION_MESSAGES:
            self._station[kind] = frame
        for rover in tuple(self._rovers):
            rover.send(frame)

    def forget(self) -> None:
        """Drop the messages about the station, because its position may change."""
        self._station.clear()

    def close(self) -> None:
        """Close all connections and sockets."""
        for server in self._servers:
            server.close()
        for rover in tuple(self._rovers):
            rover.abort()

    # ---------------------------------------------------------------- called by connections

    def add(self, rover: "_Rover") -> bool:
        """Register a connection; False if there are too many."""
        if len(self._rovers) >= MAX_CONNECTIONS:
            self._report(RoverNews("too_many", rover.peer))
            return False
        self._rovers.add(rover)
        return True

    def remove(self, rover: "_Rover") -> None:
        """Forget a connection that has ended."""
        self._rovers.discard(rover)

    def report(self, kind: str, rover: "_Rover") -> None:
        """Report what happened with a connection."""
        session = rover.session
        self._report(
            RoverNews(
                kind,
                rover.peer,
                session.agent if session else "",
                session.version if session else 0,
            )
        )

    @property
    def station(self) -> bytes:
        """Newest messages about the station."""
        return b"".join(self._station[kind] for kind in sorted(self._station))


class _Rover(asyncio.Protocol):
    """One connection."""

    def __init__(self, servers: RoverServers, session: CasterSession | None) -> None:
        self._servers = servers
        self.session = session
        self.peer = ""
        self.streams = False
        self._transport: asyncio.Transport | None = None
        self._timeout: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        address = transport.get_extra_info("peername") or ("?", 0)
        self.peer = f"{address[0]}:{address[1]}"
        if not self._servers.add(self):
            transport.abort()
        elif self.session is None:
            self._join()
        else:
            self._timeout = asyncio.get_running_loop().call_later(
                REQUEST_TIMEOUT_S, transport.abort
            )

    def data_received(self, data: bytes) -> None:
        session, transport = self.session, self._transport
        if session is None or transport is None or session.outcome:
            return
        transport.write(session.receive(data))
        if not session.outcome:
            return
        self._stop_timeout()
        if session.streaming:
            self._join()
        else:
            self._servers.report(session.outcome, self)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timeout()
        self._servers.remove(self)
        if self.streams:
            self.streams = False
            self._servers.report("left", self)

    def send(self, data: bytes) -> None:
        """Send corrections if the client waits for them."""
        transport = self._transport
        if not self.streams or transport is None or transport.is_closing():
            return
        if transport.get_write_buffer_size() > MAX_WAITING_BYTES:
            self._servers.report("too_slow", self)
            transport.abort()
            return
        self._servers.sent_bytes += len(data)
        transport.write(data if self.session is None else self.session.chunk(data))

    def abort(self) -> None:
        """End the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def _join(self) -> None:
        self.streams = True
        self._servers.report("joined", self)
        if station := self._servers.station:
            self.send(station)

    def _stop_timeout(self) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None
