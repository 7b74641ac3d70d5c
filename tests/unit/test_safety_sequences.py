"""Sequences of requests and misfortunes by which a vehicle might move when it should not, or stop
without saying why."""

from collections.abc import Callable
from math import nan
from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.test_safety_supervisor import (
    ESTIMATE,
    LIMITS,
    MOVING,
    MS,
    SOURCES,
    Bench,
    armed,
    driving,
    stick,
)
from vehicled.core.messages import (
    Fault,
    GnssFix,
    HostHealth,
    ImuSample,
    Mode,
    MotorStatus,
    ObstacleRange,
    OperatorAction,
    Reaction,
    WheelSpeed,
)
from vehicled.core.ports import NEVER_NS
from vehicled.safety.modes import refusal
from vehicled.safety.monitors.sources import MonitoredSource, SourceMonitor
from vehicled.safety.reason import Reason
from vehicled.safety.supervisor import ARM_REQUEST_VALID_NS, CHAIN_LIMIT

ARM = OperatorAction.ARM
DRIVE = OperatorAction.DRIVE
TELEOP = OperatorAction.TELEOP
STOP = OperatorAction.STOP
DISARM = OperatorAction.DISARM
LONG = ARM_REQUEST_VALID_NS // (10 * MS) + 2


def standing() -> Bench:
    bench = Bench()
    bench.step()
    assert bench.supervisor.mode is Mode.STANDBY
    return bench


# -------------------------------------------------------------------- what must not come true later


@pytest.mark.parametrize("mode", [Mode.FAULT, Mode.INIT])
def test_an_arming_request_of_long_ago_does_not_come_true_when_the_vehicle_stands_at_last(
    mode: Mode,
) -> None:
    if mode is Mode.FAULT:
        bench = driving()
        bench.ask(OperatorAction.EMERGENCY_STOP)
        bench.step()
    else:
        bench = Bench()
        bench.estimate = MOVING
        bench.step()
    bench.ask(ARM)
    bench.step(LONG)
    assert bench.supervisor.mode is mode
    assert "arming_refused" in bench.codes()
    bench.estimate = ESTIMATE
    bench.step(10)
    assert bench.supervisor.mode is (Mode.FAULT if mode is Mode.FAULT else Mode.STANDBY)


def test_what_waited_while_the_daemon_stood_still_is_asked_for_anew() -> None:
    bench = standing()
    bench.speaks.discard(GnssFix)
    bench.now_ns += 10**9
    bench.ask(ARM, DRIVE)
    bench.step()
    assert bench.supervisor.mode is Mode.STANDBY
    bench.speaks.add(GnssFix)
    bench.now_ns += 3600 * 10**9
    bench.step(3)
    assert bench.supervisor.mode is Mode.STANDBY
    assert "ask again" in bench.supervisor.why
    bench = armed()
    bench.ask(TELEOP)
    bench.step()
    bench.now_ns += 3600 * 10**9
    stick(bench, 1)
    bench.step()
    assert bench.supervisor.mode is Mode.ARMED


def test_what_was_asked_for_before_the_machine_slept_is_forgotten() -> None:
    bench = standing()
    bench.ask(ARM, DRIVE)
    bench.step(3, actuator_lost="its port is not open yet")
    bench.monitors.on_message(HostHealth(bench.now_ns, suspended_s=3600.0), bench.now_ns)
    bench.step(5)
    assert bench.supervisor.mode is Mode.STANDBY


# ------------------------------------------------------- armed is no licence for what happens since


def block(bench: Bench) -> None:
    for _ in range(3):
        bench.monitors.on_message(ObstacleRange(bench.now_ns, bench.now_ns, 0.1), bench.now_ns)


@pytest.mark.parametrize(
    ("broken", "happens", "named"),
    [
        ({"actuator_lost": "unplugged"}, None, "unplugged"),
        ({"estimate": replace(ESTIMATE, covariance=(4.0,) * 16)}, None, "known to 2.83 m"),
        (
            {},
            lambda bench: bench.monitors.on_message(
                MotorStatus(0, 0, controller_temperature_k=400.0), bench.now_ns
            ),
            "let it cool",
        ),
        ({}, block, "clear the lane"),
    ],
)
def test_what_fails_between_arming_and_driving_keeps_it_from_driving(
    broken: dict[str, object], happens: Callable[[Bench], object] | None, named: str
) -> None:
    bench = armed()
    bench.step(500)
    if happens is not None:
        happens(bench)
    bench.ask(DRIVE)
    bench.step(5, **broken)
    assert bench.supervisor.mode is Mode.ARMED
    assert named in bench.supervisor.why
    assert any(named in text for text in bench.supervisor.waiting)


