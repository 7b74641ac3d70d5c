"""RoboClaw and MCP of Basicmicro by packet serial: codec in both directions, and the driver.
Sources: NOTES.md.

Packet: ``address | command | data | CRC-16/XMODEM``, big-endian. A packet that writes is answered
by FF, one that reads by the data and the CRC over address, command and data. An answer names
neither, so one question is open at a time.
"""

import struct
from collections.abc import Mapping, Sequence
from math import copysign
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, field

from drivers.motor.base import MotorDevice, MotorParams
from vehicled.core.messages import Message
from vehicled.core.mixing import OutputKind
from vehicled.core.ports import Transport
from vehicled.core.wire.crc import crc16_xmodem
from vehicled.core.wire.usage import Unused

ACK = b"\xff"
GET_TIMEOUT = 15
MAIN_BATTERY = 24
DUTIES = 34
SPEEDS = 37
CURRENTS = 49
RAW_SPEEDS = 79
TEMPERATURE = 82
ERRORS = 90
WRITES: dict[int, struct.Struct] = {DUTIES: struct.Struct(">hh"), SPEEDS: struct.Struct(">ii")}
"""Data of the packets that command."""
READS: dict[int, tuple[str, tuple[struct.Struct, ...]]] = {
    GET_TIMEOUT: ("TIMEOUT", (struct.Struct(">B"),)),
    MAIN_BATTERY: ("MAIN_BATTERY", (struct.Struct(">H"),)),
    CURRENTS: ("CURRENTS", (struct.Struct(">hh"),)),
    RAW_SPEEDS: ("RAW_SPEEDS", (struct.Struct(">ii"),)),
    TEMPERATURE: ("TEMPERATURE", (struct.Struct(">H"),)),
    # Two bytes before the status word grew to four.
    ERRORS: ("ERRORS", (struct.Struct(">H"), struct.Struct(">I"))),
}
"""Name and possible layouts of the answers."""
LONGEST_BYTES = 16
"""Longest answer with the acknowledgements before it."""
FULL_DUTY = 32767
TIMEOUT_STEP_MS = 100
FAULTS_OF_4: Mapping[int, str] = MappingProxyType({
    0x1: "estop", 0x2: "over_temperature", 0x4: "over_temperature_2", 0x8: "main_voltage_high",
    0x10: "logic_voltage_high", 0x20: "logic_voltage_low", 0x40: "driver_fault_m1",
    0x80: "driver_fault_m2", 0x100: "speed_error_m1", 0x200: "speed_error_m2",
    0x400: "position_error_m1", 0x800: "position_error_m2", 0x1000: "over_current_m1",
    0x2000: "over_current_m2",
})  # fmt: skip
"""Errors of the status word of four bytes; its upper half are warnings."""
FAULTS_OF_2: Mapping[int, str] = MappingProxyType({
    0x4: "estop", 0x8: "over_temperature", 0x10: "over_temperature_2", 0x20: "main_voltage_high",
    0x40: "logic_voltage_high", 0x80: "logic_voltage_low", 0x100: "driver_fault_m1",
    0x200: "driver_fault_m2",
})  # fmt: skip
"""The same of the word of two bytes."""


def encode(address: int, command: int, *values: int) -> bytes:
    """Return a packet that writes or reads."""
    data = bytes((address, command)) + (WRITES[command].pack(*values) if command in WRITES else b"")
    return data + crc16_xmodem(data).to_bytes(2, "big")


def encode_answer(address: int, command: int, values: Sequence[int], layout: int = -1) -> bytes:
    """Return the answer to a packet that reads."""
    data = READS[command][1][layout].pack(*values)
    return data + crc16_xmodem(bytes((address, command)) + data).to_bytes(2, "big")


def decode_answer(address: int, command: int, data: bytes) -> tuple[tuple[int, ...], int] | None:
    """Return values and data size of an answer at the end of ``data``, behind acknowledgements
    only; None while it is incomplete or wrong. Never raises."""
    head = bytes((address, command))
    for layout in READS[command][1]:
        at = len(data) - layout.size - 2
        if at < 0 or data[:at].strip(ACK):
            continue
        if crc16_xmodem(head + data[at:-2]) == int.from_bytes(data[-2:], "big"):
            return layout.unpack_from(data, at), layout.size
    return None


