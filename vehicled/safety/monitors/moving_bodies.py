"""Bodies that move, from consecutive scans, and the lane that they are about to enter.

Points near to each other form a cluster; clusters of consecutive scans are associated within a gate
and tracked with constant velocity. Tracks live in a frame of dead reckoning: a correction of the
estimated position would give everything that stands a velocity.

A cluster also seems to move where another part of a thing that stands comes into view: the end of a
wall, what is seen through a gap, the side of a parked car. Three conditions keep these out:

- the body must cover places that earlier scans saw through;
- the edge towards the lane must approach it, not only the middle of the points, because a car that
  goes past shows its side after its front;
- it must meet the lane if it goes straight on, and if it keeps its speeds along and across the
  lane: who keeps to the next lane in a bend does the one, but not the other.
"""

from collections import deque
from collections.abc import Iterable
from functools import cache
from math import cos, hypot, inf, isfinite, isnan, nan, pi, sin
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from vehicled.core.arrays import Array, arctan2, hypotenuse
from vehicled.core.messages import LaserScan, StateEstimate
from vehicled.paths.arc import on_arc
from vehicled.safety.monitors.lane import LaneBody, Stations
from vehicled.safety.monitors.scans import MotionHistory
from vehicled.safety.monitors.tracks import BodyTrack

LONGEST_GAP_S = 0.5
"""Gap between two estimates after which dead reckoning, and all tracks, begin anew, s."""
CLUSTER_GAP_M, CLUSTER_GAP_RAYS = 0.15, 3.0
"""Distance between two points of one cluster: at most so many metres, or so many ray spacings."""
LEAST_POINTS = 3
LONGEST_BODY_M = 6.0
"""Extent of a cluster beyond which it is not tracked, m."""
FARTHEST_M = 15.0
"""Distance from the scanner beyond which no cluster is tracked, m."""
MOST_CLUSTERS, MOST_TRACKS = 40, 80
MOST_POINTS = 24
"""Points of a cluster that are kept."""
MEASURED_M = 0.03
"""Standard deviation of the middle of a cluster, m, beside half a ray spacing."""
FIRST_SPEED_MPS = 3.0
"""Standard deviation of the speed of a new track, m/s."""
ACCELERATION = 0.5
"""Density of the acceleration of a body, m/s2 per square root Hz."""
GATE_SIGMAS = 3.0
ALIKE_M, ALIKE_SHARE = 0.3, 0.5
"""Change of the extent of a cluster beyond which it is another one: metres, or a part of it."""
LOST_S = 0.3
"""Time without a cluster after which a track ends, s."""
LEAST_S, LEAST_HITS = 0.25, 4
"""Age and number of scans of a track that may count."""
LEAST_MPS = 0.3
"""Speed below which a body stands."""
SIGMAS = 2.0
"""Standard deviations by which the speed towards the lane is reduced, so that only what surely
enters it counts."""
EDGE_M, EDGE_RAYS = 0.02, 0.3
"""Standard deviation of the edge of a cluster: metres, and ray spacings."""
YOUNGEST_VIEW_S, OLDEST_VIEW_S = 0.2, 0.6
"""Age of the scans that must have seen through the place of a body, s."""
VIEWS = 3
FREE_M, FREE_SHARE = 0.1, 0.02
"""Distance to either side of a place, and behind it, that must have been free: metres, and a part
of the range."""
MOST_BESIDE = 12
"""Rays to either side that are looked at."""
COVERED_SHARE = 0.15
"""Part of the points of a moving body that must cover places which were free."""
HIDDEN_RAYS = 4
"""Rays between a cluster and what cuts it off, at most."""
BEHIND_M, BEHIND_STATIONS = 6.0, 24
CURVATURE_STATIONS = 4
"""Lane behind the vehicle, on which bodies come up beside it."""
MARGIN_S = 0.5
"""Time added to that of a stop, and least lead with which a body may cross before the vehicle."""
PASS_S = 0.25
"""Lead with which the vehicle may pass before a body comes, s."""
MOST_STEPS = 24