def test_teleop_takes_no_vehicle_whose_actuator_is_gone() -> None:
    bench = armed()
    bench.ask(TELEOP)
    stick(bench, 1)
    bench.step(3, actuator_lost="unplugged")
    assert bench.supervisor.mode is Mode.ARMED
    assert "unplugged" in bench.supervisor.why
    bench.step()
    assert bench.supervisor.mode is Mode.TELEOP


def test_a_drive_that_cannot_begin_is_refused_and_says_why() -> None:
    bench = armed()
    bench.ask(DRIVE)
    bench.step(LONG, actuator_lost="unplugged")
    assert bench.supervisor.mode is Mode.ARMED
    assert bench.supervisor.why.startswith("driving refused: ")
    assert "unplugged" in bench.supervisor.why
    assert "driving_refused" in bench.codes()
    bench.step(5)
    assert bench.supervisor.mode is Mode.ARMED, "the cause is gone, and so is the request"


def test_a_refused_teleop_gets_the_reason() -> None:
    bench = armed()
    bench.ask(TELEOP)
    bench.step(LONG)
    assert "centre the stick" in bench.supervisor.why
    assert bench.supervisor.why.startswith("driving refused: ")


def test_a_vehicle_that_rolls_is_not_armed_whatever_its_estimate_believes() -> None:
    bench = standing()
    bench.ask(ARM)
    for _ in range(10):
        bench.monitors.on_message(WheelSpeed(bench.now_ns, bench.now_ns, 0.8, 0.1), bench.now_ns)
        bench.step()
    assert bench.supervisor.mode is Mode.STANDBY
    assert "measure 0.80 m/s" in bench.supervisor.why


# ------------------------------------------------------------------------------- stops that mean it


@pytest.mark.parametrize("action", [STOP, DISARM])
def test_a_stop_request_during_a_gentle_stop_brakes(action: OperatorAction) -> None:
    bench = driving()
    bench.finish()
    assert bench.state == (Mode.STOPPING, Reaction.CONTROLLED_STOP)
    bench.ask(action)
    assert bench.state == (Mode.STOPPING, Reaction.BRAKE)
    assert bench.supervisor.why.startswith("the course is finished; then ")
    assert [link.code for link in bench.supervisor.chain] == [
        "course_finished",
        "stop_requested" if action is STOP else "disarm_requested",
    ]
    bench.step()
    assert bench.state == (Mode.STOPPING, Reaction.BRAKE)


def test_a_drive_without_current_that_rolls_is_braked_after_all() -> None:
    bench = driving()
    bench.estimate = ESTIMATE
    for _ in range(3):
        bench.monitors.motion.not_moving_ns = 10**10
        bench.step()
    assert bench.supervisor.in_force("not_moving")
    assert bench.supervisor.releases_brake
    bench.monitors.motion.uncommanded_ns = round((LIMITS.uncommanded_s + 0.1) * 1e9)
    bench.estimate = replace(ESTIMATE, speed_mps=-0.6)
    bench.step()
    assert bench.state == (Mode.FAULT, Reaction.DISABLE)
    assert not bench.supervisor.releases_brake
    assert "it rolled at -0.60 m/s: braked" in bench.supervisor.why
    assert "rolls_released" in bench.codes()


def test_a_covariance_that_is_no_number_brakes_at_once() -> None:
    for place in (0, 5):
        covariance = list(ESTIMATE.covariance)
        covariance[place] = nan
        bench = driving()
        bench.estimate = replace(MOVING, covariance=tuple(covariance))
        bench.step()
        assert bench.state == (Mode.STOPPING, Reaction.BRAKE), place
        bench = standing()
        bench.estimate = replace(ESTIMATE, covariance=tuple(covariance))
        bench.ask(ARM)
        bench.step(3)
        assert bench.supervisor.mode is Mode.STANDBY


# --------------------------------------------------------------------------------------- saying why


def test_a_cap_that_comes_and_goes_does_not_push_the_stop_out_of_the_chain() -> None:
    bench = driving()
    overheat = Fault(0, "vesc_fault", "drive", Reaction.CONTROLLED_STOP, True, "over-current")
    for _ in range(CHAIN_LIMIT + 5):
        bench.speaks.discard(GnssFix)
        bench.step(70)
        bench.speaks.add(GnssFix)
        bench.step(110)
    assert bench.supervisor.mode is Mode.AUTO
    assert len(bench.supervisor.chain) == CHAIN_LIMIT
    bench.monitors.on_message(overheat, bench.now_ns)
    bench.step()
    assert bench.supervisor.mode is Mode.STOPPING
    assert "over-current" in bench.supervisor.chain[-1].reason.text()
    assert len(bench.supervisor.chain) == CHAIN_LIMIT
    bench.ask(STOP)
    for k in range(2 * CHAIN_LIMIT):
        bench.supervisor._chain(
            bench.now_ns, Reaction.WARN, Reason(f"warning {k}", details=("a warning",))
        )
    assert {overheat.code, "stop_requested"} <= {link.code for link in bench.supervisor.chain}


