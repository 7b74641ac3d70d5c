"""Segments, circles and polygons, and their intersections with rays: exact up to rounding; no ray
slips through a corner."""

from collections.abc import Sequence
from math import floor, tau

import numpy as np
import numpy.typing as npt

from sim_backend.scene.rays import SLACK_RAD, Hits, Index, Rays, pairs, widened_rad
from vehicled.core.arrays import Array, hypotenuse

TILE_M = 8.0
PAIRS_AT_ONCE = 1_000_000
"""Largest number of ray-shape pairs at once; it bounds the memory of a cast."""


class Segments:
    """Wall segments (m, 4): x, y of both ends; visible from both sides."""

    def __init__(self, ends_m: Array) -> None:
        self.ends_m = np.ascontiguousarray(ends_m, dtype=np.float64).reshape(-1, 4)
        x1, y1, x2, y2 = self.ends_m.T
        self._lengths_m = hypotenuse(x2 - x1, y2 - y1)

    def __len__(self) -> int:
        return len(self.ends_m)

    def cast(self, rays: Rays, reach_m: float, hits: Hits) -> None:
        """Shorten the hits to the nearest segment within ``reach_m``."""
        if not len(self):
            return
        distance_m = self._distances_m(rays.centre_x_m, rays.centre_y_m)
        near = np.flatnonzero(distance_m <= reach_m + rays.spread_m)
        if not len(near):
            return
        x1, y1, x2, y2 = self.ends_m[near].T
        first = np.arctan2(y1 - rays.centre_y_m, x1 - rays.centre_x_m)
        second = np.arctan2(y2 - rays.centre_y_m, x2 - rays.centre_x_m)
        # Take the shorter way round: a segment subtends less than half a turn unless the eye is on
        # it.
        delta = np.mod(second - first + 0.5 * tau, tau) - 0.5 * tau
        wider = widened_rad(distance_m[near], rays)
        # With the eye on it, rounding decides the side, so accept both.
        wider[np.abs(delta) > 0.5 * tau - SLACK_RAD] = 0.5 * tau
        low, width = first + np.minimum(delta, 0.0) - wider, np.abs(delta) + 2.0 * wider
        at_once = max(1, PAIRS_AT_ONCE // len(rays))
        for at in range(0, len(near), at_once):
            part = slice(at, at + at_once)
            ray, shape = pairs(rays, low[part], width[part])
            self._meet(rays, reach_m, hits, ray, near[part][shape])

    def _meet(self, rays: Rays, reach_m: float, hits: Hits, ray: Index, segment: Index) -> None:
        x1, y1, x2, y2 = self.ends_m[segment].T
        ox, oy, dx, dy = rays.x_m[ray], rays.y_m[ray], rays.dx[ray], rays.dy[ray]
        ux, uy, vx, vy = x1 - ox, y1 - oy, x2 - ox, y2 - oy
        # Side of the ray of each end. Segments that share a corner get the same number for it, so a
        # ray crosses exactly one or none of them whatever the rounding.
        side_1, side_2 = dx * uy - dy * ux, dx * vy - dy * vx
        crosses = (side_1 >= 0.0) != (side_2 >= 0.0)
        ray, segment = ray[crosses], segment[crosses]
        side_1, side_2 = side_1[crosses], side_2[crosses]
        along_1 = (dx * ux + dy * uy)[crosses]
        along_2 = (dx * vx + dy * vy)[crosses]
        range_m = along_1 + (along_2 - along_1) * (side_1 / (side_1 - side_2))
        valid = (range_m >= 0.0) & (range_m <= reach_m)
        cosine = np.minimum(np.abs(side_1 - side_2) / self._lengths_m[segment], 1.0)
        hits.add(ray[valid], range_m[valid], cosine[valid])

    def _distances_m(self, x_m: float, y_m: float) -> Array:
        x1, y1, x2, y2 = self.ends_m.T
        ex, ey = x2 - x1, y2 - y1
        square = ex * ex + ey * ey
        along = (x_m - x1) * ex + (y_m - y1) * ey
        ratio = np.clip(
            np.divide(along, square, out=np.zeros_like(along), where=square > 0.0), 0.0, 1.0
        )
        return hypotenuse(x1 + ratio * ex - x_m, y1 + ratio * ey - y_m)


class Tiled:
    """Many static segments: tiles select those near the rays, cached while the rays stay in their
    tile."""

    def __init__(self, ends_m: Array) -> None:
        whole = Segments(ends_m)
        x1, y1, x2, y2 = whole.ends_m.T
        self.ends_m = whole.ends_m
        long = np.maximum(np.abs(x2 - x1), np.abs(y2 - y1)) > TILE_M
        self._long = np.flatnonzero(long)
        self._tiles: dict[tuple[int, int], list[int]] = {}
        tile_x, tile_y = np.floor(0.5 * (x1 + x2) / TILE_M), np.floor(0.5 * (y1 + y2) / TILE_M)
        for index in np.flatnonzero(~long):
            self._tiles.setdefault((int(tile_x[index]), int(tile_y[index])), []).append(int(index))
        self._cached: tuple[tuple[int, int, float], Segments] | None = None

    def __len__(self) -> int:
        return len(self.ends_m)

    def cast(self, rays: Rays, reach_m: float, hits: Hits) -> None:
        """Shorten the hits, see :meth:`Segments.cast`."""
        if len(self):
            self._near(rays.centre_x_m, rays.centre_y_m, reach_m + rays.spread_m).cast(
                rays, reach_m, hits
            )

    def _near(self, x_m: float, y_m: float, reach_m: float) -> Segments:
        # Rounded up, so that a reach that varies with the rays' spread reuses the cache.
        tiles = floor(reach_m / TILE_M) + 2
        column, row = floor(x_m / TILE_M), floor(y_m / TILE_M)
        key = column, row, tiles
        if self._cached is None or self._cached[0] != key:
            found: list[int] = self._long.tolist()
            if (2 * tiles + 1) ** 2 < len(self._tiles):
                places = [
                    (column + i, row + j)
                    for i in range(-tiles, tiles + 1)
                    for j in range(-tiles, tiles + 1)
                ]
            else:
                places = [
                    p for p in self._tiles if max(abs(p[0] - column), abs(p[1] - row)) <= tiles
                ]
            for place in places:
                found += self._tiles.get(place, ())
            self._cached = key, Segments(self.ends_m[np.array(sorted(found), dtype=np.intp)])
        return self._cached[1]


class Circles:
    """Circles (m, 3): x, y of the centre, radius."""

    def __init__(self, middles_m: Array) -> None:
        self.middles_m = np.ascontiguousarray(middles_m, dtype=np.float64).reshape(-1, 3)

    def __len__(self) -> int:
        return len(self.middles_m)

    def cast(self, rays: Rays, reach_m: float, hits: Hits) -> None:
        """Shorten the hits to the nearest circle within ``reach_m``; 0 for a ray that begins inside
        one."""
        if not len(self):
            return
        x, y, radius = self.middles_m.T
        distance_m = hypotenuse(x - rays.centre_x_m, y - rays.centre_y_m)
        near = np.flatnonzero(distance_m <= reach_m + rays.spread_m + radius)
        if not len(near):
            return
        x, y, radius, distance_m = x[near], y[near], radius[near], distance_m[near]
        ratio = np.divide(radius, distance_m, out=np.full(len(near), 2.0), where=distance_m > 0.0)
        half = np.where(ratio < 1.0, np.arcsin(np.minimum(ratio, 1.0)), 0.5 * tau)
        half = half + widened_rad(distance_m - radius, rays)
        ray, circle = pairs(
            rays, np.arctan2(y - rays.centre_y_m, x - rays.centre_x_m) - half, 2.0 * half
        )
        mx, my, r = x[circle] - rays.x_m[ray], y[circle] - rays.y_m[ray], radius[circle]
        dx, dy = rays.dx[ray], rays.dy[ray]
        along, aside = mx * dx + my * dy, np.abs(mx * dy - my * dx)
        outside = mx * mx + my * my - r * r
        chord = (r - aside) * (r + aside)
        meets = ((chord >= 0.0) & (along > 0.0)) | (outside <= 0.0)
        ray, r, along, outside = ray[meets], r[meets], along[meets], outside[meets]
        half_chord = np.sqrt(np.maximum(chord[meets], 0.0))
        # Nearer root, in the form without cancellation.
        reached = np.where(outside > 0.0, outside / np.maximum(along + half_chord, 1e-300), 0.0)
        cosine = np.where(outside > 0.0, half_chord / r, 1.0)
        valid = reached <= reach_m
        hits.add(ray[valid], reached[valid], cosine[valid])


class Bodies:
    """Filled polygons: their outlines are walls, and a ray that begins inside has range 0."""

    def __init__(self, outlines_m: Sequence[Sequence[tuple[float, float]] | Array]) -> None:
        self.outlines_m = [
            np.array(outline, dtype=np.float64).reshape(-1, 2) for outline in outlines_m
        ]

    def __len__(self) -> int:
        return len(self.outlines_m)

    @property
    def edges_m(self) -> Array:
        """All outlines as segments (m, 4)."""
        return np.concatenate(
            [np.hstack((o, np.roll(o, -1, axis=0))) for o in self.outlines_m] or [np.empty((0, 4))]
        )

    def contain(self, x_m: Array, y_m: Array) -> npt.NDArray[np.bool_]:
        """True for points (n,) inside any polygon, by the even-odd rule for each."""
        inside = np.zeros(len(x_m), dtype=np.bool_)
        for outline in self.outlines_m:
            low, high = outline.min(axis=0), outline.max(axis=0)
            if (
                x_m.max() < low[0]
                or x_m.min() > high[0]
                or y_m.max() < low[1]
                or y_m.min() > high[1]
            ):
                continue
            odd = np.zeros(len(x_m), dtype=np.bool_)
            for (x1, y1), (x2, y2) in zip(outline, np.roll(outline, -1, axis=0)):
                if y1 != y2:
                    odd ^= ((y1 > y_m) != (y2 > y_m)) & (
                        x_m < x1 + (y_m - y1) * (x2 - x1) / (y2 - y1)
                    )
            inside |= odd
        return inside
