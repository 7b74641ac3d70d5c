"""Sentences of makers in public recordings, as pynmeagps reads them and as the driver does."""

from math import isnan
from pathlib import Path
from typing import Any

import pytest
from pynmeagps import NMEAReader

from drivers.ublox import nmea
from drivers.ublox.codec import encode, framer
from drivers.ublox.device import UbloxDevice
from drivers.ublox.nmea import Avr, Gga, Gst, Hpr, Tar, Vel
from drivers.ublox.settings import Params
from vehicled.core.messages import GnssFix, Heading, Message
from vehicled.core.wire.usage import Unused

FILES = ("quectel_nmea_get", "trimble_nmea", "septentriox5_nmea", "pygpsdata-nmea4")


def lines(real_data: Path, name: str) -> dict[str, tuple[Any, Any]]:
    """Sentences by name: ours, and that of pynmeagps."""
    path = real_data / "captures2" / "gnss" / f"pynmeagps__{name}.log"
    if not path.is_file():
        pytest.skip(f"{name} is not among the shared captures")
    found = {}
    for line in path.read_bytes().splitlines():
        read = nmea.parse(line + b"\r\n") if line.startswith(b"$") else None
        if read is not None:
            assert read.lost == (), line
            found[nmea.name_of(line + b"\r\n")] = (
                read.sentence,
                NMEAReader.parse(line + b"\r\n", validate=1),
            )
    return found


def test_quectel(real_data: Path) -> None:
    found = lines(real_data, "quectel_nmea_get")
    tar, theirs = found["PQTMTAR"]
    assert tar == Tar("PQTM", tar.time_ms, 50.968541, 0.012547, 0.86, "4")
    assert (float(theirs.heading), float(theirs.length)) == (50.968541, 0.86)
    vel, theirs = found["PQTMVEL"]
    assert vel == Vel(56_712_100, 1.251, 2.452, 1.245)
    epe, _ = found["PQTMEPE"]
    assert isinstance(epe, Gst)
    assert (epe.latitude_sigma_m, epe.longitude_sigma_m, epe.altitude_sigma_m) == (1.0, 1.0, 1.0)


def test_trimble(real_data: Path) -> None:
    found = lines(real_data, "trimble_nmea")
    avr, _ = found["PTNL,AVR"]
    assert isinstance(avr, Avr)
    ggk, theirs = found["PTNL,GGK"]
    assert isinstance(ggk, Gga)
    assert (ggk.latitude_deg, ggk.longitude_deg) == pytest.approx(
        (float(theirs.lat), float(theirs.lon)), abs=1e-9
    )
    assert (ggk.altitude_msl_m, ggk.geoid_separation_m, ggk.quality, ggk.satellites) == (
        150.79,
        0.0,
        9,
        9,
    )


def test_septentrio(real_data: Path) -> None:
    hrp, _ = lines(real_data, "septentriox5_nmea")["PSSN,HRP"]
    assert hrp == Tar("PSSN", 38_871_000, 23.455, 0.123, hrp.length_m, "0")
    assert isnan(hrp.length_m)


def test_ublox(real_data: Path) -> None:
    pubx, theirs = lines(real_data, "pygpsdata-nmea4")["PUBX,00"]
    assert isinstance(pubx, Gga)
    assert (pubx.latitude_deg, pubx.longitude_deg) == pytest.approx(
        (float(theirs.lat), float(theirs.lon)), abs=1e-9
    )
    assert (pubx.quality, pubx.satellites, pubx.hdop, pubx.altitude_msl_m) == (1, 6, 5.88, 104.461)
    assert (pubx.horizontal_sigma_m, pubx.vertical_sigma_m) == (29.0, 31.0)


# Lines of receivers in public code: the first has the checksum of NMEA, the second a CRC-32.
WITH_XOR = (
    b"$KSXT,20211016083433.00,116.31296102,39.95817066,49.4911,223.57,-11.32,330.19,0.024,,1,3,28,"
    b"27,,,,-0.012,0.021,0.020,,*2D\r\n"
)
WITH_CRC = (
    b"$KSXT,20201222075720.00,119.17084152,32.07387900,83.5770,269.94,1.19,207.28,0.001,,3,3,25,25,-3.617,-4.468,-7.860,"
    b"-0.000,-0.001,-0.022,1.0,56,*33736701\r\n"
)
KSXT = WITH_XOR, WITH_CRC


@pytest.mark.parametrize("cut", [1, 50, 1000])
def test_ksxt_of_unicore_and_comnav_with_either_checksum(cut: int) -> None:
    data, frames = framer(), []
    for at in range(0, len(b"".join(KSXT)), cut):
        frames += data.feed(b"".join(KSXT)[at : at + cut])
    assert [frame for _, frame in frames] == list(KSXT)
    read = [nmea.parse(frame) for _, frame in frames]
    assert [each.sentence for each in read if each] == [
        Hpr("KSXT", 30_873_000, 223.57, "4"),
        Hpr("KSXT", 28_640_000, 269.94, "4"),
    ]
    assert all(each is not None and each.lost == () for each in read)
    for line in KSXT:
        for at in (7, 40, len(line) - 3):
            broken = bytearray(line)
            broken[at] ^= 1
            assert framer().feed(bytes(broken)) == []


def receiver(line: bytes) -> tuple[UbloxDevice, list[Message]]:
    device = UbloxDevice(Params(configure=False, protocol="nmea"), [GnssFix, Heading], 1)
    return device, [each for k in range(12) for each in device.on_rx(line, (k + 1) * 10**9)]


@pytest.mark.parametrize(
    ("quality", "used"), [("0", False), ("1", False), ("2", False), ("3", True), ("7", False)]
)
def test_the_quality_of_the_heading_of_ksxt_is_not_that_of_its_position(
    quality: str, used: bool
) -> None:
    body = KSXT[0][1:].partition(b"*")[0].decode().split(",")
    body[10], body[11] = "3", quality
    _, found = receiver(nmea._line(",".join(body)))
    assert any(isinstance(each, Heading) for each in found) is used
    assert not any(isinstance(each, GnssFix) for each in found)


def test_a_position_that_only_ksxt_has_is_named() -> None:
    device, _ = receiver(KSXT[0])
    assert Unused.NO_GGA in {loss.reason for loss in device.usage.of("KSXT").lost}


def test_ksxt_in_both_directions() -> None:
    for sentence in (Hpr("KSXT", 30_873_120, 223.57, "4"), Hpr("KSXT", None, 1.0, "5")):
        read = nmea.parse(encode(sentence))
        assert read is not None
        assert read.sentence == sentence
