"""Non-causal evaluation of a position track: new positions, speed and heading."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from vehicled.core.arrays import Array, wrapped

HALF_WINDOW_S = 0.5
"""Half width of the local quadratic: the truth for speed is defined by it."""
STANDING_M = 0.05
"""A fix that is followed by one nearer than this, however late, was not outdated in between: about
three steps of the NMEA grid."""
LONG_HOLD = 5
"""Rows: with a hold this long, the way gone in an outage is well above one step, at any speed."""
CAPTURED_HALF_S = 0.2
"""The same for motion capture, whose positions are good to a millimetre: it blurs less of how the
vehicle sets off."""
MAX_RESIDUAL_M = 0.1
"""A window that fits worse than this holds a jump of the receiver, and says nothing of the
vehicle's speed."""
JUMP_M = 0.15
"""A fix this far from where the two before it led asks for 15 m/s2 at 10 Hz, twice what tyres hold:
the receiver jumped."""
COURSE_SPEED_MPS = 0.3
"""Slower than this the course of an RTK track is noise."""
DRIFT_WINDOW_S = 10.0
"""Half width over which course minus integrated gyro is averaged: short against its drift (0.002
rad/s), long against the turns, in which an antenna off the rear axle bends the course."""


def is_new(x_m: Array, y_m: Array) -> NDArray[np.bool_]:
    """Return a mask of the new fixes, which differ from the one before. The first counts as new,
    NaN never does."""
    new = np.ones(len(x_m), dtype=bool)
    new[1:] = (np.diff(x_m) != 0.0) | (np.diff(y_m) != 0.0)
    return new & np.isfinite(x_m) & np.isfinite(y_m)


def is_current(x_m: Array, y_m: Array) -> NDArray[np.bool_]:
    """Return a mask of the positions that were true: new ones, or held ones while the vehicle
    stood."""
    new = is_new(x_m, y_m)
    current = new.copy()
    starts = np.flatnonzero(new)
    steps = np.hypot(np.diff(x_m[starts]), np.diff(y_m[starts]))
    # The validity of the last position is unknown: a held end may be an outage or a standstill.
    for k, (begin, end) in enumerate(pairwise(starts)):
        following = float(steps[k + 1]) if k + 1 < len(steps) else 0.0
        # After a stand the first step is one as those that follow it; after an outage it is many at
        # once.
        limit = STANDING_M + (1.5 * following if end - begin >= LONG_HOLD else 0.0)
        current[begin:end] |= float(steps[k]) < limit
    return current


def slopes(
    t_s: Array,
    values: Array,
    good: NDArray[np.bool_],
    half_s: float = HALF_WINDOW_S,
    max_residual: float = np.inf,
) -> Array:
    """Time derivative (n, m) of columns ``values`` (n, m): quadratics through the good rows within
    ``half_s`` of each, zero phase.

    NaN where fewer than five rows are there, where they do not lie on both sides, or where they are
    further than ``max_residual`` (RMS over rows of the length of the residual) from the quadratic.
    """
    found = np.full(values.shape, np.nan)
    where = np.flatnonzero(good)
    times = t_s[where]
    first = np.searchsorted(times, t_s - half_s - 1e-6)
    last = np.searchsorted(times, t_s + half_s + 1e-6)
    for k in range(len(t_s)):
        rows = where[first[k] : last[k]]
        dt = t_s[rows] - t_s[k]
        if len(rows) < 5 or dt[0] > -0.4 * half_s or dt[-1] < 0.4 * half_s:
            continue
        basis = np.stack([np.ones(len(rows)), dt, dt * dt], axis=1)
        solution = np.linalg.lstsq(basis, values[rows], rcond=None)[0]
        residual = values[rows] - basis @ solution
        if float(np.sqrt((residual**2).sum(axis=1).mean())) <= max_residual:
            found[k] = solution[1]
    return found


