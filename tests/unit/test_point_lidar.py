"""3-D scanners: ground and obstacles, mountings, lost packets, modes changed in the field, and what
the emulators send."""

import json
from math import cos, hypot, pi, radians, tau
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drivers.lidar import ouster, velodyne
from drivers.lidar.ouster import MetadataError, OusterDevice, OusterParams, params_of
from drivers.lidar.velodyne import (
    DUAL,
    HOUR_US,
    STRONGEST,
    VelodyneData,
    VelodyneDevice,
    VelodyneParams,
    encode_data,
)
from tests.lidar_bench import POINT_FAMILIES, ROOM, Bench, scanner
from vehicled.core.messages import Fault, HeightMap, LaserScan, Message, PortState
from vehicled.core.wire.datagram import pack

BEAM = 1.0
"""Height of the scanner over the ground, m."""
X_M = 0.45


def turns(
    height_of: Any,
    *,
    params: VelodyneParams | None = None,
    count: int = 86,
    mode: int = STRONGEST,
    wants: tuple[type[Message], ...] = (LaserScan, HeightMap),
    drop: Any = lambda i: False,
    order: Any = lambda i: i,
    stamp_us: int = 0,
    product: int = 0x22,
) -> list[Message]:
    """Return the messages of a driver of a VLP-16 on a pole of 1 m.

    ``height_of(ranges, bearings, heights)`` returns which points of a fine line along each beam are
    solid.
    """
    device = VelodyneDevice(params or VelodyneParams(), list(wants), 0)
    device.mount((0.0, 0.0, BEAM))
    device.on_port(PortState.OPENED, "", 0)
    elevation = np.radians(velodyne.SERIES["vlp16"].elevation_deg)
    along = 0.6 * 1.006 ** np.arange(740)
    packets = []
    for i in range(count):
        columns = 24 * i + np.arange(24)
        # It begins shortly before the cut, which is behind the vehicle.
        azimuth = (17_000 + 20.0 * columns) % 36_000
        bearing = -np.radians(azimuth / 100.0)[:, None, None]
        level = along * np.cos(elevation)[:, None]
        up = BEAM + along * np.sin(elevation)[:, None]
        solid = height_of(level[None], bearing, up[None])
        first = solid.argmax(axis=2)
        ranges = np.where(solid.any(axis=2), np.rint(along[first] / 0.002), 0)
        stamp = (stamp_us + round(i * 1327.1)) % HOUR_US
        packets.append(
            encode_data(
                VelodyneData(azimuth[::2], ranges.reshape(12, 32), 10, stamp, mode, product)
            )
        )
    found: list[Message] = []
    for i in range(count):
        if not drop(i):
            t_rx_ns = 1_000_000_000 + round((i + 1) * 1_327_100)
            found += device.on_rx(pack(packets[order(i)]), t_rx_ns)
    return found


def scans(found: list[Message]) -> list[LaserScan]:
    return [each for each in found if isinstance(each, LaserScan)]


def ranges(scan: LaserScan) -> tuple[Any, Any]:
    bearing = scan.angle_min_rad + scan.angle_increment_rad * np.arange(len(scan.ranges_m))
    return (bearing + pi) % tau - pi, np.array(scan.ranges_m)


def ground(level: Any, bearing: Any, up: Any, slope: float = 0.0) -> Any:
    return up + 0.0 * bearing <= slope * level * np.cos(bearing)


def wall(level: Any, bearing: Any, up: Any) -> Any:
    """A kerb of 0.3 m ahead at 6 m, a bridge 2 m high over 4 to 5 m, and a wall at 20 m."""
    x = level * np.cos(bearing)
    kerb = (x > 6.0) & (x < 6.5) & (up < 0.3)
    bridge = (x > 4.0) & (x < 5.0) & (up > 2.0) & (up < 2.3)
    return ground(level, bearing, up) | kerb | bridge | (x > 20.0)


