"""Fences: polygons, their files, and the stop that would leave them."""

import json
from itertools import pairwise
from math import cos, degrees, hypot, inf, pi, radians, sin
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.strategies import near
from tests.unit.test_machine import VEHICLE
from tests.unit.test_safety_supervisor import ESTIMATE, LIMITS
from vehicled.core.messages import Mode
from vehicled.core.vehicle import Outline
from vehicled.paths.catalog import load_course
from vehicled.paths.course import Course
from vehicled.paths.datum import LOT_17
from vehicled.paths.errors import CourseError
from vehicled.safety.fence import Fence, Polygon, read_geojson
from vehicled.safety.inputs import SafetyInputs
from vehicled.safety.monitors import Monitors
from vehicled.safety.monitors.stopping import StoppingMonitor

COORDINATE = st.floats(-1e3, 1e3, width=32)
SQUARE = Polygon(((0.0, 0.0), (10.0, 0.0), (10.0, 10.0), (0.0, 10.0)))
L_SHAPE = Polygon(((0.0, 0.0), (4.0, 0.0), (4.0, 2.0), (2.0, 2.0), (2.0, 4.0), (0.0, 4.0)))


@given(near(0.0, 10.0), near(0.0, 10.0))
def test_inside_a_square_and_outside_and_at_its_edge(x: float, y: float) -> None:
    off_x, off_y = max(-x, x - 10.0), max(-y, y - 10.0)
    wanted_m = (
        -max(off_x, off_y) if max(off_x, off_y) <= 0.0 else hypot(max(off_x, 0.0), max(off_y, 0.0))
    )
    assert Fence([SQUARE]).clear_m(x, y) == pytest.approx(wanted_m, abs=1e-12)
    if max(off_x, off_y) != 0.0:
        inside = max(off_x, off_y) < 0.0
        assert (Fence([SQUARE]).violated(x, y) == "") is inside
        assert (Fence([SQUARE._replace(keep_out=True)]).violated(x, y) == "") is not inside


@given(st.floats(0.0, 2.0 * pi), near(1.0, scale=1.0, low=0.0))
def test_the_even_odd_rule_agrees_with_a_circle_of_many_corners(
    angle: float, radius: float
) -> None:
    ring = Polygon(tuple((cos(k * pi / 500), sin(k * pi / 500)) for k in range(1000)))
    if abs(radius - 1.0) > 1e-4:
        x, y = radius * cos(angle), radius * sin(angle)
        assert (Fence([ring]).violated(x, y) == "") == (radius < 1.0)
        assert Fence([ring]).clear_m(x, y) == pytest.approx(abs(radius - 1.0), abs=1e-4)


def test_a_concave_fence_and_a_zone_that_must_not_be_entered() -> None:
    fence = Fence(
        [
            L_SHAPE,
            Polygon(((0.5, 0.5), (1.0, 0.5), (1.0, 1.0), (0.5, 1.0)), keep_out=True, name="bed"),
        ]
    )
    assert fence.violated(3.0, 1.0) == ""
    assert fence.violated(3.0, 3.0) == "outside the fence"
    assert fence.violated(0.7, 0.7) == "inside the keep-out zone bed"
    assert fence.depth_m(0, Outline(0.0, 0.0, 0.0), 3.0, 3.0, 0.0) == pytest.approx(1.0)


def geojson(corners: list[tuple[float, float]], **properties: object) -> dict[str, object]:
    ring = []
    for x, y in [*corners, corners[0]]:
        latitude, longitude, _ = LOT_17.to_geodetic(x, y, 0.0)
        ring.append([degrees(longitude), degrees(latitude)])
    return {
        "type": "Feature",
        "properties": properties,
        "geometry": {"type": "Polygon", "coordinates": [ring]},
    }


