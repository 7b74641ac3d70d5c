"""Start of the next drive along a course."""

from dataclasses import replace as with_arrays
from math import cos, degrees, hypot, nan, pi, sin

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.strategies import near
from tests.unit.test_machine import VEHICLE
from tests.unit.test_safety_supervisor import LIMITS
from vehicled.core.messages import EstimatorStatus, StateEstimate
from vehicled.paths.course import Course
from vehicled.paths.formulas import circle, figure_eight, parallel_parking, straight
from vehicled.paths.tracking import CoursePoint, PathTracker
from vehicled.paths.waits import Wait
from vehicled.safety.entry import (
    JOIN_RAD,
    WIDER,
    CourseEntry,
    Entry,
    join,
    join_moving,
    lap_from,
    off_course_m,
    turn_onto,
)
from vehicled.safety.fence import Fence, Polygon

CORRIDOR_M = 2.0
STEP_M = 0.02
RUNNING = StateEstimate(0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, (1e-4,) * 16, EstimatorStatus.RUNNING)
EIGHT, LAP, LINE = figure_eight(), circle(5.0), straight(20.0)


def at(place: CoursePoint, left_m: float = 0.0, turned_rad: float = 0.0) -> StateEstimate:
    """A vehicle beside a place of the course."""
    yaw = place.yaw_rad
    return replace(
        RUNNING,
        x_m=place.x_m - left_m * sin(yaw),
        y_m=place.y_m + left_m * cos(yaw),
        yaw_rad=yaw + turned_rad,
    )


def along(course: Course, s_m: float, left_m: float = 0.0) -> StateEstimate:
    return at(PathTracker(course).point_at(s_m), left_m)


def stopped(course: Course, s_m: float) -> CourseEntry:
    """A drive was stopped there."""
    entry = CourseEntry(course, CORRIDOR_M)
    entry.driven_to(s_m)
    entry.follow(along(course, s_m))
    return entry


def carry(
    entry: CourseEntry, course: Course, from_m: float, to_m: float, left_m: float = 0.0
) -> StateEstimate:
    """Manual driving along the course, or against it."""
    steps = max(1, round(abs(to_m - from_m) / STEP_M))
    estimate = along(course, from_m, left_m)
    for k in range(steps + 1):
        estimate = along(course, from_m + (to_m - from_m) * k / steps, left_m)
        entry.follow(estimate)
    return estimate


def test_the_first_drive_begins_at_the_start_and_nowhere_else() -> None:
    entry = CourseEntry(LINE, CORRIDOR_M)
    assert entry.choose(along(LINE, 0.0)) == Entry()
    carry(entry, LINE, 0.0, 15.0)
    refused = entry.choose(along(LINE, 15.0)).refused
    assert "off the course" in refused
    assert "into the corridor" in refused
    assert entry.choose(None) == Entry(), "another check reports what is missing then"


def test_a_drive_goes_on_where_it_was_stopped_and_says_so() -> None:
    entry = stopped(LINE, 12.3)
    found = entry.choose(along(LINE, 12.4, left_m=0.5))
    assert found.s_m == pytest.approx(12.4, abs=0.01)
    assert found.said == "resumed at 12.4 m of 20 m"
    assert found.refused == ""


def test_a_crossing_does_not_catch_it() -> None:
    """The figure eight crosses itself at its start and in its middle."""
    middle_m = EIGHT.length_m / 2.0
    for stop_m in (middle_m - 0.3, middle_m, middle_m + 0.3):
        found = stopped(EIGHT, stop_m).choose(along(EIGHT, stop_m))
        assert found.s_m == pytest.approx(stop_m, abs=0.05)
    # The driver turns off at the crossing, along the other branch.
    entry = stopped(EIGHT, middle_m)
    away = carry(entry, EIGHT, 0.0, 4.0)
    found = entry.choose(away)
    assert found.s_m is None
    assert found.refused == "", "it stands in the region of the start, so it may begin there"
    away = carry(entry, EIGHT, 4.0, 9.0)
    assert "where its drive ended" in entry.choose(away).refused


def test_the_end_of_a_lap_is_not_its_start() -> None:
    length_m = LAP.length_m
    assert stopped(LAP, length_m - 1.0).choose(along(LAP, -1.0)).s_m == pytest.approx(
        length_m - 1.0, abs=0.01
    )
    assert stopped(LAP, 1.0).choose(along(LAP, 1.0)).s_m == pytest.approx(1.0, abs=0.01)
    # A lap that is driven begins anew.
    assert stopped(LAP, length_m + 0.2).choose(along(LAP, 0.2)) == Entry()


def test_a_course_that_is_driven_begins_at_its_start_only() -> None:
    entry = stopped(LINE, 19.95)
    refused = entry.choose(along(LINE, 19.95)).refused
    assert refused.startswith("the course is driven to its end")
    assert "take it there" in refused
    assert entry.choose(along(LINE, 0.5)) == Entry()


def test_teleop_may_move_it_along_the_course_and_round_an_obstacle() -> None:
    entry = stopped(LAP, 6.0)
    carry(entry, LAP, 6.0, 9.0, left_m=1.0)
    carry(entry, LAP, 9.0, 14.0, left_m=-3.0)
    found = entry.choose(carry(entry, LAP, 14.0, 16.0, left_m=0.2))
    assert found.s_m == pytest.approx(16.0, abs=0.1)
    assert entry.choose(carry(entry, LAP, 16.0, 4.0)).s_m == pytest.approx(4.0, abs=0.1)


