"""The emulated receiver and the real driver on one bench: set up, fed with positions, and lost."""

from itertools import pairwise
from math import degrees, hypot, isnan, nan, pi, remainder, tau
from typing import Any

import pytest

from drivers.ublox import keys
from drivers.ublox.codec import decode, encode, poll
from drivers.ublox.device import UbloxDevice
from drivers.ublox.keys import CfgValget, CfgValgetPoll, CfgValset
from drivers.ublox.layouts import Ack, MonRf, Nak, NavPvt, NavRelposned, RxmRtcm, TimTp
from drivers.ublox.settings import Params
from sim_backend.emulators.line import SerialLine
from sim_backend.emulators.ublox import UbloxReceiver, ublox
from tests.emulator_bench import MS, SECOND, START, Bench, table
from vehicled.core.messages import (
    CarrierSolution,
    Corrections,
    FixType,
    GnssFix,
    Heading,
    HeadingKind,
    Message,
)
from vehicled.core.wire.crc import crc24q

UTC = 1_767_225_600_000_000_000
LATENCY = 60 * MS


def fix(k: int, period_ns: int = 100 * MS, utc_ns: int = UTC, **changes: Any) -> GnssFix:
    t_ns = START + k * period_ns
    values: dict[str, Any] = {
        "latitude_rad": 0.75 + 1.23456e-7 * k,
        "longitude_rad": -1.5 - 2.34567e-7 * k,
        "height_m": 250.12345 + 1e-3 * k,
        "velocity_enu_mps": (1.0, -0.5, 0.02),
        "position_covariance_m2": (1e-4, 1e-5, 2e-5, 1e-5, 2e-4, -3e-5, 2e-5, -3e-5, 4e-4),
        "velocity_covariance_m2ps2": (1e-3, 0.0, 0.0, 0.0, 1e-3, 0.0, 0.0, 0.0, 2e-3),
        "fix_type": FixType.FIX_3D,
        "carrier": CarrierSolution.FIXED,
        "differential": True,
        "correction_age_s": 0.8,
        "satellites": 24,
        "hdop": 0.7,
        "vdop": 1.1,
        "utc_ns": utc_ns + k * period_ns,
    }
    return GnssFix(t_ns, 0, **(values | changes))


def samples(count: int, latency_ns: int = LATENCY, **changes: Any) -> list[tuple[int, GnssFix]]:
    return [((one := fix(k, **changes)).t_ns + latency_ns, one) for k in range(1, count)]


def headings(count: int, period_ns: int = 50 * MS, **changes: Any) -> list[tuple[int, Heading]]:
    found = []
    for k in range(1, count):
        t_ns = START + k * period_ns
        values: dict[str, Any] = {
            "yaw_rad": remainder(0.1 * k, tau),
            "sigma_rad": 0.01,
            "kind": HeadingKind.MOVING_BASE,
        }
        found.append((t_ns + 5 * MS, Heading(t_ns, 0, **(values | changes))))
    return found


def bench(
    params: Params, messages: tuple[str, ...] = ("GnssFix",), port: str = "", seed: int = 3
) -> Bench:
    known: dict[str, type[Message]] = {
        "GnssFix": GnssFix,
        "Heading": Heading,
        "Corrections": Corrections,
    }
    kinds = [known[name] for name in messages]
    driver = UbloxDevice(params, kinds, 10 * SECOND)
    return Bench(ublox("gnss", table("ublox", params, messages, port), seed, START), driver)


def receiver(found: Bench) -> UbloxReceiver:
    assert isinstance(found.emulator, SerialLine)
    assert isinstance(found.emulator.device, UbloxReceiver)
    return found.emulator.device


def alone(params: Params | None = None, messages: tuple[str, ...] = ("GnssFix",)) -> Bench:
    return Bench(ublox("gnss", table("ublox", params or Params(), messages), 3, START))


def words(found: Bench) -> list[Any]:
    return [message for _, message in decode(found.received)]


# ------------------------------------------------------------------------------- out of the factory


def test_a_new_receiver_speaks_nmea_once_a_second() -> None:
    found = alone()
    found.run(START + 4 * SECOND, samples(40))
    names = [name for name, _ in decode(found.received)]
    # The first position of the run opens an epoch of its own.
    assert set(names) == {"GNRMC", "GNVTG", "GNGGA", "GNGSA", "GPGSV", "GNGLL"}
    assert names.count("GNGGA") == 4
    assert names[:2] == ["GNRMC", "GNVTG"]


