"""Monitors by themselves, at their limits and with NaN: what they hold decides which rules trip."""

from math import inf, isnan, nan, pi
from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.test_machine import VEHICLE
from tests.unit.test_safety_fence import SQUARE
from tests.unit.test_safety_supervisor import ESTIMATE, LIMITS, MOVING
from vehicled.core.messages import (
    CarrierSolution,
    EstimatorStatus,
    FixType,
    GnssFix,
    Mode,
    StateEstimate,
    TeleopCommand,
    WheelSpeed,
)
from vehicled.core.ports import NEVER_NS
from vehicled.paths.datum import LOT_17
from vehicled.paths.formulas import straight
from vehicled.paths.tracking import PathTracker
from vehicled.safety.fence import Fence
from vehicled.safety.inputs import SafetyInputs
from vehicled.safety.monitors import Monitors
from vehicled.safety.monitors.consistency import ConsistencyMonitor
from vehicled.safety.monitors.gnss import GnssMonitor
from vehicled.safety.monitors.teleop import TeleopMonitor

NOW_NS = 50 * 10**9
MS = 10**6
HELD = TeleopCommand(NOW_NS, NOW_NS, 0.0, 0.0, 0.0, True, "pad", 1)


def at(now_ns: int, estimate: StateEstimate | None) -> SafetyInputs:
    return SafetyInputs(now_ns=now_ns, mode=Mode.ALIGN, limits=LIMITS, estimate=estimate)


# ------------------------------------------------------------------------------------------- teleop


@pytest.mark.parametrize("field", ["steering", "throttle", "brake"])
@pytest.mark.parametrize("number", [nan, inf, -inf])
def test_a_reading_that_is_not_finite_keeps_no_driver_alive(field: str, number: float) -> None:
    monitor = TeleopMonitor(0.2)
    monitor.on_message(HELD, NOW_NS)
    later_ns = NOW_NS + 100 * MS
    monitor.on_message(replace(HELD, t_rx_ns=later_ns, sequence=2, **{field: number}), later_ns)
    assert monitor.command == HELD
    assert monitor.age_ns(later_ns) == 100 * MS


def test_a_driver_is_there_up_to_its_timeout_and_a_repeated_reading_does_not_count() -> None:
    monitor = TeleopMonitor(0.2)
    assert monitor.age_ns(NOW_NS) == NEVER_NS
    monitor.on_message(HELD, NOW_NS)
    monitor.on_message(replace(HELD, t_rx_ns=NOW_NS + MS), NOW_NS + MS)
    assert monitor.ready(NOW_NS + 200 * MS)
    assert not monitor.ready(NOW_NS + 200 * MS + 1)
    # A stamp from the future is as old as its arrival.
    monitor.on_message(replace(HELD, t_rx_ns=NOW_NS + 10**12, sequence=2), NOW_NS)
    assert monitor.age_ns(NOW_NS) == 0


@pytest.mark.parametrize(
    ("deflection", "neutral"), [(0.05, True), (-0.05, True), (0.051, False), (-0.051, False)]
)
@pytest.mark.parametrize("field", ["steering", "throttle"])
def test_neutral_is_both_sticks_within_a_twentieth(
    field: str, deflection: float, neutral: bool
) -> None:
    monitor = TeleopMonitor(0.2)
    monitor.on_message(replace(HELD, **{field: deflection}), NOW_NS)
    assert monitor.ready(NOW_NS) is neutral


def test_a_released_deadman_holds_until_it_is_armed_anew() -> None:
    monitor = TeleopMonitor(0.2)
    monitor.on_message(HELD, NOW_NS)
    monitor.driver = "pad"
    monitor.on_message(replace(HELD, deadman=False, sequence=2), NOW_NS)
    monitor.on_message(replace(HELD, sequence=3), NOW_NS)
    assert not monitor.held
    monitor.reset()
    monitor.on_message(replace(HELD, sequence=4), NOW_NS)
    assert monitor.held


