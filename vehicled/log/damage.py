"""Finds damage anywhere in a log, with its place in the file and its time in the run.

A log of this version ends its data with a checksum of all bytes before it, so an intact one costs
one fast pass. Of others, and of those whose checksum does not fit, every record is looked at: to
name the place, or because there is no other way.
"""

import io
import struct
import zlib
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

import numpy as np
from mcap.data_stream import ReadDataStream
from mcap.opcode import Opcode
from mcap.records import Attachment, Channel, Metadata, Schema
from msgspec import Struct

from vehicled.core.error_text import message, type_name
from vehicled.log.layout import DAMAGE, channel_bit
from vehicled.log.mcapfile import MAGIC, message_heads
from vehicled.log.reader import LogReader, unpack_chunk

_READ_BYTES = 1 << 20
_SHOWN_TOPICS = 4
_HEAD_BYTES = 9


class DamageKind(StrEnum):
    """Description of the damage."""

    CHUNK = "chunk"
    """A chunk of messages cannot be read."""
    CHUNK_HEAD = "chunk_head"
    """The messages of a chunk can be read, but not the record around them."""
    INDEX = "index"
    """The index of a chunk, or the counts of the file, are not those of its messages."""
    RECORD = "record"
    """A record beside the chunks cannot be read, or there is something between two records."""
    SUMMARY = "summary"
    """The summary at the end of the file."""
    DOUBLED = "doubled"
    """Messages are there more than once."""
    UNPLACED = "unplaced"
    """The checksum of the file does not fit, and nothing shows where."""


class Damage(Struct, frozen=True, kw_only=True):
    """One damaged place of a log."""

    kind: DamageKind
    offset: int
    """First byte in the file."""
    length: int
    from_s: float | None = None
    """Time of the run, s; None where no message is affected."""
    to_s: float | None = None
    topics: tuple[str, ...] = ()
    """Topics of which messages may be affected."""
    detail: str

    def to_text(self) -> str:
        """Return place, time and reason as text."""
        span = "" if self.from_s is None else f", t = {self.from_s:.3f} to {self.to_s:.3f} s"
        more = (
            f" and {len(self.topics) - _SHOWN_TOPICS} more"
            if len(self.topics) > _SHOWN_TOPICS
            else ""
        )
        topics = f" ({', '.join(self.topics[:_SHOWN_TOPICS])}{more})" if self.topics else ""
        return f"bytes {self.offset} to {self.offset + self.length}{span}{topics}: {self.detail}"


def find_damage(log: LogReader) -> list[Damage]:
    """Return all damage of a file, in the order of the file. That a file was cut off is no damage:
    see ``layout.problem``."""
    layout = log.layout
    ours = layout.library.startswith(
        "vehicled"
    )  # Another tool may have given a checksum to what it changed.
    if (
        ours
        and layout.complete
        and layout.data_crc
        and _crc(log, layout.data_end) == layout.data_crc
    ):
        return []
    found = list(_damage(log))
    if not found and layout.data_crc and _crc(log, layout.data_end) != layout.data_crc:
        detail = (
            "the checksum of the file does not fit, and all messages can be read: its header "
            "or other metadata was changed"
        )
        found.append(
            Damage(kind=DamageKind.UNPLACED, offset=0, length=layout.data_end, detail=detail)
        )
    return sorted(found, key=lambda damage: damage.offset)


def _crc(log: LogReader, stop: int) -> int:
    found, at = 0, 0
    while at < stop:
        data = log.read(at, min(_READ_BYTES, stop - at))
        if not data:
            break
        found, at = zlib.crc32(data, found), at + len(data)
    return found


def _damage(log: LogReader) -> Iterator[Damage]:
    layout = log.layout
    for offset, length in layout.lost:
        # What a cut leaves of the last record is no damage.
        if not (layout.cut and offset + length == layout.size):
            yield Damage(
                kind=DamageKind.RECORD,
                offset=offset,
                length=length,
                detail="these bytes are no records",
            )
    if layout.problem and not layout.cut:
        start = layout.data_end or max(
            (offset + length for offset, length in layout.lost), default=0
        )
        yield Damage(
            kind=DamageKind.SUMMARY, offset=start, length=layout.size - start, detail=layout.problem
        )
    counts: dict[int, int] = {}
    numbers: list[Any] = []
    for number in range(len(layout.chunks)):
        yield from _chunk_damage(log, number, counts, numbers)
    if layout.complete:
        yield from _record_damage(log)
        yield from _count_damage(log, counts)
    yield from _doubled(log, numbers)


