"""Entry point of the next drive on the course: where the last drive ended, or the start of the
course.

A drive that was stopped in mid-course resumes there. Between two drives the projection is tracked
continuously, whoever moves the vehicle, so it cannot jump at a crossing or at the end of a lap. A
drive never begins on a part of the course that the vehicle has only come near to.

The distance to the entry point counts, not the offset from a tangent: far behind the start a
vehicle may be in line with the course. So does the turn onto the course, on circles that the
vehicle can drive: it must stay in the corridor and inside the fence.
"""

from math import copysign, cos, degrees, hypot, isfinite, pi, remainder, sin, sqrt, tau
from typing import NamedTuple

import numpy as np

from vehicled.core.messages import EstimatorStatus, StateEstimate
from vehicled.core.vehicle import STANDSTILL_MPS, Limits, Vehicle
from vehicled.paths.course import Course
from vehicled.paths.tracking import END_TOLERANCE_M, PathPoint, PathTracker
from vehicled.safety.fence import Fence

CERTAIN_SHARE = 0.5
"""Part of the brake that a stop is certain to have."""
MOST_WAY_PER_WAY, MOST_AT_ONCE_M = 2.0, 1.0
"""Largest motion of the projection: per metre of vehicle motion, as on the inside of a bend, and in
one step, m. A larger motion means that another part of the course was matched."""
BACKWARDS_RAD = 1.6
"""Heading error above which the vehicle would have to turn round before it could follow the course,
rad."""
WIDER = 1.25
"""Radius of the turn onto the course, as a multiple of the smallest one: the controller needs a
margin to correct errors."""
ALIGNED_RAD, ALIGNED_SHARE = 0.1, 0.1
"""Heading error, and part of the corridor, up to which a vehicle needs no turn to get onto the
course."""
LAP_NEAR_M, LAP_NEAR_S, LAP_SHARE = 0.5, 0.5, 0.01
"""Distance behind its start up to which a lap counts as joined there: in metres, as driving time,
and as a part of the lap."""
TURN_STEPS, STEPS_PER_RADIUS = 80, 10
"""Steps of the turn onto the course: more than a full circle."""


class Entry(NamedTuple):
    """Result of :meth:`CourseEntry.choose`: the entry point of a drive, or why it cannot begin."""

    s_m: float | None = None
    """Arc length at which the drive resumes, m; None at the start of the course."""
    refused: str = ""
    """Reason why the drive cannot begin, with the cure; empty if it can."""
    said: str = ""
    """Text that says where the drive resumes; empty at the start of the course."""
    run_up_m: float = 0.0
    """Distance behind the start from which the drive may begin, m."""
    joined: bool = False
    """True if ``s_m`` is where another course is joined; False if a drive is resumed there."""


def off_course_m(point: PathPoint, x_m: float, y_m: float, run_up_m: float = 0.0) -> float:
    """Return the distance of a place from its projection on the course. Within ``run_up_m`` behind
    the start the course counts as extended straight."""
    dx, dy = x_m - point.x_m, y_m - point.y_m
    if (
        point.s_m <= 0.0
        and -run_up_m <= point.direction * (cos(point.yaw_rad) * dx + sin(point.yaw_rad) * dy) < 0.0
    ):
        return abs(point.cross_track_m)
    return hypot(dx, dy)


def join(
    course: Course, pose: tuple[float, float, float], corridor_m: float, most_rad: float
) -> Entry:
    """Return the place of the course nearest to a pose (m, m, rad), within the corridor and a
    heading error; else the reason."""
    x_m, y_m, yaw_rad = pose
    # A box first: a long course would hold the loop.
    near = np.flatnonzero((course.x_m >= x_m - corridor_m) & (course.x_m <= x_m + corridor_m))
    near = near[np.abs(course.y_m[near] - y_m) <= corridor_m]
    off_m = np.hypot(course.x_m[near] - x_m, course.y_m[near] - y_m)
    if not len(near) or not off_m.min() <= corridor_m:
        off_m = np.hypot(course.x_m - x_m, course.y_m - y_m)
        return Entry(
            refused=(
                f"the vehicle is {off_m.min():.1f} m off the course: take it there, or choose a "
                "course that passes it"
            )
        )
    turned = np.abs(np.remainder(course.yaw_rad[near] - yaw_rad + pi, tau) - pi)
    fits = np.flatnonzero((off_m <= corridor_m) & (turned <= most_rad))
    if not len(fits):
        wrong = (
            f"{degrees(turned[off_m.argmin()]):.0f} degrees to the course there (limit "
            f"{degrees(most_rad):.0f})"
        )
        return Entry(
            refused=(
                f"the vehicle stands at {wrong}: turn it round, or choose a course in its direction"
            )
        )
    s_m = float(course.s_m[near[fits[off_m[fits].argmin()]]])
    if not course.closed and course.length_m - s_m <= END_TOLERANCE_M:
        return Entry(refused="the vehicle is at the end of the course: nothing is left to drive")
    return Entry(s_m, said=f"joined at {s_m:.1f} m of {course.length_m:.0f} m", joined=True)


