"""The body of a vehicle against polygons, and what it sweeps, beside oracles in exact arithmetic
and in small steps."""

from fractions import Fraction
from itertools import pairwise
from math import cos, hypot, inf, pi, sin

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.property.test_paths_smooth_courses import smooth_courses
from vehicled.core.vehicle import Outline
from vehicled.daemon.live_changes import outside_fence
from vehicled.paths.course import Course, course_from_waypoints
from vehicled.paths.polygon import encloses
from vehicled.safety.fence import LOOSE_M, Fence, Polygon, steps_for, swept, swept_on_arc

Point = tuple[float, float]
BODY = Outline(0.55, 0.05, 0.2)
PLACE = st.floats(-3.0, 3.0, width=16)
SMALL = st.floats(-0.3, 0.3)
RINGS = st.one_of(
    st.lists(st.tuples(PLACE, PLACE), min_size=3, max_size=7),
    # Thin spikes and specks, which no corner of the body need meet.
    st.tuples(PLACE, PLACE, st.floats(-pi, pi), st.floats(0.001, 4.0), st.floats(0.0, 0.02)).map(
        lambda v: [
            (v[0], v[1]),
            (v[0] + v[3] * cos(v[2]), v[1] + v[3] * sin(v[2])),
            (v[0] - v[4] * sin(v[2]), v[1] + v[4] * cos(v[2])),
        ]
    ),
)
OUTLINES = st.one_of(
    st.just(BODY),
    st.just(Outline(3.0, -1.0, 0.4)),
    st.builds(Outline, *(st.floats(0.01, 2.0),) * 3),
)


def corners_of(outline: Outline, x: float, y: float, yaw: float) -> list[Point]:
    c, s = cos(yaw), sin(yaw)
    sides = (
        (outline.front_m, -1),
        (outline.front_m, 1),
        (-outline.rear_m, 1),
        (-outline.rear_m, -1),
    )
    return [
        (x + c * ahead - s * way * outline.half_m, y + s * ahead + c * way * outline.half_m)
        for ahead, way in sides
    ]


def turn(a: Point, b: Point, c: Point) -> Fraction:
    (ax, ay), (bx, by), (cx, cy) = (tuple(map(Fraction, point)) for point in (a, b, c))
    return (bx - ax) * (cy - ay) - (by - ay) * (cx - ax)


def cross(a: Point, b: Point, c: Point, d: Point) -> bool:
    """Return whether two segments cross properly, in exact arithmetic."""
    return turn(a, b, c) * turn(a, b, d) < 0 and turn(c, d, a) * turn(c, d, b) < 0


def violates(outline: Outline, polygon: Polygon, x: float, y: float, yaw: float) -> bool:
    """Return whether the body and the forbidden side have a point in common, by another way:
    crossing edges, corners, vertices."""
    body, ring = corners_of(outline, x, y, yaw), list(polygon.corners)
    if any(encloses(ring, *corner) is polygon.keep_out for corner in body):
        return True
    if any(encloses(body, *corner) for corner in ring):
        return True
    return any(
        cross(a, b, c, d)
        for a, b in pairwise([*body, body[0]])
        for c, d in pairwise([*ring, ring[0]])
    )


def breached(fence: Fence, outline: Outline, x: float, y: float, yaw: float) -> bool:
    now, later = fence.breached(swept_on_arc(outline, (x, y, yaw), 0.0, 0.0))
    assert now.tolist() == later.tolist()
    return bool(now.any())


@examples(100)
@given(RINGS, st.booleans(), OUTLINES, PLACE, PLACE, st.floats(-7.0, 7.0))
def test_a_body_breaches_a_polygon_if_they_have_a_point_in_common(
    ring: list[Point], keep_out: bool, outline: Outline, x: float, y: float, yaw: float
) -> None:
    polygon = Polygon(tuple(ring), keep_out, "tree")
    found = breached(Fence([polygon]), outline, x, y, yaw)
    nearly = [violates(outline.widened(room), polygon, x, y, yaw) for room in (-1e-6, 1e-6)]
    if nearly[0] is nearly[1]:
        assert found is nearly[0]


