"""Writes a log from existing messages without a daemon, for imports. One file, no child process."""

import os
from collections.abc import Callable
from typing import Any, Self

from mcap.records import Channel, Schema

import vehicled
from vehicled.core.messages import Message
from vehicled.log.errors import LogError, why
from vehicled.log.mcapfile import MESSAGE_HEAD, McapFile, compressor
from vehicled.log.projecting import Projector
from vehicled.log.schema import (
    CHANNELS,
    END_RECORD,
    HEADER_RECORD,
    MCAP_PROFILE,
    MESSAGE_ENCODING,
    SCHEMA_ENCODING,
    Attachment,
    RunHeader,
    schema_of,
)
from vehicled.ros.cdr import CdrError, packer

_CHUNK_BYTES = 256 * 1024
_OPCODE = 5
_FIXED = 22
"""Fixed bytes of a message record, counted by its length besides the data."""


class LogFile:
    """Log being written. As a context manager it removes the file after an exception."""

    def __init__(
        self, path: str | os.PathLike[str], header: RunHeader, attachments: list[Attachment]
    ) -> None:
        """Create the file. Raises :class:`LogError` when it exists or cannot be written."""
        self.path = os.fspath(path)
        self.header = header
        self.messages = 0
        self.refused = 0
        """Number of messages whose values did not fit their fields, or whose stamp the log cannot
        hold."""
        self._records = bytearray()
        self._packers: dict[type[Message], Callable[[Any], bytes]] = {}
        self._projector = Projector(header.offset_ns)
        self._mcap_compression, self._compress = compressor("zstd")
        try:
            self._stream = open(self.path, "xb")  # noqa: SIM115 - closed by __exit__
        except OSError as error:
            raise LogError(f"the log cannot be written: {why(error)}") from error
        self._file = McapFile(self._stream, MCAP_PROFILE, f"vehicled {vehicled.__version__}")
        self._file.add_metadata(HEADER_RECORD, header.to_metadata())
        for item in attachments:
            self._file.add_attachment(
                item.name, item.media_type, item.data, header.start_wall_ns, header.start_wall_ns
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._stream.close()
        if error is not None:
            os.unlink(self.path)
            if isinstance(error, OSError):
                raise LogError(f"the log cannot be written: {why(error)}") from error

    def add(self, message: Message, log_time_ns: int) -> None:
        """Append a message. Log times may go back by less than two seconds, because readers sort
        only within that window."""
        kind = type(message)
        pack = self._packers.get(kind)
        if pack is None:
            pack = self._packers[kind] = packer(kind)
        t_ns = log_time_ns + self.header.offset_ns
        try:
            payload = pack(message)
        except CdrError:
            self.refused += 1
            return
        if not 0 <= t_ns < 2**63:
            self.refused += 1
            return
        self.messages += 1
        sequence = self.messages & 0xFFFFFFFF
        self._records += (
            MESSAGE_HEAD.pack(
                _OPCODE, _FIXED + len(payload), CHANNELS[kind].id, sequence, t_ns, t_ns
            )
            + payload
        )
        if len(self._records) >= _CHUNK_BYTES:
            self._close_chunk()

    def finish(self, end: dict[str, str]) -> None:
        """Complete the file."""
        self._close_chunk()
        self._file.add_metadata(END_RECORD, end)
        self._file.finish()

    def _close_chunk(self) -> None:
        if not self._records:
            return
        records = self._projector.extend(bytes(self._records))
        self._records.clear()
        self._file.add_chunk(records, self._mcap_compression, self._compress(records), self._define)

    def _define(self, number: int) -> None:
        ours = next((channel for channel in CHANNELS.values() if channel.id == number), None)
        if ours is not None:
            topic, (name, text) = ours.topic, schema_of(ours.message)
        else:
            projected = self._projector.channels[number]
            topic, name, text = projected.topic, projected.schema_name, projected.schema_text
        schema = self._file.schema_id(name) or number
        self._file.add_schema(
            Schema(data=text.encode(), encoding=SCHEMA_ENCODING, id=schema, name=name)
        )
        self._file.add_channel(
            Channel(
                id=number,
                message_encoding=MESSAGE_ENCODING,
                metadata={},
                schema_id=schema,
                topic=topic,
            )
        )
