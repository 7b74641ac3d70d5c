"""Protocol of the pipe between the daemon and the view's process. Pure.

Frames of ``length u32 | kind u8 | payload`` to the child, as to the log writer; JSON lines back.
"""

from enum import IntEnum
from typing import Any

from msgspec import Struct

from vehicled.log.frames import HEAD

MAX_FRAME_BYTES = 8 << 20


class ViewFrameKind(IntEnum):
    """Kind of a frame."""

    OPENING = 1
    """First frame: :class:`ViewConfig` as MessagePack."""
    RECORDS = 2
    """Packed records of the log: MCAP message records."""
    STATE = 3
    """State of the run as JSON, see :class:`~vehicled.view.feed.Feed`."""


class TaskFacts(Struct, frozen=True):
    """One row of the rate table."""

    name: str
    rate_hz: float
    deadline_ms: float


class CourseFacts(Struct, frozen=True):
    """Course line in the map frame."""

    name: str
    length_m: float
    closed: bool
    x_m: list[float]
    y_m: list[float]


class RingFacts(Struct, frozen=True):
    """Polygon of the fence."""

    corners: list[tuple[float, float]]
    keep_out: bool


class ViewConfig(Struct, frozen=True, kw_only=True):
    """Configuration of the child process."""

    host: str
    port: int
    """TCP port; 0 for any free one."""
    token: str
    """Token that clients must present; empty if none is required."""
    names: list[str]
    """Further host names of the page."""
    foxglove: bool
    teleop: bool
    control_socket: str
    """Control socket for teleop; empty without ``teleop``."""
    most_throttle: float
    silence_s: float
    """Age from which a teleop reading is discarded, s."""
    started_ns: int
    """Start of the run on the daemon's clock."""
    offset_ns: int
    """UTC minus the daemon's clock, ns."""
    session: str
    """Identity of the run."""
    profile: str
    estimator: str
    controller: str
    simulated: bool
    version: str
    log: str
    """Path of the log; empty if none is written."""
    max_speed_mps: float
    corridor_m: float
    max_wheel_rad: float
    wheelbase_m: float
    matrix: list[dict[str, Any]]
    """Failsafe matrix, see :func:`~vehicled.view.margins.rows`; sent, so that the child starts without numpy."""
    tasks: list[TaskFacts]
    course: CourseFacts
    fence: list[RingFacts]


class Report(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Report of the child, one JSON object per line."""

    state: str
    """State: ``listening`` or ``failed``."""
    port: int = 0
    detail: str = ""


def frame(kind: ViewFrameKind, payload: bytes) -> bytes:
    """Encode one frame."""
    return HEAD.pack(len(payload), kind) + payload
