"""The controller ``avoid``: splines without jumps, plans that keep clear, tracks of what moves, any
scan."""

from collections.abc import Callable
from itertools import pairwise
from math import cos, hypot, inf, nan, pi, sin, tan
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from vehicled.control.avoid.controller import Avoid
from vehicled.control.avoid.lattice import (
    CourseTable,
    Lattice,
    LatticeLimits,
    LatticeStart,
    PathPlan,
)
from vehicled.control.avoid.params import AvoidParams
from vehicled.control.avoid.sight import SeenPoints, Sight
from vehicled.control.pure_pursuit import PurePursuit, PurePursuitParams
from vehicled.core.messages import EstimatorStatus, LaserScan, StateEstimate
from vehicled.paths.catalog import load_course
from vehicled.paths.lateral_offset import MOST_CONTROLS, LateralSpline
from vehicled.profile import load_profile
from vehicled.safety.monitors.lane import LaneBody

PROFILE = load_profile("art_vesc")
VEHICLE = PROFILE.vehicle
COURSE = load_course("circle_r5_ccw")
SECOND = 1_000_000_000
SPREAD_M, SIDE_M = 1.6, 0.05
PARAMS = AvoidParams()
TABLE = CourseTable(COURSE, np.ones(len(COURSE.x_m)))
TIGHTEST = 1.0 / VEHICLE.min_turn_radius_m
LIMITS = LatticeLimits(
    VEHICLE.outline, SPREAD_M, SIDE_M, 0.2, 1.0, 2.0, 0.4, TIGHTEST, 2.5, VEHICLE.wheelbase_m, 1.0
)
LATTICE = Lattice(PARAMS, TABLE, LIMITS)
ANGLES = np.linspace(0.0, 2.0 * pi, 24)
NOTHING = SeenPoints(*(np.zeros(0) for _ in range(4)))

controls = st.lists(st.floats(-3.0, 3.0), min_size=4, max_size=20).map(tuple)


@given(start=st.floats(-50, 50), step=st.floats(0.05, 3.0), points=controls)
def test_a_spline_changes_without_jumps(
    start: float, step: float, points: tuple[float, ...]
) -> None:
    path = LateralSpline(start, step, points)
    assert path.usable
    s = np.linspace(start, start + path.length_m, 2001)[1:-1]
    at, slopes, bends = path.shape(s)
    assert np.array_equal(at, path.at(s))
    # It stays within its control points, and is constant beyond its ends.
    assert min(points) - 1e-9 <= at.min() <= at.max() <= max(points) + 1e-9
    assert path.at(start - 1.0) == path.at(start)
    assert (
        abs(
            float(path.at(start + path.length_m + 5.0))
            - (points[-3] + 4.0 * points[-2] + points[-1]) / 6.0
        )
        < 1e-9
    )
    assert (path.slope(start - 1.0), path.settled(start + path.length_m + 1e-6)) == (0.0, True)
    # Nothing jumps between two samples, and the derivatives are those of the offset.
    grid, size = s[1] - s[0], max(abs(a - b) for a, b in pairwise(points))
    assert np.abs(np.diff(slopes)).max() <= 4.0 * size / step * grid / step + 1e-9
    assert np.abs(np.diff(bends)).max() <= 8.0 * size / step**2 * grid / step + 1e-9
    assert (
        np.abs(np.gradient(at, s)[1:-1] - slopes[1:-1]).max()
        <= 8.0 * size / step * (grid / step) + 1e-9
    )


