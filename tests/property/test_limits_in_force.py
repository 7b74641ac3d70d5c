"""Limits that decide whether the vehicle may drive: at each of them, one ulp to either side, and
with numbers that are none.

The limits stand here as numbers, so that a changed constant is seen as well as a changed
comparison.
"""

import math
from collections.abc import Callable
from math import inf, isfinite, nan, pi

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.examples import examples
from tests.strategies import GARBAGE, near, near_count
from vehicled.control.pure_pursuit import PurePursuit, PurePursuitParams
from vehicled.control.stop import is_drivable
from vehicled.core.messages import (
    NAN9,
    ActuatorCommand,
    EstimatorStatus,
    GnssFix,
    HostHealth,
    ImuSample,
    LaserScan,
    Mode,
    MotorStatus,
    ObstacleRange,
    StateEstimate,
    WheelSpeed,
)
from vehicled.core.wire.clock import DeviceClock
from vehicled.paths.catalog import load_course
from vehicled.paths.course import course_from_waypoints
from vehicled.paths.tracking import PathTracker
from vehicled.profile import load_profile
from vehicled.safety.arming import ACROSS_RAD, missing
from vehicled.safety.entry import CourseEntry
from vehicled.safety.monitors import Monitors
from vehicled.safety.monitors.sources import MonitoredSource, SourceMonitor
from vehicled.safety.rule import RuleInputs
from vehicled.safety.standstill import StandstillDetector

PROFILE = load_profile("art_vesc")
VEHICLE = PROFILE.vehicle
LIMITS = replace(
    PROFILE.limits, corridor_m=1.5, estimate_silence_s=0.2, still_rate_radps=0.05,
    still_force_mps2=0.5, motor_hot_k=350.0, battery_empty_v=9.6, obstacle_gap_m=0.5,
    obstacle_silence_s=0.3, capped_speed_mps=0.5,
)  # fmt: skip
NOW_NS = 100 * 10**9
RUNNING = StateEstimate(
    NOW_NS, NOW_NS, 5.0, 0.0, 0.0, 0.0, 0.0, (1e-4,) * 16, EstimatorStatus.RUNNING
)
LINE = course_from_waypoints("line", [0.0, 20.0], [0.0, 0.0])


def inputs(
    monitors: Monitors, estimate: StateEstimate = RUNNING, mode: Mode = Mode.STANDBY, **fields: int
) -> RuleInputs:
    return replace(
        RuleInputs(now_ns=NOW_NS, mode=mode, limits=LIMITS, monitors=monitors, estimate=estimate),
        **fields,
    )


def watching() -> Monitors:
    return Monitors(LIMITS, VEHICLE, (), LINE)


# ------------------------------------------------------------------------------------------- arming


def certainty(variance_m2: float) -> tuple[RuleInputs, bool]:
    """The position is known to a third of the corridor, 0.5 m."""
    covariance = [0.0, *RUNNING.covariance[1:]]
    covariance[1] = covariance[4] = 0.0
    covariance[5] = variance_m2
    known = variance_m2 >= 0.0 and math.sqrt(variance_m2) <= 0.5
    return inputs(watching(), replace(RUNNING, covariance=tuple(covariance))), not known


def heading(variance_rad2: float) -> tuple[RuleInputs, bool]:
    covariance = list(RUNNING.covariance)
    covariance[10] = variance_rad2
    return inputs(watching(), replace(RUNNING, covariance=tuple(covariance))), not (
        variance_rad2 >= 0.0 and variance_rad2**0.5 <= 0.2
    )


def estimated(speed_mps: float) -> tuple[RuleInputs, bool]:
    return inputs(watching(), replace(RUNNING, speed_mps=speed_mps)), abs(speed_mps) > 0.2


