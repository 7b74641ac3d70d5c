"""Measurement models of the 4-DOF state: expected value, derivative and noise of each kind of
measurement.

All are pure functions of the estimated pose at the time of validity and return a
:class:`~vehicled.estimation.gaussian.Measurement`. Receivers understate their errors, so every
covariance has a floor. The error of all but a good fixed solution is correlated over a minute or
more: :mod:`~vehicled.estimation.coloured_error` estimates it as a state.
"""

from math import cos, hypot, inf, isfinite, remainder, sin, sqrt, tau

import numpy as np

from vehicled.core.arrays import Array
from vehicled.core.messages import CarrierSolution, FixType, GnssFix
from vehicled.estimation.gaussian import Measurement
from vehicled.estimation.history import EstimatedPose
from vehicled.paths.datum import Datum

_H_YAW = np.array(((0.0, 0.0, 1.0, 0.0),))
_H_SPEED = np.array(((0.0, 0.0, 0.0, 1.0),))

HEADING_AGE_NS = 1_000_000_000
"""Oldest heading that may start a filter."""
MAX_RANGE_M = 100_000.0
"""Largest distance from the datum, and largest height."""
UNKNOWN_SIGMA_M = {
    CarrierSolution.NONE: 2.0,
    CarrierSolution.FLOAT: 0.4,
    CarrierSolution.FIXED: 0.03,
}
"""Assumed horizontal position sigma per axis where the receiver gives none: usual figures for each
kind of solution."""
UNKNOWN_SIGMA_MPS = 0.2
"""Assumed velocity sigma per axis where the receiver gives none."""
MAX_FIXED_SIGMA_M = 0.05
"""A fixed solution that declares more than this per axis is no better than a floating one, and its
error is as slow."""
MAX_SIGMA = 1e3
"""Upper bound of sigmas; a larger one carries no information either."""


def is_possible_fix(fix: GnssFix) -> bool:
    """Return True if a fix has a position, finite and within physical bounds."""
    return (
        fix.fix_type >= FixType.FIX_2D
        and abs(fix.latitude_rad) <= 0.25 * tau
        and abs(fix.longitude_rad) <= tau
        and not abs(fix.height_m) > MAX_RANGE_M
    )


def enu_m(datum: Datum, fix: GnssFix) -> tuple[float, float, float]:
    """Return the antenna position in the map frame, at the datum's height if the fix has none."""
    height = fix.height_m if isfinite(fix.height_m) else datum.height_m
    return datum.to_enu(fix.latitude_rad, fix.longitude_rad, height)


def horizontal_covariance(covariance: tuple[float, ...], floor: float, unknown: float) -> Array:
    """Return the east-north block (2, 2) of a row-major (9,) ENU covariance, made positive
    definite.

    Sigmas are clamped between ``floor`` and MAX_SIGMA and the correlation to +-0.95; ``unknown``
    (sigma) replaces variances that are not finite or not positive.
    """
    ee, en, nn = covariance[0], covariance[1], covariance[4]
    if not (isfinite(ee) and isfinite(nn) and ee > 0.0 and nn > 0.0):
        variance = max(unknown, floor) ** 2
        return np.array(((variance, 0.0), (0.0, variance)))
    ee = min(max(ee, floor * floor), MAX_SIGMA * MAX_SIGMA)
    nn = min(max(nn, floor * floor), MAX_SIGMA * MAX_SIGMA)
    bound = 0.95 * (ee * nn) ** 0.5
    en = min(max(en, -bound), bound) if isfinite(en) else 0.0
    return np.array(((ee, en), (en, nn)))


def is_coloured(fix: GnssFix) -> bool:
    """Return True if a position's error is correlated in time: no fixed carrier phase, or a
    declared sigma above 5 cm.

    A hundred fixes with one common error carry the information of one, so a filter that assumes
    white noise is ten times too sure.
    """
    if fix.carrier is not CarrierSolution.FIXED:
        return True
    largest = max(fix.position_covariance_m2[0], fix.position_covariance_m2[4])
    return MAX_FIXED_SIGMA_M * MAX_FIXED_SIGMA_M < largest < inf


