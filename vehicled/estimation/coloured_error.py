"""Slow error of a GNSS position as a pair of states beside the four of the 4-DOF filter.

First-order Gauss-Markov per axis: ``e' = exp(-dt / T) e + noise``, stationary standard deviation as
the receiver declares. The covariance of all six is kept in blocks, so that a filter on fixed
solutions, which has no such error, carries none.
"""

from math import exp

import numpy as np
from msgspec import Struct

from vehicled.core.arrays import Array, matmul

FLOOR_RATIO = 0.7
"""Lower bound of the position sigma over the declared one. Part of the slow error, from multipath
and ionosphere, outlasts a drive, so no number of fixes averages it away."""


class ColouredError(Struct, frozen=True, gc=False):
    """Slow error of the position, m, east and north, and its covariance. The arrays are never
    written to."""

    mean_m: tuple[float, float]
    cross: Array
    """(4, 2), with x, y, yaw, speed."""
    own: Array
    """(2, 2)"""
    sigma_m: float
    """Stationary standard deviation per axis."""
    carrier: int
    """Carrier solution that the error belongs to; another solution has another error."""
    drift_m: float = 0.0
    """Density of the random walk of the predicted position beside this error, m per root second."""


def begin(sigma_m: float, carrier: int) -> ColouredError:
    """Return a zero-mean error with the stationary covariance."""
    return ColouredError(
        (0.0, 0.0), np.zeros((4, 2)), sigma_m * sigma_m * np.eye(2), sigma_m, carrier
    )


def continued(error: ColouredError | None, sigma_m: float, carrier: int) -> ColouredError:
    """Return the error for a fix that declares ``sigma_m``: the previous one for the same kind of
    solution, else a new one.

    If the receiver declares more than before, the difference is added at once, because the error
    may already have grown.
    """
    if error is None or error.carrier != carrier:
        return begin(sigma_m, carrier)
    if error.sigma_m == sigma_m:
        return error
    more_m2 = max(sigma_m * sigma_m - error.sigma_m * error.sigma_m, 0.0)
    return ColouredError(
        error.mean_m, error.cross, error.own + more_m2 * np.eye(2), sigma_m, carrier, error.drift_m
    )


def predicted(error: ColouredError, transition: Array, time_s: float, dt_s: float) -> ColouredError:
    """Return the error ``dt_s`` later; ``transition`` (4, 4) is that of x, y, yaw and speed,
    ``time_s`` the correlation time."""
    decay = exp(-dt_s / time_s)
    renewed_m2 = (1.0 - decay * decay) * error.sigma_m * error.sigma_m
    east_m, north_m = error.mean_m
    return ColouredError(
        (decay * east_m, decay * north_m),
        decay * matmul(transition, error.cross),
        decay * decay * error.own + renewed_m2 * np.eye(2),
        error.sigma_m,
        error.carrier,
        error.drift_m,
    )


def joint(P: Array, error: ColouredError) -> Array:
    """Return the covariance (6, 6) of x, y, yaw, speed and the error."""
    whole = np.empty((6, 6))
    whole[:4, :4] = P
    whole[:4, 4:] = error.cross
    whole[4:, :4] = error.cross.T
    whole[4:, 4:] = error.own
    return whole


def corrected(error: ColouredError, shift: Array, P: Array) -> ColouredError:
    """Return the error after a measurement that shifts it by ``shift`` (2,) and leaves the
    covariance ``P`` (6, 6)."""
    east_m, north_m = error.mean_m
    return ColouredError(
        (east_m + float(shift[0]), north_m + float(shift[1])),
        P[:4, 4:].copy(),
        P[4:, 4:].copy(),
        error.sigma_m,
        error.carrier,
        error.drift_m,
    )


def restore_floor(
    P: Array,
    before: tuple[float, float],
    position: tuple[int, int],
    error: tuple[int, int],
    sigma_m: float,
) -> None:
    """Restore, in place, the position variance that fixes with a slow error reduced below the
    floor.

    ``P`` is a covariance with the indices ``position`` and ``error`` of east and north, ``before``
    the variances of the position before the fix. The restored variance is a common shift of
    position and error, so the variance of their sum is unchanged.
    """
    floor_m2 = FLOOR_RATIO * FLOOR_RATIO * sigma_m * sigma_m
    for at, e, variance in zip(position, error, before):
        lost = min(variance, floor_m2) - P[at, at]
        if lost > 0.0:
            P[at, at] += lost
            P[e, e] += lost
            P[at, e] -= lost
            P[e, at] -= lost
