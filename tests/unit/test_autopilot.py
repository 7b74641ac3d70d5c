"""Driver of autopilots against its emulator: who moves the vehicle, and when nothing may."""

from math import cos, pi, radians, sin
from typing import Any

import pytest
from msgspec.structs import replace

from drivers.autopilot import codec, firmware
from drivers.autopilot.codec import ARM, SET_MODE
from drivers.autopilot.device import AutopilotDevice
from drivers.autopilot.firmware import ARDUPILOT, PX4, StickScale
from sim_backend.emulators.registry import emulator
from tests.motor_bench import START_NS, Bench
from vehicled.core.messages import (
    CarrierSolution,
    Event,
    FixType,
    GnssFix,
    Heading,
    HeadingKind,
    ImuSample,
    Message,
    Mode,
    MotorStatus,
    PortState,
    WheelSpeed,
)
from vehicled.core.wire.framing import Framer

both = pytest.mark.parametrize("kind", ["mavlink_autopilot", "mavlink_px4"])


def bench(kind: str = "mavlink_autopilot", **params: Any) -> Bench:
    found = Bench("mavlink_autopilot", **params)
    found.table = replace(found.table, emulator=kind)
    found.emulator = emulator("drive", found.table, 1, START_NS, wires=True)
    return found


def ready(kind: str = "mavlink_autopilot", **params: Any) -> Bench:
    """Return a bench whose autopilot may be armed."""
    found = bench(kind, **params)
    found.run(4000)
    assert found.driver.refusal == ""
    return found


def driving(kind: str = "mavlink_autopilot", **params: Any) -> Bench:
    found = ready(kind, **params)
    found.run(1500, mode=Mode.ARMED)
    found.run(400, 0.5, mode=Mode.AUTO)
    assert found.commands[-1].throttle == pytest.approx(0.5, abs=0.01)
    return found


@both
def test_it_is_armed_drives_and_is_disarmed_with_the_daemon(kind: str) -> None:
    b = ready(kind)
    assert "autopilot_ready" in b.events
    unit = b.emulator.device
    assert not unit.armed
    b.run(1500, mode=Mode.ARMED)
    assert unit.armed
    b.run(300, 0.5, mode=Mode.AUTO)
    assert b.commands[-1].throttle == pytest.approx(0.5, abs=0.01)
    b.run(50, 0.5, brake=1.0, mode=Mode.AUTO)
    assert b.commands[-1].throttle == 0.0
    b.run(50, -0.25, mode=Mode.AUTO)
    assert b.commands[-1].throttle == pytest.approx(-0.25, abs=0.01)
    b.run(3000)
    assert not unit.armed
    assert b.faults == []
    assert b.newest(MotorStatus).input_voltage_v == pytest.approx(24.0)


@both
def test_no_stick_is_sent_while_the_daemon_is_disarmed(kind: str) -> None:
    """Otherwise a person with a transmitter could not drive."""
    b = ready(kind)
    b.run(3000)
    numbers = {codec.read(frame).name for frame in frames(b.sent)}
    assert "MANUAL_CONTROL" not in numbers


def frames(sent: list[bytes]) -> list[bytes]:
    return [frame for _, frame in Framer(codec.PROTOCOLS, 512).feed(b"".join(sent))]


@both
def test_sticks_that_end_are_held_until_the_time_out_and_nothing_feeds_them(kind: str) -> None:
    b = driving(kind)
    sent = len(b.sent)
    b.run(400, None)
    assert b.commands[-1].throttle == pytest.approx(0.5, abs=0.01)
    b.run(1800, None)
    assert b.commands[-1].throttle == 0.0
    assert len(b.sent) == sent
    b.run(600, 0.5, mode=Mode.AUTO)
    assert b.commands[-1].throttle == 0.0, "it drove on by itself"
    expected = "autopilot_disarmed" if kind == "mavlink_px4" else "autopilot_mode_hold"
    assert expected in b.faults


