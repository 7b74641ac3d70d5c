"""The place on the course that safety tracks itself: over crossings and cusps, behind the start,
beyond the end."""

from dataclasses import replace as with_arrays
from itertools import pairwise
from math import cos, hypot, inf, isnan, nan, pi, sin

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.unit.test_machine import VEHICLE
from tests.unit.test_safety_entry import RUNNING, along, at, moved, moved_pose
from tests.unit.test_safety_supervisor import LIMITS
from vehicled.core.messages import ControlCommand, Mode, StateEstimate
from vehicled.core.vehicle import AlignmentParams
from vehicled.paths.course import Course
from vehicled.paths.formulas import circle, figure_eight, parallel_parking, straight
from vehicled.paths.lateral_offset import LateralOffset
from vehicled.paths.tracking import PathTracker
from vehicled.safety.entry import Entry, lap_from
from vehicled.safety.inputs import SafetyInputs
from vehicled.safety.matrix import RULES
from vehicled.safety.monitors import Monitors
from vehicled.safety.monitors.place import CUSP_M, PlaceMonitor
from vehicled.safety.rule import RuleInputs

LINE, EIGHT, LAP = straight(20.0), figure_eight(), circle(5.0)
PARKING = parallel_parking()


def place_on(course: Course) -> PlaceMonitor:
    return PlaceMonitor(LIMITS, VEHICLE, course, None, AlignmentParams())


def see(place: PlaceMonitor, estimate: StateEstimate, mode: Mode = Mode.AUTO) -> PlaceMonitor:
    place.update(SafetyInputs(now_ns=0, mode=mode, limits=LIMITS, estimate=estimate))
    return place


def drive(
    place: PlaceMonitor, course: Course, from_m: float, to_m: float, left_m: float = 0.0
) -> PlaceMonitor:
    """Drive along the course, in steps of 5 cm."""
    steps, ideal = max(1, round(abs(to_m - from_m) / 0.05)), PathTracker(course)
    for k in range(steps + 1):
        s_m = from_m + (to_m - from_m) * k / steps
        ideal.reset(s_m)
        see(place, replace(at(ideal.point_at(s_m), left_m), speed_mps=float(ideal.direction)))
    return place


@given(st.sampled_from([LINE, EIGHT, LAP]), st.floats(0.0, 1.0), st.floats(-0.9, 0.9))
def test_the_offset_is_measured_and_no_crossing_catches_the_place(
    course: Course, share: float, left_m: float
) -> None:
    s_m = share * course.length_m
    place = drive(place_on(course), course, 0.0, s_m, left_m)
    assert place.off_m == pytest.approx(left_m, abs=0.02)
    assert place.s_m == pytest.approx(s_m, abs=0.2)
    assert place.ended is (s_m >= course.length_m - 1.0)


def test_what_the_controller_says_changes_nothing() -> None:
    monitors = Monitors(LIMITS, VEHICLE, course=LINE)
    estimate = replace(RUNNING, x_m=2.0, y_m=1.5, speed_mps=1.0)
    said = ControlCommand(
        0,
        0,
        0.0,
        0.3,
        0.0,
        progress_m=17.0,
        cross_track_m=0.0,
        heading_error_rad=0.0,
        target_speed_mps=9.0,
    )
    found = []
    for control, offset in ((None, None), (said, LateralOffset(0.0, 1.0, 0.0, 0.0, 1.5))):
        s = SafetyInputs(
            now_ns=0,
            mode=Mode.AUTO,
            limits=LIMITS,
            estimate=estimate,
            control=control,
            planned_offset=offset,
        )
        for _ in range(3):
            monitors.update(s)
        found.append((monitors.place.off_m, monitors.place.s_m, monitors.stopping.cap_mps))
    assert found[0] == found[1]
    assert found[0][:2] == (1.5, 2.0)


