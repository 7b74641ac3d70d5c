"""Tables of a course that are made where the vehicle is give the same numbers as those made at
once."""

from dataclasses import replace
from math import isfinite

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vehicled.control.speed import SpeedParams, SpeedProfile
from vehicled.paths import tracking
from vehicled.paths.catalog import load_course
from vehicled.paths.course import course_from_waypoints
from vehicled.paths.stored import from_bytes, to_bytes
from vehicled.paths.tracking import PathTracker
from vehicled.profile.loading import load_profile
from vehicled.safety.monitors import Monitors
from vehicled.safety.monitors.stopping import CURVATURE_AHEAD_M

ART = load_profile("art")
COURSES = {
    "lap": load_course("lot17"),
    "small lap": load_course("circle_r5_ccw"),
    "open": course_from_waypoints(
        "open", np.arange(0.0, 300.0, 5.0), 10.0 * np.sin(np.arange(60.0)), closed=False
    ),
    "cusps": course_from_waypoints(
        "cusps",
        [0, 20, 40, 20, 0, 20, 60],
        [0, 0, 2, 6, 8, 9, 9],
        speed=[1, 1, 1, -1, -1, 1, 1],
        closed=False,
    ),
    "short": course_from_waypoints("short", [0.0, 0.5], [0.0, 0.1], closed=False),
}

steps = st.tuples(
    st.sampled_from(["update", "locate", "point_at", "reset"]),
    st.floats(-0.1, 1.1) | st.just(0.0) | st.just(1.0),
    st.floats(-3.0, 3.0) | st.sampled_from([float("nan"), 1e200]),
    st.sampled_from([0.0, 1.0, 30.0, -1.0, float("nan")]),
)


@given(st.sampled_from(list(COURSES)), st.lists(steps, max_size=40))
def test_a_tracker_with_a_small_window_says_what_one_with_all_numbers_says(
    name: str, asked: list[tuple[str, float, float, float]]
) -> None:
    course = COURSES[name]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tracking, "MARGIN", 3)
        small = PathTracker(course)
        patch.setattr(tracking, "MARGIN", 10**6)
        whole = PathTracker(course)
        for what, share, off_m, speed_mps in asked:
            row = min(max(int(share * len(course.x_m)), 0), len(course.x_m) - 1)
            pose = (
                float(course.x_m[row]) + off_m,
                float(course.y_m[row]) + off_m,
                float(course.yaw_rad[row]),
            )
            said = []
            for tracker, margin in ((small, 3), (whole, 10**6)):
                patch.setattr(tracking, "MARGIN", margin)
                match what:
                    case "update":
                        said.append(repr(tracker.update(*pose, speed_mps)))
                    case "locate":
                        said.append(repr(tracker.locate(*pose)))
                    case "point_at":
                        said.append(repr(tracker.point_at(share * course.length_m)))
                    case _:
                        tracker.reset(share * course.length_m if share else None)
            assert len(set(said)) <= 1, said
            assert (small.finished, small.leg, small.progress_m) == (
                whole.finished,
                whole.leg,
                whole.progress_m,
            )


def test_a_tracker_keeps_numbers_only_where_the_vehicle_is() -> None:
    course = COURSES["lap"]
    tracker = PathTracker(course)
    for x, y, yaw in zip(
        course.x_m.tolist(), course.y_m.tolist(), course.yaw_rad.tolist(), strict=True
    ):
        tracker.update(x, y, yaw, 1.0)
        assert len(tracker._lines) < 500 < len(course.x_m)


def test_samples_at_one_place_are_passed() -> None:
    course = COURSES["open"]
    x = course.x_m.copy()
    y = course.y_m.copy()
    x[100:103], y[100:103] = x[100], y[100]
    tracker = PathTracker(replace(course, x_m=x, y_m=y))
    for k in range(90, 115):
        point = tracker.update(float(x[k]), float(y[k]) + 0.1, float(course.yaw_rad[k]), 1.0)
        assert isfinite(point.cross_track_m)


@given(st.lists(st.floats(-3.0, 3.0), min_size=2, max_size=80), st.booleans())
def test_the_sharpest_bend_ahead_is_the_largest_of_the_window(
    curvatures: list[float], closed: bool
) -> None:
    base = COURSES["small lap" if closed else "open"]
    n = len(curvatures)
    columns = {name: getattr(base, name)[:n] for name in ("x_m", "y_m", "yaw_rad", "speed_mps")}
    course = replace(
        base,
        curvature_per_m=np.array(curvatures),
        s_m=np.arange(0.0, n) * 0.37,
        length_m=n * 0.37,
        **columns,
    )
    monitor = Monitors(ART.limits, ART.vehicle).stopping
    monitor.follow(course)
    reach = max(1, round(CURVATURE_AHEAD_M / 0.37))
    around = [abs(c) for c in curvatures] * (1 + reach // n + 1 if closed else 1)
    assert monitor._sharpest.tolist() == [max(around[k : k + reach]) for k in range(n)]


@pytest.mark.parametrize("name", COURSES)
def test_the_speeds_of_a_profile_are_the_same_in_one_go_and_one_by_one(name: str) -> None:
    course = COURSES[name]
    profile = SpeedProfile(SpeedParams(), ART.vehicle, ART.limits, course)
    one_by_one = [abs(profile.at(float(s_m)).speed_mps) for s_m in course.s_m]
    assert profile.sampled_mps(len(course.s_m)).tolist() == one_by_one


@pytest.mark.parametrize("name", COURSES)
def test_a_stored_course_gives_back_its_numbers(name: str) -> None:
    course = COURSES[name]
    again = from_bytes(to_bytes(course))
    for column in ("x_m", "y_m", "yaw_rad", "curvature_per_m", "s_m", "speed_mps"):
        assert getattr(again, column).tobytes() == getattr(course, column).tobytes()
    assert (again.name, again.closed, again.length_m, again.datum) == (
        course.name,
        course.closed,
        course.length_m,
        course.datum,
    )
