"""Recordings of real receivers: the message counts that were published with them, and the values
that pyubx2 and pynmeagps read."""

import io
import json
import struct
from collections import Counter
from itertools import pairwise
from math import hypot, isclose, isnan
from pathlib import Path
from random import Random
from statistics import pstdev
from typing import Any, Literal

import pytest
from pynmeagps import NMEAReader
from pyubx2 import SETPOLL, UBXReader
from pyubx2.ubxtypes_configdb import UBX_CONFIG_DATABASE
from pyubx2.ubxtypes_core import UBX_MSGIDS

from drivers.ublox import keys, nmea
from drivers.ublox.codec import (
    NMEA,
    UBX,
    decode,
    decode_frame,
    encode,
    framer,
    has_checksum,
    parse_ubx,
    ubx_frame,
)
from drivers.ublox.device import UbloxDevice
from drivers.ublox.layouts import EsfMeas, EsfSensor, EsfStatus, NavPvt, SecSig
from drivers.ublox.names import IDS, NAMES
from drivers.ublox.nmea import Gga, Gns
from drivers.ublox.settings import Params
from tests.grid import sampled
from vehicled.core.messages import CarrierSolution, Event, GnssFix, Message

# pyubx2 name and scale by field of ours; a field that is not named here is a bit field and compared
# by its bits below.
SAME: dict[str, dict[str, tuple[str, float]]] = {
    "NAV-PVT": {
        "itow_ms": ("iTOW", 1), "year": ("year", 1), "month": ("month", 1), "day": ("day", 1),
        "hour": ("hour", 1), "minute": ("min", 1), "second": ("second", 1),
        "time_accuracy_ns": ("tAcc", 1), "nano_ns": ("nano", 1), "fix_type": ("fixType", 1),
        "fix_ok": ("gnssFixOk", 1), "differential": ("diffSoln", 1), "carrier": ("carrSoln", 1),
        "satellites": ("numSV", 1), "longitude_deg_e7": ("lon", 1e-7),
        "latitude_deg_e7": ("lat", 1e-7), "height_mm": ("height", 1), "height_msl_mm": ("hMSL", 1),
        "horizontal_accuracy_mm": ("hAcc", 1), "vertical_accuracy_mm": ("vAcc", 1),
        "velocity_north_mmps": ("velN", 1), "velocity_east_mmps": ("velE", 1),
        "velocity_down_mmps": ("velD", 1), "ground_speed_mmps": ("gSpeed", 1),
        "course_deg_e5": ("headMot", 1e-5), "speed_accuracy_mmps": ("sAcc", 1),
        "course_accuracy_deg_e5": ("headAcc", 1e-5), "pdop_e2": ("pDOP", 1e-2),
        "position_invalid": ("invalidLlh", 1), "correction_age_code": ("lastCorrectionAge", 1),
        "vehicle_heading_deg_e5": ("headVeh", 1e-5),
        "magnetic_declination_deg_e2": ("magDec", 1e-2),
        "magnetic_accuracy_deg_e2": ("magAcc", 1e-2),
    },
    "NAV-COV": {
        "itow_ms": ("iTOW", 1), "version": ("version", 1),
        "position_valid": ("posCovValid", 1), "velocity_valid": ("velCovValid", 1),
        **{f"position_{axes.lower()}": (f"posCov{axes}", 1)
            for axes in ("NN", "NE", "ND", "EE", "ED", "DD")},
        **{f"velocity_{axes.lower()}": (f"velCov{axes}", 1)
            for axes in ("NN", "NE", "ND", "EE", "ED", "DD")},
    },
    "NAV-RELPOSNED": {
        "version": ("version", 1), "station": ("refStationID", 1), "itow_ms": ("iTOW", 1),
        "heading_deg_e5": ("relPosHeading", 1e-5),
        "north_accuracy_mm_e1": ("accN", 0.1), "east_accuracy_mm_e1": ("accE", 0.1),
        "down_accuracy_mm_e1": ("accD", 0.1), "length_accuracy_mm_e1": ("accLength", 0.1),
        "heading_accuracy_deg_e5": ("accHeading", 1e-5), "fix_ok": ("gnssFixOK", 1),
        "position_valid": ("relPosValid", 1), "carrier": ("carrSoln", 1),
        "heading_valid": ("relPosHeadingValid", 1), "normalised": ("relPosNormalized", 1),
    },
    "NAV-DOP": {
        "itow_ms": ("iTOW", 1), **{f"{name}dop_e2": (f"{name}DOP", 1e-2) for name in "gptvhne"}
    },
    "NAV-STATUS": {
        "itow_ms": ("iTOW", 1), "fix_type": ("gpsFix", 1), "spoofing": ("spoofDetState", 1),
        "time_to_first_fix_ms": ("ttff", 1), "since_start_ms": ("msss", 1),
    },
    "NAV-TIMELS": {
        "itow_ms": ("iTOW", 1), "version": ("version", 1), "source": ("srcOfCurrLs", 1),
        "leap_s": ("currLs", 1), "change_source": ("srcOfLsChange", 1), "change_s": ("lsChange", 1),
        "to_change_s": ("timeToLsEvent", 1), "change_week": ("dateOfLsGpsWn", 1),
        "change_day": ("dateOfLsGpsDn", 1),
    },
    "NAV-PVAT": {
        "itow_ms": ("iTOW", 1), "version": ("version", 1), "year": ("year", 1),
        "month": ("month", 1), "day": ("day", 1), "hour": ("hour", 1), "minute": ("min", 1),
        "second": ("sec", 1), "time_accuracy_ns": ("tAcc", 1), "nano_ns": ("nano", 1),
        "fix_type": ("fixType", 1), "heading_valid": ("vehHeadingValid", 1),
        "satellites": ("numSV", 1), "longitude_deg_e7": ("lon", 1e-7),
        "latitude_deg_e7": ("lat", 1e-7), "height_mm": ("height", 1), "height_msl_mm": ("hMSL", 1),
        "horizontal_accuracy_mm": ("hAcc", 1), "vertical_accuracy_mm": ("vAcc", 1),
        "velocity_north_mmps": ("velN", 1), "velocity_east_mmps": ("velE", 1),
        "velocity_down_mmps": ("velD", 1), "ground_speed_mmps": ("gSpeed", 1),
        "speed_accuracy_mmps": ("sAcc", 1), "roll_deg_e5": ("vehRoll", 1e-5),
        "pitch_deg_e5": ("vehPitch", 1e-5), "heading_deg_e5": ("vehHeading", 1e-5),
        "course_deg_e5": ("motHeading", 1e-5), "heading_accuracy_deg_e2": ("accHeading", 1e-2),
        "ellipse_major_mm": ("errEllipseMajor", 1),
    },
    "NAV-EOE": {"itow_ms": ("iTOW", 1)},
    "ACK-ACK": {"message_class": ("clsID", 1), "message_id": ("msgID", 1)},
    "ACK-NAK": {"message_class": ("clsID", 1), "message_id": ("msgID", 1)},
}  # fmt: skip
BLOCK = {
    "block": "blockId", "jamming": "jammingState", "antenna_status": "antStatus",
    "antenna_power": "antPower", "post_status": "postStatus", "noise_per_ms": "noisePerMS",
    "agc": "agcCnt", "jamming_indicator": "jamInd", "offset_i": "ofsI", "magnitude_i": "magI",
    "offset_q": "ofsQ", "magnitude_q": "magQ",
}  # fmt: skip
HIGH_PRECISION = {
    "lon": ("longitude_deg_e7", 1e-7, "longitude_deg_e9", 1e-9),
    "lat": ("latitude_deg_e7", 1e-7, "latitude_deg_e9", 1e-9),
    "height": ("height_mm", 1.0, "height_mm_e1", 0.1),
    "hMSL": ("height_msl_mm", 1.0, "height_msl_mm_e1", 0.1),
}
PARTS = {
    "N": ("north_cm", "north_mm_e1"), "E": ("east_cm", "east_mm_e1"),
    "D": ("down_cm", "down_mm_e1"), "Length": ("length_cm", "length_mm_e1")
}  # fmt: skip
SENTENCES: dict[str, dict[str, str]] = {
    "GGA": {
        "latitude_deg": "lat", "longitude_deg": "lon", "quality": "quality", "satellites": "numSV",
        "hdop": "HDOP", "altitude_msl_m": "alt", "geoid_separation_m": "sep",
        "correction_age_s": "diffAge", "time_ms": "time",
    },
    "RMC": {
        "latitude_deg": "lat", "longitude_deg": "lon", "speed_kn": "spd", "course_deg": "cog",
        "mode": "posMode", "day": "date", "time_ms": "time",
    },
    "GST": {
        "range_rms_m": "rangeRms", "latitude_sigma_m": "stdLat", "longitude_sigma_m": "stdLong",
        "altitude_sigma_m": "stdAlt", "time_ms": "time",
    },
    "VTG": {"course_deg": "cogt", "speed_kn": "sogn", "speed_kmh": "sogk", "mode": "posMode"},
    "GSA": {"mode": "opMode", "dimensions": "navMode", "pdop": "PDOP", "hdop": "HDOP",
        "vdop": "VDOP"},
    "ZDA": {"time_ms": "time"},
}  # fmt: skip


