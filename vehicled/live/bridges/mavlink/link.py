"""Link to ground stations: UDP to one address, UDP from anyone, or a serial radio."""

import fcntl
import os
import socket
import time
from typing import Any

from pymavlink.dialects.v20 import ardupilotmega as mav

from vehicled.live.bridges.mavlink.config import SYSTEM_ID, MavlinkAddress

MOST_PEERS = 8
PEER_S = 30.0
"""Silence after which a ground station that came by itself is forgotten, s."""
MOST_BYTES = 1 << 16
"""Bytes read in one turn; the rest waits."""


class MavlinkLink:
    """One link. Sending never waits: what it has no room for is dropped, because newer telemetry
    follows."""

    def __init__(self, address: MavlinkAddress) -> None:
        """Open the link. Raises OSError."""
        self._mav = mav.MAVLink(None, srcSystem=SYSTEM_ID, srcComponent=mav.MAV_COMP_ID_AUTOPILOT1)
        self._peers: dict[Any, float] = {}
        self._fixed: Any = None
        self._parser = _new_parser()
        self._socket: socket.socket | None = None
        self.port = 0
        """UDP port; 0 for a serial radio."""
        self.dropped = 0
        """Number of messages that could not be sent."""
        if address.kind == "serial":
            self._file = _open_serial(address)
            return
        family, _, _, _, place = socket.getaddrinfo(
            address.place, address.number, type=socket.SOCK_DGRAM
        )[0]
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        if address.kind == "udpin":
            self._socket.bind(place)
        else:
            self._fixed = place
            loopback = place[0] in ("127.0.0.1", "::1")
            # Only what the ground station's side of the network sends can arrive.
            self._socket.bind(
                (("::1" if family == socket.AF_INET6 else "127.0.0.1") if loopback else "", 0)
            )
        self.port = self._socket.getsockname()[1]
        self._file = self._socket.fileno()

    def fileno(self) -> int:
        """Return the file descriptor, for select."""
        return self._file

    def send(self, message: Any) -> None:
        """Send a message to every ground station."""
        data = message.pack(self._mav)
        self._mav.seq = (self._mav.seq + 1) % 256
        if self._socket is None:
            try:
                if os.write(self._file, data) < len(data):
                    self.dropped += 1
            except OSError:
                self.dropped += 1
            return
        now_s = time.monotonic()
        self._peers = {
            peer: seen_s for peer, seen_s in self._peers.items() if now_s - seen_s < PEER_S
        }
        for peer in {*self._peers, *([self._fixed] if self._fixed is not None else [])}:
            try:
                self._socket.sendto(data, peer)
            except OSError:
                self.dropped += 1

    def receive(self) -> list[Any]:
        """Return the valid messages that have arrived. Bytes that are none are skipped."""
        found: list[Any] = []
        read = 0
        while read < MOST_BYTES:
            try:
                data, peer = (
                    self._socket.recvfrom(4096)
                    if self._socket is not None
                    else (os.read(self._file, 4096), None)
                )
            except OSError:
                break
            if not data:
                break
            read += len(data)
            messages = self._parsed(data)
            if (
                messages
                and peer is not None
                and (peer in self._peers or len(self._peers) < MOST_PEERS)
            ):
                self._peers[peer] = time.monotonic()
            found += messages
        return found

    def _parsed(self, data: bytes) -> list[Any]:
        """Return the messages in some bytes. A datagram holds whole messages, so none can spoil the
        next one."""
        if self._socket is not None:
            self._parser = _new_parser()
        try:
            messages = self._parser.parse_buffer(data) or []
        except Exception:  # noqa: BLE001 - whatever the library makes of a stranger's bytes
            self._parser = _new_parser()
            return []
        return [message for message in messages if message.get_type() != "BAD_DATA"]


def _new_parser() -> Any:
    parser = mav.MAVLink(None)
    parser.robust_parsing = True
    return parser


def _open_serial(address: MavlinkAddress) -> int:
    """Open a serial port, without waiting on it. Raises OSError."""
    import serial

    port = serial.Serial(
        address.place, address.number, timeout=0.0, write_timeout=0.0, exclusive=True
    )
    file = os.dup(port.fileno())
    port.close()
    fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL) | os.O_NONBLOCK)
    return file