def test_a_file_gives_the_polygons_in_metres() -> None:
    features = [
        geojson(list(SQUARE.corners), name="yard"),
        geojson([(4.0, 4.0), (6.0, 4.0), (5.0, 6.0)], keep_out=True),
    ]
    fence = read_geojson(
        json.dumps({"type": "FeatureCollection", "features": features}).encode(),
        "yard.geojson",
        LOT_17,
    )
    assert [(len(p.corners), p.keep_out, p.name) for p in fence.polygons] == [
        (4, False, "yard"),
        (3, True, ""),
    ]
    for found, wanted in zip(fence.polygons[0].corners, SQUARE.corners, strict=True):
        assert hypot(found[0] - wanted[0], found[1] - wanted[1]) < 1e-6
    assert fence.violated(1.0, 1.0) == ""
    assert "keep-out" in fence.violated(5.0, 4.5)
    assert "yard" in fence.violated(11.0, 5.0)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[]", "GeoJSON"),
        ("{", "yard.geojson"),
        ('{"type": "FeatureCollection"}', "list of features"),
        ('{"type": "LineString", "coordinates": [[1, 2], [3, 4]]}', "no polygon"),
        ('{"type": "Polygon", "coordinates": [[[1, 2], [3, 4]]]}', "2 corners"),
        (
            '{"type": "Polygon", "coordinates": [[[1, 2], [3, 400], [1, 2.5], [0, 0]]]}',
            "longitude, latitude",
        ),
        ('{"type": "Polygon", "coordinates": 7}', "list of rings"),
        ('{"type": "MultiPolygon", "coordinates": 7}', "list of polygons"),
        ('{"type": "Polygon", "coordinates": [[[1, 2], ["3", 4]]]}', "feature 1 ring 1 position 2"),
        (
            (
                '{"type": "Polygon", "coordinates": [], "crs": {"properties": {"name": '
                '"EPSG:25832"}}}'
            ),
            "export the file in WGS 84",
        ),
        (
            (
                '{"type": "FeatureCollection", "features": [{"type": "Feature", "geometry": null}, '
                "7]}"
            ),
            "feature 2",
        ),
        (
            (
                '{"type": "Feature", "properties": {"keep_out": "yes"}, "geometry": {"type": '
                '"Polygon", "coordinates": []}}'
            ),
            "keep_out",
        ),
    ],
)
def test_a_bad_file_is_reported_with_its_place(text: str, named: str) -> None:
    with pytest.raises(CourseError, match=r"yard\.geojson") as caught:
        read_geojson(text.encode(), "yard.geojson", LOT_17)
    assert named in str(caught.value)


def stopping(course: Course | None, fence: Fence | None) -> Monitors:
    return Monitors(LIMITS, VEHICLE, course=course, fence=fence)


def update(
    monitors: Monitors, x: float, y: float, yaw: float, speed: float, yaw_rate: float = 0.0
) -> StoppingMonitor:
    estimate = replace(
        ESTIMATE, x_m=x, y_m=y, yaw_rad=yaw, speed_mps=speed, yaw_rate_radps=yaw_rate
    )
    s = SafetyInputs(now_ns=0, mode=Mode.AUTO, limits=LIMITS, estimate=estimate)
    monitors.place.update(s)
    monitors.stopping.update(s)
    return monitors.stopping


def test_the_stop_is_predicted_and_a_fence_ahead_is_seen_before_it_is_reached() -> None:
    monitor = stopping(None, Fence([SQUARE]))
    monitor.stopping.measured(0.1, 0.1)
    inside = update(monitor, 5.0, 5.0, 0.0, 1.0)
    assert inside.leaves == ""
    way = inside.distance_m
    assert way > 0.2
    front = 0.5 * (VEHICLE.length_m + VEHICLE.wheelbase_m)
    assert update(monitor, 10.0 - 0.9 * way - front, 5.0, 0.0, 1.0).leaves == "outside the fence", (
        "with its bumper"
    )
    assert update(monitor, 10.0 - 1.1 * way - front, 5.0, 0.0, 1.0).leaves == ""
    assert update(monitor, 5.0, 9.9 - 0.5 * VEHICLE.width_m, 0.0, 1.0).leaves == ""
    assert update(monitor, 5.0, 9.9, 0.05, 1.0).leaves == "outside the fence", "with its side"
    assert update(monitor, 10.0 - 0.9 * way, 5.0, pi, 1.0).leaves == "", "it drives away from it"
    assert update(monitor, 10.0 - 0.9 * way, 5.0, pi, -1.0).leaves == "outside the fence", (
        "backward"
    )


