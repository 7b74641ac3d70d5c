"""Files of formats that no driver reads are named, with evidence and a cure, and never by
chance."""

import os
import struct
import zlib
from pathlib import Path
from random import Random

import pytest

from vehicled.cli import main
from vehicled.offline.recordings.errors import RecordingError
from vehicled.offline.recordings.foreign.importing import import_log
from vehicled.offline.recordings.foreign.recognise import recognise


def ccitt(data: bytes) -> int:
    """CRC of Septentrio and VectorNav, bit by bit from their documents."""
    crc = 0
    for octet in data:
        crc ^= octet << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021) & 0xFFFF if crc & 0x8000 else crc << 1 & 0xFFFF
    return crc


def crc32(data: bytes) -> int:
    """CRC of NovAtel, bit by bit from its document."""
    crc = 0
    for octet in data:
        crc ^= octet
        for _ in range(8):
            crc = crc >> 1 ^ 0xEDB88320 if crc & 1 else crc >> 1
    return crc


def novatel(number: int, size: int) -> bytes:
    head = b"\xaa\x44\x12\x1c" + struct.pack(
        "<HBBHHBBHIIHH", number, 0, 32, size, 0, 0, 0, 2200, 1, 0, 0, 0
    )
    return head + bytes(size) + struct.pack("<I", crc32(head + bytes(size)))


def short_novatel(number: int, size: int) -> bytes:
    head = b"\xaa\x44\x13" + struct.pack("<BHHI", size, number, 2200, 1000) + bytes(0)
    head += bytes(12 - len(head))
    return head + bytes(size) + struct.pack("<I", crc32(head + bytes(size)))


def text_log(name: str) -> bytes:
    body = f"{name},COM1,0,1.0,FINE,2200,1.000,0,0,0;SOL_COMPUTED,SINGLE,48.2,16.4".encode()
    return b"#" + body + b"*%08x\r\n" % crc32(body)


def sentence(body: str) -> bytes:
    check = 0
    for octet in body.encode():
        check ^= octet
    return f"${body}*{check:02X}\r\n".encode()


def fixposition_binary(number: int) -> bytes:
    return b"f!" + struct.pack("<HHH", number, 20, 100) + bytes(24)


def vectornav(seed: int) -> bytes:
    body = bytes([0x81, 0x01]) + struct.pack("<HH", 0x8101, 1) + Random(seed).randbytes(40)
    return b"\xfa" + body + struct.pack(">H", ccitt(body))


def skytraq() -> bytes:
    payload = b"\xa8" + bytes(range(58))
    check = 0
    for octet in payload:
        check ^= octet
    return b"\xa0\xa1" + struct.pack(">H", len(payload)) + payload + bytes([check]) + b"\r\n"


def hemisphere() -> bytes:
    return (
        b"$BIN"
        + struct.pack("<HH", 1, 52)
        + bytes(range(52))
        + struct.pack("<H", sum(range(52)))
        + b"\r\n"
    )


STREAMS = {
    "NovAtel": (novatel(42, 72) * 5, "5 binary logs of a NovAtel", "BESTPOS: 5"),
    "NovAtel, short": (
        short_novatel(508, 88) * 5,
        "5 short binary logs of a NovAtel",
        "INSPVAS: 5",
    ),
    "NovAtel, text": (
        text_log("BESTPOSA") * 3 + text_log("INSPVAA") * 2,
        "5 text logs",
        "BESTPOSA: 3, INSPVAA: 2",
    ),
    "Fixposition": (
        sentence("FP,ODOMETRY,2,2200,1.0") * 7,
        "7 messages of a Fixposition",
        "FP_A-ODOMETRY: 7",
    ),
    "Fixposition, binary": (
        fixposition_binary(2001) * 6,
        "binary messages of a Fixposition",
        "FP_B-2001",
    ),
    "VectorNav": (
        b"".join(vectornav(k) for k in range(8)),
        "VectorNav sensor with fields that are not known",
        "0x81",
    ),
    "SkyTraq": (skytraq() * 5, "5 messages of a SkyTraq", "0xA8: 5"),
    "Hemisphere": (hemisphere() * 5, "5 binary messages of a Hemisphere", "Bin1: 5"),
}
FILES = {
    "pcap": (b"\xd4\xc3\xb2\xa1" + bytes(200), "a network capture", "Follow TCP"),
    "pcapng": (b"\x0a\x0d\x0d\x0a" + bytes(200), "a network capture", "Follow TCP"),
    "ULog": (b"ULog\x01\x12\x35\x01" + bytes(200), "a log of PX4", "vehicled log import"),
    "DataFlash": (b"\xa3\x95\x80\x80" + bytes(200), "a log of ArduPilot", "vehicled log import"),
    "MF4": (b"MDF     4.10    " + bytes(200), "MDF, MF4", "BLF or ASC"),
    "ZIP": (b"PK\x03\x04" + bytes(200), "a ZIP archive", "unpack it"),
    "xz": (b"\xfd7zXZ\x00" + bytes(200), "compressed with xz", "unxz"),
    "FIT": (bytes(8) + b".FIT" + bytes(200), "Garmin (FIT)", "GPX"),
    "RINEX": (
        b"     3.04           OBSERVATION DATA    M                   RINEX VERSION / TYPE\n",
        "a RINEX file",
        "RTKLIB",
    ),
    "pos": (
        b"% program   : RTKLIB ver.2.4.3\n%  GPST   latitude(deg)",
        "positions of RTKLIB",
        "vehicled courses",
    ),
    "GPX": (b'<?xml version="1.0"?>\n<gpx version="1.1">', "a GPX file", "vehicled courses"),
    "KML": (b'<?xml version="1.0"?><kml xmlns="x">', "a KML file", "vehicled courses"),
    "VBO": (
        b"File created on 31/07/2006 at 09:55:20\n\n[header]\nsatellites\n[column names]\nsats\n",
        "Racelogic",
        "CSV or GPX",
    ),
}