def captures(shared_data: Path) -> dict[str, Any]:
    listing = json.loads((shared_data / "captures" / "counts.json").read_text())
    return {
        name: entry
        for name, entry in listing.items()
        # The chunked transfer is a matter of the correction client; the others hold no messages.
        if name.startswith(("gnss/", "rtcm/")) and entry["counts"] and "chunked" not in name
    }


def listed(shared_data: Path, kind: str) -> int:
    """Messages of a kind, of any talker, by the published counts."""
    return sum(
        count
        for entry in captures(shared_data).values()
        for name, count in entry["counts"].items()
        if name.endswith(kind)
    )


def frames_of(data: bytes) -> list[tuple[str, bytes]]:
    stream = framer()
    return stream.feed(data) + stream.flush()


def test_every_capture_has_the_counts_published_with_it(shared_data: Path) -> None:
    found = captures(shared_data)
    assert len(found) >= 14
    for name, entry in found.items():
        data = (shared_data / "captures" / name).read_bytes()
        assert Counter(kind for kind, _ in decode(data)) == entry["counts"], name
        stream = framer()
        frames = stream.feed(data) + stream.flush()
        assert Counter(protocol for protocol, _ in frames) == {
            {"UBX": "ubx", "NMEA": "nmea", "RTCM3": "rtcm"}[protocol]: count
            for protocol, count in entry["extra"]["by_protocol"].items()
        }
        assert stream.dropped_bytes == entry["extra"]["unframed_bytes"], name


