"""Index of an MCAP file, from its summary, or by scanning its records if the summary is missing or
damaged.

A damaged record head does not end the scan: a chunk holds its length twice, and the next intact
chunk is searched for. Nothing is decompressed. Chunks are kept in one flat array, so a file of many
gigabytes costs a few megabytes.
"""

import io
import os
import re
import struct
import zlib
from array import array
from collections.abc import Iterator
from contextlib import suppress
from typing import BinaryIO

import numpy as np
from mcap.data_stream import ReadDataStream
from mcap.exceptions import McapError
from mcap.opcode import Opcode
from mcap.records import (
    Attachment,
    AttachmentIndex,
    Channel,
    Header,
    Metadata,
    MetadataIndex,
    Schema,
    Statistics,
)
from msgspec import Struct, field

from vehicled.log.errors import LogError, why
from vehicled.log.mcapfile import MAGIC

CHUNK_DTYPE = np.dtype(
    [
        (name, "<u8")
        for name in ("offset", "length", "start_ns", "end_ns", "index_length", "channels")
    ]
)
"""Chunk record and its message indexes; bit n of ``channels`` is set if messages of channel n may
be inside."""
ALL_CHANNELS = 2**64 - 1

_HEAD = struct.Struct("<BQ")
_CHUNK_TIMES = struct.Struct("<QQ")
_CHUNK_INDEX = struct.Struct("<QQQQI")
_CHANNEL_OFFSET = struct.Struct("<HQ")
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_DATA_END = struct.Struct("<BQI")
_FOOTER_BYTES = 9 + 20 + 8
_SMALL_LIMIT = 1 << 30
_CHUNK_FIXED = struct.Struct("<QQQII")
"""Start, end, size, checksum, length of the compression name; then that name and the length of the
data."""
CHUNK_PEEK_BYTES = _HEAD.size + _CHUNK_FIXED.size + 4 + _U64.size
"""Bytes that :func:`chunk_length` needs from a chunk."""
_CHUNK_HEAD = re.compile(rb"\x06(?=[\s\S]{4}\x00{4})")
_SCAN_BYTES = 1 << 20
DAMAGE = (McapError, struct.error, ValueError, EOFError, IndexError, OverflowError, MemoryError)
"""Exceptions raised by reading a damaged record; the last two by a length that is none."""


class LogLayout(Struct):
    """Contents of a file and its completeness."""

    size: int
    mcap_profile: str = ""
    library: str = ""
    problem: str = ""
    """Reason why the file is incomplete; empty for a complete file."""
    cut: bool = False
    """True if the file ends before its end: it is being written, its writer was stopped, or it was
    cut off."""
    lost: list[tuple[int, int]] = field(default_factory=list)
    """Offset and length of the bytes between and behind the intact records of an incomplete
    file."""
    data_end: int = 0
    """Offset of the record that ends the data; 0 if there is none."""
    data_crc: int = 0
    """Checksum of all bytes before it; 0 if the writer gave none."""
    schemas: dict[int, Schema] = field(default_factory=dict)
    channels: dict[int, Channel] = field(default_factory=dict)
    metadata: dict[str, dict[str, str]] = field(default_factory=dict)
    """Metadata by name; the last record of a name counts."""
    metadata_places: list[tuple[int, int]] = field(default_factory=list)
    """Offset of the body and length of each metadata record."""
    attachments: list[AttachmentIndex] = field(default_factory=list)
    statistics: Statistics | None = None
    chunks: np.ndarray = field(default_factory=lambda: np.empty(0, CHUNK_DTYPE))

    @property
    def complete(self) -> bool:
        """True if the file ended orderly, with an intact summary."""
        return not self.problem

    @property
    def lost_bytes(self) -> int:
        """Number of bytes between and behind the intact records of an incomplete file."""
        return sum(length for _, length in self.lost)


