"""Fixes against the estimate: the allowance for place and speed from both sides, and which estimate
a fix is compared with."""

from math import cos, hypot, inf, nan, pi, sin
from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.test_safety_supervisor import ESTIMATE, LIMITS
from vehicled.core.messages import NAN9, CarrierSolution, EstimatorStatus, FixType, GnssFix, Mode
from vehicled.paths.datum import LOT_17
from vehicled.safety.inputs import SafetyInputs
from vehicled.safety.monitors.consistency import ConsistencyMonitor

MS = 10**6
NOW = 50 * 10**9
EXACT = (1e-20, *(0.0,) * 3, 1e-20, *(0.0,) * 4)
SURE = replace(ESTIMATE, t_ns=NOW, covariance=(0.0,) * 16)


def monitor(antenna_m: tuple[float, float] = (0.0, 0.0), **limits: Any) -> ConsistencyMonitor:
    return ConsistencyMonitor(
        replace(LIMITS, **{"corridor_m": 0.003, "max_speed_mps": 3.0, **limits}), LOT_17, antenna_m
    )


def fix_at(x_m: float, y_m: float, **fields: Any) -> GnssFix:
    latitude, longitude, height = LOT_17.to_geodetic(x_m, y_m, 0.0)
    sent = {
        "velocity_enu_mps": (0.0, 0.0, 0.0),
        "position_covariance_m2": EXACT,
        "velocity_covariance_m2ps2": EXACT,
    }
    fix_type = FixType.FIX_2D
    return GnssFix(
        NOW, NOW, latitude, longitude, height, **{**sent, "fix_type": fix_type, **fields}
    )


def compared(m: ConsistencyMonitor, estimate: Any, fix: GnssFix) -> tuple[int, int]:
    m.update(SafetyInputs(now_ns=NOW, mode=Mode.AUTO, limits=LIMITS, estimate=estimate))
    m.on_message(fix, NOW)
    return m.places_in_a_row, m.speeds_in_a_row


def spread(sigma: float) -> tuple[float, ...]:
    return (0.5 * sigma**2, *(0.0,) * 3, sigma**2, *(0.0,) * 4)


@pytest.mark.parametrize(
    ("estimate", "fix", "allowed_m"),
    [
        ({}, {}, 0.001), ({}, {"position_covariance_m2": spread(0.05)}, 0.3),
        ({"speed_mps": 2.0}, {}, 0.1), ({"speed_mps": -2.0}, {}, 0.1),
        ({"covariance": (0.0016, *(0.0,) * 15)}, {}, 0.24),
        ({"covariance": (0.0016, *(0.0,) * 15)}, {"position_covariance_m2": spread(0.03)}, 0.3),
        ({"covariance": (nan, *(0.0,) * 15)}, {"position_covariance_m2": spread(0.03)}, 0.18),
        ({"covariance": (*(0.0,) * 10, 0.01, *(0.0,) * 5)}, {}, 0.3),
        ({"covariance": (*(0.0,) * 10, 0.25, *(0.0,) * 5)}, {}, 1.0),
        ({"covariance": (*(0.0,) * 10, -0.25, *(0.0,) * 5)}, {}, 0.001),
        ({}, {"position_covariance_m2": NAN9}, 12.0),
        ({}, {"position_covariance_m2": NAN9, "carrier": CarrierSolution.FIXED}, 0.6),
        ({}, {"position_covariance_m2": NAN9, "carrier": CarrierSolution.FLOAT}, 3.0),
        ({}, {"position_covariance_m2": spread(0.0)}, 12.0),
        ({}, {"position_covariance_m2": spread(inf)}, 12.0),
        ({}, {"position_covariance_m2": (0.0025, *(0.0,) * 3, 0.0001, *(0.0,) * 4)}, 0.3),
    ],
)  # fmt: skip
def test_what_place_and_fix_declare_is_allowed(
    estimate: dict[str, Any], fix: dict[str, Any], allowed_m: float
) -> None:
    """Six standard deviations, 0.05 s of driving, and the swing of an antenna half a metre away."""
    for ratio, counts in ((0.99, 0), (1.01, 1)):
        m = monitor((0.3, 0.4))
        x_m, y_m = 0.3 - ratio * allowed_m * 0.6, 0.4 + ratio * allowed_m * 0.8
        assert compared(m, replace(SURE, **estimate), fix_at(x_m, y_m, **fix))[0] == counts
        assert m.apart_m == pytest.approx(ratio * allowed_m, abs=1e-6)


