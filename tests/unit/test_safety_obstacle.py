"""Obstacles in the lane: the vehicle's swept rectangle, readings that are believed, and scans that
are not."""

from math import cos, inf, nan, pi, sin, tan
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from vehicled.core.messages import (
    ActuatorCommand,
    EstimatorStatus,
    LaserScan,
    Message,
    Mode,
    ObstacleRange,
    OperatorAction,
    StateEstimate,
)
from vehicled.core.ports import NEVER_NS
from vehicled.paths.catalog import load_course
from vehicled.paths.course import course_from_waypoints
from vehicled.paths.lateral_offset import LateralOffset
from vehicled.profile import load_profile
from vehicled.safety.arming import missing
from vehicled.safety.monitors import Monitors
from vehicled.safety.monitors.lane import CourseLane, LaneBody, arc
from vehicled.safety.rule import RuleInputs

PROFILE = load_profile("art_vesc")
VEHICLE, LIMITS = PROFILE.vehicle, PROFILE.limits
COURSE = load_course("lot17")
BODY = LaneBody(VEHICLE, LIMITS.obstacle_side_m)
FRONT_M, HALF_M = BODY.front_m, 0.5 * VEHICLE.width_m + LIMITS.obstacle_side_m
NOW = 50_000_000_000
SPEED_MPS = 1.0


def situation(
    monitors,
    *,
    x=5.0,
    y=0.0,
    yaw=0.0,
    speed=SPEED_MPS,
    mode=Mode.AUTO,
    sent=None,
    planned=None,
    now_ns=NOW,
):
    estimate = StateEstimate(
        now_ns, now_ns, x, y, yaw, speed, 0.0, (0.01,) * 16, EstimatorStatus.RUNNING
    )
    return RuleInputs(
        now_ns=now_ns,
        mode=mode,
        limits=LIMITS,
        monitors=monitors,
        estimate=estimate,
        sent=sent,
        planned_offset=planned,
    )


def straight(length_m=40.0):
    return course_from_waypoints("straight", [0.0, length_m], [0.0, 0.0])


def scan_of(points, *, pose=(5.0, 0.0, 0.0), t_ns=NOW, mount=(0.45, 0.0)):
    """A scan in which rays meet points of the map, seen from a pose; all at once."""
    x0, y0, yaw = pose
    sx = x0 + cos(yaw) * mount[0] - sin(yaw) * mount[1]
    sy = y0 + sin(yaw) * mount[0] + cos(yaw) * mount[1]
    ranges, count = np.full(721, inf), 721
    for x, y in points:
        bearing = (np.arctan2(y - sy, x - sx) - yaw + pi) % (2 * pi) - pi
        ranges[round((bearing + pi) / (2 * pi / (count - 1)))] = np.hypot(x - sx, y - sy)
    return LaserScan(
        t_ns,
        t_ns,
        -pi,
        2 * pi / (count - 1),
        0.0,
        0.05,
        0.05,
        25.0,
        mount[0],
        mount[1],
        tuple(ranges.tolist()),
    )


def watching(course=None):
    return Monitors(LIMITS, VEHICLE, (), course if course is not None else straight())


def read(monitors, messages, **where):
    for message in messages:
        monitors.on_message(message, NOW)
        monitors.update(situation(monitors, **where))
    return monitors.obstacle.free_m


# ----------------------------------------------------------------------------------------- geometry


@given(st.floats(-0.7, 0.7), st.sampled_from([1, -1]), st.floats(-4.0, 5.0), st.floats(-3.0, 3.0))
def test_the_swept_rectangle_is_that_of_a_slow_march(curvature, direction, x, y):
    lane = arc(0.0, 0.0, 0.0, curvature, direction, 3.0)
    found = BODY.free_m(lane, np.array([x]), np.array([y]))
    lead, tail = (FRONT_M, BODY.rear_m) if direction > 0 else (BODY.rear_m, FRONT_M)

    def holds(way, room=0.0):
        turned = direction * way * curvature
        middle = turned / 2
        chord = way if curvature == 0.0 else 2.0 / abs(curvature) * sin(abs(turned) / 2)
        px, py = x - direction * chord * cos(middle), y - direction * chord * sin(middle)
        forward, left = cos(turned) * px + sin(turned) * py, cos(turned) * py - sin(turned) * px
        ahead = direction * forward
        return -tail - room <= ahead <= lead + room and abs(left) <= HALF_M + room

    if holds(0.0, 1e-6):
        assert found == inf, "what is beside it already is not ahead"
        return
    step = 0.002
    march = next((k * step for k in range(int(3.0 / step) + 1) if holds(k * step)), inf)
    if march == inf:
        assert found == inf or holds(found, 0.06) or holds(found + 0.05, 0.06)
    elif found == inf:
        # A corner that is cut by less than a step of the stations.
        assert not holds(march + 0.06) or march > 2.9
    else:
        assert march - 0.06 <= found <= march + 0.01


