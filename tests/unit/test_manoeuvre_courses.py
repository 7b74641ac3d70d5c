"""Courses of standards: their dimensions, their lanes, and who passes them."""

import math
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vehicled.paths import CourseError
from vehicled.paths.catalog import load_course, names, parameters
from vehicled.paths.course import Course
from vehicled.paths.formulas import smooth_step
from vehicled.paths.manoeuvres import clothoids
from vehicled.paths.markings import BodyRectangle, Lane, LanePassage, Markings
from vehicled.paths.stored import from_json, to_json

HMMWV = {"width_m": 2.16, "centre_m": 1.69}


def _along(course: Course, x_m: float) -> float:
    return float(np.interp(x_m, course.x_m, course.y_m))


def test_iso_3888_1_has_the_lanes_of_the_standard() -> None:
    course = load_course("iso_3888_1", **HMMWV)
    a, b, c = course.markings.lanes
    start = a.x_m
    assert [lane.x_m - start for lane in (a, b, c)] == pytest.approx([0.0, 45.0, 95.0])
    assert [lane.length_m for lane in (a, b, c)] == [15.0, 25.0, 15.0]
    assert [lane.width_m for lane in (a, b, c)] == pytest.approx(
        [1.1 * 2.16 + 0.25, 1.2 * 2.16 + 0.25, 1.3 * 2.16 + 0.25]
    )
    right = [lane.y_m - lane.width_m / 2 for lane in (a, b, c)]
    assert right[1] - right[0] == pytest.approx(3.5)
    assert right[2] == pytest.approx(right[0])
    assert course.speed_mps[0] == pytest.approx(80 / 3.6)
    # In the middle of each lane the line is in its middle.
    for lane in (a, b, c):
        assert _along(course, lane.x_m + lane.length_m / 2 - 1.69) == pytest.approx(
            lane.y_m, abs=1e-6
        )


def test_iso_3888_2_has_the_lanes_of_the_standard() -> None:
    course = load_course("iso_3888_2", **HMMWV)
    a, b, c = course.markings.lanes
    assert [lane.x_m - a.x_m for lane in (a, b, c)] == pytest.approx([0.0, 25.5, 49.0])
    assert [lane.length_m for lane in (a, b, c)] == [12.0, 11.0, 12.0]
    assert [lane.width_m for lane in (a, b, c)] == pytest.approx(
        [1.1 * 2.16 + 0.25, 3.16, 1.3 * 2.16 + 0.25]
    )
    assert b.y_m - b.width_m / 2 - (a.y_m + a.width_m / 2) == pytest.approx(1.0)
    assert c.y_m - c.width_m / 2 == pytest.approx(a.y_m - a.width_m / 2)
    assert load_course("iso_3888_2").markings.lanes[2].width_m == 3.0


def test_a_scaled_course_is_the_same_in_small() -> None:
    large, small = load_course("iso_3888_1"), load_course("iso_3888_1_tenth")
    for a, b in zip(large.markings.lanes, small.markings.lanes, strict=True):
        assert (b.length_m, b.width_m, b.y_m) == pytest.approx(
            (a.length_m / 10, a.width_m / 10, a.y_m / 10)
        )
    # The same lateral acceleration.
    accelerations = [
        float(np.max(np.abs(c.curvature_per_m)) * c.speed_mps[0] ** 2) for c in (large, small)
    ]
    assert accelerations[1] == pytest.approx(accelerations[0], rel=0.05)


def test_chrono_lane_changes() -> None:
    for name, ramp, width, length in (
        ("chrono_iso", 13.5, 4.0, 11.0),
        ("chrono_nato", 28.93, 3.6105, 25.0),
    ):
        course = load_course(name)
        start = course.markings.from_m
        assert _along(course, start + ramp / 2) == pytest.approx(width / 2, abs=5e-3)
        assert _along(course, start + ramp + length / 2) == pytest.approx(width, abs=1e-3)
        assert _along(course, start + 2 * ramp + length) == pytest.approx(0.0, abs=5e-3)
        assert start >= 50.0


def test_the_nine_of_the_thesis() -> None:
    found = {name: load_course(name) for name in names() if name.startswith("thesis_")}
    mph = {
        "st5": 5,
        "left10": 10,
        "left15": 15,
        "ss20": 20,
        "ss25": 25,
        "ss30": 30,
        "dlc30": 30,
        "dlc35": 35,
        "dlc40": 40,
    }
    assert set(found) == {f"thesis_{name}" for name in mph}
    for name, course in found.items():
        assert course.speed_mps[0] == pytest.approx(mph[name.removeprefix("thesis_")] * 0.44704)
        boxes = np.array(course.markings.boxes_m)
        assert np.allclose(np.hypot(*np.diff(boxes, axis=0).T), 0.5, atol=0.02)
        # Curvature does not jump: clothoids and quintics.
        assert np.abs(np.diff(course.curvature_per_m)).max() < 0.01
    assert found["thesis_left10"].yaw_rad[-1] == pytest.approx(math.pi / 2, abs=1e-3)
    assert np.abs(found["thesis_left10"].curvature_per_m).max() == pytest.approx(1 / 12.5, rel=0.01)
    assert found["thesis_ss20"].yaw_rad[-1] == pytest.approx(math.pi, abs=1e-3)
    assert np.abs(found["thesis_ss20"].curvature_per_m).max() == pytest.approx(1 / 64.0, rel=0.01)


