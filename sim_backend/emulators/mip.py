"""Emulator of a MicroStrain IMU: packets in a format set by the host, acknowledged commands.

It is silent until configured, also after a brown-out, because nothing is saved. If the driver does
not configure it, it is set up as the driver's table in the profile says. Devices before the shared
descriptors (GX5, CV5) have other commands and another clock: ``modern`` False.
"""

from drivers.imu.mip import (
    ACCEL,
    BASE,
    BASE_RATE,
    COMMANDS_3DM,
    EULER,
    GPS_TIME,
    GYRO,
    IDLE,
    IMU_BASE_RATE,
    IMU_MESSAGE_FORMAT,
    MATRIX,
    MESSAGE_FORMAT,
    OVERRANGE,
    PING,
    PROTOCOL,
    QUATERNION,
    READ,
    REFERENCE_TIME,
    REPLY,
    RESUME,
    SENSOR,
    STREAM,
    TEMPERATURE,
    WRITE,
    Packet,
    Value,
    encode,
    packet,
    write,
)
from sim_backend.emulators.inertial import (
    ImuReading,
    InertialUnit,
    OutputSchedule,
    euler,
    frd,
    rotation_columns,
)
from sim_backend.emulators.line import baud_of, on_its_line
from vehicled.core.messages.units import STANDARD_GRAVITY_MPS2
from vehicled.core.wire.framing import Framer
from vehicled.profile.schema import DeviceTable

BAUD = 115_200
BASE_RATE_HZ = 1000
WEEK, GPS_TIME_VALID = 2400, 0b11
UNKNOWN_COMMAND, INVALID_PARAMETER = 1, 3
_FORMAT_REPLY, _RATE_REPLY = 0x8F, 0x8E
_OLD_FORMAT_REPLY, _OLD_RATE_REPLY = 0x80, 0x83
_OLD_IMU_STREAM = 1
_COMMON = (ACCEL, GYRO, EULER, QUATERNION, MATRIX, TEMPERATURE, OVERRANGE)

FieldRate = tuple[int, int]
"""Descriptor and decimation of the base rate."""


class MipUnit(InertialUnit):
    """MicroStrain unit as a :class:`sim_backend.emulators.line.LineDevice`."""

    def __init__(
        self, port: str, device: DeviceTable, seed: int, start_ns: int, *, modern: bool = True
    ) -> None:
        super().__init__(port, device, seed, start_ns, baud_of(device.port) or BAUD)
        self._modern = modern
        self._fields = (*_COMMON, REFERENCE_TIME if modern else GPS_TIME)
        self._start: list[FieldRate] = []
        if not self.params.configure:
            decimation = max(1, round(BASE_RATE_HZ / self.params.rate_hz))
            self._start = [
                (field, decimation) for field in (self._fields[-1], ACCEL, GYRO, EULER, OVERRANGE)
            ]
        self._begin(start_ns)

    def _begin(self, now_ns: int) -> None:
        self._framer = Framer((PROTOCOL,))
        self.idle = False
        self.streams = bool(self._start)
        self._set(self._start)

    def _set(self, rows: list[FieldRate]) -> None:
        self.format = rows
        """Message format as it would be read back."""
        self._paces = [
            (decimation, OutputSchedule(BASE_RATE_HZ / decimation))
            for decimation in sorted({each for _, each in rows})
        ]

    # ---------------------------------------------------------------- commands

    def on_bytes(self, data: bytes, now_ns: int) -> None:
        """Answer each command packet with one packet."""
        for _, frame in self._framer.feed(data):
            request = packet(frame)
            replies: list[tuple[int, bytes]] = []
            for command, body in request.fields:
                code, reply = self._obey(request, command, body)
                replies += [(REPLY, bytes((command, code))), *reply]
            if replies:
                self.answer(encode(request.kind, *replies), now_ns)

    def _obey(
        self, request: Packet, command: int, body: bytes
    ) -> tuple[int, list[tuple[int, bytes]]]:
        """Return the error code and additional fields."""
        if request.kind == BASE and command in (PING, IDLE, RESUME):
            self.idle = command == IDLE or (command == PING and self.idle)
            return 0, []
        if request.kind != COMMANDS_3DM:
            return UNKNOWN_COMMAND, []
        base = BASE_RATE_HZ.to_bytes(2, "big")
        if command == BASE_RATE and self._modern:
            return (
                (0, [(_RATE_REPLY, body[:1] + base)])
                if body[:1] == bytes((SENSOR,))
                else (INVALID_PARAMETER, [])
            )
        if command == IMU_BASE_RATE and not self._modern:
            return 0, [(_OLD_RATE_REPLY, base)]
        if command == MESSAGE_FORMAT and self._modern:
            return self._on_format(body, bytes((SENSOR,)), _FORMAT_REPLY)
        if command == IMU_MESSAGE_FORMAT and not self._modern:
            return self._on_format(body, b"", _OLD_FORMAT_REPLY)
        if command == STREAM and len(body) == 3:
            if body[0] != WRITE or body[1] != (SENSOR if self._modern else _OLD_IMU_STREAM):
                return INVALID_PARAMETER, []
            self.streams = body[2] != 0
            return 0, []
        return UNKNOWN_COMMAND, []

    def _on_format(
        self, body: bytes, scope: bytes, reply: int
    ) -> tuple[int, list[tuple[int, bytes]]]:
        function, rest = body[:1], body[1:]
        if not rest.startswith(scope):
            return INVALID_PARAMETER, []
        rest = rest[len(scope) :]
        if function == bytes((READ,)):
            listing = b"".join(
                [
                    bytes((field,)) + decimation.to_bytes(2, "big")
                    for field, decimation in self.format
                ]
            )
            return 0, [(reply, scope + bytes((len(self.format),)) + listing)]
        rows = [
            (rest[at], int.from_bytes(rest[at + 1 : at + 3], "big"))
            for at in range(1, len(rest) - 2, 3)
        ]
        whole = (
            function == bytes((WRITE,)) and len(rest) == 1 + 3 * len(rows) and rest[0] == len(rows)
        )
        if not whole or not all(field in self._fields and decimation for field, decimation in rows):
            return INVALID_PARAMETER, []
        self._set(rows)
        return 0, []

    # ---------------------------------------------------------------- samples

    def _sample(self, measured: ImuReading) -> None:
        if self.idle or not self.streams:
            return
        due = {decimation for decimation, pace in self._paces if pace.due(measured.t_ns)}
        if due:
            fields = [
                write(SENSOR, field, self._value(field, measured))
                for field, decimation in self.format
                if decimation in due
            ]
            self.send(encode(SENSOR, *fields))

    def _value(self, field: int, measured: ImuReading) -> Value:
        if field == REFERENCE_TIME:
            return self.clock_ns(measured.t_ns)
        if field == GPS_TIME:
            # Without an antenna its time counts from switch-on.
            return self.clock_ns(measured.t_ns) / 1e9, WEEK, GPS_TIME_VALID
        if field == ACCEL:
            return tuple(
                [component / STANDARD_GRAVITY_MPS2 for component in frd(measured.force_mps2)]
            )
        if field == GYRO:
            return frd(measured.rate_radps)
        if field == EULER:
            return euler(self.attitude(ned=True))
        if field == QUATERNION:
            return self.attitude(ned=True)
        if field == MATRIX:
            # Transpose: from the world to the vehicle, row by row.
            first, second, third = rotation_columns(self.attitude(ned=True))
            return (*first, *second, *third)
        if field == TEMPERATURE:
            return (measured.celsius,) * 3
        return measured.clipped & 7 | (measured.clipped >> 3) << 4


mip = on_its_line(MipUnit)