def test_a_lane_follows_its_course_round_a_bend_and_a_beam_does_not():
    """An obstacle straight ahead of the sine's first corner is beside the lane; one in the bend is
    in it."""
    circle = load_course("circle_r5_ccw")
    lane = CourseLane(circle).ahead(3.0, 0.0, 6.0)
    k = int(np.searchsorted(circle.s_m, 3.0 + FRONT_M + 3.0))
    in_the_bend = np.array([circle.x_m[k]]), np.array([circle.y_m[k]])
    assert BODY.free_m(lane, *in_the_bend) == pytest.approx(3.0, abs=0.15)
    straight_on = (
        lane.x_m[:1] + 4.5 * np.cos(lane.yaw_rad[0]),
        lane.y_m[:1] + 4.5 * np.sin(lane.yaw_rad[0]),
    )
    assert BODY.free_m(lane, *straight_on) == inf


def test_a_lap_goes_on_over_its_line_and_an_open_course_ends():
    circle = load_course("circle_r5_ccw")
    lane = CourseLane(circle).ahead(circle.length_m - 1.0, 0.0, 3.0)
    assert np.hypot(np.diff(lane.x_m), np.diff(lane.y_m)).max() < 0.1
    assert np.abs(np.diff(lane.yaw_rad)).max() < 0.05
    assert lane.way_m[-1] == pytest.approx(3.0)
    assert CourseLane(straight(10.0)).ahead(9.0, 0.0, 3.0).way_m[-1] == pytest.approx(1.0)


def test_a_course_that_is_driven_backward_is_looked_along_backward():
    course = course_from_waypoints(
        "park", [0.0, 5.0, 0.0], [0.0, 0.0, 0.0], speed=[1.0, -1.0, -1.0]
    )
    lane = CourseLane(course)
    there, back = lane.ahead(1.0, 0.0, 10.0), lane.ahead(6.0, 0.0, 10.0)
    assert (there.direction, back.direction) == (1, -1)
    assert there.x_m[-1] == pytest.approx(5.0, abs=0.06)
    behind = np.array([1.0]), np.array([0.0])
    assert BODY.free_m(back, *behind) == pytest.approx(4.0 - 1.0 - BODY.rear_m, abs=0.1)
    assert BODY.free_m(there, *behind) == inf


def test_beside_its_course_both_its_own_track_and_the_course_count():
    lane = CourseLane(straight()).ahead(5.0, 0.8, 3.0)
    ahead = 5.0 + FRONT_M + 1.0
    for left, met in (
        (0.4 + HALF_M, True),
        (0.0, True),
        (-HALF_M + 0.02, True),
        (-HALF_M - 0.05, False),
        (1.6, False),
    ):
        assert (BODY.free_m(lane, np.array([ahead]), np.array([left])) < inf) is met, left


def test_a_thin_post_beside_the_front_is_met_by_a_body_that_turns_and_not_by_one_that_passes():
    beside = np.array([FRONT_M - 0.05]), np.array([0.5 * VEHICLE.width_m + 0.03])
    assert BODY.free_m(arc(0.0, 0.0, 0.0, 0.0, 1, 3.0), *beside) == inf
    assert BODY.free_m(arc(0.0, 0.0, 0.0, 0.8, 1, 3.0), *beside) < 0.3


# ------------------------------------------------------------------------ what the controller plans


POST = (5.0 + FRONT_M + 0.5, 0.0)
"""A post on the course, 0.5 m before the front."""


@pytest.mark.parametrize(
    ("planned", "far"),
    [
        (None, False),
        (LateralOffset(6.0, 1.0, 0.0, 0.0, 1.2), True),
        (LateralOffset(0.0, 1.0, 1.2, 0.0, 1.2), False),  # the vehicle is not on it
        (LateralOffset(6.0, 1.0, 0.0, 0.0, 2.1), False),  # outside the corridor
        (LateralOffset(6.0, 1.0, 0.0, 0.0, nan), False),
        (LateralOffset(6.0, -1.0, 0.0, 0.0, 1.2), False),
        (LateralOffset(6.0, 0.0, 0.0, 0.0, 1.2), False),
        (LateralOffset("6", 1.0, None, 0.0, 1.2), False),
        (LateralOffset(6.0, 1.0, 0.0, 0.0, 1.2, lap_m=nan), False),
        (LateralOffset(6.0, 1.0, 0.0, inf, 1.2), False),
    ],
)
def test_a_plan_moves_the_lane_only_where_the_vehicle_can_still_stop(planned, far):
    """A plan beside the course hides what stands 3 m ahead on the course, and nothing that the
    wheels lead to within a stop."""
    there, near = (5.0 + FRONT_M + 3.0, 0.0), POST
    assert (read(watching(), [scan_of([there])] * 2, planned=planned) == inf) is far
    assert read(watching(), [scan_of([near])] * 2, planned=planned) == pytest.approx(0.5, abs=0.06)


