"""Cusps: points where the course changes between forward and reverse.

A waypoint with a negative speed is left in reverse. Where the sign changes, the line must turn back
on itself: the vehicle stops there and keeps its heading.
"""

from collections.abc import Callable
from itertools import pairwise
from math import degrees, pi

import numpy as np

from vehicled.core.arrays import Array
from vehicled.paths import smoothing
from vehicled.paths.errors import CourseError

MIN_TURN_RAD = pi / 2
# Sampled waypoints on two tight arcs meet at a cusp with this much between their chords; a vehicle
# cannot turn on the spot by more.
MAX_HEADING_STEP_RAD = 0.6


def signed(speeds: Array) -> Array:
    """Return the speeds (n,) with every 0 between opposite signs given to the part behind it:
    planners write 0 where the vehicle stops."""
    zero = np.flatnonzero(speeds == 0.0)
    if not len(zero):
        return speeds
    filled = speeds.copy()
    for i in zero[::-1].tolist():
        before = speeds[:i][speeds[:i] != 0.0]
        if len(before) and i + 1 < len(speeds) and before[-1] * filled[i + 1] < 0.0:
            filled[i] = filled[i + 1]
    return filled


def find(points: Array, speeds: Array, place: Callable[[int], str]) -> tuple[Array, list[int]]:
    """Return the cusps of a line of ``points`` (n, 2): their indices, and the speeds (n,) with each
    cusp counted to the part behind it.

    Some files give the turning point the speed it is reached with, others the one it is left with:
    the sharper turn decides. ``place`` names a waypoint by its index. Raises CourseError where the
    sign changes but the line does not turn back.
    """
    backward = speeds < 0.0
    changes = np.flatnonzero(backward[1:] != backward[:-1]).tolist()
    if not changes:
        return speeds, []
    turn = np.concatenate(([0.0], np.abs(smoothing.turns(points)), [0.0]))
    speeds, cusps = speeds.copy(), list[int]()
    for i in changes:
        cusp = i if turn[i] > turn[i + 1] else i + 1
        x, y = points[cusp]
        if turn[cusp] < MIN_TURN_RAD or cusp in cusps:
            raise CourseError(
                f"{place(cusp)}: the speed changes its sign at ({x:g}, {y:g}) m but the line "
                "does not turn back there; a vehicle that changes its direction leaves a point "
                "the way it came: give the turning point a waypoint of its own"
            )
        if pi - turn[cusp] > MAX_HEADING_STEP_RAD:
            raise CourseError(
                f"{place(cusp)}: the vehicle would have to turn by "
                f"{degrees(pi - turn[cusp]):.0f} degrees where it stands at ({x:g}, {y:g}) m; "
                "both parts must meet there in one line"
            )
        if cusp == i:
            speeds[cusp] = speeds[cusp + 1]
        cusps.append(cusp)
    return speeds, cusps


def joined_yaw(legs: list[tuple[Array, bool]]) -> Array:
    """Return the heading of the vehicle along parts that share their ends: tangents (m,) of each
    part and whether it is driven backward.

    Continuous, without repeating the cusps, whose heading is the mean of both sides.
    """
    headings = [tangent + pi if backward else tangent for tangent, backward in legs]
    for before, after in pairwise(headings):
        after += 2.0 * pi * np.round((before[-1] - after[0]) / (2.0 * pi))
        before[-1] = after[0] = 0.5 * (before[-1] + after[0])
    return np.concatenate([heading[:-1] for heading in headings[:-1]] + [headings[-1]])