@pytest.mark.parametrize(
    ("largest", "frames"), sampled([(40_000, 500), (200_000, 3_000)], lambda case: case[1] == 500)
)
def test_frames_are_those_of_pyubx2(shared_data: Path, largest: int, frames: int) -> None:
    """Byte for byte and in order, where its reader manages the file at all and in bearable time."""
    compared = 0
    for name in captures(shared_data):
        data = (shared_data / "captures" / name).read_bytes()
        if len(data) > largest:
            continue
        reader = UBXReader(io.BytesIO(data), protfilter=7, quitonerror=0)
        theirs = []
        while True:
            try:
                raw, parsed = reader.read()
            except Exception:  # noqa: BLE001 - whatever escapes it on damaged files is the point of the test
                continue
            if raw is None:
                break
            if parsed is not None:
                theirs.append(raw)
        ours = [frame for _, frame in frames_of(data)]
        # It also returns what it cannot check; what both have must be the same, in the same order.
        assert set(theirs) <= set(ours), name
        assert [frame for frame in ours if frame in set(theirs)] == theirs, name
        compared += len(theirs)
    assert compared > frames


def check_ubx(name: str, ours: Any, theirs: Any) -> None:
    for field, (attribute, scale) in SAME.get(name, {}).items():
        assert isclose(
            getattr(ours, field) * scale, getattr(theirs, attribute), rel_tol=1e-12, abs_tol=1e-10
        ), (name, field)
    if name == "NAV-PVT":
        assert (
            ours.valid & 15
            == theirs.validDate
            | theirs.validTime << 1
            | theirs.fullyResolved << 2
            | theirs.validMag << 3
        )
        assert (
            ours.flags2 >> 5
            == theirs.confirmedAvai | theirs.confirmedDate << 1 | theirs.confirmedTime << 2
        )
    elif name == "NAV-HPPOSLLH":
        for attribute, (coarse, coarse_scale, fine, fine_scale) in HIGH_PRECISION.items():
            value = getattr(ours, coarse) * coarse_scale + getattr(ours, fine) * fine_scale
            assert isclose(value, getattr(theirs, attribute), rel_tol=1e-14, abs_tol=1e-11), (
                attribute
            )
        assert (ours.itow_ms, ours.version, ours.position_invalid) == (
            theirs.iTOW,
            theirs.version,
            theirs.invalidLlh,
        )
        assert isclose(ours.horizontal_accuracy_mm_e1 * 0.1, theirs.hAcc)
        assert isclose(ours.vertical_accuracy_mm_e1 * 0.1, theirs.vAcc)
    elif name == "NAV-RELPOSNED":
        for attribute, (coarse, fine) in PARTS.items():
            value = getattr(ours, coarse) + getattr(ours, fine) * 0.01
            assert isclose(value, getattr(theirs, f"relPos{attribute}"), abs_tol=1e-9), attribute
        assert ours.extrapolated == bool(theirs.refPosMiss or theirs.refObsMiss)
    elif name == "MON-RF":
        assert theirs.nBlocks == len(ours.blocks)
        for number, block in enumerate(ours.blocks, start=1):
            for field, attribute in BLOCK.items():
                assert getattr(block, field) == getattr(theirs, f"{attribute}_{number:02d}"), field
    elif name == "MON-VER":
        assert ours.software == theirs.swVersion.rstrip(b"\0").decode()
        assert ours.hardware == theirs.hwVersion.rstrip(b"\0").decode()
        for number, extension in enumerate(ours.extensions, start=1):
            assert extension == getattr(theirs, f"extension_{number:02d}").rstrip(b"\0").decode()
    elif name == "CFG-VALGET" and isinstance(ours, keys.CfgValget):
        for key, value in ours.items:
            label = next(
                (label for label, (number, _) in UBX_CONFIG_DATABASE.items() if number == key),
                f"CFG_{key:#010x}",
            )
            got = getattr(theirs, label, value)
            raw = int.from_bytes(got, "little") if isinstance(got, bytes) else got
            # Signed and floating values are carried as the bits on the wire.
            assert raw == value or raw < 0 or isinstance(raw, float), label


