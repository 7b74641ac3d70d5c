"""Starts a bridge's process and sends it data without waiting; data that does not fit into the pipe
is dropped and counted."""

import fcntl
import os
import select
import subprocess
import sys
import time
from typing import Self

import msgspec
from msgspec import Struct

from vehicled.core.errors import UserError, passes
from vehicled.live.bridges.frames import ChildReport, FrameKind, frame
from vehicled.log.frames import HEAD
from vehicled.log.pipe import child_environment

PIPE_BYTES = 1 << 20
START_TIMEOUT_S = 60.0
SILENCE_S = 60.0
"""Longest wait for a child in lockstep, s."""
END_TIMEOUT_S = 2.0
"""Longest wait for a child to end by itself, s."""
LOSSLESS_END_S = 15.0
"""Longest wait for a child that loses nothing, s: its readers still receive what it was sent."""
_F_SETPIPE_SZ = 1031


class BridgeError(UserError):
    """A bridge cannot start; the text gives reason and remedy."""


def _cannot_start(name: str, why: str, *, passing: bool) -> BridgeError:
    error = BridgeError(f"cannot start {name}: {why}")
    error.passing = passing
    return error


class BridgeProcess:
    """Child process of a bridge, as used by the loop."""

    def __init__(self, process: "subprocess.Popen[bytes]", name: str = "") -> None:
        """Wrap a process; use :meth:`start`. ``name``: what the user calls it, for errors and the
        log."""
        assert process.stdin is not None
        assert process.stdout is not None
        self.name = name
        self._process = process
        self._to_child = process.stdin.fileno()
        self._from_child = process.stdout.fileno()
        self._rest: memoryview | None = None
        self._end_timeout_s = END_TIMEOUT_S
        self.port = 0
        """Port on which the child listens; 0 if it has none."""
        self.sent = 0
        """Number of frames sent."""
        self.dropped = 0
        """Number of frames dropped because the pipe was full."""
        self.alive = True
        """True while the child reads the pipe."""

    @classmethod
    def start(cls, name: str, module: str, opening: Struct) -> Self:
        """Start ``python -m module`` and wait until it listens (about half a second); call this
        before the loop runs. Raises :class:`BridgeError`.
        """
        try:
            process = subprocess.Popen(
                # -P: a file in the working directory must not shadow a library module.
                [sys.executable, "-P", "-m", module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=child_environment(),
                # Ctrl-C goes to the terminal's foreground group, but a page must still show how the
                # vehicle brakes.
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            raise _cannot_start(name, str(error.strerror), passing=passes(error)) from error
        self = cls(process, name)
        try:
            self._greet(opening)
        except BaseException:
            process.kill()
            self.close()
            raise
        return self

    @property
    def pid(self) -> int:
        """Process id of the child."""
        return self._process.pid

    @property
    def answers(self) -> int:
        """File descriptor of the pipe from the child."""
        return self._from_child

    def offer(self, kind: FrameKind, *pieces: bytes | bytearray) -> bool:
        """Send one frame at once or not at all; the rest of a partly written frame is sent before
        the next."""
        if not self.alive or not self._flush():
            self.dropped += 1
            return False
        data = b"".join((HEAD.pack(sum(map(len, pieces)), kind), *pieces))
        try:
            written = os.write(self._to_child, data)
        except BlockingIOError:
            self.dropped += 1
            return False
        except OSError:
            # The child is gone; the drive continues without it.
            self.alive = False
            return False
        if written < len(data):
            self._rest = memoryview(data)[written:]
        self.sent += 1
        return True

    def send(self, kind: FrameKind, *pieces: bytes | bytearray) -> None:
        """Send one frame and wait until the pipe has taken it. A child that takes nothing for
        ``SILENCE_S`` counts as gone."""
        self._end_timeout_s = LOSSLESS_END_S
        poller = select.poll()
        poller.register(self._to_child, select.POLLOUT)
        # Room for a part of the frame is enough: offer keeps the rest.
        self._wait(poller)
        if self.alive:
            self.offer(kind, *pieces)
        while self.alive and not self._flush():
            self._wait(poller)

    def _wait(self, poller: select.poll) -> None:
        if not poller.poll(SILENCE_S * 1e3):
            self.alive = False

    def hang_up(self) -> None:
        """Close the pipe, which ends the child, without waiting for it. Safe to repeat."""
        self.alive = False
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def abandon(self) -> None:
        """Kill a child that has failed, without waiting for it; :meth:`close` later collects it."""
        self.hang_up()
        self._process.kill()

    def close(self) -> None:
        """End the child, and wait for its end. Safe to repeat."""
        self.hang_up()
        try:
            self._process.wait(self._end_timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _flush(self) -> bool:
        """Return True if no earlier frame is waiting."""
        while self._rest is not None:
            try:
                written = os.write(self._to_child, self._rest)
            except BlockingIOError:
                return False
            except OSError:
                self.alive = False
                return False
            self._rest = self._rest[written:] if written < len(self._rest) else None
        return True

    def _greet(self, opening: Struct) -> None:
        try:
            fcntl.fcntl(self._to_child, _F_SETPIPE_SZ, PIPE_BYTES)
        except OSError:
            # The size is beyond the user's limit, or this is not Linux: a smaller pipe only drops
            # data sooner.
            pass
        try:
            os.write(self._to_child, frame(FrameKind.OPENING, msgspec.msgpack.encode(opening)))
        except OSError:
            pass  # The child ended; its report gives the reason.
        os.set_blocking(self._to_child, False)
        answer = b""
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not answer.endswith(b"\n"):
            ready, _, _ = select.select(
                [self._from_child], [], [], max(deadline_s - time.monotonic(), 0.0)
            )
            data = os.read(self._from_child, 65536) if ready else b""
            if not data:
                why = (
                    "its process ended without a report"
                    if ready
                    else f"no answer within {START_TIMEOUT_S:.0f} s"
                )
                raise _cannot_start(self.name, why, passing=True)
            answer += data
        report = msgspec.json.decode(answer.splitlines()[0], type=ChildReport)
        if report.state != "listening":
            raise _cannot_start(self.name, report.detail, passing=report.passing)
        self.port = report.port