def test_in_line_with_the_course_before_its_start_and_beyond_its_end_the_distance_counts() -> None:
    place = see(place_on(LINE), replace(RUNNING, x_m=-1.5))
    assert abs(place.off_m) == pytest.approx(1.5)
    place = drive(place_on(LINE), LINE, 0.0, 20.0)
    for x_m in (20.5, 21.0, 21.5):
        see(place, replace(RUNNING, x_m=x_m, speed_mps=1.0))
        assert abs(place.off_m) == pytest.approx(x_m - 20.0)
        assert place.beyond_m == pytest.approx(x_m - 20.0)
    see(place, replace(RUNNING, x_m=20.0, y_m=1.0))
    assert place.beyond_m == pytest.approx(0.0, abs=1e-9)


def test_a_lap_is_over_after_its_line_and_not_at_its_start() -> None:
    place = place_on(LAP)
    drive(place, LAP, 0.0, 0.1)
    assert (place.ended, place.beyond_m) == (False, 0.0)
    drive(place, LAP, 0.1, LAP.length_m + 2.5)
    assert place.ended
    assert place.beyond_m == pytest.approx(2.5, abs=0.01)
    assert abs(place.off_m) < 0.01


def test_after_an_alignment_the_line_behind_the_start_belongs_to_the_course_and_only_then() -> None:
    behind = replace(RUNNING, x_m=-3.0, y_m=0.4)
    place = see(place_on(LINE), behind, Mode.STANDBY)
    assert "3.0 m off the course" in place.choose(behind).refused
    see(place, behind, Mode.ALIGN)
    entry = place.choose(behind)
    assert entry.refused == ""
    place.begin(entry, behind)
    assert place.off_m == pytest.approx(0.4)
    see(place, replace(behind, x_m=-2.0, y_m=2.1, speed_mps=1.0))
    assert place.off_m == pytest.approx(2.1), "its corridor is that of the course"
    see(place, behind, Mode.STANDBY)
    assert place.choose(behind).refused == "", "stopped on the way there it goes on"
    see(place, replace(RUNNING, x_m=-6.0), Mode.STANDBY)
    assert "6.0 m off the course" in place.choose(replace(RUNNING, x_m=-6.0)).refused
    see(place, behind, Mode.TELEOP)
    assert "off the course" in place.choose(behind).refused


def test_only_a_vehicle_that_turns_back_is_on_the_leg_behind_a_cusp() -> None:
    cusp_m = PathTracker(PARKING).leg_end_m
    place = place_on(PARKING)
    drive(place, PARKING, 0.0, cusp_m - 0.9 * CUSP_M)
    see(place, along(PARKING, cusp_m - 0.9 * CUSP_M))
    assert place.s_m == pytest.approx(cusp_m - 0.9 * CUSP_M, abs=0.01), (
        "it stands there for another reason"
    )
    short = along(PARKING, cusp_m - 0.2)
    see(place, replace(short, speed_mps=0.3))
    for way_m in (0.0, 0.1, 0.2, 0.3, 0.5, 0.8):
        back = replace(
            short,
            x_m=short.x_m - way_m * cos(short.yaw_rad),
            y_m=short.y_m - way_m * sin(short.yaw_rad),
            speed_mps=-0.3,
        )
        see(place, back)
    assert place.s_m == pytest.approx(cusp_m + 1.0, abs=0.1)
    assert abs(place.off_m) < 0.2


def test_a_parking_manoeuvre_is_followed_to_its_end() -> None:
    place = place_on(PARKING)
    ends = [0.0, *(float(PARKING.s_m[k]) for k in PARKING.cusps), PARKING.length_m]
    for begin, end in pairwise(ends):
        drive(place, PARKING, begin + 0.01, end - 0.01)
        assert abs(place.off_m) < 0.05
    assert place.ended