def test_ubx_values_are_those_of_pyubx2(shared_data: Path) -> None:
    compared: Counter[str] = Counter()
    for name in captures(shared_data):
        for protocol, frame in frames_of((shared_data / "captures" / name).read_bytes()):
            ours = parse_ubx(frame) if protocol == UBX else None
            if ours is None:
                continue
            kind, _ = decode_frame(protocol, frame)
            poll = isinstance(ours, keys.CfgValgetPoll | keys.CfgValset)
            theirs = UBXReader.parse(frame, msgmode=SETPOLL if poll else 0)
            assert theirs.identity == kind
            check_ubx(kind, ours, theirs)
            compared[kind] += 1
    known = {
        "NAV-PVT",
        "NAV-HPPOSLLH",
        "NAV-COV",
        "NAV-RELPOSNED",
        "NAV-DOP",
        "NAV-EOE",
        "MON-RF",
        "MON-VER",
        "ACK-ACK",
        "ACK-NAK",
    }
    assert known <= compared.keys()
    assert compared["NAV-PVT"] == listed(shared_data, "NAV-PVT") > 100
    assert compared["CFG-VALGET"] == 48


def test_layouts_without_a_recording_are_those_of_pyubx2() -> None:
    """NAV-PVAT, and the NAV-RELPOSNED of the NEO-M8P, filled with any bytes."""
    chance = Random(5)
    for _ in range(50):
        frame = ubx_frame(b"\x01\x17", chance.randbytes(116))
        ours, theirs = parse_ubx(frame), UBXReader.parse(frame)
        check_ubx("NAV-PVAT", ours, theirs)
        flags = theirs.gnssFixOK, theirs.diffSoln, theirs.carrSoln
        assert (ours.pvt.fix_ok, ours.pvt.differential, ours.pvt.carrier) == flags
        short = ubx_frame(
            b"\x01\x3c",
            b"\0"
            + chance.randbytes(23)
            + bytes(chance.randint(0, 99) for _ in range(3))
            + chance.randbytes(13),
        )
        vector, other = parse_ubx(short), UBXReader.parse(short)
        for axis, attribute in (("north", "relPosN"), ("east", "relPosE"), ("down", "relPosD")):
            fine = getattr(vector, f"{axis}_cm") + getattr(vector, f"{axis}_mm_e1") * 0.01
            assert isclose(fine, getattr(other, attribute), abs_tol=1e-9)
        assert isclose(
            vector.length_m, hypot(other.relPosN, other.relPosE, other.relPosD) * 0.01, abs_tol=1e-4
        )
        assert (vector.moving, vector.carrier, vector.fix_ok) == (
            other.isMoving,
            other.carrSoln,
            other.gnssFixOK,
        )