def test_a_third_of_the_corridor_is_always_allowed() -> None:
    for ratio, counts in ((0.99, 0), (1.01, 1)):
        assert compared(monitor(corridor_m=1.5), SURE, fix_at(0.0, -ratio * 0.5))[0] == counts


@pytest.mark.parametrize("yaw_rad", [0.0, 1.0, pi, -2.0])
@pytest.mark.parametrize(("speed_mps", "age_ms"), [(2.0, 50), (-2.0, 100), (0.0, 0)])
def test_the_antenna_at_the_time_of_the_fix(yaw_rad: float, speed_mps: float, age_ms: int) -> None:
    m = monitor((0.3, 0.4), corridor_m=3e-6)
    ahead_m = 0.3 + speed_mps * age_ms * 1e-3
    x_m = 5.0 + cos(yaw_rad) * ahead_m - sin(yaw_rad) * 0.4
    y_m = 6.0 + sin(yaw_rad) * ahead_m + cos(yaw_rad) * 0.4
    estimate = replace(
        SURE, t_ns=NOW - age_ms * MS, x_m=5.0, y_m=6.0, yaw_rad=yaw_rad, speed_mps=speed_mps
    )
    compared(m, estimate, fix_at(x_m, y_m))
    assert m.apart_m == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize(
    ("speed_mps", "ground_mps", "estimate", "fix", "counts"),
    [
        (0.5, 0.899, {}, {}, 0), (0.5, 0.901, {}, {}, 1), (1.0, 0.601, {}, {}, 0),
        (1.0, 0.599, {}, {}, 1), (-0.5, 0.899, {}, {}, 0), (-0.5, 0.901, {}, {}, 1),
        (3.0, 2.31, {}, {}, 0), (3.0, 2.30, {}, {}, 1),
        (0.5, 1.199, {}, {"velocity_covariance_m2ps2": spread(0.05)}, 0),
        (0.5, 1.201, {}, {"velocity_covariance_m2ps2": spread(0.05)}, 1),
        (0.0, 0.999, {}, {"velocity_covariance_m2ps2": NAN9}, 0),
        (0.0, 1.001, {}, {"velocity_covariance_m2ps2": NAN9}, 1),
        (0.5, 0.999, {"yaw_rate_radps": 0.2}, {}, 0), (0.5, 1.001, {"yaw_rate_radps": -0.2}, {}, 1),
        (0.5, 0.999, {"yaw_rate_radps": -0.2}, {}, 0), (0.5, 0.901, {"yaw_rate_radps": nan}, {}, 1),
        (1.0, nan, {}, {}, 0),
    ],
)  # fmt: skip
def test_what_the_speeds_may_differ_by(
    speed_mps: float, ground_mps: float, estimate: dict[str, Any], fix: dict[str, Any], counts: int
) -> None:
    m = monitor((0.3, 0.4), corridor_m=1e3)
    sent = fix_at(0.3, 0.4, velocity_enu_mps=(0.6 * ground_mps, -0.8 * ground_mps, 9.0), **fix)
    assert compared(m, replace(SURE, speed_mps=speed_mps, **estimate), sent) == (0, counts)
    if ground_mps == ground_mps:
        assert m.apart_mps == pytest.approx(ground_mps - abs(speed_mps))


@pytest.mark.parametrize(
    ("speed_mps", "ground_mps", "faster"),
    [(0.5, 0.699, False), (0.5, 0.701, True), (-0.5, 0.701, True), (0.5, 0.1, False)],
)
def test_half_of_what_is_allowed_shows_a_faster_vehicle(
    speed_mps: float, ground_mps: float, faster: bool
) -> None:
    m = monitor(corridor_m=1e3)
    seen = fix_at(0.0, 0.0, velocity_enu_mps=(ground_mps, 0.0, 0.0))
    compared(m, replace(SURE, speed_mps=speed_mps), seen)
    assert m.faster is faster
    compared(m, replace(SURE, speed_mps=speed_mps), replace(seen, velocity_enu_mps=(nan, 0.0, 0.0)))
    assert not m.faster
    compared(m, replace(SURE, speed_mps=speed_mps), seen)
    compared(m, replace(SURE, t_ns=SURE.t_ns + 1, speed_mps=nan), replace(seen, t_ns=NOW + 1))
    assert not m.faster


def test_a_small_vehicle_has_a_small_tolerance() -> None:
    for ground_mps, counts in ((0.249, 0), (0.251, 1)):
        m = monitor(max_speed_mps=0.5, corridor_m=1e3)
        assert (
            compared(m, SURE, fix_at(0.0, 0.0, velocity_enu_mps=(ground_mps, 0.0, 0.0)))[1]
            == counts
        )


