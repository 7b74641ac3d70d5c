"""Courses drawn by formula. All start at the origin unless said; m, m/s; angles counter-clockwise
from east.

Each raises CourseError when a length, a radius or a speed is not a positive number.
"""

from math import atan, isfinite, pi
from typing import Literal

import numpy as np

from vehicled.core.arrays import Array, matmul
from vehicled.paths.course import MAX_WAYPOINTS, Course, course_from_waypoints
from vehicled.paths.errors import CourseError

# Dense enough for the cubic between waypoints to be exact to micrometres on every course below.
_STEP_M = 0.05


def positive(name: str, **values: float) -> None:
    """Raises CourseError for a length, a speed or a share that is not above 0."""
    for key, value in values.items():
        if not (isfinite(value) and value > 0.0):
            raise CourseError(f"{name}: {key} is {value:g}; it must be a positive number")


def steps(name: str, length_m: float, spacing_m: float = _STEP_M, least: int = 64) -> int:
    """Return the number of steps of about ``spacing_m``. Raises CourseError for too many, before
    they take memory."""
    if not length_m <= spacing_m * MAX_WAYPOINTS:
        raise CourseError(
            f"{name}: {length_m / 1000.0:.4g} km in steps of {spacing_m:g} m; make it shorter, "
            "or slower"
        )
    return max(least, round(length_m / spacing_m))


def smooth_step(u: Array) -> Array:
    """10 u^3 - 15 u^4 + 6 u^5, held outside 0..1: neither heading nor curvature jumps. Its slope is
    1.875 at the most, its second derivative 5.77."""
    u = np.clip(u, 0.0, 1.0)
    return u * u * u * (10.0 - 15.0 * u + 6.0 * u**2)


def straight(
    length_m: float = 20.0,
    *,
    speed_mps: float = 1.0,
    second_mps: float | None = None,
    name: str = "straight",
) -> Course:
    """Return a line due east; ``second_mps`` is the speed of its second half."""
    positive(name, length_m=length_m)
    if second_mps is None:
        return course_from_waypoints(
            name, [0.0, length_m], [0.0, 0.0], default_speed_mps=speed_mps, closed=False
        )
    x = np.linspace(0.0, length_m, steps(name, length_m) + 1)
    return course_from_waypoints(
        name, x, 0.0 * x, speed=_halves(name, len(x), speed_mps, second_mps), closed=False
    )


def circle(
    radius_m: float = 5.0,
    direction: Literal["ccw", "cw"] = "ccw",
    laps: int = 1,
    *,
    speed_mps: float = 1.0,
    second_mps: float | None = None,
    name: str = "circle",
) -> Course:
    """Return a circle that leaves the origin eastwards. One lap is a closed course; several are one
    open line wound up.

    ``second_mps`` is the speed of the second half of the line.
    """
    positive(name, radius_m=radius_m, laps=laps)
    if direction not in ("ccw", "cw"):
        raise CourseError(f'{name}: direction is "{direction}"; it is "ccw" or "cw"')
    n = steps(name, 2.0 * pi * radius_m * laps)
    angle = np.linspace(0.0, 2.0 * pi * laps, n, endpoint=laps > 1)
    side = 1.0 if direction == "ccw" else -1.0
    x, y = radius_m * np.sin(angle), side * radius_m * (1.0 - np.cos(angle))
    speeds = None if second_mps is None else _halves(name, n, speed_mps, second_mps)
    return course_from_waypoints(
        name, x, y, speed=speeds, default_speed_mps=speed_mps, closed=laps == 1
    )


