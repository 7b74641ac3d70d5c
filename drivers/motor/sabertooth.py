"""Sabertooth motor drivers of Dimension Engineering by packet serial: codec in both directions, and
the driver. Sources: NOTES.md.

Packet: ``address | command | data | checksum``, data and checksum of seven bits. It never answers.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from drivers.motor.base import MotorDevice, MotorParams
from vehicled.core.messages import Event, Fault, Message
from vehicled.core.mixing import OutputKind
from vehicled.core.ports import Transport

AUTOBAUD = b"\xaa"
"""First byte after power-on, from which it learns the line rate; later ones mean nothing."""
BACKWARD = 1
MOTOR_1, MOTOR_2, SERIAL_TIMEOUT = 0, 4, 14
FULL_POWER = 127
TIMEOUT_STEP_MS = 100
REPEAT = 20
"""Commands after which the timeout is set again: the driver may have lost its power meanwhile."""
PACKET_BYTES = 4


class SabertoothPacket(Struct, frozen=True, gc=False):
    """One command."""

    address: int
    command: int
    data: int


def encode(packet: SabertoothPacket) -> bytes:
    """Return the bytes of a packet."""
    check = (packet.address + packet.command + packet.data) & 0x7F
    return bytes((packet.address, packet.command, packet.data, check))


class SabertoothReader:
    """Reads packets on the motor driver's side, cut anywhere. Never raises; keeps less than a
    packet."""

    def __init__(self) -> None:
        self._held = b""
        self.bad_frames = 0
        """Packets with a wrong checksum."""

    def feed(self, data: bytes) -> list[SabertoothPacket]:
        """Return the packets that ``data`` completes."""
        data, found, at = self._held + data, [], 0
        while at + PACKET_BYTES <= len(data):
            address, command, value, check = data[at : at + PACKET_BYTES]
            if address < 0x80 or address == AUTOBAUD[0] or command > 0x7F or value > 0x7F:
                at += 1
            elif check != (address + command + value) & 0x7F:
                self.bad_frames += 1
                at += 1
            else:
                found.append(SabertoothPacket(address, command, value))
                at += PACKET_BYTES
        self._held = data[at:]
        return found


class SabertoothParams(MotorParams, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Calibration of both channels."""

    address: Annotated[int, Meta(ge=128, le=135)] = 128
    """Address by the switches, 128 to 135."""
    max_power: Annotated[float, Meta(gt=0.0, le=1.0)] = 1.0
    """Power at full throttle, of 1."""

    def __post_init__(self) -> None:
        if self.timeout_ms < TIMEOUT_STEP_MS:
            raise ValueError("the shortest timeout of a Sabertooth is 100 ms")


class SabertoothDevice(MotorDevice):
    """Driver of both channels. Open loop: nothing is measured or verified, and the timeout is set,
    not read."""

    name: ClassVar[str] = "sabertooth"
    Params: ClassVar[type[SabertoothParams]] = SabertoothParams
    transport: ClassVar[Transport] = "stream"
    timeout_readable: ClassVar[bool] = False
    answers: ClassVar[bool] = False
    produces: ClassVar[tuple[type[Message], ...]] = (Fault, Event)
    actuator_outputs: ClassVar[Mapping[str, OutputKind]] = MappingProxyType(
        {"m1": "drive", "m2": "drive"}
    )

    def __init__(
        self, params: SabertoothParams, messages: Sequence[type[Message]], command_lifetime_ns: int
    ) -> None:
        self._params = params
        self._sent = 0
        self.dropped_bytes = 0
        """Bytes received, although it should not send any."""
        self.bad_frames = 0
        super().__init__(params, messages, command_lifetime_ns)

    def _forget(self) -> None:
        super()._forget()
        self._sent = 0

    def on_rx(self, data: bytes, t_rx_ns: int) -> Sequence[Message]:
        self.dropped_bytes += len(data)
        return self._take(t_rx_ns)

    def _ask(self) -> bytes:
        """Return nothing: it answers no question."""
        return b""

    def _drive(self, outputs: tuple[float, ...], brake: float) -> bytes:
        params = self._params
        data = b""
        if self._sent % REPEAT == 0:
            data = AUTOBAUD + self._packet(SERIAL_TIMEOUT, params.timeout_ms // TIMEOUT_STEP_MS)
        self._sent += 1
        for motor, output in zip((MOTOR_1, MOTOR_2), outputs, strict=True):
            # Power 0 shorts the motor, which brakes by its own drag.
            power = 0 if brake > 0.0 else round(abs(output) * params.max_power * FULL_POWER)
            data += self._packet(motor | (BACKWARD if output < 0.0 and power else 0), power)
        return data

    def _packet(self, command: int, data: int) -> bytes:
        return encode(SabertoothPacket(self._params.address, command, data))
