"""Tracking error of the published controllers: the reference pose and speed in the frame of the vehicle."""

from math import cos, remainder, sin, tau
from typing import NamedTuple


class ErrorState(NamedTuple):
    """Reference minus vehicle, in the vehicle frame: ahead (m), left (m), heading (rad, -pi..pi), speed (m/s)."""

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
    return ErrorState(c * dx + s * dy, c * dy - s * dx, remainder(reference_yaw_rad - yaw_rad, tau), reference_mps - speed_mps)
