"""Codec of the NTRIP handshake: requests of a client, response headers of casters.

Version 1 looks like HTTP/1.0 but answers ``ICY 200 OK``; version 2 is HTTP/1.1. NOTES.md lists the
documents and the deviations of casters.
"""

import re
from base64 import b64encode
from typing import Final, Literal

from msgspec import Struct

from drivers.ntrip.body import BodyDecoder, Chunked, Gzip, IdentityBody, Stacked

Version = Literal[1, 2]

HEAD_END: Final = b"\r\n\r\n"
"""End of a request or of a response header."""
MAX_LINE_BYTES: Final = 2_048
MAX_HEAD_BYTES: Final = 16_384

_STARTS: Final = (b"HTTP/", b"ICY ", b"SOURCETABLE ", b"ERROR")
_STATUS: Final = re.compile(r"(?:HTTP/\d(?:\.\d)?|ICY|SOURCETABLE) +(\d{3})(?: +(.*))?\Z")
_FIELD: Final = re.compile(rb"[A-Za-z][A-Za-z0-9-]*[ \t]*:[\t\x20-\x7e]*\Z")
_FIELD_BEGUN: Final = re.compile(rb"[A-Za-z][A-Za-z0-9-]*[ \t]*(?::[\t\x20-\x7e]*\r?)?\Z")
HIDDEN: Final = "***"
"""Placeholder of a secret in logs and records."""


class Credentials(Struct, frozen=True):
    """User and secret of a caster; ``repr`` omits the secret."""

    user: str
    secret: str

    def __repr__(self) -> str:
        return f"Credentials(user={self.user!r}, secret={HIDDEN})"

    @property
    def token(self) -> str:
        """Token of basic authentication, RFC 7617, in UTF-8."""
        return b64encode(f"{self.user}:{self.secret}".encode()).decode()

    def hide(self, text: str) -> str:
        """Return a received text with the secret masked."""
        for secret in (self.token, self.secret):
            if secret:
                text = text.replace(secret, HIDDEN)
        return text


def encode_request(
    version: Version,
    host: str,
    mountpoint: str,
    agent: str,
    credentials: Credentials | None = None,
    gga: bytes = b"",
) -> tuple[bytes, bytes | None]:
    """Return a request for a mountpoint (empty: the source table), and the same with the secret
    masked, None if it has no secret.

    ``gga`` is a sentence for the header of version 2; version 1 has no place for it. Nothing is
    escaped: the texts must not contain line ends.
    """
    lines = [f"GET /{mountpoint} HTTP/1.{0 if version == 1 else 1}"]
    if version == 2 or host:
        lines.append(f"Host: {host}")
    if version == 2:
        lines.append("Ntrip-Version: Ntrip/2.0")
    lines.append(f"User-Agent: {agent}")
    lines.append("Accept: */*")
    if version == 2 and gga:
        lines.append(f"Ntrip-GGA: {gga.decode('ascii').strip()}")
    lines.append("Connection: close")
    if credentials is None:
        return _join(lines), None
    return (
        _join([*lines, f"Authorization: Basic {credentials.token}"]),
        _join([*lines, f"Authorization: Basic {HIDDEN}"]),
    )


def _join(lines: list[str]) -> bytes:
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


class Head(Struct, frozen=True):
    """Header of a response. Field names are lower case; the last of repeated fields counts."""

    protocol: str
    """Protocol: ``HTTP``, ``ICY``, ``SOURCETABLE`` or ``ERROR``."""
    status: int
    """Status code; 0 for ``ERROR``."""
    text: str
    """Text after the status, as the server wrote it."""
    fields: dict[str, str]

    @property
    def is_table(self) -> bool:
        """True if a source table follows, which casters also send for an unknown mountpoint."""
        kind = self.fields.get("content-type", "").partition(";")[0].strip().lower()
        return self.protocol == "SOURCETABLE" or (self.status == 200 and kind == "gnss/sourcetable")

    @property
    def is_stream(self) -> bool:
        """True if corrections follow."""
        return self.protocol in {"ICY", "HTTP"} and self.status == 200 and not self.is_table

    def decoder(self) -> BodyDecoder | str:
        """Return the decoder of the body, or the name of an unsupported coding."""
        transfer = [
            each.strip().lower() for each in self.fields.get("transfer-encoding", "").split(",")
        ]
        content = self.fields.get("content-encoding", "").strip().lower()
        for coding in transfer:
            if coding not in {"", "identity", "chunked", "gzip", "x-gzip"}:
                return f"transfer encoding {coding}"
        if content not in {"", "identity", "none", "gzip", "x-gzip"}:
            return f"content encoding {content}"
        length = self.fields.get("content-length", "")
        # Only a table ends with its length, because casters also give streams a length, some of
        # them 0.
        limit = int(length) if self.is_table and re.fullmatch(r"[0-9]{1,9}", length) else None
        outer: BodyDecoder = Chunked() if "chunked" in transfer else IdentityBody(limit)
        if content.endswith("gzip") or any(each.endswith("gzip") for each in transfer):
            return Stacked(outer, Gzip())
        return outer


