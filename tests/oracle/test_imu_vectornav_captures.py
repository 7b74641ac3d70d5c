"""VectorNav binary frames against a recording of a real VN-100 and against the vendor's own table
of lengths."""

import json
import struct
from collections import Counter
from collections.abc import Iterator
from math import asin, atan2, degrees, hypot, pi, radians
from pathlib import Path

import pynmeagps
import pytest

from drivers.imu import vectornav
from drivers.imu.vectornav_fields import FIELDS, GROUPS, masks
from vehicled.core.messages import Heading, ImuSample
from vehicled.core.wire.crc import crc16_xmodem
from vehicled.core.wire.usage import Loss, Unused

NAME = "imu/vn100__F00294"
# Bytes of each field by group and bit, from the vendor's library (VectorNav SDK 0.99 and vnproglib
# 1.1, MIT licence). 0: variable.
LENGTHS = {
    "common": (8, 8, 8, 12, 16, 12, 24, 12, 12, 24, 20, 28, 2, 4, 8),
    "time": (8, 8, 8, 2, 8, 8, 8, 4, 4, 1),
    "imu": (2, 12, 12, 12, 4, 4, 16, 12, 12, 12, 12, 2, 40),
    "gnss": (8, 8, 2, 1, 1, 24, 24, 12, 12, 12, 4, 4, 2, 28, 0),
    "attitude": (2, 12, 16, 36, 12, 12, 12, 12, 12, 12, 28, 24, 12, 4),
    "ins": (2, 24, 24, 12, 12, 12, 12, 12, 12, 4, 4, 68, 64),
    "gnss2": (8, 8, 2, 1, 1, 24, 24, 12, 12, 12, 4, 4, 2, 28, 0),
}


def capture(shared_data: Path) -> bytes:
    return (shared_data / "captures" / NAME).read_bytes()


def frames(shared_data: Path) -> Iterator[vectornav.BinaryFrame]:
    for _, value in vectornav.decode(capture(shared_data)):
        if isinstance(value, vectornav.BinaryFrame):
            yield value


def test_counts_are_those_of_an_independent_framer(shared_data: Path) -> None:
    expected = json.loads((shared_data / "captures" / "counts.json").read_text())[NAME]["counts"]
    assert Counter(name for name, _ in vectornav.decode(capture(shared_data))) == expected


def test_values_stand_where_the_manual_says(shared_data: Path) -> None:
    """A frame of this kind as one C structure, read without our table."""
    data = capture(shared_data)
    at = -1
    for frame in frames(shared_data):
        at = data.index(b"\xfa\x14\x3e\x00\x3a\x00", at + 1)
        mag, accel, gyro, temp, pressure, ypr, dcm, mag_ned, accel_ned = (
            struct.unpack_from(f"<{count}f", data, at + 6 + 4 * offset)
            for offset, count in (
                (0, 3),
                (3, 3),
                (6, 3),
                (9, 1),
                (10, 1),
                (11, 3),
                (14, 9),
                (23, 3),
                (26, 3),
            )
        )
        assert frame.values == {
            "imu.raw_mag": mag, "imu.raw_acceleration": accel, "imu.raw_gyro": gyro,
            "imu.temperature": temp[0], "imu.pressure": pressure[0], "attitude.ypr": ypr,
            "attitude.dcm": dcm, "attitude.mag_ned": mag_ned,
            "attitude.acceleration_ned": accel_ned,
        }  # fmt: skip
        assert vectornav.encode(frame.values) == data[at : at + 124]


def test_lines_between_the_frames_are_sound_to_another_parser(shared_data: Path) -> None:
    lines = [value for _, value in vectornav.decode(capture(shared_data)) if isinstance(value, str)]
    assert len(lines) == 21
    for line in lines:
        assert pynmeagps.NMEAReader.parse(vectornav.encode_line(line)).identity == line[:5]


def test_attitude_and_specific_force_agree(shared_data: Path) -> None:
    """Gravity gives roll and pitch, the device gives them as well, and its matrix turns the one
    force into the other."""
    for frame in frames(shared_data):
        x, y, z = frame.values["imu.raw_acceleration"]
        yaw, pitch, roll = frame.values["attitude.ypr"]
        assert hypot(x, y, z) == pytest.approx(9.76, abs=0.05)
        assert degrees(asin(x / hypot(x, y, z))) == pytest.approx(pitch, abs=1.0)
        assert degrees(atan2(-y, -z)) == pytest.approx(roll, abs=1.0)
        dcm = frame.values["attitude.dcm"]
        turned = tuple(sum(dcm[3 * row + i] * (x, y, z)[i] for i in range(3)) for row in range(3))
        assert turned == pytest.approx(frame.values["attitude.acceleration_ned"], abs=1e-3)
        assert degrees(atan2(dcm[3], dcm[0])) == pytest.approx(yaw, abs=1e-3)


