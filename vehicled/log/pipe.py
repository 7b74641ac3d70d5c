"""Starts the log writer process and feeds it without blocking the loop.

In wall time the pipe is non-blocking: data that it does not accept stays queued in
:mod:`vehicled.log.outbox`. In lockstep the pump may wait (``blocking=True``): the writer slows the
run down instead of losing data.
"""

import fcntl
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

import msgspec
from msgspec import Struct

from vehicled.core.errors import passes
from vehicled.core.messages import Event
from vehicled.log.errors import LogError
from vehicled.log.frames import LogFrameKind, WriterConfig, WriterReport, frame
from vehicled.log.schema import Attachment, RunHeader, log_stem, part_name
from vehicled.log.sink import DERIVED_LIMIT_BYTES, JOURNAL_LIMIT_BYTES, LogSink

PIPE_BYTES = 1 << 20
PUMP_BYTES = 256 * 1024
"""Largest write per call on the loop; the copy costs about 50 us."""
LISTEN_PERIOD_NS = 500_000_000
_F_SETPIPE_SZ = 1031


class LogResult(Struct, frozen=True, kw_only=True):
    """Final state of the log."""

    path: str
    files: list[str]
    finished: bool
    """True if the writer completed the file and exited."""
    failure: str = ""
    messages: int = 0
    chunks: int = 0
    bytes: int = 0
    record_bytes: int = 0
    writer_cpu_s: float = 0.0
    dropped_derived: int = 0
    dropped_journal: int = 0
    not_replayable_after_ns: int | None = None


