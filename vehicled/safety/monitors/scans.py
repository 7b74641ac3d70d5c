"""Points of a laser scan in the map frame."""

import numpy as np
import numpy.typing as npt

from vehicled.core.arrays import Array
from vehicled.core.messages import LaserScan, StateEstimate
from vehicled.safety.monitors.lane import LaneBody


def scan_points(scan: LaserScan, estimate: StateEstimate, body: LaneBody) -> tuple[Array, Array]:
    """Return x and y (n,) of the returns of a scan, m, each from the pose at its ray's time, without the vehicle's own body.

    A return nearer than the minimum range stands at the minimum range. Rays without a return give no point.
    """
    ranges = np.array(scan.ranges_m)
    near: npt.NDArray[np.bool_] = ranges < scan.range_min_m
    hit = np.flatnonzero((np.isfinite(ranges) & (ranges <= scan.range_max_m)) | near)
    range_m = np.maximum(ranges[hit], scan.range_min_m)
    bearing = scan.angle_min_rad + scan.angle_increment_rad * hit
    forward, left = scan.x_m + range_m * np.cos(bearing), scan.y_m + range_m * np.sin(bearing)
    foreign = ~body.holds(forward, left)
    forward, left, hit = forward[foreign], left[foreign], hit[foreign]
    age_s = (estimate.t_ns - scan.t_ns) * 1e-9 - scan.time_increment_s * hit
    rate = estimate.yaw_rate_radps if np.isfinite(estimate.yaw_rate_radps) else 0.0
    yaw = estimate.yaw_rad - rate * age_s
    way, course = estimate.speed_mps * age_s, estimate.yaw_rad - 0.5 * rate * age_s
    c, s = np.cos(yaw), np.sin(yaw)
    x = estimate.x_m - way * np.cos(course) + c * forward - s * left
    y = estimate.y_m - way * np.sin(course) + s * forward + c * left
    return x, y
