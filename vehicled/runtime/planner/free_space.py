"""Free space of a map for one vehicle: which poses keep its body clear of walls, and how far each
place is from a goal. Coordinates are those of the grid's axes, from its south-west corner."""

from collections.abc import Sequence
from math import ceil, hypot, sqrt, tau

import numpy as np
import numpy.typing as npt

from vehicled.core.arrays import Array
from vehicled.core.vehicle import Limits, Vehicle
from vehicled.maps.grid import OCCUPIED, UNKNOWN, OccupancyGrid
from vehicled.maps.matching import PlanarPose
from vehicled.safety.fence import Polygon

Mask = npt.NDArray[np.bool_]
Index = npt.NDArray[np.intp]

CELLS_PER_WIDTH = 12
"""Most cells on the width of the vehicle."""
MAX_CELLS = 4_000_000
"""Most cells that are searched; a larger map gets larger ones."""
YAWS = 36
"""Yaws that are tried for a body that may point anywhere."""
MARGIN_WIDTHS = 0.1
"""Room beside the body beyond that of the obstacle stop, in vehicle widths, for errors of control
and localisation."""
DETOUR_WIDTHS, DETOUR_COST = 0.75, 1.5
"""Room up to which a path is the more expensive the nearer it comes to a wall, in vehicle widths,
and the cost of a metre at the wall beyond that of a free one."""


