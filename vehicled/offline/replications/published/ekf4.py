"""The 4-DOF filter of Unjhawala et al. 2023 as it ran on the vehicle, with its errors, for
comparison only: do not drive with it.

State (x, y, theta, v), measurement (x, y, theta), one explicit Euler step of 0.1 s at 10 Hz,
independent of the call rate. Its errors, kept here (:mod:`~vehicled.estimation.ekf4.estimator`
corrects them):

- The Jacobian is dt (I + df/dq), except for a 1 at dy/dy, instead of I + dt df/dq. The filter thus
  forgets x, heading and speed at every step: a fix corrects x by 1 % and y by 10 % of its error,
  and the speed hardly, which is open loop in the throttle.
- Nothing keeps the speed at 0 when the motor's friction pulls it below: at standstill the filter
  drives backward.
- No gate, no delay of the actuators, no slew of the wheel, no lever arm; a measurement is as old as
  its arrival; process noise is a variance per step, not per time; the position is held between
  steps.
- The covariance update is (I - K H) P, which rounding makes asymmetric.

The defaults are those of the outdoor runs of August 2023, found by reproducing the recorded states
to their last digit. Indoors, in March 2023, stall torque, no-load speed, friction and wheel angle
were 0.09 N m, 161.185 rad/s, 0.039 N m and 0.37 rad. Released versions of the code differ again:
heading sigma of the process noise 3 rad or none where 3 degrees were meant, heading sigma of the
measurement read from the wrong place.
"""

from math import atan2, cos, isfinite, pi, sin, tan
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta, Struct

from vehicled.core.arrays import Array
from vehicled.core.messages import (
    NAN,
    ActuatorCommand,
    EstimatorStatus,
    GnssFix,
    Heading,
    Message,
    StateEstimate,
)
from vehicled.core.vehicle import Positive, Vehicle
from vehicled.estimation.ekf4.inputs import is_possible
from vehicled.estimation.measurements import enu_m
from vehicled.paths.datum import Datum

STEP_S = 0.1
STEP_NS = 100_000_000
MAX_STEPS = 10
"""Most steps repeated at once after a pause; longer pauses are lost, because the filter has no
notion of time."""
MAX_STATE = 1e8
_H = np.eye(3, 4)


