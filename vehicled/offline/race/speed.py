"""Speed profile of a closed line by a forward and a backward pass, its lap time, and the gradient
of that.

The lateral acceleration bounds the speed at each station, and so does the rate of the steering
where the curvature changes. Acceleration and braking use what the combined limit leaves: the
friction ellipse of :class:`~vehicled.offline.race.limits.RaceLimits`. The pass begins at the
slowest station, which neither acceleration nor braking can slow down further, so one lap is
periodic.
"""

from math import sqrt

import numpy as np
from msgspec import Struct

from vehicled.core.arrays import Array
from vehicled.offline.race.limits import RaceLimits, grip_left

LEAST_MPS = 0.05
"""Lowest speed of a profile."""
_STEP = 1e-6
STEEPEST = 5.0
"""Largest change of a squared speed, in that of the one before it, that the gradient follows."""
_BOUND, _FORWARD, _BACKWARD = 0, 1, 2


class LapTime(Struct, frozen=True):
    """Speed profile of a closed line, and its lap time."""

    speed_mps: Array
    """Speed at the stations (n,)."""
    acceleration_mps2: Array
    """Mean acceleration from each station to the next (n,)."""
    time_s: float


class LapGradient(Struct, frozen=True):
    """Gradient of the lap time."""

    by_curvature: Array
    """Derivative by the curvature of each station (n,)."""
    by_leg: Array
    """Derivative by the length from each station to the next (n,)."""


def lap_time(curvature_per_m: Array, legs_m: Array, limits: RaceLimits) -> LapTime:
    """Return the fastest speed profile of a closed line with curvatures (n,) and lengths (n,) from
    each station to the next."""
    first, squares, _, _ = _passes(curvature_per_m, legs_m, limits)
    speed = np.sqrt(np.roll(squares[:-1], first))
    after = np.roll(speed, -1)
    return LapTime(
        speed,
        (after * after - speed * speed) / (2.0 * legs_m),
        float((2.0 * legs_m / (speed + after)).sum()),
    )


def lap_gradient(curvature_per_m: Array, legs_m: Array, limits: RaceLimits) -> LapGradient:
    """Return the gradient of the lap time by the reverse of both passes. The bound by the steering
    rate counts as constant."""
    n = len(legs_m)
    first, squares, forward, sources = _passes(curvature_per_m, legs_m, limits)
    kappa = np.append(np.roll(curvature_per_m, -first), curvature_per_m[first])
    legs = np.roll(legs_m, -first)
    speed = np.sqrt(squares)
    both = speed[:-1] + speed[1:]
    # T = sum of 2 ds / (v_i + v_{i+1}); squares are v^2, so dT/du = dT/dv / (2 v).
    slope = np.zeros(n + 1)
    each = -2.0 * legs / (both * both)
    slope[:-1] += each
    slope[1:] += each
    slope /= 2.0 * speed
    by_kappa, by_leg = np.zeros(n + 1), 2.0 / both
    entering = np.zeros(n + 1)
    """Adjoint of the result of the forward pass."""
    for i in range(n):
        if sources[i] == _BACKWARD:
            rise, by_u, by_k = _derivatives(
                limits, squares[i + 1], kappa[i + 1], legs[i], braking=True
            )
            slope[i + 1] += slope[i] * (1.0 + 2.0 * legs[i] * by_u)
            by_kappa[i + 1] += slope[i] * 2.0 * legs[i] * by_k
            by_leg[i] += slope[i] * 2.0 * rise
        else:
            entering[i] = slope[i]
    entering[n] = slope[n]
    bound, top = _bounds(kappa, limits), 0.999999 * limits.top_speed_mps**2
    for i in range(n, -1, -1):
        if i and forward[i][1] == _FORWARD:
            before = forward[i - 1][0]
            rise, by_u, by_k = _derivatives(
                limits, before, kappa[i - 1], legs[i - 1], braking=False
            )
            entering[i - 1] += entering[i] * (1.0 + 2.0 * legs[i - 1] * by_u)
            by_kappa[i - 1] += entering[i] * 2.0 * legs[i - 1] * by_k
            by_leg[i - 1] += entering[i] * 2.0 * rise
        elif forward[i][0] < top and abs(bound[i] - forward[i][0]) <= 1e-9 * bound[i]:
            by_kappa[i] -= entering[i] * forward[i][0] / kappa[i]
    by_kappa[0] += by_kappa[n]
    return LapGradient(np.roll(by_kappa[:n], first), np.roll(by_leg, first))


