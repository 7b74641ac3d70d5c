"""Writes an MCAP file from chunks of encoded message records. An unfinished file can be recovered.

Schemas and channels are written outside the chunks, before the first chunk that needs them, so
every chunk before a cut is readable.
"""

import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import BinaryIO

from mcap.data_stream import RecordBuilder
from mcap.opcode import Opcode
from mcap.records import (
    Attachment,
    AttachmentIndex,
    Channel,
    Chunk,
    ChunkIndex,
    DataEnd,
    Footer,
    Header,
    McapRecord,
    Metadata,
    MetadataIndex,
    Schema,
    Statistics,
    SummaryOffset,
)

from vehicled.log.errors import LogError

MAGIC = b"\x89MCAP0\r\n"
MESSAGE_HEAD = struct.Struct("<BQHIQQ")
"""Message record up to its data: opcode, length, channel, sequence, log time, publish time."""

Compress = Callable[[bytes], bytes]


def compressor(name: str) -> tuple[str, Compress]:
    """Return MCAP's name of a compression and its function. Raises :class:`LogError` if it is not
    installed."""
    if name == "none":
        return "", bytes
    if name == "zstd":
        import zstandard

        return "zstd", zstandard.ZstdCompressor(level=1).compress
    if name == "lz4":
        try:
            import lz4.frame
        except ImportError:
            raise LogError(
                'compression "lz4" needs the package lz4: install it, or set log.compression = '
                '"zstd"'
            ) from None
        return "lz4", lz4.frame.compress
    raise LogError(f'unknown compression "{name}": use "zstd", "lz4" or "none"')


