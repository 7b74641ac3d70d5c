"""Returns of a laser scan as points."""

import numpy as np

from vehicled.core.arrays import Array
from vehicled.core.messages import LaserScan
from vehicled.maps.surface import Index

MARGIN = 0.99
"""Fraction of the largest range from which a range is taken for none: some scanners report it in
place of a lost return."""


def body_points(scan: LaserScan) -> tuple[Array, Array, Index]:
    """Return x and y (n,) of the returns, forward and left of the rear axle at each ray's own time,
    and the numbers of the rays."""
    ranges = np.array(scan.ranges_m, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        row = np.flatnonzero(
            (ranges >= max(scan.range_min_m, 1e-3)) & (ranges < MARGIN * scan.range_max_m)
        )
    bearing = scan.angle_min_rad + scan.angle_increment_rad * row
    return scan.x_m + ranges[row] * np.cos(bearing), scan.y_m + ranges[row] * np.sin(bearing), row