def _bounds(kappa: Array, limits: RaceLimits) -> Array:
    """Return the squares of the speeds that the lateral acceleration allows."""
    square: Array = limits.lateral_mps2 / np.maximum(np.abs(kappa), 1e-9)
    return np.clip(square, LEAST_MPS**2, limits.top_speed_mps**2)


def _rate_bounds(kappa: Array, legs: Array, limits: RaceLimits) -> Array:
    """Return the squares of the speeds that the slew rate of the steering allows."""
    wheel = np.arctan(limits.wheelbase_m * kappa)
    change = np.abs(np.roll(wheel, -1) - wheel) / legs
    worst = np.maximum(change, np.roll(change, 1))
    bound: Array = (limits.steering_rate_radps / np.maximum(worst, 1e-9)) ** 2
    return np.maximum(bound, LEAST_MPS**2)


def _passes(
    curvature: Array, legs_m: Array, limits: RaceLimits
) -> tuple[int, Array, list[tuple[float, int]], list[int]]:
    """Return the first station of the passes, the squared speeds (n + 1,) from it on, the result of
    the forward pass with its source, and the source of each final speed."""
    n = len(legs_m)
    bound = np.minimum(_bounds(curvature, limits), _rate_bounds(curvature, legs_m, limits))
    first = int(bound.argmin())
    order = np.append(np.roll(np.arange(n), -first), first)
    caps: list[float] = bound[order].tolist()
    kappa: list[float] = np.abs(curvature[order]).tolist()
    legs: list[float] = legs_m[order[:-1]].tolist()
    square = caps[0]
    forward = [(square, _BOUND)]
    for i in range(n):
        reach = square + 2.0 * legs[i] * _rise(limits, square, kappa[i], braking=False)
        if reach < caps[i + 1]:
            square, source = max(reach, LEAST_MPS**2), _FORWARD
        else:
            square, source = caps[i + 1], _BOUND
        forward.append((square, source))
    squares, sources = [0.0] * (n + 1), [_BOUND] * (n + 1)
    square = squares[n] = forward[n][0]
    for i in range(n - 1, -1, -1):
        reach = square + 2.0 * legs[i] * _rise(limits, square, kappa[i + 1], braking=True)
        if reach < forward[i][0]:
            square, sources[i] = reach, _BACKWARD
        else:
            square, sources[i] = forward[i]
        squares[i] = square
    return first, np.array(squares), forward, sources


def _rise(limits: RaceLimits, square: float, kappa: float, *, braking: bool) -> float:
    """Return the acceleration from a station, or with ``braking`` the deceleration to it, m/s2."""
    grip = limits.longitudinal_mps2 * grip_left(
        square * kappa / limits.lateral_mps2, limits.exponent
    )
    if braking:
        return min(grip, limits.braking_mps2) + limits.drag_per_m * square
    return min(grip, limits.drive_mps2(sqrt(square)))


def _derivatives(
    limits: RaceLimits, square: float, kappa: float, leg_m: float, *, braking: bool
) -> tuple[float, float, float]:
    """Return :func:`_rise` and its derivatives with respect to squared speed and curvature.

    Where the tyres are at their lateral limit the ellipse has a vertical tangent; there the
    derivatives are cut, because they would drown all others.
    """
    size, sign = abs(kappa), 1.0 if kappa >= 0.0 else -1.0
    here = _rise(limits, square, size, braking=braking)
    du, dk = _STEP * max(square, 1e-3), _STEP * max(size, 1e-3)
    by_u = (here - _rise(limits, square - du, size, braking=braking)) / du
    by_k = (here - _rise(limits, square, size - dk, braking=braking)) / dk
    cut = 1.0 / max(1.0, 2.0 * leg_m * abs(by_u) / STEEPEST)
    return here, cut * by_u, sign * cut * by_k