Pose = tuple[float, float, float]


class DeadReckoning:
    """Pose of the vehicle, integrated from estimated speed and yaw rate alone."""

    def __init__(self) -> None:
        self.pose: Pose = (0.0, 0.0, 0.0)
        self.epoch = 0
        """Number of times that it began anew."""
        self._last: StateEstimate | None = None

    def add(self, estimate: StateEstimate) -> None:
        """Follow the vehicle to an estimate."""
        last, self._last = self._last, estimate
        elapsed_s = inf if last is None else (estimate.t_ns - last.t_ns) * 1e-9
        if last is None or not 0.0 <= elapsed_s <= LONGEST_GAP_S:
            self.epoch += 1
            return
        rates = [
            each.yaw_rate_radps if isfinite(each.yaw_rate_radps) else 0.0
            for each in (last, estimate)
        ]
        turned = 0.5 * (rates[0] + rates[1]) * elapsed_s
        way = 0.5 * (last.speed_mps + estimate.speed_mps) * elapsed_s
        x, y, yaw = self.pose
        middle = yaw + 0.5 * turned
        self.pose = x + way * cos(middle), y + way * sin(middle), yaw + turned


class ClusterOutline(NamedTuple):
    """Points of a cluster at a time, in the order of their rays."""

    t_s: float
    x_m: Array
    y_m: Array
    cut: tuple[bool, bool]
    """True for an end, first and last, where something nearer or the field of view cuts it off."""


class MovingBody(NamedTuple):
    """Body that surely moves. Places are in the map frame."""

    seen: ClusterOutline
    """Its points in the newest scan."""
    before: ClusterOutline
    """Its points in an earlier scan."""
    elapsed_s: float
    age_s: float
    """Time since the newest scan saw it, s."""
    vx_mps: float
    vy_mps: float
    sigma_mps: float
    """Standard deviation of each component of the velocity."""
    edge_sigma_mps: float
    """Standard deviation of the speed of an edge, from two scans."""


class _ClusterTrack(BodyTrack):
    """Track with the points that it was made of."""

    def __init__(self, *arguments: float) -> None:
        super().__init__(*arguments)
        self.hits = 0
        self.outlines: deque[ClusterOutline] = deque(maxlen=64)


class _EarlierScan(NamedTuple):
    """Earlier scan: what it saw through."""

    t_s: float
    scan: LaserScan
    reach_m: Array
    """Range (n,) up to which each ray met nothing."""
    first: Pose
    """Pose of the vehicle at the first and at the last ray, by dead reckoning."""
    last: Pose

    def free(self, x_m: Array, y_m: Array) -> npt.NDArray[np.bool_]:
        """Return a mask of the places (n,), by dead reckoning, that the scan saw through."""
        scan, count = self.scan, len(self.reach_m)
        step = abs(scan.angle_increment_rad)
        share = np.full(len(x_m), 0.5)
        for _ in range(2):
            # The pose at a ray determines the bearing, which determines the ray.
            x, y, yaw = (a + share * (b - a) for a, b in zip(self.first, self.last, strict=True))
            c, s = np.cos(yaw), np.sin(yaw)
            forward = c * (x_m - x) + s * (y_m - y) - scan.x_m
            left = c * (y_m - y) - s * (x_m - x) - scan.y_m
            turned = (arctan2(left, forward) - scan.angle_min_rad) * np.sign(
                scan.angle_increment_rad
            )
            ray = np.mod(turned, 2.0 * pi) / step
            share = np.clip(ray / max(count - 1, 1), 0.0, 1.0)
        range_m = hypotenuse(forward, left)
        known = ray <= count - 0.5
        beside = np.clip(np.ceil(FREE_M / np.maximum(range_m * step, 1e-6)), 1, MOST_BESIDE)
        offsets = np.arange(-MOST_BESIDE, MOST_BESIDE + 1)
        rays = np.clip(np.rint(ray)[:, None] + offsets, 0, count - 1).astype(np.intp)
        reach = np.where(np.abs(offsets) <= beside[:, None], self.reach_m[rays], inf).min(axis=1)
        seen: npt.NDArray[np.bool_] = known & (reach > (1.0 + FREE_SHARE) * range_m + FREE_M)
        return seen