def test_the_whole_body_counts_with_its_overhangs() -> None:
    """Between its corners, beside its middle, behind it, and in it."""
    speck = Polygon(((5.0, 5.0), (5.02, 5.0), (5.0, 5.02)), keep_out=True, name="speck")
    vehicle = replace(VEHICLE, front_overhang_m=0.05)
    rear_m = VEHICLE.length_m - VEHICLE.wheelbase_m - 0.05
    assert vehicle.outline == pytest.approx(
        (VEHICLE.wheelbase_m + 0.05, rear_m, 0.5 * VEHICLE.width_m)
    )
    assert replace(vehicle, skid_steer=True).outline[0] == pytest.approx(
        0.5 * VEHICLE.wheelbase_m + 0.05
    )
    monitors = Monitors(LIMITS, vehicle, fence=Fence([SQUARE, speck]))
    for ahead, left, inside in (
        (0.2, 0.0, True), (0.2, 0.19, True), (0.2, -0.19, True), (-0.9 * rear_m, 0.1, True),
        (-1.3 * rear_m, 0.1, False), (0.2, 0.25, False), (VEHICLE.wheelbase_m + 0.02, 0.0, True),
        (VEHICLE.wheelbase_m + 0.08, 0.0, False),
    ):  # fmt: skip
        found = update(monitors, 5.0 - ahead, 5.0 - left, 0.0, 0.0)
        assert (found.outside == "inside the keep-out zone speck") is inside, (ahead, left)
    across = Fence([SQUARE._replace(keep_out=True, corners=((5.0, 0.0), (5.0, 9.0), (5.001, 9.0)))])
    assert update(stopping(None, across), 4.8, 5.0, 0.0, 0.0).outside == "inside the keep-out zone"


def test_what_the_side_and_the_rear_sweep_counts_until_it_stands() -> None:
    beside = Polygon(((5.6, 5.25), (5.62, 5.25), (5.6, 5.27)), keep_out=True, name="speck")
    monitors = stopping(None, Fence([beside]))
    monitors.stopping.measured(0.5, 0.4)
    assert update(monitors, 5.0, 5.0, 0.0, 1.0).leaves == ""
    assert (
        update(monitors, 5.0, 5.0, 0.0, 1.0, yaw_rate=0.6).leaves
        == "inside the keep-out zone speck"
    )
    assert update(monitors, 5.0, 5.0, 0.0, 1.0, yaw_rate=-0.6).leaves == ""
    assert update(monitors, 6.5, 5.0, -0.2, -1.0).leaves == "inside the keep-out zone speck", (
        "backward"
    )
    assert monitors.stopping.distance_m > 1.0


def test_far_from_every_edge_the_sides_are_known_without_looking_at_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[tuple[Any, ...]] = []
    wrong_side = Fence.wrong_side

    def counted(*arguments: Any) -> Any:
        calls.append(arguments)
        return wrong_side(*arguments)

    monkeypatch.setattr(Fence, "wrong_side", counted)
    yard = Polygon(((-500.0, -500.0), (500.0, -500.0), (500.0, 500.0), (-500.0, 500.0)))
    monitors = stopping(None, Fence([yard]))
    for k in range(4000):
        update(monitors, 0.1 * k, 0.0, 0.0, 1.0)
    assert len(calls) < 10
    for k in range(4000, 5000):
        if update(monitors, 0.1 * k, 0.0, 0.0, 1.0).leaves:
            break
    assert 499.0 < 0.1 * k + 0.5 + monitors.stopping.distance_m < 500.2
    assert update(monitors, 520.0, 0.0, 0.0, 1.0).outside == "outside the fence"


