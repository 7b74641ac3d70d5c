"""Progress along a course: remembered at crossings, corners and lap ends."""

import math

import numpy as np
import pytest

from vehicled.paths import formulas
from vehicled.paths.catalog import load_course
from vehicled.paths.course import Course, course_from_waypoints
from vehicled.paths.errors import CourseError
from vehicled.paths.tracking import PathPoint, PathTracker


def drive(
    course: Course, offset_m: float = 0.0, step_m: float = 0.05, extra_m: float = 0.0
) -> tuple[PathTracker, list[float], list[PathPoint]]:
    """Drive the whole course at a lateral offset; the tracker, where we were, and where it saw us.

    Within reach of a corner there is no such thing as a lateral offset, so those poses are left
    out.
    """
    tracker = PathTracker(course)
    sharp = course.s_m[np.abs(course.curvature_per_m) > 1.0]
    driven, points = [], []
    for s in np.arange(0.0, course.length_m + extra_m + step_m / 2, step_m).tolist():
        if offset_m and len(sharp) and np.abs(sharp - s).min() < abs(offset_m) + 0.1:
            continue
        x, y, yaw, _, _ = tracker.point_at(s)
        driven.append(s)
        points.append(
            tracker.update(x - offset_m * math.sin(yaw), y + offset_m * math.cos(yaw), yaw)
        )
    return tracker, driven, points


def test_signs_and_errors() -> None:
    tracker = PathTracker(formulas.straight(20.0))
    point = tracker.update(2.0, 0.3, 0.1)
    assert point.s_m == pytest.approx(2.0)
    assert point.cross_track_m == pytest.approx(0.3)
    assert point.heading_error_rad == pytest.approx(-0.1)
    assert (point.x_m, point.y_m, point.yaw_rad) == pytest.approx((2.0, 0.0, 0.0))
    assert tracker.update(2.5, -0.3, 2 * math.pi - 0.1).heading_error_rad == pytest.approx(0.1)
    assert tracker.update(2.6, -0.3, 0.0).cross_track_m == pytest.approx(-0.3)
    assert tracker.remaining_m == pytest.approx(17.4)


@pytest.mark.parametrize(
    "name", ["figure_eight", "lot17", "circle_r2_cw", "circle_r5_ccw", "square", "sine_tight"]
)
@pytest.mark.parametrize("offset", [-0.25, 0.0, 0.25])
def test_a_whole_run_is_followed_without_a_jump(name: str, offset: float) -> None:
    course = load_course(name)
    tracker, driven, points = drive(course, offset)
    assert [p.s_m for p in points] == pytest.approx(driven, abs=0.06)
    assert [p.cross_track_m for p in points] == pytest.approx([offset] * len(points), abs=0.01)
    assert max(abs(p.heading_error_rad) for p in points if abs(p.curvature_per_m) < 1.0) < 0.06
    assert tracker.progress_m == pytest.approx(driven[-1], abs=0.06)