def test_ground_and_what_is_above_the_vehicle_are_no_obstacles_and_a_kerb_is() -> None:
    found = turns(wall)
    (scan, *_) = scans(found)
    bearing, range_m = ranges(scan)
    ahead = np.abs(bearing) < 0.2
    assert np.median(range_m[ahead] * np.cos(bearing[ahead])) == pytest.approx(6.0, abs=0.1)
    behind = np.abs(bearing) > 1.6
    assert np.isposinf(range_m[behind]).all()
    assert not [each for each in found if isinstance(each, Fault)]
    (heights, *_) = [each for each in found if isinstance(each, HeightMap)]
    cells = np.array(heights.heights_m).reshape(heights.columns, heights.columns)
    assert heights.columns == 48
    seen = np.isfinite(cells)
    assert seen.sum() > 300
    assert np.abs(cells[seen]).max() < 0.15


@pytest.mark.parametrize(("slope", "free"), [(0.05, True), (0.25, False)])
def test_a_gentle_rise_is_ground_and_a_ramp_is_an_obstacle(slope: float, free: bool) -> None:
    (scan, *_) = scans(turns(lambda r, b, z: ground(r, b, z, slope)))
    bearing, range_m = ranges(scan)
    ahead = range_m[np.abs(bearing) < 0.2]
    assert np.isposinf(ahead).all() if free else np.isfinite(ahead).all()


def test_lost_packets_leave_rays_that_are_not_known_and_reordered_ones_nothing_at_all() -> None:
    whole = scans(turns(wall))[0]
    mixed = scans(turns(wall, order=lambda i: i + 1 if i % 10 == 4 else i - (i % 10 == 5)))[0]
    before, after = np.array(whole.ranges_m), np.array(mixed.ranges_m)
    hit = np.isfinite(before)
    assert np.abs(before[hit] - after[hit]).max() < 0.05
    lost = scans(turns(wall, drop=lambda i: 20 <= i < 28 or i == 60))
    missing = np.isnan(np.array(lost[0].ranges_m))
    assert missing.mean() == pytest.approx(9 / 75, abs=0.02)


def test_the_stamps_of_the_hour_wrap() -> None:
    found = scans(turns(wall, count=160, stamp_us=HOUR_US - 60_000))
    assert len(found) == 2
    assert found[1].t_ns - found[0].t_ns == pytest.approx(100_000_000, rel=0.02)


def test_another_model_is_named_and_not_used() -> None:
    found = turns(wall, count=4, product=0x28)
    (fault,) = [each for each in found if isinstance(each, Fault)]
    assert fault.code == "lidar_health"
    assert fault.reason == 'it is a "vlp32c", and the profile says "vlp16"'


def test_dual_returns_give_the_nearest_obstacle_of_both() -> None:
    device = VelodyneDevice(VelodyneParams(height_min_m=-5.0, height_max_m=5.0), [LaserScan], 0)
    found: list[Message] = []
    for i in range(320):
        azimuth = np.repeat(40 * np.arange(6) + 240 * i, 2) % 36_000
        counts = np.empty((12, 32))
        counts[0::2], counts[1::2] = 10_000, 2_000
        data = VelodyneData(azimuth, counts, 10, round(663.5 * i), DUAL, 0x22)
        found += device.on_rx(pack(encode_data(data)), 10**9 + 663_552 * i)
    scan = scans(found)[0]
    assert np.median(scan.ranges_m) == pytest.approx(4.0 * cos(radians(15.0)), abs=0.01)


def test_the_vehicle_itself_is_left_out() -> None:
    def hood(level: Any, bearing: Any, up: Any) -> Any:
        return (level < 1.2) & (np.abs(bearing) < 0.5) & (up < 0.9) & (up > 0.6)

    seen = scans(turns(hood))[0]
    clear = scans(turns(hood, params=VelodyneParams(own_m=[-0.5, -1.0, 1.3, 1.0])))[0]
    assert np.isfinite(seen.ranges_m).any()
    assert not np.isfinite(clear.ranges_m).any()


