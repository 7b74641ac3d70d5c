"""Limits of the values in messages of the link, beyond which a value is none, whatever simulator
sent it. NaN means unknown."""

from collections.abc import Callable
from math import pi
from typing import Any

from drivers.neighbours import MAX_SPEED_MPS, MAX_YAW_RAD, problem_of
from vehicled.core.messages import (
    GnssFix,
    Heading,
    ImuSample,
    Message,
    MotorStatus,
    NeighbourState,
    SteeringFeedback,
    WheelSpeed,
)

MAX_HEIGHT_M = 1e5
MAX_FORCE_MPS2, MAX_RATE_RADPS = 2e4, 1e3
MAX_MOTOR_RADPS = 1e5


def _beyond(value: float, limit: float) -> bool:
    return value > limit or value < -limit


def _fix(m: GnssFix) -> str:
    if (
        _beyond(m.latitude_rad, pi / 2)
        or _beyond(m.longitude_rad, 2 * pi)
        or _beyond(m.height_m, MAX_HEIGHT_M)
    ):
        return "place"
    if any(_beyond(speed, MAX_SPEED_MPS) for speed in m.velocity_enu_mps):
        return "velocity"
    return (
        "covariance"
        if min(m.position_covariance_m2[::4]) < 0.0 or min(m.velocity_covariance_m2ps2[::4]) < 0.0
        else ""
    )


def _imu(m: ImuSample) -> str:
    # The most frequent message, so without calls. NaN is beyond no limit.
    x, y, z = m.specific_force_mps2
    limit = MAX_FORCE_MPS2
    if x > limit or x < -limit or y > limit or y < -limit or z > limit or z < -limit:
        return "specific force"
    x, y, z = m.angular_rate_radps
    limit = MAX_RATE_RADPS
    return (
        "angular rate"
        if x > limit or x < -limit or y > limit or y < -limit or z > limit or z < -limit
        else ""
    )


def _heading(m: Heading) -> str:
    return "yaw" if _beyond(m.yaw_rad, MAX_YAW_RAD) else "sigma" if m.sigma_rad < 0.0 else ""


def _wheels(m: WheelSpeed) -> str:
    return "speed" if _beyond(m.speed_mps, MAX_SPEED_MPS) else "sigma" if m.sigma_mps < 0.0 else ""


def _motor(m: MotorStatus) -> str:
    return "motor speed" if _beyond(m.motor_speed_radps, MAX_MOTOR_RADPS) else ""


def _steering(m: SteeringFeedback) -> str:
    return "wheel angle" if _beyond(m.wheel_angle_rad, pi) else ""


CHECKS: dict[type[Message], Callable[[Any], str]] = {
    GnssFix: _fix, ImuSample: _imu, Heading: _heading, WheelSpeed: _wheels, MotorStatus: _motor,
    SteeringFeedback: _steering, NeighbourState: problem_of,
}  # fmt: skip
"""Checks by message: each returns the field that cannot be true; empty if all can."""