def test_what_is_unknown_or_impossible_is_refused_and_changes_nothing() -> None:
    found = alone()
    rate = keys.KEYS["CFG-RATE-MEAS"]
    for items in (
        ((rate, 200), (0x2091FFF0, 1)),
        ((rate, 10),),
        ((keys.KEYS["CFG-UART1-BAUDRATE"], 12345),),
    ):
        found.send(encode(CfgValset(items)))
    found.send(encode(CfgValgetPoll((0x2091FFF0,))))
    found.run(START + SECOND)
    assert words(found) == [Nak(6, 0x8A)] * 3 + [Nak(6, 0x8B)]
    assert receiver(found).settings.value("CFG-RATE-MEAS") == 1000


def test_values_read_back_by_number_by_group_and_by_layer() -> None:
    found = alone()
    meas, nav, timeref = (keys.KEYS[f"CFG-RATE-{name}"] for name in ("MEAS", "NAV", "TIMEREF"))
    found.send(encode(CfgValset(((meas, 200),))))
    found.send(encode(CfgValgetPoll((nav, meas))))
    found.send(encode(CfgValgetPoll((0x0021FFFF,))))
    found.send(encode(CfgValgetPoll((meas,), keys.LAYER_DEFAULT)))
    found.send(encode(CfgValgetPoll((meas,), keys.LAYER_FLASH)))
    found.run(START + SECOND)
    answers = words(found)
    assert answers[1] == CfgValget(((nav, 1), (meas, 200)))
    assert answers[3] == CfgValget(((timeref, 1), (meas, 200), (nav, 1)))
    assert answers[5] == CfgValget(((meas, 1000),), keys.LAYER_DEFAULT)
    assert answers[6:] == [Ack(6, 0x8B), Nak(6, 0x8B)]


def test_flash_outlives_a_restart_and_ram_does_not() -> None:
    found = alone()
    meas, model = keys.KEYS["CFG-RATE-MEAS"], keys.KEYS["CFG-NAVSPG-DYNMODEL"]
    found.send(encode(CfgValset(((meas, 200),))))
    found.send(encode(CfgValset(((model, 4),), keys.RAM | keys.FLASH)))
    found.run(START + SECOND)
    assert isinstance(found.emulator, SerialLine)
    found.emulator.restart(found.now_ns)
    settings = receiver(found).settings
    assert (settings.value("CFG-RATE-MEAS"), settings.value("CFG-NAVSPG-DYNMODEL")) == (1000, 4)


def test_polls_are_answered() -> None:
    found = alone()
    found.run(START + 200 * MS, samples(2))
    found.send(poll("MON-VER") + poll("NAV-PVT") + poll("MON-RF"))
    found.run(START + SECOND)
    version, pvt, radio = words(found)[-3:]
    assert "MOD=ZED-F9P" in version.extensions
    assert isinstance(pvt, NavPvt)
    assert isinstance(radio, MonRf)


def test_a_receiver_configured_not_to_read_ubx_ignores_it() -> None:
    found = alone()
    found.send(encode(CfgValset(((keys.KEYS["CFG-USBINPROT-UBX"], 0),))))
    found.send(poll("MON-VER"))
    found.run(START + SECOND)
    assert words(found) == [Ack(6, 0x8A)]


# ---------------------------------------------------------------------------------- with the driver


@pytest.mark.parametrize(
    "params",
    [
        Params(rate_hz=10.0),
        Params(rate_hz=10.0, port="uart1", baud=460_800),
        Params(rate_hz=10.0, port="uart2", baud=38_400),
    ],
)
def test_positions_come_through_as_they_were(params: Params) -> None:
    found = bench(params)
    sent = samples(100)
    found.run(START + 10 * SECOND, sent)
    assert isinstance(found.driver, UbloxDevice)
    assert found.driver.configured
    assert receiver(found).refused == 0
    assert "gnss_configuration" not in found.reported()
    assert sorted(found.reported()) == ["gnss_configured", "rtk_state"]
    original = {one.utc_ns: one for _, one in sent}
    got = found.of(GnssFix)
    assert len(got) > 60
    for one in got:
        true = original[one.utc_ns]
        assert one.latitude_rad == pytest.approx(true.latitude_rad, abs=1e-11)
        assert one.longitude_rad == pytest.approx(true.longitude_rad, abs=1e-11)
        assert one.height_m == pytest.approx(true.height_m, abs=1e-4)
        assert one.velocity_enu_mps == pytest.approx(true.velocity_enu_mps, abs=1e-3)
        assert one.position_covariance_m2 == pytest.approx(true.position_covariance_m2, rel=1e-6)
        assert one.velocity_covariance_m2ps2 == pytest.approx(
            true.velocity_covariance_m2ps2, rel=1e-6
        )
        assert (one.fix_type, one.carrier, one.differential) == (true.fix_type, true.carrier, True)
        assert (one.satellites, one.correction_age_s) == (24, 1.0)
        assert (one.hdop, one.vdop) == pytest.approx((0.7, 1.1), abs=0.01)


