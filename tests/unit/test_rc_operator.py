"""The RC operator: what his channels mean, when he has control, and what the loss of his handset
does."""

from math import inf, isclose, nan

import pytest

from tests.rc_bench import HIGH, LOW, MIDDLE, Bench, channels, params
from vehicled.cli.control import _rc as handset_lines
from vehicled.core.messages import Fault, Mode, OperatorAction, Reaction
from vehicled.core.rc import (
    RcAxis,
    RcMap,
    RcModeSwitch,
    RcPreset,
    RcSwitch,
    SwitchPosition,
    position,
)
from vehicled.core.wire.channels import TICKS, ChannelEnds
from vehicled.safety.arming import missing
from vehicled.safety.modes import MOVING
from vehicled.safety.monitors.rc import FRAMES
from vehicled.safety.rule import Rule

US = ChannelEnds(1000.0, 1500.0, 2000.0)
STOPPED = (Mode.STOPPING, Mode.STANDBY)
"""Modes after a stop; the vehicle of the bench stands."""
DRIVEN = (Mode.AUTO, Mode.TELEOP, Mode.ALIGN, Mode.OFFBOARD)


# ---------------------------------------------------------------- channels


@pytest.mark.parametrize(
    ("axis", "raw", "expected"),
    [
        (RcAxis(channel=1), 1500.0, 0.0),
        (RcAxis(channel=1), 1510.0, 0.0),
        (RcAxis(channel=1), 2000.0, 1.0),
        (RcAxis(channel=1), 2100.0, 1.0),
        (RcAxis(channel=1), 1000.0, -1.0),
        (RcAxis(channel=1, reversed=True), 1000.0, 1.0),
        (RcAxis(channel=1, dead_zone=0.0), 1750.0, 0.5),
        (RcAxis(channel=1, dead_zone=0.0, expo=1.0), 1750.0, 0.125),
        (RcAxis(channel=1, dead_zone=0.0, scale=0.3), 2000.0, 0.3),
        (RcAxis(channel=1, min=1100.0, trim=1520.0, max=1900.0, dead_zone=0.0), 1710.0, 0.5),
        (RcAxis(channel=1, min=1100.0, trim=1520.0, max=1900.0, dead_zone=0.0), 1310.0, -0.5),
        # A throttle that rests at its end drives forward only.
        (RcAxis(channel=1, trim=1000.0), 1000.0, 0.0),
        (RcAxis(channel=1, trim=1000.0), 900.0, 0.0),
        (RcAxis(channel=1, trim=1000.0, dead_zone=0.0), 1500.0, 0.5),
        (RcAxis(channel=1, trim=2000.0, reversed=True, dead_zone=0.0), 1500.0, 0.5),
    ],
)
def test_an_axis_is_calibrated_as_in_ardupilot(axis: RcAxis, raw: float, expected: float) -> None:
    assert isclose(axis.deflection(raw, US), expected, abs_tol=1e-12)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (1000.0, SwitchPosition.LOW), (1249.0, SwitchPosition.LOW), (1250.0, SwitchPosition.MIDDLE),
        (1750.0, SwitchPosition.MIDDLE), (1751.0, SwitchPosition.HIGH),
        (2000.0, SwitchPosition.HIGH),
    ],
)  # fmt: skip
def test_a_switch_has_three_positions(raw: float, expected: SwitchPosition) -> None:
    assert position(raw, US) is expected


def test_elrs_sends_its_arming_channel_at_1000_and_2000_us() -> None:
    assert position(191.0, TICKS) is SwitchPosition.LOW
    assert position(1792.0, TICKS) is SwitchPosition.HIGH


def test_the_stick_to_the_right_steers_right() -> None:
    hands = RcMap(params(), TICKS).read((HIGH, MIDDLE, *channels()[2:]))
    assert hands.steering == -1.0


@pytest.mark.parametrize(
    ("values", "part"),
    [
        (channels()[:5], "not in its frames"),
        ((nan, *channels()[1:]), "not in its frames"),
        ((inf, *channels()[1:]), "not in its frames"),
        ((0.0, *channels()[1:]), "outside"),
        (channels(kill=0.0), "outside"),
        (channels(mode=1976.0), "outside"),
        ((MIDDLE,) * 16, "at their centre"),
        ((MIDDLE + 10.0,) * 16, "at their centre"),
    ],
)
def test_values_that_no_handset_sends_are_no_reading(values: tuple[float, ...], part: str) -> None:
    assert part in RcMap(params(), TICKS).problem(values)


