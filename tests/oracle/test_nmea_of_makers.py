"""Sentences of makers in public recordings, as pynmeagps reads them and as the driver does."""

from math import isnan
from pathlib import Path
from typing import Any

import pytest
from pynmeagps import NMEAReader

from drivers.ublox import nmea
from drivers.ublox.nmea import Avr, Gga, Gst, Tar, Vel

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
            found[nmea.name_of(line + b"\r\n")] = read.sentence, NMEAReader.parse(line + b"\r\n", validate=1)
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
    assert (ggk.latitude_deg, ggk.longitude_deg) == pytest.approx((float(theirs.lat), float(theirs.lon)), abs=1e-9)
    assert (ggk.altitude_msl_m, ggk.geoid_separation_m, ggk.quality, ggk.satellites) == (150.79, 0.0, 9, 9)


def test_septentrio(real_data: Path) -> None:
    hrp, _ = lines(real_data, "septentriox5_nmea")["PSSN,HRP"]
    assert hrp == Tar("PSSN", 38_871_000, 23.455, 0.123, hrp.length_m, "0")
    assert isnan(hrp.length_m)


def test_ublox(real_data: Path) -> None:
    pubx, theirs = lines(real_data, "pygpsdata-nmea4")["PUBX,00"]
    assert isinstance(pubx, Gga)
    assert (pubx.latitude_deg, pubx.longitude_deg) == pytest.approx((float(theirs.lat), float(theirs.lon)), abs=1e-9)
    assert (pubx.quality, pubx.satellites, pubx.hdop, pubx.altitude_msl_m) == (1, 6, 5.88, 104.461)
    assert (pubx.horizontal_sigma_m, pubx.vertical_sigma_m) == (29.0, 31.0)
