"""A state estimator: an extended Kalman filter over position, heading and speed, without outlier
rejection.

    vehicled sim --estimator ./template_file.py:TemplateClass

Add --set estimator.TemplateClass.speed_noise_mps2=2 to change a parameter for one drive.

The built-in filters start without a heading device, reject outliers and use every sensor at its
time: ``vehicled list estimators``.
"""

from math import atan2, cos, hypot, isfinite, remainder, sin, tau
from typing import Any, ClassVar

import numpy as np
from msgspec import Struct

from vehicled.core.messages import (
    ActuatorCommand,
    EstimatorStatus,
    GnssFix,
    Heading,
    ImuSample,
    Message,
    StateEstimate,
    WheelSpeed,
)
from vehicled.core.vehicle import Positive, Vehicle
from vehicled.paths.datum import Datum


class TemplateClassParams(Struct, frozen=True):
    """Parameters: the table [estimator.TemplateClass] of the profile, which checks them."""

    speed_noise_mps2: Positive = 1.0
    """Acceleration that the filter does not know, standard deviation over one second."""
    yaw_noise_radps: Positive = 0.02
    """Yaw rate error of the gyro, standard deviation over one second."""


class TemplateClass:
    """The filter; its state is x, y (m, frame ``map``), yaw (rad) and speed (m/s) of the rear
    axle."""

    Params: ClassVar[type[TemplateClassParams]] = TemplateClassParams

    def __init__(
        self,
        params: TemplateClassParams,
        vehicle: Vehicle,
        datum: Datum,
        lever_arm_m: tuple[float, float, float],
    ) -> None:
        """``datum`` converts positions to the map, ``lever_arm_m`` points from the rear axle to the
        antenna: forward, left, up."""
        self._params = params
        self._datum = datum
        self._lever_m = lever_arm_m
        self._state: Any = np.full(4, np.nan)
        self._covariance: Any = np.diag([1.0, 1.0, 1.0, 1.0])
        self._yaw_rate_radps = 0.0
        self._t_ns = 0
        self._newest_ns = 0
        self._position_nis = float("nan")

    def observe(self, message: Message) -> None:
        """Take a measurement. Types that are not used are ignored."""
        if isinstance(message, ImuSample):
            self._yaw_rate_radps = message.angular_rate_radps[2]
        elif isinstance(message, Heading):
            self._newest_ns = max(self._newest_ns, message.t_ns)
            if not isfinite(self._state[2]):
                self._state[2] = message.yaw_rad
            elif self._started:
                error = remainder(message.yaw_rad - self._state[2], tau)
                self._update(
                    np.array([error]),
                    np.array([[0.0, 0.0, 1.0, 0.0]]),
                    np.array([[message.sigma_rad**2]]),
                )
        elif isinstance(message, WheelSpeed) and self._started:
            self._update(
                np.array([message.speed_mps - self._state[3]]),
                np.array([[0.0, 0.0, 0.0, 1.0]]),
                np.array([[message.sigma_mps**2]]),
            )
        elif isinstance(message, GnssFix):
            self._newest_ns = max(self._newest_ns, message.t_ns)
            self._observe_fix(message)

    def _observe_fix(self, fix: GnssFix) -> None:
        east, north, _ = self._datum.to_enu(fix.latitude_rad, fix.longitude_rad, fix.height_m)
        variance = fix.position_covariance_m2[0]
        variance = variance if isfinite(variance) and variance > 0.0 else 4.0
        yaw = self._state[2]
        if not isfinite(yaw):
            return
        forward, left, _ = self._lever_m
        axle = np.array(
            [
                east - forward * cos(yaw) + left * sin(yaw),
                north - forward * sin(yaw) - left * cos(yaw),
            ]
        )
        if not self._started:
            self._state = np.array([axle[0], axle[1], yaw, 0.0])
            self._covariance = np.diag([variance, variance, 0.01, 0.25])
            self._t_ns = fix.t_ns
            return
        # The fix is older than the state: where was the vehicle then?
        age_s = max(self._t_ns - fix.t_ns, 0) * 1e-9
        then = self._state[:2] - age_s * self._state[3] * np.array([cos(yaw), sin(yaw)])
        self._position_nis = self._update(axle - then, np.eye(2, 4), variance * np.eye(2))
        east_mps, north_mps, _ = fix.velocity_enu_mps
        if isfinite(east_mps + north_mps):
            along = cos(atan2(north_mps, east_mps) - self._state[2])
            measured = hypot(east_mps, north_mps) * along
            self._update(
                np.array([measured - self._state[3]]),
                np.array([[0.0, 0.0, 0.0, 1.0]]),
                np.array([[0.05**2]]),
            )

    @property
    def _started(self) -> bool:
        return bool(np.isfinite(self._state).all())

    def _update(self, innovation: Any, h: Any, noise: Any) -> float:
        """Correct the state by a measurement with Jacobian ``h``; return its normalised innovation
        squared."""
        s = h @ self._covariance @ h.T + noise
        gain = np.linalg.solve(s, h @ self._covariance).T
        self._state = self._state + gain @ innovation
        self._state[2] = remainder(self._state[2], tau)
        left = np.eye(4) - gain @ h
        # Joseph's form keeps the covariance symmetric and positive.
        self._covariance = left @ self._covariance @ left.T + gain @ noise @ gain.T
        return float(innovation @ np.linalg.solve(s, innovation))

    def command(self, command: ActuatorCommand) -> None:
        """Take the command that was sent; this filter does not use it."""

    def adapt(self, vehicle: Vehicle) -> None:
        """Take identified parameters; this filter uses none."""

    def step(self, now_ns: int) -> StateEstimate:
        """Predict to ``now_ns`` and return the state."""
        if self._started:
            dt_s = max(now_ns - self._t_ns, 0) * 1e-9
            self._t_ns = now_ns
            _, _, yaw, speed = self._state
            self._state = self._state + dt_s * np.array(
                [speed * cos(yaw), speed * sin(yaw), self._yaw_rate_radps, 0.0]
            )
            f = np.eye(4)
            f[0, 2], f[1, 2] = -dt_s * speed * sin(yaw), dt_s * speed * cos(yaw)
            f[0, 3], f[1, 3] = dt_s * cos(yaw), dt_s * sin(yaw)
            noise = np.diag(
                [1e-4, 1e-4, self._params.yaw_noise_radps**2, self._params.speed_noise_mps2**2]
            )
            self._covariance = f @ self._covariance @ f.T + dt_s * noise
        x, y, yaw, speed = self._state.tolist()
        return StateEstimate(
            t_ns=now_ns,
            newest_input_ns=self._newest_ns,
            x_m=x,
            y_m=y,
            yaw_rad=yaw,
            speed_mps=speed,
            yaw_rate_radps=self._yaw_rate_radps,
            covariance=tuple(self._covariance.ravel().tolist()),
            status=EstimatorStatus.RUNNING if self._started else EstimatorStatus.UNINITIALISED,
            normalised_innovation_squared=self._position_nis,
        )
