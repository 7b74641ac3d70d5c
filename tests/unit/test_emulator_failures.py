"""Failures on command: what they are written as, what each of them does, and that nothing else
changes."""

from math import cos, hypot, inf, isnan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.imu.n100 import N100Device, N100Params
from drivers.msglink.codec import MsglinkDecoder, encode
from drivers.pwm_board.device import PwmBoard, PwmParams
from drivers.ublox.device import UbloxDevice
from drivers.ublox.settings import Params
from sim_backend.__main__ import _parse, _simulate
from sim_backend.emulators.failing import FULL_SCALE_MPS2, FailingEmulator
from sim_backend.emulators.failures import KINDS, Failure, FailureError, parse_failure
from sim_backend.emulators.interface import DriveCommand
from sim_backend.emulators.msglink import MsgLinkEmulator
from sim_backend.emulators.n100 import n100
from sim_backend.emulators.pwm_board import pwm_board
from sim_backend.emulators.registry import check_failures
from sim_backend.emulators.ublox import ublox
from tests.emulator_bench import MS, SECOND, START, Bench, table
from tests.unit import test_emulator_n100 as n100_bench
from tests.unit import test_emulator_ublox as ublox_bench
from vehicled.core.messages import (
    ActuatorCommand,
    CarrierSolution,
    FixType,
    GnssFix,
    Heading,
    ImuSample,
    Message,
    Mode,
    MotorStatus,
)
from vehicled.profile import load_profile

EARTH_M = 6_371_000.0


def gnss(*texts: str, seconds: int = 20) -> Bench:
    """A receiver that fails, over so many seconds from the start."""
    params = Params(rate_hz=10.0, port="uart1", baud=460_800)
    device = table("ublox", params, ("GnssFix",))
    failing = FailingEmulator(
        ublox("gnss", device, 3, START),
        [parse_failure(each) for each in texts],
        ("GnssFix",),
        3,
        START,
    )
    found = Bench(failing, UbloxDevice(params, [GnssFix], 10 * SECOND))
    found.run(START + seconds * SECOND, ublox_bench.samples(10 * seconds))
    return found


def at(found: Bench, k: int) -> GnssFix:
    """The fix of epoch ``k``."""
    one: GnssFix = next(one for one in found.of(GnssFix) if one.utc_ns == ublox_bench.fix(k).utc_ns)
    return one


def offset_m(one: GnssFix, k: int) -> float:
    true = ublox_bench.fix(k)
    east = (one.longitude_rad - true.longitude_rad) * cos(true.latitude_rad)
    return EARTH_M * hypot(one.latitude_rad - true.latitude_rad, east)


def seen(found: Bench, from_s: float, to_s: float) -> list[Any]:
    """Messages that arrived within that time after the start."""
    return [
        m for m in found.of(GnssFix) if START + from_s * SECOND <= m.t_rx_ns < START + to_s * SECOND
    ]


# -------------------------------------------------------------------------------------------- texts


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        ("gnss:stuck@20+5", Failure("gnss", "stuck", 20.0, 5.0)),
        ("gnss:wrong=-3.5@0.5+1.25", Failure("gnss", "wrong", 0.5, 1.25, -3.5)),
        ("imu_2:off@7", Failure("imu_2", "off", 7.0, inf)),
        ("  drive:delayed=2@1+1 ", Failure("drive", "delayed", 1.0, 1.0, 2.0)),
    ],
)
def test_texts_are_failures(text: str, failure: Failure) -> None:
    assert parse_failure(text) == failure
    assert parse_failure(str(failure)) == failure


@pytest.mark.parametrize(
    "text",
    [
        "",
        "gnss",
        "gnss:off",
        "gnss:off@",
        "gnss:off@-1",
        "gnss:off@1+0",
        "gnss:off=@1",
        "g:o@1+1+1",
        "gnss:off@1e9",
        "gnss:x=.@1",
        "Gnss:off@1",
    ],
)
def test_other_texts_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(FailureError):
        parse_failure(text)


