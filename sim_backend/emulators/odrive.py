"""Emulator of an ODrive on CAN and by its ASCII protocol: axis states, watchdog, errors, telemetry.
Facts: drivers/motor/NOTES.md.

It is set up as the driver's table in the profile expects: calibrated, and its watchdog at the
longest accepted timeout.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from drivers.motor.lines import BoundedLines
from drivers.motor.odrive import (
    CLOSED_LOOP,
    IDLE,
    WATCHDOG,
    CanSimple,
    OdriveFrame,
    OdriveParams,
    decode_can,
    decode_line,
    encode_can,
    encode_line,
)
from sim_backend.emulators.can_bus import CanBus, CanNode
from sim_backend.emulators.interface import DriveCommand
from sim_backend.emulators.line import AnsweringDevice, baud_of, on_its_line
from sim_backend.emulators.motor_stage import FAULT, OWN_TIMEOUT, MotorScales, MotorStages, signs_of
from vehicled.core.messages import Message, MotorStatus
from vehicled.core.wire.can import CanFrame
from vehicled.profile.schema import DeviceTable

HEARTBEAT_NS = 100_000_000
ESTOP_BIT = {"0.5": 0x4000, "0.6": 0x200_0000}
KINDS: Mapping[str, float] = MappingProxyType({FAULT: 0.0, OWN_TIMEOUT: 1.0})
"""Injectable failures: an emergency stop that it reports, or an error by its bits; set-points that
get lost."""


class Axes:
    """Axes of a controller with a common state: they are calibrated, armed and disarmed alike."""

    def __init__(self, device: DeviceTable, outputs: Sequence[str], start_ns: int) -> None:
        params: OdriveParams = device.driver.selected
        self._params = params
        self.timeout_ms = params.timeout_ms
        """Watchdog of every axis, ms; 0 for none."""
        scales = MotorScales(
            max_current_a=params.max_torque_nm,
            max_speed_mps=params.max_speed_mps,
            erpm_per_mps=params.turns_per_m,
        )
        self.stages = MotorStages(scales, signs_of(outputs, device.mix), self.timeout_ms, start_ns)
        self.state = IDLE
        self.errors = 0
        self.velocity = True

    def restart(self, now_ns: int) -> None:
        self.state, self.errors, self.velocity = IDLE, 0, True
        self.stages.restart(now_ns)

    def observe(self, message: MotorStatus, now_ns: int) -> None:
        self.stages.observe(message, 1.0, now_ns)

    def request(self, state: int, now_ns: int) -> None:
        """Enter a state; closed loop only without errors."""
        if state == CLOSED_LOOP and self.errors:
            return
        self.state = state
        if state == CLOSED_LOOP:
            self.stages.feed(now_ns)
        else:
            self.stages.release(now_ns)

    def fail(self, bits: int, now_ns: int) -> None:
        """Disarm with an error, which stays until it is cleared."""
        self.errors |= bits
        self.request(IDLE, now_ns)

    def inject(self, kind: str, value: float, active: bool, now_ns: int) -> None:
        if kind == OWN_TIMEOUT:
            self.stages.lose(active)
        elif active:
            self.fail(round(value) or ESTOP_BIT[self._params.firmware], now_ns)

    def set_point(self, index: int, value: float, *, velocity: bool, now_ns: int) -> None:
        """Take a set-point, which counts in closed loop only."""
        self.stages.feed(now_ns)
        if self.state == CLOSED_LOOP:
            (self.stages.speed if velocity else self.stages.torque)(index, value, now_ns)

    def watch(self, now_ns: int) -> None:
        """Run the duties of the motors, and disarm when the watchdog has expired."""
        self.stages.on_time(now_ns)
        if self.state == CLOSED_LOOP and self.timeout_ms and self.stages.timed_out:
            self.fail(WATCHDOG[self._params.firmware], now_ns)


class OdriveNode(CanNode):
    """One axis on CAN."""

    kinds = KINDS

    def __init__(self, port: str, device: DeviceTable, seed: int, start_ns: int) -> None:
        super().__init__()
        self._node = device.driver.selected.node_id
        self.axes = Axes(device, ("motor",), start_ns)
        """The axis."""
        self._heartbeat_ns = start_ns + HEARTBEAT_NS

    def on_message(self, message: Message, now_ns: int) -> None:
        if isinstance(message, MotorStatus):
            self.axes.observe(message, now_ns)
            self._tx.append(self._values(CanSimple.ENCODER_ESTIMATES))

    def next_due_ns(self) -> int:
        return min(self._heartbeat_ns, self.axes.stages.next_due_ns())

    def on_time(self, now_ns: int) -> None:
        self.axes.watch(now_ns)
        if now_ns >= self._heartbeat_ns:
            self._heartbeat_ns += HEARTBEAT_NS
            self._tx.append(
                self._frame(CanSimple.HEARTBEAT, self.axes.errors, self.axes.state, bytes(3))
            )

    def restart(self, now_ns: int) -> None:
        self.axes.restart(now_ns)

    def inject(self, kind: str, value: float, active: bool, now_ns: int) -> None:
        self.axes.inject(kind, value, active, now_ns)

    def take_commands(self) -> Sequence[DriveCommand]:
        return self.axes.stages.take_commands()

    def on_frame(self, frame: CanFrame, now_ns: int) -> None:
        message = decode_can(frame)[1]
        if message is None or message.node_id != self._node:
            return
        # Firmware 0.5 feeds the watchdog by every frame for the axis.
        self.axes.stages.feed(now_ns)
        if message.asks:
            if not self.axes.stages.sampled:
                return
            self._tx.append(self._values(CanSimple(message.command)))
            return
        match message.command, message.values:
            case CanSimple.SET_AXIS_STATE, (int(state),):
                self.axes.request(state, now_ns)
            case CanSimple.SET_CONTROLLER_MODE, (int(mode), _):
                self.axes.velocity = mode == 2
            case CanSimple.SET_INPUT_VEL, (float(speed), _):
                self.axes.set_point(0, speed, velocity=True, now_ns=now_ns)
            case CanSimple.SET_INPUT_TORQUE, (float(torque),):
                self.axes.set_point(0, torque, velocity=False, now_ns=now_ns)
            case CanSimple.CLEAR_ERRORS, _:
                self.axes.errors = 0
            case CanSimple.ESTOP, _:
                self.axes.fail(ESTOP_BIT["0.5"], now_ns)
            case _:
                pass

    def _values(self, command: CanSimple) -> CanFrame:
        stages = self.axes.stages
        values = {
            CanSimple.ENCODER_ESTIMATES: (0.0, stages.turns_per_s[0]),
            CanSimple.BUS_VOLTAGE_CURRENT: (stages.voltage_v, stages.input_current_a),
            CanSimple.IQ: (stages.current_a, stages.current_a),
            CanSimple.TEMPERATURE: (30.0, 30.0),
        }
        return self._frame(command, *values[command])

    def _frame(self, command: CanSimple, *values: float | int | bytes) -> CanFrame:
        return encode_can(OdriveFrame(self._node, command, values))


class OdriveLine(AnsweringDevice):
    """Both axes by lines of text."""

    kinds = KINDS

    def __init__(self, port: str, device: DeviceTable, seed: int, start_ns: int) -> None:
        super().__init__(baud_of(device.port))
        self.axes = Axes(device, ("axis0", "axis1"), start_ns)
        """Both axes."""
        self._errors = "error" if device.driver.selected.firmware == "0.5" else "active_errors"
        self._reader = BoundedLines()

    def on_message(self, message: Message, now_ns: int) -> None:
        if isinstance(message, MotorStatus):
            self.axes.observe(message, now_ns)

    def next_due_ns(self) -> int:
        return min(super().next_due_ns(), self.axes.stages.next_due_ns())

    def on_time(self, now_ns: int) -> None:
        self.axes.watch(now_ns)
        super().on_time(now_ns)

    def restart(self, now_ns: int) -> None:
        self.axes.restart(now_ns)

    def inject(self, kind: str, value: float, active: bool, now_ns: int) -> None:
        self.axes.inject(kind, value, active, now_ns)

    def take_commands(self) -> Sequence[DriveCommand]:
        return self.axes.stages.take_commands()

    def on_bytes(self, data: bytes, now_ns: int) -> None:
        for line in self._reader.feed(data):
            text = decode_line(line)
            if text is not None and self.axes.stages.sampled:
                self._obey(text.split(), now_ns)

    def _obey(self, words: list[str], now_ns: int) -> None:
        match words:
            case ["f", ("0" | "1") as number]:
                self.answer(
                    encode_line(f"0.000000 {self.axes.stages.turns_per_s[int(number)]:f}"), now_ns
                )
            case ["r", path]:
                self.answer(encode_line(self._property(path)), now_ns)
            case ["v" | "c", ("0" | "1") as number, value]:
                self.axes.set_point(
                    int(number), float(value), velocity=words[0] == "v", now_ns=now_ns
                )
            case ["w", path, state] if path.endswith("requested_state"):
                self.axes.request(int(state), now_ns)
            case ["sc"]:
                self.axes.errors = 0
            case _:
                pass

    def _property(self, path: str) -> str:
        stages, key = self.axes.stages, path.rpartition(".")[2]
        values: dict[str, float | int] = {
            "vbus_voltage": stages.voltage_v,
            "ibus": stages.input_current_a,
            "enable_watchdog": int(self.axes.timeout_ms > 0),
            "watchdog_timeout": self.axes.timeout_ms / 1e3,
            self._errors: self.axes.errors,
            "current_state": self.axes.state,
        }
        return str(values[key]) if key in values else "invalid property"


def odrive_can(port: str, device: DeviceTable, seed: int, start_ns: int) -> CanBus:
    """Return an axis with its bus."""
    return CanBus(OdriveNode(port, device, seed, start_ns), start_ns)


odrive_ascii = on_its_line(OdriveLine)
