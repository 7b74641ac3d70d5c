"""``vehicled log recover``: everything up to the last whole record of a cut or killed file, as a proper file.

The writer finishes its file when the daemon is killed; this is for what a killed writer, a full disk or a power cut leaves. Chunks
are copied as they are compressed; index, statistics and summary are made anew.
"""

import io
import os
from collections.abc import Iterator
from typing import BinaryIO

from mcap.data_stream import ReadDataStream
from mcap.opcode import Opcode
from mcap.records import Attachment, Channel, Chunk, Metadata, Schema
from msgspec import Struct

from vehicled.log.errors import LogError, why
from vehicled.log.layout import Layout, open_file, records_between
from vehicled.log.mcapfile import McapFile
from vehicled.log.reader import DAMAGE, LogReader, unpack_chunk


class RecoverReport(Struct, frozen=True, kw_only=True):
    """What was saved."""

    source: str
    path: str
    """The new file; empty when the source is complete and nothing had to be done."""
    problem: str
    """What was wrong with the source."""
    messages: int
    chunks: int
    damaged_chunks: int
    """Skipped in the middle of the file."""
    lost_bytes: int
    """Behind the last whole record."""
    duration_s: float

    def to_text(self) -> str:
        """In words."""
        if not self.path:
            return f"{self.source}: complete, nothing to recover\n"
        skipped = f", {self.damaged_chunks} damaged chunks skipped" if self.damaged_chunks else ""
        return (
            f"{self.source}: {self.problem}\n"
            f"{self.path}: {self.messages} messages in {self.chunks} chunks over {self.duration_s:.1f} s{skipped}; "
            f"{self.lost_bytes} bytes behind the last whole record are lost\n"
        )


def recover(path: str | os.PathLike[str], out: str | os.PathLike[str] | None = None) -> RecoverReport:
    """Write what is whole in ``path`` to ``out``, by default ``<name>_recovered.mcap`` beside it. The source is not touched.

    Raises :class:`LogError` when the source is no log or the target cannot be written; an existing target is never overwritten.
    """
    source = os.fspath(path)
    with LogReader(source) as log:
        layout = log.layout
        damaged = 0
        if layout.complete:
            damaged = _damaged(log)
            if not damaged:
                return _report(source, "", layout, None, 0)
    target = os.fspath(out) if out is not None else os.path.splitext(source)[0] + "_recovered.mcap"
    try:
        stream = open(target, "xb")  # noqa: SIM115 - entered below
    except OSError as error:
        raise LogError(f"the recovered log cannot be written: {why(error)}") from error
    try:
        with stream, open_file(source) as old:
            file = McapFile(stream, layout.mcap_profile, layout.library or "vehicled log recover")
            damaged = 0
            for opcode, body in _whole(old, layout.whole_bytes):
                damaged += _copy(file, opcode, body)
            file.finish()
    except BaseException as error:
        os.unlink(target)
        if isinstance(error, OSError):
            raise LogError(f"the recovered log cannot be written: {why(error)}") from error
        raise
    return _report(source, target, layout, file, damaged)


def _report(source: str, target: str, layout: Layout, file: McapFile | None, damaged: int) -> RecoverReport:
    statistics = layout.statistics
    duration_ns = statistics.message_end_time - statistics.message_start_time if statistics else 0
    return RecoverReport(
        source=source,
        path=target,
        problem=layout.problem or ("it has damaged chunks" if damaged else ""),
        messages=file.message_count if file else statistics.message_count if statistics else 0,
        chunks=file.chunk_count if file else len(layout.chunks),
        damaged_chunks=damaged,
        lost_bytes=layout.size - layout.whole_bytes,
        duration_s=file.duration_s if file else duration_ns / 1e9,
    )


def _damaged(log: LogReader) -> int:
    for number in range(len(log.layout.chunks)):
        log.records(number)
    return log.damaged_chunks


def _whole(stream: BinaryIO, whole_bytes: int) -> Iterator[tuple[int, bytes]]:
    for opcode, offset, length in records_between(stream, 8, whole_bytes):
        if opcode in (Opcode.DATA_END, Opcode.FOOTER):
            return
        stream.seek(offset)
        yield opcode, stream.read(length)


def _copy(file: McapFile, opcode: int, body: bytes) -> int:
    """Copy one record; 1 when it is a chunk that cannot be read."""
    stream = ReadDataStream(io.BytesIO(body))
    try:
        if opcode == Opcode.CHUNK:
            chunk = Chunk.read(stream)
            records = unpack_chunk(chunk)
            for inner, data in _definitions(records):
                # Other writers put these inside; the summary must have them too.
                _copy(file, inner, data)
            file.add_chunk(records, chunk.compression, chunk.data)
        elif opcode == Opcode.SCHEMA:
            file.add_schema(Schema.read(stream))
        elif opcode == Opcode.CHANNEL:
            file.add_channel(Channel.read(stream))
        elif opcode == Opcode.METADATA:
            record = Metadata.read(stream)
            file.add_metadata(record.name, record.metadata)
        elif opcode == Opcode.ATTACHMENT:
            item = Attachment.read(stream)
            file.add_attachment(item.name, item.media_type, item.data, item.log_time, item.create_time)
    except DAMAGE:
        return 1
    return 0


def _definitions(records: bytes) -> Iterator[tuple[int, bytes]]:
    for opcode, offset, length in records_between(io.BytesIO(records), 0, len(records)):
        if opcode in (Opcode.SCHEMA, Opcode.CHANNEL):
            yield opcode, records[offset : offset + length]
