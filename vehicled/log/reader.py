"""Reads logs in constant memory: by index if the file is complete, by recovery if not.

An unreadable file raises :class:`~vehicled.log.errors.LogError` on opening. A damaged chunk is
skipped and listed in :attr:`LogReader.faults`.
"""

import io
import os
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property
from types import TracebackType
from typing import Any, BinaryIO, Generic, Self, TypeVar, overload

import numpy as np
from mcap.data_stream import ReadDataStream
from mcap.opcode import Opcode
from mcap.records import Channel, Chunk, Schema
from msgspec import Struct

from vehicled.core.messages import Message, TaskTick
from vehicled.log.errors import LogError
from vehicled.log.layout import (
    CHUNK_PEEK_BYTES,
    DAMAGE,
    LogLayout,
    channel_bit,
    chunk_length,
    open_file,
    read_attachment,
    read_layout,
    records_between,
)
from vehicled.log.mcapfile import MESSAGE_HEAD, message_heads
from vehicled.log.schema import CHANNELS, END_RECORD, HEADER_RECORD, RunHeader, schema_of
from vehicled.ros.cdr import CdrError, known_fields, numpy_dtype, unpacker

M = TypeVar("M", bound=Message)
T = TypeVar("T")

_SLACK_NS = 2_000_000_000
"""Largest disorder of log times; messages are held back this long to be sorted."""
_RECORD_HEAD = np.dtype([("opcode", "u1"), ("length", "<u8"), ("channel", "<u2")])


class Record(Struct, Generic[M], frozen=True):
    """Message with its place in the journal."""

    t_ns: int
    """Log time on the daemon's clock, ns."""
    sequence: int
    message: M


class StoredMessage(Struct, frozen=True):
    """Encoded message with its place in the journal."""

    t_ns: int
    sequence: int
    kind: type[Message]
    data: bytes
    unpack: Callable[[bytes], Message]

    @property
    def message(self) -> Message:
        """Return the decoded message. Raises :class:`~vehicled.ros.cdr.CdrError`."""
        return self.unpack(self.data)