def test_only_the_device_in_control_is_unplugged() -> None:
    unplugged = replace(HELD, unplugged=True)
    monitor = TeleopMonitor(0.2)
    monitor.on_message(unplugged, NOW_NS)
    assert monitor.unplugged, "before any reading"
    monitor.on_message(HELD, NOW_NS)
    assert not monitor.unplugged
    late_ns = NOW_NS + 200 * MS + 1
    for now_ns in (NOW_NS, late_ns):
        monitor.on_message(replace(unplugged, origin="other"), now_ns)
        assert not monitor.unplugged
    monitor.on_message(unplugged, late_ns)
    monitor.on_message(replace(unplugged, origin="other"), late_ns)
    assert monitor.unplugged, "and it stays so"


def test_the_deadman_that_is_held_first_keeps_control_until_it_is_late() -> None:
    monitor = TeleopMonitor(0.2)
    monitor.on_message(HELD, NOW_NS)
    other = replace(HELD, origin="other")
    monitor.on_message(other, NOW_NS + 200 * MS)
    assert monitor.command == HELD
    assert monitor.missing("pad", NOW_NS + 200 * MS) == ""
    assert monitor.missing("a program", NOW_NS + 200 * MS) == ""
    assert "deadman of pad is held" in monitor.missing("other", NOW_NS + 200 * MS)
    monitor.on_message(replace(HELD, t_rx_ns=NOW_NS + 200 * MS, sequence=2), NOW_NS + 200 * MS)
    assert "deadman of pad is held" in monitor.missing("other", NOW_NS + 400 * MS)
    assert "hold the deadman" in monitor.missing("other", NOW_NS + 400 * MS + 1)
    monitor.on_message(replace(HELD, t_rx_ns=NOW_NS + 400 * MS, sequence=3), NOW_NS + 400 * MS)
    assert monitor.missing("other", NOW_NS + 400 * MS + 1) == "", (
        "it has been silent for too long to ask"
    )
    monitor.on_message(other, NOW_NS + 600 * MS + 1)
    assert monitor.command == other


def test_beyond_sixteen_devices_the_silent_ones_are_forgotten() -> None:
    monitor = TeleopMonitor(0.2)
    idle = replace(HELD, deadman=False)
    for k in range(15):
        monitor.on_message(replace(idle, origin=str(k)), NOW_NS)
    monitor.on_message(replace(idle, origin="late"), NOW_NS + 300 * MS)
    assert len(monitor._seen_ns) == len(monitor._counted) == 16
    monitor.on_message(replace(idle, origin="new"), NOW_NS + 500 * MS)
    assert set(monitor._seen_ns) == set(monitor._counted) == {"late", "new"}


# --------------------------------------------------------------------------------------------- GNSS


def solution(
    carrier: CarrierSolution, fix_type: FixType = FixType.FIX_3D, **fields: Any
) -> GnssFix:
    return GnssFix(0, 0, 0.5, 0.1, 0.0, fix_type=fix_type, carrier=carrier, **fields)


def test_only_a_fixed_solution_can_be_lost_and_it_counts_again_after_three_seconds() -> None:
    monitor = GnssMonitor(0.1)
    fixed, floats = solution(CarrierSolution.FIXED), solution(CarrierSolution.FLOAT)
    monitor.on_message(floats, 1)
    assert monitor.degraded_since_ns is None
    # A receiver without a position has no fixed one, whatever it says.
    monitor.on_message(replace(fixed, fix_type=FixType.DEAD_RECKONING), 2)
    assert monitor.carrier is CarrierSolution.FIXED
    monitor.on_message(floats, 3)
    assert monitor.carrier is CarrierSolution.FLOAT
    assert monitor.degraded_since_ns is None
    monitor.on_message(replace(fixed, fix_type=FixType.FIX_2D), 4)
    monitor.on_message(floats, 5)
    monitor.on_message(floats, 6)
    assert monitor.degraded_since_ns == 5
    assert monitor.degraded_s(5 + 2 * 10**9) == pytest.approx(2.0)
    back_ns = 10**9
    monitor.on_message(fixed, back_ns)
    monitor.on_message(fixed, back_ns + 3 * 10**9 - 1)
    assert monitor.degraded_since_ns == 5
    monitor.on_message(fixed, back_ns + 3 * 10**9)
    assert monitor.degraded_since_ns is None
    assert monitor.degraded_s(back_ns) == 0.0