@pytest.mark.parametrize(
    "path",
    [
        LateralSpline(0.0, 1.0, (0.0, 0.0, 0.0)),
        LateralSpline(0.0, 1.0, (0.0,) * (MOST_CONTROLS + 1)),
        LateralSpline(0.0, 0.0, (0.0,) * 4),
        LateralSpline(0.0, 1.0, (0.0, nan, 0.0, 0.0)),
        LateralSpline(0.0, 1.0, (0.0, "1", 0.0, 0.0)),  # type: ignore[arg-type]
        LateralSpline(0.0, 1.0, [0.0, 0.0, 0.0, 0.0]),  # type: ignore[arg-type]
        LateralSpline(inf, 1.0, (0.0,) * 4),
        LateralSpline(0.0, 1.0, (0.0,) * 4, 0.0),
    ],
)
def test_a_spline_that_gives_no_offset_is_not_usable(path: LateralSpline) -> None:
    assert not path.usable


def test_on_a_lap_the_nearer_round_counts() -> None:
    path = LateralSpline(30.0, 1.0, (0.0, 0.0, 0.0, 1.0, 1.0, 1.0), 40.0)
    assert path.at(31.5) == path.at(71.5) == path.at(-8.5)
    assert (path.at(39.0), path.at(29.0)) == (1.0, 0.0)


# -------------------------------------------------------------------------------------- the lattice


def on_circle(s_m: float, left_m: float = 0.0) -> tuple[float, float, float]:
    k = int(np.searchsorted(COURSE.s_m, s_m))
    x, y, yaw = float(COURSE.x_m[k]), float(COURSE.y_m[k]), float(COURSE.yaw_rad[k])
    return x - left_m * sin(yaw), y + left_m * cos(yaw), yaw


def posts_at(places: list[tuple[float, float]], radius_m: float = 0.12) -> SeenPoints:
    angles = np.linspace(0.0, 2.0 * pi, 24)
    found = [on_circle(5.0 + ahead, left) for ahead, left in places]
    x = (
        np.concatenate([px + radius_m * np.cos(angles) for px, _, _ in found])
        if found
        else np.zeros(0)
    )
    y = (
        np.concatenate([py + radius_m * np.sin(angles) for _, py, _ in found])
        if found
        else np.zeros(0)
    )
    return SeenPoints(x, y, 0.0 * x, 0.0 * y)


def clearance_m(plan: PathPlan, seen: SeenPoints, until_m: float) -> float:
    """Return the least distance of the body from the points, along a path."""
    s = np.arange(5.0, until_m, 0.04)
    x, y, c, sn, curvature, _ = TABLE.at(s)
    offset, slope, _ = plan.path.shape(s) if plan.path is not None else (0.0 * s, 0.0 * s, 0.0 * s)
    yaw = np.arctan2(sn, c) + np.arctan(slope / (1.0 - curvature * offset))
    x, y = x - offset * sn, y + offset * c
    dx, dy = seen.x_m - x[:, None], seen.y_m - y[:, None]
    ahead = np.cos(yaw)[:, None] * dx + np.sin(yaw)[:, None] * dy
    left = np.abs(np.cos(yaw)[:, None] * dy - np.sin(yaw)[:, None] * dx)
    body = VEHICLE.outline
    out = np.hypot(
        np.maximum(np.maximum(ahead - body.front_m, -body.rear_m - ahead), 0.0),
        np.maximum(left - body.half_m, 0.0),
    )
    return float(out.min(initial=inf))


places = st.lists(st.tuples(st.floats(2.5, 7.0), st.floats(-1.8, 1.8)), max_size=4)


@given(where=places, speed=st.floats(0.2, 1.5))
@examples(60)
def test_a_plan_keeps_clear_of_everything_or_says_how_far_it_does(
    where: list[tuple[float, float]], speed: float
) -> None:
    seen, start = posts_at(where), LatticeStart(5.0, 0.0, 0.0, speed)
    plan = LATTICE.plan(start, speed, seen, None)
    again = LATTICE.plan(start, speed, seen, None)
    assert (again.path, again.free_m, again.cost) == (plan.path, plan.free_m, plan.cost)
    if not where:
        assert (plan.path, plan.free_m, plan.cost) == (None, inf, 0.0)
        return
    end_m = min(plan.free_m, float(plan.s_m[-1])) - VEHICLE.length_m
    # The lattice looks at the middle of each step, and a body turns between two of them.
    if plan.free_m == inf:
        assert clearance_m(plan, seen, float(plan.s_m[-1])) > 0.5 * SIDE_M
    elif end_m > 5.0:
        assert clearance_m(plan, seen, end_m) > 0.0
    # Where a plan ends it becomes parallel to the course at once; the next one takes its place
    # before.
    s = np.linspace(5.0, float(plan.s_m[-1]) - 1.5 * plan.step_m, 400)
    if plan.path is not None:
        offset, _, bend = plan.path.shape(s)
        assert np.abs(offset).max() <= SPREAD_M + 1e-6
        assert np.abs(TABLE.at(s)[4] + bend).max() <= 1.05 * TIGHTEST