class BodyTracker:
    """Tracker of the bodies that one scanner sees."""

    def __init__(self) -> None:
        self._tracks: list[_ClusterTrack] = []
        self._views: deque[_EarlierScan] = deque(maxlen=64)
        self._epoch = -1

    def add_scan(
        self,
        scan: LaserScan,
        returns: tuple[Array, Array, npt.NDArray[np.intp]],
        estimate: StateEstimate,
        history: MotionHistory,
        reckoning: DeadReckoning,
    ) -> list[MovingBody]:
        """Add a usable scan with its returns in the map frame; return the bodies that move."""
        if self._epoch != reckoning.epoch:
            self._epoch = reckoning.epoch
            self._tracks.clear()
            self._views.clear()
        x, y, ray = returns
        known = np.isfinite(x) & np.isfinite(y)
        x, y, ray = x[known], y[known], ray[known]
        here = estimate.x_m, estimate.y_m, estimate.yaw_rad
        moved = _moved(here, reckoning.pose)
        x, y = moved(x, y)
        last_ray_s = scan.time_increment_s * max(len(scan.ranges_m) - 1, 0)
        t_s = scan.t_ns * 1e-9
        age_s = (estimate.t_ns - scan.t_ns) * 1e-9
        px, py, pyaw = history.poses(np.array([age_s, age_s - last_ray_s]), estimate)
        turned = reckoning.pose[2] - estimate.yaw_rad
        px, py, pyaw = *moved(px, py), pyaw + turned
        first, last = ((float(px[k]), float(py[k]), float(pyaw[k])) for k in (0, 1))
        eye = (
            first[0] + cos(first[2]) * scan.x_m - sin(first[2]) * scan.y_m,
            first[1] + sin(first[2]) * scan.x_m + cos(first[2]) * scan.y_m,
        )
        if not isfinite(sum(first) + sum(last)) or not scan.angle_increment_rad:
            return []
        seen = self._associate(scan, x, y, ray, eye)
        self._views.append(_EarlierScan(t_s, scan, _reach(scan), first, last))
        back = _moved(reckoning.pose, here)
        step = abs(scan.angle_increment_rad)
        return [
            _moving_body(track, back, turned, estimate, step, eye)
            for track in seen
            if self._moves(track)
        ]

    def _associate(
        self,
        scan: LaserScan,
        x: Array,
        y: Array,
        ray: npt.NDArray[np.intp],
        eye: tuple[float, float],
    ) -> list[_ClusterTrack]:
        """Cluster the points and correct the tracks; return those that were seen."""
        step = abs(scan.angle_increment_rad)
        range_m = hypotenuse(x - eye[0], y - eye[1])
        seen: list[_ClusterTrack] = []
        free = list(self._tracks)
        for start, end, mx, my, extent in _clusters(x, y, range_m, step):
            middle_ray = 0.5 * float(ray[start] + ray[end - 1])
            t_s = scan.t_ns * 1e-9 + scan.time_increment_s * middle_ray
            sigma = hypot(MEASURED_M, 0.5 * step * float(range_m[start]))
            best, least = None, GATE_SIGMAS
            for track in free:
                deviation = track.deviation(t_s, mx, my, sigma)
                larger = max(extent, track.extent_m)
                alike = abs(extent - track.extent_m) <= max(ALIKE_M, ALIKE_SHARE * larger)
                if alike and deviation < least:
                    best, least = track, deviation
            if best is None and len(self._tracks) >= MOST_TRACKS:
                continue
            if best is None:
                best = _ClusterTrack(t_s, mx, my, extent, sigma, FIRST_SPEED_MPS)
                self._tracks.append(best)
            else:
                free.remove(best)
                best.predict(t_s, ACCELERATION)
                best.correct(mx, my, extent, sigma)
            best.hits += 1
            thin = start + _thinned(end - start)
            cut = (
                _hidden(ray, range_m, start, start - 1, -1),
                _hidden(ray, range_m, end - 1, end, len(scan.ranges_m)),
            )
            best.outlines.append(ClusterOutline(t_s, x[thin], y[thin], cut))
            seen.append(best)
        newest_s = scan.t_ns * 1e-9
        self._tracks = [each for each in self._tracks if abs(newest_s - each.seen_s) <= LOST_S]
        return seen

    def _moves(self, track: _ClusterTrack) -> bool:
        """Return True if a track surely moves, and covers places that were free before."""
        speed = hypot(track.vx, track.vy)
        if (
            track.hits < LEAST_HITS
            or track.seen_s - track.first_s < LEAST_S
            or speed <= max(LEAST_MPS, SIGMAS * track.speed_sigma_mps)
        ):
            return False
        newest = track.outlines[-1]
        old = [
            view
            for view in self._views
            if YOUNGEST_VIEW_S <= newest.t_s - view.t_s <= OLDEST_VIEW_S
        ][:VIEWS]
        if not old:
            return False
        covers = np.ones(len(newest.x_m), dtype=np.bool_)
        for view in old:
            covers &= view.free(newest.x_m, newest.y_m)
            if int(covers.sum()) < max(2.0, COVERED_SHARE * len(covers)):
                return False
        return True


