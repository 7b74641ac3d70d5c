"""Packets of 3-D scanners: positions as other people's decoders place them, `golden/lidar`."""

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drivers.lidar.ouster import OusterDevice, OusterParams, packet_type, params_of, ranges_of
from drivers.lidar.points import BeamColumns, PointLidar
from drivers.lidar.velodyne import VelodyneDevice, VelodyneParams
from vehicled.core.messages import LaserScan

GOLDEN = Path(__file__).parents[1] / "golden/lidar"
CASES = json.loads((GOLDEN / "points.json").read_text())


def positions(device: PointLidar, columns: BeamColumns) -> Any:
    """Positions (columns, returns, beams, 3) in the axes of the device, beams in the order of the
    packet."""
    c, s = np.cos(columns.angle_rad)[:, None, None], np.sin(columns.angle_rad)[:, None, None]
    ranges = columns.range_m[:, :, device._order]
    found = np.stack(device._position(c, s, ranges, slice(None)), axis=-1)
    return found[:, :, np.argsort(device._order)]


def columns_of(device: PointLidar, datagrams: list[bytes]) -> BeamColumns:
    found: list[Any] = []
    packets = [device.packet(datagram, i, found) for i, datagram in enumerate(datagrams)]
    return device.columns([each for each in packets if each is not None])


@pytest.mark.parametrize("case", CASES["velodyne"], ids=lambda case: case["model"])
def test_returns_of_a_velodyne_are_where_velodyne_decoder_places_them(case: Any) -> None:
    device = VelodyneDevice(VelodyneParams(model=case["model"]), [LaserScan], 0)
    columns = columns_of(device, [base64.b64decode(each) for each in case["packets"]])
    measured = columns.range_m > 0.0
    # Of two equal returns it gives one.
    twice = (columns.range_m[:, :1] == columns.range_m[:, 1:]) & measured[:, 1:]
    assert int(measured.sum() - twice.sum()) == case["count"]
    found = positions(device, columns)[measured]
    for x, y, z, *_ in case["points"]:
        assert np.abs(found - (x, y, z)).max(axis=1).min() < 2e-4 + 7e-4 * np.hypot(x, y)


@pytest.mark.parametrize(
    "case", [c for c in CASES["ouster"] if "file" in c], ids=lambda case: case["file"]
)
def test_pixels_of_an_ouster_are_where_its_own_sdk_places_them(case: Any) -> None:
    stated: dict[str, Any] = params_of(json.dumps(case["metadata"]))
    params = OusterParams(**stated)
    device = OusterDevice(params, [LaserScan], 0)
    datagram = gzip.decompress(base64.b64decode(case["packet"]))
    kind = packet_type(params.profile, params.columns_per_packet, params.channels)
    raw = np.frombuffer(datagram, kind)[0]["columns"]
    assert raw["id"].tolist() == case["ids"]
    assert raw["stamp"].tolist() == case["stamps_ns"]
    assert raw["status"].tolist() == case["status"]
    found = positions(device, columns_of(device, [datagram]))
    ranges = ranges_of(raw["pixels"], params.profile)
    for column, row, range_mm, x, y, z in case["points"]:
        assert ranges[column, 0, row] == pytest.approx(range_mm / 1000.0)
        if range_mm:
            # Its positions are in the axes of the sensor, whose front is half a turn on.
            assert found[column, 0, row] == pytest.approx((-x, -y, z), abs=2e-3)


@pytest.mark.parametrize(
    "case", [c for c in CASES["ouster"] if "seed" in c], ids=lambda case: case["profile"]
)
def test_fields_of_the_other_profiles_are_where_its_own_sdk_finds_them(case: Any) -> None:
    kind = packet_type(case["profile"], 16, case["channels"])
    assert kind.itemsize == case["size"]
    data = np.random.default_rng(case["seed"]).integers(0, 256, kind.itemsize, dtype=np.uint8)
    data[[0, 1, 18, 19]] = 1, 0, 1, 3
    packet = np.frombuffer(data.tobytes(), kind)[0]
    assert packet["columns"]["id"].tolist() == case["ids"]
    assert packet["columns"]["stamp"].tolist() == case["stamps_ns"]
    assert packet["frame"] == case["frame"]
    assert packet["init"] & 0xFFFFFF == case["init"]
    assert (packet["thermal"] & 0xF, packet["shot"] & 0xF) == (case["thermal"], case["shot"])
    ranges = ranges_of(packet["columns"]["pixels"], case["profile"])
    assert ranges[:, 0, 5] == pytest.approx(np.array(case["range_row_5"]) / 1000.0)
    if case["range2_row_5"] is not None:
        assert ranges[:, 1, 5] == pytest.approx(np.array(case["range2_row_5"]) / 1000.0)