def velocity(t_s: Array, x_m: Array, y_m: Array, good: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Velocity (m/s) of a track, by :func:`slopes`; NaN where the receiver jumped."""
    found = slopes(t_s, np.stack([x_m, y_m], axis=1), good, max_residual=MAX_RESIDUAL_M)
    return found[:, 0], found[:, 1]


def speed_along(t_s: Array, x_m: Array, y_m: Array, yaw_rad: Array) -> Array:
    """Speed (n,) in m/s of a track whose heading is known: :func:`slopes` of the way gone, which no
    turn in the window shortens.

    NaN at a row whose position or heading is not known.
    """
    known = np.isfinite(x_m + y_m + yaw_rad)
    where = np.flatnonzero(known)
    yaw = np.unwrap(yaw_rad[where])
    middle = 0.5 * (yaw[1:] + yaw[:-1])
    steps = np.diff(x_m[where]) * np.cos(middle) + np.diff(y_m[where]) * np.sin(middle)
    way = np.zeros((len(t_s), 1))
    way[where[1:], 0] = np.cumsum(steps)
    speed: Array = np.abs(slopes(t_s, way, known, CAPTURED_HALF_S)[:, 0])
    return np.where(known, speed, np.nan)


def near_jump(
    t_s: Array, x_m: Array, y_m: Array, half_s: float = HALF_WINDOW_S
) -> NDArray[np.bool_]:
    """Rows (n,) whose local quadratic reaches over a jump of the receiver, though it may fit: its
    slope is none of the vehicle's.

    A jump is a change of velocity between fixes that, over the shorter of the two times between
    them, leads astray by ``JUMP_M``.
    """
    where = np.flatnonzero(is_new(x_m, y_m))
    near = np.zeros(len(t_s), dtype=bool)
    if len(where) < 3:
        return near
    dt = np.diff(t_s[where])
    vx, vy = np.diff(x_m[where]) / dt, np.diff(y_m[where]) / dt
    astray_m = np.hypot(np.diff(vx), np.diff(vy)) * np.minimum(dt[1:], dt[:-1])
    after = where[1:-1][astray_m > JUMP_M]
    first = np.searchsorted(t_s, t_s[after] - half_s - 1e-6)
    last = np.searchsorted(t_s, t_s[after] + half_s + 1e-6)
    for begin, end in zip(first, last):
        near[begin:end] = True
    return near


def course_rad(vx_mps: Array, vy_mps: Array, minimum_mps: float = COURSE_SPEED_MPS) -> Array:
    """Course over ground; NaN where it is too slow to have one. Not unwrapped."""
    speed = np.hypot(vx_mps, vy_mps)
    with np.errstate(invalid="ignore"):
        return np.where(speed >= minimum_mps, np.arctan2(vy_mps, vx_mps), np.nan)


def true_yaw(t_s: Array, gyro_rad: Array, course: Array, half_s: float = DRIFT_WINDOW_S) -> Array:
    """Heading from an integrated gyro, which is good for seconds, and a course over ground, which
    is good for minutes.

    The difference of the two is averaged over ``half_s`` on both sides and added to the gyro; NaN
    where no course is within reach.
    """
    known = np.isfinite(course) & np.isfinite(gyro_rad)
    difference = np.where(known, wrapped(np.where(known, course - gyro_rad, 0.0)), 0.0)
    first = np.searchsorted(t_s, t_s - half_s)
    last = np.searchsorted(t_s, t_s + half_s)

    def total(values: Array) -> Array:
        sums = np.concatenate([[0.0], np.cumsum(values)])
        window: Array = sums[last] - sums[first]
        return window

    # Averaged on the circle, because drift may carry the difference past pi.
    east = total(np.where(known, np.cos(difference), 0.0))
    north = total(np.where(known, np.sin(difference), 0.0))
    yaw: Array = np.where(
        total(known.astype(np.float64)) >= 5, gyro_rad + np.arctan2(north, east), np.nan
    )
    return yaw
