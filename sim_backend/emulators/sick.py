"""Emulator of a SICK scanner: its answers in CoLa A or B, and scans to whom asked for them."""

import numpy as np

from drivers.lidar.scan import Array
from drivers.lidar.sick import (
    MOST_BYTES,
    PROTOCOLS,
    SCANS,
    ScanData,
    Telegram,
    encode,
    encode_scan,
    parse,
)
from sim_backend.emulators.lidar import FAULT, MOTOR, LidarUnit
from sim_backend.emulators.line import on_its_line
from vehicled.core.wire.framing import Framer

FAR_COUNTS = 40_000
SENT_US = 6_300
"""Time from the last ray to the telegram, as of a TiM 781."""
FULL_TURN_DEG = 360.0


class SickUnit(LidarUnit):
    """SICK unit as a :class:`sim_backend.emulators.line.LineDevice`. It speaks the dialect of the
    profile, or B."""

    def _begin(self, now_ns: int) -> None:
        self._binary = self.params.cola != "a"
        self._framer = Framer(PROTOCOLS, MOST_BYTES)
        self._sends = False
        self._count = 0
        self._boot_ns = now_ns

    @property
    def _ill(self) -> bool:
        return bool({FAULT, MOTOR} & set(self._active))

    def on_bytes(self, data: bytes, now_ns: int) -> None:
        for name, frame in self._framer.feed(data):
            found = parse(frame)
            # The other dialect is noise to it.
            if isinstance(found, Telegram) and (name == "cola_b") is self._binary:
                self._obey(found, now_ns)

    def _obey(self, asked: Telegram, now_ns: int) -> None:
        match asked.kind, asked.name:
            case "sRN", "DeviceIdent":
                self._reply("sRA DeviceIdent", self.params.model.encode(), now_ns)
            case "sRN", "SCdevicestate":
                state = 2 if self._ill else 1
                self._reply(
                    "sRA SCdevicestate", bytes((state,)) if self._binary else b"%d" % state, now_ns
                )
            case "sEN", name if name == SCANS:
                self._sends = asked.values[-1:] in (b"\1", b"1")
                self._reply(f"sEA {SCANS}", asked.values[-1:], now_ns)
            case "sMN", ("SetAccessMode" | "LMCstartmeas" | "Run"):
                self._reply(f"sAN {asked.name}", b"\1" if self._binary else b"1", now_ns)
            case _:
                self.answer(
                    encode(b"sFA \0\3" if self._binary else b"sFA 3", binary=self._binary), now_ns
                )

    def _reply(self, text: str, values: bytes, now_ns: int) -> None:
        self.answer(encode(text.encode() + b" " + values, binary=self._binary), now_ns)

    def _measured(self, angle_rad: Array, range_m: Array, t_ns: Array) -> None:
        if not self._sends or self._answers:
            return
        self._count = (self._count + 1) & 0xFFFF
        far = range_m * 1000.0 > FAR_COUNTS
        scale = 2.0 if far.any() else 1.0
        counts = np.round(range_m * 1000.0 / scale).astype(np.int64)
        if FAULT in self._active:
            counts[:] = 0
        begun_us, ended_us = (int((t - self._boot_ns) / 1e3) for t in (t_ns[0], t_ns[-1]))
        start_us = ended_us if self.params.model.startswith("tim") else begun_us
        degrees = np.degrees(angle_rad)
        first = float(degrees[0])
        first -= FULL_TURN_DEG if first > 0.75 * FULL_TURN_DEG else 0.0
        step = float(np.degrees(self.model.last_rad - self.model.first_rad)) / (len(counts) - 1)
        status = 1 if FAULT in self._active else 0
        times = self._count, self._count, start_us, ended_us + SENT_US
        scan = ScanData(status, *times, self.rate_hz, first, step, scale, tuple(counts.tolist()))
        self._tx.append(encode_scan(scan, binary=self._binary))


sick = on_its_line(SickUnit)