class LogReader:
    """Reader of one log file. Use as a context manager."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open the file and read its layout. Raises :class:`LogError` if it is not a log or of a
        newer version."""
        self.path = os.fspath(path)
        self._stream: BinaryIO = open_file(path)
        try:
            self.layout: LogLayout = read_layout(self._stream)
            metadata = self.layout.metadata.get(HEADER_RECORD)
            try:
                self._header = RunHeader.from_metadata(metadata) if metadata is not None else None
            except LogError as error:
                raise LogError(f"{self.path}: {error}") from error
        except BaseException:
            self._stream.close()
            raise
        self.faults: dict[int, str] = {}
        """Chunks that could not be read so far, with the reason."""
        self.bad_heads: set[int] = set()
        """Chunks so far with a wrong opcode or length, which break readers without an index."""
        self._placed: tuple[int, dict[int, Any]] = -1, {}
        """Last chunk number, and the record offsets of each channel in it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    # ------------------------------------------------------------------ what it is

    @property
    def damaged_chunks(self) -> int:
        """Number of chunks that could not be read so far."""
        return len(self.faults)

    @property
    def is_vehicled_log(self) -> bool:
        """True if the file has our header; other MCAP files have topics but no tasks."""
        return self._header is not None

    @property
    def header(self) -> RunHeader:
        """Header of the run. Raises :class:`LogError` if vehicled did not write the file or it ends
        before its header."""
        if self._header is None:
            reason = (
                "not written by vehicled" if self.layout.complete else "cut off before its header"
            )
            raise LogError(f"{self.path}: no run header: {reason}")
        return self._header

    @property
    def end(self) -> dict[str, str]:
        """Metadata of an orderly end; empty if the daemon was killed or the run continues in
        another part."""
        return self.layout.metadata.get(END_RECORD, {})

    @property
    def offset_ns(self) -> int:
        """UTC minus the clock of the messages, ns; 0 for logs of other programs."""
        return self._header.offset_ns if self._header is not None else 0

    def attachment(self, name: str) -> bytes:
        """Return the content of an attachment. Raises :class:`LogError` if it is missing or
        damaged."""
        for entry in self.layout.attachments:
            if entry.name == name:
                try:
                    return bytes(read_attachment(self._stream, entry.offset, entry.length).data)
                except DAMAGE as error:
                    raise LogError(f"{self.path}: attachment {name} is damaged: {error}") from error
        names = ", ".join(entry.name for entry in self.layout.attachments) or "none"
        raise LogError(f"{self.path}: no attachment {name}; there are: {names}")

    # ------------------------------------------------------------------ messages

    @overload
    def messages(
        self, *, start_ns: int | None = None, stop_ns: int | None = None
    ) -> Iterator[Record[Message]]: ...

    @overload
    def messages(
        self, *types: type[M], start_ns: int | None = None, stop_ns: int | None = None
    ) -> Iterator[Record[M]]: ...

    def messages(
        self, *types: Any, start_ns: int | None = None, stop_ns: int | None = None
    ) -> Iterator[Any]:
        """Yield our messages in log order, of all types or of some, ``start_ns <= t_ns <
        stop_ns``."""
        offset = self.offset_ns
        low = start_ns + offset if start_ns is not None else -(2**63)
        high = stop_ns + offset if stop_ns is not None else 2**64
        for sequence, log_time, _, decode, data in self._in_order(self._decoders(types), low, high):
            try:
                record = Record(log_time - offset, sequence, decode(data))
            except CdrError as error:
                raise LogError(f"{self.path}: record {sequence} is damaged: {error}") from error
            yield record

    def stored(self, *types: type[Message]) -> Iterator[StoredMessage]:
        """Yield messages like :meth:`messages`, but encoded, to compare bytes."""
        kinds = {
            channel: (kind, unpacker(kind, fields))
            for channel, kind, fields in self._channels(types)
        }
        offset = self.offset_ns
        for sequence, log_time, _, (kind, unpack), data in self._in_order(kinds, -(2**63), 2**64):
            yield StoredMessage(log_time - offset, sequence, kind, data, unpack)

    def _in_order(
        self, decoders: dict[int, T], low: int, high: int
    ) -> Iterator[tuple[int, int, int, T, bytes]]:
        """Yield (sequence, log time, count, decoder, data) of the records of these channels, ``low
        <= log time < high``."""
        wanted = self._mask(decoders)
        chunks = self.layout.chunks
        held: list[tuple[int, int, int, T, bytes]] = []
        last, count = 0, 0
        for number in np.argsort(chunks["start_ns"], kind="stable"):
            chunk = chunks[number]
            if (
                not int(chunk["channels"]) & wanted
                or int(chunk["end_ns"]) < low
                or int(chunk["start_ns"]) >= high
            ):
                continue
            limit = int(chunk["start_ns"]) - _SLACK_NS
            held.sort()
            ready = next(
                (place for place, entry in enumerate(held) if entry[1] >= limit), len(held)
            )
            yield from held[:ready]
            del held[:ready]
            records = self.records(int(number))
            for at, length, channel, sequence, log_time in message_heads(records):
                decode = decoders.get(channel)
                if decode is None or not low <= log_time < high:
                    continue
                # Unwrap the sequence, which counts modulo 2**32; neighbours in time are close in
                # it.
                last += (sequence - last + 2**31) % 2**32 - 2**31
                count += 1
                data = at + MESSAGE_HEAD.size
                held.append((last, log_time, count, decode, records[data : data + length]))
        held.sort()
        yield from held

    def arrays(self, *types: type[Message]) -> Iterator[tuple[type[Message], Any]]:
        """Yield structured arrays of messages of fixed size, chunk by chunk, in one pass.

        Yields (type, array of shape (n,)) in file order, read-only. Raises TypeError for types with
        text or sequences.
        """
        layouts = {
            channel: (kind, numpy_dtype(kind, fields))
            for channel, kind, fields in self._channels(types)
        }
        wanted = self._mask(layouts)
        for number, mask in enumerate(self.layout.chunks["channels"].tolist()):
            if not mask & wanted:
                continue
            records = self.records(number)
            for channel, (kind, dtype) in layouts.items():
                if mask & channel_bit(channel):
                    found = self._column(number, records, channel, dtype)
                    if len(found):
                        yield kind, found

    def records_of(self, kind: type[Message]) -> Iterator[Any]:
        """Yield structured arrays of whole message records of a type of fixed size, chunk by chunk,
        in file order: ``sequence``, ``log_time`` and the fields. Nothing for a file whose records
        have fewer fields. Raises TypeError like :meth:`arrays`.
        """
        for channel, _, fields in self._channels((kind,)):
            if fields < len(kind.__struct_fields__):
                continue
            data = numpy_dtype(kind)
            assert data.names is not None
            layout: Any = {
                "names": ["sequence", "log_time", *data.names],
                "formats": ["<u4", "<u8", *(data[name] for name in data.names)],
                "offsets": [
                    11,
                    15,
                    *(MESSAGE_HEAD.size + data.fields[name][1] for name in data.names),  # type: ignore[index]
                ],
                "itemsize": MESSAGE_HEAD.size + data.itemsize,
            }
            whole = np.dtype(layout)
            for number, mask in enumerate(self.layout.chunks["channels"].tolist()):
                if mask & channel_bit(channel):
                    records = self.records(number)
                    offsets = self._offsets(number, records, channel).astype(np.int64)
                    if len(offsets) and int(offsets.max()) + whole.itemsize <= len(records):
                        where = offsets[:, None] + np.arange(whole.itemsize)
                        yield np.frombuffer(records, np.uint8)[where].view(whole)[:, 0]

    def spans(self, kind: type[Message]) -> Iterator[tuple[bytes, Any]]:
        """Yield (message records, offsets of the CDR data) of every chunk with messages of a type,
        in file order.

        Use it for types of variable size when only a few bytes of many records are needed. Offsets
        of shape (n,), int64.
        """
        for channel, _, _ in self._channels((kind,)):
            for number, mask in enumerate(self.layout.chunks["channels"].tolist()):
                if mask & channel_bit(channel):
                    records = self.records(number)
                    offsets = (
                        self._offsets(number, records, channel).astype(np.int64) + MESSAGE_HEAD.size
                    )
                    if len(offsets) and int(offsets.max()) < len(records):
                        yield records, offsets

    def count(self, kind: type[Message]) -> int | None:
        """Return how many messages of a type the index of the file counts; None without an
        index."""
        if self.layout.statistics is None:
            return None
        counts = self.layout.statistics.channel_message_counts
        return sum(counts.get(channel, 0) for channel, _, _ in self._channels((kind,)))

    def read(self, offset: int, length: int) -> bytes:
        """Return bytes of the file; fewer at its end."""
        self._stream.seek(offset)
        return self._stream.read(length)

    def between(self, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """Yield opcode, offset of the body and length of the records in a range, up to the first
        that is none."""
        return records_between(self._stream, start, stop)

    def records(self, number: int) -> bytes:
        """Return the message records of a chunk; empty if damaged, which is noted in ``faults``."""
        try:
            return unpack_chunk(self.chunk(number))
        except DAMAGE as error:
            self.faults[number] = str(error) or type(error).__name__
            return b""

    def chunk(self, number: int) -> Chunk:
        """Return a chunk as stored. Raises one of :data:`DAMAGE`."""
        row = self.layout.chunks[number]
        offset, length = int(row["offset"]), int(row["length"])
        self._stream.seek(offset)
        head = self._stream.read(CHUNK_PEEK_BYTES)
        if head[:9] != struct.pack("<BQ", Opcode.CHUNK, length - 9) or chunk_length(head) not in (
            None,
            length - 9,
        ):
            self.bad_heads.add(number)
        chunk: Chunk = Chunk.read(self._body(offset, length))
        return chunk

    # ------------------------------------------------------------------ inside

    @cached_property
    def _known(self) -> dict[int, tuple[type[Message], int]]:
        """Return our type and its number of fields in this file, by channel."""
        known: dict[int, tuple[type[Message], int]] = {}
        for channel in self.layout.channels.values():
            if (found := known_channel(channel, self.layout.schemas, self.path)) is not None:
                known[channel.id] = found
        return known

    @property
    def own_channels(self) -> frozenset[int]:
        """Channels of our messages, whose sequence numbers are unique; not those of the standard
        ROS types beside them."""
        return frozenset(self._known)

    def _channels(self, types: tuple[type[Message], ...]) -> list[tuple[int, type[Message], int]]:
        return [
            (channel, kind, fields)
            for channel, (kind, fields) in self._known.items()
            if not types or kind in types
        ]

    def _decoders(self, types: tuple[type[Message], ...]) -> dict[int, Callable[[bytes], Message]]:
        return {channel: unpacker(kind, fields) for channel, kind, fields in self._channels(types)}

    @staticmethod
    def _mask(channels: dict[int, Any]) -> int:
        mask = 0
        for channel in channels:
            mask |= channel_bit(channel)
        return mask

    def _column(self, number: int, records: bytes, channel: int, dtype: Any) -> Any:
        if len(records) < MESSAGE_HEAD.size:
            return np.empty(0, dtype)
        step = 9 + MESSAGE_HEAD.unpack_from(records)[1]
        if step >= MESSAGE_HEAD.size + dtype.itemsize and len(records) % step == 0:
            # A chunk of ticks holds nothing else, so one strided view needs no copy.
            heads: Any = np.ndarray(len(records) // step, _RECORD_HEAD, records, 0, (step,))
            if bool(
                np.all(
                    (heads["opcode"] == Opcode.MESSAGE)
                    & (heads["length"] == step - 9)
                    & (heads["channel"] == channel)
                )
            ):
                return np.ndarray(len(heads), dtype, records, MESSAGE_HEAD.size, (step,))
        offsets = self._offsets(number, records, channel) + np.uint64(MESSAGE_HEAD.size)
        if not len(offsets) or int(offsets.max()) + dtype.itemsize > len(records):
            return np.empty(0, dtype)
        where = offsets.astype(np.int64)[:, None] + np.arange(dtype.itemsize)
        found = np.frombuffer(records, np.uint8)[where].view(dtype)[:, 0]
        found.flags.writeable = False
        return found

    def _offsets(self, number: int, records: bytes, channel: int) -> Any:
        """Return the offsets of a channel's records in a chunk, from its message index or by
        scanning."""
        if self._placed[0] != number:
            # Cache the index, because several channels of a chunk are read in turn.
            self._placed = number, self._index_of(number)
        places = self._placed[1]
        if channel not in places:
            walked: dict[int, list[int]] = {channel: []}
            try:
                for offset, _, found, _, _ in message_heads(records):
                    walked.setdefault(found, []).append(offset)
            except ValueError:
                walked = {channel: []}
            for found, offsets in walked.items():
                places.setdefault(found, np.array(offsets, np.uint64))
        return places[channel]

    def _index_of(self, number: int) -> dict[int, Any]:
        """Return the record offsets by channel from the message index of a chunk; empty without
        one."""
        chunk = self.layout.chunks[number]
        self._stream.seek(int(chunk["offset"]) + int(chunk["length"]))
        index = self._stream.read(int(chunk["index_length"]))
        places: dict[int, Any] = {}
        at = 0
        while at + 15 <= len(index):
            opcode, length, found, size = struct.unpack_from("<BQHI", index, at)
            if opcode == Opcode.MESSAGE_INDEX and at + 15 + size <= len(index):
                places.setdefault(found, np.frombuffer(index, "<u8", size // 8, at + 15)[1::2])
            at += 9 + length
        return places

    def _body(self, offset: int, length: int) -> ReadDataStream:
        self._stream.seek(offset + 9)
        data = self._stream.read(length - 9)
        if len(data) < length - 9:
            raise ValueError("cut off")
        return ReadDataStream(io.BytesIO(data))


@cache
def _ours() -> tuple[dict[str, type[Message]], frozenset[str]]:
    """Return our types by the name of their schema, and our topics."""
    topics = frozenset(channel.topic for channel in CHANNELS.values())
    return {schema_of(kind)[0]: kind for kind in CHANNELS}, topics


def known_channel(
    channel: Channel, schemas: Mapping[int, Schema], path: str
) -> tuple[type[Message], int] | None:
    """Return our type and its number of fields in a channel of a file; None if it is none of ours.
    Raises :class:`LogError` if this version cannot read it."""
    ours, topics = _ours()
    schema = schemas.get(channel.schema_id)
    kind = ours.get(schema.name) if schema is not None else None
    if schema is None or kind is None or channel.topic not in topics:
        return None
    try:
        return kind, known_fields(kind, schema.data.decode(errors="replace"))
    except CdrError as error:
        raise LogError(
            f"{path}: {channel.topic} cannot be read by this version: {error}"
        ) from error


def unpack_chunk(chunk: Chunk) -> bytes:
    """Decompress a chunk. Raises ``ValueError`` for a wrong checksum or size, :class:`LogError` if
    the codec is missing."""
    if chunk.uncompressed_size > 1 << 30:
        raise ValueError("a chunk of impossible size")
    if chunk.compression == "zstd":
        import zstandard

        try:
            data = zstandard.ZstdDecompressor().decompress(
                chunk.data, max_output_size=chunk.uncompressed_size
            )
        except zstandard.ZstdError as error:
            raise ValueError(str(error)) from error
    elif chunk.compression == "lz4":
        try:
            import lz4.frame
        except ImportError:
            raise LogError(
                "this log is compressed with lz4, for which the package lz4 must be installed"
            ) from None
        try:
            data = lz4.frame.decompress(chunk.data)
        except RuntimeError as error:
            raise ValueError(str(error)) from error
    elif chunk.compression:
        raise ValueError(f"compressed with {chunk.compression!r}, which is not known here")
    else:
        data = chunk.data
    if len(data) != chunk.uncompressed_size or (
        chunk.uncompressed_crc and zlib.crc32(data) != chunk.uncompressed_crc
    ):
        raise ValueError("the checksum does not fit")
    return bytes(data)


def ticks(path: str | os.PathLike[str]) -> Iterator[Any]:
    """Yield the task ticks of a log as structured arrays, chunk by chunk: several million a second,
    in constant memory."""
    with LogReader(path) as log:
        for _, found in log.arrays(TaskTick):
            yield found


def run_messages(path: str | os.PathLike[str], *types: type[M]) -> Iterator[M]:
    """Yield the messages of a run from all of its files, in log order."""
    for part in run_parts(path):
        with LogReader(part) as log:
            for record in log.messages(*types):
                yield record.message


def run_parts(path: str | os.PathLike[str]) -> list[str]:
    """Return all files of a rotated run from its first file; a later part is returned alone."""
    first = os.fspath(path)
    files = [first]
    if first.endswith(".mcap"):
        stem = first[: -len(".mcap")]
        while os.path.isfile(following := f"{stem}_part{len(files) + 1}.mcap"):
            files.append(following)
    return files