JOIN_RAD = 0.5
"""Largest heading error at which a moving vehicle may change to another course, rad."""


def join_moving(course: Course, estimate: StateEstimate, vehicle: Vehicle, limits: Limits) -> Entry:
    """Return the place at which a moving vehicle may change to another course, or why not.

    It must be able to follow: the course goes on for its stopping distance, and no bend ahead is
    too tight for its speed.
    """
    found = join(
        course, (estimate.x_m, estimate.y_m, estimate.yaw_rad), limits.corridor_m, JOIN_RAD
    )
    if found.s_m is None:
        return found
    at = int(np.searchsorted(course.s_m, found.s_m))
    speed_mps, backward = estimate.speed_mps, bool(course.speed_mps[at] < 0.0)
    if backward is not (speed_mps < 0.0) and abs(speed_mps) > STANDSTILL_MPS:
        return Entry(
            refused="the course is driven in the other direction there: stop first, then choose it"
        )
    radius_m = max(
        WIDER * vehicle.min_turn_radius_m,
        speed_mps * speed_mps / limits.max_lateral_acceleration_mps2,
    )
    yaw_rad = float(course.yaw_rad[at])
    turned_rad = remainder(estimate.yaw_rad - yaw_rad, tau)
    left_m = cos(yaw_rad) * (estimate.y_m - course.y_m[at]) - sin(yaw_rad) * (
        estimate.x_m - course.x_m[at]
    )
    # Until it is parallel to the course, the vehicle goes on to the side to which it points.
    off_m = abs(
        left_m
        + copysign(radius_m * (1.0 - cos(turned_rad)), -turned_rad if backward else turned_rad)
    )
    if off_m > limits.corridor_m:
        return Entry(
            refused=(
                f"the turn onto the course would take it {off_m:.1f} m off: lower the speed "
                "first, or choose one along its way"
            )
        )
    deceleration_mps2 = (
        CERTAIN_SHARE * vehicle.drive.brake_deceleration_mps2
        - vehicle.drive.acceleration_mps2(0.0, 0.0)
    )
    square = speed_mps * speed_mps
    stop_m = square / (2.0 * max(deceleration_mps2, 0.05))
    # Only what lies ahead within the stopping distance: a long course would hold the loop.
    part = slice(at, int(np.searchsorted(course.s_m, found.s_m + stop_m, side="right")))
    ahead_m, curvature = course.s_m[part] - found.s_m, course.curvature_per_m[part]
    if course.closed and (beyond_m := found.s_m + stop_m - course.length_m) >= 0.0:
        # A lap that joins shortly before its end goes on at its start.
        again = slice(0, int(np.searchsorted(course.s_m, beyond_m, side="right")))
        ahead_m = np.append(ahead_m, course.s_m[again] + course.length_m - found.s_m)
        curvature = np.append(curvature, course.curvature_per_m[again])
    if not course.closed and course.length_m - found.s_m < stop_m:
        left = (
            f"{course.length_m - found.s_m:.1f} m of the course are left, and a stop takes "
            f"{stop_m:.1f} m"
        )
        return Entry(refused=f"{left}: lower the speed first, or choose a longer course")
    nearest_m = min(
        (wait.s_m - found.s_m for wait in course.waits if wait.s_m > found.s_m), default=stop_m
    )
    if nearest_m < stop_m:
        return Entry(
            refused=(
                f"a wait is {nearest_m:.1f} m ahead, and a stop takes {stop_m:.1f} m: lower the "
                "speed first"
            )
        )
    possible = limits.max_lateral_acceleration_mps2 / np.maximum(np.abs(curvature), 1e-9)
    excess = square - 2.0 * deceleration_mps2 * ahead_m - possible
    if len(excess) and excess.max() > 0.0:
        worst = int(excess.argmax())
        bend = (
            f"the bend {ahead_m[worst]:.1f} m ahead can be driven at "
            f"{sqrt(possible[worst]):.2f} m/s"
        )
        return Entry(
            refused=(
                f"{bend}, and the vehicle drives at {abs(speed_mps):.2f} m/s: lower the speed first"
            )
        )
    return found


