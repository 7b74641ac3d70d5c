"""State of the planar filter and its prediction.

Rear axle: position, yaw, speed. Sensors: bias of the gyro, misalignment or drift of the heading,
scale of the wheels, error of the GNSS position and its rate. Vehicle: acceleration of the full
drive, friction, steering gain and offset.

    dx/dt = v cos(yaw)    dy/dt = v sin(yaw)
    dyaw/dt = gyro - bias, or v tan(gain u + offset) / wheelbase without a gyro
    dv/dt = authority throttle - damping v - sign(v) (friction + scrub |curvature| + brake)
    d2e/dt2 = -w^2 e - 2 z w de/dt + noise, w = 2 (walk / size)^2

The drive is that of :class:`vehicled.core.vehicle.Drive`, whose damping is kept, because driving
data cannot separate it from friction. The error of GNSS is a second-order Gauss-Markov process per
axis (Brown and Hwang 2012, 5.3) with a random walk on top of it. Errors of 0.2 m and of 2 m walk
alike over seconds; the first turns back within seconds, the second within minutes.
"""

from math import ceil, copysign, cos, exp, remainder, sin, tan, tau
from typing import Any, NamedTuple

import numpy as np

from vehicled.core.arrays import Array
from vehicled.core.clamp import clamp
from vehicled.core.messages import HeadingKind
from vehicled.core.vehicle import Vehicle
from vehicled.estimation.congruence import Congruence
from vehicled.estimation.counters import GateCounters
from vehicled.estimation.four_dof import drive_rate
from vehicled.estimation.planar.params import PlanarParams

(
    X,
    Y,
    YAW,
    V,
    GYRO_BIAS,
    MISALIGNMENT,
    WHEEL_SCALE,
    AUTHORITY,
    FRICTION,
    GAIN,
    OFFSET,
    EX,
    EY,
    RATE_X,
    RATE_Y,
) = range(15)
SIZE = 15

MAX_SUBSTEP_NS = 50_000_000
MIN_ERROR_SIGMA_M = 0.05
_IDENTITY = np.eye(SIZE)
_ENTRIES = {
    X: (X, YAW, V), Y: (Y, YAW, V), V: (V, AUTHORITY, FRICTION), GYRO_BIAS: (GYRO_BIAS,),
    MISALIGNMENT: (MISALIGNMENT, GYRO_BIAS),
    EX: (EX, RATE_X), EY: (EY, RATE_Y), RATE_X: (EX, RATE_X), RATE_Y: (EY, RATE_Y),
}  # fmt: skip
_MEASURED = Congruence(SIZE, {**_ENTRIES, YAW: (YAW, GYRO_BIAS)})
_STEERED = Congruence(SIZE, {**_ENTRIES, YAW: (YAW, V, GAIN, OFFSET)})


class PlanarState(NamedTuple):
    """Mean ``x`` (15,), covariance ``P`` (15, 15), and the deterministic states. The arrays are
    never written to."""

    x: Array
    P: Array
    steering: float
    """Slewed steering, as a fraction of full steering."""
    throttle: float
    """Throttle after the lag of the drive, as a fraction of full drive."""
    yaw_rate_radps: float
    rest_s: float
    """Time since the vehicle last had drive or speed, s."""
    error_sigma_m: float
    """Stationary sigma of the GNSS error per axis; 0 before a solution without fixed carrier
    phase."""
    carrier: int
    """Carrier solution that the error belongs to; -1 for none."""
    heading_kind: int
    """Kind of heading that the misalignment belongs to; -1 for none."""
    counters: GateCounters
    log_likelihood: float = 0.0
    """Log of the probability density of all measurements so far; one beyond its gate counts as if
    it were at the gate."""


class Inputs(NamedTuple):
    """Inputs of one prediction."""

    driven: bool
    """True once a command was received."""
    throttle: float
    brake: float
    steering: float
    """Commanded fraction of full steering, dead zone removed."""
    yaw_rate_radps: float | None
    """Mean of the gyro, or None without a fresh one."""


