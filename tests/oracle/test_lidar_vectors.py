"""Frames of laser scanners against what their makers and others made of them, and against captures
of real devices."""

import json
from math import pi, radians
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drivers.lidar import hokuyo, ldrobot, rplidar, sick, ydlidar
from vehicled.core.messages import LaserScan

GOLDEN = Path(__file__).parents[1] / "golden/lidar"
SDK = json.loads((GOLDEN / "rplidar_sdk.json").read_text())["capsules"]
TIM = (GOLDEN / "sick_tim.colab").read_bytes()


def capture(shared: Path, name: str) -> Any:
    """A file of the captures, which may be read and not copied."""
    path = shared / "captures2/lidar" / name
    if not path.exists():
        pytest.skip(f"no {path}")
    return json.loads(path.read_text())


@pytest.mark.parametrize("found", SDK, ids=lambda found: rplidar.NAMES[found["kind"]])
def test_capsules_of_rplidar_are_read_as_by_their_maker(found: Any) -> None:
    kind, frames = found["kind"], [bytes.fromhex(each) for each in found["frames"]]
    stream = rplidar.scan_descriptor(kind) + b"".join(frames)
    read = [
        content for name, content in rplidar.decode(stream) if isinstance(content, rplidar.Samples)
    ]
    angle = np.concatenate([each.angle_deg + each.shift_deg for each in read])
    range_q2 = np.concatenate([4000.0 * each.range_m for each in read])
    points = np.array(found["points"])
    assert len(points) == len(angle) == (len(frames) - 1) * rplidar.CAPSULE_SAMPLES[kind]
    off = (angle - points[:, 0] * 90.0 / 16384.0 + 180.0) % 360.0 - 180.0
    assert np.abs(off).max() < 0.03, "they count in 64ths of a degree"
    # A difference below zero wraps there, and is no return here.
    theirs = np.where(points[:, 1] >= 1 << 30, 0, points[:, 1])
    assert np.abs(range_q2 - theirs).max() < 1e-6


def test_an_answer_and_a_node_of_rplidar_by_the_protocol() -> None:
    # Examples of the protocol: stop, health, info, the request for express measurements with its
    # checksum.
    assert rplidar.command(rplidar.STOP).hex() == "a525"
    assert rplidar.express_scan(0).hex() == "a58205000000000022"
    reply = (
        bytes.fromhex("a55a0300000006000000")
        + bytes.fromhex("a55a1400000004")
        + bytes((0x18, 0x1D, 0x01, 7))
        + bytes(range(16))
    )
    (_, health), (_, info) = rplidar.decode(reply)
    assert health == (0, 0)
    assert info == (0x18, 0x011D, 7, bytes(range(16)).hex().upper())
    # Skoltech's rplidar: quality 15, angle 90.5 degrees, 1.2345 m, and the begin of a turn.
    angle, distance = round(90.5 * 64) << 1 | 1, 4938
    node = bytes((15 << 2 | 1, angle & 0xFF, angle >> 8, distance & 0xFF, distance >> 8))
    assert rplidar.parse_node(node) == (True, 90.5, 1.2345)


def test_packets_of_ydlidar_by_their_document() -> None:
    # The examples of "YDLidar-SDK Communication Protocol": a packet, angles, ranges, an intensity
    # and both corrections.
    ((name, packet),) = ydlidar.decode(bytes.fromhex("aa55010153ae53aeab540000"))
    assert (name, packet) == (
        "packet",
        ydlidar.YdlidarPacket(True, 0.0, 348.640625, 348.640625, (0,)),
    )
    assert 0x6FE5 / 4 == 7161.25
    assert pytest.approx(223.78, abs=0.01) == (0x6FE5 >> 1) / 64
    assert ydlidar.shift_deg(np.array([1000.0, 8000.0])) == pytest.approx(
        [-6.7622, -7.8374], abs=1e-4
    )
    body = ydlidar.encode_packet(
        ydlidar.YdlidarPacket(False, 0.0, 223.78, 223.78, (0x6FE4,), (287,))
    )
    assert body[10:] == bytes.fromhex("1fe56f")
    assert ydlidar.parse_packet(body).intensities == (287,)


