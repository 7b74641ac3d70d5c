"""Random smooth courses: geometry is consistent and the tracker follows any lateral offset."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from vehicled.paths.course import Course, course_from_waypoints
from vehicled.paths.tracking import PathTracker

MAX_CURVATURE = 0.3


@st.composite
def smooth_courses(draw: st.DrawFn) -> Course:
    """An open course whose curvature is a sum of sines below ``MAX_CURVATURE``; it may well cross
    itself."""
    length = draw(st.floats(15.0, 60.0))
    spacing = draw(st.floats(0.08, 0.5))
    s = np.linspace(0.0, length, max(8, int(length / spacing)))
    fine = np.linspace(0.0, length, 20 * len(s))
    waves = draw(
        st.lists(
            st.tuples(st.floats(-1, 1), st.floats(0.02, 0.15), st.floats(0, 6.2)),
            min_size=1,
            max_size=3,
        )
    )
    curvature = (
        np.sum([a * np.sin(2 * math.pi * f * fine + p) for a, f, p in waves], axis=0)
        * MAX_CURVATURE
        / 3
    )
    yaw = draw(st.floats(-3.1, 3.1)) + np.concatenate(
        ([0.0], np.cumsum(0.5 * (curvature[1:] + curvature[:-1]) * np.diff(fine)))
    )
    step = np.diff(fine)
    x = np.concatenate(([0.0], np.cumsum(np.cos(0.5 * (yaw[1:] + yaw[:-1])) * step)))
    y = np.concatenate(([0.0], np.cumsum(np.sin(0.5 * (yaw[1:] + yaw[:-1])) * step)))
    return course_from_waypoints(
        "random", np.interp(s, fine, x), np.interp(s, fine, y), closed=False
    )


@given(smooth_courses())
@examples(25)
def test_geometry_is_consistent(course: Course) -> None:
    steps = np.hypot(np.diff(course.x_m), np.diff(course.y_m))
    assert np.allclose(np.diff(course.s_m), steps, rtol=1e-9)
    assert steps.max() / steps.min() < 1.05
    assert np.abs(course.curvature_per_m).max() < MAX_CURVATURE * 1.15
    heading = np.unwrap(np.arctan2(np.diff(course.y_m), np.diff(course.x_m)))
    middle = 0.5 * (course.yaw_rad[1:] + course.yaw_rad[:-1])
    assert np.abs(np.remainder(heading - middle + math.pi, math.tau) - math.pi).max() < 4e-3
    gained = float(np.trapezoid(course.curvature_per_m, course.s_m))
    assert gained == pytest.approx(float(course.yaw_rad[-1] - course.yaw_rad[0]), abs=0.02)


@given(smooth_courses(), st.floats(-0.8, 0.8), st.floats(0.01, 0.2))
@examples(25)
def test_a_lateral_offset_is_measured_and_progress_never_jumps(
    course: Course, offset: float, step: float
) -> None:
    tracker = PathTracker(course)
    last_s, last_xy = 0.0, None
    for s in np.arange(0.0, course.length_m, step):
        px, py, yaw, _, _ = tracker.point_at(float(s))
        x, y = px - offset * math.sin(yaw), py + offset * math.cos(yaw)
        point = tracker.update(x, y, yaw - 0.05)
        assert point.cross_track_m == pytest.approx(offset, abs=2e-3)
        assert point.heading_error_rad == pytest.approx(0.05, abs=0.02)
        assert point.s_m == pytest.approx(s, abs=0.02)
        assert point.s_m >= last_s - 2e-3
        if last_xy is not None:
            driven = math.hypot(x - last_xy[0], y - last_xy[1])
            # On the inside of a bend the path passes faster than the vehicle, and the turn of a
            # sample at once.
            bend = MAX_CURVATURE * 1.15 * abs(offset)
            assert point.s_m - last_s <= driven / (1.0 - bend) + 0.1 * bend + 2e-3
        last_s, last_xy = point.s_m, (x, y)
    assert tracker.progress_m == pytest.approx(last_s, abs=2e-3)


@given(smooth_courses(), st.integers(0, 2**32 - 1))
@examples(15)
def test_noise_moves_progress_by_no_more_than_itself(course: Course, seed: int) -> None:
    rng = np.random.default_rng(seed)
    tracker = PathTracker(course)
    for s in np.arange(0.0, course.length_m, 0.05):
        x, y, yaw, _, _ = tracker.point_at(float(s))
        dx, dy = np.clip(rng.normal(0.0, 0.03, 2), -0.1, 0.1)
        point = tracker.update(x + dx, y + dy, yaw)
        assert abs(point.s_m - s) < 0.2
        assert abs(point.cross_track_m) < 0.15


@given(smooth_courses(), st.lists(st.tuples(st.floats(), st.floats(), st.floats()), max_size=30))
@examples(25)
def test_any_pose_gives_a_point_of_the_course(
    course: Course, poses: list[tuple[float, float, float]]
) -> None:
    tracker = PathTracker(course)
    progress = 0.0
    for pose in poses:
        point = tracker.update(*pose)
        assert -1e-9 <= point.s_m <= course.length_m + 1e-9
        assert math.isfinite(point.x_m)
        assert math.isfinite(point.speed_mps)
        assert tracker.progress_m >= progress
        progress = tracker.progress_m
