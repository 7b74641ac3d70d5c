"""Rays, their hits, and selection of the shapes that each ray can hit.

Bearings are counter-clockwise from east, as yaw. Each ray of a sweep may have its own origin,
because the vehicle moves while the scanner turns.
"""

from math import pi, tau

import numpy as np
import numpy.typing as npt

from vehicled.core.arrays import Array, hypotenuse

Index = npt.NDArray[np.intp]

SLACK_RAD = 1e-9
"""Margin of a shape's bearings against the rounding of its corners."""


class Rays:
    """Rays (n,) from points in ``map``. ``dx``, ``dy`` are their direction cosines."""

    __slots__ = (
        "bearing_rad",
        "centre_x_m",
        "centre_y_m",
        "dx",
        "dy",
        "order",
        "spread_m",
        "turned_rad",
        "x_m",
        "y_m",
    )

    def __init__(self, x_m: Array, y_m: Array, bearing_rad: Array) -> None:
        self.x_m, self.y_m, self.bearing_rad = x_m, y_m, bearing_rad
        self.dx, self.dy = np.cos(bearing_rad), np.sin(bearing_rad)
        self.centre_x_m = 0.5 * float(x_m.min() + x_m.max())
        self.centre_y_m = 0.5 * float(y_m.min() + y_m.max())
        self.spread_m = float(hypotenuse(x_m - self.centre_x_m, y_m - self.centre_y_m).max())
        """Largest distance of an origin from the centre."""
        turned = np.mod(bearing_rad - bearing_rad[0], tau)
        self.order: Index | None = None
        """Order of the rays by bearing; None if already sorted."""
        if bool((turned[1:] < turned[:-1]).any()):
            self.order = np.argsort(turned, kind="stable")
            turned = turned[self.order]
        self.turned_rad = turned
        """Bearings relative to the first ray, 0 to 2 pi, growing."""

    def __len__(self) -> int:
        return len(self.bearing_rad)


class Hits:
    """Nearest hit of every ray so far."""

    __slots__ = ("cosine", "range_m")

    def __init__(self, count: int) -> None:
        self.range_m: Array = np.full(count, np.inf)
        """Ranges; infinite without a hit."""
        self.cosine: Array = np.ones(count)
        """Cosine of the angle between ray and surface normal, 0 to 1."""

    def add(self, ray: Index, range_m: Array, cosine: Array) -> None:
        """Add hits of rays, any number for each."""
        best = self.range_m
        np.minimum.at(best, ray, range_m)
        nearest = range_m == best[ray]
        self.cosine[ray[nearest]] = cosine[nearest]

    def blind(self, ray: npt.NDArray[np.bool_]) -> None:
        """Set the range of rays that begin inside a body to 0."""
        self.range_m[ray] = 0.0
        self.cosine[ray] = 1.0


def pairs(rays: Rays, low_rad: Array, width_rad: Array) -> tuple[Index, Index]:
    """Return the rays and shapes that may meet (ray numbers, shape numbers), for shapes (m,) whose
    bearings from the rays' centre are ``low_rad`` to ``low_rad + width_rad``; a width of 2 pi or
    more is all round.
    """
    bearings, count = rays.turned_rad, len(rays)
    low = np.mod(low_rad - rays.bearing_rad[0] - SLACK_RAD, tau)
    high = low + width_rad + 2.0 * SLACK_RAD
    around = high - low >= tau
    starts = np.concatenate((np.searchsorted(bearings, low), np.zeros(len(low), np.intp)))
    # A shape across the first ray's bearing also meets the rays at the other end.
    stops = np.concatenate(
        (np.searchsorted(bearings, high, "right"), np.searchsorted(bearings, high - tau, "right"))
    )
    starts[: len(low)][around] = 0
    stops[: len(low)][around] = count
    stops[len(low) :][around] = 0
    counts = np.maximum(stops - starts, 0)
    shape = np.repeat(np.tile(np.arange(len(low)), 2), counts)
    before = np.cumsum(counts) - counts
    ray = np.arange(len(shape)) + np.repeat(starts - before, counts)
    return (ray if rays.order is None else rays.order[ray]), shape


def widened_rad(distance_m: Array, rays: Rays) -> Array:
    """Return how much wider a shape at a distance from the rays' centre looks from the outermost
    origin; pi if they may coincide.

    The bearing of a point at distance r changes by at most asin(d / r) when the eye moves by d.
    """
    ratio = np.divide(
        rays.spread_m, distance_m, out=np.full(len(distance_m), 2.0), where=distance_m > 0.0
    )
    return np.where(ratio < 1.0, np.arcsin(np.minimum(ratio, 1.0)), pi)
