"""Emulator of a VectorNav VN-100: registers as lines of text, binary frames by masks, unsolicited
lines.

It is in factory state, also after a brown-out, because nothing is saved. If the driver does not
configure it, its binary output is set up as the driver's table in the profile says.
"""

from collections.abc import Callable
from math import degrees
from typing import Any

from drivers.imu.vectornav import LINE, encode, encode_line, read_line
from drivers.imu.vectornav_fields import masks, names_of
from sim_backend.emulators.inertial import (
    ImuReading,
    InertialUnit,
    OutputSchedule,
    euler,
    frd,
    rotation_columns,
)
from sim_backend.emulators.line import BITS_PER_BYTE, baud_of, on_its_line
from vehicled.core.wire.framing import Framer
from vehicled.profile.schema import DeviceTable

BAUD = 115_200
ASYNC_TYPE, ASYNC_RATE, OUTPUTS = 6, 7, (75, 76, 77)
FACTORY = {
    0: "USER_TAG",
    1: "VN-100S-0000",
    2: "7",
    3: "0100012345",
    4: "2.1.0.0",
    ASYNC_TYPE: "14",
    ASYNC_RATE: "40",
    **dict.fromkeys(OUTPUTS, "0,1,00"),
}
"""Registers by number in factory state: attitude, magnetometer, acceleration and rate as a line of
text at 40 Hz."""
IDENTITY = range(1, 5)
"""Read-only registers."""
LINE_SHARE = 0.95
FIELD_GAUSS = (0.2, 0.0, 0.45)
PRESSURE_KPA = 101.325
INVALID_COMMAND, TOO_FEW, TOO_MANY, INVALID_PARAMETER = 4, 5, 6, 7
INVALID_REGISTER, UNAUTHORISED, BAUD_TOO_LOW = 8, 9, 12
"""Error numbers of ``VNERR``."""


class VectorNavUnit(InertialUnit):
    """VN-100 as a :class:`sim_backend.emulators.line.LineDevice`."""

    def __init__(self, port: str, device: DeviceTable, seed: int, start_ns: int) -> None:
        super().__init__(port, device, seed, start_ns, baud_of(device.port) or BAUD)
        self._flash = dict(FACTORY)
        if not self.params.configure:
            params = self.params
            divisor = max(1, round(params.base_rate_hz / params.rate_hz))
            inertial = [
                "common.time_startup",
                "common.ypr",
                "common.angular_rate",
                "common.acceleration",
                "imu.saturation",
            ]
            text = masks([*inertial, "attitude.status"])
            self._flash |= {
                ASYNC_TYPE: "0",
                74 + params.output: f"{params.serial_port},{divisor},{text}",
            }
        self._begin(start_ns)

    def _begin(self, now_ns: int) -> None:
        self._framer = Framer((LINE,))
        self.registers = dict(self._flash)
        """Present registers by number, as they would be read."""
        self._outputs: dict[int, tuple[OutputSchedule, list[str]]] = {}
        for number in OUTPUTS:
            self._set_output(number, self.registers[number].split(","))
        self._set_text()

    # ---------------------------------------------------------------- registers

    def on_bytes(self, data: bytes, now_ns: int) -> None:
        """Process lines of the host. A line with a wrong checksum is ignored."""
        for _, line in self._framer.feed(data):
            self.answer(encode_line(self._obey(read_line(line))), now_ns)

    def _obey(self, line: str) -> str:
        command, *words = line.split(",")
        if command not in ("VNRRG", "VNWRG"):
            return _error(INVALID_COMMAND)
        if not words or not words[0].isdecimal():
            return _error(TOO_FEW)
        number = int(words[0])
        if number not in self.registers:
            return _error(INVALID_REGISTER)
        if command == "VNRRG":
            return (
                f"VNRRG,{words[0]},{self.registers[number]}"
                if len(words) == 1
                else _error(TOO_MANY)
            )
        if number in IDENTITY:
            return _error(UNAUTHORISED)
        return self._write(number, words) or line

    def _write(self, number: int, words: list[str]) -> str:
        """Return the error line, or an empty one."""
        values = words[1:]
        if number in OUTPUTS:
            wrong = self._set_output(number, values)
        else:
            # Registers with one number, which may be followed by the serial port.
            wrong = (
                0
                if values and values[0].isdecimal()
                else TOO_FEW
                if not values
                else INVALID_PARAMETER
            )
        if wrong:
            return _error(wrong)
        self.registers[number] = ",".join(values)
        self._set_text()
        return ""

    def _set_output(self, number: int, values: list[str]) -> int:
        """Return the error number, or 0."""
        if len(values) < 3:
            return TOO_FEW
        try:
            divisor, names = int(values[1]), names_of(values[2:])
        except ValueError:
            return INVALID_PARAMETER
        if (
            divisor < 1
            or not values[0].isdecimal()
            or int(values[0]) > 3
            or not set(names) <= _VALUES.keys()
        ):
            return INVALID_PARAMETER
        rate_hz = self.params.base_rate_hz / divisor if names and int(values[0]) else 0.0
        size = len(encode({name: _VALUES[name](self, _STILL) for name in names})) if names else 0
        if self.baud and size * rate_hz * BITS_PER_BYTE > LINE_SHARE * self.baud:
            return BAUD_TOO_LOW
        self._outputs[number] = OutputSchedule(rate_hz), names
        return 0

    def _set_text(self) -> None:
        on = self.registers[ASYNC_TYPE].partition(",")[0] not in ("0", "00")
        self._text = OutputSchedule(
            float(self.registers[ASYNC_RATE].partition(",")[0]) if on else 0.0
        )

    # ---------------------------------------------------------------- samples

    def _sample(self, measured: ImuReading) -> None:
        for pace, names in self._outputs.values():
            if pace.due(measured.t_ns):
                self.send(encode({name: _VALUES[name](self, measured) for name in names}))
        if self._text.due(measured.t_ns):
            yaw, pitch, roll = self._ypr()
            field, force, rate = FIELD_GAUSS, frd(measured.force_mps2), frd(measured.rate_radps)
            angles = f"{yaw:+08.3f},{pitch:+08.3f},{roll:+08.3f}"
            vectors = ",".join(
                [f"{x:+08.4f}" for x in field]
                + [f"{x:+07.3f}" for x in force]
                + [f"{x:+010.6f}" for x in rate]
            )
            self.send(encode_line(f"VNYMR,{angles},{vectors}"))

    def _ypr(self) -> tuple[float, float, float]:
        roll, pitch, yaw = euler(self.attitude(ned=True))
        return degrees(yaw), degrees(pitch), degrees(roll)

    def _scalar_last(self) -> tuple[float, ...]:
        w, x, y, z = self.attitude(ned=True)
        return x, y, z, w

    def _by_rows(self) -> tuple[float, ...]:
        first, second, third = rotation_columns(self.attitude(ned=True))
        return tuple([component for row in zip(first, second, third) for component in row])


