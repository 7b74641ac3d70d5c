"""Points that scanners have shown lately, with velocities.

The points of the newest two scans of each scanner count, and older ones that have left its field of
view. Points near to each other form a segment. A compact one is tracked by a Kalman filter of
constant velocity (Bar-Shalom, Li and Kirubarajan 2001, section 6.2), and its points move once the
filter is sure of it. The middle of a round body is taken to lie behind its points as far as that of
a half circle; otherwise every post would seem to move while the vehicle passes it.
"""

from collections import deque
from math import hypot, isfinite
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from vehicled.core.arrays import Array
from vehicled.core.messages import LaserScan, StateEstimate
from vehicled.safety.monitors.lane import LaneBody
from vehicled.safety.monitors.scans import MotionHistory, scan_points
from vehicled.safety.monitors.tracks import BodyTrack

MOST_POINTS = 240
"""Points that count at most."""
CELL_WIDTHS = 0.25
"""Cells of which the outermost points to either side of the course count, in widths of the
vehicle."""
MOST_SCANS = 64
MOST_TRACKS = 24
SCANS_KEPT = 2
SPARSE_NS = 100_000_000
"""Time between the scans that are kept for longer."""
OLDEST_NS = 1_000_000_000
"""Age beyond which a scan is not looked at."""
GAP_SHARE = 0.35
"""Distance between two points of one segment, in widths of the vehicle, and more where the rays lie
further apart."""
COMPACT_WIDTHS = 2.0
"""Extent of a segment that may be a moving body."""
BESIDE_RAYS = 4.0
"""Angle between the ends of two segments, in rays, within which the nearer one may hide a part of
the other."""
MEASURED_WIDTHS = 0.08
"""Standard deviation of the middle of a segment, in widths."""
ACCELERATION_SHARE = 0.1
"""Density of the acceleration of a body, m/s2 per square root Hz, over the speed of the vehicle,
m/s, or one width per second."""
ALIKE_WIDTHS = 0.25
"""Change of the extent of a segment, in widths, from which on it is another one: a wall seen in
other parts seems to jump."""
NEIGHBOUR_WIDTHS = 0.6
"""Distance of a segment from the place predicted for its track, in widths, beyond which it is
another body."""
MOVING_SHARE, MOVING_LEAST_MPS = 0.1, 0.05
"""Speed below which a body stands: a part of the vehicle's speed, because its middle is known less
well the faster it passes."""
SLOW_S, SLOW_SHARE = 2.5, 0.4
"""Time after which the mean velocity of a body counts, whose noise is far less than that of the
present one, and its least speed over the other least speed."""
MOVED_WIDTHS, SURELY_WIDTHS = 0.3, 1.0
"""Distance that a body has moved, in widths: more than the middle of a post seems to move while the
vehicle passes it. Up to the second one its present place counts as well."""
LOST_S = 0.4


class SeenPoints(NamedTuple):
    """Points (n,) in the map frame, with their velocities; 0 for what stands."""

    x_m: Array
    y_m: Array
    vx_mps: Array
    vy_mps: Array
    late: Array | float = 1.0
    """Time of the prediction over that at which the vehicle is planned to be there."""

    def with_late(self, ratio: float) -> "SeenPoints":
        """Return the points, and those that move once more for a vehicle that comes later."""
        moving = self.moving
        if not moving.any():
            return self
        x, y, vx, vy = (np.append(column, column[moving]) for column in self[:4])
        late = np.append(np.ones(len(moving)), np.full(int(moving.sum()), ratio))
        return SeenPoints(x, y, vx, vy, late)

    @property
    def move(self) -> bool:
        """True if anything moves."""
        return bool(self.moving.any())

    def only(self, mask: npt.NDArray[np.bool_]) -> "SeenPoints":
        """Return some of the points."""
        return SeenPoints(*(column[mask] for column in self[:4]))

    @property
    def moving(self) -> npt.NDArray[np.bool_]:
        """Mask (n,) of the points that move."""
        found: npt.NDArray[np.bool_] = (self.vx_mps != 0.0) | (self.vy_mps != 0.0)
        return found


