"""The child's end of a bridge: priority, reports, and frames read without an event loop."""

import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import BinaryIO, TypeVar

import msgspec
from msgspec import Struct

from vehicled import child_process
from vehicled.bridges.frames import MAX_FRAME_BYTES, FrameKind, Report
from vehicled.log.frames import HEAD

C = TypeVar("C", bound=Struct)
NICENESS = 10


def be_modest() -> None:
    """Lower the priority, and ignore the signals that end the daemon's group, because a bridge must still show how it ends."""
    child_process.be_modest(NICENESS)


def report(message: Report) -> None:
    """Report to the daemon; nothing happens if it is gone."""
    with suppress(OSError):
        sys.stdout.buffer.write(msgspec.json.encode(message) + b"\n")
        sys.stdout.buffer.flush()


def read_opening(pipe: BinaryIO, config_type: type[C]) -> C:
    """Return the child's configuration, the first frame."""
    length, _ = HEAD.unpack(pipe.read(HEAD.size))
    return msgspec.msgpack.decode(pipe.read(length), type=config_type)


def frames(pipe: BinaryIO) -> Iterator[tuple[FrameKind, bytes]]:
    """Yield the daemon's frames until the pipe ends."""
    while len(head := pipe.read(HEAD.size)) == HEAD.size:
        length, kind = HEAD.unpack(head)
        if length > MAX_FRAME_BYTES or len(data := pipe.read(length)) < length:
            return
        yield FrameKind(kind), data
