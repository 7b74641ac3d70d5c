"""Arming checks besides the estimate and its inputs: each names cause and cure, and clears with the
cause."""

from collections.abc import Callable
from math import isnan, pi

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from tests.examples import examples
from tests.strategies import near
from tests.unit.test_machine import VEHICLE
from vehicled.core.messages import (
    EstimatorStatus,
    GnssFix,
    Heading,
    HeadingKind,
    Heartbeat,
    HostHealth,
    ImuSample,
    LaserScan,
    Mode,
    MotorStatus,
    ObstacleRange,
    OperatorAction,
    StateEstimate,
)
from vehicled.core.vehicle import Limits
from vehicled.safety.arming import CHECKS, missing
from vehicled.safety.fence import Fence, Polygon
from vehicled.safety.monitors import Monitors
from vehicled.safety.monitors.sources import MonitoredSource
from vehicled.safety.monitors.speed import FIXES, SpeedMonitor
from vehicled.safety.rule import RuleInputs

SECOND_NS = 10**9
NOW_NS = 100 * SECOND_NS
LIMITS = Limits(
    max_speed_mps=3.0, max_lateral_acceleration_mps2=2.5, corridor_m=2.0, battery_empty_v=9.6
)
ESTIMATE = StateEstimate(0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, (1e-4,) * 16, EstimatorStatus.RUNNING)
MOTOR = MotorStatus(NOW_NS, NOW_NS, 0.0, 0.0, 0.0, 11.0, 0.0, 300.0, 300.0, 0)


class Account(Struct):
    """Return the executive's counts of a task."""

    n: int
    misses: int
    consecutive_misses: int = 0


def situation(monitors: Monitors, limits: Limits = LIMITS) -> RuleInputs:
    return RuleInputs(
        now_ns=NOW_NS, mode=Mode.STANDBY, limits=limits, monitors=monitors, estimate=ESTIMATE
    )


def standing(
    limits: Limits = LIMITS, *, telemetry: bool = True, fence: Fence | None = None
) -> Monitors:
    """Monitors of a vehicle that stands by live fixes."""
    monitors = Monitors(limits, VEHICLE, fence=fence, telemetry=telemetry)
    for k in range(FIXES):
        monitors.speed.on_message(
            GnssFix(NOW_NS, NOW_NS, 0.0, 0.0, 0.0, velocity_enu_mps=(0.01 * k, 0.0, 0.0)), NOW_NS
        )
    return monitors


def watched(limits: Limits = LIMITS, *, telemetry: bool = True) -> Monitors:
    """All is well."""
    monitors = standing(limits, telemetry=telemetry)
    deliver(monitors, MOTOR)
    deliver(monitors, HostHealth(NOW_NS, temperature_k=320.0))
    return monitors


def deliver(monitors: Monitors, message: MotorStatus | HostHealth | Heartbeat) -> None:
    if isinstance(message, MotorStatus):
        monitors.sources.received(MotorStatus, message.t_rx_ns)
    monitors.on_message(message, NOW_NS)


def ticks(
    monitors: Monitors, runs_per_s: int, misses_per_s: int, seconds: int, task: str = "control"
) -> None:
    """The executive's counters over some seconds."""
    for k in range(seconds + 1):
        monitors.deadlines.update(
            k * SECOND_NS,
            [("fusion", Account(200 * k, 0)), (task, Account(runs_per_s * k, misses_per_s * k))],
        )


def test_nothing_is_missing_when_all_is_well() -> None:
    monitors = watched()
    ticks(monitors, 100, 1, 12)
    assert missing(situation(monitors)) == []


CASES: list[tuple[Callable[[Monitors], object], str, str]] = [
    (
        lambda w: deliver(w, replace(MOTOR, motor_temperature_k=360.0)),
        "motor or controller at 87 degrees (limit 80)",
        "let it cool",
    ),
    (
        lambda w: deliver(w, replace(MOTOR, controller_temperature_k=354.0)),
        "at 81 degrees",
        "let it cool",
    ),
    (
        lambda w: w.on_message(replace(MOTOR, input_voltage_v=5.0), NOW_NS + 10 * SECOND_NS),
        "the battery is at 5.00 V",
        "charge it",
    ),
    (
        lambda w: deliver(w, HostHealth(NOW_NS, temperature_k=371.0)),
        "the processor is at 98 degrees (limit 95)",
        "let it cool",
    ),
    (
        lambda w: ticks(w, 100, 6, 12),
        "6.0 % of the deadlines of control in the last ten seconds",
        "end other programs",
    ),
    (
        lambda w: deliver(w, Heartbeat(NOW_NS - 3 * SECOND_NS, NOW_NS - 3 * SECOND_NS, "ground")),
        "the ground station has been silent for 3.0 s",
        "back into reach",
    ),
]


