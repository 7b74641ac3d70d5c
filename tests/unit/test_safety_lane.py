"""The lane by itself: where its stations lie, and the free distance to points just inside and just
outside of it."""

from dataclasses import replace as with_arrays
from itertools import pairwise
from math import atan, cos, exp, hypot, inf, sin

import numpy as np
import pytest
from msgspec.structs import replace

from tests.unit.test_machine import VEHICLE
from vehicled.paths.course import Course
from vehicled.paths.formulas import circle, figure_eight, parallel_parking, straight
from vehicled.paths.lateral_offset import LateralOffset
from vehicled.safety.monitors.lane import CourseLane, LaneBody, Stations, arc

LINE, LAP, PARKING = straight(20.0), circle(5.0), parallel_parking()
BODY = LaneBody(VEHICLE, 0.1)
FRONT_M, REAR_M, HALF_M = VEHICLE.outline
SIDE_M = HALF_M + 0.1


# ----------------------------------------------------------------------------------------- stations


@pytest.mark.parametrize(
    ("progress_m", "horizon_m", "from_m", "way_m", "count"),
    [
        (5.0, 3.0, 5.0, 3.0, 61), (5.0, 3.3, 5.0, 3.3, 64), (5.0, 0.03, 5.0, 0.03, 2),
        (19.0, 3.0, 19.0, 1.0, 21), (25.0, 3.0, 20.0, 0.0, 2), (-2.0, 3.0, 0.0, 3.0, 61),
        (5.0, -1.0, 5.0, 0.0, 2), (5.0, 0.1, 5.0, 0.1, 3),
    ],
)  # fmt: skip
def test_stations_along_a_line(
    progress_m: float, horizon_m: float, from_m: float, way_m: float, count: int
) -> None:
    lane = CourseLane(LINE).ahead(progress_m, 0.7, horizon_m)
    assert len(lane.way_m) == count
    assert lane.way_m == pytest.approx(np.linspace(0.0, way_m, count))
    assert lane.x_m == pytest.approx(from_m + lane.way_m)
    assert lane.y_m == pytest.approx(0.0 * lane.way_m)
    assert (lane.aside_m, lane.direction) == (0.7, 1)


@pytest.mark.parametrize("progress_m", [0.0, 3.0, -1.0, LAP.length_m - 1.0, LAP.length_m + 3.0])
def test_a_lap_goes_on_over_its_start(progress_m: float) -> None:
    lane = CourseLane(LAP).ahead(progress_m, 0.0, 3.0)
    assert lane.way_m[-1] == 3.0
    assert np.diff(lane.yaw_rad) == pytest.approx(3.0 / 60 / 5.0, rel=0.1)
    steps = np.hypot(np.diff(lane.x_m), np.diff(lane.y_m))
    assert steps == pytest.approx(0.05, rel=0.01)
    first = CourseLane(LAP).ahead(progress_m % LAP.length_m, 0.0, 3.0)
    assert first.x_m == pytest.approx(lane.x_m)


@pytest.mark.parametrize("lap", [LAP, figure_eight(), circle(5.0, "cw")])
@pytest.mark.parametrize("yaw_rad", [0.0, 2.0, -2.0, 2.9])
def test_the_heading_of_a_lap_is_continuous_over_its_start(lap: Course, yaw_rad: float) -> None:
    """Also where the lap begins in another direction, turns to the right, or turns back as in a
    figure eight."""
    lap = with_arrays(lap, yaw_rad=lap.yaw_rad + yaw_rad)
    lane = CourseLane(lap).ahead(lap.length_m - 2.0, 0.0, 4.0)
    assert np.abs(np.diff(lane.yaw_rad)).max() < 0.05
    assert lane.yaw_rad[0] == pytest.approx(
        float(np.interp(lap.length_m - 2.0, lap.s_m, lap.yaw_rad))
    )


def test_a_lap_seen_from_its_last_metres_reaches_into_the_next() -> None:
    lane = CourseLane(LAP).ahead(LAP.length_m - 0.5, 0.0, 20.0)
    assert lane.way_m[-1] == 20.0
    again = CourseLane(LAP).ahead(19.5, 0.0, 1.0)
    assert (lane.x_m[-1], lane.y_m[-1]) == pytest.approx((again.x_m[0], again.y_m[0]), abs=0.01)


def test_a_lane_ends_at_a_cusp_and_belongs_to_its_leg() -> None:
    cusps = [float(PARKING.s_m[k]) for k in PARKING.cusps]
    ends = [0.0, *cusps, PARKING.length_m]
    for k, (begin, end) in enumerate(pairwise(ends)):
        direction = 1 if PARKING.speed_mps[int(np.searchsorted(PARKING.s_m, begin))] > 0.0 else -1
        for at_m in (begin, begin + 0.3):
            lane = CourseLane(PARKING).ahead(at_m, 0.0, 100.0)
            assert lane.way_m[-1] == pytest.approx(end - at_m), k
            assert lane.direction == direction
    assert len({CourseLane(PARKING).ahead(at_m, 0.0, 1.0).direction for at_m in ends[:-1]}) == 2


