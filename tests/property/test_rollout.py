"""The controller ``rollout``: paths beside the course without jumps, choices that keep clear, any scan."""

from math import atan, cos, hypot, inf, nan, pi, sin

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from vehicled.control.preview import Preview
from vehicled.control.pure_pursuit import PurePursuit, PurePursuitParams
from vehicled.control.rollout.controller import Rollout
from vehicled.control.rollout.params import RolloutParams
from vehicled.control.rollout.planner import Planner, PlannerLimits
from vehicled.control.rollout.simulation import CourseTable, TrackModel, simulate
from vehicled.core.messages import EstimatorStatus, LaserScan, StateEstimate
from vehicled.paths.catalog import load_course
from vehicled.paths.lateral_offset import LateralOffset
from vehicled.profile import load_profile
from vehicled.safety.monitors.lane import LaneBody

PROFILE = load_profile("art_vesc")
COURSE = load_course("circle_r5_ccw")
SECOND = 1_000_000_000
MODEL = TrackModel(0.5, 0.4, 1.0, 1.0, 1.0, 1.0, 0.6, 20.0)
PARAMS = RolloutParams()
TABLE = CourseTable(COURSE, np.ones(len(COURSE.x_m)))
BODY = LaneBody(PROFILE.vehicle, 0.1)
PLANNER = Planner(PARAMS, TABLE, BODY, PlannerLimits(1.2, 0.8, 2.0))


@given(
    start=st.floats(-50, 50), length=st.floats(0.5, 20), before=st.floats(-3, 3), slope=st.floats(-0.5, 0.5), after=st.floats(-3, 3)
)
def test_an_offset_changes_without_jumps(start: float, length: float, before: float, slope: float, after: float) -> None:
    path = LateralOffset(start, length, before, slope, after)
    s = np.linspace(start, start + length, 1001)[1:-1]
    at, slopes, bends = path.shape(s)
    assert np.array_equal(at, path.at(s))
    assert (path.at(start - 1.0), path.at(start)) == (before, before)
    assert abs(path.at(start + length) - after) < 1e-9
    assert path.settled(start + length + 1e-6)
    assert not path.settled(start + 0.9 * length)
    # Nothing jumps at the ends, and the derivatives are those of the offset.
    size = (abs(after - before) + abs(slope) * length) / length
    assert abs(slopes[0] - slope) < 0.1 * size + 1e-9
    assert abs(slopes[-1]) < 0.1 * size + 1e-9
    assert max(abs(bends[0]), abs(bends[-1])) < 0.2 * size / length + 1e-9
    assert np.abs(np.gradient(at, s)[1:-1] - slopes[1:-1]).max() < 0.01 * size + 1e-9
    assert np.abs(np.gradient(slopes, s)[1:-1] - bends[1:-1]).max() < 0.05 * size / length + 1e-9


@given(s=st.floats(0, 200), laps=st.integers(-3, 3))
def test_on_a_lap_the_nearer_round_counts(s: float, laps: int) -> None:
    path = LateralOffset(30.0, 2.0, 0.0, 0.0, 1.0, 40.0)
    assert abs(path.at(s + laps * 40.0) - path.at(s)) < 1e-6
    assert path.at(39.0) == 1.0
    assert path.at(1.0) == 1.0
    assert path.at(29.0) == 0.0


def on_circle(s_m: float, left_m: float = 0.0) -> tuple[float, float, float]:
    k = int(np.searchsorted(COURSE.s_m, s_m))
    x, y, yaw = float(COURSE.x_m[k]), float(COURSE.y_m[k]), float(COURSE.yaw_rad[k])
    return x - left_m * sin(yaw), y + left_m * cos(yaw), yaw


posts = st.lists(st.tuples(st.floats(1.0, 6.0), st.floats(-1.6, 1.6)), max_size=4)


@given(places=posts, speed=st.floats(0.0, 1.0), seed=st.integers(0, 9))
@examples(40)
def test_a_choice_keeps_clear_of_everything_or_says_that_it_cannot(
    places: list[tuple[float, float]], speed: float, seed: int
) -> None:
    x0, y0, yaw0 = on_circle(5.0)
    found = [on_circle(5.0 + ahead, left) for ahead, left in places]
    angles = np.linspace(0.0, 2.0 * pi, 12)
    x = np.concatenate([px + 0.15 * np.cos(angles) for px, _, _ in found]) if found else np.zeros(0)
    y = np.concatenate([py + 0.15 * np.sin(angles) for _, py, _ in found]) if found else np.zeros(0)
    start = Preview(x0, y0, yaw0, speed, atan(0.5 / 5.0))
    choice = PLANNER.choose(MODEL, start, 5.0, None, (x, y), 2)
    assert choice == PLANNER.choose(MODEL, start, 5.0, None, (x, y), 2)
    assert choice.free == (choice.clearance_m >= 0.0)
    if not found:
        assert (choice.path, choice.ratio) == (None, 1.0)
    line = choice.path or LateralOffset(5.0, 1.0, 0.0, 0.0, 0.0, COURSE.length_m)
    start_m, length_m, before_m, slope, after_m = (np.array([value]) for value in line[:5])
    paths = LateralOffset(start_m, length_m, before_m, slope, after_m, line.lap_m)
    steps = round(PARAMS.horizon_s / PARAMS.step_s)
    drive = simulate(MODEL, TABLE, paths, np.array([choice.ratio]), start, 5.0, steps, PARAMS.step_s)
    least = min((clearance(drive, px, py) for px, py in zip(x, y)), default=inf)
    now = min((clearance(drive, px, py, only_first=True) for px, py in zip(x, y)), default=inf)
    if choice.free:
        # Points are thinned to cells of 5 cm, and those that are near already may stay as near.
        assert least >= min(0.1 + PARAMS.clearance_m, now) - 0.06
    assert abs(float(line.after_m)) <= 1.2 + 1e-9


