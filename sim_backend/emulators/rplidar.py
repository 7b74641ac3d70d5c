"""Emulator of an RPLIDAR: answers, health, scan modes, and each kind of capsule at the rate of the
model."""

from math import ceil

import numpy as np

from drivers.lidar.answers import HealthStatus, Info, encode_answer
from drivers.lidar.rplidar import (
    ANSWER_TYPE,
    CAPSULE_BYTES,
    CAPSULE_SAMPLES,
    COMMANDS,
    DENSE,
    EXPRESS,
    EXPRESS_SCAN,
    GET_CONF,
    GET_HEALTH,
    GET_INFO,
    GET_SAMPLE_RATE,
    NODE_BYTES,
    NODES,
    RESET,
    SAMPLE_US,
    SCAN,
    SET_PWM,
    SET_RPM,
    STOP,
    TYPICAL,
    ULTRA,
    ULTRA_DENSE,
    LidarSetting,
    SampleRate,
    encode_capsule,
    encode_node,
    encode_reply,
    scan_descriptor,
    ultra_shift_deg,
)
from drivers.lidar.scan import Array
from sim_backend.emulators.lidar import FAULT, LidarUnit, of_beams
from sim_backend.emulators.line import BITS_PER_BYTE, on_its_line
from vehicled.core.wire.framing import Framer
from vehicled.profile.schema import DeviceTable

UNITS = {
    "a1": (0x18, 0x011D, EXPRESS), "a2m8": (0x28, 0x0119, EXPRESS), "a2m12": (0x2C, 0x0120, ULTRA),
    "a3": (0x31, 0x0120, ULTRA), "s1": (0x61, 0x0120, DENSE), "s2": (0x71, 0x0102, DENSE),
    "s3": (0x81, 0x0120, ULTRA_DENSE), "c1": (0x41, 0x0120, DENSE),
}  # fmt: skip
"""Model number, firmware and recommended measurements by model."""
EXPRESS_SHIFT_DEG = 6.0
ULTRA_MOST_DEG = 8.0
AHEAD = 24
"""Rays that an ultra capsule needs beyond its own, because its beams are behind the rotor by up to
eight degrees less those of the nearest range."""
LINE_SHARE = 0.95
BOOT_NS = 500_000_000


class RplidarUnit(LidarUnit):
    """RPLIDAR unit as a :class:`sim_backend.emulators.line.LineDevice`."""

    def __init__(self, port: str, device: DeviceTable, seed: int, start_ns: int) -> None:
        self._model, self._firmware, self._typical = UNITS[device.driver.selected.model]
        self.duty = self.rpm = 0
        """Motor control that was received last."""
        super().__init__(port, device, seed, start_ns)

    def _begin(self, now_ns: int) -> None:
        self._framer = Framer((COMMANDS,), 300)
        self._stop()
        self._booted_ns = now_ns

    def _stop(self) -> None:
        self._kind: int | None = None
        self._first = True
        self._skipped = 0
        self._angles: Array = np.zeros(0)
        self._ranges: Array = np.zeros(0)

    def on_bytes(self, data: bytes, now_ns: int) -> None:
        for _, frame in self._framer.feed(data):
            if now_ns >= self._booted_ns:
                self._obey(frame[1], frame[3:-1], now_ns)

    def _obey(self, code: int, payload: bytes, now_ns: int) -> None:
        if code == STOP:
            self._stop()
        elif code == RESET:
            self.restart(now_ns)
            self._booted_ns = now_ns + BOOT_NS
        elif code == GET_INFO:
            self.answer(encode_answer(Info(self._model, self._firmware, 7, "A1" * 16)), now_ns)
        elif code == GET_HEALTH:
            fault = self._active.get(FAULT)
            self.answer(
                encode_answer(HealthStatus(0 if fault is None else 2, int(fault or 0))), now_ns
            )
        elif code == GET_SAMPLE_RATE:
            rates = [round(self._sample_us(kind)) for kind in (NODES, EXPRESS)]
            self.answer(encode_reply(SampleRate(rates[0], rates[1])), now_ns)
        elif code == GET_CONF and len(payload) >= 4:
            entry = int.from_bytes(payload[:4], "little")
            contents = {
                TYPICAL: self._typical.to_bytes(2, "little"),
                ANSWER_TYPE: bytes((self._typical,)),
                SAMPLE_US: round(256.0 * self._sample_us(self._typical)).to_bytes(4, "little"),
            }
            if entry in contents:
                self.answer(encode_reply(LidarSetting(entry, contents[entry])), now_ns)
        elif code == SET_PWM:
            self.duty = int.from_bytes(payload[:2], "little")
        elif code == SET_RPM:
            self.rpm = int.from_bytes(payload[:2], "little")
        elif code in (SCAN, EXPRESS_SCAN) and FAULT not in self._active:
            self._stop()
            # Mode 0 is that of the first capsules; here the other modes are numbered as their
            # types.
            kind = NODES if code == SCAN else payload[0] or EXPRESS if payload else EXPRESS
            if kind in CAPSULE_SAMPLES:
                self._kind = kind
                self.answer(scan_descriptor(kind), now_ns)

    # ---------------------------------------------------------------- measurements

    def _every(self, kind: int) -> int:
        """Return how many rays make a measurement: the older kinds have fewer, so that they fit on
        the line."""
        size = NODE_BYTES if kind == NODES else CAPSULE_BYTES[kind] / CAPSULE_SAMPLES[kind]
        return (
            ceil(size * BITS_PER_BYTE * self.samples_hz / (LINE_SHARE * self.baud))
            if self.baud
            else 1
        )

    def _sample_us(self, kind: int) -> float:
        return 1e6 * self._every(kind) / self.samples_hz

    def _measured(self, angle_rad: Array, range_m: Array, t_ns: Array) -> None:
        kind = self._kind
        # Heads come before what they announce.
        if kind is None or self._answers or FAULT in self._active:
            return
        every = self._every(kind)
        first, self._skipped = -self._skipped % every, (self._skipped + len(angle_rad)) % every
        angle_rad, range_m = angle_rad[first::every], range_m[first::every]
        if kind == NODES:
            for angle, each in zip(np.degrees(angle_rad).tolist(), range_m.tolist()):
                turns = angle < (self._angles[-1] if len(self._angles) else 0.0)
                self._angles = np.array([angle])
                self._tx.append(encode_node(angle, each, begins=bool(turns)))
            return
        self._angles = np.concatenate((self._angles, np.degrees(angle_rad)))
        self._ranges = np.concatenate((self._ranges, range_m))
        count = CAPSULE_SAMPLES[kind]
        while len(self._angles) >= count + (AHEAD if kind == ULTRA else 0):
            begin = float(self._angles[0])
            if kind == ULTRA:
                ranges = of_beams(
                    self._angles, self._ranges, count + 1, AHEAD, ULTRA_MOST_DEG, ultra_shift_deg
                )
                begin += ULTRA_MOST_DEG
            else:
                ranges = self._ranges[:count].tolist()
                begin += EXPRESS_SHIFT_DEG if kind == EXPRESS else 0.0
            shift = EXPRESS_SHIFT_DEG if kind == EXPRESS else 0.0
            self._tx.append(encode_capsule(kind, begin, ranges, first=self._first, shift_deg=shift))
            self._first = False
            self._angles, self._ranges = self._angles[count:], self._ranges[count:]


rplidar = on_its_line(RplidarUnit)
