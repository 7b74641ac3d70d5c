"""The alignment monitor: what begins a drive anew, which fixes count, and each of its ends from
both sides."""

from math import inf, nan, pi
from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.test_safety_monitors import MS, NOW_NS, Aligning, at
from tests.unit.test_safety_supervisor import ESTIMATE, LIMITS, MOVING
from vehicled.core.messages import EstimatorStatus, FixType, GnssFix, WheelSpeed
from vehicled.paths.datum import LOT_17
from vehicled.safety.monitors.alignment import AlignmentMonitor, heading_sigma_rad, usable

SURE = replace(MOVING, covariance=tuple(1e-6 if k == 10 else 1e-4 for k in range(16)))
UNSURE = replace(MOVING, covariance=tuple(0.01 if k == 10 else 1e-4 for k in range(16)))


def fix_at(x_m: float, y_m: float, **fields: Any) -> GnssFix:
    latitude, longitude, height = LOT_17.to_geodetic(x_m, y_m, 0.0)
    return GnssFix(0, 0, latitude, longitude, height, **{"fix_type": FixType.FIX_3D, **fields})


@pytest.mark.parametrize("status", EstimatorStatus)
def test_only_a_running_estimate_has_a_heading(status: EstimatorStatus) -> None:
    assert usable(replace(ESTIMATE, status=status)) is (status is EstimatorStatus.RUNNING)
    assert not usable(None)


@pytest.mark.parametrize(
    ("variance", "sigma"), [(0.04, 0.2), (0.0, 0.0), (-1e-9, nan), (nan, nan), (inf, inf)]
)
def test_the_deviation_of_the_heading(variance: float, sigma: float) -> None:
    covariance = tuple(variance if k == 10 else 7.0 for k in range(16))
    assert heading_sigma_rad(replace(ESTIMATE, covariance=covariance)) == pytest.approx(
        sigma, nan_ok=True
    )


# --------------------------------------------------------------------------------------- beginnings


def state(monitor: AlignmentMonitor) -> tuple[Any, ...]:
    return (
        monitor.active,
        monitor.without_heading,
        monitor.known,
        monitor.failed,
        monitor.turned_rad,
        monitor.moved_m,
    )


def test_before_any_drive_there_is_no_alignment() -> None:
    drive = Aligning()
    monitor = AlignmentMonitor(
        drive.monitor.params,
        LOT_17,
        (0.3, 0.4),
        drive.monitors.sources,
        drive.monitors.yaw,
        drive.monitors.speed,
    )
    assert state(monitor) == (False, False, "", "", 0.0, 0.0)
    assert monitor.antenna_m is None
    assert monitor.reach_m(0.7) == pytest.approx(1.2)
    monitor.update(at(NOW_NS + 100 * 10**9, ESTIMATE))
    assert state(monitor) == (False, False, "", "", 0.0, 0.0)
    monitor.begin_by_hand(at(NOW_NS, ESTIMATE))
    assert state(monitor) == (False, False, "", "", 0.0, 0.0)
    monitor.begin_by_hand(at(NOW_NS, drive.unknown))
    assert state(monitor) == (False, True, "", "", 0.0, 0.0)
    monitor.reset()
    assert state(monitor) == (False, False, "", "", 0.0, 0.0)


def test_every_drive_begins_anew() -> None:
    drive = Aligning()
    drive.go(3.0)
    drive.monitors.yaw._yaw_rad = 0.4
    drive.step(replace(UNSURE, speed_mps=-0.2), 15)
    assert state(drive.monitor) == (True, False, "", "", 0.4, pytest.approx(3.0, abs=1e-6))
    drive.step(SURE)
    assert drive.monitor.known
    drive.monitor.begin(at(drive.now_ns, ESTIMATE))
    assert state(drive.monitor) == (True, False, "", "", 0.0, 0.0)
    drive.monitors.yaw._yaw_rad = 0.7
    # Neither turn, time, way nor backward motion of the drive before count.
    drive.step(replace(UNSURE, speed_mps=-0.2), 19)
    assert state(drive.monitor)[2:] == ("", "", pytest.approx(0.3), 0.0)
    drive.step(replace(UNSURE, speed_mps=-0.2))
    assert drive.monitor.failed
    drive.monitor.begin(at(drive.now_ns, drive.unknown))
    assert state(drive.monitor) == (True, True, "", "", 0.0, 0.0)
    drive.monitor.begin_by_hand(at(drive.now_ns, drive.unknown))
    assert state(drive.monitor)[:4] == (False, True, "", "")
    drive.monitor.update(at(drive.now_ns, ESTIMATE))
    assert state(drive.monitor)[:4] == (False, False, "", ""), "the heading was found"


