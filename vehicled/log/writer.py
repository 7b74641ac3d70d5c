"""Log writer process: reads chunks from its standard input and writes the MCAP file. ``python -m vehicled.log.writer``.

It is a process of its own so that compression, system calls and a slow disk never hold the loop, and so that the file is finished
when the daemon is killed: the pipe ends, the writer writes summary and footer and leaves. It ignores the signals that end the
daemon's group for the same reason.

The file carries its final name from the start; nothing is renamed. What is whole up to a power cut is found by
:mod:`vehicled.log.recover`. On standard output it reports, one JSON object per line (:class:`~vehicled.log.frames.WriterReport`).
"""

import os
import select
import sys
import time

import msgspec
from mcap.records import Channel, Schema

import vehicled
from vehicled.core.child_process import be_modest
from vehicled.log.errors import LogError, why
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
NICENESS = 5
EXIT_OK = 0
EXIT_FAILED = 4
"""Exit status if the log could not be opened or the disk failed. The reason has been reported."""
EXIT_GARBLED = 5
"""Exit status if the pipe contained invalid frames."""

_BY_ID = {channel.id: channel for channel in CHANNELS.values()}


class Output:
    """File written in complete steps: a partial write of a failing disk is truncated again."""

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
        """Write the buffered data. After an error the file ends where it did before."""
        data = memoryview(bytes(self._pending))
        self._pending.clear()
        try:
            at = 0
            while at < len(data):
                at += os.write(self._fd, data[at:])
        except OSError as error:
            os.ftruncate(self._fd, self.committed)
            raise OSError(error.errno, error.strerror, self.path) from error
        self.committed += len(data)

    def sync(self) -> None:
        """Flush to disk to survive a power cut. Raises OSError."""
        if self._synced != self.committed:
            # macOS has no fdatasync.
            getattr(os, "fdatasync", os.fsync)(self._fd)
            self._synced = self.committed

    def loss(self) -> str:
        """Return what others have done to the file; empty if its path still leads to it. Raises OSError."""
        here = os.fstat(self._fd)
        if not here.st_nlink:
            return "was deleted while it was written"
        try:
            there = os.stat(self.path)
        except FileNotFoundError:
            return "was moved away while it was written"
        return "" if os.path.samestat(here, there) else "was replaced by another file while it was written"

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def discard(self) -> None:
        """Close and remove the file."""
        self.close()
        os.unlink(self.path)