@pytest.mark.parametrize("name", [*STREAMS, *FILES])
def test_a_format_is_named_with_its_cure(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, called, detail = (STREAMS | FILES)[name]
    file = tmp_path / "recording.bin"
    # A recording begins anywhere.
    file.write_bytes(data if name in FILES else b"\x00\x17" + data)
    assert main(["devices", "decode", str(file)]) == 2
    said = capsys.readouterr().err
    assert called in said
    assert detail in said


def test_mavlink_is_named_by_the_messages_of_its_own_library(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dialect = pytest.importorskip("pymavlink.dialects.v20.ardupilotmega")
    for version, name in ((2, "MAVLink 2"), (1, "MAVLink 1")):
        mav = dialect.MAVLink(None)
        out = b""
        for k in range(20):
            for message in (
                mav.heartbeat_encode(10, 3, 0, 0, 4),
                mav.attitude_encode(k, 0.1, 0.2, 0.3, 0.0, 0.0, 0.0),
                mav.global_position_int_encode(k, 482_000_000, 164_000_000, 1, 1, 1, 1, 1, 1),
            ):
                out += struct.pack(">Q", 1_700_000_000_000_000 + k) + message.pack(
                    mav, force_mavlink1=version == 1
                )
        file = tmp_path / f"{version}.tlog"
        file.write_bytes(out)
        said = str(recognise(out)[0])
        assert f"60 {name} messages of an autopilot" in said
        assert "HEARTBEAT: 20" in said
        assert main(["devices", "decode", str(file)]) == 0
        assert "detected type mavlink" in capsys.readouterr().err
        with pytest.raises(RecordingError, match="mavlogdump"):
            import_log(file, tmp_path / "out.mcap")


def test_captures_of_others_are_named(shared_data: Path) -> None:
    for name, called in (
        ("mavlink/dronekit-python__flight.tlog", "2000 or more MAVLink 1 messages"),
        ("lidar/mrpt__velodyne_hdl32_part1.pcap", "network capture"),
        ("imu/instinct__DynamicSize_vn310-gnss.vnb", "a VectorNav sensor by INSTINCT (.vnb)"),
    ):
        file = shared_data / "captures2" / name
        if not file.is_file():
            pytest.skip(f"{name} is not among the shared captures")
        assert called in str(recognise(file.read_bytes())[0])


def test_what_stands_beside_readable_messages_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mixed.bin"
    gga = sentence("GPGGA,123519,4807.038,N,01131.000,E,4,08,0.9,545.4,M,46.9,M,,")
    file.write_bytes((gga + STREAMS["NovAtel"][0]) * 5)
    assert main(["devices", "decode", str(file)]) == 0
    shown = capsys.readouterr()
    assert "detected type nmea" in shown.err
    assert "also holds 25 binary logs of a NovAtel" in shown.err


def test_chance_names_nothing() -> None:
    for seed in range(4):
        assert recognise(Random(seed).randbytes(200_000)) == []
    assert recognise(b"") == []
    assert recognise(zlib.compress(os.urandom(50_000))) == []
    for sync in (b"\xaa\x44\x12", b"#", b"$FP,", b"\xfd", b"\xfe", b"\xfa", b"\xa0\xa1", b"$BIN"):
        assert recognise(sync * 20_000) == []


def test_hostile_lengths_cost_linear_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes under checksums, for syncs that all claim the longest frame."""
    covered = 0

    def counting(data: bytes) -> int:
        nonlocal covered
        covered += len(data)
        return 1

    monkeypatch.setattr("vehicled.offline.recordings.foreign.recognise.crc16_xmodem", counting)
    monkeypatch.setattr("vehicled.offline.recordings.foreign.recognise._crc32", counting)
    for frame in (
        b"\xaa\x44\x12\x1c" + b"\x00" * 4 + b"\xff\xff" + b"\x00" * 6,
        b"\xfa" + bytes(9),
    ):
        data = frame * (400_000 // len(frame))
        covered = 0
        assert recognise(data) == []
        assert covered < 8 * len(data)