def test_messages_of_inertial_receivers_and_of_newer_firmware_are_those_of_pyubx2() -> None:
    """Any bytes, in both directions, because there are recordings of a few only."""
    attitude = {
        "itow_ms": ("iTOW", 1), "roll_deg_e5": ("roll", 1e-5), "pitch_deg_e5": ("pitch", 1e-5),
        "heading_deg_e5": ("heading", 1e-5), "roll_accuracy_deg_e5": ("accRoll", 1e-5),
        "pitch_accuracy_deg_e5": ("accPitch", 1e-5),
        "heading_accuracy_deg_e5": ("accHeading", 1e-5),
    }  # fmt: skip
    motion = {
        "itow_ms": ("iTOW", 1),
        **{f"rate_{axis}_dps_e3": (f"{axis}AngRate", 1e-3) for axis in "xyz"},
        **{f"acceleration_{axis}_mps2_e2": (f"{axis}Accel", 1e-2) for axis in "xyz"},
    }  # fmt: skip
    layouts: dict[str, tuple[int, dict[str, tuple[str, float]]]] = {
        "NAV-ATT": (32, attitude),
        "HNR-ATT": (32, attitude),
        "HNR-INS": (36, motion),
        "ESF-INS": (36, motion),
        "HNR-PVT": (
            72,
            {
                "itow_ms": ("iTOW", 1), "year": ("year", 1), "month": ("month", 1),
                "second": ("second", 1), "nano_ns": ("nano", 1), "fix_type": ("gpsFix", 1),
                "longitude_deg_e7": ("lon", 1e-7), "latitude_deg_e7": ("lat", 1e-7),
                "height_mm": ("height", 1), "height_msl_mm": ("hMSL", 1),
                "ground_speed_mmps": ("gSpeed", 1), "speed_mmps": ("speed", 1),
                "course_deg_e5": ("headMot", 1e-5), "vehicle_heading_deg_e5": ("headVeh", 1e-5),
                "horizontal_accuracy_mm": ("hAcc", 1), "vertical_accuracy_mm": ("vAcc", 1),
                "speed_accuracy_mmps": ("sAcc", 1), "heading_accuracy_deg_e5": ("headAcc", 1e-5),
            },
        ),
        "NAV-SVIN": (
            40,
            {
                "itow_ms": ("iTOW", 1), "duration_s": ("dur", 1), "mean_x_cm": ("meanX", 1),
                "mean_y_cm": ("meanY", 1), "mean_z_cm": ("meanZ", 1),
                "mean_x_mm_e1": ("meanXHP", 1), "mean_accuracy_mm_e1": ("meanAcc", 1),
                "observations": ("obs", 1), "valid": ("valid", 1), "active": ("active", 1),
            },
        ),
        "ESF-ALG": (
            16,
            {"itow_ms": ("iTOW", 1), "yaw_deg_e2": ("yaw", 1e-2), "pitch_deg_e2": ("pitch", 1e-2),
             "roll_deg_e2": ("roll", 1e-2)},
        ),
        "RXM-COR": (12,
            {"used": ("msgUsed", 1), "message": ("msgType", 1), "subtype": ("msgSubType", 1)}),
    }  # fmt: skip
    chance = Random(7)
    for name, (size, fields) in layouts.items():
        for _ in range(20):
            frame = ubx_frame(IDS[name], chance.randbytes(size))
            ours, theirs = parse_ubx(frame), UBXReader.parse(frame)
            for field, (attribute, scale) in fields.items():
                assert getattr(ours, field) * scale == pytest.approx(
                    getattr(theirs, attribute), rel=1e-9, abs=1e-9
                ), (name, field)
            # Reserved bytes are written as zero, so the frame is compared by its fields.
            assert parse_ubx(encode(ours)) == ours


