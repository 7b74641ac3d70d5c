"""The loop's side of the log: packs messages into chunks and queues them for the pipe. Pure; never
blocks.

Recording is an append to a buffer. A chunk is closed when it has grown to ``CHUNK_BYTES`` or when
:meth:`LogSink.flush` finds it ``CHUNK_AGE_NS`` old; the closed buffer itself becomes the frame, so
that nothing is copied on the loop.

Overload. Derived topics are dropped first, a chunk at a time, between an event ``log_dropping`` and
an event ``log_dropped`` with the counts. The journal has its own, larger bound; when even that
overflows the run cannot be replayed beyond that point: ``not_replayable_after_ns`` is set and the
event ``not_replayable_after`` stands in the log.
"""

import struct
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from vehicled.core.events import JournalGap
from vehicled.core.messages import Event, Message
from vehicled.log.frames import HEAD, LogFrameKind
from vehicled.log.outbox import FrameQueue
from vehicled.log.schema import CHANNELS, ChunkStream
from vehicled.ros.cdr import CdrError, packer

CHUNK_BYTES = 64 * 1024
CHUNK_AGE_NS = 500_000_000
JOURNAL_LIMIT_BYTES = 16 * 1024 * 1024
DERIVED_LIMIT_BYTES = 4 * 1024 * 1024
COPY_LIMIT_BYTES = 1024 * 1024
"""Largest backlog of the second reader, see :meth:`LogSink.copy_records`."""

_RECORD = struct.Struct("<BQHIQQ")
"""MCAP message record up to its data: opcode, length, channel, sequence, log time, publish time."""
_OPCODE = 5
_FIXED = 22
"""Fixed bytes of a message record, counted by its length besides the data."""
_WRAP = 0xFFFFFFFF


class Losses(Struct):
    """Losses of one class of streams."""

    records: int = 0
    bytes: int = 0
    episodes: int = 0
    since_ns: int | None = None
    """Start of the current loss, ns."""
    episode_records: int = 0
    episode_bytes: int = 0


class _Buffer:
    """Open chunk of one stream. Begins with room for the head of its frame."""

    __slots__ = ("complete_to_ns", "copied", "data", "records", "stream")

    def __init__(self, stream: ChunkStream) -> None:
        self.stream = stream
        self.data = bytearray(HEAD.size)
        self.copied = HEAD.size
        """Bytes already given to the second reader."""
        self.records = 0
        self.complete_to_ns = 0
        """Time up to which all records have been passed on, ns."""