@pytest.mark.parametrize(("happens", "cause", "cure"), CASES)
def test_each_names_its_cause_and_cure(
    happens: Callable[[Monitors], object], cause: str, cure: str
) -> None:
    monitors = watched()
    happens(monitors)
    (refusals,) = missing(situation(monitors))
    assert cause in refusals
    assert cure in refusals.split(": ", 1)[1]
    assert missing(situation(monitors), OperatorAction.TELEOP) == [refusals], (
        "teleop drives the same motor"
    )


def test_misses_are_forgotten_after_ten_seconds() -> None:
    monitors = watched()
    counts = [(100 * k, min(k, 3) * 20) for k in range(16)]
    refusals = []
    for k, (run, missed) in enumerate(counts):
        monitors.deadlines.update(k * SECOND_NS, [("control", Account(run, missed))])
        refusals.append(bool(missing(situation(monitors))))
    assert refusals[3]
    assert not refusals[15]
    assert not missing(situation(monitors, replace(LIMITS, arming_missed_share=1.0)))


@pytest.mark.parametrize(
    ("age_s", "words"), [(None, "has sent no telemetry yet"), (0.5, "sent no telemetry for 0.5 s")]
)
def test_telemetry_that_is_promised_must_be_there(age_s: float | None, words: str) -> None:
    monitors = standing()
    if age_s is not None:
        t_ns = NOW_NS - round(age_s * SECOND_NS)
        deliver(monitors, replace(MOTOR, t_ns=t_ns, t_rx_ns=t_ns))
    (refusals,) = missing(situation(monitors))
    assert words in refusals
    assert "check its power and line" in refusals
    silent = standing(telemetry=False)
    assert missing(situation(silent)) == [], "a board without telemetry is not waited for"


def test_a_ground_station_is_waited_for_where_the_profile_expects_it() -> None:
    expects = replace(LIMITS, ground_expected=True)
    monitors = watched()
    (refusals,) = missing(situation(monitors, expects))
    assert "no ground station has sent a heartbeat: start it" in refusals
    deliver(monitors, Heartbeat(NOW_NS, NOW_NS, "ground"))
    assert missing(situation(monitors, expects)) == []
    # Who goes on without it does not wait for it either.
    lost = watched()
    deliver(lost, Heartbeat(0, 0, "ground"))
    assert missing(situation(lost, replace(LIMITS, stop_without_ground=False))) == []
    assert missing(situation(lost, replace(expects, stop_without_ground=False))) != []


@pytest.mark.parametrize(
    ("kind", "limit_rad"),
    [(HeadingKind.MOVING_BASE, 0.25), (HeadingKind.MAGNETIC, 0.5), (HeadingKind.INERTIAL, 0.5)],
)
@examples(20)
@given(st.data())
def test_an_estimate_that_looks_elsewhere_than_the_heading_is_not_armed(
    kind: HeadingKind, limit_rad: float, data: st.DataObject
) -> None:
    off_rad = data.draw(near(limit_rad, signed=True, low=-pi, high=pi))
    yaw_rad = data.draw(st.floats(-pi, pi))
    monitors = watched()
    monitors.yaw.on_message(ImuSample(NOW_NS, NOW_NS, (0.0, 0.0, 9.81), (0.0, 0.0, 0.0)), NOW_NS)
    monitors.yaw.on_message(Heading(NOW_NS, NOW_NS, yaw_rad + off_rad, 0.02, kind), NOW_NS)
    s = replace(situation(monitors), estimate=replace(ESTIMATE, yaw_rad=yaw_rad))
    monitors.yaw.update(s)
    if abs(abs(off_rad) - limit_rad) > 1e-6:
        assert bool(missing(s)) is (abs(off_rad) > limit_rad)
    assert all("off the yaw of the estimate" in text for text in missing(s))
    assert missing(s, OperatorAction.TELEOP) == []
    # A heading that is old says nothing.
    monitors.yaw.update(replace(s, now_ns=NOW_NS + 2 * SECOND_NS))
    assert missing(s) == []


