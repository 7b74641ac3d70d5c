"""A terminal that is paused, and a pipe or a socket that nobody reads, must not hold up the
loop."""

import os
import pty
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO, cast
from unittest import mock

import pytest

from vehicled.core.messages import PortEvent, PortState
from vehicled.run.terminal import Progress
from vehicled.runtime.events import EventLog
from vehicled.runtime.nonblocking import NonBlockingStream

LINES = 3000


@contextmanager
def unread(kind: str) -> Iterator[tuple[int, TextIO]]:
    """Give the far end of a terminal, pipe or socket, and a text stream into it."""
    if kind == "terminal":
        far, near = pty.openpty()
    elif kind == "pipe":
        far, near = os.pipe()
    else:
        far, near = (end.detach() for end in socket.socketpair())
    with os.fdopen(near, "w") as stream:
        try:
            yield far, stream
        finally:
            os.close(far)


@pytest.mark.parametrize("length", [30, 200, 3000, 100_000])
@pytest.mark.parametrize("kind", ["terminal", "pipe", "socket"])
def test_lines_that_nobody_reads_are_dropped(kind: str, length: int) -> None:
    with unread(kind) as (_, stream):
        lines = NonBlockingStream(stream)

        def write() -> None:
            for _ in range(LINES):
                lines.write("x" * length + "\n")

        writer = threading.Thread(target=write, daemon=True)
        writer.start()
        writer.join(20.0)
        assert not writer.is_alive(), "it blocks"
        assert 0 < lines.lost < LINES


@pytest.mark.parametrize("kind", ["terminal", "pipe", "socket"])
def test_a_line_is_whole_or_absent(kind: str) -> None:
    with unread(kind) as (far, stream):
        lines = NonBlockingStream(stream)
        os.set_blocking(far, False)
        got = b""
        for number in range(LINES):
            lines.write(f"{number:05d} {'é' * (number % 700)}.\n")
            if number % 350 == 0:
                got += _read(far)
        while more := _read(far):
            got += more
            # The next line completes the one before.
            lines.write("")
        texts = got.decode().splitlines()
        assert len(texts) > 50
        assert lines.lost > 100
        for text in texts:
            assert text == f"{text[:5]} {'é' * (int(text[:5]) % 700)}."


def _read(fd: int) -> bytes:
    data = b""
    try:
        while part := os.read(fd, 65536):
            data += part
    except BlockingIOError:
        pass
    return data


def test_the_flags_of_the_shared_terminal_stay() -> None:
    with unread("terminal") as (far, stream):
        NonBlockingStream(stream).write("a line\n")
        assert os.get_blocking(stream.fileno())
        assert os.read(far, 100) == b"a line\r\n"


def test_a_file_takes_every_line(tmp_path: Path) -> None:
    with (tmp_path / "lines").open("a+") as stream:
        lines = NonBlockingStream(stream)
        for _ in range(LINES):
            lines.write("a line\n")
        stream.seek(0)
        assert stream.read() == "a line\n" * LINES
        assert lines.lost == 0


def test_a_closed_pipe_is_no_error() -> None:
    far, near = os.pipe()
    with os.fdopen(near, "w") as stream:
        lines = NonBlockingStream(stream)
        os.close(far)
        for _ in range(3):
            lines.write("a line\n")
        assert lines.lost == 3


class Plain:
    """A stream that has nothing but what lines need."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None:
        pass


def test_a_stream_that_only_writes_gets_every_line() -> None:
    stream = Plain()
    lines = NonBlockingStream(cast(TextIO, stream))
    lines.write("a line\n")
    assert (stream.text, lines.lost) == ("a line\n", 0)


def test_a_line_above_the_progress_moves_it_out_of_the_way() -> None:
    with unread("terminal") as (far, terminal), mock.patch.object(sys, "stderr", terminal):
        progress = Progress()
        progress.show("half way")
        EventLog(progress.above(), json=False).record(
            PortEvent(0, "imu", PortState.LOST, "unplugged"), 0
        )
        said = ""
        while "port imu lost" not in said:
            said += os.read(far, 4096).decode()
        assert said.index("half way") < said.index("\r        \r") < said.index("port imu lost")
        del progress