class StopNow(NamedTuple):
    """Stop that the vehicle could begin now."""

    speed_mps: float
    time_s: float
    way_m: float
    gap_m: float
    """Distance kept to an obstacle."""


def predicted_free_m(
    lane: Stations, body: LaneBody, moving: Iterable[MovingBody], stop: StopNow
) -> float:
    """Return the free distance up to the first place where a moving body is about to meet the lane
    while the vehicle stops; infinite if none does.

    A body that has left the lane before the vehicle could come there, or comes only after it has
    passed, does not count.
    """
    return min((_met_m(lane, body, each, stop) for each in moving), default=inf)


def _met_m(lane: Stations, body: LaneBody, moving: MovingBody, stop: StopNow) -> float:
    horizon_s = stop.time_s + MARGIN_S
    long = _extended(lane)
    along, left = _on_lane(long, moving.seen)
    along_before, left_before = _on_lane(long, moving.before)
    middle = int(np.argmin(np.abs(long.way_m - float(along.mean()))))
    c, s = cos(float(long.yaw_rad[middle])), sin(float(long.yaw_rad[middle]))
    along_mps = lane.direction * (c * moving.vx_mps + s * moving.vy_mps)
    left_mps = c * moving.vy_mps - s * moving.vx_mps
    inward_mps = 0.0
    beside_m = max(float(left.min()), -float(left.max()))
    if beside_m > 0.0:
        side = 1.0 if float(left.min()) > 0.0 else -1.0
        edge_m, edge_before_m = (
            _edge(moving.seen, side * left),
            _edge(moving.before, side * left_before),
        )
        approach_m = edge_before_m - edge_m
        if isnan(approach_m):
            return inf
        inward_mps = min(
            -side * left_mps - SIGMAS * moving.sigma_mps,
            approach_m / moving.elapsed_s - SIGMAS * moving.edge_sigma_mps,
        )
        inward_mps = max(inward_mps, 0.0)
        reach_m = body.half_m + body.side_m + max(side * lane.aside_m, 0.0)
        if beside_m - inward_mps * (horizon_s + moving.age_s) > reach_m:
            return inf
        inward_mps *= -side
    if along_mps < 0.0:
        closing = (float(along_before.min()) - float(along.min())) / moving.elapsed_s
        along_mps = -max(0.0, min(-along_mps, closing))
    pace = hypot(moving.vx_mps, moving.vy_mps)
    steps = int(min(max(pace * horizon_s / body.half_m, 2.0), MOST_STEPS))
    after_s = np.linspace(0.0, horizon_s, steps + 1)[1:, None]
    t_s = after_s + moving.age_s
    straight = moving.seen.x_m + moving.vx_mps * t_s, moving.seen.y_m + moving.vy_mps * t_s
    bent = _off_lane(long, along + along_mps * t_s, left + inward_mps * t_s)
    at_s = np.repeat(after_s, len(left), axis=1).ravel()
    contacts, along_contacts = (
        body.contacts_m(lane, x.ravel(), y.ravel()) for x, y in (straight, bent)
    )
    # Where the vehicle cannot stop before it any more, going on is better than to stop in its way.
    lead_s = np.where(contacts >= stop.way_m, PASS_S, 0.0)
    counts = (contacts <= stop.speed_mps * (at_s + MARGIN_S) + stop.gap_m) & (
        contacts >= stop.speed_mps * (at_s - lead_s) - body.front_m - body.rear_m
    )
    return max(float(contacts[counts].min(initial=inf)), float(along_contacts.min(initial=inf)))


