"""ODrive motor controllers: CANSimple and the ASCII protocol, codecs in both directions, and both
drivers. Sources: NOTES.md.

CAN: identifier ``node << 5 | command``, little-endian, a question is a remote frame. ASCII: lines
of text with an optional XOR checksum; an answer names neither its question nor its axis, so one
question is open at a time.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from math import copysign, isfinite
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct, field

from drivers.motor.base import NAN, MotorDevice, MotorParams
from drivers.motor.lines import BoundedLines
from vehicled.core.messages import Message
from vehicled.core.mixing import Mixing, OutputKind
from vehicled.core.ports import Transport
from vehicled.core.wire.can import CanFrame, CanRecordReader, pack
from vehicled.core.wire.crc import xor8
from vehicled.core.wire.usage import Unused

IDLE, CLOSED_LOOP = 1, 8
TORQUE_CONTROL, VELOCITY_CONTROL, PASSTHROUGH = 1, 2, 1
REQUEST_NS = 100_000_000
"""Interval of requests for another state, because entering it takes a while."""
ANSWER_NS = 100_000_000
"""Time for an answer of the ASCII protocol; a later one is not believed."""


class CanSimple(IntEnum):
    """Commands of CANSimple."""

    HEARTBEAT = 0x01
    ESTOP = 0x02
    SET_AXIS_STATE = 0x07
    ENCODER_ESTIMATES = 0x09
    SET_CONTROLLER_MODE = 0x0B
    SET_INPUT_VEL = 0x0D
    SET_INPUT_TORQUE = 0x0E
    IQ = 0x14
    TEMPERATURE = 0x15
    BUS_VOLTAGE_CURRENT = 0x17
    CLEAR_ERRORS = 0x18


LAYOUTS: dict[int, tuple[struct.Struct, tuple[str, ...]]] = {
    CanSimple.HEARTBEAT: (struct.Struct("<IB3s"), ("axis_error", "state", "rest")),
    CanSimple.ESTOP: (struct.Struct("<"), ()),
    CanSimple.SET_AXIS_STATE: (struct.Struct("<I"), ("state",)),
    CanSimple.ENCODER_ESTIMATES: (struct.Struct("<ff"), ("position_turns", "speed_turns_per_s")),
    CanSimple.SET_CONTROLLER_MODE: (struct.Struct("<II"), ("control_mode", "input_mode")),
    CanSimple.SET_INPUT_VEL: (struct.Struct("<ff"), ("speed_turns_per_s", "torque_nm")),
    CanSimple.SET_INPUT_TORQUE: (struct.Struct("<f"), ("torque_nm",)),
    CanSimple.IQ: (struct.Struct("<ff"), ("setpoint_a", "measured_a")),
    CanSimple.TEMPERATURE: (struct.Struct("<ff"), ("fet_c", "motor_c")),
    CanSimple.BUS_VOLTAGE_CURRENT: (struct.Struct("<ff"), ("voltage_v", "current_a")),
    CanSimple.CLEAR_ERRORS: (struct.Struct("<"), ()),
}
ASKED = frozenset(
    (
        CanSimple.ENCODER_ESTIMATES,
        CanSimple.IQ,
        CanSimple.TEMPERATURE,
        CanSimple.BUS_VOLTAGE_CURRENT,
    )
)
"""Commands that a remote frame asks for."""
ERRORS_05: Mapping[int, str] = MappingProxyType({
    0x1: "invalid_state", 0x2: "dc_bus_under_voltage", 0x4: "dc_bus_over_voltage",
    0x8: "current_measurement_timeout", 0x10: "brake_resistor_disarmed", 0x20: "motor_disarmed",
    0x40: "motor_failed", 0x80: "sensorless_estimator_failed", 0x100: "encoder_failed",
    0x200: "controller_failed", 0x400: "position_control_during_sensorless",
    0x800: "watchdog_expired", 0x1000: "min_endstop_pressed", 0x2000: "max_endstop_pressed",
    0x4000: "estop_requested", 0x20000: "homing_without_endstop", 0x40000: "over_temperature",
    0x80000: "unknown_position",
})  # fmt: skip
ERRORS_06: Mapping[int, str] = MappingProxyType({
    0x1: "initializing", 0x2: "system_level", 0x4: "timing_error", 0x8: "missing_estimate",
    0x10: "bad_config", 0x20: "drv_fault", 0x40: "missing_input", 0x100: "dc_bus_over_voltage",
    0x200: "dc_bus_under_voltage", 0x400: "dc_bus_over_current", 0x800: "dc_bus_over_regen_current",
    0x1000: "current_limit_violation", 0x2000: "motor_over_temperature",
    0x4000: "inverter_over_temperature", 0x8000: "velocity_limit_violation",
    0x10000: "position_limit_violation", 0x20000: "requested_current_too_high",
    0x100_0000: "watchdog_expired", 0x200_0000: "estop_requested", 0x400_0000: "spinout_detected",
    0x800_0000: "brake_resistor_disarmed", 0x1000_0000: "thermistor_disconnected",
    0x4000_0000: "calibration_error",
})  # fmt: skip
ERRORS = {"0.5": ERRORS_05, "0.6": ERRORS_06}
WATCHDOG = {"0.5": 0x800, "0.6": 0x100_0000}


class OdriveFrame(Struct, frozen=True, gc=False):
    """A CANSimple message, or the question for one."""

    node_id: int
    command: int
    values: tuple[float | int | bytes, ...] = ()
    asks: bool = False


def encode_can(message: OdriveFrame) -> CanFrame:
    """Return the frame of a message."""
    can_id = message.node_id << 5 | message.command
    if message.asks:
        return CanFrame(can_id, b"", extended=False, remote=True)
    return CanFrame(can_id, LAYOUTS[message.command][0].pack(*message.values), extended=False)


def decode_can(frame: CanFrame) -> tuple[str, OdriveFrame | None]:
    """Return name and content of a frame; None with the name ERROR, EXTENDED or COMMAND_n if it is
    none. Never raises."""
    if frame.error or frame.extended:
        return "ERROR" if frame.error else "EXTENDED", None
    node_id, command = frame.can_id >> 5, frame.can_id & 0x1F
    found = LAYOUTS.get(command)
    if found is None:
        return f"COMMAND_{command}", None
    name, layout = CanSimple(command).name, found[0]
    # Firmware 0.5 takes an empty data frame for a question, too.
    if frame.remote or (not frame.data and command in ASKED):
        return name, OdriveFrame(node_id, command, asks=True)
    if len(frame.data) < layout.size:
        return f"COMMAND_{command}", None
    return name, OdriveFrame(node_id, command, layout.unpack_from(frame.data))


def decode_frames(frames: Iterable[CanFrame]) -> Iterator[tuple[str, object]]:
    """Iterate over the messages of a CAN recording as (name, content)."""
    for frame in frames:
        name, message = decode_can(frame)
        yield name, frame if message is None else message


def encode_line(text: str) -> bytes:
    """Return a line of the ASCII protocol with its checksum."""
    data = text.encode("ascii", "replace")
    return data + b"*%d\n" % xor8(data)


def decode_line(line: bytes) -> str | None:
    """Return the text of a line; None if its checksum is missing or wrong. Never raises."""
    data, star, check = line.rpartition(b"*")
    if not star or not check.isdigit() or len(check) > 3 or int(check) != xor8(data):
        return None
    return data.decode("ascii", "replace").strip()


class OdriveParams(MotorParams, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Calibration of one axis, or of two that drive alike."""

    firmware: Literal["0.5", "0.6"] = "0.5"
    """Firmware: 0.5 of the ODrive v3, 0.6 of Pro, S1 and Micro; it decides what the error bits
    mean."""
    control: Literal["velocity", "torque"] = "velocity"
    """Quantity of throttle: 1 means ``max_speed_mps`` or ``max_torque_nm``. The brake is speed 0 in
    both."""
    max_speed_mps: Annotated[float, Meta(gt=0.0, le=30.0)] = 3.0
    """Speed at full throttle, m/s."""
    max_torque_nm: Annotated[float, Meta(gt=0.0, le=500.0)] = 1.0
    """Torque of the motor at full throttle, Nm."""
    turns_per_m: Annotated[float, Meta(ge=-1e4, le=1e4)] = 10.0
    """Turns of the motor for 1 m; negative if it turns backwards to drive forwards."""

    def __post_init__(self) -> None:
        if abs(self.turns_per_m) < 1e-3:
            raise ValueError("turns_per_m must not be zero")