@pytest.mark.parametrize(
    ("estimate", "named"),
    [
        (
            along(LINE, 12.0, left_m=2.6),
            "stands 2.6 m off the course at 12.0 m of 20 m, where its drive ended",
        ),
        (
            at(PathTracker(LINE).point_at(12.0), turned_rad=pi),
            "points backwards along the course at 12.0 m of 20 m",
        ),
    ],
)
def test_outside_the_corridor_the_cause_and_both_cures_are_named(
    estimate: StateEstimate, named: str
) -> None:
    entry = stopped(LINE, 12.0)
    refused = entry.choose(estimate).refused
    assert named in refused
    assert "by hand, or take it to the start of the course" in refused
    assert entry.choose(along(LINE, 0.3)) == Entry()


def test_beyond_a_cusp_it_is_not_resumed_from_anywhere_on_the_tangent() -> None:
    course = parallel_parking()
    leg_end_m = PathTracker(course).leg_end_m
    entry = stopped(course, leg_end_m - 0.5)
    beyond = PathTracker(course).point_at(leg_end_m + 2.0 * CORRIDOR_M)
    entry.follow(at(beyond))
    assert "off the course" in entry.choose(at(beyond)).refused


def test_a_drive_stopped_behind_a_cusp_goes_on_with_the_leg_it_was_on() -> None:
    course = parallel_parking()
    tracker = PathTracker(course)
    cusp_m = tracker.leg_end_m
    tracker.reset(cusp_m + 0.5)
    assert tracker.leg == 1
    place = tracker.point_at(cusp_m + 0.5)
    assert tracker.update(place.x_m, place.y_m, place.yaw_rad).s_m == pytest.approx(
        cusp_m + 0.5, abs=0.01
    )
    # At the cusp itself: the leg before it, until it stands there.
    tracker.reset(cusp_m)
    assert tracker.leg == 0
    place = tracker.point_at(cusp_m)
    tracker.update(place.x_m, place.y_m, place.yaw_rad, 0.0)
    assert tracker.leg == 1
    assert not tracker.finished


@pytest.mark.parametrize(
    "change",
    [{"x_m": nan}, {"yaw_rad": nan}, {"speed_mps": nan}, {"status": EstimatorStatus.ALIGNING}],
)
def test_an_estimate_that_is_nothing_to_rely_on_moves_nothing(change: dict[str, float]) -> None:
    entry = stopped(LAP, 7.0)
    for _ in range(50):
        entry.follow(replace(along(LAP, 20.0), **change))
        entry.driven_to(nan)
    assert entry.choose(replace(RUNNING, **change)) == Entry()
    assert entry.choose(along(LAP, 7.0)).s_m == pytest.approx(7.0, abs=0.01)


@given(
    st.sampled_from([EIGHT, LAP, LINE]),
    st.floats(0.0, 1.0),
    st.lists(st.tuples(st.floats(-3.0, 3.0), st.floats(-0.9, 0.9)), max_size=6),
)
def test_manual_driving_near_the_course_moves_the_place_along(
    course: Course, share: float, ways: list[tuple[float, float]]
) -> None:
    """Property: carried along the course within the radius of its bends, it is resumed where it is,
    and at no other branch."""
    s_m = share * (course.length_m - 0.2)
    entry = stopped(course, s_m)
    estimate = along(course, s_m)
    for way_m, left_m in ways:
        to_m = min(max(s_m + way_m, 0.0), course.length_m - 0.2)
        estimate = carry(entry, course, s_m, to_m, left_m)
        s_m = to_m
    found = entry.choose(estimate)
    assert found.refused == ""
    assert found.s_m == pytest.approx(s_m, abs=0.05)


@given(st.floats(0.0, 1.0), st.floats(-30.0, 30.0), st.floats(-30.0, 30.0), st.floats(-pi, pi))
def test_from_nowhere_it_is_set_going_outside_the_corridor(
    share: float, x_m: float, y_m: float, yaw_rad: float
) -> None:
    """Property: wherever it is put, a drive begins near its point of the course, looking along it,
    or is refused with the cure."""
    entry = stopped(EIGHT, share * EIGHT.length_m)
    there = replace(RUNNING, x_m=x_m, y_m=y_m, yaw_rad=yaw_rad)
    entry.follow(there)
    found = entry.choose(there)
    if found.refused:
        assert ": " in found.refused
        return
    tracker = PathTracker(EIGHT)
    tracker.reset(found.s_m)
    point = tracker.locate(x_m, y_m, yaw_rad)
    assert abs(point.cross_track_m) <= CORRIDOR_M + 1e-6
    assert abs(point.heading_error_rad) <= 1.7


# -------------------------------------------------------------------------- the way onto the course


