"""Starts the view's process and hands bytes to it, never waiting: what a full pipe does not take is dropped, and counted."""

import fcntl
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

import msgspec

from vehicled.log.frames import HEAD
from vehicled.view.wire import Kind, Opening, Report, frame

PIPE_BYTES = 1 << 20
START_TIMEOUT_S = 15.0
_F_SETPIPE_SZ = 1031


class ViewError(Exception):
    """The live view does not start; the text says why, and the cure."""


class ViewProcess:
    """The child, seen from the loop."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        """Use :meth:`start`."""
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._to_child = process.stdin.fileno()
        self._from_child = process.stdout.fileno()
        self._rest: memoryview | None = None
        self.port = 0
        """Port that it listens on."""
        self.sent = 0
        """Frames handed over."""
        self.dropped = 0
        """Frames that the pipe had no room for."""
        self.alive = True
        """Somebody reads the pipe."""

    @classmethod
    def start(cls, opening: Opening) -> Self:
        """Start it and wait until it listens (half a second or so): call it before the loop runs. Raises :class:`ViewError`."""
        try:
            process = subprocess.Popen(
                # -P: a file of the working directory must not shadow a module of the library.
                [sys.executable, "-P", "-m", "vehicled.view.server"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=_environment(),
                # Ctrl-C goes to the terminal's foreground group: the page shows how the vehicle is braked.
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            raise ViewError(f"the live view does not start: {error.strerror}") from error
        self = cls(process)
        try:
            self._greet(opening)
        except BaseException:
            process.kill()
            self.close()
            raise
        return self

    @property
    def pid(self) -> int:
        """Process number of the child."""
        return self._process.pid

    def offer(self, kind: Kind, *pieces: bytes | bytearray) -> bool:
        """Hand over one frame, at once or not at all; of one that the pipe takes a part of, the rest goes before the next."""
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
            # It is gone: the drive goes on without it.
            self.alive = False
            return False
        if written < len(data):
            self._rest = memoryview(data)[written:]
        self.sent += 1
        return True

    def close(self) -> None:
        """End it: the pipe ends, and it leaves. Safe to call twice."""
        self.alive = False
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        try:
            self._process.wait(2.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _flush(self) -> bool:
        """Whether nothing of an earlier frame waits any more."""
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

    def _greet(self, opening: Opening) -> None:
        try:
            fcntl.fcntl(self._to_child, _F_SETPIPE_SZ, PIPE_BYTES)
        except OSError:
            # Beyond the user's limit, or not Linux: with the default size it drops sooner.
            pass
        try:
            os.write(self._to_child, frame(Kind.OPENING, msgspec.msgpack.encode(opening)))
        except OSError:
            pass  # It ended; why is in its answer.
        os.set_blocking(self._to_child, False)
        answer = b""
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not answer.endswith(b"\n"):
            ready, _, _ = select.select([self._from_child], [], [], max(deadline_s - time.monotonic(), 0.0))
            data = os.read(self._from_child, 65536) if ready else b""
            if not data:
                why = "it ended without a word" if ready else f"no answer within {START_TIMEOUT_S:.0f} s"
                raise ViewError(f"the live view does not start: {why}")
            answer += data
        report = msgspec.json.decode(answer.splitlines()[0], type=Report)
        if report.state != "listening":
            raise ViewError(f"the live view does not start: {report.detail}")
        self.port = report.port


def _environment() -> dict[str, str]:
    """The child must find this very package, however the daemon found it."""
    root = str(Path(__file__).resolve().parents[2])
    paths = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}
