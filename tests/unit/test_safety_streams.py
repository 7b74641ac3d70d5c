"""The monitors of messages and counters: host, motor, setpoints, heartbeat, streams, deadlines,
controller, gyro and forces."""

from math import atan2, cos, hypot, inf, isnan, nan, pi, sin
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from tests.unit.test_machine import VEHICLE
from tests.unit.test_safety_supervisor import CONTROL, ESTIMATE, LIMITS
from vehicled.core.messages import (
    ActuatorCommand,
    ControlLevel,
    GnssFix,
    Heartbeat,
    HostHealth,
    ImuSample,
    LaserScan,
    Mode,
    MotorStatus,
)
from vehicled.core.messages.decisions import Setpoint
from vehicled.core.ports import NEVER_NS
from vehicled.safety.inputs import SafetyInputs
from vehicled.safety.monitors.control import ControlMonitor
from vehicled.safety.monitors.deadlines import DeadlineMonitor
from vehicled.safety.monitors.host import HostMonitor
from vehicled.safety.monitors.inertial import InertialMonitor, Mounting, corrected
from vehicled.safety.monitors.lane import LaneBody
from vehicled.safety.monitors.motor import MotorMonitor
from vehicled.safety.monitors.presence import PresenceMonitor
from vehicled.safety.monitors.scans import scan_points
from vehicled.safety.monitors.setpoints import SetpointMonitor
from vehicled.safety.monitors.sources import MonitoredSource, SourceMonitor

MS = 10**6
S = 10**9
NOW = 50 * S
G = 9.80665

# --------------------------------------------------------------------------------------------- host

HEALTHY = HostHealth(
    NOW,
    disk_free_share=0.5,
    memory_free_share=0.5,
    cpu_busy_share=0.5,
    temperature_k=320.0,
    log_backlog_share=0.1,
)


@pytest.mark.parametrize(
    ("change", "trouble", "strain"),
    [
        ({}, "", ""), ({"log_failure": "disk full"}, "not written any more: disk full", ""),
        ({"log_lost": "deleted"}, "deleted", ""),
        ({"log_backlog_share": 0.5}, "", ""), ({"log_backlog_share": 0.51}, "51 % full", ""),
        ({"disk_free_share": 0.05}, "", ""),
        ({"disk_free_share": 0.049}, "5 % of the log's disk", ""),
        ({"throttled": True}, "", "is throttled"),
        ({"unread_s": 5.0}, "was not read within 5 s", ""), ({"temperature_k": 368.0}, "", ""),
        ({"temperature_k": 368.5}, "", "at 95 degrees"), ({"memory_free_share": 0.05}, "", ""),
        ({"memory_free_share": 0.049}, "", "5 % of the memory"), ({"cpu_busy_share": 0.95}, "", ""),
        ({"cpu_busy_share": 0.951}, "", "95 % busy"), ({"log_dropped": 1}, "1 records", ""),
        ({"disk_free_share": nan, "memory_free_share": nan, "cpu_busy_share": nan,
         "temperature_k": nan}, "", ""),
    ],
)  # fmt: skip
def test_a_host_in_trouble(change: dict[str, Any], trouble: str, strain: str) -> None:
    host = HostMonitor()
    assert (host.log_trouble, host.strain, host.woke_s, host.clock_step_s) == ("", "", 0.0, 0.0)
    assert (host.stepped_ns, host.last_step_s) == (-NEVER_NS, 0.0)
    host.on_message(replace(HEALTHY, **change), NOW)
    assert trouble in host.log_trouble
    assert strain in host.strain
    assert (host.log_trouble == "", host.strain == "") == (trouble == "", strain == "")


def test_records_that_were_dropped_count_while_they_become_more() -> None:
    host = HostMonitor()
    for dropped, said in ((3, "3 records"), (3, ""), (5, "2 records"), (5, "")):
        host.on_message(replace(HEALTHY, log_dropped=dropped), NOW)
        assert said in host.log_trouble
        assert bool(host.log_trouble) is bool(said)


def test_suspends_and_steps_of_the_clock_wait_for_the_rules() -> None:
    host = HostMonitor()
    for suspended, woke in ((1.0, 1.0), (0.0, 1.0), (-1.0, 1.0), (2.0, 3.0)):
        host.on_message(replace(HEALTHY, suspended_s=suspended), NOW)
        assert host.woke_s == woke
    for step, largest in ((0.1, 0.1), (-0.3, -0.3), (0.2, -0.3), (0.5, 0.5)):
        host.on_message(replace(HEALTHY, clock_step_s=step), NOW)
        assert host.clock_step_s == largest
        assert (host.stepped_ns, host.last_step_s) == (-NEVER_NS, 0.0)
    for step in (-0.51, 0.51):
        host.on_message(replace(HEALTHY, clock_step_s=step), NOW + 7)
        assert (host.stepped_ns, host.last_step_s) == (NOW + 7, step)
    host.answered()
    assert (host.woke_s, host.clock_step_s, host.last_step_s) == (0.0, 0.0, 0.51)


