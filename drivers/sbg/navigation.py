"""Conversion of sbgECom logs to messages: degrees to radians, north-east-down to east-north-up,
flags to states.

Pure functions. Invalid standard deviations are NaN.
"""

from datetime import UTC, datetime
from math import asin, atan2, cos, isfinite, nan, pi, radians, remainder, sin, tau
from typing import NamedTuple

from drivers.imu.axes import euler_problem, quaternion_problem
from drivers.imu.base import Rotation, Vector
from drivers.sbg.codec import (
    DGPS,
    GPS1_POS_USED,
    HEADING_VALID,
    MODE_AHRS,
    MODE_NAV_POSITION,
    POSITION_VALID,
    PPP_FIXED,
    RTK_FIXED,
    RTK_FLOAT,
    TYPED_IN,
    UNKNOWN_8,
    UNKNOWN_16,
    UTC_INITIALISED,
    EkfEuler,
    EkfNav,
    EkfQuat,
    GpsHeading,
    GpsPosition,
    GpsVelocity,
    UtcTime,
)
from vehicled.core.messages import NAN3, NAN9, CarrierSolution, FixType, GnssFix, stated_carrier
from vehicled.core.wire.usage import Unused, UsageProblem

_CARRIERS = {RTK_FLOAT: CarrierSolution.FLOAT, RTK_FIXED: CarrierSolution.FIXED}
_OLDEST_YEAR = 2013
MAX_HEADING_SIGMA_DEG = 45.0
"""Stated error beyond which a heading is none."""
MAX_SPEED_MPS = 500.0
"""Speed limit of receivers."""


class Attitude(NamedTuple):
    """Attitude of the case in the axes of the messages: right side down, nose down,
    counter-clockwise from east."""

    roll_rad: float
    pitch_rad: float
    yaw_rad: float
    yaw_sigma_rad: float


def mode(status: int) -> int:
    """Return the mode of the filter from a solution status."""
    return status & 0xF


def oriented(status: int) -> bool:
    """True if the filter has a reference of the heading."""
    return MODE_AHRS <= mode(status) <= MODE_NAV_POSITION


def sigma(value: float) -> float:
    """Return a standard deviation; NaN if it is none."""
    return value if isfinite(value) and value >= 0.0 else nan


def wrapped(angle_rad: float) -> float:
    """Return the angle within -pi to pi."""
    return remainder(angle_rad, tau)


def attitude(log: EkfEuler | EkfQuat) -> Attitude:
    """Return the attitude of the case of a log without an :func:`attitude_problem`."""
    if isinstance(log, EkfEuler):
        return Attitude(
            log.roll_rad, -log.pitch_rad, pi / 2 - log.yaw_rad, sigma(log.yaw_sigma_rad)
        )
    w, x, y, z = log.w, log.x, log.y, log.z
    size = w * w + x * x + y * y + z * z
    nose_up = asin(max(-1.0, min(1.0, 2.0 * (w * y - z * x) / size)))
    roll = atan2(2.0 * (w * x + y * z), w * w - x * x - y * y + z * z)
    return Attitude(
        roll,
        -nose_up,
        pi / 2 - atan2(2.0 * (w * z + x * y), w * w + x * x - y * y - z * z),
        sigma(log.yaw_sigma_rad),
    )


def of_body(case: Attitude, mounting: Rotation) -> Attitude:
    """Return the attitude of the body that carries the case. ``mounting``: rows of the rotation
    from case to body."""
    cr = cos(case.roll_rad)
    sr = sin(case.roll_rad)
    cp = cos(case.pitch_rad)
    sp = sin(case.pitch_rad)
    cy, sy = cos(case.yaw_rad), sin(case.yaw_rad)
    world: Rotation = (
        (cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr),
        (sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr),
        (-sp, cp * sr, cp * cr),
    )
    (forward_e, _, _), (forward_n, _, _), (forward_u, left_u, up_u) = [
        [sum([row[k] * axis[k] for k in range(3)]) for axis in mounting] for row in world
    ]
    return Attitude(
        atan2(left_u, up_u),
        asin(max(-1.0, min(1.0, -forward_u))),
        atan2(forward_n, forward_e),
        case.yaw_sigma_rad,
    )