def test_messages_with_a_variable_number_of_parts_are_those_of_pyubx2() -> None:
    chance = Random(8)
    for count in (0, 1, 7):
        sensors = tuple(EsfSensor(*chance.randbytes(4)) for _ in range(count))
        status = EsfStatus(1000, 2, 1, 2, 1, sensors)
        theirs = UBXReader.parse(encode(status))
        assert (theirs.fusionMode, theirs.numSens) == (1, count)
        for number, sensor in enumerate(sensors, start=1):
            assert getattr(theirs, f"type_{number:02d}") == sensor.status1 & 0x3F
            assert getattr(theirs, f"freq_{number:02d}") == sensor.frequency_hz
            assert getattr(theirs, f"badMeas_{number:02d}") == sensor.faults & 1
        assert parse_ubx(encode(status)) == status
        for calibrated in (None, 77):
            data = tuple((chance.randrange(64), chance.randrange(1 << 24)) for _ in range(count))
            measures = EsfMeas(5, 8 if calibrated is not None else 0, 3, data, calibrated)
            theirs = UBXReader.parse(encode(measures))
            assert (theirs.timeTag, theirs.numMeas, theirs.id) == (5, count, 3)
            for number, (kind, value) in enumerate(data, start=1):
                assert (
                    getattr(theirs, f"dataType_{number:02d}"),
                    getattr(theirs, f"dataField_{number:02d}"),
                ) == (kind, value)
            assert parse_ubx(encode(measures)) == measures
        security = SecSig(2, 3, 2, tuple(chance.randrange(1 << 25) for _ in range(count)))
        theirs = UBXReader.parse(encode(security))
        assert (theirs.jammingState, theirs.spoofingState, theirs.jamNumCentFreqs) == (3, 2, count)
        assert parse_ubx(encode(security)) == security
    first = UBXReader.parse(encode(SecSig(1, 2, 3)))
    assert (first.jammingState, first.spoofingState) == (2, 3)


