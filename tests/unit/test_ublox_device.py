"""Frames to messages: epochs, units and axes, time of validity, states and episodes."""

import json
import struct
from datetime import UTC, date, datetime
from itertools import pairwise
from math import atan2, cos, degrees, isfinite, isnan, nan, pi, radians, sin
from pathlib import Path
from typing import Any

import pytest

from drivers.rtcm.outgoing import CORRECTIONS_MAX_BYTES
from drivers.ublox.codec import encode, framer, ubx_frame
from drivers.ublox.device import STALE_NS, UbloxDevice
from drivers.ublox.layouts import (
    MonRf,
    NavCov,
    NavDop,
    NavEoe,
    NavHpposllh,
    NavPvat,
    NavPvt,
    NavRelposned,
    NavStatus,
    NavTimels,
    RfBlock,
    RxmRtcm,
)
from drivers.ublox.names import IDS
from drivers.ublox.nmea import (
    Avr,
    Gga,
    Gns,
    Gsa,
    Gst,
    Hdt,
    Hpr,
    Pashr,
    Rmc,
    Tar,
    Ths,
    Vel,
    Vtg,
    Zda,
)
from drivers.ublox.settings import Params
from vehicled.core.events import MessageUnused
from vehicled.core.messages import (
    CarrierSolution,
    Corrections,
    Event,
    Fault,
    FixType,
    GnssFix,
    Heading,
    HeadingKind,
    ImuSample,
    Message,
    PortState,
    Reaction,
)
from vehicled.core.ports import NEVER_NS, Send
from vehicled.core.wire.usage import Loss, Unused

UNUSED = MessageUnused.names[0]
S = 1_000_000_000
MS = 1_000_000
RTCM = bytes.fromhex("d300133ed7d30202980edeef34b4bd62ac0941986f33360b98")
GOLDEN = Path(__file__).parent.parent / "golden" / "ublox" / "zed_f9p_rtk.ubx"


def pvt(itow_ms: int = 515_695_000, **changes: Any) -> NavPvt:
    """23:14:37 UTC on Friday 11 April 2025, RTK float, corrections below 2 s old."""
    sound = NavPvt(
        itow_ms, 2025, 4, 11, 23, 14, 37, 0x37, 21, -172_938, 3, 0x43, 0xEA, 25, 76_590_724,
        450_657_724, 303_638, 256_403, 80, 84, -13, 12, 52, 17, 19_004_270, 191, 18_000_000, 144, 4,
    )  # fmt: skip
    return sound._replace(**changes)


def hpposllh(itow_ms: int = 515_695_000, flags: int = 0) -> NavHpposllh:
    return NavHpposllh(
        0, flags, itow_ms, 76_590_724, 450_657_724, 303_638, 256_403, -37, 45, -9, 8, 142, 101
    )


def relposned(itow_ms: int = 515_695_000, **changes: Any) -> NavRelposned:
    """Heading 30 degrees, 1.0012 m, fixed, moving base. The components follow length and
    heading."""
    vector = NavRelposned(
        1, 0, itow_ms, 0, 0, 0, 100, 3_000_000, -40, 0, 0, 12, 50, 50, 50, 50, 57_296, 0x137
    )._replace(**changes)  # fmt: skip
    heading = radians(vector.heading_deg_e5 * 1e-5)
    components = {
        "north_cm": round(100 * vector.length_m * cos(heading)),
        "east_cm": round(100 * vector.length_m * sin(heading)),
    }
    return vector._replace(**(components | changes))


def device(*messages: type[Message], **params: Any) -> UbloxDevice:
    return UbloxDevice(Params(**params), messages or (GnssFix, Heading), 50 * MS)


def fed(receiver: UbloxDevice, *wire: Any, at_ns: int = S) -> list[Message]:
    return list(
        receiver.on_rx(
            b"".join(each if isinstance(each, bytes) else encode(each) for each in wire), at_ns
        )
    )


def fixes(messages: list[Message]) -> list[GnssFix]:
    return [message for message in messages if isinstance(message, GnssFix)]


def events(messages: list[Message], name: str) -> list[dict[str, Any]]:
    return [
        json.loads(message.fields)
        for message in messages
        if isinstance(message, Event) and message.name == name
    ]


# ---------------------------------------------------------------- one epoch


def test_an_epoch_becomes_one_fix():
    covariances = NavCov(
        515_695_000,
        0,
        1,
        1,
        4.0,
        -0.5,
        0.25,
        1.0,
        -0.75,
        9.0,
        0.04,
        0.001,
        0.002,
        0.01,
        0.003,
        0.09,
    )
    dop = NavDop(515_695_000, 200, 180, 90, 117, 82, 60, 50)
    (fix,) = fixes(fed(device(), pvt(), hpposllh(), covariances, dop, NavEoe(515_695_000)))
    assert fix.latitude_rad == pytest.approx(radians(45.0657724 + 45e-9), abs=1e-15)
    assert fix.longitude_rad == pytest.approx(radians(7.6590724 - 37e-9), abs=1e-15)
    assert fix.height_m == pytest.approx(303.638 - 0.0009, abs=1e-9)
    assert fix.velocity_enu_mps == pytest.approx((0.012, -0.013, -0.052))
    assert fix.position_covariance_m2 == pytest.approx(
        (1.0, -0.5, 0.75, -0.5, 4.0, -0.25, 0.75, -0.25, 9.0)
    )
    assert fix.velocity_covariance_m2ps2 == pytest.approx(
        (0.01, 0.001, -0.003, 0.001, 0.04, -0.002, -0.003, -0.002, 0.09)
    )
    assert (fix.fix_type, fix.carrier, fix.differential) == (
        FixType.FIX_3D,
        CarrierSolution.FLOAT,
        True,
    )
    assert (fix.satellites, fix.hdop, fix.vdop, fix.correction_age_s) == pytest.approx(
        (25, 0.82, 1.17, 2.0)
    )
    whole = int(datetime(2025, 4, 11, 23, 14, 37, tzinfo=UTC).timestamp()) * S
    assert fix.utc_ns == whole - 172_938


def test_without_covariances_the_accuracies_stand_in():
    """The one published NAV-COV beside a NAV-PVT: hAcc 1491 mm, NN + EE = 1.491 m squared; vAcc
    2065 mm, DD likewise."""
    (fix,) = fixes(
        fed(
            device(),
            pvt(horizontal_accuracy_mm=1491, vertical_accuracy_mm=2065),
            NavEoe(515_695_000),
        )
    )
    east = fix.position_covariance_m2[0]
    north = fix.position_covariance_m2[4]
    up = fix.position_covariance_m2[8]
    assert east + north == pytest.approx(1.5019601583 + 0.7207303047, rel=1e-3)
    assert up == pytest.approx(4.2654733658, rel=1e-3)
    assert fix.latitude_rad == pytest.approx(radians(45.0657724), abs=1e-15)
    assert isnan(fix.hdop)


def test_an_invalid_high_precision_position_or_covariance_is_not_used():
    void = NavCov(515_695_000, 0, 0, 0, *[0.0] * 12)
    odd = NavCov(515_695_000, 0, 1, 1, *[nan] * 12)
    # Correlations above one: NN NE ND EE ED DD.
    flat = NavCov(515_695_000, 0, 1, 1, *[1.0, 1.1, 0.0, 1.0, 0.0, 1.0] * 2)
    upright = NavCov(515_695_000, 0, 1, 1, *[1.0, 0.0, 1.5, 1.0, 0.0, 1.0] * 2)
    plain = fixes(fed(device(), pvt(), NavEoe(515_695_000)))
    for covariances in (void, odd, flat, upright):
        assert (
            fixes(fed(device(), pvt(), hpposllh(flags=1), covariances, NavEoe(515_695_000)))
            == plain
        )


@pytest.mark.parametrize(
    ("changes", "fix_type"),
    [
        ({"fix_type": 0}, FixType.NONE),
        ({"flags": 0x42}, FixType.NONE),
        ({"flags3": 1}, FixType.NONE),
        ({"fix_type": 5}, FixType.TIME),
        ({"fix_type": 77}, FixType.NONE),
        ({"latitude_deg_e7": 900_000_001}, FixType.NONE),
        ({"longitude_deg_e7": -1_800_000_001}, FixType.NONE),
    ],
)
def test_a_position_that_is_none_is_not_a_number(changes: dict[str, int], fix_type: FixType):
    (fix,) = fixes(fed(device(), pvt(**changes), hpposllh(), NavEoe(515_695_000)))
    assert fix.fix_type is fix_type
    assert isnan(fix.latitude_rad)
    assert isnan(fix.longitude_rad)
    assert isnan(fix.height_m)
    assert all(map(isnan, fix.velocity_enu_mps + fix.position_covariance_m2))
    assert fix.utc_ns > 0


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"fix_type": 77}, Loss(Unused.UNKNOWN_STATE, "fixType")),
        ({"flags": 0x42}, Loss(Unused.INVALID, "gnssFixOK")),
        ({"flags3": 1}, Loss(Unused.INVALID, "invalidLlh")),
        ({"horizontal_accuracy_mm": 2**32 - 1}, Loss(Unused.TOO_INACCURATE, "hAcc")),
        ({"latitude_deg_e7": 900_000_001}, Loss(Unused.OUT_OF_RANGE, "latitude")),
        ({"latitude_deg_e7": 0, "longitude_deg_e7": 0}, Loss(Unused.ALL_ZERO, "position")),
    ],
)
def test_a_position_that_is_refused_is_counted_and_said_once(changes: dict[str, int], reason: Loss):
    receiver = device()
    messages = fed(
        receiver,
        *(each for itow in (1000, 2000, 3000) for each in (pvt(itow, **changes), NavEoe(itow))),
    )
    assert {fix.fix_type for fix in fixes(messages)} == {FixType.NONE}
    assert receiver.usage.of("NAV-PVT").refused == {reason: 3}
    assert len(events(messages, UNUSED)) == 1


