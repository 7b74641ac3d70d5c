"""SBG Systems units: the dialogue with the emulated unit, validity of the solution, stamps, axes,
and the truth that they give."""

import json
from collections.abc import Sequence
from itertools import pairwise
from math import isnan, pi, radians, remainder, sin, tau
from typing import Any

import msgspec
import pytest

from drivers.sbg import codec
from drivers.sbg.codec import MODE_AHRS, MODE_NAV_POSITION, encode_log
from drivers.sbg.device import SbgDevice, SbgParams
from sim_backend.emulators.failing import FailingEmulator
from sim_backend.emulators.failures import parse_failure
from sim_backend.emulators.line import SerialLine
from sim_backend.emulators.sbg import SbgUnit, sbg
from tests.emulator_bench import MS, SECOND, START, Bench, table
from vehicled.core import messages as all_messages
from vehicled.core.events import MessageUnused
from vehicled.core.messages import (
    CarrierSolution,
    Event,
    Fault,
    FixType,
    GnssFix,
    Heading,
    HeadingKind,
    ImuSample,
    Message,
    ReferenceState,
)
from vehicled.core.wire.usage import Loss, Unused
from vehicled.daemon.reference import ReferenceFrame
from vehicled.paths.datum import LOT_17

PORT = "serial:/dev/ttyUSB0?baud=921600"
VALID = 0xF0 | MODE_NAV_POSITION
SIGMAS = (0.01, 0.02, 0.03)
UTC_NS = 1_767_225_600_000_000_000


def make(messages: Sequence[str], **params: Any) -> SbgDevice:
    return SbgDevice(
        msgspec.convert(params, SbgParams),
        [getattr(all_messages, name) for name in messages],
        SECOND,
    )


def bench(messages: Sequence[str], *, rest: bool = False, fail: str = "", **params: Any) -> Bench:
    settings = msgspec.convert({"rate_hz": 100.0} | params, SbgParams)
    device = table("sbg", settings, messages, PORT)
    line = (
        SerialLine(SbgUnit("ins", device, 3, START, rest=True), "ins", 3, START, host_baud=921_600)
        if rest
        else sbg("ins", device, 3, START)
    )
    emulator = FailingEmulator(line, [parse_failure(fail)], messages, 3, START) if fail else line
    return Bench(
        emulator, SbgDevice(settings, [getattr(all_messages, name) for name in messages], SECOND)
    )


def unit(found: Bench) -> SbgUnit:
    line = (
        found.emulator.emulator if isinstance(found.emulator, FailingEmulator) else found.emulator
    )
    assert isinstance(line, SerialLine)
    assert isinstance(line.device, SbgUnit)
    return line.device


def imu(seconds: float, start_ns: int = START) -> list[tuple[int, Message]]:
    made: list[tuple[int, Message]] = []
    for k in range(1, round(seconds * 100)):
        t_ns = start_ns + k * 10 * MS
        wave = sin(0.04 * k)
        made.append(
            (
                t_ns + MS // 2,
                ImuSample(
                    t_ns, 0, (0.3 + wave, -0.2 * wave, 9.80665), (0.01, -0.02 * wave, 0.5 * wave)
                ),
            )
        )
    return made


def state(t_ns: int, yaw_rad: float = 0.5, **changes: Any) -> ReferenceState:
    place = LOT_17.to_geodetic(3.0, -4.0, 2.0)
    return msgspec.structs.replace(
        ReferenceState(
            t_ns,
            0,
            *place,
            (1.0, 2.0, -0.1),
            0.02,
            -0.03,
            yaw_rad,
            0.25,
            SIGMAS,
            SIGMAS,
            0.004,
            CarrierSolution.FIXED,
        ),
        **changes,
    )


def of(found: Bench, kind: type[Any]) -> list[Any]:
    return [message for message in found.messages if isinstance(message, kind)]


# ---------------------------------------------------------------- dialogue


