"""The emulated receiver and a program that we did not write: pyubx2 reads its stream, and sets it
up."""

from io import BytesIO
from typing import Any

import pytest
from pynmeagps import NMEAMessage
from pyubx2 import POLL, SET, UBXMessage, UBXReader

from drivers.ublox.device import UbloxDevice
from drivers.ublox.settings import Params
from sim_backend.emulators.ublox import ublox
from tests.emulator_bench import SECOND, START, Bench, table
from tests.unit.test_emulator_ublox import fix, headings, samples
from vehicled.core.messages import GnssFix, Heading

RAM = 1


def read(data: bytes) -> list[Any]:
    """Parse a stream in order; anything that pyubx2 cannot read is an error."""
    reader = UBXReader(BytesIO(data), protfilter=7, quitonerror=2)
    return [message for _, message in reader]


def talk(
    *requests: UBXMessage, messages: tuple[str, ...] = ("GnssFix",), seconds: int = 3
) -> list[Any]:
    """Return the receiver's answers to requests of pyubx2."""
    bench = Bench(ublox("gnss", table("ublox", Params(), messages), 3, START))
    for request in requests:
        bench.send(request.serialize())
    sent = headings(20 * seconds) if messages == ("Heading",) else samples(10 * seconds)
    bench.run(START + seconds * SECOND, sent)
    return read(bench.received)


def names(messages: list[Any]) -> list[str]:
    return [str(message.identity) for message in messages]


def test_the_stream_of_a_configured_receiver_is_read_whole() -> None:
    params = Params(rate_hz=10.0, time_pulse=True)
    driver = UbloxDevice(params, [GnssFix, Heading], 10 * SECOND)
    bench = Bench(ublox("gnss", table("ublox", params, ("GnssFix", "Heading")), 3, START), driver)
    sent = samples(50)
    bench.run(START + 5 * SECOND, [*sent, *headings(100)])
    messages = read(bench.received)
    assert b"".join(message.serialize() for message in messages) == bench.received
    found = names(messages)
    for name in ("NAV-PVT", "NAV-HPPOSLLH", "NAV-COV", "NAV-DOP", "NAV-RELPOSNED", "NAV-EOE"):
        assert found.count(name) >= 45
    for name in (
        "NAV-STATUS",
        "NAV-TIMELS",
        "MON-RF",
        "TIM-TP",
        "MON-VER",
        "ACK-ACK",
        "CFG-VALGET",
    ):
        assert name in found


def test_its_values_mean_the_same_to_it() -> None:
    messages = talk(
        UBXMessage.config_set(RAM, 0, [("CFG_RATE_MEAS", 100), ("CFG_USBOUTPROT_NMEA", 0)]),
        UBXMessage.config_set(
            RAM,
            0,
            [(f"CFG_MSGOUT_UBX_NAV_{name}_USB", 1) for name in ("PVT", "HPPOSLLH", "COV", "DOP")],
        ),
    )
    by_name = dict(zip(names(messages), messages))
    true = fix(29)
    pvt, precise, cov, dop = (by_name[f"NAV-{name}"] for name in ("PVT", "HPPOSLLH", "COV", "DOP"))
    assert (pvt.fixType, pvt.gnssFixOk, pvt.diffSoln, pvt.carrSoln, pvt.numSV) == (3, 1, 1, 2, 24)
    assert (pvt.year, pvt.month, pvt.day, pvt.hour, pvt.min, pvt.second, pvt.nano) == (
        2026,
        1,
        1,
        0,
        0,
        2,
        900_000_000,
    )
    assert pvt.lastCorrectionAge == 1
    assert precise.lat == pytest.approx(true.latitude_rad * 57.29577951308232, abs=2e-9)
    assert precise.lon == pytest.approx(true.longitude_rad * 57.29577951308232, abs=2e-9)
    assert precise.height * 1e-3 == pytest.approx(true.height_m, abs=2e-4)
    assert (pvt.velN, pvt.velE, pvt.velD) == (-500, 1000, -20)
    assert (cov.posCovNN, cov.posCovEE, cov.posCovND) == pytest.approx((2e-4, 1e-4, 3e-5), rel=1e-6)
    assert (dop.hDOP, dop.vDOP) == pytest.approx((0.7, 1.1))