def test_a_vehicle_that_is_driven_against_its_course_is_looked_after_backward():
    sent = ActuatorCommand(NOW, NOW, -0.3, 0.0, 0.0, 0.0, Mode.AUTO)
    behind = scan_of([(5.0 - BODY.rear_m - 0.5, 0.0)])
    assert read(watching(), [behind] * 2, sent=sent, speed=-0.5) == pytest.approx(0.5, abs=0.06)
    assert read(watching(), [behind] * 2, speed=0.5) == inf


def test_before_a_reverse_leg_the_lane_lies_behind_the_standing_vehicle():
    park = course_from_waypoints("park", [10.0, 0.0], [0.0, 0.0], speed=[-1.0, -1.0], closed=False)
    standing = {"speed": 0.0, "mode": Mode.STANDBY, "x": 9.5}
    behind, before = (9.5 - BODY.rear_m - 0.5, 0.0), (9.5 + FRONT_M + 0.5, 0.0)
    assert read(watching(park), [scan_of([behind], pose=(9.5, 0.0, 0.0))] * 2, **standing) < 0.6
    assert read(watching(park), [scan_of([before], pose=(9.5, 0.0, 0.0))] * 2, **standing) == inf


def test_a_plan_that_begins_to_turn_now_does_not_hide_what_the_wheels_lead_to():
    at_once = LateralOffset(5.0, 0.3, 0.0, 0.0, 1.2)
    monitors = watching()
    assert read(monitors, [scan_of([(5.0 + FRONT_M + 0.4, 0.25)])] * 2, planned=at_once) < 0.45
    sent = ActuatorCommand(NOW, NOW, 0.3, 0.0, 0.5, -0.3, Mode.AUTO)
    assert (
        read(watching(), [scan_of([(5.0 + FRONT_M + 0.6, 0.35)])] * 2, planned=at_once, sent=sent)
        == inf
    )


def test_wheels_that_leave_the_course_count_and_those_that_follow_it_do_not():
    aside = scan_of([(5.0 + FRONT_M + 0.25, 0.5)])
    for angle, met in ((0.0, False), (0.05, False), (0.4, True), (-0.4, False)):
        monitors = watching()
        monitors.stopping.measured(0.2, 0.1)
        sent = ActuatorCommand(NOW, NOW, 0.3, 0.0, 0.5, angle, Mode.AUTO)
        assert (read(monitors, [aside] * 2, sent=sent) < 0.6) is met
    # On the bend a post beside it is beside the lane; straight on it is in the way.
    circle = load_course("circle_r5_ccw")
    turned = 0.36
    for yaw, y, met in ((turned, 5.0 * (1.0 - cos(turned)), False), (0.0, 0.0, True)):
        x = 5.0 * sin(turned)
        post = scan_of([(x + FRONT_M + 0.4, 0.05)], pose=(x, y, yaw))
        assert (read(watching(circle), [post] * 2, x=x, y=y, yaw=yaw) < 0.6) is met


# --------------------------------------------------------------------------------- what is believed


def test_two_of_three_readings_are_believed():
    for pattern, blocked in (
        ("10", False),
        ("11", True),
        ("101", True),
        ("1001", False),
        ("11000", False),
        ("110", True),
    ):
        monitors = watching()
        readings = [ObstacleRange(NOW, NOW, 1.0 if each == "1" else inf) for each in pattern]
        read(monitors, readings)
        assert (monitors.obstacle.free_m < inf) is blocked, pattern


def test_between_readings_the_way_shrinks_by_what_is_driven():
    monitors = watching()
    read(monitors, [ObstacleRange(NOW, NOW, 2.0)] * 2)
    assert monitors.obstacle.free_m == pytest.approx(2.0)
    for k in range(1, 51):
        monitors.update(situation(monitors, x=5.0 + 0.01 * k, now_ns=NOW + 10_000_000 * k))
    assert monitors.obstacle.free_m == pytest.approx(1.5)


def test_a_range_that_is_no_number_is_an_obstacle_at_the_bumper():
    assert read(watching(), [ObstacleRange(NOW, NOW, nan)] * 2) == 0.0
    assert read(watching(), [ObstacleRange(NOW, NOW, -inf)] * 2) == 0.0


def test_a_scan_is_laid_on_the_map_by_where_the_vehicle_was():
    """A ray that left a fifth of a second ago left 0.2 m further back."""
    scan = scan_of([(5.0 + FRONT_M + 1.5, 0.0)])
    now = read(watching(), [scan] * 2)
    before = read(watching(), [replace(scan, t_ns=NOW - 200_000_000)] * 2)
    assert now == pytest.approx(1.5, abs=0.01)
    assert before == pytest.approx(1.3, abs=0.01)
    late = replace(scan, time_increment_s=0.2 / 360, t_ns=NOW - 200_000_000)
    assert read(watching(), [late] * 2) == pytest.approx(1.5, abs=0.01), (
        "the ray ahead is the 360th"
    )