def test_the_logs_are_switched_on_and_read_back() -> None:
    found = bench(("ImuSample", "Heading", "GnssFix"), rate_hz=50)
    found.run(START + SECOND, imu(1.0))
    assert unit(found).outputs == {
        codec.STATUS: 200, codec.UTC_TIME: 200, codec.IMU_SHORT: 4, codec.EKF_EULER: 4,
        codec.GPS1_VEL: 10_001, codec.GPS1_POS: 10_001,
    }  # fmt: skip
    (event,) = [event for event in of(found, Event) if event.name == "imu_configured"]
    assert json.loads(event.fields)["model"] == "ELLIPSE-D-G4A3-B1"
    assert 45 <= len(of(found, ImuSample)) <= 50


def test_a_unit_that_is_set_up_elsewhere_is_named_and_its_logs_pass() -> None:
    found = bench(("ImuSample",), rest=True)
    unit(found)._set(codec.IMU_SHORT, 2)
    found.run(START + 2 * SECOND, imu(2.0))
    (fault,) = of(found, Fault)
    assert fault.code == "imu_configuration"
    assert "sbgInsRestApi" in fault.reason
    assert "configure = false" in fault.reason
    assert len(of(found, ImuSample)) > 150


def test_without_configuration_nothing_is_sent() -> None:
    found = bench(("ImuSample",), configure=False)
    found.run(START + SECOND, imu(1.0))
    assert not found.driver.take_tx()  # type: ignore[union-attr]
    assert len(of(found, ImuSample)) > 80


def test_a_brown_out_is_followed_by_a_new_set_up() -> None:
    found = bench(("ImuSample",), fail="ins:brownout@2+1")
    found.run(START + 8 * SECOND, imu(8.0))
    events = [event for event in of(found, Event) if event.name == "imu_configured"]
    assert len(events) == 2
    assert max(sample.t_ns for sample in of(found, ImuSample)) > START + 7 * SECOND


@pytest.mark.parametrize("mounting", [{}, {"mounting_roll_rad": pi, "mounting_yaw_rad": 0.7}])
def test_samples_come_through_in_the_axes_of_the_vehicle(mounting: dict[str, Any]) -> None:
    found = bench(("ImuSample",), latency_s=0.0004, **mounting)
    sent = {message.t_ns: message for _, message in imu(3.0) if isinstance(message, ImuSample)}
    found.run(START + 3 * SECOND, imu(3.0))
    got = [sample for sample in of(found, ImuSample) if sample.t_ns > START + SECOND]
    assert len(got) > 150
    for sample in got:
        true = sent[min(sent, key=lambda t_ns: abs(t_ns - sample.t_ns))]
        assert abs(sample.t_ns - true.t_ns) < 2 * MS
        assert sample.specific_force_mps2 == pytest.approx(true.specific_force_mps2, abs=1e-5)
        assert sample.angular_rate_radps == pytest.approx(true.angular_rate_radps, abs=1e-6)


def test_a_sample_of_a_failed_self_test_is_dropped_and_one_out_of_range_is_saturated() -> None:
    device = make(["ImuSample"])
    log = codec.ImuShort(1000, 0x3FF, 0, 0, -10_283_000, 0, 0, 0, 256 * 30)
    got = device.on_rx(encode_log(log._replace(status=0x3FF & ~(1 << 5))), 10)
    assert [event.name for event in got if isinstance(event, Event)] == [MessageUnused.names[0]]
    assert len(got) == 1
    assert device.usage.of("IMU_SHORT").refused == {Loss(Unused.SELF_TEST, "status"): 1}
    (sample,) = device.on_rx(encode_log(log._replace(status=0x1FF)), 20)
    assert isinstance(sample, ImuSample)
    assert sample.saturated
    assert sample.specific_force_mps2[2] == pytest.approx(9.8066, abs=1e-3)
    (fast,) = device.on_rx(encode_log(log._replace(status=0x7FF, rate_z=12_304_174)), 30)
    assert isinstance(fast, ImuSample)
    assert fast.angular_rate_radps[2] == pytest.approx(-1.0), "at high scale, down turned up"
    old = codec.ImuData(4000, 0x3FF, *(0.0,) * 6, 20.0, *(0.0,) * 6)
    assert not any(isinstance(m, ImuSample) for m in device.on_rx(encode_log(old), 40)), (
        "the deprecated log repeats the short one"
    )


