"""MicroStrain MIP against a recording of a real device, and against physics: gravity and a turn
that gyro and filter both saw."""

import json
import struct
from collections import Counter
from itertools import pairwise
from math import asin, atan2, hypot, pi
from pathlib import Path
from typing import Any

import pytest
from scipy.spatial.transform import Rotation

from drivers.imu import mip
from vehicled.core.messages import Heading, ImuSample, Message

NAME = "imu/mip_sdk__mip_data_part1.bin"


def capture(shared_data: Path) -> bytes:
    return (shared_data / "captures" / NAME).read_bytes()


def counted(shared_data: Path) -> dict[str, Any]:
    """Counts of an independent framer: of the whole capture, or of the first part that is brought
    along."""
    listing: dict[str, Any] = json.loads((shared_data / "captures" / "counts.json").read_text())[
        NAME
    ]
    return listing


def packets(data: bytes) -> list[tuple[int, dict[int, Any]]]:
    found: list[tuple[int, dict[int, Any]]] = []
    for name, value in mip.decode(data):
        if isinstance(value, mip.Packet):
            found.append((value.kind, {}))
        else:
            found[-1][1][int(name[9:], 16)] = value
    return found


def test_counts_are_those_of_an_independent_framer(shared_data: Path) -> None:
    assert (
        Counter(name for name, _ in mip.decode(capture(shared_data)))
        == counted(shared_data)["counts"]
    )


def test_values_stand_where_the_manual_says(shared_data: Path) -> None:
    """The packets that hold time, force and rate, as one C structure, read without our table."""
    data = capture(shared_data)
    at, checked = 0, 0
    for kind, fields in packets(data):
        if kind != mip.SENSOR or mip.ACCEL not in fields:
            continue
        at = data.index(b"\x75\x65\x80", at)
        while data[at + 5] != 0xD5:
            at = data.index(b"\x75\x65\x80", at + 1)
        time_ns, delta_ns, ax, ay, az, gx, gy, gz = struct.unpack_from(
            ">2xQ2xQ2x3f2x3f", data, at + 4
        )
        assert (fields[0xD5], fields[0xD6], fields[0x04], fields[0x05]) == (
            time_ns,
            delta_ns,
            (ax, ay, az),
            (gx, gy, gz),
        )
        at += 4
        checked += 1
    assert checked == counted(shared_data)["counts"]["field 80/04"] > 300


def test_encoding_again_gives_the_same_bytes(shared_data: Path) -> None:
    data = capture(shared_data)
    again = b"".join(
        mip.encode(kind, *(mip.write(kind, field, value) for field, value in fields.items()))
        for kind, fields in packets(data)
    )
    assert data.startswith(again)
    assert (
        len(data) - len(again) == counted(shared_data)["extra"]["skipped_bytes"]
    )  # the recording ends within a packet


def test_gravity_agrees_with_the_filter(shared_data: Path) -> None:
    """Before it is turned: roll and pitch of the filter are those of the specific force, in axes of
    the device."""
    force = (0.0, 0.0, -1.0)
    compared = 0
    for kind, fields in packets(capture(shared_data)):
        if kind == mip.SENSOR and mip.ACCEL in fields:
            force = fields[mip.ACCEL]
            assert fields.get(0xD6) == 8_000_000
        if kind == mip.FILTER:
            compared += 1
            if compared < 40:
                roll, pitch, _, flags = fields[mip.FILTER_EULER]
                assert flags == 1
                assert hypot(*force) == pytest.approx(0.986, abs=0.005)
                assert asin(force[0] / hypot(*force)) == pytest.approx(pitch, abs=0.01)
                assert atan2(-force[1], -force[2]) == pytest.approx(roll, abs=0.01)
    assert compared == counted(shared_data)["counts"]["set 0x82"] >= 40


def test_the_device_gives_si_values_in_body_axes(shared_data: Path) -> None:
    """Fed as it came, 8 ms apart. The reported yaw turns at the reported rates."""
    device = mip.MipDevice(
        mip.MipDevice.Params(configure=False, rate_hz=125), [ImuSample, Heading], 1
    )
    got: list[Message] = []
    now_ns = 10**12
    for kind, fields in packets(capture(shared_data)):
        now_ns += 8_000_000 if mip.ACCEL in fields else 0
        got += device.on_rx(
            mip.encode(kind, *(mip.write(kind, field, value) for field, value in fields.items())),
            now_ns,
        )
    inertial = [message for message in got if isinstance(message, ImuSample)]
    headings = [message for message in got if isinstance(message, Heading)]
    counts = counted(shared_data)["counts"]
    assert len(inertial) == device.samples == counts["field 80/04"]
    assert (
        len(headings) == counts["set 0x82"] + 4
    )  # of the sensor itself until the filter first speaks, of the filter from then on
    unused = {name for name, use in device.usage if use.refused or use.lost}
    assert {"field 80/06", "field 80/0C"} <= unused, (
        "the magnetic field; the sensor's own attitude beside the filter's"
    )
    assert len(got) == len(inertial) + len(headings)
    steps = {b.t_ns - a.t_ns for a, b in pairwise(inertial[20:])}
    assert all(abs(step - 8_000_000) < 1000 for step in steps)
    first = inertial[0]
    assert first.specific_force_mps2 == pytest.approx((0.171, 0.065, 9.666), abs=0.002)
    assert first.angular_rate_radps == pytest.approx((-0.0030, -0.0003, 0.0043), abs=1e-4)

    # Turned by hand, up to a radian about every axis: the whole attitude is integrated from the
    # rates, roll and pitch being known.
    attitude = Rotation.from_euler("ZYX", (headings[4].yaw_rad, -0.0174, 0.0068))
    compared, waiting = 0, headings[4:]
    for sample in inertial:
        if sample.t_ns < waiting[0].t_ns:
            continue
        attitude *= Rotation.from_rotvec([rate * 0.008 for rate in sample.angular_rate_radps])
        if compared + 1 < len(waiting) and sample.t_ns >= waiting[compared + 1].t_ns:
            compared += 1
            x, y, _ = attitude.apply((1.0, 0.0, 0.0))
            assert (atan2(y, x) - waiting[compared].yaw_rad + pi) % (2 * pi) - pi == pytest.approx(
                0.0, abs=0.15
            )
    assert compared > 0.9 * counts["set 0x82"]
    yaws = [heading.yaw_rad % (2 * pi) for heading in waiting]
    # By hand, later than the first part of the recording.
    assert counts["set 0x82"] < 400 or max(yaws) - min(yaws) > 0.75


def test_golden_packets() -> None:
    assert mip.encode(mip.BASE, (mip.PING, b"")) == bytes.fromhex("75 65 01 02 02 01 e0 c6")
    # 3DM-GX5-45 DCP manual, page 48.
    assert mip.encode(mip.COMMANDS_3DM, (mip.IMU_BASE_RATE, b"")) == bytes.fromhex(
        "75 65 0c 02 02 06 f0 f7"
    )
    reply = bytes.fromhex("75 65 0c 08 04 f1 06 00 04 83 00 64 d4 6b")
    assert mip.encode(mip.COMMANDS_3DM, (mip.REPLY, b"\x06\x00"), (0x83, b"\x00\x64")) == reply
