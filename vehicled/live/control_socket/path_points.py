"""Course as points, for programs that follow it themselves."""

from typing import Any

import numpy as np

from vehicled.paths.course import Course

DIGITS = 4
"""Decimal places of all values: tenths of a millimetre."""
COLUMNS = ("s_m", "x_m", "y_m", "yaw_rad", "curvature_per_m", "speed_mps")


def path_points(course: Course, points: int) -> dict[str, Any]:
    """Return at most so many samples of a course, evenly chosen, with the last one of an open
    course. A closed course does not repeat its first point."""
    count = course.x_m.size
    chosen = np.unique(
        np.linspace(0, count, min(points, count), endpoint=False, dtype=np.int64)
        if course.closed
        else np.linspace(0, count - 1, min(points, count), dtype=np.int64)
    )
    columns = {name: np.round(getattr(course, name)[chosen], DIGITS).tolist() for name in COLUMNS}
    return {
        "name": course.name,
        "closed": course.closed,
        "length_m": course.length_m,
        **columns,
    }
