"""Between the axes of devices and those of REP-103. World frames here: north, east and the rest, whatever it is called."""

from math import atan2, cos, hypot, isfinite, nan, sin

from drivers.imu.base import Vector


def flu(frd: Vector | None, scale: float = 1.0) -> Vector | None:
    """A vector (3,) in forward, right, down times ``scale``, in forward, left, up. None stays None."""
    return None if frd is None else (frd[0] * scale, -frd[1] * scale, -frd[2] * scale)


def forward_of_quaternion(w: float, x: float, y: float, z: float) -> tuple[float, float]:
    """Level components of the x axis of the body in the first two axes of the world, from the rotation of body to world."""
    return w * w + x * x - y * y - z * z, 2 * (x * y + w * z)


def forward_of_euler(pitch_rad: float, yaw_rad: float) -> tuple[float, float]:
    """The same from the angles of the sequence yaw, pitch, roll; the last does not move the x axis. NaN if one is not finite."""
    if not isfinite(pitch_rad + yaw_rad):
        return nan, nan
    level = cos(pitch_rad)
    return level * cos(yaw_rad), level * sin(yaw_rad)


def rate_of_increment(increment: Vector, dt_s: float) -> Vector:
    """Angular rate (3,) that turns by the quaternion ``increment`` (w, x, y, z) within ``dt_s``."""
    w, x, y, z = increment
    length = hypot(x, y, z)
    share = 2 / dt_s * (atan2(length, abs(w)) / length if length > 1e-9 else 1.0)
    # A quaternion and its negative are the same turn; the shorter way round is meant.
    if w < 0:
        share = -share
    return x * share, y * share, z * share
