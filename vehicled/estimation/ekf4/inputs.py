"""Conversion of messages to measurements of the 4-DOF filter: plausibility, map frame,
covariance."""

from math import isfinite, tau

from vehicled.core.messages import GnssFix, Heading, MotorStatus, SteeringFeedback, WheelSpeed
from vehicled.core.vehicle import Drive
from vehicled.estimation import measurements
from vehicled.estimation.alignment import MAX_SPEED_MPS, heading_sigma_rad, position_covariance
from vehicled.estimation.ekf4.fusion import (
    HEADING,
    MOTOR,
    STEERING,
    WHEEL,
    AxleSpeed,
    Ekf4Measurement,
    PositionMeasurement,
    SteeringMeasurement,
    YawMeasurement,
)
from vehicled.estimation.ekf4.fusion import POSITION as FIX
from vehicled.estimation.ekf4.params import Ekf4Params
from vehicled.estimation.measurements import enu_m, is_possible_fix
from vehicled.paths.datum import Datum

Observable = GnssFix | Heading | WheelSpeed | MotorStatus | SteeringFeedback


def is_possible(message: Observable) -> bool:
    """Return True if the essential values of a message are finite and within physical bounds."""
    match message:
        case GnssFix():
            return is_possible_fix(message)
        case Heading():
            return abs(message.yaw_rad) <= 1e3
        case WheelSpeed():
            return abs(message.speed_mps) <= MAX_SPEED_MPS
        case MotorStatus():
            return abs(message.motor_speed_radps) <= 1e5
        case _:
            return abs(message.wheel_angle_rad) <= tau


def source_of(message: Observable) -> int:
    """Return the source number of a message, which orders measurements of one instant."""
    match message:
        case GnssFix():
            return FIX
        case Heading():
            return HEADING + int(message.kind)
        case WheelSpeed():
            return WHEEL
        case MotorStatus():
            return MOTOR
        case _:
            return STEERING


def to_measurement(
    params: Ekf4Params, drive: Drive, wheel_scale: float, datum: Datum, message: Observable
) -> Ekf4Measurement:
    """Return the measurement in a plausible message, with its sigmas between floor and bound.

    ``wheel_scale`` is the radius of ``drive`` over that with which the device computed its wheel
    speed.
    """
    match message:
        case GnssFix():
            return _fix(params, datum, message)
        case Heading():
            return YawMeasurement(
                message.t_ns,
                source_of(message),
                message.yaw_rad,
                heading_sigma_rad(params, message),
            )
        case WheelSpeed():
            floor = params.wheel_speed_sigma_floor_mps
            sigma = max(message.sigma_mps, floor) if isfinite(message.sigma_mps) else floor
            return AxleSpeed(
                message.t_ns,
                WHEEL,
                wheel_scale * message.speed_mps,
                min(sigma, measurements.MAX_SIGMA),
            )
        case MotorStatus():
            speed = message.motor_speed_radps * drive.gear_ratio * drive.wheel_radius_m
            return AxleSpeed(message.t_ns, MOTOR, speed, params.motor_speed_sigma_mps)
        case _:
            return SteeringMeasurement(message.wheel_angle_rad)


def _fix(params: Ekf4Params, datum: Datum, fix: GnssFix) -> PositionMeasurement:
    east, north, _ = enu_m(datum, fix)
    ve, vn = fix.velocity_enu_mps[0], fix.velocity_enu_mps[1]
    counts = params.use_gnss_velocity and abs(ve) <= MAX_SPEED_MPS and abs(vn) <= MAX_SPEED_MPS
    return PositionMeasurement(
        fix.t_ns,
        east,
        north,
        position_covariance(params, fix),
        (ve, vn) if counts else None,
        measurements.horizontal_covariance(
            fix.velocity_covariance_m2ps2,
            params.gnss_velocity_sigma_floor_mps,
            measurements.UNKNOWN_SIGMA_MPS,
        ),
        measurements.declared_sigma_m(fix)
        if params.gnss_coloured and measurements.is_coloured(fix)
        else 0.0,
        int(fix.carrier),
    )