def test_it_sets_and_reads_back() -> None:
    messages = talk(
        UBXMessage.config_set(
            RAM,
            0,
            [("CFG_RATE_MEAS", 200), ("CFG_NAVSPG_DYNMODEL", 4), ("CFG_NAVHPG_DGNSSMODE", 2)],
        ),
        UBXMessage.config_poll(
            0, 0, ["CFG_RATE_MEAS", "CFG_NAVSPG_DYNMODEL", "CFG_NAVHPG_DGNSSMODE"]
        ),
        UBXMessage.config_poll(7, 0, ["CFG_RATE_MEAS"]),
        UBXMessage("MON", "MON-VER", POLL),
    )
    assert names(messages)[:6] == [
        "ACK-ACK",
        "CFG-VALGET",
        "ACK-ACK",
        "CFG-VALGET",
        "ACK-ACK",
        "MON-VER",
    ]
    values, default = messages[1], messages[3]
    assert (values.CFG_RATE_MEAS, values.CFG_NAVSPG_DYNMODEL, values.CFG_NAVHPG_DGNSSMODE) == (
        200,
        4,
        2,
    )
    assert default.CFG_RATE_MEAS == 1000
    assert b"HPG 1.32" in messages[5].serialize()


def test_it_is_refused_what_this_receiver_does_not_have() -> None:
    # Of a receiver with dead reckoning.
    messages = talk(
        UBXMessage.config_set(RAM, 0, [("CFG_SFCORE_USE_SF", 1)]),
        UBXMessage.config_poll(0, 0, ["CFG_SFCORE_USE_SF"]),
    )
    assert names(messages)[:2] == ["ACK-NAK", "ACK-NAK"]
    assert (messages[0].clsID, messages[0].msgID) == (6, 0x8A)


def test_old_configuration_messages_are_refused() -> None:
    messages = talk(UBXMessage("CFG", "CFG-RATE", SET, measRate=100, navRate=1, timeRef=1))
    assert names(messages)[0] == "ACK-NAK"


def test_the_sentences_of_a_new_receiver_are_read() -> None:
    messages = talk()
    assert {message.msgID for message in messages} == {"GGA", "RMC", "VTG", "GSA", "GSV", "GLL"}
    assert all(isinstance(message, NMEAMessage) for message in messages)
    gga = next(message for message in messages if message.msgID == "GGA")
    true = fix(1)
    assert gga.lat == pytest.approx(true.latitude_rad * 57.29577951308232, abs=1e-7)
    assert gga.quality == 4
    gll = next(message for message in messages if message.msgID == "GLL")
    assert (gll.lat, gll.lon, gll.posMode) == (gga.lat, gga.lon, "R")


def test_a_moving_base_heading_means_the_same_to_it() -> None:
    messages = talk(
        UBXMessage.config_set(
            RAM, 0, [("CFG_RATE_MEAS", 50), ("CFG_MSGOUT_UBX_NAV_RELPOSNED_USB", 1)]
        ),
        messages=("Heading",),
    )
    last = [message for message in messages if message.identity == "NAV-RELPOSNED"][-1]
    true_deg = (90.0 - 0.1 * 59 * 57.29577951308232) % 360.0
    assert last.relPosHeading == pytest.approx(true_deg, abs=1e-4)
    assert (last.gnssFixOK, last.relPosValid, last.carrSoln, last.relPosHeadingValid) == (
        1,
        1,
        2,
        1,
    )
    assert last.accHeading == pytest.approx(0.01 * 57.29577951308232, abs=1e-4)
    # It adds the digits of high precision itself.
    assert last.relPosLength == pytest.approx(50.0, abs=1e-2)