def test_values_of_a_handset_are_a_reading() -> None:
    channel_map = RcMap(params(), TICKS)
    assert channel_map.problem(channels()) == ""
    assert channel_map.problem((HIGH + 100.0, LOW - 100.0, *channels(mode=MIDDLE)[2:])) == ""


@pytest.mark.parametrize(
    ("preset", "raw"),
    [(RcPreset(channel=2, below=150.0), 149.0), (RcPreset(channel=2, above=1850.0), 1851.0)],
)
def test_the_receivers_own_failsafe_shows_in_a_channel(preset: RcPreset, raw: float) -> None:
    channel_map = RcMap(params(failsafe=preset), TICKS)
    assert "own failsafe" in channel_map.problem((MIDDLE, raw, *channels()[2:]))
    assert channel_map.problem((MIDDLE, 150.0, *channels()[2:])) == ""


# ---------------------------------------------------------------- taking over


@pytest.mark.parametrize("mode", [*DRIVEN, Mode.STOPPING])
def test_the_switch_takes_over_from_every_source_at_once_with_the_stick_where_it_is(
    mode: Mode,
) -> None:
    bench = Bench()
    bench.switch()
    bench.drive(mode)
    bench.switch(1, mode=HIGH, throttle=0.7)
    assert bench.mode is Mode.TELEOP
    assert bench.supervisor.driver == "rc"
    command = bench.monitors.teleop.command
    assert command is not None
    assert command.throttle > 0.5
    assert bench.supervisor.reaction is Reaction.NONE


def test_without_a_checksum_two_frames_take_over() -> None:
    bench = Bench(checked=False)
    bench.switch()
    bench.drive(Mode.AUTO)
    bench.switch(1, mode=HIGH)
    assert bench.mode is Mode.AUTO
    bench.switch(1)
    assert bench.mode is Mode.TELEOP


def test_one_odd_frame_without_a_checksum_does_nothing() -> None:
    bench = Bench(checked=False)
    bench.switch()
    bench.drive(Mode.AUTO)
    for _ in range(5):
        bench.switch(1, mode=HIGH, kill=HIGH, arm=HIGH)
        bench.switch(3, mode=LOW, kill=LOW, arm=LOW)
    assert bench.mode is Mode.AUTO


@pytest.mark.parametrize(
    "action",
    [OperatorAction.DRIVE, OperatorAction.TELEOP, OperatorAction.ALIGN, OperatorAction.OFFBOARD],
)
def test_nobody_else_is_given_the_vehicle_while_he_has_control(action: OperatorAction) -> None:
    bench = Bench()
    bench.switch()
    bench.drive(Mode.AUTO)
    bench.switch(mode=HIGH)
    bench.ask(action)
    assert "RC operator has control" in bench.supervisor.refusal(action)
    assert any(
        "RC operator has control" in fault.reason for fault in bench.supervisor.take_faults()
    )
    bench.stick(1.0)
    bench.stick(1.0, origin="rc")
    bench.setpoint()
    bench.step(3)
    command = bench.monitors.teleop.command
    assert command is not None
    assert command.throttle == 0.0
    assert (bench.mode, bench.supervisor.driver) == (Mode.TELEOP, "rc")


def test_what_others_asked_for_before_does_not_begin_while_he_has_control() -> None:
    bench = Bench()
    bench.switch(throttle=0.5)
    bench.ask(OperatorAction.ARM, OperatorAction.DRIVE)
    bench.switch(mode=HIGH)
    assert bench.mode is Mode.STANDBY, "arming waits for the throttle"
    modes = []
    for throttle in (0.3, 0.0, 0.0, 0.0):
        bench.switch(1, throttle=throttle)
        modes.append(bench.mode)
    assert Mode.AUTO not in modes
    assert modes[-1] is Mode.TELEOP


