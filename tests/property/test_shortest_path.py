"""Shortest paths: they end at the goal, never turn tighter than allowed, and none is longer than it
must be."""

from math import cos, hypot, inf, pi, remainder, sin, tau

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from vehicled.paths.datum import LOT_17
from vehicled.paths.errors import CourseError
from vehicled.paths.shortest import NEAR_M, STEP_M, WIDER, Pose, course_to, sampled, words

coordinates = st.floats(-30.0, 30.0)
headings = st.floats(-pi, pi)
poses = st.builds(Pose, coordinates, coordinates, headings)


@given(poses, poses, st.floats(0.3, 8.0))
def test_every_word_ends_at_the_goal(start: Pose, goal: Pose, radius_m: float) -> None:
    found = words(start, goal, radius_m)
    assert found
    for path in found:
        end = sampled(start, path, radius_m)[-1]
        assert hypot(end.x_m - goal.x_m, end.y_m - goal.y_m) < 1e-5 * (1.0 + radius_m), path
        assert abs(remainder(end.yaw_rad - goal.yaw_rad, tau)) < 1e-5, path


@given(poses, poses, st.floats(0.3, 8.0))
def test_the_shortest_is_bounded_by_theory(start: Pose, goal: Pose, radius_m: float) -> None:
    length_m = radius_m * sum(length for _, length in words(start, goal, radius_m)[0])
    away_m = hypot(goal.x_m - start.x_m, goal.y_m - start.y_m)
    # Two circles and the line between them always suffice.
    assert away_m - 1e-6 <= length_m <= away_m + (2.0 * tau + 4.0) * radius_m


@given(poses, st.floats(1.0, 40.0))
def test_straight_ahead_is_a_straight_line(start: Pose, ahead_m: float) -> None:
    goal = Pose(
        start.x_m + ahead_m * cos(start.yaw_rad),
        start.y_m + ahead_m * sin(start.yaw_rad),
        start.yaw_rad,
    )
    assert sum(length for _, length in words(start, goal, 1.0)[0]) == pytest.approx(
        ahead_m, rel=1e-6, abs=1e-5
    )


@given(poses, poses, st.floats(0.4, 3.0), st.booleans())
def test_a_course_to_a_goal_begins_here_and_ends_there(
    start: Pose, goal: Pose, radius_m: float, turned: bool
) -> None:
    assume(hypot(goal.x_m - start.x_m, goal.y_m - start.y_m) >= NEAR_M)
    yaw = goal.yaw_rad if turned else None
    course = course_to(
        start,
        goal.x_m,
        goal.y_m,
        yaw,
        radius_m=radius_m,
        speed_mps=1.0,
        datum=LOT_17,
        refused=lambda course: "",
    )
    assert (course.x_m[0], course.y_m[0]) == pytest.approx((start.x_m, start.y_m), abs=1e-6)
    # A last waypoint nearer than 2 % of a step to the one before it is a duplicate of that.
    assert (course.x_m[-1], course.y_m[-1]) == pytest.approx(
        (goal.x_m, goal.y_m), abs=0.02 * STEP_M + 2e-5
    )
    # A sample spans the change from one arc to the other, so its curvature may pass that of the arc
    # by little.
    assert abs(course.curvature_per_m).max() <= 1.0 / radius_m / WIDER * 1.3 + 0.1 * STEP_M
    assert abs(remainder(float(course.yaw_rad[0]) - start.yaw_rad, tau)) < 0.2


@pytest.mark.parametrize(
    ("x_m", "y_m", "said"),
    [
        (inf, 0.0, "not a place"),
        (0.0, float("nan"), "not a place"),
        (0.1, 0.1, "there already"),
        (9e4, 0.0, "90.0 km away"),
    ],
)
def test_goals_that_are_none_are_refused(x_m: float, y_m: float, said: str) -> None:
    with pytest.raises(CourseError, match=said):
        course_to(
            Pose(0.0, 0.0, 0.0),
            x_m,
            y_m,
            None,
            radius_m=1.0,
            speed_mps=1.0,
            datum=LOT_17,
            refused=lambda course: "",
        )


def test_a_path_that_is_refused_makes_room_for_the_next() -> None:
    seen: list[float] = []

    def refused(course: object) -> str:
        seen.append(course.length_m)  # type: ignore[attr-defined]
        return "through the pond" if len(seen) < 4 else ""

    course_to(
        Pose(0.0, 0.0, 0.0),
        5.0,
        2.0,
        1.0,
        radius_m=1.0,
        speed_mps=1.0,
        datum=LOT_17,
        refused=refused,
    )
    assert len(seen) == 4
    assert seen == sorted(seen)
    with pytest.raises(CourseError, match=r"no path leads to .* through the pond"):
        course_to(
            Pose(0.0, 0.0, 0.0),
            5.0,
            2.0,
            None,
            radius_m=1.0,
            speed_mps=1.0,
            datum=LOT_17,
            refused=lambda course: "through the pond",
        )