# ---------------------------------------------------------------- heading


def euler(us: int, yaw_deg: float, status: int = VALID, doubt: float = 0.01) -> bytes:
    return encode_log(codec.EkfEuler(us, 0.001, 0.0, radians(yaw_deg), 0.01, 0.01, doubt, status))


@pytest.mark.parametrize(
    ("status", "given"),
    [
        (VALID, True),
        (0x20 | MODE_AHRS, True),
        (VALID & ~0x20, False),
        (0xF0 | 1, False),
        (0xF0, False),
        (0xF0 | 5, False),
    ],
)
def test_a_heading_needs_its_bit_and_a_mode_that_has_one(status: int, given: bool) -> None:
    device = make(["Heading"])
    got = [
        message
        for message in device.on_rx(euler(1000, 30.0, status), 10)
        if isinstance(message, Heading)
    ]
    assert len(got) == given
    for heading in got:
        assert heading.yaw_rad == pytest.approx(radians(60.0)), (
            "clockwise from north to counter-clockwise from east"
        )
        assert (heading.sigma_rad, heading.kind) == (pytest.approx(0.01), HeadingKind.INERTIAL)


def test_headings_of_both_sources_come_through_the_wire() -> None:
    for source, kind in (("ekf", HeadingKind.MAGNETIC), ("dual_antenna", HeadingKind.MOVING_BASE)):
        found = bench(
            ("Heading",),
            heading=source,
            ekf_heading_kind="magnetic",
            yaw_offset_rad=0.1,
            mounting_yaw_rad=0.3,
        )
        sent: list[tuple[int, Message]] = [
            (START + k * 100 * MS, Heading(START + k * 100 * MS, 0, 2.0 + 0.01 * k, 0.02))
            for k in range(1, 30)
        ]
        found.run(START + 3 * SECOND, sent)
        got = of(found, Heading)
        assert len(got) > 20
        for heading in got:
            true = min((message for _, message in sent), key=lambda m: abs(m.t_ns - heading.t_ns))  # type: ignore[attr-defined]
            assert isinstance(true, Heading)
            assert remainder(heading.yaw_rad - true.yaw_rad, tau) == pytest.approx(0.0, abs=1e-5)
            assert (heading.sigma_rad, heading.kind) == (pytest.approx(0.02), kind)


def test_an_unknown_doubt_is_that_of_the_profile() -> None:
    device = make(["Heading"], heading_sigma_rad=0.3)
    doubts = [0.02, float("nan"), -1.0, 0.0, float("inf")]
    got = [
        m
        for k, doubt in enumerate(doubts)
        for m in device.on_rx(euler(1000 * k, 0.0, doubt=doubt), k)
    ]
    assert [heading.sigma_rad for heading in got if isinstance(heading, Heading)] == pytest.approx(
        [0.02, 0.3, 0.3, 0.3, 0.3]
    )


# ---------------------------------------------------------------- fixes


def fix(t_ns: int, **changes: Any) -> GnssFix:
    diagonal = (0.01**2, 0.0, 0.0, 0.0, 0.02**2, 0.0, 0.0, 0.0, 0.03**2)
    found = GnssFix(
        t_ns, 0, *LOT_17.to_geodetic(1.0, 2.0, 3.0), (0.5, -0.25, 0.125), diagonal, diagonal,
        FixType.FIX_3D, CarrierSolution.FIXED, True, 1.5, 18, utc_ns=UTC_NS + t_ns - START,
    )  # fmt: skip
    return msgspec.structs.replace(found, **changes)


