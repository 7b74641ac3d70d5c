"""Log writer process: reads chunks from its standard input and writes the MCAP file. ``python -m
vehicled.log.writer``.

While the disk is full it reads nothing: the daemon's bounded queues keep what comes, and mark what
they lose. The log goes on where it stopped as soon as there is space.

It is a process of its own so that compression, system calls and a slow disk never hold the loop,
and so that the file is finished when the daemon is killed: the pipe ends, the writer writes summary
and footer and leaves. It ignores the signals that end the daemon's group for the same reason.

The file carries its final name from the start; nothing is renamed. What is whole up to a power cut
is found by :mod:`vehicled.log.recover`. On standard output it reports, one JSON object per line
(:class:`~vehicled.log.frames.WriterReport`).
"""

import os
import select
import sys
import time
from collections import deque
from collections.abc import Callable
from enum import Enum
from functools import partial

import msgspec
from mcap.records import Channel, Schema

import vehicled
from vehicled.core.child_process import be_modest
from vehicled.core.errors import passes
from vehicled.log.errors import FULL, LogError, why
from vehicled.log.frames import FrameDecoder, LogFrameKind, WriterConfig, WriterReport
from vehicled.log.mcapfile import McapFile, compressor
from vehicled.log.projecting import Projector
from vehicled.log.quota import enforce, lock
from vehicled.log.schema import (
    CHANNELS,
    END_RECORD,
    HEADER_RECORD,
    MCAP_PROFILE,
    MESSAGE_ENCODING,
    SCHEMA_ENCODING,
    part_name,
    redact,
    schema_of,
)

READ_BYTES = 1 << 20
SPACE_PERIOD_S = 1.0
"""Time between two attempts to write to a full disk, s."""
NICENESS = 5
EXIT_OK = 0
EXIT_FAILED = 4
"""Exit status if the log could not be opened or the disk failed. The reason has been reported."""
EXIT_GARBLED = 5
"""Exit status if the pipe contained invalid frames."""

_BY_ID = {channel.id: channel for channel in CHANNELS.values()}


