"""The geometry of fences: rectangles about a body that moves, where it first meets an edge, how
deep it is on the wrong side."""

import json
from math import ceil, cos, degrees, hypot, pi, sin, tan

import numpy as np
import pytest

from vehicled.core.arrays import Array
from vehicled.core.vehicle import Outline
from vehicled.paths.arc import on_arc
from vehicled.paths.datum import LOT_17
from vehicled.paths.errors import CourseError
from vehicled.safety.fence import (
    MAX_CORNERS,
    MAX_STEPS,
    TOUCH_M,
    Boxes,
    Fence,
    Polygon,
    read_geojson,
    steps_for,
    swept,
    swept_on_arc,
)

BODY = Outline(0.55, 0.05, 0.2)
OUTLINES = (BODY, Outline(3.0, -1.0, 0.4), Outline(0.5, 0.3, 1.0), Outline(0.3, 0.5, 1.0))
FAR = Outline(19.0, 20.0, 8.0)


def speck(x_m: float, y_m: float) -> Polygon:
    return Polygon(((x_m, y_m), (x_m + 1e-4, y_m), (x_m, y_m + 1e-4)), keep_out=True, name="speck")


def farthest(
    outline: Outline, box: tuple[float, float, float], x_m: Array, y_m: Array, yaw_rad: Array
) -> tuple[float, float, float, float]:
    """Return how far a body at some poses reaches backward, forward, to the right and to the left
    in the frame of a rectangle."""
    c, s = cos(box[2]), sin(box[2])
    ahead, left = c * (x_m - box[0]) + s * (y_m - box[1]), c * (y_m - box[1]) - s * (x_m - box[0])
    turned = yaw_rad - box[2]
    corners = [
        (a, b)
        for a in (outline.front_m, -outline.rear_m)
        for b in (outline.half_m, -outline.half_m)
    ]
    along = [ahead + a * np.cos(turned) - b * np.sin(turned) for a, b in corners]
    aside = [left + a * np.sin(turned) + b * np.cos(turned) for a, b in corners]
    return float(np.min(along)), float(np.max(along)), float(np.min(aside)), float(np.max(aside))


def assert_covers(
    boxes: Boxes, k: int, outline: Outline, poses: tuple[Array, Array, Array], loose_m: float
) -> None:
    """Assert that a rectangle covers a body at some poses, and is wider by so much at most where
    the body is the widest."""
    back, front, right, left = farthest(
        outline, (boxes.x_m[k], boxes.y_m[k], boxes.yaw_rad[k]), *poses
    )
    beyond = (
        back - boxes.back_m[k],
        boxes.front_m[k] - front,
        right - boxes.right_m[k],
        boxes.left_m[k] - left,
    )
    assert min(beyond) >= -1e-9
    assert max(beyond[:2]) <= 1.02 * loose_m + 1e-9
    assert min(beyond[2:]) <= 1.02 * loose_m + 1e-9


