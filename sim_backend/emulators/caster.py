"""Emulator of an NTRIP caster, versions 1 and 2: corrections once a second for the mountpoint that
the profile asks for.

Its observations are noise in sound frames: the simulated receiver counts corrections and reads
none. It fails on command, in the ways in which casters do. Over the simulator link it cannot hang
up, so it falls silent instead; behind a socket (:mod:`sim_backend.sockets`) it can.
"""

from collections.abc import Mapping
from math import radians
from types import MappingProxyType

from drivers.ntrip.codec import HEAD_END, Version
from sim_backend.emulators.corrections import noise_message, station_message
from sim_backend.emulators.interface import NEVER_NS
from sim_backend.emulators.outbox import ActiveFailures, EmulatorOutbox
from sim_backend.sensors.noise import stream
from vehicled.core.messages import Message
from vehicled.core.wire.geodesy import geodetic_to_ecef
from vehicled.profile.schema import DeviceTable

PERIOD_NS = 1_000_000_000
LATENCY_NS = 40_000_000
STATION = 25
OBSERVATIONS = ((1077, 180), (1087, 130), (1097, 150), (1230, 8))
"""Message types of an epoch with the bytes of their content."""
STATION_PERIODS = 5
FLOOD_BYTES = 16_384
"""Bytes sent at once while it floods, every ``FLOOD_NS``."""
FLOOD_NS = 10_000_000
REQUEST_LIMIT_BYTES = 4_096

STATUS, CLOSES, TABLE, PAGE, MUTE, FLOOD, DEMANDING = (
    "caster_status", "caster_closes", "caster_table", "caster_page", "caster_mute", "caster_flood",
    "caster_needs_position",
)  # fmt: skip
STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nNtrip-Version: Ntrip/2.0\r\nContent-Type: "
    b"gnss/data\r\nTransfer-Encoding: chunked\r\n\r\n"
)
KINDS = MappingProxyType(
    {STATUS: 401.0, CLOSES: 1.0, TABLE: 1.0, PAGE: 1.0, MUTE: 1.0, FLOOD: 1.0, DEMANDING: 1.0}
)
_TEXTS = {
    401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 409: "Conflict",
    429: "Too Many Requests", 503: "Service Unavailable",
}  # fmt: skip


