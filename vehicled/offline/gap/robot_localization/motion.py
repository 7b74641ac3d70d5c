"""Motion model of robot_localization: constant acceleration in three dimensions (Moore and Stouch
2014).

State (15,): position in the world frame, roll, pitch, yaw, linear and angular velocity and linear
acceleration in the body frame.

    p+ = p + R(rpy) (v dt + a dt^2 / 2)    rpy+ = rpy + E(rpy) w dt
    v+ = v + a dt    w+ = w    a+ = a
"""

from math import cos, sin

import numpy as np
import numpy.typing as npt

from vehicled.core.arrays import Array

Mask = npt.NDArray[np.bool_]

SIZE = 15
POSITION, ATTITUDE, VELOCITY, RATES, ACCELERATION = (slice(k, k + 3) for k in range(0, SIZE, 3))
ROLL, PITCH, YAW = 3, 4, 5
_IDENTITY = np.eye(SIZE)


def rotation(roll: float, pitch: float, yaw: float) -> Array:
    """Return the rotation (3, 3) from the body to the world frame."""
    cr, sr, cp, sp, cy, sy = cos(roll), sin(roll), cos(pitch), sin(pitch), cos(yaw), sin(yaw)
    return np.array(
        (
            (cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr),
            (sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr),
            (-sp, cp * sr, cp * cr),
        )
    )


def transfer(x: Array, dt_s: float) -> tuple[Array, Array]:
    """Return the transfer matrix (15, 15), with which ``matrix @ x`` is the next state, and its
    Jacobian (15, 15).

    The Jacobian is that of the package, with its one error: the part of the yaw rate in d yaw / d
    pitch has the wrong sign.
    """
    roll, pitch, yaw = x[ATTITUDE].tolist()
    cr, sr, cp, sp, cy, sy = cos(roll), sin(roll), cos(pitch), sin(pitch), cos(yaw), sin(yaw)
    tp, icp = sp / cp, 1.0 / cp
    turned = rotation(roll, pitch, yaw)
    matrix = _IDENTITY.copy()
    matrix[POSITION, VELOCITY] = turned * dt_s
    matrix[POSITION, ACCELERATION] = turned * (0.5 * dt_s * dt_s)
    matrix[ATTITUDE, RATES] = (
        np.array(((1.0, sr * tp, cr * tp), (0.0, cr, -sr), (0.0, sr * icp, cr * icp))) * dt_s
    )
    matrix[VELOCITY, ACCELERATION] = np.eye(3) * dt_s

    jacobian = matrix.copy()
    moved = x[VELOCITY] * dt_s + x[ACCELERATION] * (0.5 * dt_s * dt_s)
    by_roll = np.column_stack((np.zeros(3), turned[:, 2], -turned[:, 1]))
    by_pitch = np.array(
        (
            (-cy * sp, cy * cp * sr, cy * cp * cr),
            (-sy * sp, sy * cp * sr, sy * cp * cr),
            (-cp, -sp * sr, -sp * cr),
        )
    )
    by_yaw = np.stack((-turned[1], turned[0], np.zeros(3)))
    jacobian[POSITION, ROLL] = by_roll @ moved
    jacobian[POSITION, PITCH] = by_pitch @ moved
    jacobian[POSITION, YAW] = by_yaw @ moved
    q, r = x[RATES][1] * dt_s, x[RATES][2] * dt_s
    jacobian[ROLL, ROLL] = 1.0 + cr * tp * q - sr * tp * r
    jacobian[ROLL, PITCH] = icp * icp * (sr * q + cr * r)
    jacobian[PITCH, ROLL] = -sr * q - cr * r
    jacobian[YAW, ROLL] = icp * (cr * q - sr * r)
    jacobian[YAW, PITCH] = tp * icp * (sr * q - cr * r)
    return matrix, jacobian