@pytest.mark.parametrize(("ahead_ns", "counts"), [(10**9, True), (10**9 + 1, False)])
def test_a_fix_from_the_future_is_no_solution_that_could_be_lost(
    ahead_ns: int, counts: bool
) -> None:
    monitor = GnssMonitor(0.1)
    monitor.on_message(replace(solution(CarrierSolution.FIXED), t_ns=5 + ahead_ns), 5)
    assert monitor.had_fixed is counts
    monitor.on_message(solution(CarrierSolution.FLOAT), 6)
    assert monitor.degraded_since_ns == (6 if counts else None)


@pytest.mark.parametrize(("speed_mps", "count"), [(0.1, 0), (0.11, 3), (-0.11, 3), (nan, 0)])
def test_fixes_at_one_place_count_while_the_vehicle_moves(speed_mps: float, count: int) -> None:
    monitor = GnssMonitor(0.1)
    assert (monitor.rejected_in_a_row, monitor.same_in_a_row) == (0, 0)
    for _ in range(4):
        monitor.on_message(solution(CarrierSolution.FIXED), 0)
    assert monitor.same_in_a_row == 0, "without an estimate it is not known to move"
    monitor.on_message(replace(solution(CarrierSolution.FIXED), longitude_rad=0.1000002), 0)
    monitor.update(at(0, replace(MOVING, speed_mps=speed_mps, rejected_in_a_row=4)))
    assert monitor.rejected_in_a_row == 4
    for _ in range(4):
        monitor.on_message(solution(CarrierSolution.FIXED), 0)
    assert monitor.same_in_a_row == count
    monitor.on_message(replace(solution(CarrierSolution.FIXED), longitude_rad=0.1000001), 0)
    assert monitor.same_in_a_row == 0
    monitor.update(at(0, None))
    assert monitor.rejected_in_a_row == 0


# ----------------------------------------------------------------------------------------- stopping


@pytest.mark.parametrize(("x_m", "yaw_rad", "speed_mps", "leaves", "outside"), [
    (5.0, 0.0, 1.0, False, False), (9.3, 0.0, 3.0, True, False), (9.3, 3.14159, 1.0, False, False),
    (11.5, 0.0, 1.0, True, True), (11.5, 3.14159, 1.0, False, True), (5.0, 0.0, nan, False, False),
])  # fmt: skip
def test_a_stop_that_leaves_the_fence_and_a_vehicle_outside(
    x_m: float, yaw_rad: float, speed_mps: float, leaves: bool, outside: bool
) -> None:
    monitors = Monitors(LIMITS, VEHICLE, fence=Fence([SQUARE]))
    pose = replace(ESTIMATE, x_m=x_m, y_m=5.0, yaw_rad=yaw_rad, speed_mps=speed_mps)
    monitors.stopping.update(at(0, pose))
    assert (bool(monitors.stopping.leaves), bool(monitors.stopping.outside)) == (leaves, outside)


# ---------------------------------------------------------------------------------------- alignment


class Aligning:
    """An alignment drive whose receiver speaks, without a heading at its start."""

    def __init__(self) -> None:
        self.monitors = Monitors(LIMITS, VEHICLE, datum=LOT_17)
        self.monitor = self.monitors.alignment
        self.now_ns = NOW_NS
        self.unknown = replace(ESTIMATE, status=EstimatorStatus.UNINITIALISED)
        self.go(0.0)
        self.monitor.begin(at(self.now_ns, self.unknown))

    def go(self, x_m: float) -> None:
        """Receive a fix at a place east of the origin."""
        latitude, longitude, height = LOT_17.to_geodetic(x_m, 0.0, 0.0)
        fix = GnssFix(
            self.now_ns, self.now_ns, latitude, longitude, height, fix_type=FixType.FIX_3D
        )
        self.monitors.sources.received(GnssFix, self.now_ns)
        self.monitor.on_message(fix, self.now_ns)

    def step(self, estimate: StateEstimate, times: int = 1) -> None:
        for _ in range(times):
            self.now_ns += 10 * MS
            self.monitors.sources.received(GnssFix, self.now_ns)
            self.monitor.update(at(self.now_ns, estimate))


