"""Septentrio receivers: the dialogue with the emulated receiver, what makes a position and a
heading usable, and their way."""

from collections.abc import Sequence
from math import isnan, nan, pi, radians
from typing import Any

import msgspec
import pytest

from drivers.gnss import septentrio
from drivers.gnss.receiver import GnssReceiver
from drivers.gnss.septentrio import UNKNOWN, UNKNOWN_U16, AttEuler, PvtGeodetic, SeptentrioDevice
from sim_backend.emulators.failing import FailingEmulator
from sim_backend.emulators.failures import parse_failure
from sim_backend.emulators.line import SerialLine
from sim_backend.emulators.registry import emulator
from tests.emulator_bench import MS, SECOND, START, Bench, table
from vehicled.core import messages as all_messages
from vehicled.core.messages import (
    CarrierSolution,
    Corrections,
    Event,
    Fault,
    FixType,
    GnssFix,
    Heading,
    Message,
    PortState,
)
from vehicled.core.wire.usage import Loss, Unused
from vehicled.paths.datum import LOT_17
from vehicled.profile.registry import resolve

PORT = "serial:/dev/ttyUSB0?baud=115200"
UTC_NS = 1_767_225_600_000_000_000
FAMILIES = ("septentrio", "unicore")
BOTH = ("GnssFix", "Heading")
STAMP = 200_000, 2367
PVT = PvtGeodetic(
    *STAMP, 4, 0, radians(43.07), radians(-89.41), 230.0, -34.0, 1.0, 0.5, -0.1, 26.6, 0.1, 0.1, 0,
    0, 24, 0, 7, 120, 0, 0, 1, 0, 55, 4, 6,
)  # fmt: skip


def bench(family: str, messages: Sequence[str] = BOTH, fail: str = "", **params: Any) -> Bench:
    kind = resolve("driver", family)
    settings = msgspec.convert({"rate_hz": 10.0} | params, kind.Params)
    line = emulator("gnss", table(family, settings, messages, PORT), 3, START, wires=True)
    failing = FailingEmulator(line, [parse_failure(fail)], messages, 3, START) if fail else line
    return Bench(
        failing, kind(settings, [getattr(all_messages, name) for name in messages], SECOND)
    )


def unit(found: Bench) -> Any:
    line = (
        found.emulator.emulator if isinstance(found.emulator, FailingEmulator) else found.emulator
    )
    assert isinstance(line, SerialLine)
    return line.device


def fix(k: int, **changes: Any) -> GnssFix:
    t_ns = START + k * 100 * MS
    place = LOT_17.to_geodetic(3.0 + 0.1 * k, -4.0, 2.0)
    found = GnssFix(
        t_ns, 0, *place, (1.0, 0.5, -0.25), (1e-4, 2e-5, 0.0, 2e-5, 4e-4, 1e-5, 0.0, 1e-5, 9e-4),
        (1e-2, 0.0, 0.0, 0.0, 1e-2, 0.0, 0.0, 0.0, 4e-2), FixType.FIX_3D, CarrierSolution.FIXED,
        True, 1.2, 24, 0.7, 1.1, UTC_NS + t_ns,
    )  # fmt: skip
    return msgspec.structs.replace(found, **changes)


def drive(seconds: float, yaw_rad: float = 0.5, **changes: Any) -> list[tuple[int, Message]]:
    made: list[tuple[int, Message]] = []
    for k in range(1, round(seconds * 10)):
        each = fix(k, **changes)
        made += [
            (each.t_ns + 40 * MS, Heading(each.t_ns, 0, yaw_rad, 0.01)),
            (each.t_ns + 50 * MS, each),
        ]
    return made


