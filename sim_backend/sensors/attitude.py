"""Rotations between body and level axes: yaw, then pitch (nose down), then roll (right side down),
as in :class:`Motion`."""

from math import cos, sin

Vector = tuple[float, float, float]
Matrix = tuple[Vector, Vector, Vector]
"""Matrix as a tuple of rows."""


def to_level(roll_rad: float, pitch_rad: float, body: Vector) -> Vector:
    """Rotate a body vector into axes along the heading, to its left and up: ``Ry(pitch) Rx(roll)
    body``."""
    x, y, z = body
    cr, sr, cp, sp = cos(roll_rad), sin(roll_rad), cos(pitch_rad), sin(pitch_rad)
    upright = sr * y + cr * z
    return cp * x + sp * upright, cr * y - sr * z, cp * upright - sp * x


def to_body(roll_rad: float, pitch_rad: float, level: Vector) -> Vector:
    """Rotate a level vector into body axes; inverse of :func:`to_level`."""
    x, y, z = level
    cr, sr, cp, sp = cos(roll_rad), sin(roll_rad), cos(pitch_rad), sin(pitch_rad)
    down = sp * x + cp * z
    return cp * x - sp * z, cr * y + sr * down, cr * down - sr * y


def lever_velocity(rate_radps: Vector, arm_m: Vector) -> Vector:
    """Return the velocity of the end of a rotating arm: the cross product."""
    p, q, r = rate_radps
    x, y, z = arm_m
    return q * z - r * y, r * x - p * z, p * y - q * x


def rotation(roll_rad: float, pitch_rad: float, yaw_rad: float) -> Matrix:
    """Return ``Rz(yaw) Ry(pitch) Rx(roll)``, from the rotated axes to the original ones."""
    columns = [
        to_level(roll_rad, pitch_rad, axis)
        for axis in ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    ]
    c, s = cos(yaw_rad), sin(yaw_rad)
    (a, b, d), (e, f, g), (h, i, j) = columns
    return (
        (c * a - s * b, c * e - s * f, c * h - s * i),
        (s * a + c * b, s * e + c * f, s * h + c * i),
        (d, g, j),
    )


def matrix_vector(matrix: Matrix, vector: Vector) -> Vector:
    """Return the product of matrix and vector."""
    x, y, z = vector
    (a, b, c), (d, e, f), (g, h, i) = matrix
    return a * x + b * y + c * z, d * x + e * y + f * z, g * x + h * y + i * z