def test_the_device_gives_si_values_in_body_axes(shared_data: Path) -> None:
    device = vectornav.VectorNavDevice(
        vectornav.VectorNavParams(configure=False, rate_hz=10), [ImuSample, Heading], 1
    )
    # The recording lacks the status, without which there is no heading.
    assert not any(
        isinstance(message, Heading) for message in device.on_rx(capture(shared_data), 10**12)
    )
    (use,) = [use for name, use in device.usage if name.startswith("VN fa")]
    assert (use.used, use.lost[Loss(Unused.STATUS_MISSING, "attitude.ypr")]) == (99, 99)
    tracking = b"".join(
        vectornav.encode({**frame.values, "attitude.status": 1}) for frame in frames(shared_data)
    )
    got = device.on_rx(tracking, 2 * 10**12)
    inertial = [message for message in got if isinstance(message, ImuSample)]
    headings = [message for message in got if isinstance(message, Heading)]
    assert len(inertial) == len(headings) == 99
    for sample, heading, frame in zip(inertial, headings, frames(shared_data)):
        x, y, z = frame.values["imu.raw_acceleration"]
        assert sample.specific_force_mps2 == (x, -y, -z)
        assert 9.2 < sample.specific_force_mps2[2] < 9.9
        assert hypot(*sample.angular_rate_radps) < 0.1
        assert sample.temperature_k == pytest.approx(273.15 + 19.4, abs=1.0)
        expected = pi / 2 - radians(frame.values["attitude.ypr"][0])
        assert (heading.yaw_rad - expected + pi) % (2 * pi) - pi == pytest.approx(0.0, abs=1e-9)


def test_yaw_is_the_same_from_every_form_of_attitude(shared_data: Path) -> None:
    """The quaternion, which the recording does not have, by the definition of the manual: scalar
    last, body to world."""
    codec = vectornav.VectorNavCodec()
    for frame in frames(shared_data):
        values = frame.values
        d = values["attitude.dcm"]
        w = (1 + d[0] + d[4] + d[8]) ** 0.5 / 2
        quaternion = ((d[7] - d[5]) / (4 * w), (d[2] - d[6]) / (4 * w), (d[3] - d[1]) / (4 * w), w)
        yaws = []
        for field, value in (
            ("attitude.ypr", values["attitude.ypr"]),
            ("attitude.dcm", d),
            ("common.quaternion", quaternion),
        ):
            (sample,) = codec.decode(
                "VectorNav", vectornav.encode({field: value, "attitude.status": 0})
            )
            assert sample.yaw_rad is not None
            yaws.append((sample.yaw_rad + pi) % (2 * pi))
        assert yaws == pytest.approx([yaws[0]] * 3, abs=1e-5)


@pytest.mark.parametrize("group", LENGTHS)
def test_field_lengths_are_those_of_the_vendor(group: str) -> None:
    names = [name for name, _ in FIELDS[group]]
    for bit, length in enumerate(LENGTHS[group]):
        head = bytes((0xFA, 1 << GROUPS.index(group))) + (1 << bit).to_bytes(2, "little")
        if length:
            body = head[1:] + bytes(length)
            frame = head + bytes(length) + crc16_xmodem(body).to_bytes(2, "big")
            assert vectornav.BINARY.probe(frame, 0, len(frame)) == len(frame)
            assert vectornav.BINARY.probe(frame, 0, len(frame) - 1) == 0
            assert list(vectornav.read_frame(frame).values) == [f"{group}.{names[bit]}"]
    for bit in range(len(LENGTHS[group]), 15):
        head = bytes((0xFA, 1 << GROUPS.index(group))) + (1 << bit).to_bytes(2, "little")
        assert vectornav.BINARY.probe(head + bytes(600), 0, 604) == -1


def test_golden_lines() -> None:
    assert vectornav.encode_line("VNRRG,01") == b"$VNRRG,01*72\r\n"
    assert vectornav.encode_line("VNWRG,07,50") == b"$VNWRG,07,50*58\r\n"
    # VN-100 user manual UM001, page 35: start-up time, uncompensated force and rate, quaternion and
    # magnetic field.
    names = [
        "common.time_startup",
        "imu.raw_acceleration",
        "imu.raw_gyro",
        "attitude.quaternion",
        "attitude.mag_ned",
    ]
    assert masks(names) == "15,0001,000C,0014"