def test_returns_of_the_vehicle_itself_do_not_count():
    own = [(5.0 + FRONT_M - 0.02, 0.05), (5.2, 0.1), (4.95, -0.1)]
    assert read(watching(), [scan_of(own)] * 2) == inf
    assert read(watching(), [scan_of([*own, (6.5, 0.0)])] * 2) < inf


def test_by_hand_the_lane_is_the_arc_of_the_wheels():
    angle = 0.3
    sent = ActuatorCommand(NOW, NOW, 0.3, 0.0, 0.5, angle, Mode.TELEOP)
    radius = VEHICLE.wheelbase_m / np.tan(angle)
    turn = 1.8 / radius
    in_the_bend = 5.0 + radius * sin(turn), radius * (1.0 - cos(turn))
    where = {"mode": Mode.TELEOP, "sent": sent}
    assert read(watching(), [scan_of([in_the_bend])] * 2, **where) < 1.6
    assert read(watching(), [scan_of([(7.0, 0.0)])] * 2, **where) == inf
    assert read(watching(), [scan_of([(7.0, 0.0)])] * 2, **where | {"mode": Mode.AUTO}) < inf
    reverse = replace(sent, throttle=-0.3, wheel_angle_rad=0.0)
    behind = scan_of([(3.6, 0.0)])
    assert read(
        watching(), [behind] * 2, **where | {"sent": reverse, "speed": 0.0}
    ) == pytest.approx(1.4 - BODY.rear_m, abs=0.02)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"ranges_m": (nan,) * 600 + (inf,) * 121}, "83 % of the scanner's rays return no range"),
        ({"ranges_m": (-inf,) * 721}, "100 % of the scanner's rays return no range"),
        ({"ranges_m": ()}, "100 % of the scanner's rays return no range"),
        ({"angle_min_rad": nan}, "does not say where its rays point"),
        ({"x_m": inf}, "does not say where its rays point"),
        ({"range_max_m": 0.0}, "measures from 0.05 to 0 m"),
        ({"t_ns": NOW - 2 * 10**9}, "the scan is 2.00 s old"),
        ({"t_ns": NOW + 10**9}, "the scan is -1.00 s old"),
    ],
)
def test_scans_that_show_nothing_are_reported_after_three(change, said):
    monitors, good = watching(), scan_of([])
    bad = replace(good, **change)
    read(monitors, [good, bad, bad])
    assert monitors.obstacle.blind == ""
    read(monitors, [bad])
    assert said in monitors.obstacle.blind
    assert any(said in text for text in missing(situation(monitors, mode=Mode.STANDBY)))


def test_a_scanner_that_sees_does_not_hide_one_that_is_blind():
    monitors, good = watching(), scan_of([], mount=(0.0, 0.2))
    bad = replace(scan_of([]), ranges_m=())
    read(monitors, [bad, good] * 3)
    assert "return no range" in monitors.obstacle.blind
    read(monitors, [scan_of([])])
    assert monitors.obstacle.blind == ""


# ------------------------------------------------------------------------------------ at the limits


def at(monitors, **fields):
    """Update with some fields of the inputs changed."""
    monitors.update(replace(situation(monitors), **fields))
    return monitors.obstacle


def test_one_reading_blocks_nothing_however_often_it_is_looked_at():
    monitors = watching()
    assert monitors.obstacle.age_ns(NOW) == NEVER_NS
    assert not monitors.obstacle.sees
    monitors.on_message(ObstacleRange(NOW, NOW + 10**12, 0.5), NOW)
    assert monitors.obstacle.age_ns(NOW + 3) == 3, (
        "a stamp from the future is as old as its arrival"
    )
    for _ in range(3):
        assert at(monitors).free_m == inf
    assert monitors.obstacle.sees


@pytest.mark.parametrize("speed", [1.0, -1.0])
@pytest.mark.parametrize(
    ("age_s", "driven_m"), [(0.0, 0.0), (0.4, 0.4), (1.0, 1.0), (3.0, 1.0), (-0.4, 0.0)]
)
def test_a_range_is_as_old_as_its_stamp_and_a_second_at_most(age_s, driven_m, speed):
    monitors = watching()
    free = read(monitors, [ObstacleRange(NOW - round(age_s * 1e9), NOW, 5.0)] * 2, speed=speed)
    assert free == pytest.approx(5.0 - driven_m)


