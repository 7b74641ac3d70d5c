"""Emulator of an LDROBOT scanner, which sends packets from the moment it has power."""

import numpy as np

from drivers.lidar.ldrobot import SAMPLES, STAMP_MS, TURN, LdrobotPacket, encode_packet
from drivers.lidar.scan import Array
from sim_backend.emulators.lidar import FAULT, MOTOR, LidarUnit
from sim_backend.emulators.line import on_its_line

STRENGTH = 228


class LdrobotUnit(LidarUnit):
    """LDROBOT unit as a :class:`sim_backend.emulators.line.LineDevice`."""

    def _begin(self, now_ns: int) -> None:
        self._angles: Array = np.zeros(0)
        self._ranges: Array = np.zeros(0)

    def _measured(self, angle_rad: Array, range_m: Array, t_ns: Array) -> None:
        if FAULT in self._active:
            return
        self._angles = np.concatenate((self._angles, np.degrees(angle_rad)))
        self._ranges = np.concatenate((self._ranges, range_m))
        speed = 0 if MOTOR in self._active else round(360.0 * self.rate_hz)
        while len(self._angles) >= SAMPLES:
            first, last = (round(100.0 * float(self._angles[at])) % TURN for at in (0, SAMPLES - 1))
            ranges = tuple(
                min(round(1000.0 * each), 0xFFFF) for each in self._ranges[:SAMPLES].tolist()
            )
            stamp = round(float(t_ns[-1]) * 1e-6) % STAMP_MS
            self._tx.append(
                encode_packet(
                    LdrobotPacket(speed, first, ranges, (STRENGTH,) * SAMPLES, last, stamp)
                )
            )
            self._angles, self._ranges = self._angles[SAMPLES:], self._ranges[SAMPLES:]


ldrobot = on_its_line(LdrobotUnit)