def declared_sigma_m(fix: GnssFix) -> float:
    """Return the position sigma per axis that the receiver declares, or the usual one for its kind
    of solution."""
    ee, nn = fix.position_covariance_m2[0], fix.position_covariance_m2[4]
    if 0.0 < ee < inf and 0.0 < nn < inf:
        return min(sqrt(0.5 * ee + 0.5 * nn), MAX_SIGMA)
    return UNKNOWN_SIGMA_M[fix.carrier]


def position(
    at: EstimatedPose,
    east_m: float,
    north_m: float,
    R: Array,
    lever_arm_m: tuple[float, float, float],
) -> Measurement:
    """GNSS position of the antenna, expected p + R(yaw) lever. Residual (2,) in m, ENU; the vehicle
    is assumed level."""
    c, s = cos(at.yaw_rad), sin(at.yaw_rad)
    forward, left = lever_arm_m[0], lever_arm_m[1]
    arm_x = c * forward - s * left
    arm_y = s * forward + c * left
    dx = east_m - at.x_m - arm_x
    dy = north_m - at.y_m - arm_y
    H = np.array(((1.0, 0.0, -arm_y, 0.0), (0.0, 1.0, arm_x, 0.0)))
    return Measurement(np.array((dx, dy)), H, R, (dx * dx, dy * dy, 0.0, 0.0))


def velocity(
    at: EstimatedPose,
    east_mps: float,
    north_mps: float,
    R: Array,
    lever_arm_m: tuple[float, float, float],
    course_min_mps: float,
) -> Measurement:
    """GNSS velocity of the antenna, expected v (cos, sin) + slip (-sin, cos) + yaw rate x lever.
    Residual in m/s.

    Above ``course_min_mps`` (estimated and measured) both components are used, which weighs speed
    and course over ground correctly. Below, the course is noise and its linearisation poor, so only
    the speed along the estimated yaw is used.
    """
    c, s = cos(at.yaw_rad), sin(at.yaw_rad)
    forward, left = lever_arm_m[0], lever_arm_m[1]
    ve = east_mps + at.yaw_rate_radps * (s * forward + c * left)
    vn = north_mps - at.yaw_rate_radps * (c * forward - s * left)
    v, slip = at.speed_mps, at.lateral_mps
    if abs(v) >= course_min_mps and hypot(ve, vn) >= course_min_mps:
        moved_e, moved_n = v * c - slip * s, v * s + slip * c
        de, dn = ve - moved_e, vn - moved_n
        H = np.array(((0.0, 0.0, -moved_n, c), (0.0, 0.0, moved_e, s)))
        error2 = de * de + dn * dn
        return Measurement(np.array((de, dn)), H, R, (0.0, 0.0, error2 / (v * v), error2))
    along = ve * c + vn * s - v
    variance = c * c * R[0, 0] + 2.0 * c * s * R[0, 1] + s * s * R[1, 1]
    return Measurement(
        np.array((along,)), _H_SPEED, np.array(((variance,),)), (0.0, 0.0, 0.0, along * along)
    )


def heading(at: EstimatedPose, yaw_rad: float, sigma_rad: float) -> Measurement:
    """Measured yaw; the residual is wrapped to +-pi."""
    residual = remainder(yaw_rad - at.yaw_rad, tau)
    return Measurement(
        np.array((residual,)),
        _H_YAW,
        np.array(((sigma_rad * sigma_rad,),)),
        (0.0, 0.0, residual * residual, 0.0),
    )


def speed(at: EstimatedPose, speed_mps: float, sigma_mps: float) -> Measurement:
    """Measured speed of the rear axle."""
    residual = speed_mps - at.speed_mps
    return Measurement(
        np.array((residual,)),
        _H_SPEED,
        np.array(((sigma_mps * sigma_mps,),)),
        (0.0, 0.0, 0.0, residual * residual),
    )