@pytest.mark.parametrize("name", names())
def test_a_vehicle_changes_only_lanes_that_are_for_it(name: str) -> None:
    plain, fitted = load_course(name), load_course(name, **HMMWV)
    for_it = name.startswith(("iso", "slalom", "thesis_dlc"))
    assert (plain.markings.lanes != fitted.markings.lanes) == for_it
    assert for_it or np.array_equal(plain.y_m, fitted.y_m)


def test_room_sines_and_shapes() -> None:
    for name, y_of in (
        ("room_sine_1", lambda x: np.cos(0.5 * x)),
        ("room_sine_2", lambda x: 1.5 * np.sin(0.5 * x)),
        ("room_sine_3", lambda x: 0.5 * np.sin(x)),
        ("half_sine", lambda x: 3 * np.sin(math.pi * x / 20)),
    ):
        course = load_course(name)
        assert np.allclose(course.y_m, y_of(course.x_m), atol=1e-4), name
    box = load_course("rectangle_20x45")
    assert (np.ptp(box.x_m), np.ptp(box.y_m)) == pytest.approx((20.0, 45.0), abs=0.01)
    assert (box.x_m[0], box.y_m[0]) == pytest.approx((0.0, 0.0), abs=0.06)
    lap = load_course("lot17_sine_square")
    assert lap.length_m == pytest.approx(212.4, abs=0.5)


def test_parameters_change_what_they_name_and_nothing_goes_unnoticed() -> None:
    course = load_course("iso_3888_1:speed_mps=15,ease_m=5")
    assert course.name == "iso_3888_1:speed_mps=15,ease_m=5"
    assert set(course.speed_mps) == {15.0}
    assert (
        np.abs(course.curvature_per_m).max()
        < 0.6 * np.abs(load_course("iso_3888_1").curvature_per_m).max()
    )
    assert load_course("thesis_dlc35", width_m=2.0).markings.lanes[0].width_m == pytest.approx(2.45)
    assert load_course("thesis_dlc35:width_m=3", width_m=2.0).markings.lanes[
        0
    ].width_m == pytest.approx(3.55)
    for bad, said in (
        ("iso_3888_1:sped_mps=2", 'did you mean "speed_mps"'),
        ("iso_3888_1:speed_mps=x", "must be a number"),
        ("iso_3888_1:speed_mps=nan", "positive number"),
        ("iso_3888_1:run_up_m=-1", "0 or more"),
        ("iso_3888_1:scale=-1", "scale is -1"),
        ("iso_3888_1:centre_m=99", "0 to 10 m"),
        ("iso_3888_2:ease_m=7", "half of the shortest lane"),
        ("turn:clothoid_m=99", "shorter than the arc"),
        ("slalom:cones=2.5", "whole number"),
        ("thesis_dlc30:boxes=maybe", "yes or no"),
        ("chrono_iso:offset_m=0", "positive left"),
        ("rectangle_20x45:corner_radius_m=11", "too large"),
    ):
        with pytest.raises(CourseError, match=said):
            load_course(bad)
    assert parameters("no_such_course") == {}


@given(
    st.text(max_size=30),
    st.sampled_from(["iso_3888_1", "slalom", "turn", "u_shape", "circle_r5_ccw", "thesis_dlc35"]),
)
def test_any_parameters_give_a_course_or_a_course_error(text: str, name: str) -> None:
    with suppress(CourseError):
        assert load_course(f"{name}:{text}").length_m > 0.0


def test_smooth_step_and_clothoid() -> None:
    u = np.linspace(-0.5, 1.5, 2001)
    y = smooth_step(u)
    assert y.min() == 0.0
    assert y.max() == 1.0
    assert np.allclose(y + y[::-1], 1.0)
    assert np.abs(np.gradient(np.gradient(y, u), u)).max() == pytest.approx(5.77, abs=0.05)
    # Fresnel: a clothoid from 0 to k over L turns by k L / 2 and lies at known coordinates.
    points = clothoids([10.0], [(0.0, 0.1)])
    fine = np.linspace(0.0, 10.0, 200_001)
    heading = 0.005 * fine * fine
    assert points[-1] == pytest.approx(
        [np.trapezoid(np.cos(heading), fine), np.trapezoid(np.sin(heading), fine)], abs=1e-5
    )