# -------------------------------------------------------------------------------------------- motor


def test_the_hotter_of_motor_and_controller_and_the_newest_fault() -> None:
    motor = MotorMonitor(LIMITS)
    assert motor.fault_code == 0
    for hot, warm, hottest in (
        (300.0, 310.0, 310.0),
        (nan, 305.0, 305.0),
        (320.0, nan, 320.0),
        (nan, nan, nan),
    ):
        status = MotorStatus(
            NOW, NOW, motor_temperature_k=hot, controller_temperature_k=warm, fault_code=3
        )
        motor.on_message(status, NOW)
        assert motor.hottest_k == pytest.approx(hottest, nan_ok=True)
    assert motor.fault_code == 3
    motor.on_message(MotorStatus(NOW, NOW), NOW)
    assert motor.fault_code == 0


@pytest.mark.parametrize(
    ("volts", "amperes", "rest_v"),
    [
        (12.0, 0.0, 12.0), (12.0, 10.0, 12.0 + 10.0 * LIMITS.battery_resistance_ohm),
        (12.0, nan, 12.0), (12.0, -10.0, 12.0),
        (12.0, 1e9, 12.0 + 1e4 * LIMITS.battery_resistance_ohm), (0.0, 0.0, 0.0), (1e3, 0.0, 1e3),
        (1000.1, 0.0, nan), (-0.1, 0.0, nan), (nan, 0.0, nan),
    ],
)  # fmt: skip
def test_the_voltage_without_load(volts: float, amperes: float, rest_v: float) -> None:
    motor = MotorMonitor(LIMITS)
    motor.on_message(MotorStatus(NOW, NOW, input_voltage_v=volts, input_current_a=amperes), NOW)
    assert motor.rest_v == pytest.approx(rest_v, nan_ok=True)


def test_the_voltage_is_smoothed_over_two_seconds() -> None:
    for after_ns, rest_v in ((S, 11.0), (2 * S, 10.0), (9 * S, 10.0), (0, 12.0), (-S, 12.0)):
        motor = MotorMonitor(LIMITS)
        motor.on_message(MotorStatus(NOW, NOW, input_voltage_v=12.0), NOW)
        motor.on_message(MotorStatus(NOW, NOW, input_voltage_v=10.0), NOW + after_ns)
        assert motor.rest_v == pytest.approx(rest_v)
    motor.on_message(MotorStatus(NOW, NOW, input_voltage_v=11.5), NOW - S + 1)
    assert motor.rest_v == pytest.approx(12.0, abs=1e-6), "the time is that of the last one"


# ---------------------------------------------------------------------------------------- setpoints

ASKED = Setpoint(NOW, NOW, 1.0, 0.1, origin="a", sequence=1)


def test_a_program_that_sends_first_holds_the_lease_until_it_is_silent_for_a_second() -> None:
    monitor = SetpointMonitor()
    other = replace(ASKED, origin="b")
    assert (monitor.holder, monitor.age_ns(NOW), monitor.released) == ("", NEVER_NS, False)
    monitor.on_message(ASKED, NOW)
    assert (monitor.holder, monitor.age_ns(NOW + 5)) == ("a", 5)
    monitor.on_message(other, NOW + S)
    assert monitor.holder == "a"
    monitor.drives = True
    monitor.on_message(other, NOW + S + 1)
    assert monitor.holder == "a"
    monitor.drives = False
    monitor.on_message(other, NOW + S + 1)
    assert monitor.holder == "b"
    monitor.on_message(replace(ASKED, released=True), NOW + S + 1)
    assert (monitor.holder, monitor.released) == ("b", False), "another program ended"
    monitor.on_message(replace(other, released=True), NOW + S + 1)
    assert (monitor.holder, monitor.released) == ("", True)
    monitor.on_message(replace(other, t_rx_ns=NOW + 9 * S), NOW + 2 * S)
    assert (monitor.holder, monitor.released, monitor.age_ns(NOW + 2 * S + 7)) == ("b", False, 7)


