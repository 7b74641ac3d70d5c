"""Courses by formula against what the formula says."""

import math

import numpy as np
import pytest

from vehicled.paths import CourseError, formulas


def test_straight() -> None:
    course = formulas.straight(12.5, speed_mps=3.0)
    assert course.length_m == pytest.approx(12.5)
    assert set(course.speed_mps) == {3.0}
    assert np.abs(course.y_m).max() == 0.0


@pytest.mark.parametrize(("direction", "side"), [("ccw", 1.0), ("cw", -1.0)])
@pytest.mark.parametrize("radius", [0.5, 2.0, 5.0, 25.0])
def test_circle(direction: str, side: float, radius: float) -> None:
    course = formulas.circle(radius, direction)  # type: ignore[arg-type]
    assert course.closed
    assert np.allclose(np.hypot(course.x_m, course.y_m - side * radius), radius, atol=1e-6)
    assert np.allclose(course.curvature_per_m, side / radius, rtol=0.01)
    assert course.length_m == pytest.approx(2 * math.pi * radius, rel=0.003)
    assert course.yaw_rad[0] == pytest.approx(0.0, abs=1e-9)


def test_sine() -> None:
    course = formulas.sine(2.0, 0.5, 30.0)
    assert np.abs(course.y_m - 2 * np.sin(0.5 * course.x_m)).max() < 1e-5
    assert np.abs(course.yaw_rad - np.arctan(np.cos(0.5 * course.x_m)))[1:-1].max() < 2e-3
    exact = -0.5 * np.sin(0.5 * course.x_m) / (1 + np.cos(0.5 * course.x_m) ** 2) ** 1.5
    assert np.abs(course.curvature_per_m - exact)[1:-1].max() < 0.01


def test_square() -> None:
    course = formulas.square(20.0, 3.0)
    assert course.closed
    assert course.length_m == pytest.approx(4 * 14 + 6 * math.pi, rel=1e-3)
    assert course.curvature_per_m.max() == pytest.approx(1 / 3, rel=0.02)
    assert course.curvature_per_m.min() > -1e-6
    assert (np.ptp(course.x_m), np.ptp(course.y_m)) == pytest.approx((20.0, 20.0), abs=1e-3)
    assert (course.x_m[0], course.y_m[0], course.yaw_rad[0]) == pytest.approx((0, 0, 0), abs=1e-9)


@pytest.mark.parametrize("width", [0.3, 1.8, 2.5])
def test_double_lane_change_lies_in_the_lanes_of_the_standard(width: float) -> None:
    course = formulas.double_lane_change(width)
    width_a, width_b, width_c = 1.1 * width + 0.25, 1.2 * width + 0.25, 1.3 * width + 0.25
    right_a = -width_a / 2
    lanes = [
        (0, 15, right_a, width_a),
        (45, 70, right_a + 3.5, width_b),
        (95, 110, right_a, width_c),
    ]
    for begin, end, right, lane in lanes:
        inside = (course.x_m >= begin) & (course.x_m <= end)
        assert np.allclose(course.y_m[inside], right + lane / 2, atol=1e-4)
        assert width < lane
    assert course.x_m[-1] == pytest.approx(125.0)
    assert np.abs(np.diff(course.curvature_per_m)).max() < 0.002


def test_figure_eight() -> None:
    course = formulas.figure_eight(10.0)
    assert course.closed
    # Bernoulli's lemniscate of half width a is 5.24412 a long, tightest radius a / 3, and turns
    # once each way.
    assert course.length_m == pytest.approx(52.4412, rel=1e-4)
    assert np.abs(course.curvature_per_m).max() == pytest.approx(0.3, rel=0.01)
    assert np.trapezoid(course.curvature_per_m, course.s_m) == pytest.approx(0.0, abs=0.05)
    assert course.yaw_rad[0] == pytest.approx(0.0, abs=1e-3)
    half = len(course.x_m) // 2
    assert math.hypot(course.x_m[half], course.y_m[half]) < 0.06
    assert np.abs(course.yaw_rad[half] - course.yaw_rad[0]) % math.pi == pytest.approx(
        math.pi / 2, abs=0.02
    )


def test_unusable_sizes_are_refused() -> None:
    for call in (
        lambda: formulas.straight(0.0),
        lambda: formulas.straight(math.nan),
        lambda: formulas.circle(-1.0),
        lambda: formulas.circle(5.0, "left"),  # type: ignore[arg-type]
        lambda: formulas.circle(5.0, laps=0),
        lambda: formulas.sine(2.0, 0.5, math.inf),
        lambda: formulas.square(4.0, 2.0),
        lambda: formulas.double_lane_change(-1.8),
        lambda: formulas.figure_eight(0.0),
        lambda: formulas.straight(10.0, speed_mps=0.0),
    ):
        with pytest.raises(CourseError):
            call()
