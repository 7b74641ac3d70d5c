"""Processor time of the drivers of 3-D scanners: of a packet, of a second of data, and of a
call, which holds the loop. Run ``python bench/point_lidar.py``."""

import time
from typing import Any

import numpy as np

from drivers.lidar import ouster, velodyne
from drivers.lidar.points import PointLidar
from vehicled.core.messages import HeightMap, LaserScan
from vehicled.core.wire.datagram import pack

SECONDS = 5
BURST = 4
"""Packets that arrive at once, as when the loop was busy for some milliseconds."""


def ranges_m(bearing: Any, elevation: Any) -> Any:
    """Ranges in a yard of 16 x 12 m, from 1 m over its ground; 0 above its walls."""
    run = np.minimum(8.0 / np.abs(np.cos(bearing)), 6.0 / (np.abs(np.sin(bearing)) + 1e-9))
    fall = np.where(elevation < 0.0, -1.0 / np.minimum(np.tan(elevation), -1e-9), np.inf)
    met = np.minimum(run, fall) / np.cos(elevation)
    return np.where((elevation > 0.0) & (1.0 + run * np.tan(elevation) > 3.0), 0.0, met)


def velodyne_packets(model: Any, *, dual: bool) -> tuple[PointLidar, list[bytes], float]:
    device = velodyne.VelodyneDevice(
        velodyne.VelodyneParams(model=model),
        [LaserScan, HeightMap],
        0,
    )
    series, found = device.series, []
    returns = 2 if dual else 1
    columns = velodyne.BLOCKS * series.firings // returns
    period_s = columns * series.cycle_us * 1e-6
    for i in range(round(SECONDS / period_s)):
        turned = 2.0 * np.pi * 10.0 * (i + np.arange(columns) / columns) * period_s
        elevation = np.radians(series.elevation_deg)
        blocks = np.rint(ranges_m(turned[:, None], elevation) / series.unit_m).reshape(-1, 32)
        azimuth = np.rint(np.degrees(turned[:: series.firings]) * 100.0) % 36_000
        mode = velodyne.DUAL if dual else velodyne.STRONGEST
        stamp = round(1e6 * i * period_s)
        data = velodyne.VelodyneData(
            np.repeat(azimuth, returns), np.repeat(blocks, returns, 0), 9, stamp, mode,
            series.product,
        )  # fmt: skip
        found.append(pack(velodyne.encode_data(data)))
    return device, found, period_s


def ouster_packets(profile: Any, channels: Any) -> tuple[PointLidar, list[bytes], float]:
    params = ouster.OusterParams(profile=profile, channels=channels)
    device = ouster.OusterDevice(params, [LaserScan, HeightMap], 0)
    kind, layout, found = ouster.packet_type(profile, 16, channels), ouster.LAYOUTS[profile], []
    elevation = device.beams().elevation_rad
    for i in range(640 * SECONDS):
        ids = 16 * i + np.arange(16)
        packet = np.zeros(1, kind)
        columns = packet["columns"][0]
        columns["id"], columns["stamp"] = ids % 1024, ids * (10**9 // 10_240)
        columns["status"] = 0xFFFF_FFFF if profile == "LEGACY" else 1
        met = ranges_m(ids[:, None] * (2.0 * np.pi / 1024.0) + 1e-3, elevation)
        columns["pixels"]["range"] = np.rint(1000.0 * met / layout.range_mm)
        if layout.returns > 1:
            columns["pixels"]["range2"] = columns["pixels"]["range"]
        if profile != "LEGACY":
            packet["type"] = ouster.LIDAR_PACKET
        found.append(pack(packet.tobytes()))
    return device, found, 1.0 / 640.0


def measure(name: str, device: PointLidar, packets: list[bytes], period_s: float) -> None:
    device.mount((0.0, 0.0, 1.0))
    calls = []
    begun_s = time.process_time()
    for at in range(0, len(packets), BURST):
        data = b"".join(packets[at : at + BURST])
        called_s = time.perf_counter()
        device.on_rx(data, 10**9 + round(1e9 * (at + BURST) * period_s))
        calls.append(time.perf_counter() - called_s)
    total_s = time.process_time() - begun_s
    print(
        f"{name:42} {1.0 / period_s:6.0f} packets/s {1e6 * total_s / len(packets):6.0f} us each "
        f"{100.0 * total_s / (len(packets) * period_s):5.1f} % of a core, call "
        f"median {1e3 * np.median(calls):.1f} ms, 99 % {1e3 * np.quantile(calls, 0.99):.1f} ms"
    )


def main() -> None:
    """Print a line for each sensor."""
    for model, dual in (("vlp16", False), ("vlp16", True), ("vlp32c", False)):
        kind = "dual" if dual else "single"
        measure(f"velodyne {model}, {kind}", *velodyne_packets(model, dual=dual))
    for profile, channels in (
        ("RNG15_RFL8_NIR8", 32), ("RNG19_RFL8_SIG16_NIR16", 64),
        ("RNG19_RFL8_SIG16_NIR16_DUAL", 64), ("RNG19_RFL8_SIG16_NIR16", 128),
    ):  # fmt: skip
        measure(f"ouster {profile}, {channels}", *ouster_packets(profile, channels))


if __name__ == "__main__":
    main()
