"""Planar lidar model: rays cast in turn while the vehicle moves, with noise, quantisation and lost
returns.

Beams stay in the plane of the map: roll and pitch, beam width and surface colour are ignored.
Between two sweeps the vehicle follows the cubic through both poses with their velocities, so that
each ray starts at the position of its own time.
"""

from math import cos, inf, sin

import numpy as np

from sim_backend.plant.interface import Motion
from sim_backend.scene.rays import Rays
from sim_backend.scene.scene import Scene
from sim_backend.sensors.noise import stream
from vehicled.core.arrays import Array, hypotenuse
from vehicled.core.messages import LaserScan
from vehicled.profile.schema import LidarModel


class Lidar:
    """Planar lidar. A sample is taken at the instant of its last ray."""

    def __init__(
        self,
        model: LidarModel,
        lever_arm_m: tuple[float, float, float],
        scene: Scene,
        seed: int,
        entity: str,
        start_ns: int,
        parts: int = 1,
    ) -> None:
        """Noise comes from the stream ``entity``; the scene's times count from ``start_ns``.

        ``parts``: samples in which a sweep leaves a scanner that sends while it turns; its rays are
        a multiple of them.
        """
        self.rate_hz = model.rate_hz * parts
        self.least_latency_ns = self._latency_ns = round(model.latency_ms * 1e6)
        self._model = model
        self._scene = scene
        self._start_ns = start_ns
        self._x_m, self._y_m, _ = lever_arm_m
        self._generator = stream(seed, entity)
        steps = max(model.rays - 1, 1)
        self._step_rad = (model.angle_max_rad - model.angle_min_rad) / steps
        self._bearings: Array = model.angle_min_rad + self._step_rad * np.arange(
            model.rays, dtype=np.float64
        )
        # A sweep cannot be longer than the interval between two.
        sweep_ns = min(model.sweep_ms * 1e6, 1e9 / model.rate_hz) if model.rays > 1 else 0.0
        self._ray_ns = sweep_ns / steps
        self._rays = model.rays // parts
        self._first = 0
        self._sweep_ns = round(self._ray_ns * (self._rays - 1)) if parts > 1 else round(sweep_ns)
        self._before: tuple[int, Motion] | None = None

    def sample(self, t_ns: int, motion: Motion) -> tuple[int, LaserScan]:
        """Return the scan valid at ``t_ns``, see :class:`sim_backend.sensors.interface.Sensor`."""
        model = self._model
        first_ns = t_ns - self._sweep_ns
        first, self._first = self._first, (self._first + self._rays) % model.rays
        bearings = self._bearings[first : first + self._rays]
        since_s: Array = np.arange(self._rays, dtype=np.float64) * (self._ray_ns * 1e-9)
        x, y, yaw = self._poses(since_s - self._sweep_ns * 1e-9, t_ns, motion)
        self._before = t_ns, motion
        c, s = np.cos(yaw), np.sin(yaw)
        rays = Rays(
            x + c * self._x_m - s * self._y_m, y + s * self._x_m + c * self._y_m, yaw + bearings
        )
        hits = self._scene.cast(
            rays, (first_ns - self._start_ns) * 1e-9 + since_s, model.range_max_m
        )
        ranges = measured(self._model, self._generator, hits.range_m, hits.cosine)
        scan = LaserScan(
            first_ns,
            0,
            model.angle_min_rad + self._step_rad * first,
            self._step_rad,
            self._ray_ns * 1e-9,
            1.0 / model.rate_hz,
            model.range_min_m,
            model.range_max_m,
            self._x_m,
            self._y_m,
            tuple(ranges.tolist()),
        )
        return t_ns + self._latency_ns, scan

    def _poses(self, after_s: Array, t_ns: int, motion: Motion) -> tuple[Array, Array, Array]:
        """Return the rear axle's poses at times (n,) <= 0 relative to ``t_ns``, by the cubic since
        the previous sample."""
        if self._before is None:
            vx, vy = _velocity(motion)
            return (
                motion.x_m + vx * after_s,
                motion.y_m + vy * after_s,
                motion.yaw_rad + motion.yaw_rate_radps * after_s,
            )
        before_ns, before = self._before
        span_s = (t_ns - before_ns) * 1e-9
        u = 1.0 + after_s / span_s
        (vx0, vy0), (vx1, vy1) = _velocity(before), _velocity(motion)
        return (
            _hermite(u, span_s, before.x_m, vx0, motion.x_m, vx1),
            _hermite(u, span_s, before.y_m, vy0, motion.y_m, vy1),
            _hermite(
                u,
                span_s,
                before.yaw_rad,
                before.yaw_rate_radps,
                motion.yaw_rad,
                motion.yaw_rate_radps,
            ),
        )


def measured(
    model: LidarModel, generator: np.random.Generator, true_m: Array, cosine: Array
) -> Array:
    """Return the measured ranges of true ranges. Draws the same number of random values for any
    scene."""
    normal = generator.standard_normal(len(true_m))
    loss = generator.random(len(true_m))
    drop = generator.random(len(true_m))
    met = np.isfinite(true_m)
    ranges_m = np.where(met, true_m, 0.0)
    reported = ranges_m + hypotenuse(model.sigma_m, model.sigma_share * ranges_m) * normal
    if model.step_m > 0.0:
        reported = np.round(reported / model.step_m) * model.step_m
    reach = model.reach_m * np.sqrt(cosine)
    with np.errstate(over="ignore"):
        probability = 1.0 / (
            1.0
            + np.exp(
                np.minimum((ranges_m - reach) / (model.fade_share * np.maximum(reach, 1e-9)), 700.0)
            )
        )
    reported[~met | (loss > probability) | (reported > model.range_max_m)] = inf
    reported[met & (ranges_m < model.range_min_m)] = -inf
    # Noise alone must not turn a measurable range into one below the minimum.
    reported = np.where(np.isfinite(reported), np.maximum(reported, model.range_min_m), reported)
    reported[drop < model.drop_share] = np.nan
    return reported


def _velocity(motion: Motion) -> tuple[float, float]:
    c, s = cos(motion.yaw_rad), sin(motion.yaw_rad)
    return (
        c * motion.speed_mps - s * motion.lateral_speed_mps,
        s * motion.speed_mps + c * motion.lateral_speed_mps,
    )


def _hermite(u: Array, span: float, p0: float, v0: float, p1: float, v1: float) -> Array:
    """Return the cubic with values and slopes at both ends; u from 0 to 1 over ``span``."""
    w = 1.0 - u
    return (
        (1.0 + 2.0 * u) * w * w * p0
        + u * w * w * span * v0
        + u * u * (3.0 - 2.0 * u) * p1
        - u * u * w * span * v1
    )
