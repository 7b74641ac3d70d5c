"""SET_POSITION_TARGET messages: a place to drive to, or a velocity that the ground station repeats.
Pure.

They are not acknowledged in MAVLink: a refusal is a text.
"""

from math import isfinite
from typing import Any

from vehicled.live.bridges.mavlink.pilot import DENIED, Pilot
from vehicled.live.bridges.mavlink.places import (
    VELOCITY_FRAMES,
    PlaceError,
    frame_name,
    global_place,
    local_place,
)
from vehicled.live.bridges.mavlink.units import heading_rad
from vehicled.paths.mission import GLOBAL_FRAMES

# Bits of type_mask, each set where the value is to be ignored.
POSITION, VELOCITY, ACCELERATION, YAW, YAW_RATE = 0b11, 0b11000, 0b111000000, 0x400, 0x800
SIDEWAYS = 0b10000
MAX_SPEED_MPS = 100.0
MAX_CURVATURE_PER_M = 100.0
LEAST_SPEED_MPS = 0.02
"""Speed below which a turn rate says nothing about the curvature."""


class TargetError(Exception):
    """The target cannot be followed; the text gives reason and cure."""


def global_target(pilot: Pilot, message: Any) -> None:
    """Follow a SET_POSITION_TARGET_GLOBAL_INT that gives a place."""
    try:
        _check_only_place(message)
        if message.coordinate_frame not in GLOBAL_FRAMES:
            raise TargetError(f"{frame_name(message.coordinate_frame)} is no global frame")
        place = global_place(pilot.view.datum, message.lat_int * 1e-7, message.lon_int * 1e-7)
        heading = _heading(message)
    except (TargetError, PlaceError) as error:
        pilot.saying(DENIED, f"target refused: {error}")
        return
    pilot.go_to(place, heading, None, pilot.saying, change_mode=False)


def local_target(pilot: Pilot, message: Any) -> None:
    """Follow a SET_POSITION_TARGET_LOCAL_NED: a place, or a forward speed with a turn rate."""
    try:
        if message.type_mask & POSITION == POSITION and message.type_mask & VELOCITY != VELOCITY:
            speed_mps, curvature_per_m = _velocity(message)
            pilot.follow_velocity(speed_mps, curvature_per_m, pilot.saying)
            return
        _check_only_place(message)
        place = local_place(message.coordinate_frame, pilot.view.pose, message.x, message.y)
        heading = _heading(message)
    except (TargetError, PlaceError) as error:
        pilot.saying(DENIED, f"target refused: {error}")
        return
    pilot.go_to(place, heading, None, pilot.saying, change_mode=False)


def _check_only_place(message: Any) -> None:
    mask = message.type_mask
    if mask & POSITION:
        raise TargetError("it gives no place and no velocity: both coordinates are needed")
    if mask & VELOCITY != VELOCITY or mask & ACCELERATION != ACCELERATION or not mask & YAW_RATE:
        raise TargetError(
            "a place together with velocity, acceleration or turn rate is not followed: mask them"
        )


def _heading(message: Any) -> float | None:
    """Return the yaw on arrival in the map frame; None if none is given."""
    if message.type_mask & YAW:
        return None
    if not abs(message.yaw) <= 100.0:
        raise TargetError("the heading is not finite")
    return heading_rad(message.yaw)


def _velocity(message: Any) -> tuple[float, float]:
    """Return speed, m/s, and curvature, 1/m, of a velocity. Down is not read: the vehicle stays on
    the ground."""
    mask, speed_mps = message.type_mask, message.vx
    rate_radps = 0.0 if mask & YAW_RATE else message.yaw_rate
    if message.coordinate_frame not in VELOCITY_FRAMES:
        raise TargetError(
            f"a velocity in {frame_name(message.coordinate_frame)} is not followed: use "
            "BODY_NED or BODY_FRD, x forward"
        )
    if mask & VELOCITY & ~SIDEWAYS or mask & ACCELERATION != ACCELERATION or not mask & YAW:
        raise TargetError(
            "a velocity goes with a turn rate only: mask acceleration and yaw, give vx"
        )
    if not (isfinite(rate_radps) and abs(speed_mps) <= MAX_SPEED_MPS):
        raise TargetError(f"a velocity is not finite, or above {MAX_SPEED_MPS:g} m/s")
    if not mask & SIDEWAYS and message.vy != 0.0:
        raise TargetError("the vehicle cannot drive sideways: vy must be 0 or masked")
    if abs(speed_mps) < LEAST_SPEED_MPS:
        return speed_mps, 0.0
    curvature_per_m = -rate_radps / speed_mps
    return speed_mps, min(max(curvature_per_m, -MAX_CURVATURE_PER_M), MAX_CURVATURE_PER_M)