def test_a_planned_path_is_laid_beside_the_course() -> None:
    offset = LateralOffset(5.0, 2.0, 0.2, 0.0, 0.8)
    lane = CourseLane(LINE).ahead(4.5, 0.5, 3.0, offset)
    s = 4.5 + np.linspace(0.0, 3.0, 61)
    assert lane.x_m == pytest.approx(s)
    assert lane.y_m == pytest.approx(offset.at(s))
    assert lane.yaw_rad == pytest.approx([atan(slope) for slope in offset.slope(s)])
    assert lane.aside_m == pytest.approx(0.3)
    assert lane.way_m[0] == 0.0
    assert np.diff(lane.way_m) == pytest.approx(np.hypot(np.diff(lane.x_m), np.diff(lane.y_m)))
    beside = CourseLane(LAP).ahead(3.0, 1.0, 1.0, LateralOffset(0.0, 1.0, 1.0, 0.0, 1.0))
    along = CourseLane(LAP).ahead(3.0, 1.0, 1.0)
    yaw = float(along.yaw_rad[0])
    assert (beside.x_m[0], beside.y_m[0]) == pytest.approx(
        (along.x_m[0] - sin(yaw), along.y_m[0] + cos(yaw))
    )
    assert beside.aside_m == 0.0


@pytest.mark.parametrize("direction", [1, -1])
def test_an_arc_of_the_wheels(direction: int) -> None:
    lane = arc(1.0, 2.0, 0.5, 0.2, direction, 1.0)
    assert lane.yaw_rad == pytest.approx(0.5 + 0.2 * direction * lane.way_m)
    assert (lane.aside_m, lane.direction, lane.way_m[-1]) == (0.0, direction, 1.0)
    assert hypot(lane.x_m[-1] - 1.0, lane.y_m[-1] - 2.0) == pytest.approx(2.0 * 5.0 * sin(0.1))
    assert cos(0.5) * (lane.x_m[-1] - 1.0) * direction > 0.0


# ------------------------------------------------------------------------------------ free distance


def ahead(aside_m: float = 0.0, direction: int = 1, yaw: float = 0.0) -> Stations:
    """Three metres from (1, 2) on, in the direction of ``yaw``."""
    way = np.linspace(0.0, 3.0, 61)
    driven = direction * way
    return Stations(
        way, 1.0 + driven * cos(yaw), 2.0 + driven * sin(yaw), np.full(61, yaw), aside_m, direction
    )


def free(lane: Stations, forward_m: float, left_m: float, body: LaneBody = BODY) -> float:
    """Return the free distance to a point in the frame of the first station."""
    yaw = float(lane.yaw_rad[0])
    x = 1.0 + cos(yaw) * forward_m - sin(yaw) * left_m
    y = 2.0 + sin(yaw) * forward_m + cos(yaw) * left_m
    return body.free_m(lane, np.array([x]), np.array([y]))


@pytest.mark.parametrize("yaw", [0.0, 2.0, -1.0])
@pytest.mark.parametrize("direction", [1, -1])
def test_the_leading_end_meets_what_is_ahead(yaw: float, direction: int) -> None:
    lane = ahead(direction=direction, yaw=yaw)
    lead_m, tail_m = (FRONT_M, REAR_M) if direction > 0 else (REAR_M, FRONT_M)
    for way_m in (0.01, 0.5, 1.02, 2.99):
        for left_m in (0.0, SIDE_M - 0.001, 0.001 - SIDE_M):
            assert free(lane, direction * (lead_m + way_m), left_m) == pytest.approx(way_m)
    for forward_m, left_m in (
        (lead_m + 3.01, 0.0), (lead_m + 1.0, SIDE_M + 0.001), (lead_m + 1.0, -SIDE_M - 0.001),
        (-tail_m - 0.01, 0.0), (lead_m - 0.01, 0.0), (-tail_m + 0.01, HALF_M + 0.05), (0.0, 0.0),
    ):  # fmt: skip
        assert free(lane, direction * forward_m, left_m) == inf
    both = np.array(
        [
            1.0 + direction * cos(yaw) * (lead_m + 2.0),
            1.0 + direction * cos(yaw) * (lead_m + 1.0),
            90.0,
        ]
    )
    sides = np.array(
        [
            2.0 + direction * sin(yaw) * (lead_m + 2.0),
            2.0 + direction * sin(yaw) * (lead_m + 1.0),
            90.0,
        ]
    )
    assert BODY.free_m(lane, both, sides) == pytest.approx(1.0), "the nearest counts"
    assert BODY.free_m(lane, np.array([]), np.array([])) == inf