def test_the_heading_is_known_after_two_fifths_of_the_drive() -> None:
    for x_m, sigma_rad, known in (
        (1.99, 0.01, False),
        (2.01, 0.01, True),
        (2.01, 0.051, False),
        (2.01, nan, False),
    ):
        drive = Aligning()
        drive.go(x_m)
        covariance = tuple(sigma_rad**2 if k == 10 else 1e-4 for k in range(16))
        drive.step(replace(MOVING, covariance=covariance))
        assert (bool(drive.monitor.known), drive.monitor.failed) == (known, "")
        assert not drive.monitor.without_heading


@pytest.mark.parametrize(
    ("yaw_rad", "fails"), [(0.5, False), (-0.5, False), (0.51, True), (-0.51, True), (3.1, True)]
)
def test_a_heading_far_off_the_line_fails_the_alignment(yaw_rad: float, fails: bool) -> None:
    drive = Aligning()
    drive.go(2.5)
    drive.step(replace(MOVING, yaw_rad=yaw_rad - 1e-6 if yaw_rad > 0 else yaw_rad + 1e-6))
    assert bool(drive.monitor.failed) is fails


def test_driving_backward_fails_after_a_fifth_of_a_second() -> None:
    drive = Aligning()
    drive.step(replace(MOVING, speed_mps=-0.1), 40)
    assert drive.monitor.failed == ""
    drive.step(replace(MOVING, speed_mps=-0.11), 19)
    assert drive.monitor.failed == ""
    drive.step(replace(MOVING, speed_mps=-0.11))
    assert "reversed" in drive.monitor.failed


def test_wheels_that_turn_backward_fail_without_a_heading() -> None:
    drive = Aligning()
    for _ in range(20):
        drive.monitors.speed.on_message(
            WheelSpeed(drive.now_ns, drive.now_ns, -0.5, 0.01), drive.now_ns
        )
        drive.step(drive.unknown)
    assert "the wheels report" in drive.monitor.failed
    assert drive.monitor.without_heading


@pytest.mark.parametrize(
    ("turned_rad", "fails"), [(0.5, False), (-0.5, False), (0.51, True), (-0.51, True)]
)
def test_it_must_go_straight(turned_rad: float, fails: bool) -> None:
    drive = Aligning()
    drive.monitors.yaw._yaw_rad = turned_rad
    drive.step(drive.unknown)
    assert drive.monitor.turned_rad == pytest.approx(turned_rad)
    assert bool(drive.monitor.failed) is fails


def test_silence_distance_and_time_end_it() -> None:
    silent = Aligning()
    silent.monitor.update(at(silent.now_ns + round(LIMITS.gnss_silence_s * 1e9), silent.unknown))
    assert silent.monitor.failed == ""
    silent.monitor.update(
        at(silent.now_ns + round(LIMITS.gnss_silence_s * 1e9) + 1, silent.unknown)
    )
    assert "no GNSS fix" in silent.monitor.failed
    far = Aligning()
    far.go(4.99)
    far.step(far.unknown)
    assert far.monitor.failed == ""
    far.go(5.01)
    far.step(far.unknown)
    assert "5.0 m are used up" in far.monitor.failed
    long = Aligning()
    long.step(long.unknown, 2000)
    assert long.monitor.failed == ""
    long.step(long.unknown)
    assert "20 s are used up" in long.monitor.failed


