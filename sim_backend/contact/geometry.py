"""Distances and touching points between the rectangle of a vehicle and the parts of a scene, at one
instant.

All points are in the frame of the rectangle, x ahead and y left, unless said otherwise. A face
touches the end of a wall, and a corner touches a wall, a circle or another corner. Where walls
join, only the directions that their outline leaves free are normals: a vehicle that slides along a
row of walls does not catch on their joints.
"""

from collections.abc import Iterator, Sequence
from math import cos, hypot, inf, sin
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sim_backend.scene.moving import Moving
from sim_backend.scene.scene import ContactSurface, Scene, ScenePose
from vehicled.core.arrays import Array, hypotenuse
from vehicled.core.vehicle import Outline

CONE = 0.02
"""Sine of the angle by which a normal may lean over a wall that leaves a joint."""
NEAR_M = 1.0
"""Margin around the vehicle within which parts are kept at hand."""
STILL = (0.0, 0.0)


class Touch(NamedTuple):
    """One touching point."""

    x_m: float
    """Place in ``map``."""
    y_m: float
    normal_x: float
    """Unit vector in ``map`` from the part of the scene to the vehicle."""
    normal_y: float
    gap_m: float
    """Distance; negative for an overlap."""
    velocity: tuple[float, float]
    """Velocity of the part, in ``map``."""
    surface: ContactSurface


class _Joint(NamedTuple):
    """End of walls."""

    x_m: float
    y_m: float
    directions: tuple[tuple[float, float], ...]
    """Unit vectors along the walls that leave it."""
    surface: ContactSurface
    velocity: tuple[float, float] = STILL


class _NearParts(NamedTuple):
    """Parts of a scene at hand, in ``map``."""

    segments: Array
    """Ends (m, 4)."""
    segment_surfaces: list[ContactSurface]
    segment_velocities: list[tuple[float, float]]
    joints: list[_Joint]
    joint_places: Array
    """Places (k, 2) of the joints."""
    circles: list[tuple[float, float, float, ContactSurface, tuple[float, float]]]


