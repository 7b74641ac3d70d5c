"""Protocol of the pipe between the daemon and a bridge's process. Pure.

Frames of ``length u32 | kind u8 | payload`` to the child, as to the log writer; JSON lines back.
"""

from enum import IntEnum

from msgspec import Struct

from vehicled.log.frames import HEAD

MAX_FRAME_BYTES = 8 << 20


class FrameKind(IntEnum):
    """Kind of a frame."""

    OPENING = 1
    """First frame: the child's configuration as MessagePack."""
    RECORDS = 2
    """Packed records of the log: MCAP message records."""
    STATE = 3
    """State of the run as JSON, see :class:`~vehicled.live.bridges.feed.Feed`."""
    REQUEST = 4
    """Request that the child answers; its content is the child's."""


class ChildReport(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Report of the child, one JSON object per line."""

    state: str
    """State: ``listening`` or ``failed``."""
    port: int = 0
    detail: str = ""
    passing: bool = False
    """True if a child that is started again may succeed."""


def frame(kind: FrameKind, payload: bytes) -> bytes:
    """Encode one frame."""
    return HEAD.pack(len(payload), kind) + payload
