"""Emulator of a WitMotion IMU: several frames per measurement, no serial number, a calendar as
clock.

It is set up as the driver's table in the profile says, unless the driver configures it
(``configure``): then it is in factory state except for its line rate.
"""

from drivers.imu.witmotion import (
    ACCELERATION,
    ANGLE,
    COMMANDS,
    CONTENT,
    FRAME_BYTES,
    GYRO,
    MAGNETIC,
    QUATERNION,
    RATE_CODES,
    READ_REGISTER,
    REGISTER_CONTENT,
    REGISTER_RATE,
    SAVE_REGISTER,
    TIME,
    UNLOCK_KEY,
    UNLOCK_REGISTER,
    Acceleration,
    Angle,
    Gyro,
    Magnetic,
    Quaternion,
    Register,
    Time,
    encode,
    parse_command,
)
from sim_backend.emulators.inertial import ImuReading, InertialUnit, OutputSchedule, Vector, euler
from sim_backend.emulators.line import BITS_PER_BYTE, baud_of, on_its_line
from vehicled.core.messages.units import ZERO_CELSIUS_K
from vehicled.core.wire.framing import Framer
from vehicled.profile.schema import DeviceTable

BAUD = 115_200
FACTORY = {REGISTER_CONTENT: 0x1E, REGISTER_RATE: RATE_CODES[10]}
"""Factory state: acceleration, gyro, angle and magnetometer at 10 Hz."""
UNLOCKED_NS = 10_000_000_000
WRITING_NS = 20_000_000
"""Time for writing a register, during which it ignores input."""
LINE_SHARE = 0.95
"""Largest line load; beyond it the output rate drops silently."""
EARTH_FIELD: Vector = (0.0, 300.0, -600.0)
"""Field of the earth, east, north, up, in counts."""
_DAY_MS = 86_400_000
_OF_CODE = {code: rate_hz for rate_hz, code in RATE_CODES.items()}
_KINDS = (TIME, ACCELERATION, GYRO, ANGLE, MAGNETIC, QUATERNION)


class WitMotionUnit(InertialUnit):
    """WitMotion unit as a :class:`sim_backend.emulators.line.LineDevice`."""

    def __init__(self, port: str, device: DeviceTable, seed: int, start_ns: int) -> None:
        # It is delivered at 9600 baud; assume it was set to the rate that the daemon opens.
        super().__init__(port, device, seed, start_ns, baud_of(device.port) or BAUD)
        self._flash = dict(FACTORY)
        if not self.params.configure:
            code = RATE_CODES.get(round(self.params.rate_hz), FACTORY[REGISTER_RATE])
            self._flash = {REGISTER_CONTENT: CONTENT, REGISTER_RATE: code}
        self._day_ms = int(self.chance.integers(0, _DAY_MS))
        self._begin(start_ns)

    def _begin(self, now_ns: int) -> None:
        self._framer = Framer((COMMANDS,))
        self.registers = dict(self._flash)
        """Present registers by address."""
        self._unlocked_until_ns = self._deaf_until_ns = now_ns
        self._apply()

    def _apply(self) -> None:
        self._kinds = [
            kind for kind in _KINDS if self.registers[REGISTER_CONTENT] >> (kind - TIME) & 1
        ]
        wanted_hz = _OF_CODE.get(self.registers[REGISTER_RATE], 10)
        most_hz = LINE_SHARE * self.baud / (BITS_PER_BYTE * FRAME_BYTES * max(1, len(self._kinds)))
        fitting = [rate_hz for rate_hz in RATE_CODES if rate_hz <= min(wanted_hz, most_hz)]
        self._pace = OutputSchedule(max(fitting, default=min(RATE_CODES)))

    def on_bytes(self, data: bytes, now_ns: int) -> None:
        """Write registers while unlocked and not busy. It acknowledges nothing."""
        for _, frame in self._framer.feed(data):
            if now_ns < self._deaf_until_ns:
                continue
            register, value = parse_command(frame)
            if register == UNLOCK_REGISTER:
                self._unlocked_until_ns = now_ns + UNLOCKED_NS if value == UNLOCK_KEY else now_ns
            elif register == READ_REGISTER:
                values = [
                    self.registers.get(each, 0) for each in range(value & 0xFF, (value & 0xFF) + 4)
                ]
                self.answer(encode(Register(tuple(values))), now_ns)
            elif now_ns < self._unlocked_until_ns:
                self._deaf_until_ns = now_ns + WRITING_NS
                if register != SAVE_REGISTER:
                    self.registers[register] = value
                    self._apply()
                elif value == 0:
                    self._flash = dict(self.registers)
                else:
                    # Saving 1 restores the factory state.
                    self.registers = dict(FACTORY)
                    self._apply()

    def _sample(self, measured: ImuReading) -> None:
        if not self._pace.due(measured.t_ns):
            return
        attitude = self.attitude()
        kelvin = measured.celsius + ZERO_CELSIUS_K
        for kind in self._kinds:
            if kind == TIME:
                self.send(encode(self._time(measured.t_ns)))
            elif kind == ACCELERATION:
                self.send(encode(Acceleration(measured.force_mps2, kelvin)))
            elif kind == GYRO:
                self.send(encode(Gyro(measured.rate_radps)))
            elif kind == ANGLE:
                self.send(encode(Angle(*euler(attitude))))
            elif kind == MAGNETIC:
                self.send(encode(Magnetic(EARTH_FIELD, kelvin)))
            else:
                self.send(encode(Quaternion(*attitude)))

    def _time(self, t_ns: int) -> Time:
        ms = (self._day_ms + self.clock_ns(t_ns) // 1_000_000) % _DAY_MS
        seconds, ms = divmod(ms, 1000)
        minutes, second = divmod(seconds, 60)
        hour, minute = divmod(minutes, 60)
        return Time(2015, 1, 1, hour, minute, second, ms)


witmotion = on_its_line(WitMotionUnit)
