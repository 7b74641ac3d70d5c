"""Emulator of a Pololu Maestro: targets of two channels, serial timeout, errors. Facts:
drivers/motor/NOTES.md.

The pulses mean what they do on the PWM board. At the timeout both channels go off: the motor stops
and the servo stays.
"""

from collections.abc import Mapping
from types import MappingProxyType

from drivers.motor.maestro import SERIAL_TIMEOUT, CommandReader, MaestroParams
from sim_backend.emulators.interface import NEVER_NS
from sim_backend.emulators.line import baud_of, on_its_line
from sim_backend.emulators.motor_stage import FAULT
from sim_backend.emulators.pwm_board import PwmBoardUnit
from sim_backend.emulators.vesc_motor import HOLD_NS
from vehicled.profile.schema import DeviceTable


class MaestroUnit(PwmBoardUnit):
    """Servo controller as a :class:`sim_backend.emulators.line.LineDevice`, set up as the driver's
    table expects."""

    kinds: Mapping[str, float] = MappingProxyType({FAULT: 8.0})

    def __init__(self, port: str, device: DeviceTable, seed: int, start_ns: int) -> None:
        params: MaestroParams = device.driver.selected
        self._own = params
        self.timeout_ms = params.timeout_ms
        """Serial timeout, ms; 0 for none."""
        self.errors = 0
        self._fed_ns, self._hold_ns = NEVER_NS, start_ns
        super().__init__(port, device, seed, start_ns)
        self._baud = baud_of(device.port)

    def _begin(self) -> None:
        super()._begin()
        self._reader = CommandReader(self._own.device_number)

    def inject(self, kind: str, value: float, active: bool, now_ns: int) -> None:
        """Remember an error."""
        if active:
            self.errors |= round(value)

    def _expiry_ns(self) -> int:
        return (
            self._fed_ns + self.timeout_ms * 1_000_000
            if self.timeout_ms and self._fed_ns != NEVER_NS
            else NEVER_NS
        )

    def next_due_ns(self) -> int:
        return min(self._hold_ns, self._expiry_ns())

    def on_time(self, now_ns: int) -> None:
        """Switch the channels off at the timeout, and repeat the outputs: a servo controller has no
        other."""
        if now_ns >= self._expiry_ns():
            self._fed_ns = NEVER_NS
            self.errors |= SERIAL_TIMEOUT
            self._drive_us = self._own.drive_neutral_us
        self._emit(now_ns)

    def on_bytes(self, data: bytes, now_ns: int) -> None:
        for command in self._reader.feed(data):
            self._fed_ns = now_ns
            if command is None:
                self._tx.append(self.errors.to_bytes(2, "little"))
                self.errors = 0
            elif command.channel == self._own.servo_channel:
                self._servo_us = command.pulse_us
            elif command.channel == self._own.drive_channel:
                self._drive_us = command.pulse_us
                self.frames += 1
        self._emit(now_ns)

    def _emit(self, now_ns: int) -> None:
        self._commands.append(self._command(now_ns))
        self._hold_ns = now_ns + HOLD_NS


maestro = on_its_line(MaestroUnit)
