"""Prediction of the 4-DOF model: a single track moved by a DC motor with gear and losses.

State q = (x, y, theta, v) of the rear axle and input u = (throttle alpha, wheel angle delta):

dx/dt = v cos(theta)    dy/dt = v sin(theta)    dtheta/dt = v tan(delta) / l
dv/dt = (r gamma / I) (f1 - f0) - b

with f1, f0 as in :class:`vehicled.core.vehicle.Drive` and b the deceleration of the brake.
Unjhawala et al. 2023, with two corrections: the Jacobian is that of the step taken, F = I + dt
df/dq to first order, and v falls below 0 only where the drive has a reverse.

With the coefficients of :mod:`~vehicled.estimation.dynamic_single_track` the wheels slip sideways
and the yaw rate lags; lateral velocity and yaw rate are then propagated like the wheel angle, as
known values outside the covariance.
"""

from math import copysign, cos, exp, expm1, inf, isfinite, remainder, sin, tan, tau

import numpy as np
from msgspec import Struct

from vehicled.core.messages import NAN
from vehicled.core.vehicle import Drive, Vehicle
from vehicled.estimation import coloured_error
from vehicled.estimation.coloured_error import ColouredError
from vehicled.estimation.dynamic_single_track import SingleTrack, lateral_step

Covariance = tuple[float, ...]
"""(16,) row-major 4 x 4 over (x, y, yaw, speed); symmetric."""


class FourDofState(Struct, frozen=True, gc=False):
    """Mean and covariance of (x, y, yaw, speed), and values taken as known: slewed wheel angle, yaw
    rate, lateral velocity."""

    x_m: float
    y_m: float
    yaw_rad: float
    speed_mps: float
    wheel_rad: float
    covariance: Covariance
    yaw_rate_radps: float = 0.0
    """Yaw rate of the last step, rad/s."""
    lateral_mps: float = 0.0
    """Velocity of the rear axle to the left; 0 unless tyres are modelled."""
    surplus_mps2: float = 0.0
    """Acceleration beyond the drive model while the vehicle moves, m/s2; signed like the speed."""
    coloured: ColouredError | None = None
    """Slow error of the GNSS position; None on fixed solutions."""


class Input(Struct, frozen=True, gc=False):
    """Input during one step, delays already applied."""

    throttle: float
    brake: float
    wheel_command_rad: float
    """Angle the wheel is slewing to."""
    yaw_rate_radps: float = NAN
    """Measured rate, bias removed; NaN selects the rate of the single-track model."""


class Densities(Struct, frozen=True, gc=False):
    """Process noise as continuous-time densities (unit per root second): the variance added depends
    on time, not on the rate."""

    position_m: float
    yaw_rad: float
    wheel_rad: float
    """Density of the wheel angle (rad per root Hz); it enters the yaw as v/l times this without a
    gyro."""
    speed_mps: float
    coloured_time_s: float = 60.0
    """Correlation time of the slow error of GNSS."""


class ModelTransition(Struct, frozen=True, gc=False):
    """Result of one transition: the new mean and the entries of its Jacobian that are neither 0 nor
    1."""

    x_m: float
    y_m: float
    yaw_rad: float
    speed_mps: float
    wheel_rad: float
    yaw_rate_radps: float
    lateral_mps: float
    dx_dyaw: float
    dx_dv: float
    dy_dyaw: float
    dy_dv: float
    dyaw_dv: float
    dv_dv: float


def slew(wheel_rad: float, target_rad: float, max_step_rad: float, limit_rad: float) -> float:
    """Return the wheel angle after moving towards the target by at most ``max_step_rad``, clamped
    to ``limit_rad``."""
    # Comparisons instead of min and max: this runs a dozen times in every controller step, where
    # calls are costly.
    move = target_rad - wheel_rad
    if move > max_step_rad:
        move = max_step_rad
    elif move < -max_step_rad:
        move = -max_step_rad
    wheel_rad += move
    if wheel_rad > limit_rad:
        return limit_rad
    return wheel_rad if wheel_rad > -limit_rad else -limit_rad


def lowest_speed_mps(drive: Drive) -> float:
    """Return the lower bound of the estimated speed: 0 for a vehicle that can neither reverse nor
    brake when it rolls back."""
    return -inf if drive.reverse_share > 0.0 or drive.brake_deceleration_mps2 > 0.0 else 0.0


def drive_rate(drive: Drive) -> float:
    """Return the rate (1/s) at which the speed settles: -d(dv/dt)/dv, a constant of the linear
    motor."""
    return (
        drive.stall_torque_nm / drive.no_load_speed_radps + drive.viscous_nms
    ) / drive.inertia_kgm2