class Obstacles:
    """Solid parts of a scene, as a rectangle meets them."""

    def __init__(self, scene: Scene, outline: Outline) -> None:
        self.outline = outline
        self._scene = scene
        self._segments: Array = scene.segments_m
        self._surfaces = scene.segment_surfaces
        self._joints = _joints(self._segments, self._surfaces)
        self._joint_places = np.array([joint[:2] for joint in self._joints]).reshape(-1, 2)
        self.moving: list[tuple[ContactSurface, Moving]] = scene.moving
        self.fastest_mps = max([thing.top_speed_mps for _, thing in self.moving], default=0.0)
        """Largest speed of a moving part."""
        self._near: _NearParts | None = None
        self._near_pose = ScenePose(0.0, 0.0, 0.0)
        self._circles_seen = b""
        front, rear, half = outline
        self._corners = ((front, half), (-rear, half), (-rear, -half), (front, -half))

    def gap(self, pose: ScenePose, time_s: float) -> float:
        """Return the distance to the nearest part within ``NEAR_M``; infinite for none, 0 for an
        overlap."""
        return self._gap(self._at_hand(pose, time_s), pose)

    def gap_of_still(self, pose: ScenePose) -> float:
        """Return the distance to the nearest part that does not move, as :meth:`gap`."""
        return self._gap(self._still(pose), pose)

    def _gap(self, parts: _NearParts, pose: ScenePose) -> float:
        gap = inf
        c, s = cos(pose.yaw_rad), sin(pose.yaw_rad)
        front, rear, half = self.outline
        for x, y, radius, _, _ in parts.circles:
            dx, dy = x - pose.x_m, y - pose.y_m
            u, v = c * dx + s * dy, c * dy - s * dx
            gap = min(gap, hypot(max(u - front, -rear - u, 0.0), max(abs(v) - half, 0.0)) - radius)
        if len(parts.segments):
            gap = min(
                gap,
                float(
                    _distances(self.outline, self._corners, _in_frame(parts.segments, pose)).min()
                ),
            )
        return max(gap, 0.0)

    def touches(self, pose: ScenePose, time_s: float, within_m: float) -> list[Touch]:
        """Return the touching points nearer than a distance, and one for each part that
        overlaps."""
        parts = self._at_hand(pose, time_s)
        found = [
            *self._circles(parts, pose, within_m),
            *self._walls(parts, pose, within_m),
            *self._ends(parts, pose, within_m),
        ]
        return sorted(found, key=lambda touch: touch.gap_m)

    def covering(self, pose: ScenePose) -> ContactSurface | None:
        """Return the surface of the filled body in which the middle of the vehicle lies; None if it
        is free."""
        front, rear, _ = self.outline
        middle_m = 0.5 * (front - rear)
        return self._scene.holding(
            pose.x_m + middle_m * cos(pose.yaw_rad), pose.y_m + middle_m * sin(pose.yaw_rad)
        )

    def _at_hand(self, pose: ScenePose, time_s: float) -> _NearParts:
        """Return the parts within ``NEAR_M`` of the vehicle, moving ones at their pose of a
        time."""
        static = self._still(pose)
        if not self.moving:
            return static
        parts = static._replace(
            segment_surfaces=[*static.segment_surfaces],
            segment_velocities=[*static.segment_velocities],
            joints=[*static.joints],
            circles=[*static.circles],
        )
        outlines = [_add_moving(parts, surface, thing, time_s) for surface, thing in self.moving]
        segments = np.concatenate([static.segments, *outlines])
        corners = [joint[:2] for joint in parts.joints[len(static.joints) :]]
        places = np.concatenate([static.joint_places, np.array(corners).reshape(-1, 2)])
        return parts._replace(segments=segments, joint_places=places)

    def _still(self, pose: ScenePose) -> _NearParts:
        moved_m = hypot(pose.x_m - self._near_pose.x_m, pose.y_m - self._near_pose.y_m)
        # The outline may have turned as well, so it counts as a circle.
        if self._near is None or moved_m > NEAR_M or self._circles_seen != self._scene.circle_state:
            self._near, self._near_pose = self._gather(pose), pose
        return self._near

    def _gather(self, pose: ScenePose) -> _NearParts:
        # Twice: the vehicle may move by as much before the parts are gathered anew.
        reach_m = self.outline.reach_m + 2.0 * NEAR_M
        self._circles_seen = self._scene.circle_state
        circles = [
            (x, y, radius, surface, STILL)
            for surface, (x, y, radius) in self._scene.circles
            if hypot(x - pose.x_m, y - pose.y_m) - radius <= reach_m
        ]
        if not len(self._segments):
            return _NearParts(np.empty((0, 4)), [], [], [], np.empty((0, 2)), circles)
        near = np.flatnonzero(_from_point(self._segments, pose.x_m, pose.y_m) <= reach_m).tolist()
        ends = np.flatnonzero(
            hypotenuse(*(self._joint_places - (pose.x_m, pose.y_m)).T) <= reach_m
        ).tolist()
        surfaces, joints = [self._surfaces[k] for k in near], [self._joints[k] for k in ends]
        return _NearParts(
            self._segments[near],
            surfaces,
            [STILL] * len(near),
            joints,
            self._joint_places[ends],
            circles,
        )

    def _circles(self, parts: _NearParts, pose: ScenePose, within_m: float) -> Iterator[Touch]:
        c, s = cos(pose.yaw_rad), sin(pose.yaw_rad)
        front, rear, half = self.outline
        for x, y, radius, surface, velocity in parts.circles:
            dx, dy = x - pose.x_m, y - pose.y_m
            u, v = c * dx + s * dy, c * dy - s * dx
            near_u, near_v = min(max(u, -rear), front), min(max(v, -half), half)
            distance = hypot(u - near_u, v - near_v)
            if distance - radius >= within_m:
                continue
            if distance > 0.0:
                nu, nv = (near_u - u) / distance, (near_v - v) / distance
                gap = distance - radius
            else:
                # Its middle is inside: out by the nearest face.
                depth, nu, nv = min(
                    (front - u, -1.0, 0.0),
                    (u + rear, 1.0, 0.0),
                    (half - v, 0.0, -1.0),
                    (v + half, 0.0, 1.0),
                )
                gap = -depth - radius
            yield _touch(pose, near_u, near_v, nu, nv, gap, velocity, surface)

    def _walls(self, parts: _NearParts, pose: ScenePose, within_m: float) -> Iterator[Touch]:
        """Iterate over corners of the vehicle on walls, and over walls that reach into the
        vehicle."""
        if not len(parts.segments):
            return
        ends = _in_frame(parts.segments, pose)
        distances = _distances(self.outline, self._corners, ends)
        for k in np.flatnonzero(distances < within_m).tolist():
            x1, y1, x2, y2 = ends[k].tolist()
            surface, velocity = parts.segment_surfaces[k], parts.segment_velocities[k]
            if distances[k] == 0.0:
                u, v, nu, nv, depth = _overlap(self.outline, x1, y1, x2, y2)
                yield _touch(pose, u, v, nu, nv, -depth, velocity, surface)
                continue
            ex, ey = x2 - x1, y2 - y1
            length = hypot(ex, ey)
            for u, v in self._corners:
                along = (u - x1) * ex + (v - y1) * ey
                if not 0.0 <= along <= length * length:
                    continue
                side = (ex * (v - y1) - ey * (u - x1)) / length
                if not 0.0 < abs(side) < within_m:
                    continue
                sign = 1.0 if side > 0.0 else -1.0
                nu, nv = -ey / length * sign, ex / length * sign
                # The body lies on the side of the normal.
                if (nu * -u if abs(nu) > CONE else 0.0) >= 0.0 and (
                    nv * -v if abs(nv) > CONE else 0.0
                ) >= 0.0:
                    yield _touch(pose, u, v, nu, nv, abs(side), velocity, surface)

    def _ends(self, parts: _NearParts, pose: ScenePose, within_m: float) -> Iterator[Touch]:
        """Iterate over ends of walls at faces and corners of the vehicle."""
        c, s = cos(pose.yaw_rad), sin(pose.yaw_rad)
        front, rear, half = self.outline
        away_x, away_y = (parts.joint_places - (pose.x_m, pose.y_m)).T
        ahead, left = c * away_x + s * away_y, c * away_y - s * away_x
        near = (
            (ahead < front + within_m)
            & (ahead > -rear - within_m)
            & (np.abs(left) < half + within_m)
        )
        for k in np.flatnonzero(near).tolist():
            joint = parts.joints[k]
            dx, dy = joint.x_m - pose.x_m, joint.y_m - pose.y_m
            u, v = c * dx + s * dy, c * dy - s * dx
            near_u, near_v = min(max(u, -rear), front), min(max(v, -half), half)
            gap = hypot(near_u - u, near_v - v)
            if not 0.0 < gap < within_m:
                continue
            nu, nv = (near_u - u) / gap, (near_v - v) / gap
            nx, ny = c * nu - s * nv, s * nu + c * nv
            if all(nx * ax + ny * ay <= CONE for ax, ay in joint.directions):
                yield Touch(joint.x_m, joint.y_m, nx, ny, gap, joint.velocity, joint.surface)