class FreeSpace:
    """Clearance of a map for the body of one vehicle."""

    def __init__(
        self, grid: OccupancyGrid, vehicle: Vehicle, limits: Limits, fence: Sequence[Polygon] = ()
    ) -> None:
        """``fence``: polygons that the body must not leave, or not enter."""
        self._grid = grid
        self._frame = PlanarPose(*grid.origin)
        factor = max(
            int(vehicle.width_m / CELLS_PER_WIDTH / grid.resolution_m),
            ceil(sqrt(grid.cells.size / MAX_CELLS)),
            1,
        )
        self.cell_m = grid.resolution_m * factor
        outline = vehicle.outline
        length_m = outline.front_m + outline.rear_m
        # Discs of one size cover the body; two for each width exceed it by a ninth at most.
        count = max(round(2.0 * length_m / vehicle.width_m), 1)
        part_m = length_m / count
        self._centres_m = np.linspace(0.5, count - 0.5, count) * part_m - outline.rear_m
        self._radius_m = hypot(0.5 * part_m, outline.half_m)
        self.margin_m = limits.obstacle_side_m + MARGIN_WIDTHS * vehicle.width_m
        self._detour_m = DETOUR_WIDTHS * vehicle.width_m
        # The reference point lies between two of the discs.
        self._least_m = max(
            self._radius_m - 0.5 * part_m, min(outline.half_m, max(outline.rear_m, 0.0))
        )
        """Least clearance of the reference point of any body that touches nothing."""
        blocked = _pooled(_walls(grid), factor)
        for polygon in fence:
            inside = self._inside(polygon, blocked.shape)
            blocked |= inside if polygon.keep_out else ~inside
        reach_m = self._radius_m + self.margin_m + self._detour_m
        self._clearance_m = _distance(blocked, ceil(reach_m / self.cell_m)) * self.cell_m
        # From the middle of a free cell to the face of the wall.
        self._clearance_m -= np.float32(0.5 * self.cell_m)

    # ---------------------------------------------------------------- frames

    def seen(self, x_m: float, y_m: float, yaw_rad: float = 0.0) -> PlanarPose:
        """Return a pose of the map frame in the axes of the grid."""
        return self._frame.to(PlanarPose(x_m, y_m, yaw_rad))

    def on_map(self, x_m: Array, y_m: Array) -> tuple[Array, Array]:
        """Return places in the map frame."""
        return self._frame.place(x_m, y_m)

    # ---------------------------------------------------------------- poses

    def room_m(self, x_m: Array, y_m: Array, yaw_rad: Array) -> Array:
        """Return the distance from the body to the nearest wall (n,), negative where it touches
        one; at most a little more than counts."""
        along = self._centres_m
        x = x_m[..., None] + np.cos(yaw_rad)[..., None] * along
        y = y_m[..., None] + np.sin(yaw_rad)[..., None] * along
        return np.asarray(self._at(x, y).min(axis=-1) - self._radius_m, dtype=np.float64)

    def cost(self, room_m: Array) -> Array:
        """Return the cost of a metre with so much room, 1 where it is ample."""
        return 1.0 + DETOUR_COST * np.square(
            np.clip(1.0 - (room_m - self.margin_m) / self._detour_m, 0.0, 1.0)
        )

    def blocked_by(self, pose: PlanarPose, name: str, *, any_yaw: bool = False) -> str:
        """Return why the body cannot be at a pose, with the place; empty if it can. ``any_yaw``: it
        may point anywhere."""
        yaws = np.linspace(0.0, tau, YAWS) if any_yaw else np.array([pose.yaw_rad])
        x_m, y_m = np.full(len(yaws), pose.x_m), np.full(len(yaws), pose.y_m)
        if float(self.room_m(x_m, y_m, yaws).max()) >= 0.0:
            return ""
        map_x, map_y = (float(value[0]) for value in self.on_map(x_m, y_m))
        place = f"the {name} ({map_x:.1f}, {map_y:.1f}) m"
        rows, columns = self._grid.cells.shape
        row, column = (int(value // self._grid.resolution_m) for value in (pose.y_m, pose.x_m))
        if not (0 <= row < rows and 0 <= column < columns):
            return f"{place} is outside of the map"
        kind = self._grid.cells[row, column]
        if kind == OCCUPIED:
            return f"{place} is in a wall of the map"
        if kind == UNKNOWN:
            return f"{place} is where the map is unknown"
        x, y = self._nearest_wall(pose)
        return (
            f"the vehicle does not fit at {place}: a wall or the fence is at ({x:.1f}, {y:.1f}) m"
        )

    def _nearest_wall(self, pose: PlanarPose) -> tuple[float, float]:
        """Return the place, in the map frame, of the wall that a body touches."""
        x, y = pose.place(self._centres_m, np.zeros(len(self._centres_m), np.float64))
        k = int(self._at(x, y).argmin())
        rows, columns = np.nonzero(self._clearance_m <= 0.0)
        wall_x = (columns.astype(np.float64) + 0.5) * self.cell_m
        wall_y = (rows.astype(np.float64) + 0.5) * self.cell_m
        off = np.hypot(wall_x - x[k], wall_y - y[k])
        nearest = int(off.argmin())
        found_x, found_y = self.on_map(wall_x[[nearest]], wall_y[[nearest]])
        return float(found_x[0]), float(found_y[0])

    def _at(self, x_m: Array, y_m: Array) -> Array:
        """Return the clearance of places; what is outside of the map counts as a wall."""
        rows, columns = self._clearance_m.shape
        row = np.floor(y_m / self.cell_m)
        column = np.floor(x_m / self.cell_m)
        inside = (row >= 0) & (row < rows) & (column >= 0) & (column < columns)
        row, column = np.where(inside, row, 0).astype(np.intp), np.where(inside, column, 0)
        return np.where(inside, self._clearance_m[row, column.astype(np.intp)], -1.0)

    def _inside(self, polygon: Polygon, shape: tuple[int, int]) -> Mask:
        """Return the cells whose middles are inside of a polygon, by the even-odd rule."""
        rows, columns = shape
        corners = np.array([self.seen(*corner)[:2] for corner in polygon.corners]) / self.cell_m
        toggles = np.zeros((rows, columns + 1), np.int32)
        for (x1, y1), (x2, y2) in zip(corners, np.roll(corners, -1, axis=0), strict=True):
            low, high = sorted((y1, y2))
            row = np.arange(max(ceil(low - 0.5), 0), min(ceil(high - 0.5), rows))
            if len(row):
                x = x1 + (row + 0.5 - y1) * (x2 - x1) / (y2 - y1)
                toggles[row, np.clip(np.ceil(x - 0.5), 0, columns).astype(np.intp)] += 1
        return np.asarray(np.cumsum(toggles, axis=1)[:, :-1] % 2 == 1)

    # ---------------------------------------------------------------- distances

    def distances(self, x_m: float, y_m: float, step_m: float, room_m: float) -> "Distances":
        """Return the lengths of ways to a place, for a body that turns on the spot and keeps some
        room; ``step_m``: size of the cells that they are found for."""
        return Distances(self, (x_m, y_m), max(int(step_m / self.cell_m), 1), room_m)

    def passable(self, factor: int, room_m: float) -> tuple[Mask, Array]:
        """Return the cells, larger by a factor, through which the reference point of a body with
        some room may pass, and the cost of a metre there."""
        rows, columns = self._clearance_m.shape
        padded = np.full((ceil(rows / factor) * factor, ceil(columns / factor) * factor), -1.0)
        padded[:rows, :columns] = self._clearance_m
        best = padded.reshape(
            padded.shape[0] // factor, factor, padded.shape[1] // factor, factor
        ).max(axis=(1, 3))
        return best >= self._least_m + room_m, self.cost(best - self._radius_m)


class Distances:
    """Length of the way from each place to one, along free cells."""

    def __init__(
        self, space: FreeSpace, place_m: tuple[float, float], factor: int, room_m: float
    ) -> None:
        self._cell_m = space.cell_m * factor
        free, cost = space.passable(factor, room_m)
        rows, columns = free.shape
        self._shape = rows, columns
        # A frame of blocked cells keeps neighbours inside of the table.
        weight = np.full((rows + 2, columns + 2), np.inf)
        weight[1:-1, 1:-1][free] = cost[free]
        width = columns + 2
        column, row = (int(value // self._cell_m) for value in place_m)
        start = (row + 1) * width + column + 1
        flat = weight.ravel()
        flat[start] = min(flat[start], 1.0 + DETOUR_COST)
        steps = [(r, c) for r in (-1, 0, 1) for c in (-1, 0, 1) if r or c]
        offsets = np.array([r * width + c for r, c in steps])
        lengths = np.array([hypot(r, c) for r, c in steps]) * self._cell_m
        found = np.full(len(flat), np.inf)
        found[start] = 0.0
        front = np.array([start])
        while len(front):
            # The cells within one step of the nearest ones that wait; the others would often be
            # reached at less cost afterwards.
            at = found[front]
            now = at <= at.min() + 1.5 * self._cell_m
            here, front = front[now], front[~now]
            to = here[:, None] + offsets
            cost_m = found[here][:, None] + lengths * 0.5 * (flat[here][:, None] + flat[to])
            better = cost_m < found[to]
            to, cost_m = to[better], cost_m[better]
            np.minimum.at(found, to, cost_m)
            front = np.unique(np.concatenate((front, to)))
        self._found_m = found.reshape(rows + 2, width)[1:-1, 1:-1]

    def at(self, x_m: Array, y_m: Array) -> Array:
        """Return the distances of places; infinite where no way leads from."""
        rows, columns = self._shape
        row, column = np.floor(y_m / self._cell_m), np.floor(x_m / self._cell_m)
        inside = (row >= 0) & (row < rows) & (column >= 0) & (column < columns)
        row, column = (np.where(inside, value, 0).astype(np.intp) for value in (row, column))
        return np.where(inside, self._found_m[row, column], np.inf)

    def nearest_to(self, x_m: float, y_m: float) -> tuple[float, float]:
        """Return the place with a way that is nearest to another one."""
        rows, columns = np.nonzero(np.isfinite(self._found_m))
        x, y = (columns + 0.5) * self._cell_m, (rows + 0.5) * self._cell_m
        nearest = int(np.hypot(x - x_m, y - y_m).argmin())
        return float(x[nearest]), float(y[nearest])


def _walls(grid: OccupancyGrid) -> Mask:
    """Return the cells that the body must not touch: occupied ones and unknown areas. Lines of
    unknown cells between the rays of a scanner are as free as what is on both sides."""
    unknown = np.pad(grid.cells == UNKNOWN, 2, constant_values=True)
    return np.asarray(~_all_around(~_all_around(unknown)) | grid.occupied)


def _all_around(cells: Mask) -> Mask:
    """Return which inner cells are set together with their eight neighbours."""
    across = cells[:, :-2] & cells[:, 1:-1] & cells[:, 2:]
    return np.asarray(across[:-2] & across[1:-1] & across[2:])


def _pooled(blocked: Mask, factor: int) -> Mask:
    """Return cells larger by a factor; one is blocked if any of its parts is."""
    if factor == 1:
        return blocked
    rows, columns = blocked.shape
    padded = np.pad(blocked, ((0, -rows % factor), (0, -columns % factor)), constant_values=True)
    shape = padded.shape[0] // factor, factor, padded.shape[1] // factor, factor
    return np.asarray(padded.reshape(shape).any(axis=(1, 3)))


def _distance(blocked: Mask, reach: int) -> npt.NDArray[np.float32]:
    """Return the distance from each cell to the nearest blocked one, in cells, at most ``reach`` +
    1. What is outside counts as blocked."""
    framed = np.pad(blocked, 1, constant_values=True)
    rows = np.arange(len(framed), dtype=np.int32)[:, None]
    far = np.int32(reach + 1)
    before = np.maximum.accumulate(np.where(framed, rows, -far), axis=0)
    after = np.minimum.accumulate(np.where(framed, rows, len(framed) + far)[::-1], axis=0)[::-1]
    along = np.minimum(np.minimum(rows - before, after - rows), far)
    square = along * along
    best = square.copy()
    for k in range(1, min(reach, framed.shape[1] - 1) + 1):
        np.minimum(best[:, k:], square[:, :-k] + k * k, out=best[:, k:])
        np.minimum(best[:, :-k], square[:, k:] + k * k, out=best[:, :-k])
    return np.asarray(np.sqrt(best[1:-1, 1:-1]), dtype=np.float32)