class Writer:
    """Log of one run: one or more parts."""

    def __init__(self, opening: WriterConfig) -> None:
        """Create the first file. Raises OSError or :class:`LogError`."""
        self._opening = opening
        self._mcap_compression, self._compress = compressor(opening.compression)
        self._projector = Projector(opening.header.offset_ns) if opening.projections else None
        self._rotate_bytes = min(opening.rotate_bytes, max(opening.quota_bytes // 2, 1))
        self._quota_step = max(min(opening.quota_bytes // 50, 64 << 20), 1 << 20)
        self._quota_due = 0
        self._finished_bytes = 0
        self.messages = 0
        self.chunks = 0
        self.record_bytes = 0
        self.part = 1
        self.files: list[str] = []
        os.makedirs(opening.folder, exist_ok=True)
        self._open()

    @property
    def total_bytes(self) -> int:
        """Size of all parts, bytes."""
        return self._finished_bytes + self._output.committed

    def _open(self) -> None:
        opening = self._opening
        header = msgspec.structs.replace(opening.header, part=self.part)
        path = os.path.join(opening.folder, part_name(opening.stem, self.part))
        self._output = Output(path)
        self.files.append(path)
        self._file = McapFile(self._output, MCAP_PROFILE, f"vehicled {vehicled.__version__}")  # type: ignore[arg-type]
        self._file.add_metadata(HEADER_RECORD, header.to_metadata())
        for item in opening.attachments:
            data = item.data
            if item.media_type.startswith("text/") or item.media_type.endswith(("toml", "json")):
                data = redact(data.decode(errors="replace")).encode()
            self._file.add_attachment(item.name, item.media_type, data, header.start_wall_ns, header.start_wall_ns)
        try:
            self._output.commit()
            self._output.sync()
        except OSError:
            # An empty file would confuse the user.
            self._output.discard()
            self.files.pop()
            raise
        self.enforce_quota()

    def add(self, records: bytes) -> None:
        """Write one chunk of records. Raises OSError; ``ValueError`` for invalid records."""
        if self._file.size >= self._rotate_bytes:
            self._rotate()
        if self._projector is not None:
            records = self._projector.extend(records)
        before = self._file.message_count
        self._file.add_chunk(records, self._mcap_compression, self._compress(records), self._add_channel)
        self._output.commit()
        self.messages += self._file.message_count - before
        self.record_bytes += len(records)
        self.chunks += 1
        if self.total_bytes >= self._quota_due:
            self.enforce_quota()

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
        self._file.add_schema(Schema(data=text.encode(), encoding=SCHEMA_ENCODING, id=schema, name=name))
        self._file.add_channel(Channel(id=number, message_encoding=MESSAGE_ENCODING, metadata={}, schema_id=schema, topic=topic))

    def check(self) -> str:
        """Go on in another file if somebody has deleted or moved this one; return what happened, empty if nothing. Raises
        OSError."""
        loss = self._output.loss()
        if not loss:
            return ""
        path = self.files.pop()
        self.finish({})
        self.part += 1
        os.makedirs(self._opening.folder, exist_ok=True)
        self._open()
        return f"the log {path} {loss}; it goes on in {self.files[-1]}"

    def _rotate(self) -> None:
        self.finish({})
        self.part += 1
        self._open()
        _report(WriterReport(state="rotated", path=self.files[-1]))

    def enforce_quota(self) -> None:
        """Remove old logs as the quota requires."""
        self._quota_due = self.total_bytes + self._quota_step
        enforce(self._opening.folder, self._opening.quota_bytes, os.path.basename(self._output.path))

    def sync(self) -> None:
        """Flush the log to disk. Raises OSError."""
        self._output.sync()

    def finish(self, end: dict[str, str]) -> None:
        """Complete the open part. ``end`` is empty if the run continues or the daemon was killed. Raises OSError."""
        if end:
            self._file.add_metadata(END_RECORD, end | {"writer_cpu_s": f"{time.process_time():.3f}"})
        self._file.finish()
        self._output.commit()
        self._output.sync()
        self._finished_bytes += self._output.committed
        self._output.committed = 0
        self._output.close()


def run(source: int) -> int:
    """Read frames from a file descriptor until it ends. Return the exit status."""
    decoder = FrameDecoder()
    writer: Writer | None = None
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
                if kind is LogFrameKind.RECORDS and writer is not None:
                    writer.add(payload)
                elif kind is LogFrameKind.END:
                    end = msgspec.msgpack.decode(payload, type=dict[str, str])
                elif kind is LogFrameKind.OPENING and writer is None:
                    opening = msgspec.msgpack.decode(payload, type=WriterConfig)
                    writer = Writer(opening)
                    sync_period_s = opening.sync_period_s
                    _report(WriterReport(state="open", path=writer.files[0]))
                else:
                    raise ValueError(f"{kind.name} out of place")
            if writer is not None and time.monotonic() >= sync_due_s:
                writer.sync()
                if loss := writer.check():
                    _report(WriterReport(state="lost", path=writer.files[-1], detail=loss))
                sync_due_s = time.monotonic() + sync_period_s
    except (ValueError, msgspec.MsgspecError) as error:
        _report(WriterReport(state="failed", detail=f"the daemon's pipe carried {error}", path=writer.files[-1] if writer else ""))
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
    _report(WriterReport(state="failed", path=path, detail=detail, files=writer.files if writer is not None else []))
    return EXIT_FAILED


def _report_done(writer: Writer) -> None:
    spent = time.process_time()
    _report(
        WriterReport(
            state="done", path=writer.files[0], files=writer.files, messages=writer.messages, chunks=writer.chunks,
            bytes=writer.total_bytes, record_bytes=writer.record_bytes, cpu_s=spent,
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