@given(near(CORRIDOR_M, 100.0, low=0.0, high=1e4))
def test_behind_the_start_the_distance_counts_and_is_what_is_printed(behind_m: float) -> None:
    """Property: in line with the course the offset from its tangent is 0 at any distance."""
    for course in (LINE, EIGHT, LAP):
        start = PathTracker(course).point_at(0.0)
        there = replace(
            at(start),
            x_m=start.x_m - behind_m * cos(start.yaw_rad),
            y_m=start.y_m - behind_m * sin(start.yaw_rad),
        )
        entry = CourseEntry(course, CORRIDOR_M)
        refused = entry.choose(there).refused
        assert bool(refused) is (behind_m > CORRIDOR_M)
        if refused:
            assert f"stands {behind_m:.1f} m off the course" in refused
        entry.driven_to(0.0)
        assert bool(entry.choose(there).refused) is (behind_m > CORRIDOR_M), (
            "nor is a drive resumed there"
        )


@given(
    near(CORRIDOR_M, 0.0, signed=True, low=-2.5, high=2.5),
    near(1.6, 0.0, signed=True, low=-pi, high=pi),
)
def test_a_drive_begins_only_where_the_turn_onto_the_course_stays_in_the_corridor(
    left_m: float, turned_rad: float
) -> None:
    """Property: the turn is a part of a circle, on which the vehicle first moves away by radius x
    (1 - cos)."""
    entry = CourseEntry(LINE, CORRIDOR_M, vehicle=VEHICLE)
    entry.driven_to(10.0)
    there = replace(RUNNING, x_m=10.0, y_m=left_m, yaw_rad=turned_rad)
    entry.follow(replace(RUNNING, x_m=10.0))
    radius_m = WIDER * VEHICLE.min_turn_radius_m
    away_m = abs(left_m + (1.0 if turned_rad > 0.0 else -1.0) * radius_m * (1.0 - cos(turned_rad)))
    fits = abs(turned_rad) <= 1.6 and abs(left_m) <= CORRIDOR_M
    heads_out = left_m * turned_rad >= 0.0
    found = entry.choose(there)
    if not fits or (heads_out and away_m > CORRIDOR_M + 0.05):
        assert found.refused
    elif not heads_out or away_m < CORRIDOR_M - 0.05:
        assert found.refused == ""


def test_the_turn_is_that_of_the_vehicle_as_it_is_known() -> None:
    across = replace(RUNNING, y_m=1.0, yaw_rad=1.3)
    entry = CourseEntry(LINE, CORRIDOR_M, vehicle=VEHICLE)
    assert "would turn onto the course 2." in entry.choose(across).refused
    assert "turn it along the course, or move it nearer" in entry.choose(across).refused
    steering = replace(VEHICLE.steering, max_wheel_rad=1.0)
    entry.vehicle = replace(VEHICLE, steering=steering)
    assert entry.choose(across).refused == ""
    assert CourseEntry(LINE, CORRIDOR_M).choose(across).refused == ""


def test_the_way_onto_the_course_stays_inside_the_fence() -> None:
    bed = Polygon(((0.6, 0.9), (1.6, 0.9), (1.6, 1.3), (0.6, 1.3)), keep_out=True, name="bed")
    entry = CourseEntry(LINE, CORRIDOR_M, vehicle=VEHICLE, fence=Fence([bed]))
    assert entry.choose(RUNNING).refused == ""
    refused = entry.choose(replace(RUNNING, y_m=0.6, yaw_rad=0.9)).refused
    assert "would be inside the keep-out zone bed on its way onto the course" in refused
    assert entry.choose(replace(RUNNING, y_m=0.2, yaw_rad=-0.9)).refused == ""


@given(st.floats(0.0, 6.0), st.floats(-JOIN_RAD, JOIN_RAD), st.floats(-1.9, 1.9))
def test_a_moving_vehicle_changes_only_to_a_course_that_it_can_turn_onto(
    speed: float, turned_rad: float, left_m: float
) -> None:
    long = straight(400.0)
    limits = replace(LIMITS, max_lateral_acceleration_mps2=2.0)
    moving = replace(RUNNING, x_m=100.0, y_m=left_m, yaw_rad=turned_rad, speed_mps=speed)
    found = join_moving(long, moving, VEHICLE, limits)
    radius_m = max(WIDER * VEHICLE.min_turn_radius_m, speed * speed / 2.0)
    off_m = abs(left_m + (1.0 if turned_rad > 0.0 else -1.0) * radius_m * (1.0 - cos(turned_rad)))
    if abs(off_m - limits.corridor_m) > 1e-6:
        assert ("the turn onto the course would take it" in found.refused) is (
            off_m > limits.corridor_m
        ), degrees(turned_rad)


@pytest.mark.parametrize(
    ("speed", "turned_rad", "left_m", "joins"),
    [
        (5.0, 0.4, 1.5, False),
        (5.0, 0.4, -0.9, True),
        (5.0, -0.4, 1.5, True),
        (1.0, 0.4, 1.5, True),
        (6.0, -0.5, -0.1, False),
    ],
)
def test_the_turn_of_a_fast_vehicle_is_wide(
    speed: float, turned_rad: float, left_m: float, joins: bool
) -> None:
    limits = replace(LIMITS, max_lateral_acceleration_mps2=2.0)
    moving = replace(RUNNING, x_m=100.0, y_m=left_m, yaw_rad=turned_rad, speed_mps=speed)
    assert (
        "the turn onto the course would take it"
        not in join_moving(straight(400.0), moving, VEHICLE, limits).refused
    ) is joins