def test_a_covered_window_is_blind_where_the_profile_says_how_much_returns() -> None:
    def nothing(level: Any, bearing: Any, up: Any) -> Any:
        return (up > 1e9) & (bearing > 1e9)

    assert np.isposinf(scans(turns(nothing))[0].ranges_m).all()
    covered = turns(nothing, params=VelodyneParams(least_returns=0.1))
    assert np.isnan(scans(covered)[0].ranges_m).all()
    # Bare ground is enough: no obstacle is in sight, and the window is clean.
    plain = turns(ground, params=VelodyneParams(least_returns=0.1))
    assert np.isposinf(scans(plain)[0].ranges_m).all()


# ---------------------------------------------------------------- with the emulators

CASES = [
    ("velodyne", "vlp16", {}),
    ("velodyne", "vlp32c", {"mounting_pitch_rad": 0.15, "mounting_yaw_rad": 1.0}),
    ("ouster", "os1", {"profile": "LEGACY", "channels": 32, "upside_down": "true"}),
    ("ouster", "os0", {"profile": "RNG19_RFL8_SIG16_NIR16_DUAL", "channels": 16, "columns": 512,
                       "mounting_roll_rad": -0.1}),
    ("ouster", "os1", {"profile": "RNG15_RFL8_NIR8", "channels": 16, "columns": 512,
                       "column_window": [0, 191]}),
]  # fmt: skip


@pytest.mark.parametrize(("family", "model", "params"), CASES)
def test_every_layout_sees_the_room_with_the_right_hand_on_the_right(
    family: str, model: str, params: dict[str, Any], tmp_path: Path
) -> None:
    scene = ROOM + "[[circle]]\nat = [1.5, 1.2]\nradius_m = 0.2\n"
    bench = Bench(tmp_path, scanner(family, model, **params), scene=scene, more=[HeightMap])
    bench.run(0.65)
    assert len(bench.scans) >= 3
    assert not bench.faults
    scan = bench.scans[-1]
    assert scan.scan_time_s == pytest.approx(0.1, rel=0.01)
    assert scan.t_ns + 0.1e9 < scan.t_rx_ns < scan.t_ns + 0.125e9
    bearing, range_m = ranges(scan)
    hit = np.isfinite(range_m)
    x, y = X_M + range_m[hit] * np.cos(bearing[hit]), range_m[hit] * np.sin(bearing[hit])
    off = np.min(np.abs((x - 4.0, x + 3.0, y - 2.0, y + 2.0)), axis=0)
    post = np.abs(np.hypot(x - 1.5, y - 1.2) - 0.2)
    assert np.quantile(np.minimum(off, post), 0.98) < 0.06
    window = "column_window" in params
    assert hit.mean() > 0.99
    if not window:
        toward = np.abs(bearing - np.arctan2(1.2, 1.5 - X_M)) < 0.03
        assert np.nanmin(range_m[toward]) == pytest.approx(hypot(1.2, 1.5 - X_M) - 0.2, abs=0.05)
    heights = np.array(bench.maps[-1].heights_m)
    assert abs(np.nanmedian(heights)) < 0.06


@pytest.mark.parametrize("family", POINT_FAMILIES)
def test_what_goes_wrong_is_named(family: str, tmp_path: Path) -> None:
    params: dict[str, Any] = {"channels": 16, "columns": 512} if family == "ouster" else {}
    fails = ["scanner:lidar_loses_packets=0.2@0.3+0.4", "scanner:motor_stops@0.8+1.6"]
    bench = Bench(tmp_path, scanner(family, **params), fails).run(0.75)
    missing = np.isnan(np.array(bench.scans[-1].ranges_m)).mean()
    assert 0.05 < missing < 0.5
    bench.run(1.6)
    assert [each.reason for each in bench.faults] == ["it measures, but it does not turn"]


def test_a_profile_changed_in_the_field_is_named_and_used_again_when_it_is_back(
    tmp_path: Path,
) -> None:
    bench = Bench(
        tmp_path, scanner("ouster", channels=16, columns=512), ["scanner:lidar_other_mode@0.3+0.3"]
    ).run(1.0)
    first, over = bench.faults
    assert first.code == "lidar_health"
    assert first.reason == (
        "its packets have 3392 bytes (LEGACY of 16 channels), and those of RNG19_RFL8_SIG16_NIR16 "
        "with 16 channels have 3328: run vehicled devices ouster again"
    )
    assert not over.active
    assert bench.scans[-1].t_rx_ns > 900_000_000


