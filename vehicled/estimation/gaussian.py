"""The measurement update of a Gaussian state: gate, forced acceptance, Joseph form."""

from math import isfinite, log
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from vehicled.estimation.four_dof import Covariance

Array = npt.NDArray[np.float64]

_IDENTITY = np.eye(4)


class Measurement(Struct, frozen=True, gc=False):
    """Linearised measurement of m values (m is 1 or 2): residual = H dq + noise, noise ~ N(0, R)."""

    residual: Array
    """(m,) measured minus expected."""
    H: Array
    """(m, 4) derivative of the expected measurement by (x, y, yaw, speed)."""
    R: Array
    """(m, m) covariance of the noise, positive definite."""
    inflation: tuple[float, float, float, float]
    """Variances to add when this measurement is accepted against the gate: they make room for the residual."""


class Update(Struct, frozen=True, gc=False):
    """Result of a measurement: ``shift`` (4,) to add to the mean, the new covariance, and what the gate saw."""

    shift: tuple[float, ...]
    covariance: Covariance
    nis: float
    """Normalised innovation squared, before any inflation; chi-square with m degrees of freedom when all is consistent."""
    accepted: bool


def chi_square_limit(probability: float, degrees: int) -> float:
    """Value that a chi-square variable of 1 or 2 ``degrees`` of freedom stays below with ``probability`` < 1."""
    if degrees == 2:
        return -2.0 * log(1.0 - probability)
    return NormalDist().inv_cdf(0.5 * (1.0 + probability)) ** 2


def update(covariance: Covariance, z: Measurement, limit: float, forced: bool) -> Update:
    """Kalman update, Sarkka 2013, Alg. 5.4, with the covariance in Joseph form, which stays positive definite under rounding.

    covariance (16,); a normalised innovation squared above ``limit`` leaves everything unchanged (shift 0, accepted False), unless
    ``forced``: then ``z.inflation`` is added to the variances first. A result that is not finite is refused. Never raises.
    """
    P = np.array(covariance).reshape(4, 4)
    H, R, residual = z.H, z.R, z.residual
    PHt = P @ H.T
    S_inverse = _inverse(H @ PHt + R)
    nis = float(residual @ S_inverse @ residual)
    if not nis <= limit:
        if not forced or not isfinite(nis):
            return Update((0.0, 0.0, 0.0, 0.0), covariance, nis, False)
        P = P + np.diag(z.inflation)
        PHt = P @ H.T
        S_inverse = _inverse(H @ PHt + R)
    K = PHt @ S_inverse
    A = _IDENTITY - K @ H
    P = A @ P @ A.T + K @ R @ K.T
    return Update(tuple((K @ residual).tolist()), tuple((0.5 * (P + P.T)).ravel().tolist()), nis, True)


def _inverse(S: Array) -> Array:
    """Inverse of a positive definite 1 x 1 or 2 x 2 matrix, written out: at this size a call of LAPACK costs far more."""
    if S.shape[0] == 1:
        return 1.0 / S
    a, b, c, d = S.ravel().tolist()
    scale = 1.0 / (a * d - b * c)
    return np.array(((d * scale, -b * scale), (-c * scale, a * scale)))