def clearance(drive, px: float, py: float, *, only_first: bool = False) -> float:
    """Return the least distance of a point from the rectangle of the body, pose by pose."""
    best = inf
    for k in range(1 if only_first else drive.x_m.shape[1]):
        c, s = cos(drive.yaw_rad[0, k]), sin(drive.yaw_rad[0, k])
        dx, dy = px - drive.x_m[0, k], py - drive.y_m[0, k]
        ahead, left = c * dx + s * dy, c * dy - s * dx
        out_x = max(ahead - BODY.front_m, -BODY.rear_m - ahead, 0.0)
        best = min(best, hypot(out_x, max(abs(left) - BODY.half_m, 0.0)))
    return best


def test_the_prediction_is_what_a_pure_pursuit_drives() -> None:
    """The predicted vehicle stays on its path in steady motion."""
    x, y, yaw = on_circle(5.0, 0.6)
    start = Preview(x, y, yaw, 1.0, atan(0.5 / 4.4))
    path = LateralOffset(np.array([4.0]), np.array([1.0]), np.array([0.6]), np.array([0.0]), np.array([0.6]), COURSE.length_m)
    drive = simulate(MODEL, TABLE, path, np.ones(1), start, 5.0, 40, 0.1)
    assert np.abs(drive.offset_m - 0.6).max() < 0.005


ranges = st.lists(st.one_of(st.floats(0.05, 12.0), st.sampled_from([inf, -inf, nan, 0.0, -1.0, 1e300])), min_size=1, max_size=40)


def controllers() -> tuple[Rollout, PurePursuit]:
    rest = PROFILE.vehicle, PROFILE.limits, COURSE, 0.02
    return Rollout(RolloutParams(), *rest), PurePursuit(PurePursuitParams(), *rest)


def estimate_at(s_m: float, t_ns: int) -> StateEstimate:
    x, y, yaw = on_circle(s_m)
    return StateEstimate(t_ns, t_ns, x, y, yaw, 1.0, 0.2, (0.0,) * 16, EstimatorStatus.RUNNING)


@given(
    seen=ranges,
    least=st.sampled_from([0.1, nan, 5.0]),
    most=st.sampled_from([10.0, inf, nan, 0.0]),
    mount=st.sampled_from([0.5, nan]),
)
def test_any_scan_gives_a_finite_command_within_the_limits(seen: list[float], least: float, most: float, mount: float) -> None:
    rollout, _ = controllers()
    for k in range(3):
        t_ns = SECOND + k * 20_000_000
        rollout.on_scan(LaserScan(t_ns, t_ns, -1.5, 3.0 / len(seen), 0.0, 0.05, least, most, mount, 0.0, tuple(seen)))
        command = rollout.step(estimate_at(2.0 + 0.02 * k, t_ns), t_ns)
        assert abs(command.wheel_angle_rad) <= PROFILE.vehicle.steering.max_wheel_rad
        assert 0.0 <= command.throttle <= 1.0
        path = rollout.lateral_offset
        assert path is None or abs(path.after_m) <= PROFILE.limits.corridor_m


def test_with_nothing_in_the_way_it_is_the_pure_pursuit() -> None:
    rollout, pursuit = controllers()
    empty = (inf,) * 60
    for k in range(40):
        t_ns = SECOND + k * 20_000_000
        rollout.on_scan(LaserScan(t_ns, t_ns, -1.5, 0.05, 0.0, 0.05, 0.1, 10.0, 0.5, 0.0, empty))
        estimate = estimate_at(2.0 + 0.02 * k, t_ns)
        assert rollout.step(estimate, t_ns) == pursuit.step(estimate, t_ns)


def test_after_a_missed_deadline_it_chooses_in_one_round() -> None:
    rollout, _ = controllers()
    made = []
    for late in (False, True):
        if late:
            rollout.on_deadline_miss()
        t_ns = SECOND + 20_000_000 * late
        rollout.on_scan(LaserScan(t_ns, t_ns, -0.1, 0.01, 0.0, 0.05, 0.1, 10.0, 0.5, 0.0, (2.2,) * 20))
        rollout.step(estimate_at(2.0, t_ns), t_ns)
        made.append(rollout.choice.rollouts)
    assert made[1] < made[0]


def test_a_course_with_cusps_is_driven_without_paths_beside_it() -> None:
    course = load_course("parallel_parking")
    rollout = Rollout(RolloutParams(), PROFILE.vehicle, PROFILE.limits, course, 0.02)
    rollout.on_scan(LaserScan(SECOND, SECOND, -0.1, 0.01, 0.0, 0.05, 0.1, 10.0, 0.5, 0.0, (0.8,) * 20))
    t = StateEstimate(SECOND, SECOND, float(course.x_m[0]), float(course.y_m[0]), float(course.yaw_rad[0]), 0.0, 0.0, (0.0,) * 16,
                      EstimatorStatus.RUNNING)  # fmt: skip
    rollout.step(t, SECOND)
    assert rollout.lateral_offset is None


def test_its_parameters_are_those_of_the_pursuit_and_more() -> None:
    assert set(PurePursuitParams.__struct_fields__) < set(RolloutParams.__struct_fields__)
