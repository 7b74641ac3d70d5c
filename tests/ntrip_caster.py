"""An NTRIP caster for tests: sans-IO like the client, but written apart from it and on other
libraries.

Requests are read by the standard library's HTTP parser, frames are checked bit by bit, and every
liberty that real casters take is a switch.
"""

import base64
import gzip
import io
import zlib
from dataclasses import dataclass, field
from http.client import parse_headers
from typing import Literal

TABLE_LINES = [
    "CAS;caster.example.org;2101;Example;Nobody;0;DEU;52.00;10.00;0.0.0.0;0;http://example.org",
    "NET;EXNET;Nobody;B;N;http://example.org;none;none;none",
    (
        "STR;BASE_NORTH;Northtown;RTCM "
        "3.2;1005(10),1077(1),1087(1);2;GPS+GLO;EXNET;DEU;53.50;10.00;0;0;example;none;B;N;5000;"
    ),
    (
        "STR;BASE_SOUTH;Southtown;RTCM "
        "3.2;1005(10),1077(1),1087(1);2;GPS+GLO;EXNET;DEU;48.10;11.60;0;0;example;none;B;N;5000;"
    ),
    (
        'STR;NETWORK;"Everywhere; computed";RTCM '
        "3.2;1005(10),1077(1);2;GPS;EXNET;DEU;50.00;9.00;1;1;example;none;B;Y;5000;pay"
    ),
    "STR;ISLAND;Far away;RTCM 3.1;1004(1);2;GPS;EXNET;NZL;-36.80;174.70;0;0;example;none;N;N;2400;",
    "ENDSOURCETABLE",
]
TABLE = b"".join(line.encode() + b"\r\n" for line in TABLE_LINES)


def crc24q(data: bytes) -> int:
    """Compute the CRC bit by bit, from the polynomial."""
    crc = 0
    for byte in data:
        crc ^= byte << 16
        for _ in range(8):
            crc <<= 1
            if crc & 0x1000000:
                crc ^= 0x1864CFB
    return crc


def rtcm(kind: int, body: bytes = b"", station: int = 25) -> bytes:
    """Return a frame whose message begins with a type and a station number."""
    payload = (kind << 12 | station).to_bytes(3, "big") + body
    frame = b"\xd3" + len(payload).to_bytes(2, "big") + payload
    return frame + crc24q(frame).to_bytes(3, "big")


@dataclass
class Request:
    """Request of a client."""

    mountpoint: str
    protocol: str
    headers: dict[str, str]