def test_a_release_while_it_drives_holds_until_the_rules_have_seen_it() -> None:
    monitor = SetpointMonitor()
    monitor.on_message(ASKED, NOW)
    monitor.drives = True
    monitor.on_message(replace(ASKED, released=True), NOW)
    assert (monitor.holder, monitor.released) == ("a", True)
    for sent in (replace(ASKED, sequence=2), replace(ASKED, origin="b")):
        monitor.on_message(sent, NOW + 5 * S)
        assert (monitor.newest, monitor.released) == (ASKED, True)
    monitor.drives = False
    monitor.on_message(ASKED, NOW + 5 * S)
    assert (monitor.holder, monitor.released) == ("a", False), "it begins anew with the same number"
    monitor = SetpointMonitor()
    monitor.on_message(replace(ASKED, released=True), NOW)
    assert monitor.released is False


@pytest.mark.parametrize(
    ("change", "counts"),
    [
        ({"sequence": 2}, True), ({}, False), ({"sequence": 2, "speed_mps": nan}, False),
        ({"sequence": 2, "speed_mps": inf}, False),
        ({"sequence": 2, "curvature_per_m": nan}, False),
        ({"sequence": 2, "curvature_per_m": nan, "wheel_angle_rad": 0.1}, True),
        ({"sequence": 2, "wheel_angle_rad": inf}, False),
        ({"sequence": 2, "wheel_angle_rad": nan}, True),
    ],
)  # fmt: skip
def test_which_setpoints_count(change: dict[str, Any], counts: bool) -> None:
    monitor = SetpointMonitor()
    monitor.on_message(ASKED, NOW)
    monitor.on_message(replace(ASKED, t_rx_ns=NOW + 50 * MS, **change), NOW + 50 * MS)
    assert monitor.age_ns(NOW + 50 * MS) == (0 if counts else 50 * MS)


def test_offboard_waits_for_setpoints_of_the_last_fifth_of_a_second() -> None:
    monitor = SetpointMonitor()
    assert "no program sends any" in monitor.missing("a", NOW)
    monitor.on_message(ASKED, NOW)
    assert monitor.missing("a", NOW + 200 * MS) == ""
    assert monitor.missing("a", NOW + 200 * MS + 1)
    monitor.released = True
    assert monitor.missing("a", NOW)


def test_a_heartbeat_is_as_old_as_its_arrival() -> None:
    monitor = PresenceMonitor()
    assert monitor.age_ns(NOW) == NEVER_NS
    for ahead_ns, age_ns in ((0, 5), (10**12, 5), (-7, 12)):
        monitor.on_message(Heartbeat(NOW, NOW + ahead_ns), NOW)
        assert monitor.age_ns(NOW + 5) == age_ns


# ------------------------------------------------------------------------------------------ streams


def streams(rate_hz: float = 10.0) -> SourceMonitor:
    return SourceMonitor(
        [
            MonitoredSource(name="one", message=GnssFix, silence_ns=500 * MS, rate_hz=rate_hz),
            MonitoredSource(name="two", message=GnssFix, silence_ns=700 * MS),
            MonitoredSource(name="imu", message=ImuSample, silence_ns=50 * MS),
        ]
    )


def test_what_arrives_with_a_date_of_no_use_is_said_of_a_silent_source() -> None:
    sources = streams()
    assert sources.trouble(GnssFix) == ""
    sources.misdated(GnssFix, -3 * S)
    assert sources.trouble(GnssFix) == ": those that arrive are dated 3 s ahead"
    sources.misdated(GnssFix, 2500 * MS)
    assert sources.trouble(GnssFix) == ": those that arrive are dated 2.5 s ago"
    assert sources.trouble(ImuSample) == ""
    assert sources.silent(NOW) == ["one", "two", "imu"]
    sources.received(GnssFix, NOW)
    assert sources.trouble(GnssFix) == ""


def test_which_sources_are_silent() -> None:
    sources = streams()
    assert sources.silent(NOW) == ["one", "two", "imu"]
    sources.received(GnssFix, NOW)
    sources.received(GnssFix, NOW - 100 * MS)
    assert sources.age_ns(GnssFix, NOW + 3) == 3
    for after_ns, silent in (
        (500 * MS, ["imu"]),
        (500 * MS + 1, ["one", "imu"]),
        (700 * MS + 1, ["one", "two", "imu"]),
    ):
        assert sources.silent(NOW + after_ns) == silent
    assert sources.age_ns(ImuSample, NOW) == NEVER_NS
    assert [sources.promised(kind) for kind in (GnssFix, ImuSample, LaserScan)] == [
        True,
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("arrivals", "period_ms", "slow"),
    [(6, 126, True), (6, 125, False), (5, 900, False), (60, 126, True)],
)
def test_a_stream_below_four_fifths_of_its_rate_is_slow(
    arrivals: int, period_ms: int, slow: bool
) -> None:
    sources = streams()
    assert sources.slow() == []
    for k in range(arrivals):
        sources.received(GnssFix, NOW + k * period_ms * MS)
    assert bool(sources.slow()) is slow
    if slow:
        assert sources.slow() == ["one, two: GnssFix comes at 7.9 Hz (promised 10 Hz)"]


