"""Courses that are driven backward in parts: where the direction changes, what the vehicle's
heading is, what is refused."""

import json
import math
from collections.abc import Callable

import numpy as np
import pytest

from vehicled.paths import cusps, formulas
from vehicled.paths.catalog import load_course
from vehicled.paths.course import Course, course_from_waypoints
from vehicled.paths.errors import CourseError
from vehicled.paths.formats import course_from_bytes


def _out_and_back(speeds: list[float], closed: bool | None = None) -> Course:
    """Four metres east and two metres back, a waypoint per metre."""
    return course_from_waypoints(
        "shuttle", [0, 1, 2, 3, 4, 3, 2], [0.0] * 7, speed=speeds, closed=closed
    )


FORWARD, BACK = [1.0] * 4, [-0.5] * 3


@pytest.mark.parametrize(
    "speeds",
    [
        [1, 1, 1, 1, -0.5, -0.5, -0.5],
        [1, 1, 1, 1, 1, -0.5, -0.5],
        [1, 1, 1, 1, 0, -0.5, -0.5],
    ],
    ids=["as it is left", "as it is reached", "as it stands"],
)
def test_the_turning_point_is_found_whichever_speed_it_carries(speeds: list[float]) -> None:
    course = _out_and_back(speeds)
    (cusp,) = course.cusps
    assert (course.x_m[cusp], course.y_m[cusp]) == (4.0, 0.0)
    assert course.length_m == pytest.approx(6.0)
    assert course.reverses
    assert not course.closed
    # It faces east all the time.
    np.testing.assert_allclose(course.yaw_rad, 0.0, atol=1e-12)
    assert (course.speed_mps[:cusp] > 0.0).all()
    assert (course.speed_mps[cusp:] == -0.5).all()


def test_a_course_may_be_driven_backward_throughout_even_in_laps() -> None:
    angle = np.linspace(0.0, 2 * np.pi, 60, endpoint=False)
    course = course_from_waypoints("ring", 3 * np.cos(angle), 3 * np.sin(angle), speed=[-0.5] * 60)
    assert course.closed
    assert course.cusps == []
    # Counter-clockwise round the ring, tail first: the wheels point right.
    np.testing.assert_allclose(course.curvature_per_m, -1 / 3, atol=2e-3)
    assert course.yaw_rad[0] == pytest.approx(np.pi / 2 + np.pi, abs=2e-3)
    assert course.repeated(2).yaw_rad[-1] - course.yaw_rad[0] == pytest.approx(4 * np.pi, abs=0.05)


@pytest.mark.parametrize("name", ["parallel_parking", "three_point_turn"])
def test_heading_and_curvature_are_those_of_a_vehicle_that_drives_the_line(name: str) -> None:
    """Dead reckoning of a single track along the course: v from its sign, yaw rate = v curvature,
    ends where the course ends."""
    course = load_course(name)
    assert len(course.cusps) == 2
    direction = np.where(course.speed_mps[:-1] < 0.0, -1.0, 1.0)
    steps = np.diff(course.s_m)
    # At a cusp the sample's curvature is that of the part behind it; both are 0 here.
    turned = direction * steps * 0.5 * (course.curvature_per_m[1:] + course.curvature_per_m[:-1])
    yaw = course.yaw_rad[0] + np.concatenate(([0.0], np.cumsum(turned)))
    np.testing.assert_allclose(yaw, course.yaw_rad, atol=0.01)
    middle = 0.5 * (course.yaw_rad[1:] + course.yaw_rad[:-1])
    np.testing.assert_allclose(
        np.cumsum(direction * steps * np.cos(middle)), course.x_m[1:] - course.x_m[0], atol=0.01
    )
    np.testing.assert_allclose(
        np.cumsum(direction * steps * np.sin(middle)), course.y_m[1:] - course.y_m[0], atol=0.01
    )
    assert np.abs(np.diff(course.yaw_rad)).max() < 0.06, "no jump at the cusps"
    assert np.abs(course.curvature_per_m).max() <= 0.5 + 1e-3, "as tight as radius_m"


def test_parking_ends_beside_and_turning_ends_facing_back() -> None:
    parked, turned = load_course("parallel_parking"), load_course("three_point_turn")
    assert parked.y_m[-1] == pytest.approx(-1.2, abs=1e-3)
    assert parked.yaw_rad[-1] == pytest.approx(0.0, abs=2e-3)
    assert turned.yaw_rad[-1] == pytest.approx(np.pi, abs=2e-3)
    np.testing.assert_allclose((turned.x_m[-1], turned.y_m[-1]), (0.0, 0.0), atol=2e-3)


def test_a_spike_without_a_change_of_sign_is_still_none() -> None:
    with pytest.raises(CourseError, match="doubles back on itself"):
        _out_and_back([1.0] * 7)
    with pytest.raises(CourseError, match="doubles back on itself"):
        _out_and_back([-1.0] * 7)