def predict(
    p: PlanarParams, vehicle: Vehicle, state: PlanarState, inputs: Inputs, dt_s: float
) -> PlanarState:
    """Return the state ``dt_s`` later; EKF prediction, Sarkka 2013, Alg. 5.4. ``dt_s`` > 0 and
    short against the turn (50 ms)."""
    x = state.x.tolist()
    yaw, v = x[YAW], x[V]
    drive, steering = vehicle.drive, vehicle.steering
    lag = exp(-dt_s / p.drive_lag_s) if p.drive_lag_s > 0.0 else 0.0
    throttle = inputs.throttle + (state.throttle - inputs.throttle) * lag
    step = steering.rate_radps / steering.gain_rad * dt_s
    steer = state.steering + clamp(inputs.steering - state.steering, -step, step)
    wheel = clamp(x[GAIN] * 0.5 * (state.steering + steer) + x[OFFSET], -1.2, 1.2)
    curvature = tan(wheel) / vehicle.wheelbase_m

    transition = _IDENTITY.copy()
    # To set an entry of a memory view takes half the time of one of an array.
    F: Any = transition.data
    q = [0.0] * SIZE
    # ---- speed
    rate = drive_rate(drive)
    decay = exp(-rate * dt_s)
    gain = (1.0 - decay) / rate
    standstill = False
    if inputs.driven:
        friction = (
            (0.0 if x[FRICTION] < 0.0 else x[FRICTION])
            + p.turn_drag_mps2m * abs(curvature)
            + inputs.brake * drive.brake_deceleration_mps2
        )
        pull = x[AUTHORITY] * throttle
        sense = copysign(1.0, v if abs(v) > 1e-3 else pull)
        v_new = v * decay + (pull - sense * friction) * gain
        standstill = abs(v) <= p.rest_speed_mps and abs(throttle) < 1e-3 and inputs.throttle == 0.0
        if v_new * sense <= 0.0:
            v_new = 0.0
        else:
            F[V, AUTHORITY] = throttle * gain
            F[V, FRICTION] = -sense * gain
        q[V] = p.speed_density_mps**2 * dt_s
    else:
        v_new, decay = v, 1.0
        q[V] = p.coasting_density_mps**2 * dt_s
    rest_s = state.rest_s + dt_s if standstill else 0.0
    stands = rest_s > p.rest_s
    if stands:
        v_new, decay = 0.0, 0.0
        q[V] = 1e-4
    F[V, V] = decay
    v_mid = 0.5 * (v + v_new)
    dmid_dv = 0.5 * (1.0 + decay)

    # ---- yaw
    gyro = inputs.yaw_rate_radps
    if stands:
        yaw_rate = 0.0
    elif gyro is not None:
        yaw_rate = gyro - x[GYRO_BIAS]
        F[YAW, GYRO_BIAS] = -dt_s
        q[YAW] = p.gyro_density_rad**2 * dt_s
    else:
        yaw_rate = v_mid * curvature
        slope = v_mid / (vehicle.wheelbase_m * cos(wheel) ** 2) * dt_s
        F[YAW, V] = dt_s * curvature * dmid_dv
        F[YAW, GAIN] = slope * 0.5 * (state.steering + steer)
        F[YAW, OFFSET] = slope
        q[YAW] = (p.steering_density_rad * v_mid / vehicle.wheelbase_m) ** 2 * dt_s + 1e-6 * dt_s
    yaw_mid = yaw + 0.5 * dt_s * yaw_rate
    step_x, step_y = dt_s * cos(yaw_mid), dt_s * sin(yaw_mid)
    F[X, YAW], F[Y, YAW] = -v_mid * step_y, v_mid * step_x
    F[X, V], F[Y, V] = step_x * dmid_dv, step_y * dmid_dv

    drift = 0.0
    inertial = state.heading_kind == HeadingKind.INERTIAL
    shared = 0.0
    if inertial and gyro is not None:
        # The heading integrates this same gyro, so its bias and noise move the yaw and the heading
        # drift by opposite amounts.
        F[MISALIGNMENT, GYRO_BIAS] = dt_s
        drift = x[GYRO_BIAS] * dt_s
        shared = q[YAW]

    # ---- slow states: they change while driving, not at standstill
    if not stands:
        q[X] = q[Y] = p.position_density_m**2 * dt_s
        density = p.inertial_density_rad if inertial else p.misalignment_density_rad
        q[MISALIGNMENT] = density * density * dt_s + shared
        q[AUTHORITY] = (p.authority_walk * x[AUTHORITY]) ** 2 * dt_s
        q[FRICTION] = p.friction_walk_mps2**2 * dt_s
    # First-order Gauss-Markov keeps the variance of the bias constant over time.
    fade = exp(-dt_s / p.gyro_bias_time_s)
    F[GYRO_BIAS, GYRO_BIAS] = fade
    q[GYRO_BIAS] = p.gyro_bias_sigma_radps**2 * (1.0 - fade * fade)

    # ---- error of GNSS
    sigma_m = state.error_sigma_m
    if sigma_m < MIN_ERROR_SIGMA_M:
        sigma_m = MIN_ERROR_SIGMA_M
    e_e, e_r, r_e, r_r, q_ee, q_er, q_rr = _wander(p, sigma_m, dt_s)
    F[EX, EX] = F[EY, EY] = e_e
    F[EX, RATE_X] = F[EY, RATE_Y] = e_r
    F[RATE_X, EX] = F[RATE_Y, EY] = r_e
    F[RATE_X, RATE_X] = F[RATE_Y, RATE_Y] = r_r
    q[EX] = q[EY] = q_ee
    q[RATE_X] = q[RATE_Y] = q_rr

    mean = [
        x[X] + v_mid * step_x, x[Y] + v_mid * step_y, remainder(yaw + dt_s * yaw_rate, tau), v_new,
        fade * x[GYRO_BIAS], x[MISALIGNMENT] + drift, *x[WHEEL_SCALE:EX],
        e_e * x[EX] + e_r * x[RATE_X], e_e * x[EY] + e_r * x[RATE_Y],
        r_e * x[EX] + r_r * x[RATE_X], r_e * x[EY] + r_r * x[RATE_Y],
    ]  # fmt: skip
    covariance = (_STEERED if gyro is None else _MEASURED)(transition, state.P)
    diagonal = covariance.reshape(-1)[:: SIZE + 1]
    diagonal += q
    P: Any = covariance.data
    P[YAW, MISALIGNMENT] -= shared
    P[MISALIGNMENT, YAW] -= shared
    P[EX, RATE_X] += q_er
    P[RATE_X, EX] += q_er
    P[EY, RATE_Y] += q_er
    P[RATE_Y, EY] += q_er
    after = PlanarState(
        np.array(mean), covariance, steer, throttle, yaw_rate, rest_s, state.error_sigma_m,
        state.carrier, state.heading_kind, state.counters, state.log_likelihood,
    )  # fmt: skip
    if stands and gyro is not None:
        return _rest_bias(p, after, gyro, dt_s)
    return after