@examples(100)
@given(
    RINGS,
    st.booleans(),
    OUTLINES,
    PLACE,
    PLACE,
    st.floats(-7.0, 7.0),
    st.floats(-2.0, 2.0),
    st.floats(-1.2, 1.2),
    st.floats(0, 1),
)
def test_nothing_between_two_poses_is_missed_and_little_beside_it_is_taken(
    ring: list[Point],
    keep_out: bool,
    outline: Outline,
    x: float,
    y: float,
    yaw: float,
    way: float,
    bend: float,
    share: float,
) -> None:
    """Property: on an arc the rectangles cover the body at every pose, and reach beyond it by
    centimetres only."""

    def at(part: float) -> tuple[float, float, float]:
        turned = part * way * bend
        chord = part * way * float(np.sinc(turned / (2.0 * pi)))
        return (
            x + chord * cos(yaw + 0.5 * turned),
            y + chord * sin(yaw + 0.5 * turned),
            yaw + turned,
        )

    polygon = Polygon(tuple(ring), keep_out)
    steps, fence = steps_for(outline, way * bend), Fence([polygon])
    poses = np.array([at(k / steps) for k in range(steps + 1)]).T
    start = breached(fence, outline, x, y, yaw)
    for touched in (
        bool(fence.breached(swept_on_arc(outline, (x, y, yaw), bend, way))[1].any()),
        start or bool(fence.breached(swept(outline, *poses))[1].any()),
    ):
        if violates(outline.widened(-1e-6), polygon, *at(share)):
            assert touched
        if touched and keep_out and steps < 64:
            room = 4.0 * LOOSE_M
            assert any(violates(outline.widened(room), polygon, *at(k / 200)) for k in range(201))


def off_ring_m(ring: list[Point], x: float, y: float) -> float:
    """Return the distance of a point from the nearest edge."""
    best = inf
    for (x1, y1), (x2, y2) in pairwise([*ring, ring[0]]):
        square = (x2 - x1) ** 2 + (y2 - y1) ** 2
        share = (
            min(max(((x - x1) * (x2 - x1) + (y - y1) * (y2 - y1)) / square, 0.0), 1.0)
            if square
            else 0.0
        )
        best = min(best, hypot(x1 + share * (x2 - x1) - x, y1 + share * (y2 - y1) - y))
    return best


@examples(60)
@given(RINGS, RINGS, st.booleans(), OUTLINES, PLACE, PLACE, st.floats(-7.0, 7.0))
def test_the_depth_is_that_of_the_deepest_corner_of_body_or_polygon(
    ring: list[Point],
    other: list[Point],
    keep_out: bool,
    outline: Outline,
    x: float,
    y: float,
    yaw: float,
) -> None:
    wrong = [
        corner for corner in corners_of(outline, x, y, yaw) if encloses(ring, *corner) is keep_out
    ]
    depths = [off_ring_m(ring, *corner) for corner in wrong]
    for px, py in ring:
        ahead = cos(yaw) * (px - x) + sin(yaw) * (py - y)
        left = cos(yaw) * (py - y) - sin(yaw) * (px - x)
        depths.append(
            min(outline.front_m - ahead, outline.rear_m + ahead, outline.half_m - abs(left))
        )
    fence = Fence([Polygon(tuple(other)), Polygon(tuple(ring), keep_out)])
    if all(off_ring_m(ring, *corner) > 1e-6 for corner in corners_of(outline, x, y, yaw)):
        assert fence.depth_m(1, outline, x, y, yaw) == pytest.approx(max([0.0, *depths]), abs=1e-9)


@examples(10)
@given(
    smooth_courses(),
    st.floats(0.0, 1.0),
    SMALL,
    st.floats(0.002, 0.3),
    st.sampled_from([1.0, -1.0]),
)
def test_a_course_is_refused_exactly_where_the_body_would_be_on_a_zone(
    course: Course, share: float, left: float, size: float, way: float
) -> None:
    """Property: a zone of any size beside a place of the course, driven either way; walked along in
    steps of a centimetre."""
    if way < 0.0:
        course = course_from_waypoints(
            "back", course.x_m, course.y_m, speed=np.full(len(course.x_m), -1.0), closed=False
        )
    k = int(share * (len(course.x_m) - 1))
    x, y, yaw = float(course.x_m[k]), float(course.y_m[k]), float(course.yaw_rad[k])
    x, y = x - 1.2 * left * sin(yaw), y + 1.2 * left * cos(yaw)
    zone = Polygon(((x, y), (x + size, y), (x + size, y + size)), keep_out=True, name="tree")
    refused = outside_fence(course, Fence([zone]), BODY)
    s = np.arange(0.0, course.length_m, 0.01)
    columns = (
        np.interp(s, course.s_m, column) for column in (course.x_m, course.y_m, course.yaw_rad)
    )
    walked = [
        pose
        for pose in zip(*columns, strict=True)
        if hypot(pose[0] - x, pose[1] - y) < BODY.reach_m + 2.0 * size
    ]
    if any(violates(BODY, zone, *pose) for pose in walked):
        assert "inside the keep-out zone tree at (" in refused
    elif not any(violates(BODY.widened(2.0 * LOOSE_M), zone, *pose) for pose in walked):
        assert refused == ""