def test_an_outage_begins_the_rate_anew_and_fifty_arrivals_count() -> None:
    for gap_ns, slow in ((S, True), (S + 1, False)):
        sources = streams()
        for k in range(3):
            sources.received(GnssFix, NOW + k * 100 * MS)
        for k in range(4):
            sources.received(GnssFix, NOW + 200 * MS + gap_ns + k * 100 * MS)
        assert bool(sources.slow()) is slow
    sources = streams()
    for k in range(20):
        sources.received(GnssFix, NOW + k * 200 * MS)
    for k in range(49):
        sources.received(GnssFix, NOW + 3900 * MS + k * 100 * MS)
        assert bool(sources.slow()) is (k < 30) or 10 < k < 49
    sources.received(GnssFix, NOW + 3900 * MS + 4900 * MS)
    assert sources.slow() == []
    assert len(sources._arrivals_ns[GnssFix]) == 50


class Task:
    """Counters of a task."""

    def __init__(self) -> None:
        self.n = self.misses = self.consecutive_misses = 0


def test_misses_in_a_row_are_those_of_the_worst_task() -> None:
    monitor, tasks = DeadlineMonitor(), [("a", Task()), ("b", Task()), ("c", Task())]
    assert (monitor.in_a_row, monitor.task, monitor.share, monitor.share_task) == (0, "", 0.0, "")
    monitor.update(NOW, tasks)
    assert (monitor.in_a_row, monitor.task) == (0, "")
    for counts, worst in (((1, 3, 3), (3, "b")), ((4, 3, 3), (4, "a")), ((0, 0, 0), (0, ""))):
        for (_, task), count in zip(tasks, counts, strict=True):
            task.consecutive_misses = count
        monitor.update(NOW + 1, tasks)
        assert (monitor.in_a_row, monitor.task) == worst


@pytest.mark.parametrize("begin_s", [0.0, 0.5, 1.0, 1.5, 2.0])
def test_the_misses_of_a_computer_that_has_just_started_count(begin_s: float) -> None:
    monitor, task = DeadlineMonitor(), Task()
    monitor.update(round(begin_s * 1e9), [("a", task)])
    task.n, task.misses = 50, 50
    monitor.update(round((begin_s + 1.0) * 1e9), [("a", task)])
    assert monitor.share == pytest.approx(0.1)


def test_the_miss_ratio_of_ten_seconds() -> None:
    monitor, good, bad = DeadlineMonitor(), Task(), Task()
    tasks = [("good", good), ("bad", bad)]
    bad.misses, bad.n = 40, 100
    monitor.update(NOW, tasks)
    assert monitor.share == 0.0, "what was before does not count"
    for second in range(1, 31):
        good.n += 100
        bad.n += 100
        bad.misses += 10 if second <= 10 else 0
        monitor.update(NOW + second * S, tasks)
        missed = 10 * (min(second, 10) - max(second - 10, 0)) if second <= 20 else 0
        filled = min(second / 10, 1.0)
        assert monitor.share == pytest.approx(missed * filled / (100 * min(second, 10)))
        assert monitor.share_task == ("bad" if missed else "good")
        share = monitor.share
        bad.misses += 7
        monitor.update(NOW + second * S + S - 1, tasks)
        assert monitor.share == share, "it is updated once per second"
        bad.misses -= 7
    few = DeadlineMonitor()
    task = Task()
    few.update(NOW, [("few", task)])
    task.n, task.misses = 10, 5
    few.update(NOW + 10 * S + S - 1, [("few", task)])
    assert few.share == pytest.approx(5 / 50)


# --------------------------------------------------------------------------------------- controller


def counted(
    monitor: ControlMonitor, clipped: int | None, now_ns: int, level: ControlLevel | None = None
) -> int:
    sent = (
        None
        if clipped is None
        else ActuatorCommand(0, 0, 0.3, 0.0, 0.0, 0.0, Mode.AUTO, clipped=clipped)
    )
    control = None if level is None else replace(CONTROL, level=level)
    monitor.update(
        SafetyInputs(now_ns=now_ns, mode=Mode.AUTO, limits=LIMITS, sent=sent, control=control)
    )
    return monitor.clipped_in_a_row