def lap_from(
    course: Course, estimate: StateEstimate | None, limits: Limits, *, moving: bool
) -> float | None:
    """Return the arc length at which a lap is joined and ends, so that it is driven in full; None
    if that is its start, or if it cannot be joined. ``moving``: as :func:`join_moving`."""
    if not course.closed or estimate is None or not _usable(estimate):
        return None
    pose = estimate.x_m, estimate.y_m, estimate.yaw_rad
    s_m = join(course, pose, limits.corridor_m, JOIN_RAD if moving else BACKWARDS_RAD).s_m
    # A moving vehicle has gone on since the lap was prepared for it.
    near_m = max(LAP_NEAR_M, LAP_SHARE * course.length_m, LAP_NEAR_S * abs(estimate.speed_mps))
    return s_m if s_m is not None and s_m > near_m else None


class TurnOnto(NamedTuple):
    """The way of a vehicle that steers onto its course."""

    x_m: list[float]
    y_m: list[float]
    yaw_rad: list[float]
    off_m: float
    """Largest distance from the course on the way, m."""


def turn_onto(
    tracker: PathTracker, pose: tuple[float, float, float], radius_m: float, run_up_m: float = 0.0
) -> TurnOnto:
    """Return the way from a pose (m, m, rad) onto the course, on circles of at least ``radius_m`` >
    0. ``tracker`` stands at the entry point; it is moved."""
    x, y, yaw = pose
    xs, ys, yaws, most_m = [x], [y], [yaw], 0.0
    direction = tracker.direction
    for _ in range(TURN_STEPS):
        here = tracker.update(x, y, yaw, turns_back=False)
        off_m = off_course_m(here, x, y, run_up_m)
        most_m = max(most_m, off_m)
        aligned = abs(here.heading_error_rad) <= ALIGNED_RAD and off_m <= 0.1 * radius_m
        if aligned or here.s_m >= tracker.leg_end_m:
            break
        aim = tracker.point_at(here.s_m + max(radius_m, off_m))
        heading = yaw if direction > 0 else yaw + pi
        dx, dy = aim.x_m - x, aim.y_m - y
        ahead, left = cos(heading) * dx + sin(heading) * dy, cos(heading) * dy - sin(heading) * dx
        lock = 1.0 / radius_m
        curvature = (
            2.0 * left / max(dx * dx + dy * dy, 1e-9)
            if ahead > 0.0
            else lock
            if left > 0.0
            else -lock
        )
        turned = min(max(curvature, -lock), lock) * radius_m / STEPS_PER_RADIUS
        x += radius_m / STEPS_PER_RADIUS * cos(heading + 0.5 * turned)
        y += radius_m / STEPS_PER_RADIUS * sin(heading + 0.5 * turned)
        yaw += turned
        xs.append(x)
        ys.append(y)
        yaws.append(yaw)
    return TurnOnto(xs, ys, yaws, most_m)


