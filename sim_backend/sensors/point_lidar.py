"""3-D scanner of the twin: columns of beams against the bodies of the scene and the ground, with
noise, quantisation and lost returns.

Bodies are as high as any beam. The ground is the terrain of the plant, or level. Beams have no
width.
"""

from math import inf, tau
from typing import NamedTuple

import numpy as np

from drivers.lidar.points import Beams, rotation
from sim_backend.plant.interface import Motion
from sim_backend.scene.rays import Rays
from sim_backend.scene.scene import Scene
from sim_backend.sensors.lidar import Lidar, measured
from sim_backend.terrain.surface import Terrain
from vehicled.core.arrays import Array, arctan2
from vehicled.core.messages import LaserScan
from vehicled.profile.schema import LidarModel

GROUND_STEPS = 4
"""Corrections of the place at which a beam meets uneven ground."""
LEAST_SLOPE = 1e-4


class PointScan(LaserScan, frozen=True):
    """Part of a turn of a 3-D scanner: its angles are those of the device in its direction of
    rotation, its ranges are column after column."""

    beams: int = 1


class PointSweep(NamedTuple):
    """Sweep of the beams of a device on wires."""

    model: LidarModel
    """Columns as rays, with angles of the device."""
    beams: Beams
    turned: Array
    """Rotation from the device to the body."""
    parts: int
    """Samples in a turn."""


class PointLidarSensor(Lidar):
    """3-D scanner. A sample is taken at the instant of its last column."""

    def __init__(
        self,
        sweep: PointSweep,
        lever_arm_m: tuple[float, float, float],
        scene: Scene,
        terrain: Terrain,
        seed: int,
        entity: str,
        start_ns: int,
    ) -> None:
        super().__init__(sweep.model, lever_arm_m, scene, seed, entity, start_ns, sweep.parts)
        self._beams, self._turned, self._terrain = sweep.beams, sweep.turned, terrain
        self._arm = np.array(lever_arm_m)

    def sample(self, t_ns: int, motion: Motion) -> tuple[int, LaserScan]:
        """Return the columns valid up to ``t_ns``, see
        :class:`sim_backend.sensors.interface.Sensor`."""
        model = self._model
        first_ns = t_ns - self._sweep_ns
        first, self._first = self._first, (self._first + self._rays) % model.rays
        angle = self._bearings[first : first + self._rays]
        since_s: Array = np.arange(self._rays, dtype=np.float64) * (self._ray_ns * 1e-9)
        x, y, yaw = self._poses(since_s - self._sweep_ns * 1e-9, t_ns, motion)
        self._before = t_ns, motion
        time_s = (first_ns - self._start_ns) * 1e-9 + since_s
        ranges = self._cast(x, y, yaw, angle, time_s, motion)
        scan = PointScan(
            first_ns, 0, float(angle[0]), self._step_rad, self._ray_ns * 1e-9, 1.0 / model.rate_hz,
            model.range_min_m, model.range_max_m, self._x_m, self._y_m, tuple(ranges.tolist()),
            len(self._beams.elevation_rad),
        )  # fmt: skip
        return t_ns + self._latency_ns, scan

    def _cast(
        self, x: Array, y: Array, yaw: Array, angle: Array, time_s: Array, motion: Motion
    ) -> Array:
        model, beams = self._model, self._beams
        body = rotation(0.0, motion.pitch_rad, motion.roll_rad)
        m = body @ self._turned
        arm = body @ self._arm
        # Directions and origins in axes that are level and turn with the vehicle.
        psi = -(angle[:, None] + beams.azimuth_rad)
        level, up = np.cos(beams.elevation_rad), np.sin(beams.elevation_rad)
        along, across = level * np.cos(psi), level * np.sin(psi)
        ux, uy, uz = (m[i, 0] * along + m[i, 1] * across + m[i, 2] * up for i in range(3))
        ox = arm[0] + beams.origin_m * (m[0, 0] * np.cos(-angle) + m[0, 1] * np.sin(-angle))
        oy = arm[1] + beams.origin_m * (m[1, 0] * np.cos(-angle) + m[1, 1] * np.sin(-angle))
        z0 = motion.z_m + arm[2] + m[2, 2] * beams.above_m + 0.0 * uz
        run = np.sqrt(ux * ux + uy * uy)
        bearing = arctan2(uy.ravel(), ux.ravel()).reshape(uy.shape)
        # One planar ray stands for all beams of nearly the same bearing.
        step = 0.5 * abs(self._step_rad)
        grid = np.rint((bearing - bearing[0, 0]) % tau / step).astype(np.int64)
        wanted, where, index = np.unique(grid, return_index=True, return_inverse=True)
        column = where // grid.shape[1]
        c, s = np.cos(yaw), np.sin(yaw)
        east, north = x + c * ox - s * oy, y + s * ox + c * oy
        rays = Rays(
            east[column], north[column], yaw[column] + bearing[0, 0] + wanted.astype(float) * step
        )
        hits = self._scene.cast(rays, time_s[column], model.range_max_m)
        index = index.reshape(grid.shape)
        distance, cosine = hits.range_m[index], hits.cosine[index]
        slope = uz / np.maximum(run, 1e-9)
        ground = self._ground(z0, slope, east, north, yaw, bearing)
        met = ground < distance
        with np.errstate(invalid="ignore"):
            slant = np.where(met, ground, distance) / np.maximum(run, 1e-9)
        cosine = np.where(met, np.maximum(-uz, 0.0), cosine * run)
        # The device counts from its axis.
        slant = (slant + beams.origin_m).ravel()
        slant[slant > model.range_max_m] = inf
        return measured(model, self._generator, slant, cosine.ravel())

    def _ground(
        self, z0: Array, slope: Array, east: Array, north: Array, yaw: Array, bearing: Array
    ) -> Array:
        """Return the horizontal distance at which each beam meets the ground; infinite for none."""
        falls = slope < -LEAST_SLOPE
        distance = np.where(falls, z0 / np.where(falls, -slope, 1.0), inf)
        if self._terrain.height is None:
            return distance
        direction = yaw[:, None] + bearing
        reach = self._model.range_max_m
        distance = np.minimum(distance, reach)
        for _ in range(GROUND_STEPS):
            px = east[:, None] + distance * np.cos(direction)
            py = north[:, None] + distance * np.sin(direction)
            height = self._terrain.heights(px, py)
            distance = np.where(falls, (z0 - height) / np.where(falls, -slope, 1.0), inf)
            distance = np.clip(distance, 0.0, reach)
        return np.where(distance < reach, distance, inf)
