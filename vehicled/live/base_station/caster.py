"""Server side of NTRIP, versions 1 and 2, for one mountpoint: requests in, answers and corrections
out, without I/O."""

import binascii
import hmac
from base64 import b64decode
from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from vehicled.core.plain_text import printable

MAX_HEAD_BYTES = 4096
"""Longest request; those of clients have some 300 bytes."""
SERVER = "NTRIP vehicled"
_END = b"\r\n\r\n"

Outcome = Literal[
    "", "stream", "table", "wrong_password", "unknown_mountpoint", "not_ready", "bad_request"
]


class CasterConfig(Struct, frozen=True):
    """Mountpoint of a caster, and the name and password that it asks for."""

    mountpoint: str
    user: str = ""
    """Name that a rover must give; empty admits everyone."""
    password: str = ""

    def __repr__(self) -> str:
        return f"CasterConfig({self.mountpoint!r}, {self.user!r}, ***)"

    def admits(self, authorization: str) -> bool:
        """True for the value of an Authorization field with the right name and password, or if
        everyone is admitted."""
        if not self.user:
            return True
        kind, _, token = authorization.partition(" ")
        try:
            given = b64decode(token.strip(), validate=True)
        except (binascii.Error, ValueError):
            return False
        # A comparison that takes as long for every wrong password.
        return (
            hmac.compare_digest(given, f"{self.user}:{self.password}".encode())
            and kind.lower() == "basic"
        )


class SourceRecord(Struct, frozen=True):
    """Contents of the mountpoint's line in the source table."""

    mountpoint: str
    messages: tuple[tuple[int, int], ...] = ()
    """Message types, and seconds between two of each."""
    latitude_deg: float = 0.0
    longitude_deg: float = 0.0
    password: bool = False

    def table(self) -> bytes:
        """Return the source table."""
        details = ",".join(f"{kind}({seconds})" for kind, seconds in self.messages)
        place = f"{self.latitude_deg:.2f};{self.longitude_deg % 360.0:.2f}"
        login = "B" if self.password else "N"
        cells = (
            "STR",
            self.mountpoint,
            self.mountpoint,
            "RTCM 3.3",
            details,
            "2",
            "GPS+GLO+GAL+BDS",
            "none",
            "",
        )
        more = (place, "0", "0", "vehicled", "none", login, "N", "9600", "")
        return (";".join((*cells, *more)) + "\r\nENDSOURCETABLE\r\n").encode("ascii", "replace")


class CasterSession:
    """One connection of a rover."""

    def __init__(
        self, config: CasterConfig, record: Callable[[], SourceRecord], ready: Callable[[], bool]
    ) -> None:
        """``ready``: whether corrections flow; until then a rover is refused, because its receiver
        would wait in vain."""
        self._config, self._record, self._ready = config, record, ready
        self._head = bytearray()
        self.version = 1
        self.outcome: Outcome = ""
        """Answer to the request; empty before it is complete. After any other than ``stream`` the
        connection ends."""
        self.agent = ""
        """Name that the client gives itself, safe to print."""

    @property
    def streaming(self) -> bool:
        """True if corrections follow."""
        return self.outcome == "stream"

    def receive(self, data: bytes) -> bytes:
        """Take bytes of the client, cut anywhere, and return those of the answer. Its positions are
        not needed, and dropped."""
        if self.outcome:
            return b""
        searched = max(0, len(self._head) - len(_END) + 1)
        self._head += data[: MAX_HEAD_BYTES + 1 - len(self._head)]
        end = self._head.find(_END, searched)
        if end < 0 and len(self._head) <= MAX_HEAD_BYTES:
            return b""
        head, self._head = bytes(self._head[: max(end, 0)]), bytearray()
        return self._answer(head.decode("latin-1"))

    def chunk(self, data: bytes) -> bytes:
        """Return corrections as they go to this client: version 2 wraps them in chunks."""
        return b"%X\r\n%b\r\n" % (len(data), data) if self.version == 2 else data

    def _answer(self, head: str) -> bytes:
        request, *lines = head.split("\r\n")
        fields = {
            name.strip().lower(): value.strip()
            for name, colon, value in (line.partition(":") for line in lines)
            if colon
        }
        self.agent = printable(fields.get("user-agent", ""), 60)
        words = request.split(" ")
        self.version = 2 if fields.get("ntrip-version", "").lower() == "ntrip/2.0" else 1
        if (
            len(words) != 3
            or words[0] != "GET"
            or not words[1].startswith("/")
            or not words[2].startswith("HTTP/1.")
        ):
            self.outcome = "bad_request"
            return self._refusal("400 Bad Request")
        asked = words[1][1:].partition("?")[0]
        if not asked or (asked != self._config.mountpoint and self.version == 1):
            self.outcome = "unknown_mountpoint" if asked else "table"
            return self._table()
        if asked != self._config.mountpoint:
            self.outcome = "unknown_mountpoint"
            return self._refusal("404 Not Found")
        if not self._config.admits(fields.get("authorization", "")):
            self.outcome = "wrong_password"
            return self._refusal(
                "401 Unauthorized", f'WWW-Authenticate: Basic realm="{self._config.mountpoint}"'
            )
        if not self._ready():
            self.outcome = "not_ready"
            return self._refusal("503 Service Unavailable", "Retry-After: 30")
        self.outcome = "stream"
        if self.version == 1:
            return b"ICY 200 OK\r\n\r\n"
        return self._reply("200 OK", "Content-Type: gnss/data", "Transfer-Encoding: chunked")

    def _table(self) -> bytes:
        body = self._record().table()
        if self.version == 2:
            return (
                self._reply(
                    "200 OK", "Content-Type: gnss/sourcetable", f"Content-Length: {len(body)}"
                )
                + body
            )
        lines = (
            "SOURCETABLE 200 OK",
            f"Server: {SERVER}",
            "Content-Type: text/plain",
            f"Content-Length: {len(body)}",
        )
        return "\r\n".join(lines).encode() + _END + body

    def _refusal(self, status: str, *more: str) -> bytes:
        return self._reply(status, "Content-Length: 0", *more)

    def _reply(self, status: str, *more: str) -> bytes:
        lines = [f"HTTP/1.{self.version - 1} {status}", f"Server: {SERVER}"]
        if self.version == 2:
            lines += ["Ntrip-Version: Ntrip/2.0", "Cache-Control: no-store"]
        return "\r\n".join([*lines, *more, "Connection: close"]).encode() + _END
