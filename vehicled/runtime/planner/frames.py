"""Protocol between the daemon and the planning process, on a socket pair. Pure.

Frames of ``length u32 | kind u8 | payload`` in both directions. The answer to a request is a
refusal as text, or a course: the length of its head, the head as MessagePack, its columns as
float64, and its stored bytes for the journal.
"""

import struct
from enum import IntEnum

import msgspec
import numpy as np
from msgspec import Struct

from vehicled.core.arrays import Array
from vehicled.core.vehicle import Limits, Vehicle
from vehicled.paths.course import Course
from vehicled.paths.datum import Datum
from vehicled.paths.shortest import Pose
from vehicled.paths.stored import ARRAYS, CourseHead, columns_of, head_of
from vehicled.safety.fence import Fence, Polygon

HEAD = struct.Struct("<IB")
"""Length of the payload, then kind."""
LENGTH = struct.Struct("<I")
MAX_FRAME_BYTES = 64 << 20


class PlanFrameKind(IntEnum):
    """Kind of a frame to the planning process."""

    OPENING = 1
    """First frame: :class:`Opening` as MessagePack."""
    GOAL = 2
    """:class:`Goal` as MessagePack."""
    COURSE = 3
    """A client's line with a course, as it was received."""


class ReplyKind(IntEnum):
    """Kind of an answer."""

    REFUSED = 1
    PLANNED = 2


class Opening(Struct, frozen=True, kw_only=True):
    """Facts of the run by which every course is judged."""

    vehicle: Vehicle
    limits: Limits
    datum: tuple[float, float, float]
    """Latitude and longitude in rad, height in m."""
    polygons: list[Polygon] | None

    @staticmethod
    def of(vehicle: Vehicle, limits: Limits, datum: Datum, fence: Fence | None) -> "Opening":
        """Return the facts of a run."""
        place = datum.latitude_rad, datum.longitude_rad, datum.height_m
        return Opening(
            vehicle=vehicle,
            limits=limits,
            datum=place,
            polygons=None if fence is None else list(fence.polygons),
        )


class Goal(Struct, frozen=True, kw_only=True):
    """Request for the shortest path to a place in the map frame."""

    start: Pose
    x_m: float
    y_m: float
    yaw_rad: float | None
    """Heading on arrival; None for any."""
    speed_mps: float
    name: str


class PlannedHead(Struct, frozen=True, kw_only=True):
    """Answer without the columns and the stored bytes, which follow it."""

    course: CourseHead
    stored_bytes: int
    origin: str
    """Origin that a client's line names; empty if none."""
    kind: str
    """Kind that it names."""


def planned(course: Course, stored: bytes, origin: str = "", kind: str = "course") -> list[bytes]:
    """Return the pieces of an answer with a course."""
    head = msgspec.msgpack.encode(
        PlannedHead(course=head_of(course), stored_bytes=len(stored), origin=origin, kind=kind)
    )
    columns = columns_of(course)
    length = LENGTH.size + len(head) + sum(map(len, columns)) + len(stored)
    return [HEAD.pack(length, ReplyKind.PLANNED) + LENGTH.pack(len(head)) + head, *columns, stored]


def refused(why: str) -> list[bytes]:
    """Return the pieces of a refusal."""
    text = why.encode(errors="replace")
    return [HEAD.pack(len(text), ReplyKind.REFUSED), text]


def empty_columns(head: PlannedHead) -> Array:
    """Return memory (6, n) for the columns of a course that is being received."""
    return np.empty((len(ARRAYS), head.course.samples))