def transition(
    vehicle: Vehicle,
    state: FourDofState,
    command: Input,
    dt_s: float,
    track: SingleTrack | None = None,
) -> ModelTransition:
    """Return the mean after ``dt_s`` and the Jacobian of that step over (x, y, yaw, speed). With
    ``track`` the tyres slip.

    Speed is integrated exactly (the drive is linear in it, so a stiff motor is stable at any step),
    the pose by the midpoint rule. Where the speed reaches zero or its bound, the Jacobian of moving
    is kept: 0 would make the filter certain of standstill.
    """
    drive, steering, wheelbase_m = vehicle.drive, vehicle.steering, vehicle.wheelbase_m
    rate = drive_rate(drive)
    before, throttle = state.speed_mps, command.throttle
    braking = copysign(
        command.brake * drive.brake_deceleration_mps2, before if before != 0.0 else throttle
    )
    acceleration = drive.acceleration_mps2(throttle, before) - braking
    if before != 0.0:
        acceleration += state.surplus_mps2
    v = drive.settled_mps(before, before - acceleration * expm1(-rate * dt_s) / rate, throttle)
    if v < 0.0:
        v = max(v, lowest_speed_mps(drive))
    v_mid = 0.5 * (before + v)
    dv_dv = exp(-rate * dt_s)
    dmid_dv = 0.5 * (1.0 + dv_dv)

    wheel = slew(
        state.wheel_rad,
        command.wheel_command_rad,
        steering.rate_radps * dt_s,
        steering.max_wheel_rad,
    )
    lateral = dlateral_dv = 0.0
    if track is not None:
        lateral, yaw_rate, dlateral_dv, drate_dv = lateral_step(
            track,
            v_mid,
            state.lateral_mps,
            state.yaw_rate_radps,
            tan(0.5 * (state.wheel_rad + wheel)),
            command.yaw_rate_radps,
            dt_s,
        )
        dlateral_dv *= dmid_dv
        dyaw_dv = dt_s * drate_dv * dmid_dv
    elif isfinite(command.yaw_rate_radps):
        yaw_rate = command.yaw_rate_radps
        dyaw_dv = 0.0
    else:
        curvature = tan(0.5 * (state.wheel_rad + wheel)) / wheelbase_m
        yaw_rate = v_mid * curvature
        dyaw_dv = dt_s * curvature * dmid_dv
    yaw_mid = state.yaw_rad + 0.5 * dt_s * yaw_rate
    step_x = dt_s * cos(yaw_mid)
    step_y = dt_s * sin(yaw_mid)
    dx = v_mid * step_x - lateral * step_y
    dy = v_mid * step_y + lateral * step_x
    return ModelTransition(
        state.x_m + dx,
        state.y_m + dy,
        remainder(state.yaw_rad + dt_s * yaw_rate, tau),
        v,
        wheel,
        yaw_rate,
        lateral,
        -dy,
        step_x * dmid_dv - step_y * dlateral_dv - 0.5 * dy * dyaw_dv,
        dx,
        step_y * dmid_dv + step_x * dlateral_dv + 0.5 * dx * dyaw_dv,
        dyaw_dv,
        dv_dv,
    )


def propagate(p: Covariance, s: ModelTransition) -> Covariance:
    """Return F P F' for F = [[1, 0, dx_dyaw, dx_dv], [0, 1, dy_dyaw, dy_dv], [0, 0, 1, dyaw_dv],
    [0, 0, 0, dv_dv]].

    Written out in plain floats, because at this size they are faster than numpy.
    """
    _, p01, p02, p03, _, p11, p12, p13, _, _, p22, p23, _, _, _, p33 = p
    a, b, c, d, e, f = s.dx_dyaw, s.dx_dv, s.dy_dyaw, s.dy_dv, s.dyaw_dv, s.dv_dv
    # M = F P, needed columns only.
    m02 = p02 + a * p22 + b * p23
    m03 = p03 + a * p23 + b * p33
    m11 = p11 + c * p12 + d * p13
    m12 = p12 + c * p22 + d * p23
    m13 = p13 + c * p23 + d * p33
    m22 = p22 + e * p23
    m23 = p23 + e * p33
    # P+ = M F', upper triangle.
    n00 = p[0] + a * p02 + b * p03 + a * m02 + b * m03
    n01 = p01 + a * p12 + b * p13 + c * m02 + d * m03
    n02 = m02 + e * m03
    n03 = f * m03
    n11 = m11 + c * m12 + d * m13
    n12 = m12 + e * m13
    n13 = f * m13
    n22 = m22 + e * m23
    n23 = f * m23
    return (n00, n01, n02, n03, n01, n11, n12, n13, n02, n12, n22, n23, n03, n13, n23, f * f * p33)


def predict(
    noise: Densities,
    vehicle: Vehicle,
    state: FourDofState,
    command: Input,
    dt_s: float,
    track: SingleTrack | None = None,
) -> FourDofState:
    """Return the state ``dt_s`` later. ``dt_s`` > 0, short against the turn (20 ms).

    P+ = F P F' + Q dt with Q diagonal. EKF prediction, Sarkka 2013, Alg. 5.4.
    """
    s = transition(vehicle, state, command, dt_s, track)
    p = propagate(state.covariance, s)
    position_m = (
        noise.position_m
        if state.coloured is None
        else max(noise.position_m, state.coloured.drift_m)
    )
    q_position = position_m * position_m * dt_s
    q_yaw = noise.yaw_rad * noise.yaw_rad
    if not isfinite(command.yaw_rate_radps):
        slip = noise.wheel_rad * state.speed_mps / vehicle.wheelbase_m
        q_yaw += slip * slip
    covariance = (
        p[0] + q_position, p[1], p[2], p[3],
        p[4], p[5] + q_position, p[6], p[7],
        p[8], p[9], p[10] + q_yaw * dt_s, p[11],
        p[12], p[13], p[14], p[15] + noise.speed_mps * noise.speed_mps * dt_s,
    )  # fmt: skip
    coloured = state.coloured
    if coloured is not None:
        F = np.array((
            (1.0, 0.0, s.dx_dyaw, s.dx_dv), (0.0, 1.0, s.dy_dyaw, s.dy_dv),
            (0.0, 0.0, 1.0, s.dyaw_dv), (0.0, 0.0, 0.0, s.dv_dv)
        ))  # fmt: skip
        coloured = coloured_error.predicted(coloured, F, noise.coloured_time_s, dt_s)
    return FourDofState(
        s.x_m, s.y_m, s.yaw_rad, s.speed_mps, s.wheel_rad, covariance, s.yaw_rate_radps,
        s.lateral_mps, state.surplus_mps2, coloured
    )  # fmt: skip
