"""Receivers of other generations than the ZED-F9P: what MON-VER says of them, and the messages that they send instead."""

from math import nan, pi, remainder, tau
from typing import Any

import pytest

from drivers.ublox.codec import encode
from drivers.ublox.device import UbloxDevice
from drivers.ublox.identity import identify
from drivers.ublox.keys import KEYS
from drivers.ublox.layouts import EsfSensor, EsfStatus, HnrAtt, HnrPvt, MonVer, NavAtt, NavEoe, NavPvt, RxmCor, SecSig
from drivers.ublox.settings import Params
from tests.emulator_bench import MS, SECOND, START, Bench
from tests.unit.test_emulator_ublox import bench, headings, samples
from tests.unit.test_ublox_device import S, events, fed, pvt
from vehicled.core.messages import Corrections, Fault, GnssFix, Heading, HeadingKind, MotorStatus, PortState, Reaction, WheelSpeed
from vehicled.core.ports import Send
from vehicled.core.wire.usage import Loss, Unused

F9P = MonVer("EXT CORE 1.00 (3fda8e)", "00190000", ("FWVER=HPG 1.32", "PROTVER=27.31", "MOD=ZED-F9P"))
F9P_150 = MonVer("EXT CORE 1.00 (6ed0b4)", "00190000", ("FWVER=HPG 1.51", "PROTVER=27.50", "MOD=ZED-F9P"))
# As receivers of others answered.
X20P = MonVer(
    "EXT HPG 2.10 (b0eda3)",
    "000B0000",
    ("ROM BASE 0x00A9D329", "FWVER=HPG 2.10", "PROTVER=50.11", "MOD=ZED-X20P", "GPS;GLO;GAL;BDS", "SBAS;QZSS", "NAVIC;LBAND"),
)
M10 = MonVer("ROM SPG 5.10 (7b202e)", "000A0000", ("FWVER=SPG 5.10", "PROTVER=34.10", "GPS;GLO;GAL;BDS", "SBAS;QZSS"))
M8 = MonVer("ROM CORE 3.01 (107888)", "00080000", ("FWVER=SPG 3.01", "PROTVER=18.00", "GPS;GLO;GAL;BDS"))


@pytest.mark.parametrize(
    ("version", "model", "firmware", "protocol", "standard", "security"),
    [
        (F9P, "ZED-F9P", "HPG 1.32", (27, 31), False, False),
        (F9P_150, "ZED-F9P", "HPG 1.51", (27, 50), False, True),
        (X20P, "ZED-X20P", "HPG 2.10", (50, 11), False, True),
        (M10, "", "SPG 5.10", (34, 10), True, True),
        (M8, "", "SPG 3.01", (18, 0), True, False),
        (MonVer("1.00", "00040007"), "", "", (0, 0), False, False),
    ],
)
def test_a_version_says_what_the_receiver_is(
    version: MonVer, model: str, firmware: str, protocol: tuple[int, int], standard: bool, security: bool
) -> None:
    found = identify(version)
    assert (found.model, found.firmware, found.protocol) == (model, firmware, protocol)
    assert (found.standard_precision, found.security_messages) == (standard, security)


def test_a_damaged_version_is_no_generation() -> None:
    for text in ("PROTVER=", "PROTVER=abc", "=", "MOD", "PROTVER=99999999999999999999.1"):
        identify(MonVer(text, text, (text,)))


def emulated(version: MonVer, messages: tuple[str, ...] = ("GnssFix",), **params: Any) -> tuple[Bench, Any]:
    found = bench(Params(rate_hz=5.0, **params), messages)
    line: Any = found.emulator
    line.device.version = version
    return found, line.device


def test_a_receiver_of_newer_firmware_reports_jamming_and_spoofing_by_security_messages() -> None:
    found, receiver = emulated(X20P)
    found.run(START + 4 * SECOND, samples(40))
    assert receiver.settings.value("CFG-MSGOUT-UBX_SEC_SIG_USB") == 5
    assert receiver.settings.value("CFG-MSGOUT-UBX_RXM_COR_USB") == 1
    assert not receiver.settings.value("CFG-MSGOUT-UBX_RXM_RTCM_USB"), "this receiver has no such message"
    assert not found.of(Fault)
    receiver.inject("jamming", 3.0, True, found.now_ns)
    receiver.inject("spoofing", 2.0, True, found.now_ns)
    found.run(START + 8 * SECOND, [each for each in samples(80) if each[1].t_ns > found.now_ns])
    faults = {each.code: each for each in found.of(Fault)}
    assert faults["gnss_jamming"].reaction is Reaction.CAP_SPEED
    assert faults["gnss_spoofing"].reason == "spoofing indicated"


def test_a_receiver_of_older_firmware_gets_no_other_items_than_before() -> None:
    found, receiver = emulated(F9P)
    found.run(START + 4 * SECOND, samples(40))
    assert receiver.settings.value("CFG-MSGOUT-UBX_RXM_RTCM_USB") == 1
    assert not receiver.settings.value("CFG-MSGOUT-UBX_SEC_SIG_USB")