@dataclass
class Caster:
    """One connection to a caster. ``receive`` takes the client's bytes, ``take`` returns the
    server's."""

    mountpoints: tuple[str, ...] = ("BASE_NORTH",)
    users: dict[str, str] = field(default_factory=dict)
    speaks: Literal["1", "2", "both"] = "both"
    """A caster of version 1 answers ``ICY`` whatever the request says, unless ``strict``."""
    strict: Literal["", "status", "error", "silence"] = ""
    """Answer of a version 1 caster that refuses a request of version 2."""
    chunked: bool = True
    compress: Literal["", "members", "stream"] = ""
    """Send each publication as its own gzip member, or all as one."""
    blank_line: bool = True
    """Send an empty line before the body, in version 1."""
    server_header: bool = False
    """Send fields after the status line, in version 1."""
    unknown: Literal["table", "404"] = "table"
    needs_position: bool = False
    """Send nothing before a position has arrived."""
    start: bytes = b""
    """Start of the body: the tail of a frame that began before the client came."""

    def __post_init__(self) -> None:
        self.request: Request | None = None
        self.positions: list[bytes] = []
        self.closed = False
        self.streaming = False
        self._in = b""
        self._out = b""
        self._squeeze = zlib.compressobj(wbits=31)
        self._coded = False

    def receive(self, data: bytes) -> None:
        """Process bytes of the client."""
        self._in += data
        if self.request is None and b"\r\n\r\n" in self._in:
            head, self._in = self._in.split(b"\r\n\r\n", 1)
            stream = io.BytesIO(head + b"\r\n\r\n")
            method, target, protocol = stream.readline().decode().split()
            assert method == "GET"
            headers = {name.lower(): value for name, value in parse_headers(stream).items()}
            self.request = Request(target.removeprefix("/"), protocol, headers)
            if "ntrip-gga" in headers and self.speaks != "1":
                self._on_position(headers["ntrip-gga"].encode())
            self._answer(self.request)
        while self.request is not None and b"\r\n" in self._in:
            line, self._in = self._in.split(b"\r\n", 1)
            self._on_position(line)

    def publish(self, data: bytes) -> None:
        """Send corrections of the base, cut at arbitrary places."""
        if self.streaming and (self.positions or not self.needs_position):
            self._write(data)

    def take(self) -> bytes:
        """Return the bytes that the server has written since the last call."""
        out, self._out = self._out, b""
        return out

    def _on_position(self, line: bytes) -> None:
        body, _, check = line.removeprefix(b"$").partition(b"*")
        folded = 0
        for byte in body:
            folded ^= byte
        assert int(check, 16) == folded, line
        self.positions.append(line)

    def _answer(self, request: Request) -> None:
        second = "ntrip-version" in request.headers
        if second:
            assert request.protocol == "HTTP/1.1"
            assert "host" in request.headers
        else:
            assert request.protocol == "HTTP/1.0"
        assert request.headers["user-agent"].startswith("NTRIP ")
        if second and self.speaks == "1" and self.strict:
            self._out += {
                "status": b"HTTP/1.0 400 Bad Request\r\n\r\n",
                "error": b"ERROR - Bad Request\r\n",
                "silence": b"",
            }[self.strict]
            self.closed = True
            return
        second = second and self.speaks != "1"
        if not request.mountpoint or (
            request.mountpoint not in self.mountpoints and self.unknown == "table"
        ):
            self._table(second)
        elif request.mountpoint not in self.mountpoints:
            self._out += b"HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\nnot here\n"
            self.closed = True
        elif not self._knows(request.headers.get("authorization", "")):
            self._out += (
                (
                    b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic "
                    b'realm="/x"\r\nContent-Length: 0\r\n\r\n'
                )
                if second
                else b"ERROR - Bad Password\r\n"
            )
            self.closed = True
        else:
            self._stream(second)

    def _knows(self, authorization: str) -> bool:
        if not self.users:
            return True
        kind, _, token = authorization.partition(" ")
        user, _, password = base64.b64decode(token).decode().partition(":")
        return kind == "Basic" and self.users.get(user) == password

    def _table(self, second: bool) -> None:
        if second:
            head = (
                "HTTP/1.1 200 OK\r\nNtrip-Version: Ntrip/2.0\r\nContent-Type: gnss/sourcetable\r\n"
            )
            head += (
                "Transfer-Encoding: chunked\r\n"
                if self.chunked
                else f"Content-Length: {len(TABLE)}\r\n"
            )
        else:
            head = (
                "SOURCETABLE 200 OK\r\nServer: test\r\nContent-Type: "
                f"text/plain\r\nContent-Length: {len(TABLE)}\r\n"
            )
        self._out += head.encode() + b"\r\n"
        self._coded = second and self.chunked
        if self._coded:
            self._out += b"%X\r\n%s\r\n0\r\n\r\n" % (len(TABLE), TABLE)
        else:
            self._out += TABLE
        self.closed = True

    def _stream(self, second: bool) -> None:
        self._coded = second and (self.chunked or bool(self.compress))
        if second:
            head = (
                "HTTP/1.1 200 OK\r\nNtrip-Version: Ntrip/2.0\r\nServer: test "
                "caster\r\nContent-Type: gnss/data\r\n"
            )
            head += "Transfer-Encoding: chunked\r\n" if self.chunked else "Connection: close\r\n"
            head += "Content-Encoding: gzip\r\n" if self.compress else ""
            self._out += head.encode() + b"\r\n"
        else:
            self._out += b"ICY 200 OK\r\n"
            self._out += b"Server: test caster\r\n" if self.server_header else b""
            self._out += b"\r\n" if self.blank_line else b""
        self._second = second
        self.streaming = True
        if self.start:
            self._write(self.start)

    def _write(self, data: bytes) -> None:
        if self._second and self.compress == "members":
            data = gzip.compress(data)
        elif self._second and self.compress == "stream":
            data = self._squeeze.compress(data) + self._squeeze.flush(zlib.Z_SYNC_FLUSH)
        if self._second and self.chunked:
            data = b"%x\r\n%s\r\n" % (len(data), data)
        self._out += data
