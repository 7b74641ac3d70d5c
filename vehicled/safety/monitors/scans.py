"""Points of a laser scan in the map frame, each from the pose of the vehicle when its ray left."""

from collections import deque
from math import isfinite

import numpy as np
import numpy.typing as npt

from vehicled.core.arrays import Array
from vehicled.core.messages import LaserScan, StateEstimate
from vehicled.safety.monitors.lane import LaneBody

REMEMBERED_NS = 1_000_000_000
"""Age of the motion that is remembered: the longest sweep, and the time until its scan is looked
at."""
MOST_REMEMBERED = 512


class MotionHistory:
    """Motion of the vehicle in the last second, for the poses that lie behind the newest estimate.

    It integrates speed and yaw rate backwards from that estimate instead of keeping the poses of
    their time: between two of those the estimate may have been corrected, and the points of one
    wall would then stand at two places.
    """

    def __init__(self) -> None:
        self._moved: deque[tuple[int, float, float]] = deque(maxlen=MOST_REMEMBERED)

    def add(self, estimate: StateEstimate) -> None:
        """Remember speed and yaw rate of the newest estimate."""
        moved = self._moved
        if moved and estimate.t_ns <= moved[-1][0]:
            if estimate.t_ns == moved[-1][0]:
                return
            moved.clear()
        if not isfinite(estimate.speed_mps):
            moved.clear()
            return
        moved.append((estimate.t_ns, estimate.speed_mps, _rate(estimate)))
        while moved[0][0] < estimate.t_ns - REMEMBERED_NS:
            moved.popleft()

    def poses(self, age_s: Array, estimate: StateEstimate) -> tuple[Array, Array, Array]:
        """Return x, y and yaw (n,) at times before ``estimate``. Outside of what is remembered,
        speed and yaw rate are constant."""
        speed, rate = estimate.speed_mps, _rate(estimate)
        known = [each for each in self._moved if each[0] < estimate.t_ns]
        t_ns, speeds, rates = (
            np.array(column) for column in zip(*known, (estimate.t_ns, speed, rate))
        )
        ages = (estimate.t_ns - t_ns) * 1e-9
        steps = -np.diff(ages)
        turned = np.concatenate(
            (np.cumsum((0.5 * (rates[1:] + rates[:-1]) * steps)[::-1])[::-1], [0.0])
        )
        yaw = estimate.yaw_rad - turned
        way, course = 0.5 * (speeds[1:] + speeds[:-1]) * steps, 0.5 * (yaw[1:] + yaw[:-1])
        back_x, back_y = (
            np.concatenate((np.cumsum((way * f(course))[::-1])[::-1], [0.0]))
            for f in (np.cos, np.sin)
        )
        x, y = estimate.x_m - back_x, estimate.y_m - back_y
        # np.interp wants rising abscissae: the negative ages.
        found = [np.interp(-age_s, -ages, column) for column in (x, y, yaw)]
        for outside, at in ((age_s > ages[0], 0), (age_s < 0.0, -1)):
            if outside.any():
                past = _constant(
                    age_s[outside] - ages[at],
                    float(speeds[at]),
                    float(rates[at]),
                    x[at],
                    y[at],
                    yaw[at],
                )
                for column, values in zip(found, past):
                    column[outside] = values
        return found[0], found[1], found[2]


NO_HISTORY = MotionHistory()
"""History of a vehicle of which only the newest estimate is known."""


def scan_points(
    scan: LaserScan, estimate: StateEstimate, body: LaneBody, history: MotionHistory = NO_HISTORY
) -> tuple[Array, Array]:
    """Return x and y (n,) of the returns of a scan, m, each from the pose at its ray's time,
    without the vehicle's own body.

    A return nearer than the minimum range stands at the minimum range. Rays without a return give
    no point.
    """
    return scan_returns(scan, estimate, body, history)[:2]


def scan_returns(
    scan: LaserScan, estimate: StateEstimate, body: LaneBody, history: MotionHistory = NO_HISTORY
) -> tuple[Array, Array, npt.NDArray[np.intp]]:
    """Return the points of :func:`scan_points`, and the number of the ray of each (n,)."""
    ranges = np.array(scan.ranges_m)
    near: npt.NDArray[np.bool_] = ranges < scan.range_min_m
    hit = np.flatnonzero((np.isfinite(ranges) & (ranges <= scan.range_max_m)) | near)
    range_m = np.maximum(ranges[hit], scan.range_min_m)
    bearing = scan.angle_min_rad + scan.angle_increment_rad * hit
    forward, left = scan.x_m + range_m * np.cos(bearing), scan.y_m + range_m * np.sin(bearing)
    foreign = ~body.holds(forward, left)
    forward, left, hit = forward[foreign], left[foreign], hit[foreign]
    age_s: Array = (estimate.t_ns - scan.t_ns) * 1e-9 - scan.time_increment_s * hit.astype(
        np.float64
    )
    x, y, yaw = history.poses(age_s, estimate)
    c, s = np.cos(yaw), np.sin(yaw)
    return x + c * forward - s * left, y + s * forward + c * left, hit


def _rate(estimate: StateEstimate) -> float:
    return estimate.yaw_rate_radps if isfinite(estimate.yaw_rate_radps) else 0.0


def _constant(
    age_s: Array, speed_mps: float, rate_radps: float, x_m: float, y_m: float, yaw_rad: float
) -> tuple[Array, Array, Array]:
    """Return the poses before one with constant speed and yaw rate."""
    way, course = speed_mps * age_s, yaw_rad - 0.5 * rate_radps * age_s
    return x_m - way * np.cos(course), y_m - way * np.sin(course), yaw_rad - rate_radps * age_s