def test_a_mode_that_others_choose_is_named_and_the_sticks_are_given_back() -> None:
    b = driving()
    b.emulator.inject("autopilot_mode", 1.0, True, b.now_ns)
    b.run(600, 0.5, mode=Mode.AUTO)
    assert "autopilot_mode_acro" in b.faults
    assert "changed to acro" in b.driver.refusal
    released = [
        codec.read(frame).content
        for frame in frames(b.sent)
        if codec.read(frame).name == "MANUAL_CONTROL"
    ]
    assert released[-1] == firmware.released(1)
    before = len(b.sent)
    b.run(2000, 0.5, mode=Mode.AUTO)
    sent = [codec.read(frame).content for frame in frames(b.sent[before:])]
    assert not any(isinstance(each, codec.ManualControl) for each in sent)
    asked = {each.command for each in sent if isinstance(each, codec.CommandLong)}
    assert not asked & {SET_MODE, ARM}, "it asked to have the vehicle back"
    assert b.emulator.device.armed, "a person drives it"
    b.run(2000)
    assert b.faults == []
    assert b.emulator.device.armed, "it disarmed the vehicle of a person"
    b.run(1500, mode=Mode.ARMED)
    b.run(300, 0.5, mode=Mode.AUTO)
    assert b.commands[-1].throttle == pytest.approx(0.5, abs=0.01)


def test_other_sticks_than_ours_are_named() -> None:
    b = driving()
    b.run(1500, 0.5, mode=Mode.AUTO)
    assert b.faults == []
    b.emulator.inject("autopilot_sticks", 1.0, True, b.now_ns)
    b.run(1000, 0.5, mode=Mode.AUTO)
    assert "autopilot_other_sticks" in b.faults


def test_an_autopilot_that_disarms_is_named() -> None:
    b = driving()
    b.emulator.device.armed = False
    b.run(600, 0.5, mode=Mode.AUTO)
    assert "autopilot_disarmed" in b.faults


def test_arming_that_is_denied_says_why() -> None:
    b = ready()
    b.emulator.device._obey = lambda found, now_ns: deny(b, found, now_ns)
    b.run(4000, mode=Mode.ARMED)
    assert "autopilot_not_taken" in b.faults
    assert "arming failed" in b.driver.refusal
    assert "PreArm: Compass not calibrated" in b.driver.refusal
    assert any("Compass" in each.fields for each in b.messages if isinstance(each, Event))


def deny(b: Bench, found: codec.CommandLong, now_ns: int) -> int:
    unit = b.emulator.device
    if found.command == 176:
        unit.mode = 0
        return 0
    if found.command != 400:
        return 0
    unit._reply(codec.Statustext(2, b"PreArm: Compass not calibrated"), now_ns)
    return 4


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("RC_OVERRIDE_TIME", -1.0, "overrides never end"),
        ("RC_OVERRIDE_TIME", 0.0, "ignores sticks"),
        ("RC_OVERRIDE_TIME", 3.0, "3000 ms, the profile allows 2000 ms"),
        ("FS_THR_ENABLE", 0.0, "FS_THR_ENABLE to 1"),
        ("FS_TIMEOUT", 5.0, "5500 ms"),
        ("FS_ACTION", 1.0, "FS_ACTION 1: RTL, which drives home"),
        ("FS_ACTION", 0.0, "FS_ACTION 0: nothing"),
        ("SYSID_MYGCS", 250.0, "it obeys system 250 alone, and this is 255"),
        ("RC_OPTIONS", 2.0, "clear bit 1 of RC_OPTIONS"),
        ("RC3_TRIM", 1000.0, "RC3_MIN, _TRIM and _MAX are not in order"),
    ],
)
def test_a_parameter_of_ardupilot_that_would_drive_on_is_refused_and_may_be_corrected(
    name: str, value: float, text: str
) -> None:
    b = bench()
    known = b.emulator.device.parameters
    good, known[name] = known[name], value
    b.run(4000)
    assert text in b.driver.refusal
    assert "autopilot_config" in b.faults
    b.run(1500, mode=Mode.ARMED)
    b.run(300, 0.5, mode=Mode.AUTO)
    assert b.commands[-1].throttle == 0.0
    known[name] = good
    b.run(25_000)
    assert b.driver.refusal == ""


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("COM_RC_LOSS_T", 5.0, "5000 ms, the profile allows 2000 ms"),
        ("COM_RC_IN_MODE", 0.0, "set COM_RC_IN_MODE to 1"),
        ("NAV_RCL_ACT", 2.0, "NAV_RCL_ACT 2"),
    ],
)
def test_a_parameter_of_px4_that_would_drive_on_is_refused(
    name: str, value: float, text: str
) -> None:
    b = bench("mavlink_px4")
    b.emulator.device.parameters[name] = value
    b.run(4000)
    assert text in b.driver.refusal


