"""Trail that the vehicle has driven forward last, and the way back along it.

What the body has just swept is free of what stands, so a short way back needs no sensor behind.
What moves may have come there since, so the scans count as well.
"""

from collections import deque
from math import cos, hypot, sin

import numpy as np

from vehicled.core.arrays import Array
from vehicled.core.messages import StateEstimate
from vehicled.safety.monitors.lane import Stations

POSES = 64
"""Poses of the trail at most."""
LEAST_AHEAD_STEPS = 2.0
"""Least distance of the pose that is pursued, in steps of the trail: the chord to a nearer one
would be noise."""


class Trail:
    """Poses of the rear axle in equal steps, the newest last."""

    def __init__(self, step_m: float) -> None:
        self._step_m = step_m
        self._poses: deque[tuple[float, float, float]] = deque(maxlen=POSES)

    def add(self, estimate: StateEstimate) -> None:
        """Add the present pose of a vehicle that drives forward. After a jump of the estimate the
        trail begins anew."""
        pose = estimate.x_m, estimate.y_m, estimate.yaw_rad
        if self._poses:
            moved_m = hypot(pose[0] - self._poses[-1][0], pose[1] - self._poses[-1][1])
            if moved_m < self._step_m:
                return
            if moved_m > 4.0 * self._step_m:
                self._poses.clear()
        self._poses.append(pose)

    def drop_ahead(self, estimate: StateEstimate) -> None:
        """Forget the poses that a vehicle which goes back has reached."""
        c, s = cos(estimate.yaw_rad), sin(estimate.yaw_rad)
        while self._poses:
            x, y, _ = self._poses[-1]
            if c * (x - estimate.x_m) + s * (y - estimate.y_m) < 0.0:
                break
            self._poses.pop()

    @property
    def length_m(self) -> float:
        """Length of the way back, m."""
        return max(len(self._poses) - 1, 0) * self._step_m

    def pose(self, back_m: float) -> tuple[float, float, float]:
        """Return the pose at a distance back along the trail, or its oldest one."""
        return self._poses[-1 - min(round(back_m / self._step_m), len(self._poses) - 1)]

    def curvature_per_m(self, estimate: StateEstimate, look_m: float) -> float:
        """Return the curvature of the arc from the vehicle to the trail behind it: pure pursuit
        (Coulter 1992), which holds backward as well."""
        x, y, _ = self.pose(max(look_m, LEAST_AHEAD_STEPS * self._step_m))
        c, s = cos(estimate.yaw_rad), sin(estimate.yaw_rad)
        dx, dy = x - estimate.x_m, y - estimate.y_m
        return 2.0 * (c * dy - s * dx) / max(dx * dx + dy * dy, self._step_m * self._step_m)

    def lane(self, back_m: float) -> Stations:
        """Return the lane that the body sweeps on its way back, for a distance."""
        count = min(max(round(back_m / self._step_m), 1), len(self._poses))
        x, y, yaw = np.array(list(self._poses)[-count:][::-1]).T
        way: Array = self._step_m * np.arange(count, dtype=np.float64)
        return Stations(way, x, y, yaw, 0.0, -1)