@pytest.mark.parametrize(
    "action", [OperatorAction.STOP, OperatorAction.DISARM, OperatorAction.EMERGENCY_STOP]
)
def test_everybody_may_stop_him_and_he_goes_on_by_moving_the_switch_only(
    action: OperatorAction,
) -> None:
    bench = Bench()
    bench.switch()
    bench.drive(Mode.AUTO)
    bench.switch(mode=HIGH)
    bench.ask(action)
    bench.step(1)
    assert bench.mode in (Mode.STOPPING, Mode.FAULT, Mode.STANDBY)
    bench.step(50)
    assert bench.mode in (Mode.STANDBY, Mode.FAULT)
    assert bench.supervisor.driver == ""


def test_his_takeover_of_a_stop_waits_for_its_cause() -> None:
    bench = Bench()
    bench.switch()
    bench.drive(Mode.AUTO)
    bench.monitors.motor.fault_code = 4
    bench.step(3)
    assert bench.mode is Mode.FAULT, "no switch takes a latched stop"
    bench.switch(mode=HIGH)
    assert bench.mode is Mode.FAULT


def test_a_stop_whose_cause_lasts_is_not_taken_over() -> None:
    bench = Bench()
    bench.switch()
    bench.drive(Mode.AUTO)
    bench.monitors.stopping.outside = ""
    bench.supervisor.mode = Mode.STOPPING
    bench.monitors.stopping.update = lambda s: None  # type: ignore[method-assign]
    bench.monitors.stopping.leaves = "beyond the fence"
    bench.switch(1, mode=HIGH)
    assert bench.mode is not Mode.TELEOP
    assert any(
        "the cause of the stop lasts" in fault.reason for fault in bench.supervisor.take_faults()
    )


def flag(value: list[bool], reaction: Reaction, modes: frozenset[Mode]) -> Rule:
    """Return a rule that holds while a flag is set, with a cap of 0.4 m/s that trips after 100
    ms."""
    return Rule(
        code="test", reaction=reaction, value=lambda s: value[0], reason=lambda s: "for a test",
        detect_ms=0.0, react_ms=0.0, persist_ms=100.0 if reaction is Reaction.CAP_SPEED else 0.0,
        modes=modes, cap_mps=lambda s: 0.4,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("reaction", "modes", "taken"),
    [
        (Reaction.CONTROLLED_STOP, frozenset({Mode.AUTO, Mode.STOPPING}), True),
        (Reaction.BRAKE, frozenset({Mode.AUTO}), True),
        (Reaction.CONTROLLED_STOP, frozenset({Mode.AUTO, Mode.TELEOP}), False),
        (Reaction.BRAKE, MOVING, False), (Reaction.CAP_SPEED, MOVING, True),
    ],
)  # fmt: skip
def test_a_stop_is_his_to_end_if_its_rule_would_not_stop_his_drive(
    reaction: Reaction, modes: frozenset[Mode], taken: bool
) -> None:
    holds = [False]
    bench = Bench(rules=[flag(holds, reaction, modes)])
    bench.switch()
    bench.drive(Mode.AUTO)
    bench.speed_mps, holds[0] = 1.0, True
    bench.step(12)
    if reaction is Reaction.CAP_SPEED:
        bench.ask(OperatorAction.STOP)
        bench.step()
    assert bench.mode is Mode.STOPPING
    bench.supervisor.take_faults()
    bench.switch(1, mode=HIGH)
    assert bench.mode is (Mode.TELEOP if taken else Mode.STOPPING)
    (answer,) = bench.supervisor.take_faults()
    assert (answer.code, answer.origin, answer.reaction, answer.active) == (
        "rc_takeover" if taken else "request_refused", "rc", Reaction.NONE, True,
    )  # fmt: skip
    assert answer.reason == (
        "the RC operator took over from STOPPING"
        if taken
        else "the cause of the stop lasts: for a test"
    )
    if reaction is Reaction.CAP_SPEED:
        assert bench.supervisor.speed_cap_mps == 0.4, "a cap goes on"
    bench.step(5)
    assert bench.mode is (Mode.TELEOP if taken else Mode.STOPPING)
    assert bench.supervisor.take_faults() == []


