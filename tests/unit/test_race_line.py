"""Race lines where the optimum is known, their speed profile and its gradient."""

from math import pi, sqrt

import numpy as np
import pytest
from msgspec.structs import replace
from scipy import sparse
from scipy.optimize import lsq_linear

from tests.race_tracks import point_limits, ring, rounded_square, wavy
from vehicled.core.arrays import Array
from vehicled.core.vehicle import Outline
from vehicled.offline.race.errors import RaceError
from vehicled.offline.race.limits import RaceLimits, limits_of
from vehicled.offline.race.line import OBJECTIVES, RaceLine, curvature_of, race_line, solve_qp
from vehicled.offline.race.speed import lap_gradient, lap_time
from vehicled.profile import load

MARGIN_M = 0.1


def radii(line: RaceLine) -> Array:
    found: Array = np.hypot(line.x_m, line.y_m)
    return found


def test_least_curvature_in_a_ring_is_its_outer_edge() -> None:
    line = race_line(ring(10.0, 2.0), point_limits(), "curvature", margin_m=MARGIN_M)
    assert radii(line) == pytest.approx(11.0 - MARGIN_M, abs=0.02)


@pytest.mark.parametrize("objective", ["shortest", "time"])
def test_a_ring_is_fastest_on_its_inner_edge(objective: str) -> None:
    """The lap time of a circle is 2 pi sqrt(r / a): the way shrinks faster than the speed."""
    line = race_line(ring(10.0, 2.0), point_limits(), objective, margin_m=MARGIN_M)  # type: ignore[arg-type]
    assert radii(line) == pytest.approx(9.0 + MARGIN_M, abs=0.03)
    assert line.lap.time_s == pytest.approx(2.0 * pi * sqrt((9.0 + MARGIN_M) / 4.0), rel=3e-3)


def test_a_ring_is_fastest_on_its_outer_edge_if_the_grip_never_limits() -> None:
    """Then only the way counts, so it is the inner edge as well, at top speed."""
    limits = point_limits(max_speed_mps=2.0)
    line = race_line(ring(10.0, 2.0), limits, "time", margin_m=MARGIN_M)
    assert line.lap.time_s == pytest.approx(2.0 * pi * (9.0 + MARGIN_M) / 2.0, rel=3e-3)


def test_right_angles_are_driven_on_the_widest_arc_where_the_speed_cannot_change() -> None:
    """The arc that touches both outer edges and the inner corner has the radius w sqrt 2 / (sqrt 2
    - 1)."""
    width = 2.0 - 2.0 * MARGIN_M
    track = rounded_square(40.0, 1.0, 2.0, 0.1)
    limits = point_limits(acceleration_mps2=1e-3, braking_mps2=1e-3)
    line = race_line(track, limits, "time", margin_m=MARGIN_M, stations=600)
    widest = width * sqrt(2.0) / (sqrt(2.0) - 1.0)
    assert float(1.0 / np.abs(line.curvature_per_m).max()) == pytest.approx(widest, rel=0.05)
    slowest = float(line.speed_mps.min())
    assert slowest == pytest.approx(sqrt(4.0 * widest), rel=0.03)


def test_the_line_of_a_corner_begins_outside_and_touches_the_inside() -> None:
    track = rounded_square(40.0, 1.0, 2.0, 0.1)
    line = race_line(track, point_limits(), "curvature", margin_m=MARGIN_M, stations=400)
    away = np.maximum(np.abs(line.x_m), np.abs(line.y_m))
    assert float(away.max()) == pytest.approx(21.0 - MARGIN_M, abs=0.02)
    corner = np.hypot(np.abs(line.x_m) - 19.0, np.abs(line.y_m) - 19.0)
    assert float(corner.min()) == pytest.approx(MARGIN_M, abs=0.03)