def utc(log: UtcTime) -> int:
    """Return UTC in ns since 1970; 0 while the unit does not know it with its leap seconds."""
    if (
        log.status >> 6 & 0xF != UTC_INITIALISED
        or log.year < _OLDEST_YEAR
        or log.nanosecond >= 1_000_000_000
    ):
        return 0
    try:
        # A leap second is given as the second after it.
        minute = datetime(log.year, log.month, log.day, log.hour, log.minute, tzinfo=UTC)
    except ValueError:
        return 0
    if log.second > 60:
        return 0
    return (round(minute.timestamp()) + log.second) * 1_000_000_000 + log.nanosecond


def _possible(latitude_deg: float, longitude_deg: float, height_m: float) -> bool:
    return abs(latitude_deg) <= 90.0 and abs(longitude_deg) <= 180.0 and isfinite(height_m)


def _variances(east: float, north: float, up: float) -> Vector:
    east, north, up = sigma(east), sigma(north), sigma(up)
    return (
        (east * east, 0.0, 0.0, 0.0, north * north, 0.0, 0.0, 0.0, up * up)
        if isfinite(east + north + up)
        else NAN9
    )


def position_type(log: GpsPosition) -> int:
    """Return the type of a position; 0 without a solution."""
    return 0 if log.status & 0x3F else log.status >> 6 & 0x3F


def carrier(log: GpsPosition) -> CarrierSolution:
    """Return the state of the RTK solution, as far as the stated error agrees."""
    found = _CARRIERS.get(position_type(log), CarrierSolution.NONE)
    return stated_carrier(
        found, _variances(log.longitude_sigma_m, log.latitude_sigma_m, log.altitude_sigma_m)
    )


def position_problem(log: GpsPosition) -> UsageProblem | None:
    """Return why GPS1_POS gives no position. Status and type must both be tested."""
    kind = position_type(log)
    if kind == 0:
        return UsageProblem(Unused.NO_SOLUTION)
    if kind == TYPED_IN:
        return UsageProblem(Unused.MANUAL)
    if kind > TYPED_IN:
        return UsageProblem(Unused.UNKNOWN_STATE, "type", kind)
    if not _possible(log.latitude_deg, log.longitude_deg, log.altitude_m + log.undulation_m):
        return UsageProblem(Unused.OUT_OF_RANGE, "place")
    return None


def velocity_problem(log: GpsVelocity) -> UsageProblem | None:
    """Return why GPS1_VEL gives no velocity."""
    if log.status & 0x3F or not log.status >> 6 & 0x3F:
        return UsageProblem(Unused.NO_SOLUTION)
    speeds = log.velocity_north_mps, log.velocity_east_mps, log.velocity_down_mps
    if not isfinite(sum(speeds)):
        return UsageProblem(Unused.NOT_FINITE, "velocity")
    return (
        UsageProblem(Unused.OUT_OF_RANGE, "velocity")
        if max(map(abs, speeds)) > MAX_SPEED_MPS
        else None
    )


def antennas_problem(log: GpsHeading) -> UsageProblem | None:
    """Return why GPS1_HDT gives no heading."""
    if log.status & 0x3F:
        return UsageProblem(Unused.NO_SOLUTION)
    if not isfinite(log.heading_deg):
        return UsageProblem(Unused.NOT_FINITE, "heading")
    if not -180.0 <= log.heading_deg <= 360.0:
        return UsageProblem(Unused.OUT_OF_RANGE, "heading", f"{log.heading_deg:.1f} degrees")
    if log.heading_sigma_deg > MAX_HEADING_SIGMA_DEG:
        return UsageProblem(
            Unused.TOO_INACCURATE, "heading", f"{log.heading_sigma_deg:.1f} degrees"
        )
    return None


def attitude_problem(log: EkfEuler | EkfQuat) -> UsageProblem | None:
    """Return why a log of the filter is no attitude."""
    if isinstance(log, EkfQuat):
        return quaternion_problem(log[1:5])
    return euler_problem(log.roll_rad, log.pitch_rad, log.yaw_rad)


def heading_problem(log: EkfEuler | EkfQuat) -> UsageProblem | None:
    """Return why the filter does not vouch for the heading of its attitude."""
    if not oriented(log.status):
        return UsageProblem(Unused.INVALID, "mode", mode(log.status))
    return None if log.status & HEADING_VALID else UsageProblem(Unused.INVALID, "heading valid")


