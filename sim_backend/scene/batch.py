"""Scans of many vehicles in one scene of segments, and their collisions with it.

A scan is taken at one instant. Its ranges are those of :meth:`sim_backend.scene.scene.Scene.cast`.
Where the machine has a C compiler it is machine code (:mod:`sim_backend.scene.batch_native`), else
numpy, with the same bits.
"""

from collections.abc import Sequence
from ctypes import CDLL
from functools import cache
from math import hypot, tau
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sim_backend.scene.batch_native import MachineScanner, MovingArrays, scan_library
from sim_backend.scene.moving import Moving
from sim_backend.scene.rays import SLACK_RAD, Index
from vehicled.core.arrays import Array, clipped, hypotenuse
from vehicled.profile.schema import LidarModel

Flags = npt.NDArray[np.bool_]


class MovingShapes(NamedTuple):
    """Moving shapes at the instant of each of n vehicles, in ``map``."""

    edges_m: Array
    """Ends of segments (n, edges, 4)."""
    circles_m: Array
    """Centres and radii (n, circles, 3)."""


class BatchScanner:
    """Planar scanners, one on each vehicle, among segments (m, 4) in ``map``."""

    def __init__(
        self,
        model: LidarModel,
        lever_arm_m: tuple[float, float],
        segments_m: Array,
        machine_code: bool = True,
    ) -> None:
        """``lever_arm_m``: place of the scanner ahead and left of the rear axle. ``machine_code``:
        use it where there is any."""
        low, high = sorted((model.angle_min_rad, model.angle_max_rad))
        self.rays = model.rays
        self._reach_m = model.range_max_m
        self._low_rad = low
        self._step_rad = max((high - low) / max(model.rays - 1, 1), 1e-12)
        bearings: Array = low + (high - low) / max(model.rays - 1, 1) * np.arange(
            model.rays, dtype=np.float64
        )
        self._cosines, self._sines = np.cos(bearings), np.sin(bearings)
        self._lever_arm_m = lever_arm_m
        self._segments_m = np.ascontiguousarray(segments_m, dtype=np.float64)
        self._middles_m = 0.5 * (segments_m[:, :2] + segments_m[:, 2:])
        self._lengths_m = _lengths_m(self._segments_m)
        code = scan_library(_agrees) if machine_code else None
        self._machine = self._on(code) if code else None

    @property
    def compiled(self) -> bool:
        """True if scans are machine code."""
        return self._machine is not None

    def _on(self, code: CDLL) -> MachineScanner:
        directions = self._cosines, self._sines
        return MachineScanner(
            code,
            self._segments_m,
            self._lengths_m,
            directions,
            self._low_rad,
            self._step_rad,
            self._reach_m,
        )

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the machine code: a copy in another process finds its own."""
        return self.__dict__ | {"_machine": self._machine is not None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        code = scan_library(_agrees) if state["_machine"] else None
        self._machine = self._on(code) if code else None

    def scan(
        self, x_m: Array, y_m: Array, yaw_rad: Array, moving: MovingShapes | None = None
    ) -> tuple[Array, Array]:
        """Return ranges and cosines of the incidence (n, rays) from the right to the left, for
        poses (n,) of the rear axles. A ray that meets nothing within the reach has an infinite
        range.
        """
        ahead_m, left_m = self._lever_arm_m
        c, s = np.cos(yaw_rad), np.sin(yaw_rad)
        x_m, y_m = x_m + c * ahead_m - s * left_m, y_m + s * ahead_m + c * left_m
        shapes = _arrays(moving)
        if self._machine is not None:
            return self._machine.scan(x_m, y_m, c, s, shapes)
        return self._scan(x_m, y_m, c, s, shapes)

    def _scan(
        self, x_m: Array, y_m: Array, c: Array, s: Array, moving: MovingArrays | None
    ) -> tuple[Array, Array]:
        """Return ranges and cosines for scanners at places (n,), turned by the angles of ``c`` and
        ``s``."""
        n = len(x_m)
        dx = c[:, None] * self._cosines - s[:, None] * self._sines
        dy = s[:, None] * self._cosines + c[:, None] * self._sines
        hits = _Nearest(n * self.rays)
        vehicle, segment = self._near(x_m, y_m, self._reach_m)
        self._meet(
            hits,
            x_m,
            y_m,
            c,
            s,
            dx,
            dy,
            vehicle,
            segment,
            self._segments_m[segment],
            self._lengths_m[segment],
        )
        if moving is not None:
            count, edges = len(self._segments_m), moving.edges_m.shape[1]
            ends_m = moving.edges_m.reshape(-1, 4)
            vehicle, edge = np.repeat(np.arange(n), edges), np.tile(np.arange(edges), n)
            self._meet(
                hits, x_m, y_m, c, s, dx, dy, vehicle, count + edge, ends_m, moving.length_m.ravel()
            )
            for circle in range(moving.circles_m.shape[1]):
                mx, my = moving.circles_m[:, circle, 0] - x_m, moving.circles_m[:, circle, 1] - y_m
                self._meet_circle(
                    hits, mx, my, moving.circles_m[:, circle, 2], dx, dy, count + edges + circle
                )
        return hits.range_m.reshape(n, -1), hits.cosine.reshape(n, -1)

    def _meet(
        self, hits: "_Nearest", x_m: Array, y_m: Array, c: Array, s: Array, dx: Array, dy: Array,
        vehicle: Index, number: Index, ends_m: Array, length_m: Array,
    ) -> None:  # fmt: skip
        """Meet the segments ``ends_m`` (k, 4) with the rays of the vehicles (k,) that they belong
        to."""
        ux, uy, vx, vy = _relative(ends_m, x_m[vehicle], y_m[vehicle])
        cv, sv = c[vehicle], s[vehicle]
        first = np.arctan2(cv * uy - sv * ux, cv * ux + sv * uy)
        second = np.arctan2(cv * vy - sv * vx, cv * vx + sv * vy)
        # The shorter way round: a segment subtends less than half a turn, unless the scanner is on
        # it and rounding decides.
        delta = np.mod(second - first + 0.5 * tau, tau) - 0.5 * tau
        touching = (
            (np.abs(delta) > 0.5 * tau - SLACK_RAD)
            | ((ux == 0.0) & (uy == 0.0))
            | ((vx == 0.0) & (vy == 0.0))
        )
        low = np.mod(first + np.minimum(delta, 0.0) - self._low_rad - SLACK_RAD, tau)
        low = np.where(touching, 0.0, low)
        width = np.where(touching, tau, np.abs(delta) + 2.0 * SLACK_RAD)
        pair, ray = self._rays_within(low, width)
        vehicle = vehicle[pair]
        dx, dy = dx[vehicle, ray], dy[vehicle, ray]
        # As in Segments: ends that segments share get the same number, so no ray slips through a
        # corner.
        side_1, side_2 = dx * uy[pair] - dy * ux[pair], dx * vy[pair] - dy * vx[pair]
        along_1, along_2 = dx * ux[pair] + dy * uy[pair], dx * vx[pair] + dy * vy[pair]
        crosses = np.flatnonzero((side_1 >= 0.0) != (side_2 >= 0.0))
        side_1 = side_1[crosses]
        side_2 = side_2[crosses]
        along_1 = along_1[crosses]
        along_2 = along_2[crosses]
        range_m = along_1 + (along_2 - along_1) * (side_1 / (side_1 - side_2))
        cosine = np.minimum(np.abs(side_1 - side_2) / length_m[pair[crosses]], 1.0)
        valid = (range_m >= 0.0) & (range_m <= self._reach_m)
        rays = (vehicle[crosses] * self.rays + ray[crosses])[valid]
        hits.add(rays, range_m[valid], cosine[valid], number[pair[crosses]][valid])

    def _meet_circle(
        self,
        hits: "_Nearest",
        mx: Array,
        my: Array,
        radius_m: Array,
        dx: Array,
        dy: Array,
        number: int,
    ) -> None:
        """Meet a circle of each vehicle with all its rays, see
        :meth:`sim_backend.scene.shapes.Circles.cast`."""
        mx, my, r = mx[:, None], my[:, None], radius_m[:, None]
        along, aside = mx * dx + my * dy, np.abs(mx * dy - my * dx)
        outside = mx * mx + my * my - r * r
        chord = (r - aside) * (r + aside)
        half_chord = np.sqrt(np.maximum(chord, 0.0))
        range_m = np.where(outside > 0.0, outside / np.maximum(along + half_chord, 1e-300), 0.0)
        cosine = np.where(outside > 0.0, half_chord / r, 1.0)
        meets = (((chord >= 0.0) & (along > 0.0)) | (outside <= 0.0)) & (range_m <= self._reach_m)
        ray = np.flatnonzero(meets)
        hits.add(ray, range_m.ravel()[ray], cosine.ravel()[ray], np.full(len(ray), number))

    def collides(
        self,
        x_m: Array,
        y_m: Array,
        yaw_rad: Array,
        box_m: tuple[float, float, float],
        moving: MovingShapes | None = None,
    ) -> Flags:
        """Return True (n,) where a segment or a circle enters the outline of a vehicle. ``box_m``:
        its ends behind and ahead of the rear axle, and its half width.
        """
        most_m = hypot(max(-box_m[0], box_m[1]), box_m[2])
        c, s = np.cos(yaw_rad), np.sin(yaw_rad)
        if self._machine is not None:
            struck = self._machine.collides(x_m, y_m, c, s, box_m, most_m, _arrays(moving))
        else:
            struck = np.zeros(len(x_m), dtype=np.bool_)
            vehicle, segment = self._near(x_m, y_m, most_m)
            struck[vehicle[_entered(x_m, y_m, c, s, box_m, vehicle, self._segments_m[segment])]] = (
                True
            )
            if moving is not None:
                vehicle = np.repeat(np.arange(len(x_m)), moving.edges_m.shape[1])
                struck[
                    vehicle[_entered(x_m, y_m, c, s, box_m, vehicle, moving.edges_m.reshape(-1, 4))]
                ] = True
        for circle_m in () if moving is None else moving.circles_m.transpose(1, 2, 0):
            mx, my, r = circle_m[0] - x_m, circle_m[1] - y_m, circle_m[2]
            ahead, left = c * mx + s * my, c * my - s * mx
            off_x = ahead - clipped(ahead, box_m[0], box_m[1])
            off_y = left - clipped(left, -box_m[2], box_m[2])
            struck |= off_x * off_x + off_y * off_y <= r * r
        return struck

    def _near(self, x_m: Array, y_m: Array, reach_m: float) -> tuple[Index, Index]:
        """Return vehicles and segments that may be within a distance of each other."""
        dx, dy = self._middles_m[:, 0] - x_m[:, None], self._middles_m[:, 1] - y_m[:, None]
        most = reach_m + 0.5 * self._lengths_m
        vehicle, segment = np.nonzero(dx * dx + dy * dy <= most * most)
        return vehicle, segment

    def _rays_within(self, low: Array, width: Array) -> tuple[Index, Index]:
        """Return pairs of an interval of bearings, from the first ray on, and a ray that lies in
        it."""
        step, last = self._step_rad, self.rays - 1
        # An interval across the end of the turn also holds rays from the start on; a field of view
        # may exceed a turn.
        turns = range(-1, int(last * step / tau) + 1)
        low = np.concatenate([low + turn * tau for turn in turns])
        high = low + np.tile(width, len(turns))
        begin = np.maximum(np.ceil(low / step), 0.0)
        counts = np.maximum(np.minimum(np.floor(high / step), last) - begin + 1.0, 0.0).astype(
            np.intp
        )
        pair = np.repeat(np.arange(len(low)), counts)
        ray = (
            np.arange(len(pair))
            - np.repeat(np.cumsum(counts) - counts, counts)
            + begin.astype(np.intp)[pair]
        )
        return pair % max(len(width), 1), ray


class _Nearest:
    """Nearest hit of every ray so far. Of two at the same range the one with the higher number
    counts."""

    def __init__(self, count: int) -> None:
        self.range_m: Array = np.full(count, np.inf)
        """Ranges; infinite without a hit."""
        self.cosine: Array = np.ones(count)
        """Cosine of the angle between ray and surface normal, 0 to 1."""
        self._number: npt.NDArray[np.intp] = np.full(count, -1, dtype=np.intp)

    def add(self, ray: Index, range_m: Array, cosine: Array, number: Index) -> None:
        """Add hits of rays, any number for each, by segments or circles with numbers that grow from
        call to call."""
        before = self.range_m[ray]
        np.minimum.at(self.range_m, ray, range_m)
        best = self.range_m[ray]
        self._number[ray[best < before]] = -1
        nearest = range_m == best
        np.maximum.at(self._number, ray[nearest], number[nearest])
        counts = nearest & (number == self._number[ray])
        self.cosine[ray[counts]] = cosine[counts]


def _entered(
    x_m: Array,
    y_m: Array,
    c: Array,
    s: Array,
    box_m: tuple[float, float, float],
    vehicle: Index,
    ends_m: Array,
) -> Flags:
    """Return True (k,) for segments that enter the outline of the vehicle that they belong to.
    Liang and Barsky 1984."""
    behind_m, ahead_m, half_m = box_m
    ux, uy, vx, vy = _relative(ends_m, x_m[vehicle], y_m[vehicle])
    c, s = c[vehicle], s[vehicle]
    enter, leave = np.zeros(len(vehicle)), np.ones(len(vehicle))
    for start, end, low, high in (
        (c * ux + s * uy, c * vx + s * vy, behind_m, ahead_m),
        (c * uy - s * ux, c * vy - s * vx, -half_m, half_m),
    ):
        step = end - start
        # Parallel to this side: inside it everywhere, or nowhere.
        with np.errstate(divide="ignore", invalid="ignore"):
            a, b = (low - start) / step, (high - start) / step
        level = step == 0.0
        inside = (start >= low) & (start <= high)
        enter = np.maximum(enter, np.where(level, np.where(inside, 0.0, 2.0), np.minimum(a, b)))
        leave = np.minimum(leave, np.where(level, 1.0, np.maximum(a, b)))
    return enter <= leave


def shapes_at(moving: Sequence[Moving], time_s: Array) -> MovingShapes:
    """Return moving objects at scene times (n,)."""
    edges_m, circles_m = [], []
    for each in moving:
        x_m, y_m, yaw_rad = (values[:, None] for values in each.place(time_s))
        if each.radius_m is not None:
            circles_m.append(np.stack((x_m, y_m, np.full_like(x_m, each.radius_m)), axis=2))
            continue
        own_x, own_y = np.array(each.outline_m).T
        c, s = np.cos(yaw_rad), np.sin(yaw_rad)
        corners = np.stack((x_m + c * own_x - s * own_y, y_m + s * own_x + c * own_y), axis=2)
        edges_m.append(np.concatenate((corners, np.roll(corners, -1, axis=1)), axis=2))
    n = len(time_s)
    return MovingShapes(
        np.concatenate([np.empty((n, 0, 4)), *edges_m], axis=1),
        np.concatenate([np.empty((n, 0, 3)), *circles_m], axis=1),
    )


def sector_minima(ranges_m: Array, count: int, most_m: float) -> Array:
    """Return the smallest of the ranges (n, rays) in each of ``count`` equal sectors (n, count);
    ``most_m`` where there is none."""
    rays = ranges_m.shape[1]
    starts, full, every = _sectors(rays, count)
    if every:
        return np.asarray(np.minimum.reduceat(ranges_m, starts, axis=1))
    found = np.full((len(ranges_m), count), most_m)
    found[:, full] = np.minimum.reduceat(ranges_m, starts[full], axis=1)
    return found


@cache
def _sectors(rays: int, count: int) -> tuple[Index, Flags, bool]:
    """Return the first ray of each sector, whether it has any, and whether all have."""
    starts = -(-np.arange(count) * rays // count)
    full = np.diff(np.append(starts, rays)) > 0
    return starts, full, bool(full.all())


def _arrays(moving: MovingShapes | None) -> MovingArrays | None:
    return (
        None
        if moving is None
        else MovingArrays(moving.edges_m, _lengths_m(moving.edges_m), moving.circles_m)
    )


def _lengths_m(ends_m: Array) -> Array:
    return hypotenuse(ends_m[..., 2] - ends_m[..., 0], ends_m[..., 3] - ends_m[..., 1])


def _relative(ends_m: Array, x_m: Array, y_m: Array) -> tuple[Array, Array, Array, Array]:
    return ends_m[:, 0] - x_m, ends_m[:, 1] - y_m, ends_m[:, 2] - x_m, ends_m[:, 3] - y_m


def _agrees(code: CDLL) -> bool:
    """True if the machine code gives the bits of numpy: near and far, on walls and corners, with
    moving shapes, in any field."""
    random = np.random.default_rng(1)
    for low_rad, high_rad, rays in (
        (-2.356, 2.356, 541),
        (-6.2832, 6.2832, 300),
        (2.0, -2.0, 61),
        (0.3, 0.3, 1),
    ):
        model = LidarModel(
            rays=rays, angle_min_rad=low_rad, angle_max_rad=high_rad, range_max_m=12.0
        )
        corners = random.uniform(-15.0, 15.0, (150, 2)).round(1)
        segments_m = np.hstack(
            (corners, corners + random.choice([0.0, 0.1, 3.0, 11.0, -0.7], (150, 2)))
        )
        scanner = BatchScanner(model, (0.3, -0.1), segments_m, machine_code=False)
        machine = scanner._on(code)
        x_m = random.uniform(-14.0, 14.0, 20)
        y_m = random.uniform(-14.0, 14.0, 20)
        yaw_rad = random.uniform(-7.0, 7.0, 20)
        x_m[:8], y_m[:8], yaw_rad[:4] = corners[:8, 0], corners[:8, 1], 0.0
        c, s = np.cos(yaw_rad), np.sin(yaw_rad)
        middles = random.uniform(-12.0, 12.0, (20, 3, 2))
        edges_m = np.concatenate(
            (middles, middles + random.uniform(-2.0, 2.0, middles.shape)), axis=2
        )
        circles_m = np.concatenate(
            (middles[:, :2] + 1.0, random.uniform(0.1, 3.0, (20, 2, 1))), axis=2
        )
        moving, box_m = MovingShapes(edges_m, circles_m[:, :0]), (-0.1, 0.9, 0.3)
        shapes = MovingArrays(edges_m, _lengths_m(edges_m), circles_m)
        plain = (
            *scanner._scan(x_m, y_m, c, s, shapes),
            scanner.collides(x_m, y_m, yaw_rad, box_m, moving),
        )
        found = (
            *machine.scan(x_m, y_m, c, s, shapes),
            machine.collides(x_m, y_m, c, s, box_m, 1.0, shapes),
        )
        if any(
            ours.tobytes() != theirs.tobytes() for ours, theirs in zip(found, plain, strict=True)
        ):
            return False
    return True