def test_a_px4_that_drives_at_the_middle_of_the_stick_is_refused() -> None:
    b = bench("mavlink_px4")
    b.emulator.device.version = 1 << 24 | 13 << 16
    b.run(4000)
    assert "PX4 1.13 takes half throttle for the middle" in b.driver.refusal


def test_a_parameter_that_is_never_answered_is_refused_until_the_profile_accepts_it() -> None:
    for accepted in (False, True):
        b = bench(accept_unreadable_timeout=accepted)
        del b.emulator.device.parameters["RC_OVERRIDE_TIME"]
        b.run(4000)
        assert ("has not been read yet" in b.driver.refusal) != accepted
        b.run(1500, mode=Mode.ARMED)
        b.run(300, 0.5, mode=Mode.AUTO)
        assert (b.commands[-1].throttle > 0.0) == accepted


def test_the_newer_name_of_the_ground_station_is_known() -> None:
    b = bench()
    known = b.emulator.device.parameters
    known["MAV_GCS_SYSID"] = known.pop("SYSID_MYGCS")
    b.emulator.device.parameters = {**known}
    b.run(4000)
    assert b.driver.refusal == ""


def test_a_copter_is_not_driven() -> None:
    device = AutopilotDevice(AutopilotDevice.Params(), (MotorStatus,), 10**8)
    device._acts = True
    writer = codec.MavlinkWriter(1, 1)
    device.on_port(PortState.OPENED, "", 1)
    device.on_rx(writer.frame(codec.MavHeartbeat(0, 2, ARDUPILOT, 0, 3)), 2)
    assert "vehicle of type 2" in device.refusal


def test_signed_messages_are_refused_by_name() -> None:
    device = AutopilotDevice(AutopilotDevice.Params(), (MotorStatus,), 10**8)
    device.on_port(PortState.OPENED, "", 1)
    writer = codec.MavlinkWriter(1, 1)
    beat = writer.frame(codec.MavHeartbeat(0, 10, ARDUPILOT, 0, 3))
    device.on_rx(beat, 2)
    body = bytes((beat[1], 1)) + beat[3:-2]
    signed = b"\xfd" + body + codec.crc16_mcrf4xx(body, 50).to_bytes(2, "little") + bytes(13)
    assert device.on_rx(signed, 3)
    assert "signed" in device.refusal


def test_a_silent_autopilot_is_driven_again_only_after_it_was_disarmed() -> None:
    b = driving()
    b.connected = False
    b.run(800, 0.5, mode=Mode.AUTO)
    assert "autopilot_silent" in b.faults
    b.connected = True
    b.run(2500, 0.5, mode=Mode.AUTO)
    assert b.commands[-1].throttle == 0.0
    b.run(4000)
    b.run(1500, mode=Mode.ARMED)
    b.run(300, 0.5, mode=Mode.AUTO)
    assert b.commands[-1].throttle == pytest.approx(0.5, abs=0.01)


def test_a_restarted_autopilot_is_asked_for_its_messages_again() -> None:
    b = ready()
    b.emulator.restart(b.now_ns)
    b.run(5000)
    assert b.driver.refusal == ""
    assert b.now_ns - b.newest(MotorStatus).t_rx_ns < 300_000_000


@pytest.mark.parametrize("value", [-1.0, -0.3, -0.01, 0.0, 0.01, 0.5, 1.0])
@pytest.mark.parametrize("reverse", [False, True])
def test_what_the_autopilot_reads_is_what_was_meant(value: float, reverse: bool) -> None:
    """Through its calibration: limits, an odd middle, a dead zone."""
    scale = StickScale(1050.0, 1470.0, 1930.0, 30.0, reverse)
    assert scale.value(scale.pulse_us(scale.stick(value))) == pytest.approx(value, abs=4e-3)


