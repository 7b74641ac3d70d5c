"""Courses made from waypoints."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vehicled.paths import CourseError
from vehicled.paths.catalog import load_course
from vehicled.paths.course import Course, course_from_waypoints


def turned(course: Course) -> float:
    """Heading gained over the course, rad."""
    return float(course.yaw_rad[-1] - course.yaw_rad[0])


def distance_to_legs(course: Course, points: np.ndarray) -> np.ndarray:
    """Return the distance of every sample from the polyline through ``points``."""
    a, b = points[:-1], points[1:]
    along = b - a
    out = []
    for sample in np.column_stack((course.x_m, course.y_m)):
        t = np.clip(((sample - a) * along).sum(axis=1) / (along**2).sum(axis=1), 0, 1)
        out.append(np.hypot(*(a + t[:, None] * along - sample).T).min())
    return np.array(out)


def test_two_points_make_a_straight() -> None:
    course = course_from_waypoints("line", [0, 3], [0, 4], speed=[1.0, 2.0])
    assert course.length_m == pytest.approx(5.0)
    assert not course.closed
    assert np.allclose(course.yaw_rad, math.atan2(4, 3))
    assert np.abs(course.curvature_per_m).max() < 1e-9
    assert np.allclose(np.diff(course.s_m), 0.1)
    assert (course.x_m[-1], course.y_m[-1]) == pytest.approx((3, 4))
    assert np.allclose(course.speed_mps, 1.0 + course.s_m / 5.0)


def test_arrays_are_read_only() -> None:
    course = course_from_waypoints("line", [0, 3], [0, 4])
    with pytest.raises(ValueError, match="read-only"):
        course.x_m[0] = 7.0


@pytest.mark.parametrize("step_deg", [1.0, 5.0, 17.0])
def test_sparse_points_on_a_circle_give_back_the_circle(step_deg: float) -> None:
    angle = np.radians(np.arange(0.0, 300.0, step_deg))
    course = course_from_waypoints("arc", 5 * np.cos(angle), 5 * np.sin(angle))
    radius = np.hypot(course.x_m, course.y_m)
    assert np.abs(radius - 5.0).max() < 2e-3
    assert np.abs(course.curvature_per_m - 0.2).max() < 0.01
    tangent = np.unwrap(np.arctan2(course.y_m, course.x_m)) + math.pi / 2
    assert np.abs(course.yaw_rad - tangent).max() < 0.006
    assert course.length_m == pytest.approx(5.0 * float(angle[-1]), rel=1e-3)


def test_uneven_spacing_does_not_shake_the_curvature() -> None:
    rng = np.random.default_rng(3)
    angle = np.cumsum(rng.uniform(0.01, 0.08, 100))
    course = course_from_waypoints("arc", 5 * np.sin(angle), 5 * (1 - np.cos(angle)))
    assert np.abs(course.curvature_per_m[3:-3] - 0.2).max() < 0.01


def test_published_headings_do_not_matter() -> None:
    x = np.linspace(0, 10, 51)
    right = course_from_waypoints("a", x, np.sin(x), yaw=np.arctan(np.cos(x)))
    wrong = course_from_waypoints("a", x, np.sin(x), yaw=np.arctan(np.cos(x)) + 0.25)
    assert np.array_equal(right.yaw_rad, wrong.yaw_rad)


def test_headings_against_the_order_are_refused() -> None:
    x = np.linspace(0, 10, 51)
    with pytest.raises(CourseError, match="against the order"):
        course_from_waypoints("back.csv", x, 0 * x, yaw=np.full(51, math.pi))


def test_a_right_angle_keeps_its_corner() -> None:
    x = [*np.arange(0, 5, 0.2), *([5.0] * 26)]
    y = [*([0.0] * 25), *np.arange(0, 5.2, 0.2)]
    course = course_from_waypoints("angle", x, y)
    assert np.hypot(course.x_m - 5, course.y_m).min() < 1e-9
    assert distance_to_legs(course, np.array([[0, 0], [5, 0], [5, 5]])).max() < 1e-9
    assert turned(course) == pytest.approx(math.pi / 2)
    assert float(np.trapezoid(course.curvature_per_m, course.s_m)) == pytest.approx(
        math.pi / 2, rel=0.02
    )


def test_sparse_waypoints_mean_straight_legs() -> None:
    corners = np.array([[0, 0], [30, 0], [30, 20], [0, 20], [0, 0]], float)
    course = course_from_waypoints("box", corners[:, 0], corners[:, 1])
    assert course.closed
    assert course.length_m == pytest.approx(100.0)
    assert distance_to_legs(course, corners).max() < 1e-9


def test_the_line_stays_near_the_drawn_legs() -> None:
    rng = np.random.default_rng(11)
    for _ in range(20):
        points = np.cumsum(
            rng.uniform(0.2, 6.0, (12, 1)) * np.column_stack((np.ones(12), rng.uniform(-1, 1, 12))),
            axis=0,
        )
        course = course_from_waypoints("walk", points[:, 0], points[:, 1], closed=False)
        assert distance_to_legs(course, points).max() < 0.16


def test_duplicates_and_doubled_points_vanish() -> None:
    x = np.repeat(np.linspace(0, 10, 51), 2)
    y = np.zeros(102)
    y[1::2] = 5e-4
    course = course_from_waypoints("twice", x, y)
    assert np.abs(course.yaw_rad).max() < 0.01
    assert course.length_m == pytest.approx(10.0, abs=1e-3)


def test_a_short_spike_is_dropped_and_a_long_one_refused() -> None:
    x, y = [0, 1, 2, 3, 3.3, 3, 3, 3], [0, 0, 0, 0, 0, 0.01, 1, 2]
    course = course_from_waypoints("spike", x, y)
    assert course.x_m.max() < 3.001
    lines = [f"line {k}" for k in range(1, 8)]
    with pytest.raises(CourseError, match=r"turn.csv, line 4: the line doubles back"):
        course_from_waypoints(
            "turn.csv", [0, 1, 2, 9, 2, 1, 0], [0, 0, 0, 0, 0.1, 0.2, 0.3], places=lines
        )


@pytest.mark.parametrize(
    ("gap", "closed"),
    [(0.0, True), (0.1, True), (0.15, True), (0.5, False)],
)
def test_a_lap_is_recognised_by_its_ends(gap: float, closed: bool) -> None:
    span = 2 * math.pi - gap / 3.0
    angle = np.linspace(0, span, 188)
    course = course_from_waypoints("lap", 3 * np.sin(angle), 3 - 3 * np.cos(angle))
    assert course.closed is closed
    if closed:
        assert course.length_m == pytest.approx(6 * math.pi, rel=1e-3)
        assert np.hypot(
            course.x_m[-1] - course.x_m[0], course.y_m[-1] - course.y_m[0]
        ) == pytest.approx(0.1, abs=0.01)
        assert np.abs(course.curvature_per_m - 1 / 3).max() < 0.02


def test_out_and_back_is_no_lap() -> None:
    angle = np.linspace(-math.pi / 2, math.pi / 2, 60)
    x = [*np.arange(0, 10, 0.2), *(10 + 0.1 * np.cos(angle)), *np.arange(9.8, 0, -0.2)]
    y = [*([0.0] * 50), *(0.1 + 0.1 * np.sin(angle)), *([0.2] * 49)]
    assert not course_from_waypoints("out_and_back", x, y).closed


def test_speed_holds_until_the_next_waypoint() -> None:
    course = course_from_waypoints(
        "mission", [0, 10, 20], [0, 0, 0], speed=[1.0, 2.0, 9.0], speed_holds=True
    )
    assert set(course.speed_mps[course.s_m < 9.99]) == {1.0}
    assert set(course.speed_mps[(course.s_m > 10.01) & (course.s_m < 19.99)]) == {2.0}


@pytest.mark.parametrize(
    ("x", "y", "options", "message"),
    [
        ([0.0], [0.0], {}, "at least 2"),
        ([], [], {}, "at least 2"),
        ([0, 1], [0, 1, 2], {}, "one length"),
        ([0, math.nan, 2], [0, 0, 0], {}, "f.csv, waypoint 2: x is nan"),
        ([0, 1, 2], [0, 0, math.inf], {}, "f.csv, waypoint 3: y is inf"),
        ([5, 5, 5], [1, 1, 1], {}, "one spot"),
        ([0, 1e-5, 2e-5], [0, 0, 0], {}, "degrees"),
        ([0, 0.1, 0.2], [0, 0, 0], {}, "only 0.2 m long"),
        ([0, 1, 2], [0, 0, 0], {"speed": [1, 0, 1]}, "f.csv, waypoint 2: speed is 0 m/s"),
        ([0, 1, 2], [0, 0, 0], {"speed": [1, math.nan, 1]}, "speed is nan"),
        ([0, 1, 2], [0, 0, 0], {"speed": [1, 500, 1]}, "speed is 500"),
        ([0, 1, 2], [0, 0, 0], {"speed": [1, 1]}, "2 speeds for 3"),
        ([0, 1, 2], [0, 0, 0], {"default_speed_mps": -1.0}, "speed is -1"),
        ([0, 1e7, 2], [0, 0, 0], {}, "UTM"),
        ([*range(20), 500, 501], [0] * 22, {}, "481 m from the waypoint before"),
        ([0, 1, 2], [0, 0, 0], {"closed": True}, "cannot close"),
    ],
)
def test_bad_waypoints_are_named(
    x: list[float], y: list[float], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(CourseError, match=r"^f\.csv") as caught:
        course_from_waypoints("f.csv", x, y, **options)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "file"),
    [("lot17", "lot17_sinsquare_sv"), ("lot17_two_speed", "lot17_sinsquare_multi_vels")],
)
def test_the_published_lap_and_ours_are_one(name: str, file: str, shared_data: Path) -> None:
    path = shared_data / "reference_paths" / f"{file}.csv"
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    published = course_from_waypoints(
        file, table[:, 0], table[:, 1], yaw=table[:, 2], speed=table[:, 3]
    )
    ours = load_course(name)
    assert published.closed
    assert ours.length_m == pytest.approx(published.length_m, abs=1e-6)
    for field in ("x_m", "y_m", "yaw_rad", "curvature_per_m", "s_m", "speed_mps"):
        assert np.allclose(getattr(ours, field), getattr(published, field), atol=1e-6), field


def test_lot17_is_the_lap_we_know() -> None:
    course = load_course("lot17")
    assert course.closed
    assert course.length_m == pytest.approx(212.0, abs=0.3)
    assert (course.x_m[0], course.y_m[0]) == (0.0, 0.0)
    # y = 2 sin(0.18 x) departs at atan(0.36); the lap ends coming down the y axis, a corner of 110
    # degrees.
    assert course.yaw_rad[0] == pytest.approx(math.atan(0.36), abs=0.001)
    assert abs(course.curvature_per_m[0]) < 0.01
    assert math.remainder(float(course.yaw_rad[-1]) + math.pi / 2, math.tau) == pytest.approx(
        0.0, abs=1e-6
    )
    sharp = course.s_m[np.abs(course.curvature_per_m) > 1.0]
    assert len(sharp) > 0
    # Three corners inside the lap, the third in two turns 0.2 m apart, and the one at its end.
    groups = np.split(sharp, np.flatnonzero(np.diff(sharp) > 1.0) + 1)
    assert len(groups) == 4
    assert all(np.ptp(group) < 0.45 for group in groups)
    assert set(load_course("lot17").speed_mps) == {1.0}
    two_speed = load_course("lot17_two_speed").speed_mps
    assert (two_speed.min(), two_speed.max()) == pytest.approx((1.0, 2.0))