def test_without_a_heading_a_stop_must_end_inside_the_fence_in_every_direction() -> None:
    monitors = Monitors(LIMITS, VEHICLE, fence=Fence([SQUARE]), datum=LOT_17)
    monitors.alignment.without_heading = True
    for x_m, leaves, outside in ((5.0, False, False), (0.2, True, False), (-1.0, True, True)):
        monitors.alignment.antenna_m = x_m, 5.0
        monitors.stopping.update(at(0, replace(ESTIMATE, status=EstimatorStatus.UNINITIALISED)))
        assert (bool(monitors.stopping.leaves), bool(monitors.stopping.outside)) == (
            leaves,
            outside,
        )


# -------------------------------------------------------------------------------------------- speed


class Speeds:
    """Monitors that get a wheel speed at every tick of 20 ms, or none."""

    def __init__(self) -> None:
        self.monitors, self.now_ns = Monitors(LIMITS, VEHICLE), NOW_NS

    def go(
        self, seconds: float, wheel_mps: float | None, estimate: StateEstimate = MOVING
    ) -> "Speeds":
        for _ in range(round(seconds * 50)):
            self.now_ns += 20 * MS
            if wheel_mps is not None:
                self.monitors.on_message(
                    WheelSpeed(self.now_ns, self.now_ns, wheel_mps, 0.01), self.now_ns
                )
            self.monitors.speed.update(self.now_ns, estimate.speed_mps)
        return self


def test_a_speed_that_is_not_measured_any_more_is_held_and_doubted() -> None:
    speed = Speeds().go(1.0, None).monitors.speed
    assert not speed.unmeasured, "none was ever measured"
    drive = Speeds().go(1.0, 1.2)
    speed = drive.monitors.speed
    drive.go(0.3, None)
    assert not speed.unmeasured
    drive.go(0.1, None)
    assert (speed.unmeasured, speed.held_mps) == (True, 1.2)
    # A slope for 0.76 s, then half of the speed.
    drive.go(3.0, None, replace(MOVING, speed_mps=nan))
    assert speed.doubt_m == pytest.approx(0.6 * 3.08 - 0.5 * 0.6**2 / (0.08 * 9.80665), abs=0.02)
    drive.go(0.1, 0.02)
    assert (speed.unmeasured, speed.doubt_m, speed.held_mps) == (False, 0.0, speed.moving_mps)


def test_a_faster_speed_of_fixes_counts_only_where_it_contradicts_the_estimate() -> None:
    monitors = Monitors(LIMITS, VEHICLE)
    for k in range(3):
        t_ns = NOW_NS + k * 100 * MS
        fix = solution(
            CarrierSolution.FIXED,
            velocity_enu_mps=(0.0, 2.0, 0.0),
            velocity_covariance_m2ps2=(1e-4, *(0.0,) * 3, 1e-4),
        )
        monitors.on_message(replace(fix, t_ns=t_ns, t_rx_ns=t_ns), t_ns)
    motion = monitors.motion
    assert motion.faster_mps(t_ns, 1.8) == 0.0
    assert motion.faster_mps(t_ns, -1.0) == pytest.approx(2.0 - 3.0 * 0.01 / 3**0.5)
    assert motion.faster_mps(t_ns + 10**9, 1.0) == 0.0


# -------------------------------------------------------------------------------------- consistency

ANTENNA_M = (0.5, 0.2)


