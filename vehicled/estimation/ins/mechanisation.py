"""Prediction of the inertial filter: strapdown mechanisation and the covariance of its error.

    dp/dt = v    dv/dt = R (f - b_a) + g    dR/dt = R [w - b_g]x
    d(dp) = dv   d(dv) = -[R f]x phi - R db_a   d(phi) = -R db_g

with the error in ENU (Groves 2013, section 14.2.4, in a local plane). The rotation of the earth
(7e-5 rad/s) is far below the bias of the intended sensors and is part of it. Missing sensors are
replaced: without accelerometer the velocity turns with the body and is a random walk, without gyro
the body turns as the single-track model does for the commanded wheel angle.
"""

import struct
from math import exp, tan

import numpy as np
from msgspec import Struct

from vehicled.core.arrays import Array, matmul
from vehicled.core.messages.units import STANDARD_GRAVITY_MPS2
from vehicled.estimation.congruence import Congruence
from vehicled.estimation.ins.params import InsParams
from vehicled.estimation.ins.state import (
    BA,
    BG,
    HB,
    A,
    C,
    InsState,
    N,
    P,
    Quaternion,
    Rotation,
    S,
    Triple,
    V,
    apply_inverse,
    exponential,
    product,
    rotation,
)

ZERO: Triple = (0.0, 0.0, 0.0)

_put = struct.Struct("3d").pack_into
_ROW = 8 * N
_A_BG, _V_BA, _V_A = _ROW * A + 8 * BG, _ROW * V + 8 * BA, _ROW * V + 8 * A
"""Byte offsets of a row and of blocks in the memory of a matrix (N, N)."""

_ENTRIES = {
    **{P + k: (P + k, V + k) for k in range(3)},
    **{A + k: (A + k, BG, BG + 1, BG + 2) for k in range(3)},
    **{C + k: (C + k,) for k in range(3)},
}
_FORCED = Congruence(N, {
    **_ENTRIES,
    V: (V, A + 1, A + 2, BA, BA + 1, BA + 2),
    V + 1: (V + 1, A, A + 2, BA, BA + 1, BA + 2),
    V + 2: (V + 2, A, A + 1, BA, BA + 1, BA + 2),
})  # fmt: skip
"""Prediction with an accelerometer."""
_TURNED = Congruence(N, {**_ENTRIES, **{V + k: (V, V + 1, V + 2) for k in range(3)}})
"""Prediction without one, when the velocity turns with the body."""


class InertialInputs(Struct, frozen=True, gc=False):
    """Inputs during one interval. None marks a lost sensor."""

    force_mps2: Triple | None = None
    """Mean specific force, body axes, raw."""
    rate_radps: Triple | None = None
    """Mean angular rate, body axes, raw."""
    still: bool = False
    """True at standstill."""
    wheel_rad: float = 0.0
    """Modelled wheel angle."""


NOTHING = InertialInputs()


def mechanise(
    x: list[float], q: Quaternion, R: Rotation, force: Triple | None, rate: Triple, dt_s: float
) -> tuple[Triple, Triple, Quaternion, Rotation, Triple]:
    """Return position, velocity, attitude (quaternion and matrix) after ``dt_s``, and the mean
    specific force in ENU.

    ``force`` and ``rate`` are without bias. The force is rotated by the mean of the attitudes
    before and after, the position uses the trapezoidal rule: second order, local error rate^2 dt^3
    force / 12. ``force`` None turns the velocity with the body.
    """
    vx, vy, vz = x[3], x[4], x[5]
    q1 = product(q, exponential(rate[0] * dt_s, rate[1] * dt_s, rate[2] * dt_s))
    R1 = rotation(q1)
    if force is not None:
        fx, fy, fz = 0.5 * force[0], 0.5 * force[1], 0.5 * force[2]
        ax = (R[0] + R1[0]) * fx + (R[1] + R1[1]) * fy + (R[2] + R1[2]) * fz
        ay = (R[3] + R1[3]) * fx + (R[4] + R1[4]) * fy + (R[5] + R1[5]) * fz
        az = (R[6] + R1[6]) * fx + (R[7] + R1[7]) * fy + (R[8] + R1[8]) * fz
        ux, uy, uz = vx + ax * dt_s, vy + ay * dt_s, vz + (az - STANDARD_GRAVITY_MPS2) * dt_s
    else:
        ax = ay = az = 0.0
        bx, by, bz = apply_inverse(R, vx, vy, vz)
        ux = R1[0] * bx + R1[1] * by + R1[2] * bz
        uy = R1[3] * bx + R1[4] * by + R1[5] * bz
        uz = R1[6] * bx + R1[7] * by + R1[8] * bz
    h = 0.5 * dt_s
    return (
        (x[0] + h * (vx + ux), x[1] + h * (vy + uy), x[2] + h * (vz + uz)),
        (ux, uy, uz),
        q1,
        R1,
        (ax, ay, az),
    )