def _halves(name: str, n: int, first_mps: float, second_mps: float) -> Array:
    """Return the speeds of n waypoints: one on the first half of the line, another on the
    second."""
    positive(name, speed_mps=first_mps, second_mps=second_mps)
    return np.where(np.arange(n) < n // 2, first_mps, second_mps)


def sine(
    amplitude_m: float = 2.0,
    wave_number_per_m: float = 0.3,
    length_m: float = 30.0,
    *,
    speed_mps: float = 1.0,
    name: str = "sine",
) -> Course:
    """y = amplitude sin(wave number x) for x in 0..length. Tightest radius 1 / (amplitude
    wave_number^2)."""
    positive(name, amplitude_m=amplitude_m, wave_number_per_m=wave_number_per_m, length_m=length_m)
    x = np.linspace(0.0, length_m, steps(name, length_m) + 1)
    y = amplitude_m * np.sin(wave_number_per_m * x)
    return course_from_waypoints(name, x, y, default_speed_mps=speed_mps, closed=False)


def square(
    size_m: float = 20.0,
    corner_radius_m: float = 3.0,
    *,
    speed_mps: float = 1.0,
    name: str = "square",
) -> Course:
    """Return a square with rounded corners, driven counter-clockwise from the middle of its south
    side."""
    positive(name, size_m=size_m, corner_radius_m=corner_radius_m)
    if 2.0 * corner_radius_m >= size_m:
        raise CourseError(
            f"{name}: corner_radius_m is {corner_radius_m:g}; it must be below half of size_m "
            f"= {size_m:g}"
        )
    half, radius = size_m / 2.0, corner_radius_m
    side = np.linspace(
        -(half - radius), half - radius, steps(name, size_m - 2.0 * radius), endpoint=False
    )
    angle = np.linspace(-pi / 2.0, 0.0, steps(name, radius * pi / 2.0), endpoint=False)
    east = np.concatenate((side, half - radius + radius * np.cos(angle)))
    north = np.concatenate((np.full(len(side), -half), -half + radius + radius * np.sin(angle)))
    quarter = np.column_stack((east, north))
    corners = [matmul(quarter, _turned(k * pi / 2.0)) for k in range(4)]
    ring = np.vstack(corners)
    start = len(side) // 2
    ring = np.roll(ring, -start, axis=0)
    ring = ring - ring[0]
    return course_from_waypoints(
        name, ring[:, 0], ring[:, 1], default_speed_mps=speed_mps, closed=True
    )


def double_lane_change(
    vehicle_width_m: float = 1.8, *, speed_mps: float = 1.0, name: str = "double_lane_change"
) -> Course:
    """Return the centre line of the ISO 3888-1 double lane change, 125 m.

    Lanes: A 0-15 m, 1.1 w + 0.25 wide; B 45-70 m, 1.2 w + 0.25 wide; C 95-110 m, 1.3 w + 0.25 wide;
    15 m run-out. The 3.5 m offset is taken between the right edges of A and B, as the standard
    draws it, so the centre of B lies at 3.5 + (width_B - width_A) / 2. Between lanes the quintic 10
    u^3 - 15 u^4 + 6 u^5: no step in heading or curvature.
    """
    positive(name, vehicle_width_m=vehicle_width_m)
    width_a, width_b, width_c = (factor * vehicle_width_m + 0.25 for factor in (1.1, 1.2, 1.3))
    centre_b, centre_c = 3.5 + (width_b - width_a) / 2.0, (width_c - width_a) / 2.0
    x = np.linspace(0.0, 125.0, 2501)
    y = centre_b * smooth_step((x - 15.0) / 30.0) + (centre_c - centre_b) * smooth_step(
        (x - 70.0) / 25.0
    )
    return course_from_waypoints(name, x, y, default_speed_mps=speed_mps, closed=False)


def figure_eight(
    half_width_m: float = 10.0, *, speed_mps: float = 1.0, name: str = "figure_eight"
) -> Course:
    """Return Bernoulli's lemniscate, closed, which leaves its crossing eastwards; tightest radius a
    third of the half width."""
    positive(name, half_width_m=half_width_m)
    t = np.linspace(0.0, 2.0 * pi, steps(name, 5.3 * half_width_m), endpoint=False) - pi / 2.0
    denominator = 1.0 + np.sin(t) ** 2
    lobes = half_width_m * np.column_stack(
        (np.cos(t) / denominator, np.sin(t) * np.cos(t) / denominator)
    )
    # The branch leaves the crossing at -45 degrees.
    lobes = matmul(lobes, _turned(atan(1.0)))
    return course_from_waypoints(
        name, lobes[:, 0], lobes[:, 1], default_speed_mps=speed_mps, closed=True
    )


def parallel_parking(
    offset_m: float = 1.2,
    radius_m: float = 2.0,
    *,
    approach_m: float = 4.0,
    forward_m: float = 0.6,
    speed_mps: float = 0.5,
    name: str = "parallel_parking",
) -> Course:
    """Return a parking manoeuvre: past a bay on the right, backward into it, forward to its middle:
    ``approach_m`` straight on, an S backward to a line ``offset_m`` to the right, ``forward_m``
    straight on.

    The wheels are straight at both cusps and turn evenly in between: the curvature is a sine over
    the S, its largest 1 / radius.
    """
    positive(
        name,
        offset_m=offset_m,
        radius_m=radius_m,
        approach_m=approach_m,
        forward_m=forward_m,
        speed_mps=speed_mps,
    )

    def swing(length_m: float) -> Array:
        u = np.linspace(0.0, 1.0, steps(name, length_m) + 1)
        return walked(length_m, length_m / (2.0 * pi * radius_m) * (1.0 - np.cos(2.0 * pi * u)))

    # The S gets longer until it reaches far enough; a swing beyond a quarter turn would be no
    # parking.
    shortest_m, longest_m = 1e-3 * radius_m, 0.5 * pi**2 * radius_m
    if swing(longest_m)[-1, 1] < offset_m:
        raise CourseError(
            f"{name}: offset_m is {offset_m:g}; one S with radius_m = {radius_m:g} reaches "
            "less far: make it larger"
        )
    for _ in range(60):
        middle_m = 0.5 * (shortest_m + longest_m)
        shortest_m, longest_m = (
            (middle_m, longest_m) if swing(middle_m)[-1, 1] < offset_m else (shortest_m, middle_m)
        )
    # Walked eastwards to the left, driven westwards to the right.
    back = np.array([approach_m, 0.0]) - swing(longest_m)
    end = back[-1] + np.array([forward_m, 0.0])
    parts = [
        (np.array([[0.0, 0.0], [approach_m, 0.0]]), 1.0),
        (back, -1.0),
        (np.vstack((back[-1], end)), 1.0),
    ]
    return _manoeuvre(name, parts, speed_mps)


def three_point_turn(
    radius_m: float = 2.0,
    *,
    approach_m: float = 1.5,
    speed_mps: float = 0.5,
    name: str = "three_point_turn",
) -> Course:
    """Return a turn in a narrow street: straight on; forward to the left, backward to the right,
    forward to the left, by 60 degrees each; and straight back.

    The wheels are straight at both cusps: the curvature of each turn is a sine squared, its largest
    1 / radius.
    """
    positive(name, radius_m=radius_m, approach_m=approach_m, speed_mps=speed_mps)
    third_rad = pi / 3.0
    length_m = 2.0 * radius_m * third_rad
    u = np.linspace(0.0, 1.0, steps(name, length_m) + 1)
    turn = walked(length_m, third_rad * (u - np.sin(2.0 * pi * u) / (2.0 * pi)))
    first = np.vstack(([0.0, 0.0], turn + np.array([approach_m, 0.0])))
    # Backward the heading goes on to grow, so the line is the same turn begun in the opposite
    # direction.
    second = first[-1] + matmul(turn, _turned(third_rad + pi))
    third = second[-1] + matmul(turn, _turned(2.0 * third_rad))
    third = np.vstack((third, third[-1] + np.array([-approach_m, 0.0])))
    return _manoeuvre(name, [(first, 1.0), (second, -1.0), (third, 1.0)], speed_mps)


def _manoeuvre(name: str, parts: list[tuple[Array, float]], speed_mps: float) -> Course:
    """Return a course of parts that meet at cusps, each with its direction."""
    points = np.vstack([part[:-1] for part, _ in parts] + [parts[-1][0][-1:]])
    speeds = np.concatenate(
        [np.full(len(part) - 1, sign * speed_mps) for part, sign in parts]
        + [[parts[-1][1] * speed_mps]]
    )
    return course_from_waypoints(
        name, points[:, 0], points[:, 1], speed=speeds, closed=False, speed_holds=True
    )


def walked(length_m: float, heading_rad: Array) -> Array:
    """Return points (n, 2) of a line from the origin whose heading goes through evenly spaced
    values."""
    step_m = length_m / (len(heading_rad) - 1)
    middle = 0.5 * (heading_rad[1:] + heading_rad[:-1])
    steps = step_m * np.column_stack((np.cos(middle), np.sin(middle)))
    return np.vstack((np.zeros((1, 2)), np.cumsum(steps, axis=0)))


def _turned(angle_rad: float) -> Array:
    """Return the matrix that rotates row vectors counter-clockwise."""
    cos, sin = np.cos(angle_rad), np.sin(angle_rad)
    return np.array([[cos, sin], [-sin, cos]])