@pytest.mark.parametrize(
    ("x", "y", "speeds", "text"),
    [
        (
            [0, 1, 2, 3, 4],
            [0, 0, 0, 0, 0],
            [1, 1, -1, -1, -1],
            "waypoint 3: the speed changes its sign .* does not turn back",
        ),
        (
            [0, 1, 2, 1, 0],
            [0, 0, 0, 2, 4],
            [1, 1, -1, -1, -1],
            "waypoint 3: the vehicle would have to turn by 63 degrees",
        ),
        ([0, 2, 2, 0, 0], [0, 0, 2, 2, 0], [1, 1, 1, 0, 1], "waypoint 4: speed is 0"),
        ([0, 1, 2, 1], [0, 0, 0, 0], [1, 1, -101, -1], "waypoint 3: speed is -101"),
        ([0, 1, 2], [0, 0, 0], [1, 1, -1], "does not turn back there"),
    ],
)
def test_what_cannot_be_driven_is_refused_in_words(
    x: list[float], y: list[float], speeds: list[float], text: str
) -> None:
    with pytest.raises(CourseError, match=text):
        course_from_waypoints("odd", x, y, speed=speeds)


def test_a_lap_cannot_change_its_direction() -> None:
    with pytest.raises(CourseError, match="a lap cannot change its direction"):
        _out_and_back(FORWARD + BACK, closed=True)


def test_zero_between_like_signs_stays_zero() -> None:
    np.testing.assert_array_equal(
        cusps.signed(np.array([1.0, 0.0, 0.0, -1.0])), [1.0, -1.0, -1.0, -1.0]
    )
    np.testing.assert_array_equal(
        cusps.signed(np.array([1.0, 0.0, 1.0, 0.0])), [1.0, 0.0, 1.0, 0.0]
    )


HEADER = "x_m,y_m,speed_mps,gear"


def test_csv_carries_the_direction_by_sign_or_by_gear() -> None:
    x = [0, 1, 2, 3, 4, 3, 2]
    by_sign = "x_m,y_m,speed_mps\n" + "\n".join(
        f"{px},0,{v}" for px, v in zip(x, FORWARD + BACK, strict=True)
    )
    gears = ["D"] * 4 + ["R"] * 3
    by_gear = (
        HEADER
        + "\n"
        + "\n".join(
            f"{px},0,{abs(v)},{g}" for px, v, g in zip(x, FORWARD + BACK, gears, strict=True)
        )
    )
    numbers = by_gear.replace("D", "1").replace("R", "-1")
    first = course_from_bytes(by_sign.encode(), "a.csv")
    for text in (by_gear, numbers):
        again = course_from_bytes(text.encode(), "a.csv")
        np.testing.assert_array_equal(again.speed_mps, first.speed_mps)
        np.testing.assert_array_equal(again.x_m, first.x_m)
    alone = "x_m,y_m,gear\n" + "\n".join(f"{px},0,{g}" for px, g in zip(x, gears, strict=True))
    assert set(course_from_bytes(alone.encode(), "a.csv").speed_mps) == {1.0, -1.0}


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ("0,0,1,D\n1,0,1,N", "line 3: gear is 'N'; write 1 or D"),
        ("0,0,1,D\n1,0,1,0", "line 3: gear is '0'"),
        ("0,0,1,D\n1,0,-1,D", "line 3: speed is -1 but the gear is forward"),
    ],
)
def test_csv_gears_that_make_no_sense(rows: str, text: str) -> None:
    with pytest.raises(CourseError, match=text):
        course_from_bytes(f"{HEADER}\n{rows}\n".encode(), "a.csv")


def test_geojson_carries_signed_speeds() -> None:
    places = [[-89.4 + 1e-5 * k, 43.07] for k in (0, 1, 2, 3, 4, 3, 2)]
    geometry = {"type": "LineString", "coordinates": places}
    text = json.dumps(
        {"type": "Feature", "geometry": geometry, "properties": {"speed_mps": FORWARD + BACK}}
    )
    course = course_from_bytes(text.encode(), "a.geojson")
    assert len(course.cusps) == 1
    assert course.yaw_rad[-1] == pytest.approx(0.0, abs=1e-3)


def test_headings_of_a_file_are_the_vehicles() -> None:
    text = "x_m,y_m,speed_mps,heading_rad\n" + "\n".join(f"{x},0,-1,0" for x in (5, 4, 3, 2, 1, 0))
    course = course_from_bytes(text.encode(), "back.csv")
    assert math.cos(course.yaw_rad[0]) == pytest.approx(1.0)
    with pytest.raises(CourseError, match="headings point against"):
        course_from_bytes(text.replace(",-1,0", ",-1,3.14159").encode(), "back.csv")


@pytest.mark.parametrize(
    ("draw", "text"),
    [
        (
            lambda: formulas.parallel_parking(offset_m=9.0),
            "offset_m is 9; one S with radius_m = 2 reaches less far",
        ),
        (
            lambda: formulas.parallel_parking(radius_m=0.0),
            "radius_m is 0; it must be a positive number",
        ),
        (lambda: formulas.three_point_turn(speed_mps=-1.0), "speed_mps is -1"),
    ],
)
def test_manoeuvres_that_cannot_be_drawn(draw: Callable[[], Course], text: str) -> None:
    with pytest.raises(CourseError, match=text):
        draw()


@pytest.mark.parametrize("scale", [0.7, 1.0, 3.0])
def test_manoeuvres_scale_with_the_vehicle(scale: float) -> None:
    course = formulas.parallel_parking(
        1.2 * scale, 2.0 * scale, approach_m=4.0 * scale, forward_m=0.6 * scale
    )
    assert course.y_m[-1] == pytest.approx(-1.2 * scale, abs=1e-3 * scale)
    assert np.abs(course.curvature_per_m).max() * 2.0 * scale == pytest.approx(1.0, abs=0.05)