@pytest.mark.parametrize(
    ("changes", "field", "attribute"),
    [
        ({"velocity_north_mmps": 2_000_000_000}, "velocity", "velocity_enu_mps"),
        ({"speed_accuracy_mmps": 2**32 - 1}, "sAcc", "velocity_enu_mps"),
        ({"height_mm": 2_000_000_000}, "height", "height_m"),
        ({"horizontal_accuracy_mm": 0}, "hAcc", "position_covariance_m2"),
        ({"flags": 0x81}, "carrSoln", "carrier"),
        ({"flags": 0xC3}, "carrSoln", "carrier"),
    ],
)
def test_an_impossible_field_costs_only_itself(changes: dict[str, int], field: str, attribute: str):
    receiver = device()
    (fix,) = fixes(fed(receiver, pvt(**changes), NavEoe(515_695_000)))
    assert fix.latitude_rad == pytest.approx(radians(45.0657724))
    value = getattr(fix, attribute)
    assert (
        value is CarrierSolution.NONE
        if attribute == "carrier"
        else all(map(isnan, value if isinstance(value, tuple) else (value,)))
    )
    assert [loss.field for loss in receiver.usage.of("NAV-PVT").lost] == [field]


def test_high_precision_digits_of_another_position_are_not_used():
    receiver = device()
    (fix,) = fixes(
        fed(receiver, pvt(), hpposllh()._replace(latitude_deg_e7=450_757_724), NavEoe(515_695_000))
    )
    assert fix.latitude_rad == pytest.approx(radians(45.0657724), abs=1e-15)
    assert receiver.usage.of("NAV-HPPOSLLH").lost == {Loss(Unused.CONTRADICTION, "position"): 1}


@pytest.mark.parametrize(
    ("number", "fix_type"),
    [(1, FixType.DEAD_RECKONING), (2, FixType.FIX_2D), (3, FixType.FIX_3D), (4, FixType.FIX_3D)],
)
def test_kinds_of_position(number: int, fix_type: FixType):
    (fix,) = fixes(fed(device(), pvt(fix_type=number), NavEoe(515_695_000)))
    assert fix.fix_type is fix_type
    assert fix.latitude_rad == pytest.approx(radians(45.0657724))


# ---------------------------------------------------------------- UTC


def utc(**changes: int) -> int:
    (fix,) = fixes(fed(device(), pvt(**changes), NavEoe(515_695_000)))
    return fix.utc_ns


@pytest.mark.parametrize(
    "changes",
    [
        {"valid": 0x36},
        {"valid": 0x35},
        {"valid": 0x33},
        {"flags2": 0xAA},
        {"flags2": 0x6A},
        {"month": 0},
        {"day": 31},
        {"hour": 24},
        {"minute": 60},
        {"second": 61},
        {"nano_ns": 1_000_000_001},
        {"year": 2005},
    ],
)
def test_an_unknown_time_is_zero(changes: dict[str, int]):
    assert utc(**changes) == 0


def test_confirmation_is_asked_of_those_who_can_confirm():
    assert utc(flags2=0x0A) == utc()


def test_a_leap_second_is_the_second_after_it():
    at = {"year": 2016, "month": 12, "day": 31, "hour": 23, "minute": 59, "nano_ns": 0}
    assert utc(**at, second=60) == int(datetime(2017, 1, 1, tzinfo=UTC).timestamp()) * S


def test_leap_seconds_of_the_firmware_are_not_believed():
    """Before the receiver has them from a satellite its UTC is wrong by the difference, and the
    time of week shows it."""
    leap = NavTimels(515_695_000, 0, 2, 18, 2, 0, 0, 0, 0, 3)
    # 11 April 2025 was a Friday: day 5 of the week.
    itow_ms = (5 * 86_400 + 23 * 3600 + 14 * 60 + 37 + 18) * 1000
    for itow, known in ((itow_ms, True), (itow_ms + 2000, False), (itow_ms - 1000, False)):
        messages = fed(device(), leap, pvt(itow), NavEoe(itow))
        assert (fixes(messages)[0].utc_ns > 0) is known
    # The first second of the week in GPS is the last but 17 of the week before in UTC.
    messages = fed(
        device(), leap, pvt(0, day=12, hour=23, minute=59, second=42, nano_ns=-5), NavEoe(0)
    )
    assert (
        fixes(messages)[0].utc_ns
        == int(datetime(2025, 4, 12, 23, 59, 42, tzinfo=UTC).timestamp()) * S - 5
    )
    assert (
        fixes(fed(device(), leap._replace(valid=0), pvt(itow_ms + 2000), NavEoe(itow_ms + 2000)))[
            0
        ].utc_ns
        > 0
    )


# ---------------------------------------------------------------- ends of epochs


def test_without_an_end_message_the_next_epoch_or_the_kind_that_came_last_ends_it():
    receiver = device()
    assert fixes(fed(receiver, pvt(1000), hpposllh(1000))) == []
    assert len(fixes(fed(receiver, pvt(2000), at_ns=2 * S))) == 1
    assert len(fixes(fed(receiver, hpposllh(2000), at_ns=2 * S + 1))) == 1
    assert receiver.figures.late_messages == 0


def test_a_lost_position_costs_its_own_epoch_only():
    receiver = device(protocol="nmea")
    messages = []
    for number in range(10):
        rmc, gga, gst = sentences(CLOCK_MS + number * 1000)
        messages += fed(
            receiver, *([rmc, gst] if number == 5 else [rmc, gga, gst]), at_ns=number * S
        )
    got = fixes(messages)
    assert [round(fix.utc_ns / S) % 10 for fix in got] == [
        (6 + number) % 10 for number in range(10) if number != 5
    ]
    assert all(
        isfinite(fix.velocity_enu_mps[0]) and isfinite(fix.position_covariance_m2[0])
        for fix in got[1:]
    )
    assert receiver.figures.late_messages == 0


def test_a_position_that_comes_last_is_not_lost_to_its_epoch():
    receiver = device()
    messages = []
    for itow_ms in range(1000, 8000, 1000):
        wire = [hpposllh(itow_ms), NavDop(itow_ms, 200, 180, 90, 117, 82, 60, 50), pvt(itow_ms)]
        # One epoch without its PVT, another with its PVT after the end message.
        messages += fed(receiver, *(wire[:2] if itow_ms == 3000 else wire), at_ns=itow_ms * MS)
    messages += fed(receiver, NavEoe(8000), pvt(8000), at_ns=8 * S)
    assert len(fixes(messages)) == 7
    assert {fix.hdop for fix in fixes(messages)[:-1]} == {
        NavDop(0, 0, 0, 0, 0, 82, 0, 0).hdop_e2 * 1e-2
    }