@pytest.mark.parametrize("bad", [nan, inf, -inf])
def test_without_a_pose_the_place_is_unknown_and_comes_back(bad: float) -> None:
    place = drive(place_on(LINE), LINE, 0.0, 5.0)
    for change in ({"x_m": bad}, {"y_m": bad}, {"yaw_rad": bad}):
        see(place, replace(RUNNING, **change))
        assert place.point is None
        assert place.off_m != place.off_m
    see(place, replace(RUNNING, x_m=5.1, speed_mps=1.0))
    assert place.s_m == pytest.approx(5.1)
    assert drive(place, LINE, 5.1, 12.0).s_m == pytest.approx(12.0)


def test_a_jump_of_the_estimate_is_followed_within_the_time_that_a_rule_waits() -> None:
    """A receiver that comes back after a tunnel: five ticks are less than what the corridor rule
    waits for."""
    place = drive(place_on(LINE), LINE, 0.0, 2.0)
    for _ in range(4):
        see(place, replace(RUNNING, x_m=12.0, y_m=0.5, speed_mps=1.0))
    assert place.off_m == pytest.approx(0.5)


def test_a_drive_that_is_stopped_is_resumed_where_safety_saw_it() -> None:
    place = drive(place_on(EIGHT), EIGHT, 0.0, 0.5 * EIGHT.length_m)
    here = along(EIGHT, 0.5 * EIGHT.length_m)
    see(place, here, Mode.STOPPING)
    assert place.driving
    see(place, here, Mode.STANDBY)
    assert not place.driving
    assert place.choose(here).s_m == pytest.approx(0.5 * EIGHT.length_m, abs=0.05)


# -------------------------------------------------------------------------------------- a whole lap


@given(st.floats(0.0, 1.0), st.sampled_from([EIGHT, LAP]))
def test_a_lap_with_another_start_is_the_same_lap(share: float, lap: Course) -> None:
    s_m = share * lap.length_m
    other = lap.beginning_at(s_m)
    assert other.length_m == lap.length_m
    assert other.s_m[0] == 0.0
    assert (other.s_m[1:] > other.s_m[:-1]).all()
    assert other.s_m[-1] < lap.length_m
    assert np.diff(other.s_m) == pytest.approx(
        np.hypot(np.diff(other.x_m), np.diff(other.y_m)), rel=1e-6
    )
    assert abs(other.yaw_rad[1:] - other.yaw_rad[:-1]).max() < 0.3
    tracker, was = PathTracker(other), PathTracker(lap)
    for k in range(20):
        new = tracker.point_at(k * lap.length_m / 20)
        old = was.point_at(s_m + k * lap.length_m / 20)
        assert hypot(new.x_m - old.x_m, new.y_m - old.y_m) < 0.11
        assert cos(new.yaw_rad - old.yaw_rad) > 0.99
        assert new.curvature_per_m == pytest.approx(old.curvature_per_m, abs=0.1)


@pytest.mark.parametrize(
    ("s_m", "moving", "begins"),
    [
        (0.0, True, False),
        (0.4, True, False),
        (3.0, True, True),
        (31.0, True, True),
        (16.0, False, True),
    ],
)
def test_a_lap_begins_where_it_is_joined(s_m: float, moving: bool, begins: bool) -> None:
    estimate = replace(along(LAP, s_m), speed_mps=0.5 if moving else 0.0)
    from_m = lap_from(LAP, estimate, LIMITS, moving=moving)
    assert (from_m is not None) is begins
    if from_m is not None:
        assert from_m == pytest.approx(s_m, abs=0.06)
    assert lap_from(LINE, replace(RUNNING, x_m=5.0), LIMITS, moving=moving) is None
    assert (
        lap_from(LAP, at(PathTracker(LAP).point_at(s_m), turned_rad=pi), LIMITS, moving=moving)
        is None
    )
    assert lap_from(LAP, replace(RUNNING, x_m=50.0), LIMITS, moving=moving) is None
    assert lap_from(LAP, None, LIMITS, moving=moving) is None


def test_no_entry_is_where_it_was_not_asked_for() -> None:
    assert place_on(LINE).choose(None) == Entry()
    nowhere = PlaceMonitor(LIMITS, VEHICLE, None, None, AlignmentParams())
    assert nowhere.choose(RUNNING) == Entry()
    nowhere.begin(Entry(), RUNNING)
    assert see(nowhere, RUNNING).ended
    assert not nowhere.driving