@pytest.mark.parametrize(
    ("reaction", "taken"),
    [
        (Reaction.WARN, True),
        (Reaction.CAP_SPEED, True),
        (Reaction.CONTROLLED_STOP, False),
        (Reaction.BRAKE, False),
    ],
)
def test_a_stop_is_not_his_to_end_while_a_device_reports_its_cause(
    reaction: Reaction, taken: bool
) -> None:
    bench = Bench(rules=[])
    bench.switch()
    bench.drive(Mode.AUTO)
    bench.speed_mps = 1.0
    bench.ask(OperatorAction.STOP)
    bench.step()
    fault = Fault(bench.now_ns, "device", "motor", reaction, True, "it is hot")
    bench.monitors.device_faults["device", "motor"] = fault
    bench.switch(1, mode=HIGH)
    assert bench.mode is (Mode.TELEOP if taken else Mode.STOPPING)
    refused = [
        each.reason for each in bench.supervisor.take_faults() if each.code == "request_refused"
    ]
    assert refused == ([] if taken else ["the cause of the stop lasts: it is hot"])


def test_a_takeover_is_recorded_once_and_ends_an_alignment() -> None:
    for mode, driver in ((Mode.ALIGN, "ALIGN"), (Mode.TELEOP, "pad")):
        bench = Bench()
        bench.switch()
        bench.drive(mode)
        if mode is Mode.ALIGN:
            bench.monitors.alignment.begin(bench.inputs())
            assert bench.monitors.alignment.active
        bench.switch(6, mode=HIGH, throttle=0.3)
        taken = [fault for fault in bench.supervisor.take_faults() if fault.code == "rc_takeover"]
        assert [fault.reason for fault in taken] == [f"the RC operator took over from {driver}"]
        assert not bench.monitors.alignment.active


def test_a_drive_is_not_his_before_his_own_reading_drives_it() -> None:
    """The vehicle is armed, which forgets all readings, while the handset has control and its next
    frame has not come."""
    bench = Bench(rules=[])
    bench.switch(mode=HIGH)
    bench.supervisor.mode, bench.on = Mode.AUTO, False
    bench.monitors.teleop.reset()
    bench.step()
    assert bench.monitors.rc.holds(bench.now_ns)
    assert bench.mode is Mode.AUTO
    bench.stick(0.5)
    bench.step()
    assert bench.mode is Mode.AUTO, "a reading of another is none of his"
    bench.switch(1)
    assert (bench.mode, bench.supervisor.driver) == (Mode.TELEOP, "rc")


def test_a_stop_for_a_gamepad_that_went_silent_is_his_to_end() -> None:
    bench = Bench()
    bench.switch()
    bench.drive(Mode.TELEOP)
    bench.speed_mps = 1.0
    bench.step(25)
    assert bench.mode is Mode.STOPPING
    assert bench.supervisor.in_force("teleop_lost") is not None
    bench.switch(3, mode=HIGH, throttle=0.3)
    assert (bench.mode, bench.supervisor.driver) == (Mode.TELEOP, "rc")
    assert bench.supervisor.reaction is Reaction.NONE


def test_nobody_sends_readings_in_his_name() -> None:
    bench = Bench()
    bench.stick(0.0, origin="rc")
    bench.step()
    bench.switch()
    bench.drive(Mode.AUTO)
    bench.stick(0.9, origin="rc")
    bench.monitors.teleop._counted["rc"] = 1
    bench.switch(1, mode=HIGH, throttle=0.2)
    assert bench.mode is Mode.TELEOP, "the number of another's reading is not that of his"
    own = bench.monitors.teleop.command
    bench.stick(0.9, origin="rc")
    assert bench.monitors.teleop.command == own
    bench.on = False
    for _ in range(22):
        bench.stick(0.9, origin="rc")
        bench.step()
        assert bench.monitors.teleop.command == own
    assert bench.mode in STOPPED


@pytest.mark.parametrize("to", [MIDDLE, LOW])
def test_giving_back_stops_and_drives_nothing(to: float) -> None:
    bench = Bench()
    bench.switch()
    bench.drive(Mode.AUTO)
    bench.switch(mode=HIGH)
    bench.switch(1, mode=to)
    assert bench.mode in STOPPED
    assert bench.supervisor.why == "stopped by rc"
    bench.step(60)
    assert bench.mode is Mode.STANDBY