class Consistency:
    """A vehicle that drives to the north at 1 m/s, with fixes of its antenna that come 80 ms late,
    and its estimate."""

    def __init__(self, **limits: Any) -> None:
        self.monitor = ConsistencyMonitor(
            replace(LIMITS, corridor_m=0.6, max_speed_mps=3.0, **limits), LOT_17, ANTENNA_M
        )
        self.k = 0

    def go(
        self, fixes: int, *, estimate: Any = lambda e: e, fix: Any = lambda f: f
    ) -> tuple[int, int]:
        """Return the fixes in a row that contradict the place, and the speed."""
        for _ in range(10 * fixes):
            self.k += 1
            t_ns, y_m = NOW_NS + self.k * 10 * MS, 0.01 * self.k
            moves = StateEstimate(
                t_ns,
                t_ns,
                5.0,
                y_m,
                pi / 2,
                1.0,
                0.0,
                (1e-4, *(0.0,) * 4, 1e-4, *(0.0,) * 10),
                EstimatorStatus.RUNNING,
            )
            self.monitor.update(at(t_ns, estimate(moves)))
            if self.k % 10 == 8:
                then_ns = t_ns - 80 * MS + 5 * MS
                x_m = 5.0 - ANTENNA_M[1]
                y_m = y_m - 0.075 + ANTENNA_M[0]
                latitude, longitude, height = LOT_17.to_geodetic(x_m, y_m, 0.0)
                small = (1e-4, 0.0, 0.0, 0.0, 1e-4, 0.0, 0.0, 0.0, 1e-4)
                newest = GnssFix(
                    then_ns,
                    t_ns,
                    latitude,
                    longitude,
                    height,
                    (0.0, 1.0, 0.0),
                    small,
                    small,
                    FixType.FIX_3D,
                    CarrierSolution.FIXED,
                )
                self.monitor.on_message(fix(newest), t_ns)
        return self.monitor.places_in_a_row, self.monitor.speeds_in_a_row


def test_fixes_that_agree_with_their_estimate_count_nothing_in_spite_of_latency_and_lever_arm() -> (
    None
):
    drive = Consistency()
    assert drive.go(20) == (0, 0)
    assert drive.monitor.apart_m < 0.001


@pytest.mark.parametrize(
    ("aside_m", "sigma_m", "counts"),
    [(0.19, 0.01, 0), (0.3, 0.01, 9), (0.3, 0.05, 0), (30.0, 0.05, 9)],
)
def test_a_place_apart_counts_beyond_a_third_of_the_corridor_and_what_is_declared(
    aside_m: float, sigma_m: float, counts: int
) -> None:
    drive = Consistency()
    drive.go(3)
    wide = (sigma_m**2, *(0.0,) * 4, sigma_m**2, *(0.0,) * 10)
    assert drive.go(10, estimate=lambda e: replace(e, x_m=e.x_m + aside_m, covariance=wide)) == (
        counts,
        0,
    )
    # One fix is still compared with an estimate from before.
    assert drive.go(2) == (0, 0)


@pytest.mark.parametrize(("ratio", "counts"), [(0.7, 0), (0.4, 9), (1.3, 0), (1.7, 9)])
def test_a_speed_apart_counts(ratio: float, counts: int) -> None:
    drive = Consistency()
    drive.go(3)
    assert drive.go(10, estimate=lambda e: replace(e, speed_mps=ratio * e.speed_mps))[1] == counts


def test_what_cannot_be_compared_counts_nothing() -> None:
    drive = Consistency()
    assert drive.go(5, estimate=lambda e: replace(e, x_m=nan)) == (0, 0)
    assert drive.go(5, fix=lambda f: replace(f, t_ns=f.t_ns + 10**9, latitude_rad=0.0)) == (0, 0)
    assert drive.go(5, fix=lambda f: replace(f, t_ns=f.t_ns - 3 * 10**9, latitude_rad=0.0)) == (
        0,
        0,
    )
    assert drive.go(5, fix=lambda f: replace(f, fix_type=FixType.NONE, latitude_rad=0.0)) == (0, 0)
    assert drive.go(5, fix=lambda f: replace(f, velocity_enu_mps=(nan, nan, nan))) == (0, 0)
    # An estimate that is far away and then unknown is no contradiction any more.
    assert drive.go(5, fix=lambda f: replace(f, velocity_enu_mps=(9.0, 0.0, 0.0)))[1] == 5
    assert drive.go(2, estimate=lambda e: replace(e, x_m=nan)) == (0, 0)


# ----------------------------------------------------------------------------------------- together

IN_ORDER = ["speed", "gnss", "inertial", "yaw", "motion", "consistency", "climb", "progress"]
IN_ORDER += ["alignment", "control", "place", "stopping", "obstacle", "localisation"]