def message_heads(records: bytes) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield (offset and length of the data, channel, sequence, log time) of each message. Raises
    ``ValueError`` for a torn record.
    """
    at, end = 0, len(records)
    unpack, message = MESSAGE_HEAD.unpack_from, int(Opcode.MESSAGE)
    while at < end:
        if end - at < 31:
            raise ValueError("truncated record")
        opcode, length, channel, sequence, log_time, _ = unpack(records, at)
        stop = at + 9 + length
        if stop > end:
            raise ValueError("truncated record")
        if opcode == message:
            if length < 22:
                raise ValueError("a message record shorter than its head")
            yield at, length - 22, channel, sequence, log_time
        at = stop


class McapFile:
    """Writer of one MCAP file to ``stream``, which needs ``write`` and is at its start. Disk errors
    are raised as OSError."""

    def __init__(self, stream: BinaryIO, profile: str, library: str) -> None:
        self._stream = stream
        self.size = 0
        """Bytes written."""
        self._crc = 0
        self.message_count = 0
        self.chunk_count = 0
        self._counts: dict[int, int] = {}
        self._start_ns = 2**63 - 1
        self._end_ns = 0
        self._schemas: dict[int, Schema] = {}
        self._channels: dict[int, Channel] = {}
        # Kept encoded to save memory: a log of a day has a million chunks.
        self._chunk_indexes = RecordBuilder()
        self._attachment_indexes: list[AttachmentIndex] = []
        self._metadata_indexes: list[MetadataIndex] = []
        self._write(MAGIC)
        self._write_record(Header(profile, library))

    def add_schema(self, schema: Schema) -> None:
        """Write a schema, once."""
        if schema.id not in self._schemas:
            self._schemas[schema.id] = schema
            self._write_record(schema)

    def add_channel(self, channel: Channel) -> None:
        """Write a channel, once. Its schema must be written first."""
        if channel.id not in self._channels:
            self._channels[channel.id] = channel
            self._write_record(channel)

    def schema_id(self, name: str) -> int:
        """Return the id of a schema by name; 0 if there is none."""
        return next((schema.id for schema in self._schemas.values() if schema.name == name), 0)

    def add_metadata(self, name: str, metadata: Mapping[str, str]) -> None:
        """Write a metadata record."""
        offset = self.size
        length = self._write_record(Metadata(name, dict(metadata)))
        self._metadata_indexes.append(MetadataIndex(offset, length, name))

    def add_attachment(
        self, name: str, media_type: str, data: bytes, log_time_ns: int, create_time_ns: int
    ) -> None:
        """Write an attachment."""
        offset = self.size
        length = self._write_record(Attachment(create_time_ns, log_time_ns, name, media_type, data))
        self._attachment_indexes.append(
            AttachmentIndex(
                offset, length, log_time_ns, create_time_ns, len(data), name, media_type
            )
        )

    def add_chunk(
        self,
        records: bytes,
        compression: str,
        compressed: bytes,
        define: Callable[[int], None] | None = None,
    ) -> None:
        """Write a chunk of message records with its index. Raises ``ValueError`` for a torn record.

        ``define`` is called for each unknown channel and must add it.
        """
        index: dict[int, list[int]] = {}
        start_ns, end_ns, count = 2**63 - 1, 0, 0
        for offset, _, channel, _, log_time in message_heads(records):
            entries = index.get(channel)
            if entries is None:
                entries = index[channel] = []
            entries += (log_time, offset)
            if log_time < start_ns:
                start_ns = log_time
            if log_time > end_ns:
                end_ns = log_time
            count += 1
        if not count:
            return
        if define is not None:
            for channel in index:
                if channel not in self._channels:
                    define(channel)
        chunk_offset = self.size
        chunk_length = self._write_record(
            Chunk(compression, compressed, end_ns, start_ns, zlib.crc32(records), len(records))
        )
        offsets: dict[int, int] = {}
        for channel, entries in index.items():
            offsets[channel] = self.size
            # Packed at once: mcap's MessageIndex writes number by number, which costs more than the
            # rest of the chunk.
            body = struct.pack(f"<HI{len(entries)}Q", channel, 8 * len(entries), *entries)
            self._write(struct.pack("<BQ", Opcode.MESSAGE_INDEX, len(body)) + body)
            self._counts[channel] = self._counts.get(channel, 0) + len(entries) // 2
        ChunkIndex(
            chunk_length=chunk_length,
            chunk_start_offset=chunk_offset,
            compression=compression,
            compressed_size=len(compressed),
            message_end_time=end_ns,
            message_index_length=self.size - chunk_offset - chunk_length,
            message_index_offsets=offsets,
            message_start_time=start_ns,
            uncompressed_size=len(records),
        ).write(self._chunk_indexes)
        self.chunk_count += 1
        self.message_count += count
        self._start_ns = min(self._start_ns, start_ns)
        self._end_ns = max(self._end_ns, end_ns)

    @property
    def duration_s(self) -> float:
        """Time from first to last log time, s."""
        return (self._end_ns - self._start_ns) / 1e9 if self.message_count else 0.0

    def finish(self) -> None:
        """Write summary and footer. The stream stays open."""
        # Of all bytes so far, so that a reader finds damage anywhere without unpacking a chunk.
        self._write_record(DataEnd(self._crc))
        summary_start = self.size
        statistics = Statistics(
            attachment_count=len(self._attachment_indexes),
            channel_count=len(self._channels),
            channel_message_counts=self._counts,
            chunk_count=self.chunk_count,
            message_count=self.message_count,
            message_end_time=self._end_ns,
            message_start_time=self._start_ns if self.message_count else 0,
            metadata_count=len(self._metadata_indexes),
            schema_count=len(self._schemas),
        )
        groups: list[tuple[Opcode, bytes]] = [
            (Opcode.SCHEMA, _encode(*self._schemas.values())),
            (Opcode.CHANNEL, _encode(*self._channels.values())),
            (Opcode.STATISTICS, _encode(statistics)),
            (Opcode.CHUNK_INDEX, self._chunk_indexes.end()),
            (Opcode.ATTACHMENT_INDEX, _encode(*self._attachment_indexes)),
            (Opcode.METADATA_INDEX, _encode(*self._metadata_indexes)),
        ]
        summary = b"".join(data for _, data in groups)
        offsets, at = b"", summary_start
        for opcode, data in groups:
            if data:
                offsets += _encode(
                    SummaryOffset(group_length=len(data), group_opcode=opcode, group_start=at)
                )
            at += len(data)
        footer_head = struct.pack("<BQQQ", Opcode.FOOTER, 20, summary_start, at)
        crc = zlib.crc32(footer_head, zlib.crc32(offsets, zlib.crc32(summary)))
        self._write(summary)
        self._write(offsets)
        self._write_record(Footer(summary_start, at, crc))
        self._write(MAGIC)

    def _write_record(self, record: McapRecord) -> int:
        data = _encode(record)
        self._write(data)
        return len(data)

    def _write(self, data: bytes) -> None:
        self._stream.write(data)
        self.size += len(data)
        self._crc = zlib.crc32(data, self._crc)


def _encode(*records: McapRecord) -> bytes:
    builder = RecordBuilder()
    for record in records:
        record.write(builder)
    return bytes(builder.end())
