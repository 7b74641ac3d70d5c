"""Conversions from device axes to REP-103. World frames here are north, east and either up or down."""

from math import atan2, cos, hypot, isfinite, nan, sin

from drivers.imu.base import Vector


def flu(frd: Vector | None, scale: float = 1.0) -> Vector | None:
    """Return a forward-right-down vector (3,) times ``scale`` in forward-left-up. None stays None."""
    return None if frd is None else (frd[0] * scale, -frd[1] * scale, -frd[2] * scale)


def forward_of_quaternion(w: float, x: float, y: float, z: float) -> tuple[float, float]:
    """Return the horizontal components of the body's x axis along the first two world axes, for a rotation from body to world."""
    return w * w + x * x - y * y - z * z, 2 * (x * y + w * z)


def forward_of_euler(pitch_rad: float, yaw_rad: float) -> tuple[float, float]:
    """Return the same from Euler angles in the order yaw, pitch, roll; roll does not move the x axis. NaN if an angle is not
    finite."""
    if not isfinite(pitch_rad + yaw_rad):
        return nan, nan
    level = cos(pitch_rad)
    return level * cos(yaw_rad), level * sin(yaw_rad)


def rate_of_increment(increment: Vector, dt_s: float) -> Vector:
    """Return the angular rate (3,) of a rotation by the quaternion ``increment`` (w, x, y, z) within ``dt_s``."""
    w, x, y, z = increment
    length = hypot(x, y, z)
    scale = 2 / dt_s * (atan2(length, abs(w)) / length if length > 1e-9 else 1.0)
    # A quaternion and its negative are the same rotation; take the shorter one.
    if w < 0:
        scale = -scale
    return x * scale, y * scale, z * scale