def test_the_time_of_validity_is_found_to_a_few_milliseconds() -> None:
    # The simulated latency has jitter; its least is what the profile has to name.
    found = bench(Params(rate_hz=10.0, latency_ms=50.0, port="uart1", baud=460_800))
    late = [50, 71, 55, 93, 50, 62]
    sent = [(one.t_ns + late[k % 6] * MS, one) for k, (_, one) in enumerate(samples(150))]
    found.run(START + 16 * SECOND, sent)
    original = {one.utc_ns: one.t_ns for _, one in sent}
    errors = [abs(one.t_ns - original[one.utc_ns]) for one in found.of(GnssFix)[20:]]
    assert len(errors) > 80
    assert max(errors) < 5 * MS


@pytest.mark.parametrize(("rate_hz", "period_ms"), [(10.0, 100), (5.0, 200), (2.0, 500)])
def test_the_rate_is_that_of_the_configuration(rate_hz: float, period_ms: int) -> None:
    found = bench(Params(rate_hz=rate_hz))
    found.run(START + 10 * SECOND, samples(100))
    stamps = [one.utc_ns // MS for one in found.of(GnssFix)][3:]
    assert {b - a for a, b in pairwise(stamps)} == {period_ms}
    assert all(stamp % period_ms == 0 for stamp in stamps)


def test_a_receiver_that_lost_its_configuration_is_set_up_again() -> None:
    found = bench(Params(rate_hz=10.0, port="uart1", baud=460_800))
    sent = samples(300)
    found.run(START + 5 * SECOND, sent[:49])
    assert isinstance(found.emulator, SerialLine)
    found.emulator.restart(found.now_ns)
    before = len(found.of(GnssFix))
    found.run(START + 30 * SECOND, sent[49:])
    assert receiver(found).period_ms == 100
    assert receiver(found).baud == 460_800
    assert len(found.of(GnssFix)) > before + 100
    assert found.reported().count("gnss_configured") == 2


def test_nmea_only() -> None:
    found = bench(Params(rate_hz=5.0, protocol="nmea", port="uart1", baud=115_200))
    sent = samples(100)
    found.run(START + 10 * SECOND, sent)
    got = found.of(GnssFix)
    original = {one.utc_ns: one for _, one in sent}
    assert len(got) > 30
    for one in got:
        true = original[one.utc_ns]
        assert one.latitude_rad == pytest.approx(true.latitude_rad, abs=1e-10)
        assert one.longitude_rad == pytest.approx(true.longitude_rad, abs=1e-10)
        assert one.height_m == pytest.approx(true.height_m, abs=2e-3)
        assert one.carrier is CarrierSolution.FIXED
        assert hypot(one.velocity_enu_mps[0] - 1.0, one.velocity_enu_mps[1] + 0.5) < 2e-3


def test_the_heading_of_a_moving_base() -> None:
    found = bench(
        Params(rate_hz=10.0, baseline_m=0.4, baseline_yaw_rad=pi / 2, latency_ms=5.0), ("Heading",)
    )
    sent = headings(200)
    found.run(START + 10 * SECOND, sent)
    got = found.of(Heading)
    assert len(got) > 80
    original = {round(one.t_ns / (50 * MS)): one for _, one in sent}
    for one in got:
        true = original[round(one.t_ns / (50 * MS))]
        assert remainder(one.yaw_rad - true.yaw_rad, tau) == pytest.approx(0.0, abs=1e-6)
        assert one.sigma_rad == pytest.approx(0.01, abs=1e-6)
        assert abs(one.t_ns - true.t_ns) < 3 * MS
    # It sends epochs as well, so that the driver does not believe that it forgot.
    assert found.reported().count("gnss_configured") == 1
    assert found.of(GnssFix) == []


def test_a_heading_that_is_not_valid_is_reported_as_such() -> None:
    found = bench(Params(rate_hz=10.0), ("Heading",))
    found.run(START + 3 * SECOND, headings(50))
    valid = len(found.of(Heading))
    lost = [(t_ns + 3 * SECOND, one) for t_ns, one in headings(50, yaw_rad=nan)]
    found.run(
        START + 6 * SECOND,
        [(t_ns, Heading(one.t_ns + 3 * SECOND, 0, nan, nan)) for t_ns, one in lost],
    )
    assert len(found.of(Heading)) == valid
    assert "heading_lost" in found.reported()
    vectors = [message for message in words(found) if isinstance(message, NavRelposned)]
    assert not vectors[-1].heading_valid


def test_position_and_heading_of_one_epoch_on_one_port() -> None:
    found = bench(Params(rate_hz=10.0), ("GnssFix", "Heading"))
    found.run(START + 5 * SECOND, [*samples(50), *headings(100)])
    fixes, yaws = found.of(GnssFix), found.of(Heading)
    assert abs(len(fixes) - len(yaws)) <= 1
    assert {one.t_ns for one in yaws} <= {one.t_ns for one in fixes}


def test_without_a_fix_nothing_is_made_up() -> None:
    found = bench(Params(rate_hz=10.0))
    blind = [
        (START + k * 100 * MS + LATENCY, GnssFix(START + k * 100 * MS, 0, nan, nan, nan))
        for k in range(1, 50)
    ]
    found.run(START + 5 * SECOND, blind)
    got = found.of(GnssFix)
    assert len(got) > 30
    for one in got:
        assert one.fix_type is FixType.NONE
        assert isnan(one.latitude_rad)
        assert isnan(one.height_m)
        assert one.utc_ns == 0


def test_corrections_reach_the_receiver_and_it_says_so() -> None:
    found = bench(Params(rate_hz=10.0), ("GnssFix", "Corrections"))
    payload = (1077 << 12 | 0x123).to_bytes(3, "big") + bytes(40)
    covered = b"\xd3" + len(payload).to_bytes(2, "big") + payload
    frame = covered + crc24q(covered).to_bytes(3, "big")
    found.run(START + SECOND, samples(10))
    assert isinstance(found.driver, UbloxDevice)
    assert found.driver.configured
    found.command(Corrections(found.now_ns, found.now_ns, "test", frame[:20]))
    found.command(Corrections(found.now_ns, found.now_ns, "test", frame[20:]))
    found.run(START + 2 * SECOND)
    assert receiver(found).corrections == 1
    assert [message for message in words(found) if isinstance(message, RxmRtcm)] == [
        RxmRtcm(2, 4, 0, 0x123, 1077)
    ]


def test_jamming_and_spoofing_on_command() -> None:
    found = bench(Params(rate_hz=10.0))
    found.run(START + 3 * SECOND, samples(30))
    assert isinstance(found.emulator, SerialLine)
    found.emulator.inject("jamming", 3.0, True, found.now_ns)
    found.emulator.inject("spoofing", 2.0, True, found.now_ns)
    found.run(START + 6 * SECOND, samples(60)[29:])
    assert {"gnss_jamming", "gnss_spoofing"} <= set(found.reported())


def test_the_second_is_rounded_as_the_receiver_rounds_it() -> None:
    found = bench(Params(rate_hz=10.0))
    found.run(START + 3 * SECOND, samples(30, utc_ns=UTC - 4 * MS))
    # Four milliseconds before the full second the second is the full one, and the fraction
    # negative.
    edge = [
        message for message in words(found) if isinstance(message, NavPvt) and message.nano_ns < 0
    ]
    assert {message.nano_ns for message in edge} == {-4 * MS}
    assert {one.utc_ns % (100 * MS) for one in found.of(GnssFix)} == {96 * MS}


def test_announcements_of_the_pulse() -> None:
    found = bench(Params(rate_hz=10.0, time_pulse=True))
    found.run(START + 5 * SECOND, samples(50))
    pulses = [message for message in words(found) if isinstance(message, TimTp)]
    assert len(pulses) in (4, 5)
    assert all(pulse.tow_ms % 1000 == 0 for pulse in pulses)


def test_a_line_that_is_too_slow_loses_frames_and_the_driver_says_so() -> None:
    found = bench(Params(rate_hz=10.0, port="uart1", baud=9_600))
    found.run(START + 20 * SECOND, samples(200))
    assert "epochs_missing" in found.reported()


def test_the_same_seed_gives_the_same_bytes_at_the_same_times() -> None:
    def once(seed: int) -> list[tuple[int, bytes]]:
        found = bench(Params(rate_hz=10.0, port="uart1", baud=460_800), seed=seed)
        found.run(START + 5 * SECOND, samples(50))
        return found.arrivals

    assert once(1) == once(1)
    assert [len(data) for _, data in once(1)] != [len(data) for _, data in once(2)]


def test_course_and_accuracies_are_those_of_the_receiver() -> None:
    found = bench(Params(rate_hz=10.0))
    found.run(START + 2 * SECOND, samples(20))
    pvt = [message for message in words(found) if isinstance(message, NavPvt)][-1]
    assert pvt.course_deg_e5 * 1e-5 == pytest.approx(degrees(pi / 2 + 0.4636476), abs=1e-4)
    assert pvt.horizontal_accuracy_mm == round(1e3 * (3e-4) ** 0.5)
    assert pvt.height_mm - pvt.height_msl_mm == -34_000