class Output:
    """File written in complete steps: a partial write of a failing disk is truncated again, and its
    data kept for the next try."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        lock(self._fd)
        self._pending = bytearray()
        self.committed = 0
        self._synced = 0

    def write(self, data: bytes) -> int:
        """Buffer data until :meth:`commit`."""
        self._pending += data
        return len(data)

    def commit(self) -> None:
        """Write the buffered data. After an error the file ends where it did before, and the data
        stays buffered."""
        data = memoryview(bytes(self._pending))
        try:
            at = 0
            while at < len(data):
                at += os.pwrite(self._fd, data[at:], self.committed + at)
        except OSError as error:
            os.ftruncate(self._fd, self.committed)
            raise OSError(error.errno, error.strerror, self.path) from error
        self._pending.clear()
        self.committed += len(data)

    def sync(self) -> None:
        """Flush to disk to survive a power cut. Raises OSError."""
        if self._synced != self.committed:
            # macOS has no fdatasync.
            getattr(os, "fdatasync", os.fsync)(self._fd)
            self._synced = self.committed

    def loss(self) -> str:
        """Return what others have done to the file; empty if its path still leads to it. Raises
        OSError."""
        here = os.fstat(self._fd)
        if not here.st_nlink:
            return "was deleted while it was written"
        try:
            there = os.stat(self.path)
        except FileNotFoundError:
            return "was moved away while it was written"
        return (
            ""
            if os.path.samestat(here, there)
            else "was replaced by another file while it was written"
        )

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def discard(self) -> None:
        """Close and remove the file."""
        self.close()
        os.unlink(self.path)


class _PartState(Enum):
    """State of the newest part."""

    OPEN = 0
    ENDING = 1
    """Its summary is buffered and not yet written."""
    CLOSED = 2


class Writer:
    """Log of one run: one or more parts. After an OSError :meth:`go_on` tries again what was
    left."""

    def __init__(self, opening: WriterConfig) -> None:
        """Create the first file. Raises OSError or :class:`LogError`."""
        self._opening = opening
        self._mcap_compression, self._compress = compressor(opening.compression)
        self._projector = Projector(opening.header.offset_ns) if opening.projections else None
        self._rotate_bytes = min(opening.rotate_bytes, max(opening.quota_bytes // 2, 1))
        self._quota_step = max(min(opening.quota_bytes // 50, 64 << 20), 1 << 20)
        self._quota_due = 0
        self._finished_bytes = 0
        self._chunks: deque[bytes] = deque()
        """Records that are not yet encoded."""
        self._ending = ""
        """Text about a part that others have taken away, until the next one is open."""
        self.messages = 0
        self.chunks = 0
        self.record_bytes = 0
        self.part = 1
        self.files: list[str] = []
        self.news: list[WriterReport] = []
        """Reports about new parts."""
        self._open()

    @property
    def total_bytes(self) -> int:
        """Size of all parts, bytes."""
        return self._finished_bytes + self._output.committed

    def _open(self) -> None:
        opening = self._opening
        header = msgspec.structs.replace(opening.header, part=self.part)
        path = os.path.join(opening.folder, part_name(opening.stem, self.part))
        os.makedirs(opening.folder, exist_ok=True)
        self._output = Output(path)
        try:
            self._file = McapFile(self._output, MCAP_PROFILE, f"vehicled {vehicled.__version__}")  # type: ignore[arg-type]
            self._file.add_metadata(HEADER_RECORD, header.to_metadata())
            for item in opening.attachments:
                data = item.data
                if item.media_type.startswith("text/") or item.media_type.endswith(
                    ("toml", "json")
                ):
                    data = redact(data.decode(errors="replace")).encode()
                self._file.add_attachment(
                    item.name, item.media_type, data, header.start_wall_ns, header.start_wall_ns
                )
            self._output.commit()
            self._output.sync()
        except BaseException:
            # An empty file would confuse the user.
            self._output.discard()
            raise
        self._state = _PartState.OPEN
        self.files.append(path)
        self.enforce_quota()

    def add(self, records: bytes) -> None:
        """Write one chunk of records. Raises OSError; ``ValueError`` for invalid records."""
        self._chunks.append(records)
        self.go_on()

    def go_on(self) -> None:
        """Write what waits. Raises like :meth:`add`."""
        if self._state is not _PartState.OPEN:
            self._next_part()
        self._output.commit()
        while self._chunks:
            if self._file.size >= self._rotate_bytes:
                self._end_part()
                self._next_part()
            self._encode(self._chunks.popleft())
            self._output.commit()
            if self.total_bytes >= self._quota_due:
                self.enforce_quota()

    def _encode(self, records: bytes) -> None:
        if self._projector is not None:
            records = self._projector.extend(records)
        before = self._file.message_count
        self._file.add_chunk(
            records, self._mcap_compression, self._compress(records), self._add_channel
        )
        self.messages += self._file.message_count - before
        self.record_bytes += len(records)
        self.chunks += 1

    def _add_channel(self, number: int) -> None:
        if number in _BY_ID:
            topic = _BY_ID[number].topic
            name, text = schema_of(_BY_ID[number].message)
        elif self._projector is not None and number in self._projector.channels:
            projected = self._projector.channels[number]
            topic, name, text = projected.topic, projected.schema_name, projected.schema_text
        else:
            raise ValueError(f"records of an unknown channel {number}")
        # Topics of one type share its schema.
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

    def check(self) -> None:
        """Go on in another file if somebody has deleted or moved this one. Raises OSError."""
        if self._state is _PartState.OPEN and (loss := self._output.loss()):
            self._ending = f"the log {self.files.pop()} {loss}; it goes on in "
            self._end_part()
            self._next_part()

    def _end_part(self) -> None:
        self._file.finish()
        self._state = _PartState.ENDING

    def _next_part(self) -> None:
        """Close the part that ends, and open the next one."""
        self._close()
        self._open()
        path = self.files[-1]
        if self._ending:
            self.news.append(WriterReport(state="lost", path=path, detail=self._ending + path))
            self._ending = ""
        else:
            self.news.append(WriterReport(state="rotated", path=path))

    def _close(self) -> None:
        if self._state is _PartState.CLOSED:
            return
        self._output.commit()
        self._output.sync()
        self._finished_bytes += self._output.committed
        self._output.committed = 0
        self._output.close()
        self._state = _PartState.CLOSED
        self.part += 1

    def enforce_quota(self) -> None:
        """Remove old logs as the quota requires."""
        self._quota_due = self.total_bytes + self._quota_step
        enforce(
            self._opening.folder, self._opening.quota_bytes, os.path.basename(self._output.path)
        )

    def sync(self) -> None:
        """Flush the log to disk. Raises OSError."""
        if self._state is _PartState.OPEN:
            self._output.sync()

    def finish(self, end: dict[str, str]) -> None:
        """Complete the open part. ``end`` is empty if the daemon was killed. Raises OSError."""
        if end:
            self._file.add_metadata(
                END_RECORD, end | {"writer_cpu_s": f"{time.process_time():.3f}"}
            )
        self._end_part()
        self._close()


class _Persistence:
    """Does the steps of a writer, and waits while the disk is full and the daemon is there."""

    def __init__(self, writer: Writer, source: int, *, waits: bool) -> None:
        self._writer = writer
        self._source = source
        self._waits = waits

    def do(self, step: Callable[[], None]) -> None:
        """Do a step. Raises OSError if that fails for another reason, or if the daemon ends while
        the disk is full."""
        try:
            step()
        except OSError as error:
            if not self._waits or error.errno not in FULL:
                raise
            self._wait(error)
        for report in self._writer.news:
            _report(report)
        self._writer.news.clear()

    def _wait(self, error: OSError) -> None:
        began_s = time.monotonic()
        _report(WriterReport(state="waiting", path=str(error.filename or ""), detail=why(error)))
        while True:
            ended = _closed(self._source, SPACE_PERIOD_S)
            try:
                self._writer.go_on()
            except OSError as again:
                if ended or again.errno not in FULL:
                    raise
            else:
                break
        _report(
            WriterReport(
                state="resumed",
                path=self._writer.files[-1],
                detail=f"{time.monotonic() - began_s:.0f}",
            )
        )


def _closed(source: int, timeout_s: float) -> bool:
    """Wait; return True if the other end of a pipe is closed meanwhile, read or not."""
    poller = select.poll()
    poller.register(source, 0)
    return bool(poller.poll(timeout_s * 1e3))


def run(source: int) -> int:
    """Read frames from a file descriptor until it ends. Return the exit status."""
    decoder = FrameDecoder()
    writer: Writer | None = None
    persistence: _Persistence | None = None
    end: dict[str, str] = {}
    status = EXIT_OK
    try:
        sync_period_s, sync_due_s = 1.0, 0.0
        while True:
            ready, _, _ = select.select([source], [], [], sync_period_s)
            data = os.read(source, READ_BYTES) if ready else None
            if data == b"":
                break
            for kind, payload in decoder.feed(data or b""):
                if kind is LogFrameKind.RECORDS and writer is not None and persistence is not None:
                    persistence.do(partial(writer.add, payload))
                elif kind is LogFrameKind.END:
                    end = msgspec.msgpack.decode(payload, type=dict[str, str])
                elif kind is LogFrameKind.OPENING and writer is None:
                    opening = msgspec.msgpack.decode(payload, type=WriterConfig)
                    writer = Writer(opening)
                    persistence = _Persistence(writer, source, waits=opening.waits_for_space)
                    sync_period_s = opening.sync_period_s
                    _report(WriterReport(state="open", path=writer.files[0]))
                else:
                    raise ValueError(f"{kind.name} out of place")
            if writer is not None and persistence is not None and time.monotonic() >= sync_due_s:
                persistence.do(writer.sync)
                persistence.do(writer.check)
                sync_due_s = time.monotonic() + sync_period_s
    except (ValueError, msgspec.MsgspecError) as error:
        _report(
            WriterReport(
                state="failed",
                detail=f"the daemon's pipe carried {error}",
                path=writer.files[-1] if writer else "",
            )
        )
        status = EXIT_GARBLED
    except LogError as error:
        _report(WriterReport(state="failed", detail=str(error)))
        return EXIT_FAILED
    except OSError as error:
        return _disk_failed(writer, error)
    if writer is None:
        return status
    try:
        writer.finish(end)
    except OSError as error:
        return _disk_failed(writer, error)
    if status == EXIT_OK:
        _report_done(writer)
    return status


def _disk_failed(writer: Writer | None, error: OSError) -> int:
    path = writer.files[-1] if writer is not None and writer.files else str(error.filename or "")
    detail = why(error)
    if writer is not None and writer.files:
        detail += "; what was written before is kept, `vehicled log recover` completes it"
    files = writer.files if writer is not None else []
    _report(
        WriterReport(state="failed", path=path, detail=detail, passing=passes(error), files=files)
    )
    return EXIT_FAILED


def _report_done(writer: Writer) -> None:
    spent = time.process_time()
    _report(
        WriterReport(
            state="done", path=writer.files[0], files=writer.files, messages=writer.messages,
            chunks=writer.chunks, bytes=writer.total_bytes, record_bytes=writer.record_bytes,
            cpu_s=spent,
        )
    )  # fmt: skip


def _report(report: WriterReport) -> None:
    try:
        sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
        sys.stdout.buffer.flush()
    except OSError:
        # The daemon is gone; only the file matters now.
        pass


def main() -> int:
    """Entry point of the process."""
    be_modest(NICENESS)
    return run(0)


if __name__ == "__main__":
    status = main()
    try:
        sys.stdout.flush()
    except OSError:
        # The reader is gone.
        pass
    # Skip the interpreter's shutdown, which would complain about a closed pipe.
    os._exit(status)