def test_a_course_may_be_joined_anywhere_but_only_with_room_for_the_turn() -> None:
    entry = CourseEntry(LINE, CORRIDOR_M, anywhere=True, vehicle=VEHICLE)
    assert entry.choose(replace(RUNNING, x_m=12.0, y_m=1.0)).s_m == pytest.approx(12.0, abs=0.1)
    assert (
        "would turn onto the course"
        in entry.choose(replace(RUNNING, x_m=12.0, y_m=1.5, yaw_rad=1.5)).refused
    )
    assert "20.0 m off the course" in entry.choose(replace(RUNNING, x_m=-20.0)).refused


# ------------------------------------------------------------------------------------ at the limits

BRAKED = replace(VEHICLE, drive=replace(VEHICLE.drive, brake_deceleration_mps2=2.0))
CERTAIN_MPS2 = 1.0 - BRAKED.drive.acceleration_mps2(0.0, 0.0)
STOP_M = 4.0 / (2.0 * CERTAIN_MPS2)
"""Way of a stop from 2 m/s."""


@pytest.mark.parametrize(
    ("x_m", "y_m", "turned_rad", "most_rad", "said"),
    [
        (5.0, 1.99, 0.0, 0.5, "joined at 5.0 m of 20 m"), (5.0, -1.99, 0.0, 0.5, "joined at 5.0"),
        (5.0, 2.01, 0.0, 0.5, "2.0 m off"),
        (5.0, -7.0, 0.0, 0.5, "7.0 m off"), (-1.99, 0.0, 0.0, 0.5, "joined at 0.0"),
        (-2.01, 0.0, 0.0, 0.5, "2.0 m off"), (5.0, 0.0, 0.499, 0.5, "joined"),
        (5.0, 0.0, -0.499, 0.5, "joined"), (5.0, 0.0, 0.501, 0.5, "29 degrees to the course"),
        (5.0, 0.0, -0.501, 0.5, "29 degrees"), (5.0, 0.0, 2 * pi + 0.499, 0.5, "joined"),
        (5.0, 0.0, pi, 1.6, "180 degrees"), (19.78, 0.0, 0.0, 0.5, "joined at 19.8"),
        (19.91, 0.0, 0.0, 0.5, "nothing is left"), (22.5, 0.0, 0.0, 0.5, "2.5 m off"),
        (12.34, 0.5, 0.0, 0.5, "joined at 12.3"),
    ],
)  # fmt: skip
def test_where_a_course_may_be_joined(
    x_m: float, y_m: float, turned_rad: float, most_rad: float, said: str
) -> None:
    entry = join(LINE, (x_m, y_m, turned_rad), CORRIDOR_M, most_rad)
    assert said in (entry.said or entry.refused)
    assert entry.joined is (entry.s_m is not None) is (entry.refused == "")


def test_at_a_crossing_the_part_in_its_direction_is_joined() -> None:
    half_m = 0.5 * EIGHT.length_m
    for s_m in (0.0, half_m):
        place = along(EIGHT, s_m)
        entry = join(EIGHT, (place.x_m, place.y_m, place.yaw_rad), CORRIDOR_M, JOIN_RAD)
        assert entry.s_m is not None
        assert min(abs(entry.s_m - s_m), abs(entry.s_m - s_m - EIGHT.length_m)) < 0.2
    assert join(
        LAP, (along(LAP, 0.2).x_m, along(LAP, 0.2).y_m, along(LAP, 0.2).yaw_rad), 2.0, 0.5
    ).s_m == pytest.approx(0.2, abs=0.06)
    end = along(LAP, LAP.length_m - 0.1)
    assert join(LAP, (end.x_m, end.y_m, end.yaw_rad), 2.0, 0.5).s_m is not None, "a lap has no end"


def moving(course: Course, s_m: float, speed_mps: float = 2.0, **estimate: float) -> Entry:
    place = replace(along(course, s_m), speed_mps=speed_mps, **estimate)
    return join_moving(course, place, BRAKED, LIMITS)


def test_a_moving_vehicle_needs_its_stop_before_the_end() -> None:
    last_m = 20.0 - STOP_M
    assert moving(LINE, int(last_m * 10) / 10).s_m is not None
    assert f"a stop takes {STOP_M:.1f} m" in moving(LINE, int(last_m * 10) / 10 + 0.1).refused
    assert moving(LINE, 19.0, 0.5).s_m is not None
    assert moving(LAP, LAP.length_m - 0.5).s_m is not None, "a lap goes on"
    free = replace(VEHICLE, drive=replace(VEHICLE.drive, friction_nm=0.0))
    # A vehicle without a brake or friction stops by 0.05 m/s^2 at least.
    for s_m, joins in ((17.4, True), (17.6, False)):
        entry = join_moving(LINE, replace(along(LINE, s_m), speed_mps=0.5), free, LIMITS)
        assert (entry.s_m is not None) is joins