def test_a_position_of_an_epoch_that_was_overtaken_is_handed_over_at_once():
    receiver = device(protocol="nmea")
    (rmc, gga, _), after = sentences(), sentences(CLOCK_MS + 1000)
    messages = fed(receiver, rmc, after[0], gga, gga)
    assert [fix.utc_ns // S % 10 for fix in fixes(messages)] == [6]
    messages += [*fed(receiver, after[1]), *receiver.on_time(2 * S)]
    assert [fix.utc_ns // S % 10 for fix in fixes(messages)] == [6, 7]


def test_a_repeated_position_is_one_fix_and_a_clock_set_back_is_none():
    receiver = device(protocol="nmea")
    messages = []
    for number in range(12):
        messages += fed(
            receiver,
            *sentences(CLOCK_MS + number * 1000),
            sentences(CLOCK_MS + number * 1000)[1],
            at_ns=number * S,
        )
    for number in range(10, 14):
        messages += fed(receiver, *sentences(CLOCK_MS + number * 1000), at_ns=(number + 2) * S)
    assert len(fixes(messages)) == 16


@pytest.mark.parametrize("order", ["VTG GGA GST", "GGA GST VTG", "GGA VTG GST"])
def test_a_sentence_without_a_time_belongs_to_the_burst_in_which_it_came(order: str):
    receiver = device(protocol="nmea")
    messages = []
    for number in range(12):
        _, gga, gst = sentences(CLOCK_MS + number * 200)
        parts = {"GGA": gga, "GST": gst, "VTG": Vtg("GN", 90.0, float(number), 0.0, "A")}
        for place, name in enumerate(order.split()):
            messages += fed(receiver, parts[name], at_ns=S + number * 200 * MS + place * 5 * MS)
    speeds = [
        round(fix.velocity_enu_mps[0] * 3600 / 1852)
        for fix in fixes(messages)[2:]
        if isfinite(fix.velocity_enu_mps[0])
    ]
    assert speeds[-8:] == list(range(4, 12))
    assert all(fix.t_rx_ns % (200 * MS) <= 15 * MS for fix in fixes(messages)[2:])


def test_without_an_end_message_a_timeout_ends_it():
    receiver = device(epoch_timeout_ms=100.0)
    assert receiver.next_due_ns() == NEVER_NS
    fed(receiver, pvt(1000), at_ns=S)
    assert receiver.next_due_ns() == S + 100 * MS
    assert list(receiver.on_time(S + 99 * MS)) == []
    (fix,) = fixes(list(receiver.on_time(S + 100 * MS)))
    assert fix.t_rx_ns == S
    assert receiver.next_due_ns() == NEVER_NS


def test_a_message_after_the_end_is_counted_and_soon_waited_for():
    receiver = device()
    fed(receiver, pvt(1000), pvt(2000))
    for number in (3, 4, 5):
        assert len(fixes(fed(receiver, pvt(number * 1000)))) == 1, (
            "PVT mostly came last, so it ends an epoch"
        )
        fed(receiver, hpposllh(number * 1000))
        assert receiver.figures.late_messages == number - 2
    assert fixes(fed(receiver, pvt(6000))) == []
    (fix,) = fixes(fed(receiver, hpposllh(6000)))
    assert fix.height_m == pytest.approx(303.638 - 0.0009)


def test_types_that_the_profile_does_not_expect_are_not_produced():
    assert fixes(fed(device(Heading), pvt(), NavEoe(515_695_000))) == []
    assert not any(isinstance(message, Heading) for message in fed(device(GnssFix), relposned()))


# ---------------------------------------------------------------- time of validity


def test_time_of_validity_is_the_epoch_not_the_arrival():
    """Arrivals scatter by 60 ms; epochs are 200 ms apart to the nanosecond once the floor of the
    latency has been met."""
    receiver = device(latency_ms=40.0)
    late_ms = [40, 95, 60, 41, 100, 40, 73, 52, 99, 40]
    got = []
    for number in range(200):
        itow_ms = 604_780_000 + number * 200
        arrival = 10 * S + number * 200 * MS + late_ms[number % 10] * MS
        got += fixes(
            fed(receiver, pvt(itow_ms % 604_800_000), NavEoe(itow_ms % 604_800_000), at_ns=arrival)
        )
    assert len(got) == 200
    for number, fix in enumerate(got):
        # Across the end of the week, which comes at number 100.
        assert fix.t_ns == pytest.approx(10 * S + number * 200 * MS, abs=0.5 * MS)
        assert fix.t_rx_ns == 10 * S + number * 200 * MS + late_ms[number % 10] * MS
    assert receiver.figures.missed_epochs == 0


def test_heading_and_fix_of_one_epoch_have_one_time():
    messages = fed(device(), relposned(), pvt(), NavEoe(515_695_000))
    heading = next(message for message in messages if isinstance(message, Heading))
    assert fixes(messages)[0].t_ns == heading.t_ns == S - 40 * MS


# ---------------------------------------------------------------- heading


@pytest.mark.parametrize(
    ("mounting", "yaw_deg"), [(0.0, 60.0), (pi / 2, -30.0), (-pi / 2, 150.0), (pi, -120.0)]
)
def test_heading_of_a_moving_base_is_yaw_of_the_body(mounting: float, yaw_deg: float):
    messages = fed(device(baseline_yaw_rad=mounting), relposned())
    (heading,) = [message for message in messages if isinstance(message, Heading)]
    assert cos(heading.yaw_rad - radians(yaw_deg)) == pytest.approx(1.0)
    assert -pi <= heading.yaw_rad <= pi
    assert heading.sigma_rad == pytest.approx(radians(0.57296))
    assert heading.kind is HeadingKind.MOVING_BASE


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"flags": 0x136}, Unused.INVALID),
        ({"flags": 0x133}, Unused.INVALID),
        ({"flags": 0x037}, Unused.INVALID),
        ({"flags": 0x117}, Unused.NOT_MOVING),
        ({"flags": 0x117, "length_cm": 500_000}, Unused.NOT_MOVING),
        ({"flags": 0x12F}, Unused.NOT_FIXED),
        ({"flags": 0x177}, Unused.BASE_DATA_MISSING),
        ({"flags": 0x1B7}, Unused.BASE_DATA_MISSING),
        ({"flags": 0x337}, Unused.LENGTH_UNKNOWN),
        ({"length_cm": 94, "length_mm_e1": 0}, Unused.WRONG_LENGTH),
        ({"length_cm": 105, "length_mm_e1": 12}, Unused.WRONG_LENGTH),
        ({"heading_accuracy_deg_e5": 18_000_000}, Unused.TOO_INACCURATE),
        ({"heading_deg_e5": 36_000_001}, Unused.OUT_OF_RANGE),
        ({"length_cm": 0, "length_mm_e1": 0}, Unused.OUT_OF_RANGE),
        ({"down_cm": 45}, Unused.CONTRADICTION),
        ({"north_cm": 50, "east_cm": 87}, Unused.CONTRADICTION),
        ({"north_cm": -87, "east_cm": -50}, Unused.CONTRADICTION),
    ],
)
def test_doubtful_headings_are_refused_and_reported_once(changes: dict[str, int], reason: Unused):
    receiver = device(baseline_m=1.0, baseline_tolerance_m=0.05)
    messages = fed(receiver, *(relposned(itow, **changes) for itow in (1000, 2000, 3000)))
    assert not any(isinstance(message, Heading) for message in messages)
    (lost,) = events(messages, "heading_lost")
    assert lost["reason"] == reason.value
    assert sum(receiver.usage.of("NAV-RELPOSNED").refused.values()) == 3
    assert {loss.reason for loss in receiver.usage.of("NAV-RELPOSNED").refused} == {reason}
    messages = fed(receiver, relposned(4000))
    assert [type(message) for message in messages] == [Event, Heading]
    assert events(messages, "heading_back") == [{}]


def test_a_float_heading_can_be_allowed():
    messages = fed(device(heading_needs_fixed=False), relposned(flags=0x12F))
    assert any(isinstance(message, Heading) for message in messages)


def headings(messages: list[Message]) -> list[Heading]:
    return [message for message in messages if isinstance(message, Heading)]


def test_a_baseline_that_is_not_stated_is_learnt_and_said():
    receiver = device()
    messages = fed(
        receiver, relposned(1000), relposned(2000, length_cm=150), relposned(3000, length_cm=102)
    )
    assert events(messages, "baseline_changed") == []
    assert "its baseline of 1.001 m is learnt" in receiver.usage.of("NAV-RELPOSNED").text()
    assert [heading.t_rx_ns for heading in headings(messages)] == [S, S], (
        "a vector of another length is a wrong solution"
    )
    assert receiver.usage.of("NAV-RELPOSNED").refused == {Loss(Unused.WRONG_LENGTH): 1}
    # The first vector may have been the wrong one.
    messages = fed(
        receiver, *(relposned(4000 + 1000 * number, length_cm=150) for number in range(25))
    )
    assert events(messages, "baseline_changed") == [{"before_m": 1.001, "now_m": 1.501}]
    assert "its baseline of 1.501 m is learnt" in receiver.usage.of("NAV-RELPOSNED").text()
    assert len(headings(messages)) == 6


def test_a_vector_without_a_length_is_no_baseline():
    receiver = device()
    assert (
        len(headings(fed(receiver, relposned(1000, length_cm=0, length_mm_e1=0), relposned(2000))))
        == 1
    )
    assert "its baseline of 1.001 m is learnt" in receiver.usage.of("NAV-RELPOSNED").text()


def test_a_base_on_another_vehicle_is_no_heading_of_this_one():
    receiver = device()
    messages = fed(receiver, relposned(1000, length_cm=2000))
    assert not headings(messages)
    assert events(messages, "heading_lost") == [
        {"reason": "baseline_not_stated", "value": "20.00 m"}
    ]
    assert headings(fed(device(baseline_m=20.0), relposned(1000, length_cm=2000)))


def short_vector(flags: int, north_cm: int = 87, east_cm: int = 50) -> bytes:
    """NAV-RELPOSNED of version 0, as the NEO-M8P sends it."""
    errors = 50, 50, 50
    return ubx_frame(
        IDS["NAV-RELPOSNED"],
        struct.pack("<BxHI3i3bx3II", 0, 0, 1000, north_cm, east_cm, 0, -40, 0, 0, *errors, flags),
    )


def test_the_short_vector_of_older_receivers_gives_the_heading_of_its_components():
    (heading,) = headings(fed(device(baseline_m=1.0), short_vector(0x37)))
    assert heading.yaw_rad == pytest.approx(pi / 2 - atan2(0.5, 0.866))
    assert heading.sigma_rad == pytest.approx(0.005, rel=0.01), "5 mm at 1 m"
    assert headings(fed(device(baseline_m=1.0), short_vector(0x17))) == [], "the base stands"
    assert (
        headings(fed(device(), short_vector(0x37, 0, 0)))
        == headings(fed(device(), short_vector(0x33)))
        == []
    )