def place_problem(log: EkfNav) -> UsageProblem | None:
    """Return why the filter does not vouch for its place."""
    if mode(log.status) != MODE_NAV_POSITION:
        return UsageProblem(Unused.INVALID, "mode", mode(log.status))
    return None if log.status & POSITION_VALID else UsageProblem(Unused.INVALID, "position valid")


def receiver_fix(
    log: GpsPosition, velocity: GpsVelocity | None, t_ns: int, t_rx_ns: int, utc_ns: int
) -> GnssFix:
    """Return the fix of the receiver. Without a solution it has no position."""
    kind = position_type(log)
    height_m = log.altitude_m + log.undulation_m
    satellites = 0 if log.satellites_used == UNKNOWN_8 else log.satellites_used
    if position_problem(log) is not None:
        return GnssFix(t_ns, t_rx_ns, nan, nan, nan, satellites=satellites, utc_ns=utc_ns)
    speeds, doubts = NAN3, NAN9
    if velocity is not None and velocity_problem(velocity) is None:
        speeds = (
            velocity.velocity_east_mps,
            velocity.velocity_north_mps,
            -velocity.velocity_down_mps,
        )
        doubts = _variances(
            velocity.velocity_east_sigma_mps,
            velocity.velocity_north_sigma_mps,
            velocity.velocity_down_sigma_mps,
        )
    corrected = DGPS <= kind <= PPP_FIXED
    age_s = (
        log.correction_age_cs * 1e-2 if corrected and log.correction_age_cs != UNKNOWN_16 else nan
    )
    return GnssFix(
        t_ns,
        t_rx_ns,
        radians(log.latitude_deg),
        radians(log.longitude_deg),
        height_m,
        speeds,
        _variances(log.longitude_sigma_m, log.latitude_sigma_m, log.altitude_sigma_m),
        doubts,
        FixType.FIX_3D,
        carrier(log),
        corrected,
        age_s,
        satellites,
        utc_ns=utc_ns,
    )


class Navigation(NamedTuple):
    """Place and velocity of the output point in the axes of the messages."""

    latitude_rad: float
    longitude_rad: float
    height_m: float
    velocity_enu_mps: Vector
    position_sigma_m: Vector
    velocity_sigma_mps: Vector


def navigation(log: EkfNav) -> Navigation | None:
    """Return place and velocity of the filter; None if they are no numbers of a place on the
    earth."""
    height_m = log.altitude_m + log.undulation_m
    velocity = (log.velocity_east_mps, log.velocity_north_mps, -log.velocity_down_mps)
    if not (_possible(log.latitude_deg, log.longitude_deg, height_m) and isfinite(sum(velocity))):
        return None
    return Navigation(
        radians(log.latitude_deg),
        radians(log.longitude_deg),
        height_m,
        velocity,
        (sigma(log.longitude_sigma_m), sigma(log.latitude_sigma_m), sigma(log.altitude_sigma_m)),
        (
            sigma(log.velocity_east_sigma_mps),
            sigma(log.velocity_north_sigma_mps),
            sigma(log.velocity_down_sigma_mps),
        ),
    )


def filter_fix(
    log: EkfNav, found: Navigation, rtk: CarrierSolution, t_ns: int, t_rx_ns: int, utc_ns: int
) -> GnssFix:
    """Return the place of the filter as a fix; ``rtk`` is the state of the receiver's newest
    solution."""
    if place_problem(log) is not None:
        return GnssFix(t_ns, t_rx_ns, nan, nan, nan, utc_ns=utc_ns)
    aided = bool(log.status & GPS1_POS_USED)
    east, north, up = found.position_sigma_m
    return GnssFix(
        t_ns,
        t_rx_ns,
        found.latitude_rad,
        found.longitude_rad,
        found.height_m,
        found.velocity_enu_mps,
        _variances(east, north, up),
        _variances(*found.velocity_sigma_mps),
        FixType.FIX_3D if aided else FixType.DEAD_RECKONING,
        rtk if aided else CarrierSolution.NONE,
        aided and rtk is not CarrierSolution.NONE,
        utc_ns=utc_ns,
    )


def at_least(sigmas: Vector, least: float) -> Vector:
    """Return standard deviations that are no smaller than ``least``."""
    return tuple([max(value, least) for value in sigmas])
