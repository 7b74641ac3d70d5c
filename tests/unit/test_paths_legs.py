"""The tracker on a course with cusps: one leg at a time."""

import math

import pytest

from vehicled.paths.catalog import load_course
from vehicled.paths.course import course_from_waypoints
from vehicled.paths.tracking import MANOEUVRE_TOLERANCE_M, PathTracker

SHUTTLE = course_from_waypoints(
    "shuttle", [0, 2, 4, 3, 2, 1], [0.0] * 6, speed=[1, 1, -0.5, -0.5, -0.5, -0.5], closed=False
)


def _at_cusp(speed_mps: float = 0.0) -> PathTracker:
    tracker = PathTracker(SHUTTLE)
    for x in (1.0, 2.0, 3.0, 3.6):
        tracker.update(x, 0.0, 0.0, 1.0)
    tracker.update(3.99, 0.0, 0.0, speed_mps)
    return tracker


def test_a_leg_lasts_until_the_vehicle_stands_at_its_end() -> None:
    tracker = _at_cusp(speed_mps=0.2)
    assert (tracker.leg, tracker.direction, tracker.leg_end_m) == (0, 1, 4.0)
    assert tracker.at_leg_end
    assert not tracker.finished
    # It overshoots: still on the first leg, at its end.
    point = tracker.update(4.1, 0.05, 0.1, 0.2)
    assert (point.s_m, point.direction) == (4.0, 1)
    assert point.cross_track_m == pytest.approx(0.05)
    point = tracker.update(4.1, 0.05, 0.1, 0.01)
    assert (tracker.leg, tracker.direction, point.direction) == (1, -1, -1)
    assert point.s_m == 4.0
    assert point.speed_mps < 0.0
    assert not tracker.at_leg_end
    assert tracker.leg_end_m == tracker.course.length_m


def test_standing_elsewhere_changes_nothing() -> None:
    tracker = PathTracker(SHUTTLE)
    for x in (1.0, 2.0, 3.0, 4.0 - 2 * MANOEUVRE_TOLERANCE_M):
        tracker.update(x, 0.0, 0.0, 0.0)
    assert tracker.leg == 0
    assert not tracker.at_leg_end


def test_signs_are_the_vehicles_on_a_leg_backward() -> None:
    tracker = _at_cusp()
    assert tracker.leg == 1
    point = tracker.update(3.0, 0.3, 0.1, -0.5)
    assert point.s_m == pytest.approx(5.0)
    assert point.cross_track_m == pytest.approx(0.3), "left of the path as it faces"
    assert point.heading_error_rad == pytest.approx(-0.1)
    assert (point.speed_mps, point.yaw_rad) == pytest.approx((-0.5, 0.0))
    for x in (2.0, 1.0 + MANOEUVRE_TOLERANCE_M / 2):
        tracker.update(x, 0.0, 0.0, -0.2)
    assert tracker.finished
    # Beyond the open end, the offset counts from the extended tangent.
    assert tracker.update(0.5, 0.2, 0.0, -0.1).cross_track_m == pytest.approx(0.2)


def test_a_leg_goes_on_straight_beyond_its_ends() -> None:
    tracker = PathTracker(SHUTTLE)
    beyond = tracker.point_at(4.5)
    assert (beyond.x_m, beyond.y_m, beyond.speed_mps) == pytest.approx((4.5, 0.0, 1.0))
    tracker = _at_cusp()
    before, after = tracker.point_at(3.5), tracker.point_at(7.5)
    assert (before.x_m, before.speed_mps) == pytest.approx((4.5, -0.5))
    assert after.x_m == pytest.approx(0.5)


def test_without_a_speed_reaching_the_cusp_is_enough() -> None:
    tracker = PathTracker(SHUTTLE)
    for x in (1.0, 2.0, 3.0, 3.99):
        tracker.update(x, 0.0, 0.0)
    assert tracker.leg == 1


def test_reset_begins_with_the_first_leg() -> None:
    tracker = _at_cusp()
    tracker.reset()
    assert (tracker.leg, tracker.direction) == (0, 1)
    assert tracker.update(0.1, 0.0, 0.0, 0.0).s_m == pytest.approx(0.1)


@pytest.mark.parametrize("name", ["parallel_parking", "three_point_turn"])
def test_a_vehicle_on_the_line_sees_no_errors(name: str) -> None:
    course = load_course(name)
    tracker = PathTracker(course)
    cusps = set(course.cusps)
    for i in range(len(course.x_m)):
        x, y, yaw = float(course.x_m[i]), float(course.y_m[i]), float(course.yaw_rad[i])
        point = tracker.update(x, y, yaw, 0.0 if i in cusps else float(course.speed_mps[i]))
        assert abs(point.cross_track_m) < 1e-6
        assert abs(point.heading_error_rad) < 2e-3
        assert point.s_m == pytest.approx(float(course.s_m[i]), abs=1e-6)
        assert point.direction == math.copysign(1, course.speed_mps[i])
    assert tracker.finished
    assert tracker.leg == 2


def test_a_pose_that_is_not_finite_leaves_the_leg() -> None:
    tracker = _at_cusp(speed_mps=0.2)
    point = tracker.update(math.nan, 0.0, 0.0, 0.0)
    assert tracker.leg == 0
    assert math.isnan(point.cross_track_m)
    assert point.direction == 1