def test_a_slalom_takes_one_plan() -> None:
    """A wall from the right, and one from the left behind it: no single change of the offset passes
    both."""
    walls = [(4.0, -1.8 + 0.2 * k) for k in range(10)] + [(7.5, 1.8 - 0.2 * k) for k in range(10)]
    seen = posts_at(walls, 0.05)
    far = Lattice(AvoidParams(horizon_lengths=16.0), TABLE, LIMITS)
    plan = far.plan(LatticeStart(5.0, 0.0, 0.0, 0.5), 0.5, seen, None)
    assert plan.free_m == inf
    assert plan.path is not None
    assert plan.path.at(9.0) > 0.2
    assert plan.path.at(12.5) < -0.2


def test_where_everything_is_closed_the_plan_says_where() -> None:
    seen = posts_at([(4.0, -2.2 + 0.2 * k) for k in range(23)])
    plan = LATTICE.plan(LatticeStart(5.0, 0.0, 0.0, 1.0), 1.0, seen, None)
    assert 6.5 < plan.free_m + VEHICLE.outline.front_m < 9.5


def test_what_crosses_is_met_where_it_will_be() -> None:
    """A body that leaves the course is no obstacle where it is now, but where it is when the
    vehicle comes."""
    x, y, yaw = on_circle(9.0, 0.6)
    angles = np.linspace(0.0, 2.0 * pi, 24)
    px, py = x + 0.2 * np.cos(angles), y + 0.2 * np.sin(angles)
    for pace in (-0.15, 0.3):
        vx, vy = -pace * sin(yaw) * np.ones(24), pace * cos(yaw) * np.ones(24)
        plan = LATTICE.plan(LatticeStart(5.0, 0.0, 0.0, 1.0), 1.0, SeenPoints(px, py, vx, vy), None)
        at = 0.0 if plan.path is None else float(plan.path.at(9.0))
        assert (abs(at) < 0.05) is (pace > 0.0), pace


def test_a_path_that_stays_beside_the_course_is_not_kept() -> None:
    beside = LateralSpline(0.0, 0.5, (0.3,) * 6)
    plan = LATTICE.plan(LatticeStart(6.0, 0.3, 0.0, 1.0), 1.0, NOTHING, beside)
    assert plan.path is not None
    assert abs(float(plan.path.at(plan.s_m[-1]))) < 0.1


def test_what_comes_slowly_is_planned_round_before_it_is_near() -> None:
    """Six metres away, for which the vehicle needs longer than ``predict_s``."""
    x, y, yaw = on_circle(11.0)
    px, py = x + 0.2 * np.cos(ANGLES), y + 0.2 * np.sin(ANGLES)
    vx, vy = -0.05 * cos(yaw) * np.ones(24), -0.05 * sin(yaw) * np.ones(24)
    far = Lattice(AvoidParams(horizon_lengths=16.0), TABLE, LIMITS)
    plan = far.plan(LatticeStart(5.0, 0.0, 0.0, 1.0), 1.0, SeenPoints(px, py, vx, vy), None)
    assert plan.path is not None
    assert abs(float(plan.path.at(10.8))) > 0.3


