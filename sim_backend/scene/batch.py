"""Scans of many vehicles in one scene of segments, and their collisions with it, as numpy arrays.

A scan is taken at one instant. Its ranges are those of :meth:`sim_backend.scene.scene.Scene.cast`.
"""

from math import tau

import numpy as np
import numpy.typing as npt

from sim_backend.scene.rays import SLACK_RAD, Hits, Index
from vehicled.core.arrays import Array
from vehicled.profile.schema import LidarModel


class BatchScanner:
    """Planar scanners, one on each vehicle, among segments (m, 4) in ``map``."""

    def __init__(self, model: LidarModel, lever_arm_m: tuple[float, float], segments_m: Array) -> None:
        """``lever_arm_m``: place of the scanner ahead and left of the rear axle."""
        low, high = sorted((model.angle_min_rad, model.angle_max_rad))
        self.rays = model.rays
        self._reach_m = model.range_max_m
        self._low_rad = low
        self._step_rad = (high - low) / max(model.rays - 1, 1)
        self._bearings: Array = low + self._step_rad * np.arange(model.rays, dtype=np.float64)
        self._lever_arm_m = lever_arm_m
        self._segments_m = segments_m
        self._middles_m = 0.5 * (segments_m[:, :2] + segments_m[:, 2:])
        self._lengths_m = np.hypot(segments_m[:, 2] - segments_m[:, 0], segments_m[:, 3] - segments_m[:, 1])

    def scan(self, x_m: Array, y_m: Array, yaw_rad: Array) -> tuple[Array, Array]:
        """Return ranges and cosines of the incidence (n, rays) from the right to the left, for poses (n,) of the rear axles.
        A ray that meets nothing within the reach has an infinite range.
        """
        n, (ahead_m, left_m) = len(x_m), self._lever_arm_m
        c, s = np.cos(yaw_rad), np.sin(yaw_rad)
        x_m, y_m = x_m + c * ahead_m - s * left_m, y_m + s * ahead_m + c * left_m
        vehicle, segment = self._near(x_m, y_m, self._reach_m)
        ux, uy, vx, vy = _ends(self._segments_m[segment], x_m[vehicle], y_m[vehicle])
        first, second = np.arctan2(uy, ux), np.arctan2(vy, vx)
        # The shorter way round: a segment subtends less than half a turn, unless the scanner is on it and rounding decides.
        delta = np.mod(second - first + 0.5 * tau, tau) - 0.5 * tau
        touching = np.abs(delta) > 0.5 * tau - SLACK_RAD
        low = np.mod(first + np.minimum(delta, 0.0) - yaw_rad[vehicle] - self._low_rad - SLACK_RAD, tau)
        low = np.where(touching, 0.0, low)
        width = np.where(touching, tau, np.abs(delta) + 2.0 * SLACK_RAD)
        pair, ray = self._rays_within(low, width)
        vehicle, segment = vehicle[pair], segment[pair]
        bearing = yaw_rad[:, None] + self._bearings
        dx, dy = np.cos(bearing)[vehicle, ray], np.sin(bearing)[vehicle, ray]
        # As in Segments: ends that segments share get the same number, so no ray slips through a corner.
        side_1, side_2 = dx * uy[pair] - dy * ux[pair], dx * vy[pair] - dy * vx[pair]
        along_1, along_2 = dx * ux[pair] + dy * uy[pair], dx * vx[pair] + dy * vy[pair]
        crosses = np.flatnonzero((side_1 >= 0.0) != (side_2 >= 0.0))
        side_1, side_2, along_1, along_2 = side_1[crosses], side_2[crosses], along_1[crosses], along_2[crosses]
        range_m = along_1 + (along_2 - along_1) * (side_1 / (side_1 - side_2))
        cosine = np.minimum(np.abs(side_1 - side_2) / self._lengths_m[segment[crosses]], 1.0)
        valid = (range_m >= 0.0) & (range_m <= self._reach_m)
        hits = Hits(n * self.rays)
        hits.add((vehicle[crosses] * self.rays + ray[crosses])[valid], range_m[valid], cosine[valid])
        return hits.range_m.reshape(n, -1), hits.cosine.reshape(n, -1)

    def collides(self, x_m: Array, y_m: Array, yaw_rad: Array, box_m: tuple[float, float, float]) -> npt.NDArray[np.bool_]:
        """Return True (n,) where a segment enters the outline of a vehicle. ``box_m``: its ends behind and ahead of the rear axle,
        and its half width.
        """
        behind_m, ahead_m, half_m = box_m
        vehicle, segment = self._near(x_m, y_m, float(np.hypot(max(-behind_m, ahead_m), half_m)))
        ux, uy, vx, vy = _ends(self._segments_m[segment], x_m[vehicle], y_m[vehicle])
        c, s = np.cos(yaw_rad)[vehicle], np.sin(yaw_rad)[vehicle]
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
        struck = np.zeros(len(x_m), dtype=np.bool_)
        struck[vehicle[enter <= leave]] = True
        return struck

    def _near(self, x_m: Array, y_m: Array, reach_m: float) -> tuple[Index, Index]:
        """Return vehicles and segments that may be within a distance of each other."""
        dx, dy = self._middles_m[:, 0] - x_m[:, None], self._middles_m[:, 1] - y_m[:, None]
        most = reach_m + 0.5 * self._lengths_m
        vehicle, segment = np.nonzero(dx * dx + dy * dy <= most * most)
        return vehicle, segment

    def _rays_within(self, low: Array, width: Array) -> tuple[Index, Index]:
        """Return pairs of an interval of bearings, from the first ray on, and a ray that lies in it."""
        step, last = max(self._step_rad, 1e-12), self.rays - 1
        # An interval across the end of the turn also holds rays from the start on; a field of view may exceed a turn.
        turns = range(-1, int(last * self._step_rad / tau) + 1)
        low = np.concatenate([low + turn * tau for turn in turns])
        high = low + np.tile(width, len(turns))
        begin = np.maximum(np.ceil(low / step), 0.0)
        counts = np.maximum(np.minimum(np.floor(high / step), last) - begin + 1.0, 0.0).astype(np.intp)
        pair = np.repeat(np.arange(len(low)), counts)
        ray = np.arange(len(pair)) - np.repeat(np.cumsum(counts) - counts, counts) + begin.astype(np.intp)[pair]
        return pair % max(len(width), 1), ray


def sector_minima(ranges_m: Array, count: int, most_m: float) -> Array:
    """Return the smallest of the ranges (n, rays) in each of ``count`` equal sectors (n, count); ``most_m`` where there is none."""
    rays = ranges_m.shape[1]
    starts = -(-np.arange(count) * rays // count)
    full = np.diff(np.append(starts, rays)) > 0
    found = np.full((len(ranges_m), count), most_m)
    found[:, full] = np.minimum.reduceat(ranges_m, starts[full], axis=1)
    return found


def _ends(segments_m: Array, x_m: Array, y_m: Array) -> tuple[Array, Array, Array, Array]:
    return segments_m[:, 0] - x_m, segments_m[:, 1] - y_m, segments_m[:, 2] - x_m, segments_m[:, 3] - y_m