@given(st.floats(200.0, 90_000.0), st.floats(0.0, 1.0), st.floats(0.001, 1.0))
@examples(5)
def test_a_speck_on_a_long_course_is_not_missed(length: float, share: float, size: float) -> None:
    xs = np.arange(0.0, length + 1.0, min(length, 500.0))
    course = course_from_waypoints("long", xs, np.zeros(len(xs)), closed=False)
    x = share * course.length_m
    zone = Polygon(((x, -size), (x + size, -size), (x + size, size), (x, size)), keep_out=True)
    assert outside_fence(course, Fence([zone]))


@pytest.mark.parametrize("bend", [0.0, 0.4, -0.9])
@pytest.mark.parametrize("way", [3.0, -3.0])
def test_a_speck_anywhere_under_the_way_of_a_stop_is_met(bend: float, way: float) -> None:
    for share in np.linspace(0.0, 1.0, 23).tolist():
        turned = share * way * bend
        chord = share * way * float(np.sinc(turned / (2.0 * pi)))
        for ahead in (BODY.front_m - 0.001, 0.2, -BODY.rear_m + 0.001):
            for left in (0.199, 0.0, -0.199):
                yaw = turned
                x = chord * cos(0.5 * turned) + ahead * cos(yaw) - left * sin(yaw)
                y = chord * sin(0.5 * turned) + ahead * sin(yaw) + left * cos(yaw)
                speck = Polygon(((x, y), (x + 1e-4, y), (x, y + 1e-4)), keep_out=True)
                assert (
                    Fence([speck]).breached(swept_on_arc(BODY, (0.0, 0.0, 0.0), bend, way))[1].any()
                ), (share, ahead, left)


def test_no_step_of_a_line_is_left_out() -> None:
    line = course_from_waypoints("line", [0.0, 20.0], [0.0, 0.0], closed=False)
    for x in (0.5 * (line.x_m[1:] + line.x_m[:-1])).tolist():
        speck = Polygon(((x, 0.0), (x + 0.001, 0.001), (x + 0.001, -0.001)), keep_out=True)
        assert outside_fence(line, Fence([speck]))


def test_the_line_from_the_end_of_a_lap_to_its_start_is_tested() -> None:
    angles = np.linspace(0.0, 2.0 * pi, 40, endpoint=False)
    lap = course_from_waypoints("lap", 10.0 * np.cos(angles), 10.0 * np.sin(angles), closed=True)
    gap_x, gap_y = 0.5 * (lap.x_m[0] + lap.x_m[-1]), 0.5 * (lap.y_m[0] + lap.y_m[-1])
    speck = Polygon(((gap_x, gap_y), (gap_x + 0.001, gap_y), (gap_x, gap_y + 0.001)), keep_out=True)
    assert outside_fence(lap, Fence([speck]))


def test_one_of_ten_thousand_corners_is_met() -> None:
    angles = np.linspace(0.0, 2.0 * pi, 10_000, endpoint=False)
    radius = np.where(np.arange(10_000) % 100 == 50, 48.0, 50.0)
    star = Polygon(
        tuple(
            zip((radius * np.cos(angles)).tolist(), (radius * np.sin(angles)).tolist(), strict=True)
        )
    )
    tip = float(angles[50])
    fence = Fence([star])
    assert breached(fence, BODY, 47.6 * cos(tip), 47.6 * sin(tip), tip)
    assert not breached(fence, BODY, 47.3 * cos(tip), 47.3 * sin(tip), tip)
    assert not breached(fence, BODY, 48.5 * cos(tip + 0.03), 48.5 * sin(tip + 0.03), tip)
    assert fence.depth_m(0, BODY, 47.6 * cos(tip), 47.6 * sin(tip), tip) < 0.16