@given(st.text(max_size=60))
def test_no_text_raises_anything_else(text: str) -> None:
    try:
        parse_failure(text)
    except FailureError:
        pass


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("gnss:melt@1", "no such failure"),
        ("gnss:stuck=3@1", "takes no value"),
        ("gnss:delayed=99@1", "from 0.001 to 60"),
        ("gnss:saturation@1", "needs ImuSample"),
        ("lidar:off@1", "no device"),
        ("gnss:baud@1", "no line rate"),
    ],
)
def test_what_cannot_happen_is_refused_with_its_reason(text: str, reason: str) -> None:
    with pytest.raises(FailureError, match=reason):
        check_failures(load_profile("art"), [parse_failure(text)], wires=False)


@pytest.mark.parametrize("text", ["gnss:stuck", "gnss:melt@1", "lidar:off@1"])
def test_the_simulator_does_not_start_with_a_failure_that_cannot_be(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        _simulate(
            _parse(["--profile", "art", "--listen", "fd:0", "--fail", "gnss:off@1", "--fail", text])
        )
        == 2
    )
    assert text.partition("@")[0] in capsys.readouterr().err


def test_a_receiver_has_failures_of_its_own() -> None:
    found = gnss("gnss:jamming=3@5+5", seconds=12)
    assert found.reported().count("gnss_jamming") == 2


# ----------------------------------------------------------------------------- the kinds, on a wire


def test_without_a_failure_the_wrapper_changes_nothing() -> None:
    later = gnss("gnss:off@100+1", seconds=6)
    params = Params(rate_hz=10.0, port="uart1", baud=460_800)
    plain = Bench(
        ublox("gnss", table("ublox", params, ("GnssFix",)), 3, START),
        UbloxDevice(params, [GnssFix], 10 * SECOND),
    )
    plain.run(START + 6 * SECOND, ublox_bench.samples(60))
    assert later.arrivals == plain.arrivals


def test_off_is_silence() -> None:
    found = gnss("gnss:off@8+2", seconds=14)
    assert not [
        t_ns for t_ns, _ in found.arrivals if START + 8 * SECOND <= t_ns < START + 10 * SECOND
    ]
    assert len(seen(found, 7, 8)) == 10
    assert len(seen(found, 11, 12)) == 10


def test_stuck_repeats_the_last_value_with_new_stamps() -> None:
    found = gnss("gnss:stuck@8+2", seconds=12)
    held = [at(found, k) for k in range(80, 100)]
    assert {(one.latitude_rad, one.longitude_rad, one.height_m) for one in held} == {
        (at(found, 79).latitude_rad, at(found, 79).longitude_rad, at(found, 79).height_m)
    }
    assert len({one.t_ns for one in held}) == 20
    assert at(found, 100).latitude_rad != held[0].latitude_rad


def test_garbage_keeps_the_amount_and_nothing_else() -> None:
    found = gnss("gnss:garbage@8+2", seconds=12)
    assert seen(found, 8.2, 10) == []
    noise = [
        data for t_ns, data in found.arrivals if START + 8 * SECOND <= t_ns < START + 10 * SECOND
    ]
    sound = [
        data for t_ns, data in found.arrivals if START + 5 * SECOND <= t_ns < START + 7 * SECOND
    ]
    assert sum(map(len, noise)) == pytest.approx(sum(map(len, sound)), rel=0.1)
    assert isinstance(found.driver, UbloxDevice)
    assert found.driver.dropped_bytes > 1000


def test_a_wrong_value_is_plausible_and_off_by_the_given_amount() -> None:
    found = gnss("gnss:wrong=25@8+2", seconds=11)
    assert offset_m(at(found, 90), 90) == pytest.approx(25.0, abs=0.1)
    assert at(found, 90).carrier is CarrierSolution.FIXED
    assert offset_m(at(found, 79), 79) < 1e-3
    assert offset_m(at(found, 101), 101) < 1e-3


def test_slow_lets_one_of_n_through() -> None:
    found = gnss("gnss:slow=5@8+4", seconds=14)
    assert len(seen(found, 8.2, 12)) in (7, 8)
    assert "epochs_missing" in found.reported()


def test_delayed_comes_late_and_in_order() -> None:
    found = gnss("gnss:delayed=0.7@8+3", seconds=14)
    normal, late = at(found, 70), at(found, 90)
    assert late.t_rx_ns - ublox_bench.fix(90).t_ns == pytest.approx(
        normal.t_rx_ns - ublox_bench.fix(70).t_ns + 700 * MS, abs=2 * MS
    )
    stamps = [t_ns for t_ns, _ in found.arrivals]
    assert stamps == sorted(stamps)
    assert len(found.of(GnssFix)) > 90


