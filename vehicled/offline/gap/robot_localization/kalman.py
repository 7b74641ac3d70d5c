"""The filter of robot_localization: prediction with control, correction of the measured parts of
the state, rejection."""

from math import inf, nan
from typing import NamedTuple

import numpy as np

from vehicled.core.arrays import Array, wrapped
from vehicled.offline.gap.robot_localization.motion import (
    ACCELERATION,
    ATTITUDE,
    RATES,
    ROLL,
    SIZE,
    YAW,
    Mask,
    transfer,
)

LEAST_VARIANCE = 1e-9
"""Lower bound of the variance of a measurement."""
_IDENTITY = np.eye(SIZE)


class StateMeasurement(NamedTuple):
    """Values and covariance of the whole state, of which ``used`` parts were measured."""

    t_ns: int
    value: Array
    covariance: Array
    used: Mask
    threshold: float = inf
    """Largest Mahalanobis distance; a measurement at or beyond it is rejected."""
    position: bool = False
    """True if it holds x and y, so that their NIS is known."""


class ControlLimits(NamedTuple):
    """Control input: velocities (6,) that are used, with limits and gains of the acceleration
    towards them."""

    used: Mask
    timeout_s: float
    acceleration_limits: Array
    acceleration_gains: Array
    deceleration_limits: Array
    deceleration_gains: Array


class Kalman:
    """State (15,) with covariance, and the time of the newest measurement."""

    def __init__(
        self,
        process_noise: Array,
        initial_covariance: Array,
        *,
        dynamic_noise: bool,
        control: ControlLimits | None,
    ) -> None:
        self.x = np.zeros(SIZE)
        self.P = initial_covariance.copy()
        self.initialised = False
        self.t_ns = 0
        """Time of validity of the state."""
        self.nis = nan
        """Squared Mahalanobis distance of the newest position in the plane."""
        self.rejected = 0
        self._noise, self._dynamic_noise = process_noise, dynamic_noise
        self._control_limits = control
        self.control: tuple[int, Array] | None = None
        """Newest control input, with its time."""

    def command(self, t_ns: int, velocity: Array) -> None:
        """Take commanded linear and angular velocities (6,) in the body frame."""
        self.control = t_ns, velocity

    def process(self, z: StateMeasurement) -> None:
        """Predict to a measurement and correct with it. The first one sets the state; one from the
        past corrects only."""
        if not self.initialised:
            used = z.used & np.isfinite(z.value)
            self.x = np.where(used, z.value, self.x)
            both = np.outer(used, used)
            self.P = np.where(both, z.covariance, self.P)
            self.initialised, self.t_ns = True, z.t_ns
            return
        if z.t_ns > self.t_ns:
            self.predict(z.t_ns)
        self.correct(z)

    def predict(self, t_ns: int) -> None:
        """Predict to a later time."""
        dt_s = (t_ns - self.t_ns) * 1e-9
        noise = self._noise
        if self._dynamic_noise:
            # The noise of the pose grows with the speed, so that it does not grow at standstill.
            noise = noise.copy()
            noise[:6, :6] *= float(self.x[6:12] @ self.x[6:12])
        matrix, jacobian = transfer(self.x, dt_s)
        x = self.x.copy()
        if self._control_limits is not None:
            self._accelerate(x, t_ns, dt_s, self._control_limits)
        self.x = matrix @ x
        self._wrap()
        self.P = jacobian @ self.P @ jacobian.T + dt_s * noise
        self.t_ns = t_ns

    def _accelerate(self, x: Array, t_ns: int, dt_s: float, limits: ControlLimits) -> None:
        commanded = np.zeros(6)
        if self.control is not None and (t_ns - self.control[0]) * 1e-9 < limits.timeout_s:
            commanded = self.control[1]
        now = x[6:12]
        error = commanded - now
        # Towards the other sign it first slows down to 0.
        target = np.where(np.abs(error) <= np.abs(commanded) + 0.01, commanded, 0.0)
        slower = np.abs(target) < np.abs(now)
        limit = np.where(slower, limits.deceleration_limits, limits.acceleration_limits)
        gain = np.where(slower, limits.deceleration_gains, limits.acceleration_gains)
        acceleration = np.where(limits.used, np.clip(gain * error, -limit, limit), 0.0)
        x[ACCELERATION] = np.where(limits.used[:3], acceleration[:3], x[ACCELERATION])
        x[RATES] += acceleration[3:] * dt_s

    def correct(self, z: StateMeasurement) -> None:
        """Correct with the finite parts of a measurement, or reject it."""
        index = np.flatnonzero(z.used & np.isfinite(z.value))
        if not len(index):
            return
        R = z.covariance[index[:, None], index]
        diagonal = np.einsum("ii->i", R)
        np.maximum(np.abs(diagonal), LEAST_VARIANCE, out=diagonal)
        P = self.P
        cross = P[:, index]
        inverse = np.linalg.inv(cross[index] + R)
        innovation = z.value[index] - self.x[index]
        angles = (index >= ROLL) & (index <= YAW)
        innovation[angles] = wrapped(innovation[angles])
        distance2 = float(innovation @ inverse @ innovation)
        if z.position:
            plane = (P[:2, :2] + z.covariance[:2, :2], z.value[:2] - self.x[:2])
            self.nis = float(plane[1] @ np.linalg.solve(*plane))
        if distance2 >= z.threshold * z.threshold:
            self.rejected += 1
            return
        gain = cross @ inverse
        self.x = self.x + gain @ innovation
        rest = _IDENTITY.copy()
        rest[:, index] -= gain
        self.P = rest @ P @ rest.T + gain @ R @ gain.T
        self._wrap()

    def _wrap(self) -> None:
        self.x[ATTITUDE] = wrapped(self.x[ATTITUDE])