def _chunk_damage(
    log: LogReader, number: int, counts: dict[int, int], numbers: list[Any]
) -> Iterator[Damage]:
    row = log.layout.chunks[number]
    try:
        chunk = log.chunk(number)
        heads = list(message_heads(unpack_chunk(chunk)))
    except DAMAGE as error:
        log.faults[number] = message(error) or type_name(error)
        yield _of_chunk(
            log,
            number,
            DamageKind.CHUNK,
            f"a chunk of messages cannot be read: {log.faults[number]}",
        )
        return
    times = [log_time for *_, log_time in heads]
    wrong_times = heads and (chunk.message_start_time, chunk.message_end_time) != (
        min(times),
        max(times),
    )
    if number in log.bad_heads or wrong_times:
        yield _of_chunk(
            log,
            number,
            DamageKind.CHUNK_HEAD,
            "the head of a chunk is wrong; its messages are whole",
        )
    index: dict[int, list[int]] = {}
    for at, _, channel, _, log_time in heads:
        index.setdefault(channel, []).extend((log_time, at))
        counts[channel] = counts.get(channel, 0) + 1
    own = log.own_channels
    ours = [(log_time, sequence) for _, _, channel, sequence, log_time in heads if channel in own]
    numbers.append(np.array(ours, np.int64).reshape(-1, 2))
    offset, length = int(row["offset"]) + int(row["length"]), int(row["index_length"])
    found = _index(log, offset, length) if length else index
    # The file may have been cut off within the last index.
    cut = log.layout.cut and found is not None and found.items() <= index.items()
    if found != index and not cut:
        detail = "the index of a chunk is not that of its messages, which are whole"
        yield Damage(kind=DamageKind.INDEX, offset=offset, length=length, detail=detail)


def _of_chunk(log: LogReader, number: int, kind: DamageKind, detail: str) -> Damage:
    """Return damage of a chunk, with its time and topics by the index."""
    row, layout = log.layout.chunks[number], log.layout
    origin_ns = log.offset_ns + (log.header.start_monotonic_ns if log.is_vehicled_log else 0)
    mask = int(row["channels"]) if layout.complete else 0
    topics = sorted(
        channel.topic for channel in layout.channels.values() if mask & channel_bit(channel.id)
    )
    start_s, stop_s = ((int(row[name]) - origin_ns) * 1e-9 for name in ("start_ns", "end_ns"))
    place = int(row["offset"]), int(row["length"])
    return Damage(
        kind=kind, offset=place[0], length=place[1], from_s=start_s, to_s=stop_s,
        topics=tuple(topics), detail=detail
    )  # fmt: skip


def _index(log: LogReader, offset: int, length: int) -> dict[int, list[int]] | None:
    """Return log times and offsets by channel from the message index at a place; None if it cannot
    be read."""
    data, found, at = log.read(offset, length), {}, 0
    while at < len(data):
        if at + 15 > len(data):
            return None
        opcode, size, channel, entries = struct.unpack_from("<BQHI", data, at)
        if (
            opcode != Opcode.MESSAGE_INDEX
            or size != 6 + entries
            or at + 9 + size > len(data)
            or entries % 16
        ):
            return None
        if entries:
            found[channel] = list(struct.unpack_from(f"<{entries // 8}Q", data, at + 15))
        at += _HEAD_BYTES + size
    return found


