"""Places that a ground station gives, in the map frame. Pure.

Every frame is either converted exactly or refused; a place that cannot be meant is refused before
anything is planned towards it.
"""

from math import cos, hypot, isfinite, radians, sin
from typing import NamedTuple

from pymavlink.dialects.v20 import ardupilotmega as mav

from vehicled.paths.course_file import far_side
from vehicled.paths.datum import Datum
from vehicled.paths.shortest import MAX_AWAY_M, Pose

LOCAL_FRAMES = {
    mav.MAV_FRAME_LOCAL_NED: "metres north and east of the map's origin",
    mav.MAV_FRAME_LOCAL_OFFSET_NED: "metres north and east of the vehicle",
    mav.MAV_FRAME_BODY_OFFSET_NED: "metres ahead and to the right of the vehicle",
    mav.MAV_FRAME_BODY_FRD: "metres ahead and to the right of the vehicle",
}
"""Local frames of a position. MAV_FRAME_BODY_NED is none: MAVLink defines it by the origin,
ArduPilot's rover by the vehicle."""
VELOCITY_FRAMES = {
    mav.MAV_FRAME_BODY_NED: "x forward",
    mav.MAV_FRAME_BODY_OFFSET_NED: "x forward",
    mav.MAV_FRAME_BODY_FRD: "x forward",
}
"""Frames of a velocity. One to the north is none that a vehicle with wheels can follow as such."""


class Place(NamedTuple):
    """Place in the map frame, m."""

    x_m: float
    y_m: float


class PlaceError(Exception):
    """The place cannot be meant, or not in this frame; the text gives reason and cure."""


def frame_name(frame: int) -> str:
    """Return the name of a MAV_FRAME, for messages."""
    entry = mav.enums["MAV_FRAME"].get(frame)
    return entry.name if entry is not None else f"frame {frame}"


def check_degrees(latitude_deg: float, longitude_deg: float) -> None:
    """Raise :class:`PlaceError` for a latitude and longitude that cannot be meant."""
    if not (abs(latitude_deg) <= 90.0 and abs(longitude_deg) <= 180.0):
        raise PlaceError(
            f"latitude {latitude_deg:.7g}, longitude {longitude_deg:.7g} is no place: use WGS "
            "84 degrees"
        )
    if latitude_deg == 0.0 == longitude_deg:
        raise PlaceError("0 N 0 E is a place holder: give the place itself")


def global_place(datum: Datum, latitude_deg: float, longitude_deg: float) -> Place:
    """Return the place of a latitude and longitude. Raises :class:`PlaceError`."""
    check_degrees(latitude_deg, longitude_deg)
    x_m, y_m, _ = datum.to_enu(radians(latitude_deg), radians(longitude_deg), datum.height_m)
    if far_side(datum, latitude_deg, longitude_deg):
        raise PlaceError(
            f"{latitude_deg:.6f}, {longitude_deg:.6f} is on the other side of the earth: look "
            "at its coordinates"
        )
    return on_map(x_m, y_m)


def local_place(frame: int, pose: Pose | None, x: float, y: float) -> Place:
    """Return the place of coordinates in one of ``LOCAL_FRAMES``, for a vehicle at ``pose``. Raises
    :class:`PlaceError`."""
    if frame not in LOCAL_FRAMES:
        raise PlaceError(
            f"{frame_name(frame)} is not followed: use LOCAL_NED, LOCAL_OFFSET_NED or BODY_FRD"
        )
    if not isfinite(x + y):
        raise PlaceError("the place is not finite")
    if frame == mav.MAV_FRAME_LOCAL_NED:
        return on_map(y, x)
    if pose is None:
        raise PlaceError("the vehicle has no position yet, so there is no place beside it")
    if frame == mav.MAV_FRAME_LOCAL_OFFSET_NED:
        return on_map(pose.x_m + y, pose.y_m + x)
    ahead, right = x, y
    c, s = cos(pose.yaw_rad), sin(pose.yaw_rad)
    return on_map(pose.x_m + ahead * c + right * s, pose.y_m + ahead * s - right * c)


def on_map(x_m: float, y_m: float) -> Place:
    """Return a place of the map. Raises :class:`PlaceError` for one that is not finite, or too far
    from the map's origin."""
    away_m = hypot(x_m, y_m)
    if not away_m <= MAX_AWAY_M:
        raise PlaceError(
            f"the place is {away_m / 1000:.0f} km from the map's origin (at most "
            f"{MAX_AWAY_M / 1000:g} km): look at its coordinates"
        )
    return Place(x_m, y_m)