def test_intermittent_loses_about_half() -> None:
    found = gnss("gnss:intermittent=0.2@5+15", seconds=20)
    share = len(seen(found, 5, 20)) / 150
    assert 0.15 < share < 0.7


def test_usb_is_gone_and_comes_back_new() -> None:
    found = gnss("gnss:usb@8+3", seconds=25)
    assert isinstance(found.emulator, FailingEmulator)
    assert found.emulator.plugged(START + 8 * SECOND - 1)
    assert not found.emulator.plugged(START + 9 * SECOND)
    assert found.emulator.plugged(START + 11 * SECOND)
    assert not [
        t_ns for t_ns, _ in found.arrivals if START + 8 * SECOND <= t_ns < START + 11 * SECOND
    ]
    # It has forgotten everything, and the driver sets it up again.
    assert found.reported().count("gnss_configured") == 2
    assert len(seen(found, 23, 24)) == 10


def test_a_brownout_costs_the_configuration() -> None:
    found = gnss("gnss:brownout@8+0.2", seconds=25)
    assert found.reported().count("gnss_configured") == 2
    assert seen(found, 8.3, 9) == []
    assert len(seen(found, 23, 24)) == 10


def test_another_line_rate_is_noise_while_it_lasts() -> None:
    found = gnss("gnss:baud=115200@8+2", seconds=20)
    assert seen(found, 8.3, 10) == []
    assert len(seen(found, 18, 19)) == 10


def test_no_fix_is_reported_as_none() -> None:
    found = gnss("gnss:no_fix@8+2", seconds=12)
    blind = at(found, 90)
    assert blind.fix_type is FixType.NONE
    assert isnan(blind.latitude_rad)
    assert at(found, 101).fix_type is FixType.FIX_3D
    assert found.reported().count("gnss_configured") == 1


def test_a_cold_start_forgets_and_searches() -> None:
    found = gnss("gnss:cold_start@8+10", seconds=25)
    assert found.reported().count("gnss_configured") == 2
    during = seen(found, 8.5, 18)
    assert during
    assert {one.fix_type for one in during} == {FixType.NONE}
    assert {one.utc_ns for one in during} == {0}
    assert {one.fix_type for one in seen(found, 20, 24)} == {FixType.FIX_3D}


def test_float_drifts_and_says_so() -> None:
    found = gnss("gnss:float=0.8@8+10", seconds=20)
    early, later = at(found, 82), at(found, 170)
    assert {early.carrier, later.carrier} == {CarrierSolution.FLOAT}
    assert offset_m(early, 82) < 0.1
    assert 0.5 < offset_m(later, 170) < 0.8
    assert early.position_covariance_m2[0] == pytest.approx(1e-4 + 0.64, rel=1e-6)
    assert at(found, 185).carrier is CarrierSolution.FIXED


def test_multipath_jumps_and_says_nothing() -> None:
    found = gnss("gnss:multipath@8+2", seconds=11)
    one = at(found, 80)
    assert offset_m(one, 80) == pytest.approx(1.5, abs=0.01)
    assert (one.carrier, one.position_covariance_m2) == (
        CarrierSolution.FIXED,
        at(found, 79).position_covariance_m2,
    )


def test_saturation_is_seen_by_the_driver() -> None:
    params = N100Params(rate_hz=400.0)
    emulator = n100("imu", table("n100", params, ("ImuSample",)), 3, START)
    failing = FailingEmulator(
        emulator, [parse_failure("imu:saturation@1+0.5")], ("ImuSample",), 3, START
    )
    found = Bench(failing, N100Device(params, [ImuSample], SECOND))
    found.run(START + 2 * SECOND, n100_bench.samples(800))
    saturated = [one for one in found.of(ImuSample) if one.saturated]
    assert len(saturated) == 200
    assert saturated[0].specific_force_mps2[0] == pytest.approx(FULL_SCALE_MPS2, rel=1e-6)