class CourseEntry:
    """Tracker of the vehicle's place on the course between two drives. It chooses the entry point
    of the next drive."""

    def __init__(
        self,
        course: Course,
        corridor_m: float,
        *,
        anywhere: bool = False,
        vehicle: Vehicle | None = None,
        fence: Fence | None = None,
        tracker: PathTracker | None = None,
    ) -> None:
        """``anywhere``: the first drive may begin at any place of the course, not only at its
        start. ``vehicle``: what turns onto the course; None leaves the turn unchecked. ``tracker``:
        one of the same course."""
        self._course, self._corridor_m, self._anywhere, self._fence = (
            course,
            corridor_m,
            anywhere,
            fence,
        )
        self.vehicle = vehicle
        """The vehicle that turns onto the course, which may have been identified while driving;
        None leaves the turn unchecked."""
        self._start = PathTracker(course, like=tracker)
        """Tracker that stays at the start of the course."""
        self._place, self._turn = (
            PathTracker(course, like=self._start),
            PathTracker(course, like=self._start),
        )
        self._left_m: float | None = None
        """Arc length at which the last drive ended, m; None before the first drive."""
        self._follows = False
        self._before = 0.0, 0.0
        self._at_m = self._slack_m = 0.0

    def driven_to(self, progress_m: float) -> None:
        """Note the arc length of the present drive. A value that is not finite is ignored."""
        if isfinite(progress_m):
            self._left_m, self._follows = progress_m, False

    def follow(self, estimate: StateEstimate) -> None:
        """Track the vehicle between two drives. An unusable estimate is ignored."""
        if self._left_m is None or not _usable(estimate):
            return
        x, y = estimate.x_m, estimate.y_m
        if not self._follows:
            self._follows, self._before, self._at_m, self._slack_m = (
                True,
                (x, y),
                self._left_m,
                MOST_AT_ONCE_M,
            )
            self._place.reset(self._left_m)
        moved_m = hypot(x - self._before[0], y - self._before[1])
        self._before = x, y
        self._slack_m = min(self._slack_m + MOST_WAY_PER_WAY * moved_m, MOST_AT_ONCE_M)
        here = self._place.locate(x, y, estimate.yaw_rad)
        way_m = abs(here.s_m - self._at_m)
        if way_m <= self._slack_m:
            self._slack_m -= way_m
            self._at_m = here.s_m
            self._place.update(x, y, estimate.yaw_rad, estimate.speed_mps)

    def here(self, x_m: float, y_m: float, yaw_rad: float) -> PathPoint:
        """Return the projection of a pose near the place where the next drive would begin."""
        return (self._start if self._left_m is None else self._place).locate(x_m, y_m, yaw_rad)

    def choose(self, estimate: StateEstimate | None, run_up_m: float = 0.0) -> Entry:
        """Return the entry point: where the last drive ended if the vehicle is still there, else
        the start of the course, or up to ``run_up_m`` behind it in line with it."""
        if estimate is None or not _usable(estimate):
            return Entry()
        pose = estimate.x_m, estimate.y_m, estimate.yaw_rad
        if self._left_m is None:
            off_start = self._off(pose, self._start.locate(*pose), None, run_up_m)
            if off_start and self._anywhere:
                return self._join(pose)
            if off_start:
                return Entry(refused=f"the vehicle {off_start[0]}: {off_start[1]}")
            return Entry(run_up_m=run_up_m)
        if not self._follows:
            self.follow(estimate)
        here, length_m = self._place.locate(*pose), self._course.length_m
        off = self._off(pose, here, here.s_m)
        driven = self._place.remaining_m <= END_TOLERANCE_M
        if not off and not driven:
            return Entry(here.s_m, said=f"resumed at {here.s_m:.1f} m of {length_m:.0f} m")
        off_start = self._off(pose, self._start.locate(*pose), None, run_up_m)
        if not off_start:
            return Entry(run_up_m=run_up_m)
        if driven or off is None:
            return Entry(
                refused=(
                    f"the course is driven to its end, and the vehicle {off_start[0]} at its "
                    "start: take it there"
                )
            )
        (wrong, cure), place = (
            off,
            f"at {here.s_m:.1f} m of {length_m:.0f} m, where its drive ended",
        )
        return Entry(
            refused=(
                f"the vehicle {wrong} {place}: {cure} by hand, or take it to the start of the "
                "course"
            )
        )

    def _join(self, pose: tuple[float, float, float]) -> Entry:
        """Return the nearest place at which the course may be joined, or why not."""
        found = join(self._course, pose, self._corridor_m, BACKWARDS_RAD)
        bad = None if found.s_m is None else self._bad_turn(pose, found.s_m)
        return Entry(refused=f"the vehicle {bad[0]}: {bad[1]}") if bad else found

    def _off(
        self,
        pose: tuple[float, float, float],
        point: PathPoint,
        s_m: float | None,
        run_up_m: float = 0.0,
    ) -> tuple[str, str] | None:
        """Return why a drive cannot begin at ``point``, and the cure; None if it can. ``s_m`` is
        its arc length, None for the start."""
        distance_m = off_course_m(point, pose[0], pose[1], run_up_m)
        if not distance_m <= self._corridor_m:
            return (
                f"stands {off_course_m(point, pose[0], pose[1]):.1f} m off the course",
                "move it into the corridor",
            )
        if not abs(point.heading_error_rad) <= BACKWARDS_RAD:
            return "points backwards along the course", "turn it round"
        if (
            distance_m <= ALIGNED_SHARE * self._corridor_m
            and abs(point.heading_error_rad) <= ALIGNED_RAD
        ):
            return None
        return self._bad_turn(pose, s_m, run_up_m)

    def _bad_turn(
        self, pose: tuple[float, float, float], s_m: float | None, run_up_m: float = 0.0
    ) -> tuple[str, str] | None:
        """Return why the turn onto the course is impossible, and the cure; None if it is
        possible."""
        if self.vehicle is None:
            return None
        self._turn.reset(s_m)
        turn = turn_onto(self._turn, pose, WIDER * self.vehicle.min_turn_radius_m, run_up_m)
        if turn.off_m > self._corridor_m:
            return (
                f"would turn onto the course {turn.off_m:.1f} m off it",
                "turn it along the course, or move it nearer",
            )
        if self._fence is not None:
            way = np.array(turn.x_m), np.array(turn.y_m), np.array(turn.yaw_rad)
            if breach := self._fence.first_breach(self.vehicle.outline, *way):
                return f"would be {breach[1]} on its way onto the course", "move it"
        return None


def _usable(estimate: StateEstimate) -> bool:
    return estimate.status is EstimatorStatus.RUNNING and isfinite(
        estimate.x_m + estimate.y_m + estimate.yaw_rad + estimate.speed_mps
    )