def _record_damage(log: LogReader) -> Iterator[Damage]:
    """Yield the records beside the chunks that cannot be read or are not those of the summary, and
    gaps between records."""
    layout = log.layout
    at, stop = len(MAGIC), layout.data_end
    chunks = {
        int(row["offset"]): int(row["length"]) + int(row["index_length"]) for row in layout.chunks
    }
    known = sorted([*chunks, *(offset - _HEAD_BYTES for offset, _ in layout.metadata_places), stop])
    while at < stop:
        if at in chunks:
            at += chunks[at]
            continue
        following = next((each for each in known if each > at), stop)
        record = next(log.between(at, stop), None)
        if (
            record is None
            or record[1] + record[2] > following
            or record[0] in (Opcode.CHUNK, Opcode.MESSAGE)
        ):
            detail = "these bytes are no records"
            yield Damage(kind=DamageKind.RECORD, offset=at, length=following - at, detail=detail)
            at = following
            continue
        opcode, offset, length = record
        if reason := _record_fault(log, opcode, offset, length):
            yield Damage(
                kind=DamageKind.RECORD, offset=at, length=length + _HEAD_BYTES, detail=reason
            )
        at = offset + length


def _record_fault(log: LogReader, opcode: int, offset: int, length: int) -> str:
    """Return what is wrong with a record beside the chunks; empty if nothing is."""
    stream = ReadDataStream(io.BytesIO(log.read(offset, length)))
    layout = log.layout
    try:
        if opcode == Opcode.SCHEMA:
            schema = Schema.read(stream)
            return (
                ""
                if layout.schemas.get(schema.id) == schema
                else f"a schema is not that of the summary: {schema.name[:80]!r}"
            )
        if opcode == Opcode.CHANNEL:
            channel = Channel.read(stream)
            return (
                ""
                if layout.channels.get(channel.id) == channel
                else f"a channel is not that of the summary: {channel.topic[:80]!r}"
            )
        if opcode == Opcode.METADATA:
            Metadata.read(stream)
        elif opcode == Opcode.ATTACHMENT:
            attachment = Attachment.read(stream)
            data = log.read(offset, length)
            if zlib.crc32(data[:-4]) != struct.unpack("<I", data[-4:])[0]:
                return f"the checksum of the attachment {attachment.name[:80]!r} does not fit"
        elif opcode not in (Opcode.HEADER, Opcode.MESSAGE_INDEX):
            return f"a record of kind {opcode} does not belong there"
    except DAMAGE as error:
        return f"a record cannot be read: {message(error) or type_name(error)}"
    return ""


def _count_damage(log: LogReader, counts: dict[int, int]) -> Iterator[Damage]:
    """Yield what is missing of the counts in the summary, apart from chunks that are known to be
    unreadable."""
    statistics = log.layout.statistics
    if statistics is None or log.faults:
        return
    for channel, wanted in statistics.channel_message_counts.items():
        if (found := counts.get(channel, 0)) != wanted:
            topic = (
                log.layout.channels[channel].topic
                if channel in log.layout.channels
                else f"channel {channel}"
            )
            detail = (
                f"the index of the file counts {wanted} messages of {topic}, and it holds {found}"
            )
            yield Damage(
                kind=DamageKind.INDEX,
                offset=0,
                length=log.layout.size,
                topics=(topic,),
                detail=detail,
            )


def _doubled(log: LogReader, numbers: list[Any]) -> Iterator[Damage]:
    """Yield the records of our own channels that are there more than once: each has a number of its
    own."""
    if not numbers or not log.is_vehicled_log or log.header.imported:
        return
    every = np.concatenate(numbers)
    order = np.lexsort((every[:, 1], every[:, 0]))
    every = every[order]
    again = np.flatnonzero((every[1:] == every[:-1]).all(axis=1))
    if len(again):
        origin_ns = log.offset_ns + log.header.start_monotonic_ns
        first, last = ((int(every[again[k], 0]) - origin_ns) * 1e-9 for k in (0, -1))
        detail = (
            f"{len(again)} records are there more than once, the first is record "
            f"{int(every[again[0], 1])}"
        )
        yield Damage(
            kind=DamageKind.DOUBLED,
            offset=0,
            length=log.layout.size,
            from_s=first,
            to_s=last,
            detail=detail,
        )


def damage_of(paths: list[str]) -> list[str]:
    """Return the damage of all files of a run as text, with the name of the file."""
    found = []
    for path in paths:
        with LogReader(path) as log:
            found += [f"{path}: {damage.to_text()}" for damage in find_damage(log)]
    return found