class Ekf4PublishedParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Parameters of the published code, not of the profile's vehicle: their contradiction of the
    vehicle is part of the publication."""

    stall_torque_nm: Positive = 0.3
    """Motor torque at full throttle and standstill, N m."""
    no_load_speed_radps: Positive = 30.0
    """Motor speed at full throttle without load, rad/s."""
    friction_nm: Annotated[float, Meta(ge=0.0)] = 0.02
    """Dry friction, N m at the motor."""
    viscous_nms: Annotated[float, Meta(ge=0.0)] = 1e-4
    """Viscous friction, N m per rad/s at the motor."""
    gear_ratio: Positive = 1.0 / 3.0
    """Ratio of the gear, as in the equation of the drive."""
    wheel_radius_m: Positive = 0.08451952624
    """Rolling radius of the wheels, m."""
    inertia_kgm2: Positive = 1e-3
    """Inertia at the motor, kg m2."""
    wheelbase_m: Positive = 0.5
    """Distance of the axles, m."""
    wheel_angle_per_command_rad: Positive = 0.5
    """Wheel angle per unit command, rad."""
    position_sigma_m: Annotated[float, Meta(ge=0.0)] = 0.1
    """Process noise per step, like the next two."""
    yaw_sigma_rad: Annotated[float, Meta(ge=0.0)] = pi / 60.0
    """Process noise of the yaw, rad per step."""
    speed_sigma_mps: Annotated[float, Meta(ge=0.0)] = 0.1
    """Process noise of the speed, m/s per step."""
    measured_position_sigma_m: Positive = 1.0
    """Sigma of a measured position, m per axis."""
    measured_yaw_sigma_rad: Positive = 0.3
    """Sigma of a measured yaw, rad."""


class PublishedFilterState(Struct, frozen=True):
    """State q (4,) = x, y, theta, v, and covariance P (4, 4)."""

    q: Array
    P: Array


def begin(x_m: float, y_m: float, yaw_rad: float, variance: float = 1.0) -> PublishedFilterState:
    """Return the state at a given pose, at standstill. A variance of 1 is that of the published
    code."""
    return PublishedFilterState(np.array((x_m, y_m, yaw_rad, 0.0)), variance * np.eye(4))


def predict(
    p: Ekf4PublishedParams, state: PublishedFilterState, throttle: float, steering: float
) -> PublishedFilterState:
    """Return the state one step later, for commands 0..1 and -1..1. The Jacobian is that of the new
    state and wrong, see above."""
    x, y, theta, v = state.q.tolist()
    reduced = p.wheel_radius_m * p.gear_ratio
    turn = tan(p.wheel_angle_per_command_rad * steering) / p.wheelbase_m
    torque = p.stall_torque_nm * throttle - p.stall_torque_nm * v / (
        p.no_load_speed_radps * reduced
    )
    x, y = x + cos(theta) * STEP_S * v, y + sin(theta) * STEP_S * v
    theta = theta + STEP_S * v * turn
    v = v + STEP_S * reduced / p.inertia_kgm2 * (
        torque - v * p.viscous_nms / reduced - p.friction_nm
    )
    if theta > pi:
        theta -= 2.0 * pi
    elif theta < -pi:
        theta += 2.0 * pi
    slope = -(p.stall_torque_nm / p.no_load_speed_radps + p.viscous_nms) / p.inertia_kgm2
    F = np.array(
        (
            (STEP_S, 0.0, -STEP_S * v * sin(theta), STEP_S * cos(theta)),
            (0.0, 1.0, STEP_S * v * cos(theta), STEP_S * sin(theta)),
            (0.0, 0.0, STEP_S, STEP_S * turn),
            (0.0, 0.0, 0.0, STEP_S * (1.0 + slope)),
        )
    )
    Q = np.diag((p.position_sigma_m, p.position_sigma_m, p.yaw_sigma_rad, p.speed_sigma_mps)) ** 2
    return PublishedFilterState(np.array((x, y, theta, v)), F @ state.P @ F.T + Q)


def correct(
    p: Ekf4PublishedParams, state: PublishedFilterState, x_m: float, y_m: float, yaw_rad: float
) -> tuple[PublishedFilterState, float]:
    """Return the state with a measurement fused, without a gate, and the normalised innovation
    squared of its position."""
    q, P = state.q, state.P
    yaw_error = yaw_rad - float(q[2])
    residual = np.array((x_m - q[0], y_m - q[1], atan2(sin(yaw_error), cos(yaw_error))))
    R = (
        np.diag(
            (p.measured_position_sigma_m, p.measured_position_sigma_m, p.measured_yaw_sigma_rad)
        )
        ** 2
    )
    S = _H @ P @ _H.T + R
    K = P @ _H.T @ np.linalg.inv(S)
    nis = float(residual[:2] @ np.linalg.solve(S[:2, :2], residual[:2]))
    return PublishedFilterState(q + K @ residual, (np.eye(4) - K @ _H) @ P), nis


class Ekf4Published:
    """Adapter of the filter to the :class:`~vehicled.estimation.interface.Estimator` protocol. It
    starts at the first fix with a heading."""

    Params: ClassVar[type[Ekf4PublishedParams]] = Ekf4PublishedParams
    begin_variance: ClassVar[float] = 1.0

    def __init__(
        self,
        params: Ekf4PublishedParams,
        vehicle: Vehicle,
        datum: Datum,
        lever_arm_m: tuple[float, float, float],
    ) -> None:
        self._params = params
        self._datum = datum
        self._state: PublishedFilterState | None = None
        self._fix: GnssFix | None = None
        self._yaw_rad: float | None = None
        self._throttle = 0.0
        self._steering = 0.0
        self._started_ns = 0
        self._steps = 0
        self._newest_ns = 0
        self._nis = NAN
        self.ignored = 0
        """Values that were not finite or out of range."""

    def observe(self, message: Message) -> None:
        """Take a fix or a heading for the next step; only the newest of each is used."""
        if isinstance(message, GnssFix | Heading):
            if not is_possible(message):
                self.ignored += 1
            elif isinstance(message, Heading):
                self._yaw_rad = message.yaw_rad
            else:
                self._fix = message

    def command(self, command: ActuatorCommand) -> None:
        """Take a command, which acts at once."""
        if isfinite(command.throttle) and isfinite(command.steering):
            self._throttle = min(max(command.throttle, -1.0), 1.0)
            self._steering = min(max(command.steering, -1.0), 1.0)
        else:
            self.ignored += 1

    def adapt(self, vehicle: Vehicle) -> None:
        """Ignore learnt parameters, as the published code did."""

    def step(self, now_ns: int) -> StateEstimate:
        """Return the state at the last step of 0.1 s; see
        :class:`~vehicled.estimation.interface.Estimator`."""
        if self._state is None:
            self._start(now_ns)
        else:
            due = self._steps_until(now_ns) - self._steps
            if due > MAX_STEPS:
                self._steps += due - MAX_STEPS
                due = MAX_STEPS
            for _ in range(due):
                self._advance()
        return self._estimate(now_ns)

    def _start(self, now_ns: int) -> None:
        if self._fix is not None and self._yaw_rad is not None:
            east, north, _ = enu_m(self._datum, self._fix)
            self._state = begin(
                east, north, atan2(sin(self._yaw_rad), cos(self._yaw_rad)), self.begin_variance
            )
            self._started_ns, self._steps = now_ns, 0
            self._newest_ns = max(self._newest_ns, min(self._fix.t_ns, now_ns))
            self._fix = None

    def _advance(self) -> None:
        assert self._state is not None
        state = self._predicted(self._state)
        self._steps += 1
        if self._fix is not None and self._yaw_rad is not None:
            east, north, _ = enu_m(self._datum, self._fix)
            state, self._nis = self._corrected(state, east, north, self._yaw_rad)
            # The newest fix by arrival, stamped no later than its step.
            self._newest_ns = max(
                self._newest_ns, min(self._fix.t_ns, self._started_ns + self._steps * STEP_NS)
            )
            self._fix = None
        sound = bool(np.abs(state.q).max() < MAX_STATE and np.isfinite(state.P).all())
        self._state = state if sound else None

    def _steps_until(self, now_ns: int) -> int:
        return round((now_ns - self._started_ns) / STEP_NS)

    def _predicted(self, state: PublishedFilterState) -> PublishedFilterState:
        return predict(self._params, state, self._throttle, self._steering)

    def _corrected(
        self, state: PublishedFilterState, x_m: float, y_m: float, yaw_rad: float
    ) -> tuple[PublishedFilterState, float]:
        return correct(self._params, state, x_m, y_m, yaw_rad)

    def _estimate(self, now_ns: int) -> StateEstimate:
        state = self._state
        if state is None:
            return StateEstimate(now_ns, self._newest_ns, NAN, NAN, NAN, NAN, NAN, (NAN,) * 16)
        x, y, yaw, v = state.q.tolist()
        p = self._params
        rate = v * tan(p.wheel_angle_per_command_rad * self._steering) / p.wheelbase_m
        covariance = tuple((0.5 * (state.P + state.P.T)).ravel().tolist())
        return StateEstimate(
            now_ns,
            min(self._newest_ns, now_ns),
            x,
            y,
            yaw,
            v,
            rate,
            covariance,
            EstimatorStatus.RUNNING,
            self._nis,
        )