def test_commands_over_the_limits_count_in_a_row_and_shaped_ones_after_sixty_milliseconds() -> None:
    for shaped in (16, 64, 80):
        monitor = ControlMonitor()
        for after_ns, count in ((0, 0), (60 * MS - 1, 0), (60 * MS, 1), (70 * MS, 2)):
            assert counted(monitor, shaped, NOW + after_ns) == count
        assert counted(monitor, 0, NOW + 80 * MS) == 0
        assert counted(monitor, shaped, NOW + 200 * MS) == 0, "it begins anew"
        assert counted(monitor, shaped | 1, NOW + 201 * MS) == 1
    assert counted(monitor, 1, NOW + 202 * MS) == 2
    assert counted(monitor, 1, NOW + 203 * MS) == 3
    monitor.stop_level_in_a_row = 4
    assert counted(monitor, None, NOW + 204 * MS) == 0
    assert monitor.stop_level_in_a_row == 0
    counted(monitor, 1, NOW)
    counted(monitor, 1, NOW, ControlLevel.STOP)
    monitor.reset()
    assert (monitor.clipped_in_a_row, monitor.stop_level_in_a_row) == (0, 0)


@pytest.mark.parametrize("level", ControlLevel)
def test_only_the_last_level_of_the_controller_stops(level: ControlLevel) -> None:
    monitor = ControlMonitor()
    for k in range(1, 4):
        counted(monitor, 0, NOW, level)
        assert monitor.stop_level_in_a_row == (k if level is ControlLevel.STOP else 0)


# ------------------------------------------------------------------------------------- gyro, forces


def sample(
    t_ns: int,
    force: tuple[float, float, float] = (0.0, 0.0, G),
    rate: tuple[float, float, float] = (0.0,) * 3,
    **fields: Any,
) -> ImuSample:
    return ImuSample(t_ns, t_ns, force, rate, **fields)


@pytest.mark.parametrize(
    ("samples", "period_ms", "stuck"),
    [
        (21, 25, True),
        (20, 30, False),
        (22, 24, True),
        (21, 24, False),
        (101, 5, True),
        (100, 5, False),
    ],
)
def test_twenty_equal_samples_over_half_a_second_are_stuck(
    samples: int, period_ms: int, stuck: bool
) -> None:
    for force in ((0.0, 0.0, G), (nan, nan, nan)):
        monitor = InertialMonitor()
        monitor.on_message(sample(NOW - MS, rate=(1.0, 0.0, 0.0)), NOW)
        for k in range(samples):
            monitor.on_message(sample(NOW + k * period_ms * MS, force), NOW)
        assert monitor.stuck is stuck
        assert monitor.has_force is (force[0] == 0.0)
        monitor.on_message(sample(NOW + 10 * S, force, (0.0, 0.0, 1e-9)), NOW)
        assert not monitor.stuck
    monitor = InertialMonitor()
    for k in range(30):
        monitor.on_message(sample(NOW + k * 50 * MS, (0.0, 0.0, G + 1e-9 * (k % 2))), NOW)
    assert not monitor.stuck


def test_it_begins_without_samples() -> None:
    monitor = InertialMonitor()
    monitor.update()
    assert (monitor.stuck, monitor.has_samples, monitor.has_force, monitor.saturated_ns(NOW)) == (
        False,
        False,
        False,
        0,
    )
    assert (monitor.mean_rate_radps, monitor.mean_force_mps2, monitor.tilt_rad) == (0.0, G, 0.0)
    monitor.on_message(sample(NOW, saturated=True), NOW)
    monitor.on_message(sample(NOW + 5, saturated=True), NOW)
    assert monitor.saturated_ns(NOW + 7) == 7
    assert monitor.has_samples
    monitor.on_message(sample(NOW + 8), NOW)
    assert monitor.saturated_ns(NOW + 9) == 0


