"""Framing of the pipe from the daemon to the log writer: ``length u32 | kind u8 | payload``. No
I/O."""

import struct
from collections.abc import Iterator
from enum import IntEnum

import msgspec
from msgspec import Struct

from vehicled.log.schema import Attachment, RunHeader

HEAD = struct.Struct("<IB")
"""Length of the payload, then kind."""
MAX_FRAME_BYTES = 1 << 30


class LogFrameKind(IntEnum):
    """Type of a frame."""

    OPENING = 1
    """First frame: :class:`WriterConfig` as MessagePack."""
    RECORDS = 2
    """MCAP message records, as they go into one chunk."""
    END = 3
    """Last frame of an orderly end: a map of strings as MessagePack, stored as metadata."""


class WriterConfig(Struct, frozen=True, kw_only=True):
    """Configuration of the writer, sent in the first frame."""

    folder: str
    stem: str
    header: RunHeader
    attachments: list[Attachment]
    compression: str
    """``zstd``, ``lz4`` or ``none``."""
    rotate_bytes: int
    quota_bytes: int
    sync_period_s: float
    """Time between syncs to disk, s: the most that a power loss costs, besides data still in the
    daemon."""
    projections: bool = True
    waits_for_space: bool = True
    """True if the writer waits for space while the disk is full; otherwise it ends."""


class WriterReport(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Status report of the writer, one JSON object per line."""

    state: str
    """``open``, ``rotated``, ``lost``, ``waiting``, ``resumed``, ``failed`` or ``done``. After
    ``lost`` the log goes on in another file; it stands still from ``waiting`` to ``resumed``."""
    path: str = ""
    detail: str = ""
    passing: bool = False
    """True if a writer that is started again may succeed."""
    files: list[str] = msgspec.field(default_factory=list)
    messages: int = 0
    chunks: int = 0
    bytes: int = 0
    """Size of the files, bytes."""
    record_bytes: int = 0
    """Size of the records before compression, bytes."""
    cpu_s: float = 0.0


def frame(kind: LogFrameKind, payload: bytes) -> bytes:
    """Return an encoded frame."""
    return HEAD.pack(len(payload), kind) + payload


class FrameDecoder:
    """Incremental decoder of frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[LogFrameKind, bytes]]:
        """Yield the frames completed by ``data``. Raises ``ValueError`` for an invalid frame; the
        stream is then lost."""
        buffer = self._buffer
        buffer += data
        at = 0
        while len(buffer) - at >= HEAD.size:
            length, kind = HEAD.unpack_from(buffer, at)
            if length > MAX_FRAME_BYTES:
                raise ValueError(f"invalid frame length: {length} bytes")
            stop = at + HEAD.size + length
            if stop > len(buffer):
                break
            yield LogFrameKind(kind), bytes(memoryview(buffer)[at + HEAD.size : stop])
            at = stop
        del buffer[:at]

    @property
    def rest(self) -> int:
        """Bytes of the incomplete last frame."""
        return len(self._buffer)
