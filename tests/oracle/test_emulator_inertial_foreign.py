"""The emulated inertial units read by others: a foreign parser where there is one, else the tables
of the manuals by hand."""

import struct
from math import cos, degrees, radians, sin
from typing import Any

import pytest

from drivers.imu.set_up import ConfigurableParams
from drivers.imu.vectornav import VectorNavParams
from drivers.imu.witmotion import WitMotionParams
from drivers.imu.xsens import XsensParams
from sim_backend.emulators.bno08x import Bno08xUnit
from sim_backend.emulators.mip import MipUnit
from sim_backend.emulators.vectornav import VectorNavUnit
from sim_backend.emulators.witmotion import WitMotionUnit
from sim_backend.emulators.xsens import XsensUnit
from tests.emulator_bench import MS, START, table
from vehicled.core.messages import Heading, ImuSample

G = 9.80665
YAW = 0.7
FORCE, RATE = (0.5, -0.25, 9.5), (0.1, -0.2, 0.3)


def frame(kind: type[Any], name: str, params: Any) -> bytes:
    """Bytes for one sample from a unit configured by hand, in a level vehicle that points ``YAW``
    left of east."""
    device = table(name, params, ("ImuSample", "Heading"), "serial:/dev/ttyUSB0?baud=921600")
    unit = kind("imu", device, 1, START)
    unit.on_message(Heading(START, 0, YAW, 0.01), START)
    unit.on_message(ImuSample(START, 0, FORCE, RATE), START)
    return b"".join(unit.take_tx())


def crc16_xmodem(data: bytes) -> int:
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ (0x1021 if crc & 0x8000 else 0)) & 0xFFFF
    return crc


def test_witmotion_by_another_parser() -> None:
    other: Any = pytest.importorskip("witmotion.protocol")
    data = frame(WitMotionUnit, "witmotion", WitMotionParams())
    assert len(data) == 44
    parsed = {}
    for at in range(0, len(data), 11):
        kind = other.receive_messages[data[at + 1]]
        assert kind.compute_checksum(data[at + 2 : at + 10]) == data[at + 10]
        parsed[data[at + 1]] = kind.parse(data[at + 2 : at + 10])
    assert [a * G / other.G for a in parsed[0x51].a] == pytest.approx(FORCE, abs=3e-3)
    assert [radians(w) for w in parsed[0x52].w] == pytest.approx(RATE, abs=6e-4)
    assert radians(parsed[0x53].yaw) == pytest.approx(YAW, abs=1e-4)
    assert list(parsed) == [0x50, 0x51, 0x52, 0x53]


def test_xsens_by_its_manual() -> None:
    data = frame(XsensUnit, "xsens", XsensParams(configure=False))
    assert data[:3] == b"\xfa\xff\x36"
    assert data[3] == len(data) - 5
    assert sum(data[1:]) % 256 == 0
    found, at = {}, 4
    while at < len(data) - 1:
        xdi, size = struct.unpack_from(">HB", data, at)
        found[xdi] = data[at + 3 : at + 3 + size]
        at += 3 + size
    assert list(found) == [0x1020, 0x1060, 0xE020, 0x2010, 0x4020, 0x8020]
    assert struct.unpack(">3f", found[0x4020]) == pytest.approx(FORCE)
    assert struct.unpack(">3f", found[0x8020]) == pytest.approx(RATE)
    assert struct.unpack(">4f", found[0x2010]) == pytest.approx(
        (cos(YAW / 2), 0.0, 0.0, sin(YAW / 2)), abs=1e-6
    )
    assert struct.unpack(">I", found[0xE020])[0] == 3, "self test passed, filter valid"


def test_vectornav_by_its_manual() -> None:
    data = frame(VectorNavUnit, "vectornav", VectorNavParams(configure=False))
    # Common: TimeStartup, YPR, AngularRate, Accel; IMU: SensSat; Attitude: VpeStatus.
    assert data[:8] == bytes.fromhex("fa 15 2901 0008 0100")
    assert crc16_xmodem(data[1:]) == 0
    _, yaw, pitch, roll, wx, wy, wz, ax, ay, az, saturation, quality = struct.unpack(
        "<Q3f3f3fHH", data[8:-2]
    )
    assert (yaw, pitch, roll) == pytest.approx((90 - degrees(YAW), 0.0, 0.0), abs=1e-3)
    assert (wx, -wy, -wz) == pytest.approx(RATE)
    assert (ax, -ay, -az) == pytest.approx(FORCE)
    assert saturation == 0
    assert quality & 3 == 0, "the attitude is good"


def test_mip_by_its_manual() -> None:
    data = frame(MipUnit, "mip", ConfigurableParams(configure=False))
    assert data[:4] == bytes((0x75, 0x65, 0x80, len(data) - 6))
    a = b = 0
    for byte in data[:-2]:
        a = (a + byte) % 256
        b = (b + a) % 256
    assert data[-2:] == bytes((a, b))
    found, at = {}, 4
    while at < len(data) - 2:
        found[data[at + 1]] = data[at + 2 : at + data[at]]
        at += data[at]
    assert list(found) == [0xD5, 0x04, 0x05, 0x0C, 0x18]
    x, y, z = struct.unpack(">3f", found[0x04])
    assert (x * G, -y * G, -z * G) == pytest.approx(FORCE)
    x, y, z = struct.unpack(">3f", found[0x05])
    assert (x, -y, -z) == pytest.approx(RATE)
    assert struct.unpack(">3f", found[0x0C]) == pytest.approx(
        (0.0, 0.0, radians(90) - YAW), abs=1e-6
    )


def test_bno08x_by_its_data_sheet() -> None:
    from drivers.imu.bno08x import Bno08xParams

    unit = Bno08xUnit("yaw", table("bno08x", Bno08xParams(), ("ImuSample",)), 1, START)
    unit.on_message(ImuSample(START, 0, FORCE, RATE), START)
    unit.on_message(ImuSample(START + 100 * MS, 0, FORCE, RATE), START + 100 * MS)
    for _ in range(3):
        unit.on_time(unit.next_due_ns())
    frames = unit.take_tx()
    assert [each[:3] for each in frames] == [bytes((0xAA, 0xAA, k)) for k in range(3)]
    assert all(sum(each[2:18]) % 256 == each[18] and len(each) == 19 for each in frames)
    yaw, _, _, x, y, z = struct.unpack_from("<6h", frames[0], 3)
    assert yaw / 100 == pytest.approx(degrees(0.03), abs=0.01), (
        "0.1 s at 0.3 rad/s from where it pointed first"
    )
    assert [each * G / 1000 for each in (x, y, z)] == pytest.approx(FORCE, abs=6e-3)