class RoboclawReader:
    """Reads packets on the controller's side, cut anywhere. Never raises."""

    def __init__(self, address: int) -> None:
        self._address = address
        self._held = b""
        self.bad_frames = 0
        """Packets with a wrong checksum."""

    def clear(self) -> None:
        """Forget an incomplete packet, as the controller does 10 ms after its last byte."""
        self._held = b""

    def feed(self, data: bytes) -> list[tuple[int, tuple[int, ...]]]:
        """Return command and values of the packets that ``data`` completes."""
        data, found, at = self._held + data, [], 0
        while (at := data.find(self._address, at)) >= 0 and at + 4 <= len(data):
            command = data[at + 1]
            layout = WRITES.get(command)
            end = at + 4 + (layout.size if layout else 0)
            if command not in WRITES and command not in READS:
                at += 1
                continue
            if end > len(data):
                break
            if crc16_xmodem(data[at : end - 2]) == int.from_bytes(data[end - 2 : end], "big"):
                found.append((command, layout.unpack_from(data, at + 2) if layout else ()))
                at = end
            else:
                self.bad_frames += 1
                at += 1
        self._held = data[at:] if at >= 0 else b""
        return found


Channels = Annotated[list[Literal["m1", "m2"]], Meta(min_length=1, max_length=2)]