def test_a_result_stays() -> None:
    drive = Aligning()
    drive.go(3.0)
    drive.step(SURE)
    known = drive.monitor.known
    drive.monitors.yaw._yaw_rad = 1.0
    drive.step(replace(SURE, yaw_rad=2.0), 3000)
    assert (drive.monitor.known, drive.monitor.failed) == (known, "")
    drive.monitor.begin(at(drive.now_ns, drive.unknown))
    drive.monitors.yaw._yaw_rad = 2.0
    drive.step(drive.unknown)
    failed = drive.monitor.failed
    assert failed
    drive.monitors.yaw._yaw_rad = 1.0
    drive.go(6.0)
    drive.step(SURE)
    assert (drive.monitor.known, drive.monitor.failed) == ("", failed)


# -------------------------------------------------------------------------------------------- fixes


@pytest.mark.parametrize(
    ("fix", "counts"),
    [
        (fix_at(1.0, 2.0), True), (fix_at(1.0, 2.0, fix_type=FixType.FIX_2D), True),
        (fix_at(1.0, 2.0, fix_type=FixType.DEAD_RECKONING), False),
        (replace(fix_at(1.0, 2.0), height_m=nan), True),
        (replace(fix_at(1.0, 2.0), height_m=inf), True),
        (replace(fix_at(1.0, 2.0), latitude_rad=0.5 * pi + 1e-9), False),
        (replace(fix_at(1.0, 2.0), latitude_rad=-0.5 * pi - 1e-9), False),
        (replace(fix_at(1.0, 2.0), latitude_rad=nan), False),
    ],
)  # fmt: skip
def test_which_fixes_place_the_antenna(fix: GnssFix, counts: bool) -> None:
    drive = Aligning()
    drive.monitor.on_message(fix, drive.now_ns)
    assert drive.monitor.antenna_m == (
        pytest.approx((1.0, 2.0) if counts else (0.0, 0.0), abs=1e-5)
    )
    assert drive.monitor.moved_m == pytest.approx(5.0**0.5 if counts else 0.0, abs=1e-5)
    pole = AlignmentMonitor(
        drive.monitor.params,
        None,
        (0.0, 0.0),
        drive.monitors.sources,
        drive.monitors.yaw,
        drive.monitors.speed,
    )
    pole.on_message(fix, 0)
    assert pole.antenna_m is None, "without a course there is no map"


def test_the_line_begins_at_the_first_fix_of_the_drive() -> None:
    drive = Aligning()
    drive.monitor.antenna_m = None
    drive.monitor.begin(at(drive.now_ns, drive.unknown))
    assert drive.monitor.moved_m == 0.0
    assert drive.monitor._line_rad == 0.0
    for y_m in (2.0, 3.0, 5.0):
        drive.monitor.on_message(fix_at(1.0, y_m), drive.now_ns)
    assert drive.monitor.moved_m == pytest.approx(3.0, abs=1e-5)
    assert drive.monitor._line_rad == pytest.approx(pi / 2, abs=1e-5)
    drive.monitor.on_message(fix_at(-2.0, -2.0), drive.now_ns)
    assert drive.monitor.moved_m == pytest.approx(5.0, abs=1e-5)
    assert drive.monitor._line_rad == pytest.approx(-2.2142974, abs=1e-5)
    drive.monitor.reset()
    drive.monitor._from_m = None
    drive.monitor.on_message(fix_at(1.0, 1.0), drive.now_ns)
    assert (drive.monitor.moved_m, drive.monitor._line_rad) == (0.0, 0.0), (
        "only an alignment drive has a line"
    )


@pytest.mark.parametrize(
    ("yaw_rad", "fails"),
    [(pi / 2, False), (pi / 2 - 0.49, False), (pi / 2 - 0.51, True), (-pi / 2, True)],
)
def test_a_heading_is_compared_with_the_direction_of_the_line(yaw_rad: float, fails: bool) -> None:
    drive = Aligning()
    drive.monitor.on_message(fix_at(0.0, 3.0), drive.now_ns)
    drive.step(replace(UNSURE, yaw_rad=yaw_rad))
    assert ("off the line" in drive.monitor.failed) is fails


# --------------------------------------------------------------------------------------------- ends


@pytest.mark.parametrize(
    ("speed_mps", "after_ms", "fails"),
    [(1.0, 90, False), (1.0, 110, True), (-1.0, 110, True), (nan, 110, False)],
)
def test_the_way_by_speed_ends_it_and_a_pause_counts_a_tenth_of_a_second(
    speed_mps: float, after_ms: int, fails: bool
) -> None:
    drive = Aligning()
    # Backward motion would fail for another reason first.
    drive.monitor._driven_m, drive.monitor._reversed_ns = 4.905, -(10**9)
    drive.now_ns += (after_ms - 10) * MS
    drive.step(replace(UNSURE, speed_mps=speed_mps))
    assert bool(drive.monitor.failed) is fails
    drive = Aligning()
    drive.monitor._driven_m = 4.895
    drive.now_ns += 10**9
    drive.step(replace(UNSURE, speed_mps=speed_mps))
    assert drive.monitor.failed == ""


