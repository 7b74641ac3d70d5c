"""Follows the log of a run that is being written: messages as they reach the file, also in its
further parts.

The file is the buffer: a slow reader falls behind and loses nothing, and the daemon does not know
it. Only the chunk that is being read is in memory.
"""

import os
import time
from collections.abc import Callable, Iterator
from typing import Self

from mcap.opcode import Opcode
from mcap.records import Channel, Chunk, Metadata, Schema

from vehicled.core.messages import Message
from vehicled.log.errors import LogError
from vehicled.log.layout import DAMAGE, open_file, record_body, records_between
from vehicled.log.mcapfile import MAGIC, MESSAGE_HEAD, message_heads
from vehicled.log.quota import is_being_written
from vehicled.log.reader import known_channel, unpack_chunk
from vehicled.log.schema import END_RECORD
from vehicled.ros.cdr import CdrError, unpacker

IDLE_S = 2.0
"""Time without growth after which the writer is looked for, s."""


class LogFollower:
    """Reader of one growing log from its first file on. Use as a context manager."""

    def __init__(self, path: str | os.PathLike[str], *types: type[Message]) -> None:
        """Open the first file. Raises :class:`LogError` if it is not a log."""
        self._first = os.fspath(path)
        self._types = types
        self._part = 1
        self.ended = False
        """True once no more messages will come."""
        self.orderly = False
        """True if the run ended the log itself; False while it goes on, and after its writer was
        killed."""
        self.damaged_chunks = 0
        """Chunks that could not be read."""
        self._open(self._first)

    def _open(self, path: str) -> None:
        self._path, self._stream = path, open_file(path)
        self._at = len(MAGIC)
        self._complete = False
        self._idle_s: float | None = None
        self._schemas: dict[int, Schema] = {}
        self._decoders: dict[int, Callable[[bytes], Message]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    @property
    def unread_bytes(self) -> int:
        """Bytes of the present part that were not read yet."""
        return os.fstat(self._stream.fileno()).st_size - self._at

    def read(self) -> Iterator[Message]:
        """Yield the messages that were written since the last call, in the order of the file.
        Raises :class:`LogError` if a newer version wrote them."""
        while not self.ended:
            began = self._at
            yield from self._grown()
            if self.orderly:
                self.ended = True
            elif self._complete and self._next_part():
                continue
            elif self._at > began:
                self._idle_s = None
            elif self._idle_s is None:
                self._idle_s = time.monotonic()
            elif time.monotonic() - self._idle_s > IDLE_S:
                # Asked only now: a lock that is tried while the writer makes its file would take
                # the place of its own.
                over = self._complete or not is_being_written(self._path)
                yield from self._grown()
                self.ended = over
            return

    def _next_part(self) -> bool:
        """Open the next part. Return False if there is none."""
        path = f"{self._first.removesuffix('.mcap')}_part{self._part + 1}.mcap"
        if not os.path.isfile(path):
            return False
        self._stream.close()
        self._part += 1
        self._open(path)
        return True

    def _grown(self) -> Iterator[Message]:
        """Yield the messages of the records that are complete now."""
        size = os.fstat(self._stream.fileno()).st_size
        for opcode, offset, length in records_between(self._stream, self._at, size):
            self._at = offset + length
            try:
                yield from self._record(opcode, offset, length)
            except DAMAGE:
                self.damaged_chunks += 1

    def _record(self, opcode: int, offset: int, length: int) -> Iterator[Message]:
        if opcode == Opcode.SCHEMA:
            schema = Schema.read(record_body(self._stream, offset, length))
            self._schemas[schema.id] = schema
        elif opcode == Opcode.CHANNEL:
            channel = Channel.read(record_body(self._stream, offset, length))
            known = known_channel(channel, self._schemas, self._path)
            if known is not None and known[0] in self._types:
                self._decoders[channel.id] = unpacker(*known)
        elif opcode == Opcode.METADATA:
            name = Metadata.read(record_body(self._stream, offset, length)).name
            self.orderly = self.orderly or name == END_RECORD
        elif opcode == Opcode.DATA_END:
            self._complete = True
        elif opcode == Opcode.CHUNK:
            records = unpack_chunk(Chunk.read(record_body(self._stream, offset, length)))
            for at, data_length, channel_id, sequence, _ in message_heads(records):
                decode = self._decoders.get(channel_id)
                if decode is None:
                    continue
                data = at + MESSAGE_HEAD.size
                try:
                    yield decode(records[data : data + data_length])
                except CdrError as error:
                    raise LogError(
                        f"{self._path}: record {sequence} is damaged: {error}"
                    ) from error