@pytest.mark.parametrize("aside_m", [0.4, -0.4])
@pytest.mark.parametrize("direction", [1, -1])
def test_a_vehicle_beside_its_line_comes_back_to_it_within_metres(
    aside_m: float, direction: int
) -> None:
    """The lane reaches from the line to the track of the vehicle, which comes nearer by a third
    every two metres."""
    lane = ahead(aside_m, direction)
    lead_m = FRONT_M if direction > 0 else REAR_M
    side = 1.0 if aside_m > 0.0 else -1.0
    for way_m in (0.1, 1.0, 2.5):
        # The body is as long as it is: its tail still passes when its front has passed.
        edge_m = SIDE_M + 0.4 * exp(-way_m / 2.0)
        forward_m = direction * (lead_m + way_m)
        assert free(lane, forward_m, side * (edge_m - 0.02)) == pytest.approx(way_m, abs=0.06)
        assert free(lane, forward_m, side * (edge_m + 0.02)) == inf
        assert free(lane, forward_m, -side * (SIDE_M - 0.001)) == pytest.approx(way_m)
        assert free(lane, forward_m, -side * (SIDE_M + 0.001)) == inf


def test_what_is_beside_the_vehicle_blocks_it_only_where_it_turns_towards_it() -> None:
    bend = arc(1.0, 2.0, 0.0, 1.0, 1, 2.0)
    for beside_m in (0.005, 0.02):
        assert free(bend, 0.3, HALF_M + beside_m) < 0.3, (
            "the body touches it, at once or after some steps"
        )
    assert free(bend, 0.3, -HALF_M - 0.02) == inf
    assert free(ahead(), 0.3, HALF_M + 0.05) == inf
    assert free(bend, 0.3, HALF_M - 0.05) == inf, "it stands in it"


def test_far_points_are_left_out_and_the_last_corner_is_not() -> None:
    lane = ahead()
    assert free(lane, FRONT_M + 2.999, SIDE_M - 0.001) == pytest.approx(2.999)
    body = LaneBody(replace(VEHICLE, width_m=2.0), 1.0)
    front_m, _, half_m = body.outline
    assert (body.half_m, body.side_m, body.reach_m) == (half_m, 1.0, body.outline.reach_m)
    for side in (1.0, -1.0):
        assert free(lane, front_m + 2.999, side * (half_m + 0.999), body) == pytest.approx(2.999)
    aside = ahead(3.0)
    assert free(aside, front_m + 2.999, half_m + 0.999 + 3.0 * exp(-1.5), body) == pytest.approx(
        2.999, abs=0.06
    )
    # Also where the vehicle is to the right of its line: as far ahead as the lane goes.
    assert free(ahead(-3.0), FRONT_M + 2.999, 0.0) == pytest.approx(2.999)
    assert free(ahead(), FRONT_M + 0.001, 0.0) == pytest.approx(0.001)


def test_far_corners_of_a_wide_body_are_not_left_out() -> None:
    body = LaneBody(replace(VEHICLE, width_m=6.0), 4.0)
    front_m, _, half_m = body.outline
    way = np.linspace(0.0, 0.1, 3)
    lane = Stations(way, 1.0 + way, np.full(3, 2.0), np.zeros(3), 0.0, 1)
    for side in (1.0, -1.0):
        assert free(lane, front_m + 0.049, side * (half_m + 3.99), body) == pytest.approx(0.049)


def test_the_end_of_a_long_lane_is_looked_at() -> None:
    way = np.linspace(0.0, 60.0, 64)
    lane = Stations(way, 1.0 + way, np.full(64, 2.0), np.zeros(64), 0.0, 1)
    assert free(
        lane, FRONT_M + 59.9, 0.0, LaneBody(replace(VEHICLE, width_m=0.2), 0.0)
    ) == pytest.approx(59.9)


def test_a_lap_is_seen_to_the_end_of_the_next() -> None:
    lane = CourseLane(LAP).ahead(1.0, 0.0, 1000.0)
    assert lane.way_m[-1] == pytest.approx(LAP.length_m + float(LAP.s_m[-1]) - 1.0)


def test_a_vehicle_between_two_lines_is_aside_of_the_planned_one() -> None:
    offset = LateralOffset(5.0, 2.0, 0.2, 0.0, 0.8)
    for at_m in (5.5, 6.0, 6.5):
        lane = CourseLane(LINE).ahead(at_m, 0.5, 3.0, offset)
        assert lane.aside_m == pytest.approx(0.5 - float(offset.at(at_m)))
