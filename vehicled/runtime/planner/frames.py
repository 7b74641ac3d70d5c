"""Protocol between the daemon and the planning process, on a socket pair. Pure.

Frames of ``length u32 | kind u8 | payload`` in both directions. The answer to a request is a
refusal as text, or a course: the length of its head, the head as MessagePack, its columns as
float64, and its stored bytes for the journal.
"""

import struct
import zlib
from enum import IntEnum

import msgspec
import numpy as np
from msgspec import Struct

from vehicled.core.arrays import Array
from vehicled.core.vehicle import Limits, Vehicle
from vehicled.maps.grid import UNKNOWN, OccupancyGrid
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


class PlanningMap(Struct, frozen=True, kw_only=True):
    """Occupancy grid, compressed."""

    cells: bytes
    rows: int
    columns: int
    resolution_m: float
    origin: tuple[float, float, float]

    @staticmethod
    def of(grid: OccupancyGrid) -> "PlanningMap":
        """Return the compressed grid."""
        rows, columns = grid.cells.shape
        cells = grid.cells
        if grid.unmapped is not None:
            cells = np.where(grid.unmapped, np.int8(UNKNOWN), cells)
        return PlanningMap(
            cells=zlib.compress(cells.tobytes(), 1),
            rows=rows,
            columns=columns,
            resolution_m=grid.resolution_m,
            origin=grid.origin,
        )

    def grid(self) -> OccupancyGrid:
        """Return the grid."""
        cells = np.frombuffer(zlib.decompress(self.cells), np.int8).reshape(self.rows, self.columns)
        return OccupancyGrid(cells, self.resolution_m, self.origin)


class Opening(Struct, frozen=True, kw_only=True):
    """Facts of the run by which every course is judged."""

    vehicle: Vehicle
    limits: Limits
    datum: tuple[float, float, float]
    """Latitude and longitude in rad, height in m."""
    polygons: list[Polygon] | None
    map: PlanningMap | None = None
    """Map on which the vehicle is located."""

    @staticmethod
    def of(
        vehicle: Vehicle,
        limits: Limits,
        datum: Datum,
        fence: Fence | None,
        grid: OccupancyGrid | None = None,
    ) -> "Opening":
        """Return the facts of a run."""
        place = datum.latitude_rad, datum.longitude_rad, datum.height_m
        return Opening(
            vehicle=vehicle,
            limits=limits,
            datum=place,
            polygons=None if fence is None else list(fence.polygons),
            map=None if grid is None else PlanningMap.of(grid),
        )


class Goal(Struct, frozen=True, kw_only=True):
    """Request for a path to a place in the map frame."""

    start: Pose
    x_m: float
    y_m: float
    yaw_rad: float | None
    """Heading on arrival; None for any."""
    speed_mps: float
    name: str
    direction: int = 0
    """Direction of the vehicle's motion: 1 forward, -1 backward, 0 at standstill."""


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