def _rest_bias(p: PlanarParams, state: PlanarState, gyro_radps: float, dt_s: float) -> PlanarState:
    """Fuse the gyro as a measurement of its bias at standstill: a scalar update with its white
    noise over ``dt_s``."""
    if abs(gyro_radps) > 0.05:
        return state
    column = state.P[:, GYRO_BIAS]
    gain = column / (column[GYRO_BIAS] + p.gyro_rest_density_rad**2 / dt_s)
    # Rank one, from a scalar: the subtraction keeps P positive definite because the gain is below
    # 1.
    P = state.P - np.outer(gain, column)
    return state._replace(x=state.x + gain * (gyro_radps - state.x[GYRO_BIAS]), P=0.5 * (P + P.T))


def error_frequency(p: PlanarParams, sigma_m: float) -> float:
    """Return the natural frequency, 1/s, of an error of the GNSS position with this stationary
    sigma."""
    return min(2.0 * (p.error_walk_m / sigma_m) ** 2, 1.0 / p.error_min_time_s)


def _wander(
    p: PlanarParams, sigma_m: float, dt_s: float
) -> tuple[float, float, float, float, float, float, float]:
    """Return transition (2, 2) and covariance of that process over ``dt_s``, to third order in
    time."""
    w = error_frequency(p, sigma_m)
    k, c = w * w, 2.0 * p.error_damping * w
    h = dt_s
    # Columns of I + A h + (A h)^2 / 2 + (A h)^3 / 6 for A = [[0, 1], [-k, -c]].
    h2, h3 = 0.5 * h * h, h * h * h / 6.0
    e_e = 1.0 - k * h2 + k * c * h3
    e_r = h - c * h2 + (c * c - k) * h3
    r_e = -k * e_r
    r_r = e_e - c * e_r
    size_m2 = sigma_m * sigma_m
    walk_m2 = min(p.error_walk_m * p.error_walk_m, 2.0 * size_m2 / p.error_min_time_s)
    q = 2.0 * c * k * size_m2
    return e_e, e_r, r_e, r_r, q * h * h * h / 3.0 + walk_m2 * h, q * h2, q * h


def substeps(t0_ns: int, t1_ns: int) -> int:
    """Return the number of prediction steps of an interval."""
    long_ns = t1_ns - t0_ns
    return 1 if long_ns <= MAX_SUBSTEP_NS else ceil(long_ns / MAX_SUBSTEP_NS)