def test_a_pushed_stick_takes_over_if_the_profile_says_so_and_was_at_rest() -> None:
    bench = Bench(takeover_stick=0.3)
    bench.switch(throttle=0.6)
    bench.drive(Mode.AUTO)
    bench.switch()
    assert bench.mode is Mode.AUTO, "it was never at rest"
    bench.switch(throttle=0.0)
    bench.switch(throttle=0.25)
    assert bench.mode is Mode.AUTO
    bench.switch(1, throttle=0.5)
    assert bench.mode is Mode.TELEOP
    bench.switch(throttle=0.0)
    assert bench.mode is Mode.TELEOP, "it keeps control until the switch is moved"
    bench.switch(1, mode=MIDDLE)
    assert bench.mode in STOPPED


def test_without_a_mode_switch_a_pushed_stick_keeps_control_until_the_vehicle_is_disarmed() -> None:
    bench = Bench(takeover_stick=0.3, mode=None)
    bench.switch()
    bench.drive(Mode.AUTO)
    bench.switch(2, throttle=0.5)
    assert bench.mode is Mode.TELEOP
    bench.switch(3, throttle=0.0)
    bench.ask(OperatorAction.DISARM)
    bench.step(80)
    assert bench.mode is Mode.STANDBY
    assert not bench.monitors.rc.holds(bench.now_ns)


# ---------------------------------------------------------------- arming, kill switch


def test_the_arming_switch_arms_as_it_is_moved_and_disarms() -> None:
    bench = Bench()
    bench.switch(20, arm=HIGH)
    assert bench.mode is Mode.STANDBY, "the position in which it is found is no request"
    bench.switch(arm=LOW)
    bench.switch(arm=HIGH)
    assert bench.mode is Mode.ARMED
    bench.switch(arm=LOW)
    assert bench.mode is Mode.STANDBY


def test_disarmed_by_his_switch_while_he_drives() -> None:
    bench = Bench()
    bench.switch(mode=HIGH)
    bench.switch(arm=HIGH)
    assert bench.mode is Mode.TELEOP
    bench.switch(1, arm=LOW)
    assert bench.mode in STOPPED
    assert bench.supervisor.disarmed_by == "rc"


def test_others_may_arm_for_him() -> None:
    bench = Bench()
    bench.switch(mode=HIGH)
    bench.ask(OperatorAction.ARM)
    bench.step(3)
    assert (bench.mode, bench.supervisor.driver) == (Mode.TELEOP, "rc")


def test_the_mode_switch_starts_the_course_of_an_armed_vehicle() -> None:
    bench = Bench()
    bench.switch()
    bench.ask(OperatorAction.ARM)
    bench.step(2)
    bench.switch(2, mode=MIDDLE)
    assert bench.mode is Mode.AUTO


def test_giving_back_to_the_course_is_no_refused_request() -> None:
    bench = Bench()
    bench.switch()
    bench.drive(Mode.AUTO)
    bench.switch(mode=HIGH)
    bench.switch(mode=MIDDLE)
    assert "request_refused" not in [fault.code for fault in bench.supervisor.take_faults()]


def test_his_own_request_is_not_refused_for_his_control() -> None:
    """His stick has control before the vehicle is armed, and his arming switch also asks for the
    course."""
    bench = Bench(takeover_stick=0.3, arm=RcSwitch(channel=6))
    bench.switch(mode=MIDDLE)
    bench.switch(steering=0.5)
    assert bench.monitors.rc.holds(bench.now_ns)
    bench.switch(arm=HIGH)
    assert bench.supervisor.driver != "pad"
    assert "request_refused" not in [fault.code for fault in bench.supervisor.take_faults()]


def test_before_the_vehicle_is_known_to_stand_a_stick_at_rest_gives_back_its_control() -> None:
    bench = Bench(takeover_stick=0.3, at_rest=False)
    bench.speed_mps = 1.0
    bench.switch()
    bench.switch(throttle=0.5)
    assert bench.mode is Mode.INIT
    assert bench.monitors.rc.holds(bench.now_ns)
    bench.switch(throttle=0.0)
    assert bench.mode is Mode.INIT
    assert not bench.monitors.rc.holds(bench.now_ns)


def test_a_request_that_the_kill_switch_refuses_changes_nothing() -> None:
    bench = Bench()
    bench.switch(kill=HIGH)
    why = bench.supervisor.why
    bench.ask(OperatorAction.ARM)
    assert bench.supervisor.why == why


def test_armed_in_manual_he_drives() -> None:
    bench = Bench()
    bench.switch(mode=HIGH)
    bench.switch(arm=HIGH)
    assert (bench.mode, bench.supervisor.driver) == (Mode.TELEOP, "rc")