def test_recorded_messages_of_inertial_receivers_are_read(shared_data: Path) -> None:
    """A NEO-M8U and M8L of others; the receivers' own numbers."""
    folder = shared_data / "captures2" / "gnss"
    if not folder.exists():
        pytest.skip(f"needs the recordings in {folder}")
    found: dict[str, list[Any]] = {}
    for name in (
        "gpsd__ublox-neo-m8u.log",
        "pyubx2__pygpsdata-HNR.log",
        "pyubx2__pygpsdata-ESF.log",
        "swift__nav_att.ubx",
        "swift__hnr_pvt.ubx",
    ):
        for protocol, frame in frames_of((folder / name).read_bytes()):
            ours = parse_ubx(frame) if protocol == UBX else None
            kind, _ = decode_frame(protocol, frame)
            if kind.startswith(("HNR", "ESF", "NAV-ATT")) and kind != "ESF-RAW":
                assert ours is not None, (name, kind)
                found.setdefault(kind, []).append(ours)
                # Some receivers fill the reserved bytes.
                assert parse_ubx(encode(ours)) == ours
                assert encode(ours) == frame or kind in ("HNR-PVT", "ESF-ALG"), (name, kind)
    assert {kind: len(each) for kind, each in found.items()} == {
        "ESF-MEAS": 77, "ESF-STATUS": 1, "ESF-INS": 2, "ESF-ALG": 1, "HNR-PVT": 14, "NAV-ATT": 1,
    }  # fmt: skip
    (attitude,) = found["NAV-ATT"]
    assert (attitude.heading_deg_e5, attitude.heading_accuracy_deg_e5) == (29_574_602, 18_470)
    steps = {later.itow_ms - sooner.itow_ms for sooner, later in pairwise(found["HNR-PVT"][:13])}
    assert steps == {50}, "20 Hz"


def test_nmea_values_are_those_of_pynmeagps(shared_data: Path) -> None:
    compared: Counter[str] = Counter()
    for name in captures(shared_data):
        for protocol, frame in frames_of((shared_data / "captures" / name).read_bytes()):
            if protocol != NMEA or not has_checksum(frame):
                continue
            read = nmea.parse(frame)
            if read is None:
                continue
            ours = read.sentence
            theirs = NMEAReader.parse(frame)
            kind = theirs.msgID
            for field, attribute in SENTENCES[kind].items():
                expected: Any = getattr(theirs, attribute, "")
                got = getattr(ours, field)
                if expected == "":
                    assert got in (None, "") or isnan(got), (kind, field)
                elif field == "time_ms":
                    clock = (
                        (expected.hour * 60 + expected.minute) * 60 + expected.second
                    ) * 1000 + expected.microsecond / 1000
                    assert got == clock
                else:
                    # The library rounds places to ten decimals.
                    assert got == (
                        pytest.approx(expected, abs=1e-10)
                        if isinstance(expected, float)
                        else expected
                    ), (kind, field)
            compared[kind] += 1
    assert compared == {
        kind: listed(shared_data, kind) for kind in ("GGA", "RMC", "GST", "VTG", "GSA", "ZDA")
    }


@pytest.mark.parametrize(
    ("lost", "every"), sampled([(0.3, 4), (0.0, 1), (0.3, 1)], lambda case: case[1] > 1)
)
def test_every_position_of_every_capture_is_one_fix(
    shared_data: Path, lost: float, every: int
) -> None:
    """Fixes are as many as distinct epochs with a position, at 115200 baud in pieces, whole and
    with a third of the frames lost."""
    chance, positions, fixes = Random(11), 0, 0
    for file in sorted(shared_data.glob("captures*/gnss/*"))[::every]:
        if file.suffix == ".chk":
            continue  # what a program made of the capture beside it, with repetitions
        frames = [each for each in frames_of(file.read_bytes()) if chance.random() >= lost]
        for protocol in ("nmea", "ubx"):
            receiver = UbloxDevice(
                Params(configure=False, protocol=protocol, silence_s=60.0), [GnssFix], 1
            )
            messages: list[Message] = []
            epochs, now_ns = set(), 1_000_000_000
            for framed, frame in frames:
                now_ns += len(frame) * 10 * 1_000_000_000 // 115_200
                while receiver.next_due_ns() <= now_ns:
                    messages += receiver.on_time(receiver.next_due_ns())
                messages += receiver.on_rx(frame, now_ns)
                match decode_frame(framed, frame)[1]:
                    case Gga(time_ms=int() as time_ms) | Gns(time_ms=int() as time_ms) if (
                        protocol == NMEA
                    ):
                        epochs.add(time_ms)
                    case NavPvt(itow_ms=itow_ms) if protocol == UBX:
                        epochs.add(itow_ms)
            messages += receiver.on_time(now_ns + 1_000_000_000)
            found = sum(isinstance(message, GnssFix) for message in messages)
            assert found == len(epochs), (file.name, protocol)
            positions, fixes = positions + len(epochs), fixes + found
    assert fixes == positions > 400 / every