def test_a_vector_of_an_unknown_version_is_not_read():
    receiver = device()
    (frame,) = framer().feed(encode(relposned()))
    for version in (b"\0", b"\2"):
        assert headings(fed(receiver, ubx_frame(frame[1][2:4], version + frame[1][7:-2]))) == []
    assert receiver.usage.of("NAV-RELPOSNED").refused == {Loss(Unused.UNREADABLE, "length"): 2}


def pvat(**changes: int) -> NavPvat:
    """The epoch of :func:`pvt`, with a heading of 30 degrees to 0.5."""
    p = pvt()
    sound = NavPvat(
        p.itow_ms, 0, p.valid, *p[1:7], p.time_accuracy_ns, p.nano_ns, p.fix_type, p.flags | 0x38,
        *p[12:24], p.speed_accuracy_mmps, 0, 0, 3_000_000, 0, 10, 10, 50, 0, 0, 0, 0, 0,
    )  # fmt: skip
    return sound._replace(**changes)


def test_position_and_attitude_in_one_message():
    messages = fed(device(), pvat(), NavEoe(515_695_000))
    (fix,), (heading,) = fixes(messages), headings(messages)
    assert fix == fixes(fed(device(), pvt(flags3=0), NavEoe(515_695_000)))[0]
    assert heading.yaw_rad == pytest.approx(radians(60.0))
    assert (heading.sigma_rad, heading.kind) == (pytest.approx(radians(0.5)), HeadingKind.INERTIAL)
    assert heading.t_ns == fix.t_ns


@pytest.mark.parametrize(
    "changes", [{"flags": 0x5B}, {"flags": 0x7A}, {"heading_accuracy_deg_e2": 9000}]
)
def test_an_attitude_that_is_not_valid_is_no_heading(changes: dict[str, int]):
    receiver = device()
    assert headings(fed(receiver, pvat(**changes), NavEoe(515_695_000))) == []
    assert receiver.usage.of("NAV-PVAT").arrived == 1


# ---------------------------------------------------------------- states and episodes


def test_changes_of_the_solution_are_reported_once_each():
    receiver = device()
    states = [
        ("none", {"fix_type": 0}),
        ("single", {"flags": 0x01, "flags3": 0}),
        ("dgps", {"flags": 0x03}),
        ("float", {"flags": 0x43}),
        ("float", {"flags": 0x43}),
        ("fixed", {"flags": 0x83}),
        ("single", {"flags": 0x01, "flags3": 0}),
        ("none", {"flags": 0x42}),
    ]
    messages = []
    for number, (state, changes) in enumerate(states):
        messages += fed(
            receiver, pvt(number * 1000, **changes), NavEoe(number * 1000), at_ns=number * S
        )
        assert receiver.rtk_state == state
    changes_reported = events(messages, "rtk_state")
    assert [(each["before"], each["now"]) for each in changes_reported] == [
        ("none", "single"), ("single", "dgps"), ("dgps", "float"), ("float", "fixed"),
        ("fixed", "single"), ("single", "none"),
    ]  # fmt: skip
    assert [each["correction_age_s"] for each in changes_reported] == [
        None,
        2.0,
        2.0,
        2.0,
        None,
        2.0,
    ]
    levels = [
        message.level
        for message in messages
        if isinstance(message, Event) and message.name == "rtk_state"
    ]
    assert levels == ["info"] * 4 + ["warning"] * 2


def test_a_solution_that_comes_and_goes_is_one_episode():
    receiver = device()
    messages = []
    for number in range(200):
        fixed = number % 2 if number < 100 else 1
        messages += fed(
            receiver,
            pvt(number * 100, flags=0x83 if fixed else 0x43),
            NavEoe(number * 100),
            at_ns=S + number * 100 * MS,
        )
    states = events(messages, "rtk_state")
    assert [(each["before"], each["now"]) for each in states] == [
        ("none", "float"), ("float", "fixed"), ("fixed", "float"), ("float", "fixed"),
    ]  # fmt: skip
    assert states[-1]["changes"] == 97
    assert len(events(messages, "rtk_unsteady")) == 1
    assert receiver.rtk_state == "fixed"


def test_a_lost_port_ends_the_solution():
    receiver = device()
    fed(receiver, pvt(), NavEoe(515_695_000))
    (lost,) = events(list(receiver.on_port(PortState.LOST, "unplugged", 2 * S)), "rtk_state")
    assert (lost["before"], lost["now"], lost["reason"]) == (
        "float",
        "none",
        "port lost: unplugged",
    )


@pytest.mark.parametrize(
    ("code", "age_s"), [(0, nan), (1, 1.0), (4, 10.0), (11, 120.0), (12, 120.0), (15, 120.0)]
)
def test_age_of_corrections_without_knowing_their_use_is_the_upper_bound(code: int, age_s: float):
    (fix,) = fixes(fed(device(), pvt(flags3=code << 1), NavEoe(515_695_000)))
    assert fix.correction_age_s == pytest.approx(age_s, nan_ok=True)


@pytest.mark.parametrize(
    ("code", "waited_s", "age_s"), [(3, 3.5, 3.5), (3, 0.2, 2.0), (3, 9.0, 5.0), (12, 300.0, 300.0)]
)
def test_age_of_corrections_is_the_time_since_their_use_within_the_bounds(
    code: int, waited_s: float, age_s: float
):
    receiver = device()
    fed(receiver, RxmRtcm(2, 0x04, 0, 41, 1075), at_ns=S)
    fed(receiver, RxmRtcm(2, 0x02, 0, 41, 1085), RxmRtcm(2, 0x05, 0, 41, 1095), at_ns=S + 1)
    messages = fed(
        receiver, pvt(flags3=code << 1), NavEoe(515_695_000), at_ns=S + round(waited_s * S)
    )
    assert fixes(messages)[0].correction_age_s == pytest.approx(age_s)


def test_old_corrections_are_reported_at_the_start_and_the_end():
    receiver = device(stale_corrections_s=10.0)
    messages = []
    for number, code in enumerate([2, 4, 5, 6, 7, 3, 2]):
        messages += fed(
            receiver, pvt(number * 1000, flags3=code << 1), NavEoe(number * 1000), at_ns=number * S
        )
    assert events(messages, "corrections_stale") == [{"age_s": 15.0, "limit_s": 10.0}]
    assert events(messages, "corrections_fresh") == [{"age_s": 5.0}]