def test_with_the_throttle_pushed_nothing_is_armed() -> None:
    bench = Bench()
    bench.switch(throttle=0.5)
    bench.switch(arm=HIGH)
    assert bench.mode is Mode.STANDBY
    assert any("throttle of the RC handset is at +4" in text for text in missing(bench.inputs()))
    bench.ask(OperatorAction.ARM)
    bench.step(5)
    assert bench.mode is Mode.STANDBY


@pytest.mark.parametrize("mode", [Mode.ARMED, *DRIVEN, Mode.STOPPING])
def test_the_kill_switch_stops_in_every_mode_and_latches(mode: Mode) -> None:
    bench = Bench()
    bench.switch()
    if mode is Mode.ARMED:
        bench.ask(OperatorAction.ARM)
        bench.step(2)
    else:
        bench.drive(mode)
    bench.switch(1, kill=HIGH)
    stopped = Mode.STANDBY if mode is Mode.ARMED else Mode.FAULT
    assert bench.mode is stopped
    for request in (OperatorAction.RESET, OperatorAction.ARM):
        bench.ask(request)
        bench.step(5)
    assert bench.mode is stopped
    assert "kill switch" in bench.supervisor.refusal(OperatorAction.ARM)
    assert any("kill switch of the RC handset is on" in text for text in missing(bench.inputs()))
    bench.switch(20, kill=LOW)
    assert bench.mode is stopped, "moving it back arms nothing"
    bench.ask(OperatorAction.ARM)
    bench.step(5)
    assert bench.mode is Mode.ARMED


def test_what_was_asked_for_with_the_kill_switch_on_does_not_wait_for_its_return() -> None:
    bench = Bench()
    bench.switch(kill=HIGH)
    bench.ask(OperatorAction.ARM)
    bench.switch(arm=HIGH)
    bench.switch(kill=LOW)
    assert bench.mode is Mode.STANDBY


def test_what_waits_is_called_off_by_the_kill_switch() -> None:
    bench = Bench()
    bench.switch(throttle=0.5)
    bench.ask(OperatorAction.ARM)
    bench.switch()
    bench.switch(kill=HIGH)
    bench.switch(kill=LOW, throttle=0.0)
    assert bench.mode is Mode.STANDBY


def test_a_handset_that_is_switched_off_with_its_kill_switch_on_does_not_lift_it() -> None:
    bench = Bench()
    bench.switch()
    bench.drive(Mode.AUTO)
    bench.switch(kill=HIGH)
    bench.on = False
    bench.step(150)
    bench.ask(OperatorAction.ARM)
    bench.step(5)
    assert bench.mode is Mode.FAULT
    bench.switch(FRAMES + 1, kill=LOW)
    assert bench.mode is Mode.FAULT
    bench.ask(OperatorAction.ARM)
    bench.step(5)
    assert bench.mode is Mode.ARMED


def test_a_reset_with_the_kill_switch_on_is_refused() -> None:
    bench = Bench()
    bench.switch()
    bench.drive(Mode.AUTO)
    bench.switch(kill=HIGH)
    bench.ask(OperatorAction.RESET)
    bench.step(100)
    assert bench.mode is Mode.FAULT


# ---------------------------------------------------------------- loss of the handset


@pytest.mark.parametrize("loss", ["silent", "failsafe", "frame_lost", "impossible", "centred"])
def test_his_drive_ends_when_the_handset_is_lost_and_no_reading_is_repeated(loss: str) -> None:
    bench = Bench()
    bench.switch()
    bench.drive(Mode.AUTO)
    bench.switch(mode=HIGH, throttle=0.5)
    last = bench.monitors.teleop.command
    match loss:
        case "silent":
            bench.on = False
        case "failsafe" | "frame_lost":
            bench.frame = {loss: True}
        case "impossible":
            bench.hands["arm"] = 0.0
        case "centred":
            bench.hands = {"mode": MIDDLE, "arm": MIDDLE, "kill": MIDDLE}
    bench.step(19)
    assert bench.mode is Mode.TELEOP
    assert bench.monitors.teleop.command == last
    bench.step(3)
    assert bench.mode in STOPPED
    assert bench.supervisor.chain[-1].reaction is Reaction.BRAKE