@pytest.mark.parametrize("source", ["gnss", "ekf"])
def test_fixes_come_through_the_wire(source: str) -> None:
    found = bench(("GnssFix", "ImuSample"), fix=source, latency_s=0.0005)
    times = [START + k * 200 * MS for k in range(1, 25)]
    sent: list[tuple[int, Message]] = [(t_ns + 60 * MS, fix(t_ns)) for t_ns in times]
    found.run(START + 5 * SECOND, [*imu(5.0), *sent])
    got = [message for message in of(found, GnssFix) if message.t_ns > START + 2 * SECOND]
    assert len(got) >= 14
    for message in got:
        nearest = min(times, key=lambda t_ns: abs(t_ns - message.t_ns))
        assert abs(message.t_ns - nearest) < MS, "the receiver's stamp, not the time of arrival"
        true = fix(nearest)
        assert (message.latitude_rad, message.longitude_rad) == pytest.approx(
            (true.latitude_rad, true.longitude_rad), abs=1e-12
        )
        assert message.height_m == pytest.approx(true.height_m, abs=1e-6), (
            "above the ellipsoid, not the sea"
        )
        assert message.velocity_enu_mps == pytest.approx(true.velocity_enu_mps)
        assert message.position_covariance_m2 == pytest.approx(
            true.position_covariance_m2, rel=1e-5
        )
        assert message.velocity_covariance_m2ps2 == pytest.approx(
            true.velocity_covariance_m2ps2, rel=1e-5
        )
        assert message.fix_type is FixType.FIX_3D
        assert abs(message.utc_ns - true.utc_ns) < 2 * MS
        if source == "gnss":
            assert (message.carrier, message.differential, message.satellites) == (
                CarrierSolution.FIXED,
                True,
                18,
            )
            assert message.correction_age_s == pytest.approx(1.5)


def position(us: int, tow: int, kind: int = codec.RTK_FIXED, status: int = 0) -> bytes:
    return encode_log(
        codec.GpsPosition(
            us, kind << 6 | status, tow, 43.0, -89.0, 300.0, -33.5, 0.01, 0.01, 0.02, 20
        )
    )


def velocity(us: int, tow: int) -> bytes:
    return encode_log(codec.GpsVelocity(us, 2 << 6, tow, 1.0, 2.0, 3.0, 0.1, 0.1, 0.1, 0.0, 1.0))


def test_position_and_velocity_meet_in_any_order() -> None:
    device = make(["GnssFix"])
    fixes = [m for m in device.on_rx(position(1000, 5), 1) if isinstance(m, GnssFix)]
    assert len(fixes) == 1, "no velocity was ever seen, so nothing is waited for"
    assert isnan(fixes[0].velocity_enu_mps[0])
    device.on_rx(velocity(200_000, 200), 2)
    (fixed,) = device.on_rx(position(200_000, 200), 3)
    assert isinstance(fixed, GnssFix)
    assert fixed.velocity_enu_mps == pytest.approx((2.0, 1.0, -3.0))
    assert not device.on_rx(position(400_000, 400), 4)
    (fixed,) = device.on_rx(velocity(400_000, 400), 5)
    assert isinstance(fixed, GnssFix)
    assert fixed.velocity_enu_mps == pytest.approx((2.0, 1.0, -3.0))
    assert not device.on_rx(position(600_000, 600), 6)
    (late,) = device.on_rx(position(800_000, 800), 7)
    assert isinstance(late, GnssFix)
    assert isnan(late.velocity_enu_mps[0]), "its velocity was lost"


@pytest.mark.parametrize(
    ("kind", "status", "fix_type", "carrier", "differential"),
    [
        (codec.RTK_FIXED, 0, FixType.FIX_3D, CarrierSolution.FIXED, True),
        (codec.RTK_FLOAT, 0, FixType.FIX_3D, CarrierSolution.FLOAT, True),
        (codec.SINGLE, 0, FixType.FIX_3D, CarrierSolution.NONE, False),
        (codec.DGPS, 0, FixType.FIX_3D, CarrierSolution.NONE, True),
        (1, 0, FixType.FIX_3D, CarrierSolution.NONE, False),
        (codec.TYPED_IN, 0, FixType.NONE, CarrierSolution.NONE, False),
        (33, 0, FixType.NONE, CarrierSolution.NONE, False),
        (codec.RTK_FIXED, 1, FixType.NONE, CarrierSolution.NONE, False),
        (0, 0, FixType.NONE, CarrierSolution.NONE, False),
    ],
)
def test_kinds_of_solutions(
    kind: int, status: int, fix_type: FixType, carrier: CarrierSolution, differential: bool
) -> None:
    device = make(["GnssFix"])
    (got,) = [m for m in device.on_rx(position(1000, 5, kind, status), 1) if isinstance(m, GnssFix)]
    assert device.usage.of("GPS1_POS").used == (fix_type is FixType.FIX_3D)
    assert (got.fix_type, got.carrier, got.differential) == (fix_type, carrier, differential)
    assert isnan(got.latitude_rad) == (fix_type is FixType.NONE)


