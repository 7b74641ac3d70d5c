"""Common part of the emulated laser scanners: the sweep of the model, and measurements in the
device's own angles.

The simulated sensor sweeps as the model does that the profile names: its direction, its field of
view, its rays and its speed. Of ``[sim.lidar]`` it keeps noise, reach and lost returns. One that
sends while it turns gets its rays in parts of a turn.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from math import tau
from types import MappingProxyType
from typing import Any

import numpy as np
from msgspec.structs import replace

from drivers.lidar.base import LidarDevice
from drivers.lidar.scan import MOST_RAYS, Array
from sim_backend.emulators.line import AnsweringDevice, baud_of
from sim_backend.emulators.outbox import ActiveFailures
from vehicled.core.messages import LaserScan, Message
from vehicled.profile.registry import resolve
from vehicled.profile.schema import DeviceTable, LidarModel

PARTS = 32
"""Parts of a turn in which measurements leave the sensor."""
LATENCY_MS = 0.5
MOTOR, FAULT = "motor_stops", "lidar_fault"
KINDS = MappingProxyType({MOTOR: 1.0, FAULT: 1.0})


def driver_of(device: DeviceTable) -> LidarDevice | None:
    """Return a driver as the profile sets it up; None if the device is no scanner with a wire of
    its own."""
    kind: Any = resolve("driver", device.driver.name)
    made = isinstance(kind, type) and issubclass(kind, LidarDevice)
    return kind(device.driver.selected, [], 0) if made else None


def sweep(device: DeviceTable, model: LidarModel) -> tuple[LidarModel, int]:
    """Return the sweep of the simulated sensor behind a device on wires, and in how many parts it
    leaves."""
    driver = driver_of(device)
    if driver is None:
        return model, 1
    own, geometry, rate_hz = driver.model, driver.geometry, driver.rate_hz
    span_rad = own.last_rad - own.first_rad
    rays = min(MOST_RAYS, round(own.samples_hz / rate_hz * span_rad / tau))
    parts = PARTS if own.streams else 1
    if own.streams:
        rays -= rays % parts
        span_rad *= 1.0 - 1.0 / rays
    else:
        rays = min(MOST_RAYS, round(own.samples_hz / rate_hz * span_rad / tau) + 1)
    first_rad = (geometry.yaw_rad + geometry.sense * own.first_rad) % tau - (
        0.0 if geometry.sense < 0 else tau
    )
    found = replace(
        model,
        rate_hz=rate_hz,
        rays=rays,
        angle_min_rad=first_rad,
        angle_max_rad=first_rad + geometry.sense * span_rad,
        sweep_ms=1e3 / rate_hz * span_rad / tau,
        latency_ms=LATENCY_MS,
        range_min_m=own.range_min_m,
        range_max_m=own.range_max_m,
        reach_m=max(model.reach_m, 1.2 * own.range_max_m),
    )
    return found, parts


class LidarUnit(ActiveFailures, AnsweringDevice, ABC):
    """Scanner as a :class:`sim_backend.emulators.line.LineDevice`. Subclasses add the protocol."""

    def __init__(self, port: str, device: DeviceTable, seed: int, start_ns: int) -> None:
        driver = driver_of(device)
        assert driver is not None
        super().__init__(driver.model.baud if baud_of(device.port) else 0)
        self.params: Any = device.driver.selected
        self.model, self.rate_hz = driver.model, driver.rate_hz
        self._geometry = driver.geometry
        swept, _ = sweep(device, LidarModel())
        self.samples_hz = (
            swept.rays * swept.rate_hz if driver.model.streams else driver.model.samples_hz
        )
        """Measurements per second, which are fewer than the model's where the simulated sensor has
        no more rays."""
        self._standing_rad: float | None = None
        self._begin(start_ns)

    # ---------------------------------------------------------------- for subclasses

    @abstractmethod
    def _measured(self, angle_rad: Array, range_m: Array, t_ns: Array) -> None:
        """Take measurements at angles of the device, in its direction of rotation; a range of 0 is
        none. Arrays (n,)."""

    @abstractmethod
    def _begin(self, now_ns: int) -> None:
        """Reset everything outside the flash."""

    # ---------------------------------------------------------------- LineDevice interface

    @property
    def kinds(self) -> Mapping[str, float]:
        return KINDS

    def inject(self, kind: str, value: float, active: bool, now_ns: int) -> None:
        """Begin or end a failure: a motor that stops, or a fault that the device reports with a
        code."""
        super().inject(kind, value, active, now_ns)
        self._standing_rad = None

    def restart(self, now_ns: int) -> None:
        """Lose everything outside the flash."""
        self._tx.clear()
        self._answers.clear()
        self._begin(now_ns)

    def on_message(self, message: Message, now_ns: int) -> None:
        if not isinstance(message, LaserScan):
            return
        geometry, count = self._geometry, np.arange(len(message.ranges_m))
        bearing = message.angle_min_rad + message.angle_increment_rad * count
        angle = geometry.sense * (bearing - geometry.yaw_rad) % tau
        ranges = np.array(message.ranges_m)
        # What is too near for a scanner returns nothing that it could use either.
        ranges = np.where(np.isfinite(ranges), ranges, 0.0)
        if MOTOR in self._active:
            if not self.model.streams:
                return  # it notices, and sends nothing more
            if self._standing_rad is None:
                self._standing_rad = float(angle[0])
            angle, ranges = np.full(len(angle), self._standing_rad), np.full(len(ranges), ranges[0])
        t_ns = message.t_ns + 1e9 * message.time_increment_s * count
        self._measured(angle, ranges, t_ns)


def of_beams(
    angle_deg: Array,
    range_m: Array,
    count: int,
    ahead: int,
    lead_deg: float,
    lag_deg: Callable[[Array], Array],
) -> list[float]:
    """Return the first ``count`` ranges of a scanner whose beams are behind its rotor by an angle
    that depends on the range, mm.

    The rotor is ``lead_deg`` before the rays, of which ``ahead`` more are needed.
    """
    step = float(angle_deg[1] - angle_deg[0]) % 360.0
    # Of the ray j after ray i: how far its beam would be from where the rotor's angle puts it.
    window = np.lib.stride_tricks.sliding_window_view(range_m, ahead)[:count]
    off = np.abs(step * np.arange(ahead) - (lead_deg - lag_deg(1000.0 * window)))
    found = window[np.arange(len(window)), np.argmin(off, axis=1)]
    return [float(each) for each in found]