@pytest.mark.parametrize("sense", [1.0, -1.0])
@given(
    st.lists(
        st.tuples(st.floats(0.0, 6.0), st.floats(-2.0, 2.0), st.floats(-0.4, 0.4)),
        min_size=1,
        max_size=8,
    )
)
def test_the_place_does_not_depend_on_where_the_course_lies(
    sense: float, ways: list[tuple[float, float, float]]
) -> None:
    """Property: a course elsewhere on the map, driven alike, gives the same offsets, beyond its end
    as well; also backward."""
    course = (
        LINE
        if sense > 0.0
        else with_arrays(LINE, speed_mps=-LINE.speed_mps, yaw_rad=LINE.yaw_rad + pi)
    )
    places = [place_on(each) for each in (course, moved(course))]
    x_m = 0.0
    for way_m, y_m, turned_rad in ways:
        x_m += way_m
        pose = (x_m, y_m, float(course.yaw_rad[0]) + turned_rad)
        for place, (x, y, yaw) in zip(places, (pose, moved_pose(*pose)), strict=True):
            see(place, replace(RUNNING, x_m=x, y_m=y, yaw_rad=yaw, speed_mps=sense))
        # In line with the course the offset has the sign of rounding.
        mine, other = (
            [
                p.s_m,
                abs(p.off_m) if abs(y_m) < 1e-3 else p.off_m,
                p.beyond_m,
                p.backward_m,
                p.remaining_m,
                p.ended,
            ]
            for p in places
        )
        assert other == pytest.approx(mine, abs=1e-6)
        wanted_m = max(x_m - 20.0, 0.0)
        assert places[0].beyond_m == pytest.approx(wanted_m if places[0].ended else 0.0, abs=1e-9)
        assert abs(places[0].off_m) == pytest.approx(hypot(wanted_m, y_m)) or not places[0].ended


def test_another_course_is_followed_from_its_start_with_nothing_left_of_the_first() -> None:
    place = drive(place_on(LINE), LINE, 0.0, 21.0)
    assert place.driving
    assert place.beyond_m > 0.9
    place.follow(LAP)
    assert (place.driving, place.point, place.beyond_m, place.backward_m) == (False, None, 0.0, 0.0)
    assert isnan(place.off_m)
    assert isnan(place.s_m)
    assert place.remaining_m == LAP.length_m


def test_an_identified_vehicle_turns_onto_this_course_and_the_next() -> None:
    other = replace(VEHICLE, width_m=2.0 * VEHICLE.width_m)
    place = place_on(LINE)
    place.adapt(other)
    assert place.entry is not None
    assert place.entry.vehicle is other
    place.follow(LAP)
    assert place.entry.vehicle is other


def test_without_a_course_there_is_no_place() -> None:
    nowhere = PlaceMonitor(LIMITS, VEHICLE, None, None, AlignmentParams())
    nowhere.adapt(VEHICLE)
    assert nowhere.locate(0.0, 0.0, 0.0) is None
    assert all(map(isnan, (nowhere.off_m, nowhere.s_m, nowhere.remaining_m)))
    assert (nowhere.backward_m, nowhere.beyond_m) == (0.0, 0.0)


def test_a_drive_begins_at_its_entry_and_only_one_after_an_alignment_behind_the_start() -> None:
    place, here = place_on(LINE), replace(RUNNING, x_m=12.0)
    assert place.choose(replace(RUNNING, x_m=0.5)).run_up_m == 0.0
    place.begin(Entry(s_m=12.0), here)
    assert place.driving
    assert place.s_m == pytest.approx(12.0)
    assert see(place, replace(here, x_m=12.1, speed_mps=1.0)).backward_m == 0.0
    assert see(place, replace(here, x_m=11.8, speed_mps=-1.0)).backward_m == pytest.approx(0.3)