def test_rate_and_force_are_smoothed_over_half_a_second() -> None:
    for after_ms, share in ((100, 0.2), (500, 1.0), (900, 1.0), (0, 0.0), (-100, 0.0)):
        monitor = InertialMonitor()
        monitor.on_message(sample(NOW, (1.0, 2.0, 2.0), (0.2, 0.3, 0.6)), NOW)
        monitor.update()
        assert monitor.mean_force_mps2 == pytest.approx(3.0)
        assert monitor.mean_rate_radps == pytest.approx(0.7)
        monitor.on_message(sample(NOW + after_ms * MS, (11.0, -8.0, 2e9), (1.2, 0.3, -2e9)), NOW)
        assert monitor._force == pytest.approx(
            (1.0 + 10.0 * share, 2.0 - 10.0 * share, 2.0 + 998.0 * share)
        )
        assert monitor._rate == pytest.approx((0.2 + share, 0.3, 0.6 - 1000.6 * share))
        monitor.update()
        assert monitor.mean_force_mps2 == pytest.approx(
            sum(part**2 for part in monitor._force) ** 0.5
        )
        assert monitor.mean_rate_radps == pytest.approx(
            sum(part**2 for part in monitor._rate) ** 0.5
        )
        before = monitor._force
        monitor.on_message(
            sample(NOW + after_ms * MS + 100 * MS, (nan, nan, nan), (0.0, 0.0, 0.0)), NOW
        )
        assert monitor._force == before
        assert monitor._rate == pytest.approx(
            (0.8 * (0.2 + share), 0.24, 0.8 * (0.6 - 1000.6 * share))
        )
    for part in range(3):
        for absurd, clipped in ((1001.0, 1e3), (-1001.0, -1e3)):
            monitor = InertialMonitor()
            rate = tuple(absurd if k == part else 1.0 for k in range(3))
            monitor.on_message(sample(NOW, rate=rate), NOW)  # type: ignore[arg-type]
            assert monitor._rate[part] == clipped


@pytest.mark.parametrize(
    ("force", "tilt", "upward"),
    [
        ((0.0, 0.0, G), 0.0, "+z"), ((0.0, 0.0, -G), pi, "-z"), ((G, 0.0, 0.0), pi / 2, "+x"),
        ((0.0, -G, 1.0), 1.469175957, "-y"), ((3.0, 0.0, 4.0), 0.6435011, "+z"),
    ],
)  # fmt: skip
def test_the_direction_of_gravity(
    force: tuple[float, float, float], tilt: float, upward: str
) -> None:
    monitor = InertialMonitor()
    monitor.on_message(sample(NOW, force), NOW)
    assert monitor.tilt_rad == pytest.approx(tilt, abs=1e-6)
    assert monitor.upward == upward


def turned(vector: Any, roll: float, pitch: float, yaw: float) -> Any:
    """Turn a vector by Rz(yaw) Ry(pitch) Rx(roll)."""
    x = np.array([[1, 0, 0], [0, cos(roll), -sin(roll)], [0, sin(roll), cos(roll)]])
    y = np.array([[cos(pitch), 0, sin(pitch)], [0, 1, 0], [-sin(pitch), 0, cos(pitch)]])
    z = np.array([[cos(yaw), -sin(yaw), 0], [sin(yaw), cos(yaw), 0], [0, 0, 1]])
    return z @ y @ x @ np.array(vector)


def test_before_the_first_sample_gravity_points_up() -> None:
    assert InertialMonitor().tilt_rad == 0.0


@pytest.mark.parametrize("force_mps2", [0.5, 1e-3])
def test_a_weak_force_has_a_direction_too(force_mps2: float) -> None:
    monitor = InertialMonitor()
    monitor.on_message(sample(NOW, (0.0, force_mps2, -force_mps2)), NOW)
    assert monitor.tilt_rad == pytest.approx(0.75 * pi)


@pytest.mark.parametrize(
    "true",
    [
        (0.0, 0.0, 0.0),
        (pi, 0.0, 0.0),
        (pi / 2, 0.0, 0.0),
        (-pi / 2, 0.0, 0.0),
        (0.0, pi / 2, 0.0),
        (0.0, -pi / 2, 0.0),
        (0.6, 0.0, 0.0),
        (0.0, 0.7, 0.0),
        (0.7, -0.5, 0.0),
    ],
)
@pytest.mark.parametrize(
    "written",
    [(0.0, 0.0, 0.0), (0.0, 0.0, 1.0), (pi / 2, 0.0, 0.0), (0.3, 0.2, -0.4), (0.0, pi / 2, 0.5)],
)
def test_the_rotation_to_write_turns_gravity_upright(
    true: tuple[float, float, float], written: tuple[float, float, float]
) -> None:
    """An IMU is mounted by ``true`` and its profile says ``written``: its samples reach the monitor
    turned by that."""
    by_sensor = turned((0.0, 0.0, G), 0.0, -true[1], 0.0)
    by_sensor = turned(by_sensor, -true[0], 0.0, 0.0)
    by_profile = turned(by_sensor, *written)
    new = corrected(
        Mounting(roll_rad=written[0], pitch_rad=written[1], yaw_rad=written[2]), tuple(by_profile)
    )
    up = turned(by_sensor, *new) / G
    assert up[2] > cos(0.36), new
    # The new rotation is the one that is written, then a roll and a pitch: the forward axis is not
    # turned aside, nor back.
    turn = np.array([turned(axis, *new) for axis in np.eye(3)]).T @ np.array(
        [turned(axis, *written) for axis in np.eye(3)]
    )
    assert turn[1, 0] == pytest.approx(0.0, abs=5e-4)
    assert turn[0, 0] > -5e-4
    assert (turn @ by_profile)[2] / G > cos(0.36)
    assert not any(str(angle) == "-0.0" for angle in new)
    assert all(-pi <= angle <= pi for angle in new)


