"""Emulator of a YDLIDAR: answers, speed, and packets of a triangle or of a time of flight."""

import numpy as np

from drivers.lidar.answers import INFO, HealthStatus, Info, encode_answer, head
from drivers.lidar.scan import Array
from drivers.lidar.ydlidar import (
    COMMANDS,
    GET_HEALTH,
    GET_INFO,
    GET_SPEED,
    MODELS,
    POINTS,
    RESET,
    SCAN,
    SPEED_BYTES,
    SPEED_DOWN,
    SPEED_DOWN_FINE,
    SPEED_UP,
    SPEED_UP_FINE,
    STOP,
    YdlidarPacket,
    encode_packet,
    shift_deg,
)
from sim_backend.emulators.lidar import FAULT, LidarUnit, of_beams
from sim_backend.emulators.line import on_its_line
from vehicled.core.wire.framing import Framer
from vehicled.profile.schema import DeviceTable

NUMBERS = {"x2": 4, "x4": 6, "g2": 15, "g4": 5, "g6": 13, "tg15": 100, "tg30": 101, "tmini": 150}
"""Model numbers in the identity."""
SAMPLES = 40
LEAD_DEG = 8.0
"""Angle of the rotor before its rays: that of a triangle at a far range."""
AHEAD = 48
"""Rays that a packet of a triangle needs beyond its own."""
STRENGTH = 600
_STEPS_HZ = {SPEED_UP: 1.0, SPEED_DOWN: -1.0, SPEED_UP_FINE: 0.1, SPEED_DOWN_FINE: -0.1}


class YdlidarUnit(LidarUnit):
    """YDLIDAR unit as a :class:`sim_backend.emulators.line.LineDevice`."""

    def __init__(self, port: str, device: DeviceTable, seed: int, start_ns: int) -> None:
        params = device.driver.selected
        self._kind = MODELS[params.model]
        self._intensity = (
            self._kind.sample_bytes == 3 if params.intensity is None else params.intensity
        )
        super().__init__(port, device, seed, start_ns)

    def _begin(self, now_ns: int) -> None:
        self._framer = Framer((COMMANDS,))
        self.speed_hz = self.model.rate_hz
        """Speed that is set."""
        self._scans = not self._kind.commands or not self.params.configure
        self._clear()

    def _clear(self) -> None:
        self._angles: Array = np.zeros(0)
        self._ranges: Array = np.zeros(0)

    def on_bytes(self, data: bytes, now_ns: int) -> None:
        if not self._kind.commands:
            return
        for _, frame in self._framer.feed(data):
            self._obey(frame[1], now_ns)

    def _obey(self, code: int, now_ns: int) -> None:
        if code == STOP:
            self._scans = False
        elif code == RESET:
            self.restart(now_ns)
        elif code == GET_INFO:
            self.answer(
                encode_answer(Info(NUMBERS[self.params.model], 0x0105, 1, "20240101" * 4)), now_ns
            )
        elif code == GET_HEALTH:
            fault = self._active.get(FAULT)
            self.answer(
                encode_answer(HealthStatus(0 if fault is None else 2, int(fault or 0))), now_ns
            )
        elif code == GET_SPEED or code in _STEPS_HZ:
            self.speed_hz = round(self.speed_hz + _STEPS_HZ.get(code, 0.0), 1)
            speed = round(100.0 * self.speed_hz).to_bytes(SPEED_BYTES, "little")
            self.answer(head(INFO, SPEED_BYTES) + speed, now_ns)
        elif code == SCAN and FAULT not in self._active:
            self._scans = True
            self._clear()
            self.answer(head(POINTS, 5, multiple=True), now_ns)

    def _measured(self, angle_rad: Array, range_m: Array, t_ns: Array) -> None:
        if not self._scans or self._answers or FAULT in self._active:
            return
        self._angles = np.concatenate((self._angles, np.degrees(angle_rad)))
        self._ranges = np.concatenate((self._ranges, range_m))
        ahead = AHEAD if self._kind.triangle else 0
        while len(self._angles) >= SAMPLES + ahead:
            # A packet of one sample begins a turn, so the one before ends there.
            wraps = np.flatnonzero(np.diff(self._angles[: SAMPLES + 1]) < 0.0) + 1
            begins = len(wraps) > 0 and wraps[0] == 1
            count = 1 if begins else int(wraps[0]) - 1 if len(wraps) and wraps[0] > 1 else SAMPLES
            self._send_packet(count, begins=bool(begins))
            self._angles, self._ranges = self._angles[count:], self._ranges[count:]

    def _send_packet(self, count: int, *, begins: bool) -> None:
        first, last = float(self._angles[0]), float(self._angles[count - 1])
        if self._kind.triangle:
            metres = of_beams(
                self._angles, self._ranges, count, AHEAD, LEAD_DEG, lambda each: -shift_deg(each)
            )
            first, last = first + LEAD_DEG, last + LEAD_DEG
        else:
            metres = self._ranges[:count].tolist()
        counts = [round(each * self._kind.per_m) for each in metres]
        ranges = tuple([each if each <= 0xFFFF else 0 for each in counts])
        strengths = (STRENGTH,) * count if self._intensity else ()
        self._tx.append(
            encode_packet(
                YdlidarPacket(
                    begins, self.rate_hz if begins else 0.0, first, last, ranges, strengths
                )
            )
        )


ydlidar = on_its_line(YdlidarUnit)