def test_contradictions_count_in_a_row_and_an_unknown_estimate_ends_them() -> None:
    m = monitor()
    assert (m.places_in_a_row, m.speeds_in_a_row, m.apart_m, m.apart_mps) == (0, 0, 0.0, 0.0)
    wrong = fix_at(1.0, 0.0, velocity_enu_mps=(2.0, 0.0, 0.0))
    for k in range(1, 4):
        assert compared(m, SURE, wrong) == (k, k)
    assert compared(m, SURE, replace(wrong, velocity_enu_mps=(nan, 0.0, 0.0))) == (4, 0), (
        "no speed is no contradiction"
    )
    assert compared(m, SURE, fix_at(0.0, 0.0)) == (0, 0)
    for field in ("x_m", "y_m", "yaw_rad", "speed_mps"):
        m = monitor()
        compared(m, SURE, wrong)
        assert compared(
            m, replace(SURE, t_ns=NOW + 1, **{field: nan}), replace(wrong, t_ns=NOW + 1)
        ) == (0, 0)
    m = ConsistencyMonitor(LIMITS, None, (0.0, 0.0))
    assert compared(m, SURE, wrong) == (0, 1), "without a course there is no map"


@pytest.mark.parametrize(
    ("after_ns", "counts"), [(-1, 0), (0, 1), (100 * MS, 1), (100 * MS + 1, 0)]
)
def test_a_fix_is_compared_with_the_estimate_before_it(after_ns: int, counts: int) -> None:
    wrong = fix_at(9.0, 0.0)
    assert compared(monitor(), SURE, replace(wrong, t_ns=NOW + after_ns))[0] == counts
    assert (
        compared(monitor(), SURE, replace(wrong, t_ns=NOW, fix_type=FixType.DEAD_RECKONING))[0] == 0
    )


def test_estimates_are_kept_for_a_second_in_their_order() -> None:
    m = monitor()
    for k in range(30):
        compared(
            m,
            replace(SURE, t_ns=NOW + k * 50 * MS, x_m=float(k)),
            fix_at(0.0, 0.0, fix_type=FixType.NONE),
        )
    assert [estimate.x_m for estimate in m._estimates] == [float(k) for k in range(9, 30)]
    for t_ns in (NOW + 29 * 50 * MS, NOW + 28 * 50 * MS):
        compared(m, replace(SURE, t_ns=t_ns), fix_at(0.0, 0.0, fix_type=FixType.NONE))
    compared(m, None, fix_at(0.0, 0.0, fix_type=FixType.NONE))
    assert len(m._estimates) == 21
    m.on_message(replace(fix_at(28.0, 0.0), t_ns=NOW + 28 * 50 * MS), NOW)
    assert m.apart_m == pytest.approx(0.0, abs=1e-6)
    assert hypot(m.apart_m, m.places_in_a_row) == pytest.approx(0.0, abs=1e-6)


# -------------------------------------------------------------------------------------------- jumps


def driven(
    m: ConsistencyMonitor,
    *places: tuple[float, float, float],
    mode: Mode = Mode.AUTO,
    **fields: Any,
) -> ConsistencyMonitor:
    """Give the monitor estimates at times (s), x and y (m), at 1 m/s to the east."""
    for t_s, x_m, y_m in places:
        estimate = replace(
            ESTIMATE, **{"yaw_rad": 0.0, "speed_mps": 1.0, "covariance": (0.0,) * 16, **fields}
        )
        estimate = replace(estimate, t_ns=NOW + round(t_s * 1e9), x_m=x_m, y_m=y_m)
        m.update(SafetyInputs(now_ns=estimate.t_ns, mode=mode, limits=LIMITS, estimate=estimate))
    return m


def test_a_place_that_jumps_against_its_motion_is_doubted_until_it_is_back_or_accepted() -> None:
    m = driven(monitor(corridor_m=1.5), (0.0, 0.0, 0.0), (0.1, 0.1, 0.0))
    assert (m.jumped_m, m.jumped) == (0.0, False)
    driven(m, (0.2, 0.5, 0.6), (0.3, 0.6, 0.6))
    assert m.jumped_m == pytest.approx(hypot(0.3, 0.6))
    assert m.jumped
    driven(m, (0.4, 0.4, 0.0))
    assert m.jumped_m == pytest.approx(0.0, abs=1e-9)
    assert not m.jumped
    driven(m, (0.5, 0.5, -9.0))
    assert m.jumped
    m.accept_place()
    assert not m.jumped


