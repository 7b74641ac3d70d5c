"""Scans from measurements: the sense of rotation, the mounting, the vehicle's own body, and the
time of each ray.

A scanner that turns sends measurements at angles that are never quite the same.
:class:`Revolutions` brings each turn onto rays of equal steps, because a :class:`LaserScan` has
those, and keeps the nearest return of each step. Ranges follow REP-117.
"""

from collections.abc import Sequence
from math import inf, nan, pi, tau
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vehicled.core.messages import LaserScan

Array = npt.NDArray[np.floating[Any]]

MOST_RAYS = 1600
"""Rays of a scan; more would not fit into one message of the simulator's link."""
MARGIN_RAD = 0.35
"""Angle past the end of a turn after which it is complete. Triangulation shifts measurements by up
to 0.15 rad."""
MOST_PENDING = 50_000
"""Measurements that may be held; more is a stream that never completes a turn."""


SLOWEST = 20.0
"""Half turns at the set speed, within which a turn must be complete."""
QUANTILE = 0.1
"""Quantile of the delays that counts as none: bytes arrive when they were sent, or later."""
MOST_RAD = 1e6 * tau


class ScanGeometry(NamedTuple):
    """Mounting of a scanner, and what of its scans is used. Bearings are those of the body,
    counter-clockwise from forward."""

    clockwise: bool
    """True if it turns clockwise seen from above the vehicle, so upside down the other way than the
    device itself."""
    yaw_rad: float
    """Bearing of the device's zero."""
    angle_min_rad: float
    angle_max_rad: float
    masked_rad: Sequence[tuple[float, float]]
    x_m: float
    y_m: float
    range_min_m: float
    range_max_m: float
    least_returns: float
    """Fraction of the rays that must have a return; below it those without one mean nothing."""

    @property
    def sense(self) -> int:
        """Sign of the bearing step from ray to ray."""
        return -1 if self.clockwise else 1

    def bearing_rad(self, angle_rad: Array) -> Array:
        """Return the bearing of angles that the device counts in its direction of rotation."""
        return self.yaw_rad + self.sense * angle_rad

    def from_cut_rad(self, angle_rad: Array) -> Array:
        """Return how far past the beginning of the used sector the device is, in its direction of
        rotation, from 0 to 2 pi."""
        bearing = self.bearing_rad(angle_rad)
        return (
            self.angle_max_rad - bearing if self.clockwise else bearing - self.angle_min_rad
        ) % tau

    def scan(
        self,
        first_rad: float,
        step_rad: float,
        ranges_m: Array,
        t_ns: int,
        ray_s: float,
        period_s: float,
        t_rx_ns: int,
    ) -> LaserScan | None:
        """Return the scan of rays with equal steps, without those outside of the used sector; None
        if that leaves none.

        ``first_rad`` and ``step_rad`` are of the device, in its direction of rotation; ``t_ns`` is
        the time of the first ray. A range of infinity is no return.
        """
        count = len(ranges_m)
        past = self.from_cut_rad(first_rad + step_rad * np.arange(count))
        # Rounding may put the first ray of a full turn one step before its beginning.
        past[past > tau - 1e-6] = 0.0
        begin, end = _longest_run(past <= self.angle_max_rad - self.angle_min_rad + 1e-6)
        if begin == end:
            return None
        past, ranges = past[begin:end], ranges_m[begin:end].copy()
        ranges[ranges > self.range_max_m] = inf
        with np.errstate(invalid="ignore"):
            ranges[ranges < self.range_min_m] = -inf
        bearing = self.angle_max_rad - past if self.clockwise else self.angle_min_rad + past
        # The least return counts before the mask, which hides what always returns.
        if self.least_returns > 0.0 and np.isfinite(ranges).mean() < self.least_returns:
            ranges[np.isposinf(ranges)] = nan
        for low, high in self.masked_rad:
            ranges[(bearing - low) % tau <= high - low] = nan
        return LaserScan(
            t_ns + round(begin * ray_s * 1e9), t_rx_ns, _wrapped(float(bearing[0])),
            self.sense * step_rad, ray_s, period_s, self.range_min_m, self.range_max_m, self.x_m,
            self.y_m, tuple(ranges.tolist()),
        )  # fmt: skip


class Measurements(NamedTuple):
    """Consecutive measurements of a scanner that turns. Arrays (n,)."""

    angle_rad: Array
    """Angle at which the device was, counted in its direction of rotation; it only grows, by less
    than a turn."""
    shift_rad: Array
    """Angle of each measurement beyond that, because the beam is not at the axis."""
    range_m: Array
    """0 for no return, NaN for an invalid measurement."""
    t_ns: Array
    """Time of each measurement on the daemon's clock."""


