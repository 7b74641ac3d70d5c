"""Shortest path between two poses for a vehicle that drives forward with a smallest turning radius
(Dubins 1957)."""

from collections.abc import Callable, Iterator
from itertools import islice
from math import acos, atan2, ceil, cos, hypot, isfinite, sin, sqrt, tau
from typing import NamedTuple

from vehicled.paths.course import MAX_COORDINATE_M, Course, course_from_waypoints
from vehicled.paths.datum import Datum
from vehicled.paths.errors import CourseError

STEP_M = 0.2
"""Largest distance between two waypoints of a path, m."""
WIDER = 1.25
"""Radius of the planned arcs, as a multiple of the smallest one: the controller needs a margin to
correct errors."""
NEAR_M = 0.5
"""A goal nearer than this is already reached, m."""
MAX_AWAY_M = 10_000.0
MOST_PATHS = 40
"""Number of paths tried before a goal is refused."""
HEADINGS = 36
"""Number of headings tried for a goal without one."""


class Pose(NamedTuple):
    """Place and heading in the map frame, m, m, rad."""

    x_m: float
    y_m: float
    yaw_rad: float


Segments = tuple[tuple[float, float], ...]
"""Curvature (in 1/radius: -1, 0 or 1) and length (in radii) of each segment."""


def words(start: Pose, goal: Pose, radius_m: float) -> list[Segments]:
    """Return the paths of the six words of Dubins that exist, the shortest first; formulas of Shkel
    and Lumelsky (2001)."""
    dx, dy = (goal.x_m - start.x_m) / radius_m, (goal.y_m - start.y_m) / radius_m
    d, theta = hypot(dx, dy), atan2(dy, dx)
    a, b = (start.yaw_rad - theta) % tau, (goal.yaw_rad - theta) % tau
    sa, sb, ca, cb, c_ab = sin(a), sin(b), cos(a), cos(b), cos(a - b)
    left, right, found = 1.0, -1.0, []

    def with_straight(first: float, last: float, square: float, y: float, x: float) -> None:
        if square >= 0.0:
            straight = sqrt(square)
            cross = 0.0 if first == last else atan2(-2.0 * first, straight)
            along = atan2(y, x) - cross
            found.append(
                (
                    (first, first * (along - a) % tau),
                    (0.0, straight),
                    (last, last * (b - along) % tau),
                )
            )

    with_straight(left, left, 2.0 + d * d - 2.0 * c_ab + 2.0 * d * (sa - sb), cb - ca, d + sa - sb)
    with_straight(
        right, right, 2.0 + d * d - 2.0 * c_ab + 2.0 * d * (sb - sa), ca - cb, d - sa + sb
    )
    with_straight(
        left, right, d * d - 2.0 + 2.0 * c_ab + 2.0 * d * (sa + sb), -ca - cb, d + sa + sb
    )
    with_straight(right, left, d * d - 2.0 + 2.0 * c_ab - 2.0 * d * (sa + sb), ca + cb, d - sa - sb)
    for turn in (right, left):
        cosine = (6.0 - d * d + 2.0 * c_ab + 2.0 * d * turn * (sb - sa)) / 8.0
        if abs(cosine) <= 1.0:
            middle = tau - acos(cosine)
            along = atan2(ca - cb, d + turn * (sa - sb))
            first = (
                (-turn * a - along + 0.5 * middle) % tau
                if turn > 0.0
                else (a - along + 0.5 * middle) % tau
            )
            last = (turn * (b - a) - first + middle) % tau
            found.append(((turn, first), (-turn, middle), (turn, last)))
    return sorted(found, key=lambda path: sum(length for _, length in path))


def sampled(start: Pose, path: Segments, radius_m: float) -> list[Pose]:
    """Return poses along a path, at most ``STEP_M`` apart, both ends included."""
    x, y, yaw = start
    poses = [start]
    for curvature, length in path:
        count = max(1, ceil(length * radius_m / STEP_M))
        for _ in range(count if length > 0.0 else 0):
            step = length / count
            if curvature == 0.0:
                x, y = x + step * radius_m * cos(yaw), y + step * radius_m * sin(yaw)
            else:
                turned = yaw + curvature * step
                x += radius_m * curvature * (sin(turned) - sin(yaw))
                y -= radius_m * curvature * (cos(turned) - cos(yaw))
                yaw = turned
            poses.append(Pose(x, y, yaw))
    return poses


def paths_to(
    start: Pose, x_m: float, y_m: float, yaw_rad: float | None, radius_m: float
) -> Iterator[list[Pose]]:
    """Yield the paths to a goal, the shortest first. Without a heading it is tried from every
    direction."""
    if yaw_rad is not None:
        headings = [yaw_rad]
    else:
        headings = [k * tau / HEADINGS for k in range(HEADINGS)] + [
            atan2(y_m - start.y_m, x_m - start.x_m)
        ]
    found = [
        path for heading in headings for path in words(start, Pose(x_m, y_m, heading), radius_m)
    ]
    for path in sorted(found, key=lambda path: sum(length for _, length in path)):
        yield sampled(start, path, radius_m)


def check_goal(start: Pose, x_m: float, y_m: float, yaw_rad: float | None, most_m: float) -> None:
    """Raise :class:`CourseError` if a goal is no place, or too near or too far away."""
    if (
        not all(map(isfinite, (x_m, y_m, 0.0 if yaw_rad is None else yaw_rad)))
        or max(abs(x_m), abs(y_m)) > MAX_COORDINATE_M
    ):
        raise CourseError(
            f"the goal ({x_m:g}, {y_m:g}) is not a place on the map: give metres in the map frame"
        )
    away_m = hypot(x_m - start.x_m, y_m - start.y_m)
    if away_m < NEAR_M:
        raise CourseError(f"the vehicle is {away_m:.2f} m from the goal: it is there already")
    if away_m > most_m:
        raise CourseError(
            f"the goal is {away_m / 1000:.1f} km away (at most {most_m / 1000:g} km): look at "
            "its coordinates, or choose places between"
        )


def course_to(
    start: Pose, x_m: float, y_m: float, yaw_rad: float | None, *, radius_m: float,
    speed_mps: float, datum: Datum, refused: Callable[[Course], str], name: str = "goto",
    most_m: float = MAX_AWAY_M,
) -> Course:  # fmt: skip
    """Return the shortest course to a goal in the map frame that is not refused.

    ``radius_m``: smallest turning radius of the vehicle. ``refused`` returns why a course cannot be
    driven; empty if it can. ``most_m``: length of the longest course. Raises :class:`CourseError`
    if there is none.
    """
    check_goal(start, x_m, y_m, yaw_rad, most_m)
    why = ""
    for poses in islice(paths_to(start, x_m, y_m, yaw_rad, WIDER * radius_m), MOST_PATHS):
        if STEP_M * (len(poses) - 4) > most_m:
            why = why or f"the path would be longer than {most_m / 1000:g} km"
            break
        xs, ys, _ = zip(*poses, strict=True)
        try:
            course = course_from_waypoints(
                name, xs, ys, default_speed_mps=speed_mps, closed=False, datum=datum
            )
        except CourseError as error:
            why = why or str(error)
            continue
        problem = refused(course)
        if not problem:
            return course
        why = why or problem
    raise CourseError(f"no path leads to ({x_m:.1f}, {y_m:.1f}) m: {why}")