def test_a_bend_is_followed() -> None:
    monitor = stopping(None, Fence([SQUARE]))
    monitor.stopping.measured(0.5, 0.5)
    way = update(monitor, 5.0, 5.0, 0.0, 1.0).distance_m
    straight = update(monitor, 10.0 - 0.8 * way, 5.0, 0.0, 1.0)
    assert straight.leaves
    turning = update(monitor, 10.0 - 0.8 * way, 5.0, 0.0, 1.0, yaw_rate=radians(90.0) / way * 1.6)
    assert turning.leaves == ""


def test_whoever_is_outside_may_drive_back_in_and_not_further_out() -> None:
    monitor = stopping(None, Fence([SQUARE]))
    back = update(monitor, 12.0, 5.0, pi, 0.5)
    assert (back.outside, back.leaves) == ("outside the fence", "")
    assert update(monitor, 12.0, 5.0, 0.0, 0.5).leaves == "outside the fence"


def test_a_later_reaction_allows_less_speed_before_a_bend_and_none_before_a_straight() -> None:
    circle, straight = load_course("circle_r2_ccw"), load_course("straight_30m")
    bend = stopping(circle, None)
    caps = []
    for lag in (0.0, 0.2, 0.5, 1.0):
        bend.stopping.measured(lag, 0.0)
        caps.append(update(bend, 0.0, 0.0, 0.0, 1.0).cap_mps)
    assert caps == sorted(caps, reverse=True)
    assert caps[0] > caps[-1] >= LIMITS.capped_speed_mps
    assert update(stopping(straight, None), 0.0, 0.0, 0.0, 1.0).cap_mps > LIMITS.max_speed_mps


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1e300])
def test_an_estimate_that_is_no_number_predicts_nothing(bad: float) -> None:
    monitor = stopping(load_course("straight_30m"), Fence([SQUARE]))
    update(monitor, bad, 0.0, 0.0, 1.0)
    update(monitor, 0.0, 0.0, 0.0, bad)
    assert monitor.stopping.leaves in ("", "outside the fence")


def test_what_is_learnt_of_the_brake_lengthens_the_stop() -> None:
    monitor = stopping(None, None).stopping
    believed_m = monitor.way_m(1.0)
    drive = VEHICLE.drive
    monitor.adapt(replace(VEHICLE, drive=replace(drive, friction_nm=0.3 * drive.friction_nm)))
    assert monitor.way_m(1.0) > 1.2 * believed_m
    monitor.adapt(replace(VEHICLE, drive=replace(drive, friction_nm=3.0 * drive.friction_nm)))
    assert monitor.way_m(1.0) == believed_m, "what an identifier says does not shorten it"


def distance_m(polygon: Polygon, x_m: float, y_m: float) -> float:
    """Distance to the nearest point of the edge, edge by edge."""
    best = inf
    for (x1, y1), (x2, y2) in pairwise((*polygon.corners, polygon.corners[0])):
        dx, dy = x2 - x1, y2 - y1
        square = dx * dx + dy * dy
        share = min(max(((x_m - x1) * dx + (y_m - y1) * dy) / square, 0.0), 1.0) if square else 0.0
        best = min(best, hypot(x1 + share * dx - x_m, y1 + share * dy - y_m))
    return best


@given(st.lists(st.tuples(COORDINATE, COORDINATE), min_size=3, max_size=9), COORDINATE, COORDINATE)
def test_the_way_to_the_nearest_edge_is_that_of_the_polygons(
    corners: list[tuple[float, float]], x_m: float, y_m: float
) -> None:
    polygon = Polygon(tuple(corners))
    assert Fence([polygon, SQUARE]).clear_m(x_m, y_m) == pytest.approx(
        min(distance_m(polygon, x_m, y_m), distance_m(SQUARE, x_m, y_m)), abs=1e-6
    )
    assert Fence([]).clear_m(x_m, y_m) == inf
