"""Speed response from the estimated speed and the commanded throttle.

Model: ``dv/dt = A throttle - B v - C sign(v)``, integrated over a window, which avoids
differentiating a noisy speed:

    v(t) - v(t - T) = A int throttle - B int v - C int sign(v)

A, B, C are the states of a Kalman filter. C varies fast, A and B slowly: effects of battery, slope
and ground show in C at once, while A and B need different throttles and speeds, and stay constant
without them.
"""

from math import sqrt
from typing import NamedTuple

import numpy as np

from vehicled.core.arrays import Array, matmul
from vehicled.core.vehicle import Drive
from vehicled.estimation.identification.params import IdentifierParams

OUTLIER = 3.0
"""Sigmas beyond which an innovation counts less (Huber)."""


class DriveSample(NamedTuple):
    """One window of driving."""

    gained_mps: float
    """Speed at its end minus that at its start, plus the part lost to the brake."""
    throttle_s: float
    """Integral of the throttle in force."""
    distance_m: float
    """Integral of the speed."""
    window_s: float
    """Length of the window; negative in reverse."""
    sigma_mps: float


class DriveFilter:
    """Kalman filter over (authority A, damping B, friction C)."""

    def __init__(self, params: IdentifierParams, drive: Drive) -> None:
        reduced_m = drive.wheel_radius_m * drive.gear_ratio
        authority = drive.stall_torque_nm * reduced_m / drive.inertia_kgm2
        damping = (
            drive.stall_torque_nm / drive.no_load_speed_radps + drive.viscous_nms
        ) / drive.inertia_kgm2
        friction = drive.friction_nm * reduced_m / drive.inertia_kgm2
        scale = np.array([authority, damping, 1.0])
        self._prior: Array = scale * [
            params.authority_prior,
            params.damping_prior,
            params.friction_prior_mps2,
        ]
        self._density: Array = scale * [
            params.authority_density,
            params.damping_density,
            params.friction_density_mps2,
        ]
        self._low: Array = np.array(
            [authority / params.drive_bounds, damping / params.drive_bounds, 0.0]
        )
        self._high: Array = np.array(
            [
                authority * params.drive_bounds,
                damping * params.drive_bounds,
                max(authority, 2.0 * friction),
            ]
        )
        self.mean: Array = np.array([authority, damping, friction])
        self._covariance: Array = np.diag(self._prior**2)
        self.samples = 0

    @property
    def sigma(self) -> tuple[float, float, float]:
        """Standard deviations of A, B, C."""
        p = self._covariance
        return sqrt(float(p[0, 0])), sqrt(float(p[1, 1])), sqrt(float(p[2, 2]))

    def update(self, sample: DriveSample) -> None:
        """Fuse one window. All values must be finite, sigma positive."""
        h = np.array([sample.throttle_s, -sample.distance_m, -sample.window_s])
        self._diffuse(abs(sample.window_s))
        ph = matmul(h, self._covariance)
        hph = float(np.sum(h * ph))
        error = sample.gained_mps - float(np.sum(h * self.mean))
        r = sample.sigma_mps * sample.sigma_mps
        excess = abs(error) / (OUTLIER * sqrt(hph + r))
        r *= max(1.0, excess * excess)
        k = ph / (hph + r)
        self.mean = np.clip(self.mean + k * error, self._low, self._high)
        # The Joseph form stays positive definite under rounding.
        keep = np.eye(3) - np.outer(k, h)
        self._covariance = matmul(matmul(keep, self._covariance), keep.T) + r * np.outer(k, k)
        self.samples += 1

    def _diffuse(self, window_s: float) -> None:
        p = self._covariance + np.diag(self._density**2 * window_s)
        f = np.minimum(1.0, self._prior / np.sqrt(np.diag(p)))
        self._covariance = 0.5 * (p + p.T) * np.outer(f, f)