class LogSink:
    """Encoder of messages into frames for :attr:`outbox`. Call order is journal order."""

    def __init__(
        self,
        offset_ns: int,
        *,
        journal_limit_bytes: int = JOURNAL_LIMIT_BYTES,
        derived_limit_bytes: int = DERIVED_LIMIT_BYTES,
    ) -> None:
        """Take ``offset_ns``, UTC minus the clock of the messages; see
        :class:`~vehicled.log.schema.RunHeader`."""
        self.offset_ns = offset_ns
        """UTC minus the clock of the messages, ns."""
        self.outbox = FrameQueue(journal_limit_bytes, derived_limit_bytes)
        self._buffers = [_Buffer(stream) for stream in ChunkStream]
        self._routes: dict[type[Message], tuple[Callable[[Any], bytes], int, _Buffer]] = {
            kind: (packer(kind), channel.id, self._buffers[channel.stream])
            for kind, channel in CHANNELS.items()
        }
        self._sequence = 0
        self._flush_due_ns = 0
        self._stopped = False
        self._misfits: set[type[Message]] = set()
        self._copies: list[bytearray] | None = None
        self._copied_bytes = 0
        self.copy_dropped_bytes = 0
        """Bytes that the second reader lost because its backlog was full."""
        self.journal_losses = Losses()
        self.derived_losses = Losses()
        self.unpackable = 0
        """Number of messages whose values did not fit their fields; the first of each type is an
        event."""
        self.not_replayable_after_ns: int | None = None
        """Time of the first gap in the journal, ns; None without a gap."""

    def record(self, message: Message, log_time_ns: int) -> None:
        """Record one message, stamped with the daemon's clock."""
        if self._stopped and self._copies is None:
            return
        pack, channel, buffer = self._routes[type(message)]
        data = buffer.data
        size = len(data)
        try:
            payload = pack(message)
            t_ns = log_time_ns + self.offset_ns
            sequence = (self._sequence + 1) & _WRAP
            data += _RECORD.pack(_OPCODE, _FIXED + len(payload), channel, sequence, t_ns, t_ns)
            data += payload
        except (CdrError, struct.error) as error:
            self._sequence = (self._sequence + 1) & _WRAP
            self._misfit(message, log_time_ns, error)
            return
        except BaseException:
            # Half a record would make the whole chunk unreadable.
            del data[size:]
            raise
        self._sequence = sequence
        buffer.records += 1
        if len(data) >= CHUNK_BYTES:
            self._close(buffer, log_time_ns)

    def lose(self, message: Message, log_time_ns: int) -> None:
        """Count a record whose recording raised. Of the journal it is a gap, beyond which the run
        cannot be replayed."""
        self._sequence = (self._sequence + 1) & _WRAP
        lossless = self._routes[type(message)][2].stream is not ChunkStream.DERIVED
        losses = self.journal_losses if lossless else self.derived_losses
        losses.records += 1
        if lossless and self.not_replayable_after_ns is None:
            self.not_replayable_after_ns = log_time_ns
            fields = {"streams": "journal", "complete_to_ns": log_time_ns, "cause": "record_failed"}
            self._event("error", "not_replayable_after", log_time_ns, fields, forced=True)

    def flush(self, now_ns: int) -> None:
        """Close the chunks if the last time is ``CHUNK_AGE_NS`` ago. Cheap if none is due: call it
        in every loop cycle."""
        if now_ns >= self._flush_due_ns:
            self.close_chunks(now_ns)

    def close_chunks(self, now_ns: int) -> None:
        """Close all chunks now."""
        self._flush_due_ns = now_ns + CHUNK_AGE_NS
        for buffer in self._buffers:
            if buffer.records:
                self._close(buffer, now_ns)
            else:
                buffer.complete_to_ns = now_ns

    def finish(self, now_ns: int) -> None:
        """Close all chunks; losses still in progress are recorded in the log."""
        for losses, lossless in ((self.derived_losses, False), (self.journal_losses, True)):
            if losses.since_ns is not None:
                self._end_episode(losses, lossless, now_ns)
        self.close_chunks(now_ns)

    def stop(self) -> None:
        """Stop recording, because the writer is gone. A second reader continues."""
        self._stopped = True
        self.outbox.clear()
        for buffer in self._buffers:
            self._renew(buffer)

    # ------------------------------------------------------------------ a second reader

    def copy_records(self) -> None:
        """Start to keep every encoded record for :meth:`take_copy` too. The backlog is bounded;
        excess is dropped."""
        self._copies = []
        for buffer in self._buffers:
            buffer.copied = len(buffer.data)

    def take_copy(self) -> list[bytearray]:
        """Return the records since the last call, in pieces of one stream each; sort across streams
        by sequence number."""
        if self._copies is None:
            return []
        for buffer in self._buffers:
            self._copy(buffer)
        copies, self._copies, self._copied_bytes = self._copies, [], 0
        return copies

    def _copy(self, buffer: _Buffer) -> None:
        if self._copies is None or buffer.copied == len(buffer.data):
            return
        piece = buffer.data[buffer.copied :]
        buffer.copied += len(piece)
        if self._copied_bytes + len(piece) > COPY_LIMIT_BYTES:
            self.copy_dropped_bytes += len(piece)
            return
        self._copied_bytes += len(piece)
        self._copies.append(piece)

    def _renew(self, buffer: _Buffer) -> None:
        self._copy(buffer)
        buffer.data = bytearray(HEAD.size)
        buffer.copied = HEAD.size
        buffer.records = 0

    # ------------------------------------------------------------------ chunks and losses

    def _close(self, buffer: _Buffer, now_ns: int) -> None:
        frame, records = buffer.data, buffer.records
        self._renew(buffer)
        if self._stopped:
            return
        HEAD.pack_into(frame, 0, len(frame) - HEAD.size, LogFrameKind.RECORDS)
        lossless = buffer.stream is not ChunkStream.DERIVED
        losses = self.journal_losses if lossless else self.derived_losses
        if self.outbox.offer(frame, lossless=lossless):
            buffer.complete_to_ns = now_ns
            if losses.since_ns is not None:
                self._end_episode(losses, lossless, now_ns)
            return
        if losses.since_ns is None:
            self._begin_episode(losses, lossless, buffer.complete_to_ns, now_ns)
        losses.records += records
        losses.bytes += len(frame)
        losses.episode_records += records
        losses.episode_bytes += len(frame)

    def _begin_episode(
        self, losses: Losses, lossless: bool, complete_to_ns: int, now_ns: int
    ) -> None:
        losses.since_ns = complete_to_ns
        losses.episodes += 1
        losses.episode_records = losses.episode_bytes = 0
        if not lossless:
            self._event(
                "warning",
                "log_dropping",
                now_ns,
                {"streams": "derived", "complete_to_ns": complete_to_ns},
            )
            return
        first = self.not_replayable_after_ns is None
        if first:
            self.not_replayable_after_ns = complete_to_ns
        # Bypass the full queue, so that a log that never recovers still shows its gap.
        name = JournalGap.names[0] if first else "journal_dropping"
        self._event(
            "error",
            name,
            now_ns,
            {"streams": "journal", "complete_to_ns": complete_to_ns},
            forced=True,
        )

    def _end_episode(self, losses: Losses, lossless: bool, now_ns: int) -> None:
        counts = {
            "streams": "journal" if lossless else "derived",
            "records": losses.episode_records,
            "bytes": losses.episode_bytes,
            "from_ns": losses.since_ns,
            "to_ns": now_ns,
        }
        losses.since_ns = None
        self._event(
            "error" if lossless else "warning",
            "journal_dropped" if lossless else "log_dropped",
            now_ns,
            counts,
        )

    def _event(
        self, level: str, name: str, now_ns: int, fields: dict[str, Any], *, forced: bool = False
    ) -> None:
        event = Event.of(now_ns, level, name, **fields)
        if not forced:
            self.record(event, now_ns)
            return
        # Send it as a separate frame beyond the limit.
        buffer = _Buffer(ChunkStream.JOURNAL)
        pack, channel, _ = self._routes[Event]
        payload = pack(event)
        t_ns = now_ns + self.offset_ns
        self._sequence = (self._sequence + 1) & _WRAP
        buffer.data += (
            _RECORD.pack(_OPCODE, _FIXED + len(payload), channel, self._sequence, t_ns, t_ns)
            + payload
        )
        HEAD.pack_into(buffer.data, 0, len(buffer.data) - HEAD.size, LogFrameKind.RECORDS)
        self.outbox.offer(buffer.data, lossless=True, forced=True)

    def _misfit(self, message: Message, log_time_ns: int, error: Exception) -> None:
        self.unpackable += 1
        kind = type(message)
        if kind not in self._misfits and 0 <= log_time_ns + self.offset_ns < 2**63:
            self._misfits.add(kind)
            self._event(
                "error",
                "log_unpackable",
                log_time_ns,
                {"message": kind.__name__, "reason": str(error)},
            )
