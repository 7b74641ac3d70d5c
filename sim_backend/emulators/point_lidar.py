"""Emulators of 3-D scanners: the sweep of the simulated sensor, and the packets of Velodyne and
Ouster."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from math import ceil, floor, tau
from types import MappingProxyType
from typing import Any

import numpy as np
from msgspec.structs import replace

from drivers.lidar import ouster, velodyne
from drivers.lidar.points import PointLidar, rotation
from drivers.lidar.scan import Array
from sim_backend.emulators.lidar import FAULT, LATENCY_MS, MOTOR
from sim_backend.emulators.outbox import ActiveFailures, EmulatorOutbox
from sim_backend.sensors.noise import stream
from sim_backend.sensors.point_lidar import PointScan, PointSweep
from vehicled.core.messages import Message
from vehicled.core.wire.datagram import pack
from vehicled.profile.registry import resolve
from vehicled.profile.schema import DeviceTable, LidarModel

LOST, OTHER_MODE = "lidar_loses_packets", "lidar_other_mode"
KINDS = MappingProxyType({MOTOR: 1.0, FAULT: 1.0, LOST: 0.3, OTHER_MODE: 1.0})
BOOT_NS = 3_000_000_000_000
"""Time for which the sensor has run; the stamps of a Velodyne wrap 10 minutes later."""
MOST_PARTS = 25
"""Parts of a turn in which the packets leave."""
STRENGTH = 60
POSITION_NS = 1_000_000_000
"""Interval between two position packets; a VLP-16 sends more."""


def driver_of(device: DeviceTable) -> PointLidar | None:
    """Return a driver as the profile sets it up; None if the device is no 3-D scanner."""
    kind: Any = resolve("driver", device.driver.name)
    made = isinstance(kind, type) and issubclass(kind, PointLidar)
    return kind(device.driver.selected, [], 0) if made else None


def columns_of(driver: PointLidar) -> tuple[int, int]:
    """Return the columns of a turn, whole packets of them, and of a packet."""
    if isinstance(driver, ouster.OusterDevice):
        params: Any = driver.params
        return params.columns, params.columns_per_packet
    assert isinstance(driver, velodyne.VelodyneDevice)
    packet = velodyne.BLOCKS * driver.series.firings
    packets = driver.model.samples_hz / driver.rate_hz / packet
    # Its turns are no whole numbers of packets. Those of the simulation leave in equal parts.
    near = range(max(1, ceil(0.97 * packets)), floor(1.03 * packets) + 2)
    return max(near, key=_parts) * packet, packet


def _parts(packets: int) -> int:
    """Return the number of equal parts in which the packets of a turn leave."""
    return next(n for n in range(min(packets, MOST_PARTS), 0, -1) if not packets % n)


def point_sweep(device: DeviceTable, model: LidarModel) -> PointSweep | None:
    """Return the sweep of the simulated sensor behind a device on wires; None if the device is no
    3-D scanner."""
    driver = driver_of(device)
    if driver is None:
        return None
    count, packet = columns_of(driver)
    beams, own, p = driver.beams(), driver.model, driver.params
    # Each part of a turn is a message, so a turn may have more columns than a scan has rays.
    swept = replace(
        model,
        rate_hz=driver.rate_hz,
        rays=count,
        angle_min_rad=0.0,
        angle_max_rad=tau * (1.0 - 1.0 / count),
        latency_ms=LATENCY_MS,
        range_min_m=own.range_min_m,
        range_max_m=own.range_max_m,
        reach_m=max(model.reach_m, 1.2 * own.range_max_m),
        sweep_ms=1e3 / driver.rate_hz * (1.0 - 1.0 / count),
    )
    turned = rotation(
        p.mounting_yaw_rad + own.front_rad,
        p.mounting_pitch_rad,
        p.mounting_roll_rad + (np.pi if p.upside_down else 0.0),
    )
    return PointSweep(swept, beams, turned, _parts(count // packet))


class PointUnit(ActiveFailures, EmulatorOutbox, ABC):
    """3-D scanner as :class:`sim_backend.emulators.interface.Emulator`. Subclasses add the
    packets."""

    def __init__(self, port: str, device: DeviceTable, seed: int, start_ns: int) -> None:
        super().__init__()
        driver = driver_of(device)
        assert driver is not None
        self.driver = driver
        self.params: Any = device.driver.selected
        self.per_turn, self.per_packet = columns_of(driver)
        self._start_ns = start_ns
        self._standing: float | None = None
        self._angles: Array = np.zeros(0)
        self._times: Array = np.zeros(0)
        self._ranges: Array = np.zeros((0, 1))
        self._chance = stream(seed, f"{port}/packets")
        self._position_ns = start_ns

    @abstractmethod
    def _packet(self, angle_rad: Array, range_m: Array, t_ns: Array) -> bytes:
        """Return the packet of columns, none if it is not sent. Times count from the start of the
        device; a range of 0 is none."""

    def _other(self, t_ns: float) -> bytes:
        """Return what else is due; empty if nothing is."""
        return b""

    # ---------------------------------------------------------------- Emulator interface

    def on_message(self, message: Message, ready_ns: int) -> None:
        """Send the packets that the columns fill."""
        if not isinstance(message, PointScan):
            return
        ranges = np.array(message.ranges_m).reshape(-1, message.beams)
        ranges = np.where(np.isfinite(ranges), ranges, 0.0)
        count = np.arange(len(ranges))
        angle = message.angle_min_rad + message.angle_increment_rad * count
        if MOTOR in self._active:
            if self._standing is None:
                self._standing = float(angle[0])
            angle, ranges = (
                np.full(len(angle), self._standing),
                np.repeat(ranges[:1], len(angle), 0),
            )
        if FAULT in self._active:
            ranges[:] = 0.0
        since_ns = message.t_ns - self._start_ns + BOOT_NS
        self._angles = np.concatenate((self._angles, angle))
        self._times = np.concatenate(
            (self._times, since_ns + 1e9 * message.time_increment_s * count)
        )
        self._ranges = ranges if not len(self._ranges) else np.concatenate((self._ranges, ranges))
        n = self.per_packet
        while len(self._angles) >= n:
            data = self._packet(self._angles[:n], self._ranges[:n], self._times[:n])
            lost = LOST in self._active and self._chance.random() < self._active[LOST]
            if data and not lost:
                self._tx.append((ready_ns, pack(data)))
            if other := self._other(float(self._times[0])):
                self._tx.append((ready_ns, pack(other)))
            self._angles, self._times = self._angles[n:], self._times[n:]
            self._ranges = self._ranges[n:]

    @property
    def kinds(self) -> Mapping[str, float]:
        return KINDS

    def inject(self, kind: str, value: float, active: bool, now_ns: int) -> None:
        """Begin or end a failure."""
        super().inject(kind, value, active, now_ns)
        self._standing = None


class VelodyneUnit(PointUnit):
    """Velodyne scanner, which sends its strongest returns; after a change of its mode both, which
    are the same here."""

    def _packet(self, angle_rad: Array, range_m: Array, t_ns: Array) -> bytes:
        assert isinstance(self.driver, velodyne.VelodyneDevice)
        series = self.driver.series
        counts = np.minimum(np.rint(range_m / series.unit_m), 0xFFFF)
        dual = OTHER_MODE in self._active
        azimuth = np.rint(np.degrees(angle_rad[:: series.firings]) * 100.0) % velodyne.TURN_CDEG
        blocks = counts.reshape(velodyne.BLOCKS, velodyne.LASERS)
        stamp = int(t_ns[0] / 1e3) % velodyne.HOUR_US
        mode = velodyne.DUAL if dual else velodyne.STRONGEST
        strength = np.where(blocks > 0, STRENGTH, 0)
        if not dual:
            return velodyne.encode_data(
                velodyne.VelodyneData(azimuth, blocks, strength, stamp, mode, series.product)
            )
        half = velodyne.BLOCKS // 2
        packets = [
            velodyne.encode_data(
                velodyne.VelodyneData(
                    np.repeat(azimuth[part], 2), np.repeat(blocks[part], 2, 0),
                    np.repeat(strength[part], 2, 0),
                    int(t_ns[part.start * series.firings] / 1e3) % velodyne.HOUR_US, mode,
                    series.product,
                )
            )
            for part in (slice(0, half), slice(half, 2 * half))
        ]  # fmt: skip
        # Twice as many packets in the same time.
        self._second = packets[1]
        return packets[0]

    _second = b""

    def _other(self, t_ns: float) -> bytes:
        if self._second:
            second, self._second = self._second, b""
            return second
        if t_ns < self._position_ns:
            return b""
        self._position_ns = round(t_ns) + POSITION_NS
        stamp = int(t_ns / 1e3) % velodyne.HOUR_US
        return velodyne.encode_position(velodyne.VelodynePosition(stamp, "absent", ""))


class OusterUnit(PointUnit):
    """Ouster sensor with the profile that the vehicle's states; after a change of its mode with
    another one."""

    def __init__(self, port: str, device: DeviceTable, seed: int, start_ns: int) -> None:
        super().__init__(port, device, seed, start_ns)
        self._frame = 0

    def _packet(self, angle_rad: Array, range_m: Array, t_ns: Array) -> bytes:
        p = self.params
        profile = p.profile
        if OTHER_MODE in self._active:
            profile = next(name for name in ouster.LAYOUTS if name != p.profile)
        ids = np.rint(angle_rad * (self.per_turn / tau)).astype(np.int64) % self.per_turn
        if not ids[0]:
            self._frame = (self._frame + 1) & 0xFFFF
        first, last = p.column_window or (0, self.per_turn - 1)
        inside = (ids - first) % self.per_turn <= (last - first) % self.per_turn
        if not inside.any():
            return b""
        layout = ouster.LAYOUTS[profile]
        found = np.zeros(1, ouster.packet_type(profile, p.columns_per_packet, p.channels))
        columns = found["columns"][0]
        columns["stamp"], columns["id"] = t_ns.astype(np.uint64), ids
        good = 0xFFFF_FFFF if profile == "LEGACY" else 1
        columns["status"] = np.where(inside, good, 0)
        counts = np.rint(range_m * 1000.0 / layout.range_mm).astype(np.int64)
        counts[counts >> layout.range_bits > 0] = 0
        columns["pixels"]["range"] = counts
        columns["pixels"]["reflectivity"] = np.where(counts > 0, STRENGTH, 0)
        if profile == "LEGACY":
            columns["frame"], columns["encoder"] = self._frame, ids * (90_112 // self.per_turn)
        else:
            found["type"], found["frame"] = ouster.LIDAR_PACKET, self._frame
            found["shot"] = 2 if FAULT in self._active else 0
        return found.tobytes()