class OdriveCanParams(OdriveParams, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Parameters of an axis on CAN."""

    node_id: Annotated[int, Meta(ge=0, le=63)] = 0
    """Node identifier of the axis."""


class _Axis:
    """Newest state of one axis."""

    def __init__(self, sign: float) -> None:
        self.state = 0
        self.sign = sign
        """-1 for a motor that is mounted the other way round."""
        self.errors = 0
        self.speed = NAN
        """Turns per second as reported."""
        self.asked_ns = 0


class OdriveDevice(MotorDevice):
    """Common part of both wires."""

    name: ClassVar[str] = "odrive"

    def __init__(
        self,
        params: OdriveParams,
        messages: Sequence[type[Message]],
        command_lifetime_ns: int,
        axes: int = 1,
    ) -> None:
        self._params = params
        self._axes = [_Axis(1.0) for _ in range(axes)]
        self._signs = [1.0] * axes
        self._now_ns = 0
        super().__init__(params, messages, command_lifetime_ns)

    def _forget(self) -> None:
        super()._forget()
        self._axes = [_Axis(sign) for sign in self._signs]

    def on_command(self, command: Message, now_ns: int) -> None:
        self._now_ns = now_ns
        super().on_command(command, now_ns)

    def _obstacle(self) -> str:
        found = super()._obstacle()
        if not found and any(axis.state != CLOSED_LOOP for axis in self._axes):
            return "the axis is not in closed-loop control yet: it must be calibrated"
        return found

    def mix(self, mixing: Mixing) -> None:
        super().mix(mixing)
        self._signs = self._signs_of(mixing.directions)

    def _signs_of(self, directions: Sequence[float]) -> list[float]:
        """Return the signs of the axes, of those of all outputs."""
        return list(directions)

    def _wants_loop(self, axis: _Axis) -> bool:
        """Return True if an axis is to be asked for closed loop now; the time-out is proven and
        nothing is at fault."""
        if (
            axis.state == CLOSED_LOOP
            or super()._obstacle()
            or self._now_ns - axis.asked_ns < REQUEST_NS
        ):
            return False
        axis.asked_ns = self._now_ns
        return True

    def _wants_clear(self) -> bool:
        """Return True if the only error is the watchdog's, which a daemon that was away has left;
        others are for a person."""
        faults = self._faults
        return bool(faults) and not faults & ~WATCHDOG[self._params.firmware]

    def _setpoint(self, output: float, brake: float) -> tuple[bool, float]:
        """Return the set-point of an axis: True and turns per second, or False and Nm.

        The brake is the controller's own speed loop at 0, because a torque against a speed that is
        known late would swing the vehicle back and forth at the end of a stop.
        """
        params = self._params
        if brake > 0.0 or params.control == "velocity":
            speed_mps = 0.0 if brake > 0.0 else output * params.max_speed_mps
            return True, speed_mps * params.turns_per_m
        return False, copysign(1.0, params.turns_per_m) * output * params.max_torque_nm

    def _report(self, t_rx_ns: int) -> None:
        """Report the mean of the axes, positive forwards."""
        speeds = [axis.sign * axis.speed for axis in self._axes]
        turns_per_m = self._params.turns_per_m
        forward = copysign(1.0, turns_per_m) * sum(speeds) / len(speeds)
        self._moving(forward, abs(turns_per_m), t_rx_ns)

    def _errors_changed(self, t_rx_ns: int) -> None:
        bits = 0
        for axis in self._axes:
            bits |= axis.errors
        self._set_faults(bits, ERRORS[self._params.firmware], t_rx_ns)


class OdriveCan(OdriveDevice):
    """Driver of one axis on CAN. Telemetry comes by itself: heartbeat and encoder estimates; the
    rest is asked with commands."""

    Params: ClassVar[type[OdriveCanParams]] = OdriveCanParams
    transport: ClassVar[Transport] = "frames"
    timeout_readable: ClassVar[bool] = False

    def __init__(
        self, params: OdriveCanParams, messages: Sequence[type[Message]], command_lifetime_ns: int
    ) -> None:
        super().__init__(params, messages, command_lifetime_ns)
        self._node = params.node_id
        self._reader = CanRecordReader()
        self._others: set[int] = set()
        self.dropped_bytes = 0
        """Bytes of incomplete records."""
        self.bad_frames = 0
        """Frames that are too short for their command."""

    def _clear(self) -> None:
        self.dropped_bytes += self._reader.clear()

    def on_rx(self, data: bytes, t_rx_ns: int) -> Sequence[Message]:
        for frame in self._reader.frames(data):
            name, message = decode_can(frame)
            self._on_frame(name, message, t_rx_ns)
        return self._take(t_rx_ns)

    def _on_frame(self, name: str, message: OdriveFrame | None, t_rx_ns: int) -> None:
        if message is None or message.asks or message.node_id != self._node:
            if (
                message is not None
                and message.command == CanSimple.HEARTBEAT
                and len(self._others) < 64
            ):
                self._others.add(message.node_id)
            self.bad_frames += message is None and name.startswith("COMMAND_")
            self.usage.refuse(name, Unused.FOREIGN)
            return
        axis = self._axes[0]
        match message.command, message.values:
            case CanSimple.HEARTBEAT, (int(errors), int(state), _):
                self._arrived(t_rx_ns)
                axis.state, axis.errors = state, errors
                self._errors_changed(t_rx_ns)
                if self._ask_due_ns != 2**63 - 1:
                    self._known(t_rx_ns)
            case CanSimple.ENCODER_ESTIMATES, (float(_), float(speed)):
                self._arrived(t_rx_ns)
                axis.speed = self._possible(name, "speed", speed)
                self._report(t_rx_ns)
            case CanSimple.BUS_VOLTAGE_CURRENT, (float(voltage), float(current)):
                self._remember(
                    "input_voltage_v", self._possible(name, "input_voltage_v", voltage), t_rx_ns
                )
                self._remember(
                    "input_current_a", self._possible(name, "current_a", current), t_rx_ns
                )
            case CanSimple.IQ, (float(_), float(measured)):
                self._remember(
                    "motor_current_a", self._possible(name, "current_a", measured), t_rx_ns
                )
            case CanSimple.TEMPERATURE, (float(fet), float(motor)):
                self._remember("controller_c", self._possible(name, "temperature_c", fet), t_rx_ns)
                self._remember("motor_c", self._possible(name, "temperature_c", motor), t_rx_ns)
            case _:
                # Commands: an echo, or another master on the bus.
                self.usage.refuse(name, Unused.FOREIGN)
                return
        self.usage.use(name)

    def _frame(self, command: CanSimple, *values: float | int, asks: bool = False) -> bytes:
        return pack(encode_can(OdriveFrame(self._node, command, values, asks)))

    def _drive(self, outputs: tuple[float, ...], brake: float) -> bytes:
        data = self._frame(CanSimple.CLEAR_ERRORS) if self._wants_clear() else b""
        velocity, value = self._setpoint(outputs[0], brake)
        data += self._frame(
            CanSimple.SET_CONTROLLER_MODE,
            VELOCITY_CONTROL if velocity else TORQUE_CONTROL,
            PASSTHROUGH,
        )
        if self._wants_loop(self._axes[0]):
            data += self._frame(CanSimple.SET_AXIS_STATE, CLOSED_LOOP)
        if velocity:
            return data + self._frame(CanSimple.SET_INPUT_VEL, value, 0.0)
        return data + self._frame(CanSimple.SET_INPUT_TORQUE, value)

    def _ask(self) -> bytes:
        return self._frame(CanSimple.BUS_VOLTAGE_CURRENT, asks=True)

    def _poll(self) -> bytes:
        asked = [CanSimple.BUS_VOLTAGE_CURRENT, CanSimple.IQ]
        if self._params.firmware == "0.6":
            asked.append(CanSimple.TEMPERATURE)
        return b"".join(self._frame(each, asks=True) for each in asked)

    def _why_silent(self) -> str:
        if self._others:
            return (
                f"nodes {', '.join(map(str, sorted(self._others)))} are on the bus, but not "
                f"{self._node}: check node_id"
            )
        return (
            "no node on the bus sends a heartbeat: check power, cable, bit rate (250 kbit/s as "
            "delivered) and termination"
        )


AxisNumbers = Annotated[list[Annotated[int, Meta(ge=0, le=1)]], Meta(min_length=1, max_length=2)]


class OdriveAsciiParams(OdriveParams, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Parameters of an ODrive on its serial line or USB."""

    axes: AxisNumbers = field(default_factory=lambda: [0, 1])
    """Axes with a motor that drives."""


class OdriveAscii(OdriveDevice):
    """Driver by the ASCII protocol. Each command carries one question; the answer is that of the
    question that is open."""

    Params: ClassVar[type[OdriveAsciiParams]] = OdriveAsciiParams
    transport: ClassVar[Transport] = "stream"
    actuator_outputs: ClassVar[Mapping[str, OutputKind]] = MappingProxyType(
        {"axis0": "drive", "axis1": "drive"}
    )

    def __init__(
        self, params: OdriveAsciiParams, messages: Sequence[type[Message]], command_lifetime_ns: int
    ) -> None:
        self._numbers = sorted(set(params.axes))
        self._lines = BoundedLines()
        super().__init__(params, messages, command_lifetime_ns, len(self._numbers))
        self._poll_ns = 0

    def _signs_of(self, directions: Sequence[float]) -> list[float]:
        return [directions[number] or 1.0 for number in self._numbers]

    def _forget(self) -> None:
        super()._forget()
        self._open = ""
        self._open_ns = self._quiet_ns = 0
        self._turn = 0
        self._watchdogs: dict[str, float] = {}
        errors = "error" if self._params.firmware == "0.5" else "active_errors"
        of_each = ("config.enable_watchdog", "config.watchdog_timeout", errors, "current_state")
        slow = [
            "r vbus_voltage",
            "r ibus",
            *(f"r axis{n}.{key}" for n in self._numbers for key in of_each),
        ]
        quick = [f"f {n}" for n in self._numbers]
        self._cycle = [each for question in slow for each in (*quick, question)]
        """Questions in turn. The watchdog is read again and again, because anyone may change it."""

    @property
    def dropped_bytes(self) -> int:
        """Bytes of lines that are too long."""
        return self._lines.dropped_bytes

    @property
    def bad_frames(self) -> int:
        """Lines with a wrong checksum."""
        return self._lines.bad_lines

    def _clear(self) -> None:
        self._lines.clear()

    def on_rx(self, data: bytes, t_rx_ns: int) -> Sequence[Message]:
        for line in self._lines.feed(data):
            text = decode_line(line)
            if text is None:
                self._lines.bad_lines += 1
                self.usage.refuse("LINE", Unused.UNREADABLE, "checksum", len(line))
                continue
            question, self._open = self._open, ""
            if not question:
                self.usage.refuse("LINE", Unused.NOT_WANTED)
                continue
            if self._on_answer(question, text, t_rx_ns):
                self.usage.use(question.partition(" ")[0].upper())
            else:
                self.usage.refuse("LINE", Unused.UNREADABLE, question, text[:40])
        return self._take(t_rx_ns)

    def _on_answer(self, question: str, text: str, t_rx_ns: int) -> bool:
        try:
            values = [float(word) for word in text.split()]
        except ValueError:
            return False
        if len(values) != (2 if question.startswith("f ") else 1):
            return False
        self._arrived(t_rx_ns)
        if question.startswith("f "):
            number = int(question[2:])
            self._axes[self._numbers.index(number)].speed = self._possible("F", "speed", values[1])
            if number == self._numbers[-1]:
                self._report(t_rx_ns)
            return True
        self._on_property(question[2:], values[0], t_rx_ns)
        return True

    def _on_property(self, path: str, value: float, t_rx_ns: int) -> None:
        owner, _, key = path.rpartition(".")
        if key == "vbus_voltage":
            self._remember(
                "input_voltage_v", self._possible("R", "input_voltage_v", value), t_rx_ns
            )
        elif key == "ibus":
            self._remember("input_current_a", self._possible("R", "current_a", value), t_rx_ns)
        elif "watchdog" in key:
            self._watchdogs[path] = value
            self._judge(t_rx_ns)
        elif isfinite(value):
            axis = self._axes[self._numbers.index(int(owner[4:5]))]
            if key == "current_state":
                axis.state = int(value)
            else:
                axis.errors = int(value) & 0xFFFF_FFFF
                self._errors_changed(t_rx_ns)

    def _judge(self, t_rx_ns: int) -> None:
        """Judge the watchdogs of all axes, the worst of which counts, once all are read."""
        if len(self._watchdogs) < 2 * len(self._numbers):
            return
        on = all(self._watchdogs[f"axis{n}.config.enable_watchdog"] for n in self._numbers)
        longest_s = max(self._watchdogs[f"axis{n}.config.watchdog_timeout"] for n in self._numbers)
        self._watchdogs.clear()
        self._known(t_rx_ns, timeout_ms=1e3 * longest_s if on and isfinite(longest_s) else 0.0)

    def _ask(self) -> bytes:
        """Return nothing: every question leaves with a command."""
        return b""

    def _poll(self) -> bytes:
        """Return the next question of the cycle; nothing while one is open."""
        now_ns = self._now_ns
        if self._open:
            if now_ns - self._open_ns < ANSWER_NS:
                return b""
            # Its answer may still come, and would be taken for the next one.
            self._open, self._quiet_ns = "", now_ns + ANSWER_NS
        if now_ns < self._quiet_ns:
            return b""
        self._open, self._open_ns = self._cycle[self._turn % len(self._cycle)], now_ns
        self._turn += 1
        return encode_line(self._open)

    def _drive(self, outputs: tuple[float, ...], brake: float) -> bytes:
        lines = ["sc"] if self._wants_clear() else []
        for number, axis in zip(self._numbers, self._axes, strict=True):
            if self._wants_loop(axis):
                lines.append(f"w axis{number}.requested_state {CLOSED_LOOP}")
            # Each of the two commands also changes the control mode.
            velocity, value = self._setpoint(outputs[number], brake)
            lines.append(f"{'v' if velocity else 'c'} {number} {value:.4f}")
        return b"".join(map(encode_line, lines))