def test_what_crosses_is_not_passed_before_it_if_the_vehicle_may_come_later() -> None:
    """A body that crosses right behind a vehicle which is as fast as its plan."""
    x, y, yaw = on_circle(7.0, -2.0)
    px, py = x + 0.2 * np.cos(ANGLES), y + 0.2 * np.sin(ANGLES)
    vx, vy = -0.6 * sin(yaw) * np.ones(24), 0.6 * cos(yaw) * np.ones(24)
    plan = LATTICE.plan(LatticeStart(5.0, 0.0, 0.0, 1.0), 1.0, SeenPoints(px, py, vx, vy), None)
    assert plan.free_m < 8.0


@given(offset=st.floats(-1.0, 1.0), slope=st.floats(-0.3, 0.3))
@examples(30)
def test_a_plan_begins_where_the_vehicle_is(offset: float, slope: float) -> None:
    plan = LATTICE.plan(LatticeStart(5.0, offset, slope, 1.0), 1.0, posts_at([(5.0, 1.5)]), None)
    if plan.path is None:
        assert abs(offset) < 0.02
        assert abs(slope) < 0.02
        return
    at, first, _ = plan.path.shape(5.0)
    assert abs(at - offset) < 0.02
    assert abs(first - slope) < 0.15


@given(where=places, later=places)
@examples(30)
def test_nothing_jumps_where_the_vehicle_is_when_another_plan_follows(
    where: list[tuple[float, float]], later: list[tuple[float, float]]
) -> None:
    path = LATTICE.plan(
        LatticeStart(5.0, 0.0, 0.0, 1.0), 1.0, posts_at([*where, (4.0, 0.1)]), None
    ).path
    assert path is not None
    here = 5.8
    begins = here + LATTICE.step_m(1.0)
    offset, slope, _ = map(float, path.shape(begins))
    after = LATTICE.plan(
        LatticeStart(begins, offset, slope, 1.0), 1.0, posts_at([*later, (4.5, -0.1)]), path
    ).path
    assert after is not None
    for s_m in (here - 0.3, here):
        assert np.abs(np.subtract(after.shape(s_m)[:2], path.shape(s_m)[:2])).max() < 0.02


# ---------------------------------------------------------------------------------------- the sight


def scan_of(
    circles: list[tuple[float, float, float]],
    t_ns: int,
    walls: list[tuple[float, float, float]] = (),  # type: ignore[assignment]
) -> LaserScan:
    """Return a scan from the rear axle. ``walls``: distance ahead, and the two lateral ends, of
    walls across."""
    bearing = np.linspace(-2.356, 2.356, 541)
    c, s = np.cos(bearing), np.sin(bearing)
    ranges = np.full(541, inf)
    for x, y, radius in circles:
        along, across = c * x + s * y, c * y - s * x
        hit = (np.abs(across) < radius) & (along > 0.0)
        ranges = np.where(
            hit, np.minimum(ranges, along - np.sqrt(np.maximum(radius**2 - across**2, 0.0))), ranges
        )
    for x, low, high in walls:
        with np.errstate(divide="ignore", invalid="ignore"):
            reach = np.where(c > 0.0, x / c, inf)
        hit = (reach * s > low) & (reach * s < high)
        ranges = np.where(hit, np.minimum(ranges, reach), ranges)
    return LaserScan(
        t_ns, t_ns, -2.356, 4.712 / 540, 0.0, 0.05, 0.05, 30.0, 0.0, 0.0, tuple(ranges.tolist())
    )