def listen(*contents: codec.Content, wanted: tuple[type[Message], ...], **params: Any) -> Any:
    device = AutopilotDevice(AutopilotDevice.Params(configure=False, **params), wanted, 10**8)
    writer = codec.MavlinkWriter(1, 1)
    beat = codec.MavHeartbeat(0, 10, ARDUPILOT, 0x81, 4)
    data = b"".join(map(writer.frame, (beat, *contents)))
    return list(device.on_rx(data, 10**9))


FIX = codec.GpsRawInt(
    5_000_000, 430_700_000, -894_000_000, 260_000, 80, 120, 200, 9_000, 6, 20, 230_000, 14, 20, 50,
    500_000, 9_000,
)  # fmt: skip


def test_a_fix_has_place_accuracy_velocity_and_heading_of_two_antennas() -> None:
    fix, heading = listen(FIX, wanted=(GnssFix, Heading))
    assert fix.latitude_rad == pytest.approx(radians(43.07))
    assert fix.height_m == pytest.approx(230.0)
    assert fix.position_covariance_m2[0] == pytest.approx(0.014**2 / 2)
    assert fix.position_covariance_m2[8] == pytest.approx(0.02**2)
    assert fix.velocity_enu_mps[:2] == pytest.approx((2.0, 0.0))
    assert (fix.fix_type, fix.carrier) == (FixType.FIX_3D, CarrierSolution.FIXED)
    assert fix.differential
    assert fix.satellites == 20
    assert fix.hdop == pytest.approx(0.8)
    assert heading.yaw_rad == pytest.approx(0.0, abs=1e-9)
    assert heading.sigma_rad == pytest.approx(radians(5.0))
    assert heading.kind is HeadingKind.MOVING_BASE


@pytest.mark.parametrize(
    "change",
    [{"fix_type": 1}, {"fix_type": 7}, {"fix_type": 9}, {"lat": 0, "lon": 0}, {"lat": 10**9}],
)
def test_what_is_no_fix_has_no_place(change: dict[str, int]) -> None:
    (fix,) = [
        each
        for each in listen(FIX._replace(yaw=0, **change), wanted=(GnssFix,))
        if isinstance(each, GnssFix)
    ]
    assert fix.latitude_rad != fix.latitude_rad
    assert fix.fix_type is FixType.NONE


def test_an_inertial_sample_is_turned_to_forward_left_up() -> None:
    raw = codec.RawImu(5_000_000, 100, 200, -1000, 10, 20, 30, 0, 0, 0, 0, 2500)
    (sample,) = listen(raw, wanted=(ImuSample,))
    assert sample.specific_force_mps2 == pytest.approx((0.980665, -1.96133, 9.80665))
    assert sample.angular_rate_radps == pytest.approx((0.01, -0.02, -0.03))
    assert sample.temperature_k == pytest.approx(298.15)


def test_the_attitude_is_no_heading_unless_it_is_asked_for() -> None:
    attitude = codec.MavAttitude(5000, 0.0, 0.0, pi / 2, 0.0, 0.0, 0.0)
    assert listen(attitude, wanted=(Heading,)) == []
    (heading,) = listen(attitude, wanted=(Heading,), heading="attitude")
    assert (cos(heading.yaw_rad), sin(heading.yaw_rad)) == pytest.approx((1.0, 0.0), abs=1e-6)


def test_wheel_distances_give_the_speed() -> None:
    rest = (0.0,) * 14
    first = codec.WheelDistance(5_000_000, (1.0, 2.0, *rest), 2)
    second = codec.WheelDistance(5_100_000, (1.1, 2.3, *rest), 2)
    found = listen(first, second, wanted=(WheelSpeed,))
    speeds = [each for each in found if isinstance(each, WheelSpeed)]
    assert [each.speed_mps for each in speeds] == pytest.approx([2.0])


def test_px4_puts_the_bits_of_integers_into_a_float() -> None:
    assert firmware.parameter(4.203895392974451e-45, 6, PX4) == 3.0
    assert firmware.parameter(3.0, 6, ARDUPILOT) == 3.0
    assert firmware.parameter(0.5, 9, PX4) == 0.5
