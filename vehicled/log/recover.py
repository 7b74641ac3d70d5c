"""``vehicled log recover``: copies the intact part of a truncated or damaged file into a complete
file.

The writer finishes its file even if the daemon is killed; this is for a killed writer, a full disk,
a power cut or a bad disk. Chunks are found by the index or by scanning and copied compressed;
index, statistics and summary are rebuilt.
"""

import io
import os
from collections import Counter
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
from mcap.data_stream import ReadDataStream
from mcap.opcode import Opcode
from mcap.records import Channel, Metadata, Schema
from msgspec import Struct, field

from vehicled.log.errors import LogError, why
from vehicled.log.layout import (
    DAMAGE,
    LogLayout,
    open_file,
    read_attachment,
    record_body,
    records_between,
)
from vehicled.log.mcapfile import McapFile
from vehicled.log.reader import LogReader, unpack_chunk


class RecoverReport(Struct, frozen=True, kw_only=True):
    """Result of a recovery: what was saved and what was lost."""

    source: str
    path: str
    """Path of the new file; empty if the source is complete."""
    problem: str
    """Problem of the source file."""
    messages: int
    chunks: int
    damaged_chunks: int
    """Number of chunks that were found but not readable."""
    lost_bytes: int
    """Bytes lost: damaged chunks and attachments, and data between and behind the intact
    records."""
    duration_s: float
    reasons: dict[str, int] = field(default_factory=dict)
    """Number of lost chunks by reason."""
    mended_chunks: int = 0
    """Number of chunks saved in spite of a damaged record head."""
    lost_attachments: list[str] = field(default_factory=list)

    @property
    def loses(self) -> bool:
        """True if the new file lacks something of the source."""
        return bool(self.damaged_chunks or self.lost_attachments or self.lost_bytes)

    def to_text(self) -> str:
        """Return the report as plain text."""
        if not self.path:
            return f"{self.source}: complete, nothing to recover\n"
        lines = [
            f"{self.source}: {self.problem}",
            (
                f"{self.path}: {self.messages} messages in {self.chunks} chunks over "
                f"{self.duration_s:.1f} s"
            ),
        ]
        if self.mended_chunks:
            lines.append(
                f"{self.mended_chunks} of these chunks had a damaged record head and are saved "
                "whole"
            )
        if self.damaged_chunks:
            reasons = ", ".join(
                f"{count} because: {reason}" for reason, count in self.reasons.items()
            )
            lines.append(
                f"LOST: {self.damaged_chunks} of {self.chunks + self.damaged_chunks} chunks "
                f"are damaged ({reasons})"
            )
        if self.lost_attachments:
            lines.append(f"LOST: attachments {', '.join(self.lost_attachments)}")
        lines.append(
            f"LOST: {self.lost_bytes} bytes of the source"
            if self.lost_bytes
            else "nothing is lost of what was written"
        )
        return "\n".join(lines) + "\n"


def recover(
    path: str | os.PathLike[str], out: str | os.PathLike[str] | None = None
) -> RecoverReport:
    """Copy the intact part of ``path`` to ``out``, by default ``<name>_recovered.mcap`` beside it.
    The source is not changed.

    Raises :class:`LogError` if the source is no log, has nothing to recover, or the target exists
    or cannot be written.
    """
    source = os.fspath(path)
    with LogReader(source) as log:
        if log.layout.complete:
            for number in range(len(log.layout.chunks)):
                log.records(number)
            if not log.faults and not log.bad_heads:
                return _untouched(source, log.layout)
        if not log.is_vehicled_log and not len(log.layout.chunks):
            raise LogError(
                f"{source}: nothing to recover: there is neither a run header nor a chunk of "
                "messages in it"
            )
        target = (
            os.fspath(out) if out is not None else os.path.splitext(source)[0] + "_recovered.mcap"
        )
        try:
            stream = open(target, "xb")  # noqa: SIM115 - entered below
        except OSError as error:
            raise LogError(f"the recovered log cannot be written: {why(error)}") from error
        try:
            with stream, open_file(source) as old:
                file = McapFile(
                    stream, log.layout.mcap_profile, log.layout.library or "vehicled log recover"
                )
                lost_attachments, lost_bytes = _copy_parts(file, old, log.layout)
                lost_bytes += _copy_chunks(file, log)
                if not file.chunk_count and not log.is_vehicled_log:
                    raise LogError(
                        f"{source}: nothing to recover: none of its {len(log.layout.chunks)} "
                        "chunks can be read"
                    )
                file.finish()
        except BaseException as error:
            os.unlink(target)
            if isinstance(error, OSError):
                raise LogError(f"the recovered log cannot be written: {why(error)}") from error
            raise
        return RecoverReport(
            source=source,
            path=target,
            problem=log.layout.problem or "it has damaged chunks",
            messages=file.message_count,
            chunks=file.chunk_count,
            damaged_chunks=log.damaged_chunks,
            lost_bytes=lost_bytes + log.layout.lost_bytes,
            duration_s=file.duration_s,
            reasons=dict(Counter(log.faults.values())),
            mended_chunks=len(log.bad_heads - log.faults.keys()),
            lost_attachments=lost_attachments,
        )


def _untouched(source: str, layout: LogLayout) -> RecoverReport:
    statistics = layout.statistics
    return RecoverReport(
        source=source,
        path="",
        problem="",
        messages=statistics.message_count if statistics else 0,
        chunks=len(layout.chunks),
        damaged_chunks=0,
        lost_bytes=0,
        duration_s=(statistics.message_end_time - statistics.message_start_time) / 1e9
        if statistics
        else 0.0,
    )


def _copy_parts(file: McapFile, old: BinaryIO, layout: LogLayout) -> tuple[list[str], int]:
    """Copy all records but the chunks; return names and bytes of the unreadable attachments."""
    for schema in layout.schemas.values():
        file.add_schema(schema)
    for channel in layout.channels.values():
        file.add_channel(channel)
    for offset, length in layout.metadata_places:
        record = Metadata.read(record_body(old, offset, length))
        file.add_metadata(record.name, record.metadata)
    lost, lost_bytes = [], 0
    for entry in layout.attachments:
        try:
            item = read_attachment(old, entry.offset, entry.length)
        except DAMAGE:
            lost.append(entry.name)
            lost_bytes += entry.length
        else:
            file.add_attachment(
                item.name, item.media_type, item.data, item.log_time, item.create_time
            )
    return lost, lost_bytes


def _copy_chunks(file: McapFile, log: LogReader) -> int:
    """Copy the chunks in file order; return the bytes of unreadable ones, which are noted in
    ``log.faults``."""
    lost_bytes = 0
    for number in np.argsort(log.layout.chunks["offset"], kind="stable").tolist():
        try:
            chunk = log.chunk(number)
            records = unpack_chunk(chunk)
            for opcode, data in _definitions(records):
                # Other writers put schemas inside chunks; the summary must list them too.
                if opcode == Opcode.SCHEMA:
                    file.add_schema(Schema.read(ReadDataStream(io.BytesIO(data))))
                else:
                    file.add_channel(Channel.read(ReadDataStream(io.BytesIO(data))))
            file.add_chunk(records, chunk.compression, chunk.data)
        except DAMAGE as error:
            log.faults[number] = str(error) or type(error).__name__
            lost_bytes += int(log.layout.chunks[number]["length"])
    return lost_bytes


def _definitions(records: bytes) -> Iterator[tuple[int, bytes]]:
    for opcode, offset, length in records_between(io.BytesIO(records), 0, len(records)):
        if opcode in (Opcode.SCHEMA, Opcode.CHANNEL):
            yield opcode, records[offset : offset + length]