class RoboclawParams(MotorParams, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Calibration of both channels."""

    address: Annotated[int, Meta(ge=0x80, le=0x87)] = 0x80
    """Address of packet serial, 128 to 135."""
    control: Literal["duty", "speed"] = "duty"
    """Quantity of throttle: 1 means ``max_duty`` or ``max_speed_mps``; speed needs encoders and
    tuned gains."""
    max_duty: Annotated[float, Meta(gt=0.0, le=1.0)] = 1.0
    """Duty at full throttle, of 1."""
    max_speed_mps: Annotated[float, Meta(gt=0.0, le=30.0)] = 1.0
    """Speed at full throttle, m/s."""
    counts_per_m: Annotated[float, Meta(ge=-1e7, le=1e7)] = 10_000.0
    """Encoder counts for 1 m, four per line of a quadrature encoder; negative if they fall when
    driving forwards."""
    counts_per_turn: Annotated[float, Meta(gt=0.0, le=1e6)] = 2_000.0
    """Encoder counts for one turn of the motor."""
    channels: Channels = field(default_factory=lambda: ["m1", "m2"])
    """Channels with a motor that drives."""

    def __post_init__(self) -> None:
        if abs(self.counts_per_m) < 1.0:
            raise ValueError("counts_per_m must not be zero")


class RoboclawDevice(MotorDevice):
    """Driver of both channels. Each command carries one question."""

    name: ClassVar[str] = "roboclaw"
    Params: ClassVar[type[RoboclawParams]] = RoboclawParams
    transport: ClassVar[Transport] = "stream"
    actuator_outputs: ClassVar[Mapping[str, OutputKind]] = MappingProxyType(
        {"m1": "drive", "m2": "drive"}
    )

    def __init__(
        self, params: RoboclawParams, messages: Sequence[type[Message]], command_lifetime_ns: int
    ) -> None:
        self._params = params
        self._used = [name in params.channels for name in self.actuator_outputs]
        self._held = b""
        self._open = 0
        self._cycle = [
            each
            for slow in (GET_TIMEOUT, ERRORS, MAIN_BATTERY, CURRENTS, TEMPERATURE)
            for each in (slow, RAW_SPEEDS)
        ]
        """Questions in turn. The timeout is read again and again, because anyone may change it."""
        self.dropped_bytes = 0
        """Bytes outside answers."""
        self.bad_frames = 0
        """Questions without a valid answer."""
        super().__init__(params, messages, command_lifetime_ns)
        self._poll_ns = 0

    def _forget(self) -> None:
        super()._forget()
        self._turn = 0

    def _clear(self) -> None:
        self.dropped_bytes += len(self._held)
        self._held, self._open = b"", 0

    def on_rx(self, data: bytes, t_rx_ns: int) -> Sequence[Message]:
        for at in range(0, len(data), LONGEST_BYTES):
            self._on_piece(data[at : at + LONGEST_BYTES], t_rx_ns)
        return self._take(t_rx_ns)

    def _on_piece(self, piece: bytes, t_rx_ns: int) -> None:
        if not self._open:
            self.dropped_bytes += len(piece.strip(ACK))
            return
        for at in range(len(piece)):
            self._held += piece[at : at + 1]
            if len(self._held) > LONGEST_BYTES:
                self._clear()
                self.bad_frames += 1
                self.usage.refuse("ANSWER", Unused.UNREADABLE, "checksum")
                self.dropped_bytes += len(piece) - at - 1
                return
            found = decode_answer(self._params.address, self._open, self._held)
            if found is not None:
                command, self._open, self._held = self._open, 0, b""
                self._on_answer(command, *found, t_rx_ns)
                self.dropped_bytes += len(piece[at + 1 :].strip(ACK))
                return

    def _on_answer(self, command: int, values: tuple[int, ...], size: int, t_rx_ns: int) -> None:
        self._arrived(t_rx_ns)
        name = READS[command][0]
        self.usage.use(name)
        if command == GET_TIMEOUT:
            self._known(t_rx_ns, timeout_ms=float(TIMEOUT_STEP_MS * values[0]))
        elif command == ERRORS:
            known = FAULTS_OF_4 if size == 4 else FAULTS_OF_2
            self._set_faults(values[0] & sum(known), known, t_rx_ns)
        elif command == MAIN_BATTERY:
            self._remember(
                "input_voltage_v",
                self._possible(name, "input_voltage_v", values[0] / 10.0),
                t_rx_ns,
            )
        elif command == CURRENTS:
            total_a = (
                sum(value for value, used in zip(values, self._used, strict=True) if used) / 100.0
            )
            self._remember("motor_current_a", self._possible(name, "current_a", total_a), t_rx_ns)
        elif command == TEMPERATURE:
            self._remember(
                "controller_c", self._possible(name, "temperature_c", values[0] / 10.0), t_rx_ns
            )
        else:
            self._on_speeds(name, values, t_rx_ns)

    def _on_speeds(self, name: str, values: tuple[int, ...], t_rx_ns: int) -> None:
        params, directions = self._params, self._mixing.directions
        speeds = [
            (sign or 1.0) * self._possible(name, "speed", float(value))
            for value, sign, used in zip(values, directions, self._used, strict=True)
            if used
        ]
        turns_per_s = (
            copysign(1.0, params.counts_per_m) * sum(speeds) / len(speeds) / params.counts_per_turn
        )
        self._moving(turns_per_s, abs(params.counts_per_m) / params.counts_per_turn, t_rx_ns)

    def _ask(self) -> bytes:
        """Return nothing: every question leaves with a command."""
        return b""

    def _poll(self) -> bytes:
        if self._open:
            self.bad_frames += 1
            self._clear()
        self._open = self._cycle[self._turn % len(self._cycle)]
        self._turn += 1
        return encode(self._params.address, self._open)

    def _drive(self, outputs: tuple[float, ...], brake: float) -> bytes:
        params = self._params
        shares = [
            0.0 if brake > 0.0 or not used else output
            for output, used in zip(outputs, self._used, strict=True)
        ]
        if params.control == "duty":
            return encode(
                params.address,
                DUTIES,
                *(round(share * params.max_duty * FULL_DUTY) for share in shares),
            )
        scale = params.max_speed_mps * params.counts_per_m
        return encode(params.address, SPEEDS, *(round(share * scale) for share in shares))

    def _why_silent(self) -> str:
        if self.bad_frames and self.dropped_bytes:
            return "bytes arrive but no valid answer: another address, line rate or device"
        return (
            "check power, cable, line rate, and that it is in packet serial mode with the "
            f"address {self._params.address:#x}"
        )