@pytest.mark.parametrize("required", [False, True])
def test_an_autonomous_drive_is_stopped_without_the_handset_only_if_it_is_required(
    required: bool,
) -> None:
    bench = Bench(required=required)
    bench.switch()
    bench.drive(Mode.AUTO)
    bench.on = False
    bench.step(99)
    assert bench.mode is Mode.AUTO
    bench.step(5)
    assert bench.mode in (STOPPED if required else (Mode.AUTO,))


def test_a_required_handset_must_be_there_to_arm() -> None:
    bench = Bench(required=True)
    assert any(
        "the RC handset is not there (its receiver sends nothing)" in text
        for text in missing(bench.inputs())
    )
    bench.frame = {"failsafe": True}
    bench.switch()
    assert any("the receiver reports failsafe" in text for text in missing(bench.inputs()))
    bench.frame = {}
    bench.switch()
    assert not any("RC" in text for text in missing(bench.inputs()))
    assert not any("RC" in text for text in missing(Bench().inputs())), (
        "one that is not required may be off"
    )


def test_a_handset_that_returns_needs_some_frames_and_a_switch_moved_meanwhile_is_no_request() -> (
    None
):
    bench = Bench()
    bench.switch(20)
    bench.on = False
    bench.step(120)
    assert not bench.monitors.rc.alive(bench.now_ns)
    bench.switch(FRAMES - 1, arm=HIGH, kill=HIGH)
    assert not bench.monitors.rc.alive(bench.now_ns)
    bench.switch(2)
    assert bench.monitors.rc.killed
    assert bench.mode is Mode.STANDBY


def test_a_handset_that_returns_in_manual_takes_over_a_drive() -> None:
    bench = Bench()
    bench.drive(Mode.AUTO)
    bench.switch(FRAMES + 1, mode=HIGH)
    assert bench.mode is Mode.TELEOP


def test_a_receiver_that_repeats_its_last_frame_for_ever_is_seen_by_its_stillness() -> None:
    bench = Bench(still_s=0.5, required=True)
    for step in range(200):
        bench.switch(1, steering=0.001 * (step % 2))
    assert bench.monitors.rc.alive(bench.now_ns)
    bench.step(49)
    assert bench.monitors.rc.trouble == ""
    bench.step(3)
    assert "repeats its last frame" in bench.monitors.rc.trouble


def test_the_state_for_status_and_page() -> None:
    assert Bench(at_rest=False).monitors.rc.status(0) is not None
    bench = Bench()
    bench.frame = {"link_quality": 0.83, "rssi_dbm": -71.0}
    bench.switch(mode=HIGH, throttle=0.5)
    status = bench.monitors.rc.status(bench.now_ns)
    assert status is not None
    assert (status["alive"], status["control"], status["link_quality"], status["rssi_dbm"]) == (
        True,
        True,
        0.83,
        -71.0,
    )
    assert status["mode"] == "manual"
    assert status["channels"][0] == MIDDLE
    bench.on = False
    bench.step(200)
    assert bench.monitors.rc.status(bench.now_ns)["trouble"] == "its receiver sends nothing"  # type: ignore[index]


def test_switches_say_where_they_are_on() -> None:
    low = RcMap(
        params(
            kill=RcSwitch(channel=7, on="low"),
            mode=RcModeSwitch(channel=5, low="manual", high="release"),
        ),
        TICKS,
    )
    assert low.read(channels(kill=LOW)).kill
    assert not low.read(channels(kill=HIGH)).kill
    assert low.read(channels(mode=LOW)).use == "manual"


def test_the_state_in_words() -> None:
    assert handset_lines(None) == []
    bench = Bench()
    bench.frame = {"link_quality": 0.83, "rssi_dbm": -71.0}
    bench.switch(mode=HIGH, steering=0.5)
    first, second = handset_lines(bench.monitors.rc.status(bench.now_ns))
    assert first.startswith("has control, link 83 %, -71 dBm, steering +0.48, throttle +0.00")
    assert second.startswith("channels 592 992 992")
    bench.frame = {"failsafe": True}
    bench.step(120)
    first, _ = handset_lines(bench.monitors.rc.status(bench.now_ns))
    assert first == "lost: the receiver reports failsafe, frames not used: 120 failsafe"