def _touch(
    pose: ScenePose,
    u: float,
    v: float,
    nu: float,
    nv: float,
    gap_m: float,
    velocity: tuple[float, float],
    surface: ContactSurface,
) -> Touch:
    c, s = cos(pose.yaw_rad), sin(pose.yaw_rad)
    return Touch(
        pose.x_m + c * u - s * v, pose.y_m + s * u + c * v, c * nu - s * nv, s * nu + c * nv, gap_m,
        velocity, surface
    )  # fmt: skip


def _in_frame(ends: Array, pose: ScenePose) -> Array:
    """Return segments (m, 4) of ``map`` in the frame of a pose."""
    c, s = cos(pose.yaw_rad), sin(pose.yaw_rad)
    x, y = ends[:, 0::2] - pose.x_m, ends[:, 1::2] - pose.y_m
    found = np.empty(ends.shape)
    found[:, 0::2] = c * x + s * y
    found[:, 1::2] = c * y - s * x
    return found


def _from_point(ends: Array, x_m: float, y_m: float) -> Array:
    """Return the distances (m,) of segments from a point."""
    x1, y1, ex, ey = ends[:, 0], ends[:, 1], ends[:, 2] - ends[:, 0], ends[:, 3] - ends[:, 1]
    square = ex * ex + ey * ey
    along = (x_m - x1) * ex + (y_m - y1) * ey
    ratio = np.clip(
        np.divide(along, square, out=np.zeros_like(along), where=square > 0.0), 0.0, 1.0
    )
    return np.asarray(hypotenuse(x1 + ratio * ex - x_m, y1 + ratio * ey - y_m))