@pytest.mark.parametrize(
    ("tilt", "angle"),
    [(0.34, 0.34), (-0.34, -0.34), (0.36, 0.36), (-0.36, -0.36), (pi / 2 + 0.3, pi / 2), (3.0, pi)],
)
def test_a_mounting_near_a_right_angle_is_one(tilt: float, angle: float) -> None:
    roll, pitch, yaw = corrected(Mounting(), (0.0, G * sin(tilt), G * cos(tilt)))
    assert (roll, pitch, yaw) == (pytest.approx(angle, abs=2e-4), 0.0, 0.0)
    if abs(tilt) < pi / 2:
        roll, pitch, yaw = corrected(Mounting(), (-G * sin(tilt), 0.0, G * cos(tilt)))
        assert (roll, pitch, yaw) == (0.0, pytest.approx(angle, abs=2e-4), 0.0)
    assert corrected(Mounting(yaw_rad=0.5), (0.0, 0.0, G)) == (0.0, 0.0, 0.5)
    # Beside one, the rest is the slope that it stands on.
    assert corrected(Mounting(), (0.3 * G, 0.0, -G)) == (pytest.approx(pi, abs=2e-4), 0.0, 0.0)
    # With the x axis vertical, roll and yaw are one.
    for side in (1.0, -1.0):
        assert corrected(Mounting(), (-side * G, 0.0, 0.0)) == (
            0.0,
            pytest.approx(side * pi / 2, abs=2e-4),
            0.0,
        )


def test_what_the_user_writes() -> None:
    for table, said in (
        (
            "imu",
            (
                "write mounting_roll_rad = 3.1415, mounting_pitch_rad = 0.0000, mounting_yaw_rad = "
                "0.0000 in [imu]"
            ),
        ),
        ("", "by roll 3.1415 rad, pitch 0.0000 rad, yaw 0.0000 rad"),
    ):
        monitor = InertialMonitor(Mounting(table=table))
        monitor.on_message(sample(NOW, (0.0, 0.0, -G)), NOW)
        assert said in monitor.remedy


# -------------------------------------------------------------------------------------------- scans


def points(
    ranges: tuple[float, ...],
    *,
    speed: float = 0.0,
    yaw: float = 0.5,
    rate: float = 0.0,
    age_s: float = 0.0,
    **fields: Any,
) -> Any:
    scan = LaserScan(NOW, NOW, 0.1, 0.2, 0.0, 0.05, 0.5, 20.0, 1.0, 0.3, ranges)
    estimate = replace(
        ESTIMATE,
        t_ns=NOW + round(age_s * 1e9),
        x_m=5.0,
        y_m=6.0,
        yaw_rad=yaw,
        speed_mps=speed,
        yaw_rate_radps=rate,
    )
    return scan_points(replace(scan, **fields), estimate, LaneBody(VEHICLE, 0.0))


def test_a_return_lies_where_its_ray_points() -> None:
    ranges = (2.0, inf, nan, 20.0, 20.1, 0.2, -inf, 3.0)
    x, y = points(ranges)
    hits = [(0, 2.0), (3, 20.0), (5, 0.5), (6, 0.5), (7, 3.0)]
    for (k, range_m), px, py in zip(hits, x, y, strict=True):
        bearing = 0.1 + 0.2 * k
        forward, left = 1.0 + range_m * cos(bearing), 0.3 + range_m * sin(bearing)
        assert (px, py) == pytest.approx(
            (5.0 + cos(0.5) * forward - sin(0.5) * left, 6.0 + sin(0.5) * forward + cos(0.5) * left)
        )