class Revolutions:
    """Collects the measurements of a scanner that turns to scans, one for each turn."""

    def __init__(self, geometry: ScanGeometry, rays: int, rate_hz: float) -> None:
        """``rays`` of a whole turn, of which there should be ``rate_hz`` in a second. A pause of
        half a turn begins anew."""
        self._geometry, self._rays = geometry, rays
        self._rate = tau * rate_hz * 1e-9
        self._gap_ns = 0.5e9 / rate_hz
        self.incomplete = 0
        """Turns that were dropped because measurements are missing."""
        self.clear()

    def clear(self) -> None:
        """Drop the begun turn."""
        self._pending: list[tuple[Array, Array, Array, Array]] = []
        self._angle_rad: float | None = None
        """Angle of the newest measurement, counted on from turn to turn."""
        self._turn_rad = 0.0
        """Beginning of the present turn, counted alike."""
        self._t_ns = self._began_ns = 0.0
        self._held = self._turns = 0
        self.period_s = nan
        """Duration of the last turn."""

    def add(self, found: Measurements, t_rx_ns: int) -> list[LaserScan]:
        """Take measurements and return the scans that they complete."""
        past = self._geometry.from_cut_rad(found.angle_rad)
        t_ns = found.t_ns.astype(np.float64)
        last = self._angle_rad
        # A motor that stands still sends measurements, too.
        paused = t_ns[0] - self._t_ns > self._gap_ns
        endless = t_ns[-1] - self._began_ns > SLOWEST * self._gap_ns
        if last is not None and (paused or endless or self._held > MOST_PENDING):
            self.incomplete += 1
            last = None
        if last is None:
            self._pending, self._held = [], 0
            self._began_ns = float(t_ns[0])
            last = float(past[0])
            # The present turn began before the first measurement, so it is not whole.
            self._turn_rad = tau
            self._turns = 0
        # Whole turns are counted apart, so that the sums do not depend on how the measurements
        # arrive.
        turns = self._turns + np.cumsum(-np.rint(np.diff(past, prepend=last % tau) / tau))
        self._turns = int(turns[-1])
        angle = past + tau * turns
        self._angle_rad, self._t_ns = float(angle[-1]), float(t_ns[-1])
        self._pending.append((angle, angle + found.shift_rad, found.range_m, t_ns))
        self._held += len(angle)
        scans = []
        while self._angle_rad > self._turn_rad + tau + MARGIN_RAD:
            scan = self._complete(t_rx_ns)
            if scan is not None:
                scans.append(scan)
        if self._turn_rad > MOST_RAD:
            # Small numbers, so that days of turning lose no digits.
            self._pending = [
                (a - self._turn_rad, b - self._turn_rad, r, t) for a, b, r, t in self._pending
            ]
            self._angle_rad -= self._turn_rad
            self._turns -= round(self._turn_rad / tau)
            self._turn_rad = 0.0
        return scans

    def _complete(self, t_rx_ns: int) -> LaserScan | None:
        angle, shifted, range_m, t_ns = (np.concatenate(column) for column in zip(*self._pending))
        begin = self._turn_rad
        self._turn_rad = end = begin + tau
        keep = shifted >= end
        self._pending = [(angle[keep], shifted[keep], range_m[keep], t_ns[keep])]
        self._held, self._began_ns = int(keep.sum()), self._t_ns
        within = (shifted >= begin) & (shifted < end)
        if within.sum() < 2:
            self.incomplete += 1
            return None
        here, t = shifted[within], t_ns[within]
        # Measurements of one instant are those of a recording without times.
        used = angle <= end + MARGIN_RAD
        rate = max(_rate(angle[used], t_ns[used]), 0.0) or self._rate
        self.period_s = tau / rate * 1e-9
        step = tau / self._rays
        index = np.minimum(((here - begin) / step).astype(np.int64), self._rays - 1)
        ranges = np.full(self._rays, nan)
        values = range_m[within]
        np.fmin.at(ranges, index, np.where(values == 0.0, inf, values))
        first_ns = round(float(np.quantile(t - (here - begin - 0.5 * step) / rate, QUANTILE)))
        geometry = self._geometry
        # The geometry counts from the device's zero; ray 0 is half a step past the cut.
        cut = (
            geometry.yaw_rad - geometry.angle_max_rad
            if geometry.clockwise
            else geometry.angle_min_rad - geometry.yaw_rad
        )
        ray_s = self.period_s / self._rays
        return geometry.scan(
            cut + 0.5 * step, step, ranges, first_ns, ray_s, self.period_s, t_rx_ns
        )


def _rate(angle: Array, t_ns: Array) -> float:
    """Return the angular rate, rad/ns, by the line through measurements; 0 if they are of one
    instant."""
    t = t_ns - t_ns.mean()
    spread = float(t @ t)
    return float(t @ (angle - angle.mean())) / spread if spread > 0.0 else 0.0


def _longest_run(used: npt.NDArray[np.bool_]) -> tuple[int, int]:
    """Return begin and end of the longest run of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], used.astype(np.int8), [0]))))
    if not len(edges):
        return 0, 0
    begins, ends = edges[::2], edges[1::2]
    longest = int(np.argmax(ends - begins))
    return int(begins[longest]), int(ends[longest])


def _wrapped(angle_rad: float) -> float:
    return (angle_rad + pi) % tau - pi if abs(angle_rad) > pi + 1e-9 else angle_rad