@pytest.mark.parametrize("outline", OUTLINES)
@pytest.mark.parametrize("yaw", [0.4, 3.0, -2.9])
@pytest.mark.parametrize(
    ("ahead", "aside", "turn"),
    [(0.7, 0.0, 0.0), (-0.4, 0.3, 0.5), (0.6, -0.2, -0.6), (0.0, 0.0, 0.4), (0.3, 0.3, 0.1)],
)
def test_the_rectangles_of_straight_steps_cover_the_body_and_little_more(
    outline: Outline, yaw: float, ahead: float, aside: float, turn: float
) -> None:
    yaws = yaw + turn * np.arange(4.0)
    steps = np.array(
        [(cos(yaw + 0.5 * turn) * ahead - sin(yaw + 0.5 * turn) * aside,) for _ in range(3)]
        + [(0.0,)]
    )[:, 0]
    x = np.concatenate([[1.0], 1.0 + np.cumsum(steps[:3])])
    y = 2.0 + (sin(yaw + 0.5 * turn) * ahead + cos(yaw + 0.5 * turn) * aside) * np.arange(4.0)
    boxes = swept(outline, x, y, np.remainder(yaws + pi, 2.0 * pi) - pi)
    bulge = outline.reach_m * (1.0 - cos(0.5 * turn)) + 0.125 * hypot(ahead, aside) * abs(turn)
    part = np.linspace(0.0, 1.0, 201)
    for k in range(3):
        poses = tuple(column[k] + part * (column[k + 1] - column[k]) for column in (x, y, yaws))
        middle = (0.5 * (x[k] + x[k + 1]), 0.5 * (y[k] + y[k + 1]))
        assert (boxes.x_m[k], boxes.y_m[k]) == pytest.approx(middle)
        assert cos(boxes.yaw_rad[k] - yaws[k] - 0.5 * turn) == pytest.approx(1.0)
        back, front, right, left = farthest(outline, (*middle, yaws[k] + 0.5 * turn), *poses)
        for found, reached in (
            (-boxes.back_m[k], -back),
            (boxes.front_m[k], front),
            (-boxes.right_m[k], -right),
            (boxes.left_m[k], left),
        ):
            assert reached - 1e-9 <= found
        # Each side is as wide as the farther of both.
        assert boxes.left_m[k] == -boxes.right_m[k]
        assert boxes.front_m[k] <= front + bulge + 1e-9
        assert -boxes.back_m[k] <= -back + bulge + 1e-9
        if ahead == aside == 0.0:
            assert boxes.left_m[k] <= max(left, -right) + bulge + 1e-9


@pytest.mark.parametrize("turn", [0.5, -0.5])
@pytest.mark.parametrize("outline", OUTLINES)
def test_the_rectangle_of_a_step_on_a_circle_covers_the_arc(outline: Outline, turn: float) -> None:
    x, y, yaw = on_arc(1.0, 2.0, 0.7, turn / 1.5, np.linspace(0.0, 1.5, 201))
    boxes = swept(outline, x[[0, -1]], y[[0, -1]], yaw[[0, -1]])
    sagitta = 0.5 * hypot(x[-1] - x[0], y[-1] - y[0]) * tan(abs(turn) / 4.0)
    assert_covers(
        boxes, 0, outline, (x, y, yaw), outline.reach_m * (1.0 - cos(0.5 * turn)) + 2.0 * sagitta
    )


@pytest.mark.parametrize("outline", [*OUTLINES, FAR])
@pytest.mark.parametrize("curvature", [0.0, 0.7, -0.7])
@pytest.mark.parametrize("way", [2.0, -2.0])
def test_the_rectangles_on_a_circle_cover_the_body_and_little_more(
    outline: Outline, curvature: float, way: float
) -> None:
    pose = (1.0, 2.0, 2.8)
    boxes = swept_on_arc(outline, pose, curvature, way)
    steps = steps_for(outline, curvature * way)
    first = [float(column[0]) for column in boxes]
    assert first == [*pose, -outline.rear_m, outline.front_m, -outline.half_m, outline.half_m], (
        "the first is the body"
    )
    assert len(boxes.x_m) == 1 + steps
    half_turn = 0.5 * abs(curvature * way) / steps
    loose = outline.reach_m * (1.0 - cos(half_turn)) + 0.25 * abs(way) / steps * half_turn
    for k in range(1, steps + 1):
        part = np.linspace(k - 1.0, k, 21) * way / steps
        middle = on_arc(*pose, curvature, np.array([(k - 0.5) * way / steps]))
        assert [boxes.x_m[k], boxes.y_m[k], boxes.yaw_rad[k]] == pytest.approx(
            [float(each[0]) for each in middle]
        )
        assert_covers(boxes, k, outline, on_arc(*pose, curvature, part), loose)