def test_a_fixed_solution_that_states_metres_is_floating() -> None:
    log = codec.GpsPosition(
        1000, codec.RTK_FIXED << 6, 5, 43.0, -89.0, 300.0, -33.5, 4.0, 4.0, 8.0, 20
    )
    (got,) = [m for m in make(["GnssFix"]).on_rx(encode_log(log), 1) if isinstance(m, GnssFix)]
    assert got.carrier is CarrierSolution.FLOAT


@pytest.mark.parametrize(
    ("quaternion", "reason"),
    [
        ((0.0, 0.0, 0.0, 0.0), Unused.ALL_ZERO),
        ((0.9, 0.0, 0.0, 0.0), Unused.NOT_A_ROTATION),
        ((float("nan"), 0.0, 0.0, 0.0), Unused.NOT_FINITE),
    ],
)
def test_an_attitude_that_is_no_rotation_is_no_heading(
    quaternion: tuple[float, float, float, float], reason: Unused
) -> None:
    device = make(["Heading"])
    got = device.on_rx(encode_log(codec.EkfQuat(1000, *quaternion, 0.01, 0.01, 0.01, VALID)), 1)
    assert not any(isinstance(m, Heading) for m in got)
    assert [loss.reason for loss in device.usage.of("EKF_QUAT").refused] == [reason]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"status": 1}, Unused.NO_SOLUTION),
        ({"heading_deg": 1e30}, Unused.OUT_OF_RANGE),
        ({"heading_deg": float("nan")}, Unused.NOT_FINITE),
        ({"heading_sigma_deg": 90.0}, Unused.TOO_INACCURATE),
    ],
)
def test_a_heading_of_two_antennas_is_as_good_as_its_state(
    changes: dict[str, Any], reason: Unused | None
) -> None:
    device = make(["Heading"], heading="dual_antenna")
    log = codec.GpsHeading(1000, 0, 5, 30.0, 0.5, 0.0, 0.5)._replace(**changes)
    got = device.on_rx(encode_log(log), 1)
    assert any(isinstance(m, Heading) for m in got) is (reason is None)
    assert [loss.reason for loss in device.usage.of("GPS1_HDT").refused] == (
        [reason] if reason else []
    )


def test_logs_that_are_not_used_are_named() -> None:
    device = make(["ImuSample"])
    wire = (
        position(1000, 5)
        + encode_log(codec.EkfVelBody(1000, VALID, *(0.0,) * 6))
        + codec.encode(36, b"1234")
    )
    assert list(device.on_rx(wire, 1)) == []
    assert [name for name, _ in device.usage] == ["GPS1_POS", "EKF_VEL_BODY", "SBG 00-24"]
    assert device.usage.of("GPS1_POS").refused == {Loss(Unused.NOT_WANTED): 1}


def test_a_tunnel_is_reported_by_the_receiver() -> None:
    found = bench(("GnssFix",), fail="ins:no_fix@2+2")
    found.run(
        START + 5 * SECOND,
        [(START + k * 200 * MS, fix(START + k * 200 * MS)) for k in range(1, 25)],
    )
    kinds = [
        message.fix_type
        for message in of(found, GnssFix)
        if START + 2.3e9 < message.t_ns < START + 3.7e9
    ]
    assert kinds
    assert set(kinds) == {FixType.NONE}
    late = [
        message.t_ns % (200 * MS)
        for message in of(found, GnssFix)
        if message.t_ns > START + 4 * SECOND
    ]
    assert late
    assert all(min(each, 200 * MS - each) < 2 * MS for each in late), (
        "stamped by the status alone, without an inertial log"
    )


