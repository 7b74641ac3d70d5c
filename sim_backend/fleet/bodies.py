"""Body of a vehicle as the sensors of the other vehicles see it."""

from math import cos, sin

import numpy as np

from sim_backend.plant.interface import Motion
from sim_backend.scene.moving import Moving
from sim_backend.scene.rays import Hits, Rays
from vehicled.core.arrays import Array, hypotenuse
from vehicled.core.vehicle import Outline

KEPT_S = 10.0
"""Time for which poses are kept, s: no scanner takes longer for a sweep."""


def corners(outline: Outline) -> list[tuple[float, float]]:
    """Return the corners of a vehicle about its reference point, counter-clockwise."""
    front, rear, half = outline
    return [(front, half), (-rear, half), (-rear, -half), (front, -half)]


class VehicleBody(Moving):
    """Rectangle that follows the poses of a vehicle.

    Between two poses it moves along a line. After the newest one it goes on at its velocity: a
    sensor samples within the step that its own vehicle makes, before the step of the others is
    known.
    """

    def __init__(self, outline: Outline, motion: Motion, step_s: float) -> None:
        """Take the vehicle at the start of the scene. ``step_s``: interval of the poses."""
        super().__init__([(motion.x_m, motion.y_m)], [0.0], outline_m=corners(outline))
        self._reach_m = outline.reach_m
        self._kept = max(2, round(KEPT_S / step_s))
        self._rows = np.empty((4, 2 * self._kept))
        self._count = 0
        self._velocity = (0.0, 0.0, 0.0)
        self.follow(0.0, motion)

    def follow(self, time_s: float, motion: Motion) -> None:
        """Take the motion at a scene time later than the last one."""
        if self._count == 2 * self._kept:
            self._rows[:, : self._kept] = self._rows[:, self._kept :]
            self._count = self._kept
        self._rows[:, self._count] = time_s, motion.x_m, motion.y_m, motion.yaw_rad
        self._count += 1
        c, s = cos(motion.yaw_rad), sin(motion.yaw_rad)
        self._velocity = (
            motion.speed_mps * c - motion.lateral_speed_mps * s,
            motion.speed_mps * s + motion.lateral_speed_mps * c,
            motion.yaw_rate_radps,
        )

    def place(self, time_s: Array) -> tuple[Array, Array, Array]:
        """Return x, y and heading (n,) at scene times (n,)."""
        times, *columns = self._rows[:, : self._count]
        beyond_s = np.maximum(time_s - times[-1], 0.0)
        x, y, yaw = (
            np.interp(time_s, times, column) + rate * beyond_s
            for column, rate in zip(columns, self._velocity, strict=True)
        )
        return x, y, yaw

    def cast(self, rays: Rays, time_s: Array, reach_m: float, hits: Hits) -> None:
        """Shorten the hits of rays, each of which has its own time."""
        x, y, _ = self.place(time_s)
        # Out of reach of all rays the transformation of each is spared.
        if (hypotenuse(rays.x_m - x, rays.y_m - y) <= reach_m + self._reach_m).any():
            super().cast(rays, time_s, reach_m, hits)