def _edge(outline: ClusterOutline, aside_m: Array) -> float:
    """Return the least of the offsets of an outline from the lane; NaN if it is cut off there."""
    nearest = int(aside_m.argmin())
    cut = (nearest == 0 and outline.cut[0]) or (nearest == len(aside_m) - 1 and outline.cut[1])
    return nan if cut else float(aside_m[nearest])


def _hidden(
    ray: npt.NDArray[np.intp], range_m: Array, end: int, beyond: int, last_ray: int
) -> bool:
    """Return True if the end of a cluster is at the edge of the field of view, or beside something
    nearer. ``beyond``: index of the next point; ``last_ray``: the ray beyond the field of view."""
    if abs(int(ray[end]) - last_ray) <= HIDDEN_RAYS:
        return True
    return (
        0 <= beyond < len(ray)
        and abs(int(ray[end]) - int(ray[beyond])) <= HIDDEN_RAYS
        and bool(range_m[beyond] < range_m[end])
    )


def _extended(lane: Stations) -> Stations:
    """Return the lane with stations before its start, on a circle of its curvature there."""
    few = min(CURVATURE_STATIONS, len(lane.way_m) - 1)
    way = float(lane.way_m[few] - lane.way_m[0])
    turned = float(lane.yaw_rad[few] - lane.yaw_rad[0])
    curvature = lane.direction * turned / way if way > 0.0 else 0.0
    behind = np.linspace(-BEHIND_M, 0.0, BEHIND_STATIONS + 1)[:-1]
    first = float(lane.x_m[0]), float(lane.y_m[0]), float(lane.yaw_rad[0])
    x, y, yaw = on_arc(*first, curvature, lane.direction * behind)
    return lane._replace(
        way_m=np.concatenate((behind, lane.way_m)),
        x_m=np.concatenate((x, lane.x_m)),
        y_m=np.concatenate((y, lane.y_m)),
        yaw_rad=np.concatenate((yaw, lane.yaw_rad)),
    )


def _on_lane(lane: Stations, outline: ClusterOutline) -> tuple[Array, Array]:
    """Return distance along the lane and offset to the left of the points (n,)."""
    x_m, y_m = outline.x_m, outline.y_m
    dx, dy = x_m - lane.x_m[:, None], y_m - lane.y_m[:, None]
    nearest = (dx * dx + dy * dy).argmin(axis=0)
    each = np.arange(len(x_m))
    dx, dy = dx[nearest, each], dy[nearest, each]
    c, s = np.cos(lane.yaw_rad[nearest]), np.sin(lane.yaw_rad[nearest])
    return lane.way_m[nearest] + lane.direction * (c * dx + s * dy), c * dy - s * dx


def _off_lane(lane: Stations, along_m: Array, left_m: Array) -> tuple[Array, Array]:
    """Return the places in the map frame at distances along the lane and offsets to the left."""
    x, y, yaw = (
        np.interp(along_m, lane.way_m, column) for column in (lane.x_m, lane.y_m, lane.yaw_rad)
    )
    beyond = lane.direction * (along_m - np.clip(along_m, lane.way_m[0], lane.way_m[-1]))
    c, s = np.cos(yaw), np.sin(yaw)
    return x + beyond * c - left_m * s, y + beyond * s + left_m * c