def fixed(
    monitors: Monitors,
    speed_mps: float,
    sigma_mps: float = 0.02,
    *,
    alive: bool = True,
    now_ns: int = NOW_NS,
) -> Monitors:
    """Fixes of a receiver with this mean speed; one that is not alive repeats itself."""
    spread = (sigma_mps * sigma_mps * 3.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    for noise_mps in (0.0, 0.125, -0.125) if alive else (0.0, 0.0, 0.0):
        fix = GnssFix(now_ns, now_ns, 0.7, -1.5, 260.0, (speed_mps, noise_mps, 0.0), NAN9, spread)
        monitors.speed.on_message(fix, now_ns)
    return monitors


def measured(speed_mps: float) -> tuple[RuleInputs, bool]:
    monitors = fixed(watching(), 0.0)
    monitors.on_message(WheelSpeed(NOW_NS, NOW_NS, speed_mps, 0.02), NOW_NS)
    return inputs(monitors), isfinite(speed_mps) and abs(speed_mps) > STANDING_MPS


def turned(roll_rad: float) -> tuple[RuleInputs, bool]:
    """An IMU that is rolled against its mounting, at standstill."""
    monitors = fixed(watching(), 0.0)
    monitors.sources = SourceMonitor(
        [MonitoredSource(name="imu", message=ImuSample, silence_ns=10**9)]
    )
    monitors.sources.received(ImuSample, NOW_NS)
    force = 0.0, 9.80665 * math.sin(roll_rad), 9.80665 * math.cos(roll_rad)
    if isfinite(roll_rad):
        monitors.on_message(ImuSample(NOW_NS, NOW_NS, force, (0.0, 0.0, 0.0)), NOW_NS)
        monitors.inertial.update()
    return inputs(monitors), isfinite(roll_rad) and math.acos(
        max(-1.0, min(1.0, force[2] / math.hypot(*force)))
    ) > ACROSS_RAD


def hot(temperature_k: float) -> tuple[RuleInputs, bool]:
    monitors = watching()
    monitors.on_message(
        MotorStatus(NOW_NS, NOW_NS, 0.0, 0.0, 0.0, 12.0, 0.0, temperature_k, 300.0, 0), NOW_NS
    )
    return inputs(monitors), isfinite(temperature_k) and temperature_k > 350.0


def flat(voltage_v: float) -> tuple[RuleInputs, bool]:
    monitors = watching()
    monitors.on_message(
        MotorStatus(NOW_NS, NOW_NS, 0.0, 0.0, 0.0, voltage_v, 0.0, 300.0, 300.0, 0), NOW_NS
    )
    return inputs(monitors), monitors.motor.rest_v < 9.6


def host(**values: float) -> RuleInputs:
    monitors = watching()
    monitors.on_message(replace(HostHealth(NOW_NS), **values), NOW_NS)
    return inputs(monitors)


STANDING_MPS = min(0.05 + 3.0 * 0.02, 0.25)
"""Speed of a sensor with a sigma of 2 cm/s at standstill."""
ARMING: dict[str, tuple[Callable[[float], tuple[RuleInputs, bool]], float, str]] = {
    "certainty": (certainty, 0.25, "the position is known to"),
    "heading": (heading, 0.04, "the heading is known to"),
    "estimated speed": (estimated, 0.2, "the vehicle moves at"),
    "measured speed": (measured, STANDING_MPS, "wheels or GNSS measure"),
    "gravity": (turned, ACROSS_RAD, "axis points up"),
    "motor": (hot, 350.0, "motor or controller at"),
    "battery": (flat, 9.6, "the battery is at"),
    "disk": (lambda v: (host(disk_free_share=v), v < 0.05), 0.05, "of the log's disk is free"),
    "memory": (lambda v: (host(memory_free_share=v), v < 0.05), 0.05, "of the memory is free"),
    "processor": (lambda v: (host(temperature_k=v), v > 368.0), 368.0, "the processor is at"),
}


@pytest.mark.parametrize("name", ARMING)
@examples(30)
@given(data=st.data())
def test_arming_is_refused_exactly_beyond_each_limit(name: str, data: st.DataObject) -> None:
    make, limit, words = ARMING[name]
    value = data.draw(near(limit, -limit if "speed" in name else limit, garbage=True))
    s, refused = make(value)
    said = [text for text in missing(s) if words in text]
    if not all(map(isfinite, (*s.estimate.covariance, s.estimate.speed_mps))):  # type: ignore[union-attr]
        assert missing(s), "a state that is not finite is refused by one check or another"
        return
    assert bool(said) is refused, value


@given(near(0.5, low=0.0), near(0.1, low=0.0), st.floats(-pi, pi))
def test_the_position_is_as_uncertain_as_in_its_worst_direction(
    large_m: float, small_m: float, turned_rad: float
) -> None:
    """Wherever the axes point: a receiver that is sure across and unsure along a street is
    unsure."""
    c, s = np.cos(turned_rad), np.sin(turned_rad)
    turn = np.array(((c, -s), (s, c)))
    block = turn @ np.diag((large_m**2, small_m**2)) @ turn.T
    covariance = np.diag((0.0, 0.0, 1e-4, 1e-4))
    covariance[:2, :2] = block
    estimate = replace(RUNNING, covariance=tuple(covariance.ravel().tolist()))
    known_m = max(large_m, small_m)
    assert estimate.position_sigma_m == pytest.approx(known_m, rel=1e-6, abs=1e-9)
    if abs(known_m - 0.5) > 1e-6:
        assert any(
            "the position is known to" in text for text in missing(inputs(watching(), estimate))
        ) is (known_m > 0.5)


@given(near_count(5_000_000_000, low=0, high=20_000_000_000), near(0.0, 1.0, signed=True))
def test_a_wall_clock_that_was_moved_settles_in_five_seconds(age_ns: int, step_s: float) -> None:
    monitors = watching()
    monitors.on_message(HostHealth(NOW_NS - age_ns, clock_step_s=step_s), NOW_NS - age_ns)
    moved = monitors.host.last_step_s != 0.0
    assert any("was moved by" in text for text in missing(inputs(monitors))) is (
        moved and age_ns < 5_000_000_000
    )


# --------------------------------------------------------------------------------------- standstill


def stands(s: RuleInputs, detector: StandstillDetector | None = None) -> bool:
    return (detector or StandstillDetector()).stands(s, gnss_stuck=False, brake_fails=False)


@given(
    near(0.05, signed=True, garbage=True),
    near_count(200_000_000, low=0),
    near(STANDING_MPS, low=0.0),
    near(STANDING_MPS, low=0.0),
    st.booleans(),
)
def test_it_stands_exactly_below_its_limits(
    speed_mps: float, age_ns: int, wheel_mps: float, ground_mps: float, alive: bool
) -> None:
    """The estimate is below 5 cm/s and fresh, and every measured speed within its noise; one must
    be alive."""
    monitors = fixed(watching(), ground_mps, alive=alive)
    monitors.on_message(WheelSpeed(NOW_NS, NOW_NS, wheel_mps, 0.02), NOW_NS)
    s = inputs(
        monitors, replace(RUNNING, speed_mps=speed_mps), Mode.STOPPING, estimate_age_ns=age_ns
    )
    estimated = isfinite(speed_mps) and abs(speed_mps) < 0.05
    ground = monitors.speed.ground(NOW_NS)
    assert ground is not None
    expected = (
        estimated
        and age_ns <= 200_000_000
        and wheel_mps <= STANDING_MPS
        and ground.mps <= ground.standing_mps
        and alive
    )
    assert stands(s) is expected


@pytest.mark.parametrize("mode", [Mode.STOPPING, Mode.FAULT, Mode.INIT])
@pytest.mark.parametrize("moves", [False, True])
def test_a_stop_without_an_estimate_ends_after_a_second_of_measured_standstill(
    mode: Mode, moves: bool
) -> None:
    """Fixes that contradict each other read 0 for moments. Before the first drive there may be no
    estimate for a good reason."""
    detector, unknown = StandstillDetector(), replace(RUNNING, speed_mps=nan)
    stood = []
    for k in range(200):
        now_ns, seen_mps = NOW_NS + k * 10_000_000, 1.0 if moves and k == 60 else 0.01
        s = inputs(fixed(watching(), seen_mps, now_ns=now_ns), unknown, mode, now_ns=now_ns)
        stood.append(stands(s, detector))
    first = stood.index(True)
    assert first == (0 if mode is Mode.INIT else 161 if moves else 100)


@given(near(0.05 + 6.0 * 0.02, low=0.0, high=0.4))
def test_one_fix_that_shows_motion_is_no_standstill_whatever_the_mean(speed_mps: float) -> None:
    monitors = watching()
    # A sound receiver among false fixes, which state no accuracy and are thought to be noisy.
    for east_mps, variance in ((0.0, nan), (speed_mps, 0.02**2), (0.0, nan)):
        accuracy = (variance, 0.0, 0.0, 0.0, variance, 0.0, 0.0, 0.0, 0.0)
        monitors.speed.on_message(
            GnssFix(NOW_NS, NOW_NS, 0.7, -1.5, 260.0, (east_mps, 0.0, 0.0), NAN9, accuracy), NOW_NS
        )
    assert stands(inputs(monitors, replace(RUNNING, speed_mps=0.0), Mode.STOPPING)) is (
        0.0 < speed_mps <= 0.05 + 6.0 * 0.02
    )


@pytest.mark.parametrize("wheels", [False, True])
@examples(10)
@given(st.floats(0.3, 3.0), st.floats(0.2, 1.0))
def test_without_a_live_receiver_half_the_brake_must_have_stopped_it(
    wheels: bool, speed_mps: float, brake: float
) -> None:
    """Wheels that read 0 may be locked, so they wait for it. Without wheels, the standstill is
    assumed a second later."""
    detector, monitors = StandstillDetector(), fixed(watching(), speed_mps)
    drive, sent = VEHICLE.drive, ActuatorCommand(NOW_NS, NOW_NS, 0.0, brake, 0.0, 0.0)
    certain_mps2 = 0.5 * (brake * drive.brake_deceleration_mps2 - drive.acceleration_mps2(0.0, 0.0))
    # The fixes count for half a second; three standard deviations are added to their speed.
    below_mps, later_s = (0.05, 0.0) if wheels else (0.0, 1.0)
    expected_s = 0.5 + (speed_mps + 0.06 - below_mps) / certain_mps2 + later_s
    for k in range(2000):
        now_ns = NOW_NS + k * 20_000_000
        if wheels:
            monitors.on_message(WheelSpeed(now_ns, now_ns, 0.0, 0.02), now_ns)
        s = replace(inputs(monitors, mode=Mode.STOPPING, now_ns=now_ns), sent=sent)
        monitors.update(s)
        if stands(s, detector):
            break
    assert 0.02 * k == pytest.approx(expected_s, abs=0.1)
    assert (detector.assumed_s > 0.0) is not wheels


@pytest.mark.parametrize("alive", [True, False])
def test_a_live_receiver_that_shows_motion_keeps_a_stop_open(alive: bool) -> None:
    """The estimate refuses its fixes: it may trust a brake that does not act. One that repeats
    itself counts for three seconds."""
    detector, monitors = StandstillDetector(), watching()
    sent = ActuatorCommand(NOW_NS, NOW_NS, 0.0, 1.0, 0.0, 0.0)
    stood = []
    for k in range(500):
        now_ns = NOW_NS + k * 20_000_000
        fixed(monitors, 1.0, alive=alive, now_ns=now_ns)
        estimate = replace(RUNNING, t_ns=now_ns, speed_mps=0.0, rejected_in_a_row=9)
        s = replace(inputs(monitors, estimate, Mode.STOPPING, now_ns=now_ns), sent=sent)
        monitors.update(s)
        stood.append(stands(s, detector))
    if alive:
        assert not any(stood)
    else:
        assert stood.index(True) * 0.02 >= 3.0


@pytest.mark.parametrize("lives", [True, False])
def test_a_stuck_receiver_counts_again_once_it_lives(lives: bool) -> None:
    """The rule stays in force until the vehicle is armed anew."""
    detector, monitors = StandstillDetector(), watching()
    sent = ActuatorCommand(NOW_NS, NOW_NS, 0.0, 1.0, 0.0, 0.0)
    stood = []
    for k in range(500):
        now_ns = NOW_NS + k * 20_000_000
        place = 0.7 + (1e-7 * k if lives else 0.0)
        fix = GnssFix(
            now_ns, now_ns, place, -1.5, 260.0, (1.0 + (1e-3 * (k % 3) if lives else 0.0), 0.0, 0.0)
        )
        monitors.on_message(fix, now_ns)
        s = inputs(
            monitors, replace(RUNNING, t_ns=now_ns, speed_mps=0.0), Mode.STOPPING, now_ns=now_ns
        )
        s = replace(s, sent=sent)
        monitors.update(s)
        stood.append(detector.stands(s, gnss_stuck=True, brake_fails=False))
    assert any(stood) is not lives


@given(near(0.3, low=0.0, high=0.6))
def test_throttle_that_has_yet_to_act_is_no_standstill(after_s: float) -> None:
    """It may act for two delays of the drive, 0.2 s, and 0.1 s more."""
    monitors = fixed(watching(), 0.0)
    for t_ns, throttle in (
        (NOW_NS - 10_000_000, 0.0),
        (NOW_NS, 0.3),
        (NOW_NS + round(after_s * 1e9), 0.0),
    ):
        fixed(monitors, 0.0, now_ns=t_ns)
        sent = ActuatorCommand(t_ns, t_ns, throttle, 1.0 - throttle, 0.0, 0.0)
        estimate = replace(RUNNING, t_ns=t_ns, speed_mps=0.0)
        s = replace(inputs(monitors, estimate, Mode.STOPPING, now_ns=t_ns), sent=sent)
        monitors.update(s)
    if round(after_s * 1e9) > 0:
        assert stands(s) is (round(after_s * 1e9) > 300_000_000)


@pytest.mark.parametrize("why", ["not braked", "unreachable", "brake fails", "telemetry"])
def test_nothing_is_assumed_of_a_brake_that_is_not_known_to_act(why: str) -> None:
    detector, monitors = StandstillDetector(), fixed(watching(), 1.0)
    monitors.telemetry = why == "telemetry"
    sent = ActuatorCommand(NOW_NS, NOW_NS, 0.0, 0.0 if why == "not braked" else 1.0, 0.0, 0.0)
    for k in range(1500):
        now_ns = NOW_NS + k * 20_000_000
        s = replace(inputs(monitors, mode=Mode.STOPPING, now_ns=now_ns), sent=sent)
        s = replace(s, actuator_lost="its port is gone" if why == "unreachable" else "")
        monitors.update(s)
        assert not detector.stands(s, gnss_stuck=False, brake_fails=why == "brake fails")
        said = detector.unrest(s)
    assert "no wheel or GNSS speed is fresh" in said[0]


@given(near_count(3_000_000_000, low=0))
def test_a_stop_that_does_not_end_says_why_after_three_seconds(after_ns: int) -> None:
    standstill, monitors = StandstillDetector(), watching()
    moving = replace(RUNNING, speed_mps=1.0)
    assert standstill.unrest(inputs(monitors, moving)) == []
    assert bool(standstill.unrest(inputs(monitors, moving, now_ns=NOW_NS + after_ns))) is (
        after_ns >= 3_000_000_000
    )


# ------------------------------------------------------------------------------ place on the course


@given(near(1.5, signed=True), near(1.6, 0.0, signed=True, low=-pi, high=pi))
def test_a_drive_goes_on_exactly_within_the_corridor_and_not_backwards(
    left_m: float, turned_rad: float
) -> None:
    entry = CourseEntry(LINE, 1.5)
    entry.driven_to(12.0)
    entry.follow(replace(RUNNING, x_m=12.0))
    found = entry.choose(replace(RUNNING, x_m=12.0, y_m=left_m, yaw_rad=turned_rad))
    assert (found.s_m is not None) is (abs(left_m) <= 1.5 and abs(turned_rad) <= 1.6)
    assert bool(found.refused) is (found.s_m is None)


@given(near(1.5, signed=True), near(1.6, 0.0, signed=True, low=-pi, high=pi))
def test_the_first_drive_begins_exactly_within_the_corridor_and_not_backwards(
    left_m: float, turned_rad: float
) -> None:
    found = CourseEntry(LINE, 1.5).choose(replace(RUNNING, x_m=1.0, y_m=left_m, yaw_rad=turned_rad))
    assert (not found.refused) is (abs(left_m) <= 1.5 and abs(turned_rad) <= 1.6)
    assert found.s_m is None


@given(near(0.1, low=0.01, high=7.0))
def test_a_course_counts_as_driven_ten_centimetres_before_its_end(left_m: float) -> None:
    stop_m = 20.0 - left_m
    entry = CourseEntry(LINE, 1.5)
    entry.driven_to(stop_m)
    found = entry.choose(replace(RUNNING, x_m=stop_m))
    if abs(stop_m - 19.9) > 1e-9:
        assert (found.s_m is None) is (stop_m > 19.9)
        assert found.refused.startswith("the course is driven to its end") is (stop_m > 19.9)
        aside = entry.choose(replace(RUNNING, x_m=stop_m, y_m=3.0)).refused
        assert aside.startswith("the course is driven to its end") is (stop_m > 19.9)


@given(near(0.1, low=-2.0, high=20.0))
def test_an_open_course_is_finished_ten_centimetres_before_its_end(left_m: float) -> None:
    x_m = 20.0 - left_m
    tracker = PathTracker(LINE)
    for k in range(1, 101):
        tracker.update(x_m * k / 100, 0.0, 0.0)
    if abs(x_m - 19.9) > 1e-9:
        assert tracker.finished is (x_m > 19.9)


@given(near(0.03, low=0.0, high=1.0), near(0.05, signed=True, garbage=True))
def test_the_next_leg_begins_where_the_vehicle_stands_at_the_cusp(
    left_m: float, speed_mps: float
) -> None:
    """Within 3 cm, and no faster than 5 cm/s."""
    x_m = 5.0 - left_m
    tracker = PathTracker(
        course_from_waypoints("park", [0.0, 5.0, 0.0], [0.0, 0.0, 0.0], speed=[1.0, -1.0, -1.0])
    )
    for k in range(50):
        tracker.update(x_m * k / 50, 0.0, 0.0, 1.0)
    tracker.update(x_m, 0.0, 0.0, speed_mps)
    if abs(x_m - 4.97) > 1e-9:
        assert tracker.at_leg_end is (x_m > 4.97 and tracker.leg == 0)
        assert tracker.leg == int(x_m > 4.97 and abs(speed_mps) <= 0.05)


# ---------------------------------------------------------------------------------------- obstacles


def ranges(monitors: Monitors, *distances_m: float, estimate: StateEstimate = RUNNING) -> Monitors:
    for distance_m in distances_m:
        monitors.on_message(ObstacleRange(NOW_NS, NOW_NS, distance_m), NOW_NS)
        monitors.update(inputs(monitors, estimate))
    return monitors


@given(near(0.5 + watching().stopping.way_m(0.5), garbage=True))
def test_it_moves_off_exactly_with_room_for_it(distance_m: float) -> None:
    monitors = ranges(watching(), distance_m, distance_m)
    least_m = 0.5 + monitors.stopping.way_m(0.5)
    blocked = not distance_m > least_m
    assert any("something stands" in text for text in missing(inputs(monitors))) is blocked


@given(near(0.5, 1.0, 3.0, 8.0, low=0.0, high=50.0), st.sampled_from([0.3, 1.0, 3.0]))
def test_from_the_cap_a_gentle_stop_ends_before_the_gap(
    distance_m: float, speed_mps: float
) -> None:
    """Brakes with a third of the deceleration that is certain; never below the speed of a capped
    drive."""
    monitors = ranges(watching(), distance_m, distance_m)
    cap_mps, stopping = monitors.obstacle.cap_mps, monitors.stopping
    assert cap_mps >= 0.5
    deceleration = stopping._deceleration_mps2 / 3.0

    def way_m(v: float) -> float:
        return v * stopping.reaction_s + v * v / (2.0 * deceleration)

    if cap_mps > 0.5:
        assert way_m(cap_mps) == pytest.approx(distance_m - 0.5, rel=1e-6, abs=1e-9)
    else:
        assert way_m(0.5) >= distance_m - 0.5 - 1e-9
    assert ranges(watching(), inf, inf).obstacle.cap_mps == inf


@given(near_count(2_000_000_000, low=1))
def test_a_silent_sensor_is_believed_for_exactly_two_seconds(after_ns: int) -> None:
    monitors = ranges(watching(), 0.2, 0.2)
    monitors.update(inputs(monitors, now_ns=NOW_NS + after_ns))
    assert (monitors.obstacle.free_m < inf) is (after_ns <= 2_000_000_000)
    assert monitors.obstacle.sees is (after_ns <= 2_000_000_000)


def scan(ranges_m: tuple[float, ...], t_ns: int = NOW_NS) -> LaserScan:
    return LaserScan(
        t_ns, NOW_NS, -pi, 2 * pi / len(ranges_m), 0.0, 0.05, 0.05, 25.0, 0.45, 0.0, ranges_m
    )


@given(
    near_count(400_000_000, -400_000_000, low=-(10**10), high=10**10),
    near_count(50, low=0, high=100),
)
def test_a_scan_shows_something_exactly_if_it_is_fresh_and_half_of_its_rays_are_valid(
    age_ns: int, lost: int
) -> None:
    """Silence of 0.3 s and a sweep of 0.1 s; three scans in a row make it blind."""
    monitors = watching()
    for _ in range(3):
        assert not monitors.obstacle.blind
        monitors.on_message(scan((nan,) * lost + (inf,) * (100 - lost), NOW_NS - age_ns), NOW_NS)
        monitors.update(inputs(monitors))
    fresh = abs(age_ns * 1e-9) <= 0.4
    assert bool(monitors.obstacle.blind) is (not fresh or lost > 50)
    assert monitors.obstacle.sees is not bool(monitors.obstacle.blind)


@given(near(0.05, 3.0, low=0.0, garbage=True))
def test_what_a_ray_meets_counts_up_to_its_range_and_from_nearer_than_it_can_measure(
    range_m: float,
) -> None:
    """An obstacle too near to be measured stands at the least range; NaN says nothing."""
    monitors = watching()
    rays = [inf] * 720
    rays[360] = range_m
    for _ in range(3):
        monitors.on_message(replace(scan(tuple(rays)), x_m=2.0, range_max_m=3.0), NOW_NS)
        monitors.update(inputs(monitors, mode=Mode.AUTO))
    met = range_m <= 3.0
    assert monitors.stopping.way_m(LIMITS.max_speed_mps) * 3.0 + 0.5 > 5.0, (
        "it looks as far as that"
    )
    if met:
        front_m = monitors.obstacle._body.front_m  # type: ignore[union-attr]
        assert monitors.obstacle.free_m == pytest.approx(
            2.0 + max(range_m, 0.05) - front_m, abs=0.06
        )
    else:
        assert monitors.obstacle.free_m == inf


@given(near(0.05, signed=True, garbage=True), st.sampled_from([0.0, 0.3, -0.3]))
def test_standing_before_an_obstacle_without_a_command_to_move_is_no_fault(
    speed_mps: float, throttle: float
) -> None:
    monitors = watching()
    sent = ActuatorCommand(NOW_NS, NOW_NS, throttle, 0.0, 0.0, 0.0)
    s = replace(inputs(monitors, replace(RUNNING, speed_mps=speed_mps)), sent=sent)
    assert monitors.obstacle.drives(s) is (abs(speed_mps) > 0.05 or throttle != 0.0)


# -------------------------------------------------------------------------------------- controllers


@given(
    near(1e6, signed=True, garbage=True),
    near(1e6, signed=True),
    near(1e3, signed=True, garbage=True),
    near(200.0, signed=True),
)
def test_a_state_is_driven_from_exactly_within_its_limits(
    x_m: float, y_m: float, yaw_rad: float, speed_mps: float
) -> None:
    estimate = replace(RUNNING, x_m=x_m, y_m=y_m, yaw_rad=yaw_rad, speed_mps=speed_mps)
    expected = (
        abs(x_m) <= 1e6 and abs(y_m) <= 1e6 and abs(yaw_rad) <= 1e3 and abs(speed_mps) <= 200.0
    )
    assert is_drivable(estimate) is expected


@given(
    st.sampled_from(["x_m", "y_m", "yaw_rad", "speed_mps"]), st.sampled_from([*GARBAGE[:5], 1e7])
)
def test_one_bad_value_is_enough(field: str, bad: float) -> None:
    assert not is_drivable(replace(RUNNING, **{field: bad}))
    assert is_drivable(RUNNING)


PLAIN = load_profile("art").vehicle


def pursuit() -> PurePursuit:
    return PurePursuit(PurePursuitParams(), PLAIN, LIMITS, load_course("lot17"), 0.01)


@given(near_count(0, 200_000_000, low=-(10**10), high=10**10))
def test_an_old_estimate_is_carried_on_for_a_fifth_of_a_second_at_most(age_ns: int) -> None:
    """One from the future is taken as one of now."""
    estimate = replace(RUNNING, x_m=3.0, y_m=1.5, yaw_rad=0.1, speed_mps=1.0)
    held_ns = min(max(age_ns, 0), 200_000_000)
    commands = [
        pursuit().step(replace(estimate, t_ns=NOW_NS - each), NOW_NS) for each in (age_ns, held_ns)
    ]
    assert commands[0] == commands[1]


@given(near(0.6, low=0.05, high=5.0), near(0.0, 0.6, low=0.0, high=5.0))
def test_below_a_cap_the_target_keeps_its_margin(cap_mps: float, speed_mps: float) -> None:
    """5 %, or 3 cm/s where that is less; a vehicle above the cap slows down to it."""
    controller = pursuit()
    controller.limit_speed(cap_mps)
    margin_mps = min(0.05 * cap_mps, 0.03)
    assert controller.cap_mps == pytest.approx(cap_mps - margin_mps, abs=1e-12)
    speed_mps = min(speed_mps, LIMITS.max_speed_mps)
    command = controller.step(replace(RUNNING, x_m=0.0, yaw_rad=0.3, speed_mps=speed_mps), NOW_NS)
    assert command.target_speed_mps <= max(cap_mps - margin_mps, speed_mps) + 1e-12
    if speed_mps <= cap_mps - margin_mps:
        assert command.target_speed_mps <= cap_mps - margin_mps + 1e-12


# ------------------------------------------------------------------------------------------- clocks

MS = 1_000_000
STEP_NS = 100 * MS


@given(near_count(STEP_NS, 0, low=0, high=10**9))
def test_a_clock_that_is_early_is_jitter_up_to_a_tenth_of_a_second(early_ns: int) -> None:
    """A larger step means that the clock was set: four samples in a row make sure, and until then
    arrivals count."""
    clock = DeviceClock(tick_ns=1.0, bits=None)
    for k in range(100):
        clock.update(k * 10 * MS, NOW_NS + k * 10 * MS)
    for k in range(100, 104):
        t_rx_ns = NOW_NS + k * 10 * MS - early_ns
        assert clock.resets == 0
        assert clock.update(k * 10 * MS, t_rx_ns) == t_rx_ns
    assert clock.resets == int(early_ns > STEP_NS)


@given(near_count(STEP_NS, 0, low=0, high=900_000_000))
def test_a_sample_that_is_late_is_valid_when_it_would_have_been(late_ns: int) -> None:
    clock = DeviceClock(tick_ns=1.0, bits=None)
    for k in range(100):
        clock.update(k * 10 * MS, NOW_NS + k * 10 * MS)
    valid_ns = NOW_NS + 100 * 10 * MS
    assert clock.update(100 * 10 * MS, valid_ns + late_ns) == valid_ns
    assert clock.resets == 0


@given(near_count(STEP_NS, low=0, high=10**9))
def test_a_counter_that_goes_back_is_repeated_up_to_a_tenth_of_a_second_and_then_set(
    back_ns: int,
) -> None:
    clock = DeviceClock(tick_ns=1.0, bits=None)
    for k in range(200):
        clock.update(k * 10 * MS, NOW_NS + k * 10 * MS)
    now_ns = NOW_NS + 200 * 10 * MS
    t_ns = clock.update(200 * 10 * MS - back_ns, now_ns)
    # An older sample of the same clock keeps its own time; one that fits no more is as old as its
    # arrival.
    assert t_ns <= now_ns
    assert clock.resets == 0
    assert math.isfinite(clock.rate_ppm)
