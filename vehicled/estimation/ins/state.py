"""State of the inertial filter: a nominal state and the Gaussian of its error.

Nominal: position and velocity of the inertial unit in ENU, attitude as a quaternion (body to ENU, w
first), and slowly varying errors of the sensors. Error, in the order of the covariance (N = 22):

    0 position  3 velocity  6 attitude  9 gyro bias  12 accelerometer bias
    15 coloured GNSS error (E, N, U)  18 heading bias by kind (inertial, magnetic, moving base)
    21 wheel scale

The attitude error phi is a rotation in ENU: ``R_true = exp([phi]x) R``, so that phi_z is the error
of the yaw of a level vehicle. Sola 2017, "Quaternion kinematics for the error-state Kalman filter",
chapter 7 (global angular error).
"""

from math import atan2, cos, sin, sqrt

from vehicled.core.arrays import Array
from vehicled.estimation.counters import GateCounters

Triple = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]
Rotation = tuple[float, float, float, float, float, float, float, float, float]
"""Row-major (3, 3), body to ENU."""

N = 22
P, V, A, BG, BA, C, HB, S = 0, 3, 6, 9, 12, 15, 18, 21
"""First index of each part of the error state; in ``State.x`` the entries of the attitude are
zero."""


class InsState:
    """State of the filter. A history shares states, so change only a ``copy``. ``P`` is (N, N),
    symmetric; ``x`` has N floats."""

    __slots__ = (
        "P", "R", "colour", "colour_variance", "counters", "force_mps2", "q", "rate_radps", "x",
    )  # fmt: skip

    def __init__(self, x: list[float], q: Quaternion, covariance: Array) -> None:
        self.x = x
        self.q = q
        self.R = rotation(q)
        self.P = covariance
        self.rate_radps: Triple = (0.0, 0.0, 0.0)
        """Angular rate of the body during the last prediction, bias removed."""
        self.force_mps2: Triple = (0.0, 0.0, 0.0)
        """Specific force in body axes during the last prediction, bias removed; 0 without
        accelerometer."""
        self.colour = -1
        """Carrier solution that the coloured states belong to; -1 before the first."""
        self.colour_variance: Triple = (0.0, 0.0, 0.0)
        """Stationary variance of the coloured states, m2."""
        self.counters = GateCounters()

    def copy(self) -> "InsState":
        """Return a copy that may be changed."""
        new: InsState = InsState.__new__(InsState)
        new.x = self.x
        new.q = self.q
        new.R = self.R
        new.P = self.P.copy()
        new.rate_radps = self.rate_radps
        new.force_mps2 = self.force_mps2
        new.colour = self.colour
        new.colour_variance = self.colour_variance
        new.counters = self.counters
        return new

    def inject(self, dx: Array) -> None:
        """Add an error estimate (N,) to the nominal state. The reset Jacobian is taken as 1 (second
        order in phi)."""
        d = dx.tolist()
        x = [a + b for a, b in zip(self.x, d)]
        x[6] = x[7] = x[8] = 0.0
        self.x = x
        self.q = q = turned(self.q, d[6], d[7], d[8])
        self.R = rotation(q)


def rotation(q: Quaternion) -> Rotation:
    """Return the rotation matrix of a unit quaternion."""
    w, x, y, z = q
    xx, yy, zz = 2.0 * x * x, 2.0 * y * y, 2.0 * z * z
    xy, xz, yz = 2.0 * x * y, 2.0 * x * z, 2.0 * y * z
    wx, wy, wz = 2.0 * w * x, 2.0 * w * y, 2.0 * w * z
    return (
        1.0 - yy - zz,
        xy - wz,
        xz + wy,
        xy + wz,
        1.0 - xx - zz,
        yz - wx,
        xz - wy,
        yz + wx,
        1.0 - xx - yy,
    )


def exponential(x: float, y: float, z: float) -> Quaternion:
    """Return the unit quaternion of a rotation vector, rad."""
    half2 = 0.25 * (x * x + y * y + z * z)
    if half2 < 1e-4:
        # Below 0.02 rad the series is exact to 1e-13 and cheaper.
        k = 0.5 - half2 / 12.0 + half2 * half2 / 240.0
        return (1.0 - 0.5 * half2 + half2 * half2 / 24.0, k * x, k * y, k * z)
    half = sqrt(half2)
    k = 0.5 * sin(half) / half
    return (cos(half), k * x, k * y, k * z)


def product(a: Quaternion, b: Quaternion) -> Quaternion:
    """Return the Hamilton product, normalised; both factors have nearly unit length."""
    aw, ax, ay, az = a
    bw, bx, by, bz = b
    w = aw * bw - ax * bx - ay * by - az * bz
    x = aw * bx + ax * bw + ay * bz - az * by
    y = aw * by - ax * bz + ay * bw + az * bx
    z = aw * bz + ax * by - ay * bx + az * bw
    k = 1.0 / sqrt(w * w + x * x + y * y + z * z)
    return (w * k, x * k, y * k, z * k)


def turned(q: Quaternion, x: float, y: float, z: float) -> Quaternion:
    """Return the attitude rotated by a vector given in ENU."""
    return product(exponential(x, y, z), q)


def from_angles(roll_rad: float, pitch_rad: float, yaw_rad: float) -> Quaternion:
    """Return the attitude ``Rz(yaw) Ry(pitch) Rx(roll)``; pitch is positive nose down, since y
    points left."""
    cr, sr = cos(0.5 * roll_rad), sin(0.5 * roll_rad)
    cp, sp = cos(0.5 * pitch_rad), sin(0.5 * pitch_rad)
    cy, sy = cos(0.5 * yaw_rad), sin(0.5 * yaw_rad)
    return product(product((cy, 0.0, 0.0, sy), (cp, 0.0, sp, 0.0)), (cr, sr, 0.0, 0.0))


def yaw_of(R: Rotation) -> float:
    """Return the yaw of the body's forward axis, counter-clockwise from east."""
    return atan2(R[3], R[0])


def apply(R: Rotation, x: float, y: float, z: float) -> Triple:
    """Rotate a body vector to ENU."""
    return (
        R[0] * x + R[1] * y + R[2] * z,
        R[3] * x + R[4] * y + R[5] * z,
        R[6] * x + R[7] * y + R[8] * z,
    )


def apply_inverse(R: Rotation, x: float, y: float, z: float) -> Triple:
    """Rotate an ENU vector to body axes."""
    return (
        R[0] * x + R[3] * y + R[6] * z,
        R[1] * x + R[4] * y + R[7] * z,
        R[2] * x + R[5] * y + R[8] * z,
    )


def cross(a: Triple, b: Triple) -> Triple:
    """Return the cross product."""
    return (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])
