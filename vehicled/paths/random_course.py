"""A random smooth course: bends of random tightness and straights, one running into the next."""

from math import isfinite

import numpy as np

from vehicled.paths.course import Course, course_from_waypoints
from vehicled.paths.errors import CourseError
from vehicled.paths.formulas import positive, smooth_step, steps, walked

TURN_RADIUS_M = 1.5
"""Default turning radius of an unknown vehicle."""
RADIUS_MARGIN = 1.5
"""Tightest bend over the tightest turn of the vehicle, so that a controller has steering left to
correct with."""
BEND_RADII = 3.0
"""Least length of a bend, in radii of the tightest one: from straight to full bend the wheels need
their time."""
STRAIGHT_PROBABILITY = 0.25
SPACING_M = 0.1


def random_course(
    seed: int = 0,
    length_m: float = 40.0,
    *,
    speed_mps: float = 1.0,
    turn_radius_m: float = TURN_RADIUS_M,
    lateral_mps2: float = 1.0,
    bend_m: float = 0.0,
    name: str = "random",
) -> Course:
    """Return a smooth course that leaves the origin eastwards; the same seed gives the same course.

    No bend is tighter than ``RADIUS_MARGIN * turn_radius_m``, nor than ``speed_mps**2 /
    lateral_mps2``. The curvature goes from one random value to the next over ``bend_m``, or where
    that is 0 over ``BEND_RADII`` of the tightest bend; it never jumps.
    """
    positive(
        name,
        length_m=length_m,
        speed_mps=speed_mps,
        turn_radius_m=turn_radius_m,
        lateral_mps2=lateral_mps2,
    )
    if seed < 0:
        raise CourseError(f"{name}: seed is {seed}; it must be 0 or more")
    if not (isfinite(bend_m) and bend_m >= 0.0):
        raise CourseError(f"{name}: bend_m is {bend_m:g}; it must be 0, for the default, or more")
    tightest_m = max(RADIUS_MARGIN * turn_radius_m, speed_mps * speed_mps / lateral_mps2)
    bend_m = min(bend_m or BEND_RADII * tightest_m, length_m)
    count = steps(name, length_m, min(SPACING_M, 0.05 * tightest_m))
    step_m = length_m / count
    random = np.random.default_rng(seed)
    knots = int(length_m / bend_m) + 2
    curvature = random.uniform(-1.0, 1.0, knots) / tightest_m
    curvature[random.random(knots) < STRAIGHT_PROBABILITY] = 0.0
    # A vehicle starts with its wheels straight.
    curvature[0] = 0.0
    at = (np.arange(count) + 0.5) * step_m / bend_m
    k = at.astype(int)
    along = curvature[k] + (curvature[k + 1] - curvature[k]) * smooth_step(at - k)
    yaw_rad = np.concatenate(([0.0], np.cumsum(along * step_m)))
    points = walked(length_m, yaw_rad)
    return course_from_waypoints(
        name, points[:, 0], points[:, 1], default_speed_mps=speed_mps, closed=False
    )