def test_packets_of_a_real_ydlidar(real_data: Path) -> None:
    for each in capture(real_data, "ydlidar_packets.json")["packets"]:
        frame = bytes.fromhex(each["bytes"])
        ((_, packet),) = ydlidar.decode(frame)
        assert isinstance(packet, ydlidar.YdlidarPacket)
        assert packet.begins is bool(each["packet_type_bit"])
        assert (packet.first_deg, packet.last_deg) == (
            each["first_angle_deg"],
            each["last_angle_deg"],
        )
        assert len(packet.ranges) == each["samples"]
        stated = [tuple(pair) for pair in each["intensity_10bit_and_distance_mm_if_TG_layout"]]
        assert [*zip(packet.intensities, [each // 4 for each in packet.ranges])][
            : len(stated)
        ] == stated
        assert ydlidar.encode_packet(packet) == frame


def test_the_packet_of_the_manual_of_ld06() -> None:
    frame = bytes.fromhex(
        "542c6808ab7ee000e4dc00e2d900e5d500e3d300e4d000e9cd00e4ca00e2c700e9c500e5c200e5c000e5be823a1a50"
    )
    ((_, packet),) = ldrobot.decode(frame)
    assert isinstance(packet, ldrobot.LdrobotPacket)
    assert (packet.speed_degps, packet.first_cdeg, packet.last_cdeg, packet.stamp_ms) == (
        2152,
        32427,
        33470,
        6714,
    )
    assert packet.ranges_mm == (224, 220, 217, 213, 211, 208, 205, 202, 199, 197, 194, 192)
    assert packet.intensities == (228, 226, 229, 227, 228, 233, 228, 226, 233, 229, 229, 229)
    assert ldrobot.encode_packet(packet) == frame


def test_numbers_of_scip_by_its_specification() -> None:
    assert hokuyo.decode_numbers(b"CB", 2) == [1234]
    assert hokuyo.decode_numbers(b"1Dh", 3) == [5432]
    assert hokuyo.decode_numbers(b"m2@0", 4) == [16_000_000]
    assert hokuyo.encode_number(1234, 2) == b"CB"
    assert hokuyo.encode_number(5432, 3) == b"1Dh"
    assert hokuyo.encode_number(16_000_000, 4) == b"m2@0"


def test_the_answers_of_a_real_urg() -> None:
    # Printed by its owner from a URG-04LX-UG01.
    text = (
        "VV\n00P\nVEND:Hokuyo Automatic Co.,Ltd.;[\nPROD:SOKUIKI Sensor "
        "URG-04LX-UG01(Simple-URG);[\n"
        "FIRM:3.4.03(17/Dec./2012);T\nPROT:SCIP 2.0;N\nSERI:H1510998;V\n\nBM\n02R\n\n"
    )
    (_, version), (_, laser) = hokuyo.decode(text.encode())
    assert isinstance(version, hokuyo.Reply)
    assert version.lines[1] == b"PROD:SOKUIKI Sensor URG-04LX-UG01(Simple-URG)"
    assert version.lines[-1] == b"SERI:H1510998"
    assert laser == hokuyo.Reply("BM", "02")


def test_scans_of_a_real_tim_in_cola_b() -> None:
    found = [scan for _, scan in sick.decode(TIM)]
    assert [type(each) for each in found] == [sick.ScanData] * 2
    first, second = found
    assert isinstance(first, sick.ScanData)
    assert isinstance(second, sick.ScanData)
    assert (first.rate_hz, first.first_deg, first.step_deg, first.scale_mm) == (
        15.0,
        -45.0,
        0.3333,
        1.0,
    )
    assert (len(first.counts), first.counts[:3]) == (811, (626, 657, 616))
    assert second.scans - first.scans == second.telegrams - first.telegrams == 1
    assert second.start_us - first.start_us == pytest.approx(66_667, abs=100)
    device = sick.SickDevice(sick.SickParams(), [LaserScan], 10**9)
    scan = next(each for each in device.on_rx(TIM, 10**9) if isinstance(each, LaserScan))
    # 0 degrees of the device is its right, 90 its front; 2 is the code of a failed measurement.
    assert scan.angle_min_rad == pytest.approx(radians(-135.0))
    assert scan.angle_min_rad + 810 * scan.angle_increment_rad == pytest.approx(0.75 * pi, abs=1e-3)
    assert scan.ranges_m[:2] == (0.626, 0.657)
    assert np.isnan(scan.ranges_m).sum() == sum(count == 2 for count in first.counts)
    # The sweep takes 50 ms, and the telegram left 6 ms after its stamp.
    assert 50e6 < 10**9 - scan.t_ns < 65e6


def test_a_scan_of_a_real_tim_in_cola_a(real_data: Path) -> None:
    (stated,) = capture(real_data, "sick_cola_a_telegrams.json")["telegrams"]
    ((_, scan),) = sick.decode(sick.encode(stated["telegram"].encode(), binary=False))
    assert isinstance(scan, sick.ScanData)
    assert (scan.rate_hz, scan.first_deg, scan.step_deg) == (
        stated["scan_freq_hz"],
        stated["start_deg"],
        stated["step_deg"],
    )
    assert len(scan.counts) == stated["count"]
    assert list(scan.counts[:5]) == stated["first5_mm"]
    assert list(scan.counts[-5:]) == stated["last5_mm"]
    assert max(scan.counts) == stated["max_mm"]