@pytest.mark.parametrize(("step_ms", "driven_m"), [(50, 0.05), (100, 0.1), (500, 0.1)])
@pytest.mark.parametrize("speed", [1.0, -1.0])
def test_the_way_shrinks_by_a_step_of_a_tenth_of_a_second_at_most(step_ms, driven_m, speed):
    monitors = watching()
    read(monitors, [ObstacleRange(NOW, NOW, 5.0)] * 2, speed=speed)
    monitors.update(situation(monitors, speed=speed, now_ns=NOW + step_ms * 1_000_000))
    assert monitors.obstacle.free_m == pytest.approx(5.0 - driven_m)


def test_a_sum_of_ways_begins_anew_before_it_loses_centimetres():
    monitors = watching()
    monitors.obstacle._driven_m = 1e7 - 0.15
    read(monitors, [ObstacleRange(NOW, NOW, 5.0)] * 2)
    assert monitors.obstacle.free_m == pytest.approx(5.0)
    for k, free_m in enumerate((4.9, inf)):
        monitors.update(situation(monitors, now_ns=NOW + (k + 1) * 100_000_000))
        assert monitors.obstacle.free_m == pytest.approx(free_m)
    assert monitors.obstacle._driven_m == 0.0


@pytest.mark.parametrize("distance_m", [0.0, 0.2, 0.31, 0.5, 1.0, 3.0, 20.0])
def test_the_speed_before_an_obstacle_is_that_of_a_gentle_stop(distance_m):
    """It ends 0.3 m before the obstacle, at a third of what is certain; a capped speed is always
    allowed."""
    monitors = watching()
    read(monitors, [ObstacleRange(NOW, NOW, distance_m)] * 2, speed=0.0)
    cap, stopping = monitors.obstacle.cap_mps, monitors.stopping
    room_m = max(distance_m - 0.3, 0.0)
    stops = cap * stopping.reaction_s + cap * cap / (2.0 * stopping._deceleration_mps2 / 3.0)
    assert stops == pytest.approx(room_m) or (cap == LIMITS.capped_speed_mps and stops > room_m)
    assert read(watching(), []) == inf
    assert at(watching()).cap_mps == inf
    assert read(monitors, [ObstacleRange(NOW, NOW, inf)] * 3) == inf
    assert monitors.obstacle.cap_mps == inf


@pytest.mark.parametrize(
    ("speed", "throttle", "backward", "drives"),
    [
        (0.051, -1.0, False, True), (-0.051, 1.0, True, True), (0.05, -0.1, True, True),
        (-0.05, 0.1, False, True), (0.0, 0.0, False, False), (-0.05, 0.0, False, False),
        (0.0, None, False, False), (0.5, None, False, True), (-0.5, None, True, True),
    ],
)  # fmt: skip
def test_the_direction_is_that_of_the_motion_or_of_the_throttle(speed, throttle, backward, drives):
    sent = (
        None if throttle is None else ActuatorCommand(NOW, NOW, throttle, 0.0, 0.0, 0.0, Mode.AUTO)
    )
    monitors = watching()
    read(monitors, [ObstacleRange(NOW, NOW, 5.0)] * 2, speed=0.0)
    monitors.update(situation(monitors, speed=speed, sent=sent))
    assert (monitors.obstacle.free_m == inf) is backward, "readings of the other end do not count"
    assert monitors.obstacle.drives(situation(monitors, speed=speed, sent=sent)) is drives


def test_the_nearest_of_the_sources_counts_and_a_silent_one_is_forgotten_after_two_seconds():
    monitors = watching()
    read(monitors, [ObstacleRange(NOW, NOW, 0.4), scan_of([])] * 2, speed=0.0)
    assert monitors.obstacle.free_m == 0.4
    monitors.update(situation(monitors, speed=0.0, now_ns=NOW + 2 * 10**9))
    assert (monitors.obstacle.free_m, monitors.obstacle.sees) == (0.4, True)
    monitors.update(situation(monitors, speed=0.0, now_ns=NOW + 2 * 10**9 + 1))
    assert (monitors.obstacle.free_m, monitors.obstacle.sees) == (inf, False)


@pytest.mark.parametrize("change", [{"x_m": nan}, {"yaw_rad": inf}, {"speed_mps": nan}, None])
def test_without_an_estimate_nothing_is_placed_and_what_was_seen_stays(change):
    monitors = watching()
    read(monitors, [ObstacleRange(NOW, NOW, 0.4)] * 2, speed=0.0)
    monitors.on_message(ObstacleRange(NOW, NOW, 9.0), NOW)
    at(
        monitors,
        estimate=None if change is None else replace(situation(monitors).estimate, **change),
    )
    assert (monitors.obstacle.free_m, monitors.obstacle._pending) == (0.4, [])
    read(monitors, [ObstacleRange(NOW, NOW, 0.4)], speed=0.0)
    assert monitors.obstacle.free_m == 0.4