def test_what_was_decoded_encodes_to_the_same_bytes(shared_data: Path) -> None:
    """The emulator speaks through the same codec. Reserved bytes, which real receivers fill with
    anything, are written as zero."""
    compared: Counter[str] = Counter()
    for name in captures(shared_data):
        for protocol, frame in frames_of((shared_data / "captures" / name).read_bytes()):
            ours = parse_ubx(frame) if protocol == UBX else None
            if ours is None:
                continue
            kind, _ = decode_frame(protocol, frame)
            again = encode(ours)
            assert len(again) == len(frame)
            assert parse_ubx(again) == ours
            if kind not in (
                "NAV-PVT",
                "NAV-COV",
                "NAV-RELPOSNED",
                "MON-RF",
                "NAV-TIMELS",
                "NAV-HPPOSLLH",
            ):
                assert again == frame, kind
            compared[kind] += 1
    assert sum(compared.values()) > 500


def test_keys_are_those_of_pyubx2() -> None:
    for name, key in keys.KEYS.items():
        theirs, kind = UBX_CONFIG_DATABASE[name.replace("-", "_")]
        assert theirs == key, name
        assert int(kind[1:4]) == keys.width_bytes(key), name


def test_names_are_those_of_pyubx2() -> None:
    theirs = {
        key: name
        for key, name in UBX_MSGIDS.items()
        if len(key) == 2 and key[0] < 0x66 and "-" in name
    }
    assert theirs == NAMES


def walk_arrivals(folder: Path) -> list[tuple[int, bytes]]:
    """Bytes of the walk with their arrival in ns, from the time tag that RTKLIB wrote beside them:
    (tick in ms, bytes so far)."""
    data = (folder / "gnss_imu__walk_gnss_1730.ubx").read_bytes()
    tag = (folder / "gnss_imu__walk_gnss_1730.ubx.tag").read_bytes()
    records = list(struct.iter_unpack("<II", tag[76:]))
    assert len(records) > 1_000
    found, start = [], 0
    for tick_ms, stop in [*records, (records[-1][0] + 1, len(data))]:
        found.append((1_000_000_000 + tick_ms * 1_000_000, data[start:stop]))
        start = stop
    return found


@pytest.mark.parametrize("protocol", ["ubx", "nmea"])
def test_a_walk_with_its_scattered_arrivals(
    shared_data: Path, protocol: Literal["ubx", "nmea"]
) -> None:
    """Epochs 250 ms apart whose arrivals scatter by 11 ms; RTK fixed, float for a second, fixed,
    float to the end."""
    receiver = UbloxDevice(
        Params(configure=False, protocol=protocol, latency_ms=24.0), [GnssFix], 1
    )
    messages: list[Message] = []
    for t_rx_ns, data in walk_arrivals(shared_data / "captures" / "gnss"):
        messages += receiver.on_time(t_rx_ns)
        messages += receiver.on_rx(data, t_rx_ns)
    fixes = [message for message in messages if isinstance(message, GnssFix)]
    assert Counter(fix.carrier for fix in fixes) == {
        CarrierSolution.FIXED: 349,
        CarrierSolution.FLOAT: 187,
    }
    states = [
        json.loads(message.fields)
        for message in messages
        if isinstance(message, Event) and message.name == "rtk_state"
    ]
    assert [(state["before"], state["now"]) for state in states] == [
        ("none", "fixed"), ("fixed", "float"), ("float", "fixed"), ("fixed", "float"),
    ]  # fmt: skip
    arrivals = [(b.t_rx_ns - a.t_rx_ns) * 1e-6 for a, b in pairwise(fixes)]
    steps = [(b.t_ns - a.t_ns) * 1e-6 for a, b in pairwise(fixes)]
    assert pstdev(arrivals) > 10.0
    assert pstdev(steps) < 1.0
    assert all(fix.t_ns <= fix.t_rx_ns - 24_000_000 for fix in fixes)
    assert receiver.figures.missed_epochs == 0
