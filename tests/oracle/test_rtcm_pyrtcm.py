"""Frames, types and stations against pyrtcm, and positions against pynmeagps: parsers that no one here wrote."""

import io
import json
from collections import Counter
from math import degrees, radians
from pathlib import Path

import pyproj
import pytest
from pynmeagps import NMEAReader
from pyrtcm import RTCMReader

from drivers.ntrip.gga import encode_gga
from drivers.ntrip.sourcetable import Mountpoint
from drivers.rtcm.codec import FrameReader, decode_station, message_type, station_of
from sim_backend.emulators.corrections import station_message
from vehicled.core.messages import CarrierSolution, FixType, GnssFix

CAPTURES = ["rtcm/pygnssutils__ntrip_encode_none.bin", "rtcm/gpsd__rtcm3.2.log"]


@pytest.fixture(params=CAPTURES)
def capture(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def test_counts_per_type_are_those_of_the_readme(shared_data: Path, capture: str):
    wanted = json.loads((shared_data / "captures" / "counts.json").read_text())[capture]
    reader = FrameReader()
    frames = reader.feed((shared_data / "captures" / capture).read_bytes()) + reader.flush()
    assert Counter(str(message_type(frame)) for frame in frames) == wanted["counts"]
    assert reader.dropped_bytes == wanted["extra"]["unframed_bytes"]


def test_rtcm_is_found_between_other_protocols(shared_data: Path):
    """A receiver's port with UBX, NMEA and RTCM on it: only whole frames of RTCM come out."""
    name = "gnss/gpsd__ublox-zed-f9r.log"
    wanted = json.loads((shared_data / "captures" / "counts.json").read_text())[name]
    reader = FrameReader()
    frames = reader.feed((shared_data / "captures" / name).read_bytes()) + reader.flush()
    assert len(frames) == wanted["extra"]["by_protocol"]["RTCM3"]
    counts = Counter(str(message_type(frame)) for frame in frames)
    assert counts == {kind: count for kind, count in wanted["counts"].items() if kind.isdigit()}


def test_frames_types_and_stations_are_those_of_pyrtcm(shared_data: Path, capture: str):
    stream = (shared_data / "captures" / capture).read_bytes()
    reader = FrameReader()
    ours = reader.feed(stream) + reader.flush()
    theirs = [(raw, parsed) for raw, parsed in RTCMReader(io.BytesIO(stream), quitonerror=0) if raw is not None]
    assert ours == [raw for raw, _ in theirs]
    stations = 0
    for frame, (_, parsed) in zip(ours, theirs):
        assert str(message_type(frame)) == parsed.identity.split(".")[0].removesuffix("(B)")
        if station_of(frame) is not None and hasattr(parsed, "DF003"):
            assert station_of(frame) == parsed.DF003
        station = decode_station(frame)
        if station is not None:
            stations += 1
            assert (station.number, station.virtual) == (parsed.DF003, bool(parsed.DF141))
            assert (station.x_m, station.y_m, station.z_m) == pytest.approx((parsed.DF025, parsed.DF026, parsed.DF027), abs=1e-9)
            assert station.antenna_height_m == pytest.approx(parsed.DF028, abs=1e-9)
    assert stations == sum(1 for frame in ours if message_type(frame) in {1005, 1006})


@pytest.mark.parametrize("latitude_deg", [-89.99999, -12.3456789, 0.0, 0.0000001, 48.137154])
@pytest.mark.parametrize("longitude_deg", [-179.999999, -0.5, 0.0, 11.5761247, 180.0])
def test_positions_are_what_pynmeagps_reads(latitude_deg: float, longitude_deg: float):
    fix = GnssFix(
        0, 0, radians(latitude_deg), radians(longitude_deg), 519.123, fix_type=FixType.FIX_3D, carrier=CarrierSolution.FLOAT,
        differential=True, correction_age_s=1.4, satellites=23, hdop=0.63, utc_ns=1_760_000_000_250_000_000,
    )  # fmt: skip
    parsed = NMEAReader.parse(encode_gga(fix))
    assert parsed.identity == "GPGGA"
    assert (parsed.lat, parsed.lon) == pytest.approx((degrees(fix.latitude_rad), degrees(fix.longitude_rad)), abs=2e-7)
    assert (parsed.quality, parsed.numSV, parsed.HDOP, parsed.diffAge) == (5, 23, 0.63, 1.4)
    assert parsed.alt + parsed.sep == pytest.approx(519.123, abs=0.006)
    assert parsed.time.isoformat() == "08:53:20.250000"


def test_distances_are_good_to_half_a_percent():
    geod = pyproj.Geod(ellps="WGS84")
    places = [(52.0, 10.0), (-36.8, 174.7), (0.0, -179.0), (0.0, 179.0), (89.0, 0.0)]
    for south, west in places:
        for north, east in places:
            _, _, true_m = geod.inv(west, south, east, north)
            stream = Mountpoint("X", latitude_rad=radians(north), longitude_rad=radians(east))
            assert stream.distance_m(radians(south), radians(west)) == pytest.approx(true_m, rel=0.006, abs=1.0)


@pytest.mark.parametrize(
    "place", [(4_027_893.8912, -307_045.4321, 4_919_474.9876), (-2_703_115.9211, -4_291_767.2037, -3_854_247.1)]
)
def test_the_station_message_of_the_emulated_bases_is_read_alike(place: tuple[float, float, float]) -> None:
    theirs = RTCMReader.parse(station_message(place, 2003))
    assert (theirs.identity, theirs.DF003, theirs.DF141) == ("1005", 2003, 0)
    assert pytest.approx(place, abs=1e-4) == (theirs.DF025, theirs.DF026, theirs.DF027)
    assert RTCMReader.parse(station_message(place, 1, virtual=True)).DF141 == 1