def _distances(outline: Outline, corners: Sequence[tuple[float, float]], ends: Array) -> Array:
    """Return the distances (m,) of segments in the frame of the rectangle; 0 for those that reach
    into it."""
    front, rear, half = outline
    best = np.full(len(ends), np.inf)
    for end in (ends[:, :2], ends[:, 2:]):
        ahead = np.maximum(np.maximum(end[:, 0] - front, -rear - end[:, 0]), 0.0)
        best = np.minimum(best, hypotenuse(ahead, np.maximum(np.abs(end[:, 1]) - half, 0.0)))
    for u, v in corners:
        best = np.minimum(best, _from_point(ends, u, v))
    best[_crossing(outline, ends)] = 0.0
    return best


def _crossing(outline: Outline, ends: Array) -> npt.NDArray[np.bool_]:
    """True (m,) for segments with a point in the rectangle."""
    front, rear, half = outline
    enter, leave = np.zeros(len(ends)), np.ones(len(ends))
    for start, end, low, high in (
        (ends[:, 0], ends[:, 2], -rear, front),
        (ends[:, 1], ends[:, 3], -half, half),
    ):
        step = end - start
        with np.errstate(divide="ignore", invalid="ignore"):
            a, b = (low - start) / step, (high - start) / step
        level, inside = step == 0.0, (start >= low) & (start <= high)
        enter = np.maximum(enter, np.where(level, np.where(inside, 0.0, 2.0), np.minimum(a, b)))
        leave = np.minimum(leave, np.where(level, 1.0, np.maximum(a, b)))
    return np.asarray(enter <= leave)


def _overlap(
    outline: Outline, x1: float, y1: float, x2: float, y2: float
) -> tuple[float, float, float, float, float]:
    """Return place, direction and depth of the shortest way out of a segment that reaches into the
    rectangle."""
    front, rear, half = outline
    u, v = min(max(0.5 * (x1 + x2), -rear), front), min(max(0.5 * (y1 + y2), -half), half)
    ways = [
        (front - min(x1, x2), -1.0, 0.0),
        (max(x1, x2) + rear, 1.0, 0.0),
        (half - min(y1, y2), 0.0, -1.0),
        (max(y1, y2) + half, 0.0, 1.0),
    ]
    length = hypot(x2 - x1, y2 - y1)
    if length > 0.0:
        nu, nv = (y1 - y2) / length, (x2 - x1) / length
        at = nu * x1 + nv * y1
        middle, extent = nu * 0.5 * (front - rear), abs(nu) * 0.5 * (front + rear) + abs(nv) * half
        ways += [(at - (middle - extent), nu, nv), ((middle + extent) - at, -nu, -nv)]
    depth, nu, nv = min(ways)
    return u, v, nu, nv, depth


def _joints(segments: Array, surfaces: Sequence[ContactSurface]) -> list[_Joint]:
    """Return the ends of all segments; those that share a place are one."""
    at: dict[tuple[float, float], list[tuple[tuple[float, float], ContactSurface]]] = {}
    for (x1, y1, x2, y2), surface in zip(segments.tolist(), surfaces, strict=True):
        length = hypot(x2 - x1, y2 - y1)
        ex, ey = ((x2 - x1) / length, (y2 - y1) / length) if length else (0.0, 0.0)
        at.setdefault((x1, y1), []).append(((ex, ey), surface))
        at.setdefault((x2, y2), []).append(((-ex, -ey), surface))
    return [
        _Joint(x, y, tuple(way for way, _ in leaving), leaving[0][1])
        for (x, y), leaving in at.items()
    ]


def _add_moving(parts: _NearParts, surface: ContactSurface, thing: Moving, time_s: float) -> Array:
    """Append a moving object to the lists of the parts; return its outline as segments (m, 4)."""
    x, y, yaw, vx, vy = thing.state(time_s)
    velocity = vx, vy
    if thing.radius_m is not None:
        parts.circles.append((x, y, thing.radius_m, surface, velocity))
        return np.empty((0, 4))
    c, s = cos(yaw), sin(yaw)
    outline = [(x + c * a - s * b, y + s * a + c * b) for a, b in thing.outline_m]
    edges = np.array(
        [(*start, *end) for start, end in zip(outline, [*outline[1:], outline[0]], strict=True)]
    )
    parts.segment_surfaces.extend([surface] * len(edges))
    parts.segment_velocities.extend([velocity] * len(edges))
    parts.joints.extend(
        joint._replace(velocity=velocity) for joint in _joints(edges, [surface] * len(edges))
    )
    return edges
