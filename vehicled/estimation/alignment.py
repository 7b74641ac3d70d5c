"""Initial state of the 4-DOF filter from one fix and a heading or a course over ground."""

from math import atan2, copysign, cos, hypot, isfinite, pi, remainder, sin, sqrt, tau

import numpy as np
from msgspec.structs import replace

from vehicled.core.arrays import Array
from vehicled.core.messages import GnssFix, Heading, HeadingKind
from vehicled.estimation import coloured_error, measurements
from vehicled.estimation.ekf4.params import Ekf4Params
from vehicled.estimation.four_dof import FourDofState
from vehicled.estimation.history import EstimatedPose

MAX_SPEED_MPS = 100.0
UNKNOWN_SPEED_SIGMA_MPS = 1.0


def heading_sigma_rad(params: Ekf4Params, heading: Heading) -> float:
    """Return the sigma of a heading: its own, not below the floor, or the assumed one if it has
    none."""
    sigma = heading.sigma_rad if isfinite(heading.sigma_rad) else params.heading_sigma_unknown_rad
    return min(max(sigma, params.heading_sigma_floor_rad), measurements.MAX_SIGMA)


def position_covariance(params: Ekf4Params, fix: GnssFix) -> Array:
    """Return the covariance (2, 2) of the white part of a position's error."""
    if params.gnss_coloured and measurements.is_coloured(fix):
        white = max(params.gnss_white_sigma_m, params.gnss_sigma_floor_m)
        return white * white * np.eye(2)
    return measurements.horizontal_covariance(
        fix.position_covariance_m2,
        params.gnss_sigma_floor_m,
        measurements.UNKNOWN_SIGMA_M[fix.carrier],
    )


def initial_state(
    params: Ekf4Params,
    fix: GnssFix,
    enu_m: tuple[float, float, float],
    heading: Heading | None,
    lever_arm_m: tuple[float, float, float],
    lowest_speed_mps: float = 0.0,
    backward: bool = False,
) -> FourDofState | None:
    """Return the state at the fix, whose antenna is at ``enu_m``, or None without a yaw.

    The yaw is the heading, else the course over ground of a fix that moves fast enough, reversed if
    the vehicle is driven ``backward``. The wheel is taken as straight. The covariance is diagonal
    except for the fix's own (E, N) and its slow error.
    """
    ve, vn = fix.velocity_enu_mps[0], fix.velocity_enu_mps[1]
    speed = hypot(ve, vn)
    known = speed <= MAX_SPEED_MPS
    moves = known and speed >= params.course_min_speed_mps
    R_velocity = measurements.horizontal_covariance(
        fix.velocity_covariance_m2ps2,
        params.gnss_velocity_sigma_floor_mps,
        measurements.UNKNOWN_SIGMA_MPS,
    )
    sigma_speed = sqrt(float(R_velocity[0, 0] + R_velocity[1, 1]))
    if heading is not None:
        yaw, sigma_yaw = heading.yaw_rad, heading_sigma_rad(params, heading)
        if heading.kind == HeadingKind.INERTIAL:
            sigma_yaw = hypot(sigma_yaw, params.heading_drift_sigma_rad)
    elif moves:
        yaw, sigma_yaw = atan2(vn, ve) + (pi if backward else 0.0), sigma_speed / speed
    else:
        return None
    R = position_covariance(params, fix)
    coloured, slow_m2 = None, 0.0
    if params.gnss_coloured and measurements.is_coloured(fix):
        coloured = coloured_error.begin(measurements.declared_sigma_m(fix), int(fix.carrier))
        slow_m2 = coloured.sigma_m * coloured.sigma_m
        # A fix measures only the sum of position and slow error.
        cross = np.zeros((4, 2))
        cross[0, 0] = cross[1, 1] = -slow_m2
        coloured = replace(coloured, cross=cross)
    east, north, _ = enu_m
    # The residual of the antenna against itself is minus the lever arm turned into the map.
    arm = measurements.position(
        EstimatedPose(east, north, yaw, 0.0, 0.0), east, north, R, lever_arm_m
    ).residual
    variance_speed = (
        sigma_speed * sigma_speed if known else UNKNOWN_SPEED_SIGMA_MPS * UNKNOWN_SPEED_SIGMA_MPS
    )
    covariance = (
        float(R[0, 0]) + slow_m2, float(R[0, 1]), 0.0, 0.0,
        float(R[1, 0]), float(R[1, 1]) + slow_m2, 0.0, 0.0,
        0.0, 0.0, sigma_yaw * sigma_yaw, 0.0,
        0.0, 0.0, 0.0, variance_speed,
    )  # fmt: skip
    forward = ve * cos(yaw) + vn * sin(yaw) if moves else 0.0
    signed = max(lowest_speed_mps, copysign(speed, forward)) if moves else 0.0
    return FourDofState(
        east + float(arm[0]),
        north + float(arm[1]),
        remainder(yaw, tau),
        signed,
        0.0,
        covariance,
        coloured=coloured,
    )