def seen_after(
    paces: tuple[float, float], speed: float, seconds: float = 1.5, walls: bool = False
) -> SeenPoints:
    """Drive along the x axis for some time, past a body that begins 6 m ahead; return what counts
    at the end."""
    sight, t_ns = Sight(LaneBody(VEHICLE, 0.1), 1.0), SECOND
    line = np.stack([np.linspace(-1.0, 15.0, 40), np.zeros(40), np.ones(40), np.zeros(40)])
    for k in range(int(seconds * 20) + 1):
        t_s, t_ns = k * 0.05, SECOND + k * SECOND // 20
        estimate = StateEstimate(
            t_ns, t_ns, speed * t_s, 0.0, 0.0, speed, 0.0, (0.0,) * 16, EstimatorStatus.RUNNING
        )
        body = 6.0 + paces[0] * t_s - speed * t_s, 1.0 + paces[1] * t_s, 0.2
        # A wall that is seen more and more of behind a nearer one.
        hidden = [(9.0 - speed * t_s, -2.0, 2.5), (3.0, 0.4 + 0.2 * t_s, 3.0)] if walls else []
        sight.add_motion(estimate)
        sight.add_scan(scan_of([] if walls else [body], t_ns, hidden), estimate)
    return sight.obstacles(estimate, line, 16.0 / 39, 4.0, 8.0)


@given(speed=st.floats(0.0, 2.0), pace=st.floats(0.4, 1.5), heading=st.floats(-pi, pi))
@examples(20)
def test_a_body_that_moves_has_its_velocity(speed: float, pace: float, heading: float) -> None:
    seen = seen_after((pace * cos(heading), pace * sin(heading)), speed)
    moving = seen.vx_mps != 0.0
    assert seen.move
    vx, vy = float(seen.vx_mps[moving].mean()), float(seen.vy_mps[moving].mean())
    assert hypot(vx - pace * cos(heading), vy - pace * sin(heading)) < 0.25


@pytest.mark.parametrize(("pace", "moves"), [(0.05, True), (0.0, False)])
def test_a_slow_body_is_distinguished_from_a_post_after_some_seconds(
    pace: float, moves: bool
) -> None:
    assert seen_after((0.0, -pace), 0.2, 5.0).move is moves


@given(speed=st.floats(0.0, 2.0))
@examples(20)
def test_a_post_that_is_passed_does_not_move(speed: float) -> None:
    assert not seen_after((0.0, 0.0), speed, 2.5).move


def test_a_wall_that_comes_into_view_does_not_move() -> None:
    assert not seen_after((0.0, 0.0), 1.0, 2.0, walls=True).move


# ----------------------------------------------------------------------------------- the controller

ranges = st.lists(
    st.one_of(st.floats(0.05, 12.0), st.sampled_from([inf, -inf, nan, 0.0, -1.0, 1e300])),
    min_size=1,
    max_size=40,
)


def controllers() -> tuple[Avoid, PurePursuit]:
    rest = VEHICLE, PROFILE.limits, COURSE, 0.02
    return Avoid(AvoidParams(), *rest), PurePursuit(PurePursuitParams(), *rest)


def estimate_at(s_m: float, t_ns: int) -> StateEstimate:
    x, y, yaw = on_circle(s_m)
    return StateEstimate(t_ns, t_ns, x, y, yaw, 1.0, 0.2, (0.0,) * 16, EstimatorStatus.RUNNING)


@given(
    seen=ranges,
    least=st.sampled_from([0.1, nan, 5.0]),
    most=st.sampled_from([10.0, inf, nan, 0.0]),
    mount=st.sampled_from([0.5, nan]),
)
def test_any_scan_gives_a_finite_command_within_the_limits(
    seen: list[float], least: float, most: float, mount: float
) -> None:
    avoid, _ = controllers()
    for k in range(4):
        t_ns = SECOND + k * 20_000_000
        avoid.on_scan(
            LaserScan(
                t_ns, t_ns, -1.5, 3.0 / len(seen), 0.0, 0.05, least, most, mount, 0.0, tuple(seen)
            )
        )
        command = avoid.step(estimate_at(2.0 + 0.02 * k, t_ns), t_ns)
        assert abs(command.wheel_angle_rad) <= VEHICLE.steering.max_wheel_rad
        assert 0.0 <= command.throttle <= 1.0
        path = avoid.lateral_offset
        assert path is None or path.usable
        assert path is None or abs(float(path.at(1e3))) <= PROFILE.limits.corridor_m


