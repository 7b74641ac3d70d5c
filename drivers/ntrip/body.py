"""Decoders of HTTP response bodies, chunked or gzip, from a stream cut anywhere. Pure, bounded,
never raising.

A decoder returns what it could decode and gives the reason in ``error`` if it cannot continue. TCP
does not damage bytes, so an invalid body means a broken server, and only a new connection helps.
"""

import re
import zlib
from typing import Final, Protocol

MAX_CHUNK_LINE_BYTES: Final = 256
MAX_EXPANSION: Final = 30
"""Largest ratio of output to input before a compressed body counts as hostile. Corrections hardly
compress, source tables tenfold."""
FREE_OUTPUT_BYTES: Final = 1 << 16
"""Output bytes exempt from this limit."""

_PIECE_BYTES: Final = 1 << 12
_GZIP_MAGIC: Final = b"\x1f\x8b"
_CHUNK_SIZE: Final = re.compile(rb"[ \t]*([0-9A-Fa-f]{1,8})[ \t]*(?:;.*)?\r?\Z", re.DOTALL)


class BodyDecoder(Protocol):
    """Interface of the body decoders."""

    @property
    def error(self) -> str:
        """Reason why decoding stopped; empty if none."""
        ...

    @property
    def ended(self) -> bool:
        """True once the body is complete."""
        ...

    def feed(self, data: bytes) -> list[bytes]:
        """Return the decoded bytes, in pieces of no significance."""
        ...


class IdentityBody:
    """Decoder of an uncoded body of ``length`` bytes, or until the connection closes."""

    def __init__(self, length: int | None = None) -> None:
        self._left = length
        self.error = ""
        self.ended = length == 0

    def feed(self, data: bytes) -> list[bytes]:
        """Return the bytes up to the length."""
        if self._left is not None:
            data = data[: self._left]
            self._left -= len(data)
            self.ended = self._left == 0
        return [data] if data else []


class Chunked:
    """Decoder of Transfer-Encoding: chunked, RFC 9112 section 7.1. Passes data on before its chunk
    is complete.

    It also accepts what casters send: bare line feeds, spaces around the size, either letter case.
    """

    def __init__(self) -> None:
        self._line = b""
        self._left = 0
        self._expect = "size"
        self.error = ""
        self.ended = False
        self.chunks = 0
        """Chunks with data that have begun."""

    def feed(self, data: bytes) -> list[bytes]:
        pieces: list[bytes] = []
        at, end = 0, len(data)
        while at < end and not self.error and not self.ended:
            if self._expect == "data":
                stop = min(at + self._left, end)
                pieces.append(data[at:stop])
                self._left -= stop - at
                at = stop
                if not self._left:
                    self._expect = "end"
                continue
            found = data.find(b"\n", at)
            stop = end if found < 0 else found
            self._line += data[at:stop]
            if len(self._line) > MAX_CHUNK_LINE_BYTES:
                self.error = "a chunk of the body has no size"
            elif found >= 0:
                line, self._line = self._line, b""
                self._on_line(line)
            at = stop + 1
        return pieces

    def _on_line(self, line: bytes) -> None:
        if self._expect == "end":
            if line not in {b"", b"\r"}:
                self.error = "a chunk of the body is longer than its size says"
            self._expect = "size"
        elif self._expect == "size":
            match = _CHUNK_SIZE.match(line)
            if match is None:
                self.error = "a chunk of the body has no size"
                return
            self._left = int(match[1], 16)
            self.chunks += self._left > 0
            self._expect = "data" if self._left else "trailer"
        elif line in {b"", b"\r"}:
            self.ended = True


class Gzip:
    """Decoder of Content-Encoding: gzip, one or several members, cut anywhere (RFC 1952).

    A body that is not compressed despite its header passes unchanged.
    """

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(31)
        self._start = b""
        self._plain = False
        self._in = 0
        self._out = 0
        self.error = ""
        self.ended = False
        self.members = 0
        """Members completed with a valid checksum."""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the decompressed bytes available so far."""
        if self.error:
            return []
        if self._plain:
            return [data] if data else []
        if self._in < len(_GZIP_MAGIC):
            self._start += data
            if not _GZIP_MAGIC.startswith(self._start[:2]):
                self._plain = True
                return [self._start]
            if len(self._start) < len(_GZIP_MAGIC):
                return []
            data, self._start = self._start, b""
        self._in += len(data)
        pieces: list[bytes] = []
        try:
            more = bool(data)
            while more:
                piece = self._inflate.decompress(data, _PIECE_BYTES)
                if piece:
                    pieces.append(piece)
                self._out += len(piece)
                if self._out > FREE_OUTPUT_BYTES + MAX_EXPANSION * self._in:
                    self.error = "the compressed body expands beyond the limit"
                    break
                if self._inflate.eof:
                    self.members += 1
                    data = self._inflate.unused_data
                    self._inflate = zlib.decompressobj(31)
                    more = bool(data)
                else:
                    data = self._inflate.unconsumed_tail
                    # A full piece may have left output behind although all input is consumed.
                    more = bool(data) or len(piece) == _PIECE_BYTES
        except zlib.error as error:
            self.error = f"the compressed body is damaged: {error}"
        return pieces


class Stacked:
    """Decoder of a content coding inside a transfer coding."""

    def __init__(self, outer: BodyDecoder, inner: BodyDecoder) -> None:
        self.outer = outer
        self.inner = inner

    @property
    def error(self) -> str:
        return self.outer.error or self.inner.error

    @property
    def ended(self) -> bool:
        """True once the transfer coding is complete, which knows the end of the body."""
        return self.outer.ended

    def feed(self, data: bytes) -> list[bytes]:
        return [inner for outer in self.outer.feed(data) for inner in self.inner.feed(outer)]