def open_file(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a log for reading. Raises :class:`LogError` if it is not an MCAP file."""
    if os.path.isdir(path):
        raise LogError(f"{path}: is a folder, not a log; give one of its .mcap files")
    try:
        stream = open(path, "rb")  # noqa: SIM115 - the caller closes it
    except OSError as error:
        raise LogError(why(error)) from error
    magic = stream.read(len(MAGIC))
    if magic == MAGIC:
        return stream
    stream.close()
    if not magic:
        raise LogError(f"{path}: the file is empty")
    if magic[:5] == MAGIC[:5] and len(magic) == len(MAGIC):
        raise LogError(
            f"{path}: MCAP of major version {magic[5:6]!r}, which this vehicled does not know: "
            "update it"
        )
    if MAGIC.startswith(magic):
        raise LogError(
            f"{path}: cut off within its first {len(MAGIC)} bytes, there is nothing to recover"
        )
    kind = next((name for start, name in _KNOWN_MAGIC if magic.startswith(start)), "")
    raise LogError(f"{path}: not an MCAP file" + (f", it looks like {kind}" if kind else ""))


_KNOWN_MAGIC = (
    (b"\x89PNG", "a PNG image"),
    (b"SQLite f", "a SQLite database (perhaps a rosbag2 .db3)"),
    (b"#ROSBAG", "a ROS 1 bag"),
    (b"PK", "a ZIP archive"),
    (b"\x1f\x8b", "gzip data: decompress it first"),
    (b"\x28\xb5\x2f\xfd", "zstd data: decompress it first"),
    (b"ULog", "a PX4 ULog"),
    (b"\xa3\x95", "an ArduPilot DataFlash log"),
)


def read_layout(stream: BinaryIO) -> LogLayout:
    """Return the layout of an open file, from its summary if intact, else by scanning its
    records."""
    size = stream.seek(0, os.SEEK_END)
    try:
        layout = _from_summary(stream, size)
        problem = ""
    except DAMAGE as error:
        layout, problem = None, str(error)
    return layout if layout is not None else _from_walk(stream, size, problem)


def records_between(stream: BinaryIO, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """Yield (opcode, offset of the body, length) of the records in a range, up to the first
    truncated or invalid one."""
    at = start
    while at + _HEAD.size <= stop:
        stream.seek(at)
        head = stream.read(_HEAD.size)
        if len(head) < _HEAD.size:
            return
        opcode, length = _HEAD.unpack(head)
        # Opcodes from 0x80 are private to applications and skipped; file systems fill unwritten
        # blocks with zeros.
        if opcode == 0 or Opcode.DATA_END < opcode < 0x80 or at + _HEAD.size + length > stop:
            return
        yield opcode, at + _HEAD.size, length
        at += _HEAD.size + length


def _from_summary(stream: BinaryIO, size: int) -> LogLayout:
    if size < 2 * len(MAGIC) + _FOOTER_BYTES:
        raise ValueError("cut off")
    stream.seek(size - _FOOTER_BYTES)
    footer = stream.read(_FOOTER_BYTES)
    opcode, length, summary_start, _, _ = struct.unpack_from("<BQQQI", footer)
    if footer[-len(MAGIC) :] != MAGIC or opcode != Opcode.FOOTER or length != 20:
        raise ValueError(
            "it has no footer: the writer or the machine was stopped, or the file was cut off"
        )
    stop = size - _FOOTER_BYTES
    if not len(MAGIC) < summary_start < stop:
        raise ValueError("it has no summary")
    checked = _check_summary(stream, summary_start, size)
    layout = LogLayout(size=size)
    _read_data_end(stream, layout, summary_start - _DATA_END.size)
    _read_header(stream, layout)
    if layout.data_crc and not checked and layout.library.startswith("vehicled"):
        raise ValueError("the checksum of its summary was removed")
    chunks = array("Q")
    at = summary_start
    for opcode, offset, length in records_between(stream, summary_start, stop):
        at = offset + length
        if opcode == Opcode.CHUNK_INDEX:
            chunks.extend(_chunk_index(stream, offset, length, summary_start))
        elif opcode == Opcode.METADATA_INDEX:
            pointer = MetadataIndex.read(record_body(stream, offset, length))
            _read_metadata(stream, layout, pointer.offset + _HEAD.size, pointer.length - _HEAD.size)
        elif opcode == Opcode.ATTACHMENT_INDEX:
            layout.attachments.append(AttachmentIndex.read(record_body(stream, offset, length)))
        elif opcode == Opcode.STATISTICS:
            layout.statistics = Statistics.read(record_body(stream, offset, length))
        else:
            _read_definition(stream, layout, opcode, offset, length)
    if at != stop:
        raise ValueError("its summary is damaged")
    layout.chunks = np.frombuffer(chunks, CHUNK_DTYPE) if chunks else layout.chunks
    if layout.statistics is None or layout.statistics.chunk_count != len(layout.chunks):
        raise ValueError("its summary does not list every chunk")
    return layout


def _check_summary(stream: BinaryIO, summary_start: int, size: int) -> bool:
    """Return False if the summary has no checksum. Raises ValueError if its checksum does not
    fit."""
    stream.seek(size - len(MAGIC) - 4)
    (expected,) = struct.unpack("<I", stream.read(4))
    stream.seek(summary_start)
    left, found = size - len(MAGIC) - 4 - summary_start, 0
    while expected and left > 0:
        data = stream.read(min(left, _SCAN_BYTES))
        if not data:
            break
        found, left = zlib.crc32(data, found), left - len(data)
    if found != expected:
        raise ValueError("its summary is damaged")
    return bool(expected)


def _read_data_end(stream: BinaryIO, layout: LogLayout, at: int) -> None:
    stream.seek(max(at, 0))
    opcode, length, crc = _DATA_END.unpack(stream.read(_DATA_END.size))
    if opcode != Opcode.DATA_END or length != 4:
        raise ValueError("its data do not end where its summary begins")
    layout.data_end, layout.data_crc = at, crc


def _from_walk(stream: BinaryIO, size: int, problem: str) -> LogLayout:
    stream.seek(size - len(MAGIC))
    layout = LogLayout(size=size, problem=problem, cut=stream.read() != MAGIC)
    chunks = array("Q")
    at = len(MAGIC)
    while at < size:
        record = _record_at(stream, at, size)
        if record is None:
            found = _next_chunk(stream, at + 1, size)
            layout.lost.append((at, found - at))
            at = found
            continue
        opcode, length = record
        if opcode == Opcode.DATA_END:
            # The following records depend on the damaged one.
            with suppress(*DAMAGE):
                _read_data_end(stream, layout, at)
            break
        try:
            _read_walked(stream, layout, chunks, opcode, at + _HEAD.size, length)
        except DAMAGE:
            layout.lost.append((at, _HEAD.size + length))
        at += _HEAD.size + length
    layout.chunks = np.frombuffer(chunks, CHUNK_DTYPE) if chunks else layout.chunks
    return layout


def _read_walked(
    stream: BinaryIO, layout: LogLayout, chunks: "array[int]", opcode: int, offset: int, length: int
) -> None:
    at = offset - _HEAD.size
    if opcode == Opcode.CHUNK:
        stream.seek(offset)
        start_ns, end_ns = _CHUNK_TIMES.unpack(stream.read(_CHUNK_TIMES.size))
        chunks.extend((at, length + _HEAD.size, start_ns, end_ns, 0, ALL_CHANNELS))
    elif opcode == Opcode.MESSAGE_INDEX:
        if chunks and chunks[-6] + chunks[-5] + chunks[-2] == at:
            chunks[-2] += length + _HEAD.size
    elif opcode == Opcode.HEADER:
        _read_header(stream, layout)
    elif opcode == Opcode.METADATA:
        _read_metadata(stream, layout, offset, length)
    elif opcode == Opcode.ATTACHMENT:
        layout.attachments.append(_attachment(stream, offset, length))
    else:
        _read_definition(stream, layout, opcode, offset, length)


def _record_at(stream: BinaryIO, at: int, size: int) -> tuple[int, int] | None:
    """Return opcode and length of the record at an offset, with a damaged chunk head corrected;
    None if there is none."""
    stream.seek(at)
    head = stream.read(CHUNK_PEEK_BYTES)
    if len(head) < _HEAD.size:
        return None
    opcode, length = _HEAD.unpack_from(head)
    known = 0 < opcode <= Opcode.DATA_END or opcode >= 0x80
    leads_on = (
        known
        and at + _HEAD.size + length <= size
        and _may_begin(stream, at + _HEAD.size + length, size)
    )
    inner = chunk_length(head)
    if inner is not None and at + _HEAD.size + inner <= size:
        if inner == length:
            return Opcode.CHUNK, inner
        if (
            opcode == Opcode.CHUNK
            and not leads_on
            and _may_begin(stream, at + _HEAD.size + inner, size)
        ):
            return Opcode.CHUNK, inner
    if opcode == Opcode.DATA_END and length != 4:
        return None
    return (opcode, length) if leads_on else None


def chunk_length(head: bytes) -> int | None:
    """Return the length of a chunk as computed from its own fields; None if the bytes do not look
    like a chunk."""
    if len(head) < _HEAD.size + _CHUNK_FIXED.size + _U64.size:
        return None
    *_, name_bytes = _CHUNK_FIXED.unpack_from(head, _HEAD.size)
    at = _HEAD.size + _CHUNK_FIXED.size
    if (
        name_bytes > 4
        or head[at : at + name_bytes] not in (b"", b"zstd", b"lz4")
        or len(head) < at + name_bytes + _U64.size
    ):
        return None
    (data_bytes,) = _U64.unpack_from(head, at + name_bytes)
    return int(_CHUNK_FIXED.size + name_bytes + _U64.size + data_bytes)


def _may_begin(stream: BinaryIO, at: int, size: int) -> bool:
    """True if a record, the end of the file or unwritten blocks may begin at an offset; the record
    may be truncated."""
    stream.seek(at)
    head = stream.read(CHUNK_PEEK_BYTES)
    if len(head) < _HEAD.size or not any(head[: _HEAD.size]):
        return True
    opcode: int
    length: int
    opcode, length = _HEAD.unpack_from(head)
    inner = chunk_length(head)
    if (
        inner is not None
        and at + _HEAD.size + inner <= size
        and (opcode == Opcode.CHUNK or length == inner)
    ):
        return True
    # Opcodes from 0x80 are private to applications.
    if opcode >= 0x80:
        return at + _HEAD.size + length <= size
    return 0 < opcode <= Opcode.DATA_END and length < 1 << 32


def _next_chunk(stream: BinaryIO, start: int, size: int) -> int:
    """Return the offset of the next intact chunk; ``size`` if there is none."""
    while start < size:
        stream.seek(start)
        block = stream.read(_SCAN_BYTES)
        for match in _CHUNK_HEAD.finditer(block):
            at = start + match.start()
            stream.seek(at)
            head = stream.read(CHUNK_PEEK_BYTES)
            length = _HEAD.unpack_from(head)[1]
            if chunk_length(head) == length and at + _HEAD.size + length <= size:
                return at
        if len(block) < _SCAN_BYTES:
            break
        start += len(block) - _HEAD.size
    return size


def _read_header(stream: BinaryIO, layout: LogLayout) -> None:
    stream.seek(len(MAGIC))
    opcode, length = _HEAD.unpack(stream.read(_HEAD.size))
    if opcode != Opcode.HEADER:
        raise ValueError("it does not begin with a header")
    header = Header.read(record_body(stream, len(MAGIC) + _HEAD.size, length))
    layout.mcap_profile, layout.library = header.profile, header.library


def _read_metadata(stream: BinaryIO, layout: LogLayout, offset: int, length: int) -> None:
    record = Metadata.read(record_body(stream, offset, length))
    layout.metadata[record.name] = record.metadata
    layout.metadata_places.append((offset, length))


def _read_definition(
    stream: BinaryIO, layout: LogLayout, opcode: int, offset: int, length: int
) -> None:
    if opcode == Opcode.SCHEMA:
        schema = Schema.read(record_body(stream, offset, length))
        layout.schemas[schema.id] = schema
    elif opcode == Opcode.CHANNEL:
        channel = Channel.read(record_body(stream, offset, length))
        layout.channels[channel.id] = channel


def _attachment(stream: BinaryIO, offset: int, length: int) -> AttachmentIndex:
    """Build the index entry of an attachment, without reading its data."""
    body = record_body(stream, offset, min(length, 65536))
    log_time, create_time = body.read8(), body.read8()
    name, media_type = body.read_prefixed_string(), body.read_prefixed_string()
    return AttachmentIndex(
        offset - _HEAD.size,
        length + _HEAD.size,
        log_time,
        create_time,
        body.read8(),
        name,
        media_type,
    )


def read_attachment(stream: BinaryIO, offset: int, length: int) -> Attachment:
    """Return an attachment. Raises one of ``DAMAGE`` if it is cut off, or has changed since it was
    written: its record ends with a checksum, or 0."""
    body = _record_bytes(stream, offset + _HEAD.size, length - _HEAD.size)
    (expected,) = _U32.unpack_from(body, len(body) - _U32.size)
    if expected and zlib.crc32(body[: -_U32.size]) != expected:
        raise ValueError("wrong checksum")
    attachment: Attachment = Attachment.read(ReadDataStream(io.BytesIO(body)))
    return attachment


def record_body(stream: BinaryIO, offset: int, length: int) -> ReadDataStream:
    """Return the body of a record. Raises ``ValueError`` if it is truncated."""
    return ReadDataStream(io.BytesIO(_record_bytes(stream, offset, length)))


def _record_bytes(stream: BinaryIO, offset: int, length: int) -> bytes:
    if not 0 <= length <= _SMALL_LIMIT:
        raise ValueError("a record of impossible length")
    stream.seek(offset)
    data = stream.read(length)
    if len(data) < length:
        raise ValueError("a record is cut off")
    return data


def _chunk_index(stream: BinaryIO, offset: int, length: int, summary_start: int) -> tuple[int, ...]:
    """Parse a row of ``CHUNK_DTYPE``. Hand-written for speed: each stream has a chunk every half
    second."""
    stream.seek(offset)
    body = stream.read(length)
    start_ns, end_ns, chunk_start, chunk_length, map_bytes = _CHUNK_INDEX.unpack_from(body)
    after = _CHUNK_INDEX.size + map_bytes
    (index_length,) = _U64.unpack_from(body, after)
    if chunk_start + chunk_length + index_length > summary_start:
        raise ValueError("its chunk index points outside of the data")
    mask = 0
    for channel, _ in _CHANNEL_OFFSET.iter_unpack(body[_CHUNK_INDEX.size : after]):
        mask |= channel_bit(channel)
    return chunk_start, chunk_length, start_ns, end_ns, index_length, mask


def channel_bit(channel: int) -> int:
    """Return the bit of a channel in ``channels``; the last bit stands for all channels from 63."""
    return 1 << min(channel, 63)