_STILL = ImuReading(0, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), 0.0, 0)
_VALUES: dict[str, Callable[[VectorNavUnit, ImuReading], Any]] = {
    "common.time_startup": lambda unit, m: unit.clock_ns(m.t_ns),
    "common.ypr": lambda unit, m: unit._ypr(),
    "common.quaternion": lambda unit, m: unit._scalar_last(),
    "common.angular_rate": lambda unit, m: frd(m.rate_radps),
    "common.acceleration": lambda unit, m: frd(m.force_mps2),
    "common.imu": lambda unit, m: frd(m.force_mps2) + frd(m.rate_radps),
    "common.mag_pres": lambda unit, m: (*FIELD_GAUSS, m.celsius, PRESSURE_KPA),
    "time.startup": lambda unit, m: unit.clock_ns(m.t_ns),
    "imu.raw_mag": lambda unit, m: FIELD_GAUSS,
    "imu.raw_acceleration": lambda unit, m: frd(m.force_mps2),
    "imu.raw_gyro": lambda unit, m: frd(m.rate_radps),
    "imu.temperature": lambda unit, m: m.celsius,
    "imu.pressure": lambda unit, m: PRESSURE_KPA,
    "imu.mag": lambda unit, m: FIELD_GAUSS,
    "imu.acceleration": lambda unit, m: frd(m.force_mps2),
    "imu.angular_rate": lambda unit, m: frd(m.rate_radps),
    "imu.saturation": lambda unit, m: m.clipped << 3,
    "attitude.status": lambda unit, m: 0,
    "attitude.ypr": lambda unit, m: unit._ypr(),
    "attitude.quaternion": lambda unit, m: unit._scalar_last(),
    "attitude.dcm": lambda unit, m: unit._by_rows(),
}
"""Values it can send, by field name."""


def _error(number: int) -> str:
    return f"VNERR,{number:02X}"


vectornav = on_its_line(VectorNavUnit)
