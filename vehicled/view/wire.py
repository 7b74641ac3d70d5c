"""What passes through the pipe from the daemon to the view's process, and what comes back. Pure.

Frames of ``length u32 | kind u8 | payload`` to the child, as to the log's writer; JSON lines back.
"""

from enum import IntEnum
from typing import Any

from msgspec import Struct

from vehicled.log.frames import HEAD

MAX_FRAME_BYTES = 8 << 20


class Kind(IntEnum):
    """Kind of a frame."""

    OPENING = 1
    """First: :class:`Opening` as MessagePack."""
    RECORDS = 2
    """Records of the log as they were packed: MCAP message records."""
    LOOK = 3
    """The state of the run as JSON, see :class:`~vehicled.view.feed.Feed`."""


class TaskFacts(Struct, frozen=True):
    """One row of the rate table."""

    name: str
    rate_hz: float
    deadline_ms: float


class CourseFacts(Struct, frozen=True):
    """The line to drive, in the map frame."""

    name: str
    length_m: float
    closed: bool
    x_m: list[float]
    y_m: list[float]


class RingFacts(Struct, frozen=True):
    """A polygon of the fence."""

    corners: list[tuple[float, float]]
    keep_out: bool


class Opening(Struct, frozen=True, kw_only=True):
    """All that the child needs to know."""

    host: str
    port: int
    """0: any that is free."""
    token: str
    """Must be shown by whoever asks; empty where nobody must."""
    names: list[str]
    """Further names by which the page may be asked for."""
    foxglove: bool
    teleop: bool
    control_socket: str
    """Through which a page drives; empty without ``teleop``."""
    most_throttle: float
    silence_s: float
    """Age at which a reading of a hand is worth nothing any more."""
    started_ns: int
    """Begin of the run on the daemon's clock."""
    offset_ns: int
    """UTC minus the daemon's clock."""
    session: str
    """Tells one run from the next."""
    profile: str
    estimator: str
    controller: str
    simulated: bool
    version: str
    log: str
    """Path of the log; empty when none is written."""
    max_speed_mps: float
    corridor_m: float
    max_wheel_rad: float
    wheelbase_m: float
    matrix: list[dict[str, Any]]
    """The failsafe matrix, see :func:`~vehicled.view.margins.rows`: handed over, so that the child starts without numpy."""
    tasks: list[TaskFacts]
    course: CourseFacts
    fence: list[RingFacts]


class Report(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the child says of itself, one JSON object a line."""

    state: str
    """``listening`` or ``failed``."""
    port: int = 0
    detail: str = ""


def frame(kind: Kind, payload: bytes) -> bytes:
    """One frame."""
    return HEAD.pack(len(payload), kind) + payload