def test_an_old_fix_does_not_confirm_the_present_speed() -> None:
    speed = SpeedMonitor(VEHICLE, LIMITS)

    def fix(t_ns: int, speed_mps: float) -> GnssFix:
        return GnssFix(t_ns, NOW_NS, 0.0, 0.0, 0.0, velocity_enu_mps=(speed_mps, 0.0, 0.0))

    for _ in range(FIXES):
        speed.on_message(fix(NOW_NS - SECOND_NS // 10, 0.8), NOW_NS)
    for _ in range(FIXES):
        speed.on_message(fix(NOW_NS - 3600 * SECOND_NS, 0.0), NOW_NS)
    assert speed.measured_mps(NOW_NS) == pytest.approx(0.8)
    speed.gnss_ignored = True
    assert isnan(speed.measured_mps(NOW_NS))


def test_misses_of_the_first_second_are_not_taken_for_a_share_of_ten() -> None:
    monitors = watched()
    ticks(monitors, 100, 3, 1)
    assert monitors.deadlines.share == pytest.approx(0.003)
    # As many in every second are a share of ten as soon as they cannot be less any more.
    ticks(monitors, 100, 3, 4)
    assert monitors.deadlines.share == pytest.approx(0.012)
    ticks(monitors, 100, 3, 30)
    assert monitors.deadlines.share == pytest.approx(0.03)


def test_a_vehicle_in_a_keep_out_zone_is_driven_out_by_hand_and_not_by_itself() -> None:
    """The zone lies wholly under the body."""
    zone = Polygon(((0.2, 0.05), (0.25, 0.05), (0.2, 0.1)), keep_out=True, name="bed")
    monitors = standing(fence=Fence([zone]), telemetry=False)
    deliver(monitors, HostHealth(NOW_NS, temperature_k=320.0))
    s = situation(monitors)
    assert missing(s) == []
    monitors.update(s)
    text = "the vehicle is inside the keep-out zone bed: drive it out by hand"
    assert missing(s) == [text]
    assert missing(s, OperatorAction.OFFBOARD) == [text]
    assert missing(s, OperatorAction.TELEOP) == []


class Bytes:
    def __init__(self, text: str) -> None:
        self._text = text

    def described(self) -> str:
        return self._text


def test_silent_devices_are_named_with_what_is_known_of_each() -> None:
    sources = [
        MonitoredSource(name=name, message=kind, silence_ns=10**8)
        for name, kind in (
            ("gnss", GnssFix),
            ("gnss", Heading),
            ("imu", ImuSample),
            ("lidar", LaserScan),
            ("sonar", ObstacleRange),
        )
    ]
    monitors = Monitors(LIMITS, VEHICLE, sources)
    (found,) = (check for check in CHECKS if check.code == "inputs")

    def said(now_ns: int = NOW_NS) -> str:
        return found.missing(replace(situation(monitors), now_ns=now_ns))

    assert said() == "gnss, imu, lidar, sonar are silent: check cable, power and port"
    monitors.sources.unread = {
        "imu": Bytes("400 bytes that are no sample"),
        "sonar": Bytes(""),
        "radar": Bytes("3 bytes"),
    }
    assert said() == (
        "gnss, lidar, sonar are silent: check cable, power and port; imu: 400 bytes that are "
        "no sample"
    )
    for kind in (GnssFix, Heading, LaserScan):
        monitors.sources.received(kind, NOW_NS)
    assert (
        said() == "sonar is silent: check cable, power and port; imu: 400 bytes that are no sample"
    )
    monitors.sources.received(ObstacleRange, NOW_NS)
    assert said() == "imu: 400 bytes that are no sample"
    monitors.sources.received(ImuSample, NOW_NS)
    assert said() == ""
    assert "gnss" in said(NOW_NS + 10**8 + 1)


def test_an_estimator_that_waits_for_motion_says_so() -> None:
    (found,) = (check for check in CHECKS if check.code == "estimator")
    monitors = standing()
    monitors.alignment.antenna_m = (0.0, 0.0)
    s = situation(monitors)
    waits = replace(s, estimate=replace(ESTIMATE, status=EstimatorStatus.UNINITIALISED))
    assert found.missing(waits).startswith(
        "the estimator has a position and no heading (uninitialised): align it by driving"
    )
    assert "has not started" in found.missing(replace(s, estimate=None))
    monitors.alignment.antenna_m = None
    assert "is not running (uninitialised): give it a fix" in found.missing(waits)


def test_the_year_of_a_clock_that_was_not_set() -> None:
    (found,) = (check for check in CHECKS if check.code == "clock")
    monitors = standing()
    for wall_clock_s, year in ((0.0, 1970), (-5.0, 1970), (31_556_952.5 * 30, 2000)):
        monitors.host.on_message(HostHealth(NOW_NS, wall_clock_s=wall_clock_s), NOW_NS)
        assert f"in the year {year}" in found.missing(situation(monitors))
