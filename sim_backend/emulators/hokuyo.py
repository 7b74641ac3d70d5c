"""Emulator of a Hokuyo scanner: SCIP 2.0 with its identity, steps and state, and scans without
end."""

from collections.abc import Sequence

import numpy as np

from drivers.lidar.hokuyo import STEPS, encode_message, encode_ranges
from drivers.lidar.scan import Array
from sim_backend.emulators.lidar import FAULT, MOTOR, LidarUnit
from sim_backend.emulators.line import on_its_line

WELL, ILL, STANDS = "Sensor works well.", "Laser malfunction.", "Motor does not turn."
NO_RETURN_MM = 65_533
"""Range of a network model for no echo; the first URG say 0."""
LINE_LIMIT_BYTES = 80


class HokuyoUnit(LidarUnit):
    """Hokuyo unit as a :class:`sim_backend.emulators.line.LineDevice`."""

    def _begin(self, now_ns: int) -> None:
        self._line = b""
        self._lit = False
        self._streaming = ""
        """Command whose answers are scans."""
        self._boot_ns = now_ns

    @property
    def _state(self) -> str:
        return STANDS if MOTOR in self._active else ILL if FAULT in self._active else WELL

    def inject(self, kind: str, value: float, active: bool, now_ns: int) -> None:
        """Begin or end a failure; a scanner that fails says so once, and sends nothing more."""
        super().inject(kind, value, active, now_ns)
        if active and kind in (FAULT, MOTOR):
            if self._streaming:
                self._tx.append(encode_message(self._streaming, "0L"))
            self._streaming, self._lit = "", False

    def on_bytes(self, data: bytes, now_ns: int) -> None:
        *lines, rest = (self._line + data).replace(b"\r", b"\n").split(b"\n")
        self._line = rest[-LINE_LIMIT_BYTES:]
        for line in lines:
            if line:
                self._obey(line.decode("latin-1")[:LINE_LIMIT_BYTES], now_ns)

    def _obey(self, command: str, now_ns: int) -> None:
        if command == "QT":
            self._streaming, self._lit = "", False
            self.answer(encode_message(command, "00"), now_ns)
        elif command == "BM":
            status = "01" if self._state != WELL else "02" if self._lit else "00"
            self._lit = self._lit or status == "00"
            self.answer(encode_message(command, status), now_ns)
        elif command in ("VV", "PP", "II"):
            lines = [line.encode() for line in getattr(self, f"_{command.lower()}")()]
            self.answer(encode_message(command, "00", lines, between=b";"), now_ns)
        elif command[:2] == "MD" and command[2:].isdigit() and len(command) == 15:
            if self._lit:
                self._streaming = command
            self.answer(encode_message(command, "00" if self._lit else "10"), now_ns)
        else:
            self.answer(encode_message(command, "0E"), now_ns)

    def _vv(self) -> Sequence[str]:
        return (
            "VEND:Hokuyo Automatic Co.,Ltd.",
            f"PROD:{self.params.model}",
            "FIRM:1.2.3",
            "PROT:SCIP 2.0",
            "SERI:H0000001",
        )

    def _pp(self) -> Sequence[str]:
        steps, model = STEPS[self.params.model], self.model
        near = round(1000 * model.range_min_m)
        far = round(1000 * model.range_max_m)
        rpm = round(60 * self.rate_hz)
        return (
            f"MODL:{self.params.model}", f"DMIN:{near}", f"DMAX:{far}", f"ARES:{steps.turn}",
            f"AMIN:{steps.first}", f"AMAX:{steps.last}", f"AFRT:{steps.front}", f"SCAN:{rpm}",
        )  # fmt: skip

    def _ii(self) -> Sequence[str]:
        on = "ON" if self._lit else "OFF"
        return (
            f"MODL:{self.params.model}",
            f"LASR:{on}",
            f"SCSP:{round(60 * self.rate_hz)}",
            "MESM:Idle",
            f"STAT:{self._state}",
        )

    def _measured(self, angle_rad: Array, range_m: Array, t_ns: Array) -> None:
        if not self._streaming or self._answers or FAULT in self._active:
            return
        first, last = int(self._streaming[2:6]), int(self._streaming[6:10])
        steps = STEPS[self.params.model]
        at = steps.front + np.round(
            np.degrees(angle_rad + np.pi) % 360.0 * steps.turn / 360.0 - 0.5 * steps.turn
        )
        ranges = np.full(last - first + 1, NO_RETURN_MM)
        inside = (at >= first) & (at <= last)
        millimetres = np.where(range_m > 0.0, np.round(1000.0 * range_m), NO_RETURN_MM)
        ranges[(at[inside] - first).astype(np.int64)] = millimetres[inside]
        stamp_ms = int((t_ns[0] - self._boot_ns) / 1e6)
        self._tx.append(encode_ranges(self._streaming, "99", stamp_ms, ranges.tolist()))


hokuyo = on_its_line(HokuyoUnit)