def test_a_turn_is_divided_until_its_rectangles_are_hardly_wider_and_no_further() -> None:
    assert steps_for(BODY, 0.0) == 1
    assert steps_for(BODY, 0.015 / BODY.reach_m) == 2, "a centimetre each"
    assert steps_for(BODY, -0.3) == ceil(BODY.reach_m * 0.3 / 0.01)
    assert steps_for(BODY, 100.0) == MAX_STEPS == 64


@pytest.mark.parametrize("count", [2, 64, 65, 66, 129, 200])
@pytest.mark.parametrize("yaw", [0.0, 2.0, -2.9])
def test_the_step_is_found_in_which_the_front_meets_a_zone(count: int, yaw: float) -> None:
    """The place is the one that the front reaches on its line, whichever step of however many it
    is."""
    s = 0.1 * np.arange(count, dtype=np.float64)
    x, y, yaws = 2.0 + s * cos(yaw), -3.0 + s * sin(yaw), np.full(count, yaw)
    for k in sorted({0, 1, 62, 63, 64, 65, 126, 127, 128, count - 2} & set(range(count - 1))):
        ahead, left = BODY.front_m + 0.1 * k + 0.05, 0.19
        zone = speck(
            2.0 + ahead * cos(yaw) - left * sin(yaw), -3.0 + ahead * sin(yaw) + left * cos(yaw)
        )
        assert Fence([speck(90.0, 90.0), zone]).first_breach(BODY, x, y, yaws) == (
            k,
            "inside the keep-out zone speck",
        )
    for ahead, left in (
        (BODY.front_m + 0.1 * (count - 1) + 0.001, 0.0),
        (-0.051, 0.0),
        (0.3, 0.201),
        (0.3, -0.201),
    ):
        zone = speck(
            2.0 + ahead * cos(yaw) - left * sin(yaw), -3.0 + ahead * sin(yaw) + left * cos(yaw)
        )
        assert Fence([zone]).first_breach(BODY, x, y, yaws) is None, (ahead, left)
    assert Fence([speck(90.0, 90.0)]).first_breach(BODY, x, y, yaws) is None


def test_the_first_pose_is_tested_by_itself_and_named_first() -> None:
    x, y, yaw = np.array([1.0, 1.3, 1.6]), np.array([2.0, 2.0, 2.0]), np.array([0.6, 0.0, 0.0])
    corner = (
        1.0 + BODY.front_m * cos(0.6) - 0.19 * sin(0.6),
        2.0 + BODY.front_m * sin(0.6) + 0.19 * cos(0.6),
    )
    under = speck(corner[0] - 0.01, corner[1] - 0.01)
    assert Fence([speck(2.0, 2.0)._replace(name="later"), under]).first_breach(BODY, x, y, yaw) == (
        0,
        "inside the keep-out zone speck",
    )
    yard = Polygon(((0.0, 0.0), (1.2, 0.0), (1.2, 4.0), (0.0, 4.0)), name="yard")
    assert Fence([yard]).first_breach(BODY, x, y, yaw) == (0, "outside the fence yard")
    assert Fence([yard]).first_breach(Outline(0.1, 0.05, 0.1), x, y, yaw) == (
        0,
        "outside the fence yard",
    ), "left in the first step"
    assert Fence([yard]).first_breach(Outline(0.1, 0.05, 0.1), x[:1], y[:1], yaw[:1]) is None
    # A step onto the zone behind: what is there is not under the body before.
    behind = speck(0.7, 2.0)
    assert (
        Fence([behind]).first_breach(
            BODY, np.array([1.0, 1.5]), np.array([2.0, 2.0]), np.array([0.0, 0.0])
        )
        is None
    )