def test_the_refusal_of_the_last_request_is_not_that_of_the_next() -> None:
    bench = standing()
    bench.ask(ARM)
    bench.step(LONG, actuator_lost="unplugged")
    assert bench.supervisor.why.startswith("arming refused")
    bench.ask(ARM)
    assert not bench.supervisor.why.startswith("arming refused"), "asked, not judged yet"
    bench.step()
    assert bench.supervisor.mode is Mode.ARMED
    bench.ask(DRIVE)
    bench.step(LONG, actuator_lost="unplugged")
    bench.ask(DRIVE)
    assert not bench.supervisor.why.startswith("driving refused")


def test_manual_driving_off_the_course_is_stopped_for_its_reason_alone() -> None:
    bench = armed()
    bench.ask(TELEOP)
    stick(bench, 1)
    bench.step()
    bench.estimate = MOVING
    bench.speaks.discard(ImuSample)
    for k in range(12):
        stick(bench, 2 + k)
        bench.step(estimate=replace(MOVING, y_m=5.0))
    assert bench.state == (Mode.STOPPING, Reaction.CONTROLLED_STOP)
    bench.step(12, estimate=replace(MOVING, y_m=5.0))
    assert bench.state == (Mode.STOPPING, Reaction.CONTROLLED_STOP)
    assert "off the course" not in bench.supervisor.why


@pytest.mark.parametrize("action", [STOP, DISARM])
def test_what_was_called_off_does_not_wait_any_more(action: OperatorAction) -> None:
    bench = standing()
    bench.ask(ARM)
    bench.step(3, actuator_lost="unplugged")
    bench.ask(action)
    assert bench.supervisor.why == "arming called off by test"
    bench.step(5)
    assert bench.supervisor.mode is Mode.STANDBY
    assert bench.supervisor.waiting == []


def test_stop_calls_off_a_drive_that_waits() -> None:
    bench = armed()
    bench.ask(DRIVE)
    bench.step(3, actuator_lost="unplugged")
    bench.ask(STOP)
    assert bench.state[0] is Mode.ARMED
    assert bench.supervisor.why == "driving called off by test"
    bench.step(5)
    assert bench.supervisor.mode is Mode.ARMED


@pytest.mark.parametrize(
    ("mode", "action", "named"),
    [
        (Mode.STOPPING, ARM, "ask again when it stands"),
        (Mode.STOPPING, DRIVE, "ask again when it stands"),
        (Mode.STOPPING, TELEOP, "ask again when it stands"),
        (Mode.AUTO, ARM, "drives already"),
        (Mode.STANDBY, DRIVE, "arm it first"),
        (Mode.STANDBY, TELEOP, "arm it first"),
        (Mode.FAULT, DRIVE, "arm it first"),
        (Mode.TELEOP, DRIVE, "stop it first"),
    ],
)
def test_a_request_that_leads_nowhere_is_reported_once(
    mode: Mode, action: OperatorAction, named: str
) -> None:
    if mode is Mode.STANDBY:
        bench = standing()
    elif mode is Mode.TELEOP:
        bench = armed()
        bench.ask(TELEOP)
        stick(bench, 1)
        bench.step()
    else:
        bench = driving()
        if mode is not Mode.AUTO:
            bench.ask(STOP if mode is Mode.STOPPING else OperatorAction.EMERGENCY_STOP)
    assert bench.supervisor.mode is mode
    bench.supervisor.take_faults()
    assert named in bench.supervisor.refusal(action)
    bench.ask(action, action, action)
    refused = [fault for fault in bench.supervisor.take_faults() if fault.code == "request_refused"]
    assert len(refused) == 1
    assert named in refused[0].reason
    assert refused[0].reaction is Reaction.NONE


def test_stopping_is_never_refused() -> None:
    for mode in Mode:
        for action in set(OperatorAction) - {
            ARM,
            DRIVE,
            TELEOP,
            OperatorAction.ALIGN,
            OperatorAction.OFFBOARD,
        }:
            assert refusal(action, mode, "why", arms=False) == ""


