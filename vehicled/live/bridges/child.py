"""The child's end of a bridge: priority, reports, and frames read without an event loop."""

import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import BinaryIO, TypeVar

import msgspec
from msgspec import Struct

from vehicled.core import child_process
from vehicled.live.bridges.frames import MAX_FRAME_BYTES, ChildReport, FrameKind
from vehicled.log.frames import HEAD

C = TypeVar("C", bound=Struct)
NICENESS = 10
PR_SET_PDEATHSIG = 1


def be_modest() -> None:
    """Lower the priority, and ignore the signals that end the daemon's group, because a bridge must
    still show how it ends.

    The end of the daemon ends the bridge, even one that is too busy to notice the end of its pipe.
    """
    _die_with_parent()
    child_process.be_modest(NICENESS)


def _die_with_parent() -> None:
    """Ask the kernel for SIGKILL once the daemon is gone; other systems than Linux only have the
    pipe."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def report(message: ChildReport) -> None:
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
