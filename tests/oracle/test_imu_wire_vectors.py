"""N100, WitMotion and BNO08x against what others wrote: vendors' examples, a foreign parser, and
check sums computed bit by bit."""

import struct
from math import degrees, pi, radians
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.imu import bno08x, n100, witmotion
from drivers.imu.base import frames
from vehicled.core.wire.crc import crc8, crc16_xmodem
from vehicled.core.wire.framing import Framer

words = st.integers(-32768, 32767)


def _crc8_maxim(data: bytes) -> int:
    crc = 0
    for byte in data:
        for bit in range(8):
            mix = (crc ^ byte >> bit) & 1
            crc = crc >> 1 ^ (0x8C if mix else 0)
    return crc


def _crc16_xmodem(data: bytes) -> int:
    crc = 0
    for byte in data:
        for bit in range(7, -1, -1):
            mix = (crc >> 15 ^ byte >> bit) & 1
            crc = crc << 1 & 0xFFFF ^ (0x1021 if mix else 0)
    return crc


def _fdilink(kind: int, sn: int, payload: bytes) -> bytes:
    head = struct.pack("4B", 0xFC, kind, len(payload), sn)
    return head + struct.pack(">BH", _crc8_maxim(head), _crc16_xmodem(payload)) + payload + b"\xfd"


def test_check_sums_of_fdilink() -> None:
    assert _crc8_maxim(b"123456789") == crc8(b"123456789") == 0xA1
    assert _crc16_xmodem(b"123456789") == crc16_xmodem(b"123456789") == 0x31C3
    assert crc8(bytes.fromhex("fc 40 38 07")) == 0x8A


def test_n100_imu_frame_by_its_table() -> None:
    gyro, force, mag = (0.5, -0.25, 0.125), (1.5, -2.5, -9.75), (-107.5, 250.0, -300.0)
    payload = struct.pack("<12fq", *gyro, *force, *mag, 39.75, 101325.0, 39.5, 651_487_534)
    frame = _fdilink(0x40, 0xE9, payload)
    assert len(frame) == 64
    ((name, packet),) = n100.decode(frame)
    assert isinstance(packet, n100.ImuPacket)
    assert (name, packet) == (
        "IMU",
        n100.ImuPacket(gyro, force, mag, 39.75, 101325.0, 39.5, 651_487_534),
    )
    assert n100.encode_imu(packet, 0xE9) == frame
    (sample,) = n100.N100Codec().decode(name, frame)
    assert sample.counter == 651_487_534
    assert sample.angular_rate_radps == (0.5, 0.25, -0.125)
    assert sample.specific_force_mps2 == (1.5, 2.5, 9.75)
    assert sample.temperature_k == pytest.approx(312.9)


def test_n100_ahrs_frame_by_its_table() -> None:
    payload = struct.pack("<10fq", 0.5, 0.25, 0.125, 0.75, -0.5, 1.25, 1.0, 0.0, 0.0, 0.0, 77)
    frame = _fdilink(0x41, 3, payload)
    ((name, packet),) = n100.decode(frame)
    assert isinstance(packet, n100.AhrsPacket)
    assert (name, packet) == (
        "AHRS",
        n100.AhrsPacket((0.5, 0.25, 0.125), 0.75, -0.5, 1.25, (1.0, 0.0, 0.0, 0.0), 77),
    )
    assert n100.encode_ahrs(packet, 3) == frame


@pytest.mark.parametrize(("heading_deg", "yaw_deg"), [(360, -270), (90, 0), (180, -90), (45, 45)])
def test_n100_heading_is_clockwise_from_north(heading_deg: float, yaw_deg: float) -> None:
    packet = n100.AhrsPacket((0.0,) * 3, 0.0, 0.0, radians(heading_deg), (1.0, 0.0, 0.0, 0.0), 5)
    (sample,) = n100.N100Codec().decode("", n100.encode_ahrs(packet, 0))
    assert sample.yaw_rad is not None
    assert degrees(sample.yaw_rad) == pytest.approx(yaw_deg, abs=1e-4)
    assert sample.specific_force_mps2 is None
    assert sample.angular_rate_radps is None


def test_n100_types_of_other_firmware_are_named_and_skipped() -> None:
    others = (
        _fdilink(0x42, 0, bytes(84))
        + _fdilink(0x50, 1, b"\xfc\xfd" * 4)
        + _fdilink(0x40, 2, bytes(60))
        + _fdilink(0xF0, 3, b"")
    )
    assert [name for name, _ in n100.decode(others)] == ["INSGPS", "0x50", "IMU", "GROUND"]
    codec = n100.N100Codec()
    for name, frame in frames(n100.N100Codec.protocols, others):
        assert codec.decode(name, frame) == ()


@pytest.mark.parametrize("place", [1, 2, 3, 4, 5, 6, 7, 62, 63])
def test_n100_every_byte_of_a_frame_is_guarded(place: int) -> None:
    frame = bytearray(_fdilink(0x40, 9, bytes(range(56))))
    assert list(n100.decode(bytes(frame)))
    frame[place] ^= 0x10
    assert not list(n100.decode(bytes(frame)))