def test_a_receiver_of_standard_precision_is_not_asked_for_precise_items() -> None:
    found, receiver = emulated(M10)
    found.run(START + 4 * SECOND, samples(40))
    assert not receiver.settings.value("CFG-MSGOUT-UBX_NAV_HPPOSLLH_USB")
    assert not receiver.settings.value("CFG-MSGOUT-UBX_RXM_COR_USB")
    assert receiver.settings.value("CFG-MSGOUT-UBX_SEC_SIG_USB") == 5
    assert found.of(GnssFix)


@pytest.mark.parametrize(("wanted", "signals"), [(("gps", "beidou"), (1, 0)), (("gps", "beidou", "glonass"), (0, 1))])
def test_generation_10_gets_one_signal_of_beidou(wanted: Any, signals: tuple[int, int]) -> None:
    found, receiver = emulated(M10, constellations=wanted)
    found.run(START + 4 * SECOND, samples(40))
    assert tuple(map(receiver.settings.value, ("CFG-SIGNAL-BDS_B1_ENA", "CFG-SIGNAL-BDS_B1C_ENA"))) == signals


@pytest.mark.parametrize(("status", "age_s"), [(2 << 7, 1.5), (1 << 7, 2.0), (0, 2.0), (2 << 7 | 2 << 5, 2.0)])
@pytest.mark.parametrize("protocol", [1, 2])
def test_a_report_on_corrections_of_any_protocol_dates_them(status: int, age_s: float, protocol: int) -> None:
    """Used, not used, unknown, and used although damaged; the class of NAV-PVT says one to two seconds."""
    receiver = UbloxDevice(Params(configure=False), [GnssFix], S)
    found = pvt(flags=0x83, flags3=2 << 1)
    fed(receiver, RxmCor(1, 0, protocol | status, 4, 0), at_ns=10 * S)
    messages = fed(receiver, found, NavEoe(found.itow_ms), at_ns=11 * S + 500 * MS)
    (fix,) = [each for each in messages if isinstance(each, GnssFix)]
    assert fix.correction_age_s == pytest.approx(age_s)


# ---------------------------------------------------------------- inertial sensor


def inertial(**params: Any) -> UbloxDevice:
    return UbloxDevice(Params(configure=False, inertial=True, **params), [GnssFix, Heading], S)


def attitude(itow_ms: int = 1000, heading_deg: float = 90.0, accuracy_deg: float = 0.2) -> NavAtt:
    return NavAtt(itow_ms, 0, 0, 0, round(heading_deg * 1e5), 20_000, 20_000, round(accuracy_deg * 1e5))


def yaws(messages: list[Any]) -> list[float]:
    return [each.yaw_rad for each in messages if isinstance(each, Heading)]


def test_the_attitude_is_the_heading_while_the_vehicles_heading_is_valid() -> None:
    receiver = inertial()
    valid: NavPvt = pvt(flags=0x21)
    messages = fed(receiver, valid, attitude(valid.itow_ms, 30.0))
    (heading,) = [each for each in messages if isinstance(each, Heading)]
    assert heading.yaw_rad == pytest.approx(pi / 3)
    assert heading.kind is HeadingKind.INERTIAL
    assert heading.sigma_rad == pytest.approx(0.2 * pi / 180)
    assert yaws(fed(receiver, pvt(flags=0x01), attitude(2000), at_ns=2 * S)) == []
    assert receiver.usage.of("NAV-ATT").refused == {Loss(Unused.INVALID, "headVehValid"): 1}


@pytest.mark.parametrize("mode", [0, 2, 3])
def test_without_fusion_the_attitude_is_no_heading(mode: int) -> None:
    receiver = inertial()
    messages = fed(receiver, pvt(flags=0x21), EsfStatus(1000, 2, 0, 0, mode), attitude())
    assert yaws(messages) == []
    assert receiver.usage.of("NAV-ATT").refused == {Loss(Unused.INVALID, "fusionMode"): 1}


def test_an_attitude_whose_state_is_not_known_or_too_inaccurate_is_no_heading() -> None:
    receiver = inertial()
    assert yaws(fed(receiver, attitude())) == []
    assert yaws(fed(receiver, pvt(flags=0x21), attitude(accuracy_deg=80.0))) == []
    assert yaws(fed(receiver, pvt(flags=0x21), attitude(accuracy_deg=0.0))) == []
    assert {loss.reason for loss in receiver.usage.of("NAV-ATT").refused} == {
        Unused.STATUS_MISSING, Unused.TOO_INACCURATE, Unused.ALL_ZERO,
    }  # fmt: skip