def _drive(course: Course, body: BodyRectangle, aside_m: float = 0.0) -> LanePassage:
    """The middle of the rear axle along the line, shifted to the left."""
    passing = LanePassage(course.markings, body)
    for x, y, yaw in zip(course.x_m, course.y_m, course.yaw_rad, strict=True):
        passing.update(x - aside_m * math.sin(yaw), y + aside_m * math.cos(yaw), yaw)
    return passing


@pytest.mark.parametrize("name", ["iso_3888_1", "iso_3888_2", "thesis_dlc35", "slalom"])
def test_the_line_itself_passes(name: str) -> None:
    passing = _drive(load_course(name, width_m=1.8, centre_m=1.35), BodyRectangle(3.6, 0.9, 1.8))
    assert passing.verdict.startswith("passed"), passing.verdict
    assert 0.0 < passing.room_m < 0.5


def test_a_corner_outside_or_a_missed_box_fails() -> None:
    course = load_course("iso_3888_1", width_m=1.8)
    # Lane A leaves (1.1 w + 0.25 - w) / 2 = 0.215 m on either side.
    assert _drive(course, BodyRectangle(3.6, 0.9, 1.8), 0.1).failures == []
    failed = _drive(course, BodyRectangle(3.6, 0.9, 1.8), 0.3)
    assert failed.verdict.startswith("failed: lane A left by 0.0")
    assert "left corner" in failed.verdict
    boxes = load_course("thesis_st5")
    assert _drive(boxes, BodyRectangle(3.6, 0.9, 1.8), 0.45).failures == []
    missed = _drive(boxes, BodyRectangle(3.6, 0.9, 1.8), 0.55)
    assert "120 of 120 waypoint boxes missed" in missed.verdict


def test_a_stop_half_way_is_not_a_pass() -> None:
    course = load_course("iso_3888_1", width_m=1.8)
    passing = LanePassage(course.markings, BodyRectangle(3.6, 0.9, 1.8))
    half = course.markings.lanes[1].x_m
    for x, y, yaw in zip(course.x_m, course.y_m, course.yaw_rad, strict=True):
        if x < half:
            passing.update(x, y, yaw)
    passing.update(math.nan, 0.0, 0.0)
    assert any("lane B not driven through" in text for text in passing.failures)
    assert any("lane C not driven through" in text for text in passing.failures)


@given(st.floats(-math.pi, math.pi), st.floats(-0.4, 0.4))
def test_turning_course_and_drive_changes_no_verdict(angle: float, aside: float) -> None:
    c, s = math.cos(angle), math.sin(angle)
    lane = Lane("A", c * 5.0, s * 5.0, angle, 10.0, 2.5)
    straight = LanePassage(Markings((Lane("A", 5.0, 0.0, 0.0, 10.0, 2.5),)), BodyRectangle(3, 1, 2))
    turned = LanePassage(Markings((lane,)), BodyRectangle(3, 1, 2))
    for way in np.arange(0.0, 20.0, 0.5):
        straight.update(way, aside, 0.0)
        turned.update(c * way - s * aside, s * way + c * aside, angle)
    assert turned.room_m == pytest.approx(straight.room_m, abs=1e-9)
    assert straight.room_m == pytest.approx(0.25 - abs(aside), abs=1e-9)


_places = st.tuples(st.floats(-6.0, 6.0), st.floats(-6.0, 6.0))


@given(
    st.lists(_places, min_size=1, max_size=12),
    st.lists(_places, min_size=2, max_size=8),
    st.floats(0.05, 3.0),
)
def test_a_box_is_met_by_a_way_that_touches_it(
    boxes: list[tuple[float, float]], way: list[tuple[float, float]], side: float
) -> None:
    passing = LanePassage(Markings(boxes_m=tuple(boxes), box_side_m=side), BodyRectangle(3, 1, 2))
    for x, y in way:
        passing.update(x, y, 0.0)
    met = len(boxes) - int(next((text.split()[0] for text in passing.failures), "0"))
    # By sampling: what lies clearly inside must be found, what stays clearly outside must not.
    share = np.linspace(0.0, 1.0, 400)[:, None]
    points = np.concatenate([np.add(a, share * np.subtract(b, a)) for a, b in pairwise(way)])
    off = np.array([np.abs(points - box).max(axis=1).min() for box in boxes])
    assert np.sum(off < 0.5 * side) <= met <= np.sum(off < 0.5 * side + 0.05)


def test_markings_survive_the_log() -> None:
    course = load_course("thesis_dlc35")
    assert from_json(to_json(course)).markings == course.markings
    plain = replace(course, markings=Markings())
    assert not from_json(to_json(plain)).markings