def test_n100_damaged_length_holds_nothing_back() -> None:
    sound = _fdilink(0x40, 9, bytes(56))
    damaged = bytearray(sound)
    damaged[2] = 0xFF
    framer = Framer((n100.PROTOCOL,))
    assert framer.feed(bytes(damaged) + sound) == [("FDILink", sound)]


def test_witmotion_vector_of_the_vendor() -> None:
    frame = bytes.fromhex("55 51 00 00 ff ff 07 08 7a 03 30")
    ((name, packet),) = witmotion.decode(frame)
    assert name == "ACCELERATION"
    assert isinstance(packet, witmotion.Acceleration)
    g = 9.80665
    assert packet.specific_force_mps2 == pytest.approx(
        (0.0, -16 * g / 32768, 0x807 * 16 * g / 32768)
    )
    assert packet.temperature_k == pytest.approx(273.15 + 8.90)
    assert witmotion.encode(packet) == frame


@given(st.tuples(words, words, words, words))
def test_witmotion_like_another_parser(values: tuple[int, int, int, int]) -> None:
    other: Any = pytest.importorskip("witmotion.protocol")
    body = struct.pack("<4h", *values)
    ours: dict[str, Any] = {}
    theirs: dict[str, Any] = {}
    for code in (0x51, 0x52, 0x53, 0x54, 0x59):
        kind = other.receive_messages[code]
        frame = bytes((0x55, code)) + body + bytes((kind.compute_checksum(body),))
        ((name, ours[name]),) = witmotion.decode(frame)
        theirs[name] = kind.parse(body)
    g = 9.80665 / other.G  # theirs rounds standard gravity
    force = [a * g for a in theirs["ACCELERATION"].a]
    assert ours["ACCELERATION"].specific_force_mps2 == pytest.approx(force)
    assert ours["ACCELERATION"].temperature_k == pytest.approx(
        theirs["ACCELERATION"].temp_celsius + 273.15
    )
    assert ours["GYRO"].angular_rate_radps == pytest.approx([radians(w) for w in theirs["GYRO"].w])
    angle = theirs["ANGLE"]
    assert (ours["ANGLE"].roll_rad, ours["ANGLE"].pitch_rad) == pytest.approx(
        (radians(angle.roll), radians(angle.pitch))
    )
    assert ours["ANGLE"].yaw_rad == pytest.approx(radians(angle.yaw))
    assert ours["MAGNETIC"].counts == theirs["MAGNETIC"].mag
    q = ours["QUATERNION"]
    assert (q.w, q.x, q.y, q.z) == theirs["QUATERNION"].q


def test_witmotion_register_writes_like_another_library() -> None:
    other: Any = pytest.importorskip("witmotion.protocol")
    for rate_hz, code in witmotion.RATE_CODES.items():
        theirs = other.ConfigCommand(
            other.Register.rate, other.ReturnRateSelect[f"rate_{rate_hz}hz"].value
        )
        assert witmotion.command(witmotion.REGISTER_RATE, code) == theirs.serialize()
    assert witmotion.command(witmotion.REGISTER_CONTENT, 0x21E) == bytes.fromhex("FF AA 02 1E 02")
    assert witmotion.command(0x69, 0xB588) == witmotion.UNLOCK


BNO = bytes.fromhex("AA AA DE 01 00 92 FF 25 08 8D FE EC FF D1 03 00 00 00 E7")


def test_bno08x_example_of_the_data_sheet() -> None:
    ((name, packet),) = bno08x.decode(BNO)
    assert name == "RVC"
    assert isinstance(packet, bno08x.RvcPacket)
    assert packet.index == 222
    angles = (packet.yaw_rad, packet.pitch_rad, packet.roll_rad)
    assert [degrees(angle) for angle in angles] == pytest.approx([0.01, -1.10, 20.85])
    assert packet.specific_force_mps2 == pytest.approx((-3.638, -0.196, 9.581), abs=5e-4)
    assert bno08x.encode(packet) == BNO


def test_bno08x_frame_behind_a_byte_that_looks_like_its_sync() -> None:
    assert [packet for _, packet in bno08x.decode(b"\xaa" + BNO + BNO)] == [bno08x.parse(BNO)] * 2


def test_bno08x_bytes_kept_in_reserve_are_in_the_sum() -> None:
    frame = BNO[:15] + b"\x01\x03\x05" + bytes((BNO[18] + 9,))
    ((_, packet),) = bno08x.decode(frame)
    assert isinstance(packet, bno08x.RvcPacket)
    assert packet.reserved == b"\x01\x03\x05"
    assert not list(bno08x.decode(frame[:17] + b"\x06" + frame[18:]))


def test_bno08x_turns_wrap_and_pushes_do_not() -> None:
    packet = bno08x.RvcPacket(300, pi + 0.1, -pi, 0.0, (1e4, -1e4, 0.0))
    again = bno08x.parse(bno08x.encode(packet))
    assert again.index == 44
    assert again.reserved == bytes(3)
    assert again.yaw_rad == pytest.approx(0.1 - pi, abs=1e-4)
    assert again.specific_force_mps2[0] == pytest.approx(32.767 * 9.80665)