@pytest.mark.parametrize("family", FAMILIES)
def test_a_receiver_is_set_up_and_its_epochs_arrive_as_they_were(family: str) -> None:
    found = bench(family)
    found.run(START + 6 * SECOND, drive(6.0))
    assert isinstance(found.driver, GnssReceiver)
    assert found.driver.configured
    assert not found.of(Fault)
    assert next(each.name for each in found.of(Event)) == "gnss_configured"
    got = {
        round((each.utc_ns - UTC_NS - START) / (100 * MS)): each
        for each in found.of(GnssFix)
        if each.utc_ns
    }
    assert len(got) > 30
    for k, each in got.items():
        sent = fix(k)
        assert each.utc_ns == sent.utc_ns
        assert each.latitude_rad == pytest.approx(sent.latitude_rad, abs=1e-12)
        assert each.longitude_rad == pytest.approx(sent.longitude_rad, abs=1e-12)
        assert each.height_m == pytest.approx(sent.height_m, abs=1e-3)
        assert each.velocity_enu_mps == pytest.approx(sent.velocity_enu_mps, abs=1e-6)
        assert (each.fix_type, each.carrier, each.differential, each.satellites) == (
            FixType.FIX_3D,
            CarrierSolution.FIXED,
            True,
            24,
        )
        assert each.correction_age_s == pytest.approx(1.2, abs=1e-6)
        assert each.position_covariance_m2[0] == pytest.approx(1e-4, rel=1e-5)
        assert each.position_covariance_m2[8] == pytest.approx(9e-4, rel=1e-5)
        # Jitter of a line moves the clock by less than an epoch.
        assert 0 <= each.t_rx_ns - each.t_ns < 120 * MS
    assert {round(each.yaw_rad, 5) for each in found.of(Heading)} == {0.5}
    assert found.of(Heading)[-1].sigma_rad == pytest.approx(0.01, rel=1e-3)
    assert abs(len(found.of(Heading)) - len(found.of(GnssFix))) <= 1


@pytest.mark.parametrize("family", FAMILIES)
def test_the_second_antenna_may_be_anywhere_on_the_vehicle(family: str) -> None:
    found = bench(family, baseline_yaw_rad=pi / 2, baseline_m=0.8)
    found.run(START + 4 * SECOND, drive(4.0, yaw_rad=-2.0))
    assert {round(each.yaw_rad, 5) for each in found.of(Heading)} == {-2.0}
    assert isinstance(found.driver, GnssReceiver)
    assert found.driver.baseline_m == 0.8


@pytest.mark.parametrize("family", FAMILIES)
def test_without_a_solution_there_is_no_position_and_no_heading(family: str) -> None:
    found = bench(family)
    lost = drive(4.0, fix_type=FixType.NONE, latitude_rad=nan, longitude_rad=nan)
    found.run(START + 4 * SECOND, lost)
    fixes = found.of(GnssFix)
    assert len(fixes) > 20
    assert all(isnan(each.latitude_rad) and each.fix_type is FixType.NONE for each in fixes)
    assert not found.of(Heading)
    assert "heading_lost" in found.reported()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("changes", "carrier", "differential"),
    [
        ({"carrier": CarrierSolution.FLOAT}, CarrierSolution.FLOAT, True),
        ({"carrier": CarrierSolution.NONE}, CarrierSolution.NONE, True),
        (
            {"carrier": CarrierSolution.NONE, "differential": False, "correction_age_s": nan},
            CarrierSolution.NONE,
            False,
        ),
        (
            {"position_covariance_m2": (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 4.0)},
            CarrierSolution.FLOAT,
            True,
        ),
    ],
    ids=("float", "differential", "single", "fixed with an error of metres"),
)
def test_the_state_of_the_solution(
    family: str, changes: dict[str, Any], carrier: CarrierSolution, differential: bool
) -> None:
    found = bench(family)
    found.run(START + 3 * SECOND, drive(3.0, **changes))
    assert {(each.carrier, each.differential) for each in found.of(GnssFix)} == {
        (carrier, differential)
    }


@pytest.mark.parametrize("family", FAMILIES)
def test_a_receiver_that_lost_its_settings_is_set_up_again(family: str) -> None:
    found = bench(family, fail="gnss:brownout@5+0.2")
    found.run(START + 12 * SECOND, drive(12.0))
    names = found.reported()
    assert names.count("gnss_configured") == 2
    assert "epochs_absent" in names
    assert found.of(GnssFix)[-1].t_ns > START + 11 * SECOND