def test_with_nothing_in_the_way_it_is_the_pure_pursuit() -> None:
    avoid, pursuit = controllers()
    empty = (inf,) * 60
    for k in range(40):
        t_ns = SECOND + k * 20_000_000
        avoid.on_scan(LaserScan(t_ns, t_ns, -1.5, 0.05, 0.0, 0.05, 0.1, 10.0, 0.5, 0.0, empty))
        estimate = estimate_at(2.0 + 0.02 * k, t_ns)
        assert avoid.step(estimate, t_ns) == pursuit.step(estimate, t_ns)


def test_a_scan_costs_two_plans_at_most() -> None:
    avoid, _ = controllers()
    plan, made = avoid._lattice.plan, list[PathPlan]()

    def counted(*given: Any) -> PathPlan:
        made.append(plan(*given))
        return made[-1]

    avoid._lattice.plan = counted  # type: ignore[method-assign, assignment]
    for k in range(6):
        t_ns, before = SECOND + k * 20_000_000, len(made)
        avoid.on_scan(
            LaserScan(t_ns, t_ns, -1.5, 0.01, 0.0, 0.05, 0.1, 10.0, 0.5, 0.0, (2.0,) * 300)
        )
        avoid.step(estimate_at(2.0, t_ns), t_ns)
        assert 1 <= len(made) - before <= 2


# ------------------------------------------------- where local planners of others are known to fail

Circles = list[tuple[float, float, float]]
LANE = load_course("straight_20m")
FENCE: Circles = [(9.0, side * y, 0.2) for side in (-1.0, 1.0) for y in np.arange(0.75, 2.6, 0.35)]
"""Posts that leave a gap of 1.1 m across the course."""


class PastDrive(NamedTuple):
    """Result of a drive past circles."""

    x_m: float
    speed_mps: float
    least_mps: float
    """Least speed; negative if it went back."""
    nearest_m: float
    sides: list[float]
    """Offset of the plan at 9 m after each scan that gave one."""


def past(circles: Callable[[float], Circles], seconds: float, start_m: float = 4.0) -> PastDrive:
    """Drive along the x axis from standstill, with the kinematics of the profile, past circles of
    the time."""
    avoid = Avoid(AvoidParams(), VEHICLE, PROFILE.limits, LANE, 0.02)
    x, y, yaw, speed, wheel, nearest, sides = start_m, 0.0, 0.0, 0.0, 0.0, inf, list[float]()
    drive, outline, least = VEHICLE.drive, VEHICLE.outline, 0.0
    for k in range(round(seconds * 50)):
        t_ns = SECOND + k * SECOND // 50
        c, s = cos(yaw), sin(yaw)
        seen = [
            (c * (px - x) + s * (py - y), c * (py - y) - s * (px - x), r)
            for px, py, r in circles(0.02 * k)
        ]
        for ahead, left, radius in seen:
            out_x = max(ahead - outline.front_m, -outline.rear_m - ahead, 0.0)
            gap = hypot(out_x, max(abs(left) - outline.half_m, 0.0)) - radius
            nearest = min(nearest, gap)
        if k % 3 == 0:
            avoid.on_scan(scan_of(seen, t_ns))
        bend = tan(wheel) / VEHICLE.wheelbase_m
        estimate = StateEstimate(
            t_ns, t_ns, x, y, yaw, speed, speed * bend, (0.0,) * 16, EstimatorStatus.RUNNING
        )
        command = avoid.step(estimate, t_ns)
        if k % 3 == 0 and avoid.lateral_offset is not None:
            sides.append(float(avoid.lateral_offset.at(9.0)))
        step = 0.02 * VEHICLE.steering.rate_radps
        wheel += min(max(command.wheel_angle_rad - wheel, -step), step)
        way = -1.0 if command.throttle < 0.0 or speed < 0.0 else 1.0
        gain = drive.acceleration_mps2(abs(command.throttle), abs(speed), command.brake)
        speed = way * max(way * speed + 0.02 * gain, 0.0)
        x, y, yaw = x + 0.02 * speed * c, y + 0.02 * speed * s, yaw + 0.02 * speed * bend
        least = min(least, speed)
    return PastDrive(x, speed, least, nearest, sides)