@pytest.mark.parametrize("speed_mps", [2.0, 1.0])
def test_a_moving_vehicle_needs_its_stop_before_a_wait(speed_mps: float) -> None:
    stop_m = speed_mps**2 / (2.0 * CERTAIN_MPS2)
    course = with_arrays(LINE, waits=(Wait(5.0, 1.0), Wait(10.0, 1.0)))
    last_m = int((10.0 - stop_m) * 10) / 10
    assert moving(course, last_m, speed_mps).s_m is not None
    assert "a wait is" in moving(course, last_m + 0.1, speed_mps).refused
    assert moving(course, 10.1, speed_mps).s_m is not None
    assert moving(course, 5.1, speed_mps).s_m is not None
    nearest_m = int((5.0 - stop_m) * 10) / 10
    assert moving(course, nearest_m, speed_mps).s_m is not None
    assert "a wait is" in moving(course, nearest_m + 0.1, speed_mps).refused


@pytest.mark.parametrize("bend", [2.5, -2.5])
def test_a_moving_vehicle_slows_down_before_a_bend(bend: float) -> None:
    """A bend of 2.5 per metre is driven at 1 m/s: from 2 m/s three quarters of the stop."""
    curvature = np.zeros(len(LINE.s_m))
    curvature[100] = bend
    course = with_arrays(LINE, curvature_per_m=curvature)
    last_m = int((float(LINE.s_m[100]) - 0.75 * STOP_M) * 10) / 10
    assert moving(course, last_m).s_m is not None
    assert (
        "ahead can be driven at 1.00 m/s, and the vehicle drives at 2.00"
        in moving(course, last_m + 0.1).refused
    )
    assert moving(course, 9.9, 0.99).s_m is not None
    assert moving(course, 10.2).s_m is not None, "it lies behind"


def test_the_bends_behind_the_start_of_a_lap_count() -> None:
    curvature = np.full(len(LAP.s_m), 0.2)
    curvature[5] = 2.5
    lap = with_arrays(LAP, curvature_per_m=curvature)
    bend_m = LAP.length_m + float(LAP.s_m[5])
    for before_m, joins in ((0.75 * STOP_M + 0.1, True), (0.75 * STOP_M - 0.1, False)):
        entry = moving(lap, bend_m - before_m)
        assert (entry.s_m is not None) is joins
    assert f"the bend {0.75 * STOP_M - 0.1:.1f} m ahead" in entry.refused
    curvature = np.full(len(LAP.s_m), 0.2)
    curvature[-5] = 2.5
    lap = with_arrays(LAP, curvature_per_m=curvature)
    assert moving(lap, float(LAP.s_m[-5]) - 0.5).s_m is None
    assert moving(lap, 1.0).s_m is not None


@pytest.mark.parametrize(
    ("speed_mps", "refused"),
    [(2.0, False), (0.051, False), (-0.05, False), (-0.051, True), (-2.0, True)],
)
def test_a_course_is_changed_to_in_its_direction(speed_mps: float, refused: bool) -> None:
    assert ("other direction" in moving(LINE, 5.0, speed_mps).refused) is refused
    backward = with_arrays(LINE, speed_mps=-LINE.speed_mps)
    assert ("other direction" in moving(backward, 5.0, -speed_mps).refused) is refused


@pytest.mark.parametrize(
    ("speed_mps", "radius_m"), [(0.5, 1.25 * VEHICLE.min_turn_radius_m), (3.0, 9.0 / 2.5)]
)
@pytest.mark.parametrize("side", [1.0, -1.0])
@pytest.mark.parametrize("sense", [1.0, -1.0])
def test_until_it_is_parallel_it_goes_on_to_the_side_to_which_it_points(
    speed_mps: float, radius_m: float, side: float, sense: float
) -> None:
    course = LINE if sense > 0.0 else with_arrays(LINE, speed_mps=-LINE.speed_mps)
    aside_m = radius_m * (1.0 - cos(0.4))
    for left_m, joins in ((1.99 - aside_m, True), (2.01 - aside_m, False), (-1.9, True)):
        place = at(PathTracker(LINE).point_at(5.0), side * left_m, side * sense * 0.4)
        entry = join_moving(course, replace(place, speed_mps=sense * speed_mps), BRAKED, LIMITS)
        assert (entry.s_m is not None) is joins
        assert ("off: lower the speed" in entry.refused) is not joins


@pytest.mark.parametrize(
    ("lap", "s_m", "speed_mps", "begins"),
    [
        (LAP, 0.4, 0.0, False), (LAP, 0.6, 0.0, True), (LAP, 0.9, 2.0, False),
        (LAP, 1.1, 2.0, True), (circle(20.0), 1.2, 0.0, False), (circle(20.0), 1.4, 0.0, True),
    ],
)  # fmt: skip
def test_a_lap_that_is_joined_shortly_behind_its_start_begins_there(
    lap: Course, s_m: float, speed_mps: float, begins: bool
) -> None:
    estimate = replace(along(lap, s_m), speed_mps=speed_mps)
    for is_moving in (True, False):
        assert (lap_from(lap, estimate, LIMITS, moving=is_moving) is not None) is begins
    turned = replace(estimate, yaw_rad=estimate.yaw_rad + 1.0)
    assert lap_from(lap, turned, LIMITS, moving=True) is None
    assert (lap_from(lap, turned, LIMITS, moving=False) is not None) is begins