def test_backward_motion_counts_and_forward_motion_forgets_an_eighth() -> None:
    drive = Aligning()
    assert (drive.monitor._driven_m, drive.monitor._reversed_ns) == (0.0, 0)
    drive.step(replace(UNSURE, speed_mps=-0.2), 15)
    drive.step(replace(UNSURE, speed_mps=0.01), 80)
    drive.step(replace(UNSURE, speed_mps=-0.2), 14)
    assert drive.monitor.failed == ""
    drive.step(replace(UNSURE, speed_mps=-0.2))
    assert "reversed" in drive.monitor.failed
    drive = Aligning()
    drive.step(UNSURE, 80)
    drive.step(replace(UNSURE, speed_mps=-0.2), 19)
    assert drive.monitor.failed == "", "what was driven forward is no credit"
    for wheel, fails in ((-0.1, False), (-0.101, True), (0.05, False), (0.5, False)):
        drive = Aligning()
        for _ in range(20):
            now = drive.now_ns
            drive.monitors.speed.on_message(WheelSpeed(now, now, wheel, 0.01), now)
            # An estimate without a heading does not say which way it drives.
            drive.step(replace(drive.unknown, speed_mps=-1.0))
        assert ("the wheels report" in drive.monitor.failed) is bool(drive.monitor.failed) is fails


@pytest.mark.parametrize(
    ("x_m", "yaw_rad", "estimate", "fails"),
    [
        (2.01, 0.6, UNSURE, True), (1.99, 0.6, UNSURE, False), (2.01, 2 * pi - 0.4, UNSURE, False),
        (2.01, 2 * pi - 0.6, UNSURE, True),
        (2.01, 0.6, replace(UNSURE, status=EstimatorStatus.ALIGNING), False),
    ],
)  # fmt: skip
def test_a_heading_is_compared_with_a_line_that_is_long_enough(
    x_m: float, yaw_rad: float, estimate: Any, fails: bool
) -> None:
    drive = Aligning()
    drive.go(x_m)
    drive.step(replace(estimate, yaw_rad=yaw_rad))
    assert ("off the line" in drive.monitor.failed) is fails
    assert not drive.monitor.known


@pytest.mark.parametrize(
    ("moved_m", "driven_m", "estimate", "said"),
    [
        (2.0, 4.5, UNSURE, "the wheels slip"),
        (2.6, 4.9, UNSURE, "is known to 5.7 degrees only (limit 2.9)"),
        (0.3, 1.01, UNSURE, "the wheels slip"),
        (0.3, 0.9, UNSURE, "check the drive and what holds it"),
        (0.49, 0.0, UNSURE, "what holds it"), (0.51, 0.0, UNSURE, "is known to 5.7"),
        (0.51, 0.0, replace(UNSURE, status=EstimatorStatus.ALIGNING), "found no heading"),
    ],
)  # fmt: skip
def test_why_it_took_too_long(moved_m: float, driven_m: float, estimate: Any, said: str) -> None:
    drive = Aligning()
    drive.go(moved_m)
    drive.monitor._driven_m = driven_m
    drive.step(replace(estimate, speed_mps=0.0))
    assert drive.monitor.failed == ""
    drive.monitor._began_ns = drive.now_ns + 10 * MS - 20 * 10**9
    drive.step(replace(estimate, speed_mps=0.0))
    assert drive.monitor.failed == ""
    drive.step(replace(estimate, speed_mps=0.0))
    assert drive.monitor.failed.startswith("20 s are used up")
    assert said in drive.monitor.failed


@pytest.mark.parametrize(("turned_rad", "side"), [(0.6, "left by 34"), (-0.6, "right by 34")])
def test_the_side_to_which_it_turns(turned_rad: float, side: str) -> None:
    drive = Aligning()
    drive.monitors.yaw._yaw_rad = turned_rad
    drive.step(drive.unknown)
    assert side in drive.monitor.failed


def test_silence_is_that_of_the_fixes() -> None:
    drive = Aligning()
    drive.step(drive.unknown)
    drive.now_ns += round(LIMITS.gnss_silence_s * 1e9) + 1
    drive.monitor.update(at(drive.now_ns, drive.unknown))
    assert "no GNSS fix for 0.5 s" in drive.monitor.failed