class HeadReader:
    """Reader of one response header from a stream cut anywhere. Never raises; bounded."""

    def __init__(self) -> None:
        self._buffer = b""
        self._head: tuple[str, int, str] | None = None
        self._fields: dict[str, str] = {}
        self._total = 0
        self.error = ""
        """Reason why this is not a caster's response; empty if it may be one."""
        self.begun = False
        """True once a byte has arrived."""

    def feed(self, data: bytes) -> tuple[Head, bytes] | None:
        """Return the header and the first bytes of the body; None while it is incomplete, or if
        ``error`` is set."""
        self._buffer += data
        self.begun = self.begun or bool(data)
        while not self.error:
            if self._head is None:
                if not self._read_status():
                    return None
                assert self._head is not None
                if self._head[0] == "ERROR":
                    return self._finish()
                continue
            if self._head[0] == "ICY" and self._body_stands_here():
                return self._finish()
            line = self._line()
            if line is None:
                return None
            if not line:
                return self._finish()
            self._add(line)
        return None

    def _finish(self) -> tuple[Head, bytes]:
        assert self._head is not None
        rest, self._buffer = self._buffer, b""
        return Head(*self._head, self._fields), rest

    def _line(self) -> bytes | None:
        """Return the next line without its end, None if incomplete."""
        found = self._buffer.find(b"\n")
        if found < 0 or found > MAX_LINE_BYTES:
            if found > 0 or len(self._buffer) > MAX_LINE_BYTES:
                self.error = f"the reply header has a line of more than {MAX_LINE_BYTES} bytes"
            return None
        self._total += found + 1
        if self._total > MAX_HEAD_BYTES:
            self.error = f"the reply header is longer than {MAX_HEAD_BYTES} bytes"
            return None
        line, self._buffer = self._buffer[:found], self._buffer[found + 1 :]
        return line.removesuffix(b"\r")

    def _read_status(self) -> bool:
        # Line ends left over from an earlier response may precede a status line.
        self._buffer = self._buffer.lstrip(b"\r\n")
        if not any(self._buffer.startswith(start[: len(self._buffer)]) for start in _STARTS):
            if self._buffer[0] == 0xD3:
                self.error = (
                    "RTCM arrives without a reply: this is a plain source, not a caster; use "
                    "the driver rtcm"
                )
            elif len(self._buffer) >= 16 or b"\n" in self._buffer:
                begin = self._buffer[:16].partition(b"\n")[0].rstrip()
                self.error = f"the reply begins with {begin!r}: this is not a caster"
            return False
        line = self._line()
        if line is None:
            return False
        text = line.decode("latin-1")
        if text.startswith("ERROR"):
            self._head = ("ERROR", 0, text[5:].lstrip(" -").strip())
            return True
        match = _STATUS.match(text)
        if match is None:
            self.error = f"the reply has no status: {text[:60]!r}"
            return False
        self._head = (
            text.partition(" ")[0].partition("/")[0],
            int(match[1]),
            (match[2] or "").strip(),
        )
        return True

    def _body_stands_here(self) -> bool:
        """True if a version 1 body has begun, which some casters send without an empty line before
        it.

        Bytes that may still form a header field are waited for. RTCM is soon recognised: most of
        its bytes, the first included, are invalid in a field.
        """
        if (
            not self._buffer
            or self._buffer in {b"\r", b"\n"}
            or self._buffer.startswith((b"\r\n", b"\n"))
        ):
            return False
        line, newline, _ = self._buffer[: MAX_LINE_BYTES + 1].partition(b"\n")
        return not (_FIELD.match(line.removesuffix(b"\r")) if newline else _FIELD_BEGUN.match(line))

    def _add(self, line: bytes) -> None:
        name, colon, value = line.decode("latin-1").partition(":")
        if colon:
            self._fields[name.strip().lower()] = value.strip()