def test_eight_scanners_are_kept_apart_and_the_others_share_a_place():
    monitors = watching()
    mounts = [(0.1 * k, 0.0) for k in range(10)]
    read(monitors, [scan_of([], mount=mount) for mount in mounts])
    read(
        monitors,
        [
            replace(scan_of([]), x_m=inf),
            replace(scan_of([]), y_m=nan),
            scan_of([], mount=mounts[7]),
        ],
    )
    assert len(monitors.obstacle._unseen) == 9
    assert set(mounts[:8]) < set(monitors.obstacle._unseen)
    read(
        monitors, [ObstacleRange(NOW, NOW, 0.4)] * 2 + [scan_of([], mount=mounts[9])] * 3, speed=0.0
    )
    assert monitors.obstacle.free_m == 0.4, "none of them shares the place of the ranges"


@pytest.mark.parametrize(
    ("age_ms", "wrong"), [(399, False), (401, True), (-399, False), (-401, True)]
)
def test_a_scan_may_be_a_sweep_older_than_its_silence(age_ms, wrong):
    monitors = watching()
    said = monitors.obstacle._wrong_with(scan_of([], t_ns=NOW - age_ms * 1_000_000), 0.0, NOW)
    assert bool(said) is wrong


@pytest.mark.parametrize(
    ("change", "blind_share", "wrong"),
    [
        ({}, 0.499, False), ({}, 0.501, True), ({"range_min_m": 0.0}, 0.0, False),
        ({"range_min_m": -0.001}, 0.0, True), ({"range_max_m": 0.05}, 0.0, True),
        ({"range_max_m": 0.051}, 0.0, False), ({"range_min_m": nan}, 0.0, True),
        ({"range_max_m": nan}, 0.0, True), ({"time_increment_s": nan}, 0.0, True),
        ({"angle_increment_rad": inf}, 0.0, True),
    ],
)  # fmt: skip
def test_what_makes_a_scan_unusable(change, blind_share, wrong):
    assert (
        bool(watching().obstacle._wrong_with(replace(scan_of([]), **change), blind_share, NOW))
        is wrong
    )


def lanes(monitors, *, reads=True, **where):
    """The lanes that are looked at."""
    s = situation(monitors, **where)
    monitors.update(s)
    if reads:
        monitors.obstacle._follow(s, s.estimate)
    return monitors.obstacle._lanes_ahead(s, s.estimate)


def steered(angle, throttle=0.3):
    return ActuatorCommand(NOW, NOW, throttle, 0.0, 0.0, angle, Mode.AUTO)


@pytest.mark.parametrize(
    ("modes", "by_hand"),
    [
        ([Mode.AUTO], False), ([Mode.TELEOP], True), ([Mode.OFFBOARD], True), ([Mode.ALIGN], True),
        ([Mode.STANDBY], False), ([Mode.STOPPING], False), ([Mode.TELEOP, Mode.STOPPING], True),
        ([Mode.AUTO, Mode.STOPPING], False), ([Mode.TELEOP, Mode.FAULT], False),
    ],
)  # fmt: skip
def test_which_drives_follow_their_wheels_alone(modes, by_hand):
    monitors = watching()
    for mode in modes:
        found = lanes(monitors, mode=mode, sent=steered(0.3))
    assert bool(abs(found[0].yaw_rad[-1]) > 0.1) is by_hand


@pytest.mark.parametrize("angle", [0.2, -0.2, 1.4, 2.0, -2.0])
@pytest.mark.parametrize("speed", [1.0, -1.0])
def test_the_arc_of_the_wheels(angle, speed):
    (lane,) = lanes(watching(), mode=Mode.TELEOP, sent=steered(angle), speed=speed)
    turned = (lane.yaw_rad[1] - lane.yaw_rad[0]) / lane.way_m[1]
    base_m = VEHICLE.effective_wheelbase_m(speed)
    assert turned == pytest.approx(speed * tan(max(min(angle, 1.5), -1.5)) / base_m)
    assert lane.direction == speed
    stopping = watching().stopping
    assert lane.way_m[-1] == pytest.approx(3.0 * stopping.way_m(LIMITS.max_speed_mps) + 0.3)


def test_on_a_planned_path_the_wheels_count_for_an_emergency_stop():
    monitors, full_mps2 = watching(), 3.0 - VEHICLE.drive.acceleration_mps2(0.0, 0.0)
    _, wheels = lanes(monitors, planned=LateralOffset(6.0, 1.0, 0.0, 0.0, 1.2), speed=2.0)
    stop_m = 2.0 * monitors.stopping.reaction_s + 4.0 / (2.0 * full_mps2)
    assert monitors.stopping.emergency_m == pytest.approx(stop_m)
    assert wheels.way_m[-1] == pytest.approx(stop_m + 2.0 * 0.15 + LIMITS.obstacle_side_m)