@pytest.mark.parametrize(
    ("x_m", "y_m", "run_up_m", "off_m"),
    [
        (5.0, 0.5, 0.0, 0.5), (-0.3, 0.4, 0.0, 0.5), (-0.3, 0.4, 0.301, 0.4),
        (-0.3, 0.4, 0.29, 0.5), (-0.3, -0.4, 1.0, 0.4), (20.3, 0.4, 1.0, 0.5),
    ],
)  # fmt: skip
def test_the_distance_from_the_course(
    x_m: float, y_m: float, run_up_m: float, off_m: float
) -> None:
    for course in (LINE, with_arrays(LINE, speed_mps=-LINE.speed_mps, yaw_rad=LINE.yaw_rad + pi)):
        tracker = PathTracker(course)
        if x_m > 1.0:
            tracker.reset(x_m)
        point = tracker.locate(x_m, y_m, float(course.yaw_rad[0]))
        assert off_course_m(point, x_m, y_m, run_up_m) == pytest.approx(off_m)


def test_between_two_drives_the_place_moves_with_the_vehicle() -> None:
    """The place moves by two metres at most for each metre of the vehicle, and by one metre at
    once."""
    for jump_m, follows in ((0.99, True), (1.01, False)):
        entry = stopped(LINE, 5.0)
        entry.follow(along(LINE, 5.0 + jump_m))
        assert entry._at_m == pytest.approx(5.0 + jump_m if follows else 5.0)
        entry.follow(along(LINE, 5.0 + jump_m + 0.05))
        assert entry._at_m == pytest.approx(5.05 + jump_m if follows else 5.0)
    entry = stopped(LINE, 5.0)
    entry.follow(along(LINE, 5.9))
    assert entry._slack_m == pytest.approx(0.1)
    entry.follow(along(LINE, 5.9, 0.1))
    assert entry._slack_m == pytest.approx(0.3)
    entry.follow(along(LINE, 5.6, 0.1))
    assert entry._slack_m == pytest.approx(0.6)
    entry.driven_to(nan)
    assert entry._left_m == 5.0
    entry.driven_to(7.0)
    entry.follow(along(LINE, 7.0))
    assert entry.choose(along(LINE, 7.0)).s_m == pytest.approx(7.0)


@pytest.mark.parametrize(
    ("left_m", "turned_rad", "looks"),
    [
        (0.19, 0.09, False),
        (-0.19, -0.09, False),
        (0.21, 0.0, True),
        (0.0, 0.11, True),
        (0.0, -0.11, True),
    ],
)
def test_an_aligned_vehicle_needs_no_turn(left_m: float, turned_rad: float, looks: bool) -> None:
    """A fence round the vehicle refuses every turn."""
    fence = Fence([Polygon(((4.0, -0.5), (6.0, -0.5), (6.0, 0.5), (4.0, 0.5)), keep_out=True)])
    entry = CourseEntry(LINE, CORRIDOR_M, vehicle=BRAKED, fence=fence)
    entry.driven_to(5.0)
    place = at(PathTracker(LINE).point_at(5.0), left_m, turned_rad)
    assert ("on its way onto the course" in entry.choose(place).refused) is looks


@pytest.mark.parametrize(
    ("turned_rad", "refused"), [(1.59, False), (-1.59, False), (1.61, True), (-1.61, True)]
)
def test_a_vehicle_that_points_backwards_turns_round_first(
    turned_rad: float, refused: bool
) -> None:
    entry = CourseEntry(LINE, CORRIDOR_M)
    place = at(PathTracker(LINE).point_at(0.0), 0.0, turned_rad)
    assert ("backwards" in entry.choose(place).refused) is refused
    entry = CourseEntry(LINE, CORRIDOR_M, anywhere=True)
    place = at(PathTracker(LINE).point_at(9.0), 0.0, turned_rad)
    assert (entry.choose(place).s_m is None) is refused


@pytest.mark.parametrize("sense", [1.0, -1.0])
def test_the_turn_onto_the_course_is_on_circles_of_its_radius(sense: float) -> None:
    course = (
        LINE
        if sense > 0.0
        else with_arrays(LINE, speed_mps=-LINE.speed_mps, yaw_rad=LINE.yaw_rad + pi)
    )
    for side in (1.0, -1.0):
        tracker = PathTracker(course)
        tracker.reset(5.0)
        pose = (5.0, side * 0.5, float(course.yaw_rad[0]) + side * 1.2)
        turn = turn_onto(tracker, pose, 1.0)
        steps = np.hypot(np.diff(turn.x_m), np.diff(turn.y_m))
        assert steps == pytest.approx(0.1, rel=1e-3)
        assert np.abs(np.diff(turn.yaw_rad)).max() == pytest.approx(0.1)
        # It goes on to its side by a circle, turns back, and ends in line with the course.
        assert turn.off_m == pytest.approx(np.abs(turn.y_m).max(), abs=0.01)
        assert turn.off_m == pytest.approx(0.5 + 1.0 - cos(1.2), abs=0.12) or sense < 0.0
        assert abs(turn.yaw_rad[-1] - course.yaw_rad[0]) <= 0.11
        assert abs(turn.y_m[-1]) <= 0.11
        assert (turn.x_m[-1] > 5.0) is True
    # Beside the course and parallel to it, the circle through the place one radius ahead is wider.
    for side in (1.0, -1.0):
        tracker = PathTracker(course)
        tracker.reset(5.0)
        gentle = turn_onto(tracker, (5.0, side * 0.5, float(course.yaw_rad[0])), 1.0)
        assert gentle.yaw_rad[1] - gentle.yaw_rad[0] == pytest.approx(-0.08 * side)
        # Away from it, the smallest circle counts; towards it, the one through that place.
        for turned_rad, turns_rad in ((0.5 * pi, -0.1), (-0.5 * pi, 0.05)):
            tracker.reset(5.0)
            yaw_rad = float(course.yaw_rad[0]) + side * turned_rad * sense
            far = turn_onto(tracker, (5.0, side * 2.0, yaw_rad), 1.0)
            assert (
                far.yaw_rad[1] - far.yaw_rad[0] == pytest.approx(side * turns_rad * sense)
                or sense < 0.0
            )
    tracker = PathTracker(course)
    tracker.reset(5.0)
    straight_on = turn_onto(tracker, (5.0, 0.09, float(course.yaw_rad[0]) + 0.09), 1.0)
    assert len(straight_on.x_m) == 1
    assert straight_on.off_m == pytest.approx(0.09)