@pytest.mark.parametrize(("before", "after"), [(3.0, -3.0), (-3.0, 3.0), (2.9, 3.3)])
def test_a_turn_across_south_sweeps_the_short_way_only(before: float, after: float) -> None:
    x, y, yaw = np.array([4.0, 4.1]), np.array([1.0, 1.0]), np.array([before, after])
    assert Fence([speck(4.0 - 0.54, 1.0)]).first_breach(BODY, x, y, yaw) == (
        0,
        "inside the keep-out zone speck",
    )
    for angle in (0.0, 0.5 * pi, -0.5 * pi):
        zone = speck(4.05 + 0.5 * cos(angle), 1.0 + 0.5 * sin(angle))
        assert Fence([zone]).first_breach(BODY, x, y, yaw) is None


@pytest.mark.parametrize("way", [1.0, -1.0])
def test_a_wide_step_is_looked_at_closely_before_it_counts(way: float) -> None:
    """A turn on the spot by 1 rad: its one rectangle is wider than what the body sweeps, which is a
    sector."""
    x, y = np.array([2.0, 2.0]), np.array([3.0, 3.0])
    yaw = np.array([0.3, 0.3 + way])
    outline = Outline(1.0, 0.0, 0.1)
    reach = outline.reach_m

    def zone(radius: float, turned: float) -> Fence:
        return Fence(
            [speck(2.0 + radius * cos(0.3 + way * turned), 3.0 + radius * sin(0.3 + way * turned))]
        )

    for turned in (0.02, 0.25, 0.5, 0.75, 0.98):
        assert zone(reach - 0.01, turned).first_breach(outline, x, y, yaw) == (
            0,
            "inside the keep-out zone speck",
        ), turned
        assert zone(reach + 0.03, turned).first_breach(outline, x, y, yaw) is None, turned
    for turned in (-0.2, 1.2):
        assert zone(0.9, turned).first_breach(outline, x, y, yaw) is None, turned
    assert int(swept(outline, x, y, yaw).left_m[0] > 0.5) == 1


def test_a_body_wholly_on_the_wrong_side_violates_without_touching_an_edge() -> None:
    """The rectangle is barely within the zone, so that no point beside the body would do."""
    for outline in OUTLINES:
        for yaw in (0.0, 1.2, 2.5):
            c, s = cos(yaw), sin(yaw)
            room = outline.widened(0.001)
            ring = [
                (5.0 + a * c - b * s, 6.0 + a * s + b * c)
                for a, b in (
                    (room.front_m, room.half_m),
                    (room.front_m, -room.half_m),
                    (-room.rear_m, -room.half_m),
                    (-room.rear_m, room.half_m),
                )
            ]
            fence = Fence([speck(50.0, 50.0), Polygon(tuple(ring), keep_out=True)])
            now, later = fence.breached(swept_on_arc(outline, (5.0, 6.0, yaw), 0.0, 0.0))
            assert now.tolist() == later.tolist() == [False, True]
            assert (
                not Fence([Polygon(tuple(ring))])
                .breached(swept_on_arc(outline, (5.0, 6.0, yaw), 0.0, 0.0))[0]
                .any()
            )


@pytest.mark.parametrize("yaw", [0.0, 0.8, -2.0])
def test_the_depth_of_a_spike_in_the_body_is_that_to_the_nearest_side(yaw: float) -> None:
    outline, c, s = Outline(1.0, 0.4, 0.3), cos(yaw), sin(yaw)
    inside = [
        (0.9, 0.1, 0.1),
        (-0.35, 0.1, 0.05),
        (0.3, 0.25, 0.05),
        (0.3, -0.25, 0.05),
        (0.3, 0.0, 0.3),
    ]
    outside = [(1.1, 0.0, 0.0), (0.3, 0.4, 0.0), (-0.5, 0.0, 0.0)]
    for ahead, left, side in inside + outside:
        # A spike from afar on the left, between the corners of the body.
        tip, *base = (
            (-2.0 + a * c - b * s, 3.0 + a * s + b * c)
            for a, b in ((ahead, left), (ahead + 0.01, 9.0), (ahead - 0.01, 9.0))
        )
        fence = Fence([speck(-2.0, 3.0), Polygon((tip, *base), keep_out=True)])
        assert fence.depth_m(1, outline, -2.0, 3.0, yaw) == pytest.approx(side, abs=1e-9)