def test_the_crossing_of_the_eight_is_passed_straight() -> None:
    course = formulas.figure_eight(10.0)
    half = course.length_m / 2
    tracker, _, points = drive(course)
    middle = min(points, key=lambda p: abs(p.s_m - half))
    assert (middle.x_m, middle.y_m) == pytest.approx((0, 0), abs=0.05)
    # Both branches pass here, at right angles; the tracker is on the second.
    assert abs(math.remainder(middle.yaw_rad - math.pi / 2, math.pi)) < 0.1
    assert not any(p.s_m > half + 1 for p in points[: len(points) // 2])
    assert tracker.progress_m == pytest.approx(course.length_m, abs=0.05)


def test_noise_at_the_crossing_does_not_change_branch() -> None:
    course = formulas.figure_eight(10.0)
    rng = np.random.default_rng(5)
    tracker = PathTracker(course)
    for s in np.arange(0.0, course.length_m, 0.02):
        x, y, yaw, _, _ = tracker.point_at(float(s))
        dx, dy = rng.normal(0.0, 0.05, 2)
        assert tracker.update(x + dx, y + dy, yaw).s_m == pytest.approx(s, abs=0.5)


def test_a_lap_is_not_finished_where_it_starts() -> None:
    course = formulas.circle(5.0)
    tracker = PathTracker(course)
    for x, y in [(0.0, 0.0), (-0.05, 0.02), (-0.3, 0.0), (0.02, -0.03)]:
        point = tracker.update(x, y, 0.0)
        assert point.s_m < 0.1
        assert not tracker.finished
    assert tracker.update(-0.3, 0.05, 0.0).cross_track_m == pytest.approx(0.05, abs=1e-6)


def test_a_lap_finishes_once_and_goes_on_smoothly() -> None:
    course = formulas.circle(5.0)
    tracker, _, points = drive(course, offset_m=0.1, extra_m=3.0)
    finished_at = next(i for i, p in enumerate(points) if p.s_m >= course.length_m - 0.1)
    assert finished_at * 0.05 == pytest.approx(course.length_m, abs=0.2)
    assert points[-1].s_m == pytest.approx(course.length_m + 3.0, abs=0.02)
    assert np.diff([p.s_m for p in points]).max() < 0.06
    assert all(p.cross_track_m == pytest.approx(0.1, abs=2e-3) for p in points)
    assert all(abs(p.heading_error_rad) < 0.01 for p in points)
    assert tracker.finished
    assert tracker.remaining_m == 0.0


def test_several_laps_are_one_course() -> None:
    course = formulas.circle(3.0, laps=3)
    assert not course.closed
    tracker, _, points = drive(course)
    assert tracker.finished
    assert points[-1].s_m == pytest.approx(course.length_m, abs=0.01)
    assert course.length_m == pytest.approx(18 * math.pi, rel=1e-3)


@pytest.mark.parametrize("offset", [0.0, 0.3, -0.3])
def test_the_lap_that_starts_in_a_corner(offset: float) -> None:
    course = load_course("lot17")
    tracker = PathTracker(course)
    waiting = [tracker.update(0.02 * k % 0.03, 0.05, 0.34) for k in range(5)]
    assert all(p.s_m < 0.2 for p in waiting)
    assert all(p.yaw_rad == pytest.approx(0.3456, abs=0.02) for p in waiting)
    tracker, _, points = drive(course, offset)
    assert not any(p.s_m >= course.length_m - 0.2 for p in points[: int(0.95 * len(points))])
    # Down the last leg and over the start point, however far beside it.
    for y in np.arange(0.5, -0.1, -0.05):
        tracker.update(offset, float(y), -math.pi / 2)
    assert tracker.finished


@pytest.mark.parametrize("cut", [0.1, 0.5, 1.0])
def test_cutting_a_corner_goes_on_along_the_second_leg(cut: float) -> None:
    course = course_from_waypoints("angle", [0, 10, 10], [0, 0, 10])
    tracker = PathTracker(course)
    for x in np.arange(0, 10 - cut, 0.05):
        tracker.update(float(x), cut, 0.0)
    for y in np.arange(cut, 9, 0.05):
        point = tracker.update(10 - cut, float(y), math.pi / 2)
    assert point.s_m == pytest.approx(19.0, abs=0.1)
    assert point.cross_track_m == pytest.approx(cut, abs=1e-6)


def test_outside_of_a_corner_the_distance_counts() -> None:
    course = course_from_waypoints("angle", [0, 10, 10], [0, 0, 10])
    tracker = PathTracker(course)
    for x in np.arange(0, 10.4, 0.05):
        point = tracker.update(float(x), -0.3, 0.0)
    assert point.s_m == pytest.approx(10.0)
    assert point.cross_track_m == pytest.approx(-math.hypot(10.35 - 10, 0.3))


def test_parallel_lanes_are_not_confused() -> None:
    course = course_from_waypoints("lawn", [0, 20, 20, 0, 0, 20], [0, 0, 1, 1, 2, 2])
    rng = np.random.default_rng(2)
    tracker = PathTracker(course)
    for s in np.arange(0.0, course.length_m, 0.05).tolist():
        x, y, yaw, _, _ = tracker.point_at(s)
        dx, dy = rng.normal(0.0, 0.1, 2)
        assert tracker.update(x + dx, y + dy, yaw).s_m == pytest.approx(s, abs=0.8)


def test_the_start_region_is_searched_once() -> None:
    course = formulas.straight(30.0)
    assert PathTracker(course).update(3.2, 0.1, 0.0).s_m == pytest.approx(3.2)
    # The end of a lap lies beside its start, but no run begins there.
    lap = load_course("lot17")
    assert PathTracker(lap).update(0.0, 1.5, 0.3).s_m < 5.0


def test_before_the_start_and_beyond_the_end_the_tangent_goes_on() -> None:
    tracker = PathTracker(formulas.straight(20.0))
    behind = tracker.update(-1.0, 0.2, 0.0)
    assert (behind.s_m, behind.cross_track_m) == pytest.approx((0.0, 0.2))
    for x in np.arange(-1.0, 22.0, 0.1):
        point = tracker.update(float(x), -0.2, 0.0)
    assert (point.s_m, point.cross_track_m) == pytest.approx((20.0, -0.2))
    assert tracker.finished
    assert tracker.point_at(23.0)[:3] == pytest.approx((23.0, 0.0, 0.0))
    assert tracker.point_at(-2.0)[:2] == pytest.approx((-2.0, 0.0))


def test_stopping_just_short_of_the_end_is_finished() -> None:
    tracker = PathTracker(formulas.straight(20.0))
    for x in np.arange(0.0, 19.85, 0.05):
        tracker.update(float(x), 0.0, 0.0)
    assert not tracker.finished
    tracker.update(19.95, 0.0, 0.0)
    assert tracker.finished
    tracker.update(19.0, 0.0, 0.0)
    assert tracker.finished


def test_going_back_is_followed_but_progress_stays() -> None:
    tracker = PathTracker(formulas.straight(20.0))
    for x in [*np.arange(0, 10, 0.05), *np.arange(10, 5, -0.05)]:
        point = tracker.update(float(x), 0.0, 0.0)
    assert point.s_m == pytest.approx(5.05, abs=0.01)
    assert tracker.progress_m == pytest.approx(10.0, abs=0.06)


def test_a_glitch_of_the_estimate_is_forgotten() -> None:
    course = formulas.figure_eight(10.0)
    tracker = PathTracker(course)
    for k in range(400):
        x, y, yaw, _, _ = tracker.point_at(0.05 * k)
        glitch = 3.0 if k == 200 else 0.0
        point = tracker.update(x + glitch, y, yaw)
    assert point.s_m == pytest.approx(0.05 * 399, abs=0.02)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_pose_that_is_not_finite_moves_nothing(bad: float) -> None:
    tracker = PathTracker(formulas.circle(5.0))
    before = tracker.update(1.0, 0.1, 0.2)
    for pose in [(bad, 0.0, 0.0), (0.0, bad, 0.0)]:
        point = tracker.update(*pose)
        assert point.s_m == before.s_m
        assert math.isnan(point.cross_track_m)
        assert math.isnan(point.heading_error_rad)
        assert math.isfinite(point.speed_mps)
    assert math.isnan(tracker.update(1.0, 0.1, bad).heading_error_rad)
    assert tracker.update(1.05, 0.1, 0.2).s_m == pytest.approx(before.s_m + 0.05, abs=0.01)


def test_locating_a_predicted_pose_keeps_the_progress() -> None:
    tracker = PathTracker(formulas.straight(20.0))
    tracker.update(1.0, 0.0, 0.0)
    assert tracker.locate(1.4, 0.2, 0.0).s_m == pytest.approx(1.4)
    assert tracker.progress_m == pytest.approx(1.0)
    assert tracker.remaining_m == pytest.approx(19.0)


def test_reset_starts_over() -> None:
    tracker, _, _ = drive(formulas.circle(5.0))
    tracker.reset()
    assert not tracker.finished
    assert tracker.update(0.5, 0.0, 0.0).s_m == pytest.approx(0.5, abs=0.01)


def test_point_at_repeats_a_lap() -> None:
    course = formulas.circle(5.0)
    tracker = PathTracker(course)
    for s in (0.0, 3.3, course.length_m - 0.01):
        for lap in (-1, 1, 2):
            assert tracker.point_at(s + lap * course.length_m) == pytest.approx(
                tracker.point_at(s), abs=1e-6
            )
    x, y, yaw, curvature, speed = tracker.point_at(5.0 * math.pi / 2)
    assert (x, y, yaw, curvature, speed) == pytest.approx(
        (5.0, 5.0, math.pi / 2, 0.2, 1.0), abs=2e-3
    )


def test_laps_are_driven_as_one_course() -> None:
    lap = load_course("circle_r5_ccw")
    course = lap.repeated(3)
    assert course.length_m == pytest.approx(3 * lap.length_m)
    assert np.all(np.diff(course.s_m) > 0)
    tracker = PathTracker(course)
    finished_at = None
    for s in np.arange(0.0, 3.2 * lap.length_m, 0.2):
        place = PathTracker(lap).point_at(float(s))
        tracker.update(place.x_m, place.y_m, place.yaw_rad)
        if tracker.finished and finished_at is None:
            finished_at = s
    assert finished_at == pytest.approx(course.length_m, abs=0.5)
    with pytest.raises(CourseError, match="open course"):
        load_course("straight_30m").repeated(2)
    with pytest.raises(CourseError, match="laps"):
        lap.repeated(0)


def test_a_pose_predicted_far_ahead_at_speed_is_found_where_it_is() -> None:
    tracker = PathTracker(load_course("circle_r25_ccw:speed_mps=17.5"))
    for s in np.arange(0.0, 20.0, 0.2).tolist():
        tracker.update(*tracker.point_at(s)[:3], 17.5)
    ahead = tracker.locate(*tracker.point_at(27.0)[:3])
    assert ahead.s_m == pytest.approx(27.0, abs=0.05)
    assert ahead.cross_track_m == pytest.approx(0.0, abs=0.01)
