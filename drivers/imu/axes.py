"""Conversions from device axes to REP-103. World frames here are north, east and either up or
down."""

from collections.abc import Sequence
from math import atan2, cos, hypot, isfinite, nan, pi, sin

from drivers.imu.base import Vector
from vehicled.core.wire.usage import Unused, UsageProblem

ROTATION_TOLERANCE = 0.01
"""Largest distance from one of the length of a quaternion or of a column of a matrix. The coarsest
format here resolves 3e-5, and every device normalises; what is further off was never an
attitude."""
EULER_TOLERANCE_RAD = 0.01


def flu(frd: Vector | None, scale: float = 1.0) -> Vector | None:
    """Return a forward-right-down vector (3,) times ``scale`` in forward-left-up. None stays
    None."""
    return None if frd is None else (frd[0] * scale, -frd[1] * scale, -frd[2] * scale)


def forward_of_quaternion(w: float, x: float, y: float, z: float) -> tuple[float, float]:
    """Return the horizontal components of the body's x axis along the first two world axes, for a
    rotation from body to world."""
    return w * w + x * x - y * y - z * z, 2 * (x * y + w * z)


def forward_of_euler(pitch_rad: float, yaw_rad: float) -> tuple[float, float]:
    """Return the same from Euler angles in the order yaw, pitch, roll; roll does not move the x
    axis. NaN if an angle is not finite."""
    if not isfinite(pitch_rad + yaw_rad):
        return nan, nan
    level = cos(pitch_rad)
    return level * cos(yaw_rad), level * sin(yaw_rad)


def rate_of_increment(increment: Vector, dt_s: float) -> Vector:
    """Return the angular rate (3,) of a rotation by the quaternion ``increment`` (w, x, y, z)
    within ``dt_s``."""
    w, x, y, z = increment
    length = hypot(x, y, z)
    scale = 2 / dt_s * (atan2(length, abs(w)) / length if length > 1e-9 else 1.0)
    # A quaternion and its negative are the same rotation; take the shorter one.
    if w < 0:
        scale = -scale
    return x * scale, y * scale, z * scale


def quaternion_problem(components: Sequence[float]) -> UsageProblem | None:
    """Return why four numbers are no rotation."""
    return _length_problem("quaternion", (components,))


def matrix_problem(elements: Sequence[float]) -> UsageProblem | None:
    """Return why nine numbers are no rotation; by rows or by columns."""
    return _length_problem("rotation matrix", (elements[:3], elements[3:6], elements[6:9]))


def _length_problem(name: str, vectors: Sequence[Sequence[float]]) -> UsageProblem | None:
    for vector in vectors:
        length = hypot(*vector)
        if not isfinite(length):
            return UsageProblem(Unused.NOT_FINITE, name)
        if length == 0.0:
            return UsageProblem(Unused.ALL_ZERO, name)
        if abs(length - 1.0) > ROTATION_TOLERANCE:
            return UsageProblem(Unused.NOT_A_ROTATION, name, f"length {length:.3f}")
    return None


def euler_problem(roll_rad: float, pitch_rad: float, yaw_rad: float) -> UsageProblem | None:
    """Return why three angles of floating-point numbers are no attitude. No unit is level and
    exactly north to the last bit."""
    if not isfinite(roll_rad + pitch_rad + yaw_rad):
        return UsageProblem(Unused.NOT_FINITE, "attitude")
    if roll_rad == pitch_rad == yaw_rad == 0.0:
        return UsageProblem(Unused.ALL_ZERO, "attitude")
    for name, angle, limit in (
        ("roll", roll_rad, pi),
        ("pitch", pitch_rad, pi / 2),
        ("yaw", yaw_rad, 2 * pi),
    ):
        if abs(angle) > limit + EULER_TOLERANCE_RAD:
            return UsageProblem(Unused.OUT_OF_RANGE, name, f"{angle:.3f} rad")
    return None