def test_a_stadium_takes_the_time_of_its_arcs_and_of_full_throttle_and_brake() -> None:
    radius, straight, grip = 5.0, 30.0, 4.0
    n = 2000
    length = 2.0 * straight + 2.0 * pi * radius
    s = (np.arange(n) + 0.5) * length / n
    part = s % (straight + pi * radius)
    kappa = np.where(part > straight, 1.0 / radius, 0.0)
    found = lap_time(kappa, np.full(n, length / n), point_limits(lateral_mps2=grip))
    slow = sqrt(grip * radius)
    peak = sqrt(slow * slow + grip * straight)
    expected = 2.0 * (pi * radius / slow + 2.0 * (peak - slow) / grip)
    assert found.time_s == pytest.approx(expected, rel=2e-3)
    assert float(found.speed_mps.max()) == pytest.approx(peak, rel=1e-2)
    assert float(found.speed_mps.min()) == pytest.approx(slow, rel=1e-3)


def test_no_speed_profile_leaves_the_friction_ellipse() -> None:
    limits = f1tenth(fraction=1.0)
    line = race_line(wavy(6.0, [0.2, 0.1], [0.3, 1.0], 1.6, 120), limits, "curvature", margin_m=0.1)
    speed, along = line.speed_mps, line.lap.acceleration_mps2
    across = speed * speed * np.abs(line.curvature_per_m)
    assert float(across.max()) <= limits.lateral_mps2 * 1.001
    used = np.hypot(along / limits.longitudinal_mps2, across / limits.lateral_mps2)
    accelerating = along > 0.0
    assert float(used[accelerating].max()) <= 1.02
    # A leg that brakes is judged at its end, where the pass that plans it stands.
    ends = np.hypot(along / limits.longitudinal_mps2, np.roll(across, -1) / limits.lateral_mps2)
    assert float(ends[~accelerating].max()) <= 1.02
    drive = np.array([limits.drive_mps2(v) for v in speed.tolist()])
    assert bool((along <= drive + 1e-6).all())


def test_the_wheels_turn_no_faster_than_their_actuator() -> None:
    limits = f1tenth()
    slow = replace(limits, steering_rate_radps=0.05)
    track = wavy(4.0, [0.25], [0.0], 1.6, 120)
    line = race_line(track, slow, "curvature", margin_m=0.1)
    wheel = np.arctan(slow.wheelbase_m * line.curvature_per_m)
    legs = np.diff(np.append(line.s_m, line.length_m))
    after = np.roll(line.speed_mps, -1)
    rate = np.abs(np.roll(wheel, -1) - wheel) / legs * 0.5 * (line.speed_mps + after)
    assert float(rate.max()) <= 0.05 * 1.001
    assert line.lap.time_s > race_line(track, limits, "curvature", margin_m=0.1).lap.time_s


def f1tenth(fraction: float = 0.9) -> RaceLimits:
    profile = load("f1tenth", ["limits.max_speed_mps=12"]).profile
    return limits_of(profile.vehicle, profile.limits, fraction=fraction)


def test_the_gradient_of_the_lap_time_is_its_difference_quotient() -> None:
    n = 120
    s = np.arange(n) * 0.5
    kappa = 0.3 * np.sin(2.0 * pi * s / 60.0) ** 3 + 0.2 * np.sin(10.0 * pi * s / 60.0) + 0.05
    legs, limits = np.full(n, 0.5), f1tenth()
    found = lap_gradient(kappa, legs, limits)
    for i in range(n):
        bump = np.zeros(n)
        bump[i] = 1e-6
        by_curvature = (
            lap_time(kappa + bump, legs, limits).time_s
            - lap_time(kappa - bump, legs, limits).time_s
        ) / 2e-6
        by_leg = (
            lap_time(kappa, legs + bump, limits).time_s
            - lap_time(kappa, legs - bump, limits).time_s
        ) / 2e-6
        assert found.by_curvature[i] == pytest.approx(by_curvature, abs=2e-3)
        assert found.by_leg[i] == pytest.approx(by_leg, abs=1e-4)