# ------------------------------------------------------------------------- wherever the course lies

ANGLE, SHIFT_X, SHIFT_Y = 2.3, 30.0, -12.0


def moved_pose(x_m: float, y_m: float, yaw_rad: float) -> tuple[float, float, float]:
    c, s = cos(ANGLE), sin(ANGLE)
    return SHIFT_X + c * x_m - s * y_m, SHIFT_Y + s * x_m + c * y_m, yaw_rad + ANGLE


def moved(course: Course) -> Course:
    """The same course elsewhere on the map, in another direction."""
    x_m, y_m, yaw_rad = zip(
        *map(moved_pose, course.x_m.tolist(), course.y_m.tolist(), course.yaw_rad.tolist()),
        strict=True,
    )
    return with_arrays(course, x_m=np.array(x_m), y_m=np.array(y_m), yaw_rad=np.array(yaw_rad))


@given(
    st.sampled_from([1.0, -1.0]),
    st.floats(-4.0, 21.0),
    st.floats(-2.5, 2.5),
    st.floats(-pi, pi),
    st.floats(0.0, 3.0),
    st.floats(0.0, 5.0),
)
def test_entries_do_not_depend_on_where_the_course_lies(
    sense: float, x_m: float, y_m: float, yaw_rad: float, speed_mps: float, run_up_m: float
) -> None:
    """Property: a course and a vehicle elsewhere on the map, turned alike, give the same entries
    and turns."""
    course = (
        LINE
        if sense > 0.0
        else with_arrays(LINE, speed_mps=-LINE.speed_mps, yaw_rad=LINE.yaw_rad + pi)
    )
    yaw_rad += float(course.yaw_rad[0])
    other, pose, other_pose = moved(course), (x_m, y_m, yaw_rad), moved_pose(x_m, y_m, yaw_rad)
    here, there = (
        replace(RUNNING, x_m=x, y_m=y, yaw_rad=yaw, speed_mps=sense * speed_mps)
        for x, y, yaw in (pose, other_pose)
    )
    assert join(other, other_pose, CORRIDOR_M, 1.0) == join(course, pose, CORRIDOR_M, 1.0)
    assert join_moving(other, there, BRAKED, LIMITS) == join_moving(course, here, BRAKED, LIMITS)
    entries = [CourseEntry(each, CORRIDOR_M, vehicle=VEHICLE) for each in (course, other)]
    assert entries[0].choose(here, run_up_m) == entries[1].choose(there, run_up_m)
    trackers = [PathTracker(each) for each in (course, other)]
    points = [
        tracker.locate(*each) for tracker, each in zip(trackers, (pose, other_pose), strict=True)
    ]
    off = [
        off_course_m(point, *each[:2], run_up_m)
        for point, each in zip(points, (pose, other_pose), strict=True)
    ]
    assert off[0] == pytest.approx(off[1])
    turns = [
        turn_onto(tracker, each, 1.5, run_up_m)
        for tracker, each in zip(trackers, (pose, other_pose), strict=True)
    ]
    assert turns[1].off_m == pytest.approx(turns[0].off_m, abs=1e-6)
    assert len(turns[1].x_m) == len(turns[0].x_m)
    last = moved_pose(turns[0].x_m[-1], turns[0].y_m[-1], turns[0].yaw_rad[-1])
    assert (turns[1].x_m[-1], turns[1].y_m[-1], turns[1].yaw_rad[-1]) == pytest.approx(
        last, abs=1e-6
    )