@pytest.mark.parametrize(
    ("speed", "rate"), [(2.0, 0.0), (2.0, 0.4), (-2.0, -0.4), (0.0, 0.4), (2.0, nan)]
)
def test_every_ray_has_the_pose_of_its_time(speed: float, rate: float) -> None:
    """The estimate is 0.2 s younger than the first ray, and the rays are 0.05 s apart."""
    x, y = points((5.0, 5.0, 5.0), speed=speed, rate=rate, age_s=0.2, time_increment_s=0.05)
    for k in range(3):
        age_s, bearing = 0.2 - 0.05 * k, 0.1 + 0.2 * k
        turn = rate if rate == rate else 0.0
        yaw, course = 0.5 - turn * age_s, 0.5 - 0.5 * turn * age_s
        forward, left = 1.0 + 5.0 * cos(bearing), 0.3 + 5.0 * sin(bearing)
        assert x[k] == pytest.approx(
            5.0 - speed * age_s * cos(course) + cos(yaw) * forward - sin(yaw) * left
        )
        assert y[k] == pytest.approx(
            6.0 - speed * age_s * sin(course) + sin(yaw) * forward + cos(yaw) * left
        )


def test_the_vehicle_does_not_see_itself() -> None:
    front_m, rear_m, half_m = VEHICLE.outline
    body = LaneBody(VEHICLE, 0.2)
    for dx, dy, inside in ((-0.001, -0.001, True), (0.001, -0.001, False), (-0.001, 0.001, False)):
        for ahead in (front_m + dx, -rear_m - dx):
            for side in (1.0, -1.0):
                assert body.holds(np.array([ahead]), np.array([side * (half_m + dy)]))[0] == inside
    x, _ = points(
        (front_m - 0.01, 5.0),
        x_m=0.0,
        y_m=0.0,
        angle_min_rad=0.0,
        angle_increment_rad=0.0,
        range_min_m=0.01,
    )
    assert len(x) == 1


@pytest.mark.parametrize(("spacing_ms", "slow"), [(124, False), (126, True)])
def test_a_rate_is_that_of_all_arrivals(spacing_ms: int, slow: bool) -> None:
    """Eight arrivals a second are enough for ten promised ones: 125 ms from one to the next."""
    sources = SourceMonitor(
        [MonitoredSource(name="gnss", message=GnssFix, silence_ns=10**9, rate_hz=10.0)]
    )
    for k in range(7):
        sources.received(GnssFix, NOW + k * spacing_ms * 10**6)
    assert bool(sources.slow()) is slow


def test_the_angles_of_gravity_are_those_of_its_own_axes() -> None:
    monitor = InertialMonitor()
    force = (3.0, -2.0, 9.0)
    monitor.on_message(ImuSample(NOW, NOW, force, (0.0, 0.0, 0.0)), NOW)
    assert monitor.roll_rad == pytest.approx(atan2(-2.0, 9.0))
    assert monitor.pitch_rad == pytest.approx(atan2(3.0, hypot(2.0, 9.0)))


def test_the_force_along_the_vehicle_is_the_mean_since_the_last_tick() -> None:
    monitor = InertialMonitor()
    monitor.update()
    assert isnan(monitor.forward_mps2)
    for force in (1.0, 2.0, 6.0):
        monitor.on_message(ImuSample(NOW, NOW, (force, 4.0, 5.0), (0.0, 0.0, 0.0)), NOW)
    monitor.update()
    assert monitor.forward_mps2 == 3.0
    monitor.update()
    assert isnan(monitor.forward_mps2), "without a sample there is none"
    begun = InertialMonitor()
    begun.on_message(ImuSample(NOW, NOW, (8.0, 4.0, 5.0), (0.0, 0.0, 0.0)), NOW)
    begun.update()
    assert begun.forward_mps2 == 8.0
    monitor.on_message(ImuSample(NOW + 10**7, NOW + 10**7, (8.0, 4.0, 5.0), (0.0, 0.0, 0.0)), NOW)
    monitor.update()
    assert monitor.forward_mps2 == 8.0


def test_the_force_at_rest_is_that_before_the_drive() -> None:
    monitor = InertialMonitor()
    assert isnan(monitor.rest_mps2)
    monitor.on_message(ImuSample(NOW, NOW, (1.5, 2.5, 9.0), (0.0, 0.0, 0.0)), NOW)
    monitor.reset()
    assert monitor.rest_mps2 == 1.5
    monitor.on_message(ImuSample(NOW + 10**8, NOW + 10**8, (nan, nan, nan), (0.0, 0.0, 0.0)), NOW)
    monitor.reset()
    assert isnan(monitor.rest_mps2)