def test_beside_its_line_the_wheels_count_for_a_stop():
    monitors = watching()
    along, wheels = lanes(monitors, sent=steered(0.3), speed=2.0)
    assert along.way_m[-1] > wheels.way_m[-1]
    assert wheels.way_m[-1] == pytest.approx(monitors.stopping.distance_m + 0.3)
    assert len(lanes(watching(), sent=steered(0.0), speed=2.0)) == 1
    assert lanes(watching(), sent=steered(0.0), speed=2.0)[0].way_m[-1] == along.way_m[-1]


@pytest.mark.parametrize(
    ("where", "along"),
    [
        ({"y": 1.99}, True), ({"y": -1.99}, True), ({"y": 2.01}, False), ({"y": -2.01}, False),
        ({"speed": -1.0}, False), ({"speed": 0.0}, True),
        ({"speed": 0.0, "sent": steered(0.0, -0.1)}, False),
    ],
)  # fmt: skip
def test_a_vehicle_in_its_corridor_goes_along_its_course(where, along):
    monitors = watching()
    s = situation(monitors, **where)
    monitors.update(s)
    monitors.obstacle._direction = -1 if where.get("speed", 0.0) < 0.0 or "sent" in where else 1
    assert monitors.obstacle._goes_along(s, monitors.place.point) is along


@pytest.mark.parametrize(
    ("change", "left_m", "believed"),
    [
        ((1.0, 1.0), 1.19, True), ((1.0, 1.0), 1.21, False), ((1.0, 1.0), 0.81, True),
        ((1.0, 1.0), 0.79, False), ((-1.0, -1.0), -1.19, True), ((-1.0, -1.0), 1.0, False),
        ((0.0, 1.99), 0.0, True), ((0.0, 2.01), 0.0, False), ((0.0, -2.01), 0.0, False),
        ((0.0, nan), 0.0, False),
    ],
)  # fmt: skip
def test_a_plan_is_believed_on_it_and_inside_the_corridor(change, left_m, believed):
    plan = LateralOffset(5.5, 1.0, change[0], 0.0, change[1])
    obstacle = watching().obstacle
    assert obstacle._believed(plan, 5.0, left_m, 4.0) is (plan if believed else None)
    assert obstacle._believed(None, 5.0, left_m, 4.0) is None


@pytest.mark.parametrize("speed", [2.0, 0.0])
@pytest.mark.parametrize("direction", [1, -1])
def test_the_leading_end_beside_the_course(speed, direction):
    monitors = watching()
    monitors.update(situation(monitors))
    obstacle = monitors.obstacle
    obstacle._direction = direction
    lead_m = (
        BODY.front_m if direction > 0 else BODY.rear_m
    ) + speed * obstacle._stopping.reaction_s
    limit = 0.25 * VEHICLE.width_m
    for ratio, leaves in ((0.99, False), (1.01, True), (-0.99, False), (-1.01, True)):
        yaw = np.arcsin(ratio * limit / lead_m) if lead_m > limit else 0.0
        y = 0.0 if lead_m > limit else ratio * limit
        assert obstacle._leaves_line((5.0, y, yaw), 0.0, speed) is leaves
    looked = []
    obstacle._place = SimpleNamespace(locate=lambda *pose: looked.append(pose))
    assert not obstacle._leaves_line((5.0, 1.0, 0.3), 0.2, speed), (
        "without a course there is none to leave"
    )
    way = direction * speed * obstacle._stopping.reaction_s
    yaw, lead = 0.3 + 0.2 * way, BODY.front_m if direction > 0 else -BODY.rear_m
    x, y = 5.0 + (sin(yaw) - sin(0.3)) / 0.2, 1.0 - (cos(yaw) - cos(0.3)) / 0.2
    assert looked == [pytest.approx((x + lead * cos(yaw), y + lead * sin(yaw), yaw))]


def test_another_course_is_looked_along():
    monitors = watching()
    monitors.follow(course_from_waypoints("north", [0.0, 0.0], [-20.0, 20.0]))
    (north,) = lanes(monitors, x=0.0, y=0.0, yaw=pi / 2)
    assert north.yaw_rad == pytest.approx(pi / 2)


def test_before_it_has_a_place_it_looks_along_its_wheels():
    monitors = watching()
    unknown = StateEstimate(
        NOW, NOW, nan, nan, nan, nan, 0.0, (nan,) * 16, EstimatorStatus.UNINITIALISED
    )
    ahead = scan_of([(7.0, 0.0)])
    for _ in range(2):
        monitors.on_message(ahead, NOW)
        at(monitors, estimate=unknown, measured_speed_mps=1.0, mode=Mode.TELEOP, sent=steered(0.0))
    assert monitors.obstacle.free_m == pytest.approx(2.0 - FRONT_M, abs=0.02)
    monitors.on_message(ahead, NOW)
    at(monitors, estimate=unknown, mode=Mode.TELEOP)
    assert monitors.obstacle._pending == [], "a reading that cannot be placed is not kept"