def test_a_stuck_inertial_unit_is_noticed() -> None:
    params = N100Params(rate_hz=400.0)
    emulator = n100("imu", table("n100", params, ("ImuSample",)), 3, START)
    found = Bench(
        FailingEmulator(emulator, [parse_failure("imu:stuck@1+1.5")], ("ImuSample",), 3, START),
        N100Device(params, [ImuSample], SECOND),
    )
    found.run(START + 4 * SECOND, n100_bench.samples(1600))
    assert found.reported() == ["imu_stuck", "imu_stuck"]


# ---------------------------------------------------------------------------------------- actuators


def board(text: str) -> Bench:
    """A board that fails, with a command to steer a little more every 50 ms for four seconds."""
    params = PwmParams()
    emulator = pwm_board("drive", table("pwm_board", params), 3, START)
    found = Bench(
        FailingEmulator(emulator, [parse_failure(text)], (), 3, START), PwmBoard(params, [], SECOND)
    )
    found.run(START + MS)
    for k in range(80):
        found.command(ActuatorCommand(found.now_ns, 0, 0.0, 0.0, 0.01 * k, 0.0, Mode.STANDBY))
        found.run(START + (k + 1) * 50 * MS)
    return found


def steering(found: Bench, from_s: float, to_s: float) -> list[float]:
    return [
        c.steering
        for c in found.commands
        if START + from_s * SECOND <= c.t_ns < START + to_s * SECOND
    ]


def test_a_board_that_is_off_does_nothing() -> None:
    assert steering(board("drive:off@1+1"), 1.0, 2.0) == []


def test_a_stuck_board_goes_on_with_its_last_pulse() -> None:
    found = board("drive:stuck@1+1")
    held = steering(found, 1.0, 2.0)
    assert len(held) == 20
    assert len(set(held)) == 1
    assert held[0] == pytest.approx(0.18, abs=0.02)
    assert steering(found, 2.0, 2.2)[0] > 0.35


def test_a_wrong_board_steers_aside() -> None:
    found = board("drive:wrong=-0.5@1+1")
    assert steering(found, 1.9, 2.0)[0] == pytest.approx(0.38 - 0.5, abs=0.03)


def test_a_slow_board_takes_one_command_of_n() -> None:
    assert len(steering(board("drive:slow=4@1+2"), 1.0, 3.0)) == 10


def test_a_delayed_board_acts_late_and_in_order() -> None:
    found = board("drive:delayed=0.5@1+1")
    assert steering(found, 1.0, 1.45) == []
    values = [c.steering for c in found.commands]
    assert values == sorted(values)
    assert steering(found, 1.9, 2.0)[-1] == pytest.approx(0.28, abs=0.03)


# --------------------------------------------------------------------------------------- in general


def test_failures_work_on_the_message_link_too() -> None:
    def messages(text: str) -> list[Message]:
        emulator = FailingEmulator(
            MsgLinkEmulator(actuator=False), [parse_failure(text)], ("Heading",), 3, START
        )
        found = Bench(emulator)
        found.run(START + 4 * SECOND, ublox_bench.headings(60))
        return MsglinkDecoder().feed(found.received)

    assert len(messages("heading:off@1+1")) == 39
    yaws = [one.yaw_rad for one in messages("heading:stuck@1+1") if isinstance(one, Heading)]
    assert len(set(yaws)) == 39
    assert isnan(
        [one for one in messages("heading:no_fix@1+1") if isinstance(one, Heading)][30].yaw_rad
    )


def test_late_commands_on_the_message_link_are_held_back_here() -> None:
    emulator = FailingEmulator(
        MsgLinkEmulator(actuator=True), [parse_failure("drive:delayed=5@0+1")], (), 3, START
    )
    found = Bench(emulator)
    found.send(encode(ActuatorCommand(START, 0, 0.5, 0.0, 0.1, 0.0)))
    found.run(START + 10 * SECOND)
    assert [c.t_ns for c in found.commands] == [START + 5 * SECOND]


@pytest.mark.parametrize(
    "kind", [name for name, kind in KINDS.items() if not kind.needs or "GnssFix" in kind.needs]
)
def test_the_same_seed_fails_in_the_same_way(kind: str) -> None:
    text = f"gnss:{kind}@4+2"
    assert gnss(text, seconds=8).arrivals == gnss(text, seconds=8).arrivals