def test_elsewhere_the_distances_are_those_to_the_course() -> None:
    line = moved(LINE)
    assert "7.0 m off the course" in join(line, moved_pose(5.0, -7.0, 0.0), CORRIDOR_M, 0.5).refused
    for left_m, turned_rad, joins in (
        (1.9, 0.0, True),
        (1.9, 0.4, False),
        (1.9, -0.4, True),
        (-1.9, 0.4, True),
    ):
        x_m, y_m, yaw_rad = moved_pose(5.0, left_m, turned_rad)
        estimate = replace(RUNNING, x_m=x_m, y_m=y_m, yaw_rad=yaw_rad, speed_mps=1.0)
        assert (join_moving(line, estimate, BRAKED, LIMITS).s_m is not None) is joins
    for ahead_m, off_m in ((-0.3, 0.4), (-0.9, 0.4), (-1.1, hypot(1.1, 0.4))):
        x_m, y_m, yaw_rad = moved_pose(ahead_m, 0.4, 0.0)
        point = PathTracker(line).locate(x_m, y_m, yaw_rad)
        assert off_course_m(point, x_m, y_m, 1.0) == pytest.approx(off_m)


def test_a_moving_vehicle_off_the_course_is_refused_with_the_distance() -> None:
    away = replace(RUNNING, x_m=5.0, y_m=4.0, speed_mps=1.0)
    assert "4.0 m off the course" in join_moving(LINE, away, BRAKED, LIMITS).refused


def test_a_slow_course_is_driven_forward() -> None:
    slow = with_arrays(LINE, speed_mps=0.3 * np.ones_like(LINE.speed_mps))
    assert moving(slow, 5.0, 0.3).s_m is not None
    assert "other direction" in moving(slow, 5.0, -0.3).refused


def test_the_bend_at_the_very_start_of_a_lap_counts() -> None:
    curvature = np.full(len(LAP.s_m), 0.2)
    curvature[0] = 2.5
    lap = with_arrays(LAP, curvature_per_m=curvature)
    assert (
        "m ahead can be driven at 1.00 m/s"
        in moving(lap, LAP.length_m - 0.75 * STOP_M + 0.1).refused
    )
    assert moving(lap, LAP.length_m - 0.75 * STOP_M - 0.1).s_m is not None


def test_a_lap_is_joined_backward_as_forward() -> None:
    for speed_mps in (2.0, -2.0):
        assert (
            lap_from(LAP, replace(along(LAP, 0.9), speed_mps=speed_mps), LIMITS, moving=False)
            is None
        )
        assert (
            lap_from(LAP, replace(along(LAP, 1.1), speed_mps=speed_mps), LIMITS, moving=False)
            is not None
        )


@pytest.mark.parametrize(
    ("left_m", "radius_m", "aligned"),
    [(0.09, 1.0, True), (0.15, 1.0, False), (0.15, 2.0, True), (0.15, 1.4, False)],
)
def test_near_the_course_relative_to_the_radius_no_turn_is_needed(
    left_m: float, radius_m: float, aligned: bool
) -> None:
    tracker = PathTracker(LINE)
    tracker.reset(5.0)
    assert (len(turn_onto(tracker, (5.0, left_m, 0.0), radius_m).x_m) == 1) is aligned


@pytest.mark.parametrize(
    ("yaw_rad", "turns_rad"), [(-2.5, 0.1), (2.5, -0.1), (-3.0, 0.1), (3.0, -0.1)]
)
def test_a_place_behind_is_turned_to_by_the_shorter_way(yaw_rad: float, turns_rad: float) -> None:
    tracker = PathTracker(LINE)
    tracker.reset(5.0)
    turn = turn_onto(tracker, (5.0, 0.0, yaw_rad), 1.0)
    assert turn.yaw_rad[1] - turn.yaw_rad[0] == pytest.approx(turns_rad)


def test_the_turn_onto_the_course_ends_where_the_vehicle_changes_its_direction() -> None:
    course = parallel_parking()
    tracker = PathTracker(course)
    cusp_m = tracker.leg_end_m
    tracker.reset(cusp_m - 0.3)
    place = tracker.point_at(cusp_m)
    turn = turn_onto(tracker, (place.x_m, place.y_m, place.yaw_rad + 0.5), 1.0)
    assert len(turn.x_m) == 1
    assert tracker.leg == 0


def test_the_place_is_known_near_where_the_last_drive_ended() -> None:
    entry = CourseEntry(LINE, CORRIDOR_M)
    assert entry.here(0.5, 0.0, 0.0).s_m == pytest.approx(0.5)
    entry.driven_to(15.0)
    assert entry.choose(along(LINE, 15.2)).s_m == pytest.approx(15.2), (
        "asked without having been tracked"
    )
    assert entry.here(15.3, 0.0, 0.0).s_m == pytest.approx(15.3)


def test_behind_the_start_nothing_is_extended_unless_it_is_asked_for() -> None:
    tracker = PathTracker(LINE)
    assert off_course_m(tracker.locate(-0.9, 0.4, 0.0), -0.9, 0.4) == pytest.approx(hypot(0.9, 0.4))
    assert turn_onto(tracker, (-0.9, 0.4, 0.0), 1.0).off_m == pytest.approx(hypot(0.9, 0.4))
    behind = replace(RUNNING, x_m=-0.9, y_m=1.95)
    assert "off the course" in stopped(LINE, 0.0).choose(behind).refused
    entry = CourseEntry(LINE, CORRIDOR_M, vehicle=VEHICLE)
    assert entry._bad_turn((-0.9, 1.95, 0.0), 0.0) is not None
    assert entry._bad_turn((-0.9, 1.95, 0.0), 0.0, 1.0) is None