def test_changes_of_the_fusion_are_events() -> None:
    receiver = inertial()
    good, bad = EsfSensor(0xC0 | 11, 7, 10, 0), EsfSensor(0xC0 | 11, 7, 10, 4)
    modes = []
    for k, status in enumerate(
        (
            EsfStatus(0, 2, 0, 0, 0),
            EsfStatus(0, 2, 0, 0, 1, (good,)),
            EsfStatus(0, 2, 0, 0, 1, (good,)),
            EsfStatus(0, 2, 0, 0, 1, (bad,)),
        )
    ):
        modes += [
            (each["mode"], tuple(each["faulty"])) for each in events(fed(receiver, status, at_ns=(k + 1) * S), "sensor_fusion")
        ]
    assert modes == [("initialising", ()), ("working", ()), ("working", ("speed",))]


def test_predictions_between_the_epochs_are_counted_and_not_used() -> None:
    receiver = inertial()
    position = HnrPvt(1050, 2021, 4, 16, 9, 14, 59, 7, 0, 3, 0x1D, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)
    assert fed(receiver, position, HnrAtt(*attitude())) == []
    for name in ("HNR-PVT", "HNR-ATT"):
        assert receiver.usage.of(name).refused == {Loss(Unused.NOT_WANTED): 1}


def test_an_emulated_f9r_gives_its_heading_and_takes_the_wheel_speed() -> None:
    found = bench(Params(rate_hz=5.0, inertial=True, wheel_speed_hz=10.0), ("GnssFix", "Heading"))
    line: Any = found.emulator
    receiver = line.device
    found.run(START + 4 * SECOND, [*samples(40), *headings(80)])
    assert receiver.settings.value("CFG-SFODO-USE_SPEED") == 1
    assert not receiver.settings.value("CFG-MSGOUT-UBX_NAV_RELPOSNED_USB")
    driver: Any = found.driver
    assert WheelSpeed in driver.consumes
    assert not driver.moving_base_rover
    for k in range(20):
        now_ns = found.now_ns + k * 50 * MS
        driver.on_command(WheelSpeed(now_ns, now_ns, 1.5 - k * 0.2, 0.01), now_ns)
        for action in driver.take_tx():
            assert isinstance(action, Send)
            receiver.on_bytes(action.data, now_ns)
    # Every second of them, as they came at 20 Hz.
    assert receiver.wheel_speeds_mps == pytest.approx([1.5 - k * 0.2 for k in range(0, 20, 2)], abs=0.001)
    got = [each for each in found.of(Heading) if each.kind is HeadingKind.INERTIAL]
    assert len(got) > 5
    sent = {each[1].t_ns: each[1].yaw_rad for each in headings(80)}
    for each in got:
        nearest = min(sent, key=lambda t_ns: abs(t_ns - each.t_ns))
        assert abs(remainder(each.yaw_rad - sent[nearest], tau)) < 0.11


def test_a_motor_controllers_speed_serves_as_wheel_speed() -> None:
    found = bench(Params(inertial=True, wheel_speed_hz=10.0, metres_per_motor_radian=0.0125), ("GnssFix", "Heading"))
    found.run(START + 4 * SECOND, [*samples(40), *headings(80)])
    driver: Any = found.driver
    assert MotorStatus in driver.consumes
    assert WheelSpeed not in driver.consumes
    line: Any = found.emulator
    for speed_radps in (nan, 200.0, -80.0):
        now_ns = found.now_ns = found.now_ns + 200 * MS
        driver.on_command(MotorStatus(now_ns, now_ns, speed_radps), now_ns)
        for action in driver.take_tx():
            line.device.on_bytes(action.data, now_ns)
    assert line.device.wheel_speeds_mps == pytest.approx([2.5, -1.0])


def test_a_wheel_speed_is_sent_to_no_receiver_that_is_not_configured() -> None:
    receiver = UbloxDevice(Params(wheel_speed_hz=10.0), [GnssFix], S)
    receiver.on_port(PortState.OPENED, "", S)
    receiver.take_tx()
    receiver.on_command(WheelSpeed(S, S, 1.0, 0.1), S)
    assert receiver.take_tx() == ()
    assert WheelSpeed not in UbloxDevice(Params(), [GnssFix], S).consumes
    assert Corrections in receiver.consumes


def test_spartn_is_accepted_on_the_port_where_the_profile_says_so() -> None:
    found = bench(Params(spartn=True))
    found.run(START + 4 * SECOND, samples(40))
    line: Any = found.emulator
    assert line.device.settings.value("CFG-USBINPROT-SPARTN") == 1
    assert KEYS["CFG-USBINPROT-SPARTN"] == 0x10770005


def test_security_of_both_versions_in_both_directions() -> None:
    receiver = UbloxDevice(Params(configure=False), [GnssFix], S)
    for version in (1, 2):
        messages = fed(receiver, SecSig(version, 2, 3, (1_575_420, 1 << 24 | 1_207_140) if version == 2 else ()), at_ns=version * S)
        assert {each.code for each in messages if isinstance(each, Fault)} <= {"gnss_jamming", "gnss_spoofing"}
    assert receiver.usage.of("SEC-SIG").used == 2
    assert fed(receiver, encode(SecSig(2, 0, 0)), at_ns=3 * S) == []
