"""Xsens MTData2 against recordings of a real MTi-G-710 and against what another program reads from
them."""

import json
import struct
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from math import hypot, isnan
from pathlib import Path
from typing import Any

import pytest

from drivers.imu import xsens
from drivers.imu.base import Sample
from vehicled.core.messages import Heading, ImuSample
from vehicled.core.wire.usage import Loss, Unused

SETS = (1, 3, 5)
# Printed by einride/xsens-go (MIT licence), testdata/{1,3}/output.golden: packet counter, and then
# what it holds.
GOLDEN: dict[int, dict[int, dict[int, xsens.Value]]] = {
    1: {
        43399: {
            0x1060: 51703223,
            0xE020: 0b101,
            0x2030: (-99.46182250976562, 0.13305406272411346, -179.1905975341797),
            0x4020: (0.028309723362326622, -9.659712791442871, -1.6273512840270996),
            0x4010: (0.00028052282868884504, -0.09659691900014877, -0.016274817287921906),
            0x8020: (0.0013589637819677591, -0.0031925870571285486, -0.0032029924914240837),
            0x8030: (1.0000001192092896, 6.794818546040915e-06, -1.5962930774549022e-05,
                -1.601496296643745e-05),
        },
        43419: {
            0xE020: 0b1100000000000000000000101,
            0x5040: (57.679447174072266, 11.882570266723633),
            0x5020: 81.7771987915039,
            0xD010: (0.00871723797172308, -0.02392599731683731, 0.0017384382663294673),
        },
        43416: {
            0x7010: (
                49662250, 2019, 1, 20, 13, 47, 24, 55, 5, 249768484, 3, 1, 11, 0, 118825704,
                576794453, 81777, 43306, 2259, 2072, -27, 10, -2, 29, 0, 350, 15028634, 131072, 154,
                139, 68, 112, 83, 55, 62,
            ),
            0x1060: 51704404,
        },
    },
    3: {
        43598: {
            0x1060: 51725422,
            0x1010: (351800000, 2019, 1, 20, 13, 47, 26, 55),
            0xE010: 0b101,
            0x4022: (0.04618605226278305, -7.263570785522461, -1.2180986404418945),
            0x8022: (0.0010926020331680775, 0.0016689149197191, -0.0037502634804695845),
            0x8032: (1.0000000002328306, 5.462672561407089e-06, 8.344883099198341e-06,
                -1.875101588666439e-05),
        },
        43599: {0x2032: (-99.52018737792969, -0.3577851355075836, 177.87364196777344)},
        43621: {
            0x5042: (57.679442145396024, 11.88257829961367),
            0x5022: 81.52537841768935,
            0xD012: (0.030614731833338737, -0.025198878720402718, -0.005217053461819887),
        },
    },
}  # fmt: skip


def capture(shared_data: Path, number: int, kind: str = "output") -> bytes:
    return (shared_data / "captures" / "imu" / f"xsens-go__{number}_{kind}.bin").read_bytes()


def packets(data: bytes) -> list[dict[int, Any]]:
    """Return the values of each MTData2 by id."""
    found: list[dict[int, Any]] = []
    for name, value in xsens.decode(data):
        if name == "MID 0x36":
            found.append({})
        else:
            found[-1][int(name[4:], 16)] = value
    return found


def samples(data: bytes) -> list[Sample]:
    codec = xsens.XsensCodec()
    return [sample for name, value in frames_of(data) for sample in codec.decode(name, value)]


def frames_of(data: bytes) -> Sequence[tuple[str, bytes]]:
    return [
        ("Xbus", xsens.encode(value.mid, value.data))
        for name, value in xsens.decode(data)
        if isinstance(value, xsens.XbusMessage)
    ]


@pytest.mark.parametrize("number", SETS)
def test_counts_are_those_of_an_independent_framer(shared_data: Path, number: int) -> None:
    expected = json.loads((shared_data / "captures" / "counts.json").read_text())[
        f"imu/xsens-go__{number}_output.bin"
    ]["counts"]
    assert Counter(name for name, _ in xsens.decode(capture(shared_data, number))) == expected


@pytest.mark.parametrize("number", GOLDEN)
def test_values_are_those_of_another_program(shared_data: Path, number: int) -> None:
    by_count = {packet[0x1020]: packet for packet in packets(capture(shared_data, number))}
    for count, expected in GOLDEN[number].items():
        for xdi, value in expected.items():
            assert by_count[count][xdi] == pytest.approx(value, rel=1e-12, abs=1e-15), (
                f"{count} {xdi:04X}"
            )