def calls_of(
    monkeypatch: pytest.MonkeyPatch, monitors: Monitors, method: str
) -> list[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    """Return the calls of a method of every monitor from now on, in their order."""
    calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
    for name, monitor in vars(monitors).items():
        if hasattr(monitor, method) and type(monitor).__module__.startswith("vehicled."):
            called = lambda _, *a, name=name, **k: calls.append((name, a, k))  # noqa: E731
            monkeypatch.setattr(type(monitor), method, called)
    return calls


def test_a_tick_updates_every_monitor_in_the_order_in_which_they_read_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monitors = Monitors(LIMITS, VEHICLE)
    calls = calls_of(monkeypatch, monitors, "update")
    s = at(NOW_NS, MOVING)
    monitors.update(s)
    assert [name for name, *_ in calls] == IN_ORDER
    arguments = {name: a for name, a, _ in calls}
    assert arguments.pop("speed") == (NOW_NS, s.speed_mps)
    assert arguments.pop("inertial") == ()
    assert set(arguments.values()) == {(s,)}


def test_a_drive_begins_without_the_history_of_the_last_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monitors = Monitors(LIMITS, VEHICLE)
    calls = calls_of(monkeypatch, monitors, "reset")
    monitors.reset()
    assert sorted(name for name, *_ in calls) == [
        "alignment",
        "control",
        "inertial",
        "motion",
        "progress",
        "teleop",
    ]


def test_another_vehicle_and_another_course_reach_those_who_calculate_with_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monitors = Monitors(LIMITS, VEHICLE)
    adapted = calls_of(monkeypatch, monitors, "adapt")
    followed = calls_of(monkeypatch, monitors, "follow")
    other, course = replace(VEHICLE, width_m=1.0), straight(20.0)
    monitors.adapt(other)
    assert sorted(adapted) == [(name, (other,), {}) for name in ("place", "stopping", "yaw")]
    tracker = PathTracker(course)
    monitors.follow(course, tracker)
    assert sorted(followed, key=str) == sorted(
        [
            ("place", (course,), {"anywhere": True, "tracker": tracker}),
            ("stopping", (course,), {}),
            ("obstacle", (course,), {}),
        ],
        key=str,
    )


@pytest.mark.parametrize(("antenna_m", "reach_m"), [((0.0, 0.0), 0.0), ((0.3, 0.4), 0.5)])
def test_the_monitors_know_the_antenna_and_what_the_actuator_sends(
    antenna_m: tuple[float, float], reach_m: float
) -> None:
    monitors = (
        Monitors(LIMITS, VEHICLE, antenna_m=antenna_m, telemetry=True)
        if reach_m
        else Monitors(LIMITS, VEHICLE)
    )
    assert monitors.telemetry is (reach_m > 0.0)
    assert (monitors.yaw._antenna_x_m, monitors.consistency._antenna_m) == (antenna_m[0], antenna_m)
    assert monitors.alignment.reach_m(0.0) == pytest.approx(reach_m)


def test_before_the_first_message_and_the_first_tick_nothing_is_known_and_nothing_wrong() -> None:
    m = Monitors(LIMITS, VEHICLE, course=straight(20.0))
    assert (
        m.climb.tilted_rad,
        m.climb.tilted_in_a_row,
        m.yaw.estimate_aside_rad,
        m.progress.rolled_m,
    ) == (0.0, 0, 0.0, 0.0)
    assert (m.motion.braking_mps2, m.motion.driven, m.teleop.unplugged, m.teleop.neutral) == (
        0.0,
        False,
        False,
        False,
    )
    assert (m.obstacle.blind, m.stopping.leaves, m.stopping.outside, m.rc.trouble) == (
        "",
        "",
        "",
        "",
    )
    unknown = [
        m.place.off_m, m.place.s_m, *m.speed.ground_enu_mps, m.speed.wheel_mps,
        m.inertial.forward_mps2, m.inertial.rest_mps2, m.rc.link_quality, m.localisation.fit,
        m.localisation.lost_s,
    ]  # fmt: skip
    assert all(map(isnan, unknown))