def test_between_two_equal_gaps_it_keeps_to_one() -> None:
    """A post in the middle that seems to move a little to either side with each scan."""
    drive = past(lambda t: [(9.0, 0.02 * (-1.0) ** round(t * 50), 0.2)], 8.0)
    assert drive.x_m > 10.0
    assert drive.nearest_m > 0.05
    sides = [side > 0.0 for side in drive.sides if abs(side) > 0.2]
    assert sum(a is not b for a, b in pairwise(sides)) <= 1


@pytest.mark.parametrize(
    ("fence", "passes"), [([], True), (FENCE, False)], ids=["open", "in the gap"]
)
def test_a_body_that_comes_and_then_stands_in_the_way(fence: Circles, passes: bool) -> None:
    drive = past(lambda t: [*fence, (9.0, min(t - 3.0, 0.0), 0.25)], 9.0)
    assert (drive.x_m > 10.0) is passes
    assert drive.nearest_m > 0.05


def put_up(width_m: float) -> Callable[[float], Circles]:
    """Put up a fence right before a vehicle that set off at 4 m."""
    fence = [(6.8, y, 0.1) for y in np.arange(-width_m, width_m + 0.01, 0.15)]
    return lambda t: fence if t > 2.2 else []


def test_before_what_it_stands_too_near_to_it_goes_back_and_then_round() -> None:
    drive = past(put_up(0.45), 12.0)
    assert drive.x_m > 6.3, "abreast of the fence"
    assert drive.least_mps < -0.05
    assert drive.nearest_m > 0.05


def test_where_no_place_on_its_trail_has_a_way_round_it_does_not_go_back() -> None:
    drive = past(put_up(2.55), 5.8)
    assert drive.least_mps > -0.01
    assert drive.nearest_m > 0.05


# Before the start it stands within wait_s: after that the obstacle stop alone holds it.
@pytest.mark.parametrize(("place", "seconds"), [(20.0, 9.0), (16.2, 5.0)], ids=["goal", "start"])
def test_a_post_on_the_goal_or_before_the_start_is_not_touched(
    place: float, seconds: float
) -> None:
    drive = past(lambda t: [(place, 0.0, 0.2)], seconds, start_m=15.0)
    assert drive.nearest_m > 0.05
    assert drive.speed_mps < 0.05


def test_a_course_with_cusps_is_driven_without_paths_beside_it() -> None:
    course = load_course("parallel_parking")
    avoid = Avoid(AvoidParams(), VEHICLE, PROFILE.limits, course, 0.02)
    avoid.on_scan(
        LaserScan(SECOND, SECOND, -0.1, 0.01, 0.0, 0.05, 0.1, 10.0, 0.5, 0.0, (0.8,) * 20)
    )
    t = StateEstimate(SECOND, SECOND, float(course.x_m[0]), float(course.y_m[0]),
        float(course.yaw_rad[0]), 0.0, 0.0, (0.0,) * 16,
                      EstimatorStatus.RUNNING)  # fmt: skip
    avoid.step(t, SECOND)
    assert avoid.lateral_offset is None


def test_it_has_the_tuning_of_the_pursuit_where_its_own_table_gives_none() -> None:
    own = load_profile(
        "f1tenth",
        ["controller.name=avoid", "controller.avoid.speed.p=0.5", "controller.avoid.cells=10"],
    )
    pursuit, avoid = own.controller.params["pure_pursuit"], own.controller.selected
    assert (avoid.cells, avoid.speed.p) == (10, 0.5)
    assert avoid.look_ahead_min_s == pursuit.look_ahead_min_s != AvoidParams().look_ahead_min_s
    assert avoid.speed.deceleration_mps2 == pursuit.speed.deceleration_mps2