def test_jamming_is_one_episode():
    def rf(*levels: int) -> MonRf:
        return MonRf(
            0,
            tuple(
                RfBlock(i, level, 2, 1, 0, 92, 1404, 40 + level, 0, 0, 0, 0)
                for i, level in enumerate(levels)
            ),
        )

    receiver = device()
    messages = []
    for number, levels in enumerate([(1, 1), (1, 2), (2, 2), (0, 0), (3, 1), (1, 1), (1, 1)]):
        messages += fed(receiver, rf(*levels), at_ns=number * S)
    assert [
        (fault.t_ns // S, fault.active, fault.reaction)
        for fault in messages
        if isinstance(fault, Fault)
    ] == [
        (1, True, Reaction.WARN),
        (4, True, Reaction.CAP_SPEED),
        (5, False, Reaction.NONE),
    ]
    assert {fault.code for fault in messages if isinstance(fault, Fault)} == {"gnss_jamming"}


def test_spoofing_is_one_episode():
    receiver = device()
    messages = []
    for number, level in enumerate([0, 1, 2, 2, 0, 1]):
        messages += fed(
            receiver, NavStatus(number * 1000, 3, 0, 0, level << 3, 0, 0), at_ns=number * S
        )
    faults = [
        (fault.t_ns // S, fault.code, fault.active)
        for fault in messages
        if isinstance(fault, Fault)
    ]
    assert faults == [(2, "gnss_spoofing", True), (5, "gnss_spoofing", False)]


def test_missing_epochs_are_reported_at_the_start_and_the_end():
    receiver = device()
    messages = []
    present = [*range(20), 21, 22, 24, 25, 29, *range(30, 100)]
    for number in present:
        messages += fed(
            receiver, pvt(number * 200), NavEoe(number * 200), at_ns=S + number * 200 * MS
        )
    assert events(messages, "epochs_missing") == [{"missed": 1, "gap_ms": 400, "period_ms": 200}]
    assert events(messages, "epochs_regular") == [{"missed": 5, "period_ms": 200}]
    assert receiver.figures.missed_epochs == 5


def test_the_rate_is_that_of_the_stream_whatever_one_step_was():
    receiver = device(protocol="nmea", configure=False)
    fed(receiver, *sentences(CLOCK_MS - 140), at_ns=S - 140 * MS)
    for number in range(60):
        fed(receiver, *sentences(CLOCK_MS + number * 1000), at_ns=S + number * S)
    assert receiver.figures.missed_epochs == 0
    messages = fed(receiver, *sentences(CLOCK_MS + 62_000), at_ns=63 * S)
    assert events(messages, "epochs_missing") == [{"missed": 2, "gap_ms": 3000, "period_ms": 1000}]


def test_steps_that_the_receiver_rounds_are_no_gaps():
    receiver = device()
    itow = 0
    for number in range(50):
        itow += (999, 1001, 1000)[number % 3]
        fed(receiver, pvt(itow), NavEoe(itow))
    assert receiver.figures.missed_epochs == 0


# ---------------------------------------------------------------- corrections


def test_corrections_pass_through_unread_and_expire():
    receiver = device()
    receiver.on_command(Corrections(S, S, "base", RTCM), 2 * S)
    receiver.on_command(ImuSample(S, S, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)), 2 * S)
    assert receiver.take_tx() == [Send(RTCM, 2 * S + 50 * MS, droppable=True)]
    assert receiver.take_tx() == ()


def test_corrections_that_the_port_does_not_take_are_dropped_oldest_first():
    receiver = device()
    for number in range(100):
        receiver.on_command(Corrections(S, S, "base", bytes([number]) * 1000), 2 * S)
    kept = receiver.take_tx()
    assert [action.data[0] for action in kept if isinstance(action, Send)] == list(range(35, 100))
    assert (
        sum(len(action.data) for action in kept if isinstance(action, Send))
        <= CORRECTIONS_MAX_BYTES
    )


def test_corrections_of_a_base_are_handed_on_unharmed():
    messages = fed(device(Corrections), RTCM, pvt(), RTCM)
    assert [
        (message.origin, message.data) for message in messages if isinstance(message, Corrections)
    ] == [("ublox", RTCM)] * 2
    silent = device(GnssFix)
    assert not any(isinstance(message, Corrections) for message in fed(silent, RTCM))
    assert silent.figures.frames == {"rtcm": 1, "1005": 1}


# ---------------------------------------------------------------- NMEA


CLOCK_MS = ((12 * 60 + 34) * 60 + 56) * 1000


def sentences(time_ms: int = CLOCK_MS, quality: int = 4) -> list[Any]:
    return [
        Rmc("GN", time_ms, True, 45.0657718, -7.6590621, 3.6, 30.0, date(2025, 4, 11), "R"),
        Gga("GN", time_ms, 45.0657718, -7.6590621, quality, 17, 0.82, 257.4, 47.2, 0.8, 41),
        Gst("GN", time_ms, 12.0, 0.02, 0.03, 0.05),
    ]


def test_sentences_of_one_time_become_one_fix():
    receiver = device(protocol="nmea")
    fed(receiver, *sentences(CLOCK_MS - 1000), at_ns=S)
    messages = fed(receiver, *sentences(), at_ns=2 * S)
    fix = fixes(messages)[-1]
    assert fix.latitude_rad == pytest.approx(radians(45.0657718), abs=1e-12)
    assert fix.longitude_rad == pytest.approx(radians(-7.6590621), abs=1e-12)
    assert fix.height_m == pytest.approx(304.6)
    speed = 3.6 * 1852 / 3600
    assert fix.velocity_enu_mps[:2] == pytest.approx(
        (speed * sin(radians(30)), speed * cos(radians(30)))
    )
    assert isnan(fix.velocity_enu_mps[2])
    assert [fix.position_covariance_m2[at] for at in (0, 4, 8)] == pytest.approx(
        [0.0009, 0.0004, 0.0025]
    )
    assert (fix.fix_type, fix.carrier, fix.differential) == (
        FixType.FIX_3D,
        CarrierSolution.FIXED,
        True,
    )
    assert (fix.correction_age_s, fix.satellites, fix.hdop) == (0.8, 17, 0.82)
    assert fix.utc_ns == int(datetime(2025, 4, 11, 12, 34, 56, tzinfo=UTC).timestamp()) * S
    assert len(fixes(messages)) == 2, (
        "the first epoch ends with the second, which is complete as soon as the same kinds "
        "have come"
    )


def test_midnight_is_no_jump_in_time():
    receiver = device(protocol="nmea")
    got = []
    for number in range(60):
        time_ms = (86_400_000 - 30_000 + number * 1000) % 86_400_000
        got += fixes(
            fed(receiver, *sentences(time_ms), at_ns=S + number * S + (number * 37 % 50) * MS)
        )
    steps = [b.t_ns - a.t_ns for a, b in pairwise(got)]
    assert len(got) == 60
    assert all(step == pytest.approx(S, abs=MS) for step in steps)


@pytest.mark.parametrize(
    ("quality", "state", "reason"),
    [
        (0, "none", Unused.NO_SOLUTION), (1, "single", None), (2, "dgps", None),
        (3, "single", None), (4, "fixed", None), (5, "float", None), (6, "single", None),
        (7, "none", Unused.MANUAL), (8, "none", Unused.SIMULATED), (9, "dgps", None),
        (10, "none", Unused.UNKNOWN_STATE), (77, "none", Unused.UNKNOWN_STATE),
    ],
)  # fmt: skip
def test_qualities(quality: int, state: str, reason: Unused | None):
    receiver = device(protocol="nmea")
    messages = fed(receiver, *sentences(1000, quality), *sentences(2000, quality))
    assert receiver.rtk_state == state
    assert {loss.reason for loss in receiver.usage.of("GNGGA").refused} == (
        {reason} if reason else set()
    )
    warned = reason not in (None, Unused.NO_SOLUTION)
    assert [each["message"] for each in events(messages, UNUSED)] == (
        ["GNGGA"] if warned else []
    ), "an unknown digit is said"


@pytest.mark.parametrize(
    ("sigma_m", "carrier"),
    [(0.09, CarrierSolution.FIXED), (0.11, CarrierSolution.FLOAT), (4.0, CarrierSolution.FLOAT)],
)
def test_a_fixed_solution_with_an_error_of_metres_is_none(sigma_m: float, carrier: CarrierSolution):
    receiver = device(protocol="nmea")
    messages = []
    for number in range(3):
        rmc, gga, gst = sentences(CLOCK_MS + number * 1000)
        messages += fed(
            receiver, rmc, gga, gst._replace(latitude_sigma_m=sigma_m), at_ns=S + number * S
        )
    assert fixes(messages)[-1].carrier is carrier
    assert bool(receiver.usage.of("GNGGA").lost) is (carrier is CarrierSolution.FLOAT)
    receiver = device()
    far = round(sigma_m * 1000 * 2**0.5)
    (fix,) = fixes(fed(receiver, pvt(flags=0x83, horizontal_accuracy_mm=far), NavEoe(515_695_000)))
    assert fix.carrier is carrier


def test_utc_needs_a_date_once_from_any_sentence():
    midnight = int(datetime(2025, 4, 12, tzinfo=UTC).timestamp()) * S
    for dated in (
        Zda("GN", 86_399_000, date(2025, 4, 11)),
        sentences(86_399_000)[0]._replace(latitude_deg=nan, longitude_deg=nan),
    ):
        receiver = device(protocol="nmea")
        gga = sentences()[1]
        messages = fed(receiver, gga._replace(time_ms=86_398_000), dated, at_ns=S)
        for number in range(4):
            messages += fed(
                receiver,
                gga._replace(time_ms=(86_399_000 + number * 1000) % 86_400_000),
                at_ns=(2 + number) * S,
            )
        assert [fix.utc_ns - midnight for fix in fixes(messages)][-3:] == [0, S, 2 * S]
    receiver = device(protocol="nmea")
    void = sentences()[0]._replace(valid=False)
    assert [
        fix.utc_ns for fix in fixes(fed(receiver, void, gga, sentences(CLOCK_MS + 1000)[1]))
    ] == [0, 0]


def test_gns_stands_in_for_gga_and_gsa_shows_two_dimensions():
    receiver = device(protocol="nmea")
    messages: list[Message] = []
    for number, modes in enumerate(("RR", "FA", "ND", "AN", "NN")):
        gns = Gns("GN", CLOCK_MS + number * 1000, 45.0, 7.0, modes, 17, 0.8, 200.0, 47.0, 1.0, 41)
        messages += fed(
            receiver,
            Gsa("GN", "A", 2 if modes == "AN" else 3, 1.5, 0.8, 1.2),
            gns,
            at_ns=S + number * S,
        )
    messages += receiver.on_time(S * 60)
    got = fixes(messages)
    assert [str(fix.carrier.name) for fix in got] == ["FIXED", "FLOAT", "NONE", "NONE", "NONE"]
    assert [fix.fix_type for fix in got] == [FixType.FIX_3D] * 3 + [FixType.FIX_2D, FixType.NONE]
    assert got[0].vdop == 1.2
    assert got[0].height_m == pytest.approx(247.0)


def test_long_sentences_and_long_names_are_frames():
    receiver = device(protocol="nmea")
    for body in (
        b"PQTMCFGEINSMSGRATEANDMORE,1,OK",
        b"command,config,response: OK",
        b"PUBX,03," + b"12,-,014,06,08,000," * 45,
    ):
        check = 0
        for byte in body:
            check ^= byte
        fed(receiver, b"$%s*%02X\r\n" % (body, check))
    assert receiver.figures.frames == {"nmea": 3}
    assert receiver.bad_frames == receiver.dropped_bytes == 0


def test_course_from_vtg_where_rmc_has_none_and_none_where_it_is_blank():
    receiver = device(protocol="nmea")
    rmc, gga, gst = sentences()
    fed(
        receiver,
        rmc._replace(speed_kn=nan, course_deg=nan),
        Vtg("GN", 90.0, 2.0, 3.7, "D"),
        gga,
        gst,
    )
    fix = fixes(fed(receiver, *sentences(CLOCK_MS + 1000)))[0]
    assert fix.velocity_enu_mps[:2] == pytest.approx((2.0 * 1852 / 3600, 0.0), abs=1e-9)
    receiver = device(protocol="nmea")
    fed(receiver, rmc._replace(course_deg=nan), gga, gst)
    fix = fixes(fed(receiver, *sentences(CLOCK_MS + 1000)))[0]
    assert all(map(isnan, fix.velocity_enu_mps))


HEADINGS: dict[str, Any] = {
    "THS": Ths("GN", 30.0, "A"),
    "HDT": Hdt("HE", 30.0),
    "HPR": Hpr("GN", CLOCK_MS, 30.0, "4"),
    "PSAT,HPR": Hpr("PSAT", CLOCK_MS, 30.0, "N"),
    "PASHR,HPR": Hpr("PASHR", CLOCK_MS, 30.0, "4"),
    "PASHR": Pashr(CLOCK_MS, 30.0, 2.0, "2", "1"),
    "PTNL,AVR": Avr(CLOCK_MS, 30.0, 1.2, "3"),
    "PQTMTAR": Tar("PQTM", CLOCK_MS, 30.0, 2.0, 1.2, "4"),
    "PSSN,HRP": Tar("PSSN", CLOCK_MS, 30.0, 2.0, nan, "4"),
}


@pytest.mark.parametrize("name", HEADINGS)
def test_true_heading(name: str):
    receiver = device(protocol="nmea", heading_sigma_rad=0.03)
    messages = fed(receiver, *sentences(), HEADINGS[name])
    (heading,) = headings(messages)
    assert heading.yaw_rad == pytest.approx(radians(60.0))
    assert heading.sigma_rad == pytest.approx(
        radians(2.0) if name in ("PASHR", "PQTMTAR", "PSSN,HRP") else 0.03
    ), "stated by the sentence, or by the profile"
    assert heading.t_ns <= S
    messages = fed(
        receiver, HEADINGS[name]._replace(heading_deg=nan), HEADINGS[name]._replace(heading_deg=nan)
    )
    assert headings(messages) == []
    assert len(events(messages, "heading_lost")) == 1


@pytest.mark.parametrize(
    ("sentence", "outcome"),
    [
        (Ths("GN", 30.0, "E"), 0.2),
        (Ths("GN", 30.0, "V"), Unused.NO_SOLUTION),
        (Ths("GN", 30.0, "M"), Unused.MANUAL),
        (Ths("GN", 30.0, "S"), Unused.SIMULATED),
        (Ths("GN", 30.0, ""), Unused.UNKNOWN_STATE),
        (Ths("GN", 361.0, "A"), Unused.OUT_OF_RANGE),
        (Hpr("GN", CLOCK_MS, 30.0, "0"), Unused.NO_SOLUTION),
        (Hpr("GN", CLOCK_MS, 30.0, "1"), Unused.NOT_FIXED),
        (Hpr("GN", CLOCK_MS, 30.0, "5"), Unused.NOT_FIXED),
        (Hpr("GN", CLOCK_MS, 30.0, "6"), 0.2),
        (Hpr("GN", CLOCK_MS, 30.0, "x"), Unused.UNKNOWN_STATE),
        (Hpr("PSAT", CLOCK_MS, 30.0, "G"), 0.2),
        (Hpr("PASHR", CLOCK_MS, 30.0, "5"), Unused.NOT_FIXED),
        (Hpr("PASHR", CLOCK_MS, 30.0, ""), Unused.UNKNOWN_STATE),
        (b"$PASHR,HPR,123456.00,30.00,+0.00,,0.002,0.004,0,1,1.9,1.2*03\r\n", Unused.NOT_FIXED),
        (Pashr(CLOCK_MS, 30.0, 0.2, "0", "1"), Unused.NO_SOLUTION),
        (Pashr(CLOCK_MS, 30.0, 0.2, "2", "0"), Unused.INVALID),
        (Pashr(CLOCK_MS, 30.0, 60.0, "2", "1"), Unused.TOO_INACCURATE),
        (Pashr(CLOCK_MS, 30.0, nan, "2", ""), 0.02),
        (Avr(CLOCK_MS, 30.0, 1.2, "2"), Unused.NOT_FIXED),
        (Avr(CLOCK_MS, 30.0, 1.2, "0"), Unused.NO_SOLUTION),
        (Avr(CLOCK_MS, 30.0, 60.191, "3"), Unused.BASELINE_NOT_STATED),
        (Avr(CLOCK_MS, 30.0, nan, "3"), Unused.LENGTH_UNKNOWN),
        (Avr(CLOCK_MS, -150.0, 1.2, "3"), 0.02),
        (b"$GPHDT,30.0,M*1F\r\n", Unused.UNKNOWN_STATE),
        (Tar("PQTM", CLOCK_MS, 30.0, nan, 1.2, "4"), 0.02),
        (Tar("PQTM", CLOCK_MS, 30.0, 1.0, 1.2, "5"), Unused.NOT_FIXED),
        (Tar("PQTM", CLOCK_MS, 30.0, 1.0, 1.2, "6"), 0.2),
        (Tar("PQTM", CLOCK_MS, 30.0, 1.0, 1.2, "0"), Unused.NO_SOLUTION),
        (Tar("PQTM", CLOCK_MS, 30.0, 1.0, 1.2, "9"), Unused.UNKNOWN_STATE),
        (Tar("PQTM", CLOCK_MS, 30.0, 1.0, nan, "4"), Unused.LENGTH_UNKNOWN),
        (Tar("PQTM", CLOCK_MS, 30.0, 60.0, 1.2, "4"), Unused.TOO_INACCURATE),
        (Tar("PSSN", CLOCK_MS, 30.0, nan, nan, "4"), 0.02),
        (Tar("PSSN", CLOCK_MS, 30.0, nan, nan, "5"), Unused.NOT_FIXED),
    ],
)
def test_a_heading_is_as_good_as_its_state(sentence: Any, outcome: float | Unused):
    receiver = device(protocol="nmea")
    messages = fed(receiver, *sentences(), sentence)
    if isinstance(outcome, float):
        assert [heading.sigma_rad for heading in headings(messages)] == [outcome]
    else:
        assert headings(messages) == []
        assert [each["reason"] for each in events(messages, "heading_lost")] == [outcome.value]


def test_the_heading_sentence_that_knows_most_stands_for_the_others():
    """Otherwise one heading would count three times, and HDT would go on when the others say that
    it is wrong."""
    receiver = device(protocol="nmea")
    for number in range(5):
        hdt, ths = HEADINGS["HDT"], HEADINGS["THS"]
        avr = Avr(CLOCK_MS + number * 1000, 30.0, 1.2, "3" if number < 3 else "1")
        messages = fed(
            receiver, *sentences(CLOCK_MS + number * 1000), avr, hdt, ths, at_ns=S + number * S
        )
        assert len(headings(messages)) == (number < 3)
    assert receiver.usage.of("HEHDT").refused == {Loss(Unused.DUPLICATE): 5}
    assert headings(fed(receiver, HEADINGS["HDT"], at_ns=60 * S)), "the other is silent"


def test_antennas_go_on_when_the_inertial_unit_of_the_receiver_is_not_aligned():
    receiver = device(protocol="nmea")
    messages: list[Message] = []
    for number in range(5):
        time_ms = CLOCK_MS + number * 1000
        unaligned, avr = Pashr(time_ms, 30.0, 0.2, "2", "0"), Avr(time_ms, 30.0, 1.2, "3")
        messages += fed(
            receiver, *sentences(time_ms), unaligned, avr, HEADINGS["HDT"], at_ns=S + number * S
        )
    assert len(headings(messages)) == 5
    assert len(events(messages, "heading_lost")) == 1
    assert len(events(messages, "heading_back")) == 1
    assert receiver.usage.of("PASHR").refused == {Loss(Unused.INVALID, "alignment"): 5}


def test_a_receiver_without_time_gives_no_fix():
    receiver = device(protocol="nmea")
    fed(receiver, *sentences(1000), *sentences(2000))
    messages = fed(receiver, b"$GNGGA,,,,,,0,00,99.99,,,,,,*56\r\n", b"$GNRMC,,V,,,,,,,,,,N*4D\r\n")
    assert fixes(messages) == []
    assert receiver.rtk_state == "none"


def line(body: str) -> bytes:
    check = 0
    for byte in body.encode():
        check ^= byte
    return b"$%s*%02X\r\n" % (body.encode(), check)


def test_unreadable_fields_are_counted():
    receiver = device(protocol="nmea")
    lines = [
        line("GNGGA,123456.00,4503.9,N"),
        line("GNGGA,123456.00,nan,N,00739.5,E,five,12,x,y,M,z,M,,"),
        line("GNGST,123456.00,inf,,,,1e999,nan,0x10"),
        line("GNRMC,,,,,,,,,,,,,,,,,,,,,,,,"),
        line("GNVTG,a,b,c,d,e,f,g,h,i"),
    ]
    messages = fed(receiver, *lines)
    assert receiver.bad_frames == 0
    assert not any(isfinite(fix.latitude_rad) for fix in fixes(messages))
    assert receiver.usage.of("GNGGA").refused == {Loss(Unused.UNREADABLE, "quality"): 2}
    assert {loss.field for loss in receiver.usage.of("GNGST").lost} >= {
        "range error",
        "sigma of latitude",
    }


PLACE = "4503.9431,N,00739.5437,E"


@pytest.mark.parametrize(
    ("place", "reason", "field"),
    [
        ("4503.9431,,00739.5437,", Unused.UNREADABLE, "hemisphere of latitude"),
        ("4503.9431,N,00739.5437,", Unused.UNREADABLE, "hemisphere of longitude"),
        ("4503.9431,E,00739.5437,N", Unused.UNREADABLE, "hemisphere of latitude"),
        ("4503.9431,n,00739.5437,e", Unused.UNREADABLE, "hemisphere of latitude"),
        ("4503.9431,NS,00739.5437,E", Unused.UNREADABLE, "hemisphere of latitude"),
        ("4503.,N,00739.5437,E", Unused.UNREADABLE, "latitude"),
        ("4503.9431,N,00739.5,E", Unused.UNREADABLE, "longitude"),
        ("-4503.9431,S,00739.5437,E", Unused.UNREADABLE, "latitude"),
        ("4560.0000,N,00739.5437,E", Unused.OUT_OF_RANGE, "latitude"),
        ("4503.9431,N,00779.5437,E", Unused.OUT_OF_RANGE, "longitude"),
        ("9000.0001,N,00739.5437,E", Unused.OUT_OF_RANGE, "latitude"),
        ("4503.9431,N,18000.0001,E", Unused.OUT_OF_RANGE, "longitude"),
        ("45039431,N,00739.5437,E", Unused.UNREADABLE, "latitude"),
        ("45.0657718,N,7.6590621,E", Unused.UNREADABLE, "latitude"),
        ("4503.9431,N,,", Unused.UNREADABLE, "latitude"),
        (",,,", Unused.UNREADABLE, "latitude"),
        ("0000.0000,N,00000.0000,E", Unused.ALL_ZERO, "position"),
    ],
)
@pytest.mark.parametrize("kind", ["GGA", "GNS"])
def test_a_place_is_read_as_the_standard_writes_it_or_not_at_all(
    kind: str, place: str, reason: Unused, field: str
):
    """A guess of the hemisphere is a fix on the other side of the earth, under a valid checksum."""
    receiver = device(protocol="nmea")
    quality = "4" if kind == "GGA" else "RR"
    units = "230.1,M,45.0,M" if kind == "GGA" else "230.1,45.0"
    messages = [
        *fed(receiver, line(f"GN{kind},123456.00,{place},{quality},12,0.6,{units},1.0,0001")),
        *receiver.on_time(2 * S),
    ]
    (fix,) = fixes(messages)
    assert fix.fix_type is FixType.NONE
    assert isnan(fix.latitude_rad)
    if field:
        assert receiver.usage.of(f"GN{kind}").refused == {Loss(reason, field): 1}
        assert [(each["reason"], each["field"]) for each in events(messages, UNUSED)] == [
            (reason.value, field)
        ]


@pytest.mark.parametrize(
    "place",
    ["4503.9431,N,00739.5437,E", "4503.94310000,N,00739.54370000,E", "4503.9431,N,0739.5437,E",
     "04503.9431,N,00739.5437,E",
     " 4503.9431,N,00739.5437 ,E"],
)  # fmt: skip
def test_more_and_fewer_digits_are_the_same_place(place: str):
    receiver = device(protocol="nmea")
    messages = [
        *fed(receiver, line(f"GNGGA,123456.00,{place},4,12,0.6,230.1,M,45.0,M,1.0,0001")),
        *receiver.on_time(2 * S),
    ]
    assert degrees(fixes(messages)[0].latitude_rad) == pytest.approx(45 + 3.9431 / 60)
    assert degrees(fixes(messages)[0].longitude_rad) == pytest.approx(7 + 39.5437 / 60)


@pytest.mark.parametrize(
    ("rest", "field", "unknown"),
    [
        ("12,0.6,230.1,M,45.0,M", "", {"correction_age_s"}),
        ("12,0.6,230.1,M,45.0,M,1.0", "", set()),
        ("12.0,0.6,230.1,M,45.0,M,1.0,0001", "", set()),
        ("twelve,0.6,230.1,M,45.0,M,1.0,0001", "satellites", {"satellites"}),
        ("12,0.6,230.1,M,45.0,M,1.0,4095x", "station", set()),
        ("12,0.6,-,M,45.0,M,1.0,0001", "altitude", {"height_m"}),
        ("12,0.6,230.1,F,45.0,M,1.0,0001", "unit of altitude", {"height_m"}),
        ("12,0.6,2301000,M,45.0,M,1.0,0001", "altitude", {"height_m"}),
        ("12,0.6,230.1,M,--,M,1.0,0001", "geoid separation", {"height_m"}),
        ("12,0.6,230.1,M,45.0,M,>60,0001", "age of corrections", {"correction_age_s"}),
        ("12,-,230.1,M,45.0,M,1.0,0001", "dilution", {"hdop"}),
    ],
)
def test_an_optional_field_that_cannot_be_read_costs_only_itself(
    rest: str, field: str, unknown: set[str]
):
    receiver = device(protocol="nmea")
    messages = [*fed(receiver, line(f"GNGGA,123456.00,{PLACE},4,{rest}")), *receiver.on_time(2 * S)]
    (fix,) = fixes(messages)
    whole = {"satellites": 12, "hdop": 0.6, "height_m": 275.1, "correction_age_s": 1.0}
    for name, value in whole.items():
        expected = (0 if name == "satellites" else nan) if name in unknown else value
        assert getattr(fix, name) == pytest.approx(expected, nan_ok=True), name
    assert fix.carrier is CarrierSolution.FIXED
    assert receiver.usage.of("GNGGA").used == 1
    assert [loss.field for loss in receiver.usage.of("GNGGA").lost] == ([field] if field else [])


def test_a_position_of_which_the_receiver_warns_is_not_used():
    receiver = device(protocol="nmea")
    rmc, gga, gst = sentences()
    (fix,) = fixes([*fed(receiver, rmc._replace(valid=False), gga, gst), *receiver.on_time(2 * S)])
    assert fix.fix_type is FixType.NONE
    assert isnan(fix.latitude_rad)
    assert receiver.usage.of("GNGGA").lost == {Loss(Unused.INVALID, "position"): 1}


def test_a_time_that_cannot_be_read_is_said():
    receiver = device(protocol="nmea")
    messages = fed(receiver, line(f"GNGGA,126456.00,{PLACE},4,12,0.6,230.1,M,45.0,M,1.0,0001"))
    assert fixes(messages) == []
    assert receiver.usage.of("GNGGA").refused == {Loss(Unused.OUT_OF_RANGE, "time"): 1}


@pytest.mark.parametrize("talker", ["GP", "GN", "GL", "GA", "GB", "BD", "GQ", "QZ", "GI", "IN"])
def test_every_talker_is_read(talker: str):
    receiver = device(protocol="nmea")
    messages = [*fed(receiver, sentences()[1]._replace(talker=talker)), *receiver.on_time(2 * S)]
    assert len(fixes(messages)) == 1


NO_SOLUTION = Gga("GL", CLOCK_MS, nan, nan, 0, 0, nan, nan, nan)
SINGLE = sentences(quality=1)[1]._replace(talker="GP")


@pytest.mark.parametrize(
    ("first", "second", "carrier"),
    [
        (SINGLE, sentences()[1], CarrierSolution.FIXED),
        (SINGLE, NO_SOLUTION, CarrierSolution.NONE),
        (sentences()[1], NO_SOLUTION._replace(talker="GP"), CarrierSolution.FIXED),
        (
            sentences()[0]._replace(talker="GP"),
            sentences()[0]._replace(talker="GL", valid=False),
            CarrierSolution.FIXED,
        ),
    ],
    ids=["GP and all", "GP and GL without", "all and GP without", "RMC of GL without"],
)
@pytest.mark.parametrize("reverse", [False, True])
def test_one_talker_of_several_gives_the_solution(
    first: Any, second: Any, carrier: CarrierSolution, reverse: bool
):
    """Receivers that send a sentence for each constellation, or for GPS beside all."""
    receiver, messages = device(protocol="nmea"), []
    for second_of_day in range(8):
        time_ms = CLOCK_MS + 1000 * second_of_day
        wire = [
            each._replace(time_ms=time_ms)
            for each in ((second, first) if reverse else (first, second))
        ]
        if isinstance(first, Rmc):
            wire.append(sentences(time_ms)[1])
        messages += [
            *fed(receiver, *wire, at_ns=(1 + second_of_day) * S),
            *receiver.on_time((1 + second_of_day) * S + S // 2),
        ]
    assert {(fix.fix_type, fix.carrier) for fix in fixes(messages)[2:]} == {
        (FixType.FIX_3D, carrier)
    }
    assert len(fixes(messages)) >= 7
    kind = type(first).__name__.upper()
    used = max(
        (first, second),
        key=lambda each: (getattr(each, "quality", getattr(each, "valid", 0)), each.talker == "GN"),
    )
    other = second if used is first else first
    assert receiver.usage.of(f"{other.talker}{kind}").refused[Loss(Unused.DUPLICATE)] >= 6


def test_another_talker_follows_when_the_first_is_silent_or_has_no_solution():
    receiver, messages = device(protocol="nmea"), []
    for second_of_day, wire in enumerate(
        ((SINGLE,), (), (), (), (SINGLE._replace(talker="GL"),), *((NO_SOLUTION, SINGLE),) * 2)
    ):
        at_ns = (1 + second_of_day) * S
        messages += fed(
            receiver,
            *(each._replace(time_ms=CLOCK_MS + 1000 * second_of_day) for each in wire),
            at_ns=at_ns,
        )
        messages += receiver.on_time(at_ns + S // 2)
    # The first sentence without a solution ends the epoch, before the other talker comes.
    assert [fix.fix_type for fix in fixes(messages)] == [
        FixType.FIX_3D,
        FixType.FIX_3D,
        FixType.NONE,
        FixType.FIX_3D,
    ]


@pytest.mark.parametrize(("line_end", "used"), [(b"*0a\r\n", False), (b"\r\n", False)])
def test_a_line_without_checksum_is_named_and_not_used(line_end: bytes, used: bool):
    receiver = device(protocol="nmea")
    body = f"$GNGGA,123456.00,{PLACE},4,12,0.6,230.1,M,45.0,M,1.0,0001".encode()
    messages = []
    for at in range(len(body + line_end)):
        messages += fed(receiver, (body + line_end)[at : at + 1])
    assert fixes([*messages, *receiver.on_time(2 * S)]) == []
    without = line_end == b"\r\n"
    assert receiver.usage.of("GNGGA").refused == ({Loss(Unused.NO_CHECKSUM): 1} if without else {})
    assert receiver.bad_frames == (not without)


def test_a_checksum_in_lower_case_is_one():
    receiver = device(protocol="nmea")
    whole = encode(sentences()[1])
    assert fixes([*fed(receiver, whole[:-4] + whole[-4:].lower()), *receiver.on_time(2 * S)])


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ("PUBX,03,20", "PUBX,03"),
        ("GPGSV,1,1,00", "GPGSV"),
        ("GNGLL,,,,,123456.00,V,N", "GNGLL"),
        ("PTNL,PJK,1,2", "PTNL,PJK"),
        ("HCHDG,129.5,,,8.7,E", "HCHDG"),
        ("PASHR,POS,0,1", "PASHR,POS"),
    ],
)
def test_what_is_not_read_is_named(body: str, name: str):
    receiver = device(protocol="nmea")
    assert fed(receiver, *[line(body)] * 5) == []
    assert receiver.usage.of(name).refused == {Loss(Unused.NOT_READ): 5}


def test_every_message_is_accounted_for():
    receiver = device()
    wire = [
        pvt(1000),
        hpposllh(1000),
        NavEoe(1000),
        NavEoe(1000),
        pvt(1000),
        pvt(2000, fix_type=0),
        NavEoe(2000),
        RTCM,
        *sentences(),
    ]
    fed(
        receiver,
        *wire,
        ubx_frame(b"\x01\x35", bytes(8)),
        ubx_frame(IDS["NAV-PVT"], bytes(20)),
        ubx_frame(IDS["NAV-PVT"]),
    )
    assert sum(use.arrived for _, use in receiver.usage) == len(wire) + 3
    assert receiver.usage.of("NAV-PVT").refused == {
        Loss(Unused.REPEATED): 1, Loss(Unused.NO_SOLUTION): 1, Loss(Unused.UNREADABLE, "length"): 1,
        Loss(Unused.NOT_READ): 1,
    }  # fmt: skip
    assert receiver.usage.of("1005").refused == {Loss(Unused.NOT_WANTED): 1}


def test_sentences_are_left_alone_and_named_when_ubx_is_spoken():
    receiver = device()
    assert fed(receiver, *sentences(1000), *sentences(2000)) == []
    assert [name for name, _ in receiver.usage] == ["GNRMC", "GNGGA", "GNGST"]
    assert receiver.figures.frames == {"nmea": 6}
    assert receiver.usage.of("GNGGA").refused == {Loss(Unused.OTHER_PROTOCOL): 2}


def test_positions_that_come_in_rmc_alone_are_named():
    receiver = device(protocol="nmea")
    messages: list[Message] = []
    for number in range(15):
        messages += fed(receiver, sentences(CLOCK_MS + number * 1000)[0], at_ns=S + number * S)
    assert fixes(messages) == []
    assert [each["reason"] for each in events(messages, UNUSED)] == ["no_gga"]
    messages = []
    for number in range(15, 30):
        messages += fed(receiver, *sentences(CLOCK_MS + number * 1000), at_ns=S + number * S)
    assert len(fixes(messages)) > 10
    assert receiver.usage.of("GNRMC").lost == {Loss(Unused.NO_GGA, "position"): 6}


# ---------------------------------------------------------------- stream


def test_a_cut_frame_is_given_up_after_silence():
    receiver = device()
    damaged = bytearray(encode(pvt(1000)))
    damaged[4:6] = (2000).to_bytes(2, "little")
    assert fed(receiver, bytes(damaged), pvt(2000), NavEoe(2000), at_ns=S) == []
    assert receiver.next_due_ns() == S + STALE_NS
    (fix,) = fixes(list(receiver.on_time(S + STALE_NS)))
    assert fix.t_rx_ns == S
    assert receiver.buffered_bytes == 0
    assert receiver.bad_frames > 0
    assert receiver.dropped_bytes == len(damaged)


def test_a_recording_of_a_real_receiver():
    """Ten epochs, RTK float; NAV-EOE after NAV-PVT and NAV-DOP."""
    receiver = device(rate_hz=1.0)
    got = []
    data = GOLDEN.read_bytes()
    for at in range(0, len(data), 64):
        got += fixes(list(receiver.on_rx(data[at : at + 64], at * 1_077_000)))
    assert len(got) == 10
    last = got[-1]
    assert last.latitude_rad == pytest.approx(radians(47.129093), abs=1e-15)
    assert last.longitude_rad == pytest.approx(radians(15.2120434), abs=1e-15)
    assert last.height_m == pytest.approx(869.265)
    assert last.velocity_enu_mps == pytest.approx((-0.037, 0.036, -0.002))
    assert (last.carrier, last.correction_age_s, last.satellites) == (
        CarrierSolution.FLOAT,
        45.0,
        19,
    )
    assert (
        last.utc_ns == int(datetime(2022, 10, 11, 11, 4, 33, tzinfo=UTC).timestamp()) * S + 51_086
    )
    assert receiver.figures.frames["NAV-PVT"] == 10


def test_positions_in_the_ways_of_makers():
    gga = next(each for each in sentences() if isinstance(each, Gga))._replace(
        correction_age_s=nan, station=0
    )
    for talker in ("PTNL", "PUBX"):
        receiver = device(protocol="nmea")
        found = gga._replace(talker=talker, altitude_msl_m=300.0, geoid_separation_m=0.0)
        if talker == "PUBX":
            found = found._replace(quality=1, horizontal_sigma_m=0.5, vertical_sigma_m=0.25)
        fed(receiver, found)
        fix = fixes(fed(receiver, found._replace(time_ms=CLOCK_MS + 1000)))[0]
        assert fix.latitude_rad == pytest.approx(radians(gga.latitude_deg), abs=1e-10)
        assert fix.height_m == 300.0
        if talker == "PUBX":
            assert fix.position_covariance_m2[0] == 0.125
            assert fix.position_covariance_m2[8] == 0.0625


def test_velocity_and_errors_of_quectel_belong_to_the_epoch():
    receiver = device(protocol="nmea")
    gga = next(each for each in sentences() if isinstance(each, Gga))
    epe = Gst("PQTM", None, nan, 0.5, 0.25, 1.0)
    for k in range(4):
        time_ms = CLOCK_MS + 1000 * k
        messages = fed(receiver, gga._replace(time_ms=time_ms), Vel(time_ms, 1.0, 2.0, -0.5), epe)
    (fix,) = fixes(messages)[-1:]
    assert fix.velocity_enu_mps == (2.0, 1.0, 0.5)
    assert [fix.position_covariance_m2[k] for k in (0, 4, 8)] == [0.0625, 0.25, 1.0]
