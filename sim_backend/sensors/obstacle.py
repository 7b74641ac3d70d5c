"""Obstacle sensor model: free distance along the lane, from parallel beams that follow the course
ahead."""

from math import cos, inf, sin

import numpy as np

from sim_backend.plant.interface import Motion
from sim_backend.scene.rays import Rays
from sim_backend.scene.scene import Scene
from vehicled.core.arrays import arctan2, hypotenuse
from vehicled.core.messages import ObstacleRange
from vehicled.core.vehicle import Vehicle
from vehicled.paths.course import Course
from vehicled.paths.tracking import PathTracker

DEFAULT_RATE_HZ = 20.0
LATENCY_NS = 5_000_000
HORIZON_M = 15.0
STEP_M = 0.5
"""Length of the straight segments of a beam."""
BEAM_SPACING_M = 0.05


class ObstacleSensor:
    """Free distance ahead of the vehicle's front, along the course, over its width, at the
    profile's rate."""

    def __init__(
        self, rate_hz: float | None, vehicle: Vehicle, course: Course, scene: Scene, start_ns: int
    ) -> None:
        self.rate_hz = rate_hz or DEFAULT_RATE_HZ
        self.least_latency_ns = LATENCY_NS
        self._scene = scene
        self._start_ns = start_ns
        self._tracker = PathTracker(course)
        self._front_m, self._rear_m, _ = vehicle.outline
        beams = max(2, round(vehicle.width_m / BEAM_SPACING_M) + 1)
        self._left_m = np.linspace(-0.5 * vehicle.width_m, 0.5 * vehicle.width_m, beams)

    def sample(self, t_ns: int, motion: Motion) -> tuple[int, ObstacleRange]:
        """Return the range valid at ``t_ns``, see :class:`sim_backend.sensors.interface.Sensor`."""
        here = self._tracker.update(motion.x_m, motion.y_m, motion.yaw_rad, motion.speed_mps)
        return t_ns + LATENCY_NS, ObstacleRange(
            t_ns, 0, inf if self._scene.empty else self._free_m(t_ns, here.s_m)
        )

    def _free_m(self, t_ns: int, s_m: float) -> float:
        begin_m = s_m + (self._front_m if self._tracker.direction > 0 else self._rear_m)
        points = [
            self._tracker.point_at(begin_m + k * STEP_M)
            for k in range(round(HORIZON_M / STEP_M) + 1)
        ]
        x = np.array([[p.x_m - left * sin(p.yaw_rad) for left in self._left_m] for p in points])
        y = np.array([[p.y_m + left * cos(p.yaw_rad) for left in self._left_m] for p in points])
        dx, dy = np.diff(x, axis=0), np.diff(y, axis=0)
        length = hypotenuse(dx, dy)
        rays = Rays(x[:-1].ravel(), y[:-1].ravel(), arctan2(dy, dx).ravel())
        time_s = np.full(len(rays), (t_ns - self._start_ns) * 1e-9)
        hits = self._scene.cast(rays, time_s, 2.0 * STEP_M).range_m.reshape(length.shape)
        met, beam = np.nonzero(hits <= length)
        if not len(met):
            return inf
        # Measure along the course, because the beam is longer outside a bend.
        return float(((met + hits[met, beam] / np.maximum(length[met, beam], 1e-9)) * STEP_M).min())