@pytest.mark.parametrize("family", FAMILIES)
def test_a_receiver_that_does_not_answer_is_a_fault_until_it_does(family: str) -> None:
    found = bench(family, fail="gnss:off@0+10")
    found.run(START + 20 * SECOND, drive(20.0))
    faults = found.of(Fault)
    assert [each.active for each in faults] == [True, False]
    assert faults[0].code == "gnss_configuration"
    assert "no answer" in faults[0].reason
    assert found.of(GnssFix)


@pytest.mark.parametrize("family", FAMILIES)
def test_corrections_reach_the_receiver(family: str) -> None:
    from drivers.rtcm.codec import encode as rtcm_frame

    found = bench(family)
    found.run(START + 2 * SECOND, drive(2.0))
    found.command(Corrections(1, 1, "rtcm", rtcm_frame(bytes.fromhex("435019") + bytes(40)) * 3))
    found.run(START + 3 * SECOND)
    assert unit(found).corrections == 3


@pytest.mark.parametrize("family", FAMILIES)
def test_nothing_is_sent_to_a_receiver_that_is_set_up_elsewhere(family: str) -> None:
    found = bench(family, configure=False)
    found.run(START + 3 * SECOND, drive(3.0))
    assert found.of(GnssFix)
    assert found.of(Heading)
    assert not found.of(Fault)


def test_interference_and_false_signals_are_faults() -> None:
    for fail, code, reason in (
        ("gnss:jamming=2@3", "gnss_jamming", "interference, mitigated"),
        ("gnss:jamming=3@3", "gnss_jamming", "interference that is not mitigated"),
        ("gnss:spoofing@3", "gnss_spoofing", "false signals"),
    ):
        found = bench("septentrio", fail=fail)
        found.run(START + 6 * SECOND, drive(6.0))
        (fault,) = found.of(Fault)
        assert (fault.code, fault.reason) == (code, reason)


def played(
    *blocks: septentrio.Block, messages: Sequence[str] = BOTH, **params: Any
) -> tuple[SeptentrioDevice, list[Any]]:
    settings = msgspec.convert({"configure": False} | params, SeptentrioDevice.Params)
    device = SeptentrioDevice(settings, [getattr(all_messages, name) for name in messages], SECOND)
    device.on_port(PortState.OPENED, "", 1)
    found = [
        *device.on_rx(b"".join(map(septentrio.encode, blocks)), SECOND),
        *device.on_time(2 * SECOND),
    ]
    return device, found


@pytest.mark.parametrize(
    ("pvt", "loss"),
    [
        (PVT._replace(mode=0, error=1), Loss(Unused.NO_SOLUTION)),
        (PVT._replace(error=7), Loss(Unused.NO_SOLUTION)),
        (PVT._replace(mode=3), Loss(Unused.MANUAL)),
        (PVT._replace(mode=1 | 1 << 6), Loss(Unused.MANUAL)),
        (PVT._replace(mode=9), Loss(Unused.UNKNOWN_STATE, "type")),
        (PVT._replace(latitude_rad=UNKNOWN), Loss(Unused.OUT_OF_RANGE, "position")),
        (PVT._replace(latitude_rad=nan), Loss(Unused.OUT_OF_RANGE, "position")),
        (PVT._replace(latitude_rad=0.0, longitude_rad=0.0), Loss(Unused.ALL_ZERO, "position")),
    ],
)
def test_a_block_without_a_measured_position_gives_none(pvt: PvtGeodetic, loss: Loss) -> None:
    device, messages = played(pvt, septentrio.EndOfPvt(*STAMP))
    (found,) = [each for each in messages if isinstance(each, GnssFix)]
    assert isnan(found.latitude_rad)
    assert found.fix_type is FixType.NONE
    assert dict(device.usage)["PVTGeodetic"].refused == {loss: 1}