def test_a_reference_in_a_tunnel_is_withheld() -> None:
    found = bench(("ReferenceState",), rate_hz=50, fail="ins:no_fix@1+1")
    found.run(
        START + 4 * SECOND,
        [(START + k * 20 * MS, state(START + k * 20 * MS)) for k in range(1, 190)],
    )
    lacking = [
        json.loads(event.fields)["lacking"]
        for event in of(found, Event)
        if event.name == "reference_state"
    ]
    assert lacking == ["", "velocity, position", ""]
    gap = [
        message
        for message in of(found, ReferenceState)
        if START + 1.1e9 < message.t_ns < START + 1.9e9
    ]
    assert not gap


# ---------------------------------------------------------------- reference


@pytest.mark.parametrize(
    "mounting", [{}, {"mounting_yaw_rad": 1.2, "mounting_pitch_rad": 0.1, "mounting_roll_rad": pi}]
)
def test_a_reference_comes_through_the_wire(mounting: dict[str, Any]) -> None:
    found = bench(("ReferenceState",), rate_hz=50, latency_s=0.0054, yaw_offset_rad=0.2, **mounting)
    times = [START + k * 20 * MS for k in range(1, 200)]
    found.run(
        START + 4 * SECOND,
        [(t_ns + 5 * MS, state(t_ns, 0.5 + 1e-10 * (t_ns - START))) for t_ns in times],
    )
    got = [message for message in of(found, ReferenceState) if message.t_ns > START + SECOND]
    assert len(got) > 140
    assert {type(message) for message in found.messages} == {ReferenceState, Event}, (
        "no fault of the truth stops the vehicle"
    )
    for message in got:
        nearest = min(times, key=lambda t_ns: abs(t_ns - message.t_ns))
        assert abs(message.t_ns - nearest) < 2 * MS
        true = state(nearest, 0.5 + 1e-10 * (nearest - START))
        for name in ("latitude_rad", "longitude_rad"):
            assert getattr(message, name) == pytest.approx(getattr(true, name), abs=1e-12)
        assert message.height_m == pytest.approx(true.height_m, abs=1e-6)
        for name in ("roll_rad", "pitch_rad", "yaw_rad"):
            assert getattr(message, name) == pytest.approx(getattr(true, name), abs=1e-6), name
        assert message.yaw_rate_radps == pytest.approx(true.yaw_rate_radps, abs=0.01)
        assert message.velocity_enu_mps == pytest.approx(true.velocity_enu_mps, abs=1e-6)
        assert message.position_sigma_m == pytest.approx(SIGMAS)
        assert message.velocity_sigma_mps == pytest.approx(SIGMAS)
        assert message.yaw_sigma_rad == pytest.approx(0.004)
    assert got[-1].carrier is CarrierSolution.FIXED


def nav(us: int, status: int = VALID) -> bytes:
    return encode_log(
        codec.EkfNav(
            us, 1.0, 0.0, 0.0, 0.1, 0.1, 0.1, 43.0, -89.0, 300.0, -33.5, 0.01, 0.01, 0.02, status
        )
    )


@pytest.mark.parametrize(
    ("of_attitude", "of_nav", "lacking"),
    [
        (VALID, VALID & ~0x80, "position"), (VALID & ~0x20, VALID, "heading"),
        (VALID, VALID & ~0x40, "velocity"), (VALID & ~0x10, VALID, "attitude"),
        (VALID, 0xF0 | MODE_AHRS, "navigation"),
    ],
)  # fmt: skip
def test_a_reference_is_given_only_while_all_of_it_is_valid(
    of_attitude: int, of_nav: int, lacking: str
) -> None:
    device = make(["ReferenceState"])
    device.on_rx(euler(1000, 0.0) + nav(1000), 1)
    got = device.on_rx(euler(2000, 0.0, of_attitude) + nav(2000, of_nav), 2)
    (state,) = [m for m in got if isinstance(m, Event) and m.name == "reference_state"]
    assert json.loads(state.fields) == {"device": "sbg", "valid": False, "lacking": lacking}
    assert device.dropped_states == 1
    event, given = device.on_rx(nav(3000) + euler(3000, 0.0), 3)
    assert isinstance(event, Event)
    assert isinstance(given, ReferenceState), "in any order of the two logs"
    assert not device.on_rx(euler(4000, 0.0) + nav(5000), 4), "logs of two instants are no state"