@pytest.mark.parametrize(
    ("fields", "dt_s", "allowed_m"),
    [
        ({}, 0.1, 0.5), ({"covariance": (0.01, *(0.0,) * 4, 0.01, *(0.0,) * 10)}, 0.1, 0.6),
        ({"covariance": (nan, *(0.0,) * 15)}, 0.1, 0.5), ({}, 0.101, 0.601),
        ({"speed_mps": -1.0}, 0.101, 0.601), ({"speed_mps": 0.0}, 5.0, 0.5),
    ],
)  # fmt: skip
def test_what_a_place_may_move_beyond_its_speed(
    fields: dict[str, Any], dt_s: float, allowed_m: float
) -> None:
    """A third of the corridor, or six sigma, and after a gap the way that it may have driven."""
    for ratio, jumps in ((0.99, False), (1.01, True)):
        m = driven(monitor(corridor_m=1.5), (0.0, 0.0, 0.0), **fields)
        x_m = fields.get("speed_mps", 1.0) * dt_s
        driven(m, (dt_s, x_m + 0.6 * ratio * allowed_m, 0.8 * ratio * allowed_m), **fields)
        assert (m.jumped_m > 0.0) is jumps
        assert m.jumped is jumps


@pytest.mark.parametrize("mode", [Mode.INIT, Mode.STANDBY, Mode.ARMED, Mode.FAULT])
def test_a_vehicle_that_does_not_drive_may_be_pushed_and_a_place_may_come_back(mode: Mode) -> None:
    m = driven(monitor(corridor_m=1.5), (0.0, 0.0, 0.0), (0.1, 3.0, 0.0), mode=mode)
    assert not m.jumped
    driven(m, (0.2, 3.1, 2.0), mode=Mode.STOPPING)
    assert m.jumped
    driven(m, (0.3, 3.2, 4.0), mode=mode)
    assert m.jumped_m == pytest.approx(2.0)
    driven(m, (0.4, 3.3, 2.0), mode=mode)
    assert not m.jumped


def lost_for(
    m: ConsistencyMonitor, seconds: float, measured_mps: float, mode: Mode = Mode.STOPPING
) -> ConsistencyMonitor:
    """Let a vehicle at 1 m/s to the east lose its place, for that time with a measured speed."""
    driven(m, (0.0, 0.0, 0.0), mode=Mode.AUTO)
    for k in range(1, 11):
        now_ns = NOW + round(k * 0.1 * seconds * 1e9)
        lost = replace(
            ESTIMATE, t_ns=now_ns, status=EstimatorStatus.ALIGNING, x_m=70.0, covariance=(0.0,) * 16
        )
        s = SafetyInputs(
            now_ns=now_ns, mode=mode, limits=LIMITS, estimate=lost, measured_speed_mps=measured_mps
        )
        m.update(s)
    return m


@pytest.mark.parametrize("yaw_rad", [0.0, 1.0])
@pytest.mark.parametrize(
    ("measured_mps", "mode", "allowed_m"),
    [
        (2.0, Mode.STOPPING, 0.5 + 0.25 * 4.0), (-2.0, Mode.STOPPING, 0.5 + 0.25 * 4.0),
        (0.0, Mode.STOPPING, 0.5), (2.0, Mode.STANDBY, 0.5 + 4.0), (0.0, Mode.STANDBY, 0.5),
    ],
)  # fmt: skip
def test_a_place_that_was_lost_in_a_drive_is_judged_by_the_measured_way(
    yaw_rad: float, measured_mps: float, mode: Mode, allowed_m: float
) -> None:
    """It has jumped also if the vehicle stands by then. The way leads along the mean of the
    headings before and after."""
    for ratio, jumps in ((0.99, False), (1.01, True)):
        m = lost_for(monitor(corridor_m=1.5), 2.0, measured_mps, mode)
        x_m = 2.0 * measured_mps * 0.5 * (1.0 + cos(yaw_rad)) + 0.6 * ratio * allowed_m
        y_m = 2.0 * measured_mps * 0.5 * sin(yaw_rad) - 0.8 * ratio * allowed_m
        driven(m, (2.0 + 1e-9, x_m, y_m), mode=Mode.STANDBY, yaw_rad=yaw_rad)
        assert m.jumped is jumps


DIVERGED = EstimatorStatus.DIVERGED