def test_dual_returns_set_in_the_field_change_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path, scanner("velodyne"), ["scanner:lidar_other_mode@0.3+0.5"]).run(0.75)
    assert not bench.faults
    assert np.isfinite(bench.scans[-1].ranges_m).mean() > 0.99


# ---------------------------------------------------------------- metadata


def test_metadata_that_cannot_be_used_is_refused_with_the_reason() -> None:
    for text, reason in (
        ("{", "is not JSON"),
        ("[]", "is not the metadata"),
        ("{}", "lacks what the packets need"),
    ):
        with pytest.raises(MetadataError, match=reason):
            params_of(text)
    whole = {
        "prod_line": "OS-1-64", "lidar_mode": "1024x20", "beam_altitude_angles": [1.0] * 64,
        "beam_azimuth_angles": [0.0] * 64,
        "data_format": {
            "pixels_per_column": 64, "columns_per_frame": 1024, "columns_per_packet": 16,
            "udp_profile_lidar": "FUSA_RNG15_RFL8_NIR8_DUAL", "column_window": [0, 1023],
        },
    }  # fmt: skip
    with pytest.raises(MetadataError, match="set one of LEGACY"):
        params_of(json.dumps(whole))
    whole["data_format"] = {**whole["data_format"], "udp_profile_lidar": "LEGACY"}  # type: ignore[dict-item]
    params = OusterParams(**params_of(json.dumps(whole)))  # type: ignore[arg-type]
    assert (params.rate_hz, params.channels, params.column_window) == (20.0, 64, None)
    with pytest.raises(ValueError, match="channels says 64"):
        OusterParams(channels=64, beam_altitude_deg=[1.0] * 32)


def test_a_sensor_that_restarts_or_grows_hot_says_so() -> None:
    device = OusterDevice(OusterParams(channels=16), [LaserScan], 0)
    kind = ouster.packet_type("RNG19_RFL8_SIG16_NIR16", 16, 16)
    found: list[Message] = []
    for init, shot, thermal in ((7, 0, 0), (8, 4, 0), (8, 0, 0), (8, 0, 1)):
        packet = np.zeros(1, kind)
        packet["type"], packet["init"] = 1, init
        packet["shot"], packet["thermal"] = shot, thermal
        found += device.on_rx(pack(packet.tobytes()), 10**9)
    assert [getattr(each, "reason", "lidar_restarted") for each in found] == [
        "lidar_restarted",
        "it limits its laser because of its temperature, and its range with it",
        "it limits its laser because of its temperature, and its range with it",
        "it is about to shut down because of its temperature",
    ]


@pytest.mark.parametrize("family", POINT_FAMILIES)
def test_packets_of_random_content_never_raise_nor_give_times_out_of_range(family: str) -> None:
    random = np.random.default_rng(1)
    device: Any = (
        VelodyneDevice(VelodyneParams(), [LaserScan, HeightMap], 0)
        if family == "velodyne"
        else OusterDevice(OusterParams(channels=16, columns=512), [LaserScan, HeightMap], 0)
    )
    kind = ouster.packet_type("RNG19_RFL8_SIG16_NIR16", 16, 16)
    for i in range(300):
        size = velodyne.DATA_BYTES if family == "velodyne" else kind.itemsize
        data = random.integers(0, 256, size, dtype=np.uint8)
        if family == "velodyne":
            data[:1200:100], data[1:1200:100] = 0xFF, 0xEE
            data[3:1200:100] %= 140
            data[1203], data[1204], data[1205] = 100, 0x37 + i % 3, 0x22
        else:
            data[:2] = 1, 0
            columns = data.view(kind)[0]["columns"]
            columns["id"] %= 512
            columns["status"] |= 1
            if i % 2:
                columns["stamp"] = columns["stamp"][0] + columns["id"]
        for message in device.on_rx(pack(data.tobytes()), 10**9 + 10_000_000 * i):
            assert isinstance(message, device.produces)
            if isinstance(message, LaserScan):
                assert abs(message.t_ns) < 2**62
    assert device.usage.news == []
