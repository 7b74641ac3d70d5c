"""Tracking error of the published controllers: the reference pose and speed in the frame of the
vehicle."""

from math import cos, remainder, sin, tau
from typing import NamedTuple

from vehicled.paths.tracking import CoursePoint, PathTracker


class ErrorState(NamedTuple):
    """Reference minus vehicle, in the vehicle frame: ahead (m), left (m), heading (rad, -pi..pi),
    speed (m/s)."""

    ahead_m: float
    left_m: float
    heading_rad: float
    speed_mps: float


def error_state(
    x_m: float, y_m: float, yaw_rad: float, speed_mps: float,
    reference_x_m: float, reference_y_m: float, reference_yaw_rad: float, reference_mps: float,
) -> ErrorState:  # fmt: skip
    """Return e = (R(-yaw) (p_r - p), yaw_r - yaw, v_r - v), after Unjhawala et al. 2023."""
    dx, dy, c, s = reference_x_m - x_m, reference_y_m - y_m, cos(yaw_rad), sin(yaw_rad)
    return ErrorState(
        c * dx + s * dy,
        c * dy - s * dx,
        remainder(reference_yaw_rad - yaw_rad, tau),
        reference_mps - speed_mps,
    )


def reference_ahead(
    tracker: PathTracker, x_m: float, y_m: float, motion_yaw_rad: float, look_ahead_m: float
) -> CoursePoint:
    """Return the point of the current leg, or of its straight extension, nearest to the point ahead
    of a pose in its direction of motion."""
    near_x = x_m + look_ahead_m * cos(motion_yaw_rad)
    near_y = y_m + look_ahead_m * sin(motion_yaw_rad)
    s_m, end_m = tracker.locate(near_x, near_y, 0.0).s_m, tracker.leg_end_m
    if not tracker.course.closed and s_m >= end_m:
        end = tracker.point_at(end_m)
        along_m = (near_x - end.x_m) * cos(end.yaw_rad) + (near_y - end.y_m) * sin(end.yaw_rad)
        s_m = end_m + max(tracker.direction * along_m, 0.0)
    return tracker.point_at(s_m)