def _moving_body(
    track: _ClusterTrack,
    back: "_RigidMotion",
    turned: float,
    estimate: StateEstimate,
    step: float,
    eye: tuple[float, float],
) -> MovingBody:
    newest = track.outlines[-1]
    earlier = next(each for each in track.outlines if newest.t_s - each.t_s <= OLDEST_VIEW_S)
    elapsed_s = max(newest.t_s - earlier.t_s, LEAST_S)
    c, s = cos(turned), sin(turned)
    range_m = float(hypotenuse(newest.x_m - eye[0], newest.y_m - eye[1]).min())
    return MovingBody(
        ClusterOutline(newest.t_s, *back(newest.x_m, newest.y_m), newest.cut),
        ClusterOutline(earlier.t_s, *back(earlier.x_m, earlier.y_m), earlier.cut),
        elapsed_s,
        estimate.t_ns * 1e-9 - newest.t_s,
        c * track.vx + s * track.vy,
        c * track.vy - s * track.vx,
        track.speed_sigma_mps,
        2.0**0.5 * hypot(EDGE_M, EDGE_RAYS * step * range_m) / elapsed_s,
    )


def _clusters(
    x: Array, y: Array, range_m: Array, step: float
) -> list[tuple[int, int, float, float, float]]:
    """Return first and end index, middle and extent of each cluster that may be a body, the nearest
    ones if there are too many."""
    if len(x) < LEAST_POINTS:
        return []
    apart = hypotenuse(np.diff(x), np.diff(y))
    breaks = np.flatnonzero(
        apart > np.maximum(CLUSTER_GAP_M, CLUSTER_GAP_RAYS * step * range_m[1:])
    )
    starts = np.concatenate(([0], breaks + 1))
    counts = np.diff(np.append(starts, len(x)))
    extent = hypotenuse(
        *(np.maximum.reduceat(axis, starts) - np.minimum.reduceat(axis, starts) for axis in (x, y))
    )
    nearest = np.minimum.reduceat(range_m, starts)
    chosen = np.flatnonzero(
        (counts >= LEAST_POINTS) & (nearest <= FARTHEST_M) & (extent <= LONGEST_BODY_M)
    )
    if len(chosen) > MOST_CLUSTERS:
        chosen = chosen[np.argsort(nearest[chosen], kind="stable")[:MOST_CLUSTERS]]
    columns = (
        starts,
        starts + counts,
        np.add.reduceat(x, starts) / counts,
        np.add.reduceat(y, starts) / counts,
        extent,
    )
    return list(zip(*(column[chosen].tolist() for column in columns), strict=True))


@cache
def _thinned(count: int) -> npt.NDArray[np.intp]:
    """Return the indices of the points of a cluster that are kept, its ends among them."""
    return np.linspace(0, count - 1, min(count, MOST_POINTS)).astype(np.intp)


def _reach(scan: LaserScan) -> Array:
    """Return how far each ray of a scan met nothing, m; 0 if it does not say."""
    ranges = np.array(scan.ranges_m)
    reach = np.minimum(ranges, scan.range_max_m)
    return np.where(np.isnan(ranges) | (ranges < scan.range_min_m), 0.0, reach)


class _RigidMotion(NamedTuple):
    """Rigid motion of the plane."""

    x_m: float
    y_m: float
    cosine: float
    sine: float

    def __call__(self, x: Array, y: Array) -> tuple[Array, Array]:
        """Move places (n,)."""
        c, s = self.cosine, self.sine
        return self.x_m + c * x - s * y, self.y_m + s * x + c * y


def _moved(start: Pose, end: Pose) -> _RigidMotion:
    """Return the motion that takes one pose to another."""
    c, s = cos(end[2] - start[2]), sin(end[2] - start[2])
    return _RigidMotion(
        end[0] - c * start[0] + s * start[1], end[1] - s * start[0] - c * start[1], c, s
    )