def test_the_quadratic_programme_is_solved_as_by_an_exact_solver() -> None:
    rng = np.random.default_rng(3)
    n = 60
    jacobian = sparse.diags_array(
        [np.ones(n - 1), np.full(n, -2.0), np.ones(n - 1)], offsets=[-1, 0, 1], format="csc"
    )
    kappa, weights = rng.normal(0.0, 1.0, n), rng.uniform(0.5, 2.0, n)
    low, high = -rng.uniform(0.1, 1.0, n), rng.uniform(0.1, 1.0, n)
    found = solve_qp(weights, kappa, jacobian, np.zeros(n), None, low, high, 1e3)
    root = np.sqrt(weights)
    exact = lsq_linear(root[:, None] * jacobian.toarray(), -root * kappa, (low, high)).x

    def cost(d: Array) -> float:
        return float((weights * (kappa + jacobian @ d) ** 2).sum())

    assert cost(found) <= cost(exact) * (1.0 + 1e-4)


def test_minimum_time_is_not_slower_than_the_other_lines() -> None:
    track = wavy(8.0, [0.25, 0.12, 0.08], [0.3, 1.0, 2.0], 1.6, 160)
    times = {
        objective: race_line(track, f1tenth(), objective, margin_m=0.08).lap.time_s
        for objective in OBJECTIVES
    }
    assert times["time"] == min(times.values())
    assert times["time"] < times["curvature"] < times["centre"]


def test_a_line_is_the_same_whichever_way_it_is_written_and_each_time() -> None:
    track = wavy(6.0, [0.2], [0.3], 1.6, 120)
    lines = [race_line(each, f1tenth(), "time", margin_m=0.08) for each in (track, track)]
    assert np.array_equal(lines[0].points, lines[1].points)
    back = race_line(track.reversed(), f1tenth(), "curvature", margin_m=0.08)
    ahead = race_line(track, f1tenth(), "curvature", margin_m=0.08)
    assert back.length_m == pytest.approx(ahead.length_m, rel=1e-3)
    assert np.sign(np.median(back.curvature_per_m)) == -np.sign(np.median(ahead.curvature_per_m))


def test_a_track_that_is_too_narrow_names_place_and_cure() -> None:
    body = point_limits(outline=Outline(0.4, 0.1, 0.5))
    with pytest.raises(
        RaceError,
        match=r"ring: the track is 1.10 m wide at \(.*fits with a margin of at most 0.05 m",
    ):
        race_line(ring(10.0, 1.1), body, margin_m=0.1)
    with pytest.raises(RaceError, match=r"the vehicle is 1.00 m wide .* choose a narrower vehicle"):
        race_line(ring(10.0, 0.9), body, margin_m=0.1)


def test_a_bend_beyond_full_lock_names_place_and_cure() -> None:
    limits = point_limits(max_curvature_per_m=0.05)
    with pytest.raises(
        RaceError, match=r"bend at \(.*\) m is too tight: .* no tighter than 20.00 m"
    ):
        race_line(ring(10.0, 2.0), limits, margin_m=0.1)


def test_the_body_keeps_its_margin_with_its_corners_in_bends() -> None:
    limits = f1tenth()
    for margin in (0.05, 0.2):
        line = race_line(ring(2.0, 1.4), limits, "curvature", margin_m=margin)
        assert line.clearance_m == pytest.approx(margin, abs=0.1 * margin + 2e-3)
        inner = race_line(ring(2.0, 1.4), limits, "shortest", margin_m=margin)
        assert inner.clearance_m == pytest.approx(margin, abs=0.1 * margin + 2e-3)


def test_curvature_has_the_sign_of_the_turn() -> None:
    kappa, legs = curvature_of(ring(5.0, 1.0).points)
    assert kappa == pytest.approx(0.2, rel=1e-3)
    assert float(legs.sum()) == pytest.approx(10.0 * pi, rel=1e-3)
    kappa, _ = curvature_of(ring(5.0, 1.0).reversed().points)
    assert kappa == pytest.approx(-0.2, rel=1e-3)
