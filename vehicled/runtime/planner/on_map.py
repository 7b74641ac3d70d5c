"""Courses to a goal on a map, clear of its walls."""

import numpy as np

from vehicled.core.vehicle import Vehicle
from vehicled.paths.course import Course, course_from_waypoints
from vehicled.paths.datum import Datum
from vehicled.paths.errors import CourseError
from vehicled.paths.shortest import STEP_M, WIDER, Pose, check_goal
from vehicled.runtime.planner.free_space import FreeSpace
from vehicled.runtime.planner.hybrid_astar import HybridAStar, Manoeuvring, sampled

LEAST_LEG_M = 0.3
"""Shortest part between two changes of direction; a wheelbase where that is longer."""
STEP_RADII = 0.2
"""Largest distance of two waypoints, in radii."""


def course_on_map(
    space: FreeSpace,
    start: Pose,
    goal: tuple[float, float, float | None],
    *,
    vehicle: Vehicle,
    direction: int,
    speed_mps: float,
    datum: Datum,
    name: str,
    most_m: float,
) -> Course:
    """Return a course to a goal in the map frame (m, m, rad or None) that keeps the body clear of
    walls; in parts in reverse if the vehicle can.

    ``direction``: that of its motion, 1 or -1; 0 at standstill. ``most_m``: length of the longest
    course. Raises :class:`CourseError` if there is none.
    """
    x_m, y_m, yaw_rad = goal
    check_goal(start, x_m, y_m, yaw_rad, most_m)
    here, there = space.seen(*start), space.seen(x_m, y_m, yaw_rad or 0.0)
    if why := space.blocked_by(here, "vehicle at"):
        raise CourseError(
            f"{why}: the map is of another place, or the vehicle is not where it is believed to be"
        )
    if why := space.blocked_by(there, "goal", any_yaw=yaw_rad is None):
        raise CourseError(f"{why}: choose a place that is free")
    reverse_mps = min(speed_mps, vehicle.drive.top_reverse_speed_mps)
    ways = Manoeuvring(
        radius_m=WIDER * vehicle.min_turn_radius_m,
        reverse=reverse_mps > 0.0,
        leg_m=max(vehicle.wheelbase_m, LEAST_LEG_M),
        direction=direction,
    )
    target = (there.x_m, there.y_m, None if yaw_rad is None else there.yaw_rad)
    try:
        path = HybridAStar(space, here, target, ways).path()
    except CourseError as error:
        raise CourseError(
            f"no path leads to ({x_m:.1f}, {y_m:.1f}) m on the map: {error}"
        ) from None
    length_m = sum(abs(part.length_m) for part in path)
    if length_m > most_m:
        raise CourseError(f"the path would be {length_m:.0f} m long (at most {most_m:g} m)")
    x, y, _, metres = sampled(here, path, min(STEP_M, STEP_RADII * ways.radius_m))
    x, y = space.on_map(np.append(here.x_m, x), np.append(here.y_m, y))
    backward = np.append(metres, metres[-1]) < 0.0
    course = course_from_waypoints(
        name, x, y, speed=np.where(backward, -reverse_mps, speed_mps), closed=False, datum=datum
    )
    seen = [space.seen(*pose) for pose in zip(course.x_m, course.y_m, course.yaw_rad, strict=True)]
    room_m = space.room_m(*np.array(seen).T)
    if float(room_m.min()) < 0.0:
        worst = int(room_m.argmin())
        raise CourseError(
            f"no path leads to ({x_m:.1f}, {y_m:.1f}) m on the map: the passage at "
            f"({course.x_m[worst]:.1f}, {course.y_m[worst]:.1f}) m is too narrow"
        )
    return course
