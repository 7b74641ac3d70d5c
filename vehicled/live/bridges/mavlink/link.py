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
MOST_BYTES = 1 << 18
"""Bytes read in one turn; the rest waits."""
RECEIVE_BUFFER = 1 << 20
"""Bytes that the kernel may keep while this process waits for a processor; it grants what it
allows. What finds no room there is lost, and it may be a stop."""
STREAMS: dict[int, int] = {
    mav.MAVLINK_MSG_ID_SET_POSITION_TARGET_LOCAL_NED: 50,
    mav.MAVLINK_MSG_ID_SET_POSITION_TARGET_GLOBAL_INT: 50,
    mav.MAVLINK_MSG_ID_SET_ATTITUDE_TARGET: 36,
    mav.MAVLINK_MSG_ID_MANUAL_CONTROL: 10,
    mav.MAVLINK_MSG_ID_RC_CHANNELS_OVERRIDE: 16,
}
"""Messages that come as a stream, of which only the newest of a sender counts: their numbers, and
the place of their target in the payload."""
HEAD_1, HEAD_2, CHECKSUM = 6, 10, 2
"""Lengths of the head of a message of version 1 and 2 and of its checksum."""
FEW = 32
"""Datagrams of one turn up to which every message of a stream is taken."""


class MavlinkLink:
    """One link. Sending never waits: what it has no room for is dropped, because newer telemetry
    follows."""

    def __init__(self, address: MavlinkAddress, system_id: int = SYSTEM_ID) -> None:
        """Open the link. Raises OSError."""
        self._mav = mav.MAVLink(None, srcSystem=system_id, srcComponent=mav.MAV_COMP_ID_AUTOPILOT1)
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
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
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
        """Return the valid messages that have arrived. Bytes that are none are skipped.

        Of a flood of targets only the newest is taken, so that a command behind it does not wait.
        """
        found: list[Any] = []
        for data, peer in _newest(self._arrived()):
            messages = self._parsed(data)
            if (
                messages
                and peer is not None
                and (peer in self._peers or len(self._peers) < MOST_PEERS)
            ):
                self._peers[peer] = time.monotonic()
            found += messages
        return found

    def _arrived(self) -> list[tuple[bytes, Any]]:
        """Return the datagrams that wait, each with its sender, or the bytes of a serial port."""
        arrived: list[tuple[bytes, Any]] = []
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
            if not data and self._socket is None:
                break
            # An empty datagram costs a turn its share as well.
            read += max(len(data), 1)
            arrived.append((data, peer))
        return arrived

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


def _newest(arrived: list[tuple[bytes, Any]]) -> list[tuple[bytes, Any]]:
    """Return the datagrams of one turn in their order, and of a flood of equal streams only the
    newest of each."""
    if len(arrived) <= FEW:
        return arrived
    kept: list[tuple[bytes, Any]] = []
    seen: set[Any] = set()
    for data, peer in reversed(arrived):
        stream = _stream(data) if peer is not None else None
        if stream is not None:
            if (peer, stream) in seen:
                continue
            seen.add((peer, stream))
        kept.append((data, peer))
    kept.reverse()
    return kept


def _stream(data: bytes) -> tuple[int, bytes, bytes] | None:
    """Return number, sender and target of a datagram that is one message of a stream; else None."""
    if len(data) > HEAD_2 and data[0] == mav.PROTOCOL_MARKER_V2:
        id_, sender, head = int.from_bytes(data[7:10], "little"), data[5:7], HEAD_2
        tail = mav.MAVLINK_SIGNATURE_BLOCK_LEN if data[2] & mav.MAVLINK_IFLAG_SIGNED else 0
    elif len(data) > HEAD_1 and data[0] == mav.PROTOCOL_MARKER_V1:
        id_, sender, head, tail = data[5], data[3:5], HEAD_1, 0
    else:
        return None
    if id_ not in STREAMS or len(data) != head + data[1] + CHECKSUM + tail:
        return None
    # Zeros at the end of a message of version 2 are left out.
    payload = data[head : head + data[1]]
    first = STREAMS[id_]
    return id_, sender, payload[first : first + 2].ljust(2, b"\0")


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