@pytest.mark.parametrize("number", SETS)
def test_encoding_again_gives_the_same_bytes(shared_data: Path, number: int) -> None:
    data = capture(shared_data, number)
    again = b"".join(xsens.encode_mtdata2(packet.items()) for packet in packets(data))
    assert again == data


@pytest.mark.parametrize("number", SETS)
def test_the_output_configuration_names_what_the_stream_holds(
    shared_data: Path, number: int
) -> None:
    data = capture(shared_data, number, "outputconfig")
    outputs = xsens.unpack_outputs(data)
    assert xsens.pack_outputs(outputs) == data
    assert set().union(*packets(capture(shared_data, number))) == {xdi for xdi, _ in outputs}
    assert dict(outputs)[0x1020] == xsens.AT_EVERY_SAMPLE
    assert list(xsens.decode(data)) == []


@pytest.mark.parametrize("number", [1, 3])
def test_the_device_gives_si_values_of_a_sensor_at_rest(shared_data: Path, number: int) -> None:
    """The sensor lies on its side, y down: only the length of the specific force and its constancy
    can be judged."""
    device = xsens.XsensDevice(xsens.XsensParams(configure=False), [ImuSample, Heading], 1)
    got = device.on_rx(capture(shared_data, number), 10**12)
    inertial = [message for message in got if isinstance(message, ImuSample)]
    assert len(inertial) == 96
    assert not any(isinstance(message, Heading) for message in got)
    for message in inertial[2:]:  # the first is the start of the device's own filter
        assert hypot(*message.specific_force_mps2) == pytest.approx(9.82, abs=0.05)
        assert hypot(*message.angular_rate_radps) < 0.02
        assert isnan(message.temperature_k)
        assert not message.saturated
    # The status says throughout that the filter is not valid, so none of its orientations is passed
    # on.
    refused = {
        reason: count
        for name, use in device.usage
        if name.startswith("XDI 20")
        for reason, count in use.refused.items()
    }
    assert refused[Loss(Unused.INVALID, "filter valid")] == 95
    assert (device.bad_frames, device.dropped_bytes, device.xsens.time.lost_packets) == (0, 0, 0)


@pytest.mark.parametrize("number", [1, 3])
def test_time_does_not_follow_the_jumps_of_packets_triggered_by_gnss(
    shared_data: Path, number: int
) -> None:
    data = capture(shared_data, number)
    raw = [packet[0x1060] for packet in packets(data)]
    assert min(b - a for a, b in pairwise(raw)) < -400
    counters = [sample.counter for sample in samples(data)]
    assert {b - a for a, b in pairwise(counters) if a is not None and b is not None} == {100}


@pytest.mark.parametrize("number", [1, 3])
def test_increments_give_the_same_force_and_rate(shared_data: Path, number: int) -> None:
    data = capture(shared_data, number)
    codec, checked = xsens.XsensCodec(), 0
    direct = samples(data)[1:]
    for packet in packets(data):
        rest = [
            (xdi, value) for xdi, value in packet.items() if xdi & 0xFFF0 not in (0x4020, 0x8020)
        ]
        for sample in codec.decode("Xbus", xsens.encode_mtdata2(rest)):
            assert sample.specific_force_mps2 == pytest.approx(
                direct[checked].specific_force_mps2, abs=0.02
            )
            assert sample.angular_rate_radps == pytest.approx(
                direct[checked].angular_rate_radps, abs=1e-4
            )
            checked += 1
    assert checked == 95


def test_quaternion_and_matrix_point_the_same_way(shared_data: Path) -> None:
    compared = 0
    for packet in packets(capture(shared_data, 5)):
        if 0x2010 in packet:
            assert hypot(*packet[0x2010]) == pytest.approx(1.0, abs=1e-5)
            by_matrix = xsens.yaw_from_east(0x2020, packet[0x2020])
            assert xsens.yaw_from_east(0x2010, packet[0x2010]) == pytest.approx(by_matrix, abs=1e-5)
            compared += 1
    assert compared == 92


def test_golden_messages() -> None:
    assert xsens.encode(xsens.GO_TO_CONFIG) == bytes.fromhex("fa ff 30 00 d1")
    assert xsens.encode(xsens.GO_TO_MEASUREMENT) == bytes.fromhex("fa ff 10 00 f1")
    assert xsens.encode(0x00) == bytes.fromhex("fa ff 00 00 01")
    # FP16.32 stands with its fraction first: 1.5, -0.25, 0.
    assert xsens.read(0x4022, struct.pack(">IhIhIh", 1 << 31, 1, 3 << 30, -1, 0, 0)) == (
        1.5,
        -0.25,
        0.0,
    )
    assert xsens.read(0x4021, struct.pack(">3i", 3 << 19, -(1 << 18), 0)) == (1.5, -0.25, 0.0)