numbers = st.one_of(
    st.floats(), st.floats(-10.0, 10.0), st.sampled_from([nan, inf, -inf, 0.0, 1e300, -1e300])
)
stamps = st.one_of(st.integers(-(2**63), 2**63 - 1), st.just(NOW))


@given(
    st.lists(
        st.one_of(
            st.builds(ObstacleRange, stamps, st.just(NOW), numbers),
            st.builds(
                LaserScan, stamps, st.just(NOW), numbers, numbers, numbers, numbers, numbers,
                numbers, numbers, numbers, st.lists(numbers, max_size=20).map(tuple),
            ),
        ),
        max_size=12,
    ),
    numbers, numbers, numbers, numbers,
)  # fmt: skip
def test_no_reading_and_no_estimate_upsets_it(messages: list[Message], x, y, yaw, speed):
    monitors = watching(COURSE)
    for message in messages:
        monitors.on_message(message, NOW)
        monitors.update(situation(monitors, x=x, y=y, yaw=yaw, speed=speed))
        assert monitors.obstacle.free_m >= 0.0
        assert monitors.obstacle.cap_mps >= LIMITS.capped_speed_mps
    read(monitors, [ObstacleRange(NOW, NOW, 0.1)] * 3)
    assert monitors.obstacle.free_m <= 0.1, "and it goes on believing what comes after"


def test_an_obstacle_is_believed_for_two_seconds_after_its_sensor_falls_silent():
    monitors = watching()
    bad = replace(scan_of([]), ranges_m=())
    read(
        monitors,
        [ObstacleRange(NOW, NOW, 0.2), bad, bad, bad, ObstacleRange(NOW, NOW, 0.2)],
        speed=0.0,
    )
    for after_ns, stands in ((1_900_000_000, True), (2_100_000_000, False)):
        monitors.update(situation(monitors, speed=0.0, now_ns=NOW + after_ns))
        assert (monitors.obstacle.free_m < inf) is stands
        assert bool(monitors.obstacle.blind) is stands


def test_no_arming_before_an_obstacle_but_teleop_may_drive_away():
    monitors = watching()
    read(monitors, [ObstacleRange(NOW, NOW, 0.2)] * 2, speed=0.0, mode=Mode.STANDBY)
    s = situation(monitors, speed=0.0, mode=Mode.STANDBY)
    assert any("something stands 0.20 m ahead" in text for text in missing(s))
    assert not any("something stands" in text for text in missing(s, OperatorAction.TELEOP))


def test_a_late_scan_is_placed_by_the_motion_since_then_and_not_by_the_speed_of_now():
    """It braked from 4 m/s to a stop within the 0.2 s since the scan: the post is nearer by the
    distance of that stop."""
    monitors, place, begin_ns = watching(), (9.0, 0.0), NOW - 200_000_000
    late = scan_of([place], pose=(5.0, 0.0, 0.0), t_ns=begin_ns)
    for k in range(21):
        now_ns, braked_s = begin_ns + 10_000_000 * k, 0.01 * k
        if k < 2:
            monitors.on_message(replace(late, ranges_m=(inf,) * 721), now_ns)
        for message in [late] * 3 * (k == 20):
            monitors.on_message(message, now_ns)
        monitors.update(
            situation(
                monitors,
                x=5.0 + 4.0 * braked_s - 10.0 * braked_s**2,
                speed=4.0 - 20.0 * braked_s,
                now_ns=now_ns,
            )
        )
    assert monitors.obstacle.free_m == pytest.approx(place[0] - 5.4 - FRONT_M, abs=0.08)


@pytest.mark.parametrize(("speed", "lanes_seen"), [(-2.0, 2), (-0.5, 1)])
def test_backward_the_trailing_end_leads(speed, lanes_seen):
    """It stands askew on its line: its rear end leaves it as it goes on backward, and its front end
    would not."""
    course = course_from_waypoints("back", [20.0, 0.0], [0.0, 0.0], speed=[-1.0, -1.0])
    monitors = watching(course)
    step_m = 2.0 * monitors.obstacle._stopping.reaction_s
    y = 0.1 * BODY.rear_m - (0.25 * VEHICLE.width_m - 0.05 * step_m)
    found = lanes(monitors, x=18.0, y=y, yaw=0.1, speed=speed, sent=steered(0.0, -0.3))
    assert len(found) == lanes_seen
    assert all(lane.direction == -1 for lane in found)


def test_the_monitor_looks_along_another_course_from_the_next_reading_on():
    monitors = watching()
    ahead = scan_of([(8.0, 0.0)])
    assert read(monitors, [ahead] * 2) < 3.0
    monitors = watching()
    monitors.obstacle.follow(course_from_waypoints("bend", [5.0, 5.3, 5.5], [0.0, 0.3, 30.0]))
    (lane,) = lanes(monitors)
    assert abs(lane.y_m).max() > 1.0