def test_what_was_driven_beyond_the_end_is_forgotten_with_the_drive() -> None:
    place = drive(place_on(LINE), LINE, 0.0, 20.0)
    assert see(place, replace(RUNNING, x_m=21.0, speed_mps=1.0)).beyond_m == pytest.approx(1.0)
    assert see(place, replace(RUNNING, x_m=21.0), Mode.STANDBY).beyond_m == 0.0


def test_between_two_drives_the_place_follows_a_vehicle_that_is_moved_along_its_course() -> None:
    place = drive(place_on(LINE), LINE, 0.0, 5.0)
    for k in range(40):
        see(place, replace(RUNNING, x_m=5.0 + 0.2 * k, speed_mps=1.0), Mode.TELEOP)
    assert place.s_m == pytest.approx(12.8)
    see(place, replace(RUNNING, x_m=nan), Mode.STANDBY)
    assert place.point is None
    assert isnan(place.off_m)
    assert place.choose(replace(RUNNING, x_m=12.8)).s_m == pytest.approx(12.8)


def test_a_drive_that_has_passed_the_start_was_no_alignment() -> None:
    behind = replace(RUNNING, x_m=-3.0)
    place = see(place_on(LINE), behind, Mode.ALIGN)
    place.begin(place.choose(behind), behind)
    for k in range(18):
        see(place, replace(RUNNING, x_m=-3.0 + 0.2 * k, speed_mps=1.0))
    assert place.s_m == pytest.approx(0.4)
    assert "off the course" in see(place, behind, Mode.STANDBY).choose(behind).refused


def test_half_a_metre_before_a_cusp_a_vehicle_that_rolls_back_stays_on_its_leg() -> None:
    cusp_m = PathTracker(PARKING).leg_end_m
    assert cusp_m > 2.0, "a quarter of the leg is longer"
    place = drive(place_on(PARKING), PARKING, 0.0, cusp_m - 0.6)
    see(place, replace(along(PARKING, cusp_m - 0.7), speed_mps=-0.3))
    assert place.s_m == pytest.approx(cusp_m - 0.7, abs=0.01)
    assert place.backward_m == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize(("corridor_m", "limit_m"), [(2.0, 1.0), (19.0, 9.5), (50.0, 10.0)])
def test_the_end_may_be_overrun_by_half_the_corridor_and_ten_metres(
    corridor_m: float, limit_m: float
) -> None:
    rule = next(rule for rule in RULES if rule.code == "course_overrun")
    s = RuleInputs(
        now_ns=0,
        mode=Mode.AUTO,
        limits=replace(LIMITS, corridor_m=corridor_m),
        monitors=Monitors(LIMITS, VEHICLE, course=LINE),
    )
    assert rule.limit is not None
    assert rule.limit(s) == limit_m


@pytest.mark.parametrize(("ahead_m", "s_m"), [(-0.4, -0.4), (-1.5, -1.5), (0.3, 0.3), (0.9, 0.9)])
def test_the_arc_length_before_the_start_is_negative(ahead_m: float, s_m: float) -> None:
    place, start = place_on(LINE), PathTracker(LINE).point_at(0.0)
    estimate = at(start)
    estimate = replace(
        estimate,
        x_m=estimate.x_m + ahead_m * cos(start.yaw_rad),
        y_m=estimate.y_m + ahead_m * sin(start.yaw_rad),
    )
    see(place, estimate)
    assert place.signed_s_m(estimate) == pytest.approx(s_m)
    if s_m > 0.0:
        assert place.signed_s_m(None) == place.s_m, "the place on the course is enough"
    else:
        assert isnan(place.signed_s_m(None))


@pytest.mark.parametrize(("s_m", "ended"), [(18.9, False), (19.1, True)])
def test_the_last_metre_of_the_course_is_its_end(s_m: float, ended: bool) -> None:
    assert drive(place_on(LINE), LINE, 0.0, s_m).ended is ended