class Caster(ActiveFailures, EmulatorOutbox):
    """Caster of one mountpoint as :class:`sim_backend.emulators.interface.Emulator`."""

    def __init__(self, port: str, device: DeviceTable, seed: int, start_ns: int) -> None:
        super().__init__()
        self._mountpoint: str = device.driver.selected.mountpoint
        self._noise = stream(seed, f"{port}/caster")
        self._due_ns = NEVER_NS
        self._start_ns = start_ns
        self.hangs_up = False
        """True if an empty transmission closes the connection."""
        self.requests = 0
        self._reset()

    def _reset(self) -> None:
        self._request = b""
        self._version: Version | None = None
        self._positions = 0
        self._place = (0.0, 0.0, 0.0)
        self._epochs = 0
        self._due_ns = NEVER_NS

    # ---------------------------------------------------------------- Emulator interface

    def on_message(self, message: Message, ready_ns: int) -> None:
        """Ignore messages: it measures nothing."""

    def on_line(self, baud: int, t_ns: int) -> None:
        """Handle a new connection (0)."""
        self._reset()
        if CLOSES in self._active and self._active[CLOSES] < 2.0:
            self._hang_up(t_ns)

    def on_rx(self, data: bytes, t_ns: int) -> None:
        """Take a request, then positions."""
        if self._version is not None:
            self._on_position(data)
            return
        if CLOSES in self._active and self._active[CLOSES] < 2.0:
            return
        self._request = (self._request + data)[-REQUEST_LIMIT_BYTES:]
        head, end, rest = self._request.partition(HEAD_END)
        if end:
            self._request = b""
            self.requests += 1
            self._answer(head, t_ns)
            if rest:
                self._on_position(rest)

    def next_due_ns(self) -> int:
        return self._due_ns

    def on_time(self, now_ns: int) -> None:
        """Send what is due."""
        while self._due_ns <= now_ns:
            t_ns = self._due_ns
            if FLOOD in self._active:
                # False starts of the longest message, one behind the other.
                self._send(b"\xd3\x03\xff" * (FLOOD_BYTES // 3), t_ns)
                self._due_ns = t_ns + FLOOD_NS
                continue
            self._due_ns = t_ns + PERIOD_NS
            if MUTE not in self._active and (DEMANDING not in self._active or self._positions):
                self._send(self._epoch(), t_ns)

    # ---------------------------------------------------------------- injected failures

    @property
    def kinds(self) -> Mapping[str, float]:
        return KINDS

    def inject(self, kind: str, value: float, active: bool, now_ns: int) -> None:
        """Begin or end a failure. The present connection breaks where the failure is one of
        connecting."""
        super().inject(kind, value, active, now_ns)
        if active and kind in (STATUS, CLOSES, TABLE, PAGE) and self._version is not None:
            self._reset()
            self._hang_up(now_ns)
        elif kind == FLOOD and self._version is not None:
            self._due_ns = now_ns

    def restart(self, now_ns: int) -> None:
        """Lose the connection, as in a power cut."""
        self._reset()
        self._hang_up(now_ns)

    # ---------------------------------------------------------------- dialogue

    def _answer(self, head: bytes, now_ns: int) -> None:
        line, _, _ = head.partition(b"\r\n")
        words = line.decode("latin-1").split(" ")
        if len(words) != 3 or words[0] != "GET":
            self._reply(
                b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", now_ns, close=True
            )
            return
        two = words[2] == "HTTP/1.1"
        asked = words[1].removeprefix("/")
        if STATUS in self._active:
            status = int(self._active[STATUS])
            text = f"HTTP/1.1 {status} {_TEXTS.get(status, 'Error')}\r\nConnection: close\r\n\r\n"
            self._reply(text.encode(), now_ns, close=True)
        elif PAGE in self._active:
            self._reply(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>Please log in</html>",
                now_ns,
                close=True,
            )
        elif TABLE in self._active or not asked or asked != self._mountpoint:
            self._reply(self._table(two), now_ns, close=True)
        else:
            self._reply(
                STREAM_HEAD if two else b"ICY 200 OK\r\n\r\n", now_ns, close=CLOSES in self._active
            )
            if CLOSES not in self._active:
                self._version = 2 if two else 1
                self._on_position(head.replace(b"Ntrip-GGA: ", b""))
                self._due_ns = now_ns + (FLOOD_NS if FLOOD in self._active else PERIOD_NS)

    def _table(self, two: bool) -> bytes:
        rows = (
            b"STR;SIMULATED;Simulated;RTCM "
            b"3.2;1005(5),1077(1);2;GPS;SIM;USA;43.07;270.60;0;0;vehicled;none;N;N;9600;\r\n"
        )
        body = rows + b"ENDSOURCETABLE\r\n"
        kind = (
            b"HTTP/1.1 200 OK\r\nContent-Type: gnss/sourcetable"
            if two
            else b"SOURCETABLE 200 OK\r\nContent-Type: text/plain"
        )
        return kind + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body

    def _on_position(self, data: bytes) -> None:
        for line in data.split(b"\r\n"):
            cells = line.decode("latin-1").split(",")
            if cells[0].endswith("GGA") and len(cells) > 9:
                self._positions += 1
                self._place = _place(cells)

    def _reply(self, data: bytes, now_ns: int, *, close: bool) -> None:
        self._tx.append((now_ns + LATENCY_NS, data))
        if close:
            self._hang_up(now_ns + LATENCY_NS)

    def _hang_up(self, t_ns: int) -> None:
        if self.hangs_up:
            self._tx.append((t_ns, b""))

    def _send(self, data: bytes, now_ns: int) -> None:
        if self._version == 2:
            data = b"%X\r\n%b\r\n" % (len(data), data)
        self._tx.append((now_ns + LATENCY_NS, data))

    def _epoch(self) -> bytes:
        self._epochs += 1
        frames = [_station(self._place)] if self._epochs % STATION_PERIODS == 1 else []
        for kind, size in OBSERVATIONS:
            frames.append(noise_message(kind, STATION, size, self._noise.bytes))
        return b"".join(frames)


def _place(cells: list[str]) -> tuple[float, float, float]:
    """Return latitude and longitude, rad, and height, m, of a GGA sentence; zeros where they cannot
    be read."""
    try:
        latitude = float(cells[2][:2]) + float(cells[2][2:]) / 60.0
        longitude = float(cells[4][:3]) + float(cells[4][3:]) / 60.0
        height = float(cells[9] or 0.0)
    except ValueError:
        return 0.0, 0.0, 0.0
    return (
        radians(-latitude if cells[3] == "S" else latitude),
        radians(-longitude if cells[5] == "W" else longitude),
        height,
    )


def _station(place: tuple[float, float, float]) -> bytes:
    """Return message 1005 of a virtual station at a place."""
    return station_message(geodetic_to_ecef(*place), STATION, virtual=True)
