"""The motion that a vehicle plans, sampled for others."""

from collections.abc import Callable
from math import cos, sin

from vehicled.core.messages import PlannedMotion
from vehicled.paths.lateral_offset import PlannedOffset
from vehicled.paths.tracking import PathTracker

HORIZON_S = 5.0
POINT_S = 0.5
"""Time between two points."""
STEPS = 5
"""Steps of the integration from point to point."""


def motion_along(
    tracker: PathTracker,
    t_ns: int,
    s_m: float,
    speed_mps: float,
    target_mps: Callable[[float], float],
    acceleration_mps2: float,
    deceleration_mps2: float,
    offset: PlannedOffset | None = None,
) -> PlannedMotion:
    """Return the motion along a path from arc length ``s_m`` at ``t_ns``, with the magnitude
    ``speed_mps``. ``target_mps``: speed magnitude that is wanted at an arc length; ``offset``: path
    beside the course."""
    direction, step_s = tracker.direction, POINT_S / STEPS
    points = []
    for k in range(round(HORIZON_S / POINT_S) + 1):
        at = tracker.point_at(s_m)
        left_m = 0.0 if offset is None else float(offset.at(s_m))
        x_m, y_m = at.x_m - sin(at.yaw_rad) * left_m, at.y_m + cos(at.yaw_rad) * left_m
        points.append((k * POINT_S, x_m, y_m, at.yaw_rad, direction * speed_mps))
        for _ in range(STEPS):
            wanted_mps = target_mps(s_m + speed_mps * step_s)
            slower_mps = max(speed_mps - deceleration_mps2 * step_s, 0.0)
            speed_mps = max(min(wanted_mps, speed_mps + acceleration_mps2 * step_s), slower_mps)
            s_m += speed_mps * step_s
    return PlannedMotion(t_ns, *zip(*points, strict=True))