def test_without_covariances_the_accuracy_of_the_position_counts() -> None:
    _, messages = played(PVT, septentrio.EndOfPvt(*STAMP))
    (found,) = [each for each in messages if isinstance(each, GnssFix)]
    # 0.04 m are twice the root of the sum of two equal variances.
    assert found.position_covariance_m2[0] == pytest.approx(0.02**2 / 2)
    assert found.position_covariance_m2[8] == pytest.approx(0.03**2)
    _, messages = played(PVT._replace(horizontal_2drms_cm=UNKNOWN_U16), septentrio.EndOfPvt(*STAMP))
    assert isnan(messages[0].position_covariance_m2[0])


def test_a_moving_base_makes_its_position_no_better() -> None:
    _, messages = played(PVT._replace(mode=7), septentrio.EndOfPvt(*STAMP))
    (found,) = [each for each in messages if isinstance(each, GnssFix)]
    assert (found.carrier, found.differential) == (CarrierSolution.NONE, False)
    assert isnan(found.correction_age_s)


def test_a_position_whose_end_does_not_come_is_handed_over_at_its_timeout() -> None:
    device = SeptentrioDevice(SeptentrioDevice.Params(configure=False), [GnssFix], SECOND)
    device.on_port(PortState.OPENED, "", 1)
    assert not device.on_rx(septentrio.encode(PVT), SECOND)
    assert device.next_due_ns() == SECOND + 100 * MS
    assert next(type(each) for each in device.on_time(SECOND + 100 * MS)) is GnssFix


ATTITUDE = AttEuler(*STAMP, 20, 0, 2, 0, 90.0, 0.0, 0.0)
VECTOR = septentrio.AuxAntenna(20, 0, 0, 1, 0.5, 0.0, 0.0)


@pytest.mark.parametrize(
    ("attitude", "vector", "loss"),
    [
        (ATTITUDE._replace(error=1), VECTOR, Loss(Unused.NO_SOLUTION)),
        (ATTITUDE._replace(mode=0), VECTOR, Loss(Unused.NO_SOLUTION)),
        (ATTITUDE._replace(error=1 << 7), VECTOR, Loss(Unused.INVALID, "attitude not requested")),
        (ATTITUDE._replace(mode=1), VECTOR, Loss(Unused.NOT_FIXED)),
        (ATTITUDE._replace(mode=7), VECTOR, Loss(Unused.UNKNOWN_STATE, "mode")),
        (ATTITUDE._replace(heading_deg=UNKNOWN), VECTOR, Loss(Unused.OUT_OF_RANGE, "heading")),
        (ATTITUDE, VECTOR._replace(east_m=0.7), Loss(Unused.WRONG_LENGTH)),
    ],
)
def test_an_attitude_without_a_sound_vector_is_no_heading(
    attitude: AttEuler, vector: Any, loss: Loss
) -> None:
    blocks = (
        PVT,
        septentrio.EndOfPvt(*STAMP),
        attitude,
        septentrio.AuxAntPositions(*STAMP, (vector,)),
        septentrio.EndOfAtt(*STAMP),
    )
    device, messages = played(*blocks, baseline_m=0.5)
    assert not [each for each in messages if isinstance(each, Heading)]
    assert dict(device.usage)["AttEuler"].refused == {loss: 1}


def test_a_receiver_without_a_second_antenna_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    found = bench("septentrio")
    monkeypatch.setattr(
        unit(found), "obey",
        lambda command: b"$R? setGNSSAttitude: Argument 'Source' is invalid!\r\nCOM1>"
        if command.startswith("setGNSSAttitude") else b"$R: %s\r\nCOM1>" % command.encode(),
    )  # fmt: skip
    found.run(START + 2 * SECOND)
    (fault,) = found.of(Fault)
    assert "refuses setGNSSAttitude, MultiAntenna" in fault.reason
    assert "Argument 'Source' is invalid!" in fault.reason