def test_three_edges_beside_a_point_are_an_odd_number() -> None:
    comb = Polygon(
        (
            (0.0, 0.0),
            (9.0, 0.0),
            (9.0, 5.0),
            (7.0, 5.0),
            (7.0, 1.0),
            (5.0, 1.0),
            (5.0, 5.0),
            (3.0, 5.0),
            (3.0, 1.0),
            (0.0, 1.0),
        )
    )
    for x, inside in ((1.0, False), (4.0, True), (6.0, False), (8.0, True), (10.0, False)):
        assert (Fence([comb]).violated(x, 3.0) == "") is inside


def test_an_edge_counts_as_far_as_it_goes_and_touches_within_a_nanometre() -> None:
    body = Outline(1.0, 0.0, 0.5)
    pose = (0.0, 0.0, 0.0)

    def touched(*corners: tuple[float, float]) -> bool:
        return bool(
            Fence([Polygon(corners, keep_out=True)])
            .breached(swept_on_arc(body, pose, 0.0, 0.0))[0]
            .any()
        )

    for x, y in ((1.3, 0.0), (-0.3, 0.0), (0.5, 0.8), (0.5, -0.8)):
        # Each corner is near, and both edges there point at the body.
        assert not touched(
            (x, y),
            (x + 2.0 * (x - 0.5) - y, y + 2.0 * y + 0.1),
            (x + 2.0 * (x - 0.5) + y, y + 2.0 * y - 0.1),
        )
    for off, found in ((0.5e-9, True), (1.5e-9, False)):
        assert touched((1.0 + off, -2.0), (1.0 + off, 2.0), (5.0, 0.0)) is found, (
            "ahead, edge along the front"
        )
        assert touched((-off, -2.0), (-off, 2.0), (-5.0, 0.0)) is found, "behind"
        assert touched((-2.0, 0.5 + off), (2.0, 0.5 + off), (0.0, 5.0)) is found, "left"
        assert touched((-2.0, -0.5 - off), (2.0, -0.5 - off), (0.0, -5.0)) is found, "right"
    # Exactly at that distance the slab and the edge along it give 0 / 0.
    assert touched((-TOUCH_M, -2.0), (-TOUCH_M, 2.0), (-5.0, 0.0))
    assert touched((1.0 + TOUCH_M, -2.0), (1.0 + TOUCH_M, 2.0), (5.0, 0.0))
    # Beside the body an edge along its front meets nothing.
    assert not touched((0.5, 0.6), (0.5, 2.0), (0.6, 2.0))
    assert touched((0.5, 0.4), (0.5, 2.0), (0.6, 2.0))


def test_names_are_cut_and_rings_may_have_ten_thousand_corners() -> None:
    def fence_of(count: int, name: str) -> Fence:
        angles = np.linspace(0.0, 2.0 * pi, count, endpoint=False)
        degree = [LOT_17.to_geodetic(50.0 * cos(a), 50.0 * sin(a), 0.0)[:2] for a in angles]
        ring = [[degrees(longitude), degrees(latitude)] for latitude, longitude in degree]
        shape = {"type": "Polygon", "coordinates": [[*ring, ring[0]]]}
        return read_geojson(
            json.dumps(
                {"type": "Feature", "properties": {"name": name}, "geometry": shape}
            ).encode(),
            "yard",
            LOT_17,
        )

    assert fence_of(4, "n" * 70).polygons[0].name == "n" * 60
    assert len(fence_of(MAX_CORNERS, "").polygons[0].corners) == MAX_CORNERS == 10_000
    with pytest.raises(CourseError, match="10001 corners"):
        fence_of(MAX_CORNERS + 1, "")
