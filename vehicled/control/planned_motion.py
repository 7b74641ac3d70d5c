"""The motion that a vehicle plans, sampled for others."""

from collections.abc import Callable

from vehicled.core.messages import PlannedMotion
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
) -> PlannedMotion:
    """Return the motion along a path from arc length ``s_m`` at ``t_ns``, with the magnitude
    ``speed_mps``. ``target_mps``: speed magnitude that is wanted at an arc length."""
    direction, step_s = tracker.direction, POINT_S / STEPS
    points = []
    for k in range(round(HORIZON_S / POINT_S) + 1):
        at = tracker.point_at(s_m)
        points.append((k * POINT_S, at.x_m, at.y_m, at.yaw_rad, direction * speed_mps))
        for _ in range(STEPS):
            # By the speed ahead: that at a standstill before a stop would be held forever.
            wanted_mps = target_mps(s_m + direction * speed_mps * step_s)
            slower, faster = (
                speed_mps - deceleration_mps2 * step_s, speed_mps + acceleration_mps2 * step_s
            )  # fmt: skip
            speed_mps = max(min(wanted_mps, faster), slower, 0.0)
            s_m += direction * speed_mps * step_s
    return PlannedMotion(t_ns, *zip(*points, strict=True))