class Predictor:
    """Prediction with preallocated arrays: a step allocates only the new state.

    The transition matrix is kept and only its changing blocks are written, three numbers at a time
    into its memory, because a numpy assignment takes three times as long.
    """

    def __init__(self, params: InsParams, wheelbase_m: float) -> None:
        self._params = params
        self.wheelbase_m = wheelbase_m
        self._F = np.eye(N)
        self._memory = self._F.data
        self._dt_s = 0.0
        self._mode = (False, False)
        self._decay = 1.0
        self._rates = {
            (force, rate): noise_rates(params, force, rate)
            for force in (False, True)
            for rate in (False, True)
        }
        self._noise = np.zeros(N)
        self._turn_noise = 0.0

    @property
    def transition(self) -> Array:
        """Transition matrix (N, N) of the last step."""
        return self._F

    @property
    def noise(self) -> Array:
        """Diagonal (N,) of the process noise of the last step."""
        return self._noise

    def rate(self, s: InsState, u: InertialInputs) -> Triple:
        """Return the angular rate without bias, of the gyro, else of the single-track model."""
        x = s.x
        if u.rate_radps is not None:
            return (u.rate_radps[0] - x[9], u.rate_radps[1] - x[10], u.rate_radps[2] - x[11])
        ahead = s.R[0] * x[3] + s.R[3] * x[4] + s.R[6] * x[5]
        return (0.0, 0.0, ahead * tan(u.wheel_rad) / self.wheelbase_m)

    def predict(self, s: InsState, u: InertialInputs, dt_s: float) -> InsState:
        """Return the state after ``dt_s`` > 0 (20 ms at most, for the linearisation). ``s`` is not
        changed."""
        x = s.x
        rate = self.rate(s, u)
        raw = u.force_mps2
        force = None if raw is None else (raw[0] - x[12], raw[1] - x[13], raw[2] - x[14])
        p, v, q1, R1, force_enu = mechanise(x, s.q, s.R, force, rate, dt_s)
        self._write(s, u, R1, force_enu, dt_s)
        covariance = (_FORCED if raw is not None else _TURNED)(self._F, s.P)
        diagonal = covariance.reshape(-1)[:: N + 1]
        diagonal += self._noise
        new: InsState = InsState.__new__(InsState)
        decay = self._decay
        new.x = [*p, *v, *x[6:15], decay * x[15], decay * x[16], decay * x[17], *x[18:]]
        new.q = q1
        new.R = R1
        new.P = covariance
        new.rate_radps = rate
        new.force_mps2 = ZERO if force is None else force
        new.colour = s.colour
        new.colour_variance = s.colour_variance
        new.counters = s.counters
        return new

    def _write(
        self, s: InsState, u: InertialInputs, R1: Rotation, force_enu: Triple, dt_s: float
    ) -> None:
        """Write transition matrix and noise of this step."""
        memory = self._memory
        mode = (u.force_mps2 is not None, u.rate_radps is not None)
        if dt_s != self._dt_s or mode != self._mode:
            self._frame(dt_s, mode)
        R = s.R
        h = -0.5 * dt_s
        first = h * (R[0] + R1[0]), h * (R[1] + R1[1]), h * (R[2] + R1[2])
        second = h * (R[3] + R1[3]), h * (R[4] + R1[4]), h * (R[5] + R1[5])
        third = h * (R[6] + R1[6]), h * (R[7] + R1[7]), h * (R[8] + R1[8])
        if mode[1]:
            _put(memory, _A_BG, *first)
            _put(memory, _A_BG + _ROW, *second)
            _put(memory, _A_BG + 2 * _ROW, *third)
        if mode[0]:
            _put(memory, _V_BA, *first)
            _put(memory, _V_BA + _ROW, *second)
            _put(memory, _V_BA + 2 * _ROW, *third)
            fx, fy, fz = force_enu[0] * dt_s, force_enu[1] * dt_s, force_enu[2] * dt_s
            _put(memory, _V_A, 0.0, fz, -fy)
            _put(memory, _V_A + _ROW, -fz, 0.0, fx)
            _put(memory, _V_A + 2 * _ROW, fy, -fx, 0.0)
        else:
            self._F[V : V + 3, V : V + 3] = matmul(
                np.array(R1).reshape(3, 3), np.array(R).reshape(3, 3).T
            )
        noise = self._noise
        # The coloured error keeps its stationary variance.
        renewed = 1.0 - self._decay * self._decay
        c = s.colour_variance
        noise[15], noise[16], noise[17] = renewed * c[0], renewed * c[1], renewed * c[2]
        drift = self._params.gnss.coloured_drift
        walk = 0.0 if mode[0] or s.colour < 0 else drift * drift * dt_s
        noise[0], noise[1] = walk * c[0], walk * c[1]
        if not mode[1]:
            slip = (
                self._params.wheel_density_rad
                * (s.R[0] * s.x[3] + s.R[3] * s.x[4])
                / self.wheelbase_m
            )
            noise[8] = self._turn_noise + slip * slip * dt_s

    def _frame(self, dt_s: float, mode: tuple[bool, bool]) -> None:
        """Write the entries that depend only on the step length and the available sensors."""
        F = self._F
        if mode != self._mode:
            F[:] = np.eye(N)
            self._mode = mode
        self._dt_s = dt_s
        F[0, 3] = F[1, 4] = F[2, 5] = dt_s
        self._decay = decay = exp(-dt_s / self._params.gnss.coloured_time_s)
        F[15, 15] = F[16, 16] = F[17, 17] = decay
        np.multiply(self._rates[mode], dt_s, out=self._noise)
        self._turn_noise = float(self._noise[8])


def noise_rates(params: InsParams, force: bool, rate: bool) -> Array:
    """Return the variance (N,) that process noise adds per second, with or without accelerometer
    and gyro. It excludes the coloured error, which depends on the receiver, and the wheel angle
    without gyro, which depends on the speed."""
    imu = params.imu
    q = np.zeros(N)
    q[V : V + 3] = (imu.accelerometer_density_mps2 if force else params.speed_density_mps) ** 2
    q[A : A + 3] = imu.gyro_density_radps**2
    q[BG : BG + 3] = imu.gyro_bias_walk_radps**2
    q[BA : BA + 3] = imu.accelerometer_bias_walk_mps2**2
    for kind, use in enumerate((params.inertial, params.magnetic, params.moving_base)):
        q[HB + kind] = use.bias_walk_rad**2
    # The radius of a tyre follows its pressure and temperature: by one per cent in hours.
    q[S] = 1e-8
    return q
