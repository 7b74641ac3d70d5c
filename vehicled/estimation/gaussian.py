"""Measurement update of a Gaussian state: gate, forced acceptance, Joseph form."""

from math import isfinite, log
from statistics import NormalDist

import numpy as np
from msgspec import Struct

from vehicled.core.arrays import Array, matmul
from vehicled.estimation import coloured_error
from vehicled.estimation.coloured_error import ColouredError
from vehicled.estimation.four_dof import Covariance

_IDENTITY = np.eye(4)
_IDENTITY_6 = np.eye(6)


class Measurement(Struct, frozen=True, gc=False):
    """Linearised measurement of m values (m is 1 or 2): residual = H dq + noise, noise ~ N(0,
    R)."""

    residual: Array
    """(m,) measured minus expected."""
    H: Array
    """(m, 4) derivative of the expected measurement by (x, y, yaw, speed)."""
    R: Array
    """(m, m) covariance of the noise, positive definite."""
    inflation: tuple[float, float, float, float]
    """Variances to add when this measurement is accepted against the gate, so that the state can
    follow the residual."""
    with_error: bool = False
    """True if the measurement is a position with the slow error of GNSS, which then takes the
    inflation."""


class Update(Struct, frozen=True, gc=False):
    """Result of a measurement: ``shift`` (4,) to add to the mean, the new covariance, and the gate
    result."""

    shift: tuple[float, ...]
    covariance: Covariance
    nis: float
    """Normalised innovation squared, before any inflation; chi-square with m degrees of freedom
    when all is consistent."""
    accepted: bool
    coloured: ColouredError | None = None


def chi_square_limit(probability: float, degrees: int) -> float:
    """Return the value that a chi-square variable of 1 or 2 ``degrees`` of freedom stays below with
    ``probability`` < 1."""
    if degrees == 2:
        return -2.0 * log(1.0 - probability)
    return NormalDist().inv_cdf(0.5 * (1.0 + probability)) ** 2


def update(
    covariance: Covariance,
    z: Measurement,
    limit: float,
    forced: bool,
    coloured: ColouredError | None = None,
) -> Update:
    """Return the Kalman update, Sarkka 2013, Alg. 5.4. The covariance is in Joseph form, which
    stays positive definite under rounding.

    ``covariance`` is (16,). A normalised innovation squared above ``limit`` changes nothing (shift
    0, accepted False), unless ``forced``: then ``z.inflation`` is added to the variances first. A
    result that is not finite is rejected. Never raises. ``coloured`` is estimated together with the
    state.
    """
    P = np.array(covariance).reshape(4, 4)
    H, R, residual = z.H, z.R, z.residual
    identity = _IDENTITY
    inflation: tuple[float, ...] = z.inflation
    if coloured is not None:
        P = coloured_error.joint(P, coloured)
        H = np.hstack((H, np.eye(2) if z.with_error else np.zeros((len(residual), 2))))
        identity = _IDENTITY_6
        inflation = (
            (0.0, 0.0, *inflation[2:], *inflation[:2]) if z.with_error else (*inflation, 0.0, 0.0)
        )
    HP = matmul(H, P)
    S_inverse = _inverse(matmul(HP, H.T) + R)
    nis = float(np.sum(matmul(residual, S_inverse) * residual))
    if not nis <= limit:
        if not forced or not isfinite(nis):
            return Update((0.0, 0.0, 0.0, 0.0), covariance, nis, False, coloured)
        P = P + np.diag(inflation)
        HP = matmul(H, P)
        S_inverse = _inverse(matmul(HP, H.T) + R)
    Kt = matmul(S_inverse, HP)
    before = P
    A = identity - matmul(Kt.T, H)
    P = matmul(matmul(A, P), A.T) + matmul(matmul(Kt.T, R), Kt)
    shift, P = matmul(residual, Kt), 0.5 * (P + P.T)
    if coloured is None:
        return Update(tuple(shift.tolist()), tuple(P.ravel().tolist()), nis, True)
    if z.with_error:
        coloured_error.restore_floor(
            P, (float(before[0, 0]), float(before[1, 1])), (0, 1), (4, 5), coloured.sigma_m
        )
    return Update(
        tuple(shift[:4].tolist()),
        tuple(P[:4, :4].ravel().tolist()),
        nis,
        True,
        coloured_error.corrected(coloured, shift[4:], P),
    )


def _inverse(S: Array) -> Array:
    """Return the inverse of a positive definite 1 x 1 or 2 x 2 matrix, written out, because a
    LAPACK call costs far more."""
    if S.shape[0] == 1:
        return 1.0 / S
    a, b, c, d = S.ravel().tolist()
    scale = 1.0 / (a * d - b * c)
    return np.array(((d * scale, -b * scale), (-c * scale, a * scale)))