NO_OBSTACLES = SeenPoints(np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0))


class _SightTrack(BodyTrack):
    """Track that distinguishes a slow body from one that stands, by its way since it was seen
    first."""

    @property
    def mean_velocity(self) -> tuple[float, float]:
        """Mean velocity since it was seen first, m/s."""
        age_s = max(self.t_s - self.first_s, 1e-3)
        return (self.x - self._first_m[0]) / age_s, (self.y - self._first_m[1]) / age_s

    def drifts(self, least_mps: float, least_m: float) -> bool:
        """Return True if the body has moved too slowly for :meth:`moves`, and still does."""
        vx, vy = self.mean_velocity
        mean_mps = hypot(vx, vy)
        return (
            self.t_s - self.first_s >= SLOW_S
            and mean_mps > least_mps
            and self.vx * vx + self.vy * vy > 0.5 * mean_mps * mean_mps
            and self.moved_m > least_m + abs(self.extent_m - self._first_extent_m)
        )


class _Look(NamedTuple):
    """Points of one scan; ``track`` (n,) is the index of the segment's track, -1 for none."""

    t_ns: int
    x_m: Array
    y_m: Array
    tracks: list[_SightTrack | None]
    segment: Array


class Sight:
    """Points and tracks out of the scans of all scanners of a vehicle."""

    def __init__(self, body: LaneBody, memory_s: float) -> None:
        self._body, self._memory_ns = body, int(memory_s * 1e9)
        self._width_m = 2.0 * body.half_m
        self._history = MotionHistory()
        self._looks: dict[tuple[float, float], deque[_Look]] = {}
        self._views: dict[tuple[float, float], tuple[float, float]] = {}
        """First bearing and width of the field of view of each scanner."""
        self._tracks: list[_SightTrack] = []

    def add_motion(self, estimate: StateEstimate) -> None:
        """Remember the motion of the vehicle, by which the points of a scan are placed."""
        self._history.add(estimate)

    def add_scan(self, scan: LaserScan, estimate: StateEstimate) -> None:
        """Add a scan. One that cannot be used is ignored; the obstacle stop reports it."""
        usable = isfinite(
            scan.x_m
            + scan.y_m
            + scan.angle_min_rad
            + scan.angle_increment_rad
            + scan.time_increment_s
        )
        if (
            not usable
            or not scan.range_max_m > scan.range_min_m >= 0.0
            or abs(estimate.t_ns - scan.t_ns) > OLDEST_NS
        ):
            return
        with np.errstate(over="ignore", invalid="ignore"):
            x, y = scan_points(scan, estimate, self._body, self._history)
        known = np.isfinite(x) & np.isfinite(y)
        x, y = x[known], y[known]
        source = scan.x_m, scan.y_m
        self._views[source] = scan.angle_min_rad, scan.angle_increment_rad * len(scan.ranges_m)
        c, s = np.cos(estimate.yaw_rad), np.sin(estimate.yaw_rad)
        eye = estimate.x_m + c * scan.x_m - s * scan.y_m, estimate.y_m + s * scan.x_m + c * scan.y_m
        segment = self._segments(x, y, eye, abs(scan.angle_increment_rad))
        tracks = self._track(
            x,
            y,
            segment,
            eye,
            abs(scan.angle_increment_rad),
            scan.t_ns * 1e-9,
            abs(estimate.speed_mps),
        )
        looks = self._looks.setdefault(source, deque(maxlen=MOST_SCANS))
        if (
            len(looks) > SCANS_KEPT
            and looks[-SCANS_KEPT].t_ns - looks[-SCANS_KEPT - 1].t_ns < SPARSE_NS
        ):
            # What has left the field of view needs fewer scans.
            del looks[-SCANS_KEPT]
        looks.append(_Look(scan.t_ns, x, y, tracks, segment))
        while looks and looks[0].t_ns < estimate.t_ns - self._memory_ns and len(looks) > SCANS_KEPT:
            looks.popleft()

    def _segments(self, x: Array, y: Array, eye: tuple[float, float], ray_rad: float) -> Array:
        """Return the number of the segment of each point; points are in the order of their rays."""
        if not len(x):
            return np.zeros(0, dtype=np.int64)
        apart = np.hypot(np.diff(x), np.diff(y))
        range_m = np.hypot(x[1:] - eye[0], y[1:] - eye[1])
        breaks = apart > np.maximum(GAP_SHARE * self._width_m, 4.0 * range_m * ray_rad)
        found: Array = np.concatenate(([0], np.cumsum(breaks)))
        return found

    def _track(
        self,
        x: Array,
        y: Array,
        segment: Array,
        eye: tuple[float, float],
        ray_rad: float,
        t_s: float,
        speed_mps: float,
    ) -> list[_SightTrack | None]:
        """Follow the compact segments; return the track of each segment."""
        count = int(segment[-1]) + 1 if len(segment) else 0
        found: list[_SightTrack | None] = [None] * count
        sigma_m = MEASURED_WIDTHS * self._width_m
        density = ACCELERATION_SHARE * max(speed_mps, self._width_m)
        for track in self._tracks:
            track.predict(t_s, density)
        free = list(self._tracks)
        bounds = np.searchsorted(segment, np.arange(count + 1)).tolist()
        range_m = np.hypot(x - eye[0], y - eye[1])
        bearing = np.unwrap(np.arctan2(y - eye[1], x - eye[0]))
        beside = np.abs(np.diff(bearing)) < BESIDE_RAYS * ray_rad
        for number in range(count):
            first, end = bounds[number], bounds[number + 1]
            # What something nearer hides at both ends seems to move with the gap through which it
            # is seen.
            hidden = first > 0 and range_m[first - 1] < range_m[first] and beside[first - 1]
            if hidden and end < len(x) and range_m[end] < range_m[end - 1] and beside[end - 1]:
                continue
            px, py = x[first:end], y[first:end]
            extent = hypot(float(np.ptp(px)), float(np.ptp(py)))
            if extent > COMPACT_WIDTHS * self._width_m:
                continue
            mx, my = float(px.mean()), float(py.mean())
            away_x, away_y = mx - eye[0], my - eye[1]
            # The points of a half circle lie 2 r / pi before its middle.
            behind = 0.5 * extent * 0.637 / max(hypot(away_x, away_y), 1e-6)
            mx, my = mx + behind * away_x, my + behind * away_y
            best, nearest = None, NEIGHBOUR_WIDTHS * self._width_m
            for track in free:
                apart = hypot(track.x - mx, track.y - my)
                if apart < nearest and abs(track.extent_m - extent) < ALIKE_WIDTHS * self._width_m:
                    best, nearest = track, apart
            if best is None:
                if len(self._tracks) < MOST_TRACKS:
                    best = _SightTrack(t_s, mx, my, extent, sigma_m, max(speed_mps, self._width_m))
                    self._tracks.append(best)
            else:
                free.remove(best)
                best.correct(mx, my, extent, sigma_m)
            found[number] = best
        self._tracks = [track for track in self._tracks if t_s - track.seen_s <= LOST_S]
        return found

    def obstacles(
        self,
        estimate: StateEstimate,
        line: Array,
        line_step_m: float,
        beside_m: float,
        moving_m: float,
    ) -> SeenPoints:
        """Return what counts now within ``beside_m`` of a line, or ``moving_m`` if it moves.
        ``line`` (4 or more, n): x, y, cosine and sine of the yaw of its points, in equal steps."""
        least_mps = MOVING_LEAST_MPS * self._width_m / 0.3
        passing_mps = MOVING_SHARE * abs(estimate.speed_mps)
        columns: list[tuple[Array, Array, Array, Array]] = []
        for (mount_x, mount_y), looks in self._looks.items():
            first, width = self._views[mount_x, mount_y]
            for back, look in enumerate(reversed(looks)):
                if look.t_ns < estimate.t_ns - max(self._memory_ns, OLDEST_NS // 2):
                    break
                vx, vy = np.zeros(len(look.x_m)), np.zeros(len(look.x_m))
                keep = np.ones(len(look.x_m), dtype=np.bool_)
                for number, track in enumerate(look.tracks):
                    if track is None:
                        continue
                    moved_m = MOVED_WIDTHS * self._width_m
                    if track.moves(max(least_mps, passing_mps), moved_m):
                        velocity = track.vx, track.vy
                    elif track.drifts(max(SLOW_SHARE * least_mps, passing_mps), moved_m):
                        velocity = track.mean_velocity
                    else:
                        continue
                    part = look.segment == number
                    if back:
                        # Only the newest place of a moving body counts.
                        keep &= ~part
                        continue
                    vx[part], vy[part] = velocity
                    if track.moved_m < SURELY_WIDTHS * self._width_m:
                        columns.append(
                            (look.x_m[part], look.y_m[part], 0.0 * vx[part], 0.0 * vy[part])
                        )
                if back >= SCANS_KEPT:
                    keep &= ~self._in_view(look, estimate, mount_x, mount_y, first, width)
                age_s = (estimate.t_ns - look.t_ns) * 1e-9
                columns.append(
                    (
                        look.x_m[keep] + vx[keep] * age_s,
                        look.y_m[keep] + vy[keep] * age_s,
                        vx[keep],
                        vy[keep],
                    )
                )
        if not columns:
            return NO_OBSTACLES
        x, y, vx, vy = (np.concatenate(column) for column in zip(*columns, strict=True))
        nearest = np.hypot(x[:, None] - line[0], y[:, None] - line[1]).argmin(axis=1)
        dx = x - line[0][nearest]
        dy = y - line[1][nearest]
        c = line[2][nearest]
        s = line[3][nearest]
        along, left = c * dx + s * dy, c * dy - s * dx
        moving = (vx != 0.0) | (vy != 0.0)
        near = np.flatnonzero(
            np.hypot(np.maximum(np.abs(along) - line_step_m, 0.0), left)
            <= np.where(moving, moving_m, beside_m)
        )
        along = (along + line_step_m * nearest)[near]
        left = left[near]
        cell_m = CELL_WIDTHS * self._width_m
        kept = near[_outermost(along, left, cell_m)]
        while len(kept) > MOST_POINTS:
            cell_m *= 1.5
            kept = near[_outermost(along, left, cell_m)]
        return SeenPoints(x[kept], y[kept], vx[kept], vy[kept])

    def _in_view(
        self,
        look: _Look,
        estimate: StateEstimate,
        mount_x: float,
        mount_y: float,
        first: float,
        width: float,
    ) -> npt.NDArray[np.bool_]:
        """Return a mask of the points that the scanner would see again if they still stood
        there."""
        c, s = np.cos(estimate.yaw_rad), np.sin(estimate.yaw_rad)
        dx, dy = look.x_m - estimate.x_m, look.y_m - estimate.y_m
        bearing = np.arctan2(c * dy - s * dx - mount_y, c * dx + s * dy - mount_x)
        since = (bearing - first) * np.sign(width) % (2.0 * np.pi)
        seen: npt.NDArray[np.bool_] = since <= abs(width)
        return seen


def _outermost(along_m: Array, left_m: Array, cell_m: float) -> Array:
    """Return the indices of the outermost points to either side in each cell: where a body passes,
    they alone count."""
    cells = np.floor(along_m / cell_m) * 1e6 + np.floor(left_m / cell_m)
    order = np.lexsort((left_m, cells))
    changes = np.flatnonzero(np.diff(cells[order]))
    ends = (
        np.concatenate(([0], changes + 1, changes, [len(order) - 1]))
        if len(order)
        else np.zeros(0, dtype=np.int64)
    )
    found: Array = np.unique(order[ends])
    return found
