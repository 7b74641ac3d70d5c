"""Conversion of messages to measurements of the inertial filter: bounds, masks, sigmas."""

from math import inf

from msgspec import Struct

from vehicled.core.messages import GnssFix, Heading, MapMatch, MapPose, MotorStatus, WheelSpeed
from vehicled.estimation.ins.measurements import MAX_SPEED_MPS, Fix, heading_sigma, prepare
from vehicled.estimation.ins.params import InsParams, SpeedUse
from vehicled.estimation.map_pose import is_usable
from vehicled.estimation.measurements import enu_m, is_possible_fix
from vehicled.paths.datum import Datum

GNSS, HEADING, WHEEL, MOTOR, MAP = 0, 1, 4, 5, 6
"""Sources, in their order of fusion at one instant; HEADING reserves one number for each kind."""

Measuring = GnssFix | Heading | MapPose | WheelSpeed | MotorStatus


class PendingMeasurement(Struct, frozen=True, gc=False):
    """A measurement waiting for fusion: ``fix`` for GNSS, ``pose`` for one on a map, else a value
    with its sigma."""

    t_ns: int
    source: int
    fix: Fix | None
    value: float = 0.0
    sigma: float = 1.0
    pose: MapPose | None = None


def wanted(params: InsParams, message: Measuring) -> bool:
    """Return True if the masks select a message."""
    if isinstance(message, GnssFix):
        return params.gnss.use_position or params.gnss.use_velocity
    if isinstance(message, MapPose):
        return message.outcome is MapMatch.MATCHED
    if isinstance(message, Heading):
        return (params.inertial, params.magnetic, params.moving_base)[message.kind].use_yaw
    return (params.wheel_speed if isinstance(message, WheelSpeed) else params.motor_speed).use_speed


def measured(
    params: InsParams, metres_per_rad: float, datum: Datum, message: Measuring
) -> PendingMeasurement | None:
    """Return the measurement in a message, or None if its essential values are not finite or out of
    range.

    ``metres_per_rad`` is the distance driven per angle of the motor.
    """
    if isinstance(message, GnssFix):
        return _fix(params, datum, message)
    if isinstance(message, MapPose):
        return (
            PendingMeasurement(message.t_ns, MAP, None, pose=message)
            if is_usable(message)
            else None
        )
    if isinstance(message, Heading):
        if not abs(message.yaw_rad) <= 1e3:
            return None
        sigma = heading_sigma(
            (params.inertial, params.magnetic, params.moving_base)[message.kind], message
        )
        return PendingMeasurement(
            message.t_ns, HEADING + int(message.kind), None, message.yaw_rad, sigma
        )
    if isinstance(message, WheelSpeed):
        return _speed(message.t_ns, WHEEL, message.speed_mps, message.sigma_mps, params.wheel_speed)
    return _speed(
        message.t_ns, MOTOR, message.motor_speed_radps * metres_per_rad, inf, params.motor_speed
    )


def _speed(
    t_ns: int, source: int, speed_mps: float, sigma_mps: float, use: SpeedUse
) -> PendingMeasurement | None:
    if not abs(speed_mps) <= MAX_SPEED_MPS:
        return None
    sigma = max(sigma_mps, use.sigma_floor_mps) if 0.0 < sigma_mps < inf else use.sigma_floor_mps
    return PendingMeasurement(t_ns, source, None, speed_mps, min(sigma, MAX_SPEED_MPS))


def _fix(params: InsParams, datum: Datum, fix: GnssFix) -> PendingMeasurement | None:
    if not is_possible_fix(fix):
        return None
    return PendingMeasurement(fix.t_ns, GNSS, prepare(params, fix, enu_m(datum, fix)))