@pytest.mark.parametrize(
    ("why", "named"),
    [
        ("stale", "no fresh estimate"),
        ("none", "no fresh estimate"),
        ("moves", "the estimate says 1.00"),
        ("wheels", "measure 0.80"),
    ],
)
def test_a_stop_that_does_not_end_says_why(why: str, named: str) -> None:
    bench = driving()
    bench.ask(STOP)
    if why == "wheels":
        bench.estimate = ESTIMATE
    stale: dict[str, Any] = {"stale": {"estimate_age_ns": NEVER_NS}, "none": {"estimate": None}}
    for k in range(350):
        if why == "wheels":
            bench.monitors.on_message(
                WheelSpeed(bench.now_ns, bench.now_ns, 0.8, 0.1), bench.now_ns
            )
        bench.step(**stale.get(why, {}))
        assert bench.supervisor.mode is Mode.STOPPING
        assert k > 250 or bench.supervisor.waiting == []
    assert named in bench.supervisor.waiting[0]
    bench.estimate = ESTIMATE
    bench.step(40)
    assert bench.supervisor.mode is Mode.STANDBY
    assert bench.supervisor.waiting == []


# ------------------------------------------------------------------------------------------- arming


def test_without_a_log_nothing_is_armed() -> None:
    bench = standing()
    bench.monitors.on_message(
        HostHealth(bench.now_ns, disk_free_share=0.9, log_failure="No space left on device"),
        bench.now_ns,
    )
    bench.ask(ARM)
    bench.step(5)
    assert bench.supervisor.mode is Mode.STANDBY
    assert "No space left on device" in bench.supervisor.why


def test_a_log_that_somebody_deleted_is_a_warning_and_goes_on() -> None:
    bench = standing()
    bench.monitors.on_message(
        HostHealth(bench.now_ns, disk_free_share=0.9, log_lost="the log x.mcap was deleted"),
        bench.now_ns,
    )
    bench.ask(ARM)
    bench.step(5)
    assert bench.supervisor.mode is Mode.ARMED
    assert bench.supervisor.reaction is Reaction.WARN
    (trip,) = [fault for fault in bench.supervisor.faults if fault.code == "log_failing"]
    assert (trip.reaction, trip.reason) == (Reaction.WARN, "the log x.mcap was deleted")


@pytest.mark.parametrize(
    ("wall_clock_s", "named"),
    [(0.0, "year 1970"), (-1e300, "year 1970"), (1.7e9, "year 2023"), (1.8e9, ""), (nan, "")],
)
def test_a_clock_that_was_never_set_is_not_armed_with(wall_clock_s: float, named: str) -> None:
    bench = standing()
    bench.monitors.on_message(HostHealth(bench.now_ns, wall_clock_s=wall_clock_s), bench.now_ns)
    bench.ask(ARM)
    bench.step()
    assert bench.supervisor.mode is (Mode.STANDBY if named else Mode.ARMED)
    assert named in bench.supervisor.why


def test_a_request_waits_until_the_clock_has_settled() -> None:
    bench = standing()
    bench.monitors.on_message(HostHealth(bench.now_ns, clock_step_s=-3600.0), bench.now_ns)
    bench.monitors.on_message(HostHealth(bench.now_ns), bench.now_ns)
    bench.ask(ARM)
    bench.step(490)
    assert bench.supervisor.mode is Mode.STANDBY
    assert "moved by -3600.0 s" in bench.supervisor.why
    bench.step(15)
    assert bench.supervisor.mode is Mode.ARMED


def rates(monitor: SourceMonitor, hz: float, count: int, begin_ns: int = 10**9) -> int:
    for k in range(count):
        monitor.received(ImuSample, begin_ns + round(k * 1e9 / hz))
    return begin_ns + round(count * 1e9 / hz)


@pytest.mark.parametrize(
    ("hz", "slow"), [(400.0, False), (100.0, False), (81.0, False), (79.0, True), (20.0, True)]
)
def test_a_source_at_less_than_its_rate_is_named(hz: float, slow: bool) -> None:
    monitor = SourceMonitor(
        [MonitoredSource(name="imu", message=ImuSample, silence_ns=10**8, rate_hz=100.0)]
    )
    rates(monitor, hz, 5)
    assert monitor.slow() == [], "five give no rate"
    rates(monitor, hz, 200)
    assert bool(monitor.slow()) is slow
    if slow:
        assert f"comes at {hz:.1f} Hz (promised 100 Hz)" in monitor.slow()[0]


def test_an_outage_is_no_slow_rate_and_two_receivers_count_together() -> None:
    sources = [
        MonitoredSource(name=name, message=ImuSample, silence_ns=10**8, rate_hz=100.0)
        for name in ("left", "right")
    ]
    monitor = SourceMonitor(sources)
    end_ns = rates(monitor, 200.0, 100)
    assert monitor.slow() == []
    rates(monitor, 200.0, 20, end_ns + 5 * 10**9)
    assert monitor.slow() == []
    rates(monitor, 100.0, 100, end_ns + 6 * 10**9)
    assert monitor.slow()[0].startswith("left, right: ")
    assert SourceMonitor(SOURCES).slow() == [], "none is promised"
    assert SourceMonitor(sources).slow() == [], "none has arrived"