def test_a_reference_claims_no_less_than_the_profile_allows() -> None:
    device = make(
        ["ReferenceState"],
        least_position_sigma_m=0.015,
        least_speed_sigma_mps=0.2,
        least_heading_sigma_rad=0.05,
    )
    _, given = device.on_rx(euler(1000, 0.0) + nav(1000), 1)
    assert isinstance(given, ReferenceState)
    assert given.position_sigma_m == pytest.approx((0.015, 0.015, 0.02))
    assert given.velocity_sigma_mps == (0.2, 0.2, 0.2)
    assert given.yaw_sigma_rad == 0.05


def test_the_truth_is_the_rear_axle_by_the_lever_arm() -> None:
    # A unit 1 m ahead and 0.5 m to the left of an axle at (2, 3) that drives north at 4 m/s and
    # turns left at 0.5 rad/s.
    place = LOT_17.to_geodetic(2.0 - 0.5, 3.0 + 1.0, 0.2)
    velocity_mps = (-0.5 * 1.0, 4.0 - 0.5 * 0.5, 0.0)
    truth = ReferenceFrame(LOT_17, (1.0, 0.5, 0.2)).truth(
        ReferenceState(
            START,
            0,
            *place,
            velocity_mps,
            0.0,
            0.0,
            pi / 2,
            0.5,
            (0.03, 0.04, 0.1),
            (0.1, 0.2, 0.5),
            0.1,
        )
    )
    assert (truth.x_m, truth.y_m, truth.yaw_rad) == pytest.approx((2.0, 3.0, pi / 2), abs=1e-6)
    assert (truth.speed_mps, truth.yaw_rate_radps) == pytest.approx((4.0, 0.5))
    # The doubt of the heading moves the axle by the length of the arm.
    assert truth.position_sigma_m == pytest.approx((0.04**2 + (0.1**2) * 1.25) ** 0.5)
    assert (truth.speed_sigma_mps, truth.yaw_sigma_rad) == (0.2, 0.1)
    tilted = ReferenceFrame(LOT_17, (0.0, 0.0, 2.0)).truth(
        ReferenceState(
            START, 0, *LOT_17.to_geodetic(0.0, 0.0, 0.0), (0.0, 0.0, 0.0), 0.1, 0.0, 0.0, 0.0
        )
    )
    assert (tilted.x_m, tilted.y_m) == pytest.approx((0.0, 2.0 * sin(0.1)), abs=1e-6), (
        "rolled to the right"
    )


def test_a_yaw_rate_that_the_unit_does_not_send_is_that_of_the_yaw() -> None:
    frame = ReferenceFrame(LOT_17, (1.0, 0.0, 0.0))
    rates = [
        frame.truth(
            msgspec.structs.replace(
                state(START + k * 20 * MS, 3.13 + 0.01 * k), yaw_rate_radps=float("nan")
            )
        ).yaw_rate_radps
        for k in range(4)
    ]
    assert rates == pytest.approx([0.0, 0.5, 0.5, 0.5])


def test_the_counter_wraps() -> None:
    device = make(["ReferenceState"])
    times = []
    for k in range(300):
        us = (2**32 - 1_500_000 + 10_000 * k) % 2**32
        got = device.on_rx(euler(us, 0.0) + nav(us), START + k * 10 * MS)
        times += [m.t_ns for m in got if isinstance(m, ReferenceState)]
    assert len(times) == 300
    assert {b - a for a, b in pairwise(times)} == {10 * MS}


def test_the_status_of_the_unit_is_reported_once() -> None:
    device = make(["ImuSample"])
    log = codec.StatusLog(1000, 0x1F, 0, 0, 0)
    assert not device.on_rx(encode_log(log), 1)
    (event,) = device.on_rx(encode_log(log._replace(general=0x1B)), 2)
    assert isinstance(event, Event)
    assert json.loads(event.fields) == {"device": "sbg", "wrong": "GNSS power"}
    assert not device.on_rx(encode_log(log._replace(general=0x1B)), 3)
    (event,) = device.on_rx(encode_log(log), 4)
    assert isinstance(event, Event)
    assert event.level == "info"