class WriterProcess:
    """Handle of the writer process. Record into :attr:`sink`, call :meth:`pump` in every loop cycle
    and :meth:`close` at the end.
    """

    def __init__(
        self, process: "subprocess.Popen[bytes]", sink: LogSink, *, blocking: bool
    ) -> None:
        """Use :meth:`start` instead."""
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._to_child = process.stdin.fileno()
        self._from_child = process.stdout.fileno()
        self._blocking = blocking
        self._listen_due_ns = 0
        self._received = b""
        self._reports: list[WriterReport] = []
        self._noise: list[str] = []
        self._failure = ""
        self._waits_since_ns: int | None = None
        self._waited_for = ""
        self._closed = False
        self.sink = sink
        self.path = ""
        self.waits = ""
        """Why the log stands still at present; empty while it goes on."""

    @classmethod
    def start(
        cls,
        header: RunHeader,
        *,
        folder: str,
        attachments: list[Attachment] | None = None,
        compression: str = "zstd",
        rotate_mb: float = 4_000,
        quota_mb: float = 20_000,
        sync_period_s: float = 0.5,
        projections: bool = True,
        blocking: bool = False,
        journal_limit_bytes: int = JOURNAL_LIMIT_BYTES,
        derived_limit_bytes: int = DERIVED_LIMIT_BYTES,
        timeout_s: float = 30.0,
    ) -> Self:
        """Start the writer and wait until its file is open (0.2 s, on a slow and busy board many
        times that): call it before the loop runs.

        Raises :class:`LogError` when the folder cannot be written, the compression is not
        installed, or the process does not start.
        """
        opening = WriterConfig(
            folder=os.path.abspath(os.path.expanduser(folder)),
            stem=log_stem(header.profile, header.course, header.start_wall_ns, header.run_id),
            header=msgspec.convert(msgspec.to_builtins(header), RunHeader),
            attachments=attachments or [],
            compression=compression,
            rotate_bytes=round(rotate_mb * 1e6),
            quota_bytes=round(quota_mb * 1e6),
            sync_period_s=sync_period_s,
            projections=projections,
            waits_for_space=not blocking,
        )
        try:
            process = subprocess.Popen(
                # -P: a file in the working directory must not shadow a library module.
                [sys.executable, "-P", "-m", "vehicled.log.writer"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=child_environment(),
                # Ctrl-C goes to the terminal's foreground group, but the writer must outlive the
                # daemon.
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            raise _log_error(
                f"the log writer does not start: {error.strerror}", passing=passes(error)
            ) from error
        sink = LogSink(
            header.offset_ns,
            journal_limit_bytes=journal_limit_bytes,
            derived_limit_bytes=derived_limit_bytes,
        )
        self = cls(process, sink, blocking=blocking)
        try:
            self._greet(opening, timeout_s)
        except BaseException:
            self._abandon()
            # A writer that was killed while it opened its file leaves it empty.
            with suppress(OSError):
                first = os.path.join(opening.folder, part_name(opening.stem, 1))
                if not os.path.getsize(first):
                    os.unlink(first)
            raise
        return self

    # ------------------------------------------------------------------ on the loop

    def pump(self, now_ns: int) -> None:
        """Close due chunks and write what the pipe accepts. ``now_ns`` is on the clock of the
        messages. Never raises."""
        sink = self.sink
        sink.flush(now_ns)
        outbox = sink.outbox
        room = PUMP_BYTES
        while room > 0 and (head := outbox.head()) is not None:
            try:
                written = os.write(self._to_child, memoryview(head)[:room])
            except BlockingIOError:
                if not self._blocking:
                    return
                # Wait outside the write, so that a signal cannot come between writing bytes and
                # counting them.
                _wait_for(self._to_child, select.POLLOUT, 1.0)
                continue
            except OSError:
                self._lost()
                return
            outbox.advance(written)
            if not self._blocking:
                room -= written
        if now_ns >= self._listen_due_ns:
            # A writer whose reports are never read would block on a full pipe.
            self._listen_due_ns = now_ns + LISTEN_PERIOD_NS
            self._ended()
            self._mark_wait(now_ns)

    def _mark_wait(self, now_ns: int) -> None:
        """Record when a full disk has made the log stand still, as soon as it goes on."""
        if self.waits:
            self._waits_since_ns = self._waits_since_ns or now_ns
        elif self._waits_since_ns is not None:
            fields = {"reason": self._waited_for, "from_ns": self._waits_since_ns, "to_ns": now_ns}
            self._waits_since_ns = None
            self.sink.record(Event.of(now_ns, "warning", "log_waited", **fields), now_ns)

    @property
    def pid(self) -> int:
        """Process id of the writer."""
        return self._process.pid

    @property
    def failure(self) -> str:
        """Reason of the writer's failure, or why it waits; empty while it works."""
        return self._failure or (
            f"{self.waits}; it goes on when there is space" if self.waits else ""
        )

    @property
    def loss(self) -> str:
        """Text that says what others did to the files of the log; empty if nothing."""
        return next(
            (report.detail for report in reversed(self._reports) if report.state == "lost"), ""
        )

    @property
    def alive(self) -> bool:
        """True while the writer accepts records."""
        return not self._failure and not self._closed

    # ------------------------------------------------------------------ the end

    def close(self, end: Mapping[str, str], now_ns: int, *, timeout_s: float = 10.0) -> LogResult:
        """Send all data, wait until the writer has finished the file, and return the result.

        ``end`` becomes the metadata record of an orderly end (reason, digest). After the timeout
        the writer finishes unattended. Safe to call twice.
        """
        if not self._closed:
            self._closed = True
            self._ended()
            deadline_s = time.monotonic() + timeout_s
            if not self._failure:
                self.sink.finish(now_ns)
                if not self.waits:
                    self._drain(deadline_s)
            if not self._failure:
                if not self.sink.outbox.waiting_bytes:
                    self._send(
                        frame(LogFrameKind.END, msgspec.msgpack.encode(self._end_record(end))),
                        deadline_s,
                    )
                self.sink.stop()
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._wait(deadline_s)
        return self._result()

    def _end_record(self, end: Mapping[str, str]) -> dict[str, str]:
        sink = self.sink
        return {
            **end,
            "dropped_derived": str(sink.derived_losses.records),
            "dropped_journal": str(sink.journal_losses.records),
            "not_replayable_after_ns": ""
            if sink.not_replayable_after_ns is None
            else str(sink.not_replayable_after_ns),
        }

    def _drain(self, deadline_s: float) -> None:
        outbox = self.sink.outbox
        while (head := outbox.head()) is not None:
            written = self._write_once(head, deadline_s)
            if written < 0:
                return
            outbox.advance(written)

    def _send(self, data: bytes, deadline_s: float) -> bool:
        at = 0
        while at < len(data):
            written = self._write_once(memoryview(data)[at:], deadline_s)
            if written < 0:
                return False
            at += written
        return True

    def _write_once(self, data: bytes | bytearray | memoryview, deadline_s: float) -> int:
        """Return the bytes written, or -1 after the deadline or if the reader is gone."""
        while True:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                return -1
            try:
                return os.write(self._to_child, data)
            except BlockingIOError:
                _wait_for(self._to_child, select.POLLOUT, left_s)
            except OSError:
                self._lost()
                return -1

    def _wait(self, deadline_s: float) -> None:
        while not self._ended():
            left_s = deadline_s - time.monotonic()
            if left_s <= 0 or not _wait_for(self._from_child, select.POLLIN, left_s):
                return
        try:
            self._process.wait(max(deadline_s - time.monotonic(), 1.0))
        except subprocess.TimeoutExpired:
            return
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _result(self) -> LogResult:
        done = next((r for r in self._reports if r.state == "done"), None)
        sink = self.sink
        files = done.files if done else self._files()
        failure = self._failure or self._reported_failure() or self.waits or self.loss
        if not done and not failure:
            failure = (
                f"the writer is still busy with {files[-1] if files else 'its file'} and will "
                "finish it in the background"
            )
        return LogResult(
            path=files[0] if self.loss and files else self.path,
            files=files,
            finished=done is not None,
            failure=failure,
            messages=done.messages if done else 0,
            chunks=done.chunks if done else 0,
            bytes=done.bytes if done else 0,
            record_bytes=done.record_bytes if done else 0,
            writer_cpu_s=done.cpu_s if done else 0.0,
            dropped_derived=sink.derived_losses.records,
            dropped_journal=sink.journal_losses.records,
            not_replayable_after_ns=sink.not_replayable_after_ns,
        )

    # ------------------------------------------------------------------ the child

    def _greet(self, opening: WriterConfig, timeout_s: float) -> None:
        try:
            fcntl.fcntl(self._to_child, _F_SETPIPE_SZ, PIPE_BYTES)
        except OSError:
            # Beyond the user's limit, or not Linux: keep the default size; the queue absorbs the
            # difference.
            pass
        os.set_blocking(self._to_child, False)
        os.set_blocking(self._from_child, False)
        deadline_s = time.monotonic() + timeout_s
        self._send(frame(LogFrameKind.OPENING, msgspec.msgpack.encode(opening)), deadline_s)
        while True:
            ended = self._ended()
            for report in self._reports:
                if report.state == "open":
                    self.path = report.path
                    return
            if failed := self._failed():
                raise _log_error(
                    f"the log cannot be written: {failed.detail}", passing=failed.passing
                )
            left_s = deadline_s - time.monotonic()
            if ended or left_s <= 0:
                cause = (
                    self._noise[-1]
                    if self._noise
                    else "it ended without a message"
                    if ended
                    else "no answer"
                )
                raise _log_error(f"the log writer does not start: {cause}", passing=True)
            _wait_for(self._from_child, select.POLLIN, left_s)

    def _ended(self) -> bool:
        """Read the child's reports; return True at their end."""
        if self._process.stdout is None or self._process.stdout.closed:
            return True
        while True:
            try:
                data = os.read(self._from_child, 65536)
            except BlockingIOError:
                return False
            except OSError:
                return True
            self._received += data
            *lines, self._received = self._received.split(b"\n")
            for line in lines:
                try:
                    self._take(msgspec.json.decode(line, type=WriterReport))
                except (msgspec.DecodeError, UnicodeDecodeError):
                    self._noise.append(line.decode(errors="replace"))
                    del self._noise[:-20]
            if not data:
                return True

    def _take(self, report: WriterReport) -> None:
        if report.state == "waiting":
            self.waits = self._waited_for = report.detail
        elif report.state == "resumed":
            self.waits = ""
        else:
            self._reports.append(report)

    def _failed(self) -> WriterReport | None:
        return next((report for report in self._reports if report.state == "failed"), None)

    def _reported_failure(self) -> str:
        failed = self._failed()
        return failed.detail if failed is not None else ""

    def _files(self) -> list[str]:
        return [
            report.path for report in self._reports if report.state in ("open", "rotated", "lost")
        ]

    def _lost(self) -> None:
        """Handle a closed pipe."""
        # The child reports before it closes the pipe, so its last reports are already here.
        self._ended()
        cause = self._reported_failure() or (self._noise[-1] if self._noise else "")
        self._failure = (
            f"the log writer is gone: {cause}"
            if cause
            else "the log writer is gone without a message (killed?)"
        )
        self.sink.stop()

    def _abandon(self) -> None:
        self._closed = True
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


def _log_error(text: str, *, passing: bool) -> LogError:
    error = LogError(text)
    error.passing = passing
    return error


def child_environment() -> dict[str, str]:
    """Return an environment in which the child imports this same package."""
    root = str(Path(__file__).resolve().parents[2])
    paths = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}


def _wait_for(fd: int, event: int, timeout_s: float) -> bool:
    poller = select.poll()
    poller.register(fd, event)
    return bool(poller.poll(max(timeout_s, 0.0) * 1e3))
