"""Poses on a map as measurements of any filter: whether they are usable, and the weights of their
three values."""

from math import isfinite

import numpy as np

from vehicled.core.arrays import Array
from vehicled.core.messages import MapMatch, MapPose
from vehicled.estimation.measurements import MAX_RANGE_M

LEAST_SIGMA = 1e-4


def is_usable(pose: MapPose) -> bool:
    """Return True for a pose that was matched, within range, with a covariance."""
    near = (
        abs(pose.x_m) <= MAX_RANGE_M and abs(pose.y_m) <= MAX_RANGE_M and abs(pose.yaw_rad) <= 1e3
    )
    diagonal = pose.covariance[0::4]
    return (
        pose.outcome is MapMatch.MATCHED
        and near
        and isfinite(sum(pose.covariance))
        and min(diagonal) > 0.0
    )


def covariance_of(pose: MapPose) -> Array:
    """Return the covariance (3, 3) of a usable pose, symmetric and positive definite."""
    R = np.array(pose.covariance).reshape(3, 3)
    values, axes = np.linalg.eigh(0.5 * (R + R.T))
    return np.asarray((axes * np.maximum(values, LEAST_SIGMA**2)) @ axes.T)


def whitening(pose: MapPose) -> Array:
    """Return W (3, 3) with ``W R W' = I``: the values of ``W z`` are independent and of unit
    variance."""
    return np.asarray(np.linalg.inv(np.linalg.cholesky(covariance_of(pose))))