@pytest.mark.parametrize("status", [EstimatorStatus.ALIGNING, EstimatorStatus.RUNNING, DIVERGED])
@pytest.mark.parametrize("mode", [Mode.STOPPING, Mode.STANDBY])
@pytest.mark.parametrize(("sigma_m", "allowed_m"), [(0.0, 0.5), (1.0, 4.0)])
def test_a_filter_that_diverged_in_a_drive_is_judged_by_its_first_place_after_it(
    status: EstimatorStatus, mode: Mode, sigma_m: float, allowed_m: float
) -> None:
    """Its sigma has grown until then, and no speed was measured: the receiver was silent."""
    covariance = (sigma_m**2, *(0.0,) * 4, sigma_m**2, *(0.0,) * 10)
    for ratio, jumps in ((0.99, False), (1.01, True)):
        m = driven(monitor(corridor_m=1.5), (0.0, 0.0, 0.0))
        driven(m, (0.1, 0.1, 0.0), mode=Mode.STOPPING, status=DIVERGED, covariance=covariance)
        for k in range(2, 9):
            driven(m, (0.1 * k, 0.1 * k, 0.0), mode=mode, status=DIVERGED, covariance=covariance)
        driven(m, (0.9, 0.9, ratio * allowed_m), mode=mode, status=status)
        assert m.jumped is jumps


def test_a_filter_that_diverged_at_a_standstill_may_be_carried() -> None:
    m = driven(monitor(corridor_m=1.5), (0.0, 0.0, 0.0), mode=Mode.STANDBY)
    driven(m, (0.1, 0.1, 0.0), mode=Mode.STANDBY, status=DIVERGED)
    driven(m, (0.2, 9.0, 0.0), mode=Mode.STANDBY)
    assert not m.jumped


def test_a_place_that_was_lost_at_a_standstill_may_be_carried() -> None:
    m = driven(monitor(corridor_m=1.5), (0.0, 0.0, 0.0), mode=Mode.STANDBY)
    driven(m, (0.1, nan, 0.0), (2.0, nan, 0.0), (2.1, 50.0, 0.0), mode=Mode.STANDBY)
    assert not m.jumped


def test_an_estimate_that_has_no_place_yet_does_not_jump() -> None:
    m = driven(monitor(corridor_m=1.5), (0.0, 50.0, 0.0), status=EstimatorStatus.ALIGNING)
    driven(m, (0.1, nan, 0.0))
    driven(m, (0.2, 0.0, 0.0), (0.3, 0.1, 0.0))
    assert not m.jumped


@pytest.mark.parametrize("yaw_rad", [0.0, 0.7, 2.2, -1.9])
@pytest.mark.parametrize("speed_mps", [8.0, -8.0])
def test_a_motion_along_its_own_yaw_is_no_jump(yaw_rad: float, speed_mps: float) -> None:
    way_m = 0.1 * speed_mps
    m = driven(
        monitor(corridor_m=1.5),
        *((0.1 * k, k * way_m * cos(yaw_rad), k * way_m * sin(yaw_rad)) for k in range(5)),
        yaw_rad=yaw_rad, speed_mps=speed_mps,
    )  # fmt: skip
    assert m.jumped_m == 0.0


@pytest.mark.parametrize(
    ("before_mps", "after_mps"), [(2.0, 0.0), (0.0, 2.0), (-2.0, 0.0), (0.0, -2.0)]
)
def test_after_a_gap_the_larger_of_both_speeds_may_have_been_driven(
    before_mps: float, after_mps: float
) -> None:
    """The limit is half a metre and one second at 2 m/s, beyond the way by the mean of both
    speeds."""
    for y_m, jumps in ((2.45, False), (2.55, True)):
        m = driven(monitor(corridor_m=1.5), (0.0, 0.0, 0.0), speed_mps=before_mps)
        driven(m, (1.0, 0.5 * (before_mps + after_mps), y_m), speed_mps=after_mps)
        assert (m.jumped_m > 0.0) is jumps


def test_only_an_estimate_that_runs_and_has_numbers_is_a_place() -> None:
    spoilt: list[tuple[dict[str, Any], float]] = [
        ({"status": EstimatorStatus.ALIGNING}, 50.0),
        ({}, nan),
    ]
    for fields, x_m in spoilt:
        m = driven(monitor(corridor_m=1.5), (0.0, x_m, 0.0), **fields)
        driven(m, (0.1, 0.0, 0.0), (0.2, 0.1, 0.0))
        assert m.jumped_m == 0.0
        driven(m, (0.3, x_m, 0.0), **fields)
        driven(m, (0.4, 3.3, 0.0))
        assert m.jumped_m == pytest.approx(3.3 - 0.1 - 0.2, abs=0.01), (
            "and the last one before counts"
        )