def motor(failure: str, *commands: ActuatorCommand) -> tuple[list[MotorStatus], list[DriveCommand]]:
    """A motor controller on the message link that fails from its first second on: what it reports
    and does, one a second."""
    emulator = MsgLinkEmulator(actuator=True)
    failing = FailingEmulator(
        emulator, [parse_failure(failure)], ("MotorStatus", "ActuatorCommand"), 3, START
    )
    found = Bench(failing)
    for k in range(3):
        t_ns = START + k * SECOND + SECOND // 2
        found.run(t_ns, [(t_ns, MotorStatus(t_ns, 0, 10.0, input_voltage_v=11.0))])
        found.send(encode(ActuatorCommand(t_ns, 0, 0.5, 0.0, 0.1, 0.0)))
    found.run(START + 4 * SECOND)
    reported = [
        one for one in MsglinkDecoder().feed(found.received) if isinstance(one, MotorStatus)
    ]
    return reported, found.commands


@pytest.mark.parametrize(
    ("failure", "field", "value"),
    [
        ("drive:slip=0.5@1", "motor_speed_radps", 15.0),
        ("drive:heat=370@1", "motor_temperature_k", 370.0),
        ("drive:battery=9@1", "input_voltage_v", 9.0),
        ("drive:fault=4@1", "fault_code", 4),
    ],
)
def test_a_motor_controller_on_the_message_link_reports_its_failures(
    failure: str, field: str, value: float
) -> None:
    reported, _ = motor(failure)
    assert getattr(reported[-1], field) == value
    assert getattr(reported[0], field) != value


@pytest.mark.parametrize(
    ("failure", "throttle", "brake", "steering"),
    [
        ("drive:blocked@1", 0.0, 1.0, 0.1),
        ("drive:runaway=0.8@1", 0.8, 0.0, 0.1),
        ("drive:pull=-0.5@1", 0.5, 0.0, -0.4),
        ("drive:fault@1", 0.0, 0.0, 0.1),
    ],
)
def test_an_actuator_that_does_something_else(
    failure: str, throttle: float, brake: float, steering: float
) -> None:
    _, done = motor(failure)
    assert (done[0].throttle, done[0].brake, done[0].steering) == (0.5, 0.0, 0.1)
    assert (done[-1].throttle, done[-1].brake, done[-1].steering) == pytest.approx(
        (throttle, brake, steering)
    )


def test_a_rear_servo_that_does_not_follow() -> None:
    _, done = motor("drive:rear_steering=-1@1")
    assert (done[0].rear, done[-1].rear) == (1.0, -1.0)


@pytest.mark.parametrize(
    ("kind", "steered"), [("steering_reversed", -1.0), ("steering_stuck", 0.0)]
)
def test_a_steering_that_acts_the_other_way_or_not_at_all(kind: str, steered: float) -> None:
    _, done = motor(f"drive:{kind}@1")
    assert (done[0].steered, done[-1].steered) == (1.0, steered)


def test_commands_are_lost_inside_a_deaf_actuator() -> None:
    _, done = motor("drive:own_timeout@1")
    assert len(done) == 1


def test_two_failures_at_once_both_happen() -> None:
    found = gnss("gnss:multipath=3@8+2", "gnss:slow=2@8+2", seconds=11)
    during = seen(found, 8.2, 10)
    assert len(during) == 9
    assert all(
        offset_m(one, round((one.utc_ns - ublox_bench.UTC) / (100 * MS))) > 2.5 for one in during
    )


def test_headings_go_wrong_by_an_angle() -> None:
    emulator = FailingEmulator(
        MsgLinkEmulator(actuator=False),
        [parse_failure("heading:wrong@1+1")],
        ("Heading",),
        3,
        START,
    )
    found = Bench(emulator)
    sent = ublox_bench.headings(60)
    found.run(START + 4 * SECOND, sent)
    got = [one for one in MsglinkDecoder().feed(found.received) if isinstance(one, Heading)]
    assert got[25].yaw_rad - sent[25][1].yaw_rad == pytest.approx(0.5)
    assert got[5].yaw_rad == sent[5][1].yaw_rad
